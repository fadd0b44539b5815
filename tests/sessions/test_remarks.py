"""Notes and tags are read from the log incrementally, and those that cannot be read close no session."""

import json

import pytest

from oal_engine.sessions import backups
from oal_engine.sessions.log import Remarks
from oal_engine.sessions.look_back import verify
from oal_engine.sessions.session import Session
from oal_engine.store import Store
from tests.harness.sessions import begin, database, label_truly, travelled


def test_only_new_events_are_read_for_each_answer(store, monkeypatch):
    """However long the log is, each read uses a database index to fetch only the notes and tags added since the last
    read."""
    opened, read = begin(store, tags=["odd", "late"]), []
    remarks, query = Remarks(store, opened.id), store.query

    def watched(statement, *values):
        rows = query(statement, *values)
        read.append((len(rows), [row["detail"] for row in query(f"EXPLAIN QUERY PLAN {statement}", *values)]))
        return rows

    label_truly(opened, 20)
    opened.note("n1", 3, "first")
    opened.note("n2", 5, "")
    opened.tag("t1", 3, "late", True)
    monkeypatch.setattr(store, "query", watched)
    before = remarks.read()
    assert ({3: "first"}, {3: ["late"]}) == before
    opened.tag("t2", 3, "odd", True)
    opened.tag("t3", 3, "late", False)
    opened.note("n3", 3, "")
    opened.note("n4", 4, "second")
    read.clear()
    assert ({4: "second"}, {3: ["odd"]}) == remarks.read()
    assert ({3: "first"}, {3: ["late"]}) == before
    assert [4] == [rows for rows, _ in read]
    assert all("events_kind (session=? AND kind=? AND number>?)" in plan[0] for _, plan in read)


@pytest.mark.parametrize(("kind", "data", "problem"), [
    ("noted", json.dumps({"text": "look\0again"}), "text cannot have the character U+0000"),
    ("noted", json.dumps({"text": "\ud800"}), "text cannot have the character U+D800"),
    ("noted", json.dumps({"text": None}), "text cannot be None"), ("noted", "{", "text cannot be None"),
    ("tagged", json.dumps({"tag": "a\0b", "given": 1}), "tag cannot have the character U+0000"),
    ("tagged", json.dumps({"tag": "t" * 99, "given": 1}), "tag cannot have 99 characters"),
    ("tagged", None, "tag cannot be None"),
])  # fmt: skip
def test_a_note_that_cannot_be_read_closes_no_session(tmp_path, command, kind, data, problem):
    """A session with a note or tag that an older version stored and that cannot be read opens, verifies, is backed up,
    published and adopted without it; `check` and `verify` name it."""
    here, there = database(tmp_path / "here.db", "sparse"), database(tmp_path / "there.db", "sparse")
    opened = begin(here, tags=["odd"], budget=60, learner="pa-i", rule="all", algorithm=None)
    label_truly(opened, 60)  # with a digest that comes after the note
    opened.note("n", 0, "kept")
    opened.tag("t", 0, "odd", True)
    digest, number = opened.digest(), here.events(opened.id)[-1]["number"]
    with here.transaction():
        here.db.execute("UPDATE events SET number = number + 1 - 1000 WHERE number > 1 AND session = ?", [opened.id])
        here.db.execute("UPDATE events SET number = number + 1000 WHERE number < 1 AND session = ?", [opened.id])
        here.db.execute("UPDATE digests SET number = number + 1 WHERE session = ?", [opened.id])
        own = [opened.id, kind, here.events(opened.id)[0]["at"], data]
        here.db.execute(
            "INSERT INTO events (session, number, kind, at, annotator, item, data) VALUES (?, 2, ?, ?, '', 0, ?)", own
        )
        here.derive_answers(opened.id)
    again = Session(here, opened.id)
    assert (digest, {0: "kept"}, {0: ["odd"]}) == (again.digest(), again.notes, again.tags)
    left_out = f"Notes and tags that cannot be read are left out (event 2: {problem})."
    report = verify(here, opened.id)
    assert (True, left_out) == (report.verified, report.unreadable)
    assert str(report).endswith(left_out)
    code, out, _ = command("check", "--db", here.path)
    assert (0, True) == (code, f"session {opened.id} (sparse): sound; {left_out}" in out.splitlines())
    backups.backup(here, tmp_path / "backup.tar")
    backups.restore(tmp_path / "backup.tar", tmp_path / "restored.db")
    other = travelled(Store(tmp_path / "restored.db"), opened.id, there)
    assert (digest, {0: "kept"}, {0: ["odd"]}, number) == (
        other.digest(), other.notes, other.tags, there.events(other.id)[-1]["number"],
    )  # fmt: skip
    assert verify(there, other.id).unreadable is None
