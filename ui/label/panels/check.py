"""Answers to check: a model trained on all others contradicts them, or the model depends on them most."""

from functools import partial
from typing import Any

from oal_engine.sessions.insights import agreement, answer_checks
from oal_engine.sessions.insights.agreement import AnswerPair
from oal_engine.sessions.insights.answer_checks import AnswerChecks
from oal_engine.sessions.log import Entry
from oal_engine.sessions.one_question import OneQuestion, part_of
from oal_engine.sessions.session import Session

from ...components import item_list
from ...page import annotator, note
from ..card_server import CardServer, keys_of
from ..messages import View
from . import chosen_question, history

AT_ODDS, DECISIVE, TWICE, AGAIN = "all", "depends", "twice", "again"
MEANS = "Are these answers right? Your other answers suggest something else, or the model depends on them most."
CHANGE = (
    "In a model trained on all answers, about {:,} of {:,} items would change class without this answer, and about "
    "{:,} if it were {}."
)
NO_CHANGE = "You gave the same answer each time you were asked again."


def show(server: CardServer) -> None:
    """Show the panel; call it in a fragment."""
    note(MEANS)
    session, name = server.session, chosen_question(server.session.settings)
    checks = server.in_background(f"checks {name}", lambda: answer_checks.of_session(part_of(session, name)))
    store = partial(history.change, session, name=name)
    item_list.show(server, history.list_of("check", name), store, lambda view: page(server, view, checks, name))


def page(server: CardServer, view: View, checks: AnswerChecks | None, name: str | None = None) -> dict[str, Any]:
    """Return the page of the list that `view` selects, the most urgent answers first. checks: None while the answers
    are being checked. name: the question, if several are asked about each item."""
    session, unseen = part_of(server.session, name), server.session.unseen(annotator())
    answers = {entry.id: entry for entry in history.entries_of(server, session) if entry.id not in unseen}
    shows = [(AT_ODDS, "At odds with the others"), (DECISIVE, "Most depends on it")]
    shows += [(TWICE, "Two people differ")] * bool(session.settings.overlap)
    shows += [(AGAIN, "You answered differently before")] * bool(session.settings.repeat)
    if view.show == TWICE:
        seen = [pair for pair in agreement.answer_pairs(session) if pair.entry.id in answers]
        return _differing(session, view, seen, "No two people differ on an item.") | {"shows": shows}
    if view.show == AGAIN:
        own = [pair for pair in agreement.answer_pairs(session, "again") if pair.other == annotator()]
        return _differing(session, view, own, NO_CHANGE) | {"shows": shows}
    lists = {AT_ODDS: checks.at_odds, DECISIVE: checks.decisive} if checks else {}
    # Answers corrected in the meantime are left out until the next check.
    current = [check for check in lists.get(view.show, []) if answers.get(check.entry.id) == check.entry]
    matches, counts = history.page_of(session, [check.entry for check in current], view)
    rows = []
    for k, item in matches:
        check = current[k]
        row = _row(session, answers[check.entry.id], item)
        other = session.names[check.other]
        row["chips"][1:] = [(f"other answers: {other}", "wrong")] * (check.margin < 0)
        change = CHANGE.format(check.without, session.rounds, check.corrected, other)
        by = (
            f"without it {check.without:,} items change class"
            if view.show == DECISIVE
            else f"disagreement {-check.margin:.2f}"
        )
        by = f"question {check.entry.number:,} · {by}"  # with the number by which the list is sorted
        rows.append(row | {"by": by, "means": f"{change} {row['means']}"})
    return {"rows": rows, "empty": _empty(checks, view), "shows": shows} | counts


def _differing(session: Session | OneQuestion, view: View, pairs: list[AnswerPair], empty: str) -> dict[str, Any]:
    """Return a page of items with two different answers, each settled by a correction. empty: text of an empty list."""
    pairs = agreement.differing(pairs)
    matches, counts = history.page_of(session, [pair.entry for pair in pairs], view)
    rows = []
    for k, item in matches:
        pair = pairs[k]
        row = _row(session, pair.entry, item)
        who = "you later" if view.show == AGAIN else pair.other or "somebody"
        rows.append(row | {"chips": [*row["chips"][:1], (f"{who}: {session.names[pair.second]}", "wrong")]})
    return {"rows": rows, "empty": empty} | counts


def _row(session: Session | OneQuestion, entry: Entry, item: dict[str, Any]) -> dict[str, Any]:
    """Return an answer as a row, which the keys of the classes correct."""
    row, keys = history.row(session, entry, item), keys_of(session.names)
    return row | {"actions": [(*action, keys.get(action[0], [])) for action in row["actions"]]}


def _empty(checks: AnswerChecks | None, view: View) -> str:
    if checks is None:
        return "Checking the answers..."
    if view.search:
        return "No answer fits."
    if view.show == DECISIVE:
        return "No single answer changes the model's prediction of any item."
    return "No answer is at odds with the others."
