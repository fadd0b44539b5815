"""The tables of data sets: items, texts, vocabularies, labels, and items and labels that arrive after the import."""

import json
import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, cast

from . import digests
from .database import Database, Row, StoreError, decoded, from_json, now, writes
from .sessions import address

FOLDER = re.compile(r"[0-9a-f]{16}", re.ASCII)  # name of the folder with the rows of a data set


class DataSets(Database):
    """The methods of `Store` for data sets."""

    @property
    def folder(self) -> Path:
        """The folder with the rows of the data sets."""
        return self.path.with_name(self.path.stem + ".rows")

    def rows_folder(self, name: str) -> Path:
        """Return the path of the folder with the rows of a data set. name: the stored name of the folder. Raise
        StoreError unless it is a direct subfolder of `folder`, named by 16 hexadecimal digits."""
        if not FOLDER.fullmatch(name) or (self.folder / name).resolve().parent != self.folder.resolve():
            raise StoreError(
                f"a folder of rows must be named by 16 hexadecimal digits, in {self.folder}. Got {name[:80]!r}."
            )
        return self.folder / name

    @writes
    def add_dataset(
        self,
        values: Row,
        items: Iterable[tuple[Any, ...]],
        vocabulary: Iterable[tuple[str, int]] = (),
        words: tuple[int, int] | None = None,
        firsts: Iterable[tuple[int, int, bytes, int, list[int]]] = (),
        details: Iterable[str | None] = (),
    ) -> int:
        """Insert a data set and return its id.

        items: (id, text, label, y). vocabulary: (term, document frequency). words: number of words in the items, and
        how many of them are new. firsts, details: see `put_firsts` and `put_details`.
        """
        owner = {"owner": address(values["owner"].strip())} if "owner" in values else {}
        dataset = self._add("datasets", values | owner)
        self._count(dataset, "datasets", self._digest(dataset, "datasets"))
        if words:
            self.put_batch(dataset, 0, values["items"], words)
        self._put_rows(dataset, "items", ((position, *item) for position, item in enumerate(items)))
        self._put_rows(dataset, "vocabulary", ((column, *term) for column, term in enumerate(vocabulary)))
        self.put_firsts(dataset, firsts)
        self.put_details(dataset, 0, details)
        return dataset

    # Digests: see digests.py

    def _put_rows(self, dataset: int, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Insert rows of a data set into a table, and count them in its digest. rows: values of COLUMNS[table]."""
        digest = 0

        def counted() -> Iterator[Sequence[Any]]:
            nonlocal digest
            for row in rows:
                digest ^= digests.of_row(row)
                yield dataset, *row

        columns = digests.COLUMNS[table]
        marks = ", ?" * (1 + columns.count(","))
        self.db.executemany(f"INSERT INTO {table} (dataset, {columns}) VALUES (?{marks})", counted())
        self._count(dataset, table, digest)

    def _count(self, dataset: int, table: str, digest: int) -> None:
        """Count rows of a data set in the digest of a table, or no longer. digest: of these rows."""
        stored = self._stored_digests(dataset)
        stored[table] = digests.as_text(int(stored.get(table, "0"), 16) ^ digest)
        self._update("datasets", dataset, {"digests": json.dumps(stored)})

    def _stored_digests(self, dataset: int) -> dict[str, str]:
        row = self.query("SELECT digests FROM datasets WHERE id = ?", dataset)[0]
        return {**from_json(row["digests"], "digests")}

    def _digest(self, dataset: int, table: str) -> int:
        """Return the digest of the rows that a data set has in a table now."""
        with self.snapshot(), self._failures():
            return digests.of_table(cast(sqlite3.Connection, self._own), table, dataset)

    def damaged_tables(self, dataset: int) -> list[str]:
        """Return the tables in which rows of a data set have changed since they were stored."""
        with self.snapshot():
            stored, nothing = self._stored_digests(dataset), digests.as_text(0)
            return [
                table for table in digests.COLUMNS
                if stored.get(table, nothing) != digests.as_text(self._digest(dataset, table))
            ]  # fmt: skip

    def datasets(self) -> list[Row]:
        """Return all data sets, newest first, with their classes decoded. `sessions` is the number of sessions that use
        a data set; `later_labels` is the number of labels that arrived after their items."""
        rows = self.query(
            "SELECT datasets.*, (SELECT count(*) FROM sessions WHERE dataset = datasets.id"
            f" AND {self.PRESENT}) AS sessions,"
            " (SELECT count(*) FROM later_labels WHERE dataset = datasets.id) AS later_labels"
            " FROM datasets ORDER BY id DESC"
        )
        return [decoded(row, "classes") for row in rows]

    def dataset(self, key: int | str) -> Row:
        """Return a data set by its id or name. `classes` is {name: number of items}, or None if the classes are a
        positive and a negative one."""
        return decoded(self._by_key("data set", "datasets", "*", key), "classes")

    def has_dataset(self, name: str) -> bool:
        """Return whether a data set of this name exists."""
        return self.one("SELECT 1 FROM datasets WHERE name = ?", name) is not None

    @writes
    def remove_dataset(self, dataset: int) -> None:
        """Delete a data set, with its removed sessions. Raise StoreError if any other session uses it. The caller
        deletes its rows on disk."""
        if session := self.one(f"SELECT name FROM sessions WHERE dataset = ? AND {self.PRESENT}", dataset):
            raise StoreError(f"the data set is used by the session {session['name']}. Remove its sessions first.")
        self.db.execute("DELETE FROM sessions WHERE dataset = ?", [dataset])
        self.db.execute("DELETE FROM datasets WHERE id = ?", [dataset])

    def item(self, dataset: int, position: int) -> Row:
        """Return one item: id, text, label, y."""
        return self.query("SELECT * FROM items WHERE dataset = ? AND position = ?", dataset, position)[0]

    def items(self, dataset: int, positions: Collection[int], texts: bool = False) -> dict[int, Row]:
        """Return the items at some positions, {position: item}: position, id and label, and if `texts` also text."""
        rows = self.query(
            f"SELECT position, id, label{', text' * texts} FROM items"
            " WHERE dataset = ? AND position IN (SELECT value FROM json_each(?))",
            dataset, json.dumps([*positions]),
        )  # fmt: skip
        return {row["position"]: row for row in rows}

    def ids(self, dataset: int) -> list[str]:
        """Return the ids of all items of a data set, in order."""
        (ids,) = self._columns("SELECT id FROM items WHERE dataset = ? ORDER BY position", ["id"], dataset)
        return ids

    def positions(self, dataset: int, ids: Collection[str]) -> dict[str, int]:
        """Return {id: position}. Unknown ids are omitted."""
        rows = self.query(
            "SELECT id, position FROM items WHERE dataset = ? AND id IN (SELECT value FROM json_each(?))",
            dataset, json.dumps([*ids]),
        )  # fmt: skip
        return {row["id"]: row["position"] for row in rows}

    @writes
    def put_details(self, dataset: int, first: int, details: Iterable[str | None]) -> None:
        """Store cells of further columns (details) of consecutive items, from position `first` on. details: the cells
        of each item, packed by `cells` of datasets/reading/details.py, or None."""
        self._put_rows(dataset, "details", ((item, cells) for item, cells in enumerate(details, first) if cells))

    def details(self, dataset: int, positions: Collection[int]) -> dict[int, list[str]]:
        """Return the detail cells of items in column order, {position: cells}. Items without any are omitted."""
        rows = self.query(
            "SELECT item, cells FROM details WHERE dataset = ? AND item IN (SELECT value FROM json_each(?))",
            dataset, json.dumps([*positions]),
        )  # fmt: skip
        return {row["item"]: json.loads(row["cells"]) for row in rows}

    def vocabulary(self, dataset: int) -> tuple[list[str], list[int]]:
        """Return terms and document frequencies in the order of their columns."""
        terms, frequencies = self._columns(
            "SELECT term, document_frequency FROM vocabulary WHERE dataset = ? ORDER BY column",
            ["term", "document_frequency"], dataset,
        )  # fmt: skip
        return terms, frequencies

    # Data sets that grow

    def length(self, dataset: int) -> int:
        """Return the number of items of a data set."""
        return self.number("SELECT items FROM datasets WHERE id = ?", dataset)

    def texts(self, dataset: int, first: int, stop: int) -> list[str]:
        """Return the texts of the items `first` to `stop` - 1, in order."""
        rows = self.query(
            "SELECT text FROM items WHERE dataset = ? AND position >= ? AND position < ? ORDER BY position",
            dataset, first, stop,
        )  # fmt: skip
        return [row["text"] for row in rows]

    def label_cells(self, dataset: int) -> list[str]:
        """Return the label cell of each item of a data set, as in its file."""
        rows = self.query("SELECT label FROM items WHERE dataset = ? ORDER BY position", dataset)
        return [row["label"] for row in rows]

    def label_words(self, dataset: int) -> dict[str, int]:
        """Return the class of each label word of a data set, {word: y}."""
        rows = self.query("SELECT DISTINCT label, y FROM items WHERE dataset = ?", dataset)
        return {row["label"]: row["y"] for row in rows}

    def unlabelled(self, dataset: int, texts: Iterable[str]) -> dict[int, str]:
        """Return the unlabeled items that have one of these texts, {position: text}."""
        rows = self.query(
            "SELECT position, text FROM items WHERE dataset = ? AND y = 0"
            " AND text IN (SELECT value FROM json_each(?)) ORDER BY position",
            dataset, json.dumps([*texts]),
        )  # fmt: skip
        return {row["position"]: row["text"] for row in rows}

    @writes
    def put_later_labels(self, dataset: int, labels: Mapping[int, tuple[str, int]]) -> int:
        """Store labels that arrive after their items, {position: (label word, y)}. Items that already have a label are
        skipped. Return the number of stored labels."""
        free = self.query(
            "SELECT position FROM items WHERE dataset = ? AND y = 0 AND position IN (SELECT value FROM json_each(?))"
            " AND position NOT IN (SELECT item FROM later_labels WHERE dataset = items.dataset)",
            dataset, json.dumps([*labels]),
        )  # fmt: skip
        at, places = now(), {row["position"] for row in free}
        self._put_rows(dataset, "later_labels", [(item, *labels[item], at) for item in labels if item in places])
        return len(places)

    def later_labels(self, dataset: int, after: int = 0) -> list[Row]:
        """Return the labels that arrived after their items with a number above `after`, in order: number, item, y."""
        sql = "SELECT number, item, y FROM later_labels WHERE dataset = ? AND number > ? ORDER BY number"
        return self.query(sql, dataset, after)

    def last_later_label(self, dataset: int) -> int:
        """Return the highest number of a label that arrived after its item, or 0 if there is no such label."""
        return self.number("SELECT coalesce(max(number), 0) FROM later_labels WHERE dataset = ?", dataset)

    @writes
    def update_dataset(self, dataset: int, values: Row) -> None:
        """Update columns of a data set, {column: value}."""
        self._update("datasets", dataset, values)

    @writes
    def put_contents(self, dataset: int, contents: Sequence[bytes]) -> list[bool]:
        """Store digests of the contents of items. Return for each of them whether it was new."""
        put = "INSERT OR IGNORE INTO contents (dataset, digest) VALUES (?, ?)"
        new = [self.db.execute(put, (dataset, content)).rowcount == 1 for content in contents]
        self._count(dataset, "contents", digests.of_rows((content,) for content in compress(contents, new)))
        return new

    @writes
    def append_items(self, dataset: int, first: int, items: Iterable[tuple[Any, ...]]) -> int:
        """Insert items (id, text, label, y) from position `first` on. An item without an id gets its number (position +
        1) as id. A taken id gets this number as a suffix, such as `a7#12`. Return how many given ids got a suffix."""
        put = "INSERT OR IGNORE INTO items (dataset, position, id, text, label, y) VALUES (?, ?, ?, ?, ?, ?)"
        renamed = digest = 0
        for position, (own_id, *rest) in enumerate(items, first):
            id = own_id or str(position + 1)
            while self.db.execute(put, (dataset, position, id, *rest)).rowcount == 0:
                id = f"{id}#{position + 1}"
            digest ^= digests.of_row((position, id, *rest))
            renamed += bool(own_id) and id != own_id
        self._count(dataset, "items", digest)
        return renamed

    @writes
    def put_batch(self, dataset: int, first: int, items: int, words: tuple[int, int], most: int = 0) -> None:
        """Record that a batch of items arrived from position `first` on. words: number of words in it, and how many of
        them are new to the vocabulary. The batch is merged into the previous one, unless the previous one is the import
        or has `most` items or more."""
        batch, last = (first, items, *words, now()), next(reversed(self.batches(dataset)), None)
        if last and last["first"] > 0 and last["items"] < most:
            self._count(dataset, "batches", digests.of_row((*last.values(),)))
            self.db.execute("DELETE FROM batches WHERE dataset = ? AND first = ?", (dataset, last["first"]))
            sums = (last["items"] + items, last["words"] + words[0], last["new_words"] + words[1])
            batch = last["first"], *sums, last["added_at"]
        self._put_rows(dataset, "batches", [batch])

    def batches(self, dataset: int) -> list[Row]:
        """Return the batches in which the items of a data set arrived, in order: position of the first item, number of
        items, number of words, number of new words, and time. Batches that older versions appended are missing."""
        sql = "SELECT first, items, words, new_words, added_at FROM batches WHERE dataset = ? ORDER BY first"
        return self.query(sql, dataset)

    @writes
    def put_firsts(self, dataset: int, firsts: Iterable[tuple[int, int, bytes, int, list[int]]]) -> None:
        """Store the texts that are not near-duplicates of an earlier text: (position, number of distinct words, bit set
        of the words, number of near-duplicates, first words)."""
        rows, begins = list[tuple[int, int, bytes, int]](), list[tuple[int, int]]()
        for item, size, bits, copies, beginning in firsts:
            rows.append((item, size, bits, copies))
            begins += [(word, item) for word in beginning]
        if rows:
            self._put_rows(dataset, "firsts", rows)
            self._put_rows(dataset, "beginnings", sorted(begins))  # in order: faster

    def firsts(self, dataset: int, words: Collection[int]) -> list[Row]:
        """Return the texts that are not near-duplicates of an earlier text and have one of `words` among their first
        words: word, item, size (number of distinct words), bits (set of the words)."""
        return self.query(
            "SELECT word, item, size, bits FROM beginnings JOIN firsts USING (dataset, item)"
            " WHERE dataset = ? AND word IN (SELECT value FROM json_each(?)) ORDER BY item",
            dataset, json.dumps([*words]),
        )  # fmt: skip

    @writes
    def add_copies(self, dataset: int, copies: Mapping[int, int]) -> None:
        """Increase the numbers of near-duplicates of items. copies: {position: number to add}."""
        some = "dataset = ? AND item IN (SELECT value FROM json_each(?))"
        columns, own = digests.COLUMNS["firsts"], (dataset, json.dumps([*copies]))
        old = [(*row.values(),) for row in self.query(f"SELECT {columns} FROM firsts WHERE {some}", *own)]
        self.db.execute(f"DELETE FROM firsts WHERE {some}", own)
        self._count(dataset, "firsts", digests.of_rows(old))
        self._put_rows(dataset, "firsts", [(item, *rest, n + copies[item]) for item, *rest, n in old])

    def copies(self, dataset: int, item: int | None = None) -> int:
        """Return the number of near-duplicates of an item (None: of all items)."""
        some = "" if item is None else f" AND item = {item:d}"
        return self.number(f"SELECT coalesce(sum(copies), 0) FROM firsts WHERE dataset = ?{some}", dataset)

    def most_copied(self, dataset: int, most: int) -> list[Row]:
        """Return the `most` items with the most near-duplicates: number of near-duplicates (`copies`) and text."""
        return self.query(
            "SELECT copies, text FROM firsts JOIN items ON items.dataset = firsts.dataset AND position = item"
            " WHERE firsts.dataset = ? AND copies > 0 ORDER BY copies DESC, item LIMIT ?",
            dataset, most,
        )  # fmt: skip
