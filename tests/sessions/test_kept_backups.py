"""A server keeps a backup of each of the last days, which is sound whatever the clock and the disk do."""

import asyncio
import errno
import os
import random
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import enumerate as enumerate_threads
from types import SimpleNamespace

import pytest
from scipy import sparse

from oal_engine.datasets import Dataset, feeds
from oal_engine.sessions import backups
from oal_engine.store import Store
from tests.harness.backups import (
    PAGE_BYTES,
    change_byte,
    contents,
    damage_page,
    items,
    killable,
    labelled,
    problems,
    problems_of,
)
from ui import background


@pytest.fixture
def path(tmp_path):
    return tmp_path / "studio.db"


@pytest.fixture
def opened(path):
    """A session with five answers, in a database at `path`."""
    return labelled(path)[1]


def at(hours):
    """Return the time this number of hours after the beginning of March 1, 2026 (UTC)."""
    return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=hours)


def changed_at(path, time):
    for file in (path, path.with_name(f"{path.name}-wal")):
        if file.exists():
            os.utime(file, (time.timestamp(), time.timestamp()))


def test_the_newest_of_each_of_the_last_days_is_kept(path, opened):
    """After three backups on each of nine days, the last one of each of the last seven days is left. Other files in the
    folder are not touched."""
    folder = path.with_name("studio.backups")
    (folder / "mine").mkdir(parents=True)
    made = []
    for hour in range(0, 9 * 24, 8):
        opened.answer(f"at {hour}", opened.place.asked.id, 1)
        made.append(backups.keep(path, at(hour)))
    assert made[2::3][-7:] == Store(path).backups
    assert (folder / "mine").exists()


def test_a_kept_backup_comes_back_with_sessions_that_verify(run):
    """A restored backup has the labels and rows from the time of the backup, whatever was answered, appended or damaged
    since. The damaged database is kept."""
    store, opened = labelled("studio.db", 20)
    before = contents("studio.db")
    kept = backups.keep(store.path, datetime.now(UTC))
    feeds.append(Dataset(store, "vectors"), items(9, 60, sparse.csr_array))
    opened.answer("later", opened.place.asked.id, 1)
    store.close()
    assert 0 == run("check", kept)[0]
    Path("studio.db").write_bytes(b"a disk wrote something else here\n" * 999)
    code, _, err = run("sessions")
    command = f"python -m oal_engine restore {kept} --db studio.db --force"
    assert (1, True) == (code, f"The newest backup is {kept}: stop the server, then run `{command}`." in err)
    damaged = Path("studio.db").read_bytes()
    code, out, err = run(*command.split()[3:])
    assert (0, f"studio.db is restored from {kept}.", "") == (code, out.splitlines()[0], err)
    (aside,) = Path().glob("studio.damaged-*.db")
    assert f"The damaged database is kept as {aside}: " in out
    assert damaged == aside.read_bytes()
    assert before == contents("studio.db")
    assert 0 == run("verify", 1)[0]


def test_a_damaged_database_takes_no_place_of_a_sound_backup(path):
    labelled(path)[0].close()
    first, sound, refused = backups.keep(path, at(0)), path.read_bytes(), 0
    for page in range(1, len(sound) // PAGE_BYTES):
        damage_page(path, page, random.Random(page))
        try:
            kept = backups.keep(path, at(page))
            with backups.opened(kept) as store:
                assert [] == store.problems()
            kept.unlink()
        except ValueError:
            refused += 1
        assert [first] == sorted(path.with_name("studio.backups").glob("2*"))
        path.write_bytes(sound)
    assert 20 < refused


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_answers_do_not_wait_for_a_backup(path, opened, monkeypatch):

    answers = iter([lambda: opened.answer("meanwhile", opened.place.asked.id, 1)])

    def answered_meanwhile(*arguments, add=backups._add):
        next(answers, lambda: None)()
        return add(*arguments)

    monkeypatch.setattr(backups, "_add", answered_meanwhile)
    with backups.opened(backups.keep(path, datetime.now(UTC))) as store:
        assert [] == problems(store)
        assert (5, 6) == tuple(each.sessions()[0]["labels"] for each in (store, opened.store))


@pytest.mark.parametrize("problem", ["unwritable", "full", "nearly full", "damaged"])
def test_a_backup_that_cannot_be_made_is_said_until_one_is(tmp_path, monkeypatch, caplog, problem):
    """If the folder is unwritable, the disk is full, or rows are damaged, the log and `failure` say why there is no
    backup, none is left in part, and the next try, an hour later, succeeds."""
    path, folder = tmp_path / "studio.db", tmp_path / "studio.backups"
    store, _ = labelled(path)
    rows = next(store.folder.glob("*/values.npy"))
    before = rows.read_bytes()
    if problem == "unwritable":
        folder.write_text("a file in its place")
    elif problem == "full":
        monkeypatch.setattr(backups, "_add", full)
    elif problem == "nearly full":
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2 * path.stat().st_size))
    else:
        change_byte(rows, -1, 0x7F)
    tries = []

    def mended(seconds):
        tries.append((seconds, sorted(folder.glob("*")), backups.failure(store)))
        monkeypatch.undo()
        if problem == "damaged":
            rows.write_bytes(before)
        if folder.is_file():
            folder.unlink()
        return len(tries) == 2

    backups.keep_backups(path, SimpleNamespace(wait=mended))
    assert [3_600, 86_400] == [seconds for seconds, *_ in tries]
    assert [0, 1] == [len(files) for _, files, _ in tries]
    assert (True, None) == (bool(tries[0][2]), tries[1][2])
    assert [f"No backup of {path} was made. {tries[0][2]}"] == [each.message for each in caplog.records]


