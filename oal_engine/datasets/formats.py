"""Tables to items: which columns hold what, and the rules that turn label words into -1 and +1, or into 1..K."""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain, islice
from math import isfinite
from typing import NamedTuple

import numpy as np
from scipy import sparse

from .readers import (
    BROKEN,
    NON_FINITE,
    READERS,
    Table,
    first_rows,
    is_number,
    is_whole,
    live_source,
    reader_for,
    record,
    some,
    word_of,
)
from .sources import LIMITS, SAMPLE, DataError, Limits, name_of, open_source

PAIRS = (
    ("1", "-1"),
    ("1", "0"),
    ("true", "false"),
    ("yes", "no"),
    ("positive", "negative"),
    ("relevant", "irrelevant"),
    ("relevant", "not relevant"),
    ("included", "excluded"),
)  # (positive, negative)
EMPTY, DUPLICATE, NON_NUMERIC, SURROGATE = "empty text", "duplicate id", "non-numeric row", "half a character"
OVERLONG = "overlong line"
LARGEST = 1e150  # of a number to append: it is scaled by its square, and a table that is there must stay finite
TEXT_NAMES = r"text|tweet|message|content|sentence|body|document|comment|review|post"
CLASSES = range(2, np.iinfo(np.int8).max + 1)  # how many there may be
LABEL_NAMES = (
    r"(is_)?(label|class|target|y|categor(y|ies)|topics?|tags?|concepts?|mesh|sentiment|relevant|included)(_.*)?"
)


@dataclass(frozen=True)
class Columns:
    """Which columns hold what, and which label words are positive.

    `text` columns are joined by a newline; `features` are numbers (None: every numeric column where there is no text).
    With `contains` a cell such as `exercise|food` is a set, cut at | ; and , of which one must be positive. With
    `headings` it holds MeSH headings such as `Heart Diseases/*TH; Human.`, of which one must be positive without its
    qualifiers; not every positive word need occur. In both an empty cell is negative, else its label is unknown. With
    `multiclass` each label word is a class of its own.
    """

    text: tuple[str, ...] = ()
    label: str | None = None
    id: str | None = None
    features: tuple[str, ...] | None = None
    positive: tuple[str, ...] = ()
    contains: bool = False
    multiclass: bool = False
    headings: bool = False


@dataclass
class Items:
    """What a file holds: `labels` are its own words ("" = none), `y` is int8 +1, -1 or 0 = unknown.

    Where each word is a class, `classes` are their names in order and `y` is 1..K or 0 = unknown.
    `vectors` is (items, features) float64, sparse or dense; `skipped` maps a reason to (count, first line number).
    """

    ids: list[str]
    texts: list[str] | None
    vectors: sparse.csr_array | np.ndarray | None
    feature_names: list[str]
    labels: list[str]
    y: np.ndarray
    skipped: dict[str, tuple[int, int]]
    classes: tuple[str, ...] = ()

    def counts(self) -> dict[str, int]:
        """How many items each of the classes has."""
        return dict(zip(self.classes, np.bincount(self.y, minlength=len(self.classes) + 1)[1:].tolist()))

    def report(self) -> str:
        """One sentence on what was read and what was skipped."""
        items, unknown = plural(len(self.ids), "item"), (self.y == 0).sum()
        if self.classes:
            unlabelled = f" ({unknown:,} unlabelled)" if unknown else ""
            largest = counted(self.counts(), 6)
            return f"{items}{unlabelled} in {len(self.classes)} classes: {largest}{_skips(self.skipped)}."
        signs = {"positive": (self.y > 0).sum(), "negative": (self.y < 0).sum(), "unlabelled": unknown}
        classes = ", ".join(f"{count:,} {name}" for name, count in signs.items() if count or name != "unlabelled")
        return f"{items} ({classes if self.y.any() else 'no labels'}){_skips(self.skipped)}."


class Peek(NamedTuple):
    """The first rows of a file as words, and what its columns seem to be."""

    reader: str
    columns: list[str]
    rows: list[dict[str, str]]
    guess: Columns
    numeric: tuple[str, ...]


