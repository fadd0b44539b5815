"""Corrections, and marks that are used for training, retrain the learner but change no past question. Notes change
neither the learner nor a question."""

import numpy as np
import pytest

from oal_engine.sessions.settings import NEGATIVE, POSITIVE, SKIP, SessionError
from tests.harness.sessions import EVENTS, begin, label_truly, label_until_the_end, say, truth


def learned(opened):
    """Return copies of all arrays that depend on labels: in the learner, the rule, the objective and the average."""
    return [array.copy() for array in opened.state.arrays()[:-1]]


def same(first, second):
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first, second, strict=True))


def correct(opened, place, label, **more):
    """Correct the answer at an index of the log. Return the id of the event."""
    event = next(EVENTS)
    opened.correct(event, opened.history[place].id, label, **more)
    return event


def passed_item(opened, predicted=1):
    """Return the last unasked item that was predicted as the class `predicted`."""
    _, classes, asked = opened.decided
    return int(opened.order[np.flatnonzero((classes == predicted) & ~asked)[-1]])


def test_the_learner_is_told_the_chances_of_the_log(store):
    """The learner of `auto` gets the logged asking probability of each answer, even after a correction. Known labels
    and marks have the probability 1."""
    opened = begin(store, "sparse", "auto", known_labels=20, budget=30, audit=0.2)
    label_truly(opened, 15)
    expected = [1.0] * 20 + [entry.probability for entry in opened.log if entry.label]
    assert min(expected) < 1
    assert expected == opened.learner.chances[:35].tolist()
    correct(opened, 12, -opened.log[12].label)
    opened.feedback(next(EVENTS), passed_item(opened), True, trains=True)
    assert [*expected, 1.0] == opened.learner.chances[:36].tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "learner", "more"),
    [("sparse", "pa-i", {"averaged": True}), ("sparse", "acog-ii-diag", {}), ("classes", "m-pa", {})],
)
def test_a_corrected_learner_equals_one_with_the_right_labels_from_the_start(store, data, learner, more):
    """Under the random rule, correcting wrong answers later gives the same learner, bit for bit, as right answers from
    the start."""
    wrong, right = (begin(store, data, None, learner=learner, rule="random", budget=25, **more) for _ in range(2))
    label_until_the_end(right)
    corrections = {}
    while wrong.place.asked:
        number, label = wrong.place.asked.number, truth(wrong)
        if number % 6 == 3:
            corrections[number - 1] = label
            label = next(other for other in wrong.names if other != label)
        say(wrong, label)
    assert not same(learned(wrong), learned(right))
    for place, label in corrections.items():
        correct(wrong, place, label)
    assert same(learned(wrong), learned(right))
    assert [entry.label for entry in right.history] == [entry.label for entry in wrong.history]


def test_a_prepared_question_is_another_after_a_correction(store):
    """If a label is corrected after a question was prepared, this question does not become the next one. An answer to
    it counts if the next question is about the same item; otherwise it is stored as a late answer."""
    opened = begin(store)
    label_truly(opened, 6)
    waiting, stale = opened.place.asked, opened.branches[POSITIVE].asked
    correct(opened, 2, -opened.history[2].label)
    say(opened, POSITIVE)
    assert opened.history[-2].id == waiting.id
    current, given = opened.place.asked, len(opened.labels)
    assert current.id != stale.id
    opened.answer(next(EVENTS), stale.id, POSITIVE)
    assert (given + (current.item == stale.item)) == len(opened.labels)
    late = [(row["question"], row["kind"]) for row in store.opinions(opened.id)]
    assert late == [(stale.id, "late")] * (current.item != stale.item)


def test_a_skipped_item_is_answered_later_while_labels_are_left(store):
    """Answering a skipped item later costs a label, but the last label is kept for the current question. Correcting a
    label to a skip refunds it."""
    opened = begin(store, budget=5)
    say(opened, SKIP)
    say(opened, SKIP)
    first, second = opened.skipped
    assert [SKIP, SKIP] == [first.old, second.old]
    opened.correct(next(EVENTS), first.id, NEGATIVE)
    assert ([second.id], 4) == ([asked.id for asked in opened.skipped], opened.place.progress.left)
    label_truly(opened, 3)
    with pytest.raises(SessionError, match="the last one is kept for the current question"):
        correct(opened, 1, POSITIVE)
    correct(opened, 0, SKIP)
    correct(opened, 1, POSITIVE)
    say(opened, truth(opened))
    assert (None, 0) == (opened.place.asked, opened.place.progress.left)
    with pytest.raises(SessionError, match="and none is left"):
        correct(opened, 0, POSITIVE)


def test_only_answers_are_corrected(store):
    """The current question cannot be corrected, and a corrected label must be one of the session's labels."""
    opened = begin(store)
    say(opened, POSITIVE)
    with pytest.raises(SessionError, match="only an item that was answered"):
        opened.correct(next(EVENTS), opened.place.asked.id, POSITIVE)
    with pytest.raises(SessionError, match="a label must be 1, -1 or 0"):
        correct(opened, 0, 7)


def test_a_wrong_mark_trains_only_on_request(store):
    """Marking a pushed item as wrong changes the learner only on request. The mark then costs a label, is learned as a
    negative, and is final."""
    opened = begin(store)
    label_truly(opened, 10)
    learner, left, item = learned(opened), opened.place.progress.left, passed_item(opened)
    opened.feedback("mark", item, True)
    assert ({item: False}, True, left) == (opened.marks, same(learner, learned(opened)), opened.place.progress.left)
    opened.feedback("away", item, False)
    assert {} == opened.marks
    opened.feedback("learned", item, True, trains=True)
    assert ({item: True}, False) == (opened.marks, same(learner, learned(opened)))
    assert left - 1 == opened.place.progress.left
    with pytest.raises(SessionError, match="has trained the model"):
        opened.feedback("too late", item, False)
    with pytest.raises(SessionError, match="passed without a question"):
        opened.feedback("asked", opened.history[0].item, True)
    with pytest.raises(SessionError, match="passed as positive"):
        opened.feedback("negative", passed_item(opened, NEGATIVE), True, trains=True)
