"""Backups: a database with the rows of its data sets in one file, made while others work; and whether all is sound.

The database is copied first. Rows only grow behind those that it counts, so that its copy says how much of each file to
take, whatever is appended meanwhile.
"""

import fcntl
import os
import re
import shutil
import tarfile
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory

from ..datasets import Dataset, importing
from ..output import tables
from ..store import Store, StoreError
from . import look_back

DATABASE, ROWS = "studio.db", "studio.rows"
MEMBER = re.compile(r"studio\.db|studio\.rows/\w+/(rows\.json|(y|indptr|indices|values)\.npy)", re.ASCII)
LOCKS = 0x40000000, 512  # the bytes of a database that SQLite locks: https://www.sqlite.org/fileformat2.html


class BackupError(ValueError):
    """What cannot be backed up or restored, in one sentence."""


@dataclass(frozen=True)
class Finding:
    """Whether a part of a database is sound: which part, its name, and what is wrong with it (None: nothing)."""

    part: str
    name: str
    problem: str | None

    def __str__(self):
        return f"{self.part} {self.name}: {self.problem or 'sound'}"


def backup(store, path, force=False):
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
            for about in _datasets(copy):
                for part, size in _dataset(store, about).files.items():
                    _add(archive, f"{ROWS}/{about['folder']}/{part.name}", part, size)
    _sync(folder)


def _datasets(path):
    store = Store(path, read_only=True)
    try:
        return store.datasets()
    finally:
        store.close()


def _dataset(store, about):
    if not store.has_dataset(about["name"]):
        raise BackupError(f"the data set {about['name']} was removed while the backup was made: make it again.")
    return Dataset(store, about["id"], about["items"])


def _add(archive, name, path, size):
    """Add the first bytes of a file to an archive."""
    with path.open("rb") as file:
        told = archive.gettarinfo(arcname=name, fileobj=file)
        told.size = size
        archive.addfile(told, file)


def check(store):
    """Whether a database is sound: itself, the rows of every data set, and that every session verifies; a Finding for
    each."""
    yield Finding("database", store.path.name, "; ".join(store.problems()) or None)
    damaged = {}
    for about in store.datasets():
        damaged[about["id"]] = problem = _problem(lambda about=about: Dataset(store, about["id"]).check())
        yield Finding("data set", about["name"], problem)
    for about in sorted(store.sessions(), key=lambda about: about["id"]):
        problem = damaged[about["dataset"]] and "it runs over rows that are damaged"
        yield Finding("session", f"{about['id']} ({about['name']})", problem or _departure(store, about["id"]))


def _departure(store, session):
    """Why a session does not verify, or None."""
    reports = []
    problem = _problem(lambda: reports.append(look_back.verify(store, session)))
    return problem or (None if reports[0].verified else str(reports[0]))


def _problem(look):
    """What goes wrong when something is looked at, in a sentence, or None: what is damaged may fail in any way."""
    try:
        look()
    except ValueError as error:
        return str(error)
    except Exception as error:
        return f"it cannot be read ({type(error).__name__}: {error})"
    return None


@contextmanager
def opened(path, folder=None):
    """The store of a backup, unpacked for the time being in a folder (None: the one of the system)."""
    with TemporaryDirectory(dir=folder, prefix=".restore.") as scratch:
        _unpack(path, Path(scratch))
        store = Store(Path(scratch) / DATABASE)
        try:
            known = {part.name for part in store.folder.glob("*")}
            strange = [about["folder"] for about in store.datasets() if about["folder"] not in known]
            if strange:
                raise BackupError(f"{path} is no whole backup: the rows in {strange[0][:80]!r} are missing.")
            yield store
        finally:
            store.close()


def _unpack(path, folder):
    """Unpack a backup; nothing else in it is believed, and no file leaves the folder."""
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                if not member.isreg() or member.issparse() or not MEMBER.fullmatch(member.name):
                    raise BackupError(f"{path} is no backup: it holds {member.name[:80]!r}.")
                new = folder / member.name
                new.parent.mkdir(parents=True, exist_ok=True)
                with new.open("xb") as file:
                    shutil.copyfileobj(archive.extractfile(member), file)
                    file.flush()
                    os.fsync(file.fileno())
    except (tarfile.TarError, EOFError, FileExistsError) as error:
        raise BackupError(f"{path} is no backup, or a damaged one: {error}.") from None
    if not (folder / DATABASE).exists():
        raise BackupError(f"{path} is no backup: it holds no {DATABASE}.")


def restore(path, target, force=False):
    """Put what a backup holds in the place of a database and its rows, all or nothing; the findings of its check.

    Sessions need not verify, for they may be of another engine; the database and its rows must be sound.
    """
    target = Path(target)
    log = target.with_name(target.name + "-wal")
    for there in (target, log):
        if there.exists() and not force:
            raise BackupError(f"{there} exists already: --force replaces it with the backup.")
    _unused(target)
    with opened(path, target.resolve().parent) as store:
        findings = list(check(store))
        broken = [finding for finding in findings if finding.problem and finding.part != "session"]
        if broken:
            raise BackupError(f"{path} is damaged, and nothing was restored: {broken[0]}.")
        old = _recovered(target, log)
        with ExitStack() as folders:
            _move_rows(store, target, folders)
            store.close()
            _unused(target)
            for left in ("-wal", "-shm"):  # SQLite would take them for those of the new file
                target.with_name(target.name + left).unlink(missing_ok=True)
            store.path.replace(target)
        _sync(target.resolve().parent)
    for folder in old:
        shutil.rmtree(folder, ignore_errors=True)
    return findings


def _unused(path):
    """Refuse a database that a process has open: it would go on writing into what is no longer there."""
    if path.exists():
        with path.open("r+b") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, LOCKS[1], LOCKS[0])
            except OSError:
                raise BackupError(f"{path} is open in another process: stop the server first.") from None


def _recovered(target, log):
    """The folders of rows of the database that is to be replaced, if it can be read; what its write-ahead log holds is
    taken into it, so that it stays whole until the backup takes its place."""
    with suppress(StoreError):
        if target.exists():
            store = Store(target, read_only=not log.exists())
            try:
                return [store.folder / about["folder"] for about in store.datasets()]
            finally:
                store.close()
    return []


def _move_rows(store, target, folders):
    """Move the rows of a store beside those of the database that it is to become, under new names, so that those that
    are there stay as they are; `folders` keeps the marks of what is not used yet."""
    place = target.with_name(target.stem + ".rows")
    for about in store.datasets():
        new = place / token_hex(8)
        folders.enter_context(importing(new, target.name))
        for part in (store.folder / about["folder"]).iterdir():
            part.rename(new / part.name)
        with store.transaction():
            store.update_dataset(about["id"], {"folder": new.name})
        _sync(new)
    if place.exists():
        _sync(place)


def _sync(folder):
    """Wait until the names in a folder are on the disk."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
