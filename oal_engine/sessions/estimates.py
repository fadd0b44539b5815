"""The metrics of a stream whose truth is not known, from the answers and the chances with which they were asked.

An answer that was asked for with probability pi stands for 1/pi - 1 items of its side (pushed, or not pushed) that were
not asked; how many of these there are is known exactly, and so are the answers. Estimated is the share of positives
among the items of each side that were not asked. Each share has Jeffreys' interval (Brown, Cai and DasGupta 2001) with
the effective number of answers of a weighted sample (Korn and Graubard 1998); the intervals of both sides are combined
into that of a metric by the recovery of variances (Zou and Donner 2008). docs/estimates.md has how well this works.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv, ndtri, stdtrit

from ..kernel.metrics import EVALUATIONS, METRICS, Weights
from ..kernel.query_rules import leaves_out
from .log import Entry
from .look_back import Trace
from .session import Session

NEEDED = 20  # positives among the answers (of K classes: wrong predictions), for a number to be shown
SIDE = 5  # of these on each side where some items were not asked (of K classes: right and wrong ones)
WORTH = 30  # answers of equal weight that those about items not pushed must be worth
TAIL = 0.025  # of a 95 % interval
FORECASTS = {  # by whether there are K classes: from so many labels on, whether there is a number, and its half-width
    False: {200: ("perhaps", 0.11), 300: ("probably", 0.10), 500: ("probably", 0.08), 2000: ("probably", 0.06)},
    True: {100: ("perhaps", 0.12), 300: ("perhaps", 0.07), 1000: ("probably", 0.03)},
}  # as measured in docs/estimates.md  # fmt: skip
BINARY = ("sum", "f1", "sensitivity", "specificity", "precision", "accuracy")


@dataclass(frozen=True)
class Estimate:
    """A metric with its 95 % interval, all fractions."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


Windows = dict[str, dict[str, np.ndarray]]  # evaluation -> metric -> value, low, high of each window: (3, windows)
Metrics = dict[str, dict[str, Estimate]]  # evaluation -> metric -> its estimate


@dataclass(frozen=True)
class Estimates:
    """What is known of a session without its truth: the positives answered of those needed, the round (from 0) with
    which the window has closed or None, {evaluation: {metric: Estimate or None}}, and why there is none, or None."""

    positives: int
    needed: int
    closed: int | None
    metrics: Metrics | dict[str, dict[str, None]]
    reason: str | None


@dataclass(frozen=True)
class Side:
    """The pushed rounds of some windows, or those not pushed. Arrays, one number a window.

    positives, negatives: answered. unasked: items not asked that can be labelled. rate: the share of positives among
    these, with its interval `low` to `high`; number: the answers of equal weight that it rests on; known: whether they
    are enough. worth: how many answers of equal weight (1 / pi) those of this side are worth (Kish).
    """

    positives: np.ndarray
    negatives: np.ndarray
    unasked: np.ndarray
    rate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    number: np.ndarray
    known: np.ndarray
    worth: np.ndarray


def side(label: np.ndarray, chance: np.ndarray, own: np.ndarray, answers: np.ndarray, passed: np.ndarray) -> Side:
    """A side of the windows after so many answers, with so many of its rounds passed in each.

    label: +1, -1, or 0 for a skip, which is taken as an item that nobody can label. own: whether an answer is of this
    side.
    """
    rest = own * (1 / chance - 1)  # items not asked that an answer stands for
    yes, real = label > 0, label != 0

    def until(values: np.ndarray) -> np.ndarray:
        return np.concatenate([[0.0], np.cumsum(values)])[answers]

    positives, negatives, asked = until(own & yes), until(own & (label < 0)), until(own)
    weight, everything = until(rest * real), until(rest)
    with np.errstate(divide="ignore", invalid="ignore"):
        unasked = (passed - asked) * np.where(everything > 0, weight / everything, 1.0)
        rate = until(rest * yes) / weight
        squares = until(rest * real / chance)
        worth = until(own * real / chance) ** 2 / until(own * real / chance**2)
        kish = weight**2 / squares
        off = (until(rest * yes / chance) * (1 - 2 * rate) + squares * rate**2) / weight**2
        number = np.fmin(kish, rate * (1 - rate) / off)
    blank = ~(weight > 0)  # nothing is known of what was not asked, or there is nothing
    rate, number = np.where(blank, 0.0, rate), np.where(blank, 0.0, number)
    low, high = jeffreys(rate, number)
    known = (unasked == 0) | (~blank & (positives >= SIDE))
    return Side(positives, negatives, unasked, rate, low, high, number, known, np.nan_to_num(worth))


