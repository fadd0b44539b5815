"""Append items to a stored data set: from a file, from a feed of lines, or from a message broker.

The vocabulary, document frequencies, scaling and projection of the import are kept, as the rows of earlier items must
not change. New words share hash columns. A label word keeps its meaning in the data set; another one means "no label".
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from hashlib import blake2b
from queue import Empty, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, cast

import numpy as np

from ..kernel import rows
from . import reading, row_files
from .features import duplicates, numbers
from .features.vectorizer import Vocabulary, WordSets, count
from .reading import labels
from .reading.parsed import name_list
from .reading.preview import FirstItem, shown_items
from .reading.sources import LIMITS, SAMPLE_ROWS, FileOrPath, Limits, PhaseProgress, Progress, feed_lines

if TYPE_CHECKING:
    from pathlib import Path

    from ..store import Row
    from .stored import Dataset

FeedLine: TypeAlias = tuple[int, str]  # line number and content

CHUNK_ITEMS = 10_000  # stored in one transaction, during which other writers wait
BATCH_CHARACTERS, QUEUED_LINES = 2**22, 64  # of a feed: characters that complete a batch, lines to read ahead
FEED_BATCH_ITEMS = 1000  # once a recorded batch of a feed has this many items, a new one begins
PAUSE_SECONDS, MAX_WAIT_SECONDS = 0.1, 0.4  # a batch of a feed ends after this pause, or this long after its first line


@dataclass
class AppendCounts:
    """Counts of appended, dropped and skipped items.

    duplicates: exact duplicates, which are dropped. renamed: appended items whose id was in use. skipped: unreadable
    lines, {reason: (count, first line)}. near_duplicates: appended or left out, as the data set is configured. words:
    distinct words per appended text, summed over the texts. new_words: how many of these are outside the vocabulary.
    later_labels: stored items without a label for which an exact duplicate brought one. The new label is stored
    separately: the `y` of the item stays 0. unused_labels: labels of all other exact duplicates, if the data set is not
    fully labeled. unknown_words: cells of categories whose word did not occur in the import.
    """

    appended: int = 0
    duplicates: int = 0
    renamed: int = 0
    skipped: reading.Skipped = field(default_factory=dict)
    near_duplicates: int = 0
    words: int = field(default=0, compare=False)
    new_words: int = field(default=0, compare=False)
    unused_labels: int = 0
    unknown_words: int = 0
    later_labels: int = 0

    def __add__(self, more: AppendCounts) -> AppendCounts:
        skipped = dict(more.skipped)
        for reason, (number, line) in self.skipped.items():
            skipped[reason] = number + skipped.get(reason, (0, 0))[0], line
        names = (each.name for each in fields(self) if each.name != "skipped")
        return AppendCounts(skipped=skipped, **{name: getattr(self, name) + getattr(more, name) for name in names})

    def __str__(self) -> str:
        parts = [f"appended {self.appended:,}", f"dropped {reading.plural(self.duplicates, 'exact duplicate')}"]
        if self.unused_labels:
            parts[-1] += f" ({self.unused_labels:,} with a label, which was not taken: stored items keep theirs)"
        if self.later_labels:
            parts.append(f"took labels for {reading.plural(self.later_labels, 'item')} that had none")
        if self.renamed:
            parts.append(f"made {reading.plural(self.renamed, 'id')} unique")
        if self.unknown_words:
            words = reading.plural(self.unknown_words, "word")
            parts.append(f"{words} of categories that the import did not have (counted as none)")
        if self.skipped:
            unread = reading.plural(sum(number for number, _ in self.skipped.values()), "line")
            parts.append(f"{unread} could not be read ({reading.reasons(self.skipped)})")
        return ", ".join(parts)


def report(dataset: Dataset, counts: AppendCounts) -> str:
    """Report in sentences the counts of an append, its near-duplicates and its share of new words."""
    sentences = [f"{counts}."]
    if counts.near_duplicates:
        sentences.append(duplicates.sentence(counts.near_duplicates, dataset.record["near_duplicates"]))
    if counts.words:
        sentences.append(novelty(counts.words, counts.new_words, dataset.store.batches(dataset.id)))
    return " ".join(sentences)


def novelty(words: int, new_words: int, batches: Sequence[Row]) -> str:
    """Report the share of new words, and the share at the import, in a sentence. batches: as from `Store.batches`."""
    first = novelty_at_import(batches)
    before = "" if first is None else f"; {100 * first:.1f} % at the import"
    return f"{100 * new_words / words:.1f} % of the words are new to the vocabulary{before}."


def novelty_at_import(batches: Sequence[Row]) -> float | None:
    """Return the share of imported words that would be new if their text had been appended after the import; None if
    unknown. Appended texts of the same kind as the imported ones should have about this share of new words."""
    first = batches[0] if batches and not batches[0]["first"] else None
    return first["new_words"] / first["words"] if first and first["words"] else None


def append(dataset: Dataset, items: reading.Items, joined: int = 0) -> AppendCounts:
    """Append items to a data set in one transaction, without exact duplicates. Return the counts.

    joined: record the items as part of the previous batch if that batch is not the import and has fewer than this many
    items (0: always record a new batch).
    """
    if not items.ids:
        return AppendCounts(skipped=items.skipped, unknown_words=items.n_unknown)
    store, (table, word_sets) = dataset.store, _rows(dataset, items)
    texts: Sequence[str | None] = items.texts or [None] * len(items.ids)
    _digest_older(dataset)
    with store.transaction():
        dataset.refresh()
        first = dataset.record["items"]
        fresh = np.array(store.put_contents(dataset.id, _digests(items.texts, table, range(len(texts)))))
        kind, near = dataset.record["near_duplicates"], np.zeros(fresh.size, bool)
        if word_sets and duplicates.compared(kind, dataset.record["items"]):
            near = _near_duplicates(dataset, word_sets, fresh)
        places = np.flatnonzero(fresh & ~near) if kind == duplicates.ONCE else np.flatnonzero(fresh)
        written = row_files.extend(rows.take(table, places), dataset.folder, first)
        row_files.write_behind(dataset.folder / "y.npy", items.y[places], first)
        if (file_numbers := dataset.numbers.values) is not None:
            vectors: Any = items.vectors
            written |= {"numbers": numbers.flat(vectors[places], dataset.rows)}
            row_files.write_behind(dataset.folder / numbers.NAME, written["numbers"], file_numbers.size)
        before = dataset.checksums
        checksums = {"checksums": json.dumps(before | row_files.checksums(written | {"y": items.y[places]}, before))}
        new = ((items.ids[k], texts[k], items.labels[k], int(items.y[k])) for k in places.tolist())
        renamed, total = store.append_items(dataset.id, first, new), first + places.size
        if items.details:
            store.put_details(dataset.id, first, [items.details[k] for k in places.tolist()])
        sizes = {"items": total, "digested": total} | _class_counts(dataset.record, items.y[places])
        store.update_dataset(dataset.id, sizes | checksums)
        words = (int(word_sets.counts()[places].sum()), int(word_sets.new()[places].sum())) if word_sets else (0, 0)
        if places.size:
            store.put_batch(dataset.id, first, places.size, words, joined)
        again = [] if dataset.labelled else np.flatnonzero(~fresh & (items.y != 0)).tolist()
        later = store.put_later_labels(dataset.id, _later_labels(dataset, items, table, again))
    dataset.refresh()
    return AppendCounts(
        places.size, int((~fresh).sum()), renamed, items.skipped, int(near.sum()), *words,
        max(0, len(again) - later), items.n_unknown, later,
    )  # fmt: skip


def _later_labels(
    dataset: Dataset, items: reading.Items, table: rows.Rows, again: Sequence[int]
) -> dict[int, tuple[str, int]]:
    """Find labels for stored items without a label, {position: (label word, y)}.

    again: indices of labeled `items` that duplicate a stored item. Texts match by content, vectors by id and content.
    """
    if items.texts:
        by_text = {items.texts[k]: (items.labels[k], int(items.y[k])) for k in reversed(again)}
        return {item: by_text[text] for item, text in dataset.store.unlabelled(dataset.id, by_text).items()}
    places = dataset.positions([items.ids[k] for k in again])
    return {
        place: (items.labels[k], int(items.y[k]))
        for k in again
        if (place := places.get(items.ids[k])) is not None
        and not dataset.y[place]
        and rows.content(dataset.rows, place) == rows.content(table, k)
    }


def _near_duplicates(dataset: Dataset, word_sets: WordSets, fresh: np.ndarray) -> np.ndarray:
    """Find the fresh texts that are near-duplicates of an earlier text. Return a boolean mask over all texts.

    fresh: mask of the texts that are not exact duplicates. The stored number of copies of the earlier text grows by 1
    for each near-duplicate, and for each exact duplicate if the data set leaves out near-duplicates. All other fresh
    texts are stored, so that texts of later appends are compared with them.
    """
    store, once = dataset.store, dataset.record["near_duplicates"] == duplicates.ONCE
    position, near = dataset.record["items"], np.zeros(fresh.size, bool)
    new = dict[int, tuple[np.ndarray, duplicates.Text]]()

    def words(position: int) -> np.ndarray:
        if position in new:
            return new[position][0]
        vocabulary = cast(Vocabulary, dataset.vocabulary)
        return vocabulary.words(count([dataset.item(position)["text"]], vocabulary.settings)).numbers

    prefixes = {word for k in range(fresh.size) for word in duplicates.beginning(word_sets.of(k))}
    firsts = duplicates.Firsts(words, duplicates.from_rows(store.firsts(dataset.id, prefixes)))
    copies = Counter[int]()
    for k, (own, text) in enumerate(duplicates.texts_of(word_sets)):
        if not (fresh[k] or once):
            continue
        if (original := firsts.find(own, text)) is not None:
            copies[original] += 1
            near[k] = fresh[k]
        elif fresh[k]:
            firsts.add(position, own, text)
            new[position] = own, text
        position += bool(fresh[k] and not (once and near[k]))
    store.put_firsts(dataset.id, (duplicates.entry(place, *text) for place, text in new.items()))
    store.add_copies(dataset.id, copies)
    return near


def _digest_older(dataset: Dataset) -> None:
    """Compute and store missing digests of earlier items (on the first append: of all imported items)."""
    store = dataset.store
    while True:
        with store.transaction():
            dataset.refresh()
            first, items = dataset.record["digested"], dataset.record["items"]
            if first == items:
                return
            stop = min(first + 10 * CHUNK_ITEMS, items)  # each transaction rewrites much of the index
            texts = store.texts(dataset.id, first, stop) if dataset.record["kind"] == "text" else None
            store.put_contents(dataset.id, sorted(_digests(texts, dataset.rows, range(first, stop))))
            store.update_dataset(dataset.id, {"digested": stop})


def _digests(texts: Iterable[str] | None, table: rows.Rows, places: Iterable[int]) -> list[bytes]:
    """Compute the BLAKE2b digest of each text, or of the rows at `places` if there are no texts."""
    contents = (rows.content(table, i) for i in places) if texts is None else map(str.encode, texts)
    return [blake2b(each, digest_size=16).digest() for each in contents]


def _check_kind(dataset: Dataset, items: reading.Items) -> None:
    """Raise DataError if a data set of texts would get vectors, or vice versa."""
    kind = dataset.record["kind"]
    if (items.texts is None) != (kind == "vectors"):
        raise reading.DataError(f"the data set {dataset.name} holds {kind}: only such can be appended.")


def _rows(dataset: Dataset, items: reading.Items) -> tuple[rows.Rows, WordSets | None]:
    """Turn items into rows with the data set's vocabulary and scaling. Return the rows, and the word sets of texts."""
    from scipy import sparse

    _check_kind(dataset, items)
    columns = dataset.named
    if items.texts is not None:
        return dataset.read(items.texts, cast("np.ndarray | None", items.vectors))
    matrix: Any = items.vectors
    dense = isinstance(matrix, np.ndarray)
    if not dense and matrix.shape[1] < columns:  # a sparse file ends at its last column with a number
        matrix.resize(matrix.shape[0], columns)
    if matrix.shape[1] != columns:
        raise reading.DataError(f"the data set {dataset.name} has {columns:,} features. Got {matrix.shape[1]:,}.")
    if isinstance(dataset.rows, rows.SparseRows):  # sums over dense rows may differ in the last bit
        matrix = sparse.csr_array(matrix)
    elif not dense:
        matrix = matrix.toarray()
    return dataset.transform(matrix), None


