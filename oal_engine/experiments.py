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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, lru_cache
from itertools import product
from math import prod
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np

from . import __version__, datasets, demo, formats, metrics, statistics, stream
from .algorithms import Strategy, strategy
from .datasets import Dataset, mapped, relabelled
from .parameters import Parameter, named

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
CLASS_METRICS = ("accuracy", "macro_f1", "macro_recall")  # what may decide between K classes
FOLDS = 5
MOST_SETTINGS = 150  # of a full grid; a larger one is searched one parameter at a time, all of them twice
CHUNK = 16  # replays that are sent to a worker together, at most
AHEAD = 128  # chunks that are with the workers before another contest begins
FREE = {  # what a setting may hold beside the parameters of learner and rule
    "rho": Parameter(1.0, "Weight of positives in the update.", above=0),
    "alpha_p": Parameter(0.5, "Weight of sensitivity in sum.", above=0, below=1),
    "c_p": Parameter(0.9, "Cost of a missed positive.", above=0, below=1),
    "theta": Parameter(0.0, "Margins from here on predict positive."),
}
ESTIMATES = ("auto", "laplace")  # of rho: out of the labels of the data, or of those that were asked
SMOOTHING = {"delta", "delta_plus", "delta_minus", "b", "beta", "tau", "q"}  # of a rule: what decides how much is asked
STEPS = 12  # of the bisection that scales it


class ExperimentError(ValueError):
    """A specification that cannot be run, in one sentence."""


@dataclass(frozen=True)
class Specification:
    """What a comparison runs; `algorithms` maps a name (or learner + rule) to its parameters.

    data: names of stored data sets, `demo:NAME`, files, or {name, file, label, ...} to import; `NAME=CLASS` sets one of
    K classes against the rest. A parameter is a number, a list of numbers, or powers such as 10^-5..10^5. hit: the
    smoothing of the query rule is scaled so that a share (<= 1) or a number of labels is asked, whatever the budget.
    permutations: seeds seed, seed + 1, ... of orders and draws. held_out: a run streams over four folds of five and is
    measured by what it then predicts of the fifth; five runs are one cross-validation, the next five cut new folds.
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
    held_out: bool = False

    def __post_init__(self):
        self._check_values()
        self._check_data()
        for name, values in tables(self.algorithms).items():
            grid(name, values, self.tune)
        if self.held_out and self.tune == "2:1":
            raise ExperimentError("held_out of a comparison needs tune none, cv or hindsight. Got 2:1.")
        if self.hit is not None:
            if not _is_number(self.hit) or not self.hit > 0:
                raise ExperimentError(f"hit must be a share of the labels, or their number. Got {self.hit}.")
            for name in self.algorithms:
                smoothing(name)

    @property
    def sign(self):
        """+1 where more of the criterion is better, -1 where less is."""
        return 1 if more_is_better(self.criterion) else -1

    def _check_values(self):
        for name, low in (("permutations", 1), ("trials", 1), ("points", 1), ("seed", 0)):
            _whole(getattr(self, name), f"{name} of a comparison", low)
        for key in FREE:
            _allowed("a comparison", key, getattr(self, key))
        for name, allowed in (
            ("tune", tuple(PROTOCOLS)),
            ("evaluation", metrics.EVALUATIONS),
            ("metric", ("sum", "cost")),
            ("criterion", tuple(dict.fromkeys((*metrics.METRICS, *CLASS_METRICS)))),
            ("average", (True, False)),
            ("held_out", (True, False)),
        ):
            if getattr(self, name) not in allowed:
                words = ", ".join(map(str, allowed))
                raise ExperimentError(f"{name} of a comparison must be one of {words}. Got {getattr(self, name)}.")

    def _check_data(self):
        for name in ("data", "budgets"):
            value = getattr(self, name)
            if not isinstance(value, (list, tuple)) or not value:
                raise ExperimentError(f"{name} of a comparison must be a list of at least one. Got {value}.")
        for entry in self.data:
            if not isinstance(entry, (str, dict)):
                raise ExperimentError(f"a data set of a comparison must be a name or a table. Got {entry}.")
        for budget in self.budgets:
            if budget is not None:
                _whole(budget, "a budget", 1)
        if len(set(self.budgets)) < len(self.budgets):
            raise ExperimentError(f"budgets of a comparison must differ. Got {', '.join(map(str, self.budgets))}.")


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _whole(value, what, low):
    if type(value) is not int or not low <= value < 2**63:
        raise ExperimentError(f"{what} must be a whole number >= {low}. Got {value}.")


def _allowed(owner, key, value):
    """Refuse what rho, alpha_p, c_p or theta cannot be."""
    if key == "rho" and value in ESTIMATES:
        return
    if not _is_number(value):
        words = "auto, laplace or " * (key == "rho")
        raise ExperimentError(f"{key} of {owner} must be {words}a number. Got {value}.")
    FREE[key].check(value, key, owner)


def tables(algorithms):
    """The algorithms of a specification, where they are {name: {key: values}}."""
    if not isinstance(algorithms, dict) or not algorithms:
        raise ExperimentError(f"algorithms of a comparison must be a table of at least one. Got {algorithms}.")
    for name, values in algorithms.items():
        if not isinstance(values, dict):
            raise ExperimentError(f"the parameters of {name} must be a table. Got {values}.")
    return algorithms


def specification(values):
    """A specification out of what JSON or TOML gives."""
    known = {each.name for each in fields(Specification)}
    for key in values:
        if key not in known:
            raise ExperimentError(f"a comparison has no setting {key}. It has {', '.join(sorted(known))}.")
    return Specification(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})


def contents(path):
    """What a specification in a JSON or TOML file says."""
    text = Path(path).read_text(encoding="utf-8")
    try:
        return json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except ValueError as error:
        raise ExperimentError(f"{Path(path).name} is no specification: {error}.") from None


# ---- Settings


def chosen(name, values=()):
    """The strategy of an algorithm's name, or of `learner + rule`."""
    values = {key: value for key, value in dict(values).items() if key not in FREE}
    learner, plus, rule = name.partition("+")
    return strategy(None, learner.strip(), rule.strip(), values) if plus else strategy(name, values=values)


