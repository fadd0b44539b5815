"""Valid files damaged at random, in large numbers: what is neither read nor refused in one sentence, takes too long or
too much memory, or ends the process, is a finding.

The damages and what reads the files stand in tests/harness/mutations.py; the tests try a few of each.
"""

import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Annotated

import typer
from common import SEED, table

from tests.harness.mutations import ALONE, MAKERS, MEMORY, SECONDS, mutated, refusal, target

SLICE = 5.0  # seconds between two words of the process that reads
HEADS = ("target", "executions", "refused", "slowest (ms)", "ended the process", "findings")


def begin(name, folder):
    """Make what a process of its own reads, and limit its memory."""
    global reader
    reader = target(name, folder)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def tried(seconds, seed, last):
    """Read damaged files for so many seconds: how many there were, how many of them were refused, the slowest in
    seconds, and the findings, {problem: file}. `last` has the file that was read when the process ended."""
    random, executions, refused, slowest, findings = Random(seed), 0, 0, 0.0, {}
    end = perf_counter() + seconds
    while perf_counter() < end:
        content = mutated(random.choice(reader.files), reader.files, random)
        last.write_bytes(content)
        start, problem = process_time(), None
        try:
            refused += refusal(reader, content) is not None
        except Exception as error:
            problem = f"{type(error).__name__}: {str(error)[:200]}"
        took = process_time() - start
        if took > SECONDS:
            problem = f"it took more than {SECONDS:g} seconds"
        if problem:
            findings.setdefault(problem, content)
        executions, slowest = executions + 1, max(slowest, took)
    return executions, refused, slowest, findings


def all_tried(name, seconds, seed, last):
    """The same over many slices, and how often the process ended."""
    executions, refused, slowest, findings, ended = 0, 0, 0.0, {}, 0
    end, numbers = perf_counter() + seconds, count()
    while perf_counter() < end:
        with TemporaryDirectory(prefix="oal-fuzz-") as folder:
            pool = ProcessPoolExecutor(1, get_context("spawn"), begin, (name, folder))
            try:
                while (left := end - perf_counter()) > 0:
                    part = pool.submit(tried, min(SLICE, left), f"{seed} {name} {next(numbers)}", last).result()
                    executions, refused, slowest = executions + part[0], refused + part[1], max(slowest, part[2])
                    findings = part[3] | findings
            except BrokenProcessPool:
                ended += 1
                findings |= {} if name in ALONE else {"it ended the process": last.read_bytes()}
            finally:
                pool.shutdown()
    return executions, refused, round(1000 * slowest), ended, findings


def main(
    seconds: Annotated[float, typer.Option(min=1, help="How long each target is tried.")] = 60.0,
    target: Annotated[list[str] | None, typer.Option(help=f"What to read: {', '.join(MAKERS)}.")] = None,
    seed: Annotated[int, typer.Option(help="Of the damages.")] = SEED,
    folder: Annotated[Path, typer.Option(help="Where the files of findings are written.")] = Path("findings"),
):
    """Read damaged files of every kind, print how many, and write those that are findings; exit code 1 if any are."""
    folder.mkdir(exist_ok=True)
    lines = []
    for name in target or MAKERS:
        *numbers, findings = all_tried(name, seconds, seed, folder / f"{name}-last")
        for number, (problem, content) in enumerate(findings.items(), 1):
            (folder / f"{name}-{number}").write_bytes(content)
            print(f"{name}-{number}: {problem}", file=sys.stderr, flush=True)
        lines.append((name, *numbers, len(findings)))
    print("\n".join(table(HEADS, lines)))
    executions, found = (sum(line[k] for line in lines) for k in (1, -1))
    print(f"{executions:,} executions, {found:,} findings.")
    raise typer.Exit(int(found > 0))


if __name__ == "__main__":
    typer.run(main)
