"""Read a table from a web page (HTML)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from .foreign import foreign
from .parsed import Doubt, ParsedFile, name_list
from .sources import DataError, Source
from .tables import to_table

CHARSET = re.compile(rb"""(?i)<meta[^>]+charset=["']?([\w-]+)""")
BREAKS = ("br", "p", "div", "li")  # words before and after them are separate
NAME_CHARACTERS = 60
MAX_SPAN_COLUMNS = 1000  # as in browsers
PAGE = re.compile(rb"(?i)\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<(!doctype html|html|head|body|table)\b", re.DOTALL)


def looks_html(head: bytes) -> bool:
    """Tell whether a file begins like a web page or an HTML table."""
    return PAGE.match(head.removeprefix(b"\xef\xbb\xbf")) is not None


@foreign
def webpage(source: Source) -> ParsedFile:
    """Read a table from a web page: the one named in the layout, else the first one with at least two rows, with a
    `Doubt` if several have at least two rows."""
    from lxml import html

    declared = CHARSET.search(source.head())
    if source.encoding == "utf-8" and declared:
        source = source._replace(encoding=declared[1].decode().casefold())
    content = source.text().encode(errors="replace")
    page = html.document_fromstring(content, parser=html.HTMLParser(encoding="utf-8"))
    for element in page.iter(*BREAKS):
        element.tail = f"\n{element.tail or ''}"
    several_rows = (rows for table in page.iter("table") if len(rows := _rows(table)) > 1)
    tables = {_name(number, rows): rows for number, rows in enumerate(several_rows, 1)}
    if not tables:
        raise DataError(f"{source.name} is a web page without a table: save its texts as lines of a text file.")
    wanted, doubts = source.layout.table or next(iter(tables)), tuple[Doubt, ...]()
    if wanted not in tables:
        raise DataError(f"{source.name} has no table {wanted!r}; its tables are {name_list(tables)}.")
    if len(tables) > 1 and source.layout.table is None:
        question = f"{source.name} has the tables {name_list(tables)}: say which to read (--table NAME)."
        doubts = (Doubt("table", question, tuple(tables)),)
    rows = tables[wanted]
    if source.layout.header is None and all(cell.tag == "th" for cell in _cells(rows[0])):
        source = source._replace(layout=replace(source.layout, header=True))
    detected = {"table": wanted, "encoding": source.encoding}
    return to_table(source, enumerate(_spanned(rows, source), 1), detected, doubts, padded=True)


def _rows(table: Any) -> list[Any]:
    """Return the rows of a table that have cells, without the rows of nested tables."""
    return [row for row in table.xpath("tr|thead/tr|tbody/tr|tfoot/tr") if _cells(row)]


def _cells(row: Any) -> list[Any]:
    return [cell for cell in row if cell.tag in ("td", "th")]


def _name(number: int, rows: list[Any]) -> str:
    """Name a table by its number and the words of its first row."""
    return f"{number}: {', '.join(filter(None, map(_text, _cells(rows[0]))))}"[:NAME_CHARACTERS].strip(": ")


def _text(cell: Any) -> str:
    return " ".join(cell.text_content().split())


def _spanned(rows: list[Any], source: Source) -> Iterator[list[str]]:
    """Yield the words of each row; a cell that spans several columns or rows is repeated in each of them."""
    from_above = dict[int, tuple[str, int]]()  # column: the text of its cell, and how many rows it still spans
    for row in rows:
        placed = list[tuple[str, int]]()
        for cell in (*_cells(row), None):
            while len(placed) in from_above:
                placed.append(from_above[len(placed)])
            if cell is not None:
                width = min(_span(cell, "colspan"), MAX_SPAN_COLUMNS)
                placed += [(_text(cell), _span(cell, "rowspan"))] * width
            source.limits.check("columns", len(placed), source.name)
        yield [text for text, _ in placed]
        from_above = {column: (text, height - 1) for column, (text, height) in enumerate(placed) if height > 1}


def _span(cell: Any, direction: str) -> int:
    span = cell.get(direction, "").strip()
    return int(span) if re.fullmatch(r"[1-9]\d{0,8}", span) else 1
