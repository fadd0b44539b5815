"""Estimate the metrics of a stream without known labels, from the answers and the chances with which they were asked.

An answer that was asked for with probability pi represents 1/pi - 1 items of its side (pushed, or not pushed) that were
not asked. The answers and the number of unasked items are known exactly; the share of positives among the unasked items
of each side is estimated. Each share has Jeffreys' interval (Brown, Cai and DasGupta 2001) with the effective number of
answers of a weighted sample (Korn and Graubard 1998), widened to whole items. The intervals of both sides are combined
into the interval of a metric by the recovery of variances (Zou and Donner 2008). docs/estimates.md measures them.
"""

from dataclasses import dataclass

import numpy as np
import scipy  # its modules are imported at their first use
from numpy.typing import ArrayLike

from .metrics import EVALUATIONS, METRICS, Weights

# Minimum numbers of answers for an estimate
NEEDED = {False: 5, True: 20}  # False: positive answers; True, for K classes: answers to wrong predictions
SIDE = 1  # positive answers on each side that has items which were not asked
RARER = 5  # K classes: answers to right predictions, and effective number of the rarer kind, right or wrong
WORTH = 10  # effective number of answers about items not pushed
TAIL = 0.025  # probability of each tail of a 95 % interval
ROUNDING = 1e-9  # of an item: an end that is whole but for the error of its computation stays
BINARY = ("sum", "f1", "sensitivity", "specificity", "precision", "accuracy")


Windows = dict[str, dict[str, np.ndarray]]  # evaluation -> metric -> value, low, high of each window: (3, windows)
Enough = dict[str, np.ndarray]  # metric -> whether each window has enough answers for it


@dataclass(frozen=True)
class Side:
    """The answers in some windows (stretches of the stream) about the items on one side: either the pushed items, or
    all others. Arrays of shape (windows,).

    positives, negatives: number of answers. unasked: estimated number of items that were not asked about and that
    somebody could label. rate: estimated share of positives among the unasked items, with its interval `low` to `high`.
    number: effective number of answers behind the rate. enough: whether the answers are enough for an estimate. worth:
    effective number (Kish) of these answers, each weighted by 1 / its probability of being asked for.
    """

    positives: np.ndarray
    negatives: np.ndarray
    unasked: np.ndarray
    rate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    number: np.ndarray
    enough: np.ndarray
    worth: np.ndarray


def side(label: np.ndarray, chance: np.ndarray, own: np.ndarray, answers: np.ndarray, passed: np.ndarray) -> Side:
    """Estimate one side (the pushed items, or all others) of windows that begin together and end after `answers`
    answers.

    label: +1, -1, or 0 for a skip, which counts as an item that nobody can label. chance: chance with which each answer
    was asked for. own: whether each answer is on this side. passed: number of items on this side in each window.
    """
    rest = own * (1 / chance - 1)  # items not asked that an answer represents
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
    blank = ~(weight > 0)  # no answer represents unasked items
    rate, number = np.where(blank, 0.0, rate), np.where(blank, 0.0, number)
    low, high = whole_items(unasked, *jeffreys(rate, reduced(number)))
    enough = (unasked == 0) | (~blank & (positives >= SIDE))
    return Side(positives, negatives, unasked, rate, low, high, number, enough, np.nan_to_num(worth))


def reduced(number: ArrayLike) -> np.ndarray:
    """Reduce the effective number of answers for use in an interval. A variance estimated from few answers is itself
    uncertain, so the number is multiplied by the squared ratio of the normal quantile to the quantile of Student's t
    (Korn and Graubard 1998; degrees of freedom: number - 1)."""
    number = np.asarray(number, float)
    smaller: np.ndarray = (
        number * (scipy.special.ndtri(TAIL) / scipy.special.stdtrit(np.maximum(number - 1, 1), TAIL)) ** 2
    )
    return smaller


