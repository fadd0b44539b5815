"""The items that the model decided without asking, newest first: the pushed items, or with K classes all items with
their predicted classes. Wrong predictions can be marked. If several questions are asked about each item, the panel
shows the items pushed for one of the questions, and they can be labeled instead."""

from typing import Any

import numpy as np
import streamlit as st

from oal_engine.output.meanings import MEANINGS
from oal_engine.sessions.one_question import OneQuestion, part_of
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SessionError

from ...components import item_list
from ...page import say
from ..card_server import CardServer, keys_of
from ..messages import View
from . import chosen_question, find

COST = (
    "Each mark that trains costs one label of the budget and is learned as {negative}. Estimates and curves do not use "
    "the marks: they are not a random sample."
)
LEARNED = "Marked wrong and already used for training; it cannot be removed."


def show(server: CardServer) -> None:
    """Show the panel; call it in a fragment."""
    session, name = server.session, chosen_question(server.session.settings)
    if not session.multiclass:
        say(MEANINGS["pushed"])
    if name:
        say(find.FREE)
        item_list.show(
            server,
            f"pushed-{session.settings.place_of(name)}",
            lambda event, by: find.label(session, event, by, name),
            lambda view: page(server, view, name=name),
        )
        return
    trains = not session.multiclass and _switch(server)
    item_list.show(
        server,
        "pushed",
        lambda event, by: session.feedback(event.id, _item(session, event.row), event.action == 1, by, trains=trains),
        lambda view: page(server, view, trains),
    )


def _item(session: Session, row: int) -> int:
    """Return the item of a round (`row`). Raise SessionError if there is no such round."""
    if row >= session.rounds:
        raise SessionError(f"a mark must be on one of the {session.rounds:,} rounds. Got {row + 1:,}.")
    return int(session.order[row])


def _switch(server: CardServer) -> bool:
    """Show the toggle for whether marks train, which applies to everybody in the session. Return its state."""
    session = server.session
    current, fixed = server.settings().feedback_trains, not server.is_owned()
    chosen = st.toggle("The model learns marks", current, key=f"trains-{session.id}-{current}", disabled=fixed)
    if fixed:
        chosen = current
    elif chosen != current:
        session.store.update_session(session.id, {"feedback_trains": int(chosen)})
    say(_cost(session, chosen))
    return chosen


def _cost(session: Session, trains: bool) -> str:
    """Return the sentence on the effect of a mark."""
    return COST.format(negative=session.names[-1]) if trains else "Marks are stored. The model does not learn them."


def _passed(session: Session | OneQuestion, show: str) -> np.ndarray:
    """Return the rounds that passed without a question, newest first: the pushed items, or with K classes the items
    predicted as the class `show` (or as any class). Items whose label was known are left out."""
    _, predicted, asked = session.decided
    wanted = predicted > 0
    if session.multiclass and show not in ("all", "marked"):
        wanted = predicted == next((label for label in session.names if str(label) == show), 0)
    is_known = np.isin(session.order[: wanted.size], session.state.known_items)
    return np.flatnonzero(wanted & ~asked & ~is_known)[::-1]


def page(server: CardServer, view: View, trains: bool = False, name: str | None = None) -> dict[str, Any]:
    """Return the page of the list that `view` selects, newest items first. name: the question, if several are asked
    about each item; its items are labeled instead of marked."""
    session, show = part_of(server.session, name), view.show
    marks = {} if isinstance(session, OneQuestion) else session.marks
    rounds = _passed(session, show)
    items = session.order[rounds]
    if show == "marked":
        keep = np.isin(items, list(marks))
        rounds, items = rounds[keep], items[keep]
    margins, predicted, _ = session.decided
    matches, counts = item_list.page_of(session, items, view, (items if name else rounds).tolist())
    keys, marking, rows = keys_of(session.names), keys_of({1: "", -1: ""}), []
    for k, item in matches:
        t, marked = int(rounds[k]), item["position"] in marks
        learned = marks.get(item["position"], False)
        word = session.names[int(predicted[t])]
        chips = [(word, "")] if session.multiclass else []
        actions: list[tuple] = []
        if name:
            actions = [(value, each, False, keys[value]) for value, each in session.names.items()]
        elif not learned:
            actions = [(0, "No mark", not marked, marking[1]), (1, "Wrong", marked, marking[-1])]
        rows.append(
            item_list.row(session, item)
            | {
                "chips": [*chips, ("wrong", "wrong")] if marked else chips,
                "side": f"{'gap' if session.multiclass else 'score'} {margins[t]:+.2f}",
                "by": f"item {t + 1:,} of the stream",
                "label": f"Model says {word}:",
                "actions": actions,
                "means": LEARNED if learned else "" if name else _cost(server.session, trains),
            }
        )
    classes = session.names.items() if session.multiclass else []
    shows = [("all", "All"), *((str(label), each) for label, each in classes)]
    shows += [("marked", "Marked wrong")] * (not name)
    kind = "passed without being asked" if session.multiclass else "pushed"
    empty = "Nothing fits." if view.search or show != "all" else f"Nothing was {kind} yet."
    return {"rows": rows, "empty": empty, "shows": shows} | counts
