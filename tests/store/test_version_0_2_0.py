"""A database written by version 0.2.0 opens with the same bits."""

import json
import tarfile
from pathlib import Path

import pytest

from oal_engine.sessions.look_back import Trace
from oal_engine.sessions.session import Session
from oal_engine.store import Store

ARCHIVE = Path(__file__).parent / "version_0_2_0.tar.xz"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Eighteen sessions of every kind, with corrections, marks, skips, undos, checks, pacing, classes and growth; and
    the digest, the labels and the rounds streamed of each, as version 0.2.0 saw them."""
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.slow
def test_every_session_of_the_version_before_opens_to_the_same_bits(folder):
    """Each session verifies, has the digest that version 0.2.0 stored, and takes the next answer."""
    store = Store(folder / "studio.db")
    known = json.loads((folder / "digests.json").read_text())
    assert set(map(int, known)) == {row["id"] for row in store.sessions()}
    for session, (digest, labels, streamed) in known.items():
        opened = Session(store, int(session))
        progress = opened.place.progress
        assert (digest, labels, streamed) == (opened.digest(), progress.labels, progress.streamed)
        if opened.place.asked:
            opened.answer(f"next {session}", opened.place.asked.id, next(iter(opened.names)))
        trace = Trace(store, int(session))
        assert trace.report.verified
        assert trace.state.digest() == opened.digest()
    store.close()
