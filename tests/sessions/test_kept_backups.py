"""A server keeps hourly backups of its database, which are sound whatever the clock and the disk do."""

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
from oal_engine.store.database import BACKUP
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
from ui import warm_up


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


def test_the_newest_of_each_hour_and_day_are_kept(path):
    """After 20 days with a backup every 30 minutes, only the newest of each of the last 24 hours and of each of the
    last 14 days are left; other files in the folder are not touched."""
    Store(path).close()
    folder = path.with_name("studio.backups")
    (folder / "mine").mkdir(parents=True)
    names = [(at(k / 2)).strftime(BACKUP) for k in range(20 * 48)]
    for name in names[:-1]:
        (folder / name).mkdir()
    last = at((len(names) - 1) / 2)
    changed_at(path, last)
    names[-1] += "-1"
    assert names[-1] == backups.keep(path, last).name
    hours = names[1::2][-24:]
    days = [name for name in names if "T23-30" in name][-14:]
    assert sorted({*hours, *days}) == [each.name for each in Store(path).backups]
    assert (folder / "mine").exists()


def test_a_backup_is_kept_only_where_anything_is_new(path, opened):
    """After a backup, the next one is made only once the database has changed."""
    changed_at(path, at(0))
    first = backups.keep(path, at(1))
    changed_at(path, at(0))
    assert backups.keep(path, at(2)) is None
    opened.answer("later", opened.place.asked.id, 1)
    second = backups.keep(path, at(3))
    assert [first, second] == Store(path).backups


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
    """Whichever page of the database is damaged, no damaged backup is made, and the sound backup stays."""
    labelled(path)[0].close()
    first, sound, refused = backups.keep(path, at(0)), path.read_bytes(), 0
    for page in range(1, len(sound) // PAGE_BYTES):
        damage_page(path, page, random.Random(page))
        try:
            kept = backups.keep(path, at(page))
            with backups.opened(kept) as store:
                assert [] == store.problems()
            shutil.rmtree(kept)
        except ValueError:
            refused += 1
        assert [first] == sorted(path.with_name("studio.backups").glob("2*"))
        path.write_bytes(sound)
    assert 20 < refused


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_answers_do_not_wait_for_a_backup(path, opened, monkeypatch):
    """An answer is stored while a backup is being written, and the backup is sound."""

    def answered_meanwhile(*arguments, keep_rows=backups._keep_rows):
        opened.answer("meanwhile", opened.place.asked.id, 1)
        keep_rows(*arguments)

    monkeypatch.setattr(backups, "_keep_rows", answered_meanwhile)
    with backups.opened(backups.keep(path, datetime.now(UTC))) as store:
        assert [] == problems(store)
        assert (5, 6) == tuple(each.sessions()[0]["labels"] for each in (store, opened.store))


@pytest.mark.parametrize("problem", ["unwritable", "full"])
def test_a_backup_that_cannot_be_kept_is_a_sentence_in_the_log(tmp_path, monkeypatch, caplog, problem):
    """If the folder is unwritable or the disk is full, the log says that no backup was kept, no partial backup is left,
    and the next try succeeds."""
    path, folder, duplicate = tmp_path / "studio.db", tmp_path / "studio.backups", backups._duplicate
    labelled(path)
    if problem == "unwritable":
        folder.write_text("a file in its place")
    else:
        monkeypatch.setattr(backups, "_duplicate", full)
    tries = []

    def mended(_):
        tries.append(sorted(folder.glob("*")))
        monkeypatch.setattr(backups, "_duplicate", duplicate)
        if folder.is_file():
            folder.unlink()
        return len(tries) == 2

    backups.keep_backups(path, SimpleNamespace(wait=mended))
    assert [0, 1] == [*map(len, tries)]
    assert [f"No backup of {path} was kept."] == [" ".join(each.message.split()[:6]) for each in caplog.records]


@pytest.mark.parametrize("switch", ["0", None])
def test_a_server_keeps_backups_unless_they_are_switched_off(path, monkeypatch, switch):
    """A server makes its first backup soon after its start; with OAL_BACKUPS=0 it makes none."""
    labelled(path)[0].close()
    monkeypatch.setenv("OAL_DB", str(path))
    monkeypatch.setattr(warm_up, "practise", lambda: None)
    monkeypatch.delenv("OAL_BACKUPS", raising=False)
    if switch:
        monkeypatch.setenv("OAL_BACKUPS", switch)
    before = set(enumerate_threads())

    async def serve():
        async with warm_up.lifespan(None):
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


def test_a_backup_of_an_older_version_that_lies_in_the_future_is_not_the_newest(path):
    """A backup of an older version with a date in the future and no number does not count as the newest, and is not
    kept forever."""
    store, _ = labelled(path)
    ahead = path.with_name("studio.backups") / at(24 * 3650).strftime(BACKUP)
    ahead.mkdir(parents=True)
    kept = backups.keep(path, at(0))
    assert [ahead, kept] == store.backups
    names = [ahead.name, *(f"{at(hour):{BACKUP}}-{hour + 1}" for hour in range(24 * 20))]
    assert ahead.name not in backups.retained(names)


def test_rows_that_are_overwritten_leave_every_backup_as_it_was(run):
    """If 64 bytes of each file of rows are overwritten in place, all earlier backups and the next one are sound, and an
    earlier one can be restored."""
    store, opened = labelled("studio.db", 20)
    before = contents("studio.db")
    first = backups.keep(store.path, at(0))
    opened.answer("later", opened.place.asked.id, 1)
    second = backups.keep(store.path, at(1))
    for part in store.folder.glob("*/*.npy"):
        with part.open("r+b") as file:
            file.seek(-64, os.SEEK_END)
            file.write(b"\xff" * 64)
    opened.answer("last", opened.place.asked.id, 1)
    third = backups.keep(store.path, at(30))
    for kept in (first, second, third):
        assert 0 == run("check", kept)[0]
    store.close()
    assert 0 == run("restore", first, "--force")[0]
    assert before == contents("studio.db")


def test_each_day_has_rows_of_its_own(path, opened, caplog):
    """Backups of one day share a copy of the rows (hard links), and each day has its own copy; a damaged copy is not
    linked to again."""

    def kept(hours):
        opened.answer(f"at {hours}", opened.place.asked.id, 1)
        return backups.keep(path, at(hours))

    def links(*folders):
        return [{part.stat().st_ino for part in folder.glob("studio.rows/*/*")} for folder in folders]

    live = {part.stat().st_ino for part in path.with_name("studio.rows").glob("*/*")}
    first, second, third = links(kept(0), kept(1), kept(24))
    assert first == second
    assert not first & third
    assert not live & (first | third)
    change_byte(next(path.with_name("studio.backups").glob("2026-03-02*/studio.rows/*/values.npy")), -1, 0x7F)
    (fourth,) = links(kept(25))
    assert not fourth & (first | third | live)
    assert [] == caplog.records


@pytest.mark.parametrize("room", [0, None])
def test_a_backup_without_room_for_rows_has_those_of_another_one(path, opened, monkeypatch, caplog, room):
    """If there is no room for a copy of the rows, a backup shares the rows of an earlier one, says so in the log, and
    is sound; if there is room, nothing is logged."""
    first = backups.keep(path, at(0))
    opened.answer("later", opened.place.asked.id, 1)
    if room is not None:
        monkeypatch.setattr(backups.shutil, "disk_usage", lambda _: SimpleNamespace(free=room))
    kept = backups.keep(path, at(24))
    monkeypatch.undo()
    assert [] == problems_of(kept)
    said = [record.message for record in caplog.records]
    assert [] == said if room is None else f"has its rows from {first.name}. " in said[0]


def test_the_log_says_once_that_no_backup_is_made(path, opened, caplog):
    """No backup is made while the database does not change. The log says so once, not at every check, and once more
    when the database stops changing again."""
    rounds = iter([None, None, lambda: opened.answer("later", opened.place.asked.id, 1), None, None])

    def wait(_):
        act = next(rounds, False)
        if act:
            act()
        return act is False

    backups.keep_backups(path, SimpleNamespace(wait=wait))
    assert [f"No backup of {path} is made while nothing in it changes."] * 2 == [r.message for r in caplog.records]
    assert ["2"] == [kept.name.rpartition("-")[2] for kept in Store(path).backups]  # the newest of the hour


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
    call = 'backups.keep(Path("studio.db"), datetime(2026, 3, 1, 5, tzinfo=UTC))'
    with killable(("os.rename", "os.mkdir", "os.link", "os.utime", "os.rmdir"), call) as attempt:
        while code != 0:
            tries += 1
            code = attempt(tries)
            assert code in (0, -signal.SIGKILL)
            for kept in store.backups:
                assert [] == problems_of(kept)
            if len(store.backups) == 2:
                break
    assert tries > 4
    assert first == store.backups[0]
    opened.answer("last", opened.place.asked.id, 1)
    backups.keep(store.path, at(6))
    assert 3 == len(store.backups)
    assert [] == [part for part in store.backups_folder.iterdir() if part.name.startswith(".")]


def test_two_processes_keep_no_backup_at_once(path):
    """While one process makes a backup, another is refused, and does not remove the unfinished files of the first."""
    labelled(path)
    folder = path.with_name("studio.backups")
    folder.mkdir()
    (folder / ".part.first").mkdir()
    with backups._alone(folder):
        (folder / ".part.second").mkdir()
        with pytest.raises(backups.BackupError, match="Another process keeps one now"):
            backups.keep(path, at(0))
        assert [folder / ".part.second"] == list(folder.iterdir())
    assert backups.keep(path, at(0)).exists()
