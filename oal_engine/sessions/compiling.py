"""Compile the functions of an open session, in a process of its own: numba takes seconds, and labeling must not wait.

A new session runs in plain Python, with the same bits (kernel/jit.py). Once its machine code is in numba's cache on
disk, its next questions come from there.
"""

import os
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

from ..datasets.cage import end_with_parent
from ..kernel import jit
from ..store import Store
from .insights import drift, outcome
from .model import ModelError
from .session import Session

PACKAGES = Path(__file__).parents[2]  # the folder from which the engine is imported
NICE = 10  # priority below labeling


def compile_in_child(database: Path, session: int) -> None:
    """Compile the functions of a session in a child process, and then let this process look for the machine code."""
    command = [sys.executable, "-m", __name__, str(database.absolute()), str(session)]
    with subprocess.Popen(command, cwd=PACKAGES, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as child:
        child.wait()  # its input ends with this process
    jit.look_again()


def compile_session(database: Path, session: int) -> None:
    """Rebuild a session in machine code: the stream so far, the next questions, a learner retrained from scratch as
    after a correction, and the list. This compiles each function that is not in the cache yet, and changes nothing.
    Answers that come meanwhile are not seen."""
    with jit.form(jit.MACHINE), closing(Store(database, read_only=True)) as store, store.snapshot():
        opened = Session(store, session)
        drift.noticed(opened)
        if opened.several:
            return  # it has several learners, and other lists
        opened.earlier(1)
        with suppress(ModelError):
            (outcome.of_classes if opened.multiclass else outcome.of_session)(opened)


if __name__ == "__main__":
    end_with_parent(os.getppid())
    os.nice(NICE)
    compile_session(Path(sys.argv[1]), int(sys.argv[2]))
