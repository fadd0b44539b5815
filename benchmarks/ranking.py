"""Measure how often the stated quality of a ranked list holds: `python benchmarks/ranking.py`. `auto` labels shuffled
streams whose labels are known; then precision, recall and F1 of the first items of its list are estimated as in the
product.

*error* is the mean distance of an estimate from the truth, *coverage* the share of the sessions whose interval, rounded
outwards to whole percents, contains the truth.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

sys.path.insert(0, str(Path(__file__).parent.parent))

from common import table
from no_tuning import STREAMS, tables

from oal_engine.kernel import rows, stream
from oal_engine.kernel.algorithms import strategy
from oal_engine.kernel.runs import Run
from oal_engine.sessions.insights import ranking

BUDGETS = (120, 150, 300, 1000)
DEPTHS = {"tenth": 0.1, "half": 0.5, "list": 1.0, "twice": 2.0}  # of the list


def ranked(data, budget, seed):
    """Run a session. Return its final ranking, whether each ranked item is positive, and the number of positives in the
    stream."""
    order = stream.shuffled(data.y.size, seed)
    run = Run(strategy("auto"), data.rows, data.y, order, budget=budget, seed=seed)
    done = run.replay(log=True)
    rounds, chances = done.log[:, 0].astype(np.int64), done.log[:, 2]
    items = order[rounds]
    labels = rows.read_only(data.y[items], np.int8)

    def margins(learner, chosen):
        scores = np.empty((chosen.size, 1))
        stream.scores(rows.take(data.rows, chosen), learner, 0.0, scores)
        return scores[:, 0]

    def without(places):
        learner, rule, objective = run.start()
        kept = np.delete(np.arange(items.size), places)
        stream.teach(
            data.rows, stream.checked_order(items[kept], data.rows), rows.read_only(labels[kept], np.int8),
            rounds[kept], chances[kept], learner, rule, objective, stream.average(learner, False), False,
        )  # fmt: skip
        return margins(learner, items[places])

    curve = ranking.fit(ranking.margins_left_out(items.size, without), labels > 0, chances)
    answers, final = np.zeros(order.size), margins(done.learner, order)
    answers[rounds] = labels
    listed = np.where(answers, answers > 0, final >= 0)
    place = np.lexsort((-final, ~listed.astype(bool)))
    place = place[answers[place] >= 0]
    made = ranking.Ranking(place, final[place], answers[place] > 0, int(listed.sum()), curve)
    return made, data.y[order][place] > 0, (data.y > 0).sum()


def measured(data, budget, seed):
    """Run a session. Yield (name of the depth, measure, truth, estimate or None) for each depth and measure. The
    measures are "right" (precision), "found" (recall) and "F1"."""
    made, truth, positives = ranked(data, budget, seed)
    hits = np.append(0, np.cumsum(truth))
    depths = [min(truth.size, max(1, round(part * made.listed))) for part in DEPTHS.values()]
    for name, depth, stated in zip(DEPTHS, depths, made.depths(depths) or [None] * len(depths)):
        yield name, "right", hits[depth] / depth, stated and stated.precision
        yield name, "found", hits[depth] / positives, stated and stated.recall
        yield name, "F1", 2 * hits[depth] / (depth + positives), stated and stated.f1


def summary(figures):
    """Return a dict: the number of sessions, the share with an estimate, and the mean truth, bias, mean absolute error,
    coverage and mean half-width of these estimates. figures: [(truth, estimate or None)]."""
    shown = np.array([(truth, *estimate) for truth, estimate in figures if estimate]).reshape(-1, 4)
    truth, value, low, high = shown.T
    held = (np.floor(100 * low) <= 100 * truth + 1e-9) & (100 * truth - 1e-9 <= np.ceil(100 * high))
    return {
        "sessions": len(figures), "shown": len(shown) / len(figures), "truth": truth.mean(),
        "bias": (value - truth).mean(), "error": np.abs(value - truth).mean(), "coverage": held.mean(),
        "half_width": (high - low).mean() / 2,
    }  # fmt: skip


def main(
    quick: Annotated[bool, typer.Option("--quick", help="The demo only, for a trial.")] = False,
    orders: Annotated[int, typer.Option(min=1, help="Orders of each stream.")] = 20,
    only: Annotated[str, typer.Option(metavar="STREAM", help="One stream.")] = "",
    budget: Annotated[int, typer.Option(metavar="N", help="One budget (0: several).")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Compare the stated quality of lists with the truth, by stream, number of labels and depth."""
    groups = defaultdict(list)
    for name in ["tweets"] if quick else [only] if only else STREAMS:
        *_, data = [None, *(made for _, made in tables(name))]
        if data is None or data.classes:
            continue
        for labels in [budget] if budget else BUDGETS:
            for seed in range(orders if 4 * labels <= data.y.size else 0):
                for depth, kind, truth, estimate in measured(data, labels, seed):
                    for of in ("all", f"{labels} labels", name):
                        groups[of, depth, kind].append((truth, estimate))
    lines = [
        {"of": of, "depth": depth, "share": kind} | summary(figures) for (of, depth, kind), figures in groups.items()
    ]
    if as_json:
        print(json.dumps(lines, default=float))
        return
    cells = [[cell if isinstance(cell, str | int) else f"{cell:.3f}" for cell in line.values()] for line in lines]
    print("\n".join(table(lines[0], cells)))


if __name__ == "__main__":
    typer.run(main)
