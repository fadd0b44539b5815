"""Notes and tags are read from the log incrementally."""

from oal_engine.sessions.remarks import Remarks
from tests.harness.sessions import begin, label_truly


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
    before = remarks.notes
    assert ({3: "first"}, {3: ["late"]}) == (before, remarks.tags)
    opened.tag("t2", 3, "odd", True)
    opened.tag("t3", 3, "late", False)
    opened.note("n3", 3, "")
    opened.note("n4", 4, "second")
    read.clear()
    assert ({4: "second"}, {3: ["odd"]}) == (remarks.notes, remarks.tags)
    assert {3: "first"} == before
    assert [4, 0] == [rows for rows, _ in read]
    assert all("events_kind (session=? AND kind=? AND number>?)" in plan[0] for _, plan in read)
