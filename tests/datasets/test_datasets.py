"""Data sets are stored whole or not at all, scaled as chosen, and open unchanged."""

import gzip
import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from oal_engine import datasets
from oal_engine.datasets import Dataset, reading
from oal_engine.datasets.features import SCALINGS, scaling
from oal_engine.datasets.reading import sources
from oal_engine.kernel import rows
from oal_engine.sessions.settings import create
from oal_engine.store import Store, StoreError

TEXTS = [
    "so #happy today 😀",
    "so #happy with @Ann",
    "a state-of-the-art day",
    "never seen @Ann 😀 today",
    "a day so #happy",
]
LABELS = ["pos", "pos", "neg", "", "neg"]


@pytest.fixture
def tweets(tmp_path):
    """A file of five short texts with ids and labels, one of them empty."""
    path = tmp_path / "tweets.jsonl"
    lines = ({"id": f"t{k}", "text": text, "label": label} for k, (text, label) in enumerate(zip(TEXTS, LABELS)))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


COLUMNS = reading.Columns(text=("text",), label="label", id="id", positive=("pos",))


def read(store, tweets, name="tweets", scale=None, **settings):
    request = datasets.ImportRequest(scale=scale)
    return datasets.import_file(
        store, tweets, name, COLUMNS, request, **{"min_df": 1, "tokenizer": "tweets"} | settings
    )


def vectors(X, y=None):
    n, d = X.shape
    y = np.zeros(n, np.int8) if y is None else np.asarray(y, np.int8)
    return reading.Items([str(k) for k in range(n)], None, X, [f"f{j}" for j in range(d)], list(map(str, y)), y, {})


def bits(table):
    return [(part.dtype.str, part.tobytes()) if isinstance(part, np.ndarray) else part for part in table]


def nothing_is_kept(store):
    counts = [store.one(f"SELECT count(*) AS n FROM {table}")["n"] for table in ("datasets", "items", "vocabulary")]
    return counts == [0, 0, 0] and not (store.folder.exists() and any(store.folder.iterdir()))


# Import


def test_an_import_keeps_everything(store, tweets):
    """Ids, texts, labels, vocabulary, settings and scaling are stored. A data set of two classes has no class names."""
    number, items = read(store, tweets, scale="none")
    dataset = Dataset(Store(store.path), "tweets")
    assert number == dataset.id
    stored = [dataset.item(position) for position in range(len(TEXTS))]
    assert [f"t{k}" for k in range(5)] == [item["id"] for item in stored] == items.ids
    assert TEXTS == [item["text"] for item in stored]
    assert LABELS == [item["label"] for item in stored]
    assert [1, 1, -1, 0, -1] == [item["y"] for item in stored] == dataset.y.tolist()
    columns = ("kind", "source", "items", "positives", "negatives", "positive", "scaling")
    expected = ["text", "tweets.jsonl", 5, 2, 2, "pos", '{"name": "none"}']
    assert expected == [dataset.record[column] for column in columns]
    assert (False, (), None) == (dataset.labelled, dataset.classes, dataset.record["classes"])
    assert "tweets" == dataset.vocabulary.settings["tokenizer"]
    assert {"#happy", "@ann", "😀", "state-of-the-art"} < set(dataset.vocabulary.terms)
    contains = dataset.vocabulary.transform(TEXTS).toarray() > 0
    assert contains.sum(axis=0).tolist() == dataset.vocabulary.document_frequency.tolist()
    assert 5 == dataset.vocabulary.documents


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_vectors_keep_their_numbers_and_names(store, make):
    X = np.array([[0.1, 0, -3], [0, 0, 0], [1e-9, 1e9, 2]])
    datasets.add(store, " vectors ", datasets.table(vectors(make(X), [1, -1, -1]), "none"), "some/where/x.npy")
    dataset = Dataset(store, "vectors")
    assert X.tolist() == np.asarray(rows.matrix(dataset.rows) @ np.eye(3)).tolist()
    assert isinstance(dataset.rows, rows.DenseRows if make is np.asarray else rows.SparseRows)
    assert ("vectors", "x.npy") == (dataset.record["kind"], dataset.record["source"])
    assert (["f0", "f1", "f2"], None, True) == (dataset.feature_names, dataset.vocabulary, dataset.labelled)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_rows_are_mapped_and_cannot_be_written(store, make):
    """The rows of an open data set are read-only memory maps of its files: opening copies nothing."""
    datasets.add(store, "vectors", datasets.table(vectors(make(np.eye(4)))), "x.npy")
    dataset = Dataset(store, "vectors")
    for array in (*(part for part in dataset.rows if isinstance(part, np.ndarray)), dataset.y):
        owner = array
        while owner.base is not None and not isinstance(owner, np.memmap):
            owner = owner.base
        assert isinstance(owner, np.memmap)
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize("scale", SCALINGS)
def test_the_same_texts_give_the_same_bits_after_reopening(store, tweets, scale):
    """The stored vocabulary and scaling reproduce the stored rows of the file's texts, bit for bit."""
    read(store, tweets, scale=scale)
    dataset = Dataset(Store(store.path), "tweets")
    assert bits(dataset.transform(TEXTS)) == bits(dataset.rows)
    again = dataset.transform(["quite unknown words", TEXTS[0]])
    assert rows.content(dataset.rows, 0) == rows.content(again, 1)


