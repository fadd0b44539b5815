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
from ...output.tables import OutputTable, Part, blocks, whole, write
from ...store import Row, Store
from .. import model
from ..insights import certainty, outcome
from ..log import read_entries
from ..one_question import OneQuestion
from ..remarks import Remarks
from ..session import Session
from ..settings import SKIP, SessionError, Settings
from . import methods, model_formats, report
from .item_columns import ANSWER, MODEL, ItemColumns, origin
from .labeled import labeled_items

NOT_IN_PATHS = re.compile(r"[^\w-]+")  # replaced in paths of an archive, so that every system can unpack it
LOT_ROWS = 50_000  # predictions in memory at a time, without texts
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
    settings, log, notes = Settings.read(store, session), read_entries(store, session), Remarks(store, session).notes
    columns = LABELS | _of_questions(settings)
    known_labels = [*store.known_labels(session).values()]
    words, missing = settings.answers, None
    try:
        item_cells = ItemColumns(store, settings, columns, True)
    except DataError as error:
        item_cells = ItemColumns(store, settings, columns, False)
        missing = f"Written without the numbers of the items: {error}"

    def each() -> Iterator[Row]:
        for part in blocks(len(log), item_cells.lot):
            entries = log[part.start : part.stop]
            for entry, item in zip(entries, item_cells.items([each.item for each in entries])):
                yield vars(entry) | item | {
                    "session": session, "round": entry.round + 1, "label": entry.label or None,
                    "class": words[entry.label], "first": words[entry.first], "corrected": int(entry.corrected),
                    "note": notes.get(entry.item), "origin": ANSWER if entry.label else None,
                    "asking_probability": entry.probability,
                } | _cells(settings, entry.parts or (), entry.labels)  # fmt: skip
        for part in blocks(len(known_labels), item_cells.lot):
            rows = known_labels[part.start : part.stop]
            for row, item in zip(rows, item_cells.items([row["item"] for row in rows])):
                word = words[row["label"]]
                yield dict.fromkeys(columns) | item | {
                    "session": session, "label": row["label"], "class": word, "first": word, "corrected": 0,
                    "note": notes.get(row["item"]), "origin": origin(row), "annotator": row["annotator"],
                    "answered_at": row["at"],
                } | _cells(settings, (), row["data"].get("labels"))  # fmt: skip

    return item_cells.table(each(), len(log) + len(known_labels)), missing


def _of_questions(settings: Settings) -> dict[str, type]:
    """Return the columns for the questions of a session that asks several, {name: type}: the label, margin and
    predicted class of each; {} for other sessions."""
    kinds = {"label": int, "margin": float, "predicted": int}
    return {f"{what}:{name}": kind for name in settings.question_names for what, kind in kinds.items()}


def _cells(settings: Settings, parts: Iterable[Sequence[float]], labels: Sequence[int] | None) -> Row:
    """Return the cells for the columns that `_of_questions` returns, None if a question was not asked or has no label.
    parts: margin and predicted class of each question. labels: label of each question, or None."""
    columns, decided = _of_questions(settings), chain(parts, repeat((0.0, 0)))
    standing = labels or [SKIP] * len(settings.question_names)
    cells = (
        (label or None, *((margin, predicted) if predicted else (None, None)))
        for label, (margin, predicted) in zip(standing, decided)
    )
    return dict.fromkeys(columns) | dict(zip(columns, chain(*cells)))


DECISIONS = {
    "round": int, "id": str, "position": int, "margin": float, "predicted": int, "asked": int, "audit": int,
    "label": int, "class": str, "origin": str,
}  # fmt: skip


def decisions(session: Session, texts: bool = False) -> tuple[OutputTable, certainty.Certainty | None]:
    """Return a table of all rounds so far, each with the decision at that time and the current label of the item. Also
    return the guaranteed minimum metrics of these decisions (None if there are none)."""
    settings, words = session.settings, session.settings.answers
    margins, predicted, asked = session.decided
    parts = np.stack((margins.T, predicted.T), axis=-1) if settings.questions else np.zeros((asked.size, 0, 2))
    decided = session.decided
    if settings.questions:  # the largest margin and predicted class of the questions that are asked
        largest = (np.where(predicted, values, -np.inf).max(axis=0) for values in (margins, predicted))
        decided = next(largest), next(largest).astype(int), asked
    answers: dict[int, tuple[int | None, int | None, str, list[int] | None]] = {
        entry.round: (entry.audit, entry.label, ANSWER, entry.labels) for entry in session.log
    }
    known_labels = session.known_labels
    item_cells = ItemColumns(session.store, settings, DECISIONS | _of_questions(settings), texts)

    def each() -> Iterator[Row]:
        for t in blocks(decided[0].size, item_cells.lot):
            part = slice(t.start, t.stop)
            items = item_cells.items(session.order[part].tolist())
            for k, item, *decision in zip(t, items, *(values[part].tolist() for values in decided)):
                margin, side, was_asked = decision
                audit, label, source, labels = answers.get(k, (0, None, MODEL, None))
                if row := known_labels.get(item["position"]):
                    both = zip_longest(labels or (), row["data"].get("labels", ()), fillvalue=SKIP)
                    labels = [one or other for one, other in both]
                    if not was_asked:
                        audit, label, source = None, row["label"], origin(row)
                yield item | {
                    "round": k + 1, "margin": margin, "predicted": side, "asked": int(was_asked), "audit": audit,
                    "label": label or None, "class": words[label], "origin": source if label else MODEL,
                } | _cells(settings, ((each, int(side)) for each, side in parts[k]), labels)  # fmt: skip

    return item_cells.table(each(), asked.size), None if settings.questions else certainty.of_session(session)


