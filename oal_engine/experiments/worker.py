"""Replays as plain data, and the functions that run them on any worker: in this process, another one, or a cluster."""

import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from time import thread_time_ns
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .. import __version__
from ..datasets import mapped, relabelled
from ..datasets.reading.sources import COMPRESSIONS, UNREADABLE
from ..kernel import metrics, questions, stacks, stream
from ..kernel.algorithms import Strategy
from ..kernel.rows import Rows, matrix, read_only
from ..kernel.runs import Parts, Run, class_ratio, tuning_and_test_items
from ..kernel.spending import STREAM
from .specifications import FOLDS

Part: TypeAlias = tuple[str, int]  # the kind of stream, and its seed: see `Job`

FEWEST_SETTINGS = 4  # of a pass: fewer are as fast one by one
ZERO_ROWS = {
    "streamed": "rows of zeros are streamed like all others",
    "left out": "rows of zeros are left out",
    "mistakes": "rows of zeros are left out, and count as wrong predictions",
}


class RowSource(NamedTuple):
    """Labeled rows that any worker can open: their folder, and a fingerprint of rows and labels. rounds: number of
    items. positive: the class that is set against all others, if any. prior: (column, weight) pairs that every learner
    begins with. questions: (name, answers as packed bits) of each question about the items, if any. orders: file of the
    item orders that `part` numbers (empty: random). zero_rows: what becomes of rows of zeros, see ZERO_ROWS."""

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
    """Return the items of a part in the order of the stream, without rows of zeros unless they are streamed."""
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
    curves = [tables([each.curve for each in done])]
    if job.with_list:
        curves.append(tables([own.listed(each, part)[None] for own, each, part in zip(runs, done, parts)]))
    if points > 1:
        rounds_by_label = np.append(0, done[0].log[:, 0].astype(np.int64) + 1)
        label_marks = np.linspace(0, done[0].queried, points + 1).round().astype(int)[1:]
        again = replays(rounds_by_label[label_marks], [each.start() for each in runs])
        curves.insert(0, tables([each.curve for each in again]))
    return np.concatenate(curves) + mistakes(source)


def _nanoseconds(run: Run, marks: np.ndarray) -> np.ndarray:
    """Measure the processor time of this thread alone up to each mark, as other threads share the processors."""
    run.replay([0], log=True)  # compiles the loop, outside the measured time
    times = []
    for mark in marks:
        parts, start = run.start(), thread_time_ns()
        run.replay([mark], log=True, parts=parts)
        times.append(thread_time_ns() - start)
    return np.maximum.accumulate(times)


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