def jeffreys(rate: np.ndarray, number: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of Jeffreys' interval of a share. number: effective number of answers behind the share."""
    hits = rate * number
    low, high = (scipy.special.betaincinv(hits + 0.5, number - hits + 0.5, tail) for tail in (TAIL, 1 - TAIL))
    return np.where(rate > 0, low, 0.0), np.where((number > 0) & (rate < 1), high, 1.0)


def whole_items(unasked: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Widen the interval of a share of `unasked` items until its ends are whole numbers of items. Where few items are
    unasked the truth is often none or all of them, which Jeffreys' ends exclude."""
    items = np.maximum(unasked, 1)
    fewest, most = np.floor(low * items + ROUNDING), np.ceil(high * items - ROUNDING)
    return np.where(low > 0, fewest / items, 0.0), np.minimum(most / items, 1.0)


def table(
    pushed: Side, hidden: Side, evaluation: str, pushed_rate: np.ndarray, hidden_rate: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Compute tp, fp, tn, fn in an evaluation, given the shares of positives among the unasked items of each side."""
    tp = pushed.positives + pushed.unasked * pushed_rate
    fp = pushed.negatives + pushed.unasked * (1 - pushed_rate)
    tn, fn = hidden.unasked * (1 - hidden_rate), hidden.unasked * hidden_rate
    if evaluation == "push":
        return tp, fp, tn + hidden.negatives, fn + hidden.positives
    return tp + hidden.positives, fp + hidden.negatives, tn, fn


def intervals(pushed: Side, hidden: Side, evaluation: str, weights: Weights) -> dict[str, np.ndarray]:
    """Compute each metric in the windows, with its interval: {metric: (value, low, high)} of shape (3, windows)."""
    counts = table(pushed, hidden, evaluation, *_ends(pushed, hidden))
    return {metric: _interval(METRICS[metric](*counts, weights)) for metric in BINARY}


def positives(pushed: Side, hidden: Side) -> np.ndarray:
    """Estimate the number of positives in the windows, with its interval: (value, low, high) of shape (3, windows)."""
    tp, _, _, fn = table(pushed, hidden, "push", *_ends(pushed, hidden))
    return _interval(tp + fn, np.inf)


def _ends(pushed: Side, hidden: Side) -> np.ndarray:
    """Return the shares of positives of both sides in five variants, shape (2, 5, windows): first both estimates; then
    the pushed share at the low and the high end of its interval; then the other share at the ends of its own."""
    ends = [(pushed.rate, hidden.rate), *((end, hidden.rate) for end in (pushed.low, pushed.high))]
    ends += [(pushed.rate, end) for end in (hidden.low, hidden.high)]
    return np.swapaxes(ends, 0, 1)


def _interval(values: np.ndarray, highest: float = 1) -> np.ndarray:
    """Return (value, low, high) of a metric, shape (3, windows), from its values for the five variants of `_ends`,
    shape (5, windows). highest: largest possible value."""
    value, ends = values[0], values[1:].reshape(2, 2, -1)  # axes: share, end of its interval, window
    below = (np.maximum(value - ends.min(axis=1), 0) ** 2).sum(axis=0)
    above = (np.maximum(ends.max(axis=1) - value, 0) ** 2).sum(axis=0)
    return np.array([value, np.maximum(value - np.sqrt(below), 0), np.minimum(value + np.sqrt(above), highest)])


def windows(
    pushed: np.ndarray, label: np.ndarray, chance: np.ndarray, answers: np.ndarray, rounds: np.ndarray,
    pushes: np.ndarray, weights: Weights,
) -> tuple[Windows, Enough, list[Side]]:  # fmt: skip
    """Estimate the metrics of the windows that end after `answers` answers, `rounds` rounds and `pushes` pushes.

    Return the metrics, whether each has enough answers, and both sides. pushed, label, chance: for each answer, whether
    its item was pushed, its label, and the chance with which it was asked. For precision only the pushed side must have
    enough answers."""
    pushed_side = side(label, chance, pushed, answers, pushes)
    hidden = side(label, chance, ~pushed, answers, rounds - pushes)
    values = {name: intervals(pushed_side, hidden, name, weights) for name in EVALUATIONS}
    positives = pushed_side.positives + hidden.positives >= NEEDED[False]
    both = pushed_side.enough & hidden.enough & ((hidden.unasked == 0) | (hidden.worth >= WORTH))
    enough = dict.fromkeys(BINARY, positives & both & (pushed_side.unasked + hidden.unasked > 0))
    return (
        values,
        enough | {"precision": positives & pushed_side.enough & (pushed_side.unasked > 0)},
        [pushed_side, hidden],
    )


def of_classes(
    right: np.ndarray, label: np.ndarray, chance: np.ndarray, answers: np.ndarray, rounds: np.ndarray
) -> tuple[Windows, Enough, list[Side]]:
    """Estimate multiclass accuracy with the binary machinery: a wrong prediction is the positive class.

    The result has the same form as from `windows`. right: for each answer, whether the prediction was right."""
    wrong = side(np.where(label == 0, 0, np.where(right, -1, 1)), chance, np.ones(label.size, bool), answers, rounds)
    asked_errors = {"push": wrong.positives, "push_query": 0.0}
    whole = np.maximum(wrong.positives + wrong.negatives + wrong.unasked, 1)  # 0 before the first answer
    rates = wrong.rate, wrong.high, wrong.low
    values = {
        name: {"accuracy": np.array([1 - (asked_errors[name] + wrong.unasked * rate) / whole for rate in rates])}
        for name in EVALUATIONS
    }
    enough = (wrong.positives >= NEEDED[True]) & (wrong.negatives >= RARER) & (rarer(wrong) >= RARER)
    return values, {"accuracy": enough & (wrong.unasked > 0)}, [wrong]


def rarer(wrong: Side) -> np.ndarray:
    """Return the effective number of answers to wrong predictions, or to right ones, whichever is smaller."""
    return np.minimum(wrong.rate, 1 - wrong.rate) * wrong.number
