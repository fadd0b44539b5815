"""Messages from browsers: invalid ones are refused with an error, not stored, and do not hold up valid ones."""

import json
import math

import pytest

from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import ConflictError, StorageError, Store
from tests.harness.pages import ADMIN, BINARY, listed, run, words
from ui import access
from ui.label import messages
from ui.label.card_server import CardServer
from ui.page import Removed, store

HALF = "half a letter \ud83d"
NOTE = {"id": "n", "action": "note", "item": 0, "text": "fine"}
TAG = {"id": "t", "action": "tag", "item": 0, "tag": "ask", "given": True}
LABEL = {"id": "l", "action": "label", "question": 1, "label": 1, "seconds": 1.5, "highlighted": False}
CHOICE = {"id": "p", "action": "preferences", "changes": {"size": 3, "highlight": True, "keys": {"skip": "s"}}}
UNDO = {"id": "u", "action": "undo", "question": 1, "label": None, "seconds": 0}
CORRECTION = LABEL | {"id": "c", "action": "correct", "was": 0}
MARK = {"id": "m", "row": 3, "action": 1}
BROKEN = [
    *(NOTE | change for change in ({"text": HALF}, {"text": "x" * 2001}, {"text": None}, {"item": -1}, {"item": 0.5},
                                   {"item": 2**63}, {"id": "x" * 65}, {"annotator": HALF})),
    *(TAG | change for change in ({"tag": HALF}, {"tag": "x" * 61}, {"tag": None}, {"given": 1}, {"item": "0"})),
    *(LABEL | change for change in ({"label": 128}, {"label": "1"}, {"label": True}, {"question": None},
                                    {"seconds": math.nan}, {"seconds": math.inf}, {"seconds": -1}, {"highlighted": 7},
                                    {"labels": [1]}, {"labels": [1, 2]}, {"labels": [1, "1"]}, {"labels": [1] * 27})),
    *(CHOICE | {"changes": change} for change in ({"size": math.nan}, {"size": 1e300}, {"size": "b"}, {"keys": []},
                                                  {"keys": {"skip": HALF}}, {"keys": {"x" * 41: "y"}}, None)),
    UNDO | {"question": "1"}, CORRECTION | {"was": None}, CORRECTION | {"label": None}, LABEL | {"action": "drop"},
    LABEL | {"action": ["label"]}, {"id": "nothing"}, {"action": "undo", "question": 1}, "a", None, 7, [LABEL],
]  # fmt: skip


@pytest.mark.parametrize(
    "sent",
    [
        NOTE, TAG, LABEL, CHOICE, UNDO, CORRECTION, LABEL | {"action": "skip", "label": None},
        LABEL | {"labels": [1, 0, -1]},
    ],
)  # fmt: skip
def test_events_of_the_card_are_read(sent):
    event = messages.read(messages.CardEvent, sent | {"more": HALF}).model_dump(exclude_unset=True, by_alias=True)
    assert {name: sent[name] for name in event} == event
    assert sent["id"] == event["id"]


def test_a_key_press_takes_few_statements(keep, monkeypatch):
    """Storing an answer takes at most 10 SQL statements, one of them a commit, and the next card at most 6."""
    statements, connect = [], Store._connect

    def traced(self, mode):
        connection = connect(self, mode)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(Store, "_connect", traced)
    server = CardServer(create(store(), keep(), **BINARY, budget=40))
    for k in range(10):
        question = server.payload(annotator="carla")["place"]["question"]
        own = {"id": f"e{k}", "question": question["id"], "item": question["item"], "label": (-1) ** k}
        event = messages.read(messages.CardEvent, LABEL | own)
        statements.clear()
        server.handle(event, "carla")
        assert len(statements) <= 10
        assert statements.count("COMMIT") == 1
        statements.clear()
        server.payload(annotator="carla")
        assert len(statements) <= 6


@pytest.mark.parametrize("sent", BROKEN)
def test_an_invalid_event_is_refused_in_one_sentence(sent):
    """An event is refused for wrong types, NaN, unpaired surrogates, too long texts or an unknown action."""
    with pytest.raises(messages.MessageError, match=r"^the browser sent an invalid message \(.*\)\.$"):
        messages.read(messages.CardEvent, sent)


@pytest.mark.parametrize(("kind", "sent"), [
    (messages.RowEvent, MARK | {"row": math.nan}), (messages.RowEvent, MARK | {"action": "1"}),
    (messages.View, {"page": -1}), (messages.View, {"page": 1e9}), (messages.View, {"search": HALF}),
    (messages.View, {"search": "x" * 201}), (messages.View, {"show": None}), (messages.View, {"open": "1"}),
    (messages.View, "all"), (messages.Wanted, {"want": ["q1"] * 41}), (messages.Wanted, {"want": ["x1"]}),
    (messages.Wanted, {"want": ["q" + "1" * 16]}), (messages.Wanted, {"known": 7}), (messages.Review, -1),
    (messages.Review, math.nan), (messages.Review, "0"),
])  # fmt: skip
def test_invalid_messages_of_lists_and_the_player_are_refused(kind, sent):
    with pytest.raises(messages.MessageError):
        messages.read(kind, sent)


