"""The migrations of a database: dated steps, in order, never changed once they are released.

Write a new step at the end, and add its columns to the test of old databases in tests/store/test_migrations.py.
"""

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from .old_logs import OldLog

if TYPE_CHECKING:
    from sqlite_utils import Database

Step = Callable[["Database"], None]
SET = "oal-studio"  # the name under which a database lists the steps that were applied to it
STEPS: dict[str, Step] = {}

LIST = "_sqlite_migrations"  # the table with this list; its schema depends on the version of sqlite-utils
_WORDS = f"create|table|unique|index|on|integer|text|primary|key|id|migration_set|name|applied_at|(idx_)?{LIST}[a-z_]*"
_OF_LIST = re.compile(rf'(({_WORDS})\b|[\s,()"\[\]])+', re.IGNORECASE | re.ASCII)
_OF_OTHERS = {  # plain tables of SQLite's ANALYZE, and of Litestream, which copies the database
    ("table", name, name, f"CREATE TABLE {name}{columns}")
    for name, columns in (
        ("sqlite_stat1", "(tbl,idx,stat)"),
        ("sqlite_stat4", "(tbl,idx,neq,nlt,ndlt,sample)"),
        ("_litestream_seq", " (id INTEGER PRIMARY KEY, seq INTEGER)"),
        ("_litestream_lock", " (id INTEGER)"),
    )
}


def step(function: Step) -> Step:
    """Decorate a function to register it as a migration step under its name."""
    STEPS[function.__name__] = function
    return function


@step
def m2026_11_20_first(db: "Database") -> None:
    """Create the tables of data sets, of sessions, and of their logs."""
    for statement in """
        CREATE TABLE datasets (
            id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, source TEXT NOT NULL,
            items INTEGER NOT NULL, features INTEGER NOT NULL, positives INTEGER NOT NULL, negatives INTEGER NOT NULL,
            positive TEXT NOT NULL, scaling TEXT NOT NULL, vectorizer TEXT, documents INTEGER, feature_names TEXT,
            folder TEXT NOT NULL, created_at TEXT NOT NULL) STRICT;
        CREATE TABLE items (
            dataset INTEGER NOT NULL REFERENCES datasets ON DELETE CASCADE, position INTEGER NOT NULL,
            id TEXT NOT NULL, text TEXT, label TEXT NOT NULL, y INTEGER NOT NULL,
            PRIMARY KEY (dataset, position)) STRICT, WITHOUT ROWID;
        CREATE UNIQUE INDEX items_id ON items (dataset, id);
        CREATE TABLE vocabulary (
            dataset INTEGER NOT NULL REFERENCES datasets ON DELETE CASCADE, column INTEGER NOT NULL,
            term TEXT NOT NULL, document_frequency INTEGER NOT NULL,
            PRIMARY KEY (dataset, column)) STRICT, WITHOUT ROWID;
        CREATE TABLE sessions (
            id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, dataset INTEGER NOT NULL REFERENCES datasets,
            algorithm TEXT NOT NULL, learner TEXT NOT NULL, rule TEXT NOT NULL, parameters TEXT NOT NULL,
            budget INTEGER NOT NULL CHECK (budget >= 0), seed INTEGER NOT NULL, shuffled INTEGER NOT NULL,
            positive_name TEXT NOT NULL, negative_name TEXT NOT NULL, alpha_p REAL NOT NULL, c_p REAL NOT NULL,
            metric TEXT NOT NULL, theta REAL NOT NULL, rho REAL NOT NULL, averaged INTEGER NOT NULL,
            engine TEXT NOT NULL, created_at TEXT NOT NULL) STRICT;
        CREATE TABLE questions (
            id INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
            number INTEGER, parent INTEGER NOT NULL, branch INTEGER NOT NULL,
            round INTEGER NOT NULL, item INTEGER NOT NULL, margin REAL NOT NULL, probability REAL NOT NULL,
            draw REAL NOT NULL, predicted INTEGER NOT NULL, asked_at TEXT NOT NULL,
            UNIQUE (session, parent, branch), UNIQUE (session, number)) STRICT;
        CREATE TABLE labels (
            event TEXT PRIMARY KEY, question INTEGER NOT NULL REFERENCES questions ON DELETE CASCADE,
            label INTEGER NOT NULL, annotator TEXT NOT NULL, answered_at TEXT NOT NULL, seconds REAL,
            undone_at TEXT, undone_by TEXT UNIQUE) STRICT;
        CREATE UNIQUE INDEX labels_question ON labels (question) WHERE undone_at IS NULL;
        CREATE TABLE digests (
            session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE, answers INTEGER NOT NULL,
            digest TEXT NOT NULL, PRIMARY KEY (session, answers)) STRICT, WITHOUT ROWID;
        """.split(";"):
        if statement.strip():
            db.execute(statement)


