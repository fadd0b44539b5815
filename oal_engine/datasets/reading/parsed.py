"""The common form of all formats: columns, rows, the detected layout and the doubts about it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import isnan
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from scipy import sparse

from .sources import DataError

T = TypeVar("T", bound=tuple[Any, ...])
BROKEN, NON_FINITE, UNCLOSED = "broken line", "non-finite row", "unclosed-quote line"  # why a reader skips a row
ABOVE, TOTALS = "line above the table", "row of totals"
BUFFER_CHARACTERS = 2**24  # of rows that are held at once, roughly

Cells: TypeAlias = Sequence[Any]
Line: TypeAlias = tuple[int, Cells | str]  # the line number, and the cells or the reason to skip them
Skipped: TypeAlias = dict[str, tuple[int, int]]  # reason: (number of lines, first line)


def without_options(sentence: str) -> str:
    """Remove the command-line options in parentheses from a sentence."""
    return re.sub(r" \(--[^)]*\)", "", sentence)


class Doubt(NamedTuple):
    """A part of a file that can be read in two ways: its subject, a question that names the options that settle it, the
    possible answers, the likeliest first, and an excerpt of the file for each answer, if one helps."""

    about: str
    question: str
    answers: tuple[str, ...]
    excerpts: tuple[str, ...] = ()

    @property
    def on_a_page(self) -> str:
        """The question without the options of the command line, and without the excerpts, which belong to answers."""
        words = without_options(self.question)
        return words.partition(f": {self.excerpts[0]!r}")[0] + "." if self.excerpts else words


class ParsedFile(NamedTuple):
    """The columns and rows of a file. `vectors`, if any, has one row for each row with cells, in the same order; its
    first column has the number `first`. `detected` is how the file was read, by the name of the option. `repeated` are
    columns whose name an earlier one has, by this name."""

    columns: list[str]
    rows: Iterable[Line]
    vectors: sparse.csr_array | np.ndarray | None = None
    first: int = 1
    detected: Mapping[str, str] = MappingProxyType({})
    doubts: tuple[Doubt, ...] = ()
    repeated: Mapping[str, str] = MappingProxyType({})

    def numbered(self, first: int, name: str) -> ParsedFile:
        """Return the file with its vector columns numbered from `first`, 0 or 1."""
        if first == self.first or not sparse.issparse(self.vectors):
            return self
        matrix: Any = self.vectors
        if first:
            raise DataError(f"{name} has the column 0: its columns must be numbered from 1, as before.")
        shape = matrix.shape[0], matrix.shape[1] + 1
        return self._replace(
            vectors=sparse.csr_array((matrix.data, matrix.indices + 1, matrix.indptr), shape=shape), first=0
        )


def first_rows(rows: Iterator[T], limit: int) -> list[T]:
    """Take up to `limit` rows or lines, fewer if they are large."""
    sample, characters = [], 0
    for row in islice(rows, limit):
        sample.append(row)
        characters += len(row[1]) if isinstance(row[1], str) else sum(8 + len(cell) for cell in row[1])
        if characters > BUFFER_CHARACTERS:
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
    """Tell whether a text has no unpaired surrogate, so that it can be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def cell_text(cell: Any) -> str:
    """Return a cell of JSON, Parquet or an array as a CSV file would have it."""
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
            return "|".join(map(cell_text, cell))
        case dict():
            return json.dumps(cell, ensure_ascii=False, default=str)
    return str(cell)


def name_list(names: Iterable[str], limit: int = 20) -> str:
    """Join up to `limit` names with commas, and count the others."""
    names = [" ".join(name.split())[:60] for name in names]
    return ", ".join(names[:limit]) + (f" and {len(names) - limit:,} more" if len(names) > limit else "")


def counted(counts: dict[str, int], limit: int = 20) -> str:
    """List the `limit` names with the largest counts, and count the others."""
    largest_first = sorted(counts, key=counts.__getitem__, reverse=True)
    return name_list((f"{name[:40]} ({counts[name]:,})" for name in largest_first), limit)


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, such as "2 items"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
