"""Run comparisons: distribute the replays over workers, store finished replays, and resume from them."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext
from itertools import groupby
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..datasets.reading.sources import Progress
from ..kernel import metrics
from ..kernel.parameters import combinations
from ..versions import versions
from .comparison import Comparison
from .sources import data_name, sources
from .specifications import CLASS_METRICS, ExperimentError, Grid, Specification, chosen
from .tuned_runs import Job, Result, RowSource, TunedRun, job_key, replayed, replayed_together

if TYPE_CHECKING:
    from ..store import Store


Keep: TypeAlias = Callable[[dict[str, np.ndarray]], object]  # called with the counts of finished replays by key
Show: TypeAlias = Callable[[list[Result]], object]  # called with the complete lines, whenever there are more
CHUNK_REPLAYS = 16  # most replays sent to a worker together
PASS_SETTINGS = 32  # most settings of one pass over the rows
PASS_PAYS_ROUNDS = 50_000_000  # rounds of an algorithm that take as long as compiling the loop of a shared pass
SECONDS_PER_WRITE = 1.0  # between writes of finished replays: a kill loses at most two intervals of work
CHUNKS_AHEAD = 128  # no further run begins while this many chunks are at the workers


def run(
    spec: Specification,
    store: Store,
    executor: Executor | None = None,
    *,
    folder: Path | str = ".",
    progress: Progress | None = None,
) -> list[Result]:
    """Run a comparison without storing it. Return its result lines, in the order of data sets, budgets and algorithms.

    executor: any concurrent.futures.Executor (threads by default). folder: where to find files that the specification
    names. progress: called with (done, total).
    """
    return run_all(ready_runs(spec, store, folder), executor, progress=progress or ignore)


def begin(spec: Specification, store: Store, name: str | None = None) -> int:
    """Find or create the comparison with a name (None: a name made from the specification). Return its id. Raise
    ExperimentError if a comparison of this name has a different specification."""
    values = json.loads(json.dumps(spec.values))
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]
    name = (name or f"{', '.join(spec.algorithms)[:80]} · {digest[:4]}").strip()
    if not store.has_comparison(name):
        return store.add_comparison(name, values, versions(), [_stored(store, data_name(each)) for each in spec.data])
    record = store.comparison(name)
    if record["specification"] != values:
        raise ExperimentError(f"a comparison named {name} exists with other settings. Choose another name.")
    return record["id"]


def _stored(store: Store, name: str) -> int | None:
    """Return the id of a data set by its name, or None if it is not stored. The name may end in =CLASS."""
    ids = {row["name"]: int(row["id"]) for row in store.datasets()}
    return ids.get(name, ids.get(name.rpartition("=")[0]))


def compare(
    spec: Specification,
    store: Store,
    name: str | None = None,
    executor: Executor | None = None,
    *,
    folder: Path | str = ".",
    progress: Progress | None = None,
) -> Comparison:
    """Run a comparison and store it under a name.

    Replays that are stored for a comparison with the same name and specification are not run again. Result lines can be
    loaded as soon as they are complete.
    """
    ready = ready_runs(spec, store, folder)
    comparison = begin(spec, store, name)
    keeper = _Keeper(store, comparison)
    try:
        lines = run_all(ready, executor, store.replays(comparison), keeper.keep, keeper.show, progress or ignore)
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

    def show(self, lines: list[Result]) -> None:
        """Replace the buffered result lines with the lines that are complete by now."""
        self.lines = lines

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


def ignore(*ignored: object) -> None:
    """Do nothing: the default callback."""


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
    """Plan the runs of a comparison. Raise ExperimentError if it is too large, or if an algorithm cannot use its
    data."""
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


def run_all(
    planned: list[TunedRun],
    executor: Executor | None = None,
    finished_counts: Mapping[str, np.ndarray] | None = None,
    keep: Keep = ignore,
    show: Show = ignore,
    progress: Progress = ignore,
) -> list[Result]:
    """Execute planned runs on an executor (None: a pool of threads). Return their results in order.

    finished_counts: {replay key: counts} of replays that ran before and are not run again.
    """
    with nullcontext(executor) if executor else ThreadPoolExecutor(os.cpu_count()) as workers:
        return _advance_all(planned, workers, dict(finished_counts or {}), keep, show, progress)


def _advance_all(
    planned: list[TunedRun],
    executor: Executor,
    counts_by_key: dict[str, np.ndarray],
    keep: Keep,
    show: Show,
    progress: Progress,
) -> list[Result]:
    """Advance all runs concurrently until each has returned its result."""
    runs = [each.run() for each in planned]
    results: dict[int, Result] = {}
    fresh = iter(range(len(planned)))
    keys: dict[int, list[str]] = {}  # run -> the replays it asked for last
    missing: dict[int, set[str]] = {}  # run -> its unfinished replays
    waiting: dict[str, list[int]] = {}  # replay at a worker -> the runs that asked for it
    workers: dict[Future[list[np.ndarray]], list[str]] = {}  # chunk of replays at a worker -> their keys
    finished: SimpleQueue[Future[list[np.ndarray]]] = SimpleQueue()
    work = [each.spec.work(each.grid) for each in planned]
    total, done = sum(work), 0
    rounds: Counter[str] = Counter()
    for each, replays in zip(planned, work):
        rounds[each.algorithm] += replays * each.source.rounds

    def advance(number: int, counts: list[np.ndarray] | None = None) -> None:
        """Send a run the counts that it waits for, then submit its next jobs to the workers."""
        nonlocal done
        try:
            jobs = next(runs[number]) if counts is None else runs[number].send(counts)
        except StopIteration as end:
            results[number] = end.value
            show([results[each] for each in sorted(results)])
            return
        source = planned[number].source
        keys[number] = [job_key(source, job) for job in jobs]
        wanted = {key: job for key, job in zip(keys[number], jobs) if key not in counts_by_key}
        new = {key: job for key, job in wanted.items() if key not in waiting}
        done += len(jobs) - len(new)
        missing[number] = set(wanted)
        for key in wanted:
            waiting.setdefault(key, []).append(number)
        pays = rounds[planned[number].algorithm] >= PASS_PAYS_ROUNDS
        together = pays and jobs[0].points == 1 and not jobs[0].with_list and planned[number].shares_passes
        work, chunks = (replayed_together, _passes) if together else (replayed, _chunks)
        for chunk in chunks(new):
            future = executor.submit(work, source, [new[key] for key in chunk])
            workers[future] = chunk
            future.add_done_callback(finished.put)
        if not wanted:
            advance(number, [counts_by_key[key] for key in keys[number]])

    def begin() -> None:
        """Start further runs while fewer than CHUNKS_AHEAD chunks are at the workers, so that few runs are open at a
        time, and the first results are complete early."""
        while len(workers) < CHUNKS_AHEAD and (number := next(fresh, None)) is not None:
            advance(number)

    try:
        begin()
        progress(done, max(done, total))
        while workers:
            try:
                future = finished.get(timeout=SECONDS_PER_WRITE)
            except Empty:
                keep({})  # writes earlier results without waiting for a long replay
                continue
            chunk = workers.pop(future)
            counts = dict(zip(chunk, future.result()))
            counts_by_key |= counts
            keep(counts)
            done += len(counts)
            progress(done, max(done, total))
            served = dict.fromkeys(number for key in chunk for number in waiting.pop(key))
            for number in served:
                missing[number] -= counts.keys()
                if not missing[number]:
                    advance(number, [counts_by_key[key] for key in keys[number]])
            begin()
    finally:
        for future in workers:
            future.cancel()
    return [results[number] for number in range(len(planned))]


def _chunks(jobs: Mapping[str, Job]) -> list[list[str]]:
    """Split replay keys into batches, one per task. Few keys give small batches, so that all workers are used."""
    return _cut(list(jobs), min(CHUNK_REPLAYS, 1 + len(jobs) // CHUNK_REPLAYS))


def _passes(jobs: Mapping[str, Job]) -> list[list[str]]:
    """Split replay keys into batches that share a pass over the rows."""
    streams = groupby(jobs, lambda key: jobs[key].stream)
    return [batch for _, keys in streams for batch in _cut(list(keys), PASS_SETTINGS)]


def _cut(keys: list[str], size: int) -> list[list[str]]:
    """Split keys into batches of `size`."""
    return [keys[start : start + size] for start in range(0, len(keys), size)]
