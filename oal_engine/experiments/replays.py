"""Replay one strategy over labeled data, in one or several item orders."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..datasets import Dataset, FeatureTable, relabelled
from ..datasets.given import BOTH, COLUMN, SCALE, TRUST, Column
from ..datasets.prior import Prior
from ..kernel import certainty, metrics, questions, spending, stream
from ..kernel.algorithms import Strategy
from ..kernel.estimates import positives, windows
from ..kernel.rows import Rows, with_column
from ..kernel.runs import Parts, Run
from .specifications import MOST_RUNS

AVERAGED = (*metrics.EVALUATIONS, metrics.LIST, "positives")  # results of a run that are averaged over the orders


@dataclass(frozen=True)
class ReplayOptions:
    """How a strategy is replayed.

    permutations: number of random item orders (None: one run in the stored order). positive: for multi-class data and a
    two-class strategy, a list with the one positive class; all others are negative. audit, audit_trains, pace, floor,
    goal: as in `spending.plan`. If `floor` > 0, each run reports guaranteed minimums of its metrics, both as they are
    and if a person reads all pushed items. prior: weights that the learner begins with. known_share: share of the items
    whose labels are learned before the first round, drawn with the seed of each run; the other items are the stream.
    All other options are as in `Specification`.
    """

    permutations: int | None = None
    positive: list[str] | None = None
    metric: str = "sum"
    rho: float | str = "auto"
    alpha_p: float = 0.5
    c_p: float = 0.9
    theta: float = 0.0
    budget: int | None = None
    seed: int = 0
    average: bool = False
    audit: float = 0.0
    audit_trains: bool = True
    pace: float | None = None
    floor: float = 0.0
    goal: str = spending.STREAM
    prior: Prior | None = None
    known_share: float = 0.0

    def __post_init__(self) -> None:
        if self.permutations is not None and self.permutations > MOST_RUNS:
            raise ValueError(f"permutations of a replay must be <= {MOST_RUNS:,}. Got {self.permutations:,}.")

        if not 0 <= self.known_share < 1:
            raise ValueError(
                f"known must be >= 0 and < 1: the share of items whose labels are known. Got {self.known_share}."
            )

    @property
    def weights(self) -> metrics.Weights:
        """The weights of the metrics sum and cost."""
        return metrics.Weights(self.alpha_p, self.c_p)


def replay(
    strategy: Strategy,
    data: FeatureTable | Dataset,
    orders: list[np.ndarray] | None = None,
    options: ReplayOptions = ReplayOptions(),
) -> dict[str, Any]:
    """Run a strategy once per item order. Return the metrics of each run, their mean and standard deviation, as JSON.

    orders: item orders as arrays of row numbers (from 0); they replace `options.permutations`.
    """
    if options.floor and strategy.multiclass:
        raise ValueError("a floor is for a positive and a negative class. Got several classes.")
    y, classes = data.y, data.classes
    if classes and not strategy.multiclass:
        y, classes = _one_vs_rest(y, classes, options.positive, strategy.algorithm), ()
    orders, first, n_known = _planned(strategy, data.rows, y, len(classes), orders, options)

    def measure(number: int, order: np.ndarray) -> dict[str, Any]:
        run = _in_order(first, number, order, n_known)
        parts = run.start()
        return {"order": number + 1} | _figures(run, run.replay(log=True, parts=parts), parts, options, classes)

    measure(0, orders[0][:0])  # compiles the loop, outside the measured time
    with ThreadPoolExecutor() as threads:
        runs = list(threads.map(measure, range(len(orders)), orders))
    measured = [{key: run[key] for key in (*AVERAGED, "queried") if key in run} for run in runs]
    plan = {"audit": options.audit, "audit_trains": options.audit_trains, "pace": options.pace}
    return (
        _described(strategy)
        | {
            "runs": runs,
            "mean": metrics.over(measured, np.mean),
            "std": metrics.spread(measured),
            "classes": list(classes) or None,
            "plan": plan | ({"floor": options.floor} if options.floor else {}) if first.plan() else None,
        }
        | ({"prior": options.prior.source} if options.prior else {})
        | ({"known": n_known} if n_known else {})
    )


def replay_questions(
    strategy: Strategy,
    data: FeatureTable | Dataset,
    labels: Mapping[str, np.ndarray],
    orders: list[np.ndarray] | None = None,
    options: ReplayOptions = ReplayOptions(),
    rare: bool = True,
) -> dict[str, Any]:
    """Replay several questions about each item, once for each item order. An item that is asked about gets the answers
    to all questions. Return the metrics of each question, their mean over the questions, and the worst, as JSON.

    labels: {question: labels of all items}. The budget counts items asked about. rare: whether to use the rule `rare`
    instead of `max` (see `questions.replay`).
    """
    plans = [_planned(strategy, data.rows, y, 0, orders, options) for y in labels.values()]
    runs, measured = [], []
    for number, order in enumerate(plans[0][0]):
        own = dict(zip(labels, (_in_order(first, number, order, n_known) for _, first, n_known in plans)))
        readings, figures, averaged = _together(own, options, _positives, rare)
        two = [*map(metrics.sum_and_f1, figures.values())]
        over = {"mean": metrics.over(two, np.mean), "worst": metrics.over(two, np.min)}
        runs.append({"order": number + 1, "readings": readings, "questions": figures, "all": over})
        measured.append({"readings": readings, "questions": averaged, "all": over})
    how = {"reading": "rare" if rare else "max"}
    return _described(strategy) | how | {"runs": runs, "mean": metrics.over(measured, np.mean)}


def replay_column(
    strategy: Strategy,
    data: FeatureTable | Dataset,
    column: Column,
    orders: list[np.ndarray] | None = None,
    options: ReplayOptions = ReplayOptions(),
) -> dict[str, Any]:
    """Audit a column (labels or scores made by something else): ask about items where the column or the strategy is
    unsure, and judge both by the same answers.

    The column is judged as it is. The strategy begins with the column as a feature, and learns from every answer.
    Return the metrics of both as JSON: by known labels, as `replay` does, and as estimated from the answers alone with
    95 % intervals. The asking probability is computed as for several questions about each item (`kernel.questions`).
    """
    rows, place = with_column(data.rows, SCALE * column.margins), data.rows.columns
    orders, first, n_known = _planned(strategy, rows, data.y, 0, orders, options)
    first = replace(first, prior={**first.prior, place: TRUST})
    fixed, weight = replace(strategy, learner="given", learner_parameters={}), {place: 1 / SCALE}
    runs, measured = [], []
    for number, order in enumerate(orders):
        both = _in_order(first, number, order, n_known)
        own = {COLUMN: replace(both, strategy=fixed, prior=weight, theta=0.0), BOTH: both}
        readings, figures, averaged = _together(own, options, _estimated)
        runs.append({"order": number + 1, "readings": readings, "deciders": figures})
        measured.append({"readings": readings, "deciders": averaged})
    about = {"column": {"name": column.name, "cut": column.cut}, "runs": runs}
    means = {"mean": metrics.over(measured, np.mean), "std": metrics.spread(measured)}
    return _described(strategy) | about | means | ({"known": n_known} if n_known else {})


def _described(strategy: Strategy) -> dict[str, Any]:
    """Return the names and parameters of a strategy, with which a result begins."""
    names = {"algorithm": strategy.algorithm, "learner": strategy.learner, "rule": strategy.rule}
    return names | {"params": strategy.parameters}


def _together(
    runs: Mapping[str, Run], options: ReplayOptions, further: Callable[..., dict[str, Any]], rare: bool = True
) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Replay runs that ask about the same items. Return the number of items asked about, the results of each run by
    name, and the part of them that is averaged over the orders.

    further: returns more results of a run, given its replay, its counts at the last label, and the options. rare: as in
    `replay_questions`.
    """
    parts = [run.start() for run in runs.values()]
    replays, figures = questions.replay([*runs.values()], rare, parts), {}
    for (name, run), done, part in zip(runs.items(), replays, parts):
        at_last = done.curve[max(0, done.queried - 1)]
        figures[name] = _figures(run, done, part, options, at_last=at_last) | further(run, done, at_last, options)
    averaged = {name: {key: each[key] for key in AVERAGED if key in each} for name, each in figures.items()}
    return replays[0].queried, figures, averaged


