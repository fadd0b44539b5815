"""The server's side of the labeling card: one `CardServer` per open session, shared by every browser that shows it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, replace
from itertools import islice
from time import perf_counter
from typing import Any, NamedTuple, cast

import streamlit as st
from streamlit.url_util import make_url_path

from oal_engine.datasets.reading import details
from oal_engine.datasets.search import Search
from oal_engine.kernel.spending import FIND
from oal_engine.output.meanings import MEANINGS
from oal_engine.sessions.insights import outcome
from oal_engine.sessions.items import SAVED, Items, Show, verdict
from oal_engine.sessions.log import Entry, StoredQuestion, read_entry
from oal_engine.sessions.session import OthersAnsweredError, Session
from oal_engine.sessions.settings import SKIP, SessionError, Settings
from oal_engine.sessions.state import Place
from oal_engine.store import Row

from ..access import why_not_shown
from ..background import compile_later
from ..components.pulse import idle_seconds
from ..page import check_may_answer, checked_role, counted, removed_in_words, store, stored_settings
from . import messages

MORE_ITEMS = "New items will appear here automatically."
QUOTA = "You have given your {}. Thank you."
OTHER_TAB = "this item was answered already{}. To change the answer, correct it under History."

CLASS_KEYS = "123456789qwetyuiopasdfjklxvbm"  # keys of K classes; the card itself uses g, h, n and z
TAG_KEYS = "1234567890"  # keys of tags, unless a class has them
STREAMLIT_KEYS = "cr"  # Streamlit listens to them wherever the focus is
FIRST_WAIT_SECONDS = 1.0  # that a page waits for a view that has never been computed
CACHE_TIMES, CACHE_SECONDS = 20, 2.0  # a view is cached for 20 times its computation time, at most 2 idle seconds
SKIPPED_AHEAD = 6  # skipped items that the browser gets at a time
COMPILED_AFTER = 10  # answers: who gives as many will give more
MOST_OPEN = 300  # sessions that stay open in this server; with more in use, each answer would reopen one

BACKGROUND = ThreadPoolExecutor(1, "background")


def keys_of(names: dict[int, str]) -> dict[int, list[str]]:
    """Return the keyboard keys of each class: {label: keys}. A class whose name is one letter or digit gets that key;
    the other classes get keys by their position."""
    own: dict[str, int] = {}
    for label, name in names.items():
        if len(name) == 1 and name.isalnum() and name.lower() not in STREAMLIT_KEYS:
            own.setdefault(name.lower(), label)
    by_place = {1: "a1", -1: "x0"} if -1 in names else dict(zip(names, CLASS_KEYS))
    spare = iter([key for key in CLASS_KEYS[len(names) :] if key not in own])
    keys = {
        label: [key for key in own if own[key] == label] + [key for key in by_place.get(label, "") if key not in own]
        for label in names
    }
    return {label: each or [*islice(spare, 1)] for label, each in keys.items()}


def with_keys(tags: Iterable[str], class_keys: Iterable[list[str]]) -> list[dict[str, Any]]:
    """Assign the tags digits that no class uses as keys. The last tags have none if there are too few digits."""
    free = sorted({*TAG_KEYS} - {key for keys in class_keys for key in keys}, key=TAG_KEYS.index)
    return [{"name": name, "keys": free[place : place + 1]} for place, name in enumerate(tags)]


@st.cache_resource(max_entries=MOST_OPEN, show_spinner="Opening the session…")
def card_server(session: int) -> CardServer:
    """Return the card server of a session, opened once in this server process."""
    return CardServer(session)


def _answered(row: Row, annotator: str) -> str:
    """Return the refusal of an answer to a question that has another one. row: the question, as in `Store.answer`."""
    if row["annotator"] == annotator:
        return OTHER_TAB.format(f" by {annotator}" if annotator else "")
    return f"this item was answered already by {row['annotator'] or 'somebody'}."


class Annotations(NamedTuple):
    """Notes and tags by item, and which details of an item are shown."""

    notes: dict[int, str]
    tags: dict[int, list[str]]
    show: Show


class CardServer:
    """Stores the card's events and computes the data that the card shows."""

    def __init__(self, session: int) -> None:
        self.session = Session(store(), session)
        self._lock = threading.Lock()
        self._items = Items(self.session)
        self.search = Search(self.session.dataset)
        self._views_lock = threading.RLock()
        self._views: dict[str, tuple] = {}  # by name: (the version of the session, the view)
        self._running_views: dict[str, tuple[tuple, Future]] = {}
        self._cached_until: dict[str, float] = {}  # by name, on the clock of idle_seconds
        self._last_labeled: dict[str, int] = {}  # by annotator: the question they answered last, unless they skipped it
        self._events = 0
        self._reopened: dict[str, int] = {}  # by annotator: a question whose answer is being replaced
        if self.session.state.spent >= COMPILED_AFTER:  # its list needs machine code
            compile_later(self.session)

    @property
    def is_computing(self) -> bool:
        """Whether data is still being computed by `in_background`."""
        return bool(self._running_views)

    def is_idle(self, annotator: str) -> bool:
        """Tell whether an annotator has no question now."""
        with self._lock:
            checked_role(self.session.store, self.session.id)
            return self._held(annotator)[0].asked is None

    def settings(self) -> Settings:
        """Read the settings of the session. Raise Removed if it is not open to the user."""
        return stored_settings(self.session.store, self.session.id)

    def is_owned(self) -> bool:
        """Tell whether the user owns the session. Raise Removed if it is not open to them."""
        return checked_role(self.session.store, self.session.id) == "owner"

    def refresh(self) -> None:
        """Apply the events that other processes stored, and raise Removed if the session is gone."""
        checked_role(self.session.store, self.session.id)
        self.session.refresh()

    def handle(self, event: messages.Event, annotator: str) -> None:
        """Store an event of the card."""
        with self._lock, removed_in_words():
            check_may_answer(self.session.store, self.session.id, is_read=True)
            self._act(event, annotator)
            self._remember(event, annotator)
            self._events += 1
            if self._events == COMPILED_AFTER:
                compile_later(self.session)

    def _act(self, event: messages.Event, annotator: str) -> None:
        session = self.session
        match event:
            case messages.Note():
                session.note(event.id, event.item, event.text, annotator)
            case messages.Tag():
                session.tag(event.id, event.item, event.tag, event.added, annotator)
            case messages.Preference():
                session.refresh()
                session.store.put_preferences(annotator, self._preferences(annotator) | event.changes.chosen)
            case messages.Undo():
                try:
                    session.undo(event.id, event.question, annotator)
                except OthersAnsweredError:  # the card shows the item again, and the next answer is a correction
                    self._reopened[annotator] = event.question
            case messages.Correction():
                self._check_item(event)
                self._check_label(event, annotator)
                label = event.labels or cast(int, event.label)
                session.correct(event.id, event.question, label, annotator, event.seconds, event.highlighted)
            case messages.Answer():
                self._check_item(event)
                labels = SKIP if event.action == "skip" else event.labels or cast(int, event.label)
                again = self._reopened.pop(annotator, None) == event.question
                answer = session.correct if again else session.answer  # both raise an error for the label None
                try:
                    answer(event.id, event.question, labels, annotator, event.seconds, event.highlighted)
                except SessionError:
                    if session.store.event(event.id) or not self._is_given(event, annotator):
                        raise

    def _remember(self, event: messages.Event, annotator: str) -> None:
        """Remember the question that an annotator labeled last, and forget it after a skip or an undo."""
        if isinstance(event, messages.Answer | messages.Correction | messages.Undo):
            self._last_labeled.pop(annotator, None)
        if isinstance(event, messages.Answer | messages.Correction) and (event.labels or event.label):
            self._last_labeled[annotator] = event.question

    def _verdict(self, annotator: str) -> dict[str, Any] | None:
        """Return the model's prediction for the item that an annotator labeled last."""
        last, stored = self._last_labeled.get(annotator), self.session.store
        entry = last and read_entry(stored, self.session.id, last)
        if entry and entry.parts and entry.annotator != annotator:  # the labels come from somebody else
            own = (row for row in stored.opinions(self.session.id) if row["annotator"] == annotator)
            entry = replace(entry, labels=next((row["labels"] for row in own if row["question"] == last), entry.labels))
        audited = self.session.settings.audited  # an audit shows the algorithm's prediction, as without a column
        return verdict(entry.of_part(1) if audited else entry) if entry else None

    def _preferences(self, annotator: str) -> dict[str, Any]:
        return messages.known_preferences(self.session.store.preferences(annotator))

    def _check_item(self, event: messages.Answer | messages.Correction) -> None:
        """Refuse an answer if its question is about a different item from the one that it names: in a restored
        database, a question may reuse an id that the browser knows."""
        if event.item not in (None, self.session.item_of(event.question)):
            raise SessionError("this question was replaced; reload the page.")

    def _is_given(self, event: messages.Answer, annotator: str) -> bool:
        """Tell whether the annotator gave this answer already, in another tab. Refuse it if they gave another one."""
        session, store = self.session.id, self.session.store
        row = store.answer(session, event.question)
        if not row and (asked := store.asked_of_item(session, event.question)):
            row = store.answer(session, asked)  # the tab had prepared another question about the same item
        if not row or row["label"] is None or row["annotator"] != annotator:
            return False
        if (row["labels"] if event.labels else row["label"]) != (event.labels or event.label or SKIP):
            raise SessionError(_answered(row, annotator))
        return True

    def _check_label(self, event: messages.Correction, annotator: str) -> None:
        """Refuse a correction if the label has changed since the browser showed it."""
        current = self.session.store.answer(self.session.id, event.question) or {"label": None}
        label = current["labels" if isinstance(event.was, list) else "label"]
        if current["label"] is not None and label != event.was and not self.session.store.event(event.id):
            raise SessionError(_answered(current, annotator))

    def payload(
        self, problem: str | None = None, annotator: str = "", review: int | None = None, marks: bool | None = None
    ) -> dict[str, Any]:
        """Return the data that the card shows: the annotator's current place (the question or the end, and the
        counters), the place after each possible answer, and a problem.

        review: number of a question; skipped questions after it are shown again. marks: whether to highlight the
        heaviest terms, for annotators without a name, whose preferences only the browser knows.
        """
        frame = self._frame(problem, annotator, review, marks)
        place = frame["place"]
        if place["end"] in ("budget", "stream"):  # outside the lock: scoring a long stream must not delay an answer
            place["found"], remarks = self.outcome
            place["result"] = "\n".join([*remarks, *self._more_items(place["end"])])
        return frame

    def _frame(self, problem: str | None, annotator: str, review: int | None, marks: bool | None) -> dict[str, Any]:
        with self._lock, removed_in_words():
            session = self.session
            checked_role(session.store, session.id, is_read=True)
            place, ahead = self._held(annotator)
            settings, keys = session.settings, keys_of(session.names)
            classes = [{"label": label, "name": name, "keys": keys[label]} for label, name in session.names.items()]
            frame: dict[str, Any] = {"session": self.name, "error": problem}
            frame |= {"classes": classes, "pushed": MEANINGS["pushed"]}
            if settings.questions and not settings.audited:
                keys = keys_of(dict(enumerate(settings.question_names, 1)))
                frame["questions"] = [each | {"keys": keys[k]} for k, each in enumerate(settings.plain_questions, 1)]
                frame["answer_each"] = settings.answer_each
            preferences = self._preferences(annotator) if annotator else None
            highlight = marks if preferences is None else preferences.get("highlight")
            annotations = Annotations(*session.remarks.read(), "marks" if highlight else "item")
            self._items.load(each.asked for places in ({0: place}, *ahead.values()) for each in places.values())
            return frame | {
                "place": self._place(place, self._asked(place, annotations)) | self._quota(place, annotator),
                "previous": session.previous_of(annotator),
                "verdict": self._verdict(annotator),
                "branches": {str(id): self._branches(branches, annotations) for id, branches in ahead.items()},
                "review": None if review is None else self._skipped(review, place, annotations),
                "tags": with_keys(settings.tags or (), keys.values()),
                "guidelines": settings.all_guidelines,
                "preferences": preferences,
            }

    def _held(self, annotator: str) -> tuple[Place, dict[int, dict[int, Place]]]:
        """Return an annotator's place (question or end, and counters), and the place after each possible answer to the
        questions that they hold: {question id: {label: place}}."""
        session, held = self.session, self.session.held(annotator)
        if (reopened := self._reopened.get(annotator)) and (again := session.answered(reopened)):
            held = [again, *held[:1]]
        place, current = session.place_at(held[0] if held else None), session.current
        if len(held) >= session.allowed(annotator):  # nothing follows, or their quota is reached
            return place, {}
        ahead = {held[0].id: session.places_after(*held[:2])} if len(held) > 1 else {}
        if held and current and held[-1].id == current.id:
            ahead[current.id] = session.branches
        return place, ahead

    @property
    def outcome(self) -> tuple[list[tuple[str, str]], list[str]]:
        """The outcome of the session as lines of a table, and remarks on it in sentences."""
        lines: list[tuple[str, str]] = self.cached("outcome", lambda: outcome.end(self.session))
        return lines, [*outcome.about_known_labels(self.session), *outcome.differing(self.session)]

    @property
    def name(self) -> str:
        """Session id unique across databases (id and creation time)."""
        return f"{self.session.id} of {self.session.settings.created_at}"

    def _skipped(self, after: int, place: Place, annotations: Annotations) -> dict[str, Any]:
        """Return the first skipped questions after a question number, and how many such questions there are."""
        left = [asked for asked in self.session.skipped if asked.number > after]
        questions = [self._question(asked, place, annotations) for asked in left[:SKIPPED_AHEAD]]
        return {"after": after, "left": len(left), "questions": questions}

    @property
    def log(self) -> list[Entry]:
        """The history of the session."""
        return self.cached("log", lambda: self.session.history, *self.session.remarks.read())

    def cached(self, name: str, compute: Callable[[], Any], *inputs: Any) -> Any:
        """Return the cached data `name`, computed again only if the log or the other `inputs` have changed."""
        with self._views_lock:  # not the card's lock: an answer must not wait for a view
            version = (self.session.version, self.session.rounds, *inputs)
            if self._views.get(name, (None,))[0] != version:
                self._views[name] = version, compute()
            return self._views[name][1]

    def recent(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return the cached data `name`, which may be up to CACHE_SECONDS old, so that many annotators do not recompute
        it at each answer."""
        with self._views_lock:
            if idle_seconds() >= self._cached_until.get(name, 0):
                start = perf_counter()
                self.cached(name, compute)
                seconds = min(CACHE_TIMES * (perf_counter() - start), CACHE_SECONDS)
                self._cached_until[name] = idle_seconds() + seconds
            return self._views[name][1]

    def in_background(self, name: str, compute: Callable[[], Any], every: int = 1) -> Any:
        """Return cached data `name`, and recompute it in the background if the log changed, at each `every`-th change.

        A page waits only if nothing is cached yet, for at most FIRST_WAIT_SECONDS. Return None if it takes longer.
        """
        with self._views_lock:
            version = (self.session.version // every, self.session.rounds)
            if name not in self._running_views and self._views.get(name, (None,))[0] != version:
                self._running_views[name] = version, BACKGROUND.submit(compute)
            running = self._running_views.get(name)
        if running and wait([running[1]], 0 if name in self._views else FIRST_WAIT_SECONDS).done:
            with self._views_lock:
                if self._running_views.get(name) is running:
                    del self._running_views[name]
                    self._views[name] = running[0], running[1].result()
        return self._views.get(name, (None, None))[1]

    def _branches(self, branches: dict[int, Place], annotations: Annotations) -> dict[str, dict[str, Any]]:
        """Return the data of the place after each possible answer, by label. If several answers lead to the same
        question, its data is computed once."""
        places = {id(place.asked): place for place in branches.values()}
        questions = {key: self._asked(place, annotations) for key, place in places.items()}
        return {str(label): self._place(place, questions[id(place.asked)]) for label, place in branches.items()}

    def _asked(self, place: Place, annotations: Annotations) -> dict[str, Any] | None:
        return self._question(place.asked, place, annotations) if place.asked else None

    def _place(self, place: Place, question: dict[str, Any] | None) -> dict[str, Any]:
        counters = asdict(place.progress) | {"left": place.progress.left}
        if self.session.settings.goal == FIND:  # no item passes before the end
            counters |= {"streamed": None, "pushed": None}
        if question:
            return {"question": question, "end": None, "counters": counters, "result": None}
        end = "joining" if place.progress.end == "others" and self.session.someone_joins else place.progress.end
        return {"question": None, "end": end, "counters": counters, "result": self._result(end)}

    def _quota(self, place: Place, annotator: str) -> dict[str, Any]:
        """Return the closing message for an annotator who has reached their quota before the session ends, else {}."""
        if place.asked or place.progress.end in ("budget", "stream") or self.session.allowed(annotator) > 0:
            return {}
        return {"end": "quota", "result": f"{QUOTA.format(counted(self.session.settings.quota, 'answer'))}\n{SAVED}"}

    def _result(self, end: str | None) -> str:
        """Return the text of a card without a question."""
        if end == "joining":
            return f"Joining takes a few seconds the first time a second person opens this session.\n{SAVED}"
        if end == "others":
            minutes = self.session.settings.lease / 60
            return f"A question that stays unanswered for {minutes:g} minutes comes to you.\n{SAVED}"
        return "\n".join([SAVED, *self._more_items(end)])

    def _more_items(self, end: str | None) -> list[str]:
        """Return a sentence on later items if the stream has ended and may continue."""
        return [MORE_ITEMS] * (end == "stream" and not self.session.settings.audited)

    def _question(self, asked: StoredQuestion, place: Place, annotations: Annotations) -> dict[str, Any]:
        """Return a question with the note and tags of its item, which are left out for a blind second answer."""
        notes, tags = ({}, {}) if asked.blind else (annotations.notes, annotations.tags)
        own = {"note": notes.get(asked.item, ""), "tags": tags.get(asked.item, [])}
        return self._items.question(asked, place, annotations.show) | own | self._shown_picture(asked.item)

    def _shown_picture(self, item: int) -> dict[str, str]:
        """Return the address from which the browser fetches an item's picture, or the reason not to show it."""
        if not (word := self.picture(item)):
            return {}
        if reason := why_not_shown(word):
            return {"unshown": reason}
        served = make_url_path(st.get_option("server.baseUrlPath"), f"card/{self.session.id}/{item}")
        return {"picture": word if details.link("", word) else served}

    def picture(self, item: int) -> str:
        """Return the address or path of an item's picture ("": it has none)."""
        dataset = self.session.dataset
        cells = dataset.store.details(dataset.id, [item]).get(item, []) if dataset.details else []
        return details.picture(dataset.details, cells, self.session.shown_columns)
