"""A database or backup of unknown origin can neither run code, nor delete anything, nor hang the process. It is refused
with a one-sentence error."""

import io
import json
import os
import shutil
import sqlite3
import tarfile
from contextlib import closing, suppress
from hashlib import sha256

import pytest

from oal_engine import datasets
from oal_engine.datasets import Dataset
from oal_engine.sessions import backups
from oal_engine.sessions.backups import BackupError
from oal_engine.sessions.session import Session
from oal_engine.store import Store, StoreError, migrations
from tests.harness.sessions import begin, reply, stream_of

ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"
FOREIGN = {
    "a trigger": "CREATE TRIGGER t AFTER UPDATE ON datasets BEGIN UPDATE datasets SET folder = '/etc'; END",
    "a view": "CREATE VIEW v AS SELECT 1",
    "an endless view": f"CREATE VIEW v AS {ENDLESS} i FROM n",
    "a table": "CREATE TABLE other (a)",
    "a virtual table": "CREATE VIRTUAL TABLE other USING fts5 (a)",
    "an index": "CREATE INDEX other ON items (label)",
    "an index of an expression": "CREATE INDEX other ON items (abs(y))",
    "a partial index": "CREATE INDEX other ON items (y) WHERE length(label) > 1",
    "a generated column": "ALTER TABLE items ADD COLUMN other TEXT AS (upper(label))",
    "a column with a check": "ALTER TABLE items ADD COLUMN other TEXT CHECK (abs(y) < 2)",
    "a table that is missing": "DROP TABLE digests",
    "an index that is missing": "DROP INDEX events_question",
    "statistics with a view's name": "CREATE VIEW statistics AS SELECT * FROM items",
}
IN_PLACE = {  # changes that a program can make in the schema table
    "a view in place of a table": f"type = 'view', rootpage = 0, sql = 'CREATE VIEW items AS {ENDLESS} i FROM n'",
    "a table under another name": "name = 'things'",
    "text that is none": "sql = x'00ff'",
    "a very long text": "sql = sql || ' ' || printf('%2000000s', '--')",
    "a table without its columns": "sql = 'CREATE TABLE items (a)'",
}


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    """The folder of a database with a data set, and a session with three answers."""
    folder = tmp_path_factory.mktemp("origin")
    store = Store(folder / "studio.db")
    datasets.add(store, "sparse", datasets.table(stream_of(60)[1]), "made.npz")
    opened = begin(store)
    for label in (1, -1, 1):
        reply(opened, "ann", label)
    store.close()
    return folder


@pytest.fixture
def path(origin, tmp_path):
    """The path of a copy of the database in `origin`."""
    shutil.copytree(origin, tmp_path / "copy")
    return tmp_path / "copy" / "studio.db"


