"""Adaptive subgradient learners: a learning rate per coordinate, H = delta I + diag(sqrt(sum g_i^2)), g: subgradient.

`variance` is v = sum_i x_i^2 / H_ii, and `gain` is how much one more label could move the margin. The query rule
`discriminative` weighs the gain against the margin (D-ADA, Algorithm 1; eq. 9 for K classes).

>>> from oal_engine.kernel import algorithms, rows, stream
>>> table, parts = rows.as_rows([[3.0, 4.0], [0.0, 1.0]]), algorithms.strategy("DA").build(2)
>>> stream.replay(table, [1, -1], [0, 1], *parts, stream.objective()).learner.w.round(2).tolist()
[0.75, 0.59]
"""

from math import sqrt
from typing import NamedTuple

import numpy as np

from ..parameters import TENS, Parameter
from ..rows import entry, span
from .first_order import ETA

DELTA = Parameter(1.0, above=0, help="Smoothing of the adaptive step: H = delta I + diag(s).", grid=TENS)


def _variance(self, x):
    total = 0.0
    for k in span(x.rows, x.i):
        j, x_j = entry(x.rows, x.i, k)
        total += x_j * x_j / (self.delta + sqrt(self.squares[j]))
    return total


def gain(self, v):
    """Return how much one more label could move the margin: eta v / 2 (D-ADA, Algorithm 1; eq. 9 for K classes)."""
    return self.eta / 2 * v


class AdaDA(NamedTuple):
    """w = -eta H^-1 sum g, g = -y x, when 1 - y p > 0: adaptive dual averaging (Duchi et al. 2011; D-ADA)."""

    w: np.zeros
    gradients: np.zeros
    squares: np.zeros
    eta: float = ETA
    delta: float = DELTA

    provides = "adaptive"
    variance, gain = _variance, gain

    def begin(self, j, value):
        self.w[j], self.gradients[j] = value, -value * self.delta / self.eta  # the squares are still 0

    def update(self, x, y, p, v, rho, theta):
        if 1 - y * p > 0:
            for k in span(x.rows, x.i):
                j, x_j = entry(x.rows, x.i, k)
                self.gradients[j] -= y * x_j
                self.squares[j] += x_j * x_j
                self.w[j] = -self.eta * self.gradients[j] / (self.delta + sqrt(self.squares[j]))


class AdaMD(NamedTuple):
    """w -= eta H^-1 g, g = -y x, when 1 - y p > 0: adaptive mirror descent (Duchi et al. 2011; D-AMD)."""

    w: np.zeros
    squares: np.zeros
    eta: float = ETA
    delta: float = DELTA

    provides = "adaptive"
    variance, gain = _variance, gain

    def update(self, x, y, p, v, rho, theta):
        if 1 - y * p > 0:
            for k in span(x.rows, x.i):
                j, x_j = entry(x.rows, x.i, k)
                self.squares[j] += x_j * x_j
                self.w[j] += self.eta * y * x_j / (self.delta + sqrt(self.squares[j]))


LEARNERS = {
    "ada-da": AdaDA,
    "ada-md": AdaMD,
}
