"""Labels added to a budget: the session continues where the budget was spent, and nothing else changes."""

import pytest

from oal_engine.sessions.insights import estimates
from oal_engine.sessions.settings import SessionError
from tests.harness.sessions import EVENTS, begin, bits, label_truly, label_until_the_end

UNPLANNED = [
    ("sparse", "PAA-I", {}),
    ("sparse", "OAAL", {"averaged": True}),
    ("sparse", "SEL-ada", {"shuffled": True}),
    ("classes", "MPAA-I", {"averaged": True}),
]


def add(opened, labels, **more):
    """Add labels to the budget. Return the id of the event."""
    event = next(EVENTS)
    opened.add_labels(event, labels, **more)
    return event


def facts(opened):
    """Return the questions with their answers, and every decision of the stream."""
    names = "number", "round", "item", "margin", "probability", "draw", "predicted", "label"
    asked = [tuple(getattr(entry, name) for name in names) for entry in opened.log]
    return asked, [part.tolist() for part in opened.decided], [part.tolist() for part in opened.curve()]


@pytest.mark.slow
@pytest.mark.parametrize(("data", "algorithm", "more"), UNPLANNED)
def test_a_budget_in_two_parts_is_the_budget_in_one(store, data, algorithm, more):
    """Without a spending plan, labels can be added at the end or earlier: the session has the same questions,
    decisions, curves and learner, bit for bit, as one that had the whole budget from the start."""
    whole, late, early = (begin(store, data, algorithm, budget=budget, **more) for budget in (50, 20, 20))
    label_truly(early, 5)
    add(early, 30)
    for opened in (whole, late, early):
        label_until_the_end(opened)
    assert "budget" == late.place.progress.end
    add(late, 30)
    label_until_the_end(late)
    for opened in (late, early):
        assert (facts(whole), bits(whole)) == (facts(opened), bits(opened))
        assert whole.place.progress == opened.place.progress


@pytest.mark.parametrize("more", [{}, {"pace": 0.2}, {"audit": 0.2}])
def test_added_labels_are_spent_and_not_all_at_once(store, more):
    """`auto` spreads added labels over the remaining items like the labels of a new session. Every asking probability
    is above zero, so that estimates are valid up to the last answer."""
    opened = begin(store, "sparse", "auto", budget=20, **more)
    label_until_the_end(opened)
    last = opened.log[-1].round
    add(opened, 20)
    label_until_the_end(opened)
    added = [entry.round for entry in opened.log[20:]]
    if last < 250:
        assert 20 == len(added)
        assert added[-1] - last > 40
    assert estimates.of_session(opened).closed == added[-1]
    assert all(0 < entry.probability <= 1 for entry in opened.log)


@pytest.mark.slow
def test_labels_are_added_once_and_only_where_they_can_be_spent(store):
    """An event that is sent again adds nothing. No label can be added if none of the items left would be asked, or if
    the budget already has a label for each item left."""
    opened = begin(store, "sparse", "PAA-I", budget=5)
    label_until_the_end(opened)
    opened.add_labels("once", 3)
    opened.add_labels("once", 3)
    assert 8 == opened.place.progress.budget
    ended = begin(store, "sparse", None, learner="pa-i", rule="positive", budget=3)
    label_until_the_end(ended)
    decided = [part.copy() for part in ended.decided]
    while ended.place.progress.end == "budget" and ended.askable:
        try:
            add(ended, 200)
        except SessionError:
            break
        label_until_the_end(ended)
    before = ended.digest(), ended.place.progress
    with pytest.raises(SessionError, match="no label is added"):
        add(ended, 10)
    assert before == (ended.digest(), ended.place.progress)
    assert len(decided[0]) == len(ended.decided[0])
    full = begin(store, "sparse", "PAA-I", budget=ended.rounds)
    assert full.room == 0 < full.askable
    with pytest.raises(SessionError, match="the budget has a label for every item left"):
        full.add_labels(next(EVENTS), 1)
    full.add_labels(next(EVENTS), 1, horizon=2 * full.rounds)  # for items that will come
    for labels in (0, -1, 2.5, 10**10):
        with pytest.raises(SessionError, match="labels of a session must be a whole number >= 1 and <= 1,000,000,000"):
            opened.add_labels(next(EVENTS), labels)
