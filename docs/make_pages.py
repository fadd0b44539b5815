"""Write docs/replay.html and docs/race.html, to which the README links: python -m docs.make_pages"""

from pathlib import Path
from tempfile import TemporaryDirectory

from oal_engine.datasets import demo
from oal_engine.experiments import race
from oal_engine.sessions import look_back
from oal_engine.sessions.files import player
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store

FOLDER = Path(__file__).parent


def labeled_demo(store, answers=None):
    """Begin a session of the demo on tweets and answer its questions by the labels in the data. Return the session.

    answers: number of answers (None: until the end).
    """
    dataset = demo.dataset(store, "tweets")
    session = Session(store, create(store, dataset, **demo.DEMOS["tweets"].session))
    while (asked := session.place.asked) and asked.number != answers:
        session.answer(f"answer {asked.number}", asked.id, int(session.y[asked.item]))
    return session


def replay():
    """Return the HTML page of the demo session on tweets, with every question answered by the label in the data."""
    with TemporaryDirectory() as folder:
        store = Store(Path(folder) / "demo.db")
        session = labeled_demo(store)
        page = player.page(look_back.Trace(store, session.id), texts=True)
        store.close()
    return page


def race_of_clouds():
    """Return the HTML page of the race that the Compare page shows first."""
    return race.page(None, [*race.TUNED.items()], race.BUDGET, race.SEED)


PAGES = {"replay.html": replay, "race.html": race_of_clouds}

if __name__ == "__main__":
    for name, make in PAGES.items():
        FOLDER.joinpath(name).write_bytes(make())
