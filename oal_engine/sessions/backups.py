"""Backups: a database with the rows of its data sets in one file, made while others work; and whether all is sound.

The database is copied first. Files of rows only grow, so that the copy says how much of each file to take, whatever is
appended meanwhile. The backups that a server keeps beside its database are folders with copies of the rows: one a day,
checked, which the other backups of the day share.
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

DATABASE, ROWS = "studio.db", "studio.rows"
MEMBER = re.compile(
    r"studio\.db|studio\.rows/[0-9a-f]{16}/(rows\.json|(y|numbers|indptr|indices|values|block|projection|"
    r"embeddings|tokenizer|tokens)\.npy)",
    re.ASCII,
)
KEPT = {len("2026-11-22T14"): 24, len("2026-11-22"): 14}  # by how much of a name is an hour or a day: how many of them
EVERY = 3600  # seconds between two looks whether there is something new
FICLONE = 0x40049409  # has two files share their blocks until either changes (Btrfs, XFS): linux/fs.h
LOCKS = 0x40000000, 512  # first byte and number of those that SQLite locks: https://www.sqlite.org/fileformat2.html


_log = logging.getLogger(__name__)


class BackupError(ValueError):
    """Why something cannot be backed up or restored, in one sentence."""


@dataclass(frozen=True)
class Finding:
    """Whether a part of a database is sound: which part, its name, and what is wrong with it (None: nothing)."""

    part: str
    name: str
    problem: str | None

    def __str__(self) -> str:
        return f"{self.part} {self.name}: {self.problem or 'sound'}"


def backup(store: Store, path: Path | str, force: bool = False) -> None:
    """Write a database and the rows of its data sets into one file, all or nothing."""
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
    """The files of rows that belong to a copy of a database: the name in a backup, the file, and how much of it."""
    for row in _datasets(copy):
        for part, size in _dataset(store, row).files.items():
            yield f"{ROWS}/{row['folder']}/{part.name}", part, size


def _datasets(path: Path) -> list[Row]:
    with closing(Store(path, read_only=True)) as store:
        return store.datasets()


def _dataset(store: Store, row: Row) -> Dataset:
    if not store.has_dataset(row["name"]):
        raise BackupError(f"the data set {row['name']} was removed while the backup was made: make it again.")
    return Dataset(store, row["id"], row["items"])


def _add(archive: tarfile.TarFile, name: str, path: Path, size: int) -> None:
    """Add the first bytes of a file to an archive."""
    with path.open("rb") as file:
        member = archive.gettarinfo(arcname=name, fileobj=file)
        member.size = size
        archive.addfile(member, file)


# Backups that a server keeps


def keep_backups(path: Path, stopped: Event) -> None:
    """Keep backups beside a database until `stopped` is set: one now and one an hour, where anything is new. What goes
    wrong is said in the log, and tried again after an hour; so is that nothing is new, the first time."""
    new: Path | None = path
    while True:
        try:
            if path.exists():
                before, new = new, keep(path, datetime.now(UTC))
                if before and not new:
                    _log.warning("No backup of %s is made while nothing in it changes.", path)
        except (OSError, ValueError) as error:
            _log.warning("No backup of %s was kept. %s", path, error)
        if stopped.wait(EVERY):
            return


def keep(path: Path, now: datetime) -> Path | None:
    """Put a backup of a database beside it, all or nothing, if it was changed since the newest one and is sound, and
    remove those that are too old: the new backup, or None."""
    changed = _changed(path)
    with closing(Store(path, read_only=True)) as store:
        kept = store.backups
        if kept and changed == _changed(kept[-1] / DATABASE):
            return None
        folder = store.backups_folder
        folder.mkdir(0o700, exist_ok=True)
        with _alone(folder):
            number = number_of(kept[-1].name) + 1 if kept else 1
            new = folder / f"{now:{BACKUP}}-{number}"
            with TemporaryDirectory(dir=folder, prefix=".part.") as scratch:
                copy, made = Path(scratch) / DATABASE, Path(scratch) / new.name
                store.copy_to(copy)
                with closing(Store(copy, read_only=True)) as copied:
                    if problems := copied.problems():  # it would take the place of a sound one
                        raise BackupError(f"The database is damaged: {problems[0]}.")
                    for row in copied.datasets():
                        _keep_rows(store, copied, row, new.name)
                made.mkdir()
                os.utime(copy, ns=(changed, changed))
                copy.rename(made / DATABASE)
                if (rows := copy.with_name(ROWS)).exists():
                    rows.rename(made / ROWS)
                _sync(made)
                made.rename(new)
            _sync(folder)
            names = [each.name for each in store.backups]
            for name in {*names} - kept_of(names):
                shutil.rmtree(new.with_name(name))
    return new


def _changed(path: Path) -> int:
    """When a database was last changed, in nanoseconds of a clock that may be wrong: it only tells one state from
    another; 0 where it is gone."""
    files = [path, path.with_name(f"{path.name}-wal")]
    return max((file.stat().st_mtime_ns for file in files if file.exists() and file.stat().st_size), default=0)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let no other process keep a backup meanwhile, and remove what one left that was killed."""
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
    """Put the rows of a data set beside a copy of its database: those of the last backup if it is of the same day, a
    copy of their own, or, where they are damaged or there is no room, those of any earlier backup that has them."""
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
    found = next((folder for folder in earlier if linked(folder) is None), None)
    if found is None:
        raise BackupError(problem)
    _log.warning("A backup of %s has its rows from %s. %s", store.path, found.parents[1].name, problem)


