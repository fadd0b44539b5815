"""Signs that the model learns: numbers, terms whose weights changed most lately, and the strongest of each class."""

import html
from datetime import UTC, datetime

import numpy as np
import streamlit as st

from oal_engine.datasets import prior
from oal_engine.kernel import learners
from oal_engine.sessions.insights import top_terms
from oal_engine.sessions.insights.curves import percent
from oal_engine.sessions.insights.top_terms import Moved
from oal_engine.sessions.log import Entry
from oal_engine.sessions.one_question import OneQuestion, part_of
from oal_engine.sessions.session import Session

from ...page import counted, note, say
from ..card_server import CardServer
from . import chosen_question

PREDICTED = " {} of the answers were as predicted."
ANSWERS_AND_PUSHED = " {} of the answers were {}; the model pushed {} of the stream."

LAST_ANSWERS = (10, 50)  # numbers of last answers over which moved terms can be shown
MAX_TERMS, CANDIDATES = 12, 40  # terms in a list, and candidates before word beginnings are merged into words
Lines = list[tuple[str, np.ndarray]]
STYLE = """<style>
.oal-terms { display: grid; grid-template-columns: minmax(4.5rem, 1fr) minmax(2rem, 1fr) auto; gap: .1rem .7rem;
  align-items: center; font-size: .92rem; font-variant-numeric: tabular-nums;  }
.oal-terms .term { overflow: hidden; white-space: nowrap; text-overflow: ellipsis; }
.oal-terms .figure { text-align: end; }
.oal-terms .bar { height: .55rem; border-radius: .2rem; background: rgba(128, 128, 128, .16); }
.oal-terms .bar i { display: block; height: 100%; border-radius: .2rem; background: #26988b; }
.oal-terms .bar i.against { background: #d9822b; }
</style>"""


def show(server: CardServer) -> None:
    """Show the panel; call it in a fragment."""
    name = chosen_question(server.session.settings)
    session = part_of(server.session, name)
    proof = _proof(session, server.log)
    if session.settings.prior:
        proof += f" {prior.described(session.settings.prior)}"
    say(proof, margin="0 0 .4rem")
    if not session.labels:
        note("Nothing is learned yet.")
        return
    back = st.segmented_control(
        "Terms that moved most in the last", LAST_ANSWERS, format_func="{} answers".format, default=LAST_ANSWERS[0],
        required=True, key="learned-back",
    )  # fmt: skip
    moved, strongest = server.recent(f"learned {name}", lambda: _view(session))
    _terms([(name, new - old, f"{_figure(old)} → {_figure(new)}") for name, (old, new) in moved[back]])
    names = session.names
    if session.multiclass:
        label = st.selectbox("Strongest terms of", names, format_func=names.__getitem__, key="learned-class")
        _terms([(term, value, _figure(value)) for term, (value,) in strongest[label]])
    else:
        for column, (label, word) in zip(st.columns(2), names.items()):
            with column:
                _heading(f"Speaks for {word}")
                _terms([(term, label * value, _figure(label * value)) for term, (value,) in strongest[label]])
    if weights := learners.member_weights(session.learner):
        with st.expander("For researchers"):
            _heading("Weight of each learner")
            _terms([(name, share, percent(share)) for name, share in weights.items()], longest=1)


def _view(session: Session | OneQuestion) -> tuple[dict[int, Lines], dict[int, Lines]]:
    """Return the terms that changed most, {number of last answers: terms}, and the strongest terms, {class: terms}."""
    now, latent, common = session.place.weights, session.dataset.latent, top_terms.common(session)
    strongest = {
        label: top_terms.whole_words(
            session,
            ((k, np.array([value])) for k, value in top_terms.strongest(now, label, CANDIDATES, common, latent)),
        )
        for label in session.names
    }
    moved = {
        n: _moved(session, top_terms.moved(session.earlier(n), now, CANDIDATES, common, latent)) for n in LAST_ANSWERS
    }
    return (
        {n: sorted(lines, key=lambda line: -abs(line[1][1] - line[1][0]))[:MAX_TERMS] for n, lines in moved.items()},
        {label: sorted(lines, key=lambda line: -abs(line[1][0]))[:MAX_TERMS] for label, lines in strongest.items()},
    )


def _moved(session: Session | OneQuestion, moves: list[Moved]) -> Lines:
    """Name the terms whose weights changed (with K classes also the class), each with its old and its new weight."""
    return [
        (name if label is None else f"{name} → {session.names[label]}", values)
        for label in dict.fromkeys(move.label for move in moves)
        for name, values in top_terms.whole_words(
            session, ((move.column, np.array([move.old, move.new])) for move in moves if move.label == label)
        )
    ]


def _proof(session: Session | OneQuestion, log: list[Entry]) -> str:
    """Return a sentence with numbers that show whether the model is learning."""
    place = session.place
    if not (labels := place.progress.labels):
        return "The model waits for its first answer."
    last = next(entry.answered_at for entry in reversed(log) if entry.label and entry.answered_at)
    updates = f"Learned from {counted(labels, 'answer')}, the last one {_age(last)} ago."
    if session.multiclass:
        right = sum(not entry.mistake for entry in log if entry.label)
        return updates + PREDICTED.format(percent(right / labels))
    pushed = (place.progress.pushed or 0) / max(1, place.progress.streamed)
    share = session.labels.count(1) / labels
    return updates + ANSWERS_AND_PUSHED.format(percent(share), session.names[1], percent(pushed))


def _age(moment: str) -> str:
    """Return the time since a stored moment, such as "4 s"."""
    seconds = max(0, (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _heading(words: str) -> None:
    st.html(f'<b dir="auto" style="font-size:.92rem">{html.escape(words)}</b>')


def _terms(lines: list[tuple[str, float, str]], longest: float = 0) -> None:
    """Show a list of terms with bars. lines: (term, value of its bar, words after the bar). longest: the value of a
    full bar (0: the largest value)."""
    if not lines:
        st.text("None.")
        return
    most = longest or max(abs(value) for _, value, _ in lines)
    rows = "".join(
        f'<span class="term" dir="auto" title="{html.escape(term)}">{html.escape(term)}</span><span class="bar">'
        f'<i class="{"against" if value < 0 else ""}" style="width:{100 * abs(value) / most:.0f}%"></i></span>'
        f'<span class="figure">{words}</span>'
        for term, value, words in lines
    )
    st.html(f'{STYLE}<div class="oal-terms">{rows}</div>')


def _figure(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−") if value else "0"
