"""Details of items: further columns of a file, stored with the items, and the heading that is shown above a text."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

from .parsed import cell_text, is_whole

MAX_COLUMNS, CELL_CHARACTERS = 30, 2000  # columns stored by default, and characters of each of their cells
TITLE_CHARACTERS = 300  # up to which a first line can be a title
CUT = "…"  # ends a cell that was cut
TITLE = r"((article|paper|primary|document)[ _-]?)?(title|headline|subject)"
FACTS = (
    r"((publication|pub|published|release)[ _-]?)?(year|date)|published|authors?|publisher|newspaper"
    r"|((secondary|source)[ _-]?title|journal|source|venue)([ _-]?(name|title))?"
)
LINKS = r"((article|paper|source|full[ _-]?text|pdf|web)[ _-]?)?(urls?|links?)|pdf|doi"
PICTURE = re.compile(r"[^?#]+\.(png|jpe?g|webp|gif)([?#].*)?(?<!…)", re.IGNORECASE)  # its address or path, not cut
ADDRESS = re.compile(r"https?://[^\s<>\"']+", re.IGNORECASE)
DOI = re.compile(r"(?:doi:\s*)?(10\.\d{4,9}/\S+)", re.IGNORECASE)

Fact = tuple[str, str, str | None]  # column name ("" if obvious), words, address of a link


class Heading(NamedTuple):
    """The heading above an item's text: its title, and a line of facts. begins: index at which the text continues after
    its title, if its first line is the title; else 0."""

    title: str
    facts: list[Fact]
    begins: int = 0


def is_title(column: str) -> bool:
    """Tell whether a column is named like a title."""
    return re.fullmatch(TITLE, column.strip().casefold()) is not None


def unused_columns(
    columns: Iterable[str], used: Collection[str | None], limit: int | None = MAX_COLUMNS
) -> tuple[str, ...]:
    """Return the first `limit` columns (None: all) that have no other use, to be stored as details."""
    return tuple(column for column in columns if column not in used)[:limit]


def usually_shown(
    columns: Iterable[str], words: Mapping[str, Collection[str]] = MappingProxyType({})
) -> tuple[str, ...]:
    """Return the columns that are shown by default: titles, years, sources, authors, links and pictures.

    words: the first cells of each column, by which pictures are recognized.
    """
    return tuple(column for column in columns if _is_usual(column) or _has_pictures(words.get(column, ())))


def _is_usual(column: str) -> bool:
    return re.fullmatch(f"{TITLE}|{FACTS}|{LINKS}", column.strip().casefold()) is not None


def _has_pictures(words: Collection[str]) -> bool:
    cells = [word for word in words if word]
    return bool(cells) and all(map(PICTURE.fullmatch, cells))


def picture(columns: Sequence[str], words: Sequence[str], chosen: Collection[str]) -> str:
    """Return the address or path of an item's picture: the first cell of its chosen columns that names one, else ""."""
    return next((word for column, word in zip(columns, words) if column in chosen and PICTURE.fullmatch(word)), "")


def named(columns: Iterable[str], table_columns: Collection[str]) -> list[str]:
    """Return names under which columns of a file can be added to a table: `year` becomes `item_year` if the table has a
    column `year`."""
    names = dict.fromkeys(table_columns)
    for column in columns:
        while column in names:
            column = f"item_{column}"
        names[column] = None
    return [*names][len(table_columns) :]


def cells(values: Iterable[Any]) -> str | None:
    """Pack the detail cells of an item as JSON. Return None if all are empty."""
    words = [_word(value) for value in values]
    return json.dumps(words, ensure_ascii=False) if any(words) else None


def _word(value: Any) -> str:
    word = cell_text(value).strip()
    if not is_whole(word):
        word = word.encode(errors="replace").decode()
    return word if len(word) <= CELL_CHARACTERS else word[: CELL_CHARACTERS - 1] + CUT


def heading(columns: Sequence[str], words: Sequence[str], chosen: Collection[str]) -> Heading:
    """Make the heading of an item from its chosen detail columns that are not empty, with the links last."""
    cells = [(column, word) for column, word in zip(columns, words) if column in chosen and word]
    title = next(((column, word) for column, word in cells if is_title(column)), ("", ""))
    facts = [
        ("" if _is_usual(column) else column, word, link(column, word))
        for column, word in cells
        if (column, word) != title
    ]
    return Heading(title[1], sorted(facts, key=lambda fact: fact[2] is not None))


def link(column: str, word: str) -> str | None:
    """Return the URL of a cell that is a web address, or a DOI in a DOI column; else None."""
    if word.endswith(CUT):
        return None
    if ADDRESS.fullmatch(word):
        return word
    doi = DOI.fullmatch(word) if "doi" in column.casefold() else None
    return f"https://doi.org/{quote(doi[1])}" if doi else None


def title_and_abstract(text: str) -> tuple[str, str]:
    """Split a text into a title (its first line) and an abstract (the rest). If one of them is missing, the whole text
    is the title if it is short, else the abstract."""
    title, _, abstract = text.partition("\n")
    if title.strip() and abstract.strip():
        return title, abstract
    return (text, "") if len(text) <= TITLE_CHARACTERS else ("", text)


def with_title_of(text: str, above: Heading) -> Heading:
    """Make the first line of a text the title of its heading, if the line is short enough and not empty."""
    title, _, rest = text.partition("\n")
    if not 0 < len(title) <= TITLE_CHARACTERS:
        return above
    return above._replace(title=title, begins=len(text) - len(rest.lstrip("\n")))
