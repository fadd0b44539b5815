"""The work of the server in the background: backups, and machine code for the sessions in which people label."""

import gc
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib import import_module

from streamlit import App

from oal_engine.kernel import jit
from oal_engine.places import database_path
from oal_engine.sessions.backups import keep_backups
from oal_engine.sessions.compiling import compile_in_child
from oal_engine.sessions.session import Session

HAND_OVER_SECONDS = 0.0005  # switch interval of the interpreter; an answer passes between threads several times
YOUNG_OBJECTS = 10_000  # new objects per garbage collection; Python's 700 stop a busy server every 20 s for a full one

EARLY = (
    "scipy.sparse", "scipy.special", "pyarrow.compute", "oal_engine.datasets.features.table", "pandas",
    "plotly.graph_objects",
)  # fmt: skip
LATEST_SECONDS = 10  # after which they are imported although nobody opened Home
home_drawn = threading.Event()
_compiled: set[tuple[object, ...]] = set()  # kinds of sessions that this server has compiled or found compiled
_compiling = threading.Lock()  # one child at a time


@asynccontextmanager
async def lifespan(app: App) -> AsyncIterator[None]:
    """Run the background work of the app: backups unless OAL_BACKUPS is 0."""
    jit.compiles_elsewhere = True
    sys.setswitchinterval(HAND_OVER_SECONDS)
    gc.set_threshold(YOUNG_OBJECTS)
    gc.freeze()  # all modules that are loaded by now stay loaded
    stopped = threading.Event()
    threading.Thread(target=_import_early, daemon=True).start()
    if os.environ.get("OAL_BACKUPS") != "0":
        threading.Thread(target=keep_backups, args=(database_path(), stopped), daemon=True).start()
    yield
    stopped.set()


def _import_early() -> None:
    """Import the packages of the first data set and the first session while Home is read, so that no page waits."""
    home_drawn.wait(LATEST_SECONDS)
    for name in EARLY:
        import_module(name)
    if jit.any_on_disk():
        jit.machine_code()


def compile_later(session: Session) -> None:
    """Compile the functions of an open session in a daemon thread, whose child process ends with the server. Without a
    server, as in a script that renders a page, nothing is compiled."""
    if jit.compiles_elsewhere:
        threading.Thread(target=_compile, args=(session,), daemon=True).start()


def _compile(session: Session) -> None:
    state = session.state
    parts = (type(each) for part in state.parts for each in part)
    kind = (session.settings.goal, type(session.dataset.rows), type(state.plan), *parts)
    with _compiling, suppress(OSError):  # a machine without room for a process labels in plain Python
        if kind not in _compiled:
            compile_in_child(session.store.path, session.id)
            _compiled.add(kind)
