"""The valid fields of a session: a check for each field of its settings, its questions, its events and its digests.

Storing, reading, publishing and adopting use the same checks, so that everything stored can be read and published.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ..output.jsonlines import LONGEST_LINE, UNWRITABLE, Check, number, or_none, time, whole, words
from .database import Row

MOST_LABELS = 10**9  # that can be added at once
MOST_TAGS, LONGEST_TAG = 20, 60  # tags of a session at a time, and characters of a tag
MOST_TAGS_EVER = 1_000  # different tags in the log of a session
MOST_QUESTIONS, LONGEST_NAME = 26, 60  # questions about each item, and characters of the name of one
LONGEST_TEXT, LONGEST_GUIDELINES = 20_000, 100_000  # characters of an example text, and of guidelines
LONGEST_TITLE = 500  # characters of the name of a session, a data set, a class, a column or an item
LONGEST_ANNOTATOR, LONGEST_ID, LONGEST_ORIGIN = 320, 200, 600  # characters
LONGEST_NOTE = LONGEST_LINE // 8  # characters; a line can hold it, whatever JSON makes of its characters
MOST_SECONDS = 1e9  # that an answer takes
OF_A_QUESTION = "name", "guidelines", "parent"

is_count, is_flag, is_label = whole(0), whole(0, 1), whole(-1, 127)
is_title, is_nothing = words(LONGEST_TITLE), or_none(lambda value: False)


def is_labels(value: Any) -> bool:
    """Return whether a value is valid as the list of labels for several questions."""
    return isinstance(value, list) and 2 <= len(value) <= MOST_QUESTIONS and all(map(whole(-1, 1), value))


def is_seconds(value: Any) -> bool:
    """Return whether a value is valid as the time that an answer took."""
    return number(value) and 0 <= value <= MOST_SECONDS


def names(value: Any) -> bool:
    """Return whether a value is a list of names."""
    return isinstance(value, list) and all(map(is_title, value))


def is_question(value: Any) -> bool:
    """Return whether a value is a valid question of a session that asks several questions about each item."""
    return (
        isinstance(value, dict) and {"name", "guidelines"} <= value.keys() <= {*OF_A_QUESTION, "added", "prior"}
        and words(LONGEST_NAME)(value["name"]) and words(LONGEST_GUIDELINES)(value["guidelines"])
        and words(LONGEST_NAME)(value.get("parent", "")) and value.get("added", 1) == 1
        and is_source(value.get("prior"))
    )  # fmt: skip


def is_source(value: Any) -> bool:
    """Return whether a value is valid as the source of a prior (None: no prior)."""
    return value is None or (isinstance(value, dict) and not problem({"texts": []} | value, SOURCE))


def is_audited(value: Any) -> bool:
    """Return whether a value is a valid description of an audited column (labels or scores made by something else)."""
    return (
        isinstance(value, dict) and value.keys() == {"column", "cut", "checksum", "others"}
        and is_title(value["column"]) and or_none(number)(value["cut"]) and words(64)(value["checksum"])
        and names(value["others"])
    )  # fmt: skip


SOURCE: dict[str, Check] = {
    **dict.fromkeys(("words", "items", "unknown"), names),
    "texts": lambda value: isinstance(value, list) and all(map(words(LONGEST_TEXT), value)),
    "model": or_none(is_title), "scores": is_count,
}  # fmt: skip
# Optional settings: {name: (default, check)}. A published session omits defaults.
ADDED: dict[str, tuple[Any, Check]] = {
    "floor": (0.0, number), "overlap": (0.0, number), "repeat": (0.0, number), "lease": (300.0, number),
    "people": (2, whole(2)), "quota": (0, is_count),
    "shown": (None, or_none(names)),
    "tags": (None, or_none(names)),
    "audited": (None, or_none(is_audited)),
    "answer_each": (0, is_flag),
    "goal": ("stream", lambda value: value in ("stream", "find")),
    "questions": (None, or_none(lambda value: isinstance(value, list) and all(map(is_question, value)))),
}  # fmt: skip
HEAD: dict[str, Check] = {
    "name": is_title, "budget": whole(1), "seed": is_count, "items": is_count, "horizon": whole(1),
    **dict.fromkeys(("shuffled", "averaged", "audit_trains"), is_flag),
    "audit": number, "pace": or_none(number),
    "positive_name": is_title, "negative_name": is_title, "engine": words(40), "created_at": time,
    **dict.fromkeys(("alpha_p", "c_p", "theta", "rho"), number),
    **dict.fromkeys(("algorithm", "learner", "rule", "metric"), words(200)),
    "positive_class": or_none(is_title),
    "classes": or_none(names),
    "parameters": lambda value: isinstance(value, dict) and value.keys() == {"learner", "rule"}
    and all(isinstance(part, dict) and all(map(number, part.values())) for part in value.values()),
}  # fmt: skip
SETTINGS: dict[str, Check] = {
    **HEAD, **{name: check for name, (_, check) in ADDED.items()},
    "prior": is_source, "owner": words(LONGEST_ANNOTATOR), "guidelines": words(LONGEST_GUIDELINES),
}  # fmt: skip
CHANGING = {"name", "owner", "guidelines", "tags", "shown", "questions"}  # settings that people may change later

_COMMON: dict[str, Check] = {
    "id": lambda value: value is None or (value != "" and words(LONGEST_ID)(value)),
    "annotator": words(LONGEST_ANNOTATOR),
    "seconds": or_none(is_seconds),
}
_ANSWER: dict[str, Check] = {"question": is_count, "label": is_label, "labels": or_none(is_labels)}
_KINDS: dict[str, dict[str, Check]] = {
    "grown": {"rounds": is_count},
    "asked": {},
    **{kind: _ANSWER | {"highlighted": or_none(is_flag)} for kind in ("answered", "corrected")},
    **dict.fromkeys(("second", "late", "again"), _ANSWER),
    **{kind: {"question": is_count} for kind in ("undone", "withdrawn")},
    "known": {"item": is_count, "label": is_label, "origin": words(LONGEST_ORIGIN), "labels": or_none(is_labels)},
    "marked": {"item": is_count, "wrong": is_flag, "trains": is_flag},
    "added": {"labels": whole(1, MOST_LABELS), "horizon": whole(1)},
    **{kind: {"part": whole(0, MOST_QUESTIONS - 1)} for kind in ("opened", "closed")},
    "noted": {"item": is_count, "text": words(LONGEST_NOTE)},
    "tagged": {"item": is_count, "tag": words(LONGEST_TAG), "given": is_flag},
}
Kinds = Mapping[str, Mapping[str, Check]]  # {kind of event: {field: check}}
EVENTS: Kinds = {kind: _COMMON | own for kind, own in _KINDS.items()}
# Fields that a state depends on: other fields close no session, whatever they hold
READ: Kinds = _KINDS | {"known": _KINDS["known"] | {"origin": lambda value: True}}
REMARKS = "noted", "tagged"  # kinds that no state depends on: one that cannot be read is left out


def event_problem(row: Row, kinds: Kinds = EVENTS) -> str | None:
    """Say which field of an event is missing or invalid, or does not belong to its kind; None if all are valid."""
    data = row["data"] or {}
    return problem(data | row, {**dict.fromkeys(data, is_nothing), **kinds.get(row["kind"], {"kind": is_nothing})})


def problem(values: Mapping[str, Any], checks: Mapping[str, Check]) -> str | None:
    """Say which of the checked fields has a value that it cannot have, and why; None if all are valid."""
    for name, allowed in checks.items():
        if not allowed(value := values.get(name)):
            return f"{name} {_reason(value)}"
    return None


def _reason(value: Any) -> str:
    """Say in a few words why a value is refused."""
    texts = [*_texts(value)]
    if match := next(filter(None, map(UNWRITABLE.search, texts)), None):
        return f"cannot have the character U+{ord(match[0]):04X}"
    longest = max(map(len, texts), default=0)
    return f"cannot have {longest:,} characters" if longest > 80 else f"cannot be {value!r:.80}"


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)
