"""What can be exported of a session: its labels, every decision of its stream, predictions, the model, a report."""

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...datasets import Dataset, columns_of
from ...datasets.reading import details
from ...datasets.reading.sources import DataError
from ...output.tables import FEATURES, LABEL, TEXT, OutputTable, Part, block_rows, blocks, whole, write
from ...store import Row, Store
from .. import model
from ..insights import certainty, outcome
from ..log import read_entries
from ..session import Session
from ..settings import SessionError, Settings
from . import report

LOT = 50_000  # predictions without texts that are in memory at a time
TAGS = "tags"
LABELS = {
    "session": int, "number": int, "round": int, "position": int, "id": str, "text": str, "label": int, "class": str,
    "margin": float, "probability": float, "draw": float, "predicted": int, "audit": int, "first": str,
    "corrected": int, "note": str, "asked_at": str, "answered_at": str, "seconds": float, "annotator": str,
}  # fmt: skip


def labels(store: Store, session: int) -> tuple[OutputTable, str | None]:
    """Every question of a session in order, with the text or the numbers of its item; rounds count from 1.

    class and first are the names of the label that stands and of the one first given: "skipped", which has no label, or
    None, where the question waits. The log alone is needed, so that the labels of a session that does not open can be
    exported too; a sentence where its numbers cannot be read.
    """
    settings, log, notes = Settings.read(store, session), read_entries(store, session), store.notes(session)
    words, missing = settings.answers, None
    try:
        shown = _Shown(store, settings, LABELS, True)
    except DataError as error:
        shown, missing = _Shown(store, settings, LABELS, False), f"Written without the numbers of the items: {error}"

    def each() -> Iterator[tuple[Any, ...]]:
        for part in blocks(len(log), shown.lot):
            entries = log[part.start : part.stop]
            for entry, item in zip(entries, shown.items([each.item for each in entries])):
                row = vars(entry) | item | {
                    "session": session, "round": entry.round + 1, "label": entry.label or None,
                    "class": words[entry.label], "first": words[entry.first], "corrected": int(entry.corrected),
                    "note": notes.get(entry.item),
                }  # fmt: skip
                yield tuple(row[name] for name in shown.columns)

    return OutputTable.of_rows(shown.columns, each(), len(log), shown.lot), missing


DECISIONS = {
    "round": int, "id": str, "position": int, "margin": float, "predicted": int, "asked": int, "audit": int,
    "label": int, "class": str,
}  # fmt: skip


def decisions(session: Session, texts: bool = False) -> tuple[OutputTable, certainty.Certainty | None]:
    """Every round of the stream so far, as it was decided when it passed, with the label that stands; and what is
    certain of these decisions."""
    decided, words = session.decided, session.settings.answers
    answers = {entry.round: (entry.audit, entry.label) for entry in session.log}
    shown = _Shown(session.store, session.settings, DECISIONS, texts)

    def each() -> Iterator[tuple[Any, ...]]:
        for t in blocks(decided[0].size, shown.lot):
            part = slice(t.start, t.stop)
            items = shown.items(session.order[part].tolist())
            for k, item, *made in zip(t, items, *(values[part].tolist() for values in decided)):
                margin, predicted, asked = made
                audit, label = answers.get(k, (0, None))
                row = item | {
                    "round": k + 1, "margin": margin, "predicted": predicted, "asked": int(asked), "audit": audit,
                    "label": label or None, "class": words[label],
                }  # fmt: skip
                yield tuple(row[name] for name in shown.columns)

    return OutputTable.of_rows(shown.columns, each(), decided[0].size, shown.lot), certainty.of_session(session)


OPINIONS = {
    "number": int, "id": str, "kind": str, "annotator": str, "class": str, "first_annotator": str, "first": str,
    "stands": str, "probability": float, "answered_at": str, "seconds": float,
}  # fmt: skip


