"""Who labels in a session, what each has done, and how far they agree."""

import html

import streamlit as st

from oal_engine.sessions.insights import agreement
from oal_engine.sessions.insights.agreement import Agreement, Person
from oal_engine.sessions.insights.estimates import Estimate
from oal_engine.sessions.session import Session

from ...metric_table import table
from ...page import counted, note
from ..card_server import CardServer

HEADS = ("Name", "Now", "Labels", "Second answers", "Seconds each")
CONSISTENT = ("Name", "Asked again", "Same answer")
PAIRS = ("Two people", "Same answer", "Weighted to the stream", "Kappa")
ALONE = "Whoever opens this page under a name of their own gets items of their own."


def show(server: CardServer) -> None:
    """Show the people of a session and their agreement; call it in a fragment."""
    session = server.session
    people = agreement.people(session)
    table(HEADS, [
        (
            _name(each.name), "here" if each.here else "", f"{each.labels:,}", f"{each.seconds:,}",
            "" if each.time is None else f"{each.time:.1f}",
        )
        for each in people
    ], "none")  # fmt: skip
    if len(people) < 2:
        note(ALONE)
    if share := session.settings.repeat:
        _say(
            f"{100 * share:.0f} % of the questions are repeated to the person who answered them. How many got the same "
            f"answer is shown from {agreement.LEAST_AGAIN} on, with a 95 % interval."
        )
        table(CONSISTENT, [(_name(each.name), f"{each.again:,}", _consistent(each)) for each in people], "none")
    if session.settings.overlap:
        opinions = len(session.store.opinions(session.id))
        words, lines = server.once("agreement", lambda: _agreement(session), opinions)
        _say(words)
        if len(lines) > 1:
            table(PAIRS, lines, "none")


def _agreement(session: Session) -> tuple[str, list[tuple]]:
    """What is known of the agreement of all in sentences, and a line of a table for every two."""
    pairs = agreement.answer_pairs(session)
    share = f"{100 * session.settings.overlap:.0f} % of the questions go to two people."
    differ = len(agreement.differing(pairs))
    open_ones = f" They differ on {counted(differ, 'item')}, listed under Check." if differ else ""
    lines = [
        (
            " and ".join(map(_name, names)), f"{own.equal:,} of {own.pairs:,}", _share(own.same),
            str(own.kappa or ""),
        )
        for names, own in agreement.by_people(pairs).items()
    ]  # fmt: skip
    return f"{share} {_words(agreement.of_pairs(pairs))}{open_ones}", lines


def _say(words: str) -> None:
    """Show a paragraph, literally."""
    st.html(f'<p style="margin:.4rem 0;font-size:.92rem">{html.escape(words)}</p>')


def _consistent(person: Person) -> str:
    """Return how often somebody gave the same answer again, with the interval; "" where too little is known."""
    return _share(person.same)


def _share(known: Estimate | None) -> str:
    """Return a share with its interval; "" where too little is known."""
    return f"{100 * known.value:.0f} % ({100 * known.low:.0f} to {100 * known.high:.0f} %)" if known else ""


def _name(annotator: str) -> str:
    return annotator or "no name"


def _words(known: Agreement) -> str:
    """Return an agreement in words: first the count, then what it says of the stream."""
    count = f"{known.equal:,} of {counted(known.pairs, 'item')} answered twice got the same answer."
    if known.same is None:
        return f"{count} What that says of the stream is shown from {agreement.LEAST} items on."
    parts = [_share(known.same)]
    parts += [f"kappa {known.kappa}"] if known.kappa else []
    parts += [f"alpha {known.alpha}"] if known.alpha else []
    return f"{count} Weighted to the stream, with 95 % intervals: {', '.join(parts)}."
