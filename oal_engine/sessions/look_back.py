"""Look back at a session: open any question or round again, and verify its log. Nothing here writes to the store."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .. import __version__
from ..datasets import Dataset
from ..kernel import metrics, stream
from ..kernel.learners import weights
from ..store import Row, Store
from .fold import Run
from .insights import top_terms
from .log import Answered, Changed, Entry, LabelsKnown, Log, QuestionClosed, QuestionOpened, StoredQuestion, unreadable
from .reproducing import LogMismatch, Reproduction
from .settings import Settings
from .state import ALL_ROUNDS, Place, State

KEPT_EVERY = 20  # events between two states kept in memory; more if they would exceed KEPT_BYTES
KEPT_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Passed:
    """Consecutive rounds without a question: the first round (from 0), the number of rounds (not counting known items),
    the number of pushed items (None: K classes), and the lowest and highest margin (None: no round)."""

    first: int
    rounds: int
    pushed: int | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Step:
    """A question: the place before its answer, its entry in the log (None: the end of the session), the rounds that
    passed before it, and the weights that its answer changed, largest change first."""

    place: Place
    entry: Entry | None
    passed: Passed
    moved: list[top_terms.Moved]


@dataclass(frozen=True)
class Report:
    """The result of verifying a session.

    questions, answers, digests: how many were reproduced. number, round, sentence: number of the question, round (from
    1) and description of the first difference, or None. recorded, found: facts of that question in the log and in this
    run. foreign: a sentence on an answer that cannot belong to this session, or None. unreadable: a sentence on notes
    and tags that are left out, or None.
    """

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
    recorded: Row | None = None
    found: Row | None = None
    foreign: str | None = None
    unreadable: str | None = None

    @property
    def verified(self) -> bool:
        """Whether the session was reproduced without a difference from its log, and all answers are its classes."""
        return self.sentence is None and self.foreign is None

    def as_dict(self) -> Row:
        """Return the report as a JSON object."""
        return {"verified": self.verified} | asdict(self)

    def __str__(self) -> str:
        parts = {"question": self.questions, "answer": self.answers, "stored digest": self.digests}
        questions, answers, digests = (f"{count:,} {name}{'s' * (count != 1)}" for name, count in parts.items())
        reproduced = f"{questions}, {answers} and {digests} were reproduced"
        versions = f"It was made with engine {self.engine_then} and is checked with {self.engine_now}."
        versions = " ".join(filter(None, (versions, self.unreadable)))
        if self.verified:
            how = "bit for bit" if self.engine_then == self.engine_now else "to rounding"
            return f"Verified {how}: {reproduced}. {versions}"
        if self.sentence is None:
            return f"Not verified: {self.foreign} Otherwise {reproduced}. {versions}"
        wrong = "the state after it" if self.answers == self.number else "it"
        return (
            f"First difference in round {self.round:,}, at question {self.number:,}: {wrong} is not the one recorded. "
            f"Before that, {reproduced}. {versions}"
        )


class Version(NamedTuple):
    """The version of a session: numbers that change with its log, its questions and its stream."""

    log: int
    questions: int
    items: int


def version(store: Store, session: int) -> Version:
    """Return the current version of a session."""
    status = store.status(session)
    return Version(status.version, store.question_count(session), status.items)


class Trace(Run):
    """The log of a session, folded once from the first round up to the first mismatch. Any question or round of it
    opens quickly. Safe to share between threads.

    log: the entries up to the mismatch. mismatch: the first mismatch, or None. span: the rounds in which questions are
    asked, as (first, stop). decided: as in `Session`.
    """

    log: list[Entry]
    decided: tuple[np.ndarray, np.ndarray, np.ndarray]
    span = ALL_ROUNDS
    part = 0  # index, in the state, of the question that is looked at: 0 if it is the only one
    _before = 0  # number of the session's questions before the first entry of `log`

    def __init__(self, store: Store, session: int):
        with store.snapshot():
            log, settings = Log.read(store, session), Settings.read(store, session)
            self.version = version(store, session)
        super().__init__(store, settings, self.version.items)
        self.id = session
        self.mismatch: LogMismatch | None = None
        self._kept: dict[int, State] = {}  # {number of events: the state after them}
        self._events = [event for _, event in log.grown(self.rounds)]
        self._asked_at: list[int] = []  # number of events before each question, and before the end
        done, end, reproduction = -1, 0, Reproduction(self, log)
        try:
            for done, state in enumerate(reproduction):
                size = sum(array.nbytes for array in state.arrays()) + 8 * len(log.entries)
                if done % max(KEPT_EVERY, -(-len(log.entries) * size // KEPT_BYTES)) == 0:
                    self._kept[done] = state.copy()
                if state.number > len(self._asked_at):
                    self._asked_at.append(done)
                if not isinstance(self._events[done - 1], Changed | LabelsKnown | QuestionOpened | QuestionClosed):
                    end = done
            if self.ended(state):
                self._asked_at.append(end)
        except LogMismatch as mismatch:
            self.mismatch, self._events = mismatch, self._events[: done + 1]
            self.log, self.answers = log.until(mismatch.answers, mismatch.questions), mismatch.answers
            self.digests = mismatch.digests
        else:
            self.log, self.answers = log.entries, len(log.order)
            self.digests = sum(number in log.digests for number, _ in log.events) * settings.exact
        self.state = self._after(max(0, len(self._asked_at) - 1)) if self.mismatch else state
        self.decided = reproduction.decisions.passed

    def _states(self, first: int, stop: int) -> Iterator[State]:
        """Yield the state after `first` events, after `first` + 1, ..., and after `stop`: always the same private copy,
        changed in place."""
        start = max(done for done in self._kept if done <= first)
        state = self._kept[start].copy()
        for done in range(start, stop + 1):
            if done > start:
                state = self.apply(state, self._events[done - 1])
            if done >= first:
                yield state

    def _after(self, questions: int) -> State:
        """Return a private copy of the state that asked question `questions` + 1, or of the state at the end."""
        at = self._asked_at[questions] if questions < len(self._asked_at) else 0
        return self._seen(next(self._states(at, at)))

    def _seen(self, state: State) -> State:
        """Return the part of a state that this look back shows: here, all of it."""
        return state

    @property
    def steps(self) -> int:
        """Number of steps that can be opened: every question, and the end if it is reached."""
        return len(self.log) + self.complete

    @property
    def complete(self) -> bool:
        """Whether the budget is spent, or the stream has ended."""
        return self.mismatch is None and self.ended(self.state)

    @property
    def reached(self) -> int:
        """Number of rounds that can be opened."""
        if self.complete:
            return min(self.rounds, self.span[1])
        return self.log[-1].round + 1 if self.log else 0

    def step(self, number: int) -> Step:
        """Return the step of question `number` (from 1), or of the end if `number` is one after the last question."""
        entry = self.log[number - 1] if number <= len(self.log) else None
        state = self._after(number - 1) if entry else self.state
        place = self.place_of(state, entry.question() if entry else None)
        own = replace(place, weights=place.weights.copy(), counts=place.counts.copy())
        return Step(own, entry, self._passed(number), self._moved(number) if entry and entry.first else [])

    def _moved(self, number: int) -> list[top_terms.Moved]:
        """Return the weights that the answer to a question changed when it was given, before any correction."""
        asked_at = self._asked_at[number - 1]
        later = range(asked_at, len(self._events))  # changes and other people's answers may precede the answer
        answers = [(at, event) for at in later if isinstance(event := self._events[at], Answered)]
        answered_at = next(at for at, event in answers if event.number in (None, number + self._before))
        states = self._states(answered_at, answered_at + 1)
        before = weights(next(states).parts[self.part].learner).copy()
        return top_terms.moved(before, weights(next(states).parts[self.part].learner), latent=self.dataset.latent)

    def _gap(self, number: int) -> tuple[int, int]:
        """Return the rounds between a question and the one before it, as (first, stop)."""
        first = self.log[number - 2].round + 1 if number > 1 else self.span[0]
        return first, self.log[number - 1].round if number <= len(self.log) else min(self.rounds, self.span[1])

    def _inspect(self, number: int, first: int, stop: int) -> tuple[np.ndarray, np.ndarray, State]:
        """Decide again the rounds first .. stop - 1, before question `number`. Return their margins, probabilities,
        draws and predictions, shape (rounds, 4), the counts after them, and the state that decided last."""
        self.state.only()
        facts, counts = np.zeros((stop - first, 4)), None
        begin, parts = self._asked_at[number - 2] + 1 if number > 1 else 0, list[tuple[int, State]]()
        for whole in self._states(begin, self._asked_at[number - 1]):
            state = self._seen(whole)
            if counts is None:
                before = (counts for rounds, counts in reversed(state.trail) if rounds == first)
                counts = next(before, np.zeros_like(state.counts)).copy()
            start = max(first, state.since)
            if start < min(stop, state.question.t):  # after added labels, later rounds may be decided again
                own = whole.copy()  # a rule may use the learner's scratch arrays
                parts = [*(part for part in parts if part[0] < start), (start, own)]
        assert counts is not None, "the rounds are between two questions"
        for (t, own), end in zip(parts, [*(start for start, _ in parts[1:]), stop]):
            self._decide(own, t, counts, facts[t - first : end - first])
            state = self._seen(own)
        return facts, counts, state

    def _decide(self, state: State, t: int, counts: np.ndarray, facts: np.ndarray) -> None:
        """Decide the rounds from t on again with a private copy of the state. Fill `facts`, one row for each round, and
        add the predictions to `counts`."""
        learner, rule, objective, _ = state.only()
        stream.inspect_rounds(
            self.dataset.rows, self.stream_of(state).y, self.order, learner, rule, objective, self.settings.seed, t,
            state.before or True, counts, facts,
        )  # fmt: skip

    def _passed(self, number: int) -> Passed:
        first, stop = self._gap(number)
        if first == stop:
            return Passed(first, 0, None if self.multiclass else 0, None, None)
        facts, *_ = self._inspect(number, first, stop)
        facts = facts[facts[:, 3] != 0]  # without the items that are known
        pushed = None if self.multiclass else int((facts[:, 3] > 0).sum())
        low, high = (float(facts[:, 0].min()), float(facts[:, 0].max())) if len(facts) else (None, None)
        return Passed(first, len(facts), pushed, low, high)

    def number(self, t: int) -> int:
        """Return the number of the question in round t (from 0), else of the next question, else of the end."""
        return 1 + bisect_left(self.log, t, key=lambda entry: entry.round)

    def asked_in(self, t: int) -> bool:
        """Return whether round t (from 0) asked a question."""
        number = self.number(t)
        return number <= len(self.log) and self.log[number - 1].round == t

    def round(self, t: int) -> tuple[Place, float]:
        """Return the place of round t (from 0), which asked no question, and its draw. The place has the decision in
        the form of a question, with the number of the next question (or of the end)."""
        number = self.number(t)
        facts, counts, state = self._inspect(number, self._gap(number)[0], t + 1)
        margin, probability, draw, predicted = facts[-1].tolist()
        if state.spent >= state.budget:
            probability = 0.0
        decided = StoredQuestion(0, number, t, int(self.order[t]), margin, probability, int(predicted), None)
        return replace(self.place_of(state, None), asked=decided, counts=counts), draw

    @cached_property
    def mistakes(self) -> list[int]:
        """The numbers of the questions whose answer differs from the predicted class."""
        return [entry.number for entry in self.log if entry.mistake and entry.margin]  # at 0 the model knew nothing

    @cached_property
    def surprises(self) -> list[int]:
        """The numbers of the questions that the model got wrong although it was confident."""
        theta = 0 if self.multiclass else self.settings.theta
        return [entry.number for entry in top_terms.surprises(self.log, theta)]

    @property
    def report(self) -> Report:
        """The result of verifying the log, with the first difference."""
        settings, mismatch = self.settings, self.mismatch
        report = Report(
            self.id, settings.name, len(self.log), self.answers, self.digests, settings.engine, __version__,
            foreign=_foreign(self.store.foreign_answers(self.id)), unreadable=unreadable(self.store, self.id),
        )  # fmt: skip
        if not mismatch:
            return report
        entry, waiting = mismatch.entry, mismatch.waiting
        return replace(
            report,
            number=entry.number,
            round=1 + min(entry.round, waiting["round"] if waiting else entry.round),
            sentence=str(mismatch),
            recorded={name: getattr(entry, name) for name in waiting or ("round", "item")},
            found=waiting,
        )


def _foreign(answers: list[Row]) -> str | None:
    """Describe answers with a class that their session does not have, in a sentence; None if all classes are valid."""
    if not answers:
        return None
    first, more = answers[0], len(answers) - 1
    asked = f"question {first['number']:,}" if first["number"] else "a question that was prepared"
    others = f" (and {more:,} more)" if more else ""
    return (
        f"the answer of {first['annotator'] or 'somebody'} to {asked}{others} has the label {first['label']}, a class "
        "that the session does not have."
    )


def verify(store: Store, session: int) -> Report:
    """Verify the current log of a session. Raise DataError if its data set is damaged."""
    Dataset(store, store.session(session)["dataset"]).check()
    return Trace(store, session).report


def confusion(run: Run, counts: np.ndarray, evaluation: str) -> list[list[int]]:
    """Return the confusion matrix of a table of counts: a row for each true class, a column for each class assigned."""
    if run.multiclass:
        classes: list[list[int]] = metrics.class_confusion(counts, evaluation).tolist()
        return classes
    tp, fp, tn, fn = (int(value) for value in metrics.confusion(counts, evaluation))
    return [[tp, fn], [fp, tn]]


def answers_confusion(trace: Trace, number: int) -> list[list[int]]:
    """Return the confusion matrix of the answers before question `number`: a row for each class answered, a column for
    each class predicted."""
    answered = [entry for entry in trace.log[: number - 1] if entry.label]
    return [
        [sum((entry.label, entry.predicted) == (label, other) for entry in answered) for other in trace.names]
        for label in trace.names
    ]
