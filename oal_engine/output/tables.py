"""Tables as files: CSV, TSV, JSON lines, Parquet and workbooks. They are written block by block, so that memory does
not limit the number of rows.

In workbooks and in the format csv-guarded, text that a spreadsheet program would read as a formula, such as =1+1, is
prefixed with an apostrophe to prevent CSV injection. In csv-guarded the name of the first column has one too, by which
an import knows such a table. The import removes the apostrophes.
"""

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
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa

T = TypeVar("T")
Cells: TypeAlias = "Sequence[Any] | np.ndarray | pa.Array"
Part: TypeAlias = tuple[Cells, ...]  # a block of rows, column by column
Parts: TypeAlias = Iterator[Part]

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
    """A table to be written: columns {name: int, float or str}, rows in blocks, and number of rows (None: unknown)."""

    columns: dict[str, type]
    parts: Iterable[Part]
    total: int | None = None

    @classmethod
    def of_rows(
        cls,
        columns: dict[str, type],
        rows: Iterable[tuple[Any, ...]],
        total: int | None = None,
        block_rows: int = BLOCK_ROWS,
    ) -> "OutputTable":
        """Build a table from rows given as tuples."""
        left = iter(rows)
        blocks = iter(lambda: list(islice(left, block_rows)), [])
        return cls(columns, (tuple(zip(*block)) for block in blocks), total)

    def watched(self, progress: Callable[[int, int], None] | None) -> "OutputTable":
        """Return a copy of the table that calls `progress` with (rows done, total) after each block if `total` is
        known."""

        def parts() -> Parts:
            done = 0
            for part in self.parts:
                yield part
                done += len(part[0])
                if progress and self.total:
                    progress(done, self.total)

        return self._replace(parts=parts())

    @property
    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows as tuples, one by one."""
        return (row for part in self.parts for row in _rows(part))

    @property
    def frame(self) -> "pandas.DataFrame":
        """The rows as a pandas table."""
        import pandas

        kinds = {int: "Int64", float: "float64", str: "object"}
        frame = pandas.DataFrame(list(self.rows), columns=[*self.columns])
        return frame.astype({name: kinds[kind] for name, kind in self.columns.items()})


def _rows(part: Part) -> Iterator[tuple[Any, ...]]:
    return zip(*(cells if isinstance(cells, Sequence) else cells.tolist() for cells in part))


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
    contents = contents_of(columns)
    if contents is None or contents == TITLE_AND_ABSTRACT:
        return contents and ()
    return tuple(column for column in contents if column != TEXT)


def _csv(table: OutputTable, file: BinaryIO, delimiter: str = ",") -> None:
    import pyarrow as pa

    file.write(_lines([pa.array([name]) for name in table.columns], delimiter))
    for part in table.parts:
        file.write(_lines(_arrays(table, part), delimiter))
        file.flush()


def _guarded_csv(table: OutputTable, file: BinaryIO) -> None:
    first, *others = map(guarded, table.columns)
    columns = dict(zip([GUARD + first, *others], table.columns.values()))
    rows = (tuple(map(guarded, row)) for row in table.rows)
    _csv(OutputTable.of_rows(columns, rows, block_rows=block_rows(len(columns))), file)


def _packed_csv(table: OutputTable, file: BinaryIO) -> None:
    with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        _csv(table, cast(BinaryIO, packed))


def _lines(columns: "list[pa.Array]", delimiter: str) -> "pa.Buffer":
    """Join columns of cells into lines of CSV."""
    from pyarrow import compute

    words = (_words(cells, delimiter) for cells in columns)
    lines = compute.binary_join_element_wise(*words, delimiter, null_handling="replace")
    return compute.binary_join_element_wise(lines, "", "\r\n").buffers()[2]


def _words(cells: "pa.Array", delimiter: str) -> "pa.Array":
    """Format the cells of a column for CSV: text is put in quotes if needed."""
    import pyarrow as pa
    from pyarrow import compute

    if not pa.types.is_string(cells.type):
        return _numbers(cells)
    quoted = f'[{delimiter}"\\r\\n]'  # characters that need quotes
    if not compute.any(compute.match_substring_regex(cells, quoted)).as_py():
        return cells
    cells = compute.replace_substring(cells, '"', '""')
    return compute.replace_substring_regex(cells, f"(?s)^.*{quoted}.*$", r'"\0"')


def _numbers(cells: "pa.Array") -> "pa.Array":
    """Format numbers as Python does."""
    import pyarrow as pa
    from pyarrow import compute

    words = cells.cast(pa.string())
    if not pa.types.is_floating(cells.type):
        return words
    values = cells.to_numpy(zero_copy_only=False)
    size = np.abs(values)
    others = (size < 1e-4) | (size >= 1e10) | (values == np.floor(values))  # Arrow formats these differently
    return compute.replace_with_mask(words, others, pa.array(map(repr, values[others].tolist()), words.type))


def _jsonl(table: OutputTable, file: BinaryIO) -> None:
    with text(file) as words:
        for part in table.parts:
            rows = (dict(zip(table.columns, row)) for row in _rows(part))
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

    schema = pa.schema([(name, _types()[kind]) for name, kind in table.columns.items()], metadata)
    with ParquetWriter(file, schema) as writer:
        for part in table.parts:
            writer.write_batch(pa.record_batch(_arrays(table, part), schema))


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


def _arrays(table: OutputTable, part: Part) -> "list[pa.Array]":
    import pyarrow as pa

    return [pa.array(cells, _types()[kind]) for cells, kind in zip(part, table.columns.values())]


def _types() -> "dict[type, pa.DataType]":
    import pyarrow as pa

    return {int: pa.int64(), float: pa.float64(), str: pa.string()}


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
    """Write a table to an open binary file in one of FORMATS. progress: as in `watched`."""
    FORMATS[kind].write(table.watched(progress), file)


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
