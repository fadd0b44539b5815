"""Compare the cost of whole jobs with the least that they could cost: `python benchmarks/jobs.py`. This least cost, the
floor, is measured in the same run with another tool or with the kernel alone. The result is the ratio of a job's cost
to its floor.

Each job runs in a process of its own, which has its own memory. To add a job, write its function, which yields objects
of the class Line, and name it in JOBS.
"""

import json
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from math import inf
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Annotated, NamedTuple
from uuid import uuid4

import comparisons
import load
import numpy as np
import typer
from common import SEED, Shape, Stream, machine, number, race, table
from common import ours as our_replay
from peers import PEERS
from throughput import check

from oal_engine import datasets, experiments
from oal_engine.datasets import reading
from oal_engine.experiments import running
from oal_engine.kernel import rows, stream
from oal_engine.sessions.files import export
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared" / "data"
WORDS = 100_000  # of the synthetic texts
POSITIVE = 0.02
COLUMNS = reading.Columns(("text",), "label", "id", positive=("1",))
REAL = {"a9a": "a9a.libsvm.xz", "w8a": "w8a.libsvm.xz", "ohsumed": "ohsumed_single23.jsonl.xz"}
REAL_AIMS = {"C loop": 0.8, "Vowpal Wabbit": 15, "river": 100}
COMMITS = 200


class Line(NamedTuple):
    """The result of a job: its floor (the least cost), the ratio of its cost to the floor, the aim (largest ratio), and
    the figures behind the ratio. least: whether `ratio` says how many times as fast ours is; `aim` is then the smallest
    ratio."""

    job: str
    floor: str
    ratio: float
    aim: float
    figures: str
    least: bool = False

    @property
    def met(self):
        """Whether the aim is met."""
        return self.ratio >= self.aim if self.least else self.ratio <= self.aim


class Cost(NamedTuple):
    """The cost of a call: elapsed seconds, processor seconds including child processes, peak memory in MB, and its
    result."""

    seconds: float
    processor: float
    megabytes: float
    result: object = None


def alone(work, *arguments):
    """Call a function in a fresh process, which does its imports before the clock starts, and return the cost of the
    call."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(_measured, work, *arguments).result()


def _measured(work, *arguments):
    begun, used = perf_counter(), process_time()
    result = work(*arguments)
    seconds, processor = perf_counter() - begun, process_time() - used
    done = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    processor += done[1].ru_utime + done[1].ru_stime
    return Cost(seconds, processor, max(each.ru_maxrss for each in done) / 1024, result)


def texts(count, seed=SEED):
    """Generate short texts of 6 to 16 words by Zipf's law, and return them with an array that marks the positive ones.
    Positive texts have some words of their own."""
    rng = np.random.default_rng(seed)
    positive = rng.random(count) < POSITIVE
    sizes = rng.integers(6, 17, count)
    chances = 1 / np.arange(1, WORDS + 1)
    words = rng.choice(WORDS, sizes.sum(), p=chances / chances.sum())
    own = np.repeat(positive, sizes) & (rng.random(words.size) < 0.3)
    words[own] = 1000 + words[own] % 50
    names = np.array([f"w{k:x}" for k in range(WORDS)], object)[words].tolist()
    ends = np.cumsum(sizes).tolist()
    return [" ".join(names[start:end]) for start, end in zip([0, *ends], ends)], positive


def written(path, some, positive, first=0):
    """Write texts to a CSV file, and return its path."""
    with path.open("w") as file:
        file.write("id,text,label\n")
        file.writelines(f"{k},{text},{int(y)}\n" for k, (text, y) in enumerate(zip(some, positive), first))
    return path


# Import, predictions, opening: one data set of many texts


def import_texts(path, database):
    store = Store(database)
    dataset, _ = datasets.import_file(store, path, "texts", COLUMNS, datasets.ImportRequest(features="words"))
    return sum(file.stat().st_size for file in datasets.Dataset(store, dataset).folder.iterdir()) / 2**20


def count_words(count):
    from sklearn.feature_extraction.text import CountVectorizer

    some = texts(count)[0]
    start = process_time()
    CountVectorizer().fit_transform(some)
    return process_time() - start


def imports(folder, count, _):
    some, positive = texts(count)
    path = written(folder / "texts.csv", some, positive)
    floor = alone(count_words, count).result
    cost = alone(import_texts, path, folder / "studio.db")
    yield Line(
        f"import of {count:,} short texts, words alone: seconds", "processor time of CountVectorizer on the same texts",
        cost.seconds / floor, 1.0, f"{cost.seconds:.1f} s ({cost.processor:.1f} s of processor time), {floor:.1f} s",
    )  # fmt: skip
    yield Line(
        "the same: peak memory", "its rows + 300 MB", cost.megabytes / (cost.result + 300), 1.0,
        f"{cost.megabytes:,.0f} MB, rows {cost.result:,.0f} MB",
    )  # fmt: skip


def labelled(database, budget):
    """Create a session, spend its budget on the data's own labels, and return its id."""
    store = Store(database)
    dataset = store.dataset("texts")["id"]
    rule = {"rule": "asymmetric", "parameters": {"delta_plus": 0.2, "delta_minus": 0.02}}
    session = create(store, dataset, learner="pa-i", budget=budget, **rule)
    opened, truth = Session(store, session), datasets.Dataset(store, dataset).y
    while asked := opened.place.asked:
        opened.answer(uuid4().hex, asked.id, int(truth[asked.item]))
    return session


