"""More labels for a session."""

from uuid import uuid4

import streamlit as st

from oal_engine.sessions.insights import estimates
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SessionError

from ..page import annotator, complain, small_note

USUAL = 100  # labels that are offered to be added


def more_labels(session: Session, key: str) -> None:
    """A field and a button that add labels to the budget; call it in a fragment, with a key for each of its places."""
    most = session.room
    with st.container(horizontal=True, vertical_alignment="bottom"):
        labels = st.number_input("Labels to add", 1, most, min(USUAL, most), key=f"{key}-labels", width=150)
        if st.button("Add labels", key=key):
            try:
                session.add_labels(uuid4().hex, labels, annotator())
            except SessionError as error:
                complain(error)
            else:
                st.rerun()
    words = []
    if session.place.progress.end:
        words.append(f"Labeling continues at item {session.rounds - session.askable + 1:,}, where the budget ran out.")
    if not session.labelled:
        words.append(estimates.forecast(session.state.budget + labels, session.multiclass))
    if words:
        small_note(" ".join(words))
