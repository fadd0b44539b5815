"""Turn parsed rows into items; report why the others were skipped."""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import isfinite, isinf, isnan, nan
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from ...output.tables import numbers_of
from . import details
from .columns import Columns
from .guesses import Words, are_lists, numbers_in
from .labels import classes_of, meanings
from .parsed import (
    BROKEN,
    NON_FINITE,
    UNCLOSED,
    Block,
    Cells,
    ParsedFile,
    Skipped,
    counted,
    is_whole,
    one_by_one,
    plural,
    some,
    word_of,
)
from .sources import LIMITS, DataError, Limits, Source, allow_more

EMPTY, DUPLICATE, NON_NUMERIC, SURROGATE = "empty text", "duplicate id", "non-numeric row", "half a character"
OVERLONG, OTHER_LENGTH = "overlong line", "other-length vector"
LARGEST = 1e150  # of a number to append: it is scaled by its square, and a table that is there must stay finite
UNREADABLE = {BROKEN, UNCLOSED, NON_NUMERIC, OTHER_LENGTH}  # lines that may show that the file is something else
UNREAD = 10  # lines that cannot be read are no reason to stop
MISSING = {
    "mean": "takes the mean of the column",
    "zero": "takes 0",
    "skip": "leaves the rows out",
    "drop": "leaves the columns out",
}  # what becomes of cells of numbers that hold none
# Id, text, label and numbers of an item, and the other cells that are kept with it.
Entry: TypeAlias = tuple[str, str, str, list[float], str | None]


class Entries(NamedTuple):
    """Ids, texts and labels of items without numbers, and the other cells that are kept with them."""

    ids: Sequence[str]
    texts: Sequence[str]
    labels: Sequence[str]
    details: list[str | None]


@dataclass
class Items:
    """What a file holds: `labels` are its own words ("" = none), `y` is int8 +1, -1 or 0 = unknown.

    Where each word is a class, `classes` are their names in order and `y` is 1..K or 0 = unknown.
    `vectors` is (items, features) float64, sparse or dense, beside texts dense or None; `columns` are those that were
    asked for or guessed. `details` are the cells of `columns.details` as they are stored, None where there are no such.
    """

    ids: list[str]
    texts: list[str] | None
    vectors: sparse.csr_array | np.ndarray | None
    feature_names: list[str]
    labels: list[str]
    y: np.ndarray
    skipped: Skipped
    classes: tuple[str, ...] = ()
    columns: Columns = field(default_factory=Columns)
    said: dict[str, Any] = field(default_factory=dict)  # how the file was read, see `spoken`
    details: list[str | None] | None = None

    def take(self, some: np.ndarray) -> Items:
        """Some of the items, in their order."""
        ids, labels = ([each[k] for k in some.tolist()] for each in (self.ids, self.labels))
        texts = self.texts and [self.texts[k] for k in some.tolist()]
        vectors = None if self.vectors is None else self.vectors[some]
        kept = self.details and [self.details[k] for k in some.tolist()]
        return replace(self, ids=ids, texts=texts, vectors=vectors, labels=labels, y=self.y[some], details=kept)

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


def stop_where_unread(items: Items, source: Source, reader: str) -> None:
    """DataError where so many lines cannot be read that the file is probably something else."""
    unread = {reason: came for reason, came in items.skipped.items() if reason in UNREADABLE}
    count, total = sum(count for count, _ in unread.values()), len(items.ids)
    total += sum(count for count, _ in items.skipped.values())
    if count > UNREAD and 100 * count > source.limits.broken * total:
        raise DataError(
            f"{count:,} of {total:,} lines of {source.name} cannot be read as {reader} ({reasons(unread)}): name "
            f"another --reader or --delimiter, or mend the lines ({allow_more('broken')})."
        )


def flat(cells: Cells, lists: bool = True) -> list[float] | str:
    """The numbers of cells, which may be lists, or the reason to skip them."""
    try:
        numbers = [number for cell in cells for number in numbers_in(cell)] if lists else [*map(float, cells)]
        return numbers or NON_NUMERIC
    except (ValueError, TypeError):
        return NON_NUMERIC
    except OverflowError:  # a whole number beyond all floats
        return NON_FINITE


def completed(columns: Columns, parsed: ParsedFile, numeric: tuple[str, ...]) -> Columns:
    """Columns with those that a format names itself, and all that are numeric where no features are named."""
    if parsed.vectors is not None:  # such a format says itself which are its labels and ids
        label, id = (column if column in parsed.columns else None for column in ("label", "id"))
        columns = replace(columns, label=columns.label or label, id=columns.id or id)
    if columns.features is None:
        numbers = tuple(column for column in numeric if column not in (columns.label, columns.id))
        columns = replace(columns, features=() if columns.text or parsed.vectors is not None else numbers)
    return columns