def test_broken_events_keep_no_other_from_being_stored(app_store, work, sent):
    """Invalid events are acknowledged with an error. An event after them is stored, once even if all are sent again."""
    server = work(answers=2)
    question = server.session.place.asked.id
    good = LABEL | {"id": "good", "question": question, "label": -1}
    for _ in range(2):  # a reload sends all of it again
        shown = sent(server.session.id, *BROKEN, good)
        assert shown["error"].startswith("Not stored: the browser sent an invalid message (")
        assert {"good", *map(messages.identity, BROKEN)} == {*shown["acked"], None}
    assert (question, -1) == (app_store.event("good")["question"], app_store.event("good")["label"])
    assert -1 == app_store.standing_label(server.session.id, question)["label"]


def test_a_message_that_no_card_sends_is_refused_whole(work, sent):
    server = work(answers=1)
    for message in (
        {"events": "events"}, {"events": {"id": "x"}}, {"events": [NOTE] * 101}, {"review": math.nan}, {"marks": 1},
        {"annotator": "x" * 321},
    ):  # fmt: skip
        told = sent(server.session.id, NOTE, **message, status=400)
        assert told["error"].startswith("The browser sent an invalid message (")
    assert {} == server.session.notes


def test_a_card_of_another_page_or_kind_is_refused_before_its_body_is_read(work, card_client):
    """A request with a foreign origin, a wrong content type or too large a body is refused before the body is read."""
    server = work(answers=1)
    for headers, status in (({"Origin": "http://evil.example"}, 403), ({"Content-Type": "text/plain"}, 415), ({}, 413)):
        body = json.dumps({"events": [NOTE]}) + " " * (5_000_000 if status == 413 else 0)
        headers = {"Content-Type": "application/json"} | headers
        assert status == card_client.post(str(server.session.id), content=body, headers=headers).status_code
    assert {} == server.session.notes


def test_strangers_learn_nothing_of_a_session(work, sent, become):
    server = work(answers=1, **BINARY, owner="anna@example.org")
    become("eve@example.org")
    for session in (server.session.id, 99, 10**30):
        told = sent(session, NOTE)
        assert ("Not stored: you have no role in this session any more.", ["n"]) == (told["error"], told["acked"])
        assert {"acked", "error", "removed"} == told.keys()
    assert {} == server.session.notes


def test_after_the_log_in_has_ended_events_wait_for_the_next_one(work, sent, monkeypatch):
    server = work(answers=1)
    monkeypatch.setattr(access, "_rules", lambda: (True, ("@example.org",), ()))
    assert {"error": access.LOG_IN} == sent(server.session.id, NOTE, status=401)
    assert {} == server.session.notes


def test_preferences_follow_their_annotator(work, sent, app_store):
    session = work(answers=1).session
    other = create(app_store, session.dataset.id, **BINARY)
    sent(session.id, CHOICE, annotator="anna")
    found = [sent(other, annotator=name)["preferences"] for name in ("anna", "ben")]
    assert [CHOICE["changes"], {}] == [each or {} for each in found]


def test_preferences_that_were_broken_before_break_no_card(app_store, work, sent):
    """If stored preferences are partly invalid, the card gets the valid ones, and a new choice is stored with these."""
    session = work(answers=1).session.id
    app_store.put_preferences("carla", {"size": math.nan, "highlight": True, "keys": 7, "more": [math.inf]})
    assert {"highlight": True} == sent(session)["preferences"]
    sent(session, CHOICE | {"changes": {"size": 2}})
    assert {"highlight": True, "size": 2} == app_store.preferences("carla")


def test_no_number_outside_json_goes_to_a_browser(work, sent, monkeypatch):
    from oal_engine.sessions.items import Items

    monkeypatch.setattr(Items, "_parts", lambda *_: [["a word", math.nan], ["another", -math.inf], ["third", 0.5]])
    shown = sent(work(answers=1).session.id)
    assert [["a word", None], ["another", None], ["third", 0.5]] == shown["place"]["question"]["parts"]


def list_of(at):
    """Return the data of the list on a page, parsed as strict JSON without NaN."""
    (proto,) = (each.proto for each in at.get("bidi_component") if each.proto.component_name == "oal_item_list")
    return json.loads(proto.json, parse_constant=pytest.fail)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["history", "pushed"])
