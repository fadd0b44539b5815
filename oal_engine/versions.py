"""The versions of the engine and of the software that its results may depend on."""

import hashlib
import platform
from importlib.metadata import version

import numpy as np

from . import PLUGINS, __version__, plugin_sources


def versions() -> dict[str, str]:
    """Return the versions that results may depend on: {name: version}."""
    return {
        "engine": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": version("numba"),
    } | ({"plugins": f"{', '.join(PLUGINS)} ({_digest()})"} if PLUGINS else {})


def _digest() -> str:
    """Return a hash of the sources of the plugins."""
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in plugin_sources())).hexdigest()[:8]
