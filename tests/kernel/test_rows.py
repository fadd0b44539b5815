"""Mixed rows, which have a dense block after sparse columns, act as one vector in every formula, and are stored,
extended and checked."""

import os
import subprocess
import sys
from zlib import crc32

import numpy as np
import pytest
from scipy.sparse import csr_array

from oal_engine.datasets import row_files
from oal_engine.kernel import jit, rows
from oal_engine.kernel.rows import Row, add, dot, mixed_rows, quadratic, squared
from tests.harness import ROOT
from tests.harness.promises import mixed


def table(n=40, d=13, seed=0):
    """Return a table of numbers that float32 holds exactly, with rows and columns of zeros."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    X[3], X[5, :6], X[7, 6:] = 0, 0, 0
    return X.astype(np.float32).astype(np.float64)


@jit.entrance(lambda *_: 0.0)
def _products(table, w, s, sums):
    for i in range(len(sums)):
        x = Row(table, i)
        sums[i, 0], sums[i, 1], sums[i, 2] = dot(w, x), quadratic(s, x), squared(x)
        add(w, 0.5, x)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [2, 13, 32, 100])
def test_products_are_those_of_the_whole_row(columns):
    """The inner product, quadratic form, square and sum of mixed rows equal the results for dense rows."""
    X, rng = table(d=columns), np.random.default_rng(1)
    w, s, sums = rng.normal(size=columns), rng.random(columns), np.empty((40, 3))
    expected, twin = np.empty((40, 3)), w.copy()
    for i, x in enumerate(X):
        expected[i] = twin @ x, x @ (s * x), x @ x
        twin += 0.5 * x
    _products(mixed(X), w, s, sums)
    np.testing.assert_allclose(sums, expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(w, twin, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kind", ["sparse", "dense", "mixed"])
def test_the_entries_of_some_rows_are_found(kind):
    """`entries` finds the nonzero cells of chosen rows, row by row; of mixed rows, only those in the sparse part."""
    X, places = table(), np.array([5, 3, 0, 5])
    kept = mixed(X) if kind == "mixed" else rows.as_rows(X if kind == "dense" else csr_array(X))
    part = X[:, : kept.columns - kept.width] if kind == "mixed" else X
    for expected, actual in zip(np.nonzero(part[places]), rows.entries(kept, places)):
        np.testing.assert_array_equal(expected, actual)


def digest(form=jit.MACHINE):
    """Return a checksum of the products of mixed rows."""
    sums, rng = np.empty((40, 3)), np.random.default_rng(1)
    w, s = rng.normal(size=100), rng.random(100)
    with jit.form(form):
        _products(mixed(table(d=100)), w, s, sums)
    return crc32(sums.tobytes() + w.tobytes())


@pytest.mark.slow
@pytest.mark.parametrize("machine", [{"NUMBA_CPU_NAME": "generic"}, {"NUMBA_OPT": "1"}])
def test_products_are_the_same_bits_on_every_machine(machine, tmp_path):
    """The products of mixed rows have the same bits on a processor without wide registers and with a weaker
    compiler."""
    command = [sys.executable, "-c", "from tests.kernel.test_rows import digest; print(digest())"]
    environment = os.environ | machine | {"XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert f"{digest(jit.PLAIN)}\n" == done.stdout, done.stderr


def test_mixed_rows_are_kept_and_extended(tmp_path):
    """Mixed rows are saved, extended and memory-mapped unchanged, even if only the first rows are mapped. A truncated
    file is refused."""
    X = table()
    first, later = mixed(X[:25]), mixed(X[25:])
    row_files.save(first, tmp_path)
    written = row_files.extend(later, tmp_path, 25)
    kept = row_files.load(tmp_path, 40)
    assert {"indptr", "indices", "values", "block"} == set(written) == set(rows.arrays(kept))
    assert X.tolist() == rows.matrix(kept).toarray().tolist()
    assert X[:10].tolist() == rows.matrix(row_files.load(tmp_path, 10)).toarray().tolist()
    assert (
        row_files.checksums(rows.arrays(mixed(X)))["block"]
        == row_files.checksums(written, row_files.checksums(rows.arrays(first)))["block"]
    )
    assert (tmp_path / "block.npy").samefile(row_files.extent(kept.block)[0])
    (tmp_path / "block.npy").write_bytes((tmp_path / "block.npy").read_bytes()[:-4])
    with pytest.raises(ValueError, match=r"^block\.npy must be .* bytes long"):
        row_files.load(tmp_path, 40)


def test_mixed_rows_are_looked_at_as_others_are():
    """Selected rows, nonzero columns and the bytes of a mixed row cover the sparse and the dense part."""
    X = table()
    made = mixed(X)
    assert (40, 13) == (rows.length(made), made.columns)
    assert X[[5, 3, 30]].tolist() == rows.matrix(rows.take(made, [5, 3, 30])).toarray().tolist()
    for i in (3, 5, 7, 8):
        columns, values = rows.nonzero(made, i)
        assert (np.flatnonzero(X[i]).tolist(), X[i][X[i] != 0].tolist()) == (columns.tolist(), values.tolist())
    again = mixed(X[[4, 4, 5]])
    assert [True, False] == [rows.content(again, i) == rows.content(made, 4) for i in (1, 2)]


def test_a_column_of_the_block_is_none_of_the_sparse_part():
    """An index beyond the columns of the sparse part is refused, even if the dense block has a column with this
    index."""
    sparse = rows.as_rows(csr_array(np.eye(3)))
    wrong = mixed_rows(sparse._replace(columns=2), np.ones((3, 4)))
    with pytest.raises(ValueError, match=r"columns must be < 2\. Got 2"):
        row_files.check_columns(wrong)