def _positives(run: Run, done: stream.Replay, *ignored: Any) -> dict[str, Any]:
    """Return the number of positive answers."""
    return {"positives": int((run.y[done.asked] > 0).sum())}


def _estimated(run: Run, done: stream.Replay, at_last: np.ndarray, options: ReplayOptions) -> dict[str, Any]:
    """Estimate the metrics of both evaluations and the number of positives from the answers alone, each as [value, low,
    high], or None if there are too few answers. The estimates cover the rounds until the budget is spent, or all
    rounds. Also return the number of these rounds."""
    asked, spent = done.log[:, 0].astype(np.int64), done.queried == run.budget
    rounds, counts = (int(asked[-1]) + 1, at_last) if spent and asked.size else (run.order.size, done.counts)
    size, passed, pushes = (np.array([n]) for n in (asked.size, rounds, counts[1].sum()))
    pushed, label = done.decided[:, 1] > 0, run.y[done.asked]
    values, enough, sides = windows(pushed, label, done.log[:, 2], size, passed, pushes, options.weights)
    estimates: dict[str, Any] = {
        name: {metric: ends[:, 0].tolist() if enough[metric][0] else None for metric, ends in each.items()}
        for name, each in values.items()
    }
    count = positives(*sides)[:, 0].tolist() if enough["f1"][0] else None
    return {"estimates": estimates | {"positives": count, "rounds": rounds}}


