"""Prior knowledge of the rare class, as weights that a learner begins with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from ..kernel import rows, stream
from ..kernel.rows import Rows
from ..store.fields import LONGEST_TEXT
from .features.table import FeatureTable
from .reading.parsed import name_list, plural
from .reading.sources import DataError
from .stored import Dataset

# The length of the weight vector of each source; rows have length 1.
TRUST = {"words": 6.0, "items": 3.0, "texts": 3.0, "scores": 6.0}
MAX_WEIGHTS = 10_000  # only the largest are kept
COMMA = re.compile("[,;、，،]")
PHRASE_WORDS, PHRASE_CHARACTERS = 3, 30  # with longer parts, a line is an example text
WORD, SENTENCE, NEGATION = re.compile(r"[^\W\d_]{3,}"), re.compile(r"[.;!?\n]"), re.compile(r"\b(not|no)\b")
COMMON, MOST_SUGGESTED = 0.1, 3  # words in a larger share of the texts say little; most words to suggest
MOST_TEXTS = 100  # example texts


@dataclass(frozen=True)
class Prior:
    """The initial weights of a learner, {column: weight}, and their sources: seed words, ids of seed items, name of a
    model, number of scores, example texts. unknown: seed words that do not occur in the data."""

    words: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    model: str | None = None
    scores: int = 0
    unknown: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    weights: dict[int, float] = field(default_factory=dict, repr=False)

    @property
    def source(self) -> dict[str, Any]:
        """The sources of the weights, ready for JSON. `texts` is left out if there are none, as in earlier versions."""
        sources = {
            "words": [*self.words],
            "items": [*self.items],
            "model": self.model,
            "scores": self.scores,
            "unknown": [*self.unknown],
        }
        return sources | ({"texts": [*self.texts]} if self.texts else {})


def described(source: Mapping[str, Any]) -> str:
    """Describe the sources of a prior, `Prior.source`, in sentences."""
    parts = [
        f"the word{'s' * (len(source['words']) > 1)} {', '.join(source['words'])}" if source["words"] else "",
        f"the item{'s' * (len(source['items']) > 1)} {', '.join(source['items'])}" if source["items"] else "",
        f"the model of {source['model']}" if source["model"] else "",
        f"scores of {source['scores']:,} items" if source["scores"] else "",
        plural(len(source["texts"]), "example text") if source.get("texts") else "",
    ]
    unknown = f" Not in the data: {', '.join(source['unknown'])}." if source["unknown"] else ""
    return f"The model began with {' and '.join(filter(None, parts))}.{unknown}"


def make_prior(
    data: Dataset | FeatureTable,
    words: Sequence[str] = (),
    items: Sequence[str] = (),
    model: tuple[str, Mapping[str, float]] | None = None,
    scores: Mapping[str, float] | None = None,
    texts: Sequence[str] = (),
) -> Prior | None:
    """Make a prior from its sources. Return None if there are none.

    words, items, texts: seed words, ids of items and example texts of the rare class. model: its name, and {term or
    feature: weight}. scores: {item id: score}, higher in the rare class. Raise DataError if one does not fit the data.
    """
    words, items, texts = (tuple(dict.fromkeys(filter(None, map(str.strip, each)))) for each in (words, items, texts))
    if not (words or items or model or scores or texts):
        return None
    total, unknown = np.zeros(data.rows.columns), tuple[str, ...]()
    if words:
        words, unknown = divided(data, words)
        if not words:
            raise DataError(f"seed words must occur in the data. Got {name_list(unknown, 5)}.")
        total += TRUST["words"] * _mean_direction(data.transform(words), range(len(words)))
    if items:
        positions = data.positions(items)
        if missing := [id for id in items if id not in positions]:
            raise DataError(f"seed items must be existing item ids. Got {name_list(missing, 5)}.")
        total += TRUST["items"] * _mean_direction(data.rows, [positions[id] for id in items])
    if model:
        total += _model_weights(data, *model)
    if scores:
        total += TRUST["scores"] * _score_direction(data, scores)
    if texts:
        total += TRUST["texts"] * _direction_of_texts(data, texts)
    largest = np.argsort(-np.abs(total), kind="stable")[:MAX_WEIGHTS]
    weights = {int(column): float(total[column]) for column in np.sort(largest) if total[column]}
    return Prior(words, items, model and model[0], len(scores or ()), unknown, texts, weights)


def read_lines(written: str) -> tuple[list[str], list[str]]:
    """Split the lines of a form field into (seed words, example texts): a line of short parts, separated by
    commas, gives seed words; any other line is one example text."""
    words, texts = list[str](), list[str]()
    for line in filter(None, map(str.strip, written.splitlines())):
        parts = [part for each in COMMA.split(line) if (part := each.strip())]
        short = all(len(part.split()) <= PHRASE_WORDS and len(part) <= PHRASE_CHARACTERS for part in parts)
        words, texts = (words + parts, texts) if short else (words, [*texts, line])
    return words, texts


def divided(data: Dataset | FeatureTable, words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split words into (words of the vocabulary, unknown words). Raise DataError if the items are vectors."""
    if data.vocabulary is None:
        raise DataError("seed words need texts; these items are vectors. Use seed items.")
    vocabulary_words = tuple(word for word in words if data.vocabulary.knows(word))
    return vocabulary_words, tuple(word for word in words if word not in vocabulary_words)


