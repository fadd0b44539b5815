"""The store: one-sentence errors, transactions, queries, and writers that wait for each other."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from oal_engine.places import database_path
from oal_engine.store import ConflictError, StorageError, Store, StoreError
from tests.harness import ROOT
from tests.harness.sessions import erase
from tests.harness.tables import DATASET, ITEMS, SESSION, answer, ask, replace_everywhere, rows, undo, write


@pytest.mark.parametrize("way", ["deleted", "replaced", "overwritten"])
def test_nothing_is_saved_to_a_file_that_is_gone(path, store, session, way):
    """If the database file was deleted or replaced, no label is acknowledged until the file is back."""
    moved, other = path.with_name("moved.db"), path.with_name("other.db")
    question = ask(store, session)
    with store.transaction():
        store.db.execute("CREATE TABLE long (a)")
        store.db.execute("INSERT INTO long VALUES (zeroblob(1000000))")
    sqlite3.connect(path).execute("PRAGMA wal_checkpoint(TRUNCATE)").connection.close()
    assert 1 == rows(store)["questions"]
    shutil.copy(path, moved)
    sqlite3.connect(other).execute("CREATE TABLE other (a)").connection.close()
    if way == "overwritten":
        shutil.copy(other, path)
    else:
        path.rename(moved)
        if way == "replaced":
            other.rename(path)
    for attempt in (lambda: answer(store, session, question, 1), lambda: rows(store)):
        with pytest.raises(StorageError, match="was deleted or replaced while it was open: nothing can be saved"):
            attempt()
    if way == "overwritten":
        path.write_bytes(moved.read_bytes())
    else:
        moved.replace(path)
    answer(store, session, question, 1)
    assert 1 == rows(store)["labels"]


def test_a_file_that_grows_during_a_check_is_not_taken_for_another(store, session, monkeypatch):
    stat = os.stat

    def slow(path, **more):
        status = stat(path, **more)
        store._size = status.st_size + 4096
        return status

    monkeypatch.setattr(os, "stat", slow)
    assert 1 == len(store.sessions())


def test_a_file_that_is_deleted_while_a_label_is_written_is_noticed(path, store, session):
    """A database deleted during a transaction is noticed, because the file is checked again after the commit."""
    question = ask(store, session)

    def write():
        with store.transaction():
            answer(store, session, question, 1)
            path.unlink()

    with pytest.raises(StorageError, match="was deleted or replaced"):
        write()


def test_what_only_reads_leaves_the_file_as_it_is(path):
    with pytest.raises(StoreError, match=rf"^There is no database at {re.escape(str(path))}\.$"):
        Store(path, read_only=True)
    assert not path.exists()
    Store(path).close()
    reader = Store(path, read_only=True)
    assert [] == reader.sessions()
    with pytest.raises(StorageError, match="is open for reading only"):
        reader.put_preferences("Ann", {})


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (sqlite3.SQLITE_FULL, "the disk is full"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "another program keeps it locked"),
        (sqlite3.SQLITE_IOERR_WRITE, "the disk reports an error"),
        (sqlite3.SQLITE_CORRUPT, "it is damaged; restore a backup of it"),
    ],
)
def test_what_sqlite_cannot_do_is_one_sentence(path, store, code, reason):
    """Any failure of the database, in a transaction or while reading, is a StorageError that says why."""

    def fail():
        with store.transaction():
            error = sqlite3.OperationalError("words of SQLite's own")
            error.sqlite_errorcode = code
            raise error

    with pytest.raises(StorageError) as failed:
        fail()
    assert f"{path} cannot be used: {reason}." == str(failed.value)


def test_a_locked_database_is_waited_for_and_then_reported(path, store, session):
    """A writer waits for a locked database and gets an error after `patience` seconds; a reader does not wait."""
    impatient, other = Store(path, patience=0.1), sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert 1 == rows(impatient)["sessions"]
    with pytest.raises(StorageError, match="another program keeps it locked"):
        impatient.update_session(session, {"guidelines": "words"})
    assert 1 == rows(Store(path, patience=0.1))["sessions"]
    other.execute("COMMIT")
    other.close()
    impatient.update_session(session, {"guidelines": "words"})
    assert "words" == store.session(session)["guidelines"]


def test_a_path_where_no_file_can_be_is_refused(path):
    for wrong in (path / "below" / "studio.db", path.parent):
        with pytest.raises(StoreError, match=rf"^{re.escape(str(wrong))} cannot be used: [^.\n]+\.$"):
            Store(wrong)


def test_the_path_comes_from_the_environment(tmp_path, monkeypatch):
    """If no path is given, the database is OAL_DB, or studio.db in the working directory; its rows are in a folder next
    to it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OAL_DB", raising=False)
    assert "studio.db" == str(database_path())
    monkeypatch.setenv("OAL_DB", str(tmp_path / "other.db"))
    assert tmp_path / "other.rows" == Store().folder
    assert (tmp_path / "other.db").exists()


