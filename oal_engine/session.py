"""A person's run over a stream: the question is stored before it is shown, the label before it is learned.

The state is never stored, only rebuilt from the log: the same data, settings and labels give the same bits, which a
digest every DIGEST_EVERY answers proves. The next question under each possible answer is prepared ahead, so that a
page can show it the moment a key is pressed; each prepared question is stored like any other and becomes the next one
only when its answer is. Remaining budget is counted from the labels that stand. Items appended to the data set follow
those that the session began with, and the stream goes on.
"""

import hashlib
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import isclose
from operator import eq
from time import perf_counter

import numpy as np

from . import __version__, metrics, rows, spending, stream
from .algorithms import Strategy, strategy
from .datasets import Dataset, relabelled
from .learners import weights
from .store import now

POSITIVE, NEGATIVE, SKIP = 1, -1, 0
DIGEST_EVERY = 50  # answers between two stored digests
BRANCH_LIMIT = 96 * 2**20  # bytes of the copies of a learner for all possible answers, where they are prepared
MOST_CLASSES = 127
POINTS = 200  # rounds of a stream at which the curves have a point, besides every question


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
    before: spending.Plan | None = None  # the plan as it was when the stream went on after the last answer
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
        return replace(self, **parts, counts=self.counts.copy(), trail=self.trail.copy())

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


def create(
    store,
    dataset,
    algorithm=None,
    *,
    learner=None,
    rule=None,
    parameters=(),
    budget=300,
    seed=0,
    shuffled=False,
    positive_name="Relevant",
    negative_name="Not relevant",
    classes=(),
    positive_class=None,
    name=None,
    weights=metrics.Weights(),
    metric="sum",
    theta=0.0,
    rho="laplace",
    averaged=False,
    audit=0.0,
    audit_trains=True,
    pace=None,
    horizon=None,
    owner="",
    guidelines="",
):
    """Check the settings and store a new session; its id.

    rho is 'laplace' (estimated from the labels given) or a number; what an algorithm fixes goes before. A multi-class
    algorithm asks for one of `classes` (names; the data set's own where there are none given). A session never uses the
    data set's own labels: they draw the exact curves and nothing else. Labels of K classes serve a session of two
    where positive_class says (by name) which is the positive one. audit: share of the budget for random checks up to
    the horizon (rounds; None: the stream as it is), whose answers teach only if audit_trains. pace: share of the
    horizon in which the rest is spent evenly (None: as the rule wants).
    """
    chosen = strategy(algorithm, learner, rule, parameters)
    about = store.dataset(dataset)
    own = list(about["classes"] or ())
    names = _names(classes or own, about) if chosen.multiclass else []
    if classes and not chosen.multiclass:
        raise SessionError(f"{chosen.algorithm} asks for a positive and a negative class. Got {len(classes)} classes.")
    if positive_class is not None and (chosen.multiclass or positive_class not in own):
        allowed = f"one of {', '.join(own)}" if own and not chosen.multiclass else "left out here"
        raise SessionError(f"positive_class must be {allowed}. Got {positive_class}.")
    chosen.build(about["features"], len(names))
    budget, seed = _whole(budget, "budget", 1), _whole(seed, "seed", 0)
    positive_name, negative_name = ("", "") if names else (positive_name.strip(), negative_name.strip())
    if not names and (not positive_name or not negative_name or positive_name == negative_name):
        raise SessionError("a session needs two different class names.")
    if metric not in ("sum", "cost"):
        raise SessionError(f"metric must be sum or cost. Got {metric}.")
    horizon = about["items"] if horizon is None else _whole(horizon, "horizon", 1)
    spending.plan(chosen.rule, budget, horizon, audit, audit_trains, pace)
    rho = stream.objective(theta, effective_rho(chosen, rho, weights, metric), weights.ratio("sum")).rho
    return store.add_session(
        {
            "name": (name or about["name"]).strip(),
            "dataset": about["id"],
            "items": about["items"],
            "horizon": horizon,
            "algorithm": chosen.algorithm,
            "learner": chosen.learner,
            "rule": chosen.rule,
            "parameters": json.dumps({"learner": chosen.learner_parameters, "rule": chosen.rule_parameters}),
            "budget": budget,
            "seed": seed,
            "shuffled": int(shuffled),
            "positive_name": positive_name,
            "negative_name": negative_name,
            "classes": json.dumps(names) if names else None,
            "positive_class": positive_class,
            "alpha_p": weights.alpha_p,
            "c_p": weights.c_p,
            "metric": metric,
            "theta": float(theta),
            "rho": rho,
            "averaged": int(averaged),
            "audit": float(audit),
            "audit_trains": int(audit_trains),
            "pace": None if pace is None else float(pace),
            "owner": owner.strip(),
            "guidelines": guidelines,
            "engine": __version__,
        }
    )


