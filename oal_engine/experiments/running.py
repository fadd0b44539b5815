"""Run comparisons: distribute the replays over workers, store finished replays, and resume from them."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext
from itertools import groupby
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from ..datasets.reading.sources import Progress
from ..kernel import metrics
from ..kernel.parameters import combinations
from ..versions import versions
from .comparison import Comparison
from .sources import data_name, sources
from .specifications import CLASS_METRICS, ExperimentError, Grid, Specification, chosen
from .tuned_runs import Result, TunedRun
from .worker import Job, RowSource, job_key, replayed, replayed_together

if TYPE_CHECKING:
    from ..store import Store


CHUNK_REPLAYS = 16  # most replays sent to a worker together
PASS_SETTINGS = 32  # most settings of one pass over the rows
PASS_PAYS_ROUNDS = 50_000_000  # rounds of an algorithm that take as long as compiling the loop of a shared pass
SECONDS_PER_WRITE = 1.0  # between writes of finished replays: a kill loses at most two intervals of work
CHUNKS_AHEAD = 128  # no further run begins while this many chunks are at the workers


def begin(spec: Specification, store: Store, name: str | None = None) -> int:
    """Find or create the comparison with a name (None: a name made from the specification). Return its id. Raise
    ExperimentError if a comparison of this name has a different specification."""
    values = json.loads(json.dumps(spec.values))
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]
    name = (name or f"{', '.join(spec.algorithms)[:80]} · {digest[:4]}").strip()
    if not store.has_comparison(name):
        ids = {row["name"]: int(row["id"]) for row in store.datasets()}
        names = [*map(data_name, spec.data)]  # each may end in =CLASS
        data = [ids.get(each, ids.get(each.rpartition("=")[0])) for each in names]
        return store.add_comparison(name, values, versions(), data)
    record = store.comparison(name)
    if record["specification"] != values:
        raise ExperimentError(f"a comparison named {name} exists with other settings. Choose another name.")
    return record["id"]


def compare(
    spec: Specification,
    store: Store,
    name: str | None = None,
    executor: Executor | None = None,
    *,
    folder: Path | str = ".",
    progress: Progress | None = None,
) -> Comparison:
    """Run a comparison and store it under a name. Return it.

    Replays that are stored for a comparison with the same name and specification are not run again. Result lines can be
    loaded as soon as they are complete.

    executor: any concurrent.futures.Executor (None: a pool of threads). folder: where to find files that the
    specification names. progress: called with (done, total).
    """
    ready = ready_runs(spec, store, folder)
    comparison = begin(spec, store, name)
    keeper = _Keeper(store, comparison)
    try:
        with nullcontext(executor) if executor else ThreadPoolExecutor(os.cpu_count()) as workers:
            lines = _Execution(ready, workers, store.replays(comparison), keeper).finish(progress)
    finally:
        keeper.write()
    store.put_lines(comparison, _without_counts(lines), finished=True)
    record = store.comparison(comparison)
    return Comparison(record["name"], spec, record["versions"], lines)


class _Keeper:
    """Stores finished replays at most once a second, because a replay may take much less than a second."""

    def __init__(self, store: Store, comparison: int) -> None:
        self.store, self.comparison = store, comparison
        self.counts: dict[str, np.ndarray] = {}
        self.lines: list[Result] = []
        self.written = -inf

    def keep(self, counts: dict[str, np.ndarray]) -> None:
        """Buffer the counts of more replays. Write the buffer if the last write was at least a second ago."""
        self.counts |= counts
        if time.monotonic() - self.written >= SECONDS_PER_WRITE:
            self.write()

    def write(self) -> None:
        """Store the buffered counts and result lines in one transaction: no line is stored without its replays."""
        with self.store.transaction():
            self.store.put_replays(self.comparison, self.counts)
            if self.lines:
                self.store.put_lines(self.comparison, _without_counts(self.lines))
        self.counts, self.written = {}, time.monotonic()


def _without_counts(lines: list[Result]) -> list[dict[str, Any]]:
    """Convert result lines to dictionaries without their arrays, which are stored with the replays."""
    arrays = ("counts", "worst", "nanoseconds", "listed")
    return [{key: value for key, value in vars(line).items() if key not in arrays} for line in lines]


def planned_runs(spec: Specification, sources: Iterable[RowSource]) -> list[TunedRun]:
    """Plan the runs of a comparison over some sources. If nothing is tuned, every setting is a run of its own."""
    return [
        TunedRun(spec, source, algorithm, budget, values, hit)
        for source in sources
        for budget in spec.budgets
        for hit in spec.hits
        for algorithm, grid in spec.grids.items()
        for values in _entries(grid, spec.tune)
    ]


def _entries(grid: Grid, tune: str) -> list[Grid]:
    if tune != "none":
        return [grid]
    return [{key: [value] for key, value in setting.items()} for setting in combinations(grid)]


def ready_runs(spec: Specification, store: Store, folder: Path | str) -> list[TunedRun]:
    """Plan the runs of a comparison. Raise ExperimentError if it is too large, or an algorithm cannot use its data."""
    spec.check_size()
    planned = planned_runs(spec, sources(spec, store, folder))
    for each in planned:
        _check_fit(each)
    return planned


def _check_fit(run: TunedRun) -> None:
    name, many = run.source.name, chosen(run.algorithm).multiclass
    if many != bool(run.source.distinct_classes):
        what = "two classes" if many else f"K classes: name one as {name}=CLASS"
        raise ExperimentError(f"{run.algorithm} does not work on {name}, which has {what}.")
    if many and run.source.prior:
        raise ExperimentError(f"seed words and items are for a positive and a negative class. Got {run.algorithm}.")
    allowed, criterion = CLASS_METRICS if many else tuple(metrics.METRICS), run.spec.criterion
    if criterion not in allowed:
        raise ExperimentError(f"criterion on {name} must be one of {', '.join(allowed)}. Got {criterion}.")


class _Execution:
    """Planned runs that advance concurrently until each has returned its result.

    counts_by_key: counts of finished replays. asked: for each run, the keys of the replays that it asked for last.
    missing: those of them that are not finished. waiting: {key of a replay at a worker: the runs that asked for it}.
    chunks: {chunk of replays at a worker: keys}. done: number of finished replays.
    """

    def __init__(
        self, planned: list[TunedRun], executor: Executor, counts_by_key: dict[str, np.ndarray], keeper: _Keeper
    ) -> None:
        self.planned, self.executor, self.counts_by_key, self.keeper = planned, executor, counts_by_key, keeper
        self.runs = [each.run() for each in planned]
        self.results: dict[int, Result] = {}
        self.asked: dict[int, list[str]] = {}
        self.missing: dict[int, set[str]] = {}
        self.waiting: dict[str, list[int]] = {}
        self.chunks: dict[Future[list[np.ndarray]], list[str]] = {}
        self.finished: SimpleQueue[Future[list[np.ndarray]]] = SimpleQueue()
        self.done, self.total = 0, 0
        self.rounds: Counter[str] = Counter()
        for each in planned:
            replays = each.spec.work(each.grid)
            self.total += replays
            self.rounds[each.algorithm] += replays * each.source.rounds

    def finish(self, progress: Progress | None) -> list[Result]:
        """Advance all runs to their end. Return their results in order.

        So that few runs are open at a time, and the first results are complete early, no run begins while CHUNKS_AHEAD
        chunks are at the workers.
        """
        fresh = iter(range(len(self.planned)))
        try:
            while True:
                while len(self.chunks) < CHUNKS_AHEAD and (number := next(fresh, None)) is not None:
                    self.advance(number)
                if progress:
                    progress(self.done, max(self.done, self.total))
                if not self.chunks:
                    return [self.results[number] for number in range(len(self.planned))]
                self.collect()
        finally:
            for future in self.chunks:
                future.cancel()

    def advance(self, number: int) -> None:
        """Send a run the counts that it asked for, then submit its next jobs to the workers."""
        try:
            run, asked = self.runs[number], self.asked.get(number)
            jobs = next(run) if asked is None else run.send([self.counts_by_key[key] for key in asked])
        except StopIteration as end:
            self.results[number] = end.value
            self.keeper.lines = [self.results[each] for each in sorted(self.results)]
            return
        plan = self.planned[number]
        self.asked[number] = [job_key(plan.source, job) for job in jobs]
        wanted = {key: job for key, job in zip(self.asked[number], jobs) if key not in self.counts_by_key}
        new = {key: job for key, job in wanted.items() if key not in self.waiting}
        self.done += len(jobs) - len(new)
        self.missing[number] = set(wanted)
        for key in wanted:
            self.waiting.setdefault(key, []).append(number)
        pays = self.rounds[plan.algorithm] >= PASS_PAYS_ROUNDS
        together = pays and jobs[0].points == 1 and not jobs[0].with_list and plan.shares_passes
        for chunk in _batches(new, together):
            work = replayed_together if together else replayed
            future = self.executor.submit(work, plan.source, [new[key] for key in chunk])
            self.chunks[future] = chunk
            future.add_done_callback(self.finished.put)
        if not wanted:
            self.advance(number)

    def collect(self) -> None:
        """Wait for a chunk of replays, keep their counts, and advance the runs that waited for no others."""
        try:
            future = self.finished.get(timeout=SECONDS_PER_WRITE)
        except Empty:
            self.keeper.keep({})  # writes earlier results without waiting for a long replay
            return
        chunk = self.chunks.pop(future)
        counts = dict(zip(chunk, future.result()))
        self.counts_by_key |= counts
        self.keeper.keep(counts)
        self.done += len(counts)
        for number in dict.fromkeys(number for key in chunk for number in self.waiting.pop(key)):
            self.missing[number] -= counts.keys()
            if not self.missing[number]:
                self.advance(number)


def _batches(jobs: Mapping[str, Job], share_passes: bool) -> list[list[str]]:
    """Split replay keys into batches, one per task. The replays of a batch share a pass over the rows if wanted; else
    few keys give small batches, so that all workers are used."""
    size = PASS_SETTINGS if share_passes else min(CHUNK_REPLAYS, 1 + len(jobs) // CHUNK_REPLAYS)
    streams = [[*keys] for _, keys in groupby(jobs, lambda key: jobs[key].stream if share_passes else None)]
    return [keys[start : start + size] for keys in streams for start in range(0, len(keys), size)]
