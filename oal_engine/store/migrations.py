"""The schema of a database, and the migrations of older databases.

The script schema.sql makes a new database. The version of a schema is the number of steps that lead to it; SQLite keeps
it in the file (`user_version`). Version 0 is the schema of OAL Studio 0.3.0.
"""

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

from . import digests

Object: TypeAlias = tuple[str | None, ...]  # a row of the schema: type, name, table and SQL of a table or an index

SCRIPT = re.sub(r"--.*", "", Path(__file__).with_name("schema.sql").read_text(encoding="utf-8"))
STATEMENTS = [statement for statement in SCRIPT.split(";") if statement.strip()]
OF_OTHERS = {  # plain tables of SQLite's ANALYZE, and of Litestream, which copies the database
    ("table", name, name, f"CREATE TABLE {name}{columns}")
    for name, columns in (
        ("sqlite_stat1", "(tbl,idx,stat)"),
        ("sqlite_stat4", "(tbl,idx,neq,nlt,ndlt,sample)"),
        ("_litestream_seq", " (id INTEGER PRIMARY KEY, seq INTEGER)"),
        ("_litestream_lock", " (id INTEGER)"),
    )
}
LIST = "_sqlite_migrations"  # where 0.3.0 listed its migrations; its SQL depends on the version of a library
_WORDS = f"create|table|unique|index|on|integer|text|primary|key|id|migration_set|name|applied_at|(idx_)?{LIST}[a-z_]*"
_OF_LIST = re.compile(rf'(({_WORDS})\b|[\s,()"\[\]])+', re.IGNORECASE | re.ASCII)


class Migration(NamedTuple):
    """A migration. before: the digest of the schema that it changes. change: writes to the database."""

    before: str
    change: Callable[[sqlite3.Connection], None]


def _without_brokers(db: sqlite3.Connection) -> None:
    """Drop the list of migrations, which `user_version` replaces, and the tables of feeds from message brokers."""
    for table in (LIST, "feeds", "rejected"):
        db.execute(f"DROP TABLE {table}")


def _with_whole_names(db: sqlite3.Connection) -> None:
    """Replace U+0000 in the names of sessions: 0.3.0 took it, but such a session cannot be published."""
    for session, name in db.execute("SELECT id, name FROM sessions WHERE instr(name, char(0))").fetchall():
        db.execute("UPDATE sessions SET name = ? WHERE id = ?", [name.replace("\0", "\ufffd"), session])


def _with_digests(db: sqlite3.Connection) -> None:
    """Add digests of the rows of each data set, computed now from the rows that are there."""
    db.execute("ALTER TABLE datasets ADD COLUMN digests TEXT NOT NULL DEFAULT '{}'")
    for (dataset,) in db.execute("SELECT id FROM datasets").fetchall():
        of_tables = {table: digests.as_text(digests.of_table(db, table, dataset)) for table in digests.COLUMNS}
        db.execute("UPDATE datasets SET digests = ? WHERE id = ?", [json.dumps(of_tables), dataset])


def _with_goals(db: sqlite3.Connection) -> None:
    """Add the goal of each session: until now all labeled a stream."""
    db.execute("ALTER TABLE sessions ADD COLUMN goal TEXT NOT NULL DEFAULT 'stream'")


STEPS = [  # in their order; never changed once they are released
    Migration("cda3156e80062245f8db7c13b76b8a25", _without_brokers),
    Migration("ba86dfa9df005539f494237199a57f2a", _with_whole_names),
    Migration("ba86dfa9df005539f494237199a57f2a", _with_digests),
    Migration("0b8ee847ff1567822040485615349681", _with_goals),
]
VERSION = len(STEPS)


class ForeignSchemaError(ValueError):
    """A schema that is not ours, or is of a newer version. The message is worded to follow the name of the file."""


def version_of(connection: sqlite3.Connection) -> int | None:
    """Return the version of the schema of a database, or None if the database is empty. Raise ForeignSchemaError if its
    schema is not the one of its version: a foreign trigger, view, generated column or index may run code whenever the
    database is read or written. Nothing but the schema is read."""
    version, present = int(connection.execute("PRAGMA user_version").fetchone()[0]), _schema(connection)
    if version > VERSION:
        raise ForeignSchemaError(f"was written by a newer OAL Studio (schema {version}). Update this one to open it.")
    if not present and not version:
        return None
    if version == VERSION:
        _compare(present, _script_schema())
    elif version < 0 or digest_of(connection) != STEPS[version].before:
        raise ForeignSchemaError("does not have the schema of OAL Studio 0.3.0 or later: it is not opened.")
    return version


def _schema(connection: sqlite3.Connection) -> set[Object]:
    """Return the schema of a database, with normalized whitespace: none at brackets and commas, else one space."""
    present = {*connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")} - OF_OTHERS
    return {tuple(_plain(word) if isinstance(word, str) else word for word in row) for row in present}


@lru_cache(1000)
def _plain(sql: str) -> str:
    return re.sub(r" ?([(),]) ?", r"\1", " ".join(sql.split()))


@cache
def _script_schema() -> set[Object]:
    """Return the schema that the script makes."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
        apply(new, None)
        return _schema(new)


def _compare(present: set[Object], expected: set[Object]) -> None:
    """Raise ForeignSchemaError, with the name of the first difference, if a schema is not the expected one."""
    for kind, name, *_ in sorted(present - expected, key=str):
        is_ours = any(name == row[1] for row in expected)
        how = "not as OAL Studio makes it" if is_ours else "which OAL Studio does not make"
        raise ForeignSchemaError(f"holds the {str(kind)[:20]} {str(name)[:80]!r}, {how}: it is not opened.")
    for kind, name, *_ in sorted(expected - present, key=str):
        raise ForeignSchemaError(f"lacks the {kind} {name!r}: it is not opened.")


def digest_of(connection: sqlite3.Connection) -> str:
    """Return a digest of the schema of a database, without the list of migrations of 0.3.0."""
    own = [
        row for row in _schema(connection)
        if row[2] != LIST or not (row[3] is None or _OF_LIST.fullmatch(str(row[3])))
    ]  # fmt: skip
    return hashlib.sha256(repr(sorted(own, key=str)).encode()).hexdigest()[:32]


def apply(db: sqlite3.Connection, version: int | None) -> None:
    """Make the tables of an empty database (version None), or bring a database of an older version up to date."""
    if version is None:
        for statement in STATEMENTS:
            db.execute(statement)
    else:
        for step in STEPS[version:]:
            step.change(db)
    db.execute(f"PRAGMA user_version = {VERSION}")
