"""Sessions over texts with similar wording (latent columns) are verified in another database, and comparisons run over
such texts, too."""

import io
import json

import pytest

from oal_engine.datasets import Dataset, feeds
from oal_engine.sessions.files import bundle
from oal_engine.sessions.insights import top_terms
from oal_engine.sessions.look_back import verify
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store
from tests.harness.examples import add_topics, topics
from tests.harness.sessions import label_until_the_end, text_of


@pytest.fixture
def store(tmp_path):
    """A database with 200 imported and 40 appended texts, and a session over them that has ended."""
    store = database(tmp_path / "one")
    label_until_the_end(Session(store, create(store, "topics", "PAA-I", budget=40, shuffled=True)))
    return store


def database(folder):
    folder.mkdir()
    store = Store(folder / "studio.db")
    add_topics(store, folder)
    more = folder / "more.jsonl"
    more.write_text("\n".join(json.dumps({"text": text, "label": 1}) for text in topics(240)[200:]))
    assert 40 == sum(taken.appended for taken in feeds.append_file(Dataset(store, "topics"), more))
    return store


def test_another_import_of_the_file_verifies_a_published_session(store, tmp_path):
    other = database(tmp_path / "two")
    session = bundle.adopt(other, io.StringIO(text_of(store, 1)))
    assert verify(other, session).verified


def test_words_that_a_feed_brings_are_learned_and_named(store, tmp_path):
    """A word that occurs only in appended items is learned, and named among the strongest terms of its class."""
    more = tmp_path / "later.jsonl"
    lines = [{"text": text + " zebra" * (k % 2), "label": k % 2} for k, text in enumerate(topics(280)[240:])]
    more.write_text("\n".join(map(json.dumps, lines)))
    assert 40 == sum(taken.appended for taken in feeds.append_file(Dataset(store, "topics"), more))
    session = Session(store, create(store, "topics", "PA-I", budget=280))
    label_until_the_end(session)
    strongest = top_terms.strongest(session.place.weights, 1, 500, latent=session.dataset.latent)
    assert {"zebra", "p:zebra"}.isdisjoint(session.dataset.vocabulary.terms)
    assert "zebra" in [top_terms.term(session, column) for column, _ in strongest]
