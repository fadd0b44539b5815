"""Leases: which annotator has which question of a session. No state depends on them."""

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from ..store import Row, Store, now


@dataclass
class Held:
    """The leases as one annotator sees them. own: ids of the questions that they have, oldest lease first."""

    leases: "Leases"
    annotator: str
    own: list[int]

    @cached_property
    def others(self) -> set[int]:
        """The questions on which other annotators have unexpired leases. Read only when first used, as there may be
        many."""
        return {row["question"] for row in self.leases.live() if row["annotator"] != self.annotator}


@dataclass(frozen=True)
class Leases:
    """The leases of a session. A lease expires after `seconds`; then its question may go to somebody else."""

    store: Store
    session: int
    seconds: float

    def annotators(self) -> set[str]:
        """Return the annotators who have a question whose lease has not expired."""
        return {row["annotator"] for row in self.live()}

    def of(self, annotator: str) -> Held:
        """Return the leases as this annotator sees them."""
        return Held(self, annotator, [row["question"] for row in self.store.leases(self.session, annotator)])

    def live(self) -> list[Row]:
        """Return the leases that have not expired. If the clock was set back, a lease may begin in the future: it
        counts as expired if it begins more than `seconds` from now."""
        lease = timedelta(seconds=self.seconds)
        first, last = now(lease), now(-lease)
        return [row for row in self.store.leases(self.session) if first <= row["leased_at"] <= last]

    def give(self, question: int, annotator: str) -> None:
        """Lease a question to an annotator, ahead of the questions that they already have."""
        for id in (question, *self.of(annotator).own):
            self.store.lease(self.session, id, annotator)
