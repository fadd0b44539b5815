"""Measure how good `auto`, `auto-sum` and `auto-classes` are without tuning: `python benchmarks/no_tuning.py`. They are
compared with the best of several published algorithms at default settings (*default*), and at the best setting of a
grid (*best*), chosen in hindsight for each stream, budget and kind of features. For several classes, F1 is macro F1.
The sum is the balanced accuracy, for two and for more classes.

Every number is a mean over the same random orders of a stream, in percent. "Plain" features are words by tf-idf, or the
columns of a table; "richer" ones are the defaults of an import. In streams that change (`--drift`), the second half has
another positive class, positives get more and more frequent, or the items come in a special order; `auto` is told that
the stream may change.
"""

import json
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

sys.path.insert(0, str(Path(__file__).parent.parent))

from common import table

from oal_engine import datasets
from oal_engine.datasets import demo, reading
from oal_engine.datasets.features import embeddings
from oal_engine.experiments.replays import ReplayOptions, replay
from oal_engine.kernel import stream
from oal_engine.kernel.algorithms import drifting, strategy

SHARED = Path(__file__).parents[2] / "shared" / "data"
BUDGETS = (100, 300, 1000)
ABSTRACTS = {"text": ("title", "abstract"), "label": "label_included", "positive": ("1",)}
MOMENTS = {"text": ("moment",), "label": "concepts", "id": "hmid", "contains": True}
NEWS = {"text": ("text",), "label": "label"}
SEVERAL = {"multiclass": True}
STREAMS = {
    "sms": ("sms_spam_collection.tsv.xz", {"text": ("c2",), "label": "c1", "positive": ("spam",)}),
    "exercise": ("happymoments.csv.xz", MOMENTS | {"positive": ("exercise",)}),
    "animals": ("happymoments.csv.xz", MOMENTS | {"positive": ("animals",)}),
    "food": ("happymoments.csv.xz", MOMENTS | {"positive": ("food",)}),
    "heart": ("ohsumed_single23.jsonl.xz", NEWS | {"positive": ("C14",)}),
    "tumours": ("ohsumed_single23.jsonl.xz", NEWS | {"positive": ("C04",)}),
    "space": ("20news_bydate.jsonl.xz", NEWS | {"positive": ("sci.space",)}),
    "nudging": ("sysrev_Nagtegaal_2019.csv.xz", ABSTRACTS),
    "ACE inhibitors": ("sysrev_cohen2006_ACEInhibitors.csv.xz", ABSTRACTS),
    "autos": ("20news_bydate.jsonl.xz", NEWS | {"positive": ("rec.autos",)}),
    "letter A": ("mlbench_LetterRecognition.csv.xz", {"label": "lettr", "positive": ("A",)}),
    "digit 0": ("usps_zip_train.csv.xz", {"label": "c1", "positive": ("0",)}),
    "spambase": ("spambase.csv.xz", {"label": "spam", "positive": ("spam",)}),
    "ijcnn1": ("ijcnn1_train.libsvm.xz", {}),
    "cover 1": ("covtype_sample20k.csv.xz", {"label": "c55", "positive": ("1",)}),
    "rain": ("weather.csv.xz", {"label": "target", "positive": ("1",)}),
    "news, 20 classes": ("20news_bydate.jsonl.xz", NEWS | SEVERAL),
    "ohsumed, 23 classes": ("ohsumed_single23.jsonl.xz", NEWS | SEVERAL),
    "letter, 26 classes": ("mlbench_LetterRecognition.csv.xz", {"label": "lettr"} | SEVERAL),
    "usps, 10 classes": ("usps_zip_train.csv.xz", {"label": "c1"} | SEVERAL),
    "covtype, 7 classes": ("covtype_sample20k.csv.xz", {"label": "c55"} | SEVERAL),
}
DRIFTS = {  # the stream, and its change: the later positive class, "ramp", a column to order by, or "stored"
    "space, then autos": ("space", "rec.autos"),
    "exercise, then animals": ("exercise", "animals"),
    "heart, then tumours": ("heart", "C04"),
    "ever more animals": ("animals", "ramp"),
    "ever more heart": ("heart", "ramp"),
    "cover 1 by elevation": ("cover 1", 0),
    "rain as stored": ("rain", "stored"),
}
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
    if name == "tweets":
        shown = demo.DEMOS["tweets"]
        items = reading.read(demo.FOLDER / shown.file, shown.columns)
    else:
        file, columns = STREAMS[name]
        if not (SHARED / file).is_file():
            return
        items = reading.read(SHARED / file, reading.Columns(**columns))
    if items.texts is None:
        scale = "standardize+l2" if isinstance(items.vectors, np.ndarray) else "l2"
        yield "plain", datasets.table(items, scale, features="plain")
        yield "richer", datasets.table(items, scale, features="fourier")
    else:
        yield "plain", datasets.table(items, features="words")
        yield "richer", datasets.table(items, embedding=embedding)


