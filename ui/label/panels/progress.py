"""Progress at a glance: how many were found, how many more answers would meet and how many stopping would miss; the
rest for researchers."""

import streamlit as st

from oal_engine.kernel.learners import linear
from oal_engine.kernel.spending import FIND
from oal_engine.output.plots import NAMES
from oal_engine.sessions.insights import certainty, curves, drift, estimates, outcome
from oal_engine.sessions.insights.ranking import Ranking
from oal_engine.sessions.one_question import OneQuestion, part_of
from oal_engine.sessions.session import Session

from ... import charts
from ...downloads import csv_button
from ...metric_table import table
from ...page import counted, note, say
from ..card_server import CardServer
from . import advice, chosen_question

FEWEST = 10  # answers: fewer say little
ANSWERS_PER_LOOK = 20  # the list is computed again when a twentieth more answers have come: it takes a second or two
RECENT = 50  # latest answers, whose share of positives tells how many the next ones would meet
LATER = "The items that you have found are counted here after {} answers: {} to go."
UNKNOWN = "{} of your {} are {}. How many are missing can be said after more answers of each kind."
COMPUTING = "This is being computed."
CLOSED = "Estimates end at item {:,}, where the last label was spent. The final model is probably better."


def show(server: CardServer) -> None:
    """Show the progress of a session; call it in a fragment."""
    session = server.session
    if not says_much(server):
        note(LATER.format(FEWEST, counted(FEWEST - session.place.progress.labels, "more answer")))
        return
    if session.settings.audited:
        if judged := server.in_background("audit", lambda: outcome.audit(session)):
            (heads, *metrics), more = judged
            table(heads, metrics, "none")
            table(("In all", ""), more, "none")
            csv_button("Download the corrected column", session, "audit", "--texts")
        else:
            say(COMPUTING)
    name = chosen_question(server.session.settings)
    run = part_of(session, name)
    if not session.settings.audited:
        _headline(server, run, name)
    _changes(server, run, name)


def says_much(server: CardServer) -> bool:
    """Tell whether there are enough answers for figures."""
    progress = server.session.place.progress
    return progress.labels >= FEWEST or bool(progress.end)


def _headline(server: CardServer, run: Session | OneQuestion, name: str | None) -> None:
    """Say how many positives were found, how many more answers would meet and how many stopping would miss, and draw
    the answers. For several classes, draw the answers of each."""
    if run.multiclass or not linear(run.learner):
        charts.show(curves.answers(run))
        return
    labels = run.labels
    every = 1 if server.session.place.progress.end else max(1, len(labels) // ANSWERS_PER_LOOK)
    ranking: Ranking | None = server.in_background(
        f"finds {name}", lambda: outcome.of_session(part_of(server.session, name)).ranking, every
    )
    if finds := ranking and outcome.finds(ranking):
        first, more = finds.sentences(labels[-RECENT:], run.settings.positive_name)
        say(*[first] * (not server.session.place.progress.end), more, margin="0 0 .2rem")  # at the end the card says it
    else:
        words = UNKNOWN.format(f"{labels.count(1):,}", counted(len(labels), "answer"), run.settings.positive_name)
        say(words if ranking else COMPUTING, margin="0 0 .2rem")
    charts.show(curves.finds(run, finds.total if finds else None))


def _changes(server: CardServer, run: Session | OneQuestion, name: str | None) -> None:
    """Say which changes of the stream were noticed, until the note is put away."""
    session = server.session
    changed = server.recent(f"drift {name}", lambda: drift.sentences(run))
    if changed and not st.session_state.get(away := f"changed-{session.id}-{len(changed)}"):
        note(" ".join(changed))
        st.button("Put away", key="put-away", on_click=st.session_state.__setitem__, args=(away, True))


def show_details(server: CardServer) -> None:
    """Show all curves, metrics and estimates; call it in a fragment."""
    session, name = server.session, chosen_question(server.session.settings)
    sentences, drawn, lines, problem = server.recent(f"progress {name}", lambda: _view(session, part_of(session, name)))
    say(*sentences, margin="0 0 .2rem")
    if problem and not session.settings.audited:  # in an audit the table says it
        note(problem)
    for chart in drawn:
        charts.show(chart)
    if lines:
        table(lines[0], lines[1:])


def _view(
    session: Session, run: Session | OneQuestion
) -> tuple[list[str], list[curves.Chart], list[tuple], str | None]:
    """Return the sentences, the charts, the lines of the table, and the reason if there are no estimates. run: the
    session, or one of its questions."""
    place, log = session.place, session.log
    sentences = [advice.spending(session.settings, session.state.plan, place.progress, log)]
    if session.settings.goal == FIND:
        return [*sentences, *outcome.differing(run)], [curves.answers(run)], outcome.lists(run), None
    drawn, lines, problem, closed, late = curves.of_session(run), [], None, None, None
    if run.labelled:
        until = "At the end" if place.progress.end else "So far"
        lines = [(until, *NAMES.values()), *curves.metric_lines(run, run.place.counts)]
    else:
        estimate, quarter, points = estimates.look(run)
        problem = estimate.reason
        if estimate.available:
            closed, late = estimate.closed, outcome.last_quarter(quarter)
            drawn = [*curves.estimated(run, points), *drawn]
            lines = [("Estimated", *NAMES.values()), *curves.estimate_lines(estimate.metrics)]
    if late:
        sentences.append(late)
    if isinstance(run, OneQuestion) and run.span_in_words:
        sentences.append(run.span_in_words)
    elif closed is not None:
        sentences.append(CLOSED.format(closed + 1))
    sentences += [*outcome.differing(run), *certainty.sentences(run)]
    if together := certainty.in_words(certainty.all_at_once(session)):
        sentences.append(together)
    return sentences, drawn, lines, problem
