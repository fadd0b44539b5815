"""The log of a session as typed records, and the events that its state is folded from."""

from dataclasses import dataclass, field, fields
from itertools import groupby
from typing import NamedTuple

# Events


@dataclass(frozen=True)
class Grown:
    """The stream has so many rounds from now on; the first event of every session."""

    rounds: int


@dataclass(frozen=True)
class Answered:
    """The question that waits is answered, or skipped (SKIP)."""

    label: int


@dataclass(frozen=True)
class Unanswered:
    """Nobody knows the answer to the question that waits: it costs its label and teaches nothing (what-if only)."""


@dataclass(frozen=True)
class Corrected:
    """Another label stands for the question of this number."""

    number: int
    label: int


@dataclass(frozen=True)
class Marked:
    """An item that was pushed without a question is a negative, and is learned as one."""

    item: int


@dataclass(frozen=True)
class Changed:
    """Corrections and marks, between two answers or two growths: the learner is taught again with what stands now."""

    changes: tuple[Corrected | Marked, ...]


Event = Grown | Answered | Unanswered | Changed


class Lesson(NamedTuple):
    """What the learner was taught: the number of the question (0: a mark), the item, the round in which it counts,
    whether it was a random check, and the label that stands (SKIP: nothing)."""

    number: int
    item: int
    round: int
    audit: int
    label: int


def add_answer(lessons: list[Lesson], item: int, round: int, audit: int, label: int) -> None:
    """Add the answer to the next question."""
    lessons.append(Lesson(answered(lessons) + 1, item, round, audit, label))


def add_changes(lessons: list[Lesson], changes: tuple[Corrected | Marked, ...]) -> None:
    """Put corrected labels in their places, and add marks as lessons of the round of the last answer."""
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
    """A question that waits: its id, its place in the session, its item, why it was asked (audit: as a random check),
    and its earlier answer."""

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
    """A question of the log as it was asked, and its answer: the label that stands, the one `first` given, and who gave
    it when (None: it waits). seconds: from the first look at the item to the key."""

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
    note: str = field(default="", compare=False)  # on its item

    @property
    def corrected(self) -> bool:
        """Whether another label than the first stands."""
        return self.label != self.first

    @property
    def mistake(self) -> bool:
        """Whether it was answered with another class than predicted."""
        return bool(self.label) and self.label != self.predicted

    def question(self, old: int | None = None) -> StoredQuestion:
        """The question as it waited."""
        return StoredQuestion(
            self.id, self.number, self.round, self.item, self.margin, self.probability, self.predicted, old, self.audit
        )


COLUMNS = [column.name for column in fields(Entry)][:-1]


@dataclass(frozen=True)
class Log:
    """All that a state is rebuilt from: the questions in order, what changed the learner besides answers (rows of
    `Store.changes`), digests of the state by number of answers, and how often the log was ever changed."""

    entries: list[Entry]
    changes: list[dict]
    digests: dict[int, str]
    version: int

    @classmethod
    def read(cls, store, session: int) -> "Log":
        """The log of a session at one moment."""
        with store.snapshot():
            entries = read_entries(store, session)
            waiting = next((k for k, entry in enumerate(entries) if entry.label is None), len(entries))
            entries = entries[: waiting + 1]  # after an undo those behind it are not forgotten yet
            return cls(entries, store.changes(session), store.digests(session), store.log_version(session))

    def cut(self, answers: int) -> "Log":
        """The part up to so many answers."""
        return Log(self.entries[:answers], self.changes, self.digests, self.version)

    @property
    def answers(self) -> int:
        """How many questions were answered or skipped; at most one waits."""
        return len(self.entries) - (bool(self.entries) and self.entries[-1].label is None)

    def events(self, rounds: int) -> tuple[list[Event], list[int]]:
        """The events in order, over a stream that has so many rounds now; and how many of them come before the question
        behind 0, 1, 2 ... answers is asked."""
        groups: dict[int, list] = {}
        for (position, end), changes in groupby(self._placed_changes(), lambda placed: placed[:2]):
            if position <= self.answers:
                groups.setdefault(position, []).append((end, Changed(tuple(change for *_, change in changes))))
        ends = [end for position in sorted(groups) for end, _ in groups[position] if end is not None and end < rounds]
        events: list[Event] = [Grown((ends or [rounds])[0])]
        asked = []
        for answers in range(self.answers + 1):
            later = []
            for end, changed in groups.get(answers, []):
                if end is None or end >= rounds:  # a question waited, or the stream ends there still
                    later.append(changed)
                else:
                    ends.pop(0)
                    events += [changed, Grown((ends or [rounds])[0])]
            asked.append(len(events))
            events += later
            if answers < self.answers:
                events.append(Answered(self.entries[answers].first))
        return events, asked

    def lessons(self, answers: int) -> list[Lesson]:
        """What was taught by the first so many answers, and by the changes up to then."""
        changes = self._placed_changes()
        lessons: list[Lesson] = []
        for done in range(answers + 1):
            if done:
                entry = self.entries[done - 1]
                add_answer(lessons, entry.item, entry.round, entry.audit, entry.first)
            while changes and changes[0][0] <= done:
                add_changes(lessons, (changes.pop(0)[-1],))
        return lessons

    def _placed_changes(self) -> list[tuple[int, int | None, Corrected | Marked]]:
        """The changes in order, each with the number of answers before it, and where the stream ended then."""
        numbers = {entry.id: entry.number for entry in self.entries}
        return [
            (
                row["position"],
                row["at_end"],
                Marked(row["item"])
                if row["item"] is not None
                else Corrected(numbers.get(row["question"], -1), row["label"]),
            )
            for row in self.changes
        ]


def read_entries(store, session: int, after: int = 0) -> list[Entry]:
    """The questions of a session behind one of a number in order, with their answers."""
    return [Entry(*(row[column] for column in COLUMNS)) for row in store.answers(session, after)]
