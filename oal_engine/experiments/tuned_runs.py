"""Tuned runs: an algorithm on a data set with a budget asks for replays, is sent their counts, ends with a result.

A tuned run is a generator, so that all of a comparison share one pool of workers however each tunes itself. A replay is
a pure function of its job, which names rows on disk and holds numbers: any executor runs it, anywhere, in any order.
"""

import hashlib
import json
from collections.abc import Container, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from math import inf
from time import thread_time_ns
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from .. import __version__
from ..datasets import mapped, relabelled
from ..kernel import metrics, spending, stream
from ..kernel.algorithms import Strategy
from ..kernel.learners import LEARNERS
from ..kernel.parameters import Parameter
from ..kernel.query_rules import spreads
from ..kernel.rows import Rows
from .replays import certain
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
    settings,
    smoothing,
)

T = TypeVar("T")
Part: TypeAlias = tuple[str, int]  # what is streamed, and a seed
Trial: TypeAlias = list[Any]  # a setting and its criterion

TIMES = 10  # marks of a curve of seconds
FEWEST = 4  # settings of a pass: fewer are as fast one by one


# ---- Replays, wherever they run


class RowSource(NamedTuple):
    """Rows with labels, as a worker finds them: their folder, and the fingerprint of everything in it; prior: the
    columns and weights that every learner begins with."""

    name: str
    folder: str
    fingerprint: str
    rounds: int
    classes: tuple[str, ...]
    positive: str | None
    prior: tuple[tuple[int, float], ...] = ()

    @property
    def distinct_classes(self) -> tuple[str, ...]:
        """The names of the classes that a run distinguishes, none for one against the rest."""
        return self.classes if self.positive is None else ()


class Job(NamedTuple):
    """One replay, in numbers: what runs, and over which part of the items in which order.

    part: what is streamed, and a seed of its order and of the draws: ("all", seed), ("tune", seed) or ("test", seed) of
    a 2:1 split, ("fold", seed) for all folds but one, ("held", seed) for the same stream, counted over that one after.
    points: marks of the curves, at even distances over the labels and as many over the stream; 1: the end alone; 0: the
    worst counts that the answers allow, where there is a floor, in place of the true ones; -n: not counts, but the
    nanoseconds of processor time up to each of n marks over the stream.
    """

    learner: str
    rule: str
    learner_parameters: dict[str, float]
    rule_parameters: dict[str, float]
    rho: float
    ratio: float
    theta: float
    budget: int | None
    average: bool
    part: Part
    points: int
    floor: float = 0.0  # share of the budget


PLACES: dict[str, str] = {}  # fingerprint: the folder of rows that were uploaded to this worker


@lru_cache(maxsize=8)
def opened(source: RowSource) -> tuple[Rows, np.ndarray]:
    """The rows and labels of a source, opened once in each worker."""
    table, y = mapped(PLACES.get(source.fingerprint, source.folder), source.rounds)
    return table, y if source.positive is None else relabelled(y, source.classes, positive=source.positive)


