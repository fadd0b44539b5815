"""Measure the value of existing labels: F1 of `auto` in sessions with known labels and in sessions without any. Run
`python benchmarks/known_labels.py`.

Every session is a real one, with true answers. Its F1 is the F1 of its current model on the items without a label.
Every number is a mean over several random orders of a stream, in percent.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import numpy as np
import typer

sys.path.insert(0, str(Path(__file__).parent.parent))

from common import table
from seeds import sources

from oal_engine import datasets
from oal_engine.kernel import metrics, stream
from oal_engine.sessions import another_pass
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store

STREAMS = ("sms", "exercise", "heart", "space", "tweets")
KNOWN, MORE = 200, 100  # labels
COLUMNS = (
    f"{KNOWN} asked", f"the same {KNOWN} known", f"then {MORE} asked", f"{KNOWN} random ones known, {MORE} asked",
    f"{MORE} asked", f"{KNOWN + MORE} asked",
)  # fmt: skip


def f1(session):
    """Return F1 of the current model on the items without a label, in percent."""
    others = np.setdiff1d(np.arange(session.rounds), [*another_pass.labels(session).labels])
    margins, predicted = np.zeros(others.size), np.zeros(others.size, np.int8)
    theta = session.settings.theta
    stream.predict_rounds(session.dataset.rows, others, session.learner, theta, 0, others.size, margins, predicted)
    counts = metrics.empty(0)
    np.add.at(counts, ((predicted > 0).astype(int), session.y[others] + 1, 0), 1)
    return 100 * float(metrics.evaluate(counts, "push", metrics.Weights())["f1"])


def answered(store, name, seed, budget, **more):
    """Run a session until its budget is spent on true answers, and return it. Fail if it asks about an item with a
    known label."""
    session = Session(store, create(store, name, "auto", budget=budget, seed=seed, shuffled=True, **more))
    while asked := session.place.asked:
        assert asked.item not in session.known_labels
        session.answer(uuid4().hex, asked.id, int(session.y[asked.item]))
    return session


def measure(store, name, seed):
    """Run the sessions of one order of a stream, and return their F1 in the order of COLUMNS."""
    asked = answered(store, name, seed, KNOWN)
    following = Session(store, another_pass.begin(asked))
    begun = f1(following)
    following.store.remove_session(following.id)
    more = answered(store, name, seed, MORE, known_labels=another_pass.labels(asked))
    return [
        f1(asked), begun, f1(more), f1(answered(store, name, seed, MORE, known_labels=KNOWN)),
        f1(answered(store, name, seed, MORE)), f1(answered(store, name, seed, KNOWN + MORE)),
    ]  # fmt: skip


def main(
    quick: Annotated[bool, typer.Option("--quick", help="The demo only, for a trial.")] = False,
    orders: Annotated[int, typer.Option(min=1, help="Orders of each stream.")] = 10,
    first: Annotated[int, typer.Option(min=0, help="Seed of the first order.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Measure the value of existing labels, for each stream and on average."""
    lines = {}
    for name, data, _ in sources(quick):
        if name in STREAMS:
            with tempfile.TemporaryDirectory() as folder:
                store = Store(Path(folder) / "studio.db")
                datasets.add(store, name, data, name)
                runs = [measure(store, name, seed) for seed in range(first, first + orders)]
            lines[name] = np.mean(runs, axis=0)
    lines["mean"] = np.mean([*lines.values()], axis=0)
    if as_json:
        print(json.dumps({name: dict(zip(COLUMNS, line.tolist())) for name, line in lines.items()}))
        return
    rows = [[name, *(f"{value:.1f}" for value in line)] for name, line in lines.items()]
    print("\n".join(table(("stream", *COLUMNS), rows)))


if __name__ == "__main__":
    typer.run(main)
