"""The log of a session as typed records, and the events that its state is folded from."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from ..output.jsonlines import LONGEST_LINE, Check, or_none, whole, words
from ..store import Row, Store
from .settings import LONGEST_TAG, MOST_LABELS, MOST_QUESTIONS, SKIP, KnownLabel, SessionError

is_count, is_flag, is_label = whole(0), whole(0, 1), whole(-1, 127)
LONGEST_ORIGIN = 600  # characters
is_words, is_nothing = words(LONGEST_LINE), or_none(lambda value: False)

# Events


@dataclass(frozen=True)
class Grown:
    """The stream has grown to this number of rounds. Only labels that a session begins with precede the first one."""

    rounds: int


@dataclass(frozen=True)
class Asked:
    """The stream continues to one more question while other people keep the questions asked before."""


@dataclass(frozen=True)
class Answered:
    """A question is answered, or skipped (SKIP). number: of the question (None: the one asked last). labels: of each of
    several questions; then `label` is their summary."""

    label: int
    number: int | None = None
    labels: tuple[int, ...] = ()


@dataclass(frozen=True)
class Unanswered:
    """Nobody knows the answer to the waiting question: it costs its label and teaches nothing (what-if only)."""


@dataclass(frozen=True)
class Corrected:
    """The question of this number gets another label, or, with several questions, other labels."""

    number: int
    label: int
    labels: tuple[int, ...] = ()


@dataclass(frozen=True)
class Marked:
    """An item that was pushed without a question is marked as wrong, and learned as a negative."""

    item: int


Change = Corrected | Marked


@dataclass(frozen=True)
class Changed:
    """Corrections and marks between two other events. The learner is trained anew on the current labels."""

    changes: tuple[Change, ...]


@dataclass(frozen=True)
class LabelsKnown:
    """Labels that are known from elsewhere. They are learned and cost nothing, and the items are not asked, or not
    about the questions whose label is known. A later label of an item replaces the earlier one; SKIP makes the item
    unknown again.

    Before `Grown` they are the labels that a session begins with.
    """

    labels: tuple[KnownLabel, ...]


@dataclass(frozen=True)
class LabelsAdded:
    """The budget gets more labels, planned over `horizon` rounds of the stream."""

    labels: int
    horizon: int


@dataclass(frozen=True)
class QuestionOpened:
    """One more question is asked about each later item. part: its place among the questions."""

    part: int


@dataclass(frozen=True)
class QuestionClosed:
    """A question is not asked about later items. part: its place among the questions."""

    part: int


def asks(parts: Sequence[Sequence[float]], k: int) -> bool:
    """Return whether the k-th of several questions was asked about an item. parts: margin and predicted class of each
    (0: it was not asked), without the questions that were added later."""
    return k < len(parts) and parts[k][1] != 0


def is_labels(value: Any) -> bool:
    """Return whether a value may be the labels of several questions."""
    return isinstance(value, list) and 2 <= len(value) <= MOST_QUESTIONS and all(map(whole(-1, 1), value))


Event = Grown | Asked | Answered | Unanswered | Changed | LabelsKnown | LabelsAdded | QuestionOpened | QuestionClosed
FIELDS: dict[str, dict[str, Check]] = {  # by kind of event in the log: its own fields
    "grown": {"rounds": is_count},
    "asked": {},
    **{
        kind: {"question": is_count, "label": is_label, "highlighted": or_none(is_flag), "labels": or_none(is_labels)}
        for kind in ("answered", "corrected")
    },
    **{
        kind: {"question": is_count, "label": is_label, "labels": or_none(is_labels)}
        for kind in ("second", "late", "again")
    },
    **{kind: {"question": is_count} for kind in ("undone", "withdrawn")},
    "known": {"item": is_count, "label": is_label, "origin": words(LONGEST_ORIGIN), "labels": or_none(is_labels)},
    "marked": {"item": is_count, "wrong": is_flag, "trains": is_flag},
    "added": {"labels": whole(1, MOST_LABELS), "horizon": whole(1)},
    **{kind: {"part": whole(0, MOST_QUESTIONS - 1)} for kind in ("opened", "closed")},
    "noted": {"item": is_count, "text": is_words},
    "tagged": {"item": is_count, "tag": words(LONGEST_TAG), "given": is_flag},
}
# Kinds that a state depends on
CHANGES = ("corrected", "marked", "known", "added", "opened", "closed")  # of the folded ones; the others run the stream
FOLDED = ("grown", "asked", "answered", "undone", *CHANGES)


def checked_event(row: Row) -> Row:
    """Return a row of the log. SessionError if a field is missing, invalid or not one of its kind."""
    fields = dict.fromkeys(row["data"], is_nothing) | FIELDS.get(row["kind"], {"kind": is_nothing})
    for name, allowed in fields.items():
        value = row[name] if name in row else row["data"].get(name)
        if not allowed(value):
            raise SessionError(f"event {row['number']:,} of the log is not valid: {name} cannot be {value!r:.80}.")
    return row


def lasting(rows: Iterable[Row]) -> list[Row]:
    """Return the rows that still count. An `undone` row removes the answer, its corrections, and every `asked` row
    after it."""
    counting: list[Row] = []
    for row in rows:
        if row["kind"] != "undone":
            counting.append(row)
            continue
        question = row["question"]
        answers = (at for at in range(len(counting) - 1, -1, -1) if _answers(counting[at], question))
        if (at := next(answers, None)) is None:
            raise SessionError(f"event {row['number']:,} of the log takes back an answer that was not given.")
        counting[at:] = [
            later for later in counting[at + 1 :] if later["kind"] != "asked" and later["question"] != question
        ]
    return counting


def _answers(row: Row, question: int) -> bool:
    return bool(row["kind"] == "answered" and row["question"] == question)


def _merged(events: Iterable[tuple[int, Event]]) -> Iterator[tuple[int, Event]]:
    """Merge adjacent changes, and adjacent known labels, so that the learner is trained anew once. An event has the
    number of its last row."""
    for kind, together in groupby(events, lambda numbered: type(numbered[1])):
        numbers, parts = zip(*together)
        if kind is Changed:
            yield numbers[-1], Changed(tuple(change for part in parts for change in part.changes))
        elif kind is LabelsKnown:
            yield numbers[-1], LabelsKnown(tuple(label for part in parts for label in part.labels))
        else:
            yield from zip(numbers, parts)


def typed(row: Row, numbers: Mapping[int, int]) -> Event | None:
    """Return the event of a row, or None if it changes no state. numbers: {question id: question number}."""
    data, number = row["data"], numbers.get(row["question"], -1)
    labels = tuple(data.get("labels", ())) if row["kind"] in ("answered", "corrected", "known") else ()
    match row["kind"]:
        case "grown":
            return Grown(data["rounds"])
        case "asked":
            return Asked()
        case "answered":
            return Answered(row["label"], number, labels)
        case "corrected":
            return Changed((Corrected(number, row["label"], labels),))
        case "marked" if data["trains"]:
            return Changed((Marked(row["item"]),))
        case "known":
            return LabelsKnown((KnownLabel(row["item"], row["label"], labels),))
        case "added":
            return LabelsAdded(data["labels"], data["horizon"])
        case "opened":
            return QuestionOpened(data["part"])
        case "closed":
            return QuestionClosed(data["part"])
    return None


class Lesson(NamedTuple):
    """A label that the learner was taught.

    number: of its question (0: a mark, or a known label). round: in which it is learned (-1: before the first).
    audit: 1 for a random check. label: the current one (SKIP: nothing is learned). chance: with which it was asked (1:
    it was not). is_known: whether it came from elsewhere and cost nothing. labels: of each of several questions.
    """

    number: int
    item: int
    round: int
    audit: int
    label: int
    chance: float = 1.0
    is_known: bool = False
    labels: tuple[int, ...] = ()

    def of_part(self, k: int) -> "Lesson":
        """Return the lesson as one of several questions sees it: SKIP if that was added later."""
        return self._replace(label=self.labels[k] if k < len(self.labels) else SKIP, labels=())


def add_known(lessons: list[Lesson], labels: Iterable[KnownLabel]) -> None:
    """Add known labels as lessons in the round of the last lesson, or replace the known labels of these items."""
    places = {lesson.item: place for place, lesson in enumerate(lessons) if lesson.is_known}
    round = lessons[-1].round if lessons else -1
    for item, label, own in labels:
        if (place := places.setdefault(item, len(lessons))) < len(lessons):
            lessons[place] = lessons[place]._replace(label=label, labels=own)
        else:
            lessons.append(Lesson(0, item, round, 0, label, is_known=True, labels=own))


def add_changes(lessons: list[Lesson], changes: tuple[Change, ...]) -> None:
    """Replace corrected labels, and add marks as lessons in the round of the last answer."""
    for change in changes:
        match change:
            case Corrected(number, label, labels):
                lessons[:] = [
                    old._replace(label=label, labels=labels) if old.number == number else old for old in lessons
                ]
            case Marked(item):
                lessons.append(Lesson(0, item, lessons[-1].round if lessons else 0, 0, -1))


# Records


@dataclass(frozen=True)
class StoredQuestion:
    """A waiting question.

    number: in the session. margin, probability, predicted, audit: when it was asked; audit is 1 for a random check.
    old: its last answer that was taken back; of several questions the label of each. blind: it was answered before, and
    nothing may reveal that answer. parts: margin and predicted class for each of several questions (0: it is not asked
    about this item); `margin` and `predicted` are then the largest of them.
    """

    id: int
    number: int
    round: int
    item: int
    margin: float
    probability: float
    predicted: int
    old: int | list[int] | None
    audit: int = 0
    blind: bool = False
    parts: list[list[float]] | None = None


@dataclass(frozen=True)
class Entry:
    """A question of the log as it was asked, and its answer (None: it waits).

    label: the current one. first: the label given first. annotator, answered_at: of the current label. seconds: between
    showing the item and the answer. parts: as of a waiting question. labels, firsts: of each of several questions.
    """

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
    label: int | None
    first: int | None
    annotator: str | None
    answered_at: str | None
    seconds: float | None
    parts: list[list[float]] | None = None
    labels: list[int] | None = None
    firsts: list[int] | None = None
    note: str = field(default="", compare=False)  # of its item
    tags: tuple[str, ...] = field(default=(), compare=False)  # of its item

    @property
    def corrected(self) -> bool:
        """Whether the current label differs from the first one."""
        return (self.label, self.labels) != (self.first, self.firsts)

    @property
    def mistake(self) -> bool:
        """Whether the answer is another class than the predicted one."""
        return bool(self.label) and self.label != self.predicted

    def question(self, old: int | list[int] | None = None, blind: bool = False) -> StoredQuestion:
        """Return the question as it waited."""
        return StoredQuestion(
            self.id, self.number, self.round, self.item, self.margin, self.probability, self.predicted, old, self.audit,
            blind, self.parts,
        )  # fmt: skip

    def asks(self, k: int) -> bool:
        """Return whether one of several questions was asked about the item."""
        return asks(self.parts or (), k)

    def of_part(self, k: int) -> "Entry":
        """Return the entry as one of several questions sees it."""
        assert self.parts, "only sessions of several questions have parts"
        margin, predicted = self.parts[k]
        label, first = (labels and labels[k] for labels in (self.labels, self.firsts))
        own: dict[str, Any] = {"margin": margin, "predicted": int(predicted), "label": label, "first": first}
        return replace(self, **own, parts=None, labels=None, firsts=None)


COLUMNS = itemgetter(*(column.name for column in fields(Entry) if column.compare))


@dataclass(frozen=True)
class Log:
    """Everything that a state is rebuilt from.

    entries: the questions in order. events: with their numbers. digests: of the state, by number of event. version:
    number of changes of the log. rounds: length of the stream by the log. changes: number of corrections, marks, known
    and added labels, opened and closed questions since the session began. shared: whether somebody was asked a question
    while others had one.
    """

    entries: list[Entry]
    events: list[tuple[int, Event]]
    digests: dict[int, str]
    version: int
    rounds: int
    changes: int
    shared: bool

    @classmethod
    def read(cls, store: Store, session: int) -> "Log":
        """Read the log of a session at one moment."""
        with store.snapshot():
            entries, digests = read_entries(store, session), store.digests(session)
            stored, version = store.events(session), store.log_version(session)
        rows = [row for row in map(checked_event, stored) if row["kind"] in FOLDED]
        numbers = {entry.id: entry.number for entry in entries}
        events = [*_merged((row["number"], event) for row in lasting(rows) if (event := typed(row, numbers)))]
        grown = max((row["data"]["rounds"] for row in rows if row["kind"] == "grown"), default=0)
        begun = next((row["number"] for row in rows if row["kind"] == "grown"), 0)
        changes = sum(row["kind"] in CHANGES for row in rows if row["number"] > begun)
        return cls(entries, events, digests, version, grown, changes, any(row["kind"] == "asked" for row in rows))

    @cached_property
    def order(self) -> list[int]:
        """The numbers of the questions that were answered or skipped, in the order of their answers."""
        return [number for _, event in self.events if isinstance(event, Answered) and (number := event.number or 0) > 0]

    def grown(self, rounds: int) -> list[tuple[int, Event]]:
        """Return the events, and last the growth of the stream to `rounds` if the log does not have it yet."""
        return [*self.events, *[(0, Grown(rounds))] * (rounds > self.rounds)]

    def until(self, answers: int, questions: int) -> list[Entry]:
        """Return the questions as they were after this number of answers and of questions."""
        answered = {*self.order[:answers]}
        return [
            entry
            if entry.number in answered
            else replace(entry, label=None, first=None, annotator=None, labels=None, firsts=None)
            for entry in self.entries[:questions]
        ]

    def lessons(self, answers: int) -> list[Lesson]:
        """Return the lessons of the first `answers` answers, with the changes made up to then."""
        lessons: list[Lesson] = []
        done = 0
        for _, event in self.events:
            if isinstance(event, Answered):
                if done == answers:
                    break
                entry = self.entries[self.order[done] - 1]
                done, round = done + 1, max(entry.round, lessons[-1].round if lessons else 0)
                lesson = Lesson(entry.number, entry.item, round, entry.audit, event.label, entry.probability)
                lessons.append(lesson._replace(labels=event.labels))
            elif isinstance(event, Changed):
                add_changes(lessons, event.changes)
            elif isinstance(event, LabelsKnown):
                add_known(lessons, event.labels)
        return lessons


def read_entries(store: Store, session: int, after: int = 0) -> list[Entry]:
    """Read the questions of a session after question number `after`, in order, with their answers."""
    return [Entry(*COLUMNS(row)) for row in store.answers(session, after)]


def read_entry(store: Store, session: int, question: int) -> Entry | None:
    """Read one question of a session, with its answer; None if the session has not asked it."""
    row = store.answer(session, question)
    return Entry(*COLUMNS(row)) if row else None


def unseen(store: Store, session: int, annotator: str) -> set[int]:
    """Return the answered questions whose answers an annotator must not see: they may be asked for a second answer to
    them, or are being asked again."""
    settings = store.session(session)
    second = store.due_answers(session, annotator) if settings["overlap"] else []
    leases = store.leases(session) if settings["repeat"] else []
    held = [row["question"] for row in leases if row["annotator"] == annotator]
    return {*second, *(question for question in held if store.answered_by(session, question, annotator))}