def test_a_list_is_shown_whatever_view_is_wanted(work, name):
    """If the page or search wanted from a list is invalid, the list shows an error; an unknown filter shows no rows."""
    session, at = work().session.id, None
    for view in ({"page": -3}, {"show": "[]"}, {"show": "nonsense"}, {"search": HALF}, "x", [1]):
        at = listed(session, name, at, view=view)
        shown = list_of(at)
        assert shown["rows"] or "show" in view
        assert ("Not shown: " in (shown["error"] or "")) == ("show" not in view)


def test_a_mark_far_behind_the_stream_is_refused(work):
    at = listed(work().session.id, "pushed", events=[MARK | {"row": 10**15}])
    assert list_of(at)["error"].startswith("Not stored: a mark must be on one of the 600 rounds.")


def failing(*_):
    raise RuntimeError("nobody thought of this")


def test_a_failure_of_the_server_holds_back_answers_and_nothing_else(app_store, work, sent, monkeypatch, caplog):
    """If an event fails unexpectedly, the error is shown and logged, and the event is not acknowledged. After a failed
    answer, later answers wait but notes do not; after a failed note, nothing waits."""
    server = work(answers=2)
    question = server.session.place.asked.id
    label, following = LABEL | {"question": question}, LABEL | {"id": "l2", "question": question}
    with monkeypatch.context() as broken:
        broken.setattr(Session, "answer", failing)
        shown = sent(server.session.id, label, following, NOTE)
        assert ["n"] == shown["acked"]
        assert shown["error"].startswith("Not saved yet. The server failed (RuntimeError); its log says why.")
        assert "nobody thought of this" in caplog.text
        assert {0: "fine"} == server.session.notes
    with monkeypatch.context() as broken:
        broken.setattr(Session, "note", failing)
        shown = sent(server.session.id, NOTE | {"id": "n2"}, label)
        assert ["l"] == shown["acked"]
    shown = sent(server.session.id, NOTE | {"id": "n2"})
    assert (["n2"], None) == (shown["acked"], shown["error"])
    assert app_store.event("l")["number"] == app_store.standing_label(server.session.id, question)["given"]


def test_an_answer_that_contradicts_what_is_stored_is_not_dropped(work, sent, monkeypatch):
    """An answer that a constraint of the database refuses is not acknowledged, so that the browser keeps it."""
    server = work(answers=2)
    label = LABEL | {"question": server.session.place.asked.id}
    with monkeypatch.context() as broken:

        def refuse(*_):
            raise ConflictError("The database holds something that contradicts this.")

        broken.setattr(Session, "answer", refuse)
        shown = sent(server.session.id, label)
        assert [] == shown["acked"]
        assert shown["error"].startswith("Not saved yet. The database holds something")
    shown = sent(server.session.id, label)
    assert (["l"], None) == (shown["acked"], shown["error"])


def test_a_database_in_trouble_leaves_the_card_with_what_it_shows(work, sent, monkeypatch):
    """If the database fails, no event is acknowledged, the card keeps its item, and a sentence says why."""
    server = work(answers=2)
    question = server.session.place.asked.id
    label = LABEL | {"question": question}
    before = sent(server.session.id)
    with monkeypatch.context() as broken:

        def refuse(*_):
            raise StorageError("The disk is full.")

        broken.setattr(Session, "_catch_up", refuse)
        told = sent(server.session.id, label, NOTE, status=503)
        assert {"error": "Not saved yet. The disk is full. It is kept here and sent again."} == told
    shown = sent(server.session.id, label, NOTE)
    assert (["l", "n"], None) == (shown["acked"], shown["error"])
    assert shown["place"] != before["place"]


def test_an_event_has_the_name_of_its_annotator(app_store, work, sent, become):
    server = work(answers=2)
    question = server.session.place.asked.id
    sent(server.session.id, LABEL | {"question": question, "annotator": "dora"})
    assert "dora" == app_store.standing_label(server.session.id, question)["annotator"]
    question = Session(app_store, server.session.id).place.asked.id
    become(ADMIN)
    sent(server.session.id, LABEL | {"id": "l2", "question": question, "annotator": "dora"})
    assert ADMIN == app_store.standing_label(server.session.id, question)["annotator"]


def test_a_session_that_is_removed_says_so(app_store, work, sent):
    server = work(answers=2)
    session, question = server.session.id, server.session.place.asked.id
    at = run("pages/1_Label.py", session=str(session))
    app_store.remove_session(session)
    with pytest.raises(Removed):
        server.refresh()
    reason = "his session was removed. Its owner can restore it for 30 days."
    told = sent(session, LABEL | {"question": question}, UNDO)
    assert {"acked": ["l", "u"], "error": f"Not stored: t{reason}", "removed": f"T{reason}"} == told
    assert f"T{reason}" in words(at.run())
    assert not at.exception
