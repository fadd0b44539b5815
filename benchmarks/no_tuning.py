"""Measure how good `auto`, `auto-sum` and `auto-classes` are without tuning: `python benchmarks/no_tuning.py`. They are
compared with the best of several published algorithms at default settings (*default*), and at the best setting of a
grid (*best*), chosen in hindsight for each stream, budget and kind of features. For several classes, F1 is macro F1.
The sum is the balanced accuracy, for two and for more classes.

Every number is a mean over the same random orders of a stream, in percent. "Plain" features are words by tf-idf, or the
columns of a table; "richer" ones are the defaults of an import, for tables without leaves.
"""

import json
from itertools import product
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from common import STREAMS, read_stream, table

from oal_engine import datasets
from oal_engine.datasets.features import embeddings
from oal_engine.experiments.replays import ReplayOptions, replay
from oal_engine.kernel import stream
from oal_engine.kernel.algorithms import strategy

BUDGETS = (100, 300, 1000)
LEFT_OUT = ("a9a", "w8a")  # these are for estimates.py
TENS = [10.0**power for power in range(-3, 2)]
STEPS = (0.1, 1.0, 10.0)
GRIDS = {
    "OAAL": {"delta_plus": TENS, "delta_minus": TENS},
    "PAA-I": {"C": STEPS, "delta": TENS},
    "CSPAA": {"C": STEPS, "delta": TENS},
    "OA3-diag": {"eta": STEPS, "delta_plus": TENS[:4], "delta_minus": TENS[:4]},
    "SOAL-diag": {"eta": STEPS, "delta": TENS},
    "D-AMD": {"eta": STEPS, "b": TENS},
}
GRIDS_OF_CLASSES = {
    "MPEA": {"delta": TENS},
    "MPAA": {"delta": TENS},
    "MPAA-I": {"C": STEPS, "delta": TENS},
    "MPAA-II": {"C": STEPS, "delta": TENS},
    "MD-ADA": {"eta": STEPS, "b": TENS},
    "MD-AMD": {"eta": STEPS, "b": TENS},
}
OWN = {"f1": "auto", "sum": "auto-sum"}
OF_CLASSES = {"f1": "macro_f1", "sum": "macro_recall"}


def tables(name, embedding=None):
    """Yield ("plain", table) and ("richer", table) of a stream; nothing if its file is missing. embedding: vectors to
    add to the richer table, if it has texts."""
    items = read_stream(name)
    if items is None:
        return
    if items.texts is None:
        scale = "standardize+l2" if isinstance(items.vectors, np.ndarray) else "l2"
        yield "plain", datasets.table(items, scale, features="plain")
        yield "richer", datasets.table(items, scale, features="fourier")
    else:
        yield "plain", datasets.table(items, features="words")
        yield "richer", datasets.table(items, embedding=embedding)


def score(data, orders, budget, seed, algorithm, **values):
    """Return {metric: mean in percent} for F1 and sum of an algorithm under push. values: its parameters."""
    chosen = strategy(algorithm, values=values)
    mean = replay(chosen, data, orders, ReplayOptions(rho="laplace", budget=budget, seed=seed))["mean"]["push"]
    names = OF_CLASSES if chosen.multiclass else dict(zip(OWN, OWN))
    return {metric: 100 * mean[name] for metric, name in names.items()}


def measured(data, orders, budget, seed, grids):
    """Return, for each metric, the scores of `auto`, of the best published algorithm with defaults, and of the best
    setting in hindsight."""
    defaults = [score(data, orders, budget, seed, name) for name in grids]
    settings = [(name, dict(zip(grid, values))) for name, grid in grids.items() for values in product(*grid.values())]
    tried = defaults + [score(data, orders, budget, seed, name, **values) for name, values in settings]
    names = dict.fromkeys(OWN, "auto-classes") if data.classes else OWN
    return {
        metric: {
            "auto": score(data, orders, budget, seed, own)[metric],
            "default": max(each[metric] for each in defaults),
            "best": max(each[metric] for each in tried),
        }
        for metric, own in names.items()
    }


def main(
    quick: Annotated[bool, typer.Option("--quick", help="The demo and one algorithm only, for a trial.")] = False,
    orders: Annotated[int, typer.Option(min=1, help="Orders of each stream.")] = 10,
    first: Annotated[int, typer.Option(min=0, help="Seed of the first order.")] = 0,
    only: Annotated[list[str] | None, typer.Option("--stream", help="Only these streams.")] = None,
    embed: Annotated[Path | None, typer.Option(help="A folder of embeddings: richer features have them.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Measure the gap between algorithms without tuning and the best that tuning could have given."""
    names = ["tweets"] if quick else only or [name for name in STREAMS if name not in LEFT_OUT]
    grids = {"PAA-I": GRIDS["PAA-I"]} if quick else GRIDS
    lines = []
    for name in names:
        for features, data in tables(name, embed and embeddings.read(embed)):
            visits = [stream.shuffled(data.y.size, first + k) for k in range(2 if quick else orders)]
            for budget in (60,) if quick else BUDGETS:
                if budget <= data.y.size / 4:
                    figures = measured(data, visits, budget, first, GRIDS_OF_CLASSES if data.classes else grids)
                    lines.append({"stream": name, "features": features, "labels": budget} | figures)

    if as_json:
        print(json.dumps(lines))
        return
    print("\n".join([*report(lines), ""]))


def report(lines):
    """Yield lines of Markdown: a table of every stream and budget, and the mean gaps between `auto` and the best in
    hindsight."""
    plain, richer = (
        {(line["stream"], line["labels"]): line for line in lines if line["features"] == kind}
        for kind in ("plain", "richer")
    )
    heads = ["stream", "labels"] + [
        f"{metric}: {what}" for metric in ("F1", "sum") for what in ("default", "best", "auto", "best, richer")
    ]
    rows = []
    for (name, labels), line in plain.items():
        more = richer[name, labels]
        figures = [
            value
            for metric in OWN
            for value in (
                line[metric]["default"], line[metric]["best"], more[metric]["auto"], more[metric]["best"]
            )
        ]  # fmt: skip
        rows.append([name, labels, *(f"{figure:.1f}" for figure in figures)])
    yield from table(heads, rows)
    yield ""
    for metric in OWN:
        for kind, base in (("plain", plain), ("the same richer", richer)):
            gaps = np.array([richer[key][metric]["auto"] - base[key][metric]["best"] for key in plain])
            near = np.mean(gaps >= -1)
            yield (
                f"- {OWN[metric]}, {metric}: {gaps.mean():+.1f} points to the best in hindsight on {kind} features; "
                + (f"within 1 point or above in {near:.0%}.")
            )


if __name__ == "__main__":
    typer.run(main)
