"""A learner in its dual form: it keeps the rows that were answered, and visits earlier ones again at each answer."""

from typing import NamedTuple

import numpy as np
from numba import njit

from ..draws import draw
from ..jit import INLINE, always
from ..parameters import Parameter, from_parameters
from ..rows import Row, add, dot, squared
from .first_order import SMALLEST, C

VISITS = 0x5DEECE66D  # the seed of the draws that choose what is visited again


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
def _visit(self, rows, k):
    """Move alpha of answer k to where its loss r - y w.x is zero, within 0 .. C r, and w with it."""
    x, y = Row(rows, self.items[k]), self.labels[k]
    r = ((self.answers[0] + 1) / (self.answers[1] + 1)) ** self.exponent if y > 0 else 1.0
    alpha = min(max(self.alphas[k] + (r - y * dot(self.w, x)) / squared(x), 0.0), self.C * r)
    add(self.w, (alpha - self.alphas[k]) * y, x)
    self.alphas[k] = alpha


class Dual(NamedTuple):
    """Cost-sensitive PA in its dual form, w = sum of alpha_i y_i x_i with 0 <= alpha_i <= C r_i, for the loss r_i - y_i
    w.x_i: an answer is visited when it comes, and `visits` earlier ones of the last `memory` are visited again (dual
    coordinate descent, Hsieh et al. 2008). r of positives is ((negatives + 1) / (positives + 1))^exponent over the
    answers, of negatives 1; rho is not used."""

    w: np.zeros
    items: answered
    labels: numbers
    alphas: numbers
    answers: answers
    C: float = C
    exponent: float = Parameter(
        0.5, low=0, high=1, help="Power of the class ratio that positives weigh: 0.5 suits F1, 0.7 the weighted sum."
    )
    visits: int = Parameter(10, low=0, high=1000, whole=True, help="Earlier answers that are learned again at each.")
    memory: int = Parameter(2000, low=1, high=10**6, whole=True, help="The latest answers that can be learned again.")

    revisits = True
    dense_update = always  # earlier rows have other features

    def update(self, x, y, p, v, rho, theta):
        if squared(x) <= SMALLEST:
            return
        n = self.answers[0] + self.answers[1]
        new, kept = n % self.memory, min(n, self.memory - 1)
        self.items[new], self.labels[new], self.alphas[new] = x.i, y, 0.0
        self.answers[int(y > 0)] += 1
        _visit(self, x.rows, new)
        for k in range(n * self.visits, (n + 1) * self.visits if kept else 0):
            _visit(self, x.rows, (new + 1 + int(draw(VISITS, k) * kept)) % (kept + 1))  # any but the new one


LEARNERS = {"dual": Dual}
