"""Data sets: import a file once, then map its rows into memory."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .features.table import FeatureTable, file_table, made_rows, relabelled, table
    from .importing import MARK, ImportRequest, add, import_file, import_in_progress, remove, report, sweep
    from .stored import Dataset, columns_of, fingerprint, labelled, mapped, named_features

MODULES = {  # {module: its names, which are imported at their first use}
    "features.table": ("FeatureTable", "file_table", "made_rows", "relabelled", "table"),
    "importing": (
        "MARK", "ImportRequest", "add", "import_file", "import_in_progress", "remove", "report", "sweep",
    ),
    "stored": (
        "Dataset", "columns_of", "fingerprint", "labelled", "mapped", "named_features",
    ),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a name at its first use: to read a file must not wait for compiled code."""
    for module, names in MODULES.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