def _shared(folder: Path, live: Path) -> bool:
    """Whether files in a folder are links to those of a database: so older versions kept them."""
    return any(os.path.samefile(part, live / part.name) for part in folder.glob("*") if (live / part.name).exists())


def _duplicate(part: Path, new: Path, size: int) -> None:
    """Copy the first bytes of a file, and wait until they are on the disk; as many again must be left for answers."""
    with part.open("rb") as source, new.open("xb") as file:
        try:
            fcntl.ioctl(file, FICLONE, source.fileno())
        except OSError:  # few file systems can
            if shutil.disk_usage(new.parent).free < 2 * size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(new)) from None
            shutil.copyfileobj(source, file)
        file.truncate(size)
        os.fsync(file.fileno())


def kept_of(names: Sequence[str]) -> set[str]:
    """Those of the backups with these names, in the order in which they were made, that are kept: the newest of each
    hour and of each day, of the last 24 hours and 14 days that have any."""
    chosen: set[str] = set()
    for length, most in KEPT.items():
        newest: dict[str, str] = {}
        for name in reversed(names):
            newest.setdefault(name[:length], name)
        chosen |= {*[*newest.values()][:most]}
    return chosen


def age_of_newest(store: Store, now: datetime) -> str:
    """How old the newest backup is that a server kept of a database, in a sentence."""
    if not store.backups:
        return "The server has kept no backup yet."
    newest = store.backups[-1]
    hours = (now - datetime.strptime(newest.name[:20], BACKUP).replace(tzinfo=UTC)) / timedelta(hours=1)
    if hours < -0.1:
        return f"The newest backup is named {newest.name}, a time to come: the clock was wrong then, or is now."
    words = (
        f"{hours / 24:.0f} days" if hours >= 48 else f"{hours:.0f} hours" if hours >= 2 else f"{60 * hours:.0f} minutes"
    )
    same = " Nothing has changed since." if _changed(store.path) == _changed(newest / DATABASE) else ""
    return f"The newest backup is {words} old.{same}"


# Check and restore


def check(store: Store) -> Iterator[Finding]:
    """Whether a database is sound: itself, the rows of every data set, and that every session verifies; a Finding for
    each."""
    problems = store.problems()
    yield Finding("database", store.path.name, "; ".join(problems) or None)
    if problems and store.damage():  # whatever is read of it may be wrong, or have no end
        return
    damaged = {}
    for row in store.datasets():
        damaged[row["id"]] = problem = _problem(_check_rows, store, row["id"])
        yield Finding("data set", row["name"], problem)
    for row in sorted(store.sessions(), key=itemgetter("id")):
        problem = damaged[row["dataset"]] and "it runs over rows that are damaged"
        yield Finding("session", f"{row['id']} ({row['name']})", problem or _problem(_verify, store, row["id"]))


