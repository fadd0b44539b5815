"""The cache of machine code that processes share."""

from numba.core.caching import IndexDataCacheFile

import oal_engine.kernel.machine_code  # noqa: F401  # importing it changes how numba saves


def test_processes_that_compile_at_once_keep_their_code_apart(tmp_path):
    """If two processes save machine code while the cache's index is empty, each signature still leads to its own
    code."""
    one, other, third = (IndexDataCacheFile(tmp_path, "kernel", "stamp") for _ in range(3))
    one._load_index = other._load_index = dict
    one.save("signature of one", "code of one")
    index = (tmp_path / "kernel.nbi").read_bytes()
    other.save("signature of the other", "code of the other")
    assert third.load("signature of the other") == "code of the other"
    (tmp_path / "kernel.nbi").write_bytes(index)
    assert third.load("signature of one") == "code of one"
