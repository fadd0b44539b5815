"""Algorithms are compiled ahead, once on a machine, for the rows that imports make."""

import os
from pathlib import Path

import pytest

from oal_engine import datasets
from oal_engine.kernel.algorithms import ALGORITHMS
from oal_engine.sessions import compiling
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store

TEXTS = "text\n" + "\n".join(["a red house", "a red sea", "the house at sea"] * 20)
TABLE = "a,b\n" + "\n".join(f"{k},{k * k}.5" for k in range(60))
PAIRS = {f"{kind} PA-I": (kind, "PA-I") for kind in compiling.KINDS}


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """The notes of a machine that has compiled nothing ahead, with a few pairs to compile."""
    monkeypatch.setattr(compiling, "_notes", lambda: tmp_path / "cache" / "compiled.txt")
    monkeypatch.setattr(compiling, "_pairs", lambda: PAIRS)


def code():
    """Return the files of machine code."""
    return set(Path(os.environ["NUMBA_CACHE_DIR"]).rglob("*.nbc"))


@pytest.mark.parametrize(
    ("file", "features"),
    [(TEXTS, None), (TEXTS, "words"), (TABLE, None), (TABLE, "plain")],
)
def test_imported_items_need_no_further_compilation(notes, tmp_path, file, features):
    """A session on imported texts, or on an imported table, runs code that was compiled ahead."""
    assert [*PAIRS] == [*compiling.compile_ahead()]
    before, path = code(), tmp_path / "items.csv"
    path.write_text(file)
    store = Store(tmp_path / "studio.db")
    dataset, _ = datasets.import_file(store, path, "items", request=datasets.ImportRequest(features=features))
    compiling.answer_one(Session(store, create(store, dataset, "PA-I")))
    assert before == code()


def test_a_machine_compiles_once(notes):
    """What is compiled is noted, and not compiled again."""
    assert (0, 3) == compiling.progress()
    assert [*PAIRS] == [*compiling.compile_ahead()]
    assert (3, 3) == compiling.progress()
    assert [] == [*compiling.compile_ahead()]


def test_one_process_compiles_ahead_at_a_time(notes):
    """While one does it, another does nothing, and the app can say so; one that ended early is continued."""
    first = compiling.compile_ahead()
    done = next(first)
    assert compiling.is_running()
    assert [] == [*compiling.compile_ahead()]
    first.close()
    assert not compiling.is_running()
    assert [name for name in PAIRS if name != done] == [*compiling.compile_ahead()]


def test_every_algorithm_is_compiled_ahead():
    """An alias runs the code of the algorithm that it stands for."""
    pairs = {(kind, repr(ALGORITHMS[name].runs)) for kind, name in compiling._pairs().values()}
    assert pairs == {(kind, repr(entry.runs)) for kind in compiling.KINDS for entry in ALGORITHMS.values()}
