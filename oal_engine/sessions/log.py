"""The log of a session as typed records, and the events that its state is folded from."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from ..store import Row, Store

# Events


@dataclass(frozen=True)
class Grown:
    """The stream now has so many rounds; the first event of every session."""

    rounds: int


@dataclass(frozen=True)
class Answered:
    """The waiting question is answered, or skipped (SKIP)."""

    label: int


@dataclass(frozen=True)
class Unanswered:
    """Nobody knows the answer to the waiting question: it costs its label and teaches nothing (what-if only)."""


@dataclass(frozen=True)
class Corrected:
    """The question of this number gets another label."""

    number: int
    label: int


@dataclass(frozen=True)
class Marked:
    """An item that was pushed without a question turned out to be a negative, and is learned as one."""

    item: int


Change = Corrected | Marked


@dataclass(frozen=True)
class Changed:
    """Corrections and marks between two other events: the learner is trained anew on the labels that stand now."""

    changes: tuple[Change, ...]


@dataclass(frozen=True)
class LabelsAdded:
    """The budget has so many more labels, planned over so many rounds of the stream."""

    labels: int
    horizon: int


Event = Grown | Answered | Unanswered | Changed | LabelsAdded


class Lesson(NamedTuple):
    """A label that the learner was taught: the number of its question (0: a mark), the item, the round in which it
    counts, whether it was a random check, and the label that stands (SKIP: nothing is learned)."""

    number: int
    item: int
    round: int
    audit: int
    label: int


def add_answer(lessons: list[Lesson], item: int, round: int, audit: int, label: int) -> None:
    """Add the answer to the next question."""
    lessons.append(Lesson(answered(lessons) + 1, item, round, audit, label))


def add_changes(lessons: list[Lesson], changes: tuple[Change, ...]) -> None:
    """Replace corrected labels, and add marks as lessons in the round of the last answer."""
    for change in changes:
        match change:
            case Corrected(number, label):
                lessons[:] = [old._replace(label=label) if old.number == number else old for old in lessons]
            case Marked(item):
                lessons.append(Lesson(0, item, lessons[-1].round if lessons else 0, 0, -1))


def answered(lessons: list[Lesson]) -> int:
    """How many questions were answered or skipped."""
    return next((lesson.number for lesson in reversed(lessons) if lesson.number), 0)


# Records


@dataclass(frozen=True)
class StoredQuestion:
    """A waiting question: its id, its number in the session, its round and item, why it was asked (audit: as a random
    check), and its last answer that was taken back."""

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
class Entry:
    """A question of the log as it was asked, and its answer: the label that stands, the one given `first`, by whom and
    when (None: it waits). seconds: between showing the item and the answer."""

    id: int
    number: int
    round: int
    item: int
    margin: float
    probability: float
    draw: float
    audit: int
    predicted: int
    asked_at: str
    event: str | None
    label: int | None
    first: int | None
    annotator: str | None
    answered_at: str | None
    seconds: float | None
    note: str = field(default="", compare=False)  # the note on its item

    @property
    def corrected(self) -> bool:
        """Whether the label is not the one given first."""
        return self.label != self.first

    @property
    def mistake(self) -> bool:
        """Whether the answer is another class than predicted."""
        return bool(self.label) and self.label != self.predicted

    def question(self, old: int | None = None) -> StoredQuestion:
        """The question as it waited."""
        return StoredQuestion(
            self.id, self.number, self.round, self.item, self.margin, self.probability, self.predicted, old, self.audit
        )


COLUMNS = [column.name for column in fields(Entry)][:-1]


@dataclass(frozen=True)
class Log:
    """All that a state is rebuilt from: the questions in order, what changed it besides answers (rows of
    `Store.changes`), digests of the state by number of answers, and how often the log was ever changed."""

    entries: list[Entry]
    changes: list[Row]
    digests: dict[int, str]
    version: int

    @classmethod
    def read(cls, store: Store, session: int) -> "Log":
        """The log of a session at one moment."""
        with store.snapshot():
            entries = read_entries(store, session)
            waiting = next((k for k, entry in enumerate(entries) if entry.label is None), len(entries))
            entries = entries[: waiting + 1]  # an undo leaves later questions in the store for a while
            return cls(entries, store.changes(session), store.digests(session), store.log_version(session))

    @property
    def answers(self) -> int:
        """How many questions were answered or skipped; at most one waits."""
        return len(self.entries) - (bool(self.entries) and self.entries[-1].label is None)

    def events(self, rounds: int) -> tuple[list[Event], list[int]]:
        """The events in order, over a stream that has so many rounds now; and how many of them precede the question
        asked after 0, 1, 2 ... answers."""
        groups: dict[int, list[tuple[int | None, list[Event]]]] = {}
        for (position, end), placed in groupby(self._placed_changes(), itemgetter(0, 1)):
            if position <= self.answers:
                groups.setdefault(position, []).append((end, _together(change for *_, change in placed)))
        ends = [end for position in sorted(groups) for end, _ in groups[position] if end is not None and end < rounds]
        events: list[Event] = [Grown((ends or [rounds])[0])]
        asked = []
        for answers in range(self.answers + 1):
            later: list[Event] = []
            for end, changed in groups.get(answers, []):
                if end is not None and end < rounds:
                    ends.pop(0)
                    events += [*changed, Grown((ends or [rounds])[0])]
                elif end is not None and isinstance(changed[-1], LabelsAdded):  # a question follows
                    events += changed
                else:  # a question waited, or the stream still ends there
                    later += changed
            asked.append(len(events))
            events += later
            if answers < self.answers:
                events.append(Answered(self._first(answers)))
        return events, asked

    def lessons(self, answers: int) -> list[Lesson]:
        """What the first so many answers taught, with the changes made up to then."""
        changes = self._placed_changes()
        lessons: list[Lesson] = []
        for done in range(answers + 1):
            if done:
                entry = self.entries[done - 1]
                add_answer(lessons, entry.item, entry.round, entry.audit, self._first(done - 1))
            while changes and changes[0][0] <= done:
                change = changes.pop(0)[-1]
                if not isinstance(change, LabelsAdded):
                    add_changes(lessons, (change,))
        return lessons

    def _first(self, answers: int) -> int:
        """The label first given to the question asked after so many answers."""
        label = self.entries[answers].first
        assert label is not None, "only the last question of a log waits"
        return label

    def _placed_changes(self) -> list[tuple[int, int | None, Change | LabelsAdded]]:
        """The changes in order, each with the number of answers before it, and where the stream had ended then."""
        numbers = {entry.id: entry.number for entry in self.entries}

        def change(row: Row) -> Change | LabelsAdded:
            if row["added"] is not None:
                return LabelsAdded(row["added"], row["horizon"])
            if row["item"] is not None:
                return Marked(row["item"])
            return Corrected(numbers.get(row["question"], -1), row["label"])

        return [(row["position"], row["at_end"], change(row)) for row in self.changes]


def _together(changes: Iterable[Change | LabelsAdded]) -> list[Event]:
    """The events of some changes: corrections and marks that follow each other are one."""
    events: list[Event] = []
    for change in changes:
        if isinstance(change, LabelsAdded):
            events.append(change)
        elif events and isinstance(events[-1], Changed):
            events[-1] = Changed((*events[-1].changes, change))
        else:
            events.append(Changed((change,)))
    return events


def read_entries(store: Store, session: int, after: int = 0) -> list[Entry]:
    """The questions of a session after one of a number in order, with their answers."""
    return [Entry(*(row[column] for column in COLUMNS)) for row in store.answers(session, after)]