def _planned(
    strategy: Strategy, rows: Rows, y: np.ndarray, classes: int, orders: list[np.ndarray] | None,
    options: ReplayOptions,
) -> tuple[list[np.ndarray], Run, int]:  # fmt: skip
    """Return the item orders, a run that `_in_order` copies for each order, and the number of items whose labels are
    known from the start."""
    if orders is None:
        seeds = range(options.seed, options.seed + (options.permutations or 0))
        orders = [stream.shuffled(y.size, seed) for seed in seeds] or [np.arange(y.size)]
    n_known = round(options.known_share * y.size)
    first = Run(
        strategy, rows, y, np.arange(y.size), classes,
        rho=strategy.known_rho(options.rho, options.weights, options.metric, y), ratio=options.weights.ratio("sum"),
        theta=options.theta, budget=options.budget, seed=options.seed, average=options.average,
        horizon=y.size - n_known, audit=options.audit, audit_trains=options.audit_trains, pace=options.pace,
        floor=options.floor, goal=options.goal, prior=options.prior.weights if options.prior else {},
    )  # fmt: skip
    return orders, first, n_known


def _in_order(first: Run, number: int, order: np.ndarray, n_known: int) -> Run:
    """Return a copy of the run `first` with another item order, and with `number` added to its seed. The new seed draws
    `n_known` items whose labels are known from the start; these items are left out of the order."""
    run = replace(first, order=order, seed=first.seed + number)
    if not n_known:
        return run
    known_items = stream.sample(np.arange(run.y.size), n_known, run.seed)
    return replace(run, known_items=known_items, order=order[~np.isin(order, known_items)])


def _figures(
    run: Run, done: stream.Replay, parts: Parts, options: ReplayOptions, classes: tuple[str, ...] = (),
    at_last: np.ndarray | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the results of a finished replay: the number of labels asked for, the metrics, the seconds taken and, with
    the floor option, guaranteed minimums of recall, precision, F1 and sum."""
    tables = dict.fromkeys(metrics.EVALUATIONS, done.counts) | {metrics.LIST: run.listed(done, parts)}
    measured = {name: metrics.as_json(counts, name, options.weights, classes) for name, counts in tables.items()}
    floors: dict[str, Any] = {"floor": None}
    if run.floor and run.budget and run.order.size:
        for name, are_pushes_read in (("floor", False), ("floor_if_read", True)):
            bounds = certainty.floors(run.worst_counts(done, are_pushes_read, at_last), options.weights)
            floors[name] = {e: {metric: value.item() for metric, value in each.items()} for e, each in bounds.items()}
    return {"queried": int(done.queried), **measured, **floors, "seconds": done.seconds}


def _one_vs_rest(y: np.ndarray, classes: tuple[str, ...], positive: list[str] | None, algorithm: str) -> np.ndarray:
    """Convert the labels of K classes: +1 for the class in `positive`, -1 for all others."""
    if not positive or len(positive) > 1 or positive[0] not in classes:
        raise ValueError(
            f"{algorithm} is for two classes: --positive must be one of {', '.join(classes)}. "
            f"Got {' '.join(positive or ()) or 'none'}."
        )
    return relabelled(y, classes, positive=positive[0])
