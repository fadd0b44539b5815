"""An import works block by block, with temporary files: its memory does not grow with the number of texts."""

import gzip
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from scipy import sparse

from oal_engine import datasets
from oal_engine.datasets import block_files, feeds, reading, row_files
from oal_engine.datasets.features import vectorizer
from oal_engine.datasets.reading import preview
from oal_engine.kernel import rows
from oal_engine.store import Store
from tests.harness.examples import topics

COUNT = 300
TEXTS = [f"{text} {'same' if k % 9 else f'Own{k}'} naïve 😀 {k % 7}" for k, text in enumerate(topics(COUNT))]
COLUMNS = reading.Columns(("text",), "label", "id")


def table_file(folder, repeated=False):
    """Write a file of texts (some repeat), labels, ids and years. Return its path. repeated: whether ids repeat too."""
    lines = [
        {"id": f"i{k % 250 if repeated else k}", "text": TEXTS[k - k % 40 // 39], "label": k % 3 % 2, "year": 1990 + k}
        for k in range(COUNT)
    ]
    path = folder / "texts.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


def stored(folder, path, columns, **request):
    """Import a file and append the same file. Return everything that is stored, except folder names and times."""
    store = Store(folder / "studio.db")
    dataset, _ = datasets.import_file(store, path, "x", columns, datasets.ImportRequest(**request))
    [*feeds.append_file(datasets.Dataset(store, dataset), path, {"id": None} if columns.guessed else None)]
    rows_folder = store.rows_folder(store.dataset(dataset)["folder"])
    store.close()
    connection = sqlite3.connect(folder / "studio.db")
    connection.execute("UPDATE datasets SET folder = '', created_at = ''")
    connection.execute("UPDATE batches SET added_at = ''")
    connection.execute("UPDATE datasets SET digests = json_remove(digests, '$.batches')")  # covers the time
    lines = [*connection.iterdump()]
    connection.close()
    return {file.name: file.read_bytes() for file in rows_folder.iterdir()} | {"database": lines}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "request_"),
    [
        ({}, {}),
        ({}, {"features": "words", "near_duplicates": "once"}),
        ({}, {"features": "rich", "scale": "none"}),
        ({"guessed": ("id",)}, {"near_duplicates": "once"}),
        ({"multiclass": True}, {"features": "rich"}),
    ],
)
def test_blocks_of_any_size_give_the_same_bits(tmp_path, monkeypatch, changes, request_):
    """Files and database are the same, byte for byte, whether texts are read and counted in one block or in many."""
    path, columns = table_file(tmp_path, repeated=True), reading.Columns(**vars(COLUMNS) | changes)
    whole = stored(tmp_path, path, columns, **request_)
    for name, value in (("BLOCK_CHARACTERS", 900), ("MAX_PARTS", 50)):
        monkeypatch.setattr(vectorizer, name, value)
    for name, value in (("BLOCK_STRINGS", 7), ("BLOCK_CHARACTERS", 200)):
        monkeypatch.setattr(block_files, name, value)
    (tmp_path / "blocks").mkdir()
    assert whole == stored(tmp_path / "blocks", path, columns, **request_)


def test_rows_in_memory_are_those_of_an_import(tmp_path):
    """`table` gives the rows that an import of the same items writes, and an import leaves no temporary files."""
    store, path = Store(tmp_path / "studio.db"), table_file(tmp_path)
    dataset, _ = datasets.import_file(store, path, "x", COLUMNS)
    made, data = datasets.table(reading.read(path, COLUMNS)), datasets.Dataset(store, dataset)
    assert datasets.fingerprint(made.rows, made.y, ()) == datasets.fingerprint(data.rows, data.y, ())
    names = {file.name for file in data.folder.iterdir()}
    assert names == {f"{name}.npy" for name in ("indptr", "indices", "values", "block", "projection", "y")} | {
        row_files.KIND_FILE
    }


