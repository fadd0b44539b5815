"""Data sets: a file imported once, its rows mapped into memory ever after.

A data set may grow: how many of its rows count is the number of items in the database.
"""

import fcntl
import hashlib
import json
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf
from pathlib import Path
from secrets import token_hex
from time import monotonic

import numpy as np

from ..kernel import rows
from . import formats, scaling, vectorizer
from .sources import LIMITS

AT_MOST_EVERY = 0.001  # seconds between two looks at the length of mapped files


@dataclass(frozen=True)
class Table:
    """What a stream runs over: rows, labels y (-1, 0 unknown, +1, or 1..K of `classes`) and what made them."""

    rows: tuple
    y: np.ndarray
    items: formats.Items
    vocabulary: vectorizer.Vocabulary | None
    scaling: dict
    classes: tuple[str, ...] = ()


def _phase(progress, name):
    return progress and partial(progress, name)


def table(items, scale="l2", progress=None, vocabulary=None, **settings):
    """Vectorise and scale items read from a file; progress is a function of (phase, done, total).

    Texts get a vocabulary of their own, fitted with the vectorizer's settings, unless one is given.
    """
    if items.texts is not None:
        vocabulary = vocabulary or vectorizer.fit(items.texts, progress=_phase(progress, "vocabulary"), **settings)
        matrix = vocabulary.transform(items.texts, _phase(progress, "vectors"))
    else:
        matrix = items.vectors
    scaled = scaling.fit(matrix, scale)
    return Table(rows.as_rows(scaling.apply(scaled, matrix)), items.y, items, vocabulary, scaled, items.classes)


def relabelled(y, classes, names=(), positive=None):
    """Labels 1 .. K of some classes as those of the same names elsewhere, or as +1 for the class `positive` and -1 for
    the others; 0 where they mean none of these."""
    if names:
        meaning = [names.index(name) + 1 if name in names else 0 for name in classes]
    else:
        meaning = [0 if positive is None else 1 if name == positive else -1 for name in classes]
    return rows.read_only(np.array([0, *meaning])[y], np.int8)


def add(store, name, made, source, columns=None):
    """Keep a table under a name, all or nothing, and the columns that it was read from; the id of the data set."""
    name = name.strip()
    if not name:
        raise formats.DataError("a data set needs a name.")
    if store.one("SELECT 1 FROM datasets WHERE name = ?", name):
        raise formats.DataError(f"a data set named {name} exists already. Choose another name.")
    folder, items = store.folder / token_hex(8), made.items
    vocabulary = made.vocabulary
    about = {
        "name": name,
        "kind": "vectors" if vocabulary is None else "text",
        "source": Path(source).name,
        "items": rows.length(made.rows),
        "features": made.rows.columns,
        "positives": 0 if made.classes else int((made.y > 0).sum()),
        "negatives": int((made.y < 0).sum()),
        "positive": " or ".join(columns.positive) if columns else "",
        "columns": columns and json.dumps({"text": columns.text, "label": columns.label, "id": columns.id}),
        "classes": json.dumps(items.counts()) if made.classes else None,
        "scaling": json.dumps(made.scaling),
        "vectorizer": None if vocabulary is None else json.dumps(vocabulary.settings),
        "documents": None if vocabulary is None else vocabulary.documents,
        "feature_names": None if vocabulary is not None else json.dumps(list(items.feature_names)),
        "folder": folder.name,
        "checksums": json.dumps(rows.checksums(_arrays(made.rows, made.y))),
    }
    texts = items.texts if items.texts is not None else [None] * len(items.ids)
    terms = () if vocabulary is None else zip(vocabulary.terms, map(int, vocabulary.document_frequency))
    with importing(folder, store.path.name):
        rows.save(made.rows, folder)
        np.save(folder / "y.npy", made.y.astype(np.int8))
        return store.add_dataset(about, zip(items.ids, texts, items.labels, map(int, made.y)), terms)


def import_file(
    store, path, name, columns=None, scale="l2", progress=None, reader=None, encoding="utf-8", limits=LIMITS, **settings
):
    """Read, vectorise, scale and keep a file; the id of the data set and the items as read."""
    options = {"reader": reader, "encoding": encoding, "limits": limits}
    columns = columns or formats.peek(path, **options).guess
    items = formats.read(path, columns, progress=_phase(progress, "reading"), **options)
    return add(store, name, table(items, scale, progress, **settings), path, columns), items


def remove(store, dataset):
    """Remove a data set that no session uses, with its rows on disk."""
    folder = store.folder / store.dataset(dataset)["folder"]
    store.remove_dataset(dataset)
    shutil.rmtree(folder, ignore_errors=True)


def _arrays(made, y):
    """The arrays of rows and their labels by name, as their files are called."""
    return rows.arrays(made) | {"y": y.astype(np.int8, copy=False)}


# Folders of rows that no data set has, for the process that wrote them was killed

MARK = "importing"


@contextmanager
def importing(folder, database):
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


