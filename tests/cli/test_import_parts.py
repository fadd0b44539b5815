"""`import --parts`: workers read the files of a folder, and the data set equals an import of the folder to the bit."""

import json
import os
import signal
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import count
from multiprocessing import get_context

import pyarrow as pa
import pytest
from pyarrow import parquet

from oal_engine import datasets
from oal_engine.datasets import parts
from oal_engine.datasets.features import vectorizer
from oal_engine.datasets.parts import Parts, first_parts, parts_of
from oal_engine.store import Store
from tests.harness.examples import topics

PARTS, ITEMS = 4, 300
TABLES = "items", "vocabulary", "details", "firsts", "beginnings", "batches"


def written(folder, suffix, ids=True):
    """Write a folder of part files, one of them short and one with an empty text, and two marker files."""
    folder.mkdir()
    texts = topics(ITEMS * PARTS)
    for k in range(PARTS):
        own = texts[k * ITEMS : (k + 1) * ITEMS] if k < PARTS - 1 else texts[-3:]
        rows = {"text": own, "label": [f"{'abc'[(j + k) % 3]}" for j in range(len(own))], "year": [2000 + k] * len(own)}
        rows |= {"id": [f"{k}-{j}" for j in range(len(own))]} if ids else {}
        rows["text"][2] = "" if k == 1 else "two\nlines, été 🙂"
        lines = [dict(zip(rows, cells)) for cells in zip(*rows.values())]
        path = folder / f"part-{9 + k}.{suffix}"
        if suffix == "parquet":
            parquet.write_table(pa.table(rows), path)
        elif suffix == "jsonl":
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        else:
            header = ",".join(rows)
            path.write_text(
                header + "\n" + "".join(",".join(f'"{cell}"' for cell in line.values()) + "\n" for line in lines)
            )
    (folder / "_SUCCESS").touch()
    (folder / ".part.crc").write_bytes(b"\0")
    return folder


def stored(store, name):
    """Return everything that is stored about a data set, except its id, name, folder and times."""
    record = store.dataset(name)
    rows = [store.query(f"SELECT * FROM {table} WHERE dataset = ?", record["id"]) for table in TABLES]
    files = {path.name: path.read_bytes() for path in store.rows_folder(record["folder"]).iterdir()}
    own = {"id", "dataset", "name", "folder", "created_at"}
    kept = {key: value for key, value in record.items() if key not in own}
    return (
        kept,
        [[{key: row[key] for key in row.keys() - {"dataset", "added_at"}} for row in each] for each in rows],
        files,
    )


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("features", ["words", "rich+latent"])
def test_the_data_set_has_the_bits_of_one_machine(ok, tmp_path, monkeypatch, suffix, features):
    """With --parts, rows, vocabulary, ids, texts, labels, details, near-duplicates and checksums equal an import of the
    whole folder at once, and so does the report of the command."""
    monkeypatch.setattr(parts, "SHOWN_BYTES", 1)  # the columns are guessed from two parts
    written(tmp_path / "tweets", suffix)
    options = "tweets", "--multiclass", "--features", features, "--json"
    alone = ok("import", *options, "--name", "alone")
    together = ok("import", *options, "--name", "together", "--parts", "--workers", "2")
    store = Store(read_only=True)
    assert stored(store, "alone") == stored(store, "together")
    assert "_SUCCESS" in alone["read"].pop("ignored")
    assert alone["read"] == together["read"]
    assert alone["skipped"] == together["skipped"] != []