@step
def m2026_11_20_classes(db: "Database") -> None:
    """Add K classes to data sets and sessions; NULL means a positive and a negative class."""
    db.execute("ALTER TABLE datasets ADD COLUMN classes TEXT")  # JSON: name -> number of items, in the order of y
    db.execute("ALTER TABLE sessions ADD COLUMN classes TEXT")  # JSON: the names in the order of y
    db.execute("ALTER TABLE sessions ADD COLUMN positive_class TEXT")  # one of the data set's classes


@step
def m2026_11_20_comparisons(db: "Database") -> None:
    """Create the tables of comparisons and of their replays."""
    db.execute("""
        CREATE TABLE comparisons (
            id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, specification TEXT NOT NULL,
            versions TEXT NOT NULL, lines TEXT, created_at TEXT NOT NULL, finished_at TEXT) STRICT""")
    db.execute("""
        CREATE TABLE replays (
            comparison INTEGER NOT NULL REFERENCES comparisons ON DELETE CASCADE, job TEXT NOT NULL,
            shape TEXT NOT NULL, counts BLOB NOT NULL, PRIMARY KEY (comparison, job)) STRICT, WITHOUT ROWID""")


@step
def m2026_11_20_jobs(db: "Database") -> None:
    """Create the table of the processes that run comparisons, or ran them last."""
    db.execute("""
        CREATE TABLE jobs (
            comparison INTEGER PRIMARY KEY REFERENCES comparisons ON DELETE CASCADE, pid INTEGER NOT NULL,
            started TEXT NOT NULL, state TEXT NOT NULL, known INTEGER, done INTEGER, total INTEGER, message TEXT,
            begun_at TEXT) STRICT""")


@step
def m2026_11_20_annotators(db: "Database") -> None:
    """Add corrections, notes, marks and preferences of annotators, and each session's plan for spending its budget."""
    for column in (
        "items INTEGER NOT NULL DEFAULT 0",  # length of the stream when the session began: the part that is shuffled
        "horizon INTEGER NOT NULL DEFAULT 0",  # rounds that audits and pacing plan for
        "audit REAL NOT NULL DEFAULT 0",  # share of the budget for uniform random checks
        "audit_trains INTEGER NOT NULL DEFAULT 1",
        "pace REAL",  # share of the horizon in which the rest of the budget is spent evenly; NULL: by the rule alone
        "owner TEXT NOT NULL DEFAULT ''",
        "guidelines TEXT NOT NULL DEFAULT ''",
        "feedback_trains INTEGER NOT NULL DEFAULT 0",
    ):
        db.execute(f"ALTER TABLE sessions ADD COLUMN {column}")
    db.execute("UPDATE sessions SET items = (SELECT items FROM datasets WHERE datasets.id = dataset)")
    db.execute("UPDATE sessions SET horizon = items")
    db.execute("ALTER TABLE questions ADD COLUMN audit INTEGER NOT NULL DEFAULT 0")
    # A label with a position corrects another one. The position is the number of answers at that time.
    db.execute("ALTER TABLE labels ADD COLUMN position INTEGER")
    db.execute("ALTER TABLE labels ADD COLUMN at_end INTEGER")  # length of the stream if it had ended, else NULL
    db.execute("ALTER TABLE labels ADD COLUMN highlighted INTEGER")  # whether terms were highlighted; NULL: not known
    for statement in (
        """CREATE TABLE notes (
            event TEXT PRIMARY KEY, session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
            item INTEGER NOT NULL, text TEXT NOT NULL, annotator TEXT NOT NULL, written_at TEXT NOT NULL) STRICT""",
        "CREATE INDEX notes_session ON notes (session, item)",
        """CREATE TABLE feedback (
            event TEXT PRIMARY KEY, session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
            item INTEGER NOT NULL, wrong INTEGER NOT NULL, position INTEGER, at_end INTEGER, annotator TEXT NOT NULL,
            given_at TEXT NOT NULL) STRICT""",  # a mark that trained has a position: the number of answers then
        "CREATE INDEX feedback_session ON feedback (session, item)",
        """CREATE TABLE annotators (
            name TEXT PRIMARY KEY, preferences TEXT NOT NULL) STRICT""",
    ):
        db.execute(statement)


