"""Promises of the imports of the page: a process of their own, with limited memory, of which nothing is left."""

import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import pytest

from oal_engine.datasets import formats, imports
from oal_engine.store import Store
from tests.harness import ROOT
from tests.harness.files import named

COLUMNS = formats.Columns(("text",), "label", None, (), positive=("pos",))


@pytest.fixture
def store(tmp_path):
    found = Store(tmp_path / "studio.db")
    yield found
    found.close()


def lines(count):
    return "text,label\n" + "".join(f"words of text {k},{'pos' if k % 3 else 'neg'}\n" for k in range(count))


def children():
    """The processes that this one has started and not ended."""
    told = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())], capture_output=True, text=True).stdout
    return [line for line in told.splitlines() if "oal_engine.datasets.imports" in line]


def test_a_file_becomes_a_data_set(store, tmp_path):
    """A path and an upload come in alike, with all settings of the columns, and progress is told in its phases."""
    told = []
    path = tmp_path / "x.csv"
    path.write_text(lines(30))
    assert "30 items (20 positive, 10 negative)." == imports.import_file(
        store, path, "x.csv", COLUMNS, None, "utf-8", "a path", "l2", "words", lambda *each: told.append(each)
    )
    assert ["reading", "vocabulary", "vectors"] == list(dict.fromkeys(phase for phase, *_ in told))
    imports.import_file(
        store,
        named(lines(30), "x.csv"),
        "x.csv",
        COLUMNS,
        "csv",
        "utf-8",
        "an upload",
        "l2",
        "tweets",
        lambda *each: None,
    )
    first, second = store.datasets()
    for key in ("items", "positives", "negatives", "source", "columns", "features"):
        assert first[key] == second[key]
    assert "appended 10, dropped 30 exact duplicates" == imports.append(
        store, named(lines(40), "x.csv"), "x.csv", first["id"], lambda *each: None
    )


def test_a_preview_is_that_of_the_formats():
    """Rows, columns, numbers and the guess are as `formats.peek` has them; long cells and many columns are cut."""
    content = "id,text,a\n1,some words,2.5\n2,more words,3\n"
    assert formats.peek(named(content, "x.csv")) == imports.peek(named(content, "x.csv"), "x.csv")
    wide = ",".join(f"c{k}" for k in range(300)) + "\n" + ",".join(["x" * 900] * 300) + "\n"
    seen = imports.peek(named(wide, "x.csv"), "x.csv")
    assert (300, 100, {500}) == (len(seen.columns), len(seen.rows[0]), {len(cell) for cell in seen.rows[0].values()})


def test_what_cannot_be_read_is_one_sentence():
    """The sentence of the readers comes through, for a preview and for a tree."""
    with pytest.raises(formats.DataError, match=r"^x.bin is empty; the readers are "):
        imports.peek(named("", "x.csv"), "x.bin")
    with pytest.raises(formats.DataError, match=r"tree\.bin has no tree number 'C15'"):
        imports.mesh_terms(named("Heart Diseases;C14.280\n", "x.csv"), "tree.bin", "C15")
    assert ("Heart Diseases",) == imports.mesh_terms(named("Heart Diseases;C14.280\n", "x.csv"), "tree.bin", "C14")


def test_a_path_that_is_no_file_is_refused(tmp_path):
    """A pipe into which nobody writes does not hold up the page."""
    os.mkfifo(tmp_path / "x.csv")
    with pytest.raises(formats.DataError, match=r"^x.csv is a pipe, not a file\.$"):
        imports.peek(tmp_path / "x.csv", "x.csv")


def test_too_much_memory_is_said_in_one_sentence(store, monkeypatch, tmp_path):
    """The process may take so much and no more, and the page's own process takes nothing of it."""
    monkeypatch.setenv("OAL_IMPORT_MEMORY", str(2**30))
    np.save(tmp_path / "x.npy", np.ones((10**6, 100), np.int8))
    columns = formats.Columns(features=())
    with pytest.raises(
        formats.DataError,
        match=r"^x.npy needs more memory than (there is|the 1\.0 GiB .* OAL_IMPORT_MEMORY \(bytes\))\.$",
    ):
        imports.check(tmp_path / "x.npy", "x.npy", columns, "npy", "utf-8", lambda *each: None)
    assert [] == children()


class Left(Exception):
    """What Streamlit raises where a page was left."""


def test_who_leaves_ends_the_process_and_leaves_nothing(store, tmp_path, monkeypatch):
    """Where progress raises, the process is gone, no data set is there, and no file of the upload."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    seen = []

    def leave(phase, done, total):
        if total > 1:  # the process is at work
            seen.append((len(children()), os.listdir(tmp_path / "temporary")))
            raise Left

    with pytest.raises(Left):
        imports.import_file(
            store, named(lines(300_000), "x.csv"), "x.csv", COLUMNS, None, "utf-8", "left", "l2", "words", leave
        )
    assert [(1, [])] == seen
    assert [] == children()
    assert [] == store.datasets()


PARENT = """
import io, os, sys
from oal_engine.datasets import formats, imports
from oal_engine.store import Store
file = io.BytesIO(b"text,label\\n" + b"".join(b"words of text %d,%d\\n" % (k, k % 2) for k in range(300_000)))
columns = formats.Columns(("text",), "label", None, ())
imports.import_file(Store(sys.argv[1]), file, "x.csv", columns, None, "utf-8", "x", "l2", "words",
                    lambda *told: print(*told, flush=True))
"""


def test_the_process_ends_with_a_server_that_is_killed(store, tmp_path):
    """Nobody imports on for a server that is gone."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(store.path)], cwd=ROOT, stdout=subprocess.PIPE)
    parent.stdout.readline()
    told = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent.pid)], capture_output=True, text=True).stdout
    (child,) = map(int, told.split())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + 30
    while os.path.exists(f"/proc/{child}") and time.monotonic() < end:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{child}")
    assert [] == store.datasets()
