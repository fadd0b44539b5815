"""The player of a session on its page: a Streamlit component (replay.js, replay.css); and another algorithm beside the
session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import streamlit as st

from oal_engine.kernel.algorithms import strategy
from oal_engine.output.browser import PLAYER
from oal_engine.sessions import look_back
from oal_engine.sessions.files import player as players
from oal_engine.sessions.fold import Run
from oal_engine.sessions.insights import curves

from .components import component
from .label import messages
from .page import complain, store, stored_settings

_mount = component("replay", PLAYER.scripts, PLAYER.styles)


@st.cache_resource(max_entries=8)
def player(session: int) -> Player:
    """The player of a session, opened once in this server process."""
    return Player(session)


class Player(players.Player):
    """The player of a session of the store; it follows what is answered elsewhere."""

    def __init__(self, session: int) -> None:
        super().__init__(look_back.Trace(store(), session))

    def refresh(self) -> None:
        """Run the log again where it has changed; Removed where the session is gone."""
        trace = self.trace
        stored_settings(trace.store, trace.id)
        if look_back.version(trace.store, trace.id) != trace.version:
            self._open(look_back.Trace(trace.store, trace.id))

    @property
    def version(self) -> str:
        """What changes with every answer and every undo, and where the stream grows."""
        return f"{self.trace.id} of {self.trace.settings.created_at}: {tuple(self.trace.version)}"


def show(player: Player, start: str) -> None:
    """Mount a player, opened at a place by its name; call it in a fragment."""
    player.refresh()
    key = f"replay-{player.trace.id}"
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
            "log": None if view.known == player.version else player.log() | {"whole": False, "without": ""},
            "places": {name: place for name in names if (place := player.place(name))},
        },
    )


# What if


@st.cache_resource(max_entries=20)
def what_if(session: int, version: str, chosen: dict[str, Any]) -> look_back.WhatIf:
    """Another algorithm, as `choose_strategy` gives it, over the stream of a session as it is at this version."""
    values = {key: value for key, value in chosen.items() if key != "parameters"}
    return look_back.what_if(player(session).trace, strategy(**values, values=chosen["parameters"]))


def compared(trace: Run, other: Run) -> Iterator[tuple[curves.Chart, curves.Chart]]:
    """The charts of a session, each with that of another algorithm."""
    return zip(curves.of_session(trace), curves.of_session(other))
