"""The unscaled numbers of vectors, as in their file, to show to people; the rows of a data set are scaled."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ...kernel import rows
from ...kernel.rows import Matrix, Rows, SparseRows
from ...output.tables import FEATURES
from .. import row_files
from ..reading.codings import COMMA, POINT, Codings, OriginalCell, original_cells

NAME = "numbers.npy"


class Numbers(NamedTuple):
    """The unscaled numbers of vectors, row by row: all numbers of dense rows, the stored entries of sparse rows.

    values: None if the data were imported by an older version, which did not store them. names: names of the features.
    columns, codings: if words were coded as numbers, the columns of the file and how their words are coded.
    """

    values: np.ndarray | None
    rows: Rows
    names: list[str]
    columns: tuple[str, ...] = ()
    codings: Codings = MappingProxyType({})

    def of_item(self, position: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (column indices, numbers) of an item: all of a dense row, or the stored entries of a sparse row. The
        numbers are the scaled ones if the unscaled ones are not stored."""
        if self.values is None:
            return rows.nonzero(self.rows, position)
        if isinstance(self.rows, SparseRows):
            span = slice(self.rows.indptr[position], self.rows.indptr[position + 1])
            return self.rows.indices[span].astype(np.int64), self.values[span]
        width = len(self.names)
        return np.arange(width), self.values[position * width : (position + 1) * width]

    def original_cells(self, position: int) -> list[OriginalCell]:
        """Decode the numbers of an item into its cells in the file. Return [] if no words were coded as numbers."""
        columns, values = self.of_item(position)
        return [*original_cells(self.columns, self.codings, dict(zip(columns.tolist(), values.tolist())))]

    @property
    def table_columns(self) -> dict[str, type]:
        """The columns of a table of the items, {name: type of the cells}."""
        if self.codings:
            words = {column for column, coding in self.codings.items() if coding not in (POINT, COMMA)}
            return {column: str if column in words else float for column in self.columns}
        return {FEATURES: str} if isinstance(self.rows, SparseRows) else dict.fromkeys(self.names, float)

    def cells(self, position: int) -> list[float | str] | list[float] | list[str]:
        """Return the cells of an item, one per column of `table_columns`. A sparse row is packed into one cell."""
        if self.codings:
            return [cell.value for cell in self.original_cells(position)]
        columns, values = self.of_item(position)
        if isinstance(self.rows, SparseRows):
            return [packed_row(self.names, columns, values)]
        by_column = dict(zip(columns.tolist(), values.tolist()))
        return [by_column.get(column, 0.0) for column in range(len(self.names))]


def packed_row(names: list[str], columns: np.ndarray, values: np.ndarray) -> str:
    """Pack a sparse row into one cell, such as `1:0.0 3:0.5 9:0.0`, with the column numbers of its file.

    The first and the last column are always included, so that a reader knows the range of columns.
    """
    first, ends = int(names[:1] != ["0"]), {0: 0.0, len(names) - 1: 0.0}
    row = ends | dict(zip(columns.tolist(), values.tolist()))
    return " ".join(f"{first + column}:{row[column]!r}" for column in sorted(row))


def flat(vectors: Matrix, table: Rows) -> np.ndarray:
    """Flatten vectors to the float64 numbers to store: only the entries if `table` is sparse, else all numbers."""
    from scipy import sparse

    if isinstance(table, SparseRows):
        return rows.as_rows(sparse.csr_array(vectors)).values
    dense: Any = vectors.toarray() if rows.is_sparse(vectors) else vectors
    return np.ravel(dense).astype(np.float64, copy=False)


def mapped(folder: Path, table: Rows, columns: int) -> np.ndarray:
    """Memory-map the unscaled numbers that are stored in a folder with `table`. columns: width of dense rows."""
    size = table.values.size if isinstance(table, SparseRows) else rows.length(table) * columns
    return row_files.mapped(folder / NAME, np.float64, size)