def changed(data, change, later, seed):
    """Make a stream that changes, from a seed. Return the labels of its items and an order of the items. later: the
    labels in the second half, if they change; else `change` names the change, as in DRIFTS."""
    y, n, rng = data.y, data.y.size, np.random.default_rng(seed)
    if later is not None:
        order = rng.permutation(n)
        return np.where(np.isin(np.arange(n), order[n // 2 :]), later, y), order
    if change == "ramp":  # the first share x of the items has a share x^2 of the positives
        return y, np.argsort(np.where(y > 0, np.sqrt(rng.random(n)), rng.random(n)))
    if change == "stored":
        return y, np.arange(n)
    column = data.items.vectors[:, change]
    return y, np.argsort(column + 0.5 * column.std() * rng.normal(size=n))


def runs(name, data, orders, first):
    """Return [(table, orders of the items, seed of the first order)], on which the algorithms are compared. A stream
    that changes has a table for each order."""
    if name not in DRIFTS:
        return [(data, [stream.shuffled(data.y.size, first + k) for k in range(orders)], first)]
    source, change = DRIFTS[name]
    file, columns = STREAMS[source]
    swaps = isinstance(change, str) and change not in ("ramp", "stored")
    later = reading.read(SHARED / file, reading.Columns(**columns | {"positive": (change,)})).y if swaps else None
    made = [(seed, *changed(data, change, later, seed)) for seed in range(first, first + orders)]
    return [(replace(data, y=y), [order], seed) for seed, y, order in made]


def score(judged, budget, algorithm, **values):
    """Return {metric: mean in percent} for F1 and sum of an algorithm under push. judged: the result of `runs`. values:
    the parameters of the algorithm."""
    chosen = strategy(algorithm, values=values)
    means = [
        replay(chosen, data, orders, ReplayOptions(rho="laplace", budget=budget, seed=seed))["mean"]["push"]
        for data, orders, seed in judged
    ]
    names = OF_CLASSES if chosen.multiclass else dict(zip(OWN, OWN))
    return {metric: 100 * np.mean([mean[name] for mean in means]) for metric, name in names.items()}


def changing(algorithm):
    """Return the parameters with which an algorithm suits streams that change."""
    kind = strategy(algorithm)
    return drifting(kind.learner, kind.rule)


def measured(judged, budget, grids, changes):
    """Return, for each metric, the scores of `auto`, of the best published algorithm with defaults, and of the best
    setting in hindsight. changes: whether the stream may change."""
    defaults = [score(judged, budget, name) for name in grids]
    settings = [(name, dict(zip(grid, values))) for name, grid in grids.items() for values in product(*grid.values())]
    tried = defaults + [score(judged, budget, name, **values) for name, values in settings]
    names = dict.fromkeys(OWN, "auto-classes") if judged[0][0].classes else OWN
    return {
        metric: {
            "auto": score(judged, budget, own, **(changing(own) if changes else {}))[metric],
            "default": max(each[metric] for each in defaults),
            "best": max(each[metric] for each in tried),
        }
        for metric, own in names.items()
    }


def lists(names, orders, first):
    """Yield a Markdown table by stream and labels: F1 of `auto` under push, and F1 of its final list of positives."""
    budgets, rows, figures = (30, *BUDGETS), [], []
    for name in names:
        *_, data = [None, *(made for _, made in tables(name))]
        if data is None or data.classes:
            continue
        cells = []
        for budget in budgets:
            if budget > data.y.size / 4:
                cells.append((np.nan, np.nan))
                continue
            options = ReplayOptions(rho="laplace", budget=budget, seed=first)
            [(_, visits, _)] = runs(name, data, orders, first)
            mean = replay(strategy("auto"), data, visits, options)["mean"]
            cells.append((100 * mean["push"]["f1"], 100 * mean["list"]["f1"]))
        figures.append(cells)
        rows.append([name, *("" if np.isnan(pair[0]) else "{:.1f} → {:.1f}".format(*pair) for pair in cells)])
    means = np.nanmean(figures, axis=0)
    rows.append(["mean", *("{:.1f} → {:.1f}".format(*pair) for pair in means)])
    yield from table(["stream", *map(str, budgets)], rows)


def main(
    quick: Annotated[bool, typer.Option("--quick", help="The demo and one algorithm only, for a trial.")] = False,
    orders: Annotated[int, typer.Option(min=1, help="Orders of each stream.")] = 10,
    first: Annotated[int, typer.Option(min=0, help="Seed of the first order.")] = 0,
    only: Annotated[list[str] | None, typer.Option("--stream", help="Only these streams.")] = None,
    drift: Annotated[bool, typer.Option("--drift", help="Streams that change.")] = False,
    at_the_end: Annotated[bool, typer.Option("--lists", help="Only `auto`, and the list that it leaves.")] = False,
    embed: Annotated[Path | None, typer.Option(help="A folder of embeddings: richer features have them.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Measure the gap between algorithms without tuning and the best that tuning could have given."""
    names = ["tweets"] if quick else only or [*(DRIFTS if drift else STREAMS)]
    if at_the_end:
        print("\n".join([*lists(names, 2 if quick else orders, first), ""]))
        return
    grids = {"PAA-I": GRIDS["PAA-I"]} if quick else GRIDS
    lines = []
    for name in names:
        source = DRIFTS[name][0] if name in DRIFTS else name
        for features, data in tables(source, embed and embeddings.read(embed)):
            judged = runs(name, data, 2 if quick else orders, first)
            for budget in (60,) if quick else BUDGETS:
                if budget <= data.y.size / 4:
                    fitting = GRIDS_OF_CLASSES if data.classes else grids
                    figures = measured(judged, budget, fitting, name in DRIFTS)
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
