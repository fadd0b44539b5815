"""Preview the first rows of a file, and describe how it is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

from scipy import sparse

from .codings import Codings
from .columns import Columns
from .delimited import DELIMITERS
from .file import TWICE, description, parse
from .guesses import (
    are_lists,
    coded_columns,
    gaps_of,
    guess_columns,
    numeric_columns,
    possible_labels,
    several_labels,
)
from .labels import CLASSES, are_clear, label_parts
from .parsed import Doubt, cell_text, name_list, plural
from .readers import BINARY, reader_for
from .sources import SAMPLE_ROWS, DataError, FileOrPath, NotDecoded, Opening, open_source

LARGE_COUNT, LINES_PER_MINUTE = 200_000, 1_500_000  # number of lines that takes long to import; speed of an import
LAYOUT = (
    "member", "files", "sheet", "encoding", "delimiter", "decimals", "header", "paragraphs", "ignored"
)  # parts of the layout, in this order  # fmt: skip
MAX_LABEL_WORDS, LABEL_WORD_CHARACTERS = 50, 60  # of a column whose words are offered as labels


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
    pairs: tuple[str, ...] = ()  # columns whose words could be labels, if none is named like a label
    coded: Codings = MappingProxyType({})  # columns of words that can become numbers, such as categories

    @property
    def doubtful(self) -> bool:
        """Whether the user must answer a question before the file can be imported with the guessed roles."""
        gaps = self.gaps.keys() & set(self.guess.features or ())
        return bool(self.doubts or self.pairs or self.unclear or self.guess.label in self.several or gaps)

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
        for doubt in self.doubts:
            raise DataError(doubt.question)
        if self.pairs and not named:
            raise DataError(
                f"The label could be in the column {name_list(self.pairs, 8)}: say which column holds it "
                f"(--label {self.pairs[0]!r}), or that there are no labels (--label '')."
            )
        if label and label in self.several and contains is None:
            raise DataError(
                f"Cells of the column {label!r} hold several labels, such as {self.several[label]!r}: say whether each "
                "of them counts (--contains) or the whole cell is one label (--no-contains)."
            )


def peek(path: FileOrPath, rows: int = 20, counted_lines: int = 0, **options: Any) -> Peek:
    """Read the first rows of a file (a path, or an open binary file), and guess its columns.

    counted_lines: number of lines in which label words are counted (0: only in the first SAMPLE_ROWS).
    options: fields of `Opening`.
    """
    opening = Opening(**options)
    try:
        with open_source(path, opening) as source:
            if reader_for(source, opening.reader) not in BINARY:
                source.check_encoding()
        head = _peek(path, rows, opening)
    except NotDecoded as error:
        if not error.excerpts:
            raise
        opening = replace(opening, encoding=next(iter(error.excerpts)))
        head = _peek(path, rows, opening)
        doubt = Doubt("encoding", str(error), (*error.excerpts,), (*error.excerpts.values(),))
        head = head._replace(doubts=(doubt, *head.doubts))
    return head if head.whole or not counted_lines else _with_more_counts(path, head, opening, counted_lines)


def _with_more_counts(path: FileOrPath, head: Peek, opening: Opening, lines: int) -> Peek:
    """Count the label words in more lines, because the first lines of a file sorted by label have only one label."""
    counts = {column: Counter[str]() for column in head.columns if column in {*head.label_words, *head.part_words}}
    with parse(path, opening, limit=lines) as (_, _, parsed, _):
        places, rows = [(parsed.columns.index(column), each) for column, each in counts.items()], 0
        for rows, (_, cells) in enumerate(parsed.rows, 1):  # noqa: B007
            for at, each in places if not isinstance(cells, str) else ():
                each[cell_text(cells[at]).strip()] += 1
    label_words = {column: _most_frequent_first(each) for column, each in counts.items() if len(each) <= CLASSES[-1]}
    part_words = {
        column: _most_frequent_first(Counter(label_parts(each.elements())))
        for column, each in counts.items()
        if column in head.part_words
    }
    guess, unclear = head.guess, head.unclear
    if guess.label in counts:
        unclear = not are_clear([*counts[guess.label]], guess)
    return head._replace(label_words=label_words, part_words=part_words, whole=rows < lines - 1, unclear=unclear)


def _peek(path: FileOrPath, rows: int, opening: Opening) -> Peek:
    with parse(path, opening, limit=SAMPLE_ROWS) as (_, reader, parsed, words):
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
        again = parsed.repeated.get(guess.label or "")
        called_alike = (guess.label, again) if guess.label and again else ()
        guess = replace(guess, label=None) if called_alike else guess
        numeric = numeric if parsed.vectors is None else ()  # numbers in vectors have no columns
        codings = coded_columns(words, numeric) if parsed.vectors is None else {}
        numbers = {column: codings.get(column) for column in (*numeric, *codings) if codings.get(column) != ()}
        gaps = {column: gap for column, coding in numbers.items() if (gap := gaps_of(words[column], coding))}
        unclear = guess.label is not None and not are_clear(words[guess.label], guess)
        label_pairs = possible_labels(words, guess) if parsed.vectors is None and guess.label is None else ()
        label_pairs = called_alike or label_pairs
        label_words = _counts_by_column({column: words[column] for column in words if column not in guess.text})
        part_words = _counts_by_column({column: label_parts(words[column]) for column in several})
        return Peek(
            reader, parsed.columns, preview, guess, numeric, lists, dict(parsed.detected), parsed.doubts, several, gaps,
            label_words, part_words, len(next(iter(words.values()), ())) < SAMPLE_ROWS, unclear, label_pairs, codings,
        )  # fmt: skip


def _counts_by_column(columns: Mapping[str, Iterable[str]]) -> dict[str, dict[str, int]]:
    """Count the words of each column, the most frequent first. Columns with more than MAX_LABEL_WORDS different words,
    or with long words, are left out."""
    counts = {column: Counter(map(str.strip, words)) for column, words in columns.items()}
    return {
        column: _most_frequent_first(each)
        for column, each in counts.items()
        if len(each) <= MAX_LABEL_WORDS and all(len(word) <= LABEL_WORD_CHARACTERS for word in each)
    }


def _most_frequent_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def size_sentence(path: FileOrPath, **options: Any) -> str:
    """Write a sentence about a large file: how many lines, or rows of Parquet, it has, and how long an import takes.

    Return "" for a small file, and for binary formats other than Parquet. options: fields of `Opening`.
    """
    opening = Opening(**options)
    with open_source(path, opening) as source:
        reader = reader_for(source, opening.reader)
        if reader == "parquet":
            from pyarrow import parquet

            kind, count = "row", parquet.read_metadata(source.whole()[0]).num_rows
        elif reader in BINARY:
            return ""
        else:
            kind, count = "line", sum(block.count(b"\n") for block in iter(partial(source.binary.read, 2**20), b""))
    if count < LARGE_COUNT:
        return ""
    minutes = count / LINES_PER_MINUTE
    time = f"about {plural(round(minutes), 'minute')}" if minutes >= 0.5 else "less than half a minute"
    return f"{source.name} has {plural(count, kind)}; the import takes {time}."


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
