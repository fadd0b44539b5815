"""Second-order learners: a weight vector and a covariance, full (d x d) or diagonal.

`variance` is v = x' Sigma x, and leaves Sigma x in `u` for the update that may follow; `gain` is how much one more
label of this row could move its margin, which the query rule `variance` weighs against the margin (OA3, eq. 13).
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from ..dispatch import INLINE
from ..parameters import Parameter
from ..rows import dot, entry, span
from .first_order import ETA

GAMMA = Parameter(1.0, above=0, help="Regularisation: large values keep the covariance wide for longer.")
R = Parameter(1.0, above=0, help="Regularisation of AROW: small values learn faster.")


@njit(**INLINE)
def _multiply(Sigma, x, out):
    """out = Sigma x; Sigma is symmetric, so its rows serve as columns."""
    out[:] = 0
    for k in span(x.rows, x.i):
        j, x_j = entry(x.rows, x.i, k)
        for i in range(out.size):
            out[i] += x_j * Sigma[j, i]


@njit(**INLINE)
def _shrink(Sigma, b, u):
    """Sigma -= b u u'."""
    for i in range(u.size):
        b_i = b * u[i]
        if b_i != 0:
            for j in range(u.size):
                Sigma[i, j] -= b_i * u[j]


def _full_variance(self, x):
    _multiply(self.Sigma, x, self.u)
    return dot(self.u, x)


def _diagonal_variance(self, x):
    total = 0.0
    for k in span(x.rows, x.i):
        j, x_j = entry(x.rows, x.i, k)
        total += self.s[j] * x_j * x_j
    return total


def _gain(self, v):
    return self.eta / 2 / (1 / v + 1 / self.gamma)


@njit(**INLINE)
def _step(self, step, v):
    """One ACOG step: Sigma first, then w along Sigma_new x = Sigma x gamma / (gamma + v)."""
    _shrink(self.Sigma, 1 / (self.gamma + v), self.u)
    step *= self.gamma / (self.gamma + v)
    for i in range(self.u.size):
        self.w[i] += step * self.u[i]


@njit(**INLINE)
def _diagonal_step(self, step, x):
    """The same per coordinate: the denominator is gamma + s_i x_i^2, not gamma + x' Sigma x."""
    for k in span(x.rows, x.i):
        j, x_j = entry(x.rows, x.i, k)
        self.s[j] -= self.s[j] * self.s[j] * x_j * x_j / (self.gamma + self.s[j] * x_j * x_j)
        self.w[j] += step * self.s[j] * x_j


class AROW(NamedTuple):
    """w += l b y Sigma x, Sigma -= b (Sigma x)(Sigma x)', b = 1/(v + r), when l = 1 - y p > 0 (Crammer et al. 2009)."""

    w: np.zeros
    u: np.zeros
    Sigma: np.eye
    r: float = R

    keeps = "covariance"
    variance = _full_variance

    def gain(self, v):
        return 0.5 / (1 / v + 1 / self.r)

    def update(self, x, y, p, v, rho, theta):
        loss = 1 - y * p
        if loss > 0:
            b = 1 / (v + self.r)
            for i in range(self.u.size):
                self.w[i] += loss * b * y * self.u[i]
            _shrink(self.Sigma, b, self.u)


class ACOGI(NamedTuple):
    """Sigma -= Sigma x x' Sigma / (gamma + v), then w += eta y Sigma x, when rho_t - y p > 0 (ACOG-I, Algorithm 1)."""

    w: np.zeros
    u: np.zeros
    Sigma: np.eye
    eta: float = ETA
    gamma: float = GAMMA

    keeps = "covariance"
    variance, gain = _full_variance, _gain

    def update(self, x, y, p, v, rho, theta):
        if rho - y * p > 0:
            _step(self, self.eta * y, v)


class ACOGII(NamedTuple):
    """As ACOG-I with the loss rho_t (1 - y p) and the step eta rho_t (ACOG-II, Algorithm 1; the learner of OA3)."""

    w: np.zeros
    u: np.zeros
    Sigma: np.eye
    eta: float = ETA
    gamma: float = GAMMA

    keeps = "covariance"
    variance, gain = _full_variance, _gain

    def update(self, x, y, p, v, rho, theta):
        if 1 - y * p > 0:
            _step(self, self.eta * rho * y, v)


class ACOGIDiag(NamedTuple):
    """ACOG-I with a diagonal covariance: time and memory grow with the non-zeros of a row (ACOG paper, section 3.3)."""

    w: np.zeros
    s: np.ones
    eta: float = ETA
    gamma: float = GAMMA

    keeps = "covariance"
    variance, gain = _diagonal_variance, _gain

    def update(self, x, y, p, v, rho, theta):
        if rho - y * p > 0:
            _diagonal_step(self, self.eta * y, x)


class ACOGIIDiag(NamedTuple):
    """ACOG-II with a diagonal covariance (ACOG paper, section 3.3; the learner of OA3-diag)."""

    w: np.zeros
    s: np.ones
    eta: float = ETA
    gamma: float = GAMMA

    keeps = "covariance"
    variance, gain = _diagonal_variance, _gain

    def update(self, x, y, p, v, rho, theta):
        if 1 - y * p > 0:
            _diagonal_step(self, self.eta * rho * y, x)
