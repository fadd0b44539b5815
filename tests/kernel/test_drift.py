"""The drift alarm keeps its false alarm rate on shuffled items, and is raised when items change."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from oal_engine.kernel import drift, rows
from tests.harness.naive import drift_capital


def items(count, seed, shift=0.0):
    """Return scores of items, some of them equal, which are shifted in the second half."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(count, drift.SCORES)).round(1)
    values[count // 2 :, 3] += shift
    return values


@pytest.mark.parametrize("shift", [0.0, 2.0])
def test_the_capital_is_that_of_the_formulas(shift):
    """The capital at each item, and the first item at a limit, equal those of a plain count."""
    values = items(120, 0, shift)
    course = drift_capital(values, drift.SEED, drift.BETS, drift.JUMPS)
    for stop in (1, 2, 50, 120):
        assert (None, pytest.approx(course[stop - 1])) == drift.alarm(values[:stop], np.inf)
    limit = 0.9 * max(course)
    at = next(t for t, capital in enumerate(course) if capital >= limit)
    assert (at, pytest.approx(course[at])) == drift.alarm(values, limit)


def test_shuffled_streams_have_few_alarms():
    """If items come in random order, at most a share RISK of the streams ever has an alarm."""
    alarms = [drift.alarm(items(400, seed))[0] is not None for seed in range(400)]
    assert np.mean(alarms) <= drift.RISK


def test_a_change_is_noticed_soon():
    """If one of the scores moves by a standard deviation, the alarm comes within 300 items."""
    found = [drift.alarm(items(1000, seed, 1.0))[0] for seed in range(20)]
    assert all(at is not None and 500 <= at < 800 for at in found)


def test_no_items_have_no_alarm():
    """Without items there is no alarm."""
    assert (None, 1.0) == drift.alarm(np.empty((0, drift.SCORES)))


def test_scores_are_the_same_for_sparse_and_dense_rows_and_the_block_of_mixed_ones():
    """Sparse and dense rows have the same scores; a dense block is used unchanged."""
    table, places = np.random.default_rng(0).normal(size=(9, 20)), np.array([3, 1, 8])
    dense, sparse = (drift.scores(rows.as_rows(form(table)), places) for form in (np.asarray, csr_array))
    assert np.allclose(dense, sparse)
    assert (3, drift.SCORES) == dense.shape
    mixed = rows.mixed_rows(rows.as_rows(csr_array(table)), table.astype(np.float32))
    assert np.array_equal(table.astype(np.float32)[places, : drift.SCORES], drift.scores(mixed, places))
