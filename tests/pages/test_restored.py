"""The pages of a restored database, and the age of its backups."""

from datetime import UTC, datetime, timedelta

import pytest

from oal_engine.sessions import backups
from tests.harness.pages import run, words
from ui import access


@pytest.mark.slow
def test_a_session_with_an_unknown_learner_leaves_all_pages_working(store, work):
    """If a session needs an unknown learner, Home, Label and Replay say so. Other pages and sessions open as usual."""
    broken, other = work(3).session, work(3, dataset="texts").session
    store.update_session(broken.id, {"learner": "later", "name": "restored"})
    said = "needs the learner later, which OAL Studio"
    assert said in words(run("home.py"))
    for page in ("pages/1_Label.py", "pages/3_Replay.py"):
        at = run(page, session=broken.id)
        assert f"session {broken.id} (restored) {said}" in words(at)
        at = run(page, session=other.id)
        assert said not in words(at)
    for page in ("pages/2_Compare.py", "pages/4_Data.py"):
        assert not run(page, session=broken.id).exception


@pytest.mark.slow
def test_a_page_says_how_old_the_newest_backup_is(store, work, monkeypatch):
    """Only owners of the studio see the age of the newest backup on Data, and on Home why the last one failed, if the
    server keeps any."""
    work(3)
    assert "The server has kept no backup yet." in words(run("pages/4_Data.py"))
    backups.keep(store.path, datetime.now(UTC) - timedelta(days=3))
    assert "The newest backup is 3 days old." in words(run("pages/4_Data.py"))
    monkeypatch.setitem(backups._failures, store.path, "The disk is full.")
    assert "The last backup failed. The disk is full." in words(run("home.py"))
    monkeypatch.setenv("OAL_BACKUPS", "0")
    assert "newest backup" not in words(run("pages/4_Data.py"))
    monkeypatch.delenv("OAL_BACKUPS")
    monkeypatch.setattr(access, "standing", lambda _: access.Standing(enters=True, mail="ben@example.org"))
    assert "newest backup" not in words(run("pages/4_Data.py"))
