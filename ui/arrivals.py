"""What an open page sees of a stream that grows."""

import streamlit as st

from .page import note, store


@st.fragment(run_every=1)
def arrivals(session):
    """Say how many items have come since the page was opened, and let a card at the end go on with them."""
    items = store().length(session.dataset.id)
    if session.place.progress.end and items > session.rounds:
        st.rerun()
    new = items - st.session_state.setdefault(f"opened-{session.id}", items)
    if new:
        note(f"{new:,} new item{'s have' if new > 1 else ' has'} arrived.")
