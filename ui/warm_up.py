"""What the first person would wait for: imports, before the server answers, for two threads that import numba at once
may both fail; and machine code, in the background."""

import gc
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from streamlit import App

from oal_engine import datasets
from oal_engine.datasets import demo, reading
from oal_engine.places import database_path
from oal_engine.sessions.backups import keep_backups
from oal_engine.sessions.insights import curves, drift
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import NEGATIVE, POSITIVE, create
from oal_engine.store import Store

TEXTS = 40  # enough for similar wording

_warm = threading.Event()


def is_warm() -> bool:
    """Whether the demos, and a new session as the form begins it, start at once."""
    return _warm.is_set()


@asynccontextmanager
async def lifespan(app: App) -> AsyncIterator[None]:
    """What an app does beside serving: it warms up, and keeps backups unless OAL_BACKUPS is 0."""
    threading.Thread(target=practise, daemon=True).start()
    stopped = threading.Event()
    if os.environ.get("OAL_BACKUPS") != "0":
        threading.Thread(target=keep_backups, args=(database_path(), stopped), daemon=True).start()
    yield
    stopped.set()


def _own_texts(store: Store, dataset: int) -> int:
    """A data set of a few texts with the features of an import."""
    texts = [store.item(dataset, position)["text"] for position in range(TEXTS)]
    ids = [*map(str, range(TEXTS))]
    items = reading.Items(ids, texts, None, [], [""] * TEXTS, np.zeros(TEXTS, np.int8), {})
    return datasets.add(store, "own texts", datasets.table(items), "own.txt")


def practise() -> None:
    """Label and correct an item of a session as each demo begins it, and of one over a file of texts as an import makes
    them, in a database that nobody sees; then keep the garbage collector off what stays loaded."""
    try:
        with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            store = Store(Path(folder) / "practice.db")
            dataset = demo.dataset(store, "tweets")
            sessions = [Session(store, create(store, dataset, **each.session)) for each in demo.DEMOS.values()]
            curves.of_session(sessions[0])
            drift.noticed(sessions[0])
            _warm.set()
            for session in (*sessions, Session(store, create(store, _own_texts(store, dataset), "auto"))):
                if asked := session.current:
                    session.answer("answer", asked.id, POSITIVE)
                    session.correct("correction", asked.id, NEGATIVE)
            store.close()
    finally:
        _warm.set()
    gc.collect()
    gc.freeze()