def opinions(session: Session, texts: bool = False) -> tuple[OutputTable, None]:
    """The answers to a question besides its label, which a coin asked of one more person (second) or of the same one
    (again), or which came too late (late), beside the first answer and the one that stands. An answer that came too
    late to a question that was prepared and never asked has neither, and no number."""
    words, log = session.settings.answers, {entry.id: entry for entry in session.log}
    rows = session.store.opinions(session.id)
    shown = _Shown(session.store, session.settings, OPINIONS, texts)

    def each() -> Iterator[tuple[Any, ...]]:
        for row, item in zip(rows, shown.items([row["item"] for row in rows])):
            values = row | item | {"class": words[row["label"]]}
            values |= dict.fromkeys(("number", "first_annotator", "first", "stands"))
            if entry := log.get(row["question"]):
                values |= {
                    "number": entry.number, "first_annotator": entry.annotator, "first": words[entry.first],
                    "stands": words[entry.label],
                }  # fmt: skip
            yield tuple(values[name] for name in shown.columns)

    return OutputTable.of_rows(shown.columns, each(), len(rows), shown.lot), None


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
    columns |= {"asked": int, "label": int, "class": str}
    shown = _Shown(session.store, session.settings, columns, texts)

    def parts() -> Iterator[Part]:
        ids = pa.array(session.store.ids(dataset.id))  # of all at once, as they are wanted in another order
        beside = shown.columns.keys() - columns.keys()
        for place in blocks(ranking.size, shown.lot if beside else LOT):
            t = ranking[place.start : place.stop]
            items = [*shown.items(order[t].tolist())] if beside else []
            cells: dict[str, Any] = {
                "rank": range(place.start + 1, place.stop + 1), "id": ids.take(order[t]), "position": order[t],
                "round": t + 1, **dict(zip(made.fields, made.predictions(scores[t]))),
                "asked": asked[t], "label": labels[t], "class": classes[t],
            }  # fmt: skip
            yield tuple(cells[name] if name in cells else [item[name] for item in items] for name in shown.columns)

    return OutputTable(shown.columns, parts(), ranking.size), str(made.calibration)


class _Shown:
    """What a table shows of items besides its own columns: before the label their texts, or the numbers of their file,
    where these are wanted; last their tags, where the session has any, and what is kept with them.

    columns: all of the table. lot: so many of its rows are in memory at a time.
    """

    def __init__(self, store: Store, settings: Settings, own: Mapping[str, type], wanted: bool) -> None:
        self.store, self.dataset, self.tags = store, settings.dataset, store.tags(settings.id)
        record = store.dataset(self.dataset)
        self.texts = wanted and record["kind"] == "text"
        self.tagged = {TAGS: str} if settings.tags or self.tags else dict[str, type]()
        taken = {*own, *self.tagged, TEXT, FEATURES}
        self.file, self.numbers = None, list[str]()
        if wanted and not self.texts:
            self.file = Dataset(store, self.dataset).numbers
            self.numbers = [FEATURES] if self.file.sparse else details.named(self.file.names, taken)
        self.kept = details.named(columns_of(record).get("details", ()), taken | {*self.numbers})
        made_of = {TEXT: str} if self.texts else dict.fromkeys(self.numbers, str if FEATURES in self.numbers else float)
        columns = [(name, kind) for name, kind in own.items() if name != TEXT]
        before = [*(name for name, _ in columns), LABEL].index(LABEL)
        columns[before:before] = made_of.items()
        self.columns = dict(columns) | self.tagged | dict.fromkeys(self.kept, str)
        self.lot = block_rows(len(made_of))

    def items(self, positions: Collection[int]) -> Iterator[Row]:
        """The items at some positions in their order, each with its cells of these columns by name."""
        by_position = self.store.items(self.dataset, positions, self.texts)
        stored = self.store.details(self.dataset, positions) if self.kept else {}
        for position in positions:
            numbers = zip(self.numbers, self.file.cells(position)) if self.file else ()
            tags = dict.fromkeys(self.tagged, "|".join(self.tags.get(position, ())) or None)
            kept = dict.fromkeys(self.kept) | dict(zip(self.kept, (word or None for word in stored.get(position, ()))))
            yield by_position[position] | dict(numbers) | tags | kept


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
        if opened and what == "model":
            model.write(model.of_session(opened), file)
        elif opened and what == "report":
            file.write(report.page(opened))
        else:
            table, sentence = TABLES[what](opened, texts) if opened else labels(store, session)
            write(table, kind, file, progress)
            return str(sentence) if sentence else None
    return None
