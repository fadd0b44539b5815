"""Prior knowledge of a session (seed words, items, texts) is stored, rebuilt, published, and not counted as labels."""

import io
import json
import re

import numpy as np
import pytest

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.datasets.prior import described
from oal_engine.datasets.reading.sources import DataError
from oal_engine.kernel.learners import weights
from oal_engine.output.jsonlines import JsonLinesError
from oal_engine.sessions.files import methods, report
from oal_engine.sessions.files.bundle import adopt
from oal_engine.sessions.one_question import OneQuestion
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SessionError
from oal_engine.store import Store
from tests.harness.sessions import begin, take_back, text_of

KNOWN = {"seed_words": ["gym", "swim"], "seed_items": ["i5"], "seed_texts": ["a gym of word1"]}


def database(path):
    """Create a database with 240 texts, every fifth of which is about the gym."""
    store, y = Store(path), np.where(np.arange(240) % 5, -1, 1).astype(np.int8)
    texts = [f"{'gym' if label > 0 else 'cat'} word{k % 7} word{k % 11}" for k, label in enumerate(y)]
    items = reading.Items([f"i{k}" for k in range(240)], texts, None, [], ["word"] * 240, y, {})
    datasets.add(store, "texts", datasets.table(items), "texts.csv")
    return store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return database(tmp_path_factory.mktemp("prior") / "studio.db")


QUESTIONS = [{"name": "gym"} | KNOWN, "even", {"name": "cat", "parent": "even", "seed_items": ["i4"]}]


def of_several(store, answers=0, **more):
    """Return a session that asks three questions, two of them with prior knowledge, after some answers and an undo."""
    opened = begin(store, "texts", "auto", **{"questions": QUESTIONS} | more)
    for number in range(answers):
        asked = opened.current
        even = 1 - 2 * (asked.item % 2)
        labels = [-1 if asked.item % 5 else 1, even, even if number % 3 else -1, *[even] * (len(asked.parts) - 3)]
        opened.answer(f"{opened.id} {opened.state.number} {number}", asked.id, labels)
    if answers:
        take_back(opened)
    return opened


def test_each_of_several_questions_begins_with_what_is_known_of_it(store):
    """The learner of a question begins with exactly the weights of its own seed words, items and texts, as in a session
    of this question alone. A question without seeds begins with zeros, and no label is counted."""
    opened = of_several(store)
    own = [weights(part.learner).tolist() for part in opened.start().parts]
    assert own[0] == weights(begin(store, "texts", "auto", **KNOWN).start().only().learner).tolist()
    assert own[2] == weights(begin(store, "texts", "auto", seed_items=["i4"]).start().only().learner).tolist()
    assert not any(own[1])
    assert (0, None) == (opened.place.progress.labels, opened.settings.prior)
    one = OneQuestion(opened, "gym")
    assert own[0] == weights(one.start().only().learner).tolist()
    assert "The model began with the word gym and the item i5" in described(one.settings.prior)


def test_an_added_question_begins_with_what_is_known_of_it(store):
    opened = of_several(store, 8)
    opened.add_question(f"{opened.id} later", "late", "Comes later.", seed_words=["word3"], annotator="anna")
    fresh = weights(opened.state.parts[3].learner).tolist()
    assert fresh == weights(begin(store, "texts", "auto", seed_words=["word3"]).start().only().learner).tolist()
    assert [0, 2, 3] == [*opened.priors]


def test_what_a_question_began_with_is_checked_in_a_published_session(store, tmp_path):
    """A file with prior weights for a question or a column that the session does not have is refused."""
    opened, there = of_several(store, 2), database(tmp_path / "studio.db")
    lines = text_of(store, opened.id).splitlines()
    places = [k for k, line in enumerate(lines) if "part" in json.loads(line)]
    assert (2, 2) == (len(places), json.loads(lines[-1])["priors"])
    first = json.loads(lines[places[0]])
    wrong = [
        ({"part": 2}, "or without the question"),
        ({"part": 3}, "or without the question"),
        ({"weights": [[10**6, 1.0]]}, "must have columns below"),
        ({"words": "gym"}, "invalid value for words"),
    ]
    for changes, reason in wrong:
        lines[places[0]] = json.dumps(first | changes)
        with pytest.raises(JsonLinesError, match=reason):
            adopt(there, io.StringIO("\n".join(lines)))
    assert [] == there.sessions()
    assert '"priors"' not in text_of(store, of_several(store, questions=["a", "b"]).id)


@pytest.mark.parametrize(("seeds", "reason"), [
    ({"seed_words": ["zebra"]}, "seed words must occur in the data. Got zebra."),
    ({"seed_items": ["i999"]}, "seed items must be existing item ids. Got i999."),
    ({"seed_words": "gym"}, "seed_words of a question must be a list of texts. Got gym."),
    ({"seed_texts": [3]}, "seed_texts of a question must be a list of texts. Got [3]."),
    ({"prior": {"words": ["gym"]}}, "prior of a question must be made by make_prior. Got {'words': ['gym']}."),
    ({"seed": 3}, "a question has a name, seed_words, seed_items, seed_texts, guidelines and a parent. Got seed."),
])  # fmt: skip
def test_wrong_seeds_of_a_question_are_refused(store, seeds, reason):
    """Invalid seeds of a question are refused, in a new session or when a question is added, and nothing is stored."""
    opened, before = of_several(store), len(store.sessions())
    questions = opened.settings.questions
    for attempt in (
        lambda: of_several(store, questions=["a", {"name": "b"} | seeds]),
        lambda: opened.add_question("wrong", "late", **seeds),
    ):
        with pytest.raises((SessionError, DataError), match=re.escape(reason)):
            attempt()
    assert (before, questions) == (len(store.sessions()), Session(store, opened.id).settings.questions)


def test_the_report_says_what_each_question_began_with(store):
    """The report and the text for a methods section name the seed words and items of each question."""
    opened = of_several(store, 12)
    for words in (report.page(opened).decode(), methods.markdown(opened)):
        assert (
            "gym: The model began with the word gym and the item i5 and 1 example text. Not in the data: swim." in words
        )
        assert "cat: The model began with the item i4." in words