def test_labels_are_durable_and_references_hold(store):
    """The database has a write-ahead log, syncs every commit and checks foreign keys."""
    with store.transaction():
        pragmas = [store.one(f"PRAGMA {name}")[name] for name in ("journal_mode", "synchronous", "foreign_keys")]
    assert ["wal", 2, 1] == pragmas
    with pytest.raises(ConflictError, match="FOREIGN KEY"):
        store.add_session(SESSION | {"dataset": 7})


# Transactions


def test_a_transaction_that_fails_leaves_nothing(store, session):
    """Any exception rolls back all writes of a transaction, including nested ones, and the next transaction works."""
    before = rows(store)

    def interrupted():
        with store.transaction():
            question = ask(store, session)
            with store.transaction():
                answer(store, session, question, 1)
                store.put_digest(session, 50, "digest")
            store.add_session(SESSION | {"dataset": 1})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert before == rows(store)
    assert [] == store.answers(session)
    assert ask(store, session) > 0


def test_nothing_is_written_outside_a_transaction(store, session):
    """The writing connection is available inside a transaction of the same thread only, and queries cannot write."""
    with pytest.raises(RuntimeError, match=r"inside `with store\.transaction\(\)` only"):
        store.db.execute("DELETE FROM sessions")
    with store.transaction(), ThreadPoolExecutor() as other:
        refused = other.submit(lambda: store.db).exception()
    assert isinstance(refused, RuntimeError)
    with pytest.raises(StorageError, match="it is read-only"):
        store.query("DELETE FROM sessions RETURNING id")
    assert 1 == rows(store)["sessions"]


def test_what_is_read_is_of_one_moment(store, session):
    """A snapshot does not change while another thread writes, and a reader does not wait for a writer."""
    with store.snapshot(), ThreadPoolExecutor() as other:
        before = rows(store)
        other.submit(store.add_session, SESSION | {"dataset": 1}).result()
        assert before == rows(store)
    assert before["sessions"] + 1 == rows(store)["sessions"]
    with store.transaction(), ThreadPoolExecutor() as other:
        erase(store, session)
        assert 1 == rows(store)["sessions"]  # a transaction sees its own writes
        assert 2 == other.submit(rows, store).result()["sessions"]


def test_a_data_set_is_inserted_whole_or_not_at_all(store):
    """If an id occurs twice, or the source of the items fails, no row is left in any table."""

    def broken():
        yield from ITEMS
        raise OSError("the source broke")

    for items, error in (([*ITEMS, ITEMS[0]], ConflictError), (broken(), OSError)):
        with pytest.raises(error):
            store.add_dataset(DATASET, items, [("term", 1)])
    assert 0 == sum(rows(store).values())


def test_two_labels_for_one_question_cannot_stand(store, session):
    """The labels table refuses a second label for a question (UNIQUE), but accepts one after the first is undone."""
    question = ask(store, session)
    answer(store, session, question, 1, "first", "Ann", seconds=2.0)
    with pytest.raises(ConflictError, match="UNIQUE"):
        answer(store, session, question, -1, "second", "Bob")
    undo(store, session, question, "undo")
    assert store.standing_label(session, question) is None
    answer(store, session, question, -1, "second", "Bob")
    undo(store, session, question, "undo again")
    third = answer(store, session, question, 0, "third", "Ann")
    standing = store.standing_label(session, question)
    assert (third, 0, "Ann") == (standing["given"], standing["label"], standing["annotator"])
    assert ("undone", "answered") == (store.event("undo")["kind"], store.event("first")["kind"])


