"""Measure the rounds per second of every learner, and of PA-I compared with a C loop, numpy and other libraries. Run
`python benchmarks/throughput.py`.

All process the same random rows. Each peer that also runs PA-I must ask the same questions and end with the same counts
and weights as ours, or the script stops. Times are processor times of the fastest of several turns, without
compilation.
"""

import json
from subprocess import SubprocessError
from typing import Annotated

import numpy as np
import typer
from common import Shape, fastest, fitting, machine, number, ours, own_rule, race, synthetic, table
from peers import PEERS

from oal_engine.kernel.learners import LEARNERS
from oal_engine.kernel.parameters import named

SHAPES = {
    "dense 200k x 54": Shape(200_000, 54, 54),
    "sparse 100k x 50k": Shape(100_000, 50_000, 57),
    "dense 20k x 300": Shape(20_000, 300, 300),
}
PEER_SHAPES = tuple(SHAPES)[:2]
ORDERS = ("stored", "permuted")
PROTOCOL = """
The C loops, the numpy loop, river and scikit-learn run exactly the same PA-I: the same questions, counts and weights.
Vowpal Wabbit simulates its own active learning with the hinge loss; its time is the sum of its two threads (on sparse
rows its clock time is about half of it). scikit-activeml and CapyMOA take dense rows only; scikit-activeml uses
logistic regression, CapyMOA MOA's hinge loss. Slow peers run only the first rounds, in which more is asked.
"""
PROBE = 100  # rounds of a first trial, which shows how many rounds fit into a turn
OURS, PREFETCHING = "OAL Studio", "C loop, prefetching"
OA3_AIMS = [  # name, learner, microseconds a round at d = 300, and why it may take more
    ("OA3, full covariance", "acog-ii", 15, "a round reads the whole covariance once."),
    ("OA3, diagonal", "acog-ii-diag", 0.4, "the variance is one sum, in which each addition waits for the last."),
    ("SSOA3, sketch of 5", "ssacog-ii", 3, "the margin and the variance both multiply the row by the sketch."),
]


