"""Measure how safe and how tight the guaranteed minimums (floors) of metrics are: `python benchmarks/certainty.py`.

Thousands of sessions are simulated. Their answers are the true labels, or have slips (wrong answers), skips or
corrections. After every answer the floors are compared with the truth. The figures are the share of sessions in which a
floor was ever too high, and the floors and true metrics at the end.
"""

import json
import sys
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Annotated, NamedTuple

import numpy as np
import typer

sys.path.insert(0, str(Path(__file__).parent.parent))

from common import machine, table
from estimates import sources

from oal_engine.kernel import certainty, metrics, rows, spending, stream
from oal_engine.kernel.algorithms import strategy
from oal_engine.sessions.insights.certainty import RECOMMENDED, forecast

ROUNDS = 5_000  # of a stream at most
LABELS = (300, 1000)
WAYS = ("stored", "shuffled", "drift", "slips", "skips", "corrections", "appended")
SLIPS = 0.05  # share of wrong answers
SKIPS = 0.05  # share of the items that cannot be labeled
CORRECTED = 0.6  # share of the labels that are used when all slips so far are corrected


class Course(NamedTuple):
    """A simulated session. asked: items asked about, in order. first, last: first and final answer to each. mended:
    number of answers when the earlier ones were corrected. chance: probability of each query. predicted: class of each
    item seen. looks: rounds so far at each look (point in time). promised: minimum of `chance`."""

    asked: np.ndarray
    first: np.ndarray
    last: np.ndarray
    mended: int
    chance: np.ndarray
    predicted: np.ndarray
    looks: np.ndarray
    promised: float

    def floors(self, looks, label, found=None):
        """Return the floors (guaranteed minimums) at some looks, given the answers `label`. Look k is after k answers;
        the last look is at the end. found: if a person has read the pushed items, the number of positives among them at
        each look."""
        rounds = self.looks[looks]
        pushes = np.append(0, np.cumsum(self.predicted > 0))[rounds]
        worst = certainty.tables(
            label, self.predicted[self.asked] > 0, self.chance, np.minimum(looks, label.size), rounds, pushes,
            self.promised, found,
        )  # fmt: skip
        return certainty.floors(worst)

    def truth(self, looks, y):
        """Return the true metrics and the confusion counts at some looks, for the labels `y` (0: not relevant)."""
        seen, rounds = self.predicted.size, self.looks[looks]
        taken = np.zeros(seen, int)
        taken[self.asked] = 1
        counts = np.zeros((seen + 1, *metrics.COUNTS), np.int64)
        counts[np.arange(1, seen + 1), (self.predicted > 0).astype(int), np.where(y[:seen] > 0, 2, 0), taken] = 1
        tables = counts.cumsum(0)[rounds]
        return {name: metrics.evaluate(tables, name) for name in metrics.EVALUATIONS}, tables

    def over(self, looks, label, y):
        """Return whether any guaranteed minimum (from the answers `label`) exceeds the truth (from the labels `y`)."""
        known, (real, _) = self.floors(looks, label), self.truth(looks, y)
        return any(
            (known[name][metric] > real[name][metric] + 1e-12).any()
            for name in metrics.EVALUATIONS
            for metric in certainty.BOUNDED
        )


