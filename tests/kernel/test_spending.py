"""Audits and pacing: a plan spends the budget as it says, and every chance is the one that it was asked with."""

import re

import numpy as np
import pytest
from scipy.sparse import csr_array

from oal_engine.kernel import query_rules, spending, stream
from tests.harness.promises import assert_twins, data, data_for, run

ROUNDS, BUDGET = 400, 60


def planned(rule="symmetric", seed=0, learner="pa-i", rounds=ROUNDS, **more):
    """A replay under a plan over `rounds` rounds."""
    X, y, order = data(n=ROUNDS)
    plan = spending.plan(rule, BUDGET, rounds, **more)
    return run(csr_array(X), y, order, learner, rule, seed=seed, plan=plan)


@pytest.mark.parametrize("rule", ["symmetric", "margin"])
@pytest.mark.parametrize("more", [{"audit": 0.3, "trains": False}, {"audit": 0.2, "pace": 0.8}, {"pace": 0.5}])
def test_a_compiled_plan_equals_its_twin(rule, more):
    """The machine code of a plan gives what the formulas say (every pair of learner and rule: interpreted.py)."""
    if "pace" in more and rule not in query_rules.paceable():
        return
    plan = {"budget": BUDGET, "horizon": 350} | more
    assert_twins(*data_for("pa-i", n=ROUNDS), "pa-i", rule, seed=2, budget=BUDGET, plan=plan)


@pytest.mark.parametrize("more", [{}, {"pace": 0.5}, {"trains": False}])
def test_the_budget_and_the_audits_are_spent_exactly(more):
    """Of the budget a share goes to audits, to the last one by the horizon, and the rest to what the rule wants."""
    for seed in range(20):
        done = planned(seed=seed, audit=0.25, rounds=350, **more)
        audits = done.decided[:, 0] > 0
        assert (BUDGET, 15) == (done.queried, audits.sum())
        assert done.log[audits, 0].max() < 350


def test_audits_fall_on_every_round_alike():
    """Over many seeds each tenth of the rounds has its tenth of the audits, whatever the rule wants there."""
    runs = [planned(seed=seed, audit=0.5, rounds=ROUNDS) for seed in range(300)]
    where = np.concatenate([done.log[done.decided[:, 0] > 0, 0] for done in runs])
    found, expected = np.histogram(where, 10, (0, ROUNDS))[0], len(where) / 10
    assert len(where) == 300 * BUDGET / 2
    assert ((found - expected) ** 2 / expected).sum() < 27.9  # chi-square with 9 degrees of freedom, 0.1 %


@pytest.mark.parametrize("more", [{"audit": 0.3}, {"pace": 1.0}, {"audit": 0.3, "pace": 0.7}])
def test_chances_are_those_that_rounds_are_asked_with(more):
    """Over many seeds the weights 1 / pi of what was asked sum to the rounds up to the last question, which ends the
    window (optional stopping)."""
    logs = [planned(seed=seed, **more).log for seed in range(200)]
    assert all(((log[:, 2] > 0) & (log[:, 2] <= 1)).all() for log in logs)
    off = np.array([(1 / log[:, 2]).sum() - (log[-1, 0] + 1) for log in logs])
    assert abs(off.mean()) < 3 * off.std() / np.sqrt(off.size)


def test_without_a_pace_the_rule_spends_as_it_wants():
    """A plan of audits alone leaves the rule its chances: it asks often at first."""
    done = planned(audit=0.25)
    wished = done.log[done.decided[:, 0] == 0, 0]
    assert np.median(wished) < np.median(planned(audit=0.25, pace=1.0).log[:, 0]) / 2


def test_audits_that_do_not_train_leave_the_learner_alone():
    """With every label an audit, the weights stay 0 unless audits train, and move if they do."""
    for trains in (False, True):
        done = planned(audit=0.995, trains=trains)
        assert BUDGET == done.decided[:, 0].sum() == done.queried
        assert trains == done.learner.w.any()


AUDIT = "audit must be >= 0 and < 1: the share of the budget for random checks. Got "
PACE = "pace must be > 0 and <= 1: the share of the horizon to spend the budget in. Got "
DRAWING = ", ".join(query_rules.paceable())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"audit": 1}, AUDIT + "1."),
        ({"audit": -0.1}, AUDIT + "-0.1."),
        ({"pace": 0}, PACE + "0."),
        ({"pace": float("nan")}, PACE + "nan."),
        ({"pace": 1, "rule": "margin"}, f"a pace needs a rule that draws: {DRAWING}. Got margin."),
        ({"pace": 1, "budget": None}, "audits and a pace need a budget. Got none."),
    ],
)
def test_a_plan_that_cannot_be_is_refused(values, message):
    """Shares out of their range, and rules that cannot be paced, are refused in one sentence."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        spending.plan(**{"rule": "symmetric", "budget": 10, "horizon": 100} | values)


def test_nothing_planned_is_no_plan():
    """Without audits and pace there is no plan, and a replay is the one that it was."""
    X, y, order = data(n=ROUNDS)
    assert spending.plan("symmetric", BUDGET, ROUNDS) is None
    plain = run(csr_array(X), y, order, "pa-i", "symmetric", budget=BUDGET)
    assert not plain.decided[:, 0].any()
    assert (stream.draws(0, ROUNDS)[plain.log[:, 0].astype(int)] < plain.log[:, 2]).all()
