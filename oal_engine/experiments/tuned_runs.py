"""Tuned runs: each runs an algorithm on data with a budget, and first tunes its settings if the specification says so.

A tuned run is a generator: it yields the jobs of the replays that it needs, receives their counts, and returns a
result. So all runs of a comparison share one pool of workers. A replay depends only on its job, which is plain data,
and on rows on disk: any executor can run it, anywhere, in any order.
"""

from collections.abc import Callable, Container, Generator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..kernel import metrics, stacks
from ..kernel.learners import LEARNERS
from ..kernel.parameters import Parameter, combinations
from ..kernel.query_rules import spreads
from ..kernel.spending import STREAM
from .specifications import (
    ESTIMATES,
    FOLDS,
    FREE,
    STEPS,
    Grid,
    Hit,
    Limit,
    Setting,
    Specification,
    asks_everything,
    chosen,
    outlined,
    searched,
    smoothing,
)
from .worker import Job, Part, RowSource, imbalance, job_key, open_rows

T = TypeVar("T")
Trial: TypeAlias = list[Any]  # a setting and its criterion

TIME_MARKS = 10  # of a curve of seconds
NEAR = 0.05  # largest share by which a setting may miss the number of labels that `hit` wants
Replays: TypeAlias = Generator[list[Job], list[np.ndarray], T]  # yields jobs, receives their counts


