"""Preview the first rows of a file, and describe how it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, NamedTuple

from scipy import sparse

from .columns import Columns
from .delimited import DELIMITERS
from .guesses import Words, are_lists, gaps_of, guess_columns, numeric_columns, several_labels
from .labels import are_clear
from .parsed import BROKEN, Cells, Doubt, ParsedFile, first_rows, one_by_one, plural, some, word_of
from .readers import BINARY, READERS, check_reader, exported, reader_for
from .sources import LIMITS, SAMPLE, DataError, FileOrPath, Layout, Limits, NotDecoded, Progress, Source, open_source

HOW = ("sheet", "encoding", "delimiter", "decimals", "header")  # a file was read, as far as it was found out


class Peek(NamedTuple):
    """The first rows of a file as words, and what its columns seem to be."""

    reader: str
    columns: list[str]
    rows: list[dict[str, str]]
    guess: Columns
    numeric: tuple[str, ...]
    lists: tuple[str, ...] = ()  # columns of lists of numbers, of one length
    said: Mapping[str, str] = MappingProxyType({})  # how it was read, by option
    doubts: tuple[Doubt, ...] = ()
    several: Mapping[str, str] = MappingProxyType({})  # a cell with several labels, by column
    gaps: Mapping[str, str] = MappingProxyType({})  # cells that hold no number, by numeric column
    unclear: bool = False  # what the label words mean

    @property
    def doubtful(self) -> bool:
        """Whether something must be said before it can be imported by the guess."""
        gaps = self.gaps.keys() & set(self.guess.features or ())
        return bool(self.doubts or self.unclear or self.guess.label in self.several or gaps)

    @property
    def description(self) -> dict[str, Any]:
        """How the file would be read by the guess, for `spoken`."""
        features = len(self.guess.features or ())
        return description(self.reader, self.said, self.columns, self.guess, features) | {"left_out": []}

    def settle(self, label: str | None, contains: bool | None) -> None:
        """DataError where something is doubtful: in the layout, or whether cells of the label column hold several."""
        for doubt in self.doubts:
            raise DataError(doubt.question)
        if label and label in self.several and contains is None:
            raise DataError(
                f"Cells of the column {label!r} hold several labels, such as {self.several[label]!r}: say whether each "
                "of them counts (--contains) or the whole cell is one label (--no-contains)."
            )


@contextmanager
def parse(
    path: FileOrPath,
    name: str | None,
    reader: str | None,
    encoding: str,
    limits: Limits,
    progress: Progress | None = None,
    limit: int | None = None,
    layout: Layout = Layout(),
) -> Iterator[tuple[Source, str, ParsedFile, Words]]:
    """An open file, the name of its reader, its rows, and the words of the first of them, which are still to come."""
    check_reader(reader)
    with open_source(path, name, encoding, limit, progress, limits, layout) as source:
        reader = reader_for(source, reader)
        parsed = exported(source, READERS[reader].parse(source))
        if reader not in BINARY:
            parsed = parsed._replace(said={"encoding": source.encoding, **parsed.said})
        rows = iter(parsed.rows)
        sample = first_rows(((line, cell_words(cells), cells) for line, cells in one_by_one(rows)), SAMPLE)
        words = first_columns(parsed.columns, (cells for _, cells, _ in sample))
        if words is None:
            raise DataError(f"{source.name} has no items, read as {reader}.")
        yield source, reader, parsed._replace(rows=chain(((line, cells) for line, _, cells in sample), rows)), words


def first_columns(columns: list[str], rows: Iterable[list[str] | str]) -> Words | None:
    """The words of rows by column, None where no row can be read."""
    good = [words for words in rows if not isinstance(words, str)]
    return dict(zip(columns, zip(*good))) if good else None


def cell_words(cells: Cells | str) -> list[str] | str:
    """Cells as words, or the reason to skip them."""
    try:
        return cells if isinstance(cells, str) else list(map(word_of, cells))
    except RecursionError:  # an object in an object in an object
        return BROKEN


def peek(
    path: FileOrPath,
    rows: int = 20,
    *,
    name: str | None = None,
    reader: str | None = None,
    encoding: str = "utf-8",
    limits: Limits = LIMITS,
    layout: Layout = Layout(),
) -> Peek:
    """The first rows of a file (a path, or an open binary file and its name) and a guess of its columns."""
    options: dict[str, Any] = {"name": name, "reader": reader, "limits": limits, "layout": layout}
    try:
        return _peek(path, rows, encoding=encoding, **options)
    except NotDecoded as error:
        if error.encoding is None:
            raise
        head = _peek(path, rows, encoding=error.encoding, **options)
        return head._replace(doubts=(Doubt("encoding", str(error), (error.encoding,)), *head.doubts))


def _peek(
    path: FileOrPath, rows: int, name: str | None, reader: str | None, encoding: str, limits: Limits, layout: Layout
) -> Peek:
    with parse(path, name, reader, encoding, limits, None, SAMPLE, layout) as (_, reader, parsed, words):
        numeric = numeric_columns(words)
        preview = [dict(zip(words, cells)) for cells in islice(zip(*words.values()), rows)]
        if parsed.vectors is not None:
            preview = preview or [{} for _ in range(min(rows, parsed.vectors.shape[0]))]
            for at, row in enumerate(preview):
                values = sparse.coo_array(parsed.vectors[[at]])
                pairs = zip(values.col[:12] + parsed.first, values.data)
                row["features"] = " ".join(f"{number}:{value:g}" for number, value in pairs)
        lists = tuple(column for column, cells in words.items() if are_lists(cells))
        several = {column: cell for column, cells in words.items() if (cell := several_labels(cells))}
        guess = guess_columns(words, numeric)
        numeric = numeric if parsed.vectors is None else ()  # whose numbers are in no columns
        gaps = {column: gap for column in numeric if (gap := gaps_of(words[column]))}
        unclear = guess.label is not None and not are_clear(words[guess.label], guess)
        return Peek(
            reader, parsed.columns, preview, guess, numeric, lists, dict(parsed.said), parsed.doubts, several, gaps,
            unclear,
        )  # fmt: skip


def description(
    reader: str, said: Mapping[str, str], available: Sequence[str], columns: Columns, features: int
) -> dict[str, Any]:
    """How a file is read and what its columns are taken for, for people in `spoken` and for programs."""
    kept = [*filter(None, columns.details or ())]
    used = {*columns.text, columns.label, columns.id, *(columns.features or ()), *kept}
    return {
        "reader": reader, **said, "text": list(columns.text), "label": columns.label, "id": columns.id,
        "features": features, "kept": kept, "left_out": [column for column in available if column not in used],
    }  # fmt: skip


def spoken(said: Mapping[str, Any]) -> str:
    """How a file was read, as `description` has it, in a sentence."""
    words = {key: DELIMITERS.get(said[key], said[key]) for key in HOW if key in said}
    how = ", ".join(f"{key} {word}" for key, word in words.items())
    parts = [f"Read as {said['reader']}{f' ({how})' if how else ''}"]
    if said["text"]:
        parts.append(f"texts in {' + '.join(said['text'])}")
    if said["features"]:
        parts.append(plural(said["features"], "column") + " of numbers")
    parts.append(f"labels in {said['label']}" if said["label"] else "no labels")
    parts.append(f"ids in {said['id']}" if said["id"] else "lines are numbered")
    if said["kept"]:
        parts.append(f"kept with the items: {some(said['kept'], 8)}")
    if said["left_out"]:
        parts.append(f"left out: {some(said['left_out'], 8)}")
    return "; ".join(parts) + "."
