"""Fold the log of a session into its state (event sourcing): only `Run.apply` changes a state, by typed events.

The live session, a rebuild, the look back, verify and the estimates share it. A state depends on the settings,
the data and the events, and on nothing else: the same input gives the same bits.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..datasets import Dataset
from ..datasets.given import SCALE, TRUST, WithColumn
from ..kernel import metrics, rows, spending, stream
from ..kernel.learners import Learner, count_index, weights
from ..kernel.questions import CLOSED, Rare, next_reading, note, shared
from ..store import Row, Store
from .labels import SKIP, KnownLabel, labels_of_questions, session_labels
from .log import (
    Answered,
    Asked,
    Changed,
    Event,
    Grown,
    LabelsAdded,
    LabelsKnown,
    Lesson,
    QuestionClosed,
    QuestionOpened,
    StoredQuestion,
    add_changes,
    add_known,
    asks,
)
from .settings import Settings
from .state import ALL_ROUNDS, Decisions, MaskedStream, Outstanding, Place, Progress, State, copied

FACTS = ("round", "item", "margin", "probability", "draw", "audit", "predicted")
POINTS = 200  # points of a curve over the first items, and over each doubling; every question is a point, too


def padded(labels: Sequence[int], size: int) -> tuple[int, ...]:
    """Pad the labels of an answer to `size` labels, with SKIP for each question that was added later."""
    return (*labels, *[SKIP] * (size - len(labels)))


class Run:
    """A stream under the settings of a session, and its state: the part that a session and a look back have
    in common. Nothing here writes to the store.

    rounds: length of the stream (None: all items of the data set).
    """

    def __init__(self, store: Store, settings: Settings, rounds: int | None = None):
        self.store, self.settings = store, settings
        self.dataset = Dataset(store, settings.dataset)
        if audited := settings.audited:
            column, cut = audited["column"], audited["cut"]
            self.dataset = WithColumn(store, settings.dataset, column, cut, settings.items, settings.positive_name)
        self.strategy, self.weights, self.names = settings.strategy, settings.weights, settings.names
        self.several = len(settings.question_names)  # questions about an item, even closed; 0: a single one
        self.multiclass = self.strategy.multiclass  # an answer is one of K classes, not positive or negative
        self.priors = store.prior_weights(settings.id)
        first = settings.items
        self._arrivals = stream.shuffled(first, settings.seed) if settings.shuffled else np.arange(first)
        self._truth: tuple[tuple[int, ...], dict[int, np.ndarray]] | None = None  # cached by the shape of `y`
        self.began_with = LabelsKnown(tuple(KnownLabel(*own) for own in store.first_known(settings.id)))
        if whole := [each.item for each in self.began_with.labels if each.is_whole]:
            last = np.isin(self._arrivals, whole)  # the rounds in which something can be asked come first
            self._arrivals = np.concatenate((self._arrivals[~last], self._arrivals[last]))
        self._take(rounds)
        self.state = self.start()

    def _take(self, rounds: int | None = None) -> None:
        """Take the present items of the data set into the stream. Items appended later follow the items that the
        session began with. rounds: length of the stream (None: all items)."""
        y = self.dataset.y
        self.y = rows.read_only(np.zeros((self.several, y.size)), np.int8) if self.several else self._session_labels(y)
        self.labelled = bool(self.y.all())  # whether metrics are exact
        later = np.arange(self._arrivals.size, y.size)
        self._arrivals = stream.checked_order(np.concatenate((self._arrivals, later)), self.dataset.rows)
        self._stream = MaskedStream((), self.y, np.zeros(y.size, bool))
        self.rounds = y.size if rounds is None else rounds

    def _session_labels(self, y: np.ndarray) -> np.ndarray:
        """Map labels of the data set to labels of the session, 0 for a label that the session does not have."""
        return session_labels(self.dataset, y, self.settings.classes, self.settings.positive_class)

    @property
    def truth(self) -> dict[int, np.ndarray]:
        """The labels of the file, {index of the question: labels of all items}, for each question that the file answers
        for every item. The state never sees them."""
        if self._truth is None or self._truth[0] != self.y.shape:
            questions = [] if self.settings.audited else self.settings.questions or []
            labels = labels_of_questions(self.dataset, questions)
            self._truth = self.y.shape, {k: own for k, own in enumerate(labels) if own.all()}
        return self._truth[1]

    @property
    def shown_columns(self) -> Collection[str]:
        """The columns of the file that are currently shown with each item, without audited columns."""
        chosen = self.store.shown_columns(self.settings.id) if self.dataset.details else None
        columns = self.dataset.shown_columns if chosen is None else chosen
        return [name for name in columns if name not in self.settings.audited_columns]

    @property
    def order(self) -> np.ndarray:
        """The item of each round, as of now."""
        return self.order_of(self.state)

    def order_of(self, state: State) -> np.ndarray:
        """Return the item of each round. In a file, a question moves its item forward, and later rounds may change."""
        return state.plan.queue if state.plan and state.plan.queue.size else self._arrivals

    def stream_of(self, state: State) -> MaskedStream:
        """Return the stream for a state. A label is masked if it is known from elsewhere, or if its question is not
        asked in the round of the item."""
        own = self._stream
        if own.known_parts is not state.known_parts or own.spans != state.spans:
            y, is_known, order = self.y.copy(), np.zeros(self.y.shape[-1], bool), self.order_of(state)
            is_known[state.known_items] = True
            for part, items in zip(np.atleast_2d(y), state.known_parts):
                part[items] = stream.KNOWN_LABEL
            for part, (first, stop) in zip(y, state.spans):
                if stop < ALL_ROUNDS[1]:  # items appended later are not in the order of a file yet, but are masked too
                    asked = part[order[:stop]]
                    part[:] = stream.KNOWN_LABEL
                    part[order[:stop]] = asked
                part[order[:first]] = stream.KNOWN_LABEL
            y = rows.read_only(y[: len(state.spans) or None], np.int8)
            self._stream = own = MaskedStream(state.known_parts, y, is_known, state.spans)
        return own

    def known_from(self, state: State, t: int) -> int:
        """Return the number of known items in round t (from 0) and all later rounds."""
        return int(self.stream_of(state).is_known[self.order_of(state)[t:]].sum())

    # The fold

    def apply(self, state: State, event: Event) -> State:
        """Return the state after an event. `state` itself must not be used any more."""
        match event:
            case Grown(rounds):
                return self._grown(state, rounds)
            case Asked():
                return self._run(state, state.question.t + 1)
            case Answered(label, number, labels):
                return self._answered(state, label, number or state.number, labels)
            case Changed(changes):
                add_changes(state.lessons, changes)
                state.answers = Counter(state.labels)
                return self._retrained(state)
            case LabelsKnown(labels):
                add_known(state.lessons, labels)
                lessons = [lesson for lesson in state.lessons if lesson.is_known]
                own = [[each.of_part(k) for each in lessons] for k in range(len(state.spans))] or [lessons]
                items = ([lesson.item for lesson in each if lesson.label != SKIP] for each in own)
                state.known_parts = tuple(np.sort(np.array(each, np.int64)) for each in items)
                return self._retrained(state)
            case LabelsAdded(labels, horizon):
                return self._extended(state, labels, horizon)
            case QuestionOpened():
                return self._opened(state)
            case QuestionClosed(part):
                return self._closed(state, part)

    def start(self, questions: int | None = None) -> State:
        """Return the state before any event, with a stream of no rounds. questions: number of questions about each
        item, 0 if the session asks a single question (None: as many as the session begins with)."""
        settings, plan, no_question = self.settings, self.settings.plan(), stream.Question(0, *stream.NOTHING)
        first = sum(not question.get("added") for question in settings.questions or ())
        several = first if questions is None else questions
        parts, counts = tuple(self._part(k) for k in range(several or 1)), self._no_counts()
        return State(
            parts, (ALL_ROUNDS,) * several, np.array([counts] * several) if several else counts, no_question, 0,
            settings.budget, plan, shared(several, plan),
        )  # fmt: skip

    def _no_counts(self) -> np.ndarray:
        return metrics.empty(len(self.settings.classes or ()))

    def _part(self, k: int = 0) -> stream.Parts:
        """Build the learner, rule, objective and average of question `k` (from 0), as they are before any event."""
        settings, classes, columns = self.settings, len(self.settings.classes or ()), self.dataset.rows.columns
        strategy, prior, theta = self.strategy, self.priors.get(k), settings.theta
        if settings.audited:
            prior = {columns - 1: TRUST}
            if not k:  # question 0 is decided by the column itself
                strategy = replace(strategy, learner="given", learner_parameters={})
                prior, theta = {columns - 1: 1 / SCALE}, 0.0
        learner, rule = strategy.build(columns, classes)
        if prior:
            stream.apply_prior(learner, prior)
        objective = stream.objective(theta, settings.rho, self.weights.ratio("sum"))
        return stream.Parts(learner, rule, objective, stream.average(learner, settings.averaged))

    def _grown(self, state: State, rounds: int) -> State:
        end, state.rounds = state.rounds, max(state.rounds, rounds)
        if state.plan and self.settings.goal == spending.FIND:
            state.plan = spending.joined(state.plan, self._arrivals[: state.rounds])
        if state.question.t < end:
            return state
        if end and self._point(end - 1) != end:  # it was a point only because the stream ended there
            state.trail.pop()
        return self._run(state, end)

    def _opened(self, state: State) -> State:
        """Add a question that is asked from the next round on. Its learner has no lesson yet."""
        t, part, none = self._next_round(state), self._part(len(state.parts)), self._no_counts()[None]
        state.parts, state.spans = (*state.parts, part), (*state.spans, (t, ALL_ROUNDS[1]))
        state.counts = np.concatenate((state.counts, none))
        state.closed = state.closed and (t, np.concatenate((state.closed[1], none)))
        if isinstance(state.weighing, Rare) and state.plan:
            recent = np.zeros((min(t, spending.RECENT_ROUNDS), 4))
            stream.inspect_rounds(
                self.dataset.rows, self.y[0], self.order_of(state), part.learner, part.rule, part.objective,
                self.settings.seed, t - len(recent), True, self._no_counts(), recent,
            )  # fmt: skip
            state.weighing = state.weighing.opened(state.plan, recent[:, 1], t)
        return state

    def _closed(self, state: State, part: int) -> State:
        """Close a question: it is not asked from the next round on. part: index of the question."""
        spans = [*state.spans]
        spans[part] = spans[part][0], self._next_round(state)
        state.spans = (*spans,)
        if isinstance(state.weighing, Rare):
            state.weighing.close(part)
        return state

    @staticmethod
    def _next_round(state: State) -> int:
        """Return the first round in which an added or closed question takes effect."""
        return state.closed[0] if state.closed else state.streamed

    def _answered(self, state: State, label: int, number: int, labels: tuple[int, ...]) -> State:
        (question, _, item, _), start = state.outstanding.pop(number), perf_counter()
        last = number == state.number and state.question.predicted != 0  # no later round has passed
        t = question.t if last else state.streamed - 1  # the round in which it is learned
        state.lessons.append(Lesson(number, item, t, question.audit, label, question.probability, labels=labels))
        state.answers[label] += 1
        if label != SKIP:
            state.spent += 1
            state.audited += question.audit
            teaches, spent = self.settings.audit_trains or not question.audit, state.spent == state.budget
            y = [each * teaches for each in padded(labels or (label,), len(state.parts))]
            if last:
                for part, own in zip(state.parts, y):
                    stream.learn(self.dataset.rows, self.order_of(state), *part, question, own, spent)
                note(state.weighing, np.array(y))
            else:
                self._teach(state, np.array([item]), np.array([y]), [t], [question.probability], spent)
        if last:
            state = self._run_on(state, t + 1)
        elif state.question.predicted == 0:  # a reserved label may be free again, or the last one was spent
            state = self._run_on(state, state.question.t)
        else:
            state.since = state.streamed
        if label != SKIP:
            state.seconds = perf_counter() - start
        return state

    def _run_on(self, state: State, t: int) -> State:
        """Run the stream from round t on, unless all remaining labels are reserved for waiting questions."""
        if not state.outstanding or state.reserved < state.budget:
            return self._run(state, t)
        state.question, state.since = stream.Question(t, *stream.NOTHING), t
        return state

    def _run(self, state: State, t: int) -> State:
        """Run the stream from round t to the next question, or to its end."""
        asking: bool | spending.Plan = state.spent < state.budget
        state.closed = None if asking else state.closed or (t, state.counts.copy())
        if state.plan:
            waiting = sum(each.question.audit for each in state.outstanding.values())
            state.plan.spent[:] = state.reserved, state.audited + waiting
            asking = state.plan
        state.since, state.before, y = t, state.plan and copied(state.plan), self.stream_of(state).y
        state.weighed = state.weighing and copied(state.weighing)
        while True:
            stop = min(state.rounds, self._point(t))
            asked = (self._next_reading if self.several else self._next)(state, y, t, stop, asking)
            state.question, t = asked.question, asked.question.t
            if t < stop:
                state.number += 1
                state.outstanding[state.number] = asked
            if t < stop or stop in (state.rounds, self._point(stop - 1)):
                state.trail.append((t + (t < stop), state.counts.copy()))
            if t < stop or stop == state.rounds:
                return state

    def _next(self, state: State, y: np.ndarray, t: int, stop: int, asking: bool | spending.Plan) -> Outstanding:
        """Run rounds t .. stop - 1 to the next question, if there is one."""
        (learner, rule, objective, _), order = state.parts[0], self.order_of(state)
        question = stream.until_query(
            self.dataset.rows, y, order, learner, rule, objective, self.settings.seed, t, stop, asking, state.counts
        )
        item = int(order[question.t]) if question.t < stop else -1
        return Outstanding(question, count_index(learner, question.predicted, int(self.y[item])), item)

    def _next_reading(
        self, state: State, y: np.ndarray, t: int, stop: int, asking: bool | spending.Plan
    ) -> Outstanding:
        """Run rounds t .. stop - 1 to the next item that is asked about, if there is one."""
        parts, order = [(part.learner, part.rule, part.objective) for part in state.parts], self.order_of(state)
        reading = next_reading(
            self.dataset.rows, y, order, parts, self.settings.seed, t, stop, asking, state.weighing, state.counts
        )
        own = tuple(zip(reading.margins.tolist(), reading.predicted.tolist()))
        margin, predicted = max((part for part in own if part[1]), default=own[0])
        question = stream.Question(reading.t, margin, 0.0, reading.probability, reading.draw, reading.audit, predicted)
        asked = np.flatnonzero(reading.predicted)
        cell = asked, (reading.predicted[asked] > 0).astype(int), np.ones_like(asked)
        return Outstanding(question, cell, int(order[reading.t]) if reading.t < stop else -1, own)

    def _point(self, t: int) -> int:
        """Return the next round after t at which the curves have a point. The points are evenly spaced: POINTS of them
        over the items that the session began with, and POINTS over each doubling of their number."""
        first = max(1, self.settings.items)
        every = max(1, -(-first // POINTS)) << max(0, (t // first).bit_length() - 1)
        return (t // every + 1) * every

    def _retrained(self, state: State) -> State:
        """Retrain the learners of a state from scratch on the current labels. The past rounds stay as they are."""
        new = self.taught(state.lessons, state.budget, len(state.spans))
        state.parts, state.spent, state.audited = new.parts, new.spent, new.audited
        if isinstance(state.weighing, Rare) and isinstance(new.weighing, Rare):
            asked = state.weighing.positives != CLOSED
            state.weighing.positives[asked] = new.weighing.positives[asked]
        state.since = state.streamed
        if state.streamed:
            self._refresh_scratch(state)
        return state

    def _extended(self, state: State, labels: int, horizon: int) -> State:
        """Add labels to the budget of a state. If the budget was spent, the stream returns to the round after the last
        label: the rounds since then, in which nothing could be asked, are decided again."""
        t, counts = state.closed or (state.question.t, state.counts)
        state.budget += labels
        if state.plan and (more := self.settings.plan(labels, max(1, horizon - t))):
            state.plan = spending.extended(state.plan, more, t, all_spent=state.closed is not None)
        if not state.closed:
            waits = state.question.predicted or state.question.t >= state.rounds
            return state if waits else self._run_on(state, state.question.t)
        state.counts, state.trail = counts.copy(), [point for point in state.trail if point[0] <= t]
        return self._run(self._retrained(state), t)

    def taught(self, lessons: list[Lesson], budget: int, questions: int | None = None) -> State:
        """Return a state that has learned these lessons but has not seen the stream. budget: total number of labels.
        questions: as in `start`."""
        lessons = [lesson for lesson in lessons if lesson.label != SKIP]
        spent = sum(not lesson.is_known for lesson in lessons)
        trains = self.settings.audit_trains
        columns = [(each.item, each.round, trains or not each.audit) for each in lessons]
        items, times, teaches = np.array(columns, np.int64).reshape(-1, 3).T
        state = self.start(questions)
        labels = np.array([padded(each.labels or (each.label,), len(state.parts)) for each in lessons], np.int64)
        state.spent, state.audited = spent, sum(each.audit for each in lessons)
        y = labels.reshape(len(lessons), len(state.parts)) * teaches[:, None]
        self._teach(state, items, y, times, [each.chance for each in lessons], state.spent == budget)
        return state

    def _teach(
        self, state: State, items: np.ndarray, y: np.ndarray, rounds: ArrayLike, chances: ArrayLike, spent: bool
    ) -> None:
        """Teach the learners of a state some labels, each as if its item had been asked in the given round with the
        given chance. y: labels, shape (items, questions). spent: whether the last label uses up the budget."""
        for part, own in zip(state.parts, y.T):
            stream.teach(
                self.dataset.rows, stream.checked_order(items, self.dataset.rows), rows.read_only(own, np.int8),
                np.array(rounds, np.int64), np.array(chances, np.float64), *part, spent,
            )  # fmt: skip
        if state.weighing:
            for own in y:
                note(state.weighing, own)

    def _refresh_scratch(self, state: State) -> None:
        """Fill the scratch arrays of the learners by predicting the last row again: the row of the waiting question, or
        the last row of the stream."""
        t, order = state.question.t, self.order_of(state)
        for (learner, rule, objective, _), y in zip(state.parts, np.atleast_2d(self.y)):
            if state.question.predicted == 0:
                margins, predicted = np.zeros(t), np.zeros(t, np.int8)
                stream.predict_rounds(self.dataset.rows, order, learner, objective.theta, t - 1, t, margins, predicted)
            else:
                stream.inspect_rounds(
                    self.dataset.rows, y, order, learner, rule, objective, self.settings.seed, t,
                    copied(state.plan) if state.plan else True, self._no_counts(), np.zeros((1, 4)),
                )  # fmt: skip

    def used(self, state: State, k: int = 0) -> set[int]:
        """Return the items that cannot get a known label because they were asked about or marked. k: index of the
        question that the label answers. Answers given before this question was added do not count."""
        taught = [each for each in state.lessons if not each.is_known and k < len(each.labels or (each.label,))]
        waiting = [each for each in state.outstanding.values() if not each.parts or asks(each.parts, k)]
        others = state.known_parts[k].tolist() if k < len(state.known_parts) else ()
        return ({each.item for each in taught} - {*others}) | {each.item for each in waiting}

    def facts(self, asked: Outstanding) -> Row:
        """Return the facts about a question that are stored: {name: value} for the names in FACTS, with `parts` if the
        session asks several questions."""
        question = asked.question
        parts = {"parts": [*map(list, asked.parts)]} if asked.parts else {}
        return {"round": question.t, "item": asked.item} | {name: getattr(question, name) for name in FACTS[2:]} | parts

    # Reading

    @property
    def title(self) -> str:
        """The name of the session."""
        return self.settings.name

    def ended(self, state: State) -> bool:
        """Tell whether a state has ended: the budget is spent, or the stream has ended and no question waits."""
        return state.spent >= state.budget or (state.question.t >= state.rounds and not state.outstanding)

    def place_of(self, state: State, asked: StoredQuestion | None) -> Place:
        """Return the `Place` that a page shows for a state. asked: the question to show (None: do not show any)."""
        answers = {label: state.answers[label] for label in self.names}
        streamed = state.streamed if state.outstanding else self.rounds
        passed = streamed - int(state.counts.sum()) if state.known_items.size else 0  # rounds of known items
        pushed = None if self.multiclass or self.several else int(metrics.pushed(state.counts))
        progress = Progress(
            state.spent, state.budget, answers, state.answers[SKIP], streamed - passed,
            self.rounds - passed - self.known_from(state, streamed), pushed,
            asked is not None, not asked and bool(state.outstanding), state.known_items.size,
        )  # fmt: skip
        counts = state.counts.copy()
        for waiting in state.outstanding.values():
            counts[*waiting.cell, 1] -= 1
        own = [weights(part.learner) for part in state.parts]
        return Place(asked, progress, np.array(own) if self.several else own[0], counts)

    def decide(self, decisions: Decisions, state: State) -> Decisions:
        """Write the rounds that a state has decided into the arrays of the session's decisions. Return the decisions
        with the new number of rounds; the arrays are shared. Call this before the learner changes."""
        rounds, order = state.streamed, self.order_of(state)
        y = np.atleast_2d(self.stream_of(state).y)
        for part, labels, *own in zip(
            state.parts, y, np.atleast_2d(decisions.margins), np.atleast_2d(decisions.predicted)
        ):
            stream.predict_rounds(
                self.dataset.rows, order, part.learner, part.objective.theta, state.since, rounds, *own
            )
            left_out = state.since + np.flatnonzero(labels[order[state.since : rounds]] == stream.KNOWN_LABEL)
            for values in own:
                values[left_out] = 0
        decisions.asked[state.since : rounds] = False
        if state.since <= state.question.t < rounds:
            decisions.asked[state.question.t] = True
        return replace(decisions, rounds=rounds)

    @property
    def learner(self) -> Learner:
        """The current learner. Raise SessionError if the session asks several questions."""
        return self.state.only().learner

    @property
    def labels(self) -> list[int]:
        """The current answers without skips, in the order in which they were first given."""
        return [label for label in self.state.labels if label != SKIP]

    def earlier(self, labels: int) -> np.ndarray:
        """Return the learner's weights without the last `labels` labels: trained on all earlier ones, as they are now.
        Raise SessionError if the session asks several questions."""
        return weights(self.taught(self.state.lessons[:-labels], self.state.budget).only().learner)

    def evaluate(self, counts: np.ndarray, evaluation: str) -> dict[str, Any]:
        """Compute the metrics of a table of counts, {name: value}. The values are arrays if `counts` has a table for
        each point of a curve. evaluation: as in `metrics.evaluate`."""
        if self.multiclass:
            return metrics.evaluate_classes(counts, evaluation)
        return metrics.evaluate(counts, evaluation, self.weights)

    @property
    def counts(self) -> np.ndarray:
        """The current table of counts, from which the metrics are computed. Raise SessionError if the session asks
        several questions."""
        self.state.only()
        return self.state.counts

    def curve(self, points: int = 500) -> tuple[np.ndarray, np.ndarray]:
        """Return at most `points` points along the stream, as numbers of rounds and the tables of counts after them.
        The items of waiting questions are not counted."""
        trail, state = self.state.trail, self.state
        state.only()
        keep = np.unique(np.linspace(0, len(trail) - 1, min(points, len(trail))).astype(int))
        rounds, counts = np.array([trail[k][0] for k in keep]), np.array([trail[k][1] for k in keep])
        for question, cell, *_ in state.outstanding.values():
            counts[:, *cell, 1] -= question.t < rounds
        if state.outstanding and state.question.predicted:
            rounds[-1] = state.question.t
        return rounds, counts
