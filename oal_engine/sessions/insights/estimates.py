"""The metrics of a stream whose truth is not known, from the answers and the chances with which they were asked.

An answer that was asked for with probability pi stands for 1/pi - 1 items of its side (pushed, or not pushed) that were
not asked; how many of these there are is known exactly, and so are the answers. Estimated is the share of positives
among the items of each side that were not asked. Each share has Jeffreys' interval (Brown, Cai and DasGupta 2001) with
the effective number of answers of a weighted sample (Korn and Graubard 1998); the intervals of both sides are combined
into that of a metric by the recovery of variances (Zou and Donner 2008). docs/estimates.md has how well this works.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, ndtri, stdtrit

from ...kernel.metrics import EVALUATIONS, METRICS, Weights
from ...kernel.query_rules import leaves_out
from ..log import Entry
from ..look_back import Trace
from ..session import Session

NEEDED = {False: 5, True: 20}  # by whether there are K classes: positives (wrong predictions) among the answers
SIDE = 1  # of these on each side where some items were not asked
RARER = 5  # of K classes: right predictions, and answers of equal weight of the rarer kind, right or wrong
WORTH = 10  # answers of equal weight that those about items not pushed must be worth
TAIL = 0.025  # of a 95 % interval
USUALLY = "usually"
FORECASTS = {  # by whether there are K classes: from so many labels on, how often there is a number, and its half-width
    False: {
        100: ("sometimes", 0.19), 200: (USUALLY, 0.14), 300: (USUALLY, 0.11), 500: (USUALLY, 0.08),
        2000: (USUALLY, 0.05),
    },
    True: {100: ("sometimes", 0.12), 300: ("sometimes", 0.07), 1000: (USUALLY, 0.03)},
}  # as measured in docs/estimates.md  # fmt: skip
BINARY = ("sum", "f1", "sensitivity", "specificity", "precision", "accuracy")


class Estimate(NamedTuple):
    """A metric with its 95 % interval, all fractions."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


Windows = dict[str, dict[str, np.ndarray]]  # evaluation -> metric -> value, low, high of each window: (3, windows)
Known = dict[str, np.ndarray]  # metric -> whether enough is known of it in each window
Metrics = dict[str, dict[str, Estimate | None]]  # evaluation -> metric -> its estimate, None where too little is known


@dataclass(frozen=True)
class Estimates:
    """What is known of a session without its truth: the positives answered, the round (from 0) with which the window
    has closed or None, {evaluation: {metric: Estimate or None}}, where any is None, what is missing in a sentence or
    two, and the round with which the window begins."""

    positives: int
    closed: int | None
    metrics: Metrics
    reason: str | None
    start: int = 0

    @property
    def known(self) -> list[str]:
        """The metrics that are estimated."""
        return [metric for metric, estimate in self.metrics["push"].items() if estimate]


class Point(NamedTuple):
    """The estimates after so many rounds and labels."""

    rounds: int
    labels: int
    metrics: Metrics


class Look(NamedTuple):
    """What can be said of a session now, of its last quarter (None: nothing), and at points along the stream."""

    now: Estimates
    last_quarter: Estimates | None
    curve: list[Point]


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
    low, high = jeffreys(rate, reduced(number))
    known = (unasked == 0) | (~blank & (positives >= SIDE))
    return Side(positives, negatives, unasked, rate, low, high, number, known, np.nan_to_num(worth))


def reduced(number: ArrayLike) -> np.ndarray:
    """Return the number of answers of equal weight on which an interval is to rest. A variance known from few answers
    is itself uncertain, so their number is reduced by the squared ratio of the normal quantile to Student's (Korn and
    Graubard 1998; degrees of freedom: the number, less one)."""
    number = np.asarray(number, float)
    smaller: np.ndarray = number * (ndtri(TAIL) / stdtrit(np.maximum(number - 1, 1), TAIL)) ** 2
    return smaller


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


