"""What browsers send and what they get: what makes no sense is not stored, and keeps nothing else waiting."""

import json
import math

import pytest

from oal_engine.sessions.session import Session
from oal_engine.store import ConflictError, StorageError
from tests.harness.pages import listed, run, words
from ui import messages
from ui.page import Removed

pytestmark = pytest.mark.slow

HALF = "half a letter \ud83d"
NOTE = {"id": "n", "action": "note", "item": 0, "text": "fine"}
LABEL = {"id": "l", "action": "label", "question": 1, "label": 1, "seconds": 1.5, "highlighted": False}
CHOICE = {"id": "p", "action": "preferences", "changes": {"size": 3, "highlight": True, "keys": {"skip": "s"}}}
UNDO = {"id": "u", "action": "undo", "question": 1, "label": None, "seconds": 0}
CORRECTION = LABEL | {"id": "c", "action": "correct", "was": 0}
MARK = {"id": "m", "row": 3, "action": 1}
BROKEN = [
    *(NOTE | change for change in ({"text": HALF}, {"text": "x" * 2001}, {"text": None}, {"item": -1}, {"item": 0.5},
                                   {"item": 2**63}, {"id": "x" * 65}, {"annotator": HALF})),
    *(LABEL | change for change in ({"label": 128}, {"label": "1"}, {"label": True}, {"question": None},
                                    {"seconds": math.nan}, {"seconds": math.inf}, {"seconds": -1}, {"highlighted": 7})),
    *(CHOICE | {"changes": change} for change in ({"size": math.nan}, {"size": 1e300}, {"size": "b"}, {"keys": []},
                                                  {"keys": {"skip": HALF}}, {"keys": {"x" * 41: "y"}}, None)),
    UNDO | {"question": "1"}, CORRECTION | {"was": None}, CORRECTION | {"label": None}, LABEL | {"action": "drop"},
    LABEL | {"action": ["label"]}, {"id": "nothing"}, {"action": "undo", "question": 1}, "a", None, 7, [LABEL],
]  # fmt: skip


@pytest.mark.parametrize("sent", [NOTE, LABEL, CHOICE, UNDO, CORRECTION, LABEL | {"action": "skip", "label": None}])
def test_what_the_card_sends_is_read(sent):
    """All that is sent comes out again, and what is not known is passed over."""
    found = messages.read(messages.CardEvent, sent | {"more": HALF}).model_dump(exclude_unset=True)
    assert {name: sent[name] for name in found} == found
    assert sent["id"] == found["id"]


@pytest.mark.parametrize("sent", BROKEN)
def test_what_no_card_sends_is_refused_in_one_sentence(sent):
    """Wrong types, numbers that are none, halves of letters, words without an end and unknown actions."""
    with pytest.raises(messages.MessageError, match=r"^the browser sent what cannot be read \(.*\)\.$"):
        messages.read(messages.CardEvent, sent)


@pytest.mark.parametrize(("kind", "sent"), [
    (messages.RowEvent, MARK | {"row": math.nan}), (messages.RowEvent, MARK | {"action": "1"}),
    (messages.View, {"page": -1}), (messages.View, {"page": 1e9}), (messages.View, {"search": HALF}),
    (messages.View, {"search": "x" * 201}), (messages.View, {"show": None}), (messages.View, {"open": "1"}),
    (messages.View, "all"), (messages.Wanted, {"want": ["q1"] * 41}), (messages.Wanted, {"want": ["x1"]}),
    (messages.Wanted, {"want": ["q" + "1" * 16]}), (messages.Wanted, {"known": 7}), (messages.Review, -1),
    (messages.Review, math.nan), (messages.Review, "0"),
])  # fmt: skip
def test_what_no_list_and_no_player_sends_is_refused(kind, sent):
    """Events and views of every component have their types and ranges."""
    with pytest.raises(messages.MessageError):
        messages.read(kind, sent)


def mounted(at, name="card"):
    """What the component gets, as a browser reads it: JSON in which NaN is no number."""
    for element in at.get("bidi_component"):
        if element.proto.component_name == f"oal_{name}":
            return json.loads(element.proto.json, parse_constant=pytest.fail)
    return None


