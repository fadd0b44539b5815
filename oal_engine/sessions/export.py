"""What can be exported of a session: its labels, every decision of its stream, predictions, the model, a report."""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..kernel import rows
from ..output.tables import OutputTable, chunks, whole, write
from ..store import Row, Store
from . import certainty, model, outcome, report
from .log import read_entries
from .session import Session
from .settings import SessionError, Settings

LABELS = {
    "session": int, "number": int, "round": int, "position": int, "id": str, "text": str, "label": int, "class": str,
    "margin": float, "probability": float, "draw": float, "predicted": int, "audit": int, "first": str,
    "corrected": int, "note": str, "asked_at": str, "answered_at": str, "seconds": float, "annotator": str,
}  # fmt: skip


def labels(store: Store, session: int) -> OutputTable:
    """Every question of a session in order; rounds count from 1.

    class and first are the names of the label that stands and of the one first given: "skipped", which has no label, or
    None, where the question waits. The log alone is needed, so that the labels of a session that does not open can be
    exported too.
    """
    settings, log, notes = Settings.read(store, session), read_entries(store, session), store.notes(session)
    words = settings.answers

    def each() -> Iterator[tuple[Any, ...]]:
        for part in chunks(len(log)):
            entries = log[part.start : part.stop]
            for entry, item in zip(entries, _items(store, settings.dataset, [each.item for each in entries], True)):
                row = vars(entry) | item | {
                    "session": session, "round": entry.round + 1, "label": entry.label or None,
                    "class": words[entry.label], "first": words[entry.first], "corrected": int(entry.corrected),
                    "note": notes.get(entry.item),
                }  # fmt: skip
                yield tuple(row[name] for name in LABELS)

    return OutputTable(LABELS, each(), len(log))


DECISIONS = {
    "round": int, "id": str, "position": int, "margin": float, "predicted": int, "asked": int, "audit": int,
    "label": int, "class": str,
}  # fmt: skip


def decisions(session: Session, texts: bool = False) -> tuple[OutputTable, certainty.Certainty | None]:
    """Every round of the stream so far, as it was decided when it passed, with the label that stands; and what is
    certain of these decisions."""
    decided, words = session.decided, session.settings.answers
    answers = {entry.round: (entry.audit, entry.label) for entry in session.log}
    columns = DECISIONS | ({"text": str} if texts else {})

    def each() -> Iterator[tuple[Any, ...]]:
        for t in chunks(decided[0].size):
            part = slice(t.start, t.stop)
            items = _items(session.store, session.dataset.id, session.order[part].tolist(), texts)
            for k, item, *made in zip(t, items, *(values[part].tolist() for values in decided)):
                margin, predicted, asked = made
                audit, label = answers.get(k, (0, None))
                row = item | {
                    "round": k + 1, "margin": margin, "predicted": predicted, "asked": int(asked), "audit": audit,
                    "label": label or None, "class": words[label],
                }  # fmt: skip
                yield tuple(row[name] for name in columns)

    return OutputTable(columns, each(), decided[0].size), certainty.of_session(session)


OPINIONS = {
    "number": int, "id": str, "kind": str, "annotator": str, "class": str, "first_annotator": str, "first": str,
    "stands": str, "probability": float, "answered_at": str, "seconds": float,
}  # fmt: skip


def opinions(session: Session, texts: bool = False) -> tuple[OutputTable, None]:
    """The answers to a question besides its label, which a coin asked of one more person (second) or of the same one
    (again), or which came too late (late), beside the first answer and the one that stands."""
    words, log = session.settings.answers, {entry.id: entry for entry in session.log}
    rows = [(row, entry) for row in session.store.opinions(session.id) if (entry := log.get(row["question"]))]
    columns = OPINIONS | ({"text": str} if texts else {})

    def each() -> Iterator[tuple[Any, ...]]:
        items = _items(session.store, session.dataset.id, [entry.item for _, entry in rows], texts)
        for (row, entry), item in zip(rows, items):
            values = row | item | {
                "number": entry.number, "class": words[row["label"]], "first_annotator": entry.annotator,
                "first": words[entry.first], "stands": words[entry.label], "probability": entry.probability,
            }  # fmt: skip
            yield tuple(values[name] for name in columns)

    return OutputTable(columns, each(), len(rows)), None


def predictions(session: Session, texts: bool = False) -> tuple[OutputTable, str]:
    """Every item of the stream under the model as it is now, the highest margins first; and a sentence that says what
    its probabilities are."""
    return _ranked(session, np.ones(session.order.size, bool), texts)


def positives(session: Session, texts: bool = False) -> tuple[OutputTable, str]:
    """Of these predictions the items that were answered as positive, and those predicted positive that nobody answered
    otherwise. SessionError where a session has several classes."""
    if session.multiclass:
        raise SessionError("a session of several classes has no positives: export its predictions.")
    return _ranked(session, outcome.of_session(session).listed, texts)


def _ranked(session: Session, kept: np.ndarray, texts: bool) -> tuple[OutputTable, str]:
    """The predictions of the rounds that are kept, the highest margins first."""
    made, dataset, order = model.of_session(session), session.dataset, session.order
    ranking = np.argsort(-outcome.margins(session), kind="stable")
    ranking = ranking[kept[ranking]]
    answers, words = {entry.round: entry.label for entry in session.log}, session.settings.answers

    def each() -> Iterator[tuple[Any, ...]]:
        for place in chunks(ranking.size):
            t = ranking[place.start : place.stop]
            results = made.predictions(made.scores(rows.take(dataset.rows, order[t])))
            items = _items(session.store, dataset.id, order[t].tolist(), texts)
            for rank, k, item, prediction in zip(place, t.tolist(), items, results):
                label = answers.get(k)
                row = rank + 1, item["id"], item["position"], k + 1, *prediction, int(k in answers), label or None
                yield *row, words[label], *([item["text"]] if texts else ())

    columns = {"rank": int, "id": str, "position": int, "round": int} | made.fields
    columns |= {"asked": int, "label": int, "class": str} | ({"text": str} if texts else {})
    return OutputTable(columns, each(), ranking.size), str(made.calibration)


def _items(store: Store, dataset: int, positions: Collection[int], texts: bool) -> Iterator[Row]:
    """The items of a data set at some positions, in their order."""
    by_position = store.items(dataset, positions, texts)
    return (by_position[position] for position in positions)


# Files

TABLES: dict[str, Callable[..., Any]] = {
    "labels": labels, "decisions": decisions, "predictions": predictions,
    "positives": positives, "opinions": opinions,
}  # fmt: skip
WHATS = (*TABLES, "model", "report")


def export(
    store: Store, session: int, what: str, kind: str, out: Path | str | None = None, texts: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> str | None:  # fmt: skip
    """Write what there is of a session to a file, or the standard output (None), all or nothing; a sentence on it, or
    None. kind: the format of a table. progress: called with the rows done and all rows."""
    if what not in WHATS:
        raise ValueError(f"--what must be one of {', '.join(WHATS)}. Got {what}.")
    opened = None if what == "labels" else Session(store, session)
    with whole(out) as file:
        if opened is None:
            write(labels(store, session), kind, file, progress)
        elif what == "model":
            model.write(model.of_session(opened), file)
        elif what == "report":
            file.write(report.page(opened))
        else:
            table, sentence = TABLES[what](opened, texts)
            write(table, kind, file, progress)
            return str(sentence) if sentence else None
    return None
