"""Files of other programs, read by their libraries: arrays, Parquet, Arrow, Excel, ARFF and RIS."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from math import prod
from typing import IO, Any, cast
from zipfile import ZipFile

import numpy as np
from scipy import sparse

from .delimited import titled
from .parsed import BROKEN, NON_FINITE, WEIGHT, Cells, Doubt, Line, ParsedFile, first_rows, some, word_of
from .sources import CHUNK, HARMLESS, DataError, Source

SHEET_ROWS = 2**20  # that Excel allows
RIS = ("title", "abstract", "authors", "year", "journal", "keywords", "doi", "url", "id")  # columns of references
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
}  # column: what rispy calls it


def foreign(reader: Callable[[Source], ParsedFile]) -> Callable[[Source], ParsedFile]:
    """A reader whose errors, also those while its rows are read, are such as a damaged file gives."""

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
            yield from parsed.lines()

    def parse(source: Source) -> ParsedFile:
        with refused():
            parsed = reader(source)
        return parsed._replace(rows=rows(parsed))

    return parse


def _words(error: Exception) -> str:
    """What an error says; those of liac-arff fail to say it where the file's own words hold a %."""
    try:
        return str(error)
    except (TypeError, ValueError):
        return type(error).__name__


@foreign
def npy(source: Source) -> ParsedFile:
    """An array of numpy."""
    binary = source.whole()
    start = binary.tell()
    _declared(source, binary, binary.seek(0, io.SEEK_END))
    binary.seek(start)
    return vectors_of(source, np.lib.format.read_array(binary, allow_pickle=False))


def _declared(source: Source, array: IO[bytes], size: int) -> None:
    """DataError where an open .npy file says that it holds more numbers than are allowed, or than it can."""
    array.seek(0)
    version = np.lib.format.read_magic(array)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(array)
    source.limits.check("size", prod(shape) * max(8, dtype.itemsize), source.name)
    if not dtype.hasobject and prod(shape) * dtype.itemsize > size - array.tell():
        raise ValueError(f"it is cut: its header tells of an array of shape {shape}")


@foreign
def npz(source: Source) -> ParsedFile:
    """An archive of arrays: X, perhaps with labels y and ids, or a sparse matrix of scipy."""
    binary = source.whole()
    packed = binary.seek(0, io.SEEK_END)
    with np.lib.npyio.NpzFile(binary, allow_pickle=False) as arrays:
        archive = cast(ZipFile, arrays.zip)
        if not any(member.endswith(".npy") for member in archive.namelist()):
            raise DataError(zip_refusal(source.name, archive.namelist()))
        _unpacks_to(source, sum(member.file_size for member in archive.infolist()), packed)
        for member in archive.infolist():
            if member.filename.endswith(".npy"):
                with archive.open(member) as array:
                    _declared(source, array, member.file_size)
        if {"format", "shape", "data"} <= set(arrays):
            _fits(source, arrays["shape"].tolist())
            return vectors_of(source, sparse.load_npz(binary))
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
        return vectors_of(source, matrix, list(named), list(zip(*(values.tolist() for values in named.values()))))


def _unpacks_to(source: Source, size: int, packed: int) -> None:
    """DataError where a file tells of more bytes than are allowed."""
    source.limits.check("size", size, source.name)
    if size > HARMLESS:
        source.limits.check("ratio", size / packed, source.name)


def _fits(source: Source, shape: Sequence[int]) -> None:
    for limit, size in zip(("items", "features"), shape):
        source.limits.check(limit, size, source.name)


