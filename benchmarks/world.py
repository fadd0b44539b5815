"""Compare `auto` and `auto-sum` with the world outside: `python benchmarks/world.py`. Everybody gets the same rows, the
same orders and the same number of labels. The README says who the others are, and how they ask.

push: F1 of the predictions, each made before its label was seen. sum: the balanced accuracy of these. list: F1 of the
last model's decisions, and the answers as given. line: the same at the threshold that is best in hindsight. Plain rows
are words by tf-idf, or standardized columns; own rows are the defaults of an import.
"""

import json
import warnings
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from time import process_time
from typing import Annotated

import numpy as np
import typer
from common import STREAMS, installed, number, read_stream, table
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn import config_context
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import balanced_accuracy_score, f1_score
from sklearn.naive_bayes import MultinomialNB
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from oal_engine import datasets
from oal_engine.kernel import rows, spending, stream
from oal_engine.kernel.algorithms import strategy
from oal_engine.kernel.metrics import Weights, evaluate
from oal_engine.kernel.runs import Run

BUDGETS = (30, 100, 300, 1000)
NAMES = [name for name in STREAMS if name not in ("a9a", "w8a")]  # these are for estimates.py
TENS, STEPS = [10.0**power for power in range(-3, 2)], (0.1, 1.0, 10.0)
GRIDS = {
    "OAAL": {"delta_plus": TENS, "delta_minus": TENS},
    "PAA-I": {"C": STEPS, "delta": TENS},
    "CSPAA": {"C": STEPS, "delta": TENS},
    "OA3-diag": {"eta": STEPS, "delta_plus": TENS[:4], "delta_minus": TENS[:4]},
    "SOAL-diag": {"eta": STEPS, "delta": TENS},
    "D-AMD": {"eta": STEPS, "b": TENS},
}
OWN = {"push": "auto", "list": "auto, find", "sum": "auto-sum"}  # the algorithm that each figure is for
FIGURES, COSTS = (*OWN, "push line", "list line"), ("labels used", "seconds")
BLOCK, RECENT = 32, 200  # rows whose margins are computed at once; rows of the quantile


def learned(model, x, y, asked, line):
    """Return the weights and the bias of a linear model after the last answer. It learns this answer (SGD, river) or is
    refitted on all: after each of the first 100, then after every tenth. line: those before. asked: answered rows."""
    (w, b), last = line, asked[-1:]
    if hasattr(model, "learn_one"):
        row = csr_array(x[last])
        model.learn_one(dict(zip(row.indices.tolist(), row.data.tolist())), bool(y[asked[-1]] > 0))
        weights, b = (model.weights, model.intercept) if hasattr(model, "intercept") else (model.w, 0.0)
        w[list(weights)] = list(weights.values())
    elif isinstance(model, SGDClassifier):
        model.partial_fit(x[last], y[last], classes=[-1, 1])
        w, b = model.coef_[0], model.intercept_[0]
    elif np.ptp(y[asked]) == 0:
        b = 10.0 * y[asked[0]]  # sure of the only class that it knows
    elif len(asked) <= 100 or len(asked) % 10 == 0:
        model.fit(x[asked], y[asked])
        bayes = isinstance(model, MultinomialNB)
        w, b = (np.diff(model.feature_log_prob_, axis=0)[0], 0.0) if bayes else (model.coef_[0], model.intercept_[0])
    return w, b


