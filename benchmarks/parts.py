"""Predict or (with `--import`) import a folder of Parquet files, one file per task: `python benchmarks/parts.py`.
Measure whether the cost of a file is independent of the number of files, and how long 10^9 items would take."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated

import pyarrow as pa
import typer
from common import SEED, machine, table
from jobs import alone, texts
from pyarrow import parquet

from oal_engine import datasets
from oal_engine.datasets import Dataset, parts, reading
from oal_engine.sessions import model
from oal_engine.sessions.files import model_file
from oal_engine.sessions.files.predicting import Prediction, predict_parts
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store

MANY = 10**9
LABELS = 300
CORES = 64
PHASES = {"reading": "read and count a file", "rows": "make the rows of a file"}


def learn(folder, features):
    """Train a model in a session over 20,000 texts, and write it to a file."""
    path = folder / "known.csv"
    some, positive = texts(20_000)
    path.write_text("text,label\n" + "".join(f"{text},{int(y)}\n" for text, y in zip(some, positive)))
    store = Store(folder / "studio.db")
    request = datasets.ImportRequest(features=features)
    dataset, _ = datasets.import_file(store, path, "known", request=request)
    session, truth = Session(store, create(store, dataset, "auto", budget=LABELS)), Dataset(store, dataset).y
    while asked := session.place.asked:
        session.answer(f"answer {asked.id}", asked.id, int(truth[asked.item]))
    with (folder / "model.json.gz").open("wb") as file:
        model_file.write(model.of_session(session), file)


def write_parts(folder, count, items):
    """Write `count` Parquet files with `items` texts each, as another program would."""
    for k in range(count):
        ids = [f"{k}-{j}" for j in range(items)]
        parquet.write_table(pa.table({"id": ids, "text": texts(items, SEED + k)[0]}), folder / f"part-{k:05}.parquet")


def timed(work, workers):
    """Run work(executor, progress). Return {phase: seconds after which each file was complete}, and two pairs for this
    process and its workers: processor seconds, and peak memory in MB."""
    begun, done = perf_counter(), {}

    def progress(phase, *_):
        done.setdefault(phase, []).append(perf_counter() - begun)

    with ProcessPoolExecutor(workers, get_context("spawn")) as executor:
        work(executor, progress)
    used = [getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN)]
    return done, [each.ru_utime + each.ru_stime for each in used], [each.ru_maxrss / 1024 for each in used]


def predict(folder, workers, _):
    """Predict the files of a folder, and return the result of `timed`."""
    how = Prediction(folder.parent / "model.json.gz", "parquet", (), None, False, None, {})
    out = folder.parent / "out"
    return timed(
        lambda executor, progress: predict_parts(how, folder, out, executor, lambda *done: progress("predict", *done)),
        workers,
    )


def import_parts(folder, workers, features):
    """Import the files of a folder as one data set, and return the result of `timed`."""
    paths, columns = parts.parts_of(folder), reading.Columns(("text",), id="id")
    store, request = Store(folder.parent / "studio.db"), datasets.ImportRequest(features=features)

    def work(executor, progress):
        with parts.first_parts(paths) as first:
            many = parts.Parts(paths, executor)
            datasets.import_file(store, first, "parts", columns, request, progress, parts=many)

    return timed(work, workers)


def main(
    count: Annotated[int, typer.Option("--parts", min=8, help="Files.")] = 100,
    items: Annotated[int, typer.Option(min=1000, help="Texts of each file.")] = 100_000,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    features: Annotated[str, typer.Option(help="Features of the texts: rich, latent or words.")] = "words",
    importing: Annotated[bool, typer.Option("--import", help="Import the files, and predict none.")] = False,
):
    """Predict many files with the model of a session of 300 labels, or import them."""
    with TemporaryDirectory(prefix="oal-parts-") as temporary:
        folder = Path(temporary)
        if not importing:
            alone(learn, folder, features)
        (folder / "parts").mkdir()
        alone(write_parts, folder / "parts", count, items)
        work = import_parts if importing else predict
        done, (main_seconds, worker_seconds), megabytes = alone(work, folder / "parts", workers, features).result
    print(f"{count:,} files of {items:,} texts ({features}), {workers} processes, {machine()['processor']}.\n")
    quarter, lines = count // 4, []
    for phase, ends in done.items():
        if len(ends) == count:  # not the work of the main process alone
            quarters = [(ends[(k + 1) * quarter - 1] - ends[k * quarter - 1]) / quarter for k in (1, 2, 3)]
            seconds = ", ".join(f"{each:.2f}" for each in quarters)
            lines.append([f"{PHASES.get(phase, phase)}: seconds, by quarter of the files from the second on", seconds])
    lines += [
        [
            "processor time of a file, workers and main process (s)",
            f"{worker_seconds / count:.2f}, {main_seconds / count:.2f}",
        ],
        ["most memory of a worker and of the main process (MB)", f"{megabytes[1]:,.0f}, {megabytes[0]:,.0f}"],
    ]
    for cores in (workers, CORES):
        hours = MANY / items * (worker_seconds / cores + main_seconds) / count / 3600
        lines.append([f"{MANY:,} items on {cores} such cores, by processor time (hours)", f"{hours:.1f}"])
    print("\n".join(table(["", "measured"], lines)))


if __name__ == "__main__":
    typer.run(main)
