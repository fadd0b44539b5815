"""Read delimited text such as CSV: detect delimiter, quoting, first row of the table, header and number of columns."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from .parsed import (
    BROKEN,
    UNCLOSED,
    Doubt,
    ParsedFile,
    first_rows,
    is_number,
)
from .sources import DataError, Source, allow_more
from .tables import DECIMAL, ENOUGH_ROWS, Row, count_names, to_table

Dialect = dict[str, Any]  # arguments of csv.reader
DELIMITERS = {"\t": "tab", ";": "semicolon", "|": "pipe", ",": "comma", " ": "spaces"}  # the likeliest first
NAMED = {name: sign for sign, name in DELIMITERS.items()} | {"\\t": "\t", "space": " "}
LONG_DELIMITERS = ("_!_", "+++$+++", "|||", "@@@", "###", "<SEP>", "<sep>", "[SEP]", "::")  # recognized if in each line
ENOUGH_LINES = 3  # needed to recognize a delimiter of several characters
SPACES, ONE_COLUMN = " ", "\x1f"  # runs of spaces; a character that no text contains, for tables of one column
SAMPLE_CHARACTERS = 2**18  # from which the delimiter is detected
WIDTH_TOLERANCE, FOREIGN_TOLERANCE = 0.02, 0.1  # differences in a share too small to prefer one delimiter to another
ROW_SHARE = 0.9  # of the lines must have the same number of cells, else they are prose
TABLE_SHARE = 0.5  # of the rows must have the same number of cells, else a delimiter is rejected
ESCAPED = {"escapechar": "\\", "doublequote": False}  # quotes inside a cell are written \"


def parse(source: Source, quoted: bool | None = None, reader: str = "csv") -> ParsedFile:
    """Parse a delimited text file. `quoted`: whether quotes enclose cells (None: detect)."""
    # The default limit of csv, 128 kB for a cell, refuses long articles.
    csv.field_size_limit(max(csv.field_size_limit(), source.limits.line))
    # Remove the line limit: it could cut the last row of a preview inside a quote.
    rest = source._replace(limit=None).lines()
    lines = [line for _, line in first_rows(enumerate(rest), source.ahead, SAMPLE_CHARACTERS)]
    lines_above = 0
    if lines and (named := re.fullmatch(r"sep=(.)", lines[0].strip(" \r\n\ufeff"), re.IGNORECASE)):
        lines, lines_above = lines[1:], 1  # a line for Excel that names the delimiter
        source = source._replace(layout=replace(source.layout, delimiter=source.layout.delimiter or named[1]))
    if _are_wrapped(lines):
        lines, rest = [*map(_unwrapped, lines)], map(_unwrapped, rest)
    dialect, doubts = _dialect(source, lines, quoted, reader)
    delimiter = dialect["delimiter"]
    detected = {} if delimiter == ONE_COLUMN else {"delimiter": str(DELIMITERS.get(delimiter, delimiter))}
    if len(delimiter) > 1:
        records = _long_records(source, chain(lines, rest), dialect, lines_above)
    else:
        records = _records(source, chain(lines, rest), dialect, lines_above)
    return to_table(source, records, detected, doubts, decimals=delimiter != ",")


def _are_wrapped(lines: Sequence[str]) -> bool:
    """Tell whether each line is a single quoted cell that holds a whole row: the first one holds several names."""
    delimiter = _delimiter_of_names([*map(_unwrapped, lines)])
    return delimiter in DELIMITERS and all(
        line.startswith('"') and _width(line, {"delimiter": delimiter}) == 1 for line in lines
    )


def _unwrapped(line: str) -> str:
    """Return the content of a line that is a single quoted cell, with its line end; any other line as it is."""
    cells = next(csv.reader([line], delimiter=ONE_COLUMN), [])
    return cells[0] + "\n" if len(cells) == 1 and line.startswith('"') else line


def _dialect(
    source: Source, lines: Sequence[str], quoted: bool | None, reader: str
) -> tuple[Dialect, tuple[Doubt, ...]]:
    """Detect the delimiter and the quoting of `lines`. Return arguments for csv.reader, and any doubts about them."""
    doubts: tuple[Doubt, ...] = ()
    delimiter = delimiter_of(source.layout.delimiter)
    if delimiter is None and reader == "tsv" and any("\t" in line for line in lines):
        delimiter = "\t"
    quotes: Dialect = {"quoting": csv.QUOTE_NONE if quoted is False else csv.QUOTE_MINIMAL}
    if quoted is not False and _are_apostrophes(lines):
        quotes["quotechar"] = "'"
    if delimiter is None:
        likely = _likely(lines, quotes) or _likely(lines, quotes | ESCAPED)
        long = _long_delimiter(lines)
        if long and (long != LONG_DELIMITERS[-1] or all(_is_prose(lines, each, quotes) for each in likely)):
            likely = [long]
        delimiter = likely[0] if likely else _delimiter_of_names(lines) or ONE_COLUMN
        if len(likely) > 1:
            names = [DELIMITERS[each] for each in likely]
            doubts = (
                Doubt(
                    "delimiter",
                    f"The columns of {source.name} could be separated by {' or '.join(names)}: say which "
                    f"(--delimiter {' or --delimiter '.join(names)}).",
                    tuple(names),
                ),
            )
    if len(delimiter) > 1:
        return {"delimiter": delimiter, **quotes}, doubts
    dialect: Dialect = {"delimiter": delimiter, "skipinitialspace": _spaced(lines, delimiter)}
    quote = quotes.get("quotechar", '"')
    if quote == "'":
        dialect["quotechar"] = quote
    elif quoted is False or (quoted is None and delimiter == "\t" and not _is_quoted(lines, dialect)):
        return dialect | {"quoting": csv.QUOTE_NONE}, doubts
    if any(f"\\{quote}" in line for line in lines):
        dialect = min(dialect, dialect | ESCAPED, key=lambda each: _rows_and_errors(lines, each)[1])
    return dialect, doubts


def delimiter_of(word: str | None) -> str | None:
    """Return the characters of a delimiter, which may be named, such as tab. Raise DataError if it is invalid."""
    if word is None or word in NAMED:
        return NAMED[word] if word else None
    if len(word) != 1 and (not word or word.isalnum() or not word.isprintable()):
        raise DataError(f"--delimiter must be characters such as ; or ::, or {', '.join(NAMED)}. Got {word!r}.")
    return word


def _delimiter_of_names(lines: Sequence[str]) -> str | None:
    """Return the delimiter between the names in the first line, if most other lines have it as often. It may not cut
    them into equally many cells, because texts hold it without quotes."""
    for delimiter in (*DELIMITERS, *LONG_DELIMITERS):
        if delimiter == SPACES:
            continue
        names = [name.strip(" \r\n\"'\ufeff") for name in (lines[0] if lines else "").split(delimiter)]
        n_with = sum(line.count(delimiter) >= len(names) - 1 for line in lines)
        if len(names) > 1 and 2 * count_names(names) >= max(len(names), 4) and n_with >= ROW_SHARE * len(lines):
            return delimiter
    return None


def _are_apostrophes(lines: Sequence[str]) -> bool:
    """Tell whether apostrophes enclose cells: in most lines, or wherever lines could not be cut into cells else."""
    for delimiter in DELIMITERS:
        n_opened = sum(line.startswith("'") or f"{delimiter}'" in line for line in lines)
        if delimiter == SPACES or not n_opened:
            continue
        plain = {"delimiter": delimiter, "strict": True}
        marked = plain | ESCAPED if any("\\'" in line for line in lines) else plain
        widths = Counter(_width(line, marked | {"quotechar": "'"}) for line in lines)
        width, n_fitting = widths.most_common(1)[0]
        are_needed = any(_width(line, plain) != width for line in lines if f"{delimiter}'" in line)
        if width > 1 and n_fitting >= ROW_SHARE * len(lines) and (2 * n_opened > len(lines) or are_needed):
            return True
    return False


def _long_delimiter(lines: Sequence[str]) -> str | None:
    """Return a delimiter of several characters that occurs equally often in all lines, or None."""
    full = [line.strip(" \r\n|") for line in lines if line.strip()]  # ||| may also end a row with blank cells
    counts = {each: {line.count(each) for line in full} for each in LONG_DELIMITERS}
    cutting = (each for each in LONG_DELIMITERS if len(counts[each]) == 1 and 0 not in counts[each])
    return next(cutting, None) if len(full) >= ENOUGH_LINES else None


def _long_records(source: Source, lines: Iterable[str], dialect: Dialect, lines_above: int) -> Iterator[Row]:
    """Yield the rows of a table whose delimiter has several characters. Quoted cells may contain the delimiter."""
    long = dialect["delimiter"]
    short_lines = (line.replace(long, ONE_COLUMN) for line in lines)
    for line, cells in _records(source, short_lines, dialect | {"delimiter": ONE_COLUMN}, lines_above):
        yield line, cells if isinstance(cells, str) else [cell.replace(ONE_COLUMN, long).strip() for cell in cells]


def _likely(lines: Sequence[str], quotes: Dialect) -> list[str]:
    """Return the delimiters that cut `lines` into a table, the likeliest first; several if none is clearly best."""
    shares: dict[str, float] = {}
    tables: dict[str, list[list[str]]] = {}
    proses: dict[str, bool] = {}
    for delimiter in DELIMITERS:
        spaced = delimiter == SPACES
        if spaced and shares:
            break
        if not (rows := _rows(lines, delimiter=delimiter, skipinitialspace=True, **quotes)):
            continue
        if spaced:
            rows = [row if row[-1] else row[:-1] for row in rows]
        width, count = Counter(map(len, rows)).most_common(1)[0]
        share, heads = count / len(rows), len(rows[0]) == width
        prose = _is_prose(lines, delimiter, quotes)
        fitting = heads or (share >= TABLE_SHARE and not prose)
        if spaced:  # R writes one name less than cells
            below = rows if heads else rows[len(rows[0]) == width - 1 :]
            quoted = all(line.count('"') >= 2 for line in lines)
            fitting = count == len(below) > 1 and (quoted or _holds_numbers(below))
        if width > 1 and fitting:
            shares[delimiter], tables[delimiter], proses[delimiter] = share, rows, prose
    if not shares:
        return []
    best = [each for each in shares if shares[each] >= max(shares.values()) - WIDTH_TOLERANCE]
    best = [each for each in best if not proses[each]] or best
    foreign = {each: _foreign_share(tables[each], [other for other in best if other != each]) for each in best}
    close = (each for each in best if foreign[each] <= min(foreign.values()) + FOREIGN_TOLERANCE)
    return sorted(close, key=foreign.__getitem__)


def _is_prose(lines: Sequence[str], delimiter: str, quotes: Dialect) -> bool:
    """Tell whether a space follows the delimiter in most lines, as it follows a comma in prose."""
    rows = _rows(lines, delimiter=delimiter, **quotes)
    return sum(any(cell.startswith(" ") for cell in row[1:]) for row in rows) > len(rows) / 2


def _rows(lines: Sequence[str], **dialect: Any) -> list[list[str]]:
    """Cut lines into rows of cells. Return [] if this dialect cannot read them."""
    try:
        return [cells for cells in csv.reader(lines, **dialect) if cells]
    except csv.Error:
        return []


def _foreign_share(rows: list[list[str]], others: list[str]) -> float:
    """Compute the share of cells that contain one of the other delimiters. Decimal commas do not count."""
    cells = [cell for row in rows for cell in row]
    return sum(any(each in cell for each in others) and not DECIMAL.fullmatch(cell) for cell in cells) / len(cells)


def _holds_numbers(rows: list[list[str]]) -> bool:
    """Tell whether more than half of the columns are numbers, or more than a third are and the others repeat a few
    words. Neither is true of prose that is cut at its spaces."""
    columns = [*zip(*(rows[1:] or rows))]
    words = [column for column in columns if not all(map(is_number, column))]
    n_numbers = len(columns) - len(words)
    few = [len({*column}) for column in words if len({*column}) <= len(column) / 2]
    codes = len(few) == len(words) and sum(each > 1 for each in few) > len(words) / 2
    return 2 * n_numbers > len(columns) or (3 * n_numbers > len(columns) and codes and len(rows) > ENOUGH_ROWS)


def looks_delimited(lines: list[str], **dialect: Any) -> bool:
    """Tell whether lines look like rows of a delimited table, and not like prose."""
    if "delimiter" not in dialect:
        if lines[0].lower().startswith("sep=") or _long_delimiter(lines) or _delimiter_of_names(lines):
            return True
        if not (likely := _likely(lines, {})):
            return False
        dialect["delimiter"] = likely[0]
    spaced = _spaced(lines, dialect["delimiter"])
    rows = _rows(lines, skipinitialspace=spaced, **dialect)
    widths = Counter(len(cells) for cells in (rows[1:-1] or rows))  # R writes one name less than cells
    (width, count), *_ = [*widths.most_common(1), (0, 0)]
    if width < 2 or count < ROW_SHARE * widths.total():
        return False
    # In prose a space follows a comma, but rarely every comma of many lines.
    prose = len(rows) < 3 or width < 3 if spaced else any(cell.startswith(" ") for cells in rows for cell in cells)
    return dialect["delimiter"] == SPACES or not prose


def _spaced(lines: Sequence[str], delimiter: str) -> bool:
    """Tell whether spaces after a delimiter are to be skipped: they follow every delimiter, or precede quoted cells."""
    plain, spaced = ({"delimiter": delimiter, "skipinitialspace": skip} for skip in (False, True))
    cells = [cell for row in _rows(lines, **plain) for cell in row[1:] if cell]
    always = bool(cells) and all(cell.startswith(" ") for cell in cells)
    return delimiter == SPACES or always or _rows_and_errors(lines, spaced)[1] < _rows_and_errors(lines, plain)[1]


def _is_quoted(lines: Sequence[str], dialect: Dialect) -> bool:
    """Tell whether the quotes of a tab-separated table enclose cells and are not part of the text: they enclose every
    cell of a column, or only cells that need them."""
    quoted, n_errors = _rows_and_errors(lines, dialect)
    if n_errors or len(quoted) < 2 or not any(line.startswith('"') or '\t"' in line for line in lines):
        return False
    plain = _rows(lines, quoting=csv.QUOTE_NONE, **dialect)
    if len({len(row) for row in plain[1:]}) > 1:
        return True
    columns = [[cell for cell in column if cell.startswith('"')] for column in zip(*plain[1:])]
    return all(len(cells) == len(plain) - 1 or all('"' in cell[1:-1] for cell in cells) for cells in columns if cells)


def _rows_and_errors(lines: Sequence[str], dialect: Dialect) -> tuple[list[list[str]], int]:
    """Parse lines. Return the rows, and how many of them cannot be read or differ from most rows below the first in
    their number of cells. A row that is cut off by the end of `lines` does not count."""
    reader, rows, n_broken = csv.reader(lines, strict=True, **dialect), list[list[str]](), 0
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error:
            n_broken += reader.line_num < len(lines)
        else:
            rows += [cells] if cells else []
    widths = Counter(map(len, rows[1:]))
    return rows, n_broken + widths.total() - max(widths.values(), default=0)


def _records(source: Source, lines: Iterator[str], dialect: Dialect, lines_above: int = 0) -> Iterator[Row]:
    """Yield for each row the pair (number of its first line, its cells or the reason to skip it).

    Lines inside an unclosed quote are not joined into a row: each of them is skipped as UNCLOSED.
    """
    name, limits = source.name, source.limits
    row_lines: list[str] = []  # the lines of the current row
    row_start, header_width = lines_above + 1, 0

    def watched() -> Iterator[str]:
        length = 0
        for line in lines:
            length = length + len(line) if row_lines else len(line)
            row_lines.append(line)
            if length > limits.line:
                refuse_open_quote(is_cut=True)
                limits.check("line", length, f"The row at line {row_start:,} of {name}")
            yield line

    def refuse_open_quote(is_cut: bool) -> None:
        """Raise DataError if the lines inside a quote look like rows of their own."""
        n_inside = len(row_lines) - 1
        width = header_width or _width(row_lines[0], dialect)
        if n_inside > limits.quoted and (is_cut or width > 1):
            n_like_rows = sum(_width(line, dialect) == width for line in row_lines[1:])
            if n_like_rows >= 0.9 * n_inside:
                raise DataError(
                    f"Line {row_start:,} of {name} opens a quote that swallows the next {n_inside:,} lines, which look "
                    "like rows: close it, or read the file in the format csv-unquoted, where a quote is a "
                    f"character like any other ({allow_more('quoted')})."
                )

    reader = csv.reader(watched(), strict=True, **dialect)
    while True:
        try:
            cells: list[str] | str = next(reader)
        except StopIteration:
            return
        except csv.Error:
            cells = BROKEN
        if len(row_lines) > 1:
            refuse_open_quote(is_cut=cells == BROKEN)
        if len(row_lines) > 1 and cells == BROKEN:
            yield from ((row_start, UNCLOSED) for _ in row_lines)
        elif cells:  # a blank line is not a row
            header_width = header_width or (0 if cells == BROKEN else len(cells))
            yield row_start, cells
        row_start += len(row_lines)
        row_lines.clear()


def _width(line: str, dialect: Dialect) -> int:
    """Count the cells of a single line, parsed on its own (0: it cannot be parsed)."""
    return len(next(iter(_rows([line], **dialect)), ()))
