"""Compare stopping rules for a screening on labeled reviews and streams: `python benchmarks/stopping.py` prints the
share of the items read, the recall reached, and how often the target recall was missed.

A person reads the items that a model ranks highest, batch by batch, until a rule says stop. Our guaranteed minimum
(floor) and our estimate come from sessions of the product, which run with more and more labels until their lower bound
of recall reaches the target. docs/certainty.md explains the results.
"""

import json
import sys
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Annotated, NamedTuple

import numpy as np
import typer
from scipy.stats import hypergeom
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

sys.path.insert(0, str(Path(__file__).parent.parent))

from certainty import course, grouped, mean
from common import machine, table
from estimates import SHARED, sources

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.kernel import certainty, estimates, metrics, rows, stream
from oal_engine.sessions.insights.certainty import RECOMMENDED

ITEMS = 2_000  # of each data set at most
LEAST = 100  # labeled items of a review
TARGETS = (0.8, 0.9, 0.95)  # of recall
BATCH = 0.01  # share of the items read between two fits; as many are read at random before the first
BUDGETS = np.arange(0.05, 1, 0.05)  # labels of our sessions, as shares of the items
KEY_PAPERS = 3  # number for SAFE, drawn from the relevant items; the model does not know them
SAFE = "SAFE"


class Look(NamedTuple):
    """The state of a screening after a batch: the items read, in order, and their labels; the number of items read
    before the first model; the model's probability that each item is relevant; and the key papers."""

    seen: np.ndarray
    labels: np.ndarray
    start: int
    chance: np.ndarray
    key_papers: np.ndarray | tuple = ()


# ---- Rules: each returns whether a screening stops at a look


def in_a_row(count):
    """Return a rule: stop after `count` irrelevant items in a row (below 1: this share of all items)."""

    def stops(look):
        last = count if count >= 1 else round(count * look.chance.size)
        ranked = look.labels[look.start :]
        return ranked.size >= last and not ranked[-last:].any()

    return stops


def callaghan(target):
    """Return the rule of Callaghan and Müller-Hansen (2020): stop if, for some n, so few of the last n items are
    relevant that recall below the target is improbable (hypergeometric test, as if they were drawn at random)."""

    def stops(look):
        found = look.labels[::-1].cumsum()  # among the last 1, 2, ... items
        last = np.arange(1, found.size + 1)
        least = np.floor(found[-1] / target + 1 - (found[-1] - found))  # relevant among these and the unread items
        population = look.chance.size - found.size + last
        return bool((hypergeom.cdf(found, population, np.minimum(least, population), last) < certainty.RISK).any())

    return stops


def quant_ci(target):
    """Return the rule QuantCI (Yang, Lewis and Frieder 2021): stop if the lower end of an interval of recall, computed
    from the model's probabilities, reaches the target."""

    def stops(look):
        read = np.zeros(look.chance.size, bool)
        read[look.seen] = True
        known, missed = look.chance[read].sum(), look.chance[~read].sum()
        inside, outside = ((look.chance * (1 - look.chance))[side].sum() for side in (read, ~read))
        both = known + missed
        width = np.sqrt(inside / both**2 + known**2 / both**4 * (inside + outside))
        return known / both - 2 * width >= target

    return stops


def safe(look):
    """Return whether the second step of SAFE ends (Boetje and van de Schoot 2024): all key papers are found, the last
    50 items are irrelevant, and at least a tenth of the items and twice the estimated relevant ones are read."""
    items = look.chance.size
    enough = max(0.1 * items, 2 * look.labels[: look.start].mean() * items)
    return look.seen.size >= enough and np.isin(look.key_papers, look.seen).all() and in_a_row(50)(look)


RULES = {
    (target, name): rule
    for target in TARGETS
    for name, rule in {
        "Callaghan and Müller-Hansen": callaghan(target),
        "QuantCI": quant_ci(target),
        "50 irrelevant in a row": in_a_row(50),
        "5% irrelevant in a row": in_a_row(0.05),
        SAFE: safe,
    }.items()
}


# ---- Screenings and sessions


def screening(matrix, relevant, seen, model, key_papers=()):
    """Simulate a screening: read the items that a model ranks highest, batch by batch, and refit the model after each
    batch. Yield a Look after each fit. seen: the items read before the first fit."""
    start, batch = seen.size, max(1, round(BATCH * relevant.size))
    while True:
        chance = model.fit(matrix[seen], relevant[seen]).predict_proba(matrix)[:, 1]
        yield Look(seen, relevant[seen], start, chance, key_papers)
        rest = np.setdiff1d(np.arange(relevant.size), seen)
        if not rest.size:
            return
        seen = np.append(seen, rest[np.argsort(-chance[rest], kind="stable")[:batch]])


def screened(matrix, relevant, seed):
    """Simulate a screening. Return {(target, rule): the items read until the rule stops, or all items if it never
    does}."""
    rng, n = np.random.default_rng(seed), relevant.size
    order = rng.permutation(n)
    first = max(round(BATCH * n), *(1 + int((relevant[order] == kind).argmax()) for kind in (True, False)))
    key_papers = rng.permutation(np.flatnonzero(relevant))[:KEY_PAPERS]
    model, read = LogisticRegression(C=10, class_weight="balanced", solver="liblinear"), {}
    for look in screening(matrix, relevant, order[:first], model, key_papers):
        read |= {rule: look.seen for rule, stops in RULES.items() if rule not in read and stops(look)}
        if len(read) == len(RULES):
            break
    read = dict.fromkeys(RULES, order) | read
    second = RandomForestClassifier(class_weight="balanced", random_state=seed)
    third_step = screening(matrix, relevant, read[TARGETS[0], SAFE], second)
    both = next((look.seen for look in third_step if in_a_row(50)(look)), order)
    return read | {(target, SAFE): both for target in TARGETS}


