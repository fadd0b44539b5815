"""Find or import the data sets that a specification names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .. import datasets
from ..datasets import Dataset, demo, prior, reading
from ..kernel.parameters import named
from .specifications import FOLDS, ExperimentError, Specification
from .worker import ZERO_ROWS, RowSource, recorded

if TYPE_CHECKING:
    from ..store import Store


Entry: TypeAlias = str | Mapping[str, Any]  # one data set of a specification: a name, or how to import a file


def sources(spec: Specification, store: Store, folder: Path | str = ".") -> list[RowSource]:
    """Return the data sets of a specification. Files are imported at their first use."""
    row_sources = [_source(store, entry, folder, spec) for entry in spec.data]
    if len({source.name for source in row_sources}) < len(row_sources):
        raise ExperimentError(f"data sets must differ. Got {', '.join(source.name for source in row_sources)}.")
    return row_sources


def _source(store: Store, entry: Entry, folder: Path | str, spec: Specification) -> RowSource:
    data, positive = (_opened if spec.questions else labeled_data)(store, entry, folder)
    if data.y.size < FOLDS:
        raise ExperimentError(f"a comparison needs {FOLDS} items or more. {data.name} has {data.y.size}.")
    full_name = data.name if positive is None else f"{data.name}={positive}"
    seeds = prior.make_prior(data, spec.seed_words, spec.seed_items, texts=spec.seed_texts)
    weights = tuple(seeds.weights.items()) if seeds else ()
    if spec.questions and positive is not None:
        raise ExperimentError(f"questions need a whole data set, such as {data.name}. Got {full_name}.")
    answers = stored_questions(data, spec.questions) if spec.questions else {}
    source = RowSource(
        full_name, str(data.folder.resolve()), data.fingerprint, int(data.y.size), data.classes, positive, weights,
        tuple((name, np.packbits(y > 0).tobytes()) for name, y in answers.items()),
    )  # fmt: skip
    return source if isinstance(entry, str) else _streamed_as(source, entry, Path(folder), spec)


def _streamed_as(source: RowSource, entry: Mapping[str, Any], folder: Path, spec: Specification) -> RowSource:
    """Return a source with the item orders and the treatment of rows of zeros that its entry names."""
    source = source._replace(zero_rows=named(ZERO_ROWS, entry.get("zero_rows", "streamed"), "zero_rows of a data set"))
    if source.zero_rows == "mistakes" and (source.distinct_classes or spec.questions or spec.floor):
        raise ExperimentError(f"zero_rows of {source.name} can be mistakes for two classes alone, without a floor.")
    is_whole = not spec.held_out and spec.tune not in ("2:1", "cv")
    if source.zero_rows != "streamed" and not is_whole:
        raise ExperimentError(f"zero_rows of {source.name} need whole streams, or must be streamed. Got {spec.tune}.")
    if "orders" not in entry:
        return source
    source = source._replace(orders=str(folder / entry["orders"]))
    count, last = len(recorded(source.orders, source.rounds)), spec.seed + spec.permutations
    if not is_whole or last > count:
        raise ExperimentError(
            f"orders from a file need whole streams, and no more than it has ({count}). Got {spec.tune}, {last} orders."
        )
    return source


def stored_questions(data: Dataset, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the labels of a data set for each question, {question: labels}: from columns that are stored with its
    items, or from the words in its label column."""
    if {*names} <= {*data.details}:
        details = data.store.details(data.id, range(data.y.size))
        return column_questions(names, data.details, [details.get(item, []) for item in range(data.y.size)], data.name)
    columns = ", ".join(filter(None, data.details)) or "none"
    if not data.columns.get("label"):
        raise ExperimentError(
            f"questions of {data.name} must be columns kept with its items: {columns}. Got {', '.join(names)}."
        )
    try:
        return word_questions(names, data.store.label_cells(data.id), data.columns["label"], data.name)
    except reading.DataError as error:
        raise ExperimentError(f"{str(error).removesuffix('.')}; columns kept with its items: {columns}.") from None


def column_questions(
    names: Sequence[str], columns: Sequence[str | None], details: list[list[str]], source: str
) -> dict[str, np.ndarray]:
    """Read the labels of each question, {question: labels}, from the column named after it, which holds 1 and 0."""
    cells = {name: [row[columns.index(name)] if row else "" for row in details] for name in names}
    return {name: reading.answers(each, reading.Columns(label=name), source) for name, each in cells.items()}