@step
def m2026_11_20_growth(db: "Database") -> None:
    """Let data sets grow: store the columns that they were read from, and digests of the contents of items."""
    db.execute("ALTER TABLE datasets ADD COLUMN columns TEXT")  # JSON: text, label, id
    db.execute("ALTER TABLE datasets ADD COLUMN digested INTEGER NOT NULL DEFAULT 0")  # items with stored digests
    db.execute("""
        CREATE TABLE contents (
            dataset INTEGER NOT NULL REFERENCES datasets ON DELETE CASCADE, digest BLOB NOT NULL,
            PRIMARY KEY (dataset, digest)) STRICT, WITHOUT ROWID""")


@step
def m2026_11_21_log_version(db: "Database") -> None:
    """Add the version of a session's log: a count of all changes to the log, made by any process."""
    db.execute("ALTER TABLE sessions ADD COLUMN log_version INTEGER NOT NULL DEFAULT 0")


@step
def m2026_11_21_checksums(db: "Database") -> None:
    """Add checksums of the row files."""
    db.execute("ALTER TABLE datasets ADD COLUMN checksums TEXT")  # JSON: file -> CRC-32; NULL: imported before


@step
def m2026_11_22_prior(db: "Database") -> None:
    """Add prior knowledge about the rare class of a session, and the weights computed from it."""
    db.execute("ALTER TABLE sessions ADD COLUMN prior TEXT")  # JSON: as `Prior.source`; NULL: nothing
    db.execute("""
        CREATE TABLE prior_weights (
            session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE, column INTEGER NOT NULL,
            weight REAL NOT NULL, PRIMARY KEY (session, column)) STRICT, WITHOUT ROWID""")


@step
def m2026_11_22_additions(db: "Database") -> None:
    """Create the table of labels that were added to the budget of a session. position: number of answers when they were
    added. at_end: length of the stream if it had ended, NULL if a question was waiting."""
    db.execute("""
        CREATE TABLE additions (
            event TEXT PRIMARY KEY, session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
            labels INTEGER NOT NULL CHECK (labels > 0), horizon INTEGER NOT NULL, position INTEGER NOT NULL,
            at_end INTEGER, annotator TEXT NOT NULL, added_at TEXT NOT NULL) STRICT""")
    db.execute("CREATE INDEX additions_session ON additions (session)")


@step
def m2026_11_22_floor(db: "Database") -> None:
    """Add the share of the budget that gives every item a minimum chance of being asked."""
    db.execute("ALTER TABLE sessions ADD COLUMN floor REAL NOT NULL DEFAULT 0")


@step
def m2026_11_22_batches(db: "Database") -> None:
    """Create the table of the batches in which the items of a data set arrived, with the number of new words."""
    db.execute("""
        CREATE TABLE batches (
            dataset INTEGER NOT NULL REFERENCES datasets ON DELETE CASCADE, first INTEGER NOT NULL,
            items INTEGER NOT NULL, words INTEGER NOT NULL, new_words INTEGER NOT NULL, added_at TEXT NOT NULL,
            PRIMARY KEY (dataset, first)) STRICT, WITHOUT ROWID""")


@step
def m2026_11_22_near_duplicates(db: "Database") -> None:
    """Create the tables for finding near-duplicates. They hold each text that is not a near-duplicate of an earlier
    text, with its first words and the number of its near-duplicates."""
    db.execute("ALTER TABLE datasets ADD COLUMN near_duplicates TEXT NOT NULL DEFAULT 'keep'")  # or once
    db.execute("""
        CREATE TABLE firsts (
            dataset INTEGER NOT NULL REFERENCES datasets ON DELETE CASCADE, item INTEGER NOT NULL,
            size INTEGER NOT NULL, bits BLOB NOT NULL, copies INTEGER NOT NULL,
            PRIMARY KEY (dataset, item)) STRICT, WITHOUT ROWID""")
    db.execute("""
        CREATE TABLE beginnings (
            dataset INTEGER NOT NULL REFERENCES datasets ON DELETE CASCADE, word INTEGER NOT NULL,
            item INTEGER NOT NULL, PRIMARY KEY (dataset, word, item)) STRICT, WITHOUT ROWID""")


