"""Comparisons: one specification of data, algorithms, budgets and tuning to results that come out the same again.

A comparison is a set of tuned runs, which any executor works on side by side; what is finished is kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from itertools import groupby
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .. import datasets
from ..datasets import Dataset, demo, formats, prior
from ..datasets.sources import Progress
from ..kernel import certainty, metrics
from ..kernel.metrics import more_is_better
from ..kernel.parameters import named
from ..versions import versions
from . import significance
from .specifications import (
    CLASS_METRICS,
    FOLDS,
    ExperimentError,
    Grid,
    Hit,
    Limit,
    Specification,
    chosen,
    settings,
    stored,
)
from .specifications import grid as grid
from .specifications import specification as specification
from .tuned_runs import (
    Job,
    Result,
    RowSource,
    TunedRun,
    asked_of,
    evaluate,
    job_key,
    replayed,
    replayed_together,
    streamed,
    weights_of,
)

if TYPE_CHECKING:
    from ..store import Store

Entry: TypeAlias = str | Mapping[str, Any]  # of a specification's data
Block: TypeAlias = tuple[str, Limit]  # what the lines of a table share: a data set, and a budget or one of several hits
Keep: TypeAlias = Callable[[dict[str, np.ndarray]], object]
Show: TypeAlias = Callable[[list[Result]], object]

CHUNK = 16  # replays that are sent to a worker together, at most
PASS = 32  # settings of one pass over the rows, at most
PAYS = 50_000_000  # rounds of an algorithm that take as long as compiling what runs several settings in one pass
KEEP_EVERY = 1.0  # seconds between two writes of what is finished: a kill loses the work of two at most
AHEAD = 128  # chunks that are with the workers before another run begins


# ---- Running them


def sources(spec: Specification, store: Store, folder: Path | str = ".") -> list[RowSource]:
    """The data sets of a specification; what it names by a file is imported at its first use."""
    known = [_source(store, entry, folder, spec) for entry in spec.data]
    if len({source.name for source in known}) < len(known):
        raise ExperimentError(f"data sets must differ. Got {', '.join(source.name for source in known)}.")
    return known


def _source(store: Store, entry: Entry, folder: Path | str, spec: Specification) -> RowSource:
    data, positive = labelled_data(store, entry, folder)
    if data.y.size < FOLDS:
        raise ExperimentError(f"a comparison needs {FOLDS} items or more. {data.name} has {data.y.size}.")
    shown = data.name if positive is None else f"{data.name}={positive}"
    known = prior.made(data, spec.seed_words, spec.seed_items)
    weights = tuple(known.weights.items()) if known else ()
    return RowSource(
        shown, str(data.folder.resolve()), data.fingerprint, int(data.y.size), data.classes, positive, weights
    )


def labelled_data(store: Store, entry: Entry, folder: Path | str = ".") -> tuple[Dataset, str | None]:
    """The data set that a comparison or a replay names, every item with a label, and the class that stands against the
    rest, if any; a demo or a file is imported at its first use."""
    name, positive = _named(store, entry, Path(folder))
    data = Dataset(store, name)
    if positive is not None and positive not in data.classes:
        raise ExperimentError(f"{name} has no class {positive}. It has {', '.join(data.classes) or 'two'}.")
    if not data.labelled:
        raise ExperimentError(f"every item of {name} must have a label. Some have none.")
    return data, positive


def _named(store: Store, entry: Entry, folder: Path) -> tuple[str, str | None]:
    """The name of a stored data set, and the class that stands against the rest, if any."""
    if not isinstance(entry, str):
        return imported(store, entry, folder), None
    if entry.startswith("demo:"):
        which = named(demo.DEMOS, entry.removeprefix("demo:"), "demo")
        demo.dataset(store, which)
        return demo.DEMOS[which].name, None
    if not store.has_dataset(entry) and (folder / entry).is_file():
        return imported(store, {"file": entry}, folder), None
    name, equals, positive = entry.rpartition("=")
    return (name, positive) if equals and not store.has_dataset(entry) else (entry, None)


def data_name(entry: Entry) -> str:
    """The name that an entry of a specification's data has or will have, with the class against the rest, if any."""
    if isinstance(entry, str):
        known = demo.DEMOS.get(entry.removeprefix("demo:"))
        return known.name if known and entry.startswith("demo:") else entry
    return entry.get("name") or Path(entry["file"]).name.split(".")[0]


