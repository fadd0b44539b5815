"""Read formats with third-party libraries: arrays, Parquet, Arrow, Excel, ARFF and RIS."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from math import prod
from typing import IO, Any, cast
from zipfile import ZipFile

import numpy as np
from scipy import sparse

from .delimited import to_table
from .parsed import (
    BROKEN,
    BUFFER_CHARACTERS,
    NON_FINITE,
    Cells,
    Doubt,
    Line,
    ParsedFile,
    cell_text,
    first_rows,
    name_list,
)
from .sources import CHUNK_LINES, HARMLESS_BYTES, DataError, Source

MAX_SHEET_ROWS = 2**20  # of Excel
RIS_COLUMNS = ("title", "abstract", "authors", "year", "journal", "keywords", "doi", "url", "id")
RIS_NAMES = {
    "title": ("title", "primary_title", "short_title"),
    "abstract": ("abstract", "notes_abstract"),
    "authors": ("authors", "first_authors"),
    "year": ("year", "publication_year"),
    "journal": ("journal_name", "secondary_title", "alternate_title3", "alternate_title2"),
    "keywords": ("keywords",),
    "doi": ("doi",),
    "url": ("urls", "url"),
    "id": ("accession_number", "id"),
}  # column: its names in rispy
TAGS = {  # other formats of references: the pattern of a line, and the RIS tag for each tag; the first begins a record
    "medline": (
        re.compile(r"([A-Z]{2,4}) *- (.*)"),
        {"PMID": "AN", "TI": "TI", "AB": "AB", "AU": "AU", "DP": "PY", "JT": "JO", "MH": "KW", "OT": "KW"},
    ),
    "endnote": (
        re.compile(r"%(\S) (.*)"),
        {"0": "M3", "T": "TI", "X": "AB", "A": "AU", "D": "PY", "J": "JO", "K": "KW", "R": "DO", "U": "UR", "M": "AN"},
    ),
    "wos": (
        re.compile(r"([A-Z][A-Z\d]) (.*)"),
        {"PT": "M3", "TI": "TI", "AB": "AB", "AU": "AU", "PY": "PY", "SO": "JO", "DE": "KW", "DI": "DO", "UT": "AN"},
    ),
}
DECISIONS = (
    r"ASReview_(relevant|irrelevant)\b",
    r'=>\s*"(Included|Excluded|Maybe)"',
)  # in notes of ASReview and Rayyan


def foreign(reader: Callable[[Source], ParsedFile]) -> Callable[[Source], ParsedFile]:
    """Report any error of a third-party reader as a damaged file, also while its rows are iterated."""

    @contextmanager
    def refused() -> Iterator[None]:
        try:
            yield
        except (DataError, MemoryError, GeneratorExit):
            raise
        except Exception as error:  # the libraries' parsers fail on a damaged file in any way
            raise ValueError(_words(error)) from error

    def rows(parsed: ParsedFile) -> Iterator[Line]:
        with refused():
            yield from parsed.rows

    def parse(source: Source) -> ParsedFile:
        with refused():
            parsed = reader(source)
        return parsed._replace(rows=rows(parsed))

    return parse


def _words(error: Exception) -> str:
    """Return the message of an error; liac-arff fails to format it if the file contains a %."""
    try:
        return str(error)
    except (TypeError, ValueError):
        return type(error).__name__


@foreign
def npy(source: Source) -> ParsedFile:
    """Read an array of numpy."""
    binary, size = source.whole()
    _check_header(source, binary, size)
    binary.seek(0)
    return vectors_of(source, np.lib.format.read_array(binary, allow_pickle=False))


def _check_header(source: Source, array: IO[bytes], size: int) -> None:
    """Refuse an open .npy file whose header declares more numbers than the limits allow, or than `size` bytes hold."""
    array.seek(0)
    version = np.lib.format.read_magic(array)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(array)
    source.limits.check("size", prod(shape) * max(8, dtype.itemsize), source.name)
    if not dtype.hasobject and prod(shape) * dtype.itemsize > size - array.tell():
        raise ValueError(f"truncated: its header declares shape {shape}")


@foreign
def npz(source: Source) -> ParsedFile:
    """Read an archive of arrays: X, perhaps with labels y and ids, or a sparse matrix of scipy."""
    binary, packed = source.whole()
    with np.lib.npyio.NpzFile(binary, allow_pickle=False) as arrays:
        archive = cast(ZipFile, arrays.zip)
        if not any(member.endswith(".npy") for member in archive.namelist()):
            raise DataError(zip_refusal(source.name, archive.namelist()))
        _check_unpacked(source, sum(member.file_size for member in archive.infolist()), packed)
        for member in archive.infolist():
            if member.filename.endswith(".npy"):
                with archive.open(member) as array:
                    _check_header(source, array, member.file_size)
        if {"format", "shape", "data"} <= set(arrays):
            _check_shape(source, arrays["shape"].tolist())
            return vectors_of(source, sparse.load_npz(binary))
        keys = {"X": ("X", "x"), "label": ("y", "labels"), "id": ("ids",)}
        columns = {column: arrays[key] for column, names in keys.items() for key in names if key in arrays}
        if "X" not in columns:
            raise DataError(f"{source.name} must have an array X; it has {name_list(arrays) or 'none'}.")
        matrix = columns.pop("X")
        for column, values in columns.items():
            if values.shape != matrix.shape[:1]:
                raise DataError(
                    f"{source.name} needs one {column} for each of the {len(matrix):,} rows of X, not an "
                    f"array of shape {values.shape}."
                )
        cells = list(zip(*(values.tolist() for values in columns.values())))
        return vectors_of(source, matrix, list(columns), cells)


def _check_unpacked(source: Source, size: int, packed: int) -> None:
    """Raise DataError if `packed` bytes of a file would unpack to more than the limits allow."""
    source.limits.check("size", size, source.name)
    if size > HARMLESS_BYTES:
        source.limits.check("ratio", size / packed, source.name)


def _check_shape(source: Source, shape: Sequence[int]) -> None:
    for limit, size in zip(("items", "features"), shape):
        source.limits.check(limit, size, source.name)
    source.limits.check("size", 8 * shape[0], source.name)  # of the ends of sparse rows, also of empty ones


def vectors_of(
    source: Source,
    matrix: Any,
    columns: Sequence[str] = (),
    cells: Sequence[Cells] = (),
    lines: Sequence[int] = (),
    broken: Sequence[int] = (),
    first: int = 1,
) -> ParsedFile:
    """Turn a numeric matrix into a table of vectors, and skip rows with NaN or infinity.

    columns and cells: other columns, a tuple for each row. lines: line numbers of the rows (empty: from 1 on).
    broken: line numbers of broken rows. first: number of the first vector column.
    """
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise ValueError(f"its array must be a table of numbers, not {matrix.dtype} of shape {matrix.shape}")
    _check_shape(source, matrix.shape)
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
    rows = chain(rows, ((line, BROKEN) for line in broken))
    return ParsedFile(list(columns), rows, matrix if finite.all() else matrix[finite], first)


@foreign
def parquet(source: Source) -> ParsedFile:
    """Read a Parquet file, some rows at a time."""
    import pyarrow
    from pyarrow import parquet as files

    binary, packed = source.whole()
    metadata = files.read_metadata(binary)
    source.limits.check("columns", metadata.num_columns, source.name)
    source.limits.check("items", metadata.num_rows, source.name)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    _check_unpacked(source, max(metadata.num_rows, sum(group.total_byte_size for group in groups)), packed)
    # A list of empty values takes no bytes in the file, but 8 bytes for each value in memory.
    in_lists = sum(group.column(at).num_values - group.num_rows for group in groups for at in range(group.num_columns))
    _check_unpacked(source, 8 * in_lists, packed)
    schema = metadata.schema.to_arrow_schema()
    # Read as a dictionary, a text that many rows share is in memory once.
    texts = [field.name for field in schema if field.type in (pyarrow.string(), pyarrow.large_string())]
    file = files.ParquetFile(binary, read_dictionary=texts)
    batch_rows = max(1, min(CHUNK_LINES, BUFFER_CHARACTERS // (8 * max(1, metadata.num_columns))))
    return ParsedFile(schema.names, enumerate(_batch_rows(source, file.iter_batches(batch_rows), packed), 1))


def _batch_rows(source: Source, batches: Iterable[Any], packed: int) -> Iterator[Cells | str]:
    size = 0
    for row in chain.from_iterable(zip(*batch.columns) for batch in batches):
        try:
            cells: list[Any] | str = [cell.as_py() for cell in row]
        except (ValueError, OverflowError):  # such as a date beyond the calendar
            cells = BROKEN
        size += sum(len(cell) for cell in cells if isinstance(cell, str))
        _check_unpacked(source, size, packed)
        yield cells


@foreign
def arrow(source: Source) -> ParsedFile:
    """Read an Arrow IPC or Feather file."""
    import pyarrow
    from pyarrow import feather

    binary, packed = source.whole()
    binary.seek(0)
    if source.head().startswith(b"FEA1"):  # the first version of Feather
        table = feather.read_table(binary, memory_map=False)
        names, batches = table.schema.names, table.to_batches(CHUNK_LINES)
    else:
        file = pyarrow.ipc.open_file(binary)
        names = file.schema.names
        batches = (file.get_batch(number) for number in range(file.num_record_batches))
    source.limits.check("columns", len(names), source.name)

    def checked() -> Iterator[Any]:
        items = 0
        for batch in batches:
            _check_unpacked(source, batch.nbytes, packed)
            items += batch.num_rows
            source.limits.check("items", items, source.name)
            yield batch

    return ParsedFile(names, enumerate(_batch_rows(source, checked(), packed), 1))


@foreign
def xlsx(source: Source) -> ParsedFile:
    """Read a sheet of an Excel workbook: the named one, or the only one with rows."""
    from openpyxl import load_workbook

    binary, packed = source.whole()
    with ZipFile(binary) as archive:
        _check_unpacked(source, sum(member.file_size for member in archive.infolist()), packed)
        if damaged := archive.testzip():  # its real size may differ from the declared one
            raise ValueError(f"its part {damaged} is damaged")
    binary.seek(0)
    workbook = load_workbook(binary, read_only=True, data_only=True, keep_links=False)
    sheets = {sheet.title: sheet for sheet in workbook.worksheets}
    wanted, doubts = source.layout.sheet, tuple[Doubt, ...]()
    if wanted is None:
        filled = [name for name, sheet in sheets.items() if sheet.sheet_state == "visible" and _is_table(sheet)]
        wanted = next(iter(filled or sheets), None)
        if len(filled) > 1:
            question = f"{source.name} has the sheets {name_list(filled)}: say which to read (--sheet NAME)."
            doubts = (Doubt("sheet", question, tuple(filled)),)
    if wanted is None or wanted not in sheets:
        raise DataError(f"{source.name} has no sheet {wanted!r}. It has {name_list(sheets) or 'none'}.")
    return to_table(source, _sheet_rows(sheets[wanted], source), {"sheet": wanted}, doubts, padded=True)


def _is_table(sheet: Any) -> bool:
    """Tell whether a sheet has at least two rows that are not empty."""
    rows = (row for row in sheet.iter_rows(values_only=True, max_row=100) if any(cell is not None for cell in row))
    return len(first_rows(((0, "") for _ in rows), 2)) == 2


def _sheet_rows(sheet: Any, source: Source) -> Iterator[tuple[int, list[str] | str]]:
    """Yield the rows of a sheet that are not empty as words, without trailing empty cells."""
    sheet.reset_dimensions()  # the declared size may be wrong
    for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
        if number > MAX_SHEET_ROWS:  # a damaged file may declare billions of rows
            raise ValueError(f"row number exceeds the sheet limit of {MAX_SHEET_ROWS:,}")
        source.limits.check("columns", len(row), source.name)
        cells = [cell_text(cell) for cell in row]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            yield number, cells


@foreign
def arff(source: Source) -> ParsedFile:
    """Read an attribute-relation file of Weka."""
    import arff as library

    text = source.text()
    lines = [line for line in text.splitlines() if line.strip()]
    sparse_rows = sum(line.lstrip().startswith("{") for line in lines)
    columns = sum(line.lstrip()[:10].lower() == "@attribute" for line in lines)
    source.limits.check("columns", columns, source.name)
    _check_unpacked(source, 8 * sparse_rows * columns, len(text))  # each cell is a number of 8 bytes
    table = library.load(iter(lines), return_type=library.LOD_GEN if sparse_rows else library.DENSE_GEN)
    names = [name for name, _ in table["attributes"]]
    defaults = [kind[0] if isinstance(kind, list) else 0 for _, kind in table["attributes"]]  # in sparse rows

    def rows() -> Iterator[Line]:
        for number, row in enumerate(table["data"], 1):
            source.limits.check("items", number, source.name)
            yield number, [row.get(at, defaults[at]) for at in range(len(names))] if sparse_rows else row

    return ParsedFile(names, rows())


@foreign
def ris(source: Source) -> ParsedFile:
    """Read references as reference managers and databases export them."""
    return _references(source, source.text())


def tagged(source: Source, format: str) -> ParsedFile:
    """Read references of PubMed (medline), EndNote or Web of Science (wos): their tags are translated to RIS."""
    pattern, tags = TAGS[format]
    lines, ris_tag, first = list[str](), "", next(iter(tags))
    for line in map(str.rstrip, source.lines()):
        if tag := pattern.fullmatch(line):
            if tag[1] == first:
                lines += ["ER  - "] * bool(lines) + ["TY  - JOUR"]
            ris_tag = tags.get(tag[1], "") if lines else ""
            lines += [f"{ris_tag}  - {tag[2]}"] * bool(ris_tag)
        elif ris_tag and line.startswith(" "):  # the value continues
            lines[-1] += f" {line.strip()}"
        else:
            ris_tag = ""
    return _references(source, "\n".join([*lines, "ER  - ", ""]))


def _references(source: Source, text: str) -> ParsedFile:
    """Parse the text of a RIS file."""
    import rispy

    entries = rispy.loads(text, skip_unknown_tags=True)
    source.limits.check("items", len(entries), source.name)

    def cell(entry: dict[str, Any], column: str) -> str:
        value = next((entry[name] for name in RIS_NAMES[column] if entry.get(name)), "")
        return "; ".join(map(str, value)) if isinstance(value, list) else str(value)

    decisions = [_decision(each.get("notes", ())) for each in entries]
    columns = [*RIS_COLUMNS, *["included"] * any(decisions)]
    cells = ([cell(each, name) for name in RIS_COLUMNS] for each in entries)
    rows = ([*row, decision][: len(columns)] for row, decision in zip(cells, decisions))
    return ParsedFile(columns, enumerate(rows, 1))


def _decision(notes: Iterable[str]) -> str:
    """Return the decision of a screening in ASReview or Rayyan: yes, no, or "" if there is none or a dispute."""
    decisions = {word.casefold() for note in notes for pattern in DECISIONS for word in re.findall(pattern, note)}
    one = decisions.pop() if len(decisions) == 1 else ""
    return "yes" if one in ("relevant", "included") else "no" if one in ("irrelevant", "excluded") else ""


def zip_refusal(name: str, members: Sequence[str]) -> str:
    """Return the message for an archive, which is not imported."""
    files = [each for each in members if not each.endswith("/")]
    return f"{name} is a ZIP archive of {name_list(files, 5) or 'nothing'}: unpack it and import one of its files."
