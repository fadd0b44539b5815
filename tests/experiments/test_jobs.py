"""Jobs: a comparison in a process of its own, which may finish, fail, be canceled or be killed."""

import os
import signal
import time

import numpy as np
import pytest

from oal_engine import datasets, experiments
from oal_engine.datasets import reading
from oal_engine.experiments import jobs
from oal_engine.store import Store, StoreError

PATIENCE = 240  # seconds; a job compiles, on a machine that may be busy
SHORT = {"data": ["made"], "algorithms": {"PAA-I": {}, "OAAL": {}}, "budgets": [5, 20], "permutations": 2}
LONG = SHORT | {"budgets": list(range(1, 5001))}


@pytest.fixture
def store(tmp_path):
    """A database with a small labeled data set."""
    rng = np.random.default_rng(0)
    y = rng.random(90) < 0.3
    x = rng.normal(size=(90, 3)) + 2 * y[:, None]
    path = tmp_path / "made.csv"
    path.write_text("a,b,c,label\n" + "".join(f"{a},{b},{c},{int(k)}\n" for (a, b, c), k in zip(x, y)))
    store = Store(tmp_path / "studio.db")
    datasets.import_file(store, path, "made", reading.Columns(label="label", features=("a", "b", "c")))
    yield store
    for row in store.comparisons():
        jobs.cancel(store, row["id"])
    store.close()


def begun(store, values):
    return experiments.begin(experiments.specification(values), store)


def until(condition):
    """Wait until a condition has a true value, and return the value; fail after PATIENCE seconds."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return value


def ended(store, comparison):
    """Wait until a job no longer runs, and return its status."""
    return until(lambda: (status := jobs.status(store, comparison))["state"] != "running" and status)


def test_a_job_gives_what_a_run_in_this_process_gives(store):
    comparison = begun(store, SHORT)
    assert "stopped" == jobs.status(store, comparison)["state"]
    jobs.start(store, comparison)
    status = ended(store, comparison)
    assert ("finished", 8, 8, None) == (status["state"], status["done"], status["total"], status["message"])
    here = experiments.compare(experiments.specification(SHORT), store, "here")
    assert here.as_json()["results"] == experiments.load(store, comparison).as_json()["results"]


@pytest.mark.slow
def test_a_running_job_shows_its_lines_and_is_cancelled(store):
    """A job runs at low priority, and its finished result lines can be loaded meanwhile. Cancel ends the process but
    keeps the finished replays."""
    comparison = begun(store, LONG)
    jobs.start(store, comparison)
    pid = store.job(comparison)["pid"]
    jobs.start(store, comparison)
    assert pid == store.job(comparison)["pid"]  # a second click starts nothing
    until(lambda: jobs.status(store, comparison)["remaining"] is not None)
    until(lambda: store.comparison(comparison)["lines"])
    assert min(19, os.nice(0) + jobs.NICE) == os.getpriority(os.PRIO_PROCESS, pid)
    assert 0 < len(experiments.load(store, comparison).lines) < 10_000
    jobs.cancel(store, comparison)
    assert "cancelled" == jobs.status(store, comparison)["state"]
    until(lambda: jobs.started(pid) is None)
    kept = store.comparison(comparison)["replays"]
    jobs.start(store, comparison)
    until(lambda: jobs.status(store, comparison)["done"])
    assert kept <= store.job(comparison)["known"]
    pid = store.job(comparison)["pid"]
    jobs.remove(store, comparison)
    until(lambda: jobs.started(pid) is None)
    with pytest.raises(StoreError, match="does not exist"):
        store.comparison(comparison)


def test_a_process_that_is_gone_is_found_to_be_lost(store):
    comparison = begun(store, SHORT)
    jobs.start(store, comparison)
    os.kill(store.job(comparison)["pid"], signal.SIGKILL)
    status = ended(store, comparison)
    assert ("lost", jobs.LOST) == (status["state"], status["message"])
    jobs.start(store, comparison)
    assert "finished" == ended(store, comparison)["state"]


def test_a_recycled_pid_is_not_mistaken_for_the_job(store):
    """A process with a job's pid but another start time is not taken for the job, and Cancel does not end it. A
    process that is not the job runs no replay."""
    comparison = begun(store, SHORT)
    store.put_job(comparison, os.getpid(), "long ago")
    jobs.cancel(store, comparison)
    assert "lost" == jobs.status(store, comparison)["state"]
    store.put_job(comparison, os.getpid() + 1, "now")
    jobs.work(store.path, comparison)  # this process is not the job
    assert 0 == store.comparison(comparison)["replays"]


def test_a_job_that_cannot_work_says_why_in_a_sentence(store):
    """The error in a specification is stored as the job's message, for the page to show."""
    comparison = begun(store, SHORT | {"data": ["nothing"]})
    jobs.start(store, comparison)
    status = ended(store, comparison)
    assert ("failed", "data set nothing does not exist. There are: made.") == (status["state"], status["message"])
