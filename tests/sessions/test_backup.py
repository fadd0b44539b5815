"""Backups are consistent while others write, `check` detects damage, and a restore is all or nothing."""

import asyncio
import errno
import gc
import io
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from threading import Event, Thread
from threading import enumerate as enumerate_threads
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from oal_engine import datasets
from oal_engine.datasets import Dataset, feeds, reading
from oal_engine.sessions import backups
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store
from oal_engine.store.database import BACKUP
from tests.harness import ROOT
from ui import warm_up

pytestmark = pytest.mark.slow

ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def few_objects():
    """Exclude the objects that exist already from garbage collection, which is called often here."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def run(tmp_path, monkeypatch, command, few_objects):
    """A function from arguments to (exit code, standard output, standard error), in the folder of the test."""
    monkeypatch.setenv("OAL_DB", "studio.db")
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        ended = command(*arguments)
        gc.collect()  # a process of its own would close its database
        return ended

    return run


def items(n, first=0, make=np.asarray):
    """Vectors of three columns, every third of them positive."""
    X = np.array([[k, k % 3, 1.0] for k in range(first, first + n)])
    y = np.array([1 if k % 3 == 0 else -1 for k in range(first, first + n)], np.int8)
    ids = [str(k) for k in range(first, first + n)]
    return reading.Items(ids, None, make(X), ["a", "b", "c"], list(map(str, y)), y, {})


def labelled(path, answers=5, make=sparse.csr_array, name="vectors"):
    """A database with a data set, and a session with some answers."""
    store = Store(path)
    dataset = datasets.add(store, name, datasets.table(items(60, make=make), "none"), "x.npy")
    opened = Session(store, create(store, dataset, learner="pa-i", rule="all", budget=50, name="mine"))
    for number in range(answers):
        opened.answer(f"{name} {number}", opened.place.asked.id, 1 if number % 3 else -1, "Ann")
    return store, opened


def contents(path):
    """The content of a database and the bytes of its rows, independent of the names of their folders."""
    store = Store(path, read_only=True)
    connection = sqlite3.connect(path)
    statements = [line for line in connection.iterdump() if not line.startswith('INSERT INTO "datasets"')]
    rows = {
        row["name"]: [part.tobytes() for part in (*Dataset(store, row["id"]).rows[:-1], Dataset(store, row["id"]).y)]
        for row in store.datasets()
    }
    records = [row | {"folder": None} for row in store.datasets()]
    connection.close()
    store.close()
    return statements, records, rows


# Backup and restore


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_a_backup_comes_back_as_it_was(run, tmp_path, make):
    """A database restored elsewhere has the same content, its session verifies, and labeling can continue."""
    store, _ = labelled("studio.db", make=make)
    assert 0 == run("backup", "kept.tar")[0]
    assert (0, "other.db is restored from kept.tar.\n", "") == run("restore", "kept.tar", "--db", "other.db")
    assert contents("studio.db") == contents("other.db")
    other = Store("other.db")
    assert "verified" in run("verify", 1, "--db", "other.db")[1].lower()
    again = Session(other, 1)
    again.answer("one more", again.place.asked.id, 1)
    store.close()
    assert ["kept.tar", "other.db", "other.rows", "studio.db", "studio.rows"] == sorted(
        path.name for path in tmp_path.iterdir() if not path.name.endswith(("-wal", "-shm"))
    )


def test_a_backup_while_it_is_labelled(run):
    """A backup has the labels of the write-ahead log, which a plain copy of the database file lacks."""
    _store, opened = labelled("studio.db", 20)
    shutil.copy("studio.db", "plain.db")
    assert 0 == run("backup", "kept.tar")[0]
    assert 0 == run("restore", "kept.tar", "--db", "other.db")[0]
    assert 20 == len(Store("other.db", read_only=True).answers(opened.id)) - 1
    plain = sqlite3.connect("plain.db")
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        plain.execute("SELECT * FROM labels")
    plain.close()


def test_backups_while_items_are_appended(run):
    """Every backup that is made while another thread appends is sound."""
    store, _ = labelled("studio.db")
    dataset, stop = Dataset(store, "vectors"), Event()

    def grow():
        first = 60
        while not stop.is_set():
            feeds.append(dataset, items(7, first, sparse.csr_array))
            first += 7

    thread = Thread(target=grow)
    thread.start()
    try:
        sizes = []
        for number in range(8):
            backups.backup(Store("studio.db", read_only=True), f"{number}.tar")
            with backups.opened(f"{number}.tar") as archived:
                assert [] == [finding for finding in backups.check(archived) if finding.problem]
                sizes.append(archived.length(1))
    finally:
        stop.set()
        thread.join()
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_nothing_is_overwritten_without_force(run):
    """An existing file or database is replaced only with --force."""
    _, opened = labelled("studio.db")
    Path("kept.tar").write_text("mine")
    assert (1, "", "error: kept.tar exists already: --force replaces it.\n") == run("backup", "kept.tar")
    assert "mine" == Path("kept.tar").read_text()
    assert 0 == run("backup", "kept.tar", "--force")[0]
    opened.answer("later", opened.place.asked.id, 1)
    opened.store.close()
    before = contents("studio.db")
    message = "error: studio.db exists already: --force replaces it with the backup.\n"
    assert (1, "", message) == run("restore", "kept.tar")
    assert before == contents("studio.db")
    assert 0 == run("restore", "kept.tar", "--force")[0]
    assert 5 == Store("studio.db").sessions()[0]["labels"]
    assert 1 == len(list(Path("studio.rows").iterdir()))


def test_a_database_in_use_is_not_replaced(run):
    """While a server has the database open, a restore refuses, also with --force."""
    labelled("studio.db")[0].close()
    run("backup", "kept.tar")
    code = "from oal_engine.store import Store; store = Store('studio.db'); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT
    ) as server:
        server.stdout.readline()
        message = "error: studio.db is open in another process: stop the server first.\n"
        assert (1, "", message) == run("restore", "kept.tar", "--force")
        server.communicate(b"\n")
    assert 0 == run("restore", "kept.tar", "--force")[0]


def test_a_write_ahead_log_that_was_left_does_not_get_into_what_is_restored(run):
    """The write-ahead log of a killed or deleted database is not applied to the restored one."""
    labelled("studio.db", 5)[0].close()
    run("backup", "kept.tar")
    wanted = contents("studio.db")
    code = (
        "import os, signal; from oal_engine.store import Store; from oal_engine.sessions.session import Session\n"
        "opened = Session(Store('studio.db'), 1)\n"
        "for k in range(9): opened.answer(f'late {k}', opened.place.asked.id, 1)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT)
    assert Path("studio.db-wal").stat().st_size
    Path("studio.db").unlink()
    message = "error: studio.db-wal exists already: --force replaces it with the backup.\n"
    assert (1, "", message) == run("restore", "kept.tar")
    assert 0 == run("restore", "kept.tar", "--force")[0]
    assert wanted == contents("studio.db")


RESTORE = """
import os, signal, sys
from oal_engine.sessions import backups
left = None
def count(event, _):
    global left
    if left is not None and event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir"):
        left -= 1
        left or os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(count)
