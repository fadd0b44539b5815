"""The commands that read files into data sets: import, append."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from threading import Event
from typing import Annotated

from typer import Argument, Option

from .. import datasets
from ..datasets import feeds
from ..datasets.features import duplicates
from ..datasets.reading import details as more_columns
from ..datasets.reading import layout_sentence, reasons, size_sentence
from ..store import Store
from .files import Importing, Label, Reading, Text, Vectors
from .lists import DATASET
from .terminal import Db, Json, progress_bar, set_options, undamaged


def import_(
    file: Annotated[Path, Argument(help="The file to import.")],
    name: Annotated[str, Option(help="Name of the data set.")],
    importing: Importing,
    reading: Reading,
    near_duplicates: Annotated[
        str,
        Option(
            help=f"Treatment of texts that are nearly the same as an earlier one: {', '.join(duplicates.KINDS)} "
            "(once: left out, and counted with the first)."
        ),
    ] = duplicates.KEEP,
    details: Annotated[
        list[str] | None,
        Option(
            help="Another column to store with the items and export; repeatable, empty for none (default: the first "
            f"{more_columns.MAX_COLUMNS} that nothing else uses)."
        ),
    ] = None,
    show: Annotated[
        list[str] | None,
        Option(
            help="A stored column to show with each item; repeatable, empty for none (default: columns called title, "
            "year, date, source, journal, authors, url or the like)."
        ),
    ] = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Import a file of texts or vectors as a data set."""
    columns = replace(importing.columns(file, reading), details=_named(details), shown_columns=_named(show))
    request = datasets.ImportRequest(
        vectors=reading.vectors(importing.vectors), embedding=importing.embed, scale=importing.scale,
        features=importing.features, near_duplicates=near_duplicates, **reading.arguments,
    )  # fmt: skip
    store = Store(db)
    datasets.sweep(store)
    if size := size_sentence(file, **reading.arguments):
        print(size, file=sys.stderr, flush=True)
    with progress_bar() as progress:
        dataset, items = datasets.import_file(
            store, file, name, columns, request, progress, **set_options(tokenizer=importing.tokenizer)
        )
    if as_json:
        stored, copies = store.dataset(dataset), store.copies(dataset)
        more = {"near_duplicates": copies, "read": items.description, "skipped": _skipped(items.skipped)}
        print(json.dumps({key: stored[key] for key in DATASET} | more))
    else:
        print(layout_sentence(items.description))
        print(f"{name}: {datasets.report(store, dataset, items)}")


def _named(columns: list[str] | None) -> tuple[str, ...] | None:
    """Return the columns of a repeatable option without empty names, or None if the option was not set."""
    return None if columns is None else tuple(filter(None, columns))


def append(
    name: Annotated[str, Argument(help="An imported data set.")],
    file: Annotated[str, Argument(metavar="FILE|-", help="A file, or - for the lines of standard input.")],
    *,
    text: Text = None,
    label: Label = None,
    identity: Annotated[str | None, Option("--id", help="The column of ids.")] = None,
    vectors: Vectors = None,
    reading: Reading,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Append items to a data set, by default from the columns of its import; running sessions continue with them.

    Each line of standard input is a JSON object or a plain text, and is appended as it arrives.
    """
    store = undamaged(Store(db))
    datasets.sweep(store)
    dataset = datasets.Dataset(store, name)
    columns = set_options(text=text, label=label, id=identity)
    total = feeds.AppendCounts()
    with progress_bar() as progress, _stoppable() as stopped:
        if file == "-":
            if vectors:
                raise ValueError(f"--vectors is for files: lines of standard input bring their own. Got {vectors}.")
            lines = os.fdopen(0, "rb", closefd=False)  # not sys.stdin: a thread may still wait on it at exit
            batches = feeds.append_lines(dataset, lines, columns, stopped=stopped, **reading.of_lines)
        else:
            table = reading.vectors(vectors)
            batches = feeds.append_file(
                dataset, file, columns, progress=progress, stopped=stopped, vectors=table, **reading.arguments
            )
        for batch in batches:
            total += batch
            if file == "-" and batch.skipped:
                print(f"skipped {reasons(batch.skipped)}", file=sys.stderr, flush=True)
    if as_json:
        more = {"items": dataset.record["items"], "new_at_import": feeds.novelty_at_import(store.batches(dataset.id))}
        print(json.dumps(asdict(total) | {"skipped": _skipped(total.skipped)} | more))
    else:
        print(f"{name}: {feeds.report(dataset, total)}")


@contextmanager
def _stoppable() -> Iterator[Event]:
    """Yield an Event that Ctrl-C sets, so that the current batch is finished."""
    stopped = Event()
    before = signal.signal(signal.SIGINT, lambda *_: stopped.set())
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)


def _skipped(skipped: dict[str, tuple[int, int]]) -> dict[str, dict[str, int]]:
    return {reason: {"count": count, "first_line": line} for reason, (count, line) in skipped.items()}
