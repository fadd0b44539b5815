"""The store: migrations, refusals in one sentence, and writers that wait for each other."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import count

import pytest

from oal_engine import store as store_module
from oal_engine.places import database_path
from oal_engine.store import ConflictError, StorageError, Store, StoreError, migrations
from tests.harness import ROOT
from tests.harness.sessions import erase

DATASET = {
    "name": "d",
    "kind": "vectors",
    "source": "d.npy",
    "items": 3,
    "features": 1,
    "positives": 0,
    "negatives": 0,
    "positive": "",
    "scaling": "{}",
    "folder": "x",
}
SESSION = {
    "name": "s",
    "algorithm": "PAA-I",
    "learner": "pa-i",
    "rule": "symmetric",
    "parameters": "{}",
    "budget": 9,
    "seed": 0,
    "items": 3,
    "shuffled": 0,
    "positive_name": "a",
    "negative_name": "b",
    "alpha_p": 0.5,
    "c_p": 0.9,
    "metric": "sum",
    "theta": 0.0,
    "rho": 0.0,
    "averaged": 0,
    "engine": "0",
}
ITEMS = [("a", "text a", "", 0), ("b", "text b", "yes", 1), ("c", None, "no", -1)]
TABLES = ("datasets", "items", "vocabulary", "sessions", "questions", "events", "labels", "digests")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "studio.db"


@pytest.fixture
def store(path):
    return Store(path)


@pytest.fixture
def session(store):
    """The id of a session on a data set of three items."""
    return store.add_session(SESSION | {"dataset": store.add_dataset(DATASET, ITEMS, [("term", 2)])})


def ask(store, session, parent=0, branch=0, number=1, item=0):
    """The id of a stored question without an answer."""
    place = {"session": session, "parent": parent, "branch": branch, "round": item, "item": item}
    decision = {"margin": 0.5, "probability": 1.0, "draw": 0.1, "predicted": 1, "asked_at": store_module.now()}
    question = store.put_question(place | decision)
    store.number_question(session, question, number)
    return question


def answer(store, session, question, label, id=None, annotator="", **more):
    """The number of the event that an answer to a question is."""
    return store.put_event(session, more.pop("kind", "answered"), id, annotator, question=question, label=label, **more)


def undo(store, session, question, id=None):
    """Take an answer back."""
    store.put_event(session, "undone", id, question=question)


def rows(store):
    """The number of rows of every table."""
    return {table: store.one(f"SELECT count(*) AS n FROM {table}")["n"] for table in TABLES}


# Migrations


def test_migrations_are_applied_once_and_in_order(path, monkeypatch):
    """The steps of a later version run once each, after those already applied, in the order of the file."""
    Store(path).close()
    later = {name: lambda db, name=name: db.execute(f"CREATE TABLE {name} (a)") for name in ("m9999_b", "m9999_a")}
    names = [*migrations.STEPS, *later]
    monkeypatch.setattr(migrations, "STEPS", migrations.STEPS | later)
    for _ in range(2):
        Store(path).close()
    applied = [row["name"] for row in Store(path).query("SELECT name FROM _sqlite_migrations ORDER BY id")]
    assert names == applied
    made = [row["name"] for row in Store(path).query("SELECT name FROM sqlite_master WHERE name LIKE 'm9999%'")]
    assert [*later] == made


def test_comparisons_of_old_databases_know_their_data(path, monkeypatch):
    """By the names that these have, where they were there before; the class against the rest is no part of a name."""
    steps = list(migrations.STEPS.items())
    names = [name for name, _ in steps]
    monkeypatch.setattr(migrations, "STEPS", dict(steps[: names.index("m2026_11_24_data_of_comparisons")]))
    old = Store(path)
    first = old.add_dataset(DATASET, ITEMS, [("term", 2)])
    data = ["d", "d=x", "demo:tweets", {"name": "d", "file": "d.csv"}, {"file": "d.csv"}]
    values = {"specification": json.dumps({"data": data}), "versions": "{}"}
    with old.transaction():
        for name, when in (("c", store_module.now()), ("before", "2000")):
            old._insert("comparisons", values | {"name": name, "created_at": when})
    old.close()
    monkeypatch.undo()
    store = Store(path)
    found = {row["name"]: row["datasets"] for row in store.comparisons()}
    assert {"c": [first, first, None, first, None], "before": [None] * 5} == found
    store.close()


def test_a_database_of_the_first_version_keeps_everything(path, monkeypatch):
    """A database of the first version keeps every row, gets the defaults of later columns and the events of which its
    labels tell, and takes new answers."""
    monkeypatch.setattr(migrations, "STEPS", dict(list(migrations.STEPS.items())[:1]))
    monkeypatch.setattr(store_module, "_decoded", lambda row, *columns: row)  # as the first version had it
    old = Store(path)
    dataset = old.add_dataset(DATASET, ITEMS, [("term", 2)])
    label = {"annotator": "Ann", "seconds": 2.5}
    times = ["", *(f"2999-01-01T00:0{minute}+00:00" for minute in (1, 2, 3))]
    with old.transaction():
        session = old._add("sessions", {key: SESSION[key] for key in SESSION if key != "items"} | {"dataset": dataset})
        question = ask(old, session)
        taken_back = {"undone_at": times[2], "undone_by": "undo"}
        for own in (
            {"event": "wrong", "label": -1, "answered_at": times[1]} | taken_back,
            {"event": "event", "label": 1, "answered_at": times[3]},
        ):
            old._insert("labels", label | own | {"question": question})
        old._insert("digests", {"session": session, "answers": 1, "digest": "digest"})
    made = ("events", "labels", "digests")
    kept = {table: old.query(f"SELECT * FROM {table}") for table in TABLES if table not in made}
    old.close()
    monkeypatch.undo()
    store = Store(path)
    new = {
        "datasets": {"classes": None, "columns": None, "digested": 0, "checksums": None,
                     "near_duplicates": "keep", "owner": ""},
        "sessions": {"classes": None, "positive_class": None, "items": 3, "horizon": 3, "audit": 0.0, "audit_trains": 1,
                     "pace": None, "owner": "", "guidelines": "", "feedback_trains": 0, "log_version": 0,
                     "prior": None, "floor": 0.0, "overlap": 0.0, "repeat": 0.0, "lease": 300.0, "shown": None,
                     "tags": None},
        "questions": {"audit": 0, "overlap": 0, "repeat": 0},
    }  # fmt: skip
    assert [] == store.batches(1)
    for table in kept:
        assert [row | new.get(table, {}) for row in kept[table]] == store.query(f"SELECT * FROM {table}")
    assert [None] * 4 == [
        row["classes"] for row in (store.dataset("d"), *store.datasets(), store.session(session), *store.sessions())
    ]
    times[0] = kept["sessions"][0]["created_at"]
    nothing = dict.fromkeys(("id", "question", "item", "label", "seconds")) | {"session": session, "data": {}}
    events = [
        {"kind": "grown", "annotator": "", "data": {"rounds": 3}},
        {"kind": "answered", "id": "wrong", "question": question, "label": -1} | label,
        {"kind": "undone", "id": "undo", "question": question, "annotator": ""},
        {"kind": "answered", "id": "event", "question": question, "label": 1} | label,
    ]
    expected = [nothing | {"number": n, "at": at} | row for n, (at, row) in enumerate(zip(times, events), 1)]
    assert expected == store.events(session)
    standing = {"question": question, "given": 4, "label": 1, "first": 1, "answered_at": times[3]} | label
    assert [standing] == store.query("SELECT * FROM labels")
    assert {4: "digest"} == store.digests(session)
    assert [] == store.problems()
    answer(store, session, ask(store, session, parent=question, branch=1, number=2, item=1), -1, "later")
    assert [1, -1] == [entry["label"] for entry in store.answers(session)]
    assert 5 == store.event("later")["number"]


def test_classes_are_kept_in_their_order(store):
    """A data set keeps the order of its class counts and a session that of its class names; labels go up to K."""
    counts, names = {"b": 2, "a": 1, "C10": 0}, ["b", "a", "C10"]
    items = [("a", None, "a", 2), ("b", None, "b", 1), ("c", None, "b", 1)]
    dataset = store.add_dataset(DATASET | {"classes": json.dumps(counts)}, items)
    session = store.add_session(SESSION | {"dataset": dataset, "classes": json.dumps(names), "positive_class": "joy"})
    for row in (store.dataset("d"), store.dataset(dataset), *store.datasets()):
        assert list(counts.items()) == list(row["classes"].items())
    for row in (store.session(session), *store.sessions()):
        assert (names, "joy") == (row["classes"], row["positive_class"])
    assert [2, 1, 1] == [store.item(dataset, position)["y"] for position in range(3)]


def test_a_migration_that_fails_changes_nothing(path, monkeypatch):
    """A database whose migration fails in the middle is unchanged and still opens with the version that made it."""
    store = Store(path)
    store.add_dataset(DATASET, ITEMS)
    store.close()

    def broken(db):
        db.execute("DROP TABLE digests")
        raise OSError("disk full")

    monkeypatch.setattr(migrations, "STEPS", migrations.STEPS | {"m9999_broken": broken})
    with pytest.raises(OSError, match="disk full"):
        Store(path)
    monkeypatch.undo()
    again = Store(path)
    assert {"datasets": 1, "items": 3} == {table: n for table, n in rows(again).items() if n}
    assert {} == again.digests(1)


def test_a_database_of_a_newer_version_is_refused(path):
    """A migration that this version does not know is named in one sentence, and nothing is changed."""
    store = Store(path)
    with store.transaction():
        applied = {"migration_set": "oal-studio", "name": "m9999_later", "applied_at": "2999"}
        store.db["_sqlite_migrations"].insert(applied)
    store.close()
    before = path.read_bytes()
    with pytest.raises(StoreError) as refused:
        Store(path)
    expected = f"{path} was written by a newer OAL Studio (m9999_later). Update this one to open it."
    assert expected == str(refused.value)
    assert before == path.read_bytes()


@pytest.mark.parametrize("content", [b"a text, no database\n" * 99, b"SQLite format 3\0" + bytes(range(256)) * 9])
def test_a_file_that_is_no_database_is_refused(path, content):
    """Any other file is refused in one sentence and left unchanged."""
    path.write_bytes(content)
    with pytest.raises(StoreError, match=rf"^{re.escape(str(path))} cannot be used: [^.\n]+\.$"):
        Store(path)
    assert content == path.read_bytes()


def test_a_database_is_copied_before_a_migration(path, monkeypatch):
    """Before a migration one copy of the database is stored beside it, which the old version can open."""
    *older, (last, _) = migrations.STEPS.items()
    monkeypatch.setattr(migrations, "STEPS", dict(older))
    store = Store(path)
    dataset = store.add_dataset(DATASET, ITEMS)
    with store.transaction():
        store._add("sessions", SESSION | {"dataset": dataset})
    store.close()
    monkeypatch.undo()
    for _ in range(2):
        Store(path).close()
    copies = [file for file in path.parent.iterdir() if file.suffix == ".db" and file != path]
    assert [f"studio.before-{last}.db"] == [copy.name for copy in copies]
    monkeypatch.setattr(migrations, "STEPS", dict(older))
    assert 1 == Store(copies[0]).number("SELECT count(*) FROM sessions")


@pytest.mark.parametrize("way", ["deleted", "replaced", "overwritten"])
def test_nothing_is_saved_to_a_file_that_is_gone(path, store, session, way):
    """No label is acknowledged while the database is deleted or replaced; once it is back, work goes on."""
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
    """A size that another thread stores between the check of the file and its evaluation is not an error."""
    stat = os.stat

    def slow(path, **more):
        status = stat(path, **more)
        store._size = status.st_size + 4096
        return status

    monkeypatch.setattr(os, "stat", slow)
    assert 1 == len(store.sessions())


def test_a_file_that_is_deleted_while_a_label_is_written_is_noticed(path, store, session):
    """The file is checked once more after the commit."""
    question = ask(store, session)

    def write():
        with store.transaction():
            answer(store, session, question, 1)
            path.unlink()

    with pytest.raises(StorageError, match="was deleted or replaced"):
        write()


def test_what_only_reads_leaves_the_file_as_it_is(path):
    """Opening a database for reading neither creates nor changes it."""
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
    """A writer gets an error when its patience ends; a reader does not wait."""
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


def test_a_damaged_database_is_reported(path, store):
    """Reading a page that holds garbage raises an error that says the database is damaged."""
    dataset = store.add_dataset(DATASET, [(str(k), "text " * 99, "", 0) for k in range(300)])
    store.close()
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : -4096] = bytes(range(256)) * (len(content[len(content) // 2 : -4096]) // 256)
    path.write_bytes(content)
    with pytest.raises(StorageError, match="cannot be used: it is damaged; restore a backup of it"):
        Store(path).texts(dataset, 0, 300)


def test_a_path_where_no_file_can_be_is_refused(path):
    """A path in a missing folder, or of a folder, is refused in one sentence."""
    for wrong in (path / "below" / "studio.db", path.parent):
        with pytest.raises(StoreError, match=rf"^{re.escape(str(wrong))} cannot be used: [^.\n]+\.$"):
            Store(wrong)


def test_the_path_comes_from_the_environment(tmp_path, monkeypatch):
    """Without a path the database is OAL_DB, or studio.db in the working directory; its rows lie beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OAL_DB", raising=False)
    assert "studio.db" == str(database_path())
    monkeypatch.setenv("OAL_DB", str(tmp_path / "other.db"))
    assert tmp_path / "other.rows" == Store().folder
    assert (tmp_path / "other.db").exists()