for line in sys.stdin:
    if not os.fork():
        left = int(line)
        backups.restore("old.tar", "studio.db", force=True)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


def test_a_restore_that_is_killed_leaves_one_or_the_other(run):
    """A restore is killed before every second change of a name on disk: the database is the old or the restored one,
    it is sound, and the next start removes the leftovers from its rows."""
    store, opened = labelled("studio.db")
    old = contents("studio.db")
    run("backup", "old.tar")
    feeds.append(Dataset(store, "vectors"), items(9, 60, sparse.csr_array))
    opened.answer("later", opened.place.asked.id, 1)
    new = contents("studio.db")
    store.close()
    run("backup", "new.tar")
    ends, code = [], None
    with subprocess.Popen(
        [sys.executable, "-c", RESTORE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT, text=True
    ) as process:
        while code != 0:
            assert 0 == run("restore", "new.tar", "--force")[0]
            print(2 * len(ends) + 1, file=process.stdin, flush=True)
            code = int(process.stdout.readline())
            assert code in (0, -signal.SIGKILL)
            current = contents("studio.db")
            assert current in (old, new)
            ends.append(current == old)
            again = Store("studio.db")
            datasets.sweep(again)
            assert [] == [finding for finding in backups.check(again) if finding.problem]
            assert {row["folder"] for row in again.datasets()} <= {path.name for path in again.folder.iterdir()}
            assert not list(again.folder.glob(f"*/{datasets.MARK}"))
            again.close()
    assert ends == sorted(ends)
    assert {False, True} == set(ends)


def test_a_backup_that_fails_leaves_nothing(run, tmp_path):
    """If the rows of a data set are missing, the backup is refused, and no partial file is left."""
    store, _ = labelled("studio.db")
    shutil.rmtree(store.folder)
    code, _, err = run("backup", "kept.tar")
    assert (1, True) == (code, err.startswith("error: the rows of the data set vectors cannot be read from "))
    assert not [path for path in tmp_path.iterdir() if "backup" in path.name or "kept" in path.name]


# Backups that a server keeps


def at(hours):
    """A time so many hours after the beginning of a day."""
    return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=hours)


