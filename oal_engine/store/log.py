"""The tables of session logs: questions, events, and the labels and opinions that are derived from the events. An
opinion is a second, repeated or late answer to a question: it does not set the label."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from . import fields
from .database import Database, MissingError, Row, StorageError, StoreError, decoded, from_json, now, writes

LABELS = """
    SELECT answered.question, answered.number AS given, standing.label, answered.label AS first,
        standing.annotator, standing.at AS answered_at, standing.seconds,
        standing.data ->> '$.labels' AS labels, answered.data ->> '$.labels' AS firsts
    FROM events AS answered
    JOIN events AS standing ON standing.session = answered.session AND standing.number = (
        SELECT max(number) FROM events WHERE question = answered.question AND kind IN ('answered', 'corrected'))
    WHERE answered.kind = 'answered' AND NOT EXISTS (
        SELECT 1 FROM events AS later WHERE later.question = answered.question AND later.number > answered.number
        AND later.kind = 'undone') {where}"""  # an answer that counts, with its last correction
OPINIONS = """
    SELECT question, annotator, min(number) AS given, kind, label, at AS answered_at, seconds FROM events AS answered
    WHERE kind IN ('second', 'late', 'again') AND NOT EXISTS (
        SELECT 1 FROM events AS later WHERE later.question = answered.question AND later.number > answered.number
        AND later.annotator = answered.annotator AND later.kind = 'withdrawn') {where}
    GROUP BY question, annotator"""  # the first one of each person


def _of_event(row: Row) -> Row:
    """Decode the JSON field of an event. A note or tag whose field is damaged gets an empty one, which no check
    allows: it closes no session."""
    try:
        return row | {"data": (row["data"] and from_json(row["data"], "data")) or {}}
    except StorageError:
        if row["kind"] not in fields.REMARKS:
            raise
        return row | {"data": {}}


def _as_stored(row: Row) -> Row:
    """Encode the JSON field of an event."""
    return row | {"data": json.dumps(row["data"], ensure_ascii=False) if row["data"] else None}


def _of_parts(row: Row) -> Row:
    """Decode the JSON fields of a question, if the session asks several questions: parts, labels, firsts."""
    return decoded(row, *(row.keys() & {"parts", "labels", "firsts"})) if row["parts"] else row


def _check_event(row: Row) -> None:
    """Raise StoreError if an event could not be read again."""
    if problem := fields.event_problem(row):
        raise StoreError(f"an event cannot be stored ({row['kind']}): {problem}.")


class History(NamedTuple):
    """The stored history of a session: the questions that were asked or that events refer to, the events in order, and
    the digests, {event number: digest}."""

    questions: list[Row]
    events: list[Row]
    digests: dict[int, str]


class Status(NamedTuple):
    """The stored facts that may change while a session is open.

    version: number of changes to its log: equal versions mean equal logs. items: number of items of its data set.
    has_event: whether an event with a given id is stored. settings: its settings, as they are stored.
    """

    version: int
    items: int
    has_event: int
    settings: Row


class Logs(Database):
    """The methods of `Store` for the logs of sessions."""

    # The log of a session

    ANSWERS = (
        "SELECT questions.*, label, first, annotator, answered_at, seconds, labels, firsts FROM questions"
        " LEFT JOIN labels ON question = id WHERE session = ?"
    )

    def answers(self, session: int, after: int = 0) -> list[Row]:
        """Return the questions asked of annotators, in order, from number `after` + 1 on: rows of `questions`, each
        with its current label (None: not answered yet), who gave it and when, and its first label. If the session asks
        several questions about each item, each row has lists with an entry for each of these: `parts` ([margin,
        predicted class]), `labels` (current label) and `firsts` (first label)."""
        return [_of_parts(row) for row in self.query(f"{self.ANSWERS} AND number > ? ORDER BY number", session, after)]

    def answer(self, session: int, question: int) -> Row | None:
        """Return one question as `answers` does, or None if the session has not asked it."""
        row = self.one(f"{self.ANSWERS} AND id = ? AND number IS NOT NULL", session, question)
        return row and _of_parts(row)

    def events(self, session: int, *kinds: str, after: int = 0) -> list[Row]:
        """Return the events of a session with a number above `after`, in order. kinds: only events of these kinds
        (default: all). Each has number, id (None: not sent by a page), kind, at, annotator, question, item, label,
        seconds, and `data` with the other fields of its kind."""
        # Without a hint SQLite reads all events, because the primary key has their order.
        table = "events INDEXED BY events_kind" if kinds else "events"
        some = f" AND kind IN ({', '.join('?' * len(kinds))})" if kinds else ""
        since = f"SELECT * FROM {table} WHERE session = ? AND number > ?{some} ORDER BY number"
        return [*map(_of_event, self.query(since, session, after, *kinds))]

    @writes
    def put_event(
        self, session: int, kind: str, id: str | None = None, annotator: str = "", *, question: int | None = None,
        item: int | None = None, label: int | None = None, seconds: float | None = None, data: Row | None = None,
    ) -> int:  # fmt: skip
        """Append an event to the log of a session, and update the labels and opinions that are derived from the log.
        Return the number of the event. Raise StoreError if a field has a value that could not be read again."""
        row = {
            "session": session, "id": id, "kind": kind, "at": now(), "annotator": annotator, "question": question,
            "item": item, "label": label, "seconds": seconds, "data": data,
        }  # fmt: skip
        _check_event(row)
        stored = self.query(
            f"INSERT INTO events (number, {', '.join(row)})"
            " SELECT (SELECT coalesce(max(number), 0) + 1 FROM events WHERE session = ?),"
            f" {', '.join('?' * len(row))} WHERE ? IS NULL OR EXISTS"
            " (SELECT 1 FROM questions WHERE session = ? AND id = ?) RETURNING number",
            session, *_as_stored(row).values(), question, session, question,
        )  # fmt: skip
        if not stored:
            raise StoreError(f"session {session} has no question {question}.")
        for table, (select, kinds) in self.DERIVED.items():
            if kind in kinds:
                if kind != "answered":  # a second label of a question must violate the constraint
                    self.db.execute(f"DELETE FROM {table} WHERE question = ?", [question])
                own = select.format(where="AND answered.question = ?")
                self.db.execute(f"INSERT INTO {table} {own}", [question])
        if kind == "undone":
            answered = "SELECT max(number) FROM events WHERE question = ? AND kind = 'answered'"
            self.db.execute(f"DELETE FROM digests WHERE session = ? AND number >= ({answered})", [session, question])
        return int(stored[0]["number"])

    @writes
    def put_known(
        self, session: int, labels: Iterable[tuple[int, int, Sequence[int]]], origin: str, id: str | None = None,
        by: str = "",
    ) -> None:  # fmt: skip
        """Append known labels to the log of a session. labels: (item, label, labels), where the last element has a
        label for each question if the session asks several about each item, else none. origin: where the labels come
        from, such as "file". id: the event id with which a page sent the labels; the first label's event gets it."""
        number, at = self.number("SELECT coalesce(max(number), 0) FROM events WHERE session = ?", session), now()
        _check_event({
            "id": id, "kind": "known", "at": at, "annotator": by, "item": 0, "label": 0, "data": {"origin": origin}
        })  # fmt: skip

        def row(place: int, item: int, label: int, own: Sequence[int]) -> tuple[Any, ...]:
            data = json.dumps({"origin": origin} | ({"labels": own} if own else {}), ensure_ascii=False)
            return session, number + place, id if place == 1 else None, at, by, item, label, data

        self.db.executemany(
            "INSERT INTO events (session, number, id, kind, at, annotator, item, label, data)"
            " VALUES (?, ?, ?, 'known', ?, ?, ?, ?, ?)",
            (row(place, *each) for place, each in enumerate(labels, 1)),
        )

    def first_known(self, session: int) -> list[tuple[int, int, tuple[int, ...]]]:
        """Return the known labels that a session begins with: (item, label, labels), as in `put_known`."""
        rows = self.query(
            "SELECT item, label, data FROM events WHERE session = ? AND kind = 'known' AND number < coalesce("
            "(SELECT min(number) FROM events WHERE session = ? AND kind = 'grown'), 0) ORDER BY number",
            session, session,
        )  # fmt: skip
        own = (tuple((from_json(row["data"], "data") or {}).get("labels", ())) for row in rows)
        return [(row["item"], row["label"], labels) for row, labels in zip(rows, own)]

    def begins_with(self, session: int, origin: str) -> bool:
        """Return whether a session begins with known labels of this origin, such as "file"."""
        row = self.one("SELECT data FROM events WHERE session = ? AND kind = 'known' AND number = 1", session)
        return row is not None and (from_json(row["data"], "data") or {}).get("origin") == origin

    def known_labels(self, session: int) -> dict[int, Row]:
        """Return the event of each item's latest known label, {item: event}. Items with the label 0 are omitted."""
        rows = {row["item"]: row for row in self.events(session, "known")}
        return {item: row for item, row in rows.items() if row["label"]}

    # {table derived from the events: (its query, the kinds of events that it depends on)}
    DERIVED: Mapping[str, tuple[str, tuple[str, ...]]] = {
        "labels": (LABELS, ("answered", "corrected", "undone")),
        "opinions": (OPINIONS, ("second", "late", "again", "withdrawn")),
    }

    @writes
    def derive_answers(self, session: int) -> None:
        """Rebuild the labels and opinions of a session from its events."""
        for table, (select, _) in self.DERIVED.items():
            own = "question IN (SELECT id FROM questions WHERE session = ?)"
            self.db.execute(f"DELETE FROM {table} WHERE {own}", [session])
            derived = select.format(where="AND answered.session = ?")
            self.db.execute(f"INSERT INTO {table} {derived}", [session])

    def _answers_follow(self, session: int) -> bool:
        """Return whether the stored labels and opinions of a session match its events."""
        for table, (select, _) in self.DERIVED.items():
            own = select.format(where="AND answered.session = ?")
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
        """Store a history as the log of a session, in place of its events. In the history, question ids and parent ids
        are numbered from 1 in list order; in the database they are shifted above all ids ever used."""
        last = self.number("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'questions'")

        def moved(id: int) -> int:
            return id + last * ((id > 0) - (id < 0))

        for row in history.questions:
            place = {"session": session, "id": moved(row["id"]), "parent": moved(row["parent"])}
            self._insert("questions", row | place | {"parts": row["parts"] and json.dumps(row["parts"])})
        self.db.execute("DELETE FROM events WHERE session = ?", [session])
        for number, row in enumerate(history.events, 1):
            own = {"session": session, "number": number, "question": row["question"] and moved(row["question"])}
            self._insert("events", _as_stored(row | own))
        self.derive_answers(session)
        for number, digest in history.digests.items():
            self.put_digest(session, number, digest)

    def foreign_answers(self, session: int) -> list[Row]:
        """Return the answers whose label is not a class of the session: number of the question (None: it was never
        asked), label, annotator."""
        return self.query(
            "SELECT questions.number, label, events.annotator FROM events"
            " LEFT JOIN questions ON questions.id = question JOIN sessions ON sessions.id = events.session"
            " WHERE events.session = ? AND label IS NOT NULL"
            " AND CASE json_type(classes) WHEN 'array' THEN label NOT BETWEEN 0 AND json_array_length(classes)"
            " ELSE label NOT IN (-1, 0, 1) END",
            session,
        )

    def log_version(self, session: int) -> int:
        """Return the version of a session's log, a count of its changes: equal versions mean equal logs."""
        return self.status(session).version

    def status(self, session: int, event: str | None = None) -> Status:
        """Return the stored status of a session. event: an event id. Raise MissingError if the
        session is removed or missing."""
        row = self.one(
            "SELECT sessions.*, datasets.name AS dataset_name, datasets.items AS stream,"
            " EXISTS (SELECT 1 FROM events WHERE events.id = ?) AS has_event FROM sessions"
            f" JOIN datasets ON datasets.id = dataset WHERE sessions.id = ? AND {self.PRESENT}",
            event, session,
        )  # fmt: skip
        row = self._present(row, session)
        return Status(row.pop("log_version"), row.pop("stream"), row.pop("has_event"), row)

    @staticmethod
    def _present(row: Row | None, session: int) -> Row:
        """Return the row of a session. Raise MissingError if there is none."""
        if row is None:
            raise MissingError(f"session {session} does not exist.")
        return row

    @writes
    def count_change(self, session: int) -> int:
        """Increment the version of a session's log, and return it."""
        changed = f"UPDATE sessions SET log_version = log_version + 1 WHERE id = ? AND {self.PRESENT}"
        return int(self._present(self.one(f"{changed} RETURNING log_version", session), session)["log_version"])

    def question_count(self, session: int) -> int:
        """Return the number of questions that a session has asked."""
        return self.number("SELECT count(*) FROM questions WHERE session = ? AND number IS NOT NULL", session)

    def event(self, id: str) -> Row | None:
        """Return the event that a page sent under an id, as `events` does, with its item; None if there is none."""
        row = self.one(
            "SELECT events.*, coalesce(events.item, questions.item) AS item FROM events"
            " LEFT JOIN questions ON questions.id = question WHERE events.id = ?",
            id,
        )
        return row and _of_event(row)

    def parts_of(self, session: int, question: int) -> list[list[float]]:
        """Return [margin, predicted class] of each of several questions in a stored question; [] if there is one."""
        row = self.one("SELECT parts FROM questions WHERE session = ? AND id = ?", session, question)
        return (row and row["parts"] and from_json(row["parts"], "parts")) or []

    # A browser sends ids of questions, which are unique over all sessions. Every statement about a question also takes
    # the session, so that it cannot reach a question of another session.
    QUESTION = "question = (SELECT id FROM questions WHERE session = ? AND id = ?)"

    def item_of(self, session: int, question: int) -> int | None:
        """Return the item of a question; None if the session does not have this question."""
        row = self.one("SELECT item FROM questions WHERE session = ? AND id = ?", session, question)
        return int(row["item"]) if row else None

    def asked_of_item(self, session: int, question: int) -> int | None:
        """Return the id of the question that was asked about the same item as `question`, or None if there is none."""
        item = "(SELECT item FROM questions WHERE session = ? AND id = ?)"
        sql = f"SELECT id FROM questions WHERE session = ? AND item = {item} AND number IS NOT NULL"
        row = self.one(sql, session, session, question)
        return int(row["id"]) if row else None

    def standing_label(self, session: int, question: int) -> Row | None:
        """Return the row of `labels` with the current label of a question, or None."""
        return self.one(f"SELECT * FROM labels WHERE {self.QUESTION}", session, question)

    def prepared(self, session: int, question: int) -> dict[int, Row]:
        """Return the questions prepared to follow a question: {answer to this question: next question}."""
        sql = "SELECT * FROM questions WHERE session = ? AND parent = ? AND number IS NULL"
        return {row["branch"]: row for row in self.query(sql, session, question)}

    @writes
    def put_questions(self, session: int, parent: int | None, questions: Mapping[int, Row]) -> dict[int, int]:
        """Store questions before they are shown, {answer to the question `parent`: question that follows it}. Return
        their ids, {answer: id}. A question that is stored already for an answer is overwritten and keeps its id.

        parent: None if the one question follows no single question. parts: [margin, predicted class] of each question,
        if the session asks several. All questions have the same columns.
        """
        own: Row = {"session": session, "parent": parent}
        if parent is None:
            id = self.number("SELECT coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'questions'")
            own |= {"id": id, "parent": -id}
        rows = [own | {"branch": branch} | row for branch, row in questions.items()]
        rows = [row | {"parts": json.dumps(row["parts"])} if "parts" in row else row for row in rows]
        if not rows:
            return {}
        marks = f"({', '.join('?' * len(rows[0]))})"
        stored = self.query(
            f"INSERT INTO questions ({', '.join(rows[0])}) VALUES {', '.join([marks] * len(rows))}"
            " ON CONFLICT (session, parent, branch) DO UPDATE SET"
            f" {', '.join(f'{name} = excluded.{name}' for name in rows[0])} RETURNING branch, id",
            *chain(*(row.values() for row in rows)),
        )
        return {row["branch"]: row["id"] for row in stored}

    @writes
    def number_question(self, session: int, question: int | None, number: int, is_last: bool = False) -> None:
        """Give a question the number `number`, which makes it the newest one. Others with this number or a later one
        lose theirs. question: None only removes numbers. is_last: whether no question has such a number."""
        if not is_last:
            self.db.execute(
                "UPDATE questions SET number = NULL WHERE session = ? AND number >= ? AND id IS NOT ?",
                [session, number, question],
            )
        if question is not None:
            self.db.execute(
                "UPDATE questions SET number = ?, asked_at = ? WHERE session = ? AND id = ? AND number IS NOT ?",
                [number, now(), session, question, number],
            )

    @writes
    def part_prepared(self, session: int, *parents: int | None) -> None:
        """Detach questions that were prepared to follow `parents`, so that they do not become the next ones.

        As a page may show them already, they stay stored, with ended leases for the annotators of their parents.
        """
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
    def lease(self, session: int, question: int, annotator: str, answered: int | None = None) -> None:
        """Lease a question to an annotator, ending any other lease on it, and the lease on the question `answered`."""
        self.end_lease(session, question, answered)
        leased = "INSERT INTO leases (question, annotator, leased_at) SELECT id, ?, ? FROM questions"
        values = annotator, now(), session, question
        if self.db.execute(f"{leased} WHERE session = ? AND id = ?", values).rowcount == 0:
            raise StoreError(f"session {session} has no question {question}.")

    @writes
    def end_lease(self, session: int, *questions: int | None) -> None:
        """End the leases on questions."""
        own = f"SELECT id FROM questions WHERE session = ? AND id IN ({', '.join('?' * len(questions))})"
        ended = f"UPDATE leases SET ended_at = ? WHERE question IN ({own}) AND ended_at IS NULL"
        self.db.execute(ended, [now(), session, *questions])

    @writes
    def renew_leases(self, session: int, annotator: str) -> None:
        """Renew the leases of an annotator in a session: their time starts again now."""
        self.db.execute(
            "UPDATE leases SET leased_at = ? WHERE annotator = ? AND ended_at IS NULL"
            " AND EXISTS (SELECT 1 FROM questions WHERE id = question AND session = ?)",
            [now(), annotator, session],
        )

    @writes
    def pass_on(self, session: int, old: str, new: str) -> None:
        """Move the leases of the annotator `old` in a session to the annotator `new`."""
        for row in self.leases(session):
            if row["annotator"] == old:
                self.lease(session, row["question"], new)

    def leased(self, session: int, question: int, annotator: str) -> bool:
        """Return whether a question, or the question before it, was ever leased to an annotator."""
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
        """Return the ids of the answered questions that need more people and that this annotator never answered."""
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
        """Return the ids of the questions to ask an annotator again: answered by this person, drawn to be repeated, and
        neither repeated nor corrected yet."""
        rows = self.query(
            "SELECT questions.id FROM questions JOIN labels ON labels.question = questions.id"
            " WHERE session = ? AND labels.label != 0 AND repeat = 1 AND annotator = ? AND NOT EXISTS"
            " (SELECT 1 FROM opinions WHERE question = questions.id AND annotator = labels.annotator)"
            " AND NOT EXISTS (SELECT 1 FROM events WHERE question = questions.id AND kind = 'corrected'"
            " AND events.number > given) ORDER BY number",
            session, annotator,
        )  # fmt: skip
        return [row["id"] for row in rows]

    def opinions(self, session: int) -> list[Row]:
        """Return the opinions of a session, in order; each person has at most one on a question, the first that was not
        withdrawn. Each has the item and the asking probability of its question, and who gave the first label. If the
        session asks several questions, `labels` has a label for each."""
        rows = self.query(
            "SELECT opinions.*, questions.item, probability, events.annotator AS first_annotator,"
            " own.data ->> '$.labels' AS labels FROM opinions"
            " JOIN questions ON questions.id = opinions.question LEFT JOIN labels ON labels.question = questions.id"
            " LEFT JOIN events ON events.session = questions.session AND events.number = labels.given"
            " JOIN events AS own ON own.session = questions.session AND own.number = opinions.given"
            " WHERE questions.session = ? ORDER BY opinions.given",
            session,
        )
        return [decoded(row, "labels") for row in rows]

    def marks(self, session: int) -> dict[int, Row]:
        """Return the latest mark of each item, {item: {"wrong": whether the item was pushed wrongly, "trains": whether
        the mark was learned}}."""
        return {row["item"]: row["data"] for row in self.events(session, "marked")}

    @writes
    def put_digest(self, session: int, number: int, digest: str) -> None:
        """Store the digest of the state after event `number`."""
        self._insert("digests", {"session": session, "number": number, "digest": digest}, "OR REPLACE")

    def digests(self, session: int) -> dict[int, str]:
        """Return the stored digests of a session, {event number: digest}."""
        rows = self.query("SELECT number, digest FROM digests WHERE session = ? ORDER BY number", session)
        return {row["number"]: row["digest"] for row in rows}
