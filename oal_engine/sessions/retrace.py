"""A session looked at after the fact: any question and any round of it, whether it verifies, and what if it had run
under another algorithm. Nothing here writes."""

from bisect import bisect_left
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import inf
from typing import NamedTuple

import numpy as np

from .. import __version__
from ..kernel import metrics, stream
from ..kernel.algorithms import ALGORITHMS
from ..kernel.learners import weights
from ..kernel.query_rules import paceable
from . import learned
from .runs import SKIP, Asked, Departed, Place, Progress, Run, answered
from .session import effective_rho

KEPT_EVERY = 20  # answers between two kept states, or more where they would take too much memory
KEPT_BYTES = 64 * 2**20
ENOUGH = 0.6  # of the questions of another algorithm must have answers, for its curve to be drawn


@dataclass(frozen=True)
class Passed:
    """Rounds that passed without a question: the first (0-based), how many, how many were pushed (None: K classes), and
    the range of their margins (None: no round)."""

    first: int
    rounds: int
    pushed: int | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Step:
    """A question: the place before its answer, its entry in the log (None: the end of the session), the rounds that
    passed before it, and the weights that its answer moved, most first."""

    place: Place
    entry: dict | None
    passed: Passed
    moved: list


@dataclass(frozen=True)
class Round:
    """A round that asked nothing: its item, what was decided, and the progress, the learner's weights and the counts
    with it. number: of the question after it, or of the end."""

    round: int
    item: int
    margin: float
    probability: float
    draw: float
    predicted: int
    number: int
    progress: Progress
    weights: np.ndarray
    counts: np.ndarray


@dataclass(frozen=True)
class Report:
    """Whether a session verifies: questions, answers and digests that came out again, the engine versions then and now,
    and, where it departs, the question, the round (from 1), the sentence, and what was recorded and what came out."""

    session: int
    name: str
    questions: int
    answers: int
    digests: int
    engine_then: str
    engine_now: str
    number: int | None = None
    round: int | None = None
    sentence: str | None = None
    recorded: dict | None = None
    found: dict | None = None

    @property
    def verified(self):
        """Whether nothing differs."""
        return self.sentence is None

    def as_dict(self):
        """The report as JSON has it."""
        return {"verified": self.verified} | asdict(self)

    def __str__(self):
        checked = (
            f"{_counted(self.questions, 'question')}, {_counted(self.answers, 'answer')} and "
            f"{_counted(self.digests, 'stored digest')}"
        )
        versions = f"It was made with engine {self.engine_then} and is checked with {self.engine_now}."
        if self.verified:
            how = "bit for bit" if self.engine_then == self.engine_now else "to rounding"
            return f"Verified {how}: {checked} were reproduced. {versions}"
        wrong = "the state after it" if self.answers == self.number else "it"
        return (
            f"Departs in round {self.round:,}, at question {self.number:,}: {wrong} is not the one recorded. "
            f"Before that, {checked} were reproduced. {versions}"
        )


class Version(NamedTuple):
    """What changes with the log of a session (`Store.log_version`), its questions and its stream."""

    log: int
    questions: int
    items: int


def version(store, session):
    """The version of a session now."""
    items = store.length(store.session(session)["dataset"])
    return Version(store.log_version(session), store.asked(session), items)


def _counted(number, what):
    return f"{number:,} {what}{'s' * (number != 1)}"


