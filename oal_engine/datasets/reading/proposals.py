"""Propose the meaning of label words, and read the first items of a file, to show them before an import."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .columns import Columns
from .file import read
from .items import Items
from .labels import MORE_PAIRS, PAIRS, gaps_among, plain
from .parsed import Doubt, cell_text, name_list
from .sources import SAMPLE_ROWS, FileOrPath

NEGATIONS = ("non", "not", "no", "un", "ir", "in", "dis")  # before a word that is positive
SHOWN_NUMBERS = 12  # how many numbers of an item are shown


class Proposal(NamedTuple):
    """The likely meaning of label words: which are positive, whether each is a class, and which mean "no label"."""

    positive: tuple[str, ...]
    each_word: bool
    unknown: tuple[str, ...]


PERSON, MODEL, IGNORE = "labels that a person gave", "labels that a model made (audit them)", "ignore"


class FirstItem(NamedTuple):
    """An item as it will be imported. meaning: positive, negative, a class or "" (no label). fields: {column: cell}."""

    text: str
    label: str
    meaning: str
    fields: dict[str, str]


def label_doubt(candidates: Sequence[str], model_column: str | None) -> Doubt | None:
    """Ask which of the candidates is the label; or, if a model seems to have made the likeliest one, who made it.
    Return None if there is nothing to ask."""
    if model_column:
        question = (
            f"{model_column}: {PERSON} (--label {model_column!r}), {MODEL} (--label ''), or {IGNORE} (--label '')?"
        )
        return Doubt("made", question, (PERSON, MODEL, IGNORE))
    if not candidates:
        return None
    question = (
        f"The label could be in the column {name_list(candidates, 8)}: say which column holds it "
        f"(--label {candidates[0]!r}), or that there are no labels (--label '')."
    )
    return Doubt("label", question, tuple(candidates))


def propose(counts: Mapping[str, int]) -> Proposal:
    """Propose the meaning of label words {word: count}. Three or more words are classes. Of two words, the positive one
    is taken from a list of known pairs, else it is the word that the other one negates, else the rarer word."""
    gaps = gaps_among(counts)
    forms: dict[str, int] = {}
    for word in counts.keys() - gaps - {""}:
        forms[plain(word)] = forms.get(plain(word), 0) + counts[word]
    pair = next((each for each in (*PAIRS, *MORE_PAIRS) if forms and forms.keys() <= {*each}), None)
    if len(forms) > 2 or not forms:
        return Proposal((), len(forms) > 2, tuple(sorted(gaps)))
    negated = (each for each in forms for other in forms if _negates(other, each))
    positive = pair[0] if pair else next(negated, min(forms, key=lambda each: (forms[each], each)))
    return Proposal(tuple(word for word in counts if plain(word) == positive), False, tuple(sorted(gaps)))


def _negates(word: str, other: str) -> bool:
    """Tell whether `word` negates `other`, as non-toxic negates toxic."""
    before = word.removesuffix(other)
    return before != word and before.strip(" -_") in NEGATIONS


def first_items(
    path: FileOrPath, columns: Columns, count: int = 3, **options: Any
) -> tuple[list[FirstItem], dict[str, Any]]:
    """Read a few of the first items of a file, with different labels if possible. Also return the description of how
    the file is read. options: further arguments of `read`."""
    items = read(path, columns, limit=SAMPLE_ROWS, **options)
    return shown_items(items, items.classes, count), items.description


def shown_items(items: Items, classes: Sequence[str], count: int = 3) -> list[FirstItem]:
    """Choose a few of the first items to show on a page, with different labels if possible."""
    different = [int(np.argmax(items.y == value)) for value in sorted({*items.y.tolist()}, key=lambda y: (y == 0, -y))]
    places = list(dict.fromkeys([*different[:count], *range(len(items.ids))]))[:count]
    return [_first_item(items, place, classes) for place in sorted(places)]


def _first_item(items: Items, place: int, classes: Sequence[str]) -> FirstItem:
    y, names = int(items.y[place]), items.columns.details or ()
    meanings = ("", *classes) if classes else ("", "positive", "negative")  # y = -1 takes the last one
    cells = json.loads((items.details and items.details[place]) or "[]")
    fields = {name: cell_text(cell) for name, cell in zip(names, cells) if name}
    if items.vectors is not None:
        row = items.vectors[[place]]
        row = np.ravel(row.toarray() if sparse.issparse(row) else row)
        places = range(len(row)) if len(row) <= SHOWN_NUMBERS else np.flatnonzero(row)[:SHOWN_NUMBERS].tolist()
        fields = {items.feature_names[at]: f"{row[at]:g}" for at in places} | fields
    return FirstItem(items.texts[place] if items.texts else "", items.labels[place], meanings[y], fields)
