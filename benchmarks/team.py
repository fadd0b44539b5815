"""Measure the effect of several people who label one stream: on the model, on its estimates, and on the agreement of
two people as a measure of slips (wrong answers). Run `python benchmarks/team.py`.

Every run is a real session over a shuffled labeled stream, labeled once by one person and once by three with different
speeds, who answer in the order of a simulated clock. All of them give wrong answers at times. The figures are means
over the orders; *held* is the share of the intervals that contain the truth.
"""

import json
import sys
from heapq import heapify, heappop, heappush
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import typer

sys.path.insert(0, str(Path(__file__).parent.parent))

from common import machine, table
from estimates import SHARED

from oal_engine import datasets
from oal_engine.datasets import demo, reading
from oal_engine.kernel import metrics
from oal_engine.sessions import look_back
from oal_engine.sessions.insights import agreement, estimates
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store

SPEEDS = {"one person": (2.0,), "three people": (1.0, 2.0, 5.0)}  # seconds that an answer takes, on average
SETTINGS = {"algorithm": "auto", "budget": 300, "audit": 0.25, "shuffled": True}
FILES = {
    "sms": ("sms_spam_collection.tsv.xz", {"text": ("c2",), "label": "c1", "positive": ("spam",)}),
    "a9a": ("a9a.libsvm.xz", {}),
}
SHOWN = ("f1", "sum")


def labeled(store, dataset, speeds, slips, seed):
    """Let simulated people label a new session to its end, and return it. speeds: mean seconds per answer, one for each
    person. slips: share of wrong answers."""
    session = Session(store, create(store, dataset, **SETTINGS, seed=seed, overlap=0.2 * (len(speeds) > 1)))
    chance, events = Random(seed), (f"{session.id}-{number}" for number in count())
    clock = [(chance.expovariate(1 / pace), str(pace), pace) for pace in speeds]
    heapify(clock)
    while clock:
        now, name, pace = heappop(clock)
        if held := session.held(name):
            y = int(session.y[held[0].item])
            session.answer(next(events), held[0].id, -y if chance.random() < slips else y, name)
        elif session.ended(session.state):
            continue
        heappush(clock, (now + chance.expovariate(1 / pace), name, pace))
    return session


def figures(session):
    """Return a dict of a session's final figures. For each metric: its true value, whether an estimate is shown
    (`shown`), whether its interval contains the truth (`held`), and its bias."""
    estimate, trail = estimates.of_session(session), dict(session.state.trail)
    closed = session.rounds if estimate.closed is None else estimate.closed + 1
    window, agreed = trail[closed], agreement.of_pairs(agreement.answer_pairs(session))
    numbers = {"verified": look_back.verify(session.store, session.id).verified}
    for name in SHOWN:
        numbers[name] = float(session.evaluate(session.counts, "push")[name])
        known, truth = estimate.metrics["push"][name], float(metrics.evaluate(window, "push")[name])
        numbers[f"{name} shown"] = known is not None
        numbers[f"{name} held"] = known.low <= truth <= known.high if known else np.nan
        numbers[f"{name} bias"] = known.value - truth if known else np.nan
    return numbers | {"kappa": agreed.kappa.value if agreed.kappa else np.nan}


def runs(orders, slips):
    """Run all sessions. Yield (name of the data, "one person" or "three people", list of the figures of each
    session)."""
    with TemporaryDirectory(prefix="oal-team-") as folder:
        store = Store(Path(folder) / "studio.db")
        for name in ("tweets", *FILES):
            if name == "tweets":
                dataset = demo.dataset(store, name)
            elif (SHARED / FILES[name][0]).is_file():
                file, columns = FILES[name]
                own = reading.Columns(**columns) if columns else None
                dataset = datasets.import_file(store, SHARED / file, name, own)[0]
            else:
                continue
            for people, speeds in SPEEDS.items():
                yield name, people, [figures(labeled(store, dataset, speeds, slips, seed)) for seed in range(orders)]
        store.close()


def average(values):
    """Return the mean of the values, ignoring NaN."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def main(
    orders: Annotated[int, typer.Option(min=1, help="Orders of each stream.")] = 20,
    slips: Annotated[float, typer.Option(min=0, max=1, help="Share of wrong answers.")] = 0.05,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
):
    """Label streams by one and by three people, and print the quality of the models and of their estimates."""
    lines = []
    for name, people, known in runs(orders, slips):
        mean = {key: average([each[key] for each in known]) for key in known[0]}
        if as_json:
            print(json.dumps({"data": name, "people": people, "sessions": orders} | mean))
        lines.append([name, people, *(f"{value:.3f}" for value in mean.values())])
    if not as_json:
        print(f"{machine()}; {SETTINGS['budget']} labels, {slips:.0%} wrong answers, {orders} orders.")
        print("\n".join(table(["data", "people", *mean], lines)))


if __name__ == "__main__":
    typer.run(main)
