"""The gate before Streamlit: it ends the connections of who may no longer enter, keeps others from the files, and stops
what a page sends that was already left."""

import hashlib
import json
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import streamlit as st
from google.protobuf.message import DecodeError
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.auth_util import get_cookie_with_chunks
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.url_util import make_url_path
from streamlit.web.server.server_util import get_cookie_secret
from streamlit.web.server.starlette.starlette_app_utils import decode_signed_value
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME

from . import access
from .page import PAGES

HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'",
    "X-Frame-Options": "DENY",  # the same for old browsers
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
WANTED, PATIENCE = "oal_wanted", 600  # the cookie with the page that somebody logs in for, and its seconds
POLICY_VIOLATION = 1008  # of RFC 6455; the browser connects again and is shown the first page it may see


SAFE = ("GET", "HEAD", "OPTIONS")  # methods that change nothing
PORTS = {"http": ":80", "https": ":443"}  # that an address need not say


class Gate:
    """Middleware of the app: every request and every message of a browser passes it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.ended: set[bytes] = set()  # the log-ins that were ended, while browsers may still hold their cookies
        base = st.get_option("server.baseUrlPath")
        self.files = tuple(make_url_path(base, path) + "/" for path in ("_stcore/upload_file", "media"))
        self.logout, self.callback = (make_url_path(base, path) for path in ("auth/logout", "oauth2callback"))
        self.home = make_url_path(base, "/")
        self.pages = {make_url_path(base, name) for name in PAGES}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            if _is_foreign(scope):
                await send({"type": "websocket.close", "code": POLICY_VIOLATION})
                return
            await self._talk(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, self._led(scope, _with_headers(send)))
        else:
            await self.app(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        cookies, path = HTTPConnection(scope).cookies, scope["path"]
        if path == self.logout and _person(cookies):
            self.ended.add(_signed_part(cookies))
        app = self.app
        if scope["method"] not in SAFE and _is_foreign(scope):
            app = PlainTextResponse("A page of another address sent this.", 403)
        elif path.startswith(self.files) and not self._standing(cookies).enters:
            app = PlainTextResponse("Log in first.", 403)  # before a byte of an upload is read
        await app(scope, receive, send)

    def _led(self, scope: Scope, send: Send) -> Send:
        """Lead somebody back, after the log-in, to the page that they had opened before: an invitation, for instance.
        Streamlit leads everybody to the first page."""
        cookies, path = HTTPConnection(scope).cookies, scope["path"]

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if path in self.pages and scope["query_string"] and not self._standing(cookies).enters:
                    wanted = f"{path}?{scope['query_string'].decode('latin-1')}"
                    headers.append("set-cookie", self._cookie(quote(wanted), PATIENCE))
                elif path == self.callback and headers.get("location") == self.home and WANTED in cookies:
                    wanted = unquote(cookies[WANTED])
                    if wanted.partition("?")[0] in self.pages:
                        headers["location"] = quote(wanted, "/?&=%+")
                    headers.append("set-cookie", self._cookie("", 0))
            await send(message)

        return sent

    def _cookie(self, value: str, seconds: int) -> str:
        return f"{WANTED}={value}; Path={self.home}; HttpOnly; SameSite=lax; Max-Age={seconds}"

    async def _talk(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A connection lasts as long as what somebody may do stays the same; Streamlit is not told of ended log-ins."""
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
        return access.standing({} if _signed_part(cookies) in self.ended else _person(cookies))


class _Pages:
    """The page that a browser shows, and the one that it waits for.

    Until that one has come, the old one can still ask for a part of itself. Streamlit would then empty the new page."""

    def __init__(self) -> None:
        self.last, self.awaited = "", ""

    def hear(self, data: bytes) -> None:
        """Learn from the app which page the address of the first one leads to."""
        if not self.last:
            self.last = ForwardMsg.FromString(data).navigation.page_script_hash

    def left(self, data: bytes) -> bool:
        """Whether a message is of the page that was left."""
        try:
            asked = BackMsg.FromString(data).rerun_script
        except DecodeError:
            return False  # Streamlit says so
        page = asked.page_script_hash
        if asked.fragment_id and self.awaited not in ("", page):
            return True
        if page:
            self.awaited = page if page != self.last and not asked.fragment_id else ""
            self.last = page
        return False


def _is_foreign(scope: Scope) -> bool:
    """Whether a page of another address sends something: also one of another port of this machine, from which Streamlit
    takes it. What is no browser names no origin; a proxy in between may say in a header what was asked for."""
    headers = HTTPConnection(scope).headers
    if (origin := headers.get("origin")) is None or origin in st.get_option("server.corsAllowedOrigins"):
        return False
    sent = urlsplit(origin)
    usual = PORTS.get(sent.scheme, "")
    asked = {headers.get(name, "").lower().removesuffix(usual) for name in ("host", "x-forwarded-host")}
    return not sent.netloc or sent.netloc.lower().removesuffix(usual) not in asked


def _person(cookies: dict[str, str]) -> dict[str, Any]:
    """Who a browser's cookies say that it is, as Streamlit signed it; nobody where they are not its own."""

    def signed(name: str) -> bytes | None:
        return decode_signed_value(get_cookie_secret(), name, cookies.get(name, "").encode("latin-1", "replace"))

    cookie = get_cookie_with_chunks(signed, USER_COOKIE_NAME)
    return json.loads(cookie) if cookie else {}


def _signed_part(cookies: dict[str, str]) -> bytes:
    """What tells one log-in from every other, as a digest; the signature itself can be spelled in several ways."""
    return hashlib.sha256(cookies.get(USER_COOKIE_NAME, "").rpartition(".")[0].encode()).digest()


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(HEADERS)
        await send(message)

    return sent
