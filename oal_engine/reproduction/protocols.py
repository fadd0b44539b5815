"""The protocols by which the papers obtained their tables: runs over several item orders, with settings from grids.

The protocol of a block is a function of (block, folder, orders, zero_rows_as_mistakes). It yields a result line, see
`line`, for each part (column of the table) and algorithm.
"""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import ceil, sqrt
from pathlib import Path
from time import thread_time
from typing import Any, NamedTuple

import numpy as np

from .. import datasets
from ..datasets import reading
from ..datasets.reading import sources
from ..kernel import algorithms, metrics, query_rules, rows, stream
from ..kernel.parameters import combinations
from ..kernel.runs import Run, class_ratio, tuning_and_test_items
from .blocks import RATES, Block, Choice, Figure, Published, ResultLine, compared

TENS = [10.0**k for k in range(-5, 6)]
TWOS = [2.0**k for k in range(-5, 6)]
TRIALS = 3  # orders to tune settings on, if the orders of the paper are not known


class Runs(NamedTuple):
    """The results of runs: the counts, shape (choices, orders, ...), and the seconds, shape (choices, orders)."""

    counts: np.ndarray
    seconds: np.ndarray


@dataclass(frozen=True)
class Stream:
    """The setup of the runs of one published table: labeled rows, item orders (`visits`), and options of all runs.

    missed: counts that are added to every run, for rows that are in no order. folds: number of folds of
    cross-validation. Each fold is predicted by a model that learned the others, and these predictions are counted.
    Without folds (0), the predictions along the stream are counted.
    """

    table: datasets.FeatureTable
    visits: list[np.ndarray]
    rho: float
    budget: int | None = None
    missed: np.ndarray | int = 0
    folds: int = 0

    def runs(self, algorithm: str, choices: list[Choice], orders: int | None = None) -> Runs:
        """Run an algorithm with each choice of settings over the first `orders` orders (None: all).

        A choice may set rho and the algorithm's parameters.
        """
        visits = self.visits[:orders]

        def run(choice: Choice, order: int) -> tuple[np.ndarray, float]:
            values = {key: value for key, value in choice.items() if key != "rho"}
            strategy = algorithms.strategy(algorithm, values=values)
            rho = choice.get("rho", self.rho if strategy.rho is None else strategy.rho)
            return self._run(strategy, rho, visits[order], order)

        jobs = list(product(choices, range(len(visits))))
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            counts, seconds = zip(*threads.map(lambda job: run(*job), jobs))
        shape = len(choices), len(visits)
        return Runs(np.reshape(counts, (*shape, *counts[0].shape)), np.reshape(seconds, shape))

    def _run(self, strategy: algorithms.Strategy, rho: float, visit: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
        """Run a strategy over one item order: once, or once per fold. Return the counts and the seconds of learning."""
        classes = len(self.table.classes)
        counts, seconds = self.missed + metrics.empty(classes), 0.0
        for fold in range(self.folds or 1):
            held_out = slice(fold, visit.size if self.folds else 0, self.folds or 1)
            streamed = np.delete(visit, held_out)
            run = Run(strategy, self.table.rows, self.table.y, streamed, classes, rho, budget=self.budget, seed=seed)
            parts, started = run.start(), thread_time()
            done = run.replay(parts=parts)
            # The first time includes checks of the arguments, the second includes waits for other programs.
            seconds += min(thread_time() - started, done.seconds)
            counts += run.predict(visit[held_out], parts) if self.folds else done.counts
        return counts, seconds

    def counts(self, algorithm: str, choices: list[Choice], orders: int | None = None) -> np.ndarray:
        """Return the counts of `runs`."""
        return self.runs(algorithm, choices, orders).counts

    def best(
        self,
        figure: Figure,
        algorithm: str,
        choices: list[Choice],
        orders: int | None = None,
        target: Published | None = None,
    ) -> Choice:
        """Return the choice with the best mean figure over the first `orders` orders (None: all), or, with a target,
        the choice nearest to its published numbers."""
        if len(choices) == 1:
            return choices[0]
        return chosen(figure, choices, self.counts(algorithm, choices, orders), target)

    def descend(
        self, figure: Figure, algorithm: str, keys: tuple[str, ...], orders: int, target: Published | None = None
    ) -> Choice:
        """Tune several parameters over TENS by coordinate descent: one parameter at a time, and each twice if there are
        several."""
        choice = dict.fromkeys(keys, 0.1)
        for key in keys * min(2, len(keys)):
            choice = self.best(figure, algorithm, [choice | {key: value} for value in TENS], orders, target)
        return choice


def chosen(figure: Figure, choices: list[Choice], counts: np.ndarray, target: Published | None = None) -> Choice:
    """Return the choice with the best mean figure, or, with a target, the choice nearest to its published numbers."""
    worth = -target.distance(figure, counts) if target else figure.sign * figure.of(counts).mean(1)
    return choices[int(np.argmax(worth))]


def read(
    folder: Path,
    file: str,
    scale: str = "l2",
    positive: tuple[str, ...] = (),
    first: int | None = None,
    among: tuple[str, ...] = (),
    vocabulary: Mapping[str, Any] | tuple[()] = (),
    **columns: Any,
) -> datasets.FeatureTable:
    """Read a published data file, or only its `first` rows, or only the items with one of the labels `among`.

    vocabulary: settings for turning texts into tf-idf rows. With the scale `counts`, rows are word counts without the
    most common English words, and `vocabulary` holds settings of CountVectorizer.
    """
    guess = reading.peek(folder / file).guess
    items = reading.read(folder / file, replace(guess, positive=positive, features=None, **columns))
    if first and items.vectors is not None:
        items = replace(items, vectors=items.vectors[:first], y=items.y[:first])
    if among:
        items = items.take(np.flatnonzero(np.isin(items.labels, among)))
    if scale == "counts":
        return _word_counts(items, **dict(vocabulary))
    return datasets.table(items, scale, **{"tokenizer": "words"} | dict(vocabulary))


def _word_counts(items: reading.Items, **settings: Any) -> datasets.FeatureTable:
    from sklearn.feature_extraction.text import CountVectorizer

    words = CountVectorizer(stop_words="english", token_pattern="[a-z]{3,}", **settings)  # noqa: S106
    counts = rows.as_rows(words.fit_transform(items.texts).astype(np.float64))
    return datasets.FeatureTable(counts, items.y, items, None, {"name": "none"}, items.classes)


def standardized(table: datasets.FeatureTable) -> datasets.FeatureTable:
    """Standardize every column of a table to standard deviation 1, and to mean 0 unless the rows are sparse."""
    from sklearn.preprocessing import StandardScaler

    matrix = rows.matrix(table.rows)
    scaler = StandardScaler(with_mean=isinstance(table.rows, rows.DenseRows))
    return replace(table, rows=rows.as_rows(scaler.fit_transform(matrix)))


def shuffles(rounds: int, count: int) -> list[np.ndarray]:
    """Return `count` random item orders, the same on every call."""
    return [stream.shuffled(rounds, seed) for seed in range(count)]


def recorded(path: Path, rounds: int) -> list[np.ndarray]:
    """Read item orders from a file: one per line, with rows counted from 1. Raise ValueError if the file cannot be read
    or an order does not have each row once."""
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


def line(block: Block, part: str, algorithm: str, choice: Choice, run: Stream, chosen: str = "") -> ResultLine:
    """Run a choice of settings over all orders. Return our numbers, the published ones, and how far apart they are."""
    figure, published = block.parts[part]
    printed = published.get(algorithm)
    runs = run.runs(algorithm, [choice])
    counts, rates = runs.counts[0], printed.rates if printed else {}
    rates_known = () if run.table.classes else RATES
    return {
        "part": part, "algorithm": algorithm, "chosen": chosen, "settings": choice,
        **compared(block, figure, counts, printed and (printed.mean, printed.std)),
        "rates": {name: compared(block, RATES[name], counts, rates.get(name)) for name in rates_known},
        "queried": float(counts[..., 1].sum() / counts.sum()),
        "seconds": float(runs.seconds.min()), "published_seconds": printed and printed.seconds,
    }  # fmt: skip


# ---- ACOG: supervised, one parameter, the sum and the cost

ACOG_GRIDS: dict[str, list[Choice]] = {
    "Perceptron": [{}],
    "ROMMA": [{}],
    "PAUM": [{}],
    "PA-I": combinations({"C": TENS}),
    "CPA": combinations({"C": TENS}),
    "AROW": combinations({"r": TENS}),
}
FOLDS = 5


def acog(block: Block, folder: Path, orders: int, zero_rows_as_mistakes: bool, folds: int = 0) -> Iterator[ResultLine]:
    """Run the protocol of ACOG: learn every label, and try every setting of the grid. folds: as in `Stream`."""
    data = read(folder, block.files[0], **block.task)
    rounds = data.y.size
    visits = recorded(folder / block.files[1], rounds)[:orders] if block.files[1:] else shuffles(rounds, orders)
    trials = orders if block.files[1:] and not folds else TRIALS
    for part, (figure, published) in block.parts.items():
        run = Stream(data, visits, class_ratio(data.y) if figure.metric == "sum" else 9.0, folds=folds)
        for algorithm, printed in published.items():
            choices = ACOG_GRIDS.get(algorithm, combinations({"eta": TENS}))
            if algorithm == "PAUM":  # its margin is the rho of the sum in both halves of the table
                choices = [{"rho": class_ratio(data.y)}]
            counts = run.counts(algorithm, choices, trials)
            also = block.also.get(part, {}).get(algorithm)
            picks: dict[str, Choice | None] = {"best": chosen(figure, choices, counts)}
            if folds:
                picks = {"paper": also} | picks
            else:
                picks = {"nearest": chosen(figure, choices, counts, printed)} | picks | {"also": also}
            yield _picked(block, part, algorithm, run, picks if choices[1:] else {"": choices[0]})


def held_out(block: Block, folder: Path, orders: int, zero_rows_as_mistakes: bool) -> Iterator[ResultLine]:
    """Run the protocol of ACOG with 5-fold cross-validation: learn the labels of four folds, and predict the fifth."""
    return acog(block, folder, orders, zero_rows_as_mistakes, FOLDS)


def _picked(block: Block, part: str, algorithm: str, run: Stream, picks: Mapping[str, Choice | None]) -> ResultLine:
    """Run the settings in `picks`, {name: settings or None}. Return the line of the first settings, with the lines of
    the other settings in `others`."""
    names: dict[tuple[tuple[str, float], ...], list[str]] = {}
    for name, choice in picks.items():
        if choice is not None:
            names.setdefault((*choice.items(),), []).append(name)
    first, *others = (
        line(block, part, algorithm, dict(choice), run, " and ".join(each)) for choice, each in names.items()
    )
    return first | {"others": others}


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
    """Remove rows of zeros from the orders, and count each as a wrong prediction, neither asked about nor learned.

    The published code divides a margin by the norm of the row. For a row of zeros the result is NaN, which equals no
    label.
    """
    matrix: Any = rows.matrix(run.table.rows)
    empty = abs(matrix).sum(1) == 0
    y = run.table.y[empty]
    missed = metrics.empty()
    missed[1, 0, 0], missed[0, 2, 0] = (y < 0).sum(), (y > 0).sum()
    return replace(run, visits=[order[~empty[order]] for order in run.visits], missed=missed)


def oa3(block: Block, folder: Path, orders: int, zero_rows_as_mistakes: bool) -> Iterator[ResultLine]:
    """Run the protocol of OA3: spend a budget of labels. Rows of zeros count as mistakes, as in the publication. In
    some parts (columns) the rule decides about them instead; `zero_rows_as_mistakes` leaves these parts out."""
    data = read(folder, block.files[0])
    run = Stream(data, recorded(folder / block.files[1], data.y.size)[:orders], 9.0, budget=32000)
    for part, (figure, _) in block.parts.items():
        if zero_rows_as_mistakes and "rule" in part:
            continue
        protocol = run if "rule" in part else without_zero_rows(run)
        if figure.metric == "sum":
            protocol = replace(protocol, rho=class_ratio(data.y))
        for algorithm, keys in OA3_PARAMETERS.items():
            tuned = "SSOA3" if algorithm == "SOA3" else algorithm  # equal to rounding, and faster
            printed = block.parts[part].published.get(algorithm)
            yield _picked(block, part, algorithm, protocol, {
                "nearest": protocol.descend(figure, tuned, keys, 2, printed) if printed else None,
                "best": protocol.descend(figure, tuned, keys, 2),
            })  # fmt: skip


# ---- PAA: delta is found for a given share of labels


def smoothing(run: Stream, algorithm: str, share: float, orders: int | None, choice: Choice) -> Choice:
    """Add to a choice of settings the smoothing (delta, beta, b or q) at which this share of the labels is asked for.
    It is found by bisection, except for q, which is itself the share."""
    (key, spec), *more = query_rules.smoothing(algorithms.ALGORITHMS[algorithm].rule).items()
    key = "delta" if more else key  # sets both delta_plus and delta_minus
    if spec.high == 1:
        return choice | {key: share}
    low, high = -14.0, 14.0
    for _ in range(10):
        middle = (low + high) / 2
        counts = run.counts(algorithm, [choice | {key: 2**middle}], orders)
        low, high = (middle, high) if counts[..., 1].sum() < share * counts.sum() else (low, middle)
    return choice | {key: 2 ** ((low + high) / 2)}


def smoothed(run: Stream, algorithm: str, share: float, orders: int | None, choices: list[Choice]) -> list[Choice]:
    """Return the choices, each with the smoothing that `smoothing` finds for it."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(partial(smoothing, run, algorithm, share, orders), choices))


def share_of(part: str) -> float:
    """Return the share of labels that is in the name of a part, such as 0.1 for `10 % of labels`."""
    return float(part.split()[0]) / 100


def paa(block: Block, folder: Path, orders: int, zero_rows_as_mistakes: bool) -> Iterator[ResultLine]:
    """Run the protocol of PAA: ask for a share of the labels, with C and the smoothing tuned."""
    data = read(folder, block.files[0], **{"scale": "standardize+l2"} | block.task)
    run = Stream(data, shuffles(data.y.size, orders), 1.0)
    for part, (figure, published) in block.parts.items():
        trials = orders if data.y.size < 10_000 and any(published.values()) else TRIALS
        for algorithm in published:
            choices = combinations({"C": TWOS}) if algorithm.endswith(("-I", "-II")) else [{}]
            choices = smoothed(run, algorithm, share_of(part), trials, choices)
            choice = run.best(figure, algorithm, choices, trials)
            yield line(block, part, algorithm, choice, run)


def cspaa(block: Block, folder: Path, orders: int, zero_rows_as_mistakes: bool) -> Iterator[ResultLine]:
    """Run the protocol of CSPAA: ask for a share of the labels, or for all; C and rho are T_n / T_p."""
    data = read(folder, block.files[0], **block.task)
    rho = class_ratio(data.y)
    run = replace(without_zero_rows(Stream(data, shuffles(data.y.size, orders), rho)), missed=0)
    for part, (_, published) in block.parts.items():
        for algorithm in published:
            entry = algorithms.ALGORITHMS[algorithm]
            choice = {"C": rho} if "C" in algorithms.declared(entry.learner, entry.rule) else {}
            if share_of(part) < 1:
                choice = smoothing(run, algorithm, share_of(part), TRIALS, choice)
            yield line(block, part, algorithm, choice, run)


# ---- D-ADA: a share of the labels that not every setting can reach

DADA_GRIDS = {"eta": [0.001, 0.01, 0.1, 1.0], "delta": [0.001, 0.01, 0.1, 1.0, 10.0]}
DADA_RIVALS = {"PAA-II": {"C": TENS}, "MPAA-II": {"C": TENS}, "SOP-diag": {"a": TENS}, "SOAL-diag": {"eta": TENS}}
NEAR = 0.05  # largest relative deviation from the wanted share of labels


def nearby(run: Stream, figure: Figure, algorithm: str, share: float, choices: list[Choice]) -> Choice:
    """Return the choice with the best figure among the choices whose share of labels is within NEAR of the wanted
    share. If there are none, return the choice that is closest to this share.

    The smoothing is found on the first order, with the share of labels as its budget; the figure is the mean over
    TRIALS orders.
    """
    if share < 1:
        first = replace(run, visits=run.visits[:1], budget=ceil(share * run.table.y.size))
        choices = smoothed(first, algorithm, share, None, choices)
    counts = run.counts(algorithm, choices, TRIALS)
    apart = abs(counts[..., 1].sum((1, 2, 3)) / counts[0].sum() / share - 1)
    worth = np.where(apart <= max(NEAR, apart.min()), figure.sign * figure.of(counts).mean(1), -np.inf)
    return choices[int(np.argmax(worth))]


def dada(block: Block, folder: Path, orders: int, zero_rows_as_mistakes: bool) -> Iterator[ResultLine]:
    """Run the protocol of D-ADA: ask for a share of the labels, and tune one setting after the other."""
    data = read(folder, block.files[0], **{"scale": "none"} | block.task)
    if block.task.get("scale") != "counts":
        data = standardized(data)
    run = Stream(data, shuffles(data.y.size, orders), 1.0)
    for part, (figure, published) in block.parts.items():
        for algorithm in published:
            grids = DADA_RIVALS.get(algorithm, DADA_GRIDS)
            choice = {"delta": 1.0} if grids is DADA_GRIDS else {}
            for key, values in grids.items():
                choices = [choice | {key: value} for value in values]
                choice = nearby(run, figure, algorithm, share_of(part), choices)
            yield line(block, part, algorithm, choice, run)


# ---- OAAL: in kind, because the paper draws curves, and for other data

OAAL_CHOICES: dict[str, list[Choice]] = {
    "Q_F": [{}],
    "Q_R": combinations({"q": [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]}),
    "Q_D": combinations({"tau": TENS}),
    "Q_S": combinations({"delta": TENS}),
    "Q_A": combinations({"delta_plus": TENS, "delta_minus": TENS}),
}


def oaal(block: Block, folder: Path, orders: int, zero_rows_as_mistakes: bool) -> Iterator[ResultLine]:
    """Run the protocol of OAAL: spend a budget of labels. The settings are tuned on some of the rows, and the results
    are from the others."""
    data = read(folder, block.files[0], **block.task)
    validation, test = tuning_and_test_items(data.y.size)

    def visits(part: np.ndarray, count: int) -> list[np.ndarray]:
        return [part[order][: test.size] for order in shuffles(part.size, count)]

    rho = class_ratio(data.y[validation])
    choices = OAAL_CHOICES | {"CSOAL": combinations({"C": TENS, "delta": TENS, "rho": [1.0, sqrt(rho), rho]})}
    for part, (figure, _) in block.parts.items():
        budget = int(part.split()[0])
        tuned = Stream(data, visits(validation, orders), rho, budget)
        tested = Stream(data, visits(test, orders), rho, budget)
        for algorithm in choices:
            choice = tuned.best(figure, algorithm, choices[algorithm])
            yield line(block, part, algorithm, choice, tested)
