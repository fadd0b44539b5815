"""What the components in the browser send: every event and every view with its types, ranges and lengths."""

from functools import cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from oal_engine.sessions.settings import LONGEST_TAG

LONGEST_NOTE, LONGEST_NAME, LONGEST_SEARCH = 2_000, 320, 200  # characters
MOST_PLACES = 40  # of the player, in one answer to the browser

Id = Annotated[str, Field(min_length=1, max_length=64)]
Row = Annotated[int, Field(ge=0, lt=2**63)]
Class = Annotated[int, Field(ge=-1, le=127)]
Name = Annotated[str, Field(max_length=LONGEST_NAME)]
Word = Annotated[str, Field(max_length=40)]


class MessageError(ValueError):
    """Something that no component of ours sends, in one sentence."""


class Message(BaseModel):
    """What is sent; what else it may hold is passed over."""

    model_config = ConfigDict(strict=True, frozen=True)


class Event(Message):
    """Something to be stored once. annotator: whose it is, as far as the browser knows. in_order: it means another
    thing where an event before it is not stored."""

    id: Id
    annotator: Name | None = None
    in_order: ClassVar[bool] = False


class _OnQuestion(Event):
    question: Row
    item: Row | None = None  # the one that was shown, where the browser says it
    label: Class | None = None
    seconds: Annotated[float, Field(ge=0, le=1e9)] | None = None
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
    label: Class
    was: Class


class Note(Event):
    action: Literal["note"]
    item: Row
    text: Annotated[str, Field(max_length=LONGEST_NOTE)]


TagName = Annotated[str, Field(max_length=LONGEST_TAG)]


class Tag(Event):
    action: Literal["tag"]
    item: Row
    tag: TagName
    given: bool


class Preferences(Message):
    """What an annotator has chosen; None where nothing is."""

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
Marks = bool | None  # whether terms are marked, of an annotator without a name
Review = Row | None  # the number of the question after which skipped ones are shown once more


class RowEvent(Event):
    """A choice made in a row of a list."""

    row: Row
    action: Class


class RowTag(Event):
    """A tag that the item of a row is given, or loses."""

    row: Row
    tag: TagName
    given: bool


class View(Message):
    """What of a list is looked at."""

    search: Annotated[str, Field(max_length=LONGEST_SEARCH)] = ""
    show: Annotated[str, Field(max_length=2 * LONGEST_TAG)] = "all"
    page: Annotated[int, Field(ge=0, le=10**7)] = 0
    open: Row | None = None


class Wanted(Message):
    """The places of a session that its player is to show: q and a question's number, or r and a round."""

    known: Annotated[str, Field(max_length=200)] | None = None
    want: Annotated[list[Annotated[str, Field(pattern=r"^[qr][0-9]{1,14}$")]], Field(max_length=MOST_PLACES)] = []


_adapter = cache(TypeAdapter)


def read(kind: Any, value: Any) -> Any:
    """A message of this kind, or a MessageError."""
    try:
        return _adapter(kind).validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "all of it"
        raise MessageError(f"the browser sent what cannot be read ({where}: {first['msg']}).") from None


def identity(event: Any) -> str | None:
    """The id of an event that may be anything; None where it has none that could be acknowledged."""
    try:
        return _adapter(Id).validate_python(event.get("id") if isinstance(event, dict) else None, strict=True)
    except ValidationError:
        return None


def known_preferences(stored: Any) -> dict[str, Any]:
    """What is stored of an annotator's preferences without what makes no sense."""
    kept: dict[str, Any] = {}
    for name, value in stored.items() if isinstance(stored, dict) else ():
        try:
            kept |= read(Preferences, {name: value}).chosen
        except MessageError:
            continue
    return kept
