"""Audits, minimum probabilities and pacing: a plan spends the budget, and every stored probability is the true one."""

import re

import numpy as np
import pytest
from scipy.sparse import csr_array

from oal_engine.kernel import query_rules, spending, stream
from tests.harness import naive
from tests.harness.promises import assert_twins, data, data_for, run

ROUNDS, BUDGET = 400, 60


def planned(rule="symmetric", seed=0, learner="pa-i", rounds=ROUNDS, **more):
    """Run a replay under a plan over `rounds` rounds."""
    X, y, order = data(n=ROUNDS)
    plan = spending.plan(rule, BUDGET, rounds, **more)
    return run(csr_array(X), y, order, learner, rule, seed=seed, plan=plan)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["symmetric", "margin"])
@pytest.mark.parametrize(
    "more",
    [
        {"audit": 0.3, "trains": False},
        {"audit": 0.2, "pace": 0.8},
        {"pace": 0.5},
        {"floor": 0.6},
        {"audit": 0.2, "floor": 0.5},
    ],
)
def test_a_compiled_plan_equals_its_twin(rule, more):
    """A compiled plan gives the results of the plain implementation (naive.py). interpreted.py checks this for every
    rule, uncompiled."""
    if "pace" in more and rule not in query_rules.paceable():
        return
    plan = {"budget": BUDGET, "horizon": 350} | more
    assert_twins(*data_for("pa-i", n=ROUNDS), "pa-i", rule, seed=2, budget=BUDGET, plan=plan)


def test_with_a_larger_power_the_questions_are_nearer_to_the_line():
    distances = abs(np.random.default_rng(0).normal(size=600))
    chances, means = {}, {}
    for power in (2, 16):
        plan = spending.plan("paced", 60, 4800, values={"power": power})
        pairs = enumerate(((1 / (1 + distances)) ** 2).tolist())
        chances[power] = np.array([spending.chances(plan, t, pi, 1)[1] for t, pi in pairs])[plan.first :]
        means[power] = np.average(distances[plan.first :], weights=chances[power])
    assert means[16] < 0.8 * means[2]
    assert chances[16].sum() == pytest.approx(chances[2].sum(), rel=0.1)


@pytest.mark.parametrize(("learner", "rule"), [("pa-i", "symmetric"), ("dual", "paced")])
def test_a_file_is_asked_about_as_its_twin_says(learner, rule):
    """In a file that is all there, the engine asks about the items of the plain implementation (naive.py): along the
    beginning, then the nearest to the threshold of the whole file, and random ones. No item is asked about twice."""
    X, y, order = data_for(learner, n=ROUNDS)
    plan = spending.plan(rule, 150, ROUNDS, goal=spending.FIND)
    done = run(csr_array(X), y, order, learner, rule, seed=2, plan=plan)
    twin = naive.Learner(learner, X.shape[1])
    questions = naive.replay_file(X, y, order, twin, rule, 150, seed=2)
    assert [i for i, _, _ in questions] == done.asked.tolist()
    np.testing.assert_allclose(done.log[:, 1:], [values for _, *values in questions], rtol=1e-7, atol=1e-9)
    assert 150 == len({*done.asked.tolist()}) == done.queried
    assert {*order} == {*done.order.tolist()}
    assert ROUNDS == done.counts.sum()


def test_only_the_beginning_and_random_checks_represent_other_items():
    """An answer of the beginning represents 1 / its chance items, a random check as many as their mean, and the item
    nearest to the threshold none."""
    plan = spending.plan("paced", 100, 1000, goal=spending.FIND)
    chances, audits = np.array([1.0, 0.1, 0.9, 0.001, 0.9]), np.array([0, 0, 0, 1, 0])
    of_all, items = spending.representative(plan, chances, audits)
    assert [True, True, False, True, False] == of_all.tolist()
    assert [1, 10, 5.5] == pytest.approx(items[of_all])


