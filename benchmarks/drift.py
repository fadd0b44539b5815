"""How often the drift alarm is false, and how soon it comes when the items change, measured on labeled streams.

Streams are shuffled, swap half of their classes for the others at once or gradually, have three times as many positives
as before, or come in the order of their file.
"""

import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Annotated

import numpy as np
import typer

sys.path.insert(0, str(Path(__file__).parent.parent))

from common import machine, table
from estimates import FILES, SHARED

from oal_engine import datasets
from oal_engine.datasets import demo, reading
from oal_engine.kernel import drift

MORE = {
    "sms": ("sms_spam_collection.tsv.xz", {"text": ("c2",), "label": "c1", "positive": ("spam",)}),
    "20 newsgroups": ("20news_bydate.jsonl.xz", {"text": ("text",), "label": "label", "multiclass": True}),
}
ITEMS = 10_000  # of a data set at most
ROUNDS = 5_000  # of a shuffled stream
BEFORE = (500, 2_000)  # items before a change
AFTER = 2_000  # and after it
TOPICS = 8  # classes at most that streams are made of, the most frequent


def sources(quick):
    """Yield the scores, labels and words of the labels of data sets, by name: the demo, and the shared files that
    exist."""
    shown = demo.DEMOS["tweets"]
    yield "tweets", reading.read(demo.FOLDER / shown.file, shown.columns)
    for name, (file, columns) in () if quick else (FILES | MORE).items():
        if (SHARED / file).is_file():
            yield name, reading.read(SHARED / file, reading.Columns(**columns) if columns else None)


def scored(items, features=None):
    """Return scores of the items as they are imported, of the first ITEMS of them."""
    some = items.take(np.arange(min(ITEMS, len(items.ids))))
    made = datasets.file_table(some, features=features)
    return drift.scores(made.rows, np.arange(some.y.size)), some


def measure(quick=False, streams=1000, repeats=40):
    """Return alarms of shuffled streams, of streams that change, and of streams as they are stored."""
    kept = {}
    for name, items in sources(quick):
        kept[name] = scored(items)
        if items.texts is not None and not quick:
            kept[f"{name} (words)"] = scored(items, "words")
    rng, false = np.random.default_rng(0), {}
    for k in range(streams):
        name = [*kept][k % len(kept)]
        values = kept[name][0]
        at, _ = drift.alarm(values[rng.permutation(len(values))[:ROUNDS]])
        false.setdefault(name, []).append(at is not None)
    changes = [
        {"data": name, **change(values, items, way, before, repeats, rng)}
        for name, (values, items) in kept.items()
        for way in ("swap", "ramp", "prevalence")
        for before in (BEFORE[:1] if quick else BEFORE)
        if (way == "prevalence") == (not items.classes)
    ]
    stored = {name: drift.alarm(values)[0] for name, (values, _) in kept.items()}
    return {"false": false, "changes": changes, "stored": stored}


def change(values, items, way, before, repeats, rng):
    """After how many items of a change the alarm came, in several streams, and how many had one before it."""
    early, delays = 0, []
    for _ in range(repeats):
        first, then = halves(items, way, rng)
        chance = np.repeat([0.0, 1.0], [before, AFTER])  # that an item is one of the second kind
        if way == "ramp":
            chance[before:] = np.linspace(0, 1, AFTER)
        if way == "prevalence":
            share = min(0.1, then.size / (first.size + then.size))
            chance = np.repeat([share, 3 * share], [before, AFTER])
        order = np.where(rng.random(chance.size) < chance, *(rng.choice(part, chance.size) for part in (then, first)))
        at, _ = drift.alarm(values[order])
        if at is not None and at < before:
            early += 1
        else:
            delays.append(np.inf if at is None else at - before)
    return {"way": way, "before": before, "early": early, "delays": sorted(delays)}


def halves(items, way, rng):
    """Return the items of half of the classes and those of the other half, or negatives and positives."""
    if way == "prevalence":
        parts = items.y <= 0, items.y > 0
    else:
        names, counts = np.unique(items.y, return_counts=True)
        topics = rng.permutation(names[np.argsort(-counts, kind="stable")][:TOPICS])
        parts = np.isin(items.y, topics[::2]), np.isin(items.y, topics[1::2])
    return tuple(map(np.flatnonzero, parts))


def sections(results):
    """Yield the tables in Markdown."""
    false = results["false"]
    alarms = [each for some in false.values() for each in some]
    yield f"False alarms: {sum(alarms)} of {len(alarms):,} shuffled streams ({np.mean(alarms):.1%}).\n"
    yield from table(
        ("", "shuffled streams", "false alarms", "alarm in the order of the file"),
        [
            (name, len(some), f"{np.mean(some):.1%}",
             "none" if results["stored"][name] is None else f"item {results['stored'][name] + 1:,}")
            for name, some in false.items()
        ],
    )  # fmt: skip
    yield from table(
        ("", "change", "items before it", "alarm before it", f"within {AFTER:,} items", "median delay"),
        [
            (line["data"], line["way"], f"{line['before']:,}", line["early"],
             f"{np.mean(np.isfinite(line['delays'])):.0%}", delay(line["delays"]))
            for line in results["changes"] if line["delays"]
        ],
    )  # fmt: skip


def delay(delays):
    """Return the median delay in items."""
    middle = delays[len(delays) // 2]
    return f"{middle:,.0f}" if np.isfinite(middle) else "none"


def main(
    quick: Annotated[bool, typer.Option("--quick", help="The demo only, for a trial.")] = False,
    streams: Annotated[int, typer.Option(min=1, help="Shuffled streams.")] = 1000,
    repeats: Annotated[int, typer.Option(min=1, help="Streams of each kind of change.")] = 40,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Count false alarms, and measure the delay of true ones."""
    start = perf_counter()
    results = measure(quick, streams, repeats)
    if as_json:
        print(json.dumps(results))
        return
    print(f"{perf_counter() - start:.0f} seconds on {machine()['date']}.\n")
    print("\n".join(sections(results)))


if __name__ == "__main__":
    typer.run(main)
