"""What the labeling card and the player show of an item: its text or features, and why it was asked.

Nothing that is shown before an answer tells what the model makes of the item: a person who sees the verdict follows it.
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np

from ..datasets import Dataset
from ..datasets.features import duplicates
from ..datasets.reading import details
from ..kernel.query_rules import QUERY_RULES
from ..kernel.rows import nonzero
from .fold import Place, Progress, Run
from .insights import outcome, top_terms
from .insights.curves import percent
from .log import Entry, StoredQuestion
from .settings import Settings

Show = Literal["item", "marks", "everything"]
Weigh = Callable[[Iterable[float]], list[Any]]  # weights as they are, or as marks

SAVED = "Every answer is saved."
KEPT_ITEMS = 50
SHOWN_FEATURES = 40
MOST_TERMS = 1_000  # highlighted in one text: the strongest
MARKED = 5  # of so many terms of an item one is highlighted before its answer


class Items:
    """Shows the items of a run: of an open session, or of a look back at one."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._items: dict[int, dict[str, Any]] = {}
        self._common = -1, np.empty(0, bool)  # which columns are too frequent to say much, after so many answers

    def question(self, asked: StoredQuestion, place: Place, show: Show = "item") -> dict[str, Any]:
        """Return a question at a place, as the browser shows it.

        show: the item alone; with its terms that weigh most marked, all alike; or, where it is answered, everything:
        the share of each term in the margin, and why it was asked.
        """
        item = self._item(asked.item)
        share = {} if show == "item" else self._shares(asked, place, show == "everything")
        weigh: Weigh = _marks if show == "marks" else list
        text = item["text"]
        parts = [] if text is None else self._parts(item, share, weigh)
        above = above_text(self.run, asked.item, text)
        heading = [[above.title, 0]] if above.title else []
        if text and above.begins:
            heading, parts = _between(parts, 0, len(above.title)), _between(parts, above.begins, len(text))
        reason = why(self.run.settings, asked, place.progress) if show == "everything" else choice(self.run.settings)
        return {
            "id": asked.id,
            "number": asked.number,
            "item": asked.item,
            "title": item["id"],
            "heading": heading,
            "facts": above.facts,
            "parts": parts,
            "features": self._features(asked.item, share, weigh) if text is None else None,
            "why": reason + self._seen(asked.item),
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

    def _shares(self, asked: StoredQuestion, place: Place, told: bool) -> dict[int, float]:
        """Return the share of each non-zero column of an item in its margin, w_j x_j, relative to the largest; 0 of the
        commonest terms. The waves of a vector are summed behind the columns that have a name.

        Of several classes: in the margin of the class predicted (told), or in that of the class for which it is
        largest, whichever it is.
        """
        dataset, prior = self.run.dataset, self.run.prior
        columns, values = nonzero(dataset.rows, asked.item)
        if self._common[0] != (answers := len(self.run.state.lessons)):
            common = np.zeros(dataset.rows.columns, bool)
            common[top_terms.common(self.run)] = True
            self._common = answers, common
        weights = place.weights[columns]
        if prior:  # what the model was only told before the first answer
            weights = weights - [prior.get(column, 0.0) for column in columns.tolist()]
        if self.run.multiclass:
            weights = weights - weights.mean(axis=1, keepdims=True)
            weights = weights[:, asked.predicted - 1] if told else abs(weights).max(axis=1)
        parts = np.where(self._common[1][columns], 0, weights * values)
        if dataset.vocabulary is None and dataset.latent:
            first = np.searchsorted(columns, dataset.named)
            columns, parts = np.append(columns[:first], dataset.named), np.append(parts[:first], parts[first:].sum())
        largest = np.abs(parts).max(initial=0)
        return dict(zip(columns.tolist(), (parts / largest if largest > 0 else parts).round(3).tolist()))

    def _parts(self, item: dict[str, Any], share: dict[int, float], weigh: Weigh) -> list[list[Any]]:
        text = item["text"]
        weight_of: dict[tuple[int, int], float] = {}
        for start, end, column in item["spans"]:
            weight_of[start, end] = weight_of.get((start, end), 0) + share.get(column, 0)
        terms = [(*span, weight) for span, weight in zip(weight_of, weigh(weight_of.values())) if weight]
        if len(terms) > MOST_TERMS:  # a browser is slow with more of them
            weakest = sorted(abs(weight) for *_, weight in terms)[-MOST_TERMS]
            terms = [term for term in terms if abs(term[2]) >= weakest][:MOST_TERMS]
        parts, done = [], 0
        for start, end, weight in terms:
            parts += [[text[done:start], 0], [text[start:end], weight]]
            done = end
        return [part for part in [*parts, [text[done:], 0]] if part[0]]

    def _features(self, position: int, share: dict[int, float], weigh: Weigh) -> list[list[Any]]:
        dataset = self.run.dataset
        lines = file_numbers(dataset, position, SHOWN_FEATURES)
        if dataset.latent:
            lines.append((dataset.named, top_terms.term(self.run, dataset.named), ""))
        weights = weigh(share.get(column, 0) for column, *_ in lines)
        return [[name, value, weight] for (_, name, value), weight in zip(lines, weights)]

    def result(self, counts: np.ndarray) -> str:
        """The result in a sentence, for the end of the session."""
        return f"{outcome.exact(self.run, counts)} {SAVED}" if self.run.labelled else SAVED


def _marks(weights: Iterable[float]) -> list[Any]:
    """Return True for the terms of an item that weigh most, for whichever class, else 0. As many are marked in every
    item of a size, and all alike: neither their number nor their look tells what the model makes of the item."""
    sizes = [abs(weight) for weight in weights]
    if not any(sizes):
        return sizes
    strongest = {*sorted(range(len(sizes)), key=lambda k: -sizes[k])[: -(-len(sizes) // MARKED)]}
    return [True if k in strongest else 0 for k in range(len(sizes))]


def above_text(run: Run, position: int, text: str | None) -> details.Heading:
    """What stands above the text of an item: its title, which may be the first line of the text, and other columns of
    its file."""
    dataset = run.dataset
    words = run.store.details(dataset.id, [position]).get(position, []) if dataset.details else []
    above = details.heading(dataset.details, words, run.shown)
    if above.title or not (text and dataset.has_titles):
        return above
    return details.with_title_of(text, above)


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


def choice(settings: Settings) -> str:
    """Return how the items of a session are chosen: one sentence for all of them, which tells nothing of any."""
    if settings.rule == "random":
        return "Chosen at random."
    if getattr(QUERY_RULES[settings.rule], "exhaustive", False):
        return "Every item is asked while the budget lasts."
    return "Chosen by the query rule or at random." if settings.audit or settings.floor else "Chosen by the query rule."


def why(settings: Settings, asked: StoredQuestion, progress: Progress) -> str:
    """Return why an item was asked, with the chance that it had: only for one that is answered."""
    rule, chance = settings.rule, f"{percent(asked.probability)} chance"
    if asked.audit or rule == "random":
        return f"Random check ({chance})."
    if getattr(QUERY_RULES[rule], "exhaustive", False):
        return "Every item is asked while the budget lasts."
    if rule == "positive":
        return "Every item that the model predicts as positive is asked."
    if not progress.labels:
        return "The model had no answer yet." if settings.prior else "The model knew nothing yet."
    if rule == "margin":
        return "The model was unsure: its score was close to the border."
    if asked.probability >= 0.5:
        return f"The model was unsure ({chance})."
    return f"The model was fairly sure; drawn anyway ({chance})."


def verdict(entry: Entry) -> dict[str, Any] | None:
    """Return what the model made of an answered item, and the chance that it was asked with: the class that it
    predicted, and the figures in words. None where it had no opinion, or where the item has no answer."""
    if not (entry.label and entry.margin):
        return None
    asked = f"{'Random check, chance' if entry.audit else 'Chance'} {percent(entry.probability)}."
    return {"question": entry.id, "label": entry.predicted, "margin": _score(entry.margin), "asked": asked}
