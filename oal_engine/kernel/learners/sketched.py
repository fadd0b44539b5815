"""Sketched second-order learners: the covariance in m directions, found by Oja's rule (ACOG section 3.1, OA3 section
4). A queried round costs O(m^2 d) for d features or, with the sparse sketch, O(m^3 + m s) for s nonzero features.

Sigma = I - V' D V with orthonormal rows of V and D = diag(t L / (1 + t L)), where t counts the queried rows and L
weights the directions; `variance` leaves V x in `z`. The sketch learns every queried row, the weights learn only rows
with a loss. If the sketch is updated only every m rounds (`every`, as both papers suggest), a round costs O(m d), or
O(m^2 + m s), on average. L is then the mean over the rows that the sketch learned, while t still counts all.
"""

from typing import NamedTuple

import numpy as np

from ..draws import draws
from ..jit import always, inlined
from ..parameters import Parameter, counter, from_parameters
from ..rows import add, dot, entry, span, squared
from ..vectors import add_multiple, divide, inner
from .first_order import ETA
from .second_order import GAMMA, acog_gain

M = Parameter(5, low=1, whole=True, help="Directions of the sketch, at most one per feature.")
LARGEST = 1e100  # rows with a larger squared norm are not learned: Gram-Schmidt would overflow
APART = 1e8  # largest entry of K: beyond it the directions of U are numerically parallel
EVERY = Parameter(1, low=1, whole=True, help="Queried rounds from one update of the sketch to the next.")
SEED = Parameter(0, low=0, whole=True, help="Seed of the directions at the start.")


@from_parameters
def directions(features, m, seed):
    """Return m random orthonormal rows."""
    m = min(m, features)
    V = 2 * draws(seed, m * features).reshape(m, features) - 1
    orthonormalize(V)
    return V


@from_parameters
def per_direction(features, m):
    """Return an array of zeros, one per direction."""
    return np.zeros(min(m, features))


@from_parameters
def identity(features, m):
    """Return the identity matrix over the directions."""
    return np.eye(min(m, features))


@inlined
def orthonormalize(V):
    """Apply Gram-Schmidt to the rows of V, in place."""
    for i in range(V.shape[0]):
        for k in range(i):
            add_multiple(V[i], -inner(V[i], V[k]), V[k])
        divide(V[i], np.sqrt(inner(V[i], V[i])))


@inlined
def _multiply(V, x, out):
    """Write V x to `out`."""
    for i in range(out.size):
        out[i] = 0.0
    for k in span(x.rows, x.i):
        j, x_j = entry(x.rows, x.i, k)
        for i in range(out.size):
            out[i] += V[i, j] * x_j


@inlined
def _rest(self, x):
    """Return the variance x' (I - V' D V) x. `z` must hold V x."""
    total = squared(x)
    for i in range(self.z.size):
        weight = self.t[0] * self.L[i]
        total -= weight / (1 + weight) * self.z[i] * self.z[i]
    return total


@inlined
def _count(self):
    """Count a queried row. If the sketch learns it, as its n-th row, set L = (1 - 1/n) L + (1/n) (V x)^2 / gamma, where
    `z` holds V x, and return 1/n; else return 0."""
    self.t[0] += 1
    if (self.t[0] - 1) % self.every != 0:
        return 0.0
    rate = 1 / ((self.t[0] - 1) / self.every + 1)
    for i in range(self.z.size):
        self.L[i] = (1 - rate) * self.L[i] + rate * self.z[i] * self.z[i] / self.gamma
    return rate


@inlined
def _learn(self, x, step):
    """Apply Oja's rule to x, then add step Sigma x to w."""
    if squared(x) > LARGEST:
        return
    rate = _count(self) / self.gamma
    if rate > 0:
        for i in range(self.z.size):
            for k in span(x.rows, x.i):
                j, x_j = entry(x.rows, x.i, k)
                self.V[i, j] += rate * self.z[i] * x_j
        orthonormalize(self.V)
    if step == 0:
        return
    _multiply(self.V, x, self.z)
    add(self.w, step, x)
    for i in range(self.z.size):
        weight = self.t[0] * self.L[i]
        along = step * weight / (1 + weight) * self.z[i]
        add_multiple(self.w, -along, self.V[i])


class Sketch(NamedTuple):
    """The state of SACOG: directions V, their weights L, and the number t of queried rows."""

    w: np.zeros
    V: directions
    L: per_direction
    z: per_direction
    t: counter
    eta: float = ETA
    gamma: float = GAMMA
    m: int = M
    seed: int = SEED
    every: int = EVERY

    provides = "covariance"
    dense_update = always

    def variance(self, x):
        _multiply(self.V, x, self.z)
        return _rest(self, x)

    gain = acog_gain


class SACOGI(Sketch):
    """ACOG-I with a sketched covariance, in O(m^2 d) per queried round: m directions, d features (ACOG section 3.1)."""

    def update(self, x, y, p, v, rho, theta):
        _learn(self, x, self.eta * y if rho - y * p > 0 else 0.0)


class SACOGII(Sketch):
    """ACOG-II with a sketched covariance: the learner of SOA3 (OA3 algorithms 4 to 6)."""

    def update(self, x, y, p, v, rho, theta):
        _learn(self, x, self.eta * rho * y if 1 - y * p > 0 else 0.0)


@inlined
def _weight(self, j):
    total = self.w[j]
    for i in range(self.b.size):
        total += self.b[i] * self.U[i, j]
    return total


@inlined
def _small(F, c, out):
    """Write F c to `out`."""
    for i in range(out.size):
        out[i] = 0.0
        for k in range(c.size):
            out[i] += F[i, k] * c[k]


