"""Helpers that the benchmarks share: data, rows, a fair clock, a description of the machine, and tables."""

import os
import platform
import sys
from datetime import date
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parent.parent))

from oal_engine.datasets import demo, reading
from oal_engine.kernel import learners, query_rules, rows, stream
from oal_engine.kernel.learners import LEARNERS

SEED = 7
POSITIVE = 0.1
DELTA = 0.03  # with it, PA-I asks in a few percent of the rounds
SHARED = Path(__file__).parents[2] / "shared" / "data"
MOMENTS = "happymoments.csv.xz", {"text": ("moment",), "label": "concepts", "id": "hmid", "contains": True}
OHSUMED, NEWS = (
    (file, {"text": ("text",), "label": "label", "id": "id"})
    for file in ("ohsumed_single23.jsonl.xz", "20news_bydate.jsonl.xz")
)
REVIEWS = {"text": ("title", "abstract"), "label": "label_included", "positive": ("1",)}
LETTERS = "mlbench_LetterRecognition.csv.xz", {"label": "lettr"}
DIGITS, COVERS = ("usps_zip_train.csv.xz", {"label": "c1"}), ("covtype_sample20k.csv.xz", {"label": "c55"})
STREAMS = {  # name: the file, the roles of its columns, and which of its labels is learned
    "sms": ("sms_spam_collection.tsv.xz", {"text": ("c2",), "label": "c1"}, {"positive": ("spam",)}),
    "exercise": (*MOMENTS, {"positive": ("exercise",)}),
    "animals": (*MOMENTS, {"positive": ("animals",)}),
    "food": (*MOMENTS, {"positive": ("food",)}),
    "heart": (*OHSUMED, {"positive": ("C14",)}),
    "tumours": (*OHSUMED, {"positive": ("C04",)}),
    "space": (*NEWS, {"positive": ("sci.space",)}),
    "nudging": ("sysrev_Nagtegaal_2019.csv.xz", REVIEWS, {}),
    "ACE inhibitors": ("sysrev_cohen2006_ACEInhibitors.csv.xz", REVIEWS, {}),
    "autos": (*NEWS, {"positive": ("rec.autos",)}),
    "letter A": (*LETTERS, {"positive": ("A",)}),
    "digit 0": (*DIGITS, {"positive": ("0",)}),
    "spambase": ("spambase.csv.xz", {"label": "spam"}, {"positive": ("spam",)}),
    "ijcnn1": ("ijcnn1_train.libsvm.xz", {}, {}),
    "cover 1": (*COVERS, {"positive": ("1",)}),
    "rain": ("weather.csv.xz", {"label": "target"}, {"positive": ("1",)}),
    "a9a": ("a9a.libsvm.xz", {}, {}),
    "w8a": ("w8a.libsvm.xz", {}, {}),
}
OF_CLASSES = {  # streams whose classes are all learned
    name: (*columns, {"multiclass": True})
    for name, columns in (("ohsumed, 23 classes", OHSUMED), ("letter, 26 classes", LETTERS),
                          ("usps, 10 classes", DIGITS), ("covtype, 7 classes", COVERS))
}  # fmt: skip
PACKAGES = ("numpy", "scipy", "numba", "river", "scikit-learn", "scikit-activeml", "vowpalwabbit")


def read_stream(name, **roles):
    """Read the items of a stream of STREAMS or OF_CLASSES, or of a demo; None if its file is missing. roles: further
    roles of the columns."""
    if name in demo.DEMOS:
        shown = demo.DEMOS[name]
        return reading.read(demo.FOLDER / shown.file, shown.columns)
    file, columns, learned = (STREAMS | OF_CLASSES)[name]
    path = SHARED / file
    return reading.read(path, reading.Columns(**columns | learned | roles)) if path.is_file() else None


class Shape(NamedTuple):
    """The size of a stream: the number of rows (`count`), of features, of non-zeros in a row (`filled`), and of classes
    (0: positives and negatives)."""

    count: int
    features: int
    filled: int
    classes: int = 0


class Stream(NamedTuple):
    """Rows, their labels (-1 and +1, or 1 .. K), the order of the items, and their shape."""

    rows: rows.SparseRows | rows.DenseRows
    y: np.ndarray
    order: np.ndarray
    shape: Shape

    def first(self, rounds):
        """Return this stream cut after its first `rounds` rounds."""
        return self._replace(order=self.order[:rounds])


