"""The examples of the documentation run: each command of a page, in order, on small files made for the examples."""

import doctest
import io
import json
import lzma
import os
import shutil
import subprocess
import sys
from importlib import import_module

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from oal_engine import Studio, experiments
from oal_engine.datasets import import_file, reading
from oal_engine.store import Store
from tests.harness import ROOT
from tests.harness.documents import NAMES, commands
from tests.harness.examples import answer, topics, write_embedding
from tests.harness.files import OHSUMED

ITEMS = 240
NOT_RUN = {  # a word of a command, and why the command is not run
    "data/compare.toml": "minutes: its specification is read by tests/experiments/test_specifications.py",
    "DATA": "hours, over the data of a paper: tests/experiments/test_report.py draws these figures",
    **dict.fromkeys(
        ("fractions", "ratios", "budgets", "weights", "rates", "surface", "speed"),
        "the result of a comparison over DATA",
    ),
    "tcp://10.0.0.5:8786": "a cluster: tests/experiments/test_dask.py starts one",
    "tls://10.0.0.5:8786": "a cluster: tests/experiments/test_dask.py starts one",
    "/data/backup": "a container: tests/house/test_deploying.py starts it where there is an engine",
    "studio.backups/2026-11-22T14-00-00Z-17.tar": "a backup of that time: test_kept_backups.py restores others",
}
OWN_DATABASE = ("import", "restore")  # commands that make a data set or a database, which must not exist yet
DAYS = {"km": [5, 0, 3, 0, 4, 0], "loaves": [0, 2, 0, 1, 0, 1]}
WITH_EXAMPLES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "oal_engine").rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]
PAGES = [name for name in NAMES if any(commands(name))]


def csv(*columns):
    """Join columns of cells into CSV text. Each column begins with its heading."""
    return "".join(",".join(map(str, row)) + "\n" for row in zip(*columns))


