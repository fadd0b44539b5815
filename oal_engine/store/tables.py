"""Tools of all tables of the store: values of JSON, times, and rows by key."""

import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from .database import Database, Row, StorageError, StoreError

JSON: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("columns", "scaling", "vectorizer", "checksums"), dict),
    **dict.fromkeys(("parameters", "prior", "specification", "versions", "preferences", "data", "audited"), dict),
    **dict.fromkeys(("feature_names", "shown", "tags", "lines", "datasets", "questions"), list),
    **dict.fromkeys(("parts", "labels", "firsts"), list), "classes": (dict, list),
}  # types of the values in columns of JSON  # fmt: skip


def now(ago: timedelta = timedelta()) -> str:
    """Return the time `ago` before now in the stored form: UTC, to the millisecond."""
    return (datetime.now(UTC) - ago).isoformat(timespec="milliseconds")


def decoded(row: Row, *columns: str) -> Row:
    """Return a row with the values of its columns of JSON."""
    return row | {column: row[column] and from_json(row[column], column) for column in columns}


def from_json(words: str, column: str) -> Any:
    """Parse a value of a JSON column. StorageError if it has another type than the store puts there."""
    with suppress(ValueError, TypeError, RecursionError):
        if (value := json.loads(words)) is None or isinstance(value, JSON[column]):
            return value
    raise StorageError(f"the database is damaged: {column} cannot be {words[:40]!r}.")


class Tables(Database):
    """A database with the tools of its tables."""

    PRESENT = "NOT EXISTS (SELECT 1 FROM removals WHERE session = sessions.id AND restored_at IS NULL)"

    def _insert(self, table: str, values: Row, otherwise: str = "") -> None:
        """Insert a row with one statement: sqlite-utils would look at the schema first, while others wait to write."""
        columns, marks = ", ".join(values), ", ".join("?" * len(values))
        self.db.conn.execute(f"INSERT {otherwise} INTO {table} ({columns}) VALUES ({marks})", [*values.values()])

    def _add(self, table: str, values: Row) -> int:
        """Insert a row with the current time in `created_at`. Return its id."""
        self._insert(table, values | {"created_at": now()})
        return self.number("SELECT last_insert_rowid()")

    def _by_key(self, kind: str, table: str, columns: str, key: int | str) -> Row:
        """Return the row with an id or a name. StoreError, with all names, if it does not exist."""
        row = self.one(f"SELECT {columns} FROM {table} WHERE {'id' if isinstance(key, int) else 'name'} = ?", key)
        if row is None:
            names = ", ".join(each["name"] for each in self.query(f"SELECT name FROM {table} ORDER BY id DESC"))
            raise StoreError(f"{kind} {key} does not exist. There are: {names or 'none'}.")
        return row

    def _columns(self, select: str, names: Sequence[str], *values: object) -> list[list[Any]]:
        """Return the named columns of a SELECT as lists: for very many rows, quicker than `query`."""
        lists = ", ".join(f"json_group_array({name}) AS {name}" for name in names)
        return [json.loads(column) for column in self.query(f"SELECT {lists} FROM ({select})", *values)[0].values()]
