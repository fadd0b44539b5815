"""A session is a fold over its log: `apply` is the only thing that changes a state, and it takes typed events.

The live session, a rebuild, the look back, the check of a log, what-if and the estimates share it. A state is made from
the settings, the data and the events, and from nothing else: the same ones give the same bits.
"""

import hashlib
from dataclasses import dataclass, field, replace
from math import isclose
from operator import eq
from time import perf_counter

import numpy as np

from .. import __version__
from ..datasets import Dataset, relabelled
from ..kernel import metrics, rows, spending, stream
from ..kernel.learners import weights
from .log import Answered, Changed, Event, Grown, Lesson, Log, StoredQuestion, Unanswered, add_answer, add_changes
from .settings import SKIP, SessionError, Settings

FACTS = ("round", "item", "margin", "probability", "draw", "audit", "predicted")
POINTS = 200  # rounds of a stream at which the curves have a point, besides every question


class LogMismatch(SessionError):
    """A log that is not reproduced: the answers checked before, the entry that differs, and the facts of the question
    that waits instead (None: there is none, or it is the state that differs)."""

    def __init__(self, sentence, answers, entry, waiting):
        super().__init__(sentence)
        self.answers, self.entry, self.waiting = answers, entry, waiting


@dataclass
class State:
    """Everything that an event changes, and the question that waits: its round is `rounds` where none is left."""

    learner: tuple
    rule: tuple
    objective: stream.Objective
    average: stream.Average
    counts: np.ndarray
    question: stream.Question
    rounds: int  # where the stream ends
    plan: spending.Plan | None = None  # of the budget, where there is one
    spent: int = 0
    audited: int = 0  # of the labels spent
    before: spending.Plan | None = None  # the plan as it was when the stream went on with this learner
    lessons: list[Lesson] = field(default_factory=list)
    trail: list = field(default_factory=list)  # (rounds done, counts) where the curves have a point
    seconds: float = 0.0  # that the last answer took, until the next question was found

    def arrays(self):
        """The state's arrays in a fixed order."""
        parts = (*self.learner, *self.rule, *self.objective, *self.average, *(self.plan or ()), self.counts)
        return [part for part in parts if isinstance(part, np.ndarray)]

    def copy(self):
        """The same state with arrays of its own."""
        parts = {
            name: part and _copied(part)
            for name, part in vars(self).items()
            if name in ("learner", "rule", "objective", "average", "plan", "before")
        }
        return replace(self, **parts, counts=self.counts.copy(), trail=self.trail.copy(), lessons=self.lessons.copy())

    def digest(self):
        """A fingerprint of every bit of the state and of the question that waits."""
        question = self.question[:-2]  # what is predicted, and whether it is an audit, follow from the rest
        digest = hashlib.sha256(repr((self.spent, *map(float, question))).encode())
        for array in self.arrays():
            digest.update(array.tobytes())
        return digest.hexdigest()[:32]

    @property
    def labels(self):
        """The answers as they stand, by the number of their question; SKIP where it was skipped."""
        return [lesson.label for lesson in self.lessons if lesson.number]

    @property
    def streamed(self):
        """The rounds that have passed, with the one whose question waits."""
        return self.question.t + (self.question.predicted != 0)


def _copied(part):
    return type(part)(*(value.copy() if isinstance(value, np.ndarray) else value for value in part))


@dataclass(frozen=True)
class Progress:
    """How far a session is: labels that stand, in all and by class, skips, rounds passed, and what was pushed among
    them (None where there are K classes)."""

    labels: int
    budget: int
    answers: dict[int, int]
    skipped: int
    streamed: int
    stream: int
    pushed: int | None
    waiting: bool

    @property
    def left(self) -> int:
        """The labels of the budget that are not spent."""
        return self.budget - self.labels

    @property
    def end(self) -> str | None:
        """Why there is no question: 'budget', 'stream' or, while there is one, None."""
        if self.waiting:
            return None
        return "stream" if self.left else "budget"


@dataclass(frozen=True)
class Place:
    """What a page shows: a question or None, the progress, and the learner's weights and the counts there."""

    asked: StoredQuestion | None
    progress: Progress
    weights: np.ndarray = field(compare=False, repr=False)
    counts: np.ndarray = field(compare=False, repr=False)


def _near(new: float, old: float) -> bool:
    return isclose(new, old, rel_tol=1e-6, abs_tol=1e-9)


