"""Items that the model passed on without asking, newest first, which can be marked as wrong: the pushed items, or with
K classes every item with its predicted class."""

import html
from typing import Any

import numpy as np
import streamlit as st

from oal_engine.output.meanings import MEANINGS
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SessionError

from ...components import item_list
from ..card_server import CardServer
from ..messages import View

COST = (
    "Each mark that trains costs one label of the budget and is learned as {negative}. Estimates and curves do not use "
    "the marks: they are not a random sample."
)
STORED = "Marks are only recorded; model and estimates stay as they are."
LEARNED = "Marked wrong and already used for training; it cannot be removed."
BAD_ROUND = "a mark must be on one of the {:,} rounds. Got {:,}."


def show(server: CardServer) -> None:
    """Show the panel; call it in a fragment."""
    session = server.session
    if not session.multiclass:
        st.html(f'<p style="margin:0;font-size:.92rem">{html.escape(MEANINGS["pushed"])}</p>')
    trains = not session.multiclass and _switch(server)
    item_list.show(
        server,
        "pushed",
        lambda event, by: session.feedback(event.id, _item(session, event.row), event.action == 1, by, trains=trains),
        lambda view: page(server, view, trains),
    )


def _item(session: Session, row: int) -> int:
    """Return the item of a round."""
    if row >= session.rounds:
        raise SessionError(BAD_ROUND.format(session.rounds, row + 1))
    return int(session.order[row])


def _switch(server: CardServer) -> bool:
    """Show the switch of whether marks train, which holds for everybody in the session, and return its state."""
    session = server.session
    current, fixed = server.settings().feedback_trains, not server.is_owned()
    chosen = st.toggle("Wrong marks train the model", current, key=f"trains-{session.id}-{current}", disabled=fixed)
    if fixed:
        chosen = current
    elif chosen != current:
        session.store.update_session(session.id, {"feedback_trains": int(chosen)})
    st.html(f'<p style="margin:0;font-size:.92rem">{html.escape(_cost(session, chosen))}</p>')
    return chosen


def _cost(session: Session, trains: bool) -> str:
    """Return the sentence on the effect of a mark."""
    return COST.format(negative=session.names[-1]) if trains else STORED


def _passed(server: CardServer, show: str) -> np.ndarray:
    """Return the rounds that passed without a question, newest first; with K classes, those predicted as the selected
    class."""
    session = server.session
    _, predicted, asked = session.decided
    wanted = predicted > 0
    if session.multiclass and show not in ("all", "marked"):
        wanted = predicted == next((label for label in session.names if str(label) == show), 0)
    is_known = np.isin(session.order[: wanted.size], session.state.known_items)
    return np.flatnonzero(wanted & ~asked & ~is_known)[::-1]


def page(server: CardServer, view: View, trains: bool = False) -> dict[str, Any]:
    """Return one page of a view, the newest items first."""
    session, show = server.session, view.show
    marks = session.marks
    rounds = _passed(server, show)
    items = session.order[rounds]
    if show == "marked":
        keep = np.isin(items, list(marks))
        rounds, items = rounds[keep], items[keep]
    margins, predicted, _ = session.decided
    matches, counts = item_list.page_of(session, items, view)
    rows = []
    for k, item in matches:
        t, marked = int(rounds[k]), item["position"] in marks
        learned = marks.get(item["position"], False)
        name = session.names[int(predicted[t])]
        chips = [(name, "")] if session.multiclass else []
        rows.append(
            item_list.row(session, item, item["position"], view.open == t)
            | {
                "id": t,
                "chips": [*chips, ("wrong", "wrong")] if marked else chips,
                "side": f"{'gap' if session.multiclass else 'score'} {margins[t]:+.2f}",
                "by": f"item {t + 1:,} of the stream",
                "note": None,
                "label": f"Model says {name}:",
                "actions": [] if learned else [(0, "No mark", not marked), (1, "Wrong", marked)],
                "means": LEARNED if learned else _cost(session, trains),
            }
        )
    classes = session.names.items() if session.multiclass else []
    shows = [("all", "All"), *((str(label), name) for label, name in classes), ("marked", "Marked wrong")]
    word = "passed without being asked" if session.multiclass else "pushed"
    empty = "Nothing fits." if view.search or show != "all" else f"Nothing was {word} yet."
    return {"rows": rows, "empty": empty, "shows": shows} | counts
