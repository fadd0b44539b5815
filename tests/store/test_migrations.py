"""Migrations apply every step once, in order, all or nothing, and keep all data of the old database."""

import json
import re

import pytest

from oal_engine.store import StorageError, Store, StoreError, migrations, now
from tests.harness.tables import DATASET, ITEMS, SESSION, TABLES, answer, ask, replace_everywhere, rows


def test_migrations_are_applied_once_and_in_order(path, monkeypatch):
    """A newer version's migrations run once each, after the ones already applied, in the order of their definition."""
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
    """Old comparisons get the ids of their data sets, found by name, if the data set existed when the comparison was
    made. In a name such as d=x, the part after = is a class."""
    steps = list(migrations.STEPS.items())
    names = [name for name, _ in steps]
    monkeypatch.setattr(migrations, "STEPS", dict(steps[: names.index("m2026_11_24_data_of_comparisons")]))
    old = Store(path)
    first = old.add_dataset(DATASET, ITEMS, [("term", 2)])
    data = ["d", "d=x", "demo:tweets", {"name": "d", "file": "d.csv"}, {"file": "d.csv"}]
    values = {"specification": json.dumps({"data": data}), "versions": "{}"}
    with old.transaction():
        for name, when in (("c", now()), ("before", "2000")):
            old._insert("comparisons", values | {"name": name, "created_at": when})
    old.close()
    monkeypatch.undo()
    store = Store(path)
    found = {row["name"]: row["datasets"] for row in store.comparisons()}
    assert {"c": [first, first, None, first, None], "before": [None] * 5} == found
    store.close()


def test_a_database_of_the_first_version_keeps_everything(path, monkeypatch):
    """A database of the first version keeps every row, gets the defaults of later columns and the events that its
    labels imply, and takes new answers."""
    monkeypatch.setattr(migrations, "STEPS", dict(list(migrations.STEPS.items())[:1]))
    replace_everywhere(monkeypatch, "decoded", lambda row, *columns: row)  # the first version decoded no columns
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
                     "tags": None, "people": 2, "quota": 0, "questions": None,
                     "audited": None, "answer_each": 0},
        "questions": {"audit": 0, "overlap": 0, "repeat": 0, "parts": None},
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
    assert [standing | {"labels": None, "firsts": None}] == store.query("SELECT * FROM labels")
    assert {4: "digest"} == store.digests(session)
    assert [] == store.problems()
    answer(store, session, ask(store, session, parent=question, branch=1, number=2, item=1), -1, "later")
    assert [1, -1] == [entry["label"] for entry in store.answers(session)]
    assert 5 == store.event("later")["number"]


def test_the_weights_that_old_sessions_began_with_are_those_of_their_only_question(path, monkeypatch):
    """The prior weights of an old session, which had only one question, become the weights of question 0."""
    steps = list(migrations.STEPS.items())
    names = [name for name, _ in steps]
    monkeypatch.setattr(migrations, "STEPS", dict(steps[: names.index("m2026_11_28_prior_of_questions")]))
    old = Store(path)
    with old.transaction():
        session = old._add("sessions", SESSION | {"dataset": old.add_dataset(DATASET, ITEMS)})
        for column, weight in ((3, -0.5), (7, 1 / 3)):
            old._insert("prior_weights", {"session": session, "column": column, "weight": weight})
    old.close()
    monkeypatch.undo()
    assert {0: {3: -0.5, 7: 1 / 3}} == Store(path).prior_weights(session)


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
    """A database with a migration that this version does not know is refused with its name, and nothing is changed."""
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


def test_a_database_is_copied_before_a_migration(path, monkeypatch):
    """Before a migration the database is copied, once, and the old version can open the copy."""
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


def test_a_damaged_old_log_is_named_by_its_session(path, monkeypatch):
    """If the log of one session cannot be converted, the database is not migrated, and the error names the session."""
    names = list(migrations.STEPS)
    steps = dict(list(migrations.STEPS.items())[: names.index("m2026_11_24_events")])
    monkeypatch.setattr(migrations, "STEPS", steps)
    old = Store(path)
    dataset = old.add_dataset(DATASET, ITEMS)
    with old.transaction():
        for name in ("sound", "odd"):
            session = old._add("sessions", SESSION | {"name": name, "dataset": dataset})
        old._insert("shared", {"session": session, "place": 1, "happened": "no JSON"})
    old.close()
    monkeypatch.undo()
    message = (
        f"{path} is damaged: m2026_11_24_events cannot be applied: the log of session 2 (odd) contradicts itself: "
    )
    for _ in range(2):
        with pytest.raises(StorageError, match=re.escape(message)):
            Store(path)
    monkeypatch.setattr(migrations, "STEPS", steps)
    assert 1 == Store(path).number("SELECT count(*) FROM shared")
