"""Read untrusted JSON lines files: every line is checked before it is used, and nothing in it is executed."""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from gzip import GzipFile
from typing import IO, Any, TypeAlias

Check: TypeAlias = Callable[[Any], bool]  # whether a field may hold a value

LONGEST_LINE = 2**23  # characters; the prior of a session may have 100 example texts of 20,000 characters
LONGEST_FILE = 2**28  # characters
UNWRITABLE = re.compile("[\0\ud800-\udfff]")  # in files and databases: NUL, and half of a surrogate pair
YEARS = range(1970, 2200)  # that a clock may show


class JsonLinesError(ValueError):
    """Raised for an invalid file. The message is one sentence."""


def lines(file: IO[str] | IO[bytes] | GzipFile) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) for each line of an open file of text or bytes. Raise JsonLinesError if a line is not
    UTF-8 or not a valid JSON object, or if a line or the file is too long."""
    total = 0
    for at, line in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), type(file.readline(0))()), 1):
        if isinstance(line, bytes):
            try:
                line = line.decode()
            except UnicodeDecodeError:
                raise JsonLinesError(f"line {at} is not UTF-8.") from None
        total += len(line)
        if len(line) > LONGEST_LINE or total > LONGEST_FILE:
            raise JsonLinesError(f"the file is too large in line {at}.")
        yield at, _object(line, at)


def _object(text: str, at: int) -> dict[str, Any]:
    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not a number")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(record := dict(pairs)) < len(pairs):
            (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
            raise ValueError(f"it has the key {twice[:80]} twice")
        return record

    try:
        record = json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise JsonLinesError(f"line {at} is not a JSON object: {reason}.") from None
    if not isinstance(record, dict):
        raise JsonLinesError(f"line {at} is not a JSON object.")
    if "\\u" in text:  # an unpaired surrogate such as \ud83d, which no UTF-8 file or database can hold
        try:
            json.dumps(record, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            surrogate = ascii(error.object[error.start])[1:-1]
            raise JsonLinesError(f"line {at} contains an unpaired surrogate ({surrogate}).") from None
    return record


def checked(record: object, fields: Mapping[str, Check], at: int, what: str) -> dict[str, Any]:
    """Check that the object in line `at` has exactly these fields, with allowed values, and return it.

    fields: {name: check}. what: name of the object in the error message.
    """
    if not isinstance(record, dict) or record.keys() != fields.keys():
        raise JsonLinesError(f"line {at} is not a valid {what}: it must have {', '.join(fields)}.")
    for name, allowed in fields.items():
        if not allowed(record[name]):
            raise JsonLinesError(f"invalid value for {name} in line {at}. Got {json.dumps(record[name])[:80]}.")
    return record


# Checks of a field's value


def whole(low: int, high: int = 2**53) -> Check:
    """Return a check that allows whole numbers from `low` to `high`."""
    return lambda value: type(value) is int and low <= value <= high


def number(value: Any) -> bool:
    """Return whether a value is a finite number."""
    return isinstance(value, int | float) and type(value) is not bool and abs(value) <= sys.float_info.max


def words(longest: int) -> Check:
    """Return a check that allows text of at most `longest` characters that every file and database can hold."""
    return lambda value: isinstance(value, str) and len(value) <= longest and not UNWRITABLE.search(value)


def time(value: Any) -> bool:
    """Return whether a value is an ISO 8601 time with a time zone, in a year that a clock may show."""
    try:
        at = datetime.fromisoformat(value) if words(40)(value) else None
    except ValueError:
        return False
    return at is not None and at.tzinfo is not None and at.year in YEARS


def or_none(check: Check) -> Check:
    """Return a check that allows null and all values that `check` allows."""
    return lambda value: value is None or check(value)
