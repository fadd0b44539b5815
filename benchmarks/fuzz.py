"""Fuzz the readers of files: `python benchmarks/fuzz.py` reads damaged files, guided by code coverage (atheris). A
finding is a file that is neither read nor refused with a one-sentence error, that takes too long or too much memory, or
that ends the process. An execution in the printed table is one file read.

The kinds of damage and the readers are in tests/harness/mutations.py; the tests try a few of each.
"""

import re
import resource
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from pkgutil import walk_packages
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Annotated

import typer
from common import SEED, table

FOLLOWED = ["oal_engine", "arff", "openpyxl", "rispy"]
KERNEL = find_spec("oal_engine.kernel").submodule_search_locations
COMPILED = {module.name for module in walk_packages(KERNEL, "oal_engine.kernel.")} | {
    "oal_engine.datasets.features.fourier"
}
HANGS = 60  # seconds to read one file, after which the process is ended
EXECUTIONS, COVERAGE, ERROR = r"stat::number_of_executed_units: (\d+)", r" cov: (\d+)", r"exception: ===\n(.+)"
HEADS = ("target", "executions", "branches reached", "ended the process", "findings")


def follow(name, folder, seconds, seed):
    """Fuzz the reader `name` for some seconds, or until there is a finding, which is written to the folder."""
    import atheris

    with atheris.instrument_imports(include=FOLLOWED, exclude=COMPILED):
        from tests.harness.mutations import MEMORY, SECONDS, mutated, refusal, target

    made = folder / "made"
    made.mkdir(parents=True)
    reader = target(name, made)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def tried(content):
        start = process_time()
        refusal(reader, content)
        assert process_time() - start < SECONDS, f"it took more than {SECONDS:g} seconds"

    def damaged(content, size, number):
        random = Random(number)
        if random.random() < 0.5:
            return atheris.Mutate(content, size)
        return mutated(content, reader.files, random)[:size]

    corpus = folder / "corpus"
    corpus.mkdir()
    for number, content in enumerate(reader.files):
        (corpus / str(number)).write_bytes(content)
    options = {"max_total_time": seconds, "seed": seed, "timeout": HANGS, "rss_limit_mb": 0, "print_final_stats": 1}
    written = [f"-{option}={value}" for option, value in options.items()]
    atheris.Setup([name, str(corpus), *written, f"-artifact_prefix={folder}/"], tried, custom_mutator=damaged)
    atheris.Fuzz()


def followed(name, seconds, seed, folder):
    """Run `follow` in child processes until the time is over or there is a finding.

    Return the number of files read, the largest number of branches reached, the number of processes that were ended by
    a library that is allowed to do so, and the finding as a sentence, or None.
    """
    from tests.harness.mutations import ALONE

    executions, reached, ended, end = 0, 0, 0, perf_counter() + seconds
    while (left := end - perf_counter()) > 1:
        with TemporaryDirectory(prefix="oal-fuzz-") as place:
            command = [sys.executable, __file__, "follow", name, place, str(int(left)), str(seed + ended)]
            said = subprocess.run(command, capture_output=True, text=True, errors="replace").stderr
            executions += sum(map(int, re.findall(EXECUTIONS, said)))
            reached = max([reached, *map(int, re.findall(COVERAGE, said))])
            problems = re.findall(ERROR, said)
            files = [path for path in Path(place).iterdir() if path.is_file()]
            if problems or (files and name not in ALONE):
                for path in files:
                    (folder / f"{name}-{path.name}").write_bytes(path.read_bytes())
                return executions, reached, ended, problems[0] if problems else "it ended the process"
            if not files and not executions and not problems:
                raise RuntimeError(said)
            ended += bool(files)
    return executions, reached, ended, None


def main(
    seconds: Annotated[int, typer.Option(min=5, help="How long each target is tried.")] = 60,
    target: Annotated[list[str] | None, typer.Option(help="What to read; everything without it.")] = None,
    seed: Annotated[int, typer.Option(help="Of the damages.")] = SEED,
    folder: Annotated[Path, typer.Option(help="Where the files of findings are written.")] = Path("findings"),
):
    """Read damaged files of every kind, print their number, and write findings; the exit code is 1 if there are any."""
    from tests.harness.mutations import MAKERS

    folder.mkdir(exist_ok=True)
    lines = []
    for name in target or MAKERS:
        *numbers, problem = followed(name, seconds, seed, folder)
        if problem:
            print(f"{name}: {problem}", file=sys.stderr, flush=True)
        lines.append((name, *numbers, int(problem is not None)))
    print("\n".join(table(HEADS, lines)))
    executions, found = (sum(line[k] for line in lines) for k in (1, -1))
    print(f"{executions:,} executions, {found:,} findings.")
    raise typer.Exit(int(found > 0))


if __name__ == "__main__":
    if sys.argv[1:2] == ["follow"]:
        name, folder, seconds, seed = sys.argv[2:]
        follow(name, Path(folder), seconds, seed)
    else:
        typer.run(main)
