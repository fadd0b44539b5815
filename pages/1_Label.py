"""Label: the card, and beside it what the session has come to."""

from random import uniform

import streamlit as st

from ui.components.card import card
from ui.label.card_server import CardServer, card_server
from ui.label.ending import ending
from ui.label.panels import check, guidelines, history, learned, progress, pushed, team
from ui.label.panels.arrivals import arrivals, remember
from ui.page import chosen_session, guarded, heading, note, open_page, role
from ui.page import store as open_store

REFRESH = 2.5, 3.5  # seconds between two looks at a panel; each page has its own, so that they do not come all at once


@st.fragment
@guarded()
def label(server: CardServer) -> None:
    if is_reader(server):
        note("You may read this session: Replay has its questions and answers.")
        st.page_link("pages/3_Replay.py", label="Replay", query_params={"session": str(server.session.id)})
        return
    card(f"card-{server.session.id}", server.handle, server.payload)
    remember(server)
    ending(server)


def is_reader(server: CardServer) -> bool:
    return role(server.session.store, server.session.id) == "reader"


def watch(server: CardServer) -> None:
    """The panel that is open, and what has come in; no other panel is drawn, so that none keeps the card waiting."""
    answering = {
        "History": history.show,
        "Passed" if server.session.multiclass else "Pushed": pushed.show,
        "Check": check.show,
    }
    panels = {
        "Progress": progress.show,
        **({} if is_reader(server) else answering),
        "Learned": learned.show,
        "Guidelines": guidelines.show,
    }
    if server.session.is_shared:
        panels["Team"] = team.show
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
