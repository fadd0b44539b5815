"""Rounds per second of the kernel beside a plain numpy loop and river: PA-I, asymmetric query rule, no budget.

All visit the same seeded rows in the same order with the same draws and count every prediction; the script stops unless
they ask the same questions and end with the same counts and weights.
"""

import json
import sys
from pathlib import Path
from time import thread_time
from typing import Annotated, NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from scipy.sparse import csr_array

sys.path.insert(0, str(Path(__file__).parent.parent))

from oal_engine import learners, metrics, query_rules, rows, stream

try:
    from river.linear_model import PAClassifier
    from river.utils.math import dot
except ImportError:
    PAClassifier = None

SHAPES = {"dense 200k x 54": (200_000, 54, 54), "sparse 100k x 50k": (100_000, 50_000, 57)}  # the last: non-zeros a row
POSITIVE = 0.1
C, DELTA_PLUS, DELTA_MINUS = 1.0, 0.05, 0.02  # these deltas ask a few percent of the rounds
SEED = 7
RIVER_ROUNDS = 40_000  # a row takes 3 kB as a dictionary


class Stream(NamedTuple):
    """Rows, their labels -1 and +1, the order of visit and the draw of each round."""

    rows: rows.SparseRows | rows.DenseRows
    y: np.ndarray
    order: np.ndarray
    draws: np.ndarray