def with_details(columns: Columns, available: list[str], words: Words, name: str) -> Columns:
    """Columns with those that are kept beside them, and those of them that are shown."""
    used = {*columns.text, *(columns.features or ()), columns.label, columns.id}
    kept = columns.details
    if kept is None:
        most = details.MOST if numbers_of(available) is None else None  # what was exported here comes back whole
        kept = details.left((each for each in available if not are_lists(words.get(each, ()))), used, most)
    shown = details.usual(filter(None, kept)) if columns.shown is None else columns.shown
    for column in shown:
        if column not in (*kept, *columns.text):
            among = some(filter(None, kept)) or "none"
            raise DataError(f"{name} keeps no column {column!r} to show with its items; it keeps {among}.")
    return replace(columns, details=kept, shown=shown)


def check_columns(columns: Columns, parsed: ParsedFile, name: str) -> None:
    """DataError where nothing can be imported by these columns."""
    if parsed.vectors is None and not columns.text and not columns.features:
        if numbers_of(parsed.columns) is not None:
            raise DataError(
                f"{name} was exported without its texts or numbers: export it again with them (--texts; on the page "
                "With texts or numbers)."
            )
        raise DataError(f"{name} has no columns of numbers: name its text among {some(parsed.columns)}.")
    if columns.missing not in (None, *MISSING):
        raise DataError(f"missing must be one of {', '.join(MISSING)}. Got {columns.missing}.")
    if columns.multiclass and (columns.positive or columns.contains):
        raise DataError(
            "With multiclass each label word is a class of its own: give no positive words and no contains."
        )
    if columns.headings and not columns.positive:
        raise DataError("MeSH headings need the terms that are positive: give a tree file and a tree number.")
    if (columns.positive or columns.multiclass) and not columns.label:
        what = "Classes" if columns.multiclass else "Positive labels"
        raise DataError(f"{what} need a label column; {name} has {some(parsed.columns) or 'none'}.")


@dataclass
class _Gaps:
    """Cells of features that hold no number: those that there are numbers for, and how often the others came, {column:
    (how often, the first line, its word)}; `kept`: they stay to be filled at the end, else their rows are skipped."""

    fills: dict[str, float]
    kept: bool
    counts: dict[str, tuple[int, int, str]] = field(default_factory=dict)

    def numbers(self, line: int, names: Sequence[str], cells: Cells) -> list[float] | str:
        """The numbers of cells, or the reason to skip them."""
        numbers = []
        for name, cell in zip(names, cells):
            try:
                number = float(cell)
            except (ValueError, TypeError):
                number = nan
            except OverflowError:
                return NON_FINITE
            if isinf(number):
                return NON_FINITE
            if isnan(number) and (number := self.fills.get(name, nan)) is nan:
                if not self.kept:
                    return NON_NUMERIC
                count, first, word = self.counts.get(name, (0, line, word_of(cell).strip()))
                self.counts[name] = count + 1, first, word
            numbers.append(number)
        return numbers


@dataclass
class _Kept:
    """What is kept of rows, {label word: (how often it came, its first line)}, and why others were skipped.

    unique: whether ids must differ; where they were guessed and do not, it becomes False. bounded: whether there is a
    largest number."""

    unique: bool
    guessed: bool
    bounded: bool
    seen: set[str] = field(default_factory=set)
    ids: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    numbers: array[float] = field(default_factory=lambda: array("d"))
    details: list[str | None] = field(default_factory=list)
    rows: array[int] = field(default_factory=lambda: array("q"))
    lines: array[int] = field(default_factory=lambda: array("q"))
    words: Skipped = field(default_factory=dict)
    skipped: Skipped = field(default_factory=dict)

    def add(self, line: int, entry: Entry | str, row: int) -> None:
        """Keep a row, or count why not."""
        if not isinstance(entry, str) and entry[3] and self.bounded and any(abs(each) > LARGEST for each in entry[3]):
            entry = NON_FINITE
        if not isinstance(entry, str) and not self.claim(entry[:1]):
            entry = entry if self.guessed else DUPLICATE
            self.unique = not self.guessed
        if isinstance(entry, str):
            count, first = self.skipped.get(entry, (0, line))
            self.skipped[entry] = count + 1, first
            return
        id, text, label, numbers, details = entry
        self.ids.append(id)
        self.texts.append(text)
        self.labels.append(sys.intern(label))
        self.numbers.extend(numbers)
        self.details.append(details)
        self.rows.append(row)
        self.lines.append(line)
        count, first = self.words.get(label, (0, line))
        self.words[label] = count + 1, first

    def claim(self, ids: Sequence[str]) -> bool:
        """Take ids, if none of them came before or that does not matter; whether they are taken."""
        if not self.unique:
            return True
        new = len({*ids}) == len(ids) and self.seen.isdisjoint(ids)
        if new:
            self.seen.update(ids)
        return new

    def add_all(self, line: int, entries: Entries, row: int) -> None:
        """Keep consecutive rows and lines from these on."""
        count, labels = len(entries.ids), entries.labels
        self.ids += entries.ids
        self.texts += entries.texts
        self.labels += map(sys.intern, labels)
        self.details += entries.details
        self.rows.extend(range(row, row + count))
        self.lines.extend(range(line, line + count))
        first = dict(zip(reversed(labels), range(line + count - 1, line - 1, -1)))
        for label, more in Counter(labels).items():
            before, at = self.words.get(label, (0, first[label]))
            self.words[label] = before + more, at


