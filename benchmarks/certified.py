"""Measure audits of existing predictions (a column), which are simulated with known quality: run `python
benchmarks/certified.py`. The figures say how often the intervals contain the truth, how often a guaranteed minimum
(floor) is above the truth, and how many labels the column saves.

A column is a score of a given AUC (`plain`), a score that says positive twice as often as there are positives
(`positives`), a score whose AUC falls to 0.6 along the stream (`drift`), or a score whose sign is reversed in a tenth
of the items, which resemble each other (`topic`). Every second column has labels instead of scores.
"""

import json
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from types import SimpleNamespace
from typing import Annotated

import estimates
import many_questions
import numpy as np
import typer
from common import machine, table
from scipy.special import ndtri

from oal_engine.datasets.given import BOTH, COLUMN, Column
from oal_engine.experiments import replays
from oal_engine.kernel import rows, stream
from oal_engine.kernel.algorithms import strategy
from oal_engine.kernel.metrics import EVALUATIONS

ITEMS = 4000  # of a stream at most
LABELS = 300
PLAN = {"floor": 0.5, "pace": 1.0}  # as in `replay --column`
QUALITY = (0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
KINDS = ("plain", "positives", "drift", "topic")
WORST, TOPIC = 0.6, 0.1  # AUC at the end of a drift, and share of items with the opposite sign


def streams(quick):
    """Yield (name, rows, labels) of each stream with two classes. In data with several questions about each item, three
    of the questions are streams of their own."""
    for name, data in estimates.sources(quick):
        if not data.classes:
            yield name, data.rows, data.y
    for name, table_, words in () if quick else many_questions.sources(estimates.SHARED, many_questions.FILES):
        for word in many_questions.chosen([*words], 3):
            yield f"{name}: {word}", table_, words[word]


def column(y, topic, order, quality, kind, seed, are_labels):
    """Return the margins of a simulated column (predictions to audit); only their signs if `are_labels`. topic: mask of
    the items whose sign is reversed if `kind` is "topic"."""
    rng = np.random.default_rng(seed)
    auc = np.full(y.size, quality)
    if kind == "drift":
        auc[order] = np.linspace(quality, WORST, y.size)
    scores = (y > 0) * ndtri(auc) * 2**0.5 + rng.standard_normal(y.size)
    cut = np.sort(scores)[-(1 + (kind == "positives")) * int((y > 0).sum())]
    margins = scores - cut
    if kind == "topic":
        margins[topic] *= -1
    return np.where(margins >= 0, 1.0, -1.0) if are_labels else margins / np.sqrt((margins**2).mean())


def found(data, margins, order, labels, seed):
    """Audit a simulated column over one order of the items. Return {decider: results}: the decider, which predicts the
    classes, is the column alone, or a learner that begins with the column."""
    options = replays.ReplayOptions(budget=labels, seed=seed, **PLAN, rho="laplace")
    result = replays.replay_column(strategy("auto"), data, Column("simulated", None, margins), [order], options)
    return result["runs"][0]["deciders"]


def looked(run, evaluation, size):
    """Return a dict: the estimated F1 with its interval (None if the estimate does not cover all `size` items), the
    true F1, and whether any guaranteed minimum is above the truth."""
    estimate, true = run["estimates"], run[evaluation]
    whole = estimate[evaluation]["f1"] if estimate["rounds"] == size else None
    too_high = any(value > true[metric] + 1e-12 for metric, value in run["floor"][evaluation].items())
    return {"estimate": whole, "true": true["f1"], "too_high": too_high}


def least(run):
    """Return the guaranteed minimum of recall if a person reads the pushed items."""
    return run["floor_if_read"]["push_query"]["recall"]


def case(name, data, topic, seed):
    """Audit simulated columns of predictions over one random order of a stream. Return a list of records, one for each
    kind and quality of column."""
    order = stream.shuffled(data.y.size, seed)
    options = replays.ReplayOptions(seed=seed, rho="laplace", **PLAN)
    plain = {
        labels: replays.replay(strategy("auto"), data, [order], replays.replace(options, budget=labels))["runs"][0]
        for labels in (LABELS, round(LABELS / 1.1))
    }
    records = []
    for kind in KINDS:
        for k, quality in enumerate(QUALITY):
            margins = column(data.y, topic, order, quality, kind, 1000 * seed + k, (seed + k) % 2)
            full, half = (found(data, margins, order, labels, seed) for labels in (LABELS, LABELS // 2))
            looks = {who: {name: looked(run, name, data.y.size) for name in EVALUATIONS} for who, run in full.items()}
            estimated = full[BOTH]["estimates"]
            records.append({
                "stream": name, "kind": kind, "auc": quality, "looks": looks,
                "positives": estimated["positives"] if estimated["rounds"] == data.y.size else None,
                "true_positives": int((data.y > 0).sum()),
                "list": {who: run["list"]["f1"] for who, run in full.items()},
                "auto": {labels: (least(run), run["list"]["f1"]) for labels, run in plain.items()},
                "least": least(full[BOTH]), "half": least(half[BOTH]),
            })  # fmt: skip
    return records


def report(records):
    """Print how often intervals hold and guaranteed minimums are too high, and whether audited columns save labels."""
    looks = defaultdict(list)
    for each in records:
        for who, evaluations in each["looks"].items():
            for evaluation, look in evaluations.items():
                for group in ("all", each["kind"]):
                    looks[who, evaluation, group].append(look)
    lines = []
    for (who, evaluation, group), some in looks.items():
        shown = [each for each in some if each["estimate"]]
        held = [each["estimate"][1] <= each["true"] <= each["estimate"][2] for each in shown]
        width = [each["estimate"][2] - each["estimate"][1] for each in shown]
        lines.append([
            who, evaluation, group, len(some), f"{len(shown) / len(some):.2f}", f"{np.mean(held):.3f}",
            f"{np.mean(width) / 2:.3f}", f"{np.mean([each['too_high'] for each in some]):.3f}",
        ])  # fmt: skip
    heads = ["decider", "evaluation", "kind", "columns", "shown", "F1 held", "half-width", "floor too high"]
    print(*table(heads, lines), sep="\n")
    counted = [each for each in records if each["positives"]]
    held = [each["positives"][1] <= each["true_positives"] <= each["positives"][2] for each in counted]
    print(f"Number of positives: held in {np.mean(held):.3f} of {len(counted)}.\n")
    few, lines = round(LABELS / 1.1), []
    for kind in KINDS:
        for quality in QUALITY:
            some = [each for each in records if (each["kind"], each["auc"]) == (kind, quality)]
            f1 = [np.mean([each["list"][who] for each in some]) for who in (COLUMN, BOTH)]
            f1.append(np.mean([each["auto"][LABELS][1] for each in some]))
            full, both, half = (np.mean(each) for each in zip(*(
                (each["auto"][LABELS][0], each["least"], each["half"]) for each in some
            )))  # fmt: skip
            half_enough = np.mean([each["half"] >= each["auto"][LABELS][0] for each in some])
            no_worse = np.mean([each["least"] >= each["auto"][few][0] for each in some])
            numbers = [*f1, full, both, half, half_enough, no_worse]
            lines.append([kind, f"{quality:g}", *(f"{number:.3f}" for number in numbers)])
    heads = ["kind", "AUC", "F1: column", "column + answers", "auto", "recall floor: auto", "column + answers",
             "with half", "half is enough", "no more than 1.1"]  # fmt: skip
    print(*table(heads, lines), sep="\n")


def main(
    seeds: Annotated[int, typer.Option(min=1, help="Orders of each stream.")] = 6,
    items: Annotated[int, typer.Option(min=100, help="Items of a stream at most.")] = ITEMS,
    workers: Annotated[int, typer.Option(min=1)] = 2,
    quick: Annotated[bool, typer.Option(help="The demo only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a record of each column.")] = False,
):
    """Audit simulated columns of predictions, and print how well intervals and guaranteed minimums hold."""
    records = []
    with ProcessPoolExecutor(workers) as pool:
        tasks = []
        for name, table_, y in streams(quick):
            for seed in range(seeds):
                rng = np.random.default_rng(seed)
                some = np.sort(rng.permutation(y.size)[:items])
                few = rows.take(table_, some)
                alike = rows.matrix(few) @ rng.standard_normal(few.columns)
                data = SimpleNamespace(rows=few, y=rows.read_only(y[some], np.int8), classes=())
                topic = alike >= np.quantile(alike, 1 - TOPIC)
                tasks.append(pool.submit(case, name, data, topic, seed))
        for task in tasks:
            records += task.result()
    if as_json:
        print(json.dumps(records))
        return
    print(machine(), "\n")
    print(f"{len(records)} columns, {len({each['stream'] for each in records})} streams\n")
    report(records)


if __name__ == "__main__":
    typer.run(main)
