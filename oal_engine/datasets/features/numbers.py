"""The numbers of vectors as their file has them, beside the rows, which are scaled: what people see of an item."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ...kernel import rows
from ...kernel.rows import Matrix, Rows, SparseRows
from .. import row_files

NAME = "numbers.npy"


class Numbers(NamedTuple):
    """The numbers of a data set of vectors beside its rows: of dense rows all, row by row; of sparse ones those that
    the rows hold, in their order; None where a version that kept none imported it. names: those of its columns."""

    values: np.ndarray | None
    rows: Rows
    names: list[str]

    def of_item(self, position: int) -> tuple[np.ndarray, np.ndarray]:
        """The columns of an item and their numbers: all of a dense table, of a sparse one those that the file names.
        Where none are kept, what the row holds."""
        if self.values is None:
            return rows.nonzero(self.rows, position)
        if isinstance(self.rows, SparseRows):
            span = slice(self.rows.indptr[position], self.rows.indptr[position + 1])
            return self.rows.indices[span].astype(np.int64), self.values[span]
        width = len(self.names)
        return np.arange(width), self.values[position * width : (position + 1) * width]

    @property
    def sparse(self) -> bool:
        """Whether only those of its many columns are kept in which an item has something."""
        return isinstance(self.rows, SparseRows)

    def cells(self, position: int) -> list[float] | list[str]:
        """The numbers of an item as cells of a table: one for each column, or those of a sparse row packed in one."""
        columns, values = self.of_item(position)
        if self.sparse:
            return [packed_row(self.names, columns, values)]
        named = dict(zip(columns.tolist(), values.tolist()))
        return [named.get(column, 0.0) for column in range(len(self.names))]


def packed_row(names: list[str], columns: np.ndarray, values: np.ndarray) -> str:
    """The numbers of a sparse row in one cell, such as `1:0.0 3:0.5 9:0.0`, by the numbers that are the names of its
    columns. The first and the last column always stand, for they say which there are."""
    first, ends = int(names[:1] != ["0"]), {0: 0.0, len(names) - 1: 0.0}
    row = ends | dict(zip(columns.tolist(), values.tolist()))
    return " ".join(f"{first + column}:{row[column]!r}" for column in sorted(row))


def flat(vectors: Matrix, made: Rows) -> np.ndarray:
    """The numbers of a table in the order in which they are kept beside rows of a kind."""
    if isinstance(made, SparseRows):
        return rows.as_rows(sparse.csr_array(vectors)).values
    dense: Any = vectors.toarray() if sparse.issparse(vectors) else vectors
    return np.ravel(dense).astype(np.float64, copy=False)


def mapped(folder: Path, made: Rows, columns: int) -> np.ndarray:
    """The numbers beside rows that are mapped from a folder."""
    size = made.values.size if isinstance(made, SparseRows) else rows.length(made) * columns
    return row_files.mapped(folder / NAME, np.float64, size)