def changed_at(path, time):
    for file in (path, path.with_name(f"{path.name}-wal")):
        if file.exists():
            os.utime(file, (time.timestamp(), time.timestamp()))


def test_the_newest_of_each_hour_and_day_are_kept(tmp_path):
    """After 20 days with a backup every 30 minutes, those of the last 24 hours and of the last 14 days are left, and
    nothing else in the folder is touched."""
    path = tmp_path / "studio.db"
    Store(path).close()
    (tmp_path / "studio.backups").mkdir()
    (tmp_path / "studio.backups" / "mine").mkdir()
    names = [(at(k / 2)).strftime(BACKUP) for k in range(20 * 48)]
    for name in names[:-1]:
        (tmp_path / "studio.backups" / name).mkdir()
    last = at((len(names) - 1) / 2)
    changed_at(path, last)
    names[-1] += "-1"
    assert names[-1] == backups.keep(path, last).name
    hours = names[1::2][-24:]
    days = [name for name in names if "T23-30" in name][-14:]
    assert sorted({*hours, *days}) == [each.name for each in Store(path).backups]
    assert (tmp_path / "studio.backups" / "mine").exists()


def test_a_backup_is_kept_only_where_anything_is_new(tmp_path):
    """After a backup there is none until the database was changed."""
    path = tmp_path / "studio.db"
    _, opened = labelled(path)
    changed_at(path, at(0))
    first = backups.keep(path, at(1))
    changed_at(path, at(0))
    assert backups.keep(path, at(2)) is None
    opened.answer("later", opened.place.asked.id, 1)
    second = backups.keep(path, at(3))
    assert [first, second] == Store(path).backups


def test_a_kept_backup_comes_back_with_sessions_that_verify(run):
    """It has the labels and the rows as they were, whatever was answered and appended later, or damaged; the damaged
    database is kept beside it."""
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
    assert f"The damaged database is kept as {aside}, " in out
    assert damaged == aside.read_bytes()
    assert before == contents("studio.db")
    assert 0 == run("verify", 1)[0]


