"""The log of a session as typed records, and the events that its state is folded from."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from ..store import Row, Store

# Events


@dataclass(frozen=True)
class Grown:
    """The stream now has so many rounds; the first event of every session."""

    rounds: int


@dataclass(frozen=True)
class Asked:
    """The stream goes on to one more question, while those that were asked before it stay with others."""


@dataclass(frozen=True)
class Answered:
    """A question is answered, or skipped (SKIP). number: which one (None: the one asked last)."""

    label: int
    number: int | None = None


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


Event = Grown | Asked | Answered | Unanswered | Changed | LabelsAdded
SHARED = {  # what is stored of a session that several people share, in its order
    kind.__name__.lower(): kind for kind in (Grown, Asked, Answered, Corrected, Marked, LabelsAdded)
}


def as_json(event: Event | Change) -> str:
    """An event as it is stored."""
    return json.dumps({"kind": type(event).__name__.lower()} | asdict(event))


def from_json(stored: str) -> Event:
    """The event that is stored so; ValueError where it is none."""
    try:
        values = json.loads(stored)
        event: Any = SHARED[values.pop("kind")](**values)
        if not all(value is None or (type(value) is int and abs(value) < 2**53) for value in values.values()):
            raise TypeError
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"an event of a shared session must be one of {', '.join(SHARED)}. Got {stored}.") from None
    return Changed((event,)) if isinstance(event, Change) else event


class Lesson(NamedTuple):
    """A label that the learner was taught: the number of its question (0: a mark), the item, the round in which it
    counts, whether it was a random check, and the label that stands (SKIP: nothing is learned)."""

    number: int
    item: int
    round: int
    audit: int
    label: int


def add_changes(lessons: list[Lesson], changes: tuple[Change, ...]) -> None:
    """Replace corrected labels, and add marks as lessons in the round of the last answer."""
    for change in changes:
        match change:
            case Corrected(number, label):
                lessons[:] = [old._replace(label=label) if old.number == number else old for old in lessons]
            case Marked(item):
                lessons.append(Lesson(0, item, lessons[-1].round if lessons else 0, 0, -1))


# Records


@dataclass(frozen=True)
class StoredQuestion:
    """A waiting question: its id, its number in the session, its round and item, why it was asked (audit: as a random
    check), and its last answer that was taken back. blind: it was answered before, and nothing may tell of that."""

    id: int
    number: int
    round: int
    item: int
    margin: float
    probability: float
    predicted: int
    old: int | None
    audit: int = 0
    blind: bool = False


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
    tags: tuple[str, ...] = field(default=(), compare=False)  # those of its item

    @property
    def corrected(self) -> bool:
        """Whether the label is not the one given first."""
        return self.label != self.first

    @property
    def mistake(self) -> bool:
        """Whether the answer is another class than predicted."""
        return bool(self.label) and self.label != self.predicted

    def question(self, old: int | None = None, blind: bool = False) -> StoredQuestion:
        """The question as it waited."""
        return StoredQuestion(
            self.id, self.number, self.round, self.item, self.margin, self.probability, self.predicted, old, self.audit,
            blind,
        )  # fmt: skip


COLUMNS = [column.name for column in fields(Entry) if column.compare]


@dataclass(frozen=True)
class Log:
    """All that a state is rebuilt from: the questions in order, what changed it besides answers (rows of
    `Store.changes`), digests of the state by number of answers, and how often the log was ever changed. shared: what
    happened since several people share the session (rows of `Store.shared`)."""

    entries: list[Entry]
    changes: list[Row]
    digests: dict[int, str]
    version: int
    shared: list[Row]

    @classmethod
    def read(cls, store: Store, session: int) -> "Log":
        """The log of a session at one moment."""
        with store.snapshot():
            return cls(
                read_entries(store, session), store.changes(session), store.digests(session),
                store.log_version(session), store.shared(session),
            )  # fmt: skip

    @cached_property
    def order(self) -> list[int]:
        """The numbers of the questions that were answered or skipped, in the order of their answers."""
        later = [event.number for event in self._together if isinstance(event, Answered) and event.number]
        known = {*later}
        return [each.number for each in self.entries if each.label is not None and each.number not in known] + later

    @property
    def answers(self) -> int:
        """How many questions were answered or skipped."""
        return len(self.order)

    def until(self, answers: int, questions: int) -> "Log":
        """The log as it was after so many answers and questions."""
        given = {*self.order[:answers]}
        entries = [
            entry if entry.number in given else replace(entry, event=None, label=None, first=None, annotator=None)
            for entry in self.entries[:questions]
        ]
        return replace(self, entries=entries, shared=[])

    @cached_property
    def _together(self) -> list[Event]:
        """What happened since several people share the session."""
        return [from_json(row["happened"]) for row in self.shared]

    def events(self, rounds: int) -> tuple[list[Event], list[int]]:
        """The events in order, over a stream that has so many rounds now; and how many of them precede the digest of
        the state after 0, 1, 2 ... answers."""
        first = next((event.rounds for event in self._together if isinstance(event, Grown)), rounds)
        events, digested = self._alone(first)
        for event in self._together:
            events.append(event)
            if isinstance(event, Answered):
                digested.append(len(events))
        return events, digested

    def _alone(self, rounds: int) -> tuple[list[Event], list[int]]:
        """The same up to the moment from which on several people share the session, when the stream had so many
        rounds. What happened is known from the answers and their changes: one question waited at a time."""
        groups: dict[int, list[tuple[int | None, list[Event]]]] = {}
        answers = self.answers - sum(isinstance(event, Answered) for event in self._together)
        for (position, end), placed in groupby(self._placed_changes(), itemgetter(0, 1)):
            if position <= answers:
                groups.setdefault(position, []).append((end, _joined(change for *_, change in placed)))
        ends = [end for position in sorted(groups) for end, _ in groups[position] if end is not None and end < rounds]
        events: list[Event] = [Grown((ends or [rounds])[0])]
        digested = []
        for done in range(answers + 1):
            later: list[Event] = []
            for end, changed in groups.get(done, []):
                if end is not None and end < rounds:
                    ends.pop(0)
                    events += [*changed, Grown((ends or [rounds])[0])]
                elif end is not None and isinstance(changed[-1], LabelsAdded):  # a question follows
                    events += changed
                else:  # a question waited, or the stream still ends there
                    later += changed
            digested.append(len(events))
            events += later
            if done < answers:
                events.append(Answered(self._first(done)))
        return events, digested

    def lessons(self, answers: int) -> list[Lesson]:
        """What the first so many answers taught, with the changes made up to then."""
        lessons: list[Lesson] = []
        done = 0
        for event in self.events(0)[0]:
            if isinstance(event, Answered):
                if done == answers:
                    break
                entry = self.entries[self.order[done] - 1]
                done, round = done + 1, max(entry.round, lessons[-1].round if lessons else 0)
                lessons.append(Lesson(entry.number, entry.item, round, entry.audit, event.label))
            elif isinstance(event, Changed):
                add_changes(lessons, event.changes)
        return lessons

    def _first(self, answers: int) -> int:
        """The label first given to the question asked after so many answers."""
        label = self.entries[answers].first
        assert label is not None, "only the last question of a log waits"
        return label

    def _placed_changes(self) -> list[tuple[int, int | None, Change | LabelsAdded]]:
        """The changes made before several people shared the session in order, each with the number of answers before
        it, and where the stream had ended then."""
        numbers, later = {entry.id: entry.number for entry in self.entries}, {row["event"] for row in self.shared}

        def change(row: Row) -> Change | LabelsAdded:
            if row["added"] is not None:
                return LabelsAdded(row["added"], row["horizon"])
            if row["item"] is not None:
                return Marked(row["item"])
            return Corrected(numbers.get(row["question"], -1), row["label"])

        return [(row["position"], row["at_end"], change(row)) for row in self.changes if row["event"] not in later]


def _joined(changes: Iterable[Change | LabelsAdded]) -> list[Event]:
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
    values = itemgetter(*COLUMNS)
    return [Entry(*values(row)) for row in store.answers(session, after)]


def unseen(store: Store, session: int, annotator: str) -> set[int]:
    """Return the answered questions whose answers an annotator must not see: those that they may be asked for a second
    answer, and those that they are being asked again."""
    settings = store.session(session)
    second = store.single_answers(session, annotator) if settings["overlap"] else []
    leases = store.leases(session) if settings["repeat"] else []
    held = [row["question"] for row in leases if row["annotator"] == annotator]
    return {*second, *(question for question in held if store.answered_by(session, question, annotator))}
