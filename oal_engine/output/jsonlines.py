"""Files of JSON lines from elsewhere: every line is checked before anybody believes it, and nothing in it is run."""

import json
import sys
from datetime import datetime

LONGEST_LINE = 2**20  # characters
LONGEST_FILE = 2**28


class LinesError(ValueError):
    """A file that is not what it should be, in one sentence."""


def lines(file):
    """The objects of an open file, of text or of bytes, with the numbers of their lines."""
    total = 0
    for at, line in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), type(file.readline(0))()), 1):
        if isinstance(line, bytes):
            try:
                line = line.decode()
            except UnicodeDecodeError:
                raise LinesError(f"line {at} is not UTF-8.") from None
        total += len(line)
        if len(line) > LONGEST_LINE or total > LONGEST_FILE:
            raise LinesError(f"the file is too large in line {at}.")
        yield at, _object(line, at)


def _object(text, at):
    def refuse(word):
        raise ValueError(f"{word} is no number")

    try:
        found = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise LinesError(f"line {at} is no JSON object: {reason}.") from None
    if not isinstance(found, dict):
        raise LinesError(f"line {at} is no JSON object.")
    if "\\u" in text:  # such as \ud83d without its other half, which no file and no database can hold
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = ascii(error.object[error.start])[1:-1]
            raise LinesError(f"line {at} holds half a character: {half} without its other half.") from None
    return found


def checked(found, fields, at, what):
    """An object of line `at` with exactly these fields, {name: whether a value is allowed}, each as it is allowed."""
    if not isinstance(found, dict) or found.keys() != fields.keys():
        raise LinesError(f"line {at} is no {what}: it must have {', '.join(fields)}.")
    for name, allowed in fields.items():
        if not allowed(found[name]):
            raise LinesError(f"invalid value for {name} in line {at}. Got {json.dumps(found[name])[:80]}.")
    return found


# What a field may hold


def whole(low, high=2**53):
    """A whole number in a range."""
    return lambda value: type(value) is int and low <= value <= high


def number(value):
    """A finite number."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def words(longest):
    """Words of so many characters at most."""
    return lambda value: isinstance(value, str) and len(value) <= longest and "\0" not in value


def time(value):
    """A point in time with its zone."""
    try:
        return words(40)(value) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def or_none(check):
    """What a check allows, or nothing."""
    return lambda value: value is None or check(value)
