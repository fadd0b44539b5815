"""The labeling card: a Streamlit component whose behaviour is card.js, keys.js and outbox.js and whose look is
card.css; and what it shares with every component that sends events."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import streamlit as st

from oal_engine.sessions.settings import SessionError
from oal_engine.store import ConflictError, StorageError, StoreError

from ..label import messages
from ..page import who_labels
from . import Mount, component

SCRIPTS = "dom.js", "outbox.js", "keys.js", "card.js"
STYLES = "explained.css", "card.css"
BOOT = uuid4().hex  # new with every server process: the browser sends again what was not acknowledged
KEPT = "It is kept here and sent again."

_log = logging.getLogger(__name__)
_mount = component("card", SCRIPTS, STYLES)


def card(key: str, handle: Callable, payload: Callable) -> None:
    """Give each new event to `handle`, with its annotator, then show what `payload` returns; call it in a fragment.

    `payload` gets a problem to say, who labels, the number of the question after which skipped items are shown once
    more, and whether terms are marked.
    """
    mounted(_mount, key, messages.CardEvent, handle, payload, review=messages.Review, marks=messages.Marks)


def mounted(mount: Mount, key: str, kind: Any, handle: Callable, payload: Callable, **views: Any) -> None:
    """Mount a component that sends events of a kind, after `handle` has had each new one with its annotator; `payload`
    gets a problem that there was, or None, who labels, and the component's views, each of its kind, or None.

    An event that cannot be stored now stays with the browser, which sends it again, as it does after a reload or a
    restart of the server: `handle` must be idempotent in the event's id. One that never can is said and done with.
    """
    state = st.session_state.get(key) or {}
    name, login = who_labels()
    acked, problem = _handled(key, kind, handle, state.get("events"), name, login)
    seen = []
    for part, view in views.items():
        try:
            seen.append(None if state.get(part) is None else messages.read(view, state[part]))
        except messages.MessageError as error:
            seen.append(None)
            problem = problem or f"Not shown: {error}"
    sender = {"annotator": name, "login": login, "boot": BOOT}
    shown = mount(key=key, data=sender | _shown(key, lambda: payload(problem, name, *seen), acked, problem))
    if any(repr(shown.get(part)) != repr(state.get(part)) for part in ("events", *views)):
        st.rerun()  # the first run of a browser session knows the state only after the mount


def _handled(key: str, kind: Any, handle: Callable, events: Any, name: str, login: bool) -> tuple[list, str | None]:
    """Give each new event to `handle`, with whose it is: the log-in's, or without one whose name stood there when it
    was made. The ids of those that are done with, and the first problem there was."""
    handled = st.session_state.setdefault(f"{key}-handled", set())
    events = events if isinstance(events, list) else []
    ids = [messages.identity(event) for event in events]
    problems, waiting, new = [], False, False
    for id, sent in zip(ids, events):
        if id in handled:
            continue
        new = True
        try:
            event = messages.read(kind, sent)
            if waiting and event.in_order:
                continue
            handle(event, name if login or event.annotator is None else event.annotator)
        except (StorageError, ConflictError) as error:
            problems.append(f"Not saved yet. {error} {KEPT}")
            break  # the others would fare no better, and each may wait long
        except (messages.MessageError, SessionError, StoreError) as error:
            problems.append(f"Not stored: {error}")
        except Exception as error:
            _log.exception("Event %s of %s could not be handled.", id, key)
            problems.append(f"Not saved yet. The server failed ({type(error).__name__}); its log says why. {KEPT}")
            waiting |= event.in_order
            continue
        if id:
            handled.add(id)
    if new:
        st.session_state[f"{key}-problem"] = next(iter(problems), None)
    return [id for id in ids if id in handled], st.session_state.get(f"{key}-problem")


def _shown(key: str, payload: Callable, acked: list, problem: str | None) -> dict[str, Any]:
    """What the component shows: what it showed last, with a sentence, where the database is in trouble. Nothing is
    acknowledged then, for only a newer payload knows what comes after it."""
    try:
        data = st.session_state[f"{key}-shown"] = payload()
    except StorageError as error:
        data = st.session_state.get(f"{key}-shown")
        if data is None:
            raise
        return data | {"acked": [], "error": problem or str(error)}
    return data | {"acked": acked}