def sweep(store):
    """Remove the rows that imports into this database left when they were killed: at the start of whoever writes."""
    for path in store.folder.glob(f"*/{MARK}"):
        with suppress(FileNotFoundError, BlockingIOError), path.open(encoding="utf-8") as mark:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the lock of a process goes when it is killed
            if mark.read() == store.path.name:
                folder = path.parent
                known = any(row["folder"] == folder.name for row in store.datasets())
                path.unlink() if known else shutil.rmtree(folder)


def mapped(folder, items):
    """The first rows in a folder and their labels (-1, 0 and +1, or 0..K), mapped into memory."""
    return rows.load(folder, items), rows.mapped(Path(folder) / "y.npy", np.int8, items)


def fingerprint(rows, y, classes):
    """A digest of rows, labels and the names of classes."""
    told = hashlib.sha256(json.dumps([type(rows).__name__, rows.columns, classes]).encode())
    for part in (*rows, y):
        if isinstance(part, np.ndarray):
            told.update(part.data)
    return told.hexdigest()[:32]


def labelled(about):
    """Whether every item of a data set, as the store tells of it, has a label."""
    known = about["classes"] or {"positive": about["positives"], "negative": about["negatives"]}
    return sum(known.values()) == about["items"]


class Dataset:
    """A stored data set: rows and labels mapped into memory, vocabulary and items from the database when asked for.

    items: how many of its first items are seen (None: all that there are).
    """

    def __init__(self, store, key, items=None):
        self.store, self.about = store, store.dataset(key)
        self.id, self.name = self.about["id"], self.about["name"]
        self.folder = store.folder / self.about["folder"]
        self._map(self.about["items"] if items is None else items)

    def _map(self, items):
        with self._readable():
            self._rows, self._y = mapped(self.folder, items)
        self._extents = [rows.extent(array) for array in _arrays(self._rows, self._y).values()]
        self._looked = -inf

    @contextmanager
    def _readable(self):
        try:
            yield
        except (OSError, ValueError) as error:
            raise formats.DataError(
                f"the rows of the data set {self.name} cannot be read from {self.folder}: {error}."
            ) from None

    @property
    def rows(self):
        """The rows, unless a file of theirs was cut since it was mapped: to read behind its end would end the process.

        A file that is cut within a millisecond after this look, or while a compiled loop reads it, still does.
        """
        self._look()
        return self._rows

    @property
    def y(self):
        """The label of each row, as `rows`."""
        self._look()
        return self._y

    def _look(self):
        if monotonic() > self._looked + AT_MOST_EVERY:
            with self._readable():
                for path, size in self._extents:
                    rows.check_length(path, size)
            self._looked = monotonic()

    def refresh(self):
        """See what was appended since, also by another process."""
        self.about = self.store.dataset(self.id)
        self._map(self.about["items"])

    @property
    def checksums(self):
        """The checksums of the files of its rows and labels as they were written; as they are, where a version that
        kept none imported it."""
        kept = json.loads(self.about["checksums"] or "null")
        return kept or rows.checksums(_arrays(self.rows, self.y))

    @property
    def files(self):
        """The files of its rows and labels, and how much of each counts, in bytes: what is behind came later."""
        about = self.folder / rows.ABOUT
        return {about: about.stat().st_size} | {Path(path): size for path, size in self._extents}

    def check(self):
        """Refuse rows that are not as they were written: reads all of them."""
        with self._readable():
            rows.check_columns(self.rows)
            found, kept = rows.checksums(_arrays(self.rows, self.y)), self.checksums
            wrong = [name for name in found if found[name] != kept[name]]
            if wrong:
                raise ValueError(f"{wrong[0]}.npy is damaged: it does not hold what was written")

    @property
    def fingerprint(self):
        """What tells these rows and labels from all others, whatever they are called."""
        return fingerprint(self.rows, self.y, self.classes)

    @property
    def labelled(self):
        """Whether every item has a label of its own, so that metrics are exact."""
        return labelled(self.about)

    @property
    def classes(self):
        """The names of classes 1..K, none where labels are positive and negative."""
        return tuple(self.about["classes"] or ())

    @cached_property
    def vocabulary(self):
        """The stored vocabulary of texts, None for vectors."""
        if self.about["kind"] != "text":
            return None
        terms = self.store.vocabulary(self.id)
        return vectorizer.Vocabulary(
            [row["term"] for row in terms],
            np.array([row["document_frequency"] for row in terms], dtype=np.int64),
            self.about["documents"],
            json.loads(self.about["vectorizer"]),
        )

    @cached_property
    def label_words(self):
        """What each label word means here: {word: y}."""
        return self.store.label_words(self.id)

    @cached_property
    def feature_names(self):
        """The names of the columns of vectors."""
        return json.loads(self.about["feature_names"] or "[]")

    def item(self, position):
        """One item: id, text, label, y."""
        return self.store.item(self.id, position)

    def transform(self, texts):
        """Rows of new texts, through the stored vocabulary and scaling."""
        return rows.as_rows(scaling.apply(json.loads(self.about["scaling"]), self.vocabulary.transform(texts)))
