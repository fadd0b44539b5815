"""The commands that read files into data sets: import and append."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Annotated

from typer import Argument, Option

from .. import datasets
from ..datasets import feeds
from ..datasets.features import duplicates
from ..datasets.features.encoders import usual_seconds
from ..datasets.reading import details as more_columns
from ..datasets.reading import layout_sentence, reasons, size_sentence
from ..datasets.reading.archives import one_file
from ..datasets.reading.sources import Limits
from ..sessions.settings import SessionError, create
from ..store import Store
from .files import Importing, Label, Reading, Text, Vectors
from .lists import DATASET
from .terminal import Db, Json, progress_bar, set_options, undamaged

STANDARD_INPUT = "standard input"  # the name of its copy, for messages and as the source of the data set


def import_(
    files: Annotated[
        list[Path],
        Argument(
            metavar="FILE...|-",
            help="The file to import, or a folder, or several files that belong together, or - for standard input.",
        ),
    ],
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
    begin_with_labels: Annotated[
        bool,
        Option(
            "--begin-with-labels",
            help="Also make a session that begins with the labels of the file, and asks about the other items only.",
        ),
    ] = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Import a file of texts or vectors as a data set."""
    request = datasets.ImportRequest(
        vectors=reading.vectors(importing.vectors), encoder=importing.embed, scale=importing.scale,
        features=importing.features, near_duplicates=near_duplicates, **reading.arguments,
    )  # fmt: skip
    store = Store(db)
    datasets.sweep(store)
    with _or_standard_input(files, reading.limits) as paths, one_file(paths, reading.limits) as file:
        columns = replace(importing.columns(file, reading), details=_named(details), shown_columns=_named(show))
        seconds = 0.0 if importing.features or importing.embed else usual_seconds(columns)
        if size := size_sentence(file, seconds, **reading.arguments):
            print(size, file=sys.stderr, flush=True)
        with progress_bar() as progress:
            dataset, items = datasets.import_file(
                store, file, name, columns, request, progress, **set_options(tokenizer=importing.tokenizer)
            )
    session = _session_with_labels(store, dataset) if begin_with_labels else None
    if as_json:
        stored, copies = store.dataset(dataset), store.copies(dataset)
        more = {"near_duplicates": copies, "read": items.description, "skipped": _skipped(items.skipped)}
        more |= {"session": session} if session else {}
        print(json.dumps({key: stored[key] for key in DATASET} | more))
    else:
        print(layout_sentence(items.description))
        print(f"{name}: {datasets.report(store, dataset, items)}")
        if session:
            print(f"Session {session} begins with {len(store.first_known(session)):,} labels of the file.")


@contextmanager
def _or_standard_input(files: list[Path], limits: Limits) -> Iterator[list[Path]]:
    """Yield the files or, for `-`, a temporary copy of the standard input, because a file is read several times."""
    if Path("-") not in files:
        yield files
        return
    if len(files) > 1:
        raise ValueError(f"- (standard input) is imported alone. Got {len(files)} files.")
    with TemporaryDirectory() as folder:
        copy, size = Path(folder, STANDARD_INPUT), 0
        with copy.open("wb") as file:
            while block := sys.stdin.buffer.read(2**20):
                size += file.write(block)
                limits.check("size", size, STANDARD_INPUT)
        yield [copy]


def _session_with_labels(store: Store, dataset: int) -> int:
    """Make a session that begins with the labels of a data set, and return its id."""
    data = store.dataset(dataset)
    try:
        return create(store, dataset, "auto-classes" if data["classes"] else "auto", known_labels="file")
    except SessionError as error:
        raise ValueError(f"{data['name']} is imported, but no session begins with its labels: {error}") from None


def _named(columns: list[str] | None) -> tuple[str, ...] | None:
    """Return the columns of a repeatable option without empty names, or None if the option was not set."""
    return None if columns is None else tuple(filter(None, columns))


def append(
    name: Annotated[str, Argument(help="An imported data set.")],
    files: Annotated[
        list[str],
        Argument(metavar="FILE...|-", help="A file, a folder or several files, or - for the lines of standard input."),
    ],
    *,
    text: Text = None,
    label: Label = None,
    identity: Annotated[str | None, Option("--id", help="The column of ids.")] = None,
    vectors: Vectors = None,
    reading: Reading,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Append items to a data set, by default from the columns of its import; running sessions get the new items.

    Each line of standard input is a JSON object or a plain text, and is appended as it arrives.
    """
    store = undamaged(Store(db))
    datasets.sweep(store)
    dataset = datasets.Dataset(store, name)
    columns = set_options(text=text, label=label, id=identity)
    total = feeds.AppendCounts()
    with ExitStack() as opened, progress_bar() as progress, _stoppable() as stopped:
        if files == ["-"]:
            if vectors:
                raise ValueError(f"--vectors is for files: lines of standard input bring their own. Got {vectors}.")
            lines = os.fdopen(0, "rb", closefd=False)  # not sys.stdin: a thread may still wait on it at exit
            batches = feeds.append_lines(dataset, lines, columns, stopped=stopped, **reading.of_lines)
        else:
            table = reading.vectors(vectors)
            file = opened.enter_context(one_file([*map(Path, files)], reading.limits))
            batches = feeds.append_file(
                dataset, file, columns, progress=progress, stopped=stopped, vectors=table, **reading.arguments
            )
        for batch in batches:
            total += batch
            if files == ["-"] and batch.skipped:
                print(f"skipped {reasons(batch.skipped)}", file=sys.stderr, flush=True)
    if as_json:
        novelty = feeds.novelty_at_import(dataset.store.batches(dataset.id))
        more = {"items": dataset.record["items"], "new_at_import": novelty}
        print(json.dumps(asdict(total) | {"skipped": _skipped(total.skipped)} | more))
    else:
        print(f"{dataset.name}: {feeds.report(dataset, total)}")


@contextmanager
def _stoppable() -> Iterator[Event]:
    """Yield an Event that Ctrl-C or SIGTERM sets instead of ending the process, so that the current batch is
    finished."""
    stopped = Event()
    ends = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(each, lambda *_: stopped.set()) for each in ends]
    try:
        yield stopped
    finally:
        for each, handler in zip(ends, before):
            signal.signal(each, handler)


def _skipped(skipped: dict[str, tuple[int, int]]) -> dict[str, dict[str, int]]:
    return {reason: {"count": count, "first_line": line} for reason, (count, line) in skipped.items()}
