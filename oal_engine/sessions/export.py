"""What comes out of a session: its labels, every decision of its stream, predictions, the model, a report."""

import numpy as np

from ..kernel import rows
from ..output.tables import OutputTable, chunks, whole, write
from . import model, report
from .log import read_entries
from .session import Session
from .settings import Settings

LABELS = {
    "session": int, "number": int, "round": int, "position": int, "id": str, "text": str, "label": int, "class": str,
    "margin": float, "probability": float, "draw": float, "predicted": int, "audit": int, "first": str,
    "corrected": int, "note": str, "asked_at": str, "answered_at": str, "seconds": float, "annotator": str,
}  # fmt: skip


def labels(store, session):
    """Every question of a session in order; rounds count from 1.

    class and first are the names of the label that stands and of the one first given: "skipped", which has no label, or
    None, where the question waits. It needs the log alone, whatever has become of the session.
    """
    settings, log, notes = Settings.read(store, session), read_entries(store, session), store.notes(session)
    words = _words(settings)

    def each():
        for part in chunks(len(log)):
            entries = log[part.start : part.stop]
            places = [entry.item for entry in entries]
            for entry, item in zip(entries, _items(store, settings.dataset, places, True)):
                row = vars(entry) | item | {
                    "session": session,
                    "round": entry.round + 1,
                    "label": entry.label or None,
                    "class": words[entry.label],
                    "first": words[entry.first],
                    "corrected": int(entry.corrected),
                    "note": notes.get(entry.item),
                }  # fmt: skip
                yield tuple(row[name] for name in LABELS)

    return OutputTable(LABELS, each(), len(log))


def _words(settings):
    return settings.names | {0: "skipped", None: None}


DECISIONS = {
    "round": int, "id": str, "position": int, "margin": float, "predicted": int, "asked": int, "audit": int,
    "label": int, "class": str,
}  # fmt: skip


def decisions(session, texts=False):
    """Every round of the stream so far, as it was decided when it passed, with the label that stands."""
    decided = session.decided
    answers = {entry.round: entry for entry in session.log}
    words, rounds = _words(session.settings), decided[0].size

    def each():
        for t in chunks(rounds):
            places = session.order[t.start : t.stop].tolist()
            parts = (values[t.start : t.stop].tolist() for values in decided)
            for k, item, margin, predicted, asked in zip(
                t, _items(session.store, session.dataset.id, places, texts), *parts
            ):
                entry = answers.get(k)
                label = entry and entry.label
                row = item | {
                    "round": k + 1,
                    "margin": margin,
                    "predicted": predicted,
                    "asked": int(asked),
                    "audit": entry.audit if entry else 0,
                    "label": label or None,
                    "class": words[label],
                }  # fmt: skip
                yield tuple(row[name] for name in columns)

    columns = DECISIONS | ({"text": str} if texts else {})
    return OutputTable(columns, each(), rounds), None


def predictions(session, texts=False):
    """Every item of the stream as the model is now, the highest margins first: what it pushes is at the top. And a
    sentence on what its probabilities are."""
    made, dataset, order = model.of_session(session), session.dataset, session.order
    margins, predicted = np.empty(order.size), np.empty(order.size, np.int8)
    for t in chunks(order.size):
        part = slice(t.start, t.stop)
        margins[part], predicted[part] = made.decided(made.scores(rows.take(dataset.rows, order[part])))
    first = np.argsort(-margins, kind="stable")
    answers = {entry.round: entry.label for entry in session.log}
    words = _words(session.settings)

    def each():
        for place in chunks(order.size):
            t = first[place.start : place.stop]
            told = made.told(made.scores(rows.take(dataset.rows, order[t])))
            items = _items(session.store, dataset.id, order[t].tolist(), texts)
            for rank, k, item, found in zip(place, t.tolist(), items, told):
                given = answers.get(k)
                row = rank + 1, item["id"], item["position"], k + 1, *found, int(k in answers), given or None
                yield *row, words[given], *([item["text"]] if texts else ())

    columns = {"rank": int, "id": str, "position": int, "round": int} | made.fields
    columns |= {"asked": int, "label": int, "class": str} | ({"text": str} if texts else {})
    return OutputTable(columns, each(), order.size), str(made.calibration)


def _items(store, dataset, positions, texts):
    """The items of a data set at some positions, in their order."""
    found = store.items(dataset, positions, texts)
    return (found[position] for position in positions)


# Files

TABLES = {"labels": labels, "decisions": decisions, "predictions": predictions}
WHATS = (*TABLES, "model", "report")


def export(store, session, what, kind, out=None, texts=False, progress=None):
    """Write what there is of a session to a file, or the standard output (None), all or nothing; a sentence on it, or
    None. kind: the format of a table. progress: a function of (rows done, in all)."""
    if what not in WHATS:
        raise ValueError(f"--what must be one of {', '.join(WHATS)}. Got {what}.")
    if what == "labels":  # of a session that no longer opens too
        with whole(out) as file:
            return write(labels(store, session), kind, file, progress)
    opened = Session(store, session)
    with whole(out) as file:
        if what == "model":
            return model.write(model.of_session(opened), file)
        if what == "report":
            file.write(report.page(opened))
            return None
        table, said = TABLES[what](opened, texts)
        write(table, kind, file, progress)
        return said