class Trace(Run):
    """The log of a session, run once from its first round as far as it comes out; any place of it opens quickly.

    `log` is that part. departed: the Departed that ended it, or None. Safe to share between threads.
    """

    def __init__(self, store, session):
        with store.snapshot():
            log, self.digests, self._changes = (ask(session) for ask in (store.answers, store.digests, store.changes))
            self.version, about = version(store, session), store.session(session)
        super().__init__(store, about, self.version.items)
        self.id = session
        self.departed, self._kept = None, {0: self.fresh(self.ends(log, self._changes, 0))}
        try:
            for done, state in enumerate(self.follow(log, self.digests, self._changes)):
                size = sum(array.nbytes for array in state.arrays()) + 8 * len(log)
                if done and done % max(KEPT_EVERY, -(-len(log) * size // KEPT_BYTES)) == 0:
                    self._kept[done] = state.copy()
        except Departed as departed:
            self.departed = departed
            log = log[: departed.answers]
        self.log, self._answers = log, answered(log)
        self._state = self._after(len(self._answers) - bool(self.departed and log))
        if not self.departed:
            self.change(self._state, log, self._changes, len(self._answers))

    def _after(self, answers):
        """The state after so many answers, as its question was asked; the caller's own."""
        kept = max(done for done in self._kept if done <= answers)
        state = self._kept[kept].copy()
        for done in range(kept, answers):
            self.change(state, self.log, self._changes, done)
            state = self.advance(state, self.log[done]["first"], self.ends(self.log, self._changes, done + 1))
        return state

    @property
    def steps(self):
        """How many places can be opened: every question, and the end where there is one."""
        return len(self.log) + self.complete

    @property
    def complete(self):
        """Whether the budget is spent, or the stream has ended."""
        return self.departed is None and self.ended(self._state)

    @property
    def reached(self):
        """How many rounds can be opened."""
        if self.complete:
            return self.rounds
        return self.log[-1]["round"] + 1 if self.log else 0

    def step(self, number):
        """The question of a number from 1, or the end behind the last."""
        state = self._after(number - 1)
        entry = self.log[number - 1] if number <= len(self.log) else None
        asked = entry and Asked(
            entry["id"], number, entry["round"], entry["item"], entry["margin"], entry["probability"],
            entry["predicted"], None, entry["audit"],
        )  # fmt: skip
        passed = self._passed(state, number)
        if not entry:  # the end is as it is now
            self.change(state, self.log, self._changes, number - 1)
        place = self.place_of(state, asked, self._stood(number, entry["round"] if entry else inf))
        place = Place(asked, place.progress, weights(state.learner).copy(), place.counts.copy())
        moved = []
        if entry and entry["first"]:
            self.change(state, self.log, self._changes, number - 1)
            before = weights(state.learner).copy()
            moved = learned.moved(before, weights(self.advance(state, entry["first"]).learner))
        return Step(place, entry, passed, moved)

    def _stood(self, number, t):
        """The answers before a question, as they stood in round t."""
        labels = {entry["id"]: entry["first"] for entry in self.log[: number - 1]}
        for change in self._changes:
            end = inf if change["at_end"] is None else change["at_end"]  # with a question that waited
            if change["question"] and (change["position"], end) <= (number - 1, t):
                labels[change["question"]] = change["label"]
        return [(id, "", label) for id, label in labels.items()]

    def _gap(self, number):
        """The first round after the question before the one of this number, and the first not before this one."""
        first = self.log[number - 2]["round"] + 1 if number > 1 else 0
        return first, self.log[number - 1]["round"] if number <= len(self.log) else self.rounds

    def _look(self, state, first, stop):
        """Margin, probability, draw and prediction of rounds between two questions, the counts after them, and the
        state that decided the last of them."""
        found = np.zeros((stop - first, 4))
        start = next((counts for rounds, counts in reversed(state.trail) if rounds == first), None)
        counts, t = np.zeros_like(state.counts) if start is None else start.copy(), first
        for own in (*state.earlier, state):
            end = stop if own is state else min(stop, own.question.t)
            own = own.copy()  # a rule may leave its work in the learner
            stream.passed(
                self.dataset.rows, self.y, self.order, own.learner, own.rule, own.objective, self.about["seed"],
                t, own.before or True, counts, found[t - first : end - first],
            )  # fmt: skip
            t = end
            if t == stop:
                return found, counts, own

    def _passed(self, state, number):
        first, stop = self._gap(number)
        if first == stop:
            return Passed(first, 0, None if self.multiclass else 0, None, None)
        found, *_ = self._look(state, first, stop)
        pushed = None if self.multiclass else int((found[:, 3] > 0).sum())
        return Passed(first, stop - first, pushed, float(found[:, 0].min()), float(found[:, 0].max()))

    def number(self, t):
        """The number of the question in round t (from 0), or of the first behind it, or of the end."""
        return 1 + bisect_left(self.log, t, key=lambda entry: entry["round"])

    def round(self, t):
        """What was decided in round t (from 0), in which nothing was asked."""
        number = self.number(t)
        found, counts, state = self._look(self._after(number - 1), self._gap(number)[0], t + 1)
        margin, probability, draw, predicted = found[-1].tolist()
        if state.spent >= self.about["budget"]:
            probability = 0.0
        place = self.place_of(state, None, self._stood(number, t))
        return Round(
            t, int(self.order[t]), margin, probability, draw, int(predicted), number, place.progress, place.weights,
            counts,
        )  # fmt: skip

    @cached_property
    def mistakes(self):
        """The numbers of the questions that were answered with another class than predicted."""
        return [entry["number"] for entry in learned.mistakes(self.log)]

    @cached_property
    def surprises(self):
        """The numbers of the mistakes made with confidence."""
        theta = 0 if self.multiclass else self.about["theta"]
        return [entry["number"] for entry in learned.surprises(self.log, theta)]

    @property
    def report(self):
        """What was checked, and where it departs."""
        answers, about = len(self._answers), self.about
        checked = sum(done <= answers for done in self.digests) * self.exact
        report = Report(self.id, about["name"], len(self.log), answers, checked, about["engine"], __version__)
        if not self.departed:
            return report
        entry, found = self.departed.entry, self.departed.found
        recorded = {key: entry[key] for key in found or ("round", "item")}
        return replace(
            report,
            digests=checked - (answers in self.digests and entry in self.log),
            number=entry["number"],
            round=1 + min(entry["round"], found["round"] if found else entry["round"]),
            sentence=str(self.departed),
            recorded=recorded,
            found=found,
        )


@dataclass(frozen=True)
class WhatIf:
    """The same stream under another algorithm, as far as the session got: its run, what it asked (round from 1, class
    predicted, answer or 0 where there is none), whether every answer is the truth, and how many of the session's own
    answers are not."""

    run: Run
    asked: list
    exact: bool
    different: int

    @property
    def share(self):
        """The share of its questions that have answers."""
        return sum(label != SKIP for *_, label in self.asked) / len(self.asked) if self.asked else 1.0

    @property
    def enough(self):
        """Whether its curve says something: answers chosen by another rule are no fair sample of its questions."""
        return self.exact or self.share >= ENOUGH


def what_if(trace, chosen):
    """Run the rounds that a session has seen under another strategy, with its budget, order, draws and weights.

    Questions are answered by the data's own labels where every item has one, else by the answers of the session; one
    without an answer costs its label and teaches nothing.
    """
    about = trace.about
    own = ALGORITHMS.get(about["algorithm"])
    rho = "laplace" if own and own.rho is not None else about["rho"]
    if chosen.multiclass != trace.multiclass:
        kind = "several classes" if trace.multiclass else "positives and negatives"
        raise ValueError(f"the session tells {kind} apart. Got {chosen.algorithm}.")
    settings = {
        "algorithm": chosen.algorithm,
        "learner": chosen.learner,
        "rule": chosen.rule,
        "parameters": {"learner": chosen.learner_parameters, "rule": chosen.rule_parameters},
        "rho": effective_rho(chosen, rho, trace.weights, about["metric"]),
        "pace": about["pace"] if chosen.rule in paceable() else None,
    }
    run = Run(trace.store, about | settings, trace.reached)
    answers = {entry["item"]: entry["label"] for entry in trace.log if entry["label"]}
    known = run.y if trace.labelled else answers
    asked, state = [], run.fresh()
    while not run.ended(state):
        item = int(run.order[state.question.t])
        label = int(known[item]) if trace.labelled or item in answers else SKIP
        asked.append((state.question.t + 1, state.question.predicted, label))
        if label == SKIP:
            state.spent, state.audited = state.spent + 1, state.audited + state.question.audit
        state = run.advance(state, label)
    run._state, run._answers = state, [(0, "", label) for *_, label in asked]
    different = sum(label != run.y[item] for item, label in answers.items()) if trace.labelled else 0
    return WhatIf(run, asked, trace.labelled, different)


def verify(store, session):
    """The report of a session, from its log as it is now."""
    return Trace(store, session).report


def confusion(run, counts, evaluation):
    """A square table of items, a row a class that is true and a column a class it passed as, in the order of names."""
    if run.multiclass:
        return metrics.class_confusion(counts, evaluation).tolist()
    tp, fp, tn, fn = (int(value) for value in metrics.confusion(counts, evaluation))
    return [[tp, fn], [fp, tn]]


def answers_confusion(trace, number):
    """The same of the questions before a number: a row a class that was answered, a column a class predicted."""
    place = {label: k for k, label in enumerate(trace.names)}
    table = np.zeros((len(place), len(place)), int)
    for entry in trace.log[: number - 1]:
        if entry["label"]:
            table[place[entry["label"]], place[entry["predicted"]]] += 1
    return table.tolist()
