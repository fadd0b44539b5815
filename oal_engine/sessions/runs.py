"""A stream under the settings of a session, and where it is: what a session, a look back and a what-if run alike.

A state is rebuilt from the log and from nothing else: the questions with the labels first given, and, where these were
corrected later or an item was marked, what the learner was taught again from then on.
"""

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import isclose
from operator import eq
from time import perf_counter

import numpy as np

from .. import __version__
from ..datasets import Dataset, relabelled
from ..kernel import metrics, rows, spending, stream
from ..kernel.algorithms import Strategy
from ..kernel.learners import weights

POSITIVE, NEGATIVE, SKIP = 1, -1, 0
POINTS = 200  # rounds of a stream at which the curves have a point, besides every question
FACTS = ("round", "item", "margin", "probability", "draw", "audit", "predicted")


class SessionError(ValueError):
    """An answer or a session that does not fit its log, in one sentence."""


class Departed(SessionError):
    """A log that does not come out again: the answers checked before, the entry that differs, and the facts of the
    question found instead (None: there is none, or it is the state that differs)."""

    def __init__(self, sentence, answers, entry, found):
        super().__init__(sentence)
        self.answers, self.entry, self.found = answers, entry, found


@dataclass
class State:
    """Everything that a label changes, and the question that waits: round t = rounds when none is left."""

    learner: tuple
    rule: tuple
    objective: stream.Objective
    average: stream.Average
    counts: np.ndarray
    plan: spending.Plan | None = None  # of the budget, where there is one
    spent: int = 0
    audited: int = 0  # of the labels spent
    question: stream.Question | None = None
    before: spending.Plan | None = None  # the plan as it was when the stream went on with this learner
    earlier: list = field(default_factory=list)  # states since the last answer, where a stream had ended: changes came
    trail: list = field(default_factory=list)  # (rounds done, counts) where the curves have a point
    seconds: float = 0.0  # that the last answer took, until the next question was found

    def arrays(self):
        """The state's arrays in a fixed order."""
        parts = (*self.learner, *self.rule, *self.objective, *self.average, *(self.plan or ()), self.counts)
        return [part for part in parts if isinstance(part, np.ndarray)]

    def copy(self):
        """The same state with arrays of its own."""
        parts = {
            name: _copied(part)
            for name, part in vars(self).items()
            if part is not None and name in ("learner", "rule", "objective", "average", "plan", "before")
        }
        return replace(self, **parts, counts=self.counts.copy(), trail=self.trail.copy(), earlier=self.earlier.copy())

    def digest(self):
        """A fingerprint of every bit of the state and of the question that waits."""
        question = self.question[:-2]  # what is predicted, and whether it is an audit, follow from the rest
        told = hashlib.sha256(repr((self.spent, *map(float, question))).encode())
        for array in self.arrays():
            told.update(array.tobytes())
        return told.hexdigest()[:32]


def _copied(part):
    return type(part)(*(value.copy() if isinstance(value, np.ndarray) else value for value in part))


@dataclass(frozen=True)
class Asked:
    """A stored question: its id, its place in the session, its item, why it was asked (audit: as a random check), and
    its earlier answer."""

    id: int
    number: int
    round: int
    item: int
    margin: float
    probability: float
    predicted: int
    old: int | None
    audit: int = 0


@dataclass(frozen=True)
class Progress:
    """How far a session is: labels that stand, in all and by class, skips, rounds passed, and what was pushed among
    them (None where there are K classes)."""

    labels: int
    budget: int
    answers: dict
    skipped: int
    streamed: int
    stream: int
    pushed: int | None
    waiting: bool

    @property
    def left(self):
        return self.budget - self.labels

    @property
    def end(self):
        """Why there is no question: 'budget', 'stream' or, while there is one, None."""
        if self.waiting:
            return None
        return "stream" if self.left else "budget"


