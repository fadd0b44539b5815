"""Vectors that are imported with texts are scaled and joined to the columns of words, stay with their texts, and can be
appended."""

import json
import re

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from oal_engine import datasets
from oal_engine.datasets import Dataset, feeds, reading
from oal_engine.datasets.features import text_vectors
from oal_engine.kernel import rows
from oal_engine.store import Store
from tests.harness.examples import topics

TEXTS, WIDTH = topics(60), 4
TABLE = np.random.default_rng(1).normal(2, 3, (60, WIDTH)).round(3)
LIST = reading.Columns(("text",), "label", "id", ("v",))
PLAIN = reading.Columns(("text",), "label", "id")


def lines(first=0, last=60, **more):
    """Return records with an id, a text, a label and a vector each. more: values that replace these."""
    return [
        {"id": f"i{k}", "text": TEXTS[k], "label": int(k % 3 == 0), "v": TABLE[k].tolist()} | more
        for k in range(first, last)
    ]


def written(path, entries):
    path.write_text("".join(json.dumps(each) + "\n" for each in entries))
    return path


def parts(made, latent):
    """Split rows into three dense tables of columns: terms, similar wording (`latent` columns) and vectors."""
    dense = rows.matrix(made).toarray()
    ends = made.columns - made.width, made.columns - made.width + latent
    return np.split(dense, ends, axis=1)


def expected(table, means_of):
    """Compute by formula the columns that hold a table of vectors. means_of: table whose means are subtracted."""

    def unit(table):
        lengths = np.linalg.norm(table, axis=1, keepdims=True)
        return table / np.where(lengths > 0, lengths, 1)

    given = table.any(axis=1, keepdims=True)
    return np.sqrt(0.2) * unit(np.where(given, unit(table) - unit(means_of).mean(axis=0), 0))


def test_rows_hold_terms_wording_and_vectors(tmp_path):
    """Terms make 70 % of a row's squared length, similar wording 10 %, and the centered unit vector 20 %."""
    made = datasets.table(reading.read(written(tmp_path / "a.jsonl", lines()), LIST))
    terms, similar, given = parts(made.rows, made.projection.numbers.shape[1])
    squares = np.column_stack([(part**2).sum(axis=1) for part in (terms, similar, given)])
    np.testing.assert_allclose(squares, np.tile([0.7, 0.1, 0.2], (60, 1)), rtol=1e-5)
    np.testing.assert_allclose(given, expected(TABLE, TABLE), atol=1e-6)


@pytest.mark.parametrize("features", ["rich", "words"])
def test_rows_without_similar_wording(tmp_path, features):
    """In rows without similar wording, a fifth of the squared length comes from the vector, the rest from the terms."""
    made = datasets.table(reading.read(written(tmp_path / "a.jsonl", lines()), LIST), features=features)
    terms, _, given = parts(made.rows, 0)
    np.testing.assert_allclose((terms**2).sum(axis=1), 0.8, rtol=1e-6)
    np.testing.assert_allclose(given, expected(TABLE, TABLE), atol=1e-6)


def test_a_vector_of_zeros_stays_zero():
    table = np.array([[3.0, 0], [0, 0], [0, 2], [-1, 0]])
    np.testing.assert_allclose(text_vectors.columns(text_vectors.fit(table), table), expected(table, table), atol=1e-7)


def as_csv(path, entries, columns=LIST, names="v", cells='"{}"'.format):
    lines = (f"{e['id']},{e['text']},{e['label']},{cells(e['v'])}" for e in entries)
    path.write_text("\n".join([f"id,text,label,{names}", *lines]))
    return path, columns, None


def as_numpy_words(path, entries):
    return as_csv(path, entries, cells=lambda v: f'"[{" ".join(map(str, v))}]"')


def as_columns(path, entries):
    columns = reading.Columns(("text",), "label", "id", ("a", "b", "c", "d"))
    return as_csv(path, entries, columns, "a,b,c,d", lambda v: ",".join(map(str, v)))


def as_parquet(path, entries):
    parquet.write_table(pyarrow.Table.from_pylist(entries), path.with_suffix(".parquet"))
    return path.with_suffix(".parquet"), LIST, None


def as_npy(path, entries):
    np.save(path.with_suffix(".npy"), np.array([e["v"] for e in entries]))
    return written(path.with_suffix(".jsonl"), entries), PLAIN, path.with_suffix(".npy")


