"""The pulse of an open page: the browser asks for a short fingerprint of a session, and redraws its panel when it has
changed (pulse.js). An idle page costs one small request every few seconds; while somebody labels, the card's own
requests ask."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic, process_time

import streamlit as st
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from streamlit.url_util import make_url_path

from oal_engine.store import StoreError

from .. import access
from ..page import store
from . import component

PATH = "pulse/"
MOST = 2**63 - 1  # that a number in the database can be
CHANGED, UNCHANGED = 200, 204
REDRAWS_PER_SECOND = 5.0  # of all pages together, on an idle server: with many of them answers come first
LEAST_SHARE = 0.2  # of them, on a server that uses a whole core
BUSY = 4  # answers under way at which no page is redrawn

_mount = component("pulse", ["dom.js", "pulse.js"], [])


class IdleClock:
    """A clock in seconds that slows down while this process works, to LEAST_SHARE of its speed on a core or more."""

    def __init__(self) -> None:
        self._seconds, self._at = 0.0, (monotonic(), process_time())
        self._lock = Lock()

    def __call__(self) -> float:
        """Return the seconds since the clock began."""
        with self._lock:
            at = monotonic(), process_time()
            passed, worked = (now - before for now, before in zip(at, self._at, strict=True))
            self._seconds += max(LEAST_SHARE * passed, passed - (1 - LEAST_SHARE) * worked)
            self._at = at
            return self._seconds


idle_seconds = IdleClock()


class Turns:
    """The redraws that may be made now: `rate` more each second of the clock, and at most `rate` at once."""

    def __init__(self, rate: float, clock: Callable[[], float] = monotonic) -> None:
        self.rate, self._left, self._clock, self._at = rate, rate, clock, clock()
        self._under_way = 0
        self._lock = Lock()

    def take(self) -> bool:
        """Take a turn, if there is one."""
        with self._lock:
            now = self._clock()
            self._left, self._at = min(self.rate, self._left + (now - self._at) * self.rate), now
            has_turn = self._left >= 1 and self._under_way < BUSY
            self._left -= has_turn
            return has_turn

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Count one more answer as under way. From BUSY on, `take` gives no turn."""
        with self._lock:
            self._under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1


turns = Turns(REDRAWS_PER_SECOND, idle_seconds)


def asked(request: Request) -> Response:
    """Answer whether a session differs from the fingerprint `seen`, and it is this page's turn to show that. Somebody
    without a role takes no turn from others, and is told nothing."""
    session = min(int(request.path_params["session"]), MOST)
    try:
        if not access.role(store(), session, access.standing(request.scope["person"]())):
            return Response(status_code=CHANGED)
        changed = has_news(session, request.query_params.get("seen"))
    except StoreError:  # the panel names the problem
        changed = turns.take()
    return Response(status_code=CHANGED if changed else UNCHANGED)


def has_news(session: int, seen: str | None) -> bool:
    """Tell whether a session differs from the fingerprint `seen`, and it is the turn of the page that asks to show
    that."""
    return store().fingerprint(session) != seen and turns.take()


def route() -> Route:
    """Return the route of the app that answers the pulse."""
    return Route(make_url_path(st.get_option("server.baseUrlPath"), PATH + "{session:int}"), asked)


def follow(session: int, seen: str) -> None:
    """Redraw the fragment that calls this when the session differs from the fingerprint that it was drawn from, or at
    the next question if that is ""."""
    url = make_url_path(st.get_option("server.baseUrlPath"), f"{PATH}{session}")
    with st.container(key="pulse"):
        _mount(f"pulse-{session}", {"url": url, "seen": seen})
