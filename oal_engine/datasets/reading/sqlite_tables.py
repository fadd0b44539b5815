"""Read a table from an SQLite database."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from .foreign import foreign
from .parsed import Doubt, ParsedFile, name_list
from .sources import DataError, Source

OLD_JOURNAL = b"\1\1"  # at byte 18: no write-ahead log (WAL), with which a copy in memory cannot be read
ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_PRAGMA)


@foreign
def sqlite(source: Source) -> ParsedFile:
    """Read a table from an SQLite database: the one named in the layout, else the first one with rows, with a `Doubt`
    if several have rows."""
    content = source.binary.read(source.limits.size + 1)
    source.limits.check("size", len(content), source.name)
    content = content[:18] + OLD_JOURNAL + content[20:]
    with closing(_opened(content, source)) as database:
        tables = [name for name in _tables(database) if database.execute(f"SELECT 1 FROM {_quoted(name)}").fetchone()]
        wanted, doubts = source.layout.table or next(iter(tables), None), tuple[Doubt, ...]()
        if wanted not in tables:
            what = "no table with rows" if wanted is None else f"no table {wanted!r}"
            raise DataError(f"{source.name} has {what}; its tables are {name_list(tables) or 'none'}.")
        if len(tables) > 1 and source.layout.table is None:
            question = f"{source.name} has the tables {name_list(tables)}: say which to read (--table NAME)."
            doubts = (Doubt("table", question, tuple(tables)),)
        # Without generated columns, whose expressions could take any time.
        columns = [name for _, name, *_ in database.execute(f"PRAGMA table_info({_quoted(wanted)})")]
    source.limits.check("columns", len(columns), source.name)

    def rows() -> Iterator[tuple[int, list[Any]]]:
        with closing(_opened(content, source)) as database:
            query = f"SELECT {', '.join(map(_quoted, columns))} FROM {_quoted(wanted)}"
            for number, row in enumerate(database.execute(query), 1):
                source.limits.check("items", number, source.name)
                yield number, ["" if isinstance(cell, bytes) else cell for cell in row]

    return ParsedFile(columns, rows(), detected={"table": wanted}, doubts=doubts)


def _opened(content: bytes, source: Source) -> sqlite3.Connection:
    """Open a read-only copy of a database in memory, in which the functions of its schema do not run."""
    database = sqlite3.connect(":memory:")
    database.text_factory = lambda text: text.decode("utf-8", "half")
    database.deserialize(content)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 4 * source.limits.line)
    database.execute("PRAGMA cell_size_check = ON")
    database.execute("PRAGMA trusted_schema = OFF")
    database.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in ALLOWED else sqlite3.SQLITE_DENY)
    return database


def _tables(database: sqlite3.Connection) -> list[str]:
    """Return the names of the ordinary tables: no views, whose queries would run, no virtual or internal tables."""
    tables = database.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table' ORDER BY rowid").fetchall()
    own = (name for name, made_by in tables if not re.match(r"(?i)create\s+virtual\b", made_by or ""))
    return [name for name in own if not name.startswith("sqlite_")]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
