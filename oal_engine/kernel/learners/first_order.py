"""First-order learners: a weight vector and nothing else.

>>> from oal_engine.kernel import algorithms, rows, stream
>>> table, parts = rows.as_rows([[3.0, 4.0], [0.0, 1.0]]), algorithms.strategy("PA-I").build(2)
>>> stream.replay(table, [1, -1], [0, 1], *parts, stream.objective()).learner.w.round(2).tolist()
[0.12, -0.84]
"""

from math import sqrt
from typing import NamedTuple

import numpy as np

from ..jit import always
from ..parameters import TENS, Parameter
from ..rows import add, squared
from ..vectors import inner, scale

SMALLEST = 1e-300  # a squared norm below this is a zero row: l / xx would overflow

C = Parameter(1.0, above=0, help="Aggressiveness: the largest step of one update.", grid=TENS)
ETA = Parameter(1.0, above=0, help="Learning rate.", grid=TENS)


class GivenWeights(NamedTuple):
    """Fixed weights: answers do not change the initial weights. A decision that was made elsewhere can thus be used: as
    a feature with a fixed weight."""

    w: np.zeros

    def update(self, x, y, p, v, rho, theta):
        pass


class Perceptron(NamedTuple):
    """w += y x on a mistake (Rosenblatt 1958; OAAL eq. 1)."""

    w: np.zeros

    def update(self, x, y, p, v, rho, theta):
        if (p >= theta) != (y > 0):
            add(self.w, y, x)


class ROMMA(NamedTuple):
    """Relaxed online maximum margin algorithm: on a mistake w becomes the shortest u = c w + d x with y u.x >= 1 and
    u.w >= w.w (Li and Long 2002)."""

    w: np.zeros

    dense_update = always

    def update(self, x, y, p, v, rho, theta):
        xx = squared(x)
        if (p >= theta) == (y > 0) or xx <= SMALLEST:
            return
        ww = inner(self.w, self.w)
        rest = xx * ww - p * p
        c, d = 0.0, y / xx  # at the first mistake, and if x is parallel to w: no w meets both conditions
        if rest > 1e-12 * xx * ww:
            c, d = (xx * ww - y * p) / rest, ww / rest * (y - p)
        scale(self.w, c)
        add(self.w, d, x)


class PA(NamedTuple):
    """Passive-aggressive (PA): w += tau y x, tau = l / x.x, when l = 1 - y p > 0 (Crammer et al. 2006; PAA)."""

    w: np.zeros

    def update(self, x, y, p, v, rho, theta):
        loss, xx = 1 - y * p, squared(x)
        if loss > 0 and xx > SMALLEST:
            add(self.w, loss / xx * y, x)


class PAI(NamedTuple):
    """Passive-aggressive (PA-I): w += tau y x, tau = min(C, l / x.x), when l = 1 - y p > 0 (Crammer et al. 2006;
    PAA)."""

    w: np.zeros
    C: float = C

    def update(self, x, y, p, v, rho, theta):
        loss, xx = 1 - y * p, squared(x)
        if loss > 0 and xx > SMALLEST:
            add(self.w, min(self.C, loss / xx) * y, x)


class PAII(NamedTuple):
    """Passive-aggressive (PA-II): w += tau y x, tau = l / (x.x + 1 / 2C), when l = 1 - y p > 0 (Crammer et al. 2006;
    PAA)."""

    w: np.zeros
    C: float = C

    def update(self, x, y, p, v, rho, theta):
        loss = 1 - y * p
        if loss > 0:
            add(self.w, loss / (squared(x) + 1 / (2 * self.C)) * y, x)


class PAUM(NamedTuple):
    """w += y x when y p <= rho_t: the perceptron with uneven margins rho and 1 (Li et al. 2002; ACOG section 4.1)."""

    w: np.zeros

    def update(self, x, y, p, v, rho, theta):
        if y * p <= rho:
            add(self.w, y, x)


class CPAPB(NamedTuple):
    """w += min(C, (sqrt(rho_t) - y p) / x.x) y x when 1 - y p > 0, also without a mistake: prediction-based
    cost-sensitive PA (Crammer et al. 2006, section 7) as the ACOG paper ran it (CPA_PB, table 2). If rho < 1, positives
    are learned when sqrt(rho) - y p > 0."""

    w: np.zeros
    C: float = C

    def update(self, x, y, p, v, rho, theta):
        margin, xx = sqrt(rho), squared(x)
        if min(1.0, margin) - y * p > 0 and xx > SMALLEST:
            add(self.w, min(self.C, (margin - y * p) / xx) * y, x)


class CSPAA(NamedTuple):
    """Cost-sensitive passive-aggressive: w += min(C, l / x.x) y x when l = rho_t - y p > 0 (CSPAA of the PAA paper; the
    update of CSOAL)."""

    w: np.zeros
    C: float = C

    def update(self, x, y, p, v, rho, theta):
        loss, xx = rho - y * p, squared(x)
        if loss > 0 and xx > SMALLEST:
            add(self.w, min(self.C, loss / xx) * y, x)


class COGI(NamedTuple):
    """w += eta y x when rho_t - y p > 0 (COG-I, ACOG paper, first order)."""

    w: np.zeros
    eta: float = ETA

    def update(self, x, y, p, v, rho, theta):
        if rho - y * p > 0:
            add(self.w, self.eta * y, x)


class COGII(NamedTuple):
    """w += eta rho_t y x when 1 - y p > 0 (COG-II, ACOG paper, first order)."""

    w: np.zeros
    eta: float = ETA

    def update(self, x, y, p, v, rho, theta):
        if 1 - y * p > 0:
            add(self.w, self.eta * rho * y, x)


LEARNERS = {
    "given": GivenWeights,
    "perceptron": Perceptron,
    "romma": ROMMA,
    "pa": PA,
    "pa-i": PAI,
    "pa-ii": PAII,
    "paum": PAUM,
    "cpa-pb": CPAPB,
    "cspaa": CSPAA,
    "cog-i": COGI,
    "cog-ii": COGII,
}
