"""Questions that are repeated to the person who answered them: they come after twenty answers, hide the first answer,
and change nothing else in the session."""

import numpy as np
import pytest

from oal_engine.kernel.draws import draws
from oal_engine.sessions import look_back
from oal_engine.sessions.asking import REPEAT_AFTER
from oal_engine.sessions.insights import agreement
from oal_engine.sessions.open_run import REPEAT
from oal_engine.sessions.settings import SKIP, SessionError
from tests.harness.sessions import EVENTS, begin, bits, leave, reply

SOON = 3  # answers before a question is repeated in most tests, instead of twenty


@pytest.fixture
def soon(monkeypatch):
    """Repeat each question after SOON answers instead of twenty."""
    monkeypatch.setattr("oal_engine.sessions.asking.REPEAT_AFTER", SOON)


def again(opened, who="anna"):
    """Return the questions now assigned to a person that this person has answered before."""
    return [asked for asked in opened.held(who) if asked.blind]


def until_again(opened, who="anna"):
    """Give true answers for a person until their first assigned question is a repeated one. Return that question."""
    while not (found := again(opened, who)):
        reply(opened, who)
    while opened.held(who)[0] != found[0]:
        reply(opened, who)
    return found[0]


def kinds(opened):
    return [(row["question"], row["annotator"], row["kind"], row["label"]) for row in opened.store.opinions(opened.id)]


def test_a_session_is_the_same_to_the_bit_whether_items_are_asked_twice_or_not(store):
    """Repeated questions change neither the other questions, the learner nor the budget, bit for bit. Even with them, a
    session of one person logs no `asked` events. It ends once every repetition that is due was answered."""
    plain, opened = begin(store, shuffled=True), begin(store, shuffled=True, repeat=0.5)
    while plain.held("anna"):
        reply(plain, "anna")
    while opened.held("anna"):
        reply(opened, "anna", 1 if opened.held("anna")[0].blind else None)
    assert (plain.digest(), plain.labels, bits(plain)) == (opened.digest(), opened.labels, bits(opened))
    facts = [[(entry.round, entry.probability, entry.draw) for entry in each.log] for each in (plain, opened)]
    assert facts[0] == facts[1]
    assert ([], []) == (store.events(opened.id, "asked"), store.opinions(plain.id))
    assert 40 == opened.place.progress.labels
    chosen = np.flatnonzero(draws(opened.settings.seed ^ REPEAT, opened.rounds) < 0.5)
    early = [entry.id for entry in opened.log[: 40 - REPEAT_AFTER] if entry.round in chosen]
    assert sorted(early) == sorted(question for question, *_ in kinds(opened))
    assert look_back.verify(store, opened.id).verified


def test_a_question_comes_again_after_twenty_answers_and_shows_no_earlier_one(store):
    """A question is repeated twenty answers after it was answered, together with the current question. Until the person
    answers again, neither the repeated question nor the history shows the first answer."""
    opened = begin(store, repeat=1)
    first = reply(opened, "anna")
    for _ in range(REPEAT_AFTER - 1):
        reply(opened, "anna")
        assert [] == again(opened)
    assert set() == opened.unseen("anna")
    reply(opened, "anna")
    current, asked = opened.held("anna")
    assert (opened.place.asked, first.id, None) == (current, asked.id, asked.old)
    assert {asked.id} == opened.unseen("anna")
    labels = opened.place.progress.labels
    opened.answer(next(EVENTS), asked.id, -1, "anna")
    assert ([(asked.id, "anna", "again", -1)], labels) == (kinds(opened), opened.place.progress.labels)
    assert asked.id not in opened.unseen("anna") | {each.id for each in opened.held("anna")}


def test_the_next_item_stays_prepared(store, soon):
    """A person who works alone always has the next question prepared for each possible answer, even while a question is
    repeated."""
    opened = begin(store, repeat=1)
    asked = until_again(opened)
    current = opened.place.asked
    assert [asked.id, current.id] == [each.id for each in opened.held("anna")]
    assert {current.id} == {place.asked.id for place in opened.places_after(asked, current).values()}
    assert {opened.place.progress.labels} == {
        place.progress.labels for place in opened.places_after(asked, current).values()
    }
    prepared = {label: place.asked for label, place in opened.branches.items()}
    assert {1, -1, SKIP} == prepared.keys()
    reply(opened, "anna")
    reply(opened, "anna", 1)
    assert prepared[1].id == opened.place.asked.id


