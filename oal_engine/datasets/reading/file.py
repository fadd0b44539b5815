"""Read a file into items, whole or row by row; read the vectors that belong to the texts of another file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, replace
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from . import conversations, readers, second_look
from .codings import COMMA, POINT, Coder, ManyWordsError, expanded_row
from .encodings import encoded_twice
from .guesses import Words, guess_columns, numeric_columns
from .items import (
    OVERLONG,
    Item,
    ItemBuilder,
    Items,
    check_columns,
    collect_items,
    completed,
    flat,
    refuse_unreadable,
    with_details,
)
from .json_files import flat_record, record, with_reply
from .parsed import BROKEN, Cells, Columns, Line, ParsedFile, cell_text, first_rows, is_whole
from .readers import BINARY, check_reader, exported, live_source, reader_for
from .references import with_noted_decisions
from .sources import SAMPLE_ROWS, DataError, FileOrPath, Opening, Progress, Source, open_source

TWICE = "encoded_twice"  # an example of a word that was encoded as UTF-8 twice (mojibake)
USERS_OF = {
    "paragraphs": ("txt",),
    "sheet": ("xlsx",),
    "member": ("zip",),
    "each": ("zip",),
}  # {option: the formats that use it}; other options are for tables of text, such as CSV
VECTORS = "vectors"  # the name of the column of vectors that are read from a separate file


class Vectors(NamedTuple):
    """Vectors for the texts of another file: for each row of that file its vector, or the reason why it has none."""

    name: str
    rows: list[np.ndarray | str]


@contextmanager
def parse(
    path: FileOrPath, opening: Opening, progress: Progress | None = None, limit: int | None = None
) -> Iterator[tuple[Source, str, ParsedFile, Words]]:
    """Open a file. Yield the source, the name of its reader, the parsed file, and the first rows as {column: words}.

    limit: number of lines to read (None: all).
    """
    check_reader(opening.reader)
    with open_source(path, opening, limit, progress) as source:
        reader = reader_for(source, opening.reader)
        parsed = exported(source, readers.parse(source, reader))
        check_used(opening, reader, parsed, source.name)
        if reader not in BINARY:
            parsed = parsed._replace(detected={"encoding": source.encoding, **parsed.detected})
        parsed, words = _sampled(parsed)
        if words and parsed.vectors is None and (more := with_noted_decisions(parsed, words)) is not parsed:
            parsed, words = _sampled(more)
        if words and (columns := conversations.prompt_and_reply(words)):
            parsed, words = _sampled(_with_conversations(parsed, *columns))
        if words is None and parsed.detected.get("header") == "yes" and not [*islice(parsed.rows, 1)]:
            raise DataError(f"{source.name} has no items below its header.")
        if words is None:
            other = "; arrays, and objects over several lines, are read as json (--reader json)"
            raise DataError(f"{source.name} has no items, read as {reader}{other if reader == 'jsonl' else ''}.")
        if twice := next(filter(None, map(encoded_twice, chain.from_iterable(words.values()))), None):
            parsed = parsed._replace(detected={**parsed.detected, TWICE: " for ".join(twice)})
        yield source, reader, parsed, words


def _sampled(parsed: ParsedFile) -> tuple[ParsedFile, Words | None]:
    """Return a parsed file, and its first rows as {column: words}; None if none of them is readable."""
    rows = iter(parsed.rows)
    sample = first_rows(((line, cell_words(cells), cells) for line, cells in rows), SAMPLE_ROWS)
    words = first_columns(parsed.columns, (cells for _, cells, _ in sample))
    return parsed._replace(rows=chain(((line, cells) for line, _, cells in sample), rows)), words


def _with_conversations(parsed: ParsedFile, prompt: str, reply: str) -> ParsedFile:
    """Join the columns of the prompts and of the replies of a model to a column of conversations."""
    first, second = parsed.columns.index(prompt), parsed.columns.index(reply)
    others = [at for at in range(len(parsed.columns)) if at not in (first, second)]

    def joined(cells: Cells) -> list[Any]:
        return [conversations.joined(cells[first], cells[second]), *(cells[at] for at in others)]

    rows = ((line, cells if isinstance(cells, str) else joined(cells)) for line, cells in parsed.rows)
    return parsed._replace(columns=[conversations.COLUMN, *(parsed.columns[at] for at in others)], rows=rows)


def check_used(opening: Opening, reader: str, parsed: ParsedFile, name: str) -> None:
    """Raise DataError if a layout option is set that the reader of this file does not use."""
    layout = {option: value for option, value in asdict(opening.layout).items() if value is not None}
    if reader in BINARY and opening.encoding != "utf-8":
        layout["encoding"] = opening.encoding
    for option in layout.keys() - parsed.detected.keys():
        raise DataError(
            f"{name} is read as {reader}, which has no {option}: leave --{option} out, or name another format "
            f"({' or '.join(f'--reader {each}' for each in USERS_OF.get(option, ('csv',)))})."
        )


def first_columns(columns: list[str], rows: Iterable[list[str] | str]) -> Words | None:
    """Transpose rows of words into {column: words}. Return None if no row is readable."""
    good = [words for words in rows if not isinstance(words, str)]
    return dict(zip(columns, zip(*good))) if good else None


def cell_words(cells: Cells | str) -> list[str] | str:
    """Convert the cells of a row to words, or return the reason to skip the row."""
    try:
        return cells if isinstance(cells, str) else list(map(cell_text, cells))
    except RecursionError:  # deeply nested objects
        return BROKEN


def description(
    reader: str, detected: Mapping[str, str], available: Sequence[str], columns: Columns, features: int
) -> dict[str, Any]:
    """Describe how a file is read and which column has which role, for the JSON output of an import."""
    detail_columns = [*filter(None, columns.details or ())]
    used = {*columns.text, columns.label, columns.id, *(columns.features or ()), *detail_columns}
    words = [column for column, coding in columns.codings.items() if coding not in (POINT, COMMA)]
    return {
        "reader": reader, **detected, "text": list(columns.text), "label": columns.label, "id": columns.id,
        "features": features, "numbers": len(columns.features or ()) - len(words) if columns.codings else features,
        "words": words, "kept": detail_columns,
        "left_out": [column for column in available if column not in used],
    }  # fmt: skip


@contextmanager
def open_items(
    path: FileOrPath,
    columns: Columns,
    *,
    progress: Progress | None = None,
    vectors: Vectors | None = None,
    width: int = 0,
    **options: Any,
) -> Iterator[tuple[ParsedFile, tuple[str, ...], Iterator[tuple[int, Item | str, int]]]]:
    """Stream the items of a file. Yield the parsed file, its detail columns, and an iterator over the rows, each as
    (line number, item or reason to skip the row, index of its vector).

    path: a file, or an open binary pipe, whose rows are yielded as they arrive. If neither text nor feature columns are
    named, the text columns are guessed from the first rows. width: length of the vector of each text, which comes from
    feature columns or from `vectors`, a separate file. options: fields of `Opening`.
    """
    source_context: AbstractContextManager[tuple[Source, str, ParsedFile, Words]]
    if isinstance(path, str | Path):
        source_context = parse(path, Opening(**options), progress)
    else:
        source_context = nullcontext(_parse_pipe(path, Opening(name="the standard input", **options)))
    with source_context as (source, _, parsed, words):
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
            parsed = _with_vectors(parsed, vectors, source.name)
        coder = Coder(columns.features or (), columns.codings, is_import=False)
        build = ItemBuilder(parsed.columns, columns, source.name, width=width, coder=coder)
        yield parsed, (*filter(None, columns.details or ()),), _items(parsed, build, coder)


def _parse_pipe(binary: BinaryIO, opening: Opening) -> tuple[Source, str, ParsedFile, Words]:
    """Parse a pipe as `parse` parses a file, but read ahead only to its first readable row."""
    reader, source = live_source(binary, opening)
    parsed = readers.parse(source, reader)
    rows, first = iter(parsed.rows), []
    for row in rows:
        first.append(row)
        if not isinstance(row[1], str):
            break
    words = first_columns(parsed.columns, (cell_words(cells) for _, cells in first[-1:]))
    return source, reader, parsed._replace(rows=chain(first, rows)), words or {}


def _items(parsed: ParsedFile, build: ItemBuilder, coder: Coder) -> Iterator[tuple[int, Item | str, int]]:
    row = -1
    for line, cells in parsed.rows:
        row += not isinstance(cells, str)
        item = build(line, cells)
        if coder.codings and not isinstance(item, str):
            item = item._replace(numbers=expanded_row(item.numbers, coder.columns, coder.codings))
        yield line, item, row


def read(
    path: FileOrPath,
    columns: Columns | None = None,
    *,
    progress: Progress | None = None,
    label_values: dict[str, int] | None = None,
    vectors: Vectors | None = None,
    width: int = 0,
    limit: int | None = None,
    folder: Path | None = None,
    **options: Any,
) -> Items:
    """Read the items of a file: a path, or an open binary file.

    columns: the roles of the columns (None: guess them as `peek` does). progress: called with (bytes read, file size).
    label_values: {label word: y} of the data set to which the items are appended. The file may then have no items, its
        ids may be "" or repeat, and other words mean "no label". None for an import.
    vectors: vectors from a separate file, the k-th for the k-th row of this file, counting skipped rows.
    width: length of the vector that each text must have (0: as long as the first one).
    limit: number of lines and of rows to read (None: all). folder: directory for temporary files with the ids, texts,
        labels and details (None: keep lists in memory). options: fields of `Opening`.
    """
    opening, is_import, many = Opening(**options), label_values is None, list[str]()
    while True:
        with parse(path, opening, progress, limit) as (source, reader, parsed, words):
            if columns is None and parsed.doubts:
                raise DataError(parsed.doubts[0].question)
            parsed = parsed._replace(rows=islice(parsed.rows, limit))
            wanted, complete, parsed = _with_roles(parsed, columns, words, vectors, source.name, is_import)
            complete = replace(complete, features=tuple(each for each in complete.features or () if each not in many))
            check_columns(complete, parsed, source.name)
            complete = with_details(complete, parsed.columns, words, source.name)
            try:
                items = collect_items(parsed, complete, source.name, label_values, source.limits, width, folder)
            except ManyWordsError as error:  # categories in the first rows, but not in later ones
                many += error.columns
                continue
            if is_import:
                refuse_unreadable(items, source, reader)
            features = len(items.feature_names)
            described = description(reader, parsed.detected, parsed.columns, items.columns, features)
            items = replace(items, columns=_as_read(wanted, items.columns, complete), description=described)
            if not (limit and len(items.ids) >= limit - 1):  # the beginning of a sorted file has one label
                second_look.look(items, opening.layout, source.name, is_import)
            return items


def _with_roles(
    parsed: ParsedFile, columns: Columns | None, words: Words, vectors: Vectors | None, name: str, is_import: bool
) -> tuple[Columns, Columns, ParsedFile]:
    """Guess the roles of the columns unless they are given, and add the vectors of a separate file. Return the roles
    as wanted, the complete ones, and the file."""
    numeric = numeric_columns(words)
    wanted = columns or guess_columns(words, numeric)
    if vectors:
        if not wanted.text:
            raise DataError(f"{vectors.name} must belong to texts. {name} has none: name its text.")
        wanted = replace(wanted, features=(*(wanted.features or ()), VECTORS))
        parsed = _with_vectors(parsed, vectors, name)
    complete = completed(wanted, parsed, words, numeric)
    if not is_import:
        complete = replace(complete, codings=wanted.codings)
        if parsed.vectors is not None:
            parsed = parsed.numbered(0 if (complete.features or ())[:1] == ("0",) else 1, name)
            complete = replace(complete, text=(), features=())
    return wanted, complete, parsed


def _as_read(wanted: Columns, read: Columns, complete: Columns) -> Columns:
    """Return the roles with which later files are read in the same way as this one."""
    if read.codings:
        wanted = replace(wanted, features=read.features, codings=read.codings)
    return replace(
        wanted,
        id=read.id if "id" in wanted.guessed else wanted.id,
        fills=read.fills,
        details=complete.details,
        shown_columns=complete.shown_columns,
    )


def read_vectors(path: FileOrPath, **options: Any) -> Vectors:
    """Read vectors for the texts of another file from a .npy file, or from the columns of a Parquet file.

    options: fields of `Opening`.
    """
    with parse(path, Opening(**options)) as (source, reader, parsed, _):
        if reader not in ("npy", "parquet"):
            raise DataError(f"vectors must be a .npy or Parquet file. Got {source.name}.")
        dense = iter(() if parsed.vectors is None else parsed.vectors)
        rows: list[np.ndarray | str] = []
        for _, cells in parsed.rows:
            vector = cells if isinstance(cells, str) else flat(cells) if parsed.vectors is None else next(dense)
            rows.append(vector if isinstance(vector, str) else np.array(vector))  # a list takes four times the memory
    return Vectors(source.name, rows)


def _with_vectors(parsed: ParsedFile, vectors: Vectors, name: str) -> ParsedFile:
    """Add vectors to a parsed file as its last column."""

    def rows() -> Iterator[Line]:
        count = 0
        for line, vector in zip_longest(parsed.rows, vectors.rows):
            if line is None or vector is None:
                count += line is not None
                continue
            count += 1
            number, cells = line
            reason = next((part for part in (cells, vector) if isinstance(part, str)), None)
            yield number, reason or [*cells, vector]
        if count != len(vectors.rows):
            raise DataError(
                f"{vectors.name} must have one vector for each of the {count:,} rows of {name}, including skipped "
                f"rows. Got {len(vectors.rows):,}."
            )

    return ParsedFile([*parsed.columns, VECTORS], rows())


def read_lines(
    lines: Iterable[tuple[int, str]], columns: Columns, label_values: dict[str, int], as_json: bool, width: int = 0
) -> Items:
    """Read items to append from the numbered lines of a feed, in which "" replaces a line that was too long.

    as_json: each line is a JSON object with these columns as keys; else a text. label_values, width: as in `read`.
    """
    more = (*(columns.features or ()), *(columns.details or ()))
    wanted = [column for column in (*columns.text, columns.label, columns.id, *more) if column]
    parsed = ParsedFile(wanted, ((number, _cells(line, wanted, as_json)) for number, line in lines))
    return collect_items(parsed, columns, "the feed", label_values, width=width)


def _cells(line: str, wanted: list[str], as_json: bool) -> Cells | str:
    if not line:
        return OVERLONG
    if not is_whole(line):
        return BROKEN
    if not as_json:
        return [line.rstrip("\r\n")]
    values = record(line)
    flatten = flat_record if {"messages", "prompt"} & {*wanted} else with_reply
    return BROKEN if values is None else [*map((values | flatten(values)).get, wanted)]
