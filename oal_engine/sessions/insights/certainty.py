"""Guaranteed minimum metrics of a session (`floors` in the code). They hold at all points in time at once, if the
session has the floor option: its plan gives every item a minimum probability of being asked about.

They are computed from the stored questions alone (`kernel.certainty`) and are never mixed with the estimates: an
estimate is near the truth, a guaranteed minimum is below it. docs/certainty.md explains when they hold.
"""

from dataclasses import dataclass
from math import exp

import numpy as np

from ...kernel import certainty, spending
from ..look_back import Trace
from ..one_question import OneQuestion
from ..session import Session

RECOMMENDED = 0.5  # share of the budget: more makes the model worse and the floors hardly higher
STEP = 0.05  # gain of recall whose cost in labels is shown
LEAST = 0.1  # smallest guaranteed recall that is worth showing
PRICES = {0.8: 12, 0.95: 57}  # {share to guarantee: random labels times the share of positives}, see docs/certainty.md
GROWTH = 1.1  # factor between two numbers of labels that `labels_for` tries
NO_GUARANTEE = "This budget is too small to guarantee any share found."
FORECAST = 0.86, 0.22, 0.53  # a constant, and powers of the positives and of the share asked; see docs/certainty.md


@dataclass(frozen=True)
class Certainty:
    """The guaranteed minimum metrics for the first `rounds` rounds. floors: {evaluation: {metric: guaranteed minimum}}.

    labels: number of labels used. closed: whether the budget was spent before the stream ended; if so, later rounds are
    not covered. known_items: number of items with known labels, which are left out.
    """

    rounds: int
    labels: int
    floors: dict[str, dict[str, float]]
    closed: bool
    known_items: int = 0

    @property
    def recall(self) -> float:
        """The guaranteed minimum recall (share of positives that were pushed or asked about)."""
        return self.floors["push_query"]["recall"]

    @property
    def says_something(self) -> bool:
        """Whether the guaranteed recall is large enough to be shown."""
        return self.recall >= LEAST

    def __str__(self) -> str:
        until = f" among the first {self.rounds:,} items" if self.closed else ""
        until += " that were not known" * bool(self.known_items)
        if not self.says_something:
            return f"Too few answers to guarantee any share found{until}."
        share = _percent(self.recall)
        return f"At least {share} of the relevant items{until} are found, whenever you look ({RISK_WORDS})."


class _Answers:
    """The answers of a session as arrays, and the current numbers of rounds and pushes."""

    def __init__(self, run: Session | Trace | OneQuestion):
        state, waiting = run.state, not run.ended(run.state)
        self.plan, self.weights = state.plan, run.weights
        self.rounds, counts = state.question.t, run.counts
        if not waiting and state.closed:
            self.rounds, counts = state.closed
        last = state.question
        if state.waits_since < self.rounds:  # rounds after a waiting question are not covered
            last = next(each.question for each in state.outstanding.values() if each.question.t == state.waits_since)
            self.rounds, waiting, counts = last.t, True, dict(state.trail)[last.t + 1]
        self.pushes = int(counts[1].sum()) - (waiting and last.predicted > 0)
        self.passed = int(counts.sum()) - (waiting and last.predicted != 0)  # without rounds of known items
        log = [entry for entry in run.log if entry.label is not None and entry.round < self.rounds]
        self.label = np.array([entry.label for entry in log], np.int64)
        self.pushed = np.array([entry.predicted > 0 for entry in log], bool)
        self.chance = np.array([entry.probability for entry in log], float)

    def now(self, risk: float = certainty.RISK) -> dict[str, dict[str, float]]:
        """Compute the current guaranteed minimum metrics."""
        promised = self.plan.promised if self.plan else 0.0
        answers, rounds, pushes = (np.array([count]) for count in (self.label.size, self.passed, self.pushes))
        tables = certainty.tables(
            self.label, self.pushed, self.chance, answers, rounds, pushes, promised, risk=risk
        )  # fmt: skip
        floors = certainty.floors(tables, self.weights)
        return {name: {metric: float(least[0]) for metric, least in each.items()} for name, each in floors.items()}


def has_floor(run: Session | Trace | OneQuestion) -> bool:
    """Return whether the plan of a session gives every item a minimum probability of being asked about."""
    return bool(run.state.plan and run.state.plan.promised)


def of_session(run: Session | Trace | OneQuestion) -> Certainty | None:
    """Return the current guaranteed minimum metrics, without the waiting question; None unless `has_floor`."""
    if not has_floor(run):
        return None
    answers = _Answers(run)
    return Certainty(
        answers.rounds,
        int((answers.label != 0).sum()),
        answers.now(),
        run.ended(run.state) and answers.rounds < run.rounds - run.known_from(run.state, answers.rounds),
        run.state.known_items.size,
    )


