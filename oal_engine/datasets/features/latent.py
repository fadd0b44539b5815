"""Turn similar wording into dense columns: latent semantic analysis (truncated SVD) of the terms of a data set.

Terms that occur in the same texts get similar directions, so that a label also tells about texts with other words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from ...kernel import rows, truncated_svd
from ...kernel.rows import Matrix, SparseRows
from ..reading.sources import Progress

WEIGHT = 0.2  # share of the latent part in the squared length of a row
MAX_DIRECTIONS = 100
MIN_TEXTS, MIN_TERMS = 20, 2  # with fewer, there is no latent part
MAX_FITTED_TEXTS = 50_000  # to which the directions are fitted
CHUNK_TEXTS = 10_000  # projected at a time


@dataclass(frozen=True, eq=False)
class Projection:
    """The latent directions, one per column, with the mean of each column as last row: float32, (terms + 1, width)."""

    numbers: np.ndarray

    def columns(self, terms: Matrix, weight: float = WEIGHT) -> np.ndarray:
        """Project term rows of unit length onto the directions. Return float32 rows of squared length `weight`; rows
        whose projection is zero consist of zeros."""
        latent = np.empty((np.shape(terms)[0], self.numbers.shape[1]), np.float32)
        for first in range(0, len(latent), CHUNK_TEXTS):
            chunk = slice(first, first + CHUNK_TEXTS)
            own = cast(SparseRows, rows.as_rows(terms[chunk]))
            projected = unit(truncated_svd.multiply(own, self.numbers[:-1]))
            centered = np.where(projected.any(axis=1, keepdims=True), projected - self.numbers[-1], 0)
            latent[chunk] = np.sqrt(weight) * unit(centered)
        return latent


def fitted_texts(texts: int) -> np.ndarray:
    """Return the positions of the texts to fit the projection to: up to MAX_FITTED_TEXTS, evenly spaced."""
    size = min(texts, MAX_FITTED_TEXTS)
    return np.arange(size) * texts // size


def fit(terms: Matrix, progress: Progress | None = None, shared: int = 0) -> Projection | None:
    """Fit the projection to unit-length term rows of `fitted_texts`. Return None if there are too few texts or terms.

    shared: the number of hash columns, which come last and are ignored.
    """
    size, own = terms.shape[0], terms.shape[1] - shared
    if size < MIN_TEXTS:
        return None
    sparse = cast(SparseRows, rows.as_rows(terms[:, :own]))
    if (n_terms := np.unique(sparse.indices).size) < MIN_TERMS:
        return None
    if progress:
        progress(0, 1)
    directions = truncated_svd.strongest(sparse, min(MAX_DIRECTIONS, size // 4, 1 + n_terms // 4))
    directions = directions.astype(np.float32)
    projected = unit(truncated_svd.multiply(sparse, directions))
    if progress:
        progress(1, 1)
    zeros, means = np.zeros((shared, directions.shape[1])), projected.cumsum(axis=0)[-1] / size
    return Projection(rows.read_only(np.vstack([directions, zeros, means]), np.float32))


def unit(table: np.ndarray) -> np.ndarray:
    """Scale each row of a table to unit length; rows of zeros stay zero."""
    lengths = np.sqrt((table * table).cumsum(axis=1)[:, -1:])  # a sum in a fixed order, with the same bits everywhere
    return table / np.where(lengths > 0, lengths, 1)