class Run:
    """A stream under the settings of a session, and the state it is in: what can be read of a session, of a look back
    at it, and of another algorithm in its place. Nothing here writes to the store.

    rounds: where the stream ends (None: with the data).
    """

    def __init__(self, store, settings: Settings, rounds: int | None = None):
        self.store, self.settings = store, settings
        self.dataset = Dataset(store, settings.dataset)
        self.strategy, self.weights, self.names = settings.strategy, settings.weights, settings.names
        self.multiclass = self.strategy.multiclass  # it asks for one of K classes, not for positive or negative
        first = settings.items
        self.order = stream.shuffled(first, settings.seed) if settings.shuffled else np.arange(first)
        self._take(rounds)
        self.state = self._untaught()

    def _take(self, rounds=None):
        """Take the items as they are now: those that came later follow, in order, those that the session began with."""
        self.y = self._labels()
        self.labelled = bool(self.y.all())  # whether metrics are exact
        later = np.arange(self.order.size, self.y.size)
        self.order = stream.checked_order(np.concatenate((self.order, later)), self.dataset.rows)
        self.rounds = self.y.size if rounds is None else rounds

    def _labels(self):
        """The labels of the data set as the classes of the session, 0 where they are none of these."""
        own, names = self.dataset.classes, self.settings.classes
        if own:
            return relabelled(self.dataset.y, own, names or (), self.settings.positive_class)
        return rows.read_only(np.zeros(self.dataset.y.size), np.int8) if names else self.dataset.y

    # The fold

    def apply(self, state: State, event: Event) -> State:
        """The state after an event; the one given is used up."""
        match event:
            case Grown(rounds):
                return self._grown(state, rounds)
            case Answered(label):
                return self._answered(state, label)
            case Unanswered():
                state.spent, state.audited = state.spent + 1, state.audited + state.question.audit
                return self._answered(state, SKIP)
            case Changed(changes):
                add_changes(state.lessons, changes)
                self._teach_again(state)
                return state

    def fresh(self) -> State:
        """The state at the first question, before any label."""
        return self.apply(self._untaught(), Grown(self.rounds))

    def _untaught(self):
        """The state before the first round, of a stream that has none yet."""
        settings, classes = self.settings, len(self.settings.classes or ())
        learner, rule = self.strategy.build(self.dataset.rows.columns, classes)
        return State(
            learner,
            rule,
            stream.objective(settings.theta, settings.rho, self.weights.ratio("sum")),
            stream.average(learner, settings.averaged),
            metrics.empty(classes),
            stream.Question(0, *stream.NOTHING),
            0,
            settings.plan(),
        )

    def _grown(self, state, rounds):
        end, state.rounds = state.rounds, max(state.rounds, rounds)
        if state.question.t < end:
            return state
        if end and self._point(end - 1) != end:  # a point that only the end had
            state.trail.pop()
        return self._run(state, end)

    def _answered(self, state, label):
        question, start = state.question, perf_counter()
        add_answer(state.lessons, int(self.order[question.t]), question.t, question.audit, label)
        if label != SKIP:
            state.spent += 1
            state.audited += question.audit
            stream.learn(
                self.dataset.rows, self.order, state.learner, state.rule, state.objective, state.average, question,
                label if self.settings.audit_trains or not question.audit else 0, state.spent == self.settings.budget,
            )  # fmt: skip
        state = self._run(state, question.t + 1)
        if label != SKIP:
            state.seconds = perf_counter() - start
        return state

    def _run(self, state, t):
        """Let the stream run from round t to the next question, or to its end."""
        asking = state.spent < self.settings.budget
        if state.plan:
            state.plan.spent[:] = state.spent, state.audited
            asking = state.plan
        state.before = state.plan and _copied(state.plan)
        while True:
            stop = min(state.rounds, self._point(t))
            state.question = question = stream.until_query(
                self.dataset.rows, self.y, self.order, state.learner, state.rule, state.objective, self.settings.seed,
                t, stop, asking, state.counts,
            )  # fmt: skip
            t = question.t
            if t < stop or stop in (state.rounds, self._point(stop - 1)):
                state.trail.append((t + (t < stop), state.counts.copy()))
            if t < stop or stop == state.rounds:
                return state

    def _point(self, t):
        """The round after t where the curves have a point: so many in the first items, and in each doubling of them."""
        first = max(1, self.settings.items)
        every = max(1, -(-first // POINTS)) << max(0, (t // first).bit_length() - 1)
        return (t // every + 1) * every

    def _teach_again(self, state):
        """Teach the learner from the first round on with the labels that stand; what happened in the stream stays."""
        new = self.taught(state.lessons)
        for name in ("learner", "rule", "objective", "average", "spent", "audited"):
            setattr(state, name, getattr(new, name))
        self._refresh_scratch(state)

    def taught(self, lessons: list[Lesson]) -> State:
        """A state that was taught some lessons, and has seen nothing of the stream."""
        lessons = [lesson for lesson in lessons if lesson.label != SKIP]
        trains = self.settings.audit_trains
        given = [(each.item, each.label * (trains or not each.audit), each.round) for each in lessons]
        items, y, times = np.array(given, np.int64).reshape(-1, 3).T
        state = self._untaught()
        state.spent, state.audited = len(lessons), sum(each.audit for each in lessons)
        stream.teach(
            self.dataset.rows, stream.checked_order(items, self.dataset.rows), rows.read_only(y, np.int8),
            np.ascontiguousarray(times), state.learner, state.rule, state.objective, state.average,
            state.spent == self.settings.budget,
        )  # fmt: skip
        return state

    def _refresh_scratch(self, state):
        """Leave in a learner the traces of the row it saw last: the question's, or the last of the stream."""
        t = state.question.t
        if state.question.predicted == 0:
            margins, predicted = np.zeros(t), np.zeros(t, np.int8)
            stream.predict_rounds(
                self.dataset.rows, self.order, state.learner, state.objective.theta, t - 1, t, margins, predicted
            )
        else:
            stream.inspect_rounds(
                self.dataset.rows, self.y, self.order, state.learner, state.rule, state.objective, self.settings.seed,
                t, _copied(state.plan) if state.plan else True, np.zeros_like(state.counts), np.zeros((1, 4)),
            )  # fmt: skip

    def follow(self, log: Log):
        """Fold a log, checking every question and digest: yields the state at first and after every event, changed in
        place; LogMismatch where something differs.

        The log of another engine must be reproduced to rounding, for it may have summed in another order; its digests
        are of other bits.
        """
        events, asked = log.events(self.rounds)
        answers = dict(zip(asked, range(len(asked))))
        state = self._untaught()
        for done in range(len(events) + 1):
            if done:
                state = self.apply(state, events[done - 1])
            if done in answers:
                self._check_digest(state, log, answers[done])
                self._check_question(state, log, answers[done])
            yield state

    def _check_digest(self, state, log, answers):
        if self.settings.exact and answers in log.digests and state.digest() != log.digests[answers]:
            raise LogMismatch(
                f"the state of the session {self.settings.name} after {answers} answers is not the one recorded by "
                f"engine {self.settings.engine}; its labels are safe and can be exported.",
                answers,
                log.entries[answers - 1],
                None,
            )

    def _check_question(self, state, log, answers):
        if answers == len(log.entries):
            return
        entry, waiting = log.entries[answers], None if self.ended(state) else self.facts(state.question)
        equal = eq if self.settings.exact else _near
        if waiting is None or not all(equal(waiting[name], getattr(entry, name)) for name in FACTS):
            raise LogMismatch(
                f"question {entry.number} of the session {self.settings.name} cannot be reproduced from its log: it "
                f"was asked in round {entry.round + 1}. The session was made with engine {self.settings.engine}, this "
                f"is {__version__}; its labels are safe and can be exported.",
                answers,
                entry,
                waiting,
            )

    def facts(self, question: stream.Question) -> dict:
        """What is stored of a question besides its place in the session."""
        item = int(self.order[question.t])
        return {"round": question.t, "item": item} | {name: getattr(question, name) for name in FACTS[2:]}

    # What can be read

    def ended(self, state: State) -> bool:
        """Whether no question is left; a change made at the end of a stream may have spent the budget."""
        return state.question.t >= state.rounds or state.spent >= self.settings.budget

    def place_of(self, state: State, asked: StoredQuestion | None) -> Place:
        """The place at a state, given the question that waits (None: none)."""
        labels = state.labels
        progress = Progress(
            state.spent,
            self.settings.budget,
            {label: labels.count(label) for label in self.names},
            labels.count(SKIP),
            min(state.question.t + 1, self.rounds) if asked else self.rounds,
            self.rounds,
            None if self.multiclass else int(state.counts[1].sum()),
            asked is not None,
        )
        return Place(asked, progress, weights(state.learner), state.counts)

    @property
    def learner(self) -> tuple:
        """The learner as it is now."""
        return self.state.learner

    @property
    def labels(self) -> list[int]:
        """The answers that stand, in order, without the skips."""
        return [label for label in self.state.labels if label != SKIP]

    def evaluate(self, counts, evaluation: str) -> dict:
        """The metrics of a table of counts by name, as the classes of the session need them."""
        if self.multiclass:
            return metrics.evaluate_classes(counts, evaluation)
        return metrics.evaluate(counts, evaluation, self.weights)

    @property
    def counts(self) -> np.ndarray:
        """The table of counts where the run is."""
        return self.state.counts

    def curve(self, points: int = 500) -> tuple[np.ndarray, np.ndarray]:
        """Rounds and tables of counts along the stream, thinned to so many points."""
        trail = self.state.trail
        keep = np.unique(np.linspace(0, len(trail) - 1, min(points, len(trail))).astype(int))
        return np.array([trail[k][0] for k in keep]), np.array([trail[k][1] for k in keep])
