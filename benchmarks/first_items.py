"""Measure the seconds until each algorithm shows its first item, and the seconds of its first answer, on a machine that
has compiled only the code that the app compiles at its first start. Run `python benchmarks/first_items.py`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from common import table

from oal_engine.sessions import compiling

ROOT = Path(__file__).parents[1]
AIM = 6  # seconds until the first item
FIRST_START = "from ui.warm_up import practise; practise()"
ONE = """
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from oal_engine.kernel.algorithms import ALGORITHMS
from oal_engine.kernel.learners import is_multiclass
from oal_engine.sessions import compiling
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store
name = sys.argv[1]
with TemporaryDirectory() as folder:
    store = Store(Path(folder) / "studio.db")
    classes = ["a", "b", "c"] * is_multiclass(ALGORITHMS[name].learner)
    created = create(store, compiling.practice_data(store, "mixed"), name, classes=classes)
    begun = perf_counter()
    session = Session(store, created)
    assert session.current
    shown = perf_counter()
    compiling.answer_one(session)
    print(shown - begun, perf_counter() - shown)
"""


def seconds(name: str, compiled: Path) -> tuple[float, float]:
    """Return the seconds until an algorithm shows its first item, and the seconds of its first answer. compiled: folder
    with a cache of machine code, of which a copy is used."""
    with TemporaryDirectory(prefix="oal-first-") as folder:
        shutil.copytree(compiled, folder, dirs_exist_ok=True)
        first, answered = run(ONE, folder, name).split()
    return float(first), float(answered)


def run(code: str, cache: Path | str, *arguments: str) -> str:
    """Run Python code in a process that keeps its machine code in the folder `cache`. Return the output of the code."""
    environment = os.environ | {"XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout


def main(
    algorithms: Annotated[str, typer.Option(help="Names, with commas between (default: all in the form).")] = "",
) -> None:
    """Print the times of each algorithm, and how many algorithms show their first item within the aim."""
    names = algorithms.split(",") if algorithms else sorted({name for _, name in compiling.pairs().values()})
    with TemporaryDirectory(prefix="oal-compiled-") as folder:
        run(FIRST_START, folder)
        times = {name: seconds(name, Path(folder)) for name in names}
    lines = [[name, f"{first:.1f}", f"{answered:.1f}"] for name, (first, answered) in times.items()]
    print("\n".join(table(["algorithm", "first item (s)", "first answer (s)"], lines)))
    firsts = sorted(first for first, _ in times.values())
    met = sum(first <= AIM for first in firsts)
    spread = f"{firsts[0]:.1f} to {firsts[-1]:.1f} s, median {median(firsts):.1f}"
    print(f"First item: {spread}; {met} of {len(firsts)} at most {AIM} s.")


if __name__ == "__main__":
    typer.run(main)
