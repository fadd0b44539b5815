"""Answers to check: answers that the other answers contradict, and answers on which the model depends.

One model is fitted to all answers at once: ridge regression (least squares with an L2 penalty), each class against the
rest, with a higher weight for rare classes. The model without an answer, or with another answer in its place, has a
closed form (Cook 1977; Rifkin and Lippert 2007), so exact leave-one-out predictions cost no more than one solution. The
learner of the session is not suitable: it sees the answers one after the other, and leaving one out changes all later
steps, which hides the effect of the answer itself.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...kernel import rows
from ..log import Entry
from ..one_question import OneQuestion
from ..session import Session

MOST = 3000  # latest answers to check: time grows with the third power of their number
FEWEST = 5  # answers of a class: with fewer, none of them is reported as contradicted
SAMPLE = 2000  # items, evenly spaced in the stream, on which changes are counted
PENALTY = 1.0  # on the squared weights, for rows with a mean squared length of 1
BIAS = 0.4  # value of a constant feature added to every such row
DIGITS = 9  # decimals of scores: further ones depend on the processor and must not break ties
EXPONENT = 0.5  # a class weighs (count of the most frequent class / its own count) to this power


class LeaveOneOut(NamedTuple):
    """Leave-one-out predictions for n answers, as arrays of shape (n,).

    other: class (from 0) with the highest score, apart from the answered class. margin: half the difference between the
    scores of the answered class and of `other`, from about -1 to 1. without, corrected: number of sampled items whose
    predicted class changes if the answer is left out, or replaced by `other`.
    """

    other: np.ndarray
    margin: np.ndarray
    without: np.ndarray
    corrected: np.ndarray


def leave_one_out(products: np.ndarray, answers: np.ndarray, classes: int, sample: np.ndarray) -> LeaveOneOut:
    """Compute leave-one-out predictions for all answers (classes from 0). The class weights stay the same.

    products: inner products of the answered rows, shape (n, n). sample: inner products of m sampled rows with the
    answered rows, shape (m, n).
    """
    counts = np.bincount(answers, minlength=classes)
    penalties = PENALTY / ((counts.max() + 1) / (counts + 1)) ** EXPONENT
    own, n = penalties[answers], answers.size
    targets = 2.0 * np.eye(classes) - 1
    inverse = np.linalg.inv(products + np.diag(own))
    slack = 1 / np.diag(inverse)  # squared distance of each row to the span of the others, plus its penalty
    factors = inverse @ targets[answers]
    predictions = targets[answers] - slack[:, None] * factors
    own_scores = predictions[np.arange(n), answers]
    rivals = predictions.copy()
    rivals[np.arange(n), answers] = -np.inf
    other = _best(rivals.T)
    replaced = (targets[other] - predictions) / (slack - own + penalties[other])[:, None]
    pulls = slack[:, None] * (inverse @ sample.T)  # influence of each answer on each sampled item
    scores = factors.T @ sample.T
    now = _best(scores)
    without, corrected = np.zeros(n, int), np.zeros(n, int)
    for i, pull in enumerate(pulls):
        rest = scores - np.outer(factors[i], pull)
        without[i] = (_best(rest) != now).sum()
        corrected[i] = (_best(rest + np.outer(replaced[i], pull)) != now).sum()
    return LeaveOneOut(other, ((own_scores - rivals.max(1)) / 2).round(DIGITS), without, corrected)


def _best(scores: np.ndarray) -> np.ndarray:
    """Return the class with the highest score in each column, the first one in a tie."""
    return scores.round(DIGITS).argmax(0)


@dataclass(frozen=True)
class AnswerCheck:
    """An answer in the log, and the prediction of a model that was trained on all other answers.

    other: class with the highest score, apart from the answered class. margin: half the difference between the scores
    of the answered class and of `other` (negative: the other answers contradict this one). without, corrected: about
    how many items of the stream change their predicted class if the answer is left out, or replaced by `other`.
    """

    entry: Entry
    other: int
    margin: float
    without: int
    corrected: int


@dataclass(frozen=True)
class AnswerChecks:
    """The answers of a session to check, the most urgent first: answers at odds with the others, and decisive answers.
    Also the numbers of checked answers, of earlier answers that were not checked, and of items in the stream."""

    at_odds: list[AnswerCheck]
    decisive: list[AnswerCheck]
    answers: int
    earlier: int
    items: int


def of_session(session: Session | OneQuestion) -> AnswerChecks:
    """Return the answers of an open session that deserve a check."""
    answered = [entry for entry in session.log if entry.label]
    latest, order = answered[-MOST:], session.order
    labels = np.array([entry.label for entry in latest], int)
    names, answers, counts = np.unique(labels, return_inverse=True, return_counts=True)
    every = -(-order.size // SAMPLE)
    if names.size < 2:
        return AnswerChecks([], [], len(latest), len(answered) - len(latest), order.size)
    waiting = session.current
    sampled = order[::every]
    if waiting:  # nothing may reveal a model's prediction for the waiting item
        sampled = sampled[sampled != waiting.item]
    of_answers, of_sample = (
        rows.take(session.dataset.rows, places) for places in (np.array([entry.item for entry in latest]), sampled)
    )
    products = rows.inner_products(of_answers, of_answers)
    unit = products.diagonal().mean() or 1.0
    results = leave_one_out(
        products / unit + BIAS**2, answers, names.size,
        rows.inner_products(of_sample, of_answers) / unit + BIAS**2,
    )  # fmt: skip
    scale = order.size / max(1, sampled.size)
    checks = [
        AnswerCheck(entry, int(names[other]), margin, round(scale * without), round(scale * corrected))
        for entry, other, margin, without, corrected in zip(latest, *(part.tolist() for part in results))
    ]
    enough = counts[answers] >= FEWEST
    wrong = (check for check, many in zip(checks, enough) if many and check.margin < 0)
    at_odds = sorted(wrong, key=lambda check: check.margin)
    decisive = sorted((check for check in checks if check.without), key=lambda check: (-check.without, check.margin))
    return AnswerChecks(at_odds, decisive, len(latest), len(answered) - len(latest), order.size)
