"""Limit the memory and the time of the processes that read files, and how many of them run at once."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from threading import Lock, Thread

from .reading.parsed import plural
from .reading.sources import DataError, PhaseProgress

MEMORY_BYTES = 2 * 2**30  # that an import may map, unless the environment sets OAL_IMPORT_MEMORY
PAUSE_SECONDS = 0.2  # until progress is reported again, so that an abandoned page can stop its process
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl
INSTEAD = "import it on the command line"


@dataclass(eq=False)
class Turn:
    """The time that a person's process has in a cage. is_over: whether another one needs its place."""

    person: str
    begun: float = 0.0
    is_over: bool = False

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun


@dataclass
class Cage:
    """The limits on the child processes of one kind, and the running ones: `places` at once, one for each person.

    work: their work, for messages. memory: share of the memory of an import. patience: seconds after which one ends
    if another needs its place. nice: priority, below labeling.
    """

    work: str
    places: int
    memory: float
    processor_minutes: int
    clock_minutes: int
    patience: float
    nice: int
    turns: list[Turn] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    @property
    def bytes(self) -> int:
        return int(self.memory * int(os.environ.get("OAL_IMPORT_MEMORY", MEMORY_BYTES)))

    @contextmanager
    def turn(self, person: str, progress: PhaseProgress) -> Iterator[Turn]:
        """Wait for a place, and hold it for the body. `progress`, called meanwhile, may raise an error to stop."""
        turn = Turn(person)
        while not self._begin(turn):
            progress("waiting", 0, 1)
            time.sleep(PAUSE_SECONDS)
        try:
            yield turn
        finally:
            with self.lock:
                self.turns.remove(turn)

    def _begin(self, turn: Turn) -> bool:
        """Begin a turn if there is a place for it. Otherwise end the oldest turn in its way if its patience is over."""
        with self.lock:
            in_the_way = [each for each in self.turns if each.person == turn.person != ""]
            if in_the_way := in_the_way or (self.turns if len(self.turns) >= self.places else []):
                oldest = in_the_way[0]
                oldest.is_over = oldest.is_over or oldest.seconds > self.patience
                return False
            turn.begun = time.monotonic()
            self.turns.append(turn)
            return True

    def check(self, turn: Turn, name: str) -> None:
        """Raise DataError if the time of a turn is over."""
        if turn.is_over:
            raise self.too_long(name, f"{self.patience:g} seconds", " while other files wait: try again, or")
        if turn.seconds > 60 * self.clock_minutes:
            raise self.too_long(name, plural(self.clock_minutes, "minute"))

    def too_long(self, name: str, time: str, when: str = ":") -> DataError:
        return DataError(f"{name} takes longer than the {time} that {self.work} may take{when} {INSTEAD}.")

    def too_large(self, name: str) -> str:
        return (
            f"{name} needs more memory than the {self.bytes / 2**30:.1f} GiB that {self.work} may take: {INSTEAD}, or "
            "raise OAL_IMPORT_MEMORY (bytes)."
        )

    def crashed(self, name: str, code: int | None) -> DataError:
        """Return the error for a process that ended without a result: some libraries end it when memory runs out."""
        if code == -signal.SIGXCPU:
            return self.too_long(name, f"{plural(self.processor_minutes, 'minute')} of processor time")
        return DataError(
            f"The process that read {name} exited unexpectedly (exit code {code}), probably out of memory: its limit "
            f"is {self.bytes / 2**30:.1f} GiB (OAL_IMPORT_MEMORY). See the server log."
        )

    def enter(self) -> None:
        """Set the limits of this process, which does the work."""
        os.nice(self.nice)
        resource.setrlimit(resource.RLIMIT_AS, (self.bytes, self.bytes))
        resource.setrlimit(resource.RLIMIT_CPU, (60 * self.processor_minutes, 60 * self.processor_minutes + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


# Together they may map 3.9 times the memory of an import. 0.3 GiB of each are only mapped libraries, so that all of
# them and the server fit into 8 GiB.
LOOKS = Cage("a look at a file", 3, 5 / 8, processor_minutes=3, clock_minutes=5, patience=4, nice=5)
IMPORTS = Cage("an import of this page", 2, 1, processor_minutes=60, clock_minutes=240, patience=inf, nice=15)


def end_with_parent(parent: int) -> None:
    """Let the kernel end this process when its parent ends, or else, on other systems than Linux, a thread. A thread
    cannot run while a regular expression does."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
        with suppress(OSError):  # the kernel should end this process before the server if memory runs out
            Path("/proc/self/oom_score_adj").write_text("1000")
    if os.getppid() != parent:
        os._exit(1)
    Thread(target=_end_with_input, daemon=True).start()


def _end_with_input() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)