def powers(value):
    """The values that one of a specification stands for: itself, a list's, or those of powers a^m..a^n."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\^(-?\d{1,3})\s*\.\.\s*\1\^(-?\d{1,3})\s*", str(value))
    if found:
        try:
            return [float(found[1]) ** k for k in range(int(found[2]), int(found[3]) + 1)]
        except ArithmeticError:
            raise ExperimentError(f"powers must be within the numbers of a computer. Got {value}.") from None
    return list(value) if isinstance(value, (list, tuple)) else [value]


def typed(text, key):
    """The values of a parameter as somebody types them: powers, or numbers (of rho also words) separated by commas."""
    if "^" in text:
        return text
    try:
        return [part.strip() if part.strip() in ESTIMATES else float(part) for part in text.split(",")]
    except ValueError:
        raise ExperimentError(
            f"{key} must be a number, several (1, 10), or powers such as {TENS}. Got {text}."
        ) from None


def grid(name, values, tune):
    """The checked values of each key that is set or tuned for an algorithm; the usual ones where none is given."""
    about = chosen(name)
    if tune != "none" and not values:
        usual = {key: USUAL.get(key.rpartition(".")[2]) for key in about.parameters}
        values = {key: value for key, value in usual.items() if value}
    if "rho" in values and about.rho is not None:
        raise ExperimentError(f"rho of {name} is fixed at {about.rho:g}. Got {values['rho']}.")
    return {key: _checked(name, key, powers(value)) for key, value in values.items()}


def _checked(name, key, values):
    if not values:
        raise ExperimentError(f"{key} of {name} needs at least one value.")
    for value in values:
        if key in FREE:
            _allowed(name, key, value)
        elif _is_number(value):
            chosen(name, {key: value})
        else:
            raise ExperimentError(f"{key} of {name} must be numbers or powers such as {TENS}. Got {value}.")
    return list(dict.fromkeys(values))


def has(name, key):
    """Whether an algorithm has a parameter, or a setting that every one has."""
    about = chosen(name)
    both = key == "delta" and {"delta_plus", "delta_minus"} <= about.parameters.keys()
    return key in FREE or key in about.parameters or both


def settings(found):
    """Every combination of the values of a grid."""
    return [dict(zip(found, values)) for values in product(*found.values())]


def smoothing(name):
    """The keys of an algorithm's parameters that its rule asks more with the larger they are."""
    about = chosen(name)
    found = [key for key in about.parameters if key.removeprefix("rule.") in about.rule_parameters.keys() & SMOOTHING]
    if not found:
        raise ExperimentError(f"{name} has no smoothing that could hit a number of labels.")
    return found


