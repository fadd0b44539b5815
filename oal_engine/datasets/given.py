"""Decisions about every item, such as labels or scores from a language model: a column stored with the items.

The learner `given` uses the decisions as they are, so that they can be audited. Other learners begin with them: each
row gets the decision as one more feature.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..kernel.rows import with_column
from ..store import Store
from . import reading
from .reading.labels import label_parts, matching
from .reading.parsed import is_number
from .reading.sources import DataError
from .stored import Dataset

COLUMN, BOTH = "column", "column + answers"  # the two deciders: the column alone, and a learner that begins with it
TRUST, SCALE = 3.0, 0.3  # of the column in BOTH: its initial weight, and its value in a row for a margin of 1


class Column(NamedTuple):
    """A column of decisions about the items, for example from a language model. cut: the smallest score that means
    positive (None: the cells are labels). margins: one per item, >= 0 if positive. A label gives 1 or -1; a score gives
    (score - cut) divided by the root mean square of these differences."""

    name: str
    cut: float | None
    margins: np.ndarray

    @property
    def checksum(self) -> str:
        """The SHA-256 of the margins."""
        return hashlib.sha256(self.margins.tobytes()).hexdigest()


def decided_column(cells: Sequence[str], columns: reading.Columns, cut: float | None, source: str) -> Column:
    """Convert the cells of a column of labels (words) or scores (numbers) to decisions.

    columns: `label` names the column; `positive` lists its positive words (not needed for a pair such as yes and no).
    cut: smallest positive score; None means 0.5 for scores from 0 to 1, and 0 if some are negative. Raise DataError if
    a cell is empty, if other scores have no cut, or if the positive word is unclear.
    """
    name, blank = str(columns.label), [k for k, cell in enumerate(cells, 1) if not cell.strip()]
    if blank:
        raise DataError(
            f"no cell of column {name} in {source} may be empty. {len(blank):,} are, the first in row {blank[0]:,}."
        )
    are_numbers = all(map(is_number, cells))
    if cut is not None and not are_numbers:
        raise DataError(f"cut is for scores. Column {name} of {source} has labels.")
    if cut is None and (len({*cells}) <= 2 or not are_numbers):
        words = {*label_parts(cells), *map(str.strip, cells)}
        columns = replace(columns, positive=tuple(word for word in columns.positive if matching(word, words)))
        try:
            return Column(name, None, reading.answers(cells, columns, source).astype(np.float64))
        except DataError:
            if not are_numbers:
                raise DataError(
                    f"column {name} of {source} must hold numbers, a pair of words such as yes and no, or the word of "
                    f"the positive class. Got {', '.join(sorted(words))[:200]}."
                ) from None
    scores = np.array([*map(float, cells)])
    if not np.isfinite(scores).all():
        odd = int(np.flatnonzero(~np.isfinite(scores))[0])
        raise DataError(f"scores of column {name} in {source} must be finite. Row {odd + 1:,} has {cells[odd]}.")
    low, high = scores.min(), scores.max()
    if cut is None:
        if low >= 0 and high > 1:
            raise DataError(
                f"cut must say from which score on column {name} of {source} says positive. "
                f"Scores are from {low:g} to {high:g}."
            )
        cut = 0.5 if low >= 0 else 0.0
    if not low < cut <= high:
        raise DataError(f"cut must be a score that divides column {name}: > {low:g} and <= {high:g}. Got {cut:g}.")
    margins = scores - cut
    with np.errstate(over="ignore"):
        size = np.sqrt((margins * margins).mean())
    if not 0 < size < np.inf:
        raise DataError(f"scores of column {name} in {source} are too large or small. They are {low:g} to {high:g}.")
    return Column(name, cut, margins / size)


def stored_column(
    data: Dataset, name: str, positive: Sequence[str] | None, cut: float | None, rare: str = ""
) -> Column:  # fmt: skip
    """Convert a further column, stored with the items of a data set, to decisions. positive: the positive words.
    None means the word `rare` if a cell of the column holds it, else the positive words of the data set, else `rare`
    in another case or with other blanks."""
    if name not in data.details:
        names = ", ".join(filter(None, data.details)) or "none"
        raise DataError(f"column must be kept with the items of {data.name}: {names}. Got {name}.")
    details = data.store.details(data.id, range(data.y.size))
    place = data.details.index(name)
    cells = [details[item][place] if item in details else "" for item in range(data.y.size)]
    if positive is None:
        stored = data.record["positive"] or ""
        own = [*filter(None, data.columns.get("positive") or (stored, *stored.split(" or ")))]
        held = {*map(str.strip, cells)}
        positive = [rare] if rare in held or held.union(label_parts(cells)).isdisjoint(own) else own
    words = [word for word in positive if word]
    columns = reading.Columns(label=name, positive=tuple(words), contains=data.columns.get("contains", False))
    return decided_column(cells, columns, cut, data.name)


class WithColumn(Dataset):
    """A stored data set with one more feature at the end of each row: a column of decisions, stored with its items.

    decisions: the column. items: how many to open; later ones are left out. name, cut, rare: as in `stored_column`.
    """

    def __init__(self, store: Store, key: int | str, name: str, cut: float | None, items: int, rare: str) -> None:
        self.decisions: Column | None = None
        super().__init__(store, key, items)
        self.decisions = stored_column(self, name, None, cut, rare)
        self._rows = with_column(self._rows, SCALE * self.decisions.margins)

    @property
    def latent(self) -> int:
        """The number of unnamed columns, which come last. The column of decisions is one of them."""
        return max(1, super().latent)

    def refresh(self) -> None:
        """Do nothing: items that were appended later have no decision."""
