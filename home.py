"""Home: sessions and data sets at a glance, one click to the demo."""

import os
from typing import Any

import streamlit as st

from oal_engine.datasets.demo import FIVE_QUESTIONS
from oal_engine.sessions.backups import failure
from oal_engine.sessions.settings import create
from oal_engine.store import Store
from ui import page
from ui.address import MAX_VALUE_CHARACTERS
from ui.background import home_drawn
from ui.data.own_data import own_data_form, show_sample
from ui.home.new_session import new_session
from ui.home.sessions import show_dataset, show_removed, show_session, start, try_demo
from ui.page import complain, guarded, open_page

STEPS = "You answer a few questions", "A model learns from each answer", "It lists the rare ones among the rest"
MORE_DEMOS = {  # label: key, data of the demo, settings
    "Abstracts": ("demo-abstracts", "abstracts", None),
    "Five questions about each abstract": ("demo-questions", "abstracts", FIVE_QUESTIONS),
    "Audit an LLM's labels": ("demo-judged", "judged", None),
}


def welcome(store: Store, has_data: bool, has_sessions: bool) -> None:
    """Show an introduction to the app, and the buttons and fields with which to begin."""
    st.title("Find the rare ones", anchor=False)
    own_data_form(store)
    with st.container(horizontal=True):
        if st.button("Try the demo", type="secondary" if has_data else "primary", key="demo"):
            try_demo(store, "tweets")
        with st.popover("More demos"):
            for label, (key, data, settings) in MORE_DEMOS.items():
                if st.button(label, key=key, width="stretch"):
                    try_demo(store, data, settings)
        if has_data and st.button("New session", type="secondary" if has_sessions else "primary", key="new"):
            st.session_state["form"] = True
            st.rerun()


def show_lists(store: Store, datasets: list[dict[str, Any]], sessions: list[dict[str, Any]]) -> None:
    """List the sessions (or show the steps of a first one) and the data sets."""
    left, right = st.columns([7, 3], gap="large")
    with left:
        if sessions:
            st.header("Sessions", anchor=False)
        else:
            picture, steps = page.drawing("steps.svg"), "".join(f"<li>{step}</li>" for step in STEPS)
            st.html(f'<figure class="oal-steps"><img alt="" src="{picture}"><ol>{steps}</ol></figure>')
        for row in sessions:
            show_session(store, row)
        show_removed(store)
        if sessions and page.owns() and os.environ.get("OAL_BACKUPS") != "0" and (failed := failure(store)):
            complain(f"The last backup failed. {failed}")
    with right:
        if datasets:
            st.header("Data sets", anchor=False)
        for row in datasets:
            show_dataset(row)


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
        show_lists(store, datasets, sessions)
home_drawn.set()
