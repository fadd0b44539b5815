"""Label: the card, and beside it what the session has come to."""

from random import uniform

import streamlit as st

from ui.card_server import CardServer, card_server
from ui.components.card import card
from ui.ending import ending
from ui.page import chosen_session, guarded, heading, note, open_page
from ui.page import store as open_store
from ui.panels import check, guidelines, history, learned, progress, pushed
from ui.panels.arrivals import arrivals, remember

REFRESH = 2.5, 3.5  # seconds between two looks at a panel; each page has its own, so that they do not come all at once


@st.fragment
@guarded()
def label(server: CardServer) -> None:
    card(f"card-{server.session.id}", server.handle, server.payload)
    remember(server.session)
    ending(server)


def watch(server: CardServer) -> None:
    """The panel that is open, and what has come in; no other panel is drawn, so that none keeps the card waiting."""
    panels = {
        "Progress": progress.show,
        "History": history.show,
        "Passed" if server.session.multiclass else "Pushed": pushed.show,
        "Check": check.show,
        "Learned": learned.show,
        "Guidelines": guidelines.show,
    }
    for tab, show in zip(st.tabs(list(panels), key="panel", on_change="rerun"), panels.values()):
        if tab.open:
            with tab, guarded():
                server.refresh()
                arrivals(server.session)
                show(server)


open_page("Label")
with guarded():
    session = chosen_session(open_store())
    if session is None:
        note("There is no session yet.")
        st.page_link("home.py", label="Start one on the home page")
        st.stop()
    server = card_server(session)
    settings = server.session.settings
    heading(settings.name, f"{settings.algorithm} on {settings.dataset_name}")
    left, right = st.columns([5, 3], gap="large")
    with left:
        label(server)
    with right:
        st.fragment(watch, run_every=uniform(*REFRESH))(server)
