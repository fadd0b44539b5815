"""Near-duplicates: texts that have at least four fifths of their distinct words in common, found exactly.

Words stand in one order, the rarest first. Two sets of n words that are so alike share one of the first n // 5 + 1 of
each (the prefix filter of Chaudhuri, Ganti and Kaushik 2006; Bayardo, Ma and Srikant 2007), so that few texts are
compared, most of them by bits alone (Sandes, Teodoro and Melo 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..reading import DataError, plural
from .vectorizer import WordSets

KINDS = KEEP, ONCE = "keep", "once"  # what becomes of near-duplicates
MOST = 100_000  # texts that are compared where all are kept: four times as many take ten times as long
BITS = 256  # of a text, one for each of its words; several words may share one
CHUNK = 10_000  # texts whose bits are found at a time

Entry: TypeAlias = tuple[int, int, bytes, int, list[int]]  # position, size, bits, near-duplicates, first words


class Text(NamedTuple):
    """A text that is compared: how many words it has, and a bit for each."""

    size: int
    bits: int


Held: TypeAlias = dict[int, dict[int, Text]]  # {word: {position: text that begins with it}}


class Firsts:
    """Texts that are no near-duplicates of an earlier one, by their positions.

    words: a function that gives the words of such a text.
    """

    def __init__(self, words: Callable[[int], np.ndarray], held: Held | None = None):
        self._words, self._held = words, {} if held is None else held

    def find(self, words: np.ndarray, text: Text) -> int | None:
        """The position of the first text of which one with these words is a near-duplicate; None if there is none."""
        size, bits = text
        seen = set[int]()
        for word in beginning(words):
            for position, other in self._held.get(word, {}).items():
                # Of n + m words in two sets, at most a ninth may be in one set alone.
                most = (size + other.size) // 9
                if position in seen or abs(size - other.size) > most or (bits ^ other.bits).bit_count() > most:
                    continue
                seen.add(position)
                if np.setxor1d(words, self._words(position), assume_unique=True).size <= most:
                    return position
        return None

    def add(self, position: int, words: np.ndarray, text: Text) -> None:
        """Hold a text that is no near-duplicate."""
        for word in beginning(words):
            self._held.setdefault(word, {})[position] = text


def beginning(words: np.ndarray) -> list[int]:
    """The first words of a text, one of which every near-duplicate begins with, too."""
    return words[: words.size // 5 + 1].tolist()


def texts_of(words: WordSets) -> Iterator[tuple[np.ndarray, Text]]:
    """The words of texts, and the texts."""
    texts = range(words.ends.size - 1)
    for first in range(0, len(texts), CHUNK):
        some = [*map(words.of, texts[first : first + CHUNK])]
        bits = np.zeros((len(some), BITS), bool)
        bits[np.repeat(np.arange(len(some)), [own.size for own in some]), np.concatenate(some) % BITS] = True
        for own, line in zip(some, np.packbits(bits, axis=1, bitorder="little")):
            yield own, Text(own.size, int.from_bytes(line.tobytes(), "little"))


def counted(words: WordSets) -> tuple[np.ndarray, np.ndarray]:
    """The positions of texts that are no near-duplicates of an earlier one, and how many each of them has."""
    firsts, first = Firsts(words.of), np.arange(words.ends.size - 1)
    for position, (own, text) in enumerate(texts_of(words)):
        found = firsts.find(own, text)
        if found is None:
            firsts.add(position, own, text)
        else:
            first[position] = found
    positions, counts = np.unique(first, return_counts=True)
    return positions, counts - 1


def stored(words: WordSets, copies: np.ndarray | None = None) -> Iterator[Entry]:
    """What is stored of texts; copies: how many near-duplicates each had, where these were left out."""
    positions, counts = counted(words) if copies is None else (np.arange(copies.size), copies)
    found = dict(zip(positions.tolist(), counts.tolist()))
    for position, (own, text) in enumerate(texts_of(words)):
        if position in found:
            yield entry(position, own, text, found[position])


def entry(position: int, words: np.ndarray, text: Text, copies: int = 0) -> Entry:
    """What is stored of a text that is no near-duplicate."""
    return position, text.size, text.bits.to_bytes(BITS // 8, "little"), copies, beginning(words)


def held(rows: Iterable[dict[str, Any]]) -> Held:
    """Texts as they were stored."""
    texts: Held = {}
    for row in rows:
        text = Text(row["size"], int.from_bytes(row["bits"], "little"))
        texts.setdefault(row["word"], {})[row["item"]] = text
    return texts


def check(kind: str, texts: bool) -> None:
    """Refuse what cannot become of near-duplicates."""
    if kind not in KINDS:
        raise ValueError(f"near-duplicates must be one of {', '.join(KINDS)}. Got {kind}.")
    if kind != KEEP and not texts:
        raise DataError(f"near-duplicates are texts: {kind} is not for vectors.")


def compared(kind: str, texts: int) -> bool:
    """Whether near-duplicates are looked for among so many texts."""
    return kind == ONCE or texts <= MOST


def sentence(count: int, kind: str) -> str:
    """How many near-duplicates there are, and what became of them."""
    if kind == ONCE:
        return f"Left out {plural(count, 'near-duplicate')}, counted with the first."
    return f"{plural(count, 'item')} {'is' if count == 1 else 'are'} nearly the same as an earlier one."
