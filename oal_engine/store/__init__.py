"""The store: data sets, items, vocabularies, sessions, questions, events, comparisons, in one SQLite file.

All SQL about them is here. The numeric rows of data sets are memory-mapped files in a folder next to the database.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import islice
from pathlib import Path
from secrets import token_urlsafe
from typing import Any, NamedTuple

import numpy as np

from ..places import database_path
from .database import ConflictError, Database, Row, StorageError, StoreError, writes
from .migrations import LABELS, OPINIONS

__all__ = ["ConflictError", "History", "Row", "StorageError", "Store", "StoreError", "address", "now"]

ADDRESS = re.compile(r"[^@\s]+@[^@\s]+")  # of an e-mail
JSON: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("columns", "scaling", "vectorizer", "checksums"), dict),
    **dict.fromkeys(("parameters", "prior", "specification", "versions", "preferences", "data", "audited"), dict),
    **dict.fromkeys(("feature_names", "shown", "tags", "lines", "datasets", "questions"), list),
    **dict.fromkeys(("parts", "labels", "firsts"), list), "classes": (dict, list),
}  # types of the values in columns of JSON  # fmt: skip
OF_PARTS = ", standing.data ->> '$.labels' AS labels, answered.data ->> '$.labels' AS firsts"  # in LABELS
ROLES = ("reader", "annotator", "owner")  # in a session, each with the rights of those before it
FOLDER = re.compile(r"[0-9a-f]{16}", re.ASCII)  # of the rows of a data set
RESTORABLE = timedelta(days=30)  # period in which a removed session can be restored
CONFIRMED = timedelta(days=7)  # between the server start that finds a session overdue and the start that erases it


def now(ago: timedelta = timedelta()) -> str:
    """Return the time `ago` before now in the stored form: UTC, to the millisecond."""
    return (datetime.now(UTC) - ago).isoformat(timespec="milliseconds")


def address(mail: str) -> str:
    """Return an e-mail address in the spelling in which it is stored and compared. Only ASCII letters are lowered: the
    Kelvin sign, for instance, would become the letter of another address."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in mail.strip())


def digest_of(secret: str) -> str:
    """Return the digest under which a token is stored."""
    return sha256(secret.encode()).hexdigest()


def _decoded(row: Row, *columns: str) -> Row:
    return row | {column: row[column] and _from_json(row[column], column) for column in columns}


def _of_parts(row: Row) -> Row:
    """Decode the fields of several questions in a row of a question."""
    return _decoded(row, *(row.keys() & {"parts", "labels", "firsts"})) if row["parts"] else row


def _from_json(words: str, column: str) -> Any:
    """Parse a value of a JSON column. StorageError if it has another type than the store puts there."""
    with suppress(ValueError, TypeError, RecursionError):
        if (value := json.loads(words)) is None or isinstance(value, JSON[column]):
            return value
    raise StorageError(f"the database is damaged: {column} cannot be {words[:40]!r}.")


class History(NamedTuple):
    """The stored history of a session: the questions that waited or that events refer to, the events in order, and the
    digests by number of event."""

    questions: list[Row]
    events: list[Row]
    digests: dict[int, str]


