"""The labeling card, and the exchange of events with the app's other components. The card is a Streamlit component
(card.js, keys.js, outbox.js, card.css) that sends its events to its own route, so that an answer reruns no page."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import uuid4

import streamlit as st
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Address
from streamlit.url_util import make_url_path

from oal_engine.sessions.settings import SessionError
from oal_engine.store import ConflictError, StorageError, StoreError

from .. import access
from ..api import server as api
from ..api.routes import Refusal, Route
from ..label import messages
from ..label.card_server import CardServer, card_server
from ..page import NO_ROLE, ONLY_READS, Removed, capitalized, checked_role, error_in_words, role, store, who_labels
from . import Mount, component, pulse

SCRIPTS = "dom.js", "outbox.js", "keys.js", "card.js"
STYLES = "explained.css", "card.css"
PATH = "card/"
MOST_BYTES = 2**22  # of a request: a hundred events, each with a note
BOOT = uuid4().hex  # new in every server process: the browser then sends unacknowledged events again
SENT_AGAIN = "It is kept here and sent again."

_log = logging.getLogger(__name__)
_mount = component("card", SCRIPTS, STYLES)


def card(server: CardServer, is_idle: bool) -> None:
    """Show the card, which fetches its item from its own route. Call this in a fragment, which reruns when the card
    becomes idle or gets an item again."""
    name, login = who_labels()
    session = server.session.id
    url = make_url_path(st.get_option("server.baseUrlPath"), f"{PATH}{session}")
    data = {"session": server.name, "annotator": name, "login": login, "idle": is_idle, "url": url}
    _mount(key=f"card-{session}", data=data | {"drawn": uuid4().hex})


def route() -> Address:
    """Return the route of the app that answers the requests of the card."""
    return api.address(PATH + "{session:int}", partial(api.answer, admit=_admit, act=_act), ["POST"])


def pictures() -> Address:
    """Return the route of the app that serves the pictures of items from the folder OAL_PICTURES."""
    return api.address(PATH + "{session:int}/{item:int}", _picture, ["GET"])


def _picture(request: Request) -> Response:
    """Send the picture of an item to people who have a role in the session."""
    session, item = (min(request.path_params[name], pulse.MOST) for name in ("session", "item"))
    access.STANDING.set(access.standing(request.scope["person"]()))
    try:
        checked_role(store(), session)
        kind, content = access.picture(card_server(session).picture(item))
    except (ValueError, OSError):
        return Response("There is no such picture.", 404)
    return Response(content, media_type=kind, headers={"Cache-Control": "private, max-age=600"})


async def _admit(request: Request) -> tuple[access.Standing, str, Route]:
    """Return the permissions of the sender of a request, the name of the client, and the route, once the client has a
    turn. Raise Refusal if it would wait too long, or if the log-in has ended; the browser then keeps its events."""
    who = access.standing(request.scope["person"]())
    if who.problem:
        raise Refusal(401, who.problem)
    access.STANDING.set(who)  # a context variable: set for this request only
    client = who.mail or (request.client.host if request.client else "")
    if (seconds := api.turns_of(client).reserve(api.PATIENCE_SECONDS)) is None:
        raise Refusal(429, f"A person may send {api.CALLS_PER_SECOND:g} requests a second.", Retry_After="1")
    await asyncio.sleep(seconds)
    return who, client, Route(_payload, "annotator", messages.CardRequest, MOST_BYTES)


def _act(request: Request, who: access.Standing, route: Route, body: bytes) -> dict[str, Any]:
    """Store the events of a request, and return the data that its card shows now."""
    try:
        sent = json.loads(body)  # unlike pydantic it takes an unpaired surrogate, which then breaks only its own event
    except (ValueError, RecursionError):
        sent = None
    asked = messages.read(route.kind, sent)
    try:
        with pulse.turns.answering():
            return route.act(min(request.path_params["session"], pulse.MOST), asked, who.mail)
    except Removed as gone:
        ids = [id for event in asked.events if (id := messages.identity(event))]
        problem = f"Not stored: {gone}" if asked.events else None
        return {"acked": ids, "error": problem, "removed": capitalized(str(gone))}


def _payload(session: int, asked: messages.CardRequest, login: str) -> dict[str, Any]:
    try:
        own = checked_role(store(), session)
    except Removed as gone:
        owns = role(store(), session) == "owner"
        raise gone if owns else Removed(NO_ROLE) from None  # strangers must not learn which sessions exist
    if own == "reader":
        raise Removed(ONLY_READS)
    server = card_server(session)
    name = login or asked.annotator
    acked, problem = store_events(messages.CardEvent, server.handle, asked.events, name, bool(login))
    try:
        payload = server.payload(problem, name, asked.review, asked.marks) | {"acked": acked}
        return payload | {"news": asked.seen is not None and pulse.has_news(session, asked.seen)}
    except StorageError as error:
        raise StorageError(problem or error_in_words(error)) from error


def mount_component(mount: Mount, key: str, kind: Any, handle: Callable, payload: Callable, **views: Any) -> None:
    """Mount a component: pass each new event to `handle(event, annotator)`, then show the data that `payload` returns.

    kind: the type of the events. payload: a function of (problem or None, annotator, *views). views: the type of each
    view; a view has the value None until the component sends it.

    The browser keeps an event that cannot be stored now and sends it again, even after a reload or a server restart, so
    `handle` must be idempotent in the event's id. An invalid event is reported and acknowledged.
    """
    state = st.session_state.get(key) or {}
    name, login = who_labels()
    acked, problem = _store_new(key, kind, handle, state.get("events"), name, login)
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


def _store_new(key: str, kind: Any, handle: Callable, events: Any, name: str, login: bool) -> tuple[list, str | None]:
    """Store the events that this browser session has not stored yet. Return the ids to acknowledge, and the first
    problem of the latest new events."""
    stored = st.session_state.setdefault(f"{key}-handled", set())
    events = events if isinstance(events, list) else []
    ids = [messages.identity(event) for event in events]
    if new := [event for id, event in zip(ids, events) if id not in stored]:
        acked, st.session_state[f"{key}-problem"] = store_events(kind, handle, new, name, login)
        stored.update(acked)
    return [id for id in ids if id in stored], st.session_state.get(f"{key}-problem")


def store_events(kind: Any, handle: Callable, events: list, name: str, login: bool) -> tuple[list[str], str | None]:
    """Pass events to `handle`, in their order. Return the ids to acknowledge, and the first problem.

    The annotator is the log-in, or without one the name that was typed in when the event was made.
    """
    acked, problems, waiting = [], [], False
    for sent in events:
        try:
            event = messages.read(kind, sent)
            if waiting and event.in_order:
                continue
            handle(event, name if login or event.annotator is None else event.annotator)
        except (StorageError, ConflictError) as error:
            problems.append(f"Not saved yet. {error_in_words(error)} {SENT_AGAIN}")
            break  # the next events would fail too, each after a long wait
        except (messages.MessageError, SessionError, StoreError) as error:
            problems.append(f"Not stored: {error_in_words(error)}")
        except Exception as error:
            _log.exception("Event %s could not be stored.", messages.identity(sent))
            problems.append(
                f"Not saved yet. The server failed ({type(error).__name__}); its log says why. {SENT_AGAIN}"
            )
            waiting |= event.in_order
            continue
        if id := messages.identity(sent):
            acked.append(id)
    return acked, next(iter(problems), None)


def _data(key: str, payload: Callable, acked: list, problem: str | None) -> dict[str, Any]:
    """Return the data for the component. If the database cannot be read, repeat the last data with a message, and
    acknowledge no event, because the last data was made before these events."""
    try:
        data = st.session_state[f"{key}-shown"] = payload()
    except StorageError as error:
        if (data := st.session_state.get(f"{key}-shown")) is None:
            raise
        return data | {"acked": [], "error": problem or error_in_words(error)}
    return data | {"acked": acked}
