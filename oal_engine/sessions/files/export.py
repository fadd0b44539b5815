"""Export a session: its labels, every decision of its stream, predictions, all items, the model, a report, or a
text for a methods section."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat, zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO
from zipfile import ZipFile

import numpy as np

from ... import did_you_mean
from ...datasets.given import BOTH
from ...datasets.reading.sources import DataError
from ...output import tools
from ...output.tables import LABELED, OutputTable, blocks, rows_of, watched, whole, write
from ...output.tools import LabeledItem, LabeledItems
from ...store import Row, Store
from .. import model
from ..insights import certainty, outcome
from ..labels import SKIP, SessionError
from ..log import Remarks, read_entries
from ..one_question import OneQuestion
from ..session import Session
from ..settings import Settings
from . import methods, model_formats, report
from .item_columns import ANSWER, MODEL, ItemColumns, origin

NOT_IN_PATHS = re.compile(r"[^\w-]+")  # replaced in paths of an archive, so that every system can unpack it
ANSWERS = {1: 1, -1: 0}  # labels in the table of all items if the data set has no words for its classes
LABELS = {
    "session": int, "number": int, "round": int, "position": int, "id": str, "text": str, "label": int, "class": str,
    "origin": str, "margin": float, "asking_probability": float, "draw": float, "predicted": int, "audit": int,
    "first": str, "corrected": int, "note": str, "asked_at": str, "answered_at": str, "seconds": float,
    "annotator": str,
}  # fmt: skip


def labels(store: Store, session: int) -> tuple[OutputTable, str | None]:
    """Return a table of a session's questions in order, each with the text or the numbers of its item, followed by the
    items with a known label. Rounds count from 1.

    The columns `class` and `first` name the current and the first label: "skipped" for a skip, None while the question
    waits. Only the log is needed, so the labels of a session that does not open can be exported too. Also return a
    sentence if the numbers of the items cannot be read, else None.
    """
    settings, log = Settings.read(store, session), read_entries(store, session)
    notes, _ = Remarks(store, session).read()
    columns = LABELS | _of_questions(settings)
    known_labels = store.known_labels(session)
    words, missing = settings.answers, None
    try:
        item_cells = ItemColumns(store, settings, columns, True)
    except DataError as error:
        item_cells = ItemColumns(store, settings, columns, False)
        missing = f"Written without the numbers of the items: {error}"

    def others() -> Iterator[Row]:
        for entry in log:
            yield vars(entry) | {
                "session": session, "round": entry.round + 1, "label": entry.label or None,
                "class": words[entry.label], "first": words[entry.first], "corrected": int(entry.corrected),
                "note": notes.get(entry.item), "origin": ANSWER if entry.label else None,
                "asking_probability": entry.probability,
            } | _cells(settings, entry.parts or (), entry.labels)  # fmt: skip
        for item, row in known_labels.items():
            word = words[row["label"]]
            yield dict.fromkeys(columns) | {
                "session": session, "label": row["label"], "class": word, "first": word, "corrected": 0,
                "note": notes.get(item), "origin": origin(row), "annotator": row["annotator"],
                "answered_at": row["at"],
            } | _cells(settings, (), row["data"].get("labels"))  # fmt: skip

    return item_cells.table([*(entry.item for entry in log), *known_labels], others()), missing


def _labels_of(session: Session) -> Callable[[int], Row]:
    """Return a function from the position of an item to the cells of its current label: label, class and origin."""
    words = session.settings.answers
    current = {item: (row["label"], origin(row)) for item, row in session.known_labels.items()}
    current |= {entry.item: (entry.label, ANSWER if entry.label else MODEL) for entry in session.log}

    def of_item(item: int) -> Row:
        label, source = current.get(item, (None, MODEL))
        return {"label": label or None, "class": words[label], "origin": source}

    return of_item


def _of_questions(settings: Settings) -> dict[str, type]:
    """Return the columns for the questions of a session that asks several, {name: type}: the label, margin and
    predicted class of each; {} for other sessions."""
    kinds = {"label": int, "margin": float, "predicted": int}
    return {f"{what}:{name}": kind for name in settings.question_names for what, kind in kinds.items()}


def _cells(settings: Settings, parts: Iterable[Sequence[float]], labels: Sequence[int] | None) -> Row:
    """Return the cells for the columns that `_of_questions` returns, None if a question was not asked or has no label.
    parts: margin and predicted class of each question. labels: label of each question, or None."""
    cells: Row = dict.fromkeys(_of_questions(settings))
    decided = chain(parts, repeat((None, None)))
    for name, label, (margin, predicted) in zip(settings.question_names, labels or repeat(SKIP), decided):
        cells |= {f"label:{name}": label or None, f"margin:{name}": margin if predicted else None}
        cells |= {f"predicted:{name}": predicted or None}
    return cells


DECISIONS = {
    "round": int, "id": str, "position": int, "margin": float, "predicted": int, "asked": int, "audit": int,
    "label": int, "class": str, "origin": str,
}  # fmt: skip


def decisions(session: Session, texts: bool = False) -> tuple[OutputTable, certainty.Certainty | None]:
    """Return a table of all rounds so far, each with the decision at that time and the current label of the item. Also
    return the guaranteed minimum metrics of these decisions (None if there are none)."""
    settings = session.settings
    margins, predicted, asked = decided = session.decided
    parts = np.stack((margins.T, predicted.T), axis=-1) if settings.questions else np.zeros((asked.size, 0, 2))
    if settings.questions:  # the largest margin and predicted class of the questions that are asked
        margin, side = (np.where(predicted, values, -np.inf).max(axis=0) for values in (margins, predicted))
        decided = margin, side.astype(int), asked
    entries, known_labels = {entry.round: entry for entry in session.log}, session.known_labels
    item_cells = ItemColumns(session.store, settings, DECISIONS | _of_questions(settings), texts)
    positions, label_cells = session.order[: asked.size].tolist(), _labels_of(session)

    def others() -> Iterator[Row]:
        for k, (item, margin, side, was_asked) in enumerate(rows_of(positions, *decided)):
            entry = entries.get(k)
            labels, audit = (entry.labels, entry.audit) if entry else (None, None)
            if row := known_labels.get(item):
                both = zip_longest(labels or (), row["data"].get("labels", ()), fillvalue=SKIP)
                labels = [one or other for one, other in both]
            elif not entry:
                audit = 0
            yield label_cells(item) | {
                "round": k + 1, "margin": margin, "predicted": side, "asked": int(was_asked), "audit": audit
            } | _cells(settings, ((each, int(side)) for each, side in parts[k].tolist()), labels)  # fmt: skip

    return item_cells.table(positions, others()), None if settings.questions else certainty.of_session(session)


AUDIT = {
    "id": str, "position": int, "column": str, "corrected": str, "wrong": float, "score": float, "margin": float,
    "answer": str, "asking_probability": float, "annotator": str, "origin": str,
}  # fmt: skip
TABLE: dict[str, type] = {"id": str, **dict.fromkeys(LABELED, str)}
OPINIONS = {
    "number": int, "id": str, "kind": str, "annotator": str, "class": str, "first_annotator": str, "first": str,
    "stands": str, "asking_probability": float, "answered_at": str, "seconds": float,
}  # fmt: skip


def opinions(session: Session, texts: bool = False) -> tuple[OutputTable, None]:
    """Return a table of opinions: answers that did not set a label, with the first and current label of each question.

    Their kind is `second` (by another person), `again` (repeated by the same person) or `late`. A late answer to a
    question that was prepared but never asked has no number and no labels. If the session asks several questions, each
    of them has columns for its labels.
    """
    words, log = session.settings.answers, {entry.id: entry for entry in session.log}
    rows, names = session.store.opinions(session.id), session.settings.question_names
    own = {f"{what}:{name}": int for name in names for what in ("label", "first", "stands")}
    item_cells = ItemColumns(session.store, session.settings, OPINIONS | own, texts)

    def others() -> Iterator[Row]:
        for row in rows:
            values = row | {"class": words[row["label"]], "asking_probability": row["probability"]}
            values |= dict.fromkeys(("number", "first", "stands", *own))
            if entry := log.get(row["question"]):
                values |= {"number": entry.number, "first": words[entry.first], "stands": words[entry.label]}
            answers = (row["labels"], entry and entry.firsts, entry and entry.labels)
            cells = zip(*(labels or [SKIP] * len(names) for labels in answers))
            yield values | {name: label or None for name, label in zip(own, chain(*cells))}

    return item_cells.table([row["item"] for row in rows], others()), None


def predictions(session: Session, texts: bool = False) -> tuple[OutputTable, str]:
    """Return the current model's predictions for all items as a table, the highest margins first, and a sentence on
    their probabilities."""
    return _ranked(session, None, texts)


def positives(session: Session, texts: bool = False, first: int | None = None) -> tuple[OutputTable, str]:
    """Return the predictions for the `first` items of the ranking (None: for the whole list of positives), and
    sentences on their quality and probabilities. The columns share_right and share_found are precision and recall of
    the list up to each item (`Ranking.shares`). Raise SessionError if the session has several classes."""
    if session.multiclass:
        raise SessionError("a session of several classes has no positives: export its predictions.")
    ranking = outcome.of_session(session).ranking
    size = ranking.listed if first is None else min(first, ranking.rounds.size)
    precision, recall = (None, None) if ranking.shares is None else ranking.shares[:2, :size]
    table, sentence = _ranked(session, ranking.rounds[:size], texts, {"share_right": precision, "share_found": recall})
    depths = ranking.depths([size]) if size else None
    quality = f"The first {size:,}: {depths[0].sentence} " if depths else ""
    return table, f"{quality}{sentence}"


def _ranked(
    session: Session,
    ranking: np.ndarray | None,
    texts: bool,
    more: Mapping[str, np.ndarray | None] = MappingProxyType({}),
) -> tuple[OutputTable, str]:
    """Return a table of the predictions for the items of the rounds in `ranking`, in its order (None: all items, the
    highest margins first). Also return a sentence on the probabilities. more: further columns, {name: numbers}."""
    fitted, order, asked = model.of_session(session), session.order, {entry.round for entry in session.log}
    scores = fitted.scores(session.dataset.rows)[order]
    ranking = np.argsort(-fitted.decided(scores)[0], kind="stable") if ranking is None else ranking
    columns = {"rank": int, "id": str, "position": int, "round": int} | fitted.fields
    columns |= {"asked": int, "label": int, "class": str, "origin": str} | dict.fromkeys(more, float)
    item_cells = ItemColumns(session.store, session.settings, columns, texts)
    positions, label_cells = order[ranking].tolist(), _labels_of(session)

    def others() -> Iterator[Row]:
        for place in blocks(ranking.size):
            part = ranking[place.start : place.stop]
            rows = rows_of(place, positions[place.start : place.stop], part, *fitted.predictions(scores[part]))
            for rank, item, t, *cells in rows:
                yield label_cells(item) | {
                    "rank": rank + 1, "round": t + 1, "asked": int(t in asked), **dict(zip(fitted.fields, cells)),
                    **{name: None if each is None else float(each[rank]) for name, each in more.items()},
                }  # fmt: skip

    return item_cells.table(positions, others()), str(fitted.calibration)


def audit(session: Session, texts: bool = False) -> tuple[OutputTable, str]:
    """Return a table of all items, beginning with the most likely errors in the audited column (labels or scores made
    by something else), and a sentence on the probabilities. Raise SessionError if the session audits no column.

    Columns: the decision of the audited column, the corrected decision (the answer, or else the prediction of the model
    that begins with the column), the probability of a positive, the probability that the column is wrong, the answer,
    the item's asking probability, and who decided.
    """
    if not session.settings.audited:
        raise SessionError("the session audits no column.")
    both = OneQuestion(session, BOTH)
    fitted = model.of_session(both)
    margins, decided = fitted.decided(fitted.scores(both.dataset.rows))
    chance, answers = fitted.calibration(margins), {entry.item: entry for entry in both.log if entry.label}
    says = np.where(session.dataset.decisions.margins >= 0, 1, -1)  # type: ignore[attr-defined]
    corrected, score = decided.copy(), np.full(margins.size, np.nan) if chance is None else np.array(chance)
    for item, entry in answers.items():
        corrected[item], score[item] = entry.label, entry.label == 1
    wrong = np.where(says > 0, 1 - score, score)
    ranking = np.argsort(-np.where(np.isnan(wrong), -says * margins, wrong), kind="stable")
    words = session.settings.answers
    item_cells = ItemColumns(session.store, session.settings, AUDIT, texts)

    def others() -> Iterator[Row]:
        for item in ranking.tolist():
            entry = answers.get(item)
            yield {
                "column": words[int(says[item])], "corrected": words[int(corrected[item])],
                "score": None if np.isnan(score[item]) else float(score[item]),
                "wrong": None if np.isnan(wrong[item]) else float(wrong[item]), "margin": float(margins[item]),
                "answer": words[entry.label] if entry else None,
                "asking_probability": entry.probability if entry else None,
                "annotator": entry.annotator if entry else None, "origin": ANSWER if entry else MODEL,
            }  # fmt: skip

    return item_cells.table(ranking.tolist(), others()), str(fitted.calibration)


def table(session: Session, texts: bool = True) -> tuple[OutputTable, str]:
    """Return a table of all items in the order of the data, each with its label and prediction, and a sentence on the
    predictions. The table always includes the texts or the numbers."""
    items, sentence = labeled_items(session)
    return items.table(items.words), sentence


# Labeled items, for the table of all items and for other tools


def labeled_items(session: Session, progress: Callable[[int, int], None] | None = None) -> tuple[LabeledItems, str]:
    """Return the items of a session in the order of the data, and a sentence on the predictions.

    If the learner has no model file, the items have no predictions. progress: called with (items done, all items).
    """
    settings, size = session.settings, session.order.size
    cells = ItemColumns(session.store, settings, TABLE, True, session.dataset.has_titles)
    entries, label_cells = {entry.item: entry for entry in session.log}, _labels_of(session)
    predictions, sentence = _predictions(session)

    def items() -> Iterator[LabeledItem]:
        for position, (item, predicted) in enumerate(zip(cells.items(range(size)), predictions)):
            entry, (side, margin, confidence) = entries.get(position), predicted
            facts = {"predicted": side, "score": margin, "asking_probability": entry and entry.probability}
            was_skipped = entry is not None and entry.label == SKIP
            yield LabeledItem(label_cells(position) | facts | item, confidence, was_skipped)

    labels = sum(entry.label not in (None, SKIP) for entry in session.log) + len(session.known_labels)
    described, further = f"{settings.algorithm}, {labels} labels", (*cells.tagged, *cells.details)
    rows = watched(items(), size, cells.lot, progress) if progress else items()
    words = _words(session)
    return LabeledItems(settings.name, described, settings.names, words, cells.contents, further, rows, size), sentence


def _predictions(session: Session) -> tuple[Iterator[tuple[Any, Any, Any]], str]:
    """Return (predicted class, margin, probability that the class is right) for each item, and a sentence on them."""
    try:
        fitted = model.of_session(session)
    except model.ModelError as error:
        return repeat((None, None, None)), f"Written without predictions: {error}"
    margins, predicted = fitted.decided(fitted.scores(session.dataset.rows))
    if (chances := fitted.calibration(margins)) is not None and not fitted.multiclass:
        chances = np.where(predicted > 0, chances, 1 - chances)
    return rows_of(predicted, margins, repeat(None) if chances is None else chances), str(fitted.calibration)


def _words(session: Session) -> dict[int, str] | dict[int, int]:
    """Return {label: word}: the class names, else the data set's words if each class has exactly one, else 1 and 0."""
    if session.multiclass:
        return session.settings.names
    words = {} if session.dataset.classes else session.dataset.label_words
    by_class = {label: [word for word, y in words.items() if y == label and word] for label in ANSWERS}
    if all(len(each) == 1 for each in by_class.values()):
        return {label: each[0] for label, each in by_class.items()}
    return ANSWERS