SEVERAL = ("text", "features", "positive")  # columns or words of which there may be more than one
COLUMNS: dict[str, type] = {each.name: list if each.name in SEVERAL else bool if each.default is False else str
           for each in fields(formats.Columns)}  # fmt: skip


def imported(store: Store, entry: Mapping[str, Any], folder: Path) -> str:
    """The name of the data set that {name, file, scale, features, and columns as `formats.Columns` has them} is
    imported as."""
    kinds: dict[str, type] = {"name": str, "file": str, "scale": str, "features": str} | COLUMNS
    values: dict[str, Any] = {
        key: [value] if key in SEVERAL and isinstance(value, str) else value for key, value in entry.items()
    }
    for key, value in values.items():
        if key not in kinds:
            raise ExperimentError(f"a data set of a comparison has no setting {key}. It has {', '.join(kinds)}.")
        texts = not isinstance(value, list) or all(isinstance(each, str) for each in value)
        if not isinstance(value, kinds[key]) or not texts:
            what = {str: "a text", bool: "true or false", list: "a list of texts"}[kinds[key]]
            raise ExperimentError(f"{key} of a data set of a comparison must be {what}. Got {value}.")
    if "file" not in values:
        raise ExperimentError(f"a data set of a comparison needs a file. Got {', '.join(values) or 'nothing'}.")
    path, name = folder / values["file"], data_name(values)
    if not store.has_dataset(name):
        columns: dict[str, Any] = {
            key: tuple(value) if key in SEVERAL else value for key, value in values.items() if key in COLUMNS
        }
        guess = replace(formats.peek(path).guess, **columns)
        features = values.get("features") or ("words" if guess.text else "plain")  # as the papers have it
        datasets.import_file(store, path, name, guess, values.get("scale"), features=features)
    return name


def run(
    spec: Specification,
    store: Store,
    executor: Executor | None = None,
    *,
    folder: Path | str = ".",
    known: Mapping[str, np.ndarray] | None = None,
    keep: Keep | None = None,
    show: Show | None = None,
    progress: Progress | None = None,
) -> list[Result]:
    """Run a comparison: its Lines, in the order of data sets, budgets and algorithms.

    executor: any concurrent.futures.Executor (threads by default). known: counts of replays by key that need not be run
    again. keep: a function that is given {key: counts} of what is finished. show: a function that is given the lines
    that are complete, each time that there are more. progress: a function of (done, total).
    """
    ready = _ready(spec, store, folder)
    return _run(ready, executor, known or {}, keep or _nobody, show or _nobody, progress or _nobody)


def _nobody(*ignored: object) -> None:
    """Do nothing: the default of what is called meanwhile."""


def planned_runs(spec: Specification, sources: Iterable[RowSource]) -> list[TunedRun]:
    """The runs of a comparison over some sources; without tuning, every setting is a run of its own."""
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
    return [{key: [value] for key, value in setting.items()} for setting in settings(grid)]


def _ready(spec: Specification, store: Store, folder: Path | str) -> list[TunedRun]:
    """The runs of a comparison, which are known to fit their data."""
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


def _run(
    ready: list[TunedRun],
    executor: Executor | None,
    known: Mapping[str, np.ndarray],
    keep: Keep,
    show: Show,
    progress: Progress,
) -> list[Result]:
    own = executor or ThreadPoolExecutor(os.cpu_count())
    try:
        return _drive(ready, own, dict(known), keep, show, progress)
    finally:
        if executor is None:
            own.shutdown()


