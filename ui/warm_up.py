"""What the first person would wait for, done in the background from the server's start: imports, and machine code."""

import threading
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_warm = threading.Event()


def is_warm():
    """Whether the demos, and a new session as the form begins it, start at once."""
    return _warm.is_set()


@asynccontextmanager
async def warm_up(app):
    """The lifespan of an app that warms up while it serves."""
    threading.Thread(target=_practise, daemon=True).start()
    yield


def _practise():
    """Label an item of a session as each demo begins it, in a database that nobody sees."""
    from oal_engine.datasets import demo
    from oal_engine.sessions.session import Session
    from oal_engine.sessions.settings import POSITIVE, create
    from oal_engine.store import Store

    from . import charts

    try:
        with TemporaryDirectory() as folder:
            store = Store(Path(folder) / "practice.db")
            dataset = demo.dataset(store, "tweets")
            for each in demo.DEMOS.values():
                session = Session(store, create(store, dataset, **each.session))
                session.answer(each.name, session.place.asked.id, POSITIVE)
                charts.of_session(session)
            store.close()
    finally:
        _warm.set()
