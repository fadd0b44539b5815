import os
import re
import shutil
import sys
import tempfile

import hypothesis
import pytest

from tests.harness import ROOT, SHARED

MEMORY, ROOM_BYTES = "/dev/shm", 8 * 2**30
if os.path.isdir(MEMORY) and shutil.disk_usage(MEMORY).free > ROOM_BYTES:  # every commit waits 7 ms for a disk
    tempfile.tempdir = os.environ["TMPDIR"] = MEMORY

if sys.dont_write_bytecode:  # then every process compiles all packages anew, which takes most of its start
    sys.dont_write_bytecode, sys.pycache_prefix = False, str(ROOT / "build" / "bytecode")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A change is judged by the same histories and texts each time; HYPOTHESIS_PROFILE=default looks for others.
hypothesis.settings.register_profile("same", derandomize=True, database=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

FIRST = ("kernel", "browser", "test_tools")  # kernel compiles for all other tests; the others must not come last


def pytest_xdist_auto_num_workers(config):
    """Return two workers per core, because browser tests wait half of their time. If only tests/house is run, return
    one per core: its tests never wait, and every worker imports all their modules."""
    return (1 if config.args == ["tests/house"] else 2) * (os.cpu_count() or 1)


def pytest_ignore_collect(collection_path, config):
    """Do not even import a module whose tests are all slow or rare if such tests are not run."""
    text = collection_path.read_text(encoding="utf-8") if collection_path.suffix == ".py" else ""
    marks = re.findall(r"^pytestmark = \[?pytest\.mark\.(slow|rare)\b", text, re.MULTILINE)
    return any(f"not {mark}" in config.option.markexpr for mark in marks) or None


def pytest_collection_modifyitems(items):
    """Sort the tests so that the folders and modules in FIRST come first."""
    items.sort(key=lambda item: min((*FIRST, name).index(name) for name in (item.path.parent.name, item.path.stem)))


@pytest.fixture
def shared():
    """A function that returns the path of a real data file by its name, or skips the test if the file is missing."""

    def find(name):
        path = SHARED / name
        if not path.exists():
            pytest.skip(f"needs ../shared/data/{name}")
        return path

    return find


@pytest.fixture
def command(monkeypatch, capsys):
    """A function that runs the command line in this process and returns (exit code, output, errors)."""
    from oal_engine.cli import main as cli

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["oal_engine", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code or 0, *capsys.readouterr()

    return run


@pytest.fixture
def app_store(tmp_path, monkeypatch):
    """The store of a fresh app, whose pages run without a browser."""
    import streamlit as st

    from oal_engine.store import Store
    from tests.harness.pages import read_here

    monkeypatch.setattr("oal_engine.datasets.import_process._run", read_here)
    monkeypatch.setattr("ui.api.server._turns", {})  # no test uses up the requests of the next
    monkeypatch.setenv("OAL_DB", str(tmp_path / "studio.db"))
    monkeypatch.chdir(ROOT)
    st.cache_resource.clear()
    yield Store(tmp_path / "studio.db")
    st.cache_resource.clear()


@pytest.fixture(scope="session")
def browser():
    """A real Chromium. If it is missing, the test is skipped, or fails if CI requires browser tests."""
    from tests.harness.browser import chromium

    with chromium() as launched:
        yield launched


@pytest.fixture(scope="session")
def context(browser):
    """The browser context that the visitors of most tests share."""
    from tests.harness.browser import warmed

    with warmed(browser) as opened:
        yield opened


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Save a screenshot of every page that a failed test had open, in build/failed."""
    report = yield
    if report.failed and call.when == "call" and "visit" in item.funcargs:
        item.funcargs["visit"].photograph(ROOT / "build" / "failed", item.name)
    return report


@pytest.fixture
def visit(context):
    """A function that opens the app in a browser. The test fails if the browser's console reports a problem."""
    from tests.harness.browser import Visitors

    visitors = Visitors(context)
    yield visitors
    visitors.leave()
    assert visitors.problems == []
