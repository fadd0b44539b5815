"""Save rows as .npy files, memory-map them, and append to them."""

from __future__ import annotations

import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike

from ..kernel.rows import (
    KINDS,
    DenseRows,
    MixedRows,
    Rows,
    SparseRows,
    arrays,
    dense_rows,
    length,
    mixed_rows,
    read_only,
    sparse_rows,
)

HEADER = re.compile(r"\{'descr': '([<|=][a-z]\d+)', 'fortran_order': False, 'shape': \(\d+,\), \}\s*\n$")
KIND_FILE = "rows.json"  # names the kind of the saved rows


class RowWriter:
    """Write rows of one kind (sparse, dense or mixed), block by block, as .npy files that `load` maps into memory.

    items: the number of written rows. checksums: the CRC-32 of each written array, {name: checksum}.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder, self.items = Path(folder), 0
        self.checksums: dict[str, int] = {}
        self._files, self._dtypes = dict[str, BinaryIO](), dict[str, np.dtype[Any]]()
        self._sizes = Counter[str]()

    def append(self, rows: Rows) -> None:
        """Append rows to the files."""
        if not self._files:
            kind = next(name for name, kind in KINDS.items() if isinstance(rows, kind))
            numbers = {name: value for name, value in rows._asdict().items() if isinstance(value, int)}
            (self.folder / KIND_FILE).write_text(json.dumps({"kind": kind} | numbers))
        written = arrays(rows)
        if self.items and not isinstance(rows, DenseRows):
            written["indptr"] = rows.indptr[1:] + self._sizes["indices"]
        self.checksums = checksums(written, self.checksums)
        for name, array in written.items():
            if name not in self._files:
                self._files[name] = (self.folder / f"{name}.npy").open("wb")
                self._dtypes[name] = array.dtype
                _write_header(self._files[name], array.dtype, 0)
            self._files[name].write(array.data)
            self._sizes[name] += array.size
        self.items += length(rows)

    def __enter__(self) -> RowWriter:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *error: object) -> None:
        for name, file in self._files.items():
            with file:
                _write_header(file, self._dtypes[name], self._sizes[name])


def _write_header(file: BinaryIO, dtype: np.dtype[Any], size: int) -> None:
    """Write the header of a flat array. A header is equally long for every `size`, so that it can be overwritten."""
    file.seek(0)
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (size,)}
    np.lib.format.write_array_header_1_0(file, header)


def save(rows: Rows, folder: Path | str) -> dict[str, int]:
    """Write rows as .npy files that `load` maps into memory. Return their checksums."""
    with RowWriter(folder) as writer:
        writer.append(rows)
    return writer.checksums


def load(folder: Path | str, items: int) -> Rows:
    """Memory-map the first `items` saved rows: in milliseconds, read-only, shared between processes."""
    folder = Path(folder)
    saved = json.loads((folder / KIND_FILE).read_text())
    if saved["kind"] == "dense":
        return dense_rows(mapped(folder / "values.npy", np.float64, items * saved["columns"]), saved["columns"])
    indptr = mapped(folder / "indptr.npy", np.int64, items + 1)
    if indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():  # compiled loops do not check it
        raise ValueError("indptr.npy is damaged: its numbers must begin with 0 and never fall")
    indices, values = (
        mapped(folder / name, dtype, int(indptr[-1]))
        for name, dtype in (("indices.npy", np.uint32), ("values.npy", np.float64))
    )
    width = saved.get("width", 0)
    sparse = sparse_rows(indptr, indices, values, saved["columns"] - width)
    if saved["kind"] == "sparse":
        return sparse
    return mixed_rows(sparse, mapped(folder / "block.npy", np.float32, items * width).reshape(items, width))


def extend(more: Rows, folder: Path | str, items: int) -> dict[str, np.ndarray]:
    """Append rows, of the same kind, after the first `items` saved rows. Return the written arrays, {name: array}."""
    saved, written = load(folder, items), arrays(more)
    if not isinstance(more, DenseRows) and not isinstance(saved, DenseRows):
        written["indptr"] = more.indptr[1:] + saved.indptr[-1]
    for name, value in written.items():
        write_behind(Path(folder) / f"{name}.npy", value, getattr(saved, name).size)
    return written


def checksums(arrays: Mapping[str, np.ndarray], before: Mapping[str, int] | None = None) -> dict[str, int]:
    """Compute the CRC-32 of each array, {name: checksum}. before: checksums to continue, if the arrays are appended."""
    before = before or {}
    return {name: zlib.crc32(np.ascontiguousarray(array).data, before.get(name, 0)) for name, array in arrays.items()}


def mapped(path: Path | str, dtype: DTypeLike, size: int) -> np.ndarray:
    """Memory-map the first `size` numbers of a .npy file, which may hold more numbers than its header declares."""
    with open(path, "rb") as file:
        start = _start(file, dtype)
        check_length(path, start + size * np.dtype(dtype).itemsize)
        return read_only(np.memmap(file, dtype, "r", start, (size,)), dtype)


def extent(array: np.ndarray) -> tuple[str, int]:
    """Return the file that an array is mapped from, and the length in bytes that the file must have."""
    base: Any = array
    while not isinstance(base, np.memmap):
        base = base.base
    return str(base.filename), base.offset + base.nbytes


def check_length(path: Path | str, size: int) -> None:
    """Raise ValueError if a file is shorter than `size` bytes: reading a memory map beyond it kills the process."""
    actual = os.stat(path).st_size
    if actual < size:
        raise ValueError(f"{Path(path).name} must be {size:,} bytes long. It is {actual:,}")


def write_behind(path: Path | str, array: np.ndarray, size: int) -> None:
    """Write an array after the first `size` numbers of a .npy file, and wait until it is on the disk (fsync)."""
    with open(path, "r+b") as file:
        file.seek(_start(file, array.dtype) + size * array.itemsize)
        file.write(np.ascontiguousarray(array).data)
        file.flush()
        os.fsync(file.fileno())


def _start(file: BinaryIO, dtype: DTypeLike) -> int:
    """Return the offset of the numbers in an open .npy file. Raise ValueError if they do not have this type."""
    np.lib.format.read_magic(file)
    # The reader of numpy evaluates the header with `ast`, which sometimes fails in threads of Python 3.11.
    header = file.read(int.from_bytes(file.read(2), "little")).decode("latin-1")
    if not (stored := HEADER.match(header)) or stored[1] != np.dtype(dtype).str:
        got = np.dtype(stored[1]) if stored else header[:40]
        raise ValueError(f"{Path(file.name).name} must hold {np.dtype(dtype)}. Got {got}")
    return file.tell()


def check_columns(rows: Rows) -> None:
    """Raise ValueError if sparse rows have a column number out of range, which compiled loops would not notice."""
    if isinstance(rows, MixedRows):
        check_columns(rows.sparse_part())
    elif isinstance(rows, SparseRows) and rows.indices.size and rows.indices.max() >= rows.columns:
        raise ValueError(f"indices.npy is damaged: columns must be < {rows.columns:,}. Got {rows.indices.max():,}")
