"""The server's side of the labeling card: one per open session, shared by every browser that shows it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from itertools import islice
from time import perf_counter
from typing import Any, NamedTuple, cast

import streamlit as st

from oal_engine.output.meanings import MEANINGS
from oal_engine.sessions.fold import Place
from oal_engine.sessions.insights import outcome
from oal_engine.sessions.items import SAVED, Items, Show, verdict
from oal_engine.sessions.log import Entry, StoredQuestion
from oal_engine.sessions.session import OthersAnsweredError, Session
from oal_engine.sessions.settings import SKIP, SessionError, Settings

from ..page import Removed, capitalized, check_may_answer, store, stored_settings
from . import messages

KEYS = "123456789qwetyuiopasdfjklxvbm"  # of K classes; g, h, n and z are the card's own
DIGITS = "1234567890"  # of tags, where no class has them
STREAMLIT = "cr"  # the keys that Streamlit uses, wherever the focus is
JOINING = "It takes a few seconds: until now one person had this session alone."
MORE = "New items will appear here automatically."
PATIENCE = 1.0  # seconds that a page waits for what was never made before
REST, LONGEST_REST = 20, 2.0  # times as long as something took to make it lasts, and at most so many seconds
SKIPPED_AHEAD = 6  # items shown once more that the browser gets at a time

BACKGROUND = ThreadPoolExecutor(1, "background")


def keys_of(names: dict[int, str]) -> dict[int, list[str]]:
    """The keys of each class by its label. A class that is named by one letter or digit has that key, and no other
    class has it; the others have those of their place."""
    own: dict[str, int] = {}
    for label, name in names.items():
        if len(name) == 1 and name.isalnum() and name.lower() not in STREAMLIT:
            own.setdefault(name.lower(), label)
    usual = {1: "a1", -1: "x0"} if -1 in names else dict(zip(names, KEYS))
    spare = iter([key for key in KEYS[len(names) :] if key not in own])
    keys = {
        label: [key for key in own if own[key] == label] + [key for key in usual.get(label, "") if key not in own]
        for label in names
    }
    return {label: each or [*islice(spare, 1)] for label, each in keys.items()}


def with_keys(tags: Iterable[str], taken: Iterable[list[str]]) -> list[dict[str, Any]]:
    """Tags with the digits that no class has for a key, as long as there are some."""
    free = sorted({*DIGITS} - {key for keys in taken for key in keys}, key=DIGITS.index)
    return [{"name": name, "keys": free[place : place + 1]} for place, name in enumerate(tags)]


@st.cache_resource(max_entries=50, show_spinner="Opening the session. A learner new to this machine is compiled first.")
def card_server(session: int) -> CardServer:
    """The card server of a session, opened once in this server process."""
    return CardServer(session)


class Beside(NamedTuple):
    """What annotators left with the items, by item, and how much is shown of each."""

    notes: dict[int, str]
    tags: dict[int, list[str]]
    show: Show


class CardServer:
    """Answers the card's events and says what it shows next."""

    def __init__(self, session: int) -> None:
        self.session = Session(store(), session)
        self._lock = threading.Lock()
        self._shown = Items(self.session)
        self._looking = threading.RLock()
        self._made: dict[str, tuple] = {}
        self._making: dict[str, tuple[tuple, Future]] = {}
        self._due: dict[str, float] = {}  # when it may be made anew
        self._labeled: dict[str, int] = {}  # by annotator: the question that they answered last, unless they skipped it
        self._reopened: dict[str, int] = {}  # by annotator: a question whose answer is given once more
        self.idle: set[str] = set()  # the annotators whose card had no question last

    def settings(self) -> Settings:
        """The settings of the session as they are stored now; Removed where it is not open to who is here."""
        return stored_settings(self.session.store, self.session.id)

    def refresh(self) -> None:
        """Follow what was answered or removed elsewhere."""
        self.settings()
        self.session.refresh()

    def handle(self, event: messages.Event, annotator: str) -> None:
        """Store an event of the card."""
        with self._lock:
            check_may_answer(self.session.store, self.session.id)
            self._act(event, annotator)
            self._remember(event, annotator)

    def _act(self, event: messages.Event, annotator: str) -> None:
        session = self.session
        match event:
            case messages.Note():
                session.note(event.id, event.item, event.text, annotator)
            case messages.Tag():
                session.tag(event.id, event.item, event.tag, event.given, annotator)
            case messages.Preference():
                session.store.put_preferences(annotator, self._preferences(annotator) | event.changes.chosen)
            case messages.Undo():
                try:
                    session.undo(event.id, event.question, annotator)
                except OthersAnsweredError:  # the card shows the item once more, and the next answer corrects
                    self._reopened[annotator] = event.question
            case messages.Correction():
                self._check_item(event)
                self._check_label(event)
                session.correct(event.id, event.question, event.label, annotator, event.seconds, event.highlighted)
            case messages.Answer():
                self._check_item(event)
                label = SKIP if event.action == "skip" else cast(int, event.label)  # the session refuses None
                again = self._reopened.pop(annotator, None) == event.question
                answer = session.correct if again else session.answer
                answer(event.id, event.question, label, annotator, event.seconds, event.highlighted)

    def _remember(self, event: messages.Event, annotator: str) -> None:
        """Remember the question that an annotator answered last; a skip or an undo brings its item back."""
        if isinstance(event, messages.Answer | messages.Correction | messages.Undo):
            self._labeled.pop(annotator, None)
        if isinstance(event, messages.Answer | messages.Correction) and event.label:
            self._labeled[annotator] = event.question

    def _verdict(self, annotator: str) -> dict[str, Any] | None:
        """Return what the model made of the item that an annotator answered last."""
        last = self._labeled.get(annotator)
        return next((verdict(entry) for entry in reversed(self.session.log) if entry.id == last), None)

    def _preferences(self, annotator: str) -> dict[str, Any]:
        return messages.known_preferences(self.session.store.preferences(annotator))

    def _check_item(self, event: messages.Answer | messages.Correction) -> None:
        """In a database that was restored a question may have the number of one that the browser still knows."""
        asked = self.session.store.item_of(self.session.id, event.question)
        if event.item is not None and event.item != asked:
            raise SessionError("this answer is to an item that is no longer asked.")

    def _check_label(self, event: messages.Correction) -> None:
        """What somebody else has answered since the item was shown once more is not corrected unseen."""
        standing = self.session.store.standing_label(self.session.id, event.question)
        if standing and standing["label"] != event.was and not self.session.store.event(event.id):
            raise SessionError(f"this item was answered already by {standing['annotator'] or 'somebody'}.")

    def payload(
        self, problem: str | None = None, annotator: str = "", review: int | None = None, marks: bool | None = None
    ) -> dict[str, Any]:
        """What the card shows: this place, the place after each possible answer, and a problem there was.

        review: the number of the question after which the skipped ones are shown once more. marks: whether the terms
        that weigh most are marked, where the server does not know whether the annotator prefers it.
        """
        frame = self._frame(problem, annotator, review, marks)
        shown = frame["place"]
        if shown["end"] in ("budget", "stream"):  # outside the lock: scoring a long stream keeps no answer waiting
            shown["result"] = "\n".join([*self.summary, SAVED, *[MORE] * (shown["end"] == "stream")])
        return frame

    def _frame(self, problem: str | None, annotator: str, review: int | None, marks: bool | None) -> dict[str, Any]:
        with self._lock:
            session = self.session
            keys = keys_of(session.names)
            frame = {
                "session": self.name,
                "error": problem,
                "classes": [
                    {"label": label, "name": name, "keys": keys[label]} for label, name in session.names.items()
                ],
                "pushed": MEANINGS["pushed"],
            }
            try:
                settings = self.settings()
            except Removed as gone:
                return frame | self._removed(str(gone))
            place, ahead = self._held(annotator)
            preferences = self._preferences(annotator) if annotator else None
            marked = marks if preferences is None else preferences.get("highlight")
            beside = Beside(session.notes, session.tags, "marks" if marked else "item")
            (self.idle.discard if place.asked else self.idle.add)(annotator)
            return frame | {
                "place": self._place(place, beside),
                "previous": session.previous_of(annotator),
                "verdict": self._verdict(annotator),
                "branches": {
                    str(id): {str(label): self._place(branch, beside) for label, branch in branches.items()}
                    for id, branches in ahead.items()
                },
                "review": None if review is None else self._skipped(review, place, beside),
                "tags": with_keys(settings.tags or (), keys.values()),
                "guidelines": settings.guidelines,
                "links": {
                    "Download or replay it": f"Replay?session={session.id}",
                    "New session on this data": f"./?new={session.dataset.id}",
                },
                "preferences": preferences,
            }

    def _held(self, annotator: str) -> tuple[Place, dict[int, dict[int, Place]]]:
        """The place of an annotator, and what follows each possible answer there, by the question."""
        session, held = self.session, self.session.held(annotator)
        if (reopened := self._reopened.get(annotator)) and (again := session.answered(reopened)):
            held = [again, *held[:1]]
        place, current = session.place_at(held[0] if held else None), session.current
        ahead = {held[0].id: session.places_after(*held[:2])} if len(held) > 1 else {}
        if held and current and held[-1].id == current.id:
            ahead[current.id] = session.branches
        return place, ahead

    @property
    def summary(self) -> list[str]:
        """What the session has come to, in sentences."""
        sentences: list[str] = self.once("summary", lambda: outcome.summary(self.session))
        return sentences

    @property
    def name(self) -> str:
        """The session by a name that the session 1 of another database has not."""
        return f"{self.session.id} of {self.session.settings.created_at}"

    def _removed(self, why: str) -> dict[str, Any]:
        """What the card shows of a session that is no longer open, and why."""
        counters = asdict(self.session.place.progress)
        place = {"question": None, "end": "removed", "counters": counters, "result": capitalized(why)}
        return {
            "place": place,
            "previous": None,
            "verdict": None,
            "branches": {},
            "review": None,
            "tags": [],
            "guidelines": "",
            "links": {"All sessions": "./"},
            "preferences": None,
        }

    def _skipped(self, after: int, place: Place, beside: Beside) -> dict[str, Any]:
        """The skipped questions after one with this number: how many, and the first of them."""
        left = [asked for asked in self.session.skipped if asked.number > after]
        shown = [self._noted(asked, place, beside) for asked in left[:SKIPPED_AHEAD]]
        return {"after": after, "left": len(left), "questions": shown}

    @property
    def log(self) -> list[Entry]:
        """The history of the session."""
        return self.once("log", lambda: self.session.history, self.session.notes, self.session.tags)

    def once(self, name: str, make: Callable[[], Any], *beside: Any) -> Any:
        """What `make` gives of the session, made anew only where the log, or what is beside it, has changed."""
        with self._looking:  # not the lock of the card, which is not to wait
            now = (self.session.version, self.session.rounds, *beside)
            if self._made.get(name, (None,))[0] != now:
                self._made[name] = now, make()
            return self._made[name][1]

    def lately(self, name: str, make: Callable[[], Any]) -> Any:
        """The same, or what was made some moments ago: the answers of many would have it made all the time."""
        with self._looking:
            if perf_counter() >= self._due.get(name, 0):
                start = perf_counter()
                self.once(name, make)
                end = perf_counter()
                self._due[name] = end + min(REST * (end - start), LONGEST_REST)
            return self._made[name][1]

    def behind(self, name: str, make: Callable[[], Any]) -> Any:
        """What `make` gave of the session last (None: nothing yet), made anew in the background where the log has
        changed: only what was never made before keeps a page waiting, for PATIENCE."""
        with self._looking:
            now = (self.session.version, self.session.rounds)
            if name not in self._making and self._made.get(name, (None,))[0] != now:
                self._making[name] = now, BACKGROUND.submit(make)
            making = self._making.get(name)
        if making and wait([making[1]], 0 if name in self._made else PATIENCE).done:
            with self._looking:
                if self._making.get(name) is making:
                    del self._making[name]
                    self._made[name] = making[0], making[1].result()
        return self._made.get(name, (None, None))[1]

    def _place(self, place: Place, beside: Beside) -> dict[str, Any]:
        counters = asdict(place.progress)
        question = place.asked and self._noted(place.asked, place, beside)
        if question:
            return {"question": question, "end": None, "counters": counters, "result": None}
        end = "joining" if place.progress.end == "others" and self.session.someone_joins else place.progress.end
        return {"question": None, "end": end, "counters": counters, "result": self._result(end, place)}

    def _result(self, end: str | None, place: Place) -> str:
        """What the card says where there is no question."""
        if end == "joining":
            return f"{JOINING}\n{SAVED}"
        if end == "others":
            return f"What stays unanswered for {self.session.settings.lease / 60:g} minutes comes to you.\n{SAVED}"
        return self._shown.result(place.counts) + f"\n{MORE}" * (end == "stream")

    def _noted(self, asked: StoredQuestion, place: Place, beside: Beside) -> dict[str, Any]:
        left = {"note": beside.notes.get(asked.item, ""), "tags": beside.tags.get(asked.item, [])}
        return self._shown.question(asked, place, beside.show) | ({"note": "", "tags": []} if asked.blind else left)