def test_classes_are_kept_in_order(store, tmp_path):
    """Class names and counts are stored in order, labels are 1..K, and an item without a class has the label 0."""
    path = tmp_path / "kinds.csv"
    path.write_text("text,kind\nso happy,C10\nso sad,C2\nso so,a\nso what,b\nso it is,C2\nso be it,\n")
    columns = reading.Columns(("text",), "kind", multiclass=True)
    datasets.import_file(store, path, "kinds", columns, min_df=1)
    dataset = Dataset(Store(store.path), "kinds")
    assert ("a", "b", "C2", "C10") == dataset.classes
    assert [("a", 1), ("b", 1), ("C2", 2), ("C10", 1)] == list(dataset.record["classes"].items())
    assert (0, 0, False) == (dataset.record["positives"], dataset.record["negatives"], dataset.labelled)
    assert [4, 3, 1, 2, 3, 0] == dataset.y.tolist() == [dataset.item(position)["y"] for position in range(6)]
    assert ["C10", "C2", "a", "b", "C2", ""] == [dataset.item(position)["label"] for position in range(6)]
    path.write_text(path.read_text().rpartition("so be it")[0])
    table = datasets.table(reading.read(path, columns), min_df=1)
    assert dataset.classes == table.classes
    datasets.add(store, "all", table, "kinds.csv")
    assert Dataset(store, "all").labelled


# All or nothing


def test_a_name_is_taken_once(store, tweets):
    """A data set with an empty or existing name is refused, and the existing data set stays unchanged."""
    read(store, tweets)
    before = sorted(store.folder.rglob("*"))
    exists = "a data set named tweets exists already. Choose another name."
    for name, message in (("tweets", exists), (" tweets ", exists), ("  ", "a data set needs a name.")):
        with pytest.raises(reading.DataError, match=f"^{re.escape(message)}$"):
            read(store, tweets, name)
    assert before == sorted(store.folder.rglob("*"))
    assert ["tweets"] == [row["name"] for row in store.datasets()]


def test_a_failure_after_the_rows_were_saved_leaves_nothing(store, tweets, monkeypatch):

    def refused(*_):
        assert any(store.folder.rglob("values.npy"))
        raise OSError("disk full")

    monkeypatch.setattr(store, "add_dataset", refused)
    with pytest.raises(OSError, match="disk full"):
        read(store, tweets)
    assert nothing_is_kept(store)


