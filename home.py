"""Home: sessions and data sets at a glance, one click to the demo."""

import os
from datetime import UTC, datetime

import streamlit as st

from oal_engine.sessions.backups import age_of_newest
from oal_engine.sessions.settings import create
from ui import page
from ui.data.own_data import own_data_form, show_sample
from ui.home.new_session import new_session
from ui.home.sessions import show_dataset, show_removed, show_session, start, try_demo
from ui.page import complain, guarded, note, open_page, small_note
from ui.page import store as open_store

TITLE = "Label what matters in a stream"
ABOUT = (
    "Label a stream of texts or feature vectors in which the interesting class is rare. An online learner decides "
    "which items are worth one of your labels, asks you, and learns from each answer at once."
)
NO_SESSION = "No session yet: try the demo, or import data and start one."
NO_DATA = "No data sets yet. The demo brings its own."

open_page("Home")
with guarded():
    store = open_store()
    st.title(TITLE, anchor=False)
    st.html(f'<p style="max-width:46rem;font-size:1.08rem;line-height:1.5;margin:0">{ABOUT}</p>')
    datasets, sessions = page.datasets(store), page.sessions(store)
    if wanted := st.query_params.pop("new", None):
        st.session_state["form"] = True
        if wanted in [str(row["id"]) for row in datasets]:
            st.session_state["new-dataset"] = int(wanted)
    with st.container(horizontal=True):
        if st.button("Try the demo", type="secondary" if datasets else "primary", key="demo"):
            try_demo(store, "tweets")
        if st.button("Demo with abstracts", key="demo-abstracts"):
            try_demo(store, "abstracts")
        if datasets and st.button("New session", type="secondary" if sessions else "primary", key="new"):
            st.session_state["form"] = not st.session_state.get("form", False)
        if st.button("Import data", key="import"):
            st.switch_page("pages/4_Data.py")
    own_data_form(store)

    if datasets and st.session_state.get("form"):
        with st.container(border=True):
            st.header("New session", anchor=False)
            sample = st.container()
            settings, sent = new_session(datasets)
            with sample:
                show_sample(store, next(row for row in datasets if row["id"] == settings["dataset"]))
            if sent:
                try:
                    start(create(store, **settings))
                except ValueError as error:
                    complain(error)

    left, right = st.columns([7, 3], gap="large")
    with left:
        st.header("Sessions", anchor=False)
        if not sessions:
            note(NO_SESSION)
        for row in sessions:
            show_session(store, row)
        show_removed(store)
        if sessions and page.owns() and os.environ.get("OAL_BACKUPS") != "0":
            small_note(age_of_newest(store, datetime.now(UTC)))
    with right:
        st.header("Data sets", anchor=False)
        if not datasets:
            note(NO_DATA)
        for row in datasets:
            show_dataset(row)
