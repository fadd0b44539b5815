"""Parameters of learners and query rules, declared once: validation, command line, forms and docs read this."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import signature
from itertools import product
from math import isfinite
from typing import Any, NamedTuple, TypeAlias, TypeVar, get_type_hints

import numpy as np

from .. import did_you_mean

Values: TypeAlias = Mapping[str, float | str] | tuple[()]  # parameters by name

T = TypeVar("T")

TENS = "10^-5..10^5"  # the grid of the papers


@dataclass(frozen=True)
class Parameter:
    """A numeric parameter with its default, its range and one line of help, declared as the default of a field.

    grid: values that a comparison tries when it tunes the parameter, or None to leave it at its default. smoothing:
    whether a larger value makes a query rule ask more; if the largest value, `high`, is 1, the value is the share of
    items asked about. drifting: recommended value for a stream that changes, or None if no special value is needed.
    """

    default: float
    help: str
    above: float | None = None
    low: float | None = None
    high: float | None = None
    below: float | None = None
    whole: bool = False
    grid: str | tuple[float | str, ...] | None = None
    smoothing: bool = False
    drifting: float | None = None

    @property
    def range(self) -> str:
        """The allowed values in words, e.g. '> 0' or '>= 0 and <= 1'."""
        bounds = ((">", self.above), (">=", self.low), ("<=", self.high), ("<", self.below))
        words = " and ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None) or "a finite number"
        return "a whole number " * self.whole + words

    def check(self, value: float | str, name: str, owner: str) -> float:
        """Check a value, and return it as a float, or an int if `whole`. Raise ValueError if it is out of range."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = float("nan")
        if (
            not isfinite(number)
            or (self.above is not None and number <= self.above)
            or (self.low is not None and number < self.low)
            or (self.high is not None and number > self.high)
            or (self.below is not None and number >= self.below)
            or (self.whole and number != int(number))
        ):
            raise ValueError(f"{name} of {owner} must be {self.range}. Got {value}.")
        return int(number) if self.whole else number


def from_parameters(make: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Mark a function that makes a state array, so that `instantiate` calls it with the arguments named in its
    signature: `features`, `classes` or parameters."""
    make.arguments = tuple(signature(make).parameters)  # type: ignore[attr-defined]  # read by `instantiate`
    return make


@from_parameters
def counter() -> np.ndarray:
    """Return a counter, which starts at 0, as a state array."""
    return np.zeros(1)


def state(kind: type[NamedTuple]) -> dict[str, Callable[..., np.ndarray]]:
    """Return the functions that make the state arrays of a learner or rule class, by field name."""
    return {name: make for name, make in get_type_hints(kind).items() if name not in parameters(kind)}


def instantiate(kind: type[NamedTuple], features: int, numbers: Mapping[str, float], **sizes: int) -> Any:
    """Build a learner or rule. features: number of columns of the rows. numbers: values of all parameters, by name.
    sizes: `classes` for a multi-class learner."""
    values = {"features": features, **numbers, **sizes}
    arrays = {}
    for field, make in state(kind).items():
        names = getattr(make, "arguments", None)
        arrays[field] = make(features) if names is None else make(**{name: values[name] for name in names})
    return kind(**arrays, **numbers)  # type: ignore[call-overload]  # each class has fields of its own


def parameters(kind: type[NamedTuple]) -> dict[str, Parameter]:
    """Return the declared parameters of a learner or rule class, by name."""
    return {name: value for name, value in kind._field_defaults.items() if isinstance(value, Parameter)}


def checked(kind: type[NamedTuple], owner: str, values: Values) -> dict[str, float]:
    """Check parameter values, and return all parameters of `kind` by name, with defaults for the missing ones. Raise
    ValueError if a name is unknown or a value is out of range. owner: the name that errors use for `kind`."""
    declared = parameters(kind)
    chosen = dict(values)
    for name in chosen:
        if name not in declared:
            allowed = ", ".join(declared) or "no parameters"
            raise ValueError(f"{owner} has no parameter {name}. It has {allowed}.{did_you_mean(name, declared)}")
    return {name: spec.check(chosen.get(name, spec.default), name, owner) for name, spec in declared.items()}


def named(registry: Iterable[str], name: object, what: str) -> str:
    """Look up a name, ignoring case, and return the registry's spelling. Raise ValueError, with all names, if it is
    unknown. what: the kind of name, for the error."""
    by_lower_case = {key.lower(): key for key in registry}
    if str(name).lower() not in by_lower_case:
        raise ValueError(f"{what} must be one of {', '.join(registry)}. Got {name}.{did_you_mean(name, registry)}")
    return by_lower_case[str(name).lower()]


def combinations(grid: Mapping[str, Iterable[T]]) -> list[dict[str, T]]:
    """Return the Cartesian product of a grid's values: one dictionary, with the grid's keys, per combination."""
    return [dict(zip(grid, values)) for values in product(*grid.values())]
