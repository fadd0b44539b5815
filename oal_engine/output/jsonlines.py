"""Files of JSON lines from elsewhere: every line is checked before anybody believes it, and nothing in it is run."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from gzip import GzipFile
from typing import IO, Any, TypeAlias

Check: TypeAlias = Callable[[Any], bool]  # whether a field may hold a value

LONGEST_LINE = 2**20  # characters
LONGEST_FILE = 2**28


class JsonLinesError(ValueError):
    """A file that is not what it should be, in one sentence."""


def lines(file: IO[str] | IO[bytes] | GzipFile) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of an open file, of text or of bytes, with the numbers of their lines."""
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
        raise ValueError(f"{word} is no number")

    try:
        record = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise JsonLinesError(f"line {at} is no JSON object: {reason}.") from None
    if not isinstance(record, dict):
        raise JsonLinesError(f"line {at} is no JSON object.")
    if "\\u" in text:  # such as \ud83d without its other half, which no file and no database can hold
        try:
            json.dumps(record, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = ascii(error.object[error.start])[1:-1]
            raise JsonLinesError(f"line {at} holds half a character: {half} without its other half.") from None
    return record


def checked(record: object, fields: Mapping[str, Check], at: int, what: str) -> dict[str, Any]:
    """The object of line `at` with exactly these fields, {name: whether a value is allowed}, each as it is allowed."""
    if not isinstance(record, dict) or record.keys() != fields.keys():
        raise JsonLinesError(f"line {at} is no {what}: it must have {', '.join(fields)}.")
    for name, allowed in fields.items():
        if not allowed(record[name]):
            raise JsonLinesError(f"invalid value for {name} in line {at}. Got {json.dumps(record[name])[:80]}.")
    return record


# What a field may hold


def whole(low: int, high: int = 2**53) -> Check:
    """A whole number in a range."""
    return lambda value: type(value) is int and low <= value <= high


def number(value: Any) -> bool:
    """A finite number."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def words(longest: int) -> Check:
    """Words of so many characters at most."""
    return lambda value: isinstance(value, str) and len(value) <= longest and "\0" not in value


def time(value: Any) -> bool:
    """A point in time with its zone."""
    try:
        return words(40)(value) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def or_none(check: Check) -> Check:
    """What a check allows, or nothing."""
    return lambda value: value is None or check(value)
