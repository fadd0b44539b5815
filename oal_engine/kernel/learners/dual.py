"""A learner in its dual form: it keeps the rows that were answered, and visits earlier ones again at each answer."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numba import njit

from ..draws import draw
from ..jit import INLINE, always
from ..parameters import Parameter, from_parameters
from ..rows import Row, add, dot, squared
from .first_order import SMALLEST
from .first_order import C as FIRST_ORDER_C

VISITS = 0x5DEECE66D  # the seed of the draws that choose what is visited again
C = replace(FIRST_ORDER_C, default=2.0)
BIAS = Parameter(0.4, low=0, help="Value of a feature that every row has beside its own, so that the line may leave 0.")
EXPONENT = Parameter(
    0.5, low=0, high=1, help="Power of the class ratio that positives weigh: 0.5 suits F1, 0.8 the weighted sum."
)
REVISITED = Parameter(10, low=0, high=1000, whole=True, help="Earlier answers that are learned again at each.")
MEMORY = Parameter(2000, low=1, high=10**6, whole=True, help="The latest answers that can be learned again.")


@from_parameters
def with_bias(features):
    """A zero for each feature, and one for the bias."""
    return np.zeros(features + 1)


@from_parameters
def answered(memory):
    """The row numbers of the answers that are kept."""
    return np.zeros(memory, np.int64)


@from_parameters
def numbers(memory):
    """A number for each answer that is kept."""
    return np.zeros(memory)


@from_parameters
def answers():
    """The answers so far: negative and positive ones."""
    return np.zeros(2, np.int64)


@njit(**INLINE)
def biased(w, x, bias):
    """The inner product of weights, of which the last is the bias's, and a row with a bias."""
    return dot(w, x) + w[w.size - 1] * bias


@njit(**INLINE)
def given(self):
    """How many answers there were."""
    n = 0
    for kind in range(self.answers.size):
        n += self.answers[kind]
    return n


@njit(**INLINE)
def keep(self, x, y, kind):
    """Keep an answer, counted with those of its kind, in place of the oldest: its place, and how many earlier ones are
    kept."""
    n = given(self)
    place = n % self.memory
    self.items[place], self.labels[place], self.alphas[place] = x.i, y, 0.0
    self.answers[kind] += 1
    return place, min(n, self.memory - 1)


@njit(**INLINE)
def drawn(self, place, earlier, k):
    """The place of the k-th of the earlier answers to visit after the answer at a place was kept."""
    n = given(self) - 1
    return (place + 1 + int(draw(VISITS, n * self.visits + k) * earlier)) % (earlier + 1)


@njit(**INLINE)
def cost(self, y):
    """What a label weighs: positives the class ratio of the answers to a power, negatives 1."""
    return ((self.answers[0] + 1) / (self.answers[1] + 1)) ** self.exponent if y > 0 else 1.0


@njit(**INLINE)
def visit(self, w, rows, k):
    """Move alpha of answer k to where its loss r - y w.x is zero, within 0 .. C r, and w with it."""
    x, y = Row(rows, self.items[k]), self.labels[k]
    r, xx = cost(self, y), squared(x) + self.bias * self.bias
    if xx <= SMALLEST:
        return
    alpha = min(max(self.alphas[k] + (r - y * biased(w, x, self.bias)) / xx, 0.0), self.C * r)
    step = (alpha - self.alphas[k]) * y
    add(w, step, x)
    w[w.size - 1] += step * self.bias
    self.alphas[k] = alpha


def margin(self, x):
    """The margin of a learner with a bias."""
    return biased(self.w, x, self.bias)


def weights(self):
    """The weights of the features, without that of the bias."""
    return self.w[:-1]


class Dual(NamedTuple):
    """Cost-sensitive PA in its dual form, w = sum of alpha_i y_i x_i with 0 <= alpha_i <= C r_i, for the loss r_i - y_i
    w.x_i, each x with a bias: an answer is visited when it comes, and `visits` earlier ones of the last `memory` are
    visited again (dual coordinate descent, Hsieh et al. 2008). r of positives is ((negatives + 1) / (positives +
    1))^exponent over the answers, of negatives 1; rho is not used."""

    w: with_bias
    items: answered
    labels: numbers
    alphas: numbers
    answers: answers
    C: float = C
    bias: float = BIAS
    exponent: float = EXPONENT
    visits: int = REVISITED
    memory: int = MEMORY

    revisits = True
    dense_update = always  # earlier rows have other features
    margin, weights = margin, weights

    def update(self, x, y, p, v, rho, theta):
        place, earlier = keep(self, x, y, int(y > 0))
        visit(self, self.w, x.rows, place)
        for k in range(self.visits if earlier else 0):
            visit(self, self.w, x.rows, drawn(self, place, earlier, k))


LEARNERS = {"dual": Dual}
