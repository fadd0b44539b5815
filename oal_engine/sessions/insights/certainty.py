"""What is certain of a session whenever one looks: floors of its metrics, where its plan has one under every chance.

They are computed from the stored questions alone (`kernel.certainty`), stand beside the estimates, and are never mixed
with them: an estimate is near the truth, a floor is below it. docs/certainty.md says what they mean and when they hold.
"""

from dataclasses import dataclass
from math import exp

import numpy as np

from ...kernel import certainty, spending
from ...kernel.certainty import Floors
from ..look_back import Trace
from ..session import Session

RECOMMENDED = 0.5  # share of the budget: more makes the model worse and the floors hardly higher
STEP = 0.05  # points of recall whose cost in labels is told
LEAST = 0.1  # of a share that is worth telling
PRICES = {0.8: 12, 0.95: 57}  # by the share to guarantee: random labels times the share of positives, see docs
GROWTH = 1.1  # of the labels that are tried for it
FORECAST = 0.86, 0.22, 0.53  # a constant, and powers of the positives and of the share asked; see docs/certainty.md


@dataclass(frozen=True)
class Certainty:
    """The floors of each metric by evaluation, of the first so many rounds, in which the labels used were asked.

    closed: whether the budget was spent before the stream ended, so that nothing is said of later rounds.
    """

    rounds: int
    labels: int
    floors: dict[str, dict[str, float]]
    closed: bool

    @property
    def found(self) -> float:
        """The floor of the share of positives that were found: pushed, or asked."""
        return self.floors["push_query"]["recall"]

    def __str__(self) -> str:
        until = f" among the first {self.rounds:,} items" if self.closed else ""
        if self.found < LEAST:
            return f"Too few answers to guarantee any share found{until}."
        return (
            f"At least {_percent(self.found)} of the relevant items{until} are found, whenever you look ({RISK_WORDS})."
        )


class _Answers:
    """The answers of a session as arrays, and how many rounds and pushes had passed with each and have passed now."""

    def __init__(self, run: Session | Trace):
        state, waiting = run.state, not run.ended(run.state)
        self.plan, self.weights = state.plan, run.weights
        self.rounds, counts = state.question.t, state.counts
        if not waiting and state.closed:
            self.rounds, counts = state.closed
        last = state.question
        if state.waits_since < self.rounds:  # nothing is said of what came after a question that waits
            last = next(q for q, _ in state.outstanding.values() if q.t == state.waits_since)
            self.rounds, waiting, counts = last.t, True, dict(state.trail)[last.t + 1]
        self.pushes = int(counts[1].sum()) - (waiting and last.predicted > 0)
        log = [entry for entry in run.log if entry.label is not None and entry.round < self.rounds]
        self.round = np.array([entry.round for entry in log], np.int64)
        self.label = np.array([entry.label for entry in log], np.int64)
        self.pushed = np.array([entry.predicted > 0 for entry in log], bool)
        self.chance = np.array([entry.probability for entry in log], float)

    def floors(
        self, answers: np.ndarray, rounds: np.ndarray, pushes: np.ndarray, found: np.ndarray | None = None
    ) -> Floors:
        """The floors at looks after so many answers, rounds and pushes."""
        promised = self.plan.promised if self.plan else 0.0
        tables = certainty.tables(self.label, self.pushed, self.chance, answers, rounds, pushes, promised, found)
        return certainty.floors(tables, self.weights)

    def now(self, found: int | None = None) -> dict[str, dict[str, float]]:
        """The floors now; found: the positives among the pushes, where they are known."""
        known = None if found is None else np.array([found])
        answers, rounds, pushes = (np.array([count]) for count in (self.label.size, self.rounds, self.pushes))
        return _at(self.floors(answers, rounds, pushes, known), 0)


def _at(floors: Floors, k: int) -> dict[str, dict[str, float]]:
    return {name: {metric: float(values[k]) for metric, values in each.items()} for name, each in floors.items()}


def has_floor(run: Session | Trace) -> bool:
    """Whether the plan of a session has a floor."""
    return bool(run.state.plan and run.state.plan.promised)


def of_session(run: Session | Trace) -> Certainty | None:
    """What is certain of a session now, without the question that waits; None where it has no floor."""
    if not has_floor(run):
        return None
    answers = _Answers(run)
    return Certainty(
        answers.rounds,
        int((answers.label != 0).sum()),
        answers.now(),
        run.ended(run.state) and answers.rounds < run.rounds,
    )