def jeffreys(rate: np.ndarray, number: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ends of Jeffreys' interval of a share that rests on so many answers of equal weight (0: on none)."""
    hits = rate * number
    low, high = (betaincinv(hits + 0.5, number - hits + 0.5, tail) for tail in (TAIL, 1 - TAIL))
    return np.where(rate > 0, low, 0.0), np.where((number > 0) & (rate < 1), high, 1.0)


def table(
    shown: Side, hidden: Side, evaluation: str, shown_rate: np.ndarray, hidden_rate: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """tp, fp, tn, fn with these shares of positives among the items that were not asked."""
    tp = shown.positives + shown.unasked * shown_rate
    fp = shown.negatives + shown.unasked * (1 - shown_rate)
    tn, fn = hidden.unasked * (1 - hidden_rate), hidden.unasked * hidden_rate
    if evaluation == "push":
        return tp, fp, tn + hidden.negatives, fn + hidden.positives
    return tp + hidden.positives, fp + hidden.negatives, tn, fn


def interval(shown: Side, hidden: Side, evaluation: str, metric: str, weights: Weights) -> np.ndarray:
    """A metric of each window, and the ends of its interval: (3, windows)."""

    def at(shown_rate: np.ndarray, hidden_rate: np.ndarray) -> np.ndarray:
        value: np.ndarray = METRICS[metric](*table(shown, hidden, evaluation, shown_rate, hidden_rate), weights)
        return value

    value, below, above = at(shown.rate, hidden.rate), 0.0, 0.0
    for ends in (
        [at(end, hidden.rate) for end in (shown.low, shown.high)],
        [at(shown.rate, end) for end in (hidden.low, hidden.high)],
    ):
        below = below + np.maximum(value - np.minimum(*ends), 0) ** 2
        above = above + np.maximum(np.maximum(*ends) - value, 0) ** 2
    return np.array([value, np.maximum(value - np.sqrt(below), 0), np.minimum(value + np.sqrt(above), 1)])


def windows(
    pushed: np.ndarray, label: np.ndarray, chance: np.ndarray, answers: np.ndarray, rounds: np.ndarray,
    pushes: np.ndarray, weights: Weights,
) -> tuple[Windows, np.ndarray, list[Side]]:  # fmt: skip
    """The metrics of the windows after so many answers, when so many rounds and pushes had passed; whether each has
    enough answers on both sides, and some item that was not asked; and both sides."""
    shown = side(label, chance, pushed, answers, pushes)
    hidden = side(label, chance, ~pushed, answers, rounds - pushes)
    values = {
        name: {metric: interval(shown, hidden, name, metric, weights) for metric in BINARY} for name in EVALUATIONS
    }
    enough = (shown.positives + hidden.positives >= NEEDED) & ((hidden.unasked == 0) | (hidden.worth >= WORTH))
    return values, enough & shown.known & hidden.known & (shown.unasked + hidden.unasked > 0), [shown, hidden]


def of_classes(
    right: np.ndarray, label: np.ndarray, chance: np.ndarray, answers: np.ndarray, rounds: np.ndarray
) -> tuple[Windows, np.ndarray, list[Side]]:
    """The accuracy of K classes in the same form, and its one side: a prediction that is wrong counts as the positive.

    A variance known from few answers is itself uncertain: their number is reduced by the squared ratio of the normal
    quantile to Student's (Korn and Graubard 1998; degrees of freedom: the answers of equal weight, less one).
    """
    wrong = side(np.where(label == 0, 0, np.where(right, -1, 1)), chance, np.ones(label.size, bool), answers, rounds)
    reduced = wrong.number * (ndtri(TAIL) / stdtrit(np.maximum(wrong.number - 1, 1), TAIL)) ** 2
    low, high = jeffreys(wrong.rate, reduced)
    known = {"push": wrong.positives, "push_query": 0.0}
    whole = np.maximum(wrong.positives + wrong.negatives + wrong.unasked, 1)  # nothing has passed before an answer
    rates = wrong.rate, high, low
    values = {
        name: {"accuracy": np.array([1 - (known[name] + wrong.unasked * rate) / whole for rate in rates])}
        for name in EVALUATIONS
    }
    enough = (wrong.positives >= NEEDED) & (wrong.negatives >= SIDE) & (rarer(wrong) >= SIDE)
    return values, enough & (wrong.unasked > 0), [wrong]


def rarer(wrong: Side) -> np.ndarray:
    """How many answers of equal weight those of the rarer kind, wrong or right, are worth for the items not asked."""
    return np.minimum(wrong.rate, 1 - wrong.rate) * wrong.number


class _Answers:
    """The answers of a session as arrays, and how many rounds and pushes had passed with each."""

    def __init__(self, run: Session | Trace):
        state, plan = run.state, run.state.plan
        self.run, self.left_out = run, leaves_out(run.settings.rule)  # by the rule: items that only audits can ask
        self.silent = self.left_out and not (plan and plan.audits)
        trail = dict(state.trail)  # rounds done: counts
        log = [e for e in run.log if e.label is not None and e.round + 1 in trail]
        limit = self._limit(log)
        log = [e for e in log if e.round < limit]
        self.size = len(log)
        self.label = np.array([e.label for e in log], np.int64)
        self.predicted = np.array([e.predicted for e in log], np.int64)
        self.chance = np.array([e.probability for e in log], float)
        self.rounds = np.array([0] + [e.round + 1 for e in log])
        spent = state.spent >= state.budget
        if state.question.t >= limit and not spent:  # what was not asked after the last answer had its chance too
            self.rounds[-1] = max((t for t in trail if t <= limit), default=0)
        over = spent or limit <= min(state.question.t, run.rounds - 1)
        self.closed = int(self.rounds[-1]) - 1 if over else None
        self.pushes = np.array([0] + [0 if run.multiclass else trail[t][1].sum() for t in self.rounds[1:]])

    def _limit(self, log: Sequence[Entry]) -> int:
        """The first round from which on some items have no chance of being asked though the budget is not spent: where
        only audits give them one, and these are over."""
        state, plan, rounds = self.run.state, self.run.state.plan, self.run.rounds
        if not plan or not log:
            return rounds
        audits = [e.round + 1 for e in log if e.audit and e.label]
        if self.left_out:
            return audits[-1] if audits and len(audits) >= plan.audits else min(rounds, plan.horizon)
        if state.spent - state.audited >= plan.budget - plan.audits:
            return min(rounds, max(plan.horizon, log[-1].round + 1))
        return rounds

    def windows(self, answers: np.ndarray) -> tuple[Windows, np.ndarray, list[Side]]:
        """The metrics of the windows after so many answers, which of them have enough, and their sides."""
        rounds = self.rounds[answers]
        if self.run.multiclass:
            return of_classes(self.predicted == self.label, self.label, self.chance, answers, rounds)
        label, pushes = np.where(self.label == 1, 1, np.where(self.label == 0, 0, -1)), self.pushes[answers]
        return windows(self.predicted > 0, label, self.chance, answers, rounds, pushes, self.run.weights)


def _estimates(values: Windows, k: int) -> Metrics:
    """The metrics of one window."""
    return {
        name: {metric: Estimate(*map(float, ends[:, k])) for metric, ends in metrics.items()}
        for name, metrics in values.items()
    }


def of_session(run: Session | Trace) -> Estimates:
    """What can be said of a session now, from its log alone."""
    answers = _Answers(run)
    values, enough, sides = answers.windows(np.array([answers.size]))
    positives = int(sum(part.positives[0] for part in sides))
    if enough[0] and not answers.silent:
        return Estimates(positives, NEEDED, answers.closed, _estimates(values, 0), None)
    unknown = {name: dict.fromkeys(metrics) for name, metrics in values.items()}
    return Estimates(positives, NEEDED, answers.closed, unknown, _reason(answers, positives, sides))


def _reason(answers: _Answers, positives: int, sides: Sequence[Side]) -> str:
    """Why nothing is estimated, in a sentence."""
    what = "wrong predictions" if answers.run.multiclass else "positive answers"
    if answers.silent:
        return (
            f"The rule {answers.run.settings.rule} gives some items no chance of being asked: "
            "estimates need random checks or a rule that draws."
        )
    if answers.size and not sum(part.unasked[0] for part in sides):
        return "Every item so far was asked: there is nothing to estimate."
    if positives < NEEDED:
        return f"Needs {NEEDED} {what}, {positives} so far; fewer make the error bars unreliable."
    if answers.run.multiclass:
        if sides[0].negatives[0] < SIDE:
            return f"Needs {SIDE} right predictions; {int(sides[0].negatives[0])} so far."
        kind, worth = "wrong" if sides[0].rate[0] < 0.5 else "right", int(rarer(sides[0])[0])
        return (
            f"The {kind} predictions seen are worth {worth} of {SIDE} needed: "
            "they say too little about the items not asked."
        )
    for part, where in zip(sides, ("pushed", "did not push")):
        if not part.known[0]:
            return f"Needs {SIDE} positives among items the model {where}; {int(part.positives[0])} so far."
    worth = int(sides[1].worth[0])
    return f"The answers about items not pushed are worth {worth} of {WORTH} needed: some had a small chance."


def forecast(labels: int, multiclass: bool) -> str:
    """What so many labels will show of how good a model is where the truth is not known, in a sentence."""
    steps = FORECASTS[multiclass]
    reached = [step for step in steps if labels >= step]
    if reached:
        often, half = steps[reached[-1]]
        return f"{labels:,} labels will {often} show how good the model is, to about ± {half:.2f}."
    enough = next(step for step, (often, _) in steps.items() if often == "probably")
    return f"{labels:,} labels are too few to show how good the model is; {enough:,} would probably do."


class Point(NamedTuple):
    """The estimates after so many rounds and labels."""

    rounds: int
    labels: int
    metrics: Metrics


def curve(run: Session | Trace, points: int = 60) -> list[Point]:
    """The estimates after some answers of a session, with the last one, as far as enough is known."""
    log = _Answers(run)
    if log.silent or not log.size:
        return []
    answers = np.unique(np.linspace(1, log.size, min(points, log.size)).round().astype(int))
    values, enough, _ = log.windows(answers)
    labels = np.concatenate([[0], np.cumsum(log.label != 0)])
    return [
        Point(int(log.rounds[answers[k]]), int(labels[answers[k]]), _estimates(values, k))
        for k in np.flatnonzero(enough).tolist()
    ]