def predict(database, session, kind, path):
    export.export(Store(database, read_only=True), session, "predictions", kind, path)


def rewrite(source, kind, path):
    from pyarrow import csv, parquet

    content = parquet.read_table(source)
    start = perf_counter()
    csv.write_csv(content, path) if kind == "csv" else parquet.write_table(content, path)
    return perf_counter() - start


def predictions(folder, count, answers):
    database = folder / "studio.db"
    session = alone(labelled, database, answers).result
    for kind in ("parquet", "csv"):
        path = folder / f"predictions.{kind}"
        cost = alone(predict, database, session, kind, path)
        floor = alone(rewrite, folder / "predictions.parquet", kind, folder / "again").result
        yield Line(
            f"predictions of {count:,} items as {kind}", "pyarrow writes the same table", cost.seconds / floor, 2.0,
            f"{cost.seconds:.1f} s, {floor:.1f} s",
        )  # fmt: skip
    opening = alone(open_session, database, session)
    answered, seconds, replayed = opening.result
    yield Line(
        f"opening a session of {answered:,} answers on {count:,} items", "the kernel replays them",
        seconds / replayed, 2.0, f"{seconds:.2f} s, {replayed:.2f} s",
    )  # fmt: skip


def open_session(database, session):
    """Open a session, and replay its rounds with the kernel alone. Return the number of its answers, the seconds to
    open it, and the seconds of the replay."""
    store = Store(database)
    opened = Session(store, session)  # compiles
    start = perf_counter()
    opened = Session(store, session)
    seconds, replayed = perf_counter() - start, []
    for _ in range(2):
        learner, rule = opened.strategy.build(opened.dataset.rows.columns)
        done = stream.replay(
            opened.dataset.rows, opened.y, opened.order, learner, rule, stream.objective(),
            budget=opened.settings.budget, seed=opened.settings.seed,
        )  # fmt: skip
        replayed.append(done.seconds)
    return len(opened.labels), seconds, min(replayed)


# Append


def command(database, *arguments, lines=None):
    start = perf_counter()
    subprocess.run(
        [sys.executable, "-m", "oal_engine", *arguments, "--db", database],
        cwd=ROOT, check=True, capture_output=True, stdin=lines,
    )  # fmt: skip
    return perf_counter() - start