def long_enough(data, learner, seconds):
    """Cut a stream to its first rounds, about as many as a learner replays in `seconds`. This also compiles the
    kernel."""
    rounds, time = PROBE, 0
    while time < seconds / 4 and rounds < data.order.size:
        start = ours(data.first(rounds), learner)
        start()()
        time = fastest(start, 0)[1]
        rounds *= 4
    return data.first(rounds // 4 if time > seconds else rounds)


def time_learners(streams, passes, seconds, chosen):
    """Time the learners that fit the rows; if `chosen` is not empty, only the ones that it names. Return {order:
    {learner: dict with the microseconds per round and the share of rounds asked}}."""
    lines, starts = {order: {} for order in streams}, {}
    for order, data in streams.items():
        for name in (name for name in fitting(data.shape) if name in (chosen or LEARNERS)):
            line = lines[order][name] = {"rule": own_rule(name)}
            try:
                part = long_enough(data, name, seconds)
                starts[order, name], line["rounds"] = ours(part, name), part.order.size
            except ValueError:  # over the limit of memory
                line["note"] = f"not run: covariance of {data.shape.features:,} x {data.shape.features:,}"
    for (order, name), (result, time) in race(starts, passes, 0).items():
        line = lines[order][name]
        rounds = line["rounds"]
        line |= {
            "asked": result.queried / rounds,
            "microseconds": 1e6 * time / rounds,
            "rounds_per_second": rounds / time,
        }
    return lines


def check(name, result, data):
    """Exit unless a twin (a peer that is PA-I like ours) asked the same questions, with the same counts and weights."""
    if result.w is None:
        return
    expected = ours(data, "pa-i", log=True)()()
    if not (
        np.array_equal(result.questions, expected.log[:, 0])
        and np.array_equal(result.counts, expected.counts)
        and np.allclose(result.w, expected.learner.w)
    ):
        raise SystemExit(f"{name} and the kernel do not agree: {result.queried} and {expected.queried} questions.")


def time_peers(streams, passes, seconds, notes):
    """Time PA-I with the rule `symmetric`, ours and the peers'. Return {order: {name: dict with the rounds per
    second}}. Slow peers run only the first rounds, and only in stored order. notes: set to which peers left out are
    added."""
    starts, parts = {}, {}
    for order, data in streams.items():
        parts[order, OURS], starts[order, OURS] = data, ours(data, "pa-i")
        sparse = data.shape.filled < data.shape.features
        for name, prepare, *rounds in (peer[:4] for peer in PEERS):
            part = data.first(rounds[sparse])
            if order == "stored" or part.order.size == data.order.size:
                try:
                    run = prepare(part)
                except (ImportError, OSError, SubprocessError) as missing:
                    notes.add(f"{name} was left out: {missing}")
                    continue
                check(name, run(), part)
                parts[order, name], starts[order, name] = part, lambda run=run: run
    lines = {order: {} for order in streams}
    for (order, name), (result, time) in race(starts, passes, seconds).items():
        rounds = parts[order, name].order.size
        lines[order][name] = {"rounds": rounds, "asked": result.queried / rounds, "rounds_per_second": rounds / time}
    for line in lines.values():
        for rate in line.values():
            rate["ratio"] = line[OURS]["rounds_per_second"] / rate["rounds_per_second"]
    return lines


def aims(peers, learners):
    """Return each measured aim as a dict with its bound, figure, verdict and the reason why it may be missed."""
    judged = []

    def aim(title, rows, figure, bound, why, least=True):
        met, bounded = figure >= bound if least else figure <= bound, f"at {'least' if least else 'most'} {bound:,}"
        judged.append({"aim": title, "rows": rows, "bound": bounded, "figure": figure, "met": bool(met), "why": why})

    for shape, lines in peers.items():
        slower = {
            name: lines["stored"][name]["rounds_per_second"] / line["rounds_per_second"]
            for name, line in lines["permuted"].items()
        }
        why = "rows in random order come from memory, not from the caches"
        if PREFETCHING in slower:
            why += f"; a C loop that prefetches like ours is {number(slower[PREFETCHING])} times slower too."
        aim("PA-I: times slower through a permutation", shape, slower[OURS], 1.7, why, least=False)
        for peer in PEERS:
            if peer.aim and peer.name in lines["stored"]:
                ratio = lines["stored"][peer.name]["ratio"]
                aim(f"PA-I: times the rounds of {peer.name}", shape, ratio, peer.aim, peer.why)
    for shape, lines in learners.items():
        for title, name, bound, why in OA3_AIMS:
            if SHAPES[shape].features != 300 or name not in lines["stored"]:
                continue
            time = lines["stored"][name]["microseconds"]
            aim(f"{title}: microseconds a round", shape, time, bound, why, least=False)
    return judged


def measure(passes=3, rounds=None, seconds=0.1, chosen=()):
    """Run all measurements, and return the results as a dict. rounds: maximum length of the streams (None: full
    length). seconds: duration of a turn; slow learners run as many rounds as fit into it."""
    shapes = {name: shape._replace(count=min(rounds or shape.count, shape.count)) for name, shape in SHAPES.items()}
    learners, peers, notes = {}, {}, set()
    for name, shape in shapes.items():
        streams = {order: synthetic(shape, order == "permuted") for order in ORDERS}
        if name in PEER_SHAPES:
            peers[name] = time_peers(streams, passes, seconds, notes)
        learners[name] = time_learners(streams, passes, seconds, chosen)
    return {"machine": machine(), "peers": peers, "learners": learners,
            "aims": aims(peers, learners), "notes": sorted(notes)}  # fmt: skip


def sections(results):
    """Yield the results as lines of Markdown."""
    yield from ("## Aims", "")
    marks = {True: "met", False: "**missed**"}
    missed = [aim for aim in results["aims"] if aim["why"] and not aim["met"]]
    yield from table(
        ("aim", "rows", "bound", "figure", ""),
        ((aim["aim"], aim["rows"], aim["bound"], number(aim["figure"]), marks[aim["met"]]) for aim in results["aims"]),
    )
    yield from (f"- {aim['aim']}, {aim['rows']}: {aim['why']}" for aim in missed)
    yield from ("", "## PA-I with the rule `symmetric`, ours and the peers'", "")
    for shape, orders in results["peers"].items():
        for order, lines in orders.items():
            yield from (f"{shape}, {order} order:", "")
            yield from table(
                ("", "rounds", "asked", "rounds a second", "ours is faster by"),
                ((name, f"{line['rounds']:,}", f"{line['asked']:.1%}", number(line["rounds_per_second"]),
                  number(line["ratio"])) for name, line in lines.items()),
            )  # fmt: skip
    yield from (PROTOCOL.strip(), "", *(f"- {note}" for note in results["notes"]))
    yield from ("", "## Every learner with its own rule: microseconds a round", "")
    for shape, orders in results["learners"].items():
        yield from (f"{shape}:", "")
        yield from table(
            ("learner", "rule", "rounds", "asked", *(f"{order} order" for order in ORDERS)),
            ((name, line.get("note") or line["rule"], *learner_cells(line, orders["permuted"][name]))
             for name, line in orders["stored"].items()),
        )  # fmt: skip


def learner_cells(stored, permuted):
    if "note" in stored:
        return [None] * 4
    return (f"{stored['rounds']:,}", f"{stored['asked']:.1%}",
            *(number(line["microseconds"]) for line in (stored, permuted)))  # fmt: skip


def main(
    passes: Annotated[int, typer.Option(min=1, help="Turns of each contender; the best one counts.")] = 3,
    rounds: Annotated[int | None, typer.Option(min=200, help="Cut the streams to so many rounds, for a trial.")] = None,
    seconds: Annotated[float, typer.Option(min=0, help="What a slow learner may take for a turn.")] = 0.1,
    learner: Annotated[list[str] | None, typer.Option(help="Only this learner, and this.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Compare rounds per second on dense and sparse rows, in stored order and through a permutation."""
    results = measure(passes, rounds, seconds, [named(LEARNERS, name, "learner") for name in learner or ()])
    print(json.dumps(results) if as_json else "\n".join(sections(results)))


if __name__ == "__main__":
    typer.run(main)
