"""What the labeling card and the player show of an item: its text or features, and why it was asked."""

from typing import Any

import numpy as np

from ..datasets import Dataset, details, duplicates
from ..kernel.query_rules import QUERY_RULES
from ..kernel.rows import nonzero
from . import outcome, top_terms
from .fold import Place, Progress, Run
from .log import StoredQuestion
from .settings import Settings

SAVED = "Every answer is saved."
KEPT_ITEMS = 50
SHOWN_FEATURES = 40
MOST_TERMS = 1_000  # highlighted in one text: the strongest


class Items:
    """Shows the items of a run: of an open session, or of a look back at one."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._items: dict[int, dict[str, Any]] = {}
        self._common = -1, np.empty(0, bool)  # which columns are too frequent to say much, after so many answers

    def question(self, asked: StoredQuestion, place: Place) -> dict[str, Any]:
        """A question at a place, as the browser shows it."""
        item, weights = self._item(asked.item), place.weights
        text, prior = item["text"], self.run.prior
        if prior:  # before the answer nobody is shown what the model was only told
            weights = weights.copy()
            weights[[*prior]] -= [*prior.values()]
        if self.run.multiclass:  # what speaks for the predicted class, more than for the others
            weights = weights[:, asked.predicted - 1] - weights.mean(axis=1)
        parts = [] if text is None else self._parts(item, asked.item, weights)
        above = above_text(self.run, asked.item, text)
        heading = [[above.title, 0]] if above.title else []
        if text and above.begins:
            heading, parts = _between(parts, 0, len(above.title)), _between(parts, above.begins, len(text))
        return {
            "id": asked.id,
            "number": asked.number,
            "item": asked.item,
            "title": item["id"],
            "heading": heading,
            "facts": above.facts,
            "parts": parts,
            "features": self._features(asked.item, weights) if text is None else None,
            "why": why(self.run.settings, asked, place.progress) + self._seen(asked.item),
            "guess": {"label": asked.predicted, "score": _score(asked.margin)} if asked.margin else None,
            "old": asked.old,
        }

    def _item(self, position: int) -> dict[str, Any]:
        """An item with the spans of its terms; the same one may follow each answer, and then come next."""
        if len(self._items) > KEPT_ITEMS:
            self._items.clear()
        if position not in self._items:
            item, vocabulary = self.run.dataset.item(position), self.run.dataset.vocabulary
            self._items[position] = item | {"spans": vocabulary.spans(item["text"]) if vocabulary else []}
        return self._items[position]

    def _seen(self, position: int) -> str:
        """How often a text was seen whose near-duplicates were left out, in a sentence."""
        dataset = self.run.dataset
        once = dataset.record["near_duplicates"] == duplicates.ONCE
        copies = self.run.store.copies(dataset.id, position) if once else 0
        return f" Seen {1 + copies:,} times." if copies else ""

    def _shares(self, position: int, weights: np.ndarray) -> dict[int, float]:
        """w_j x_j of each non-zero column of an item, relative to the largest, by column; 0 of the commonest terms. Of
        a vector with waves, their sum stands behind the columns that have a name."""
        dataset = self.run.dataset
        columns, values = nonzero(dataset.rows, position)
        if self._common[0] != (answers := len(self.run.state.lessons)):
            common = np.zeros(dataset.rows.columns, bool)
            common[top_terms.common(self.run)] = True
            self._common = answers, common
        parts = np.where(self._common[1][columns], 0, weights[columns] * values)
        if dataset.vocabulary is None and dataset.latent:
            first = np.searchsorted(columns, dataset.named)
            columns, parts = np.append(columns[:first], dataset.named), np.append(parts[:first], parts[first:].sum())
        largest = np.abs(parts).max(initial=0)
        return dict(zip(columns.tolist(), (parts / largest if largest > 0 else parts).round(3).tolist()))

    def _parts(self, item: dict[str, Any], position: int, weights: np.ndarray) -> list[list[Any]]:
        text, share = item["text"], self._shares(position, weights)
        weight_of: dict[tuple[int, int], float] = {}
        for start, end, column in item["spans"]:
            weight_of[start, end] = weight_of.get((start, end), 0) + share.get(column, 0)
        terms = [(*span, weight) for span, weight in weight_of.items() if weight]
        if len(terms) > MOST_TERMS:  # a browser is slow with more of them
            weakest = sorted(abs(weight) for *_, weight in terms)[-MOST_TERMS]
            terms = [term for term in terms if abs(term[2]) >= weakest][:MOST_TERMS]
        parts, done = [], 0
        for start, end, weight in terms:
            parts += [[text[done:start], 0], [text[start:end], weight]]
            done = end
        return [part for part in [*parts, [text[done:], 0]] if part[0]]

    def _features(self, position: int, weights: np.ndarray) -> list[list[Any]]:
        dataset, share = self.run.dataset, self._shares(position, weights)
        shown = file_numbers(dataset, position, SHOWN_FEATURES)
        lines = [[name, value, share.get(column, 0.0)] for column, name, value in shown]
        return lines + ([[top_terms.term(self.run, dataset.named), "", share[dataset.named]]] if dataset.latent else [])

    def result(self, counts: np.ndarray) -> str:
        """The result in a sentence, for the end of the session."""
        return f"{outcome.exact(self.run, counts)} {SAVED}" if self.run.labelled else SAVED


def above_text(run: Run, position: int, text: str | None) -> details.Shown:
    """What stands above the text of an item: its title, which may be the first line of the text, and other columns of
    its file."""
    dataset = run.dataset
    words = run.store.details(dataset.id, [position]).get(position, []) if dataset.details else []
    above = details.shown(dataset.details, words, run.shown)
    if above.title or not (text and dataset.titled):
        return above
    return details.headed(above, text)


def _between(parts: list[list[Any]], start: int, stop: int) -> list[list[Any]]:
    """The parts of a text from one of its characters to another."""
    at, kept = 0, []
    for words, weight in parts:
        if piece := words[max(0, start - at) : max(0, stop - at)]:
            kept.append([piece, weight])
        at += len(words)
    return kept


def file_numbers(dataset: Dataset, position: int, most: int | None = None) -> list[tuple[int, str, str]]:
    """The numbers of a vector as its file has them: column, name and number in words; no more than `most`, those that
    weigh most in its row."""
    columns, values = dataset.numbers.of_item(position)
    if most is not None and len(columns) > most:
        row = dict(zip(*(part.tolist() for part in nonzero(dataset.rows, position))))
        weight = np.array([abs(row.get(column, 0.0)) for column in columns.tolist()])
        first = np.sort(np.argsort(-weight, kind="stable")[:most])
        columns, values = columns[first], values[first]
    names, digits = dataset.feature_names, 4 if dataset.numbers.values is None else 10
    return [
        (column, names[column] if names else f"column {column + 1}", f"{value:.{digits}g}")
        for column, value in zip(columns.tolist(), values.tolist())
    ]


def _score(margin: float) -> str:
    return (f"{margin:+.2f}" if abs(margin) >= 0.01 else f"{margin:+.1g}").replace("-", "−")


def why(settings: Settings, asked: StoredQuestion, progress: Progress) -> str:
    """Why this item is asked, in words that do not give away what the model thinks of it."""
    rule, chance = settings.rule, odds(asked.probability)
    if asked.audit or rule == "random":
        return f"Random check ({chance})."
    if getattr(QUERY_RULES[rule], "exhaustive", False):
        return "Every item is asked while the budget lasts."
    if rule == "positive":
        return "The rule of this session asks for it."
    if not progress.labels:
        return "The model has no answer yet." if settings.prior else "The model knows nothing yet."
    if rule == "margin":
        return "The model is unsure: its score is close to the border."
    if asked.probability >= 0.5:
        return f"The model is unsure ({chance})."
    return f"Fairly sure; drawn anyway ({chance})."


def odds(probability: float) -> str:
    """A chance in words: a percentage, or of a small one how rare it is."""
    if not probability:  # of an item that was passed, in the player
        return "no chance"
    return f"{probability * 100:.0f} % chance" if probability >= 0.1 else f"about 1 in {1 / probability:,.0f} items"
