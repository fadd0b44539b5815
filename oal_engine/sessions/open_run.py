"""The state of an open session: rebuilt from its log, changed by each event, and continued when its data set grows.

The state is never stored, but computed from the log. The same data, settings and labels give the same state bit for
bit. The next question after each possible answer is computed and stored ahead, so that a page can show it the moment a
key is pressed. Items appended to the data set later come after the items that the session began with.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from ..kernel import jit
from ..kernel.draws import draw
from ..kernel.learners import plain_seconds
from ..kernel.spending import CANDIDATES, FIND
from ..store import Status, Store, now
from .fold import Run
from .labels import FILE, SKIP, KnownLabel, known_labels_of, labels_of_questions
from .log import Answered, Entry, Event, Grown, LabelsKnown, Log, StoredQuestion
from .reproducing import Reproduction
from .settings import Settings
from .state import Decisions, Place, State

OVERLAP, REPEAT = 0x2C1B3C6D, 0x297A2D39  # xor-ed with the seed: independent draws for second and repeated answers
BRANCH_LIMIT = 96 * 2**20  # bytes for the states after all possible answers; if they need more, none is prepared
FOLD_SECONDS = 0.004  # an answer in plain Python takes up to 0.01, and compiling longer than jit.LONG_SECONDS


class OpenRun(Run):
    """The state of an open session, and its current question. `Asking` and `Session` add answers and all other changes.

    version: number of changes to the log; every answer, undo, correction and mark counts as one.
    """

    def __init__(self, store: Store, session: int):
        super().__init__(store, Settings.read(store, session))
        self.id = session
        self._lock = threading.RLock()
        # {possible answer to the current question: (the state after it, computed ahead, and the id of its question)}
        self._branches: dict[int, tuple[State, int | None]] = {}
        self.version, self._stored_settings = 0, dict[str, object]()
        self._begins_with_file, self._last_later_label = store.begins_with(session, FILE), 0
        self._rebuild()
        self._take_later_labels()

    def _rebuild(self) -> None:
        """Fold the log again from the first round.

        If the prepared questions are stored already, nothing is written, so that a session can be opened while others
        write. In a read-only store, no new questions are prepared.
        """
        if self._begins_with_file and not self.store.read_only:
            self._store_labels_of_new_items()
        with self.store.snapshot():
            waiting, ahead = self._fold_log(), self._ahead()
            stored = self.store.prepared(self.id, waiting) if waiting else {}
        if (
            self._recorded == self.rounds  # else the growth of the stream must be logged
            and bool(waiting) == self.state.waits
            and all(
                not state.waits or self.facts(state.outstanding[state.number]).items() <= stored.get(label, {}).items()
                for label, state in ahead.items()
            )
        ):
            self._branches = {
                label: (state, stored[label]["id"] if state.waits else None) for label, state in ahead.items()
            }
            self._current = self._waiting(self.state, waiting)
            return
        if self.store.read_only:
            self._branches = {}
            self._current = self._waiting(self.state, waiting or 0) if self.state.waits else None
            return
        with self.store.transaction():
            if self.store.log_version(self.id) != self.version:  # somebody wrote meanwhile
                waiting, ahead = self._fold_log(), self._ahead()
            if self._recorded < self.rounds:
                self._record_growth(waiting)
            self._settle(waiting, ahead)

    def _fold_log(self) -> int | None:
        """Fold the log into the state, checking each question and digest. Return the waiting question's id, or None."""
        with self.store.snapshot():
            log, opinions = Log.read(self.store, self.id), self.store.opinions(self.id)
            if grown := self.grown:
                self.dataset.refresh()
            if self.several:  # somebody may have added a question
                self.settings = Settings.read(self.store, self.id)
                self.several, self.priors = len(self.settings.question_names), self.store.prior_weights(self.id)
            if grown or self.several:
                self._take()
        self._entries: list[Entry] = []  # cache of `log`: the answered entries that it has read
        self._undo_point: tuple[State, Decisions] | None = None  # before the last answer, if undo can restore it
        compared = min(CANDIDATES, self.rounds) * (self.settings.goal == FIND)
        with jit.whole_stream(None, len(log.order) * (FOLD_SECONDS + plain_seconds(self.dataset.rows, None, compared))):
            reproduction = Reproduction(self, log)
            for state in reproduction:
                self.state = state
        self._decisions = reproduction.decisions
        self.version = log.version
        self._changes, self._shared, self._recorded = log.changes, log.shared, log.rounds
        self._asked = [entry.id for entry in log.entries]
        self._ids = [self._asked[number - 1] for number in log.order]
        self._opinions = frozenset((row["question"], row["annotator"]) for row in opinions)
        self._by, self._old = {entry.id: entry.annotator or "" for entry in log.entries}, log.undone
        return self._asked[-1] if self.state.waits and len(self._asked) == self.state.number else None

    def _record_decisions(self) -> None:
        """Record the decisions of the rounds up to the waiting question, before the learner changes."""
        self._decisions = self.decide(self._decisions, self.state)

    def _ahead(self) -> dict[int, State]:
        """Compute the state after each possible answer to the waiting question, {label: state}. Return {} if the states
        would take too much memory, if other questions wait too or later rounds have passed, or if the session asks
        several questions, which has too many possible answers."""
        size = sum(array.nbytes for array in self.state.arrays()) * (1 + len(self.names))
        is_only = self.state.waits and [*self.state.outstanding] == [self.state.number]
        if not is_only or size > BRANCH_LIMIT or self.several:
            return {}
        return {label: self.apply(self.state.copy(), Answered(label)) for label in (*self.names, SKIP)}

    def _settle(self, question: int | None = None, ahead: dict[int, State] | None = None) -> None:
        """Make the waiting question the current one, and store the question that follows each possible answer.
        question: its id, if it is stored already. ahead: the states after these answers (None: compute them)."""
        ahead = self._ahead() if ahead is None else ahead
        number = self.state.number + (not self.state.waits)
        with self.store.transaction():
            question = (question or self._put_current()) if self.state.waits else None
            self.store.number_question(self.id, question, number, self._asked[number - 1 :] in ([], [question]))
            stored = self._put(question, {label: state for label, state in ahead.items() if state.waits})
        self._asked = [*self._asked[: number - 1], *([question] if question else [])]
        self._branches = {label: (state, stored.get(label)) for label, state in ahead.items()}
        self._current = self._waiting(self.state, question)

    def _put_current(self) -> int:
        """Store the question that waits in the state, and return its id."""
        label = next((lesson.label for lesson in reversed(self.state.lessons) if lesson.number), SKIP)
        parent = self._ids[-1] if self._ids else 0
        # If there are several questions, answers with the same summary label may lead to different items.
        return self._put(None if self._shared or self.several else parent, {label: self.state})[label]

    def _put(self, parent: int | None, states: Mapping[int, State]) -> dict[int, int]:
        """Store the questions of states, {answer to the question `parent`: state after it}. Return their ids, {answer:
        id}. parent: None if the question follows no single question."""
        coins = [(n, seed) for n, seed in (("overlap", OVERLAP), ("repeat", REPEAT)) if getattr(self.settings, n)]
        questions = {
            label: {"asked_at": now()} | self.facts(state.outstanding[state.number]) | {
                name: int(draw(self.settings.seed ^ seed, state.question.t) < getattr(self.settings, name))
                for name, seed in coins
            }
            for label, state in states.items()
        }  # fmt: skip
        return self.store.put_questions(self.id, parent, questions)

    def _waiting(self, state: State, id: int | None, number: int | None = None) -> StoredQuestion | None:
        """Return a waiting question of a state. id: id under which the question is stored (None: return None). number:
        number of the question in the session (None: the question asked last)."""
        if id is None:
            return None
        number = number or state.number
        facts = self.facts(state.outstanding[number])
        del facts["draw"]
        return StoredQuestion(id=id, number=number, old=self._old.get(id), **facts)

    def _record_growth(self, waiting: int | None) -> None:
        """Store the current length of the stream in the log. In a file, the new items may be asked about before those
        of prepared questions, which a page may show already. waiting: id of the waiting question."""
        if self.settings.goal == FIND:
            self.store.part_prepared(self.id, self.previous, waiting)
        self.store.put_event(self.id, "grown", data={"rounds": self.rounds})
        self._recorded, self.version = self.rounds, self.store.count_change(self.id)

    # Called by pages

    def refresh(self) -> None:
        """Rebuild if another process has changed the log. Continue the stream if the data set has grown."""
        with self._all_or_nothing():
            self._catch_up(self.store.status(self.id))

    @contextmanager
    def still(self) -> Iterator[None]:
        """Refresh the session, and let no change in until the end, so that all that is read of it belongs together."""
        with self._lock:
            self.refresh()
            with self.store.snapshot():
                yield

    def _catch_up(self, status: Status) -> None:
        """Rebuild or continue the session if its stored status differs from its own."""
        if status.settings != self._stored_settings:
            self.settings, self._stored_settings = Settings.read(self.store, self.id), status.settings
        grown = not self.settings.audited and status.items > self.rounds
        if status.version != self.version or (grown and self._begins_with_file):
            self._rebuild()
        elif grown:
            with self.store.transaction():
                self._take_new_items()
        self._take_later_labels()

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Lock the session while it changes, and roll it back after an error."""
        with self._lock:
            before = dict(vars(self))
            try:
                yield
            except BaseException:
                vars(self).update(before)
                raise

    @property
    def grown(self) -> bool:
        """Whether the data set has items that are not in the stream yet."""
        return not self.settings.audited and self.store.length(self.dataset.id) > self.rounds

    def _take_new_items(self) -> None:
        """Append the new items to the stream, in the current state and in the prepared states. A state that had reached
        the end of the stream continues to its next question."""
        end, self._undo_point = self.rounds, None
        self.dataset.refresh()
        self._take()
        self._decisions = self._decisions.longer(self.rounds)
        if self.store.log_version(self.id) != self.version:
            self._rebuild()
            return
        states = (self.state, *(state for state, _ in self._branches.values()))
        self.state, waiting = self._grow(self.state), self._current.id if self._current else None
        self._record_growth(waiting)
        if self.settings.goal == FIND or any(state.question.t == end for state in states):
            self._record_decisions()
            self._settle(waiting)
        else:
            self._branches = {label: (self._grow(state), id) for label, (state, id) in self._branches.items()}

    def _store_labels_of_new_items(self) -> None:
        """Store the labels of newly appended items as known labels, before the stream grows to include these items."""
        if self.store.length(self.dataset.id) <= self._stored_rounds():
            return
        with self.store.transaction():
            rounds = self._stored_rounds()  # another process may have stored the growth meanwhile
            self.dataset.refresh()
            questions = self.settings.questions
            y = labels_of_questions(self.dataset, questions) if questions else self._session_labels(self.dataset.y)
            used = {row["item"] for row in self.store.events(self.id, "known")}
            items = [item for item in range(rounds, y.shape[-1]) if y[..., item].any() and item not in used]
            if items:
                last = self.store.answers(self.id, self.store.question_count(self.id) - 2)
                self.store.part_prepared(self.id, *(row["id"] for row in last))
                self.store.put_known(self.id, known_labels_of(y, items), FILE)
                self.store.count_change(self.id)

    def _stored_rounds(self) -> int:
        """Return the length of the stream that is recorded in the log, 0 if none is recorded."""
        grown = self.store.events(self.id, "grown")
        return int(grown[-1]["data"].get("rounds", 0)) if grown else 0

    def _take_later_labels(self) -> None:
        """Learn labels that were added to the data set later than their items, if the session began with the labels of
        the file. Items that were asked about, marked or known before are skipped."""
        if not self._begins_with_file or self.store.read_only or self.several:
            return
        if (last := self.store.last_later_label(self.dataset.id)) <= self._last_later_label:
            return
        later = self.store.later_labels(self.dataset.id, self._last_later_label)
        y = self._session_labels(np.array([row["y"] for row in later], np.int8)).tolist()
        with self.store.transaction():
            if self.store.log_version(self.id) != self.version:  # somebody wrote meanwhile
                self._rebuild()
            used = {row["item"] for row in self.store.events(self.id, "known")}
            labels = {row["item"]: label for row, label in zip(later, y) if label and row["item"] not in used}
            used = self.used(self.state)
            own = [
                KnownLabel(item, label) for item, label in labels.items() if item not in used and item < self.order.size
            ]
            if own:
                self._learn(own, FILE)
                self.version = self.store.count_change(self.id)
        self._last_later_label = last

    def _learn(self, labels: Sequence[KnownLabel], origin: str, event: str | None = None, annotator: str = "") -> None:
        """Store labels that are known from elsewhere, and learn them."""
        self.store.put_known(self.id, labels, origin, event, annotator)
        self._change(LabelsKnown((*labels,)))

    def _grow(self, state: State) -> State:
        """Return the state with its stream extended to the current length, leaving `state` unchanged."""
        own = state.copy() if state.question.t == state.rounds else replace(state)
        return self.apply(own, Grown(self.rounds))

    @property
    def place(self) -> Place:
        """The current place: the waiting question (None at the end), the progress, the weights and the counts."""
        with self._lock:
            return self.place_of(self.state, self._current)

    @property
    def current(self) -> StoredQuestion | None:
        """The waiting question, or None at the end."""
        with self._lock:
            return self._current

    def item_of(self, question: int) -> int | None:
        """Return the item of a question, by its id; None if the session does not have it."""
        current = self._current
        return current.item if current and current.id == question else self.store.item_of(self.id, question)

    def place_at(self, question: StoredQuestion | None) -> Place:
        """Return the current place for a person who has this question (None: they have none)."""
        with self._lock:
            return self.place_of(self.state, question)

    def places_after(self, question: StoredQuestion, following: StoredQuestion) -> dict[int, Place]:
        """Return the place after each possible answer to `question`, {label: place}, for a person whose next question,
        `following`, was asked already and does not depend on the answer."""
        place, places = self.place_at(following), {}
        if question.number not in self.state.outstanding:  # it has a label already
            return dict.fromkeys((*self.names, SKIP), place)
        for label in (*self.names, SKIP):
            done, answers = place.progress, dict(place.progress.answers)
            if label == SKIP:
                done = replace(done, skipped=done.skipped + 1)
            else:
                answers[label] += 1
                done = replace(done, labels=done.labels + 1, answers=answers)
            places[label] = replace(place, progress=done)
        return places

    @property
    def previous(self) -> int | None:
        """The id of the last answered question, which undo takes back, or None."""
        return self._ids[-1] if self._ids else None

    def _change(self, event: Event) -> None:
        """Apply a stored event to the state. A waiting question stays the current one."""
        self.store.part_prepared(self.id, self.previous, self._current.id if self._current else None)
        self._changes, self._entries, self._undo_point = self._changes + 1, [], None
        self.state = self.apply(self.state.copy(), event)
        self._record_decisions()
        self._settle(self._current.id if self._current else None)
