"""Leaves of random trees follow from comparisons alone, with the same bits on every machine."""

import hashlib
import json

import numpy as np
import pytest
from scipy import sparse

from oal_engine.datasets.features import fourier, leaves, scaling
from oal_engine.kernel import rows


def numbers(n=300, d=5, seed=0):
    return np.random.default_rng(seed).normal(3, 2, (n, d)).round(2)


def reached(X, fitted=None):
    """Return the leaf of each row in each tree, shape (rows, TREES)."""
    made = leaves.one_hot(fitted or leaves.fit(X), X)
    return made.indices.reshape(len(X), leaves.TREES) % leaves.LEAVES


def test_a_row_walks_down_each_tree():
    """A row has one entry for each tree, at the leaf that one finds by comparing its numbers with the cuts."""
    X = numbers()
    fitted = json.loads(json.dumps(leaves.fit(X)))
    columns, cuts = leaves._trees(np.array(fitted["cuts"]), 0)
    made = leaves.one_hot(fitted, X)
    assert np.unique(made.data) == pytest.approx([np.sqrt(0.5 / 100)])
    for row in range(0, 300, 50):
        walked = []
        for tree in range(leaves.TREES):
            node = 0
            for _ in range(leaves.DEPTH):
                node = 2 * node + 1 + int(X[row, columns[tree, node]] > cuts[tree, node])
            walked.append(tree * leaves.LEAVES + node - (leaves.LEAVES - 1))
        assert walked == made.indices[made.indptr[row] : made.indptr[row + 1]].tolist()


def test_cuts_of_a_path_differ():
    """Each cut divides what its node can hold: no cut repeats above itself, and none is at the largest number."""
    X = numbers()
    columns, cuts = leaves._trees(np.array(leaves.fit(X)["cuts"]), 0)
    for node in range(leaves.LEAVES - 1):
        assert (cuts[:, node] < X.max(axis=0)[columns[:, node]]).all()
        above = (node - 1) // 2
        while node and above >= 0:
            assert not ((columns[:, node] == columns[:, above]) & (cuts[:, node] == cuts[:, above])).any()
            above = (above - 1) // 2


def test_only_the_order_of_the_numbers_counts():
    """Another unit, a logarithm or an outlier in a column leave all rows in their leaves."""
    X = numbers()
    others = np.column_stack([X[:, 0] * 1000, np.exp(X[:, 1]), X[:, 2] ** 3, X[:, 3] - 7, X[:, 4]])
    others[X[:, 4].argmax(), 4] = 1e9
    assert np.array_equal(reached(X), reached(others))


def test_near_rows_share_leaves():
    """Two rows share more leaves if fewer numbers of the file are between them in each column."""
    X = numbers()
    near = np.mean(reached(X) == reached(X + 0.1, leaves.fit(X)))
    far = np.mean(reached(X) == reached(X + 2, leaves.fit(X)))
    assert near > 0.7 > 0.2 > far


def test_leaves_have_the_same_bits_everywhere():
    X = np.arange(60.0).reshape(20, 3) % 7 - 3
    assert "de180ba5b1136e2c" == hashlib.sha256(reached(X).astype("<i4").tobytes()).hexdigest()[:16]


def test_constant_columns_divide_nothing():
    """Trees never cut a constant column, and go left where no column divides the rows; NaN goes left, too."""
    X = np.column_stack([np.full(40, 5.0), np.arange(40) % 2, np.arange(40) % 3 == 0])
    fitted = leaves.fit(X)
    columns, cuts = leaves._trees(np.array(fitted["cuts"]), 0)
    assert {1, 2} == {*columns[np.isfinite(cuts)].tolist()}
    assert 4 == len(np.unique(reached(X), axis=0))
    assert not reached(np.full((1, 3), np.nan), fitted).any()
    assert not reached(np.full((9, 2), 3.0)).any()


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_rows_with_leaves_have_unit_length(make):
    """Half of a row's squared length comes from the leaves; the other half is the row without leaves."""
    X = make(numbers())
    both = [scaling.made_rows(scaling.fit(X, "standardize+l2", each), X) for each in ("fourier", "leaves")]
    waved, made = (rows.matrix(each).toarray() for each in both)
    np.testing.assert_allclose((made**2).sum(axis=1), 1, rtol=1e-6)
    kept = np.hstack([made[:, :5], made[:, -2 * fourier.WAVES :]])
    np.testing.assert_allclose(kept, np.sqrt(0.5) * waved, rtol=1e-6)
    assert 5 + leaves.COLUMNS + 2 * fourier.WAVES == made.shape[1]


def test_a_column_is_cut_the_more_its_numbers_differ():
    X = np.column_stack([numbers()[:, 0], np.arange(300) % 20 == 0])
    columns, _ = leaves._trees(np.array(leaves.fit(X)["cuts"]), 0)
    of_roots = np.bincount(columns[:, 0], minlength=2)
    assert of_roots[0] > 5 * of_roots[1] > 0
