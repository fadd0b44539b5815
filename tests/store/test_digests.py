"""Digests of the rows of a data set follow every import and append, and show every changed value."""

import json
import random
import sqlite3
from contextlib import closing

import pytest

from oal_engine.datasets import Dataset, feeds
from oal_engine.sessions.backups import check
from oal_engine.store import Store, digests
from tests.harness.backups import change_byte

CHANCE = random.Random(0)


def flipped(value):
    """Return a value with one bit changed; for an empty text, one with a letter."""
    if isinstance(value, int):
        return value ^ 1
    if not value:
        return "a"
    content = bytearray(value if isinstance(value, bytes) else value.encode("latin-1", "replace"))
    content[CHANCE.randrange(len(content))] ^= 1
    return bytes(content) if isinstance(value, bytes) else content.decode("latin-1")


@pytest.fixture
def grown(frozen, tmp_path):
    """A database of 0.3.0 that was migrated, and whose data sets of texts have grown since, several times."""
    store = Store(frozen)
    lines = [
        {"id": f"i{k}", "text": f"goal match team coach number{k // 2 * 2}" + " again" * (k % 2), "label": "yes",
         "source": f"paper {k}", "score": "0.5", "sport": "yes", "fresh": "no"}
        for k in range(8)
    ]  # fmt: skip
    path = tmp_path / "later.jsonl"
    for part in (lines[:5], lines[3:], lines):
        path.write_text("\n".join(map(json.dumps, part)))
        for name in ("similar", "words"):
            dataset = Dataset(store, name)
            items = feeds._read_file(dataset, path, None, None)
            feeds.append(dataset, items, joined=100)
    yield store
    store.close()


def test_digests_follow_what_is_migrated_and_appended(grown):
    """After a migration and several appends, with duplicates, near-duplicates, new ids and joined batches, every data
    set has the digests of its rows."""
    assert grown.copies(grown.dataset("similar")["id"]) > 1
    assert 3 == len(grown.batches(grown.dataset("words")["id"]))
    assert {} == {row["name"]: tables for row in grown.datasets() if (tables := grown.damaged_tables(row["id"]))}


@pytest.mark.parametrize(
    ("table", "column"), [(table, column) for table in digests.COLUMNS for column in digests.COLUMNS[table].split(", ")]
)
def test_a_changed_value_is_found(grown, table, column):
    """If one bit of a value in any column that a digest covers is changed, its table and its data set are named."""
    key = "id" if table == "datasets" else "dataset"
    with closing(sqlite3.connect(grown.path, isolation_level=None)) as connection:
        columns = f"{key}, {digests.COLUMNS[table]}"
        row = CHANCE.choice(connection.execute(f"SELECT {columns} FROM {table} WHERE {column} IS NOT NULL").fetchall())
        old = row[columns.split(", ").index(column)]
        where = " AND ".join(f"{name} IS ?" for name in columns.split(", "))
        connection.execute(f"UPDATE OR REPLACE {table} SET {column} = ? WHERE {where}", [flipped(old), *row])
    found = {each["id"]: tables for each in grown.datasets() if (tables := grown.damaged_tables(each["id"]))}
    assert {row[0]: [table]} == found
    with pytest.raises(ValueError, match=rf"is damaged: {table} changed since they were stored|cannot be read"):
        Dataset(grown, row[0]).check()


def test_a_changed_bit_of_the_file_is_found(frozen):
    """Whichever bit of an id, a text or a kept column is changed in the file of a database, `check` finds it."""
    Store(frozen).close()
    with closing(sqlite3.connect(frozen, isolation_level=None)) as connection:
        connection.execute("VACUUM")  # nothing in the file but what is stored
        contents = connection.execute("SELECT id || text FROM items UNION SELECT cells FROM details").fetchall()
    whole = frozen.read_bytes()
    places = [
        (at, len(part)) for (content,) in contents if content and (at := whole.find(part := content.encode())) > 0
    ]
    assert len(places) > 100
    for start, length in CHANCE.choices(places, k=40):
        at = start + CHANCE.randrange(length)
        change_byte(frozen, at, whole[at] ^ 1 << CHANCE.randrange(8))
        with closing(Store(frozen, read_only=True)) as store:
            assert any(finding.problem and finding.part != "session" for finding in check(store))
        change_byte(frozen, at, whole[at])
