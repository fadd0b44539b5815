"""How the papers ran what their tables show: streams over orders of visit, settings chosen from grids.

A block is a part of a published table that one data file serves. Its protocol is a function of (block, folder, orders,
zero_rows_as_mistakes) that gives a `line` for each part and algorithm.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from math import ceil, sqrt
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from .. import datasets
from ..datasets import formats, sources
from ..kernel import algorithms, metrics, query_rules, rows, stream

Choice: TypeAlias = dict[str, float]  # the settings of an algorithm
ResultLine: TypeAlias = dict[str, Any]  # see `line`

TENS = [10.0**k for k in range(-5, 6)]
TWOS = [2.0**k for k in range(-5, 6)]
TRIALS = 3  # orders that settings are tuned on, where the orders of the paper are not known


@dataclass(frozen=True)
class Figure:
    """What a column of a table shows: a metric of one evaluation, times a factor, with so many decimals."""

    metric: str
    factor: float = 1.0
    digits: int = 3
    evaluation: str = "push"

    def of(self, counts: np.ndarray) -> np.ndarray:
        """The figure of each table of counts, of two classes or more than two; counts may have leading axes."""
        evaluate = metrics.evaluate if counts.shape[-3:] == metrics.COUNTS else metrics.evaluate_classes
        return self.factor * evaluate(counts, self.evaluation)[self.metric]

    @property
    def sign(self) -> int:
        """+1 where more is better, -1 where less is."""
        return -1 if self.metric == "cost" else 1


class Part(NamedTuple):
    """A column of a table: the figure and its published mean and standard deviation by algorithm."""

    figure: Figure
    published: dict[str, tuple[float, float] | None]


@dataclass(frozen=True)
class Block:
    """A published table on one data set, and the protocol `run`.

    tolerance: the difference up to which ours agrees, in published standard deviations (`unit` sd) or as a number.
    nearest: show the setting nearest to the published figure, not the best. asks: whether labels are asked by a rule.
    ranking: algorithms as the paper ranks them, the best first. task: how the file is read.
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
    nearest: bool = False
    asks: bool = True
    ranking: tuple[str, ...] = ()
    notes: str = ""
    task: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Stream:
    """Rows with labels, orders of visit, and what a run over them is given: the published protocol of one table.

    missed: counts added to every run, of the rows that no order visits.
    """

    table: datasets.FeatureTable
    visits: list[np.ndarray]
    rho: float
    budget: int | None = None
    missed: np.ndarray | int = 0

    def counts(self, algorithm: str, choices: list[Choice], orders: int | None = None) -> np.ndarray:
        """The counts (choices, orders, ...) of an algorithm under each choice of settings, over the first orders.

        A choice may set rho beside the algorithm's parameters.
        """
        table, visits = self.table, self.visits[:orders]
        strategies = [
            algorithms.strategy(algorithm, values={key: value for key, value in choice.items() if key != "rho"})
            for choice in choices
        ]

        def run(job: tuple[int, int]) -> np.ndarray:
            number, order = job
            chosen = strategies[number]
            rho = choices[number].get("rho", self.rho if chosen.rho is None else chosen.rho)
            parts = chosen.build(table.rows.columns, len(table.classes))
            done = stream.replay(
                table.rows, table.y, visits[order], *parts, stream.objective(rho=rho), budget=self.budget, seed=order
            )
            return done.counts + self.missed

        with ThreadPoolExecutor(os.cpu_count()) as threads:
            counts = list(threads.map(run, product(range(len(choices)), range(len(visits)))))
        return np.reshape(counts, (len(choices), len(visits), *counts[0].shape))

    def means(self, figure: Figure, algorithm: str, choices: list[Choice], orders: int | None = None) -> np.ndarray:
        """The figure under each choice, averaged over the first orders."""
        return figure.of(self.counts(algorithm, choices, orders)).mean(1)

    def best(self, figure: Figure, algorithm: str, choices: list[Choice], orders: int | None = None) -> Choice:
        """The choice with the best figure over the first orders."""
        if len(choices) == 1:
            return choices[0]
        return choices[int(np.argmax(figure.sign * self.means(figure, algorithm, choices, orders)))]

    def descend(self, figure: Figure, algorithm: str, keys: tuple[str, ...], orders: int) -> Choice:
        """A good choice of several parameters out of TENS, found by turning one at a time, all of them twice."""
        choice = dict.fromkeys(keys, 0.1)
        for key in keys * min(2, len(keys)):
            choice = self.best(figure, algorithm, [choice | {key: value} for value in TENS], orders)
        return choice