def _class_counts(record: Row, y: np.ndarray) -> dict[str, Any]:
    """Add the labels `y` to the class counts of a data set. Return the changed fields of its record."""
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
    columns: Mapping[str, Any] | None = None,
    *,
    progress: PhaseProgress | None = None,
    stopped: Event | None = None,
    vectors: reading.Vectors | None = None,
    **options: Any,
) -> Iterator[AppendCounts]:
    """Append the items of a file in any format, CHUNK_ITEMS at a time. Yield the counts of each chunk.

    columns: {"text": (...), "label": ..., "id": ...}, which override those of the import. stopped: an event that ends
    the append after the current chunk. vectors: of the texts, from a separate file. options: fields of `Opening`.
    """
    tick = progress and partial(progress, "reading")
    items = _read_file(dataset, path, columns, vectors, progress=tick, folder=dataset.folder, **options)
    total = len(items.ids)
    for first in range(0, max(1, total), CHUNK_ITEMS):
        if stopped and stopped.is_set():
            return
        chunk = items.take(np.arange(first, min(first + CHUNK_ITEMS, total)))
        if first:
            chunk = replace(chunk, skipped={}, n_unknown=0)
        yield append(dataset, chunk, total if first else 0)
        if progress:
            progress("items", min(first + CHUNK_ITEMS, total), total)


