"""Messages about a question of another session reveal nothing and store nothing, whoever sends them."""

import inspect
import io
import json
from functools import cache
from itertools import product

import pytest

from oal_engine.output.jsonlines import JsonLinesError
from oal_engine.sessions import backups, look_back
from oal_engine.sessions.files import bundle
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SessionError, create
from oal_engine.store import Store, StoreError
from tests.harness.pages import ADMIN, BINARY
from ui.label import messages
from ui.label.card_server import card_server
from ui.label.panels import history

ANNA, BEN = (f"{name}@example.org" for name in ("anna", "ben"))
NOWHERE = 10**6  # no question has this number
TABLES = ("questions", "labels", "opinions", "leases", "events", "digests")
KINDS = {
    "label": {"label": 1, "seconds": 1.0},
    "another class": {"action": "label", "label": 3},
    "skip": {},
    "undo": {},
    **{f"correct {was}": {"action": "correct", "label": 1, "was": was} for was in (-1, 0, 1)},
    "with its item": {"action": "label", "label": 1, "item": 0},
}


@pytest.fixture
def theirs(app_store, keep):
    """Anna's session, with answered, waiting and prepared questions."""
    session = create(app_store, keep("private texts", items=60), **BINARY, budget=20, owner=ANNA)
    opened = Session(app_store, session)
    for number in range(4):
        opened.answer(f"given {number}", opened.held(ANNA)[0].id, (1, -1, 0)[number % 3], ANNA)
    return opened


@pytest.fixture
def own(app_store, keep):
    """The id of Ben's own session, with three classes."""
    classes = {"algorithm": "MPAA-I", "classes": ("x", "y", "z")}
    return create(app_store, keep("own texts", items=60), budget=20, owner=BEN, **classes)


def stored(store, session):
    """Return all that the database stores about a session."""
    found = {"log": store.log_version(session)}
    for table in TABLES:
        of = "question IN (SELECT id FROM questions WHERE session = ?)"
        where = of if table in ("labels", "opinions", "leases") else "session = ?"
        found[table] = store.query(f"SELECT * FROM {table} WHERE {where}", session)
    return found


def sentence(act):
    """Call a function. Return the error that the sender of a message reads, or "done" if there is none."""
    try:
        act()
    except (SessionError, StoreError) as error:
        return str(error)
    return "done"


@pytest.fixture(params=["card", "routes"])
def send(request, own, program):
    """A function that sends an event to Ben's session, as its card or as a program with a token, and returns the error
    or "done"."""

    def from_card(event, who):
        return sentence(lambda: card_server(own).handle(messages.read(messages.CardEvent, event), who))

    clients = cache(program)

    def with_token(event, who):
        answer = clients(own, "owner", who).post("events", json=event)
        assert answer.status_code in (200, 409)
        return answer.json().get("error", "done")

    return from_card if request.param == "card" else with_token


@pytest.mark.slow
def test_a_message_reaches_no_question_of_another_session(app_store, theirs, own, send, become):
    """If an event names a question of another session, the reply is the same as for an unknown question and the other
    session stays unchanged, whatever role the sender has there."""
    for role, kind in product(("owns the studio", None, "reader", "annotator", "owner", "was annotator"), KINDS):
        who = ADMIN if role == "owns the studio" else BEN
        if role in ("reader", "annotator", "owner"):
            app_store.put_role(theirs.id, BEN, role, ANNA)
        if role == "was annotator":
            for question in [entry.id for entry in theirs.log]:
                app_store.lease(theirs.id, question, BEN)
            app_store.put_role(theirs.id, BEN, None, ANNA)
        become(who)
        before = stored(app_store, theirs.id)
        card_server(own).payload(annotator=who)
        rows = app_store.query("SELECT id, item FROM questions WHERE session = ?", theirs.id)
        assert len(rows) > len(theirs.log), "some are prepared"
        told = set()
        for number, row in enumerate([{"id": NOWHERE, "item": 0}, *rows]):
            event = {"id": f"{role} {kind} {number}", "action": kind, "question": row["id"]} | KINDS[kind]
            if "item" in event:
                event["item"] = row["item"]
            told.add(send(event, who))
        assert 1 == len(told), (role, kind, told)
        assert before == stored(app_store, theirs.id), (role, kind)