def if_read(session: Session) -> dict[str, dict[str, float]] | None:
    """The floors of a session if a person has read every item that was pushed and marked each wrong one."""
    if not has_floor(session):
        return None
    answers, decided = _Answers(session), session.decided
    rounds = answers.rounds
    passed = (decided[1][:rounds] > 0) & ~decided[2][:rounds]
    wrong = np.isin(session.order[:rounds][passed], list(session.marks)).sum()
    return answers.now(int((answers.pushed & (answers.label > 0)).sum() + passed.sum() - wrong))


def curve(run: Session | Trace, points: int = 60) -> list[Certainty]:
    """What was certain after some answers of a session, and is now."""
    if not has_floor(run):
        return []
    answers, trail = _Answers(run), dict(run.state.trail)
    size = answers.label.size
    looks = np.unique(np.linspace(1, size, min(points, size)).round().astype(int)) if size else np.zeros(0, int)
    looks = np.array([k for k in looks if answers.round[k - 1] + 1 in trail], int)
    rounds = answers.round[looks - 1] + 1
    pushes = np.array([trail[t][1].sum() for t in rounds.tolist()], int)
    floors, labels = answers.floors(looks, rounds, pushes), np.cumsum(answers.label != 0)
    known = [Certainty(int(rounds[k]), int(labels[looks[k] - 1]), _at(floors, k), False) for k in range(looks.size)]
    now = of_session(run)
    return known if now is None or (known and known[-1].rounds == now.rounds) else [*known, now]


def expected(run: Session | Trace) -> float | None:
    """The floor of the share found that is to be expected at the end of the stream, if the rest is like what has
    passed; None where a session has no floor."""
    return _expected(run, _Answers(run), 0) if has_floor(run) else None


def _expected(run: Session | Trace, answers: _Answers, more: int) -> float:
    """The same of a session with a floor, with so many labels added now."""
    state, plan, t = run.state, run.state.plan, answers.rounds
    assert plan, "a session with a floor has a plan"
    left = max(run.rounds, plan.horizon) - t
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


def labels_for(run: Session | Trace, points: float = STEP) -> int | None:
    """How many labels, added now, would lift the floor expected at the end by so much; None where none would."""
    if not has_floor(run):
        return None
    answers = _Answers(run)
    more, most = 1.0, max(run.rounds, run.settings.horizon) - answers.rounds
    wanted = _expected(run, answers, 0) + points
    while more <= most and _expected(run, answers, round(more)) < wanted:
        more = max(more + 1, more * GROWTH)
    return round(more) if more <= most else None


def forecast(labels: int, items: int, prevalence: float) -> float:
    """The floor of the share found that `auto` with so many labels and the floor RECOMMENDED ends with, over a stream
    of so many items of which this share is positive; docs/certainty.md has how far it is off.

    labels, items: >= 1. prevalence: > 0.
    """
    constant, positives, asked = FORECAST
    return exp(-exp(-constant) * (labels * prevalence) ** -positives * (labels / items) ** -asked)


def sentences(session: Session) -> list[str]:
    """Return what is certain of a session now, what is to be expected at the end, and what more labels would add, in
    sentences; nothing where it has no floor."""
    known = of_session(session)
    if not known:
        return []
    end = None if session.ended(session.state) else expected(session)
    if end is not None and end < LEAST:
        return [f"{known} With this budget the guarantee stays near 0 %."]
    then = "" if end is None else f" At the end probably {_percent(end)}."
    more = labels_for(session) if known.found >= LEAST or end is not None else None
    worth = more is not None and more <= session.state.budget
    return [f"{known}{then}" + f" {more:,} more labels would raise the end by {100 * STEP:g} points." * worth]


def promise(found: float, items: int, prevalence: float) -> str:
    """Return what a floor promises of a new session, and what a higher one costs, in sentences.

    found: as `forecast` has it. items: of the stream, of which this share is positive.
    """
    needed = {share: labels / prevalence for share, labels in PRICES.items()}
    prices = (
        f"{f'about {labels:,.0f}' if labels < items else f'all {items:,}'} for {_percent(share)}"
        for share, labels in needed.items()
    )
    cost = f"Random labels that a guarantee needs whatever the model does: {', '.join(prices)}."
    if found < LEAST:
        return f"With this budget the guarantee stays near 0 %. {cost}"
    return f"At the end probably: at least {_percent(found)} of the relevant items are found ({RISK_WORDS}). {cost}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


RISK_WORDS = f"{_percent(certainty.RISK)} risk"
