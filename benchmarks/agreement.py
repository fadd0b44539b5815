"""Measure how often the 95 % intervals of agreement contain the true value (their coverage), if two people have
answered 20 or 40 items: `python benchmarks/agreement.py`. Tables of answers are drawn from a true table with a given
kappa, in which the shares of the classes are the same for both people.

The figures are coverages. *held* is the coverage over the tables that have an interval for kappa (a table in which only
one class occurs has none), *width* the mean width of these intervals.
"""

import json
import sys
from functools import cache
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from scipy.stats import binom

sys.path.insert(0, str(Path(__file__).parent.parent))

from common import table

from oal_engine.sessions.insights import agreement

PAIRS = (20, 40)
KAPPAS = (0.2, 0.4, 0.6, 0.8, 0.9)
SHARES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # of equal answers
CLASSES = (
    (0.05, 0.95), (0.1, 0.9), (0.2, 0.8), (0.3, 0.7), (0.5, 0.5),
    (0.05, 0.05, 0.05, 0.85), (0.1, 0.1, 0.1, 0.7), (0.05, 0.15, 0.3, 0.5), (0.05, 0.31, 0.32, 0.32),
    (0.16, 0.17, 0.17, 0.5), (0.25, 0.25, 0.25, 0.25),
)  # fmt: skip


def true_table(shares, kappa):
    """Return the true table: the probability of each pair of answers, given the shares of the classes and kappa."""
    return kappa * np.diag(shares) + (1 - kappa) * np.outer(shares, shares)


@cache
def interval(counts, classes):
    """Return kappa with its interval for a flattened table of counts, using the classes that occur; None if only one
    does."""
    counts = np.reshape(counts, (classes, classes))
    used = counts.sum(0) + counts.sum(1) > 0
    return agreement.of_table(counts[used][:, used] / counts.sum(), counts.sum())[0]


def drawn(shares, kappa, pairs, n_tables, rng):
    """Draw `n_tables` tables of answers to `pairs` items. Return the share of the tables that have an interval
    (`shown`), and among these the share whose interval contains the true kappa (`held`) and the mean width
    (`width`)."""
    found, times = np.unique(
        rng.multinomial(pairs, true_table(shares, kappa).ravel(), n_tables), axis=0, return_counts=True
    )
    known = [(interval(tuple(each), len(shares)), n) for each, n in zip(found.tolist(), times)]
    known = [(each, n) for each, n in known if each]
    weights = [n for _, n in known]
    return {
        "shown": sum(weights) / n_tables,
        "held": float(np.average([each.low <= kappa <= each.high for each, _ in known], weights=weights)),
        "width": float(np.average([each.high - each.low for each, _ in known], weights=weights)),
    }


def of_shares(pairs):
    """Compute the exact (binomial) coverage of the interval for the share of equal answers to `pairs` items. Return a
    list, one coverage for each true share in SHARES."""
    ends = [agreement.wilson(equal / pairs, pairs) for equal in range(pairs + 1)]
    held = [[each.low <= share <= each.high for each in ends] for share in SHARES]
    return [float(binom.pmf(range(pairs + 1), pairs, share) @ own) for share, own in zip(SHARES, held)]


def main(
    tables: Annotated[int, typer.Option(min=1, help="Tables drawn for each truth.")] = 500,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
):
    """Measure how often the intervals of kappa and of the share of equal answers contain the truth."""
    rng, lines, measured = np.random.default_rng(0), [], []
    for pairs in PAIRS:
        for shares in CLASSES:
            known = [drawn(shares, kappa, pairs, tables, rng) for kappa in KAPPAS]
            interval.cache_clear()
            truth = {"pairs": pairs, "shares": shares}
            measured += [truth | {"kappa": kappa} | each for kappa, each in zip(KAPPAS, known)]
            cells = [f"{each['held']:.3f}" for each in known]
            lines.append([pairs, ", ".join(f"{share:g}" for share in shares), *cells])
    if as_json:
        print(json.dumps(measured))
        return
    print("\n".join(table(["items", "shares of the classes", *(f"kappa {kappa}" for kappa in KAPPAS)], lines)))
    heads = ["items", *(f"{share:.0%} alike" for share in SHARES)]
    print("\n".join(table(heads, [[pairs, *(f"{held:.3f}" for held in of_shares(pairs))] for pairs in PAIRS])))


if __name__ == "__main__":
    typer.run(main)
