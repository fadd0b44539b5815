"""The people who label in a session: the work of each, and how far they agree."""

from oal_engine.sessions.insights import agreement
from oal_engine.sessions.insights.agreement import Agreement, AnswerPair
from oal_engine.sessions.insights.estimates import Estimate
from oal_engine.sessions.one_question import part_of
from oal_engine.sessions.session import Session

from ...metric_table import table
from ...page import counted, note, say
from ..card_server import CardServer
from . import chosen_question

HEADS = ("Name", "Labels", "Further answers")
PACE = ("Last hour", "Minutes", "Seconds each")
CONSISTENT = ("Name", "Asked again", "Same answer")
AGREEMENT = ("Same answer", "In the whole stream", "Kappa")
PAIRS = ("Two people", *AGREEMENT)
QUESTIONS = ("Question", *AGREEMENT, "To decide")
ALONE = "Anyone who opens this page under another name gets their own items."
REPEATED = (
    "{:.0f} % of the {} are repeated to the person who answered them. How many got the same answer is shown from {} "
    "on, with a 95 % interval."
)
READINGS = " Two answers are the same if they agree on every question that got a yes or a no both times."
OVERLAP = "{:.0f} % of the {} go to {} people."
TO_DECIDE = "Check lists the items to decide."


def show(server: CardServer) -> None:
    """Show the people of a session and their agreement; call it in a fragment."""
    session = server.session
    people, owned = agreement.people(session), server.is_owned()
    asked = "readings" if session.several else "questions"
    lines = [
        (
            f"{_name(each.name)}\N{NO-BREAK SPACE}(here)" if each.here else _name(each.name),
            f"{each.labels:,}",
            f"{each.seconds:,}",
            *(f"{each.last_hour:,}", f"{each.minutes:.0f}", "" if each.time is None else f"{each.time:.1f}") * owned,
        )
        for each in people
    ]
    table(HEADS + PACE * owned, lines, "none")
    if len(people) < 2:
        note(ALONE)
    if share := session.settings.repeat:
        say(
            REPEATED.format(100 * share, asked, agreement.LEAST_AGAIN) + READINGS * bool(session.several),
            margin=".4rem 0",
        )
        table(CONSISTENT, [(_name(each.name), f"{each.again:,}", _share(each.same)) for each in people], "none")
        if session.several:
            _show_questions(server, "again")
    if share := session.settings.overlap:
        n_people = session.settings.people
        overlap = OVERLAP.format(100 * share, asked, "two" if n_people == 2 else n_people)
        if session.several:
            pairs = server.cached("pairs", lambda: agreement.answer_pairs(session))
            say(f"{overlap} {agreement.readings(len(agreement.one_each(pairs)))}", margin=".4rem 0")
            _show_questions(server, "second")
            if len({frozenset((pair.one, pair.other)) for pair in pairs}) > 1:
                part = part_of(session, chosen_question(session.settings))
                table(PAIRS, _by_people(agreement.answer_pairs(part)), "none")
        else:
            words, lines = server.cached("agreement", lambda: _agreement(session))
            say(f"{overlap} {words}", margin=".4rem 0")
            if len(lines) > 1:
                table(PAIRS, lines, "none")


def _show_questions(server: CardServer, kind: str) -> None:
    """Show a table of how far second or repeated answers agree with first answers on each question. kind: as in
    `agreement.answer_pairs`."""
    words, lines = server.cached(f"agreement {kind}", lambda: _of_questions(server.session, kind))
    table(QUESTIONS, lines, "none")
    say(words, margin=".4rem 0")


def _of_questions(session: Session, kind: str) -> tuple[str, list[tuple]]:
    """Return sentences on how far answers agree on each of several questions, and a table row for each question."""
    pairs = agreement.by_question(session, kind)
    agreements = {name: agreement.of_pairs(agreement.one_each(own)) for name, own in pairs.items()}
    differ = {name: len(agreement.differing(own)) for name, own in pairs.items()}
    lines = [(name, *_cells(own), f"{differ[name]:,}") for name, own in agreements.items()]
    return " ".join(filter(None, (agreement.lowest(agreements), TO_DECIDE * any(differ.values())))), lines


def _agreement(session: Session) -> tuple[str, list[tuple]]:
    """Return sentences on the agreement of all people, and a row of a table for each pair of people."""
    pairs = agreement.answer_pairs(session)
    differ = len(agreement.differing(pairs))
    open_items = f" They differ on {counted(differ, 'item')}, listed under Check." if differ else ""
    return f"{agreement.in_words(agreement.of_pairs(agreement.one_each(pairs)))}{open_items}", _by_people(pairs)


def _by_people(pairs: list[AnswerPair]) -> list[tuple]:
    """Return a row of a table for each pair of people."""
    return [(" and ".join(map(_name, names)), *_cells(own)) for names, own in agreement.by_people(pairs).items()]


def _cells(own: Agreement) -> tuple[str, str, str]:
    """Return cells of a table: how many answers were equal, the estimated share in the whole stream, and kappa."""
    return f"{own.equal:,} of {own.pairs:,}", _share(own.same), str(own.kappa or "not enough")


def _share(share: Estimate | None) -> str:
    """Return a share with its interval in percent, or "" for None."""
    return agreement.in_percent(share) if share else ""


def _name(annotator: str) -> str:
    return annotator or "no name"
