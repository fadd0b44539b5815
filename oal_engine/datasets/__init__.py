"""Data sets: a file imported once, its rows mapped into memory ever after.

A data set may grow: how many of its rows count is the number of items in the database.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import TYPE_CHECKING, Any, TypedDict, cast

import numpy as np

from ..kernel import rows
from ..kernel.rows import Matrix, Rows, SparseRows
from . import beside, details, duplicates, embeddings, formats, fourier, latent, numbers, scaling, vectorizer
from .sources import LIMITS, Layout, Limits, PhaseProgress, Progress

if TYPE_CHECKING:
    from ..store import Store

TEXT_FEATURES = {
    "rich+latent": "Words, parts, similar wording",
    "rich": "Words and parts",
    "words": "Words alone",
}  # what rows are made of texts
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


@dataclass(frozen=True)
class FeatureTable:
    """What a stream runs over: rows, labels y (-1, 0 unknown, +1, or 1..K of `classes`) and what made them."""

    rows: Rows
    y: np.ndarray
    items: formats.Items
    vocabulary: vectorizer.Vocabulary | None
    scaling: scaling.Scaling
    classes: tuple[str, ...] = ()
    projection: latent.Projection | None = None
    embedding: embeddings.Embedding | None = None
    word_counts: tuple[int, int] = (0, 0)  # of its texts, and those that would be new if their text had come later
    words: vectorizer.WordSets | None = None  # where near-duplicates are looked for
    copies: np.ndarray | None = None  # of each text, where its near-duplicates were left out

    @property
    def feature_names(self) -> list[str]:
        """The names of the columns of vectors."""
        return self.items.feature_names

    def transform(self, texts: Sequence[str]) -> Rows:
        """Rows of new texts, through the vocabulary, the scaling, the projection and the embedding; vectors that are
        not made of texts are zeros."""
        matrix = cast(vectorizer.Vocabulary, self.vocabulary).transform(texts)
        vectors = self.embedding.vectors(texts) if self.embedding else None
        return made_rows(self.scaling, matrix, self.projection, vectors)

    def positions(self, ids: Collection[str]) -> dict[str, int]:
        """The positions of those items that there are, by their ids."""
        return {id: position for position, id in enumerate(self.items.ids) if id in ids}


def _phase(progress: PhaseProgress | None, name: str) -> Progress | None:
    return progress and partial(progress, name)


def table(
    items: formats.Items,
    scale: str = "l2",
    progress: PhaseProgress | None = None,
    vocabulary: vectorizer.Vocabulary | None = None,
    features: str | None = None,
    embedding: embeddings.Embedding | None = None,
    near_duplicates: str = duplicates.KEEP,
    **settings: Any,
) -> FeatureTable:
    """Vectorise and scale items read from a file; progress is a function of (phase, done, total).

    Texts get a vocabulary of their own, fitted with the vectorizer's settings, unless one is given. features: one of
    TEXT_FEATURES; None takes words if a vocabulary or a tokenizer is given, else the richest that the scale allows. Of
    vectors one of VECTOR_FEATURES; None takes plain ones. Vectors beside texts, those of the items or those that an
    embedding makes, go behind the terms. near_duplicates: one of duplicates.KINDS; `once` leaves out texts that are
    nearly the same as an earlier one.
    """
    duplicates.check(near_duplicates, items.texts is not None)
    vectors = words = copies = None
    word_counts = 0, 0
    if items.texts is not None:
        if vocabulary is None:
            features, settings = _text_features(features, scale, settings)
            vocabulary, counted = vectorizer.fit_count(items.texts, progress=_phase(progress, "vocabulary"), **settings)
        else:
            counted = vectorizer.count(items.texts, vocabulary.settings, _phase(progress, "vocabulary"))
        if duplicates.compared(near_duplicates, len(items.texts)):
            words = vocabulary.words(counted)
        if words and near_duplicates == duplicates.ONCE:
            kept, copies = duplicates.counted(words)
            counted, words, items = counted.take(kept), words.take(kept), items.take(kept)
        word_counts, matrix = vocabulary.word_counts(counted), cast(Matrix, vocabulary.rows(counted))
        del counted  # as large as the rows
        scaled, vectors = scaling.fit(matrix, scale), cast("np.ndarray | None", items.vectors)
        if embedding:
            if vectors is not None:
                raise ValueError(f"vectors beside texts must be given or made. Got both: {embedding.name} makes some.")
            embedding, vectors = embedding.fit(items.texts or [], _phase(progress, "meaning"))
        if vectors is not None:
            if scale != "l2":
                raise ValueError(f"vectors beside texts need the scaling l2. Got {scale}.")
            scaled["beside"] = beside.fit(vectors) | ({"embedding": embedding.source} if embedding else {})
    else:
        if embedding:
            raise ValueError(f"the embedding {embedding.name} is for texts. Got vectors.")
        if features in TEXT_FEATURES:
            raise ValueError(f"the features {features} are for texts. Got vectors.")
        matrix = cast(Matrix, items.vectors)
        scaled = scaling.fit(matrix, scale, features or "plain")
    projection = None
    if features == "rich+latent":
        shared = cast(vectorizer.Vocabulary, vocabulary).shared
        projection = latent.fit(scaling.apply(scaled, matrix), _phase(progress, "wording"), shared)
    made = made_rows(scaled, matrix, projection, vectors)
    return FeatureTable(
        made, items.y, items, vocabulary, scaled, items.classes, projection, embedding, word_counts, words, copies
    )  # fmt: skip


def file_table(
    items: formats.Items,
    scale: str | None = None,
    progress: PhaseProgress | None = None,
    features: str | None = None,
    embedding: embeddings.Embedding | None = None,
    **settings: Any,
) -> FeatureTable:
    """As `table`, where vectors get the features and the scaling that suit them unless others are named."""
    if items.texts is None:
        features = features or scaling.usual_features(cast(Matrix, items.vectors), scale)
        scale = scale or scaling.USUAL.get(features)
    return table(items, scale or "l2", progress, features=features, embedding=embedding, **settings)


def _text_features(features: str | None, scale: str, settings: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The features of texts, and the settings of the vectorizer for them."""
    if features is None:
        features = "words" if "tokenizer" in settings else "rich+latent" if scale == "l2" else "rich"
    if features not in TEXT_FEATURES:
        raise ValueError(f"features of texts must be one of {', '.join(TEXT_FEATURES)}. Got {features}.")
    if features == "words":
        return features, {"tokenizer": "tweets"} | settings
    if "tokenizer" in settings:
        raise ValueError(f"a tokenizer is for the features words. Got {settings['tokenizer']} for {features}.")
    if features == "rich+latent" and scale != "l2":
        raise ValueError(f"the features rich+latent need the scaling l2. Got {scale}.")
    return features, {"tokenizer": "rich", "new": vectorizer.NEW} | settings


