"""What is known of the rare class before the first answer, as weights that a learner begins with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..kernel import rows, stream
from ..kernel.rows import Rows
from .features.table import FeatureTable
from .reading.readers import some
from .reading.sources import DataError
from .stored import Dataset

TRUST = {"words": 6.0, "items": 3.0, "scores": 6.0}  # length of the weights of each; that of rows is 1
MOST_COLUMNS = 10_000  # that a model may bring: those of its largest weights


@dataclass(frozen=True)
class Prior:
    """The words, the ids of items, the name of the model and the number of scores that a learner begins with, the words
    that the data does not know, and the weights made of all of them, by column."""

    words: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    model: str | None = None
    scores: int = 0
    unknown: tuple[str, ...] = ()
    weights: dict[int, float] = field(default_factory=dict, repr=False)

    @property
    def source(self) -> dict[str, Any]:
        """What the weights were made of, ready for JSON."""
        return {
            "words": [*self.words],
            "items": [*self.items],
            "model": self.model,
            "scores": self.scores,
            "unknown": [*self.unknown],
        }


def described(source: Mapping[str, Any]) -> str:
    """What a session began with (`Prior.source`), in sentences."""
    parts = [
        f"the word{'s' * (len(source['words']) > 1)} {', '.join(source['words'])}" if source["words"] else "",
        f"the item{'s' * (len(source['items']) > 1)} {', '.join(source['items'])}" if source["items"] else "",
        f"the model of {source['model']}" if source["model"] else "",
        f"scores of {source['scores']:,} items" if source["scores"] else "",
    ]
    unknown = f" Not in the data: {', '.join(source['unknown'])}." if source["unknown"] else ""
    return f"The model began with {' and '.join(filter(None, parts))}.{unknown}"


def made(
    data: Dataset | FeatureTable,
    words: Sequence[str] = (),
    items: Sequence[str] = (),
    model: tuple[str, Mapping[str, float]] | None = None,
    scores: Mapping[str, float] | None = None,
) -> Prior | None:
    """The prior of words and of ids of items that are of the rare class, of the name and the weights of a model by term
    or column, and of scores by id that are higher in the rare class; None where nothing is given. DataError names what
    the data set does not have."""
    words, items = (tuple(dict.fromkeys(filter(None, map(str.strip, given)))) for given in (words, items))
    if not (words or items or model or scores):
        return None
    total, unknown = np.zeros(data.rows.columns), tuple[str, ...]()
    if words:
        words, unknown = divided(data, words)
        if not words:
            raise DataError(f"seed words must be words that the data knows. Got {some(unknown, 5)}.")
        total += TRUST["words"] * _mean(data.transform(words), range(len(words)))
    if items:
        total += TRUST["items"] * _mean(data.rows, _positions(data, items))
    if model:
        total += _of_model(data, *model)
    if scores:
        total += TRUST["scores"] * _of_scores(data, scores)
    largest = np.argsort(-np.abs(total), kind="stable")[:MOST_COLUMNS]
    weights = {int(column): float(total[column]) for column in np.sort(largest) if total[column]}
    return Prior(words, items, model and model[0], len(scores or ()), unknown, weights)


def divided(data: Dataset | FeatureTable, words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words that the vocabulary knows, and those that it does not."""
    if data.vocabulary is None:
        raise DataError("seed words need texts; these items are vectors. Use seed items.")
    known = tuple(word for word in words if data.vocabulary.knows(word))
    return known, tuple(word for word in words if word not in known)


def _positions(data: Dataset | FeatureTable, ids: Sequence[str]) -> list[int]:
    positions = data.positions(ids)
    missing = [id for id in ids if id not in positions]
    if missing:
        raise DataError(f"seed items must be ids of items. Got {some(missing, 5)}.")
    return [positions[id] for id in ids]


def _of_model(data: Dataset | FeatureTable, name: str, by_feature: Mapping[str, float]) -> np.ndarray:
    """The weights of a model in the columns of the same names."""
    features = data.vocabulary.terms if data.vocabulary else data.feature_names
    weights = np.zeros(data.rows.columns)  # those of columns without a name stay 0
    weights[: len(features)] = [by_feature.get(feature, 0.0) for feature in features]
    if not weights.any():
        raise DataError(f"the model of {name} has no feature that the data has.")
    return weights


def _of_scores(data: Dataset | FeatureTable, scores: Mapping[str, float]) -> np.ndarray:
    """The direction in which scores grow: the sum of the rows that have one, each times its distance from the mean."""
    positions = data.positions(scores.keys())
    if len(positions) < len(scores):
        missing = [id for id in scores if id not in positions]
        raise DataError(f"seed scores must be of ids of items. Got {some(missing, 5)}.")
    total, values = np.zeros(data.rows.columns), np.array([scores[id] for id in positions])
    stream.add_rows(data.rows, np.array([*positions.values()], np.int64), values - values.mean(), total)
    return _unit(total)


def _mean(table: Rows, positions: Sequence[int]) -> np.ndarray:
    """The direction of the mean of some rows, in which each counts the same."""
    total = np.zeros(table.columns)
    for position in positions:
        columns, values = rows.nonzero(table, position)
        total[columns] += _unit(values)
    return _unit(total)


def _unit(vector: np.ndarray) -> np.ndarray:
    length = np.sqrt((vector * vector).sum())  # the dot product of a norm has other bits on other processors
    return vector / length if length else vector
