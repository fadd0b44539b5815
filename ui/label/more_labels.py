"""More labels for a session."""

from uuid import uuid4

import streamlit as st

from oal_engine.sessions.insights import estimates
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SessionError

from ..page import annotator, complain, small_note

CONTINUES = "Labeling continues at item {:,}, where the budget ran out."
OFFERED_LABELS = 100


def more_labels(session: Session, key: str) -> None:
    """Show a field and a button that add labels to the budget. Call it in a fragment; `key` must be unique on the
    page."""
    most = session.room
    with st.container(horizontal=True, vertical_alignment="bottom"):
        labels = st.number_input("Labels to add", 1, most, min(OFFERED_LABELS, most), key=f"{key}-labels", width=150)
        if st.button("Add labels", key=key):
            try:
                session.add_labels(uuid4().hex, labels, annotator())
            except SessionError as error:
                complain(error)
            else:
                st.rerun()
    words = []
    if session.place.progress.end:
        words.append(CONTINUES.format(session.rounds - session.askable + 1))
    if not session.labelled:
        words.append(estimates.forecast(session.state.budget + labels, session.multiclass))
    if words:
        small_note(" ".join(words))
