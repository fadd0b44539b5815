"""Backups: a database with the rows of its data sets in one file, made while others work; and whether all is sound.

The database is copied first. Files of rows only grow, so that the copy says how much of each file to take, whatever is
appended meanwhile. The backups that a server keeps beside its database are folders, in which the files of rows are hard
links: they cost the space of the database alone.
"""

import fcntl
import logging
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from threading import Event
from typing import IO

from ..database import BACKUP
from ..datasets import Dataset, importing
from ..output import tables
from ..store import Row, Store, StoreError
from . import look_back

DATABASE, ROWS = "studio.db", "studio.rows"
MEMBER = re.compile(
    r"studio\.db|studio\.rows/\w+/(rows\.json|(y|numbers|indptr|indices|values|block|projection|"
    r"embeddings|tokenizer|tokens)\.npy)",
    re.ASCII,
)
KEPT = {len("2026-11-22T14"): 24, len("2026-11-22"): 14}  # by how much of a name is an hour or a day: how many of them
EVERY = 3600  # seconds between two looks whether there is something new
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
    wrong is said in the log, and tried again after an hour."""
    while True:
        try:
            if path.exists():
                keep(path, datetime.now(UTC))
        except (OSError, ValueError) as error:
            _log.warning("No backup of %s was kept. %s", path, error)
        if stopped.wait(EVERY):
            return


def keep(path: Path, now: datetime) -> Path | None:
    """Put a backup of a database beside it, all or nothing, if it was changed since the newest one and is sound, and
    remove those that are too old: the new backup, or None."""
    logs = [log for log in [path.with_name(f"{path.name}-wal")] if log.exists() and log.stat().st_size]
    changed = max(file.stat().st_mtime for file in [path, *logs])
    with closing(Store(path, read_only=True)) as store:
        kept = store.backups
        if kept and changed < datetime.strptime(kept[-1].name, BACKUP).replace(tzinfo=UTC).timestamp():
            return None
        new = store.backups_folder / now.strftime(BACKUP)
        new.parent.mkdir(0o700, exist_ok=True)
        _remove_unfinished(new.parent, now)
        with TemporaryDirectory(dir=new.parent, prefix=".part.") as scratch:
            copy, made = Path(scratch) / DATABASE, Path(scratch) / new.name
            store.copy_to(copy)
            with closing(Store(copy, read_only=True)) as copied:
                if problems := copied.problems():  # it would take the place of a sound one
                    raise BackupError(f"The database is damaged: {problems[0]}.")
            made.mkdir()
            for name, part, _ in _rows(store, copy):
                (made / name).parent.mkdir(parents=True, exist_ok=True)
                _link(part, made / name)
            copy.rename(made / DATABASE)
            _sync(made)
            made.rename(new)
        _sync(new.parent)
        names = {each.name for each in store.backups}
    for name in names - kept_of(names):
        shutil.rmtree(new.with_name(name))
    return new


def kept_of(names: Iterable[str]) -> set[str]:
    """Those of the backups with these names that are kept: the newest of each hour and of each day, of the last 24
    hours and 14 days that have any."""
    chosen: set[str] = set()
    for length, most in KEPT.items():
        newest = {name[:length]: name for name in sorted(names)}
        chosen |= {*sorted(newest.values())[-most:]}
    return chosen


def _link(part: Path, new: Path) -> None:
    try:
        new.hardlink_to(part)
    except OSError:  # some file systems have no hard links
        shutil.copyfile(part, new)


def _remove_unfinished(folder: Path, now: datetime) -> None:
    """Remove what a backup left that was killed, more than a day ago."""
    for part in folder.glob(".part.*"):
        if part.stat().st_mtime < (now - timedelta(days=1)).timestamp():
            shutil.rmtree(part, ignore_errors=True)


# Check and restore


def check(store: Store) -> Iterator[Finding]:
    """Whether a database is sound: itself, the rows of every data set, and that every session verifies; a Finding for
    each."""
    yield Finding("database", store.path.name, "; ".join(store.problems()) or None)
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
    with TemporaryDirectory(dir=folder, prefix=".restore.") as scratch:
        (_copy if Path(path).is_dir() else _unpack)(Path(path), Path(scratch))
        if not (Path(scratch) / DATABASE).exists():
            raise BackupError(f"{path} is not a backup: it contains no {DATABASE}.")
        with closing(Store(Path(scratch) / DATABASE)) as store:
            present = {part.name for part in store.folder.glob("*")}
            missing = [row["folder"] for row in store.datasets() if row["folder"] not in present]
            if missing:
                raise BackupError(f"{path} is an incomplete backup: the rows in {missing[0][:80]!r} are missing.")
            yield store


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
        return [store.folder / row["folder"] for row in store.datasets()], not store.problems()
    return [], False


def _move_rows(store: Store, target: Path, folders: ExitStack) -> None:
    """Move the rows of a store next to those of the database that it will replace, under new names; `folders` keeps the
    marks of folders that are not in use yet."""
    place = target.with_name(target.stem + ".rows")
    for row in store.datasets():
        new = place / token_hex(8)
        folders.enter_context(importing(new, target.name))
        for part in (store.folder / row["folder"]).iterdir():
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
