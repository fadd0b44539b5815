"""The tables of comparisons and their jobs."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .database import Database, Row, decoded, now, writes


class Comparisons(Database):
    """The methods of `Store` for comparisons, their replays and their jobs."""

    @writes
    def add_comparison(
        self, name: str, specification: Mapping[str, Any], versions: Mapping[str, str], datasets: Iterable[int | None]
    ) -> int:
        """Insert a comparison that is to be run, and return its id. datasets: ids of its data sets, in the order of the
        specification (None: not imported yet)."""
        values = {"specification": specification, "versions": versions, "datasets": [*datasets]}
        return self._add("comparisons", {"name": name} | {key: json.dumps(value) for key, value in values.items()})

    @writes
    def put_lines(self, comparison: int, lines: Iterable[Row], finished: bool = False) -> None:
        """Store the result lines that are complete so far. finished: whether the comparison is complete."""
        self.db.execute(
            "UPDATE comparisons SET lines = ?, finished_at = coalesce(finished_at, ?) WHERE id = ?",
            [json.dumps(lines), now() if finished else None, comparison],
        )

    COMPARISON = (
        "id, name, specification, versions, datasets, lines IS NOT NULL AS has_lines, created_at, finished_at,"
        " (SELECT count(*) FROM replays WHERE comparison = comparisons.id) AS replays"
    )

    def comparisons(self) -> list[Row]:
        """Return all comparisons, newest first, with the number of their stored replays, but without their lines."""
        rows = self.query(f"SELECT {self.COMPARISON} FROM comparisons ORDER BY id DESC")
        return [decoded(row, "specification", "versions", "datasets") for row in rows]

    def comparison(self, key: int | str, lines: bool = True) -> Row:
        """Return a comparison by its id or name, with its result lines if `lines`."""
        more = ["lines"] if lines else []
        row = self._by_key("comparison", "comparisons", ", ".join([self.COMPARISON, *more]), key)
        return decoded(row, "specification", "versions", "datasets", *more)

    def has_comparison(self, name: str) -> bool:
        """Return whether a comparison of this name exists."""
        return self.one("SELECT 1 FROM comparisons WHERE name = ?", name) is not None

    def removed_comparison(self, comparison: int) -> bool:
        """Return whether there was a comparison with this id, but not now."""
        last = self.number("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'comparisons'")
        return 0 < comparison <= last and not self.one("SELECT 1 FROM comparisons WHERE id = ?", comparison)

    @writes
    def remove_comparison(self, comparison: int) -> None:
        """Delete a comparison with its replays."""
        self.db.execute("DELETE FROM comparisons WHERE id = ?", [comparison])

    @writes
    def put_replays(self, comparison: int, replays: Mapping[str, np.ndarray]) -> None:
        """Store the counts of finished replays, {job key: counts}. Replays that are stored already are not changed."""
        self.db.executemany(
            "INSERT OR IGNORE INTO replays (comparison, job, shape, counts) VALUES (?, ?, ?, ?)",
            ((comparison, job, json.dumps(counts.shape), counts.tobytes()) for job, counts in replays.items()),
        )

    def replays(self, comparison: int) -> dict[str, np.ndarray]:
        """Return the counts of the stored replays, {job key: counts}."""
        rows = self.query("SELECT job, shape, counts FROM replays WHERE comparison = ?", comparison)
        return {row["job"]: np.frombuffer(row["counts"], np.int64).reshape(json.loads(row["shape"])) for row in rows}

    # The jobs of comparisons

    def job(self, comparison: int) -> Row | None:
        """Return the job of a comparison (the process that runs it, or ran it last), or None."""
        return self.one("SELECT * FROM jobs WHERE comparison = ?", comparison)

    @writes
    def put_job(self, comparison: int, pid: int, started: str) -> None:
        """Record the process that now runs a comparison. started: its start time, which with the pid identifies it."""
        values = {"comparison": comparison, "pid": pid, "started": started, "state": "running"}
        self._insert("jobs", values, "OR REPLACE")

    RUNNING = "WHERE comparison = ? AND pid = ? AND state = 'running'"

    @writes
    def advance_job(self, comparison: int, pid: int, done: int, total: int) -> None:
        """Store the number of finished replays of a job (`done`) and of all its replays (`total`). The first call also
        stores `done` as the number of replays that were finished before the job began."""
        self.db.execute(
            "UPDATE jobs SET done = ?, total = ?, known = coalesce(known, ?), begun_at = coalesce(begun_at, ?)"
            f" {self.RUNNING}",
            [done, total, done, now(), comparison, pid],
        )

    @writes
    def end_job(self, comparison: int, pid: int, state: str, message: str | None = None) -> None:
        """Store how a job ended, unless it had ended before."""
        self.db.execute(f"UPDATE jobs SET state = ?, message = ? {self.RUNNING}", [state, message, comparison, pid])
