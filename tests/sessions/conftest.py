"""Fixtures of the tests of sessions: one random stream in several data sets, and a function that runs commands."""

import gc

import numpy as np
import pytest

from oal_engine import datasets
from oal_engine.store import Store
from tests.harness.sessions import stream_of


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """The path of a database that has one stream as four data sets: sparse, dense, with four classes, and unlabeled."""
    path = tmp_path_factory.mktemp("sessions") / "studio.db"
    store = Store(path)
    X, items = stream_of()
    datasets.add(store, "sparse", datasets.table(items), "made.npz")
    items.vectors = X.toarray()
    datasets.add(store, "dense", datasets.table(items), "made.npy")
    items.vectors, items.classes, items.y = X, tuple("abcd"), np.where(items.y > 0, 2, 1 + np.arange(300) % 5 % 4)
    datasets.add(store, "classes", datasets.table(items), "made.npz")
    datasets.add(store, "unlabelled", datasets.table(stream_of(labels=(0, 0))[1]), "made.npz")
    store.close()
    return path


@pytest.fixture(scope="module")
def store(path):
    return Store(path)


@pytest.fixture(scope="module")
def other(path):
    """A second store on the database file at `path`, as another process would have."""
    return Store(path)


@pytest.fixture(scope="module")
def few_objects():
    """Exclude existing objects from garbage collection (gc.freeze), because `run` collects garbage each time."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def run(tmp_path, monkeypatch, command, few_objects):
    """A function that runs a command in the test's folder and returns (exit code, standard output, standard error)."""
    monkeypatch.setenv("OAL_DB", "studio.db")
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        ended = command(*arguments)
        gc.collect()  # a separate process would close its database when it ends
        return ended

    return run
