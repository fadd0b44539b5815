"""Back up, check and restore a database with the rows of its data sets, while others work.

A backup is one .tar file: the database, its row files, and last the SHA-256 of each of them. The database is copied
first. Row files are append-only, so the copy says how many bytes of each file to take, whatever is appended meanwhile.
A server keeps backups in a folder next to its database.
"""

import fcntl
import hashlib
import logging
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import BytesIO
from operator import itemgetter
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from threading import Event
from typing import IO

from ..datasets import Dataset, import_in_progress
from ..output import tables
from ..store import Row, Store, StoreError
from ..store.database import BACKUP, check_foreign, number_of
from . import look_back
from .log import unreadable

DATABASE, ROWS = "studio.db", "studio.rows"
SUMS = "SHA256SUMS"  # the member with the SHA-256 of the others, in the format of sha256sum
MEMBER = re.compile(
    rf"{SUMS}|studio\.db|studio\.rows/[0-9a-f]{{16}}/(rows\.json|(y|numbers|indptr|indices|values|block|projection|"
    r"embeddings|tokenizer|tokens)\.npy)",
    re.ASCII,
)
KEPT_DAYS = 7  # of which the newest backup is kept
DAY_SECONDS, RETRY_SECONDS = 86_400, 3_600  # until the next backup of a server, after a success and after a failure
SCHEMA_AT = 60  # where a database file has the version of its schema, in four bytes (`user_version`)
LOCKS = 0x40000000, 512  # first byte that SQLite locks, and number of bytes: https://www.sqlite.org/fileformat2.html


_log = logging.getLogger(__name__)
_failures: dict[Path, str] = {}  # why this server made no backup of a database at its last attempt


class BackupError(ValueError):
    """The reason why a database cannot be backed up or restored, in one sentence."""


@dataclass(frozen=True)
class Finding:
    """The result of checking one part of a database. problem: None if the part is sound. remark: a sentence on entries
    left out of a sound part, or None."""

    part: str
    name: str
    problem: str | None
    remark: str | None = None

    def as_dict(self) -> Row:
        """Return the finding as a JSON object, without a remark if there is none."""
        return {name: value for name, value in vars(self).items() if value or name != "remark"}

    def __str__(self) -> str:
        result = "; ".join(filter(None, (self.problem or "sound", self.remark)))
        return f"{self.part} {self.name}: {result}"


def backup(store: Store, path: Path | str, force: bool = False) -> None:
    """Write a database and the rows of its data sets into one tar file, all or nothing. force: replace an existing
    file. Raise BackupError if anything is damaged: a damaged backup must not displace a sound one."""
    path = Path(path)
    if path.exists() and not force:
        raise BackupError(f"{path} exists already: --force replaces it.")
    folder = path.resolve().parent
    with tables.whole(path) as file, TemporaryDirectory(dir=folder, prefix=".backup.") as scratch:
        copy = Path(scratch) / DATABASE
        store.copy_to(copy)
        copy.with_name(ROWS).symlink_to(store.folder.resolve())  # the copy is checked with the rows that it names
        with closing(Store(copy, read_only=True)) as copied, tarfile.open(fileobj=file, mode="w") as archive:
            if problems := copied.problems():
                raise BackupError(f"The database is damaged: {problems[0]}.")
            sums = {DATABASE: _add(archive, DATABASE, copy, copy.stat().st_size)}
            for row in copied.datasets():
                for part, size in _sound_rows(store, copied, row).items():
                    name = f"{ROWS}/{row['folder']}/{part.name}"
                    sums[name] = _add(archive, name, part, size)
            content = "".join(f"{digest}  {name}\n" for name, digest in sums.items()).encode()
            member = tarfile.TarInfo(SUMS)
            member.size = len(content)
            archive.addfile(member, BytesIO(content))
    _sync(folder)


def _sound_rows(store: Store, copied: Store, row: Row) -> dict[Path, int]:
    """Check a data set of a copied database, and return its row files, {path: number of bytes}."""
    if not store.has_dataset(row["name"]):
        raise BackupError(f"the data set {row['name']} was removed while the backup was made: make it again.")
    try:
        dataset = Dataset(copied, row["id"])
        dataset.check()
    except ValueError as error:
        raise BackupError(str(error).replace(str(copied.folder), str(store.folder))) from None
    return dataset.files