def test_labels_are_durable_and_references_hold(store):
    """The connection writes ahead, syncs every commit and checks foreign keys."""
    with store.transaction():
        pragmas = [store.one(f"PRAGMA {name}")[name] for name in ("journal_mode", "synchronous", "foreign_keys")]
    assert ["wal", 2, 1] == pragmas
    with pytest.raises(ConflictError, match="FOREIGN KEY"):
        store.add_session(SESSION | {"dataset": 7})


# Transactions


def test_a_transaction_that_fails_leaves_nothing(store, session):
    """Any exception undoes all writes of the transaction, nested ones included, and the next transaction works."""
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
        assert 1 == rows(store)["sessions"]  # its own writes
        assert 2 == other.submit(rows, store).result()["sessions"]


def test_a_data_set_is_inserted_whole_or_not_at_all(store):
    """A duplicate id or an error of the source leaves no row in any table."""

    def broken():
        yield from ITEMS
        raise OSError("the source broke")

    for items, error in (([*ITEMS, ITEMS[0]], ConflictError), (broken(), OSError)):
        with pytest.raises(error):
            store.add_dataset(DATASET, items, [("term", 1)])
    assert 0 == sum(rows(store).values())


def test_two_labels_for_one_question_cannot_stand(store, session):
    """The table itself refuses a second standing label and accepts another once the first is undone."""
    question = ask(store, session)
    answer(store, session, question, 1, "first", "Ann", seconds=2.0)
    with pytest.raises(ConflictError, match="UNIQUE"):
        answer(store, session, question, -1, "second", "Bob")
    undo(store, session, question, "undo")
    assert (1, None) == (store.old_label(session, question), store.standing_label(session, question))
    answer(store, session, question, -1, "second", "Bob")
    assert 1 == store.old_label(session, question)
    undo(store, session, question, "undo again")
    third = answer(store, session, question, 0, "third", "Ann")
    assert -1 == store.old_label(session, question)
    standing = store.standing_label(session, question)
    assert (third, 0, "Ann") == (standing["given"], standing["label"], standing["annotator"])
    assert ("undone", "answered") == (store.event("undo")["kind"], store.event("first")["kind"])