def first_items(
    dataset: Dataset, path: FileOrPath, vectors: reading.Vectors | None = None, **options: Any
) -> tuple[list[FirstItem], dict[str, Any]]:
    """Preview an append: return the first items of a file, and a description of how it is read. Nothing is stored.

    vectors: as in `append_file`. options: fields of `Opening`.
    """
    items = _read_file(dataset, path, None, vectors, limit=SAMPLE_ROWS, **options)
    return shown_items(items, [*(dataset.record["classes"] or ())]), items.description


def _read_file(
    dataset: Dataset,
    path: FileOrPath,
    columns: Mapping[str, Any] | None,
    vectors: reading.Vectors | None,
    *,
    progress: Progress | None = None,
    limit: int | None = None,
    folder: Path | None = None,
    **options: Any,
) -> reading.Items:
    """Read the items of a file with the column roles of a data set, overridden by `columns`. Raise DataError if the
    file does not fit the data set."""
    if vectors and not dataset.vector_width:
        raise reading.DataError(f"the texts of the data set {dataset.name} have no vectors. Got {vectors.name}.")
    head = reading.peek(path, 0, SAMPLE_ROWS, **options)
    for doubt in head.doubts:
        raise reading.DataError(doubt.question)
    guess = {"text": head.guess.text, "label": head.guess.label, "id": head.guess.id}
    wanted = guess | {"features": dataset.vector_columns} | dataset.columns
    wanted["details"] = [each if each in head.columns else None for each in dataset.details]
    wanted |= {key: None for key in ("label", "id") if wanted[key] not in head.columns}
    if head.reader == "txt":
        wanted["text"] = ("text",)
    if vectors:
        wanted["features"] = ()
    elif dataset.vector_width and (missing := [each for each in wanted["features"] if each not in head.columns]):
        raise reading.DataError(
            f"the texts of the data set {dataset.name} have vectors: the file must have the column "
            f"{', '.join(missing)}, or vectors must come in a file of their own (--vectors)."
        )
    items = reading.read(
        path, _columns(dataset, {**wanted, **(columns or {})}), progress=progress, label_values=dataset.label_words,
        vectors=vectors, width=dataset.vector_width, limit=limit, folder=folder, **options,
    )  # fmt: skip
    _check_kind(dataset, items)
    if not labels.has_rule(items.columns, dataset.label_words):
        _check_label_words(dataset, items.labels)
    return items


