"""Measure how good the estimates are that a session makes from its answers: `python benchmarks/estimates.py`.

Every run is one session over a shuffled stream whose questions are answered with the labels of the data. Its estimates
(`oal_engine.kernel.estimates`) are compared with the truth over the rounds until the budget was spent. *shown* is the
share of estimates that the product would show; *coverage* is the share of these whose interval contains the truth.
"""

import json
from collections import defaultdict
from itertools import count
from time import perf_counter
from typing import Annotated

import numpy as np
import typer
from common import OF_CLASSES, machine, read_stream, table

from oal_engine import datasets
from oal_engine.datasets import demo
from oal_engine.kernel import estimates, metrics, rows, spending, stream
from oal_engine.kernel.algorithms import strategy

ROUNDS = 20_000  # of a stream at most
LABELS = (100, 300, 1000)
PLANS = {
    "as the rule wants": {},
    "audit 0.25": {"audit": 0.25},
    "audit 0.25, not trained": {"audit": 0.25, "trains": False},
    "pace 0.5": {"pace": 0.5},
    "audit 0.25, pace 0.5": {"audit": 0.25, "pace": 0.5},
}
STRATEGIES = {
    "OAAL": {"algorithm": "OAAL", "values": {"delta_plus": 0.1, "delta_minus": 0.02}},
    "PAA-I": {"algorithm": "PAA-I", "values": {"delta": 0.1}},
    "OA3-diag": {
        "algorithm": "OA3-diag", "values": {"eta": 1, "gamma": 0.1, "delta_plus": 0.1, "delta_minus": 0.01},
    },
    "auto": {"algorithm": "auto"},
    "CSPAA, asymmetric": {
        "learner": "cspaa", "rule": "asymmetric", "values": {"C": 1, "delta_plus": 0.3, "delta_minus": 0.1},
    },
}  # fmt: skip
MANY = {name: {"algorithm": name} for name in ("MPAA-I", "MPAA-II", "MM-AMD", "MD-AMD")}
STREAMS = {"happymoments": "exercise", "ohsumed": "heart"} | {
    name: name for name in ("a9a", "w8a", "ijcnn1", *OF_CLASSES)
}


def sources(quick):
    """Yield (name, table) of each labeled data set: the demo, and the shared files that exist."""
    yield "tweets", datasets.table(read_stream("tweets"), vocabulary=demo.read_vocabulary(demo.DEMOS["tweets"]))
    for name, stream_name in () if quick else STREAMS.items():
        items = read_stream(stream_name)
        if items is not None:
            yield name, datasets.table(items, tokenizer="words")


def session(table, y, classes, chosen, plan, budget, seed):
    """Run a session. Return {name of a window: result of `estimates_and_truth`}. The window "window" has all rounds
    until the budget was spent; with audits, "last quarter" has those in the last quarter of the stream."""
    rounds, quarter = y.size, y.size * 3 // 4

    def replay(marks):
        return stream.replay(
            table, y, np.arange(marks[-1]), *chosen.build(table.columns, len(classes)),
            stream.objective(rho=float(chosen.multiclass)), budget=budget, seed=seed, marks=marks, log=True,
            plan=spending.plan(chosen.rule, budget, rounds, values=chosen.rule_parameters, **plan),
        )  # fmt: skip

    run = replay([rounds])
    end = int(run.log[-1, 0]) + 1 if run.queried == budget else rounds
    figures = {"window": estimates_and_truth(run, y, classes, replay([end]).curve[0], 0)}
    if plan.get("audit") and end > quarter:
        curve = replay([quarter, end]).curve
        figures["last quarter"] = estimates_and_truth(run, y, classes, curve[1] - curve[0], quarter)
    return figures


def estimates_and_truth(run, y, classes, counts, start):
    """Return {(evaluation, metric): (value, low, high, truth)} for the rounds from `start` on, or None instead of a
    tuple if the product does not show the estimate. counts: the true counts of these rounds."""
    t, late = run.log[:, 0].astype(int), run.log[:, 0] >= start
    label, predicted, chance = y[t[late]], run.decided[late, 1], run.log[late, 2]
    size, rounds = np.array([late.sum()]), np.array([counts.sum()])
    if classes:
        estimated, known, *_ = estimates.of_classes(predicted == label, label, chance, size, rounds)
    else:
        pushes = np.array([counts[1].sum()])
        estimated, known, *_ = estimates.windows(predicted > 0, label, chance, size, rounds, pushes, metrics.Weights())
    figures = {}
    for name in metrics.EVALUATIONS:
        truth = metrics.evaluate_classes(counts, name) if classes else metrics.evaluate(counts, name)
        for metric in ("accuracy",) if classes else ("f1", "sum", "precision"):
            numbers = *estimated[name][metric][:, 0], float(truth[metric])
            figures[name, metric] = numbers if known[metric][0] else None
    return figures