def test_strings_in_a_file(tmp_path, monkeypatch):
    """A list of strings in a file can hold None and any text, can be indexed and sliced, and is falsy if empty."""
    monkeypatch.setattr(block_files, "BLOCK_STRINGS", 3)
    values = ["a", None, "", "é😀\0\n", *map(str, range(8))]
    strings = block_files.strings(tmp_path, values)
    assert values == strings == [*strings] == [strings[k] for k in range(len(values))] == strings[:]
    assert strings[2:9:3] == values[2:9:3]
    assert block_files.take(strings, [0, 3, 11]) == block_files.take(values, [0, 3, 11]) == ["a", "é😀\0\n", "7"]
    assert strings != [*values, "b"]
    assert not block_files.strings(tmp_path)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("kind", ["sparse", "dense", "mixed"])
def test_rows_are_written_block_by_block(tmp_path, kind):
    """Blocks of rows give the files that numpy writes for all rows at once, and the same checksums."""
    table = np.random.default_rng(0).normal(size=(9, 4)) * (np.arange(36).reshape(9, 4) % 3 > 0)

    def part(of):
        chosen = rows.as_rows(table[of] if kind == "dense" else sparse.csr_array(table[of]))
        return rows.mixed_rows(chosen, table[of, :2]) if kind == "mixed" else chosen

    whole, parts = part(slice(None)), [part(slice(k, k + 3)) for k in (0, 3, 6)]
    with row_files.RowWriter(tmp_path) as writer:
        for each in parts:
            writer.append(each)
    for name, array in rows.arrays(whole).items():
        np.save(tmp_path / "whole.npy", array)
        assert (tmp_path / "whole.npy").read_bytes() == (tmp_path / f"{name}.npy").read_bytes()
        assert np.array_equal(array, getattr(rows.joined(parts), name))
    assert writer.checksums == row_files.checksums(rows.arrays(whole))
    assert rows.length(row_files.load(tmp_path, 9)) == writer.items == 9


@pytest.mark.parametrize(
    ("name", "count", "sentence"),
    [
        ("x.txt", 99, ""),
        ("x.txt", 100, "x.txt has 100 lines; the import takes less than half a minute."),
        ("x.csv.gz", 4000, "x.csv.gz has 4,000 lines; the import takes about 4 minutes."),
        ("x.parquet", 1500, "x.parquet has 1,500 rows; the import takes about 2 minutes."),
        ("x.npy", 1000, ""),
    ],
)
def test_a_large_file_is_counted_before_its_import(tmp_path, monkeypatch, name, count, sentence):
    monkeypatch.setattr(preview, "LARGE_COUNT", 100)
    monkeypatch.setattr(preview, "LINES_PER_MINUTE", 1000)
    path, lines = tmp_path / name, "a text,1\n" * count
    match path.suffix:
        case ".parquet":
            parquet.write_table(pyarrow.table({"text": ["a text"] * count}), path)
        case ".npy":
            np.save(path, np.ones((count, 2)))
        case ".gz":
            path.write_bytes(gzip.compress(lines.encode()))
        case _:
            path.write_text(lines)
    assert sentence == reading.size_sentence(path)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_texts(tmp_path):
    """Four times as many texts raise peak memory by less than 25 MB. Their ids, texts and rows would take 100 MB."""
    measure = dedent("""
        import sys
        from pathlib import Path
        from oal_engine import datasets
        from oal_engine.datasets.features import vectorizer
        from oal_engine.store import Store

        vectorizer.BLOCK_CHARACTERS = 2**18

        def peak():
            return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) // 1024

        store, peaks = Store(Path(sys.argv[1]) / "studio.db"), []
        for count in (40_000, 160_000):
            path = Path(sys.argv[1]) / f"{count}.txt"
            texts = (f"{k % 97} some words that {k % 1009} texts of {k % 211} have" for k in range(count))
            path.write_text("\\n".join(texts))
            datasets.import_file(store, path, str(count), None, datasets.ImportRequest(features="words"))
            peaks.append(peak())
        print(peaks[1] - peaks[0])
    """)
    arguments = [sys.executable, "-c", measure, str(tmp_path)]
    folder = Path(__file__).parents[2]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 25
