"""A person's run over a stream: the question is stored before it is shown, the label before it is learned.

The state is never stored, only folded from the log: the same data, settings and labels give the same bits, which a
digest every DIGEST_EVERY answers proves. The next question under each possible answer is prepared ahead, so that a
page can show it the moment a key is pressed; each prepared question is stored like any other and becomes the next one
only when its answer is. Remaining budget is counted from the labels that stand. Items appended to the data set follow
those that the session began with, and the stream goes on.
"""

import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from ..kernel import rows, stream
from ..kernel.learners import weights
from ..store import now
from .fold import Run
from .log import Answered, Changed, Corrected, Grown, Log, Marked, StoredQuestion, read_entries
from .settings import SKIP, SessionError, Settings

DIGEST_EVERY = 50  # answers between two stored digests
BRANCH_LIMIT = 96 * 2**20  # bytes of the copies of a learner for all possible answers, where they are prepared


@dataclass(frozen=True)
class Decided:
    """The margin and the class predicted in every round of a stream, whether it was asked, and how many have passed."""

    margins: np.ndarray
    predicted: np.ndarray
    asked: np.ndarray
    rounds: int = 0

    @classmethod
    def empty(cls, rounds):
        return cls(np.zeros(rounds), np.zeros(rounds, np.int8), np.zeros(rounds, bool))

    def longer(self, rounds):
        """The same with room for a longer stream."""
        parts = (np.resize(part, rounds) for part in (self.margins, self.predicted, self.asked))
        return Decided(*parts, self.rounds)


