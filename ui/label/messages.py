"""Messages of the components in the browser: every event and view with its types, ranges and lengths."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from oal_engine.store.fields import LONGEST_ANNOTATOR, LONGEST_TAG, MOST_QUESTIONS, MOST_SECONDS

LONGEST_NOTE, LONGEST_SEARCH, LONGEST_FINGERPRINT = 2_000, 200, 64  # characters
MOST_PLACES = 40  # positions that the player asks for in one message
MOST_EVENTS = 100  # events of a card in one request

Id = Annotated[str, Field(min_length=1, max_length=64)]
Row = Annotated[int, Field(ge=0, lt=2**63)]
Class = Annotated[int, Field(ge=-1, le=127)]
Labels = Annotated[list[Annotated[int, Field(ge=-1, le=1)]], Field(min_length=2, max_length=MOST_QUESTIONS)]
Name = Annotated[str, Field(max_length=LONGEST_ANNOTATOR)]
Word = Annotated[str, Field(max_length=40)]


class MessageError(ValueError):
    """Raised, with one sentence, for an invalid message. The app's own components never send one."""


class Message(BaseModel):
    """A message from the browser. Unknown fields are ignored."""

    model_config = ConfigDict(strict=True, frozen=True)


class Event(Message):
    """A message to be stored once. annotator: its author, as far as the browser knows. in_order: whether its meaning
    depends on the events before it."""

    id: Id
    annotator: Name | None = None
    in_order: ClassVar[bool] = False


class _OnQuestion(Event):
    question: Row
    item: Row | None = None  # the item that was on the screen
    label: Class | None = None
    labels: Labels | None = None  # one for each of several questions; `label` is then their summary
    seconds: Annotated[float, Field(ge=0, le=MOST_SECONDS)] | None = None
    highlighted: bool | None = None
    in_order: ClassVar[bool] = True


class Answer(_OnQuestion):
    action: Literal["label", "skip"]


class Undo(Event):
    action: Literal["undo"]
    question: Row
    in_order: ClassVar[bool] = True


class Correction(_OnQuestion):
    action: Literal["correct"]
    was: Class | Labels  # the label, or the labels, on the screen

    @model_validator(mode="after")
    def _has_label(self) -> Self:
        if self.label is None and self.labels is None:
            raise ValueError("a correction must have a label, or labels")
        return self


class Note(Event):
    action: Literal["note"]
    item: Row
    text: Annotated[str, Field(max_length=LONGEST_NOTE)]


TagName = Annotated[str, Field(max_length=LONGEST_TAG)]


class Tag(Event):
    action: Literal["tag"]
    item: Row
    tag: TagName
    added: Annotated[bool, Field(alias="given")]


class Preferences(Message):
    """Changes of an annotator's preferences; None leaves a value unchanged."""

    size: Annotated[int, Field(ge=0, le=9)] | None = None
    highlight: bool | None = None
    keys: Annotated[dict[Word, Word], Field(max_length=200)] | None = None

    @property
    def chosen(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True)


class Preference(Event):
    action: Literal["preferences"]
    changes: Preferences


CardEvent = Annotated[Answer | Undo | Correction | Note | Tag | Preference, Field(discriminator="action")]
Marks = bool | None  # whether an annotator without a name wants terms highlighted
Review = Row | None  # show the skipped questions after this question number again


class CardRequest(Message):
    """A request of a card. events: all events that are not acknowledged yet; each is validated separately. review,
    marks: as in `CardServer.payload`. seen: the panel's fingerprint, if it is time to poll for changes."""

    annotator: Name = ""
    events: Annotated[list[Any], Field(max_length=MOST_EVENTS)] = []
    review: Review = None
    marks: Marks = None
    seen: Annotated[str, Field(max_length=LONGEST_FINGERPRINT)] | None = None


class RowEvent(Event):
    """A choice made in a row of a list. action: the class, or the mark."""

    row: Row
    action: Class


class RowTag(Event):
    """A tag that is added to the item of a row, or removed from it."""

    row: Row
    tag: TagName
    added: Annotated[bool, Field(alias="given")]


class View(Message):
    """The part of a list that is visible: search, filter, page, and the row that is open. walk: whether keys label one
    row after the other."""

    search: Annotated[str, Field(max_length=LONGEST_SEARCH)] = ""
    show: Annotated[str, Field(max_length=2 * LONGEST_TAG)] = "all"
    page: Annotated[int, Field(ge=0, le=10**7)] = 0
    open: Row | None = None
    walk: bool = False


class Wanted(Message):
    """The positions that a player asks for, such as q7 (question 7) or r90 (round 90)."""

    version: Annotated[str | None, Field(alias="known", max_length=200)] = None  # version of the player's log
    want: Annotated[list[Annotated[str, Field(pattern=r"^[qr][0-9]{1,14}$")]], Field(max_length=MOST_PLACES)] = []


_adapter = cache(TypeAdapter)


def read(kind: Any, value: Any) -> Any:
    """Validate a message from a component, and return it as a `kind`. Raise MessageError if it is invalid."""
    return _checked(_adapter(kind).validate_python, value, "the browser")


def read_of_program(kind: Any, sent: bytes | dict[str, str]) -> Any:
    """Validate a message from a program, JSON or a query, and return it as a `kind`. Raise MessageError if it is
    invalid."""
    adapter = _adapter(kind)
    return _checked(adapter.validate_json if isinstance(sent, bytes) else adapter.validate_strings, sent, "the program")


def _checked(validate: Callable[..., Any], value: Any, sender: str) -> Any:
    try:
        return validate(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "all of it"
        raise MessageError(f"{sender} sent an invalid message ({where}: {first['msg']}).") from None


def identity(event: Any) -> str | None:
    """Return the id of an unchecked event, or None if it has no valid id."""
    try:
        return _adapter(Id).validate_python(event.get("id") if isinstance(event, dict) else None, strict=True)
    except ValidationError:
        return None


def known_preferences(stored: Any) -> dict[str, Any]:
    """Return stored preferences without the values that are no longer valid."""
    valid: dict[str, Any] = {}
    for name, value in stored.items() if isinstance(stored, dict) else ():
        with suppress(MessageError):
            valid |= read(Preferences, {name: value}).chosen
    return valid
