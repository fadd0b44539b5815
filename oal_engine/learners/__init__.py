"""The learners by name, and how one is made.

A learner is a named tuple: arrays of state, each annotated with the function that makes it from the number of
features, then numbers declared as parameters. Its method `update(self, x, y, p, v, rho, theta)` learns the label y of
row x, given the margin p before the update, the variance v (0 for first-order learners), the cost weight rho_t of this
label and the decision threshold theta. To add a learner: write the class in the file of its kind, name it in LEARNERS.
"""

import os

from ..dispatch import method
from ..parameters import checked, made, named
from ..rows import dot
from .adaptive import AdaDA, AdaMD
from .first_order import COGI, COGII, CPA, CSPAA, PA, PAI, PAII, PAUM, ROMMA, Perceptron
from .second_order import ACOGI, ACOGII, AROW, CW, SOP, ACOGIDiag, ACOGIIDiag
from .sketched import SACOGI, SACOGII, SSACOGI, SSACOGII

LEARNERS = {
    "perceptron": Perceptron,
    "romma": ROMMA,
    "pa": PA,
    "pa-i": PAI,
    "pa-ii": PAII,
    "paum": PAUM,
    "cpa": CPA,
    "cspaa": CSPAA,
    "cog-i": COGI,
    "cog-ii": COGII,
    "arow": AROW,
    "cw": CW,
    "sop": SOP,
    "acog-i": ACOGI,
    "acog-ii": ACOGII,
    "acog-i-diag": ACOGIDiag,
    "acog-ii-diag": ACOGIIDiag,
    "sacog-i": SACOGI,
    "sacog-ii": SACOGII,
    "ssacog-i": SSACOGI,
    "ssacog-ii": SSACOGII,
    "ada-da": AdaDA,
    "ada-md": AdaMD,
}

MEMORY_LIMIT = 2 * 2**30  # bytes of a full covariance; the environment's OAL_MEMORY_LIMIT overrides it


def _put(self, j, value):
    self.w[j] = value


margin = method("margin", default=lambda self, x: dot(self.w, x))
variance = method("variance", default=lambda self, x: 0.0)
gain = method("gain")
put = method("put", default=_put)
update = method("update")
everywhere = method("everywhere", default=lambda self: False)  # whether an update may change every weight
weight = method("weight", default=lambda self, j: self.w[j])


def weights(learner):
    """The weight vector that a learner predicts with."""
    return learner.weights() if hasattr(learner, "weights") else learner.w


def build(name, features, values=()):
    """A fresh learner for rows with so many features, with the given parameters and the defaults of the others."""
    name = named(LEARNERS, name, "learner")
    kind = LEARNERS[name]
    numbers = checked(kind, name, dict(values))
    limit, needed = int(os.environ.get("OAL_MEMORY_LIMIT", MEMORY_LIMIT)), 8 * features**2
    if "Sigma" in kind._fields and needed > limit:
        raise ValueError(
            f"{name} keeps a full covariance of {features:,} x {features:,} numbers: {needed / 2**30:.1f} GiB, "
            f"over the limit of {limit / 2**30:.1f} GiB. Use a diagonal learner (acog-ii-diag), a sketch "
            f"(ssacog-ii), import with fewer terms, or raise OAL_MEMORY_LIMIT (bytes)."
        )
    return made(kind, features, numbers)
