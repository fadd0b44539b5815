"""Home: sessions and data sets at a glance, one click to the demo."""

import os
from datetime import UTC, datetime
from typing import Any

import streamlit as st

from oal_engine.datasets.demo import FIVE_QUESTIONS
from oal_engine.sessions.backups import age_of_newest, failure
from oal_engine.sessions.settings import create
from oal_engine.store import Store
from ui import page
from ui.address import MAX_VALUE_CHARACTERS
from ui.background import home_drawn
from ui.data.own_data import own_data_form, show_sample
from ui.home.new_session import new_session
from ui.home.sessions import show_dataset, show_removed, show_session, start, try_demo
from ui.page import complain, guarded, note, open_page, small_note

ABOUT = (
    "Label a stream of texts or feature vectors in which the interesting class is rare. An online learner decides "
    "which items are worth one of your labels, asks you, and learns from each answer at once."
)


def welcome(store: Store, has_data: bool, has_sessions: bool) -> None:
    """Show an introduction to the app, and the buttons and fields with which to begin."""
    st.title("Label what matters in a stream", anchor=False)
    st.html(f'<p style="max-width:46rem;font-size:1.08rem;line-height:1.5;margin:0">{ABOUT}</p>')
    with st.container(horizontal=True):
        if st.button("Try the demo", type="secondary" if has_data else "primary", key="demo"):
            try_demo(store, "tweets")
        if st.button("Demo with abstracts", key="demo-abstracts"):
            try_demo(store, "abstracts")
        if st.button("Demo with five questions", key="demo-questions"):
            try_demo(store, "abstracts", FIVE_QUESTIONS)
        if st.button("Audit an LLM's labels", key="demo-judged"):
            try_demo(store, "judged")
        if has_data and st.button("New session", type="secondary" if has_sessions else "primary", key="new"):
            st.session_state["form"] = True
            st.rerun()
        if st.button("Import data", key="import"):
            st.switch_page("pages/4_Data.py")
    own_data_form(store)


def open_form(store: Store, datasets: list[dict[str, Any]]) -> None:
    """Show the form of a new session next to some items of its data set."""
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.title("New session", anchor=False)
        if st.button("Close", icon=":material/close:", key="close"):
            st.session_state["form"] = False
            st.rerun()
    left, right = st.columns([3, 2], gap="large")
    with left:
        settings, sent = new_session(datasets)
    with right:
        show_sample(store, next(row for row in datasets if row["id"] == settings["dataset"]))
    if sent:
        try:
            start(create(store, **settings))
        except ValueError as error:
            with left:
                complain(error)


open_page("Home")
if missing := st.query_params.get("missing"):
    complain(f"The app has no page {missing[:MAX_VALUE_CHARACTERS]}. Choose one above.")
with guarded():
    store = page.store()
    datasets, sessions = page.datasets(store), page.sessions(store)
    if wanted := st.query_params.pop("new", None):
        st.session_state["form"] = True
        if wanted in [str(row["id"]) for row in datasets]:
            st.session_state["new-dataset"] = int(wanted)
    if datasets and st.session_state.get("form"):
        open_form(store, datasets)
    else:
        welcome(store, bool(datasets), bool(sessions))

    left, right = st.columns([7, 3], gap="large")
    with left:
        st.header("Sessions", anchor=False)
        if not sessions:
            note("No session yet: try the demo, or import data and start one.")
        for row in sessions:
            show_session(store, row)
        show_removed(store)
        if sessions and page.owns() and os.environ.get("OAL_BACKUPS") != "0":
            if failed := failure(store):
                complain(f"The last backup failed. {failed}")
            small_note(age_of_newest(store, datetime.now(UTC)))
    with right:
        st.header("Data sets", anchor=False)
        if not datasets:
            note("No data sets yet. The demo brings its own.")
        for row in datasets:
            show_dataset(row)
home_drawn.set()