def made_rows(
    scaled: scaling.Scaling,
    matrix: Matrix,
    projection: latent.Projection | None = None,
    vectors: np.ndarray | None = None,
) -> Rows:
    """Rows of a table under a scaling, with its waves, or with the latent part of a projection and the vectors beside
    texts if there are such; vectors that are not given are zeros."""
    given = scaled.get("beside")
    if not (projection or given):
        return scaling.made_rows(scaled, matrix)
    terms = scaling.apply(scaled, matrix)
    blocks, rest = [], 1.0
    if projection:
        weight = beside.SIMILAR if given else latent.WEIGHT
        blocks, rest = [projection.columns(terms, weight)], rest - weight
    if given:
        vectors = np.zeros((np.shape(terms)[0], len(given["means"]))) if vectors is None else vectors
        blocks, rest = [*blocks, beside.columns(given, vectors)], rest - beside.WEIGHT
    sparse = cast(SparseRows, rows.as_rows(terms))
    sparse = sparse._replace(values=rows.read_only(np.sqrt(rest) * sparse.values, np.float64))
    return rows.beside(sparse, np.hstack(blocks))


def relabelled(
    y: np.ndarray, classes: Sequence[str], names: Sequence[str] = (), positive: str | None = None
) -> np.ndarray:
    """Labels 1 .. K of some classes as those of the same names elsewhere, or as +1 for the class `positive` and -1 for
    the others; 0 where they mean none of these."""
    if names:
        meaning = [names.index(name) + 1 if name in names else 0 for name in classes]
    else:
        meaning = [0 if positive is None else 1 if name == positive else -1 for name in classes]
    return rows.read_only(np.array([0, *meaning])[y], np.int8)


