"""Helpers for all tables of the store: JSON columns, time stamps, and rows by id or name."""

import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from .. import did_you_mean
from .database import Database, Row, StorageError, StoreError

JSON: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("columns", "scaling", "vectorizer", "checksums", "digests"), dict),
    **dict.fromkeys(("parameters", "prior", "specification", "versions", "preferences", "data", "audited"), dict),
    **dict.fromkeys(("feature_names", "shown", "tags", "lines", "datasets", "questions"), list),
    **dict.fromkeys(("parts", "labels", "firsts"), list), "classes": (dict, list),
}  # {JSON column: type of its values}  # fmt: skip


def now(ago: timedelta = timedelta()) -> str:
    """Return the time `ago` before the current time as it is stored: ISO 8601, UTC, with milliseconds."""
    return (datetime.now(UTC) - ago).isoformat(timespec="milliseconds")


def decoded(row: Row, *columns: str) -> Row:
    """Return a copy of a row with these JSON columns decoded."""
    return row | {column: row[column] and from_json(row[column], column) for column in columns}


def from_json(words: str, column: str) -> Any:
    """Parse a value of a JSON column. Raise StorageError if it is not JSON of the type that the store puts there."""
    with suppress(ValueError, TypeError, RecursionError):
        if (value := json.loads(words)) is None or isinstance(value, JSON[column]):
            return value
    raise StorageError(f"the database is damaged: {column} cannot be {words[:40]!r}.")


class Tables(Database):
    """A database with helpers for its tables."""

    PRESENT = "NOT EXISTS (SELECT 1 FROM removals WHERE session = sessions.id AND restored_at IS NULL)"

    def _insert(self, table: str, values: Row, otherwise: str = "") -> None:
        """Insert a row. otherwise: conflict clause, such as OR REPLACE."""
        columns, marks = ", ".join(values), ", ".join("?" * len(values))
        self.db.execute(f"INSERT {otherwise} INTO {table} ({columns}) VALUES ({marks})", [*values.values()])

    def _update(self, table: str, id: int, values: Row) -> None:
        """Update columns of the row with an id, {column: value}."""
        columns = ", ".join(f"{name} = ?" for name in values)
        self.db.execute(f"UPDATE {table} SET {columns} WHERE id = ?", [*values.values(), id])

    def _add(self, table: str, values: Row) -> int:
        """Insert a row with the current time in `created_at`. Return its id."""
        self._insert(table, values | {"created_at": now()})
        return self.number("SELECT last_insert_rowid()")

    def _by_key(self, kind: str, table: str, columns: str, key: int | str) -> Row:
        """Return the row with this id or name. If it does not exist, raise StoreError with the names of all rows."""
        row = self.one(f"SELECT {columns} FROM {table} WHERE {'id' if isinstance(key, int) else 'name'} = ?", key)
        if row is None:
            names = [each["name"] for each in self.query(f"SELECT name FROM {table} ORDER BY id DESC")]
            there = ", ".join(names) or "none"
            raise StoreError(f"{kind} {key} does not exist. There are: {there}.{did_you_mean(key, names)}")
        return row

    def _columns(self, select: str, names: Sequence[str], *values: object) -> list[list[Any]]:
        """Return the named columns of a SELECT, each as a list. For very many rows this is faster than `query`."""
        lists = ", ".join(f"json_group_array({name}) AS {name}" for name in names)
        return [json.loads(column) for column in self.query(f"SELECT {lists} FROM ({select})", *values)[0].values()]
