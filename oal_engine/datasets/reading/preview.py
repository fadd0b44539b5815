"""Preview the first rows of a file, and describe how it is read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from .codings import Codings
from .delimited import DELIMITERS
from .file import TWICE, cell_words, description, parse
from .guesses import (
    Words,
    are_lists,
    are_scores,
    coded_columns,
    gaps_of,
    guess_columns,
    is_made,
    numeric_columns,
    possible_labels,
    several_labels,
)
from .items import Items, check_present
from .labels import CLASSES, are_clear, label_parts
from .parsed import Cells, Columns, Doubt, ParsedFile, cell_text, is_number, name_list, plural
from .readers import BINARY, reader_for
from .sources import SAMPLE_ROWS, DataError, FileOrPath, NotDecoded, Opening, open_source

LARGE_COUNT, LINES_PER_MINUTE = 200_000, 1_500_000  # number of lines that takes long to import; speed of an import
LONG_MINUTES = 2  # of encoding that are said before an import
MOST_ENCODED = 150_000  # texts of a file that are encoded by default: more could need over 2 GB of memory
USUAL_CHARACTERS, ENCODED_CHARACTERS = 100, 1_000  # of a text in Parquet, and at most of an encoded text
LAYOUT = (
    "member", "files", "sheet", "encoding", "delimiter", "decimals", "header", "paragraphs", "ignored"
)  # parts of the layout, in this order  # fmt: skip
MAX_LABEL_WORDS, LABEL_WORD_CHARACTERS = 50, 60  # of a column whose words are offered as labels
SURVEYED_ROWS, MOST_COUNTED = 100, 200  # rows that are counted at a time; columns whose words are counted
PERSON, MODEL, IGNORE = "labels that a person gave", "labels that a model made (audit them)", "ignore"
SHOWN_ITEMS, SHOWN_NUMBERS = 3, 12  # how many first items are shown, and how many numbers of one
VECTORS = ("svmlight", "npy", "npz")  # formats in which every column has its role already


class Peek(NamedTuple):
    """The first rows of a file as words, and the guessed roles of its columns."""

    reader: str
    columns: list[str]
    rows: list[dict[str, str]]
    guess: Columns
    numeric: tuple[str, ...]
    lists: tuple[str, ...] = ()  # columns whose cells are lists of numbers, all of the same length
    detected: Mapping[str, str] = MappingProxyType({})  # the layout, by option
    doubts: tuple[Doubt, ...] = ()
    several: Mapping[str, str] = MappingProxyType({})  # {column: an example of a cell with several labels}
    gaps: Mapping[str, str] = MappingProxyType({})  # {numeric column: its cells that are not numbers}
    label_words: Mapping[str, Mapping[str, int]] = MappingProxyType({})  # {possible label column: counts of its words}
    part_words: Mapping[str, Mapping[str, int]] = MappingProxyType({})  # {column in `several`: counts of single labels}
    whole: bool = True  # whether all rows were counted
    unclear: bool = False  # whether the label words have no obvious meaning
    pairs: tuple[str, ...] = ()  # columns whose words could be labels, if it is not clear which of them is the label
    model_column: str | None = None  # the likeliest label column, if a model seems to have made it
    coded: Codings = MappingProxyType({})  # columns of words that can become numbers, such as categories

    @property
    def doubtful(self) -> bool:
        """Whether the user must answer a question before the file can be imported with the guessed roles."""
        gaps = self.gaps.keys() & set(self.guess.features or ())
        return bool(self.doubts or self.label_doubt or self.unclear or self.guess.label in self.several or gaps)

    @property
    def label_doubt(self) -> Doubt | None:
        """The question which column holds the labels, or who made them; None if that is clear."""
        if column := self.model_column:
            question = f"{column}: {PERSON} (--label {column!r}), {MODEL} (--label ''), or {IGNORE} (--label '')?"
            return Doubt("made", question, (PERSON, MODEL, IGNORE))
        if not self.pairs:
            return None
        question = (
            f"The label could be in the column {name_list(self.pairs, 8)}: say which column holds it "
            f"(--label {self.pairs[0]!r}), or that there are no labels (--label '')."
        )
        return Doubt("label", question, self.pairs)

    @property
    def description(self) -> dict[str, Any]:
        """A description of how the file is read if the guessed roles are right, for `layout_sentence`."""
        features = self.guess.features or ()
        codings = {column: self.coded[column] for column in features if column in self.coded}
        guess = replace(self.guess, codings=codings)
        described = description(self.reader, self.detected, self.columns, guess, len(features))
        return described | {"left_out": [], "kept": described["left_out"] if features and not guess.text else []}

    def settle(self, label: str | None, contains: bool | None, *, named: bool = False) -> None:
        """Raise DataError if the user must still choose the layout; the label column, unless it was `named`; or, if
        cells of `label` hold several labels, whether each label counts (`contains`)."""
        doubts = (*self.doubts, None if named else self.label_doubt)
        for doubt in filter(None, doubts):
            raise DataError(doubt.question)
        if label and label in self.several and contains is None:
            raise DataError(
                f"Cells of the column {label!r} hold several labels, such as {self.several[label]!r}: say whether each "
                "of them counts (--contains) or the whole cell is one label (--no-contains)."
            )


def peek(
    path: FileOrPath,
    rows: int = 20,
    lines: int | None = None,
    named: Mapping[str, Any] = MappingProxyType({}),
    **options: Any,
) -> Peek:
    """Read a file (a path, or an open binary file), guess its columns, and return its first rows.

    lines: number of lines to look at (None: all). named: roles that the user named, as for `guess_columns`. options:
    fields of `Opening`.
    """
    opening = Opening(**options)
    try:
        with open_source(path, opening) as source:
            reader = reader_for(source, opening.reader)
            if reader not in BINARY:
                source.check_encoding()
        if reader in VECTORS:
            lines = lines or SAMPLE_ROWS
        return _peek(path, rows, lines, named, opening)
    except NotDecoded as error:
        if not error.excerpts:
            raise
        opening = replace(opening, encoding=next(iter(error.excerpts)))
        head = _peek(path, rows, lines, named, opening)
        doubt = Doubt("encoding", str(error), (*error.excerpts,), (*error.excerpts.values(),))
        return head._replace(doubts=(doubt, *head.doubts))


def _peek(path: FileOrPath, rows: int, lines: int | None, named: Mapping[str, Any], opening: Opening) -> Peek:
    with parse(path, opening, limit=lines) as (source, reader, parsed, words):
        roles = (*named.get("text", ()), named.get("label"), named.get("id"), *named.get("features", ()))
        check_present(roles, parsed.columns, source.name)
        preview = [dict(zip(words, cells)) for cells in islice(zip(*words.values()), rows)]
        if parsed.vectors is not None:
            preview = preview or [{} for _ in range(min(rows, parsed.vectors.shape[0]))]
            for at, row in enumerate(preview):
                vector = _dense(parsed.vectors, at)
                filled = np.flatnonzero(vector)[:12]
                pairs = zip(filled + parsed.first, vector[filled])
                row["features"] = " ".join(f"{number}:{value:g}" for number, value in pairs)
        lists = tuple(column for column, cells in words.items() if are_lists(cells))
        several = {column: cell for column, cells in words.items() if (cell := several_labels(cells))}
        counts, parts, words, whole = _survey(parsed, words, several, lines)
        several |= {column: cell for column, cells in words.items() if (cell := several_labels(cells))}
        parts |= {column: Counter(label_parts(counts[column].elements())) for column in several if column in counts}
        numeric = numeric_columns(words)
        guess = guess_columns(words, numeric, named)
        again = parsed.repeated.get(guess.label or "")
        called_alike = (guess.label, again) if guess.label and again else ()
        label_pairs = called_alike or (possible_labels(words, guess) if parsed.vectors is None else ())
        label_pairs = label_pairs if "label" not in named else ()
        label_pairs = tuple(column for column in label_pairs if not is_made(column)) or label_pairs
        guess = replace(guess, label=None) if label_pairs and guess.label else guess
        likeliest = next(filter(None, (*label_pairs, guess.label)), None)
        is_asked = "label" not in named and likeliest and (is_made(likeliest) or are_scores(words[likeliest]))
        numeric = numeric if parsed.vectors is None else ()  # numbers in vectors have no columns
        codings = coded_columns(words, numeric) if parsed.vectors is None else {}
        numbers = {column: codings.get(column) for column in (*numeric, *codings) if codings.get(column) != ()}
        gaps = {column: gap for column, coding in numbers.items() if (gap := gaps_of(words[column], coding))}
        unclear = guess.label is not None and not are_clear([*counts.get(guess.label, words[guess.label])], guess)
        label_words = _shown_counts({column: each for column, each in counts.items() if column not in guess.text})
        return Peek(
            reader, parsed.columns, preview, guess, numeric, lists, dict(parsed.detected), parsed.doubts, several, gaps,
            label_words, _shown_counts(parts), whole, unclear, label_pairs, likeliest if is_asked else None, codings,
        )  # fmt: skip


def _shown_counts(counts: Mapping[str, Counter[str]]) -> dict[str, dict[str, int]]:
    """Sort the counts of each column, the most frequent word first. Columns with long words are left out."""
    return {
        column: dict(sorted(each.items(), key=lambda pair: (-pair[1], pair[0])))
        for column, each in counts.items()
        if all(len(word) <= LABEL_WORD_CHARACTERS for word in each)
    }


def _survey(
    parsed: ParsedFile, words: Words, several: Collection[str], lines: int | None
) -> tuple[dict[str, Counter[str]], dict[str, Counter[str]], Words, bool]:
    """Pass the rows of a file, because the first rows of a file that is sorted or merged do not show the others.

    Return for each column of few words their counts; for each column whose cells hold several labels the counts of
    these; the first rows, and later ones with a new word; and whether all rows were counted.
    """
    few = [column for column, cells in words.items() if len({*cells}) <= MAX_LABEL_WORDS]
    numbers = {*numeric_columns(words)} - {*few}
    counts = {column: Counter[str]() for column in (*few, *numbers)}
    parts = {column: Counter[str]() for column in several}
    if len(counts) > MOST_COUNTED:
        counts = {column: counts[column] for column in (*few[: MOST_COUNTED // 2], *few[-MOST_COUNTED // 2 :])}
    places = {column: at for at, column in enumerate(parsed.columns) if column in counts or column in parts}
    rows, later, n_rows, n_good = islice(parsed.rows, lines), list[Cells](), 0, 0
    first = len(next(iter(words.values()), ()))
    while chunk := [*islice(rows, SURVEYED_ROWS)]:
        good, new = [cells for _, cells in chunk if not isinstance(cells, str)], set[int]()
        for column, at in places.items():
            cells = [cell_text(row[at]).strip() for row in good]
            if column in parts:
                parts[column].update(label_parts(cells))
            if column in numbers:  # only words are news
                cells = ["0" if is_number(cell) else cell for cell in cells]
            if column in counts:
                new |= {cells.index(word) for word in {*cells} - counts[column].keys()}
                counts[column].update(cells)
        later += [good[k] for k in sorted(new) if n_good + k >= first]
        n_rows, n_good = n_rows + len(chunk), n_good + len(good)
        counts = {column: each for column, each in counts.items() if len(each) <= CLASSES[-1]}
    sample = [cell_words(cells) for cells in later[:SAMPLE_ROWS]]
    words = {column: (*cells, *(row[at] for row in sample)) for at, (column, cells) in enumerate(words.items())}
    counts = {column: counts[column] for column in few if column in counts}
    return counts, parts, words, lines is None or n_rows < lines - 1


def size_sentence(path: FileOrPath, seconds: float = 0.0, **options: Any) -> str:
    """Write a sentence about a large file: how many lines, or rows of Parquet, it has, and how long an import takes.

    Return "" for a small file, and for binary formats other than Parquet. seconds: processor time of the encoder for a
    thousand characters, 0 without. options: fields of `Opening`.
    """
    opening = Opening(**options)
    with open_source(path, opening) as source:
        reader = reader_for(source, opening.reader)
        if reader == "parquet":
            from pyarrow import parquet

            kind, count = "row", parquet.read_metadata(source.whole()).num_rows
            characters = count * USUAL_CHARACTERS
        elif reader in BINARY:
            return ""
        else:
            kind, count, characters = "line", 0, 0
            for block in iter(partial(source.binary.read, 2**20), b""):
                count, characters = count + block.count(b"\n"), characters + len(block)
    encoding = min(characters, count * ENCODED_CHARACTERS) / 1000 * seconds / 60 * (count <= MOST_ENCODED)
    if count < LARGE_COUNT and encoding < LONG_MINUTES:
        return ""
    minutes = encoding + count / LINES_PER_MINUTE
    time = f"about {plural(round(minutes), 'minute')}" if minutes >= 0.5 else "less than half a minute"
    meaning = ", mostly to encode the texts (the features rich+latent do without)" if encoding > 1 else ""
    return f"{source.name} has {plural(count, kind)}; the import takes {time}{meaning}."


def layout_sentence(description: Mapping[str, Any]) -> str:
    """Write a sentence about how a file is read. description: the result of `file.description`."""
    layout = {key: DELIMITERS.get(description[key], description[key]) for key in LAYOUT if key in description}
    details = ", ".join(f"{key} {word}" for key, word in layout.items())
    parts = [f"Read as {description['reader']}{f' ({details})' if details else ''}"]
    if description["text"]:
        parts.append(f"texts in {' + '.join(description['text'])}")
    if description["numbers"]:
        parts.append(plural(description["numbers"], "column") + " of numbers")
    if n_words := len(description["words"]):
        features = plural(description["features"] - description["numbers"], "feature")
        parts.append(f"{plural(n_words, 'column')} of words, which are {features}")
    parts.append(f"labels in {description['label']}" if description["label"] else "no labels")
    parts.append(f"ids in {description['id']}" if description["id"] else "lines are numbered")
    if description["kept"]:
        names = name_list(description["kept"], 8)
        is_table = description["features"] and not description["text"]
        parts.append(f"not learned from: {names} (--feature chooses)" if is_table else f"kept with the items: {names}")
    if description["left_out"]:
        parts.append(f"left out: {name_list(description['left_out'], 8)}")
    twice = f" Some words seem to be encoded twice, such as {description[TWICE]}." if TWICE in description else ""
    return "; ".join(parts) + "." + twice


class FirstItem(NamedTuple):
    """An item as it will be imported. meaning: positive, negative, a class or "" (no label). fields: {column: cell}."""

    text: str
    label: str
    meaning: str
    fields: dict[str, str]


def shown_items(items: Items, classes: Sequence[str]) -> list[FirstItem]:
    """Choose a few of the first items to show on a page, with different labels if possible."""
    different = [int(np.argmax(items.y == value)) for value in sorted({*items.y.tolist()}, key=lambda y: (y == 0, -y))]
    places = list(dict.fromkeys([*different[:SHOWN_ITEMS], *range(len(items.ids))]))[:SHOWN_ITEMS]
    return [_first_item(items, place, classes) for place in sorted(places)]


def _dense(vectors: Any, place: int) -> np.ndarray:
    """Return a row of sparse or dense vectors."""
    row = vectors[[place]]
    return np.ravel(row.toarray() if hasattr(row, "toarray") else row)


def _first_item(items: Items, place: int, classes: Sequence[str]) -> FirstItem:
    y, names = int(items.y[place]), items.columns.details or ()
    meanings = ("", *classes) if classes else ("", "positive", "negative")  # y = -1 takes the last one
    cells = json.loads((items.details and items.details[place]) or "[]")
    fields = {name: cell_text(cell) for name, cell in zip(names, cells) if name}
    if items.vectors is not None:
        row = _dense(items.vectors, place)
        places = range(len(row)) if len(row) <= SHOWN_NUMBERS else np.flatnonzero(row)[:SHOWN_NUMBERS].tolist()
        fields = {items.feature_names[at]: f"{row[at]:g}" for at in places} | fields
    return FirstItem(items.texts[place] if items.texts else "", items.labels[place], meanings[y], fields)
