"""What a model passed without asking, newest first, where a wrong one can be marked: the pushed items, or with K
classes every item with the class that it passed as."""

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
from .guidelines import may_edit

COST = (
    "Each mark that trains costs one label of the budget and is learned as {negative}. Estimates and curves do not use "
    "the marks: they are no fair sample."
)
STORED = "Marks are only recorded; model and estimates stay as they are."


def show(server: CardServer) -> None:
    """Show what was passed; call it in a fragment."""
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
    """The item that passed in a round."""
    if row >= session.rounds:
        raise SessionError(f"a mark must be on one of the {session.rounds:,} rounds. Got {row + 1:,}.")
    return int(session.order[row])


def _switch(server: CardServer) -> bool:
    """Whether marks train, for everybody in the session."""
    session = server.session
    stands, fixed = server.settings().feedback_trains, not may_edit(server)
    chosen = st.toggle("Wrong marks train the model", stands, key=f"trains-{session.id}-{stands}", disabled=fixed)
    if fixed:
        chosen = stands
    elif chosen != stands:
        session.store.update_session(session.id, {"feedback_trains": int(chosen)})
    st.html(f'<p style="margin:0;font-size:.92rem">{html.escape(_cost(session, chosen))}</p>')
    return chosen


def _cost(session: Session, trains: bool) -> str:
    """What a mark does."""
    return COST.format(negative=session.names[-1]) if trains else STORED


def _passed(server: CardServer, show: str) -> np.ndarray:
    """The rounds that passed without a question, newest first; of K classes those that passed as one."""
    session = server.session
    _, predicted, asked = session.decided
    wanted = predicted > 0
    if session.multiclass and show not in ("all", "marked"):
        wanted = predicted == next((label for label in session.names if str(label) == show), 0)
    return np.flatnonzero(wanted & ~asked)[::-1]


def page(server: CardServer, view: View, trains: bool = False) -> dict[str, Any]:
    """What is shown of a view: the items that passed last come first."""
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
                "means": "It was marked wrong and learned: it stays." if learned else _cost(session, trains),
            }
        )
    classes = session.names.items() if session.multiclass else []
    shows = [("all", "All"), *((str(label), name) for label, name in classes), ("marked", "Marked wrong")]
    word = "passed without being asked" if session.multiclass else "pushed"
    empty = "Nothing fits." if view.search or show != "all" else f"Nothing was {word} yet."
    return {"rows": rows, "empty": empty, "shows": shows} | counts
