"""Tables as files: CSV, TSV, JSON lines, Parquet and workbooks. They are written block by block, so that memory does
not limit the number of rows.

In workbooks and in the format csv-guarded, text that a spreadsheet program would read as a formula, such as =1+1, is
prefixed with an apostrophe to prevent CSV injection. In csv-guarded the name of the first column has one too, by which
an import knows such a table. The import removes the apostrophes.
"""

import csv
import gzip
import io
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar, cast

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")

BLOCK_ROWS, BLOCK_NUMBERS = 2000, 2**20  # most rows, and most numbers, in memory at a time
GUARD = "'"
FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\r\n]")  # after any apostrophes, so that these survive the round trip
NOT_IN_XML = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")  # written as _x000D_ in a workbook
ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")
MAX_CELL_CHARACTERS, MAX_SHEET_ROWS = 32_767, 2**20  # of a workbook
# {first columns of a table of a session or model, by which an import recognizes the table: the column after which the
# text or the numbers of the items follow, up to the label, or None}.
HEADS: dict[tuple[str, ...], str | None] = {
    ("session", "number", "round", "position", "id"): "id",
    ("round", "id", "position", "margin", "predicted"): "audit",
    ("number", "id", "kind", "annotator", "class"): None,
    ("rank", "id", "position", "round", "margin"): "asked",
    ("line", "id", "margin", "predicted", "predicted_class"): None,
}
TEXT, LABEL, CLASS, PREDICTED = "text", "label", "class", "predicted"
TITLE_AND_ABSTRACT = ("title", "abstract")  # the columns of a text whose first line is a title
# The columns after the contents of an item in the table of all items, which begins with the id
LABELED = (LABEL, PREDICTED, "score", "origin", "asking_probability")
FEATURES = "features"  # the column of sparse rows, one row per cell
SKIPPED, SCORE = "skipped", "score: "  # the class of an item without a label; the prefix of the columns of scores


class OutputTable(NamedTuple):
    """A table to be written: columns {name: int, float or str}, rows, number of rows (None: unknown), and number of
    rows that are written at a time."""

    columns: dict[str, type]
    rows: Iterable[tuple[Any, ...]]
    total: int | None = None
    block_rows: int = BLOCK_ROWS

    @property
    def blocks(self) -> Iterator[list[tuple[Any, ...]]]:
        """The rows, block by block."""
        left = iter(self.rows)
        return iter(lambda: [*islice(left, self.block_rows)], [])

    @property
    def frame(self) -> "pandas.DataFrame":
        """The rows as a pandas table."""
        import pandas

        kinds = {int: "Int64", float: "float64", str: "object"}
        frame = pandas.DataFrame(list(self.rows), columns=[*self.columns])
        return frame.astype({name: kinds[kind] for name, kind in self.columns.items()})


def watched(rows: Iterable[T], total: int, block_rows: int, progress: Callable[[int, int], None]) -> Iterator[T]:
    """Yield rows, and call `progress` with (rows done, total) after each block."""
    for number, row in enumerate(rows, 1):
        yield row
        if number % block_rows == 0 or number == total:
            progress(number, total)


def rows_of(*columns: Any) -> Iterator[tuple[Any, ...]]:
    """Turn columns, which are sequences or arrays, into rows."""
    return zip(*(column.tolist() if hasattr(column, "tolist") else column for column in columns))


def blocks(n_rows: int, block_rows: int = BLOCK_ROWS) -> Iterator[range]:
    """Yield the ranges of row numbers that split `n_rows` rows into blocks."""
    return (range(start, min(start + block_rows, n_rows)) for start in range(0, n_rows, block_rows))


