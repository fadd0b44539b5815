"""Rows written to the store without the engine: a data set of three items, a session, questions and answers; and
databases as earlier versions wrote them."""

import tarfile

from oal_engine.store import comparisons, database, datasets, log, now, sessions
from tests.harness import ROOT

DATASET = {
    "name": "d", "kind": "vectors", "source": "d.npy", "items": 3, "features": 1, "positives": 0, "negatives": 0,
    "positive": "", "scaling": "{}", "folder": "x",
}  # fmt: skip
SESSION = {
    "name": "s", "algorithm": "PAA-I", "learner": "pa-i", "rule": "symmetric", "parameters": "{}", "budget": 9,
    "seed": 0, "items": 3, "shuffled": 0, "positive_name": "a", "negative_name": "b", "alpha_p": 0.5, "c_p": 0.9,
    "metric": "sum", "theta": 0.0, "rho": 0.0, "averaged": 0, "engine": "0",
}  # fmt: skip
ITEMS = [("a", "text a", "", 0), ("b", "text b", "yes", 1), ("c", None, "no", -1)]
TABLES = ("datasets", "items", "vocabulary", "sessions", "questions", "events", "labels", "digests")


def unpacked(version, folder):
    """Unpack the database of a version, such as 0_3_0, into a folder. Return its path."""
    with tarfile.open(ROOT / "tests" / "store" / "versions" / f"{version}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "studio.db"


def replace_everywhere(monkeypatch, name, function):
    """Replace a function in every module of the store that defines or imports it."""
    for module in (database, datasets, log, sessions, comparisons):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, function)


def ask(store, session, parent=0, branch=0, number=1, item=0):
    """Store a question without an answer. Return its id."""
    facts = {"round": item, "item": item, "margin": 0.5, "probability": 1.0, "draw": 0.1, "predicted": 1}
    question = store.put_questions(session, parent, {branch: facts | {"asked_at": now()}})[branch]
    store.number_question(session, question, number)
    return question


def answer(store, session, question, label, id=None, annotator="", **more):
    """Store an answer to a question. Return the number of the event."""
    return store.put_event(session, more.pop("kind", "answered"), id, annotator, question=question, label=label, **more)


def undo(store, session, question, id=None):
    """Store that the answer to a question was taken back."""
    store.put_event(session, "undone", id, question=question)


def rows(store):
    """Count the rows of every table: {table: count}."""
    return {table: store.number(f"SELECT count(*) FROM {table}") for table in TABLES}


def write(store, session, name):
    """Ask and answer 100 questions in one session."""
    for number in range(100):
        with store.transaction():
            store.answers(session)
            question = ask(store, session, parent=number, number=number)
            answer(store, session, question, 1, f"{name} {number}", name)
