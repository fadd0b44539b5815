"""The decisions of a session along its stream."""

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Decisions:
    """Arrays over the rounds: margin, predicted class, and whether the item was asked about. `rounds` rounds have
    passed.

    If the session asks several questions, the first axis of margins and predicted classes is the question.
    """

    margins: np.ndarray
    predicted: np.ndarray
    asked: np.ndarray
    rounds: int = 0

    @classmethod
    def empty(cls, *shape: int) -> "Decisions":
        """Return decisions of zeros in which no round has passed. shape: (rounds,), or (questions, rounds)."""
        return cls(np.zeros(shape), np.zeros(shape, np.int8), np.zeros(shape[-1], bool))

    def longer(self, rounds: int) -> "Decisions":
        """Return a copy with room for `rounds` rounds."""
        longer = Decisions.empty(*self.margins.shape[:-1], rounds)
        for new, old in zip(longer._arrays(rounds), self._arrays(rounds)):
            new[..., : old.shape[-1]] = old
        return replace(longer, rounds=self.rounds)

    def _arrays(self, rounds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.margins[..., :rounds], self.predicted[..., :rounds], self.asked[:rounds]

    @property
    def passed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The margins, predicted classes and whether each item was asked about, of the rounds that have passed."""
        return self._arrays(self.rounds)
