"""What readers make of a file: its columns and rows, how it was read, and what is doubtful about that."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isnan
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from scipy import sparse

from .sources import DataError

T = TypeVar("T", bound=tuple[Any, ...])
C = TypeVar("C")
BROKEN, NON_FINITE, UNCLOSED = "broken line", "non-finite row", "unclosed-quote line"  # why a reader skips a row
ABOVE, TOTALS = "line above the table", "row of totals"
WEIGHT = 2**24  # about so many bytes of rows are held at once

Cells: TypeAlias = Sequence[Any]
Line: TypeAlias = tuple[int, Cells | str]  # its number, and its cells or the reason to skip it
Skipped: TypeAlias = dict[str, tuple[int, int]]  # reason: how many lines, and the first


def without_options(sentence: str) -> str:
    """A sentence without the options of the command line that stand in brackets."""
    return re.sub(r" \(--[^)]*\)", "", sentence)


class Doubt(NamedTuple):
    """Something of a file that could be read in two ways: what it is about, a question with the options that settle
    it, and the answers there are, the likeliest first."""

    about: str
    question: str
    answers: tuple[str, ...]

    @property
    def on_a_page(self) -> str:
        """The question without the options of the command line."""
        return without_options(self.question)


@dataclass(frozen=True)
class Block:
    """Rows of words on consecutive lines, from this one on; each has a cell for each column."""

    line: int
    rows: list[list[str]]


class ParsedFile(NamedTuple):
    """What a reader makes of a file. `vectors` is None or holds one row for each row with cells, in their order; its
    first column has the number `first`. `said` is how the file was read, by the name of the option that says so.
    Behind the first rows, by which columns are guessed, some may come in blocks."""

    columns: list[str]
    rows: Iterable[Line | Block]
    vectors: sparse.csr_array | np.ndarray | None = None
    first: int = 1
    said: Mapping[str, str] = MappingProxyType({})
    doubts: tuple[Doubt, ...] = ()

    def lines(self) -> Iterator[Line]:
        """The rows one by one."""
        return one_by_one(self.rows)

    def numbered(self, first: int, name: str) -> ParsedFile:
        """The file with vectors whose first column has another number, 0 or 1."""
        if first == self.first or not sparse.issparse(self.vectors):
            return self
        matrix: Any = self.vectors
        if first:
            raise DataError(f"{name} has the column 0: its columns must be numbered from 1, as before.")
        shape = matrix.shape[0], matrix.shape[1] + 1
        return self._replace(
            vectors=sparse.csr_array((matrix.data, matrix.indices + 1, matrix.indptr), shape=shape), first=0
        )


def one_by_one(rows: Iterable[tuple[int, C] | Block]) -> Iterator[tuple[int, C | list[str]]]:
    """Rows without blocks."""
    for row in rows:
        if isinstance(row, Block):
            yield from enumerate(row.rows, row.line)
        else:
            yield row


def first_rows(rows: Iterator[T], most: int) -> list[T]:
    """The first rows, or lines: so many at most, fewer where they are large."""
    taken, weight = [], 0
    for row in islice(rows, most):
        taken.append(row)
        weight += len(row[1]) if isinstance(row[1], str) else sum(8 + len(cell) for cell in row[1])
        if weight > WEIGHT:
            break
    return taken


def is_number(cell: str) -> bool:
    """Whether a cell is written as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def is_whole(text: str) -> bool:
    """Whether no character of a text is a half of one."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def word_of(cell: Any) -> str:
    """A cell of JSON, Parquet or an array as the word that a CSV file would hold."""
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
            return "|".join(map(word_of, cell))
        case dict():
            return json.dumps(cell, ensure_ascii=False, default=str)
    return str(cell)


def some(names: Iterable[str], most: int = 20) -> str:
    """The first of many names in a line."""
    names = [" ".join(name.split())[:60] for name in names]
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def counted(counts: dict[str, int], most: int = 20) -> str:
    """The names with the largest counts, and how many more there are."""
    return some(
        (f"{name[:40]} ({counts[name]:,})" for name in sorted(counts, key=counts.__getitem__, reverse=True)), most
    )


def plural(count: int, noun: str) -> str:
    """A count of things in words."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
