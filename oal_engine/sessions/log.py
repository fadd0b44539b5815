"""The log of a session as typed records, and the events that its state is folded from."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from threading import Lock
from typing import Any, NamedTuple

from ..store import Row, Store
from ..store.fields import READ, REMARKS, Kinds, event_problem
from .labels import SKIP, KnownLabel, SessionError


@dataclass(frozen=True)
class Grown:
    """The stream has grown to this number of rounds. Before the first one, the log has only labels to begin with."""

    rounds: int


@dataclass(frozen=True)
class Asked:
    """The stream continues to one more question before other people have answered theirs."""


@dataclass(frozen=True)
class Answered:
    """A question is answered, or skipped (SKIP). number: number of the question (None: the one asked last). labels:
    label of each of several questions; then `label` is their summary."""

    label: int
    number: int | None = None
    labels: tuple[int, ...] = ()


@dataclass(frozen=True)
class Corrected:
    """A correction: question `number` gets another label, or other `labels` if the session asks several questions."""

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
    """Consecutive corrections and marks, after which the learner is retrained on the current labels."""

    changes: tuple[Change, ...]


@dataclass(frozen=True)
class LabelsKnown:
    """Labels that are known from elsewhere. They are learned at no cost, and their items are not asked about any more.
    If the session asks several questions about each item, it may still ask the questions whose label is not known. A
    later label of an item replaces the earlier one; SKIP makes the item unknown again.

    Before the first `Grown`, they are the labels that a session begins with.
    """

    labels: tuple[KnownLabel, ...]


@dataclass(frozen=True)
class LabelsAdded:
    """The budget gets more labels, planned up to round `horizon` of the stream."""

    labels: int
    horizon: int


@dataclass(frozen=True)
class QuestionOpened:
    """One more question is asked about each later item. part: index of the question."""

    part: int


@dataclass(frozen=True)
class QuestionClosed:
    """A question is not asked about later items any more. part: index of the question."""

    part: int


def asks(parts: Sequence[Sequence[float]], k: int) -> bool:
    """Tell whether question k of several was asked about an item. parts: (margin, predicted class) of each question.
    The class is 0 if the question was not asked; questions that were added later are missing."""
    return k < len(parts) and parts[k][1] != 0


Event = Grown | Asked | Answered | Changed | LabelsKnown | LabelsAdded | QuestionOpened | QuestionClosed
ANSWERS = ("answered", "corrected", "second", "late", "again")
# Kinds that a state depends on
CHANGES = ("corrected", "marked", "known", "added", "opened", "closed")  # the folded kinds that do not run the stream
FOLDED = ("grown", "asked", "answered", "undone", *CHANGES)


def checked_event(row: Row, kinds: Kinds = READ) -> Row:
    """Check a row of the log and return it. Raise SessionError if a field is missing or invalid, or does not belong to
    this kind of event. kinds: the checks; by default those of the fields that a state depends on."""
    if problem := event_problem(row, kinds):
        raise SessionError(f"event {row['number']:,} of the log is not valid: {problem}.")
    return row


def lasting(rows: Iterable[Row]) -> list[Row]:
    """Drop the rows of the log that were undone. An `undone` row drops the answer to its question, the corrections of
    this answer, and every `asked` row since. Raise SessionError if there is no such answer."""
    counting: list[Row] = []
    for row in rows:
        if row["kind"] != "undone":
            counting.append(row)
            continue
        question = row["question"]
        answered = "answered", question
        answers = (at for at, each in reversed([*enumerate(counting)]) if (each["kind"], each["question"]) == answered)
        if (at := next(answers, None)) is None:
            raise SessionError(f"event {row['number']:,} of the log takes back an answer that was not given.")
        counting[at:] = [row for row in counting[at + 1 :] if row["kind"] != "asked" and row["question"] != question]
    return counting


def _undone(rows: Iterable[Row]) -> dict[int, int | list[int]]:
    """Return the latest label of each question that was undone, {question id: label, or labels of several}."""
    latest: dict[int, int | list[int]] = {}
    undone: dict[int, int | list[int]] = {}
    for row in rows:
        if row["kind"] in ("answered", "corrected"):
            latest[row["question"]] = row["data"].get("labels") or row["label"]
        elif row["kind"] == "undone":
            undone[row["question"]] = latest[row["question"]]
    return undone


def _merged(events: Iterable[tuple[int, Event]]) -> Iterator[tuple[int, Event]]:
    """Merge adjacent changes, and adjacent known labels, so that the learner is retrained once for all of them. A
    merged event has the number of its last row."""
    for kind, together in groupby(events, lambda numbered: type(numbered[1])):
        numbers, parts = zip(*together)
        if kind is Changed:
            yield numbers[-1], Changed(tuple(change for part in parts for change in part.changes))
        elif kind is LabelsKnown:
            yield numbers[-1], LabelsKnown(tuple(label for part in parts for label in part.labels))
        else:
            yield from zip(numbers, parts)


def typed(row: Row, numbers: Mapping[int, int]) -> Event | None:
    """Convert a row of the log to an event; None if it changes no state. numbers: {question id: question number}."""
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

    number: number of its question (0: a mark, or a known label). round: the round in which it is learned (-1: before
    the first). audit: 1 for a random check. label: the current label (SKIP: nothing is learned). chance: probability of
    asking the item (1: it was not asked). is_known: whether the label came from elsewhere and cost nothing. labels:
    label of each of several questions.
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
        """Return the lesson for question k alone. Its label is SKIP if the question was added later."""
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
    """A stored question that waits for its answer, or is answered again.

    number: number in the session. margin, probability, predicted, audit: as of when it was asked; audit is 1 for a
    random check. old: its answer if it has one, else the last answer that was taken back; a list if the session asks
    several questions. blind: whether it was answered before and nothing may reveal that answer. parts: (margin,
    predicted class) of each question if the session asks several, with class 0 for a question that is not asked about
    this item; then `margin` and `predicted` are of the asked question with the largest margin.
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
    """A question of the log as it was asked, with its answer.

    label: current label (None: the question waits). first: label given first. annotator, answered_at: who gave the
    current label, and when. seconds: time from showing the item to the answer. parts: as in `StoredQuestion`. labels,
    firsts: current and first label of each of several questions.
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
        """Whether the answer differs from the predicted class; False if there is no label."""
        return bool(self.label) and self.label != self.predicted

    def question(self, old: int | list[int] | None = None, blind: bool = False) -> StoredQuestion:
        """Return the question in the form in which it waited for its answer. old, blind: as in `StoredQuestion`."""
        return StoredQuestion(
            self.id, self.number, self.round, self.item, self.margin, self.probability, self.predicted, old, self.audit,
            blind, self.parts,
        )  # fmt: skip

    def asks(self, k: int) -> bool:
        """Tell whether question k of several was asked about the item."""
        return asks(self.parts or (), k)

    def of_part(self, k: int) -> "Entry":
        """Return the entry for question k alone, with its margin, predicted class and label."""
        assert self.parts, "only sessions of several questions have parts"
        margin, predicted = self.parts[k]
        label, first = (labels and labels[k] for labels in (self.labels, self.firsts))
        own: dict[str, Any] = {"margin": margin, "predicted": int(predicted), "label": label, "first": first}
        return replace(self, **own, parts=None, labels=None, firsts=None)


COLUMNS = itemgetter(*(column.name for column in fields(Entry) if column.compare))


@dataclass(frozen=True)
class Log:
    """Everything that a state is rebuilt from.

    entries: the questions in order. events: (number of the event, event) in order. digests: {number of an event: digest
    of the state after it}. version: number of changes to the log. rounds: length of the stream, as recorded in the log.
    changes: number of corrections, marks, known and added labels, opened and closed questions since the session began.
    shared: whether somebody was asked a question while others had one. undone: the label of each question whose answer
    was undone, {question id: the latest such label}; a list if the session asks several questions.
    """

    entries: list[Entry]
    events: list[tuple[int, Event]]
    digests: dict[int, str]
    version: int
    rounds: int
    changes: int
    shared: bool
    undone: dict[int, int | list[int]]

    @classmethod
    def read(cls, store: Store, session: int) -> "Log":
        """Read the log of a session in one snapshot."""
        with store.snapshot():
            entries, digests = read_entries(store, session), store.digests(session)
            stored, version = store.events(session), store.log_version(session)
        checked = (checked_event(row) for row in stored if row["kind"] not in REMARKS)
        rows = [row for row in checked if row["kind"] in FOLDED]
        numbers = {entry.id: entry.number for entry in entries}
        events = [*_merged((row["number"], event) for row in lasting(rows) if (event := typed(row, numbers)))]
        grown = max((row["data"]["rounds"] for row in rows if row["kind"] == "grown"), default=0)
        begun = next((row["number"] for row in rows if row["kind"] == "grown"), 0)
        changes = sum(row["kind"] in CHANGES for row in rows if row["number"] > begun)
        shared, undone = any(row["kind"] == "asked" for row in rows), _undone(rows)
        return cls(entries, events, digests, version, grown, changes, shared, undone)

    @cached_property
    def order(self) -> list[int]:
        """The numbers of the questions that were answered or skipped, in the order of their answers."""
        return [number for _, event in self.events if isinstance(event, Answered) and (number := event.number or 0) > 0]

    def grown(self, rounds: int) -> list[tuple[int, Event]]:
        """Return the events, followed by the growth of the stream to `rounds` if the log does not have it yet."""
        return [*self.events, *[(0, Grown(rounds))] * (rounds > self.rounds)]

    def until(self, answers: int, questions: int) -> list[Entry]:
        """Return the first `questions` entries, with only the first `answers` answers: later ones are left out."""
        answered = {*self.order[:answers]}
        return [
            entry
            if entry.number in answered
            else replace(
                entry, label=None, first=None, annotator=None, answered_at=None, seconds=None, labels=None, firsts=None
            )
            for entry in self.entries[:questions]
        ]


def read_entries(store: Store, session: int, after: int = 0) -> list[Entry]:
    """Read the questions of a session after question number `after`, in order, with their answers."""
    return [Entry(*COLUMNS(row)) for row in store.answers(session, after)]


def read_entry(store: Store, session: int, question: int) -> Entry | None:
    """Read one question of a session, with its answer; None if the session has not asked it."""
    row = store.answer(session, question)
    return Entry(*COLUMNS(row)) if row else None


def unseen(store: Store, session: int, annotator: str) -> set[int]:
    """Return the answered questions whose answers an annotator must not see, because they may still be asked for a
    second answer, or are being asked again."""
    settings = store.session(session)
    second = store.due_answers(session, annotator) if settings["overlap"] else []
    leases = store.leases(session) if settings["repeat"] else []
    held = [row["question"] for row in leases if row["annotator"] == annotator]
    return {*second, *(question for question in held if store.answered_by(session, question, annotator))}


class Remarks:
    """The notes and tags of a session, read from its log. Each read takes only the events that are new, because a page
    reads them after each answer. A dictionary that was returned is never changed."""

    def __init__(self, store: Store, session: int) -> None:
        self._store, self._session, self._number, self._lock = store, session, 0, Lock()
        self._texts, self._given = dict[int, str](), dict[tuple[int, str], bool]()
        self._notes, self._tags = dict[int, str](), dict[int, list[str]]()

    def read(self) -> tuple[dict[int, str], dict[int, list[str]]]:
        """Return the current note of each item, and the tags of each item in the order they were first given."""
        with self._lock:
            if events := self._store.events(self._session, *REMARKS, after=self._number):
                for row in (row for row in events if not event_problem(row, READ)):
                    item, data = row["item"], row["data"]
                    if row["kind"] == "noted":
                        self._texts[item] = data["text"]
                    else:
                        self._given[item, data["tag"]] = bool(data["given"])
                self._number, self._tags = events[-1]["number"], {}
                self._notes = {item: text for item, text in self._texts.items() if text}
                for item, tag in (key for key, is_set in self._given.items() if is_set):
                    self._tags.setdefault(item, []).append(tag)
            return self._notes, self._tags

    @property
    def tags_ever(self) -> set[str]:
        """All tags that the log names."""
        self.read()
        return {tag for _, tag in [*self._given]}


def unreadable(store: Store, session: int) -> str | None:
    """Say which notes and tags of a session cannot be read and are left out; None if there are none."""
    problems = {row["number"]: event_problem(row, READ) for row in store.events(session, *REMARKS)}
    if not (wrong := [f"event {number:,}: {problem}" for number, problem in problems.items() if problem]):
        return None
    more = f", and {len(wrong) - 5:,} more" if len(wrong) > 5 else ""
    return f"Notes and tags that cannot be read are left out ({'; '.join(wrong[:5])}{more})."
