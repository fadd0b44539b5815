"""Read arrays, Parquet, Arrow and ARFF with third-party libraries."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from math import prod
from typing import IO, Any, cast
from zipfile import ZipFile

import numpy as np

from ...output.tables import MAX_SHEET_ROWS, unescaped
from .parsed import BROKEN, BUFFER_CHARACTERS, NON_FINITE, Cells, Doubt, Line, ParsedFile, cell_text, name_list
from .sources import CHUNK_LINES, TOO_DEEP, DataError, Source
from .tables import to_table


def foreign(reader: Callable[[Source], ParsedFile]) -> Callable[[Source], ParsedFile]:
    """Decorate a third-party reader so that any error of the library, even while the rows are iterated, is raised as a
    ValueError, as for a damaged file."""

    @contextmanager
    def refused() -> Iterator[None]:
        try:
            yield
        except (DataError, MemoryError, GeneratorExit):
            raise
        except RecursionError as error:
            raise ValueError(TOO_DEEP) from error
        except Exception as error:  # the libraries raise any exception on a damaged file
            error = error.__cause__ if isinstance(error.__cause__, Exception) else error
            try:
                words = str(error)
            except (TypeError, ValueError):  # of liac-arff if the file contains a %
                words = type(error).__name__
            raise ValueError(words) from error

    def rows(parsed: ParsedFile) -> Iterator[Line]:
        with refused():
            yield from parsed.rows

    def parse(source: Source) -> ParsedFile:
        with refused():
            parsed = reader(source)
        return parsed._replace(rows=rows(parsed))

    return parse


@foreign
def npy(source: Source) -> ParsedFile:
    """Read a NumPy array (.npy)."""
    binary = source.whole()
    _check_header(source, binary, binary.seek(0, io.SEEK_END))
    binary.seek(0)
    return vectors_of(source, np.lib.format.read_array(binary, allow_pickle=False))


def _check_header(source: Source, array: IO[bytes], size: int) -> None:
    """Raise an error if the header of a .npy file declares more than the limits allow, or than `size` bytes hold."""
    array.seek(0)
    version = np.lib.format.read_magic(array)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(array)
    source.limits.check("size", prod(shape) * max(8, dtype.itemsize), source.name)
    if not dtype.hasobject and prod(shape) * dtype.itemsize > size - array.tell():
        raise ValueError(f"truncated: its header declares shape {shape}")


@foreign
def npz(source: Source) -> ParsedFile:
    """Read a NumPy archive (.npz): an array X or a SciPy sparse matrix, perhaps with labels y and ids."""
    binary = source.whole()
    with np.lib.npyio.NpzFile(binary, allow_pickle=False) as arrays:
        archive = cast(ZipFile, arrays.zip)
        source.check_size(sum(member.file_size for member in archive.infolist()))
        for member in archive.infolist():
            if member.filename.endswith(".npy"):
                with archive.open(member) as array:
                    _check_header(source, array, member.file_size)
        keys = {"X": ("X", "x"), "label": ("y", "labels"), "id": ("ids",)}
        columns: dict[str, Any] = {name: arrays[key] for name, own in keys.items() for key in own if key in arrays}
        if {"format", "shape", "data"} <= set(arrays):
            from scipy import sparse

            _check_shape(source, arrays["shape"].tolist())
            columns["X"] = sparse.load_npz(binary)
        if "X" not in columns:
            raise DataError(f"{source.name} must have an array X; it has {name_list(arrays) or 'none'}.")
        matrix = columns.pop("X")
        for column, values in columns.items():
            if values.shape != matrix.shape[:1]:
                raise DataError(
                    f"{source.name} needs one {column} for each of the {matrix.shape[0]:,} rows of X, not an "
                    f"array of shape {values.shape}."
                )
        cells = list(zip(*(values.tolist() for values in columns.values())))
        return vectors_of(source, matrix, list(columns), cells)


def _check_shape(source: Source, shape: Sequence[int]) -> None:
    for limit, size in zip(("items", "features"), shape):
        source.limits.check(limit, size, source.name)
    source.limits.check("size", 8 * shape[0], source.name)  # of the row pointers (indptr), even of empty rows


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

    columns, cells: names of further columns, and their cells in each row. lines: line numbers of the rows (empty: from
    1 on). broken: line numbers of broken rows. first: number of the first vector column.
    """
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise ValueError(f"its array must be a table of numbers, not {matrix.dtype} of shape {matrix.shape}")
    _check_shape(source, matrix.shape)
    if hasattr(matrix, "tocsr"):
        from scipy import sparse

        if matrix.format in ("csr", "csc", "bsr"):
            matrix.check_format()  # compiled loops do not check indices
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
    """Read a Parquet file in batches of rows."""
    import pyarrow
    from pyarrow import parquet as files

    binary = source.whole()
    metadata = files.read_metadata(binary)
    source.limits.check("columns", metadata.num_columns, source.name)
    source.limits.check("items", metadata.num_rows, source.name)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    source.check_size(max(metadata.num_rows, sum(group.total_byte_size for group in groups)))
    # A list of empty values takes no bytes in the file, but 8 bytes for each value in memory.
    in_lists = sum(group.column(at).num_values - group.num_rows for group in groups for at in range(group.num_columns))
    source.check_size(8 * in_lists)
    schema = metadata.schema.to_arrow_schema()
    # Read as a dictionary, a text that many rows share is in memory once.
    texts = [field.name for field in schema if field.type in (pyarrow.string(), pyarrow.large_string())]
    file = files.ParquetFile(binary, read_dictionary=texts)
    batch_rows = max(1, min(CHUNK_LINES, BUFFER_CHARACTERS // (8 * max(1, metadata.num_columns))))
    return ParsedFile(schema.names, enumerate(_batch_rows(source, schema, file.iter_batches(batch_rows)), 1))


def _batch_rows(source: Source, schema: Any, batches: Iterable[Any]) -> Iterator[Cells | str]:
    """Yield the rows of Arrow batches as cells. Class numbers become class names if the schema has these."""
    classes = {schema.names.index(name): names for name, names in _class_names(schema).items()}
    for row in chain.from_iterable(zip(*batch.columns) for batch in batches):
        try:
            cells: list[Any] | str = [
                named_class(cell.as_py(), classes[at]) if at in classes else cell.as_py() for at, cell in enumerate(row)
            ]
        except (ValueError, OverflowError):  # such as a date beyond the calendar
            cells = BROKEN
        yield cells


def _class_names(schema: Any) -> dict[str, list[str]]:
    """Return {column: class names}, which the Hugging Face library `datasets` stores in the metadata of a schema."""
    try:
        about = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = {name: about["info"]["features"].get(name) for name in schema.names}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}
    return {name: names for name, feature in features.items() if (names := class_names(feature))}


def class_names(feature: Any) -> list[str]:
    """Return the class names in a Hugging Face description of a column, or of the elements of its lists ([]: none)."""
    match feature:
        case {"_type": "ClassLabel", "names": list(names)}:
            return [*map(str, names)]
        case [inner] | {"feature": inner}:
            return class_names(inner)
    return []


def named_class(cell: Any, names: Sequence[str]) -> Any:
    """Replace a class number, or each class number in a list, with its name; -1, which means no label, becomes ""."""
    if isinstance(cell, list):
        return [named_class(each, names) for each in cell]
    if not isinstance(cell, int) or cell >= len(names):
        return cell
    return names[cell] if cell >= 0 else ""


@foreign
def arrow(source: Source) -> ParsedFile:
    """Read an Arrow IPC file, an Arrow stream or a Feather file."""
    import pyarrow
    from pyarrow import feather

    binary = source.whole()
    if source.head().startswith(b"FEA1"):  # the first version of Feather
        table = feather.read_table(binary, memory_map=False)
        schema, batches = table.schema, table.to_batches(CHUNK_LINES)
    elif source.head().startswith(b"ARROW1"):
        file = pyarrow.ipc.open_file(binary)
        schema, batches = file.schema, (file.get_batch(number) for number in range(file.num_record_batches))
    else:
        batches = pyarrow.ipc.open_stream(binary)
        schema = batches.schema
    source.limits.check("columns", len(schema.names), source.name)

    def checked() -> Iterator[Any]:
        for batch in batches:
            source.check_size(max(batch.nbytes, sum(map(_values, batch.columns))))
            yield batch

    return ParsedFile(schema.names, enumerate(_batch_rows(source, schema, checked()), 1))


def _values(array: Any) -> int:
    """Count the values of an Arrow array and of the lists and structs in it, which may take no bytes in the file."""
    kind = array.type
    inner = [array.values] if hasattr(array, "values") and kind.num_fields == 1 else []
    inner = [array.field(at) for at in range(kind.num_fields)] if hasattr(array, "field") else inner
    return len(array) + sum(map(_values, inner))


@foreign
def arff(source: Source) -> ParsedFile:
    """Read an ARFF file (attribute-relation file format of Weka)."""
    import arff as library

    text = source.text()
    lines = [line for line in text.splitlines() if line.strip()]
    sparse_rows = sum(line.lstrip().startswith("{") for line in lines)
    columns = sum(line.lstrip()[:10].lower() == "@attribute" for line in lines)
    source.limits.check("columns", columns, source.name)
    source.check_size(8 * sparse_rows * columns)  # each cell is a number of 8 bytes
    table = library.load(iter(lines), return_type=library.LOD_GEN if sparse_rows else library.DENSE_GEN)
    names = [name for name, _ in table["attributes"]]
    defaults = [kind[0] if isinstance(kind, list) else 0 for _, kind in table["attributes"]]  # in sparse rows

    if not sparse_rows:
        return ParsedFile(names, enumerate(table["data"], 1))
    rows = ([row.get(at, defaults[at]) for at in range(len(names))] for row in table["data"])
    return ParsedFile(names, enumerate(rows, 1))


# ---- Workbooks


FIRST_ROWS = 100  # in which a sheet must have at least two rows that are not empty


@foreign
def xlsx(source: Source) -> ParsedFile:
    """Read a sheet of an Excel workbook: the one named in the layout, else the first one with at least two rows, with a
    `Doubt` if several have at least two rows."""
    from openpyxl import load_workbook

    binary = source.whole()
    with ZipFile(binary) as archive:
        source.check_size(sum(member.file_size for member in archive.infolist()))
        if damaged := archive.testzip():  # its real size may differ from the declared one
            raise ValueError(f"its part {damaged} is damaged")
    binary.seek(0)
    workbook = load_workbook(binary, read_only=True, data_only=True, keep_links=False)
    sheets = {sheet.title: sheet for sheet in workbook.worksheets}
    first = {
        name: sheet.iter_rows(values_only=True, max_row=FIRST_ROWS)
        for name, sheet in sheets.items()
        if sheet.sheet_state == "visible"
    }
    name, doubts = _chosen(source, [*sheets], first)
    sheets[name].reset_dimensions()  # the declared size may be wrong
    rows = (
        [unescaped(cell) if isinstance(cell, str) else cell for cell in row]
        for row in sheets[name].iter_rows(values_only=True)
    )
    return to_table(source, _worded(enumerate(rows, 1), source), {"sheet": name}, doubts, padded=True)


def _chosen(source: Source, names: Sequence[str], first: Mapping[str, Iterator[Any]]) -> tuple[str, tuple[Doubt, ...]]:
    """Return the name of the sheet to read, and a `Doubt` if it is a guess. first: {visible sheet: its first rows}."""
    wanted, doubts = source.layout.sheet, tuple[Doubt, ...]()
    if wanted is None:
        filled = []
        for name, rows in first.items():
            full = (row for row in rows if any(cell not in (None, "") for cell in row))
            if len([*islice(full, 2)]) == 2:
                filled.append(name)
        wanted = next(iter(filled or names), None)
        if len(filled) > 1:
            question = f"{source.name} has the sheets {name_list(filled)}: say which to read (--sheet NAME)."
            doubts = (Doubt("sheet", question, tuple(filled)),)
    if wanted is None:
        raise DataError(f"{source.name} has no sheet with cells.")
    if wanted not in names:
        raise DataError(f"{source.name} has no sheet {wanted!r}; its sheets are {name_list(names)}.")
    return wanted, doubts


def _worded(rows: Iterable[tuple[int, Sequence[Any]]], source: Source) -> Iterator[tuple[int, list[str] | str]]:
    """Convert cells to words. Yield the rows that are not empty, without their trailing empty cells."""
    size = 0
    for number, row in rows:
        if number > MAX_SHEET_ROWS:  # a damaged file may declare billions of rows
            raise ValueError(f"row number exceeds the sheet limit of {MAX_SHEET_ROWS:,}")
        source.limits.check("columns", len(row), source.name)
        source.check_size(size := size + len(row))  # empty cells take nothing in the file
        cells = [cell_text(cell) for cell in row]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            yield number, cells