def peek(
    path,
    rows: int = 20,
    *,
    name: str | None = None,
    reader: str | None = None,
    encoding: str = "utf-8",
    limits: Limits = LIMITS,
) -> Peek:
    """The first rows of a file (a path, or an open binary file and its name) and a guess of its columns."""
    reader = reader_for(path, reader, name=name, encoding=encoding, limits=limits)
    with open_source(path, name, encoding, limit=SAMPLE, limits=limits) as source:
        columns, table_rows, vectors = READERS[reader].table(source)
        found = ((line, _words(cells)) for line, cells in islice(table_rows, SAMPLE))
        sample = [words for _, words in first_rows(found, SAMPLE) if not isinstance(words, str)]
    if not sample:
        raise DataError(f"{name_of(path, name)} has no row that the {reader} reader can read.")
    words = dict(zip(columns, zip(*sample)))
    numeric = tuple(
        column for column, cells in words.items() if any(cells) and all(is_number(cell or "0") for cell in cells)
    )
    preview = [dict(zip(columns, cells)) for cells in sample[:rows]]
    for at, row in enumerate(preview if vectors is not None else ()):
        values = sparse.coo_array(vectors[[at]])
        row["features"] = " ".join(f"{k + 1}:{value:g}" for k, value in zip(values.col[:12], values.data))
    return Peek(reader, columns, preview, _guess(words, numeric), numeric)


def _words(cells: Sequence | str) -> list[str] | str:
    """Cells as words, or the reason to skip them."""
    try:
        return cells if isinstance(cells, str) else list(map(word_of, cells))
    except RecursionError:  # an object in an object in an object
        return BROKEN


def _guess(words: dict[str, tuple[str, ...]], numeric: tuple[str, ...]) -> Columns:
    count = len(next(iter(words.values()), ()))
    kinds = {column: len(set(cells)) for column, cells in words.items()}
    length = {column: sum(map(len, cells)) for column, cells in words.items() if column not in numeric}
    prose = [column for column in length if sum(" " in cell.strip() for cell in words[column]) > count / 2]
    named = {column.casefold(): column for column in words}

    distinct = [
        column
        for column in words
        if kinds[column] == count
        and column not in prose
        and all(cell.isdigit() or not is_number(cell) for cell in words[column])
    ]
    id = next((column for column in distinct if re.search(r"(?i)ids?$", column)), None)
    text = next(
        (column for column in length if re.fullmatch(TEXT_NAMES, column.casefold())),
        max(prose, key=length.get, default=None),
    )
    texts = (named["title"], named["abstract"]) if {"title", "abstract"} <= set(named) else (text,) if text else ()
    rest = [column for column in words if column not in (id, *texts)]
    label = next((column for column in rest if re.fullmatch(LABEL_NAMES, column.casefold())), None)
    if label is None and len(words) > 1:  # the last or first column, if it has a few words, or integers beside numbers
        ends = [
            column
            for column in (next(reversed(words)), next(iter(words)))
            if column in rest and kinds[column] <= min(50, max(2, count / 2))
        ]
        integers = [column for column in ends if all(cell.lstrip("+-").isdigit() for cell in words[column])]
        label = next(chain((column for column in ends if column in length), integers if not texts else ()), None)
    rest = [column for column in rest if column != label]
    features = tuple(column for column in rest if column in numeric)
    if not texts and not features and rest:
        texts = (max(rest, key=length.get),)
    return Columns(texts, label, id, None if texts else features)


# ---- Entries: one row after the other