@pytest.mark.parametrize("name", ["", BEN])
def test_a_second_tab_of_a_person_follows_the_first(app_store, own, sent, name):
    """An answer to the item that the same person has just answered in another tab moves this tab to the current item.
    The same label is stored already; another one, and a late answer to a skipped item, is refused aloud. Nobody else
    is named."""

    def press(tab, action, label=None):
        event = {"id": f"{tab} {label} {question['id']}", "question": question["id"], "item": question["item"]}
        changes = {"was": 0} if action == "correct" else {}
        told = sent(own, event | {"action": action, "label": label} | changes, annotator=name)
        assert told["acked"] == [event["id"]]
        return told["place"]["question"], told["error"]

    by = f" by {name}" if name else ""
    refused = f"Not stored: this item was answered already{by}. To change the answer, correct it under History."
    question = sent(own, annotator=name)["place"]["question"]
    for first, again, other in ((1, ("label", 1), ("label", 2)), (None, ("skip", None), ("label", 1))):
        following, _ = press("first", "label" if first else "skip", first)
        assert following["id"] != question["id"]
        assert (following, None) == press("second", *again)
        assert (following, refused) == press("second", *other)
        question, skipped = following, question
    question = skipped
    assert press("first", "correct", 1)[1] is None
    assert press("second", "correct", 1)[1] == refused
    assert press("second", "correct", 2)[1] == refused
    labels = [(row["label"], row["annotator"]) for row in app_store.answers(own) if row["label"] is not None]
    assert [(1, name), (1, name)] == labels


@pytest.mark.parametrize("event", [
    messages.RowEvent(id="row", row=0, action=1), messages.RowTag(id="row", row=0, tag="unsure", given=True),
])  # fmt: skip
def test_a_row_of_a_list_is_one_of_its_session(app_store, theirs, own, event):
    opened, before = Session(app_store, own), stored(app_store, theirs.id)
    told = {
        sentence(lambda row=row: history.change(opened, event.model_copy(update={"row": row}), BEN))
        for row in (NOWHERE, *(entry.id for entry in theirs.log))
    }
    assert 1 == len(told)
    assert before == stored(app_store, theirs.id)


def test_every_statement_that_takes_a_question_takes_its_session():
    for name, method in inspect.getmembers(Store, inspect.isfunction):
        parameters = [*inspect.signature(method).parameters]
        if "question" in parameters:
            assert "session" in parameters[: parameters.index("question")], name


def test_nothing_is_written_about_a_question_of_another_session(app_store, theirs, own):
    question, before = theirs.log[0].id, stored(app_store, theirs.id)
    for act in (
        *(
            lambda kind=kind: app_store.put_event(own, kind, "e", BEN, question=question, label=1)
            for kind in ("answered", "corrected", "undone", "second", "late", "again", "withdrawn")
        ),
        lambda: app_store.lease(own, question, BEN),
    ):
        with pytest.raises(StoreError, match=rf"^session {own} has no question {question}\.$"):
            act()
    app_store.end_lease(own, theirs.current.id)
    app_store.pass_on(own, ANNA, BEN)
    app_store.number_question(own, question, 99)
    app_store.part_prepared(own, theirs.current.id)
    assert before == stored(app_store, theirs.id)
    assert ["grown"] == [row["kind"] for row in app_store.events(own)]
    assert (None, None) == (app_store.item_of(own, question), app_store.standing_label(own, question))
    assert {} == app_store.prepared(own, theirs.current.id)


@pytest.mark.parametrize(("place", "kinds"), [(0, ["late"]), (-1, ["answered", "undone"])])
def test_an_answer_of_a_class_that_a_session_does_not_have_is_found(app_store, theirs, place, kinds):
    """If an older version stored an answer with a class that the session does not have, `verify` and `check` report it,
    and the published file of the session is refused."""
    assert look_back.verify(app_store, theirs.id).verified
    entry = theirs.log[place]
    for kind in kinds:
        label = None if kind == "undone" else 3
        app_store.put_event(theirs.id, kind, f"foreign {kind}", BEN, question=entry.id, label=label)
    report = look_back.verify(app_store, theirs.id)
    assert not report.verified
    assert json.loads(json.dumps(report.as_dict()))["foreign"]
    wrong = f"the answer of {BEN} to question {entry.number} has the label 3, a class that the session does not have."
    assert wrong in str(report)
    assert [wrong in finding.problem for finding in backups.check(app_store) if finding.problem] == [True]
    bundle.publish(app_store, theirs.id, file := io.StringIO())
    with pytest.raises(JsonLinesError, match=r"the label of event \d+ is not one of the session"):
        bundle.adopt(app_store, io.StringIO(file.getvalue()))
