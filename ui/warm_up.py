"""Warm-up, so that the first user does not wait: imports before the server answers (two threads that import numba at
once may both fail), then compilation in the background."""

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

N_TEXTS = 40  # enough for the features of similar wording

_warm = threading.Event()


def is_warm() -> bool:
    """Tell whether the learners of the demos and of the form's default session are compiled."""
    return _warm.is_set()


@asynccontextmanager
async def lifespan(app: App) -> AsyncIterator[None]:
    """Run the background work of the app: the warm-up, and backups unless OAL_BACKUPS is 0."""
    threading.Thread(target=practise, daemon=True).start()
    stopped = threading.Event()
    if os.environ.get("OAL_BACKUPS") != "0":
        threading.Thread(target=keep_backups, args=(database_path(), stopped), daemon=True).start()
    yield
    stopped.set()


def _own_texts(store: Store, dataset: int) -> int:
    """Store a data set of a few texts with the same features as an import."""
    texts = [store.item(dataset, position)["text"] for position in range(N_TEXTS)]
    ids = [*map(str, range(N_TEXTS))]
    items = reading.Items(ids, texts, None, [], [""] * N_TEXTS, np.zeros(N_TEXTS, np.int8), {})
    return datasets.add(store, "own texts", datasets.table(items), "own.txt")


def practise() -> None:
    """Label and correct one item of each demo, and of a session on imported texts, in a temporary database.

    Then exempt the objects loaded so far from garbage collection, since they stay loaded.
    """
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
