"""Estimate precision and recall of the ranked list of positives at each depth.

The chance that an item without an answer is positive is a logistic function of its margin (Platt 1999) whose slope may
change twice (a linear spline). It is fitted to the answered items, each with its margin under a model that was trained
without it (cross-validation), because a model is surer of items that it has learned. An answer that was asked for with
probability pi has the weight pi^-0.75, a compromise: equal weights would make the most of few answers, weights of 1 /
pi would represent the stream even if the curve is wrong. docs/estimates.md reports the coverage of the intervals.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil, floor
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ...kernel import rows, stream
from ...kernel.estimates import TAIL
from ...kernel.learners import Learner
from ...kernel.spending import FIND, representative
from ..log import Entry
from ..one_question import OneQuestion
from ..session import Session
from .curves import percent
from .estimates import Estimate

FEWEST = 5  # answers of either class: with fewer there is no estimate
FOLDS = 50  # folds of the cross-validation
BINS = 400  # groups of neighbors in the ranking that count as alike
POWER = 0.75  # exponent of the weights 1 / chance of being asked
MOST_WORTH = 250  # effective number of answers: above it, the shape of the curve errs more than the answers
CAUTION = 1.5  # how many answers count as one for the intervals: otherwise they were too narrow (docs/estimates.md)
PENALTIES = np.array([1e-3, 1e-3, 1, 1])  # on squared coefficients of a curve: without them, its slopes could diverge
STEPS, LONGEST_STEP, EXACT = 100, 3.0, 1e-9  # of Newton's method
CANDIDATES = 4096  # lines from which the random curves are drawn
DRAWS = 512  # random curves, each with random numbers of positives, for the intervals


class Depth(NamedTuple):
    """The quality of the first items of a ranking: precision (the share of them that is positive), recall (the share of
    all positives that is among them), and F1."""

    items: int
    precision: Estimate
    recall: Estimate
    f1: Estimate

    @property
    def sentence(self) -> str:
        """The quality in a sentence."""
        precision, recall, _ = self.in_words
        return f"{precision} are right; {recall} of all are included."

    @property
    def in_words(self) -> tuple[str, str, str]:
        """Precision and recall in percent, and F1, with their intervals."""
        f1 = f"{self.f1.value:.3f}" if self.f1.low == self.f1.high else str(self.f1)
        return in_words(self.precision), in_words(self.recall), f1


def in_words(share: Estimate) -> str:
    """Write a share in percent, with its interval."""
    if share.low == share.high:
        return percent(share.value)
    return f"about {percent(share.value)} ({floor(100 * share.low)} to {ceil(100 * share.high)} %)"


class Curve(NamedTuple):
    """The chance of being positive as a function of the margin: the logistic function of a line with two bends.

    scale: unit of margins. bends: margins at which the slope changes. line: coefficients of the line, its height and
    three slopes, shape (4,). draws: DRAWS other lines that fit the answers, each as often as it is probable.
    """

    scale: float
    bends: np.ndarray
    line: np.ndarray
    draws: np.ndarray

    def chances(self, margins: np.ndarray, lines: np.ndarray | None = None) -> np.ndarray:
        """Return the chances at these margins. lines: coefficients of n other lines to use instead, shape (n, 4); then
        the chances have the shape (n, margins)."""
        chances: np.ndarray = scipy.special.expit(
            (self.line if lines is None else lines) @ _features(margins, self.scale, self.bends)
        )
        return chances


def _features(margins: np.ndarray, scale: float, bends: np.ndarray) -> np.ndarray:
    after = [np.maximum(margins - bend, 0) / scale for bend in bends]
    return np.array([np.ones(margins.size), margins / scale, *after])


@dataclass(frozen=True)
class Ranking:
    """All items that are not known to be negative: first the list of positives, then the rest, each by falling margin.

    rounds, margins: round and margin of each item. positive: whether each item is known to be positive. listed: length
    of the list. curve: the chances of the items without an answer (None: too few answers). truth: whether each item is
    positive, if the data has labels. missed: positives of the data among the items known to be negative.
    """

    rounds: np.ndarray
    margins: np.ndarray
    positive: np.ndarray
    listed: int
    curve: Curve | None
    truth: np.ndarray | None = None
    missed: int = 0

    @cached_property
    def shares(self) -> np.ndarray | None:
        """Precision, recall and F1 of the first 1, 2, ... items, shape (3, items): exact if the truth is known, else
        estimated. None if neither the truth nor a curve is known."""
        if self.truth is None and self.curve is None:
            return None
        hits = self.positive if self.truth is None else self.truth
        if self.curve is not None:
            hits = np.where(self.positive, 1.0, self.curve.chances(self.margins))
        hits = np.cumsum(hits)
        return _shares(hits, np.arange(1, hits.size + 1), hits[-1:].sum() + self.missed)

    def depths(self, items: Sequence[int]) -> list[Depth] | None:
        """Return the quality of the first k items, with intervals, for each k >= 1 in `items`. None if unknown."""
        if self.shares is None:
            return None
        values = [self.shares[:, end - 1].tolist() for end in items]
        lows, highs = self._intervals(items) if self.curve else (values, values)
        return [
            Depth(end, *(Estimate(value, min(value, low), max(value, high)) for value, low, high in zip(*ends)))
            for end, *ends in zip(items, values, lows, highs)
        ]

    def _intervals(self, items: Sequence[int]) -> tuple[list[list[float]], list[list[float]]]:
        """Compute the lower and the upper ends of precision, recall and F1 at each depth, by quasi-random draws.
        Neighbors in the ranking are grouped and treated alike."""
        from scipy.stats import qmc

        assert self.curve
        size = self.rounds.size
        ends = np.unique([0, *items, size, *np.geomspace(1, size, BINS).astype(int)])
        without, sure = (np.append(0, np.cumsum(each))[ends] for each in (~self.positive, self.positive))
        sums = np.append(0, np.cumsum(np.where(self.positive, 0, self.margins)))[ends]
        sizes = np.diff(without)
        # Other columns than those of `_draws`, of which these are independent; the first point is 0.
        normal = scipy.special.ndtri(qmc.Halton(6, scramble=False).random(DRAWS + 1)[1:, 4:])
        lines = np.vstack((self.curve.line, self.curve.draws))
        chances = self.curve.chances(np.diff(sums) / np.maximum(sizes, 1), lines)
        expected = np.hstack((np.zeros((DRAWS + 1, 1)), np.cumsum(sizes * chances, axis=1)))[1:]
        variance = np.append(0, np.cumsum(sizes * chances[0] * (1 - chances[0])))
        lows, highs = [], []
        for end in items:
            at = ends.searchsorted(end)
            above = expected[:, at] + normal[:, 0] * np.sqrt(variance[at])
            below = expected[:, -1] - expected[:, at] + normal[:, 1] * np.sqrt(variance[-1] - variance[at])
            hits = sure[at] + np.clip(above, 0, without[at])
            everything = hits + sure[-1] - sure[at] + np.maximum(below, 0)
            low, high = np.quantile(_shares(hits, end, everything), [TAIL, 1 - TAIL], axis=1)
            lows.append(low.tolist())
            highs.append(high.tolist())
        return lows, highs


def _shares(hits: np.ndarray, items: ArrayLike, positives: ArrayLike) -> np.ndarray:
    """Compute precision, recall and F1 of lists from the numbers of their items, their hits, and all positives."""
    return np.array([hits / items, hits / np.maximum(positives, 1e-9), 2 * hits / np.add(items, positives)])


def fit(margins: np.ndarray, positive: np.ndarray, chances: np.ndarray, power: float = POWER) -> Curve | None:
    """Fit the chance of being positive as a function of the margin. None if there are too few answers, or if the chance
    does not rise with the margin.

    margins: margins of the answered items, each under a model trained without it. chances: their asking probabilities.
    power: each answer has the weight chance^-power.
    """
    if min(positive.sum(), (~positive).sum()) < FEWEST or not np.ptp(margins):
        return None
    weights = chances**-power
    weights *= weights.sum() / (weights**2).sum()  # they add up to the effective number of answers (Kish)
    scale, bends = float(margins.std()), np.quantile(margins, [1 / 3, 2 / 3])
    features, line = _features(margins, scale, bends), np.zeros(4)
    for _ in range(STEPS):
        chance = scipy.special.expit(line @ features)
        information = (features * (weights * chance * (1 - chance))) @ features.T + np.diag(PENALTIES)
        step = np.linalg.solve(information, features @ (weights * (positive - chance)) - PENALTIES * line)
        line = line + step * min(1, LONGEST_STEP / np.abs(step).max())
        if np.abs(step).max() < EXACT:
            break
    errors, worth = np.linalg.cholesky(np.linalg.inv(information)), CAUTION * max(1, weights.sum() / MOST_WORTH)
    curve = Curve(scale, bends, line, _draws(features, positive, weights / worth, line, errors * np.sqrt(worth)))
    lowest, highest = curve.chances(np.array([margins.min(), margins.max()]))
    return curve if lowest < highest else None


def _draws(
    features: np.ndarray, positive: np.ndarray, weights: np.ndarray, line: np.ndarray, errors: np.ndarray
) -> np.ndarray:
    """Draw lines from the posterior distribution around the most probable `line` by importance resampling: lines are
    drawn from the normal approximation, with the Cholesky factor `errors` of its covariance, and then kept as often as
    their probability differs from it. The approximation alone is far too wide where margins separate the classes."""
    from scipy.stats import qmc  # takes a second

    normal = scipy.special.ndtri(qmc.Halton(4, scramble=False).random(CANDIDATES + 1)[1:])
    lines = line + normal @ errors.T
    logits = lines @ features
    fits = np.where(positive, -np.logaddexp(0, -logits), -np.logaddexp(0, logits)) @ weights
    ratios = fits - (lines**2 @ PENALTIES) / 2 + (normal**2).sum(axis=1) / 2
    shares = np.cumsum(np.exp(ratios - ratios.max()))
    places = np.searchsorted(shares, shares[-1] * (np.arange(DRAWS) + 0.5) / DRAWS)
    sample: np.ndarray = lines[places]
    return sample


def of_session(session: Session | OneQuestion, listed: np.ndarray) -> Ranking:
    """Return the ranking of an open session. listed: for each round, whether its item is in the list of positives."""
    order = session.order
    margins, labels = _margins(session, session.learner, order), labels_of(session)[order]
    ranking = np.lexsort((-margins, ~listed))
    ranking = ranking[labels[ranking] >= 0]
    truth, curve, missed = None, None, 0
    if session.labelled:
        truth = (session.y[order] > 0)[ranking]
        missed = int((session.y[order] > 0).sum() - truth.sum())
    else:
        answers, scores, worth = left_out(session)
        curve = fitted(scores, answers > 0, worth)
    return Ranking(ranking, margins[ranking], labels[ranking] > 0, int(listed[ranking].sum()), curve, truth, missed)


def left_out(session: Session | OneQuestion) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each answer its label, the margin (with K classes: the scores) of its item under a model that was
    trained without it, and the number of items that it represents. In a file, an item that was asked because it was the
    nearest to the threshold represents none: it is harder than others with its margin."""
    learned = {lesson.number for lesson in session.state.lessons if lesson.label}
    log = [entry for entry in session.log if entry.label and entry.number in learned]  # others may have answered since
    chances = np.array([entry.probability for entry in log])
    scores = margins_left_out(
        len(log), partial(_margins_without, session, log), (len(session.names),) * session.multiclass
    )
    worth = chances**-POWER
    if (plan := session.state.plan) and session.settings.goal == FIND:
        of_all, items = representative(plan, chances, np.array([entry.audit for entry in log]))
        worth = np.where(of_all, items, 0.0)
    return np.array([entry.label for entry in log], np.int64), scores, worth


