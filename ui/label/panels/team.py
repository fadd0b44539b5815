"""The people who label in a session: the work of each, and how far they agree."""

import html

import streamlit as st

from oal_engine.sessions.insights import agreement
from oal_engine.sessions.insights.agreement import Person
from oal_engine.sessions.insights.estimates import Estimate
from oal_engine.sessions.session import Session

from ...metric_table import table
from ...page import counted, note
from ..card_server import CardServer

HEADS = ("Name", "Labels", "Further answers")
HERE = "{} (here)"
PACE = ("Last hour", "Minutes", "Seconds each")
CONSISTENT = ("Name", "Asked again", "Same answer")
PAIRS = ("Two people", "Same answer", "In the whole stream", "Kappa")
ALONE = "Everybody who opens this page under a name of their own gets items of their own."
REPEATED = (
    "{:.0f} % of the questions are repeated to the person who answered them. How many got the same answer is shown "
    "from {} on, with a 95 % interval."
)
OVERLAP = "{:.0f} % of the questions go to {} people."
TWO = "two"
DIFFER = " They differ on {}, listed under Check."


def show(server: CardServer) -> None:
    """Show the people of a session and their agreement; call it in a fragment."""
    session = server.session
    people, owned = agreement.people(session), server.is_owned()
    lines = [
        (
            HERE.format(_name(each.name)) if each.here else _name(each.name),
            f"{each.labels:,}",
            f"{each.seconds:,}",
            *_pace(each) * owned,
        )
        for each in people
    ]
    table(HEADS + PACE * owned, lines, "none")
    if len(people) < 2:
        note(ALONE)
    if share := session.settings.repeat:
        _say(REPEATED.format(100 * share, agreement.LEAST_AGAIN))
        table(CONSISTENT, [(_name(each.name), f"{each.again:,}", _share(each.same)) for each in people], "none")
    if session.settings.overlap:
        opinions = len(session.store.opinions(session.id))
        words, lines = server.cached("agreement", lambda: _agreement(session), opinions)
        _say(words)
        if len(lines) > 1:
            table(PAIRS, lines, "none")


def _pace(person: Person) -> tuple[str, ...]:
    """Return the labels of the last hour, the minutes of all answers, and the usual seconds of one."""
    return f"{person.last_hour:,}", f"{person.minutes:.0f}", "" if person.time is None else f"{person.time:.1f}"


def _agreement(session: Session) -> tuple[str, list[tuple]]:
    """Return sentences on the agreement of all people, and a line of a table for every two of them."""
    pairs = agreement.answer_pairs(session)
    differ = len(agreement.differing(pairs))
    open_items = DIFFER.format(counted(differ, "item")) if differ else ""
    lines = [
        (
            " and ".join(map(_name, names)), f"{own.equal:,} of {own.pairs:,}", _share(own.same),
            str(own.kappa or "not enough"),
        )
        for names, own in agreement.by_people(pairs).items()
    ]  # fmt: skip
    people = session.settings.people
    overlap = OVERLAP.format(100 * session.settings.overlap, TWO if people == 2 else people)
    return f"{overlap} {agreement.in_words(agreement.of_pairs(agreement.one_each(pairs)))}{open_items}", lines


def _say(words: str) -> None:
    """Show a paragraph, literally."""
    st.html(f'<p style="margin:.4rem 0;font-size:.92rem">{html.escape(words)}</p>')


def _share(share: Estimate | None) -> str:
    """Return a share with its interval, "" for None."""
    return agreement.in_percent(share) if share else ""


def _name(annotator: str) -> str:
    return annotator or "no name"