@contextmanager
def open_entries(
    path,
    columns: Columns,
    *,
    reader: str | None = None,
    encoding: str = "utf-8",
    progress: Callable[[int, int], None] | None = None,
    limits: Limits = LIMITS,
) -> Iterator[tuple[Table, Iterator[tuple[int, tuple | str, int]]]]:
    """A table and its rows one by one: the line, (id, text, label, numbers) or the reason to skip it, and its place
    among the vectors.

    path: a file, or an open binary pipe, whose rows come as soon as they are there. Without text columns and features
    those texts are taken that the first rows suggest.
    """
    if hasattr(path, "read"):
        reader, source = live_source(path, "the standard input", reader, encoding, limits)
        opened, guess = nullcontext(source), None
    else:
        head = peek(path, 0, reader=reader, encoding=encoding, limits=limits)
        reader, guess = head.reader, head.guess
        opened = open_source(path, None, encoding, progress=progress, limits=limits)
    with opened as source:
        table = READERS[reader].table(source)
        if guess is None:  # by the first good row alone
            rows, first = iter(table.rows), []
            for row in rows:
                first.append(row)
                if not isinstance(row[1], str):
                    break
            table = table._replace(rows=chain(first, rows))
            words = [_words(cells) for _, cells in first[-1:]]
            words = {column: (word,) for cells in words for column, word in zip(table.columns, cells)}
            guess = _guess(words, ())
        if table.vectors is not None:
            columns = Columns(id="id" if "id" in table.columns else None, features=())
        else:
            text = columns.text or (() if columns.features else guess.text)
            columns = replace(columns, text=text, id=guess.id if columns.id is None else columns.id or None)
            if not text and not columns.features:
                raise DataError(f"{source.name} has no text that is known by itself: name its column.")
        columns = replace(columns, features=columns.features or ())
        yield table, _entries(table, _selector(table.columns, columns, source.name, str))


def _entries(table: Table, select: Callable) -> Iterator[tuple[int, tuple | str, int]]:
    row = -1
    for line, cells in table.rows:
        row += not isinstance(cells, str)
        yield line, select(line, cells), row


# ---- Items: from rows to what is imported


def read(
    path,
    columns: Columns | None = None,
    *,
    name: str | None = None,
    reader: str | None = None,
    encoding: str = "utf-8",
    progress: Callable[[int, int], None] | None = None,
    known: dict[str, int] | None = None,
    limits: Limits = LIMITS,
) -> Items:
    """The items of a file (a path, or an open binary file and its name), without those that must be skipped.

    Without `columns` those that `peek` guesses are taken; `progress` gets (bytes done, bytes in all). `known` is what
    label words mean in the data set that the items are appended to: then there may be none, an id may be "" or come
    twice, and other words are no labels.
    """
    head = peek(path, 0, name=name, reader=reader, encoding=encoding, limits=limits)
    columns = columns or head.guess
    with open_source(path, name, encoding, progress=progress, limits=limits) as source:
        table = READERS[head.reader].table(source)
        if table.vectors is not None:  # such a format says itself which are its labels and ids
            label, id = (column if column in table.columns else None for column in ("label", "id"))
            columns = replace(columns, label=columns.label or label, id=columns.id or id)
        if columns.features is None:
            numeric = tuple(column for column in head.numeric if column not in (columns.label, columns.id))
            columns = replace(columns, features=() if columns.text or table.vectors is not None else numeric)
        if table.vectors is None and not columns.text + columns.features:
            raise DataError(f"{source.name} has no columns of numbers: name its text among {some(table.columns)}.")
        if columns.multiclass and (columns.positive or columns.contains):
            raise DataError(
                "With multiclass each label word is a class of its own: give no positive words and no contains."
            )
        if columns.headings and not columns.positive:
            raise DataError("MeSH headings need the terms that are positive: give a tree file and a tree number.")
        if (columns.positive or columns.multiclass) and not columns.label:
            what = "Classes" if columns.multiclass else "Positive labels"
            raise DataError(f"{what} need a label column; {source.name} has {some(table.columns) or 'none'}.")
        if table.vectors is not None and known is not None:
            columns = replace(columns, text=(), features=())
        return _items(table, columns, source.name, known, limits)


def read_lines(lines: Iterable[tuple[int, str]], columns: Columns, known: dict[str, int], as_json: bool) -> Items:
    """The items to append of some lines (number, content): each a JSON object with these columns, or else a text; and
    of lines that are too long, which have no content."""
    wanted = [column for column in (*columns.text, columns.label, columns.id, *(columns.features or ())) if column]
    table = Table(wanted, ((number, _cells(line, wanted, as_json)) for number, line in lines))
    return _items(table, columns, "the feed", known)


