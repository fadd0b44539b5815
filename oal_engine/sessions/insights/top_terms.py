"""Show how a model learns: the weights that an answer changed, the strongest weights of each class, and the answers
that surprised the model."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ...datasets.features.scripts import BEGINNING
from ...kernel import rows
from ..fold import Run
from ..log import Entry

NOISE = 1e-12  # times the largest weight: smaller differences from a mean are rounding errors
# Terms as frequent as "the" say little about a text, in any language. A term is common if its share of all terms,
# counted once per text, is above COMMON; at most the share MOST_COMMON of all terms is common. A common term is shown
# after all if, among RECENT answers, it was TELLING times as frequent with one class as with the others.
COMMON, MOST_COMMON = 0.003, 0.02
TELLING, RECENT = 3, 500


@dataclass(frozen=True)
class Moved:
    """A weight that answers changed: its column, its class (None: not multiclass), and its old and new value."""

    column: int
    label: int | None
    old: float
    new: float


def common(run: Run) -> np.ndarray:
    """Return the columns of common terms (stop words) that are about as frequent in each class."""
    if run.dataset.vocabulary is None:
        return np.empty(0, int)
    texts = run.dataset.vocabulary.document_frequency
    often = np.flatnonzero(texts > COMMON * texts.sum())
    often = often[np.argsort(-texts[often], kind="stable")][: int(MOST_COMMON * texts.size)]
    answered = ((lesson.item, lesson.label) for lesson in reversed(run.state.lessons) if lesson.label)
    items, labels = np.array([*islice(answered, RECENT)], int).reshape(-1, 2).T
    which, columns = rows.entries(run.dataset.rows, items)
    telling = np.zeros(often.size, bool)
    for label in set(labels.tolist()):
        own, others = (
            (np.bincount(columns[part[which]], minlength=texts.size)[often] + 0.5) / (part.sum() + 1)
            for part in (labels == label, labels != label)
        )
        telling |= own >= TELLING * others
    return often[~telling]


def moved(
    old: np.ndarray, new: np.ndarray, most: int = 8, without: Sequence[int] | np.ndarray = (), latent: int = 0
) -> list[Moved]:
    """Return the weights that differ between `old` and `new`, the largest change first.

    most: number of weights to return. without: columns to leave out. latent: number of unnamed columns at the end,
    which are left out, too.
    """
    old, new = old[: len(old) - latent], new[: len(new) - latent]
    classes = old.shape[1] if old.ndim == 2 else 1
    change = np.abs(new - old)
    change[np.asarray(without, int)] = 0
    return [
        Moved(k // classes, k % classes + 1 if old.ndim == 2 else None, float(old.ravel()[k]), float(new.ravel()[k]))
        for k in _largest(change.ravel(), most)
    ]


def strongest(
    weights: np.ndarray, label: int, most: int = 8, without: Sequence[int] | np.ndarray = (), latent: int = 0
) -> list[tuple[int, float]]:
    """Return the columns that speak most for a class: [(column, weight > 0)].

    With K classes, the mean weight over the classes is subtracted first. most, without, latent: as in `moved`.
    """
    weights = weights[: len(weights) - latent]
    for_class = weights[:, label - 1] - weights.mean(axis=1) if weights.ndim == 2 else label * weights
    positive = np.where(for_class > NOISE * np.abs(weights).max(), for_class, 0)
    positive[np.asarray(without, int)] = 0
    return [(k, float(for_class[k])) for k in _largest(positive, most)]


def whole_words(run: Run, values: Iterable[tuple[int, np.ndarray]]) -> list[tuple[str, np.ndarray]]:
    """Return the values of columns as (term, values). The values of a prefix, such as "exerc…", are added to the values
    of each word that begins with it; a prefix without such a word is kept."""
    named = dict[str, np.ndarray]()
    for column, numbers in values:
        name = term(run, column)
        named[name] = named.get(name, 0.0) + numbers
    beginnings = {name[:-1]: name for name in named if name.endswith("…")}
    words = {
        name: next(filter(None, (beginnings.get(name[:letters]) for letters in BEGINNING.values())), None)
        for name in named.keys() - beginnings.values()
    }
    joined = {name: named[name] + (named[beginning] if beginning else 0.0) for name, beginning in words.items()}
    used = {*words.values()}
    return [(name, joined.get(name, numbers)) for name, numbers in named.items() if name not in used]


def _largest(sizes: np.ndarray, most: int) -> list[int]:
    """Return the indices of the `most` largest sizes above 0, the largest first, ties in order of their index."""
    least = np.partition(sizes, -most)[-most] if most < sizes.size else 0
    large = np.flatnonzero((sizes >= least) & (sizes > 0))  # argpartition has no fixed order of ties
    return large[np.argsort(-sizes[large], kind="stable")][:most].tolist()


def term(run: Run, column: int) -> str:
    """Return the term or the name of a column; the same placeholder for all unnamed columns. Columns of terms outside
    the vocabulary are named after the terms of the answered items."""
    dataset = run.dataset
    if dataset.vocabulary:
        if column >= dataset.named:
            return "similar meaning" if "beside" in dataset.scaling else "similar wording"
        new = dataset.new_terms(lesson.item for lesson in run.state.lessons)
        return dataset.vocabulary.readable(column, new)
    if column >= dataset.named:
        return "combinations of columns"
    names: Sequence[str] = dataset.feature_names
    return names[column] if names else f"column {column + 1}"


def surprises(log: Sequence[Entry], theta: float = 0.0) -> list[Entry]:
    """Return the confident mistakes: wrong predictions whose margin is further from the threshold than the median
    margin of the answered questions."""
    margins = [abs(entry.margin - theta) for entry in log if entry.label is not None]
    half = np.median(margins) if margins else 0.0
    return [entry for entry in log if entry.mistake and abs(entry.margin - theta) > half]
