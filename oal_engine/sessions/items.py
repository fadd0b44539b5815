"""Items as the labeling card and the player show them: text or features, and why the item was asked about.

Nothing that is shown before an answer reveals the model's prediction: people would follow it.
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np

from ..datasets import Dataset
from ..datasets.features import duplicates
from ..datasets.reading import details
from ..kernel.query_rules import QUERY_RULES
from ..kernel.rows import nonzero
from ..kernel.spending import FIND
from .fold import Run
from .insights import outcome, top_terms
from .insights.curves import percent
from .log import Entry, StoredQuestion, asks
from .settings import Settings
from .state import Place, Progress

Show = Literal["item", "marks", "everything"]
Weigh = Callable[[Iterable[float]], list[Any]]  # keeps weights, or turns them into marks

SAVED = "Every answer is saved."
CACHED_ITEMS = 50
SHOWN_FEATURES = 40
MAX_TERMS = 1_000  # most terms that are highlighted in one text: the strongest ones
TERMS_PER_MARK = 5  # before the answer, one in this many terms is highlighted


class Items:
    """The items of a run (an open session, or a look back at one) in the form that pages show."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._items: dict[int, dict[str, Any]] = {}
        self._common = -1, np.empty(0, bool)  # cache: number of answers, columns too frequent to say much then

    def question(self, asked: StoredQuestion, place: Place, show: Show = "item") -> dict[str, Any]:
        """Return a question at a point of the session (`place`), in the form that the browser shows.

        show: "item" is the item alone; "marks" adds marks, all alike, to the terms that weigh most; "everything", for
        an answered item, adds the share of each term in the margin, and why the item was asked about.
        """
        item = self.load([asked])[asked.item]
        share = {} if show == "item" else self._shares(asked, place, show == "everything")
        weigh: Weigh = _marks if show == "marks" else list
        text = item["text"]
        parts = [] if text is None else self._parts(item, share, weigh)
        above = above_text(self.run, asked.item, text, item["cells"])
        heading = [[above.title, 0]] if above.title else []
        if text and above.begins:
            heading, parts = _between(parts, 0, len(above.title)), _between(parts, above.begins, len(text))
        reason = why(self.run, asked, place.progress) if show == "everything" else ""
        return {
            "id": asked.id,
            "number": asked.number,
            "item": asked.item,
            "title": item["id"],
            "heading": heading,
            "facts": above.facts,
            "parts": parts,
            "features": self._features(asked.item, share, weigh) if text is None else None,
            "why": (reason + self._seen(asked.item)).strip(),
            "old": asked.old,
            **({"asks": [k for k in range(len(several)) if asks(several, k)]} if (several := asked.parts) else {}),
        }

    def load(self, questions: Iterable[StoredQuestion | None]) -> dict[int, dict[str, Any]]:
        """Return the items of some questions, and others, with their cells and the spans of their terms, {position:
        item}. They are read at once and cached, as the same item may follow several answers."""
        dataset, store, items = self.run.dataset, self.run.store, self._items
        wanted = {asked.item for asked in questions if asked}
        if new := wanted - items.keys():
            rest = items if len(items) < CACHED_ITEMS else {position: items[position] for position in wanted - new}
            cells = store.details(dataset.id, new) if dataset.details else {}
            own = {
                position: item | {
                    "spans": dataset.vocabulary.spans(item["text"]) if dataset.vocabulary else [],
                    "cells": cells.get(position, []),
                }
                for position, item in store.items(dataset.id, new, texts=True).items()
            }  # fmt: skip
            self._items = items = rest | own
        return items

    def _seen(self, position: int) -> str:
        """Say in a sentence how often a text occurs in the data, if its near-duplicates were left out; else ""."""
        dataset = self.run.dataset
        once = dataset.record["near_duplicates"] == duplicates.ONCE
        copies = self.run.store.copies(dataset.id, position) if once else 0
        return f" Seen {1 + copies:,} times." if copies else ""

    def _shares(self, asked: StoredQuestion, place: Place, of_predicted: bool) -> dict[int, float]:
        """Return the share w_j x_j of each non-zero column in the margin of an item, relative to the largest share:
        {column: share}, 0 for the most common terms. The Fourier features of a vector are summed into one share, after
        the named columns. An audited column is left out.

        of_predicted: with K classes, whether to use the margin of the predicted class; if not, each column has its
        largest share in the margin of any class.
        """
        dataset = self.run.dataset
        columns, values = nonzero(dataset.rows, asked.item)
        if self.run.settings.audited:
            others = columns < dataset.rows.columns - 1
            columns, values = columns[others], values[others]
        if self._common[0] != (answers := len(self.run.state.lessons)):
            common = np.zeros(dataset.rows.columns, bool)
            common[top_terms.common(self.run)] = True
            self._common = answers, common
        several = self.run.several  # questions, each with its own weights
        weights = place.weights[:, columns] if several else place.weights[columns]
        for k, prior in self.run.priors.items():  # subtract the prior weights that the session began with
            if not several or k < len(weights):
                weights[k if several else ...] -= [prior.get(column, 0.0) for column in columns.tolist()]
        if several:
            weights = np.abs(weights).max(axis=0)
        if self.run.multiclass:
            weights = weights - weights.mean(axis=1, keepdims=True)
            weights = weights[:, asked.predicted - 1] if of_predicted else abs(weights).max(axis=1)
        parts = np.where(self._common[1][columns], 0, weights * values)
        if dataset.vocabulary is None and self._has_waves:
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
        if len(terms) > MAX_TERMS:  # a browser is slow with more of them
            weakest = sorted(abs(weight) for *_, weight in terms)[-MAX_TERMS]
            terms = [term for term in terms if abs(term[2]) >= weakest][:MAX_TERMS]
        parts, done = [], 0
        for start, end, weight in terms:
            parts += [[text[done:start], 0], [text[start:end], weight]]
            done = end
        return [part for part in [*parts, [text[done:], 0]] if part[0]]

    def _features(self, position: int, share: dict[int, float], weigh: Weigh) -> list[list[Any]]:
        dataset = self.run.dataset
        lines = file_numbers(dataset, position, SHOWN_FEATURES)
        if self._has_waves:
            lines.append((dataset.named, top_terms.term(self.run, dataset.named), ""))
        weights = weigh(share.get(column, 0) for column, *_ in lines)
        return [[name, value, weight] for (_, name, value), weight in zip(lines, weights)]

    @property
    def _has_waves(self) -> bool:
        """Whether the rows have columns without a name, such as Fourier features. An audited column does not count."""
        return self.run.dataset.latent > bool(self.run.settings.audited)

    def result(self, counts: np.ndarray) -> str:
        """Say that every answer is saved, after the session's exact result if every item has a label in the data."""
        return f"{outcome.exact(self.run, counts)} {SAVED}" if self.run.labelled else SAVED


