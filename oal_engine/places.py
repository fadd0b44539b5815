"""Paths and the command-line name, in a clone and in an installed package."""

import os
from pathlib import Path

_PACKED = Path(__file__).parent / "data"
IS_INSTALLED = _PACKED.is_dir()  # a wheel has the demos inside the engine, a clone next to it
DATA = _PACKED if IS_INSTALLED else Path(__file__).parents[1] / "data"
PAPERS = DATA.with_name("papers")
COMMAND = "oal" if IS_INSTALLED else "python -m oal_engine"


def cache_folder() -> Path:
    """Return the folder of files that can be made again, in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oal-studio"


def database_path() -> Path:
    """Return the path of the database that app and command line share: the environment variable OAL_DB if it is set,
    else studio.db in the working directory (in a clone) or in the user's data folder (in an installed package)."""
    if named := os.environ.get("OAL_DB"):
        return Path(named)
    if not IS_INSTALLED:
        return Path("studio.db")
    from platformdirs import user_data_path

    return user_data_path("oal-studio", appauthor=False, ensure_exists=True) / "studio.db"