def intervals(shown: Side, hidden: Side, evaluation: str, weights: Weights) -> dict[str, np.ndarray]:
    """Each metric of the windows, and the ends of its interval: (3, windows)."""
    ends = [(shown.rate, hidden.rate), *((end, hidden.rate) for end in (shown.low, shown.high))]
    ends += [(shown.rate, end) for end in (hidden.low, hidden.high)]
    counts = table(shown, hidden, evaluation, *np.swapaxes(ends, 0, 1))
    return {metric: _interval(METRICS[metric](*counts, weights)) for metric in BINARY}


def _interval(values: np.ndarray) -> np.ndarray:
    """The same of a metric, from its value and those at both ends of either share: (5, windows)."""
    value, ends = values[0], values[1:].reshape(2, 2, -1)  # by share, and by its end
    below = (np.maximum(value - ends.min(axis=1), 0) ** 2).sum(axis=0)
    above = (np.maximum(ends.max(axis=1) - value, 0) ** 2).sum(axis=0)
    return np.array([value, np.maximum(value - np.sqrt(below), 0), np.minimum(value + np.sqrt(above), 1)])


def windows(
    pushed: np.ndarray, label: np.ndarray, chance: np.ndarray, answers: np.ndarray, rounds: np.ndarray,
    pushes: np.ndarray, weights: Weights,
) -> tuple[Windows, Known, list[Side]]:  # fmt: skip
    """The metrics of the windows after so many answers, when so many rounds and pushes had passed; of which enough is
    known, while some item was not asked; and both sides. Precision is about what was pushed or asked: it needs answers
    about pushed items only."""
    shown = side(label, chance, pushed, answers, pushes)
    hidden = side(label, chance, ~pushed, answers, rounds - pushes)
    values = {name: intervals(shown, hidden, name, weights) for name in EVALUATIONS}
    enough = shown.positives + hidden.positives >= NEEDED[False]
    both = shown.known & hidden.known & ((hidden.unasked == 0) | (hidden.worth >= WORTH))
    known = dict.fromkeys(BINARY, enough & both & (shown.unasked + hidden.unasked > 0))
    return values, known | {"precision": enough & shown.known & (shown.unasked > 0)}, [shown, hidden]


def of_classes(
    right: np.ndarray, label: np.ndarray, chance: np.ndarray, answers: np.ndarray, rounds: np.ndarray
) -> tuple[Windows, Known, list[Side]]:
    """The accuracy of K classes in the same form, and its one side: a wrong prediction counts as the positive."""
    wrong = side(np.where(label == 0, 0, np.where(right, -1, 1)), chance, np.ones(label.size, bool), answers, rounds)
    known = {"push": wrong.positives, "push_query": 0.0}
    whole = np.maximum(wrong.positives + wrong.negatives + wrong.unasked, 1)  # nothing has passed before an answer
    rates = wrong.rate, wrong.high, wrong.low
    values = {
        name: {"accuracy": np.array([1 - (known[name] + wrong.unasked * rate) / whole for rate in rates])}
        for name in EVALUATIONS
    }
    enough = (wrong.positives >= NEEDED[True]) & (wrong.negatives >= RARER) & (rarer(wrong) >= RARER)
    return values, {"accuracy": enough & (wrong.unasked > 0)}, [wrong]


def rarer(wrong: Side) -> np.ndarray:
    """How many answers of equal weight those of the rarer kind, wrong or right, are worth for the items not asked."""
    return np.minimum(wrong.rate, 1 - wrong.rate) * wrong.number


