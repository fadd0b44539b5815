"""Compare `auto` and `auto-sum` with the world outside: `python benchmarks/world.py`. Everybody gets the same rows, the
same orders and the same number of labels. The README says who the others are, and how they ask.

push: F1 of the predictions, each made before its label was seen. sum: the balanced accuracy of these. list: F1 of the
last model's decisions, and the answers as given. line: the same at the threshold that is best in hindsight. Plain rows
are words by tf-idf, or standardized columns; own rows are the defaults of an import.
"""

import json
import warnings
from functools import partial
from itertools import product
from pathlib import Path
from time import process_time
from typing import Annotated

import numpy as np
import typer
from common import STREAMS, installed, number, read_stream, table
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from oal_engine import datasets
from oal_engine.kernel import metrics, rows, stream
from oal_engine.kernel.algorithms import strategy
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
BLOCK, RECENT, FIRST = 32, 200, 10  # items predicted at once; items of the quantile; items asked at the start
OWN = {"push": "auto", "list": "auto", "sum": "auto-sum"}  # the algorithm that each figure is for
RULES = ("VariableUncertainty", "RandomVariableUncertainty", "Split")
FIGURES = (*OWN, "push line", "list line")


class Learner:
    """A linear model, updated by each answer (SGD, river) or refitted on all: after each of the first 100, then after
    every tenth. both: whether both classes are known."""

    def __init__(self, model, x):
        self.model, self.w, self.b, self.both = model, np.zeros(x.shape[1]), 0.0, False

    def margins(self, x):
        """Return the margins of rows."""
        return x @ self.w + self.b

    def learn(self, x, y, asked):
        """Learn the last answer. asked: the rows of all answers."""
        last, model = asked[-1:], self.model
        self.both |= y[asked[-1]] != y[asked[0]]
        if hasattr(model, "learn_one"):
            row = csr_array(x[last])
            model.learn_one(dict(zip(row.indices.tolist(), row.data.tolist())), bool(y[asked[-1]] > 0))
            weights = getattr(model, "weights", None) or model.w
            self.w[list(weights)], self.b = list(weights.values()), getattr(model, "intercept", 0.0)
        elif isinstance(model, SGDClassifier):
            model.partial_fit(x[last], y[last], classes=[-1, 1])
            self.w, self.b = model.coef_[0], model.intercept_[0]
        elif not self.both:
            self.b = 10.0 * y[asked[0]]  # sure of the only class that it knows
        elif len(asked) <= 100 or len(asked) % 10 == 0:
            model.fit(x[asked], y[asked])
            bayes = isinstance(model, MultinomialNB)
            self.w = np.diff(model.feature_log_prob_, axis=0)[0] if bayes else model.coef_[0]
            self.b = 0.0 if bayes else model.intercept_[0]


def in_stream(learner, ask, x, y, budget):
    """Ask in a stream. ask: returns which of the next items to ask, or None, given the round, their margins, and the
    number of labels left. Return the margins before each label, the last model's margins, and the asked rows."""
    margins, asked, t = np.empty(y.size), [], 0
    while t < y.size:
        left = budget - len(asked)
        stop = min(t + BLOCK, y.size) if left else y.size
        margins[t:stop] = learner.margins(x[t:stop])
        k = ask(t, margins[t:stop], left) if left else None
        t = stop if k is None else t + k + 1
        if k is not None:
            asked.append(t - 1)
            learner.learn(x, y, asked)
    return margins, learner.margins(x), asked


