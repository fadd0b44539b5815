"""Comparisons: one specification of data, algorithms, budgets and tuning to results that come out the same again.

A comparison is a set of contests, which any executor works on side by side; what is finished is kept.
"""

import hashlib
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from queue import SimpleQueue

import numpy as np

from .. import datasets
from ..datasets import Dataset, demo, formats
from ..kernel import metrics
from ..kernel.metrics import more_is_better
from ..kernel.parameters import named
from ..versions import versions
from . import statistics
from .contests import FOLDS, Contest, Line, Source, asked_of, evaluate, job_key, replayed, weights_of
from .specifications import (
    CLASS_METRICS,
    ExperimentError,
    Specification,
    chosen,
    grid,
    settings,
    specification,
)

CHUNK = 16  # replays that are sent to a worker together, at most
AHEAD = 128  # chunks that are with the workers before another contest begins


# ---- Running them


def sources(spec, store, folder="."):
    """The data sets of a specification; what it names by a file is imported at its first use."""
    found = [_source(store, entry, folder) for entry in spec.data]
    if len({source.name for source in found}) < len(found):
        raise ExperimentError(f"data sets must differ. Got {', '.join(source.name for source in found)}.")
    return found


def _source(store, entry, folder):
    data, positive = labelled_data(store, entry, folder)
    if data.y.size < FOLDS:
        raise ExperimentError(f"a comparison needs {FOLDS} items or more. {data.name} has {data.y.size}.")
    shown = data.name if positive is None else f"{data.name}={positive}"
    return Source(shown, str(data.folder.resolve()), data.fingerprint, int(data.y.size), data.classes, positive)


def labelled_data(store, entry, folder="."):
    """The data set that a comparison or a replay names, every item with a label, and the class that stands against the
    rest, if any; a demo or a file is imported at its first use."""
    name, positive = _named(store, entry, Path(folder))
    data = Dataset(store, name)
    if positive is not None and positive not in data.classes:
        raise ExperimentError(f"{name} has no class {positive}. It has {', '.join(data.classes) or 'two'}.")
    if not data.labelled:
        raise ExperimentError(f"every item of {name} must have a label. Some have none.")
    return data, positive


def _named(store, entry, folder):
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


def data_name(entry):
    """The name that an entry of a specification's data has or will have, with the class against the rest, if any."""
    if isinstance(entry, str):
        known = demo.DEMOS.get(entry.removeprefix("demo:"))
        return known.name if known and entry.startswith("demo:") else entry
    return entry.get("name") or Path(entry["file"]).name.split(".")[0]


SEVERAL = ("text", "features", "positive")  # columns or words of which there may be more than one
COLUMNS = {each.name: list if each.name in SEVERAL else bool if each.default is False else str
           for each in fields(formats.Columns)}  # fmt: skip


def imported(store, about, folder):
    """The name of the data set that {name, file, scale, and columns as `formats.Columns` has them} is imported as."""
    kinds = {"name": str, "file": str, "scale": str} | COLUMNS
    about = {key: [value] if key in SEVERAL and isinstance(value, str) else value for key, value in about.items()}
    for key, value in about.items():
        if key not in kinds:
            raise ExperimentError(f"a data set of a comparison has no setting {key}. It has {', '.join(kinds)}.")
        if not isinstance(value, kinds[key]) or (key in SEVERAL and not all(isinstance(each, str) for each in value)):
            what = {str: "a text", bool: "true or false", list: "a list of texts"}[kinds[key]]
            raise ExperimentError(f"{key} of a data set of a comparison must be {what}. Got {value}.")
    if "file" not in about:
        raise ExperimentError(f"a data set of a comparison needs a file. Got {', '.join(about) or 'nothing'}.")
    path, name = folder / about["file"], data_name(about)
    if not store.has_dataset(name):
        columns = {key: tuple(value) if key in SEVERAL else value for key, value in about.items() if key in COLUMNS}
        guess = replace(formats.peek(path).guess, **columns)
        datasets.import_file(store, path, name, guess, about.get("scale", "l2"))
    return name


def run(spec, store, executor=None, *, folder=".", known=None, keep=None, show=None, progress=None):
    """Run a comparison: its Lines, in the order of data sets, budgets and algorithms.

    executor: any concurrent.futures.Executor (threads by default). known: counts of replays by key that need not be run
    again. keep: a function that is given {key: counts} of what is finished. show: a function that is given the lines
    that are complete, each time that there are more. progress: a function of (done, total).
    """
    ready = _ready(spec, store, folder)
    return _run(ready, executor, known or {}, keep or _nobody, show or _nobody, progress or _nobody)


def _nobody(*told):
    """Hear what is told, and do nothing."""


