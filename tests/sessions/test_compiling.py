"""What an open session runs is compiled in a process of its own, and the session goes on with the same bits."""

import os
import signal
import subprocess
import sys
from time import sleep

import pytest

from oal_engine.datasets import demo
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from tests.harness import ROOT
from ui import background

ANSWERS = """
import sys
from pathlib import Path
from oal_engine.datasets import demo
from oal_engine.kernel import jit
from oal_engine.sessions import compiling
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store

folder, compiles = Path(sys.argv[1]), sys.argv[2] == "compile"
store = Store(folder / "studio.db")
session = Session(store, create(store, demo.dataset(store, "tweets"), **demo.DEMOS["tweets"].session))
for k in range(30):
    if k == 10 and compiles:
        print("begins", flush=True)
        compiling.compile_in_child(store.path, session.id)
    session.answer(f"answer {k}", session.current.id, 1 if k % 5 == 0 else -1)
print(session.digest(), "numba" in sys.modules)
"""


@pytest.fixture
def start(tmp_path):
    """A function that starts a program with a session on a machine that has compiled nothing."""

    def started(name):
        (tmp_path / name).mkdir()
        environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", ANSWERS, str(tmp_path / name), name]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    return started


@pytest.mark.slow
def test_a_session_goes_on_in_machine_code_with_the_same_bits(start, tmp_path):
    plain = start("plain").communicate()[0].split()
    compiled = start("compile").communicate()[0].split()
    assert ["begins", plain[0], "True"] == compiled
    assert "False" == plain[1]
    assert any("until_query" in path.name for path in (tmp_path / "cache").rglob("*.nbi"))


@pytest.mark.slow
def test_the_child_ends_with_a_program_that_is_killed(start, tmp_path):
    program = start("compile")
    assert "begins\n" == program.stdout.readline()
    children = ["pgrep", "--full", f"oal_engine.sessions.compiling {tmp_path}"]
    while subprocess.run(children, capture_output=True).returncode:
        sleep(0.05)
    program.send_signal(signal.SIGKILL)
    program.communicate()
    while not subprocess.run(children, capture_output=True).returncode:
        sleep(0.05)


def test_a_server_compiles_each_kind_of_session_once(app_store, monkeypatch):
    compiled, dataset = [], demo.dataset(app_store, "tweets")
    monkeypatch.setattr(background, "_compiled", set())
    monkeypatch.setattr(background, "compile_in_child", lambda path, session: compiled.append(session))
    for number, algorithm in enumerate(("auto", "auto", "PA-I"), 1):
        assert number == create(app_store, dataset, algorithm, budget=20)
        background._compile(Session(app_store, number))
    assert [1, 3] == compiled


def test_a_server_that_can_start_no_process_labels_in_plain_python(app_store, monkeypatch):
    def refused(*arguments, **options):
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(background, "_compiled", set())
    monkeypatch.setattr("subprocess.Popen", refused)
    number = create(app_store, demo.dataset(app_store, "tweets"), "auto", budget=20)
    background._compile(Session(app_store, number))
    assert not background._compiled