@pytest.mark.parametrize("switch", ["0", None])
def test_a_server_keeps_backups_unless_they_are_switched_off(path, monkeypatch, switch):
    """A server makes its first backup soon after its start; with OAL_BACKUPS=0 it makes none."""
    labelled(path)[0].close()
    monkeypatch.setenv("OAL_DB", str(path))
    monkeypatch.delenv("OAL_BACKUPS", raising=False)
    if switch:
        monkeypatch.setenv("OAL_BACKUPS", switch)
    before = set(enumerate_threads())

    async def serve():
        async with background.lifespan(None):
            await until(lambda: switch or Store(path, read_only=True).backups)

    async def until(is_so):
        while not is_so():
            await asyncio.sleep(0.01)

    with ThreadPoolExecutor(1) as elsewhere:  # a browser's event loop may run in this thread
        elsewhere.submit(asyncio.run, asyncio.wait_for(serve(), 60)).result()
    for thread in set(enumerate_threads()) - before:
        thread.join(60)
    assert (0 if switch else 1) == len(Store(path).backups)


@pytest.mark.parametrize("jumps", [(0, 24 * 3650, 1, 2), (5, -24 * 3650, 6), (0, 0, 0), (24 * 40, 3, 24 * 80, 4)])
def test_backups_go_on_whatever_the_clock_shows(path, jumps):
    """Even if the clock jumps by years, there is a new backup after each answer. The newest backup has all answers, and
    is the one that the error about a damaged database names."""
    store, opened = labelled(path)
    for number, hours in enumerate(jumps, 1):
        opened.answer(f"answer {number}", opened.place.asked.id, 1)
        moment = at(hours) + timedelta(seconds=number)
        changed_at(path, moment)
        kept = backups.keep(path, at(hours))
        assert kept == store.backups[-1]
        with backups.opened(kept) as copy:
            assert store.sessions()[0]["labels"] == copy.sessions()[0]["labels"]
        changed_at(path, moment)
        assert backups.keep(path, at(hours) + timedelta(days=900)) is None
    assert str(kept) in store._way_back()


def test_a_folder_of_0_3_0_is_refused_with_the_way_to_a_file(run):
    """A backup that 0.3.0 kept is a folder: `restore` and `check` name the command that makes a file of it, which can
    be restored."""
    store, _ = labelled("studio.db", 20)
    before = contents("studio.db")
    store.close()
    folder = Path("studio.backups/2026-03-01T00-00-00Z-1")
    folder.mkdir(parents=True)
    shutil.copy("studio.db", folder)
    shutil.copytree("studio.rows", folder / "studio.rows")
    for command in ("check", "restore"):
        code, _, err = run(command, folder, *["--force"] * (command == "restore"))
        assert (1, True) == (code, f"Make a file of it: backup FILE --db {folder}/studio.db." in err)
    assert 0 == run("backup", "kept.tar", "--db", folder / "studio.db")[0]
    assert 0 == run("restore", "kept.tar", "--force")[0]
    assert before == contents("studio.db")


def test_the_age_of_the_newest_backup_is_said(path):
    """A sentence says how old the newest backup is, whether nothing has changed since, and whether its date is in the
    future."""
    store, opened = labelled(path)
    assert "The server has kept no backup yet." == backups.age_of_newest(store, at(0))
    kept = backups.keep(path, at(0))
    assert "The newest backup is 90 minutes old. Nothing has changed since." == backups.age_of_newest(store, at(1.5))
    opened.answer("later", opened.place.asked.id, 1)
    assert "The newest backup is 30 hours old." == backups.age_of_newest(store, at(30))
    assert "The newest backup is 400 days old." == backups.age_of_newest(store, at(24 * 400))
    assert f"The newest backup is named {kept.name}, a time in the future" in backups.age_of_newest(store, at(-1))


@pytest.mark.slow
def test_a_backup_that_is_killed_is_whole_or_not_there(run, tmp_path):
    """If a backup is killed before any of its changes to files and folders, every backup is sound, and the next one
    removes the leftovers."""
    store, opened = labelled("studio.db")
    first = backups.keep(store.path, at(0))
    opened.answer("later", opened.place.asked.id, 1)
    code, tries = None, 0
    call = 'backups.keep(Path("studio.db"), datetime(2026, 3, 2, 5, tzinfo=UTC))'
    with killable(("os.rename", "os.remove", "os.mkdir", "os.utime", "os.rmdir"), call) as attempt:
        while code != 0:
            tries += 1
            code = attempt(tries)
            assert code in (0, -signal.SIGKILL)
            for kept in store.backups:
                assert [] == problems_of(kept)
            if len(store.backups) == 2:
                break
    assert tries > 4
    opened.answer("last", opened.place.asked.id, 1)
    assert [first, backups.keep(store.path, at(30))] == store.backups
    assert [] == [part for part in store.backups_folder.iterdir() if part.name.startswith(".")]


def test_two_processes_keep_no_backup_at_once(path):
    """While one process makes a backup, another is refused, and does not remove the unfinished files of the first."""
    labelled(path)
    folder = path.with_name("studio.backups")
    folder.mkdir()
    (folder / ".backup.first").mkdir()
    with backups._alone(folder):
        (folder / ".backup.second").mkdir()
        with pytest.raises(backups.BackupError, match="Another process makes one now"):
            backups.keep(path, at(0))
        assert [folder / ".backup.second"] == list(folder.iterdir())
    assert backups.keep(path, at(0)).exists()