def test_a_damaged_database_takes_no_place_of_a_sound_backup(tmp_path):
    """Whatever page is damaged, nothing is kept of it, and the sound backup stays."""
    path = tmp_path / "studio.db"
    labelled(path)[0].close()
    first, sound, refused = backups.keep(path, at(0)), path.read_bytes(), 0
    for page in range(1, len(sound) // 4096):
        damaged(path, page, random.Random(page))
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


def test_answers_do_not_wait_for_a_backup(tmp_path, monkeypatch):
    """While a backup is being written, an answer is stored and the backup is sound."""
    path = tmp_path / "studio.db"
    _, opened = labelled(path)

    def answered_meanwhile(*arguments, keep_rows=backups._keep_rows):
        opened.answer("meanwhile", opened.place.asked.id, 1)
        keep_rows(*arguments)

    monkeypatch.setattr(backups, "_keep_rows", answered_meanwhile)
    with backups.opened(backups.keep(path, datetime.now(UTC))) as store:
        assert [] == [finding for finding in backups.check(store) if finding.problem]
        assert (5, 6) == tuple(each.sessions()[0]["labels"] for each in (store, opened.store))


@pytest.mark.parametrize("problem", ["unwritable", "full"])
def test_a_backup_that_cannot_be_kept_is_a_sentence_in_the_log(tmp_path, monkeypatch, caplog, problem):
    """A folder that cannot be written or a full disk is logged, nothing partial is left, and the next try succeeds."""
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
def test_a_server_keeps_backups_unless_they_are_switched_off(tmp_path, monkeypatch, switch):
    """The first is there soon after the start of the server; with OAL_BACKUPS=0 none is ever."""
    path = tmp_path / "studio.db"
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

    with ThreadPoolExecutor(1) as elsewhere:  # the thread of a test that has a browser has a loop already
        elsewhere.submit(asyncio.run, asyncio.wait_for(serve(), 60)).result()
    for thread in set(enumerate_threads()) - before:
        thread.join(60)
    assert (0 if switch else 1) == len(Store(path).backups)


# A clock that is wrong, and rows that are damaged


@pytest.mark.parametrize("jumps", [(0, 24 * 3650, 1, 2), (5, -24 * 3650, 6), (0, 0, 0), (24 * 40, 3, 24 * 80, 4)])
def test_backups_go_on_whatever_the_clock_shows(tmp_path, jumps):
    """After each answer there is a new backup, and the newest is the one that has all answers, though the clock jumps
    by years; a damaged database names it."""
    path = tmp_path / "studio.db"
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


def test_a_backup_of_an_older_version_that_lies_in_the_future_is_not_the_newest(tmp_path):
    """The clock was ahead once when backups were not counted yet: the next one is newer all the same, and none is kept
    for ever."""
    path = tmp_path / "studio.db"
    store, _ = labelled(path)
    ahead = path.with_name("studio.backups") / at(24 * 3650).strftime(BACKUP)
    ahead.mkdir(parents=True)
    kept = backups.keep(path, at(0))
    assert [ahead, kept] == store.backups
    names = [ahead.name, *(f"{at(hour):{BACKUP}}-{hour + 1}" for hour in range(24 * 20))]
    assert ahead.name not in backups.retained(names)


def test_rows_that_are_overwritten_leave_every_backup_as_it_was(run):
    """64 bytes in each file of rows are overwritten, in place: all backups are sound and can be restored, and the next
    one has the rows of before, for which the log says why."""
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


def test_each_day_has_rows_of_its_own(tmp_path, caplog):
    """Backups of a day share one copy of the rows, and those of another day have another one: rows of a backup that
    are damaged damage no other day, and are not linked to again."""
    path = tmp_path / "studio.db"
    _, opened = labelled(path)

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
    changed(next(path.with_name("studio.backups").glob("2026-03-02*/studio.rows/*/values.npy")), -1, 0x7F)
    (fourth,) = links(kept(25))
    assert not fourth & (first | third | live)
    assert [] == caplog.records


@pytest.mark.parametrize("room", [0, None])
def test_a_backup_without_room_for_rows_has_those_of_another_one(tmp_path, monkeypatch, caplog, room):
    """Where a copy of the rows would leave no room for answers, the backup shares rows with an earlier one, says so in
    the log, and is sound; where there is room, nothing is said."""
    path = tmp_path / "studio.db"
    _, opened = labelled(path)
    first = backups.keep(path, at(0))
    opened.answer("later", opened.place.asked.id, 1)
    if room is not None:
        monkeypatch.setattr(backups.shutil, "disk_usage", lambda _: SimpleNamespace(free=room))
    kept = backups.keep(path, at(24))
    monkeypatch.undo()
    with backups.opened(kept) as store:
        assert [] == [finding for finding in backups.check(store) if finding.problem]
    said = [record.message for record in caplog.records]
    assert [] == said if room is None else f"has its rows from {first.name}. " in said[0]


def test_the_log_says_once_that_no_backup_is_made(tmp_path, caplog):
    """While nothing changes, one line says so, and after the next change another one."""
    path = tmp_path / "studio.db"
    _, opened = labelled(path)
    rounds = iter([None, None, lambda: opened.answer("later", opened.place.asked.id, 1), None, None])

    def wait(_):
        act = next(rounds, False)
        if act:
            act()
        return act is False

    backups.keep_backups(path, SimpleNamespace(wait=wait))
    assert [f"No backup of {path} is made while nothing in it changes."] * 2 == [r.message for r in caplog.records]
    assert ["2"] == [kept.name.rpartition("-")[2] for kept in Store(path).backups]  # the newest of the hour


def test_the_age_of_the_newest_backup_is_said(tmp_path):
    """It says how old the newest backup is, whether anything changed since, and where its time is to come."""
    path = tmp_path / "studio.db"
    store, opened = labelled(path)
    assert "The server has kept no backup yet." == backups.age_of_newest(store, at(0))
    kept = backups.keep(path, at(0))
    assert "The newest backup is 90 minutes old. Nothing has changed since." == backups.age_of_newest(store, at(1.5))
    opened.answer("later", opened.place.asked.id, 1)
    assert "The newest backup is 30 hours old." == backups.age_of_newest(store, at(30))
    assert "The newest backup is 400 days old." == backups.age_of_newest(store, at(24 * 400))
    assert f"The newest backup is named {kept.name}, a time to come" in backups.age_of_newest(store, at(-1))


KEEP = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from oal_engine.sessions import backups
left = None
def count(event, _):
    global left
    if left is not None and event in ("os.rename", "os.mkdir", "os.link", "os.utime", "os.rmdir"):
        left -= 1
        left or os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(count)
for line in sys.stdin:
    if not os.fork():
        left = int(line)
        backups.keep(Path("studio.db"), datetime(2026, 3, 1, 5, tzinfo=UTC))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


def test_a_backup_that_is_killed_is_whole_or_not_there(run, tmp_path):
    """A kill before any change of a name leaves every backup sound, and the next one removes what is left."""
    store, opened = labelled("studio.db")
    first = backups.keep(store.path, at(0))
    opened.answer("later", opened.place.asked.id, 1)
    code, tries = None, 0
    with subprocess.Popen(
        [sys.executable, "-c", KEEP], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT, text=True
    ) as process:
        while code != 0:
            tries += 1
            print(tries, file=process.stdin, flush=True)
            code = int(process.stdout.readline())
            assert code in (0, -signal.SIGKILL)
            for kept in store.backups:
                with backups.opened(kept) as copy:
                    assert [] == [finding for finding in backups.check(copy) if finding.problem]
            if len(store.backups) == 2:
                break
    assert tries > 4
    assert first == store.backups[0]
    opened.answer("last", opened.place.asked.id, 1)
    backups.keep(store.path, at(6))
    assert 3 == len(store.backups)
    assert [] == [part for part in store.backups_folder.iterdir() if part.name.startswith(".")]


def test_two_processes_keep_no_backup_at_once(tmp_path):
    """Who comes second says so, and removes nothing of the first."""
    path = tmp_path / "studio.db"
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


# Check


def test_check_says_what_is_sound(run):
    """A line for the database, each data set and each session, or one JSON object; the exit code is 0."""
    labelled("studio.db")[0].close()
    run("backup", "kept.tar")
    expected = "database studio.db: sound\ndata set vectors: sound\nsession 1 (mine): sound\n"
    assert (0, expected, "") == run("check")
    assert (0, expected, "") == run("check", "kept.tar")
    code, out, _ = run("check", "--json")
    names = [("database", "studio.db"), ("data set", "vectors"), ("session", "1 (mine)")]
    findings = [{"part": part, "name": name, "problem": None} for part, name in names]
    assert (0, {"sound": True, "findings": findings}) == (code, json.loads(out))
    assert (1, "", "error: There is no database at none.db.\n") == run("check", "--db", "none.db")


def changed(path, at, byte):
    with path.open("r+b") as file:
        file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        file.write(bytes([byte]))


@pytest.mark.parametrize("name", ["values", "indices", "indptr", "y"])
@pytest.mark.parametrize("grown", [False, True])
def test_check_finds_any_change_of_rows(run, name, grown):
    """A changed byte in imported or appended rows is detected, and a session over these rows is not run."""
    store, _ = labelled("studio.db")
    if grown:
        feeds.append(Dataset(store, "vectors"), items(9, 60, sparse.csr_array))
        assert 0 == run("check")[0]
    (folder,) = store.folder.iterdir()
    changed(folder / f"{name}.npy", -1, 0x7F)
    code, out, _ = run("check")
    assert (1, 1) == (code, out.count("data set vectors: the rows of the data set vectors cannot be read from "))
    assert "session 1 (mine): it runs over rows that are damaged\n" in out
    assert 1 == run("verify", 1)[0]
    run("backup", "kept.tar")
    assert 1 == (run("check", "kept.tar")[0] if Path("kept.tar").exists() else 1)


def test_check_finds_a_session_that_differs_from_its_log(run):
    """A label that was changed by hand is reported with the first round where the session differs from its log."""
    store, _ = labelled("studio.db", 20)
    with store.transaction():
        store.db.execute("UPDATE events SET label = -label WHERE id = 'vectors 4'")
    code, out, _ = run("check")
    assert (1, True) == (code, "session 1 (mine): First difference in round " in out)


def test_check_finds_missing_items(run):
    """A data set whose items are fewer than its record says is reported."""
    store, _ = labelled("studio.db")
    with store.transaction():
        store.db.execute("DELETE FROM items WHERE position = 59")
    code, out, _ = run("check")
    assert (1, True) == (code, "the data set vectors has 59 items, not 60" in out)


def damaged(path, page, rng):
    """Bytes of a page of the database replaced by noise, as a disk does it."""
    with open(path, "r+b") as file:
        file.seek(4096 * page)
        file.write(rng.randbytes(4096))


def test_no_command_passes_over_a_damaged_page(run, tmp_path):
    """Whichever page of the database is damaged: `check`, `verify` or `append` end with exit code 1 and one line."""
    labelled("studio.db")[0].close()
    shutil.copy("studio.db", "good.db")
    Path("more.csv").write_text("a,b,c\n1,2,4\n")
    known = sqlite3.connect("good.db")
    pages = [row[0] for row in known.execute("SELECT DISTINCT pageno FROM dbstat WHERE ncell")]
    known.close()
    rng, commands = random.Random(1), (("check",), ("verify", 1), ("append", "vectors", "more.csv"))
    for page, command in zip(pages[1:], cycle(commands)):
        shutil.copy("good.db", "studio.db")
        damaged("studio.db", page - 1, rng)
        code, out, err = run(*command)
        assert (1, True) == (code, err.count("\n") + out.count("\n") >= 1), (page, command, out, err)
        assert "Traceback" not in err


@pytest.mark.parametrize("content", [b"no database at all", bytes(5000)])
def test_a_file_that_is_not_a_database_is_refused(run, content):
    """Every command refuses a file that is not a database, in one sentence that names it."""
    Path("studio.db").write_bytes(content)
    for command in (("check",), ("verify", 1), ("datasets",), ("backup", "x.tar"), ("sessions",)):
        code, out, err = run(*command)
        assert (1, "", 1) == (code, out, err.count("\n"))
        assert err.startswith("error: ")
        assert "studio.db" in err


# What a backup may hold


def archive(*members):
    """A .tar of (name, content, type) members."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as file:
        for name, content, kind in members:
            member = tarfile.TarInfo(name)
            member.type, member.size, member.linkname = kind, len(content), "/etc/passwd"
            file.addfile(member, io.BytesIO(content))
    return made.getvalue()


@pytest.mark.parametrize(
    "name",
    ["../studio.db", "/studio.db", "studio.rows/../../x", "studio.rows/../y.npy", "studio.rows/a/b/y.npy", "studioxdb"],
)
def test_no_file_leaves_its_folder(run, tmp_path, name):
    """A member whose name leads out of the folder is refused, and nothing is written."""
    Path("evil.tar").write_bytes(archive((name, b"x", tarfile.REGTYPE)))
    code, _, err = run("restore", "evil.tar")
    assert (1, f"error: evil.tar is not a backup: it contains {name!r}.\n") == (code, err)
    assert ["evil.tar"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE])
def test_no_link_or_device_is_unpacked(run, tmp_path, kind):
    """Only plain files are taken from a backup."""
    Path("evil.tar").write_bytes(archive(("studio.db", b"", kind)))
    code, _, err = run("restore", "evil.tar")
    assert (1, "error: evil.tar is not a backup: it contains 'studio.db'.\n") == (code, err)
    assert ["evil.tar"] == [path.name for path in tmp_path.iterdir()]


def test_a_folder_elsewhere_that_a_database_names_is_refused(run, tmp_path):
    """A backup whose database has a folder of rows outside of the backup is not restored."""
    labelled("studio.db")[0].close()
    run("backup", "kept.tar")
    with backups.opened("kept.tar") as archived:
        with archived.transaction():
            archived.update_dataset(1, {"folder": "../../elsewhere"})
        archived.copy_to("evil.db")
    Path("evil.tar").write_bytes(archive(("studio.db", Path("evil.db").read_bytes(), tarfile.REGTYPE)))
    code, _, err = run("restore", "evil.tar", "--db", "new.db")
    assert (1, "error: evil.tar is an incomplete backup: the rows in '../../elsewhere' are missing.\n") == (code, err)
    assert not Path("new.db").exists()


def test_a_backup_that_is_cut_or_changed_is_refused(run, tmp_path):
    """A backup that was cut anywhere, or whose rows were changed, is refused and leaves no file behind."""
    labelled("studio.db")[0].close()
    run("backup", "kept.tar")
    whole = Path("kept.tar").read_bytes()
    before = sorted(tmp_path.iterdir())
    with tarfile.open("kept.tar") as file:
        members = file.getmembers()
    for member in members:
        for content in (whole[: member.offset], whole[: member.offset_data + member.size // 2]):
            Path("kept.tar").write_bytes(content)
            assert 1 == run("restore", "kept.tar", "--db", "new.db")[0]
            assert 1 == run("check", "kept.tar")[0]
        if member.name.endswith(".npy"):
            Path("kept.tar").write_bytes(whole)
            changed(Path("kept.tar"), member.offset_data + member.size - 1, 0x7F)
            assert 1 == run("restore", "kept.tar", "--db", "new.db")[0]
    assert before == sorted(tmp_path.iterdir())


# Imports that were killed

IMPORT = """
import os, signal, sys
import numpy as np
from oal_engine import datasets
from oal_engine.datasets import formats
from oal_engine.kernel import rows
from oal_engine.store import Store
store, where = Store("studio.db"), sys.argv[1]
def stop(*_, **__):
    print("here", flush=True)
    input()
if where == "rows":
    np_save, saved = np.save, []
    def save(*arguments):
        np_save(*arguments)
        saved.append(1)
        len(saved) == 2 and stop()
    np.save = save
else:
    store.add_dataset = stop
y = np.ones(60, np.int8)
items = reading.Items([str(k) for k in range(60)], None, np.eye(60), [str(k) for k in range(60)], ["1"] * 60, y, {})
datasets.add(store, "killed", datasets.table(items), "x.npy")
"""


@pytest.mark.parametrize("where", ["rows", "database"])
def test_a_killed_import_leaves_no_rows_behind(run, where):
    """The rows of an import that runs in another process are kept; those of a killed one go at the next start."""
    store, _ = labelled("studio.db")
    kept = {path.name for path in store.folder.iterdir()}
    Path("more.csv").write_text("a,b,c\n1,2,4\n")
    with subprocess.Popen(
        [sys.executable, "-c", IMPORT, where], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        process.stdout.readline()
        assert 0 == run("append", "vectors", "more.csv")[0]
        assert len(kept) + 1 == len(list(store.folder.iterdir()))
        process.send_signal(signal.SIGKILL)
    assert len(kept) + 1 == len(list(store.folder.iterdir()))
    assert 0 == run("append", "vectors", "more.csv")[0]
    assert kept == {path.name for path in store.folder.iterdir()}


def test_only_leftovers_of_an_import_are_swept(run):
    """Folders of a database of the same stem, unmarked ones, and one whose data set was stored before a kill stay."""
    store, _ = labelled("studio.db")
    (own,) = store.folder.iterdir()
    (own / datasets.MARK).write_text("studio.db")
    other = store.folder / "other"
    other.mkdir()
    (other / datasets.MARK).write_text("studio.sqlite")
    (store.folder / "unmarked").mkdir()
    datasets.sweep(store)
    assert {own.name, "other", "unmarked"} == {path.name for path in store.folder.iterdir()}
    assert not (own / datasets.MARK).exists()
    assert 0 == run("check")[0]


# Databases that are read-only or missing


READING = (
    ("verify", 1), ("check",), ("datasets",), ("sessions",), ("export", 1), ("export", 1, "--what", "predictions"),
    ("export", 1, "--what", "report"), ("publish", 1), ("replay", "vectors", "--algorithm", "PAA-I"), ("results",),
)  # fmt: skip


@pytest.fixture
def somebody():
    """A context in which this process is not the superuser, who may write everything."""

    @contextmanager
    def person():
        superuser = os.geteuid() == 0
        if superuser:
            os.seteuid(65534)
        try:
            yield
        finally:
            if superuser:
                os.seteuid(0)

    return person


def test_an_unwritable_database_can_be_read(run, somebody, monkeypatch):
    """On a read-only database reading commands print the same as on a writable one, and a writing one is refused."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "studio.db"
        labelled(path)[0].close()
        more = path.with_name("more.csv")
        more.write_text("a,b,c\n1,2,4\n")
        labelled("studio.db")[0].close()
        assert 0 == run("append", "vectors", more)[0]
        expected = [run(*command, "--db", path) for command in READING]
        files = [Path(folder), *Path(folder).rglob("*")]
        for file in files:
            file.chmod(0o555 if file.is_dir() else 0o444)
        monkeypatch.chdir(folder)
        with somebody():
            actual = [run(*command, "--db", path) for command in READING]
            code, out, err = run("append", "vectors", more, "--db", path)
        for file in files:
            file.chmod(0o755)
        monkeypatch.undo()
    assert [0] * len(READING) == [code for code, *_ in actual]
    assert expected == actual
    assert (1, "", 1) == (code, out, err.count("\n"))


def test_a_reading_command_creates_no_database(run, tmp_path):
    """Without a database a reading command says so, and creates none."""
    for command in (*READING, ("backup", "x.tar")):
        assert (1, "", "error: There is no database at studio.db.\n") == run(*command)
    assert [] == list(tmp_path.iterdir())


# Rows that were cut


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_rows_cut_under_an_open_data_set_are_refused(tmp_path, monkeypatch, make):
    """A file of rows that is cut to any length after it was mapped is refused at the next use, with its name, the
    length that it must have and the one that it has; the process does not crash."""
    monkeypatch.setattr(datasets, "AT_MOST_EVERY", 0.0)  # a cut right behind a look is not seen: so is it promised
    store, opened = labelled(tmp_path / "studio.db", make=make)
    folder = opened.dataset.folder
    for path in folder.glob("*.npy"):
        content, size = path.read_bytes(), path.stat().st_size
        for cut in (0, 128, size - 1):
            os.truncate(path, cut)
            with pytest.raises(reading.DataError, match=rf"{path.name} must be {size:,} bytes long. It is {cut:,}\."):
                opened.answer(f"{path.name} {cut}", opened.place.asked.id, 1)
            with pytest.raises(reading.DataError, match=f"cannot be read from {folder}"):
                Dataset(store, "vectors")
            with path.open("r+b") as file:
                file.write(content)
    opened.answer("at last", opened.place.asked.id, 1)


def test_rows_that_point_outside_are_refused(tmp_path):
    """Row offsets that decrease or point behind the end of the file are refused when the data set is opened; a column
    that does not exist is refused by the check."""
    store, opened = labelled(tmp_path / "studio.db")
    folder = opened.dataset.folder
    for name, at, value, message in (
        ("indptr", 3, 1, "indptr.npy is damaged: its numbers must begin with 0 and never fall"),
        ("indptr", 0, 1, "indptr.npy is damaged: its numbers must begin with 0 and never fall"),
        ("indptr", 60, 10**9, r"indices.npy must be 4,000,000,\d+ bytes long. It is"),
    ):
        good = np.load(folder / f"{name}.npy")
        bad = good.copy()
        bad[at] = value
        np.save(folder / f"{name}.npy", bad)
        with pytest.raises(reading.DataError, match=message):
            Dataset(store, "vectors")
        np.save(folder / f"{name}.npy", good)
    indices = np.load(folder / "indices.npy")
    indices[5] = 3
    np.save(folder / "indices.npy", indices)
    with pytest.raises(reading.DataError, match=r"columns must be < 3\. Got 3"):
        Dataset(store, "vectors").check()


def test_rows_of_an_older_version_are_checked_once_they_grow(run):
    """A data set that was imported before checksums were stored is sound, and gets them at the first append."""
    store, _ = labelled("studio.db")
    with store.transaction():
        store.update_dataset(1, {"checksums": None})
    assert 0 == run("check")[0]
    feeds.append(Dataset(store, "vectors"), items(9, 60, sparse.csr_array))
    assert Dataset(store, "vectors").checksums == json.loads(store.dataset(1)["checksums"])
    assert 0 == run("check")[0]
