"""Databases and published sessions of earlier versions open with the same bits."""

import hashlib
import json
import sqlite3
import subprocess
import sys
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from oal_engine.sessions.files.bundle import adopt
from oal_engine.sessions.look_back import Trace
from oal_engine.sessions.session import Session
from oal_engine.store import Store
from tests.harness import ROOT
from tests.harness.sessions import erase

ARCHIVES = Path(__file__).parent / "versions"


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """A function that unpacks and opens the database of a version, by the version's name, and returns its store."""
    stores = {}

    def open_database(version):
        if version not in stores:
            with tarfile.open(ARCHIVES / f"{version}.tar.xz") as archive:
                archive.extractall(folder := tmp_path_factory.mktemp("old"), filter="data")
            stores[version] = Store(folder / "studio.db")
        return stores[version]

    yield open_database
    for store in stores.values():
        store.close()


def known(store, name):
    """Read a JSON file next to the database. Return {session: values that the old version stored for it}."""
    return {int(session): each for session, each in json.loads((store.path.parent / name).read_text()).items()}


def contents(store, session):
    """Return everything that the log of a session says, as plain JSON values."""
    opened = Session(store, session)
    trace, progress = Trace(store, session), opened.place.progress
    assert trace.report.verified
    numbers = {entry.id: entry.number for entry in opened.log}
    states = "".join(trace._after(number).digest() for number in range(len(trace.log)))
    found = {
        "digest": opened.digest(), "labels": opened.labels, "streamed": progress.streamed, "budget": progress.budget,
        "skipped": progress.skipped, "digests": trace.report.digests, "answers": trace.report.answers,
        "log": [[getattr(entry, name) for name in FIELDS] for entry in opened.log],
        "states": hashlib.sha256(states.encode()).hexdigest(),
        "notes": opened.notes, "tags": opened.tags, "marks": opened.marks,
        "opinions": [
            [numbers.get(row["question"]), row["item"], row["label"], row["annotator"], row["kind"]]
            for row in store.opinions(session)
        ],
        "questions": len(opened.log), "previous": numbers.get(opened.previous), "together": opened.is_shared,
    }  # fmt: skip
    return json.loads(json.dumps(found))


KILLED = """
import os, sys
from itertools import count
from oal_engine.store import migrations
from oal_engine.store import Store

events, done = migrations.OldLog.events, count()
migrations.OldLog.events = lambda log: os._exit(9) if next(done) == 20 else events(log)
Store(sys.argv[1])
"""
FIELDS = ("number", "item", "label", "first", "annotator", "answered_at", "seconds")


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0_1_0", "0_2_0"])
def test_every_session_of_a_released_version_opens_to_the_same_bits(opened, version):
    """Each session of a released version verifies, has the digest stored by that version, and takes the next answer."""
    store = opened(version)
    digests = known(store, "digests.json")
    assert digests.keys() == {row["id"] for row in store.sessions()}
    for session, (digest, labels, streamed) in digests.items():
        again = Session(store, session)
        progress = again.place.progress
        assert digest == again.digest()
        assert labels == (again.labels if isinstance(labels, list) else progress.labels)
        assert streamed in (0, progress.streamed)
        if again.place.asked:
            again.answer(f"next {session}", again.place.asked.id, next(iter(again.names)))
        trace = Trace(store, session)
        assert trace.report.verified
        assert trace.state.digest() == again.digest()


@pytest.mark.slow
def test_every_session_from_before_the_table_of_events_has_the_same_contents(opened):
    """Each of 36 random sessions (of one person or several) opens with the same log, notes, tags, marks, opinions
    (second, repeated and late answers), and the same state at every question. It takes the next answer."""
    store = opened("before_events")
    for session, expected in known(store, "known.json").items():
        assert expected == contents(store, session)
        again = Session(store, session)
        if held := again.held("somebody new"):
            again.answer(f"next {session}", held[0].id, next(iter(again.names)), "somebody new")
        if again.previous and again.previous_of("somebody new") == again.previous:
            again.undo(f"undo {session}", again.previous, "somebody new")
        assert Trace(store, session).report.verified


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0_2_0", "before_events"])
def test_every_published_session_of_an_earlier_version_is_adopted(opened, version):
    """A session that an earlier version published is adopted and verifies, with as many digests as its file says."""
    store = opened(version)
    for path in sorted((store.path.parent / "published").iterdir()):
        erase(store, int(path.stem))
        with path.open() as file:
            report = Trace(store, adopt(store, file)).report
        assert report.verified
        end = json.loads(path.read_text().splitlines()[-1])
        assert (report.digests, report.questions > 0) == (end["digests"], True)


@pytest.mark.slow
def test_a_database_whose_migration_was_killed_opens_as_before(tmp_path):
    """If a process dies while it converts the 21st session to events, the database stays unchanged, and the next
    process completes the migration."""
    with tarfile.open(ARCHIVES / "before_events.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    assert 9 == subprocess.run([sys.executable, "-c", KILLED, tmp_path / "studio.db"], cwd=ROOT).returncode
    with closing(sqlite3.connect(tmp_path / "studio.db")) as left:
        assert left.execute("SELECT count(*) FROM shared").fetchone()[0]
    with closing(Store(tmp_path / "studio.db")) as store:
        assert store.problems() == []
        expected = known(store, "known.json")
        for session in (1, 25, 36):
            assert expected[session] == contents(store, session)
