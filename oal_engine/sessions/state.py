"""The state of a session, which is everything that an event changes, and the views of it that pages show."""

import hashlib
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ..kernel import spending, stream
from ..kernel.questions import Rare
from .labels import SKIP, SessionError
from .log import Lesson, StoredQuestion, asks

SEVERAL = "the session asks several questions about each item, and this is about one of them: name it."
NONE_KNOWN = np.empty(0, np.int64)
ALL_ROUNDS = 0, 2**62  # rounds, as (first, stop), of a question that was neither added later nor closed


def copied(part: Any) -> Any:
    """Copy a named tuple of the kernel together with its arrays."""
    return type(part)(*(value.copy() if isinstance(value, np.ndarray) else value for value in part))


class MaskedStream(NamedTuple):
    """The stream with its known items masked.

    known_parts, spans: as in `State`. y: the label of each item in the data; KNOWN_LABEL if the label is known from
    elsewhere, or if the question is not asked about the item. If the session asks several questions, y has a row for
    each. is_known: whether each item is known.
    """

    known_parts: tuple[np.ndarray, ...]
    y: np.ndarray
    is_known: np.ndarray
    spans: tuple[tuple[int, int], ...] = ()


class Outstanding(NamedTuple):
    """A question that is not answered yet, the cell of the table of counts in which its item is counted, and the item.

    parts: (margin, predicted class) of each question, if the session asks several. Then `question` has the largest
    margin and its class, and `cell` has an index array for each axis.
    """

    question: stream.Question
    cell: tuple[Any, ...]
    item: int
    parts: tuple[tuple[float, int], ...] = ()

    def of_part(self, k: int) -> "Outstanding":
        """Return the waiting question for question k alone, with its margin, predicted class and cell."""
        margin, predicted = self.parts[k]
        question = self.question._replace(margin=margin, predicted=predicted)
        return Outstanding(question, (int(predicted > 0), 1), self.item)


@dataclass
class State:
    """Everything that an event changes.

    parts: learner, rule, objective and average of each question. If the session asks several questions, the first axis
    of `counts`, and of the counts in `closed` and `trail`, is the question; older tables in `trail` lack questions that
    were added later. spans: the rounds in which each of these questions is asked, as (first, stop). question: the
    question asked last, if it waits; if no round is left, its round is `rounds`. outstanding: all waiting questions,
    {number: question}; only one if a single person labels.
    """

    parts: tuple[stream.Parts, ...]
    spans: tuple[tuple[int, int], ...]
    counts: np.ndarray
    question: stream.Question
    rounds: int  # length of the stream
    budget: int  # including added labels
    plan: spending.Plan | None = None  # of the budget, if it has one
    weighing: Rare | bool = False  # how several questions share the plan
    spent: int = 0  # labels of the budget
    audited: int = 0  # spent labels of random checks
    since: int = 0  # first round decided by the learner as it is now
    before: spending.Plan | None = None  # the plan at that round
    weighed: Rare | bool = False  # the weighing at that round
    closed: tuple[int, np.ndarray] | None = None  # first round after the budget was spent, and the counts before it
    lessons: list[Lesson] = field(default_factory=list)
    known_parts: tuple[np.ndarray, ...] = ()  # items with a known label, ascending; never changed in place
    answers: Counter[int] = field(default_factory=Counter)  # {label: number of current answers}
    trail: list[tuple[int, np.ndarray]] = field(default_factory=list)  # rounds done and counts at points of the curves
    number: int = 0  # of the question asked last
    outstanding: dict[int, Outstanding] = field(default_factory=dict)
    seconds: float = 0.0  # from the last answer until the next question was found

    def arrays(self) -> list[np.ndarray]:
        """Return the state's arrays in a fixed order."""
        own = (value for part in self.parts for each in part for value in each)
        weighing = self.weighing if isinstance(self.weighing, Rare) else ()
        values = (*own, *(self.plan or ()), *weighing, self.counts)
        return [value for value in values if isinstance(value, np.ndarray)]

    def copy(self) -> "State":
        """Return a copy that shares no array that is changed in place."""
        names = ("plan", "before", "weighing", "weighed")
        own: dict[str, Any] = {name: (value := getattr(self, name)) and copied(value) for name in names}
        own["parts"] = tuple(stream.Parts(*map(copied, part)) for part in self.parts)
        return replace(
            self, **own, counts=self.counts.copy(), trail=self.trail.copy(), lessons=self.lessons.copy(),
            answers=self.answers.copy(), outstanding=self.outstanding.copy(),
        )  # fmt: skip

    def digest(self) -> str:
        """Return a fingerprint (shortened SHA-256) of every bit of the state and of the waiting questions."""
        question = self.question[:-2]  # without `predicted` and `audit`, which follow from the rest
        digest = hashlib.sha256(repr((self.spent, *map(float, question))).encode())
        for array in self.arrays():
            digest.update(array.reshape(-1).data)
        for number, other in self.outstanding.items():
            if number != self.number:
                digest.update(repr((number, *map(float, other.question[:-2]))).encode())
            if other.parts:
                digest.update(repr((number, other.parts)).encode())
        for items in self.known_parts:
            digest.update(items.data)
        return digest.hexdigest()[:32]

    def only(self) -> stream.Parts:
        """Return learner, rule, objective and average of the only question. Raise SessionError if there are several."""
        if len(self.parts) > 1:
            raise SessionError(SEVERAL)
        return self.parts[0]

    def of_part(self, k: int, asked: Collection[int]) -> "State":
        """Return the state for question k alone, which shares the arrays of this state. asked: numbers of the entries
        in which this question was asked. If the question is closed, its budget counts as spent."""
        outstanding = {number: each.of_part(k) for number, each in self.outstanding.items() if asks(each.parts, k)}
        waiting = outstanding.get(self.number) if self.question.predicted else None  # later rounds may have passed
        own_lessons = ((each, each.of_part(k)) for each in self.lessons)
        lessons = [own for each, own in own_lessons if each.number in asked or (each.is_known and own.label != SKIP)]
        none, (_, stop), closed = np.zeros_like(self.counts[k]), self.spans[k], self.closed
        own: dict[str, Any] = {"closed": (closed[0], closed[1][k])} if closed else {}
        if stop < ALL_ROUNDS[1]:
            own = {"closed": (stop, self.counts[k]), "budget": self.spent}
        return replace(
            self, **own, parts=self.parts[k : k + 1], spans=(), weighing=False, weighed=False, counts=self.counts[k],
            known_parts=self.known_parts[k : k + 1], lessons=lessons,
            trail=[(rounds, counts[k] if k < len(counts) else none) for rounds, counts in self.trail],
            question=waiting.question if waiting else self.question._replace(margin=0.0, predicted=0),
            outstanding=outstanding, answers=Counter(lesson.label for lesson in lessons if lesson.number),
        )  # fmt: skip

    @property
    def labels(self) -> list[int]:
        """The current answers in the order in which they were first given; a skip is SKIP."""
        return [lesson.label for lesson in self.lessons if lesson.number]

    @property
    def known_items(self) -> np.ndarray:
        """The items whose label is known, ascending; empty if there are several questions, as an item whose label for
        one of them is known may still be asked about the others."""
        return self.known_parts[0] if self.known_parts and len(self.parts) == 1 else NONE_KNOWN

    @property
    def streamed(self) -> int:
        """Number of rounds that have passed, including the round of the question asked last."""
        return self.question.t + (self.question.predicted != 0)

    @property
    def waits(self) -> bool:
        """Whether the question asked last waits for its answer, and a label is left for it."""
        return self.question.predicted != 0 and self.spent < self.budget

    @property
    def reserved(self) -> int:
        """Number of labels of the budget that are spent or reserved for waiting questions."""
        return self.spent + len(self.outstanding)

    @property
    def waits_since(self) -> int:
        """First round whose question is still unanswered although later rounds have passed, or `rounds` if none is."""
        waiting = (each.question.t for each in self.outstanding.values())
        return min((t for t in waiting if t < self.question.t), default=self.rounds)

    @property
    def open(self) -> list[int]:
        """The indices of the questions that are still asked about later items; empty if there is a single one."""
        return [k for k, (_, stop) in enumerate(self.spans) if stop == ALL_ROUNDS[1]]

    @property
    def asks_on(self) -> bool:
        """Whether the stream can continue to one more question while earlier questions wait."""
        return self.waits and self.reserved < self.budget


