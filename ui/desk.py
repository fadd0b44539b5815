"""The server's side of the labeling card: one desk an open session, shared by every browser that shows it."""

import threading
from dataclasses import asdict, replace

import numpy as np
import streamlit as st

from oal_engine.kernel import metrics
from oal_engine.kernel.query_rules import QUERY_RULES
from oal_engine.kernel.rows import nonzero
from oal_engine.sessions.runs import SKIP, SessionError
from oal_engine.sessions.session import Session
from oal_engine.store import StorageError, StoreError

from . import charts, messages
from .page import Removed, store

KEPT_ITEMS = 50
SHOWN_FEATURES = 40
KEYS = "123456789qwetyuiopasdfjklxvbm"  # of K classes; c and r are Streamlit's, g, h, n and z are the card's own
MOST_TERMS = 1_000  # highlighted in one text: the strongest
MORE = "New items will appear here automatically."
SKIPPED_AHEAD = 6  # items shown once more that the browser gets at a time


@st.cache_resource(max_entries=50)
def desk(session):
    """The desk of a session, opened once in this server process."""
    return Desk(session)


class Desk:
    """Answers the card's events and says what it shows next."""

    def __init__(self, session):
        self.session = Session(store(), session)
        self._lock = threading.Lock()
        self._items = {}
        self._looking = threading.RLock()
        self._made = {}

    def settings(self):
        """The settings of the session as they are stored now; Removed where it is gone."""
        try:
            return self.session.store.session(self.session.id)
        except StorageError:
            raise
        except StoreError:
            raise Removed from None

    def refresh(self):
        """Follow what was answered or removed elsewhere."""
        self.settings()
        self.session.refresh()

    def handle(self, event, annotator):
        """Store an event of the card."""
        with self._lock:
            self.settings()
            self._act(event, annotator)

    def _act(self, event, annotator):
        session = self.session
        match event:
            case messages.Note():
                session.note(event.id, event.item, event.text, annotator)
            case messages.Preference():
                session.store.put_preferences(annotator, self._preferences(annotator) | event.changes.chosen)
            case messages.Undo():
                session.undo(event.id, event.question)
            case messages.Correction():
                self._check_label(event)
                session.correct(event.id, event.question, event.label, annotator, event.seconds, event.highlighted)
            case messages.Answer():
                label = SKIP if event.action == "skip" else event.label
                session.answer(event.id, event.question, label, annotator, event.seconds, event.highlighted)

    def _preferences(self, annotator):
        return messages.known_preferences(self.session.store.preferences(annotator))

    def _check_label(self, event):
        """What somebody else has answered since the item was shown once more is not corrected unseen."""
        standing = self.session.store.standing_label(event.question)
        if standing and standing["label"] != event.was and not self.session.store.event(event.id):
            raise SessionError(f"this item was answered already by {standing['annotator'] or 'somebody'}.")

    def payload(self, problem=None, annotator="", review=None):
        """What the card shows: this place, the place after each possible answer, and a problem there was.

        review: the number of the question after which the skipped ones are shown once more.
        """
        with self._lock:
            session = self.session
            frame = {
                "session": self.name,
                "error": problem,
                "classes": [
                    {"label": label, "name": name, "keys": self._keys(label)} for label, name in session.names.items()
                ],
            }
            try:
                about = self.settings()
            except Removed:
                return frame | self._removed()
            session.refresh()
            place, notes = session.place, session.notes
            ahead = {place.asked.id: session.branches} if place.asked else {}
            return frame | {
                "place": self._place(place, notes),
                "previous": session.previous,
                "branches": {
                    str(id): {str(label): self._place(branch, notes) for label, branch in branches.items()}
                    for id, branches in ahead.items()
                },
                "review": None if review is None else self._skipped(review, place, notes),
                "guidelines": about["guidelines"],
                "links": {
                    "Download or replay it": f"Replay?session={session.id}",
                    "New session on this data": f"./?new={session.dataset.id}",
                },
                "preferences": self._preferences(annotator) if annotator else None,
            }

    @property
    def name(self):
        """The session by a name that the session 1 of another database has not."""
        return f"{self.session.id} of {self.session.about['created_at']}"

    def _removed(self):
        """What the card shows of a session that is gone."""
        counters = asdict(self.session.place.progress)
        place = {"question": None, "end": "removed", "counters": counters, "result": "Its answers are gone with it."}
        return {
            "place": place,
            "previous": None,
            "branches": {},
            "review": None,
            "guidelines": "",
            "links": {"All sessions": "./"},
            "preferences": None,
        }

    def _skipped(self, after, place, notes):
        """The skipped questions after one with this number: how many, and the first of them."""
        left = [asked for asked in self.session.skipped if asked.number > after]
        shown = [self._noted(replace(place, asked=asked), notes) for asked in left[:SKIPPED_AHEAD]]
        return {"after": after, "left": len(left), "questions": shown}

    def _keys(self, label):
        if self.session.multiclass:
            return list(KEYS[label - 1 : label])
        return ["a", "1"] if label > 0 else ["x", "0"]

    @property
    def log(self):
        """The history of the session."""
        return self.once("log", lambda: self.session.history, self.session.notes)

    def once(self, name, make, *beside):
        """What `make` gives of the session, made anew only where the log, or what is beside it, has changed."""
        with self._looking:  # not the lock of the card, which is not to wait
            now = (self.session.version, self.session.rounds, *beside)
            if self._made.get(name, (None,))[0] != now:
                self._made[name] = now, make()
            return self._made[name][1]

    def _place(self, place, notes):
        counters = asdict(place.progress)
        question = place.asked and self._noted(place, notes)
        result = None if question else self._result(place.counts) + f"\n{MORE}" * (place.progress.end == "stream")
        return {"question": question, "end": place.progress.end, "counters": counters, "result": result}

    def _result(self, counts):
        """The outcome in a sentence, for the end of the session."""
        if not self.session.labelled:
            return "Every answer is saved."
        push, both = (self.session.evaluate(counts, name) for name in metrics.EVALUATIONS)
        told = charts.HEADLINES[self.session.multiclass].items()
        push, both = (" and ".join(f"{title} {found[name]:.3f}" for name, title in told) for found in (push, both))
        return f"Over the stream: {push} under push, {both} under push-and-query. Every answer is saved."

    def _noted(self, place, notes):
        return self._question(place) | {"note": notes.get(place.asked.item, "")}

    def _question(self, place):
        asked, item = place.asked, self._item(place.asked.item)
        text, weights = item["text"], place.weights
        if self.session.multiclass:  # what speaks for the predicted class, more than for the others
            weights = weights[:, asked.predicted - 1] - weights.mean(axis=1)
        return {
            "id": asked.id,
            "number": asked.number,
            "item": asked.item,
            "title": item["id"],
            "parts": [] if text is None else self._parts(text, asked.item, weights),
            "features": self._features(asked.item, weights) if text is None else None,
            "why": why(self.session.about, asked, place.progress),
            "guess": {"label": asked.predicted, "score": _score(asked.margin)} if asked.margin else None,
            "old": asked.old,
        }

    def _item(self, position):
        if len(self._items) > KEPT_ITEMS:
            self._items.clear()
        if position not in self._items:
            self._items[position] = self.session.dataset.item(position)
        return self._items[position]

    def _contributions(self, position, weights):
        """w_j x_j of each non-zero column of an item, relative to the largest, by column."""
        columns, values = nonzero(self.session.dataset.rows, position)
        parts = weights[columns] * values
        largest = np.abs(parts).max(initial=0)
        return columns, values, parts / largest if largest > 0 else parts

    def _parts(self, text, position, weights):
        columns, _, shares = self._contributions(position, weights)
        share = dict(zip(columns.tolist(), shares.round(3).tolist()))
        spans = self.session.dataset.vocabulary.spans(text)
        terms = [(start, end, share[column]) for start, end, column in spans if share.get(column)]
        if len(terms) > MOST_TERMS:  # a browser is slow with more of them
            weakest = sorted(abs(weight) for *_, weight in terms)[-MOST_TERMS]
            terms = [term for term in terms if abs(term[2]) >= weakest][:MOST_TERMS]
        parts, done = [], 0
        for start, end, weight in terms:
            parts += [[text[done:start], 0], [text[start:end], weight]]
            done = end
        return [part for part in [*parts, [text[done:], 0]] if part[0]]

    def _features(self, position, weights):
        columns, values, shares = self._contributions(position, weights)
        names = self.session.dataset.feature_names
        first = np.argsort(-np.abs(values), kind="stable")[:SHOWN_FEATURES]
        return [
            [names[columns[k]] if names else f"column {columns[k] + 1}", f"{values[k]:.4g}", round(float(shares[k]), 3)]
            for k in np.sort(first)
        ]


def _score(margin):
    return (f"{margin:+.2f}" if abs(margin) >= 0.01 else f"{margin:+.1g}").replace("-", "−")


def why(about, asked, progress):
    """Why this item is asked, in words that do not give away what the model thinks of it."""
    rule, chance = about["rule"], odds(asked.probability)
    if asked.audit or rule == "random":
        return f"Random check ({chance})."
    if getattr(QUERY_RULES[rule], "exhaustive", False):
        return "Every item is asked while the budget lasts."
    if rule == "positive":
        return "The model would push this item."
    if not progress.labels:
        return "The model knows nothing yet."
    if rule == "margin":
        return "The model is unsure: its score is close to the border."
    if asked.probability >= 0.5:
        return f"The model is unsure ({chance})."
    return f"Fairly sure; drawn anyway ({chance})."


def odds(probability):
    """A chance in words: a percentage, or of a small one how rare it is."""
    if not probability:  # of an item that was passed, in the player
        return "no chance"
    return f"{probability * 100:.0f} % chance" if probability >= 0.1 else f"about 1 in {1 / probability:,.0f} items"