def vectors_of(
    source: Source,
    matrix: Any,
    columns: Sequence[str] = (),
    cells: Sequence[Cells] = (),
    lines: Sequence[int] = (),
    broken: Sequence[int] = (),
    first: int = 1,
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
    rows = chain(rows, ((line, BROKEN) for line in broken))
    return ParsedFile(list(columns), rows, matrix if finite.all() else matrix[finite], first)


@foreign
def parquet(source: Source) -> ParsedFile:
    """A Parquet file, some rows at a time."""
    import pyarrow
    from pyarrow import parquet as files

    binary = source.whole()
    packed = binary.seek(0, io.SEEK_END)
    metadata = files.read_metadata(binary)
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
    file = files.ParquetFile(binary, read_dictionary=texts)
    lot = max(1, min(CHUNK, WEIGHT // (8 * max(1, metadata.num_columns))))
    return ParsedFile(schema.names, enumerate(_batch_rows(source, file.iter_batches(lot), packed), 1))


def _batch_rows(source: Source, batches: Iterable[Any], packed: int) -> Iterator[Cells | str]:
    size = 0
    for row in chain.from_iterable(zip(*batch.columns) for batch in batches):
        try:
            cells: list[Any] | str = [cell.as_py() for cell in row]
        except (ValueError, OverflowError):  # such as a time that no calendar has
            cells = BROKEN
        size += sum(len(cell) for cell in cells if isinstance(cell, str))
        _unpacks_to(source, size, packed)
        yield cells


@foreign
def arrow(source: Source) -> ParsedFile:
    """Arrow IPC and Feather files."""
    import pyarrow
    from pyarrow import feather

    binary = source.whole()
    packed = binary.seek(0, io.SEEK_END)
    binary.seek(0)
    if source.head().startswith(b"FEA1"):  # the first version of Feather
        table = feather.read_table(binary, memory_map=False)
        names, batches = table.schema.names, table.to_batches(CHUNK)
    else:
        file = pyarrow.ipc.open_file(binary)
        names = file.schema.names
        batches = (file.get_batch(number) for number in range(file.num_record_batches))
    source.limits.check("columns", len(names), source.name)

    def checked() -> Iterator[Any]:
        items = 0
        for batch in batches:
            _unpacks_to(source, batch.nbytes, packed)
            items += batch.num_rows
            source.limits.check("items", items, source.name)
            yield batch

    return ParsedFile(names, enumerate(_batch_rows(source, checked(), packed), 1))


@foreign
def xlsx(source: Source) -> ParsedFile:
    """A sheet of an Excel workbook: the only one that holds rows, or the one that is named."""
    from openpyxl import load_workbook

    binary = source.whole()
    packed = binary.seek(0, io.SEEK_END)
    with ZipFile(binary) as archive:
        _unpacks_to(source, sum(member.file_size for member in archive.infolist()), packed)
        if damaged := archive.testzip():  # whose size may be another than it says
            raise ValueError(f"its part {damaged} is damaged")
    binary.seek(0)
    workbook = load_workbook(binary, read_only=True, data_only=True, keep_links=False)
    sheets = {sheet.title: sheet for sheet in workbook.worksheets}
    wanted, doubts = source.layout.sheet, tuple[Doubt, ...]()
    if wanted is None:
        filled = [name for name, sheet in sheets.items() if sheet.sheet_state == "visible" and _is_table(sheet)]
        wanted = next(iter(filled or sheets), None)
        if len(filled) > 1:
            question = f"{source.name} has the sheets {some(filled)}: say which to read (--sheet NAME)."
            doubts = (Doubt("sheet", question, tuple(filled)),)
    if wanted is None or wanted not in sheets:
        raise DataError(f"{source.name} has no sheet {wanted!r}. It has {some(sheets) or 'none'}.")
    return titled(source, _sheet_rows(sheets[wanted], source), {"sheet": wanted}, doubts, padded=True)


def _is_table(sheet: Any) -> bool:
    """Whether a sheet has two rows that are not empty."""
    rows = (row for row in sheet.iter_rows(values_only=True, max_row=100) if any(cell is not None for cell in row))
    return len(first_rows(((0, "") for _ in rows), 2)) == 2


def _sheet_rows(sheet: Any, source: Source) -> Iterator[tuple[int, list[str] | str]]:
    """The rows of a sheet that are not empty as words, without the empty cells behind all others."""
    sheet.reset_dimensions()  # what the file says of its size need not be true
    for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
        if number > SHEET_ROWS:  # a damaged one may say that it is one of billions
            raise ValueError(f"it has a row after the last that a sheet can have, {SHEET_ROWS:,}")
        source.limits.check("columns", len(row), source.name)
        cells = [word_of(cell) for cell in row]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            yield number, cells


@foreign
def arff(source: Source) -> ParsedFile:
    """Attribute-relation files, as Weka has them; the last nominal attribute comes last."""
    import arff as library

    text = source.text()
    lines = [line for line in text.splitlines() if line.strip()]
    sparse_rows = sum(line.lstrip().startswith("{") for line in lines)
    columns = sum(line.lstrip()[:10].lower() == "@attribute" for line in lines)
    source.limits.check("columns", columns, source.name)
    _unpacks_to(source, 8 * sparse_rows * columns, len(text))  # each cell is a number of 8 bytes
    made = library.load(iter(lines), return_type=library.LOD_GEN if sparse_rows else library.DENSE_GEN)
    names = [name for name, _ in made["attributes"]]
    usual = [kind[0] if isinstance(kind, list) else 0 for _, kind in made["attributes"]]  # of a sparse row

    def rows() -> Iterator[Line]:
        for number, row in enumerate(made["data"], 1):
            source.limits.check("items", number, source.name)
            yield number, [row.get(at, usual[at]) for at in range(len(names))] if sparse_rows else row

    return ParsedFile(names, rows())


@foreign
def ris(source: Source) -> ParsedFile:
    """References as reference managers and databases export them."""
    import rispy

    entries = rispy.loads(source.text(), skip_unknown_tags=True)
    source.limits.check("items", len(entries), source.name)

    def cell(entry: dict[str, Any], column: str) -> str:
        value = next((entry[name] for name in RIS_NAMES[column] if entry.get(name)), "")
        return "; ".join(map(str, value)) if isinstance(value, list) else str(value)

    cells = ([cell(each, name) for name in RIS] for each in entries)
    return ParsedFile(list(RIS), enumerate(cells, 1))


def zip_refusal(name: str, members: Sequence[str]) -> str:
    """Why an archive is not imported, and what to do."""
    files = [each for each in members if not each.endswith("/")]
    return f"{name} is a ZIP archive of {some(files, 5) or 'nothing'}: unpack it and import one of its files."
