"""Second-order learners: a weight vector and a covariance, full (d x d) or diagonal.

`variance` is v = x' Sigma x, and leaves Sigma x in `u` for the update that may follow. `gain` is how much one more
label of this row could move its margin; the query rule `variance` weighs it against the margin (OA3, eq. 10 and 11).

>>> from oal_engine.kernel import algorithms, rows, stream
>>> table, parts = rows.as_rows([[3.0, 4.0], [0.0, 1.0]]), algorithms.strategy("ACOG-II").build(2)
>>> stream.replay(table, [1, -1], [0, 1], *parts, stream.objective()).learner.Sigma.round(2).tolist()
[[0.5, -0.33], [-0.33, 0.28]]
"""

from math import sqrt
from typing import NamedTuple

import numpy as np

from ..jit import always, inlined
from ..parameters import TENS, Parameter, from_parameters
from ..rows import add, dot, entry, quadratic, span
from ..vectors import add_multiple, inner
from .first_order import ETA, SMALLEST

GAMMA = Parameter(1.0, above=0, help="Regularization: large values keep the covariance wide for longer.")
LAG = Parameter(
    0.0, low=0, high=1,
    help="Which covariance moves the weights: 0 the one after this label (as published), 1 the one before it.",
)  # fmt: skip
R = Parameter(1.0, above=0, help="Regularization of AROW: small values learn faster.", grid=TENS)
CONFIDENCE = Parameter(0.9, above=0.5, below=1, help="Probability of a right prediction after the update.")
A = Parameter(1.0, above=0, help="The matrix A starts as a times the identity.")
LEAST = -1e150  # smallest ratio of margin to deviation: the square of a smaller one would overflow


@from_parameters
def quantile(confidence):
    """Return phi, the quantile of the normal distribution at probability `confidence`, as an array of one number."""
    from scipy.special import ndtri

    return np.array([ndtri(confidence)])


@from_parameters
def inverse(features, a):
    """Return the inverse of A = a I."""
    return np.eye(features) / a


@from_parameters
def squares(features, a):
    """Return the diagonal of A = a I."""
    return np.full(features, a)


@inlined
def multiply(Sigma, x, out):
    """Write Sigma x to `out`. Sigma is symmetric, so its rows serve as columns."""
    out[:] = 0
    for k in span(x.rows, x.i):
        j, x_j = entry(x.rows, x.i, k)
        add_multiple(out, x_j, Sigma[j])


@inlined
def shrink(Sigma, b, u):
    """Subtract b u u' from Sigma."""
    for i in range(u.size):
        b_i = b * u[i]
        if b_i != 0:
            add_multiple(Sigma[i], -b_i, u)


def acog_gain(self, v):
    """Return (eta / 2) / (1/v + 1/gamma): the second term of q in OA3's query rule, without its factor rho_max."""
    return self.eta / 2 / (1 / max(v, SMALLEST) + 1 / self.gamma)


@inlined
def _step(self, step, v):
    """Make one ACOG step: update Sigma, then move w along Sigma_new x = Sigma x gamma / (gamma + v), or, if the lag is
    1, along Sigma x."""
    shrink(self.Sigma, 1 / (self.gamma + v), self.u)
    step *= self.lag + (1 - self.lag) * (self.gamma / (self.gamma + v))
    add_multiple(self.w, step, self.u)


@inlined
def _diagonal_step(self, step, x):
    """Make one ACOG step per coordinate: the denominator is gamma + s_i x_i^2 instead of gamma + x' Sigma x."""
    for k in span(x.rows, x.i):
        j, x_j = entry(x.rows, x.i, k)
        before = self.s[j]
        self.s[j] *= self.gamma / (self.gamma + before * x_j * x_j)  # s - s^2 x^2 / (gamma + s x^2)
        self.w[j] += step * (self.lag * before + (1 - self.lag) * self.s[j]) * x_j


class Full(NamedTuple):
    """The state of ACOG with a full covariance; `u` is Sigma x of the row seen last. A lag of 1 moves the weights along
    Sigma_t, as in the variant of ACOG figure 7."""

    w: np.zeros
    u: np.zeros
    Sigma: np.eye
    eta: float = ETA
    gamma: float = GAMMA
    lag: float = LAG

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
    """Like ACOG-I, with the loss rho_t (1 - y p) and the step eta rho_t (ACOG-II, Algorithm 1; the learner of OA3)."""

    def update(self, x, y, p, v, rho, theta):
        if 1 - y * p > 0:
            _step(self, self.eta * rho * y, v)


class Diagonal(NamedTuple):
    """The state of ACOG with a diagonal covariance s."""

    w: np.zeros
    s: np.ones
    eta: float = ETA
    gamma: float = GAMMA
    lag: float = LAG

    provides = "covariance"

    def variance(self, x):
        return quadratic(self.s, x)

    gain = acog_gain


class ACOGIDiag(Diagonal):
    """ACOG-I with a diagonal covariance: time and memory grow with the non-zeros of a row (ACOG paper, section 2.2)."""

    def update(self, x, y, p, v, rho, theta):
        if rho - y * p > 0:
            _diagonal_step(self, self.eta * y, x)


