"""The answers of a session in a list: newest first, to look through and to correct."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from oal_engine.sessions.fold import Run
from oal_engine.sessions.insights.curves import percent
from oal_engine.sessions.log import Entry
from oal_engine.sessions.one_question import OneQuestion, part_of
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SKIP, SessionError

from ...components import item_list
from ...page import annotator
from ..card_server import CardServer
from ..messages import RowEvent, RowTag, View
from . import chosen_question

TAGGED = "tag "  # prefix of a filter by tag
MEANS = (
    "Another answer is stored with the first one. The model is retrained with your correction; the questions already "
    "asked stay."
)
SKIPPED = "It was skipped. Answering uses one of the {:,} labels left; the model is retrained with it."
UNTOLD = "Nobody could tell, or the item was skipped; answering a skipped item uses one of the {:,} labels left."
SKIPPED_AND_SPENT = "It was skipped; the budget is spent, so it can no longer be answered."
EMPTY, NO_MATCH = "Nothing is answered yet.", "No answer fits."
KINDS = {"wrong": "Predicted otherwise", "corrected": "Corrected", "noted": "With a note", "audit": "Random checks"}


def show(server: CardServer) -> None:
    """Show the history; call it in a fragment."""
    name = chosen_question(server.session.settings)
    store = partial(change, server.session, name=name)
    item_list.show(server, list_of("history", name), store, lambda view: page(server, view, name), RowEvent | RowTag)


def list_of(panel: str, question: str | None) -> str:
    """Return the name of a list. Each question has its own list, so that no correction goes to another question."""
    return panel if question is None else f"{panel} {question}"


def change(session: Session, event: RowEvent | RowTag, by: str, name: str | None = None) -> None:
    """Store a correction in a row, or a tag of its item. name: the question, if several are asked about each item."""
    if isinstance(event, RowEvent):
        session.correct(event.id, event.row, event.action, by, highlighted=False, name=name)
    elif asked := session.answered(event.row):
        session.tag(event.id, asked.item, event.tag, event.added, by)
    else:
        raise SessionError("only an item that was answered can be tagged here.")


def entries_of(server: CardServer, run: Session | OneQuestion) -> list[Entry]:
    """Return the history of a session, or of one of its questions."""
    if isinstance(run, Session):
        return server.log
    return [entry.of_part(run.part) for entry in server.log if entry.asks(run.part)]


def page(server: CardServer, view: View, name: str | None = None) -> dict[str, Any]:
    """Return the page of the list that `view` selects, newest answers first. name: as in `change`."""
    session, unseen = part_of(server.session, name), server.session.unseen(annotator())
    log = entries_of(server, session)
    answered = [entry for entry in reversed(log) if entry.label is not None and entry.id not in unseen]
    own = server.settings().tags or []
    tags = list(dict.fromkeys([*own, *(tag for entry in server.log for tag in entry.tags)]))
    entries = [entry for entry in answered if _fits(entry, view.show)]
    notes = {entry.item: " ".join((entry.note, *entry.tags)) for entry in entries}
    matches, counts = page_of(session, entries, view, notes.__getitem__)
    rows = [row(session, entries[k], item, tags) for k, item in matches]
    classes = [(str(label), each) for label, each in [*session.names.items(), (SKIP, "Skipped")]]
    tagged = [(f"{TAGGED}{tag}", f"Tag: {tag}") for tag in tags]
    shows = [("all", "All answers"), *classes, *KINDS.items(), *tagged]
    return {"rows": rows, "empty": NO_MATCH if answered else EMPTY, "shows": shows} | counts


def _fits(entry: Entry, show: str) -> bool:
    if show.startswith(TAGGED):
        return show.removeprefix(TAGGED) in entry.tags
    kinds = {"corrected": entry.corrected, "noted": entry.note, "wrong": entry.mistake, "audit": entry.audit}
    return bool(kinds.get(show, show in ("all", str(entry.label))))


def page_of(
    session: Run, entries: Sequence[Entry], view: View, more_words: Callable[[int], str] | None = None
) -> item_list.Page:
    """Return one page of answers, as `item_list.page_of`."""
    items, ids = [entry.item for entry in entries], [entry.id for entry in entries]
    return item_list.page_of(session, items, view, ids, more_words)


def row(session: Session | OneQuestion, entry: Entry, item: dict[str, Any], tags: Sequence[str] = ()) -> dict[str, Any]:
    """Return an answer as a row of a list, in which it can be corrected and its item tagged."""
    label, names = entry.label, session.names
    kind = "quiet" if label == SKIP else "positive" if label == 1 and not session.multiclass else ""
    chips = [(names.get(label or SKIP, "Skipped"), kind)]
    if entry.corrected:
        chips.append((f"was {names.get(entry.first or SKIP, 'skipped')}", "quiet"))
    if entry.mistake:
        chips.append((f"model: {names[entry.predicted]}", "wrong"))
    if entry.note:
        chips.append(("note", "quiet"))
    by = [entry.annotator] if entry.annotator else []
    by += [f"{entry.seconds:.1f} s"] if entry.seconds is not None else []
    left = session.place.progress.left
    skipped = UNTOLD if isinstance(session, OneQuestion) else SKIPPED if left else SKIPPED_AND_SPENT
    if label != SKIP or not left:  # a skipped item may come again, and its chance hints at the model's prediction
        by.append("random check" if entry.audit else f"{percent(entry.probability)} chance of being asked")
    return item_list.row(session, item) | {
        "chips": chips,
        "when": entry.answered_at,
        "by": " · ".join([f"question {entry.number:,}", *by]),
        "note": entry.note,
        "tags": [(tag, tag in entry.tags) for tag in tags],
        "label": "Answer",
        "actions": [(*choice, choice[0] == label) for choice in [*names.items(), (SKIP, "Skip")]],
        "means": MEANS if label != SKIP else skipped.format(left),
    }
