"""All changes to an open session other than answers: undo, corrections, questions, labels, marks, notes and tags.

The remaining budget is counted from the current labels.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, cast

import numpy as np

from ..kernel import rows
from ..store import Row, Store
from ..store.fields import MOST_LABELS, MOST_TAGS_EVER
from .asking import Asking
from .fold import padded
from .labels import SKIP, KnownLabel, SessionError, checked_questions, seeded, summary, whole
from .log import (
    ANSWERS,
    Changed,
    Corrected,
    Entry,
    LabelsAdded,
    Lesson,
    Marked,
    Remarks,
    StoredQuestion,
    read_entries,
)


class OthersAnsweredError(SessionError):
    """An answer that cannot be taken back because others have answered since. It can be corrected."""


class Session(Asking):
    """An open session, safe to share between threads; opening it rebuilds the state from its log."""

    def __init__(self, store: Store, session: int):
        super().__init__(store, session)
        self.remarks = Remarks(store, session)

    def undo(self, event: str, question: int, annotator: str = "") -> None:
        """Take back the last answer, which must be the answer to `question`, or the annotator's opinion on `question`
        if that was their last answer. A repeated event changes nothing. In a shared session, raise OthersAnsweredError
        if others have answered since, or have a question that was asked since."""
        with self._event(event) as stored:
            if stored:
                return self._check_repeated(stored, ("undone", "withdrawn"), {"question": question})
            if self._last_opinion.get(annotator) == question and self._undo_further_answer(event, question, annotator):
                return
            is_last = question == self.previous
            if self._shared and question in self._ids and not (is_last and self._can_undo_shared()):
                raise OthersAnsweredError("others have answered since. Correct the answer in the history.")
            if not is_last:
                raise SessionError("only the last answer can be taken back.")
            who = self._by[question]
            self._withdraw(question, who)  # their opinion was about the label that is taken back
            self._give_back(question, who)
            self.store.put_event(self.id, "undone", event, annotator, question=question)
            number = self._number_of(question)
            if self._undo_point:
                lesson = self.state.lessons[-1]
                self._old = self._old | {question: [*lesson.labels] or lesson.label}
                (self.state, self._decisions), self._undo_point = self._undo_point, None
                self._ids = self._ids[:-1]
                self._entries = self._entries[: number - 1]
                self._settle(self._asked[self.state.number - 1] if self.state.waits else None)
                return
            self.store.number_question(self.id, question, number)
            if self._changes:  # the next question may then be about another item
                self.store.part_prepared(self.id, question)
            self._rebuild()

    def _undo_further_answer(self, event: str, question: int, annotator: str) -> bool:
        """Withdraw an annotator's opinion on a question, and ask them for it again. Return whether there was an opinion
        to withdraw. Raise SessionError if somebody else has the question now."""
        if question in self._leases_of(annotator).others:
            raise SessionError("somebody else has this item now, so your answer to it stays.")
        self._last_opinion = {who: id for who, id in self._last_opinion.items() if who != annotator}
        if undone := self._withdraw(question, annotator, event):
            self._give_back(question, annotator)
        return undone

    def _give_back(self, question: int, annotator: str) -> None:
        """Lease a question to an annotator, ahead of the questions that they already have."""
        for id in (question, *self._leases_of(annotator).own):
            self.store.lease(self.id, id, annotator)

    def _can_undo_shared(self) -> bool:
        """Return whether the last answer can be taken back: nobody else may have a question that was asked since."""
        if not self._undo_point:
            return False
        since = {self._asked[number - 1] for number in self.state.outstanding if number > self._undo_point[0].number}
        standing = self.store.standing_label(self.id, self._ids[-1])
        return standing is not None and all(
            row["annotator"] == standing["annotator"]
            for row in self.store.leases(self.id) if row["question"] in since
        )  # fmt: skip

    def correct(
        self, event: str, question: int, answer: int | Iterable[int], annotator: str = "",
        seconds: float | None = None, highlighted: bool | None = None, name: str | None = None,
    ) -> None:  # fmt: skip
        """Replace an earlier answer or skip. Do nothing if the answer is unchanged or the event is repeated. answer: as
        in `answer`. name: the question that gets this label, if the session asks several questions; the others keep
        their labels, except questions that need a yes to it.

        The past of the stream stays: the questions, their chances, and the pushed items. The learner is retrained on
        the current answers and continues from there.
        """
        part = None if name is None else self.settings.place_of(name)
        with self._event(event) as stored:
            if stored:
                own = None if name else self._content(question, *self._checked(answer, question))
                return self._check_repeated(stored, ANSWERS, own or {"question": question, part: answer})
            if question not in self._ids:
                raise SessionError("only an item that was answered can be corrected.")
            number = self._number_of(question)
            old = next(lesson for lesson in self.state.lessons if lesson.number == number)
            label, labels = self._checked(answer if name is None else self._with(old, name, answer), question)
            if (label, labels) == (old.label, old.labels):
                return
            if old.label == SKIP:
                self._check_budget("an answer to a skipped item")
            data = self._data(labels, highlighted)
            self.store.put_event(
                self.id, "corrected", event, annotator, question=question, label=label, seconds=seconds, data=data
            )
            if question in self._leases_of(annotator).own:  # no second answer is needed from this annotator
                self.store.end_lease(self.id, question)
            self._change(Changed((Corrected(number, label, labels),)))

    def _with(self, old: Lesson, name: str, label: int | Iterable[int]) -> list[int]:
        """Return the labels of an answer, with a new label for the question `name`. If the new label is not a yes, the
        questions that need a yes to `name` get this label too, if they have a label."""
        self._check_label(label)
        part, parents = self.settings.place_of(name), self.settings.parents
        if part >= len(old.labels):
            raise SessionError(f"this item was not asked about {name}.")
        own = cast(int, label)
        if self.settings.audited:
            return [own] * len(old.labels)
        follows = {k for k, parent in enumerate(parents) if parent == part and own != 1}
        return [own if k == part or (each and k in follows) else each for k, each in enumerate(old.labels)]

    def add_question(
        self, event: str, name: str, guidelines: str = "", parent: str = "", annotator: str = "", **seeds: Any
    ) -> None:  # fmt: skip
        """Add a question about each later item to a session that asks several. A repeated event changes nothing.

        Earlier items have no answer to it. guidelines, parent, seeds: as for a question in `Options`.
        """
        with self._event(event) as stored:
            if stored:
                part = self.settings.place_of(" ".join(name.split()))
                return self._check_repeated(stored, ("opened",), {"part": part})
            self._check_several("added")
            own = {"name": name, "guidelines": guidelines, "parent": parent} | seeds
            added, prior = seeded(self.dataset, checked_questions([*self.settings.plain_questions, own])[-1])
            if parent and not self.is_asked(parent):
                raise SessionError(f"the parent of a question must not be closed. Got {parent}.")
            questions = [*(self.settings.questions or ()), added | {"added": 1}]
            self.store.update_session(self.id, {"questions": json.dumps(questions)})
            self.store.put_prior(self.id, self.several, prior.weights if prior else {})
            self._change_questions(event, "opened", self.several, annotator)

    def close_question(self, event: str, name: str, annotator: str = "") -> None:
        """Close a question and all questions that need a yes to it: they are not asked about later items. Their answers
        and models stay. A repeated event changes nothing."""
        with self._event(event) as stored:
            self._check_several("closed")
            part = self.settings.place_of(name)
            if stored:
                return self._check_repeated(stored, ("closed",), {"part": part})
            if not self.is_asked(name):
                raise SessionError(f"the question {name} is closed already.")
            children = [k for k in self.state.open if self.settings.parents[k] == part]
            closing = [*children, part]  # children first: no open question may need a yes to a closed one
            if len(closing) == len(self.state.open):
                raise SessionError("the last question cannot be closed: a session asks one at least.")
            for k in closing:
                self._change_questions(event if k == part else None, "closed", k, annotator)

    def is_asked(self, name: str) -> bool:
        """Tell whether a question, by its name, is still asked about later items."""
        return self.settings.place_of(name) in self.state.open

    def _check_several(self, what: str) -> None:
        if not self.several or self.settings.audited:
            raise SessionError(f"a question can be {what} where a session asks several. This one asks one.")

    def _change_questions(self, event: str | None, kind: str, part: int, annotator: str) -> None:
        """Store that a question is added or closed, and fold the log again."""
        self.store.put_event(self.id, kind, event, annotator, data={"part": part})
        self._rebuild()

    def _check_budget(self, expense: str) -> None:
        """Raise SessionError if the budget has no label left except the one for the waiting question."""
        if self.state.reserved >= self.state.budget:
            last = "the last one is kept for the current question" if self.place.progress.left else "none is left"
            raise SessionError(f"{expense} costs a label of the budget, and {last}.")

    @property
    def next_round(self) -> int:
        """The round (from 0) in which questions continue if labels are added."""
        return self.state.closed[0] if self.state.closed else self.state.streamed

    @property
    def askable(self) -> int:
        """Number of remaining rounds in which added labels could be spent."""
        return self.rounds - self.next_round - self.known_from(self.state, self.next_round)

    @property
    def room(self) -> int:
        """Number of labels that could be added and still be spent on the present items."""
        return self.askable - max(0, self.state.budget - self.state.reserved)

    def add_labels(self, event: str, labels: float, annotator: str = "", horizon: int | None = None) -> None:
        """Add labels to the budget. A repeated event changes nothing. If the budget was spent, questions resume in the
        round where it ran out.

        horizon: last round that the labels are planned for (None: as before, but at least the end of the stream).
        """
        labels = whole(labels, "labels", 1, MOST_LABELS)
        with self._event(event) as stored:
            if stored:
                return self._check_repeated(stored, ("added",), {"labels": labels})
            if horizon is None and self.askable and self.room < 1:
                raise SessionError("the budget has a label for every item left: no label is added.")
            left = self.askable
            planned = self.state.plan.horizon if self.state.plan else self.settings.horizon
            rounds = self.rounds - self.known_from(self.state, self.state.streamed)
            added = LabelsAdded(labels, horizon or max(rounds, planned))
            self.store.put_event(self.id, "added", event, annotator, data={"labels": labels, "horizon": added.horizon})
            self._decisions = self._decisions.longer(self.rounds)  # a copy: later rounds may be decided again
            self._change(added)
            if not self._current:
                which = (
                    f"none of the {left:,} items left would be asked about" if left else "no item is left to ask about"
                )
                raise SessionError(f"{which}: no label is added.")

    def feedback(self, event: str, item: int, wrong: bool, annotator: str = "", trains: bool = False) -> None:
        """Mark an item that passed without a question as wrongly predicted, or (wrong=False) remove the mark.

        trains: whether the item is learned as a negative, which costs a label.
        """
        self.state.only()
        with self._event(event) as stored:
            if stored:
                return self._check_repeated(stored, ("marked",), {"item": item, "wrong": int(wrong)})
            _, predicted, asked = self._decisions.passed
            passed = np.flatnonzero(self.order[: predicted.size] == item)
            if not passed.size or asked[passed[0]]:
                raise SessionError("only an item that passed without a question can be marked.")
            if trains and (not wrong or self.multiclass or predicted[passed[0]] < 0):
                raise SessionError("only a wrong mark on an item that passed as positive can train.")
            if item in self.known_labels:
                raise SessionError("the label of this item is known.")
            if self.marks.get(item):
                raise SessionError("this mark has trained the model and cannot be removed.")
            if trains:
                self._check_budget("a mark that trains")
            mark = {"wrong": int(wrong), "trains": int(trains)}
            self.store.put_event(self.id, "marked", event, annotator, item=item, data=mark)
            if trains:
                self._change(Changed((Marked(item),)))

    def know(
        self, event: str, labels: Mapping[int, int], origin: str, annotator: str = "", name: str | None = None
    ) -> list[int]:
        """Learn labels that are known from elsewhere, {item: label}, at no cost; their items are not asked about any
        more. Return the refused items, which were asked about or marked before. A repeated event changes nothing.

        A label replaces an earlier known label of its item; SKIP makes the item unknown again. origin: "file",
        "search", or another word for the source of the labels. name: the question that the labels answer, if the
        session asks several questions about each item; the other questions may still be asked.
        """
        if self.settings.audited:
            raise SessionError("an audit has no labels that are known: only answers to its questions judge the column.")
        if name is None:
            self.state.only()
        part = None if name is None else self.settings.place_of(name)
        for item, label in labels.items():
            self._check_item("a known label", item)
            self._check_label(label)
        with self._event(event) as stored:
            if stored:
                field = "label" if part is None else part
                self._check_repeated(stored, ("known",), {field: labels.get(stored["item"])})
                return []
            known_labels, refused, own = self.store.known_labels(self.id), list[int](), list[KnownLabel]()
            answered = {lesson.item: lesson.labels for lesson in self.state.lessons if not lesson.is_known}
            used = [self.used(self.state, k) for k in range(self.several or 1)]
            for item, label in labels.items():
                old, answer = self._labels_of(known_labels.get(item)), padded(answered.get(item, ()), len(used))
                wanted = self._known_with(old, part, label)
                changed = [k for k, now in enumerate(wanted) if now not in (old[k], answer[k] or old[k])]
                if item in used[part or 0] or any(item in used[k] for k in changed):
                    refused.append(item)
                elif changed:
                    now = tuple(wanted[k] if k in changed else each for k, each in enumerate(old))
                    own.append(KnownLabel(item, summary(now), now) if self.several else KnownLabel(item, label))
            if own:
                self._learn(own, origin, event, annotator)
            return sorted(refused)

    def _known_with(self, old: Sequence[int], part: int | None, label: int) -> list[int]:
        """Return the known labels of an item, with a new label for question `part` (None: the only question). A yes to
        a question is also a yes to its parent; any other label also goes to the questions that need a yes to it."""
        if part is None:
            return [label]
        parents = self.settings.parents
        same = {part, *((k for k, parent in enumerate(parents) if parent == part) if label != 1 else [parents[part]])}
        return [label if k in same else each for k, each in enumerate(old)]

    def _labels_of(self, row: Row | None) -> tuple[int, ...]:
        """Return the known labels of an item, one for each question, from its row of the log (None: all SKIP)."""
        if not self.several:
            return (row["label"] if row else SKIP,)
        return padded(row["data"]["labels"] if row else (), self.several)

    @property
    def known_labels(self) -> dict[int, Row]:
        """The known label of each item that has one, {item: row of the log}."""
        return self.store.known_labels(self.id)

    @property
    def marks(self) -> dict[int, bool]:
        """The items that are marked as wrongly predicted, {item: whether the mark was learned}."""
        marks = self.store.marks(self.id)
        return {item: bool(mark["trains"]) for item, mark in marks.items() if mark["wrong"]}

    def note(self, event: str, item: int, text: str, annotator: str = "") -> None:
        """Store a note on an item. An empty text removes the note."""
        self._check_item("a note", item)
        self.store.log_version(self.id)  # raises if the session was removed
        self._annotate(event, "noted", item, annotator, text=text)

    def _annotate(self, event: str, kind: str, item: int, annotator: str, **data: str | int) -> None:
        """Store a note or a tag on an item. A repeated event changes nothing."""
        with self.store.transaction():
            if stored := self.store.event(event):
                return self._check_repeated(stored, (kind,), {"item": item} | data)
            self.store.put_event(self.id, kind, event, annotator, item=item, data=data)

    def _check_item(self, what: str, item: int) -> None:
        if not 0 <= item < rows.length(self.dataset.rows):
            raise SessionError(f"{what} must be on an item of the stream. Got {item}.")

    @property
    def notes(self) -> dict[int, str]:
        """The current note of each item."""
        return self.remarks.read()[0]

    def tag(self, event: str, item: int, tag: str, on: bool, annotator: str = "") -> None:
        """Give an item a tag of the session, or (on=False) remove it."""
        self._check_item("a tag", item)
        self.refresh()
        names = self.settings.tags or []
        if on and tag not in names:
            raise SessionError(f"a tag must be a tag of the session: {', '.join(names) or 'none'}. Got {tag}.")
        if tag not in (ever := self.remarks.tags_ever) and len(ever) >= MOST_TAGS_EVER:
            raise SessionError(f"a session can have {MOST_TAGS_EVER:,} different tags over time. Got one more: {tag}.")
        self._annotate(event, "tagged", item, annotator, tag=tag, given=int(on))

    @property
    def tags(self) -> dict[int, list[str]]:
        """The tags of each item."""
        return self.remarks.read()[1]

    @property
    def changed(self) -> tuple[int, int]:
        """A pair: a count, and the length of the stream. The count grows when something other than one person's answers
        may change the next question: a correction, a training mark, added labels, or somebody who joins."""
        return self._changes + bool(self._shared) + self._join_count, self.rounds

    @property
    def log(self) -> list[Entry]:
        """The questions in order, with their answers. Answered entries are cached: reading all of a long log after
        every answer would keep others waiting."""
        with self._lock:
            newer = read_entries(self.store, self.id, len(self._entries))
            self._entries = [*self._entries, *takewhile(lambda entry: entry.label is not None, newer)]
            return [*self._entries, *(entry for entry in newer if entry.number > len(self._entries))]

    @property
    def history(self) -> list[Entry]:
        """The log, with the note and the tags of each entry's item."""
        notes, tags = self.remarks.read()
        annotated = notes.keys() | tags.keys()
        return [
            replace(entry, note=notes.get(entry.item, ""), tags=tuple(tags.get(entry.item, ())))
            if entry.item in annotated
            else entry
            for entry in self.log
        ]

    @property
    def skipped(self) -> list[StoredQuestion]:
        """The skipped questions, in order."""
        return [entry.question(SKIP) for entry in self.log if entry.label == SKIP]

    @property
    def decided(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The margin, the predicted class and whether the item was asked about, in every round that has passed."""
        with self._lock:
            return self._decisions.passed

    def digest(self) -> str:
        """Return the digest (a hash) of the current state."""
        return self.state.digest()