def certified(part, y, seed):
    """Run sessions with more and more labels. Return {(target, bound): (items found, number of items read)} for the
    first session whose bound reaches the target; all items if none does."""
    passed = {}
    for share in BUDGETS:
        run = course(part, y, y, round(share * y.size), RECOMMENDED, seed)
        pushed = np.flatnonzero(run.predicted > 0)
        found = np.union1d(pushed, run.asked)
        for name, (bound, read) in bounds(run, pushed, y).items():
            for target in TARGETS:
                if bound >= target:
                    passed.setdefault((target, name), (found, found.size if read else run.asked.size))
    return {
        (target, name): passed.get((target, name), (np.arange(y.size), y.size)) for target in TARGETS for name in OURS
    }


OURS = "our floor", "our floor, pushed items are read", "our estimate"


def bounds(run, pushed, y):
    """Return {name: (lower bound of final recall, whether pushed items are read)} for the guaranteed minimum (floor),
    the floor if a person reads the pushed items, and the lower end of the estimate's interval."""
    end, positives = np.array([run.looks.size - 1]), np.array([(y[pushed] > 0).sum()])
    values, enough, _ = estimates.windows(
        run.predicted[run.asked] > 0, run.last, run.chance, np.array([run.asked.size]), np.array([run.predicted.size]),
        np.array([pushed.size]), metrics.Weights(),
    )  # fmt: skip
    floors = [run.floors(end, run.last, true)["push_query"]["recall"][0] for true in (None, positives)]
    low = values["push_query"]["sensitivity"][1, 0] if enough["sensitivity"][0] else 0
    return dict(zip(OURS, zip((*floors, low), (False, True, False))))


def reviews(folder, pattern):
    """Yield the name and the table of each review in a folder. Print why any other file is left out."""
    for file in sorted(folder.glob(pattern)):
        try:
            items = reading.read(file)
            if not items.columns.text or items.columns.label not in ("included", "label_included"):
                raise ValueError(f"{file.name} needs columns title, abstract or text, and included (1 and 0).")
            data = datasets.table(items, tokenizer="words")
            if np.count_nonzero(data.y) < LEAST:
                raise ValueError(f"{file.name} needs {LEAST} labeled items. Got {np.count_nonzero(data.y)}.")
            yield file.name.partition(".")[0], data
        except ValueError as problem:
            typer.echo(f"Left out: {problem}", err=True)


def measure(data_sets, orders, most):
    """Yield the share of the items read and the recall reached, for each data set, order, target and rule."""
    for name, data in data_sets:
        labeled = np.flatnonzero(data.y)
        for seed in range(0 if data.classes else orders):
            order = labeled[stream.shuffled(labeled.size, seed)][:most]
            matrix, y = rows.matrix(data.rows)[order], data.y[order]
            if not 0 < (y > 0).sum() < y.size:
                continue
            relevant = y > 0
            read = {rule: (seen, seen.size) for rule, seen in screened(matrix, relevant, seed).items()}
            for (target, rule), (found, cost) in (read | certified(rows.as_rows(matrix), y, seed)).items():
                recall = float(relevant[found].sum() / relevant.sum())
                yield {"data": name, "target": target, "rule": rule, "read": cost / y.size, "recall": recall}


def lines(stops):
    """Return the results as the lines of a Markdown table."""
    return table(
        ("target", "rule", "runs", "items read", "recall reached", "target missed"),
        [
            (target, rule, len(own), f"{mean(own, 'read'):.0%}", f"{mean(own, 'recall'):.3f}",
             f"{np.mean([line['recall'] < target for line in own]):.0%}")
            for (target, rule), own in sorted(grouped(stops, "target", "rule"), key=lambda group: group[0][0])
        ],
    )  # fmt: skip


def main(
    folder: Annotated[Path | None, typer.Option(exists=True, file_okay=False, help="Your reviews, as CSV.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The demo only, for a trial.")] = False,
    orders: Annotated[int, typer.Option(min=1, help="Orders of each data set.")] = 4,
    items: Annotated[int, typer.Option(min=LEAST, help="Items of each data set at most, drawn at random.")] = ITEMS,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Compare stopping rules for a screening, at several targets of recall."""
    start = perf_counter()
    own = reviews(folder, "*.csv*") if folder else reviews(SHARED, "sysrev_*.csv*") if not quick else ()
    stops = list(measure(own if folder else chain(sources(quick), own), orders, items))
    if not stops:
        raise SystemExit(f"{folder} has no review.")
    if as_json:
        print(json.dumps(stops))
        return
    names = ", ".join(dict.fromkeys(line["data"] for line in stops))
    print(f"{names}: {orders} orders of each, {perf_counter() - start:.0f} seconds on {machine()['date']}.\n")
    print("\n".join(lines(stops)))


if __name__ == "__main__":
    typer.run(main)
