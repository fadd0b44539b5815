"""Algorithms are compiled ahead of time, once per machine, for the kinds of rows that imports make."""

import fcntl
import os
import subprocess
import sys
from time import sleep

import pytest
from numba import typeof

from oal_engine import datasets
from oal_engine.kernel.algorithms import ALGORITHMS
from oal_engine.sessions import compiling
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store
from tests.harness import ROOT

TEXTS = "text\n" + "\n".join(["a red house", "a red sea", "the house at sea"] * 20)
TABLE = "a,b\n" + "\n".join(f"{k},{k * k}.5" for k in range(60))
PAIRS = {f"{kind} PA-I": (kind, "PA-I") for kind in compiling.KINDS}


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """Simulate a machine that has compiled nothing yet, and limit the compilation to PAIRS, a few pairs of row kind and
    algorithm."""
    monkeypatch.setattr(compiling, "_notes", lambda: tmp_path / "cache" / "compiled.txt")
    monkeypatch.setattr(compiling, "pairs", lambda: PAIRS)


@pytest.mark.slow
@pytest.mark.parametrize(("file", "features"), [(TEXTS, None), (TEXTS, "words"), (TABLE, None), (TABLE, "plain")])
def test_imported_items_need_no_further_compilation(tmp_path, file, features):
    """Imports of texts and tables create only rows of types for which algorithms are compiled ahead of time."""
    store, path = Store(tmp_path / "studio.db"), tmp_path / "items.csv"
    path.write_text(file)
    dataset, _ = datasets.import_file(store, path, "items", request=datasets.ImportRequest(features=features))
    kinds = {typeof(datasets.Dataset(store, compiling.practice_data(store, kind)).rows) for kind in compiling.KINDS}
    assert typeof(datasets.Dataset(store, dataset).rows) in kinds


def test_a_machine_compiles_once(notes):
    """A compiled pair of row kind and algorithm is recorded, and not compiled again."""
    assert (0, 3) == compiling.progress()
    assert [*PAIRS] == [*compiling.compile_ahead()]
    assert (3, 3) == compiling.progress()
    assert [] == [*compiling.compile_ahead()]


def test_each_session_of_a_store_is_practised(tmp_path):
    """Two practice sessions in one store each get an answer and a correction, so that both actions are compiled."""
    store = Store(tmp_path / "studio.db")
    data = compiling.practice_data(store, "sparse")
    for _ in range(2):
        session = Session(store, create(store, data, "PA-I"))
        compiling.answer_one(session)
        assert [1] == [entry.number for entry in session.log if entry.label not in (None, entry.first)]


def test_one_process_compiles_ahead_at_a_time(notes):
    """While one process compiles ahead, another does nothing. If the first stops early, the next one compiles the
    rest."""
    first = compiling.compile_ahead()
    done = next(first)
    assert [] == [*compiling.compile_ahead()]
    first.close()
    assert [name for name in PAIRS if name != done] == [*compiling.compile_ahead()]


def test_every_algorithm_is_compiled_ahead():
    """Every algorithm is compiled ahead for every kind of rows; an alias counts as the algorithm that it names."""
    pairs = {(kind, repr(ALGORITHMS[name].runs)) for kind, name in compiling.pairs().values()}
    assert pairs == {(kind, repr(entry.runs)) for kind in compiling.KINDS for entry in ALGORITHMS.values()}


@pytest.mark.slow
def test_a_compiler_ends_with_a_server_that_is_killed(tmp_path):
    """The compiling process of a killed server ends after the algorithm that it is compiling."""
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-m', '{compiling.__name__}'])"
    own = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, env=own) as server:
        while not (notes := [each for each in tmp_path.rglob("compiled-*") if each.stat().st_size]):
            sleep(0.1)
        server.kill()
    with notes[0].open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the compiler holds this lock until it ends
    assert len(notes[0].read_text().splitlines()) < compiling.PAIRS_AT_A_TIME
