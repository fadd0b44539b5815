"""The learners by name, and how one is made.

A learner is a named tuple: arrays of state, each annotated with the function that makes it from the number of
features, then numbers declared as parameters. Its method `update(self, x, y, p, v, rho, theta)` learns the label y of
row x, given the margin p before the update, the variance v (0 for first-order learners), the cost weight rho_t of this
label and the decision threshold theta. To add a learner: write the class in the file of its kind, name it in LEARNERS.
"""

import os
from typing import get_type_hints

import numpy as np

from ..dispatch import method
from ..parameters import checked, named, parameters
from ..rows import dot
from .adaptive import AdaDA, AdaMD
from .first_order import COGI, COGII, CSPAA, PA, PAI, PAII, Perceptron
from .second_order import ACOGI, ACOGII, AROW, ACOGIDiag, ACOGIIDiag

LEARNERS = {
    "perceptron": Perceptron,
    "pa": PA,
    "pa-i": PAI,
    "pa-ii": PAII,
    "cspaa": CSPAA,
    "cog-i": COGI,
    "cog-ii": COGII,
    "arow": AROW,
    "acog-i": ACOGI,
    "acog-ii": ACOGII,
    "acog-i-diag": ACOGIDiag,
    "acog-ii-diag": ACOGIIDiag,
    "ada-da": AdaDA,
    "ada-md": AdaMD,
}

MEMORY_LIMIT = 2 * 2**30  # bytes of a full covariance; the environment's OAL_MEMORY_LIMIT overrides it

margin = method("margin", default=lambda self, x: dot(self.w, x))
variance = method("variance", default=lambda self, x: 0.0)
gain = method("gain")
update = method("update")


def state(kind):
    """The functions that make a learner's state arrays from the number of features, by field."""
    return {name: make for name, make in get_type_hints(kind).items() if name not in parameters(kind)}


def is_full(kind):
    """Whether a learner keeps a full covariance, d x d."""
    return np.eye in state(kind).values()


def build(name, features, values=()):
    """A fresh learner for rows with so many features, with the given parameters and the defaults of the others."""
    name = named(LEARNERS, name, "learner")
    kind = LEARNERS[name]
    numbers = checked(kind, name, dict(values))
    limit, needed = int(os.environ.get("OAL_MEMORY_LIMIT", MEMORY_LIMIT)), 8 * features**2
    if is_full(kind) and needed > limit:
        raise ValueError(
            f"{name} keeps a full covariance of {features:,} x {features:,} numbers: {needed / 2**30:.1f} GiB, "
            f"over the limit of {limit / 2**30:.1f} GiB. Use a diagonal learner (acog-i-diag, acog-ii-diag), "
            f"import with fewer terms, or raise OAL_MEMORY_LIMIT (bytes)."
        )
    return kind(**{field: make(features) for field, make in state(kind).items()}, **numbers)