def test_what_a_page_sent_is_stored_once(store, session):
    """An id is that of one event, whatever its session; what the session itself does has none."""
    question, other = ask(store, session), store.add_session(SESSION | {"dataset": 1})
    answer(store, session, question, 1, "event")
    for where, kind in ((session, "undone"), (other, "asked")):
        with pytest.raises(ConflictError, match="UNIQUE"):
            store.put_event(where, kind, "event", question=question if where == session else None)
    for _ in range(2):
        store.put_event(other, "asked")
    assert [1, 2, 3] == [row["number"] for row in store.events(other)]
    assert ["answered"] == [row["kind"] for row in store.events(session, "answered", "undone")]


def test_the_last_label_is_the_last_whatever_the_clock_says(store, session, monkeypatch):
    """The last label is the one stored last, because a clock may go backwards."""
    clock = iter("987654321")
    monkeypatch.setattr(store_module, "now", lambda: next(clock))
    question = ask(store, session)
    for label in (1, -1):
        answer(store, session, question, label)
        undo(store, session, question)
    assert -1 == store.old_label(session, question)


@pytest.fixture
def told(store, session):
    """A session with whatever changes what counts: corrections, undos, second and late answers, and withdrawals; its
    questions."""
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
    store.withdraw(session, first, "Bob")
    answer(store, session, second, -1, annotator="Cat", kind="late", seconds=3.0)
    answer(store, session, third, 1, annotator="Ann")
    answer(store, session, third, -1, annotator="Ann", kind="corrected")
    undo(store, session, third)
    answer(store, session, second, -1, annotator="Ann", kind="corrected")
    answer(store, session, second, 1, annotator="Ann", kind="corrected")
    answer(store, session, second, 0, annotator="Ann", kind="second")
    store.withdraw(session, second, "Ann")
    answer(store, session, second, -1, annotator="Ann", kind="late")
    return questions


