"""Items appended to a data set that is there: from a file, or line by line as a feed brings them.

The vocabulary, its document frequencies, the scaling and the projection stay those of the import, for the rows of old
items must not move: words that are new share some columns. A label word means what it means in the data set, or
nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from queue import Empty, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, cast

import numpy as np
from scipy import sparse

from ..kernel import rows
from . import formats, numbers
from .sources import LIMITS, FileOrPath, Limits, PhaseProgress, feed_lines

if TYPE_CHECKING:
    from . import Dataset, DatasetRecord

FeedLine: TypeAlias = tuple[int, str]  # its number and its text

BATCH, WEIGHT, AHEAD = 1000, 2**22, 16  # lines of a feed and their characters, and lines read while some are stored
CHUNK = 10_000  # items of a file: others who write wait while so many are stored
PAUSE, LONGEST = 0.1, 0.4  # seconds without a line, and since the first, after which a feed's lines are appended


@dataclass
class Taken:
    """What became of items: appended, exact duplicates, those with an id that was taken, and those that could not be
    read, {reason: (count, first line)}."""

    appended: int = 0
    duplicates: int = 0
    renamed: int = 0
    skipped: formats.Skipped = field(default_factory=dict)

    def __add__(self, more: Taken) -> Taken:
        skipped = dict(more.skipped)
        for reason, (number, line) in self.skipped.items():
            skipped[reason] = number + skipped.get(reason, (0, 0))[0], line
        return Taken(
            self.appended + more.appended, self.duplicates + more.duplicates, self.renamed + more.renamed, skipped
        )

    def __str__(self) -> str:
        parts = [f"appended {self.appended:,}", f"dropped {formats.plural(self.duplicates, 'exact duplicate')}"]
        if self.renamed:
            parts.append(f"made {formats.plural(self.renamed, 'id')} unique")
        if self.skipped:
            unread = formats.plural(sum(number for number, _ in self.skipped.values()), "line")
            parts.append(f"{unread} could not be read ({formats.reasons(self.skipped)})")
        return ", ".join(parts)


def append(dataset: Dataset, items: formats.Items) -> Taken:
    """Append items to a data set, visible to everybody at once, all or none; what became of them."""
    if not items.ids:
        return Taken(skipped=items.skipped)
    store, made = dataset.store, _rows(dataset, items)
    texts: Sequence[str | None] = items.texts or [None] * len(items.ids)
    _digest_older(dataset)
    with store.transaction():
        dataset.refresh()
        first = dataset.record["items"]
        fresh = store.put_contents(dataset.id, _digests(items.texts, made, range(len(texts))))
        kept = np.flatnonzero(fresh)
        written = rows.extend(rows.take(made, kept), dataset.folder, first)
        rows.write_behind(dataset.folder / "y.npy", items.y[kept], first)
        if (own := dataset.numbers.values) is not None:
            some: Any = items.vectors
            written |= {"numbers": numbers.flat(some[kept], dataset.rows)}
            rows.write_behind(dataset.folder / numbers.NAME, written["numbers"], own.size)
        before = dataset.checksums
        checksums = {"checksums": json.dumps(before | rows.checksums(written | {"y": items.y[kept]}, before))}
        new = ((items.ids[k], texts[k], items.labels[k], int(items.y[k])) for k in kept.tolist())
        renamed, total = store.append_items(dataset.id, first, new), first + kept.size
        grown = {"items": total, "digested": total} | _counts(dataset.record, items.y[kept])
        store.update_dataset(dataset.id, grown | checksums)
        store.drop_last_digests("dataset", dataset.id)
    dataset.refresh()
    return Taken(kept.size, len(fresh) - kept.size, renamed, items.skipped)


def _digest_older(dataset: Dataset) -> None:
    """Keep the digests of items that have none yet: at the first append, those of the import."""
    store = dataset.store
    while True:
        with store.transaction():
            dataset.refresh()
            first, items = dataset.record["digested"], dataset.record["items"]
            if first == items:
                return
            stop = min(first + 10 * CHUNK, items)  # fewer would write the whole index again and again
            texts = store.texts(dataset.id, first, stop) if dataset.record["kind"] == "text" else None
            store.put_contents(dataset.id, sorted(_digests(texts, dataset.rows, range(first, stop))))
            store.update_dataset(dataset.id, {"digested": stop})


def _digests(texts: Iterable[str] | None, made: rows.Rows, places: Iterable[int]) -> list[bytes]:
    """Digests of what items hold: their text, or their row where they have none."""
    held = (rows.content(made, i) for i in places) if texts is None else map(str.encode, texts)
    return [blake2b(each, digest_size=16).digest() for each in held]


def _rows(dataset: Dataset, items: formats.Items) -> rows.Rows:
    """Items as rows of the kind that the data set has, through its vocabulary and its scaling."""
    kind, columns = dataset.record["kind"], dataset.named
    if (items.texts is None) != (kind == "vectors"):
        raise formats.DataError(f"the data set {dataset.name} holds {kind}: only such can be appended.")
    if items.texts is not None:
        return dataset.transform(items.texts, cast("np.ndarray | None", items.vectors))
    matrix: Any = items.vectors
    dense = isinstance(matrix, np.ndarray)
    if not dense and matrix.shape[1] < columns:  # the last columns are zero
        matrix.resize(matrix.shape[0], columns)
    if matrix.shape[1] != columns:
        raise formats.DataError(f"the data set {dataset.name} has {columns:,} features. Got {matrix.shape[1]:,}.")
    if isinstance(dataset.rows, rows.SparseRows):  # in the other kind, sums may differ in the last bit
        matrix = sparse.csr_array(matrix)
    elif not dense:
        matrix = matrix.toarray()
    return dataset.transform(matrix)


def _counts(record: DatasetRecord, y: np.ndarray) -> dict[str, Any]:
    """How many items of each class a data set has with more labels."""
    if record["classes"]:
        more = np.bincount(y, minlength=len(record["classes"]) + 1)[1:].tolist()
        return {"classes": json.dumps({name: n + m for (name, n), m in zip(record["classes"].items(), more)})}
    return {
        "positives": record["positives"] + int((y > 0).sum()),
        "negatives": record["negatives"] + int((y < 0).sum()),
    }


# From a file


def append_file(
    dataset: Dataset,
    path: FileOrPath,
    named: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    reader: str | None = None,
    encoding: str = "utf-8",
    progress: PhaseProgress | None = None,
    stopped: Event | None = None,
    limits: Limits = LIMITS,
    vectors: formats.Vectors | None = None,
) -> Iterator[Taken]:
    """Append the items of a file in any format, some thousands at a time: yields what became of each lot.

    named: columns {"text": (...), "label": ..., "id": ...} that go before those of the import. progress: a function of
    (phase, done, total). stopped: an Event that ends it after a lot. vectors: those beside the texts, where no
    column holds them.
    """
    if vectors and not dataset.beside:
        raise formats.DataError(f"the data set {dataset.name} has no vectors beside its texts. Got {vectors.name}.")
    head = formats.peek(path, 0, name=name, reader=reader, encoding=encoding, limits=limits)
    guess = {"text": head.guess.text, "label": head.guess.label, "id": head.guess.id}
    kept = guess | {"features": dataset.beside_columns} | _kept(dataset)
    kept |= {key: None for key in ("label", "id") if kept[key] not in head.columns}
    if head.reader == "txt":
        kept["text"] = ("text",)
    if vectors:
        kept["features"] = ()
    elif dataset.beside and (missing := [each for each in kept["features"] if each not in head.columns]):
        raise formats.DataError(
            f"the data set {dataset.name} has vectors beside its texts: the file must have the column "
            f"{', '.join(missing)}, or vectors must come in a file of their own (--vectors)."
        )
    items = formats.read(
        path,
        _columns(dataset, {**kept, **(named or {})}),
        name=name,
        reader=reader,
        encoding=encoding,
        progress=progress and partial(progress, "reading"),
        known=dataset.label_words,
        limits=limits,
        vectors=vectors,
        width=dataset.beside,
    )
    skipped, total = items.skipped, len(items.ids)
    for first in range(0, max(1, total), CHUNK):
        if stopped and stopped.is_set():
            return
        yield append(dataset, _part(items, slice(first, first + CHUNK), {} if first else skipped))
        if progress:
            progress("items", min(first + CHUNK, total), total)


def _part(items: formats.Items, some: slice, skipped: formats.Skipped) -> formats.Items:
    """Some of the items."""
    return replace(
        items,
        ids=items.ids[some],
        texts=items.texts and items.texts[some],
        vectors=None if items.vectors is None else items.vectors[some],
        labels=items.labels[some],
        y=items.y[some],
        skipped=skipped,
    )


def _kept(dataset: Dataset) -> dict[str, Any]:
    """The columns that a data set was read from, nothing where it does not say."""
    return json.loads(dataset.record["columns"] or "{}")


def _columns(dataset: Dataset, named: Mapping[str, Any]) -> formats.Columns:
    """Columns as readers take them."""
    if dataset.record["kind"] == "text":
        return formats.Columns(tuple(named["text"]), named["label"], named["id"], tuple(named["features"]))
    return formats.Columns((), named["label"], named["id"], tuple(dataset.feature_names))


# From a feed


def append_lines(
    dataset: Dataset,
    file: BinaryIO,
    named: Mapping[str, Any] | None = None,
    *,
    reader: str | None = None,
    encoding: str = "utf-8",
    stopped: Event | None = None,
    limits: Limits = LIMITS,
) -> Iterator[Taken]:
    """Append the lines of an open binary file as they come: yields what became of each batch.

    Lines are JSON objects where the first one begins so (or reader is jsonl), else texts (or reader is txt). named: as
    in `append_file`. stopped: an Event that ends the feed; what was read before it is appended.
    """
    if reader not in (None, "jsonl", "txt"):
        raise formats.DataError(f"a feed must be read as jsonl or txt. Got {reader}.")
    as_json = None if reader is None else reader == "jsonl"
    columns = None
    for batch in batches(feed_lines(file, "the feed", encoding, limits), stopped or Event()):
        lines = [(number, line) for number, line in batch if line.strip(" \t\r\n") or not line]
        if columns is None and (first := next((line for _, line in lines if line), "")):
            as_json = first.lstrip(" \t")[:1] == "{" if as_json is None else as_json
            columns = _feed_columns(dataset, named or {}, as_json)
        if lines:
            read = formats.read_lines(
                lines, columns or formats.Columns(features=()), dataset.label_words, bool(as_json), dataset.beside
            )
            yield append(dataset, read)


def _feed_columns(dataset: Dataset, named: Mapping[str, Any], as_json: bool) -> formats.Columns:
    kind = dataset.record["kind"]
    if not as_json:
        if kind != "text":
            raise formats.DataError(
                f"the data set {dataset.name} holds {kind}: its feed must be lines of JSON objects."
            )
        if dataset.beside:
            raise formats.DataError(
                f"the data set {dataset.name} has vectors beside its texts: its feed must be lines of JSON objects."
            )
        return formats.Columns(("text",), features=())
    kept = {"text": (), "label": None, "id": None, "features": dataset.beside_columns, **_kept(dataset), **named}
    if kind == "text" and not kept["text"]:
        raise formats.DataError(f"the data set {dataset.name} does not say which column was its text: name it.")
    return _columns(dataset, kept)


def batches(feed: Iterable[FeedLine], stopped: Event) -> Iterator[list[FeedLine]]:
    """Lists of the lines (number, text) of a feed: what came until it paused, or in half a second, or a thousand."""
    lines: Queue[FeedLine | None] = Queue(AHEAD)
    batch: list[FeedLine] = []
    failures: list[Exception] = []
    line: FeedLine | tuple[()] | None = ()
    begun, weight = 0.0, 0
    Thread(target=_read, args=(feed, lines, stopped, failures), daemon=True).start()
    while line is not None:
        try:
            line = lines.get(timeout=PAUSE)
        except Empty:
            line = None if stopped.is_set() else ()
        if line:
            begun = begun if batch else time.monotonic()
            batch.append(line)
            weight += len(line[1])
        if batch and (not line or len(batch) == BATCH or weight > WEIGHT or time.monotonic() > begun + LONGEST):
            yield batch
            batch, weight = [], 0
    if failures:
        raise failures[0]


def _read(feed: Iterable[FeedLine], lines: Queue[FeedLine | None], stopped: Event, failures: list[Exception]) -> None:
    """Put the lines of a feed into a queue, and None at its end, also where it fails."""
    try:
        for line in feed:
            lines.put(line)
            if stopped.is_set():
                return
    except Exception as error:  # for the thread that appends to say
        failures.append(error)
    finally:
        lines.put(None)