def contests_of(spec, found):
    """The contests of a comparison over some sources; without tuning, every setting is a contest of its own."""
    return [
        Contest(spec, source, algorithm, budget, values)
        for source in found
        for budget in spec.budgets
        for algorithm, given in spec.algorithms.items()
        for values in _entries(grid(algorithm, given, spec.tune), spec.tune)
    ]


def _entries(found, tune):
    if tune != "none":
        return [found]
    return [{key: [value] for key, value in setting.items()} for setting in settings(found)]


def _ready(spec, store, folder):
    """The contests of a comparison, which are known to fit their data."""
    found = contests_of(spec, sources(spec, store, folder))
    for each in found:
        _fitting(each)
    return found


def _fitting(contest):
    name, many = contest.source.name, chosen(contest.algorithm).multiclass
    if many != bool(contest.source.told_apart):
        what = "two classes" if many else f"K classes: name one as {name}=CLASS"
        raise ExperimentError(f"{contest.algorithm} does not work on {name}, which has {what}.")
    allowed, criterion = CLASS_METRICS if many else tuple(metrics.METRICS), contest.spec.criterion
    if criterion not in allowed:
        raise ExperimentError(f"criterion on {name} must be one of {', '.join(allowed)}. Got {criterion}.")


def _run(ready, executor, known, keep, show, progress):
    own = executor or ThreadPoolExecutor(os.cpu_count())
    try:
        return _drive(ready, own, dict(known), keep, show, progress)
    finally:
        if executor is None:
            own.shutdown()


def _drive(contests, executor, known, keep, show, progress):
    """Advance contests side by side until each has returned its line."""
    runs, lines = [each.run() for each in contests], {}
    fresh = iter(range(len(contests)))
    keys, missing = {}, {}  # by contest: of what it asked for last, and of what of that is not finished
    workers, finished = {}, SimpleQueue()  # what is out, and what is back
    total, done = sum(each.work() for each in contests), 0

    def advance(number, counts=None):
        """Send a contest the counts that it waits for, and hand what it asks for next to the workers."""
        nonlocal done
        try:
            jobs = runs[number].send(counts)
        except StopIteration as end:
            lines[number] = end.value
            show([lines[each] for each in sorted(lines)])
            return
        source = contests[number].source
        keys[number] = [job_key(source, job) for job in jobs]
        new = {key: job for key, job in zip(keys[number], jobs) if key not in known}
        done += len(jobs) - len(new)
        missing[number] = set(new)
        size = min(CHUNK, 1 + len(new) // CHUNK)  # few replays are spread over all workers
        for start in range(0, len(new), size):
            chunk = list(new)[start : start + size]
            future = executor.submit(replayed, source, [new[key] for key in chunk])
            workers[future] = number, chunk
            future.add_done_callback(finished.put)
        if not new:
            advance(number, [known[key] for key in keys[number]])

    def begin():
        """Open contests as long as few replays wait, so that the first have their lines early."""
        while len(workers) < AHEAD and (number := next(fresh, None)) is not None:
            advance(number)

    try:
        begin()
        progress(done, max(done, total))
        while workers:
            future = finished.get()
            number, chunk = workers.pop(future)
            found = dict(zip(chunk, future.result()))
            known |= found
            keep(found)
            done += len(found)
            progress(done, max(done, total))
            missing[number] -= found.keys()
            if not missing[number]:
                advance(number, [known[key] for key in keys[number]])
            begin()
    finally:
        for future in workers:
            future.cancel()
    return [lines[number] for number in range(len(contests))]


# ---- Comparisons that are kept


@dataclass(frozen=True)
class Comparison:
    """A comparison that was run: its specification, the versions that ran it, and the lines of its result."""

    name: str
    spec: Specification
    versions: dict
    lines: list

    def values(self, line, metric=None, evaluation=None):
        """A metric (the criterion) of each run of a line at its end."""
        found = evaluate(self.spec, line.classes, line.setting, line.counts[:, -1], evaluation or self.spec.evaluation)
        return found[metric or self.spec.criterion]

    def curve(self, line, metric, evaluation):
        """Rounds and mean labels spent at each mark, and the mean and standard deviation of a metric over the runs."""
        found = evaluate(self.spec, line.classes, line.setting, line.counts, evaluation)[metric]
        items = line.counts[0].sum((-3, -2, -1))
        asked = asked_of(line.counts).mean(0)
        return items, asked, found.mean(0), found.std(0, ddof=1) if len(found) > 1 else np.zeros(found.shape[1])

    def blocks(self):
        """The lines of each data set and budget, by the names that tell them apart there."""
        found = {}
        several = len({(line.data, line.budget, line.algorithm) for line in self.lines}) < len(self.lines)
        for line in self.lines:
            name = line.name if several else line.algorithm
            found.setdefault((line.data, line.budget), {})[name] = line
        return found

    def test(self, lines, metric=None, evaluation=None):
        """Who is best of the lines of a block, and who is not distinguishable from it."""
        values = {name: self.values(line, metric, evaluation) for name, line in lines.items()}
        return statistics.against_best(values, more_is_better(metric or self.spec.criterion))

    def tests(self, metric=None, evaluation=None):
        """The test of each data set and budget."""
        return {block: self.test(lines, metric, evaluation) for block, lines in self.blocks().items()}

    def ranks(self, metric=None, evaluation=None):
        """Average ranks over all data sets and budgets, of the names that are in each."""
        blocks = [
            {name: float(self.values(line, metric, evaluation).mean()) for name, line in lines.items()}
            for lines in self.blocks().values()
        ]
        everywhere = [name for name in next(iter(blocks), ()) if all(name in block for block in blocks)]
        table = {name: [block[name] for block in blocks] for name in everywhere}
        return statistics.average_ranks(table, more_is_better(metric or self.spec.criterion))

    def trials(self):
        """What was tried when settings were tuned, each with its criterion; the best of an algorithm first."""
        return [
            {"data": line.data, "budget": line.budget, "algorithm": line.algorithm, "settings": tried, "score": score}
            for line in self.lines
            for tried, score in sorted(
                line.trials, key=lambda trial: trial[1], reverse=more_is_better(self.spec.criterion)
            )
        ]

    def told(self):
        """Everything as JSON has it; the same specification gives the same."""
        return {
            "specification": asdict(self.spec),
            "versions": self.versions,
            "results": [self._line(line) for line in self.lines],
            "tests": [
                {"data": data, "budget": budget, "criterion": self.spec.criterion, "algorithms": found}
                for (data, budget), found in self.tests().items()
            ],
            "ranks": self.ranks(),
        }

    def _line(self, line):
        def run(counts):
            weights = weights_of(self.spec, line.setting)
            found = {name: metrics.told(counts, name, weights, line.classes) for name in metrics.EVALUATIONS}
            return found if self.spec.held_out else {"queried": int(asked_of(counts)), **found}

        runs = [run(counts) for counts in line.counts[:, -1]]
        return {
            "data": line.data,
            "algorithm": line.algorithm,
            "budget": line.budget,
            "settings": line.setting,
            "parameters": chosen(line.algorithm, line.setting).parameters,
            "tuned": self.spec.tune,
            "runs": [{"seed": self.spec.seed + k} | run for k, run in enumerate(runs)],
            "mean": metrics.over(runs, np.mean),
            "std": metrics.spread(runs),
        }


def begin(spec, store, name=None):
    """The id of the comparison of a name (by default one that its specification gives), made if there is none yet."""
    told = json.loads(json.dumps(asdict(spec)))
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:8]
    name = (name or f"{', '.join(spec.algorithms)[:80]} · {digest[:4]}").strip()
    if not store.has_comparison(name):
        return store.add_comparison(name, told, versions())
    about = store.comparison(name)
    if about["specification"] != told:
        raise ExperimentError(f"a comparison named {name} exists with other settings. Choose another name.")
    return about["id"]


