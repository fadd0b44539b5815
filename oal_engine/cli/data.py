"""The commands that read files into data sets: import, append and audit."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Annotated, Any
from uuid import uuid4

from typer import Argument, Option

from .. import datasets, did_you_mean
from ..datasets import feeds
from ..datasets.features import duplicates
from ..datasets.features.encoders import usual_seconds
from ..datasets.reading import details as more_columns
from ..datasets.reading import layout_sentence, peek, reasons, size_sentence
from ..datasets.reading.archives import one_file
from ..datasets.reading.sources import Limits
from ..sessions.files import export as exports
from ..sessions.files.item_columns import seen, text_of
from ..sessions.insights import certainty, outcome
from ..sessions.session import Session
from ..sessions.settings import NEGATIVE, POSITIVE, SKIP, SessionError, create
from ..store import Store
from .files import Cut, Importing, Label, Reading, Text, Vectors
from .lists import DATASET
from .sessions import TABLES
from .terminal import Db, Json, draw, format_of, progress_bar, set_options, undamaged

KEYS = {"y": POSITIVE, "n": NEGATIVE, "s": SKIP, "q": None}  # of an answer in the terminal
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
    """Yield an Event that Ctrl-C or SIGTERM sets instead of ending the process, so that the batch is finished."""
    stopped = Event()
    before = {each: signal.signal(each, lambda *_: stopped.set()) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _skipped(skipped: dict[str, tuple[int, int]]) -> dict[str, dict[str, int]]:
    return {reason: {"count": count, "first_line": line} for reason, (count, line) in skipped.items()}


@dataclass(frozen=True)
class Judging(Importing):
    """The meaning of a file's columns, whose labels only answer the questions of an audit."""

    label: Annotated[str | None, Option("--truth", help="A column that answers (default: the terminal asks).")] = None


def audit(
    file: Annotated[Path, Argument(help="A file with a column of labels or scores that a model made.")],
    judge: Annotated[str, Option(metavar="COLUMN", help="The column to audit.")],
    labels: Annotated[int, Option("--label", min=1, metavar="NUMBER", help="How many answers to take.")],
    judging: Judging,
    reading: Reading,
    name: Annotated[str, Option(help="Name of the data set and the session (default: of the file).")] = "",
    cut: Cut = None,
    out: Annotated[Path | None, Option("--output", "--out", help="A file for the corrected column.")] = None,
    db: Db = None,
) -> None:
    """Tell how good a column is that a model made: alone, with some answers, and corrected by them."""
    format, head = format_of(out, TABLES), peek(file, **reading.arguments)
    columns, words = head.columns, {*head.label_words.get(judge, ())}
    if judge not in columns:
        raise ValueError(f"--judge must be one of {', '.join(columns)}. Got {judge}.{did_you_mean(judge, columns)}")
    store, name, is_late = Store(db), name.strip() or file.stem, columns.index(judge) >= more_columns.MAX_COLUMNS
    own = replace(judging, label=judging.label or "", positive=judging.positive if judging.label else None)
    import_([file], name, own, reading, details=[judge] if is_late else None, db=db)
    try:
        session = _begun(store, name, judging.positive, words, column=judge, budget=labels, cut=cut)
    except ValueError:
        datasets.remove(store, store.dataset(name)["id"])  # so that the same name can be given again
        raise
    truth = session.dataset.y if judging.label else None
    while asked := session.current:
        answer = _answer(session, asked.item) if truth is None else int(truth[asked.item])
        if answer is None:
            break
        session.answer(uuid4().hex, asked.id, answer)
    progress, ((*heads,), *rows), more = session.place.progress, *outcome.audit(session)
    print(f"Session {session.id}, {name}: {progress.labels:,} of {progress.budget:,} answers.")
    draw(heads, rows)
    print(*map(": ".join, more), sep="\n")
    if out and (note := exports.export(store, session, "audit", format, out, True)):
        print(note, file=sys.stderr)


def _begun(store: Store, name: str, positive: list[str] | None, words: set[str], **settings: Any) -> Session:
    """Begin an audit of a data set with the settings that the app recommends. positive: the positive words. words: the
    words of the audited column, which name the classes if they are a pair."""
    data = store.dataset(name)
    if data["classes"]:
        raise ValueError(f"--positive must name positive labels of --truth: {', '.join(data['classes'])}. Got none.")
    if word := " or ".join(positive or ()) or data["positive"]:
        others = words - {word}
        settings |= {"positive_name": word, "negative_name": others.pop() if len(others) == 1 else f"not {word}"}
    return Session(store, create(store, name, "auto", floor=certainty.RECOMMENDED, pace=1.0, **settings))


def _answer(session: Session, item: int) -> int | None:
    """Ask in the terminal whether an item is positive. Return its label, or None to stop."""
    question = f"\n{text_of(seen(session, item))}\n{session.settings.positive_name}? y, n, s to skip, q to stop: "
    prompt = "".join(each if each.isprintable() or each == "\n" else " " for each in question)  # no terminal codes
    with suppress(EOFError):
        for key in iter(lambda: input(prompt).strip().lower(), None):
            if key in KEYS:
                return KEYS[key]
    return None
