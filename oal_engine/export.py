"""The questions and labels of a session as a file."""

import csv
import json

FIELDS = (
    "session", "number", "round", "position", "id", "text", "label", "class", "margin", "probability", "draw",
    "predicted", "asked_at", "answered_at", "seconds", "annotator",
)  # fmt: skip


def records(store, session):
    """A dictionary for each question, in order; label is 0 for a skip, None where it waits, and rounds count from 1."""
    about = store.session(session)
    two = {1: about["positive_name"], -1: about["negative_name"]}
    words = (dict(enumerate(about["classes"], 1)) if about["classes"] else two) | {0: "skipped", None: None}
    for entry in store.log(session):
        entry |= {"round": entry["round"] + 1, "position": entry["item"], "id": entry["item_id"]}
        entry["class"] = words[entry["label"]]
        yield {field: entry[field] for field in FIELDS}


def _csv(rows, file):
    writer = csv.DictWriter(file, FIELDS)
    writer.writeheader()
    writer.writerows(rows)


def _jsonl(rows, file):
    file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


EXPORTS = {"csv": _csv, "jsonl": _jsonl}


def export(store, session, kind, file):
    """Write a session's questions to an open text file as csv or jsonl."""
    if kind not in EXPORTS:
        raise ValueError(f"format must be one of {', '.join(EXPORTS)}. Got {kind}.")
    EXPORTS[kind](records(store, session), file)