def as_list_file(path, entries):
    table = pyarrow.table({"v": pyarrow.array([e["v"] for e in entries], pyarrow.list_(pyarrow.float64()))})
    parquet.write_table(table, path.with_suffix(".pq"))
    return written(path.with_suffix(".jsonl"), entries), PLAIN, path.with_suffix(".pq")


def as_number_file(path, entries):
    parquet.write_table(pyarrow.table(dict(zip("abcd", np.array([e["v"] for e in entries]).T))), path)
    return written(path.with_suffix(".jsonl"), entries), PLAIN, path.rename(path.with_suffix(".parquet"))


WAYS = [as_csv, as_numpy_words, as_columns, as_parquet, as_npy, as_list_file, as_number_file]


@pytest.mark.parametrize("way", WAYS)
def test_vectors_come_in_many_ways(tmp_path, way):
    """The same vectors give equal items as a list column, as numeric columns or as a separate file. A list column is
    never guessed as features."""
    path, columns, vectors = way(tmp_path / "a.csv", lines())
    items = reading.read(path, columns, vectors=vectors and reading.read_vectors(vectors))
    assert np.array_equal(TABLE, items.vectors)
    assert TEXTS == items.texts
    guess = reading.peek(path).guess
    assert (("text",), "label", "id", None) == (guess.text, guess.label, guess.id, guess.features)
    assert (("v",) if "v" in reading.peek(path).columns else ()) == reading.peek(path).lists


def test_what_is_skipped_shifts_nothing(tmp_path):
    """Broken lines, empty texts, repeated ids and non-finite vectors are skipped. Other texts keep their vectors."""
    entries = [json.dumps(each) for each in lines()]
    entries[3], entries[7] = "no json", json.dumps(lines()[7] | {"text": " "})
    entries[11] = json.dumps(lines()[11] | {"id": "i2"})
    (tmp_path / "a.jsonl").write_text("\n".join(entries))
    table = TABLE.copy()
    table[5, 1], table[9, 0] = np.nan, 1e200
    np.save(tmp_path / "v.npy", table)
    items = reading.read(tmp_path / "a.jsonl", PLAIN, vectors=reading.read_vectors(tmp_path / "v.npy"))
    left = [k for k in range(60) if k not in (3, 5, 7, 9, 11)]
    assert [f"i{k}" for k in left] == items.ids
    assert np.array_equal(TABLE[left], items.vectors)
    reasons = {"broken line": (1, 4), "non-finite row": (2, 6), "empty text": (1, 8), "duplicate id": (1, 12)}
    assert reasons == items.skipped


def test_lists_that_are_no_vector_are_skipped(tmp_path):
    entries = lines(last=6)
    for k, cell in ((1, [1, "x", 2, 3]), (2, []), (3, [1.0, 2]), (4, None)):
        entries[k]["v"] = cell
    items = reading.read(written(tmp_path / "a.jsonl", entries), LIST)
    assert ["i0", "i5"] == items.ids
    assert {"non-numeric row": (3, 2), "other-length vector": (1, 4)} == items.skipped


@pytest.mark.parametrize("rows_of_file", [59, 61])
def test_as_many_vectors_as_rows(tmp_path, rows_of_file):
    """If a file of vectors has more or fewer vectors than there are rows of texts, the error states both numbers."""
    np.save(tmp_path / "v.npy", np.ones((rows_of_file, 3)))
    vectors = reading.read_vectors(tmp_path / "v.npy")
    message = "v.npy must have one vector for each of the 60 rows of a.jsonl, including skipped rows. Got "
    with pytest.raises(reading.DataError, match=f"{re.escape(message)}{rows_of_file}"):
        reading.read(written(tmp_path / "a.jsonl", lines()), PLAIN, vectors=vectors)


