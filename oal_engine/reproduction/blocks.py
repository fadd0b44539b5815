"""Published tables as data: figures, printed numbers, and how far our numbers are from them.

A block is all results on one data file in a published table or figure.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..kernel import metrics

Choice: TypeAlias = dict[str, float]  # the settings of an algorithm
ResultLine: TypeAlias = dict[str, Any]  # see `protocols.line`


@dataclass(frozen=True)
class Figure:
    """The quantity in a column of a table: a metric of one evaluation, times `factor`, rounded to `digits` decimals."""

    metric: str
    factor: float = 1.0
    digits: int = 3
    evaluation: str = "push"

    def of(self, counts: np.ndarray) -> np.ndarray:
        """Compute the figure from tables of counts of two or more classes; counts may have leading axes."""
        evaluate = metrics.evaluate if counts.shape[-3:] == metrics.COUNTS else metrics.evaluate_classes
        return self.factor * evaluate(counts, self.evaluation)[self.metric]

    @property
    def sign(self) -> int:
        """+1 if more is better, -1 if less is better, 0 for sensitivity and specificity (only judged together)."""
        return {"cost": -1, "sensitivity": 0, "specificity": 0}.get(self.metric, 1)


RATES = {name: Figure(name, 100) for name in ("sensitivity", "specificity")}


class Published(NamedTuple):
    """The numbers that a paper prints for an algorithm: mean and standard deviation of the figure and of each of RATES
    (sensitivity, specificity), and the seconds of a run. All but the mean may be missing."""

    mean: float
    std: float | None = None
    rates: Mapping[str, tuple[float, float]] = {}
    seconds: float | None = None

    def distance(self, figure: Figure, counts: np.ndarray) -> np.ndarray:
        """Return the largest difference between our numbers and the printed ones, over the figure and the rates, in
        printed standard deviations. counts: our tables of counts, shape (..., orders, *table)."""
        printed = {figure: (self.mean, self.std)} | {RATES[name]: rate for name, rate in self.rates.items()}
        apart = [abs(each.of(counts).mean(-1) - mean) / (std or 1) for each, (mean, std) in printed.items()]
        return np.max(apart, axis=0)


class Part(NamedTuple):
    """A column of a table: the figure, and the printed numbers of each algorithm (None if the paper prints none)."""

    figure: Figure
    published: Mapping[str, Published | None]


@dataclass(frozen=True)
class Block:
    """A published table or figure on one data set, and the protocol `run`.

    tolerance: largest difference that counts as agreement. Its `unit` is "sd" if it is in standard deviations
    (published ones or, if there are none, ours). asks: whether a rule asks for labels. ranking: algorithms in the order
    of the paper, the best first. claims: (algorithm, others) for each claim of the paper that the algorithm is ahead of
    these others. also: further settings to run, by part and algorithm. task: arguments of `read`.
    """

    paper: str
    table: str
    files: tuple[str, ...]
    protocol: str
    parts: dict[str, Part]
    run: Callable[..., Iterator[ResultLine]]
    tolerance: float = 2.0
    unit: str = "sd"
    orders: int = 20
    asks: bool = True
    ranking: tuple[str, ...] = ()
    claims: tuple[tuple[str, tuple[str, ...]], ...] = ()
    also: Mapping[str, Mapping[str, Choice]] = field(default_factory=dict)
    notes: str = ""
    task: dict[str, Any] = field(default_factory=dict)


def compared(
    block: Block, figure: Figure, counts: np.ndarray, printed: tuple[float, float | None] | None
) -> dict[str, Any]:
    """Return our mean and standard deviation of a figure, the printed ones, their difference, and a verdict."""
    values = figure.of(counts)
    ours, spread = float(values.mean()), float(values.std(ddof=1)) if values.size > 1 else None
    mean, std = printed or (None, None)
    result: dict[str, Any] = {
        "ours": ours, "std": spread, "published": mean, "published_std": std, "difference": None, "verdict": None
    }  # fmt: skip
    if mean is not None:
        result["difference"] = (ours - mean) / (std or spread or 1)
        result["verdict"] = _verdict(block, figure, ours, spread, mean, std)
    return result


def _verdict(block: Block, figure: Figure, ours: float, spread: float | None, mean: float, std: float | None) -> str:
    apart = (ours - mean) / ((std or spread or 1) if block.unit == "sd" else 1)
    if round(ours, figure.digits) == mean and std in (None, round(spread or 0, figure.digits)):
        return "exact"
    if abs(apart) <= block.tolerance:
        return "agrees"
    if not figure.sign:
        return "higher" if apart > 0 else "lower"
    return "better" if apart * figure.sign > 0 else "worse"
