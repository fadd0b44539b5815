"""What is made of the same data is the same bytes on every processor."""

import os
import platform
import subprocess
import sys

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

from tests.harness import ROOT

CHOSEN = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]  # by numpy, for this processor
PLAIN = {  # of numba, numpy, BLAS and the C library what the oldest processor would get; and sets in another order
    "NUMBA_CPU_NAME": "generic",
    "NPY_DISABLE_CPU_FEATURES": " ".join(CHOSEN),
    "OPENBLAS_CORETYPE": "Prescott" if platform.machine() == "x86_64" else "ARMV8",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA,-FMA4",
    "PYTHONHASHSEED": "1",
}


@pytest.mark.slow
def test_everything_is_the_same_bytes_on_every_processor(tmp_path):
    """One import, session, export, report and published page of each kind has the same bytes on a plain processor."""
    made = {}
    for name, environment in (("this", {"PYTHONHASHSEED": "0"}), ("plain", PLAIN)):
        (folder := tmp_path / name).mkdir()
        command = [sys.executable, "-m", "tests.harness.one_of_each", folder]
        done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        files = (path for path in (folder / "made").rglob("*") if path.is_file())
        made[name] = {str(path.relative_to(folder)): path.read_bytes() for path in files}
    this, plain = made["this"], made["plain"]
    assert len(this) > 200
    assert [] == sorted(name for name in this.keys() | plain.keys() if this.get(name) != plain.get(name))
