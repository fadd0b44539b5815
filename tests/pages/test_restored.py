"""What pages say of a restored database, and of its backups."""

from datetime import UTC, datetime, timedelta

import pytest

from oal_engine.sessions import backups
from tests.harness.pages import run, words
from ui import access

pytestmark = pytest.mark.slow


def test_a_session_with_an_unknown_learner_leaves_all_pages_working(store, work):
    """Home lists it with what it needs, its own pages say so in a sentence, and every other session opens."""
    broken, other = work(3).session, work(3, dataset="texts").session
    store.update_session(broken.id, {"learner": "later", "name": "restored"})
    said = "needs the learner later, which OAL Studio"
    assert said in words(run("home.py"))
    for page in ("pages/1_Label.py", "pages/3_Replay.py"):
        at = run(page, session=broken.id)
        assert not at.exception
        assert f"session {broken.id} (restored) {said}" in words(at)
        at = run(page, session=other.id)
        assert not at.exception
        assert said not in words(at)
    for page in ("pages/2_Compare.py", "pages/4_Data.py"):
        assert not run(page, session=broken.id).exception


def test_home_says_how_old_the_newest_backup_is(store, work, monkeypatch):
    """Who owns the studio is told, others are not, nor is anybody where the server keeps none."""
    work(3)
    assert "The server has kept no backup yet." in words(run("home.py"))
    backups.keep(store.path, datetime.now(UTC) - timedelta(days=3))
    assert "The newest backup is 3 days old." in words(run("home.py"))
    monkeypatch.setenv("OAL_BACKUPS", "0")
    assert "newest backup" not in words(run("home.py"))
    monkeypatch.delenv("OAL_BACKUPS")
    monkeypatch.setattr(access, "standing", lambda _: access.Standing(enters=True, mail="ben@example.org"))
    assert "newest backup" not in words(run("home.py"))