def change(path, *statements, values=()):
    """Run statements on a database file directly, without the store; they may even change the schema table."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        for statement in statements:
            connection.execute(statement, values)


def archive(path, name="hostile.tar"):
    """Pack a database and its rows into a backup, without any check. Return its path."""
    made, parts = path.with_name(name), [path, *sorted(path.with_name("studio.rows").glob("*/*"))]
    sums = [f"{sha256(part.read_bytes()).hexdigest()}  {part.relative_to(path.parent)}\n" for part in parts]
    list_of_sums = path.with_name("sums")
    list_of_sums.write_text("".join(sums))
    with tarfile.open(made, "w") as file:
        for part in parts:
            file.add(part, str(part.relative_to(path.parent)))
        file.add(list_of_sums, "SHA256SUMS")
    list_of_sums.unlink()
    return made


def refusal(action, *arguments, **named):
    """Check that an action is refused with a one-line error. Return the error message."""
    with pytest.raises((StoreError, BackupError)) as refused:
        action(*arguments, **named)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400
    return str(refused.value)


def look(backup):
    """Open and check a backup, as the command `check` does. Return the findings with a problem."""
    with backups.opened(backup) as store:
        return [finding for finding in backups.check(store) if finding.problem]


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Schemas that are not ours


@pytest.mark.parametrize("what", FOREIGN)
def test_what_we_did_not_make_is_refused(path, what):
    """A database with something that our script does not make, or without something that it makes, is neither opened
    nor restored, and is not changed."""
    change(path, FOREIGN[what])
    before = path.read_bytes()
    for read_only in (True, False):
        said = refusal(Store, path, read_only=read_only)
        assert said.startswith((f"{path} holds the ", f"{path} lacks the "))
        assert said.endswith(": it is not opened.")
    assert before == path.read_bytes()
    backup = archive(path)
    for action in (look, lambda backup: backups.restore(backup, path.with_name("new.db"))):
        assert refusal(action, backup).startswith(f"{backup} is refused: its database ")
    assert not path.with_name("new.db").exists()


@pytest.mark.parametrize("what", IN_PLACE)
def test_a_schema_that_was_written_by_hand_is_refused(path, what):
    """A database in whose schema table the definition of a table was changed by hand is neither opened nor restored."""
    change(path, f"UPDATE sqlite_master SET {IN_PLACE[what]} WHERE name = 'items'")
    refusal(Store, path)
    refusal(backups.restore, archive(path), path.with_name("new.db"))
    assert not path.with_name("new.db").exists()


@pytest.mark.parametrize("version", [-1, *range(migrations.VERSION), 2**31 - 1])
def test_a_version_that_does_not_fit_the_schema_is_refused(path, version):
    change(path, f"PRAGMA user_version = {version}")
    refusal(Store, path)


@pytest.mark.parametrize(
    "statement",
    [
        None,
        FOREIGN["a trigger"], FOREIGN["a view"], FOREIGN["an index of an expression"],
        FOREIGN["a table that is missing"],
        "ALTER TABLE _sqlite_migrations ADD COLUMN o TEXT CHECK (length(name) > 1)",
        "CREATE TRIGGER t AFTER INSERT ON _sqlite_migrations BEGIN DELETE FROM labels; END",
    ],
)  # fmt: skip
def test_a_database_of_0_3_0_opens_and_one_that_was_changed_does_not(frozen, statement):
    """A database of 0.3.0 is compared with the schema of that version before anything else is read or changed."""
    if statement is None:
        Store(frozen).close()
    else:
        change(frozen, statement)
        before = frozen.read_bytes()
        sentence = f"{frozen} does not have the schema of OAL Studio 0.3.0 or later: it is not opened."
        assert sentence == refusal(Store, frozen)
        assert before == frozen.read_bytes()


def test_the_tables_of_litestream_are_known_and_no_more(path):
    change(
        path,
        "CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)",
        "CREATE TABLE _litestream_lock (id INTEGER)",
    )
    Store(path).close()
    change(path, "CREATE TRIGGER t AFTER INSERT ON _litestream_seq BEGIN DELETE FROM items; END")
    assert "holds the trigger 't', which OAL Studio does not make" in refusal(Store, path)


def test_what_sqlite_itself_adds_is_known(path):
    """A database is still accepted after ANALYZE, after VACUUM, and with other spaces in a statement of its schema."""
    change(path, "ANALYZE", "VACUUM", "UPDATE sqlite_master SET sql = replace(sql, ', ', ',  ') WHERE name = 'items'")
    store = Store(path)
    assert [] == [finding for finding in backups.check(store) if finding.problem]


# Folders of rows

HOSTILE_FOLDERS = [
    "/", "/etc", "..", ".", "", "../../elsewhere", "../0123456789abcdef", "0123456789ABCDEF", "0123456789abcde",
    "0123456789abcdef/", "0123456789abcdef/../../elsewhere", "x\0y", "0123456789abcdef\n", "٠١٢٣٤٥٦٧٨٩abcdef",
    "studio.rows", "~", "C:\\", "x" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("name", [*HOSTILE_FOLDERS, "{elsewhere}", "link"])
def test_no_folder_elsewhere_is_read_or_removed(path, tmp_path, name):
    """Whatever folder of rows a database names, nothing outside its own folders is read, archived or removed."""
    rows = path.with_name("studio.rows")
    elsewhere = tmp_path / "0123456789abcdef"
    shutil.copytree(next(rows.iterdir()), elsewhere)
    if name == "link":
        (rows / elsewhere.name).symlink_to(elsewhere)
    named = elsewhere.name if name == "link" else name.format(elsewhere=elsewhere)
    good = archive(path, "good.tar")
    change(path, "UPDATE datasets SET folder = ?", values=[named])
    hostile, before = archive(path), contents(tmp_path)
    before.pop(path.relative_to(tmp_path))
    store = Store(path)
    for action in (Dataset, datasets.remove):
        assert "a folder of rows must be named by 16 hexadecimal digits" in refusal(action, store, 1)
    refusal(backups.backup, store, path.with_name("backup.tar"))
    findings = [finding for finding in backups.check(store) if finding.problem]
    assert {"data set", "session"} <= {finding.part for finding in findings}
    store.close()
    if name != "link":  # a backup contains the files behind the link
        refusal(backups.restore, hostile, path.with_name("new.db"))
    backups.restore(good, path, force=True)
    after = contents(tmp_path)
    gone = [file for file in before if after.get(file) != before[file]]
    assert [] == gone
    assert [] == [finding for finding in backups.check(Store(path)) if finding.problem]


def test_rows_that_two_data_sets_name_stay_until_both_are_gone(path):
    store = Store(path)
    row = store.dataset(1)
    with store.transaction():
        store.db.execute("DELETE FROM sessions")
        store._insert(
            "datasets", {key: row[key] for key in row} | {"id": 2, "name": "twin", "items": 0, "classes": None}
        )
    assert any("the same rows" in problem for problem in store.problems())
    store.close()
    assert "the same rows" in refusal(backups.restore, archive(path), path.with_name("new.db"))
    store = Store(path)
    datasets.remove(store, 2)
    assert 60 == len(Dataset(store, 1).y)
    datasets.remove(store, 1)
    assert [] == list(store.folder.iterdir())


# Values


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "INSERT INTO events (session, number, kind, at, annotator, question, label)"
            " VALUES (1, 99, 'answered', '2026', '', 1, 1)",
            "the answers of session 1 do not follow from its events",
        ),
        ("UPDATE events SET data = 'no JSON' WHERE number = 1", "data cannot be 'no JSON'"),
        ("UPDATE events SET data = '[1]' WHERE number = 1", r"data cannot be '\[1\]'"),
        ("UPDATE datasets SET scaling = 'no JSON'", "scaling cannot be 'no JSON'"),
        ("UPDATE datasets SET scaling = '[1]'", r"scaling cannot be '\[1\]'"),
        ("UPDATE datasets SET checksums = '7'", "checksums cannot be '7'"),
        (f"UPDATE sessions SET parameters = '{'[' * 100_000}'", "parameters cannot be"),
        ("UPDATE sessions SET tags = '{}'", "tags cannot be"),
        ("UPDATE sessions SET dataset = 99", "that is missing"),
        ("UPDATE datasets SET items = 9000000000000000000", "has 60 items, not"),
    ],
)
def test_values_that_the_store_never_writes_are_found(path, statement, said):
    """`check` describes a value that the store never writes, and `restore` refuses the database."""
    change(path, statement)
    store = Store(path)
    assert any(said.replace("\\", "") in problem for problem in store.problems())
    assert next(backups.check(store)).problem
    store.close()
    refusal(backups.restore, archive(path), path.with_name("new.db"))
    assert not path.with_name("new.db").exists()


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("added", {"data": "no JSON"}), ("added", {"data": '{"labels": "x", "horizon": 1}'}), ("added", {}),
        ("added", {"data": f"{{\"labels\": {2**53}, \"horizon\": 1}}"}),
        ("grown", {"data": "null"}), ("grown", {"data": f"{{\"rounds\": {2**62}}}"}),
        ("noted", {"item": 3, "data": "{}"}), ("noted", {"item": 3, "data": "no JSON"}), ("noted", {"item": 3}),
        ("noted", {"data": '{"text": "no item"}'}), ("tagged", {"item": 3, "data": "{}"}),
        ("marked", {"item": 3, "data": "{}"}), ("marked", {"item": 10**6, "data": '{"wrong": 1, "trains": 1}'}),
        ("undone", {"question": 4}), ("undone", {}), ("answered", {}),
    ],
)  # fmt: skip
def test_events_that_the_store_never_writes_are_found(path, kind, values):
    """`check` reports an event that the store never writes, and continues; a note or tag is only left out. The session
    is still listed; opening it either works as before or raises a ValueError."""
    with closing(Store(path)) as store, store.transaction():
        last = store.events(1)[-1] | {"id": None, "question": None, "label": None, "data": None}
        store._insert("events", last | {"number": 99, "kind": kind} | values)
        store.derive_answers(1)
    with closing(Store(path)) as store:
        assert [1] == [row["id"] for row in store.sessions()]
        said = "remark" if kind in ("noted", "tagged") else "problem"
        assert any(getattr(finding, said) for finding in backups.check(store))
        with suppress(ValueError):
            assert 3 == sum(entry.label is not None for entry in Session(store, 1).history)


def test_values_of_a_wrong_type_are_found(path):
    """`check` reports a text in a numeric column as damage: SQLite never stores one in a STRICT table."""
    change(path, "UPDATE sqlite_master SET sql = replace(sql, ') STRICT', ')') WHERE name = 'datasets'")
    change(path, "UPDATE datasets SET items = 'many', folder = 7")
    change(path, "UPDATE sqlite_master SET sql = sql || ' STRICT' WHERE name = 'datasets'")
    store = Store(path)
    assert any("datasets.items" in problem for problem in store.problems())
    findings = list(backups.check(store))
    assert ["database"] == [finding.part for finding in findings]
    store.close()
    refusal(backups.restore, archive(path), path.with_name("new.db"))


def test_a_table_whose_pages_lead_round_is_refused_before_it_is_read(path):
    """A database with a table whose B-tree repeats one child 300 times on each level (practically endless rows) is not
    restored, and `check` ends."""
    change(path, "PRAGMA journal_mode = DELETE")
    with closing(sqlite3.connect(path)) as known:
        page = known.execute("SELECT rootpage FROM sqlite_master WHERE name = 'removals'").fetchone()[0]
        size = known.execute("PRAGMA page_size").fetchone()[0]
    content = bytearray(path.read_bytes())
    leaf = bytes(content[(page - 1) * size : page * size])
    last = len(content) // size
    levels = 12
    for level in range(levels + 1):  # the root, interior pages behind the end of the file, and the leaf
        number = page if level == 0 else last + level
        if number > last:
            content += bytes(size)
        if level == levels:
            content[(number - 1) * size : number * size] = leaf
            continue
        child, cells = last + level + 1, 300
        node = bytearray(size)
        node[0] = 5
        node[3:5] = cells.to_bytes(2)
        start = size - 6 * cells
        node[5:7] = start.to_bytes(2)
        node[8:12] = child.to_bytes(4)
        for k in range(cells):
            at = start + 6 * k
            node[12 + 2 * k : 14 + 2 * k] = at.to_bytes(2)
            node[at : at + 6] = child.to_bytes(4) + bytes([0x80 | 1, k % 128])
        content[(number - 1) * size : number * size] = node
    content[28:32] = (len(content) // size).to_bytes(4)
    path.write_bytes(content)
    refusal(backups.restore, archive(path), path.with_name("new.db"))
    assert ["database"] == [finding.part for finding in backups.check(Store(path)) if finding.problem]


# Archives


def members(*parts):
    """Return the bytes of a .tar with members (name, content, changed attributes)."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as file:
        for name, content, changes in parts:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            for key, value in changes.items():
                setattr(member, key, value)
            file.addfile(member, io.BytesIO(content))
    return made.getvalue()


