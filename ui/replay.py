"""The player on the Replay page, a Streamlit component (replay.js, replay.css)."""

from __future__ import annotations

import streamlit as st

from oal_engine.output.browser import PLAYER
from oal_engine.sessions import look_back
from oal_engine.sessions.files import player as players
from oal_engine.sessions.one_question import QuestionTrace

from .components import component
from .label import messages
from .page import checked_role, complain, store

_mount = component("replay", PLAYER.scripts, PLAYER.styles)


@st.cache_resource(max_entries=8)
def player(session: int, question: str | None = None) -> Player:
    """Return the player of a session, opened once in this server process. question: the question to play, if several
    are asked about each item."""
    return Player(session, question)


class Player(players.Player):
    """The player of a stored session, kept up to date with its log."""

    def __init__(self, session: int, question: str | None = None) -> None:
        self._question = question
        super().__init__(self._read(session))

    def _read(self, session: int) -> look_back.Trace:
        trace = look_back.Trace(store(), session)
        return QuestionTrace(trace, self._question) if self._question else trace

    def refresh(self) -> None:
        """Replay the log if it has changed. Raise Removed if the session is gone."""
        trace = self.trace
        checked_role(trace.store, trace.id)
        if look_back.version(trace.store, trace.id) != trace.version:
            self._open(self._read(trace.id))

    @property
    def version(self) -> str:
        """A key that changes with every event of the log."""
        return f"{self.trace.id} of {self.trace.settings.created_at}: {tuple(self.trace.version)} {self.trace.part}"


def show(player: Player, start: str) -> None:
    """Show a player in a fragment. start: the position at which it opens, such as q7 (question 7) or r90 (round 90)."""
    player.refresh()
    key = f"replay-{player.trace.id}-{player.trace.part}"
    try:
        view = messages.read(messages.Wanted, (st.session_state.get(key) or {}).get("view") or {})
    except messages.MessageError as error:
        complain(f"Not shown: {error}")
        view = messages.Wanted()
    names = view.want or [start]
    _mount(
        key=key,
        data={
            "session": player.trace.id,
            "version": player.version,
            "start": {"number" if start[0] == "q" else "round": int(start[1:])},
            "log": None if view.version == player.version else player.log() | {"whole": False, "without": ""},
            "places": {name: place for name in names if (place := player.place(name))},
        },
    )
