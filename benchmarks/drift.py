"""Measure how often drift alarms are false, and how soon they come after a change: `python benchmarks/drift.py`.

Labeled streams are shuffled or stay in the order of their file. Some change: one half of the classes replaces the other
(at once or gradually), or positives become more frequent. Answers come from sessions, or from random checks alone. The
figures are shares of streams with an alarm, delays in items, and shares of sessions that notice a change.
"""

import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Annotated

import numpy as np
import typer
from scipy.stats import binom, hypergeom

sys.path.insert(0, str(Path(__file__).parent.parent))

from common import machine, table
from estimates import FILES, SHARED

from oal_engine import datasets
from oal_engine.datasets import demo, reading
from oal_engine.kernel import drift, spending, stream
from oal_engine.kernel.algorithms import strategy

MORE = {
    "sms": ("sms_spam_collection.tsv.xz", {"text": ("c2",), "label": "c1", "positive": ("spam",)}),
    "20 newsgroups": ("20news_bydate.jsonl.xz", {"text": ("text",), "label": "label", "multiclass": True}),
}
ITEMS = 10_000  # of a data set at most
ROUNDS = 5_000  # of a shuffled stream
BEFORE = (500, 2_000)  # items before a change
AFTER = 2_000  # items after a change
TOPICS = 8  # maximum number of classes in a stream, the most frequent ones
SHARES = (0.05, 0.1, 0.15, 0.2, 0.25)  # of positives in the first half of a stream; the second has twice as many
CHECKS = (100, 300, 1000)  # random checks: half of the labels
CHECKED = "auto", {"audit": 0.5}  # algorithm and plan
# Algorithms and plans of the sessions over shuffled streams
SESSIONS = CHECKED, ("auto", {"floor": 0.5}), ("auto", {}), ("OAAL", {"audit": 0.25}), ("PAA-I", {})
LABELS = 600  # of each session


def sources(quick):
    """Yield (name, items) of each data set: the demo, and the shared files that exist."""
    shown = demo.DEMOS["tweets"]
    yield "tweets", reading.read(demo.FOLDER / shown.file, shown.columns)
    for name, (file, columns) in () if quick else (FILES | MORE).items():
        if (SHARED / file).is_file():
            yield name, reading.read(SHARED / file, reading.Columns(**columns) if columns else None)


def scored(items, features=None):
    """Compute the features of the first ITEMS items as an import does. Return their drift scores, the items, and their
    rows."""
    some = items.take(np.arange(min(ITEMS, len(items.ids))))
    made = datasets.file_table(some, features=features)
    return drift.scores(made.rows, np.arange(some.y.size)), some, made.rows


