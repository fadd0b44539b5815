"""A second person joins while the first one is offline: answers to questions that were prepared on the first one's page
are never lost."""

import csv
from itertools import product

import pytest

from oal_engine.sessions import asking, look_back
from oal_engine.sessions.files import export
from oal_engine.sessions.insights import agreement
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SKIP, SessionError
from tests.harness.sessions import EVENTS, begin, label_truly, reply


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Let a second person join without waiting for the pages of others."""
    monkeypatch.setattr(asking, "JOIN_WAIT_SECONDS", 0)


def cut(opened, who="anna", label=1):
    """Return a person's current question, and the one prepared to follow the answer `label`, for use offline."""
    held, painted = opened.held(who)[0], opened.branches[label].asked
    return held, painted


def joined_while_cut(store, seed, given):
    """Begin a session that Ben joins while Anna is offline, before her answer `given` arrives. Return the session,
    Anna's question, the prepared question that she answers next, Ben's questions, and whether anybody was asked the
    prepared item."""
    opened = begin(store, shuffled=True, seed=seed)
    for _ in range(seed % 5):
        reply(opened, "anna")
    held, painted = cut(opened, label=given)
    theirs = opened.held("ben")
    opened.answer(next(EVENTS), held.id, given, "anna")
    return opened, held, painted, theirs, opened.store.asked_of_item(opened.id, painted.id) is not None


def ours(opened, question):
    """Return two lists of (annotator, label) about the item of a question: the labels, and the late answers."""
    item = opened.store.item_of(opened.id, question)
    labels = [(entry.annotator, entry.label) for entry in opened.log if entry.item == item and entry.label is not None]
    late = [(row["annotator"], row["label"]) for row in opened.store.opinions(opened.id) if row["item"] == item]
    return labels, late


def test_a_prepared_answer_is_stored_where_a_second_person_has_joined(store):
    """Anna gives two answers offline, and Ben joins meanwhile. Both are stored: the second one as the label if its item
    was asked about by then, otherwise as a late answer. The reopened session has the same state."""
    cases = set()
    for seed, given in product(range(6), (1, -1, SKIP)):
        opened, held, painted, theirs, was_asked = joined_while_cut(store, seed, given)
        opened.answer(next(EVENTS), painted.id, -1, "anna")
        assert (([("anna", -1)], []) if was_asked else ([], [("anna", -1)])) == ours(opened, painted.id)
        assert (held.id, given) in [(entry.id, entry.label) for entry in opened.log]
        for asked in [each for each in theirs if each.item == painted.item]:  # Ben's answer is late
            opened.answer(next(EVENTS), asked.id, 1, "ben")
            assert ([("anna", -1)], [("ben", 1)]) == ours(opened, painted.id)
        assert look_back.verify(store, opened.id).verified
        assert opened.digest() == Session(store, opened.id).digest()
        cases.add(was_asked)
    assert {True, False} == cases


def test_an_answer_to_an_item_that_was_never_asked_is_exported(store, tmp_path):
    """A late answer about an item that was never asked about is exported with the opinions, without a question number.
    It is counted for its annotator, but not as a second answer."""
    for seed, given in product(range(12), (1, -1, SKIP)):
        opened, _, painted, _, was_asked = joined_while_cut(store, seed, given)
        if not was_asked:
            break
    opened.answer(next(EVENTS), painted.id, -1, "anna")
    export.export(store, opened.id, "opinions", "csv", tmp_path / "late.csv")
    (row,) = csv.DictReader((tmp_path / "late.csv").read_text().splitlines())
    item = store.item(opened.dataset.id, painted.item)["id"]
    assert ("", item, "late", "anna", "") == tuple(
        row[name] for name in ("number", "id", "kind", "annotator", "stands")
    )
    assert 1 == next(person.late for person in agreement.people(opened) if person.name == "anna")
    assert [] == agreement.answer_pairs(opened)


def test_an_answer_to_what_nobody_was_shown_is_refused(store):
    """A late answer is refused if its question does not exist or was prepared for somebody else."""
    opened = begin(store)
    _, painted = cut(opened)
    opened.held("ben")
    for question, who in ((painted.id, "carla"), (painted.id + 1000, "anna")):
        if opened.store.asked_of_item(opened.id, question) is None:
            with pytest.raises(SessionError, match="this item is not the current question"):
                opened.answer(next(EVENTS), question, 1, who)
    assert [] == store.opinions(opened.id)


def test_corrections_keep_few_prepared_questions(store):
    """Each correction stores at most three prepared questions, one for each possible answer."""
    opened = begin(store)
    label_truly(opened, 4)
    count = f"SELECT count(*) FROM questions WHERE session = {opened.id}"
    before = store.number(count)
    for turn in range(10):
        opened.correct(next(EVENTS), opened.log[0].id, 1 if turn % 2 else -1)
    assert store.number(count) - before <= 3 * 10
