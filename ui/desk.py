"""The server's side of the labeling card: one desk an open session, shared by every browser that shows it."""

import sqlite3
import threading
from dataclasses import asdict
from uuid import uuid4

import numpy as np
import streamlit as st

from oal_engine import metrics
from oal_engine.rows import matrix
from oal_engine.session import SKIP, Session, SessionError

from . import charts
from .page import store

BOOT = uuid4().hex  # new with every server process: the card sends again what was not acknowledged
KEPT_ITEMS = 50
SHOWN_FEATURES = 40
KEYS = "123456789qwertyuiopasdfgjklxcvbnm"  # of K classes; z is undo and h highlights


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
        self._drawn = None, []

    def handle(self, event, annotator):
        """Store an event of the card: whether it is done with, else it is sent again, and a problem there was."""
        with self._lock:
            try:
                self._act(event, annotator)
            except SessionError as error:
                return True, f"Not stored: {error}"
            except sqlite3.Error as error:
                return False, f"The answer could not be saved: {error}. It is kept here and sent again."
            return True, None

    def _act(self, event, annotator):
        if event["action"] == "undo":
            self.session.undo(event["id"], event["question"])
        else:
            label = SKIP if event["action"] == "skip" else event["label"]
            self.session.answer(event["id"], event["question"], label, annotator, event.get("seconds"))

    def payload(self, problem=None):
        """What the card shows: this place, the place after each possible answer, and a problem there was."""
        with self._lock:
            self.session.refresh()
            place, about = self.session.place, self.session.about
            branches = {}
            if place.asked:
                branches = {str(label): self._place(branch) for label, branch in self.session.branches.items()}
            return {
                "boot": BOOT,
                "session": f"{self.session.id} of {about['created_at']}",  # not the session 1 of another database
                "error": problem,
                "classes": [
                    {"label": label, "name": name, "keys": self._keys(label)}
                    for label, name in self.session.names.items()
                ],
                "place": self._place(place),
                "previous": self.session.previous,
                "branches": {str(place.asked.id): branches} if branches else {},
            }

    def _keys(self, label):
        if self.session.multiclass:
            return list(KEYS[label - 1 : label])
        return ["a", "1"] if label > 0 else ["x", "0"]

    def figures(self):
        """The charts of the session as it is, drawn anew only where the log has changed."""
        with self._lock:
            if self._drawn[0] != self.session.version:
                self._drawn = self.session.version, charts.of_session(self.session)
            return self._drawn[1]

    def _place(self, place):
        counters = asdict(place.progress)
        question = place.asked and self._question(place)
        result = None if question else self._result(place.counts)
        return {"question": question, "end": place.progress.end, "counters": counters, "result": result}

    def _result(self, counts):
        """The outcome in a sentence, for the end of the session."""
        if not self.session.labelled:
            return "Every answer is saved."
        push, both = (self.session.evaluate(counts, name) for name in metrics.EVALUATIONS)
        told = charts.HEADLINES[self.session.multiclass].items()
        push, both = (" and ".join(f"{title} {found[name]:.3f}" for name, title in told) for found in (push, both))
        return f"Over the stream: {push} under push, {both} under push-and-query. Every answer is saved."

    def _question(self, place):
        asked, item = place.asked, self._item(place.asked.item)
        text, weights = item["text"], place.weights
        if self.session.multiclass:  # what speaks for the predicted class, more than for the others
            weights = weights[:, asked.predicted - 1] - weights.mean(axis=1)
        return {
            "id": asked.id,
            "number": asked.number,
            "title": item["id"],
            "parts": [] if text is None else self._parts(text, asked.item, weights),
            "features": self._features(asked.item, weights) if text is None else None,
            "why": why(self.session.about, asked, place.progress),
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
        row = matrix(self.session.dataset.rows)[[position]]
        columns = row.indices if hasattr(row, "indices") else np.flatnonzero(row[0])
        values = row.data if hasattr(row, "indices") else row[0][columns]
        parts = weights[columns] * values
        largest = np.abs(parts).max(initial=0)
        return columns, values, parts / largest if largest > 0 else parts

    def _parts(self, text, position, weights):
        columns, _, shares = self._contributions(position, weights)
        share = dict(zip(columns.tolist(), shares.round(3).tolist()))
        parts, done = [], 0
        for start, end, column in self.session.dataset.vocabulary.spans(text):
            parts += [[text[done:start], 0], [text[start:end], share.get(column, 0)]]
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


def why(about, asked, progress):
    """Why this item is asked, in words that do not give away what the model thinks of it."""
    rule, chance = about["rule"], f"chance of being asked {asked.probability:.2f}"
    if asked.audit or rule == "random":
        return f"A random check ({chance})."
    if rule in ("all", "first"):
        return "Every item is asked while the budget lasts."
    if rule == "positive":
        return "The model would push this item."
    if not progress.labels:
        return "The model knows nothing yet."
    if rule == "margin":
        return "The model is unsure: its score is close to the border."
    if asked.probability >= 0.5:
        return f"The model is unsure ({chance})."
    return f"The model is fairly sure; asked by chance ({asked.probability:.2f})."