def _check_label_words(dataset: Dataset, words: Sequence[str]) -> None:
    """Raise DataError if a file has label words that its data set does not have, except words for a missing label."""
    own = dataset.label_words
    meanings = own | labels.spelled_otherwise({*words}, own)
    counts = Counter(word for word in words if word and word not in meanings)
    for word in labels.gaps_among({*counts, *own}):
        del counts[word]
    if counts:
        raise reading.DataError(
            f"the file has label words that the data set {dataset.name} does not have: {reading.counted(counts)}. The "
            f"data set has {name_list(sorted(filter(None, own)), 10) or 'none'}. Append without labels: --label ''."
        )


def _columns(dataset: Dataset, wanted: Mapping[str, Any]) -> reading.Columns:
    """Convert column names, in the form stored with a data set, to `Columns`."""
    if dataset.record["kind"] == "text":
        text, features = tuple(wanted["text"]), tuple(wanted["features"])
    else:
        text, features = (), tuple(wanted["features"] if dataset.codings else dataset.feature_names)
    rule = wanted if wanted["label"] else {}
    return reading.Columns(
        text, wanted["label"] or None, wanted["id"] or None, features, details=tuple(wanted["details"]),
        missing=wanted.get("missing"), fills=wanted.get("fills", {}), codings=dict(dataset.codings),
        positive=tuple(rule.get("positive", ())), contains=rule.get("contains", False),
        headings=rule.get("headings", False),
    )  # fmt: skip


