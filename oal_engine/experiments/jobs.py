"""Comparisons in the background: each runs in a process of its own, which writes its state to the database.

The process survives reloads of the page and restarts of the server. The job of a comparison is the process that runs
it, or ran it last.
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
from .running import compare

NICE = 10  # sessions get the processor first
SECONDS_PER_UPDATE = 0.5  # between updates of the progress in the database
LOST = "the process exited unexpectedly; finished replays are kept."


def start(store: Store, comparison: int) -> None:
    """Start or resume a comparison in a process of its own. Do nothing if such a process is already running."""
    command = [sys.executable, "-m", __spec__.name, str(store.path.resolve()), str(comparison)]
    with store.transaction():  # the process waits for the transaction's end, so it finds its row
        if status(store, comparison)["state"] == "running":
            return
        process = subprocess.Popen(
            command, cwd=Path(__file__).parents[2], start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        store.put_job(comparison, process.pid, started(process.pid) or "")
    threading.Thread(target=process.wait, daemon=True).start()  # reaps the process when it ends


def status(store: Store, comparison: int) -> dict[str, Any]:
    """Return the state of a comparison, the number of finished replays (`done`), the number of all replays (`total`),
    the remaining seconds (`remaining`), and a message. The last three may be None.

    state: running, finished, failed, cancelled, lost (its process is gone), or stopped (it never had a job).
    """
    record, job = store.comparison(comparison, lines=False), store.job(comparison)
    if job and job["state"] == "running" and started(job["pid"]) != job["started"]:
        store.end_job(comparison, job["pid"], "lost", LOST)
        job = store.job(comparison)
    if job is None:
        job = {"state": "stopped", "done": record["replays"], "total": None, "message": None}
    if record["finished_at"] and job["state"] != "running":
        job["state"] = "finished"
    return job | {"remaining": _remaining(job)}


def _remaining(job: Mapping[str, Any]) -> float | None:
    """Estimate the remaining seconds from the speed so far. Return None if the job is not running, or has not finished
    a replay since it began."""
    if job["state"] != "running" or not job["total"] or job["done"] <= job["known"]:
        return None
    ran = (datetime.now(UTC) - datetime.fromisoformat(job["begun_at"])).total_seconds()
    return ran / (job["done"] - job["known"]) * (job["total"] - job["done"])


def cancel(store: Store, comparison: int) -> None:
    """Cancel a comparison that is running: terminate its process. Finished replays are kept."""
    with store.transaction():
        job = store.job(comparison)
        if job and job["state"] == "running" and started(job["pid"]) == job["started"]:
            store.end_job(comparison, job["pid"], "cancelled")
            with suppress(ProcessLookupError):
                os.kill(job["pid"], signal.SIGTERM)


def remove(store: Store, comparison: int) -> None:
    """Cancel a comparison if it is running, and delete it with everything stored for it."""
    cancel(store, comparison)
    store.remove_comparison(comparison)


def started(pid: int) -> str | None:
    """Return the start time of a process as the operating system formats it, or None if the process has ended. Together
    with the pid, the start time identifies a process."""
    if not Path("/proc/self/stat").exists():  # not Linux
        command = ["ps", "-o", "lstart=", "-p", str(pid)]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip() or None
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else rest[18]


def work(path: str, comparison: int) -> None:
    """Run a comparison in the process that `start` made for it, and store its progress and how it ended."""
    store, pid = Store(path), os.getpid()
    if (job := store.job(comparison)) is None or job["pid"] != pid:
        return
    end, updated = partial(store.end_job, comparison, pid), -inf

    def advance(done: int, total: int) -> None:
        nonlocal updated
        if done == total or time.monotonic() - updated >= SECONDS_PER_UPDATE:
            store.advance_job(comparison, pid, done, total)
            updated = time.monotonic()

    try:
        record = store.comparison(comparison)
        spec = specifications.stored(record["specification"])
        with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 1)) as threads:  # leaves a core for sessions
            compare(spec, store, record["name"], threads, progress=advance)
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