def grid(**values: list[float]) -> list[Choice]:
    """Every combination of the values of some parameters."""
    return [dict(zip(values, combination)) for combination in product(*values.values())]


def read(
    folder: Path,
    file: str,
    scale: str = "l2",
    positive: tuple[str, ...] = (),
    first: int | None = None,
    vocabulary: Mapping[str, Any] | tuple[()] = (),
    **columns: Any,
) -> datasets.FeatureTable:
    """The table of a published data file, or of its first rows; texts get a vocabulary with these settings."""
    guess = formats.peek(folder / file).guess
    items = formats.read(folder / file, replace(guess, positive=positive, features=None, **columns))
    if first and items.vectors is not None:
        items = replace(items, vectors=items.vectors[:first], y=items.y[:first])
    return datasets.table(items, scale, **{"tokenizer": "words"} | dict(vocabulary))


def standardised(table: datasets.FeatureTable) -> datasets.FeatureTable:
    """The table with every column of deviation 1, and of mean 0 unless that would fill sparse rows."""
    from sklearn.preprocessing import StandardScaler

    matrix = rows.matrix(table.rows)
    scaler = StandardScaler(with_mean=isinstance(table.rows, rows.DenseRows))
    return replace(table, rows=rows.as_rows(scaler.fit_transform(matrix)))


def shuffles(rounds: int, count: int) -> list[np.ndarray]:
    """Random orders of our own, the same every time."""
    return [stream.shuffled(rounds, seed) for seed in range(count)]


def recorded(path: Path, rounds: int) -> list[np.ndarray]:
    """The orders of visit of a file, one a line, rows counted from 1."""
    try:
        with sources.COMPRESSIONS.get(path.suffix, open)(path, "rt") as lines:
            orders = [np.array(line.split(), dtype=np.int64) - 1 for line in lines if line.strip()]
    except sources.UNREADABLE as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"the orders {path} cannot be read: {reason}.") from None
    if not orders:
        raise ValueError(f"the orders {path} must hold one order a line. Got none.")
    for number, order in enumerate(orders, 1):
        if not np.array_equal(np.sort(order), np.arange(rounds)):
            raise ValueError(
                f"order {number} of {path} must visit each of the rows 1 to {rounds} once. Got {order.size} numbers."
            )
    return orders


def imbalance(y: np.ndarray) -> float:
    """T_n / T_p."""
    return float((y < 0).sum() / (y > 0).sum())


def line(block: Block, part: str, algorithm: str, choice: Choice, counts: np.ndarray) -> ResultLine:
    """One line of a result: ours over the orders, the published figure, and how far apart they are."""
    figure, published = block.parts[part].figure, block.parts[part].published.get(algorithm)
    values = figure.of(counts)
    ours, queried = float(values.mean()), float(counts[..., 1].sum() / counts.sum())
    result: ResultLine = {
        "part": part, "algorithm": algorithm, "settings": choice, "ours": ours,
        "std": float(values.std(ddof=1)) if values.size > 1 else None,
        "queried": queried, "published": None, "published_std": None, "difference": None, "verdict": None,
    }  # fmt: skip
    if published:
        mean, std = published
        result |= {"published": mean, "published_std": std, "difference": (ours - mean) / std}
        result["verdict"] = _verdict(block, figure, ours, result["std"], mean, std)
    return result


def _verdict(block: Block, figure: Figure, ours: float, spread: float | None, mean: float, std: float) -> str:
    apart = (ours - mean) / (std if block.unit == "sd" else 1)
    if (round(ours, figure.digits), round(spread or 0, figure.digits)) == (mean, std):
        return "exact"
    if abs(apart) <= block.tolerance:
        return "agrees"
    return "better" if apart * figure.sign > 0 else "worse"


# ---- ACOG: supervised, one parameter, the sum and the cost

ACOG_GRIDS: dict[str, list[Choice]] = {
    "Perceptron": [{}], "ROMMA": [{}], "PAUM": [{}], "PA-I": grid(C=TENS), "CPA": grid(C=TENS), "AROW": grid(r=TENS),
}  # fmt: skip