@inlined
def _along(K, f, size, out):
    """Write K f to `out`; only the first `size` entries of f are nonzero. K is symmetric, so its rows serve as
    columns."""
    for j in range(out.size):
        out[j] = 0.0
    for k in range(size):
        for j in range(out.size):
            out[j] += f[k] * K[k, j]


@inlined
def _orthonormalize_in(F, K, Kf):
    """Apply Gram-Schmidt to the rows of the lower triangular F, in place, with the inner product a' K b. Kf is scratch
    memory."""
    m = Kf.size
    for k in range(m):
        _along(K, F[k], k + 1, Kf)
        length = 0.0
        for j in range(k + 1):
            length += F[k, j] * Kf[j]
        for j in range(k + 1):
            F[k, j] /= np.sqrt(length)
        if k + 1 < m:
            _along(K, F[k], k + 1, Kf)
        for i in range(k + 1, m):
            along = 0.0
            for j in range(i + 1):
                along += F[i, j] * Kf[j]
            for j in range(k + 1):
                F[i, j] -= along * F[k, j]


@inlined
def _restart(self):
    """Set w += U' b, b = 0, U = F U (orthonormalized), and F = K = I. This costs O(m^2 d), and is rare."""
    for j in range(self.w.size):
        self.w[j] = _weight(self, j)
        for i in range(self.c.size):
            self.c[i] = self.U[i, j]
        _small(self.F, self.c, self.z)
        for i in range(self.c.size):
            self.U[i, j] = self.z[i]
    orthonormalize(self.U)
    self.F[:] = 0
    self.K[:] = 0
    self.b[:] = 0
    for i in range(self.b.size):
        self.F[i, i] = self.K[i, i] = 1


@inlined
def _sparse_learn(self, x, step):
    """Learn like `_learn`, but with V stored as F U, and the weights as w0 + U' b. The step of `_turn` changes only the
    columns of U in which x is nonzero."""
    if squared(x) > LARGEST:
        return
    rate = _count(self) / self.gamma
    if rate > 0:
        _turn(self, x, step, rate)
    else:
        add(self.w, step, x)
    if step == 0:
        return
    _small(self.F, self.c, self.z)
    for i in range(self.c.size):
        weight = self.t[0] * self.L[i]
        along = step * weight / (1 + weight) * self.z[i]
        for k in range(self.c.size):
            self.b[k] -= along * self.F[i, k]


@inlined
def _turn(self, x, step, rate):
    """Set U += d x' and w0 += (step - d'b) x for d = rate U x, and recompute F. `c` must hold U x before the step, and
    holds it for the new U afterwards."""
    xx, m = squared(x), self.c.size
    for i in range(m):
        for k in range(m):
            d_i, d_k = rate * self.c[i], rate * self.c[k]
            self.K[i, k] += self.c[i] * d_k + d_i * self.c[k] + d_i * d_k * xx
    moved = 0.0
    for i in range(m):
        moved += rate * self.c[i] * self.b[i]
    for k in span(x.rows, x.i):
        j, x_j = entry(x.rows, x.i, k)
        for i in range(m):
            self.U[i, j] += rate * self.c[i] * x_j
    add(self.w, step - moved, x)
    longest = 0.0
    for i in range(m):
        longest = max(longest, self.K[i, i])
    if longest > APART:
        _restart(self)
        _multiply(self.U, x, self.c)
    else:
        _orthonormalize_in(self.F, self.K, self.Kf)
        for i in range(m):
            self.c[i] *= 1 + rate * xx


class SparseSketch(NamedTuple):
    """The state of SSACOG: V = F U, K = U U', and the weights w + U' b; c is U x and z is V x of the row seen last."""

    w: np.zeros
    U: directions
    F: identity
    K: identity
    L: per_direction
    b: per_direction
    c: per_direction
    z: per_direction
    Kf: per_direction
    t: counter
    eta: float = ETA
    gamma: float = GAMMA
    m: int = M
    seed: int = SEED
    every: int = EVERY

    provides = "covariance"
    dense_update = always

    def margin(self, x):
        _multiply(self.U, x, self.c)
        total = dot(self.w, x)
        for i in range(self.c.size):
            total += self.b[i] * self.c[i]
        return total

    def variance(self, x):
        _small(self.F, self.c, self.z)  # of the row whose margin was computed last
        return _rest(self, x)

    gain = acog_gain

    def weight(self, j):
        return _weight(self, j)

    def put(self, j, value):
        self.w[j] += value - _weight(self, j)

    def weights(self):
        return self.w + sum(b * u for b, u in zip(self.b, self.U))  # not `@`: BLAS has other bits on other processors


class SSACOGI(SparseSketch):
    """SACOG-I in time O(m^3 + m s) per queried round, for m directions and s nonzero features of the item (ACOG section
    3.2). One correction: in a queried round without a loss, the published pseudocode changes U but not w and b, and
    thereby changes the weights that predict (ACOG Algorithm 4, line 11; OA3 Algorithm 7, line 15). Here w compensates
    for the change of U in every queried round."""

    def update(self, x, y, p, v, rho, theta):
        _sparse_learn(self, x, self.eta * y if rho - y * p > 0 else 0.0)


class SSACOGII(SparseSketch):
    """SACOG-II in time O(m^3 + m s) per queried round, with m, s and the correction as in `ssacog-i`: the learner of
    SSOA3 (OA3 algorithm 7)."""

    def update(self, x, y, p, v, rho, theta):
        _sparse_learn(self, x, self.eta * rho * y if 1 - y * p > 0 else 0.0)


LEARNERS = {
    "sacog-i": SACOGI,
    "sacog-ii": SACOGII,
    "ssacog-i": SSACOGI,
    "ssacog-ii": SSACOGII,
}
