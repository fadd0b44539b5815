"""Sessions over texts with vectors: model files, backups and published sessions work with vectors from a file and from
an embedding."""

import gzip
import io
import json
import re
import shutil

import numpy as np
import pytest

import oal_engine
from oal_engine import datasets
from oal_engine.datasets import Dataset, prior, reading
from oal_engine.datasets.features import embeddings
from oal_engine.kernel import learners, rows, stream
from oal_engine.sessions import backups, model
from oal_engine.sessions.files import bundle, model_file, model_formats
from oal_engine.sessions.look_back import verify
from oal_engine.sessions.model import ModelError
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store
from tests.harness.examples import topics, write_embedding
from tests.harness.sessions import label_until_the_end, text_of

TEXTS, WIDTH = topics(90), 5
TABLE = np.random.default_rng(2).normal(1, 2, (90, WIDTH)).round(4)
COLUMNS = reading.Columns(("text",), "label")


def database(folder, kind):
    """Create a database with 60 texts and their vectors: from a file, or from the embedding in the folder `tiny`."""
    folder.mkdir()
    path, store = folder / "texts.jsonl", Store(folder / "studio.db")
    path.write_text(
        "".join(json.dumps({"text": text, "label": int(k % 3 == 0)}) + "\n" for k, text in enumerate(TEXTS[:60]))
    )
    if kind == "given":
        np.save(folder / "v.npy", TABLE[:60])
        more = {"vectors": reading.read_vectors(folder / "v.npy")}
    else:
        pytest.importorskip("tokenizers", reason="needs tokenizers: pip install .[embed]")
        write_embedding(folder / "tiny")
        more = {"encoder": embeddings.read(folder / "tiny")}
    datasets.import_file(store, path, "texts", COLUMNS, datasets.ImportRequest(**more))
    return store


@pytest.fixture(params=["given", "made"])
def kind(request):
    return request.param


@pytest.fixture
def opened(tmp_path, kind):
    """A session whose budget is spent."""
    store = database(tmp_path / "one", kind)
    session = Session(store, create(store, "texts", "PAA-I", budget=25, shuffled=True))
    label_until_the_end(session)
    yield session
    store.close()


def margins(opened, table):
    scores = np.empty((rows.length(table), 1))
    stream.scores(table, opened.learner, opened.settings.theta, scores)
    return scores


def written(opened, path):
    with path.open("wb") as file:
        model_file.write(model.of_session(opened), file)
    return path


def test_a_model_file_predicts_with_vectors(opened, kind, tmp_path):
    """Given its vectors or its embedding, a model file computes the session's margins bit for bit, and is the same file
    when written again. Its format version is 4, so that older program versions refuse it."""
    path = written(opened, tmp_path / "m.gz")
    loaded, new = model_file.read(path), TABLE[60:] if kind == "given" else None
    if kind == "made":
        loaded = loaded.with_encoder(embeddings.read(tmp_path / "one" / "tiny"))
    assert np.array_equal(
        margins(opened, opened.dataset.transform(TEXTS[60:], new)), loaded.scores(loaded.rows(TEXTS[60:], new))
    )
    again = io.BytesIO()
    model_file.write(loaded, again)
    assert (4, path.read_bytes()) == (loaded.head["oal_model"], again.getvalue())
    assert loaded.weights.shape == (opened.dataset.rows.columns, 1)
    assert np.array_equal(learners.weights(opened.learner), loaded.weights[:, 0])


def test_a_model_with_vectors_is_used_in_python(opened, kind, tmp_path):
    """`load_model` takes the folder of the embedding. Vectors from a file are instead passed to each method as a second
    argument, one vector per text. The formats of other programs cannot store such a model."""
    path = written(opened, tmp_path / "m.gz")
    loaded = oal_engine.load_model(path, None if kind == "given" else tmp_path / "one" / "tiny")
    new = (TABLE[60:],) if kind == "given" else ()
    expected = margins(opened, opened.dataset.transform(TEXTS[60:], *new))[:, 0] - opened.settings.theta
    assert np.array_equal(expected, loaded.decision_function(TEXTS[60:], *new))
    with pytest.raises(ModelError, match=r"needs vectors of its texts, which \.skops files lack\.$"):
        model_formats.FORMATS["skops"].write(loaded, io.BytesIO())
    if kind == "given":
        for vectors, message in ((None, "Got none."), (TABLE[61:], "Got 30 texts and 29 vectors."),
                                 (TABLE[60:, 1:], "Got the shape (30, 4).")):  # fmt: skip
            with pytest.raises(ModelError, match=rf"{re.escape(message)}$"):
                loaded.predict(TEXTS[60:], vectors)
    else:
        with pytest.raises(ModelError, match="needs the embedding tiny"):
            oal_engine.load_model(path)


