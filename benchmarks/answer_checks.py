"""Measure how many wrong answers are found if the most suspicious answers are checked, in sessions with `auto` in which
about 5 % of the answers, drawn at random, are wrong. Run `python benchmarks/answer_checks.py`.

Each method ranks the answers, the most suspicious first. The figure is the share of all wrong answers that are among
the first 5 % or 10 % of the ranking. Our method (`all others`: a model trained on all other answers) is compared with
three others: the margin that the session's own model gave the item when it was asked, the class probability that a
logistic regression gives the answer in 5-fold cross-validation, and chance. `cleanlab`, if it is installed, ranks by
the regression's probabilities, adjusted by its confident learning.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from time import perf_counter
from typing import Annotated

import numpy as np
import typer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict

sys.path.insert(0, str(Path(__file__).parent.parent))

from common import table
from no_tuning import tables

from oal_engine.kernel import rows, spending, stream
from oal_engine.kernel.algorithms import strategy
from oal_engine.sessions.insights.answer_checks import BIAS, leave_one_out

LABELS = (300, 1000)
STREAMS = ("sms", "exercise", "heart", "space", "spambase", "digit 0")
WRONG = 0.05
FIRST = (0.05, 0.1)
AUTO = strategy("auto")


def answered(data, budget, seed):
    """Run a session in which some answers are wrong. Return, for each answer: the row of its item, the answer, the
    margin when the item was asked, and whether the answer is wrong."""
    order, wrong = stream.shuffled(data.y.size, seed), np.random.default_rng(seed).random(data.y.size) < WRONG
    y = rows.read_only(np.where(wrong, -data.y, data.y), np.int8)
    learner, rule = AUTO.build(data.rows.columns)
    plan = spending.plan(AUTO.rule, budget, data.y.size)
    log = stream.replay(data.rows, y, order, learner, rule, stream.objective(), seed=seed, plan=plan, log=True).log
    items = order[log[:, 0].astype(int)]
    return rows.take(data.rows, items), y[items], log[:, 1], wrong[items]


def scores(asked, y, margins, seed):
    """Return a pair: {method: scores of the answers}, in which the lowest score is checked first, and the seconds that
    our method took."""
    start = perf_counter()
    products = rows.inner_products(asked, asked)
    products = products / products.diagonal().mean() + BIAS**2
    ours = leave_one_out(products, (y > 0).astype(int), 2, products[:0]).margin
    seconds = perf_counter() - start
    folds, regression = StratifiedKFold(5, shuffle=True, random_state=seed), LogisticRegression(C=10, max_iter=1000)
    labels = (y > 0).astype(int)
    chances = cross_val_predict(regression, rows.matrix(asked), labels, cv=folds, method="predict_proba")
    by = {
        "all others": ours,
        "margin at the question": y * margins,
        "logistic regression": chances[np.arange(y.size), labels],
        "chance": np.random.default_rng(seed).random(y.size),
    }
    return by | _cleanlab(labels, chances), seconds


def _cleanlab(labels, chances):
    """Return {"cleanlab": its quality score of each label}, or {} if cleanlab is not installed."""
    try:
        from cleanlab.rank import get_label_quality_scores
    except ImportError:
        return {}
    quality = get_label_quality_scores(labels, chances, method="normalized_margin", adjust_pred_probs=True)
    return {"cleanlab": quality}


def measure(quick, orders, first):
    """Return a list of dicts, one for each stream and number of labels: the share of wrong answers found by each
    method."""
    lines = []
    for name in ("tweets",) if quick else STREAMS:
        *_, (_, data) = tables(name)
        for labels in (60,) if quick else LABELS:
            found, times = defaultdict(list), []
            for seed in range(first, first + orders):
                asked, y, margins, wrong = answered(data, labels, seed)
                by, seconds = scores(asked, y, margins, seed)
                times.append(seconds)
                for method, values in by.items():
                    ranked = wrong[np.argsort(values, kind="stable")]
                    for share in FIRST:
                        found[method, share].append(ranked[: int(np.ceil(share * y.size))].sum() / max(1, wrong.sum()))
            shares = {
                f"{method}, {share:.0%}": float(np.mean(all_found)) for (method, share), all_found in found.items()
            }
            lines.append({"stream": name, "labels": labels, "seconds": float(np.median(times))} | shares)
    return lines


def main(
    quick: Annotated[bool, typer.Option("--quick", help="The demo only, for a trial.")] = False,
    orders: Annotated[int, typer.Option(min=1, help="Orders of each stream.")] = 10,
    first: Annotated[int, typer.Option(min=0, help="Seed of the first order.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Measure the percentage of the wrong answers that are among the first answers of each ranking."""
    lines = measure(quick, orders, first)
    if as_json:
        print(json.dumps(lines))
        return
    columns = [column for column in lines[0] if column not in ("stream", "labels", "seconds")]
    for labels in dict.fromkeys(line["labels"] for line in lines):
        own = [line for line in lines if line["labels"] == labels]
        mean = {"stream": "mean", "labels": labels} | {
            column: np.mean([line[column] for line in own]) for column in [*columns, "seconds"]
        }
        lines.append(mean)
    cells = ([line["stream"], line["labels"], *(f"{100 * line[column]:.0f}" for column in columns)] for line in lines)
    print("\n".join(table(("stream", "labels", *columns), cells)))
    print(f"Seconds for the model of all others, at the most: {max(line['seconds'] for line in lines):.2f}.")


if __name__ == "__main__":
    typer.run(main)