class Store(Database):
    """A database with its tables: every query and every change."""

    def __init__(self, path: Path | str | None = None, read_only: bool = False, patience: float = 30):
        super().__init__(path or database_path(), read_only, patience)

    def problems(self) -> list[str]:
        """Return the faults of the database, in sentences: damage that SQLite finds; else references to missing rows,
        data sets with a wrong number of items, answers that do not follow from the events of their session, and values
        that the store never writes."""
        with self.snapshot():
            if damage := self.damage():
                return damage
            lost = self.query("PRAGMA foreign_key_check")
            short = self.query(
                "SELECT name, items, (SELECT count(*) FROM items WHERE dataset = datasets.id) AS present"
                " FROM datasets WHERE items != present"
            )
            shared = self.query("SELECT folder FROM datasets GROUP BY folder HAVING count(*) > 1")
            stale = [row["id"] for row in self.query("SELECT id FROM sessions") if not self._answers_follow(row["id"])]
            return [
                *(f"{row['table']} refers to a row of {row['parent']} that is missing" for row in lost[:20]),
                *(f"the data set {row['name']} has {row['present']:,} items, not {row['items']:,}" for row in short),
                *(f"two data sets have the same rows, {row['folder'][:80]!r}" for row in shared),
                *(f"the answers of session {session} do not follow from its events" for session in stale[:20]),
                *islice(self._not_json(), 20),
            ]

    def damage(self) -> list[str]:
        """Return the faults that SQLite itself finds in the file and in the types of its values."""
        checks = self.query("PRAGMA integrity_check(20)")
        return [row["integrity_check"] for row in checks if row["integrity_check"] != "ok"]

    def _not_json(self) -> Iterator[str]:
        """Yield a sentence on each value that should be JSON of a certain type but is not."""
        for row in self.query(
            "SELECT session, number, data FROM events"
            " WHERE CASE WHEN json_valid(data) THEN json_type(data) != 'object' ELSE data IS NOT NULL END"
        ):
            yield f"event {row['number']:,} of session {row['session']}: data cannot be {row['data'][:40]!r}"
        for table in ("datasets", "sessions", "comparisons", "annotators"):
            for row in self.query(f"SELECT * FROM {table}"):
                try:
                    _decoded(row, *(row.keys() & JSON.keys()))
                except StorageError as error:
                    yield f"{table} {row['name'][:80]}: {error}".removesuffix(".")

    def _insert(self, table: str, values: Row, otherwise: str = "") -> None:
        """Insert a row with one statement: sqlite-utils would look at the schema first, while others wait to write."""
        columns, marks = ", ".join(values), ", ".join("?" * len(values))
        self.db.conn.execute(f"INSERT {otherwise} INTO {table} ({columns}) VALUES ({marks})", [*values.values()])

    def _add(self, table: str, values: Row) -> int:
        """Insert a row with the current time in `created_at`. Return its id."""
        self._insert(table, values | {"created_at": now()})
        return self.number("SELECT last_insert_rowid()")

    def _by_key(self, kind: str, table: str, columns: str, key: int | str) -> Row:
        """Return the row with an id or a name. StoreError, with all names, if it does not exist."""
        row = self.one(f"SELECT {columns} FROM {table} WHERE {'id' if isinstance(key, int) else 'name'} = ?", key)
        if row is None:
            names = ", ".join(each["name"] for each in self.query(f"SELECT name FROM {table} ORDER BY id DESC"))
            raise StoreError(f"{kind} {key} does not exist. There are: {names or 'none'}.")
        return row

    def _columns(self, select: str, names: Sequence[str], *values: object) -> list[list[Any]]:
        """Return the named columns of a SELECT as lists: for very many rows, quicker than `query`."""
        lists = ", ".join(f"json_group_array({name}) AS {name}" for name in names)
        return [json.loads(column) for column in self.query(f"SELECT {lists} FROM ({select})", *values)[0].values()]

    # Data sets

    @property
    def folder(self) -> Path:
        """The folder with the rows of the data sets."""
        return self.path.with_name(self.path.stem + ".rows")

    def rows_folder(self, name: str) -> Path:
        """Return the folder with the rows of a data set, by its stored name. StoreError if that leads anywhere else."""
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

        items: (id, text, label, y). vocabulary: (term, document frequency). words: number of words of the items, and of
        new ones among them. firsts, details: see `put_firsts` and `put_details`.
        """
        owner = {"owner": address(values["owner"])} if "owner" in values else {}
        dataset = self._add("datasets", values | owner)
        if words:
            self.put_batch(dataset, 0, values["items"], words)
        self.db.conn.executemany(
            "INSERT INTO items (dataset, position, id, text, label, y) VALUES (?, ?, ?, ?, ?, ?)",
            ((dataset, position, *item) for position, item in enumerate(items)),
        )
        self.db.conn.executemany(
            "INSERT INTO vocabulary (dataset, column, term, document_frequency) VALUES (?, ?, ?, ?)",
            ((dataset, column, *term) for column, term in enumerate(vocabulary)),
        )
        self.put_firsts(dataset, firsts)
        self.put_details(dataset, 0, details)
        return dataset

    def datasets(self) -> list[Row]:
        """Return all data sets, newest first, with their classes decoded, the number of sessions that use each, and of
        labels that came after their items."""
        rows = self.query(
            "SELECT datasets.*, (SELECT count(*) FROM sessions WHERE dataset = datasets.id"
            f" AND {self.PRESENT}) AS sessions,"
            " (SELECT count(*) FROM later_labels WHERE dataset = datasets.id) AS later_labels"
            " FROM datasets ORDER BY id DESC"
        )
        return [_decoded(row, "classes") for row in rows]

    def dataset(self, key: int | str) -> Row:
        """Return a data set by its id or name. Its classes are {name: items}, or None for a positive and a negative
        class."""
        return _decoded(self._by_key("data set", "datasets", "*", key), "classes")

    def has_dataset(self, name: str) -> bool:
        """Return whether a data set of this name exists."""
        return self.one("SELECT 1 FROM datasets WHERE name = ?", name) is not None

    @writes
    def remove_dataset(self, dataset: int) -> None:
        """Delete a data set that no session uses, with its removed sessions. The caller deletes its rows on disk."""
        if session := self.one(f"SELECT name FROM sessions WHERE dataset = ? AND {self.PRESENT}", dataset):
            raise StoreError(f"the data set is used by the session {session['name']}. Remove its sessions first.")
        self.db.execute("DELETE FROM sessions WHERE dataset = ?", [dataset])
        self.db.execute("DELETE FROM datasets WHERE id = ?", [dataset])

    def item(self, dataset: int, position: int) -> Row:
        """Return one item: id, text, label, y."""
        return self.query("SELECT * FROM items WHERE dataset = ? AND position = ?", dataset, position)[0]

    def items(self, dataset: int, positions: Collection[int], texts: bool = False) -> dict[int, Row]:
        """Return {position: item} with position, id and label, and with `texts` also text."""
        rows = self.query(
            f"SELECT position, id, label{', text' * texts} FROM items"
            " WHERE dataset = ? AND position IN (SELECT value FROM json_each(?))",
            dataset, json.dumps(positions),
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
        """Store the further cells of the items from position `first` on, as `datasets.details.cells` makes them."""
        for item, cells in enumerate(details, first):
            if cells:
                self.db.conn.execute("INSERT INTO details VALUES (?, ?, ?)", (dataset, item, cells))

    def details(self, dataset: int, positions: Collection[int]) -> dict[int, list[str]]:
        """Return the further cells of items by position, in the order of the columns. Items without any are omitted."""
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
        """Return the items without a label that have one of these texts, {position: text}."""
        rows = self.query(
            "SELECT position, text FROM items WHERE dataset = ? AND y = 0"
            " AND text IN (SELECT value FROM json_each(?)) ORDER BY position",
            dataset, json.dumps([*texts]),
        )  # fmt: skip
        return {row["position"]: row["text"] for row in rows}

    @writes
    def put_later_labels(self, dataset: int, labels: Mapping[int, tuple[str, int]]) -> int:
        """Store labels, {item: (word, y)}, of items without one. Return how many items had none until now."""
        put = (
            "INSERT OR IGNORE INTO later_labels (dataset, item, label, y, added_at)"
            " SELECT dataset, position, ?, ?, ? FROM items WHERE dataset = ? AND position = ? AND y = 0"
        )
        at = now()
        return sum(
            self.db.conn.execute(put, (label, y, at, dataset, item)).rowcount for item, (label, y) in labels.items()
        )

    def later_labels(self, dataset: int, after: int = 0) -> list[Row]:
        """Return the labels that came after their items, in order, from those behind `after` on: number, item, y."""
        sql = "SELECT number, item, y FROM later_labels WHERE dataset = ? AND number > ? ORDER BY number"
        return self.query(sql, dataset, after)

    def last_later_label(self, dataset: int) -> int:
        """Return the number of the last label that came after its item, 0 for none."""
        return self.number("SELECT coalesce(max(number), 0) FROM later_labels WHERE dataset = ?", dataset)

    @writes
    def update_dataset(self, dataset: int, values: Row) -> None:
        """Change some columns of a data set."""
        self.db.table("datasets").update(dataset, values)

    @writes
    def put_contents(self, dataset: int, digests: Iterable[bytes]) -> list[bool]:
        """Store digests of the contents of items. Return whether each was new."""
        put = "INSERT OR IGNORE INTO contents (dataset, digest) VALUES (?, ?)"
        return [self.db.conn.execute(put, (dataset, digest)).rowcount == 1 for digest in digests]

    @writes
    def append_items(self, dataset: int, first: int, items: Iterable[tuple[Any, ...]]) -> int:
        """Insert items (id, text, label, y) from position `first` on. If an id is taken, the item's number is appended
        to it; return how often that was done."""
        put = "INSERT OR IGNORE INTO items (dataset, position, id, text, label, y) VALUES (?, ?, ?, ?, ?, ?)"
        renamed = 0
        for position, (own_id, *rest) in enumerate(items, first):
            id = own_id or str(position + 1)
            while self.db.conn.execute(put, (dataset, position, id, *rest)).rowcount == 0:
                id = f"{id}#{position + 1}"
            renamed += bool(own_id) and id != own_id
        return renamed

    @writes
    def put_batch(self, dataset: int, first: int, items: int, words: tuple[int, int], most: int = 0) -> None:
        """Store that a batch of items arrived from position `first` on. words: number of its words, and of new ones
        among them. It is merged with the batch before, unless that is the import or has `most` items."""
        joined = self.db.conn.execute(
            "UPDATE batches SET items = items + ?, words = words + ?, new_words = new_words + ?"
            " WHERE dataset = ? AND first > 0 AND items < ?"
            " AND first = (SELECT max(first) FROM batches WHERE dataset = ?)",
            (items, *words, dataset, most, dataset),
        )
        if not joined.rowcount:
            self._insert("batches", {
                "dataset": dataset, "first": first, "items": items, "words": words[0], "new_words": words[1],
                "added_at": now(),
            })  # fmt: skip

    def batches(self, dataset: int) -> list[Row]:
        """Return the batches in which the items of a data set arrived, in order: first position, items, words, new
        words, and time. Batches of older versions are missing."""
        sql = "SELECT first, items, words, new_words, added_at FROM batches WHERE dataset = ? ORDER BY first"
        return self.query(sql, dataset)

    @writes
    def put_firsts(self, dataset: int, firsts: Iterable[tuple[int, int, bytes, int, list[int]]]) -> None:
        """Store texts that are not near-duplicates of an earlier one: (item, number of words, bits of the words, number
        of near-duplicates, first words)."""
        rows, begins = [], []
        for item, size, bits, copies, beginning in firsts:
            rows.append((dataset, item, size, bits, copies))
            begins += [(dataset, word, item) for word in beginning]
        if rows:
            self.db.conn.executemany("INSERT INTO firsts VALUES (?, ?, ?, ?, ?)", rows)
            self.db.conn.executemany("INSERT INTO beginnings VALUES (?, ?, ?)", sorted(begins))  # in order: faster

    def firsts(self, dataset: int, words: Collection[int]) -> list[Row]:
        """Return the texts that begin with one of these words and are not near-duplicates: word, item, size, bits."""
        return self.query(
            "SELECT word, item, size, bits FROM beginnings JOIN firsts USING (dataset, item)"
            " WHERE dataset = ? AND word IN (SELECT value FROM json_each(?)) ORDER BY item",
            dataset, json.dumps([*words]),
        )  # fmt: skip

    @writes
    def add_copies(self, dataset: int, copies: Mapping[int, int]) -> None:
        """Count further near-duplicates, {item: number}."""
        self.db.conn.executemany(
            "UPDATE firsts SET copies = copies + ? WHERE dataset = ? AND item = ?",
            ((more, dataset, item) for item, more in copies.items()),
        )

    def copies(self, dataset: int, item: int | None = None) -> int:
        """Return the number of near-duplicates of an item (None: of all items)."""
        some = "" if item is None else f" AND item = {item:d}"
        return self.number(f"SELECT coalesce(sum(copies), 0) FROM firsts WHERE dataset = ?{some}", dataset)

    def most_copied(self, dataset: int, most: int) -> list[Row]:
        """Return the `most` items with the most near-duplicates: copies, text."""
        return self.query(
            "SELECT copies, text FROM firsts JOIN items ON items.dataset = firsts.dataset AND position = item"
            " WHERE firsts.dataset = ? AND copies > 0 ORDER BY copies DESC, item LIMIT ?",
            dataset, most,
        )  # fmt: skip

    def feed_positions(self, dataset: int, url: str) -> dict[str, str]:
        """Return up to which position a feed of a broker is stored, by partition."""
        rows = self.query("SELECT partition, position FROM feeds WHERE dataset = ? AND url = ?", dataset, url)
        return {row["partition"]: row["position"] for row in rows}

    @writes
    def move_feed(
        self, dataset: int, url: str, before: Mapping[str, str], after: Mapping[str, str],
        rejected: Iterable[tuple[str, str, bytes, str]],
    ) -> None:  # fmt: skip
        """Store new positions of a feed, and messages that cannot be read: (partition, position, content, reason).
        ConflictError if the stored positions of these partitions are not those of `before`."""
        stored = self.feed_positions(dataset, url)
        if any(stored.get(partition) != before.get(partition) for partition in after):
            raise ConflictError(f"another process follows {url} into the same data set: one is enough.")
        self.db.conn.executemany(
            "INSERT OR REPLACE INTO feeds (dataset, url, partition, position) VALUES (?, ?, ?, ?)",
            [(dataset, url, *place) for place in after.items()],
        )
        self.db.conn.executemany(
            "INSERT OR REPLACE INTO rejected (dataset, url, partition, position, content, reason)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            [(dataset, url, *each) for each in rejected],
        )

    def rejected(self, dataset: int, url: str) -> list[Row]:
        """Return the messages of a feed that could not be read: partition, position, content, reason."""
        columns = "partition, position, content, reason"
        return self.query(f"SELECT {columns} FROM rejected WHERE dataset = ? AND url = ?", dataset, url)

    # Sessions

    PRESENT = "NOT EXISTS (SELECT 1 FROM removals WHERE session = sessions.id AND restored_at IS NULL)"

    @writes
    def add_session(
        self, values: Row, priors: Mapping[int, Mapping[int, float]] | None = None,
        known_labels: Mapping[int, int] | None = None, origin: str = "",
    ) -> int:  # fmt: skip
        """Insert a session and return its id. priors: as of `prior_weights`. known_labels: by item, with their
        `origin`. If `owner` is an e-mail address, it gets the role of owner."""
        session = self._add("sessions", values)
        self.put_known(session, known_labels or {}, origin, by=values.get("owner", ""))
        self.put_event(session, "grown", data={"rounds": values["items"]})
        if ADDRESS.fullmatch(owner := values.get("owner", "")):
            self.put_role(session, owner, "owner", owner)
        for part, weights in (priors or {}).items():
            self.put_prior(session, part, weights)
        return session

    @writes
    def put_prior(self, session: int, part: int, weights: Mapping[int, float]) -> None:
        """Store the weights, by column, that the learner of a question begins with. part: its place."""
        for column, weight in weights.items():
            place = {"session": session, "part": part, "column": column}
            self._insert("prior_weights", place | {"weight": weight})

    def prior_weights(self, session: int) -> dict[int, dict[int, float]]:
        """Return the weights that the learners of a session begin with: {place of the question: {column: weight}},
        without the questions that begin with nothing. The place of a single question is 0."""
        priors: dict[int, dict[int, float]] = {}
        for row in self.query("SELECT * FROM prior_weights WHERE session = ? ORDER BY part, column", session):
            priors.setdefault(row["part"], {})[row["column"]] = row["weight"]
        return priors

    def session(self, session: int) -> Row:
        """Return the settings of a session, with columns of JSON decoded."""
        row = self.one(
            "SELECT sessions.*, datasets.name AS dataset_name FROM sessions"
            f" JOIN datasets ON datasets.id = dataset WHERE sessions.id = ? AND {self.PRESENT}",
            session,
        )
        if row is None:
            raise StoreError(f"session {session} does not exist.")
        return _decoded(row, "parameters", "classes", "prior", "shown", "tags", "questions", "audited")

    def sessions(self) -> list[Row]:
        """Return all sessions with their progress, the one last worked on first. Their budget includes added labels.

        waits: whether a question has no answer.
        """
        rows = self.query(f"""
            SELECT sessions.*, datasets.name AS dataset_name, datasets.items AS stream,
                budget + (SELECT coalesce(sum(CASE WHEN json_valid(data) THEN json_extract(data, '$.labels') END), 0)
                    FROM events WHERE session = sessions.id AND kind = 'added') AS budget,
                count(CASE WHEN label != 0 THEN 1 END) AS labels, count(CASE WHEN label = 0 THEN 1 END) AS skipped,
                count(CASE WHEN label > 0 THEN 1 END) AS positives,
                coalesce(max(answered_at), sessions.created_at) AS worked_at, max(round) AS round,
                count(CASE WHEN questions.id IS NOT NULL AND label IS NULL THEN 1 END) > 0 AS waits
            FROM sessions JOIN datasets ON datasets.id = dataset
            LEFT JOIN questions ON questions.session = sessions.id AND number IS NOT NULL
            LEFT JOIN labels ON question = questions.id
            WHERE {self.PRESENT} GROUP BY sessions.id ORDER BY worked_at DESC, sessions.id DESC""")
        return [_decoded(row, "classes", "questions", "audited") for row in rows]

    def shown_columns(self, session: int) -> list[str] | None:
        """Return the columns that a session shows with its items (None: the choice of its data set)."""
        row = self.one("SELECT shown FROM sessions WHERE id = ?", session)
        return json.loads(row["shown"]) if row and row["shown"] else None

    @writes
    def update_session(self, session: int, values: Row) -> None:
        """Change some columns of a session."""
        self.db.table("sessions").update(session, values)

    # Removed sessions, and roles

    @writes
    def remove_session(self, session: int, by: str = "") -> None:
        """Hide a session until somebody restores it or `erase_removed` erases it."""
        values = {"session": session, "name": self.session(session)["name"], "removed_by": by, "removed_at": now()}
        self._insert("removals", values)

    @writes
    def restore_session(self, session: int, by: str = "") -> None:
        """Undo the removal of a session."""
        self.db.execute(
            "UPDATE removals SET restored_by = ?, restored_at = ? WHERE session = ? AND restored_at IS NULL",
            [by, now(), session],
        )

    def removed_sessions(self) -> list[Row]:
        """Return the sessions that can be restored, the one last removed first: id, name, dataset, removed_by,
        removed_at."""
        return self.query(
            "SELECT sessions.id, sessions.name, dataset, removed_by, removed_at FROM removals"
            " JOIN sessions ON sessions.id = session WHERE restored_at IS NULL ORDER BY removals.id DESC"
        )

    @writes
    def erase_removed(self) -> None:
        """Delete the sessions that can no longer be restored, with their questions and labels. A server calls this at
        its start.

        One start notes that a session was removed RESTORABLE ago, and a start at least CONFIRMED later erases it. So a
        clock that is wrong once erases nothing: a start in between that finds an earlier time drops the note.
        """
        self.db.execute("UPDATE removals SET due_at = NULL WHERE due_at > ?", [now()])
        self.db.execute(
            "DELETE FROM sessions WHERE id IN"
            " (SELECT session FROM removals WHERE restored_at IS NULL AND removed_at <= ? AND due_at <= ?)",
            [now(RESTORABLE), now(CONFIRMED)],
        )
        self.db.execute(
            "UPDATE removals SET due_at = ? WHERE restored_at IS NULL AND removed_at <= ? AND due_at IS NULL",
            [now(), now(RESTORABLE)],
        )

    @writes
    def put_role(self, session: int, mail: str, role: str | None, by: str = "") -> None:
        """Give an e-mail address a role in a session (owner, annotator, reader) in place of its old one, or (None) take
        the old one away. A session with an owner always keeps one."""
        mail = address(mail)
        if not ADDRESS.fullmatch(mail):
            raise StoreError(f"an e-mail address must look like anna@example.org. Got {mail or 'nothing'}.")
        owner = self._owner(session)
        if role and owner not in ("", mail) and not self.roles(session):  # the first role closes an open session
            self.put_role(session, owner, "owner", by)
        owners = "SELECT count(*) FROM roles WHERE session = ? AND role = 'owner' AND ended_at IS NULL"
        before = self.number(owners, session)
        self.db.execute(
            "UPDATE roles SET ended_by = ?, ended_at = ? WHERE session = ? AND mail = ? AND ended_at IS NULL",
            [by, now(), session, mail],
        )
        if role:
            self._insert("roles", {"session": session, "mail": mail, "role": role, "given_by": by, "given_at": now()})
        if before and not self.number(owners, session):
            raise StoreError("a session keeps at least one owner.")

    def roles(self, session: int) -> list[Row]:
        """Return every role ever given in a session, oldest first: mail, role, given_by, given_at, ended_by, ended_at
        (None: it is valid)."""
        return self.query("SELECT * FROM roles WHERE session = ? ORDER BY id", session)

    def role(self, session: int, mail: str) -> str | None:
        """Return the role of an e-mail address in a session, or None. If no role was ever assigned, everyone is an
        annotator and the creator is the owner."""
        roles, mail = self.roles(session), address(mail)
        if roles:
            return next((row["role"] for row in roles if row["mail"] == mail and row["ended_at"] is None), None)
        return "owner" if mail and mail == self._owner(session) else "annotator"

    def _owner(self, session: int) -> str:
        """Return the e-mail address of the creator of a session, "" if it is not known."""
        row = self.one("SELECT owner FROM sessions WHERE id = ?", session)
        owner = address(row["owner"]) if row else ""
        return owner if ADDRESS.fullmatch(owner) else ""

    def visible_datasets(self, mail: str) -> set[int]:
        """Return the ids of the data sets that an e-mail address may see: data sets without an owner, its own, and data
        sets of sessions in which it has a role."""
        rows = self.query(
            "SELECT id FROM datasets WHERE owner IN ('', ?) UNION SELECT dataset FROM sessions"
            f" JOIN roles ON session = sessions.id WHERE mail = ? AND ended_at IS NULL AND {self.PRESENT}",
            address(mail), address(mail),
        )  # fmt: skip
        return {row["id"] for row in rows}

    # Tokens

    @writes
    def add_token(self, session: int, role: str, annotator: str, lifetime: timedelta) -> tuple[int, str]:
        """Make a token of a session with one of ROLES, for answers of an annotator ("": by the number of the token).
        Return its number and the secret text, which is not stored."""
        if role not in ROLES:
            raise StoreError(f"a role must be {', '.join(ROLES)}. Got {role}.")
        self.session(session)  # raises if it does not exist
        secret, id = token_urlsafe(32), self.number("SELECT coalesce(max(id), 0) + 1 FROM tokens")
        self._insert("tokens", {
            "id": id, "digest": digest_of(secret), "session": session, "role": role,
            "annotator": annotator or f"token {id}", "created_at": now(), "expires_at": now(-lifetime),
        })  # fmt: skip
        return id, secret

    def tokens(self) -> list[Row]:
        """Return every token, oldest first, and whether it is valid: neither expired nor of a removed session."""
        return self.query(
            f"SELECT tokens.*, expires_at > ? AND {self.PRESENT} AS valid FROM tokens"
            " JOIN sessions ON sessions.id = session ORDER BY tokens.id",
            now(),
        )

    @writes
    def remove_token(self, token: int | None = None) -> None:
        """Delete a token (None: all)."""
        if self.db.conn.execute("DELETE FROM tokens WHERE ? IN (id, 0)", [token or 0]).rowcount == 0 and token:
            raise StoreError(f"token {token} does not exist.")

    # The log of a session

    ANSWERS = (
        "SELECT questions.*, label, first, annotator, answered_at, seconds, labels, firsts FROM questions"
        " LEFT JOIN labels ON question = id WHERE session = ?"
    )

    def answers(self, session: int, after: int = 0) -> list[Row]:
        """Return the questions of a session after number `after` in order, each with its current label (None: not
        answered yet), who gave it and when, and the first label. parts, labels, firsts: of several questions."""
        return [_of_parts(row) for row in self.query(f"{self.ANSWERS} AND number > ? ORDER BY number", session, after)]

    def answer(self, session: int, question: int) -> Row | None:
        """Return one question as `answers` does, or None if the session has not asked it."""
        row = self.one(f"{self.ANSWERS} AND id = ? AND number IS NOT NULL", session, question)
        return row and _of_parts(row)

    def events(self, session: int, *kinds: str, after: int = 0) -> list[Row]:
        """Return the log of a session after a number, or only events of some kinds, in order: number, id (None: not
        sent by a page), kind, at, annotator, question, item, label, seconds, and `data`, the kind's further fields."""
        # Without a hint SQLite reads all events, because the primary key has their order.
        table = "events INDEXED BY events_kind" if kinds else "events"
        some = f" AND kind IN ({', '.join('?' * len(kinds))})" if kinds else ""
        since = f"SELECT * FROM {table} WHERE session = ? AND number > ?{some} ORDER BY number"
        rows = self.query(since, session, after, *kinds)
        for row in rows:
            row["data"] = (row["data"] and _from_json(row["data"], "data")) or {}
        return rows

    @writes
    def put_event(
        self, session: int, kind: str, id: str | None = None, annotator: str = "", *, question: int | None = None,
        item: int | None = None, label: int | None = None, seconds: float | None = None, data: Row | None = None,
    ) -> int:  # fmt: skip
        """Append an event to the log of a session, and update the labels and further answers that follow from it.
        Return the number of the event."""
        if question is not None:
            self._check_question(session, question)
        number = self.number("SELECT coalesce(max(number), 0) + 1 FROM events WHERE session = ?", session)
        self._put_event({
            "session": session, "number": number, "id": id, "kind": kind, "at": now(), "annotator": annotator,
            "question": question, "item": item, "label": label, "seconds": seconds, "data": data,
        })  # fmt: skip
        for table, (select, kinds) in self.DERIVED.items():
            if kind in kinds:
                self.db.execute(f"DELETE FROM {table} WHERE question = ?", [question])
                own = select.format(labels=OF_PARTS, where="AND answered.question = ?")
                self.db.execute(f"INSERT INTO {table} {own}", [question])
        if kind == "undone":
            answered = "SELECT max(number) FROM events WHERE question = ? AND kind = 'answered'"
            self.db.execute(f"DELETE FROM digests WHERE session = ? AND number >= ({answered})", [session, question])
        return number

    @writes
    def put_known(
        self, session: int, labels: Mapping[int, int], origin: str, id: str | None = None, by: str = ""
    ) -> None:
        """Append known labels by item to the log of a session. id: of the event under which a page sent them."""
        number, at = self.number("SELECT coalesce(max(number), 0) FROM events WHERE session = ?", session), now()
        data = json.dumps({"origin": origin}, ensure_ascii=False)
        self.db.conn.executemany(
            "INSERT INTO events (session, number, id, kind, at, annotator, item, label, data)"
            " VALUES (?, ?, ?, 'known', ?, ?, ?, ?, ?)",
            (
                (session, number + place, id if place == 1 else None, at, by, item, label, data)
                for place, (item, label) in enumerate(labels.items(), 1)
            ),
        )

    def first_known(self, session: int) -> list[tuple[int, int]]:
        """Return the known labels that a session begins with, as (item, label)."""
        rows = self.query(
            "SELECT item, label FROM events WHERE session = ? AND kind = 'known' AND number < coalesce("
            "(SELECT min(number) FROM events WHERE session = ? AND kind = 'grown'), 0) ORDER BY number",
            session, session,
        )  # fmt: skip
        return [(row["item"], row["label"]) for row in rows]

    def begins_with(self, session: int, origin: str) -> bool:
        """Return whether a session begins with known labels of an origin."""
        row = self.one("SELECT data FROM events WHERE session = ? AND kind = 'known' AND number = 1", session)
        return row is not None and (_from_json(row["data"], "data") or {}).get("origin") == origin

    def known_labels(self, session: int) -> dict[int, Row]:
        """Return the current known label of each item, {item: row of the log}."""
        rows = {row["item"]: row for row in self.events(session, "known")}
        return {item: row for item, row in rows.items() if row["label"]}

    def _put_event(self, row: Row) -> None:
        self._insert("events", row | {"data": json.dumps(row["data"], ensure_ascii=False) if row["data"] else None})

    # {table derived from the events: (its query, the kinds of events that it depends on)}
    DERIVED: Mapping[str, tuple[str, tuple[str, ...]]] = {
        "labels": (LABELS, ("answered", "corrected", "undone")),
        "opinions": (OPINIONS, ("second", "late", "again", "withdrawn")),
    }

    @writes
    def derive_answers(self, session: int) -> None:
        """Derive the labels and further answers of a session from its events."""
        for table, (select, _) in self.DERIVED.items():
            own = "question IN (SELECT id FROM questions WHERE session = ?)"
            self.db.execute(f"DELETE FROM {table} WHERE {own}", [session])
            derived = select.format(labels=OF_PARTS, where="AND answered.session = ?")
            self.db.execute(f"INSERT INTO {table} {derived}", [session])

    def _answers_follow(self, session: int) -> bool:
        """Return whether the labels and further answers of a session follow from its events."""
        for table, (select, _) in self.DERIVED.items():
            own = select.format(labels=OF_PARTS, where="AND answered.session = ?")
            stored = f"SELECT {table}.* FROM {table} JOIN questions ON questions.id = question WHERE session = ?"
            for one, other in ((own, stored), (stored, own)):
                if self.one(f"SELECT * FROM ({one}) EXCEPT SELECT * FROM ({other})", session, session):
                    return False
        return True

    def history(self, session: int) -> History:
        """Return the history of a session."""
        questions = self.query(
            "SELECT * FROM questions WHERE session = ? AND (number IS NOT NULL"
            " OR EXISTS (SELECT 1 FROM events WHERE question = questions.id)) ORDER BY id",
            session,
        )
        return History([*map(_of_parts, questions)], self.events(session), self.digests(session))

    @writes
    def put_history(self, session: int, history: History) -> None:
        """Store the history of a session in place of its own. Question ids and parent ids are numbered from 1 in list
        order."""
        last = self.number("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'questions'")

        def moved(id: int) -> int:
            return id + last * ((id > 0) - (id < 0))

        for row in history.questions:
            place = {"session": session, "id": moved(row["id"]), "parent": moved(row["parent"])}
            self._insert("questions", row | place | {"parts": row["parts"] and json.dumps(row["parts"])})
        self.db.execute("DELETE FROM events WHERE session = ?", [session])
        for number, row in enumerate(history.events, 1):
            question = row["question"] and moved(row["question"])
            self._put_event(row | {"session": session, "number": number, "question": question})
        self.derive_answers(session)
        for number, digest in history.digests.items():
            self.put_digest(session, number, digest)

    def foreign_answers(self, session: int) -> list[Row]:
        """Return the answers of a session with a class that it does not have: number of the question (None: it was
        never asked), label, annotator."""
        return self.query(
            "SELECT questions.number, label, events.annotator FROM events"
            " LEFT JOIN questions ON questions.id = question JOIN sessions ON sessions.id = events.session"
            " WHERE events.session = ? AND label IS NOT NULL"
            " AND CASE json_type(classes) WHEN 'array' THEN label NOT BETWEEN 0 AND json_array_length(classes)"
            " ELSE label NOT IN (-1, 0, 1) END",
            session,
        )

    def log_version(self, session: int) -> int:
        """Return the number of changes of a session's log: if two numbers are equal, the logs are equal."""
        row = self.one(f"SELECT log_version FROM sessions WHERE id = ? AND {self.PRESENT}", session)
        if row is None:
            raise StoreError(f"session {session} does not exist.")
        return int(row["log_version"])

    def fingerprint(self, session: int) -> str:
        """Return a text that is another one after every change of a session: of its log, notes, tags, settings and
        roles, and of the number of items of its data set."""
        row = self.one(
            "SELECT sessions.*, datasets.items AS held,"
            " (SELECT max(number) FROM events WHERE session = sessions.id) AS last,"
            " (SELECT count(*) + count(ended_at) FROM roles WHERE session = sessions.id) AS changes_of_roles"
            f" FROM sessions JOIN datasets ON datasets.id = dataset WHERE sessions.id = ? AND {self.PRESENT}",
            session,
        )
        return sha256(repr(row).encode()).hexdigest()[:16]

    @writes
    def count_change(self, session: int) -> int:
        """Count a change of the log of a session. Return the new version."""
        self.db.execute("UPDATE sessions SET log_version = log_version + 1 WHERE id = ?", [session])
        return self.log_version(session)

    def question_count(self, session: int) -> int:
        """Return the number of questions that a session has asked."""
        return self.number("SELECT count(*) FROM questions WHERE session = ? AND number IS NOT NULL", session)

    def event(self, id: str) -> Row | None:
        """Return the event that a page sent under an id, or None."""
        return self.one("SELECT * FROM events WHERE id = ?", id)

    # A browser sends ids of questions, which are unique over all sessions. Every statement about a question also takes
    # the session, so that it cannot reach a question of another one.
    QUESTION = "question = (SELECT id FROM questions WHERE session = ? AND id = ?)"

    def _check_question(self, session: int, question: int) -> None:
        """Raise StoreError if a session does not have this question."""
        if self.item_of(session, question) is None:
            raise StoreError(f"session {session} has no question {question}.")

    def item_of(self, session: int, question: int) -> int | None:
        """Return the item of a question; None if the session does not have this question."""
        row = self.one("SELECT item FROM questions WHERE session = ? AND id = ?", session, question)
        return int(row["item"]) if row else None

    def asked_of_item(self, session: int, question: int) -> int | None:
        """Return the asked question about the same item as a question, or None."""
        item = self.item_of(session, question)
        sql = "SELECT id FROM questions WHERE session = ? AND item = ? AND number IS NOT NULL"
        row = None if item is None else self.one(sql, session, item)
        return int(row["id"]) if row else None

    def standing_label(self, session: int, question: int) -> Row | None:
        """Return the current label of a question, or None."""
        return self.one(f"SELECT * FROM labels WHERE {self.QUESTION}", session, question)

    def old_label(self, session: int, question: int) -> int | list[int] | None:
        """Return the last label of a question that was taken back, of several questions the label of each, or None."""
        row = self.one(
            f"SELECT label, data FROM events WHERE {self.QUESTION} AND kind IN ('answered', 'corrected')"
            " AND EXISTS (SELECT 1 FROM events AS later WHERE later.question = events.question AND kind = 'undone'"
            " AND later.number > events.number) ORDER BY number DESC LIMIT 1",
            session, question,
        )  # fmt: skip
        if row is None:
            return None
        labels: list[int] | None = ((row["data"] and _from_json(row["data"], "data")) or {}).get("labels")
        return labels or int(row["label"])

    def prepared(self, session: int, question: int) -> dict[int, Row]:
        """Return the prepared questions that follow a question, by the answer to it."""
        sql = "SELECT * FROM questions WHERE session = ? AND parent = ? AND number IS NULL"
        return {row["branch"]: row for row in self.query(sql, session, question)}

    @writes
    def put_question(self, values: Row) -> int:
        """Store a question before it is shown, and return its id. The same (session, parent, branch) keeps its id.

        parent: id of the question before it (None: it follows no single question). parts: of several questions.
        """
        if "parts" in values:
            values = values | {"parts": json.dumps(values["parts"])}
        if values["parent"] is None:
            id = self.number("SELECT coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'questions'")
            values = values | {"id": id, "parent": -id}
        columns, marks = ", ".join(values), ", ".join("?" * len(values))
        fresh = ", ".join(f"{name} = excluded.{name}" for name in values)
        return self.number(
            f"INSERT INTO questions ({columns}) VALUES ({marks})"
            f" ON CONFLICT (session, parent, branch) DO UPDATE SET {fresh} RETURNING id",
            *values.values(),
        )

    @writes
    def number_question(self, session: int, question: int | None, number: int) -> None:
        """Make a question the newest of the session, with this number. Other questions lose this and later numbers.
        None only takes the numbers away."""
        self.db.execute(
            "UPDATE questions SET number = NULL WHERE session = ? AND number >= ? AND id IS NOT ?",
            [session, number, question],
        )
        self.db.execute(
            "UPDATE questions SET number = ?, asked_at = ? WHERE session = ? AND id = ? AND number IS NOT ?",
            [number, now(), session, question, number],
        )

    @writes
    def part_prepared(self, session: int, *parents: int | None) -> None:
        """Detach the prepared questions from the questions that they follow, so that they do not become the next ones.

        They stay stored and leased to the annotators of their parents, as a page may show them already."""
        prepared = f"session = ? AND number IS NULL AND parent IN ({', '.join('?' * len(parents))})"
        self.db.execute(
            "INSERT INTO leases (question, annotator, leased_at, ended_at)"
            " SELECT questions.id, annotator, leased_at, ? FROM questions JOIN leases ON question = parent"
            f" WHERE {prepared}",
            [now(), session, *parents],
        )
        self.db.execute(f"UPDATE questions SET parent = -id WHERE {prepared}", [session, *parents])

    # Several people on one session

    def leases(self, session: int) -> list[Row]:
        """Return the current leases of a session, oldest first: question, annotator, leased_at."""
        return self.query(
            "SELECT question, annotator, leased_at FROM leases INDEXED BY leases_now"
            " CROSS JOIN questions ON questions.id = question"  # start from the few leases, not from all questions
            " WHERE session = ? AND number IS NOT NULL AND ended_at IS NULL ORDER BY leases.id",
            session,
        )

    @writes
    def lease(self, session: int, question: int, annotator: str) -> None:
        """Lease a question to an annotator, ending any other lease on it."""
        self._check_question(session, question)
        self.end_lease(session, question)
        self._insert("leases", {"question": question, "annotator": annotator, "leased_at": now()})

    @writes
    def end_lease(self, session: int, question: int) -> None:
        """End the lease on a question."""
        ended = f"UPDATE leases SET ended_at = ? WHERE {self.QUESTION} AND ended_at IS NULL"
        self.db.execute(ended, [now(), session, question])

    @writes
    def renew_leases(self, session: int, annotator: str) -> None:
        """Start the leases of an annotator in a session anew from now."""
        self.db.execute(
            "UPDATE leases SET leased_at = ? WHERE annotator = ? AND ended_at IS NULL"
            " AND EXISTS (SELECT 1 FROM questions WHERE id = question AND session = ?)",
            [now(), annotator, session],
        )

    @writes
    def pass_on(self, session: int, old: str, new: str) -> None:
        """Move the leases of an annotator to another name."""
        for row in self.leases(session):
            if row["annotator"] == old:
                self.lease(session, row["question"], new)

    def leased(self, session: int, question: int, annotator: str) -> bool:
        """Return whether an annotator ever had a question, or the question before it."""
        sql = (
            "SELECT 1 FROM questions JOIN leases ON question IN (questions.id, parent)"
            " WHERE session = ? AND questions.id = ? AND annotator = ?"
        )
        return self.one(sql, session, question, annotator) is not None

    def answered_by(self, session: int, question: int, annotator: str) -> bool:
        """Return whether an annotator gave the first label of a question, which may have been corrected since."""
        sql = (
            f"SELECT 1 FROM events WHERE {self.QUESTION} AND annotator = ?"
            " AND number = (SELECT given FROM labels WHERE labels.question = events.question)"
        )
        return self.one(sql, session, question, annotator) is not None

    def due_answers(self, session: int, annotator: str) -> list[int]:
        """Return the questions that still need the answer of another person, and that this annotator never answered."""
        rows = self.query(
            "SELECT questions.id FROM questions JOIN labels ON labels.question = questions.id"
            " JOIN sessions ON sessions.id = session WHERE session = ? AND labels.label != 0 AND questions.overlap = 1"
            " AND people > 1 + (SELECT count(*) FROM opinions WHERE question = questions.id AND kind != 'again')"
            " AND NOT EXISTS (SELECT 1 FROM events WHERE question = questions.id AND annotator = ?"
            " AND kind IN ('answered', 'corrected'))"
            " AND NOT EXISTS (SELECT 1 FROM opinions WHERE question = questions.id AND annotator = ?) ORDER BY number",
            session, annotator, annotator,
        )  # fmt: skip
        return [row["id"] for row in rows]

    def unrepeated(self, session: int, annotator: str) -> list[int]:
        """Return the questions to repeat to an annotator: drawn for it, answered by them, and not corrected."""
        rows = self.query(
            "SELECT questions.id FROM questions JOIN labels ON labels.question = questions.id"
            " WHERE session = ? AND labels.label != 0 AND repeat = 1 AND annotator = ? AND NOT EXISTS"
            " (SELECT 1 FROM opinions WHERE question = questions.id AND annotator = labels.annotator)"
            " AND NOT EXISTS (SELECT 1 FROM events WHERE question = questions.id AND kind = 'corrected'"
            " AND events.number > given) ORDER BY number",
            session, annotator,
        )  # fmt: skip
        return [row["id"] for row in rows]

    @writes
    def withdraw(self, session: int, question: int, annotator: str, id: str | None = None) -> bool:
        """Take back the further answer of an annotator to a question. Return whether there was one."""
        sql = f"SELECT 1 FROM opinions WHERE {self.QUESTION} AND annotator = ?"
        exists = self.one(sql, session, question, annotator) is not None
        if exists:
            self.put_event(session, "withdrawn", id, annotator, question=question)
        return exists

    def opinions(self, session: int) -> list[Row]:
        """Return the further answers, which gave no label, in order, each with the item and the probability of its
        question, who gave its first label, and the label of each of several questions (None: there is one): for each
        person and question the first one that was not taken back."""
        rows = self.query(
            "SELECT opinions.*, questions.item, probability, events.annotator AS first_annotator,"
            " own.data ->> '$.labels' AS labels FROM opinions"
            " JOIN questions ON questions.id = opinions.question LEFT JOIN labels ON labels.question = questions.id"
            " LEFT JOIN events ON events.session = questions.session AND events.number = labels.given"
            " JOIN events AS own ON own.session = questions.session AND own.number = opinions.given"
            " WHERE questions.session = ? ORDER BY opinions.given",
            session,
        )
        return [_decoded(row, "labels") for row in rows]

    # Marks, preferences

    def marks(self, session: int) -> dict[int, Row]:
        """Return the latest mark of each item: {item: {"wrong": it passed wrongly, "trains": the mark was learned}}."""
        return {row["item"]: row["data"] for row in self.events(session, "marked")}

    def preferences(self, annotator: str) -> dict[str, Any]:
        """Return the preferences of an annotator, such as keys and text size."""
        row = self.one("SELECT preferences FROM annotators WHERE name = ?", annotator)
        return json.loads(row["preferences"]) if row else {}

    @writes
    def put_preferences(self, annotator: str, preferences: Mapping[str, Any]) -> None:
        """Store the preferences of an annotator."""
        self._insert("annotators", {"name": annotator, "preferences": json.dumps(preferences)}, "OR REPLACE")

    # Digests

    @writes
    def put_digest(self, session: int, number: int, digest: str) -> None:
        """Store the digest of the state after event `number`."""
        self._insert("digests", {"session": session, "number": number, "digest": digest}, "OR REPLACE")

    def digests(self, session: int) -> dict[int, str]:
        """Return the stored digests of a session by number of event."""
        rows = self.query("SELECT number, digest FROM digests WHERE session = ? ORDER BY number", session)
        return {row["number"]: row["digest"] for row in rows}

    # Comparisons

    @writes
    def add_comparison(
        self, name: str, specification: Mapping[str, Any], versions: Mapping[str, str], datasets: Iterable[int | None]
    ) -> int:
        """Insert a comparison to be run, and return its id. datasets: ids in the order of its data (None: not imported
        yet)."""
        values = {"specification": specification, "versions": versions, "datasets": [*datasets]}
        return self._add("comparisons", {"name": name} | {key: json.dumps(value) for key, value in values.items()})

    @writes
    def put_lines(self, comparison: int, lines: Iterable[Row], finished: bool = False) -> None:
        """Store the finished result lines of a comparison. `finished` marks it complete."""
        self.db.execute(
            "UPDATE comparisons SET lines = ?, finished_at = coalesce(finished_at, ?) WHERE id = ?",
            [json.dumps(lines), now() if finished else None, comparison],
        )

    COMPARISON = (
        "id, name, specification, versions, datasets, lines IS NOT NULL AS has_lines, created_at, finished_at,"
        " (SELECT count(*) FROM replays WHERE comparison = comparisons.id) AS replays"
    )

    def comparisons(self) -> list[Row]:
        """Return all comparisons, newest first, with the number of their stored replays, but without their lines."""
        rows = self.query(f"SELECT {self.COMPARISON} FROM comparisons ORDER BY id DESC")
        return [_decoded(row, "specification", "versions", "datasets") for row in rows]

    def comparison(self, key: int | str, lines: bool = True) -> Row:
        """Return a comparison by its id or name, with its result lines if `lines`."""
        more = ["lines"] if lines else []
        row = self._by_key("comparison", "comparisons", ", ".join([self.COMPARISON, *more]), key)
        return _decoded(row, "specification", "versions", "datasets", *more)

    def has_comparison(self, name: str) -> bool:
        """Return whether a comparison of this name exists."""
        return self.one("SELECT 1 FROM comparisons WHERE name = ?", name) is not None

    @writes
    def remove_comparison(self, comparison: int) -> None:
        """Delete a comparison with its replays."""
        self.db.execute("DELETE FROM comparisons WHERE id = ?", [comparison])

    @writes
    def put_replays(self, comparison: int, replays: Mapping[str, np.ndarray]) -> None:
        """Store the counts of finished replays by the keys of their jobs."""
        self.db.conn.executemany(
            "INSERT OR IGNORE INTO replays (comparison, job, shape, counts) VALUES (?, ?, ?, ?)",
            ((comparison, job, json.dumps(counts.shape), counts.tobytes()) for job, counts in replays.items()),
        )

    def replays(self, comparison: int) -> dict[str, np.ndarray]:
        """Return the counts of the stored replays, by the keys of their jobs."""
        rows = self.query("SELECT job, shape, counts FROM replays WHERE comparison = ?", comparison)
        return {row["job"]: np.frombuffer(row["counts"], np.int64).reshape(json.loads(row["shape"])) for row in rows}

    # The jobs of comparisons

    def job(self, comparison: int) -> Row | None:
        """Return the job of a comparison, or None."""
        return self.one("SELECT * FROM jobs WHERE comparison = ?", comparison)

    @writes
    def put_job(self, comparison: int, pid: int, started: str) -> None:
        """Store the process that now runs a comparison."""
        values = {"comparison": comparison, "pid": pid, "started": started, "state": "running"}
        self._insert("jobs", values, "OR REPLACE")

    RUNNING = "WHERE comparison = ? AND pid = ? AND state = 'running'"

    @writes
    def advance_job(self, comparison: int, pid: int, done: int, total: int) -> None:
        """Store the number of finished replays. The number at the first call was done before the job began."""
        self.db.execute(
            "UPDATE jobs SET done = ?, total = ?, known = coalesce(known, ?), begun_at = coalesce(begun_at, ?)"
            f" {self.RUNNING}",
            [done, total, done, now(), comparison, pid],
        )

    @writes
    def end_job(self, comparison: int, pid: int, state: str, message: str | None = None) -> None:
        """Store how a job ended, unless it had ended before."""
        self.db.execute(f"UPDATE jobs SET state = ?, message = ? {self.RUNNING}", [state, message, comparison, pid])
