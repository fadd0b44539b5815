from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared" / "data"


@pytest.fixture
def shared():
    """A function from the name of a real data file to its path; the test skips where the file is missing."""

    def find(name):
        path = SHARED / name
        if not path.exists():
            pytest.skip(f"needs ../shared/data/{name}")
        return path

    return find


@pytest.fixture(scope="session")
def browser():
    """A real Chromium, without which the test skips or fails."""
    from browser import chromium

    with chromium() as found:
        yield found
