"""The peers of throughput.py: online learning that asks for labels, in a C loop, in numpy, and in other libraries.

A peer takes a stream, prepares everything that is not timed (compilation, files, rows in its own format), and returns a
function without arguments, the run, which starts from scratch at each call. The run returns the number of rounds asked.
The run of a twin (PA-I with the rule `symmetric` and our random draws) also returns these rounds, the counts by
[pushed, y + 1, asked], and the weights. To add a peer, write its function here and name it in PEERS.
"""

import ctypes
import re
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from common import DELTA, SEED
from scipy.sparse import csr_array

from oal_engine.kernel import rows
from oal_engine.kernel.draws import draws

C = 1.0
BUDGET = 0.05  # share of the rounds asked, for strategies that take a budget
COUNTS = (2, 3, 2)


class Result(NamedTuple):
    """The result of a run. queried: number of questions. For a twin, a library whose PA-I should equal ours, also the
    rounds in which they were asked, the confusion counts and the final weights."""

    queried: int
    questions: list | None = None
    counts: np.ndarray | None = None
    w: np.ndarray | None = None


def c_loop(data, flags=()):
    """Prepare PA-I (passive-aggressive) in C, compiled on the spot."""
    sparse = isinstance(data.rows, rows.SparseRows)
    with TemporaryDirectory() as folder:
        source, library = Path(__file__).with_name("pa_i.c"), Path(folder) / "pa_i.so"
        options = ["-O3", "-march=native", *flags, *["-DSPARSE"] * sparse, "-shared", "-fPIC"]
        subprocess.run(["cc", *options, "-o", library, source], check=True)
        loop = ctypes.CDLL(str(library)).replay
    loop.restype = ctypes.c_int64

    def pointers(*arrays):
        return [ctypes.c_void_p(array.ctypes.data) for array in arrays]

    features, rounds = data.shape.features, data.order.size
    table = [*(pointers(data.rows.indptr, data.rows.indices) if sparse else (None, None)), *pointers(data.rows.values)]
    visit = [ctypes.c_int64(features), *pointers(data.y, data.order)]
    numbers = ctypes.c_int64(rounds), ctypes.c_uint64(SEED), ctypes.c_double(C), ctypes.c_double(DELTA)

    def run():
        w, counts, questions = np.zeros(features), np.zeros(COUNTS, np.int64), np.empty(rounds, np.int64)
        queried = loop(*table, *visit, *numbers, *pointers(w, counts, questions))
        return Result(queried, questions[:queried], counts, w)

    return run


def played(data, items, margin, learn):
    """Run PA-I over prepared rows: predict with p = margin(x), and call learn(x, y, p) after each question. Return the
    number of questions, the rounds in which they were asked, and the confusion counts."""
    counts, questions = [0] * 12, []
    for t, (x, y, u) in enumerate(zip(items, data.y[data.order].tolist(), draws(SEED, data.order.size).tolist())):
        p = margin(x)
        asked = u < DELTA / (DELTA + abs(p))
        counts[6 * (p >= 0) + 2 * (y + 1) + asked] += 1
        if asked:
            questions.append(t)
            learn(x, y, p)
    return len(questions), questions, np.reshape(counts, COUNTS)


def entries(data):
    """Return (columns, values) of each row in the order of the items; the columns of a dense row are slice(None)."""
    table = rows.matrix(data.rows)[data.order]
    if isinstance(data.rows, rows.DenseRows):
        return [(slice(None), x) for x in table]
    ends = table.indptr[1:-1]
    return list(zip(np.split(table.indices, ends), np.split(table.data, ends)))


def numpy_loop(data):
    """Prepare PA-I in numpy."""
    items = entries(data)

    def run():
        w = np.zeros(data.shape.features)

        def learn(row, y, p):
            j, x = row
            w[j] += min(C, max(0.0, 1 - y * p) / (x @ x)) * y * x

        return Result(*played(data, items, lambda row: row[1] @ w[row[0]], learn), w)

    return run


def river(data):
    """Prepare river's PA-I, with river's inner product for the margin."""
    from river.linear_model import PAClassifier
    from river.utils.math import dot

    names = range(data.shape.features)
    items = [dict(zip(names if isinstance(j, slice) else j.tolist(), x.tolist())) for j, x in entries(data)]

    def run():
        model = PAClassifier(C=C, mode=1, learn_intercept=False)
        outcome = played(data, items, lambda x: dot(x, model.weights), lambda x, y, p: model.learn_one(x, y > 0))
        w = np.zeros(data.shape.features)
        w[list(model.weights)] = list(model.weights.values())
        return Result(*outcome, w)

    return run


def tables(data):
    """Return each row in the order of the items as a table of one row, with 32-bit indices for scikit-learn."""
    if isinstance(data.rows, rows.DenseRows):
        return list(rows.matrix(data.rows)[data.order][:, None])
    starts = np.array([0, data.shape.filled], np.int32)
    return [csr_array((x, j.astype(np.int32), starts), shape=(1, data.shape.features)) for j, x in entries(data)]


def scikit_learn(data):
    """Prepare scikit-learn's PA-I, which takes one row at a time."""
    from sklearn.linear_model import SGDClassifier

    items = tables(data)

    def run():
        model = SGDClassifier(loss="hinge", penalty=None, learning_rate="pa1", eta0=C, fit_intercept=False)

        def margin(x):
            return model.decision_function(x)[0] if hasattr(model, "coef_") else 0.0

        def learn(x, y, p):
            model.partial_fit(x, [y], classes=[-1, 1])

        return Result(*played(data, items, margin, learn), model.coef_[0])

    return run


