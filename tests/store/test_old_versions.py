"""Databases and published sessions of earlier versions open with the same bits.

An archive in `versions/` holds a database as its version wrote it, with a session of every kind, what the version
published, and `expected.json`: what each session must show, and the fingerprints of the data sets. That of 1.0.0 has
the model of its first session, too.
"""

import hashlib
import io
import json
import sqlite3
from contextlib import closing

import pytest

from oal_engine import load_model
from oal_engine.datasets import Dataset
from oal_engine.sessions import backups
from oal_engine.sessions.files import bundle
from oal_engine.sessions.look_back import Trace
from oal_engine.sessions.model import of_session
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SKIP
from oal_engine.store import Store
from tests.harness.sessions import erase, text_of
from tests.harness.tables import unpacked

VERSIONS = "0_3_0", "1_0_0"
FIELDS = ("number", "item", "label", "first", "annotator", "answered_at", "seconds")

pytestmark = pytest.mark.slow


@pytest.fixture(params=VERSIONS)
def store(request, tmp_path):
    """The database of a version, with `expected.json` and the folder `published` next to it."""
    store = Store(unpacked(request.param, tmp_path))
    yield store
    store.close()


def expected(store):
    return json.loads((store.path.parent / "expected.json").read_text())


def contents(store, session):
    """Return everything that a session shows, as plain JSON values: its settings, its log, the digest of its state now,
    and a hash of its states at all questions."""
    opened, trace = Session(store, session), Trace(store, session)
    assert trace.report.verified
    progress, numbers = opened.place.progress, {entry.id: entry.number for entry in opened.log}
    states = "".join(trace._after(number).digest() for number in range(len(trace.log)))
    found = {
        "settings": {
            name: value for name, value in store.session(session).items() if name not in ("log_version", "goal")
        },
        "digest": opened.digest(), "states": hashlib.sha256(states.encode()).hexdigest(),
        "digests": trace.report.digests, "answers": trace.report.answers,
        "streamed": progress.streamed, "budget": progress.budget,
        "log": [[getattr(entry, name) for name in FIELDS] for entry in opened.log],
        "notes": opened.notes, "tags": opened.tags, "marks": opened.marks,
        "opinions": [
            [numbers.get(row["question"]), row["item"], row["label"], row["annotator"], row["kind"]]
            for row in store.opinions(session)
        ],
        "known": {item: row["label"] for item, row in opened.known_labels.items()},
    }  # fmt: skip
    return json.loads(json.dumps(found))


def test_a_database_of_an_earlier_version_is_sound(store):
    """Its file, rows and sessions pass `check`; its data sets and its comparison are as that version stored them."""
    known = expected(store)
    assert [] == [str(finding) for finding in backups.check(store) if finding.problem]
    for row in store.datasets():
        found = bundle.fingerprint(Dataset(store, row["id"]))
        assert known["datasets"][row["name"]] == {key: found[key] for key in known["datasets"][row["name"]]}
    assert known["comparisons"] == {row["name"]: store.comparison(row["name"])["lines"] for row in store.comparisons()}


def test_every_session_of_an_earlier_version_opens_to_the_same_bits(store):
    """Each session verifies, shows the same settings, log and states, publishes the same lines, and takes the next
    answer."""
    known = expected(store)["sessions"]
    assert {*known} == {str(row["id"]) for row in store.sessions()}
    for session, content in known.items():
        assert content == contents(store, int(session))
        old = (store.path.parent / "published" / f"{session}.jsonl").read_text().splitlines()
        new = text_of(store, int(session)).splitlines()
        assert json.loads(old[0])["settings"] == json.loads(new[0])["settings"]
        assert old[1:] == new[1:]
        opened = Session(store, int(session))
        if held := opened.held("somebody new"):
            label = SKIP if opened.several else next(iter(opened.names))
            opened.answer(f"next {session}", held[0].id, label, "somebody new")
            assert Trace(store, opened.id).report.verified


def test_every_published_session_of_an_earlier_version_is_adopted(store):
    for session, content in expected(store)["sessions"].items():
        erase(store, int(session))
        text = (store.path.parent / "published" / f"{session}.jsonl").read_text()
        adopted = bundle.adopt(store, io.StringIO(text))
        own = {
            "id": adopted,
            "owner": "",
            "guidelines": "",
            "feedback_trains": 0,
            "dataset_name": None,
            "dataset": None,
        }
        found = contents(store, adopted)
        if content["settings"]["rule"] == "paced":  # parameters that came later have values that change nothing
            content["settings"]["parameters"]["rule"] |= {"power": 2}
        assert content | {"settings": content["settings"] | own} == found | {"settings": found["settings"] | own}


@pytest.mark.parametrize("store", ["1_0_0"], indirect=True)
def test_a_model_of_1_0_predicts_the_same(store):
    session = Session(store, 1)
    texts = [session.dataset.item(item)["text"] for item in range(len(session.dataset.y))]
    now, then = of_session(session), load_model(store.path.parent / "model.json.gz")
    assert now.decision_function(texts).tolist() == then.decision_function(texts).tolist()


def test_a_session_whose_name_has_u_0000_is_published(tmp_path):
    """0.3.0 took U+0000 in the name of a session: it is replaced by U+FFFD, so that the session can be published."""
    path = unpacked("0_3_0", tmp_path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE sessions SET name = ? WHERE id = 1", ["a\0b"])
    with closing(Store(path)) as store:
        assert "a\ufffdb" == json.loads(text_of(store, 1).splitlines()[0])["settings"]["name"]