def fitted(margins: np.ndarray, positive: np.ndarray, worth: np.ndarray) -> Curve | None:
    """Fit the curve to the answers that represent all items; if too few of them are positive, to all answers, though
    this makes shares look smaller. margins, worth: as in `left_out`."""
    of_all = worth > 0
    if (curve := fit(margins[of_all], positive[of_all], 1 / worth[of_all], power=1.0)) or of_all.all():
        return curve
    return fit(margins, positive, 1 / np.where(of_all, worth, 1.0))


def labels_of(session: Session | OneQuestion) -> np.ndarray:
    """Return the label of each item as the session learned it: an answer, a mark or a known label (0: none)."""
    labels = np.zeros(session.y.size, np.int8)
    for lesson in session.state.lessons:
        labels[lesson.item] = lesson.label
    return labels


def _margins(session: Session | OneQuestion, learner: Learner, items: np.ndarray) -> np.ndarray:
    scores = np.empty((items.size, len(session.names) if session.multiclass else 1))
    stream.scores(rows.take(session.dataset.rows, items), learner, session.settings.theta, scores)
    return scores if session.multiclass else scores[:, 0]


def _margins_without(session: Session | OneQuestion, log: list[Entry], places: np.ndarray) -> np.ndarray:
    """Return margins of answered items under a model trained without their answers. places: indices of the answers."""
    left_out = [log[place] for place in places.tolist()]
    numbers = {entry.number for entry in left_out}
    others = [lesson for lesson in session.state.lessons if lesson.number not in numbers]
    items = np.array([entry.item for entry in left_out])
    return _margins(session, session.taught(others, session.state.budget).only().learner, items)


def margins_left_out(
    answers: int, margins: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...] = ()
) -> np.ndarray:
    """Return the cross-validated margin of each answered item: under a model trained without the answers of its fold.

    margins: function of indices that trains without these answers and returns the margins of their items. shape: of
    an item's values, if they are scores of K classes.
    """
    result = np.zeros((answers, *shape))
    for fold in range(min(FOLDS, answers)):
        result[fold::FOLDS] = margins(np.arange(fold, answers, FOLDS))
    return result