@pytest.mark.parametrize("ids", ["none", "repeated"])
def test_lines_are_numbered_over_all_parts(ok, tmp_path, ids):
    """With --parts, items without ids, or with ids that repeat in another part, get the line numbers that an import of
    the whole folder gives."""
    folder = written(tmp_path / "tweets", "jsonl", ids=ids == "repeated")
    if ids == "repeated":
        path = folder / "part-11.jsonl"
        path.write_text(path.read_text().replace('"2-5"', '"0-5"'))
    ok("import", "tweets", "--name", "alone", "--label", "")
    ok("import", "tweets", "--name", "together", "--label", "", "--parts", "--workers", "2")
    store = Store(read_only=True)
    assert stored(store, "alone") == stored(store, "together")
    assert "1" == store.item(store.dataset("together")["id"], 0)["id"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda path: path.write_text('{"words": "a"}\n'),
            "part-11.jsonl: a part must be a table with the columns text, ",
        ),
        (
            lambda path: path.write_text(""),
            "part-11.jsonl: a part must be a table with the columns text, label, year, id. Got jsonl with none.",
        ),
        (lambda path: path.write_bytes(b"PAR1 no"), "part-11.jsonl: part-11.jsonl cannot be read: "),
        (
            lambda path: path.with_suffix(".txt").write_text("one text\n"),
            "part-11.txt: a part must be a table with the columns text, ",
        ),
    ],
)
def test_a_wrong_part_is_named(run, tmp_path, monkeypatch, change, message):
    """A part that cannot be read, or is not a table with the columns of the others, stops the import. The error names
    the part, and nothing is stored."""
    monkeypatch.setattr(parts, "SHOWN_BYTES", 1)
    change(written(tmp_path / "tweets", "jsonl") / "part-11.jsonl")
    code, _, error = run("import", "tweets", "--name", "a", "--label", "", "--parts", "--workers", "1")
    assert (1, 1) == (code, error.count("\n"))
    assert message in error
    assert not Store().datasets()
    assert [] == [*Store().folder.glob("*")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--parts", "--near-duplicates", "once"), "--parts reads each file alone: leave out --near-duplicates once."),
        (("--parts", "--scale", "standardize+l2"), "--parts reads each file alone: leave out --scale standardize+l2."),
        (("--parts", "--feature", "year"), "--parts is for texts without numbers"),
        (
            ("--parts", "--text", "text", "--id", "year"),
            "With --parts ids must differ. 898 of column 'year' repeat, first at line 2 of all parts",
        ),
        (("--processes",), "--workers, --processes and --scheduler are for --parts."),
    ],
)
def test_options_that_do_not_fit_stop(run, tmp_path, options, message):
    """With --parts, options that need all items at once are refused. Without it, options for workers are refused."""
    written(tmp_path / "tweets", "jsonl")
    code, _, error = run("import", "tweets", "--name", "a", "--label", "", *options)
    assert (1, 1) == (code, error.count("\n"))
    assert message in error


def test_parts_are_files_of_one_folder(run, tmp_path):
    """--parts refuses a file, a folder of one file, and a folder that contains another folder."""
    folder = written(tmp_path / "tweets", "jsonl")
    command = "--name", "a", "--label", "", "--parts"
    assert (1, "", "error: --parts needs one folder.\n") == run("import", "tweets/part-9.jsonl", *command)
    (folder / "more").mkdir()
    message = "error: --parts reads the files of one folder. tweets also holds the folder more.\n"
    assert (1, "", message) == run("import", "tweets", *command)
    (folder / "more" / "only.jsonl").write_text('{"text": "a"}\n')
    assert (1, "", "error: --parts needs a folder of at least 2 files. Got 1.\n") == run(
        "import", "tweets/more", *command
    )


def die_at(call):
    """Make this process kill itself at call number `call` (from 0) of `count_all`, which counts the terms of a part."""
    calls, count_all = count(), vectorizer.count_all

    def counted(*arguments):
        if next(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return count_all(*arguments)

    vectorizer.count_all = counted


@pytest.mark.slow
@pytest.mark.parametrize("call", [2, PARTS + 2], ids=["while it reads", "while it makes rows"])
def test_a_killed_worker_leaves_nothing_behind(db, tmp_path, call):
    """If a worker is killed, the import leaves no files and its error is one sentence. The same import then
    succeeds."""
    store, paths = Store(db), parts_of(written(tmp_path / "tweets", "parquet"))
    request = datasets.ImportRequest(features="words")

    def import_parts(executor):
        with first_parts(paths) as first, executor:
            datasets.import_file(
                store, first, "a", datasets.reading.Columns(("text",)), request, parts=Parts(paths, executor)
            )

    with pytest.raises(
        ValueError, match=r"^a worker ended, perhaps for want of memory\. Run the same command again\.$"
    ):
        import_parts(ProcessPoolExecutor(1, get_context("spawn"), die_at, (call,)))
    assert [] == [*store.folder.glob("*")]
    import_parts(ThreadPoolExecutor(1))
    assert ["a"] == [each["name"] for each in store.datasets()]


@pytest.mark.slow
def test_a_killed_worker_of_a_cluster_changes_nothing(ok, tmp_path):
    """When one of two workers is killed, its parts are read by the other, with the same bits."""
    distributed = pytest.importorskip("distributed", reason="needs Dask: pip install -r requirements-dask.txt")
    written(tmp_path / "tweets", "csv")
    options = "import", "tweets", "--label", "", "--name"
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=60) as local,
        distributed.Client(local.scheduler_address, set_as_default=False) as client,
    ):
        os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
        ok(*options, "together", "--parts", "--scheduler", local.scheduler_address)
    ok(*options, "alone")
    store = Store(read_only=True)
    assert stored(store, "alone") == stored(store, "together")
