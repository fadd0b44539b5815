"""Run the stream of a session under another algorithm (what-if). Nothing here writes to the store."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np

from ..kernel.algorithms import ALGORITHMS, Strategy
from ..kernel.query_rules import leaves_out, paceable
from .decisions import Decisions
from .log import Answered, Entry, Event, Grown, QuestionClosed, QuestionOpened, Unanswered, asks
from .look_back import LoggedRun, Trace
from .one_question import OneQuestion, QuestionTrace
from .settings import SKIP, effective_rho, summary
from .state import ALL_ROUNDS, State

ENOUGH = 0.6  # share of another algorithm's questions that must have answers for its curve to be drawn


@dataclass(frozen=True)
class WhatIf:
    """The rounds that a session, or one of its questions, has seen, run under another algorithm.

    run: the run with its questions in `log`; the label of a question is SKIP if nobody knows it. exact: whether the
    labels of the data answered every question. different: number of the session's answers that differ from these
    labels.
    """

    run: LoggedRun | OneQuestion
    exact: bool
    different: int

    @property
    def answered(self) -> int:
        """Number of the run's questions that have an answer."""
        return sum(entry.label != SKIP for entry in self.run.log)

    @property
    def share(self) -> float:
        """Share of the run's questions that have an answer."""
        return self.answered / len(self.run.log) if self.run.log else 1.0

    @property
    def enough(self) -> bool:
        """Whether enough of the run's questions have an answer for its curve to be drawn. The known answers, which
        another rule chose, are not a random sample of these questions."""
        return self.exact or self.share >= ENOUGH


def what_if(trace: Trace, chosen: Strategy) -> WhatIf:
    """Run the rounds that a session has seen under another strategy, with the session's budget, order of items, random
    draws and weights.

    The labels of the data answer the questions if every item has one, else the answers of the session do. A question
    without an answer costs its label and teaches nothing. If the session asks several questions about each item, all of
    them run under the strategy; the result is about the question that `trace` looks at.
    """
    whole = trace.whole if isinstance(trace, QuestionTrace) else trace
    settings = whole.settings
    published = ALGORITHMS.get(settings.algorithm)
    rho = "laplace" if published and published.rho is not None else settings.rho
    if chosen.multiclass != whole.multiclass:
        kind = "several classes" if whole.multiclass else "positives and negatives"
        raise ValueError(f"the session tells {kind} apart. Got {chosen.algorithm}.")
    if whole.several and leaves_out(chosen.rule):
        raise ValueError(f"several questions need a rule that gives every item a chance. Got {chosen.rule}.")
    other = replace(
        settings,
        algorithm=chosen.algorithm,
        learner=chosen.learner,
        rule=chosen.rule,
        parameters={"learner": chosen.learner_parameters, "rule": chosen.rule_parameters},
        budget=whole.state.budget,
        rho=effective_rho(chosen, rho, whole.weights, settings.metric),
        pace=settings.pace if chosen.rule in paceable() else None,
    )
    run = _run(whole, LoggedRun(whole.store, other, whole.reached))
    lessons = (lesson for lesson in trace.state.lessons if lesson.label and (lesson.number or lesson.is_known))
    different = sum(lesson.label != trace.y[lesson.item] for lesson in lessons) if trace.labelled else 0
    exact = len(whole.truth) == whole.several if whole.several else trace.labelled
    return WhatIf(OneQuestion(run, trace.name) if isinstance(trace, QuestionTrace) else run, exact, different)


def _run(whole: Trace, run: LoggedRun) -> LoggedRun:
    """Run a stream to its end or the end of the budget, with the answers that a session knows."""
    answers, run.log, state = _answers(whole), [], run.start()
    decisions = Decisions.empty(*[run.several] * bool(run.several), run.rounds)
    if run.began_with.labels:
        state = run.apply(state, run.began_with)
    for rounds, change in _changes(whole):
        if rounds > state.rounds:
            state = run.apply(state, Grown(rounds))
        while True:
            if run.several:
                decisions = run.decide(decisions, state)
            if run.ended(state) or (change and state.streamed >= rounds):
                break
            entry = _asked(run, state, answers)
            run.log.append(entry)
            state = run.apply(state, _answer(entry))
        if change:
            state = run.apply(state, change)
    run.state, run.decided = state, decisions.passed
    return run


def _answers(whole: Trace) -> list[np.ndarray]:
    """Return the label of each item, SKIP if nobody knows it: an array for each question."""
    truth = whole.truth if whole.several else {0: whole.y} if whole.labelled else {}
    answers = np.full((whole.several or 1, whole.y.shape[-1]), SKIP, np.int8)
    for lesson in whole.state.lessons:
        if lesson.number or lesson.is_known:
            for own, label in zip(answers, lesson.labels or (lesson.label,)):
                if label != SKIP:
                    own[lesson.item] = label
    return [truth.get(k, own) for k, own in enumerate(answers)]


def _changes(whole: Trace) -> Iterator[tuple[int, Event | None]]:
    """Yield the times at which questions were added or closed, as (number of rounds before, event), and last the end of
    the stream, as (rounds, None)."""
    changes = list[tuple[int, Event]]()
    for k, (first, stop) in enumerate(whole.state.spans):
        changes += [(first, QuestionOpened(k))] * (k >= whole.settings.first_questions)
        changes += [(stop, QuestionClosed(k))] * (stop < ALL_ROUNDS[1])
    yield from sorted(changes, key=itemgetter(0))
    yield whole.reached, None


def _asked(run: LoggedRun, state: State, answers: list[np.ndarray]) -> Entry:
    """Return the waiting question with its answer, as an entry of the log."""
    waiting, question = state.outstanding[state.number], state.question
    item = int(run.order[question.t])
    is_asked = [asks(waiting.parts, k) for k in range(len(waiting.parts))] or [True]
    labels = [int(own[item]) if there else SKIP for own, there in zip(answers, is_asked)]
    own = [*labels] if run.several else None
    return Entry(
        state.number, state.number, question.t, item, question.margin, question.probability, question.draw,
        question.audit, question.predicted, "", summary(labels), summary(labels), None, None, None,
        [*map(list, waiting.parts)] or None, own, own,
    )  # fmt: skip


def _answer(entry: Entry) -> Event:
    return Answered(entry.label, None, tuple(entry.labels or ())) if entry.label else Unanswered()
