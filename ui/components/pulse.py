"""The pulse of an open page: the browser polls the server for changes of a session, by a short fingerprint, and redraws
its panel after a change (pulse.js). An idle page costs one small request every few seconds; while somebody labels, the
card's own requests poll instead."""

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
MOST = 2**63 - 1  # largest number that the database can hold
CHANGED, UNCHANGED = 200, 204
REDRAWS_PER_SECOND = 5.0  # of all pages together, on an idle server; answers have priority
LEAST_SHARE = 0.2  # of these redraws, on a server that uses a whole core
BUSY = 4  # answers in progress; from this number on, no page is redrawn

_mount = component("pulse", ["dom.js", "pulse.js"], [])


class IdleClock:
    """A clock in seconds that slows down while this process works. It runs at LEAST_SHARE of its speed if the process
    uses a whole core."""

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
    """A rate limiter (token bucket): each second of the clock frees `rate` turns, and at most `rate` accumulate."""

    def __init__(self, rate: float, clock: Callable[[], float] = monotonic) -> None:
        self.rate, self._left, self._clock, self._at = rate, rate, clock, clock()
        self._under_way = 0
        self._lock = Lock()

    def _advance(self) -> None:
        now = self._clock()
        self._left, self._at = min(self.rate, self._left + (now - self._at) * self.rate), now

    def take(self) -> bool:
        """Take a turn if one is free. Return whether there was one."""
        with self._lock:
            self._advance()
            has_turn = self._left >= 1 and self._under_way < BUSY
            self._left -= has_turn
            return has_turn

    def reserve(self, most: float) -> float | None:
        """Take the next turn, even if it is not free yet. Return the seconds until it is, or None, and no turn, if
        these are more than `most`."""
        with self._lock:
            self._advance()
            seconds = max(0.0, (1 - self._left) / self.rate)
            if seconds > most:
                return None
            self._left -= 1
            return seconds

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Count an answer as in progress while the block runs. With BUSY or more of them, `take` gives no turn."""
        with self._lock:
            self._under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1


turns = Turns(REDRAWS_PER_SECOND, idle_seconds)


def asked(request: Request) -> Response:
    """Answer CHANGED if a session differs from the fingerprint `seen` and this page may redraw now, else UNCHANGED. A
    user without a role always gets CHANGED, which reveals nothing, and takes no turn from others."""
    session = min(int(request.path_params["session"]), MOST)
    try:
        if not access.role(store(), session, access.standing(request.scope["person"]())):
            return Response(status_code=CHANGED)
        changed = has_news(session, request.query_params.get("seen"))
    except StoreError:  # the panel names the problem
        changed = turns.take()
    return Response(status_code=CHANGED if changed else UNCHANGED)


def has_news(session: int, seen: str | None) -> bool:
    """Tell whether a session differs from the fingerprint `seen` and a turn is free to redraw the page that asks. If
    so, take the turn."""
    return store().fingerprint(session) != seen and turns.take()


def route() -> Route:
    """Return the route of the app that answers the pulse."""
    return Route(make_url_path(st.get_option("server.baseUrlPath"), PATH + "{session:int}"), asked)


def follow(session: int, seen: str) -> None:
    """Redraw the calling fragment when the session differs from `seen`, the fingerprint at the time the fragment was
    drawn. If `seen` is "", redraw it at the next poll."""
    url = make_url_path(st.get_option("server.baseUrlPath"), f"{PATH}{session}")
    with st.container(key="pulse"):
        _mount(f"pulse-{session}", {"url": url, "seen": seen})
