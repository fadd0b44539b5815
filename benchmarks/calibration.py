"""Measure how good the probabilities of exported predictions are: `python benchmarks/calibration.py`. `auto` (with
several classes `auto-classes`) labels shuffled streams whose labels are known. Its margins are calibrated (Platt
scaling) as in the product. The probabilities are compared with the true labels of the items not asked about.

A hit is a positive item (with several classes: a correct prediction). *log loss* and *brier* are relative to a constant
prediction, the share of hits: below 1 is better. *error* is the expected calibration error. Of the items with a
probability of at least 0.5, *told* is the mean probability and *true* the share of hits.
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

from oal_engine.kernel import spending, stream
from oal_engine.kernel.algorithms import strategy
from oal_engine.sessions.insights import calibration

BUDGETS = (100, 300, 1000)
ROUNDS = 10_000  # of a stream at most
BINS = 10  # of the calibration error
LEAST = 1e-4  # smallest distance from 0 and 1: one wrong certainty would dominate the mean


def probabilities(data, labels, seed):
    """Return two arrays over the items not asked about: the probability of a hit, and whether the item is a hit. Return
    None if too few answers are hits, or too few are not.

    If the margins do not separate hits, every probability is the share of hits among the answers, each answer weighted
    by 1 / its chance of being asked.
    """
    order, chosen = stream.shuffled(data.y.size, seed)[:ROUNDS], strategy("auto-classes" if data.classes else "auto")
    run = stream.replay(
        data.rows, data.y, order, *chosen.build(data.rows.columns, len(data.classes)), stream.objective(),
        budget=labels, seed=seed, log=True,
        plan=spending.plan(chosen.rule, labels, order.size, values=chosen.rule_parameters),
    )  # fmt: skip
    asked, y = run.log[:, 0].astype(int), data.y[order]
    predicted, scores = run.decided[:, 1], np.empty((data.y.size, max(1, len(data.classes))))
    stream.scores(data.rows, run.learner, 0.0, scores)
    if data.classes:
        best = np.sort(scores, axis=1)
        margins, hits, answers = best[:, -1] - best[:, -2], scores.argmax(axis=1)[order] + 1 == y, predicted == y[asked]
    else:
        margins, hits, answers = scores[:, 0], y > 0, y[asked] > 0
    if min(answers.sum(), (~answers).sum()) < calibration.FEWEST:
        return None
    margins, chances = np.delete(margins[order], asked), run.log[:, 2]
    told = calibration.fit(run.log[:, 1], answers, 1 / chances)(margins)
    if told is None:
        told = np.full(margins.size, np.average(answers, weights=1 / chances))
    return told, np.delete(hits, asked)


def quality(told, hits):
    """Return a dict: "log loss" and "brier" relative to a constant prediction, "error" (expected calibration error),
    and "sure", an array about the items with a probability of at least 0.5: their number, the sum of their
    probabilities, and their hits. told: the probabilities."""
    share, told = hits.mean(), np.clip(told, LEAST, 1 - LEAST)
    bins = np.minimum((told * BINS).astype(int), BINS - 1)
    loss = -np.log(np.where(hits, told, 1 - told)).mean()
    sure = told >= 0.5
    return {
        "log loss": loss / -(share * np.log(share) + (1 - share) * np.log(1 - share)),
        "brier": ((told - hits) ** 2).mean() / (share * (1 - share)),
        "error": np.abs(np.bincount(bins, told - hits)).sum() / told.size,
        "sure": np.array([sure.sum(), told[sure].sum(), hits[sure].sum()]),
    }  # fmt: skip


def lines(groups):
    """Yield a dict for each group of sessions: mean losses and calibration error, and for items with a probability of
    at least 0.5 the mean probability and the share of hits."""
    for name, each in groups.items():
        sure, told, true = sum(one["sure"] for one in each)
        means = {key: float(np.mean([one[key] for one in each])) for key in ("log loss", "brier", "error")}
        yield {"of": name, "sessions": len(each)} | means | {"told": told / max(1, sure), "true": true / max(1, sure)}


def main(
    quick: Annotated[bool, typer.Option("--quick", help="The demo only, for a trial.")] = False,
    orders: Annotated[int, typer.Option(min=1, help="Orders of each stream.")] = 8,
    first: Annotated[int, typer.Option(min=0, help="Seed of the first order.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Measure the quality of predicted probabilities, by number of labels and by stream."""
    groups = defaultdict(list)
    for name in ["tweets"] if quick else STREAMS:
        *_, data = [None, *(made for _, made in tables(name))]
        for labels in BUDGETS if data else ():
            for seed in range(first, first + orders if 4 * labels <= data.y.size else first):
                if made := probabilities(data, labels, seed):
                    measured = quality(*made)
                    for group in ("all", f"{labels} labels", name):
                        groups[group].append(measured)
    measured = list(lines(groups))
    if as_json:
        print(json.dumps(measured))
        return
    print(
        "\n".join(
            table(measured[0], [[f"{cell:.3f}" if isinstance(cell, float) else cell for cell in line.values()]
            for line in measured])
        )
    )  # fmt: skip


if __name__ == "__main__":
    typer.run(main)
