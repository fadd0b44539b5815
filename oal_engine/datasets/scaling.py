"""How rows are scaled before they are learned from, and remembered so that later items are scaled alike."""

from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from ..kernel.rows import Matrix

Scaling: TypeAlias = dict[str, Any]  # its name, and mean and deviation of the columns where it needs them

SCALINGS = {
    "l2": "every row to unit length",
    "none": "as they are",
    "standardize+l2": "every column to mean 0 and deviation 1 over the whole file, then every row to unit length",
}
DENSE_LIMIT = 2**31  # bytes of a sparse table that standardising would fill


def fit(matrix: Matrix, name: str) -> Scaling:
    """The scaling of a table as stored."""
    if name not in SCALINGS:
        raise ValueError(f"scaling must be one of {', '.join(SCALINGS)}. Got {name}.")
    if name != "standardize+l2":
        return {"name": name}
    dense = _dense(matrix)
    low, constant = dense.min(axis=0), np.ptp(dense, axis=0) == 0  # rounding gives a constant column a deviation
    mean, deviation = np.where(constant, low, dense.mean(axis=0)), np.where(constant, 1, dense.std(axis=0))
    return {"name": name, "mean": mean.tolist(), "deviation": deviation.tolist()}


def apply(scaling: Scaling, matrix: Matrix) -> Matrix:
    """Scale a sparse or dense table; a row of zeros stays one under l2."""
    if scaling["name"] == "standardize+l2":
        matrix = (_dense(matrix) - scaling["mean"]) / scaling["deviation"]
    if scaling["name"] == "none":
        return matrix
    if sparse.issparse(matrix):
        norms = np.sqrt(matrix.multiply(matrix).sum(axis=1))
        return sparse.csr_array(sparse.diags_array(1 / np.where(norms > 0, norms, 1)) @ matrix)
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix / np.where(norms > 0, norms, 1)


def _dense(matrix: Matrix) -> np.ndarray:
    if not sparse.issparse(matrix):
        return np.asarray(matrix, dtype=np.float64)
    size = 8 * matrix.shape[0] * matrix.shape[1]
    if size > DENSE_LIMIT:
        raise ValueError(
            f"standardize+l2 would fill a table of {matrix.shape[0]:,} x {matrix.shape[1]:,} numbers: "
            f"{size / 2**30:.1f} GiB, over the limit of {DENSE_LIMIT / 2**30:.1f} GiB. Use l2."
        )
    return matrix.toarray()