def write_files(folder):
    """Write small files with the names and columns that the documentation uses."""
    texts, rng = topics(ITEMS), np.random.default_rng(0)
    vectors, numbers = rng.normal(size=(ITEMS, 8)), range(ITEMS)
    rare = [int(k % 3 == 0) for k in numbers]
    several = ["exercise|food" if each else "food" for each in rare]
    moments = csv(["moment", *texts], ["concept", *rare], ["concepts", *several])
    more = csv(["moment", "goal on a new day"], ["concept", 1], ["concepts", "exercise"])
    rows = (" ".join(f"{j}:{value}" for j, value in enumerate(row, 1)) for row in vectors)
    files = {
        "moments.csv": moments,
        "moments.csv.xz": lzma.compress(moments.encode()),
        "more.csv": more,
        "more.csv.xz": lzma.compress(more.encode()),
        "new.csv": more,
        "part-1.csv": moments,
        "part-2.csv": moments,
        "feed.jsonl": json.dumps({"moment": "bread on another day", "concept": 0, "concepts": "food"}) + "\n",
        "posts.csv": csv(["text", *texts], ["topics", *("sport|food" if each else "travel" for each in rare)]),
        "reviewed.csv": csv(["text", *texts], ["label", *rare], ["llm", *(("no", "yes")[each] for each in rare)]),
        "papers.csv": csv(["title", *texts], ["abstract", *texts], ["included", *rare], ["year", *numbers],
                          ["doi", *numbers]),
        "papers.ris": "".join(f"TY  - JOUR\nTI  - {text}\nAB  - {text}\nER  -\n" for text in texts),
        "messages.tsv": "c1\tc2\n" + "".join(f"{('ham', 'spam')[y]}\t{text}\n" for y, text in zip(rare, texts)),
        "letters.csv": csv(["a", *vectors[:, 0]], ["b", *vectors[:, 1]], ["letter", *("QXYZ"[k % 4] for k in numbers)]),
        "german.libsvm": "".join(f"{2 * y - 1:+d} {row}\n" for y, row in zip(rare, rows)),
        "german.ID_ALL.txt": "".join(" ".join(map(str, 1 + rng.permutation(ITEMS))) + "\n" for _ in range(2)),
        "ohsumed.87": OHSUMED,
        "mtrees2019.bin": "Heart Diseases;C14.280\nAtrial Fibrillation;C14.280.067.198\n",
    }  # fmt: skip
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    np.save(folder / "moments.npy", vectors)
    np.savez(folder / "vectors.npz", X=vectors, y=np.array(rare))
    table = pa.table({"moment": texts, "concept": rare, "embedding": vectors.tolist()})
    parquet.write_table(table, folder / "moments.parquet")
    (folder / "tweets").mkdir()
    for k in (1, 2):
        parquet.write_table(table, folder / "tweets" / f"part-{k}.parquet")
    for k, (text, label) in enumerate(zip(texts, rare)):
        path = folder / "reviews" / ("neg", "pos")[label] / f"{k}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.make_archive(str(folder / "reviews"), "zip", folder / "reviews")
    for name in ("potion-base-8M", "wordllama"):
        write_embedding(folder / name)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """The folder in which the examples run. It has their files, a database with their data sets, sessions and
    comparison, and a second database with only a data set."""
    folder = tmp_path_factory.mktemp("examples")
    write_files(folder)
    store, other = Store(folder / "studio.db"), Store(folder / "other.db")
    moments = reading.Columns(("moment",), "concepts", positive=("exercise",), contains=True)
    happy, _ = (import_file(each, folder / "moments.csv", "happy", moments)[0] for each in (store, other))
    import_file(store, folder / "moments.csv", "tweets", moments)
    import_file(store, folder / "letters.csv", "letters", reading.Columns(label="letter", multiclass=True))
    posts = reading.Columns(("text",), "topics", positive=("sport",), contains=True)
    import_file(store, folder / "posts.csv", "posts", posts)
    for _ in range(3):
        session = answer(store, happy, budget=20)
    Studio(folder / "studio.db").session(session).export(folder / "model.json.gz", "model")
    spec = experiments.specification({"data": ["happy"], "algorithms": {"PAA-I": {}, "OAAL": {}}, "budgets": [20]})
    experiments.compare(spec, store, "papers")
    store.close()
    other.close()
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_its_examples_run(name, prepared, tmp_path, command, monkeypatch):
    """Each command of a page ends with exit code 0, unless NOT_RUN gives a reason not to run it."""
    folder = tmp_path / "here"
    shutil.copytree(prepared, folder)
    monkeypatch.chdir(folder)
    for number, (before, words) in enumerate(commands(name)):
        if NOT_RUN.keys() & {*words}:
            continue
        own = f"{number}.db" if words[0] in OWN_DATABASE else "studio.db"
        monkeypatch.setenv("OAL_DB", str(folder / own))
        monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))  # a command that asks is told to stop
        if before:
            program = [sys.executable, "-m", "oal_engine", *words]
            environment = os.environ | {"PYTHONPATH": str(ROOT)}
            with open(before.removeprefix("tail -f ").removesuffix(" | ")) as feed:
                done = subprocess.run(program, stdin=feed, env=environment, capture_output=True, text=True)
            code, errors = done.returncode, done.stderr
        else:
            code, _, errors = command(*words)
        assert 0 == code, f"{words}: {errors}"


@pytest.fixture
def session(tmp_path, monkeypatch):
    """An open session over labeled days, in whose folder is the model of another session, whose questions all have an
    answer."""
    monkeypatch.chdir(tmp_path)
    studio = Studio("studio.db")
    studio.add(DAYS, "days", ["sport", "other"] * 3, positive="sport")
    opened, other = (studio.new_session("days", "PA", 4, positive_name="sport", negative_name="other") for _ in "12")
    for question in other:
        other.answer(question, "sport" if question.item["km"] else "other")
    other.export("model.json.gz", "model")
    return studio, opened


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_docstrings_run(name, session):
    """Each example in a docstring of the engine prints what it says. `studio` and `session` are open where one uses
    them."""
    studio, opened = session
    told = doctest.testmod(import_module(name), extraglobs={"studio": studio, "session": opened}, report=True)
    assert told.failed == 0 < told.attempted


def test_the_commands_that_are_not_run_are_on_a_page():
    assert NOT_RUN.keys() <= {word for name in PAGES for _, words in commands(name) for word in words}
