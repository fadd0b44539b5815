"""Parse files into rows: one reader for each format."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

import numpy as np

from ...output.tables import FEATURES, numbers_of
from . import archives, delimited, foreign, json_files, references, refusals
from .delimited import looks_delimited
from .encodings import sure_encoding
from .foreign import vectors_of
from .parsed import BROKEN, Cells, Doubt, Line, ParsedFile, cell_text, first_rows
from .sources import (
    CHUNK_LINES,
    COMPRESSIONS,
    DataError,
    FileOrPath,
    Opening,
    Source,
    open_source,
    text_of,
    whole_content,
)

if TYPE_CHECKING:
    from scipy import sparse

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
SVMLIGHT_LINE = re.compile(r"[-+]?[\d.][^\s:]*(\s+\w+:\S+)*|")
ENOUGH_BLOCKS, PARAGRAPH_LINES = 3, 20  # fewest blocks, and their largest mean length, for texts to be paragraphs


def live_source(binary: BinaryIO, opening: Opening) -> tuple[str, Source]:
    """Return the name of the reader for a pipe, requested or recognized from the first line, and a `Source` that yields
    each line as it arrives. A format that cannot be streamed is read whole first."""
    check_reader(opening.reader)
    name, encoding, limits = opening.name or "", opening.encoding, opening.limits
    if (reader := opening.reader) is None:
        line = cast(io.BufferedReader, binary).peek(1).partition(b"\n")[0]
        refusals.check(line, name, encoding)
        reader = _recognized(line, name, encoding)
    if reader in BINARY:
        binary = io.BytesIO(whole_content(binary, limits, name))
    return reader, Source(binary, name, encoding, None, lambda: None, 1, limits, opening.layout)


# ---- Readers: from a source to a parsed file


def parse(source: Source, reader: str) -> ParsedFile:
    """Parse a file. The rows of all readers are counted here: they may not be much larger than the file."""
    parsed = READERS[reader].parse(source)
    return parsed._replace(rows=_counted(source, parsed.rows))


def _counted(source: Source, rows: Iterable[Line]) -> Iterator[Line]:
    size = 0
    for count, (line, cells) in enumerate(rows, 1):
        size += _size(cells)
        source.check_size(size)
        source.limits.check("items", count, source.name)
        yield line, cells


def _size(cells: Cells | str) -> int:
    """Return about how many characters a row takes as CSV. Lists and objects in its cells are counted, too."""
    pending: list[Collection[Any]] = [() if isinstance(cells, str) else cells]
    size = 1
    while pending:
        group = pending.pop()
        size += len(group)
        for cell in group:
            if isinstance(cell, str):
                size += len(cell)
            elif isinstance(cell, dict):
                pending += cell, cell.values()
            elif isinstance(cell, list | tuple):
                pending.append(cell)
    return size


def _txt(source: Source) -> ParsedFile:
    """Parse plain text: one text per line, or one per paragraph between blank lines."""
    lines = enumerate(source.lines(), 1)
    sample = first_rows(lines, source.ahead)
    rows, layout = chain(sample, lines), source.layout.paragraphs
    blocks = [len([*block]) for full, block in groupby(line.strip() != "" for _, line in sample) if full]
    doubtful = len(blocks) >= ENOUGH_BLOCKS and 1 < sum(blocks) / len(blocks) <= PARAGRAPH_LINES
    detected = {} if layout is None else {"paragraphs": "yes" if layout else "no"}
    doubts: tuple[Doubt, ...] = ()
    if doubtful and layout is None:
        question = (
            f"{source.name} has blank lines between blocks of lines: say whether each paragraph is a text "
            "(--paragraphs) or each line (--no-paragraphs)."
        )
        doubts = (Doubt("paragraphs", question, ("--paragraphs", "--no-paragraphs")),)
    texts = _paragraphs(rows) if layout else ((number, line.rstrip("\r\n")) for number, line in rows)
    return ParsedFile(["text"], ((number, [text]) for number, text in texts), detected=detected, doubts=doubts)


def _paragraphs(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Join the lines between blank lines. Yield each paragraph with the number of its first line."""
    for full, block in groupby(lines, key=lambda line: not line[1].isspace()):
        if full:
            (number, first), *more = block
            yield number, " ".join(" ".join([first, *(line for _, line in more)]).split())


