"""Blocks of strings and arrays in temporary files, so that an import needs little memory however many items it has.

The files have no name on the disk: the system removes them, even if the process is killed.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import eq
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from scipy import sparse

BLOCK_STRINGS, BLOCK_CHARACTERS = 10_000, 2**20  # a block of strings is written when it reaches one of these sizes


class BlockFile:
    """A temporary file of blocks. Each block holds a list of strings (or None), and arrays."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: Any = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - open as long as this object
        self._places: list[tuple[int, int]] = []  # where each block begins, and the number of its arrays
        weakref.finalize(self, self._file.close)

    def __len__(self) -> int:
        return len(self._places)

    def append(self, strings: Sequence[str | None], *arrays: np.ndarray) -> None:
        """Append a block of strings and arrays."""
        lengths = np.fromiter((-1 if string is None else len(string) for string in strings), np.int64, len(strings))
        characters = np.frombuffer("".join(filter(None, strings)).encode(errors="surrogatepass"), np.uint8)
        self._places.append((self._file.seek(0, os.SEEK_END), len(arrays)))
        parts: list[np.ndarray] = [lengths, characters, *arrays]
        for array in parts:
            np.save(self._file, array, allow_pickle=False)

    def read(self, number: int) -> tuple[list[Any], list[np.ndarray]]:
        """Read the strings and the arrays of the block with this number."""
        place, n_arrays = self._places[number]
        self._file.seek(place)
        lengths, characters, *arrays = (np.load(self._file, allow_pickle=False) for _ in range(2 + n_arrays))
        text, ends = characters.tobytes().decode(errors="surrogatepass"), np.maximum(lengths, 0).cumsum()
        strings = [text[start:end] for start, end in zip((ends - np.maximum(lengths, 0)).tolist(), ends.tolist())]
        for position in np.flatnonzero(lengths < 0).tolist():
            strings[position] = None
        return strings, arrays

    def __iter__(self) -> Iterator[tuple[list[Any], list[np.ndarray]]]:
        return map(self.read, range(len(self)))


class StoredStrings(Sequence[Any]):
    """A sequence in a temporary file. Each element is a string or None."""

    def __init__(self, folder: Path) -> None:
        self._blocks, self._ends = BlockFile(folder), [0]
        self._last: list[str | None] = []  # strings that are not written yet
        self._characters = 0
        self._recent: tuple[int, list[str | None]] = -1, []  # number of a block, and its strings

    def append(self, string: str | None) -> None:
        """Add a string at the end."""
        self._last.append(string)
        self._characters += len(string or "")
        if len(self._last) >= BLOCK_STRINGS or self._characters >= BLOCK_CHARACTERS:
            self._blocks.append(self._last)
            self._ends.append(len(self))
            self._last, self._characters = [], 0

    def __len__(self) -> int:
        return self._ends[-1] + len(self._last)

    def __iter__(self) -> Iterator[Any]:
        for strings, _ in self._blocks:
            yield from strings
        yield from self._last

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            return [self[place] for place in range(*position.indices(len(self)))]
        if position >= self._ends[-1]:
            return self._last[position - self._ends[-1]]
        number = bisect_right(self._ends, position) - 1
        if number != self._recent[0]:
            self._recent = number, self._blocks.read(number)[0]
        return self._recent[1][position - self._ends[number]]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    def take(self, places: Iterable[int]) -> StoredStrings:
        """Copy the strings at these positions to a new temporary file."""
        subset = StoredStrings(self._blocks.folder)
        for place in places:
            subset.append(self[place])
        return subset


Strings: TypeAlias = "list[Any] | StoredStrings"


def strings(folder: Path | None, values: Iterable[str | None] = ()) -> Strings:
    """Return the values as a sequence: in a temporary file in `folder` (None: in memory)."""
    if folder is None:
        return [*values]
    stored = StoredStrings(folder)
    for value in values:
        stored.append(value)
    return stored


def take(column: Strings, places: Sequence[int]) -> Strings:
    """Return the strings of a column at these positions."""
    return column.take(places) if isinstance(column, StoredStrings) else [column[place] for place in places]


class StoredMatrices:
    """Sparse matrices in a temporary file."""

    def __init__(self, folder: Path) -> None:
        self._blocks = BlockFile(folder)

    def append(self, matrix: sparse.csr_array) -> None:
        """Append a matrix to the file."""
        self._blocks.append((), matrix.indptr, matrix.indices, matrix.data, np.array(matrix.shape))

    def __iter__(self) -> Iterator[sparse.csr_array]:
        from scipy import sparse

        for _, (indptr, indices, numbers, shape) in self._blocks:
            yield sparse.csr_array((numbers, indices, indptr), tuple(shape.tolist()))
