"""Predict the items of a file with a model file, or of many files in parallel, one file per task."""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed, wait
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ...datasets.reading import VECTORS, Columns, Skipped, open_items
from ...datasets.reading.archives import in_order, is_junk
from ...datasets.reading.sources import LIMITS, DataError, Progress
from ...output import tables
from .. import model
from . import model_file

NOTES = "_predictions.json"  # in the output folder: model, options, and size and modification time of the inputs


class Prediction(NamedTuple):
    """The settings of a prediction: model file, output format, columns of the text and of the id, whether to write the
    texts too, folder of the embedding, and further arguments of the reader."""

    model: Path
    kind: str
    text: tuple[str, ...]
    id: str | None
    texts: bool
    embed: Path | None
    reading: dict[str, Any]


def predict_file(
    how: Prediction, source: Any, target: BinaryIO, progress: Callable[[int, int], None] | None = None,
    live: bool = False, vectors: Any = None,
) -> Skipped:  # fmt: skip
    """Write predictions for the items in a file. Return the skipped entries: {reason: (count, first line)}.

    live: whether to write each prediction as soon as its line is read. vectors: dense vectors of the texts. Raise
    ValueError if they are given for a model that takes none.
    """
    models = model_file.load_models(how.model, how.embed, how.reading.get("limits", LIMITS))
    learned = next(iter(models.values()))  # all models use the same rows
    skipped: Skipped = {}
    if vectors is not None and not learned.beside:
        raise ValueError(f"--vectors is for models of texts with vectors. {how.model} has none.")
    beside = learned.beside if vectors is None else (VECTORS,)
    columns = Columns(
        how.text, id=how.id, features=beside if learned.text else learned.table_columns, codings=learned.codings
    )
    with open_items(source, columns, progress=progress, vectors=vectors, width=learned.width, **how.reading) as opened:
        lot = 1 if live else tables.BLOCK_ROWS
        tables.write(model.predicted(models, *opened, skipped, how.texts, lot), how.kind, target)
    return skipped


def predict_parts(
    how: Prediction, folder: Path, out: Path, executor: Executor, progress: Callable[[int, int], None]
) -> tuple[int, Skipped]:
    """Write predictions for each file of a folder to a file in the folder `out`, one task per file. Files that were
    predicted before are left out, unless they have changed since. An output file appears when it is complete.

    Return the number of files that were predicted before, and the skipped entries of the others. All workers must be
    able to open the paths. Raise ValueError if `out` has predictions by another model or with other options.
    """
    suffix, digest = tables.FORMATS[how.kind].suffixes[0], sha256(how.model.read_bytes()).hexdigest()
    parts = parts_of(folder)
    targets = {out.resolve() / f"{part.stem}{suffix}": part for part in parts}
    if not parts or len(targets) < len(parts):
        raise ValueError(f"{folder} must have files with different names before the last dot. Got {len(parts)} files.")
    out.mkdir(parents=True, exist_ok=True)
    notes, recipe = out / NOTES, {"model": digest, "how": repr(how[1:])}
    try:
        noted = dict(json.loads(notes.read_text(encoding="utf-8")))
    except (FileNotFoundError, TypeError, ValueError):
        noted = {}
    if any(out.iterdir()) and {key: noted.get(key) for key in recipe} != recipe:
        raise ValueError(f"{out} must be empty, or hold predictions by the same model and options. It holds others.")
    now = {part.name: [(status := part.stat()).st_size, status.st_mtime_ns] for part in parts}
    for target, part in targets.items():
        if now[part.name] != noted.get("parts", {}).get(part.name):
            target.unlink(missing_ok=True)
    notes.write_text(json.dumps(recipe | {"parts": now}), encoding="utf-8")
    left = {part: target for target, part in targets.items() if not target.exists()}
    how = how._replace(model=how.model.resolve(), embed=how.embed and how.embed.resolve())
    skipped: Skipped = {}
    before, tasks = len(parts) - len(left), {part: (target, how) for part, target in left.items()}
    for each in run(executor, _predict_part, tasks, progress, before).values():
        for reason, (count, line) in each.items():
            skipped[reason] = skipped.get(reason, (0, line))[0] + count, line
    return before, skipped


def _predict_part(part: Path, target: Path, how: Prediction) -> Skipped:
    with tables.whole(target) as file:
        return predict_file(how, part, file)


def parts_of(folder: Path) -> list[Path]:
    """List the files of a folder in natural order (2.txt before 10.txt), without hidden files, system files, and files
    whose names begin with an underscore."""
    names = (path for path in folder.absolute().iterdir() if not is_junk(path.name) and path.name[0] != "_")
    return sorted((path for path in names if path.is_file()), key=lambda path: in_order(path.name))


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