@step
def m2026_11_22_several_people(db: "Database") -> None:
    """Let several people share a session: the order of events, leases, and opinions (second and late answers)."""
    db.execute("ALTER TABLE sessions ADD COLUMN overlap REAL NOT NULL DEFAULT 0")  # share of questions for two people
    db.execute("ALTER TABLE sessions ADD COLUMN lease REAL NOT NULL DEFAULT 300")  # seconds until another may have it
    db.execute("ALTER TABLE questions ADD COLUMN overlap INTEGER NOT NULL DEFAULT 0")  # whether two people answer it
    for statement in (
        """CREATE TABLE shared (
            session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE, place INTEGER NOT NULL, event TEXT,
            happened TEXT NOT NULL, PRIMARY KEY (session, place)) STRICT, WITHOUT ROWID""",
        """CREATE TABLE leases (
            id INTEGER PRIMARY KEY, question INTEGER NOT NULL REFERENCES questions ON DELETE CASCADE,
            annotator TEXT NOT NULL, leased_at TEXT NOT NULL, ended_at TEXT) STRICT""",
        "CREATE UNIQUE INDEX leases_now ON leases (question) WHERE ended_at IS NULL",
        """CREATE TABLE opinions (
            event TEXT PRIMARY KEY, question INTEGER NOT NULL REFERENCES questions ON DELETE CASCADE,
            label INTEGER NOT NULL, annotator TEXT NOT NULL, kind TEXT NOT NULL, answered_at TEXT NOT NULL,
            seconds REAL, UNIQUE (question, annotator)) STRICT""",  # kind: second (it was asked for) or late
    ):
        db.execute(statement)


@step
def m2026_11_22_labels_of_a_question(db: "Database") -> None:
    """Index labels by question, including labels that were taken back, as every answer looks them up."""
    db.execute("CREATE INDEX labels_of_question ON labels (question)")


@step
def m2026_11_23_roles(db: "Database") -> None:
    """Add roles in sessions, owners of data sets, and removed sessions. Ended rows stay as history: roles with
    `ended_at`, and the names of erased sessions."""
    db.execute("ALTER TABLE datasets ADD COLUMN owner TEXT NOT NULL DEFAULT ''")  # an e-mail address, or nobody's
    db.execute("""
        CREATE TABLE roles (
            id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE, mail TEXT NOT NULL,
            role TEXT NOT NULL CHECK (role IN ('owner', 'annotator', 'reader')),
            given_by TEXT NOT NULL, given_at TEXT NOT NULL, ended_by TEXT, ended_at TEXT) STRICT""")
    db.execute("CREATE UNIQUE INDEX roles_mail ON roles (session, mail) WHERE ended_at IS NULL")
    db.execute("CREATE INDEX roles_session ON roles (session)")
    db.execute("""
        CREATE TABLE removals (
            id INTEGER PRIMARY KEY, session INTEGER NOT NULL, name TEXT NOT NULL,
            removed_by TEXT NOT NULL, removed_at TEXT NOT NULL, restored_by TEXT, restored_at TEXT) STRICT""")
    db.execute("CREATE UNIQUE INDEX removals_session ON removals (session) WHERE restored_at IS NULL")


@step
def m2026_11_23_details(db: "Database") -> None:
    """Add the detail cells of items (further columns of a data set's file), and the columns that a session shows."""
    db.execute("""
        CREATE TABLE details (
            dataset INTEGER NOT NULL REFERENCES datasets ON DELETE CASCADE, item INTEGER NOT NULL,
            cells TEXT NOT NULL, PRIMARY KEY (dataset, item)) STRICT, WITHOUT ROWID""")  # JSON: words by column
    db.execute("ALTER TABLE sessions ADD COLUMN shown TEXT")  # JSON: columns; NULL: the choice of the data set


@step
def m2026_11_23_tags(db: "Database") -> None:
    """Add the tags that the owner of a session defines, and the log of tagging and untagging items."""
    db.execute("ALTER TABLE sessions ADD COLUMN tags TEXT")  # JSON: their names; NULL: none
    db.execute("""
        CREATE TABLE tags (
            event TEXT PRIMARY KEY, session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
            item INTEGER NOT NULL, tag TEXT NOT NULL, given INTEGER NOT NULL, annotator TEXT NOT NULL,
            tagged_at TEXT NOT NULL) STRICT""")
    db.execute("CREATE INDEX tags_session ON tags (session, item)")


