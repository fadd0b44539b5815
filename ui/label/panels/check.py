"""The answers to check: those at odds with all the others, and those on which the model depends; one key corrects."""

from functools import partial
from typing import Any

from oal_engine.sessions.insights import agreement, answer_checks
from oal_engine.sessions.insights.agreement import AnswerPair
from oal_engine.sessions.insights.answer_checks import AnswerCheck, AnswerChecks

from ...components import item_list
from ...page import annotator, note
from ..card_server import CardServer
from ..messages import View
from . import history

AT_ODDS, DECISIVE, TWICE, AGAIN = "all", "depends", "twice", "again"
SHOWS = [(AT_ODDS, "At odds with the others"), (DECISIVE, "Most depends on it")]
DIFFER = [(TWICE, "Two people differ")]
CHANGED = [(AGAIN, "You answered differently before")]
MEANS = (
    "Answers worth a second look: a model trained on all your other answers disagrees with these, or depends on them "
    "most."
)


def show(server: CardServer) -> None:
    """Show both lists; call it in a fragment."""
    note(MEANS)
    checks = server.behind("checks", lambda: answer_checks.of_session(server.session))
    item_list.show(server, "check", partial(history.change, server.session), lambda view: page(server, view, checks))


def page(server: CardServer, view: View, checks: AnswerChecks | None) -> dict[str, Any]:
    """What is shown of a view: the most urgent answers, one page of them (None: they are being looked at)."""
    session, log = server.session, server.log
    unseen = session.unseen(annotator())
    answers = {entry.id: entry for entry in log if entry.id not in unseen}
    shows = SHOWS + DIFFER * bool(session.settings.overlap) + CHANGED * bool(session.settings.repeat)
    if view.show == TWICE:
        return _differing(server, view, agreement.answer_pairs(session), "No two people differ on an item.") | {
            "shows": shows
        }
    if view.show == AGAIN:
        own = [pair for pair in agreement.answer_pairs(session, "again") if pair.other == annotator()]
        return _differing(server, view, own, "You gave the same answer wherever you were asked again.") | {
            "shows": shows
        }
    lists = {AT_ODDS: checks.at_odds, DECISIVE: checks.decisive} if checks else {}
    found = lists.get(view.show, [])
    # What was corrected since is left out until all are looked at again.
    standing = [check for check in found if answers.get(check.entry.id) == check.entry][: item_list.PAGE]
    matches, counts = item_list.page_of(session, [check.entry.item for check in standing], view)
    rows = []
    for k, item in matches:
        check = standing[k]
        row = history.row(session, answers[check.entry.id], item, view.open)
        said = session.names[check.other]
        rows.append(
            row
            | {
                "chips": [
                    *row["chips"],
                    *([(f"your other answers suggest: {said}", "wrong")] if check.margin < 0 else []),
                ],
                "by": _by(check, view),
                "means": f"{_change(check, said, session.rounds)} {row['means']}",
            }
        )
    return {"rows": rows, "empty": _empty(checks, view), "shows": shows} | counts


def _differing(server: CardServer, view: View, pairs: list[AnswerPair], empty: str) -> dict[str, Any]:
    """The items with two answers that differ, until somebody decides by correcting the answer; empty: what is said
    where there are none."""
    session = server.session
    pairs = agreement.differing(pairs)[: item_list.PAGE]
    matches, counts = item_list.page_of(session, [pair.entry.item for pair in pairs], view)
    rows = []
    for k, item in matches:
        pair = pairs[k]
        row = history.row(session, pair.entry, item, view.open)
        who = "you later" if view.show == AGAIN else pair.other or "somebody"
        said = f"{who}: {session.names[pair.second]}"
        rows.append(row | {"chips": [*row["chips"][:1], (said, "wrong")]})
    return {"rows": rows, "empty": empty} | counts


def _by(check: AnswerCheck, view: View) -> str:
    """What the order of a list is by."""
    if view.show == DECISIVE:
        return f"question {check.entry.number:,} · without it {check.without:,} items change class"
    return f"question {check.entry.number:,} · disagreement {-check.margin:.2f}"


def _change(check: AnswerCheck, said: str, items: int) -> str:
    """What another answer would change."""
    without = f"{check.without:,} would change class without this answer"
    corrected = f"{check.corrected:,} if it were {said}"
    return f"Of {items:,} items about {without}, and {corrected}, in the model of all answers."


def _empty(checks: AnswerChecks | None, view: View) -> str:
    if checks is None:
        return "Checking the answers..."
    if view.search:
        return "No answer fits."
    if view.show == DECISIVE:
        return "No single answer changes what the model says of any item."
    return "No answer is at odds with the others."
