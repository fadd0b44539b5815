"""Files to rows: a reader for each format, whatever the compression and the encoding."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from json import JSONDecodeError, JSONDecoder
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from scipy import sparse

from ...output.tables import FEATURES, numbers_of
from . import delimited, foreign, refusals
from .delimited import looks_delimited, titled
from .foreign import vectors_of
from .parsed import BROKEN, Cells, Line, ParsedFile, first_rows, is_whole, some, word_of
from .sources import (
    CHUNK,
    COMPRESSIONS,
    LIMITS,
    DataError,
    FileOrPath,
    Layout,
    Limits,
    Source,
    marked_encoding,
    name_of,
    open_source,
    text_of,
)

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
REUTERS = {
    "id": r'NEWID="(\d+)"',
    "title": r"<TITLE>(.*?)</TITLE>",
    "text": r"<BODY>(.*?)</BODY>",
    "topics": r"<TOPICS>(.*?)</TOPICS>",
    "places": r"<PLACES>(.*?)</PLACES>",
    "date": r"<DATE>(.*?)</DATE>",
    "split": r'LEWISSPLIT="(.*?)"',
}  # column: where its cell stands
UNTITLED = r"<TEXT[^>]*>(.*?)</TEXT>"  # of a story without a body
ITEMS = ("data", "items", "records", "results", "rows", "documents", "examples")  # of a JSON object that wraps them


def live_source(
    binary: BinaryIO,
    name: str,
    reader: str | None = None,
    encoding: str = "utf-8",
    limits: Limits = LIMITS,
    layout: Layout = Layout(),
) -> tuple[str, Source]:
    """The reader for what comes in from a pipe, as asked or by its first line, and its source: a line is given
    out when it is there. A format that cannot be read from its beginning on is taken in whole first."""
    if reader:
        check_reader(reader)
    else:
        reader = _recognised(cast(io.BufferedReader, binary).peek(1).partition(b"\n")[0], name, encoding)
    if reader in ("parquet", "arrow", "xlsx", "npy", "npz"):
        taken = binary.read(limits.size + 1)
        limits.check("size", len(taken), name)
        binary = io.BytesIO(taken)
    return reader, Source(binary, name, encoding, None, lambda: None, 1, limits, layout)


# ---- Readers: from a source to a parsed file


def _csv(source: Source) -> ParsedFile:
    return delimited.parse(source)


def _unquoted(source: Source) -> ParsedFile:
    return delimited.parse(source, quoted=False)


def _tsv(source: Source) -> ParsedFile:
    return delimited.parse(source, reader="tsv")


def _jsonl(source: Source) -> ParsedFile:
    lines = ((number, line) for number, line in enumerate(source.lines(), 1) if not line.isspace())
    sample = first_rows(lines, source.ahead)
    return _objects(source, ((number, record(line)) for number, line in chain(sample, lines)), len(sample))


def _objects(source: Source, objects: Iterator[tuple[int, dict[str, Any] | None]], ahead: int) -> ParsedFile:
    """The table of objects, of which so many say what its columns are."""
    columns: dict[str, None] = {}
    sample = list(islice(objects, ahead))
    for _, values in sample:
        columns |= dict.fromkeys(filter(is_whole, values or ()))
        source.limits.check("columns", len(columns), source.name)
    return ParsedFile(
        list(columns),
        (
            (number, BROKEN if values is None else [values.get(column) for column in columns])
            for number, values in chain(sample, objects)
        ),
    )


@foreign.foreign
def _json(source: Source) -> ParsedFile:
    """A JSON array of objects, of rows or of texts; an object of columns, or one that wraps such an array; or lines."""
    text = source.text()
    start = len(text) - len(text.lstrip())
    if text[start : start + 1] == "[":
        return _array(source, _elements(text, start + 1))
    value, end = JSONDecoder().raw_decode(text, start)
    if not isinstance(value, dict):
        raise DataError(f"{source.name} must hold an array or an object. Got {str(value)[:60]!r}.")
    if text[end:].strip():
        lines = ((number, record(line)) for number, line in enumerate(text.splitlines(), 1) if line.strip())
        return _objects(source, lines, source.ahead)
    if set(value) >= {"columns", "data"}:  # as pandas splits a table
        rows = ([*map(word_of, row)] if isinstance(row, list) else BROKEN for row in value["data"])
        header = [*map(word_of, value["columns"])]
        layout = replace(source.layout, header=True)
        return titled(source._replace(layout=layout), chain([(1, header)], enumerate(rows, 1)), {})
    wrapped = next((value[name] for name in ITEMS if isinstance(value.get(name), list)), None)
    if wrapped is not None and not all(isinstance(each, list) for each in value.values()):
        return _array(source, iter(wrapped))
    columns = {name: list(cells.values()) if isinstance(cells, dict) else cells for name, cells in value.items()}
    lengths = {len(cells) if isinstance(cells, list) else -1 for cells in columns.values()}
    if len(lengths) != 1 or -1 in lengths:
        raise DataError(
            f"{source.name} is one JSON object, whose values must be columns of one length, or an array of items "
            f"called {', '.join(ITEMS)}. It has {some(value) or 'nothing'}."
        )
    return ParsedFile(list(columns), enumerate(map(list, zip(*columns.values())), 1))


def _elements(text: str, at: int) -> Iterator[Any]:
    """The elements of a JSON array whose first may stand at a place."""
    decoder = JSONDecoder()

    def skip(at: int) -> int:
        while text[at : at + 1].isspace():
            at += 1
        return at

    at = skip(at)
    while text[at : at + 1] != "]":
        value, at = decoder.raw_decode(text, at)
        yield value
        at = skip(at)
        if text[at : at + 1] not in (",", "]"):
            raise JSONDecodeError("the array is cut or not separated by commas", text, at)
        at = skip(at + (text[at] == ","))
    if text[at + 1 :].strip():
        raise JSONDecodeError("more than one array", text, at)


def _array(source: Source, elements: Iterator[Any]) -> ParsedFile:
    """The table of the elements of an array."""
    left = enumerate(elements, 1)
    first = next(left, (0, None))
    numbered = chain([first] if first[0] else [], left)
    if isinstance(first[1], list):
        cells = ((n, [*map(word_of, each)] if isinstance(each, list) else BROKEN) for n, each in numbered)
        return titled(source, cells, {})
    if isinstance(first[1], str):
        return ParsedFile(["text"], ((n, [each] if isinstance(each, str) else BROKEN) for n, each in numbered))
    objects = ((number, each if isinstance(each, dict) else None) for number, each in numbered)
    return _objects(source, objects, source.ahead)


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
    sample = first_rows(lines, 1)
    matrix, first, labels, numbers, broken = _sparse(source, chain(sample, lines))
    if not labels and sample and re.match(r"[-+\d.]+,\S* +\d+:", some_line := sample[0][1]):
        raise DataError(
            f"{source.name} names several labels in a line ({some_line.split()[0]}): keep one of them in each line."
        )
    return vectors_of(source, matrix, ["label"], [[label] for label in labels], numbers, broken, first)


def exported(source: Source, parsed: ParsedFile) -> ParsedFile:
    """A table written here, with the numbers of each item in one cell, as sparse vectors; any other as it is."""
    if numbers_of(parsed.columns) != (FEATURES,):
        return parsed
    at, cells, others = parsed.columns.index(FEATURES), dict[int, Cells](), list[Line]()
    for line, row in islice(parsed.lines(), source.limit):
        if isinstance(row, str):
            others.append((line, row))
        else:
            cells[line] = row
    entries = ((line, f"0 {' '.join(word_of(row[at]).split()) or BROKEN}") for line, row in cells.items())
    matrix, first, _, good, broken = _sparse(source, entries)
    kept = [place for place in range(len(parsed.columns)) if place != at]
    made = vectors_of(
        source, matrix, [parsed.columns[place] for place in kept],
        [[cells[line][place] for place in kept] for line in good], good, broken, first,
    )  # fmt: skip
    return made._replace(rows=chain(made.rows, others), said=parsed.said, doubts=parsed.doubts)


def _sparse(
    source: Source, lines: Iterator[tuple[int, str]]
) -> tuple[sparse.csr_array, int, list[float], list[int], list[int]]:
    """The rows of lines such as `1 3:0.5`, the number of their first column, the label and the number of each good
    line, and the numbers of the others."""
    matrices: list[Any] = [sparse.csr_array((0, 0))]
    labels: list[float] = []
    numbers: list[int] = []
    broken: list[int] = []
    limits = source.limits
    while chunk := first_rows(lines, CHUNK):
        for matrix, targets, good in _parsed(chunk, broken):
            if matrix.shape[1] - 1 > limits.features:
                row = np.searchsorted(matrix.indptr, np.argmax(matrix.indices), "right") - 1
                limits.check("features", matrix.shape[1] - 1, f"Line {good[row]:,} of {source.name}")
            matrices.append(matrix)
            labels += targets.tolist()
            numbers += good
        limits.check("items", len(labels) + len(broken), source.name)
    width = max(matrix.shape[1] for matrix in matrices)
    first = 0 if any(matrix.nnz and matrix.indices.min() == 0 for matrix in matrices) else 1
    for matrix in matrices:
        matrix.resize(matrix.shape[0], width)
    whole = sparse.vstack(matrices, format="csr")
    if first and width:
        whole.indices -= 1
        whole = sparse.csr_array((whole.data, whole.indices, whole.indptr), shape=(whole.shape[0], width - 1))
    return whole, first, labels, numbers, broken


def _parsed(lines: list[tuple[int, str]], broken: list[int]) -> Iterator[tuple[Any, ...]]:
    """(matrix, targets, line numbers) of the good lines: a chunk that fails is halved down to its broken lines."""
    from sklearn.datasets import load_svmlight_file

    numbers = [number for number, _ in lines]
    try:
        text = io.BytesIO("\n".join(line for _, line in lines).encode())
        yield *load_svmlight_file(text, zero_based=True), numbers
    except (ValueError, OverflowError):
        if len(lines) == 1:
            broken += numbers
        else:
            half = len(lines) // 2
            yield from chain(_parsed(lines[:half], broken), _parsed(lines[half:], broken))


def _looks_ohsumed(lines: list[str]) -> bool:
    return re.fullmatch(r"\.I\s+\d+\s*", lines[0]) is not None and any(line.startswith(".U") for line in lines)


def _looks_svmlight(lines: list[str]) -> bool:
    lines = [line.partition("#")[0].strip() for line in lines]
    pattern = re.compile(r"[-+]?[\d.]\S*(\s+\w+:\S+)*|")
    return any(":" in line for line in lines) and all(map(pattern.fullmatch, lines))


def _looks_jsonl(lines: list[str]) -> bool:
    """Whether lines are objects; one alone may be an object of columns."""
    records = [each for each in map(record, lines) if each]
    if len(records) < len(lines):
        return False
    return len(records) > 1 or not all(isinstance(each, list | dict) for each in records[0].values())


def _looks_json(lines: list[str]) -> bool:
    begin = "".join(lines[:3]).lstrip()
    return re.match(r'\[\s*[\[{"\]]|\{\s*"', begin) is not None


def _reuters(source: Source) -> ParsedFile:
    """The stories of Reuters-21578 (Lewis 1997)."""
    patterns = {column: re.compile(pattern, re.DOTALL) for column, pattern in REUTERS.items()}

    def cell(story: str, column: str) -> str:
        found = patterns[column].search(story) or (column == "text" and re.search(UNTITLED, story, re.DOTALL))
        inside = re.sub(r"</D>\s*<D>", "|", found[1]) if found else ""
        return html.unescape(re.sub(r"<[^>]*>", " ", inside).strip())

    def rows() -> Iterator[Line]:
        begun, lines, length = 0, list[str](), 0
        for number, line in enumerate(source.lines(), 1):
            if "<REUTERS" in line:
                if lines:
                    yield begun, BROKEN
                begun, lines, length = number, [], 0
            if begun:
                lines.append(line)
                length += len(line)
                source.limits.check("line", length, f"The story at line {begun:,} of {source.name}")
            if "</REUTERS>" in line and begun:
                story = "".join(lines)
                yield begun, [cell(story, column) for column in REUTERS]
                begun, lines = 0, []
        if lines:
            yield begun, BROKEN

    return ParsedFile(list(REUTERS), rows())


class Reader(NamedTuple):
    """One format: its suffixes, whether the first bytes and lines of a file look like it, and what parses it."""

    suffixes: tuple[str, ...]
    recognises: Callable[[bytes, list[str]], bool]
    parse: Callable[[Source], ParsedFile]


# The only list of formats. A file whose suffix says nothing is read by the first that recognises its content.
READERS: dict[str, Reader] = {
    "parquet": Reader((".parquet", ".pq"), lambda head, lines: head.startswith(b"PAR1"), foreign.parquet),
    "arrow": Reader(
        (".arrow", ".feather", ".ipc"), lambda head, lines: head.startswith((b"ARROW1", b"FEA1")), foreign.arrow
    ),
    "npy": Reader((".npy",), lambda head, lines: head.startswith(b"\x93NUMPY"), foreign.npy),
    "xlsx": Reader((".xlsx", ".xlsm"), lambda head, lines: head.startswith(b"PK\3\4") and b"xl/" in head, foreign.xlsx),
    "npz": Reader((".npz",), lambda head, lines: head.startswith(b"PK\3\4"), foreign.npz),
    "jsonl": Reader((".jsonl", ".ndjson"), lambda head, lines: _looks_jsonl(lines), _jsonl),
    "json": Reader((".json",), lambda head, lines: _looks_json(lines), _json),
    "arff": Reader(
        (".arff",), lambda head, lines: any(re.match(r"(?i)@relation\s", each) for each in lines), foreign.arff
    ),
    "ris": Reader((".ris",), lambda head, lines: re.match(r"TY  ?- ", lines[0]) is not None, foreign.ris),
    "reuters": Reader((".sgm", ".sgml"), lambda head, lines: b"<REUTERS " in head, _reuters),
    "ohsumed": Reader((".ohsumed",), lambda head, lines: _looks_ohsumed(lines), _ohsumed),
    "svmlight": Reader((".svmlight", ".libsvm", ".svm"), lambda head, lines: _looks_svmlight(lines), _svmlight),
    "tsv": Reader(
        (".tsv", ".tab"), lambda head, lines: looks_delimited(lines, delimiter="\t", quoting=csv.QUOTE_NONE), _tsv
    ),
    "csv": Reader((".csv",), lambda head, lines: looks_delimited(lines), _csv),
    "csv-unquoted": Reader((), lambda head, lines: False, _unquoted),
    "txt": Reader((), lambda head, lines: "\0" not in "".join(lines), _txt),
}
BINARY = ("parquet", "arrow", "npy", "xlsx", "npz")  # their first bytes say more than a suffix


def reader_for(source: Source, reader: str | None = None) -> str:
    """The name of the reader for a file: as asked, else by its suffix below .gz, .bz2 or .xz, else by its content."""
    if reader is not None:
        return reader
    head = source.head()
    suffixes = [suffix for suffix in map(str.lower, Path(source.name).suffixes) if suffix not in COMPRESSIONS]
    known = next((name for name, spec in READERS.items() if suffixes and suffixes[-1] in spec.suffixes), None)
    if known not in BINARY:
        refusals.check(head, source.name)
    if known and (known in BINARY or not _is_binary(head)):
        return known
    return _recognised(head, source.name, source.encoding)


def _is_binary(head: bytes) -> bool:
    return any(READERS[name].recognises(head, []) for name in BINARY)


def check_reader(reader: str | None) -> None:
    """DataError where a reader is asked for that there is not."""
    if reader is not None and reader not in READERS:
        raise DataError(f"There is no reader {reader!r}; choose from {', '.join(READERS)}.")


def _recognised(head: bytes, name: str, encoding: str) -> str:
    """The first reader that knows the first bytes of a file."""
    if encoding == "utf-8":
        encoding = marked_encoding(head) or "utf-8-sig"
    text = text_of(io.BytesIO(head), encoding, errors="replace").read()
    lines = [line for line in text.splitlines() if line.strip()][:50]
    lines = lines[:-1] or lines  # the last may be cut
    for known, spec in READERS.items():
        if lines and spec.recognises(head, lines):
            return known
    wide = " (its zeros may be UTF-16: then choose the encoding)" if "\0" in text else ""
    what = f"in no known format{wide}" if lines else "empty"
    raise DataError(f"{name} is {what}; the readers are {', '.join(READERS)}.")
