"""Estimate the metrics of a session, or of a window (range of rounds), from its log alone with `kernel.estimates`."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np

from ...kernel.estimates import NEEDED, RARER, WORTH, Enough, Side, Windows, of_classes, rarer, windows
from ...kernel.estimates import positives as number_of_positives
from ...kernel.query_rules import leaves_out
from ...kernel.spending import FIND
from ..log import Entry
from ..look_back import Trace
from ..one_question import OneQuestion
from ..session import Session

USUALLY = "usually"
FORECASTS = {  # by multiclass: {minimum number of labels: (how often there is an estimate, its half-width)}
    False: {
        100: ("sometimes", 0.19), 200: (USUALLY, 0.14), 300: (USUALLY, 0.11), 500: (USUALLY, 0.08),
        2000: (USUALLY, 0.05),
    },
    True: {100: ("sometimes", 0.12), 300: ("sometimes", 0.07), 1000: (USUALLY, 0.03)},
}  # as measured in docs/estimates.md  # fmt: skip


class Estimate(NamedTuple):
    """An estimated metric with its 95 % interval, all as fractions."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:z.2f} ({self.low:z.2f} to {self.high:z.2f})".replace("-", "−")


Metrics = dict[str, dict[str, Estimate | None]]  # evaluation -> metric -> its estimate (None: too few answers)


@dataclass(frozen=True)
class Estimates:
    """The estimated metrics of a window (range of rounds) of a session.

    positives: number of positive answers. closed: last round (from 0) of the window if it has ended, else None.
    metrics: {evaluation: {metric: Estimate or None}}. reason: a sentence on the answers that are missing, or None if
    every metric has an estimate. start: first round of the window.
    """

    positives: int
    closed: int | None
    metrics: Metrics
    reason: str | None
    start: int = 0

    @property
    def available(self) -> list[str]:
        """The metrics that have an estimate."""
        return [metric for metric, estimate in self.metrics["push"].items() if estimate]


class Point(NamedTuple):
    """The estimates after a number of rounds and labels."""

    rounds: int
    labels: int
    metrics: Metrics


class Overview(NamedTuple):
    """The estimates of a session: now, for its last quarter (None: too few answers), and along the stream."""

    now: Estimates
    last_quarter: Estimates | None
    curve: list[Point]


class Answers:
    """The answers of a session as arrays, and the numbers of rounds and pushes up to each answer."""

    def __init__(self, run: Session | Trace | OneQuestion):
        state, plan = run.state, run.state.plan
        self.run, self.leaves_out = run, leaves_out(run.settings.rule)  # whether only audits can ask some items
        self.finds = run.settings.goal == FIND
        self.silent = self.finds or (self.leaves_out and not (plan and plan.audits))
        self.start, self.trail = 0, (trail := dict(state.trail))  # {rounds done: table of counts}
        log = [e for e in run.log if e.label is not None and e.round + 1 in trail]
        limit, waits = self._limit(log), state.waits_since
        log = [e for e in log if e.round < min(limit, waits)]
        self.size = len(log)
        self.label = np.array([e.label for e in log], np.int64)
        self.predicted = np.array([e.predicted for e in log], np.int64)
        self.chance = np.array([e.probability for e in log], float)
        self.rounds = np.array([0] + [e.round + 1 for e in log])
        spent = state.spent >= state.budget
        if limit <= min(waits, state.question.t) and not spent:  # items passed since had a chance of being asked, too
            self.rounds[-1] = max((t for t in trail if t <= limit), default=0)
        over = spent or limit <= min(state.question.t, run.rounds - 1)
        self.closed = int(self.rounds[-1]) - 1 if over else None
        none = np.zeros_like(run.counts)
        tables = [trail.get(t, none) for t in self.rounds.tolist()]
        if run.multiclass:  # tables of many classes are too large for one array
            self.passed = np.array([table.sum() for table in tables])
            self.pushes = np.zeros_like(self.rounds)
        else:
            sides = np.array(tables).sum(axis=(2, 3))
            self.passed, self.pushes = sides.sum(axis=1), sides[:, 1]  # without known items

    def since(self, start: int) -> "Answers":
        """Return the answers of the rounds from `start` on, or from the next round whose counts are stored."""
        own = copy(self)
        own.start = min(t for t in self.trail if t >= start)
        late = self.rounds[1:] > own.start
        own.label, own.predicted, own.chance = self.label[late], self.predicted[late], self.chance[late]
        before = 0 if self.run.multiclass else self.trail[own.start][1].sum()
        own.size, own.rounds = int(late.sum()), np.append(0, self.rounds[1:][late] - own.start)
        own.pushes = np.append(0, self.pushes[1:][late] - before)
        own.passed = np.append(0, self.passed[1:][late] - self.trail[own.start].sum())
        return own

    def _limit(self, log: Sequence[Entry]) -> int:
        """Return the round from which some items can no longer be asked, as audits ended; else the number of rounds."""
        state, plan, rounds = self.run.state, self.run.state.plan, self.run.rounds
        if not plan or not log:
            return rounds
        audits = [e.round + 1 for e in log if e.audit and e.label]
        if self.leaves_out:
            return audits[-1] if audits and len(audits) >= plan.audits else min(rounds, plan.horizon)
        if state.spent - state.audited >= plan.budget - plan.audits:
            return min(rounds, max(plan.horizon, log[-1].round + 1))
        return rounds

    def windows(self, answers: np.ndarray) -> tuple[Windows, Enough, list[Side]]:
        """Estimate the metrics with `kernel.estimates` after the first n answers, for each number n in `answers`."""
        rounds = self.passed[answers]
        if self.run.multiclass:
            return of_classes(self.predicted == self.label, self.label, self.chance, answers, rounds)
        label, pushes = np.where(self.label == 1, 1, np.where(self.label == 0, 0, -1)), self.pushes[answers]
        return windows(self.predicted > 0, label, self.chance, answers, rounds, pushes, self.run.weights)


