"""One SQLite file, shared by threads and processes: connections, transactions, snapshots, errors as sentences, and rows
of tables with their JSON columns and time stamps."""

import json
import os
import re
import shlex
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from .. import did_you_mean
from ..places import COMMAND
from . import migrations

Row = dict[str, Any]  # a row of a table, {column: value}
P = ParamSpec("P")
Result = TypeVar("Result")
Own = TypeVar("Own", bound="Database")


class StoreError(ValueError):
    """A call that the store refuses, with the reason in one sentence."""


class StorageError(StoreError):
    """The database cannot be read or written now. The transaction is rolled back; a retry may succeed."""


class MissingError(StoreError):
    """A session does not exist, or it is removed."""


class ConflictError(StoreError):
    """A change contradicts the stored data."""


REASONS = {
    sqlite3.SQLITE_BUSY: "another program keeps it locked",
    sqlite3.SQLITE_LOCKED: "another program keeps it locked",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
    sqlite3.SQLITE_IOERR: "the disk reports an error",
    sqlite3.SQLITE_CORRUPT: "it is damaged; restore a backup of it",
    sqlite3.SQLITE_NOTADB: "it is not a database",
}


BACKUP = "%Y-%m-%dT%H-%M-%SZ"  # the name of a backup: its time, followed by -, its number and .tar
_NAMED = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ-(\d{1,9})\.tar", re.ASCII)


def number_of(backup: str) -> int:
    """Return the number in the file name of a server's backup, or 0 if it is not one."""
    named = _NAMED.fullmatch(backup)
    return int(named[1]) if named else 0


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


def writes(method: Callable[Concatenate[Own, P], Result]) -> Callable[Concatenate[Own, P], Result]:
    """Decorate a method to run in a transaction: the caller's if there is one, else a new one."""

    @wraps(method)
    def inside(self: Own, /, *arguments: P.args, **named: P.kwargs) -> Result:
        with self.transaction():
            return method(self, *arguments, **named)

    return inside


def check_foreign(path: Path) -> None:
    """Raise StoreError if a database of unknown origin is damaged, or if its schema is not ours. Reading or migrating
    such a database might run code in its schema, or never end."""
    with closing(Database(path, read_only=True, migrates=False)) as store:
        result = store.query("PRAGMA quick_check(1)")[0]["quick_check"]
    if result != "ok":
        raise StorageError(f"{path} is damaged: {' '.join(result.split())[:80]}.")


def _rows(cursor: sqlite3.Cursor) -> list[Row]:
    names = [column for column, *_ in cursor.description]
    return [dict(zip(names, row)) for row in cursor]


