"""Tables written as text, and what all tables have: where they begin, their header, their width."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any, TypeAlias

from ...output.tables import HEADS, unguarded
from .parsed import (
    ABOVE,
    BROKEN,
    TOTALS,
    UNCLOSED,
    WEIGHT,
    Block,
    Doubt,
    Line,
    ParsedFile,
    first_rows,
    is_number,
    one_by_one,
)
from .sources import DataError, Source, allow_more

Dialect = dict[str, Any]  # arguments of csv.reader
Row: TypeAlias = tuple[int, list[str] | str]  # a line with words
DELIMITERS = {"\t": "tab", ";": "semicolon", "|": "pipe", ",": "comma", " ": "spaces"}  # the likelier of two first
NAMED = {name: sign for sign, name in DELIMITERS.items()} | {"\\t": "\t", "space": " "}
BLANKS, ALONE = " ", "\x1f"  # runs of spaces; the delimiter of a table of one column, which no text holds
BLOCK = 500  # rows: from 700 lists on Python looks for garbage, again and again
SNIFFED = 2**18  # characters that the delimiter is found by
CLOSE = 0.02, 0.1  # differences in the share of rows of one width, and of odd cells, that decide nothing
LIKE_ROWS = 0.9  # of the lines must have one width, else they are prose
TABLE = 0.5  # of the rows must have one width, else there is no such delimiter
DECIMAL = re.compile(r"[-+]?\d*,\d+")
WHOLE = re.compile(r"[-+]?\d+")
LONGEST_NAME = 60  # characters of the name of a column
TITLE = re.compile(r"(?i)(.*_)?(ids?|text|label|class|target|title|abstract|category|topics?|name|date)(_.*)?")
TOTAL = {"total", "totals", "sum", "grand total"}
PROSE = 2  # words of a cell that is no name
ESCAPED = {"escapechar": "\\", "doublequote": False}  # quotes in cells are
ENOUGH = 10  # rows below a header, of which one would have its words again if it were an item


def parse(source: Source, quoted: bool | None = None, reader: str = "csv") -> ParsedFile:
    """A table of text; quoted: whether quotes stand around cells (None: as it seems)."""
    # csv's own limit, 128 kB, cuts long articles.
    csv.field_size_limit(max(csv.field_size_limit(), source.limits.line))
    # To look ahead, whole rows are taken: where only so many lines were, the last row would seem to be cut.
    left = source._replace(limit=None).lines()
    lines = _first(left, source.ahead, SNIFFED)
    skipped = 0
    if lines and (named := re.fullmatch(r"sep=(.)", lines[0].strip(" \r\n\ufeff"), re.IGNORECASE)):
        lines, skipped = lines[1:], 1  # as Excel reads it
        source = source._replace(layout=replace(source.layout, delimiter=source.layout.delimiter or named[1]))
    dialect, doubts = _dialect(source, lines, quoted, reader)
    records = iter(_Records(source, chain(lines, left), dialect, skipped))
    delimiter = dialect["delimiter"]
    said = {} if delimiter == ALONE else {"delimiter": str(DELIMITERS.get(delimiter, delimiter))}
    return titled(source, records, said, doubts, decimals=delimiter != ",")


def _first(lines: Iterator[str], most: int, size: int) -> list[str]:
    """The first lines: so many at most, and about so many characters."""
    taken, length = list[str](), 0
    for line in lines:
        taken.append(line)
        length += len(line)
        if len(taken) >= most or length > size:
            break
    return taken


def _dialect(
    source: Source, lines: Sequence[str], quoted: bool | None, reader: str
) -> tuple[Dialect, tuple[Doubt, ...]]:
    """How the cells of some lines are delimited and quoted."""
    doubts: tuple[Doubt, ...] = ()
    delimiter = delimiter_of(source.layout.delimiter)
    if delimiter is None and reader == "tsv" and any("\t" in line for line in lines):
        delimiter = "\t"
    if delimiter is None:
        quotes: Dialect = {"quoting": csv.QUOTE_NONE if quoted is False else csv.QUOTE_MINIMAL}
        likely = _likely(lines, quotes) or _likely(lines, quotes | ESCAPED)
        delimiter = likely[0] if likely else ALONE
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
    dialect: Dialect = {"delimiter": delimiter, "skipinitialspace": _spaced(lines, delimiter)}
    if quoted is False or (quoted is None and delimiter == "\t" and not _is_quoted(lines, dialect)):
        return dialect | {"quoting": csv.QUOTE_NONE}, doubts
    if any('\\"' in line for line in lines):
        dialect = min(dialect, dialect | ESCAPED, key=lambda each: _unread(lines, each)[1])
    return dialect, doubts


def delimiter_of(word: str | None) -> str | None:
    """The character that a delimiter is said by, such as tab."""
    if word is None or len(word) == 1:
        return word
    if word not in NAMED:
        raise DataError(f"--delimiter must be one character, or {', '.join(NAMED)}. Got {word!r}.")
    return NAMED[word]


def _likely(lines: Sequence[str], quotes: Dialect) -> list[str]:
    """The delimiters that make a table of lines, the likeliest first; several where nothing decides between them."""
    shares: dict[str, float] = {}
    tables: dict[str, list[list[str]]] = {}
    for delimiter in DELIMITERS:
        spaced = delimiter == BLANKS
        if spaced and shares:
            break
        rows = _rows(lines, delimiter=delimiter, skipinitialspace=True, **quotes)
        if not rows:
            continue
        if spaced:
            rows = [row if row[-1] else row[:-1] for row in rows]
        width, count = Counter(map(len, rows)).most_common(1)[0]
        share, heads = count / len(rows), len(rows[0]) == width
        plain = _rows(lines, delimiter=delimiter, **quotes)
        prose = sum(any(cell.startswith(" ") for cell in row[1:]) for row in plain) > len(rows) / 2
        fitting = (share == 1 and _holds_numbers(rows)) if spaced else (heads or (share >= TABLE and not prose))
        if width > 1 and fitting:
            shares[delimiter], tables[delimiter] = share, rows
    if not shares:
        return []
    best = [each for each in shares if shares[each] >= max(shares.values()) - CLOSE[0]]
    odd = {each: _odd(tables[each], [other for other in best if other != each]) for each in best}
    return sorted((each for each in best if odd[each] <= min(odd.values()) + CLOSE[1]), key=odd.__getitem__)


def _rows(lines: Sequence[str], **dialect: Any) -> list[list[str]]:
    """The rows of lines, none where they cannot be read so."""
    try:
        return [cells for cells in csv.reader(lines, **dialect) if cells]
    except csv.Error:
        return []


def _odd(rows: list[list[str]], others: list[str]) -> float:
    """The share of cells that hold another delimiter, but for decimal commas."""
    cells = [cell for row in rows for cell in row]
    return sum(any(each in cell for each in others) and not DECIMAL.fullmatch(cell) for cell in cells) / len(cells)


def _holds_numbers(rows: list[list[str]]) -> bool:
    """Whether more than half of the columns of lines cut at blanks are numbers: no prose is like that."""
    columns = [all(map(is_number, column)) for column in zip(*(rows[1:] or rows))]
    return 2 * sum(columns) > len(columns)


def looks_delimited(lines: list[str], **dialect: Any) -> bool:
    """Whether lines are cells between delimiters, not prose."""
    if "delimiter" not in dialect:
        if lines[0].lower().startswith("sep="):
            return True
        if not (likely := _likely(lines, {})):
            return False
        dialect["delimiter"] = likely[0]
    spaced = _spaced(lines, dialect["delimiter"])
    rows = _rows(lines, skipinitialspace=spaced, **dialect)
    widths = Counter(len(cells) for cells in (rows[:-1] or rows))
    (width, count), *_ = [*widths.most_common(1), (0, 0)]
    if width < 2 or count < LIKE_ROWS * widths.total():
        return False
    # A comma in prose is followed by a space, but not all commas of many lines.
    prose = len(rows) < 3 or width < 3 if spaced else any(cell.startswith(" ") for cells in rows for cell in cells)
    return dialect["delimiter"] == BLANKS or not prose


def _spaced(lines: Sequence[str], delimiter: str) -> bool:
    """Whether spaces stand between cells: after each delimiter, or before quotes that enclose some."""
    plain, spaced = ({"delimiter": delimiter, "skipinitialspace": skip} for skip in (False, True))
    cells = [cell for row in _rows(lines, **plain) for cell in row[1:] if cell]
    always = bool(cells) and all(cell.startswith(" ") for cell in cells)
    return delimiter == BLANKS or always or _unread(lines, spaced)[1] < _unread(lines, plain)[1]


def _is_quoted(lines: Sequence[str], dialect: Dialect) -> bool:
    """Whether the quotes of a tab-separated table stand around cells, as some programs write them, and are not part
    of the text: they enclose whole columns, or what would not be one cell without them."""
    quoted, unread = _unread(lines, dialect)
    if unread or len(quoted) < 2 or not any(line.startswith('"') or '\t"' in line for line in lines):
        return False
    plain = _rows(lines, quoting=csv.QUOTE_NONE, **dialect)
    if len({len(row) for row in plain}) > 1:
        return True
    columns = [[cell for cell in column if cell.startswith('"')] for column in zip(*plain)]
    return all(len(cells) >= len(plain) - 1 or all('"' in cell[1:-1] for cell in cells) for cells in columns if cells)


def _unread(lines: Sequence[str], dialect: Dialect) -> tuple[list[list[str]], int]:
    """The rows of lines, and how many cannot be read or are of another width than the first; one that is cut at the
    end is none."""
    reader, rows, count = csv.reader(lines, strict=True, **dialect), list[list[str]](), 0
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return rows, count
        except csv.Error:
            count += reader.line_num < len(lines)
        else:
            rows += [cells] if cells else []
            count += len(cells) not in (0, len(rows[0]) if rows else 0)


class _Records:
    """The cells of each row with the number of its first line, in blocks where lines are rows by themselves; what an
    unclosed quote swallows is no row. The first rows come one by one, and all of a pipe."""

    def __init__(self, source: Source, lines: Iterator[str], dialect: Dialect, skipped: int = 0) -> None:
        self.source, self.lines, self.dialect = source, lines, dialect
        self.done = skipped  # lines
        self.width = 0  # cells of the first row

    def __iter__(self) -> Iterator[Row | Block]:
        yield from self._one_by_one(self.lines, None if self.source.ahead == 1 else self.source.ahead)
        while lines := _first(self.lines, BLOCK, WEIGHT):
            try:
                rows = [*csv.reader(lines, strict=True, **self.dialect)]
            except csv.Error:
                rows = []
            if len(rows) == len(lines) and all(rows):
                yield Block(self.done + 1, rows)
                self.done += len(lines)
            else:
                yield from self._one_by_one(chain(lines, self.lines), len(lines))

    def _one_by_one(self, lines: Iterator[str], most: int | None) -> Iterator[Row]:
        """So many rows (None: all)."""
        taken: list[str] = []  # the lines of the row at hand
        name, limits = self.source.name, self.source.limits

        def watched() -> Iterator[str]:
            length = 0
            for line in lines:
                length = length + len(line) if taken else len(line)
                taken.append(line)
                if length > limits.line:
                    stop_swallowing(cut=True)
                    limits.check("line", length, f"The row at line {at:,} of {name}")
                yield line

        def stop_swallowing(cut: bool) -> None:
            """DataError where the rows that a quote swallowed are rows by themselves."""
            below = len(taken) - 1
            cells = self.width or _width(taken[0], self.dialect)
            if below > limits.quoted and (cut or cells > 1):
                rows = sum(_width(line, self.dialect) == cells for line in taken[1:])
                if rows >= 0.9 * below:
                    raise DataError(
                        f"Line {at:,} of {name} opens a quote that swallows the next {below:,} lines, which look "
                        "like rows: close it, or read the file in the format csv-unquoted, where a quote is a "
                        f"character like any other ({allow_more('quoted')})."
                    )

        reader = csv.reader(watched(), strict=True, **self.dialect)
        given = 0
        while most is None or given < most:
            taken.clear()
            at = self.done + 1
            try:
                cells: list[str] | str = next(reader)
            except StopIteration:
                return
            except csv.Error:
                cells = BROKEN
            self.done += len(taken)
            if len(taken) > 1:
                stop_swallowing(cut=cells == BROKEN)
                if cells == BROKEN:
                    given += len(taken)
                    yield from ((at, UNCLOSED) for _ in taken)
                    continue
            if cells:  # a blank line is no record
                given += 1
                self.width = self.width or (0 if cells == BROKEN else len(cells))
                yield at, cells


def _width(line: str, dialect: Dialect) -> int:
    """How many cells a line has by itself, 0 where it has none."""
    return len(next(csv.reader([line], **dialect), ()))


# ---- From rows to a table: where it begins, its header, its width


def titled(
    source: Source,
    records: Iterator[Row | Block],
    said: dict[str, str],
    doubts: tuple[Doubt, ...] = (),
    decimals: bool = False,
    padded: bool = False,
) -> ParsedFile:
    """The table of some rows of words; decimals: commas in numbers may be decimal ones; padded: a short row lacks its
    last cells, as in a spreadsheet, and is not broken."""
    sample = first_rows(one_by_one(records), source.ahead)
    good = [cells for _, cells in sample if not isinstance(cells, str)]
    if not good:
        return ParsedFile([], chain(sample, records), said=said, doubts=doubts)
    if padded:
        for cells in good:
            cells += [""] * (max(map(len, good)) - len(cells))
    width = Counter(map(len, good)).most_common(1)[0][0]
    begins = _begin(good, width)
    first, *rest = good[begins:]
    unnamed = len(first) == width - 1 and counts_on([row[0] for row in rest])  # as R writes the names of rows
    names = ["", *first] if unnamed else first
    if len(names) != width and (len(names) > 1 or not any(any(row[len(names) :]) for row in rest)):
        width = len(names)  # what is longer is broken, unless it is empty there
    source.limits.check("columns", width, source.name)
    fitting = [row[:width] for row in rest if len(row) >= width]
    columns = [f"c{number}" for number in range(1, width + 1)]
    header, doubt = source.layout.header, ""
    if header is None:
        header, doubt = (True, "") if unnamed else _is_header(first, fitting)
    if doubt:
        options = ("--header", "--no-header")
        question = f"The first row of {source.name} {doubt} (--header or --no-header)."
        doubts += (Doubt("header", question, options),)
    said = {**said, "header": "yes" if header else "no"}
    places = [at for at, (_, cells) in enumerate(sample) if not isinstance(cells, str)]
    above = {places[k] for k in range(begins)}
    if header:
        del sample[places[begins]]
        named = dict(zip(reversed(names), reversed(range(len(names)))))  # where each name comes first
        columns = [name if name and named[name] == at else columns[at] for at, name in enumerate(names[:width])]
    rows: Iterable[Row | Block] = chain(
        ((line, ABOVE if at in above else cells) for at, (line, cells) in enumerate(sample)), records
    )
    if tuple(columns[:5]) in HEADS:
        columns = unguarded(columns)
        rows = ((line, cells if isinstance(cells, str) else unguarded(cells)) for line, cells in one_by_one(rows))
    commas = _decimal_columns(fitting or [first], width) if decimals else []
    if commas:
        said["decimals"] = ","
    return ParsedFile(columns, _fitted(rows, source.ahead, width, commas, padded), said=said, doubts=doubts)


def _begin(rows: list[list[str]], width: int) -> int:
    """How many rows stand above the table: comments and titles, which fill fewer cells than its rows."""
    if width < 2:
        return 0
    begins = (
        at for at, row in enumerate(rows)
        if sum(map(bool, row)) > 1 and not (row[0].startswith("#") and len(row) != width)
    )  # fmt: skip
    return next(begins, 0)


def counts_on(cells: Sequence[str]) -> bool:
    """Whether cells are the numbers of rows."""
    numbers = [int(cell) for cell in cells if WHOLE.fullmatch(cell)]
    return len(numbers) == len(cells) > 0 and all(after - before == 1 for before, after in pairwise(numbers))


def _fitted(
    rows: Iterable[Row | Block], ahead: int, width: int, commas: list[int], padded: bool
) -> Iterator[Line | Block]:
    """Rows of one width, with decimal points; so many at the beginning one by one."""
    given = 0
    for row in rows:
        if isinstance(row, Block) and given >= ahead and not commas and _fits(row, width):
            yield row
            continue
        for line, cells in one_by_one([row]) if isinstance(row, Block) else (row,):
            if not isinstance(cells, str):
                if padded and len(cells) < width:
                    cells += [""] * (width - len(cells))
                cells = _cut(cells, width)
                if not cells:
                    continue
                if not isinstance(cells, str):
                    for at in commas:
                        cells[at] = cells[at].replace(",", ".")
            given += 1
            yield line, cells


def _cut(cells: list[str], width: int) -> list[str] | str:
    """A row in its width, or the reason to skip it; "" where it is as blank as a blank line."""
    if len(cells) != width:
        if len(cells) < width or any(cells[width:]):
            return BROKEN
        cells = cells[:width]
    if width > 1 and not all(cells):
        if not any(cells):
            return ""
        if cells[0].casefold() in TOTAL:
            return TOTALS
    return cells


def _fits(block: Block, width: int) -> bool:
    """Whether each row of a block can be taken as it is."""
    firsts = {row[0] for row in block.rows}
    return "" not in firsts and TOTAL.isdisjoint(map(str.casefold, firsts)) and {*map(len, block.rows)} == {width}


def _decimal_columns(rows: list[list[str]], width: int) -> list[int]:
    """The columns of numbers, some of them with a decimal comma."""
    found = []
    for at in range(width):
        cells = [row[at].strip() for row in rows if row[at].strip()]
        commas = sum(DECIMAL.fullmatch(cell) is not None for cell in cells)
        if commas and 10 * (commas + sum(WHOLE.fullmatch(cell) is not None for cell in cells)) >= 9 * len(cells):
            found.append(at)
    return found


def _is_header(first: list[str], rest: list[list[str]]) -> tuple[bool, str]:
    """Whether a row names the columns of those below, and what is doubtful about that."""
    columns = [(cell, below) for cell, *below in zip(first, *rest)]
    if any(not is_number(cell) and below and all(map(is_number, below)) for cell, below in columns):
        return True, ""
    numbers = [float(cell) for cell in first if is_number(cell)]
    # Numbers are names only where they count on beside words, as years do and the columns of a data frame.
    counting = len(numbers) > 1 and all(after - before == 1 for before, after in pairwise(numbers))
    if counting and len(numbers) == len(first) > 2:
        return True, f"counts from {first[0]} to {first[-1]}: say whether it names the columns"
    if (numbers and not counting) or any(cell in below for cell, below in columns if not is_number(cell)):
        return False, ""
    if any(map(TITLE.fullmatch, first)) or not rest or _tells(first, columns):
        return True, ""
    if any(len(cell) > LONGEST_NAME for cell in first):
        return False, ""
    shown = " | ".join(cell[:30] for cell in first[:4])
    return True, f"({shown}) could be names or an item: say which"


def _tells(first: list[str], columns: list[tuple[str, list[str]]]) -> bool:
    """Whether names look other than what stands below them."""
    for cell, below in columns:
        words = sum(len(each.split()) for each in below) / max(1, len(below))
        digits = sum(each[:1].isdigit() for each in below)
        if (len(cell.split()) == 1 and words >= PROSE) or (not cell[:1].isdigit() and digits == len(below) > 0):
            return True
    # Of a column that holds few words, the first comes again, unless it is their name.
    few = any(len(set(below)) <= len(below) / 2 for _, below in columns)
    return few and len(columns[0][1]) >= ENOUGH and all(len(cell.split()) <= PROSE for cell in first)