AUDIT = {
    "id": str, "position": int, "column": str, "corrected": str, "wrong": float, "score": float, "margin": float,
    "answer": str, "asking_probability": float, "annotator": str, "origin": str,
}  # fmt: skip
OPINIONS = {
    "number": int, "id": str, "kind": str, "annotator": str, "class": str, "first_annotator": str, "first": str,
    "stands": str, "asking_probability": float, "answered_at": str, "seconds": float,
}  # fmt: skip


def opinions(session: Session, texts: bool = False) -> tuple[OutputTable, None]:
    """Return a table of the opinions, the answers that did not set a label, with the first and the current label of
    each question.

    Their kind is `second` (by another person), `again` (repeated by the same person) or `late`. A late answer to a
    question that was prepared but never asked has no number and no labels. If the session asks several questions, each
    of them has columns for its labels.
    """
    words, log = session.settings.answers, {entry.id: entry for entry in session.log}
    rows, names = session.store.opinions(session.id), session.settings.question_names
    own = {f"{what}:{name}": int for name in names for what in ("label", "first", "stands")}
    item_cells = ItemColumns(session.store, session.settings, OPINIONS | own, texts)

    def each() -> Iterator[Row]:
        for row, item in zip(rows, item_cells.items([row["item"] for row in rows])):
            values = row | item | {"class": words[row["label"]], "asking_probability": row["probability"]}
            values |= dict.fromkeys(("number", "first", "stands", *own))
            if entry := log.get(row["question"]):
                values |= {"number": entry.number, "first": words[entry.first], "stands": words[entry.label]}
            answers = (row["labels"], entry and entry.firsts, entry and entry.labels)
            cells = zip(*(labels or [SKIP] * len(names) for labels in answers))
            yield values | {name: label or None for name, label in zip(own, chain(*cells))}

    return item_cells.table(each(), len(rows)), None


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
    quality = f"The first {size:,}: {depths[0].sentence(session.settings.positive_name)} " if depths else ""
    return table, f"{quality}{sentence}"


