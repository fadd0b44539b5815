"""Leaves of random trees: a row has one entry for each tree, in the column of the leaf into which it falls. Rows in one
leaf share ranges of a few columns, so a linear learner can learn "high a and low b" (totally randomized trees: Geurts,
Ernst, Wehenkel 2006).

No label is used. Trees cut at numbers of the file, as dense as the numbers are: neither outliers nor the unit of a
column matter. A cut is a comparison, so that rows have the same bits on every machine. A number above the cut goes
right; all others go left, and NaN does, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, cast

import numpy as np

from ...kernel.draws import draws
from ...kernel.rows import SparseRows, as_rows, sparse_rows

if TYPE_CHECKING:
    from scipy.sparse import csr_array

TREES = 100
DEPTH = 6
LEAVES = 2**DEPTH  # of each tree
COLUMNS = TREES * LEAVES
SHARE = 0.5  # of the leaves in the squared length of a row
CUTS = 32  # numbers of each column at which a tree may cut, and the largest one
CHUNK_ROWS = 10_000


class Leaves(TypedDict):
    """The seed of the random trees, and for each column CUTS numbers of the file, equally far apart when sorted: from
    the smallest to the largest."""

    seed: int
    cuts: list[list[float]]


def fit(table: np.ndarray, seed: int = 0) -> Leaves:
    """Fit leaves to the columns of a table."""
    places = np.arange(CUTS) * (len(table) - 1) // (CUTS - 1)
    return {"seed": seed, "cuts": [np.sort(column)[places].tolist() for column in table.T]}


def beside(columns: np.ndarray, leaves: Leaves, table: np.ndarray) -> SparseRows:
    """Append the leaves of a table to its scaled columns, which keep the share 1 - SHARE of their squared length."""
    from scipy import sparse

    ends = np.append(0, np.cumsum(np.count_nonzero(columns, axis=1) + TREES))
    indices, values = np.empty(ends[-1], np.uint32), np.empty(ends[-1])
    for first in range(0, len(table), CHUNK_ROWS):  # all at once would need twice the memory
        some = slice(first, first + CHUNK_ROWS)
        parts = [sparse.csr_array(np.sqrt(1 - SHARE) * columns[some]), one_hot(leaves, table[some])]
        joined = cast(SparseRows, as_rows(sparse.hstack(parts, format="csr")))
        own = slice(ends[first], ends[first] + joined.values.size)
        indices[own], values[own] = joined.indices, joined.values
    return sparse_rows(ends, indices, values, columns.shape[1] + COLUMNS)


def one_hot(leaves: Leaves, table: np.ndarray) -> csr_array:
    """Compute the leaves of a table: a sparse table of shape (rows, COLUMNS). Each row has TREES equal entries, with
    squared length SHARE."""
    from scipy.sparse import csr_array

    columns, cuts = _trees(np.array(leaves["cuts"], np.float64), leaves["seed"])
    trees, rows, nodes = np.arange(TREES), np.arange(len(table))[:, None], np.zeros((len(table), TREES), np.int64)
    for _ in range(DEPTH):
        nodes = 2 * nodes + 1 + (table[rows, columns[trees, nodes]] > cuts[trees, nodes])
    reached = trees * LEAVES + nodes - (LEAVES - 1)
    values = np.full(reached.size, np.sqrt(SHARE / TREES))
    return csr_array((values, reached.ravel(), np.arange(len(table) + 1) * TREES), shape=(len(table), COLUMNS))


def _trees(cuts: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Grow the trees. Return the column and the cut of each node, both of shape (TREES, LEAVES - 1): the children of
    node k are 2 k + 1 and 2 k + 2.

    A node draws one of the columns that still divide its rows, the more often the more pairs of the column's cuts
    differ, and one of this column's cuts that are left. If none can divide them, the cut is infinite: all go left.
    """
    first, after = _equal(cuts)
    pairs = (CUTS - (after - first)).sum(axis=1, dtype=np.int32)
    of_column, of_cut = draws(seed, 2 * TREES * (LEAVES - 1)).reshape(2, TREES, LEAVES - 1)
    # the cuts of each column that are left in each node of a level are low .. high - 1; none is at the largest number
    low = np.zeros((TREES, 1, len(cuts)), np.uint8)
    high = np.tile(first[:, -1], (TREES, 1, 1))
    columns, numbers = [], []
    for level in range(DEPTH):
        nodes = slice(2**level - 1, 2 ** (level + 1) - 1)
        dividing = np.cumsum((low < high) * pairs, axis=2, dtype=np.int32)
        total = dividing[..., -1]
        column = (dividing > (of_column[:, nodes] * total).astype(np.int32)[..., None]).argmax(axis=2)
        at = column[..., None]
        least, most = (np.take_along_axis(each, at, 2)[..., 0].astype(np.int64) for each in (low, high))
        place = np.minimum(least + (of_cut[:, nodes] * (most - least)).astype(np.int64), CUTS - 1)
        columns.append(column)
        numbers.append(np.where(total > 0, cuts[column, place], np.inf))
        low, high = np.repeat(low, 2, axis=1), np.repeat(high, 2, axis=1)
        np.put_along_axis(high[:, 0::2], at, first[column, place][..., None], 2)  # in the left child
        np.put_along_axis(low[:, 1::2], at, after[column, place][..., None], 2)  # in the right child
    return np.hstack(columns), np.hstack(numbers)


def _equal(cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each of the sorted cuts of a column, the place of the first equal cut, and of the next larger one."""
    differs, edge = cuts[:, 1:] != cuts[:, :-1], np.ones((len(cuts), 1), bool)
    places = np.arange(CUTS, dtype=np.uint8)
    first = np.maximum.accumulate(np.where(np.hstack([edge, differs]), places, 0), axis=1)
    ends = np.where(np.hstack([differs, edge]), places + 1, CUTS)
    return first.astype(np.uint8), np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1].astype(np.uint8)