def counting(store):
    """The rows that are made of events."""
    return {table: store.query(f"SELECT * FROM {table} ORDER BY question, given") for table in ("labels", "opinions")}


def test_what_counts_follows_from_the_events(store, session, told):
    """Labels and further answers are those of the events, one by one as all at once: a correction replaces a label and
    keeps the first one, what was taken back is in neither table, and of one person the first further answer counts."""
    first, second, third = told
    at = [None, *(row["at"] for row in store.events(session))]
    expected = {
        "labels": [(first, 2, -1, 1, "Cat", at[8], None), (second, 6, 1, 0, "Ann", at[17], None)],
        "opinions": [
            (first, "Ann", 10, "again", -1, at[10], None),
            (second, "Cat", 12, "late", -1, at[12], 3.0),
            (second, "Ann", 20, "late", -1, at[20], None),
        ],
    }
    made = counting(store)
    assert expected == {table: [tuple(row.values()) for row in made[table]] for table in made}
    assert -1 == store.old_label(session, third)
    with store.transaction():
        for table in made:
            store.db.execute(f"DELETE FROM {table}")
    store._derive_answers(session)
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
    """Where labels or further answers are not those of the events, the session is named, and no other one."""
    with store.transaction():
        store.db.execute(change)
    other = store.add_session(SESSION | {"dataset": 1})
    answer(store, other, ask(store, other), 0)
    assert [f"the answers of session {session} do not follow from its events"] == store.problems()


