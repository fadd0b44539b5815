"""Compare the items of a file with themselves before they are stored: whatever rule was wrong, the result shows it.

Every import and every append passes this look, on a page, on the command line and in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from .codings import feature_names
from .guesses import ABSTRACTS, TITLES
from .items import Items
from .sources import SAMPLE_ROWS, DataError, Layout
from .tables import kind_of_name

ENOUGH_ITEMS = 10  # fewer may be alike by chance
BLOCK_ITEMS = 10_000
PROSE_WORDS = 4  # mean number of words of texts among which a single word is not a text


def look(items: Items, layout: Layout, name: str, is_import: bool) -> None:
    """Raise DataError, with the option that answers, if the items that were read contradict themselves. layout: what
    the user named. is_import: otherwise the items are appended, and may all have the same label or none."""
    columns, texts = items.columns, items.texts
    if texts and layout.header is None and items.description.get("header") == "no" and _is_header(texts):
        raise DataError(
            f"The first item of {name} is {' / '.join(texts[0].splitlines())[:80]!r}: say whether the first row names "
            "the columns (--header) or is an item (--no-header)."
        )
    if len(items.ids) < ENOUGH_ITEMS:
        return
    guessed, others = "text" in columns.guessed, items.vectors is not None  # numbers tell the items apart
    if texts and not others and (share := _share_of_one(texts)) > (0.5 if guessed else 1 - 1e-9):
        raise DataError(
            f"{'All' if share == 1 else 'Most'} texts of {name} are the same ({share:.0%}), in column "
            f"{' + '.join(columns.text)!r}: name the column of the texts (--text NAME), or columns of numbers to learn "
            "from (--feature NAME)."
        )
    if is_import and columns.label and "label" not in columns.guessed:
        _look_at_labels(items, name)
    if is_import and columns.features and not texts:
        _look_at_features(items, columns.features, name)


def _is_header(texts: Sequence[str]) -> bool:
    """Tell whether the first text is made of names of columns, or is a single word among longer texts."""
    first, *others = islice(texts, SAMPLE_ROWS)
    words = [len(text.split()) for text in others]
    odd = len(words) >= ENOUGH_ITEMS and min(words) > 1 and sum(words) >= PROSE_WORDS * len(words)
    return all(map(_is_name, first.split("\n"))) or (odd and len(first.split()) == 1)


def _is_name(word: str) -> bool:
    return word.strip().casefold() in TITLES | ABSTRACTS or (len(word.split()) == 1 and kind_of_name(word) is not None)


def _share_of_one(texts: Sequence[str]) -> float:
    """Return the share of the most frequent text if it is more than half of the texts, else 0."""
    majority, lead = "", 0
    for text in texts:
        majority, lead = (text, 1) if not lead else (majority, lead + (1 if text == majority else -1))
    count = sum(text == majority for text in texts)
    return count / len(texts) if 2 * count > len(texts) else 0.0


def _look_at_labels(items: Items, name: str) -> None:
    """Stop if a column that was named as the label has no label, or the same one in every row."""
    column, words = items.columns.label, {*items.labels}
    if not items.y.any():
        raise DataError(
            f"The column {column!r} of {name} holds no label: name another one (--label NAME), or import no labels "
            "(--label '')."
        )
    if len(words) == 1 and not items.columns.positive:
        raise DataError(
            f"Every label in column {column!r} of {name} is {words.pop()!r}: name another column (--label NAME), say "
            "that this is the positive label (--positive WORD), or import no labels (--label '')."
        )


def _look_at_features(items: Items, features: Sequence[str], name: str) -> None:
    """Stop if no feature varies, or if one that nobody named repeats the label: the model would read it."""
    low, high = _bounds(items, np.ones(len(items.ids), bool))
    if (low == high).all():
        raise DataError(
            f"All items of {name} have the same numbers: name other columns to learn from (--feature NAME), or the "
            "column of the texts (--text NAME)."
        )
    classes = [value for value in np.unique(items.y).tolist() if value]
    others = len(features) > 1 and "features" in items.columns.guessed
    if not others or len(classes) < 2 or np.count_nonzero(items.y) < ENOUGH_ITEMS:
        return
    bounds = np.array([_bounds(items, items.y == value) for value in classes])  # of shape (classes, 2, columns)
    fixed, start = (bounds[:, 0] == bounds[:, 1]).all(axis=0), 0
    for feature in features:
        own = slice(start, start := start + len(feature_names([feature], items.columns.codings)))
        if fixed[own].all() and len(np.unique(bounds[:, 0, own], axis=0)) == len(classes):
            named = " ".join(f"--feature {other!r}" for other in features if other != feature)
            raise DataError(
                f"The column {feature!r} of {name} says the same as the label {items.columns.label!r} in every row, so "
                f"that a model would read the answer: learn from the others ({named})."
            )


def _bounds(items: Items, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and the largest number of each column among the chosen items."""
    vectors: Any = items.vectors
    low, high = np.full(vectors.shape[1], np.inf), np.full(vectors.shape[1], -np.inf)
    for places in np.array_split(np.flatnonzero(chosen), 1 + len(items.ids) // BLOCK_ITEMS):
        if places.size:
            rows: Any = vectors[places]
            block = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)
            low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
    return low, high
