"""The examples of the documentation run: each command of a page in its order, over small files made for it."""

import json
import lzma
import os
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.harness import ROOT
from tests.harness.documents import NAMES, commands
from tests.harness.examples import answer, topics, write_embedding
from tests.harness.files import OHSUMED

pytestmark = pytest.mark.slow
ITEMS = 240
NOT_RUN = {  # words of a command, and what it needs
    "data/compare.toml": "minutes: its specification is read by tests/experiments/test_specifications.py",
    "DATA": "hours, over the data of a paper: tests/experiments/test_report.py draws these figures",
    **dict.fromkeys(("fractions", "ratios", "budgets", "surface", "speed"), "what a comparison over DATA gave"),
    "tcp://10.0.0.5:8786": "a cluster: tests/experiments/test_dask.py starts one",
    "tls://10.0.0.5:8786": "a cluster: tests/experiments/test_dask.py starts one",
    "/data/backup": "a container: tests/house/test_container.py starts it where there is an engine",
    "studio.backups/2026-11-22T14-00-00Z-17": "a backup of that time: test_kept_backups.py restores others",
}
OWN_DATABASE = ("import", "restore")  # what they make must not be there yet
SHOWN = [name for name in NAMES if any(commands(name))]


def lines(*columns):
    """Lines of cells, as CSV."""
    return "".join(",".join(map(str, row)) + "\n" for row in zip(*columns))


def write_files(folder):
    """Small files under the names, and with the columns, that the documentation uses."""
    texts, rng = topics(ITEMS), np.random.default_rng(0)
    rare = [int(k % 3 == 0) for k in range(ITEMS)]
    several = ["exercise|food" if each else "food" for each in rare]
    vectors = rng.normal(size=(ITEMS, 8))
    happy = lines(["moment", *texts], ["concept", *rare], ["concepts", *several])
    (folder / "moments.csv").write_text(happy)
    (folder / "moments.csv.xz").write_bytes(lzma.compress(happy.encode()))
    np.save(folder / "moments.npy", vectors)
    parquet.write_table(
        pa.table({"moment": texts, "concept": rare, "embedding": vectors.tolist()}), folder / "moments.parquet"
    )
    papers = (
        ["title", *texts],
        ["abstract", *texts],
        ["included", *rare],
        ["year", *range(ITEMS)],
        ["doi", *range(ITEMS)],
    )
    (folder / "papers.csv").write_text(lines(*papers))
    later = lines(["moment", "goal on a new day"], ["concept", 1], ["concepts", "exercise"])
    for name in ("more.csv", "new.csv"):
        (folder / name).write_text(later)
    (folder / "more.csv.xz").write_bytes(lzma.compress(later.encode()))
    feed = {"moment": "bread on another day", "concept": 0, "concepts": "food"}
    (folder / "feed.jsonl").write_text(json.dumps(feed) + "\n")
    messages = "".join(f"{'spam' if each else 'ham'}\t{text}\n" for each, text in zip(rare, texts))
    (folder / "messages.tsv").write_text(f"c1\tc2\n{messages}")
    np.savez(folder / "vectors.npz", X=vectors, y=np.array(rare))
    letters = ["QXYZ"[k % 4] for k in range(ITEMS)]
    (folder / "letters.csv").write_text(lines(["a", *vectors[:, 0]], ["b", *vectors[:, 1]], ["letter", *letters]))
    german = (f"{2 * y - 1:+d} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(x)) for y, x in zip(rare, vectors))
    (folder / "german.libsvm").write_text("\n".join(german) + "\n")
    orders = (" ".join(map(str, 1 + rng.permutation(ITEMS))) for _ in range(2))
    (folder / "german.ID_ALL.txt").write_text("\n".join(orders) + "\n")
    (folder / "ohsumed.87").write_text(OHSUMED)
    (folder / "mtrees2019.bin").write_text("Heart Diseases;C14.280\nAtrial Fibrillation;C14.280.067.198\n")
    for name in ("potion-base-8M", "wordllama"):
        write_embedding(folder / name)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder of the files, with a database that has the data sets, sessions and comparisons of the examples, and
    another with data alone."""
    from oal_engine import experiments
    from oal_engine.datasets import import_file, reading
    from oal_engine.store import Store

    folder = tmp_path_factory.mktemp("examples")
    write_files(folder)
    store, other = Store(folder / "studio.db"), Store(folder / "other.db")
    moments = reading.Columns(("moment",), "concepts", positive=("exercise",), contains=True)
    happy, _ = (import_file(each, folder / "moments.csv", "happy", moments)[0] for each in (store, other))
    import_file(store, folder / "moments.csv", "tweets", moments)
    import_file(store, folder / "letters.csv", "letters", reading.Columns(label="letter", multiclass=True))
    for _ in range(3):
        answer(store, happy, budget=20)
    spec = experiments.specification({"data": ["happy"], "algorithms": {"PAA-I": {}, "OAAL": {}}, "budgets": [20]})
    experiments.compare(spec, store, "papers")
    store.close()
    other.close()
    return folder


@pytest.mark.parametrize("name", SHOWN)
def test_its_examples_run(name, prepared, tmp_path, command, monkeypatch):
    """Each command ends with exit code 0, unless NOT_RUN says what it needs."""
    folder = tmp_path / "here"
    shutil.copytree(prepared, folder)
    monkeypatch.chdir(folder)
    for number, (before, words) in enumerate(commands(name)):
        if NOT_RUN.keys() & {*words}:
            continue
        own = f"{number}.db" if words[0] in OWN_DATABASE else "studio.db"
        monkeypatch.setenv("OAL_DB", str(folder / own))
        if before:
            with open(before.removeprefix("tail -f ").removesuffix(" | ")) as feed:
                program = [sys.executable, "-m", "oal_engine", *words]
                found = os.environ | {"PYTHONPATH": str(ROOT)}
                done = subprocess.run(program, stdin=feed, env=found, capture_output=True, text=True)
            code, errors = done.returncode, done.stderr
        else:
            code, _, errors = command(*words)
        assert 0 == code, f"{words}: {errors}"


def test_what_is_not_run_is_shown():
    """Each reason belongs to a command of some page."""
    shown = {word for name in SHOWN for _, words in commands(name) for word in words}
    assert NOT_RUN.keys() <= shown
