"""Reproduce a session from its log: fold the log again, and check every question and digest."""

from collections.abc import Iterator
from functools import partial
from itertools import chain
from math import isclose
from operator import attrgetter, itemgetter
from typing import NoReturn

from .. import __version__
from ..store import Row
from .fold import FACTS, Run
from .labels import SKIP, SessionError
from .log import (
    Answered,
    Asked,
    Changed,
    Corrected,
    Entry,
    Event,
    LabelsKnown,
    Log,
    QuestionClosed,
    QuestionOpened,
    asks,
)
from .state import Decisions, State

FACTS_OF_ROW, FACTS_OF_ENTRY = itemgetter(*FACTS), attrgetter(*FACTS)
NEAR = partial(isclose, rel_tol=1e-6, abs_tol=1e-9)  # tolerance for logs of another version of the engine
SAFE = "its labels are safe and can be exported."


class LogMismatch(SessionError):
    """A log that cannot be reproduced.

    answers, questions, digests: how many were reproduced before the difference. entry: the entry that
    differs. waiting: facts of the question that is asked instead (None: no question is asked, or the state differs).
    """

    def __init__(self, sentence: str, done: "Reproduction", entry: Entry, waiting: Row | None = None):
        super().__init__(sentence)
        self.answers, self.questions, self.digests = done.answers, done.questions, done.digests
        self.entry, self.waiting = entry, waiting


class Reproduction:
    """The fold of the log of a run, which checks every question and digest. Raise LogMismatch at the first difference.

    A log of another engine version only has to be reproduced up to rounding, as that version may have summed in another
    order; its digests are not checked. answers, questions, digests: how many were reproduced. decisions: of the rounds
    so far.
    """

    def __init__(self, run: Run, log: Log):
        self.run, self.log, self.state = run, log, run.start()
        self.decisions = Decisions.empty(*[run.several] * bool(run.several), run.rounds)
        self.answers = self.questions = self.digests = 0

    def __iter__(self) -> Iterator[State]:
        """Yield the state at the start and after every event; it is changed in place."""
        run, log = self.run, self.log
        yield self.state
        for number, event in log.grown(run.rounds):
            if not self._is_possible(event):
                self._differs(self._missing(event))
            self.state = run.apply(self.state, event)
            # A digest covers the scratch arrays of a learner, as the decisions of an open session left them.
            self.decisions = run.decide(self.decisions, self.state)
            self.answers += isinstance(event, Answered)
            if run.settings.exact and number in log.digests:
                self._check_digest(log.digests[number])
                self.digests += 1
            if self.questions < self.state.number <= len(log.entries):
                self._check_question()
            self.questions = self.state.number
            yield self.state
        if self.state.number < len(log.entries):
            self._differs(log.entries[self.state.number])

    def _is_possible(self, event: Event) -> bool:
        """Tell whether an event is valid in the current state."""
        run, state = self.run, self.state
        match event:
            case Answered(_, number, labels):
                waiting = state.outstanding.get(number or state.number)
                return waiting is not None and len(labels) == len(waiting.parts) and not any(
                    label for k, label in enumerate(labels) if not asks(waiting.parts, k)
                )  # fmt: skip
            case Changed(changes):
                sizes = {lesson.number: len(lesson.labels) for lesson in state.lessons} if run.several else {}
                corrections = (change for change in changes if isinstance(change, Corrected))
                return all(len(change.labels) == sizes.get(change.number, 0) for change in corrections)
            case QuestionOpened(part):
                return part == len(state.spans) < run.several and run.settings.parents[part] in (None, *state.open)
            case QuestionClosed(part):
                needed = {run.settings.parents[k] for k in state.open}
                return part in state.open and part not in needed and len(state.open) > 1
            case Asked():
                return state.asks_on
            case LabelsKnown(labels):
                allowed, many = {*run.names, SKIP}, len(state.spans)
                used = [run.used(state, k) for k in range(many or 1)]
                return all(
                    0 <= item < run.y.shape[-1] and label in allowed and len(own) == many
                    and not any(each != SKIP and item in used[k] for k, each in enumerate(own or (label,)))
                    for item, label, own in labels
                )  # fmt: skip
        return True

    def _missing(self, event: Event) -> Entry:
        """Return the log entry of the question that an event refers to but that the state never asked."""
        if not (entries := self.log.entries):
            raise SessionError(
                f"the log of the session {self.run.settings.name} names an item or a class that it lacks."
            )
        number = event.number or 0 if isinstance(event, Answered) else 0
        number = number if number > 0 else self.state.number + 1
        return entries[min(number, len(entries)) - 1]

    def _check_digest(self, digest: str) -> None:
        """Raise LogMismatch if the digest of the state is not the one in the log."""
        if self.state.digest() != digest:
            settings, entry = self.run.settings, self.log.entries[self.log.order[self.answers - 1] - 1]
            raise LogMismatch(
                f"the state of the session {settings.name} after {self.answers} answers is not the one recorded by "
                f"engine {settings.engine}; {SAFE}",
                self, entry,
            )  # fmt: skip

    def _check_question(self) -> None:
        """Raise LogMismatch if the question asked last differs from the log."""
        number = self.state.number
        entry, waiting = self.log.entries[number - 1], self.run.facts(self.state.outstanding[number])
        asked = [*FACTS_OF_ROW(waiting), *chain(*waiting.get("parts", ()))]
        stored = [*FACTS_OF_ENTRY(entry), *chain(*(entry.parts or ()))]
        same = asked == stored if self.run.settings.exact else all(map(NEAR, asked, stored))
        if not same or len(asked) != len(stored):
            self._differs(entry, waiting)

    def _differs(self, entry: Entry, waiting: Row | None = None) -> NoReturn:
        settings = self.run.settings
        raise LogMismatch(
            f"question {entry.number} of the session {settings.name} cannot be reproduced from its log: it was "
            f"asked in round {entry.round + 1}. The session was made with engine {settings.engine}, this is "
            f"{__version__}; {SAFE}",
            self, entry, waiting,
        )  # fmt: skip
