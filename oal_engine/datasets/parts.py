"""Read the files of a folder in parallel, one file per worker task. A single process would give the same table."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed, wait
from contextlib import contextmanager
from functools import lru_cache
from itertools import accumulate, chain, islice
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

import numpy as np

from . import reading, row_files
from .features import duplicates, latent, scaling, vectorizer
from .features.table import FeatureTable, append_rows, fit_projection, phase_progress, text_features
from .reading.archives import ARCHIVE, JUNK, MAIL, TEXT, in_order, pack
from .reading.items import DUPLICATE, Item, ItemBuilder
from .reading.parsed import Line, name_list
from .reading.readers import READERS, reader_for
from .reading.sources import CHUNK_LINES, DataError, FileOrPath, Opening, PhaseProgress, Progress, open_source

SHOWN_BYTES = 2**24  # total size of the first parts, from which the columns are guessed
ITEMS, TERMS, FEATURES, PROJECTION = "items.jsonl", "terms.json", "features.json", "projection.npy"


class Parts(NamedTuple):
    """The files to read, in order, and the workers that read them. Every worker must be able to open the paths."""

    paths: list[Path]
    executor: Executor


def parts_of(folder: Path) -> list[Path]:
    """List the files of a folder in natural order (2.txt before 10.txt), without hidden files, system files, and files
    whose names begin with an underscore."""
    names = (path for path in folder.absolute().iterdir() if not JUNK.fullmatch(path.name) and path.name[0] != "_")
    return sorted((path for path in names if path.is_file()), key=lambda path: in_order(path.name))


@contextmanager
def first_parts(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the path of a temporary ZIP archive of the first files, from which the layout of all files is guessed.
    Raise DataError if there are fewer than 2 files, or if their folder has subfolders."""
    if len(paths) < 2:
        raise DataError(f"--parts needs a folder of at least 2 files. Got {len(paths)}.")
    folder = paths[0].parent
    if folders := [path.name for path in folder.iterdir() if path.is_dir() and path.name[0] not in "._"]:
        raise DataError(f"--parts reads the files of one folder. {folder.name} also holds the folder {folders[0]}.")
    few = 1 + sum(size < SHOWN_BYTES for size in accumulate(path.stat().st_size for path in paths))
    with TemporaryDirectory() as temporary:
        packed = Path(temporary, folder.name)
        with packed.open("wb") as target:
            pack(((path.name, path) for path in paths[: max(2, few)]), target)
        yield packed


def run(
    executor: Executor,
    work: Callable[..., Any],
    tasks: Mapping[Path, Sequence[Any]],
    progress: Progress | None = None,
    before: int = 0,
) -> dict[Path, Any]:
    """Call `work(part, *arguments)` for each part in `tasks`, as one task per part. Return {part: result}.

    progress: called with (parts done, parts in total). before: number of parts done earlier, added to both numbers.
    """
    running, results = dict[Future[Any], Path](), dict[Path, Any]()
    try:
        for part, arguments in tasks.items():
            running[executor.submit(_named, work, part, *arguments)] = part
        for task in as_completed(running):
            results[running[task]] = task.result()
            if progress:
                progress(before + len(results), before + len(running))
    except BrokenExecutor:
        raise DataError("a worker ended, perhaps for want of memory. Run the same command again.") from None
    finally:
        wait([task for task in running if not task.cancel()])  # they still write to the folder of the caller
    return results


def _named(work: Callable[..., Any], part: Path, *arguments: Any) -> Any:
    """Call `work` on the file `part`. Turn a ValueError into a DataError whose message begins with the path."""
    try:
        return work(part, *arguments)
    except ValueError as error:
        raise DataError(f"{part}: {error}") from None


class _Read(NamedTuple):
    """The result of reading a part (one file): folder of its items and terms, number of items, last line number."""

    folder: Path
    items: int
    lines: int


