"""The commands that list data sets and sessions; they import only the store, so that they start at once."""

import json

from ..store import Store
from .terminal import Db, Json, show

DATASET = ("id", "name", "kind", "items", "features", "positives", "negatives", "classes")
SESSION = ("id", "name", "algorithm", "labels", "budget", "positives", "skipped", "worked_at")


def datasets(db: Db = None, as_json: Json = False) -> None:
    """List the data sets."""
    keys = (*DATASET, "sessions", "source", "created_at")
    rows = [{key: row[key] for key in keys} for row in Store(db, read_only=True).datasets()]
    show({"datasets": rows}, as_json, *DATASET, "sessions")


def sessions(db: Db = None, as_json: Json = False) -> None:
    """List the sessions with their progress."""
    rows = [row | {"parameters": json.loads(row["parameters"])} for row in Store(db, read_only=True).sessions()]
    show({"sessions": rows}, as_json, *SESSION)