def evaluate(
    spec: Specification, classes: tuple[str, ...], setting: Setting, counts: np.ndarray, evaluation: str,
    over: Callable[..., Any] = np.mean,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Compute the metrics of tables of counts, and the share of labels asked. The metric weights are the setting's, or
    else the specification's. over: combines the values for several questions into one, such as np.mean."""
    measured = (
        metrics.evaluate_classes(counts, evaluation)
        if classes
        else metrics.evaluate(counts, evaluation, weights_of(spec, setting))
    )
    measured |= {"query_ratio": asked_of(counts) / np.maximum(1, counts.sum((-3, -2, -1)))}
    return {key: over(values, -1) for key, values in measured.items()} if spec.questions else measured


def weights_of(spec: Specification, setting: Setting) -> metrics.Weights:
    """Return the metric weights of a setting if it has any, else of the specification."""
    return metrics.Weights(*(float(setting.get(key, getattr(spec, key))) for key in ("alpha_p", "c_p")))


def asked_of(counts: np.ndarray) -> np.ndarray:
    """Count the labels asked in each table of counts."""
    return counts[..., 1].sum((-2, -1))


@dataclass(frozen=True)
class Result:
    """A result line: a setting of an algorithm on a data set with a budget, and the counts of its runs.

    classes: names of the classes that are distinguished; empty for one class against the rest. trials: all settings
    that tuning tried, as (setting, criterion). jobs: keys of the replays. counts: shape (runs, marks, questions if
    there are any, and a table of counts); a mark is a checkpoint. label_marks: number of marks along the labels, which
    come before the marks along the stream (0 in results of early versions). floor_jobs: keys of the replays that
    compute `worst` (with the floor option). worst: the worst counts that fit the answers, shape (runs, evaluations,
    (tp, fp, tn, fn)). has_list: whether the replays also hold the counts of each run's final list (see `Run.listed`).
    listed: the counts of the final lists, without an axis of marks. hit: the target share or number of labels, if the
    specification has several. time_jobs: keys of the replays that measure `nanoseconds`. nanoseconds: processor time up
    to marks along the stream, shape (runs, marks).
    """

    data: str
    algorithm: str
    budget: int | None
    classes: tuple[str, ...]
    setting: Setting
    trials: list[Trial]
    jobs: list[str]
    counts: np.ndarray = field(compare=False, repr=False)
    label_marks: int = 0
    floor_jobs: list[str] = field(default_factory=list)
    worst: np.ndarray | None = field(default=None, compare=False, repr=False)
    hit: float | None = None
    time_jobs: list[str] = field(default_factory=list)
    nanoseconds: np.ndarray | None = field(default=None, compare=False, repr=False)
    has_list: bool = False
    listed: np.ndarray | None = field(default=None, compare=False, repr=False)

    @property
    def limit(self) -> Limit:
        """The budget, or the target number of labels (`hit`) if the specification has several."""
        return self.budget if self.hit is None else Hit(self.hit)

    @property
    def name(self) -> str:
        """The algorithm with its setting, except for the parameters that `hit` decides."""
        return self.named(without=smoothing(self.algorithm) if self.hit is not None else ())

    def named(self, without: Container[str]) -> str:
        """Return the algorithm with its setting, without the parameters in `without`."""
        setting = {key: value for key, value in self.setting.items() if key not in without}
        return f"{self.algorithm} {outlined(setting)}".strip()

    @property
    def items(self) -> float:
        """The mean number of items of a run."""
        return float(self.counts[:, -1].sum((-3, -2, -1)).mean())

    @property
    def asked(self) -> np.ndarray:
        """The number of labels asked by each run, which does not depend on the question."""
        return asked_of(self.counts[:, -1]).reshape(len(self.counts), -1)[:, 0]


def split_list(tables: np.ndarray, has_list: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """Split the tables of replays, shape (runs, marks, ...), into the tables at the marks and the table of each run's
    final list (None if `has_list` is false)."""
    return (tables[:, :-1], tables[:, -1]) if has_list else (tables, None)


@dataclass(frozen=True)
class TunedRun:
    """An algorithm on a data set with a budget. `run` yields jobs, receives their counts, and returns a Result.

    grid: the values to try for each parameter; one value each if nothing is tuned. hit: the target share or number of
    labels that the query rule is scaled to, if any.
    """

    spec: Specification
    source: RowSource
    algorithm: str
    budget: int | None
    grid: Grid
    hit: float | None = None

    @property
    def test_parts(self) -> list[Part]:
        """The parts of the items that the result is measured on."""
        spec = self.spec
        kind = "held" if spec.held_out else "test" if spec.tune == "2:1" else "all"
        return [(kind, spec.seed + k) for k in range(spec.permutations)]

    @property
    def tuning_parts(self) -> list[Part]:
        """The parts of the items that settings are tuned on."""
        if self.spec.tune == "2:1":
            return [("tune", k) for k in range(self.spec.trials)]
        if self.spec.tune == "cv":
            return [("held", k) for k in range(FOLDS)]
        return self.test_parts[: self.spec.trials if self.spec.tune == "first" else None]

    @cached_property
    def shares_passes(self) -> bool:
        """Whether the settings to try can share a pass over the rows."""
        strategy = chosen(self.algorithm)
        alone = not self.spec.floor and not self.spec.questions and self.spec.goal == STREAM
        tries = self.spec.tune != "none" and alone and not spreads(strategy.rule)
        return tries and stacks.share_a_pass(LEARNERS[strategy.learner], open_rows(self.source)[0])

    def job(self, setting: Setting, part: Part, points: int = 1, budget: bool = True) -> Job:
        """Return the job of a setting over a part. points: see `Job`. budget: whether the budget limits the labels."""
        strategy, spec = chosen(self.algorithm, setting, self.spec.several), self.spec
        free: dict[str, Any] = {key: setting.get(key, getattr(spec, key)) for key in FREE}
        weights = weights_of(spec, setting)
        rho: float | tuple[float, ...] | None = 1.0 if strategy.multiclass else strategy.rho
        if rho is None:
            rho = self._rho(free["rho"], weights, part)
        return Job(
            strategy.learner, strategy.rule, strategy.learner_parameters, strategy.rule_parameters,
            rho, weights.ratio("sum"), free["theta"], self.budget if budget else None, spec.average, part, points,
            spec.floor if budget else 0.0, goal=spec.goal if budget else STREAM,
        )  # fmt: skip

    def _rho(self, rho: float | str, weights: metrics.Weights, part: Part) -> float | tuple[float, ...]:
        """Return the weight of positives: `auto` computes it from the labels of each question, `laplace` is 0 (a run
        estimates it), and a number is used as it is. For cost, auto and laplace take the ratio of the costs."""
        if rho in ESTIMATES and self.spec.metric == "cost":
            return weights.ratio("cost")
        if rho == "auto":
            own = tuple(weights.ratio("sum") * each for each in imbalance(self.source, part))
            return own if self.source.questions else own[0]
        return 0.0 if rho == "laplace" else float(rho)

    def run(self) -> Replays[Result]:
        """Tune if the specification says so, then run the best or only setting. Return the result."""
        trials: list[Trial] = []
        if self.spec.tune == "none":
            [best] = yield from self._hitting(combinations(self.grid))
        else:
            best = yield from self._tuned(trials)
        has_list = not self.spec.held_out and self.spec.points > 1  # a single point is of the stream alone
        jobs, tables = yield from self._measured(best, self.spec.points, has_list)
        counts, listed = split_list(tables, has_list)
        has_floor = bool(self.spec.floor) and not self.spec.held_out
        floor_jobs, worst = (yield from self._measured(best, 0)) if has_floor else ([], None)
        time_jobs, nanoseconds = (yield from self._measured(best, -TIME_MARKS)) if self.spec.times else ([], None)
        return Result(
            self.source.name, self.algorithm, self.budget, self.source.distinct_classes, best, trials, jobs, counts,
            counts.shape[1] // 2, floor_jobs, worst, self.hit if len(self.spec.hits) > 1 else None,
            time_jobs, nanoseconds, has_list, listed,
        )  # fmt: skip

    def _measured(
        self, setting: Setting, points: int, with_list: bool = False
    ) -> Replays[tuple[list[str], np.ndarray]]:
        """Run a setting over the test parts. Return the keys of the replays and their counts."""
        jobs = [self.job(setting, part, points)._replace(with_list=with_list) for part in self.test_parts]
        counts = yield jobs
        return [job_key(self.source, job) for job in jobs], np.array(counts)

    def _over(self, choices: list[Setting], parts: list[Part], budget: bool = True) -> Replays[np.ndarray]:
        """Run each setting over each part. Return the counts, shape (choices, parts, 1, ...). Jobs over one part are
        adjacent, as they share its order."""
        counts = yield [self.job(choice, part, budget=budget) for part in parts for choice in choices]
        return np.reshape(counts, (len(parts), len(choices), *counts[0].shape)).swapaxes(0, 1)

    def _tuned(self, trials: list[Trial]) -> Replays[Setting]:
        """Return the best setting of the grid, which is tried in full or searched one parameter at a time. Append all
        settings that are tried to `trials`."""
        if not searched(self.grid):
            return (yield from self._best(combinations(self.grid), trials))
        best = {key: values[len(values) // 2] for key, values in self.grid.items()}
        for key, values in [*self.grid.items()] * 2:
            best = yield from self._best([best | {key: value} for value in values], trials)
        return best

    def _best(self, choices: list[Setting], trials: list[Trial]) -> Replays[Setting]:
        """Return the setting with the best criterion over the tuning parts. Append settings and scores to `trials`."""
        choices = yield from self._hitting(choices)
        counts = (yield from self._over(choices, self.tuning_parts))[:, :, -1]
        classes, criterion = self.source.distinct_classes, self.spec.criterion
        scores = [
            float(evaluate(self.spec, classes, choice, each, self.spec.evaluation)[criterion].mean())
            for choice, each in zip(choices, counts)
        ]
        trials += [trial for trial in map(list, zip(choices, scores)) if trial not in trials]
        return choices[int(np.argmax(np.where(self._hits(counts), self.spec.sign * np.array(scores), -inf)))]

    def _hits(self, counts: np.ndarray) -> np.ndarray:
        """Return for each setting whether it asks for nearly as many labels as `hit` says, or no setting comes nearer.
        counts: shape (settings, parts, ...)."""
        if self.hit is None:
            return np.full(len(counts), True)
        asked, items = (each.reshape(len(counts), -1).mean(1) for each in (asked_of(counts), counts.sum((-3, -2, -1))))
        miss = abs(asked / (self.hit if self.hit > 1 else self.hit * items) - 1)
        return miss <= max(NEAR, miss.min())

    def _hitting(self, choices: list[Setting]) -> Replays[list[Setting]]:
        """Scale the smoothing of the rule in each setting, by bisection, so that `hit` labels (or this share of them)
        are asked. Return the scaled settings."""
        if (hit := self.hit) is None or asks_everything(self.algorithm):
            return choices
        scales = smoothing(self.algorithm)
        if hit <= 1 and all(spec.high == 1 for spec in scales.values()):  # the value is the share
            return [choice | dict.fromkeys(scales, hit) for choice in choices]
        parts = [("fold" if kind == "held" else kind, seed) for kind, seed in self.tuning_parts]
        start = [{key: chosen(self.algorithm, choice).parameters[key] for key in scales} for choice in choices]
        low, high = np.full(len(choices), -20.0), np.full(len(choices), 20.0)
        for _ in range(STEPS):
            middle = (low + high) / 2
            scaled = [choice | _scaled(scales, base, power) for choice, base, power in zip(choices, start, middle)]
            counts = (yield from self._over(scaled, parts, budget=False))[:, :, -1]
            wanted = hit if hit > 1 else hit * counts.sum((-3, -2, -1)).mean(1)
            enough = asked_of(counts).mean(1) >= wanted
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return scaled


def _scaled(scales: Mapping[str, Parameter], base: Mapping[str, float], power: float) -> Setting:
    """Multiply some parameters by 2^power, but not beyond the largest value that each allows."""
    most = {key: inf if spec.high is None else float(spec.high) for key, spec in scales.items()}
    return {key: min(most[key], value * 2.0**power) for key, value in base.items()}
