"""Notice new items, and changes made on other pages, while a Label page is open."""

import streamlit as st

from oal_engine.sessions.session import Session
from oal_engine.store import StorageError

from ...page import annotator, note
from ..card_server import CardServer


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