def _check_rows(store: Store, dataset: int) -> None:
    Dataset(store, dataset).check()


def _verify(store: Store, session: int) -> str | None:
    report = look_back.verify(store, session)
    return None if report.verified else str(report)


def _problem(inspect: Callable[[Store, int], str | None], store: Store, id: int) -> str | None:
    """What an inspection finds wrong, in a sentence, or None: what is damaged may fail in any way."""
    try:
        return inspect(store, id)
    except ValueError as error:
        return str(error)
    except Exception as error:
        return f"it cannot be read ({type(error).__name__}: {error})"


@contextmanager
def opened(path: Path | str, folder: Path | None = None) -> Iterator[Store]:
    """The store of a backup, unpacked for the time being in a folder (None: the one of the system)."""
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
    """How many bytes a backup has, as far as it says: a file may have holes."""
    return sum(part.stat().st_size for part in [path, *path.rglob("*")] if part.is_file())


def _copy(path: Path, folder: Path) -> None:
    """Copy the parts of a backup that a server kept into a folder."""
    for part in path.rglob("*"):
        name = part.relative_to(path)
        if MEMBER.fullmatch(str(name)) and part.is_file() and not part.is_symlink():
            with part.open("rb") as source:
                _write(source, folder / name)


def _unpack(path: Path, folder: Path) -> None:
    """Unpack a backup into a folder, and refuse everything that is not part of one."""
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
    """Write a new file, and wait until it is on the disk."""
    new.parent.mkdir(parents=True, exist_ok=True)
    with new.open("xb") as file:
        shutil.copyfileobj(source, file)
        file.flush()
        os.fsync(file.fileno())


def restore(path: Path | str, target: Path | str, force: bool = False) -> tuple[list[Finding], Path | None]:
    """Replace a database and its rows by those of a backup, all or nothing; the findings of the backup's check, and
    where the database that was there is kept, for it was damaged (None: it was not).

    The database and its rows must be sound; sessions need not verify, as another version of the engine may have made
    them.
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
        kept = None if sound else target.with_name(f"{target.stem}.damaged-{datetime.now(UTC):{BACKUP}}.db")
        with ExitStack() as folders:
            _move_rows(store, target, folders)
            store.close()
            _check_unused(target)
            if kept:  # the answers since the backup are nowhere else
                _link(target, kept)
                if log.exists():
                    _link(log, kept.with_name(f"{kept.name}-wal"))
            for left in ("-wal", "-shm"):  # SQLite would take them for those of the new file
                target.with_name(target.name + left).unlink(missing_ok=True)
            store.path.replace(target)
        _sync(target.resolve().parent)
    for folder in old:
        shutil.rmtree(folder, ignore_errors=True)
    return findings, kept


def _link(part: Path, new: Path) -> None:
    try:
        new.hardlink_to(part)
    except OSError:  # some file systems have no hard links
        shutil.copyfile(part, new)


def _check_unused(path: Path) -> None:
    """Refuse a database that a process has open, which would go on writing to a file that was replaced."""
    if path.exists():
        with path.open("r+b") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, LOCKS[1], LOCKS[0])
            except OSError:
                raise BackupError(f"{path} is open in another process: stop the server first.") from None


def _recovered(target: Path, log: Path) -> tuple[list[Path], bool]:
    """The folders of rows of the database that will be replaced, if it can be read, and whether it is sound, or not
    there; what its write-ahead log holds is written into it, so that it is whole until the backup takes its place."""
    if not target.exists():
        return [], True
    with suppress(StoreError), closing(Store(target, read_only=not log.exists())) as store:
        return [store.rows_folder(row["folder"]) for row in store.datasets()], not store.problems()
    return [], False


def _move_rows(store: Store, target: Path, folders: ExitStack) -> None:
    """Move the rows of a store next to those of the database that it will replace, under new names; `folders` keeps the
    marks of folders that are not in use yet."""
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
    """Wait until the names in a folder are on the disk."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
