"""A new database is made by one script; an older one is migrated to the same schema, all or nothing."""

import sqlite3
from contextlib import closing

import pytest

from oal_engine.store import Store, StoreError, migrations
from tests.harness.tables import DATASET, ITEMS, TABLES, rows


def schema(path):
    with closing(sqlite3.connect(path)) as connection:
        return migrations.digest_of(connection)


def content(path):
    """Return the rows of the tables that all versions have, without columns that came later."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        return {
            table: [
                {name: value for name, value in zip(row.keys(), row) if name != "goal"}
                for row in connection.execute(f"SELECT * FROM {table}")
            ]
            for table in TABLES
            if table != "datasets"
        }


@pytest.mark.parametrize("read_only", [False, True])
def test_a_database_of_0_3_0_gets_the_schema_of_a_new_one(frozen, path, read_only):
    """A database of 0.3.0 is migrated when it is opened, even only to be read: it has the schema of a new database and
    all its rows, and its state before is kept in a copy."""
    before, old = schema(frozen), content(frozen)
    for _ in range(2):
        Store(frozen, read_only=read_only).close()
    Store(path).close()
    assert schema(path) == schema(frozen) != before
    assert old == content(frozen)
    (copy,) = frozen.parent.glob("studio.*.db")
    assert (before, old) == (schema(copy), content(copy))


def test_each_step_names_the_schema_that_it_changes(frozen):
    with closing(sqlite3.connect(frozen, isolation_level=None)) as connection:
        for step in migrations.STEPS:
            assert migrations.digest_of(connection) == step.before
            step.change(connection)


def test_a_migration_that_fails_changes_nothing(frozen, monkeypatch):

    def broken(db):
        db.execute("DROP TABLE digests")
        raise OSError("disk full")

    before = schema(frozen), content(frozen)
    monkeypatch.setattr(migrations, "STEPS", [*migrations.STEPS[:-1], migrations.STEPS[-1]._replace(change=broken)])
    with pytest.raises(OSError, match="disk full"):
        Store(frozen)
    assert before == (schema(frozen), content(frozen))


def test_a_database_of_a_newer_version_is_refused(path):
    store = Store(path)
    store.add_dataset(DATASET, ITEMS)
    with store.transaction():
        store.db.execute("PRAGMA user_version = 99")
    store.close()
    before = path.read_bytes()
    with pytest.raises(StoreError) as refused:
        Store(path)
    assert f"{path} was written by a newer OAL Studio (schema 99). Update this one to open it." == str(refused.value)
    assert before == path.read_bytes()


@pytest.mark.parametrize("statement", ["CREATE TABLE datasets (id INTEGER)", "CREATE TABLE photos (name TEXT)"])
def test_a_database_of_before_0_3_0_or_of_another_program_is_refused(path, statement):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(StoreError) as refused:
            Store(path, read_only=read_only)
        sentence = f"{path} does not have the schema of OAL Studio 0.3.0 or later: it is not opened."
        assert sentence == str(refused.value)
    assert before == path.read_bytes()


def test_an_empty_file_becomes_a_database(path):
    path.touch()
    assert dict.fromkeys(TABLES, 0) == rows(Store(path))