ROW = "studio.rows/0123456789abcdef"


@pytest.mark.parametrize(
    "member",
    [
        ("/etc/passwd", b"x", {}),
        *((name, b"x", {}) for name in ("../studio.db", "/studio.db", "studioxdb")),
        *((f"studio.rows/{name}", b"x", {}) for name in ("../y.npy", "../../x", "a/b/y.npy")),
        (f"{ROW}/../../../y.npy", b"x", {}),
        ("studio.rows/0123456789ABCDEF/y.npy", b"x", {}),
        (f"{ROW}/{'y' * 5000}.npy", b"x", {}),
        (f"{ROW}/y.npy\n", b"x", {}),
        *((f"{ROW}/y.npy", b"", {"type": kind, "linkname": "/etc/passwd"}) for kind in map(str.encode, "123456")),
        (f"{ROW}/y.npy", b"x", {"pax_headers": {"GNU.sparse.realsize": str(10**15), "GNU.sparse.map": "0,1"}}),
        (f"{ROW}/y.npy", b"x", {"pax_headers": {"size": str(10**15)}}),
        ("studio.db-wal", b"x", {}),
    ],
    ids=lambda member: ascii(member)[:60],
)  # fmt: skip
def test_an_archive_with_anything_else_is_refused(path, tmp_path, member):
    """A backup archive that also holds a path outside its folders, a link, a device, or a sparse or unknown file is
    refused. No unpacked file is left."""
    hostile = tmp_path / "hostile.tar"
    hostile.write_bytes(members(("studio.db", path.read_bytes(), {}), member))
    before = contents(tmp_path)
    refusal(look, hostile)
    refusal(backups.restore, hostile, tmp_path / "new.db")
    assert before == contents(tmp_path)


