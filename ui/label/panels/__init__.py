"""The panels of the Label page."""

from collections.abc import Callable

import streamlit as st

from oal_engine.sessions.settings import Settings

from ...address import BOUND, check_choice


def chosen_question(settings: Settings, key: str | None = None, change: Callable[[], None] | None = None) -> str | None:
    """Show a menu of the questions. Return the chosen name, or None if only one is asked about each item. key: query
    parameter of the choice (None: it is not in the address). change: called when another one is chosen."""
    names, words = settings.question_names, settings.decider_names
    if not names:
        return None
    title = "Decider" if words else "Question"
    if key:
        check_choice(key, title, [words.get(name, name) for name in names])
    return st.selectbox(
        title, names, int(bool(words)), lambda name: words.get(name, name), key=key or f"question-{settings.id}",
        on_change=change, bind=BOUND if key else None,
    )  # fmt: skip
