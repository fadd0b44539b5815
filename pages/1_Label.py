"""Label: the card, and beside it what the session has come to."""

from random import uniform

import streamlit as st

from ui import guidelines, history, learned, progress, pushed
from ui.arrivals import arrivals, remember
from ui.card import card
from ui.desk import desk as open_desk
from ui.figures import told
from ui.page import chosen_session, guarded, heading, note, open_page
from ui.page import store as open_store


@st.fragment
@guarded()
def label(desk):
    card(f"card-{desk.session.id}", desk.handle, desk.payload)
    remember(desk.session)


REFRESH = 2.5, 3.5  # seconds between two looks at a panel; each page has its own, so that they do not come all at once


def watch(desk):
    """The panel that is open, and what has come in; no other panel is drawn, so that none keeps the card waiting."""
    panels = {
        "Progress": progress.show,
        "History": history.show,
        "Passed" if desk.session.multiclass else "Pushed": pushed.show,
        "Learned": learned.show,
        "Guidelines": guidelines.show,
    }
    for tab, show in zip(st.tabs(list(panels), key="panel", on_change="rerun"), panels.values()):
        if tab.open:
            with tab, guarded():
                desk.refresh()
                arrivals(desk.session)
                show(desk)


open_page("Label")
with guarded():
    session = chosen_session(open_store())
    if session is None:
        note("There is no session yet.")
        st.page_link("home.py", label="Start one on the home page")
        st.stop()
    desk = open_desk(session)
    settings = desk.session.settings
    heading(settings.name, f"{told(desk.session.strategy)} on {settings.dataset_name}")
    left, right = st.columns([5, 3], gap="large")
    with left:
        label(desk)
    with right:
        st.fragment(watch, run_every=uniform(*REFRESH))(desk)
