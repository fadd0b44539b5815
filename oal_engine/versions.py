"""What made a result: the versions of this engine and of what it computes with."""

import platform

import numpy as np

from . import __version__


def versions() -> dict[str, str]:
    """What numbers may depend on."""
    import numba

    return {
        "engine": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }
