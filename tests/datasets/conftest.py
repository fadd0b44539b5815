"""Shared fixtures of the tests of data sets."""

import pytest

from oal_engine.store import Store


@pytest.fixture
def store(tmp_path):
    """An empty database."""
    store = Store(tmp_path / "studio.db")
    yield store
    store.close()