def test_a_file_needs_a_budget_and_a_rule_that_draws():
    for rule, budget, more, words in (
        ("paced", None, {}, "the goal find needs a budget. Got none."),
        ("margin", 20, {}, "the goal find needs a rule that draws"),
        ("paced", 20, {"floor": 0.5}, "a pace and a floor spread labels along a stream: the goal must be stream."),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            spending.plan(rule, budget, 100, goal=spending.FIND, **more)


@pytest.mark.parametrize("more", [{}, {"pace": 0.5}, {"trains": False}])
def test_the_budget_and_the_audits_are_spent_exactly(more):
    """The audits' share of the budget is spent by the horizon, and the rest goes to the rule's questions."""
    for seed in range(20):
        replay = planned(seed=seed, audit=0.25, rounds=350, **more)
        audits = replay.decided[:, 0] > 0
        assert (BUDGET, 15) == (replay.queried, audits.sum())
        assert replay.log[audits, 0].max() < 350


@pytest.mark.slow
def test_a_rule_with_a_pace_of_its_own_spreads_the_budget():
    """The rule `paced` spends its labels in the first quarter of the stream, or within 40 rounds per label if that is
    shorter. Only a reserve lasts to the end. An explicit pace overrides this."""
    assert [2000, 800, 4000] == [
        spending.plan("paced", budget, 8000, pace=pace).paced for budget, pace in ((300, None), (20, None), (20, 0.5))
    ]
    assert spending.plan("paced", None, 8000) is None
    log = planned("paced", learner="dual").log
    assert list(range(10)) == log[:10, 0].tolist()
    assert (BUDGET, True) == (len(log), log[-1, 0] < 100)
    X, y, order = data(n=ROUNDS)
    plan = spending.plan("paced", BUDGET, ROUNDS, values={"early": 0})
    rounds = run(csr_array(X), y, order, "dual", "paced", plan=plan).log[:, 0]
    assert [30, 30] == [(rounds < ROUNDS // 4).sum(), (rounds >= ROUNDS // 4).sum()]
    assert rounds.max() > 0.9 * ROUNDS


def test_a_large_budget_keeps_labels_for_the_rest_of_the_stream():
    """Labels beyond `early`, up to half of the budget, are kept in reserve for the stream after its first part."""
    reserves = [spending.plan("paced", budget, 8000).reserve for budget in (300, 500, 700, 2000)]
    assert [0, 0, 200, 1000] == reserves
    assert 150 == spending.plan("paced", 300, 8000, values={"early": 0}).reserve


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "share"), [("dual", {"audit": 0.2}), ("m-dual", {"audit": 0.2}), ("dual", {"floor": 0.4})]
)
def test_a_plan_with_a_reserve_equals_its_twin(learner, share):
    """A compiled plan with a reserve, and with audits or a `floor`, gives the results of the plain implementation
    (naive.py), even if margins have no sign (m-dual), and with the power of `auto`."""
    plan = {"budget": BUDGET, "horizon": 350} | share
    more = {"rule_values": {"early": 20, "power": 16 if learner == "dual" else 2}, "seed": 2, "budget": BUDGET}
    assert_twins(*data_for(learner, n=ROUNDS), learner, "paced", plan=plan, **more)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["symmetric", "margin", "paced"])
def test_every_item_that_is_not_pushed_has_the_chance_promised_to_the_horizon(rule):
    """If a share of the budget gives every item a minimum probability (`floor`), items predicted negative are asked
    about with at least the promised probability, and the labels last to the horizon."""
    for seed in range(20):
        X, y, order = data(n=ROUNDS)
        plan = spending.plan(rule, BUDGET, ROUNDS, floor=0.5)
        replay = run(csr_array(X), y, order, "dual", rule, seed=seed, plan=plan)
        hidden = replay.decided[:, 1] < 0
        assert replay.log[hidden, 2].min() >= plan.promised == pytest.approx(0.5 * BUDGET / ROUNDS / 1.3)
        assert replay.queried < BUDGET or replay.log[-1, 0] > 0.9 * ROUNDS
        assert replay.queried > 0.5 * BUDGET


def test_a_floor_goes_on_with_labels_that_are_added():
    """After labels are added, `floor` (the minimum probability of being asked) is what old and new labels allow.
    `promised` is the smallest `floor` so far."""
    plan, more = (spending.plan("symmetric", 130, rounds, floor=0.5) for rounds in (1000, 600))
    assert [0.05, 0.05] == pytest.approx([plan.floor, plan.promised])
    longer = spending.extended(plan, more, 600, all_spent=False)
    assert (1200, [0.05 * 400 / 600 + 50 / 600, 0.05]) == (
        longer.horizon,
        pytest.approx([longer.floor, longer.promised]),
    )
    begun_again = spending.extended(plan, more._replace(floor=0.01), 600, all_spent=True)
    assert [0.01, 0.01] == pytest.approx([begun_again.floor, begun_again.promised])


def test_labels_that_are_added_are_planned_for_the_rounds_left():
    """Added labels are spread over the first part of the remaining rounds. If a reserve is being spent, they join it.
    If all labels are spent, part of the new ones become a new reserve."""

    def planned(budget, horizon, t=0, all_spent=False, before=None):
        plan = spending.plan("paced", budget, horizon, audit=0.1, values={"early": 90})
        plan = spending.extended(before, plan, t, all_spent) if before else plan
        return plan.budget, plan.audits, plan.horizon, plan.paced, plan.reserve, plan

    *whole, plan = planned(200, 8000)
    assert [200, 20, 8000, 2000, 90] == whole
    assert (300, 30, 9000, 2550, 90) == planned(100, 8600, 400, before=plan)[:5]
    assert (300, 30, 8000, 2000, 90) == planned(100, 4000, 4000, before=plan)[:5]
    assert (400, 40, 8000, 5500, 90) == planned(200, 2000, 5000, True, before=plan)[:5]


