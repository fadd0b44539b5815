"""Tables as files: CSV, JSON lines and Parquet, written as they are read, so that any number of rows streams through.

Texts are written as they are, so that they come back unchanged: a spreadsheet program may take one that begins with =
for a formula, and should be told that the column is text.
"""

import csv
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Iterable
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

CHUNK = 2000  # rows that are in memory at a time


class Table(NamedTuple):
    """Columns {name: int, float or str}, rows as tuples, and how many there are (None: nobody knows)."""

    columns: dict
    rows: Iterable
    total: int | None = None


def chunks(size):
    """Ranges that cut so many rows into parts."""
    return (range(start, min(start + CHUNK, size)) for start in range(0, size, CHUNK))


def _csv(table, lots, file):
    with text(file) as words:
        writer = csv.writer(words)
        writer.writerow(table.columns)
        for lot in lots:
            writer.writerows(lot)
            words.flush()


def _jsonl(table, lots, file):
    with text(file) as words:
        for lot in lots:
            words.writelines(json.dumps(dict(zip(table.columns, row)), ensure_ascii=False) + "\n" for row in lot)
            words.flush()


@contextmanager
def text(file):
    """An open binary file as one of text, which leaves it open."""
    words = io.TextIOWrapper(file, "utf-8", newline="")
    try:
        yield words
    finally:
        words.detach()


def _parquet(table, lots, file):
    import pyarrow as pa
    from pyarrow import parquet

    kinds = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in table.columns.items()])
    with parquet.ParquetWriter(file, schema) as writer:
        for lot in lots:
            columns = zip(*lot) if lot else [()] * len(schema)
            writer.write_batch(pa.record_batch([pa.array(*each) for each in zip(columns, schema.types)], schema))


FORMATS = {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet}


def write(table, kind, file, progress=None, lot=CHUNK):
    """Write a table to an open binary file as csv, jsonl or parquet; progress: a function of (rows done, in all).

    lot: rows that are kept back before some are written.
    """

    def lots():
        done, left = 0, iter(table.rows)
        while some := list(islice(left, lot)):
            yield some
            done += len(some)
            if progress and table.total:
                progress(done, table.total)

    FORMATS[kind](table, lots(), file)


@contextmanager
def whole(path):
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
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
