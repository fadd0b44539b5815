"""Files to items: a reader for each format, and the one rule that turns label words into -1 and +1."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import sys
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise
from math import isfinite, isnan
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from scipy import sparse

ENCODINGS = ("utf-8", "utf-16", "cp1252", "latin-1", "cp1251", "gb18030", "shift_jis")  # offered; any of Python's works
COMPRESSIONS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
UNREADABLE = (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)
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
BROKEN, EMPTY, DUPLICATE = "broken line", "empty text", "duplicate id"
NON_NUMERIC, NON_FINITE = "non-numeric row", "non-finite row"
TEXT_NAMES = r"text|tweet|message|content|sentence|body|document|comment|review|post"
LABEL_NAMES = r"(is_)?(label|class|target|y|categor(y|ies)|topics?|tags?|concepts?|sentiment|relevant|included)(_.*)?"
SAMPLE = 1000  # rows that decide on a header and on the guess of the columns
CHUNK = 5000  # lines parsed at a time, and between two reports of progress

# csv's own limit, 128 kB, cuts long articles; without any, a quote that is never closed would swallow the file.
csv.field_size_limit(max(csv.field_size_limit(), 1 << 24))


class DataError(ValueError):
    """A file that cannot be imported as asked; the message is one sentence for the person who asked."""


@dataclass(frozen=True)
class Columns:
    """Which columns hold what, and which label words are positive.

    `text` columns are joined by a newline; `features` are numbers (None: every numeric column where there is no text).
    With `contains` a cell such as `exercise|food` is a set, cut at | ; and , of which one must be positive: an empty
    one is negative. Without it an empty label is unknown.
    """

    text: tuple[str, ...] = ()
    label: str | None = None
    id: str | None = None
    features: tuple[str, ...] | None = None
    positive: tuple[str, ...] = ()
    contains: bool = False


@dataclass
class Items:
    """What a file holds: `labels` are its own words ("" = none), `y` is int8 +1, -1 or 0 = unknown.

    `vectors` is (items, features) float64, sparse or dense; `skipped` maps a reason to (count, first line number).
    """

    ids: list[str]
    texts: list[str] | None
    vectors: sparse.csr_array | np.ndarray | None
    feature_names: list[str]
    labels: list[str]
    y: np.ndarray
    skipped: dict[str, tuple[int, int]]

    def report(self) -> str:
        """One sentence on what was read and what was skipped."""
        signs = {"positive": (self.y > 0).sum(), "negative": (self.y < 0).sum(), "unlabelled": (self.y == 0).sum()}
        classes = ", ".join(f"{count:,} {name}" for name, count in signs.items() if count or name != "unlabelled")
        return f"{_plural(len(self.ids), 'item')} ({classes if self.y.any() else 'no labels'}){_skips(self.skipped)}."


class Peek(NamedTuple):
    """The first rows of a file as words, and what its columns seem to be."""

    reader: str
    columns: list[str]
    rows: list[dict[str, str]]
    guess: Columns
    numeric: tuple[str, ...]


class Table(NamedTuple):
    """What a reader makes of a file: rows are (line number, cells), or (line number, reason to skip it).

    `vectors` is None or holds one row for each row with cells, in their order.
    """

    columns: list[str]
    rows: Iterable[tuple[int, Sequence | str]]
    vectors: sparse.csr_array | np.ndarray | None = None


class Source(NamedTuple):
    """An open, decompressed file; `limit` is the number of lines that are wanted, None for all."""

    binary: BinaryIO
    name: str
    encoding: str
    limit: int | None
    tick: Callable[[], None]

    def lines(self) -> Iterator[str]:
        """The lines with their ends as they stand in the file."""
        encoding, done = "utf-8-sig" if self.encoding == "utf-8" else self.encoding, 0
        try:
            text = io.TextIOWrapper(self.binary, encoding, newline="")
        except LookupError:
            raise DataError(f"There is no encoding {encoding!r}; choose from {', '.join(ENCODINGS)}.") from None
        try:
            for done, line in enumerate(islice(text, self.limit), 1):
                if done % CHUNK == 0:
                    self.tick()
                yield line
        except UnicodeError as error:  # it comes for a whole block, of which no line was yielded yet
            good = error.object[: error.start] if isinstance(error, UnicodeDecodeError) else b""
            number = done + 1 + good.decode(encoding, "ignore").count("\n")
            raise DataError(
                f"Line {number} of {self.name} is not {self.encoding}: choose the encoding of the file, "
                f"such as {', '.join(ENCODINGS)}."
            ) from error
        finally:
            if not self.binary.closed:
                text.detach()  # or the wrapper would close an upload, which is not ours


@contextmanager
def _open(path, name, encoding="utf-8", limit=None, progress=None) -> Iterator[Source]:
    name = _name(path, name)
    decompress = COMPRESSIONS.get(Path(name).suffix.lower(), nullcontext)
    try:
        with nullcontext(path) if hasattr(path, "read") else open(path, "rb") as raw:
            size = raw.seek(0, io.SEEK_END)
            raw.seek(0)
            with decompress(raw) as binary:
                yield Source(binary, name, encoding, limit, lambda: progress and progress(raw.tell(), size))
    except DataError:
        raise
    except UNREADABLE as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise DataError(f"{name} cannot be read: {reason.rstrip('. ')}.") from error
    if progress:
        progress(size, size)


def _name(path, name) -> str:
    return Path(name or getattr(path, "name", path)).name


# ---- Readers: source -> table


def _csv(source: Source) -> Table:
    lines = source.lines()
    first = next(lines, "")
    return _delimited(chain([first], lines), delimiter=_delimiter(first))


def _delimiter(line: str) -> str:
    return ";" if ";" in line and "," not in line else ","


def _tsv(source: Source) -> Table:
    return _delimited(source.lines(), delimiter="\t", quoting=csv.QUOTE_NONE)


def _delimited(lines: Iterable[str], **dialect) -> Table:
    records = _records(csv.reader(lines, strict=True, **dialect))
    sample = list(islice(records, SAMPLE))
    good = [at for at, (_, cells) in enumerate(sample) if cells != BROKEN]
    if not good:
        return Table([], sample)
    first, *rest = (sample[at][1] for at in good)
    columns = [f"c{number}" for number in range(1, len(first) + 1)]
    if _is_header(first, rest):
        del sample[good[0]]
        columns = [cell if cell and cell not in first[:at] else columns[at] for at, cell in enumerate(first)]
    return Table(
        columns, ((line, cells if len(cells) == len(columns) else BROKEN) for line, cells in chain(sample, records))
    )


def _records(reader) -> Iterator[tuple[int, list[str] | str]]:
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error:
            cells = BROKEN
        if cells:  # a blank line is no record
            yield line, cells


def _is_header(first: list[str], rest: list[list[str]]) -> bool:
    columns = [(cell, below) for cell, *below in zip(first, *rest)]
    if any(not _is_number(cell) and below and all(map(_is_number, below)) for cell, below in columns):
        return True
    numbers = [float(cell) for cell in first if _is_number(cell)]
    # Numbers are names only where they count on beside words, as years do and the columns of a data frame.
    counting = 1 < len(numbers) < len(first) and all(after - before == 1 for before, after in pairwise(numbers))
    return (not numbers or counting) and not any(cell in below for cell, below in columns if not _is_number(cell))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _jsonl(source: Source) -> Table:
    records = ((number, _record(line)) for number, line in enumerate(source.lines(), 1) if not line.isspace())
    sample = list(islice(records, SAMPLE))
    columns = list(dict.fromkeys(key for _, record in sample if record for key in record))
    return Table(
        columns,
        (
            (number, BROKEN if record is None else [record.get(column) for column in columns])
            for number, record in chain(sample, records)
        ),
    )


def _record(line: str) -> dict | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _txt(source: Source) -> Table:
    return Table(["text"], ((number, [line.rstrip("\r\n")]) for number, line in enumerate(source.lines(), 1)))


def _svmlight(source: Source) -> Table:
    lines = ((number, line) for number, line in enumerate(source.lines(), 1) if line.partition("#")[0].strip())
    matrices, labels, numbers, broken = [sparse.csr_array((0, 0))], [], [], []
    while chunk := list(islice(lines, CHUNK)):
        for matrix, targets, good in _parsed(chunk, broken):
            matrices.append(matrix)
            labels += [[target] for target in targets.tolist()]
            numbers += good
    width = max(matrix.shape[1] for matrix in matrices)
    for matrix in matrices:
        matrix.resize(matrix.shape[0], width)
    return _vectors(sparse.vstack(matrices, format="csr"), ["label"], labels, numbers, broken)


def _parsed(lines: list[tuple[int, str]], broken: list[int]) -> Iterator[tuple]:
    """(matrix, targets, line numbers) of the good lines: a chunk that fails is halved down to its broken lines."""
    from sklearn.datasets import load_svmlight_file

    numbers = [number for number, _ in lines]
    try:
        text = io.BytesIO("\n".join(line for _, line in lines).encode())
        yield *load_svmlight_file(text, zero_based=False), numbers
    except (ValueError, OverflowError):
        if len(lines) == 1:
            broken += numbers
        else:
            half = len(lines) // 2
            yield from chain(_parsed(lines[:half], broken), _parsed(lines[half:], broken))


def _foreign(reader: Callable[[Source], Table]) -> Callable[[Source], Table]:
    def table(source):
        try:
            return reader(source)
        except DataError:
            raise
        except Exception as error:  # the libraries' parsers fail on a damaged file in any way
            raise ValueError(error) from error

    return table


@_foreign
def _npy(source: Source) -> Table:
    return _vectors(np.lib.format.read_array(source.binary, allow_pickle=False))


@_foreign
def _npz(source: Source) -> Table:
    with np.lib.npyio.NpzFile(source.binary, allow_pickle=False) as arrays:
        if {"format", "shape", "data"} <= set(arrays):
            return _vectors(sparse.load_npz(source.binary))
        keys = {"X": ("X", "x"), "label": ("y", "labels"), "id": ("ids",)}
        found = {what: arrays[key] for what, names in keys.items() for key in names if key in arrays}
        if "X" not in found:
            raise DataError(f"{source.name} must have an array X; it has {_some(arrays) or 'none'}.")
        matrix = found.pop("X")
        for what, values in found.items():
            if values.shape != matrix.shape[:1]:
                raise DataError(
                    f"{source.name} needs one {what} for each of the {len(matrix):,} rows of X, not an "
                    f"array of shape {values.shape}."
                )
        return _vectors(matrix, list(found), list(zip(*(values.tolist() for values in found.values()))))


def _vectors(matrix, columns=(), cells=(), lines=(), broken=()) -> Table:
    """The table of a numeric matrix, of which rows with NaN or infinity are left out."""
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise ValueError(f"its array must be a table of numbers, not {matrix.dtype} of shape {matrix.shape}")
    if sparse.issparse(matrix):
        if matrix.format in ("csr", "csc", "bsr"):
            matrix.check_format()  # compiled loops follow every index blindly
        matrix = sparse.csr_array(matrix, dtype=np.float64)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        finite = np.ones(matrix.shape[0], bool)
        finite[np.searchsorted(matrix.indptr, np.flatnonzero(~np.isfinite(matrix.data)), side="right") - 1] = False
    else:
        matrix = matrix.astype(np.float64, order="C", copy=False)
        finite = np.isfinite(matrix).all(axis=1)
    rows = zip(lines or range(1, len(finite) + 1), cells or [()] * len(finite), finite)
    rows = ((line, cell if good else NON_FINITE) for line, cell, good in rows)
    return Table(
        list(columns), chain(rows, ((line, BROKEN) for line in broken)), matrix if finite.all() else matrix[finite]
    )


@_foreign
def _parquet(source: Source) -> Table:
    from pyarrow import parquet

    file = parquet.ParquetFile(source.binary)
    batches = (zip(*(column.to_pylist() for column in batch.columns)) for batch in file.iter_batches(CHUNK))
    return Table(file.schema_arrow.names, enumerate(chain.from_iterable(batches), 1))


def _looks_svmlight(lines: list[str]) -> bool:
    lines = [line.partition("#")[0].strip() for line in lines]
    pattern = re.compile(r"[-+]?[\d.]\S*( +\w+:\S+)*|")
    return any(":" in line for line in lines) and all(map(pattern.fullmatch, lines))


def _looks_delimited(lines: list[str], **dialect) -> bool:
    rows = list(csv.reader(lines, **dialect))
    widths = {len(cells) for cells in rows[:-1] or rows}
    # A comma in prose is followed by a space.
    return len(widths) == 1 and max(widths) > 1 and not any(cell.startswith(" ") for cells in rows for cell in cells)


class Reader(NamedTuple):
    """One format: its suffixes, whether the first bytes and lines of a file look like it, and source -> table."""

    suffixes: tuple[str, ...]
    recognises: Callable[[bytes, list[str]], bool]
    table: Callable[[Source], Table]


# The only list of formats. A file whose suffix says nothing is read by the first that recognises its content.
READERS: dict[str, Reader] = {
    "parquet": Reader((".parquet", ".pq"), lambda head, lines: head.startswith(b"PAR1"), _parquet),
    "npy": Reader((".npy",), lambda head, lines: head.startswith(b"\x93NUMPY"), _npy),
    "npz": Reader((".npz",), lambda head, lines: head.startswith(b"PK\3\4"), _npz),
    "jsonl": Reader((".jsonl", ".ndjson"), lambda head, lines: all(map(_record, lines)), _jsonl),
    "svmlight": Reader((".svmlight", ".libsvm", ".svm"), lambda head, lines: _looks_svmlight(lines), _svmlight),
    "tsv": Reader(
        (".tsv", ".tab"), lambda head, lines: _looks_delimited(lines, delimiter="\t", quoting=csv.QUOTE_NONE), _tsv
    ),
    "csv": Reader((".csv",), lambda head, lines: _looks_delimited(lines, delimiter=_delimiter(lines[0])), _csv),
    "txt": Reader((), lambda head, lines: "\0" not in "".join(lines), _txt),
}


def reader_for(path, reader: str | None = None, *, name: str | None = None) -> str:
    """The name of the reader for a file: as asked, else by its suffix below .gz, .bz2 or .xz, else by its content."""
    if reader in READERS:
        return reader
    if reader is not None:
        raise DataError(f"There is no reader {reader!r}; choose from {', '.join(READERS)}.")
    suffixes = [suffix for suffix in map(str.lower, Path(_name(path, name)).suffixes) if suffix not in COMPRESSIONS]
    for known, spec in READERS.items():
        if suffixes and suffixes[-1] in spec.suffixes:
            return known
    with _open(path, name) as source:
        head = source.binary.read(1 << 16)
    encoding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    lines = [line for line in head.decode(encoding, "replace").splitlines() if line.strip()][:50]
    lines = lines[:-1] or lines  # the last may be cut
    for known, spec in READERS.items():
        if lines and spec.recognises(head, lines):
            return known
    raise DataError(
        f"{_name(path, name)} is {'in no known format' if lines else 'empty'}; the readers are {', '.join(READERS)}."
    )


# ---- Columns: what a table's columns hold


def peek(path, rows: int = 20, *, name: str | None = None, reader: str | None = None, encoding: str = "utf-8") -> Peek:
    """The first rows of a file (a path, or an open binary file and its name) and a guess of its columns."""
    reader = reader_for(path, reader, name=name)
    with _open(path, name, encoding, limit=SAMPLE) as source:
        columns, table_rows, vectors = READERS[reader].table(source)
        sample = [list(map(_word, cells)) for _, cells in islice(table_rows, SAMPLE) if not isinstance(cells, str)]
    if not sample:
        raise DataError(f"{_name(path, name)} has no row that the {reader} reader can read.")
    words = dict(zip(columns, zip(*sample)))
    numeric = tuple(
        column for column, cells in words.items() if any(cells) and all(_is_number(cell or "0") for cell in cells)
    )
    preview = [dict(zip(columns, cells)) for cells in sample[:rows]]
    for at, row in enumerate(preview if vectors is not None else ()):
        values = sparse.coo_array(vectors[[at]])
        row["features"] = " ".join(f"{k + 1}:{value:g}" for k, value in zip(values.col[:12], values.data))
    return Peek(reader, columns, preview, _guess(words, numeric), numeric)


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
        and all(cell.isdigit() or not _is_number(cell) for cell in words[column])
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


# ---- Items: from rows to what is imported


def read(
    path,
    columns: Columns | None = None,
    *,
    name: str | None = None,
    reader: str | None = None,
    encoding: str = "utf-8",
    progress: Callable[[int, int], None] | None = None,
) -> Items:
    """The items of a file (a path, or an open binary file and its name), without those that must be skipped.

    Without `columns` those that `peek` guesses are taken; `progress` gets (bytes done, bytes in all).
    """
    head = peek(path, 0, name=name, reader=reader, encoding=encoding)
    columns = columns or head.guess
    with _open(path, name, encoding, progress=progress) as source:
        table = READERS[head.reader].table(source)
        if table.vectors is not None:  # such a format says itself which are its labels and ids
            label, id = (column if column in table.columns else None for column in ("label", "id"))
            columns = replace(columns, label=columns.label or label, id=columns.id or id)
        if columns.features is None:
            numeric = tuple(column for column in head.numeric if column not in (columns.label, columns.id))
            columns = replace(columns, features=() if columns.text or table.vectors is not None else numeric)
        if table.vectors is None and not columns.text + columns.features:
            raise DataError(f"{source.name} has no columns of numbers: name its text among {_some(table.columns)}.")
        if columns.positive and not columns.label:
            raise DataError(f"Positive labels need a label column; {source.name} has {_some(table.columns) or 'none'}.")
        return _items(table, columns, source.name)


def _items(table: Table, columns: Columns, name: str) -> Items:
    select = _selector(table.columns, columns, name)
    ids, texts, labels, numbers, kept = {}, [], [], array("d"), []
    skipped, words, row = {}, {}, -1
    for line, cells in table.rows:
        item = select(line, cells)
        row += not isinstance(cells, str)
        if not isinstance(item, str) and item[0] in ids:
            item = DUPLICATE
        if isinstance(item, str):
            count, first = skipped.get(item, (0, line))
            skipped[item] = count + 1, first
            continue
        id, text, label, values = item
        ids[id] = None
        texts.append(text)
        labels.append(sys.intern(label))
        numbers.extend(values)
        kept.append(row)
        count, first = words.get(label, (0, line))
        words[label] = count + 1, first
    if not ids:
        raise DataError(f"{name} holds no item that can be imported{_skips(skipped)}.")
    signs = _signs(words, columns, name)
    vectors, names = table.vectors, list(columns.features)
    if vectors is not None:
        names = [str(number) for number in range(1, vectors.shape[1] + 1)]
        vectors = vectors if len(kept) == vectors.shape[0] else vectors[kept]
    elif names:
        vectors = np.frombuffer(numbers).reshape(len(kept), len(names))
    return Items(
        list(ids),
        texts if columns.text else None,
        vectors,
        names,
        labels,
        np.array([signs[label] for label in labels], np.int8),
        skipped,
    )


def _selector(available: list[str], columns: Columns, name: str) -> Callable[[int, Sequence | str], tuple | str]:
    """A function (line, cells) -> (id, text, label, numbers), or the reason to skip them."""
    for column in (*columns.text, columns.label, columns.id, *columns.features):
        if column is not None and column not in available:
            raise DataError(f"{name} has no column {column!r}; its columns are {_some(available) or 'numbers only'}.")
    place = {column: at for at, column in enumerate(available)}
    text_at, features_at = [place[column] for column in columns.text], [place[column] for column in columns.features]
    label_at, id_at = place.get(columns.label), place.get(columns.id)

    def select(line, cells):
        if isinstance(cells, str):
            return cells
        text = "\n".join(part for at in text_at if (part := _word(cells[at])).strip())
        if text_at and not text:
            return EMPTY
        try:
            numbers = [float(cells[at]) for at in features_at]
        except (ValueError, TypeError):
            return NON_NUMERIC
        if not all(map(isfinite, numbers)):
            return NON_FINITE
        id, label = ("" if at is None else _word(cells[at]).strip() for at in (id_at, label_at))
        return id or str(line), text, label, numbers

    return select


def _signs(words: dict[str, tuple[int, int]], columns: Columns, name: str) -> dict[str, int]:
    """The label rule: +1, -1 or 0 for each label word, given its (count, first line)."""
    known = {word: count for word, (count, _) in words.items() if word}
    listed = _some(f"{word} ({known[word]:,})" for word in sorted(known, key=known.get, reverse=True))
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
                f"Column {columns.label!r} of {name} holds the labels {listed}{mixed}: name those that are positive."
            )
        pairs = fitting
    return {"": 0} | {word: 1 if _plain(word) == pairs[0][0] else -1 for word in known}


def _plain(word: str) -> str:
    """A label word without regard to case, or to how a number is written."""
    return _word(float(word)) if _is_number(word) else word.strip().casefold()


def _word(cell) -> str:
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
            return "|".join(map(_word, cell))
        case dict():
            return json.dumps(cell, ensure_ascii=False, default=str)
    return str(cell)


def _some(names: Iterable[str], most: int = 20) -> str:
    names = [" ".join(name.split())[:60] for name in names]
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _skips(skipped: dict[str, tuple[int, int]]) -> str:
    reasons = [
        f"{_plural(count, reason)} ({'first at ' * (count > 1)}line {line:,})"
        for reason, (count, line) in skipped.items()
    ]
    return f"; skipped {sum(count for count, _ in skipped.values()):,}: {', '.join(reasons)}" if reasons else ""
