"""Tables as files: CSV, JSON lines and Parquet, written as they are read, so that any number of rows streams through.

In CSV an apostrophe stands before a text that a spreadsheet program would take for a formula, such as =1+1; the import
of such a table takes it away again.
"""

import csv
import io
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")
Lots: TypeAlias = Iterator[list[tuple[Any, ...]]]  # some rows at a time

CHUNK = 2000  # rows that are in memory at a time
FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\r\n]")  # an apostrophe of its own before it is kept by one more
HEADS = {  # how the tables of sessions and models begin, by which an import knows them from other people's
    ("session", "number", "round", "position", "id"),
    ("round", "id", "position", "margin", "predicted"),
    ("number", "id", "kind", "annotator", "class"),
    ("rank", "id", "position", "round", "margin"),
    ("line", "id", "margin", "predicted", "predicted_class"),
}


class OutputTable(NamedTuple):
    """Columns {name: int, float or str}, rows as tuples, and how many there are (None: nobody knows)."""

    columns: dict[str, type]
    rows: Iterable[tuple[Any, ...]]
    total: int | None = None


def chunks(size: int) -> Iterator[range]:
    """Ranges that cut so many rows into parts."""
    return (range(start, min(start + CHUNK, size)) for start in range(0, size, CHUNK))


def guarded(cell: T) -> T | str:
    """A cell of a CSV file: a text that begins as a formula does gets an apostrophe before it."""
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell


def unguarded(cells: Iterable[str]) -> list[str]:
    """Cells of a table that was written here, as they were."""
    return [cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell for cell in cells]


def _csv(table: OutputTable, lots: Lots, file: BinaryIO) -> None:
    with text(file) as words:
        writer = csv.writer(words)
        writer.writerow(table.columns)
        for lot in lots:
            writer.writerows(map(guarded, row) for row in lot)
            words.flush()


def _jsonl(table: OutputTable, lots: Lots, file: BinaryIO) -> None:
    with text(file) as words:
        for lot in lots:
            words.writelines(json.dumps(dict(zip(table.columns, row)), ensure_ascii=False) + "\n" for row in lot)
            words.flush()


@contextmanager
def text(file: BinaryIO) -> Iterator[io.TextIOWrapper]:
    """An open binary file as one of text, which leaves it open."""
    words = io.TextIOWrapper(file, "utf-8", newline="")
    try:
        yield words
    finally:
        words.detach()


def _parquet(table: OutputTable, lots: Lots, file: BinaryIO) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    kinds = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in table.columns.items()])
    with parquet.ParquetWriter(file, schema) as writer:
        for lot in lots:
            columns = zip(*lot) if lot else [()] * len(schema)
            writer.write_batch(pa.record_batch([pa.array(*each) for each in zip(columns, schema.types)], schema))


FORMATS = {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet}


def write(
    table: OutputTable, kind: str, file: BinaryIO, progress: Callable[[int, int], None] | None = None, lot: int = CHUNK
) -> None:
    """Write a table to an open binary file as csv, jsonl or parquet; progress: a function of (rows done, in all).

    lot: rows that are kept back before some are written.
    """

    def lots() -> Lots:
        done, left = 0, iter(table.rows)
        while some := list(islice(left, lot)):
            yield some
            done += len(some)
            if progress and table.total:
                progress(done, table.total)

    FORMATS[kind](table, lots(), file)


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
