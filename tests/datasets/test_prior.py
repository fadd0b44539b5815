"""Prior knowledge becomes one vector of weights over the columns of a data set."""

import numpy as np
import pytest

from oal_engine import datasets
from oal_engine.datasets import prior, reading
from oal_engine.datasets.reading.sources import DataError
from oal_engine.kernel import rows as kernel_rows
from oal_engine.store import Store

TEXTS = ["the gym opens", "the dog runs in the gym", "the dog barks", "a cat and a dog", "the cat opens the gym"]


@pytest.fixture(params=["table", "stored"])
def data(request, tmp_path):
    """Five texts, first as a table that is not stored and then as a stored data set."""
    ids, y = [f"i{k}" for k in range(5)], np.array([1, 1, -1, -1, -1], np.int8)
    made = datasets.table(reading.Items(ids, TEXTS, None, [], ["word"] * 5, y, {}), tokenizer="words")
    if request.param == "table":
        return made
    store = Store(tmp_path / "studio.db")
    return datasets.Dataset(store, datasets.add(store, "texts", made, "texts.csv"))


@pytest.fixture
def vectors():
    """Three items of two columns."""
    X = np.array([[3.0, 4.0], [0.0, 2.0], [-1.0, 0.0]])
    return datasets.table(reading.Items(["a", "b", "c"], None, X, ["x", "y"], ["word"] * 3, np.ones(3, np.int8), {}))


def by_term(data, known):
    return {data.vocabulary.terms[column]: weight for column, weight in known.weights.items()}


def test_each_word_counts_the_same(data):
    """Seed words get equal prior weights, however rare they are. The weight vector has the length TRUST["words"]."""
    known = prior.make_prior(data, [" gym ", "Cat", "gym", ""])
    assert ("gym", "Cat") == known.words
    assert by_term(data, known) == pytest.approx(dict.fromkeys(["gym", "cat"], prior.TRUST["words"] / np.sqrt(2)))


def test_words_that_no_item_has_are_named(data):
    """Unknown seed words are listed apart from known ones. If no word is known, the error names all of them."""
    known = prior.make_prior(data, ["gym", "swim", "run"])
    assert (("gym",), ("swim", "run")) == (known.words, known.unknown)
    assert "The model began with the word gym. Not in the data: swim, run." == prior.described(known.source)
    with pytest.raises(DataError, match=r"^seed words must occur in the data\. Got swim, run\.$"):
        prior.make_prior(data, ["swim", "run"])


def test_example_texts_weigh_as_items_do(data):
    text = "gym cat"
    known = prior.make_prior(data, texts=[TEXTS[1], text, f" {text} "])
    assert known.texts == (TEXTS[1], text)
    assert prior.make_prior(data, texts=[TEXTS[1]]).weights == pytest.approx(
        prior.make_prior(data, items=["i1"]).weights
    )
    assert "The model began with 2 example texts." == prior.described(known.source)
    with pytest.raises(DataError, match=r"^example texts must share a word with the data\. Got so be it\.$"):
        prior.make_prior(data, texts=["so be it"])


def test_items_bring_their_rows(data):
    """The prior weights are the seed item's row, or the mean of several seed items' rows, scaled to the length
    TRUST["items"]."""
    row = kernel_rows.nonzero(data.rows, 1)
    assert dict(zip(*row)) == pytest.approx(
        {
            column: weight / prior.TRUST["items"]
            for column, weight in prior.make_prior(data, items=["i1"]).weights.items()
        }
    )
    both = prior.make_prior(data, items=["i1", "i3", "i1"])
    assert ("i1", "i3") == both.items
    assert prior.TRUST["items"] == pytest.approx(np.linalg.norm([*both.weights.values()]))
    with pytest.raises(DataError, match=r"^seed items must be existing item ids\. Got i9, j\.$"):
        prior.make_prior(data, items=["i1", "i9", "j"])


def test_a_model_brings_the_weights_of_its_features(data, monkeypatch):
    """A prior copies a model's weights for features of the same names, at most the MAX_WEIGHTS largest."""
    names = {"gym": 2.0, "cat": -1.0, "swim": 9.0}
    assert {"gym": 2.0, "cat": -1.0} == by_term(data, prior.make_prior(data, model=("sports", names)))
    monkeypatch.setattr(prior, "MAX_WEIGHTS", 1)
    assert {"gym"} == by_term(data, prior.make_prior(data, model=("sports", names))).keys()
    with pytest.raises(DataError, match=r"^the model of sports has no feature that the data has\.$"):
        prior.make_prior(data, model=("sports", {"swim": 9.0}))


def test_scores_bring_the_rows_that_have_high_ones(data):
    """Prior weights from scores: each row is multiplied by (its score - the mean score), and the sum of the rows is
    scaled to the length TRUST["scores"]."""
    known = prior.make_prior(data, scores={"i0": 0.9, "i2": 0.1, "i3": 0.2})
    rows = kernel_rows.matrix(data.rows).toarray()
    wanted = 0.5 * rows[0] - 0.3 * rows[2] - 0.2 * rows[3]
    wanted *= prior.TRUST["scores"] / np.linalg.norm(wanted)
    assert {j: value for j, value in enumerate(wanted) if value} == pytest.approx(known.weights)
    assert "The model began with scores of 3 items." == prior.described(known.source)
    with pytest.raises(DataError, match=r"^seed scores must be by existing item ids\. Got i9\.$"):
        prior.make_prior(data, scores={"i0": 0.9, "i9": 0.1})


def test_words_and_items_add_up(data):
    words, items = (prior.make_prior(data, **known).weights for known in ({"words": ["cat"]}, {"items": ["i2"]}))
    sums = {column: words.get(column, 0) + items.get(column, 0) for column in words | items}
    assert sums == pytest.approx(prior.make_prior(data, ["cat"], ["i2"]).weights)


@pytest.mark.parametrize(
    "known",
    [
        {"words": ["gym"]},
        {"items": ["i0"]},
        {"model": ("sports", {"gym": 1.0})},
        {"scores": {f"i{k}": float(k % 4 == 0) for k in range(40)}},
    ],
    ids=lambda known: next(iter(known)),
)
def test_what_is_known_fits_the_usual_features(known):
    """If texts have the default features, items that resemble the seeds have a higher margin than others."""
    texts = [f"{'gym workout' if k % 4 == 0 else 'cat dog'} day{k % 3} town{k % 5}" for k in range(40)]
    items = reading.Items([f"i{k}" for k in range(40)], texts, None, [], ["word"] * 40, np.ones(40, np.int8), {})
    made = datasets.table(items)
    weights = prior.make_prior(made, **known).weights
    first, second = (
        sum(weights.get(column, 0) * value for column, value in zip(*kernel_rows.nonzero(made.rows, row)))
        for row in (4, 5)
    )
    assert first > second
    assert max(weights) < made.rows.columns


def test_vectors_have_no_words(vectors):
    """Seed items work with vectors. Seed words are refused, and the error says to use seed items."""
    assert {0: 0.6, 1: 0.8} == pytest.approx(
        {
            column: value / prior.TRUST["items"]
            for column, value in prior.make_prior(vectors, items=["a"]).weights.items()
        }
    )
    with pytest.raises(DataError, match=r"^seed words need texts; these items are vectors\. Use seed items\.$"):
        prior.make_prior(vectors, ["gym"])


def test_nothing_known_is_no_prior(data):
    assert prior.make_prior(data, [" "], []) is None