def scikit_activeml(data, strategy):
    """Prepare a stream strategy of scikit-activeml with scikit-learn's logistic regression, on rows made dense."""
    import skactiveml.stream
    from skactiveml.classifier import SklearnClassifier
    from sklearn.linear_model import SGDClassifier

    items = [x.toarray() if isinstance(x, csr_array) else x for x in tables(data)]
    labels = data.y[data.order].tolist()

    def run():
        model = SklearnClassifier(
            SGDClassifier(loss="log_loss", fit_intercept=False, random_state=SEED), classes=[-1, 1]
        )
        model.partial_fit(items[0], labels[:1])
        rule, queried = getattr(skactiveml.stream, strategy)(budget=BUDGET, random_state=SEED), 0
        for x, y in zip(items, labels):
            model.predict(x)
            asked, utilities = rule.query(candidates=x, clf=model, return_utilities=True)
            rule.update(candidates=x, queried_indices=asked, budget_manager_param_dict={"utilities": utilities})
            if len(asked):
                queried += 1
                model.partial_fit(x, [y])
        return Result(queried)

    return run


def capymoa(data):
    """Prepare MOA's randomized variable uncertainty with its linear hinge loss, through CapyMOA, on rows made dense."""
    if not which("java"):
        raise ImportError("CapyMOA needs Java.")
    from capymoa.base import MOAClassifier
    from capymoa.core import LabeledInstance
    from capymoa.stream import Schema
    from moa.classifiers.active import ALUncertainty

    columns = [f"x{k}" for k in range(data.shape.features)]
    schema = Schema.from_custom([*columns, "y"], "y", {"y": ["-1", "1"]})
    dense = ((x.toarray() if isinstance(x, csr_array) else x)[0] for x in tables(data))
    labels = (data.y[data.order] > 0).astype(int).tolist()
    items = [LabeledInstance.from_array(schema, x, y) for x, y in zip(dense, labels)]

    def run():
        learner = ALUncertainty()
        learner.getOptions().setViaCLIString(f"-l (functions.SGD -o HINGE) -d RandVarUncertainty -b {BUDGET}")
        learner.prepareForUse()
        model, queried = MOAClassifier(moa_learner=learner, schema=schema, random_seed=SEED), 0
        for item in items:
            model.predict(item)
            model.train(item)
            queried += learner.getLastLabelAcqReport()
        return Result(queried)

    return run


def vowpal_wabbit(data, flags=()):
    """Prepare Vowpal Wabbit's simulation of active learning with the hinge loss, from its own cache file."""
    from vowpalwabbit import Workspace

    folder = TemporaryDirectory()
    text = Path(folder.name) / "rows.vw"
    with text.open("w") as file:
        for (j, x), y in zip(entries(data), data.y[data.order].tolist()):
            columns = range(x.size) if isinstance(j, slice) else j.tolist()
            file.write(f"{y} | " + " ".join(f"{k}:{value:.6g}" for k, value in zip(columns, x.tolist())) + "\n")
    arguments = ["--data", str(text), "--cache_file", f"{text}.cache", "--noconstant", "--active", "--simulation",
                 "--mellowness", "1e-5", "--loss_function", "hinge", "-b", "18", *flags]  # fmt: skip

    def run(_kept=folder):
        workspace = Workspace(arg_list=arguments, enable_logging=True)
        workspace.finish()
        return Result(int(re.search(r"total queries = (\d+)", "".join(workspace.get_log()))[1]))

    run()  # writes the cache file, which later runs read
    return run


class Peer(NamedTuple):
    """A peer: its name, the function that prepares it, the largest number of rounds on dense and on sparse rows, the
    aim (how many times as fast ours should be), and why ours may miss the aim."""

    name: str
    prepare: Callable
    dense: int
    sparse: int
    aim: float | None = None
    why: str = ""


ALL = 10**9
SGD = "its simplest update, in single precision; the aim was set for its defaults."
STRATEGIES = ("VariableUncertainty", "RandomVariableUncertainty", "Split")

PEERS = [
    Peer("C loop", c_loop, ALL, ALL, 0.7, "the C compiler makes better use of the processor."),
    Peer("C loop, prefetching", partial(c_loop, flags=["-DAHEAD=12"]), ALL, ALL),
    Peer("C loop, -ffast-math", partial(c_loop, flags=["-ffast-math"]), ALL, ALL),
    Peer("numpy loop", numpy_loop, 40_000, 40_000),
    Peer("river", river, 40_000, 40_000, 100),
    Peer("Vowpal Wabbit", vowpal_wabbit, 40_000, 40_000, 30, "its loop is compiled, too."),
    Peer("Vowpal Wabbit --sgd", partial(vowpal_wabbit, flags=["--sgd"]), 40_000, 40_000, 30, SGD),
    Peer("CapyMOA RandVarUncertainty", capymoa, 40_000, 200),
    Peer("scikit-learn", scikit_learn, 4_000, 1_000, 2_000),
    *(Peer(f"scikit-activeml {name}", partial(scikit_activeml, strategy=name), 200, 50, 10_000) for name in STRATEGIES),
]
