"""The tables of sessions: settings, removals, roles and tokens."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from secrets import token_urlsafe
from typing import Any

from ..output.jsonlines import LONGEST_LINE, words
from .database import JSON, Row, StoreError, decoded, now, writes
from .fields import CHANGING, LONGEST_ANNOTATOR, SETTINGS, problem
from .log import Logs

ADDRESS = re.compile(r"[^@\s\0]+@[^@\s\0]+")  # an e-mail address
ROLES = ("reader", "annotator", "owner")  # in a session; each has the rights of the roles before it
RESTORABLE = timedelta(days=30)  # period in which a removed session can be restored
CONFIRMED = timedelta(days=7)  # least time from the server start that finds a session overdue to the one that erases it


def address(mail: str) -> str:
    """Normalize an e-mail address for storage and comparison: lowercase ASCII letters only. Lowercasing the Kelvin
    sign, for instance, would turn it into the letter of another address. Blanks around it stay: it is not valid."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in mail)


def digest_of(secret: str) -> str:
    """Return the SHA-256 digest under which a token is stored."""
    return sha256(secret.encode()).hexdigest()


class Sessions(Logs):
    """The methods of `Store` for sessions and their logs, removals, roles and tokens."""

    @writes
    def add_session(
        self, values: Row, priors: Mapping[int, Mapping[int, float]] | None = None,
        known_labels: Iterable[tuple[int, int, Sequence[int]]] = (), origin: str = "",
    ) -> int:  # fmt: skip
        """Insert a session and return its id. priors: as `prior_weights` returns them. known_labels, origin: as in
        `put_known`. If the value of `owner` is an e-mail address, this address gets the role of owner."""
        session = self._add("sessions", values)
        self.put_known(session, known_labels, origin, by=values.get("owner", ""))
        self.put_event(session, "grown", data={"rounds": values["items"]})
        if ADDRESS.fullmatch(owner := values.get("owner", "")):
            self.put_role(session, owner, "owner", owner)
        for part, weights in (priors or {}).items():
            self.put_prior(session, part, weights)
        return session

    @writes
    def put_prior(self, session: int, part: int, weights: Mapping[int, float]) -> None:
        """Store the prior weights of a question's learner, {column: weight}. part: index of the question."""
        for column, weight in weights.items():
            place = {"session": session, "part": part, "column": column}
            self._insert("prior_weights", place | {"weight": weight})

    def prior_weights(self, session: int) -> dict[int, dict[int, float]]:
        """Return the prior weights of the learners of a session, {index of the question: {column: weight}}. Questions
        without prior weights are omitted. A single question has index 0."""
        priors: dict[int, dict[int, float]] = {}
        for row in self.query("SELECT * FROM prior_weights WHERE session = ? ORDER BY part, column", session):
            priors.setdefault(row["part"], {})[row["column"]] = row["weight"]
        return priors

    def session(self, session: int) -> Row:
        """Return the settings of a session, JSON columns decoded. Raise MissingError if it is removed or missing."""
        row = self.status(session).settings
        return decoded(row, "parameters", "classes", "prior", "shown", "tags", "questions", "audited")

    def fingerprint(self, session: int) -> str:
        """Return a hash that changes whenever a session changes: its log, notes, tags, settings or roles, or the number
        of items in its data set."""
        row = self.one(
            "SELECT sessions.*, datasets.items AS held,"
            " (SELECT max(number) FROM events WHERE session = sessions.id) AS last,"
            " (SELECT count(*) + count(ended_at) FROM roles WHERE session = sessions.id) AS changes_of_roles"
            f" FROM sessions JOIN datasets ON datasets.id = dataset WHERE sessions.id = ? AND {self.PRESENT}",
            session,
        )
        return sha256(repr(row).encode()).hexdigest()[:16]

    def sessions(self) -> list[Row]:
        """Return all sessions with their progress, the most recently worked on first. Removed sessions are omitted.

        budget: including added labels. waits: whether a question has no answer yet.
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
        return [decoded(row, "classes", "questions", "audited") for row in rows]

    def shown_columns(self, session: int) -> list[str] | None:
        """Return the columns that a session shows with its items (None: the columns chosen for its data set)."""
        row = self.one("SELECT shown FROM sessions WHERE id = ?", session)
        return json.loads(row["shown"]) if row and row["shown"] else None

    @writes
    def update_session(self, session: int, values: Row) -> None:
        """Update columns of a session, {column: value}. Raise StoreError if they could not be read again."""
        self._update("sessions", session, values)
        self.check_settings(session, values.keys() & CHANGING)

    def check_settings(self, session: int, names: Collection[str]) -> None:
        """Raise StoreError if these settings of a session could not be published and read again."""
        row, *_ = self.query("SELECT * FROM sessions WHERE id = ?", session)
        settings = decoded(row, *(JSON.keys() & {*names}))
        if wrong := problem(settings, {name: SETTINGS[name] for name in names}):
            raise StoreError(f"the settings of a session are not valid: {wrong}.")
        if (length := len(json.dumps(settings, ensure_ascii=False))) > (most := LONGEST_LINE // 2):
            raise StoreError(f"the settings of a session have {most:,} characters at most. Got {length:,}.")

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
        """Return sessions that can be restored, the last removed first: id, name, dataset, removed_by, removed_at."""
        return self.query(
            "SELECT sessions.id, sessions.name, dataset, removed_by, removed_at FROM removals"
            " JOIN sessions ON sessions.id = session WHERE restored_at IS NULL ORDER BY removals.id DESC"
        )

    @writes
    def erase_removed(self) -> None:
        """Delete sessions that can no longer be restored, with their questions and labels. A server calls it at start.

        This takes two starts. The first one, at least RESTORABLE after the removal, records its time. A later one, at
        least CONFIRMED after the first, erases the session. So a clock that is wrong once erases nothing: a start at an
        earlier time than the recorded one deletes the record.
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
        """Set the role of an e-mail address in a session (owner, annotator or reader), or end its role (None). Raise
        StoreError if the address is invalid, or if a session would lose its last owner."""
        mail = address(mail.strip())  # people may type blanks around it; a log-in may not have them
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
        (None: still valid)."""
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
        """Return the ids of the data sets that an e-mail address may see: data sets without an owner, data sets that it
        owns, and data sets of sessions in which it has a role."""
        rows = self.query(
            "SELECT id FROM datasets WHERE owner IN ('', ?) UNION SELECT dataset FROM sessions"
            f" JOIN roles ON session = sessions.id WHERE mail = ? AND ended_at IS NULL AND {self.PRESENT}",
            address(mail), address(mail),
        )  # fmt: skip
        return {row["id"] for row in rows}

    def preferences(self, annotator: str) -> dict[str, Any]:
        """Return the preferences of an annotator, such as keys and text size."""
        row = self.one("SELECT preferences FROM annotators WHERE name = ?", annotator)
        return json.loads(row["preferences"]) if row else {}

    @writes
    def put_preferences(self, annotator: str, preferences: Mapping[str, Any]) -> None:
        """Store the preferences of an annotator."""
        self._insert("annotators", {"name": annotator, "preferences": json.dumps(preferences)}, "OR REPLACE")

    # Tokens

    @writes
    def add_token(self, session: int, role: str, annotator: str, lifetime: timedelta) -> tuple[int, str]:
        """Create a token of a session with one of ROLES. annotator: the name that its answers get ("": `token NUMBER`).
        Return the number of the token, which no other token had, and its secret text, which is not stored."""
        if role not in ROLES:
            raise StoreError(f"a role must be {', '.join(ROLES)}. Got {role}.")
        if not words(LONGEST_ANNOTATOR)(annotator):
            raise StoreError(f"the annotator of a token needs a name of {LONGEST_ANNOTATOR} characters at most.")
        self.session(session)  # raises if it does not exist
        secret, sequence = token_urlsafe(32), "SELECT seq FROM sqlite_sequence WHERE name = 'tokens'"
        id = self.number(f"SELECT 1 + max(coalesce(max(id), 0), coalesce(({sequence}), 0)) FROM tokens")
        self.db.execute("DELETE FROM sqlite_sequence WHERE name = 'tokens'")
        self.db.execute("INSERT INTO sqlite_sequence VALUES ('tokens', ?)", [id])
        self._insert("tokens", {
            "id": id, "digest": digest_of(secret), "session": session, "role": role,
            "annotator": annotator or f"token {id}", "created_at": now(), "expires_at": now(-lifetime),
        })  # fmt: skip
        return id, secret

    def tokens(self) -> list[Row]:
        """Return every token, oldest first. valid: whether it has not expired and its session is not removed.

        A token that has once been found to have expired stays so, whatever the clock says later: `expires_at` is "".
        """
        time = now()
        if not self.read_only and self.one("SELECT 1 FROM tokens WHERE expires_at <> '' AND expires_at <= ?", time):
            with self.transaction():
                self.db.execute("UPDATE tokens SET expires_at = '' WHERE expires_at <= ?", [time])
        return self.query(
            f"SELECT tokens.*, expires_at > ? AND {self.PRESENT} AS valid FROM tokens"
            " JOIN sessions ON sessions.id = session ORDER BY tokens.id",
            time,
        )

    @writes
    def remove_token(self, token: int | None = None) -> None:
        """Delete a token (None: all tokens). Raise StoreError if it does not exist."""
        if self.db.execute("DELETE FROM tokens WHERE ? IN (id, 0)", [token or 0]).rowcount == 0 and token:
            raise StoreError(f"token {token} does not exist.")
