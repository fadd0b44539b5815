"""The workers that run a command: threads, processes, or a Dask cluster."""

import os
import signal
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Annotated, Any

from typer import Option


@dataclass(frozen=True)
class Workers:
    """Options that choose the workers."""

    workers: Annotated[int | None, Option(min=1, help="Number of threads or processes (default: one per core).")] = None
    processes: Annotated[bool, Option("--processes", help="Use processes instead of threads.")] = False
    scheduler: Annotated[str | None, Option(metavar="tcp://HOST:PORT", help="A Dask cluster to run on.")] = None

    def executor(self, sources: Callable[[], list[Any]] = list) -> AbstractContextManager[Executor]:
        """Return an executor with the chosen workers. sources: returns the rows that a Dask cluster needs."""
        if self.scheduler:
            try:
                from ..experiments import cluster  # imported late: Dask is optional
            except ModuleNotFoundError:
                raise ValueError("--scheduler needs Dask: pip install distributed.") from None
            return cluster.executor(self.scheduler, sources())
        if self.processes:  # Ctrl-C reaches the workers too, but only the parent may act on it
            deaf = signal.signal, (signal.SIGINT, signal.SIG_IGN)
            return ProcessPoolExecutor(self.workers, get_context("spawn"), *deaf)
        return ThreadPoolExecutor(self.workers or os.cpu_count())
