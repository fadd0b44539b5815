"""The numbers of vectors as in their file, which people see; the rows have them scaled."""

from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ...kernel import rows
from ...kernel.rows import Matrix, Rows, SparseRows
from ...output.tables import FEATURES
from .. import row_files
from ..reading.codings import COMMA, POINT, Codings, OriginalCell, original_cells

NAME = "numbers.npy"


class Numbers(NamedTuple):
    """The unscaled numbers of a data set of vectors: all of dense rows, or the stored ones of sparse rows, row by row.

    values: None if a version that did not store them imported the data. names: of the features. columns, codings: of
    the file, if some of its words became numbers.
    """

    values: np.ndarray | None
    rows: Rows
    names: list[str]
    columns: tuple[str, ...] = ()
    codings: Codings = MappingProxyType({})

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

    def original_cells(self, position: int) -> list[OriginalCell]:
        """Return the cells of an item as in its file, if some of the words became numbers."""
        columns, values = self.of_item(position)
        return [*original_cells(self.columns, self.codings, dict(zip(columns.tolist(), values.tolist())))]

    @property
    def table_columns(self) -> dict[str, type]:
        """The columns of a table of the items, with the type of their cells."""
        if self.codings:
            words = {column for column, coding in self.codings.items() if coding not in (POINT, COMMA)}
            return {column: str if column in words else float for column in self.columns}
        return {FEATURES: str} if isinstance(self.rows, SparseRows) else dict.fromkeys(self.names, float)

    def cells(self, position: int) -> list[float | str] | list[float] | list[str]:
        """Return the cells of an item in `table_columns`: as in its file, its numbers, or a sparse row in one cell."""
        if self.codings:
            return [cell.value for cell in self.original_cells(position)]
        columns, values = self.of_item(position)
        if isinstance(self.rows, SparseRows):
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
