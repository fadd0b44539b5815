"""The result of every reader, whatever the format: columns, rows, the detected layout and doubts about it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import isnan
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from .conversations import conversation
from .sources import DataError

if TYPE_CHECKING:
    from scipy import sparse

T = TypeVar("T", bound=tuple[Any, ...])
BROKEN, NON_FINITE, UNCLOSED = "broken line", "non-finite row", "unclosed-quote line"  # why a reader skips a row
ABOVE, TOTALS, REPEATED = "line above the table", "row of totals", "repeated header"
BUFFER_CHARACTERS = 2**24  # approximate size of the rows that are held in memory at once

TOKEN = re.compile(r"""\s*('[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*")\s*,?""", re.DOTALL)  # of a list
ESCAPE = re.compile(r"\\((?:u[0-9a-fA-F]{4})(?:\\u[0-9a-fA-F]{4})?|x[0-9a-fA-F]{2}|.)", re.DOTALL)

Cells: TypeAlias = Sequence[Any]
Line: TypeAlias = tuple[int, Cells | str]  # the line number, and the cells or the reason to skip them
Skipped: TypeAlias = dict[str, tuple[int, int]]  # reason: (number of lines, first line)


def without_options(sentence: str) -> str:
    """Remove the command-line options in parentheses from a sentence."""
    return re.sub(r" \(--[^)]*\)", "", sentence)


class Doubt(NamedTuple):
    """An ambiguity in a file that the user must settle: its subject; a question, with the command-line options that
    answer it; the possible answers, the likeliest first; and, if it helps, an excerpt of the file for each answer."""

    about: str
    question: str
    answers: tuple[str, ...]
    excerpts: tuple[str, ...] = ()

    @property
    def on_a_page(self) -> str:
        """The question for a web page: without command-line options, and without excerpts, which the answers show."""
        words = without_options(self.question)
        return words.partition(f": {self.excerpts[0]!r}")[0] + "." if self.excerpts else words


class ParsedFile(NamedTuple):
    """The columns and rows of a file. `vectors`, if any, has one row for each readable row, in the same order; its
    columns are numbered from `first`. `detected` is the layout, {option: value}. `repeated` is {name: column} for each
    column that was renamed because an earlier column has that name."""

    columns: list[str]
    rows: Iterable[Line]
    vectors: sparse.csr_array | np.ndarray | None = None
    first: int = 1
    detected: Mapping[str, str] = MappingProxyType({})
    doubts: tuple[Doubt, ...] = ()
    repeated: Mapping[str, str] = MappingProxyType({})

    def with_cells(self, names: Sequence[str], cells_of: Callable[[int, Cells], Cells]) -> ParsedFile:
        """Add columns. cells_of: function from the line number and the cells of a readable row to its further cells."""
        rows = ((line, row if isinstance(row, str) else [*row, *cells_of(line, row)]) for line, row in self.rows)
        return self._replace(columns=[*self.columns, *names], rows=rows)

    def numbered(self, first: int, name: str) -> ParsedFile:
        """Renumber the columns of sparse vectors from `first`, 0 or 1. Raise DataError if it is 1 and a column is 0."""
        if first == self.first or not hasattr(self.vectors, "indptr"):
            return self
        matrix: Any = self.vectors
        if first:
            raise DataError(f"{name} has the column 0: its columns must be numbered from 1, as before.")
        shape = matrix.shape[0], matrix.shape[1] + 1
        vectors = type(matrix)((matrix.data, matrix.indices + 1, matrix.indptr), shape=shape)
        return self._replace(vectors=vectors, first=0)


def first_rows(rows: Iterator[T], limit: int, most: int = BUFFER_CHARACTERS) -> list[T]:
    """Take up to `limit` rows or lines, fewer if they have more than `most` characters together."""
    sample, characters = [], 0
    for row in islice(rows, limit):
        sample.append(row)
        characters += len(row[1]) if isinstance(row[1], str) else sum(8 + len(cell) for cell in row[1])
        if characters > most:
            break
    return sample


def is_number(cell: str) -> bool:
    """Tell whether a cell is written as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def is_whole(text: str) -> bool:
    """Tell whether a text has no unpaired surrogate, so that it can be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def cell_text(cell: Any) -> str:
    """Convert a cell of JSON, Parquet or an array to the text that it would have in a CSV file."""
    match cell:
        case str():
            return cell
        case None:
            return ""
        case bool():
            return str(cell).lower()
        case float():
            return "" if isnan(cell) else str(int(cell)) if cell.is_integer() else str(cell)
        case list() | tuple():
            return conversation(cell) or "|".join(map(cell_text, cell))
        case dict():
            return conversation(cell) or json.dumps(cell, ensure_ascii=False, default=str)
    return str(cell)


def text_of(cell: Any) -> str:
    """Return a cell of a text column as a text: the turns of a conversation or the tokens of a list, real or written as
    such, are joined."""
    if isinstance(cell, str) and (turns := conversation(cell)):
        return turns
    tokens = cell if isinstance(cell, list | tuple) else _tokens(cell) if isinstance(cell, str) else None
    if tokens is None or not all(isinstance(token, str) for token in tokens):
        return cell_text(cell)
    return " ".join(tokens)


def _tokens(cell: str) -> list[str] | None:
    """Return the strings of a list written in Python, JSON or NumPy, such as ["a", "b"]. None for any other text."""
    cell = cell.strip()
    if cell[:1] + cell[-1:] not in ("[]", "()") or cell[1:].lstrip()[:1] not in ("'", '"'):
        return None
    tokens, at = [], 1
    while match := TOKEN.match(cell, at):
        tokens.append(ESCAPE.sub(_unescaped, match[1][1:-1]))
        at = match.end()
    return None if cell[at:-1].strip() else tokens


def _unescaped(escape: re.Match[str]) -> str:
    """Return the characters for an escape such as \\n or \\u00e9."""
    code = escape[1]
    if len(code) == 1:
        return {"n": "\n", "r": "\r", "t": "\t"}.get(code, code)
    units = b"".join(int(unit, 16).to_bytes(2, "little") for unit in re.findall(r"[ux]([0-9a-fA-F]+)", code))
    return units.decode("utf-16-le", "replace")


def name_list(names: Iterable[str], limit: int = 20) -> str:
    """Join up to `limit` names with commas, and count the others."""
    names = [" ".join(name.split())[:60] for name in names]
    return ", ".join(names[:limit]) + (f" and {len(names) - limit:,} more" if len(names) > limit else "")


def counted(counts: dict[str, int], limit: int = 20) -> str:
    """List the `limit` names with the largest counts, as "name (count)", and count the other names."""
    largest_first = sorted(counts, key=counts.__getitem__, reverse=True)
    return name_list((f"{name[:40]} ({counts[name]:,})" for name in largest_first), limit)


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, such as "2 items"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


# ---- The roles of columns


@dataclass(frozen=True)
class Columns:
    """The role of each column, and the label words that are positive.

    text: columns whose cells, joined by newlines, are the text. label, id: a column, or None if there is none.
    features: columns of numbers (None: every numeric column of a file without texts). In a file with texts, a cell may
        also hold a list, such as [0.5, -1]; the numbers of all these cells are the vector of the text.
    positive: label words of the positive class.
    contains: a label cell such as `exercise|food` is a set of labels, separated by | ; or , and is positive if one of
        its labels is. An empty cell is negative.
    multiclass: each label word is a class of its own.
    unknown: label words that mean "no label" (None: NA, NULL and the like).
    headings: a label cell holds MeSH headings such as `Heart Diseases/*TH; Human.`, and is positive if one of them,
        without its qualifiers, is. An empty cell is negative, and not all positive words need to occur.
    missing: treatment of feature cells without a number, one of MISSING (None: refuse the file).
    fills: {column: number} for such cells in later files.
    codings: {column: how its words become numbers} for feature columns, see codings.py (empty: detect it in the file).
    guessed: the roles that are guesses, not named by a user. If the cells of a guessed id repeat, the ids of the items
        are their line numbers instead.
    details: further columns that are stored with the items (None: the first unused ones).
    shown_columns: details that are shown with an item (None: chosen by their names).
    """

    text: tuple[str, ...] = ()
    label: str | None = None
    id: str | None = None
    features: tuple[str, ...] | None = None
    positive: tuple[str, ...] = ()
    contains: bool = False
    multiclass: bool = False
    unknown: tuple[str, ...] | None = None
    headings: bool = False
    missing: str | None = None
    fills: dict[str, float] = field(default_factory=dict, compare=False)
    codings: dict[str, Any] = field(default_factory=dict, compare=False)
    guessed: tuple[str, ...] = field(default=(), compare=False)
    details: tuple[str | None, ...] | None = None
    shown_columns: tuple[str, ...] | None = None

    @property
    def holds_sets(self) -> bool:
        """Whether a label cell is a set of labels, so that a new combination of labels has a meaning, too."""
        return self.contains or self.headings