def effective_rho(chosen, rho, weights, metric):
    """The rho that a strategy runs with where no labels are known beforehand; 0 is Laplace's estimate."""
    if rho == "auto":
        raise SessionError("rho must be a number > 0, or laplace. Got auto.")
    return chosen.known_rho(rho, weights, metric)


def _names(classes, about):
    """The class names of a multi-class session, checked."""
    names = [name.strip() for name in classes]
    if not names:
        raise SessionError(f"the data set {about['name']} has no classes of its own: name those to ask for.")
    if not 2 <= len(names) <= MOST_CLASSES or len(set(names)) < len(names) or not all(names):
        raise SessionError(f"a session needs 2 to {MOST_CLASSES} different class names. Got {', '.join(names)}.")
    return names


def _labels(dataset, about):
    """The labels of a data set as the classes of a session, 0 where they are none of these."""
    own, names = dataset.classes, about["classes"]
    if own:
        return relabelled(dataset.y, own, names or (), about["positive_class"])
    return rows.read_only(np.zeros(dataset.y.size), np.int8) if names else dataset.y


def _near(found, kept):
    return isclose(found, kept, rel_tol=1e-6, abs_tol=1e-9)


def _whole(value, name, low):
    if not isinstance(value, (int, float, np.number)) or not low <= value < 2**53 or int(value) != value:
        raise SessionError(f"{name} of a session must be a whole number >= {low}. Got {value}.")
    return int(value)


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
        self._planned(state)
        state.before = state.plan and _copied(state.plan)
        while True:
            if t in ends:
                self._decide(state)
                ends[t](state)
            asking = self._planned(state)
            stop = min(self.rounds, self._point(t), *(end for end in ends if end > t))
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
            if t < stop or stop == self.rounds:
                return state

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
                    f"question {entry['number']} of the session {about['name']} does not come out of its log: "
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
        """Make the changes that came after so many answers, if there are: the learner is taught again from the first
        round on, with the labels that stood then; what happened in the stream stays."""
        if not any(change["position"] == answers for change in changes):
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


@dataclass(frozen=True)
class Decided:
    """The margin and the class predicted in every round of a stream, whether it was asked, and how many have passed."""

    margins: np.ndarray
    predicted: np.ndarray
    asked: np.ndarray
    rounds: int = 0

    @classmethod
    def empty(cls, rounds):
        return cls(np.zeros(rounds), np.zeros(rounds, np.int8), np.zeros(rounds, bool))

    def longer(self, rounds):
        """The same with room for a longer stream."""
        parts = (np.resize(part, rounds) for part in (self.margins, self.predicted, self.asked))
        return Decided(*parts, self.rounds)


