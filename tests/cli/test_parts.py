"""`predict --parts`: every file of a folder is predicted by a worker, as if it were predicted alone."""

import os
import signal
from pathlib import Path

import pytest

from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store
from tests.harness.examples import topics
from tests.harness.sessions import label_until_the_end

PARTS = 5
PREDICT = ("predict", "parts", "--model", "model.json.gz", "--parts", "--out", "predicted")


@pytest.fixture
def parts(ok, tmp_path):
    """A folder of files of texts, and a model that can predict them."""
    texts = topics(60)
    (tmp_path / "a.csv").write_text("text,label\n" + "".join(f"{text},{k % 2}\n" for k, text in enumerate(texts)))
    ok("import", "a.csv", "--name", "a", "--features", "rich")
    label_until_the_end(Session(store := Store(), create(store, "a", "PAA-I", budget=20)))
    ok("export", "1", "--what", "model", "--out", "model.json.gz")
    folder = tmp_path / "parts"
    folder.mkdir()
    for k in range(PARTS):
        lines = "".join(f"{k}-{j},{text}\n" for j, text in enumerate(texts[k : k + 30]))
        (folder / f"part-{k}.csv").write_text(f"id,text\n{lines}")
    (folder / "_SUCCESS").touch()
    return folder


@pytest.mark.parametrize("how", [(), pytest.param(("--processes", "--workers", "2"), marks=pytest.mark.slow)])
def test_each_file_has_the_bytes_of_its_own_prediction(ok, parts, how):
    """Threads and processes write the files that `predict` writes for each part alone, and nothing else."""
    ok(*PREDICT, *how)
    for part in parts.glob("*.csv"):
        ok("predict", str(part), "--model", "model.json.gz", "--out", "alone.parquet")
        assert Path("alone.parquet").read_bytes() == Path("predicted", f"{part.stem}.parquet").read_bytes()
    assert {*(f"part-{k}.parquet" for k in range(PARTS)), "_predictions.json"} == {*os.listdir("predicted")}


def test_finished_files_are_not_predicted_again(ok, run, parts):
    """If the command is run again, it predicts only the missing files. Another model or other options need another
    output folder."""
    ok(*PREDICT, "--format", "csv")
    before = Path("predicted", "part-1.csv").stat().st_mtime_ns
    Path("predicted", "part-0.csv").unlink()
    assert (0, "", "4 files were predicted before.\n") == run(*PREDICT, "--format", "csv")
    assert before == Path("predicted", "part-1.csv").stat().st_mtime_ns
    assert Path("predicted", "part-0.csv").exists()
    message = "error: predicted must be empty, or hold predictions by the same model and options. It holds others.\n"
    assert (1, "", message) == run(*PREDICT, "--format", "csv", "--texts")
    label_until_the_end(Session(store := Store(), create(store, "a", "PAA-I", budget=5)))
    ok("export", "2", "--what", "model", "--out", "model.json.gz")
    assert (1, "", message) == run(*PREDICT, "--format", "csv")
    for damaged in ("", "[1]"):
        Path("predicted", "_predictions.json").write_text(damaged)
        assert (1, "", message) == run(*PREDICT, "--format", "csv")


def test_a_file_that_changed_is_predicted_again(ok, run, parts):
    """If the command is run again, it predicts files that changed or are new. If it fails on a changed file, the file's
    outdated predictions are removed."""
    ok(*PREDICT, "--format", "csv")
    (parts / "part-1.csv").write_text("id,text\nother,another text\n")
    (parts / "part-9.csv").write_text("id,text\nnew,a new text\n")
    assert (0, "", "4 files were predicted before.\n") == run(*PREDICT, "--format", "csv")
    assert "other" in Path("predicted", "part-1.csv").read_text()
    assert "new" in Path("predicted", "part-9.csv").read_text()
    (parts / "part-1.csv").write_text("")
    assert 1 == run(*PREDICT, "--format", "csv")[0]
    assert not Path("predicted", "part-1.csv").exists()


@pytest.mark.slow
def test_a_file_that_cannot_be_read_is_named(run, parts):
    (parts / "part-9.csv").write_text("")
    code, _, error = run(*PREDICT, "--workers", "1")
    assert code == 1
    assert "part-9.csv: " in error
    assert PARTS + 1 == len(os.listdir("predicted"))


@pytest.mark.slow
def test_a_killed_worker_of_a_cluster_changes_nothing(ok, parts):
    distributed = pytest.importorskip("distributed", reason="needs Dask: pip install .[dask]")
    for k in range(40):
        (parts / f"more-{k}.csv").write_bytes((parts / "part-0.csv").read_bytes())
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=60) as local,
        distributed.Client(local.scheduler_address, set_as_default=False) as client,
    ):
        first = min(client.run(os.getpid).values())
        os.kill(first, signal.SIGKILL)
        ok(*PREDICT, "--scheduler", local.scheduler_address)
    ok(*PREDICT[:-1], "here")
    for path in Path("here").glob("*.parquet"):
        assert path.read_bytes() == Path("predicted", path.name).read_bytes()
