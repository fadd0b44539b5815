"""Compile the algorithms before somebody needs them (warm numba's cache): each takes seconds, once on a machine."""

import fcntl
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from itertools import islice, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import numba
import numpy as np
from llvmlite import binding

from .. import datasets
from ..datasets import demo, reading
from ..kernel.algorithms import ALGORITHMS
from ..kernel.learners import is_multiclass
from ..store import Store
from .session import Session
from .settings import create

N_TEXTS, N_COLUMNS = 40, 5  # of practice data: enough for the features of similar wording
KINDS = "mixed", "sparse", "dense"  # kinds of rows; imported texts and tables have mixed rows
LOWEST_PRIORITY = 19
PAIRS_AT_A_TIME = 8


def practice_data(store: Store, kind: str) -> int:
    """Store a small data set for practice, with rows of a kind (one of KINDS). Return its id."""
    tweets = demo.dataset(store, "tweets")
    if kind == "sparse":
        return tweets
    texts: list[str] | None = [store.item(tweets, position)["text"] for position in range(N_TEXTS)]
    numbers, names = None, list[str]()
    if kind == "dense":
        texts, names = None, [f"column {k}" for k in range(N_COLUMNS)]
        numbers = np.random.default_rng(0).normal(size=(N_TEXTS, N_COLUMNS))
    nothing, y = [""] * N_TEXTS, np.zeros(N_TEXTS, np.int8)
    items = reading.Items([*map(str, range(N_TEXTS))], texts, numbers, names, nothing, y, {})
    table = datasets.table(items, features="plain" if kind == "dense" else None)
    return datasets.add(store, kind, table, f"{kind}.txt")


def answer_one(session: Session) -> None:
    """Give one answer in a new session, and correct it: this compiles all that a session needs."""
    first, second = [*session.names][:2]
    if asked := session.current:
        session.answer(f"answer in {session.id}", asked.id, first)
        session.correct(f"correction in {session.id}", asked.id, second)


def pairs() -> dict[str, tuple[str, str]]:
    """Return all combinations of a kind of rows and an algorithm, {"kind algorithm": (kind, algorithm)}. Aliases of
    algorithms are left out."""
    distinct = {repr(entry.runs): name for name, entry in reversed(ALGORITHMS.items())}
    names = sorted(distinct.values(), key=[*ALGORITHMS].index)
    return {f"{kind} {name}": (kind, name) for kind in KINDS for name in names}


def _notes() -> Path:
    """Return the path of the file that lists the compiled pairs, each a kind of rows and an algorithm. Each version of
    numba and each processor has its own file, as their machine code differs."""
    processor = os.environ.get("NUMBA_CPU_NAME") or binding.get_host_cpu_name()
    return Path(os.environ["NUMBA_CACHE_DIR"]) / f"compiled-{numba.__version__}-{processor}.txt"


def progress() -> tuple[int, int]:
    """Return how many pairs of an algorithm and a kind of rows are compiled, and how many there are."""
    all_pairs, notes = pairs(), _notes()
    return len(all_pairs.keys() & _lines(notes)) if notes.exists() else 0, len(all_pairs)


def _lines(notes: Path) -> set[str]:
    return {*notes.read_text(encoding="utf-8").splitlines()}


@contextmanager
def _lock(notes: Path) -> Iterator[IO[str] | None]:
    """Open the list of compiled pairs (`_notes`) for appending, and lock it. Yield None if another process has locked
    it."""
    notes.parent.mkdir(parents=True, exist_ok=True)
    with notes.open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield file


def compile_ahead() -> Generator[str]:
    """Compile each pair of a kind of rows and an algorithm that is not compiled yet, and yield its name. Yield nothing
    if another process is compiling.

    Run this in a process of its own: numba compiles one function at a time in a process, so other threads would wait.
    """
    notes, data = _notes(), dict[str, int]()
    with _lock(notes) as file, TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        store = Store(Path(folder) / "practice.db")
        for line, (kind, name) in pairs().items():
            if file and line not in _lines(notes):
                dataset = data[kind] if kind in data else data.setdefault(kind, practice_data(store, kind))
                classes = ["a", "b", "c"] * is_multiclass(ALGORITHMS[name].learner)
                answer_one(Session(store, create(store, dataset, name, classes=classes)))
                print(line, file=file, flush=True)
                yield line
        store.close()


if __name__ == "__main__":
    os.nice(LOWEST_PRIORITY)
    if hasattr(os, "SCHED_IDLE"):  # on Linux: even at the lowest priority, it would delay the server now and then
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    server = os.getppid()  # a killed server cannot end this process, so its id is watched
    with closing(compile_ahead()) as names:
        done = [*takewhile(lambda _: os.getppid() == server, islice(names, PAIRS_AT_A_TIME))]
    if len(done) == PAIRS_AT_A_TIME:  # begin again: a process keeps all that it has compiled in memory
        os.execv(sys.executable, [sys.executable, "-m", __spec__.name])