class _Answers:
    """The answers of a session as arrays, and how many rounds and pushes had passed with each."""

    def __init__(self, run: Session | Trace):
        state, plan = run.state, run.state.plan
        self.run, self.left_out = run, leaves_out(run.settings.rule)  # by the rule: items that only audits can ask
        self.silent = self.left_out and not (plan and plan.audits)
        self.start, self.trail = 0, (trail := dict(state.trail))  # rounds done: counts
        log = [e for e in run.log if e.label is not None and e.round + 1 in trail]
        limit, waits = self._limit(log), state.waits_since
        log = [e for e in log if e.round < min(limit, waits)]
        self.size = len(log)
        self.label = np.array([e.label for e in log], np.int64)
        self.predicted = np.array([e.predicted for e in log], np.int64)
        self.chance = np.array([e.probability for e in log], float)
        self.rounds = np.array([0] + [e.round + 1 for e in log])
        spent = state.spent >= state.budget
        if limit <= min(waits, state.question.t) and not spent:  # what was not asked since had its chance too
            self.rounds[-1] = max((t for t in trail if t <= limit), default=0)
        over = spent or limit <= min(state.question.t, run.rounds - 1)
        self.closed = int(self.rounds[-1]) - 1 if over else None
        self.pushes = np.zeros_like(self.rounds)
        if log and not run.multiclass:
            self.pushes[1:] = np.array([trail[t][1] for t in self.rounds[1:].tolist()]).sum(axis=(1, 2))

    def since(self, start: int) -> "_Answers":
        """The same, of the window that begins with the first of the points of the curves from round `start` on."""
        own = copy(self)
        own.start = min(t for t in self.trail if t >= start)
        late = self.rounds[1:] > own.start
        own.label, own.predicted, own.chance = self.label[late], self.predicted[late], self.chance[late]
        before = 0 if self.run.multiclass else self.trail[own.start][1].sum()
        own.size, own.rounds = int(late.sum()), np.append(0, self.rounds[1:][late] - own.start)
        own.pushes = np.append(0, self.pushes[1:][late] - before)
        return own

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

    def windows(self, answers: np.ndarray) -> tuple[Windows, Known, list[Side]]:
        """The metrics of the windows after so many answers, of which enough is known, and their sides."""
        rounds = self.rounds[answers]
        if self.run.multiclass:
            return of_classes(self.predicted == self.label, self.label, self.chance, answers, rounds)
        label, pushes = np.where(self.label == 1, 1, np.where(self.label == 0, 0, -1)), self.pushes[answers]
        return windows(self.predicted > 0, label, self.chance, answers, rounds, pushes, self.run.weights)


def _estimates(values: Windows, known: Known) -> list[Metrics]:
    """The metrics of each window."""
    found = {
        name: {
            metric: [Estimate(*each) if enough else None for each, enough in zip(ends.T.tolist(), known[metric])]
            for metric, ends in metrics.items()
        }
        for name, metrics in values.items()
    }
    return [
        {name: {metric: each[k] for metric, each in metrics.items()} for name, metrics in found.items()}
        for k in range(known["accuracy"].size)
    ]


def look(run: Session | Trace, points: int = 60) -> Look:
    """What can be said of a session now, from its log alone, of its last quarter where that is anything, and after some
    answers."""
    answers = _Answers(run)
    now, curve = _look(answers, points)
    return Look(now, _last_quarter(answers) if now.known else None, curve)


def of_session(run: Session | Trace) -> Estimates:
    """What can be said of a session now."""
    return _look(_Answers(run), 1)[0]


def curve(run: Session | Trace, points: int = 60) -> list[Point]:
    """The estimates after some answers of a session, with the last one, where any metric is known."""
    return _look(_Answers(run), points)[1]


