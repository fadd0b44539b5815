"""The learners by name, and a function that builds one.

A learner is a named tuple. Its first fields are arrays of state, each annotated with the function that makes the array;
the other fields are numbers declared as parameters. Its method `update(self, x, y, p, v, rho, theta)` learns the label
y of row x, given the margin p before the update, the variance v (0 for first-order learners), the cost weight rho_t of
this label and the decision threshold theta. If it needs the chance with which the label was asked for, it has a method
`note_chance`, which is called before `update`. To add a learner, write the class in the file of its kind and name it in
the LEARNERS of that file. A multi-class learner is marked `multiclass` and distinguishes K classes 1 .. K; all others
distinguish -1 and +1.
"""

import os
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from ..jit import always, method
from ..parameters import Values, checked, instantiate, named
from ..rows import Row, Rows, dot, entries_per_row
from . import adaptive, dual, first_order, multiclass, pool, second_order, sketched


class Learner(Protocol):
    """A named tuple of parameters and state arrays; one of the arrays holds the weights `w`."""

    @property
    def w(self) -> np.ndarray: ...

    def __iter__(self) -> Iterator[Any]: ...

    def _replace(self, **parts: Any) -> Self: ...


LEARNERS: dict[str, type[NamedTuple]] = {
    name: kind
    for module in (first_order, second_order, sketched, adaptive, dual, pool, multiclass)
    for name, kind in module.LEARNERS.items()
}

# Seconds of plain Python (benchmarks/start.py prints them)
ROUND_SECONDS, ENTRY_SECONDS, CELL_SECONDS = 1.5e-4, 1e-7, 2.5e-8
MEMORY_LIMIT_BYTES = 2 * 2**30  # for the largest array of a learner; overridden by the variable OAL_MEMORY_LIMIT


def _put(self: Learner, j: int, value: float) -> None:
    self.w[j] = value


def _predict(self: Learner, x: Row, theta: float) -> tuple[float, int]:
    p = margin(self, x)
    return p, 1 if p >= theta else -1


margin = method("margin", default=lambda self, x: dot(self.w, x))
predict = method("predict", default=_predict)  # the margin and the predicted class
score = method("score", default=lambda self, p, k: p)  # score of class k for the row predicted last
# First two indices of a prediction in the table of counts.
count_index = method("count_index", default=lambda self, predicted, y: (int(predicted > 0), y + 1))
# Variance of the row predicted last: a learner may reuse numbers that it computed for the prediction.
variance = method("variance", default=lambda self, x: 0.0)
gain = method("gain")
put = method("put", default=_put)
begin = method("begin", default=lambda self, j, value: put(self, j, value))  # sets a weight before the first update
note_chance = method("note_chance", default=lambda self, chance: None)  # called with the next label's chance
update = method("update")
dense_update = method("dense_update", default=lambda self: False)  # whether an update may change every weight
weight = method("weight", default=lambda self, j: self.w[j])
has_sign = method("has_sign", default=always)  # whether margins have a sign, as with two classes


def weights(learner: Learner) -> np.ndarray:
    """Return the weights that a learner predicts with: (d,), or (d, K) for K classes."""
    return learner.weights() if hasattr(learner, "weights") else learner.w


def offset(learner: Learner) -> np.ndarray:
    """Return the constant that the bias adds to the margin, or to each class's score, shape (K,). 0 without a bias."""
    return np.asarray(learner.w[-1] * learner.bias if hasattr(learner, "bias") else 0.0)


def member_weights(learner: Learner) -> dict[str, float]:
    """Return the weight of each member of a pool, {name: weight}; the weights add up to 1. Empty before the first
    answer, and for learners that are not pools."""
    return getattr(learner, "member_weights", {})


def linear(learner: Learner) -> bool:
    """Return whether the margin is the inner product of the weights and the row, plus an offset."""
    return not hasattr(learner, "margin") or hasattr(learner, "weights")


def is_multiclass(name: str) -> bool:
    """Return whether a learner (by name) distinguishes K classes."""
    return getattr(LEARNERS[name], "multiclass", False)


def classes(learner: Learner) -> int:
    """Return the number of classes of a multi-class learner, or 0 for a learner of -1 and +1."""
    return learner.w.shape[1] if learner.w.ndim == 2 else 0


def build(name: str, features: int, values: Values = (), classes: int = 0) -> Learner:
    """Build an untrained learner for rows with `features` columns. Raise ValueError if its largest array would exceed
    the memory limit.

    values: parameters by name; missing ones get their defaults. classes: number of classes of a multi-class learner
    (>= 2); 0 for all other learners.
    """
    name = named(LEARNERS, name, "learner")
    kind = LEARNERS[name]
    numbers = checked(kind, name, values)
    if is_multiclass(name) != bool(classes):
        fitting = ", ".join(other for other in LEARNERS if is_multiclass(other) == bool(classes))
        what = f"{classes} classes" if classes else "positives and negatives"
        raise ValueError(f"{what} need one of the learners {fitting}. Got {name}.")
    if classes == 1:
        raise ValueError(f"{name} needs 2 classes or more. Got 1.")
    limit, wide = int(os.environ.get("OAL_MEMORY_LIMIT", MEMORY_LIMIT_BYTES)), "Sigma" in kind._fields
    needed = 8 * features * (features if wide else classes)
    if needed > limit:
        raise ValueError(
            f"{name} keeps {'a full covariance of ' * wide}{features:,} x {features if wide else classes:,} numbers: "
            f"{needed / 2**30:.1f} GiB, "
            f"over the limit of {limit / 2**30:.1f} GiB. "
            + "Use a diagonal learner (acog-ii-diag), a sketch (ssacog-ii), " * wide
            + f"{'i' if wide else 'I'}mport with fewer terms, or raise OAL_MEMORY_LIMIT (bytes)."
        )
    learner: Learner = instantiate(kind, features, numbers, **({"classes": classes} if classes else {}))
    return learner


def plain_seconds(rows: Rows, learner: Learner | None, rounds: int) -> float:
    """Estimate how long plain Python takes for some rounds."""
    cells = sum(part.size for part in learner or () if isinstance(part, np.ndarray) and part.ndim == 2)
    return rounds * (ROUND_SECONDS + ENTRY_SECONDS * entries_per_row(rows) + CELL_SECONDS * cells)


def rows_per_answer(learner: Learner) -> int:
    """Return how many rows a learner learns at each answer."""
    return 1 + int(getattr(learner, "visits", 0))
