"""The panels of the Label page."""

from collections.abc import Callable

import streamlit as st

from oal_engine.sessions.settings import Settings

from ..card_server import CardServer


def chosen_question(server: CardServer) -> str | None:
    """Ask which of several questions a panel is about, and return its name; None if the session asks one."""
    return choose_question(server.session.settings)


def choose_question(settings: Settings, on_change: Callable[[], None] | None = None) -> str | None:
    """Ask for one of several questions, and return its name; None if the session asks one. on_change: called before
    another one is shown."""
    names, words = settings.question_names, settings.decider_names
    if not names:
        return None
    return st.selectbox(
        "Decider" if words else "Question", names, int(bool(words)), lambda name: words.get(name, name),
        key=f"question-{settings.id}", on_change=on_change,
    )  # fmt: skip
