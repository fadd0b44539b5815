"""Multi-class learners: one weight vector per class (the multi-prototype model of Crammer et al. 2006; PAA section 4).

`w` has shape (d, K), so the weights of all classes for one feature are adjacent. Classes are numbered from 1. The class
with the highest score is predicted (in a tie the lowest number), and the margin p is the gap to the second highest
score. `scores` holds the scores of the row predicted last, until an update. The loss is l = max(0, 1 - (score of y -
score of r)), where r is the wrong class with the highest score.

>>> from oal_engine.kernel import algorithms, rows, stream
>>> table, parts = rows.as_rows([[3.0, 4.0], [0.0, 1.0]]), algorithms.strategy(learner="m-pa", rule="all").build(2, 2)
>>> stream.replay(table, [1, 2], [0, 1], *parts, stream.objective(rho=1.0)).learner.w.round(2).tolist()
[[0.06, -0.06], [-0.5, 0.5]]
"""

from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from ..jit import always, inlined, method, never
from ..parameters import Parameter, from_parameters
from ..rows import Row, entry, span, squared
from . import dual
from .adaptive import DELTA, gain
from .first_order import ETA, SMALLEST, C

EXPONENT = Parameter(
    0.5,
    low=0,
    high=1,
    help="Power of the class ratio that weights an answer: 0 weights all alike, 1 rare classes most.",
)


@from_parameters
def per_weight(features, classes):
    """Return an array of zeros, one per pair of a feature and a class."""
    return np.zeros((features, classes))


@from_parameters
def per_class(classes):
    """Return an array of zeros, one per class."""
    return np.zeros(classes)


@inlined
def highest(scores, but):
    """Return the index of the highest score (in a tie the first), ignoring the index `but` (-1: ignore none)."""
    best = int(but == 0)
    for k in range(best + 1, scores.size):
        if k != but and scores[k] > scores[best]:
            best = k
    return best


bias_score = method("bias_score", default=lambda self, k: 0.0)  # contribution of the bias to the score of class k


@inlined
def _score_all(self, x):
    """Compute the score of each class for a row, in `scores`."""
    scores = self.scores
    for k in range(scores.size):
        scores[k] = 0.0
    for n in span(x.rows, x.i):
        j, x_j = entry(x.rows, x.i, n)
        for k in range(scores.size):
            scores[k] += self.w[j, k] * x_j
    for k in range(scores.size):
        scores[k] += bias_score(self, k)


def _predict(self, x, theta):
    _score_all(self, x)
    scores = self.scores
    best = highest(scores, -1)
    return scores[best] - scores[highest(scores, best)], best + 1


def _score(self, p, k):
    return self.scores[k]


def _count_index(self, predicted, y):
    return predicted - 1, y


