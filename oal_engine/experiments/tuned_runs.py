"""Tuned runs: each runs an algorithm on a data set with a budget, and first tunes its settings if the specification
says so.

A tuned run is a generator: it yields the jobs of the replays that it needs, receives their counts, and returns a
result. So all runs of a comparison share one pool of workers. A replay depends only on its job, which is plain data,
and on rows on disk: any executor can run it, anywhere, in any order.
"""

import hashlib
import json
from collections.abc import Callable, Container, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import inf
from pathlib import Path
from time import thread_time_ns
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from .. import __version__
from ..datasets import mapped, relabelled
from ..datasets.reading.sources import COMPRESSIONS, UNREADABLE
from ..kernel import metrics, questions, stacks, stream
from ..kernel.algorithms import Strategy
from ..kernel.learners import LEARNERS
from ..kernel.parameters import Parameter, combinations
from ..kernel.query_rules import spreads
from ..kernel.rows import Rows, matrix, read_only
from ..kernel.runs import Parts, Run, class_ratio, tuning_and_test_items
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

T = TypeVar("T")
Part: TypeAlias = tuple[str, int]  # the kind of stream, and its seed: see `Job`
Trial: TypeAlias = list[Any]  # a setting and its criterion

TIME_MARKS = 10  # of a curve of seconds
NEAR = 0.05  # largest share by which a setting may miss the number of labels that `hit` wants
FEWEST_SETTINGS = 4  # of a pass: fewer are as fast one by one
ZERO_ROWS = {
    "streamed": "rows of zeros are streamed like all others",
    "left out": "rows of zeros are left out",
    "mistakes": "rows of zeros are left out, and count as wrong predictions",
}


# ---- Replays, on any worker


class RowSource(NamedTuple):
    """Labeled rows that any worker can open: their folder, and a fingerprint of rows and labels. rounds: number of
    items. positive: the class that is set against all others, if any. prior: (column, weight) pairs that every learner
    begins with. questions: (name, answers as packed bits) of each question about the items, if there are any. orders:
    file of the item orders that `part` numbers (empty: random orders). zero_rows: what becomes of rows of zeros, see
    ZERO_ROWS."""

    name: str
    folder: str
    fingerprint: str
    rounds: int
    classes: tuple[str, ...]
    positive: str | None
    prior: tuple[tuple[int, float], ...] = ()
    questions: tuple[tuple[str, bytes], ...] = ()
    orders: str = ""
    zero_rows: str = "streamed"

    @property
    def distinct_classes(self) -> tuple[str, ...]:
        """The names of the classes that a run distinguishes; empty for one class against the rest or for questions."""
        return self.classes if self.positive is None and not self.questions else ()


class Job(NamedTuple):
    """One replay as plain data: a strategy with its settings, and the part of the items that it runs over.

    part: (kind of stream, seed of its order and draws). ("all", seed) is every item; ("tune", seed) and ("test", seed)
    are the two parts of a 2:1 split; ("fold", seed) is all folds but one; ("held", seed) is the same stream, but the
    counts are predictions for the fold left out. points: n > 1 gives a curve at n marks (checkpoints) along the labels,
    then at n marks along the stream. 1 gives the counts at the end. 0 gives the worst counts that fit the answers
    (needs `floor`). -n gives no counts, but the nanoseconds of processor time up to each of n marks along the stream.
    floor: share of the budget for a minimum probability of being asked about. goal: as in `spending.plan`. with_list:
    whether to append the counts of the final list (see `Run.listed`). If the source has questions, counts have an axis
    of questions before each table, and rho may differ by question.
    """

    learner: str
    rule: str
    learner_parameters: dict[str, float]
    rule_parameters: dict[str, float]
    rho: float | tuple[float, ...]
    ratio: float
    theta: float
    budget: int | None
    average: bool
    part: Part
    points: int
    floor: float = 0.0
    with_list: bool = False
    goal: str = STREAM

    @property
    def stream(self) -> "Job":
        """The job without its setting: equal for jobs that can share a pass over the rows."""
        return self._replace(learner_parameters={}, rule_parameters={}, rho=0.0, ratio=0.0, theta=0.0)


UPLOADED: dict[str, str] = {}  # fingerprint -> folder of rows that were uploaded to this worker


@lru_cache(maxsize=8)
def open_rows(source: RowSource) -> tuple[Rows, np.ndarray]:
    """Memory-map the rows and labels of a source, once in each worker."""
    table, y = mapped(UPLOADED.get(source.fingerprint, source.folder), source.rounds)
    return table, y if source.positive is None else relabelled(y, source.classes, positive=source.positive)