def acog(block: Block, folder: Path, orders: int, zero_rows_as_mistakes: bool) -> Iterator[ResultLine]:
    """Every label is learned, and every setting of the grid is tried."""
    data = read(folder, block.files[0], **block.task)
    rounds = data.y.size
    visits = recorded(folder / block.files[1], rounds)[:orders] if block.files[1:] else shuffles(rounds, orders)
    for part, (figure, published) in block.parts.items():
        run = Stream(data, visits, imbalance(data.y) if figure.metric == "sum" else 9.0)
        for algorithm, (mean, _) in cast(dict[str, tuple[float, float]], published).items():  # none is missing
            choices = ACOG_GRIDS.get(algorithm, grid(eta=TENS))
            if algorithm == "PAUM":  # its margin is the rho of the sum in both halves of the table
                choices = [{"rho": imbalance(data.y)}]
            means = run.means(figure, algorithm, choices, None if block.nearest else TRIALS)
            best, nearest = choices[np.argmax(figure.sign * means)], choices[np.argmin(np.abs(means - mean))]
            shown, *others = (
                line(block, part, algorithm, choice, run.counts(algorithm, [choice]))
                for choice in ([nearest, best] if block.nearest else [best, nearest])[: 1 + (best != nearest)]
            )
            for other in others:
                shown["other"] = {key: other[key] for key in ("settings", "ours", "std", "difference", "verdict")}
            yield shown


# ---- OA3: a budget, recorded orders, rows of zeros

OA3_PARAMETERS = {
    "PAA": ("delta",),
    "OAAL": ("delta_minus", "delta_plus"),
    "CSOAL": ("C", "delta"),
    "SOAL": ("eta", "delta"),
    "SOAL-CS": ("eta", "delta"),
    "OA3": ("eta", "delta_minus", "delta_plus"),
    "OA3-diag": ("eta", "delta_minus", "delta_plus"),
    "SOA3": ("eta", "delta_minus", "delta_plus"),
    "SSOA3": ("eta", "delta_minus", "delta_plus"),
}


def without_zero_rows(run: Stream) -> Stream:
    """The same stream where each row of zeros is a mistake that is neither asked nor learned: a margin divided by the
    norm of such a row is not a number, and equals no label."""
    matrix: Any = rows.matrix(run.table.rows)
    empty = abs(matrix).sum(1) == 0
    y = run.table.y[empty]
    missed = metrics.empty()
    missed[1, 0, 0], missed[0, 2, 0] = (y < 0).sum(), (y > 0).sum()
    return replace(run, visits=[order[~empty[order]] for order in run.visits], missed=missed)


def oa3(block: Block, folder: Path, orders: int, zero_rows_as_mistakes: bool) -> Iterator[ResultLine]:
    """A budget of labels, zero rows as the publication has them and, unless that is all, as the rule has them."""
    data = read(folder, block.files[0])
    run = Stream(data, recorded(folder / block.files[1], data.y.size)[:orders], 9.0, budget=32000)
    for part, (figure, _) in block.parts.items():
        if zero_rows_as_mistakes and "rule" in part:
            continue
        protocol = run if "rule" in part else without_zero_rows(run)
        if figure.metric == "sum":
            protocol = replace(protocol, rho=imbalance(data.y))
        for algorithm in OA3_PARAMETERS:
            tuned = "SSOA3" if algorithm == "SOA3" else algorithm  # equal to rounding, and faster
            choice = protocol.descend(figure, tuned, OA3_PARAMETERS[algorithm], orders=2)
            yield line(block, part, algorithm, choice, protocol.counts(algorithm, [choice]))


# ---- PAA: the share of labels is given, delta is found for it


def smoothing(run: Stream, algorithm: str, share: float, orders: int | None, choice: Choice) -> Choice:
    """The choice with the smoothing (delta, beta, b or q) at which a share of the labels is asked."""
    [(key, spec)] = query_rules.smoothing(algorithms.ALGORITHMS[algorithm].rule).items()
    if spec.high == 1:
        return choice | {key: share}
    low, high = -14.0, 14.0
    for _ in range(10):
        middle = (low + high) / 2
        counts = run.counts(algorithm, [choice | {key: 2**middle}], orders)
        low, high = (middle, high) if counts[..., 1].sum() < share * counts.sum() else (low, middle)
    return choice | {key: 2 ** ((low + high) / 2)}


