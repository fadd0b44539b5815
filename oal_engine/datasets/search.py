"""Search of the items of a data set: by words, with an SQLite FTS5 index in a temporary file, and by meaning."""

from __future__ import annotations

import re
import sqlite3
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

from .features import scripts
from .reading import DataError

if TYPE_CHECKING:
    from .stored import Dataset

MOST_FOUND, MOST_WORDS, MOST_NEAREST = 1_000, 50, 50
MOST_SECONDS = 2  # that a search takes
CLOCK_STEPS = 1_000  # instructions of SQLite between two looks at the clock
# Scripts without spaces between words: each letter is indexed as a word, and a word is found as a phrase of letters.
UNSPACED = re.compile(f"([{scripts.UNSPACED}])")
BLANKS = {ord('"'): " ", 0: " "}
QUOTED = re.compile(r'"([^"]+)"|(\S+)')


class Search:
    """A search over the texts, ids and further columns of the items of a data set."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset, self._indexed, self._lock = dataset, 0, Lock()
        self._index = sqlite3.connect("", check_same_thread=False)
        # Combining marks are parts of words: words in Hindi may differ in vowel signs only. Accents are removed.
        tokenizer = "unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
        self._index.execute(f"CREATE VIRTUAL TABLE found USING fts5(words, content='', tokenize=\"{tokenizer}\")")

    def find(self, wanted: str) -> list[int]:
        """Return the positions of up to MOST_FOUND items that contain all wanted words, the best match first, and then
        of MOST_NEAREST texts that mean nearly the same, if the data set has an encoder and no word is in quotes.

        Case, accents and the vowel signs of Arabic and Hebrew are ignored. A word matches as a prefix: `run` finds
        running. Words in quotes must match exactly, next to each other. Raise DataError if there are too many words, or
        if the search takes too long.
        """
        phrases = {
            f'"{_spaced(quoted or word)}"' + ("" if quoted else "*"): None
            for quoted, word in QUOTED.findall(wanted)
            if re.search(r"\w", quoted or word)
        }
        if len(phrases) > MOST_WORDS:
            raise DataError(f"a search must have at most {MOST_WORDS} different words. Got {len(phrases):,}.")
        if not phrases:
            return []
        with self._lock:
            self._take_new_items()
            matches = self._matches(" ".join(phrases))
        nearest: list[int] = []
        if '"' not in wanted:
            with suppress(DataError):  # without the package of its encoder, a data set is searched by words
                nearest = self.dataset.nearest(wanted, MOST_NEAREST)
        return [*dict.fromkeys([*matches, *nearest])]

    def _matches(self, phrases: str) -> list[int]:
        """Return the positions of the items that match phrases, in the syntax of FTS5."""
        until = monotonic() + MOST_SECONDS
        self._index.set_progress_handler(lambda: monotonic() > until, CLOCK_STEPS)
        try:
            rows = self._index.execute(
                "SELECT rowid FROM found WHERE found MATCH ? ORDER BY rank, rowid LIMIT ?", (phrases, MOST_FOUND)
            )
            return [position for (position,) in rows]
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            raise DataError(
                f"a search must take at most {MOST_SECONDS} seconds: search for fewer or longer words."
            ) from None
        finally:
            self._index.set_progress_handler(None, 0)

    def _take_new_items(self) -> None:
        """Index the items that were appended since the last search."""
        first, stop = self._indexed, self.dataset.record["items"]
        contents = enumerate(self.dataset.contents(first, stop), first)
        words = ((item, _spaced(" ".join(filter(None, (id, text, *cells))))) for item, (id, text, cells) in contents)
        with self._index:  # all or nothing
            self._index.executemany("INSERT INTO found (rowid, words) VALUES (?, ?)", words)
        self._indexed = stop


def _spaced(text: str) -> str:
    """Normalize a text for the index: drop optional marks, quotes and characters that SQLite cannot hold, separate
    letters of scripts without spaces."""
    text = scripts.same(text).encode(errors="replace").decode()
    return UNSPACED.sub(r" \1 ", scripts.OPTIONAL.sub("", text)).translate(BLANKS)
