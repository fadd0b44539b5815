"""The numbers of vectors as in their file, which people see; the rows have them scaled."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ...kernel import rows
from ...kernel.rows import Matrix, Rows, SparseRows
from .. import row_files

NAME = "numbers.npy"


class Numbers(NamedTuple):
    """The unscaled numbers of a data set of vectors: all of dense rows, or the stored ones of sparse rows, row by row.

    values: None if a version that did not store them imported the data. names: of the columns.
    """

    values: np.ndarray | None
    rows: Rows
    names: list[str]

    def of_item(self, position: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns of an item and their numbers: all of a dense table, or the stored ones of a sparse row.
        Without stored numbers, return the scaled numbers of the row."""
        if self.values is None:
            return rows.nonzero(self.rows, position)
        if isinstance(self.rows, SparseRows):
            span = slice(self.rows.indptr[position], self.rows.indptr[position + 1])
            return self.rows.indices[span].astype(np.int64), self.values[span]
        width = len(self.names)
        return np.arange(width), self.values[position * width : (position + 1) * width]

    @property
    def sparse(self) -> bool:
        """Whether only columns in which an item has a number are stored."""
        return isinstance(self.rows, SparseRows)

    def cells(self, position: int) -> list[float] | list[str]:
        """Return the numbers of an item as table cells: one for each column, or a sparse row packed in one cell."""
        columns, values = self.of_item(position)
        if self.sparse:
            return [packed_row(self.names, columns, values)]
        by_column = dict(zip(columns.tolist(), values.tolist()))
        return [by_column.get(column, 0.0) for column in range(len(self.names))]


def packed_row(names: list[str], columns: np.ndarray, values: np.ndarray) -> str:
    """Pack a sparse row in one cell, such as `1:0.0 3:0.5 9:0.0`, with the column numbers of its file.

    The first and the last column are always included, so that a reader knows the range of columns.
    """
    first, ends = int(names[:1] != ["0"]), {0: 0.0, len(names) - 1: 0.0}
    row = ends | dict(zip(columns.tolist(), values.tolist()))
    return " ".join(f"{first + column}:{row[column]!r}" for column in sorted(row))


def flat(vectors: Matrix, table: Rows) -> np.ndarray:
    """Return the numbers of vectors in the order in which they are stored for rows of the kind of `table`."""
    if isinstance(table, SparseRows):
        return rows.as_rows(sparse.csr_array(vectors)).values
    dense: Any = vectors.toarray() if sparse.issparse(vectors) else vectors
    return np.ravel(dense).astype(np.float64, copy=False)


def mapped(folder: Path, table: Rows, columns: int) -> np.ndarray:
    """Map the stored numbers of the rows in a folder into memory. columns: of dense vectors."""
    size = table.values.size if isinstance(table, SparseRows) else rows.length(table) * columns
    return row_files.mapped(folder / NAME, np.float64, size)
