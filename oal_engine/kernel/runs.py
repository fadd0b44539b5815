"""Run a strategy over rows with known labels. Replays, comparisons and races all run through here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from . import certainty, spending, stream
from .algorithms import Strategy
from .learners import Learner
from .rows import Rows, read_only

Parts: TypeAlias = tuple[Learner, NamedTuple, stream.Objective]  # the changing state of a run


@dataclass(frozen=True)
class Run:
    """A strategy and the labeled rows to run it over. Each question is answered with the label of its row.

    y: label of each row, -1 or +1, or 1 .. K. order: row numbers in the order in which the rows arrive. classes: K, or
    0 for two classes. rho: weight of positives, or 0 to estimate it from the labels asked for. ratio: alpha_p /
    alpha_n, by which the estimate of rho is multiplied. theta: smallest margin that predicts positive. budget: most
    labels that may be asked for (None: no limit). average: once the budget is spent, predict with averaged weights.
    horizon: rounds that the budget is planned for (None: the length of the order). audit, audit_trains, pace,
    floor, goal: as in `spending.plan`. prior: initial weights by column. known_items: row numbers, none of them in
    `order`, whose labels are learned before round 0.
    """

    strategy: Strategy
    rows: Rows
    y: np.ndarray
    order: np.ndarray
    classes: int = 0
    rho: float = 0.0
    ratio: float = 1.0
    theta: float = 0.0
    budget: int | None = None
    seed: int = 0
    average: bool = False
    horizon: int | None = None
    audit: float = 0.0
    audit_trains: bool = True
    pace: float | None = None
    floor: float = 0.0
    goal: str = spending.STREAM
    prior: Mapping[int, float] = field(default_factory=dict)
    known_items: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    def start(self) -> Parts:
        """Build the learner, the rule and the objective in their state before the first round: the prior weights are
        set, and the labels of the known items are learned."""
        learner, rule = self.strategy.build(self.rows.columns, self.classes)
        if self.prior:
            stream.apply_prior(learner, self.prior)
        objective = stream.objective(self.theta, self.rho, self.ratio)
        if self.known_items.size:
            items, y = stream.checked_order(self.known_items, self.rows), read_only(self.y[self.known_items], np.int8)
            stream.teach(
                self.rows, items, y, np.full(items.size, -1), np.ones(items.size), learner, rule, objective,
                stream.average(learner, False), False,
            )  # fmt: skip
        return learner, rule, objective

    def plan(self) -> spending.Plan | None:
        """Return the plan by which the budget is spent, or None if the rule alone decides."""
        horizon = self.order.size if self.horizon is None else self.horizon
        return spending.plan(
            self.strategy.rule, self.budget, horizon, self.audit, self.audit_trains, self.pace,
            self.strategy.rule_parameters, self.floor, self.goal, bool(self.prior),
        )  # fmt: skip

    def replay(self, marks: ArrayLike | None = None, log: bool = False, parts: Parts | None = None) -> stream.Replay:
        """Run up to the last of `marks` (numbers of rounds; None: the end), and store the counts at each mark.

        log: whether to keep a log of the questions. parts: a state from `start`, which is modified (None: a new one).
        """
        return stream.replay(
            self.rows, self.y, self.order, *(parts or self.start()), budget=self.budget, seed=self.seed,
            averaged=self.average, marks=marks, log=log, plan=self.plan(),
        )  # fmt: skip

    def predict(self, items: np.ndarray, parts: Parts) -> np.ndarray:
        """Return the counts of the predictions for `items` (row numbers), given the state that a replay left."""
        return stream.replay(self.rows, self.y, items, *parts, budget=0).counts

    def listed(self, done: stream.Replay, parts: Parts) -> np.ndarray:
        """Return the counts of the final list: the predictions of the final model for all items. An item whose label
        was asked for or known counts as asked. done: a complete replay, with its log. parts: the state that it left."""
        answered = self.predict(np.append(self.known_items, done.asked), parts)
        everything = self.predict(np.append(self.known_items, self.order), parts)
        return everything - answered + answered[..., ::-1]

    def worst_counts(
        self, done: stream.Replay, are_pushes_read: bool = False, at_last: np.ndarray | None = None
    ) -> certainty.Tables:
        """Return the worst confusion counts that fit the answers of a complete run with the floor option (see `plan`).

        They are the counts at the end or, if the budget was spent earlier, at the last label. done: a complete replay,
        with its log. are_pushes_read: whether a person has read all items that were pushed. at_last: the counts of the
        replay at its last label (None: they are computed again).
        """
        asked, plan = done.log[:, 0].astype(np.int64), self.plan()
        assert plan
        end = int(asked[-1]) + 1 if done.queried == self.budget else self.order.size
        counts = done.counts
        if end < self.order.size:
            counts = self.replay([end]).counts if at_last is None else at_last
        size, rounds, pushes, true_pushes = (
            np.array([n]) for n in (asked.size, end, counts[1].sum(), counts[1, 2].sum())
        )
        labels, pushed, chances = self.y[self.order[asked]], done.decided[:, 1] > 0, done.log[:, 2]
        return certainty.tables(
            labels, pushed, chances, size, rounds, pushes, plan.promised, true_pushes if are_pushes_read else None
        )


def class_ratio(y: Any) -> float:
    """Return the number of negatives for each positive, T_n / T_p; without positives, the number of negatives."""
    return float((y < 0).sum() / max(1, (y > 0).sum()))


def tuning_and_test_items(n_items: int) -> tuple[np.ndarray, np.ndarray]:
    """Split the item numbers at random, the same way on every call: two thirds for tuning, one third for testing."""
    mixed, third = stream.shuffled(n_items, 0), n_items // 3
    return mixed[:-third], mixed[-third:]
