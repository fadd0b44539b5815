"""Paired tests and ranks equal the results of scipy and results computed by hand."""

import numpy as np
import pytest
from scipy import stats

from oal_engine.experiments import significance

TESTS = ("friedman", "critical_difference")


def test_holm_by_hand():
    """The Holm correction multiplies the smallest p by the number of tests, the next by one less, and so on; no result
    is below an earlier one or over 1."""
    assert [0.03, 0.06, 0.06, 0.02] == pytest.approx(significance.holm([0.01, 0.04, 0.03, 0.005]))
    assert [1.0, 0.8, 1.0] == pytest.approx(significance.holm([0.9, 0.8 / 3, 0.6]))
    assert [] == significance.holm([]).tolist()


@pytest.mark.parametrize("more", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_against_best_equals_scipy(seed, more):
    """The name with the best mean is marked as best. The others have scipy's p-values of paired tests against it, with
    the Holm correction."""
    rng = np.random.default_rng(seed)
    values = {name: rng.normal(loc, 1, 12) for name, loc in zip("abcd", rng.normal(size=4))}
    best = (max if more else min)(values, key=lambda name: values[name].mean())
    others = [name for name in values if name != best]
    results = significance.against_best(values, more)
    assert list(values) == list(results)
    assert {"mean": values[best].mean(), "best": True, "t": None, "wilcoxon": None, "level": True} == results[best]
    for kind, test in (("t", stats.ttest_rel), ("wilcoxon", stats.wilcoxon)):
        corrected = significance.holm([test(values[best], values[name]).pvalue for name in others])
        assert corrected.tolist() == pytest.approx([results[name][kind] for name in others])
    assert all(results[name]["level"] == (results[name]["t"] >= 0.05) for name in others)


def test_runs_without_a_spread():
    """If two names have equal runs, p = 1. If one is worse by the same amount in all ten runs, the t-test has p = 0,
    and the Wilcoxon test a p below 0.02."""
    base = np.linspace(0.1, 0.7, 10)
    results = significance.against_best({"a": base, "same": base.copy(), "below": base - 0.1})
    assert (1.0, 1.0, True) == tuple(results["same"][key] for key in ("t", "wilcoxon", "level"))
    assert (0.0, False) == (results["below"]["t"], results["below"]["level"])
    assert 0 < results["below"]["wilcoxon"] < 0.02


def test_one_run_cannot_be_tested():
    results = significance.against_best({"a": [0.2], "b": [0.1]})
    assert {"mean": 0.1, "best": False, "t": None, "wilcoxon": None, "level": True} == results["b"]
    assert results["a"]["best"]
    assert [True] == [result["best"] for result in significance.against_best({"a": [0.2, 0.3]}).values()]


def test_ranks_by_hand():
    """Ranks within each of four blocks are averaged. Friedman's chi square is 12 / (4 * 3 * 4) times the sum of squared
    rank sums (4.5, 7.5, 12), less 3 * 4 * 4, corrected for the one tie, and gives p with 2 degrees of freedom."""
    table = {"a": [0.9, 0.8, 0.7, 0.6], "b": [0.8, 0.7, 0.6, 0.6], "c": [0.7, 0.6, 0.5, 0.5]}
    ranking = significance.average_ranks(table)
    assert {"a": 4.5 / 4, "b": 7.5 / 4, "c": 12 / 4} == ranking["ranks"]
    chi = (12 / (4 * 3 * 4) * (4.5**2 + 7.5**2 + 12**2) - 48) / (1 - 6 / (4 * 24))
    assert (4, pytest.approx(np.exp(-chi / 2))) == (ranking["blocks"], ranking["friedman"])


@pytest.mark.parametrize(
    ("level", "q"), [(0.05, [1.960, 2.343, 2.569, 2.728, 2.850]), (0.1, [1.645, 2.052, 2.291, 2.459, 2.589])]
)
def test_critical_differences_of_demsar(level, q):
    """Nemenyi's critical values for 2 to 6 names equal table 5 of Demsar (2006)."""
    for names, value in enumerate(q, 2):
        table = {name: np.random.default_rng(name).random(14) for name in range(names)}
        difference = significance.average_ranks(table, level=level)["critical_difference"]
        assert value == pytest.approx(difference / np.sqrt(names * (names + 1) / (6 * 14)), abs=1e-3)


def test_ranks_where_less_is_better():
    """If less is better, as for a cost, the lowest value ranks first. Ties share a rank."""
    ranking = significance.average_ranks({"a": [1, 3], "b": [2, 3], "c": [3, 1]}, more_is_better=False)
    assert {"a": 1.75, "b": 2.25, "c": 2.0} == ranking["ranks"]


def test_what_cannot_be_ranked():
    """One block or one name gives ranks but no test, two names give no Friedman test, and if all values are tied, p =
    1."""
    assert (None, None) == tuple(significance.average_ranks({"a": [1], "b": [2]})[key] for key in TESTS)
    assert ({}, 0, None, None) == tuple(significance.average_ranks({}).values())
    assert ({"a": 1.0}, 2, None, None) == tuple(significance.average_ranks({"a": [1, 2]}).values())
    two = significance.average_ranks({"a": [1, 2], "b": [2, 3]})
    assert (None, 1.960 / np.sqrt(2)) == (two["friedman"], pytest.approx(two["critical_difference"], abs=1e-3))
    assert 1.0 == significance.average_ranks({name: [1, 2] for name in "abc"})["friedman"]
