"""Answers to check: those at odds with all the others, and those on which the model depends.

One model is solved on all answers at once: least squares with a penalty, each class against the rest, in which a rare
class weighs more. What it would be without an answer, or with another one in its place, has a closed form (Cook 1977;
Rifkin and Lippert 2007): every answer is left out exactly, at the price of one solution. The learner of the session is
not asked, since it sees the answers one after the other: without one of them all later steps are others, and these
differences hide that of the answer.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...kernel import rows
from ..log import Entry
from ..session import Session

MOST = 3000  # answers, the latest: time grows with the third power of their number
FEWEST = 5  # answers of a class: with fewer of them the others cannot contradict one
SAMPLE = 2000  # items, at even distances in the stream, on which changes are counted
PENALTY = 1.0  # on the squared weights, where rows have a mean squared length of 1
BIAS = 0.4  # value of a feature that every such row has beside its own
DIGITS = 9  # behind the point of scores: those behind them depend on the processor, and must not break ties
EXPONENT = 0.5  # power of the ratio of the most frequent class to another that the latter weighs


class LeftOut(NamedTuple):
    """What is said of each answer by a model of all others, arrays of shape (n,): the class (from 0) with the highest
    score among those not answered; how far the score of the one answered is above it, from about -1 to 1; and how many
    items of a sample change their class without the answer, and with that class in its place."""

    other: np.ndarray
    margin: np.ndarray
    without: np.ndarray
    corrected: np.ndarray


def left_out(products: np.ndarray, answers: np.ndarray, classes: int, sample: np.ndarray) -> LeftOut:
    """Leave each answer (a class from 0) out in turn, given the inner products of the rows answered with each other,
    (n, n), and of those of a sample with them, (m, n). The weights of the classes stay as they are."""
    counts = np.bincount(answers, minlength=classes)
    penalties = PENALTY / ((counts.max() + 1) / (counts + 1)) ** EXPONENT
    own, n = penalties[answers], answers.size
    targets = 2.0 * np.eye(classes) - 1
    inverse = np.linalg.inv(products + np.diag(own))
    slack = 1 / np.diag(inverse)  # of each row to the span of the others, with its penalty
    factors = inverse @ targets[answers]
    said = targets[answers] - slack[:, None] * factors
    given = said[np.arange(n), answers]
    rivals = said.copy()
    rivals[np.arange(n), answers] = -np.inf
    other = _best(rivals.T)
    replaced = (targets[other] - said) / (slack - own + penalties[other])[:, None]
    pulls = slack[:, None] * (inverse @ sample.T)  # of each answer on each item
    scores = factors.T @ sample.T
    now = _best(scores)
    without, corrected = np.zeros(n, int), np.zeros(n, int)
    for i, pull in enumerate(pulls):
        rest = scores - np.outer(factors[i], pull)
        without[i] = (_best(rest) != now).sum()
        corrected[i] = (_best(rest + np.outer(replaced[i], pull)) != now).sum()
    return LeftOut(other, ((given - rivals.max(1)) / 2).round(DIGITS), without, corrected)


def _best(scores: np.ndarray) -> np.ndarray:
    """Return the class with the highest score in each column, of equal ones the first."""
    return scores.round(DIGITS).argmax(0)


@dataclass(frozen=True)
class AnswerCheck:
    """An answer as it stands in the log, and what the others say of it: the class that they prefer to it, or would take
    in its place; how far they score its own above that (negative: at odds); and about how many items of the stream
    change their class without the answer, and with the other class in its place."""

    entry: Entry
    other: int
    margin: float
    without: int
    corrected: int


@dataclass(frozen=True)
class AnswerChecks:
    """Both lists of a session, the most urgent first; the answers that were looked at, and those earlier ones that were
    not; and the items of the stream."""

    at_odds: list[AnswerCheck]
    decisive: list[AnswerCheck]
    answers: int
    earlier: int
    items: int


def of_session(session: Session) -> AnswerChecks:
    """The answers of an opened session to check, as it is now."""
    answered = [entry for entry in session.log if entry.label]
    latest, order = answered[-MOST:], session.order
    given = np.array([entry.label for entry in latest], int)
    names, answers, counts = np.unique(given, return_inverse=True, return_counts=True)
    every = -(-order.size // SAMPLE)
    if names.size < 2:
        return AnswerChecks([], [], len(latest), len(answered) - len(latest), order.size)
    waiting = session.current
    sampled = order[::every]
    if waiting:  # nothing may tell what a model thinks of it
        sampled = sampled[sampled != waiting.item]
    of_answers, of_sample = (
        rows.take(session.dataset.rows, places) for places in (np.array([entry.item for entry in latest]), sampled)
    )
    products = rows.inner_products(of_answers, of_answers)
    unit = products.diagonal().mean() or 1.0
    found = left_out(
        products / unit + BIAS**2, answers, names.size,
        rows.inner_products(of_sample, of_answers) / unit + BIAS**2,
    )  # fmt: skip
    scale = order.size / max(1, sampled.size)
    checks = [
        AnswerCheck(entry, int(names[other]), margin, round(scale * without), round(scale * corrected))
        for entry, other, margin, without, corrected in zip(latest, *(part.tolist() for part in found))
    ]
    enough = counts[answers] >= FEWEST
    at_odds = [check for check, many in zip(checks, enough) if many and check.margin < 0]
    decisive = [check for check in checks if check.without]
    return AnswerChecks(
        sorted(at_odds, key=lambda check: check.margin),
        sorted(decisive, key=lambda check: (-check.without, check.margin)),
        len(latest),
        len(answered) - len(latest),
        order.size,
    )
