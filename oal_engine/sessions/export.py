"""What can be exported of a session: its labels, every decision of its stream, predictions, the model, a report."""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets import columns_of
from ..output.tables import CHUNK, OutputTable, Part, chunks, whole, write
from ..store import Row, Store
from . import certainty, model, outcome, report
from .log import read_entries
from .session import Session
from .settings import SessionError, Settings

LOT = 50_000  # predictions without texts that are in memory at a time
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
    words, more = settings.answers, _More(store, settings, LABELS)

    def each() -> Iterator[tuple[Any, ...]]:
        for part in chunks(len(log)):
            entries = log[part.start : part.stop]
            for entry, item in zip(entries, more.items([each.item for each in entries], True)):
                row = vars(entry) | item | {
                    "session": session, "round": entry.round + 1, "label": entry.label or None,
                    "class": words[entry.label], "first": words[entry.first], "corrected": int(entry.corrected),
                    "note": notes.get(entry.item),
                }  # fmt: skip
                yield *(row[name] for name in LABELS), *item["more"]

    return OutputTable.of_rows(LABELS | more.columns, each(), len(log))


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
    more = _More(session.store, session.settings, columns)

    def each() -> Iterator[tuple[Any, ...]]:
        for t in chunks(decided[0].size):
            part = slice(t.start, t.stop)
            items = more.items(session.order[part].tolist(), texts)
            for k, item, *made in zip(t, items, *(values[part].tolist() for values in decided)):
                margin, predicted, asked = made
                audit, label = answers.get(k, (0, None))
                row = item | {
                    "round": k + 1, "margin": margin, "predicted": predicted, "asked": int(asked), "audit": audit,
                    "label": label or None, "class": words[label],
                }  # fmt: skip
                yield *(row[name] for name in columns), *item["more"]

    return OutputTable.of_rows(columns | more.columns, each(), decided[0].size), certainty.of_session(session)


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
    more = _More(session.store, session.settings, columns)

    def each() -> Iterator[tuple[Any, ...]]:
        items = more.items([entry.item for _, entry in rows], texts)
        for (row, entry), item in zip(rows, items):
            values = row | item | {
                "number": entry.number, "class": words[row["label"]], "first_annotator": entry.annotator,
                "first": words[entry.first], "stands": words[entry.label], "probability": entry.probability,
            }  # fmt: skip
            yield *(values[name] for name in columns), *item["more"]

    return OutputTable.of_rows(columns | more.columns, each(), len(rows)), None


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
    import pyarrow as pa

    made, dataset, order, log = model.of_session(session), session.dataset, session.order, session.log
    scores = made.scores(dataset.rows)[order]
    ranking = np.argsort(-made.decided(scores)[0], kind="stable")
    ranking = ranking[kept[ranking]]
    words, rounds = session.settings.answers, [entry.round for entry in log]
    asked, labels, classes = np.zeros(order.size, int), np.full(order.size, None), np.full(order.size, None)
    asked[rounds] = 1
    labels[rounds], classes[rounds] = [each.label or None for each in log], [words[each.label] for each in log]
    columns = {"rank": int, "id": str, "position": int, "round": int} | made.fields
    columns |= {"asked": int, "label": int, "class": str} | ({"text": str} if texts else {})
    more = _More(session.store, session.settings, columns)

    def parts() -> Iterator[Part]:
        ids = pa.array(session.store.ids(dataset.id))  # of all at once, as they are wanted in another order
        for place in chunks(ranking.size, CHUNK if texts or more.columns else LOT):
            t = ranking[place.start : place.stop]
            items = [*more.items(order[t].tolist(), texts)] if texts or more.columns else []
            yield (
                range(place.start + 1, place.stop + 1), ids.take(order[t]), order[t], t + 1,
                *made.predictions(scores[t]), asked[t], labels[t], classes[t],
                *([[item["text"] for item in items]] if texts else ()), *zip(*(item["more"] for item in items)),
            )  # fmt: skip

    return OutputTable(columns | more.columns, parts(), ranking.size), str(made.calibration)


class _More:
    """The last columns of every table: the tags of the items, where the session has any, and what is kept with them. A
    column that the table has already gets another name."""

    def __init__(self, store: Store, settings: Settings, taken: Collection[str]):
        self.store, self.dataset, self.tags = store, settings.dataset, store.tags(settings.id)
        self.kept = columns_of(store.dataset(settings.dataset)).get("details", ())
        self.columns: dict[str, type] = {"tags": str} if settings.tags or self.tags else {}
        for name in self.kept:
            while name in taken or name in self.columns:
                name = f"item_{name}"
            self.columns[name] = str

    def items(self, positions: Collection[int], texts: bool) -> Iterator[Row]:
        """The items at some positions in their order, each with its cells of these columns as `more`."""
        by_position = self.store.items(self.dataset, positions, texts)
        details = self.store.details(self.dataset, positions) if self.kept else {}
        nothing = [""] * len(self.kept)
        for position in positions:
            tags = ["|".join(self.tags.get(position, ()))] if len(self.columns) > len(self.kept) else []
            words = [*tags, *details.get(position, nothing)]
            yield by_position[position] | {"more": [word or None for word in words]}


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