def _cells(line: str, wanted: list[str], as_json: bool) -> list | str:
    if not line:
        return OVERLONG
    if not is_whole(line):
        return BROKEN
    if not as_json:
        return [line.rstrip("\r\n")]
    found = record(line)
    return BROKEN if found is None else [found.get(column) for column in wanted]


def _items(table: Table, columns: Columns, name: str, known: dict[str, int] | None, limits: Limits = LIMITS) -> Items:
    select = _selector(table.columns, columns, name, str if known is None else lambda line: "")
    ids, seen, texts, labels, numbers, kept = [], set(), [], [], array("d"), []
    skipped, words, row = {}, {}, -1
    for line, cells in table.rows:
        item = select(line, cells)
        row += not isinstance(cells, str)
        if not isinstance(item, str) and item[0] in seen:
            item = DUPLICATE
        elif known is not None and not isinstance(item, str) and any(abs(value) > LARGEST for value in item[3]):
            item = NON_FINITE
        if isinstance(item, str):
            count, first = skipped.get(item, (0, line))
            skipped[item] = count + 1, first
            continue
        id, text, label, values = item
        ids.append(id)
        if len(ids) > limits.items:
            limits.check("items", len(ids), name)
        if known is None:
            seen.add(id)
        texts.append(text)
        labels.append(sys.intern(label))
        numbers.extend(values)
        kept.append(row)
        count, first = words.get(label, (0, line))
        words[label] = count + 1, first
    if not ids and known is None:
        raise DataError(f"{name} holds no item that can be imported{_skips(skipped)}.")
    classes = _classes(words, columns, name) if columns.multiclass else ()
    numbered = {"": 0} | {word: k for k, word in enumerate(classes, 1)}
    if known is not None:
        signs = {word: known.get(word, 0) for word in words}
    else:
        signs = {word: numbered[_written(word)] for word in words} if classes else _signs(words, columns, name)
    vectors, names = table.vectors, list(columns.features)
    if vectors is not None:
        names = [str(number) for number in range(1, vectors.shape[1] + 1)]
        vectors = vectors if len(kept) == vectors.shape[0] else vectors[kept]
    elif names:
        vectors = np.frombuffer(numbers).reshape(len(kept), len(names))
    return Items(
        ids,
        texts if columns.text else None,
        vectors,
        names,
        labels,
        np.array([signs[label] for label in labels], np.int8),
        skipped,
        classes,
    )


def _selector(
    available: list[str], columns: Columns, name: str, made: Callable[[int], str]
) -> Callable[[int, Sequence | str], tuple | str]:
    """A function (line, cells) -> (id, text, label, numbers), or the reason to skip them; `made` makes missing ids."""
    for column in (*columns.text, columns.label, columns.id, *columns.features):
        if column is not None and column not in available:
            raise DataError(f"{name} has no column {column!r}; its columns are {some(available) or 'numbers only'}.")
    place = {column: at for at, column in enumerate(available)}
    text_at, features_at = [place[column] for column in columns.text], [place[column] for column in columns.features]
    label_at, id_at = place.get(columns.label), place.get(columns.id)

    def select(line, cells):
        if isinstance(cells, str):
            return cells
        try:
            text = "\n".join(part for at in text_at if (part := word_of(cells[at])).strip())
            id, label = ("" if at is None else word_of(cells[at]).strip() for at in (id_at, label_at))
        except RecursionError:  # an object in an object in an object
            return BROKEN
        if text_at and not text:
            return EMPTY
        try:
            numbers = [float(cells[at]) for at in features_at]
        except (ValueError, TypeError):
            return NON_NUMERIC
        except OverflowError:  # a whole number beyond all floats
            return NON_FINITE
        if not all(map(isfinite, numbers)):
            return NON_FINITE
        if not is_whole(f"{id}{text}{label}"):
            return SURROGATE
        return id or made(line), text, label, numbers

    return select