@step
def m2026_11_23_asked_again(db: "Database") -> None:
    """Let questions be repeated to the same person, and opinions be withdrawn."""
    db.execute("ALTER TABLE sessions ADD COLUMN repeat REAL NOT NULL DEFAULT 0")  # share of questions asked again
    db.execute("ALTER TABLE questions ADD COLUMN repeat INTEGER NOT NULL DEFAULT 0")  # whether it is asked again
    for statement in (
        "ALTER TABLE opinions RENAME TO opinions_before",  # one answer per person counts, not always the first
        """CREATE TABLE opinions (
            event TEXT PRIMARY KEY, question INTEGER NOT NULL REFERENCES questions ON DELETE CASCADE,
            label INTEGER NOT NULL, annotator TEXT NOT NULL, kind TEXT NOT NULL, answered_at TEXT NOT NULL,
            seconds REAL, undone_at TEXT, undone_by TEXT) STRICT""",  # kind: second, late, or again by the same person
        "INSERT INTO opinions SELECT *, NULL, NULL FROM opinions_before ORDER BY rowid",
        "DROP TABLE opinions_before",
        "CREATE UNIQUE INDEX opinions_person ON opinions (question, annotator) WHERE undone_at IS NULL",
        "CREATE INDEX opinions_question ON opinions (question)",
        "CREATE INDEX opinions_undone ON opinions (undone_by)",
    ):
        db.execute(statement)


@step
def m2026_11_24_names_that_changed(db: "Database") -> None:
    """Rename algorithms in old results to the learner and rule that ran: SOAL-CS, CPA and CW now mean other learners.
    Comparisons omit defaults, and the defaults of the rule `asymmetric` have changed: add the old ones."""
    before = {"SOAL-CS": "acog-ii + variance", "CPA": "cpa + all", "CW": "cw + all"}
    for name, ran in before.items():
        where = "WHERE algorithm = ? AND learner || ' + ' || rule = ?"
        db.execute(f"UPDATE sessions SET algorithm = ? {where}", [ran, name, ran])
    lower_case = {name.lower(): ran for name, ran in before.items()}  # a specification may spell names so

    def with_deltas(name: str, values: dict[str, Any]) -> dict[str, Any]:
        learner, _, rule = (part.strip().lower() for part in name.partition("+"))
        both = "delta" in values and not learner.startswith("ada-")  # these have a delta of their own
        if both or not (rule == "asymmetric" or learner in ("oaal", "q_a")):
            return values
        present = {key.rpartition(".")[2] for key in values}
        return values | {key: 0.1 for key in ("delta_plus", "delta_minus") if key not in present}

    rows = db.execute("SELECT id, specification, lines FROM comparisons").fetchall()
    for comparison, stored_specification, stored_lines in rows:
        specification, lines = json.loads(stored_specification), json.loads(stored_lines or "[]")
        names, algorithms = dict[str, str](), dict[str, Any]()
        for name, values in specification["algorithms"].items():
            names[name] = lower_case.get(name.lower(), name)
            while names[name] in algorithms or (names[name] != name and names[name] in specification["algorithms"]):
                names[name] += " "  # the same learner and rule twice
            tuned = specification.get("tune", "none") != "none" and not values
            algorithms[names[name]] = values if tuned else with_deltas(name, values)
        for line in lines:
            name = line["algorithm"]
            line |= {
                "algorithm": names[name],
                "setting": with_deltas(name, line["setting"]),
                "trials": [[with_deltas(name, setting), score] for setting, score in line["trials"]],
            }
        db.execute(
            "UPDATE comparisons SET specification = ?, lines = ? WHERE id = ?",
            [json.dumps(specification | {"algorithms": algorithms}), stored_lines and json.dumps(lines), comparison],
        )


@step
def m2026_11_24_erased_by_two_starts(db: "Database") -> None:
    """Add the time of the first server start that finds a removed session due for erasure; a later start erases it."""
    db.execute("ALTER TABLE removals ADD COLUMN due_at TEXT")


@step
def m2026_11_24_leases_of_a_question(db: "Database") -> None:
    """Index leases by question, including ended ones, as every late answer looks them up."""
    db.execute("CREATE INDEX leases_of_question ON leases (question)")


@step
def m2026_11_24_data_of_comparisons(db: "Database") -> None:
    """Add the ids of the data sets of a comparison, as their names may be reused after a removal."""
    db.execute("ALTER TABLE comparisons ADD COLUMN datasets TEXT")  # JSON: ids in the order of its data; null: none yet
    by_name = "SELECT id FROM datasets WHERE name IN (?, ?) AND created_at <= ? ORDER BY name = ? DESC"
    for comparison, specification, created_at in db.execute(
        "SELECT id, specification, created_at FROM comparisons"
    ).fetchall():
        ids = []
        for entry in json.loads(specification)["data"]:
            name = entry if isinstance(entry, str) else entry.get("name", "")
            row = db.execute(by_name, [name, name.rpartition("=")[0], created_at, name]).fetchone()
            ids.append(row and row[0])
        db.execute("UPDATE comparisons SET datasets = ? WHERE id = ?", [json.dumps(ids), comparison])