# From a feed


def append_lines(
    dataset: Dataset,
    file: BinaryIO,
    columns: Mapping[str, Any] | None = None,
    *,
    reader: str | None = None,
    encoding: str = "utf-8",
    stopped: Event | None = None,
    limits: Limits = LIMITS,
) -> Iterator[AppendCounts]:
    """Append the lines of an open binary file as they arrive. Yield the counts of each batch.

    columns: as in `append_file`. reader: jsonl if each line is a JSON object, txt if each line is a text (None: decide
    by the first line). stopped: an event that ends the feed, after the lines that were already read are appended.
    """
    if reader not in (None, "jsonl", "txt"):
        raise reading.DataError(f"a feed must be read as jsonl or txt. Got {reader}.")
    as_json = None if reader is None else reader == "jsonl"
    feed_columns, joined = None, 0
    for batch in batches(feed_lines(file, "the feed", encoding, limits), stopped or Event()):
        lines = [(number, line) for number, line in batch if line.strip(" \t\r\n") or not line]
        if feed_columns is None and (first := next((line for _, line in lines if line), "")):
            as_json = first.lstrip(" \t")[:1] == "{" if as_json is None else as_json
            feed_columns = _feed_columns(dataset, columns or {}, as_json)
        if lines:
            wanted = feed_columns or reading.Columns(features=())
            items = reading.read_lines(lines, wanted, dataset.label_words, bool(as_json), dataset.vector_width)
            yield append(dataset, items, joined)
            joined = FEED_BATCH_ITEMS


def _feed_columns(dataset: Dataset, columns: Mapping[str, Any], as_json: bool) -> reading.Columns:
    kind = dataset.record["kind"]
    if not as_json:
        if kind != "text" or dataset.vector_width:
            holds = "texts with vectors" if kind == "text" else kind
            raise reading.DataError(
                f"the data set {dataset.name} holds {holds}: its feed must be lines of JSON objects."
            )
        return reading.Columns(("text",), features=())
    wanted = {"text": (), "label": None, "id": None, "features": dataset.vector_columns, "details": ()}
    wanted |= {**dataset.columns, **columns}
    if kind == "text" and not wanted["text"]:
        raise reading.DataError(f"the data set {dataset.name} does not say which column was its text: name it.")
    return _columns(dataset, wanted)


def batches(feed: Iterable[FeedLine], stopped: Event) -> Iterator[list[FeedLine]]:
    """Yield the lines of a feed in batches. A batch ends after a pause, after MAX_WAIT_SECONDS, or when it is full."""
    lines: Queue[FeedLine | None] = Queue(QUEUED_LINES)
    batch: list[FeedLine] = []
    failures: list[Exception] = []
    line: FeedLine | tuple[()] | None = ()
    begin_time, characters = 0.0, 0
    Thread(target=_read, args=(feed, lines, stopped, failures), daemon=True).start()
    while line is not None:
        try:
            line = lines.get(timeout=PAUSE_SECONDS)
        except Empty:
            line = None if stopped.is_set() else ()
        if line:
            begin_time = begin_time if batch else time.monotonic()
            batch.append(line)
            characters += len(line[1])
        is_large = len(batch) == CHUNK_ITEMS or characters > BATCH_CHARACTERS
        if batch and (not line or is_large or time.monotonic() > begin_time + MAX_WAIT_SECONDS):
            yield batch
            batch, characters = [], 0
    if failures:
        raise failures[0]


def _read(feed: Iterable[FeedLine], lines: Queue[FeedLine | None], stopped: Event, failures: list[Exception]) -> None:
    """Put the lines of a feed into a queue, then None, even if reading fails. An error is added to `failures`."""
    try:
        for line in feed:
            lines.put(line)
            if stopped.is_set():
                return
    except Exception as error:  # raised again by the thread that appends
        failures.append(error)
    finally:
        lines.put(None)
