"""The numbers of vectors as their file has them, beside the rows, which are scaled: what people see of an item."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..kernel import rows
from ..kernel.rows import Matrix, Rows, SparseRows

NAME = "numbers.npy"  # every number of dense rows, row by row; of sparse ones those that the rows hold, in their order


def save(folder: Path, vectors: Matrix, made: Rows) -> None:
    """Write the numbers of a file beside the rows that were made of them."""
    np.save(folder / NAME, _flat(vectors, made))


class Numbers(NamedTuple):
    """The numbers of a data set of vectors: the folder of its rows, these rows, and how many columns its file has."""

    folder: Path
    rows: Rows
    columns: int

    @property
    def kept(self) -> bool:
        """Whether there are any: a version that kept none may have imported the data set."""
        return (self.folder / NAME).exists()

    def extend(self, vectors: Matrix, chosen: np.ndarray) -> None:
        """Write those of some rows of a table behind them."""
        if self.kept:
            some: Any = vectors
            rows.write_behind(self.folder / NAME, _flat(some[chosen], self.rows), self._size)

    @property
    def files(self) -> dict[Path, int]:
        """Their file, and how much of it counts, in bytes."""
        if not self.kept:
            return {}
        path, size = rows.extent(self._mapped)
        return {Path(path): size}

    def of_item(self, position: int) -> tuple[np.ndarray, np.ndarray]:
        """The columns of an item and their numbers: all of a dense table, of a sparse one those that the file names.
        Where none are kept, what the row holds."""
        if not self.kept:
            return rows.nonzero(self.rows, position)
        if isinstance(self.rows, SparseRows):
            span = slice(self.rows.indptr[position], self.rows.indptr[position + 1])
            return self.rows.indices[span].astype(np.int64), self._mapped[span]
        return np.arange(self.columns), self._mapped[position * self.columns : (position + 1) * self.columns]

    @property
    def _size(self) -> int:
        if isinstance(self.rows, SparseRows):
            return self.rows.values.size
        return rows.length(self.rows) * self.columns

    @property
    def _mapped(self) -> np.ndarray:
        return rows.mapped(self.folder / NAME, np.float64, self._size)


def _flat(vectors: Matrix, made: Rows) -> np.ndarray:
    """The numbers of a table in the order in which they are kept beside rows of a kind."""
    if isinstance(made, SparseRows):
        return rows.as_rows(sparse.csr_array(vectors)).values
    dense: Any = vectors.toarray() if sparse.issparse(vectors) else vectors
    return np.ravel(dense).astype(np.float64, copy=False)
