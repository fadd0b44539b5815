"""One SQLite file, shared by threads and processes: connections, transactions, snapshots, and failures in words."""

import os
import sqlite3
import threading
import time
from contextlib import closing, contextmanager
from functools import wraps
from pathlib import Path

from . import migrations


class StoreError(ValueError):
    """Something asked of the store that it cannot give, in one sentence."""


class StorageError(StoreError):
    """The database cannot be read or written now: nothing of the transaction is stored, and it may be tried again."""


class ConflictError(StoreError):
    """What was to be stored contradicts what is stored."""


REASONS = {
    sqlite3.SQLITE_BUSY: "another program keeps it locked",
    sqlite3.SQLITE_LOCKED: "another program keeps it locked",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it may only be read",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
    sqlite3.SQLITE_IOERR: "the disk fails",
    sqlite3.SQLITE_CORRUPT: "it is damaged; restore a backup of it",
    sqlite3.SQLITE_NOTADB: "it is no database",
}


def writes(method):
    """A method that runs in a transaction: its caller's, or one of its own."""

    @wraps(method)
    def inside(self, *arguments, **named):
        with self.transaction():
            return method(self, *arguments, **named)

    return inside


def _fetched(connection, sql, values):
    cursor = connection.execute(sql, values)
    names = [column for column, *_ in cursor.description]
    return [dict(zip(names, row)) for row in cursor]


class Database:
    """One database, safe to share between threads: one connection writes, in transactions only; those that read have
    connections of their own, which wait for no writer.

    patience: seconds for which another process that writes is waited for. read_only: the file is there and stays as it
    is. A failure of the database is a StorageError.
    """

    READERS = 8  # idle connections that are kept

    def __init__(self, path=None, read_only=False, patience=30):
        self.path, self.read_only, self.patience = Path(path), read_only, patience
        self._lock, self._thread, self._readers, self._db = threading.RLock(), threading.local(), [], None
        self._file, self._size = None, 0
        if read_only:
            if not self.path.exists():
                raise StoreError(f"There is no database at {self.path}.")
            with self._failures():
                self._stay()
                self._readers.append(self._only_read())
                pending = self._pending()
            if pending:
                Database(self.path, patience=patience).close()
            return
        import sqlite_utils  # with pandas, which whoever only reads need not wait for

        with self._failures():
            connection = self._connect("rwc")
            self._write_ahead(connection)
            connection.execute("PRAGMA synchronous = FULL")  # an acknowledged label survives a loss of power
            connection.execute("PRAGMA foreign_keys = ON")
            self._db = sqlite_utils.Database(connection)
            self._stay()
            self._migrate()

    # The connections

    def _connect(self, mode):
        address = f"{self.path.absolute().as_uri()}?mode={mode}"
        return sqlite3.connect(address, uri=True, check_same_thread=False, isolation_level=None, timeout=self.patience)

    def _only_read(self):
        """A connection that leaves everything as it is, also where nobody may write."""
        reader = self._connect("ro")
        try:
            reader.execute("SELECT 1 FROM sqlite_master")
        except sqlite3.OperationalError:
            reader.close()
            if self.path.with_name(f"{self.path.name}-wal").exists():
                raise
            reader = self._connect("ro&immutable=1")
        return reader

    def _write_ahead(self, connection):
        """Switch to WAL; SQLite does not wait by itself where another process is making the file at this moment."""
        deadline = time.monotonic() + self.patience
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _stay(self):
        """Refuse to go on where the file is not the one that was opened: what is written to a file that was deleted or
        replaced is lost."""
        size = self._size  # before the look, for other threads may see it grow meanwhile
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            found = None
        self._file = self._file or (found and (found.st_dev, found.st_ino))
        if not found or (found.st_dev, found.st_ino) != self._file or found.st_size < size:
            raise StorageError(
                f"{self.path} was deleted or replaced while it was open: nothing is saved before it is back."
            )
        self._size = max(self._size, found.st_size)

    @contextmanager
    def _failures(self):
        """What SQLite cannot do is said in one sentence."""
        try:
            yield
        except sqlite3.IntegrityError as error:
            raise ConflictError(f"{self.path} holds something that contradicts this ({error}).") from error
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest of an extended code is a detail
            raise StorageError(f"{self.path} cannot be used: {REASONS.get(code, error)}.") from error

    def _pending(self):
        """The migrations that the database lacks; an error where it has one that is unknown here."""
        known = list(migrations.STEPS)
        if self.one("SELECT 1 FROM sqlite_master WHERE name = '_sqlite_migrations'") is None:
            return known
        applied = self.query("SELECT name FROM _sqlite_migrations WHERE migration_set = ? ORDER BY id", migrations.SET)
        applied = [row["name"] for row in applied]
        newer = [name for name in applied if name not in known]
        if newer:
            raise StoreError(f"{self.path} was written by a newer OAL Studio ({newer[0]}). Update this one to open it.")
        return [name for name in known if name not in applied]

    def _migrate(self):
        """Bring the tables up to date; a copy of a database that is in use is kept as it was."""
        pending = self._pending()
        if pending and len(pending) < len(migrations.STEPS):
            kept = self.path.with_name(f"{self.path.stem}.before-{pending[0]}.db")
            if not kept.exists():
                self.copy_to(kept)
        if pending:
            with self.transaction():
                migrations.apply(self.db)

    def copy_to(self, path):
        """Copy the database as it is at this moment to a new file, while others read and write."""
        part = Path(f"{path}.part")
        part.unlink(missing_ok=True)
        with self._failures(), self._reader() as reader, closing(sqlite3.connect(part)) as target:
            reader.backup(target)
        os.replace(part, path)

    def close(self):
        """Close every connection."""
        with self._lock:
            for connection in [*self._readers, *([self._db.conn] if self._db else [])]:
                connection.close()
            self._readers.clear()

    @property
    def db(self):
        """The database to write to, inside a transaction only."""
        if not self._writing:
            raise RuntimeError("Database.db is for use inside `with store.transaction()` only.")
        return self._db

    @property
    def _writing(self):
        return getattr(self._thread, "writing", False)

    @contextmanager
    def transaction(self):
        """All or nothing; BEGIN IMMEDIATE, so that two writers wait for each other instead of failing."""
        if self._writing:
            yield
            return
        if self.read_only:
            raise StorageError(f"{self.path} is open for reading only.")
        with self._lock, self._failures():
            connection = self._db.conn
            self._stay()
            connection.execute("BEGIN IMMEDIATE")
            self._thread.writing = True
            try:
                yield
                connection.execute("COMMIT")
            except BaseException:
                connection.rollback()
                raise
            finally:
                self._thread.writing = False
            self._stay()

    @contextmanager
    def snapshot(self):
        """Whatever is read inside is of one moment."""
        if self._writing or getattr(self._thread, "reader", None):
            yield
            return
        with self._failures(), self._reader() as reader:
            reader.execute("BEGIN")
            self._thread.reader = reader
            try:
                yield
            finally:
                self._thread.reader = None
                reader.rollback()

    @contextmanager
    def _reader(self):
        """A connection that only reads, the caller's alone."""
        self._stay()
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

    def query(self, sql, *values):
        """All rows of a SELECT as dictionaries."""
        if self._writing:
            return _fetched(self._db.conn, sql, values)
        with self._failures():
            if reader := getattr(self._thread, "reader", None):
                return _fetched(reader, sql, values)
            with self._reader() as reader:
                return _fetched(reader, sql, values)

    def one(self, sql, *values):
        """The first row of a SELECT, or None."""
        return next(iter(self.query(sql, *values)), None)
