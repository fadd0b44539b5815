"""The truncated singular value decomposition agrees with numpy's, and has the same bits on every machine."""

import os
import subprocess
import sys
from zlib import crc32

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import subspace_angles

from oal_engine.kernel import rows, truncated_svd
from tests.harness import ROOT


def texts(n=600, terms=400, topics=12, seed=0):
    """Return unit-length rows of term frequencies of random texts, with topic sizes and word frequencies that fall off
    as in real texts."""
    rng = np.random.default_rng(seed)
    words = rng.dirichlet(np.full(terms, 0.05), topics)
    topic = rng.choice(topics, n, p=(chances := 0.8 ** np.arange(topics)) / chances.sum())
    X = np.array([rng.multinomial(rng.integers(5, 40), words[k]) for k in topic], float)
    return sparse.csr_array(X / np.linalg.norm(X, axis=1, keepdims=True))


def test_the_directions_are_those_of_scipy():
    """The directions are orthonormal, ordered by strength, and span the space of the exact decomposition."""
    X = texts()
    directions = truncated_svd.strongest(rows.as_rows(X), 12)
    exact = np.linalg.svd(X.toarray())[2][:12]
    np.testing.assert_allclose(directions.T @ directions, np.eye(12), atol=1e-8)
    strengths = np.linalg.norm(X @ directions, axis=0)
    np.testing.assert_allclose(strengths, np.linalg.norm(X @ exact.T, axis=0), rtol=1e-4)
    assert (np.diff(strengths) < 0).all()
    assert subspace_angles(directions, exact.T).max() < 0.02


def test_as_much_is_explained_where_strengths_hardly_fall():
    """If all directions are about equally strong, as in rows without topics, the directions explain at least 98 % of
    what the exact ones explain."""
    X = sparse.random_array((300, 200), density=0.05, rng=np.random.default_rng(3))
    directions = truncated_svd.strongest(rows.as_rows(X), 20)
    best = (np.linalg.svd(X.toarray(), compute_uv=False)[:20] ** 2).sum()
    assert ((X @ directions) ** 2).sum() > 0.98 * best


def test_there_are_no_more_directions_than_the_rows_have():
    X = np.outer(np.arange(1.0, 9), [1, 2, 0, 1, 0]) + np.outer([1, 0] * 4, [0, 0, 1, 0, 3])
    directions = truncated_svd.strongest(rows.as_rows(sparse.csr_array(X)), 5)
    assert (5, 2) == directions.shape
    np.testing.assert_allclose(X @ directions @ directions.T, X, atol=1e-9)


def digest():
    """Return a checksum of the directions of a few texts."""
    return crc32(truncated_svd.strongest(rows.as_rows(texts(60, 40, 4)), 5).tobytes())


@pytest.mark.slow
@pytest.mark.parametrize("machine", [{"NUMBA_CPU_NAME": "generic"}, {"NUMBA_OPT": "1"}, {"NUMBA_DISABLE_JIT": "1"}])
def test_the_bits_are_the_same_on_every_machine(machine, tmp_path):
    """The directions have the same bits on a processor without wide registers, with a weaker compiler and in plain
    Python."""
    environment = os.environ | machine | {"XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", "from tests.kernel.test_truncated_svd import digest; print(digest())"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert f"{digest()}\n" == done.stdout, done.stderr
