"""A database page in the file of a running server is damaged, and a backup restores the session."""

import os
import random
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.sessions import backups, look_back
from oal_engine.sessions.settings import create
from oal_engine.store import Store
from tests.harness import ROOT
from tests.harness.browser import Card, Server, history


@pytest.fixture
def session(tmp_path):
    """The id of a session over some texts, in a database of its own that no process has open."""
    path = tmp_path / "texts.csv"
    path.write_text("id,text,label\n" + "".join(f"i{k},item {k} has words{k % 7},{k % 5 < 1}\n" for k in range(60)))
    with closing(Store(tmp_path / "studio.db")) as store:
        columns = reading.Columns(text=("text",), label="label", id="id")
        return create(store, datasets.import_file(store, path, "texts", columns)[0], learner="pa-i", rule="all")


@pytest.fixture
def server(tmp_path, session):
    """The app over the database of `session`. Afterwards the fixture checks that its log has no traceback."""
    server = Server(tmp_path)
    yield server
    server.kill()
    assert "Traceback" not in server.log.read_text()


def damage(path, table):
    """Overwrite the first database page of a table with noise, as a failing disk might."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = other.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", [table]).fetchone()
    with path.open("r+b") as file:
        file.seek(4096 * (page - 1))
        file.write(random.Random(1).randbytes(4096))


RARE = [pytest.param(table, marks=pytest.mark.rare) for table in ("sessions", "leases")]


@pytest.mark.slow
@pytest.mark.parametrize("table", ["labels", *RARE])
def test_a_damaged_page_is_named_and_a_backup_brings_the_session_back(visit, server, session, table):
    """The damage and the newest backup are named on the card and, after a restart, on the web page; new answers are not
    called saved. After the restore, the open web page continues without a reload, and every answer is stored once."""
    card = Card(visit(server, f"/Label?session={session}&annotator=anna"))
    page, problem = card.page, re.compile(r"studio\.db cannot be used: it is damaged; .*The newest backup is ")
    for key in "ax":
        card.press(key)
        card.saved()
    kept = backups.keep(server.database, datetime.now(UTC) + timedelta(minutes=1))
    damage(server.database, table)
    card.press("a")
    card.says(problem)
    card.says(re.compile(re.escape(f"restore {kept} --db {server.database} --force")))
    card.tap("x")
    expect(card.root).to_have_attribute("data-unsaved", "2")
    card.says(problem)
    server.kill()
    server.start()
    page.get_by_text(problem).first.wait_for()
    expect(page.get_by_test_id("stException")).to_have_count(0)
    server.kill()
    subprocess.run(
        [sys.executable, "-m", "oal_engine", "restore", str(kept), "--db", str(server.database), "--force"],
        cwd=ROOT, env=os.environ, check=True, capture_output=True,
    )  # fmt: skip
    server.start()
    card.saved()
    card.says("Saved")
    expect(card("text")).to_contain_text("item 4 ")
    with closing(Store(server.database)) as store:
        assert [("i0", 1, True), ("i1", -1, True), ("i2", 1, True), ("i3", -1, True)] == history(store, session)
        assert look_back.verify(store, session).verified