def _ranked(
    session: Session,
    ranking: np.ndarray | None,
    texts: bool,
    more: Mapping[str, np.ndarray | None] = MappingProxyType({}),
) -> tuple[OutputTable, str]:
    """Return a table of the predictions for the items of the rounds in `ranking`, in its order (None: all items, the
    highest margins first). Also return a sentence on the probabilities. more: further columns, {name: numbers}."""
    import pyarrow as pa

    fitted, dataset, order, log = model.of_session(session), session.dataset, session.order, session.log
    scores = fitted.scores(dataset.rows)[order]
    ranking = np.argsort(-fitted.decided(scores)[0], kind="stable") if ranking is None else ranking
    words, known_labels = session.settings.answers, session.known_labels
    # The answers, then the known labels. `numbers` has for each round its number in `sources`, from 1, or 0 for none.
    sources = [(entry.label, ANSWER if entry.label else MODEL) for entry in log]
    numbers = np.zeros(order.size, int)
    numbers[[entry.round for entry in log]] = np.arange(1, len(log) + 1)
    asked = (numbers > 0).astype(int)
    places = np.flatnonzero(np.isin(order, [*known_labels]))
    sources += [(row["label"], origin(row)) for row in map(known_labels.__getitem__, order[places].tolist())]
    numbers[places] = np.arange(len(log) + 1, len(sources) + 1)
    labels = pa.array([None, *(label or None for label, _ in sources)], pa.int64())
    classes = pa.array([None, *(words[label] for label, _ in sources)], pa.string())
    origins = pa.array([MODEL, *(source for _, source in sources)], pa.string())
    columns = {"rank": int, "id": str, "position": int, "round": int} | fitted.fields
    columns |= {"asked": int, "label": int, "class": str, "origin": str} | dict.fromkeys(more, float)
    item_cells = ItemColumns(session.store, session.settings, columns, texts)

    def parts() -> Iterator[Part]:
        ids = pa.array(session.store.ids(dataset.id))  # of all items, as the table has another order
        item_columns = item_cells.columns.keys() - columns.keys()
        for place in blocks(ranking.size, item_cells.lot if item_columns else LOT_ROWS):
            t = ranking[place.start : place.stop]
            items = [*item_cells.items(order[t].tolist())] if item_columns else []
            cells: dict[str, Any] = {
                "rank": range(place.start + 1, place.stop + 1), "id": ids.take(order[t]), "position": order[t],
                "round": t + 1, **dict(zip(fitted.fields, fitted.predictions(scores[t]))),
                "asked": asked[t], "label": labels.take(numbers[t]), "class": classes.take(numbers[t]),
                "origin": origins.take(numbers[t]),
                **{name: [None] * t.size if each is None else each[place.start : place.stop]
                   for name, each in more.items()},
            }  # fmt: skip
            yield tuple(cells[name] if name in cells else [item[name] for item in items] for name in item_cells.columns)

    return OutputTable(item_cells.columns, parts(), ranking.size), str(fitted.calibration)


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
    doubts = np.where(np.isnan(wrong), -says * margins, wrong)
    ranking = np.argsort(-doubts, kind="stable")
    words = session.settings.answers
    item_cells = ItemColumns(session.store, session.settings, AUDIT, texts)

    def each() -> Iterator[Row]:
        for place in blocks(ranking.size, item_cells.lot):
            part = ranking[place.start : place.stop].tolist()
            for item, cells in zip(part, item_cells.items(part)):
                entry = answers.get(item)
                yield cells | {
                    "column": words[int(says[item])], "corrected": words[int(corrected[item])],
                    "score": None if np.isnan(score[item]) else float(score[item]),
                    "wrong": None if np.isnan(wrong[item]) else float(wrong[item]), "margin": float(margins[item]),
                    "answer": words[entry.label] if entry else None,
                    "asking_probability": entry.probability if entry else None,
                    "annotator": entry.annotator if entry else None, "origin": ANSWER if entry else MODEL,
                }  # fmt: skip

    return item_cells.table(each(), ranking.size), str(fitted.calibration)


def table(session: Session, texts: bool = True) -> tuple[OutputTable, str]:
    """Return a table of all items in the order of the data, each with its label and prediction, and a sentence on the
    predictions. The table always includes the texts or the numbers."""
    items, sentence = labeled_items(session)
    return items.table(items.words), sentence


# Files

TABLES: dict[str, Callable[..., Any]] = {
    "labels": labels, "decisions": decisions, "predictions": predictions,
    "positives": positives, "opinions": opinions, "table": table, "audit": audit,
}  # fmt: skip
WHATS = (*TABLES, "model", "report", "methods")


def _write_model(session: Any, kind: str, file: BinaryIO) -> None:
    """Write the model of a session to a file. If the session asks several questions, write a ZIP archive with a model
    for each."""
    if session.settings.audited:
        raise SessionError("a model that begins with a column needs it: export the audit or the predictions.")
    model_format = model_formats.FORMATS[kind]
    if not session.several:
        model_format.write(model.of_session(session), file)
        return
    with ZipFile(file, "w") as archive:
        for number, name in enumerate(session.settings.question_names, 1):
            path = f"{number}-{NOT_IN_PATHS.sub('-', name)}{model_format.suffixes[0]}"
            with tools.new_file(archive, path) as target:
                model_format.write(model.of_session(OneQuestion(session, name)), target)


def export(
    store: Store, session: int, what: str, kind: str, out: Path | str | None = None, texts: bool = False,
    progress: Callable[[int, int], None] | None = None, question: str | None = None, **options: Any,
) -> str | None:  # fmt: skip
    """Write one of WHATS to the file `out`, or to the standard output (None), in full or not at all. Return a sentence
    on its content, or None.

    kind: file format. For a table, a format of tables (for what="table" also one of tools.TOOLS); for a model, or each
    model in an archive, one of model_formats.FORMATS; for methods, one of methods.FORMATS. progress: called with (rows
    done, all rows). question: name of the question to export, if the session asks several. options: further arguments
    of the table's function.
    """
    if question and what in ("labels", "methods", "audit"):
        raise ValueError(f"--question is not for labels, methods or an audit, which are of all questions. Got {what}.")
    if what not in WHATS:
        raise ValueError(f"--what must be one of {', '.join(WHATS)}. Got {what}.{did_you_mean(what, WHATS)}")
    opened: Any = None if what == "labels" else Session(store, session)
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
            content, note = TABLES[what](opened, texts, **options) if opened else labels(store, session)
            write(content, kind, file, progress)
            return str(note) if note else None
    return None
