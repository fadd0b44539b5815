"""Files to tables: a reader for each format, whatever the compression and the encoding."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain, islice, pairwise
from math import isnan
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from scipy import sparse

from .tables import HEADS, unguarded

ENCODINGS = ("utf-8", "utf-16", "cp1252", "latin-1", "cp1251", "gb18030", "shift_jis")  # offered; any of Python's works
COMPRESSIONS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
UNREADABLE = (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)
BROKEN, NON_FINITE = "broken line", "non-finite row"  # why a reader skips a row
OHSUMED = {
    ".I": "sequence",
    ".U": "medline_id",
    ".S": "source",
    ".M": "mesh",
    ".T": "title",
    ".P": "publication_type",
    ".W": "abstract",
    ".A": "authors",
}  # tag: column
SAMPLE = 1000  # rows that decide on a header and on the guess of the columns
CHUNK = 5000  # lines parsed at a time, and between two reports of progress

# csv's own limit, 128 kB, cuts long articles; without any, a quote that is never closed would swallow the file.
csv.field_size_limit(max(csv.field_size_limit(), 1 << 24))


class DataError(ValueError):
    """A file that cannot be imported as asked; the message is one sentence for the person who asked."""


class Table(NamedTuple):
    """What a reader makes of a file: rows are (line number, cells), or (line number, reason to skip it).

    `vectors` is None or holds one row for each row with cells, in their order.
    """

    columns: list[str]
    rows: Iterable[tuple[int, Sequence | str]]
    vectors: sparse.csr_array | np.ndarray | None = None


class Source(NamedTuple):
    """An open, decompressed file; `limit` is the number of lines that are wanted, None for all, and `ahead` how many
    rows may be read before the first is given out."""

    binary: BinaryIO
    name: str
    encoding: str
    limit: int | None
    tick: Callable[[], None]
    ahead: int = SAMPLE

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


def live_source(binary: BinaryIO, name: str, reader: str | None = None, encoding: str = "utf-8") -> tuple[str, Source]:
    """The reader for what comes in from a pipe, as asked or by its first line, and its source: a line is given
    out when it is there. A format that cannot be read from its beginning on is taken in whole first."""
    reader = reader_for(name, reader) if reader else _recognised(binary.peek(1).partition(b"\n")[0], name)
    whole = reader in ("parquet", "npy", "npz")
    return reader, Source(io.BytesIO(binary.read()) if whole else binary, name, encoding, None, lambda: None, 1)


@contextmanager
def open_source(path, name, encoding="utf-8", limit=None, progress=None) -> Iterator[Source]:
    """Open a path, or an open binary file and its name, decompressed."""
    name = name_of(path, name)
    decompress = COMPRESSIONS.get(Path(name).suffix.lower(), nullcontext)
    try:
        with nullcontext(path) if hasattr(path, "read") else open(path, "rb") as raw:
            size = raw.seek(0, io.SEEK_END)
            raw.seek(0)
            with decompress(raw) as binary:
                yield Source(binary, name, encoding, limit, lambda: progress and progress(raw.tell(), size))
    except (DataError, BrokenPipeError):  # a pipe is what is written to meanwhile
        raise
    except UNREADABLE as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise DataError(f"{name} cannot be read: {reason.rstrip('. ')}.") from error
    if progress:
        progress(size, size)


def name_of(path, name) -> str:
    """What a file is called in messages: the name given, or the path's."""
    return Path(name or getattr(path, "name", path)).name


# ---- Readers: source -> table


def _csv(source: Source) -> Table:
    lines = source.lines()
    first = next(lines, "")
    return _delimited(chain([first], lines), source.ahead, delimiter=_delimiter(first))


def _delimiter(line: str) -> str:
    return ";" if ";" in line and "," not in line else ","


def _tsv(source: Source) -> Table:
    return _delimited(source.lines(), source.ahead, delimiter="\t", quoting=csv.QUOTE_NONE)


def _delimited(lines: Iterable[str], ahead: int, **dialect) -> Table:
    records = _records(csv.reader(lines, strict=True, **dialect))
    sample = list(islice(records, ahead))
    good = [at for at, (_, cells) in enumerate(sample) if cells != BROKEN]
    if not good:
        return Table([], sample)
    first, *rest = (sample[at][1] for at in good)
    columns = [f"c{number}" for number in range(1, len(first) + 1)]
    if _is_header(first, rest):
        del sample[good[0]]
        columns = [cell if cell and cell not in first[:at] else columns[at] for at, cell in enumerate(first)]
    rows = chain(sample, records)
    if tuple(columns[:5]) in HEADS:
        rows = ((line, cells if cells == BROKEN else unguarded(cells)) for line, cells in rows)
    return Table(columns, ((line, cells if len(cells) == len(columns) else BROKEN) for line, cells in rows))


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
    if any(not is_number(cell) and below and all(map(is_number, below)) for cell, below in columns):
        return True
    numbers = [float(cell) for cell in first if is_number(cell)]
    # Numbers are names only where they count on beside words, as years do and the columns of a data frame.
    counting = 1 < len(numbers) < len(first) and all(after - before == 1 for before, after in pairwise(numbers))
    return (not numbers or counting) and not any(cell in below for cell, below in columns if not is_number(cell))


