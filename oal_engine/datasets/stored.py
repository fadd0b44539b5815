"""Open a stored data set: its rows are mapped into memory, and it may grow."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypedDict, cast

import numpy as np

from ..kernel import rows
from ..kernel.rows import Matrix, Rows
from . import reading, row_files
from .features import embeddings, fourier, latent, numbers, scaling, vectorizer
from .features.table import made_rows
from .reading import details

if TYPE_CHECKING:
    from ..store import Store


AT_MOST_EVERY = 0.001  # seconds between two looks at the length of mapped files


class DatasetRecord(TypedDict):
    """What the store keeps of a data set: the texts `columns`, `scaling`, `vectorizer`, `feature_names` and `checksums`
    are JSON; classes are {name: items}, None where there are two."""

    id: int
    name: str
    kind: str
    source: str
    items: int
    features: int
    positives: int
    negatives: int
    positive: str
    columns: str | None
    classes: dict[str, int] | None
    scaling: str
    vectorizer: str | None
    documents: int | None
    feature_names: str | None
    folder: str
    checksums: str | None
    digested: int
    near_duplicates: str
    owner: str
    created_at: str


def stored_arrays(
    made: Rows,
    y: np.ndarray,
    projection: latent.Projection | None,
    own: np.ndarray | None,
    embedding: embeddings.Embedding | None,
) -> dict[str, np.ndarray]:
    """The arrays of rows, their labels, their projection, the numbers of their file and what makes vectors of texts by
    name, as their files are called."""
    more = {"projection": projection.numbers if projection else None, "numbers": own}
    named = {name: array for name, array in more.items() if array is not None}
    return rows.arrays(made) | {"y": y.astype(np.int8, copy=False)} | named | (embedding.arrays if embedding else {})


def mapped(folder: Path | str, items: int) -> tuple[Rows, np.ndarray]:
    """The first rows in a folder and their labels (-1, 0 and +1, or 0..K), mapped into memory."""
    return row_files.load(folder, items), row_files.mapped(Path(folder) / "y.npy", np.int8, items)


def _projection(folder: Path, made: Rows, scaled: scaling.Scaling) -> latent.Projection | None:
    """The projection that made the latent part of stored rows, mapped into memory; None where they have none."""
    if not isinstance(made, rows.MixedRows) or "fourier" in scaled or made.width == _width(scaled):
        return None
    width = made.width - _width(scaled)
    shape = made.columns - made.width + 1, width
    return latent.Projection(
        row_files.mapped(folder / "projection.npy", np.float32, shape[0] * shape[1]).reshape(shape)
    )


def _width(scaled: scaling.Scaling) -> int:
    """How many numbers stand beside each text."""
    return len(scaled.get("beside", {}).get("means", ()))


def named_features(record: Mapping[str, Any]) -> int:
    """How many features of a data set there are without its waves."""
    return record["features"] - (2 * fourier.WAVES if "fourier" in json.loads(record["scaling"]) else 0)


def fingerprint(rows: Rows, y: np.ndarray, classes: Sequence[str]) -> str:
    """A digest of rows, labels and the names of classes."""
    digest = hashlib.sha256(json.dumps([type(rows).__name__, rows.columns, classes]).encode())
    for part in (*rows, y):
        if isinstance(part, np.ndarray):
            digest.update(part.data)
    return digest.hexdigest()[:32]


def labelled(record: DatasetRecord) -> bool:
    """Whether every item of a data set, has a label."""
    known = record["classes"] or {"positive": record["positives"], "negative": record["negatives"]}
    return sum(known.values()) == record["items"]


def columns_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that a data set was read from, nothing where it does not say."""
    return json.loads(record["columns"] or "{}")


