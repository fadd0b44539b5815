"""Open a stored data set: its rows are memory-mapped, and items may be appended meanwhile."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..kernel import rows
from ..kernel.rows import Matrix, Rows
from . import reading, row_files
from .features import encoders, latent, leaves, numbers, scaling, text_vectors, vectorizer
from .features.table import made_rows
from .reading import details
from .reading.labels import matching

if TYPE_CHECKING:
    from ..store import Row, Store


BLOCK_ITEMS = 2_000  # read from the database at a time
QUESTION_ITEMS = 10_000  # most items whose cells are searched for the names of questions
LENGTH_CHECK_SECONDS = 0.001  # shortest time between two checks of the length of mapped files


def stored_arrays(
    table: Rows,
    y: np.ndarray,
    projection: latent.Projection | None,
    file_numbers: np.ndarray | None,
    encoder: encoders.TextEncoder | None,
) -> dict[str, np.ndarray]:
    """Return the arrays to store for a data set, {file name: array}. file_numbers: the unscaled numbers of vectors."""
    optional = {"projection": projection.numbers if projection else None, "numbers": file_numbers}
    arrays = rows.arrays(table) | {"y": y.astype(np.int8, copy=False)}
    arrays |= {name: array for name, array in optional.items() if array is not None}
    return arrays | (encoder.arrays if encoder else {})


def mapped(folder: Path | str, items: int) -> tuple[Rows, np.ndarray]:
    """Memory-map the first `items` rows in a folder, and their labels (-1, 0 and +1, or 0..K)."""
    return row_files.load(folder, items), row_files.mapped(Path(folder) / "y.npy", np.int8, items)


def _projection(folder: Path, table: Rows, scaled: scaling.Scaling) -> latent.Projection | None:
    """Memory-map the projection that made the latent part of stored rows. Return None if they have no latent part."""
    if not isinstance(table, rows.MixedRows) or "fourier" in scaled or table.width == _vector_width(scaled):
        return None
    width = table.width - _vector_width(scaled)
    shape = table.columns - table.width + 1, width
    return latent.Projection(
        row_files.mapped(folder / "projection.npy", np.float32, shape[0] * shape[1]).reshape(shape)
    )


def _vector_width(scaled: scaling.Scaling) -> int:
    """Return the width of the text vectors, 0 if there are none."""
    return len(scaled.get("beside", {}).get("means", ()))


def named_features(record: Mapping[str, Any]) -> int:
    """Return the number of features of a data set, without its waves and leaves."""
    return record["features"] - scaling.unnamed(json.loads(record["scaling"]))


def fingerprint(rows: Rows, y: np.ndarray, classes: Sequence[str]) -> str:
    """Compute a digest of rows, labels and class names: the first 32 hexadecimal digits of their SHA-256."""
    digest = hashlib.sha256(json.dumps([type(rows).__name__, rows.columns, classes]).encode())
    for part in (*rows, y):
        if isinstance(part, np.ndarray):
            digest.update(part.data)
    return digest.hexdigest()[:32]


def labelled(record: Row) -> bool:
    """Tell whether every item has a label."""
    counts = record["classes"] or {"positive": record["positives"], "negative": record["negatives"]}
    return sum(counts.values()) == record["items"]


def columns_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the column roles that a data set was imported with, as decoded from JSON; {} if unknown."""
    return json.loads(record["columns"] or "{}")


