"""The labels and the questions of a session: labels known from elsewhere, and several questions about each item."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, cast

import numpy as np

from ..datasets import Dataset, prior, relabelled
from ..datasets.prior import Prior
from ..kernel import rows, stream
from ..store import Row, Store
from ..store.fields import LONGEST_NAME, LONGEST_TAG, MOST_QUESTIONS, MOST_TAGS, OF_A_QUESTION

POSITIVE, NEGATIVE, SKIP = 1, -1, 0
FILE = "file"  # origin of known labels: the file of the data set
MOST_KNOWN = 100_000  # labels that a session can begin with: it learns them again whenever it is opened
SEEDS = "seed_words", "seed_items", "seed_texts"


class SessionError(ValueError):
    """Invalid settings, or an answer or a log that does not fit its session. The message is one sentence."""


class KnownLabel(NamedTuple):
    """The label of an item that is known from elsewhere. labels: the label of each question if the session asks
    several; then `label` is their summary."""

    item: int
    label: int
    labels: tuple[int, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left to be asked about the item."""
        return SKIP not in (self.labels or (self.label,))


@dataclass(frozen=True)
class KnownLabels:
    """Known labels, in the order in which they are learned. origin: "file", or "session NAME"."""

    labels: Sequence[KnownLabel]
    origin: str


def summary(labels: Iterable[int]) -> int:
    """Summarize the labels of several questions: 1 if any is a yes, SKIP if all are skipped, else -1."""
    return max(labels, key=lambda label: (abs(label), label))


def session_labels(
    dataset: Dataset, y: np.ndarray, classes: Sequence[str] | None, positive_class: str | None
) -> np.ndarray:
    """Map labels y of a data set to labels of a session, 0 for a label that the session does not have."""
    if own := dataset.classes:
        return relabelled(y, own, classes or (), positive_class)
    return rows.read_only(np.zeros(y.size), np.int8) if classes else y