def block_rows(n_columns: int) -> int:
    """Return how many rows fit into a block if each row has `n_columns` numbers."""
    return max(1, min(BLOCK_ROWS, BLOCK_NUMBERS // max(1, n_columns)))


def guarded(cell: T) -> T | str:
    """Put an apostrophe before a cell whose text begins like a formula."""
    return f"{GUARD}{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell


def unguarded(cells: Iterable[str]) -> list[str]:
    """Remove the apostrophes of `guarded` from the cells of a table."""
    return [cell[1:] if cell.startswith(GUARD) and FORMULA.match(cell) else cell for cell in cells]


def is_own(columns: Sequence[str]) -> bool:
    """Tell whether a table with these columns was written by OAL Studio."""
    first = tuple(name.partition(":")[0] for name in columns[:5])  # margin:NAME in predictions for a question
    return first in HEADS or is_labeled(columns)


def is_guarded(columns: Sequence[str], is_workbook: bool) -> bool:
    """Tell whether OAL Studio has written a table with these columns, and has put apostrophes before formulas."""
    first, *others = columns
    return is_own(columns) if is_workbook else first.startswith(GUARD) and is_own([first[1:], *others])


def is_labeled(columns: Sequence[str]) -> bool:
    """Tell whether these are the columns of OAL Studio's table of all items with their labels."""
    at = columns.index(LABEL) if LABEL in columns else 0
    return at > 0 and columns[0] == "id" and tuple(columns[at : at + len(LABELED)]) == LABELED


def contents_of(columns: Sequence[str]) -> tuple[str, ...] | None:
    """Select the columns that hold the text or the feature values of the items. Return None if OAL Studio has not
    written a table of items with these columns."""
    before = "id" if is_labeled(columns) else HEADS.get(tuple(columns[:5]))
    if before not in columns or LABEL not in columns:
        return None
    return tuple(columns[columns.index(before) + 1 : columns.index(LABEL)])


def numbers_of(columns: Sequence[str]) -> tuple[str, ...] | None:
    """Select the columns that hold the feature values of the items (none for texts). Return None if OAL Studio has not
    written a table of items with these columns."""
    if (contents := contents_of(columns)) is None or contents == TITLE_AND_ABSTRACT:
        return contents and ()
    return tuple(column for column in contents if column != TEXT)


def _csv(table: OutputTable, file: BinaryIO, delimiter: str = ",") -> None:
    with text(file) as words:
        lines = csv.writer(words, delimiter=delimiter)
        lines.writerow(table.columns)
        for block in table.blocks:
            lines.writerows(block)
            words.flush()


def _guarded_csv(table: OutputTable, file: BinaryIO) -> None:
    first, *others = map(guarded, table.columns)
    columns = dict(zip([GUARD + first, *others], table.columns.values()))
    _csv(table._replace(columns=columns, rows=(tuple(map(guarded, row)) for row in table.rows)), file)


def _packed_csv(table: OutputTable, file: BinaryIO) -> None:
    with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        _csv(table, cast(BinaryIO, packed))


def _jsonl(table: OutputTable, file: BinaryIO) -> None:
    with text(file) as words:
        for block in table.blocks:
            rows = (dict(zip(table.columns, row)) for row in block)
            words.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            words.flush()


@contextmanager
def text(file: BinaryIO) -> Iterator[io.TextIOWrapper]:
    """Wrap an open binary file as a UTF-8 text file. The binary file stays open at the end."""
    words = io.TextIOWrapper(file, "utf-8", newline="")
    try:
        yield words
    finally:
        words.detach()


def parquet(table: OutputTable, file: BinaryIO, metadata: dict[str, str] | None = None) -> None:
    """Write a table as Parquet, with `metadata` in its schema."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    types = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    schema = pa.schema([(name, types[kind]) for name, kind in table.columns.items()], metadata)
    with ParquetWriter(file, schema) as writer:
        for block in table.blocks:
            arrays = [pa.array(cells, kind) for cells, kind in zip(zip(*block), schema.types)]
            writer.write_batch(pa.record_batch(arrays, schema))


def _workbook(table: OutputTable, file: BinaryIO) -> None:
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell

    book = Workbook(write_only=True)
    sheet = book.create_sheet("items")

    def cell(value: Any) -> Any:
        """Return a cell with an explicit type, because openpyxl takes some text for formulas, and rounds numbers."""
        if value is None:
            return None
        fixed = WriteOnlyCell(sheet, _workbook_text(value) if isinstance(value, str) else repr(value))
        fixed.data_type = "s" if isinstance(value, str) else "n"
        return fixed

    with closing(sheet):
        sheet.append([*map(cell, table.columns)])
        for number, row in enumerate(table.rows, 2):
            if number > MAX_SHEET_ROWS:
                raise ValueError(f"a sheet of a workbook has at most {MAX_SHEET_ROWS:,} rows. Choose another format.")
            sheet.append([*map(cell, row)])
    book.save(file)


def _workbook_text(text: str) -> str:
    """Escape text for a cell of a workbook: formulas as in `guarded`, and characters that XML forbids as in _x000D_.
    Raise ValueError if the text is too long for a cell."""
    cell = NOT_IN_XML.sub(lambda match: f"_x{ord(match[0]):04X}_", guarded(text))
    if len(cell) > MAX_CELL_CHARACTERS:
        raise ValueError(
            f"a cell of a workbook has at most {MAX_CELL_CHARACTERS:,} characters. Got {len(cell):,}: {text[:40]!r}... "
            "Choose another format."
        )
    return cell


def unescaped(cell: str) -> str:
    """Decode the characters in a cell of a workbook that are escaped as in _x000D_."""
    return ESCAPED.sub(lambda match: chr(int(match[1], 16)), cell) if "_x" in cell else cell


class Format(NamedTuple):
    """A file format. suffixes: suffixes of its files; a new file gets the first. write: function that writes the
    content to an open file. purpose: name and use of the format. is_binary: whether a terminal cannot show the file.
    needs_texts: whether the items must be texts, not numbers."""

    suffixes: tuple[str, ...]
    write: Callable[[Any, BinaryIO], None]
    purpose: str
    is_binary: bool = False
    needs_texts: bool = False


# The only list of table formats. A file is written in the first format with its suffix, unless another format is named.
FORMATS = {
    "csv": Format((".csv",), _csv, "CSV: for every program"),
    "csv-guarded": Format((".csv",), _guarded_csv, "CSV for spreadsheets: no text becomes a formula"),
    "csv.gz": Format((".csv.gz",), _packed_csv, "CSV, compressed: for large sets and scripts", True),
    "tsv": Format((".tsv",), partial(_csv, delimiter="\t"), "TSV: tabs between the cells"),
    "jsonl": Format((".jsonl",), _jsonl, "JSON lines: an object for each item, for scripts"),
    "parquet": Format((".parquet",), parquet, "Parquet: typed columns for pandas, Arrow and DuckDB", True),
    "xlsx": Format((".xlsx",), _workbook, "Excel: a workbook, also for LibreOffice", True),
}


def write(table: OutputTable, kind: str, file: BinaryIO, progress: Callable[[int, int], None] | None = None) -> None:
    """Write a table to an open binary file in one of FORMATS. progress: called with (rows done, total) after each block
    if `total` is known."""
    if progress and table.total:
        table = table._replace(rows=watched(table.rows, table.total, table.block_rows, progress))
    FORMATS[kind].write(table, file)


@contextmanager
def whole(path: Path | str | None) -> Iterator[BinaryIO]:
    """Open a binary file for an atomic write: when complete, it replaces the file at `path` (None: it is copied to the
    standard output). After an error the old file is unchanged. A pipe or terminal is written directly."""
    if path is None:
        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.flush()
        return
    path = Path(path).resolve()
    if path.exists() and not path.is_file():  # such as a pipe or a terminal
        with path.open("wb") as file:
            yield file
        return
    new = path.with_name(f".{path.name[:100]}.{token_hex(4)}")
    try:
        unfinished = new.open("xb")
    except OSError as error:
        error.filename = str(path)  # the name that was asked for
        raise
    try:
        with unfinished as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
