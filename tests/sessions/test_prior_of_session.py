"""A session that begins with prior knowledge: stored, rebuilt, published, and not counted as labels."""

import io
import json

import numpy as np
import pytest

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.kernel.algorithms import strategy
from oal_engine.kernel.learners import weights
from oal_engine.output.jsonlines import JsonLinesError
from oal_engine.sessions.files import report
from oal_engine.sessions.files.bundle import adopt
from oal_engine.sessions.insights import estimates
from oal_engine.sessions.look_back import Trace, verify, what_if
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SessionError
from oal_engine.store import Store
from tests.harness.sessions import begin, erase, label_truly, take_back, text_of

KNOWN = {"seed_words": ["gym", "swim"], "seed_items": ["i5"], "seed_texts": ["a gym of word1"]}


def database(path):
    """A database with 240 texts, every fifth about the gym."""
    store, y = Store(path), np.where(np.arange(240) % 5, -1, 1).astype(np.int8)
    texts = [f"{'gym' if label > 0 else 'cat'} word{k % 7} word{k % 11}" for k, label in enumerate(y)]
    items = reading.Items([f"i{k}" for k in range(240)], texts, None, [], ["word"] * 240, y, {})
    datasets.add(store, "texts", datasets.table(items), "texts.csv")
    return store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return database(tmp_path_factory.mktemp("prior") / "studio.db")


def answered(store, answers=12, **more):
    """Return a session with prior knowledge, after some answers and an undo."""
    opened = begin(store, "texts", **KNOWN | more)
    label_truly(opened, answers)
    take_back(opened)
    return opened


@pytest.mark.parametrize("algorithm", ["PAA-I", "auto", "D-ADA"])
def test_the_learner_begins_with_what_is_known(store, algorithm):
    """The first question is decided with the weights that are stored, and nothing is counted as a label."""
    opened = begin(store, "texts", algorithm, **KNOWN)
    stored = store.prior_weights(opened.id)
    assert stored == {j: value for j, value in enumerate(weights(opened.learner).tolist()) if value}
    plain = begin(store, "texts", algorithm)
    assert plain.prior == {}
    first = [(each.place.asked.round, each.place.asked.margin) for each in (plain, opened)]
    assert (0, 0.0) == first[0] != first[1]
    progress = opened.place.progress
    assert (0, 40, 0) == (progress.labels, progress.left, estimates.of_session(opened).positives)
    assert not opened.state.only().objective.seen.any()


def test_a_session_is_rebuilt_with_what_it_began_with(store):
    """A session that is opened again, undone and corrected has the same bits, and verifies."""
    opened = answered(store)
    again = Session(store, opened.id)
    assert opened.digest() == again.digest()
    first = opened.log[0]
    opened.correct("correction", first.id, -first.label)
    assert opened.digest() == Session(store, opened.id).digest()
    assert verify(store, opened.id).verified
    known = {"words": ["gym"], "items": ["i5"], "texts": ["a gym of word1"]}
    assert known | {"model": None, "scores": 0, "unknown": ["swim"]} == again.settings.prior


def test_a_published_session_brings_what_it_began_with(store, tmp_path):
    """A published session verifies in another database, and a weight of a column that is not there is refused."""
    opened, there = answered(store), database(tmp_path / "studio.db")
    text = text_of(store, opened.id)
    session = adopt(there, io.StringIO(text))
    assert verify(there, session).verified
    assert text == text_of(there, session)
    erase(there, session)
    assert {} == there.prior_weights(session)
    head, *rest = text.splitlines()
    broken = json.loads(head)
    broken["settings"]["prior"]["weights"][0][0] = 10**6
    with pytest.raises(JsonLinesError, match="must have columns below"):
        adopt(there, io.StringIO("\n".join([json.dumps(broken), *rest])))
    assert [] == there.sessions()


def test_another_algorithm_begins_with_the_same(store):
    """What-if runs the other algorithm from the same weights as the session."""
    trace = Trace(store, answered(store).id)
    other = what_if(trace, strategy("OAAL"))
    assert trace.prior == other.run.prior
    assert weights(trace.start().only().learner).tolist() == weights(other.run.start().only().learner).tolist()


def test_the_report_says_what_a_session_began_with(store):
    """The report names the words and items, and the words that no item has."""
    page = report.page(answered(store)).decode()
    assert "The model began with the word gym and the item i5 and 1 example text. Not in the data: swim." in page


def test_several_classes_have_no_seeds(store):
    """Seeds point to one class: a session of several refuses them."""
    with pytest.raises(SessionError, match="seed words, items and texts are for"):
        begin(store, "texts", "MPAA-I", classes=["a", "b"], seed_words=["gym"])