class ACOGIIDiag(Diagonal):
    """ACOG-II with a diagonal covariance (ACOG paper, section 2.2; the learner of OA3-diag)."""

    def update(self, x, y, p, v, rho, theta):
        if 1 - y * p > 0:
            _diagonal_step(self, self.eta * rho * y, x)


class AROW(NamedTuple):
    """Adaptive regularization of weights: w += l b y Sigma x, Sigma -= b (Sigma x)(Sigma x)', b = 1/(v + r), when
    l = 1 - y p > 0 (Crammer et al. 2009)."""

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
            add_multiple(self.w, loss * b * y, self.u)
            shrink(self.Sigma, b, self.u)


class Confident(NamedTuple):
    """The state of confidence-weighted learning: the distribution N(w, diag(s)) of the weights."""

    w: np.zeros
    s: np.ones
    phi: quantile
    confidence: float = CONFIDENCE

    provides = "covariance"

    variance = Diagonal.variance

    def gain(self, v):
        return 0.5 / (1 / max(v, SMALLEST) + 1)


@inlined
def _confident_step(self, x, y, M, v):
    """Make the step of CW's variance form: w += step y s x, 1/s += 2 step phi x^2. M is the signed margin y p."""
    phi = self.phi[0]
    b = 1 + 2 * phi * M
    step = max(0.0, (-b + sqrt(b * b - 8 * phi * (M - phi * v))) / (4 * phi * v))
    for k in span(x.rows, x.i):
        j, x_j = entry(x.rows, x.i, k)
        self.w[j] += step * y * self.s[j] * x_j
        self.s[j] = 1 / (1 / self.s[j] + 2 * step * phi * x_j * x_j)


class CWVariance(Confident):
    """Confidence-weighted: the smallest change of N(w, diag(s)) after which y w.x >= phi v, where phi is the normal
    quantile of `confidence`, and the variance v replaces the standard deviation (Dredze et al. 2008, section 3.2)."""

    def update(self, x, y, p, v, rho, theta):
        if self.phi[0] * v > y * p and v > SMALLEST:
            _confident_step(self, x, y, y * p, v)


class CWExact(Confident):
    """Exact confidence-weighted: the smallest change of N(w, diag(s)) after which y w.x is positive with probability
    `confidence`: y w.x >= phi sqrt(v), where phi is the normal quantile of `confidence` (Crammer, Dredze, Pereira 2008,
    with the diagonal of the inverse; CW-diag of PAA)."""

    def update(self, x, y, p, v, rho, theta):
        phi, deviation = self.phi[0], sqrt(v)
        if phi * deviation > y * p and v > SMALLEST:
            ratio, psi, zeta = max(y * p / deviation, LEAST), 1 + phi * phi / 2, 1 + phi * phi
            # alpha in units of 1 / sqrt(v), and the change of 1/s along x in units of 1 / v
            fourth = phi * phi * (phi * phi)  # not **4, which plain Python rounds in another way
            step = max(0.0, (-ratio * psi + sqrt(ratio * ratio * fourth / 4 + phi * phi * zeta)) / zeta)
            change = step * phi * (step * phi + sqrt(step * step * phi * phi + 4)) / 2
            for k in span(x.rows, x.i):
                j, x_j = entry(x.rows, x.i, k)
                self.w[j] += step / deviation * y * self.s[j] * x_j
                self.s[j] /= 1 + change * (x_j * self.s[j] / v) * x_j  # 1/s += change x^2 / v


class SOP(NamedTuple):
    """The second-order perceptron: p = w' (A + x x')^-1 x, and on a mistake w += y x, A += x x', A_0 = a I
    (Cesa-Bianchi et al. 2005); with the rule `symmetric` it is SEL-2nd. Sigma is the inverse of A."""

    w: np.zeros
    u: np.zeros
    Sigma: inverse
    a: float = A

    dense_update = always

    def margin(self, x):
        multiply(self.Sigma, x, self.u)
        return inner(self.w, self.u) / (1 + dot(self.u, x))

    variance = Full.variance

    def update(self, x, y, p, v, rho, theta):
        if (p >= theta) != (y > 0):
            add(self.w, y, x)
            shrink(self.Sigma, 1 / (1 + v), self.u)


class SOPDiag(NamedTuple):
    """The second-order perceptron with only the diagonal of A: p = sum_i w_i x_i / (A_ii + x_i^2), and on a mistake
    w += y x, A_ii += x_i^2 (D-ADA paper, section 5.1.3)."""

    w: np.zeros
    A: squares
    a: float = A

    def margin(self, x):
        total = 0.0
        for k in span(x.rows, x.i):
            j, x_j = entry(x.rows, x.i, k)
            total += self.w[j] / (self.A[j] + x_j * x_j) * x_j
        return total

    def update(self, x, y, p, v, rho, theta):
        if (p >= theta) != (y > 0):
            for k in span(x.rows, x.i):
                j, x_j = entry(x.rows, x.i, k)
                self.w[j] += y * x_j
                self.A[j] += x_j * x_j


LEARNERS = {
    "arow": AROW,
    "cw-variance": CWVariance,
    "cw-exact": CWExact,
    "sop": SOP,
    "sop-diag": SOPDiag,
    "acog-i": ACOGI,
    "acog-ii": ACOGII,
    "acog-i-diag": ACOGIDiag,
    "acog-ii-diag": ACOGIIDiag,
}
