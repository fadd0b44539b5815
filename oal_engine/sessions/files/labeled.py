"""All items of a session, each with its label, prediction and asking probability, for a table or for other tools."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...output.tables import LABELED, blocks
from ...output.tools import LabeledItem, LabeledItems
from .. import model
from ..session import Session
from ..settings import SKIP
from .item_columns import ANSWER, MODEL, ItemColumns, origin

COLUMNS: dict[str, type] = {"id": str, **dict.fromkeys(LABELED, str)}
ANSWERS = {1: 1, -1: 0}  # labels as written if the data set has no words for its classes


def labeled_items(session: Session, progress: Callable[[int, int], None] | None = None) -> tuple[LabeledItems, str]:
    """Return the items of a session in the order of the data, and a sentence on the predictions.

    If the learner cannot be written as a model file, the items have no predictions. progress: called with (items done,
    all items).
    """
    settings, dataset, size = session.settings, session.dataset, session.order.size
    cells = ItemColumns(session.store, settings, COLUMNS, True, dataset.has_titles)
    answers = {entry.item: entry for entry in session.log}
    known_labels = session.known_labels
    predictions, sentence = _predictions(session)

    def items() -> Iterator[LabeledItem]:
        for part in blocks(size, cells.lot):
            for position, item in zip(part, cells.items([*part])):
                entry = answers.get(position)
                label, source = (entry.label or None, ANSWER) if entry else (None, MODEL)
                if row := known_labels.get(position):
                    label, source = row["label"], origin(row)
                yield LabeledItem(
                    item["id"], tuple(item[name] for name in cells.contents), label, *predictions(position),
                    source if label else MODEL, entry.probability if entry else None,
                    label is None and entry is not None and entry.label == SKIP,
                    tuple(item[name] for name in (*cells.tagged, *cells.details)),
                )  # fmt: skip
            if progress:
                progress(part.stop, size)

    labels = sum(entry.label not in (None, SKIP) for entry in answers.values()) + len(known_labels)
    return LabeledItems(
        settings.name, f"{settings.algorithm}, {labels} labels", settings.names, _words(session), cells.contents,
        (*cells.tagged, *cells.details), items(), size,
    ), sentence  # fmt: skip


def _predictions(session: Session) -> tuple[Callable[[int], tuple[Any, Any, Any]], str]:
    """Return a function from the position of an item to (predicted class, margin, probability that the class is right),
    and a sentence on the predictions."""
    try:
        fitted = model.of_session(session)
    except model.ModelError as error:
        return lambda position: (None, None, None), f"Written without predictions: {error}"
    margins, predicted = fitted.decided(fitted.scores(session.dataset.rows))
    chances = fitted.calibration(margins)
    if chances is not None and not fitted.multiclass:
        chances = np.where(predicted > 0, chances, 1 - chances)

    def of_item(position: int) -> tuple[int, float, float | None]:
        chance = None if chances is None else float(chances[position])
        return int(predicted[position]), float(margins[position]), chance

    return of_item, str(fitted.calibration)


def _words(session: Session) -> dict[int, str] | dict[int, int]:
    """Return {label: word}: the class names, else the data set's words if each class has exactly one, else 1 and 0."""
    if session.multiclass:
        return session.settings.names
    words = {} if session.dataset.classes else session.dataset.label_words
    by_class = {label: [word for word, y in words.items() if y == label and word] for label in ANSWERS}
    if all(len(each) == 1 for each in by_class.values()):
        return {label: each[0] for label, each in by_class.items()}
    return ANSWERS
