"""What an open page sees of a stream that grows."""

import streamlit as st

from .page import note, store


def shown(session, payload):
    """Remember how far the stream goes that the card shows; the payload of the card itself."""
    place = payload["place"]
    st.session_state[f"shown-{session.id}"] = place["end"], place["counters"]["stream"]
    return payload


@st.fragment(run_every=1)
def arrivals(session):
    """Say how many items have come since the page was opened, and let a card at the end go on with them."""
    items = store().length(session.dataset.id)
    end, stream = st.session_state.get(f"shown-{session.id}", (None, items))
    if end and items > stream:
        st.rerun()
    new = items - st.session_state.setdefault(f"opened-{session.id}", items)
    if new:
        note(f"{new:,} new item{'s have' if new > 1 else ' has'} arrived.")