def labels_of_questions(dataset: Dataset, questions: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """Return a file's labels for several questions, SKIP if missing: shape (questions, items). A yes to a question is
    also a yes to its parent, if the parent has no label; a no to the parent is also a no to the question."""
    names, y = [each["name"] for each in questions], np.full((len(questions), dataset.y.size), SKIP, np.int8)
    for name, labels in dataset.labels_of(names, gaps=True).items():
        y[names.index(name)] = labels
    children = [(k, names.index(each["parent"])) for k, each in enumerate(questions) if each.get("parent")]
    for k, parent in children:
        y[parent, (y[parent] == SKIP) & (y[k] == POSITIVE)] = POSITIVE
    for k, parent in children:
        y[k] = np.minimum(y[k], y[parent])
    return y


def known_labels_of(y: np.ndarray, items: Sequence[int]) -> list[KnownLabel]:
    """Return the labels of items as known labels. y: labels of all items; for several questions, a row for each."""
    columns = [tuple(own) for own in np.atleast_2d(y)[:, items].T.tolist()]
    return [KnownLabel(item, summary(own), own if y.ndim > 1 else ()) for item, own in zip(items, columns)]


def first_labels(
    store: Store, data: Row, classes: list[str], chosen: str | float | KnownLabels | None, positive_class: str | None,
    questions: list[Row], seed: int,
) -> KnownLabels:  # fmt: skip
    """Return the labels that a new session begins with. chosen: as `known_labels` in `Options`."""
    if isinstance(chosen, KnownLabels):
        allowed = range(1, len(classes) + 1) if classes else (POSITIVE, NEGATIVE)
        if not all(
            0 <= each.item < data["items"] and each.label in allowed and len(each.labels) == len(questions)
            for each in chosen.labels
        ):
            raise SessionError("known_labels of a session must be on items of its data set, with labels of its own.")
        return chosen
    if chosen is None:
        return KnownLabels((), "")
    dataset = Dataset(store, data["id"])
    if questions:
        y = labels_of_questions(dataset, questions)
    else:
        y = dataset.y.copy()
        for row in store.later_labels(dataset.id):
            y[row["item"]] = row["y"]
        y = session_labels(dataset, y, classes, positive_class)
    n_items, kind = y.shape[-1], "questions" if questions else "classes"
    labelled = np.flatnonzero(np.atleast_2d(y).any(axis=0))
    most = min(MOST_KNOWN, labelled.size - bool(y.all()))  # one item at least is asked about
    if not labelled.size:
        raise SessionError(f"the data set {data['name']} has no labels of these {kind} to begin with.")
    if chosen == FILE and labelled.size > most:
        raise SessionError(
            f"known_labels of a session must be a number from 1 to {most:,}, as {labelled.size:,} of {n_items:,} items "
            f"of the data set {data['name']} have a label. Got file."
        )
    size = labelled.size if chosen == FILE else whole(cast(float, chosen), "known_labels", 1, most)
    return KnownLabels(known_labels_of(y, stream.sample(labelled, size, seed).tolist()), FILE)


def plain(questions: Iterable[Mapping[str, Any]] | None) -> list[dict[str, str]]:
    """Return the records of several questions as they were given, without priors."""
    return [{key: each[key] for key in OF_A_QUESTION if key in each} for each in questions or ()]


def checked_questions(questions: Iterable[str | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Check several questions about each item. Return them as records, with their seeds as given. Raise SessionError if
    one is not allowed."""
    rows = [{"name": each} if isinstance(each, str) else dict(each) for each in questions]
    if wrong := {*chain(*rows)} - {*OF_A_QUESTION, *SEEDS, "prior"}:
        raise SessionError(f"a question has a name, {', '.join(SEEDS)}, guidelines and a parent. Got {min(wrong)}.")
    for key, texts in ((key, each[key]) for each in rows for key in SEEDS if each.get(key)):
        if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
            raise SessionError(f"{key} of a question must be a list of texts. Got {str(texts)[:80]}.")
    if unprepared := [own for each in rows if not isinstance(own := each.get("prior"), Prior | None)]:
        raise SessionError(f"prior of a question must be made by make_prior. Got {str(unprepared[0])[:80]}.")
    records = [{key: str(each.get(key) or "").strip() for key in OF_A_QUESTION} for each in rows]
    records = [each | {key: " ".join(each[key].split()) for key in ("name", "parent")} for each in records]
    names = [each["name"] for each in records]
    if not 2 <= len(names) <= MOST_QUESTIONS:
        raise SessionError(f"questions must be 2 to {MOST_QUESTIONS}, or left out to ask one. Got {len(names)}.")
    if not all(names):
        raise SessionError("each question needs a name.")
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise SessionError(f"the questions of a session need different names. Got {twice[0][:80]} twice.")
    if longest := [name for name in names if len(name) > LONGEST_NAME or "|" in name]:
        raise SessionError(
            f"a name of a question has {LONGEST_NAME} characters at most and no |. Got {longest[0][:80]}."
        )
    own = [name for name, each in zip(names, records) if not each["parent"]]
    if unknown := [each["parent"] for each in records if each["parent"] and each["parent"] not in own]:
        allowed = f"one of {', '.join(own)}" if own else "left out"
        raise SessionError(f"the parent of a question must be {allowed}. Got {unknown[0][:80]}.")
    seeds = ({key: each[key] for key in (*SEEDS, "prior") if each.get(key)} for each in rows)
    plain_records = ({key: value for key, value in each.items() if value or key != "parent"} for each in records)
    return [each | own for each, own in zip(plain_records, seeds)]


def seeded(data: Dataset, question: Mapping[str, Any]) -> tuple[Row, Prior | None]:
    """Make the prior of a question from its seeds. Return the question as stored, and the prior (None: no seeds)."""
    words, items, texts = (question.get(key, ()) for key in SEEDS)
    own: Prior | None = question.get("prior") or prior.make_prior(data, words, items, texts=texts)
    record = {key: value for key, value in question.items() if key not in (*SEEDS, "prior")}
    return record | ({"prior": own.source} if own else {}), own


def whole(value: float, name: str, low: int, high: int | None = None) -> int:
    """Convert a value to a whole number. Raise SessionError if it is not one, or not from `low` to `high`."""
    if not isinstance(value, (int, float, np.number)) or not low <= value <= (high or 2**53 - 1) or int(value) != value:
        limit = f"<= {high:,}" if high else "< 2^53"
        raise SessionError(f"{name} of a session must be a whole number >= {low} and {limit}. Got {value}.")
    return int(value)


def checked_tags(names: Iterable[str]) -> list[str]:
    """Clean the names of tags: drop blank names and repetitions. Raise SessionError if there are too many names, or one
    is not allowed."""
    tags = list(dict.fromkeys(name for each in names if (name := " ".join(each.split()))))
    if len(tags) > MOST_TAGS:
        raise SessionError(f"a session has {MOST_TAGS} tags at most. Got {len(tags):,}.")
    for name in tags:
        if len(name) > LONGEST_TAG or "|" in name:
            raise SessionError(f"a tag must have {LONGEST_TAG} characters at most and no |. Got {name[:80]}.")
    return tags