class _Hashed:
    """An open file that computes the SHA-256 of all bytes read from it."""

    def __init__(self, file: IO[bytes]):
        self._file, self.digest = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes."""
        content = self._file.read(size)
        self.digest.update(content)
        return content


def _add(archive: tarfile.TarFile, name: str, path: Path, size: int) -> str:
    """Add the first `size` bytes of a file to a tar archive. Return their SHA-256."""
    with path.open("rb") as file:
        member, content = archive.gettarinfo(arcname=name, fileobj=file), _Hashed(file)
        member.size = size
        archive.addfile(member, content)
    return content.digest.hexdigest()


# Backups that a server keeps


def keep_backups(path: Path, stopped: Event) -> None:
    """Back up a database until `stopped` is set: at once, and then once a day if anything has changed. A failure is
    logged, returned by `failure`, and followed by another attempt an hour later."""
    while True:
        try:
            if path.exists():
                keep(path, datetime.now(UTC))
            _failures.pop(path, None)
        except (OSError, ValueError) as error:
            _failures[path] = str(error)
            _log.warning("No backup of %s was made. %s", path, error)
        if stopped.wait(RETRY_SECONDS if path in _failures else DAY_SECONDS):
            return


def keep(path: Path, now: datetime) -> Path | None:
    """Add a backup of a database to its backups folder, and remove backups that are too old. Return the new backup, or
    None if the database has not changed since the last one. Raise BackupError if the database is damaged or another
    process is making a backup."""
    changed = _changed(path)
    with closing(Store(path, read_only=True)) as store:
        if (earlier := store.backups) and changed == earlier[-1].stat().st_mtime_ns:
            return None
        folder = store.backups_folder
        folder.mkdir(0o700, exist_ok=True)
        with _alone(folder):
            _check_room(store, folder)
            number = number_of(earlier[-1].name) + 1 if earlier else 1
            new = folder / f"{now:{BACKUP}}-{number}.tar"
            backup(store, new)
            os.utime(new, ns=(changed, changed))
            names = [each.name for each in store.backups]
            for name in {*names} - retained(names):
                (folder / name).unlink()
    return new


def _check_room(store: Store, folder: Path) -> None:
    """Raise BackupError if a backup might leave no room on the disk for new answers: it needs the database twice."""
    needed = 3 * sum(part.stat().st_size for part in (store.path, *store.folder.glob("*/*")))
    if (free := shutil.disk_usage(folder).free) < needed:
        raise BackupError(f"{free:,} bytes are left on its disk. A backup needs {needed:,}, to leave room for answers.")


def _changed(path: Path) -> int:
    """Return the modification time of a database or its write-ahead log, whichever is later, in nanoseconds; 0 if both
    are missing. As the clock may be wrong, the value only serves to compare states."""
    files = [path, path.with_name(f"{path.name}-wal")]
    return max((file.stat().st_mtime_ns for file in files if file.exists() and file.stat().st_size), default=0)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock the backups folder against other processes, and remove unfinished backups of killed ones. Raise BackupError
    if another process has the lock."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for scratch in folder.glob(".backup.*"):
            shutil.rmtree(scratch, ignore_errors=True)
        for unfinished in folder.glob(".2*.tar.*"):
            unfinished.unlink()
        yield
    except BlockingIOError:
        raise BackupError("Another process makes one now.") from None
    finally:
        os.close(lock)


def retained(names: Sequence[str]) -> set[str]:
    """Return the names of the backups to keep: the newest of each day, of the last KEPT_DAYS days that have backups.
    names: names of all backups, oldest first."""
    newest: dict[str, str] = {}
    for name in reversed(names):
        newest.setdefault(name[: len("2026-11-22")], name)
    return {*[*newest.values()][:KEPT_DAYS]}


def failure(store: Store) -> str | None:
    """Return why this server made no backup of a database at its last attempt, or None if it made one."""
    return _failures.get(store.path)


def age_of_newest(store: Store, now: datetime) -> str:
    """Say in a sentence how old the server's newest backup of a database is."""
    if not store.backups:
        return "The server has kept no backup yet."
    newest = store.backups[-1]
    hours = (now - datetime.strptime(newest.name[:20], BACKUP).replace(tzinfo=UTC)) / timedelta(hours=1)
    if hours < -0.1:
        return f"The newest backup is named {newest.name}, a time in the future: the clock was wrong then, or is now."
    words = (
        f"{hours / 24:.0f} days" if hours >= 48 else f"{hours:.0f} hours" if hours >= 2 else f"{60 * hours:.0f} minutes"
    )
    same = " Nothing has changed since." if _changed(store.path) == newest.stat().st_mtime_ns else ""
    return f"The newest backup is {words} old.{same}"