def synthetic(count, features, filled):
    """Unit rows with one random column in each of `filled` equal blocks, so that indices are sorted and unique."""
    rng = np.random.default_rng(SEED)
    columns = np.arange(filled) * (features // filled) + rng.integers(features // filled, size=(count, filled))
    y = np.where(rng.random(count) < POSITIVE, 1, -1).astype(np.int8)
    values = rng.normal(size=columns.shape) + y[:, None] * rng.normal(size=features)[columns]
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    if filled < features:
        values = csr_array((values.ravel(), columns.ravel(), np.arange(count + 1) * filled), shape=(count, features))
    return rows.as_rows(values), y


def kernel(data):
    learner = learners.build("pa-i", data.rows.columns, {"C": C})
    rule = query_rules.build("asymmetric", "pa-i", {"delta_plus": DELTA_PLUS, "delta_minus": DELTA_MINUS})
    done = stream.replay(data.rows, data.y, data.order, learner, rule, stream.objective(), seed=SEED, log=True)
    return done.log[:, 0], done.counts, learner.w


def asks(p, u):
    delta = DELTA_PLUS if p >= 0 else DELTA_MINUS
    return u < delta / (delta + abs(p))


def step(p, y, xx):
    return min(C, max(0.0, 1 - y * p) / xx) * y


def numpy_dense(data):
    w, counts, questions = np.zeros(data.rows.columns), np.zeros(metrics.COUNTS, int), []
    matrix, y, draws = rows.matrix(data.rows), data.y, data.draws
    for t, i in enumerate(data.order):
        x = matrix[i]
        p = x @ w
        asked = asks(p, draws[t])
        counts[int(p >= 0), y[i] + 1, int(asked)] += 1
        if asked:
            questions.append(t)
            w += step(p, y[i], x @ x) * x
    return questions, counts, w


def numpy_sparse(data):
    w, counts, questions = np.zeros(data.rows.columns), np.zeros(metrics.COUNTS, int), []
    (indptr, indices, values, _), y, draws = data.rows, data.y, data.draws
    for t, i in enumerate(data.order):
        row = slice(indptr[i], indptr[i + 1])
        j, x = indices[row], values[row]
        p = x @ w[j]
        asked = asks(p, draws[t])
        counts[int(p >= 0), y[i] + 1, int(asked)] += 1
        if asked:
            questions.append(t)
            w[j] += step(p, y[i], x @ x) * x
    return questions, counts, w


def river(data, items):
    model, counts, questions = PAClassifier(C=C, mode=1, learn_intercept=False), np.zeros(metrics.COUNTS, int), []
    draws = data.draws.tolist()
    for t, (x, y) in enumerate(zip(items, data.y[data.order].tolist())):
        p = dot(x, model.weights)
        asked = asks(p, draws[t])
        counts[int(p >= 0), y + 1, int(asked)] += 1
        if asked:
            questions.append(t)
            model.learn_one(x, y > 0)
    w = np.zeros(data.rows.columns)
    w[list(model.weights)] = list(model.weights.values())
    return questions, counts, w


def dictionaries(data):
    """The rows in the order of visit as river takes them."""
    table = csr_array(rows.matrix(data.rows))[data.order]
    entries = list(zip(table.indices.tolist(), table.data.tolist()))
    return [dict(entries[start:stop]) for start, stop in zip(table.indptr, table.indptr[1:])]


def fastest(run, arguments, seconds=0.2):
    """What a run gives, and its shortest processor time (each runs in one thread) within so many seconds."""
    times = []
    while sum(times) < seconds:
        start = thread_time()
        result = run(*arguments)
        times.append(thread_time() - start)
    return result, min(times)


def compare(data, passes):
    """Rounds/s by contender, the best of all passes; they take turns, so that a busy machine is busy for all."""
    loop = numpy_sparse if isinstance(data.rows, rows.SparseRows) else numpy_dense
    contenders = {"kernel": (kernel, data), "numpy loop": (loop, data)}
    if PAClassifier:
        part = data._replace(order=data.order[:RIVER_ROUNDS])
        contenders["river"] = (river, part, dictionaries(part))
    expected = {name: kernel(part) for name, (_, part, *_) in contenders.items()}  # this also compiles it
    rates = dict.fromkeys(contenders, 0)
    for _ in range(passes):
        for name, (run, part, *more) in contenders.items():
            result, seconds = fastest(run, (part, *more))
            check(name, result, expected[name])
            rates[name] = max(rates[name], part.order.size / seconds)
    return rates


def check(name, result, expected):
    """Stop unless the same questions, counts and weights came out."""
    (questions, counts, w), (asked, counted, learned) = result, expected
    if not (np.array_equal(questions, asked) and np.array_equal(counts, counted) and np.allclose(w, learned)):
        raise SystemExit(f"{name} and the kernel do not agree: {len(questions)} and {len(asked)} questions.")


def show(results):
    table = Table(title="Thousand rounds a second (and how many times as fast the kernel is)")
    for title in ("rows", "order", "asked", "kernel", "numpy loop", "river"):
        table.add_column(title, justify="left" if title in ("rows", "order") else "right", no_wrap=True)
    for result in results:
        cells = [f"{rate / 1e3:,.0f}" + (f" ({result['ratios'][name]:.0f}x)" if name in result["ratios"] else "")
                 for name, rate in result["rounds_per_second"].items()]  # fmt: skip
        table.add_row(result["rows"], result["order"], f"{result['asked']:.1%}", *cells)
    Console().print(table)
    if not PAClassifier:
        print("river is not installed and was left out: pip install -r requirements-benchmark.txt")


def main(
    passes: Annotated[int, typer.Option(min=1, help="Turns of each contender; the best one counts.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Compare rounds per second on dense and sparse rows, in stored order and through a permutation."""
    results = []
    for shape, sizes in SHAPES.items():
        table, y = synthetic(*sizes)
        draws = np.array([stream.draw(SEED, t) for t in range(y.size)])
        for visit, order in {"stored": np.arange(y.size), "permuted": stream.shuffled(y.size, SEED)}.items():
            data = Stream(table, rows.read_only(y, np.int8), order, draws)
            rates, asked = compare(data, passes), len(kernel(data)[0]) / y.size
            ratios = {name: rates["kernel"] / rate for name, rate in rates.items() if name != "kernel"}
            result = {"rows": shape, "order": visit, "asked": asked, "rounds_per_second": rates, "ratios": ratios}
            results.append(result)
    print(json.dumps({"results": results})) if as_json else show(results)


if __name__ == "__main__":
    typer.run(main)
