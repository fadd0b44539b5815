"""What an open page sees of a stream that grows, and of a learner that is changed elsewhere."""

import streamlit as st

from oal_engine.sessions.session import Session

from ...page import annotator, note
from ..card_server import CardServer


def remember(server: CardServer) -> None:
    """Note what the card has just been made of."""
    session = server.session
    st.session_state[f"shown-{session.id}"] = (*session.changed, annotator() in server.idle)


def arrivals(session: Session) -> None:
    """Say how many items have come since the page was opened, and have the card made anew where it may ask something
    else now: after a correction or a mark that trains, when others have come, or when it was at the end and the stream
    has grown or a question is free again."""
    changes, items = session.changed
    shown = st.session_state.get(f"shown-{session.id}", (changes, items, False))
    if changes != shown[0] or (shown[2] and (items > shown[1] or session.has_for(annotator()))):
        st.rerun()
    new = items - st.session_state.setdefault(f"opened-{session.id}", items)
    if new:
        note(f"{new:,} new item{'s have' if new > 1 else ' has'} arrived.")