# A digit before the text, but not before a delimiter
LABELED_LINE = re.compile(r"([-+]?\d)(?:\s+|::)(?![+|@#_]{3}|<SEP>|\[SEP\])(.*)")


def _looks_labeled(lines: list[str]) -> bool:
    """Tell whether all lines begin with one of a few labels, and most have words after it."""
    matches = [match for line in lines if (match := LABELED_LINE.fullmatch(line.strip()))]
    labels = {match[1] for match in matches}
    wordy = sum(re.search(r"[^\W\d_]{2}", match[2]) is not None for match in matches)
    return len(matches) == len(lines) and 1 < len(labels) <= max(2, len(lines) / 3) and 2 * wordy > len(lines)


def _labeled(source: Source) -> ParsedFile:
    """Parse lines that begin with a digit, their label, such as `1 Win a prize`."""
    lines = ((number, line.strip()) for number, line in enumerate(source.lines(), 1) if line.strip())
    matches = ((number, LABELED_LINE.fullmatch(line)) for number, line in lines)
    rows = ((number, BROKEN if match is None or not match[2] else [*match.groups()]) for number, match in matches)
    return ParsedFile(["label", "text"], rows)


def _ohsumed(source: Source) -> ParsedFile:
    """Parse records of the TREC-9 filtering track (Hersh et al. 1994): `.I 1`, then tags, each before its value."""
    return ParsedFile([*OHSUMED.values()], _ohsumed_rows(source.lines()))


def _ohsumed_rows(lines: Iterable[str]) -> Iterator[Line]:
    """Yield the cells of each record. A record that does not begin with a number or repeats a tag is broken."""
    numbered = ((number, line.strip()) for number, line in enumerate(lines, 1))
    record: list[tuple[int, str]] = []
    for number, line in chain(numbered, [(0, ".I")]):
        if record and line.split(maxsplit=1)[:1] == [".I"]:
            values: dict[str, list[str]] = {}
            tag, is_broken = "", False
            for _, each in record:
                word, *rest = each.split(maxsplit=1)
                is_broken |= word in values or (word not in OHSUMED and not tag)
                if word in OHSUMED:
                    tag = word
                    values[tag] = rest
                elif tag:
                    values[tag].append(each)
            cells = [" ".join(values.get(name, ())) for name in OHSUMED]
            yield record[0][0], cells if cells[0].isdigit() and not is_broken else BROKEN
            record = []
        if line:
            record.append((number, line))


def mesh_terms(tree: FileOrPath, number: str, **options: Any) -> tuple[str, ...]:
    """Return the descriptors at a MeSH tree number or below it, in the order of the file.

    tree: a path or an open file with lines `descriptor;tree number`. options: fields of `Opening`.
    """
    above = number.strip(" .").upper() + "."
    with open_source(tree, Opening(**options)) as source:
        entries = (line.strip().rpartition(";") for line in source.lines())
        terms = dict.fromkeys(term for term, _, place in entries if term and f"{place}.".startswith(above))
    if not terms:
        raise DataError(
            f"{source.name} has no tree number {number!r}: its lines must be such as Heart Diseases;C14.280."
        )
    return tuple(terms)


def _svmlight(source: Source) -> ParsedFile:
    lines = ((number, line) for number, line in enumerate(source.lines(), 1) if line.partition("#")[0].strip())
    sample = first_rows(lines, 1)
    matrix, first, labels, numbers, broken = _sparse(source, chain(sample, lines))
    if not labels and sample and re.match(r"[-+\d.]+,\S* +\d+:", line := sample[0][1]):
        raise DataError(
            f"{source.name} names several labels in a line ({line.split()[0]}): keep one of them in each line."
        )
    return vectors_of(source, matrix, ["label"], [[label] for label in labels], numbers, broken, first)