def _drive(
    planned: list[TunedRun],
    executor: Executor,
    known: dict[str, np.ndarray],
    keep: Keep,
    show: Show,
    progress: Progress,
) -> list[Result]:
    """Advance runs side by side until each has returned its result."""
    runs = [each.run() for each in planned]
    results: dict[int, Result] = {}
    fresh = iter(range(len(planned)))
    keys: dict[int, list[str]] = {}  # by run: of what it asked for last
    missing: dict[int, set[str]] = {}  # and of what of that is not finished
    waiting: dict[str, list[int]] = {}  # by key of a replay that is out: the runs that asked for it
    workers: dict[Future[list[np.ndarray]], list[str]] = {}  # what is out
    finished: SimpleQueue[Future[list[np.ndarray]]] = SimpleQueue()  # what is back
    work = [each.spec.work(each.grid) for each in planned]
    total, done = sum(work), 0
    rounds: Counter[str] = Counter()
    for each, replays in zip(planned, work):
        rounds[each.algorithm] += replays * each.source.rounds

    def advance(number: int, counts: list[np.ndarray] | None = None) -> None:
        """Send a run the counts that it waits for, and hand what it asks for next to the workers."""
        nonlocal done
        try:
            jobs = next(runs[number]) if counts is None else runs[number].send(counts)
        except StopIteration as end:
            results[number] = end.value
            show([results[each] for each in sorted(results)])
            return
        source = planned[number].source
        keys[number] = [job_key(source, job) for job in jobs]
        wanted = {key: job for key, job in zip(keys[number], jobs) if key not in known}
        new = {key: job for key, job in wanted.items() if key not in waiting}
        done += len(jobs) - len(new)
        missing[number] = set(wanted)
        for key in wanted:
            waiting.setdefault(key, []).append(number)
        together = jobs[0].points == 1 and rounds[planned[number].algorithm] >= PAYS and planned[number].together
        work, chunks = (replayed_together, _passes) if together else (replayed, _chunks)
        for chunk in chunks(new):
            future = executor.submit(work, source, [new[key] for key in chunk])
            workers[future] = chunk
            future.add_done_callback(finished.put)
        if not wanted:
            advance(number, [known[key] for key in keys[number]])

    def begin() -> None:
        """Begin runs as long as few replays wait, so that the first have their lines early."""
        while len(workers) < AHEAD and (number := next(fresh, None)) is not None:
            advance(number)

    try:
        begin()
        progress(done, max(done, total))
        while workers:
            try:
                future = finished.get(timeout=KEEP_EVERY)
            except Empty:
                keep({})  # what was finished before does not wait for a long replay
                continue
            chunk = workers.pop(future)
            counts = dict(zip(chunk, future.result()))
            known |= counts
            keep(counts)
            done += len(counts)
            progress(done, max(done, total))
            served = dict.fromkeys(number for key in chunk for number in waiting.pop(key))
            for number in served:
                missing[number] -= counts.keys()
                if not missing[number]:
                    advance(number, [known[key] for key in keys[number]])
            begin()
    finally:
        for future in workers:
            future.cancel()
    return [results[number] for number in range(len(planned))]