@lru_cache(maxsize=8)
def labels(source: RowSource) -> list[np.ndarray]:
    """Return the labels of a source in a list: an array for each question, or a single array if it has no questions."""
    if not source.questions:
        return [open_rows(source)[1]]
    bits = [np.unpackbits(np.frombuffer(packed, np.uint8), count=source.rounds) for _, packed in source.questions]
    return [read_only(np.where(each, 1, -1), np.int8) for each in bits]


def folds(rounds: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the items to stream, and the fold left out (cross-validation). FOLDS consecutive seeds, the first a
    multiple of FOLDS, leave out each item once."""
    parts = np.array_split(stream.shuffled(rounds, seed // FOLDS), FOLDS)
    left_out = parts.pop(seed % FOLDS)
    return np.concatenate(parts), left_out


@lru_cache(maxsize=2)
def recorded(path: Path | str, rounds: int) -> list[np.ndarray]:
    """Read item orders from a file: one per line, with rows counted from 1. Raise ValueError if the file cannot be read
    or an order does not have each row once."""
    path = Path(path)
    try:
        with COMPRESSIONS.get(path.suffix, open)(path, "rt") as lines:
            orders = [np.array(line.split(), dtype=np.int64) - 1 for line in lines if line.strip()]
    except UNREADABLE as error:
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


@lru_cache(maxsize=32)
def streamed(source: RowSource, part: Part) -> np.ndarray:
    """Return the items of a part in the order in which they are streamed, without rows of zeros unless they are
    streamed."""
    items = recorded(source.orders, source.rounds)[part[1]] if source.orders else order(source.rounds, part)
    return items if source.zero_rows == "streamed" else items[~_are_zero(source)[items]]


def _are_zero(source: RowSource) -> np.ndarray:
    """Return for each row of a source whether it has only zeros."""
    entries: Any = matrix(open_rows(source)[0])
    return np.asarray(abs(entries).sum(1)).ravel() == 0


@lru_cache(maxsize=8)
def mistakes(source: RowSource) -> np.ndarray | int:
    """Return the counts that are added to each run because rows of zeros count as wrong predictions, else 0."""
    if source.zero_rows != "mistakes":
        return 0
    y, counts = open_rows(source)[1][_are_zero(source)], metrics.empty()
    counts[1, 0, 0], counts[0, 2, 0] = (y < 0).sum(), (y > 0).sum()
    return counts


def order(rounds: int, part: Part) -> np.ndarray:
    """Return the items of a part in a random order that depends on the part alone."""
    kind, seed = part
    if kind == "all":
        return stream.shuffled(rounds, seed)
    if kind in ("fold", "held"):
        return folds(rounds, seed)[0]
    items = tuning_and_test_items(rounds)[kind == "test"]
    return items[stream.shuffled(items.size, seed)][: rounds // 3]


@lru_cache(maxsize=64)
def imbalance(source: RowSource, part: Part) -> tuple[float, ...]:
    """Return T_n / T_p (negatives per positive) for each question, over the items that a run over a part may learn
    from. Test items are excluded."""
    (kind, seed), size = part, source.rounds
    items: Any = slice(None)
    if kind != "all":
        items = tuning_and_test_items(size)[0] if kind in ("tune", "test") else folds(size, seed)[0]
    return tuple(class_ratio(y[items]) for y in labels(source))


def replayed(source: RowSource, jobs: Iterable[Job]) -> list[np.ndarray]:
    """Run jobs one by one. Return the result of each: see `Job`."""
    return [_replayed(source, job) for job in jobs]


def replayed_together(source: RowSource, jobs: list[Job]) -> list[np.ndarray]:
    """Run jobs with the same `stream` in one pass over the rows. Return the counts at the end of each."""
    if len(jobs) < FEWEST_SETTINGS:
        return replayed(source, jobs)
    runs = [run for job in jobs for run in _runs(source, job)]
    first, (kind, seed) = runs[0], jobs[0].part
    done = stacks.replay_settings(
        first.rows, first.y, first.order, [run.start() for run in runs], budget=first.budget, seed=first.seed,
        averaged=first.average, held=folds(first.y.size, seed)[1] if kind == "held" else None,
    )  # fmt: skip
    return list(done.counts[:, None] + mistakes(source))


def _runs(source: RowSource, job: Job) -> list[Run]:
    """Return a run for each question of a source, or a list of one run if it has no questions."""
    strategy = Strategy("", job.learner, job.rule, job.learner_parameters, job.rule_parameters, None)
    truths = labels(source)
    return [
        Run(
            strategy, open_rows(source)[0], y, streamed(source, job.part), len(source.distinct_classes), float(rho),
            job.ratio, job.theta, job.budget, job.part[1], job.average, floor=job.floor, goal=job.goal,
            prior=dict(source.prior),
        )
        for y, rho in zip(truths, np.broadcast_to(job.rho, len(truths)))
    ]  # fmt: skip


def _replayed(source: RowSource, job: Job) -> np.ndarray:
    runs = _runs(source, job)
    run, rounds = runs[0], runs[0].order.size
    points = min(abs(job.points), rounds)
    marks = np.linspace(0, rounds, points + 1).astype(np.int64)[1:]
    if job.points < 0:
        return _nanoseconds(run, marks)
    if points == 0:
        worst = run.worst_counts(run.replay(log=True))
        return np.array([worst[evaluation] for evaluation in metrics.EVALUATIONS], np.int64)[..., 0]

    def replays(marks: np.ndarray, parts: list[Parts]) -> list[stream.Replay]:
        if source.questions:
            return questions.replay(runs, parts=parts, marks=marks)
        return [run.replay(marks, log=points > 1 or job.with_list, parts=parts[0])]

    def tables(of_runs: list[np.ndarray]) -> np.ndarray:
        return np.stack(of_runs, 1) if source.questions else of_runs[0]

    parts = [each.start() for each in runs]
    done = replays(marks, parts)
    if job.part[0] == "held":
        held = folds(run.y.size, run.seed)[1]
        return tables([each.predict(held, part)[None] for each, part in zip(runs, parts)])
    curves = [tables([each.curve for each in done]) + mistakes(source)]
    if job.with_list:
        curves.append(tables([own.listed(each, part)[None] for own, each, part in zip(runs, done, parts)]))
    if points > 1:
        rounds_by_label = np.append(0, done[0].log[:, 0].astype(np.int64) + 1)
        label_marks = np.linspace(0, done[0].queried, points + 1).round().astype(int)[1:]
        again = replays(rounds_by_label[label_marks], [each.start() for each in runs])
        curves.insert(0, tables([each.curve for each in again]))
    return np.concatenate(curves)


def _nanoseconds(run: Run, marks: np.ndarray) -> np.ndarray:
    """Measure the processor time of this thread alone up to each mark, as other threads share the processors."""
    run.replay([0], log=True)  # compiles the loop, outside the measured time
    times = []
    for mark in marks:
        parts, start = run.start(), thread_time_ns()
        run.replay([mark], log=True, parts=parts)
        times.append(thread_time_ns() - start)
    return np.maximum.accumulate(times)


# ---- Tuned runs

Replays: TypeAlias = Generator[list[Job], list[np.ndarray], T]  # yields jobs, receives their counts


def evaluate(
    spec: Specification, classes: tuple[str, ...], setting: Setting, counts: np.ndarray, evaluation: str,
    over: Callable[..., Any] = np.mean,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Compute the metrics of tables of counts, and the share of labels asked. The metric weights are the setting's, or
    else the specification's. over: function that combines the values for several questions into one, such as
    np.mean."""
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
        estimates it), and a number is used as it is. For the metric cost, auto and laplace take the ratio of the
        costs."""
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
        has_list = not self.spec.held_out
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
        worth = np.where(self._hits(counts), self.spec.sign * np.array(scores), -inf)
        return choices[int(np.argmax(worth))]

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
        hit = self.hit
        if hit is None or asks_everything(self.algorithm):
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


def job_key(source: RowSource, job: Job) -> str:
    """Return the key of a replay: a hash of rows, labels, job and engine version."""
    prior: list[Any] = [source.prior] if source.prior else []
    prior += [source.orders, source.zero_rows] if source.orders or source.zero_rows != "streamed" else []
    prior += [(name, hashlib.sha256(answers).hexdigest()) for name, answers in source.questions]
    *values, floor, with_list, goal = job  # jobs that need none of these keep their earlier keys
    count = 3 if goal != STREAM else 2 if with_list else 1 if floor else 0
    parts = [*values, *(floor, with_list, goal)[:count]]
    key = json.dumps([source.fingerprint, source.positive, *prior, *parts, __version__], sort_keys=True)
    return hashlib.sha256(key.encode()).hexdigest()[:32]
