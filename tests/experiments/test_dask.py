"""A Dask cluster as workers: the same result as with threads, even if a worker is killed or has no access to the
rows."""

import json
import logging
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from oal_engine import datasets, experiments
from oal_engine.datasets import reading
from oal_engine.experiments import worker as replays
from oal_engine.store import Store
from oal_engine.versions import versions
from tests.harness import ROOT

distributed = pytest.importorskip("distributed", reason="needs Dask: pip install .[dask]")
from oal_engine.experiments import cluster  # noqa: E402

QUIET = logging.CRITICAL + 1  # Dask says much when a worker dies
SPECIFICATION = experiments.specification(
    {
        "data": ["a"],
        "algorithms": {"PAA-I": {"C": "10^-4..10^4", "delta": "10^-4..10^4"}},
        "budgets": [300],
        "permutations": 5,
        "tune": "2:1",
    }
)


@pytest.fixture(scope="module")
def local():
    """A scheduler with two workers, each in a process of its own that is restarted when it dies."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=QUIET
    ) as dask_cluster:
        yield dask_cluster


@pytest.fixture
def store(tmp_path):
    """A store with a data set of 4,000 rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 20))
    y = np.where(X @ rng.normal(size=20) > 4, 1, -1).astype(np.int8)
    items = reading.Items([str(k) for k in range(4000)], None, X, [f"f{j}" for j in range(20)], ["w"] * 4000, y, {})
    store = Store(tmp_path / "studio.db")
    datasets.add(store, "a", datasets.table(items), "a")
    return store


def compare_as_json(store, name, executor=None, **options):
    """Run SPECIFICATION as a comparison of this name on an executor (None: threads), and return its JSON."""
    return json.dumps(experiments.compare(SPECIFICATION, store, name, executor, **options).as_json())


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_nothing(local, store):
    """When one of two worker processes is killed, every replay finishes, and the JSON equals the JSON of threads."""
    sources = experiments.sources(SPECIFICATION, store)
    killed = []
    with cluster.executor(local.scheduler_address, sources) as executor:
        with distributed.Client(local.scheduler_address, set_as_default=False) as client:
            first, second = client.run(os.getpid).values()

        def progress(done, total):
            if done and not killed:
                os.kill(first, signal.SIGKILL)
                killed.append((done, total))

        output = compare_as_json(store, "cluster", executor, progress=progress)
    ((done, total),) = killed
    assert done < total / 2
    assert 81 * 3 + 5 == total == len(store.replays(store.comparison("cluster")["id"]))
    assert compare_as_json(store, "threads") == output
    with distributed.Client(local.scheduler_address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=120)
        pids = set(client.run(os.getpid).values())
    assert second in pids
    assert first not in pids


@pytest.mark.slow
def test_rows_that_workers_do_not_see_are_uploaded(local, store, monkeypatch):
    """Rows are sent only to workers that cannot open them by path, once to each, including workers that join later."""
    (source,) = experiments.sources(SPECIFICATION, store)
    jobs = [experiments.TunedRun(SPECIFICATION, source, "PAA-I", 9, {}).job({}, ("test", seed)) for seed in range(4)]
    expected = [counts.tolist() for counts in replays.replayed(source, jobs)]
    monkeypatch.chdir(store.path.parent)
    unseen = source._replace(folder=os.path.relpath(source.folder))  # exists here, not in the workers' folder
    for known, count in ((source, 0), (unseen, 2), (unseen, 2)):
        with cluster.executor(local.scheduler_address, [known]) as executor:
            futures = [executor.submit(replays.replayed, known, [job]) for job in jobs]
            assert expected == [future.result()[0].tolist() for future in futures]
        assert count == len(places(local))
    monkeypatch.undo()  # a new process starts where this one is
    local.scale(3)
    with distributed.Client(local.scheduler_address, set_as_default=False) as client:
        client.wait_for_workers(3, timeout=120)
    assert 3 == len(places(local))


def places(local):
    """Return the folders of uploaded rows on all workers."""
    with distributed.Client(local.scheduler_address, set_as_default=False) as client:
        return {folder for folders in client.run(lambda: replays.UPLOADED).values() for folder in folders.values()}


def test_only_the_same_rows_are_seen(store):
    """Rows count as accessible only if their folder exists and they have the fingerprint of the source."""
    (source,) = experiments.sources(SPECIFICATION, store)
    assert cluster.has_rows(source)
    assert not cluster.has_rows(source._replace(fingerprint="0" * 32))
    assert not cluster.has_rows(source._replace(folder="missing"))


def test_workers_of_another_version_are_refused(local, store, monkeypatch):
    """Workers with another version than ours are refused, because identical bits are promised for equal versions
    only."""
    monkeypatch.setattr(cluster, "OUR_VERSIONS", versions() | {"engine": "9.9"})
    message = r"^the worker tcp.* must have engine 9\.9, .* It has 1\."
    with pytest.raises(experiments.ExperimentError, match=message), cluster.executor(local.scheduler_address, []):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("without", ["scheduler", "worker"])
def test_a_scheduler_or_worker_without_the_project_is_one_sentence(tmp_path, without):
    """If a scheduler or worker cannot import the engine, the error names that process and the missing module."""
    file = tmp_path / "scheduler.json"
    commands = {
        "scheduler": ["--host", "127.0.0.1", "--port", "0", "--dashboard-address", ":0"],
        "worker": ["--nworkers", "1", "--nthreads", "1", "--no-dashboard"],
    }
    started = []
    try:
        for name, options in commands.items():
            command = [sys.executable, "-m", f"distributed.cli.dask_{name}", "--scheduler-file", str(file), *options]
            environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
            environment |= {} if name == without else {"PYTHONPATH": str(ROOT)}
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            started.append(subprocess.Popen(command, cwd=tmp_path, env=environment, **quiet))
            while not (file.exists() and file.read_text().endswith("}")):
                assert started[0].poll() is None
                time.sleep(0.05)
        address = json.loads(file.read_text())["address"]
        message = rf"^the {without} .* needs this project installed.*: .*No module named 'oal_engine'.*\.$"
        with pytest.raises(experiments.ExperimentError, match=message), cluster.executor(address, []):
            pass
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("tcp://127.0.0.1:1", "^no Dask scheduler answers at tcp://127.0.0.1:1: "),
        ("tls://nowhere:1", "^tls://nowhere:1 needs a certificate"),
        ("nowhere", "^a Dask scheduler must be at tcp://HOST:PORT or tls://HOST:PORT. Got nowhere.$"),
    ],
)
def test_a_scheduler_that_is_not_there(address, message, monkeypatch):
    """If an address is invalid, needs a certificate, or no scheduler answers there, a one-line error names it."""
    monkeypatch.setattr(cluster, "TIMEOUT_SECONDS", 0.5)
    with pytest.raises(experiments.ExperimentError, match=message) as error, cluster.executor(address, []):
        pass
    assert "\n" not in str(error.value)