class Database:
    """A thread-safe SQLite database. One connection writes, in transactions only. Readers have a pool of connections of
    their own, and never wait for a writer.

    patience: seconds to wait for the lock of another process that writes. read_only: the file must exist, and is
    changed only by migrations, if `migrates`. Every error of SQLite is raised as a StoreError.
    """

    READERS = 8  # most idle connections in the pool of readers

    def __init__(self, path: Path | str, read_only: bool = False, patience: float = 30, migrates: bool = True):
        self.path, self.read_only, self.patience = Path(path), read_only, patience
        self._lock, self._thread = threading.RLock(), threading.local()
        self._readers: list[sqlite3.Connection] = []
        self._file: tuple[int, int] | None = None  # device and inode of the file that was opened
        self._size = 0
        if read_only:
            if not self.path.exists():
                raise StoreError(f"There is no database at {self.path}.")
            with self._failures():
                self._check_file()
                self._readers.append(self._only_read())
                with self._reader() as reader:
                    version = self._version(reader)
            if version != migrations.VERSION and migrates:
                Database(self.path, patience=patience).close()
            return
        with self._failures():
            self._db = self._connect("rwc")
            self._version(self._db)  # raises before anything is changed
            self._write_ahead(self._db)
            self._db.execute("PRAGMA synchronous = FULL")  # an acknowledged label survives a loss of power
            self._db.execute("PRAGMA foreign_keys = ON")
            self._check_file()
            self._migrate()

    # The connections

    def _connect(self, mode: str) -> sqlite3.Connection:
        address = f"{self.path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(
            address, uri=True, check_same_thread=False, isolation_level=None, timeout=self.patience
        )
        connection.execute("PRAGMA trusted_schema = OFF")  # the file must not call functions with side effects
        return connection

    def _only_read(self) -> sqlite3.Connection:
        """Open a read-only connection, even if the folder is not writable."""
        reader = self._connect("ro")
        try:
            reader.execute("SELECT 1 FROM sqlite_master").fetchall()  # an unread row would keep a snapshot open
        except sqlite3.OperationalError:
            reader.close()
            if self.path.with_name(f"{self.path.name}-wal").exists():
                raise
            reader = self._connect("ro&immutable=1")
        return reader

    def _write_ahead(self, connection: sqlite3.Connection) -> None:
        """Switch to write-ahead logging (WAL). Wait while another process creates the file: SQLite itself does not."""
        deadline = time.monotonic() + self.patience
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL").fetchall()  # all rows, as in _only_read
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _check_file(self) -> None:
        """Raise StorageError if the file was deleted or replaced since it was opened: new data would be lost."""
        size = self._size  # read first: other threads may see the file grow meanwhile
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            status = None
        self._file = self._file or (status and (status.st_dev, status.st_ino))
        if not status or (status.st_dev, status.st_ino) != self._file or status.st_size < size:
            raise StorageError(
                f"{self.path} was deleted or replaced while it was open: nothing can be saved until it is back."
            )
        self._size = max(self._size, status.st_size)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Raise every error of SQLite as a StoreError in one sentence."""
        try:
            yield
        except UnicodeEncodeError as error:  # of a text that SQLite cannot hold
            raise StoreError(f"a text cannot have the character U+{ord(error.object[error.start]):04X}.") from error
        except sqlite3.IntegrityError as error:
            raise ConflictError(f"{self.path} cannot store this, as it violates a constraint ({error}).") from error
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without the details of an extended code
            way = self._way_back() if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) else ""
            reason = " ".join(str(REASONS.get(code, error)).split())
            raise StorageError(f"{self.path} cannot be used: {reason}.{way}") from error

    @property
    def backups_folder(self) -> Path:
        """The folder of the server's backups."""
        return self.path.with_name(self.path.stem + ".backups")

    @property
    def backups(self) -> list[Path]:
        """The server's backups, oldest first. They are sorted by number, as the time in a name may be wrong."""
        files = [path for path in self.backups_folder.glob("*.tar") if number_of(path.name)]
        return sorted(files, key=lambda path: (number_of(path.name), path.name))

    def _way_back(self) -> str:
        """Explain in a sentence how to restore the server's newest backup. Return "" if there is no backup."""
        if not (backups := self.backups):
            return ""
        command = shlex.join(["restore", str(backups[-1]), "--db", str(self.path), "--force"])
        return f" The newest backup is {backups[-1]}: stop the server, then run `{COMMAND} {command}`."

    def _version(self, connection: sqlite3.Connection) -> int | None:
        """Return the version of the database's schema, or None if it is empty. Raise StoreError if its schema is of a
        newer version or not ours."""
        if is_alone := not connection.in_transaction:
            connection.execute("BEGIN")  # another process may migrate it meanwhile
        try:
            return migrations.version_of(connection)
        except migrations.ForeignSchemaError as error:
            raise StoreError(f"{self.path} {error}") from None
        finally:
            if is_alone:
                connection.rollback()

    def _migrate(self) -> None:
        """Make the tables of an empty database. Bring an older one up to date, after a backup to a file next to it."""
        version = self._version(self._db)
        if version == migrations.VERSION:
            return
        if version is not None:
            copy = self.path.with_name(f"{self.path.stem}.of-schema-{version}.db")
            if not copy.exists():
                self.copy_to(copy)
        with self.transaction():
            if (version := self._version(self._db)) != migrations.VERSION:  # another process may have migrated it
                migrations.apply(self._db, version)

    def copy_to(self, path: Path | str) -> None:
        """Copy the current state of the database to a file (online backup), while others may read and write."""
        part = Path(f"{path}.part")
        part.unlink(missing_ok=True)
        with self._failures(), self._reader() as reader, closing(sqlite3.connect(part)) as target:
            reader.backup(target)
        os.replace(part, path)

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            for connection in [*self._readers, *([] if self.read_only else [self._db])]:
                connection.close()
            self._readers.clear()

    @property
    def db(self) -> sqlite3.Connection:
        """The connection that writes; only inside a transaction."""
        if not self._writing:
            raise RuntimeError("Database.db is for use inside `with store.transaction()` only.")
        return self._db

    @property
    def _writing(self) -> bool:
        return getattr(self._thread, "writing", False)

    @property
    def _snapshot(self) -> sqlite3.Connection | None:
        return getattr(self._thread, "snapshot", None)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in a transaction: commit all its writes, or roll them back if it raises. A nested call joins
        the outer transaction. BEGIN IMMEDIATE makes two writers wait for each other."""
        if self._writing:
            yield
            return
        if self.read_only:
            raise StorageError(f"{self.path} is open for reading only.")
        with self._lock, self._failures():
            self._check_file()
            self._db.execute("BEGIN IMMEDIATE")
            self._thread.writing = True
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                self._db.rollback()
                raise
            finally:
                self._thread.writing = False
            self._check_file()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all reads inside the block see the same snapshot of the database."""
        if self._writing or self._snapshot:
            yield
            return
        with self._failures(), self._reader() as reader:
            reader.execute("BEGIN")
            self._thread.snapshot = reader
            try:
                yield
            finally:
                self._thread.snapshot = None
                reader.rollback()

    @contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        """Lend a read-only connection from the pool. No other thread uses it inside the block."""
        self._check_file()
        try:
            reader = self._readers.pop()
        except IndexError:
            reader = self._only_read() if self.read_only else self._connect("rw")
            reader.execute("PRAGMA query_only = ON")
        try:
            yield reader
        except sqlite3.Error:
            reader.close()
            raise
        if len(self._readers) < self.READERS:
            self._readers.append(reader)
        else:
            reader.close()

    @property
    def _own(self) -> sqlite3.Connection | None:
        """The connection of this thread's transaction or snapshot, or None outside of both."""
        return self._db if self._writing else self._snapshot

    def query(self, sql: str, *values: object) -> list[Row]:
        """Return all rows of a SELECT. It runs in this thread's transaction or snapshot, if there is one."""
        with self._failures():
            if own := self._own:
                return _rows(own.execute(sql, values))
            with self._reader() as reader:
                return _rows(reader.execute(sql, values))

    def one(self, sql: str, *values: object) -> Row | None:
        """Return the first row of a SELECT, or None."""
        return next(iter(self.query(sql, *values)), None)

    def number(self, sql: str, *values: object) -> int:
        """Return the integer that a SELECT of one row and one column gives."""
        return int(self.query(sql, *values)[0].popitem()[1])

    # Rows of tables

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
