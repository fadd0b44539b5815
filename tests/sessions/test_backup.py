"""Backups are consistent while others write, and a restore is all or nothing."""

import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest
from scipy import sparse

from oal_engine import datasets
from oal_engine.datasets import Dataset, feeds
from oal_engine.sessions import backups
from oal_engine.sessions.session import Session
from oal_engine.store import Store, digest_of
from tests.harness.backups import ENVIRONMENT, change_byte, contents, items, killable, labelled, problems, problems_of
from tests.harness.tables import unpacked

# Backup and restore


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_a_backup_comes_back_as_it_was(run, tmp_path, make):
    """A database restored elsewhere has the same content. Its session is verified, and labeling can continue."""
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


def test_a_restore_brings_no_tokens(run):
    """A restored database has no access tokens, because they may have been removed since the backup. A published
    session has none either."""
    store, opened = labelled("studio.db", 2)
    _, secret = store.add_token(opened.id, "owner", "anna", timedelta(days=1))
    assert 0 == run("backup", "kept.tar")[0]
    published = run("publish", opened.id)[1]
    assert not any(word in published for word in (secret, digest_of(secret)))
    assert secret.encode() not in Path("kept.tar").read_bytes()
    assert 0 == run("restore", "kept.tar", "--db", "other.db")[0]
    assert ([], 1) == (Store("other.db", read_only=True).tokens(), len(store.tokens()))
    store.close()


def test_backups_while_items_are_appended(run):
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
                assert [] == problems(archived)
                sizes.append(archived.length(1))
    finally:
        stop.set()
        thread.join()
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_nothing_is_overwritten_without_force(run):
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
    """A restore is refused while a server has the database open, even with --force."""
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


@pytest.mark.slow
def test_a_write_ahead_log_that_was_left_does_not_get_into_what_is_restored(run):
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


@pytest.mark.slow
def test_a_restore_that_is_killed_leaves_one_or_the_other(run):
    """A restore can be killed before any of its changes to files and folders (every second one is tried). The database
    is then the old or the restored one, and is sound. The next start removes leftover folders of rows."""
    store, opened = labelled("studio.db")
    old = contents("studio.db")
    run("backup", "old.tar")
    feeds.append(Dataset(store, "vectors"), items(9, 60, sparse.csr_array))
    opened.answer("later", opened.place.asked.id, 1)
    new = contents("studio.db")
    store.close()
    run("backup", "new.tar")
    ends, code = [], None
    events = ("os.rename", "os.remove", "os.mkdir", "os.rmdir")
    with killable(events, 'backups.restore("old.tar", "studio.db", force=True)') as attempt:
        while code != 0:
            assert 0 == run("restore", "new.tar", "--force")[0]
            code = attempt(2 * len(ends) + 1)
            assert code in (0, -signal.SIGKILL)
            current = contents("studio.db")
            assert current in (old, new)
            ends.append(current == old)
            again = Store("studio.db")
            datasets.sweep(again)
            assert [] == problems(again)
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


# Contents of a backup


def test_a_changed_bit_of_a_backup_is_found(tmp_path):
    """Wherever a bit of the database or of the rows in a backup is changed, `check` refuses it and names the file. A
    backup that is cut anywhere is not whole, and a restore of it leaves no file behind."""
    path, chance = unpacked("0_3_0", tmp_path), random.Random(0)
    with closing(Store(path)) as store:
        backups.backup(store, tmp_path / "kept.tar")
    kept = tmp_path / "kept.tar"
    whole = kept.read_bytes()
    with tarfile.open(kept) as file:
        members = [member for member in file if member.size]
    assert problems_of(kept) == []
    for member in [*[members[0]] * 8, *members]:
        at = member.offset_data + chance.randrange(member.size)
        change_byte(kept, at, whole[at] ^ 1 << chance.randrange(8))
        name = "" if member.name == backups.SUMS else re.escape(member.name)
        with pytest.raises(backups.BackupError, match=rf"{name} has changed since it was written\.$"):
            problems_of(kept)
        change_byte(kept, at, whole[at])
    before = sorted(tmp_path.iterdir())
    for member in members:
        for cut in (member.offset, member.offset_data + member.size // 2):
            kept.write_bytes(whole[:cut])
            for act in (problems_of, lambda kept: backups.restore(kept, tmp_path / "new.db")):
                with pytest.raises(backups.BackupError, match=r"is not a (whole )?backup"):
                    act(kept)
    assert before == sorted(tmp_path.iterdir())


def test_a_backup_of_0_3_0_is_restored(tmp_path):
    path = unpacked("0_3_0", tmp_path)
    with tarfile.open(tmp_path / "old.tar", "w") as file:
        for part in (path, *path.with_name("studio.rows").glob("*/*")):
            file.add(part, str(part.relative_to(tmp_path)))
    assert ([], None) == (
        problems_of(tmp_path / "old.tar"),
        backups.restore(tmp_path / "old.tar", tmp_path / "new.db")[1],
    )
    assert 26 == len(Store(tmp_path / "new.db", read_only=True).sessions())
