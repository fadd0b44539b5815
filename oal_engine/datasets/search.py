"""Full-text search of the items of a data set, with an SQLite FTS5 index in a temporary file."""

from __future__ import annotations

import re
import sqlite3
from threading import Lock
from typing import TYPE_CHECKING

from .features import scripts

if TYPE_CHECKING:
    from .stored import Dataset

BLOCK_ITEMS = 2_000  # indexed at a time
MOST_FOUND = 1_000
# Scripts without spaces between words: each letter is indexed as a word, and a word is found as a phrase of letters.
UNSPACED = re.compile(f"([{scripts.UNSPACED}])")
# Vowel signs of Arabic and Hebrew, which few people type, zero-width joiners, and variation selectors of symbols.
OPTIONAL = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1-\u05c2\u05c4-\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4"
    "\u06e7-\u06e8\u06ea-\u06ed\u200d\ufe00-\ufe0f]"
)
QUOTED = re.compile(r'"([^"]+)"|(\S+)')


class Search:
    """A full-text search over the texts, ids and further columns of the items of a data set."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset, self._indexed, self._lock = dataset, 0, Lock()
        self._index = sqlite3.connect("", check_same_thread=False)
        # Combining marks are parts of words: words in Hindi may differ in vowel signs only. Accents are removed.
        tokenizer = "unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
        self._index.execute(f"CREATE VIRTUAL TABLE found USING fts5(words, content='', tokenize=\"{tokenizer}\")")

    def find(self, wanted: str) -> list[int]:
        """Return the positions of up to MOST_FOUND items that contain all wanted words, the best match first.

        Case, accents and the vowel signs of Arabic and Hebrew are ignored. A word matches as a prefix: `run` finds
        running. Words in quotes must match exactly, next to each other.
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
        """Index the items that were appended since the last search."""
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
    """Normalize a text for the index: drop optional marks and quotes, separate letters of scripts without spaces."""
    return UNSPACED.sub(r" \1 ", OPTIONAL.sub("", scripts.same(text))).replace('"', " ")
