"""Measure peak memory and processor time of imports of more and more texts: `python benchmarks/import_memory.py`.

The texts are generated: 60 to 100 characters, words by Zipf's law, and a unique user name in every tenth text. Each
import runs in a process of its own, through the command line. `--code FOLDER` also measures another clone of the
project.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from common import SEED, machine, table

COUNTS, FEATURES = [200_000, 1_000_000], ["words", "rich", "rich+latent"]
WORDS, BLOCK_TEXTS, MEAN_WORDS = 300_000, 50_000, 12
LETTERS = np.array([*"etaoinshrdlucmfwygpbvk"])


class Cost(NamedTuple):
    """The cost of an import: peak resident memory in MB, processor seconds, elapsed seconds, MB on the disk."""

    peak_mb: float
    processor_seconds: float
    seconds: float
    stored_mb: float


def write_texts(path: Path, count: int) -> None:
    """Write `count` generated texts to a file, one per line."""
    rng = np.random.default_rng(SEED)
    words = np.array(["".join(rng.choice(LETTERS, size)) for size in 2 + rng.poisson(4, WORDS)])
    shares = 1 / np.arange(3, WORDS + 3)
    with path.open("w", encoding="utf-8") as file:
        for first in range(0, count, BLOCK_TEXTS):
            sizes = rng.integers(MEAN_WORDS - 3, MEAN_WORDS + 4, min(BLOCK_TEXTS, count - first))
            drawn = words[rng.choice(WORDS, sizes.sum(), p=shares / shares.sum())]
            for number, text in enumerate(np.split(drawn, np.cumsum(sizes)[:-1]), first):
                file.write(" ".join(text) + (f" @user{number * 7919}" if number % 10 == 0 else "") + "\n")


def import_cost(code: Path, path: Path, folder: Path, options: list[str]) -> Cost:
    """Import a file with the code of a clone into a new database in `folder`, and return the cost."""
    begin = [sys.executable, "-m", "oal_engine", "import", str(path), "--name", "texts", "--limit", f"items={10**9}"]
    started = time.perf_counter()
    process = subprocess.Popen([*begin, "--db", str(folder / "db"), *options], cwd=code, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"The import failed with status {status}.")
    stored = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
    seconds = time.perf_counter() - started
    return Cost(usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime, seconds, stored / 2**20)


def main(
    counts: Annotated[list[int], typer.Option("--texts", help="Number of texts; repeatable.")] = COUNTS,
    features: Annotated[list[str], typer.Option(help="Features; repeatable.")] = FEATURES,
    code: Annotated[list[Path] | None, typer.Option(help="Another clone to measure; repeatable.")] = None,
    near_duplicates: Annotated[str, typer.Option(help="Treatment of near-duplicates.")] = "keep",
) -> None:
    """Measure imports, and print a table of their costs."""
    rows = []
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "texts.txt"
            write_texts(path, count)
            for kind in features:
                for clone in [*(code or []), Path(__file__).parent.parent]:
                    with tempfile.TemporaryDirectory(dir=folder) as own:
                        options = ["--features", kind, "--near-duplicates", near_duplicates]
                        cost = import_cost(clone.resolve(), path, Path(own), options)
                    numbers = cost._replace(processor_seconds=1e6 * cost.processor_seconds / count)
                    rows.append([f"{count:,}", kind, clone.resolve().name, *(f"{number:,.0f}" for number in numbers)])
                    print(*rows[-1], file=sys.stderr, flush=True)
    print(machine())
    print(
        *table(["texts", "features", "code", "peak MB", "µs of processor per text", "seconds", "MB stored"], rows),
        sep="\n",
    )


if __name__ == "__main__":
    typer.run(main)