def test_files_that_hold_no_vectors(tmp_path):
    """A file of vectors is refused if it is a pickle, a three-dimensional array or neither .npy nor Parquet. It is also
    refused if the items have no texts."""
    np.save(tmp_path / "o.npy", np.array([{}]), allow_pickle=True)
    np.save(tmp_path / "d.npy", np.ones((2, 2, 2)))
    np.save(tmp_path / "v.npy", np.ones((1, 2)))
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    for name, message in (
        ("o.npy", "o.npy cannot be read: "),
        ("d.npy", "its array must be a table of numbers, not float64 of shape (2, 2, 2)"),
        ("a.csv", "vectors must be a .npy or Parquet file. Got a.csv."),
    ):
        with pytest.raises(reading.DataError, match=re.escape(message)):
            reading.read_vectors(tmp_path / name)
    with pytest.raises(reading.DataError, match=r"v\.npy must belong to texts\. a\.csv has none"):
        reading.read(tmp_path / "a.csv", vectors=reading.read_vectors(tmp_path / "v.npy"))
    items = reading.read(written(tmp_path / "b.jsonl", lines()), LIST)
    with pytest.raises(ValueError, match=r"vectors of texts need the scaling l2\. Got none\."):
        datasets.table(items, "none")


# Kept as a data set


@pytest.fixture
def kept(store, tmp_path):
    """A data set of the first 40 texts with their vectors, read from a list column."""
    return Dataset(store, datasets.import_file(store, written(tmp_path / "a.jsonl", lines(0, 40)), "texts", LIST)[0])


def contents(dataset, first=0):
    return [rows.content(dataset.rows, i) for i in range(first, rows.length(dataset.rows))]


def test_stored_rows_are_those_of_their_texts(store, kept):
    """The stored means and projection reproduce the stored rows bit for bit; a text without a vector gets zeros."""
    made = kept.transform(TEXTS[:40], TABLE[:40])
    assert contents(kept) == [rows.content(made, i) for i in range(40)]
    assert (WIDTH, "text", []) == (kept.vector_width, kept.record["kind"], kept.feature_names)
    assert not parts(kept.transform(TEXTS[:2]), kept.latent - WIDTH)[2].any()
    Dataset(Store(store.path), "texts").check()


@pytest.mark.parametrize("way", ["file", "feed", "vectors", "parquet"])
def test_later_items_bring_their_vectors(store, kept, tmp_path, way):
    """Appended texts get the rows that an import would give, whether their vectors come from a column of the file, from
    a feed or from a file of vectors."""
    before, path = contents(kept), written(tmp_path / "more.jsonl", lines(40))
    if way == "feed":
        with path.open("rb") as feed:
            lots = list(feeds.append_lines(kept, feed))
    elif way == "file":
        lots = list(feeds.append_file(kept, path))
    else:
        write = as_npy if way == "vectors" else as_list_file
        path, _, vectors = write(tmp_path / "other", lines(40))
        lots = list(feeds.append_file(kept, path, vectors=reading.read_vectors(vectors)))
    grown, made = Dataset(Store(store.path), "texts"), kept.transform(TEXTS[40:], TABLE[40:])
    assert 20 == sum(lot.appended for lot in lots)
    assert before + [rows.content(made, i) for i in range(20)] == contents(grown)
    grown.check()


def test_later_items_without_fitting_vectors(store, kept, tmp_path):
    """If a data set has vectors, an appended file without the vector column and a feed of plain texts are refused, and
    vectors of another length are skipped. A data set without vectors refuses a file of vectors."""
    bare = written(tmp_path / "bare.jsonl", [{"text": each} for each in TEXTS[40:]])
    with pytest.raises(reading.DataError, match=r"the file must have the column v, or .* \(--vectors\)\."):
        list(feeds.append_file(kept, bare))
    (tmp_path / "bare.txt").write_text("\n".join(TEXTS[40:]))
    with (tmp_path / "bare.txt").open("rb") as feed, pytest.raises(reading.DataError, match="lines of JSON objects"):
        list(feeds.append_lines(kept, feed))
    [taken] = feeds.append_file(kept, written(tmp_path / "more.jsonl", lines(40, v=[1, 2])))
    assert (0, {"other-length vector": (20, 1)}) == (taken.appended, taken.skipped)
    datasets.import_file(store, tmp_path / "a.jsonl", "plain", PLAIN)
    np.save(tmp_path / "v.npy", TABLE[40:])
    vectors = reading.read_vectors(tmp_path / "v.npy")
    with pytest.raises(reading.DataError, match=r"the texts of the data set plain have no vectors\. Got v\.npy\."):
        list(feeds.append_file(Dataset(store, "plain"), bare, vectors=vectors))