def measure(quick=False, streams=1000, repeats=40):
    """Return a dict: the alarms on shuffled streams (`false`), on streams that change (`changes`, `doubled`, `turned`),
    and on streams in stored order (`stored`)."""
    kept = {}
    for name, items in sources(quick):
        kept[name] = scored(items)
        if items.texts is not None and not quick:
            kept[f"{name} (words)"] = scored(items, "words")
    rng, false = np.random.default_rng(0), {}
    for k in range(streams):
        name = [*kept][k % len(kept)]
        values, items, rows = kept[name]
        order = rng.permutation(len(values))[:ROUNDS]
        by_items = drift.alarm(values[order])[0] is not None
        way = SESSIONS[k // len(kept) % len(SESSIONS)]
        by_answers = not items.classes and noticed(rows, items.y, order, LABELS, way, k) is not None
        false.setdefault(name, []).append((by_items, by_answers))
    changes = [
        {"data": name, **change(values, items, way, before, repeats, rng)}
        for name, (values, items, _) in kept.items()
        for way in ("swap", "ramp", "prevalence")
        for before in (BEFORE[:1] if quick else BEFORE)
        if (way == "prevalence") == (not items.classes)
    ]
    binary = {name: each for name, each in kept.items() if not each[1].classes and "(words)" not in name}
    doubled = [
        {
            "share": share, "checks": checks, "best": best(share, checks),
            "alone": np.mean([of_checks(share, checks, rng) for _ in range(streams)]),
            "sessions": {name: of_sessions(each, share, checks, repeats, rng) for name, each in binary.items()},
        }
        for share in (SHARES[1:2] if quick else SHARES)
        for checks in (CHECKS[:2] if quick else CHECKS)
    ]  # fmt: skip
    stored = {name: drift.alarm(values)[0] for name, (values, *_) in kept.items()}
    classes = {name: each for name, each in kept.items() if each[1].classes and "(words)" not in name}
    turned = {name: [of_turned(each, checks, repeats, rng) for checks in CHECKS] for name, each in classes.items()}
    return {"false": false, "changes": changes, "doubled": doubled, "turned": turned, "stored": stored}


def noticed(rows, y, order, labels, way, seed):
    """Return the change that a session notices in its answers, or None. way: algorithm and plan of the session."""
    (algorithm, plan), rounds = way, order.size
    chosen = strategy(algorithm)

    def replay(marks):
        return stream.replay(
            rows, y, order, *chosen.build(rows.columns), stream.objective(), budget=labels, seed=seed, marks=marks,
            log=True, plan=spending.plan(chosen.rule, labels, rounds, values=chosen.rule_parameters, **plan),
        )  # fmt: skip

    run = replay([rounds])
    asked = run.log[:, 0].astype(int)
    curve = replay([*(asked + 1), rounds]).curve[:-1]
    pushes = curve[:, 1].sum(axis=(1, 2))
    return drift.change(
        y[order[asked]] > 0, run.decided[:, 1] > 0, run.log[:, 2], np.append(0, asked + 1), np.append(0, pushes),
        rounds, rounds,
    )  # fmt: skip


def of_sessions(kept, share, checks, repeats, rng):
    """Return the share of sessions that notice that positives are twice as frequent in the second half of a stream as
    in the first. share: share of positives in the first half. checks: number of random checks, half of the labels."""
    (_, items, rows), found = kept, 0
    parts = halves(items, "prevalence", rng)[::-1]
    for _ in range(repeats):
        chance = np.repeat([share, 2 * share], ROUNDS // 2)
        order = np.where(rng.random(ROUNDS) < chance, *(rng.choice(part, ROUNDS) for part in parts))
        found += noticed(rows, items.y, order, 2 * checks, CHECKED, int(rng.integers(2**31))) is not None
    return found / repeats


def of_turned(kept, checks, repeats, rng):
    """Return the share of sessions that notice that the second half of a stream has another positive class."""
    (_, items, rows), found = kept, 0
    names, counts = np.unique(items.y, return_counts=True)
    frequent = names[np.argsort(-counts, kind="stable")][:TOPICS]
    for _ in range(repeats):
        order = rng.permutation(items.y.size)[:ROUNDS]
        first, then = rng.choice(frequent, 2, replace=False)
        y = np.where(items.y == first, 1, -1).astype(np.int8)
        late = order[order.size // 2 :]
        y[late] = np.where(items.y[late] == then, 1, -1)
        changed = noticed(rows, y, order, 2 * checks, CHECKED, int(rng.integers(2**31)))
        found += changed is not None
    return found / repeats


def of_checks(share, checks, rng):
    """Draw random checks from a stream whose positives are twice as frequent in its second half. Return whether the
    checks alone notice this. share: share of positives in the first half."""
    asked = np.sort(rng.choice(ROUNDS, checks, replace=False))
    positive = rng.random(checks) < np.where(asked < ROUNDS // 2, share, 2 * share)
    chance, none = np.full(checks, checks / ROUNDS), np.zeros(checks + 1, int)
    changed = drift.change(positive, none[1:] > 0, chance, np.append(0, asked + 1), none, ROUNDS, ROUNDS)
    return changed is not None


def best(share, checks):
    """Return the largest power of an unbiased test for more positives that sees only the checks: Fisher's exact test,
    one-sided at the level drift.RISK. It is used once, and knows the position of the change."""
    half = checks // 2
    before, after = (binom(half, each).pmf(np.arange(half + 1)) for each in (share, 2 * share))
    power = 0.0
    for total in range(2 * half + 1):
        late = np.arange(max(0, total - half), min(half, total) + 1)
        given = hypergeom(2 * half, total, half)
        limit = given.isf(drift.RISK)
        tie = (drift.RISK - given.sf(limit)) / given.pmf(limit)
        power += np.sum(before[total - late] * after[late] * ((late > limit) + tie * (late == limit)))
    return float(power)


def change(values, items, way, before, repeats, rng):
    """Simulate `repeats` streams that change after `before` items. Return a dict with the delays of the alarms after
    the change, in items (infinite without an alarm), and the number of alarms before it (`early`)."""
    early, delays = 0, []
    for _ in range(repeats):
        first, then = halves(items, way, rng)
        chance = np.repeat([0.0, 1.0], [before, AFTER])  # chance that an item is of the second kind
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
    """Return two arrays of item indices, one for each half of the classes. For the change "prevalence" they are the
    negatives and the positives."""
    if way == "prevalence":
        parts = items.y <= 0, items.y > 0
    else:
        names, counts = np.unique(items.y, return_counts=True)
        topics = rng.permutation(names[np.argsort(-counts, kind="stable")][:TOPICS])
        parts = np.isin(items.y, topics[::2]), np.isin(items.y, topics[1::2])
    return tuple(map(np.flatnonzero, parts))


def sections(results):
    """Yield the tables in Markdown."""
    false = {name: np.array(each) for name, each in results["false"].items()}
    alarms = np.concatenate([*false.values()])
    by_items, by_answers = alarms.mean(axis=0)
    any_alarm = alarms.any(axis=1)
    yield f"False alarms: {any_alarm.sum()} of {len(alarms):,} shuffled streams ({any_alarm.mean():.1%}):"
    yield f"{by_items:.1%} by the items, {by_answers:.1%} by the answers.\n"
    yield from table(
        ("", "shuffled streams", "false alarms", "alarm in the order of the file"),
        [
            (name, len(some), f"{some.any(axis=1).mean():.1%}",
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
    yield from table(
        ("share, then twice", "checks", "checks alone", "best test of checks alone", "`auto`, mean", "`auto`, each"),
        [
            (f"{line['share']:.0%}", f"{line['checks']:,}", f"{line['alone']:.0%}", f"{line['best']:.0%}",
             f"{np.mean([*line['sessions'].values()]):.0%}",
             ", ".join(f"{name} {each:.0%}" for name, each in line["sessions"].items()))
            for line in results["doubled"]
        ],
    )  # fmt: skip
    yield from table(
        ("another class is positive", *(f"{checks:,} checks" for checks in CHECKS)),
        [(name, *(f"{each:.0%}" for each in found)) for name, found in results["turned"].items()],
    )


def delay(delays):
    """Format the median of sorted delays in items, or "none" if it is infinite."""
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
