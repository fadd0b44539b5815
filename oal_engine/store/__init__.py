"""The store: one SQLite file with data sets, items, vocabularies, sessions, questions, events and comparisons.

All SQL about these tables is in this package. Numeric rows are memory-mapped files in a folder next to the database.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from ..places import database_path
from .comparisons import Comparisons
from .database import JSON, ConflictError, MissingError, Row, StorageError, StoreError, decoded, now
from .datasets import DataSets
from .fields import REMARKS
from .log import History, Status
from .sessions import ADDRESS, RESTORABLE, ROLES, Sessions, address, digest_of

__all__ = [
    "ADDRESS", "RESTORABLE", "ROLES", "ConflictError", "History", "MissingError", "Row", "Status", "StorageError",
    "Store", "StoreError", "address", "digest_of", "now",
]  # fmt: skip


class Store(DataSets, Sessions, Comparisons):
    """The database of OAL Studio, with a method for every query and every change of its tables."""

    def __init__(self, path: Path | str | None = None, read_only: bool = False, patience: float = 30):
        super().__init__(path or database_path(), read_only, patience)

    def problems(self) -> list[str]:
        """Check the database, and return its faults as sentences. If SQLite itself finds no damage, look for references
        to missing rows, data sets with a wrong number of items, data sets that share a folder of rows, answers that do
        not follow from the events of their session, and JSON values that the store never writes."""
        with self.snapshot():
            if damage := self.damage():
                return damage
            lost = self.query("PRAGMA foreign_key_check")
            short = self.query(
                "SELECT name, items, (SELECT count(*) FROM items WHERE dataset = datasets.id) AS present"
                " FROM datasets WHERE items != present"
            )
            shared = self.query("SELECT folder FROM datasets GROUP BY folder HAVING count(*) > 1")
            stale = [row["id"] for row in self.query("SELECT id FROM sessions") if not self._answers_follow(row["id"])]
            return [
                *(f"{row['table']} refers to a row of {row['parent']} that is missing" for row in lost[:20]),
                *(f"the data set {row['name']} has {row['present']:,} items, not {row['items']:,}" for row in short),
                *(f"two data sets have the same rows, {row['folder'][:80]!r}" for row in shared),
                *(f"the answers of session {session} do not follow from its events" for session in stale[:20]),
                *islice(self._not_json(), 20),
            ]

    def damage(self) -> list[str]:
        """Return the faults that SQLite itself finds in the file and in the types of its values."""
        checks = self.query("PRAGMA integrity_check(20)")
        return [" ".join(row["integrity_check"].split()) for row in checks if row["integrity_check"] != "ok"]

    def _not_json(self) -> Iterator[str]:
        """Yield a sentence about each value that should be JSON of a certain type but is not."""
        for row in self.query(
            "SELECT session, number, data FROM events"
            " WHERE CASE WHEN json_valid(data) THEN json_type(data) != 'object' ELSE data IS NOT NULL END"
            f" AND kind NOT IN {REMARKS}"
        ):
            yield f"event {row['number']:,} of session {row['session']}: data cannot be {row['data'][:40]!r}"
        for table in ("datasets", "sessions", "comparisons", "annotators"):
            for row in self.query(f"SELECT * FROM {table}"):
                try:
                    decoded(row, *(row.keys() & JSON.keys()))
                except StorageError as error:
                    yield f"{table} {row['name'][:80]}: {error}".removesuffix(".")
