"""Predict a folder of Parquet files, one file a task: whether the cost of a file stays the same however many there are,
and how long 10^9 items would take."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated

import pyarrow as pa
import typer
from common import machine, table
from jobs import alone, texts
from pyarrow import parquet

from oal_engine import datasets
from oal_engine.datasets import Dataset
from oal_engine.sessions import model
from oal_engine.sessions.files import model_file
from oal_engine.sessions.files.predicting import Prediction, predict_parts
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store

MANY = 10**9
LABELS = 300


def learn(folder, features):
    """Write a model of 20,000 texts."""
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


def write_parts(folder, parts, items):
    """Write files of texts, as another program would."""
    some, _ = texts(items)
    for k in range(parts):
        ids = [f"{k}-{j}" for j in range(items)]
        parquet.write_table(pa.table({"id": ids, "text": some}), folder / f"part-{k:05}.parquet")


def predict(folder, out, workers):
    """Predict the files of a folder. Return the seconds after which each was complete, and the most memory of a worker
    in MB."""
    how, begun, done = Prediction(folder.parent / "model.json.gz", "parquet", (), None, False, None, {}), 0.0, []
    with ProcessPoolExecutor(workers, get_context("spawn")) as executor:
        begun = perf_counter()
        predict_parts(how, folder, out, executor, lambda *_: done.append(perf_counter() - begun))
    return done, getrusage(RUSAGE_CHILDREN).ru_maxrss / 1024


def main(
    parts: Annotated[int, typer.Option(min=8, help="Files.")] = 100,
    items: Annotated[int, typer.Option(min=1000, help="Texts of each file.")] = 100_000,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    features: Annotated[str, typer.Option(help="Features of the texts: rich, latent or words.")] = "words",
):
    """Predict many files with the model of a session of 300 labels."""
    with TemporaryDirectory(prefix="oal-parts-") as temporary:
        folder = Path(temporary)
        alone(learn, folder, features)
        (folder / "parts").mkdir()
        alone(write_parts, folder / "parts", parts, items)
        done, megabytes = alone(predict, folder / "parts", folder / "out", workers).result
    quarter = parts // 4
    first, last = done[2 * quarter] - done[quarter], done[-1] - done[-1 - quarter]
    each = (done[-1] - done[quarter]) / (parts - quarter - 1)  # without the start of the workers
    hours = MANY / items * each / 3600
    print(f"{parts:,} files of {items:,} texts ({features}), {workers} processes, {machine()['processor']}.\n")
    lines = [
        ["seconds a file, second quarter", f"{first / quarter:.2f}"],
        ["seconds a file, last quarter", f"{last / quarter:.2f}"],
        ["microseconds an item", f"{1e6 * each / items:.1f}"],
        ["most memory of a process (MB)", f"{megabytes:,.0f}"],
        [f"{MANY:,} items on {workers} such cores (hours)", f"{hours:.1f}"],
        [f"{MANY:,} items on 64 such cores (hours, by calculation)", f"{hours * workers / 64:.2f}"],
    ]
    print("\n".join(table(["", "measured"], lines)))


if __name__ == "__main__":
    typer.run(main)
