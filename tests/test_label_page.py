"""What stands beside the card: progress, history, what was pushed, what was learned, guidelines."""

import html

import numpy as np
import pytest
from conftest import ROOT
from streamlit.testing.v1 import AppTest

from oal_engine import datasets, formats, learned
from oal_engine.session import SKIP, Progress, Session, create
from oal_engine.store import Store
from ui import charts, feed, history, pushed, spending, stopping
from ui.desk import Desk

VIEW = feed.VIEW


@pytest.fixture
def store(tmp_path, monkeypatch):
    """The store of an app of its own."""
    import streamlit as st

    monkeypatch.setenv("OAL_DB", str(tmp_path / "studio.db"))
    monkeypatch.chdir(ROOT)
    st.cache_resource.clear()
    yield Store(tmp_path / "studio.db")
    st.cache_resource.clear()


def kept(store, tmp_path, name="texts", items=400, label=True, kinds=2):
    """A data set of texts, every fourth of them `good` and of class 1, some of them trying to be markup."""
    lines = ["text,label"]
    for k in range(items):
        word = "good" if k % 4 == 0 else f"other{k % kinds}"
        lines.append(f"<b>item</b> {k} **{word}** Straße{k % 7},{k % 4 == 0 if kinds == 2 else word}")
    path = tmp_path / f"{name}.csv"
    path.write_text("\n".join(lines))
    columns = formats.Columns(("text",), "label" if label else None, multiclass=kinds > 2)
    if label and kinds == 2:
        columns = formats.Columns(("text",), "label", positive=("True",))
    return datasets.import_file(store, path, name, columns)[0]


def answered(store, dataset, answers=60, **settings):
    """A session in which so many questions were answered rightly, every tenth of them skipped."""
    settings = {"learner": "pa-i", "rule": "margin", "parameters": {"C": 1, "delta": 0.5}, "budget": 200} | settings
    session = Session(store, create(store, dataset, **settings))
    for k in range(answers):
        asked = session.place.asked
        good = session.dataset.item(asked.item)["text"].split("**")[1]
        label = {name: k for k, name in session.names.items()}[good] if session.multiclass else 1 if good == "good" else -1
        session.answer(f"e{k}", asked.id, SKIP if k % 10 == 9 else label, "anna" if k % 2 else "ben", 1.25)
    return session


def desk(session):
    """The server's side of the card of a session."""
    found = object.__new__(Desk)
    return found