def _weight(self, j):
    return self.w[j // self.scores.size, j % self.scores.size]


def _put(self, j, value):
    self.w[j // self.scores.size, j % self.scores.size] = value


def multiclass(kind):
    """Mark a class as a multi-class learner, and add the methods that all multi-class learners share."""
    kind.multiclass = True
    kind.predict, kind.score, kind.count_index = _predict, _score, _count_index
    kind.weight, kind.put, kind.dense_update, kind.has_sign = _weight, _put, always, never
    return kind


@inlined
def _rivals(scores, y):
    """Return the index of class y, the index of the wrong class with the highest score, and the loss before its
    negative values are set to 0."""
    right = int(y) - 1
    wrong = highest(scores, right)
    return right, wrong, 1 - (scores[right] - scores[wrong])


@inlined
def _move(w, right, wrong, step, x):
    """Add step * x to the weights of the class `right`, and subtract it from the weights of the class `wrong`."""
    for n in span(x.rows, x.i):
        j, x_j = entry(x.rows, x.i, n)
        w[j, right] += step * x_j
        w[j, wrong] -= step * x_j


@multiclass
class MPerceptron(NamedTuple):
    """On a mistake, w_y += x and w_r -= x for the true class y and the predicted class r: the max-score perceptron
    (Crammer and Singer 2003; PAA section 4.1)."""

    w: per_weight
    scores: per_class

    def update(self, x, y, p, v, rho, theta):
        right, wrong, _ = _rivals(self.scores, y)
        if highest(self.scores, -1) != right:
            _move(self.w, right, wrong, 1.0, x)


@multiclass
class MPA(NamedTuple):
    """Passive-aggressive (PA): when the loss l > 0, w_y += tau x and w_r -= tau x, tau = l / (2 x.x), for the true
    class y and the wrong class r with the highest score (Crammer et al. 2006; PAA eq. 4)."""

    w: per_weight
    scores: per_class

    def update(self, x, y, p, v, rho, theta):
        right, wrong, loss = _rivals(self.scores, y)
        xx = squared(x)
        if loss > 0 and xx > SMALLEST:
            _move(self.w, right, wrong, loss / (2 * xx), x)


@multiclass
class MPAI(NamedTuple):
    """Passive-aggressive (PA-I): like `m-pa`, with tau = min(C, l / (2 x.x)) (Crammer et al. 2006; PAA eq. 4)."""

    w: per_weight
    scores: per_class
    C: float = C

    def update(self, x, y, p, v, rho, theta):
        right, wrong, loss = _rivals(self.scores, y)
        xx = squared(x)
        if loss > 0 and xx > SMALLEST:
            _move(self.w, right, wrong, min(self.C, loss / (2 * xx)), x)


@multiclass
class MPAII(NamedTuple):
    """Passive-aggressive (PA-II): like `m-pa`, with tau = l / (2 x.x + 1 / 2C) (Crammer et al. 2006; PAA eq. 4)."""

    w: per_weight
    scores: per_class
    C: float = C

    def update(self, x, y, p, v, rho, theta):
        right, wrong, loss = _rivals(self.scores, y)
        if loss > 0:
            _move(self.w, right, wrong, loss / (2 * squared(x) + 1 / (2 * self.C)), x)


def _variance(self, x):
    """Return the row's variance for the predicted class, plus its largest variance for any other class (D-ADA eq.
    8)."""
    spread = self.spread
    for k in range(spread.size):
        spread[k] = 0.0
    for n in span(x.rows, x.i):
        j, x_j = entry(x.rows, x.i, n)
        for k in range(spread.size):
            spread[k] += x_j * x_j / (self.delta + sqrt(self.squares[j, k]))
    predicted = highest(self.scores, -1)
    return spread[predicted] + spread[highest(spread, predicted)]


@multiclass
class MAdaDA(NamedTuple):
    """Dual averaging with one H per class: w_k = -eta H_k^-1 sum g_k. When the loss is > 0, g_y = -x for the true class
    y, and g_r = x for the wrong class r with the highest score (D-ADA eq. 5)."""

    w: per_weight
    gradients: per_weight
    squares: per_weight
    scores: per_class
    spread: per_class
    eta: float = ETA
    delta: float = DELTA

    provides = "adaptive"
    variance, gain = _variance, gain

    def update(self, x, y, p, v, rho, theta):
        right, wrong, loss = _rivals(self.scores, y)
        if loss > 0:
            for n in span(x.rows, x.i):
                j, x_j = entry(x.rows, x.i, n)
                for k, g in ((right, -x_j), (wrong, x_j)):
                    self.gradients[j, k] += g
                    self.squares[j, k] += g * g
                    self.w[j, k] = -self.eta * self.gradients[j, k] / (self.delta + sqrt(self.squares[j, k]))


@multiclass
class MAdaMD(NamedTuple):
    """Mirror descent with the gradients g_k of `m-ada-da`: w_k -= eta H_k^-1 g_k, one H per class (D-ADA eq. 6)."""

    w: per_weight
    squares: per_weight
    scores: per_class
    spread: per_class
    eta: float = ETA
    delta: float = DELTA

    provides = "adaptive"
    variance, gain = _variance, gain

    def update(self, x, y, p, v, rho, theta):
        right, wrong, loss = _rivals(self.scores, y)
        if loss > 0:
            for n in span(x.rows, x.i):
                j, x_j = entry(x.rows, x.i, n)
                for k, g in ((right, -x_j), (wrong, x_j)):
                    self.squares[j, k] += g * g
                    self.w[j, k] -= self.eta * g / (self.delta + sqrt(self.squares[j, k]))


@from_parameters
def with_bias(features, classes):
    """Return the initial weights: zeros, with a row per feature, a row for the bias, and a column per class."""
    return np.zeros((features + 1, classes))


@from_parameters
def numbers(memory, classes):
    """Return an array of zeros, one per pair of a stored answer and a class: shape (memory, classes)."""
    return np.zeros((memory, classes))


@from_parameters
def answers(classes):
    """Return the initial counts of answers: an array of zeros, one per class."""
    return np.zeros(classes, np.int64)


@inlined
def _cost(self, right):
    """Return the weight of an answer of the class with index `right`: (answers of the most frequent class + 1) /
    (answers of this class + 1), to the power `exponent`."""
    most = 0
    for k in range(self.answers.size):
        most = max(most, self.answers[k])
    return ((most + 1) / (self.answers[right] + 1)) ** self.exponent


@inlined
def _level(sizes, but, base, slope):
    """Solve base - slope t + sum_k max(sizes[k] - t, 0) = 0 for the level t, with k != `but`.

    The level is raised until no further size falls below it (Michelot 1986).
    """
    level, held = -inf, sizes.size
    while True:
        total, count = base, 0
        for k in range(sizes.size):
            if k != but and sizes[k] > level:
                total += sizes[k]
                count += 1
        if count == 0 or count >= held:  # greater if rounding brought a size back
            return level
        level, held = total / (slope + count), count


@inlined
def _visit(self, rows, place):
    """Optimize the alphas (dual variables) of the answer stored at `place`, and update w. The loss becomes zero for
    every wrong class, as far as the upper bound C r on the sum of the alphas allows (r: weight of the answer)."""
    x, right, alphas = Row(rows, self.items[place]), int(self.labels[place]) - 1, self.alphas[place]
    r, xx, last = _cost(self, right), squared(x) + self.bias * self.bias, self.w.shape[0] - 1
    if xx <= SMALLEST:
        return
    _score_all(self, x)
    steps, before, after = self.scores, 0.0, 0.0
    for k in range(steps.size):  # the alphas that would bring each score to 0
        steps[k] = steps[k] / xx + alphas[k]
        before += alphas[k]
    own = steps[right] - before
    level = max(_level(steps, right, own - r / xx, 1), _level(steps, right, -self.C * r, 0))
    for k in range(steps.size):
        if k != right:
            alpha = max(steps[k] - level, 0.0)
            steps[k], alphas[k] = alphas[k] - alpha, alpha
            after += alpha
    steps[right] = after - before
    for n in span(rows, x.i):
        j, x_j = entry(rows, x.i, n)
        for k in range(steps.size):
            self.w[j, k] += steps[k] * x_j
    for k in range(steps.size):
        self.w[last, k] += steps[k] * self.bias


@multiclass
class MDual(NamedTuple):
    """The learner `dual` for K classes (Crammer and Singer 2001). An answer of class y adds alpha_k x to w_y and
    subtracts it from w_k, for every other class k, with alpha_k >= 0 and sum of alpha_k <= C r. The loss is r - (score
    of y - largest other score), and each x has a bias. An answer is learned when it arrives, and `visits` of the last
    `memory` answers are learned again, each with an exact step of its alphas (Keerthi et al. 2008). The weight r of an
    answer is ((answers of the most frequent class + 1) / (answers of y + 1))^exponent."""

    w: with_bias
    items: dual.answered
    labels: dual.numbers
    alphas: numbers
    answers: answers
    scores: per_class
    C: float = dual.C
    bias: float = dual.BIAS
    exponent: float = EXPONENT
    visits: int = dual.REVISITED
    memory: int = dual.MEMORY

    revisits = True
    weights = dual.weights

    def bias_score(self, k):
        return self.w[self.w.shape[0] - 1, k] * self.bias

    def update(self, x, y, p, v, rho, theta):
        place, earlier = dual.keep(self, x, y, int(y) - 1)
        _visit(self, x.rows, place)
        for k in range(self.visits if earlier else 0):
            _visit(self, x.rows, dual.revisited(self, place, earlier, k))


LEARNERS = {
    "m-perceptron": MPerceptron,
    "m-pa": MPA,
    "m-pa-i": MPAI,
    "m-pa-ii": MPAII,
    "m-ada-da": MAdaDA,
    "m-ada-md": MAdaMD,
    "m-dual": MDual,
}