def in_stream(rule, model, x, y, budget, seed):
    """Ask in a stream. rule: "quantile" (small |margins|; at random while only one class is known), "entropy" (river's
    sampler), or a strategy of scikit-activeml, whose budget manager decides by 1 - the larger class probability. Return
    the margins before each label, those of the last model, and the asked rows."""
    model, before, asked, t, (w, b) = model(), np.empty(y.size), [], 0, (np.zeros(x.shape[1]), 0.0)
    rng, end, sampler, manager = np.random.default_rng(seed), min(y.size // 4, 40 * budget), None, None
    if rule == "entropy":
        sampler = import_module("river.active").EntropySampler(model, seed=seed)
    elif rule != "quantile":
        drawn = {} if rule == "VariableUncertainty" else {"random_state": seed}
        strategies = import_module("skactiveml.stream.budgetmanager")
        manager = getattr(strategies, f"{rule}BudgetManager")(budget=budget / end, **drawn)
    while t < y.size:
        left, start = budget - len(asked), max(0, t - RECENT)
        recent, coming = np.split(x[start : t + BLOCK if left else y.size] @ w + b, [t - start])
        before[t : t + coming.size], wanted = coming, ()
        if left and manager:
            wanted = manager.query_by_utility(1 - expit(np.abs(coming)))[:1]
            manager.update(np.zeros((wanted[0] + 1 if wanted else coming.size, 1)), wanted)
        elif left and sampler:
            chances = ({True: p, False: 1 - p} for p in expit(coming).tolist())
            wanted = (k for k, each in enumerate(chances) if sampler._ask_for_label(None, each))
        elif left:
            share = left / max(left, end - t) if t >= 10 else 1.0
            chance = np.abs(coming) <= np.quantile(np.abs(recent), share) if np.ptp(y[asked or [0]]) else share
            wanted = [0] if share == 1 else np.flatnonzero(rng.random(coming.size) < chance)
        k = next(iter(wanted), None)
        t += coming.size if k is None else k + 1
        if k is not None:
            asked.append(t - 1)
            w, b = learned(model, x, y, asked, (w, b))
    return before, x @ w + b, asked


def in_file(rank, model, x, y, budget, seed):
    """Ask in the whole file, where the rank of the margin is smallest; in order while only one class is known."""
    model, asked, (w, b) = model(), [], (np.zeros(x.shape[1]), 0.0)
    while len(asked) < budget:
        ranks = rank(x @ w + b) if np.ptp(y[asked or [0]]) else np.arange(y.size, dtype=float)
        ranks[asked] = np.inf
        asked += np.argsort(ranks, kind="stable")[: 1 if len(asked) < 100 else 10].tolist()
        w, b = learned(model, x, y, asked, (w, b))
    return None, x @ w + b, asked


RULES, BAYES = ("VariableUncertainty", "RandomVariableUncertainty", "Split"), "naive Bayes, most relevant first"
LOGISTIC = partial(LogisticRegression, C=10, class_weight="balanced", solver="liblinear")
SGD = partial(SGDClassifier, loss="log_loss", random_state=0)
PEERS = {BAYES: partial(in_file, np.negative, partial(MultinomialNB, alpha=3.822))}  # 3.822 is ASReview's default
for name, model in (("logistic", LOGISTIC), ("SVM", partial(LinearSVC, class_weight="balanced"))):
    PEERS[f"{name}, in stream"] = partial(in_stream, "quantile", model)
    PEERS[f"{name}, in file"] = partial(in_file, np.abs, model)
for rule, (name, model) in product(RULES, (("logistic", LOGISTIC), ("SGD", SGD))):
    PEERS[f"scikit-activeml {rule}, {name}"] = partial(in_stream, rule, model)
for name in ("LogisticRegression", "ALMAClassifier"):
    model = partial(lambda name: getattr(import_module("river.linear_model"), name)(), name)
    PEERS[f"river {name}"] = partial(in_stream, "entropy", model)
LEFT_OUT = [package for package in ("river", "scikit-activeml") if installed(package) == "not installed"]


def best_line(margins, y, asked):
    """Return the largest F1 that a threshold on the margins gives, with the answers of asked items as given."""
    found, rest = (y[asked] > 0).sum(), np.delete(np.arange(y.size), asked)
    ranked = rest[np.argsort(-margins[rest])]
    hits, ties = np.cumsum(y[ranked] > 0), np.append(np.diff(margins[ranked]) == 0, False)
    return (2 * (found + hits) / (np.arange(ranked.size) + 1 + found + (y > 0).sum()))[~ties].max()


def outside(matrix, labels, peer, order, budget, seed):
    """Return the figures and costs of a peer over an order."""
    x, y, start = matrix[order], labels[order], process_time()
    before, last, asked = peer(x, y, budget, seed)
    figures = {"seconds": process_time() - start, "labels used": len(asked), "list line": best_line(last, y, asked)}
    figures["list"] = f1_score(y > 0, np.where(np.isin(np.arange(y.size), asked), y, last) > 0)
    if before is not None:
        figures |= {"push": f1_score(y > 0, before > 0), "push line": best_line(before, y, [])}
        figures["sum"] = balanced_accuracy_score(y > 0, before > 0)
    return figures


def ours(data, algorithm, values, order, budget, seed, goal=spending.STREAM):
    """Return the figures and costs of an algorithm of this project over an order. values: its parameters."""
    chosen = strategy(algorithm, values=values)
    rho = chosen.known_rho("laplace", Weights(), "sum")
    run = Run(chosen, data.rows, data.y, order, rho=rho, budget=budget, seed=seed, goal=goal)
    start = process_time()
    done = run.replay(log=True, parts=(parts := run.start()))
    costs = {"seconds": process_time() - start, "labels used": done.queried}
    push, listed = evaluate(done.counts, "push"), evaluate(run.listed(done, parts), "list")
    figures = {"list": listed["f1"]}
    if goal == spending.STREAM:
        figures |= {"push": push["f1"], "sum": push["sum"]}
    if chosen.tunes_itself:
        margins = np.empty((data.y.size, 1))
        stream.scores(data.rows, parts[0], 0.0, margins)
        figures["list line"] = best_line(margins[done.order, 0], data.y[done.order], done.log[:, 0].astype(int))
    return figures | costs


def best(tried):
    """Return the figures of the setting that is best, for each figure. tried: {name of the setting: its figures}."""
    names = {figure: max(tried, key=lambda name: np.mean(tried[name][figure])) for figure in OWN}
    figures = {figure: tried[name][figure] for figure, name in names.items()}
    return figures | {name: tried[names["push"]][name] for name in COSTS} | {"settings": names}


def measured(data, visits, budget, first, grids, words):
    """Return {name: the values of each figure in percent, one for each order, and the median costs} of everybody who is
    installed. words: whether the rows are words alone."""

    def over(run, *given):
        runs = [run(*given, order, budget, first + k) for k, order in enumerate(visits)]
        percent = {name: [round(100 * run[name], 2) for run in runs] for name in FIGURES if name in runs[0]}
        return percent | {name: float(np.median([run[name] for run in runs])) for name in COSTS}

    settings = [(name, {}) for name in grids]
    settings += [(name, dict(zip(grid, each))) for name, grid in grids.items() for each in product(*grid.values())]
    tried = {
        " ".join([name, *(f"{key}={value:g}" for key, value in values.items())]): over(ours, data, name, values)
        for name, values in settings
    }
    lines = {name: over(ours, data, name, {}) for name in ("auto", "auto-sum")}
    lines["auto, find"] = over(partial(ours, goal=spending.FIND), data, "auto", {})
    lines |= {"papers, defaults": best({name: tried[name] for name in grids}), "papers, hindsight": best(tried)}
    matrix = rows.matrix(data.rows)
    for name, peer in PEERS.items():
        if name.split()[0] not in LEFT_OUT and (words or name != BAYES):
            lines[name] = over(outside, matrix, data.y, peer)
    return lines


def tables(name, features):
    """Yield ("plain", table) and ("own", table) of a stream; nothing if its file is missing. features: of texts."""
    items = read_stream(name)
    if items is not None and items.texts is not None:
        yield "plain", datasets.table(items, features="words")
        yield "own", datasets.table(items, features=features)
    elif items is not None:
        yield "plain", datasets.table(items, "standardize+l2" if isinstance(items.vectors, np.ndarray) else "l2")
        yield "own", datasets.file_table(items)


def compared(lines, figure):
    """Return cells: stream, labels, rows, our mean, and the best of the others without and with hindsight: their lead,
    its standard error, and their name. On own rows we also compete with others on plain ones."""
    cells = []
    for our in (line for line in lines if line["method"] == OWN[figure]):
        fair, late = [], []
        for line in (
            line for line in lines if line["method"] != OWN[figure] and line["rows"] in ("plain", our["rows"])
        ):
            same = line["stream"] == our["stream"] and line["labels"] == our["labels"]
            for key in {figure, f"{figure} line"} & line.keys() if same else ():
                lead, who = np.subtract(line[key], our[figure]), line.get("settings", {}).get(key, line["method"])
                who = ", ".join([who, line["rows"], *(["line"] if key != figure else [])])
                leads = late if key != figure or "hindsight" in line["method"] else fair
                leads.append((lead.mean(), lead.std(ddof=1) / lead.size**0.5, who))
        names = [our[key] for key in ("stream", "labels", "rows")]
        cells.append((names, np.mean(our[figure]), max(fair), max(fair + late)))
    return cells


def report(lines):
    """Yield Markdown: where we are behind, in how many cells we are not, and everything."""
    shares, whole = [], []
    for figure, own in OWN.items():
        cells = compared(lines, figure)
        yield f"## {figure}: where `{own}` is more than 1 point behind\n"
        behind = [
            [*names, f"{mean:.1f}", *(f"{lead:+.1f} ± {error:.1f} {name}" for lead, error, name in leads)]
            for names, mean, *leads in sorted(cells, key=lambda cell: -cell[-1][0])
            if leads[1][0] > 1
        ]
        yield from table(["stream", "labels", "rows", own, "best", "best in hindsight"], behind)
        for kind, (late, best_of) in product(("plain", "own"), enumerate(("best", "best in hindsight"))):
            near = [[cell[2 + late][0] <= 1 for cell in cells if cell[0][1:] == [n, kind]] for n in BUDGETS]
            shares.append([figure, own, kind, best_of, *(f"{np.mean(each):.0%}" if each else "" for each in near)])
    yield "## Share of streams within 1 point of the best, or ahead, by labels\n"
    yield from table(["figure", "algorithm", "rows", "of the", *map(str, BUDGETS)], shares)
    yield "## Everything\n"
    for line in lines:
        figures = (f"{np.mean(line[figure]):.1f}" if figure in line else "" for figure in FIGURES)
        costs = f"{line['labels used']:.0f}", number(line["seconds"])
        whole.append([line["stream"], line["rows"], line["labels"], line["method"], *figures, *costs])
    yield from table(["stream", "rows", "labels", "method", *FIGURES, *COSTS], whole)


def main(
    quick: Annotated[bool, typer.Option("--quick", help="The demo and one published algorithm, for a trial.")] = False,
    orders: Annotated[int, typer.Option(min=2, help="Orders of each stream.")] = 20,
    first: Annotated[int, typer.Option(min=0, help="Seed of the first order.")] = 0,
    most: Annotated[int, typer.Option(min=200, help="Only the first items of each order.")] = 8000,
    only: Annotated[list[str] | None, typer.Option("--stream", help="Only these streams.")] = None,
    features: Annotated[str | None, typer.Option(help="Features of the own rows of texts.")] = None,
    merge: Annotated[list[Path] | None, typer.Option(help="Run nothing; read these results of --json.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Compare `auto` and `auto-sum` with others on equal rows and labels; where they are behind comes first."""
    warnings.simplefilter("ignore")  # of refits that do not converge, and of F1 without pushes
    found = [json.loads(path.read_text()) for path in merge or ()]
    left_out = sorted({*LEFT_OUT}.union(*(part["left out"] for part in found)))
    lines, grids, budgets = [line for part in found for line in part["lines"]], GRIDS, BUDGETS
    if quick:
        only, grids, budgets, orders, most = ["tweets"], {"PAA-I": {"C": STEPS}}, BUDGETS[:1], 2, 1000
    wanted = [] if merge else only or NAMES
    for name, (kind, data) in ((each, pair) for each in wanted for pair in tables(each, features)):
        visits = [stream.shuffled(data.y.size, first + k)[:most] for k in range(orders)]
        for budget in (budget for budget in budgets if budget <= visits[0].size / 4):
            with threadpool_limits(1), config_context(assume_finite=True, skip_parameter_validation=True):
                figures = measured(data, visits, budget, first, grids, kind == "plain" and data.vocabulary)
            cell = {"stream": name, "rows": kind, "labels": budget}
            lines += [cell | {"method": method} | each for method, each in figures.items()]
    if as_json:
        print(json.dumps({"left out": left_out, "lines": lines}))
    else:
        count, missing = len(lines[0]["push"]) if lines else "No", ", ".join(left_out) or "nothing"
        head = f"{count} orders. Left out, because not installed: {missing}.\n"
        print("\n".join([head, *report(lines)]))


if __name__ == "__main__":
    typer.run(main)
