"""Comparisons: one specification of data, algorithms, budgets and tuning to results that come out the same again.

A comparison is a set of contests (one data set, one algorithm, one budget). A contest is a generator: it asks for
replays, is sent their counts, and ends with its result, so that all contests share one pool of workers however each
tunes itself. A replay is a pure function of its job, which names rows on disk and holds numbers: any executor runs it,
anywhere, in any order, and what is finished is kept.
"""

import hashlib
import json
import os
import platform
import re
import time
import tomllib
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from . import __version__, datasets, demo, formats, metrics, rows, statistics, stream
from .algorithms import Strategy, strategy
from .datasets import Dataset, relabelled
from .parameters import named

TENS = "10^-5..10^5"
USUAL = dict.fromkeys(("C", "eta", "r", "delta", "delta_plus", "delta_minus", "b", "beta", "tau"), TENS) | {
    "q": (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
}  # the papers' grids, for parameters that a specification leaves to be tuned
PROTOCOLS = {
    "none": "every setting is run and shown",
    "2:1": "settings are the best over streams out of two thirds of the items; the others are the test",
    "cv": "settings are the best of a five-fold cross-validation: one pass over four folds, tested on the fifth",
    "hindsight": "settings are the best on the very orders that are shown: a bound, not a fair comparison",
}
FOLDS = 5
MOST_SETTINGS = 150  # of a full grid; a larger one is searched one parameter at a time, all of them twice
CHUNK = 16  # replays that are sent to a worker together
AHEAD = 32  # chunks that are with the workers before another contest begins
FREE = ("rho", "alpha_p", "c_p", "theta")  # keys of a setting that are no parameters of learner or rule


class ExperimentError(ValueError):
    """A specification that cannot be run, in one sentence."""


@dataclass(frozen=True)
class Specification:
    """What a comparison runs; `algorithms` maps a name (or learner + rule) to its parameters.

    data: names of stored data sets, `demo:NAME`, or {name, file, label, ...} to import; `NAME=CLASS` sets one of K
    classes against the rest. A parameter is a number, a list of numbers, or powers such as 10^-5..10^5. hit: the
    smoothing of the query rule is scaled so that a share (<= 1) or a number of labels is asked, whatever the budget.
    permutations: seeds seed, seed + 1, ... of orders and draws.
    """

    data: tuple = ()
    algorithms: dict = field(default_factory=dict)
    budgets: tuple = (None,)
    permutations: int = 10
    seed: int = 0
    tune: str = "none"
    trials: int = 3
    criterion: str = "f1"
    evaluation: str = "push"
    metric: str = "sum"
    rho: float | str = "auto"
    alpha_p: float = 0.5
    c_p: float = 0.9
    theta: float = 0.0
    average: bool = False
    points: int = 100
    hit: float | None = None

    def __post_init__(self):
        for name, low in (("permutations", 1), ("trials", 1), ("points", 1), ("seed", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < low:
                raise ExperimentError(f"{name} of a comparison must be a whole number >= {low}. Got {value}.")
        for name, allowed in (
            ("tune", PROTOCOLS),
            ("evaluation", metrics.EVALUATIONS),
            ("metric", ("sum", "cost")),
            ("criterion", (*metrics.METRICS, "macro_f1", "macro_recall")),
        ):
            if getattr(self, name) not in allowed:
                raise ExperimentError(
                    f"{name} of a comparison must be one of {', '.join(allowed)}. Got {getattr(self, name)}."
                )
        if not self.data or not self.algorithms:
            raise ExperimentError("a comparison needs at least one data set and one algorithm.")
        for budget in self.budgets:
            if budget is not None and (not isinstance(budget, int) or budget < 1):
                raise ExperimentError(f"a budget must be a whole number >= 1. Got {budget}.")
        if self.hit is not None and not self.hit > 0:
            raise ExperimentError(f"hit must be a share of the labels, or their number. Got {self.hit}.")
        metrics.Weights(self.alpha_p, self.c_p)
        for name, values in self.algorithms.items():
            grid(name, values, self.tune)

    @property
    def sign(self):
        """+1 where more of the criterion is better, -1 where less is."""
        return -1 if self.criterion == "cost" else 1


def specification(values):
    """A specification out of what JSON or TOML gives."""
    known = {each.name for each in fields(Specification)}
    for key in values:
        if key not in known:
            raise ExperimentError(f"a comparison has no setting {key}. It has {', '.join(sorted(known))}.")
    lists = {key: tuple(values[key]) for key in ("data", "budgets") if key in values}
    return Specification(**values | lists)


def contents(path):
    """What a specification in a JSON or TOML file says."""
    text = Path(path).read_text(encoding="utf-8")
    try:
        return json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        raise ExperimentError(f"{Path(path).name} is no specification: {error}.") from None


# ---- Settings


def chosen(name, values=()):
    """The strategy of an algorithm's name, or of `learner + rule`."""
    values = {key: value for key, value in dict(values).items() if key not in FREE}
    learner, plus, rule = name.partition("+")
    return strategy(None, learner.strip(), rule.strip(), values) if plus else strategy(name, values=values)


def powers(value):
    """The numbers that a value of a specification stands for: itself, a list's, or those of powers a^m..a^n."""
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([\d.]+)\^(-?\d+)\s*\.\.\s*\1\^(-?\d+)\s*", value)
        if found:
            return [float(found[1]) ** k for k in range(int(found[2]), int(found[3]) + 1)]
    return list(value) if isinstance(value, (list, tuple)) else [value]


def typed(text, key):
    """The values of a parameter as somebody types them: powers, or numbers separated by commas."""
    if "^" in text:
        return text
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ExperimentError(
            f"{key} must be a number, several (1, 10), or powers such as {TENS}. Got {text}."
        ) from None


def grid(name, values, tune):
    """The checked values of each key that is set or tuned for an algorithm; the usual ones where none is given."""
    base = chosen(name)
    found = {key: powers(value) for key, value in values.items()}
    if tune != "none" and not values:
        found = {
            key: powers(USUAL[key.rpartition(".")[2]]) for key in base.parameters if key.rpartition(".")[2] in USUAL
        }
        found = {key: value for key, value in found.items() if _settable(name, key, value[0])}
    for key, numbers in found.items():
        for number in numbers:
            if key == "rho" and number in ("auto", "laplace"):
                continue
            if not isinstance(number, (int, float)):
                raise ExperimentError(f"{key} of {name} must be numbers or powers such as {TENS}. Got {number}.")
            if key not in FREE:
                chosen(name, {key: number})
    return found


def has(name, key):
    """Whether an algorithm has a parameter, or a setting that every one has."""
    return key in FREE or key in chosen(name).parameters or (key == "delta" and _settable(name, key, 1.0))


def _settable(name, key, value):
    """Whether a name leaves a parameter free, as D-AMD does not with a."""
    try:
        return bool(chosen(name, {key: value}))
    except ValueError:
        return False


def settings(found):
    """Every combination of the values of a grid."""
    return [dict(zip(found, values)) for values in product(*found.values())]


# ---- Replays, wherever they run


class Source(NamedTuple):
    """Rows with labels, as a worker finds them: their folder, and the fingerprint of everything in it."""

    name: str
    folder: str
    fingerprint: str
    rounds: int
    classes: tuple
    positive: str | None


class Job(NamedTuple):
    """One replay, in numbers: what runs, and over which part of the items in which order.

    part: ("all", seed), ("tune", seed) or ("test", seed) of a 2:1 split, or ("fold", its number).
    """

    learner: str
    rule: str
    learner_parameters: dict
    rule_parameters: dict
    rho: float
    ratio: float
    theta: float
    budget: int | None
    average: bool
    part: tuple
    points: int


@lru_cache(maxsize=8)
def opened(source):
    """The rows and labels of a source, mapped into memory once in each worker."""
    folder = Path(source.folder)
    y = rows.read_only(np.load(folder / "y.npy", mmap_mode="r", allow_pickle=False), np.int8)
    if source.positive is not None:
        y = relabelled(y, source.classes, positive=source.positive)
    return rows.load(folder), y


def visits(rounds, part):
    """The orders of visit of a part: rows that are streamed, and rows that only test the learner afterwards."""
    kind, seed = part
    nobody = np.zeros(0, np.int64)
    if kind == "all":
        return stream.shuffled(rounds, seed), nobody
    mixed = stream.shuffled(rounds, 0)
    if kind == "fold":
        folds = np.array_split(mixed, FOLDS)
        return np.concatenate([fold for k, fold in enumerate(folds) if k != seed]), folds[seed]
    third = rounds // 3
    rest = mixed[:-third] if kind == "tune" else mixed[-third:]
    return rest[stream.shuffled(rest.size, seed)][:third], nobody


def replayed(source, jobs):
    """The tables of counts at each mark of some jobs; of a fold, those of the rows that are held out."""
    table, y = opened(source)
    return [_replayed(table, y, len(source.classes) * (source.positive is None), job) for job in jobs]


def _replayed(table, y, classes, job):
    order, held = visits(y.size, job.part)
    parts = Strategy("", *job[:4], None).build(table.columns, classes)
    goal = stream.objective(job.theta, job.rho, job.ratio)
    marks = np.unique(np.linspace(0, order.size, min(job.points, order.size) + 1).astype(np.int64)[1:])
    done = stream.replay(
        table, y, order, *parts, goal, budget=job.budget, seed=job.part[1], averaged=job.average, marks=marks
    )
    if not held.size:
        return done.curve
    counts, held = metrics.empty(classes), stream.checked_order(held, table)
    stream.until_query(table, y, held, *parts, goal, 0, 0, held.size, False, counts)
    return counts[None]


# ---- Contests


def evaluate(spec, classes, setting, counts, evaluation):
    """The metrics of tables of counts, under the weights of a setting where it has any."""
    if classes:
        return metrics.evaluate_classes(counts, evaluation)
    return metrics.evaluate(counts, evaluation, _weights(spec, setting))


def _weights(spec, setting):
    return metrics.Weights(*(setting.get(key, getattr(spec, key)) for key in ("alpha_p", "c_p")))


@dataclass(frozen=True)
class Line:
    """A line of a result: a setting of an algorithm on a data set with a budget, and what its runs counted.

    classes: the names of those told apart, none for one against the rest. trials: what was tried when it was tuned, as
    (setting, criterion). jobs: the keys of its replays. counts: (runs, marks, and a table of counts).
    """

    data: str
    algorithm: str
    budget: int | None
    classes: tuple
    setting: dict
    trials: list
    jobs: list
    counts: np.ndarray = field(compare=False, repr=False)

    @property
    def name(self):
        """The algorithm, with the setting where there is one."""
        return self.algorithm + (
            " "
            + ", ".join(
                f"{key}={value:g}" if isinstance(value, (int, float)) else f"{key}={value}"
                for key, value in self.setting.items()
            )
            if self.setting
            else ""
        )


@dataclass(frozen=True)
class Contest:
    """An algorithm on a data set with a budget: `run` yields lists of jobs, is sent their counts, and returns a Line.

    grid: the values of each parameter that are tried; a single one where nothing is tuned.
    """

    spec: Specification
    source: Source
    algorithm: str
    budget: int | None
    grid: dict

    @property
    def classes(self):
        """The names of the classes that are told apart, none for one against the rest."""
        return self.source.classes if self.source.positive is None else ()

    @property
    def shown(self):
        """The parts that the result is over."""
        spec = self.spec
        kind = "test" if spec.tune == "2:1" else "all"
        return [(kind, spec.seed + k) for k in range(spec.permutations)]

    @property
    def tried(self):
        """The parts that settings are tuned over."""
        kind, count = {"2:1": ("tune", self.spec.trials), "cv": ("fold", FOLDS)}.get(self.spec.tune, (None, 0))
        return [(kind, k) for k in range(count)] or self.shown

    def work(self):
        """About how many replays there are in all."""
        sizes = [len(values) for values in self.grid.values()]
        full = int(np.prod(sizes, dtype=float))
        steps = min(full, 2 * sum(sizes)) if full > MOST_SETTINGS else full
        if self.spec.tune == "none":
            steps = 0
        hits = max(1, steps) * STEPS * len(self.tried) if self.spec.hit else 0
        return steps * len(self.tried) + hits + len(self.shown)

    def job(self, setting, part, points=1, budget=True):
        about, spec = chosen(self.algorithm, setting), self.spec
        free = {key: setting.get(key, getattr(spec, key)) for key in FREE}
        weights = _weights(spec, setting)
        rho = about.rho if about.rho is not None else 1.0 if about.multiclass else self._rho(free["rho"], weights)
        return Job(
            about.learner, about.rule, about.learner_parameters, about.rule_parameters, rho, weights.ratio("sum"),
            free["theta"], self.budget if budget else None, spec.average, part, points,
        )  # fmt: skip

    def _rho(self, rho, weights):
        """The weight of positives: of the cost, estimated (0), or as a number; auto takes it from the labels."""
        if rho in ("auto", "laplace") and self.spec.metric == "cost":
            return weights.ratio("cost")
        if rho == "auto":
            y = opened(self.source)[1]
            return weights.ratio("sum") * float((y < 0).sum() / max(1, (y > 0).sum()))
        return 0.0 if rho == "laplace" else float(rho)

    def run(self):
        found, trials = self.grid, []
        if self.spec.tune == "none":
            [best] = yield from self._hitting(settings(found))
        elif np.prod([len(values) for values in found.values()], dtype=float) <= MOST_SETTINGS:
            best = yield from self._best(settings(found), trials)
        else:
            best = {key: values[len(values) // 2] for key, values in found.items()}
            for key, values in [*found.items()] * 2:
                best = yield from self._best([best | {key: value} for value in values], trials)
        jobs = [self.job(best, part, self.spec.points) for part in self.shown]
        counts = np.array((yield jobs))
        keys = [job_key(self.source, job) for job in jobs]
        return Line(self.source.name, self.algorithm, self.budget, self.classes, best, trials, keys, counts)

    def _best(self, choices, trials):
        """The choice with the best criterion over the parts that are tried; all of them are noted in trials."""
        choices = yield from self._hitting(choices)
        size = len(self.tried)
        counts = yield [self.job(choice, part) for choice in choices for part in self.tried]
        scores = [self._score(choice, counts[k * size : (k + 1) * size]) for k, choice in enumerate(choices)]
        trials += [[choice, abs(score)] for choice, score in zip(choices, scores)]
        return choices[int(np.argmax(scores))]

    def _score(self, setting, counts):
        found = evaluate(self.spec, self.classes, setting, np.array(counts)[:, -1], self.spec.evaluation)
        return float(self.spec.sign * found[self.spec.criterion].mean())

    def _hitting(self, choices):
        """The choices with the smoothing of the query rule scaled so that `hit` labels (or their share) are asked."""
        if self.spec.hit is None:
            return choices
        smooth = [key for key in chosen(self.algorithm).parameters if key.rpartition(".")[2] in SMOOTHING]
        if not smooth:
            raise ExperimentError(f"{self.algorithm} has no smoothing that could hit a number of labels.")
        start = [{key: chosen(self.algorithm, choice).parameters[key] for key in smooth} for choice in choices]
        low, high = np.full(len(choices), -20.0), np.full(len(choices), 20.0)
        for _ in range(STEPS):
            middle = (low + high) / 2
            scaled = [choice | _scaled(base, power) for choice, base, power in zip(choices, start, middle)]
            counts = yield [self.job(choice, part, budget=False) for choice in scaled for part in self.tried]
            counts = np.array(counts)[:, -1].reshape(len(choices), len(self.tried), *counts[0].shape[1:])
            items = counts.sum(axis=tuple(range(2, counts.ndim)))
            asked = counts[..., 1].sum(axis=tuple(range(2, counts.ndim - 1)))
            enough = asked.mean(1) >= (self.spec.hit if self.spec.hit > 1 else self.spec.hit * items.mean(1))
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return scaled


STEPS = 12  # of a bisection
SMOOTHING = ("delta", "delta_plus", "delta_minus", "b", "beta", "tau", "q")


def _scaled(base, power):
    return {key: min(1.0, value * 2.0**power) if key == "q" else value * 2.0**power for key, value in base.items()}


def job_key(source, job):
    """What tells a replay from every other: rows, labels, job and engine."""
    told = json.dumps([source.fingerprint, source.positive, *job, __version__], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:32]


# ---- Running them


def sources(spec, store, folder="."):
    """The data sets of a specification; what it names by a file is imported at its first use."""
    return [_source(store, entry, Path(folder)) for entry in spec.data]


def _source(store, entry, folder):
    name, positive = _named(store, entry, folder)
    data = Dataset(store, name)
    if positive is not None and positive not in data.classes:
        raise ExperimentError(f"{name} has no class {positive}. It has {', '.join(data.classes) or 'two'}.")
    if not data.labelled:
        raise ExperimentError(f"a comparison needs a label for every item, and {name} has some without.")
    shown = name if positive is None else f"{name}={positive}"
    return Source(shown, str(data.folder.resolve()), data.fingerprint, int(data.y.size), data.classes, positive)


def _named(store, entry, folder):
    """The name of a stored data set, and the class that stands against the rest, if any."""
    if not isinstance(entry, str):
        return imported(store, dict(entry), folder), None
    if entry.startswith("demo:"):
        which = named(demo.DEMOS, entry.removeprefix("demo:"), "demo")
        demo.dataset(store, which)
        return demo.DEMOS[which].name, None
    name, equals, positive = entry.rpartition("=")
    return (name, positive) if equals and not store.has_dataset(entry) else (entry, None)


def data_name(entry):
    """The name that an entry of a specification's data has or will have, with the class against the rest, if any."""
    if isinstance(entry, str):
        known = demo.DEMOS.get(entry.removeprefix("demo:"))
        return known.name if known and entry.startswith("demo:") else entry
    return entry.get("name") or Path(entry["file"]).name.split(".")[0]


def imported(store, about, folder):
    """The name of the data set that {name, file, scale, and columns as `formats.Columns` has them} is imported as."""
    name = data_name(about)
    about.pop("name", None)
    if not store.has_dataset(name):
        path, scale = folder / about.pop("file"), about.pop("scale", "l2")
        guess = formats.peek(path).guess
        given = {key: tuple(value) if isinstance(value, list) else value for key, value in about.items()}
        datasets.import_file(store, path, name, replace(guess, **given), scale)
    return name


def run(spec, store, executor=None, *, folder=".", known=None, keep=None, show=None, progress=None):
    """Run a comparison: its Lines, in the order of data sets, budgets and algorithms.

    executor: any concurrent.futures.Executor (threads by default). known: counts of replays by key that need not be run
    again. keep: a function that is given {key: counts} of what is finished. show: a function that is given the lines
    that are complete, each time that there are more. progress: a function of (done, total).
    """
    found = contests(spec, sources(spec, store, folder))
    for each in found:
        _fitting(each)
    own = executor or ThreadPoolExecutor(os.cpu_count())
    try:
        return _drive(found, own, dict(known or {}), keep or _nobody, show or _nobody, progress or _nobody)
    finally:
        if executor is None:
            own.shutdown(cancel_futures=True)


def _nobody(*told):
    """Hear what is told, and do nothing."""


def contests(spec, found):
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


def _fitting(contest):
    many = chosen(contest.algorithm).multiclass
    if many != bool(contest.classes):
        what = f"K classes: name one as {contest.source.name}=CLASS" if contest.classes else "two classes"
        raise ExperimentError(f"{contest.algorithm} does not work on {contest.source.name}, which has {what}.")


def _drive(contests, executor, known, keep, show, progress):
    """Advance contests side by side until each has returned its line."""
    running, results, waiting, futures = [each.run() for each in contests], {}, {}, {}
    total, done = sum(each.work() for each in contests), 0

    def advance(number, counts):
        """Send a contest its counts, and hand what it asks for next to the workers."""
        nonlocal done
        while True:
            try:
                jobs = running[number].send(counts)
            except StopIteration as end:
                results[number] = end.value
                show([results[each] for each in sorted(results)])
                return
            source = contests[number].source
            keys = [job_key(source, job) for job in jobs]
            counts = [known.get(each) for each in keys]
            missing = [k for k, found in enumerate(counts) if found is None]
            done += len(jobs) - len(missing)
            if missing:
                break
        waiting[number] = counts
        for start in range(0, len(missing), CHUNK):
            places = missing[start : start + CHUNK]
            future = executor.submit(replayed, source, [jobs[k] for k in places])
            futures[future] = number, places, [keys[k] for k in places]

    def begin():
        """Open contests as long as few replays wait, so that the first have their lines early."""
        while len(futures) < AHEAD and (number := next(fresh, None)) is not None:
            advance(number, None)

    fresh = iter(range(len(contests)))
    begin()
    progress(done, max(done, total))
    while futures:
        for future in wait(futures, return_when=FIRST_COMPLETED).done:
            number, places, keys = futures.pop(future)
            found = dict(zip(keys, future.result()))
            known |= found
            keep(found)
            done += len(places)
            progress(done, max(done, total))
            for place, each in zip(places, keys):
                waiting[number][place] = found[each]
            if all(counts is not None for counts in waiting[number]):
                advance(number, waiting.pop(number))
        begin()
    return [results[number] for number in range(len(contests))]


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
        asked = line.counts[..., 1].sum((-2, -1)).mean(0)
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
        return statistics.against_best(values, (metric or self.spec.criterion) != "cost")

    def tests(self, metric=None, evaluation=None):
        """The test of each data set and budget."""
        return {block: self.test(lines, metric, evaluation) for block, lines in self.blocks().items()}

    def ranks(self, metric=None, evaluation=None):
        """Average ranks over all data sets and budgets, of the names that are in each."""
        blocks = [
            {name: float(self.values(line, metric, evaluation).mean()) for name, line in lines.items()}
            for lines in self.blocks().values()
        ]
        everywhere = [name for name in (blocks or [{}])[0] if all(name in block for block in blocks)]
        table = {name: [block[name] for block in blocks] for name in everywhere}
        return statistics.average_ranks(table, (metric or self.spec.criterion) != "cost")

    def trials(self):
        """What was tried when settings were tuned, each with its criterion; the best of an algorithm first."""
        sign = 1 if self.spec.criterion != "cost" else -1
        return [
            {"data": line.data, "budget": line.budget, "algorithm": line.algorithm, "settings": tried, "score": score}
            for line in self.lines
            for tried, score in sorted(line.trials, key=lambda trial: -sign * trial[1])
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
            weights = _weights(self.spec, line.setting)
            found = {name: metrics.told(counts, name, weights, line.classes) for name in metrics.EVALUATIONS}
            return {"queried": int(counts[..., 1].sum()), **found}

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
    comparison = begin(spec, store, name)
    lines = run(
        spec, store, executor, folder=folder, known=store.replays(comparison), progress=progress,
        keep=lambda found: store.put_replays(comparison, found),
        show=_seldom(lambda lines: store.put_lines(comparison, _kept(lines))),
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


def versions():
    """What numbers may depend on."""
    import numba

    return {
        "engine": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }
