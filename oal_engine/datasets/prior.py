"""What is known of the rare class before the first answer, as weights that a learner begins with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..kernel import rows
from ..kernel.rows import Rows
from . import Dataset, FeatureTable
from .readers import some
from .sources import DataError

STRENGTH = 1.0  # the length of the weights; rows are of unit length
MOST_COLUMNS = 10_000  # that a model may bring: those of its largest weights


@dataclass(frozen=True)
class Prior:
    """The words, the ids of items and the name of the model that a learner begins with, the words that the data does
    not know, and the weights made of all of them, by column."""

    words: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    model: str | None = None
    unknown: tuple[str, ...] = ()
    weights: dict[int, float] = field(default_factory=dict, repr=False)

    @property
    def source(self) -> dict[str, Any]:
        """What the weights were made of, ready for JSON."""
        return {"words": [*self.words], "items": [*self.items], "model": self.model, "unknown": [*self.unknown]}


def described(source: Mapping[str, Any]) -> str:
    """What a session began with (`Prior.source`), in sentences."""
    parts = [
        f"the word{'s' * (len(source['words']) > 1)} {', '.join(source['words'])}" if source["words"] else "",
        f"the item{'s' * (len(source['items']) > 1)} {', '.join(source['items'])}" if source["items"] else "",
        f"the model of {source['model']}" if source["model"] else "",
    ]
    unknown = f" No item has {', '.join(source['unknown'])}." if source["unknown"] else ""
    return f"The model began with {' and '.join(filter(None, parts))}.{unknown}"


def made(
    data: Dataset | FeatureTable,
    words: Sequence[str] = (),
    items: Sequence[str] = (),
    model: tuple[str, Mapping[str, float]] | None = None,
) -> Prior | None:
    """The prior of words and of ids of items that are of the rare class, and of the name and the weights of a model by
    term or column; None where nothing is given. DataError names what the data set does not have."""
    words, items = (tuple(dict.fromkeys(filter(None, map(str.strip, given)))) for given in (words, items))
    parts, unknown = [], tuple[str, ...]()
    if words:
        known, unknown = _known(data, words)
        parts.append(_sum(data.transform(known), range(len(known))))
        words = tuple(known)
    if items:
        parts.append(_sum(data.rows, _positions(data, items)))
    if model:
        parts.append(_of_model(data, *model))
    if not parts:
        return None
    total = _unit(sum(map(_unit, parts), np.zeros(data.rows.columns)))
    largest = np.argsort(-np.abs(total), kind="stable")[:MOST_COLUMNS]
    weights = {int(column): STRENGTH * float(total[column]) for column in np.sort(largest) if total[column]}
    return Prior(words, items, model and model[0], unknown, weights)


def _known(data: Dataset | FeatureTable, words: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """The words that the vocabulary knows, and those that it does not."""
    if data.vocabulary is None:
        raise DataError("seed words need texts; these items are vectors. Use seed items.")
    sizes = np.diff(data.vocabulary.transform(words).indptr)
    known = [word for word, size in zip(words, sizes) if size]
    unknown = tuple(word for word, size in zip(words, sizes) if not size)
    if not known:
        raise DataError(f"no item has a seed word. Got {some(unknown, 5)}.")
    return known, unknown


def _positions(data: Dataset | FeatureTable, ids: Sequence[str]) -> list[int]:
    positions = data.positions(ids)
    missing = [id for id in ids if id not in positions]
    if missing:
        raise DataError(f"seed items must be ids of items. Got {some(missing, 5)}.")
    return [positions[id] for id in ids]


def _of_model(data: Dataset | FeatureTable, name: str, by_feature: Mapping[str, float]) -> np.ndarray:
    """The weights of a model in the columns of the same names."""
    features = data.vocabulary.terms if data.vocabulary else data.feature_names
    weights = np.array([by_feature.get(feature, 0.0) for feature in features])
    if not weights.any():
        raise DataError(f"the model of {name} has no feature that the data has.")
    return weights


def _sum(table: Rows, positions: Sequence[int]) -> np.ndarray:
    """The sum of some rows, each of unit length."""
    total = np.zeros(table.columns)
    for position in positions:
        columns, values = rows.nonzero(table, position)
        total[columns] += _unit(values)
    return total


def _unit(vector: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(vector)
    return vector / length if length else vector