@dataclass(frozen=True)
class Place:
    """What a page shows: a question or None, the progress, and the learner's weights and the counts there."""

    asked: Asked | None
    progress: Progress
    weights: np.ndarray = field(compare=False, repr=False)
    counts: np.ndarray = field(compare=False, repr=False)


def _labels(dataset, about):
    """The labels of a data set as the classes of a session, 0 where they are none of these."""
    own, names = dataset.classes, about["classes"]
    if own:
        return relabelled(dataset.y, own, names or (), about["positive_class"])
    return rows.read_only(np.zeros(dataset.y.size), np.int8) if names else dataset.y


def _near(found, kept):
    return isclose(found, kept, rel_tol=1e-6, abs_tol=1e-9)


class Run:
    """A stream under the settings of a session, and the state of its last run: what reads, and writes nothing.

    about: the settings as `Store.session` gives them. rounds: where the stream ends (None: with the data).
    """

    def __init__(self, store, about, rounds=None):
        self.store, self.about = store, about
        self.dataset = Dataset(store, about["dataset"])
        self.weights = metrics.Weights(about["alpha_p"], about["c_p"])
        own = about["parameters"]
        self.strategy = Strategy(about["algorithm"], about["learner"], about["rule"], own["learner"], own["rule"], None)
        first = about["items"]
        self.order = stream.shuffled(first, about["seed"]) if about["shuffled"] else np.arange(first)
        self._take(rounds)
        self._state, self._answers = None, []

    def _take(self, rounds=None):
        """Take the items as they are now: those that came later follow, in order, those that the session began with."""
        self.y = _labels(self.dataset, self.about)
        self.labelled = bool(self.y.all())  # whether metrics are exact
        later = np.arange(self.order.size, self.y.size)
        self.order = stream.checked_order(np.concatenate((self.order, later)), self.dataset.rows)
        self.rounds = self.y.size if rounds is None else rounds

    def _point(self, t):
        """The round after t where the curves have a point: so many in the first items, and in each doubling of them."""
        first = max(1, self.about["items"])
        every = max(1, -(-first // POINTS)) << max(0, (t // first).bit_length() - 1)
        return (t // every + 1) * every

    @cached_property
    def names(self):
        """The words of each label, in the order in which they are offered."""
        if self.about["classes"]:
            return dict(enumerate(self.about["classes"], 1))
        return {POSITIVE: self.about["positive_name"], NEGATIVE: self.about["negative_name"]}

    @property
    def multiclass(self):
        """Whether it asks for one of K classes, not for positive or negative."""
        return self.strategy.multiclass

    # The state

    def fresh(self, ends=None):
        """The state at the first question, before any label."""
        return self._run(self._untaught(), 0, ends or {})

    def _untaught(self):
        about, classes = self.about, len(self.about["classes"] or ())
        learner, rule = self.strategy.build(self.dataset.rows.columns, classes)
        return State(
            learner,
            rule,
            stream.objective(about["theta"], about["rho"], self.weights.ratio("sum")),
            stream.average(learner, about["averaged"]),
            metrics.empty(classes),
            spending.plan(
                about["rule"], about["budget"], about["horizon"], about["audit"], about["audit_trains"], about["pace"]
            ),
        )

    def _run(self, state, t, ends):
        """Let the stream run from round t to the next question, or to its end; ends: what to do in rounds where it had
        ended for a while."""
        state.earlier = []
        for end in sorted({self.rounds, *(end for end in ends if end >= t)}):
            self._run_to(state, t, end)
            t = state.question.t
            if t < end or end == self.rounds:
                return state
            self._decide(state)
            state.earlier.append(state.copy())
            ends[end](state)

    def _run_to(self, state, t, end):
        """Let the stream run from round t to the next question, or to a round where it ends or had ended."""
        asking = self._planned(state)
        state.before = state.plan and _copied(state.plan)
        while True:
            stop = min(end, self._point(t))
            state.question = question = stream.until_query(
                self.dataset.rows,
                self.y,
                self.order,
                state.learner,
                state.rule,
                state.objective,
                self.about["seed"],
                t,
                stop,
                asking,
                state.counts,
            )
            t = question.t
            if t < stop or stop in (self.rounds, self._point(stop - 1)):
                state.trail.append((t + (t < stop), state.counts.copy()))
            if t < stop or stop == end:
                return

    def _planned(self, state):
        """What the kernel is told of the budget: the plan, or whether any label is left."""
        if state.plan:
            state.plan.spent[:] = state.spent, state.audited
        return state.plan or state.spent < self.about["budget"]

    def _decide(self, state):
        """Write down what was decided in the rounds up to the question of a state: only an open session does."""

    def advance(self, state, label, ends=None):
        """Learn a label (or nothing, from a skip) and run to the next question; changes the state given."""
        audit, start = state.question.audit, perf_counter()
        if label != SKIP:
            state.spent += 1
            state.audited += audit
            last = state.spent == self.about["budget"]
            stream.learn(
                self.dataset.rows, self.order, state.learner, state.rule, state.objective, state.average,
                state.question, label if self.about["audit_trains"] or not audit else 0, last,
            )  # fmt: skip
        state = self._run(state, state.question.t + 1, ends or {})
        if label != SKIP:
            state.seconds = perf_counter() - start
        return state

    def follow(self, log, digests, changes=()):
        """Run a log again, checking every question and digest: yields the state at each question, changed in place,
        and after the last answer; Departed where something differs.

        The log of another engine must come out to rounding, for it may have summed in another order; its digests are of
        other bits. What was changed after so many answers is changed once the state there has been looked at.
        """
        state, about = self.fresh(self.ends(log, changes, 0)), self.about
        for answers, entry in enumerate(log, 1):
            found = None if self.ended(state) else self._facts(state.question)
            if not (found and all((eq if self.exact else _near)(found[key], entry[key]) for key in FACTS)):
                raise Departed(
                    f"question {entry['number']} of the session {about['name']} cannot be reproduced from its log: "
                    f"it was asked in round {entry['round'] + 1}. The session was made with engine "
                    f"{about['engine']}, this is {__version__}; its labels are safe and can be exported.",
                    answers - 1,
                    entry,
                    found,
                )
            self._decide(state)
            yield state
            self.change(state, log, changes, answers - 1)
            if entry["label"] is None:
                return
            state = self.advance(state, entry["first"], self.ends(log, changes, answers))
            if self.exact and answers in digests and state.digest() != digests[answers]:
                raise Departed(
                    f"the state of the session {about['name']} after {answers} answers is not the one "
                    f"recorded by engine {about['engine']}; its labels are safe and can be exported.",
                    answers,
                    entry,
                    None,
                )
        self._decide(state)
        yield state
        self.change(state, log, changes, len(log))

    def ends(self, log, changes, answers):
        """The changes that came after so many answers while the stream had ended, by the round where it went on."""
        return {
            change["at_end"]: partial(self.change, log=log, changes=changes[:count], answers=answers)
            for count, change in enumerate(changes, 1)
            if change["position"] == answers and change["at_end"] is not None
        }

    def change(self, state, log, changes, answers):
        """Make the changes that came here, after so many answers, if there are: the learner is taught again from the
        first round on, with the labels that stood then; what happened in the stream stays."""
        here = None, state.question.t  # not where the stream had ended before
        if not any(change["position"] == answers and change["at_end"] in here for change in changes):
            return
        new = self.taught(log, changes, answers)
        for name in ("learner", "rule", "objective", "average", "spent", "audited"):
            setattr(state, name, getattr(new, name))
        self._look_again(state)

    def taught(self, log, changes, answers):
        """A state that was taught so many answers of a log, as they stood then, and has seen nothing of the stream."""
        entries = log[:answers]
        labels = {entry["id"]: entry["first"] for entry in entries}
        lessons = [
            (number, entry["id"], entry["item"], entry["round"], entry["audit"])
            for number, entry in enumerate(entries, 1)
        ]
        for change in changes:
            position = change["position"]
            if position > answers:
                break
            if change["item"] is None:
                labels[change["question"]] = change["label"]
            else:
                time = log[position - 1]["round"] if position else 0
                labels[-change["age"]] = change["label"]
                lessons.append((position + 0.5, -change["age"], change["item"], time, 0))
        lessons = sorted((lesson for lesson in lessons if labels[lesson[1]] != SKIP), key=lambda lesson: lesson[0])
        trains = self.about["audit_trains"]
        given = [(item, labels[key] * (trains or not audit), time) for _, key, item, time, audit in lessons]
        items, y, times = np.array(given, np.int64).reshape(-1, 3).T
        state = self._untaught()
        state.spent, state.audited = len(lessons), sum(audit for *_, audit in lessons)
        stream.teach(
            self.dataset.rows,
            stream.checked_order(items, self.dataset.rows),
            rows.read_only(y, np.int8),
            np.ascontiguousarray(times),
            state.learner,
            state.rule,
            state.objective,
            state.average,
            state.spent == self.about["budget"],
        )
        return state

    def _look_again(self, state):
        """Leave in a learner the traces of the row it saw last: the question's, or the last of the stream."""
        t = state.question.t
        if state.question.predicted == 0:
            margins, predicted = np.zeros(t), np.zeros(t, np.int8)
            stream.decide(
                self.dataset.rows, self.order, state.learner, state.objective.theta, t - 1, t, margins, predicted
            )
        else:
            stream.passed(
                self.dataset.rows, self.y, self.order, state.learner, state.rule, state.objective, self.about["seed"],
                t, _copied(state.plan) if state.plan else True, np.zeros_like(state.counts),
                np.zeros((1, 4)),
            )  # fmt: skip

    @property
    def exact(self):
        """Whether this engine made the log, which then comes out bit for bit."""
        return self.about["engine"] == __version__

    def ended(self, state):
        """Whether no question is left; a change made at the end of a stream may have spent the budget."""
        return state.question.t >= self.rounds or state.spent >= self.about["budget"]

    def _facts(self, question):
        item = int(self.order[question.t])
        return {"round": question.t, "item": item} | {name: getattr(question, name) for name in FACTS[2:]}

    def place_of(self, state, asked, answers):
        """The place at a state, given the question that waits (None: none) and the answers before it."""
        labels = [label for *_, label in answers]
        streamed = min(state.question.t + 1, self.rounds)
        progress = Progress(
            state.spent,
            self.about["budget"],
            {label: labels.count(label) for label in self.names},
            labels.count(SKIP),
            streamed if asked else self.rounds,
            self.rounds,
            None if self.multiclass else int(state.counts[1].sum()),
            asked is not None,
        )
        return Place(asked, progress, weights(state.learner), state.counts)

    @property
    def learner(self):
        """The learner as it is now."""
        return self._state.learner

    @property
    def labels(self):
        """The answers that stand, in order, without the skips."""
        return [label for *_, label in self._answers if label != SKIP]

    def evaluate(self, counts, evaluation):
        """The metrics of a table of counts by name, as the classes of the session need them."""
        if self.multiclass:
            return metrics.evaluate_classes(counts, evaluation)
        return metrics.evaluate(counts, evaluation, self.weights)

    @property
    def counts(self):
        """The table of counts where the run is."""
        return self._state.counts

    def curve(self, points=500):
        """Rounds and tables of counts along the stream, thinned to so many points."""
        trail = self._state.trail
        keep = np.unique(np.linspace(0, len(trail) - 1, min(points, len(trail))).astype(int))
        return np.array([trail[k][0] for k in keep]), np.array([trail[k][1] for k in keep])


def answered(log):
    """The answers of a log: (question, event, label)."""
    return [(entry["id"], entry["event"], entry["label"]) for entry in log if entry["label"] is not None]
