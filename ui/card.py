"""The labeling card: a Streamlit component whose behaviour is card.js and whose look is card.css."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from .component import component

SCRIPTS = "nodes.js", "leaving.js", "card.js"

_mount = component("card", SCRIPTS, ["card.css"])


def card(key: str, handle: Callable[[dict], bool], payload: Callable[[], dict]) -> None:
    """Give each new event of the annotator to `handle`, then show what `payload` returns; call it in a fragment.

    `handle` returns False where it could not store the event: it and those after it stay with the browser, which sends
    them again, as it does after a reload or a restart of the server. `handle` must be idempotent in the event's id.
    """
    events = (st.session_state.get(key) or {}).get("events", [])
    handled = st.session_state.setdefault(f"{key}-handled", set())
    for event in events:
        if event["id"] not in handled:
            if not handle(event):
                break
            handled.add(event["id"])
    acked = [event["id"] for event in events if event["id"] in handled]
    mounted = _mount(key=key, data=payload() | {"acked": acked})
    if mounted.get("events", []) != events:
        st.rerun()  # the first run of a browser session knows the events only after the mount