def appends(folder, count, _):
    some, positive = texts(count // 10, SEED + 1)
    first, positive_first = texts(count // 10)
    database, path = folder / "append.db", folder / "lines.jsonl"
    with path.open("w") as file:
        for k, (text, y) in enumerate(zip(some, positive)):
            file.write(json.dumps({"id": f"n{k}", "text": text, "label": int(y)}) + "\n")
    settings = ("--text", "text", "--label", "label", "--id", "id", "--features", "words")
    small = written(folder / "first.csv", first, positive_first)
    command(database, "import", small, "--name", "small", *settings)
    floor = command(database, "import", path, "--name", "large", *settings)
    with path.open("rb") as lines:
        seconds = command(database, "append", "small", "-", lines=lines)
    yield Line(
        f"append of {len(some):,} lines from a pipe to as many", "import of the same lines", seconds / floor, 1.5,
        f"{seconds:.1f} s, {floor:.1f} s",
    )  # fmt: skip


# Labels


def commits(folder):
    """Measure a synchronous commit of as many rows as an answer writes. Return the median milliseconds."""
    store = Store(folder / "commits.db")
    path = store.path
    store.close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, event TEXT UNIQUE, words TEXT)")
    times = []
    for _ in range(COMMITS):
        start = perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        for _ in range(6):  # a label, the question's number, the counter, and a question after each of three answers
            connection.execute("INSERT INTO rows (event, words) VALUES (?, ?)", (uuid4().hex, "words" * 40))
        connection.execute("COMMIT")
        times.append(perf_counter() - start)
    connection.close()
    return 1000 * float(np.median(times))


def acknowledged(folder, count, _):
    floor = commits(folder)
    done = load.run(annotators=1, minutes=max(0.05, min(1, count / 1_000_000)), items=2000, strategies=("CSPAA",))
    p50 = done["acknowledged_ms"]["p50"]
    yield Line("from a key to acknowledged, p50", "one synchronous commit of the same rows", p50 / floor, 2.0,
               f"{p50:.1f} ms (aim 35 ms), {floor:.1f} ms")  # fmt: skip


# Comparisons and tuning


def compares(folder, count, _):
    yield from compared("compare, two threads", 2, 1.5, folder, count)


def compared(job, workers, aim, folder, count):
    if not comparisons.A9A.exists():
        return
    permutations = 2 if count >= 1_000_000 else 1
    spec = experiments.specification(comparisons.SPECIFICATION | {"permutations": permutations})
    store = Store(folder / "comparison.db")
    kernel = comparisons.kept(store, spec)["kernel_seconds"]
    lines, seconds = comparisons.timed(spec, store, "threads", workers)
    replays = sum(len(line.counts) for line in lines)
    yield Line(f"{job}: {replays:,} replays of a9a", f"kernel time of its replays / {workers}",
               seconds * workers / kernel, aim, f"{seconds:.1f} s, {kernel:.1f} s")  # fmt: skip


def tunes(folder, count, _):
    if not comparisons.A9A.exists():
        return
    permutations = 20 if count >= 1_000_000 else 2
    values = comparisons.SPECIFICATION | {"permutations": permutations, "tune": "hindsight", "points": 1}
    spec, store = experiments.specification(values), Store(folder / "tuning.db")
    lines, seconds = {}, {}
    for how, pays in (("one by one", inf), ("together", 0)):
        running.PASS_PAYS_ROUNDS = pays
        lines[how], seconds[how] = comparisons.timed(spec, store, "threads", 1)
    if not np.array_equal(*(each.counts for (each,) in lines.values())) or not all(
        one.trials == other.trials for one, other in zip(*lines.values())
    ):
        raise SystemExit("settings together and one by one do not agree.")
    yield Line(
        f"tuning: 121 settings x {permutations} orders of a9a", f"{121 * permutations:,} single replays",
        seconds["one by one"] / seconds["together"], 3,
        f"{seconds['together']:.1f} s, {seconds['one by one']:.1f} s", True,
    )  # fmt: skip


# Rounds on real rows


def real(name):
    """Read a file of the shared data. Return a Stream in stored order. name: a key of REAL."""
    path = SHARED / REAL[name]
    if name == "ohsumed":
        items = reading.read(path, reading.Columns(("text",), "label", "id", positive=("C14",)))
        made = datasets.table(items, features="words")
        found, y = made.rows, made.y
    else:
        items = reading.read(path)
        found, y = rows.as_rows(items.vectors), items.y
    filled = found.values.size // rows.length(found)
    return Stream(found, y, np.arange(y.size), Shape(y.size, found.columns, filled))


def rounds(folder, count, _):
    for name in REAL:
        if not (SHARED / REAL[name]).exists():
            continue
        data = real(name).first(max(2000, min(count, 10**9)))
        starts, parts = {"ours": our_replay(data, "pa-i")}, {"ours": data}
        for peer in PEERS:
            if peer.name in REAL_AIMS:
                part = data.first(peer.sparse)
                try:
                    run = peer.prepare(part)
                except (ImportError, OSError, subprocess.SubprocessError):
                    continue
                check(peer.name, run(), part)
                parts[peer.name], starts[peer.name] = part, lambda run=run: run
        speed = {key: parts[key].order.size / time for key, (_, time) in race(starts, 3).items()}
        for peer, bound in REAL_AIMS.items():
            if peer in speed:
                yield Line(
                    f"PA-I with the rule symmetric on {name}", f"rounds of {peer}", speed["ours"] / speed[peer], bound,
                    f"{speed['ours'] / 1e6:.2f} and {speed[peer] / 1e6:.3f} million a second", True,
                )  # fmt: skip


JOBS: dict[str, Callable] = {
    "import": imports,
    "predictions": predictions,  # of the imported texts
    "append": appends,
    "acknowledged": acknowledged,
    "compare": compares,
    "tuning": tunes,
    "rounds": rounds,
}


def sections(lines, host):
    """Yield the lines as Markdown."""
    yield f"{host['processor']}, {host['cores']} cores, load {host['load']} at the start."
    yield ""
    yield from table(
        ("job", "floor", "times the floor", "aim", "", "figures"),
        (
            (
                line.job, line.floor, number(line.ratio), f"{'at least' if line.least else 'at most'} {line.aim:g}",
                "met" if line.met else "**missed**", line.figures,
            )
            for line in lines
        ),
    )  # fmt: skip


@contextmanager
def workplace(folder):
    """Yield the folder, which is created if necessary, or a temporary folder if it is None."""
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
    else:
        with TemporaryDirectory(prefix="oal-jobs-") as temporary:
            yield Path(temporary)


def main(
    items: Annotated[int, typer.Option(min=2000, help="Texts of the import.")] = 1_000_000,
    answers: Annotated[int, typer.Option(min=10, help="Answers of the session that is opened.")] = 10_000,
    job: Annotated[list[str] | None, typer.Option(help=f"Only this one of {', '.join(JOBS)}, and this.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Where files are made (default: removed in the end).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Measure whole jobs, and compare each with the least that it could cost."""
    host = machine()
    with workplace(folder) as place:
        lines = [line for name in job or JOBS for line in JOBS[name](place, items, answers)]
    if as_json:
        print(json.dumps([line._asdict() | {"met": bool(line.met)} for line in lines]))
    else:
        print("\n".join(sections(lines, host)))


if __name__ == "__main__":
    typer.run(main)
