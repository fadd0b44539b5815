"""Fixtures of the tests of the store: a new database, and a session on a small data set."""

import pytest

from oal_engine.store import Store
from tests.harness.tables import DATASET, ITEMS, SESSION, unpacked


@pytest.fixture
def path(tmp_path):
    return tmp_path / "studio.db"


@pytest.fixture
def store(path):
    return Store(path)


@pytest.fixture
def session(store):
    """The id of a session on a data set of three items."""
    return store.add_session(SESSION | {"dataset": store.add_dataset(DATASET, ITEMS, [("term", 2)])})


@pytest.fixture
def frozen(tmp_path):
    """The path of a database as 0.3.0 wrote it, with a session of every kind."""
    return unpacked("0_3_0", tmp_path / "frozen")
