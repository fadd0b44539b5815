"""The questions and answers of an open session. A question is stored before it is shown, and leased to one person; a
label is stored before it is learned. A digest of the state, stored every DIGEST_EVERY answers, proves each bit of it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from math import inf
from time import monotonic
from typing import Any, NamedTuple

from ..store import Row, Store, now
from .labels import SKIP, SessionError, summary
from .log import ANSWERS, Answered, Asked, StoredQuestion, asks, read_entry, unseen
from .open_run import OpenRun
from .state import Place

DIGEST_EVERY = 50  # answers between two stored digests
JOIN_WAIT_SECONDS = 5.0  # by then a page that got prepared questions has asked again
JOINING_SECONDS = 60.0  # a person who waits to join and has not asked for this long has left
REPEAT_AFTER = 20  # answers that a person gives before a question is repeated to them


class Held(NamedTuple):
    """The leases as one annotator sees them: ids of the questions that they have, oldest lease first, and of the
    questions that others have."""

    own: list[int]
    others: set[int]


class Asking(OpenRun):
    """The questions and answers of an open session, and who has which question. `Session` adds all other changes."""

    def __init__(self, store: Store, session: int):
        super().__init__(store, session)
        self._branches_served_at = self._last_join_request = -inf  # monotonic times
        self._join_count, self._branches_annotator = 0, ""
        self._last_opinion: dict[str, int] = {}  # {annotator: question of their last answer, if second or repeated}

    @property
    def branches(self) -> dict[int, Place]:
        """The prepared place after each possible answer to the waiting question, {label: place}; empty if no place is
        prepared or somebody is waiting to join."""
        with self._lock:
            if not self._branches or self.someone_joins:
                return {}
            self._branches_served_at = monotonic()
            return {
                label: self.place_of(state, self._waiting(state, following))
                for label, (state, following) in self._branches.items()
            }

    def previous_of(self, annotator: str) -> int | None:
        """Return the id of the question whose answer undo takes back for an annotator, or None."""
        own = (id for id in reversed(self._ids) if self._by[id] == annotator)
        return self._last_opinion.get(annotator) or (next(own, None) if self._shared else self.previous)

    # Answers

    @contextmanager
    def _event(self, event: str) -> Iterator[Row | None]:
        """Apply an event atomically, in the object and in the database: all of its changes or none. Yield the stored
        event of this id, or None if the event is new; a repeated one must change nothing."""
        with self._lock:
            try:
                for is_last_try in (False, True):
                    with self._all_or_nothing(), self.store.transaction():
                        status = self.store.status(self.id, event)
                        if is_last_try or status.version == self.version:
                            self._catch_up(status)
                            stored = self.store.event(event) if status.has_event else None
                            yield stored
                            if not stored:
                                self.version = self.store.count_change(self.id)
                            return
                    self.refresh()  # outside the transaction: others may write while a long log is folded again
            except SessionError:  # others may be the reason, and the page then shows their changes
                self.refresh()
                raise

    def _check_repeated(self, stored: Row, kinds: Collection[str], content: Mapping[Any, Any]) -> None:
        """Raise SessionError unless an event that was sent again is the one that is stored under its id.

        kinds: the kinds that it can be stored as. content: its fields; the label of question k of several is field k.
        """
        labels = stored["data"].get("labels", ()) if stored["kind"] in (*ANSWERS, "known") else ()
        values = stored["data"] | dict(enumerate(labels)) | stored
        same = stored["session"] == self.id and stored["kind"] in kinds
        if not same or any(values.get(name) != value for name, value in content.items()):
            raise SessionError("another event has this id already: an event needs an id of its own.")

    def _check_label(self, label: object) -> None:
        if label not in (*self.names, SKIP):
            raise SessionError(f"a label must be {', '.join(map(str, self.names))} or 0 (skip). Got {label}.")

    def _checked(self, answer: int | Iterable[int], question: int) -> tuple[int, tuple[int, ...]]:
        """Check an answer to a stored query. Return its label, and a tuple with a label for each question that the
        session asks about an item (empty if it asks a single one). A question that was not asked about this item must
        have the label SKIP; a question that was added later may have none. question: id of the stored query."""
        names = self.settings.question_names
        parts = self.store.parts_of(self.id, question) if names else []
        if self.several and not parts:
            raise SessionError("this item is not the current question.")
        if not isinstance(answer, Iterable):
            self._check_label(answer)
            if self.settings.audited:  # both deciders are judged by the same answer
                return int(answer), (int(answer),) * len(parts)
            if parts and answer != SKIP:
                raise SessionError(
                    f"an answer must have a label for each of {', '.join(names)}, or be 0 (skip). Got {answer}."
                )
            return int(answer), (SKIP,) * len(parts)
        labels = tuple(answer)
        if not len(parts) <= len(labels) <= self.several:  # a page may show a question that was added later
            raise SessionError(f"an answer must have {len(parts) or 'one of the'} labels. Got {len(labels)}.")
        for k, label in enumerate(labels):
            self._check_label(label)
            if label != SKIP and not asks(parts, k):
                raise SessionError(f"this item is not asked about {names[k]}, whose label must be 0. Got {label}.")
        if self.settings.audited and len({*labels}) > 1:
            raise SessionError(f"an answer to an audit must be one label. Got {', '.join(map(str, labels))}.")
        asked = [asks(parts, k) for k in range(len(parts))]
        labels = self.settings.implied([int(label) for label in labels[: len(parts)]], asked)
        return summary(labels), labels

    def answer(
        self, event: str, question: int, answer: int | Iterable[int], annotator: str = "",
        seconds: float | None = None, highlighted: bool | None = None,
    ) -> None:  # fmt: skip
        """Store and learn an answer: a label (a class or SKIP), or a label for each of several questions. A repeated
        event changes nothing.

        The answer may be to a question that was only prepared. It counts if the item still waits for an answer.
        Otherwise it is stored as a late answer.
        """
        with self._event(event) as stored:
            page_question = question
            if not self._number_of(question):  # it was only prepared: another one may have been asked about its item
                question = self.store.asked_of_item(self.id, question) or question
            label, labels = self._checked(answer, question)
            if stored:
                return self._check_repeated(stored, ANSWERS, self._content(question, label, labels))
            data, number = self._data(labels, highlighted), self._number_of(question)
            if number not in self.state.outstanding or self.ended(self.state):
                own = self._data(labels, None)
                self._answer_again(event, question, page_question, label, annotator, seconds, own)
                return
            event_number = self.store.put_event(
                self.id, "answered", event, annotator, question=question, label=label, seconds=seconds, data=data
            )
            self._withdraw(question, annotator)  # their opinion on a label that was taken back since
            self._last_opinion = {who: id for who, id in self._last_opinion.items() if who != annotator}
            last = number == self.state.number
            prepared = self._branches.get(label) if last else None
            self._undo_point = (self.state, self._decisions) if prepared or self._shared or self.several else None
            self._ids = [*self._ids, question]
            self._by[question] = annotator  # safe in place: it is only looked up for questions in _ids
            waiting = None if last or not self._current else self._current.id
            answered = Answered(label, number, labels)
            self.state, following = prepared or (self.apply(self.state.copy(), answered), waiting)
            self._record_decisions()
            self._settle(following)
            if self._current and len(self.state.outstanding) == 1 and self.allowed(annotator) > 0:
                self.store.lease(self.id, self._current.id, annotator, question)
            else:
                self.store.end_lease(self.id, question)
                if self._shared:
                    self.store.renew_leases(self.id, annotator)
            if len(self._ids) % DIGEST_EVERY == 0:
                self.store.put_digest(self.id, event_number, self.state.digest())
            if self._shared:  # in the same transaction, as each transaction waits for the disk
                self._lease_more(annotator)

    def _content(self, question: int, label: int, labels: Sequence[int]) -> dict[Any, Any]:
        """Return the fields of an answer that `_check_repeated` compares."""
        return {"item": self.store.item_of(self.id, question), "label": label} | dict(enumerate(labels))

    def _answer_again(
        self, event: str, question: int, page_question: int, label: int, annotator: str, seconds: float | None,
        data: Row | None,
    ) -> None:  # fmt: skip
        """Store an opinion on a question: a second or repeated answer that was asked for, or a late one.

        page_question: the question that the page showed; it differs from `question` if that was asked in its place.
        """
        standing = self.store.standing_label(self.id, question)
        was_asked_for = question in self._leases_of(annotator).own
        own = standing and question == page_question and standing["annotator"] == annotator
        if not was_asked_for and (own or not self.store.leased(self.id, page_question, annotator)):
            if not standing:
                raise SessionError("this item is not the current question.")
            raise SessionError(f"this item was answered already by {standing['annotator'] or 'somebody'}.")
        kind = "again" if self.store.answered_by(self.id, question, annotator) else "second"
        kind = kind if was_asked_for else "late"
        self.store.put_event(
            self.id, kind, event, annotator, question=question, label=label, seconds=seconds, data=data
        )
        self._opinions = self._opinions | {(question, annotator)}
        if was_asked_for:
            self.store.end_lease(self.id, question)
            self._last_opinion = self._last_opinion | {annotator: question}

    def _withdraw(self, question: int, annotator: str, event: str | None = None) -> bool:
        """Withdraw a person's opinion on a question (second, repeated or late answer). Return whether there was one."""
        if exists := (question, annotator) in self._opinions:
            self.store.put_event(self.id, "withdrawn", event, annotator, question=question)
            self._opinions = self._opinions - {(question, annotator)}
        return exists

    @staticmethod
    def _data(labels: Sequence[int], highlighted: bool | None) -> Row:
        """Return the data fields of an answer event: the labels of several questions, and whether terms were
        highlighted (None: unknown)."""
        parts = {"labels": [*labels]} if labels else {}
        return parts if highlighted is None else parts | {"highlighted": int(highlighted)}

    # Several people

    def held(self, annotator: str) -> list[StoredQuestion]:
        """Lease questions to an annotator, and return all that they have: the one to answer now and the one after it.
        If nobody else has a question, the next ones are prepared, so the annotator gets only the current one. Each
        question is leased before it is shown: nobody else gets it until the lease has expired."""
        with self._lock:
            self.refresh()
            held = self._leases_of(annotator)
            if self._lacks(annotator, held) and not self.store.read_only:
                with self._all_or_nothing(), self.store.transaction():
                    self.refresh()
                    held = self._lease_more(annotator)
            own = held.own
            if self._current and self._current.id in own:
                self._branches_annotator = annotator
            return [stored for id in own if (stored := self._stored(id))]

    def _lease_more(self, annotator: str) -> Held:
        """Lease questions to an annotator until they have as many as they should. Return their leases."""
        held = self._leases_of(annotator)
        while self._lacks(annotator, held) and (question := self._next_for(annotator, held)):
            self.store.lease(self.id, question, annotator)
            held.own.append(question)
        return held

    def _lacks(self, annotator: str, held: Held) -> bool:
        """Return whether an annotator with these leases should get one more question."""
        if len(held.own) > 1:  # the most that anybody has
            return False
        prepared = held.own in ([], [self._current and self._current.id]) and not held.others
        ahead = not prepared or not {*held.own}.issuperset(self._repeats(annotator))
        return len(held.own) < min(1 + ahead, self.allowed(annotator))

    def allowed(self, annotator: str) -> float:
        """Return how many more answers a person may give: none when their quota is reached, inf without a quota."""
        if not self.settings.quota:
            return inf
        further = sum(who == annotator for _, who in self._opinions)
        return self.settings.quota - further - sum(self._by[id] == annotator for id in self._ids)

    def _repeats(self, annotator: str) -> list[int]:
        """Return the questions to repeat to an annotator, who answered them REPEAT_AFTER or more answers ago."""
        if not self.settings.repeat:
            return []
        long_ago = {*[id for id in self._ids if self._by[id] == annotator][:-REPEAT_AFTER]}
        return [id for id in self.store.unrepeated(self.id, annotator) if id in long_ago]

    @property
    def is_shared(self) -> bool:
        """Whether several people label the session or are going to, or some questions are to be answered twice."""
        return bool(self._shared or self.settings.overlap or self.settings.repeat)

    @property
    def someone_joins(self) -> bool:
        """Whether a second person waits to join. They get one once no page shows questions prepared for one person."""
        return not self._shared and monotonic() - self._last_join_request < JOINING_SECONDS

    @property
    def active_annotators(self) -> set[str]:
        """The annotators who have a question now."""
        return {row["annotator"] for row in self._live(self.store.leases(self.id))}

    def _leases_of(self, annotator: str) -> Held:
        """Return the leases as an annotator sees them."""
        rows = self.store.leases(self.id)
        others = {row["question"] for row in self._live(rows) if row["annotator"] != annotator}
        return Held([row["question"] for row in rows if row["annotator"] == annotator], others)

    def _live(self, leases: list[Row]) -> list[Row]:
        """Return the leases that have not expired. If the clock was set back, a lease may begin in the future: it
        counts as expired if it begins later than a new lease would end."""
        lease = timedelta(seconds=self.settings.lease)
        first, last = now(lease), now(-lease)
        return [row for row in leases if first <= row["leased_at"] <= last]

    def has_for(self, annotator: str) -> bool:
        """Tell whether an annotator has a question or could get one now."""
        with self._lock:
            held = self._leases_of(annotator)
            if held.own:
                return True
            return self.allowed(annotator) > 0 and (bool(self._free(annotator, held)) or self.state.asks_on)

    def unseen(self, annotator: str) -> set[int]:
        """Return the answered questions whose answers an annotator must not see."""
        return unseen(self.store, self.id, annotator)

    def _free(self, annotator: str, held: Held) -> list[int]:
        """Return the existing questions that an annotator could get: questions that need another person's answer,
        waiting questions that nobody has, and questions to repeat to them. Second answers come first, so that people
        who work one after another give them before they reach their quota."""
        waiting = [self._asked[number - 1] for number in sorted(self.state.outstanding)] * (not self.ended(self.state))
        second = self.store.due_answers(self.id, annotator) if self.settings.overlap else []
        busy = {*held.own, *held.others}
        return [id for id in (*second, *waiting, *self._repeats(annotator)) if id not in busy]

    def _next_for(self, annotator: str, held: Held) -> int | None:
        """Return the next question for an annotator: an existing one, else a new one that is asked now. Return None if
        there is none, or if the annotator must wait for it."""
        if free := self._free(annotator, held):
            return free[0]
        if not self.state.asks_on:
            return None
        if (
            self._branches
            and annotator != self._branches_annotator
            and monotonic() - self._branches_served_at < JOIN_WAIT_SECONDS
        ):
            self._join_count += not self.someone_joins
            self._last_join_request = monotonic()
            return None
        before = self.state.number
        if not self._shared:
            self._shared, self._undo_point = True, None
        self.store.put_event(self.id, "asked")
        self.store.part_prepared(self.id, self._asked[-1])
        self._branches = {}
        self.state = self.apply(self.state.copy(), Asked())
        self._record_decisions()
        self._settle()
        self.version = self.store.count_change(self.id)
        return self._asked[-1] if self.state.number > before else None

    def _stored(self, id: int) -> StoredQuestion | None:
        """Return a question that an annotator holds. If it was answered already, its answer is left out and it is blind
        (see `StoredQuestion`)."""
        number = self._number_of(id)
        if number in self.state.outstanding:
            return self._waiting(self.state, id, number)
        return self.answered(id, blind=True)

    def answered(self, question: int, blind: bool = False) -> StoredQuestion | None:
        """Return an answered question, with its answer unless `blind`; None if it was not answered."""
        if (entry := read_entry(self.store, self.id, question)) is None or entry.label is None:
            return None
        return entry.question(None if blind else entry.labels or entry.label, blind)

    def _number_of(self, question: int) -> int:
        """Return the number in the session of the question with this id; 0 if it was not asked."""
        waiting = {self._asked[number - 1]: number for number in self.state.outstanding}
        return waiting.get(question, 0) or (1 + self._asked.index(question) if question in self._asked else 0)
