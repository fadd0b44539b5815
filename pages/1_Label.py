"""Label: the card, and beside it what the session has come to."""

import sqlite3

import streamlit as st

from ui import guidelines, history, learned, progress, pushed
from ui.arrivals import arrivals, remember
from ui.card import card
from ui.desk import desk as open_desk
from ui.figures import told
from ui.page import annotator, chosen_session, complain, guarded_store, heading, note, open_page, stop


@st.fragment
def label(desk, name):
    key = f"card-{desk.session.id}"

    def handle(event):
        done, st.session_state[f"{key}-problem"] = desk.handle(event, name)
        return done

    card(key, handle, lambda review: desk.payload(st.session_state.get(f"{key}-problem"), name, review))
    remember(desk.session)


@st.fragment(run_every=2)
def watch(desk, name):
    """The panel that is open; no other is drawn, so that none keeps the card waiting."""
    panels = {
        "Progress": progress.show,
        "History": history.show,
        "Passed" if desk.session.multiclass else "Pushed": pushed.show,
        "Learned": learned.show,
        "Guidelines": guidelines.show,
    }
    for tab, show in zip(st.tabs(list(panels), key="panel", on_change="rerun"), panels.values()):
        if tab.open:
            with tab:
                try:
                    desk.session.refresh()
                    show(desk, name)
                except (ValueError, sqlite3.Error) as error:
                    complain(error)


open_page("Label")
store = guarded_store()
session = chosen_session(store)
if session is None:
    note("There is no session yet.")
    st.page_link("app.py", label="Start one on the home page")
    st.stop()
try:
    desk = open_desk(session)
except ValueError as error:
    stop(error)
about = desk.session.about
heading(about["name"], f"{told(desk.session.strategy)} on {about['dataset_name']}")
left, right = st.columns([5, 3], gap="large")
with left:
    label(desk, annotator())
    arrivals(desk.session)
with right:
    watch(desk, annotator())
