"""Warm-up, so that the first user does not wait: imports before the server answers (two threads that import numba at
once may both fail), then compilation in the background."""

import gc
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from streamlit import App

from oal_engine.datasets import demo
from oal_engine.places import database_path
from oal_engine.sessions import compiling
from oal_engine.sessions.backups import keep_backups
from oal_engine.sessions.insights import curves, drift
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store

SERVER = Path(__file__).parents[1]  # the root of a clone, from which the engine is imported
HAND_OVER_SECONDS = 0.0005  # switch interval of the interpreter; an answer passes between threads several times
YOUNG_OBJECTS = 10_000  # new objects per garbage collection; Python's 700 stop a busy server every 20 s for a full one
SECONDS_TO_END = 2  # that a stopping server waits for its compiler

_warm = threading.Event()
_compilers: list[subprocess.Popen[bytes]] = []  # the compiler of this server, once it was started


def is_warm() -> bool:
    """Tell whether the learners of the demos and of the form's default session are compiled."""
    return _warm.is_set()


def is_compiling() -> bool:
    """Tell whether this server's subprocess that compiles all algorithms is still running."""
    return any(process.poll() is None for process in _compilers)


@asynccontextmanager
async def lifespan(app: App) -> AsyncIterator[None]:
    """Run the background work of the app: the warm-up, the compilation of all algorithms unless OAL_COMPILE is 0, and
    backups unless OAL_BACKUPS is 0."""
    sys.setswitchinterval(HAND_OVER_SECONDS)
    gc.set_threshold(YOUNG_OBJECTS)
    stopped = threading.Event()
    compiler = threading.Thread(target=_compile, args=(stopped,), daemon=True)
    compiler.start()
    if os.environ.get("OAL_BACKUPS") != "0":
        threading.Thread(target=keep_backups, args=(database_path(), stopped), daemon=True).start()
    yield
    stopped.set()
    compiler.join(SECONDS_TO_END)


def _compile(stopped: threading.Event) -> None:
    """Compile the learners of the demos, then all algorithms in a subprocess, which ends with the server."""
    practise()
    done, pairs = compiling.progress()
    if done < pairs and os.environ.get("OAL_COMPILE") != "0":
        with subprocess.Popen([sys.executable, "-m", compiling.__name__], cwd=SERVER) as process:
            _compilers[:] = [process]
            while process.poll() is None and not stopped.wait(1):
                pass
            process.terminate()


def practise() -> None:
    """Warm up in a temporary database. Answer and correct an item in three sessions (two with the settings of demos,
    one on imported texts), and begin an audit and a session that asks several questions.

    Then exempt the objects loaded so far from garbage collection, since they stay loaded.
    """
    try:
        with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            store = Store(Path(folder) / "practice.db")
            dataset = demo.dataset(store, "tweets")
            chosen = (demo.DEMOS[which].session for which in ("tweets", "abstracts"))
            sessions = [Session(store, create(store, dataset, **each)) for each in chosen]
            curves.of_session(sessions[0])
            drift.noticed(sessions[0])
            _warm.set()
            for each in sessions:
                compiling.answer_one(each)
            compiling.answer_one(Session(store, create(store, compiling.practice_data(store, "mixed"), "auto")))
            Session(store, create(store, dataset, **demo.FIVE_QUESTIONS))
            Session(store, create(store, demo.dataset(store, "judged"), **demo.DEMOS["judged"].session))
            store.close()
    finally:
        _warm.set()
    gc.collect()
    gc.freeze()