def test_a_failure_while_rows_are_saved_leaves_nothing(store, monkeypatch):
    """If the saving of rows is interrupted between the files of two arrays, no folder is left."""
    table, save = datasets.table(vectors(np.eye(3))), np.save

    def interrupted(path, array):
        if path.name == "y.npy":
            raise KeyboardInterrupt
        save(path, array)

    monkeypatch.setattr(np, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        datasets.add(store, "vectors", table, "x.npy")
    assert nothing_is_kept(store)


def test_missing_or_damaged_rows_are_refused(store):
    """The error for missing or damaged row files names the data set and its folder."""
    datasets.add(store, "vectors", datasets.table(vectors(np.eye(3))), "x.npy")
    folder = store.folder / store.dataset("vectors")["folder"]
    (folder / "values.npy").write_bytes(b"damaged")
    for _ in range(2):
        message = rf"^the rows of the data set vectors cannot be read from {folder}: .*\.$"
        with pytest.raises(reading.DataError, match=message):
            Dataset(store, "vectors")
        for file in folder.iterdir():
            file.unlink()


def test_remove_deletes_the_rows_of_this_data_set(store):
    """Removing a data set deletes its own folder only. A data set that a session uses cannot be removed."""
    for name in ("first", "second"):
        datasets.add(store, name, datasets.table(vectors(np.eye(3))), "x.npy")
    first, second = (store.folder / store.dataset(name)["folder"] for name in ("first", "second"))
    datasets.remove(store, store.dataset("first")["id"])
    assert (False, True) == (first.exists(), second.exists())
    assert ["second"] == [row["name"] for row in store.datasets()]
    create(store, "second", learner="pa", rule="all", name="s")
    with pytest.raises(StoreError, match="used by the session s"):
        datasets.remove(store, store.dataset("second")["id"])
    assert np.eye(3).tolist() == rows.matrix(Dataset(store, "second").rows).tolist()


# Scaling


def plain(X, name):
    """Scale a table in plain numpy, column by column and row by row."""
    X = X.astype(float)
    if name == "standardize+l2":
        for column in X.T:
            column[:] = 0 if np.ptp(column) == 0 else (column - column.mean()) / column.std()
    if name != "none":
        for row in X:
            row /= np.sqrt((row**2).sum()) or 1
    return X


SHAPES, CELLS = st.tuples(st.integers(1, 8), st.integers(1, 5)), st.sampled_from([0, 0, 0, 1, -2, 0.1, 1e-6, 3e5, 7.25])


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("name", SCALINGS)
@settings(deadline=None)
@given(X=arrays(float, SHAPES, elements=CELLS))
def test_scaling_equals_plain_numpy(make, name, X):
    """Tables are scaled as in plain numpy, sparse or dense. Scalings `l2` and `none` leave rows of zeros unchanged."""
    fitted = scaling.fit(make(X), name)
    scaled = scaling.apply(json.loads(json.dumps(fitted)), make(X))
    dense = scaled.toarray() if sparse.issparse(scaled) else scaled
    np.testing.assert_allclose(dense, plain(X, name), rtol=1e-6, atol=1e-6)
    if name != "standardize+l2":
        assert sparse.issparse(scaled) == (make is sparse.csr_array)
        assert not dense[~X.any(axis=1)].any()


def test_a_column_of_one_value_becomes_zero():
    """A constant feature is standardized to 0, despite the rounding of its mean."""
    X = np.column_stack([np.full(1000, 0.1), np.arange(1000)])
    scaled = scaling.apply(scaling.fit(X, "standardize+l2"), X)
    assert 1e-9 > np.abs(scaled[:, 0]).max()


def test_an_impossible_scaling_is_refused(monkeypatch):
    """The error for an unknown scaling lists the known ones. The error for a table that is too large states its size
    and suggests a scaling that works."""
    with pytest.raises(ValueError, match=r"^scaling must be one of l2, none, standardize\+l2\. Got L3\.$"):
        scaling.fit(np.eye(2), "L3")
    monkeypatch.setattr(scaling, "MAX_DENSE_BYTES", 100)
    with pytest.raises(ValueError, match=r"a table of 1,000 x 2,000 numbers: 0\.0 GiB, over the limit .* Use l2\.$"):
        scaling.fit(sparse.csr_array((1000, 2000)), "standardize+l2")


@pytest.mark.parametrize(("name", "pack"), [("x.csv", bytes), ("x.data", bytes), ("x.data.gz", gzip.compress)])
def test_an_import_opens_its_file_once(store, tmp_path, monkeypatch, name, pack):
    path, opened, open_file = tmp_path / name, [], sources.open_file
    path.write_bytes(pack(b"x,label\n" + b"1,1\n2,-1\n" * 2000))
    monkeypatch.setattr(sources, "open_file", lambda path: opened.append(path) or open_file(path))
    _, items = datasets.import_file(store, path, "once")
    assert (4000, [path]) == (len(items.ids), opened)
