"""Compare K questions that are answered together about each item with a separate session for each question. The figures
are F1, estimates and guaranteed minimums (floors). Run `python benchmarks/many_questions.py`.

Every run is over a shuffled stream. Each label word is a yes/no question, answered from the labels of the items. `rare`
and `max` are rules of `oal_engine.kernel.questions` that ask all questions about B items. `separate B/K` has a session
with B / K labels for each question, `separate B` one with B labels, which costs K times as much.
"""

import json
from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache, partial
from time import perf_counter
from typing import Annotated

import numpy as np
import typer
from common import SHARED, machine, read_stream, table

from oal_engine import datasets
from oal_engine.datasets.reading.labels import label_parts
from oal_engine.kernel import certainty, estimates, metrics, questions, rows, stream
from oal_engine.kernel.algorithms import strategy
from oal_engine.kernel.runs import Run

STREAMS = {"happymoments": "exercise", "ohsumed": "heart", "20news": "space"}
MANY = (3, 5, 10)
READINGS = (100, 300, 1000)
SHARE = 0.2  # largest share of items with the word of a question: a more frequent one needs no targeted labels
FLOOR = 0.5  # of the budget, in the runs with floors
WAYS = ("rare", "max", "separate B/K", "separate B")


def sources(names):
    """Yield (name, rows, {word: labels}) of each stream. The words are the ten most frequent label words that at most
    SHARE of the items have."""
    for name in names:
        items = read_stream(STREAMS[name], contains=True)
        if items is None:
            raise SystemExit(f"{name} is missing in {SHARED}.")
        cells = [{*label_parts([cell])} for cell in items.labels]
        counts = Counter(word for words in cells for word in words if word)
        usual = [word for word, count in counts.most_common() if count <= SHARE * len(cells)][:10]
        labels = ([1 if word in words else -1 for words in cells] for word in usual)
        yield name, datasets.table(items).rows, {word: rows.read_only(y, np.int8) for word, y in zip(usual, labels)}


def chosen(words, many):
    """Return `many` of the words, evenly spaced from the most frequent to the least."""
    return [words[k] for k in np.linspace(0, len(words) - 1, many).round().astype(int)]


def looks(run, done):
    """Return six arrays with an entry for each answer: its label, whether its item was pushed, the chance that it was
    asked, and after this answer the number of rounds, the number of pushes, and the counts."""
    t = done.log[:, 0].astype(int)
    counts = done.curve[: t.size]
    return run.y[run.order[t]], done.decided[:, 1] > 0, done.log[:, 2], t + 1, counts[:, 1].sum(axis=(1, 2)), counts


def estimated(run, done):
    """Return {metric: [value, low, high, truth]} for F1 and sum after the last answer; None instead of a list if the
    product hides the estimate."""
    label, pushed, chance, rounds, pushes, counts = looks(run, done)
    size = np.array([label.size])
    values, enough, _ = estimates.windows(pushed, label, chance, size, rounds[-1:], pushes[-1:], metrics.Weights())
    truth = metrics.evaluate(counts[-1], "push")
    return {
        metric: [*map(float, values["push"][metric][:, 0]), float(truth[metric])] if enough[metric][0] else None
        for metric in ("f1", "sum")
    }


def floored(run, done):
    """Return a dict: whether a floor (guaranteed minimum) was ever above the truth, whether an item that was not pushed
    ever had a lower chance of being asked than promised, and the final floor and true value of recall."""
    label, pushed, chance, rounds, pushes, counts = looks(run, done)
    answers = np.arange(1, label.size + 1)
    known = certainty.floors(certainty.tables(label, pushed, chance, answers, rounds, pushes, run.plan().promised))
    real = {name: metrics.evaluate(counts, name) for name in metrics.EVALUATIONS}
    wrong = any(
        (known[name][metric] > real[name][metric] + 1e-12).any() for name in known for metric in certainty.BOUNDED
    )
    hidden = ~pushed
    return {
        "wrong": bool(wrong), "broken": bool((chance[hidden] < run.plan().promised).any()),
        "recall": float(known["push_query"]["recall"][-1]), "truth": float(real["push_query"]["recall"][-1]),
    }  # fmt: skip


def f1(done):
    """Return F1 under push over the whole stream."""
    return float(metrics.evaluate(done.counts, "push")["f1"])


def single(every, word, budget):
    """Return the F1 of a session that asks a single question, with `budget` labels."""
    return f1(replace(every[word], budget=budget).replay())


