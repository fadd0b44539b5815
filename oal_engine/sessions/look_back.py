"""A session looked at after the fact: any question and any round of it, whether it verifies, and what if it had run
under another algorithm. Nothing here writes."""

from bisect import bisect_left
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .. import __version__
from ..kernel import metrics, stream
from ..kernel.algorithms import ALGORITHMS
from ..kernel.learners import weights
from ..kernel.query_rules import paceable
from . import top_terms
from .fold import LogMismatch, Place, Progress, Run
from .log import Answered, Entry, Grown, Log, Unanswered
from .settings import SKIP, Settings, effective_rho

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
    entry: Entry | None
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
    return Version(store.log_version(session), store.question_count(session), items)


def _counted(number, what):
    return f"{number:,} {what}{'s' * (number != 1)}"


class Trace(Run):
    """The log of a session, folded once from its first round as far as it is reproduced; any place of it opens quickly.

    `log` has the entries of that part. mismatch: the LogMismatch that ended it, or None. Safe to share between threads.
    """

    def __init__(self, store, session: int):
        with store.snapshot():
            log, settings = Log.read(store, session), Settings.read(store, session)
            self.version = version(store, session)
        super().__init__(store, settings, self.version.items)
        self.id, self.digests, self.mismatch, self._kept = session, log.digests, None, {}
        try:
            for done, state in enumerate(self.follow(log)):
                size = sum(array.nbytes for array in state.arrays()) + 8 * len(log.entries)
                if done % max(KEPT_EVERY, -(-len(log.entries) * size // KEPT_BYTES)) == 0:
                    self._kept[done] = state.copy()
        except LogMismatch as mismatch:
            self.mismatch = mismatch
            log = log.cut(mismatch.answers)
        self.log = log.entries
        self._events, self._asked_at = log.events(self.rounds)
        self.answers = log.answers
        self.state = self._after(max(0, self.answers - 1)) if self.mismatch else state

    def _states(self, first, stop):
        """The states after so many events, up to and with `stop`, changed in place; the caller's own."""
        kept = max(done for done in self._kept if done <= first)
        state = self._kept[kept].copy()
        for done in range(kept, stop + 1):
            if done > kept:
                state = self.apply(state, self._events[done - 1])
            if done >= first:
                yield state

    def _after(self, answers):
        """The state after so many answers, as its question was asked; the caller's own."""
        at = self._asked_at[answers]
        return next(self._states(at, at))

    @property
    def steps(self):
        """How many places can be opened: every question, and the end where there is one."""
        return len(self.log) + self.complete

    @property
    def complete(self):
        """Whether the budget is spent, or the stream has ended."""
        return self.mismatch is None and self.ended(self.state)

    @property
    def reached(self):
        """How many rounds can be opened."""
        if self.complete:
            return self.rounds
        return self.log[-1].round + 1 if self.log else 0

    def step(self, number):
        """The question of a number from 1, or the end behind the last."""
        entry = self.log[number - 1] if number <= len(self.log) else None
        passed = self._passed(number)
        if not entry:  # the end is as it is now
            return Step(self._own(self.place_of(self.state, None)), None, passed, [])
        place = self._own(self.place_of(self._after(number - 1), entry.question()))
        return Step(place, entry, passed, self._moved(number) if entry.first else [])

    def _own(self, place):
        """A place that stays as it is."""
        return replace(place, weights=place.weights.copy(), counts=place.counts.copy())

    def _moved(self, number):
        """What the answer to a question changed, with the labels that stood when it was given."""
        for done, state in enumerate(self._states(self._asked_at[number - 1], len(self._events))):
            event = self._events[self._asked_at[number - 1] + done]
            if isinstance(event, Answered):
                before = weights(state.learner).copy()
                return top_terms.moved(before, weights(self.apply(state, event).learner))

    def _gap(self, number):
        """The first round after the question before the one of this number, and the first not before this one."""
        first = self.log[number - 2].round + 1 if number > 1 else 0
        return first, self.log[number - 1].round if number <= len(self.log) else self.rounds

    def _inspect(self, number, first, stop):
        """Margin, probability, draw and prediction of rounds between two questions, the counts after them, and the
        state that decided the last of them."""
        facts, counts, t = np.zeros((stop - first, 4)), None, first
        begin = self._asked_at[number - 2] + 1 if number > 1 else 0
        for state in self._states(begin, self._asked_at[number - 1]):
            end = min(stop, state.question.t)
            if counts is None:
                before = (counts for rounds, counts in reversed(state.trail) if rounds == first)
                counts = next(before, np.zeros_like(state.counts)).copy()
            if t < end:
                own = state.copy()  # a rule may leave its work in the learner
                stream.inspect_rounds(
                    self.dataset.rows, self.y, self.order, own.learner, own.rule, own.objective, self.settings.seed,
                    t, own.before or True, counts, facts[t - first : end - first],
                )  # fmt: skip
                t = end
            if t == stop:
                return facts, counts, own

    def _passed(self, number):
        first, stop = self._gap(number)
        if first == stop:
            return Passed(first, 0, None if self.multiclass else 0, None, None)
        facts, *_ = self._inspect(number, first, stop)
        pushed = None if self.multiclass else int((facts[:, 3] > 0).sum())
        return Passed(first, stop - first, pushed, float(facts[:, 0].min()), float(facts[:, 0].max()))

    def number(self, t):
        """The number of the question in round t (from 0), or of the first behind it, or of the end."""
        return 1 + bisect_left(self.log, t, key=lambda entry: entry.round)

    def round(self, t):
        """What was decided in round t (from 0), in which nothing was asked."""
        number = self.number(t)
        facts, counts, state = self._inspect(number, self._gap(number)[0], t + 1)
        margin, probability, draw, predicted = facts[-1].tolist()
        if state.spent >= self.settings.budget:
            probability = 0.0
        place = self.place_of(state, None)
        return Round(
            t, int(self.order[t]), margin, probability, draw, int(predicted), number, place.progress, place.weights,
            counts,
        )  # fmt: skip

    @cached_property
    def mistakes(self):
        """The numbers of the questions that were answered with another class than predicted."""
        return [entry.number for entry in self.log if entry.mistake]

    @cached_property
    def surprises(self):
        """The numbers of the mistakes made with confidence."""
        theta = 0 if self.multiclass else self.settings.theta
        return [entry.number for entry in top_terms.surprises(self.log, theta)]

    @property
    def report(self):
        """What was checked, and where it departs."""
        answers, settings, mismatch = self.answers, self.settings, self.mismatch
        checked = sum(done <= answers for done in self.digests) * settings.exact
        report = Report(self.id, settings.name, len(self.log), answers, checked, settings.engine, __version__)
        if not mismatch:
            return report
        entry, waiting = mismatch.entry, mismatch.waiting
        return replace(
            report,
            digests=checked - (answers in self.digests and entry in self.log),
            number=entry.number,
            round=1 + min(entry.round, waiting["round"] if waiting else entry.round),
            sentence=str(mismatch),
            recorded={name: getattr(entry, name) for name in waiting or ("round", "item")},
            found=waiting,
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
    settings = trace.settings
    published = ALGORITHMS.get(settings.algorithm)
    rho = "laplace" if published and published.rho is not None else settings.rho
    if chosen.multiclass != trace.multiclass:
        kind = "several classes" if trace.multiclass else "positives and negatives"
        raise ValueError(f"the session tells {kind} apart. Got {chosen.algorithm}.")
    other = replace(
        settings,
        algorithm=chosen.algorithm,
        learner=chosen.learner,
        rule=chosen.rule,
        parameters={"learner": chosen.learner_parameters, "rule": chosen.rule_parameters},
        rho=effective_rho(chosen, rho, trace.weights, settings.metric),
        pace=settings.pace if chosen.rule in paceable() else None,
    )
    run = Run(trace.store, other, trace.reached)
    answers = {entry.item: entry.label for entry in trace.log if entry.label}
    known = run.y if trace.labelled else answers
    asked, state = [], run.apply(run.state, Grown(run.rounds))
    while not run.ended(state):
        item = int(run.order[state.question.t])
        event = Answered(int(known[item])) if trace.labelled or item in answers else Unanswered()
        asked.append((state.question.t + 1, state.question.predicted, getattr(event, "label", SKIP)))
        state = run.apply(state, event)
    run.state = state
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
        if entry.label:
            table[place[entry.label], place[entry.predicted]] += 1
    return table.tolist()