def sent(session, *events, at=None):
    """The Label page after the card has sent events."""
    at = at or run("pages/1_Label.py", session=str(session), annotator="carla")
    at.session_state[f"card-{session}"] = {"events": [*events]}
    at.run()
    assert not at.exception
    return at, mounted(at)


@pytest.mark.parametrize("poison", BROKEN)
def test_a_broken_event_keeps_no_other_from_being_stored(app_store, work, poison):
    """It is said and done with; the answers behind it, also those of a page that is loaded anew, are stored."""
    server = work(answers=2)
    asked = server.session.place.asked.id
    good = LABEL | {"id": "good", "question": asked, "label": -1}
    for _ in range(2):  # a reload sends all of it again
        _, shown = sent(server.session.id, poison, good)
        assert shown["error"].startswith("Not stored: the browser sent what cannot be read (")
        assert "good" in shown["acked"]
        assert messages.identity(poison) in (*shown["acked"], None)
    assert -1 == app_store.standing_label(asked)["label"]
    assert "good" == app_store.standing_label(asked)["event"]


def test_events_that_are_no_list_are_passed_over(work):
    """Whatever stands where events are expected, the card opens."""
    session = work(answers=1).session.id
    for nonsense in ("events", 7, {"id": "x"}, [math.nan]):
        at = run("pages/1_Label.py", session=str(session))
        at.session_state[f"card-{session}"] = {"events": nonsense, "review": math.nan}
        at.run()
        assert not at.exception
        assert mounted(at)["place"]["question"]


def test_preferences_that_were_broken_before_break_no_card(app_store, work):
    """What makes sense of them is kept, and a new choice is stored beside it."""
    session = work(answers=1).session.id
    app_store.put_preferences("carla", {"size": math.nan, "highlight": True, "keys": 7, "more": [math.inf]})
    at, shown = sent(session)
    assert {"highlight": True} == shown["preferences"]
    sent(session, CHOICE | {"changes": {"size": 2}}, at=at)
    assert {"highlight": True, "size": 2} == app_store.preferences("carla")


def test_no_number_that_json_does_not_know_goes_to_a_browser(work, monkeypatch):
    """A learner that left the numbers behind shows its items all the same."""
    from ui.items import Items

    monkeypatch.setattr(Items, "_parts", lambda *_: [["a word", math.nan], ["another", -math.inf], ["third", 0.5]])
    _, shown = sent(work(answers=1).session.id)
    assert [["a word", None], ["another", None], ["third", 0.5]] == shown["place"]["question"]["parts"]


@pytest.mark.parametrize("view", [{"page": -3}, {"show": "[]"}, {"show": "nonsense"}, {"search": HALF}, "x", [1]])
@pytest.mark.parametrize("name", ["history", "pushed"])
def test_a_list_is_shown_whatever_view_is_wanted(work, name, view):
    """A view that cannot be read is said, an unknown choice shows nothing, and neither ends the page."""
    at = listed(work().session.id, name, view=view)
    assert not at.exception
    shown = mounted(at, "item_list")
    assert shown["rows"] or "nonsense" in str(view) or "[]" in str(view)
    assert ("Not shown: " in (shown["error"] or "")) == ("show" not in view)


def test_a_mark_far_behind_the_stream_is_refused(work):
    """A row that no list has is said, and not looked for."""
    at = listed(work().session.id, "pushed", events=[MARK | {"row": 10**15}])
    assert not at.exception
    assert mounted(at, "item_list")["error"].startswith("Not stored: a mark must be on one of the 600 rounds.")


def failing(*_):
    raise RuntimeError("nobody thought of this")


