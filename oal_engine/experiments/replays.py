"""Replays: one strategy over data whose labels are known, in one or several orders of visit."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from ..datasets import Dataset, FeatureTable, relabelled
from ..datasets.prior import Prior
from ..kernel import certainty, metrics, spending, stream
from ..kernel.algorithms import Strategy
from .specifications import MOST_RUNS


def replay(
    strategy: Strategy,
    data: FeatureTable | Dataset,
    orders: list[np.ndarray] | None = None,
    *,
    permutations: int | None = None,
    positive: list[str] | None = None,
    metric: str = "sum",
    rho: float | str = "auto",
    alpha_p: float = 0.5,
    c_p: float = 0.9,
    theta: float = 0.0,
    budget: int | None = None,
    seed: int = 0,
    average: bool = False,
    audit: float = 0.0,
    audit_trains: bool = True,
    pace: float | None = None,
    floor: float = 0.0,
    prior: Prior | None = None,
) -> dict[str, Any]:
    """Run a strategy once per order; the metrics of each run, their mean and standard deviation, ready for JSON.

    orders: arrays of rows, counted from 0; by default `permutations` random ones, or else the stored order. positive:
    the one of K classes that a strategy for two classes sets against the rest. audit, audit_trains, pace, floor: as in
    `spending.plan`; with a floor each run has those of its metrics, and the same if a person read all that was pushed.
    prior: what is known beforehand. The others are as in `Specification`.
    """
    if floor and strategy.multiclass:
        raise ValueError("a floor is for a positive and a negative class. Got several classes.")
    if permutations is not None and permutations > MOST_RUNS:
        raise ValueError(f"permutations of a replay must be <= {MOST_RUNS:,}. Got {permutations:,}.")
    rows, y, classes = data.rows, data.y, data.classes
    if classes and not strategy.multiclass:
        y, classes = _one_against_the_rest(y, classes, positive, strategy.algorithm), ()
    rounds, weights = y.size, metrics.Weights(alpha_p, c_p)
    rho = strategy.known_rho(rho, weights, metric, y)
    if orders is None:
        orders = [stream.shuffled(rounds, seed + k) for k in range(permutations or 0)] or [np.arange(rounds)]
    plan = partial(
        spending.plan, strategy.rule, budget, rounds, audit, audit_trains, pace, strategy.rule_parameters, floor
    )

    def run(number: int, order: np.ndarray, marks: list[int] | None = None) -> stream.Replay:
        learner, rule = strategy.build(rows.columns, len(classes))
        if prior:
            stream.begin_with(learner, prior.weights)
        objective = stream.objective(theta, rho, weights.ratio("sum"))
        return stream.replay(
            rows, y, order, learner, rule, objective,
            budget=budget, seed=seed + number, averaged=average, plan=plan(), marks=marks, log=bool(floor),
        )  # fmt: skip

    def once(number: int, order: np.ndarray) -> dict[str, Any]:
        done = run(number, order)
        measured = {name: metrics.as_json(done.counts, name, weights, classes) for name in metrics.EVALUATIONS}
        floors: dict[str, Any] = {"floor": None}
        if floor and (made := plan()) and order.size:

            def until(end: int) -> np.ndarray:
                return run(number, order, [end]).counts

            for name, read in (("floor", False), ("floor_if_read", True)):
                worst = certain(done, order, y, budget, until, made.promised, read)
                known = certainty.floors(worst, weights)
                floors[name] = {
                    e: {metric: value.item() for metric, value in each.items()} for e, each in known.items()
                }
        return {"order": number + 1, "queried": int(done.queried), **measured, **floors, "seconds": done.seconds}

    once(0, orders[0][:0])  # compiles, which is not timed
    with ThreadPoolExecutor() as threads:
        runs = list(threads.map(once, range(len(orders)), orders))
    measured = [{key: run[key] for key in (*metrics.EVALUATIONS, "queried")} for run in runs]
    return {
        "algorithm": strategy.algorithm,
        "learner": strategy.learner,
        "rule": strategy.rule,
        "params": strategy.parameters,
        "runs": runs,
        "mean": metrics.over(measured, np.mean),
        "std": metrics.spread(measured),
        "classes": list(classes) or None,
        "plan": {"audit": audit, "audit_trains": audit_trains, "pace": pace} | ({"floor": floor} if floor else {})
        if plan()
        else None,
    } | ({"prior": prior.source} if prior else {})


def certain(
    done: stream.Replay,
    order: np.ndarray,
    y: np.ndarray,
    budget: int | None,
    until: Callable[[int], np.ndarray],
    promised: float,
    read: bool = False,
) -> certainty.Tables:
    """The worst counts that the answers of a replay allow at its end, or with the last label of its budget.

    done: the replay with its log. until: the counts of its first so many rounds. read: whether a person has read all
    that was pushed.
    """
    asked = done.log[:, 0].astype(np.int64)
    end = int(asked[-1]) + 1 if done.queried == budget else order.size
    counts = until(end) if end < order.size else done.counts
    size, rounds, pushes, found = (np.array([n]) for n in (asked.size, end, counts[1].sum(), counts[1, 2].sum()))
    return certainty.tables(
        y[order[asked]], done.decided[:, 1] > 0, done.log[:, 2], size, rounds, pushes, promised, found if read else None
    )


def _one_against_the_rest(
    y: np.ndarray, classes: tuple[str, ...], positive: list[str] | None, algorithm: str
) -> np.ndarray:
    """The labels of K classes as a strategy for two classes has them: -1 and +1."""
    if not positive or len(positive) > 1 or positive[0] not in classes:
        raise ValueError(
            f"{algorithm} is for two classes: --positive must be one of {', '.join(classes)}. "
            f"Got {' '.join(positive or ()) or 'none'}."
        )
    return relabelled(y, classes, positive=positive[0])
