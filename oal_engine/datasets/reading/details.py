"""What a file says of an item besides its text, label, id and numbers: the columns that are kept with it, and how those
that are chosen are shown above its text."""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from .readers import is_whole, word_of

MOST, LONGEST = 30, 2000  # columns that are kept unless others are named, and characters of a cell
LONGEST_TITLE = 300  # characters of a first line that is taken for a title
CUT = "…"  # where a cell was cut
TITLE = r"((article|paper|primary|document)[ _-]?)?(title|headline|subject)"
FACTS = (
    r"((publication|pub|published|release)[ _-]?)?(year|date)|published|authors?|publisher|newspaper"
    r"|((secondary|source)[ _-]?title|journal|source|venue)([ _-]?(name|title))?"
)
LINKS = r"((article|paper|source|full[ _-]?text|pdf|web)[ _-]?)?(urls?|links?)|pdf|doi"
ADDRESS = re.compile(r"https?://[^\s<>\"']+", re.IGNORECASE)
DOI = re.compile(r"(?:doi:\s*)?(10\.\d{4,9}/\S+)", re.IGNORECASE)

Fact = tuple[str, str, str | None]  # the name of its column, or "" where it needs none; words; where a link leads


class Shown(NamedTuple):
    """What stands above an item's text: its title, and its other facts in a line. begins: where the text below it does,
    for the title may be its first line."""

    title: str
    facts: list[Fact]
    begins: int = 0


def is_title(column: str) -> bool:
    """Whether a column is called a title."""
    return _called(TITLE, column)


def _called(pattern: str, column: str) -> bool:
    return re.fullmatch(pattern, column.strip().casefold()) is not None


def left(columns: Iterable[str], used: Collection[str | None], most: int | None = MOST) -> tuple[str, ...]:
    """The columns of a file that are kept with its items: the first of those that nothing else uses."""
    return tuple(column for column in columns if column not in used)[:most]


def usual(columns: Iterable[str]) -> tuple[str, ...]:
    """Those of some columns that are shown unless others are chosen: titles, years, sources, authors and links."""
    return tuple(column for column in columns if any(_called(kind, column) for kind in (TITLE, FACTS, LINKS)))


def named(columns: Iterable[str], taken: Collection[str]) -> list[str]:
    """What columns of a file are called in a table beside its own, which are taken."""
    names = dict.fromkeys(taken)
    for column in columns:
        while column in names:
            column = f"item_{column}"
        names[column] = None
    return [*names][len(taken) :]


def cells(values: Iterable[Any]) -> str | None:
    """The cells that are kept with an item as they are stored; None where all are empty."""
    words = [_word(value) for value in values]
    return json.dumps(words, ensure_ascii=False) if any(words) else None


def _word(value: Any) -> str:
    word = word_of(value).strip()
    if not is_whole(word):
        word = word.encode(errors="replace").decode()
    return word if len(word) <= LONGEST else word[: LONGEST - 1] + CUT


def shown(columns: Sequence[str], words: Sequence[str], chosen: Collection[str]) -> Shown:
    """The words of an item's columns as they are shown: those that are chosen and not empty, links last."""
    known = [(column, word) for column, word in zip(columns, words) if column in chosen and word]
    title = next(((column, word) for column, word in known if is_title(column)), ("", ""))
    facts = [(_name(column), word, link(column, word)) for column, word in known if (column, word) != title]
    return Shown(title[1], sorted(facts, key=lambda fact: fact[2] is not None))


def _name(column: str) -> str:
    return "" if any(_called(kind, column) for kind in (TITLE, FACTS, LINKS)) else column


def link(column: str, word: str) -> str | None:
    """Where the word of a column leads: it is an address of the web, or a DOI in a column of that name; else None."""
    if word.endswith(CUT):
        return None
    if ADDRESS.fullmatch(word):
        return word
    doi = DOI.fullmatch(word) if "doi" in column.casefold() else None
    return f"https://doi.org/{quote(doi[1])}" if doi else None


def headed(above: Shown, text: str) -> Shown:
    """The same of a text that a title was joined to, which is its first line, or all of it where nothing follows."""
    title, _, rest = text.partition("\n")
    if not 0 < len(title) <= LONGEST_TITLE:
        return above
    return above._replace(title=title, begins=len(text) - len(rest.lstrip("\n")))