def add(
    store: Store,
    name: str,
    made: FeatureTable,
    source: str | Path,
    columns: formats.Columns | None = None,
    owner: str = "",
) -> int:
    """Keep a table under a name, all or nothing, the columns that it was read from, and the e-mail address of who may
    see it ("": everybody); the id of the data set."""
    name = name.strip()
    if not name:
        raise formats.DataError("a data set needs a name.")
    if store.one("SELECT 1 FROM datasets WHERE name = ?", name):
        raise formats.DataError(f"a data set named {name} exists already. Choose another name.")
    folder, items = store.folder / token_hex(8), made.items
    own = None if items.texts is not None else numbers.flat(cast(Matrix, items.vectors), made.rows)
    vocabulary, arrays = made.vocabulary, _arrays(made.rows, made.y, made.projection, own, made.embedding)
    kind = duplicates.KEEP if made.copies is None else duplicates.ONCE
    record = {
        "name": name,
        "kind": "vectors" if vocabulary is None else "text",
        "source": Path(source).name,
        "items": rows.length(made.rows),
        "features": made.rows.columns,
        "positives": 0 if made.classes else int((made.y > 0).sum()),
        "negatives": int((made.y < 0).sum()),
        "positive": " or ".join(columns.positive) if columns else "",
        "columns": json.dumps(_kept_columns(columns, items.columns)) if columns else None,
        "classes": json.dumps(items.counts()) if made.classes else None,
        "scaling": json.dumps(made.scaling),
        "vectorizer": None if vocabulary is None else json.dumps(vocabulary.settings),
        "documents": None if vocabulary is None else vocabulary.documents,
        "feature_names": None if vocabulary is not None else json.dumps(list(items.feature_names)),
        "folder": folder.name,
        "checksums": json.dumps(rows.checksums(arrays)),
        "near_duplicates": kind,
        "owner": owner,
    }
    texts = items.texts if items.texts is not None else [None] * len(items.ids)
    terms = () if vocabulary is None else zip(vocabulary.terms, map(int, vocabulary.document_frequency))
    with importing(folder, store.path.name):
        rows.save(made.rows, folder)
        for part in arrays.keys() - rows.arrays(made.rows).keys():
            np.save(folder / f"{part}.npy", arrays[part].ravel())
        firsts = duplicates.stored(made.words, made.copies) if made.words else ()
        return store.add_dataset(
            record, zip(items.ids, texts, items.labels, map(int, made.y)), terms, made.word_counts, firsts,
            items.details or (),
        )  # fmt: skip


def _kept_columns(columns: formats.Columns, read_from: formats.Columns) -> dict[str, Any]:
    """The columns that later items are read from, and those that are kept with the items, as stored."""
    kept: dict[str, Any] = {"text": columns.text, "label": columns.label, "id": columns.id}
    kept |= {"features": columns.features} if columns.text and columns.features else {}
    kept |= {"missing": read_from.missing, "fills": read_from.fills} if read_from.missing else {}
    return kept | ({"details": read_from.details, "shown": read_from.shown} if read_from.details else {})


