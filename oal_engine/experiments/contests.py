"""Contests: an algorithm on a data set with a budget asks for replays, is sent their counts, and ends with a line.

A contest is a generator, so that all of a comparison share one pool of workers however each tunes itself. A replay is a
pure function of its job, which names rows on disk and holds numbers: any executor runs it, anywhere, in any order.
"""

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import inf, prod
from typing import NamedTuple

import numpy as np

from .. import __version__
from ..datasets import mapped, relabelled
from ..kernel import metrics, stream
from ..kernel.algorithms import Strategy
from .specifications import ESTIMATES, FREE, Specification, chosen, outlined, settings, smoothing

FOLDS = 5
MOST_SETTINGS = 150  # of a full grid; a larger one is searched one parameter at a time, all of them twice
STEPS = 12  # of the bisection that scales it


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
    return metrics.evaluate(counts, evaluation, weights_of(spec, setting))


def weights_of(spec, setting):
    """The weights of a setting, where it has any, or of the specification."""
    return metrics.Weights(*(setting.get(key, getattr(spec, key)) for key in ("alpha_p", "c_p")))


def asked_of(counts):
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
        return asked_of(self.counts[:, -1])


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
        weights = weights_of(spec, setting)
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


def _scaled(scales, base, power):
    """The values of some parameters times 2^power, none above what is allowed."""
    most = {key: inf if spec.high is None else float(spec.high) for key, spec in scales.items()}
    return {key: min(most[key], value * 2.0**power) for key, value in base.items()}


def job_key(source, job):
    """What tells a replay from every other: rows, labels, job and engine."""
    told = json.dumps([source.fingerprint, source.positive, *job, __version__], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:32]
