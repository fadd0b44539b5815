"""One of several questions of a session, as a run of its own: its labels and predictions, and the common chances.

Given the past, the chance of a reading depends on the item alone, so estimates and floors of one question hold with it.
"""

from dataclasses import replace

import numpy as np

from ..datasets.given import BOTH, stored_column
from ..kernel import stream
from ..kernel.learners import weights
from ..store import Row
from .fold import ALL_ROUNDS, NONE_KNOWN, Place, Run, Stream
from .look_back import Trace
from .session import Session


class OneQuestion(Run):
    """One of several questions of a session, or of its look back, as it is now: it shares the arrays, and only reads.

    name: of the question. part: its place among the questions. span: the rounds in which it is asked, as (first, stop).
    log: the entries that asked it, each with its margin and its label. decided, current, place, earlier: as of a
    session.
    """

    def __init__(self, run: Session | Trace, name: str) -> None:
        vars(self).update(vars(run))
        settings, k = run.settings, run.settings.place_of(name)
        self.part = k
        own = settings.questions[k] if settings.questions else {}
        self.settings = replace(
            settings, questions=None, guidelines=own.get("guidelines") or settings.guidelines, prior=own.get("prior"),
            positive_name=settings.positive_name if settings.audited else name,
            negative_name=settings.negative_name if settings.audited else f"not {name}",
        )  # fmt: skip
        self.name, self.priors = name, {part: prior for part, prior in run.priors.items() if part == k}
        self.several, self.names, self.y = 0, self.settings.names, run.y[k]
        self._stream = Stream(NONE_KNOWN, self.y, np.zeros(self.y.size, bool))
        self.span = run.state.spans[k]
        self.log = [entry.of_part(k) for entry in run.log if entry.asks(k)]
        self.state = run.state.of_part(k, {entry.number for entry in self.log})
        self.known_labels: dict[int, Row] = {}
        if isinstance(run, Session):
            margins, predicted, asked = run.decided
            self.decided = margins[k], predicted[k], asked
            self.current = run.current

    def _part(self, k: int = 0) -> stream.Parts:
        return super()._part(self.part)

    @property
    def span_in_words(self) -> str:
        """Say about which items the question is asked, if it was added or closed; else ""."""
        first, stop = self.span
        if self.span == ALL_ROUNDS:
            return ""
        until = f"s {first + 1:,} to {stop:,}" if stop < ALL_ROUNDS[1] else f" {first + 1:,} and all later ones"
        return f"Asked about item{until} of the stream. Its figures are about these."

    @property
    def place(self) -> Place:
        """The waiting question of the session, with the progress and the weights of this question."""
        return self.place_of(self.state, self.current)

    def earlier(self, answers: int) -> np.ndarray:
        """Return the learner's weights before the last `answers` answers, corrected ones as they are now."""
        return weights(self.taught(self.state.lessons[:-answers], self.state.budget).only().learner)


class OtherColumn(OneQuestion):
    """A further column of decisions, as a run of its own that the answers of an audit judge.

    Given the past, the chance of a reading depends on the item alone, so estimates hold with it; floors need a plan
    that knows the column, and do not.
    """

    def __init__(self, session: Session, name: str) -> None:
        super().__init__(session, BOTH)
        margins = stored_column(self.dataset, name, None, None, session.settings.positive_name).margins
        pushed, self.name = margins >= 0, name
        self.log = [
            replace(entry, margin=float(margins[entry.item]), predicted=1 if pushed[entry.item] else -1)
            for entry in self.log
        ]
        pushes = np.append(0, np.cumsum(pushed[self.order]))
        trail = list[tuple[int, np.ndarray]]()
        for rounds, counts in self.state.trail:
            own = np.zeros_like(counts)
            own[:, 1, 0] = rounds - pushes[rounds], pushes[rounds]
            trail.append((rounds, own))
        self.state = replace(self.state, trail=trail)


def part_of(session: Session, name: str | None) -> Session | OneQuestion:
    """Return one of the several questions of a session by its name (None: the session, which asks one)."""
    return session if name is None else OneQuestion(session, name)
