"""Scale tables of numbers into rows. The parameters are stored, so that appended items are scaled the same way."""

from typing import Any, TypeAlias, cast

import numpy as np

from ...kernel import rows
from ...kernel.rows import Matrix, Rows, SparseRows
from . import SCALINGS, VECTOR_FEATURES, fourier, leaves

Scaling: TypeAlias = dict[str, Any]  # name; mean and deviation of the columns, fourier, leaves if needed

USUAL = {
    "plain": "l2",
    "fourier": "standardize+l2",
    "leaves": "standardize+l2",
}  # {features of vectors: default scaling}
LARGEST, SMALLEST = 1e150, 1e-150  # sizes whose squares neither overflow nor vanish
BYTES = {"plain": 0, "fourier": 8 * fourier.WAVES, "leaves": 8 * fourier.WAVES + 12 * leaves.TREES}  # added to a row
FEW_COLUMNS = 256  # waves and leaves were tried with up to this number of columns
MAX_DENSE_BYTES = 2**31  # of a table that is standardized or gets waves
USUAL_MAX_BYTES = 2**30  # larger tables get waves or leaves only on request: an import needs half as much again


def usual_features(matrix: Matrix, scale: str | None = None) -> str:
    """Choose the default features of a table: "plain" if it has many columns, will not be scaled (`scale` is "none") or
    holds no numbers other than 0 and 1; else the first of "leaves", "fourier" and "plain" for which it is small enough.
    """
    numbers = matrix.data if rows.is_sparse(matrix) else np.asarray(matrix)
    if matrix.shape[1] > FEW_COLUMNS or scale == "none" or np.isin(numbers, (0, 1)).all():
        return "plain"
    return next((each for each in ("leaves", "fourier") if _size(matrix, each) <= USUAL_MAX_BYTES), "plain")


def fit(matrix: Matrix, name: str, features: str = "plain") -> Scaling:
    """Fit a scaling, and the waves and leaves of `features`, to a table. Return the parameters, for JSON."""
    for kind, value, allowed in (("scaling", name, SCALINGS), ("features", features, VECTOR_FEATURES)):
        if value not in allowed:
            raise ValueError(f"{kind} must be one of {', '.join(allowed)}. Got {value}.")
    scaling: Scaling = {"name": name}
    if name != "none" or features != "plain":
        _check_sizes(matrix, name if features == "plain" else features)
    if name == "standardize+l2" or features != "plain":
        dense = _dense(matrix, name, features)
        low, constant = (
            dense.min(axis=0),
            np.ptp(dense, axis=0) == 0,
        )  # rounding may give a constant column a deviation
        mean, deviation = np.where(constant, low, dense.mean(axis=0)), np.where(constant, 1, dense.std(axis=0))
        if not (deviation > 0).all():
            column = int(np.flatnonzero(~(deviation > 0))[0])
            raise ValueError(
                f"{name} needs columns whose numbers differ by at least {SMALLEST:g}. Column {column + 1} "
                f"differs by {np.ptp(dense[:, column]):g}: use other units."
            )
        scaling |= {"mean": mean.tolist(), "deviation": deviation.tolist()}
        if features != "plain":
            scaling["fourier"] = fourier.fit(_standardized(scaling, dense))
        if features == "leaves":
            scaling["leaves"] = leaves.fit(dense)
    return scaling


def _check_sizes(matrix: Matrix, name: str) -> None:
    """Raise ValueError if a number is so large that its square overflows, or if the numbers of the whole table are so
    small that their squares vanish."""
    numbers = matrix.data if rows.is_sparse(matrix) else np.asarray(matrix)
    size = max(float(numbers.max()), -float(numbers.min())) if numbers.size else 0
    if size > LARGEST or 0 < size < SMALLEST:
        what = f"numbers up to {LARGEST:g}" if size > LARGEST else f"a number of at least {SMALLEST:g}"
        raise ValueError(f"{name} needs {what}, for their squares. The largest is {size:g}: use other units.")


def made_rows(scaling: Scaling, matrix: Matrix) -> Rows:
    """Scale a table into rows, and append the leaves and the waves whose parameters the scaling has."""
    from scipy import sparse

    if "fourier" not in scaling:
        return rows.as_rows(apply(scaling, matrix))
    dense = _dense(matrix, scaling["name"], "leaves" if "leaves" in scaling else "fourier")
    columns = np.sqrt(1 - fourier.SHARE) * apply(scaling, dense)
    waves = fourier.waves(scaling["fourier"], _standardized(scaling, dense))
    if "leaves" in scaling:
        waves *= np.float32(np.sqrt(1 - leaves.SHARE))
        return rows.mixed_rows(leaves.beside(columns, scaling["leaves"], dense), waves)
    return rows.mixed_rows(cast(SparseRows, rows.as_rows(sparse.csr_array(columns))), waves)


def unnamed(scaling: Scaling) -> int:
    """Return the number of columns that `made_rows` appends."""
    return leaves.COLUMNS * ("leaves" in scaling) + 2 * fourier.WAVES * ("fourier" in scaling)


def apply(scaling: Scaling, matrix: Matrix) -> Matrix:
    """Scale a sparse or dense table. A row of zeros stays zero under l2."""
    from scipy import sparse

    if scaling["name"] == "none":
        return matrix
    if scaling["name"] == "standardize+l2":
        matrix = _standardized(scaling, _dense(matrix, scaling["name"]))
    if rows.is_sparse(matrix):
        norms = np.sqrt(matrix.power(2).sum(axis=1))
        scaled = sparse.csr_array(sparse.diags_array(1 / np.where(norms > 0, norms, 1)) @ matrix)
        scaled.sum_duplicates()  # sorts the indices in place, which spares a copy later
        return scaled
    dense = np.asarray(matrix)
    norms = np.linalg.norm(dense, axis=1, keepdims=True)
    return dense / np.where(norms > 0, norms, 1)


def _standardized(scaling: Scaling, dense: np.ndarray) -> np.ndarray:
    return (dense - scaling["mean"]) / scaling["deviation"]


def _dense(matrix: Matrix, name: str, features: str = "plain") -> np.ndarray:
    """Return a table as a dense array. Raise ValueError if it would be too large, including its waves and leaves."""
    size, instead = _size(matrix, features), "l2" if features == "plain" else "plain"
    if size > MAX_DENSE_BYTES and (features != "plain" or rows.is_sparse(matrix)):
        items, columns = np.shape(matrix)
        raise ValueError(
            f"{name if features == 'plain' else features} would fill a table of {items:,} x {columns:,} numbers: "
            f"{size / 2**30:.1f} GiB, over the limit of {MAX_DENSE_BYTES / 2**30:.1f} GiB. Use {instead}."
        )
    return matrix.toarray() if rows.is_sparse(matrix) else np.asarray(matrix, dtype=np.float64, order="C")


def _size(matrix: Matrix, features: str) -> int:
    """Compute the size in bytes of a table as a dense array, including the waves and leaves of `features`."""
    items, columns = np.shape(matrix)
    return items * (8 * columns + BYTES[features])
