"""Find near-duplicates exactly: texts that share at least four fifths of their distinct words.

The words of a text are sorted, the rarest first. Two near-duplicates of n words share one of the first n // 5 + 1 words
of each (the prefix filter of Chaudhuri, Ganti and Kaushik 2006; Bayardo, Ma and Srikant 2007), so that few texts are
compared, most of them by bits alone (Sandes, Teodoro and Melo 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..reading import DataError, plural
from .vectorizer import WordSets

KINDS = KEEP, ONCE = "keep", "once"  # near-duplicates are kept, or left out
MAX_TEXTS = 100_000  # that are compared if all are kept: four times as many take ten times as long
BITS = 256  # of the bit set of a text, one for each word; several words may share one
CHUNK_TEXTS = 10_000  # whose bits are computed at a time

StoredText: TypeAlias = tuple[int, int, bytes, int, list[int]]  # position, size, bits, near-duplicates, first words


class Text(NamedTuple):
    """A text that is compared: the number of its distinct words, and their bits."""

    size: int
    bits: int


PrefixIndex: TypeAlias = dict[int, dict[int, Text]]  # {word: {position: text with this word among its first}}


class Firsts:
    """An index of the texts that are not near-duplicates of an earlier one.

    words: returns the words of the text at a position.
    """

    def __init__(self, words: Callable[[int], np.ndarray], index: PrefixIndex | None = None):
        self._words, self._index = words, {} if index is None else index

    def find(self, words: np.ndarray, text: Text) -> int | None:
        """Return the position of a text of which one with these words is a near-duplicate, or None."""
        size, bits = text
        seen = set[int]()
        for word in beginning(words):
            for position, other in self._index.get(word, {}).items():
                # Of n + m words in two sets, at most a ninth may be in one set alone.
                limit = (size + other.size) // 9
                if position in seen or abs(size - other.size) > limit or (bits ^ other.bits).bit_count() > limit:
                    continue
                seen.add(position)
                if np.setxor1d(words, self._words(position), assume_unique=True).size <= limit:
                    return position
        return None

    def add(self, position: int, words: np.ndarray, text: Text) -> None:
        """Add a text that is not a near-duplicate."""
        for word in beginning(words):
            self._index.setdefault(word, {})[position] = text


def beginning(words: np.ndarray) -> list[int]:
    """Return the first words of a text: each near-duplicate has one of them among its own first words."""
    return words[: words.size // 5 + 1].tolist()


def texts_of(words: WordSets) -> Iterator[tuple[np.ndarray, Text]]:
    """Yield the words and the `Text` of each text."""
    texts = range(words.ends.size - 1)
    for first in range(0, len(texts), CHUNK_TEXTS):
        chunk = [*map(words.of, texts[first : first + CHUNK_TEXTS])]
        bits = np.zeros((len(chunk), BITS), bool)
        bits[np.repeat(np.arange(len(chunk)), [own.size for own in chunk]), np.concatenate(chunk) % BITS] = True
        for own, packed in zip(chunk, np.packbits(bits, axis=1, bitorder="little")):
            yield own, Text(own.size, int.from_bytes(packed.tobytes(), "little"))


def counted(words: WordSets) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of texts that are not near-duplicates of an earlier one, and the number of near-duplicates
    of each."""
    firsts, first = Firsts(words.of), np.arange(words.ends.size - 1)
    for position, (own, text) in enumerate(texts_of(words)):
        original = firsts.find(own, text)
        if original is None:
            firsts.add(position, own, text)
        else:
            first[position] = original
    positions, counts = np.unique(first, return_counts=True)
    return positions, counts - 1


def stored(words: WordSets, copies: np.ndarray | None = None) -> Iterator[StoredText]:
    """Yield the stored form of texts. copies: the number of near-duplicates of each, if these were left out."""
    positions, counts = counted(words) if copies is None else (np.arange(copies.size), copies)
    copies_at = dict(zip(positions.tolist(), counts.tolist()))
    for position, (own, text) in enumerate(texts_of(words)):
        if position in copies_at:
            yield entry(position, own, text, copies_at[position])


def entry(position: int, words: np.ndarray, text: Text, copies: int = 0) -> StoredText:
    """Return the stored form of a text that is not a near-duplicate."""
    return position, text.size, text.bits.to_bytes(BITS // 8, "little"), copies, beginning(words)


def from_rows(rows: Iterable[dict[str, Any]]) -> PrefixIndex:
    """Build an index of stored texts."""
    index: PrefixIndex = {}
    for row in rows:
        text = Text(row["size"], int.from_bytes(row["bits"], "little"))
        index.setdefault(row["word"], {})[row["item"]] = text
    return index


def check(kind: str, texts: bool) -> None:
    """Refuse an unknown treatment of near-duplicates, and any but KEEP for vectors."""
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
