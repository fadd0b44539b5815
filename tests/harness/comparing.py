"""Small data sets and a small specification that the tests of comparisons share."""

import numpy as np

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.experiments.specifications import specification
from oal_engine.store import Store

ROUNDS = 90


def table(seed=0, rounds=ROUNDS, classes=()):
    """Make a table of random rows labeled by a linear score. A quarter of them are positive; if `classes` are given,
    each class has equally many rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rounds, 4))
    score = X @ rng.normal(size=4)
    if classes:
        y = 1 + np.digitize(score, np.quantile(score, np.arange(1, len(classes)) / len(classes)))
        labels = [classes[k - 1] for k in y]
    else:
        y = np.where(score > np.quantile(score, 0.75), 1, -1)
        labels = [str(k) for k in y]
    ids = [str(k) for k in range(rounds)]
    items = reading.Items(ids, None, X, list("abcd"), labels, y.astype(np.int8), {}, classes)
    return datasets.table(items)


def days(folder, items):
    """Write a CSV file of texts, and return its path. Each text has none, one or both of the labels `a` and `b`: as
    words in the column `topics`, and as 1 or 0 in the columns `x` and `y`."""
    has = np.random.default_rng(0).random((items, 2)) < [0.5, 0.2]
    texts = [" ".join([*np.array(["sun", "rain"])[row], "day", f"n{k % 7}"]) for k, row in enumerate(has)]
    cells = [
        [k, text, *map(int, row), "|".join(np.array(["a", "b"])[row])] for k, (text, row) in enumerate(zip(texts, has))
    ]
    path = folder / "days.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in [["id", "text", "x", "y", "topics"], *cells]))
    return path


def stored(folder):
    """Create a store with the data sets `a` and `b`, of two classes each, and `letters`, of three classes. Return the
    store."""
    store = Store(folder / "studio.db")
    datasets.add(store, "a", table(0), "a")
    datasets.add(store, "b", table(1, 70), "b")
    datasets.add(store, "letters", table(2, classes=("x", "y", "z")), "letters")
    return store


def spec(**values):
    """Return the specification of a small comparison, with some values replaced."""
    return specification({"data": ["a"], "algorithms": {"PAA-I": {}}, "permutations": 3, "points": 5} | values)