def split(rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """A 2:1 split of the items: those that settings are tuned over, and those that test them."""
    mixed, third = stream.shuffled(rounds, 0), rounds // 3
    return mixed[:-third], mixed[-third:]


def folds(rounds: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The items that are streamed, and the fold that is held out; five seeds in a row hold out each item once."""
    parts = np.array_split(stream.shuffled(rounds, seed // FOLDS), FOLDS)
    held = parts.pop(seed % FOLDS)
    return np.concatenate(parts), held


@lru_cache(maxsize=32)
def order(rounds: int, part: Part) -> np.ndarray:
    """The items of a part in the order of visit."""
    kind, seed = part
    if kind == "all":
        return stream.shuffled(rounds, seed)
    if kind in ("fold", "held"):
        return folds(rounds, seed)[0]
    rest = split(rounds)[kind == "test"]
    return rest[stream.shuffled(rest.size, seed)][: rounds // 3]


@lru_cache(maxsize=64)
def imbalance(source: RowSource, part: Part) -> float:
    """T_n / T_p of the items that a run over a part may know: none that only test it."""
    kind, seed = part
    y = opened(source)[1]
    if kind != "all":
        y = y[split(y.size)[0] if kind in ("tune", "test") else folds(y.size, seed)[0]]
    return float((y < 0).sum() / max(1, (y > 0).sum()))


def replayed(source: RowSource, jobs: Iterable[Job]) -> list[np.ndarray]:
    """The tables of counts of each job: at marks over its stream, or one of the items that are held out."""
    known = dict(source.prior)
    return [_replayed(*opened(source), len(source.distinct_classes), known, job) for job in jobs]


def replayed_together(source: RowSource, jobs: list[Job]) -> list[np.ndarray]:
    """As `replayed`, in one pass over the rows; the jobs are of settings that share one, with their last counts."""
    if len(jobs) < FEWEST:
        return replayed(source, jobs)
    (table, y), (kind, seed), first = opened(source), jobs[0].part, jobs[0]
    done = stream.replay_settings(
        table, y, order(y.size, first.part), [_fresh(table, 0, dict(source.prior), job) for job in jobs],
        budget=first.budget, seed=seed, averaged=first.average,
        held=folds(y.size, seed)[1] if kind == "held" else None,
    )  # fmt: skip
    return list(done.counts[:, None])


def streamed(job: Job) -> Job:
    """What the settings of one pass have in common."""
    return job._replace(learner_parameters={}, rule_parameters={}, rho=0.0, ratio=0.0, theta=0.0)


def _fresh(table: Rows, classes: int, prior: Mapping[int, float], job: Job) -> tuple[Any, Any, stream.Objective]:
    """The learner, the rule and the objective that a job begins with."""
    strategy = Strategy("", job.learner, job.rule, job.learner_parameters, job.rule_parameters, None)
    learner, rule = strategy.build(table.columns, classes)
    if prior:
        stream.begin_with(learner, prior)
    return learner, rule, stream.objective(job.theta, job.rho, job.ratio)


def _replayed(table: Rows, y: np.ndarray, classes: int, prior: Mapping[int, float], job: Job) -> np.ndarray:
    visits, seed = order(y.size, job.part), job.part[1]
    points = min(abs(job.points), visits.size)
    marks = np.linspace(0, visits.size, points + 1).astype(np.int64)[1:]
    fresh = partial(_fresh, table, classes, prior, job)

    def plan() -> spending.Plan | None:
        return spending.plan(job.rule, job.budget, visits.size, values=job.rule_parameters, floor=job.floor)

    def replay(*parts: Any, marks: ArrayLike) -> stream.Replay:
        return stream.replay(
            table, y, visits, *parts, budget=job.budget, seed=seed, averaged=job.average, marks=marks, log=points != 1,
            plan=plan(),
        )  # fmt: skip

    if job.points < 0:
        replay(*fresh(), marks=[0])  # compiles, which is not timed
        times = []
        for mark in marks:
            parts, start = fresh(), thread_time_ns()  # of this thread alone: others run on the same processors
            replay(*parts, marks=[mark])
            times.append(thread_time_ns() - start)
        return np.maximum.accumulate(times)
    if points == 0:
        promised = cast(spending.Plan, plan()).promised

        def until(end: int) -> np.ndarray:
            return replay(*fresh(), marks=[end]).counts

        worst = certain(replay(*fresh(), marks=[visits.size]), visits, y, job.budget, until, promised)
        return np.array([worst[evaluation] for evaluation in metrics.EVALUATIONS], np.int64)[..., 0]
    parts = fresh()
    done = replay(*parts, marks=marks)
    if job.part[0] == "held":
        held, counts = stream.checked_order(folds(y.size, seed)[1], table), metrics.empty(classes)
        stream.until_query(table, y, held, *parts, seed, 0, held.size, False, counts)
        return counts[None]
    if points == 1:
        return done.curve
    spent = np.append(0, done.log[:, 0].astype(np.int64) + 1)  # the rounds done with each label
    by_label = spent[np.linspace(0, done.queried, points + 1).round().astype(int)[1:]]
    return np.concatenate([replay(*fresh(), marks=by_label).curve, done.curve])


# ---- Tuned runs

Replays: TypeAlias = Generator[list[Job], list[np.ndarray], T]  # asks for jobs, is sent their counts


def evaluate(
    spec: Specification, classes: tuple[str, ...], setting: Setting, counts: np.ndarray, evaluation: str
) -> dict[str, np.ndarray]:
    """The metrics of tables of counts, under the weights of a setting where it has any, and the share asked."""
    measured = (
        metrics.evaluate_classes(counts, evaluation)
        if classes
        else metrics.evaluate(counts, evaluation, weights_of(spec, setting))
    )
    return measured | {"query_ratio": asked_of(counts) / np.maximum(1, counts.sum((-3, -2, -1)))}


def weights_of(spec: Specification, setting: Setting) -> metrics.Weights:
    """The weights of a setting, where it has any, or of the specification."""
    return metrics.Weights(*(float(setting.get(key, getattr(spec, key))) for key in ("alpha_p", "c_p")))


def asked_of(counts: np.ndarray) -> np.ndarray:
    """How many labels were asked, of tables of counts."""
    return counts[..., 1].sum((-2, -1))


@dataclass(frozen=True)
class Result:
    """A setting of an algorithm on a data set with a budget, and what its runs counted.

    classes: the names of those distinguished, none for one against the rest. trials: what was tried when it was tuned,
    as (setting, criterion). jobs: the keys of its replays. counts: (runs, marks, and a table of counts). label_marks:
    so many of the marks, the first, are over the labels, the others over the stream (0: a version before kept none).
    floor_jobs, worst: where there is a floor, their keys, and the worst counts that the answers allow: (runs,
    evaluations, (tp, fp, tn, fn)). hit: which of several shares or numbers of labels its rule is scaled to. time_jobs,
    nanoseconds: where times are measured, their keys, and the time up to marks over the stream: (runs, marks).
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

    @property
    def limit(self) -> Limit:
        """The budget, or which of several hits."""
        return self.budget if self.hit is None else Hit(self.hit)

    @property
    def name(self) -> str:
        """The algorithm, with the setting where there is one, except for what `hit` decides."""
        return self.named(without=smoothing(self.algorithm) if self.hit is not None else ())

    def named(self, without: Container[str]) -> str:
        """The algorithm with its setting, except for some keys."""
        setting = {key: value for key, value in self.setting.items() if key not in without}
        return f"{self.algorithm} {outlined(setting)}".strip()

    @property
    def asked(self) -> np.ndarray:
        """The labels that each run asked for."""
        return asked_of(self.counts[:, -1])


@dataclass(frozen=True)
class TunedRun:
    """An algorithm on a data set with a budget: `run` yields lists of jobs, is sent their counts, and returns a Result.

    grid: the values of each parameter that are tried; a single one where nothing is tuned. hit: the share or number of
    labels that the query rule is scaled to, if any.
    """

    spec: Specification
    source: RowSource
    algorithm: str
    budget: int | None
    grid: Grid
    hit: float | None = None

    @property
    def shown(self) -> list[Part]:
        """The parts that the result is over."""
        spec = self.spec
        kind = "held" if spec.held_out else "test" if spec.tune == "2:1" else "all"
        return [(kind, spec.seed + k) for k in range(spec.permutations)]

    @property
    def tried(self) -> list[Part]:
        """The parts that settings are tuned over."""
        if self.spec.tune == "2:1":
            return [("tune", k) for k in range(self.spec.trials)]
        return [("held", k) for k in range(FOLDS)] if self.spec.tune == "cv" else self.shown

    @cached_property
    def together(self) -> bool:
        """Whether the settings that it tries share a pass over the rows."""
        strategy = chosen(self.algorithm)
        tries = self.spec.tune != "none" and not self.spec.floor and not spreads(strategy.rule)
        return tries and stream.share_a_pass(LEARNERS[strategy.learner], opened(self.source)[0])

    def job(self, setting: Setting, part: Part, points: int = 1, budget: bool = True) -> Job:
        """The replay of a setting over a part, with the counts at so many marks; without a limit of labels if asked."""
        strategy, spec = chosen(self.algorithm, setting), self.spec
        free: dict[str, Any] = {key: setting.get(key, getattr(spec, key)) for key in FREE}
        weights = weights_of(spec, setting)
        rho = 1.0 if strategy.multiclass else strategy.rho
        if rho is None:
            rho = self._rho(free["rho"], weights, part)
        return Job(
            strategy.learner, strategy.rule, strategy.learner_parameters, strategy.rule_parameters,
            rho, weights.ratio("sum"), free["theta"], self.budget if budget else None, spec.average, part, points,
            spec.floor if budget else 0.0,
        )  # fmt: skip

    def _rho(self, rho: float | str, weights: metrics.Weights, part: Part) -> float:
        """The weight of positives: of the cost, estimated (0), or as a number; auto takes it from the labels."""
        if rho in ESTIMATES and self.spec.metric == "cost":
            return weights.ratio("cost")
        if rho == "auto":
            return weights.ratio("sum") * imbalance(self.source, part)
        return 0.0 if rho == "laplace" else float(rho)

    def run(self) -> Replays[Result]:
        """The result of the only setting, or of the one that is best where settings are tuned."""
        trials: list[Trial] = []
        if self.spec.tune == "none":
            [best] = yield from self._hitting(settings(self.grid))
        else:
            best = yield from self._tuned(trials)
        [counts] = yield from self._over([best], self.shown, self.spec.points)
        floor_jobs, worst = list[str](), None
        if self.spec.floor and not self.spec.held_out:
            [worst] = yield from self._over([best], self.shown, 0)
            floor_jobs = self._keys(best, 0)
        time_jobs, nanoseconds = list[str](), None
        if self.spec.times:
            [nanoseconds] = yield from self._over([best], self.shown, -TIMES)
            time_jobs = self._keys(best, -TIMES)
        return Result(
            self.source.name, self.algorithm, self.budget, self.source.distinct_classes, best, trials,
            self._keys(best, self.spec.points), counts, counts.shape[1] // 2, floor_jobs, worst,
            self.hit if len(self.spec.hits) > 1 else None, time_jobs, nanoseconds,
        )  # fmt: skip

    def _keys(self, setting: Setting, points: int) -> list[str]:
        return [job_key(self.source, self.job(setting, part, points)) for part in self.shown]

    def _over(
        self, choices: list[Setting], parts: list[Part], points: int = 1, budget: bool = True
    ) -> Replays[np.ndarray]:
        """The counts (choices, parts, marks, ...); jobs over the same part are neighbours, for they share its order."""
        counts = yield [self.job(choice, part, points, budget) for part in parts for choice in choices]
        return np.reshape(counts, (len(parts), len(choices), *counts[0].shape)).swapaxes(0, 1)

    def _tuned(self, trials: list[Trial]) -> Replays[Setting]:
        """The best choice of the grid; all that are tried are noted in trials."""
        if not searched(self.grid):
            return (yield from self._best(settings(self.grid), trials))
        best = {key: values[len(values) // 2] for key, values in self.grid.items()}
        for key, values in [*self.grid.items()] * 2:
            best = yield from self._best([best | {key: value} for value in values], trials)
        return best

    def _best(self, choices: list[Setting], trials: list[Trial]) -> Replays[Setting]:
        """The choice with the best criterion over the parts that are tried."""
        choices = yield from self._hitting(choices)
        counts = yield from self._over(choices, self.tried)
        scores = [self._score(choice, each) for choice, each in zip(choices, counts)]
        trials += [trial for trial in map(list, zip(choices, scores)) if trial not in trials]
        return choices[int(np.argmax(self.spec.sign * np.array(scores)))]

    def _score(self, setting: Setting, counts: np.ndarray) -> float:
        """The criterion, on average over the parts."""
        values = evaluate(self.spec, self.source.distinct_classes, setting, counts[:, -1], self.spec.evaluation)
        return float(values[self.spec.criterion].mean())

    def _hitting(self, choices: list[Setting]) -> Replays[list[Setting]]:
        """The choices with the smoothing of the query rule scaled so that `hit` labels (or their share) are asked."""
        hit = self.hit
        if hit is None or asks_everything(self.algorithm):
            return choices
        scales, parts = smoothing(self.algorithm), [("fold" if kind == "held" else kind, k) for kind, k in self.tried]
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
    """The values of some parameters times 2^power, none above what is allowed."""
    most = {key: inf if spec.high is None else float(spec.high) for key, spec in scales.items()}
    return {key: min(most[key], value * 2.0**power) for key, value in base.items()}


def job_key(source: RowSource, job: Job) -> str:
    """What tells a replay from every other: rows, labels, job and engine."""
    prior = [source.prior] if source.prior else []
    parts = job if job.floor else job[:-1]  # as the keys of earlier versions
    key = json.dumps([source.fingerprint, source.positive, *prior, *parts, __version__], sort_keys=True)
    return hashlib.sha256(key.encode()).hexdigest()[:32]