def smoothed(run: Stream, algorithm: str, share: float, orders: int | None, choices: list[Choice]) -> list[Choice]:
    """The choices with the smoothing that each needs."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(partial(smoothing, run, algorithm, share, orders), choices))


def wanted(part: str) -> float:
    """The share of labels in the name of a part, such as `10 % of labels`."""
    return float(part.split()[0]) / 100


def paa(block: Block, folder: Path, orders: int, zero_rows_as_mistakes: bool) -> Iterator[ResultLine]:
    """A share of the labels, two classes."""
    data = read(folder, block.files[0], "standardize+l2", **block.task)
    run = Stream(data, shuffles(data.y.size, orders), 1.0)
    trials = orders if data.y.size < 10_000 else TRIALS
    for part, (figure, published) in block.parts.items():
        for algorithm in published:
            choices = grid(C=TWOS) if algorithm.endswith(("-I", "-II")) else [{}]
            choices = smoothed(run, algorithm, wanted(part), trials, choices)
            choice = run.best(figure, algorithm, choices, trials)
            yield line(block, part, algorithm, choice, run.counts(algorithm, [choice]))


# ---- D-ADA: K classes, a share of the labels that not every setting can reach

DADA_GRIDS = {"eta": [0.001, 0.01, 0.1, 1.0], "delta": [0.001, 0.01, 0.1, 1.0, 10.0]}
NEAR = 0.05  # how far from the share of labels wanted, as a part of it, a setting may end


def nearby(run: Stream, figure: Figure, algorithm: str, share: float, choices: list[Choice]) -> Choice:
    """The choice with the best figure of those that ask about a share of the labels, or that which asks nearest to it.

    A first order, cut off where its labels are spent, gives the smoothing; TRIALS orders give the figure.
    """
    if share < 1:
        first = replace(run, visits=run.visits[:1], budget=ceil(share * run.table.y.size))
        choices = smoothed(first, algorithm, share, None, choices)
    counts = run.counts(algorithm, choices, TRIALS)
    apart = abs(counts[..., 1].sum((1, 2, 3)) / counts[0].sum() / share - 1)
    worth = np.where(apart <= max(NEAR, apart.min()), figure.sign * figure.of(counts).mean(1), -np.inf)
    return choices[int(np.argmax(worth))]


def dada(block: Block, folder: Path, orders: int, zero_rows_as_mistakes: bool) -> Iterator[ResultLine]:
    """A share of the labels, more than two classes; settings one at a time."""
    data = standardised(read(folder, block.files[0], "none", multiclass=True, **block.task))
    run = Stream(data, shuffles(data.y.size, orders), 1.0)
    for part, (figure, published) in block.parts.items():
        for algorithm in published:
            choice, grids = ({}, {"C": TENS}) if algorithm == "MPAA-II" else ({"delta": 1.0}, DADA_GRIDS)
            for key, values in grids.items():
                choices = [choice | {key: value} for value in values]
                choice = nearby(run, figure, algorithm, wanted(part), choices)
            yield line(block, part, algorithm, choice, run.counts(algorithm, [choice]))


# ---- OAAL: in kind, for the figures give curves and other data

OAAL_CHOICES: dict[str, list[Choice]] = {
    "Q_F": [{}],
    "Q_R": grid(q=[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]),
    "Q_D": grid(tau=TENS),
    "Q_S": grid(delta=TENS),
    "Q_A": grid(delta_plus=TENS, delta_minus=TENS),
}


def oaal(block: Block, folder: Path, orders: int, zero_rows_as_mistakes: bool) -> Iterator[ResultLine]:
    """A budget of labels; settings from other rows than those that are reported."""
    data = read(folder, block.files[0], **block.task)
    mixed, third = stream.shuffled(data.y.size, 0), data.y.size // 3
    validation, test = mixed[:-third], mixed[-third:]

    def visits(part: np.ndarray, count: int) -> list[np.ndarray]:
        return [part[order][:third] for order in shuffles(part.size, count)]

    rho = imbalance(data.y[validation])
    choices = OAAL_CHOICES | {"CSOAL": grid(C=TENS, delta=TENS, rho=[1.0, sqrt(rho), rho])}
    for part, (figure, _) in block.parts.items():
        budget = int(part.split()[0])
        tuned = Stream(data, visits(validation, orders), rho, budget)
        tested = Stream(data, visits(test, orders), rho, budget)
        for algorithm in choices:
            choice = tuned.best(figure, algorithm, choices[algorithm])
            yield line(block, part, algorithm, choice, tested.counts(algorithm, [choice]))
