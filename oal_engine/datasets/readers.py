"""Files to rows: a reader for each format, whatever the compression and the encoding."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from math import isnan, prod
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, TypeAlias, TypeVar, cast
from zipfile import ZipFile

import numpy as np
from scipy import sparse

from ..output.tables import HEADS, unguarded
from .sources import (
    CHUNK,
    COMPRESSIONS,
    HARMLESS,
    LIMITS,
    DataError,
    FileOrPath,
    Limits,
    Source,
    allow_more,
    name_of,
    open_source,
    text_of,
)

T = TypeVar("T", bound=tuple[Any, ...])
BROKEN, NON_FINITE, UNCLOSED = "broken line", "non-finite row", "unclosed-quote line"  # why a reader skips a row
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
WEIGHT = 2**24  # about so many bytes of rows are held at once


Cells: TypeAlias = Sequence[Any]
Line: TypeAlias = tuple[int, Cells | str]  # its number, and its cells or the reason to skip it


class ParsedFile(NamedTuple):
    """What a reader makes of a file. `vectors` is None or holds one row for each row with cells, in their order."""

    columns: list[str]
    rows: Iterable[Line]
    vectors: sparse.csr_array | np.ndarray | None = None


def live_source(
    binary: BinaryIO, name: str, reader: str | None = None, encoding: str = "utf-8", limits: Limits = LIMITS
) -> tuple[str, Source]:
    """The reader for what comes in from a pipe, as asked or by its first line, and its source: a line is given
    out when it is there. A format that cannot be read from its beginning on is taken in whole first."""
    if reader:
        check_reader(reader)
    else:
        reader = _recognised(cast(io.BufferedReader, binary).peek(1).partition(b"\n")[0], name, encoding)
    if reader in ("parquet", "npy", "npz"):
        taken = binary.read(limits.size + 1)
        limits.check("size", len(taken), name)
        binary = io.BytesIO(taken)
    return reader, Source(binary, name, encoding, None, lambda: None, 1, limits)


def first_rows(rows: Iterator[T], most: int) -> list[T]:
    """The first rows, or lines: so many at most, fewer where they are large."""
    taken, weight = [], 0
    for row in islice(rows, most):
        taken.append(row)
        weight += len(row[1]) if isinstance(row[1], str) else sum(8 + len(cell) for cell in row[1])
        if weight > WEIGHT:
            break
    return taken


# ---- Readers: from a source to a parsed file


def _csv(source: Source, **dialect: Any) -> ParsedFile:
    # To look ahead, whole rows are taken: where only so many lines were, the last row would seem to be cut.
    lines = source._replace(limit=None).lines()
    first = next(lines, "")
    return _delimited(source, chain([first], lines), delimiter=_delimiter(first), **dialect)


def _delimiter(line: str) -> str:
    return ";" if ";" in line and "," not in line else ","


def _unquoted(source: Source) -> ParsedFile:
    return _csv(source, quoting=csv.QUOTE_NONE)


def _tsv(source: Source) -> ParsedFile:
    return _delimited(source, source.lines(), delimiter="\t", quoting=csv.QUOTE_NONE)


def _delimited(source: Source, lines: Iterable[str], **dialect: Any) -> ParsedFile:
    # csv's own limit, 128 kB, cuts long articles.
    csv.field_size_limit(max(csv.field_size_limit(), source.limits.line))
    records = _records(source, lines, dialect)
    sample = first_rows(records, source.ahead)
    good = [cells for _, cells in sample if not isinstance(cells, str)]
    if not good:
        return ParsedFile([], chain(sample, records))
    first, *rest = good
    source.limits.check("columns", len(first), source.name)
    columns = [f"c{number}" for number in range(1, len(first) + 1)]
    if _is_header(first, rest):
        del sample[next(at for at, (_, cells) in enumerate(sample) if cells is first)]
        named = dict(zip(reversed(first), reversed(range(len(first)))))  # where each name comes first
        columns = [cell if cell and named[cell] == at else columns[at] for at, cell in enumerate(first)]
    rows: Iterable[tuple[int, list[str] | str]] = chain(sample, records)
    if tuple(columns[:5]) in HEADS:
        rows = ((line, cells if isinstance(cells, str) else unguarded(cells)) for line, cells in rows)
    return ParsedFile(
        columns,
        ((line, cells if isinstance(cells, str) or len(cells) == len(columns) else BROKEN) for line, cells in rows),
    )


def _records(source: Source, lines: Iterable[str], dialect: dict[str, Any]) -> Iterator[tuple[int, list[str] | str]]:
    """The cells of each row with the number of its first line; what an unclosed quote swallows is no row."""
    taken: list[str] = []  # the lines of the row at hand
    width = 0

    def watched() -> Iterator[str]:
        length, most = 0, source.limits.line
        for line in lines:
            length = length + len(line) if taken else len(line)
            taken.append(line)
            if length > most:
                stop_swallowing(cut=True)
                source.limits.check("line", length, f"The row at line {at:,} of {source.name}")
            yield line

    def stop_swallowing(cut: bool) -> None:
        """DataError where the rows that a quote swallowed are rows by themselves."""
        below = len(taken) - 1
        cells = width or _width(taken[0], dialect)
        if below > source.limits.quoted and (cut or cells > 1):
            rows = sum(_width(line, dialect) == cells for line in taken[1:])
            if rows >= 0.9 * below:
                raise DataError(
                    f"Line {at:,} of {source.name} opens a quote that swallows the next {below:,} lines, which look "
                    "like rows: close it, or read the file in the format csv-unquoted, where a quote is a character "
                    f"like any other ({allow_more('quoted')})."
                )

    reader, at = csv.reader(watched(), strict=True, **dialect), 1
    while True:
        taken.clear()
        at = reader.line_num + 1
        try:
            cells: list[str] | str = next(reader)
        except StopIteration:
            return
        except csv.Error:
            cells = BROKEN
        if len(taken) > 1:
            stop_swallowing(cut=cells == BROKEN)
            if cells == BROKEN:
                yield from ((at, UNCLOSED) for _ in taken)
                continue
        if cells:  # a blank line is no record
            width = width or (0 if cells == BROKEN else len(cells))
            yield at, cells


def _width(line: str, dialect: dict[str, Any]) -> int:
    """How many cells a line has by itself, 0 where it has none."""
    return len(next(csv.reader([line], **dialect), ()))


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


def _jsonl(source: Source) -> ParsedFile:
    lines = ((number, line) for number, line in enumerate(source.lines(), 1) if not line.isspace())
    sample = first_rows(lines, source.ahead)
    columns: dict[str, None] = {}
    for _, line in sample:
        columns |= dict.fromkeys(filter(is_whole, record(line) or ()))
        source.limits.check("columns", len(columns), source.name)
    records = ((number, record(line)) for number, line in chain(sample, lines))
    return ParsedFile(
        list(columns),
        ((number, BROKEN if cells is None else [cells.get(column) for column in columns]) for number, cells in records),
    )


def is_whole(text: str) -> bool:
    """Whether no character of a text is a half of one."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def record(line: str) -> dict[str, Any] | None:
    """The object of a line of JSON, None where it holds none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _txt(source: Source) -> ParsedFile:
    return ParsedFile(["text"], ((number, [line.rstrip("\r\n")]) for number, line in enumerate(source.lines(), 1)))


def _ohsumed(source: Source) -> ParsedFile:
    """The records of the TREC-9 filtering track (Hersh et al. 1994): `.I 1`, then tags, each before its value."""
    return ParsedFile(
        list(OHSUMED.values()), ((line, _tagged(record)) for line, record in _ohsumed_records(source.lines()))
    )


def _ohsumed_records(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    start = 1
    record: list[str] = []
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
    values: dict[str, list[str]] = {}
    value: list[str] | None = None
    for line in record:
        tag, *rest = line.split(maxsplit=1)
        if tag in values or (tag not in OHSUMED and value is None):
            return BROKEN
        if tag in OHSUMED:
            values[tag] = value = rest
        elif value is not None:
            value.append(line)
    cells = [" ".join(values.get(tag, ())) for tag in OHSUMED]
    return cells if cells[0].isdigit() else BROKEN


def mesh_terms(tree: FileOrPath, number: str, *, name: str | None = None, limits: Limits = LIMITS) -> tuple[str, ...]:
    """The descriptors at a MeSH tree number or below it, from a file (a path, or an open one and its name) of lines
    `descriptor;tree number`, in their order there."""
    above = number.strip(" .").upper() + "."
    with open_source(tree, name, limits=limits) as source:
        entries = (line.strip().rpartition(";") for line in source.lines())
        terms = dict.fromkeys(term for term, _, place in entries if term and f"{place}.".startswith(above))
    if not terms:
        raise DataError(
            f"{name_of(tree, name)} has no tree number {number!r}: its lines must be such as Heart Diseases;C14.280."
        )
    return tuple(terms)


def _svmlight(source: Source) -> ParsedFile:
    lines = ((number, line) for number, line in enumerate(source.lines(), 1) if line.partition("#")[0].strip())
    matrices: list[Any] = [sparse.csr_array((0, 0))]
    labels: list[list[float]] = []
    numbers: list[int] = []
    broken: list[int] = []
    limits = source.limits
    while chunk := first_rows(lines, CHUNK):
        for matrix, targets, good in _parsed(chunk, broken):
            if matrix.shape[1] > limits.features:
                row = np.searchsorted(matrix.indptr, np.argmax(matrix.indices), "right") - 1
                limits.check("features", matrix.shape[1], f"Line {good[row]:,} of {source.name}")
            matrices.append(matrix)
            labels += [[target] for target in targets.tolist()]
            numbers += good
        limits.check("items", len(labels) + len(broken), source.name)
    width = max(matrix.shape[1] for matrix in matrices)
    for matrix in matrices:
        matrix.resize(matrix.shape[0], width)
    return _vectors(source, sparse.vstack(matrices, format="csr"), ["label"], labels, numbers, broken)


def _parsed(lines: list[tuple[int, str]], broken: list[int]) -> Iterator[tuple[Any, ...]]:
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


def _foreign(reader: Callable[[Source], ParsedFile]) -> Callable[[Source], ParsedFile]:
    def parse(source: Source) -> ParsedFile:
        try:
            return reader(source)
        except (DataError, MemoryError):
            raise
        except Exception as error:  # the libraries' parsers fail on a damaged file in any way
            raise ValueError(error) from error

    return parse


@_foreign
def _npy(source: Source) -> ParsedFile:
    binary = source.whole()
    start = binary.tell()
    _declared(source, binary, binary.seek(0, io.SEEK_END))
    binary.seek(start)
    return _vectors(source, np.lib.format.read_array(binary, allow_pickle=False))


def _declared(source: Source, array: IO[bytes], size: int) -> None:
    """DataError where an open .npy file says that it holds more numbers than are allowed, or than it can."""
    array.seek(0)
    version = np.lib.format.read_magic(array)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(array)
    source.limits.check("size", prod(shape) * max(8, dtype.itemsize), source.name)
    if not dtype.hasobject and prod(shape) * dtype.itemsize > size - array.tell():
        raise ValueError(f"it is cut: its header tells of an array of shape {shape}")


@_foreign
def _npz(source: Source) -> ParsedFile:
    binary = source.whole()
    packed = binary.seek(0, io.SEEK_END)
    with np.lib.npyio.NpzFile(binary, allow_pickle=False) as arrays:
        archive = cast(ZipFile, arrays.zip)
        _unpacks_to(source, sum(member.file_size for member in archive.infolist()), packed)
        for member in archive.infolist():
            if member.filename.endswith(".npy"):
                with archive.open(member) as array:
                    _declared(source, array, member.file_size)
        if {"format", "shape", "data"} <= set(arrays):
            _fits(source, arrays["shape"].tolist())
            return _vectors(source, sparse.load_npz(binary))
        keys = {"X": ("X", "x"), "label": ("y", "labels"), "id": ("ids",)}
        named = {what: arrays[key] for what, names in keys.items() for key in names if key in arrays}
        if "X" not in named:
            raise DataError(f"{source.name} must have an array X; it has {some(arrays) or 'none'}.")
        matrix = named.pop("X")
        for what, values in named.items():
            if values.shape != matrix.shape[:1]:
                raise DataError(
                    f"{source.name} needs one {what} for each of the {len(matrix):,} rows of X, not an "
                    f"array of shape {values.shape}."
                )
        return _vectors(source, matrix, list(named), list(zip(*(values.tolist() for values in named.values()))))


def _unpacks_to(source: Source, size: int, packed: int) -> None:
    """DataError where a file tells of more bytes than are allowed."""
    source.limits.check("size", size, source.name)
    if size > HARMLESS:
        source.limits.check("ratio", size / packed, source.name)


def _fits(source: Source, shape: Sequence[int]) -> None:
    for limit, size in zip(("items", "features"), shape):
        source.limits.check(limit, size, source.name)


def _vectors(
    source: Source,
    matrix: Any,
    columns: Sequence[str] = (),
    cells: Sequence[Cells] = (),
    lines: Sequence[int] = (),
    broken: Sequence[int] = (),
) -> ParsedFile:
    """The table of a numeric matrix, of which rows with NaN or infinity are left out."""
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise ValueError(f"its array must be a table of numbers, not {matrix.dtype} of shape {matrix.shape}")
    _fits(source, matrix.shape)
    if hasattr(matrix, "tocsr"):
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
    all_rows = zip(lines or range(1, len(finite) + 1), cells or [()] * len(finite), finite)
    rows: Iterator[Line] = ((line, cell if good else NON_FINITE) for line, cell, good in all_rows)
    return ParsedFile(
        list(columns), chain(rows, ((line, BROKEN) for line in broken)), matrix if finite.all() else matrix[finite]
    )


@_foreign
def _parquet(source: Source) -> ParsedFile:
    import pyarrow
    from pyarrow import parquet

    binary = source.whole()
    packed = binary.seek(0, io.SEEK_END)
    metadata = parquet.read_metadata(binary)
    source.limits.check("columns", metadata.num_columns, source.name)
    source.limits.check("items", metadata.num_rows, source.name)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    _unpacks_to(source, sum(group.total_byte_size for group in groups), packed)
    # What a list holds beyond one value a row takes no bytes in the file where it is nothing.
    listed = sum(group.column(at).num_values - group.num_rows for group in groups for at in range(group.num_columns))
    _unpacks_to(source, 8 * listed, packed)
    schema = metadata.schema.to_arrow_schema()
    # A text that many rows share is kept once: a dictionary is not written out.
    texts = [field.name for field in schema if field.type in (pyarrow.string(), pyarrow.large_string())]
    file = parquet.ParquetFile(binary, read_dictionary=texts)
    lot = max(1, min(CHUNK, WEIGHT // (8 * max(1, metadata.num_columns))))
    return ParsedFile(schema.names, enumerate(_parquet_rows(source, file.iter_batches(lot), packed), 1))


def _parquet_rows(source: Source, batches: Iterable[Any], packed: int) -> Iterator[Cells | str]:
    size = 0
    for row in chain.from_iterable(zip(*batch.columns) for batch in batches):
        try:
            cells: list[Any] | str = [cell.as_py() for cell in row]
        except (ValueError, OverflowError):  # such as a time that no calendar has
            cells = BROKEN
        size += sum(len(cell) for cell in cells if isinstance(cell, str))
        _unpacks_to(source, size, packed)
        yield cells


def _looks_ohsumed(lines: list[str]) -> bool:
    return re.fullmatch(r"\.I\s+\d+\s*", lines[0]) is not None and any(line.startswith(".U") for line in lines)


def _looks_svmlight(lines: list[str]) -> bool:
    lines = [line.partition("#")[0].strip() for line in lines]
    pattern = re.compile(r"[-+]?[\d.]\S*( +\w+:\S+)*|")
    return any(":" in line for line in lines) and all(map(pattern.fullmatch, lines))


def _looks_delimited(lines: list[str], **dialect: Any) -> bool:
    rows = list(csv.reader(lines, **dialect))
    widths = {len(cells) for cells in rows[:-1] or rows}
    # A comma in prose is followed by a space.
    return len(widths) == 1 and max(widths) > 1 and not any(cell.startswith(" ") for cells in rows for cell in cells)


class Reader(NamedTuple):
    """One format: its suffixes, whether the first bytes and lines of a file look like it, and what parses it."""

    suffixes: tuple[str, ...]
    recognises: Callable[[bytes, list[str]], bool]
    parse: Callable[[Source], ParsedFile]


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
    "csv-unquoted": Reader((), lambda head, lines: False, _unquoted),
    "txt": Reader((), lambda head, lines: "\0" not in "".join(lines), _txt),
}


def reader_for(source: Source, reader: str | None = None) -> str:
    """The name of the reader for a file: as asked, else by its suffix below .gz, .bz2 or .xz, else by its content."""
    if reader is not None:
        return reader
    suffixes = [suffix for suffix in map(str.lower, Path(source.name).suffixes) if suffix not in COMPRESSIONS]
    for known, spec in READERS.items():
        if suffixes and suffixes[-1] in spec.suffixes:
            return known
    return _recognised(source.head(), source.name, source.encoding)


def check_reader(reader: str | None) -> None:
    """DataError where a reader is asked for that there is not."""
    if reader is not None and reader not in READERS:
        raise DataError(f"There is no reader {reader!r}; choose from {', '.join(READERS)}.")


def _recognised(head: bytes, name: str, encoding: str) -> str:
    """The first reader that knows the first bytes of a file."""
    if encoding == "utf-8":
        encoding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    text = text_of(io.BytesIO(head), encoding, errors="replace").read()
    lines = [line for line in text.splitlines() if line.strip()][:50]
    lines = lines[:-1] or lines  # the last may be cut
    for known, spec in READERS.items():
        if lines and spec.recognises(head, lines):
            return known
    wide = " (its zeros may be UTF-16: then choose the encoding)" if "\0" in text else ""
    what = f"in no known format{wide}" if lines else "empty"
    raise DataError(f"{name} is {what}; the readers are {', '.join(READERS)}.")


def word_of(cell: Any) -> str:
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
