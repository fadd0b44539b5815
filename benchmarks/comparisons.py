"""Measure the replays per second of a comparison: 121 settings of OAAL over 20 permutations of a9a (2,420 replays of
48,842 rows). Run `python benchmarks/comparisons.py`.

All replays run on one worker and on two, and the script stops unless the counts are the same bit for bit. *speed-up*
says how many times as fast two workers are as one.
"""

import json
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from os import cpu_count, getloadavg
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent.parent))

from oal_engine import experiments
from oal_engine.experiments import specifications
from oal_engine.kernel import stream
from oal_engine.store import Store

A9A = Path(__file__).parents[2] / "shared" / "data" / "a9a.libsvm.xz"
BUDGET = 2_000
SPECIFICATION = {
    "data": [{"name": "a9a", "file": A9A.name}],
    "algorithms": {"OAAL": {"delta_plus": specifications.TENS, "delta_minus": specifications.TENS}},
    "budgets": [BUDGET],
    "permutations": 20,
}


def executor(kind, workers):
    """Return a pool of threads or of spawned processes."""
    return ThreadPoolExecutor(workers) if kind == "threads" else ProcessPoolExecutor(workers, get_context("spawn"))


def timed(spec, store, kind, workers):
    """Time a comparison on workers that have already compiled the kernel and opened all data. Return its result lines
    and its seconds."""
    warm = replace(spec, permutations=workers, algorithms={"OAAL": {}})
    with executor(kind, workers) as pool:
        experiments.run(warm, store, pool, folder=A9A.parent)
        start = perf_counter()
        lines = experiments.run(spec, store, pool, folder=A9A.parent)
        return lines, perf_counter() - start


def measure(store, kind, spec, turns):
    """Time one worker and two, which take turns so that a busy machine slows both alike. Return a dict with the best
    replays per second of each, and the speed-up."""
    rates = {1: 0.0, 2: 0.0}
    for _ in range(turns):
        lines = {}
        for workers in rates:
            lines[workers], seconds = timed(spec, store, kind, workers)
            rates[workers] = max(rates[workers], sum(len(line.counts) for line in lines[workers]) / seconds)
        if not all(np.array_equal(one.counts, two.counts) for one, two in zip(*lines.values())):
            raise SystemExit("one worker and two do not agree.")
    return {"workers": kind, "replays_per_second": rates, "speed_up": rates[2] / rates[1]}


def kept(store, spec):
    """Time a comparison that runs on one thread and stores its results. Return its seconds, and the seconds that its
    replays took in the kernel."""
    seconds, replay = [], stream.replay

    def timed_replay(*arguments, **options):
        start = perf_counter()
        try:
            return replay(*arguments, **options)
        finally:
            seconds.append(perf_counter() - start)

    stream.replay = timed_replay
    try:
        with ThreadPoolExecutor(1) as pool:
            start = perf_counter()
            experiments.compare(spec, store, executor=pool, folder=A9A.parent)
            return {"seconds": perf_counter() - start, "kernel_seconds": sum(seconds)}
    finally:
        stream.replay = replay


def show(result):
    table = Table(title=f"{result['replays']:,} replays of {result['rounds']:,} rows, {BUDGET:,} labels each")
    for title in ("workers", "one: replays/s", "two: replays/s", "speed-up"):
        table.add_column(title, justify="left" if title == "workers" else "right")
    for row in result["results"]:
        one, two = row["replays_per_second"].values()
        table.add_row(row["workers"], f"{one:,.1f}", f"{two:,.1f}", f"{row['speed_up']:.2f}")
    Console().print(table)
    load = result["load"]
    whole, kernel = result["kept"].values()
    print(f"Kept in a database, on one thread: {whole:.1f} s, of which {kernel:.1f} s are the replays' own "
          f"({whole / kernel:.2f} times their time; aim 1.5).")  # fmt: skip
    print(f"{result['cores']} cores; mean load of this machine over the last minute: {load['before']:.1f} before, "
          f"{load['after']:.1f} after. What others run on it makes the speed-up of two workers smaller.")  # fmt: skip


def main(
    quick: Annotated[bool, typer.Option("--quick", help="2 permutations, not 20.")] = False,
    turns: Annotated[int, typer.Option(min=1, help="Turns of one worker and two; the best of each counts.")] = 1,
    processes: Annotated[bool, typer.Option("--processes", help="Processes as workers too, not only threads.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Run the comparison on one worker and on two, and print their replays per second and the speed-up."""
    if not A9A.exists():
        raise SystemExit(f"this benchmark needs {A9A.name} in ../shared/data.")
    spec = experiments.specification(SPECIFICATION | ({"permutations": 2} if quick else {}))
    before = getloadavg()[0]
    with TemporaryDirectory() as folder:
        store = Store(Path(folder) / "benchmark.db")
        (source,) = experiments.sources(spec, store, A9A.parent)
        kinds = ("threads", "processes") if processes else ("threads",)
        result = {
            "replays": 121 * spec.permutations,
            "rounds": source.rounds,
            "results": [measure(store, kind, spec, turns) for kind in kinds],
            "kept": kept(store, replace(spec, permutations=2)),
            "cores": cpu_count(),
            "load": {"before": before, "after": getloadavg()[0]},
        }
    print(json.dumps(result)) if as_json else show(result)


if __name__ == "__main__":
    typer.run(main)
