"""Items appended to a data set that is there: from a file, or line by line as a feed brings them.

The vocabulary, its document frequencies, the scaling and the projection stay those of the import, for the rows of old
items must not move: words that are new share some columns. A label word means what it means in the data set, or
nothing.
"""

from __future__ import annotations

import json
import time
from collections import Counter
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
from . import reading, row_files
from .features import duplicates, numbers
from .features.vectorizer import Vocabulary, WordSets, count
from .reading.sources import LIMITS, FileOrPath, Layout, Limits, PhaseProgress, feed_lines

if TYPE_CHECKING:
    from ..store import Row
    from .stored import Dataset, DatasetRecord

FeedLine: TypeAlias = tuple[int, str]  # its number and its text

CHUNK = 10_000  # items of a file or lines of a feed: others who write wait while so many are stored
WEIGHT, AHEAD = 2**22, 64  # characters of these lines, and lines read while some are stored
BATCH = 1000  # items of a feed that are told of together, at least
PAUSE, LONGEST = 0.1, 0.4  # seconds without a line, and since the first, after which a feed's lines are appended


@dataclass
class Taken:
    """What became of items: appended, exact duplicates, those with an id that was taken, and those that could not be
    read, {reason: (count, first line)}; near-duplicates, which were appended or left out; the words of the appended,
    each once a text, and how many of them the vocabulary lacks; exact duplicates with a label, in a data set that lacks
    some: the labels of stored items stay, for sessions and comparisons began with them."""

    appended: int = 0
    duplicates: int = 0
    renamed: int = 0
    skipped: reading.Skipped = field(default_factory=dict)
    near_duplicates: int = 0
    words: int = field(default=0, compare=False)
    new_words: int = field(default=0, compare=False)
    unused_labels: int = 0

    def __add__(self, more: Taken) -> Taken:
        skipped = dict(more.skipped)
        for reason, (number, line) in self.skipped.items():
            skipped[reason] = number + skipped.get(reason, (0, 0))[0], line
        return Taken(
            self.appended + more.appended, self.duplicates + more.duplicates, self.renamed + more.renamed, skipped,
            self.near_duplicates + more.near_duplicates, self.words + more.words, self.new_words + more.new_words,
            self.unused_labels + more.unused_labels,
        )  # fmt: skip

    def __str__(self) -> str:
        parts = [f"appended {self.appended:,}", f"dropped {reading.plural(self.duplicates, 'exact duplicate')}"]
        if self.unused_labels:
            parts[-1] += (
                f" ({self.unused_labels:,} with a label, which was not taken: stored items keep theirs, or none)"
            )
        if self.renamed:
            parts.append(f"made {reading.plural(self.renamed, 'id')} unique")
        if self.skipped:
            unread = reading.plural(sum(number for number, _ in self.skipped.values()), "line")
            parts.append(f"{unread} could not be read ({reading.reasons(self.skipped)})")
        return ", ".join(parts)


def report(dataset: Dataset, taken: Taken) -> str:
    """What became of items, the near-duplicates among them, and how new their words are beside those of the import, in
    sentences."""
    sentences = [f"{taken}."]
    if taken.near_duplicates:
        sentences.append(duplicates.sentence(taken.near_duplicates, dataset.record["near_duplicates"]))
    if taken.words:
        sentences.append(novelty(taken.words, taken.new_words, dataset.store.batches(dataset.id)))
    return " ".join(sentences)


def novelty(words: int, new_words: int, stored: Sequence[Row]) -> str:
    """How many of some words are new, beside those of the import, in a sentence; stored: the batches of a data set."""
    first = imported(stored)
    before = "" if first is None else f"; {first:.1%} at the import"
    return f"{new_words / words:.1%} of the words are new to the vocabulary{before}."


def imported(stored: Sequence[Row]) -> float | None:
    """The share of words at the import that too few other texts held, which is to be expected of later texts that are
    like them; None where it is not known."""
    first = stored[0] if stored and not stored[0]["first"] else None
    return first["new_words"] / first["words"] if first and first["words"] else None


