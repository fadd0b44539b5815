"""The same data give the same bytes on every processor."""

import os
import platform
import subprocess
import sys

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

from tests.harness import ROOT

pytestmark = pytest.mark.slow
ENVIRONMENTS = {
    "this": {"PYTHONHASHSEED": "0"},
    "plain": {  # numba, numpy, BLAS and the C library run as on the oldest processor; sets have another order
        "NUMBA_CPU_NAME": "generic",
        "NPY_DISABLE_CPU_FEATURES": " ".join(name for name in __cpu_dispatch__ if __cpu_features__.get(name)),
        "OPENBLAS_CORETYPE": "Prescott" if platform.machine() == "x86_64" else "ARMV8",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA,-FMA4",
        "PYTHONHASHSEED": "1",
    },
}


def test_everything_is_the_same_bytes_on_every_processor(tmp_path):
    """One import, session, export, report and published page of each kind has the same bytes in a process that uses no
    newer processor instructions."""
    processes = {}
    for name, environment in ENVIRONMENTS.items():
        (tmp_path / name).mkdir()
        command = [sys.executable, "-m", "tests.harness.one_of_each", tmp_path / name]
        processes[name] = subprocess.Popen(command, cwd=ROOT, env=os.environ | environment, stderr=subprocess.PIPE)
    content = {}
    for name, process in processes.items():
        errors = process.communicate()[1]
        assert process.returncode == 0, errors.decode()
        folder = tmp_path / name / "made"
        content[name] = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    this, plain = content.values()
    assert len(this) > 150
    assert [] == sorted(name for name in this.keys() | plain.keys() if this.get(name) != plain.get(name))
