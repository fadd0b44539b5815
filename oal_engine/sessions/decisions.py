"""The decisions of a session along its stream."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Decisions:
    """Margin, predicted class and whether the item was asked, in each round; only the first `rounds` have passed."""

    margins: np.ndarray
    predicted: np.ndarray
    asked: np.ndarray
    rounds: int = 0

    @classmethod
    def empty(cls, rounds: int) -> "Decisions":
        """Return a record with room for `rounds` rounds, of which none has passed."""
        return cls(np.zeros(rounds), np.zeros(rounds, np.int8), np.zeros(rounds, bool))

    def longer(self, rounds: int) -> "Decisions":
        """Return a copy with room for `rounds` rounds."""
        margins, predicted, asked = (np.resize(part, rounds) for part in (self.margins, self.predicted, self.asked))
        return Decisions(margins, predicted, asked, self.rounds)

    @property
    def passed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Margins, predicted classes and whether each item was asked, of the rounds that have passed."""
        return self.margins[: self.rounds], self.predicted[: self.rounds], self.asked[: self.rounds]
