"""Read the tables that an export writes, each with a library for its format."""

import csv
import gzip
import io
import json

from openpyxl import load_workbook
from pyarrow import parquet

from oal_engine.output import tables

TYPED = ("jsonl", "parquet")  # formats that keep numbers apart from words, and missing values apart from empty words

GUARDED = ("csv-guarded", "xlsx")  # formats that put an apostrophe before what looks like a formula


def rows_of(kind, content):
    """Return the rows of an exported table as dictionaries. kind: the table's format. content: the bytes of its
    file."""
    if kind == "parquet":
        return parquet.read_table(io.BytesIO(content)).to_pylist()
    if kind == "jsonl":
        return [json.loads(line) for line in content.decode().split("\n") if line]
    if kind == "xlsx":
        head, *rows = load_workbook(io.BytesIO(content)).active.iter_rows(values_only=True)
        words = ([tables.unescaped("" if cell is None else str(cell)) for cell in row] for row in rows)
        return [dict(zip(head, row)) for row in words]
    words = (gzip.decompress(content) if kind == "csv.gz" else content).decode()
    head, *rows = csv.reader(io.StringIO(words, newline=""), delimiter="\t" if kind == "tsv" else ",")
    if kind == "csv-guarded":
        assert head[0].startswith("'")
        head[0] = head[0][1:]
    return [dict(zip(head, row, strict=True)) for row in rows]


def plain(rows, kind):
    """Return rows as a spreadsheet would give them back: all values are text, guarded in some formats."""
    guard = tables.guarded if kind in GUARDED else str
    return [{guard(key): "" if value is None else str(guard(value)) for key, value in row.items()} for row in rows]
