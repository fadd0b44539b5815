"""Label items of the whole stream that are found by their words or in the list of positives. If several questions are
asked about each item, the labels are for one question at a time."""

from typing import Any

from oal_engine.datasets.reading import DataError
from oal_engine.kernel.learners import linear
from oal_engine.sessions.insights import outcome
from oal_engine.sessions.insights.ranking import Ranking, labels_of
from oal_engine.sessions.one_question import OneQuestion, part_of
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SKIP, SessionError

from ...components import item_list
from ...page import annotator, say
from ..card_server import CardServer, keys_of
from ..messages import RowEvent, View
from . import chosen_question

SEARCH, CORRECTION = "search", "correction"  # origins of the labels
MEANS = "Search all items, or go through the model's list, the surest first, with the keys of the card."
FREE = "Labels are free here. The model learns them. Estimates do not count them."
ANSWERED = "This item was asked. Its answer can be corrected in History."
WAITING = "This item is being asked."
TO_CHECK, WHOLE_LIST, KNOWN_LABELS = "all", "list", "known"
RANKED = [(TO_CHECK, "List to check"), (WHOLE_LIST, "Whole list")]
LABELED = [(KNOWN_LABELS, "Known labels")]
NOTHING = {
    TO_CHECK: "The model lists no item without a label.",
    WHOLE_LIST: "The list is empty.",
    KNOWN_LABELS: "No label was given here or is known from elsewhere.",
}
ASKED = "only an item that was not asked can be labeled here: correct its answer in History."


def show(server: CardServer) -> None:
    """Show the panel; call it in a fragment."""
    name = chosen_question(server.session.settings)
    say(f"{MEANS} {FREE}")
    key = "find" if name is None else f"find-{server.session.settings.place_of(name)}"
    item_list.show(
        server, key, lambda event, by: label(server.session, event, by, name), lambda view: page(server, view, name)
    )


def label(session: Session, event: RowEvent, by: str, name: str | None = None) -> None:
    """Store the label of an item as known, or remove a known label (SKIP). Raise SessionError if the item was asked
    about. name: the question, if several are asked about each item."""
    origin = CORRECTION if event.row in part_of(session, name).known_labels else SEARCH
    if session.know(event.id, {event.row: event.action}, origin, by, name):
        raise SessionError(ASKED)


def page(server: CardServer, view: View, name: str | None = None) -> dict[str, Any]:
    """Return one page of the items that a search finds, of the list of positives, or of the known labels. name: the
    question, if several are asked about each item."""
    session = part_of(server.session, name)
    unseen = server.session.unseen(annotator())
    asked = {each.item for each in server.session.state.outstanding.values()}
    asked |= {entry.item for entry in session.log if entry.id in unseen} if unseen else set()
    has_list = not session.multiclass and linear(session.learner)
    known_labels, words = session.known_labels, view.search.strip()
    if words:
        try:
            items, empty = server.search.find(words), "No item has these words."
        except DataError as error:
            items, empty = [], str(error)
    elif view.show == KNOWN_LABELS:
        items, empty = [*reversed(known_labels)], NOTHING[KNOWN_LABELS]
    elif has_list:
        listed = _listed(server, session, name, view.show, asked)
        items, empty = listed or [], NOTHING.get(view.show, NOTHING[TO_CHECK])
        if listed is None:
            empty = "The list is being computed."
    else:
        items, empty = [], "Type some words to find items."
    matches, counts = item_list.page_of(session, items, view.model_copy(update={"search": ""}), items)
    labels, keys = labels_of(session), keys_of(session.names)
    rows = []
    for _, item in matches:
        position = item["position"]
        now = 0 if position in asked else int(labels[position])
        origin = known_labels[position]["data"]["origin"] if position in known_labels else None
        closed = WAITING if position in asked else ANSWERED if now and not origin else ""
        choices = [(value, name, value == now, keys[value]) for value, name in session.names.items()]
        choices += [(SKIP, "Unknown", False, [])] * bool(now)
        rows.append(
            item_list.row(session, item)
            | {
                "chips": [(session.names[now], "positive" if now == 1 and -1 in session.names else "")] if now else [],
                "side": None if origin else "",
                "when": known_labels[position]["at"] if origin else None,
                "by": f"from: {origin}" if origin else None,
                "label": "Label",
                "actions": [] if closed else choices,
                "means": closed,
            }
        )
    shows = [*RANKED, *LABELED] if has_list else [(TO_CHECK, "All items"), *LABELED]
    tick = None if session.multiclass else [session.names[1], session.names[-1]]
    return {"rows": rows, "empty": empty, "shows": shows, "tick": tick} | counts


def _listed(
    server: CardServer, session: Session | OneQuestion, name: str | None, show: str, asked: set[int]
) -> list[int] | None:
    """Return the list of positives, the surest first, or None while it is being computed. It leaves out items that are
    being asked, because it shows the model's prediction. session: the session, or its question `name`."""
    ranking: Ranking | None = server.in_background(
        f"ranking {name}", lambda: outcome.of_session(part_of(server.session, name)).ranking
    )
    if ranking is None:
        return None
    items, labels = session.order[ranking.rounds[: ranking.listed]], labels_of(session)  # labels newer than the ranking
    keep = labels[items] != -1 if show == WHOLE_LIST else labels[items] == 0
    return [item for item in items[keep].tolist() if item not in asked]
