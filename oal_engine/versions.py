"""The versions of the engine and of the software that its numbers may depend on."""

import platform

import numpy as np

from . import __version__


def versions() -> dict[str, str]:
    """Return the versions that numbers may depend on."""
    import numba

    return {
        "engine": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }
