"""Columns for similar wording: a projection stored with the data set always gives equal texts the same bits."""

import json
import re
from zlib import crc32

import numpy as np
import pytest

from oal_engine import datasets
from oal_engine.datasets import Dataset, demo, reading
from oal_engine.datasets.features import latent
from oal_engine.kernel import rows
from tests.harness.examples import topics

TEXT = reading.Columns(("text",), "label", positive=("pos",))
TEXTS = topics(300)


@pytest.fixture
def read(tmp_path):
    """A function that writes texts to a file and reads its items."""

    def read(texts):
        path = tmp_path / "texts.jsonl"
        path.write_text("".join(json.dumps({"text": text, "label": "pos"}) + "\n" for text in texts))
        return reading.read(path, TEXT)

    return read


@pytest.fixture
def kept(store, read):
    """A data set of the first 200 texts."""
    return Dataset(
        store,
        datasets.add(store, "texts", datasets.table(read(TEXTS[:200]), features="rich+latent"), "texts.jsonl", TEXT),
    )


def test_a_row_has_a_fifth_of_its_length_in_similar_wording(read):
    """Of a row's squared length, 4/5 comes from terms and 1/5 from columns for similar wording, whose means are 0."""
    made = datasets.table(read(TEXTS), features="rich+latent").rows
    squares = [np.add.reduceat(made.values**2, made.indptr[:-1]), (made.block.reshape(300, -1) ** 2).sum(1)]
    np.testing.assert_allclose(squares, np.outer([0.8, 0.2], np.ones(300)), rtol=1e-5)
    assert np.abs(made.block.reshape(300, -1).mean(axis=0)).max() < 0.01


def test_similar_wording_brings_texts_of_a_topic_together(read):
    """On average, two texts without a common word are more alike in the columns for similar wording if they have the
    same topic."""
    made = datasets.table(read(TEXTS), features="rich+latent")
    matrix, topic = rows.matrix(made.rows).toarray(), np.arange(300) % 3
    terms, similar = matrix[:, : -made.rows.width], matrix[:, -made.rows.width :]
    strangers = (terms @ terms.T < 1e-9) & ~np.eye(300, dtype=bool)
    alike, same = similar @ similar.T, topic[:, None] == topic
    assert (strangers & same).any()
    assert alike[strangers & same].mean() > alike[strangers & ~same].mean() + 0.05


def test_a_text_without_a_known_term_is_a_row_of_zeros(kept):
    """A text without a known term is a row of zeros, except for the shared columns of its new words."""
    new, empty = rows.matrix(kept.transform(["qwertz", ""])).toarray()
    own, similar = len(kept.vocabulary.terms) - kept.vocabulary.shared, kept.named
    assert not empty.any()
    assert [False, True, False] == [part.any() for part in np.split(new, [own, similar])]


def test_a_damaged_projection_is_noticed(kept):
    path = kept.folder / "projection.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(reading.DataError, match=r"projection\.npy is damaged"):
        Dataset(kept.store, "texts").check()
    path.write_bytes(whole[:-4])
    with pytest.raises(reading.DataError, match=r"projection\.npy must be .* bytes long"):
        Dataset(kept.store, "texts")


@pytest.mark.parametrize(("count", "texts"), [(latent.MIN_TEXTS - 1, TEXTS), (30, ["one", "one "])])
def test_few_texts_or_terms_have_no_latent_part(read, count, texts):
    """With fewer than 20 texts, or fewer than two terms, rows have rich terms but no columns for similar wording."""
    made = datasets.table(read((texts * 30)[:count]), features="rich+latent")
    assert (rows.SparseRows, None) == (type(made.rows), made.projection)
    assert "rich" == made.vocabulary.settings["tokenizer"]


@pytest.mark.parametrize(("settings", "kind", "tokenizer"), [
    ({}, rows.MixedRows, "rich"),
    ({"features": "rich+latent"}, rows.MixedRows, "rich"),
    ({"features": "rich"}, rows.SparseRows, "rich"),
    ({"scale": "none"}, rows.SparseRows, "rich"),
    ({"features": "words"}, rows.SparseRows, "tweets"),
    ({"features": "words", "tokenizer": "words"}, rows.SparseRows, "words"),
    ({"tokenizer": "words"}, rows.SparseRows, "words"),
])  # fmt: skip
def test_features(read, settings, kind, tokenizer):
    """By default, texts get the richest features that work with the setting `scale`. A chosen `features` or `tokenizer`
    overrides this."""
    made = datasets.table(read(TEXTS[:60]), **settings)
    assert (kind, tokenizer) == (type(made.rows), made.vocabulary.settings["tokenizer"])


@pytest.mark.parametrize(("settings", "message"), [
    ({"features": "best"}, "features of texts must be one of sentences, e5, rich+latent, rich, words. Got best."),
    ({"features": "rich", "tokenizer": "words"}, "a tokenizer is for the features words. Got words for rich."),
    ({"features": "rich+latent", "scale": "none"}, "the features rich+latent need the scaling l2. Got none."),
])  # fmt: skip
def test_features_that_do_not_fit(read, settings, message):
    """Unknown features are refused, and so is a tokenizer or a scaling that does not fit the features."""
    with pytest.raises(ValueError, match=re.escape(message)):
        datasets.table(read(TEXTS[:60]), **settings)


def test_the_bits_are_those_of_every_machine():
    shown = demo.DEMOS["tweets"]
    made = datasets.table(reading.read(demo.FOLDER / shown.file, shown.columns), features="rich+latent").rows
    assert (2127885901, 1743607490) == tuple(crc32(part.data) for part in (made.values, made.block))