def runs(quick, orders):
    """Run all sessions. Yield a tuple for each metric: (data, strategy, plan, labels, window, evaluation, metric,
    result). The result is (value, low, high, truth), or None if no estimate is shown."""
    number = count()
    for name, data in sources(quick):
        many = STRATEGIES if not data.classes else MANY
        for seed in range(orders):
            order = stream.shuffled(data.y.size, seed)[:ROUNDS]
            part, y = rows.as_rows(rows.matrix(data.rows)[order]), rows.read_only(data.y[order], np.int8)
            for title, values in list(many.items())[: 2 if quick else None]:
                for plan, own in PLANS.items():
                    for labels in LABELS[:2] if quick else LABELS:
                        draws = next(number)  # runs with the same draws would have related errors
                        windows = session(part, y, data.classes, strategy(**values), own, labels, draws)
                        for window, figures in windows.items():
                            for (evaluation, metric), numbers in figures.items():
                                yield name, title, plan, labels, window, evaluation, metric, numbers


def summary(figures):
    """Return a dict: the number of sessions, the share with an estimate, and the bias, root mean square error, coverage
    and mean half-width of these estimates."""
    shown = np.array([numbers for numbers in figures if numbers is not None]).reshape(-1, 4)
    value, low, high, truth = shown.T
    line = {"sessions": len(figures), "shown": len(shown) / len(figures)}
    if len(shown):
        within = (low - 1e-12 <= truth) & (truth <= high + 1e-12)
        line |= {
            "bias": float((value - truth).mean()), "error": float(np.sqrt(((value - truth) ** 2).mean())),
            "coverage": float(within.mean()), "half_width": float((high - low).mean() / 2),
        }  # fmt: skip
    return line


def of_two(run, window="window"):
    """Return whether a run has two classes and its figures are about this window."""
    return "classes" not in run[0] and run[4] == window


def of_many(run):
    """Return whether a run has K classes and its figures are for the whole window, under push (under push-and-query the
    errors are the same)."""
    return "classes" in run[0] and run[4:6] == ("window", "push")


GROUPS = {  # title: the columns of a run to group by, and the filter of runs
    "By labels and plan": ((3, 2), of_two),
    "By labels and metric": ((3, 5, 6), of_two),
    "By data and strategy": ((0, 1), of_two),
    "Accuracy of K classes, by labels and plan": ((3, 2), of_many),
    "Accuracy of K classes, by data and strategy": ((0, 1), of_many),
    "How good is it now: the last quarter of the stream, with audits": (
        (3, 2), lambda run: of_two(run, "last quarter")),
}  # fmt: skip


def measure(quick=False, orders=20):
    """Run all sessions. Return {title of a table: list of its lines as dicts}."""
    all_runs = list(runs(quick, orders))
    tables = {}
    for title, (columns, wanted) in GROUPS.items():
        groups = defaultdict(list)
        for run in filter(wanted, all_runs):
            groups[tuple(run[k] for k in columns)].append(run[-1])
        tables[title] = [{"of": list(map(str, key)), **summary(each)} for key, each in groups.items()]
    return tables


FIGURES = {"bias": ("bias", "+.3f"), "rms error": ("error", ".3f"), "coverage": ("coverage", ".3f"),
           "half-width": ("half_width", ".3f")}  # fmt: skip


def sections(tables):
    """Yield the tables in Markdown."""
    for title, lines in tables.items():
        if lines:
            yield f"### {title}\n"
            yield from table(("", "sessions x metrics", "shown", *FIGURES), map(cells, lines))


def cells(line):
    """Return the cells of a line of a table."""
    figures = (f"{line[key]:{form}}" if key in line else "" for key, form in FIGURES.values())
    return " · ".join(line["of"]), line["sessions"], f"{line['shown']:.0%}", *figures


def main(
    quick: Annotated[bool, typer.Option("--quick", help="The demo only, for a trial.")] = False,
    orders: Annotated[int, typer.Option(min=1, help="Orders of each data set.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Compare the estimates of many sessions with the truth: bias, coverage and half-width of the intervals."""
    start = perf_counter()
    tables = measure(quick, orders)
    if as_json:
        print(json.dumps(tables))
        return
    environment = machine()
    print(f"{orders} orders of each data set, {perf_counter() - start:.0f} seconds on {environment['date']}.\n")
    print("\n".join(sections(tables)))


if __name__ == "__main__":
    typer.run(main)
