"""Blocks of strings and arrays in temporary files, so that an import needs little memory however many items it has.

The files have no name on the disk: the system removes them, also if the process is killed.
"""

from __future__ import annotations

import json
import os
import tempfile
import weakref
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

BLOCK_STRINGS, BLOCK_CHARACTERS = 10_000, 2**20  # of a block of strings: it is written when it has one of them


class BlockFile:
    """A temporary file of blocks. Each has a list of strings or None, and arrays."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: Any = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - open as long as this object
        self._places: list[int] = []
        weakref.finalize(self, self._file.close)

    def __len__(self) -> int:
        return len(self._places)

    def append(self, strings: Sequence[str | None], *arrays: np.ndarray) -> None:
        """Write a block behind the others."""
        self._places.append(self._file.seek(0, os.SEEK_END))
        content = json.dumps([strings, len(arrays)], ensure_ascii=False).encode()
        self._file.write(len(content).to_bytes(8, "little") + content)
        for array in arrays:
            np.save(self._file, array, allow_pickle=False)

    def read(self, number: int) -> tuple[list[Any], list[np.ndarray]]:
        """Return the strings and the arrays of a block."""
        self._file.seek(self._places[number])
        strings, n_arrays = json.loads(self._file.read(int.from_bytes(self._file.read(8), "little")))
        return strings, [np.load(self._file, allow_pickle=False) for _ in range(n_arrays)]

    def __iter__(self) -> Iterator[tuple[list[Any], list[np.ndarray]]]:
        return map(self.read, range(len(self)))


class StoredStrings(Sequence[Any]):
    """A sequence of strings or None in a temporary file."""

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

    def take(self, places: Iterable[int]) -> StoredStrings:
        """Return the strings at these places, in a file of their own."""
        taken = StoredStrings(self._blocks.folder)
        for place in places:
            taken.append(self[place])
        return taken


Strings: TypeAlias = "list[Any] | StoredStrings"


def strings(folder: Path | None) -> Strings:
    """Return an empty sequence of strings: in memory, or in a temporary file in a folder."""
    return StoredStrings(folder) if folder else []


def take(column: Strings, places: Sequence[int]) -> Strings:
    """Return the strings at these places."""
    return column.take(places) if isinstance(column, StoredStrings) else [column[place] for place in places]