# Check and restore


def check(store: Store) -> Iterator[Finding]:
    """Check a database, the rows of every data set, and the log of every session. Yield a Finding for each."""
    problems = store.problems()
    yield Finding("database", store.path.name, "; ".join(problems) or None)
    if problems and store.damage():  # reading on may give wrong data or never end
        return
    damaged = {}
    for row in store.datasets():
        damaged[row["id"]] = problem = _problem(_check_rows, store, row["id"])
        yield Finding("data set", row["name"], problem)
    for row in sorted(store.sessions(), key=itemgetter("id")):
        problem = damaged[row["dataset"]] and "it runs over rows that are damaged"
        problem = problem or _problem(_verify, store, row["id"])
        remark = None if problem else unreadable(store, row["id"])
        yield Finding("session", f"{row['id']} ({row['name']})", problem, remark)


def _check_rows(store: Store, dataset: int) -> None:
    Dataset(store, dataset).check()


def _verify(store: Store, session: int) -> str | None:
    report = look_back.Trace(store, session).report  # its data set is checked already
    return None if report.verified else str(report)


def _problem(inspect: Callable[[Store, int], str | None], store: Store, id: int) -> str | None:
    """Return the problem that `inspect` finds or raises, in a sentence, or None. Damaged data may raise anything."""
    try:
        return inspect(store, id)
    except ValueError as error:
        return str(error)
    except Exception as error:
        return f"it cannot be read ({type(error).__name__}: {error})"


@contextmanager
def opened(path: Path | str, folder: Path | None = None) -> Iterator[Store]:
    """Open the store of a backup, unpacked temporarily in a folder (None: the system's temporary folder)."""
    path = Path(path)
    if path.is_dir():
        raise BackupError(
            f"{path} is a folder, as OAL Studio 0.3.0 kept backups. Make a file of it: "
            f"backup FILE --db {path / DATABASE}."
        )
    with TemporaryDirectory(dir=folder, prefix=".restore.") as scratch:
        if (size := path.stat().st_size) > (free := shutil.disk_usage(scratch).free):
            raise BackupError(f"{path} is {size:,} bytes long. There are {free:,} left on the disk.")
        sums, database = _unpack(path, Path(scratch)), Path(scratch) / DATABASE
        if not database.exists():
            raise BackupError(f"{path} is not a backup: it contains no {DATABASE}.")
        _check_sums(path, sums, Path(scratch))
        try:
            check_foreign(database)
            with closing(Store(database)) as store:
                present = {part.name for part in store.folder.glob("*")}
                missing = [row["folder"] for row in store.datasets() if row["folder"] not in present]
        except StoreError as error:
            raise BackupError(f"{path} is refused: {str(error).replace(str(database), 'its database')}") from None
        if missing:
            raise BackupError(f"{path} is an incomplete backup: the rows in {missing[0][:80]!r} are missing.")
        with closing(Store(database)) as store:
            yield store


def _unpack(path: Path, folder: Path) -> dict[str, str]:
    """Unpack a backup, a tar file, into a folder. Return the SHA-256 of each member. Raise BackupError if it is
    damaged, or has a member that does not belong to a backup."""
    sums: dict[str, str] = {}
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                is_part = member.isreg() and not member.issparse() and MEMBER.fullmatch(member.name)
                source = archive.extractfile(member) if is_part else None
                if source is None:
                    raise BackupError(f"{path} is not a backup: it contains {member.name[:80]!r}.")
                sums[member.name] = _write(source, folder / member.name)
    except (tarfile.TarError, EOFError, FileExistsError) as error:
        raise BackupError(f"{path} is not a backup, or is damaged: {error}.") from None
    return sums


