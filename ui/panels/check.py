"""The answers to check: those at odds with all the others, and those on which the model depends; one key corrects."""

from functools import partial
from typing import Any

from oal_engine.sessions import answer_checks
from oal_engine.sessions.answer_checks import AnswerCheck, AnswerChecks

from ..card_server import CardServer
from ..components import item_list
from ..messages import View
from ..page import note
from . import history

AT_ODDS, DECISIVE = "all", "depends"
SHOWS = [(AT_ODDS, "At odds with your other answers"), (DECISIVE, "The model depends on it")]
MEANS = (
    "A second look at these answers finds slips first. A model solved on all answers at once says what the others make "
    "of each; it has no part in what is asked."
)


def show(server: CardServer) -> None:
    """Show both lists; call it in a fragment."""
    note(MEANS)
    checks = server.behind("checks", lambda: answer_checks.of_session(server.session))
    item_list.show(server, "check", partial(history.correct, server.session), lambda view: page(server, view, checks))


def page(server: CardServer, view: View, checks: AnswerChecks | None) -> dict[str, Any]:
    """What is shown of a view: the most urgent answers, one page of them (None: they are being looked at)."""
    session, log = server.session, server.log
    answers = {entry.id: entry for entry in log}
    found = [] if checks is None else checks.decisive if view.show == DECISIVE else checks.at_odds
    # What was corrected since is left out until all are looked at again.
    standing = [check for check in found if answers.get(check.entry.id) == check.entry][: item_list.PAGE]
    matches, counts = item_list.page_of(session, [check.entry.item for check in standing], view)
    rows = []
    for k, item in matches:
        row = history.row(session, answers[standing[k].entry.id], item, view.open)
        rows.append(row | {"chips": [*row["chips"], *_chip(server, standing[k])], "by": _words(standing[k], checks)})
    return {"rows": rows, "empty": _empty(checks, view), "shows": SHOWS} | counts


def _chip(server: CardServer, check: AnswerCheck) -> list[tuple[str, str]]:
    return [(f"others: {server.session.names[check.other]}", "wrong")] if check.margin < 0 else []


def _words(check: AnswerCheck, checks: AnswerChecks | None) -> str:
    """What would change, in the words of the list."""
    items = f"of {checks.items:,} items" if checks else ""
    parts = [f"question {check.entry.number:,}"]
    if check.margin < 0:
        parts.append(f"at odds by {-check.margin:.2f}")
    parts.append(f"without it {check.without:,}, corrected {check.corrected:,} {items} change sides")
    return " · ".join(parts)


def _empty(checks: AnswerChecks | None, view: View) -> str:
    if checks is None:
        return "The answers are being looked at."
    if view.search:
        return "No answer fits."
    if view.show == DECISIVE:
        return "No single answer changes what the model says of any item."
    return "No answer is at odds with the others."
