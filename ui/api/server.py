"""Answer requests of programs and of the card: authorization, validation, rate limits, and errors as one sentence."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from hmac import compare_digest
from typing import Any
from weakref import WeakValueDictionary

import streamlit as st
from pydantic import TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as Address
from streamlit.url_util import make_url_path

from oal_engine.sessions.settings import SessionError
from oal_engine.store import ROLES, ConflictError, Row, StorageError, StoreError, digest_of

from .. import access
from ..components.pulse import Turns
from ..label import messages
from ..label.card_server import card_server
from ..page import NO_ROLE, Removed, capitalized, checked_role, error_in_words, store
from .routes import JSON, LINES, ROUTES, Call, Problem, Refusal, Route

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
CALLS_PER_SECOND = 50.0  # rate limit of each client: a token, or for the card a person or an address
MOST_AT_ONCE = 16  # requests of one client in progress; more of them wait
PATIENCE_SECONDS = 10.0  # in which a request must have its turn, and send its body
MOST_CLIENTS = 10_000  # clients whose rates are known
STATUS = {  # a request's ValidationError is a MessageError: any other one is of an answer
    ValidationError: 500, StorageError: 503, ConflictError: 503, Removed: 403, SessionError: 409, StoreError: 409,
    ValueError: 400,
}  # fmt: skip

_log = logging.getLogger(__name__)
_turns: dict[str, Turns] = {}  # by client
_places: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()  # by client, while it has requests
# Numbers that are not finite become null, and fields that an answer does not set are left out.
to_json = partial(TypeAdapter(Any).dump_json, by_alias=True, exclude_unset=True)


def _error(sentence: str) -> bytes:
    return to_json(Problem(error=sentence))


def turns_of(client: str) -> Turns:
    """Return the rate limiter of a client."""
    if len(_turns) >= MOST_CLIENTS:
        _turns.clear()
    return _turns.setdefault(client, Turns(CALLS_PER_SECOND))


async def _admit(request: Request) -> tuple[Row, str, Route]:
    """Return the token of a request, the name of the client, and the route, before the body is read. Raise Refusal if
    it may not be called."""
    token, route = await run_in_threadpool(_admitted, request)
    access.TOKEN.set(token)  # a context variable: set for this request only
    return token, _client_of(token), route


def _client_of(token: Row) -> str:
    return f"token {token['id']}"


def _admitted(request: Request) -> tuple[Row, Route]:
    if not (tokens := store().tokens()):
        raise Refusal(404, "There is nothing here.")
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    digest = digest_of(secret.strip()) if scheme.lower() == "bearer" else ""
    token = next((row for row in tokens if row["valid"] and compare_digest(row["digest"], digest)), None)
    if token is None:
        raise Refusal(401, "Send a valid token, as `Authorization: Bearer TOKEN`.", WWW_Authenticate="Bearer")
    if not turns_of(_client_of(token)).take():
        raise Refusal(429, f"A token may send {CALLS_PER_SECOND:g} requests a second.", Retry_After="1")
    path = request.path_params["path"]
    if not (methods := ROUTES.get(path)):
        raise Refusal(404, f"There is no route {path[:80]}. There are: {', '.join(ROUTES)}.")
    if not (route := methods.get(request.method)):
        raise Refusal(405, f"{path} takes {' or '.join(methods)}. Got {request.method}.", Allow=", ".join(methods))
    _role(token, route)
    return token, route


def _role(token: Row, route: Route) -> str:
    """Return the current role of a token. Raise Removed if it has none, or Refusal if the route needs a higher role."""
    holder = access.holder(token["annotator"])
    if not holder.enters:
        raise Refusal(403, f"The token names {token['annotator']}: {holder.problem}")
    if not (own := access.role_of_token(store(), token["session"], token)):
        raise Removed(NO_ROLE)
    if ROLES.index(own) < ROLES.index(route.lowest):
        raise Refusal(403, f"This needs the role {route.lowest}. Got {own}.")
    if route.lowest == "owner" and not holder.owns:
        raise Refusal(403, "Only owners of the studio add items.")
    return own


async def _body(request: Request, route: Route) -> bytes:
    """Read the body of a request. Raise Refusal if it is too large or has another content type. For a route that takes
    no body, return b"" without reading anything."""
    if not route.most_bytes:
        return b""
    kind = LINES if route.kind is bytes else JSON
    sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if sent != kind:
        raise Refusal(415, f"Content-Type must be {kind}. Got {sent[:80] or 'none'}.")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > route.most_bytes:
            raise Refusal(413, f"A body must have at most {route.most_bytes:,} bytes.")
    return bytes(body)


async def _body_in_time(request: Request, client: str, route: Route, place: AsyncExitStack) -> bytes:
    """Read the body of a request, once fewer than MOST_AT_ONCE others of its client hold a place. It holds one until
    `place` is closed. Raise Refusal if it takes too long."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await place.enter_async_context(_places.setdefault(client, asyncio.Semaphore(MOST_AT_ONCE)))
            return await _body(request, route)
    except TimeoutError:
        words = f"A request must arrive within {PATIENCE_SECONDS:g} seconds, with at most {MOST_AT_ONCE} at a time."
        raise Refusal(408, words, Connection="close") from None


def _act(request: Request, token: Row, route: Route, body: bytes) -> Any:
    """Validate the message of a request, and return the answer of its route."""
    checked_role(store(), token["session"])
    own = _role(token, route)
    sent: Any = body if route.most_bytes else dict(request.query_params)
    sent = sent if route.kind is bytes else messages.read_of_program(route.kind, sent)
    name = access.holder(token["annotator"]).mail or token["annotator"]
    return route.act(Call(card_server(token["session"]), name, own, token, sent))


async def answer(request: Request, admit: Callable = _admit, act: Callable = _act) -> Response:
    """Answer a request. `admit(request)` returns (who, client, route) or raises Refusal; then `act(request, who, route,
    body)` returns the content. `act` runs in a thread, because it may wait for a lock."""
    headers: dict[str, str] = {}
    try:
        who, client, route = await admit(request)
        async with AsyncExitStack() as place:
            body = await _body_in_time(request, client, route, place)
            status, content = 200, to_json(await run_in_threadpool(act, request, who, route, body))
    except ClientDisconnect:  # nobody reads the answer
        return Response(status_code=400)
    except Refusal as refusal:
        status, content, headers = refusal.status, _error(str(refusal)), refusal.headers
    except Exception as error:
        status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)
        if status != 500:
            content = _error(capitalized(error_in_words(error)))
        else:
            _log.exception("A request to %s could not be answered.", request.url.path)
            content = _error(f"The server failed ({type(error).__name__}); its log says why.")
    return Response(content, status, headers | {"Cache-Control": "no-store"}, JSON)


def route() -> Address:
    """Return the route of the app that answers everything under api/."""
    return address("api/{path:path}", answer, METHODS)


def address(path: str, endpoint: Callable, methods: list[str]) -> Address:
    """Return a route of the app under its base path. Long answers are compressed (gzip)."""
    where = make_url_path(st.get_option("server.baseUrlPath"), path)
    return Address(where, endpoint, methods=methods, middleware=[Middleware(GZipMiddleware)])