# Files

TABLES: dict[str, Callable[..., Any]] = {
    "labels": labels, "decisions": decisions, "predictions": predictions,
    "positives": positives, "opinions": opinions, "table": table, "audit": audit,
}  # fmt: skip
WHATS = (*TABLES, "model", "report", "methods")


def _write_model(session: Any, kind: str, file: BinaryIO) -> None:
    """Write the model of a session to a file. If it asks several questions, write a ZIP archive with one for each."""
    models, model_format = model.of_each(session), model_formats.FORMATS[kind]
    if "" in models:
        model_format.write(models[""], file)
        return
    with ZipFile(file, "w") as archive:
        for number, (name, each) in enumerate(models.items(), 1):
            path = f"{number}-{NOT_IN_PATHS.sub('-', name)}{model_format.suffixes[0]}"
            with tools.new_file(archive, path) as target:
                model_format.write(each, target)


def export(
    store: Store, session: int | Session, what: str, kind: str, out: Path | str | None = None, texts: bool = False,
    progress: Callable[[int, int], None] | None = None, question: str | None = None, **options: Any,
) -> str | None:  # fmt: skip
    """Write one of WHATS to the file `out`, or to the standard output (None), in full or not at all. Return a sentence
    on its content, or None.

    session: its number or, if it is open already, the session; nobody else changes it meanwhile (`still`).
    kind: file format. For a table, a format of tables (for what="table" also one of tools.TOOLS); for a model, or each
    model in an archive, one of model_formats.FORMATS; for methods, one of methods.FORMATS. progress: called with (rows
    done, all rows). question: name of the question to export, if the session asks several. options: further arguments
    of the table's function.
    """
    if question and what in ("labels", "methods", "audit"):
        raise ValueError(f"--question is not for labels, methods or an audit, which are of all questions. Got {what}.")
    if what not in WHATS:
        raise ValueError(f"--what must be one of {', '.join(WHATS)}. Got {what}.{did_you_mean(what, WHATS)}")
    number = session if isinstance(session, int) else session.id
    opened: Any = None if what == "labels" else Session(store, number) if session is number else session
    opened = OneQuestion(opened, question) if question else opened
    with whole(out) as file:
        if opened and what == "model":
            _write_model(opened, kind, file)
        elif opened and what == "report":
            file.write(report.page(opened))
        elif opened and what == "methods":
            methods.FORMATS[kind].write(opened, file)
        elif opened and what == "table" and kind in tools.TOOLS:
            items, sentence = labeled_items(opened, progress)
            tools.write(items, kind, file)
            return sentence
        else:
            content, note = TABLES[what](opened, texts, **options) if opened else labels(store, number)
            write(content, kind, file, progress)
            return str(note) if note else None
    return None
