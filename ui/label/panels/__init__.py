"""The panels of the Label page."""

import streamlit as st

from ..card_server import CardServer


def chosen_question(server: CardServer) -> str | None:
    """Ask which of several questions a panel is about, and return its name; None if the session asks one."""
    session = server.session
    names = session.settings.question_names
    if words := session.settings.decider_names:
        return st.selectbox("Decider", names, 1, words.__getitem__, key=f"question-{session.id}")
    return st.selectbox("Question", names, key=f"question-{session.id}") if names else None
