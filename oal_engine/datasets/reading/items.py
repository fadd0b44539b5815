"""Turn parsed rows into items, and report why rows were skipped."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, isinf, isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...output.tables import numbers_of
from ..block_files import Strings, strings, take
from . import details
from .codings import MAX_WORDS, Coder, expanded, feature_names
from .guesses import Words, are_lists, coded_columns, numbers_in
from .labels import classes_of, later_meanings, meanings
from .parsed import (
    BROKEN,
    NON_FINITE,
    UNCLOSED,
    Cells,
    Columns,
    ParsedFile,
    Skipped,
    cell_text,
    counted,
    is_number,
    is_whole,
    name_list,
    plural,
    text_of,
)
from .sources import LIMITS, DataError, Limits, Source, allow_more

if TYPE_CHECKING:
    from scipy import sparse

EMPTY, DUPLICATE, NON_NUMERIC, SURROGATE = "empty text", "duplicate id", "non-numeric row", "half a character"
OVERLONG, OTHER_LENGTH = "overlong line", "other-length vector"
LARGEST_NUMBER = 1e150  # of an appended vector: rows are scaled by the sum of squares, which must stay finite
UNREADABLE = {BROKEN, UNCLOSED, NON_NUMERIC, OTHER_LENGTH}  # reasons that suggest a wrong format
UNREADABLE_LINES = 10  # up to this many unreadable lines do not stop an import
MISSING = {
    "mean": "takes the mean of the column",
    "zero": "takes 0",
    "skip": "leaves the rows out",
    "drop": "leaves the columns out",
}  # treatments of feature cells without a number


class Item(NamedTuple):
    """One item of a file. `details` are the further cells that are stored with it, as JSON."""

    id: str
    text: str
    label: str
    numbers: list[float]
    details: str | None


@dataclass
class Items:
    """The items of a file.

    `labels` are the label words of the file ("": no label). `y` is int8: +1, -1 or 0 = unknown; if each word is a
    class, `classes` are the class names in order and `y` is 1..K or 0 = unknown. `vectors` is float64 of shape (items,
    features), sparse or dense; for texts it is dense or None. `columns` are the requested or guessed roles. `details`
    are the cells of `columns.details` as stored (None: there are no such columns).
    """

    ids: Strings
    texts: Strings | None
    vectors: sparse.csr_array | np.ndarray | None
    feature_names: list[str]
    labels: Strings
    y: np.ndarray
    skipped: Skipped
    classes: tuple[str, ...] = ()
    columns: Columns = field(default_factory=Columns)
    description: dict[str, Any] = field(default_factory=dict)  # how the file was read, see `file.description`
    details: Strings | None = None
    n_unknown: int = 0  # cells of categories with a word that the import of the data set did not have

    def take(self, positions: np.ndarray) -> Items:
        """Return the items at these positions, in order."""
        places = positions.tolist()
        return replace(
            self,
            ids=take(self.ids, places),
            texts=self.texts and take(self.texts, places),
            vectors=None if self.vectors is None else self.vectors[positions],
            labels=take(self.labels, places),
            y=self.y[positions],
            details=self.details and take(self.details, places),
        )

    def counts(self) -> dict[str, int]:
        """Count the items of each class."""
        return dict(zip(self.classes, np.bincount(self.y, minlength=len(self.classes) + 1)[1:].tolist()))

    def report(self) -> str:
        """Summarize the read and skipped lines in a sentence."""
        items, unknown = plural(len(self.ids), "item"), (self.y == 0).sum()
        if self.classes:
            unlabelled = f" ({unknown:,} unlabelled)" if unknown else ""
            largest = counted(self.counts(), 6)
            return f"{items}{unlabelled} in {len(self.classes)} classes: {largest}{_skips(self.skipped)}."
        signs = {"positive": (self.y > 0).sum(), "negative": (self.y < 0).sum(), "unlabelled": unknown}
        classes = ", ".join(f"{count:,} {name}" for name, count in signs.items() if count or name != "unlabelled")
        return f"{items} ({classes if self.y.any() else 'no labels'}){_skips(self.skipped)}."


def refuse_unreadable(items: Items, source: Source, reader: str) -> None:
    """Raise DataError if the share of unreadable lines suggests that the file has another format."""
    unreadable = {reason: counts for reason, counts in items.skipped.items() if reason in UNREADABLE}
    n_unreadable = sum(count for count, _ in unreadable.values())
    n_lines = len(items.ids) + sum(count for count, _ in items.skipped.values())
    if n_unreadable > UNREADABLE_LINES and 100 * n_unreadable > source.limits.broken * n_lines:
        raise DataError(
            f"{n_unreadable:,} of {n_lines:,} lines of {source.name} cannot be read as {reader} "
            f"({reasons(unreadable)}): name another --reader or --delimiter, or mend the lines "
            f"({allow_more('broken')})."
        )


def flat(cells: Cells, lists: bool = True) -> list[float] | str:
    """Parse the cells of a row as numbers, or return the reason to skip the row. lists: cells may hold lists."""
    try:
        numbers = [number for cell in cells for number in numbers_in(cell)] if lists else [*map(float, cells)]
        return numbers or NON_NUMERIC
    except (ValueError, TypeError):
        return NON_NUMERIC
    except OverflowError:  # an integer too large for a float
        return NON_FINITE


def completed(columns: Columns, parsed: ParsedFile, words: Words, numeric: tuple[str, ...]) -> Columns:
    """Complete the columns: for a format that stores vectors, add its columns `label` and `id`. In a table without
    texts, add the codings of the features; if no features are named, use all columns that are or can become numbers."""
    if parsed.vectors is not None:  # such a format names these columns itself
        label, id = (column if column in parsed.columns else None for column in ("label", "id"))
        columns = replace(columns, label=columns.label or label, id=columns.id or id)
    if columns.text or parsed.vectors is not None:
        return replace(columns, features=columns.features or ())
    codings = coded_columns(words, numeric)
    if columns.features is None:
        used = (column for column in parsed.columns if column in numeric or column in codings)
        features = tuple(column for column in used if column not in (columns.label, columns.id))
        columns = replace(columns, features=features)
    named = [column for column in columns.features or () if column in words and column not in numeric]
    few = [column for column in named if len({*words[column]}) <= MAX_WORDS and not any(map(is_number, words[column]))]
    coded = (column for column in named if column in codings or column in few)
    return replace(columns, codings={column: codings.get(column, ()) for column in coded})


def with_details(columns: Columns, available: list[str], words: Words, name: str) -> Columns:
    """Choose the detail columns, and which of them are shown, unless they are named already. Raise DataError if a
    column to show is not stored."""
    used = {*columns.text, *(columns.features or ()), columns.label, columns.id}
    if (stored := columns.details) is None:
        limit = details.MAX_COLUMNS if numbers_of(available) is None else None  # an export keeps all its columns
        unlisted = (column for column in available if not are_lists(words.get(column, ())))
        stored = details.unused_columns(unlisted, used, limit)
    if (shown_columns := columns.shown_columns) is None:
        shown_columns = details.usually_shown(filter(None, stored), words)
    for column in shown_columns:
        if column not in (*stored, *columns.text):
            names = name_list(filter(None, stored)) or "none"
            raise DataError(f"{name} keeps no column {column!r} to show with its items; it keeps {names}.")
    return replace(columns, details=stored, shown_columns=shown_columns)


def check_columns(columns: Columns, parsed: ParsedFile, name: str) -> None:
    """Raise DataError if nothing can be imported with these columns, or their roles contradict each other."""
    if parsed.vectors is None and not columns.text and not columns.features:
        if numbers_of(parsed.columns) is not None:
            raise DataError(
                f"{name} was exported without its texts or numbers: export it again with them (--texts; on the page "
                "With texts or numbers)."
            )
        raise DataError(f"{name} has no columns of numbers: name its text (--text) among {name_list(parsed.columns)}.")
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
        raise DataError(f"{what} need a label column (--label); {name} has {name_list(parsed.columns) or 'none'}.")


@dataclass
class _MissingNumbers:
    """Impute cells without a number in feature columns.

    Such a cell takes the number in `fills` for its column. If there is none, the row is skipped or, with `kept_as_nan`,
    the cell is NaN until all rows are read. `counts` describes the NaN cells: {column: (count, first line, its word)}.
    """

    fills: dict[str, float]
    kept_as_nan: bool
    counts: dict[str, tuple[int, int, str]] = field(default_factory=dict)

    def numbers(self, line: int, names: Sequence[str], cells: Cells) -> list[float] | str:
        """Parse the cells of a row in the columns `names` as numbers, or return the reason to skip the row."""
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
                if not self.kept_as_nan:
                    return NON_NUMERIC
                count, first, word = self.counts.get(name, (0, line, cell_text(cell).strip()))
                self.counts[name] = count + 1, first, word
            numbers.append(number)
        return numbers

    def solve(self, vectors: np.ndarray, columns: Columns, name: str) -> tuple[np.ndarray, Columns]:
        """Fill the NaN cells or drop their columns, as `columns.missing` says. Return the vectors, and the columns with
        the fills for later files. Raise DataError if there are NaN cells and `columns.missing` is not set."""
        names = columns.features or ()
        if self.counts and columns.missing is None:
            column, (count, line, word) = max(self.counts.items(), key=lambda each: each[1][0])
            others = f" (so has {plural(len(self.counts) - 1, 'other column')})" if len(self.counts) > 1 else ""
            ways = ", ".join(f"--missing {way} {meaning}" for way, meaning in MISSING.items())
            raise DataError(
                f"Column {column!r} of {name} has {plural(count, 'cell')} without a number, first {word[:40]!r} "
                f"at line {line:,}{others}: say what becomes of them ({ways})."
            )
        if columns.missing == "drop" and self.counts:
            if not (complete := [at for at, column in enumerate(names) if column not in self.counts]):
                raise DataError(
                    f"All columns of numbers of {name} have cells without a number: choose another --missing."
                )
            features = tuple(names[at] for at in complete)
            return np.ascontiguousarray(vectors[:, complete]), replace(columns, features=features)
        if columns.missing not in ("mean", "zero"):
            return vectors, columns
        empty = np.isnan(vectors)
        counts = np.maximum(1, (~empty).sum(axis=0))
        fills = np.where(empty, 0, vectors).sum(axis=0) / counts if columns.missing == "mean" else np.zeros(len(names))
        return np.where(empty, fills, vectors), replace(columns, fills=dict(zip(names, fills.tolist())))


@dataclass
class _Collector:
    """Collect items column by column, and count the skipped rows.

    unique_ids: ids must be unique; it becomes False if a guessed id column has repeated ids. bounded: numbers must be
    at most LARGEST_NUMBER. rows: indices of the items among the readable rows. words: {label word: (count, first
    line)}. keeps_details: items have details. folder: holds temporary files with the strings (None: kept in memory).
    """

    unique_ids: bool
    guessed_id: bool
    bounded: bool
    keeps_details: bool
    folder: Path | None = None
    seen_ids: set[str] = field(default_factory=set)
    numbers: array[float] = field(default_factory=lambda: array("d"))
    rows: array[int] = field(default_factory=lambda: array("q"))
    lines: array[int] = field(default_factory=lambda: array("q"))
    words: Skipped = field(default_factory=dict)
    skipped: Skipped = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ids, self.texts, self.labels, self.details = (strings(self.folder) for _ in range(4))

    def add(self, line: int, item: Item | str, row: int) -> None:
        """Store an item, or count the reason why its row is skipped."""
        if not isinstance(item, str) and self.bounded and any(abs(number) > LARGEST_NUMBER for number in item.numbers):
            item = NON_FINITE
        if not isinstance(item, str) and self.unique_ids:
            if item.id not in self.seen_ids:
                self.seen_ids.add(item.id)
            elif self.guessed_id:
                self.unique_ids = False
            else:
                item = DUPLICATE
        if isinstance(item, str):
            count, first = self.skipped.get(item, (0, line))
            self.skipped[item] = count + 1, first
            return
        self.ids.append(item.id)
        self.texts.append(item.text)
        self.labels.append(sys.intern(item.label))
        self.numbers.extend(item.numbers)
        if self.keeps_details:
            self.details.append(item.details)
        self.rows.append(row)
        self.lines.append(line)
        count, first = self.words.get(item.label, (0, line))
        self.words[item.label] = count + 1, first


def collect_items(
    parsed: ParsedFile,
    columns: Columns,
    name: str,
    label_values: dict[str, int] | None,
    limits: Limits = LIMITS,
    width: int = 0,
    folder: Path | None = None,
) -> Items:
    """Turn the rows of a parsed file into items, and count the skipped rows by reason. A row may already be an `Item`.

    label_values, width and folder: as in `file.read`.
    """
    is_import, names = label_values is None, list(columns.features or ())
    unique_ids, bounded = is_import and bool(columns.id), bool(columns.text) or not is_import
    collected = _Collector(unique_ids, "id" in columns.guessed, bounded, bool(columns.details), folder)
    missing = _MissingNumbers(columns.fills, is_import and columns.missing != "skip")
    coder = Coder(columns.features or (), columns.codings, is_import)
    build = ItemBuilder(parsed.columns, columns, name, str if is_import else lambda line: "", width, missing, coder)
    row = 0
    for line, cells in parsed.rows:
        collected.add(line, cells if isinstance(cells, Item) else build(line, cells), row)
        row += not isinstance(cells, str)
    if not collected.ids and is_import:
        raise DataError(f"{name} holds no item that can be imported{_skips(collected.skipped)}.")
    classes = classes_of(collected.words, columns, name) if columns.multiclass else ()
    if label_values is None:
        y_of = meanings(collected.words, columns, classes, name)
    else:
        y_of = later_meanings(collected.words, columns, label_values)
    if "id" in columns.guessed and not collected.unique_ids and is_import:
        columns = replace(columns, id=None)
        collected.ids = strings(folder, map(str, collected.lines))
    if (vectors := parsed.vectors) is not None:
        names = [str(number) for number in range(parsed.first, parsed.first + vectors.shape[1])]
        vectors = vectors if len(collected.rows) == vectors.shape[0] else vectors[collected.rows]
    elif names:
        size = len(collected.numbers) // len(collected.rows) if collected.rows else width or len(names)
        vectors = np.frombuffer(collected.numbers).reshape(len(collected.rows), size)
        if is_import and not columns.text:
            vectors, codings = coder.finished(vectors)
            vectors, columns = missing.solve(vectors, replace(columns, codings=codings), name)
        if columns.codings:
            names = feature_names(columns.features or (), columns.codings)
            limits.check("features", len(names), name)
            vectors = expanded(vectors, columns.features or (), columns.codings)
        elif is_import:
            names = list(columns.features or ())
    return Items(
        collected.ids,
        collected.texts if columns.text else None,
        vectors,
        names,
        collected.labels,
        np.fromiter((y_of.get(label, 0) for label in collected.labels), np.int8, len(collected.labels)),
        collected.skipped,
        classes,
        columns,
        details=collected.details if collected.keeps_details else None,
        n_unknown=coder.n_unknown,
    )


def check_present(columns: Iterable[str | None], available: Collection[str], name: str) -> None:
    """Raise DataError if a file has no column of one of these names."""
    for column in columns:
        if column is not None and column not in available:
            names = name_list(available) or "numbers only"
            raise DataError(f"{name} has no column {column!r}; its columns are {names}.")


class ItemBuilder:
    """Build an item from the cells of a row, or tell why the row is skipped.

    make_id: makes an id from the line number of a row that has no id. width: length of the vector of a text
    (0: as long as the first one). missing: imputes cells without a number in a file without texts (None: such rows are
    skipped). coder: encodes the words of a table without texts as numbers.
    """

    def __init__(
        self,
        available: list[str],
        columns: Columns,
        name: str,
        make_id: Callable[[int], str] = str,
        width: int = 0,
        missing: _MissingNumbers | None = None,
        coder: Coder | None = None,
    ) -> None:
        self.make_id, self.width, self.missing, self.coder = make_id, width, missing, coder
        self.features, detail_columns = columns.features or (), columns.details or ()
        check_present((*columns.text, columns.label, columns.id, *self.features, *detail_columns), available, name)
        place = {column: at for at, column in enumerate(available)}
        self.text_at, self.features_at = [place[each] for each in columns.text], [place[each] for each in self.features]
        self.details_at = [place[column] if column else None for column in detail_columns]
        self.label_at, self.id_at = (place[column] if column else None for column in (columns.label, columns.id))

    def __call__(self, line: int, cells: Cells | str) -> Item | str:
        if isinstance(cells, str):
            return cells
        try:
            text = "\n".join([part for at in self.text_at if (part := text_of(cells[at])).strip()])
            id, label = ["" if at is None else cell_text(cells[at]).strip() for at in (self.id_at, self.label_at)]
            stored = details.cells("" if at is None else cells[at] for at in self.details_at)
        except RecursionError:  # deeply nested objects
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
        return Item(id or self.make_id(line), text, label, numbers, stored)

    def _numbers(self, line: int, cells: Cells) -> list[float] | str:
        features: Cells = [cells[at] for at in self.features_at]
        if self.coder and not self.text_at:
            features = self.coder([*features])
        numbers = flat(features, lists=bool(self.text_at))
        if not isinstance(numbers, str) and all(map(isfinite, numbers)):
            return numbers
        if self.text_at or self.missing is None:
            return numbers if isinstance(numbers, str) else NON_FINITE
        return self.missing.numbers(line, self.features, features)


def reasons(skipped: Skipped) -> str:
    """List the reasons why lines were skipped, each with its count and its first line."""
    return ", ".join(
        f"{plural(count, reason)} ({'first at ' * (count > 1)}line {line:,})"
        for reason, (count, line) in skipped.items()
    )


def _skips(skipped: Skipped) -> str:
    return f"; skipped {sum(count for count, _ in skipped.values()):,}: {reasons(skipped)}" if skipped else ""
