"""One of several questions of a session, as a run of its own: its labels and predictions, and the common chances.

Given the past, the chance of a reading depends on the item alone, so estimates and floors of one question hold with it.
"""

from dataclasses import replace

import numpy as np

from ..kernel.learners import weights
from ..store import Row
from .fold import NONE_KNOWN, Place, Run, Stream
from .look_back import Trace
from .session import Session


class OneQuestion(Run):
    """One of several questions of a session, or of its look back, as it is now: it shares the arrays, and only reads.

    name: of the question. part: its place among the questions. log: the entries, each with the margin and the label of
    this question. decided, current, place, earlier: as of a session.
    """

    def __init__(self, run: Session | Trace, name: str) -> None:
        vars(self).update(vars(run))
        settings, k = run.settings, run.settings.place_of(name)
        self.part = k
        own = settings.questions[k]["guidelines"] if settings.questions else ""
        self.settings = replace(
            settings, questions=None, guidelines=own or settings.guidelines, positive_name=name,
            negative_name=f"not {name}",
        )  # fmt: skip
        self.several, self.names, self.y = 0, self.settings.names, run.y[k]
        self._stream = Stream(NONE_KNOWN, self.y, np.zeros(self.y.size, bool))
        self.state = run.state.of_part(k)
        self.log = [entry.of_part(k) for entry in run.log]
        self.known_labels: dict[int, Row] = {}
        if isinstance(run, Session):
            margins, predicted, asked = run.decided
            self.decided = margins[k], predicted[k], asked
            self.current = run.current

    @property
    def place(self) -> Place:
        """The waiting question of the session, with the progress and the weights of this question."""
        return self.place_of(self.state, self.current)

    def earlier(self, answers: int) -> np.ndarray:
        """Return the learner's weights before the last `answers` answers, corrected ones as they are now."""
        return weights(self.taught(self.state.lessons[:-answers], self.state.budget).only().learner)


def part_of(session: Session, name: str | None) -> Session | OneQuestion:
    """Return one of the several questions of a session by its name (None: the session, which asks one)."""
    return session if name is None else OneQuestion(session, name)
