"""Inject faults into thousands of runs: `python benchmarks/faults.py`. Processes are killed, disks fill, the database
is locked and the clock jumps. Check that no acknowledged event is ever lost or duplicated. The figures count events and
failures; failing seeds are printed, and `--seed N` replays one."""

import json
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.harness import faults


def measure(seeds, real=()):
    """Run the faults of each seed. Return a dict of the counts of events, the errors of the failed seeds, and the
    seconds.

    real: seeds of additional runs, whose processes are killed by a signal.
    """
    done, failed, start = Counter(), {}, perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        template = Path(folder, "template")
        template.mkdir()
        faults.prepared(template)
        for signalled, some in ((False, seeds), (True, real)):
            for seed in some:
                try:
                    done += faults.replay(seed, template, Path(folder, "run"), signalled)
                except Exception as error:
                    failed[seed] = str(error)
                    print(f"seed {seed} failed:", file=sys.stderr)
                    traceback.print_exc()
    return {"seeds": len(seeds) + len(real), "failed": failed, "seconds": perf_counter() - start, **done}


def main(
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds are run.")] = 10_000,
    first: Annotated[int, typer.Option(min=0, help="The first of them.")] = 0,
    seed: Annotated[int | None, typer.Option(help="Replay this one alone, in both ways.")] = None,
    real: Annotated[int, typer.Option(min=0, help="How many more whose processes are killed by SIGKILL.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Run the faults of many seeds, and print the counts of events and of failures."""
    chosen = range(first, first + seeds) if seed is None else [seed]
    results = measure(chosen, range(first, first + real) if seed is None else chosen)
    if as_json:
        print(json.dumps(results))
    else:
        print("\n".join(f"{name}: {value:,.0f}" for name, value in results.items() if name != "failed"))
        print(f"failed: {len(results['failed'])}")
    raise typer.Exit(bool(results["failed"]))


if __name__ == "__main__":
    typer.run(main)