def _chunks(jobs: Mapping[str, Job]) -> list[list[str]]:
    """The keys of replays that are sent to a worker together; few are spread over all workers."""
    return _cut(list(jobs), min(CHUNK, 1 + len(jobs) // CHUNK))


def _passes(jobs: Mapping[str, Job]) -> list[list[str]]:
    """The same, of those that share a pass over the rows."""
    streams = groupby(jobs, lambda key: streamed(jobs[key]))
    return [some for _, keys in streams for some in _cut(list(keys), PASS)]


def _cut(keys: list[str], size: int) -> list[list[str]]:
    return [keys[start : start + size] for start in range(0, len(keys), size)]


# ---- Comparisons that are kept


@dataclass(frozen=True)
class Comparison:
    """A comparison that was run: its specification, the versions that ran it, and the lines of its result."""

    name: str
    spec: Specification
    versions: dict[str, str]
    lines: list[Result]

    def values(self, line: Result, metric: str | None = None, evaluation: str | None = None) -> np.ndarray:
        """A metric (the criterion) of each run of a line at its end."""
        if metric == "seconds":
            return self.seconds(line)[:, -1]
        evaluation = evaluation or self.spec.evaluation
        measured = evaluate(self.spec, line.classes, line.setting, line.counts[:, -1], evaluation)
        return measured[metric or self.spec.criterion]

    @property
    def has_seconds(self) -> bool:
        """Whether the times of its runs were measured."""
        return any(line.nanoseconds is not None for line in self.lines)

    def seconds(self, line: Result) -> np.ndarray:
        """The seconds that each run of a line took up to its marks over the stream, of shape (runs, marks)."""
        if line.nanoseconds is None:
            raise ExperimentError(f"no times were measured in {self.name}. Run it with times = true.")
        return line.nanoseconds / 1e9

    @property
    def has_floors(self) -> bool:
        """Whether its runs are certain of something."""
        return any(line.floor_jobs for line in self.lines)

    def floors(self, line: Result, evaluation: str | None = None) -> dict[str, np.ndarray]:
        """What each run of a line is certain of at its end, by metric; nothing without a floor."""
        if line.worst is None:
            return {}
        tables = {name: tuple(line.worst[:, k].T) for k, name in enumerate(metrics.EVALUATIONS)}
        return certainty.floors(tables, weights_of(self.spec, line.setting))[evaluation or self.spec.evaluation]

    def curve(
        self, line: Result, metric: str, evaluation: str, axis: str = "rounds"
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Mean rounds and labels spent at each mark over the stream, and the mean and standard deviation of a metric
        over the runs. axis: "labels" has marks over the labels instead, and then the end of the stream."""
        if metric == "seconds":
            seconds = self.seconds(line)
            items, asked, *_ = self.curve(line, "query_ratio", evaluation)
            ends = np.linspace(0, items.size, seconds.shape[1] + 1)[1:]
            places = np.ceil(ends).astype(int) - 1
            return items[places], asked[places], seconds.mean(0), _spread(seconds)
        counts = line.counts[:, line.label_marks :]
        if axis == "labels":
            spent = asked_of(counts).mean(0)
            marks = line.counts[:, : line.label_marks or np.searchsorted(spent, spent[-1]) + 1]
            counts = np.concatenate([marks, counts[:, -1:]], 1)
        values = evaluate(self.spec, line.classes, line.setting, counts, evaluation)[metric]
        return counts.sum((-3, -2, -1)).mean(0), asked_of(counts).mean(0), values.mean(0), _spread(values)

    def blocks(self) -> dict[Block, dict[str, Result]]:
        """The lines of each data set and budget, or hit, by the names that tell them apart there."""
        blocks: dict[Block, dict[str, Result]] = {}
        several = len({((line.data, line.limit), line.algorithm) for line in self.lines}) < len(self.lines)
        for line in self.lines:
            name = line.name if several else line.algorithm
            blocks.setdefault((line.data, line.limit), {})[name] = line
        return blocks

    def test(
        self, lines: dict[str, Result], metric: str | None = None, evaluation: str | None = None
    ) -> dict[str, significance.PairedTest]:
        """Who is best of the lines of a block, and who is not distinguishable from it."""
        values = {name: self.values(line, metric, evaluation) for name, line in lines.items()}
        return significance.against_best(values, more_is_better(metric or self.spec.criterion))

    def tests(
        self, metric: str | None = None, evaluation: str | None = None
    ) -> dict[Block, dict[str, significance.PairedTest]]:
        """The test of each data set and budget."""
        return {block: self.test(lines, metric, evaluation) for block, lines in self.blocks().items()}

    def ranks(self, metric: str | None = None, evaluation: str | None = None) -> significance.Ranks:
        """Average ranks over all data sets and budgets, of the names that are in each."""
        blocks = [
            {name: float(self.values(line, metric, evaluation).mean()) for name, line in lines.items()}
            for lines in self.blocks().values()
        ]
        common = [name for name in next(iter(blocks), ()) if all(name in block for block in blocks)]
        table = {name: [block[name] for block in blocks] for name in common}
        return significance.average_ranks(table, more_is_better(metric or self.spec.criterion))

    def trials(self) -> list[dict[str, Any]]:
        """What was tried when settings were tuned, each with its criterion; the best of an algorithm first."""
        return [
            {
                "data": line.data,
                **_limit(line.limit),
                "algorithm": line.algorithm,
                "settings": tried,
                "score": score,
            }
            for line in self.lines
            for tried, score in sorted(
                line.trials, key=lambda trial: trial[1], reverse=more_is_better(self.spec.criterion)
            )
        ]

    def as_json(self) -> dict[str, Any]:
        """Everything as JSON has it; the same specification gives the same."""
        return {
            "specification": self.spec.values,
            "versions": self.versions,
            "results": [self._line(line) for line in self.lines],
            "tests": [
                {"data": data, **_limit(limit), "criterion": self.spec.criterion, "algorithms": tests}
                for (data, limit), tests in self.tests().items()
            ],
            "ranks": self.ranks(),
        }

    def _line(self, line: Result) -> dict[str, Any]:
        def run(counts: np.ndarray) -> dict[str, Any]:
            weights = weights_of(self.spec, line.setting)
            measured = {name: metrics.as_json(counts, name, weights, line.classes) for name in metrics.EVALUATIONS}
            return measured if self.spec.held_out else {"queried": int(asked_of(counts)), **measured}

        runs = [run(counts) for counts in line.counts[:, -1]]
        for name in metrics.EVALUATIONS if line.floor_jobs else ():
            for k, each in enumerate(runs):
                floors = {metric: values[k].item() for metric, values in self.floors(line, name).items()}
                each.setdefault("floor", {})[name] = floors
        return {
            "data": line.data,
            "algorithm": line.algorithm,
            **_limit(line.limit),
            "settings": line.setting,
            "parameters": chosen(line.algorithm, line.setting).parameters,
            "tuned": self.spec.tune,
            "runs": [{"seed": self.spec.seed + k} | run for k, run in enumerate(runs)],
            "mean": metrics.over(runs, np.mean),
            "std": metrics.spread(runs),
        }


def _limit(limit: Limit) -> dict[str, Any]:
    """What JSON has of a budget, or of one of several hits."""
    return {"budget": None, "hit": limit.labels} if isinstance(limit, Hit) else {"budget": limit}


def _spread(values: np.ndarray) -> np.ndarray:
    """The standard deviation over the runs, the first axis; 0 of a single one."""
    return values.std(0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])


def begin(spec: Specification, store: Store, name: str | None = None) -> int:
    """The id of the comparison of a name (by default one that its specification gives), made if there is none yet."""
    values = json.loads(json.dumps(spec.values))
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]
    name = (name or f"{', '.join(spec.algorithms)[:80]} · {digest[:4]}").strip()
    if not store.has_comparison(name):
        return store.add_comparison(name, values, versions(), [_stored(store, data_name(each)) for each in spec.data])
    kept = store.comparison(name)
    if kept["specification"] != values:
        raise ExperimentError(f"a comparison named {name} exists with other settings. Choose another name.")
    return kept["id"]


def _stored(store: Store, name: str) -> int | None:
    """The id of the data set of a name, which may end in a class against the rest, or None."""
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
    """Run a comparison and keep it under a name; what is kept of one with the same name and specification is not run
    again, and its lines can be loaded as soon as they are complete."""
    ready = _ready(spec, store, folder)
    comparison = begin(spec, store, name)
    keeper = _Keeper(store, comparison)
    try:
        lines = _run(ready, executor, store.replays(comparison), keeper.keep, keeper.show, progress or _nobody)
    finally:
        keeper.write()
    store.put_lines(comparison, _kept(lines), finished=True)
    kept = store.comparison(comparison)
    return Comparison(kept["name"], spec, kept["versions"], lines)


class _Keeper:
    """Stores what a comparison has finished, all of a second in one transaction: a replay may be shorter than that."""

    def __init__(self, store: Store, comparison: int) -> None:
        self.store, self.comparison = store, comparison
        self.counts: dict[str, np.ndarray] = {}
        self.lines: list[Result] = []
        self.written = -inf

    def keep(self, counts: dict[str, np.ndarray]) -> None:
        """Take the counts of more replays."""
        self.counts |= counts
        if time.monotonic() - self.written >= KEEP_EVERY:
            self.write()

    def show(self, lines: list[Result]) -> None:
        """Take the lines that are complete by now."""
        self.lines = lines

    def write(self) -> None:
        """Store what was taken; lines never without their replays."""
        with self.store.transaction():
            self.store.put_replays(self.comparison, self.counts)
            if self.lines:
                self.store.put_lines(self.comparison, _kept(self.lines))
        self.counts, self.written = {}, time.monotonic()


def _kept(lines: list[Result]) -> list[dict[str, Any]]:
    """Lines without their counts, which the replays have."""
    arrays = ("counts", "worst", "nanoseconds")
    return [{key: value for key, value in vars(line).items() if key not in arrays} for line in lines]


def load(store: Store, name: str | int) -> Comparison:
    """A comparison that was kept, by its name or id, or as much of it as has a result."""
    kept = store.comparison(name)
    spec, known = stored(kept["specification"]), store.replays(kept["id"])

    def arrays(jobs: list[str] | None) -> np.ndarray | None:
        return np.array([known[job] for job in jobs]) if jobs else None

    lines = [
        Result(
            **line | {"classes": tuple(line["classes"])},
            counts=np.array([known[job] for job in line["jobs"]]),
            worst=arrays(line.get("floor_jobs")),
            nanoseconds=arrays(line.get("time_jobs")),
        )
        for line in kept["lines"] or ()
    ]
    return Comparison(kept["name"], spec, kept["versions"], lines)
