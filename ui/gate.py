"""ASGI middleware in front of Streamlit: it closes the connections of people who may no longer enter, protects files,
drops late messages from a page that the browser has left, and keeps dialogs off the card if the server is away."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote

import streamlit as st
from google.protobuf.message import DecodeError
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.auth_util import get_cookie_with_chunks
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.url_util import make_url_path
from streamlit.web.server.server_util import get_cookie_secret
from streamlit.web.server.starlette.starlette_app_utils import decode_signed_value
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME

from . import access
from .page import DOCS, PAGES

HEADERS = {
    "Content-Security-Policy": " ".join(
        ["frame-ancestors 'none'; img-src 'self' data: blob:", *access.picture_hosts()]
    ),
    "X-Frame-Options": "DENY",  # for old browsers
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
TARGET_COOKIE, TARGET_SECONDS = "oal_wanted", 600  # remembers the page to open after the log-in
POLICY_VIOLATION = 1008  # close code of RFC 6455; the browser reconnects and is shown the first page that it may see
SEE_OTHER = 303
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
DEFAULT_PORTS = {"http": ":80", "https": ":443"}
DIALOGS, NO_DIALOGS = b'"blockErrorDialogs":false', b'"blockErrorDialogs":true '  # of equal length


class Gate:
    """Middleware that every request and every message of a browser passes.

    routes: the app's own routes. The gate answers them itself, because Streamlit's own middleware would take longer.
    """

    def __init__(self, app: ASGIApp, routes: Sequence[Route] = ()) -> None:
        self.app, self.routes = app, routes
        self.ended: set[bytes] = set()  # log-ins that have ended, though browsers may still send their cookies
        base = st.get_option("server.baseUrlPath")
        self.files = tuple(make_url_path(base, path) + "/" for path in ("_stcore/upload_file", "media"))
        self.logout, self.callback = (make_url_path(base, path) for path in ("auth/logout", "oauth2callback"))
        self.home = make_url_path(base, "/")
        self.pages = {make_url_path(base, name) for name in (*PAGES, DOCS)}
        self.settings = make_url_path(base, "_stcore/host-config")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            if _is_foreign(scope):
                await send({"type": "websocket.close", "code": POLICY_VIOLATION})
                return
            await self._talk(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, self._led(scope, send))
        else:
            await self.app(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        cookies, path = HTTPConnection(scope).cookies, scope["path"]
        if path == self.logout and _person(cookies):
            self.ended.add(_signed_part(cookies))
        scope["person"] = lambda: self._who(cookies)
        app = self.app
        if scope["method"] not in SAFE_METHODS and _is_foreign(scope):
            app = PlainTextResponse("A page of another address sent this.", 403)
        elif path.startswith(self.files) and not self._standing(cookies).enters:
            app = PlainTextResponse("Log in first.", 403)  # before a byte of an upload is read
        else:
            app = self._route(scope) or app
        await app(scope, receive, send)

    def _route(self, scope: Scope) -> ASGIApp | None:
        """Return the route that answers a request, or None if Streamlit answers it."""
        for route in self.routes:
            match, details = route.matches(scope)
            if match is Match.FULL:
                scope.update(details)
                return route.handle
        return None

    def _led(self, scope: Scope, send: Send) -> Send:
        """Wrap `send` so that it adds HEADERS, and redirects in two cases. After a log-in, it leads to the page opened
        before, such as an invitation (Streamlit itself always leads to the first page). From a page that does
        not exist, it leads to the first page, which says so."""
        cookies, path = HTTPConnection(scope).cookies, scope["path"]
        is_missing = "/" not in path.removeprefix(self.home) and path not in (self.home, *self.pages)

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if path in self.pages and scope["query_string"] and not self._standing(cookies).enters:
                    target = f"{path}?{scope['query_string'].decode('latin-1')}"
                    headers.append("set-cookie", self._cookie(quote(target), TARGET_SECONDS))
                elif is_missing and headers.get("content-type", "").startswith("text/html"):
                    message["status"] = SEE_OTHER
                    headers["location"] = f"{self.home}?missing={quote(path.removeprefix(self.home), '')}"
                elif path == self.callback and headers.get("location") == self.home and TARGET_COOKIE in cookies:
                    target = unquote(cookies[TARGET_COOKIE])
                    if target.partition("?")[0] in self.pages:
                        headers["location"] = quote(target, "/?&=%+")
                    headers.append("set-cookie", self._cookie("", 0))
            elif path == self.settings:  # a lost connection would open a dialog, which takes the keys from the card
                message["body"] = message["body"].replace(DIALOGS, NO_DIALOGS)
            await send(message)

        return sent

    def _cookie(self, value: str, seconds: int) -> str:
        return f"{TARGET_COOKIE}={value}; Path={self.home}; HttpOnly; SameSite=lax; Max-Age={seconds}"

    async def _talk(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Close the websocket when the user's permissions change; Streamlit does not notice expired log-ins."""
        cookies = HTTPConnection(scope).cookies
        if _signed_part(cookies) in self.ended:
            scope = {**scope, "headers": [header for header in scope["headers"] if header[0] != b"cookie"]}
        before, ended, pages = self._standing(cookies), False, _Pages()

        async def checked() -> Message:
            nonlocal ended
            message = await receive()
            while pages.left(message.get("bytes") or b""):
                message = await receive()
            if message["type"] == "websocket.receive" and self._standing(cookies) != before:
                ended = True
                await send({"type": "websocket.close", "code": POLICY_VIOLATION})
            return {"type": "websocket.disconnect", "code": POLICY_VIOLATION} if ended else message

        async def open_only(message: Message) -> None:
            if not ended:
                pages.hear(message.get("bytes") or b"")
                await send(message)

        await self.app(scope, checked, open_only)

    def _standing(self, cookies: dict[str, str]) -> access.Standing:
        return access.standing(self._who(cookies))

    def _who(self, cookies: dict[str, str]) -> dict[str, Any]:
        """Return the user to whom these cookies belong, or {} if the log-in has ended."""
        return {} if _signed_part(cookies) in self.ended else _person(cookies)


