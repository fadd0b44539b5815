"""Progress at a glance: how long the budget lasts, whether to stop, curves and metrics."""

import streamlit as st

from oal_engine.output.plots import NAMES
from oal_engine.sessions.insights import certainty, curves, drift, estimates, outcome
from oal_engine.sessions.one_question import OneQuestion, part_of
from oal_engine.sessions.session import Session

from ... import charts
from ...metric_table import table
from ...page import counted, note, say
from ..card_server import CardServer
from . import advice, chosen_question

FEWEST = 10  # answers: fewer say little
LATER = "Curves and figures appear here after {} answers: {} to go."
CLOSED = (
    "Estimates end at item {:,}, where the last label was spent. They understate the final model, which was still "
    "learning until then."
)


def show(server: CardServer) -> None:
    """Show the progress of a session; call it in a fragment."""
    session = server.session
    progress = session.place.progress
    if progress.labels < FEWEST and not progress.end:
        note(LATER.format(FEWEST, counted(FEWEST - progress.labels, "more answer")))
        return
    if session.settings.audited:
        (heads, *metrics), more = server.recent("audit", lambda: outcome.audit(session))
        table(heads, metrics)
        table(("In all", ""), more, "none")
    name = chosen_question(server.session.settings)
    sentences, drawn, lines, problem, changed = server.recent(
        f"progress {name}", lambda: _view(session, part_of(session, name))
    )
    if changed and not st.session_state.get(away := f"changed-{session.id}-{len(changed)}"):
        note(" ".join(changed))
        st.button("Put away", key="put-away", on_click=st.session_state.__setitem__, args=(away, True))
    say(*sentences, margin="0 0 .2rem")
    if problem and not session.settings.audited:  # in an audit the table says it
        note(problem)
    for chart in drawn:
        charts.show(chart)
    if lines:
        table(lines[0], lines[1:])


def _view(
    session: Session, run: Session | OneQuestion
) -> tuple[list[str], list[curves.Chart], list[tuple], str | None, list[str]]:
    """Return the sentences, the charts, the lines of the table, the reason if there are no estimates, and sentences on
    changes of the stream. run: the session, or one of its questions."""
    place, log, (metric, title) = session.place, session.log, advice.METRICS[session.multiclass]
    drawn, lines, problem, closed, late = curves.of_session(run), [], None, None, None
    values: advice.Curve | None = None
    if run.labelled:
        until = "At the end" if place.progress.end else "So far"
        lines = [(until, *NAMES.values()), *curves.metric_lines(run, run.place.counts)]
        rounds, counts = run.curve()
        values = rounds, run.evaluate(counts, "push")[metric]
    else:
        estimate, quarter, points = estimates.look(run)
        problem = estimate.reason
        if estimate.available:
            closed, late = estimate.closed, outcome.last_quarter(quarter)
            drawn = [*curves.estimated(run, points), *drawn]
            lines = [("Estimated", *NAMES.values()), *curves.estimate_lines(estimate.metrics)]
            known_rounds, ends = estimates.line(points, "push", metric)
            values = known_rounds, ends[0]
    theta = 0.0 if session.multiclass else session.settings.theta
    sentences = advice.spending(session.settings, session.state.plan, place.progress, log)
    if late:
        sentences.append(late)
    if isinstance(run, OneQuestion) and run.span_in_words:
        sentences.append(run.span_in_words)
    elif closed is not None:
        sentences.append(CLOSED.format(closed + 1))
    if not place.progress.end:
        sentences.append(advice.stopping(log if run is session else run.log, theta, title, values))
    sentences += [*outcome.differing(run), *certainty.sentences(run)]
    if together := certainty.in_words(certainty.all_at_once(session)):
        sentences.append(together)
    return sentences, drawn, lines, problem, drift.sentences(run)
