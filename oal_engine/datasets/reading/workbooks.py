"""Read the sheets of Excel workbooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from zipfile import ZipFile

from ...output.tables import MAX_SHEET_ROWS, unescaped
from .foreign import foreign
from .parsed import Doubt, ParsedFile, cell_text, name_list
from .sources import DataError, Source
from .tables import to_table

FIRST_ROWS = 100  # in which a sheet must have at least two rows that are not empty


@foreign
def xlsx(source: Source) -> ParsedFile:
    """Read a sheet of an Excel workbook: the one named in the layout, else the first one with at least two rows, with a
    `Doubt` if several have at least two rows."""
    from openpyxl import load_workbook

    binary = source.whole()
    with ZipFile(binary) as archive:
        source.check_size(sum(member.file_size for member in archive.infolist()))
        if damaged := archive.testzip():  # its real size may differ from the declared one
            raise ValueError(f"its part {damaged} is damaged")
    binary.seek(0)
    workbook = load_workbook(binary, read_only=True, data_only=True, keep_links=False)
    sheets = {sheet.title: sheet for sheet in workbook.worksheets}
    first = {
        name: sheet.iter_rows(values_only=True, max_row=FIRST_ROWS)
        for name, sheet in sheets.items()
        if sheet.sheet_state == "visible"
    }
    name, doubts = _chosen(source, [*sheets], first)
    sheets[name].reset_dimensions()  # the declared size may be wrong
    rows = ([_unescaped(cell) for cell in row] for row in sheets[name].iter_rows(values_only=True))
    return to_table(source, _worded(enumerate(rows, 1), source), {"sheet": name}, doubts, padded=True)


def _unescaped(cell: Any) -> Any:
    return unescaped(cell) if isinstance(cell, str) else cell


def _chosen(source: Source, names: Sequence[str], first: Mapping[str, Iterator[Any]]) -> tuple[str, tuple[Doubt, ...]]:
    """Return the name of the sheet to read, and a `Doubt` if it is a guess. first: {visible sheet: its first rows}."""
    wanted, doubts = source.layout.sheet, tuple[Doubt, ...]()
    if wanted is None:
        filled = [name for name, rows in first.items() if _is_table(rows)]
        wanted = next(iter(filled or names), None)
        if len(filled) > 1:
            question = f"{source.name} has the sheets {name_list(filled)}: say which to read (--sheet NAME)."
            doubts = (Doubt("sheet", question, tuple(filled)),)
    if wanted is None:
        raise DataError(f"{source.name} has no sheet with cells.")
    if wanted not in names:
        raise DataError(f"{source.name} has no sheet {wanted!r}; its sheets are {name_list(names)}.")
    return wanted, doubts


def _is_table(rows: Iterator[Sequence[Any]]) -> bool:
    """Tell whether at least two rows are not empty."""
    filled = (row for row in rows if any(cell not in (None, "") for cell in row))
    return len([*islice(filled, 2)]) == 2


def _worded(rows: Iterable[tuple[int, Sequence[Any]]], source: Source) -> Iterator[tuple[int, list[str] | str]]:
    """Convert cells to words. Yield the rows that are not empty, without their trailing empty cells."""
    size = 0
    for number, row in rows:
        if number > MAX_SHEET_ROWS:  # a damaged file may declare billions of rows
            raise ValueError(f"row number exceeds the sheet limit of {MAX_SHEET_ROWS:,}")
        source.limits.check("columns", len(row), source.name)
        source.check_size(size := size + len(row))  # empty cells take nothing in the file
        cells = [cell_text(cell) for cell in row]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            yield number, cells
