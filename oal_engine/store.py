"""Everything that is kept, in one SQLite file: data sets, items, vocabularies, sessions, questions, labels, digests.

All SQL about them is here. Rows of numbers lie beside the file, in a folder named after it, mapped into memory.
"""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from .database import ConflictError, Database, StorageError, StoreError, writes

__all__ = ["ConflictError", "StorageError", "Store", "StoreError", "default_path", "now"]


def default_path():
    """The database that app and command line share: OAL_DB, or studio.db in the working directory."""
    return Path(os.environ.get("OAL_DB", "studio.db"))


def now():
    """The time in UTC, to the millisecond, as it is stored."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _decoded(row, *columns):
    return row | {column: row[column] and json.loads(row[column]) for column in columns}


class Store(Database):
    """The tables of a database: every question about what is kept, and every change of it."""

    def __init__(self, path: Path | str | None = None, read_only: bool = False, patience: float = 30):
        super().__init__(path or default_path(), read_only, patience)

    def problems(self):
        """What is wrong with the database itself, in sentences: what SQLite finds damaged, rows that refer to none, and
        data sets that do not have the items that they say."""
        with self.snapshot():
            found = [row["integrity_check"] for row in self.query("PRAGMA integrity_check(20)")]
            lost = self.query("PRAGMA foreign_key_check")
            short = self.query(
                "SELECT name, items, (SELECT count(*) FROM items WHERE dataset = datasets.id) AS found"
                " FROM datasets WHERE items != found"
            )
        return [
            *(line for line in found if line != "ok"),
            *(f"{row['table']} refers to a row of {row['parent']} that is not there" for row in lost[:20]),
            *(f"the data set {row['name']} has {row['found']:,} items, not {row['items']:,}" for row in short),
        ]

    def _insert(self, table, values, otherwise=""):
        """Insert a row with one statement: sqlite-utils would look at the schema first, while others wait to write."""
        columns, marks = ", ".join(values), ", ".join("?" * len(values))
        self.db.conn.execute(f"INSERT {otherwise} INTO {table} ({columns}) VALUES ({marks})", [*values.values()])

    # Data sets

    @property
    def folder(self):
        """Where the rows of the data sets lie."""
        return self.path.with_name(self.path.stem + ".rows")

    @writes
    def add_dataset(self, about, items, vocabulary=()):
        """Insert a data set with its items (id, text, label, y) and vocabulary (term, document frequency); its id."""
        dataset = self.db["datasets"].insert(about | {"created_at": now()}).last_pk
        self.db.conn.executemany(
            "INSERT INTO items (dataset, position, id, text, label, y) VALUES (?, ?, ?, ?, ?, ?)",
            ((dataset, position, *item) for position, item in enumerate(items)),
        )
        self.db.conn.executemany(
            "INSERT INTO vocabulary (dataset, column, term, document_frequency) VALUES (?, ?, ?, ?)",
            ((dataset, column, *term) for column, term in enumerate(vocabulary)),
        )
        return dataset

    def datasets(self):
        """All data sets, newest first, with their classes decoded and the number of sessions that use each."""
        found = self.query(
            "SELECT datasets.*, (SELECT count(*) FROM sessions WHERE dataset = datasets.id) AS sessions"
            " FROM datasets ORDER BY id DESC"
        )
        return [_decoded(row, "classes") for row in found]

    def dataset(self, key):
        """One data set by its id or name; its classes are {name: items}, or None where they are two."""
        column = "id" if isinstance(key, int) else "name"
        found = self.one(f"SELECT * FROM datasets WHERE {column} = ?", key)
        if found is None:
            names = ", ".join(row["name"] for row in self.datasets()) or "none"
            raise StoreError(f"data set {key} does not exist. There are: {names}.")
        return _decoded(found, "classes")

    def has_dataset(self, name):
        """Whether there is a data set of this name."""
        return self.one("SELECT 1 FROM datasets WHERE name = ?", name) is not None

    @writes
    def remove_dataset(self, dataset):
        """Delete a data set that no session uses; its rows on disk are the caller's to remove."""
        used = self.query("SELECT name FROM sessions WHERE dataset = ?", dataset)
        if used:
            raise StoreError(f"the data set is used by the session {used[0]['name']}. Remove its sessions first.")
        self.db.execute("DELETE FROM datasets WHERE id = ?", [dataset])

    def item(self, dataset, position):
        """One item: id, text, label, y."""
        return self.one("SELECT * FROM items WHERE dataset = ? AND position = ?", dataset, position)

    def items(self, dataset, positions, texts=False):
        """Some items by position: position, id and label, and text if wanted."""
        found = self.query(
            f"SELECT position, id, label{', text' * texts} FROM items"
            " WHERE dataset = ? AND position IN (SELECT value FROM json_each(?))",
            dataset, json.dumps(positions),
        )  # fmt: skip
        return {row["position"]: row for row in found}

    def vocabulary(self, dataset):
        """Terms and document frequencies in the order of their columns."""
        return self.query("SELECT term, document_frequency FROM vocabulary WHERE dataset = ? ORDER BY column", dataset)

    # Data sets that grow

    def length(self, dataset):
        """How many items a data set has."""
        return self.one("SELECT items FROM datasets WHERE id = ?", dataset)["items"]

    def texts(self, dataset, first, stop):
        """The texts of some items, in order."""
        found = self.query(
            "SELECT text FROM items WHERE dataset = ? AND position >= ? AND position < ? ORDER BY position",
            dataset, first, stop,
        )  # fmt: skip
        return [row["text"] for row in found]

    def label_words(self, dataset):
        """What each label word of a data set means: {word: y}."""
        found = self.query("SELECT DISTINCT label, y FROM items WHERE dataset = ?", dataset)
        return {row["label"]: row["y"] for row in found}

    @writes
    def update_dataset(self, dataset, values):
        """Change what is said of a data set."""
        self.db["datasets"].update(dataset, values)

    @writes
    def put_contents(self, dataset, digests):
        """Keep digests of what items hold; whether each was new."""
        put = "INSERT OR IGNORE INTO contents (dataset, digest) VALUES (?, ?)"
        return [self.db.conn.execute(put, (dataset, digest)).rowcount == 1 for digest in digests]

    @writes
    def append_items(self, dataset, first, items):
        """Insert items (id, text, label, y) from position `first` on; how many had an id that was taken, and got their
        number behind it."""
        put = "INSERT OR IGNORE INTO items (dataset, position, id, text, label, y) VALUES (?, ?, ?, ?, ?, ?)"
        renamed = 0
        for position, (given, *rest) in enumerate(items, first):
            id = given or str(position + 1)
            while self.db.conn.execute(put, (dataset, position, id, *rest)).rowcount == 0:
                id = f"{id}#{position + 1}"
            renamed += bool(given) and id != given
        return renamed

    @writes
    def drop_last_digests(self, key, value):
        """Drop the digests that were taken at the end of the sessions whose `id` or `dataset` is this: where the stream
        goes on, they do not come out again."""
        self.db.execute(
            f"DELETE FROM digests WHERE session IN (SELECT id FROM sessions WHERE {key} = ?) AND NOT EXISTS"
            " (SELECT 1 FROM questions WHERE questions.session = digests.session AND number = digests.answers + 1)",
            [value],
        )

    # Sessions

    @writes
    def add_session(self, values):
        """Insert a session; its id."""
        return self.db["sessions"].insert(values | {"created_at": now()}).last_pk

    def session(self, session):
        """The settings of a session, its parameters and the names of its classes decoded."""
        found = self.one(
            "SELECT sessions.*, datasets.name AS dataset_name FROM sessions"
            " JOIN datasets ON datasets.id = dataset WHERE sessions.id = ?",
            session,
        )
        if found is None:
            raise StoreError(f"session {session} does not exist.")
        return _decoded(found, "parameters", "classes")

    def sessions(self):
        """All sessions with their progress, the one last worked on first."""
        found = self.query("""
            SELECT sessions.*, datasets.name AS dataset_name, datasets.items AS stream,
                count(CASE WHEN label != 0 THEN 1 END) AS labels, count(CASE WHEN label = 0 THEN 1 END) AS skipped,
                count(CASE WHEN label > 0 THEN 1 END) AS positives,
                coalesce(max(answered_at), sessions.created_at) AS worked_at, max(round) AS round
            FROM sessions JOIN datasets ON datasets.id = dataset
            LEFT JOIN questions ON questions.session = sessions.id AND number IS NOT NULL
            LEFT JOIN labels ON question = questions.id AND undone_at IS NULL
            GROUP BY sessions.id ORDER BY worked_at DESC, sessions.id DESC""")
        return [_decoded(row, "classes") for row in found]

    @writes
    def made_at(self, session, created_at, engine, items):
        """Say when, with which engine and over how many items a session was made elsewhere."""
        self.db["sessions"].update(session, {"created_at": created_at, "engine": engine, "items": items})

    @writes
    def remove_session(self, session):
        """Delete a session with its questions and labels."""
        self.db.execute("DELETE FROM sessions WHERE id = ?", [session])

    # The log of a session

    def answers(self, session, after=0):
        """The questions of a session behind one of a number in order, each with its label that stands (None: not
        answered yet) and the label first given (`first`) where others corrected it: with `changes` all that a rebuild
        needs."""
        return self.query(
            f"""{self.ALIVE} SELECT questions.*, labels.event, labels.label, alive.label AS first,
                labels.annotator, labels.answered_at, labels.seconds
            FROM questions LEFT JOIN labels ON labels.question = questions.id AND undone_at IS NULL
            LEFT JOIN alive ON alive.question = questions.id AND alive.position IS NULL
            WHERE session = ? AND number IS NOT NULL AND +number > ? ORDER BY number""",  # + keeps the join by an index
            session,
            after,
            session,
            after,
        )

    # The labels of a session, of questions behind one of a number: those that stand and those that a correction
    # replaced, not those that were taken back.
    ALIVE = """
        WITH RECURSIVE alive (event, question, label, position, at_end, age) AS (
            SELECT event, question, label, position, at_end, labels.rowid FROM labels
            JOIN questions ON questions.id = question
            WHERE session = ? AND number > ? AND undone_at IS NULL
            UNION ALL
            SELECT labels.event, labels.question, labels.label, labels.position, labels.at_end, labels.rowid FROM labels
            JOIN alive ON undone_by = alive.event)"""

    def changes(self, session):
        """What changed the learner besides answers, in order: corrections (question, label) and wrong marks that train
        (item), each with the number of answers that stood then and where the stream had ended."""
        return self.query(
            f"""{self.ALIVE} SELECT position, at_end, question, NULL AS item, label, age FROM alive
            WHERE position IS NOT NULL
            UNION ALL SELECT position, at_end, NULL, item, -1, rowid FROM feedback
            WHERE session = ? AND position IS NOT NULL ORDER BY position, at_end NULLS LAST, age""",
            session,
            0,
            session,
        )

    def history(self, session):
        """Every question of a session that was ever answered or waits, every label that it ever had, every note and
        every mark, by age."""
        questions = self.query(
            "SELECT * FROM questions WHERE session = ?"
            " AND (number IS NOT NULL OR id IN (SELECT question FROM labels)) ORDER BY id",
            session,
        )
        labels = self.query(
            "SELECT labels.* FROM labels JOIN questions ON questions.id = question WHERE session = ?"
            " ORDER BY labels.rowid",
            session,
        )
        notes, marks = (
            self.query(f"SELECT * FROM {table} WHERE session = ? ORDER BY rowid", session)
            for table in ("notes", "feedback")
        )
        return questions, labels, notes, marks

    @writes
    def put_history(self, session, questions, labels, notes, marks, digests):
        """Store a session's questions, whose ids and parents count from 1 in this order, with its labels, notes, marks
        and digests ({answers: digest})."""
        last = self.one("SELECT max(seq) AS id FROM sqlite_sequence WHERE name = 'questions'")["id"] or 0

        def moved(id):
            return id + last * ((id > 0) - (id < 0))

        own = {"session": session}
        self.db["questions"].insert_all(
            values | own | {"id": moved(values["id"]), "parent": moved(values["parent"])} for values in questions
        )
        self.db["labels"].insert_all(values | {"question": moved(values["question"])} for values in labels)
        self.db["notes"].insert_all(values | own for values in notes)
        self.db["feedback"].insert_all(values | own for values in marks)
        for answers, digest in digests.items():
            self.put_digest(session, answers, digest)

    def log_version(self, session):
        """How often the log of a session was ever changed: two that are equal are of the same log."""
        found = self.one("SELECT log_version FROM sessions WHERE id = ?", session)
        if found is None:
            raise StoreError(f"session {session} does not exist.")
        return found["log_version"]

    @writes
    def count_change(self, session):
        """Count a change of the log of a session, whatever it is; the log's version from now on."""
        self.db.execute("UPDATE sessions SET log_version = log_version + 1 WHERE id = ?", [session])
        return self.log_version(session)

    def question_count(self, session):
        """How many questions of a session were asked."""
        return self.one("SELECT count(*) AS n FROM questions WHERE session = ? AND number IS NOT NULL", session)["n"]

    def event(self, event):
        """The label that an event gave or took back, or the mark that it gave, or None."""
        label = self.one("SELECT * FROM labels WHERE event = ? OR undone_by = ?", event, event)
        return label or self.one("SELECT * FROM feedback WHERE event = ?", event)

    def session_of(self, question):
        """The session of a question."""
        return self.one("SELECT session FROM questions WHERE id = ?", question)["session"]

    def standing_label(self, question):
        """The label of a question that stands, or None."""
        return self.one("SELECT * FROM labels WHERE question = ? AND undone_at IS NULL", question)

    def old_label(self, question):
        """The last label of a question that was taken back, or None."""
        return self.one(
            "SELECT * FROM labels WHERE question = ? AND undone_at IS NOT NULL ORDER BY rowid DESC LIMIT 1",
            question,
        )

    def prepared(self, question):
        """The questions that are stored to follow a question, by the answer to it."""
        found = self.query("SELECT * FROM questions WHERE parent = ? AND number IS NULL", question)
        return {row["branch"]: row for row in found}

    @writes
    def put_question(self, values):
        """Store a question before it is shown; the same (session, parent, branch) keeps its id."""
        fields = ", ".join(values)
        marks = ", ".join("?" * len(values))
        fresh = ", ".join(f"{name} = excluded.{name}" for name in values)
        return self.one(
            f"INSERT INTO questions ({fields}) VALUES ({marks})"
            f" ON CONFLICT (session, parent, branch) DO UPDATE SET {fresh} RETURNING id",
            *values.values(),
        )["id"]

    @writes
    def number_question(self, session, question, number):
        """Make a question the session's newest, with this number; none (None) has this number or a later one then."""
        self.db.execute(
            "UPDATE questions SET number = NULL WHERE session = ? AND number >= ? AND id IS NOT ?",
            [session, number, question],
        )
        self.db.execute(
            "UPDATE questions SET number = ?, asked_at = ? WHERE id = ? AND number IS NOT ?",
            [number, now(), question, number],
        )

    @writes
    def put_label(self, event, question, label, annotator, seconds, highlighted=None, position=None, at_end=None):
        """Store an answer; label 0 is a skip. highlighted: whether terms were. position: it corrects the label that
        stands, after so many answers; at_end: of the stream, which had so many rounds."""
        if position is not None:
            self.undo_label(question, event)
        self._insert("labels", {
            "event": event, "question": question, "label": label, "annotator": annotator, "answered_at": now(),
            "seconds": seconds, "highlighted": highlighted, "position": position, "at_end": at_end,
        })  # fmt: skip

    @writes
    def undo_label(self, question, event):
        """Mark the standing label of a question as taken back by an event."""
        self.db.execute(
            "UPDATE labels SET undone_at = ?, undone_by = ? WHERE question = ? AND undone_at IS NULL",
            [now(), event, question],
        )

    @writes
    def shorten_log(self, session, answers):
        """What came behind so many answers came with the last of them; digests of more are forgotten."""
        self.db.execute(
            "UPDATE labels SET position = ?, at_end = NULL WHERE position > ? AND question IN"
            " (SELECT id FROM questions WHERE session = ?)",
            [answers, answers, session],
        )
        self.db.execute(
            "UPDATE feedback SET position = ?, at_end = NULL WHERE position > ? AND session = ?",
            [answers, answers, session],
        )
        self.db.execute("DELETE FROM digests WHERE session = ? AND answers > ?", [session, answers])

    @writes
    def drop_prepared(self, session):
        """Forget the prepared questions; one that has an old label is kept, but never becomes the next one again."""
        unused = "session = ? AND number IS NULL"
        labelled = "id IN (SELECT question FROM labels)"
        self.db.execute(f"UPDATE questions SET parent = -id WHERE {unused} AND {labelled}", [session])
        self.db.execute(f"DELETE FROM questions WHERE {unused} AND NOT {labelled}", [session])

    # What annotators leave besides answers

    @writes
    def put_note(self, event, session, item, text, annotator):
        """Store a note on an item; an empty text takes the note away. A known event changes nothing."""
        self._insert("notes", {
            "event": event, "session": session, "item": item, "text": text, "annotator": annotator,
            "written_at": now(),
        }, "OR IGNORE")  # fmt: skip

    def notes(self, session):
        """The notes that stand, by item: the newest of each item."""
        found = self.query("SELECT item, text FROM notes WHERE session = ? ORDER BY rowid", session)
        return {item: text for item, text in {row["item"]: row["text"] for row in found}.items() if text}

    @writes
    def put_feedback(self, event, session, item, wrong, annotator, position=None, at_end=None):
        """Store that an item was passed wrongly, or that it was not; position: it trains, after so many answers;
        at_end: of the stream, which had so many rounds."""
        self._insert("feedback", {
            "event": event, "session": session, "item": item, "wrong": int(wrong), "position": position,
            "at_end": at_end, "annotator": annotator, "given_at": now(),
        })  # fmt: skip

    def feedback(self, session):
        """The mark of each item that stands: its newest."""
        found = self.query("SELECT * FROM feedback WHERE session = ? ORDER BY rowid", session)
        return list({row["item"]: row for row in found}.values())

    @writes
    def put_guidelines(self, session, text):
        """Store what the annotators of a session are to read."""
        self.db["sessions"].update(session, {"guidelines": text})

    @writes
    def put_feedback_trains(self, session, trains):
        """Store whether wrong marks train the learner of a session from now on."""
        self.db["sessions"].update(session, {"feedback_trains": int(trains)})

    def preferences(self, annotator):
        """What an annotator prefers, such as keys and the size of the text."""
        found = self.one("SELECT preferences FROM annotators WHERE name = ?", annotator)
        return json.loads(found["preferences"]) if found else {}

    @writes
    def put_preferences(self, annotator, preferences):
        """Store what an annotator prefers."""
        self._insert("annotators", {"name": annotator, "preferences": json.dumps(preferences)}, "OR REPLACE")

    # Digests

    @writes
    def put_digest(self, session, answers, digest):
        """Store the digest of the state after so many answers."""
        self._insert("digests", {"session": session, "answers": answers, "digest": digest}, "OR REPLACE")

    def digests(self, session):
        """The stored digests of a session by number of answers."""
        rows = self.query("SELECT answers, digest FROM digests WHERE session = ?", session)
        return {row["answers"]: row["digest"] for row in rows}

    # Comparisons

    @writes
    def add_comparison(self, name, specification, versions):
        """Insert a comparison that is to be run; its id."""
        values = {"name": name, "specification": json.dumps(specification), "versions": json.dumps(versions)}
        return self.db["comparisons"].insert(values | {"created_at": now()}).last_pk

    @writes
    def put_lines(self, comparison, lines, finished=False):
        """Keep the lines of its result that are complete, in the end all of them."""
        self.db.execute(
            "UPDATE comparisons SET lines = ?, finished_at = coalesce(finished_at, ?) WHERE id = ?",
            [json.dumps(lines), now() if finished else None, comparison],
        )

    COMPARISON = (
        "id, name, specification, versions, lines IS NOT NULL AS has_lines, created_at, finished_at,"
        " (SELECT count(*) FROM replays WHERE comparison = comparisons.id) AS replays"
    )

    def comparisons(self):
        """All comparisons, the newest first, with the number of replays that each has kept; without their lines, which
        are many."""
        found = self.query(f"SELECT {self.COMPARISON} FROM comparisons ORDER BY id DESC")
        return [_decoded(row, "specification", "versions") for row in found]

    def comparison(self, key, lines=True):
        """One comparison by its id or name, with the lines of its result where they are wanted."""
        column = "id" if isinstance(key, int) else "name"
        kept = ["lines"] if lines else []
        columns = ", ".join([self.COMPARISON, *kept])
        found = self.one(f"SELECT {columns} FROM comparisons WHERE {column} = ?", key)
        if found is None:
            names = ", ".join(row["name"] for row in self.comparisons()) or "none"
            raise StoreError(f"comparison {key} does not exist. There are: {names}.")
        return _decoded(found, "specification", "versions", *kept)

    def has_comparison(self, name):
        """Whether there is a comparison of this name."""
        return self.one("SELECT 1 FROM comparisons WHERE name = ?", name) is not None

    @writes
    def remove_comparison(self, comparison):
        """Delete a comparison with its replays."""
        self.db.execute("DELETE FROM comparisons WHERE id = ?", [comparison])

    @writes
    def put_replays(self, comparison, found):
        """Keep the counts of finished replays by the keys of their jobs."""
        self.db.conn.executemany(
            "INSERT OR IGNORE INTO replays (comparison, job, shape, counts) VALUES (?, ?, ?, ?)",
            ((comparison, job, json.dumps(counts.shape), counts.tobytes()) for job, counts in found.items()),
        )

    def replays(self, comparison):
        """The counts of the replays that are kept, by the keys of their jobs."""
        rows = self.query("SELECT job, shape, counts FROM replays WHERE comparison = ?", comparison)
        return {row["job"]: np.frombuffer(row["counts"], np.int64).reshape(json.loads(row["shape"])) for row in rows}

    # The jobs of comparisons

    def job(self, comparison):
        """The job of a comparison, or None."""
        return self.one("SELECT * FROM jobs WHERE comparison = ?", comparison)

    @writes
    def put_job(self, comparison, pid, started):
        """Note the process that runs a comparison from now on."""
        values = {"comparison": comparison, "pid": pid, "started": started, "state": "running"}
        self.db["jobs"].insert(values, replace=True)

    @writes
    def advance_job(self, comparison, pid, done, total):
        """Note how many replays are done; what was at the first time was known before."""
        self.db.execute(
            "UPDATE jobs SET done = ?, total = ?, known = coalesce(known, ?), begun_at = coalesce(begun_at, ?)"
            " WHERE comparison = ? AND pid = ? AND state = 'running'",
            [done, total, done, now(), comparison, pid],
        )

    @writes
    def end_job(self, comparison, pid, state, message=None):
        """Note how a job ended, unless it had ended before."""
        self.db.execute(
            "UPDATE jobs SET state = ?, message = ? WHERE comparison = ? AND pid = ? AND state = 'running'",
            [state, message, comparison, pid],
        )