def exported(source: Source, parsed: ParsedFile) -> ParsedFile:
    """Turn a file that OAL Studio exported, with all numbers of an item in one cell, into sparse vectors. Return any
    other file unchanged."""
    if numbers_of(parsed.columns) != (FEATURES,):
        return parsed
    at, cells, skipped = parsed.columns.index(FEATURES), dict[int, Cells](), list[Line]()
    for line, row in islice(parsed.rows, source.limit):
        if isinstance(row, str):
            skipped.append((line, row))
        else:
            cells[line] = row
    lines = ((line, f"0 {' '.join(cell_text(row[at]).split()) or BROKEN}") for line, row in cells.items())
    matrix, first, _, good, broken = _sparse(source, lines)
    others = [place for place in range(len(parsed.columns)) if place != at]
    table = vectors_of(
        source, matrix, [parsed.columns[place] for place in others],
        [[cells[line][place] for place in others] for line in good], good, broken, first,
    )  # fmt: skip
    return table._replace(rows=chain(table.rows, skipped), detected=parsed.detected, doubts=parsed.doubts)


def _sparse(
    source: Source, lines: Iterator[tuple[int, str]]
) -> tuple[sparse.csr_array, int, list[float], list[int], list[int]]:
    """Parse svmlight lines such as `1 3:0.5`. Return the matrix, the number of its first column (0 or 1), the labels
    and the line numbers of the good lines, and the line numbers of the broken lines."""
    from scipy import sparse

    matrices: list[Any] = [sparse.csr_array((0, 0))]
    labels: list[float] = []
    numbers: list[int] = []
    broken: list[int] = []
    limits = source.limits
    while chunk := first_rows(lines, CHUNK_LINES):
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
    """Yield (matrix, labels, line numbers) of good lines. Bisect a chunk that fails, and add bad lines to `broken`."""
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


def _looks_tabbed(lines: list[str]) -> bool:
    shorter = [*lines[:1], *(line.removesuffix("\t") for line in lines[1:])]  # rows may end with a tab
    return any(looks_delimited(each, delimiter="\t", quoting=csv.QUOTE_NONE) for each in (lines, shorter))


def _looks_svmlight(lines: list[str]) -> bool:
    lines = [line.partition("#")[0].strip() for line in lines]
    return any(":" in line for line in lines) and all(map(SVMLIGHT_LINE.fullmatch, lines))


class Reader(NamedTuple):
    """One format: its suffixes, a test of the first bytes and lines of a file, and its parser."""

    suffixes: tuple[str, ...]
    recognizes: Callable[[bytes, list[str]], bool]
    parse: Callable[[Source], ParsedFile]