@dataclass(frozen=True)
class Progress:
    """How far a session has come.

    labels, answers: number of current labels, in all and by label. streamed: number of rounds that have passed,
    including the waiting question's. stream: number of rounds in all. pushed: number of items predicted positive and
    not asked (None: K classes, or several questions). waiting: whether this person has a question. others: whether only
    other people have one. known_items: number of items with a label from elsewhere, which no other number counts.
    """

    labels: int
    budget: int
    answers: dict[int, int]
    skipped: int
    streamed: int
    stream: int
    pushed: int | None
    waiting: bool
    others: bool = False
    known_items: int = 0

    @property
    def left(self) -> int:
        """Labels of the budget that are not spent."""
        return self.budget - self.labels

    @property
    def end(self) -> str | None:
        """Why this person has no question: 'budget', 'stream' or 'others'; None if they have one."""
        if self.waiting:
            return None
        return "others" if self.others else "stream" if self.left else "budget"


@dataclass(frozen=True)
class Place:
    """A point of a session that a page shows: its question or None, the progress, the learner's weights and the counts.

    The counts omit waiting items: before an answer, nothing may reveal how the model or the data label the item.
    """

    asked: StoredQuestion | None
    progress: Progress
    weights: np.ndarray = field(compare=False, repr=False)
    counts: np.ndarray = field(compare=False, repr=False)


@dataclass(frozen=True)
class Decisions:
    """Arrays over the rounds: margin, predicted class, and whether it was asked about. `rounds` rounds have passed.

    If the session asks several questions, the first axis of margins and predicted classes is the question.
    """

    margins: np.ndarray
    predicted: np.ndarray
    asked: np.ndarray
    rounds: int = 0

    @classmethod
    def empty(cls, *shape: int) -> "Decisions":
        """Return decisions of zeros in which no round has passed. shape: (rounds,), or (questions, rounds)."""
        return cls(np.zeros(shape), np.zeros(shape, np.int8), np.zeros(shape[-1], bool))

    def longer(self, rounds: int) -> "Decisions":
        """Return a copy with room for `rounds` rounds."""
        longer = Decisions.empty(*self.margins.shape[:-1], rounds)
        for new, old in zip(longer._arrays(rounds), self._arrays(rounds)):
            new[..., : old.shape[-1]] = old
        return replace(longer, rounds=self.rounds)

    def _arrays(self, rounds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.margins[..., :rounds], self.predicted[..., :rounds], self.asked[:rounds]

    @property
    def passed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The margins, predicted classes and whether each item was asked about, of the rounds that have passed."""
        return self._arrays(self.rounds)