def append(dataset: Dataset, items: reading.Items, joined: int = 0) -> Taken:
    """Append items to a data set, visible to everybody at once, all or none; what became of them.

    joined: they are one batch with those appended before, unless that has so many items.
    """
    if not items.ids:
        return Taken(skipped=items.skipped)
    store, (made, held) = dataset.store, _rows(dataset, items)
    texts: Sequence[str | None] = items.texts or [None] * len(items.ids)
    _digest_older(dataset)
    with store.transaction():
        dataset.refresh()
        first = dataset.record["items"]
        fresh = np.array(store.put_contents(dataset.id, _digests(items.texts, made, range(len(texts)))))
        kind, near = dataset.record["near_duplicates"], np.zeros(fresh.size, bool)
        if held and duplicates.compared(kind, dataset.record["items"]):
            near = _near_duplicates(dataset, held, fresh)
        once = kind == duplicates.ONCE
        kept = np.flatnonzero(fresh & ~near) if once else np.flatnonzero(fresh)
        written = row_files.extend(rows.take(made, kept), dataset.folder, first)
        row_files.write_behind(dataset.folder / "y.npy", items.y[kept], first)
        if (own := dataset.numbers.values) is not None:
            some: Any = items.vectors
            written |= {"numbers": numbers.flat(some[kept], dataset.rows)}
            row_files.write_behind(dataset.folder / numbers.NAME, written["numbers"], own.size)
        before = dataset.checksums
        checksums = {"checksums": json.dumps(before | row_files.checksums(written | {"y": items.y[kept]}, before))}
        new = ((items.ids[k], texts[k], items.labels[k], int(items.y[k])) for k in kept.tolist())
        renamed, total = store.append_items(dataset.id, first, new), first + kept.size
        if items.details:
            store.put_details(dataset.id, first, [items.details[k] for k in kept.tolist()])
        grown = {"items": total, "digested": total} | _counts(dataset.record, items.y[kept])
        store.update_dataset(dataset.id, grown | checksums)
        words = (int(held.counts()[kept].sum()), int(held.new()[kept].sum())) if held else (0, 0)
        if kept.size:
            store.put_batch(dataset.id, first, kept.size, words, joined)
    dataset.refresh()
    return Taken(
        kept.size, int((~fresh).sum()), renamed, items.skipped, int(near.sum()), *words,
        0 if dataset.labelled else int(np.count_nonzero(items.y[~fresh])),
    )  # fmt: skip


def _near_duplicates(dataset: Dataset, held: WordSets, fresh: np.ndarray) -> np.ndarray:
    """Which of the fresh among later texts are near-duplicates of an earlier one; these are counted with it, and where
    they are left out exact duplicates, too. The others are stored, to be found."""
    store, once = dataset.store, dataset.record["near_duplicates"] == duplicates.ONCE
    position, near = dataset.record["items"], np.zeros(fresh.size, bool)
    new = dict[int, tuple[np.ndarray, duplicates.Text]]()

    def words(position: int) -> np.ndarray:
        if position in new:
            return new[position][0]
        vocabulary = cast(Vocabulary, dataset.vocabulary)
        return vocabulary.words(count([dataset.item(position)["text"]], vocabulary.settings)).numbers

    rows = store.firsts(dataset.id, {word for k in range(fresh.size) for word in duplicates.beginning(held.of(k))})
    firsts = duplicates.Firsts(words, duplicates.held(rows))
    copies = Counter[int]()
    for k, (own, text) in enumerate(duplicates.texts_of(held)):
        if not (fresh[k] or once):
            continue
        found = firsts.find(own, text)
        if found is not None:
            copies[found] += 1
            near[k] = fresh[k]
        elif fresh[k]:
            firsts.add(position, own, text)
            new[position] = own, text
        position += bool(fresh[k] and not (once and near[k]))
    store.put_firsts(dataset.id, (duplicates.entry(place, *text) for place, text in new.items()))
    store.add_copies(dataset.id, copies)
    return near


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


