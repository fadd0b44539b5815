"""Items show their numbers as in the file, however the rows are scaled."""

import json

import numpy as np
import pytest
from scipy import sparse

from oal_engine import datasets
from oal_engine.datasets import Dataset, feeds, reading
from oal_engine.datasets.features import numbers
from oal_engine.sessions.items import file_numbers

LINES = ["a,b,c,label", "5.1,0,3,1", "1234567.891,-2,0,0", "0,0,0,1", "0.1,1e-7,2,0"]
SHOWN = [["5.1", "0", "3"], ["1234567.891", "-2", "0"], ["0", "0", "0"], ["0.1", "1e-07", "2"]]


@pytest.fixture
def path(tmp_path):
    """A file of three columns of numbers."""
    path = tmp_path / "vectors.csv"
    path.write_text("\n".join(LINES))
    return path


def shown(data):
    """Return the numbers that a page shows, for every item of a data set."""
    return [[words for *_, words in file_numbers(data, k)] for k in range(data.record["items"])]


@pytest.mark.parametrize("scale", ["l2", "none", "standardize+l2"])
def test_numbers_are_those_of_the_file(store, path, scale):
    """All numbers of the file are shown with all digits, zeros included, for imported and for appended items."""
    data = Dataset(store, datasets.import_file(store, path, "vectors", None, datasets.ImportRequest(scale=scale))[0])
    assert SHOWN == shown(data)
    assert ["a", "b", "c"] == [name for _, name, _ in file_numbers(data, 0)]
    path.write_text("\n".join([LINES[0], "7,8,9.25,1"]))
    sum(feeds.append_file(data, path), feeds.AppendCounts())
    assert [*SHOWN, ["7", "8", "9.25"]] == shown(data)
    assert (data.folder / numbers.NAME) in data.files
    data.check()


def test_numbers_of_a_sparse_file_are_those_that_it_names(store, tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 2:4 7:0.5\n-1 1:3\n1 7:100\n")
    data = Dataset(store, datasets.import_file(store, path, "rows", None, datasets.ImportRequest(features="plain"))[0])
    assert [["4", "0.5"], ["3"], ["100"]] == shown(data)
    assert ["2", "7"] == [name for _, name, _ in file_numbers(data, 0)]


def test_a_data_set_of_before_shows_its_rows(store, path):
    """If an older version stored no numbers, the scaled ones are shown, and items can still be appended."""
    request = datasets.ImportRequest(features="plain")
    data = Dataset(store, datasets.import_file(store, path, "vectors", None, request)[0])
    (data.folder / numbers.NAME).unlink()
    before = {name: sum for name, sum in data.checksums.items() if name != "numbers"}
    store.update_dataset(data.id, {"checksums": json.dumps(before)})
    data.refresh()
    assert [["0.8619", "0.507"], ["1", "-1.62e-06"], []] == shown(data)[:3]
    path.write_text("\n".join([LINES[0], "0,8,0,1"]))
    sum(feeds.append_file(data, path), feeds.AppendCounts())
    assert ["1"] == shown(data)[4]
    assert (data.folder / numbers.NAME) not in data.files


def test_of_many_columns_those_that_weigh_most_are_shown(store):
    """An item of many columns shows its largest numbers by absolute value, in the order of the file."""
    table = np.zeros((3, 60))
    table[0, [50, 3, 20]] = 1, -9, 4
    data = Dataset(store, datasets.add(store, "wide", made(table), "wide.npy"))
    assert [("4", "-9"), ("21", "4"), ("51", "1")] == [each[1:] for each in file_numbers(data, 0, 3)]
    sparse_data = Dataset(store, datasets.add(store, "sparse", made(sparse.csr_array(table)), "wide.npz"))
    assert file_numbers(data, 0, 3) == file_numbers(sparse_data, 0, 3)


def made(vectors):
    """Make a table of three vectors without labels."""
    names = [str(k + 1) for k in range(vectors.shape[1])]
    ids, y = list("abc"), np.zeros(3, np.int8)
    return datasets.table(reading.Items(ids, None, vectors, names, [""] * 3, y, {}))