# ---- Replays, wherever they run


class Source(NamedTuple):
    """Rows with labels, as a worker finds them: their folder, and the fingerprint of everything in it."""

    name: str
    folder: str
    fingerprint: str
    rounds: int
    classes: tuple
    positive: str | None

    @property
    def told_apart(self):
        """The names of the classes that are told apart, none for one against the rest."""
        return self.classes if self.positive is None else ()


class Job(NamedTuple):
    """One replay, in numbers: what runs, and over which part of the items in which order.

    part: what is streamed, and a seed of its order and of the draws: ("all", seed), ("tune", seed) or ("test", seed) of
    a 2:1 split, ("fold", seed) for all folds but one, ("held", seed) for the same stream, counted over that one after.
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


PLACES = {}  # fingerprint: the folder of rows that were uploaded to this worker


@lru_cache(maxsize=8)
def opened(source):
    """The rows and labels of a source, opened once in each worker."""
    table, y = mapped(PLACES.get(source.fingerprint, source.folder), source.rounds)
    return table, y if source.positive is None else relabelled(y, source.classes, positive=source.positive)


def split(rounds):
    """A 2:1 split of the items: those that settings are tuned over, and those that test them."""
    mixed, third = stream.shuffled(rounds, 0), rounds // 3
    return mixed[:-third], mixed[-third:]


def folds(rounds, seed):
    """The items that are streamed, and the fold that is held out; five seeds in a row hold out each item once."""
    found = np.array_split(stream.shuffled(rounds, seed // FOLDS), FOLDS)
    held = found.pop(seed % FOLDS)
    return np.concatenate(found), held


@lru_cache(maxsize=32)
def order(rounds, part):
    """The items of a part in the order of visit."""
    kind, seed = part
    if kind == "all":
        return stream.shuffled(rounds, seed)
    if kind in ("fold", "held"):
        return folds(rounds, seed)[0]
    rest = split(rounds)[kind == "test"]
    return rest[stream.shuffled(rest.size, seed)][: rounds // 3]


@lru_cache(maxsize=64)
def imbalance(source, part):
    """T_n / T_p of the items that a run over a part may know: none that only test it."""
    kind, seed = part
    y = opened(source)[1]
    if kind != "all":
        y = y[split(y.size)[0] if kind in ("tune", "test") else folds(y.size, seed)[0]]
    return float((y < 0).sum() / max(1, (y > 0).sum()))


def replayed(source, jobs):
    """The tables of counts of each job: at marks over its stream, or one of the items that are held out."""
    return [_replayed(*opened(source), len(source.told_apart), job) for job in jobs]


def _replayed(table, y, classes, job):
    visits, seed = order(y.size, job.part), job.part[1]
    parts = Strategy("", *job[:4], None).build(table.columns, classes)
    goal = stream.objective(job.theta, job.rho, job.ratio)
    marks = np.linspace(0, visits.size, min(job.points, visits.size) + 1).astype(np.int64)[1:]
    done = stream.replay(
        table, y, visits, *parts, goal, budget=job.budget, seed=seed, averaged=job.average, marks=marks
    )
    if job.part[0] != "held":
        return done.curve
    held, counts = stream.checked_order(folds(y.size, seed)[1], table), metrics.empty(classes)
    stream.until_query(table, y, held, *parts, goal, seed, 0, held.size, False, counts)
    return counts[None]


# ---- Contests


def evaluate(spec, classes, setting, counts, evaluation):
    """The metrics of tables of counts, under the weights of a setting where it has any."""
    if classes:
        return metrics.evaluate_classes(counts, evaluation)
    return metrics.evaluate(counts, evaluation, _weights(spec, setting))


def _weights(spec, setting):
    return metrics.Weights(*(setting.get(key, getattr(spec, key)) for key in ("alpha_p", "c_p")))


def more_is_better(metric):
    """Whether a larger value of a metric is a better one."""
    return metric != "cost"


def _asked(counts):
    """How many labels were asked, of tables of counts."""
    return counts[..., 1].sum((-2, -1))


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
        return f"{self.algorithm} {outlined(self.setting)}".strip()

    @property
    def asked(self):
        """The labels that each run asked for."""
        return _asked(self.counts[:, -1])


def outlined(setting):
    """A setting in words: C=0.1, delta=1."""
    return ", ".join(f"{key}={value:g}" if _is_number(value) else f"{key}={value}" for key, value in setting.items())


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

    @cached_property
    def sizes(self):
        """How many settings the grid has, and how many a search one parameter at a time would try."""
        sizes = [len(values) for values in self.grid.values()]
        return prod(sizes), 2 * sum(sizes)

    @property
    def searched(self):
        """Whether the grid is too large to be tried as a whole."""
        full, one_by_one = self.sizes
        return full > max(MOST_SETTINGS, one_by_one)

    @property
    def shown(self):
        """The parts that the result is over."""
        spec = self.spec
        kind = "held" if spec.held_out else "test" if spec.tune == "2:1" else "all"
        return [(kind, spec.seed + k) for k in range(spec.permutations)]

    @property
    def tried(self):
        """The parts that settings are tuned over."""
        kind, count = {"2:1": ("tune", self.spec.trials), "cv": ("held", FOLDS)}.get(self.spec.tune, (None, 0))
        return [(kind, k) for k in range(count)] or self.shown

    def work(self):
        """About how many replays there are in all."""
        full, one_by_one = self.sizes
        tried = 0 if self.spec.tune == "none" else one_by_one if self.searched else full
        scaled = max(1, tried) * STEPS if self.spec.hit else 0
        return (tried + scaled) * len(self.tried) + len(self.shown)

    def job(self, setting, part, points=1, budget=True):
        """The replay of a setting over a part, with the counts at so many marks; without a limit of labels if asked."""
        about, spec = chosen(self.algorithm, setting), self.spec
        free = {key: setting.get(key, getattr(spec, key)) for key in FREE}
        weights = _weights(spec, setting)
        rho = 1.0 if about.multiclass else self._rho(free["rho"], weights, part) if about.rho is None else about.rho
        return Job(
            about.learner, about.rule, about.learner_parameters, about.rule_parameters, rho, weights.ratio("sum"),
            free["theta"], self.budget if budget else None, spec.average, part, points,
        )  # fmt: skip

    def _rho(self, rho, weights, part):
        """The weight of positives: of the cost, estimated (0), or as a number; auto takes it from the labels."""
        if rho in ESTIMATES and self.spec.metric == "cost":
            return weights.ratio("cost")
        if rho == "auto":
            return weights.ratio("sum") * imbalance(self.source, part)
        return 0.0 if rho == "laplace" else float(rho)

    def run(self):
        """The line of the only setting, or of the one that is best where settings are tuned."""
        trials = []
        if self.spec.tune == "none":
            [best] = yield from self._hitting(settings(self.grid))
        else:
            best = yield from self._tuned(trials)
        [counts] = yield from self._over([best], self.shown, self.spec.points)
        keys = [job_key(self.source, self.job(best, part, self.spec.points)) for part in self.shown]
        return Line(self.source.name, self.algorithm, self.budget, self.source.told_apart, best, trials, keys, counts)

    def _over(self, choices, parts, points=1, budget=True):
        """The counts (choices, parts, marks, ...); jobs over the same part are neighbours, for they share its order."""
        counts = yield [self.job(choice, part, points, budget) for part in parts for choice in choices]
        return np.reshape(counts, (len(parts), len(choices), *counts[0].shape)).swapaxes(0, 1)

    def _tuned(self, trials):
        """The best choice of the grid; all that are tried are noted in trials."""
        if not self.searched:
            return (yield from self._best(settings(self.grid), trials))
        best = {key: values[len(values) // 2] for key, values in self.grid.items()}
        for key, values in [*self.grid.items()] * 2:
            best = yield from self._best([best | {key: value} for value in values], trials)
        return best

    def _best(self, choices, trials):
        """The choice with the best criterion over the parts that are tried."""
        choices = yield from self._hitting(choices)
        counts = yield from self._over(choices, self.tried)
        scores = [self._score(choice, found) for choice, found in zip(choices, counts)]
        trials += [trial for trial in map(list, zip(choices, scores)) if trial not in trials]
        return choices[int(np.argmax(self.spec.sign * np.array(scores)))]

    def _score(self, setting, counts):
        """The criterion, on average over the parts."""
        found = evaluate(self.spec, self.source.told_apart, setting, counts[:, -1], self.spec.evaluation)
        return float(found[self.spec.criterion].mean())

    def _hitting(self, choices):
        """The choices with the smoothing of the query rule scaled so that `hit` labels (or their share) are asked."""
        hit = self.spec.hit
        if hit is None:
            return choices
        keys, parts = smoothing(self.algorithm), [("fold" if kind == "held" else kind, k) for kind, k in self.tried]
        start = [{key: chosen(self.algorithm, choice).parameters[key] for key in keys} for choice in choices]
        low, high = np.full(len(choices), -20.0), np.full(len(choices), 20.0)
        for _ in range(STEPS):
            middle = (low + high) / 2
            scaled = [choice | _scaled(base, power) for choice, base, power in zip(choices, start, middle)]
            counts = (yield from self._over(scaled, parts, budget=False))[:, :, -1]
            wanted = hit if hit > 1 else hit * counts.sum((-3, -2, -1)).mean(1)
            enough = _asked(counts).mean(1) >= wanted
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return scaled


def _scaled(base, power):
    return {
        key: min(1.0, value * 2.0**power) if key.endswith("q") else value * 2.0**power for key, value in base.items()
    }


def job_key(source, job):
    """What tells a replay from every other: rows, labels, job and engine."""
    told = json.dumps([source.fingerprint, source.positive, *job, __version__], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:32]


# ---- Running them


def sources(spec, store, folder="."):
    """The data sets of a specification; what it names by a file is imported at its first use."""
    found = [_source(store, entry, Path(folder)) for entry in spec.data]
    if len({source.name for source in found}) < len(found):
        raise ExperimentError(f"data sets must differ. Got {', '.join(source.name for source in found)}.")
    return found


def _source(store, entry, folder):
    name, positive = _named(store, entry, folder)
    data = Dataset(store, name)
    if positive is not None and positive not in data.classes:
        raise ExperimentError(f"{name} has no class {positive}. It has {', '.join(data.classes) or 'two'}.")
    if not data.labelled:
        raise ExperimentError(f"a comparison needs a label for every item, and {name} has some without.")
    if data.y.size < FOLDS:
        raise ExperimentError(f"a comparison needs {FOLDS} items or more. {name} has {data.y.size}.")
    shown = name if positive is None else f"{name}={positive}"
    return Source(shown, str(data.folder.resolve()), data.fingerprint, int(data.y.size), data.classes, positive)


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


def _ready(spec, store, folder):
    """The contests of a comparison, which are known to fit their data."""
    found = contests(spec, sources(spec, store, folder))
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
        asked = _asked(line.counts).mean(0)
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
            weights = _weights(self.spec, line.setting)
            found = {name: metrics.told(counts, name, weights, line.classes) for name in metrics.EVALUATIONS}
            return found if self.spec.held_out else {"queried": int(_asked(counts)), **found}

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


def versions():
    """What numbers may depend on."""
    import numba

    return {
        "engine": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }
