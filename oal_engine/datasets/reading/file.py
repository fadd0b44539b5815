"""Read a whole file into items, or stream its rows; read the vectors that belong to the texts of another file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from .columns import Columns
from .guesses import Words, guess_columns, numeric_columns
from .items import (
    OVERLONG,
    Entry,
    Items,
    Selector,
    check_columns,
    collect_items,
    completed,
    flat,
    stop_where_unread,
    with_details,
)
from .parsed import BROKEN, Cells, Line, ParsedFile, is_whole
from .preview import cell_words, description, first_columns, parse
from .readers import READERS, live_source, record
from .sources import LIMITS, DataError, FileOrPath, Layout, Limits, Progress, Source

VECTORS = "vectors"  # the column of those that come in a file of their own


class Vectors(NamedTuple):
    """The vectors of a file, to stand beside the texts of another: one for each of its rows, or why there is none."""

    name: str
    rows: list[np.ndarray | str]


@contextmanager
def open_entries(
    path: FileOrPath,
    columns: Columns,
    *,
    reader: str | None = None,
    encoding: str = "utf-8",
    progress: Progress | None = None,
    limits: Limits = LIMITS,
    vectors: Vectors | None = None,
    width: int = 0,
    layout: Layout = Layout(),
) -> Iterator[tuple[ParsedFile, tuple[str, ...], Iterator[tuple[int, Entry | str, int]]]]:
    """A parsed file, its columns besides those that make items, and its rows one by one: the line, (id, text, label,
    numbers, what the other columns hold) or the reason to skip it, and its place among the vectors.

    path: a file, or an open binary pipe, whose rows come as soon as they are there. Without text columns and features
    those texts are taken that the first rows suggest. width: how many numbers stand beside each text, in the features
    or in `vectors` of another file.
    """
    opened: AbstractContextManager[tuple[Source, str, ParsedFile, Words]]
    if isinstance(path, str | Path):
        opened = parse(path, None, reader, encoding, limits, progress, layout=layout)
    else:
        opened = nullcontext(_parsed_live(path, reader, encoding, limits, layout))
    with opened as (source, _, parsed, words):
        if parsed.vectors is not None:
            columns = Columns(id="id" if "id" in parsed.columns else None, features=())
        else:
            guess = guess_columns(words, numeric_columns(words) if source.ahead > 1 else ())
            text = columns.text or (guess.text if width or not columns.features else ())
            columns = replace(columns, text=text, id=guess.id if columns.id is None else columns.id or None)
            if not text and not columns.features:
                raise DataError(f"{source.name} has no text that is known by itself: name its column.")
        columns = with_details(columns, parsed.columns, words, source.name)
        if vectors:
            parsed = _beside(parsed, vectors, source.name)
        others = (*filter(None, columns.details or ()),)
        yield parsed, others, _entries(parsed, Selector(parsed.columns, columns, source.name, str, width))


def _parsed_live(
    binary: BinaryIO, reader: str | None, encoding: str, limits: Limits, layout: Layout
) -> tuple[Source, str, ParsedFile, Words]:
    """As `parse` of a pipe, by its first good row alone."""
    reader, source = live_source(binary, "the standard input", reader, encoding, limits, layout)
    parsed = READERS[reader].parse(source)
    rows, first = parsed.lines(), []
    for row in rows:
        first.append(row)
        if not isinstance(row[1], str):
            break
    words = first_columns(parsed.columns, (cell_words(cells) for _, cells in first[-1:]))
    return source, reader, parsed._replace(rows=chain(first, rows)), words or {}


def _entries(parsed: ParsedFile, select: Selector) -> Iterator[tuple[int, Entry | str, int]]:
    row = -1
    for line, cells in parsed.lines():
        row += not isinstance(cells, str)
        yield line, select(line, cells), row


def read(
    path: FileOrPath,
    columns: Columns | None = None,
    *,
    name: str | None = None,
    reader: str | None = None,
    encoding: str = "utf-8",
    progress: Progress | None = None,
    known: dict[str, int] | None = None,
    limits: Limits = LIMITS,
    vectors: Vectors | None = None,
    width: int = 0,
    layout: Layout = Layout(),
) -> Items:
    """The items of a file (a path, or an open binary file and its name), without those that must be skipped.

    Without `columns` those that `peek` guesses are taken; `progress` gets (bytes done, bytes in all). `known` is what
    label words mean in the data set that the items are appended to: then there may be none, an id may be "" or come
    twice, and other words are no labels. `vectors` of another file stand beside the texts, the k-th beside the k-th
    row, whatever is skipped. `width`: how many numbers must stand beside each text (0: as many as beside the first).
    """
    with parse(path, name, reader, encoding, limits, progress, layout=layout) as (source, reader, parsed, words):
        numeric = numeric_columns(words)
        wanted = columns or guess_columns(words, numeric)
        if vectors:
            if not wanted.text:
                raise DataError(f"{vectors.name} must stand beside texts. {source.name} has none: name its text.")
            wanted = replace(wanted, features=(*(wanted.features or ()), VECTORS))
            parsed = _beside(parsed, vectors, source.name)
        complete = completed(wanted, parsed, numeric)
        check_columns(complete, parsed, source.name)
        complete = with_details(complete, parsed.columns, words, source.name)
        if parsed.vectors is not None and known is not None:
            parsed = parsed.numbered(0 if (complete.features or ())[:1] == ("0",) else 1, source.name)
            complete = replace(complete, text=(), features=())
        items = collect_items(parsed, complete, source.name, known, limits, width)
        if known is None:
            stop_where_unread(items, source, reader)
        own_id = items.columns.id if wanted.guessed_id else wanted.id
        wanted = replace(wanted, id=own_id, fills=items.columns.fills, details=complete.details, shown=complete.shown)
        said = description(reader, parsed.said, parsed.columns, items.columns, len(items.feature_names))
        return replace(items, columns=wanted, said=said)


def read_vectors(path: FileOrPath, *, name: str | None = None, limits: Limits = LIMITS) -> Vectors:
    """The vectors of a .npy file, or of the columns of a Parquet file, to stand beside the texts of another."""
    with parse(path, name, None, "utf-8", limits) as (source, reader, parsed, _):
        if reader not in ("npy", "parquet"):
            raise DataError(f"vectors must be a .npy or Parquet file. Got {source.name}.")
        dense = iter(() if parsed.vectors is None else parsed.vectors)
        rows: list[np.ndarray | str] = []
        for _, cells in parsed.lines():
            vector = cells if isinstance(cells, str) else flat(cells) if parsed.vectors is None else next(dense)
            rows.append(vector if isinstance(vector, str) else np.array(vector))  # a list takes four times the memory
    return Vectors(source.name, rows)


def _beside(parsed: ParsedFile, vectors: Vectors, name: str) -> ParsedFile:
    """A parsed file with vectors as its last column."""

    def rows() -> Iterator[Line]:
        count = 0
        for line, vector in zip_longest(parsed.lines(), vectors.rows):
            if line is None or vector is None:
                count += line is not None
                continue
            count += 1
            number, cells = line
            reason = next((part for part in (cells, vector) if isinstance(part, str)), None)
            yield number, reason or [*cells, vector]
        if count != len(vectors.rows):
            raise DataError(
                f"{vectors.name} must have one vector for each of the {count:,} rows of {name}, also for those that "
                f"are skipped. Got {len(vectors.rows):,}."
            )

    return ParsedFile([*parsed.columns, VECTORS], rows())


def read_lines(
    lines: Iterable[tuple[int, str]], columns: Columns, known: dict[str, int], as_json: bool, width: int = 0
) -> Items:
    """The items to append of some lines (number, content): each a JSON object with these columns, or else a text; and
    of lines that are too long, which have no content. width: as in `read`."""
    more = (*(columns.features or ()), *(columns.details or ()))
    wanted = [column for column in (*columns.text, columns.label, columns.id, *more) if column]
    parsed = ParsedFile(wanted, ((number, _cells(line, wanted, as_json)) for number, line in lines))
    return collect_items(parsed, columns, "the feed", known, width=width)


def _cells(line: str, wanted: list[str], as_json: bool) -> Cells | str:
    if not line:
        return OVERLONG
    if not is_whole(line):
        return BROKEN
    if not as_json:
        return [line.rstrip("\r\n")]
    values = record(line)
    return BROKEN if values is None else [values.get(column) for column in wanted]