def test_a_failure_of_the_server_holds_back_answers_and_nothing_else(app_store, work, monkeypatch, caplog):
    """What fails for no known reason is said, logged and kept. An answer behind an answer waits for it; a note does not
    wait, and nothing waits for a note."""
    server = work(answers=2)
    asked = server.session.place.asked.id
    label, following = LABEL | {"question": asked}, LABEL | {"id": "l2", "question": asked}
    with monkeypatch.context() as broken:
        broken.setattr(Session, "answer", failing)
        at, shown = sent(server.session.id, label, following, NOTE)
        assert ["n"] == shown["acked"]
        assert shown["error"].startswith("Not saved yet. The server failed (RuntimeError); its log says why.")
        assert "nobody thought of this" in caplog.text
        assert {0: "fine"} == app_store.notes(server.session.id)
    with monkeypatch.context() as broken:
        broken.setattr(Session, "note", failing)
        _, shown = sent(server.session.id, NOTE | {"id": "n2"}, label, at=at)
        assert ["l"] == shown["acked"]
    _, shown = sent(server.session.id, NOTE | {"id": "n2"}, at=at)
    assert (["n2"], None) == (shown["acked"], shown["error"])
    assert "l" == app_store.standing_label(asked)["event"]


def test_an_answer_that_contradicts_what_is_stored_is_not_dropped(app_store, work, monkeypatch):
    """A constraint that refuses an answer is a fault of the program: the browser keeps the answer."""
    server = work(answers=2)
    label = LABEL | {"question": server.session.place.asked.id}
    at, _ = sent(server.session.id)
    with monkeypatch.context() as broken:

        def refuse(*_):
            raise ConflictError("The database holds something that contradicts this.")

        broken.setattr(Session, "answer", refuse)
        at, shown = sent(server.session.id, label, at=at)
        assert [] == shown["acked"]
        assert shown["error"].startswith("Not saved yet. The database holds something")
    _, shown = sent(server.session.id, label, at=at)
    assert (["l"], None) == (shown["acked"], shown["error"])


def test_a_database_in_trouble_leaves_the_card_with_what_it_shows(app_store, work, monkeypatch):
    """Neither an event nor the next question gets through: the card stays, says so, and acknowledges nothing."""
    server = work(answers=2)
    asked = server.session.place.asked.id
    label = LABEL | {"question": asked}
    at, before = sent(server.session.id)
    with monkeypatch.context() as broken:

        def refuse(*_):
            raise StorageError("The disk is full.")

        broken.setattr(Session, "refresh", refuse)
        at, shown = sent(server.session.id, label, NOTE, at=at)
        assert before["place"] == shown["place"]
        assert ([], "Not saved yet. The disk is full. It is kept here and sent again.") == (
            shown["acked"], shown["error"],
        )  # fmt: skip
    _, shown = sent(server.session.id, label, NOTE, at=at)
    assert (["l", "n"], None) == (shown["acked"], shown["error"])
    assert shown["place"] != before["place"]


def test_an_event_belongs_to_whose_name_stood_there(app_store, work, monkeypatch):
    """Without a log-in the name travels with the event, also from a tab that is gone; a log-in's name counts alone."""
    server = work(answers=2)
    asked = server.session.place.asked.id
    at, _ = sent(server.session.id, LABEL | {"question": asked, "annotator": "dora"})
    assert "dora" == app_store.standing_label(asked)["annotator"]
    asked = Session(app_store, server.session.id).place.asked.id
    monkeypatch.setattr("ui.components.card.who_labels", lambda: ("carla", True))
    sent(server.session.id, LABEL | {"id": "l2", "question": asked, "annotator": "dora"}, at=at)
    assert "carla" == app_store.standing_label(asked)["annotator"]


def test_a_session_that_is_removed_says_so(app_store, work):
    """Its card takes no event and leads to the other sessions, its server follows nothing, its page is a sentence."""
    server = work(answers=2)
    session, asked = server.session.id, server.session.place.asked.id
    at, _ = sent(session)
    app_store.remove_session(session)
    with pytest.raises(Removed):
        server.refresh()
    with pytest.raises(Removed):
        server.handle(messages.read(messages.CardEvent, LABEL | {"question": asked}), "anna")
    shown = server.payload("Not stored: this session was removed.", "anna", 0)
    assert (None, "removed") == (shown["place"]["question"], shown["place"]["end"])
    assert {"All sessions": "./"} == shown["links"]
    assert "There is no session yet." in words(at.run())
    assert not at.exception