def _check_sums(path: Path, sums: dict[str, str], folder: Path) -> None:
    """Raise BackupError if a member of an unpacked backup has changed since it was written. Backups of 0.3.0, whose
    databases have schema 0, have no list of digests. sums: the SHA-256 of each member."""
    if sums.pop(SUMS, None) is None:
        with (folder / DATABASE).open("rb") as file:
            file.seek(SCHEMA_AT)
            if any(file.read(4)):
                raise BackupError(f"{path} is not a whole backup: it has no {SUMS}.")
        return
    lines = (folder / SUMS).read_text(errors="replace").splitlines()
    listed = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    if wrong := [name for name in listed | sums if listed.get(name) != sums.get(name)]:
        raise BackupError(f"{path} is damaged: {wrong[0][:80]} has changed since it was written.")


def _write(source: IO[bytes], new: Path) -> str:
    """Copy a stream into a new file, and wait until it is on the disk (fsync). Return its SHA-256."""
    new.parent.mkdir(parents=True, exist_ok=True)
    content = _Hashed(source)
    with new.open("xb") as file:
        shutil.copyfileobj(content, file)
        file.flush()
        os.fsync(file.fileno())
    return content.digest.hexdigest()


def restore(path: Path | str, target: Path | str, force: bool = False) -> tuple[list[Finding], Path | None]:
    """Replace a database and its rows with a backup, all or nothing. force: replace an existing database.

    The backup's database and rows must be sound. Its sessions may fail verification, as another version of the engine
    may have made them. Return the findings of the backup's check, and the path where a damaged old database is kept
    (None: it was not damaged).
    """
    target = Path(target)
    log = target.with_name(target.name + "-wal")
    for present in (target, log):
        if present.exists() and not force:
            raise BackupError(f"{present} exists already: --force replaces it with the backup.")
    _check_unused(target)
    with opened(path, target.resolve().parent) as store:
        findings = list(check(store))
        if broken := [finding for finding in findings if finding.problem and finding.part != "session"]:
            raise BackupError(f"{path} is damaged, and nothing was restored: {broken[0]}.")
        old, sound = _recovered(target, log)
        damaged = None if sound else target.with_name(f"{target.stem}.damaged-{datetime.now(UTC):{BACKUP}}.db")
        with ExitStack() as folders:
            _move_rows(store, target, folders)
            store.remove_token()  # tokens of the backup may have been removed since, or be a stranger's
            store.close()
            _check_unused(target)
            if damaged:  # it has the only copy of the answers since the backup
                _link(target, damaged)
                if log.exists():
                    _link(log, damaged.with_name(f"{damaged.name}-wal"))
            for left in ("-wal", "-shm"):  # SQLite would apply them to the new file
                target.with_name(target.name + left).unlink(missing_ok=True)
            store.path.replace(target)
        _sync(target.resolve().parent)
    for folder in old:
        shutil.rmtree(folder, ignore_errors=True)
    return findings, damaged


def _link(part: Path, new: Path) -> None:
    try:
        new.hardlink_to(part)
    except OSError:  # some file systems have no hard links
        shutil.copyfile(part, new)


def _check_unused(path: Path) -> None:
    """Raise BackupError if a process has the database open, as it would continue to write to the replaced file."""
    if path.exists():
        with path.open("r+b") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, LOCKS[1], LOCKS[0])
            except OSError:
                raise BackupError(f"{path} is open in another process: stop the server first.") from None


def _recovered(target: Path, log: Path) -> tuple[list[Path], bool]:
    """Return the row folders of the database that will be replaced (none if it cannot be read), and whether it is sound
    or missing. Its write-ahead log is merged into it first, so that its file alone is complete until it is replaced."""
    if not target.exists():
        return [], True
    with suppress(StoreError), closing(Store(target, read_only=not log.exists())) as store:
        return [store.rows_folder(row["folder"]) for row in store.datasets()], not store.problems()
    return [], False


def _move_rows(store: Store, target: Path, folders: ExitStack) -> None:
    """Move the row files of a restored store into folders with new names, next to `target`, the database that the store
    will replace. While `folders` is open they count as unfinished, so that they are removed if the restore fails."""
    place = target.with_name(target.stem + ".rows")
    for row in store.datasets():
        new = place / token_hex(8)
        folders.enter_context(import_in_progress(new, target.name))
        for part in store.rows_folder(row["folder"]).iterdir():
            part.rename(new / part.name)
        with store.transaction():
            store.update_dataset(row["id"], {"folder": new.name})
        _sync(new)
    if place.exists():
        _sync(place)


def _sync(folder: Path) -> None:
    """Wait until the names of the files in a folder are on the disk (fsync)."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
