"""Import a file as a data set, remove data sets, clean up after interrupted imports."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..kernel import rows
from ..kernel.rows import Matrix
from ..store.fields import LONGEST_TITLE, is_title, problem
from . import reading, row_files
from .features import duplicates, embeddings, encoders, numbers, scripts
from .features.table import FeatureTable, file_table, phase_progress
from .reading.labels import has_rule
from .reading.sources import DETECTED, LIMITS, FileOrPath, Layout, Limits, PhaseProgress, name_of
from .stored import stored_arrays

if TYPE_CHECKING:
    from ..store import Store


@dataclass(frozen=True)
class ImportRequest:
    """Options of an import: how a file is read, and how its items become a data set.

    vectors: vectors of the texts from a separate file. encoder: computes vectors of the texts; a path is the folder
    of an embedding. scale, features: None chooses values that suit the items. near_duplicates: one of duplicates.KINDS.
    owner: the e-mail address of the only person who may see the data set ("": everybody).
    """

    reader: str | None = None
    encoding: str = "utf-8"
    layout: Layout = DETECTED
    limits: Limits = LIMITS
    vectors: reading.Vectors | None = None
    encoder: encoders.TextEncoder | Path | None = None
    scale: str | None = None
    features: str | None = None
    near_duplicates: str = duplicates.KEEP
    owner: str = ""

    @property
    def reading(self) -> dict[str, Any]:
        """The keyword arguments for functions that read files."""
        return {name: getattr(self, name) for name in ("reader", "encoding", "layout", "limits", "vectors")}


def _checked_name(store: Store, name: str) -> str:
    """Strip spaces from the name of a new data set. Raise DataError if the name is empty or already taken."""
    if not (name := name.strip()):
        raise reading.DataError("a data set needs a name.")
    if wrong := problem({"name": name}, {"name": is_title}):
        raise reading.DataError(f"the name of a data set must have {LONGEST_TITLE} characters at most: {wrong}.")
    if store.has_dataset(name):
        raise reading.DataError(f"a data set named {name} exists already. Choose another name.")
    return name


def add(
    store: Store,
    name: str,
    table: FeatureTable,
    source: str | Path,
    columns: reading.Columns | None = None,
    owner: str = "",
    folder: Path | None = None,
) -> int:
    """Store a table as a data set, all or nothing. Return its id.

    source: the imported file. columns: the columns to read later files with. owner: as in `ImportRequest`. folder: the
    folder of an import in progress, in which the rows of texts are already (None: a new one).
    """
    name = _checked_name(store, name)
    if folder is None:
        with import_in_progress(new := store.folder / token_hex(8), store.path.name):
            return add(store, name, table, source, columns, owner, new)
    items, vocabulary = table.items, table.vocabulary
    file_numbers = None if items.texts is not None else numbers.flat(cast(Matrix, items.vectors), table.rows)
    checksums = table.checksums or row_files.save(table.rows, folder)
    arrays = stored_arrays(table.rows, table.y, table.projection, file_numbers, table.encoder)
    other_arrays = {part: array for part, array in arrays.items() if part not in checksums}
    record = {
        "name": name,
        "kind": "vectors" if vocabulary is None else "text",
        "source": Path(source).name,
        "items": rows.length(table.rows),
        "features": table.rows.columns,
        "positives": 0 if table.classes else int((table.y > 0).sum()),
        "negatives": int((table.y < 0).sum()),
        "positive": " or ".join(columns.positive) if columns else "",
        "columns": json.dumps(_stored_columns(columns, items.columns)) if columns else None,
        "classes": json.dumps(items.counts()) if table.classes else None,
        "scaling": json.dumps(table.scaling),
        "vectorizer": None if vocabulary is None else json.dumps(vocabulary.settings),
        "documents": None if vocabulary is None else vocabulary.documents,
        "feature_names": None if vocabulary is not None else json.dumps(list(items.feature_names)),
        "folder": folder.name,
        "checksums": json.dumps(checksums | row_files.checksums(other_arrays)),
        "near_duplicates": duplicates.KEEP if table.copies is None else duplicates.ONCE,
        "owner": owner,
    }
    texts = repeat(None) if items.texts is None else items.texts
    terms = () if vocabulary is None else zip(vocabulary.terms, map(int, vocabulary.document_frequency))
    for part, array in other_arrays.items():
        np.save(folder / f"{part}.npy", array.ravel())
    firsts = duplicates.stored(table.words, table.copies) if table.words else ()
    return store.add_dataset(
        record, zip(items.ids, texts, items.labels, map(int, table.y)), terms, table.word_counts, firsts,
        items.details or (),
    )  # fmt: skip


def _stored_columns(columns: reading.Columns, read_from: reading.Columns) -> dict[str, Any]:
    """Return the roles of the columns in the form stored with a data set, to read later files in the same way."""
    stored: dict[str, Any] = {"text": columns.text, "label": columns.label, "id": columns.id}
    stored |= {"features": columns.features} if columns.text and columns.features else {}
    if has_rule(columns, ()):
        stored |= {"positive": columns.positive, "contains": columns.contains, "headings": columns.headings}
    if read_from.codings:
        stored |= {"features": read_from.features, "codings": read_from.codings}
    stored |= {"missing": read_from.missing, "fills": read_from.fills} if read_from.missing else {}
    return stored | ({"details": read_from.details, "shown": read_from.shown_columns} if read_from.details else {})


def import_file(
    store: Store,
    path: FileOrPath,
    name: str,
    columns: reading.Columns | None = None,
    request: ImportRequest = ImportRequest(),
    progress: PhaseProgress | None = None,
    file_name: str | None = None,
    **settings: Any,
) -> tuple[int, reading.Items]:
    """Import a file as the data set `name`. Return the id of the data set, and its items.

    columns: None guesses them. file_name: the name of an open file. settings: of the vectorizer, such as min_df.
    """
    name, folder = _checked_name(store, name), store.folder / token_hex(8)
    encoder = embeddings.read(request.encoder) if isinstance(request.encoder, Path) else request.encoder
    with import_in_progress(folder, store.path.name):
        items = reading.read(
            path, columns, name=file_name, progress=phase_progress(progress, "reading"), folder=folder,
            **request.reading,
        )  # fmt: skip
        table = file_table(
            items, request.scale, progress, request.features, encoder, near_duplicates=request.near_duplicates,
            folder=folder, **settings,
        )  # fmt: skip
        source = name_of(path, file_name)
        return add(store, name, table, source, table.items.columns, request.owner, folder), table.items


def report(store: Store, dataset: int, items: reading.Items) -> str:
    """Describe an import in sentences: items, skipped lines, near-duplicates, how scripts such as Chinese are cut."""
    stored, count = store.dataset(dataset), store.copies(dataset)
    rich = items.texts is not None and json.loads(stored["vectorizer"])["tokenizer"] == "rich"
    near = duplicates.sentence(count, stored["near_duplicates"]) if count else ""
    is_encoded = "beside" in json.loads(stored["scaling"])
    if rich and not is_encoded and encoders.was_asked() and not encoders.knows(items.texts or ()):
        near += " The encoder does not know the language of these texts: they are read by their words."
    return " ".join(filter(None, (items.report(), near.strip(), scripts.sentence(items.texts or ()) if rich else "")))


def remove(store: Store, dataset: int) -> None:
    """Remove a data set that no session uses, with its rows on disk."""
    folder = store.rows_folder(store.dataset(dataset)["folder"])
    store.remove_dataset(dataset)
    if folder.name not in {row["folder"] for row in store.datasets()}:  # a damaged database may name it twice
        shutil.rmtree(folder, ignore_errors=True)


MARK = "importing"  # a file that marks a folder of rows whose import is not finished


@contextmanager
def import_in_progress(folder: Path, database: str) -> Iterator[None]:
    """Create a folder for the rows of an import. Remove it if the body fails; if the process is killed, `sweep` does.
    Until the body ends, the process locks a mark file in the folder, which holds the name of the database."""
    folder.mkdir(parents=True)
    try:
        with (folder / MARK).open("x", encoding="utf-8") as mark:
            fcntl.flock(mark, fcntl.LOCK_EX)
            mark.write(database)
            mark.flush()  # fails if the disk is full
            yield
            (folder / MARK).unlink()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def sweep(store: Store) -> None:
    """Remove the row folders of killed imports into this database. Every writing process calls this first."""
    for path in store.folder.glob(f"*/{MARK}"):
        with suppress(FileNotFoundError, BlockingIOError), path.open(encoding="utf-8") as mark:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the lock of a killed process is released
            if mark.read() == store.path.name:
                folder = path.parent
                is_stored = any(row["folder"] == folder.name for row in store.datasets())
                path.unlink() if is_stored else shutil.rmtree(folder)
