"""Second-order learners: a weight vector and a covariance, full (d x d) or diagonal.

`variance` is v = x' Sigma x, and leaves Sigma x in `u` for the update that may follow; `gain` is how much one more
label of this row could move its margin, which the query rule `variance` weighs against the margin (OA3, eq. 13).
"""

from math import sqrt
from typing import NamedTuple

import numpy as np
from numba import njit

from ..jit import INLINE, always
from ..parameters import TENS, Parameter, from_parameters
from ..rows import add, dot, entry, quadratic, span
from .first_order import ETA, SMALLEST

GAMMA = Parameter(1.0, above=0, help="Regularisation: large values keep the covariance wide for longer.")
R = Parameter(1.0, above=0, help="Regularisation of AROW: small values learn faster.", grid=TENS)


@from_parameters
def quantile(confidence):
    """phi, the quantile of the normal distribution at the confidence."""
    from scipy.special import ndtri

    return np.array([ndtri(confidence)])


@from_parameters
def inverse(features, a):
    """The inverse of A = a I."""
    return np.eye(features) / a


@njit(**INLINE)
def inner(w, u):
    """The inner product of two vectors."""
    total = 0.0
    for i in range(u.size):
        total += w[i] * u[i]
    return total


@njit(**INLINE)
def multiply(Sigma, x, out):
    """out = Sigma x; Sigma is symmetric, so its rows serve as columns."""
    out[:] = 0
    for k in span(x.rows, x.i):
        j, x_j = entry(x.rows, x.i, k)
        for i in range(out.size):
            out[i] += x_j * Sigma[j, i]


@njit(**INLINE)
def shrink(Sigma, b, u):
    """Sigma -= b u u'."""
    for i in range(u.size):
        b_i = b * u[i]
        if b_i != 0:
            for j in range(u.size):
                Sigma[i, j] -= b_i * u[j]


def acog_gain(self, v):
    """(eta / 2) / (1/v + 1/gamma), the second term of q in OA3's query rule without rho_max."""
    return self.eta / 2 / (1 / max(v, SMALLEST) + 1 / self.gamma)


@njit(**INLINE)
def _step(self, step, v):
    """One ACOG step: Sigma first, then w along Sigma_new x = Sigma x gamma / (gamma + v)."""
    shrink(self.Sigma, 1 / (self.gamma + v), self.u)
    step *= self.gamma / (self.gamma + v)
    for i in range(self.u.size):
        self.w[i] += step * self.u[i]


@njit(**INLINE)
def _diagonal_step(self, step, x):
    """The same per coordinate: the denominator is gamma + s_i x_i^2, not gamma + x' Sigma x."""
    for k in span(x.rows, x.i):
        j, x_j = entry(x.rows, x.i, k)
        self.s[j] *= self.gamma / (self.gamma + self.s[j] * x_j * x_j)  # s - s^2 x^2 / (gamma + s x^2)
        self.w[j] += step * self.s[j] * x_j


class Full(NamedTuple):
    """The state of ACOG with a full covariance; `u` is Sigma x of the row looked at last."""

    w: np.zeros
    u: np.zeros
    Sigma: np.eye
    eta: float = ETA
    gamma: float = GAMMA

    provides = "covariance"
    dense_update = always

    def variance(self, x):
        multiply(self.Sigma, x, self.u)
        return dot(self.u, x)

    gain = acog_gain


class ACOGI(Full):
    """Sigma -= Sigma x x' Sigma / (gamma + v), then w += eta y Sigma x, when rho_t - y p > 0 (ACOG-I, Algorithm 1)."""

    def update(self, x, y, p, v, rho, theta):
        if rho - y * p > 0:
            _step(self, self.eta * y, v)


class ACOGII(Full):
    """As ACOG-I with the loss rho_t (1 - y p) and the step eta rho_t (ACOG-II, Algorithm 1; the learner of OA3)."""

    def update(self, x, y, p, v, rho, theta):
        if 1 - y * p > 0:
            _step(self, self.eta * rho * y, v)