def all_at_once(session: Session) -> dict[str, float]:
    """Return {name of question: guaranteed minimum recall} for a session that asks several questions about each item.
    Empty if the session asks a single question, audits a column, or has no floor option (`has_floor`).

    Each guarantee gets an equal part of the risk. So the risk that any of them is wrong is at most the risk of a single
    guarantee (Bonferroni correction).
    """
    names = session.settings.question_names if has_floor(session) and not session.settings.audited else ()
    runs = {name: OneQuestion(session, name) for name in names}
    risk = certainty.RISK / max(1, len(runs))
    return {name: _Answers(run).now(risk)["push_query"]["recall"] for name, run in runs.items()}


def in_words(floors: dict[str, float]) -> str:
    """Describe in a sentence the guarantees of `all_at_once` that are large enough to be shown, "" if none is."""
    shares = ", ".join(f"{_percent(recall)} of {name}" for name, recall in floors.items() if recall >= LEAST)
    return f"All questions at once: at least {shares} are found ({RISK_WORDS})." if shares else ""


def expected(run: Session | Trace | OneQuestion) -> float | None:
    """Return the guaranteed minimum recall expected at the end, if the rest is like before. None unless `has_floor`."""
    return _expected(run, _Answers(run), 0) if has_floor(run) else None


def _expected(run: Session | Trace | OneQuestion, answers: _Answers, more: int) -> float:
    """Return the guaranteed minimum recall expected at the end if `more` labels were added now."""
    state, plan, t = run.state, run.state.plan, answers.rounds
    assert plan, "a session with a floor has a plan"
    left = max(run.rounds - run.known_from(state, t), plan.horizon) - t
    if more and (added := run.settings.plan(more, max(1, left))):
        plan = spending.extended(plan, added, t, all_spent=state.closed is not None)
    elif state.closed:
        left = 0
    hits, bounds = [], []
    for side, least, bound in (
        (~answers.pushed, plan.floor, certainty.most_hidden),
        (answers.pushed, min(1.0, spending.PUSHED * plan.floor), certainty.fewest_pushed),
    ):
        chance = answers.chance[side & (answers.label > 0)]
        later = least * left * float((1 / chance).sum()) / max(1, t)  # positives that will be asked
        chance, count = np.append(chance, least), np.append(np.ones(chance.size), later)
        hits.append(count.sum())
        bounds.append(max(hits[-1], float(bound(chance, count, np.array([count.size]), plan.promised)[0])))
    hidden, pushed = bounds
    return float((pushed + hits[0]) / (pushed + hidden)) if pushed + hidden else 0.0


def labels_for(run: Session | Trace | OneQuestion, points: float = STEP) -> int | None:
    """Return how many labels, added now, would raise the guaranteed minimum recall expected at the end by `points`
    (0.05: 5 percentage points); None if no number would."""
    if not has_floor(run):
        return None
    answers = _Answers(run)
    more, most = 1.0, max(run.rounds, run.settings.horizon) - answers.rounds
    wanted = _expected(run, answers, 0) + points
    while more <= most and _expected(run, answers, round(more)) < wanted:
        more = max(more + 1, more * GROWTH)
    return round(more) if more <= most else None


def forecast(labels: int, items: int, prevalence: float) -> float:
    """Predict the guaranteed minimum recall at the end, for the algorithm `auto` with the share RECOMMENDED of the
    budget as its floor option. docs/certainty.md says how precise this is.

    labels: budget, >= 1. items: number of items of the stream, >= 1. prevalence: share of positive items, > 0.
    """
    constant, positives, asked = FORECAST
    return exp(-exp(-constant) * (labels * prevalence) ** -positives * (labels / items) ** -asked)


def sentences(session: Session | OneQuestion) -> list[str]:
    """Describe the current guarantee, the guarantee expected at the end, and the gain from more labels, in sentences.
    Empty unless `has_floor`."""
    if not (current := of_session(session)):
        return []
    end = None if session.ended(session.state) else expected(session)
    if end is not None and end < LEAST:
        return [NO_GUARANTEE]
    then = "" if end is None else f" At the end probably {_percent(end)}."
    more = labels_for(session) if current.recall >= LEAST or end is not None else None
    if more is None or more > session.state.budget:
        return [f"{current}{then}"]
    return [f"{current}{then} {more:,} more labels would raise this by {100 * STEP:g} points."]


def promise(recall: float, items: int, prevalence: float) -> str:
    """Describe in sentences the guarantee that a new session with the floor option will probably reach, and how many
    random labels some guarantees need.

    recall: guaranteed minimum, from `forecast`. items: number of items of the stream. prevalence: share of positives.
    """
    needed = {share: labels / prevalence for share, labels in PRICES.items()}
    prices = (
        f"{f'about {labels:,.0f}' if labels < items else f'all {items:,}'} for {_percent(share)}"
        for share, labels in needed.items()
    )
    cost = f"Random labels that a guarantee needs whatever the model does: {', '.join(prices)}."
    if recall < LEAST:
        return f"{NO_GUARANTEE} {cost}"
    return f"At the end probably: at least {_percent(recall)} of the relevant items are found ({RISK_WORDS}). {cost}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


RISK_WORDS = f"{_percent(certainty.RISK)} risk"