def compare(spec, store, name=None, executor=None, *, folder=".", progress=None):
    """Run a comparison and keep it under a name; what is kept of one with the same name and specification is not run
    again, and its lines can be loaded as soon as they are complete."""
    ready = _ready(spec, store, folder)
    comparison = begin(spec, store, name)
    lines = _run(
        ready, executor, store.replays(comparison), lambda found: store.put_replays(comparison, found),
        _seldom(lambda lines: store.put_lines(comparison, _kept(lines))), progress or _nobody,
    )  # fmt: skip
    store.put_lines(comparison, _kept(lines), finished=True)
    about = store.comparison(comparison)
    return Comparison(about["name"], spec, about["versions"], lines)


def _seldom(call, seconds=1):
    """A call that is left out within so many seconds of the one before: for what is told in full each time."""
    last = -seconds

    def called(told):
        nonlocal last
        if time.monotonic() - last >= seconds:
            call(told)
            last = time.monotonic()

    return called


def _kept(lines):
    """Lines without their counts, which the replays have."""
    return [{key: value for key, value in vars(line).items() if key != "counts"} for line in lines]


def load(store, name):
    """A comparison that was kept, by its name or id, or as much of it as has a result."""
    about = store.comparison(name)
    spec, known = specification(about["specification"]), store.replays(about["id"])
    lines = [
        Line(**kept | {"classes": tuple(kept["classes"])}, counts=np.array([known[job] for job in kept["jobs"]]))
        for kept in about["lines"] or ()
    ]
    return Comparison(about["name"], spec, about["versions"], lines)
