"""The engine of OAL Studio: online active learning under a label budget, without a user interface."""

import hashlib
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .places import cache_folder

if TYPE_CHECKING:
    from .estimator import OnlineActiveClassifier
    from .sessions.files.model_file import load_model, load_models
    from .studio import Studio

__version__ = "1.0.0"
# Modules outside this package with learners and rules of their own, named by the environment variable OAL_PLUGINS
PLUGINS = [name.strip() for name in os.environ.get("OAL_PLUGINS", "").split(",") if name.strip()]


def plugin_sources() -> list[Path]:
    """Return the source files of the plugins. For a plugin in a package these are all files of the package."""
    from importlib.util import find_spec

    files: list[Path] = []
    for name in sorted({name.partition(".")[0] for name in PLUGINS}):
        if spec := find_spec(name):
            folders = spec.submodule_search_locations
            files += [path for folder in folders or () for path in sorted(Path(folder).rglob("*.py"))]
            files += [] if folders or not spec.origin else [Path(spec.origin)]
    return files


def _machine_code_cache() -> str:
    """Return the folder of numba's cache of machine code, named by a hash of the sources of the kernel and the plugins.

    Numba itself checks only the file of the cached function, and would run stale code of a learner in another file.
    """
    sources = sorted((Path(__file__).parent / "kernel").rglob("*.py"))
    sources += plugin_sources() if PLUGINS else []
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    return str(cache_folder() / digest)


os.environ["NUMBA_CACHE_DIR"] = _machine_code_cache()
if numba := sys.modules.get("numba"):  # it has already read the environment
    numba.config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"]

MODULES = {  # {name that is imported at its first use: module}
    "OnlineActiveClassifier": "estimator",
    "Studio": "studio",
    "load_model": "sessions.files.model_file",
    "load_models": "sessions.files.model_file",
}
__all__ = ["__version__", *MODULES]


def __getattr__(name: str) -> Any:
    """Import a name at its first use: `import oal_engine` alone must stay quick."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    """List the exported names, imported or not."""
    return __all__


def did_you_mean(name: object, names: Iterable[object], closeness: float = 0.6) -> str:
    """Return the end of an error about an unknown name, such as " Did you mean PA or RPA?", or "" if none of the names
    is close to it. closeness: least similarity, from 0 to 1."""
    from difflib import get_close_matches

    by_name = {str(each).casefold(): str(each) for each in names}
    close = [by_name[each] for each in get_close_matches(str(name).casefold(), by_name, cutoff=closeness)]
    close = [each for each in close if each != str(name)]
    return f" Did you mean {' or '.join(close)}?" if close else ""