# Recognized by their first bytes, whatever the suffix
BINARY = ("parquet", "arrow", "npy", "xlsx", "npz", "zip")
MEMBERS: archives.Formats = archives.Formats(
    lambda source: reader_for(source), lambda source, reader: parse(source, reader), BINARY
)
# The only list of formats. A file with another suffix is read by the first one that recognizes its content.
READERS: dict[str, Reader] = {
    "parquet": Reader((".parquet", ".pq"), lambda head, lines: head.startswith(b"PAR1"), foreign.parquet),
    "arrow": Reader(
        (".arrow", ".feather", ".ipc"),
        lambda head, lines: head.startswith((b"ARROW1", b"FEA1", b"\xff\xff\xff\xff")),
        foreign.arrow,
    ),
    "npy": Reader((".npy",), lambda head, lines: head.startswith(b"\x93NUMPY"), foreign.npy),
    "xlsx": Reader((".xlsx", ".xlsm"), lambda head, lines: refusals.is_office(head) and b"xl/" in head, foreign.xlsx),
    "npz": Reader(
        (".npz",),
        lambda head, lines: re.match(rb"PK\x03\x04.{26}[^/]{1,99}\.npy", head, re.DOTALL) is not None,
        foreign.npz,
    ),
    "zip": Reader(
        (".zip",),
        lambda head, lines: head.startswith(b"PK") and head[2:4] in (b"\3\4", b"\5\6"),
        foreign.foreign(partial(archives.archive, formats=MEMBERS)),
    ),
    "jsonl": Reader((".jsonl", ".ndjson"), lambda head, lines: json_files.looks_jsonl(lines), json_files.jsonl),
    "json": Reader((".json",), lambda head, lines: json_files.looks_json(lines), json_files.json_file),
    "arff": Reader(
        (".arff",), lambda head, lines: any(re.match(r"(?i)@relation\s", each) for each in lines), foreign.arff
    ),
    "ris": Reader((".ris",), lambda head, lines: re.match(r"TY  ?- ", lines[0]) is not None, references.ris),
    "medline": Reader(
        (".nbib", ".medline"),
        lambda head, lines: re.match(r"PMID- *\d", lines[0]) is not None,
        foreign.foreign(partial(references.tagged, format="medline")),
    ),
    "wos": Reader(
        (".ciw",),
        lambda head, lines: re.match(r"\ufeff?FN ", lines[0]) is not None and lines[1].startswith("VR "),
        foreign.foreign(partial(references.tagged, format="wos")),
    ),
    "bibtex": Reader((".bib", ".bibtex"), lambda head, lines: references.looks_bibtex(lines), references.bibtex),
    "ohsumed": Reader((".ohsumed",), lambda head, lines: _looks_ohsumed(lines), _ohsumed),
    "svmlight": Reader((".svmlight", ".libsvm", ".svm"), lambda head, lines: _looks_svmlight(lines), _svmlight),
    "labeled": Reader((), lambda head, lines: _looks_labeled(lines), _labeled),
    "tsv": Reader((".tsv", ".tab"), lambda head, lines: _looks_tabbed(lines), partial(delimited.parse, reader="tsv")),
    "csv": Reader((".csv",), lambda head, lines: looks_delimited(lines), delimited.parse),
    "csv-unquoted": Reader((), lambda head, lines: False, partial(delimited.parse, quoted=False)),
    "txt": Reader((), lambda head, lines: "\0" not in "".join(lines), _txt),
}


def reader_for(source: Source, reader: str | None = None) -> str:
    """Return the reader of a file: as requested, else by the suffix before .gz, .bz2 or .xz, else by the content."""
    head, layout = source.head(), source.layout
    if reader is not None:
        if reader not in BINARY and READERS["zip"].recognizes(head, []):
            raise DataError(f"{source.name} is an archive, whose files have formats of their own: leave out --reader.")
        return reader
    suffixes = [suffix for suffix in map(str.lower, Path(source.name).suffixes) if suffix not in COMPRESSIONS]
    by_suffix = next((name for name, spec in READERS.items() if suffixes and suffixes[-1] in spec.suffixes), None)
    if by_suffix == "xlsx" and not head.startswith(b"PK"):
        by_suffix = None  # programs also give this suffix to tables of text
    if by_suffix == "jsonl" and json_files.SPREAD.match(head):
        by_suffix = "json"
    is_binary = any(READERS[name].recognizes(head, []) for name in BINARY)
    if by_suffix not in BINARY:
        refusals.check(head, source.name, source.encoding, by_suffix=not is_binary)
    if by_suffix and (by_suffix in BINARY or not is_binary):
        return by_suffix
    if not is_binary and (layout.delimiter or layout.paragraphs is not None):
        return "csv" if layout.delimiter else "txt"
    return _recognized(head, source.name, source.encoding)


def check_reader(reader: str | None) -> None:
    """Raise DataError if the reader is unknown."""
    if reader is not None and reader not in READERS:
        raise DataError(f"There is no reader {reader!r}; choose from {', '.join(READERS)}.")


def _recognized(head: bytes, name: str, encoding: str) -> str:
    """Return the name of the first reader that recognizes the first bytes of a file. Raise DataError if none does."""
    if encoding == "utf-8":
        encoding = sure_encoding(head) or encoding
    text = text_of(io.BytesIO(head), encoding, errors="replace").read()
    lines = [line for line in text.splitlines() if line.strip()][:50]
    lines = lines[:-1] or lines  # the last may be cut
    for reader, spec in READERS.items():
        if lines and spec.recognizes(head, lines):
            return reader
    wide = " (its zeros may be UTF-16: then choose the encoding)" if "\0" in text else ""
    what = f"in no known format{wide}" if lines else "empty"
    raise DataError(f"{name} is {what}; the readers are {', '.join(READERS)}.")