def import_file(
    store: Store,
    path: str | Path,
    name: str,
    columns: formats.Columns | None = None,
    scale: str | None = None,
    progress: PhaseProgress | None = None,
    reader: str | None = None,
    encoding: str = "utf-8",
    limits: Limits = LIMITS,
    features: str | None = None,
    vectors: formats.Vectors | None = None,
    embedding: embeddings.Embedding | None = None,
    layout: Layout = Layout(),
    **settings: Any,
) -> tuple[int, formats.Items]:
    """Read, vectorise, scale and keep a file; the id of the data set and the items as read."""
    items = formats.read(
        path,
        columns,
        reader=reader,
        encoding=encoding,
        layout=layout,
        progress=_phase(progress, "reading"),
        limits=limits,
        vectors=vectors,
    )
    made = file_table(items, scale, progress, features, embedding, **settings)
    return add(store, name, made, path, items.columns), made.items


def report(store: Store, dataset: int, items: formats.Items) -> str:
    """What was imported and skipped, and how many texts are nearly the same as others, in sentences."""
    count, kind = store.copies(dataset), store.dataset(dataset)["near_duplicates"]
    return f"{items.report()} {duplicates.sentence(count, kind)}" if count else items.report()


def remove(store: Store, dataset: int) -> None:
    """Remove a data set that no session uses, with its rows on disk."""
    folder = store.rows_folder(store.dataset(dataset)["folder"])
    store.remove_dataset(dataset)
    if folder.name not in {row["folder"] for row in store.datasets()}:  # a damaged database may name it twice
        shutil.rmtree(folder, ignore_errors=True)


def _arrays(
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


# Folders of rows that no data set has, for the process that wrote them was killed

MARK = "importing"


@contextmanager
def importing(folder: Path, database: str) -> Iterator[None]:
    """Make a folder of rows for a database of this name; it is removed if what follows fails, or by `sweep` if the
    process is killed: until all of it is kept, a mark lies in it, which the process holds locked."""
    folder.mkdir(parents=True)
    with (folder / MARK).open("x", encoding="utf-8") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        mark.write(database)
        mark.flush()
        try:
            yield
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        (folder / MARK).unlink()


def sweep(store: Store) -> None:
    """Remove the rows that imports into this database left when they were killed: at the start of whoever writes."""
    for path in store.folder.glob(f"*/{MARK}"):
        with suppress(FileNotFoundError, BlockingIOError), path.open(encoding="utf-8") as mark:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the lock of a process goes when it is killed
            if mark.read() == store.path.name:
                folder = path.parent
                known = any(row["folder"] == folder.name for row in store.datasets())
                path.unlink() if known else shutil.rmtree(folder)


def mapped(folder: Path | str, items: int) -> tuple[Rows, np.ndarray]:
    """The first rows in a folder and their labels (-1, 0 and +1, or 0..K), mapped into memory."""
    return rows.load(folder, items), rows.mapped(Path(folder) / "y.npy", np.int8, items)


def _projection(folder: Path, made: Rows, scaled: scaling.Scaling) -> latent.Projection | None:
    """The projection that made the latent part of stored rows, mapped into memory; None where they have none."""
    if not isinstance(made, rows.MixedRows) or "fourier" in scaled or made.width == _width(scaled):
        return None
    width = made.width - _width(scaled)
    shape = made.columns - made.width + 1, width
    return latent.Projection(rows.mapped(folder / "projection.npy", np.float32, shape[0] * shape[1]).reshape(shape))


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
        arrays = _arrays(self._rows, self._y, self.projection, self._numbers, self.embedding)
        self._extents = [rows.extent(array) for array in arrays.values()]
        self._looked = -inf

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise formats.DataError(
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
                    rows.check_length(path, size)
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
        return kept or rows.checksums(_arrays(self.rows, self.y, self.projection, self._numbers, None))

    @property
    def files(self) -> dict[Path, int]:
        """The files of its rows and labels, and how much of each counts, in bytes: what is behind came later."""
        kind = self.folder / rows.KIND_FILE
        return {kind: kind.stat().st_size} | {Path(path): size for path, size in self._extents}

    def check(self) -> None:
        """Refuse rows that are not as they were written: reads all of them."""
        with self._readable():
            rows.check_columns(self.rows)
            now = rows.checksums(_arrays(self.rows, self.y, self.projection, self._numbers, self.embedding))
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
        return tuple(self.columns.get("features", [formats.VECTORS])) if self.beside else ()

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
