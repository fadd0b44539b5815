"""Leases: which annotator has which question of a session. No state depends on them."""

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from ..store import Row, Store, now


@dataclass
class Held:
    """The leases as one annotator sees them. own: their questions, oldest first."""

    leases: "Leases"
    annotator: str
    own: list[int]

    @cached_property
    def others(self) -> set[int]:
        """The questions that others have and whose leases have not run out, read at the first use: they are many."""
        return {row["question"] for row in self.leases.live() if row["annotator"] != self.annotator}


@dataclass(frozen=True)
class Leases:
    """The leases of a session. After `seconds` a lease has run out, and its question may go to somebody else."""

    store: Store
    session: int
    seconds: float

    def annotators(self) -> set[str]:
        """Return the annotators who have a question whose lease has not run out."""
        return {row["annotator"] for row in self.live()}

    def of(self, annotator: str) -> Held:
        """Return the questions of an annotator, and of others."""
        return Held(self, annotator, [row["question"] for row in self.store.leases(self.session, annotator)])

    def live(self) -> list[Row]:
        """Return the leases that have not run out. If the clock was set back, one may begin in the future: if it begins
        later than a lease from now would end, it counts as run out."""
        lease = timedelta(seconds=self.seconds)
        first, last = now(lease), now(-lease)
        return [row for row in self.store.leases(self.session) if first <= row["leased_at"] <= last]

    def give(self, question: int, annotator: str) -> None:
        """Lease a question to an annotator, ahead of the questions that they already have."""
        for id in (question, *self.of(annotator).own):
            self.store.lease(self.session, id, annotator)