def _rows(dataset: Dataset, items: reading.Items) -> tuple[rows.Rows, WordSets | None]:
    """Items as rows of the kind that the data set has, through its vocabulary and its scaling, and their words."""
    kind, columns = dataset.record["kind"], dataset.named
    if (items.texts is None) != (kind == "vectors"):
        raise reading.DataError(f"the data set {dataset.name} holds {kind}: only such can be appended.")
    if items.texts is not None:
        return dataset.read(items.texts, cast("np.ndarray | None", items.vectors))
    matrix: Any = items.vectors
    dense = isinstance(matrix, np.ndarray)
    if not dense and matrix.shape[1] < columns:  # the last columns are zero
        matrix.resize(matrix.shape[0], columns)
    if matrix.shape[1] != columns:
        raise reading.DataError(f"the data set {dataset.name} has {columns:,} features. Got {matrix.shape[1]:,}.")
    if isinstance(dataset.rows, rows.SparseRows):  # in the other kind, sums may differ in the last bit
        matrix = sparse.csr_array(matrix)
    elif not dense:
        matrix = matrix.toarray()
    return dataset.transform(matrix), None


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
    vectors: reading.Vectors | None = None,
    layout: Layout = Layout(),
) -> Iterator[Taken]:
    """Append the items of a file in any format, some thousands at a time: yields what became of each lot.

    named: columns {"text": (...), "label": ..., "id": ...} that go before those of the import. progress: a function of
    (phase, done, total). stopped: an Event that ends it after a lot. vectors: those beside the texts, where no
    column holds them.
    """
    if vectors and not dataset.beside:
        raise reading.DataError(f"the data set {dataset.name} has no vectors beside its texts. Got {vectors.name}.")
    head = reading.peek(path, 0, name=name, reader=reader, encoding=encoding, limits=limits, layout=layout)
    for doubt in head.doubts:
        raise reading.DataError(doubt.question)
    guess = {"text": head.guess.text, "label": head.guess.label, "id": head.guess.id}
    kept = guess | {"features": dataset.beside_columns} | dataset.columns
    kept["details"] = [each if each in head.columns else None for each in dataset.details]
    kept |= {key: None for key in ("label", "id") if kept[key] not in head.columns}
    if head.reader == "txt":
        kept["text"] = ("text",)
    if vectors:
        kept["features"] = ()
    elif dataset.beside and (missing := [each for each in kept["features"] if each not in head.columns]):
        raise reading.DataError(
            f"the data set {dataset.name} has vectors beside its texts: the file must have the column "
            f"{', '.join(missing)}, or vectors must come in a file of their own (--vectors)."
        )
    items = reading.read(
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
        layout=layout,
    )
    skipped, total = items.skipped, len(items.ids)
    for first in range(0, max(1, total), CHUNK):
        if stopped and stopped.is_set():
            return
        some = _part(items, slice(first, first + CHUNK), {} if first else skipped)
        yield append(dataset, some, total if first else 0)
        if progress:
            progress("items", min(first + CHUNK, total), total)


def _part(items: reading.Items, some: slice, skipped: reading.Skipped) -> reading.Items:
    """Some of the items."""
    return replace(
        items,
        ids=items.ids[some],
        texts=items.texts and items.texts[some],
        vectors=None if items.vectors is None else items.vectors[some],
        labels=items.labels[some],
        y=items.y[some],
        skipped=skipped,
        details=items.details and items.details[some],
    )


def _columns(dataset: Dataset, named: Mapping[str, Any]) -> reading.Columns:
    """Columns as readers take them."""
    if dataset.record["kind"] == "text":
        text, features = tuple(named["text"]), tuple(named["features"])
    else:
        text, features = (), tuple(dataset.feature_names)
    return reading.Columns(
        text, named["label"], named["id"], features, details=tuple(named["details"]), missing=named.get("missing"),
        fills=named.get("fills", {}),
    )  # fmt: skip


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
        raise reading.DataError(f"a feed must be read as jsonl or txt. Got {reader}.")
    as_json = None if reader is None else reader == "jsonl"
    columns, joined = None, 0
    for batch in batches(feed_lines(file, "the feed", encoding, limits), stopped or Event()):
        lines = [(number, line) for number, line in batch if line.strip(" \t\r\n") or not line]
        if columns is None and (first := next((line for _, line in lines if line), "")):
            as_json = first.lstrip(" \t")[:1] == "{" if as_json is None else as_json
            columns = _feed_columns(dataset, named or {}, as_json)
        if lines:
            read = reading.read_lines(
                lines, columns or reading.Columns(features=()), dataset.label_words, bool(as_json), dataset.beside
            )
            yield append(dataset, read, joined)
            joined = BATCH


def _feed_columns(dataset: Dataset, named: Mapping[str, Any], as_json: bool) -> reading.Columns:
    kind = dataset.record["kind"]
    if not as_json:
        if kind != "text":
            raise reading.DataError(
                f"the data set {dataset.name} holds {kind}: its feed must be lines of JSON objects."
            )
        if dataset.beside:
            raise reading.DataError(
                f"the data set {dataset.name} has vectors beside its texts: its feed must be lines of JSON objects."
            )
        return reading.Columns(("text",), features=())
    kept = {"text": (), "label": None, "id": None, "features": dataset.beside_columns, "details": ()}
    kept |= {**dataset.columns, **named}
    if kind == "text" and not kept["text"]:
        raise reading.DataError(f"the data set {dataset.name} does not say which column was its text: name it.")
    return _columns(dataset, kept)


def batches(feed: Iterable[FeedLine], stopped: Event) -> Iterator[list[FeedLine]]:
    """Lists of the lines (number, text) of a feed: what came until it paused, or in half a second, or some
    thousands."""
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
        if batch and (not line or len(batch) == CHUNK or weight > WEIGHT or time.monotonic() > begun + LONGEST):
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