def test_an_answer_given_again_can_be_taken_back(store, soon):
    """An undo of a repeated answer asks the question once more and keeps the first label. An event that is sent twice
    changes nothing, and the repeated answer that is given after the undo counts."""
    opened = begin(store, repeat=1)
    asked, label, undo = until_again(opened), next(EVENTS), next(EVENTS)
    held, before = opened.held("anna"), opened.digest()
    for _ in range(2):
        opened.answer(label, asked.id, 1, "anna")
    assert asked.id == opened.previous_of("anna")
    for _ in range(2):
        opened.undo(undo, asked.id, "anna")
    assert (held, before, []) == (opened.held("anna"), opened.digest(), kinds(opened))
    assert opened.previous != asked.id == opened.held("anna")[0].id
    assert opened.previous == opened.previous_of("anna")
    opened.answer(label, asked.id, 1, "anna")
    assert [] == kinds(opened)
    reply(opened, "anna", -1)
    assert [(asked.id, "anna", "again", -1)] == kinds(opened)


def test_what_is_skipped_or_decided_does_not_come_again(store, soon):
    """A repeated question can be skipped. A question that was skipped or corrected is not repeated, and a correction
    withdraws a repeated question that still waits for its answer."""
    opened = begin(store, repeat=1)
    skipped, corrected = (reply(opened, "anna", label) for label in (SKIP, 1))
    opened.correct(next(EVENTS), corrected.id, -1, "ben")
    asked = until_again(opened)
    reply(opened, "anna", SKIP)
    decided = until_again(opened)
    opened.correct(next(EVENTS), decided.id, -opened.answered(decided.id).old, "anna")
    assert decided.id not in {each.id for each in opened.held("anna")}
    with pytest.raises(SessionError, match="this item was answered already by anna"):
        opened.answer(next(EVENTS), decided.id, 1, "anna")
    while opened.held("anna"):
        reply(opened, "anna")
    assert (asked.id, "anna", "again", SKIP) == kinds(opened)[0]
    given = [question for question, *_ in kinds(opened)]
    assert len(given) == len({*given})
    assert set() == {skipped.id, corrected.id, decided.id}.intersection(given)


def test_a_correction_by_somebody_else_leaves_the_question_with_who_has_it(store, soon):
    """A person who holds a repeated question can answer it even after somebody else corrects its label."""
    opened = begin(store, repeat=1)
    asked = until_again(opened)
    opened.correct(next(EVENTS), asked.id, -opened.answered(asked.id).old, "owner")
    reply(opened, "anna", 1)
    assert [(asked.id, "anna", "again", 1)] == kinds(opened)


def test_one_person_never_gives_both_answers(store):
    """If Anna's first answer is undone and her lease runs out, Ben, who gave the second answer, may give the first one.
    A second answer is then due from somebody else."""
    opened = begin(store, overlap=1, budget=2)
    first = reply(opened, "anna", 1)
    assert first.id == opened.held("ben")[0].id
    reply(opened, "ben", -1)
    assert 1 == len(agreement.answer_pairs(opened))
    opened.undo(next(EVENTS), first.id, "anna")
    leave(store, "anna")
    assert first.id == reply(opened, "ben", -1).id
    assert ("ben", []) == (store.standing_label(opened.id, first.id)["annotator"], agreement.answer_pairs(opened))
    assert first.id in store.due_answers(opened.id, "carla")


def test_a_second_answer_of_who_corrected_the_first_one_is_a_second_one(store):
    """A person gives a second answer, corrects the first answer, undoes their own and gives another one. This one still
    counts as a second answer."""
    opened = begin(store, "sparse", "PAA-I", overlap=1.0)
    (first, *_) = opened.held("anna")
    opened.answer(next(EVENTS), first.id, 1, "anna")
    assert first.id in [each.id for each in opened.held("carla")]
    opened.answer(next(EVENTS), first.id, -1, "carla")
    opened.correct(next(EVENTS), first.id, -1, "carla")
    opened.undo(next(EVENTS), first.id, "carla")
    opened.answer(next(EVENTS), first.id, 1, "carla")
    assert [("second", "carla")] == [(row["kind"], row["annotator"]) for row in store.opinions(opened.id)]
