"""What the model of a session has learned: the weights that an answer changed, the strongest of each class, and the
answers that surprised it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ...kernel import rows
from ..fold import Run
from ..log import Entry

NOISE = 1e-12  # times the largest weight: smaller differences from a mean are rounding errors
# Terms as frequent as "the" say little of any text, in any language: more than this share of what all texts hold, each
# term counted once a text, whether these are long or short; never more than so many of the terms. One of them that came
# so many times as often with a class as with the others, among so many recent answers, does say something.
COMMON, MOST_COMMON = 0.003, 0.02
TELLING, RECENT = 3, 500


@dataclass(frozen=True)
class Moved:
    """A weight that answers changed: its column, its class (None: there is one weight vector), and both values."""

    column: int
    label: int | None
    old: float
    new: float


def common(run: Run) -> np.ndarray:
    """The columns whose terms are too frequent to say much, and came about as often with the answers of each class."""
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
    """The weights that differ, the largest change first, without those of some columns; the last `latent` ones, whose
    columns have no name, are one."""
    old, new = _one_line(old, latent), _one_line(new, latent)
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
    """The columns that speak most for a class, with what each adds to its score: [(column, weight > 0)]; without some.

    Of K classes a weight counts as far as it is above the mean of the classes' weights. The last `latent` columns,
    which have no name, are one, as strong as their weights are long together.
    """
    for_class = weights[:, label - 1] - weights.mean(axis=1) if weights.ndim == 2 else label * weights
    for_class = _one_line(for_class, latent)
    noise = NOISE * np.abs(weights).max()
    shown = np.where(for_class > noise, for_class, 0)
    shown[np.asarray(without, int)] = 0
    return [(k, float(for_class[k])) for k in _largest(shown, most)]


def _one_line(weights: np.ndarray, latent: int) -> np.ndarray:
    """Weights whose last `latent` ones are replaced by their length."""
    terms = len(weights) - latent
    return (
        np.concatenate([weights[:terms], np.linalg.norm(weights[terms:], axis=0, keepdims=True)]) if latent else weights
    )


def _largest(sizes: np.ndarray, most: int) -> list[int]:
    """Return the places of the largest sizes above 0, the largest first, equal ones in their order."""
    least = np.partition(sizes, -most)[-most] if most < sizes.size else 0
    large = np.flatnonzero((sizes >= least) & (sizes > 0))  # argpartition has no fixed order of ties
    return large[np.argsort(-sizes[large], kind="stable")][:most].tolist()


def term(run: Run, column: int) -> str:
    """The term or the name of a column; of all that have none, the same words. Terms that are new to the vocabulary are
    named as the answered items have them."""
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
    """The confident mistakes: those with a margin further from the threshold than that of half of the questions; what
    waits for its answer does not count."""
    margins = [abs(entry.margin - theta) for entry in log if entry.label is not None]
    half = np.median(margins) if margins else 0.0
    return [entry for entry in log if entry.mistake and abs(entry.margin - theta) > half]