class Dataset:
    """A stored data set: memory-mapped rows and labels; vocabulary and items are read from the database on demand.

    items: number of items to open, from the first on (None: all).
    """

    def __init__(self, store: Store, key: int | str, items: int | None = None) -> None:
        self.store, self.record = store, store.dataset(key)
        self.id, self.name = self.record["id"], self.record["name"]
        self.folder = store.rows_folder(self.record["folder"])
        self._items_with_terms: set[int] = set()
        self._new_terms: dict[int, str] = {}
        self._map(self.record["items"] if items is None else items)

    def _map(self, items: int) -> None:
        with self._readable():
            self._rows, self._y = mapped(self.folder, items)
            self.projection = _projection(self.folder, self._rows, self.scaling)
            source = self.scaling.get("beside", {}).get("embedding")
            self.encoder = encoders.stored(self.folder, source) if source else None
            has_numbers = "numbers" in json.loads(self.record["checksums"] or "{}")
            self._numbers = numbers.mapped(self.folder, self._rows, len(self.feature_names)) if has_numbers else None
        self._extents = [row_files.extent(array) for array in self._arrays().values()]
        self._checked_at = -inf

    def _arrays(self) -> dict[str, np.ndarray]:
        return stored_arrays(self._rows, self._y, self.projection, self._numbers, self.encoder)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise reading.DataError(
                f"the rows of the data set {self.name} cannot be read from {self.folder}: {error}."
            ) from None

    @property
    def rows(self) -> Rows:
        """The rows. Raises DataError if a file was truncated since it was mapped: reading beyond its end would kill the
        process. This is checked at most once per LENGTH_CHECK_SECONDS, and not while a compiled loop reads."""
        self._check_lengths()
        return self._rows

    @property
    def y(self) -> np.ndarray:
        """The label of each row. Raises DataError like `rows`."""
        self._check_lengths()
        return self._y

    def _check_lengths(self) -> None:
        if monotonic() > self._checked_at + LENGTH_CHECK_SECONDS:
            with self._readable():
                for path, size in self._extents:
                    row_files.check_length(path, size)
            self._checked_at = monotonic()

    def refresh(self) -> None:
        """Memory-map the data set again, with the items that were appended meanwhile, even by another process."""
        self.record = self.store.dataset(self.id)
        self._map(self.record["items"])

    @property
    def checksums(self) -> dict[str, int]:
        """The stored checksums of the files, {name: CRC-32}."""
        return json.loads(self.record["checksums"] or "{}")

    @property
    def files(self) -> dict[Path, int]:
        """The files, {path: number of bytes that belong to the opened items}. Further bytes were appended later."""
        kind = self.folder / row_files.KIND_FILE
        return {kind: kind.stat().st_size} | {Path(path): size for path, size in self._extents}

    def check(self) -> None:
        """Verify the checksums of all files, and the digests of the rows in the database. Raise DataError if anything
        has changed since it was written."""
        with self._readable():
            row_files.check_columns(self.rows)
            checksums = row_files.checksums(self._arrays())
            stored = self.checksums
            if wrong := [name for name in checksums if checksums[name] != stored.get(name)]:
                raise ValueError(f"{wrong[0]}.npy is damaged: its checksum does not match")
            if self._rows.columns != self.record["features"]:
                raise ValueError(f"they must have {self.record['features']:,} columns. Got {self._rows.columns:,}")
        if tables := self.store.damaged_tables(self.id):
            raise reading.DataError(
                f"the data set {self.name} is damaged: {', '.join(tables)} changed since they were stored."
            )

    @property
    def fingerprint(self) -> str:
        """A digest of rows, labels and class names, which does not depend on the name of the data set."""
        return fingerprint(self.rows, self.y, self.classes)

    @property
    def labelled(self) -> bool:
        """Whether every item has a label, so that metrics are exact."""
        return labelled(self.record)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of classes 1..K, () if labels are positive and negative."""
        return tuple(self.record["classes"] or ())

    @cached_property
    def vocabulary(self) -> vectorizer.Vocabulary | None:
        """The vocabulary of texts, None for vectors."""
        documents, settings = self.record["documents"], self.record["vectorizer"]
        if documents is None or settings is None:
            return None
        terms, frequencies = self.store.vocabulary(self.id)
        return vectorizer.Vocabulary(terms, np.array(frequencies, dtype=np.int64), documents, json.loads(settings))

    def new_terms(self, items: Iterable[int]) -> dict[int, str]:
        """Return {hash column: term} for the terms outside the vocabulary in `items` or the items of earlier calls."""
        unread = [item for item in items if item not in self._items_with_terms]
        if unread and self.vocabulary and self.vocabulary.shared:
            for row in self.store.items(self.id, unread, texts=True).values():
                self._new_terms |= self.vocabulary.new_terms(row["text"])
            self._items_with_terms.update(unread)
        return self._new_terms

    @property
    def latent(self) -> int:
        """The number of unnamed columns, which come last: latent part and text vectors, or leaves and waves."""
        width = self._rows.width if isinstance(self._rows, rows.MixedRows) else 0
        return width + leaves.COLUMNS * ("leaves" in self.scaling)

    @property
    def vector_width(self) -> int:
        """The width of the text vectors that a file to append must have; 0 if it needs none."""
        return 0 if self.encoder else _vector_width(self.scaling)

    @property
    def vector_columns(self) -> tuple[str, ...]:
        """The columns of a file to append that hold text vectors; () if it needs none."""
        return tuple(self.columns.get("features", [reading.VECTORS])) if self.vector_width else ()

    @property
    def columns(self) -> dict[str, Any]:
        """The column roles that the data set was imported with; {} if unknown."""
        return columns_of(self.record)

    @property
    def codings(self) -> reading.Codings:
        """How the words of the file are coded as numbers, {column: coding}; {} for a table of plain numbers."""
        return self.columns.get("codings", {})

    @property
    def details(self) -> tuple[str, ...]:
        """The names of the further columns that are stored with the items."""
        return tuple(self.columns.get("details", ()))

    @property
    def shown_columns(self) -> tuple[str, ...]:
        """The columns that are shown with an item unless a session chooses others."""
        return tuple(self.columns.get("shown", ()))

    @property
    def has_titles(self) -> bool:
        """Whether the texts begin with a title, from a column of its own."""
        text = self.columns.get("text", ())
        return len(text) > 1 and details.is_title(text[0])

    @property
    def named(self) -> int:
        """The number of named columns, which come first."""
        return self._rows.columns - self.latent

    @cached_property
    def label_words(self) -> dict[str, int]:
        """The meaning of each label word: {word: y}."""
        return self.store.label_words(self.id)

    @cached_property
    def feature_names(self) -> list[str]:
        """The names of the features of vectors."""
        return json.loads(self.record["feature_names"] or "[]")

    @property
    def numbers(self) -> numbers.Numbers:
        """The unscaled numbers of the vectors, as in the file."""
        columns = tuple(self.columns["features"]) if self.codings else ()
        return numbers.Numbers(self._numbers, self.rows, self.feature_names, columns, self.codings)

    @cached_property
    def scaling(self) -> scaling.Scaling:
        """The stored scaling, which turns vectors or tf-idf rows into rows."""
        return json.loads(self.record["scaling"])

    def item(self, position: int) -> dict[str, Any]:
        """Return the id, text, label and y of an item."""
        return self.store.item(self.id, position)

    def positions(self, ids: Collection[str]) -> dict[str, int]:
        """Return positions by id. Unknown ids are omitted."""
        return self.store.positions(self.id, ids)

    def contents(self, first: int, stop: int) -> Iterator[tuple[str, str | None, list[str]]]:
        """Yield the id, the text and the kept cells of the items `first` to `stop` - 1, in order."""
        for start in range(first, stop, BLOCK_ITEMS):
            positions = range(start, min(start + BLOCK_ITEMS, stop))
            items = self.store.items(self.id, positions, texts=True)
            cells = self.store.details(self.id, positions) if self.details else {}
            for position in positions:
                yield items[position]["id"], items[position]["text"], cells.get(position, [])

    def question_names(self) -> list[str]:
        """Guess the names of yes/no questions that the file answers, from up to QUESTION_ITEMS evenly spaced items."""
        places = range(0, len(self.y), len(self.y) // QUESTION_ITEMS + 1)
        details, label = self.store.details(self.id, places), self.columns.get("label")
        columns = {
            name: tuple(details[place][at] if place in details else "" for place in places)
            for at, name in enumerate(self.details)
            if name
        }
        if label:
            items = self.store.items(self.id, [*places])
            columns[label] = tuple(items[place]["label"] for place in places if self.y[place])
        return reading.question_names(columns, label, self.columns.get("contains", False))

    def labels_of(self, names: Collection[str], gaps: bool = False) -> dict[str, np.ndarray]:
        """Return the labels of all items for yes/no questions, {name of the question: array of +1 and -1}. They come
        from the further column with this name, in any case; without one, an item is +1 if the name is among the labels
        in its label cell. Questions that the file does not answer for every item are left out or, with `gaps`, included
        with 0 for the items without an answer."""
        answers, label = dict[str, np.ndarray](), self.columns.get("label")
        columns_called = {name: min(matching(name, filter(None, self.details)), default="") for name in names}
        columns_called = {name: column for name, column in columns_called.items() if column}
        further = self.store.details(self.id, range(self.y.size)) if columns_called else {}
        words = self.store.label_cells(self.id)[: self.y.size] if label and (gaps or self.labelled) else None
        for name in names:
            if name in columns_called:
                column = columns_called[name]
                place = self.details.index(column)
                cells = [further[item][place] if item in further else "" for item in range(self.y.size)]
                columns = reading.Columns(label=column)
            elif words:
                cells, columns = words, reading.Columns(label=label, positive=(name,), contains=True)
            else:
                continue
            with suppress(reading.DataError):
                answers[name] = reading.answers(cells, columns, self.name, gaps)
                if name not in columns_called:  # a blank cell means no only if it is a label
                    answers[name][self.y == 0] = 0
        return answers

    def transform(self, items: Sequence[str] | Matrix, vectors: np.ndarray | None = None) -> Rows:
        """Turn new texts or vectors into rows with the stored vocabulary, scaling and projection.

        vectors: vectors of the texts (None: computed by the encoder, or zeros).
        """
        if self.vocabulary:
            return self.read(cast(Sequence[str], items), vectors)[0]
        return made_rows(self.scaling, cast(Matrix, items), self.projection, vectors)

    def nearest(self, text: str, most: int) -> list[int]:
        """Return the positions of items most like a text by their vectors, the nearest first; [] without an encoder."""
        if not (self.encoder and isinstance(self._rows, rows.MixedRows)):
            return []
        [wanted] = text_vectors.columns(self.scaling["beside"], self.encoder.vectors([text]))
        table = self._rows.block.reshape(-1, self._rows.width)[:, -len(wanted) :]
        return np.argsort(-(table @ wanted), kind="stable")[:most].tolist()

    def read(self, texts: Sequence[str], vectors: np.ndarray | None = None) -> tuple[Rows, vectorizer.WordSets]:
        """Return the rows of new texts, as from `transform`, and their word sets."""
        if self.encoder:
            vectors = self.encoder.vectors(texts)
        matrix, words = cast(vectorizer.Vocabulary, self.vocabulary).read(texts)
        return made_rows(self.scaling, matrix, self.projection, vectors), words