def course(table, last, first, budget, share, seed, appended=False):
    """Simulate a session over a stream in its order.

    last, first: final and first label of each item; 0 for a skip. share: share of the budget for minimum probabilities
    of being asked. appended: whether a third of the items and labels are added after the others have passed.
    """
    chosen, n = strategy("auto"), last.size
    end, later = (2 * n // 3, budget // 3) if appended else (n, 0)
    plans = [
        spending.plan(chosen.rule, labels, rounds, values=chosen.rule_parameters, floor=share)
        for labels, rounds in ((budget - later, end), (later, n - end))
        if labels
    ]
    order, plan, nothing, counts = np.arange(n), plans[0], rows.read_only(np.zeros(n), np.int8), metrics.empty()

    def fresh():
        learner, rule = chosen.build(table.columns)
        return learner, rule, stream.objective(), stream.average(learner, False)

    learner, rule, goal, mean = fresh()
    margins, predicted, t, spent, mended, said, asked = np.zeros(n), np.zeros(n, np.int8), 0, 0, 0, [], []
    while spent < budget:
        plan.spent[0] = spent
        at = stream.until_query(table, nothing, order, learner, rule, goal, seed, t, end, plan, counts)
        stream.predict_rounds(table, order, learner, goal.theta, t, min(at.t + 1, end), margins, predicted)
        t = at.t + 1
        if at.t == end == n:
            t = n
            break
        if at.t == end:
            plan, t, end = spending.extended(plan, plans[1], end, all_spent=False), end, n
            continue
        asked.append(at)
        said.append(int((last if mended else first)[at.t]))
        if said[-1]:
            spent += 1
            stream.learn(table, order, learner, rule, goal, mean, at, said[-1], spent == budget)
        if not mended and first is not last and spent >= CORRECTED * budget:
            mended, items = len(said), np.array([each.t for each in asked])
            said = last[items].tolist()
            learner, rule, goal, mean = fresh()
            y, chances = rows.read_only(said, np.int8), np.array([each.probability for each in asked])
            stream.teach(table, items, y, items, chances, learner, rule, goal, mean, False)
    items = np.array([each.t for each in asked], int)
    return Course(
        items, first[items], last[items], mended or items.size, np.array([each.probability for each in asked]),
        predicted[:t], np.concatenate([[0], items + 1, [t]]), plan.promised,
    )  # fmt: skip


def answered(way, y, rng):
    """Return two arrays, the final and the first label of each item, as the kind of annotator named by `way` gives them
    (0 for a skip)."""
    slipped = np.where(rng.random(y.size) < SLIPS, -y, y)
    if way == "corrections":
        return y, slipped
    last = {"slips": slipped, "skips": np.where(rng.random(y.size) < SKIPS, 0, y)}.get(way, y)
    return last, last


def ordered(way, table, rng):
    """Return at most ROUNDS item indices in the order named by `way`: a stretch in stored order, a random sample, or a
    sample sorted along a random direction of the features, so that topics drift."""
    items = rows.length(table)
    start = int(rng.integers(1 + max(0, items - ROUNDS)))
    if way == "stored":
        return np.arange(start, min(items, start + ROUNDS))
    some = rng.permutation(items)[:ROUNDS]
    if way == "drift":
        return some[np.argsort(rows.matrix(table)[some] @ rng.normal(size=table.columns), kind="stable")]
    return some


def sessions(quick, orders):
    """Simulate all sessions. Yield a dict for each: the data set, the kind of order or answers (`way`), the budget, and
    the result of `figures`."""
    number = count()
    for name, data in sources(quick):
        for _ in () if data.classes else range(orders):
            for way in WAYS:
                rng = np.random.default_rng(next(number))
                order = ordered(way, data.rows, rng)
                part, y = rows.as_rows(rows.matrix(data.rows)[order]), data.y[order]
                last, first = answered(way, y, rng)
                for labels in LABELS[:1] if quick else LABELS:
                    run = course(part, last, first, labels, RECOMMENDED, next(number), way == "appended")
                    yield {"data": name, "way": way, "labels": labels, **figures(run, last, first, y)}


def figures(run, last, first, y):
    """Return a dict: whether a floor (guaranteed minimum) was ever above the truth according to the answers (`wrong`)
    and to the data's labels `y` (`wrong_of_data`), and the floors and true metrics at the end."""
    size = run.looks.size
    before, after = np.split(np.arange(size), [run.mended])
    end = np.array([size - 1])
    (real, tables), known = run.truth(end, last), run.floors(end, run.last)
    read = run.floors(end, run.last, metrics.confusion(tables, "push")[0])
    parts = (before, run.first), (after, run.last)
    return {
        "looks": size, "items": y.size, "prevalence": float((y > 0).mean()), "until": run.predicted.size / y.size,
        "wrong": run.over(before, run.first, first) or run.over(after, run.last, last),
        "wrong_of_data": any(run.over(looks, label, y) for looks, label in parts),
        "floor": {name: {metric: float(value[0]) for metric, value in each.items()} for name, each in known.items()},
        "read": float(read["push_query"]["recall"][0]),
        "truth": {
            name: {metric: float(each[metric][0]) for metric in certainty.BOUNDED} for name, each in real.items()
        },
    }  # fmt: skip


# ---- Tables


def grouped(lines, *keys):
    """Group lines (dicts) by their values of some keys. Return pairs (values, lines) in order of appearance."""
    groups = {}
    for line in lines:
        groups.setdefault(tuple(line[key] for key in keys), []).append(line)
    return groups.items()


def mean(lines, *path):
    """Return the mean of one value of each line. path: the keys that lead to the value in a nested dict."""
    values = []
    for line in lines:
        for key in path:
            line = line[key]
        values.append(line)
    return float(np.mean(values))


def sections(known):
    """Yield the tables of all sessions in Markdown."""
    yield "### Floors above the truth at any look\n"
    lines = [*grouped(known, "way"), (("all",), known)]
    yield from table(
        ("", "sessions", "looks", "a floor too high in", "by the data's own labels", "share of the stream"),
        [
            (way, len(own), f"{sum(line['looks'] for line in own):,}", f"{mean(own, 'wrong'):.2%}",
             f"{mean(own, 'wrong_of_data'):.2%}",
             f"{mean(own, 'until'):.3f}")
            for (way,), own in lines
        ],
    )  # fmt: skip
    yield "### Floors at the end\n"
    yield from table(
        ("", "positives", "found, at least", "if pushed is read", "found", "F1, at least", "F1", "forecast"),
        [
            (f"{name}, {labels} labels", f"{mean(own, 'prevalence'):.1%}", f"{mean(own, *FOUND):.2f}",
             f"{mean(own, 'read'):.2f}", f"{mean(own, 'truth', *FOUND[1:]):.2f}",
             f"{mean(own, 'floor', 'push', 'f1'):.2f}", f"{mean(own, 'truth', 'push', 'f1'):.2f}",
             f"{np.mean([forecast(labels, line['items'], line['prevalence']) for line in own]):.2f}")
            for (name, labels), own in grouped((line for line in known if line["way"] == "shuffled"), "data", "labels")
        ],
    )  # fmt: skip


FOUND = "floor", "push_query", "recall"


def main(
    quick: Annotated[bool, typer.Option("--quick", help="The demo only, for a trial.")] = False,
    orders: Annotated[int, typer.Option(min=1, help="Orders of each data set in each way.")] = 25,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Compare the guaranteed minimums of many sessions with the truth after every answer."""
    start = perf_counter()
    results = list(sessions(quick, orders))
    if as_json:
        print(json.dumps(results))
        return
    print(f"{len(results)} sessions, {perf_counter() - start:.0f} seconds on {machine()['date']}.\n")
    print("\n".join(sections(results)))


if __name__ == "__main__":
    typer.run(main)