def measure(names, orders, rounds, first):
    """Run all sessions. Yield a dict of figures for each stream, order, number of questions, budget and way of
    asking."""
    for name, table_of, labels in sources(names):
        for seed in range(first, first + orders):
            order = stream.shuffled(rows.length(table_of), seed)[:rounds]
            every = {word: Run(strategy("auto"), table_of, y, order, seed=seed) for word, y in labels.items()}
            alone = cache(partial(single, every))  # a session of B labels does not depend on K
            for many in MANY:
                words = chosen([*labels], many)
                for budget in READINGS:
                    line = {"data": name, "order": seed, "many": many, "readings": budget}
                    auto = strategy("auto", several=True)
                    runs = [replace(every[word], strategy=auto, budget=budget) for word in words]
                    for way in WAYS[:2]:
                        done = questions.replay(runs, way == "rare")
                        yield (
                            line
                            | {"way": way, "f1": [*map(f1, done)], "read": done[0].queried}
                            | ({"estimates": [*map(estimated, runs, done)]} if way == "rare" else {})
                        )
                    for way, own in zip(WAYS[2:], (budget // many, budget)):
                        yield line | {"way": way, "f1": [alone(word, own) for word in words]}
                    if many == 5:
                        with_floor = [replace(each, floor=FLOOR) for each in runs]
                        done = questions.replay(with_floor)
                        yield line | {
                            "way": "floor", "f1": [*map(f1, done)], "floors": [*map(floored, with_floor, done)],
                            "estimates": [*map(estimated, with_floor, done)],
                        }  # fmt: skip


def sections(lines):
    """Yield the tables in Markdown."""
    yield "### F1 under push, mean and worst question\n"
    groups = defaultdict(list)
    for line in lines:
        groups[line["many"], line["readings"], line["way"]].append(line)
    cells = sorted({key[:2] for key in groups})
    for title, statistic in (("mean", np.mean), ("worst", np.min)):
        yield from table(
            (f"{title} of K", "readings", *WAYS),
            [(*cell, *(f"{100 * over(groups[*cell, way], statistic):.1f}" for way in WAYS)) for cell in cells],
        )
    yield "### Estimates and floors\n"
    heads = "", "readings", "question-sessions", "shown", "F1 covered", "sum covered", "floors too high"
    body = []
    for (many, budget, way), own in groups.items():
        if way in ("rare", "floor"):
            found = [each for line in own for each in line["estimates"]]
            floors = [each for line in own for each in line.get("floors", ())]
            covered = [coverage([each[metric] for each in found]) for metric in ("f1", "sum")]
            share = np.mean([each["f1"] is not None for each in found])
            wrong = f"{sum(each['wrong'] for each in floors)} of {len(floors)}" if floors else ""
            title = f"{many} questions" + ", half in a floor" * (way == "floor")
            body.append((title, budget, len(found), f"{share:.2f}", *covered, wrong))
    yield from table(heads, sorted(body, key=lambda row: (len(row[0]), row[0], row[1])))
    everything = [each for line in lines for each in line.get("estimates", ())]
    yield "all: " + ", ".join(
        f"{metric} {coverage([each[metric] for each in everything])} of "
        f"{sum(each[metric] is not None for each in everything)}"
        for metric in ("f1", "sum")
    )


def over(own, statistic):
    """Average a statistic of the questions' F1 over the orders, then over the streams."""
    of_data = defaultdict(list)
    for line in own:
        of_data[line["data"]].append(statistic(line["f1"]))
    return np.mean([np.mean(values) for values in of_data.values()])


def coverage(found):
    """Return the share of estimates whose interval holds the truth, as text; "" if there are no estimates."""
    within = [low - 1e-12 <= truth <= high + 1e-12 for _, low, high, truth in filter(None, found)]
    return f"{np.mean(within):.3f}" if within else ""


def main(
    data: Annotated[list[str], typer.Option(help="A stream, repeatable.")] = tuple(STREAMS),
    orders: Annotated[int, typer.Option(min=1, help="Orders of each stream.")] = 5,
    first: Annotated[int, typer.Option(min=0, help="The seed of the first order.")] = 0,
    rounds: Annotated[int, typer.Option(min=1000, help="Rounds of a stream at most.")] = 20_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for each run.")] = False,
):
    """Compare K questions that are answered together about each item with a session for each question."""
    start, lines = perf_counter(), []
    for line in measure(data, orders, rounds, first):
        lines.append(line)
        if as_json:
            print(json.dumps(line), flush=True)
    if not as_json:
        print(f"{orders} orders, {perf_counter() - start:.0f} seconds on {machine()['date']}.\n")
        print("\n".join(sections(lines)))


if __name__ == "__main__":
    typer.run(main)
