"""Back up, check and restore a database with the rows of its data sets, while others work.

The database is copied first. Row files are append-only, so the copy says how many bytes of each file to take, whatever
is appended meanwhile. A server keeps its backups in a folder next to its database. Each backup is a folder with a
checked copy of the database and of the rows. Backups of the same day share the row files by hard links.
"""

import errno
import fcntl
import logging
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
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
from .remarks import unreadable

DATABASE, ROWS = "studio.db", "studio.rows"
MEMBER = re.compile(
    r"studio\.db|studio\.rows/[0-9a-f]{16}/(rows\.json|(y|numbers|indptr|indices|values|block|projection|"
    r"embeddings|tokenizer|tokens)\.npy)",
    re.ASCII,
)
RETENTION = {
    len("2026-11-22T14"): 24,
    len("2026-11-22"): 14,
}  # {number of characters of a name that give its hour or day: number of backups to keep}
EVERY_SECONDS = 3600  # between two backups of a server
FICLONE = 0x40049409  # ioctl for a reflink, a copy-on-write clone of a file (Btrfs, XFS): linux/fs.h
LOCKS = 0x40000000, 512  # first byte that SQLite locks, and number of bytes: https://www.sqlite.org/fileformat2.html


_log = logging.getLogger(__name__)


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
    file."""
    path = Path(path)
    if path.exists() and not force:
        raise BackupError(f"{path} exists already: --force replaces it.")
    folder = path.resolve().parent
    with tables.whole(path) as file, TemporaryDirectory(dir=folder, prefix=".backup.") as scratch:
        copy = Path(scratch) / DATABASE
        store.copy_to(copy)
        with tarfile.open(fileobj=file, mode="w") as archive:
            _add(archive, DATABASE, copy, copy.stat().st_size)
            for name, part, size in _rows(store, copy):
                _add(archive, name, part, size)
    _sync(folder)


def _rows(store: Store, copy: Path) -> Iterator[tuple[str, Path, int]]:
    """Yield the row files that belong to a copy of a database: name in the backup, path, and number of bytes."""
    with closing(Store(copy, read_only=True)) as copied:
        rows = copied.datasets()
    for row in rows:
        for part, size in _dataset(store, row).files.items():
            yield f"{ROWS}/{row['folder']}/{part.name}", part, size


def _dataset(store: Store, row: Row) -> Dataset:
    if not store.has_dataset(row["name"]):
        raise BackupError(f"the data set {row['name']} was removed while the backup was made: make it again.")
    return Dataset(store, row["id"], row["items"])


def _add(archive: tarfile.TarFile, name: str, path: Path, size: int) -> None:
    """Add the first `size` bytes of a file to a tar archive."""
    with path.open("rb") as file:
        member = archive.gettarinfo(arcname=name, fileobj=file)
        member.size = size
        archive.addfile(member, file)


# Backups that a server keeps


def keep_backups(path: Path, stopped: Event) -> None:
    """Back up a database until `stopped` is set: at once, and then every hour if anything has changed.

    Failures are logged, and tried again an hour later. The first time that nothing has changed is logged, too.
    """
    new: Path | None = path
    while True:
        try:
            if path.exists():
                before, new = new, keep(path, datetime.now(UTC))
                if before and not new:
                    _log.warning("No backup of %s is made while nothing in it changes.", path)
        except (OSError, ValueError) as error:
            _log.warning("No backup of %s was kept. %s", path, error)
        if stopped.wait(EVERY_SECONDS):
            return


def keep(path: Path, now: datetime) -> Path | None:
    """Add a backup of a database to its backups folder, all or nothing, and remove backups that are too old. Return the
    new backup, or None if the database has not changed since the last one. Raise BackupError if the database is damaged
    or another process is making a backup."""
    changed = _changed(path)
    with closing(Store(path, read_only=True)) as store:
        earlier = store.backups
        if earlier and changed == _changed(earlier[-1] / DATABASE):
            return None
        folder = store.backups_folder
        folder.mkdir(0o700, exist_ok=True)
        with _alone(folder):
            number = number_of(earlier[-1].name) + 1 if earlier else 1
            new = folder / f"{now:{BACKUP}}-{number}"
            with TemporaryDirectory(dir=folder, prefix=".part.") as scratch:
                copy, part = Path(scratch) / DATABASE, Path(scratch) / new.name
                store.copy_to(copy)
                with closing(Store(copy, read_only=True)) as copied:
                    if problems := copied.problems():  # a damaged backup must not displace a sound one
                        raise BackupError(f"The database is damaged: {problems[0]}.")
                    for row in copied.datasets():
                        _keep_rows(store, copied, row, new.name)
                part.mkdir()
                os.utime(copy, ns=(changed, changed))
                copy.rename(part / DATABASE)
                if (rows := copy.with_name(ROWS)).exists():
                    rows.rename(part / ROWS)
                _sync(part)
                part.rename(new)
            _sync(folder)
            names = [each.name for each in store.backups]
            for name in {*names} - retained(names):
                shutil.rmtree(new.with_name(name))
    return new


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
        for part in folder.glob(".part.*"):
            shutil.rmtree(part, ignore_errors=True)
        yield
    except BlockingIOError:
        raise BackupError("Another process keeps one now.") from None
    finally:
        os.close(lock)


def _keep_rows(store: Store, copied: Store, row: Row, new: str) -> None:
    """Add the rows of a data set to a new backup: hard links to the last backup if it is of the same day, else a new
    copy. If the rows are damaged or the disk is full, use hard links to the newest earlier backup that has them."""
    live, into = store.rows_folder(row["folder"]), copied.rows_folder(row["folder"])
    earlier = [each / ROWS / into.name for each in reversed(store.backups)]

    def problem_with(parts: Callable[[], dict[Path, int]], put: Callable[[Path, Path, int], None]) -> str | None:
        try:
            into.mkdir(parents=True)
            for part, size in parts().items():
                put(part, into / part.name, size)
            Dataset(copied, row["id"]).check()
            _sync(into)
        except (OSError, ValueError) as error:
            shutil.rmtree(into, ignore_errors=True)
            return str(error).replace(str(copied.folder), str(store.folder))
        return None

    def linked(folder: Path) -> str | None:
        return problem_with(lambda: dict.fromkeys(folder.iterdir(), 0), lambda part, name, _: name.hardlink_to(part))

    today = [each for each in earlier[:1] if each.parents[1].name[:10] == new[:10] and not _shared(each, live)]
    if any(linked(folder) is None for folder in today):
        return
    problem = problem_with(lambda: _dataset(store, row).files, _duplicate)
    if problem is None:
        return
    source = next((folder for folder in earlier if linked(folder) is None), None)
    if source is None:
        raise BackupError(problem)
    _log.warning("A backup of %s has its rows from %s. %s", store.path, source.parents[1].name, problem)


def _shared(folder: Path, live: Path) -> bool:
    """Tell whether files in a backup folder are hard links to the live row files of a database, as in backups of older
    versions."""
    return any(os.path.samefile(part, live / part.name) for part in folder.glob("*") if (live / part.name).exists())


def _duplicate(part: Path, new: Path, size: int) -> None:
    """Copy the first `size` bytes of a file, by reflink where possible, and fsync the copy. A full copy must leave at
    least `size` bytes free on the disk for new answers, else raise OSError."""
    with part.open("rb") as source, new.open("xb") as file:
        try:
            fcntl.ioctl(file, FICLONE, source.fileno())
        except OSError:  # few file systems support it
            if shutil.disk_usage(new.parent).free < 2 * size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(new)) from None
            shutil.copyfileobj(source, file)
        file.truncate(size)
        os.fsync(file.fileno())


def retained(names: Sequence[str]) -> set[str]:
    """Return the names of the backups to keep: the newest of each hour and of each day, for the last 24 hours and 14
    days that have backups. names: names of all backups, oldest first."""
    chosen: set[str] = set()
    for length, most in RETENTION.items():
        newest: dict[str, str] = {}
        for name in reversed(names):
            newest.setdefault(name[:length], name)
        chosen |= {*[*newest.values()][:most]}
    return chosen


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
    same = " Nothing has changed since." if _changed(store.path) == _changed(newest / DATABASE) else ""
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
    """Return the problem that an inspection reports or raises, in a sentence, or None. Damaged data may raise any
    exception."""
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
    with TemporaryDirectory(dir=folder, prefix=".restore.") as scratch:
        if (size := _size(path)) > (free := shutil.disk_usage(scratch).free):
            raise BackupError(f"{path} is {size:,} bytes long. There are {free:,} left on the disk.")
        (_copy if path.is_dir() else _unpack)(path, Path(scratch))
        database = Path(scratch) / DATABASE
        if not database.exists():
            raise BackupError(f"{path} is not a backup: it contains no {DATABASE}.")
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


def _size(path: Path) -> int:
    """Return the size of a backup in bytes: the sum of the lengths of its files. Sparse files take less space on the
    disk."""
    return sum(part.stat().st_size for part in [path, *path.rglob("*")] if part.is_file())


def _copy(path: Path, folder: Path) -> None:
    """Copy the database and the row files of a server's backup into a folder. Skip other files and symbolic links."""
    for part in path.rglob("*"):
        name = part.relative_to(path)
        if MEMBER.fullmatch(str(name)) and part.is_file() and not part.is_symlink():
            with part.open("rb") as source:
                _write(source, folder / name)


def _unpack(path: Path, folder: Path) -> None:
    """Unpack a backup, a tar file, into a folder. Raise BackupError if it is damaged, or has a member that does not
    belong to a backup."""
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                is_part = member.isreg() and not member.issparse() and MEMBER.fullmatch(member.name)
                source = archive.extractfile(member) if is_part else None
                if source is None:
                    raise BackupError(f"{path} is not a backup: it contains {member.name[:80]!r}.")
                _write(source, folder / member.name)
    except (tarfile.TarError, EOFError, FileExistsError) as error:
        raise BackupError(f"{path} is not a backup, or is damaged: {error}.") from None


def _write(source: IO[bytes], new: Path) -> None:
    """Copy a stream into a new file, and wait until it is on the disk (fsync)."""
    new.parent.mkdir(parents=True, exist_ok=True)
    with new.open("xb") as file:
        shutil.copyfileobj(source, file)
        file.flush()
        os.fsync(file.fileno())


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
        broken = [finding for finding in findings if finding.problem and finding.part != "session"]
        if broken:
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