def by_quantile(model, x, y, budget, seed):
    """Ask where |margin| is small; at random while only one class is known."""
    learner, rng, end = Learner(model(), x), np.random.default_rng(seed), min(y.size // 4, 40 * budget)

    def ask(t, margins, left):
        share = left / max(1, end - t)
        if t < FIRST or share >= 1:
            return 0
        recent = np.abs(learner.margins(x[max(0, t - RECENT) : t]))
        near = np.abs(margins) <= np.quantile(recent, share) if learner.both else rng.random(margins.size) < share
        return near.argmax() if near.any() else None

    return in_stream(learner, ask, x, y, budget)


def by_manager(rule, model, x, y, budget, seed):
    """Ask as a strategy of scikit-activeml does: its budget manager decides by 1 - the larger class probability."""
    from skactiveml.stream import budgetmanager

    drawn = {} if rule == "VariableUncertainty" else {"random_state": seed}
    manager = getattr(budgetmanager, f"{rule}BudgetManager")(budget=max(4 * budget / y.size, 1 / 40), **drawn)

    def ask(t, margins, left):
        asked = manager.query_by_utility(1 - expit(np.abs(margins)))[:1]
        manager.update(np.zeros((asked[0] + 1 if asked else margins.size, 1)), asked)
        return asked[0] if asked else None

    return in_stream(Learner(model(), x), ask, x, y, budget)


def by_sampler(name, x, y, budget, seed):
    """Ask as river's entropy sampler does."""
    from river import active, linear_model

    sampler = active.EntropySampler(getattr(linear_model, name)(), seed=seed)

    def ask(t, margins, left):
        chances = ({True: p, False: 1 - p} for p in expit(margins).tolist())
        return next((k for k, each in enumerate(chances) if sampler._ask_for_label(None, each)), None)

    return in_stream(Learner(sampler.classifier, x), ask, x, y, budget)


def in_file(rank, model, x, y, budget, seed):
    """Ask in the whole file: where the rank of the margin is smallest."""
    learner, asked = Learner(model(), x), []
    while len(asked) < budget:
        ranks = rank(learner.margins(x)) if learner.both else np.arange(y.size, dtype=float)
        ranks[asked] = np.inf
        asked += np.argsort(ranks, kind="stable")[: 1 if len(asked) < 100 else 10].tolist()
        learner.learn(x, y, asked)
    return None, learner.margins(x), asked


LOGISTIC = partial(LogisticRegression, C=10, class_weight="balanced", solver="liblinear")
SGD = partial(SGDClassifier, loss="log_loss", random_state=0)
BAYES = "naive Bayes, most relevant first"
PEERS = {BAYES: partial(in_file, np.negative, partial(MultinomialNB, alpha=3.822))}  # 3.822 is ASReview's default
for name, model in (("logistic", LOGISTIC), ("SVM", partial(LinearSVC, class_weight="balanced"))):
    PEERS |= {f"{name}, in stream": partial(by_quantile, model), f"{name}, in file": partial(in_file, np.abs, model)}
for rule, (name, model) in product(RULES, (("logistic", LOGISTIC), ("SGD", SGD))):
    PEERS[f"scikit-activeml {rule}, {name}"] = partial(by_manager, rule, model)
PEERS |= {f"river {name}": partial(by_sampler, name) for name in ("LogisticRegression", "ALMAClassifier")}
LEFT_OUT = [package for package in ("river", "scikit-activeml") if installed(package) == "not installed"]


def best_line(margins, y, asked):
    """Return the largest F1 that a threshold on the margins gives, with the answers of asked items as given."""
    found, rest = (y[asked] > 0).sum(), np.delete(np.arange(y.size), asked)
    ranked = rest[np.argsort(-margins[rest])]
    hits, ties = np.cumsum(y[ranked] > 0), np.append(np.diff(margins[ranked]) == 0, False)
    return (2 * (found + hits) / (np.arange(ranked.size) + 1 + found + (y > 0).sum()))[~ties].max()


def outside(matrix, labels, peer, order, budget, seed):
    """Return the figures of a peer over an order, and its seconds."""
    x, y, start = matrix[order], labels[order], process_time()
    before, last, asked = peer(x, y, budget, seed)
    figures, is_asked = {"seconds": process_time() - start}, np.isin(np.arange(y.size), asked).astype(int)
    for name, margins, given in (("list", last, asked), ("push", before, [])):
        if margins is not None:
            counts = metrics.empty()
            np.add.at(counts, (np.int64(margins > 0), y + 1, is_asked), 1)
            found = metrics.evaluate(counts, name)
            figures |= {name: found["f1"], f"{name} line": best_line(margins, y, given)}
            figures |= {"sum": found["sum"]} if name == "push" else {}
    return figures


def ours(data, algorithm, values, order, budget, seed):
    """Return the figures of an algorithm of this project over an order, and its seconds. values: its parameters."""
    chosen = strategy(algorithm, values=values)
    rho = chosen.known_rho("laplace", metrics.Weights(), "sum")
    run, start = Run(chosen, data.rows, data.y, order, rho=rho, budget=budget, seed=seed), process_time()
    done = run.replay(log=True, parts=(parts := run.start()))
    seconds, push = process_time() - start, metrics.evaluate(done.counts, "push")
    figures = {"push": push["f1"], "sum": push["sum"], "list": metrics.evaluate(run.listed(done, parts), "list")["f1"]}
    if chosen.tunes_itself:
        margins = np.empty((data.y.size, 1))
        stream.scores(data.rows, parts[0], 0.0, margins)
        figures["list line"] = best_line(margins[order, 0], data.y[order], done.log[:, 0].astype(int))
    return figures | {"seconds": seconds}


def gathered(runs):
    """Return {figure: its values in percent, one for each order} of runs, and the median of the seconds."""
    runs = list(runs)
    percent = {name: [round(100 * run[name], 2) for run in runs] for name in FIGURES if name in runs[0]}
    return percent | {"seconds": np.median([run["seconds"] for run in runs])}


def best(tried):
    """Return the figures of the setting that is best, for each figure. tried: {name of the setting: its figures}."""
    names = {figure: max(tried, key=lambda name: np.mean(tried[name][figure])) for figure in OWN}
    figures = {figure: tried[name][figure] for figure, name in names.items()}
    return figures | {"seconds": tried[names["push"]]["seconds"], "settings": names}


def measured(data, visits, budget, first, grids, words):
    """Return {name: figures} of everybody who is installed. words: whether the rows are words alone."""

    def over(run, *given):
        return gathered(run(*given, order, budget, first + k) for k, order in enumerate(visits))

    matrix = rows.matrix(data.rows)
    tried = {name: over(ours, data, name, {}) for name in grids}
    lines = {name: over(ours, data, name, {}) for name in ("auto", "auto-sum")} | {"papers, defaults": best(tried)}
    for name, grid in grids.items():
        for values in product(*grid.values()):
            setting = dict(zip(grid, values))
            tried[f"{name} {setting}"] = over(ours, data, name, setting)
    lines["papers, hindsight"] = best(tried)
    for name, peer in PEERS.items():
        if name.split()[0] not in LEFT_OUT and (words or name != BAYES):
            lines[name] = over(outside, matrix, data.y, peer)
    return lines


def tables(name, features):
    """Yield ("plain", table) and ("own", table) of a stream. features: of the own rows of texts."""
    items = read_stream(name)
    if items.texts is not None:
        yield "plain", datasets.table(items, features="words")
        yield "own", datasets.table(items, features=features)
    else:
        yield "plain", datasets.table(items, "standardize+l2" if isinstance(items.vectors, np.ndarray) else "l2")
        yield "own", datasets.file_table(items)


def compared(lines, figure):
    """Return cells: stream, labels, rows, our mean, and the best of the others without and with hindsight: their lead,
    its standard error, and their name. On own rows we also compete with others on plain ones."""
    cells = []
    for our in (line for line in lines if line["method"] == OWN[figure]):
        fair, late = [], []
        for line in lines:
            same = line["stream"] == our["stream"] and line["labels"] == our["labels"] and line["method"] != OWN[figure]
            for key in (figure, f"{figure} line") if same and line["rows"] in ("plain", our["rows"]) else ():
                if key in line:
                    lead, name = np.subtract(line[key], our[figure]), f"{line['method']}, {line['rows']}"
                    hindsight = key != figure or "hindsight" in name
                    named = lead.mean(), lead.std(ddof=1) / lead.size**0.5, name + ", line" * (key != figure)
                    (late if hindsight else fair).append(named)
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
        means = (f"{np.mean(line[figure]):.1f}" if line.get(figure) else "" for figure in FIGURES)
        whole.append([line["stream"], line["rows"], line["labels"], line["method"], *means, number(line["seconds"])])
    yield from table(["stream", "rows", "labels", "method", *FIGURES, "seconds"], whole)


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
    warnings.simplefilter("ignore", ConvergenceWarning)
    found = [json.loads(path.read_text()) for path in merge or ()]
    left_out = sorted({*LEFT_OUT}.union(*(part["left out"] for part in found)))
    lines, grids, budgets = [line for part in found for line in part["lines"]], GRIDS, BUDGETS
    if quick:
        only, grids, budgets, orders, most = ["tweets"], {"PAA-I": {"C": STEPS}}, BUDGETS[:1], 2, 1000
    wanted = [] if merge else only or NAMES
    for name, (kind, data) in ((each, pair) for each in wanted for pair in tables(each, features)):
        visits = [stream.shuffled(data.y.size, first + k)[:most] for k in range(orders)]
        for budget in (budget for budget in budgets if budget <= visits[0].size / 4):
            with threadpool_limits(1):
                figures = measured(data, visits, budget, first, grids, kind == "plain" and data.vocabulary)
            cell = {"stream": name, "rows": kind, "labels": budget}
            lines += [cell | {"method": method} | each for method, each in figures.items()]
    if as_json:
        print(json.dumps({"left out": left_out, "lines": lines}))
    else:
        head = f"{len(lines[0]['push'])} orders. Left out, because not installed: {', '.join(left_out) or 'nothing'}.\n"
        print("\n".join([head, *report(lines)]))


if __name__ == "__main__":
    typer.run(main)
