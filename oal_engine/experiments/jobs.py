"""Comparisons in the background: each runs in a process of its own, and the database tells everybody how it is.

The process outlives a page that is reloaded and a server that is restarted; the job of a comparison is the one that
runs it, or ran it last.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from ..store import Store
from . import specifications
from .comparison import compare

NICE = 10  # whoever labels goes first
SHOWN_EVERY = 0.5  # seconds between two writes of how far it is
LOST = "the process exited unexpectedly; what it had finished is kept."


def start(store: Store, comparison: int) -> None:
    """Run a comparison in a process of its own, or go on with it; nothing happens while one runs."""
    command = [sys.executable, "-m", __spec__.name, str(store.path.resolve()), str(comparison)]
    with store.transaction():  # the process waits for its end, and finds its row then
        if status(store, comparison)["state"] == "running":
            return
        process = subprocess.Popen(
            command, cwd=Path(__file__).parents[2], start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        store.put_job(comparison, process.pid, started(process.pid) or "")
    threading.Thread(target=process.wait, daemon=True).start()  # a process that nobody waits for stays in the table


def status(store: Store, comparison: int) -> dict[str, Any]:
    """How a comparison is: its state, and done and total replays, seconds remaining and a message where there are any.

    state: running, finished, failed, cancelled, lost (its process is gone), or stopped, where it never had a job.
    """
    kept, job = store.comparison(comparison, lines=False), store.job(comparison)
    if job and job["state"] == "running" and started(job["pid"]) != job["started"]:
        store.end_job(comparison, job["pid"], "lost", LOST)
        job = store.job(comparison)
    if job is None:
        job = {"state": "stopped", "done": kept["replays"], "total": None, "message": None}
    if kept["finished_at"] and job["state"] != "running":
        job["state"] = "finished"
    return job | {"remaining": _remaining(job)}


def _remaining(job: Mapping[str, Any]) -> float | None:
    """Seconds that are left at the speed so far, None where that is not known."""
    if job["state"] != "running" or not job["total"] or job["done"] <= job["known"]:
        return None
    ran = (datetime.now(UTC) - datetime.fromisoformat(job["begun_at"])).total_seconds()
    return ran / (job["done"] - job["known"]) * (job["total"] - job["done"])


def cancel(store: Store, comparison: int) -> None:
    """End the process of a comparison; what it has finished is kept."""
    with store.transaction():
        job = store.job(comparison)
        if job and job["state"] == "running" and started(job["pid"]) == job["started"]:
            store.end_job(comparison, job["pid"], "cancelled")
            with suppress(ProcessLookupError):
                os.kill(job["pid"], signal.SIGTERM)


def remove(store: Store, comparison: int) -> None:
    """Delete a comparison with everything that it kept, whatever its state."""
    cancel(store, comparison)
    store.remove_comparison(comparison)


def started(pid: int) -> str | None:
    """When a process started, as the system writes it: with its pid what tells it from all others; None if it ended."""
    if not Path("/proc/self/stat").exists():  # not Linux
        command = ["ps", "-o", "lstart=", "-p", str(pid)]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip() or None
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else rest[18]


def work(path: str, comparison: int) -> None:
    """Run a comparison as its job: what the process of `start` does."""
    store, pid = Store(path), os.getpid()
    job = store.job(comparison)
    if job is None or job["pid"] != pid:
        return
    end, shown = partial(store.end_job, comparison, pid), -inf

    def advance(done: int, total: int) -> None:
        nonlocal shown
        if done == total or time.monotonic() - shown >= SHOWN_EVERY:
            store.advance_job(comparison, pid, done, total)
            shown = time.monotonic()

    try:
        kept = store.comparison(comparison)
        spec = specifications.stored(kept["specification"])
        with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 1)) as threads:  # a core is left for whoever labels
            compare(spec, store, kept["name"], threads, progress=advance)
    except (ValueError, OSError) as error:
        end("failed", str(error))
    except Exception as error:
        end("failed", f"{type(error).__name__}: {error}")
        raise
    else:
        end("finished")


if __name__ == "__main__":
    os.nice(NICE)
    work(sys.argv[1], int(sys.argv[2]))