def test_a_model_refuses_another_embedding_by_name(tmp_path):
    """The error about a wrong embedding names the one that the model needs and the one that it got. A model that needs
    no embedding refuses any."""
    store = database(tmp_path / "one", "made")
    session = Session(store, create(store, "texts", "PAA-I", budget=5))
    label_until_the_end(session)
    loaded = model_file.read(written(session, tmp_path / "m.gz"))
    own = embeddings.read(tmp_path / "one" / "tiny")
    write_embedding(tmp_path / "other", seed=1)
    other = embeddings.read(tmp_path / "other")
    for given, got in ((other, f"other ({other.checksum})"), (None, "none")):
        message = f"needs the embedding tiny ({own.checksum}): name its folder (--embed). Got {got}."
        with pytest.raises(ModelError, match=re.escape(message)):
            loaded.with_encoder(given)
    store = database(tmp_path / "two", "given")
    session = Session(store, create(store, "texts", "PAA-I", budget=5))
    with pytest.raises(ModelError, match=rf"needs no embedding\. Got tiny \({own.checksum}\)\."):
        model.of_session(session).with_encoder(own)


def changed(lines, at, **values):
    lines[at] |= values


DAMAGES = {
    "cut short": lambda lines: lines.pop(),
    "another place": lambda lines: changed(lines, -1, vector=9),
    "no mean": lambda lines: lines[-1].pop("mean"),
    "a word as a mean": lambda lines: changed(lines, -1, mean="x"),
    "two weights": lambda lines: changed(lines, -1, weights=[1, 2]),
    "no head": lambda lines: lines[0].pop("beside"),
    "an empty head": lambda lines: changed(lines, 0, beside={}),
    "both heads": lambda lines: changed(lines, 0, beside={"columns": ["a"], "width": 5, "tokens": []}),
    "no columns": lambda lines: changed(lines, 0, beside={"columns": [], "width": 5}),
    "another width": lambda lines: changed(lines, 0, beside={"columns": ["v"], "width": 6}),
    "no counts": lambda lines: changed(
        lines, 0, beside={"embedding": lines[0]["beside"].get("embedding"), "tokens": [1]}
    ),
    "called an old one": lambda lines: changed(lines, 0, oal_model=2),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_vectors_are_refused(opened, tmp_path, damage):
    path = written(opened, tmp_path / "m.gz")
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    damage(lines)
    path.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
    with pytest.raises(ModelError, match=r"m\.gz is not a usable model: .*\.$"):
        model_file.read(path)


def test_backups_and_published_sessions(opened, kind, tmp_path):
    """A backup is sound, and turns new texts into the same rows as the original database, even after the original
    folder is deleted. A published session is verified bit for bit in another database that imported the same files."""
    store, new = opened.store, TABLE[60:] if kind == "given" else None
    backups.backup(store, tmp_path / "kept.tar")
    made = rows.matrix(opened.dataset.transform(TEXTS[60:], new)).toarray()
    published = text_of(store, opened.id)
    other = database(tmp_path / "two", kind)
    assert verify(other, bundle.adopt(other, io.StringIO(published))).verified
    shutil.rmtree(tmp_path / "one")
    with backups.opened(tmp_path / "kept.tar") as restored:
        assert [None] * 3 == [part.problem for part in backups.check(restored)]
        again = Dataset(restored, "texts").transform(TEXTS[60:], new)
        assert np.array_equal(made, rows.matrix(again).toarray())


def test_seed_words_have_a_meaning_where_it_is_made(tmp_path, kind):
    """Seed words get prior weights in vector columns only if an embedding makes the vectors, not if a file has them."""
    dataset = Dataset(database(tmp_path / "one", kind), "texts")
    columns = [
        column for column in prior.make_prior(dataset, ["goal"]).weights if column >= dataset.rows.columns - WIDTH
    ]
    assert (kind == "made") == bool(columns)
