"""Leases: which annotator has which question of a session. No state depends on them."""

from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from ..store import Row, Store, now


class Held(NamedTuple):
    """The leases as one annotator sees them: their own questions, oldest first, and the questions that others have."""

    own: list[int]
    others: set[int]


@dataclass(frozen=True)
class Leases:
    """The leases of a session. After `seconds` a lease has run out, and its question may go to somebody else."""

    store: Store
    session: int
    seconds: float

    def annotators(self) -> set[str]:
        """Return the annotators who have a question whose lease has not run out."""
        return {row["annotator"] for row in self._live(self.store.leases(self.session))}

    def of(self, annotator: str) -> Held:
        """Return the questions of an annotator, and the questions of others whose leases have not run out."""
        rows = self.store.leases(self.session)
        own = [row["question"] for row in rows if row["annotator"] == annotator]
        return Held(own, {row["question"] for row in self._live(rows) if row["annotator"] != annotator})

    def _live(self, rows: list[Row]) -> list[Row]:
        """Return the leases that have not run out. If the clock was set back, one may begin in the future: if it begins
        later than a lease from now would end, it counts as run out."""
        lease = timedelta(seconds=self.seconds)
        first, last = now(lease), now(-lease)
        return [row for row in rows if first <= row["leased_at"] <= last]

    def give(self, question: int, annotator: str) -> None:
        """Lease a question to an annotator, ahead of the questions that they already have."""
        for id in (question, *self.of(annotator).own):
            self.store.lease(self.session, id, annotator)