LABELS = """
    SELECT answered.question, answered.number AS given, standing.label, answered.label AS first,
        standing.annotator, standing.at AS answered_at, standing.seconds{labels}
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


@step
def m2026_11_24_events(db: "Database") -> None:
    """Store the log of a session as one append-only table of events, from which labels and opinions are derived."""
    for statement in (
        "ALTER TABLE labels RENAME TO labels_before",
        "ALTER TABLE opinions RENAME TO opinions_before",
        "ALTER TABLE digests RENAME TO digests_before",
        """CREATE TABLE events (
            session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE, number INTEGER NOT NULL, id TEXT UNIQUE,
            kind TEXT NOT NULL, at TEXT NOT NULL, annotator TEXT NOT NULL,
            question INTEGER REFERENCES questions ON DELETE CASCADE, item INTEGER, label INTEGER, seconds REAL,
            data TEXT, PRIMARY KEY (session, number)) STRICT, WITHOUT ROWID""",
        "CREATE INDEX events_question ON events (question)",
        "CREATE INDEX events_kind ON events (session, kind)",
        """CREATE TABLE labels (
            question INTEGER PRIMARY KEY REFERENCES questions ON DELETE CASCADE, given INTEGER NOT NULL,
            label INTEGER NOT NULL, first INTEGER NOT NULL, annotator TEXT NOT NULL, answered_at TEXT NOT NULL,
            seconds REAL) STRICT""",
        """CREATE TABLE opinions (
            question INTEGER NOT NULL REFERENCES questions ON DELETE CASCADE, annotator TEXT NOT NULL,
            given INTEGER NOT NULL, kind TEXT NOT NULL, label INTEGER NOT NULL, answered_at TEXT NOT NULL,
            seconds REAL, PRIMARY KEY (question, annotator)) STRICT, WITHOUT ROWID""",
        """CREATE TABLE digests (
            session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE, number INTEGER NOT NULL,
            digest TEXT NOT NULL, PRIMARY KEY (session, number)) STRICT, WITHOUT ROWID""",
    ):
        db.execute(statement)
    event_ids = set[str]()
    for session, name, items, created_at in db.execute(
        "SELECT sessions.id, sessions.name, datasets.items, sessions.created_at FROM sessions"
        " JOIN datasets ON datasets.id = dataset"
    ).fetchall():
        try:
            _convert_log(db, session, items, created_at, event_ids)
        except (ValueError, TypeError, LookupError, AttributeError, sqlite3.IntegrityError) as error:
            raise DamagedLogError(f"the log of session {session} ({name}) contradicts itself: {error!r}") from error
    db.execute(f"INSERT INTO labels {LABELS.format(labels='', where='')}")
    db.execute(f"INSERT INTO opinions {OPINIONS.format(where='')}")
    for table in (
        "labels_before", "opinions_before", "digests_before", "feedback", "additions", "shared", "notes", "tags",
    ):  # fmt: skip
        db.execute(f"DROP TABLE {table}")


@step
def m2026_11_25_later_labels(db: "Database") -> None:
    """Create the table of labels that arrive after their items. They are stored apart, so that the imported labels,
    which sessions and comparisons have used, do not change."""
    db.execute(
        """CREATE TABLE later_labels (
            number INTEGER PRIMARY KEY, dataset INTEGER NOT NULL REFERENCES datasets ON DELETE CASCADE,
            item INTEGER NOT NULL, label TEXT NOT NULL, y INTEGER NOT NULL, added_at TEXT NOT NULL,
            UNIQUE (dataset, item)) STRICT"""
    )


@step
def m2026_11_25_teams(db: "Database") -> None:
    """Let more than two people answer a question, and limit the answers of each person."""
    db.execute("ALTER TABLE sessions ADD COLUMN people INTEGER NOT NULL DEFAULT 2")  # who answer such a question
    db.execute("ALTER TABLE sessions ADD COLUMN quota INTEGER NOT NULL DEFAULT 0")  # answers of one person; 0: no limit


@step
def m2026_11_25_auto_of_before(db: "Database") -> None:
    """Rename `auto` in old results to the learner and rule that ran, as `auto` now means another learner."""
    ran, fixed = "pool + paced", {"temperature": 0.05}  # a parameter that is set, so that none is tuned
    where = "WHERE algorithm = 'auto' AND learner || ' + ' || rule = ?"
    db.execute(f"UPDATE sessions SET algorithm = ? {where}", [ran, ran])
    rows = db.execute("SELECT id, specification, lines FROM comparisons").fetchall()
    for comparison, stored_specification, stored_lines in rows:
        specification, lines = json.loads(stored_specification), json.loads(stored_lines or "[]")
        algorithms = specification.get("algorithms", {})
        old = next((name for name in algorithms if name.lower() == "auto"), None)
        if old is None:
            continue
        new = ran + " " * (ran in algorithms)  # the same learner and rule twice
        named = {new if name == old else name: values or fixed if name == old else values
                 for name, values in algorithms.items()}  # fmt: skip
        for line in lines:
            if line["algorithm"] == old:
                trials = [[setting or fixed, score] for setting, score in line["trials"]]
                line |= {"algorithm": new, "setting": line["setting"] or fixed, "trials": trials}
        db.execute(
            "UPDATE comparisons SET specification = ?, lines = ? WHERE id = ?",
            [json.dumps(specification | {"algorithms": named}), stored_lines and json.dumps(lines), comparison],
        )


@step
def m2026_11_25_tokens(db: "Database") -> None:
    """Add the tokens of programs that label over HTTP. A token itself is not stored."""
    db.execute(
        """CREATE TABLE tokens (
            id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE,
            session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
            role TEXT NOT NULL CHECK (role IN ('owner', 'annotator', 'reader')),
            annotator TEXT NOT NULL, created_at TEXT NOT NULL, expires_at TEXT NOT NULL) STRICT"""
    )


@step
def m2026_11_25_feeds(db: "Database") -> None:
    """Create the tables of broker feeds: the positions up to which they are stored, and their unreadable messages."""
    for table, more in (("feeds", ""), ("rejected", ", content BLOB NOT NULL, reason TEXT NOT NULL")):
        key = "dataset, url, partition" + ", position" * bool(more)
        db.execute(f"""
            CREATE TABLE {table} (
                dataset INTEGER NOT NULL REFERENCES datasets ON DELETE CASCADE, url TEXT NOT NULL,
                partition TEXT NOT NULL, position TEXT NOT NULL{more}, PRIMARY KEY ({key})) STRICT, WITHOUT ROWID""")


@step
def m2026_11_26_questions(db: "Database") -> None:
    """Let a session ask several yes/no questions about each item; NULL means a single question."""
    db.execute("ALTER TABLE sessions ADD COLUMN questions TEXT")  # JSON: name and guidelines of each
    db.execute("ALTER TABLE questions ADD COLUMN parts TEXT")  # JSON: margin and predicted class of each
    db.execute("ALTER TABLE labels ADD COLUMN labels TEXT")  # JSON: the label of each
    db.execute("ALTER TABLE labels ADD COLUMN firsts TEXT")  # JSON: before all corrections


@step
def m2026_11_27_audited(db: "Database") -> None:
    """Add the column that a session audits (labels or scores made by something else); NULL means none."""
    db.execute("ALTER TABLE sessions ADD COLUMN audited TEXT")  # JSON: column and cut


@step
def m2026_11_28_answer_each(db: "Database") -> None:
    """Add the setting `answer_each`: whether the card waits for an answer to each of several questions."""
    db.execute("ALTER TABLE sessions ADD COLUMN answer_each INTEGER NOT NULL DEFAULT 0")


@step
def m2026_11_28_prior_of_questions(db: "Database") -> None:
    """Let each of several questions have its own prior weights. part: index of the question."""
    db.execute("ALTER TABLE prior_weights RENAME TO prior_weights_before")
    db.execute("""
        CREATE TABLE prior_weights (
            session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE, part INTEGER NOT NULL,
            column INTEGER NOT NULL, weight REAL NOT NULL,
            PRIMARY KEY (session, part, column)) STRICT, WITHOUT ROWID""")
    db.execute("INSERT INTO prior_weights SELECT session, 0, column, weight FROM prior_weights_before")
    db.execute("DROP TABLE prior_weights_before")


class DamagedLogError(ValueError):
    """An old log of a session that cannot be converted into events. The message is worded to follow a colon."""


def _convert_log(db: "Database", session: int, items: int, created_at: str, event_ids: set[str]) -> None:
    """Convert the old log of a session into events and store them. event_ids: ids of all events so far, to which the
    new ones are added; repeated ids become NULL."""
    rows, digests = _old_log(db, session, items, created_at).events()
    for row in rows:
        row["id"] = None if row["id"] in event_ids else row["id"]
        event_ids |= {row["id"]} - {None}
        values = row | {"session": session, "data": row["data"] and json.dumps(row["data"], ensure_ascii=False)}
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        db.execute(f"INSERT INTO events ({names}) VALUES ({marks})", [*values.values()])
    for number, digest in digests.items():
        db.execute("INSERT INTO digests VALUES (?, ?, ?)", [session, number, digest])


def _old_log(db: "Database", session: int, items: int, created_at: str) -> OldLog:
    """Read the log of a session from the tables that the table of events replaces."""

    def rows(sql: str) -> list[dict[str, Any]]:
        cursor = db.execute(sql, [session])
        names = [column for column, *_ in cursor.description]
        return [dict(zip(names, row)) for row in cursor.fetchall()]

    own = "WHERE session = ? ORDER BY {0}.rowid"
    answers = f"SELECT {{0}}.*, {{0}}.rowid AS age FROM {{0}} JOIN questions ON questions.id = question {own}"
    others = f"SELECT *, rowid AS age FROM {{0}} {own}"
    return OldLog(
        rows("SELECT id, number FROM questions WHERE session = ? ORDER BY id"),
        rows(answers.format("labels_before")),
        rows(others.format("notes")),
        rows(others.format("feedback")),
        rows(others.format("additions")),
        rows("SELECT event, happened FROM shared WHERE session = ? ORDER BY place"),
        rows(answers.format("opinions_before")),
        rows(others.format("tags")),
        {row["answers"]: row["digest"] for row in rows("SELECT * FROM digests_before WHERE session = ?")},
        items,
        created_at,
    )


class ForeignSchemaError(ValueError):
    """A schema that is not the one that the migrations make. The message is worded to follow the name of the file."""


def applied(connection: sqlite3.Connection) -> list[str]:
    """Return the names of the steps that were applied to a database, in order. Raise ForeignSchemaError if its schema
    is not the one that these steps make: a foreign trigger, view, generated column or index may run code whenever the
    database is read or written.

    Before this check, only the schema and the list of steps are read.
    """
    present = set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))
    of_list = {row for row in present if row[2] == LIST and (row[3] is None or _OF_LIST.fullmatch(str(row[3])))}
    names: list[str] = []
    if ("table", LIST) in {row[:2] for row in of_list}:
        listed = connection.execute(f"SELECT migration_set, name FROM {LIST} ORDER BY id LIMIT 1000")
        names = [str(name) for group, name in listed if group == SET]
    own = {_spaced(row) for row in present - of_list - _OF_OTHERS}
    if all(name in STEPS for name in names):  # the schema of a newer version is not known
        expected = _made_by(*(STEPS[name] for name in names))
        for kind, name, *_ in sorted(own - expected, key=str):
            is_ours = any(name == each[1] for each in expected)
            how = "not as OAL Studio makes it" if is_ours else "which OAL Studio does not make"
            raise ForeignSchemaError(f"holds the {str(kind)[:20]} {str(name)[:80]!r}, {how}")
        for kind, name, *_ in sorted(expected - own, key=str):
            raise ForeignSchemaError(f"lacks the {kind} {name!r}")
    return names


@cache
def _made_by(*steps: Step) -> frozenset[tuple[str | None, ...]]:
    """Run steps on an empty database and return the schema that they make, each row as `_spaced` returns it. Raise
    ForeignSchemaError if the steps cannot follow each other."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
        try:
            for each in steps:
                each(cast("Database", new))  # steps execute SQL, no more
        except sqlite3.Error as error:
            raise ForeignSchemaError(f"lists steps that do not follow each other ({error})") from None
        return frozenset(map(_spaced, new.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")))


def _spaced(row: tuple[str | None, ...]) -> tuple[str | None, ...]:
    """Normalize the whitespace in a row of a schema: each run of it becomes one space."""
    return tuple(" ".join(word.split()) if isinstance(word, str) else word for word in row)


def apply(db: "Database") -> None:
    """Run the steps that were not yet applied to a database."""
    from sqlite_utils import Migrations  # it imports pandas, which readers need not wait for

    migrations = Migrations(SET)
    for name, function in STEPS.items():
        migrations(name=name)(function)
    migrations.apply(db)
