"""Below a card that has nothing to ask: the list that came of the session, and more labels for it."""

from uuid import uuid4

import streamlit as st

from oal_engine.kernel.learners import linear
from oal_engine.sessions import estimates
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SessionError

from .card_server import CardServer
from .downloads import positives
from .page import annotator, complain, small_note
from .panels.guidelines import may_edit

USUAL = 100  # labels that are offered to be added


def ending(server: CardServer) -> None:
    """What can be done where a session has ended; call it in the fragment of the card."""
    session = server.session
    if not session.place.progress.end:
        return
    if not session.multiclass and linear(session.learner):
        positives(session.store, session.id)
    if session.askable and may_edit(server.settings().owner, annotator()):
        _add_labels(session)


def _add_labels(session: Session) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        labels = st.number_input(
            "Labels to add", 1, session.askable, min(USUAL, session.askable), key="labels-to-add", width=150
        )
        if st.button("Add labels", key="add-labels"):
            try:
                session.add_labels(uuid4().hex, labels, annotator())
            except SessionError as error:
                complain(error)
            else:
                st.rerun()
    words = f"The session asks on from item {session.rounds - session.askable + 1:,}, where the budget was spent."
    if not session.labelled:
        words += f" In all {estimates.forecast(session.state.budget + labels, session.multiclass)}"
    small_note(words)
