"""`check` detects damage, and rows on disk are neither lost nor left behind."""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from oal_engine import datasets
from oal_engine.datasets import Dataset, feeds, reading
from tests.harness.backups import ENVIRONMENT, change_byte, damage_page, items, labelled


def test_check_says_what_is_sound(run):
    """`check` prints a line for the database, each data set and each session, or one JSON object; its exit code is 0 if
    all are sound."""
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


@pytest.mark.parametrize("name", ["values", "indices", "indptr", "y"])
@pytest.mark.parametrize("grown", [False, True])
def test_check_finds_any_change_of_rows(run, name, grown):
    """A changed byte in imported or appended rows is detected, and a session over the damaged rows is not run."""
    store, _ = labelled("studio.db")
    if grown:
        feeds.append(Dataset(store, "vectors"), items(9, 60, sparse.csr_array))
        assert 0 == run("check")[0]
    (folder,) = store.folder.iterdir()
    change_byte(folder / f"{name}.npy", -1, 0x7F)
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


def test_labels_are_derived_again_from_the_events(run):
    """`check` names a session whose labels do not follow from its events, and `--repair` derives them again."""
    store, _ = labelled("studio.db", 20)
    with store.transaction():
        store.db.execute("UPDATE labels SET label = -label")
    code, out, _ = run("check")
    assert (1, True) == (code, "the answers of session 1 do not follow from its events" in out)
    assert 0 == run("check", "--repair")[0]
    assert 0 == run("check")[0]
    run("backup", "kept.tar")
    message = "error: --repair is for the database, not for a backup. Got kept.tar.\n"
    assert (1, "", message) == run("check", "kept.tar", "--repair")


def test_no_command_passes_over_a_damaged_page(run, tmp_path):
    """Whichever page of the database is damaged, `check`, `verify` and `append` exit with 1, without a traceback."""
    labelled("studio.db")[0].close()
    shutil.copy("studio.db", "good.db")
    Path("more.csv").write_text("a,b,c\n1,2,4\n")
    known = sqlite3.connect("good.db")
    pages = [row[0] for row in known.execute("SELECT DISTINCT pageno FROM dbstat WHERE ncell")]
    known.close()
    rng, commands = random.Random(1), (("check",), ("verify", 1), ("append", "vectors", "more.csv"))
    for page, command in zip(pages[1:], cycle(commands)):
        shutil.copy("good.db", "studio.db")
        damage_page("studio.db", page - 1, rng)
        code, out, err = run(*command)
        assert (1, True) == (code, err.count("\n") + out.count("\n") >= 1), (page, command, out, err)
        assert "Traceback" not in err


@pytest.mark.parametrize("content", [b"no database at all", bytes(5000)])
def test_a_file_that_is_not_a_database_is_refused(run, content):
    Path("studio.db").write_bytes(content)
    for command in (("check",), ("verify", 1), ("datasets",), ("backup", "x.tar"), ("sessions",)):
        code, out, err = run(*command)
        assert (1, "", 1) == (code, out, err.count("\n"))
        assert err.startswith("error: ")
        assert "studio.db" in err
    assert content == Path("studio.db").read_bytes()


IMPORT = """
import os, signal, sys
import numpy as np
from oal_engine import datasets
from oal_engine.datasets import reading
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


@pytest.mark.slow
@pytest.mark.parametrize("where", ["rows", "database"])
def test_a_killed_import_leaves_no_rows_behind(run, where):
    """The rows of an import that still runs in another process stay; the rows of a killed import are removed at the
    next start."""
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
    """The removal of leftover imports keeps three kinds of folders: of another database with the same stem, without the
    mark of an import, and of a data set that was stored before its import was killed."""
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


READING = (
    ("verify", 1), ("check",), ("datasets",), ("sessions",), ("export", 1), ("export", 1, "--what", "predictions"),
    ("export", 1, "--what", "report"), ("publish", 1), ("replay", "vectors", "--algorithm", "PAA-I"), ("results",),
)  # fmt: skip


@pytest.fixture
def somebody():
    """A context manager in which this process is not the superuser, who could write to any file."""

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


@pytest.mark.slow
def test_an_unwritable_database_can_be_read(run, somebody, monkeypatch):
    """On an unwritable database, commands that only read print the same as on a writable one, and a command that writes
    is refused."""
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
    for command in (*READING, ("backup", "x.tar")):
        assert (1, "", "error: There is no database at studio.db.\n") == run(*command)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_rows_cut_under_an_open_data_set_are_refused(tmp_path, monkeypatch, make):
    """A file of rows that is truncated after it was memory-mapped is refused at the next use, with its name, the size
    that it must have and its actual size; the process does not crash."""
    monkeypatch.setattr(
        "oal_engine.datasets.stored.LENGTH_CHECK_SECONDS", 0.0
    )  # else a cut just after a check is not noticed
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
    """Row offsets (indptr) that decrease, or point past the end of the file, are refused when the data set is opened. A
    column index that does not exist is found by `Dataset.check`."""
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