def test_an_archive_with_a_hole_larger_than_the_disk_is_refused(tmp_path):
    """An archive whose member claims to be larger than the free disk space is not unpacked."""
    hostile = tmp_path / "hostile.tar"
    member = tarfile.TarInfo("studio.db")
    member.size = 2**42
    hostile.write_bytes(member.tobuf(tarfile.GNU_FORMAT))
    os.truncate(hostile, 2**42 + 1024)
    assert "left on the disk" in refusal(backups.restore, hostile, tmp_path / "new.db")
    assert [hostile] == list(tmp_path.iterdir())


# Sessions of another version


def test_a_session_with_an_unknown_learner_breaks_nothing_else(path, tmp_path):
    """After a restore, all sessions are listed, `check` names the learner, rule or parameter that a session needs and
    this version lacks, and the other sessions continue."""
    with closing(Store(path)) as store:
        other = begin(store)
        for session, values in ((1, {"learner": "later"}), (other.id, {})):
            store.update_session(session, values | {"name": f"session {session}"})
        for k, values in enumerate((
            {"rule": "later"}, {"parameters": json.dumps({"learner": {"later": 1}, "rule": {}})}, {"parameters": "{}"},
        )):  # fmt: skip
            store.update_session(begin(store).id, values | {"name": f"odd {k}"})
    findings, kept = backups.restore(archive(path), tmp_path / "new.db")
    assert kept is None
    said = [finding.problem.split(", which")[0].removesuffix(".") for finding in findings if finding.problem]
    assert said == [
        "session 1 (session 1) needs the learner later",
        "session 3 (odd 0) needs the rule later",
        "session 4 (odd 1) needs the parameter later of the learner pa-i",
        "the parameters of session 5 (odd 2) are damaged",
    ]
    store = Store(tmp_path / "new.db")
    assert 5 == len(store.sessions())
    reply(begin(store), "ann", 1)
