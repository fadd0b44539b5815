"""Notice new items, and changes made on other pages, while a Label page is open."""

import streamlit as st

from oal_engine.sessions.session import Session

from ...page import annotator, note
from ..card_server import CardServer


def remember(server: CardServer) -> None:
    """Remember the state of the session that the card was drawn from."""
    session = server.session
    st.session_state[f"shown-{session.id}"] = (*session.changed, annotator() in server.idle)


def arrivals(session: Session) -> None:
    """Say how many items have arrived since the page was opened, and redraw the card if its question may have changed.

    That is after a correction, a mark that trains or another person's arrival; for an idle card also when the stream
    has grown or a question is free again.
    """
    changes, items = session.changed
    old_changes, old_items, idle = st.session_state.get(f"shown-{session.id}", (changes, items, False))
    if changes != old_changes or (idle and (items > old_items or session.has_for(annotator()))):
        st.rerun()
    new = items - st.session_state.setdefault(f"opened-{session.id}", items)
    if new:
        note(f"{new:,} new item{'s have' if new > 1 else ' has'} arrived.")