def _last_quarter(answers: _Answers) -> Estimates | None:
    return _look(answers.since(int(answers.rounds[-1]) * 3 // 4), 1)[0] if answers.size else None


def _look(answers: _Answers, points: int) -> tuple[Estimates, list[Point]]:
    """What answers say of their whole window, and of its beginnings after some of them, the last one included."""
    size = answers.size
    after = np.unique(np.linspace(1, size, min(points, size)).round().astype(int)) if size and points > 1 else None
    after = np.array([size]) if after is None else after
    values, known, sides = answers.windows(after)
    if answers.silent:
        known = dict.fromkeys(known, np.zeros(after.size, bool))
    positives = int(sum(part.positives[-1] for part in sides))
    reason = None if all(each[-1] for each in known.values()) else _reason(answers, positives, known, sides)
    metrics = _estimates(values, known)
    labels = np.concatenate([[0], np.cumsum(answers.label != 0)])
    curve = [
        Point(int(answers.rounds[after[k]]), int(labels[after[k]]), metrics[k])
        for k in np.flatnonzero(np.any([*known.values()], axis=0)).tolist()
    ]
    return Estimates(positives, answers.closed, metrics[-1], reason, answers.start), curve


def _reason(answers: _Answers, positives: int, known: Known, sides: Sequence[Side]) -> str:
    """What is missing for the estimates that are not known in the last window; where it is positives, and as many items
    are left, also about how many labels would bring them."""
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
        "Only precision is estimated yet. The others need" if known["precision"][-1] else "No estimate yet. It needs"
    )
    return f"{subject} {_missing(*sides)}{labels}."


def _missing(shown: Side, hidden: Side) -> str:
    """The answers that are missing to know enough of both sides."""
    names = "an item predicted as positive", "an item not predicted as positive"
    blank = [name for name, part in zip(names, (shown, hidden)) if not part.known[-1]]
    total = max(len(blank), NEEDED[False] - int(shown.positives[-1] + hidden.positives[-1]))
    if total <= 0:
        given = hidden.positives[-1] + hidden.negatives[-1]
        more = _more("answer", given * (WORTH / max(1.0, hidden.worth[-1]) - 1))
        return f"about {more} on items not predicted as positive"
    if not blank or total == 1:
        return _more("positive answer", total) + "".join(f" on {name}" for name in blank)
    least = "at least " if total > len(blank) else ""
    return f"{_more('positive answer', total)}, {least}{' and '.join(f'one on {name}' for name in blank)}"


def _missing_of_classes(wrong: Side) -> str:
    """The same of K classes."""
    needs = {"wrongly": NEEDED[True] - int(wrong.positives[-1]), "rightly": RARER - int(wrong.negatives[-1])}
    parts = [f"{_more('answer', count)} on {how} predicted items" for how, count in needs.items() if count > 0]
    if parts:
        return " and ".join(parts)
    how, given = ("wrongly", wrong.positives[-1]) if wrong.rate[-1] < 0.5 else ("rightly", wrong.negatives[-1])
    return f"about {_more('answer', given * (RARER / max(1.0, rarer(wrong)[-1]) - 1))} on {how} predicted items"


def _more(what: str, count: float) -> str:
    """So many more of them, rounded up, in words."""
    count = max(1, ceil(count))
    return f"{count:,} more {what}{'s' * (count != 1)}"


def forecast(labels: int, multiclass: bool) -> str:
    """What so many labels will show of how good a model is where the truth is not known, in a sentence."""
    steps, metric = FORECASTS[multiclass], "accuracy" if multiclass else "F1"
    reached = [step for step in steps if labels >= step]
    if reached:
        often, half = steps[reached[-1]]
        return f"With {labels:,} labels {metric} is {often} known to within ± {half:.2f}."
    enough = next(step for step, (often, _) in steps.items() if often == USUALLY)
    return f"{labels:,} labels are too few to show how good the model is; {enough:,} are usually enough."


def line(points: Sequence[Point], evaluation: str, metric: str) -> tuple[list[int], np.ndarray]:
    """The rounds of a curve in which a metric is known, and its values, lower and upper ends: (3, rounds)."""
    known = [(rounds, value) for rounds, _, each in points if (value := each[evaluation].get(metric))]
    ends = np.array([(value.value, value.low, value.high) for _, value in known]).reshape(-1, 3).T
    return [rounds for rounds, _ in known], ends