def _estimates(values: Windows, enough: Enough) -> list[Metrics]:
    """Convert arrays of metrics, with a value for each window, to a list with the metrics of each window."""
    return [
        {
            name: {key: Estimate(*ends[:, k].tolist()) if enough[key][k] else None for key, ends in metrics.items()}
            for name, metrics in values.items()
        }
        for k in range(enough["accuracy"].size)
    ]


def look(run: Session | Trace | OneQuestion, points: int = 60) -> Overview:
    """Estimate the metrics from the log alone: now, over its last quarter, and at up to `points` points of it."""
    answers = Answers(run)
    now, curve = _look(answers, points)
    late = answers.since(int(answers.rounds[-1]) * 3 // 4) if now.available and answers.size else None
    return Overview(now, _look(late, 1)[0] if late else None, curve)


def of_session(run: Session | Trace | OneQuestion) -> Estimates:
    """Estimate the current metrics of a session."""
    return _look(Answers(run), 1)[0]


def over(questions: Mapping[str, Estimates], evaluation: str, metric: str) -> tuple[Estimate, Estimate, str] | None:
    """Return the mean of a metric over the questions that have an estimate, the worst estimate, and the name of its
    question. None if no question has an estimate. The interval of the mean runs from the mean of the lower ends to the
    mean of the upper ends, which is wide enough however the questions depend on each other."""
    values = {name: each for name, now in questions.items() if (each := now.metrics[evaluation][metric])}
    if not values:
        return None
    worst = min(values, key=values.__getitem__)
    return Estimate(*np.mean([*values.values()], axis=0).tolist()), values[worst], worst


def positives(run: Session | Trace | OneQuestion) -> tuple[Estimate, int] | None:
    """Estimate the number of positives among the items that have passed. Return the estimate and the number of these
    items; None if there are too few answers."""
    answers = Answers(run)
    if answers.silent or not answers.size:
        return None
    _, enough, sides = answers.windows(np.array([answers.size]))
    ends = number_of_positives(*sides)[:, 0] if enough["f1"][0] else None
    return None if ends is None else (Estimate(*ends.tolist()), int(answers.passed[-1]))


def curve(run: Session | Trace | OneQuestion, points: int = 60) -> list[Point]:
    """Estimate the metrics at up to `points` points along the stream, leaving out points without any estimate."""
    return _look(Answers(run), points)[1]


def _look(answers: Answers, points: int) -> tuple[Estimates, list[Point]]:
    """Estimate the metrics over all rounds of these answers, and at up to `points` points along them."""
    size = answers.size
    after = np.unique(np.linspace(1, size, min(points, size)).round().astype(int)) if size and points > 1 else None
    after = np.array([size]) if after is None else after
    values, enough, sides = answers.windows(after)
    if answers.silent:
        enough = dict.fromkeys(enough, np.zeros(after.size, bool))
    positives = int(sum(part.positives[-1] for part in sides))
    reason = None if all(each[-1] for each in enough.values()) else _reason(answers, positives, enough, sides)
    metrics = _estimates(values, enough)
    labels = np.concatenate([[0], np.cumsum(answers.label != 0)])
    curve = [
        Point(int(answers.rounds[after[k]]), int(labels[after[k]]), metrics[k])
        for k in np.flatnonzero(np.any([*enough.values()], axis=0)).tolist()
    ]
    return Estimates(positives, answers.closed, metrics[-1], reason, answers.start), curve


def _reason(answers: Answers, positives: int, enough: Enough, sides: Sequence[Side]) -> str:
    """Say in a sentence why estimates are missing: the rule never asks about some items, every item was asked about, or
    there are too few answers. If positive answers are missing and enough items are left, also say about how many more
    labels are needed."""
    if answers.finds:
        whole = "predictions" if answers.run.multiclass else "list"
        return f"In a file the questions follow the model: the quality of its {whole} is stated."
    if answers.silent:
        return (
            f"The rule {answers.run.settings.rule} gives some items no chance of being asked: "
            "estimates need random checks or a rule that draws."
        )
    if answers.size and not sum(part.unasked[-1] for part in sides):
        return "Every item was asked: there is nothing to estimate."
    multiclass, labels = answers.run.multiclass, ""
    if 0 < positives < NEEDED[multiclass]:
        more = ceil(np.count_nonzero(answers.label) * (NEEDED[multiclass] / positives - 1))
        if more <= answers.run.rounds - answers.rounds[-1]:  # items that can still be asked
            labels = f": about {more:,} more labels"
    if multiclass:
        return f"No estimate yet. It needs {_missing_of_classes(sides[0])}{labels}."
    subject = (
        "Only precision is estimated yet. The others need" if enough["precision"][-1] else "No estimate yet. It needs"
    )
    return f"{subject} {_missing(*sides)}{labels}."


def _missing(pushed: Side, hidden: Side) -> str:
    """Say which answers are still needed on pushed and on other items."""
    names = "an item predicted as positive", "an item not predicted as positive"
    blank = [name for name, part in zip(names, (pushed, hidden)) if not part.enough[-1]]
    total = max(len(blank), NEEDED[False] - int(pushed.positives[-1] + hidden.positives[-1]))
    if total <= 0:
        answers = hidden.positives[-1] + hidden.negatives[-1]
        more = _more("answer", answers * (WORTH / max(1.0, hidden.worth[-1]) - 1))
        return f"about {more} on items not predicted as positive"
    if not blank or total == 1:
        return _more("positive answer", total) + "".join(f" on {name}" for name in blank)
    least = "at least " if total > len(blank) else ""
    return f"{_more('positive answer', total)}, {least}{' and '.join(f'one on {name}' for name in blank)}"


def _missing_of_classes(wrong: Side) -> str:
    """Say which answers are still needed with K classes."""
    needs = {"wrongly": NEEDED[True] - int(wrong.positives[-1]), "rightly": RARER - int(wrong.negatives[-1])}
    parts = [f"{_more('answer', count)} on {how} predicted items" for how, count in needs.items() if count > 0]
    if parts:
        return " and ".join(parts)
    how, answers = ("wrongly", wrong.positives[-1]) if wrong.rate[-1] < 0.5 else ("rightly", wrong.negatives[-1])
    return f"about {_more('answer', answers * (RARER / max(1.0, rarer(wrong)[-1]) - 1))} on {how} predicted items"


def _more(noun: str, count: float) -> str:
    """Write a count, rounded up, with its noun: 3 more answers."""
    count = max(1, ceil(count))
    return f"{count:,} more {noun}{'s' * (count != 1)}"


def forecast(labels: int, multiclass: bool) -> str:
    """Say how precisely this number of labels will usually show the quality of a model, if the truth is not known."""
    steps, metric = FORECASTS[multiclass], "accuracy" if multiclass else "F1"
    if reached := [step for step in steps if labels >= step]:
        often, half = steps[reached[-1]]
        return f"With {labels:,} labels {metric} is {often} known to within ± {half:.2f}."
    enough = next(step for step, (often, _) in steps.items() if often == USUALLY)
    return f"{labels:,} labels are too few to show how good the model is; {enough:,} are usually enough."


def line(points: Sequence[Point], evaluation: str, metric: str) -> tuple[list[int], np.ndarray]:
    """Return the rounds of the points at which a metric has an estimate, and its values, lower ends and upper ends
    there, shape (3, rounds)."""
    estimated = [(rounds, value) for rounds, _, each in points if (value := each[evaluation].get(metric))]
    ends = np.array([(value.value, value.low, value.high) for _, value in estimated]).reshape(-1, 3).T
    return [rounds for rounds, _ in estimated], ends
