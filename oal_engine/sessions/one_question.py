"""One question of a session that asks several, as a separate run: it has its own labels and predictions, and shares the
asking probabilities with the other questions.

Given the past, the chance of asking depends on the item alone, so a question's own estimates and guarantees are valid.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ..datasets.given import BOTH, stored_column
from ..kernel import metrics, stream
from ..kernel.questions import inspect_readings
from ..store import Row
from .fold import Run
from .labels import SessionError
from .look_back import Trace
from .session import Session
from .state import ALL_ROUNDS, MaskedStream, Place, State


class OneQuestion(Run):
    """A read-only view of one of the questions that a session asks about each item. It shares the arrays of `run`: the
    session, or its look back.

    name: name of the question. part: index of the question. span: the rounds in which it is asked, as (first, stop).
    log: the entries that ask it, with its own margin and label. decided, current, place: as in `Session`.
    """

    version: Any  # of the log, as in the session or its look back

    def __init__(self, run: Session | Trace, name: str) -> None:
        vars(self).update(vars(run))
        settings, k = run.settings, run.settings.place_of(name)
        self.part = k
        own = settings.questions[k] if settings.questions else {}
        self.settings = replace(
            settings, questions=None, guidelines=own.get("guidelines") or settings.guidelines, prior=own.get("prior"),
            positive_name=settings.positive_name if settings.audited else name,
            negative_name=settings.negative_name if settings.audited else f"not {name}",
        )  # fmt: skip
        self.name, self.priors = name, {part: prior for part, prior in run.priors.items() if part == k}
        margins, predicted, asked = run.decided
        self.decided = margins[k], predicted[k], asked
        self.labelled = k in run.truth
        self.several, self.names, self.y = 0, self.settings.names, run.truth.get(k, run.y[k])
        self._stream = MaskedStream((), self.y, np.zeros(self.y.size, bool))
        self.span = run.state.spans[k]
        self.log = [entry.of_part(k) for entry in run.log if entry.asks(k)]
        self._numbers = {entry.number for entry in self.log}
        self.state = self._seen(run.state)
        if isinstance(run, Session):
            self.current = run.current

    def _seen(self, state: State) -> State:
        """Return a state of the session for this question alone. Its counts use the labels of the file, if the file has
        one for every item."""
        own = state.of_part(self.part, self._numbers)
        if not self.labelled:
            return own
        waiting = {
            number: each._replace(cell=(each.cell[0], int(self.y[each.item]) + 1))
            for number, each in own.outstanding.items()
        }
        rounds = [t for t, _ in own.trail]
        return replace(
            own, counts=self._counted(state.streamed), outstanding=waiting,
            trail=[*zip(rounds, self._counted(rounds))],
            closed=own.closed and (own.closed[0], self._counted(own.closed[0])),
        )  # fmt: skip

    @cached_property
    def _cells(self) -> list[np.ndarray]:
        """For each cell of the table of counts, the rounds that it counts, ascending."""
        _, predicted, asked = self.decided
        places = (predicted > 0).astype(int), self.y[self.order[: asked.size]] + 1, asked.astype(int)
        cells = np.where(predicted, np.ravel_multi_index(places, metrics.COUNTS), -1)
        return [np.flatnonzero(cells == cell) for cell in range(metrics.empty().size)]

    def _counted(self, rounds: int | list[int]) -> np.ndarray:
        """Return the table of counts of the first `rounds` rounds; for a list, a table for each number of rounds."""
        counts = np.stack([np.searchsorted(cell, rounds) for cell in self._cells], axis=-1)
        return counts.reshape(*np.shape(rounds), *metrics.COUNTS)

    def _part(self, k: int = 0) -> stream.Parts:
        return super()._part(self.part)

    @property
    def known_labels(self) -> dict[int, Row]:
        """The known label of each item that has one for this question, {item: row of the log with this label}."""
        rows = ((item, row, row["data"]["labels"]) for item, row in self.store.known_labels(self.settings.id).items())
        own = ((item, row, labels[self.part]) for item, row, labels in rows if self.part < len(labels))
        return {item: row | {"label": label} for item, row, label in own if label}

    @property
    def title(self) -> str:
        """The names of the session and of the question."""
        return f"{self.settings.name}: {self.settings.decider_names.get(self.name, self.name)}"

    @property
    def span_in_words(self) -> str:
        """Say about which items the question is asked, if it was added or closed; else ""."""
        first, stop = self.span
        if self.span == ALL_ROUNDS:
            return ""
        if first == stop:
            return "It was closed before any item was asked about it."
        until = f"s {first + 1:,} to {stop:,}" if stop < ALL_ROUNDS[1] else f" {first + 1:,} and all later ones"
        return f"Asked about item{until} of the stream. Its figures are about these."

    @property
    def place(self) -> Place:
        """The waiting question of the session, with the progress and the weights of this question."""
        return self.place_of(self.state, self.current)


class QuestionTrace(OneQuestion, Trace):
    """The look back at one question of a session that asks several. Its steps are the items about which the question
    was asked, numbered from 1. Its rounds are those of its `span`."""

    def __init__(self, trace: Trace, name: str) -> None:
        if trace.settings.place_of(name) >= len(trace.state.spans):  # a mismatch came before the question
            raise SessionError(f"{trace.mismatch} {name} was added later.")
        super().__init__(trace, name)
        self.whole = trace
        self._before = bisect_left(trace.log, self.span[0], key=lambda entry: entry.round)
        # If it was closed when no label was left for another question, its end comes after all events.
        self._asked_at = [*trace._asked_at[self._before :], len(trace._events)]
        self.log = [replace(entry, number=number) for number, entry in enumerate(self.log, 1)]

    @property
    def complete(self) -> bool:
        """Whether it was asked at least once and is over: it is closed, the budget is spent, or the stream ended."""
        return bool(self.log) and super().complete

    def _states(self, first: int, stop: int) -> Iterator[State]:
        return (state for state in self.whole._states(first, stop) if self.part < len(state.spans))

    def _decide(self, state: State, t: int, counts: np.ndarray, facts: np.ndarray) -> None:
        parts = [part[:3] for part in state.parts]
        every, ignored = np.zeros((len(parts), *facts.shape)), np.zeros((len(parts), *counts.shape), counts.dtype)
        asking = state.before or state.spent < state.budget
        inspect_readings(
            self.dataset.rows, self.whole.stream_of(state).y, self.order, parts, self.settings.seed, t, asking,
            state.weighed, ignored, every,
        )  # fmt: skip
        facts[:] = every[self.part]
        cells = 3 * (facts[:, 3] > 0) + self.y[self.order[t : t + len(facts)]] + 1
        counts[..., 0] += np.bincount(cells[facts[:, 3] != 0], minlength=6).reshape(2, 3)


class OtherColumn(OneQuestion):
    """Another column of labels or scores that the answers of an audit judge, as a separate run.

    Given the past, the chance of asking about an item depends on the item alone, so estimates for the column are valid.
    Guaranteed minimum metrics are not: they need a plan that knows the column.
    """

    def __init__(self, session: Session, name: str) -> None:
        super().__init__(session, BOTH)
        margins = stored_column(self.dataset, name, None, None, session.settings.positive_name).margins
        pushed, self.name = margins >= 0, name
        self.log = [
            replace(entry, margin=float(margins[entry.item]), predicted=1 if pushed[entry.item] else -1)
            for entry in self.log
        ]
        pushes = np.append(0, np.cumsum(pushed[self.order]))
        trail = list[tuple[int, np.ndarray]]()
        for rounds, counts in self.state.trail:
            own = np.zeros_like(counts)
            own[:, 1, 0] = rounds - pushes[rounds], pushes[rounds]
            trail.append((rounds, own))
        self.state = replace(self.state, trail=trail)


def part_of(session: Session, name: str | None) -> Session | OneQuestion:
    """Return a question of a session that asks several, by its name (None: the session itself, which asks one)."""
    return session if name is None else OneQuestion(session, name)
