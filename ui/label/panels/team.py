"""The people who label in a session: the work of each, and how far they agree."""

import html

import streamlit as st

from oal_engine.sessions.insights import agreement
from oal_engine.sessions.insights.agreement import Agreement
from oal_engine.sessions.insights.estimates import Estimate
from oal_engine.sessions.session import Session

from ...metric_table import table
from ...page import counted, note
from ..card_server import CardServer

HEADS = ("Name", "Now", "Labels", "Second answers", "Seconds each")
CONSISTENT = ("Name", "Asked again", "Same answer")
PAIRS = ("Two people", "Same answer", "Weighted to the stream", "Kappa")
ALONE = "Everybody who opens this page under a name of their own gets items of their own."
REPEATED = (
    "{:.0f} % of the questions are repeated to the person who answered them. How many got the same answer is shown "
    "from {} on, with a 95 % interval."
)
OVERLAP = "{:.0f} % of the questions go to two people."
DIFFER = " They differ on {}, listed under Check."
SAME = "{:,} of {} answered twice got the same answer."
SAME_LATER = " The share in the whole stream is shown from {} items on."
WEIGHTED = " Weighted to the stream, with 95 % intervals: {}."


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
        _say(REPEATED.format(100 * share, agreement.LEAST_AGAIN))
        table(CONSISTENT, [(_name(each.name), f"{each.again:,}", _share(each.same)) for each in people], "none")
    if session.settings.overlap:
        opinions = len(session.store.opinions(session.id))
        words, lines = server.cached("agreement", lambda: _agreement(session), opinions)
        _say(words)
        if len(lines) > 1:
            table(PAIRS, lines, "none")


def _agreement(session: Session) -> tuple[str, list[tuple]]:
    """Return sentences on the agreement of all people, and a line of a table for every two of them."""
    pairs = agreement.answer_pairs(session)
    differ = len(agreement.differing(pairs))
    open_items = DIFFER.format(counted(differ, "item")) if differ else ""
    lines = [
        (
            " and ".join(map(_name, names)), f"{own.equal:,} of {own.pairs:,}", _share(own.same),
            str(own.kappa or ""),
        )
        for names, own in agreement.by_people(pairs).items()
    ]  # fmt: skip
    share = OVERLAP.format(100 * session.settings.overlap)
    return f"{share} {_words(agreement.of_pairs(pairs))}{open_items}", lines


def _say(words: str) -> None:
    """Show a paragraph, literally."""
    st.html(f'<p style="margin:.4rem 0;font-size:.92rem">{html.escape(words)}</p>')


def _share(share: Estimate | None) -> str:
    """Return a share with its interval, "" for None."""
    return f"{100 * share.value:.0f} % ({100 * share.low:.0f} to {100 * share.high:.0f} %)" if share else ""


def _name(annotator: str) -> str:
    return annotator or "no name"


def _words(all_pairs: Agreement) -> str:
    """Return an agreement in words: first the count, then the estimate for the stream."""
    count = SAME.format(all_pairs.equal, counted(all_pairs.pairs, "item"))
    if all_pairs.same is None:
        return count + SAME_LATER.format(agreement.LEAST)
    parts = [_share(all_pairs.same)]
    parts += [f"kappa {all_pairs.kappa}"] if all_pairs.kappa else []
    parts += [f"alpha {all_pairs.alpha}"] if all_pairs.alpha else []
    return count + WEIGHTED.format(", ".join(parts))