class Session(Run):
    """An open session, safe to share between threads; opening it rebuilds the state from its log."""

    def __init__(self, store, session: int):
        super().__init__(store, Settings.read(store, session))
        self.id = session
        self._lock, self._decided = threading.RLock(), Decided.empty(0)
        self._rebuild()

    def _rebuild(self):
        """Fold the log again from the first round; what is stored for it already is not stored again, so that a session
        opens while others write. A store that is only read gets nothing prepared."""
        with self.store.snapshot():
            waiting, ahead = self._fold_log(), self._ahead()
            stored = self.store.prepared(waiting) if waiting else {}
        if bool(waiting) != self.ended(self.state) and all(
            map(self._is_stored, map(stored.get, ahead), ahead.values())
        ):
            self._branches = {
                label: (state, None if self.ended(state) else stored[label]["id"]) for label, state in ahead.items()
            }
            self._wait_for(waiting)
            return
        if self.store.read_only:
            self._branches = {}
            self._wait_for(waiting or 0)
            return
        with self.store.transaction():
            if self.store.log_version(self.id) != self.version:  # somebody wrote meanwhile
                waiting, ahead = self._fold_log(), self._ahead()
            self._settle(waiting, ahead)

    def _is_stored(self, stored, state):
        """Whether the question of a prepared state is stored as it is."""
        return self.ended(state) or (stored is not None and self.facts(state.question).items() <= stored.items())

    def _fold_log(self):
        """Bring the state to the end of the log, checking every question and digest; the id of the one that waits."""
        with self.store.snapshot():
            log = Log.read(self.store, self.id)
            if self.grown:
                self._take_more()
        self._decided, self._entries = Decided.empty(self.rounds), []
        for state in self.follow(log):
            self.state = state
            self._record_decisions()
        self._version, self._changes = log.version, len(log.changes)
        self._ids = [entry.id for entry in log.entries[: log.answers]]
        return None if len(log.entries) == log.answers else log.entries[-1].id

    def _record_decisions(self):
        """Write down what was decided in the rounds up to the question that waits, before the learner changes."""
        decided, t, rounds = self._decided, self.state.question.t, self.state.streamed
        stream.predict_rounds(
            self.dataset.rows, self.order, self.learner, self.state.objective.theta, decided.rounds, rounds,
            decided.margins, decided.predicted,
        )  # fmt: skip
        decided.asked[decided.rounds : rounds] = np.arange(decided.rounds, rounds) == t
        self._decided = replace(decided, rounds=rounds)

    def _ahead(self):
        """The state after each possible answer to the question that waits, where there is room for them."""
        if self.ended(self.state) or self._heavy:
            return {}
        return {label: self.apply(self.state.copy(), Answered(label)) for label in (*self.names, SKIP)}

    def _settle(self, question=None, ahead=None):
        """Make the waiting question the current one, and store the next one under each possible answer."""
        parent, label = (self._ids[-1], self.state.labels[-1]) if self._ids else (0, 0)
        with self.store.transaction():
            if not self.ended(self.state):
                question = question or self._put(self.state.question, parent, label)
            self.store.number_question(self.id, question, len(self._ids) + 1)
            self._branches = {
                label: (state, None if self.ended(state) else self._put(state.question, question, label))
                for label, state in (self._ahead() if ahead is None else ahead).items()
            }
        self._wait_for(question)

    def _wait_for(self, question):
        """Have a stored question wait for its answer; none at the end."""
        ended = self.ended(self.state)
        self._current = None if ended else self._asked(self.state.question, question, len(self._ids) + 1)

    @property
    def _heavy(self):
        return sum(array.nbytes for array in self.state.arrays()) * (1 + len(self.names)) > BRANCH_LIMIT

    def _put(self, question, parent, branch):
        return self.store.put_question(
            {
                "session": self.id,
                "parent": parent,
                "branch": branch,
                **self.facts(question),
                "asked_at": now(),
            }
        )

    def _asked(self, question, id, number):
        old = self.store.old_label(id)
        return StoredQuestion(
            id,
            number,
            question.t,
            int(self.order[question.t]),
            question.margin,
            question.probability,
            question.predicted,
            None if old is None else old["label"],
            question.audit,
        )

    # What a page does

    def refresh(self):
        """Rebuild where another process has answered since, and go on where the data set has grown."""
        with self._lock:
            if self.store.log_version(self.id) != self.version:
                self._rebuild()
            elif self.grown:
                with self.store.transaction():
                    self._go_on()

    @property
    def grown(self):
        """Whether the data set has items that the session has not taken yet."""
        return self.store.length(self.dataset.id) > self.rounds

    def _take_more(self):
        self.dataset.refresh()
        self._take()
        self._decided = self._decided.longer(self.rounds)

    def _go_on(self):
        """Take the items that came, and run on what had reached the end: the state, or what is prepared."""
        end = self.rounds
        self._take_more()
        if self.store.log_version(self.id) != self.version:
            self._rebuild()
            return
        known = (self.state, *(state for state, _ in self._branches.values()))
        self.state = self._grow(self.state)
        if any(state.question.t == end for state in known):
            self._record_decisions()
            self._settle(self._current and self._current.id)
        else:
            self._branches = {label: (self._grow(state), id) for label, (state, id) in self._branches.items()}

    def _grow(self, state):
        """A state with the stream as long as it is now; the one given stays as it is."""
        own = state.copy() if state.question.t == state.rounds else replace(state)
        return self.apply(own, Grown(self.rounds))

    @property
    def place(self):
        """The question that waits, or None at the end, and the progress."""
        with self._lock:
            return self.place_of(self.state, self._current)

    @property
    def branches(self):
        """The place after each possible answer to the question that waits, where it is prepared."""
        with self._lock:
            number = len(self._ids) + 2
            return {
                label: self.place_of(state, following and self._asked(state.question, following, number))
                for label, (state, following) in self._branches.items()
            }

    @property
    def previous(self):
        """The id of the question answered last, which undo takes back, or None."""
        return self._ids[-1] if self._ids else None

    @contextmanager
    def _event(self, event):
        """All or nothing of what an event changes, here and in the database: gives whether it is new."""
        with self._lock:
            self.refresh()  # what it prepares stays, whatever comes of the rest
            kept = dict(vars(self))
            try:
                with self.store.transaction():
                    self.refresh()
                    new = not self.store.event(event)
                    yield new
                    if new:
                        self._version = self.store.count_change(self.id)
            except BaseException:
                vars(self).update(kept)
                raise

    def _checked(self, label):
        if label not in (*self.names, SKIP):
            raise SessionError(f"a label must be {', '.join(map(str, self.names))} or 0 (skip). Got {label}.")

    def answer(self, event, question, label, annotator="", seconds=None, highlighted=None):
        """Store and learn an answer (a class or SKIP); an event that is known changes nothing."""
        self._checked(label)
        with self._event(event) as new:
            if not new:
                return
            if not self._current or question != self._current.id:
                raise SessionError(self._why_not(question))
            self.store.put_label(event, question, label, annotator, seconds, highlighted)
            prepared = self._branches.get(label)
            self._ids = [*self._ids, question]
            self.state, following = prepared or (self.apply(self.state.copy(), Answered(label)), None)
            self._record_decisions()
            self._settle(following)
            if len(self._ids) % DIGEST_EVERY == 0:
                self.store.put_digest(self.id, len(self._ids), self.state.digest())

    def _why_not(self, question):
        standing = self.store.standing_label(question)
        if standing:
            return f"this item was answered already by {standing['annotator'] or 'somebody'}."
        return "this item is not the one that is asked now."

    def undo(self, event, question):
        """Take back the last answer, the one to this question, and rebuild; a known event changes nothing."""
        with self._event(event) as new:
            if not new:
                return
            if question != self.previous:
                raise SessionError("only the last answer can be taken back.")
            self.store.undo_label(question, event)
            self.store.shorten_log(self.id, len(self._ids) - 1)
            if self._changes:  # the question that waited may be about another item when it comes again
                self.store.number_question(self.id, question, len(self._ids))
                self.store.drop_prepared(self.id)
            self._rebuild()

    def correct(self, event, question, label, annotator="", seconds=None, highlighted=None):
        """Replace an answer given before (a skip too), or do nothing where it is the same or the event is known.

        What happened in the stream stays: the questions, their chances, what was pushed. The learner is taught again
        with the answers that stand now, and goes on from there.
        """
        self._checked(label)
        with self._event(event) as new:
            if not new:
                return
            if question not in self._ids:
                raise SessionError("only an item that was answered can be corrected.")
            number = 1 + self._ids.index(question)
            old = self.state.labels[number - 1]
            if label == old:
                return
            if old == SKIP:
                self._spend("an answer to a skipped item")
            position = len(self._ids)
            self.store.put_label(event, question, label, annotator, seconds, highlighted, position, self._end)
            self._change(Corrected(number, label))

    @property
    def _end(self):
        """The round that the stream would go on with, or None while a question waits."""
        return None if self._current else self.rounds

    def _spend(self, what):
        """Refuse what costs a label where the budget has none left beside the one for the question that waits."""
        if self.settings.budget - self.state.spent <= (self._current is not None):
            last = "the last label is for the item that is asked now" if self.place.progress.left else "none is left"
            raise SessionError(f"{what} costs a label of the budget, and {last}.")

    def _change(self, change):
        """Teach the learner again after a change that is stored; the question that waits stays."""
        self.store.drop_prepared(self.id)
        self._changes, self._entries = self._changes + 1, []
        self.state = self.apply(self.state.copy(), Changed((change,)))
        self._settle(self._current and self._current.id)

    def feedback(self, event, item, wrong, annotator="", trains=False):
        """Store that an item which passed as positive without a question was passed wrongly (or, where `wrong` is
        False, take such a mark away); trains: it is learned as a negative and costs a label."""
        with self._event(event) as new:
            if not new:
                return
            passed = np.flatnonzero(self.order[: self._decided.rounds] == item)
            if not passed.size or self._decided.asked[passed[0]]:
                raise SessionError("only an item that passed without a question can be marked.")
            if trains and (not wrong or self.multiclass or self._decided.predicted[passed[0]] < 0):
                raise SessionError("only a wrong mark on an item that passed as positive can train.")
            known = {mark["item"]: mark for mark in self.store.feedback(self.id)}.get(item)
            if known and known["position"] is not None:
                raise SessionError("this mark has been learned: it stays.")
            if trains:
                self._spend("a mark that trains")
            position = len(self._ids) if trains else None
            self.store.put_feedback(event, self.id, item, wrong, annotator, position, self._end if trains else None)
            if trains:
                self._change(Marked(item))

    @property
    def marks(self):
        """The items that are marked as passed wrongly, and whether each mark was learned."""
        marks = self.store.feedback(self.id)
        return {mark["item"]: mark["position"] is not None for mark in marks if mark["wrong"]}

    def note(self, event, item, text, annotator=""):
        """Store a note on an item; an empty one takes it away."""
        if not 0 <= item < rows.length(self.dataset.rows):
            raise SessionError(f"a note must be on an item of the stream. Got {item}.")
        self.store.log_version(self.id)  # an error where the session was removed
        self.store.put_note(event, self.id, item, text, annotator)

    @property
    def notes(self):
        """The notes that stand, by item."""
        return self.store.notes(self.id)

    @property
    def changed(self):
        """What changes what is asked next besides answers: corrections, marks that train, a stream that grows."""
        return self._changes, self.rounds

    def earlier(self, answers):
        """The learner's weights as they were so many answers ago."""
        with self._lock:
            log = Log.read(self.store, self.id)
            return weights(self.taught(log.lessons(max(0, len(self._ids) - answers))).learner)

    @property
    def last_update(self):
        """The seconds that it took to learn the last answer and to find the next question."""
        return self.state.seconds

    @property
    def log(self):
        """The questions in order, with their answers. Only those are read that were not answered when it was read
        last: a long log read at every answer would keep others waiting."""
        with self._lock:
            newer = read_entries(self.store, self.id, len(self._entries))
            self._entries = [*self._entries, *(entry for entry in newer if entry.label is not None)]
            return [*self._entries, *(entry for entry in newer if entry.label is None)]

    @property
    def history(self):
        """The log, with the note on each item."""
        notes = self.notes
        return [replace(entry, note=notes[entry.item]) if entry.item in notes else entry for entry in self.log]

    @property
    def skipped(self):
        """The questions that stand skipped, in order."""
        return [entry.question(SKIP) for entry in self.log if entry.label == SKIP]

    @property
    def decided(self):
        """The margin, the class predicted and whether it was asked, of every round up to now."""
        with self._lock:
            decided, rounds = self._decided, self._decided.rounds
            return decided.margins[:rounds], decided.predicted[:rounds], decided.asked[:rounds]

    def digest(self):
        """The fingerprint of the state now."""
        return self.state.digest()

    @property
    def version(self):
        """How often the log was changed: by every answer, undo, correction and mark."""
        return self._version
