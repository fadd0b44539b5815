"""A person's run over a stream: the question is stored before it is shown, the label before it is learned.

The state is never stored, only folded from the log: the same data, settings and labels give the same bits, which a
digest every DIGEST_EVERY answers proves. The next question after each possible answer is prepared ahead, so that a page
can show it the moment a key is pressed; it is stored like any other, and becomes the next one when that answer is
given. The remaining budget is counted from the labels that stand. Items appended to the data set follow those that the
session began with, and the stream goes on.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import takewhile
from math import inf
from time import monotonic

import numpy as np

from ..kernel import rows, stream
from ..kernel.draws import draw
from ..kernel.learners import weights
from ..store import Store, now
from .fold import Place, Run, State
from .log import (
    Answered,
    Asked,
    Changed,
    Corrected,
    Entry,
    Event,
    Grown,
    LabelsAdded,
    Log,
    Marked,
    StoredQuestion,
    read_entries,
    unseen,
)
from .settings import MOST_LABELS, SKIP, SessionError, Settings, whole

DIGEST_EVERY = 50  # answers between two stored digests
OVERLAP, REPEAT = 0x2C1B3C6D, 0x297A2D39  # tell the coins of a second answer, and of one given again, from asking
HANDOVER = 5.0  # seconds in which a page that was offered prepared questions has looked again
REPEAT_AFTER = 20  # answers of somebody before they are asked a question again
BRANCH_LIMIT = 96 * 2**20  # bytes that the states after all possible answers may take to be prepared


class AnsweredSince(SessionError):
    """An answer that cannot be taken back, for others have answered since; it can be corrected."""


@dataclass(frozen=True)
class Decisions:
    """The margin and the class predicted in every round of a stream, whether it was asked, and how many rounds have
    passed."""

    margins: np.ndarray
    predicted: np.ndarray
    asked: np.ndarray
    rounds: int = 0

    @classmethod
    def empty(cls, rounds: int) -> "Decisions":
        """Room for so many rounds, of which none has passed."""
        return cls(np.zeros(rounds), np.zeros(rounds, np.int8), np.zeros(rounds, bool))

    def longer(self, rounds: int) -> "Decisions":
        """The same with room for a longer stream."""
        margins, predicted, asked = (np.resize(part, rounds) for part in (self.margins, self.predicted, self.asked))
        return Decisions(margins, predicted, asked, self.rounds)


class Session(Run):
    """An open session, safe to share between threads; opening it rebuilds the state from its log.

    version: how often the log was changed, by every answer, undo, correction and mark.
    """

    def __init__(self, store: Store, session: int):
        super().__init__(store, Settings.read(store, session))
        self.id = session
        self._lock = threading.RLock()
        self._branches: dict[int, tuple[State, int | None]] = {}  # by answer: what follows it, and its question's id
        self._offered = self._wanted = -inf  # when a page was last given these, and when somebody else last came
        self._comings, self._holder = 0, ""  # how often somebody else came, and who was given these
        self._beside: dict[str, int] = {}  # by annotator: the question of their last answer, where it gave no label
        self.version = 0
        self._rebuild()

    def _rebuild(self) -> None:
        """Fold the log again from the first round. What the database already holds is not written again, so that a
        session opens while others write; where the store is read-only nothing is prepared."""
        with self.store.snapshot():
            waiting, ahead = self._fold_log(), self._ahead()
            stored = self.store.prepared(self.id, waiting) if waiting else {}
        if (
            self._recorded == self.rounds  # else the log has to say that the stream has grown
            and bool(waiting) == self.state.waits
            and all(
                not state.waits or self.facts(state.question).items() <= stored.get(label, {}).items()
                for label, state in ahead.items()
            )
        ):
            self._branches = {
                label: (state, stored[label]["id"] if state.waits else None) for label, state in ahead.items()
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
            if self._recorded < self.rounds:
                self._record_growth()
            self._settle(waiting, ahead)

    def _fold_log(self) -> int | None:
        """Bring the state to the end of the log, checking every question and digest; the id of the waiting question."""
        with self.store.snapshot():
            log = Log.read(self.store, self.id)
            if self.grown:
                self.dataset.refresh()
                self._take()
        self._decisions = Decisions.empty(self.rounds)
        self._entries: list[Entry] = []  # those answered, as far as `log` has read them
        self._before: tuple[State, Decisions] | None = None  # what undo goes back to, if it can
        for state in self.follow(log):
            self.state = state
            self._record_decisions()
        self.version = log.version
        self._changes, self._shared, self._recorded = log.changes, log.shared, log.rounds
        self._asked = [entry.id for entry in log.entries]
        self._ids = [self._asked[number - 1] for number in log.order]
        self._by = {entry.id: entry.annotator or "" for entry in log.entries}
        return self._asked[-1] if self.state.waits and len(self._asked) == self.state.number else None

    def _record_decisions(self) -> None:
        """Record what was decided in the rounds up to the waiting question, before the learner changes."""
        made, state, rounds = self._decisions, self.state, self.state.streamed
        stream.predict_rounds(
            self.dataset.rows, self.order, self.learner, state.objective.theta, state.since, rounds,
            made.margins, made.predicted,
        )  # fmt: skip
        made.asked[state.since : rounds] = False
        if state.since <= state.question.t < rounds:
            made.asked[state.question.t] = True
        self._decisions = Decisions(made.margins, made.predicted, made.asked, rounds)

    def _ahead(self) -> dict[int, State]:
        """The state after each possible answer to the waiting question, where there is memory for them."""
        size = sum(array.nbytes for array in self.state.arrays()) * (1 + len(self.names))
        if [*self.state.outstanding] != [self.state.number] or size > BRANCH_LIMIT:
            return {}
        return {label: self.apply(self.state.copy(), Answered(label)) for label in (*self.names, SKIP)}

    def _settle(self, question: int | None = None, ahead: dict[int, State] | None = None) -> None:
        """Make the waiting question the current one, and store the next one after each possible answer."""
        label = next((lesson.label for lesson in reversed(self.state.lessons) if lesson.number), SKIP)
        parent = self._ids[-1] if self._ids else 0
        with self.store.transaction():
            if waits := self.state.waits:
                question = question or self._put(self.state, None if self._shared else parent, label)
                self._asked = [*self._asked[: self.state.number - 1], question]
            else:
                question, self._asked = None, self._asked[: self.state.number]
            self.store.number_question(self.id, question, self.state.number + (not waits))
            self._branches = {
                label: (state, self._put(state, question, label) if state.waits else None)
                for label, state in (self._ahead() if ahead is None else ahead).items()
            }
        self._wait_for(question)

    def _wait_for(self, question: int | None) -> None:
        """Make a stored question the one that waits for its answer; none at the end."""
        self._current = self._waiting(self.state, question) if self.state.waits else None

    def _put(self, state: State, parent: int | None, branch: int) -> int:
        """Store the question of a state, which follows an answer (`branch`) to its parent, or (None) none alone; its
        id."""
        place = {"session": self.id, "parent": parent, "branch": branch, "asked_at": now()}
        for coin, seed in (("overlap", OVERLAP), ("repeat", REPEAT)):
            if share := getattr(self.settings, coin):
                place[coin] = int(draw(self.settings.seed ^ seed, state.question.t) < share)
        return self.store.put_question(place | self.facts(state.question))

    def _waiting(self, state: State, id: int | None, number: int | None = None) -> StoredQuestion | None:
        """The question of a state with a number (None: the last one), which is stored under an id (None: it has
        none)."""
        if id is None:
            return None
        number = number or state.number
        facts = self.facts(state.outstanding[number].question)
        del facts["draw"]
        return StoredQuestion(id=id, number=number, old=self.store.old_label(self.id, id), **facts)

    def _record_growth(self) -> None:
        """Store that the stream is as long as it is now."""
        self.store.put_event(self.id, "grown", data={"rounds": self.rounds})
        self._recorded, self.version = self.rounds, self.store.count_change(self.id)

    # What a page does

    def refresh(self) -> None:
        """Rebuild where another process has changed the log, and go on where the data set has grown."""
        with self._all_or_nothing():
            if self.store.log_version(self.id) != self.version:
                self._rebuild()
            elif self.grown:
                with self.store.transaction():
                    self._go_on()

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Let nobody see the session while it changes, and restore it after an error."""
        with self._lock:
            before = dict(vars(self))
            try:
                yield
            except BaseException:
                vars(self).update(before)
                raise

    @property
    def grown(self) -> bool:
        """Whether the data set has items that the session has not taken yet."""
        return self.store.length(self.dataset.id) > self.rounds

    def _go_on(self) -> None:
        """Take the new items, and continue what had reached the old end: the state, or the prepared states."""
        end, self._before = self.rounds, None
        self.dataset.refresh()
        self._take()
        self._decisions = self._decisions.longer(self.rounds)
        if self.store.log_version(self.id) != self.version:
            self._rebuild()
            return
        known = (self.state, *(state for state, _ in self._branches.values()))
        self.state = self._grow(self.state)
        self._record_growth()
        if any(state.question.t == end for state in known):
            self._record_decisions()
            self._settle(self._current.id if self._current else None)
        else:
            self._branches = {label: (self._grow(state), id) for label, (state, id) in self._branches.items()}

    def _grow(self, state: State) -> State:
        """A state with the stream as long as it is now; the one given is not changed."""
        own = state.copy() if state.question.t == state.rounds else replace(state)
        return self.apply(own, Grown(self.rounds))

    @property
    def place(self) -> Place:
        """The waiting question, or None at the end, and the progress."""
        with self._lock:
            return self.place_of(self.state, self._current)

    @property
    def current(self) -> StoredQuestion | None:
        """The waiting question, or None at the end."""
        with self._lock:
            return self._current

    def place_at(self, question: StoredQuestion | None) -> Place:
        """The place with a question that somebody has, or (None) with none for them."""
        with self._lock:
            return self.place_of(self.state, question)

    def places_after(self, question: StoredQuestion, following: StoredQuestion) -> dict[int, Place]:
        """The place after each possible answer to a question, where the one that follows is asked already."""
        place, places = self.place_at(following), {}
        if question.number not in self.state.outstanding:  # it has its label
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
    def branches(self) -> dict[int, Place]:
        """The place after each possible answer to the waiting question, where it is prepared and nobody else has
        come."""
        with self._lock:
            if not self._branches or self.joining:
                return {}
            self._offered = monotonic()
            return {
                label: self.place_of(state, self._waiting(state, following))
                for label, (state, following) in self._branches.items()
            }

    @property
    def previous(self) -> int | None:
        """The id of the question answered last, which undo takes back, or None."""
        return self._ids[-1] if self._ids else None

    def previous_of(self, annotator: str) -> int | None:
        """The same of an annotator alone, where several people share the session, or where they gave no label last."""
        own = (id for id in reversed(self._ids) if self._by[id] == annotator)
        return self._beside.get(annotator) or (next(own, None) if self._shared else self.previous)

    # Several people

    def held(self, annotator: str) -> list[StoredQuestion]:
        """The questions that an annotator has: the one to answer now, and the one after it where others label too or
        where it is one that they are asked again. Each is stored as theirs before it is shown. Nobody else gets it
        until the lease of the session has run out."""
        with self._lock:
            self.refresh()
            if self._lacks(annotator) and not self.store.read_only:
                with self._all_or_nothing(), self.store.transaction():
                    self.refresh()
                    while self._lacks(annotator) and (found := self._next_for(annotator, *self._leases(annotator))):
                        self.store.lease(self.id, found, annotator)
            own = self._leases(annotator)[1]
            if self._current and self._current.id in own:
                self._holder = annotator
            return [question for id in own if (question := self._stored(id))]

    def _lacks(self, annotator: str) -> bool:
        """Whether an annotator is to get one more question, if there is any."""
        leases, own = self._leases(annotator)
        ahead = any(leases.values()) or not {*own}.issuperset(self._repeats(annotator))
        return len(own) < 1 + ahead

    def _repeats(self, annotator: str) -> list[int]:
        """The questions to ask an annotator again, who has given enough answers since."""
        if not self.settings.repeat:
            return []
        own = [id for id in self._ids if self._by[id] == annotator]
        long_ago = {*own[:-REPEAT_AFTER]}
        return [id for id in self.store.unrepeated(self.id, annotator) if id in long_ago]

    @property
    def together(self) -> bool:
        """Whether several people share the session, or are to, or one is asked some questions again."""
        return bool(self._shared or self.settings.overlap or self.settings.repeat)

    @property
    def joining(self) -> bool:
        """Whether somebody has come who gets a question as soon as no page shows what was prepared for one person."""
        return monotonic() - self._wanted < HANDOVER

    @property
    def present(self) -> set[str]:
        """The annotators who have a question whose lease has not run out."""
        return {row["annotator"] for row in self.store.leases(self.id) if self._holds(row["leased_at"])}

    def _holds(self, leased_at: str) -> bool:
        """Whether a lease has not run out. One that begins later than a lease from now has: the clock was put back."""
        lease = timedelta(seconds=self.settings.lease)
        return now(lease) <= leased_at <= now(-lease)

    def _leases(self, annotator: str) -> tuple[dict[int, bool], list[int]]:
        """The questions that somebody has, and whether it is somebody else who still may answer; those of the
        annotator."""
        rows = self.store.leases(self.id)
        live = {row["question"]: row["annotator"] != annotator and self._holds(row["leased_at"]) for row in rows}
        return live, [row["question"] for row in rows if row["annotator"] == annotator]

    def has_for(self, annotator: str) -> bool:
        """Whether there is a question for an annotator now."""
        with self._lock:
            leases, own = self._leases(annotator)
            return bool(own or self._free(annotator, leases, own)) or self.state.asks_on

    def unseen(self, annotator: str) -> set[int]:
        """Return the answered questions whose answers an annotator must not see."""
        return unseen(self.store, self.id, annotator)

    def _free(self, annotator: str, leases: dict[int, bool], own: list[int]) -> list[int]:
        """The questions that an annotator may have: those that nobody has any more, those that are to have a second
        answer, and those that they are to be asked again."""
        waiting = [self._asked[number - 1] for number in sorted(self.state.outstanding)] * (not self.ended(self.state))
        second = self.store.single_answers(self.id, annotator) if self.settings.overlap else []
        return [id for id in (*waiting, *second, *self._repeats(annotator)) if id not in own and not leases.get(id)]

    def _next_for(self, annotator: str, leases: dict[int, bool], own: list[int]) -> int | None:
        """A question for an annotator, of those that there are or one that is asked now; None where there is none."""
        if free := self._free(annotator, leases, own):
            return free[0]
        if not self.state.asks_on:
            return None
        if self._branches and annotator != self._holder and monotonic() - self._offered < HANDOVER:
            self._comings += not self.joining
            self._wanted = monotonic()
            return None
        before = self.state.number
        if not self._shared:
            self._shared, self._before = True, None
        self.store.put_event(self.id, "asked")
        self.store.part_prepared(self.id, self._asked[-1])
        self._branches = {}
        self.state = self.apply(self.state.copy(), Asked())
        self._record_decisions()
        self._settle()
        self.version = self.store.count_change(self.id)
        return self._asked[-1] if self.state.number > before else None

    def _stored(self, id: int) -> StoredQuestion | None:
        """A question that an annotator has, as it waits."""
        number = self._number_of(id)
        if number in self.state.outstanding:
            return self._waiting(self.state, id, number)
        return self.answered(id, blind=True)

    def answered(self, question: int, blind: bool = False) -> StoredQuestion | None:
        """A question that was answered, with its answer unless `blind`; None where it was not."""
        entry = next((entry for entry in self.log if entry.id == question and entry.label is not None), None)
        return entry.question(None if blind else entry.label, blind) if entry else None

    def _answer_again(
        self, event: str, question: int, shown: int, label: int, annotator: str, seconds: float | None
    ) -> None:
        """Store one more answer to a question: one that was asked for, of a second person or of the same one again, or
        one that came too late. shown: the question that the page showed, where this one was asked instead."""
        given = self.store.standing_label(self.id, question)
        wanted = question in self._leases(annotator)[1]
        own = given and question == shown and given["annotator"] == annotator
        if not wanted and (own or not self.store.leased(self.id, shown, annotator)):
            if not given:
                raise SessionError("this item is not the current question.")
            raise SessionError(f"this item was answered already by {given['annotator'] or 'somebody'}.")
        kind = "again" if self.store.answered_by(self.id, question, annotator) else "second"
        kind = kind if wanted else "late"
        self.store.put_event(self.id, kind, event, annotator, question=question, label=label, seconds=seconds)
        if wanted:
            self.store.end_lease(self.id, question)
            self._beside = self._beside | {annotator: question}

    def _asked_instead(self, question: int) -> int:
        """The question that was asked about the item of one that a page showed as prepared, or the same."""
        return question if question in self._asked else self.store.asked_of_item(self.id, question) or question

    @contextmanager
    def _event(self, event: str) -> Iterator[bool]:
        """Do all that an event changes, here and in the database, or nothing; gives whether the event is new."""
        with self._lock:
            self.refresh()  # what it prepares is kept, even where the rest fails
            with self._all_or_nothing(), self.store.transaction():
                self.refresh()
                new = not self.store.event(event)
                yield new
                if new:
                    self.version = self.store.count_change(self.id)

    def _check_label(self, label: int) -> None:
        if label not in (*self.names, SKIP):
            raise SessionError(f"a label must be {', '.join(map(str, self.names))} or 0 (skip). Got {label}.")

    def answer(
        self, event: str, question: int, label: int, annotator: str = "", seconds: float | None = None,
        highlighted: bool | None = None,
    ) -> None:  # fmt: skip
        """Store and learn an answer (a class or SKIP); an event that is known changes nothing. What a page showed as
        prepared may be answered too, whatever was asked since: where the item waits it is its answer, else a late one.
        """
        self._check_label(label)
        with self._event(event) as new:
            if not new:
                return
            shown, question = question, self._asked_instead(question)
            number = self._number_of(question)
            if number not in self.state.outstanding or self.ended(self.state):
                self._answer_again(event, question, shown, label, annotator, seconds)
                return
            given = self._store_answer("answered", event, question, label, annotator, seconds, highlighted)
            self.store.withdraw(self.id, question, annotator)  # given before its label was taken back
            self.store.end_lease(self.id, question)
            self._beside = {who: id for who, id in self._beside.items() if who != annotator}
            last = number == self.state.number
            prepared = self._branches.get(label) if last else None
            self._before = (self.state, self._decisions) if prepared or self._shared else None
            self._ids, self._by = [*self._ids, question], self._by | {question: annotator}
            waiting = None if last or not self._current else self._current.id
            self.state, following = prepared or (self.apply(self.state.copy(), Answered(label, number)), waiting)
            self._record_decisions()
            self._settle(following)
            if self._current and len(self.state.outstanding) == 1:
                self.store.lease(self.id, self._current.id, annotator)
            elif self._shared:
                self.store.renew_leases(self.id, annotator)
            if len(self._ids) % DIGEST_EVERY == 0:
                self.store.put_digest(self.id, given, self.state.digest())

    def _store_answer(
        self, kind: str, event: str, question: int, label: int, annotator: str, seconds: float | None,
        highlighted: bool | None,
    ) -> int:  # fmt: skip
        """Store a label of a question, with whether terms were highlighted, if that is known. Return the number of the
        event."""
        known = None if highlighted is None else {"highlighted": int(highlighted)}
        return self.store.put_event(
            self.id, kind, event, annotator, question=question, label=label, seconds=seconds, data=known
        )

    def _number_of(self, question: int) -> int:
        """The number of a question, 0 where it was not asked."""
        waiting = {self._asked[number - 1]: number for number in self.state.outstanding}
        return waiting.get(question, 0) or (1 + self._asked.index(question) if question in self._asked else 0)

    def undo(self, event: str, question: int, annotator: str = "") -> None:
        """Take back the last answer, which must be to this question, or the last one of the annotator where it gave no
        label; an event that is known changes nothing. Where several people share the session, nobody else may have a
        question that was asked since."""
        with self._event(event) as new:
            if not new:
                return
            if self._beside.get(annotator) == question and self._undo_beside(event, question, annotator):
                return
            if self._shared and (question != self.previous or not self._undo_shared()):
                raise AnsweredSince("others have answered since. Correct the answer in the history.")
            if question != self.previous:
                raise SessionError("only the last answer can be taken back.")
            who = self._by[question]
            self.store.withdraw(self.id, question, who)  # which was about the label that is taken back
            self._return(question, who)
            self.store.put_event(self.id, "undone", event, annotator, question=question)
            number = self._number_of(question)
            if self._before:
                (self.state, self._decisions), self._before = self._before, None
                self._ids = self._ids[:-1]
                self._entries = self._entries[: number - 1]
                self._settle(self._asked[self.state.number - 1] if self.state.waits else None)
                return
            self.store.number_question(self.id, question, number)
            if self._changes:  # the question that waited may be asked about another item next time
                self.store.part_prepared(self.id, question)
            self._rebuild()

    def _return(self, question: int, annotator: str) -> None:
        """Give a question to an annotator before those that they have."""
        for id in (question, *self._leases(annotator)[1]):
            self.store.lease(self.id, id, annotator)

    def _undo_beside(self, event: str, question: int, annotator: str) -> bool:
        """Take back an answer that gave no label, and ask for it once more; whether it still stood."""
        if self._leases(annotator)[0].get(question):
            raise SessionError("somebody else has this item now, so your answer to it stays.")
        self._beside = {who: id for who, id in self._beside.items() if who != annotator}
        undone = self.store.withdraw(self.id, question, annotator, event)
        if undone:
            self._return(question, annotator)
        return undone

    def _undo_shared(self) -> bool:
        """Whether the last answer can be taken back: whoever gave it alone has questions that were asked since."""
        if not self._before:
            return False
        since = {self._asked[number - 1] for number in self.state.outstanding if number > self._before[0].number}
        given = self.store.standing_label(self.id, self._ids[-1])
        return given is not None and all(
            row["annotator"] == given["annotator"]
            for row in self.store.leases(self.id) if row["question"] in since
        )  # fmt: skip

    def correct(
        self, event: str, question: int, label: int, annotator: str = "", seconds: float | None = None,
        highlighted: bool | None = None,
    ) -> None:  # fmt: skip
        """Replace an answer given before (a skip too), or do nothing where it is the same or the event is known.

        What happened in the stream stays: the questions, their chances, what was pushed. The learner is trained anew on
        the answers that stand now, and goes on from there.
        """
        self._check_label(label)
        with self._event(event) as new:
            if not new:
                return
            if question not in self._ids:
                raise SessionError("only an item that was answered can be corrected.")
            number = self._number_of(question)
            old = next(lesson.label for lesson in self.state.lessons if lesson.number == number)
            if label == old:
                return
            if old == SKIP:
                self._check_budget("an answer to a skipped item")
            self._store_answer("corrected", event, question, label, annotator, seconds, highlighted)
            if question in self._leases(annotator)[1]:  # who decides is not asked for one more answer
                self.store.end_lease(self.id, question)
            self._change(Changed((Corrected(number, label),)))

    def _check_budget(self, what: str) -> None:
        """Refuse what costs a label where the budget has none left beside the one for the waiting question."""
        if self.state.reserved >= self.state.budget:
            last = "the last one is kept for the current question" if self.place.progress.left else "none is left"
            raise SessionError(f"{what} costs a label of the budget, and {last}.")

    def _change(self, event: Event) -> None:
        """Change the state after something that is stored; a waiting question stays."""
        self.store.part_prepared(self.id, self.previous, self._current.id if self._current else None)
        self._changes, self._entries, self._before = self._changes + 1, [], None
        self.state = self.apply(self.state.copy(), event)
        self._record_decisions()
        self._settle(self._current.id if self._current else None)

    @property
    def askable(self) -> int:
        """In how many rounds labels that are added could be spent."""
        return self.rounds - (self.state.closed[0] if self.state.closed else self.state.streamed)

    @property
    def room(self) -> int:
        """Return how many labels could be added and still be spent on the items that are there."""
        return self.askable - max(0, self.state.budget - self.state.reserved)

    def add_labels(self, event: str, labels: float, annotator: str = "", horizon: int | None = None) -> None:
        """Add labels to the budget; an event that is known changes nothing. Where the budget was spent, the session
        asks on from there.

        horizon: the rounds that they are planned for (None: as before, but not fewer than the stream has).
        """
        labels = whole(labels, "labels", 1, MOST_LABELS)
        with self._event(event) as new:
            if not new:
                return
            if horizon is None and self.askable and self.room < 1:
                raise SessionError("the budget has a label for every item left: no label is added.")
            left = self.askable
            planned = self.state.plan.horizon if self.state.plan else self.settings.horizon
            added = LabelsAdded(labels, horizon or max(self.rounds, planned))
            self.store.put_event(self.id, "added", event, annotator, data={"labels": labels, "horizon": added.horizon})
            self._decisions = self._decisions.longer(self.rounds)  # a copy, as some may be decided again
            self._change(added)
            if not self._current:
                which = (
                    f"none of the {left:,} items left would be asked about" if left else "no item is left to ask about"
                )
                raise SessionError(f"{which}: no label is added.")

    def feedback(self, event: str, item: int, wrong: bool, annotator: str = "", trains: bool = False) -> None:
        """Store that an item which passed as positive without a question was passed wrongly (or, where `wrong` is
        False, remove such a mark); trains: it is learned as a negative and costs a label."""
        with self._event(event) as new:
            if not new:
                return
            made = self._decisions
            passed = np.flatnonzero(self.order[: made.rounds] == item)
            if not passed.size or made.asked[passed[0]]:
                raise SessionError("only an item that passed without a question can be marked.")
            if trains and (not wrong or self.multiclass or made.predicted[passed[0]] < 0):
                raise SessionError("only a wrong mark on an item that passed as positive can train.")
            if self.marks.get(item):
                raise SessionError("this mark has trained the model and cannot be removed.")
            if trains:
                self._check_budget("a mark that trains")
            mark = {"wrong": int(wrong), "trains": int(trains)}
            self.store.put_event(self.id, "marked", event, annotator, item=item, data=mark)
            if trains:
                self._change(Changed((Marked(item),)))

    @property
    def marks(self) -> dict[int, bool]:
        """The items that are marked as passed wrongly, and whether each mark was learned."""
        marks = self.store.marks(self.id)
        return {item: bool(mark["trains"]) for item, mark in marks.items() if mark["wrong"]}

    def note(self, event: str, item: int, text: str, annotator: str = "") -> None:
        """Store a note on an item; an empty text removes it."""
        self._check_item("a note", item)
        self.store.log_version(self.id)  # raises where the session was removed
        self._leave(event, "noted", item, annotator, text=text)

    def _leave(self, event: str, kind: str, item: int, annotator: str, **data: str | int) -> None:
        """Store what an annotator leaves on an item; an event that is known changes nothing."""
        with self.store.transaction():
            if not self.store.event(event):
                self.store.put_event(self.id, kind, event, annotator, item=item, data=data)

    def _check_item(self, what: str, item: int) -> None:
        if not 0 <= item < rows.length(self.dataset.rows):
            raise SessionError(f"{what} must be on an item of the stream. Got {item}.")

    @property
    def notes(self) -> dict[int, str]:
        """The notes that stand, by item."""
        return self.store.notes(self.id)

    def tag(self, event: str, item: int, tag: str, given: bool, annotator: str = "") -> None:
        """Store that an item has a tag of the session, or has it no more."""
        self._check_item("a tag", item)
        names = self.store.session(self.id)["tags"] or []
        if given and tag not in names:
            raise SessionError(f"a tag must be one of those of the session: {', '.join(names) or 'none'}. Got {tag}.")
        self._leave(event, "tagged", item, annotator, tag=tag, given=int(given))

    @property
    def tags(self) -> dict[int, list[str]]:
        """The tags that items have, by item."""
        return self.store.tags(self.id)

    @property
    def changed(self) -> tuple[int, int]:
        """What decides the next question besides one person's answers: how often labels were corrected, marked to
        train, or added to the budget, and whether others have come; and the rounds."""
        return self._changes + bool(self._shared) + self._comings, self.rounds

    def earlier(self, answers: int) -> np.ndarray:
        """The learner's weights as they were so many answers ago."""
        with self._lock:
            log = Log.read(self.store, self.id)
            return weights(self.taught(log.lessons(max(0, len(self._ids) - answers)), self.state.budget).learner)

    @property
    def log(self) -> list[Entry]:
        """The questions in order, with their answers. Only those that were not answered the last time are read: reading
        all of a long log after every answer would keep others waiting."""
        with self._lock:
            newer = read_entries(self.store, self.id, len(self._entries))
            self._entries = [*self._entries, *takewhile(lambda entry: entry.label is not None, newer)]
            return [*self._entries, *(entry for entry in newer if entry.number > len(self._entries))]

    @property
    def history(self) -> list[Entry]:
        """The log, with the note on each item and its tags."""
        notes, tags = self.notes, self.tags
        beside = notes.keys() | tags.keys()
        return [
            replace(entry, note=notes.get(entry.item, ""), tags=tuple(tags.get(entry.item, ())))
            if entry.item in beside
            else entry
            for entry in self.log
        ]

    @property
    def skipped(self) -> list[StoredQuestion]:
        """The questions that are skipped, in order."""
        return [entry.question(SKIP) for entry in self.log if entry.label == SKIP]

    @property
    def decided(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The margin, the class predicted and whether it was asked, of every round up to now."""
        with self._lock:
            made, rounds = self._decisions, self._decisions.rounds
            return made.margins[:rounds], made.predicted[:rounds], made.asked[:rounds]

    def digest(self) -> str:
        """The fingerprint of the state now."""
        return self.state.digest()
