"""What a session with a positive class has come to when it ends."""

from typing import NamedTuple

import numpy as np

from ..kernel import rows
from ..kernel.query_rules import paceable
from ..output.tables import chunks
from . import model
from .session import Session

FEWEST = 5  # positive answers: with fewer nothing is said of asking at random


class Outcome(NamedTuple):
    """The labels given and the positives among them; the share of positives in the stream as far as it was asked, from
    the stored probabilities (None: it cannot be said); and for each round whether its item is in the list: answered as
    positive, or predicted positive by the model as it is now and not answered otherwise."""

    labels: int
    positives: int
    share: float | None
    listed: np.ndarray

    def sentences(self, name: str) -> list[str]:
        """The same in sentences, for a positive class of this name."""
        if not self.labels:
            return []
        hits = (
            f"{self.positives:,} of {self.labels:,} answers are {name}: {_in_a_hundred(self.positives / self.labels)}."
        )
        if self.share is not None:
            hits += f" Asked at random, about {_in_a_hundred(self.share)} would have been."
        return [hits, f"The list of positives has {self.listed.sum():,} of {self.listed.size:,} items."]


def _in_a_hundred(share: float) -> str:
    return f"{100 * share:.2g} in a hundred" if share < 0.995 else "all"


def of_session(session: Session) -> Outcome:
    """The outcome of a session as it is now; ModelError where its learner is not linear."""
    labels = np.array([(entry.round, entry.label, entry.probability) for entry in session.log if entry.label])
    asked, answers, chances = labels.reshape(-1, 3).T
    listed = margins(session) >= session.settings.theta
    listed[asked.astype(int)] = answers > 0
    positives, share = int((answers > 0).sum()), None
    if positives >= FEWEST and session.settings.rule in paceable():
        share = float(np.average(answers > 0, weights=1 / chances))
    return Outcome(answers.size, positives, share, listed)


def margins(session: Session) -> np.ndarray:
    """The margin of each round's item under the model as it is now, of K classes the gap between the two best."""
    made, order, out = model.of_session(session), session.order, np.empty(session.order.size)
    for t in chunks(order.size):
        out[t.start : t.stop], _ = made.decided(made.scores(rows.take(session.dataset.rows, order[t.start : t.stop])))
    return out