class _Pages:
    """The page that a browser shows, and the page that it waits for.

    Until the new page arrives, the old one can still ask to rerun a fragment. Streamlit would then empty the new page.
    """

    def __init__(self) -> None:
        self.last, self.awaited = "", ""

    def hear(self, data: bytes) -> None:
        """Record the page to which the app's first message leads."""
        if not self.last:
            self.last = ForwardMsg.FromString(data).navigation.page_script_hash

    def left(self, data: bytes) -> bool:
        """Tell whether a message comes from a page that the browser has left."""
        try:
            asked = BackMsg.FromString(data).rerun_script
        except DecodeError:
            return False  # Streamlit reports it
        page = asked.page_script_hash
        if asked.fragment_id and self.awaited not in ("", page):
            return True
        if page:
            self.awaited = page if page != self.last and not asked.fragment_id else ""
            self.last = page
        return False


def _is_foreign(scope: Scope) -> bool:
    """Tell whether a request is cross-origin: from a page on another host, or (which Streamlit accepts) port or scheme.

    Programs other than browsers send no origin. A proxy passes on the requested host as Host, and the scheme as
    X-Forwarded-Proto, which uvicorn believes from the addresses in FORWARDED_ALLOW_IPS.
    """
    headers = HTTPConnection(scope).headers
    if (origin := headers.get("origin")) is None or origin in st.get_option("server.corsAllowedOrigins"):
        return False
    scheme = scope.get("scheme", "http").replace("ws", "http")
    own, sent = f"{scheme}://{headers.get('host', '')}", origin
    return own.lower().removesuffix(DEFAULT_PORTS[scheme]) != sent.lower().removesuffix(DEFAULT_PORTS[scheme])


def _person(cookies: dict[str, str]) -> dict[str, Any]:
    """Return the user from the cookie that Streamlit signed, or {} if there is none or its signature is not valid."""
    if USER_COOKIE_NAME not in cookies:
        return {}

    def signed(name: str) -> bytes | None:
        return decode_signed_value(get_cookie_secret(), name, cookies.get(name, "").encode("latin-1", "replace"))

    cookie = get_cookie_with_chunks(signed, USER_COOKIE_NAME)
    return json.loads(cookie) if cookie else {}


def _signed_part(cookies: dict[str, str]) -> bytes:
    """Return a digest that identifies a log-in. It leaves out the signature, which can be spelled in several ways."""
    return hashlib.sha256(cookies.get(USER_COOKIE_NAME, "").rpartition(".")[0].encode()).digest()