class Dataset:
    """A stored data set: rows and labels mapped into memory, vocabulary and items from the database when asked for.

    items: how many of its first items are seen (None: all that there are).
    """

    def __init__(self, store: Store, key: int | str, items: int | None = None) -> None:
        self.store, self.record = store, cast(DatasetRecord, store.dataset(key))
        self.id, self.name = self.record["id"], self.record["name"]
        self.folder = store.rows_folder(self.record["folder"])
        self._read: set[int] = set()
        self._new_terms: dict[int, str] = {}
        self._map(self.record["items"] if items is None else items)

    def _map(self, items: int) -> None:
        with self._readable():
            self._rows, self._y = mapped(self.folder, items)
            self.projection = _projection(self.folder, self._rows, self.scaling)
            source = self.scaling.get("beside", {}).get("embedding")
            self.embedding = embeddings.mapped(self.folder, source) if source else None
            kept = "numbers" in json.loads(self.record["checksums"] or "{}")
            self._numbers = numbers.mapped(self.folder, self._rows, len(self.feature_names)) if kept else None
        arrays = stored_arrays(self._rows, self._y, self.projection, self._numbers, self.embedding)
        self._extents = [row_files.extent(array) for array in arrays.values()]
        self._looked = -inf

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
        """The rows, unless a file of theirs was cut since it was mapped: to read behind its end would end the process.

        A file that is cut within a millisecond after this look, or while a compiled loop reads it, still does.
        """
        self._look()
        return self._rows

    @property
    def y(self) -> np.ndarray:
        """The label of each row, as `rows`."""
        self._look()
        return self._y

    def _look(self) -> None:
        if monotonic() > self._looked + AT_MOST_EVERY:
            with self._readable():
                for path, size in self._extents:
                    row_files.check_length(path, size)
            self._looked = monotonic()

    def refresh(self) -> None:
        """See what was appended since, also by another process."""
        self.record = cast(DatasetRecord, self.store.dataset(self.id))
        self._map(self.record["items"])

    @property
    def checksums(self) -> dict[str, int]:
        """The checksums of the files of its rows and labels as they were written; as they are, where a version that
        kept none imported it."""
        kept = json.loads(self.record["checksums"] or "null")
        return kept or row_files.checksums(stored_arrays(self.rows, self.y, self.projection, self._numbers, None))

    @property
    def files(self) -> dict[Path, int]:
        """The files of its rows and labels, and how much of each counts, in bytes: what is behind came later."""
        kind = self.folder / row_files.KIND_FILE
        return {kind: kind.stat().st_size} | {Path(path): size for path, size in self._extents}

    def check(self) -> None:
        """Refuse rows that are not as they were written: reads all of them."""
        with self._readable():
            row_files.check_columns(self.rows)
            now = row_files.checksums(stored_arrays(self.rows, self.y, self.projection, self._numbers, self.embedding))
            kept = self.checksums
            wrong = [name for name in now if now[name] != kept[name]]
            if wrong:
                raise ValueError(f"{wrong[0]}.npy is damaged: it does not hold what was written")

    @property
    def fingerprint(self) -> str:
        """What tells these rows and labels from all others, whatever they are called."""
        return fingerprint(self.rows, self.y, self.classes)

    @property
    def labelled(self) -> bool:
        """Whether every item has a label of its own, so that metrics are exact."""
        return labelled(self.record)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of classes 1..K, none where labels are positive and negative."""
        return tuple(self.record["classes"] or ())

    @cached_property
    def vocabulary(self) -> vectorizer.Vocabulary | None:
        """The stored vocabulary of texts, None for vectors."""
        documents, settings = self.record["documents"], self.record["vectorizer"]
        if documents is None or settings is None:
            return None
        terms = self.store.vocabulary(self.id)
        return vectorizer.Vocabulary(
            [row["term"] for row in terms],
            np.array([row["document_frequency"] for row in terms], dtype=np.int64),
            documents,
            json.loads(settings),
        )

    def new_terms(self, items: Iterable[int]) -> dict[int, str]:
        """The terms of some items, and of those that were asked for before, that the vocabulary lacks, by the columns
        that they share with others."""
        unread = [item for item in items if item not in self._read]
        if unread and self.vocabulary and self.vocabulary.shared:
            for row in self.store.items(self.id, unread, texts=True).values():
                self._new_terms |= self.vocabulary.new_terms(row["text"])
            self._read.update(unread)
        return self._new_terms

    @property
    def latent(self) -> int:
        """How many of the last columns have no name: of similar wording and vectors beside texts, or waves."""
        return self._rows.width if isinstance(self._rows, rows.MixedRows) else 0

    @property
    def beside(self) -> int:
        """How many numbers stand beside each text that nothing makes of it."""
        return 0 if self.embedding else _width(self.scaling)

    @property
    def beside_columns(self) -> tuple[str, ...]:
        """The columns of these numbers."""
        return tuple(self.columns.get("features", [reading.VECTORS])) if self.beside else ()

    @property
    def columns(self) -> dict[str, Any]:
        """The columns that it was read from, as `columns_of`."""
        return columns_of(self.record)

    @property
    def details(self) -> tuple[str, ...]:
        """The columns that are kept with its items besides those that make them."""
        return tuple(self.columns.get("details", ()))

    @property
    def shown(self) -> tuple[str, ...]:
        """Those of them that are shown unless a session shows others."""
        return tuple(self.columns.get("shown", ()))

    @property
    def titled(self) -> bool:
        """Whether its texts begin with a title, which was a column of its own."""
        text = self.columns.get("text", ())
        return len(text) > 1 and details.is_title(text[0])

    @property
    def named(self) -> int:
        """How many of the first columns have a name."""
        return self._rows.columns - self.latent

    @cached_property
    def label_words(self) -> dict[str, int]:
        """What each label word means here: {word: y}."""
        return self.store.label_words(self.id)

    @cached_property
    def feature_names(self) -> list[str]:
        """The names of the columns of vectors."""
        return json.loads(self.record["feature_names"] or "[]")

    @property
    def numbers(self) -> numbers.Numbers:
        """The numbers of its vectors as their file has them."""
        return numbers.Numbers(self._numbers, self.rows, self.feature_names)

    @cached_property
    def scaling(self) -> scaling.Scaling:
        """How tables of numbers become rows."""
        return json.loads(self.record["scaling"])

    def item(self, position: int) -> dict[str, Any]:
        """One item: id, text, label, y."""
        return self.store.item(self.id, position)

    def positions(self, ids: Collection[str]) -> dict[str, int]:
        """The positions of those items that there are, by their ids."""
        return self.store.positions(self.id, ids)

    def transform(self, items: Sequence[str] | Matrix, vectors: np.ndarray | None = None) -> Rows:
        """Rows of new texts, with vectors beside them (None: those that the embedding makes, or zeros), or of vectors,
        through the stored vocabulary, scaling and projection."""
        if self.vocabulary:
            return self.read(cast(Sequence[str], items), vectors)[0]
        return made_rows(self.scaling, cast(Matrix, items), self.projection, vectors)

    def read(self, texts: Sequence[str], vectors: np.ndarray | None = None) -> tuple[Rows, vectorizer.WordSets]:
        """The rows of new texts, as `transform` makes them, and their words."""
        if self.embedding:
            vectors = self.embedding.vectors(texts)
        matrix, words = cast(vectorizer.Vocabulary, self.vocabulary).read(texts)
        return made_rows(self.scaling, matrix, self.projection, vectors), words