def suggested(data: Dataset, description: str) -> list[str]:
    """Suggest seed words for the rare class: words of its description that are in the vocabulary, but in no more than
    10 % of the texts. Words in more texts come first. Sentences with a negation ("not", "no") are ignored."""
    if data.vocabulary is None:
        return []
    sentences = (each for each in SENTENCE.split(description.lower()) if not NEGATION.search(each))
    words = dict.fromkeys(word for each in sentences for word in WORD.findall(each))
    shares = {word: share for word, share in data.vocabulary.shares(words).items() if share <= COMMON}
    return sorted(shares, key=lambda word: -shares[word])[:MOST_SUGGESTED]


def typical(data: Dataset, y: np.ndarray) -> list[str]:
    """Suggest seed words from labels: words that occur in a larger share of the positive than of the negative items,
    the largest difference first. y: -1, +1, or 0 for no label. Return [] if either class has no items."""
    items = np.flatnonzero(y)
    if data.vocabulary is None or not {-1, 1} <= {*y[items].tolist()}:
        return []
    which, columns = rows.entries(data.rows, items)
    mine, others = (
        np.bincount(columns[(y[items] == label)[which]], minlength=data.named)[: data.named] / (y == label).sum()
        for label in (1, -1)
    )
    lead = np.argsort(others - mine, kind="stable")
    words = (word for k in lead.tolist() if WORD.fullmatch(word := data.vocabulary.terms[k]) and mine[k] > others[k])
    return [*islice(words, MOST_SUGGESTED)]


def _direction_of_texts(data: Dataset | FeatureTable, texts: Sequence[str]) -> np.ndarray:
    if data.vocabulary is None:
        raise DataError("example texts need texts; these items are vectors. Use seed items.")
    if len(texts) > MOST_TEXTS or max(map(len, texts)) > LONGEST_TEXT:
        raise DataError(f"there may be {MOST_TEXTS} example texts of {LONGEST_TEXT:,} characters at most.")
    if not data.encoder and not any(map(data.vocabulary.knows, texts)):
        raise DataError(f"example texts must share a word with the data. Got {texts[0][:80]}.")
    return _mean_direction(data.transform(texts), range(len(texts)))


def _model_weights(data: Dataset | FeatureTable, name: str, by_feature: Mapping[str, float]) -> np.ndarray:
    """Assign the weights of a model to columns by feature name. Raise DataError if no name matches."""
    features = data.vocabulary.terms if data.vocabulary else data.feature_names
    weights = np.zeros(data.rows.columns)  # columns without a name have weight 0
    weights[: len(features)] = [by_feature.get(feature, 0.0) for feature in features]
    if not weights.any():
        raise DataError(f"the model of {name} has no feature that the data has.")
    return weights


def _score_direction(data: Dataset | FeatureTable, scores: Mapping[str, float]) -> np.ndarray:
    """Compute the unit vector along which scores grow: the sum of the scored rows, each times (score - mean score)."""
    positions = data.positions(scores.keys())
    if len(positions) < len(scores):
        missing = [id for id in scores if id not in positions]
        raise DataError(f"seed scores must be by existing item ids. Got {name_list(missing, 5)}.")
    total, values = np.zeros(data.rows.columns), np.array([scores[id] for id in positions])
    stream.add_rows(data.rows, np.array([*positions.values()], np.int64), values - values.mean(), total)
    return _unit(total)


def _mean_direction(table: Rows, positions: Sequence[int]) -> np.ndarray:
    """Compute the unit vector in the direction of the mean of these rows, each row first scaled to unit length."""
    total = np.zeros(table.columns)
    for position in positions:
        columns, values = rows.nonzero(table, position)
        total[columns] += _unit(values)
    return _unit(total)


def _unit(vector: np.ndarray) -> np.ndarray:
    length = np.sqrt((vector * vector).sum())  # a BLAS norm has other bits on other processors
    return vector / length if length else vector
