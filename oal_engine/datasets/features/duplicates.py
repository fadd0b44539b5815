"""Find near-duplicates exactly: texts that share at least four fifths of their distinct words (Jaccard similarity).

The words of a text are sorted, the rarest first. Two near-duplicates have a common word among the first n // 5 + 1 of
the n words of each (the prefix filter of Chaudhuri, Ganti and Kaushik 2006; Bayardo, Ma and Srikant 2007). So only few
pairs of texts are compared, most of them by bitmaps alone (Sandes, Teodoro and Melo 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..reading import DataError, plural
from .vectorizer import WordSets

KINDS = KEEP, ONCE = "keep", "once"  # near-duplicates are kept, or left out
MAX_TEXTS = 100_000  # more are compared only to leave near-duplicates out: four times as many take ten times as long
BITS = 256  # in the bitmap of a text: each word sets one bit, which several words may share
CHUNK_TEXTS = 10_000  # texts whose bitmaps are computed at a time

StoredText: TypeAlias = tuple[int, int, bytes, int, list[int]]  # position, size, bits, near-duplicates, first words


class Text(NamedTuple):
    """A text to compare: the number of its distinct words, and a bitmap of BITS bits in which each word sets one."""

    size: int
    bits: int


PrefixIndex: TypeAlias = dict[int, dict[int, Text]]  # {word: {position: text with this word among its first words}}


class Firsts:
    """An index of the texts that are not near-duplicates of any earlier text.

    words: a function that returns the words of the text at a position, the rarest first.
    """

    def __init__(self, words: Callable[[int], np.ndarray], index: PrefixIndex | None = None):
        self._words, self._index = words, {} if index is None else index

    def find(self, words: np.ndarray, text: Text) -> int | None:
        """Find an indexed near-duplicate of a text with these words. Return its position, or None if there is none."""
        size, bits = text
        seen = set[int]()
        for word in beginning(words):
            for position, other in self._index.get(word, {}).items():
                # Near-duplicates of n and m words: at most (n + m) // 9 words are in only one of the two sets.
                limit = (size + other.size) // 9
                if position in seen or abs(size - other.size) > limit or (bits ^ other.bits).bit_count() > limit:
                    continue
                seen.add(position)
                if np.setxor1d(words, self._words(position), assume_unique=True).size <= limit:
                    return position
        return None

    def add(self, position: int, words: np.ndarray, text: Text) -> None:
        """Add a text that is not a near-duplicate of an indexed text."""
        for word in beginning(words):
            self._index.setdefault(word, {})[position] = text


def beginning(words: np.ndarray) -> list[int]:
    """Return the first (rarest) words of a text. Two near-duplicates share at least one of their first words."""
    return words[: words.size // 5 + 1].tolist()


def texts_of(words: WordSets) -> Iterator[tuple[np.ndarray, Text]]:
    """Yield (words, `Text`) for each text."""
    texts = range(words.ends.size - 1)
    for first in range(0, len(texts), CHUNK_TEXTS):
        chunk = [*map(words.of, texts[first : first + CHUNK_TEXTS])]
        bits = np.zeros((len(chunk), BITS), bool)
        bits[np.repeat(np.arange(len(chunk)), [own.size for own in chunk]), np.concatenate(chunk) % BITS] = True
        for own, packed in zip(chunk, np.packbits(bits, axis=1, bitorder="little")):
            yield own, Text(own.size, int.from_bytes(packed.tobytes(), "little"))


def counted(words: WordSets) -> tuple[np.ndarray, np.ndarray]:
    """Count near-duplicates. Return the positions of the texts that are not near-duplicates of an earlier text, and the
    number of near-duplicates of each of these texts."""
    firsts, first = Firsts(words.of), np.arange(words.ends.size - 1)
    for position, (own, text) in enumerate(texts_of(words)):
        if (original := firsts.find(own, text)) is None:
            firsts.add(position, own, text)
        else:
            first[position] = original
    positions, counts = np.unique(first, return_counts=True)
    return positions, counts - 1


def stored(words: WordSets, copies: np.ndarray | None = None) -> Iterator[StoredText]:
    """Yield the stored form of each text that is not a near-duplicate of an earlier text.
    copies: number of near-duplicates of each text, if near-duplicates were already left out (None: find them)."""
    positions, counts = counted(words) if copies is None else (np.arange(copies.size), copies)
    copies_at = dict(zip(positions.tolist(), counts.tolist()))
    for position, (own, text) in enumerate(texts_of(words)):
        if position in copies_at:
            yield entry(position, own, text, copies_at[position])


def entry(position: int, words: np.ndarray, text: Text, copies: int = 0) -> StoredText:
    """Return the stored form of a text that is not a near-duplicate of an earlier one. copies: number of later texts
    that are near-duplicates of this one."""
    return position, text.size, text.bits.to_bytes(BITS // 8, "little"), copies, beginning(words)


def from_rows(rows: Iterable[dict[str, Any]]) -> PrefixIndex:
    """Build a prefix index from database rows: word, item, size, bits."""
    index: PrefixIndex = {}
    for row in rows:
        text = Text(row["size"], int.from_bytes(row["bits"], "little"))
        index.setdefault(row["word"], {})[row["item"]] = text
    return index


def check(kind: str, texts: bool) -> None:
    """Raise ValueError if `kind` is not one of KINDS, or if it is ONCE and the items are vectors (`texts` is False)."""
    if kind not in KINDS:
        raise ValueError(f"near-duplicates must be one of {', '.join(KINDS)}. Got {kind}.")
    if kind != KEEP and not texts:
        raise DataError(f"near-duplicates are texts: {kind} is not for vectors.")


def compared(kind: str, texts: int) -> bool:
    """Tell whether near-duplicates are searched for among this number of texts."""
    return kind == ONCE or texts <= MAX_TEXTS


def sentence(count: int, kind: str) -> str:
    """Report the number of near-duplicates, and whether they were left out."""
    if kind == ONCE:
        return f"Left out {plural(count, 'near-duplicate')}, counted with the first."
    return f"{plural(count, 'item')} {'is' if count == 1 else 'are'} nearly the same as an earlier one."