class Session(Run):
    """An open session, safe to share between threads; opening it rebuilds the state from its log."""

    def __init__(self, store, session):
        super().__init__(store, store.session(session))
        self.id = session
        self._lock, self._decided = threading.RLock(), Decided.empty(0)
        self._rebuild()

    def _rebuild(self):
        """Run the log again from the first round; again, with everybody else waiting, if somebody wrote meanwhile."""
        question = self._run_log()
        with self.store.transaction():
            if self.store.last_answer(self.id) != self.version:
                question = self._run_log()
            self._settle(question)

    def _run_log(self):
        """Bring the state to the end of the log, checking every question and digest; the id of the one that waits."""
        with self.store.transaction():
            log, digests, self._changes = (
                ask(self.id) for ask in (self.store.answers, self.store.digests, self.store.changes)
            )
            self._version = self.store.last_answer(self.id)
            if self.grown:
                self._take_more()
        self._decided = Decided.empty(self.rounds)
        *_, self._state = self.follow(log, digests, self._changes)
        self._answers = answered(log)
        return None if len(log) == len(self._answers) else log[len(self._answers)]["id"]

    def _decide(self, state):
        found, t = self._decided, state.question.t
        rounds = t + (state.question.predicted != 0)
        stream.decide(
            self.dataset.rows, self.order, state.learner, state.objective.theta, found.rounds, rounds, found.margins,
            found.predicted,
        )  # fmt: skip
        found.asked[found.rounds : rounds] = np.arange(found.rounds, rounds) == t
        self._decided = replace(found, rounds=rounds)

    def _settle(self, question=None):
        """Make the waiting question the current one, and prepare the next one under each possible answer."""
        number, ended = len(self._answers) + 1, self.ended(self._state)
        parent, label = (self._answers[-1][0], self._answers[-1][2]) if self._answers else (0, 0)
        branches = (
            {}
            if ended or self._heavy
            else {label: self.advance(self._state.copy(), label) for label in (*self.names, SKIP)}
        )
        with self.store.transaction():
            if not ended:
                question = question or self._put(self._state.question, parent, label)
            self.store.number_question(self.id, question, number)
            self._branches = {
                label: (branch, None if self.ended(branch) else self._put(branch.question, question, label))
                for label, branch in branches.items()
            }
        self._current = None if ended else self._asked(self._state.question, question, number)

    @property
    def _heavy(self):
        return sum(array.nbytes for array in self._state.arrays()) * (1 + len(self.names)) > BRANCH_LIMIT

    def _put(self, question, parent, branch):
        return self.store.put_question(
            {
                "session": self.id,
                "parent": parent,
                "branch": branch,
                **self._facts(question),
                "asked_at": now(),
            }
        )

    def _asked(self, question, id, number):
        old = self.store.old_label(id)
        return Asked(
            id,
            number,
            question.t,
            int(self.order[question.t]),
            question.margin,
            question.probability,
            question.predicted,
            None if old is None else old["label"],
            question.audit,
        )

    # What a page does

    def refresh(self):
        """Rebuild where another process has answered since, and go on where the data set has grown."""
        with self._lock:
            if self.store.last_answer(self.id) != self.version:
                self._rebuild()
            elif self.grown:
                with self.store.transaction():
                    self._go_on()

    @property
    def grown(self):
        """Whether the data set has items that the session has not taken yet."""
        return self.store.length(self.dataset.id) > self.rounds

    def _take_more(self):
        self.dataset.refresh()
        self._take()
        self._decided = self._decided.longer(self.rounds)

    def _go_on(self):
        """Take the items that came, and run on what had reached the end: the state, or what is prepared."""
        end = self.rounds
        self._take_more()
        if self.store.last_answer(self.id) != self.version:
            self._rebuild()
        elif any(state.question.t == end for state in (self._state, *(state for state, _ in self._branches.values()))):
            if self._state.question.t == end:
                self._state = self._continued(self._state.copy(), end)
                self._decide(self._state)
            self._settle(self._current and self._current.id)

    def _continued(self, state, end):
        """Run a state on from what was the end of the stream; changes the state given."""
        if end and self._point(end - 1) != end:  # a point that only the end had
            state.trail.pop()
        before = state.before
        state = self._run(state, end, {})
        state.before = before
        return state

    @property
    def place(self):
        """The question that waits, or None at the end, and the progress."""
        with self._lock:
            return self.place_of(self._state, self._current, self._answers)

    @property
    def branches(self):
        """The place after each possible answer to the question that waits, where it is prepared."""
        with self._lock:
            number = len(self._answers) + 2
            return {
                label: self.place_of(
                    state,
                    following and self._asked(state.question, following, number),
                    [*self._answers, (0, "", label)],
                )
                for label, (state, following) in self._branches.items()
            }

    @property
    def previous(self):
        """The id of the question answered last, which undo takes back, or None."""
        return self._answers[-1][0] if self._answers else None

    @contextmanager
    def _event(self, event):
        """All or nothing of what an event changes, here and in the database: gives whether it is new."""
        with self._lock:
            self.refresh()  # what it prepares stays, whatever comes of the rest
            kept = dict(vars(self))
            try:
                with self.store.transaction():
                    self.refresh()
                    new = not self.store.event(event)
                    yield new
                    if new:
                        self._version = self.store.last_answer(self.id)
            except BaseException:
                vars(self).update(kept)
                raise

    def _checked(self, label):
        if label not in (*self.names, SKIP):
            raise SessionError(f"a label must be {', '.join(map(str, self.names))} or 0 (skip). Got {label}.")

    def answer(self, event, question, label, annotator="", seconds=None, highlighted=None):
        """Store and learn an answer (a class or SKIP); an event that is known changes nothing."""
        self._checked(label)
        with self._event(event) as new:
            if not new:
                return
            if not self._current or question != self._current.id:
                raise SessionError(self._why_not(question))
            self.store.put_label(event, question, label, annotator, seconds, highlighted)
            prepared = self._branches.get(label)
            self._answers = [*self._answers, (question, event, label)]
            self._state, following = prepared or (self.advance(self._state.copy(), label), None)
            self._decide(self._state)
            self._settle(following)
            if len(self._answers) % DIGEST_EVERY == 0:
                self.store.put_digest(self.id, len(self._answers), self._state.digest())

    def _why_not(self, question):
        standing = self.store.standing_label(question)
        if standing:
            return f"this item was answered already by {standing['annotator'] or 'somebody'}."
        return "this item is not the one that is asked now."

    def undo(self, event, question):
        """Take back the last answer, the one to this question, and rebuild; a known event changes nothing."""
        with self._event(event) as new:
            if not new:
                return
            if question != self.previous:
                raise SessionError("only the last answer can be taken back.")
            self.store.undo_label(question, event)
            self.store.shorten_log(self.id, len(self._answers) - 1)
            if self._changes:
                self.store.drop_prepared(self.id)
            self._rebuild()

    def correct(self, event, question, label, annotator="", seconds=None):
        """Replace an answer given before (a skip too), or do nothing where it is the same or the event is known.

        What happened in the stream stays: the questions, their chances, what was pushed. The learner is taught again
        with the answers that stand now, and goes on from there.
        """
        self._checked(label)
        with self._event(event) as new:
            if not new:
                return
            old = next((label for id, _, label in self._answers if id == question), None)
            if old is None:
                raise SessionError("only an item that was answered can be corrected.")
            if label == old:
                return
            if old == SKIP:
                self._spend("an answer to a skipped item")
            position = len(self._answers)
            self.store.put_label(event, question, label, annotator, seconds, None, position, self._end)
            self._change()

    @property
    def _end(self):
        """The round that the stream would go on with, or None while a question waits."""
        return None if self._current else self.rounds

    def _spend(self, what):
        """Refuse what costs a label where the budget has none left beside the one for the question that waits."""
        if self.about["budget"] - self._state.spent <= (self._current is not None):
            last = "the last label is for the item that is asked now" if self.place.progress.left else "none is left"
            raise SessionError(f"{what} costs a label of the budget, and {last}.")

    def _change(self):
        """Teach the learner again after a change that is stored; the question that waits stays."""
        self.store.drop_prepared(self.id)
        log, self._changes = self.store.answers(self.id), self.store.changes(self.id)
        self._answers, self._state = answered(log), self._state.copy()
        self.change(self._state, log, self._changes, len(self._answers))
        self._settle(self._current and self._current.id)

    def feedback(self, event, item, wrong, annotator="", trains=False):
        """Store that an item which passed as positive without a question was passed wrongly (or, where `wrong` is
        False, take such a mark away); trains: it is learned as a negative and costs a label."""
        with self._event(event) as new:
            if not new:
                return
            passed = np.flatnonzero(self.order[: self._decided.rounds] == item)
            if not passed.size or self._decided.asked[passed[0]]:
                raise SessionError("only an item that passed without a question can be marked.")
            if trains and (not wrong or self.multiclass or self._decided.predicted[passed[0]] < 0):
                raise SessionError("only a wrong mark on an item that passed as positive can train.")
            known = {mark["item"]: mark for mark in self.store.feedback(self.id)}.get(item)
            if known and known["position"] is not None:
                raise SessionError("this mark has been learned: it stays.")
            if trains:
                self._spend("a mark that trains")
            position = len(self._answers) if trains else None
            self.store.put_feedback(event, self.id, item, wrong, annotator, position, self._end if trains else None)
            if trains:
                self._change()

    @property
    def marks(self):
        """The items that are marked as passed wrongly, and whether each mark was learned."""
        marks = self.store.feedback(self.id)
        return {mark["item"]: mark["position"] is not None for mark in marks if mark["wrong"]}

    def note(self, event, item, text, annotator=""):
        """Store a note on an item; an empty one takes it away."""
        if not 0 <= item < rows.length(self.dataset.rows):
            raise SessionError(f"a note must be on an item of the stream. Got {item}.")
        self.store.put_note(event, self.id, item, text, annotator)

    @property
    def notes(self):
        """The notes that stand, by item."""
        return self.store.notes(self.id)

    @property
    def changed(self):
        """What changes what is asked next besides answers: corrections, marks that train, a stream that grows."""
        return len(self._changes), self.rounds

    def earlier(self, answers):
        """The learner's weights as they were so many answers ago."""
        with self._lock:
            log = self.store.answers(self.id)[: len(self._answers)]
            return weights(self.taught(log, self._changes, max(0, len(log) - answers)).learner)

    @property
    def last_update(self):
        """The seconds that it took to learn the last answer and to find the next question."""
        return self._state.seconds

    @property
    def history(self):
        """The log in order, as `Store.answers` has it, with whether each label was corrected, and the item's note."""
        notes = self.notes
        return [
            entry | {"corrected": entry["label"] != entry["first"], "note": notes.get(entry["item"], "")}
            for entry in self.store.answers(self.id)
        ]

    @property
    def skipped(self):
        """The questions that stand skipped, in order."""
        return [
            Asked(**{name: entry[name] for name in Asked.__dataclass_fields__ if name != "old"}, old=SKIP)
            for entry in self.store.answers(self.id)
            if entry["label"] == SKIP
        ]

    @property
    def decided(self):
        """The margin, the class predicted and whether it was asked, of every round up to now."""
        with self._lock:
            found = self._decided
            return found.margins[: found.rounds], found.predicted[: found.rounds], found.asked[: found.rounds]

    def digest(self):
        """The fingerprint of the state now."""
        return self._state.digest()

    @property
    def version(self):
        """What changes with every answer, undo and correction, and with every mark that trains."""
        return self._version


FACTS = ("round", "item", "margin", "probability", "draw", "audit", "predicted")
