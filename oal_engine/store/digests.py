"""Digests of the rows of a data set, by which damage is found.

The digest of a table is the exclusive or of the digests of its rows. It does not depend on their order, and a row that
is added or changed costs no more than itself.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import reduce
from hashlib import blake2b
from operator import xor

COLUMNS = {  # {table: the columns that its digest covers, in the order in which rows are written}
    "datasets": "kind, positive, columns, scaling, vectorizer, documents, feature_names",
    "items": "position, id, text, label, y",
    "later_labels": "item, label, y, added_at",
    "details": "item, cells",
    "vocabulary": "column, term, document_frequency",
    "contents": "digest",
    "firsts": "item, size, bits, copies",
    "beginnings": "word, item",
    "batches": "first, items, words, new_words, added_at",
}


def of_row(row: Sequence[object]) -> int:
    """Return the digest of a row. A text is preceded by its length, so that different rows have different contents."""
    content = "".join([f"{len(value)}:{value}" if isinstance(value, str) else f"{value!r}," for value in row])
    return int.from_bytes(blake2b(content.encode(), digest_size=16).digest())


def of_rows(rows: Iterable[Sequence[object]]) -> int:
    """Return the digest of some rows. The digest of an empty table is 0."""
    return reduce(xor, map(of_row, rows), 0)


def of_table(db: sqlite3.Connection, table: str, dataset: int) -> int:
    """Return the digest of the rows that a data set has in a table."""
    key = "id" if table == "datasets" else "dataset"
    return of_rows(db.execute(f"SELECT {COLUMNS[table]} FROM {table} WHERE {key} = ?", [dataset]))


def as_text(digest: int) -> str:
    """Return a digest as it is stored, in hexadecimal digits."""
    return f"{digest:032x}"