def test_what_a_page_sent_is_stored_once(store, session):
    """The event id that a browser sends is unique across sessions, so no event is stored twice. Events of the session
    itself have no id."""
    question, other = ask(store, session), store.add_session(SESSION | {"dataset": 1})
    answer(store, session, question, 1, "event")
    for where, kind in ((session, "undone"), (other, "asked")):
        with pytest.raises(ConflictError, match="UNIQUE"):
            store.put_event(where, kind, "event", question=question if where == session else None)
    for _ in range(2):
        store.put_event(other, "asked")
    assert [1, 2, 3] == [row["number"] for row in store.events(other)]
    assert ["answered"] == [row["kind"] for row in store.events(session, "answered", "undone")]


@pytest.fixture
def told(store, session):
    """The questions of a session with every kind of change to its answers: corrections, undos, second and late answers,
    and withdrawals."""
    questions = [ask(store, session, parent=number, number=number, item=number - 1) for number in (1, 2, 3)]
    first, second, third = questions
    for question, label in ((first, 1), (second, -1)):
        answer(store, session, question, label, annotator="Ann", seconds=1.0)
    answer(store, session, first, 1, annotator="Bob", kind="late")
    undo(store, session, second)
    answer(store, session, second, 0, annotator="Bob", seconds=2.0)
    answer(store, session, second, 1, annotator="Ann", kind="second")
    answer(store, session, first, -1, annotator="Cat", kind="corrected")
    answer(store, session, first, 0, annotator="Bob", kind="late")
    answer(store, session, first, -1, annotator="Ann", kind="again")
    store.put_event(session, "withdrawn", None, "Bob", question=first)
    answer(store, session, second, -1, annotator="Cat", kind="late", seconds=3.0)
    answer(store, session, third, 1, annotator="Ann")
    answer(store, session, third, -1, annotator="Ann", kind="corrected")
    undo(store, session, third)
    answer(store, session, second, -1, annotator="Ann", kind="corrected")
    answer(store, session, second, 1, annotator="Ann", kind="corrected")
    answer(store, session, second, 0, annotator="Ann", kind="second")
    store.put_event(session, "withdrawn", None, "Ann", question=second)
    answer(store, session, second, -1, annotator="Ann", kind="late")
    return questions


def counting(store):
    """Return the tables that are derived from the events: {"labels": rows, "opinions": rows}."""
    return {table: store.query(f"SELECT * FROM {table} ORDER BY question, given") for table in ("labels", "opinions")}


def test_what_counts_follows_from_the_events(store, session, told):
    """Labels and opinions (second, repeated and late answers) are the same if derived from events one by one or all at
    once. A correction replaces a label and keeps the first one. Undone answers are in neither table. Of each person's
    opinions on a question, the first one that is not withdrawn counts."""
    first, second, _ = told
    at = [None, *(row["at"] for row in store.events(session))]
    expected = {
        "labels": [
            (first, 2, -1, 1, "Cat", at[8], None, None, None),
            (second, 6, 1, 0, "Ann", at[17], None, None, None),
        ],
        "opinions": [
            (first, "Ann", 10, "again", -1, at[10], None),
            (second, "Cat", 12, "late", -1, at[12], 3.0),
            (second, "Ann", 20, "late", -1, at[20], None),
        ],
    }
    made = counting(store)
    assert expected == {table: [tuple(row.values()) for row in made[table]] for table in made}
    with store.transaction():
        for table in made:
            store.db.execute(f"DELETE FROM {table}")
    store.derive_answers(session)
    assert made == counting(store)
    assert [] == store.problems()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE labels SET label = -label", "UPDATE labels SET first = -1", "DELETE FROM labels WHERE given = 6",
        "UPDATE labels SET annotator = 'Eve'", "UPDATE labels SET seconds = 1 WHERE given = 6",
        "UPDATE opinions SET label = 0", "DELETE FROM opinions WHERE annotator = 'Ann'",
        "INSERT INTO opinions SELECT question, 'Eve', given, kind, label, answered_at, seconds FROM opinions LIMIT 1",
        "UPDATE events SET label = 0 WHERE kind = 'corrected'",
        "DELETE FROM events WHERE kind = 'withdrawn'",
    ],
)  # fmt: skip
def test_answers_that_were_changed_by_hand_are_found(store, session, told, change):
    """If the labels or opinions of a session do not follow from its events, only this session is reported."""
    with store.transaction():
        store.db.execute(change)
    other = store.add_session(SESSION | {"dataset": 1})
    answer(store, other, ask(store, other), 0)
    assert [f"the answers of session {session} do not follow from its events"] == store.problems()