def is_number(cell: str) -> bool:
    """Whether a cell is written as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _jsonl(source: Source) -> Table:
    records = ((number, record(line)) for number, line in enumerate(source.lines(), 1) if not line.isspace())
    sample = list(islice(records, source.ahead))
    columns = list(dict.fromkeys(key for _, found in sample if found for key in found))
    return Table(
        columns,
        (
            (number, BROKEN if found is None else [found.get(column) for column in columns])
            for number, found in chain(sample, records)
        ),
    )


def record(line: str) -> dict | None:
    """The object of a line of JSON, None where it holds none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _txt(source: Source) -> Table:
    return Table(["text"], ((number, [line.rstrip("\r\n")]) for number, line in enumerate(source.lines(), 1)))


def _ohsumed(source: Source) -> Table:
    """The records of the TREC-9 filtering track (Hersh et al. 1994): `.I 1`, then tags, each before its value."""
    return Table(list(OHSUMED.values()), ((line, _tagged(record)) for line, record in _ohsumed_records(source.lines())))


def _ohsumed_records(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    start, record = 1, []
    for number, line in enumerate(map(str.strip, lines), 1):
        if record and line.split(maxsplit=1)[:1] == [".I"]:
            yield start, record
            record = []
        if line:
            start = start if record else number
            record.append(line)
    if record:
        yield start, record


def _tagged(record: list[str]) -> list[str] | str:
    """The cells of a record; it is broken where no number opens it, or a tag comes twice."""
    values, value = {}, None
    for line in record:
        tag, *rest = line.split(maxsplit=1)
        if tag in values or (tag not in OHSUMED and value is None):
            return BROKEN
        if tag in OHSUMED:
            values[tag] = value = rest
        else:
            value.append(line)
    cells = [" ".join(values.get(tag, ())) for tag in OHSUMED]
    return cells if cells[0].isdigit() else BROKEN


def mesh_terms(tree, number: str, *, name: str | None = None) -> tuple[str, ...]:
    """The descriptors at a MeSH tree number or below it, from a file (a path, or an open one and its name) of lines
    `descriptor;tree number`, in their order there."""
    above = number.strip(" .").upper() + "."
    with open_source(tree, name) as source:
        entries = (line.strip().rpartition(";") for line in source.lines())
        found = dict.fromkeys(term for term, _, place in entries if term and f"{place}.".startswith(above))
    if not found:
        raise DataError(
            f"{name_of(tree, name)} has no tree number {number!r}: its lines must be such as Heart Diseases;C14.280."
        )
    return tuple(found)


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
            raise DataError(f"{source.name} must have an array X; it has {some(arrays) or 'none'}.")
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


def _looks_ohsumed(lines: list[str]) -> bool:
    return re.fullmatch(r"\.I\s+\d+\s*", lines[0]) is not None and any(line.startswith(".U") for line in lines)


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
    "jsonl": Reader((".jsonl", ".ndjson"), lambda head, lines: all(map(record, lines)), _jsonl),
    "ohsumed": Reader((".ohsumed",), lambda head, lines: _looks_ohsumed(lines), _ohsumed),
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
    suffixes = [suffix for suffix in map(str.lower, Path(name_of(path, name)).suffixes) if suffix not in COMPRESSIONS]
    for known, spec in READERS.items():
        if suffixes and suffixes[-1] in spec.suffixes:
            return known
    with open_source(path, name) as source:
        return _recognised(source.binary.read(1 << 16), name_of(path, name))


def _recognised(head: bytes, name: str) -> str:
    """The first reader that knows the first bytes of a file."""
    encoding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    lines = [line for line in head.decode(encoding, "replace").splitlines() if line.strip()][:50]
    lines = lines[:-1] or lines  # the last may be cut
    for known, spec in READERS.items():
        if lines and spec.recognises(head, lines):
            return known
    raise DataError(f"{name} is {'in no known format' if lines else 'empty'}; the readers are {', '.join(READERS)}.")


def word_of(cell) -> str:
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