class Diagonal(NamedTuple):
    """The state of ACOG with a diagonal covariance s."""

    w: np.zeros
    s: np.ones
    eta: float = ETA
    gamma: float = GAMMA

    provides = "covariance"

    def variance(self, x):
        return quadratic(self.s, x)

    gain = acog_gain


class ACOGIDiag(Diagonal):
    """ACOG-I with a diagonal covariance: time and memory grow with the non-zeros of a row (ACOG paper, section 3.3)."""

    def update(self, x, y, p, v, rho, theta):
        if rho - y * p > 0:
            _diagonal_step(self, self.eta * y, x)


class ACOGIIDiag(Diagonal):
    """ACOG-II with a diagonal covariance (ACOG paper, section 3.3; the learner of OA3-diag)."""

    def update(self, x, y, p, v, rho, theta):
        if 1 - y * p > 0:
            _diagonal_step(self, self.eta * rho * y, x)


class AROW(NamedTuple):
    """w += l b y Sigma x, Sigma -= b (Sigma x)(Sigma x)', b = 1/(v + r), when l = 1 - y p > 0 (Crammer et al. 2009)."""

    w: np.zeros
    u: np.zeros
    Sigma: np.eye
    r: float = R

    provides = "covariance"
    dense_update = always
    variance = Full.variance

    def gain(self, v):
        return 0.5 / (1 / max(v, SMALLEST) + 1 / self.r)

    def update(self, x, y, p, v, rho, theta):
        loss = 1 - y * p
        if loss > 0:
            b = 1 / (v + self.r)
            for i in range(self.u.size):
                self.w[i] += loss * b * y * self.u[i]
            shrink(self.Sigma, b, self.u)


class CW(NamedTuple):
    """Confidence-weighted learning, diagonal, variance form: the smallest change of N(w, diag(s)) after which y w.x is
    positive with probability `confidence` (Dredze et al. 2008, section 3.2)."""

    w: np.zeros
    s: np.ones
    phi: quantile
    confidence: float = Parameter(0.9, above=0.5, below=1, help="Probability of a right prediction after the update.")

    provides = "covariance"

    variance = Diagonal.variance

    def gain(self, v):
        return 0.5 / (1 / max(v, SMALLEST) + 1)

    def update(self, x, y, p, v, rho, theta):
        phi, M = self.phi[0], y * p
        if phi * sqrt(v) > M and v > SMALLEST:
            b = 1 + 2 * phi * M
            step = max(0.0, (-b + sqrt(b * b - 8 * phi * (M - phi * v))) / (4 * phi * v))
            for k in span(x.rows, x.i):
                j, x_j = entry(x.rows, x.i, k)
                self.w[j] += step * y * self.s[j] * x_j
                self.s[j] = 1 / (1 / self.s[j] + 2 * step * phi * x_j * x_j)


class SOP(NamedTuple):
    """The second-order perceptron: p = w' (A + x x')^-1 x, and on a mistake w += y x, A += x x', A_0 = a I
    (Cesa-Bianchi et al. 2005); with the rule `symmetric` it is SEL-2nd. Sigma is the inverse of A."""

    w: np.zeros
    u: np.zeros
    Sigma: inverse
    a: float = Parameter(1.0, above=0, help="The matrix A starts as a times the identity.")

    dense_update = always

    def margin(self, x):
        multiply(self.Sigma, x, self.u)
        return inner(self.w, self.u) / (1 + dot(self.u, x))

    variance = Full.variance

    def update(self, x, y, p, v, rho, theta):
        if (p >= theta) != (y > 0):
            add(self.w, y, x)
            shrink(self.Sigma, 1 / (1 + v), self.u)


LEARNERS = {
    "arow": AROW,
    "cw": CW,
    "sop": SOP,
    "acog-i": ACOGI,
    "acog-ii": ACOGII,
    "acog-i-diag": ACOGIDiag,
    "acog-ii-diag": ACOGIIDiag,
}