def test_what_a_plan_expects_by_a_round():
    """A plan expects a question in each of the first rounds, then labels spread over the paced part, the reserve over
    the rest, and audits over all rounds."""
    plan = spending.plan("paced", 200, 8000, audit=0.1, values={"early": 90})
    checks, others = spending.expected(plan, [0, 10, 1005, 2000, 5000, 8000, 9000])
    assert [0, 10, 50, 90, 135, 180, 180] == others.tolist()
    assert [0, 5, 20, 20] == checks[[0, 3, 5, 6]].tolist()
    rule_alone = spending.plan("symmetric", 200, 8000, audit=0.1)
    assert 0 == spending.expected(rule_alone, 100)[1]
    floored = spending.plan("paced", 200, 8000, floor=0.5)
    assert [200, 125] == pytest.approx(spending.expected(floored, [8000, 2000])[1])


def test_audits_fall_on_every_round_alike():
    """Over many seeds each tenth of the rounds has about a tenth of the audits, whatever the rule asks."""
    runs = [planned(seed=seed, audit=0.5, rounds=ROUNDS) for seed in range(300)]
    rounds = np.concatenate([replay.log[replay.decided[:, 0] > 0, 0] for replay in runs])
    observed, expected = np.histogram(rounds, 10, (0, ROUNDS))[0], len(rounds) / 10
    assert len(rounds) == 300 * BUDGET / 2
    assert ((observed - expected) ** 2 / expected).sum() < 27.9  # chi-square with 9 degrees of freedom, 0.1 %


@pytest.mark.parametrize("more", [{"audit": 0.3}, {"pace": 1.0}, {"audit": 0.3, "pace": 0.7}, {"floor": 0.6}])
def test_chances_are_the_probabilities_of_asking(more):
    """Over many seeds the mean sum of the weights 1 / pi equals the number of rounds up to the last question."""
    logs = [planned(seed=seed, **more).log for seed in range(200)]
    assert all(((log[:, 2] > 0) & (log[:, 2] <= 1)).all() for log in logs)
    off = np.array([(1 / log[:, 2]).sum() - (log[-1, 0] + 1) for log in logs])
    assert abs(off.mean()) < 3 * off.std() / np.sqrt(off.size)


def test_audits_that_do_not_train_leave_the_learner_alone():
    """If every label is an audit, the weights stay 0 unless the learner learns from audits."""
    for trains in (False, True):
        replay = planned(audit=0.995, trains=trains)
        assert BUDGET == replay.decided[:, 0].sum() == replay.queried
        assert trains == replay.learner.w.any()


AUDIT = "audit must be >= 0 and < 1: the share of the budget for random checks. Got "
PACE = "pace must be > 0 and <= 1: the share of the horizon to spend the budget in. Got "
LEAST = "floor must be >= 0 and, with audit, < 1: the share of the budget for it. Got "
DRAWING = ", ".join(query_rules.paceable())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"audit": 1}, AUDIT + "1."),
        ({"audit": -0.1}, AUDIT + "-0.1."),
        ({"pace": 0}, PACE + "0."),
        ({"pace": 2}, PACE + "2."),
        ({"pace": float("nan")}, PACE + "nan."),
        ({"pace": 1, "rule": "margin"}, f"a pace needs a rule that draws: {DRAWING}. Got margin."),
        ({"pace": 1, "budget": None}, "audits, a pace and a floor need a budget. Got none."),
        ({"floor": -0.1}, LEAST + "-0.1."),
        ({"floor": 0.8, "audit": 0.2}, LEAST + "0.8."),
    ],
)
def test_a_plan_that_cannot_be_is_refused(values, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        spending.plan(**{"rule": "symmetric", "budget": 10, "horizon": 100} | values)


def test_nothing_planned_is_no_plan():
    """If there are neither audits nor a pace, there is no plan, and the rule's own probabilities decide."""
    X, y, order = data(n=ROUNDS)
    assert spending.plan("symmetric", BUDGET, ROUNDS) is None
    plain = run(csr_array(X), y, order, "pa-i", "symmetric", budget=BUDGET)
    assert not plain.decided[:, 0].any()
    assert (stream.draws(0, ROUNDS)[plain.log[:, 0].astype(int)] < plain.log[:, 2]).all()
