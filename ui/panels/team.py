"""Who labels in a session, what each has done, and how far they agree."""

import html

import streamlit as st

from oal_engine.sessions import agreement
from oal_engine.sessions.agreement import Agreement, Person
from oal_engine.sessions.session import Session

from ..card_server import CardServer
from ..metric_table import table
from ..page import counted, note

HEADS = ("Name", "Now", "Labels", "Second answers", "Seconds each")
CONSISTENT = ("Name", "Asked again", "Same answer")
PAIRS = ("Two people", "Items", "Agree", "Kappa")
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
            f"{share:.0%} of the questions are asked again of who answered them. How many got the same answer is shown "
            f"from {agreement.LEAST_AGAIN} on, with a 95 % interval."
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
    pairs = agreement.twice(session)
    share = f"{session.settings.overlap:.0%} of the questions go to two people."
    differ = len(agreement.differing(pairs))
    open_ones = f" They differ on {counted(differ, 'item')}, listed under Check." if differ else ""
    lines = [
        (
            " and ".join(map(_name, names)), f"{own.pairs:,}", f"{own.same.value:.0%}" if own.same else "",
            str(own.kappa or ""),
        )
        for names, own in agreement.by_people(pairs).items()
    ]  # fmt: skip
    return f"{share} {_words(agreement.of_pairs(pairs))}{open_ones}", lines


def _say(words: str) -> None:
    """Show a paragraph, literally."""
    st.html(f'<p style="margin:.4rem 0;font-size:.92rem">{html.escape(words)}</p>')


def _consistent(person: Person) -> str:
    """How often somebody gave the same answer again, with the interval; "" where too little is known."""
    same = person.same
    return f"{same.value:.0%} ({same.low:.0%} to {same.high:.0%})" if same else ""


def _name(annotator: str) -> str:
    return annotator or "no name"


def _words(known: Agreement) -> str:
    """An agreement in a sentence."""
    items = counted(known.pairs, "item")
    if known.same is None:
        return f"{items} so far; agreement is shown from {agreement.LEAST} on."
    parts = [f"On {known.same.value:.0%} of the stream two people agree, by {items}"]
    parts += [f"kappa {known.kappa}"] if known.kappa else []
    parts += [f"alpha {known.alpha}"] if known.alpha else []
    return ", ".join(parts) + "."
