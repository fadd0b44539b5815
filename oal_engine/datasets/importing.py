"""Import a file as a data set, remove data sets, sweep up interrupted imports."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..kernel import rows
from ..kernel.rows import Matrix
from . import reading, row_files
from .features import duplicates, embeddings, numbers
from .features.table import FeatureTable, file_table, phase_progress
from .reading.sources import LIMITS, Layout, Limits, PhaseProgress
from .stored import stored_arrays

if TYPE_CHECKING:
    from ..store import Store


def add(
    store: Store,
    name: str,
    made: FeatureTable,
    source: str | Path,
    columns: reading.Columns | None = None,
    owner: str = "",
) -> int:
    """Keep a table under a name, all or nothing, the columns that it was read from, and the e-mail address of who may
    see it ("": everybody); the id of the data set."""
    name = name.strip()
    if not name:
        raise reading.DataError("a data set needs a name.")
    if store.one("SELECT 1 FROM datasets WHERE name = ?", name):
        raise reading.DataError(f"a data set named {name} exists already. Choose another name.")
    folder, items = store.folder / token_hex(8), made.items
    own = None if items.texts is not None else numbers.flat(cast(Matrix, items.vectors), made.rows)
    vocabulary, arrays = made.vocabulary, stored_arrays(made.rows, made.y, made.projection, own, made.embedding)
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
        "checksums": json.dumps(row_files.checksums(arrays)),
        "near_duplicates": kind,
        "owner": owner,
    }
    texts = items.texts if items.texts is not None else [None] * len(items.ids)
    terms = () if vocabulary is None else zip(vocabulary.terms, map(int, vocabulary.document_frequency))
    with import_in_progress(folder, store.path.name):
        row_files.save(made.rows, folder)
        for part in arrays.keys() - rows.arrays(made.rows).keys():
            np.save(folder / f"{part}.npy", arrays[part].ravel())
        firsts = duplicates.stored(made.words, made.copies) if made.words else ()
        return store.add_dataset(
            record, zip(items.ids, texts, items.labels, map(int, made.y)), terms, made.word_counts, firsts,
            items.details or (),
        )  # fmt: skip


def _kept_columns(columns: reading.Columns, read_from: reading.Columns) -> dict[str, Any]:
    """The columns that later items are read from, and those that are kept with the items, as stored."""
    kept: dict[str, Any] = {"text": columns.text, "label": columns.label, "id": columns.id}
    kept |= {"features": columns.features} if columns.text and columns.features else {}
    kept |= {"missing": read_from.missing, "fills": read_from.fills} if read_from.missing else {}
    return kept | ({"details": read_from.details, "shown": read_from.shown} if read_from.details else {})


def import_file(
    store: Store,
    path: str | Path,
    name: str,
    columns: reading.Columns | None = None,
    scale: str | None = None,
    progress: PhaseProgress | None = None,
    reader: str | None = None,
    encoding: str = "utf-8",
    limits: Limits = LIMITS,
    features: str | None = None,
    vectors: reading.Vectors | None = None,
    embedding: embeddings.Embedding | None = None,
    layout: Layout = Layout(),
    **settings: Any,
) -> tuple[int, reading.Items]:
    """Read, vectorise, scale and keep a file; the id of the data set and the items as read."""
    items = reading.read(
        path,
        columns,
        reader=reader,
        encoding=encoding,
        layout=layout,
        progress=phase_progress(progress, "reading"),
        limits=limits,
        vectors=vectors,
    )
    made = file_table(items, scale, progress, features, embedding, **settings)
    return add(store, name, made, path, items.columns), made.items


def report(store: Store, dataset: int, items: reading.Items) -> str:
    """What was imported and skipped, and how many texts are nearly the same as others, in sentences."""
    count, kind = store.copies(dataset), store.dataset(dataset)["near_duplicates"]
    return f"{items.report()} {duplicates.sentence(count, kind)}" if count else items.report()


def remove(store: Store, dataset: int) -> None:
    """Remove a data set that no session uses, with its rows on disk."""
    folder = store.rows_folder(store.dataset(dataset)["folder"])
    store.remove_dataset(dataset)
    if folder.name not in {row["folder"] for row in store.datasets()}:  # a damaged database may name it twice
        shutil.rmtree(folder, ignore_errors=True)


MARK = "importing"


@contextmanager
def import_in_progress(folder: Path, database: str) -> Iterator[None]:
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