def synthetic(shape, permuted=False):
    """Generate a stream of rows of unit length. Each row has one non-zero in each of `filled` equal blocks of columns,
    so that indices are sorted and unique. permuted: whether the order of the items is random."""
    count, features, filled, classes = shape
    rng = np.random.default_rng(SEED)
    columns = np.arange(filled) * (features // filled) + rng.integers(features // filled, size=(count, filled))
    kind = rng.integers(classes, size=count) if classes else (rng.random(count) < POSITIVE).astype(int)
    values = rng.normal(size=columns.shape) + rng.normal(size=(max(classes, 2), features))[kind[:, None], columns]
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    if filled < features:
        values = csr_array((values.ravel(), columns.ravel(), np.arange(count + 1) * filled), shape=(count, features))
    y = rows.read_only(kind + 1 if classes else 2 * kind - 1, np.int8)
    order = stream.shuffled(count, SEED) if permuted else np.arange(count)
    return Stream(rows.as_rows(values), y, order, shape)


def fitting(shape):
    """Return the names of the learners that fit the classes of a shape, binary or multi-class."""
    return [name for name, kind in LEARNERS.items() if getattr(kind, "multiclass", False) == bool(shape.classes)]


def own_rule(name):
    """Return the name of the query rule made for a learner, or `symmetric` if it has none."""
    return {"covariance": "variance", "adaptive": "discriminative"}.get(
        getattr(LEARNERS[name], "provides", None), "symmetric"
    )


def contestant(shape, learner, rule=None):
    """Build a fresh learner and its query rule from their names."""
    rule = rule or own_rule(learner)
    classes = {"classes": shape.classes} if shape.classes else {}
    deltas = {"delta": DELTA} if rule == "symmetric" else {}
    return learners.build(learner, shape.features, **classes), query_rules.build(rule, learner, deltas)


def ours(data, learner, rule=None, **options):
    """Return a factory: each call builds a fresh learner and returns our replay of the stream as a function without
    arguments, to be timed."""

    def start():
        parts = contestant(data.shape, learner, rule)
        return partial(stream.replay, data.rows, data.y, data.order, *parts, stream.objective(), seed=SEED, **options)

    return start


def fastest(start, seconds):
    """Prepare a run with `start()` and time it, again and again until `seconds` of processor time are used. Return the
    result and the shortest processor time."""
    times = []
    while sum(times) < seconds or not times:
        run = start()
        before = process_time()
        result = run()
        times.append(process_time() - before)
    return result, min(times)


def race(starts, passes, seconds=0.1):
    """Time runs that take turns, so that a busy machine slows all alike. Return {name: (result, shortest processor
    time)}."""
    best = {}
    with threadpool_limits(1):  # idle threads that spin would add to the processor time of the next run
        for _ in range(passes):
            for name, start in starts.items():
                result, time = fastest(start, seconds)
                best[name] = result, min(time, best.get(name, (None, time))[1])
    return best


def table(heads, lines):
    """Return the lines of a Markdown table, readable in a terminal too; columns of numbers are right-aligned."""
    lines = [["" if cell is None else str(cell) for cell in line] for line in lines]
    columns = [(head, *(line[k] for line in lines)) for k, head in enumerate(heads)]
    rules, padded = [], []
    for column in columns:
        width, numbers = max(3, *map(len, column)), all(cell[:1] in "-0123456789" for cell in column[1:])
        rules.append("-" * (width - 1) + (":" if numbers else "-"))
        padded.append([cell.rjust(width) if numbers else cell.ljust(width) for cell in column])
    first, *rest = zip(*padded)
    return ["| " + " | ".join(line) + " |" for line in (first, rules, *rest)] + [""]


def number(value, digits=3):
    """Format a positive number with `digits` significant digits and thousands separators."""
    return f"{float(f'{value:.{digits}g}'):,.10g}"


def installed(package):
    """Return the version of a package, or "not installed"."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def machine():
    """Return a dict that describes this machine: the date, the hardware, its load, and the versions of the packages."""
    cpuinfo = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = [line.partition(":")[2].strip() for line in cpuinfo.splitlines() if line.startswith("model name")]
    return {
        "date": str(date.today()),
        "processor": (names or [platform.processor()])[0],
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load": round(os.getloadavg()[0], 1),
        "system": platform.system(),
        "python": platform.python_version(),
        "packages": {package: installed(package) for package in PACKAGES},
    }