WRITER = """
import sys
from oal_engine.store import Store
from tests.harness.tables import write

store = Store(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
write(store, int(sys.argv[2]), f"process {sys.argv[2]}")
"""


@pytest.mark.slow
def test_writers_wait_for_each_other(path, store):
    """Two threads and two other processes write labels at once, and all labels are stored without an error."""
    dataset, errors = store.add_dataset(DATASET, ITEMS), []
    sessions = [store.add_session(SESSION | {"dataset": dataset}) for _ in range(4)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, path, str(session)],
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for session in sessions[:2]
    ]

    def guarded(session):
        try:
            write(store, session, f"thread {session}")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(session,)) for session in sessions[2:]]
    assert ["ready\n"] * 2 == [process.stdout.readline() for process in processes]
    for process in processes:
        print(file=process.stdin, flush=True)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [("", "")] * 2 == [process.communicate() for process in processes]
    assert [] == errors
    names = [f"{kind} {session}" for kind, session in zip(["process"] * 2 + ["thread"] * 2, sessions)]
    expected = {f"{name} {number}" for name in names for number in range(100)}
    assert expected == {row["id"] for row in store.query("SELECT id FROM events WHERE kind = 'answered'")}
    assert 4 * 100 == rows(store)["labels"]
    assert [] == store.problems()


def test_a_database_that_another_process_just_makes_is_waited_for(path):
    first, opened = sqlite3.connect(path, isolation_level=None), []
    first.execute("BEGIN IMMEDIATE")
    first.execute("PRAGMA application_id = 1")
    thread = threading.Thread(target=lambda: opened.append(Store(path)))
    thread.start()
    thread.join(0.2)
    still_waiting = thread.is_alive()
    first.execute("COMMIT")
    first.close()
    thread.join()
    assert still_waiting
    assert {"wal"} == {store.one("PRAGMA journal_mode")["journal_mode"] for store in opened}


# Queries


def test_a_data_set_is_found_by_id_or_name(store):
    first = store.add_dataset(DATASET | {"name": "7"}, ITEMS)
    assert (first, first) == (store.dataset(first)["id"], store.dataset("7")["id"])
    for missing in (7, "d"):
        with pytest.raises(StoreError, match=rf"^data set {missing} does not exist\. There are: 7\.$"):
            store.dataset(missing)
    with pytest.raises(StoreError, match=r"^session 3 does not exist\.$"):
        store.session(3)


def test_sessions_are_listed_with_their_progress(store, session, monkeypatch):
    """Sessions are listed with the counts of current labels, skips and positives, the most recently used first."""
    clock = count(3000)
    replace_everywhere(monkeypatch, "now", lambda: str(next(clock)))
    store.add_session(SESSION | {"dataset": 1, "name": "idle"})
    for number, label in enumerate((1, -1, 0, 1), 1):
        question = ask(store, session, parent=number, number=number)
        answer(store, session, question, label)
    undo(store, session, question)
    listed = [(row["name"], row["labels"], row["positives"], row["skipped"], row["stream"]) for row in store.sessions()]
    assert [("s", 2, 1, 1, 3), ("idle", 0, 0, 0, 3)] == listed
    assert [2] == [row["sessions"] for row in store.datasets()]
