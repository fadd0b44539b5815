"""Tables as files: CSV, JSON lines and Parquet, written as they are read, so that any number of rows streams through.

In CSV an apostrophe stands before a text that a spreadsheet program would take for a formula, such as =1+1; the import
of such a table takes it away again.
"""

import io
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias, TypeVar

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
Cells: TypeAlias = "Sequence[Any] | np.ndarray | pa.Array"
Part: TypeAlias = tuple[Cells, ...]  # some rows, column by column
Parts: TypeAlias = Iterator[Part]

CHUNK, MOST_NUMBERS = 2000, 2**20  # rows that are in memory at a time, and numbers in many columns of them
FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\r\n]")  # an apostrophe of its own before it is kept by one more
QUOTED = '[,"\\r\\n]'  # what is in quotes in CSV has one of these
# How the tables of sessions and models begin, by which an import knows them from other people's; and the column behind
# which, up to the label, the text or the numbers of an item stand.
HEADS: dict[tuple[str, ...], str | None] = {
    ("session", "number", "round", "position", "id"): "id",
    ("round", "id", "position", "margin", "predicted"): "audit",
    ("number", "id", "kind", "annotator", "class"): None,
    ("rank", "id", "position", "round", "margin"): "asked",
    ("line", "id", "margin", "predicted", "predicted_class"): None,
}
TEXT, LABEL, CLASS = "text", "label", "class"
FEATURES = "features"  # the column of the numbers of sparse rows, each in one cell
SKIPPED, SCORE = "skipped", "score: "  # the class of an item that has no label; before the name of each of several


class OutputTable(NamedTuple):
    """Columns {name: int, float or str}, the rows, some at a time, and how many there are (None: nobody knows)."""

    columns: dict[str, type]
    parts: Iterable[Part]
    total: int | None = None

    @classmethod
    def of_rows(
        cls, columns: dict[str, type], rows: Iterable[tuple[Any, ...]], total: int | None = None, lot: int = CHUNK
    ) -> "OutputTable":
        """A table of rows as tuples, so many at a time."""
        left = iter(rows)
        return cls(columns, (tuple(zip(*some)) for some in iter(lambda: list(islice(left, lot)), [])), total)

    @property
    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows as tuples, one by one."""
        return (row for part in self.parts for row in _rows(part))


def _rows(part: Part) -> Iterator[tuple[Any, ...]]:
    return zip(*(cells if isinstance(cells, Sequence) else cells.tolist() for cells in part))


def chunks(size: int, lot: int = CHUNK) -> Iterator[range]:
    """Ranges that cut so many rows into parts."""
    return (range(start, min(start + lot, size)) for start in range(0, size, lot))


def lot_of(columns: int) -> int:
    """How many rows of so many numbers are in memory at a time."""
    return max(1, min(CHUNK, MOST_NUMBERS // max(1, columns)))


def guarded(cell: T) -> T | str:
    """A cell of a CSV file: a text that begins as a formula does gets an apostrophe before it."""
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell


def unguarded(cells: Iterable[str]) -> list[str]:
    """Cells of a table that was written here, as they were."""
    return [cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell for cell in cells]


def numbers_of(columns: Sequence[str]) -> tuple[str, ...] | None:
    """The columns of a table that hold the numbers of its items; None where it is no table of items written here."""
    behind = HEADS.get(tuple(columns[:5]))
    if behind not in columns or LABEL not in columns:
        return None
    between = columns[columns.index(behind) + 1 : columns.index(LABEL)]
    return tuple(column for column in between if column != TEXT)


def _csv(table: OutputTable, parts: Parts, file: BinaryIO) -> None:
    import pyarrow as pa

    file.write(_lines([pa.array([name]) for name in table.columns]))
    for part in parts:
        file.write(_lines(_arrays(table, part)))
        file.flush()


def _lines(columns: "list[pa.Array]") -> "pa.Buffer":
    """Rows as lines of CSV."""
    from pyarrow import compute

    lines = compute.binary_join_element_wise(*map(_words, columns), ",", null_handling="replace")
    return compute.binary_join_element_wise(lines, "", "\r\n").buffers()[2]


def _words(cells: "pa.Array") -> "pa.Array":
    """Cells of a CSV file: texts as `guarded`, and in quotes where that is needed."""
    import pyarrow as pa
    from pyarrow import compute

    if not pa.types.is_string(cells.type):
        return _numbers(cells)
    if not compute.any(compute.match_substring_regex(cells, f"^{FORMULA.pattern}|{QUOTED}")).as_py():
        return cells
    cells = compute.replace_substring_regex(cells, f"^{FORMULA.pattern}", r"'\0")
    cells = compute.replace_substring(cells, '"', '""')
    return compute.replace_substring_regex(cells, f"(?s)^.*{QUOTED}.*$", r'"\0"')


def _numbers(cells: "pa.Array") -> "pa.Array":
    """Numbers as Python writes them."""
    import pyarrow as pa
    from pyarrow import compute

    words = cells.cast(pa.string())
    if not pa.types.is_floating(cells.type):
        return words
    values = cells.to_numpy(zero_copy_only=False)
    size = np.abs(values)
    others = (size < 1e-4) | (size >= 1e10) | (values == np.floor(values))  # which Arrow writes in its own way
    return compute.replace_with_mask(words, others, pa.array(map(repr, values[others].tolist()), words.type))


def _jsonl(table: OutputTable, parts: Parts, file: BinaryIO) -> None:
    with text(file) as words:
        for part in parts:
            rows = (dict(zip(table.columns, row)) for row in _rows(part))
            words.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            words.flush()


@contextmanager
def text(file: BinaryIO) -> Iterator[io.TextIOWrapper]:
    """An open binary file as one of text, which leaves it open."""
    words = io.TextIOWrapper(file, "utf-8", newline="")
    try:
        yield words
    finally:
        words.detach()


def _parquet(table: OutputTable, parts: Parts, file: BinaryIO) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    schema = pa.schema([(name, _types()[kind]) for name, kind in table.columns.items()])
    with parquet.ParquetWriter(file, schema) as writer:
        for part in parts:
            writer.write_batch(pa.record_batch(_arrays(table, part), schema))


def _arrays(table: OutputTable, part: Part) -> "list[pa.Array]":
    import pyarrow as pa

    return [pa.array(cells, _types()[kind]) for cells, kind in zip(part, table.columns.values())]


def _types() -> "dict[type, pa.DataType]":
    import pyarrow as pa

    return {int: pa.int64(), float: pa.float64(), str: pa.string()}


FORMATS = {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet}


def write(table: OutputTable, kind: str, file: BinaryIO, progress: Callable[[int, int], None] | None = None) -> None:
    """Write a table to an open binary file as csv, jsonl or parquet; progress: a function of (rows done, in all)."""

    def parts() -> Parts:
        done = 0
        for part in table.parts:
            yield part
            done += len(part[0])
            if progress and table.total:
                progress(done, table.total)

    FORMATS[kind](table, parts(), file)


@contextmanager
def whole(path: Path | str | None) -> Iterator[BinaryIO]:
    """An open binary file that becomes the one at path, or goes to the standard output (None), once all of it is made;
    where that fails, nothing has changed."""
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
        made = new.open("xb")
    except OSError as error:
        error.filename = str(path)  # the name that was asked for
        raise
    try:
        with made as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
