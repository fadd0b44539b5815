"""In plain Python, every pair of a learner and a rule gives the results of the naive implementation (naive.py), and
every published name runs."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from oal_engine.kernel import jit, query_rules, spending
from oal_engine.kernel.algorithms import ALGORITHMS, declared, strategy
from oal_engine.kernel.learners import LEARNERS
from oal_engine.kernel.parameters import parameters
from oal_engine.kernel.query_rules import QUERY_RULES
from tests.harness.promises import (
    a_run_stopped_saved_and_loaded_at_every_question_gives_the_same_bits,
    assert_twins,
    data_for,
    fitting,
    mixed,
    replay,
    run,
    settings_that_share_a_pass_have_the_bits_of_replays_of_each,
)

PAIRS = [(learner, rule) for rule in QUERY_RULES for learner in query_rules.partners(rule)]
FITTING = [(learner, rule) for rule in QUERY_RULES for learner in fitting(rule)]
EVERY = [*dict.fromkeys([*FITTING, *((name, "symmetric") for name in LEARNERS)])]  # each learner and each rule


@pytest.fixture(autouse=True)
def plain():
    with jit.form(jit.PLAIN):
        yield


def away_from_defaults(kind):
    return {name: 3 if spec.whole else 0.75 for name, spec in parameters(kind).items()}


@pytest.mark.parametrize(
    ("matrix", "learner", "rule"),
    [pytest.param(csr_array, *pair, marks=pytest.mark.slow) for pair in PAIRS]
    + [pytest.param(np.asarray, *pair, marks=pytest.mark.slow) for pair in EVERY]
    + [(mixed, *pair) for pair in EVERY],
)
def test_every_pair_equals_its_dense_twin(matrix, learner, rule):
    """On sparse rows, every learner with every rule asks in the same rounds and learns the same weights as the plain
    implementation (naive.py). On dense and mixed rows, each learner and each rule does so in at least one pair."""
    X, y, order = data_for(learner)
    X = X.astype(np.float32).astype(np.float64)  # the precision of a dense block
    assert_twins(X, y, order, learner, rule, matrix=matrix)
    assert_twins(X, y, order, learner, rule, matrix=matrix, rho=4.0, theta=0.05, budget=40, seed=3, averaged=True)


@pytest.mark.slow
@pytest.mark.parametrize(("learner", "rule"), EVERY)
def test_steps_give_the_bits_of_a_replay(learner, rule):
    """A run that stops at every question, and saves and loads its state, equals a replay to the bit."""
    a_run_stopped_saved_and_loaded_at_every_question_gives_the_same_bits(learner, rule)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("matrix", "learner", "rule"),
    [(csr_array, *pair) for pair in PAIRS] + [(np.asarray, *pair) for pair in EVERY],
)
def test_settings_that_share_a_pass_have_the_bits_of_replays_of_each(matrix, learner, rule):
    """If several settings share a pass over the rows, each counts, asks and learns as in a separate replay."""
    settings_that_share_a_pass_have_the_bits_of_replays_of_each(learner, rule, matrix)


@pytest.mark.slow
@pytest.mark.parametrize(("learner", "rule"), PAIRS)
def test_parameters_reach_the_formulas(learner, rule):
    """If the parameters differ from their defaults, rho is estimated and the metric weights are unequal, a run gives
    the results of the plain implementation (naive.py)."""
    values, rule_values = away_from_defaults(LEARNERS[learner]), away_from_defaults(QUERY_RULES[rule])
    assert_twins(*data_for(learner, seed=2), learner, rule, values, rule_values, ratio=0.25, seed=9)


@pytest.mark.slow
@pytest.mark.parametrize(("learner", "rule"), FITTING)
def test_a_plan_equals_its_twin(learner, rule):
    """Runs with audits give the results of the plain implementation (naive.py): a run in which audits do not train,
    and, if the rule can have a pace, a run with a pace in which audits train."""
    X, y, order = data_for(learner, seed=3, n=200)
    plan = {"budget": 40, "horizon": 180, "audit": 0.3}
    assert_twins(X, y, order, learner, rule, seed=6, budget=40, plan=plan | {"trains": False}, averaged=True)
    if rule in query_rules.paceable():
        assert_twins(X, y, order, learner, rule, seed=7, budget=40, plan=plan | {"pace": 0.7})


@pytest.mark.parametrize("rule", query_rules.paceable())
def test_a_pace_spends_the_budget_evenly(rule):
    """If a pace is set, every rule spends its labels by the end of the paced rounds, about half of them by the middle.
    No asking probability is below a tenth of 1 / (number of paced rounds)."""
    X, y, order = data_for(learner := query_rules.partners(rule)[0], n=1500, huge=1)
    plan = spending.plan(rule, 150, 1400, pace=0.75)
    log = run(csr_array(X), y, order, learner, rule, plan=plan).log
    assert (150, True) == (len(log), log[-1, 0] < 1050)
    assert 350 < np.median(log[:, 0]) < 750
    assert log[:, 2].min() > 0.1 / 1050


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_name_builds_and_runs(name):
    """Each published algorithm asks within its budget, learns, and has the parameters that are declared for it."""
    chosen, entry = strategy(name), ALGORITHMS[name]
    replayed = replay(chosen)
    assert 0 < replayed.queried <= 30
    assert np.isfinite(replayed.learner.w).all()
    assert replayed.learner.w.any()
    assert (name, entry.learner, entry.rule) == (chosen.algorithm, chosen.learner, chosen.rule)
    assert type(replayed.learner) is LEARNERS[entry.learner]
    assert declared(entry.learner, entry.rule).keys() == chosen.parameters.keys()
    assert entry.fixed.items() <= chosen.parameters.items()
    assert entry.paper
