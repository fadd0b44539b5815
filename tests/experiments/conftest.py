"""The fixture of the tests of experiments: a store with small data sets."""

import pytest

from tests.harness.comparing import stored


@pytest.fixture
def store(tmp_path):
    """A store with data sets to compare on."""
    return stored(tmp_path)