def _marks(weights: Iterable[float]) -> list[Any]:
    """Mark the terms of an item that have the largest absolute weights: return True for these terms and 0 for the
    others. All marks look alike, and items with equally many terms get equally many, so that marks do not reveal the
    model's prediction."""
    sizes = [abs(weight) for weight in weights]
    if not any(sizes):
        return sizes
    strongest = {*sorted(range(len(sizes)), key=lambda k: -sizes[k])[: -(-len(sizes) // TERMS_PER_MARK)]}
    return [True if k in strongest else 0 for k in range(len(sizes))]


def above_text(run: Run, position: int, text: str | None, cells: list[str] | None = None) -> details.Heading:
    """Return the lines above the text of an item: its title, which may be the first line of the text, and other columns
    of its file. cells: the cells of these columns (None: read them)."""
    dataset = run.dataset
    if cells is None:
        cells = run.store.details(dataset.id, [position]).get(position, []) if dataset.details else []
    above = details.heading(dataset.details, cells, run.shown_columns)
    return above if above.title or not (text and dataset.has_titles) else details.with_title_of(text, above)


def _between(parts: list[list[Any]], start: int, stop: int) -> list[list[Any]]:
    """Return the parts of a text from character `start` to `stop`."""
    at, pieces = 0, []
    for words, weight in parts:
        if piece := words[max(0, start - at) : max(0, stop - at)]:
            pieces.append([piece, weight])
        at += len(words)
    return pieces


def file_numbers(dataset: Dataset, position: int, most: int | None = None) -> list[tuple[int, str, str]]:
    """Return the cells of an item's vector as text, with rounded numbers: (index of the feature, name of the column,
    cell). most: return only the `most` cells whose features have the largest absolute values in the row (None: all)."""
    names, digits = dataset.feature_names, 4 if dataset.numbers.values is None else 10
    if dataset.codings:
        cells = [(cell.feature, cell.column, cell.value) for cell in dataset.numbers.original_cells(position)]
    else:
        columns, values = (part.tolist() for part in dataset.numbers.of_item(position))
        cells = [(k, names[k] if names else f"column {k + 1}", value) for k, value in zip(columns, values)]
    if most is not None and len(cells) > most:
        row = dict(zip(*(part.tolist() for part in nonzero(dataset.rows, position))))
        weight = np.array([abs(row.get(column, 0.0)) for column, *_ in cells])
        cells = [cells[k] for k in np.sort(np.argsort(-weight, kind="stable")[:most])]
    return [(k, name, value if isinstance(value, str) else f"{value:.{digits}g}") for k, name, value in cells]


def _score(margin: float) -> str:
    return (f"{margin:+.2f}" if abs(margin) >= 0.01 else f"{margin:+.1g}").replace("-", "−")


def choice(settings: Settings) -> str:
    """Say how the items of a session are chosen: the same sentence for every item, so that it reveals nothing."""
    if settings.rule == "random":
        return "Chosen at random."
    if getattr(QUERY_RULES[settings.rule], "exhaustive", False):
        return "Every item is asked while the budget lasts."
    draws = settings.audit or settings.floor or settings.goal == FIND
    return "Chosen by the query rule or at random." if draws else "Chosen by the query rule."


def why(run: Run, asked: StoredQuestion, progress: Progress) -> str:
    """Say why an answered item was asked about, and with which chance. It must not be shown before the answer."""
    rule, chance = run.settings.rule, f"{percent(asked.probability)} chance"
    if asked.audit or rule == "random":
        return f"Random check ({chance})."
    if getattr(QUERY_RULES[rule], "exhaustive", False):
        return "Every item is asked while the budget lasts."
    if rule == "positive":
        return "Every item that the model predicts as positive is asked."
    if not progress.labels:
        began = run.settings.all_priors or run.began_with.labels or progress.known_items
        return "The model had no answer yet." if began else "The model knew nothing yet."
    if rule == "margin":
        return "The model was unsure: its score was close to the border."
    if asked.probability >= 0.5:
        return f"The model was unsure ({chance})."
    return f"The model was fairly sure; drawn anyway ({chance})."


def verdict(entry: Entry) -> dict[str, Any] | None:
    """Return how the model judged an answered item when it was asked about: the predicted class, the margin, and the
    chance of asking. If there are several questions, the number of answers that the model agreed with replaces class
    and margin. None if the margin was 0 or the item has no answer."""
    asked = f"{'Random check, chance' if entry.audit else 'Chance'} {percent(entry.probability)}."
    if entry.parts:
        pairs = zip(entry.labels or (), entry.parts)
        same = [label == predicted for label, (margin, predicted) in pairs if label and margin]
        return {"question": entry.id, "agreed": sum(same), "of": len(same), "asked": asked} if same else None
    if not (entry.label and entry.margin):
        return None
    return {"question": entry.id, "label": entry.predicted, "margin": _score(entry.margin), "asked": asked}