def collect_items(
    parsed: ParsedFile,
    columns: Columns,
    name: str,
    known: dict[str, int] | None,
    limits: Limits = LIMITS,
    width: int = 0,
) -> Items:
    """Collect the items of a parsed file; rows that cannot be read are counted by their reason."""
    features = list(columns.features or ())
    kept = _Kept(known is None and bool(columns.id), columns.guessed_id, bool(columns.text) or known is not None)
    gaps = _Gaps(columns.fills, known is None and columns.missing != "skip")
    made: Callable[[int], str] = str if known is None else lambda line: ""
    select, rows = Selector(parsed.columns, columns, name, made, width, gaps), 0
    for piece in parsed.rows:
        if isinstance(piece, Block) and (entries := select.texts(piece)) and kept.claim(entries.ids):
            kept.add_all(piece.line, entries, rows)
            rows += len(entries.ids)
        else:
            for line, cells in one_by_one([piece]) if isinstance(piece, Block) else (piece,):
                kept.add(line, select(line, cells), rows)
                rows += not isinstance(cells, str)
        if len(kept.ids) > limits.items:
            limits.check("items", len(kept.ids), name)
    if not kept.ids and known is None:
        raise DataError(f"{name} holds no item that can be imported{_skips(kept.skipped)}.")
    classes = classes_of(kept.words, columns, name) if columns.multiclass else ()
    y_of = meanings(kept.words, columns, classes, name) if known is None else known
    if columns.guessed_id and not kept.unique and known is None:
        columns = replace(columns, id=None)
        kept.ids = [str(line) for line in kept.lines]
    vectors, names = parsed.vectors, features
    if vectors is not None:
        names = [str(number) for number in range(parsed.first, parsed.first + vectors.shape[1])]
        vectors = vectors if len(kept.rows) == vectors.shape[0] else vectors[kept.rows]
    elif names:
        size = len(kept.numbers) // len(kept.rows) if kept.rows else width or len(names)
        vectors = np.frombuffer(kept.numbers).reshape(len(kept.rows), size)
        if known is None and not columns.text:
            vectors, names, columns = _without_gaps(vectors, names, columns, gaps, name)
    return Items(
        kept.ids,
        kept.texts if columns.text else None,
        vectors,
        names,
        kept.labels,
        np.array([y_of.get(label, 0) for label in kept.labels], np.int8),
        kept.skipped,
        classes,
        columns,
        details=kept.details if columns.details else None,
    )


def _without_gaps(
    vectors: np.ndarray, names: list[str], columns: Columns, gaps: _Gaps, name: str
) -> tuple[np.ndarray, list[str], Columns]:
    """Numbers in all cells, as it was chosen: the table, the names of its columns, and the columns with what later
    files are filled with."""
    if gaps.counts and columns.missing is None:
        column, (count, line, word) = max(gaps.counts.items(), key=lambda each: each[1][0])
        others = f" (so has {plural(len(gaps.counts) - 1, 'other column')})" if len(gaps.counts) > 1 else ""
        ways = ", ".join(f"--missing {way} {meaning}" for way, meaning in MISSING.items())
        raise DataError(
            f"Column {column!r} of {name} has {plural(count, 'cell')} without a number, first {word[:40]!r} "
            f"at line {line:,}{others}: say what becomes of them ({ways})."
        )
    if columns.missing == "drop" and gaps.counts:
        kept = [at for at, each in enumerate(names) if each not in gaps.counts]
        if not kept:
            raise DataError(f"All columns of numbers of {name} have cells that hold none: choose another --missing.")
        names = [names[at] for at in kept]
        return np.ascontiguousarray(vectors[:, kept]), names, replace(columns, features=tuple(names))
    if columns.missing not in ("mean", "zero"):
        return vectors, names, columns
    empty = np.isnan(vectors)
    counts = np.maximum(1, (~empty).sum(axis=0))
    fills = np.where(empty, 0, vectors).sum(axis=0) / counts if columns.missing == "mean" else np.zeros(len(names))
    return np.where(empty, fills, vectors), names, replace(columns, fills=dict(zip(names, fills.tolist())))


