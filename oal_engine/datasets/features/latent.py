"""Similar wording as columns of its own: texts projected on the directions in which terms of a data set go together.

Terms that occur in the same texts lie alike, so that a label says something of texts with other words, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from ...kernel import rows, truncated_svd
from ...kernel.rows import Matrix, SparseRows
from ..reading.sources import Progress

WEIGHT = 0.2  # of the latent part in the squared length of a row
MOST = 100  # directions
FEWEST_TEXTS, FEWEST_TERMS = 20, 2  # with fewer there is no latent part
FITTED = 50_000  # texts at most that the directions are fitted on
CHUNK = 10_000  # texts that are projected at a time


@dataclass(frozen=True, eq=False)
class Projection:
    """The directions of the latent part and, as a last line, the means of its columns: float32, (terms + 1, width)."""

    numbers: np.ndarray

    def columns(self, terms: Matrix, weight: float = WEIGHT) -> np.ndarray:
        """The latent part of rows of terms of unit length, of squared length `weight`, float32; that of zeros is 0."""
        made = np.empty((np.shape(terms)[0], self.numbers.shape[1]), np.float32)
        for first in range(0, len(made), CHUNK):
            some = slice(first, first + CHUNK)
            made[some] = np.sqrt(weight) * self._project(cast(SparseRows, rows.as_rows(terms[some])))
        return made

    def _project(self, terms: SparseRows) -> np.ndarray:
        alike = unit(truncated_svd.multiply(terms, self.numbers[:-1]))
        return unit(np.where(alike.any(axis=1, keepdims=True), alike - self.numbers[-1], 0))


def fit(terms: Matrix, progress: Progress | None = None, shared: int = 0) -> Projection | None:
    """The projection of rows of terms of unit length; None where there are too few texts or terms for one.

    shared: how many of the last columns belong to no term alone, and therefore take no part.
    """
    texts, own = terms.shape[0], terms.shape[1] - shared
    if texts < FEWEST_TEXTS:
        return None
    size = min(texts, FITTED)
    sparse = cast(SparseRows, rows.as_rows(terms[np.arange(size) * texts // size][:, :own]))
    if (held := np.unique(sparse.indices).size) < FEWEST_TERMS:
        return None
    if progress:
        progress(0, 1)
    directions = truncated_svd.strongest(sparse, min(MOST, size // 4, 1 + held // 4))
    directions = directions.astype(np.float32)
    alike = unit(truncated_svd.multiply(sparse, directions))
    if progress:
        progress(1, 1)
    none = np.zeros((shared, directions.shape[1]))
    return Projection(rows.read_only(np.vstack([directions, none, alike.cumsum(axis=0)[-1] / size]), np.float32))


def unit(table: np.ndarray) -> np.ndarray:
    """The rows of a table at length 1; rows of zeros stay."""
    lengths = np.sqrt((table * table).cumsum(axis=1)[:, -1:])  # a sum in a fixed order, with the same bits everywhere
    return table / np.where(lengths > 0, lengths, 1)