def word_questions(names: Sequence[str], cells: list[str], column: str | None, source: str) -> dict[str, np.ndarray]:
    """Read the labels of each question, {question: labels}, from a single column. A cell may hold several words; the
    item is positive for each question named by one of them."""
    return {
        name: reading.answers(cells, reading.Columns(label=column, positive=(name,), contains=True), source)
        for name in names
    }


def labeled_data(store: Store, entry: Entry, folder: Path | str = ".") -> tuple[Dataset, str | None]:
    """Open the data set that a comparison or replay names. Return it, and the class that is set against the rest (None:
    all classes are kept).

    Raise ExperimentError if an item has no label. A demo or a file is imported at its first use.
    """
    data, positive = _opened(store, entry, folder)
    if not data.labelled:
        raise ExperimentError(f"every item of {data.name} must have a label. Some have none.")
    return data, positive


def _opened(store: Store, entry: Entry, folder: Path | str) -> tuple[Dataset, str | None]:
    """Open the data set of an entry, even without labels. Return it, and the class set against the rest, if any."""
    name, positive = _named(store, entry, Path(folder))
    data = Dataset(store, name)
    if positive is not None and positive not in data.classes:
        raise ExperimentError(f"{name} has no class {positive}. It has {', '.join(data.classes) or 'two'}.")
    return data, positive


def _named(store: Store, entry: Entry, folder: Path) -> tuple[str, str | None]:
    """Return the name of the stored data set that an entry refers to, and the class that is set against the rest, if
    any. A demo or a file is imported at its first use."""
    if not isinstance(entry, str):
        return imported(store, entry, folder), None
    if entry.startswith("demo:"):
        which = named(demo.DEMOS, entry.removeprefix("demo:"), "demo")
        demo.dataset(store, which)
        return demo.DEMOS[which].name, None
    if not store.has_dataset(entry) and (folder / entry).is_file():
        return imported(store, {"file": entry}, folder), None
    name, equals, positive = entry.rpartition("=")
    return (name, positive) if equals and not store.has_dataset(entry) else (entry, None)


def data_name(entry: Entry) -> str:
    """Return the name that the data set of an entry has, or will have once it is imported. The name ends in =CLASS if
    one class is set against the rest."""
    if isinstance(entry, str):
        demo_entry = demo.DEMOS.get(entry.removeprefix("demo:"))
        return demo_entry.name if demo_entry and entry.startswith("demo:") else entry
    return entry.get("name") or Path(entry["file"]).name.split(".")[0]


SEVERAL = ("text", "features", "positive")  # settings that take one or more values
COLUMNS: dict[str, type] = {each.name: list if each.name in SEVERAL else bool if each.default is False else str
           for each in fields(reading.Columns)}  # fmt: skip


def imported(store: Store, entry: Mapping[str, Any], folder: Path) -> str:
    """Import a file as a data set, unless a data set of this name exists. Return the name.

    entry: {name, file, scale, features, columns as in `reading.Columns`, orders (a file of item orders), zero_rows}.
    """
    kinds: dict[str, type] = dict.fromkeys(("name", "file", "scale", "features", "orders", "zero_rows"), str) | COLUMNS
    values: dict[str, Any] = {
        key: [value] if key in SEVERAL and isinstance(value, str) else value for key, value in entry.items()
    }
    for key, value in values.items():
        if key not in kinds:
            raise ExperimentError(f"a data set of a comparison has no setting {key}. It has {', '.join(kinds)}.")
        texts = not isinstance(value, list) or all(isinstance(each, str) for each in value)
        if not isinstance(value, kinds[key]) or not texts:
            what = {str: "a text", bool: "true or false", list: "a list of texts"}[kinds[key]]
            raise ExperimentError(f"{key} of a data set of a comparison must be {what}. Got {value}.")
    if "file" not in values:
        raise ExperimentError(f"a data set of a comparison needs a file. Got {', '.join(values) or 'nothing'}.")
    path, name = folder / values["file"], data_name(values)
    if not store.has_dataset(name):
        columns: dict[str, Any] = {
            key: tuple(value) if key in SEVERAL else value for key, value in values.items() if key in COLUMNS
        }
        guess = replace(reading.peek(path).guess, **columns)
        features = values.get("features") or ("words" if guess.text else "plain")  # as the papers have it
        request = datasets.ImportRequest(scale=values.get("scale"), features=features)
        datasets.import_file(store, path, name, guess, request)
    return name