def _classes(words: dict[str, tuple[int, int]], columns: Columns, name: str) -> tuple[str, ...]:
    """The names of the classes in order: numbers by value, then words, C2 before C10."""
    found = {}
    for word, (count, _) in words.items():
        found[_written(word)] = found.get(_written(word), 0) + count
    found.pop("", None)
    if len(found) not in CLASSES:
        raise DataError(
            f"Column {columns.label!r} of {name} must hold {CLASSES[0]} to {CLASSES[-1]} classes. Got {len(found):,}"
            f"{': ' + counted(found) if found else ''}."
        )
    return tuple(sorted(found, key=_natural))


def _natural(word: str) -> tuple:
    padded = re.sub(r"\d+", lambda digits: digits[0].zfill(20), word.casefold())
    return (0, float(word), word) if is_number(word) else (1, padded, word)


def _signs(words: dict[str, tuple[int, int]], columns: Columns, name: str) -> dict[str, int]:
    """The label rule: +1, -1 or 0 for each label word, given its (count, first line)."""
    known = {word: count for word, (count, _) in words.items() if word}
    listed = counted(known)
    if columns.headings:
        return _heading_signs(known, columns, name)
    if columns.positive and known:
        split = re.compile("[|;,]").split if columns.contains else lambda word: []
        parts = {word: {word, *map(str.strip, split(word))} for word in known}
        occurring, wanted = set().union(*parts.values()), set()
        for value in columns.positive:
            same = {value} & occurring or {part for part in occurring if _plain(part) == _plain(value)}
            if not same:
                raise DataError(
                    f"The positive label {value!r} does not occur in column {columns.label!r} of {name}, "
                    f"which holds {listed}."
                )
            wanted |= same
        return {"": -1 if columns.contains else 0} | {word: 1 if parts[word] & wanted else -1 for word in known}
    pairs = PAIRS
    for word in known:
        fitting = [pair for pair in pairs if _plain(word) in pair]
        if not fitting:
            mixed = f", mixed from line {words[word][1]:,} ({word!r}) on" if pairs is not PAIRS else ""
            raise DataError(
                f"Column {columns.label!r} of {name} holds the labels {listed}{mixed}: name those that are positive, "
                "or make each word a class (multiclass)."
            )
        pairs = fitting
    return {"": 0} | {word: 1 if _plain(word) == pairs[0][0] else -1 for word in known}


def _heading_signs(known: dict[str, int], columns: Columns, name: str) -> dict[str, int]:
    wanted = set(map(_heading, columns.positive))
    signs = {word: -1 if wanted.isdisjoint(map(_heading, word.split(";"))) else 1 for word in known}
    if 1 not in signs.values():
        raise DataError(
            f"None of the {len(wanted):,} positive MeSH terms occurs in column {columns.label!r} of {name}, "
            f"which holds {counted(known, 3) or 'none'}."
        )
    return {"": -1} | signs


def _heading(text: str) -> str:
    return text.partition("/")[0].strip(" *.").casefold()


def _plain(word: str) -> str:
    """A label word without regard to case, or to how a number is written."""
    return _written(word.strip()).casefold()


def _written(word: str) -> str:
    """A label word, numbers in one way of writing: 1 for 1.0, nothing for NaN."""
    return word_of(float(word)) if is_number(word) else word


def counted(counts: dict[str, int], most: int = 20) -> str:
    """The names with the largest counts, and how many more there are."""
    return some((f"{name[:40]} ({counts[name]:,})" for name in sorted(counts, key=counts.get, reverse=True)), most)


def plural(count: int, noun: str) -> str:
    """A count of things in words."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def reasons(skipped: dict[str, tuple[int, int]]) -> str:
    """Why lines were skipped, {reason: (count, first line)}, in words."""
    return ", ".join(
        f"{plural(count, reason)} ({'first at ' * (count > 1)}line {line:,})"
        for reason, (count, line) in skipped.items()
    )


def _skips(skipped: dict[str, tuple[int, int]]) -> str:
    return f"; skipped {sum(count for count, _ in skipped.values()):,}: {reasons(skipped)}" if skipped else ""
