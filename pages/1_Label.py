"""The Label page: the labeling card, and panels with the progress of the session."""

from collections.abc import Callable
from functools import partial

import streamlit as st

from oal_engine.kernel.spending import FIND
from oal_engine.sessions.session import Session
from oal_engine.store import StorageError
from ui.components import pulse
from ui.components.card import card
from ui.label.card_server import CardServer, card_server
from ui.label.ending import ending
from ui.label.panels import check, find, guidelines, history, learned, progress, pushed, team
from ui.page import annotator, chosen_session, guarded, heading, note, open_page, role, stay_in
from ui.page import store as open_store

A_DAY = 24 * 60 * 60  # seconds; only a fragment with an interval makes a browser ask a restarted server for its page


@st.fragment
@guarded()
def label(server: CardServer) -> None:
    """Show the labeling card or, to readers, a link to the Replay page."""
    if is_reader(server):
        note("You may read this session: Replay has its questions and answers.")
        st.page_link("pages/3_Replay.py", label="Replay", query_params={"session": str(server.session.id)})
        return
    card(server, is_idle := remember(server, annotator()))
    if is_idle:
        ending(server)


def is_reader(server: CardServer) -> bool:
    """Tell whether the user may read the session but not answer in it."""
    return role(server.session.store, server.session.id) == "reader"


def remember(server: CardServer, name: str) -> bool:
    """Remember the state of the session that the card is drawn from. Return whether the card has no question.

    A card that is on the page stays there if the database cannot be read now."""
    session = server.session
    try:
        is_idle = server.is_idle(name)
    except StorageError:
        if f"shown-{session.id}" not in st.session_state:
            raise
        return may_get_more(session)
    st.session_state[f"shown-{session.id}"] = (*session.changed, is_idle)
    return is_idle


def may_get_more(session: Session) -> bool:
    """Tell whether the card has no question, and so may get one even if nothing in the store changes."""
    return st.session_state.get(f"shown-{session.id}", (False,))[-1]


def arrivals(session: Session) -> None:
    """Say how many items have arrived since the page was opened, and redraw the card if its question may have changed.

    The question may change after a correction, a mark that trains, or the arrival of another person. An idle card may
    also get one when the stream has grown, or when a question is free again.
    """
    changes, items = session.changed
    old_changes, old_items, idle = st.session_state.get(f"shown-{session.id}", (changes, items, False))
    if changes != old_changes or (idle and (items > old_items or session.has_for(annotator()))):
        st.rerun()
    if new := items - st.session_state.setdefault(f"opened-{session.id}", items):
        note(f"{new:,} new item{'s have' if new > 1 else ' has'} arrived.")


def watch(server: CardServer) -> None:
    """Draw the panels, and redraw them whenever the session changes, even after an error."""
    stay_in()
    session, seen = server.session, ""
    with guarded():
        fingerprint = session.store.fingerprint(session.id)
        draw_panels(server)
        seen = "" if may_get_more(session) or server.is_computing else fingerprint
    pulse.follow(session.id, seen)


def draw_panels(server: CardServer) -> None:
    """Draw the open panel, and announce new items. Other panels are not drawn, so that they cannot delay the card."""
    server.refresh()
    reader, begun = is_reader(server), server.session.previous is not None
    audited, finds = server.session.settings.audited, server.session.settings.goal == FIND
    answered = {
        "History": history.show,
        **({} if audited or finds else {"Passed" if server.session.multiclass else "Pushed": pushed.show}),
        "Check": check.show,
    }
    more = {
        **(answered if begun and not reader else {}),
        **({"Learned": learned.show} if begun or server.session.settings.all_priors else {}),
        "Guidelines": guidelines.show,
        **({"Team": team.show} if server.session.is_shared else {}),
        **({"For researchers": progress.show_details} if progress.says_much(server) else {}),
    }
    panels = {
        "Progress": progress.show,
        **({} if reader or audited else {"List": find.show}),
        "More": partial(show_open, "more", more),
    }
    arrivals(server.session)
    show_open("panel", panels, server)


def show_open(key: str, panels: dict[str, Callable], server: CardServer) -> None:
    """Show tabs, {name: the function that shows a panel}, and the panel of the open one."""
    for tab, show in zip(st.tabs(list(panels), key=key, on_change="rerun"), panels.values()):
        if tab.open:
            with tab, guarded():
                show(server)


open_page("Label")
with guarded():
    if (session := chosen_session(open_store())) is None:
        note("You have no session yet.")
        st.page_link("home.py", label="Start one on the home page")
        st.stop()
    server = card_server(session)
    heading(server.session.settings.name)
    left, right = st.columns([5, 3], gap="large")
    with left:
        label(server)
    with right:
        st.fragment(watch, run_every=A_DAY)(server)
