"""A passive-aggressive learner in dual form: it remembers answered rows, and learns some again at each new answer.

>>> from oal_engine.kernel import algorithms, rows, stream
>>> table, parts = rows.as_rows([[3.0, 4.0], [0.0, 1.0]]), algorithms.strategy(learner="dual", rule="all").build(2)
>>> stream.replay(table, [1, -1], [0, 1], *parts, stream.objective()).learner.w.round(2).tolist()
[0.6, -0.17, -0.31]
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..draws import draw
from ..jit import always, inlined, method
from ..parameters import Parameter, from_parameters
from ..rows import Row, add, dot, squared
from .first_order import SMALLEST
from .first_order import C as FIRST_ORDER_C

VISITS = 0x5DEECE66D  # seed of the draws that choose the answers to visit again
C = replace(FIRST_ORDER_C, default=2.0)
BIAS = Parameter(0.4, low=0, help="Constant feature added to every row, so that the line need not pass through 0.")
EXPONENT = Parameter(
    0.5,
    low=0,
    high=1,
    help="Power of the class ratio that weights positives: 0.5 suits F1, 0.8 the weighted sum.",
)
REVISITED = Parameter(10, low=0, high=1000, whole=True, help="Earlier answers that are learned again at each answer.")
MEMORY = Parameter(2000, low=1, high=10**6, whole=True, help="Number of latest answers that can be learned again.")


@from_parameters
def with_bias(features):
    """Return the initial weights: an array of zeros, one per feature and one for the bias."""
    return np.zeros(features + 1)


@from_parameters
def answered(memory):
    """Return an array of zeros for the row numbers of the `memory` answers that the learner keeps."""
    return np.zeros(memory, np.int64)


@from_parameters
def numbers(memory):
    """Return an array of zeros, one for each of the `memory` answers that the learner keeps."""
    return np.zeros(memory)


@from_parameters
def answers():
    """Return the initial counts of negative and of positive answers: two zeros."""
    return np.zeros(2, np.int64)


@inlined
def biased(w, x, bias):
    """Return w.x for a row x with the number `bias` appended, which belongs to the last weight."""
    return dot(w, x) + w[w.size - 1] * bias


@inlined
def n_answers(self):
    """Return the number of answers so far."""
    n = 0
    for kind in range(self.answers.size):
        n += self.answers[kind]
    return n


@inlined
def keep(self, x, y, kind):
    """Store an answer, in place of the oldest if `memory` answers are stored already, and count it for the class with
    index `kind`. Return its place among the stored answers, and how many of them are older."""
    n = n_answers(self)
    place = n % self.memory
    self.items[place], self.labels[place], self.alphas[place] = x.i, y, 0.0
    self.answers[kind] += 1
    return place, min(n, self.memory - 1)


@inlined
def revisited(self, place, earlier, k):
    """Draw an older answer to learn again after the answer at `place`, and return its place. k: number of the draw."""
    n = n_answers(self) - 1
    return (place + 1 + int(draw(VISITS, n * self.visits + k) * earlier)) % (earlier + 1)


def _cost(self, y):
    return ((self.answers[0] + 1) / (self.answers[1] + 1)) ** self.exponent if y > 0 else 1.0


cost = method("cost", default=_cost)  # weight of a label: 1 for a negative, for a positive by the answers so far


@inlined
def visit(self, w, rows, k):
    """Take a step of dual coordinate descent: update w, and set alpha of the answer at place k so that its loss r - y
    w.x becomes zero (r: weight of the answer), but within 0 .. C r."""
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
    """Return the margin of a learner with a bias."""
    return biased(self.w, x, self.bias)


def weights(self):
    """Return the weights of the features, without the weight of the bias."""
    return self.w[:-1]


class Dual(NamedTuple):
    """Cost-sensitive passive-aggressive learning in dual form: w = sum of alpha_i y_i x_i with 0 <= alpha_i <= C r_i,
    for the loss r_i - y_i w.x_i, where each x has a bias. An answer is learned when it arrives, and `visits` of the
    last `memory` answers are learned again (dual coordinate descent, Hsieh et al. 2008). The weight r of an answer is 1
    if negative, and ((negatives + 1) / (positives + 1))^exponent, over all answers, if positive. rho is not used."""

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
    dense_update = always  # the earlier rows that are learned again have other columns
    margin, weights = margin, weights

    def update(self, x, y, p, v, rho, theta):
        place, earlier = keep(self, x, y, int(y > 0))
        visit(self, self.w, x.rows, place)
        for k in range(self.visits if earlier else 0):
            visit(self, self.w, x.rows, revisited(self, place, earlier, k))


LEARNERS = {"dual": Dual}