def write(store, session, name):
    """Ask and answer 100 questions in one session."""
    for number in range(100):
        with store.transaction():
            store.answers(session)
            question = ask(store, session, parent=number, number=number)
            answer(store, session, question, 1, f"{name} {number}", name)


WRITER = """
import sys
from tests.store.test_store import Store, write

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
    """Opening waits while another process holds the lock for its first writes."""
    first, opened = sqlite3.connect(path, isolation_level=None), []
    first.execute("BEGIN IMMEDIATE")
    first.execute("PRAGMA user_version = 1")
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


def test_a_data_set_in_use_is_not_removed(store, session):
    """A data set is removed, with its items and vocabulary, only if no session uses it."""
    with pytest.raises(StoreError, match=r"^the data set is used by the session s\. Remove its sessions first\.$"):
        store.remove_dataset(1)
    present = {"datasets": 1, "items": 3, "vocabulary": 1, "sessions": 1, "events": 1}
    assert present == {table: n for table, n in rows(store).items() if n}
    store.remove_session(session)
    store.remove_dataset(1)
    assert 0 == sum(rows(store).values())
    assert [] == store.removed_sessions()


def test_a_removed_session_is_nowhere_until_it_is_restored(store, session):
    """It is not listed and takes nothing; restored, it is as it was; both are logged."""
    before = store.session(session), store.sessions(), store.datasets()
    store.remove_session(session, "anna")
    assert [] == store.sessions()
    assert [0] == [row["sessions"] for row in store.datasets()]
    assert [(session, "s", "anna")] == [(row["id"], row["name"], row["removed_by"]) for row in store.removed_sessions()]
    for asked in (store.session, store.log_version, store.count_change, store.remove_session):
        with pytest.raises(StoreError, match=rf"^session {session} does not exist\.$"):
            asked(session)
    store.erase_removed()
    store.restore_session(session, "ben")
    assert before == (store.session(session), store.sessions(), store.datasets())
    assert [] == store.removed_sessions()
    store.remove_session(session, "carla")
    logged = [tuple(row.values()) for row in store.query("SELECT removed_by, restored_by FROM removals ORDER BY id")]
    assert [("anna", "ben"), ("carla", None)] == logged


@pytest.fixture
def clock(monkeypatch):
    """A function that sets the clock of the store to so many days from now."""
    real = store_module.now
    return lambda days: monkeypatch.setattr(store_module, "now", lambda ago=timedelta(): real(ago - timedelta(days)))


def present_after(store, clock, *starts):
    """Whether the only session is still there after starts of a server, each when the clock shows so many days from
    now."""
    for days in starts:
        clock(days)
        store.erase_removed()
    clock(0)
    return rows(store)["sessions"] == 1


def test_a_removed_session_is_erased_by_two_starts(store, session, clock):
    """The first start thirty days later notes it, and one a week after that erases it; its name stays in the log."""
    store.remove_session(session)
    assert present_after(store, clock, 29.9, 30.1, 37)
    assert not present_after(store, clock, 37.2)
    assert ["s"] == [row["name"] for row in store.query("SELECT name FROM removals")]


@pytest.mark.parametrize(
    "starts", [(40,), (40, 0), (40, 41, 46), (40, 0, 48), (40, 0, 48, 1, 60), (4000, 1, 4000), (-4000, 40)]
)
def test_a_clock_that_was_ahead_erases_nothing(store, session, clock, starts):
    """Whatever the clock shows at some starts, a session that was removed today is erased by none of them alone, and by
    no two with one between them that knows better."""
    store.remove_session(session)
    assert present_after(store, clock, *starts)
    store.restore_session(session)
    assert ["s"] == [row["name"] for row in store.sessions()]


def test_a_session_that_was_removed_again_begins_anew(store, session, clock):
    """What a start noted of an earlier removal does not count for the next one."""
    store.remove_session(session)
    assert present_after(store, clock, 31)
    store.restore_session(session)
    clock(38)
    store.remove_session(session)
    assert present_after(store, clock, 39, 60)


def test_a_session_is_for_the_people_that_its_owner_names(store):
    """Whoever makes it with an e-mail address owns it; others have the role that they were given last, or none."""
    session = store.add_session(SESSION | {"dataset": store.add_dataset(DATASET, ITEMS), "owner": "Anna@example.org"})
    people = "ANNA@example.org", "ben@example.org", "eve@example.org", ""
    assert ["owner", None, None, None] == [store.role(session, mail) for mail in people]
    store.put_role(session, " Ben@Example.org", "annotator", "anna@example.org")
    store.put_role(session, "eve@example.org", "annotator")
    store.put_role(session, "eve@example.org", "reader")
    assert ["owner", "annotator", "reader", None] == [store.role(session, mail) for mail in people]
    store.put_role(session, "ben@example.org", None, "anna@example.org")
    assert ["owner", None, "reader", None] == [store.role(session, mail) for mail in people]
    assert [("anna@example.org", None), ("ben@example.org", "anna@example.org")] == [
        (row["mail"], row["ended_by"]) for row in store.roles(session)[:2]
    ]


@pytest.mark.parametrize("way", [None, "reader"])
def test_a_session_keeps_an_owner(store, way):
    """The last owner is neither removed nor made something else, and the attempt changes nothing."""
    session = store.add_session(SESSION | {"dataset": store.add_dataset(DATASET, ITEMS), "owner": "anna@example.org"})
    with pytest.raises(StoreError, match=r"^a session keeps at least one owner\.$"):
        store.put_role(session, "anna@example.org", way)
    assert "owner" == store.role(session, "anna@example.org")
    store.put_role(session, "ben@example.org", "owner")
    store.put_role(session, "anna@example.org", way)
    assert way == store.role(session, "anna@example.org")


@pytest.mark.parametrize("mail", ["", "anna", "anna@", "a b@c.org", "a@b@c"])
def test_a_role_is_for_an_address(store, session, mail):
    """A name, or two addresses, get no role."""
    with pytest.raises(StoreError, match="must look like"):
        store.put_role(session, mail, "reader")
    assert [] == store.roles(session)


def test_a_session_without_people_is_open_until_one_is_named(store, session):
    """A session of before, or of the command line: everybody annotates. With the first name it closes to all others,
    and does not open again when that name goes; who made it stays an owner."""
    store.update_session(session, {"owner": "anna@example.org"})
    people = "anna@example.org", "ben@example.org", "eve@example.org"
    assert ["owner", "annotator", "annotator"] == [store.role(session, mail) for mail in people]
    store.put_role(session, "ben@example.org", "reader")
    assert ["owner", "reader", None] == [store.role(session, mail) for mail in people]
    store.put_role(session, "ben@example.org", None)
    assert ["owner", None, None] == [store.role(session, mail) for mail in people]


def test_a_data_set_is_for_its_owner_and_for_the_people_of_its_sessions(store):
    """One without an owner is for everybody; a removed session shows nobody its data."""
    free, own = (store.add_dataset(DATASET | {"name": name, "owner": name}, ITEMS) for name in ("", "anna@example.org"))
    session = store.add_session(SESSION | {"dataset": own})
    store.put_role(session, "ben@example.org", "reader")
    seen = {mail: store.visible_datasets(f"{mail}@Example.org") for mail in ("anna", "ben", "eve")}
    assert {"anna": {free, own}, "ben": {free, own}, "eve": {free}} == seen
    store.remove_session(session)
    assert {free} == store.visible_datasets("ben@example.org")


def test_a_session_goes_with_its_questions_and_labels(store, session):
    """Erasing a session removes its questions and labels and leaves the data set and the other sessions."""
    other = store.add_session(SESSION | {"dataset": 1, "name": "other"})
    for number in (session, other):
        answer(store, number, ask(store, number), 1)
        store.put_digest(number, 50, "digest")
    erase(store, session)
    assert {
        "datasets": 1,
        "items": 3,
        "vocabulary": 1,
        "sessions": 1,
        "questions": 1,
        "events": 2,
        "labels": 1,
        "digests": 1,
    } == rows(store)
    assert ["other"] == [row["name"] for row in store.sessions()]


def test_a_data_set_is_found_by_id_or_name(store):
    """An int is looked up as an id and a string as a name, even if the name is a number."""
    first = store.add_dataset(DATASET | {"name": "7"}, ITEMS)
    assert (first, first) == (store.dataset(first)["id"], store.dataset("7")["id"])
    for missing in (7, "d"):
        with pytest.raises(StoreError, match=rf"^data set {missing} does not exist\. There are: 7\.$"):
            store.dataset(missing)
    with pytest.raises(StoreError, match=r"^session 3 does not exist\.$"):
        store.session(3)


def test_the_answers_are_the_labels_that_stand(store, session):
    """A question has its annotator's standing label, not an undone one and not the data's own."""
    first = ask(store, session, number=1, item=1)
    answer(store, session, first, 1, annotator="Ann", seconds=1.0)
    undo(store, session, first)
    answer(store, session, first, -1, annotator="Bob", seconds=2.5)
    ask(store, session, parent=first, branch=-1, number=2, item=2)
    wanted = ("number", "item", "label", "first", "annotator", "seconds")
    assert [(1, 1, -1, -1, "Bob", 2.5), (2, 2, None, None, None, None)] == [
        tuple(entry[key] for key in wanted) for entry in store.answers(session)
    ]


def test_sessions_are_listed_with_their_progress(store, session, monkeypatch):
    """Sessions are listed with the counts of standing labels, skips and positives, the most recently used first."""
    clock = count(3000)
    monkeypatch.setattr(store_module, "now", lambda: str(next(clock)))
    store.add_session(SESSION | {"dataset": 1, "name": "idle"})
    for number, label in enumerate((1, -1, 0, 1), 1):
        question = ask(store, session, parent=number, number=number)
        answer(store, session, question, label)
    undo(store, session, question)
    listed = [(row["name"], row["labels"], row["positives"], row["skipped"], row["stream"]) for row in store.sessions()]
    assert [("s", 2, 1, 1, 3), ("idle", 0, 0, 0, 3)] == listed
    assert [2] == [row["sessions"] for row in store.datasets()]