class Selector:
    """A function (line, cells) -> (id, text, label, numbers, details), or the reason to skip them; `made` makes missing
    ids. width: how many numbers stand beside a text (0: as many as beside the first). gaps: what becomes of cells that
    hold no number where there is no text."""

    def __init__(
        self,
        available: list[str],
        columns: Columns,
        name: str,
        made: Callable[[int], str],
        width: int = 0,
        gaps: _Gaps | None = None,
    ) -> None:
        self.made, self.width, self.gaps = made, width, gaps
        self.features, kept = columns.features or (), columns.details or ()
        for column in (*columns.text, columns.label, columns.id, *self.features, *kept):
            if column is not None and column not in available:
                raise DataError(
                    f"{name} has no column {column!r}; its columns are {some(available) or 'numbers only'}."
                )
        place = {column: at for at, column in enumerate(available)}
        self.text_at, self.features_at = [place[each] for each in columns.text], [place[each] for each in self.features]
        self.details_at = [place[column] if column else None for column in kept]
        self.label_at, self.id_at = (place[column] if column else None for column in (columns.label, columns.id))

    def __call__(self, line: int, cells: Cells | str) -> Entry | str:
        if isinstance(cells, str):
            return cells
        try:
            text = "\n".join([part for at in self.text_at if (part := word_of(cells[at])).strip()])
            id, label = ["" if at is None else word_of(cells[at]).strip() for at in (self.id_at, self.label_at)]
            beside = self._details(cells)
        except RecursionError:  # an object in an object in an object
            return BROKEN
        if self.text_at and not text:
            return EMPTY
        numbers = self._numbers(line, cells) if self.features_at else []
        if isinstance(numbers, str):
            return numbers
        if len(numbers) != (width := self.width or len(numbers)):
            return OTHER_LENGTH
        self.width = width
        if not is_whole(f"{id}{text}{label}"):
            return SURROGATE
        return id or self.made(line), text, label, numbers, beside

    def _numbers(self, line: int, cells: Cells) -> list[float] | str:
        numbers = flat([cells[at] for at in self.features_at], lists=bool(self.text_at))
        if isinstance(numbers, str) or not all(map(isfinite, numbers)):
            if self.text_at or self.gaps is None:
                return numbers if isinstance(numbers, str) else NON_FINITE
            return self.gaps.numbers(line, self.features, [cells[at] for at in self.features_at])
        return numbers

    def _details(self, cells: Cells) -> str | None:
        return details.cells("" if at is None else cells[at] for at in self.details_at) if self.details_at else None

    def texts(self, block: Block) -> Entries | None:
        """The same of the rows of a block, quickly; None where one is to be skipped, or texts are not all."""
        if self.features_at or self.width or not self.text_at:
            return None
        columns = [*zip(*block.rows)]
        texts = columns[self.text_at[0]]
        if len(self.text_at) > 1:
            parts = zip(*(columns[at] for at in self.text_at))
            texts = tuple("\n".join(filter(str.strip, part)) for part in parts)
        none = ("",) * len(texts)
        ids, labels = (none if at is None else [*map(str.strip, columns[at])] for at in (self.id_at, self.label_at))
        if not all(map(str.strip, texts)) or not is_whole("".join(chain(ids, texts, labels))):
            return None
        if not all(ids):
            ids = [id or self.made(line) for line, id in enumerate(ids, block.line)]
        return Entries(ids, texts, labels, [*map(self._details, block.rows)])


def reasons(skipped: Skipped) -> str:
    """Why lines were skipped, {reason: (count, first line)}, in words."""
    return ", ".join(
        f"{plural(count, reason)} ({'first at ' * (count > 1)}line {line:,})"
        for reason, (count, line) in skipped.items()
    )


def _skips(skipped: Skipped) -> str:
    return f"; skipped {sum(count for count, _ in skipped.values()):,}: {reasons(skipped)}" if skipped else ""
