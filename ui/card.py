"""The labeling card: a Streamlit component whose behaviour is card.js and keys.js and whose look is card.css."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from .component import component

SCRIPTS = "nodes.js", "leaving.js", "keys.js", "card.js"

_mount = component("card", SCRIPTS, ["card.css"])


def card(key: str, handle: Callable[[dict], bool], payload: Callable[[int | None], dict]) -> None:
    """Give each new event of the annotator to `handle`, then show what `payload` returns; call it in a fragment.

    `payload` gets the number of the question after which skipped items are to be shown once more, None for none.
    """
    mounted(_mount, key, handle, payload, "review")


def mounted(mount: Callable, key: str, handle: Callable[[dict], bool], payload: Callable, *states: str) -> None:
    """Mount a component that sends events, after `handle` has had each new one; `payload` gets its other states.

    `handle` returns False where it could not store the event: it and those after it stay with the browser, which sends
    them again, as it does after a reload or a restart of the server. `handle` must be idempotent in the event's id.
    """
    state = st.session_state.get(key) or {}
    events = state.get("events", [])
    handled = st.session_state.setdefault(f"{key}-handled", set())
    for event in events:
        if event["id"] not in handled:
            if not handle(event):
                break
            handled.add(event["id"])
    acked = [event["id"] for event in events if event["id"] in handled]
    shown = mount(key=key, data=payload(*map(state.get, states)) | {"acked": acked})
    if shown.get("events", []) != events or any(shown.get(name) != state.get(name) for name in states):
        st.rerun()  # the first run of a browser session knows the state only after the mount