def table(
    first: FileOrPath,
    parts: Parts,
    columns: reading.Columns | None,
    folder: Path,
    progress: PhaseProgress | None = None,
    *,
    options: dict[str, Any],
    scale: str,
    features: str | None,
    **settings: Any,
) -> FeatureTable:
    """Read the texts of all parts like `reading.read`, and write their rows to `folder` like `features.table.table`.

    Workers count the terms of each part; once the vocabulary is fitted to all counts, they turn the texts into rows.
    first: an archive of the first parts. folder: must be visible to the workers. options: fields of `Opening`.
    settings: of the vectorizer, such as min_df.
    """
    features, settings = text_features(features, scale, settings)
    new = settings.pop("new", 0)
    settings = vectorizer.complete(**settings)
    read, frequency = dict[Path, _Read](), dict[str, int]()
    with TemporaryDirectory(dir=folder.absolute(), ignore_cleanup_errors=True) as temporary:
        work = Path(temporary)

        def rows(available: list[str], columns: reading.Columns) -> Iterator[Line]:
            if not columns.text or columns.features:
                raise DataError("--parts is for texts without numbers: name a column of text, and no --feature.")
            how = Opening(**options), available, columns, settings, work
            tasks = dict.fromkeys(parts.paths, how)
            read.update(run(parts.executor, read_part, tasks, phase_progress(progress, "reading")))
            before = 0
            for part in parts.paths:
                for term, texts in json.loads((read[part].folder / TERMS).read_text()).items():
                    frequency[term] = frequency.get(term, 0) + texts
                for line, *item in _lines(read[part].folder):
                    line += before
                    if len(item) > 1:
                        id, text, label, cells = item
                        yield line, Item(id or str(line), text, label, [], cells)
                    else:
                        yield line, item[0]
                before += read[part].lines

        items = reading.read(first, columns, folder=folder, rows=rows, **options)
        if DUPLICATE in items.skipped:
            count, line = items.skipped[DUPLICATE]
            raise DataError(
                f"With --parts ids must differ. {count:,} of column {items.columns.id!r} repeat, first at line {line:,}"
                " of all parts: name another column, or none (--id '')."
            )
        items.description["files"] = f"{len(parts.paths):,}"
        texts, size = cast(Sequence[str], items.texts), len(items.ids)
        vocabulary = vectorizer.fit_counts(frequency, size, settings, new)
        scaled, projection, words = scaling.fit(np.zeros((0, 0)), scale), None, None
        if features == "rich+latent":
            some = vectorizer.count([texts[at] for at in latent.fitted_texts(size).tolist()], vocabulary.settings)
            projection = fit_projection(scaled, vocabulary, [some], phase_progress(progress, "wording"))
        if duplicates.compared(duplicates.KEEP, size):
            words = vectorizer.joined([*map(vocabulary.words, vectorizer.count_all(texts, vocabulary.settings))])
        fitted = vocabulary.terms, vocabulary.document_frequency.tolist(), size, vocabulary.settings
        (work / FEATURES).write_text(json.dumps([*fitted, scaled]))
        if projection:
            np.save(work / PROJECTION, projection.numbers)
        tasks = {part: (own.folder, work) for part, own in read.items() if own.items}
        results = run(parts.executor, make_rows, tasks, phase_progress(progress, "rows"))
        with row_files.RowWriter(folder) as written:
            for part in (part for part in parts.paths if part in results):
                written.append(row_files.load(results[part][0], read[part].items))
                shutil.rmtree(results[part][0])
    word_counts = sum(counts for _, counts in results.values())
    return FeatureTable(
        row_files.load(folder, size), items.y, items, vocabulary, scaled, items.classes, projection, None,
        tuple(word_counts.tolist()), words, None, written.checksums,
    )  # fmt: skip


def _lines(folder: Path) -> Iterator[list[Any]]:
    """Yield the lines that `read_part` stored: [number, reason to skip it], or [number, id, text, label, details]."""
    with (folder / ITEMS).open(encoding="utf-8") as file:
        yield from chain.from_iterable(map(json.loads, file))


def read_part(
    part: Path, opening: Opening, available: list[str], columns: reading.Columns, settings: dict[str, Any], work: Path
) -> _Read:
    """Write the items of a part (one file), and the document frequency of each term, to a new folder in `work`.

    available: the columns that every part must have, then one more for the file name of the part.
    """
    folder, last, texts = work / token_hex(8), 0, list[str]()
    folder.mkdir()
    with open_source(part, opening) as source, (folder / ITEMS).open("x", encoding="utf-8") as file:
        reader = reader_for(source)
        parsed = READERS[reader].parse(source)
        for doubt in parsed.doubts:
            raise DataError(doubt.question)
        if reader in (ARCHIVE, MAIL, TEXT) or sorted(parsed.columns) != sorted(available[:-1]):
            names, own = name_list(available[:-1]), name_list(parsed.columns)
            raise DataError(f"a part must be a table with the columns {names}. Got {reader} with {own or 'none'}.")
        build = ItemBuilder(available, columns, source.name, lambda line: "")
        places = [parsed.columns.index(column) for column in available[:-1]]

        def items() -> Iterator[list[Any]]:
            for line, cells in parsed.rows:
                item = cells if isinstance(cells, str) else build(line, [*(cells[at] for at in places), part.name])
                yield [line, *([item] if isinstance(item, str) else (item.id, item.text, item.label, item.details))]

        rest = items()
        while block := [*islice(rest, CHUNK_LINES)]:
            file.write(json.dumps(block) + "\n")
            texts += [item[2] for item in block if len(item) > 2]
            last = block[-1][0]
    frequency = vectorizer.frequencies(vectorizer.count_all(texts, settings))
    (folder / TERMS).write_text(json.dumps(frequency))
    return _Read(folder, len(texts), last)


@lru_cache(1)
def _fitted(work: Path) -> tuple[vectorizer.Vocabulary, scaling.Scaling, latent.Projection | None]:
    terms, frequencies, size, settings, scaled = json.loads((work / FEATURES).read_text())
    saved = work / PROJECTION
    projection = latent.Projection(np.load(saved, allow_pickle=False)) if saved.exists() else None
    return vectorizer.Vocabulary(terms, np.array(frequencies), size, settings), scaled, projection


def make_rows(part: Path, items: Path, work: Path) -> tuple[Path, np.ndarray]:
    """Turn the items that `read_part` stored in the folder `items` into rows in a new folder in `work`.
    Return the new folder, and the word counts as in `FeatureTable`."""
    vocabulary, scaled, projection = _fitted(work)
    texts = [item[1] for _, *item in _lines(items) if len(item) > 1]
    with row_files.RowWriter(work / token_hex(8)) as written:
        counted = vectorizer.count_all(texts, vocabulary.settings)
        return written.folder, append_rows(written, counted, vocabulary, scaled, projection)
