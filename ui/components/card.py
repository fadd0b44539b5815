"""The labeling card, a Streamlit component (card.js, keys.js, outbox.js, card.css), and the exchange of events that all
our components share."""

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
BOOT = uuid4().hex  # new in every server process: the browser then sends unacknowledged events again
SENT_AGAIN = "It is kept here and sent again."

_log = logging.getLogger(__name__)
_mount = component("card", SCRIPTS, STYLES)


def card(key: str, handle: Callable, payload: Callable) -> None:
    """Show the card; call it in a fragment. Each new event goes to `handle(event, annotator)`, then `payload` is shown.

    payload: a function of (problem to show, annotator, review, marks), as `CardServer.payload`.
    """
    mount_component(_mount, key, messages.CardEvent, handle, payload, review=messages.Review, marks=messages.Marks)


def mount_component(mount: Mount, key: str, kind: Any, handle: Callable, payload: Callable, **views: Any) -> None:
    """Mount a component: pass each new event of a kind to `handle(event, annotator)`, then show the result of
    `payload`.

    payload: a function of (problem or None, annotator, *views). views: the type of each view; None until the component
    sends it.

    The browser keeps an event that cannot be stored now and sends it again, also after a reload or a server restart, so
    `handle` must be idempotent in the event's id. An invalid event is reported and acknowledged.
    """
    state = st.session_state.get(key) or {}
    name, login = who_labels()
    acked, problem = _handle_new(key, kind, handle, state.get("events"), name, login)
    values = []
    for part, view in views.items():
        try:
            values.append(None if state.get(part) is None else messages.read(view, state[part]))
        except messages.MessageError as error:
            values.append(None)
            problem = problem or f"Not shown: {error}"
    sender = {"annotator": name, "login": login, "boot": BOOT}
    new_state = mount(key=key, data=sender | _data(key, lambda: payload(problem, name, *values), acked, problem))
    if any(repr(new_state.get(part)) != repr(state.get(part)) for part in ("events", *views)):
        st.rerun()  # the first run of a browser session knows the state only after the mount


def _handle_new(key: str, kind: Any, handle: Callable, events: Any, name: str, login: bool) -> tuple[list, str | None]:
    """Pass each new event to `handle`. Return the ids to acknowledge, and the first problem.

    The annotator is the log-in, or without one the name that was typed in when the event was made.
    """
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
            problems.append(f"Not saved yet. {error} {SENT_AGAIN}")
            break  # the next events would fail too, each after a long wait
        except (messages.MessageError, SessionError, StoreError) as error:
            problems.append(f"Not stored: {error}")
        except Exception as error:
            _log.exception("Event %s of %s could not be handled.", id, key)
            problems.append(
                f"Not saved yet. The server failed ({type(error).__name__}); its log says why. {SENT_AGAIN}"
            )
            waiting |= event.in_order
            continue
        if id:
            handled.add(id)
    if new:
        st.session_state[f"{key}-problem"] = next(iter(problems), None)
    return [id for id in ids if id in handled], st.session_state.get(f"{key}-problem")


def _data(key: str, payload: Callable, acked: list, problem: str | None) -> dict[str, Any]:
    """Return the data for the component: the last data with a message if the database cannot be read. Nothing is
    acknowledged then, because only a newer payload has the place after the events."""
    try:
        data = st.session_state[f"{key}-shown"] = payload()
    except StorageError as error:
        data = st.session_state.get(f"{key}-shown")
        if data is None:
            raise
        return data | {"acked": [], "error": problem or str(error)}
    return data | {"acked": acked}
