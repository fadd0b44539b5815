"""Answer requests of programs and of the card: authorization, validation, rate limits, and errors as one sentence."""

import logging
from collections.abc import Callable
from hmac import compare_digest
from typing import Any

import streamlit as st
from pydantic import TypeAdapter
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
from ..page import Removed, capitalized, checked_role, store
from .openapi import JSON, LINES
from .routes import ROUTES, Call, Refusal, Route

PREFIX = "api/"
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
CALLS_PER_SECOND = 50.0  # rate limit of each token
STATUS = {StorageError: 503, ConflictError: 503, Removed: 403, SessionError: 409, StoreError: 409, ValueError: 400}

_log = logging.getLogger(__name__)
_turns: dict[int, Turns] = {}  # by the token's id
to_json = TypeAdapter(Any).dump_json  # numbers that are not finite become null


def _error(sentence: str) -> bytes:
    return to_json({"error": sentence})


async def _admit(request: Request) -> tuple[Row, Route]:
    """Return the token and the route of a request before its body is read. Raise Refusal if it may not be called."""
    return await run_in_threadpool(_admitted, request)


def _admitted(request: Request) -> tuple[Row, Route]:
    tokens = store().tokens()
    if not tokens:
        raise Refusal(404, "There is nothing here.")
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    digest = digest_of(secret.strip()) if scheme.lower() == "bearer" else ""
    token = next((row for row in tokens if row["valid"] and compare_digest(row["digest"], digest)), None)
    if token is None:
        raise Refusal(401, "Send a valid token, as `Authorization: Bearer TOKEN`.", WWW_Authenticate="Bearer")
    if not _turns.setdefault(token["id"], Turns(CALLS_PER_SECOND)).take():
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
    holder = access.holder(token)
    if not holder.enters:
        raise Refusal(403, f"The token names {token['annotator']}: {holder.problem}")
    own = access.role_of_token(store(), token["session"], token)
    if not own:
        raise Removed("you have no role in this session any more.")
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


def _act(request: Request, token: Row, route: Route, body: bytes) -> Any:
    """Validate the message of a request, and return the answer of its route."""
    access.TOKEN.set(token)  # a context variable: set for this request only
    checked_role(store(), token["session"])
    own = _role(token, route)
    if route.kind is bytes:
        sent: Any = body
    elif route.most_bytes:
        sent = messages.read_json(route.kind, body)
    else:
        sent = messages.read_query(route.kind, dict(request.query_params))
    name = access.holder(token).mail or token["annotator"]
    return route.act(Call(card_server(token["session"]), name, own, token, sent))


async def answer(request: Request, admit: Callable = _admit, act: Callable = _act) -> Response:
    """Answer a request. `admit(request)` returns (who, route) or raises Refusal; then `act(request, who, route, body)`
    returns the content. `act` runs in a thread, because it may wait for a lock."""
    headers: dict[str, str] = {}
    try:
        who, route = await admit(request)
        body = await _body(request, route)
        status, content = 200, to_json(await run_in_threadpool(act, request, who, route, body))
    except ClientDisconnect:  # nobody reads the answer
        return Response(status_code=400)
    except Refusal as refusal:
        status, content, headers = refusal.status, _error(str(refusal)), refusal.headers
    except ValueError as error:
        status = next(status for kind, status in STATUS.items() if isinstance(error, kind))
        content = _error(capitalized(str(error)))
    except Exception as error:
        _log.exception("A request to %s could not be answered.", request.url.path)
        status, content = 500, _error(f"The server failed ({type(error).__name__}); its log says why.")
    return Response(content, status, headers | {"Cache-Control": "no-store"}, JSON)


def route() -> Address:
    """Return the route of the app that answers everything under api/."""
    return address(PREFIX + "{path:path}", answer, METHODS)


def address(path: str, endpoint: Callable, methods: list[str]) -> Address:
    """Return a route of the app under its base path. Long answers are compressed (gzip)."""
    compressed = [Middleware(GZipMiddleware)]
    return Address(
        make_url_path(st.get_option("server.baseUrlPath"), path), endpoint, methods=methods, middleware=compressed
    )
