"""Search the items of a data set for words, by an index that SQLite keeps in a temporary file of its own."""

from __future__ import annotations

import re
import sqlite3
from threading import Lock
from typing import TYPE_CHECKING

from .features import scripts

if TYPE_CHECKING:
    from .stored import Dataset

BLOCK_ITEMS = 2_000  # that are indexed at a time
MOST_FOUND = 1_000
# Scripts that write words without spaces: each letter is a word of its own, and a word is a phrase of letters.
UNSPACED = re.compile(f"([{scripts.UNSPACED}])")
# Vowel signs of Arabic and Hebrew, which few people type, joiners of letters, and selectors of symbols.
OPTIONAL = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1-\u05c2\u05c4-\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4"
    "\u06e7-\u06e8\u06ea-\u06ed\u200d\ufe00-\ufe0f]"
)
QUOTED = re.compile(r'"([^"]+)"|(\S+)')


class Search:
    """Finds the items of a data set by the words of their texts, ids and further columns."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset, self._indexed, self._lock = dataset, 0, Lock()
        self._index = sqlite3.connect("", check_same_thread=False)
        # Marks are parts of words: the vowel signs of Hindi tell words apart. Accents are removed from letters.
        tokenizer = "unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
        self._index.execute(f"CREATE VIRTUAL TABLE found USING fts5(words, content='', tokenize=\"{tokenizer}\")")

    def find(self, wanted: str) -> list[int]:
        """Return the positions of the items that contain all words, the best match first, at most MOST_FOUND.

        Case, accents and the vowel signs of Arabic and Hebrew do not count, and `run` finds running. Words in quotes
        must be neighbors.
        """
        phrases = [
            f'"{_spaced(quoted or word)}"' + "*" * (not quoted)
            for quoted, word in QUOTED.findall(wanted)
            if re.search(r"\w", quoted or word)
        ]
        if not phrases:
            return []
        with self._lock:
            self._take_new_items()
            rows = self._index.execute(
                "SELECT rowid FROM found WHERE found MATCH ? ORDER BY rank, rowid LIMIT ?",
                (" ".join(phrases), MOST_FOUND),
            )
            return [position for (position,) in rows]

    def _take_new_items(self) -> None:
        """Index the items that came since the last search."""
        store, dataset, items = self.dataset.store, self.dataset.id, self.dataset.record["items"]
        while self._indexed < items:
            end = min(items, self._indexed + BLOCK_ITEMS)
            positions = [*range(self._indexed, end)]
            block = store.items(dataset, positions, texts=True)
            cells = store.details(dataset, positions) if self.dataset.details else {}
            words = (
                (position, _spaced(" ".join(filter(None, (item["id"], item["text"], *cells.get(position, ()))))))
                for position, item in block.items()
            )
            self._index.executemany("INSERT INTO found (rowid, words) VALUES (?, ?)", words)
            self._indexed = end


def _spaced(text: str) -> str:
    """Return a text as it is indexed: without optional marks, and with spaces around letters of unspaced scripts."""
    return UNSPACED.sub(r" \1 ", OPTIONAL.sub("", scripts.same(text))).replace('"', " ")
