"""Texts get vectors from static token embeddings by a formula, and the embedding's folder is not needed after the
import."""

import json
import os
import re
import shutil
import sys
from collections import Counter
from math import log
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from oal_engine import datasets
from oal_engine.datasets import Dataset, feeds, reading
from oal_engine.datasets.features import embeddings, text_vectors
from oal_engine.kernel import rows
from oal_engine.store import Store
from tests.harness.examples import topics, write_embedding

pytest.importorskip("tokenizers", reason="needs tokenizers: pip install .[embed]")
numpy_tensors = pytest.importorskip("safetensors.numpy", reason="needs safetensors: pip install .[embed]")

TEXTS = topics(60)
COLUMNS = reading.Columns(("text",), "label")


@pytest.fixture
def folder(tmp_path):
    write_embedding(tmp_path / "tiny")
    return tmp_path / "tiny"


def naive(texts, vectors):
    """Compute the vectors of texts by their formula, one word at a time."""
    split = [[word for word in text.split() if word in vectors and word != "[UNK]"] for text in texts]
    came = Counter(word for words in split for word in words)
    share = {word: count / came.total() for word, count in came.items()}
    return np.array(
        [
            sum(
                (
                    1e-3 / (1e-3 + share[word]) * (1 + log(count)) * vectors[word]
                    for word, count in Counter(words).items()
                ),
                np.zeros(8),
            )
            for words in split
        ]
    )


def test_vectors_are_those_of_the_formula(tmp_path):
    """A text's vector is the sum of its distinct tokens' vectors, each times its weight w and 1 + ln count; unknown
    words add nothing."""
    vectors, texts = write_embedding(tmp_path / "tiny"), [*TEXTS, "goal goal goal match", "qwertz", ""]
    fitted, made = embeddings.read(tmp_path / "tiny").fit(texts)
    np.testing.assert_allclose(made, naive(texts, vectors), rtol=1e-5, atol=1e-6)
    assert np.array_equal(made, fitted.vectors(texts))
    assert np.array_equal(made[7:8], fitted.vectors(texts[7:8]))
    assert (0, 8) == fitted.vectors([]).shape


def test_the_bits_are_those_of_every_machine(folder):
    _, made = embeddings.read(folder).fit(TEXTS)
    columns = text_vectors.columns(text_vectors.fit(made), made)
    assert (1605959192, 1927255009) == (crc32(made), crc32(columns))


def test_tokens_may_share_vectors_with_weights(tmp_path):
    size = len(write_embedding(tmp_path / "plain"))
    mapping, weights = np.arange(size)[::-1].copy(), np.linspace(0, 2, size)
    write_embedding(tmp_path / "mapped", mapping=mapping, weights=weights)
    plain, mapped = (embeddings.read(tmp_path / name).table for name in ("plain", "mapped"))
    np.testing.assert_allclose(mapped, plain[mapping].astype(float) * weights[:, None], rtol=1e-6)


def test_files_of_wordllama_are_found(folder, tmp_path):
    """The table and the tokenizer of an embedding are also found in two subfolders, named as in WordLlama."""
    for name in ("weights", "tokenizers"):
        (tmp_path / "llama" / name).mkdir(parents=True)
    shutil.copy(folder / "tokenizer.json", tmp_path / "llama" / "tokenizers" / "l2_tokenizer_config.json")
    table = numpy_tensors.load_file(folder / "model.safetensors")["embeddings"]
    numpy_tensors.save_file({"embedding.weight": table}, tmp_path / "llama" / "weights" / "l2.safetensors")
    found = embeddings.read(tmp_path / "llama")
    assert ("llama", embeddings.read(folder).checksum) == (found.name, found.checksum)


def test_folders_without_an_embedding(folder, tmp_path, monkeypatch):
    """The error for a folder without a valid embedding names the missing or wrong file, or missing packages."""

    def refused(message):
        with pytest.raises(reading.DataError, match=re.escape(message)):
            embeddings.read(folder)

    with pytest.raises(reading.DataError, match=r"embeddings must be a folder\. Got .*nowhere\."):
        embeddings.read(tmp_path / "nowhere")
    table = numpy_tensors.load_file(folder / "model.safetensors")["embeddings"]
    numpy_tensors.save_file({"embeddings": table[1:]}, folder / "model.safetensors")
    refused("model.safetensors must have a finite vector for each of the 37 tokens. Got 36.")
    numpy_tensors.save_file({"other": table}, folder / "model.safetensors")
    refused("model.safetensors must have one table of numbers, embeddings or embedding.weight. Got 'other'.")
    (folder / "model.safetensors").write_bytes(b"x")
    refused("model.safetensors cannot be read: ")
    write_embedding(folder)
    (folder / "tokenizer.json").write_text("{}")
    refused("tokenizer.json cannot be read: ")
    (folder / "tokenizer.json").unlink()
    refused("tiny must have one file *tokenizer*.json, or tokenizer.json. Got none.")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    refused("embeddings need the packages safetensors and tokenizers: pip install safetensors tokenizers.")


G, N = np.ones((37, 8), np.float32), 37  # a table of vectors, and its number of tokens


def tensors(**made):
    """Return a function that replaces the table in an embedding's folder with these tensors."""
    return lambda folder: numpy_tensors.save_file(made, folder / "model.safetensors")


def tokenizer(**parts):
    """Return a function that replaces these parts of the tokenizer in an embedding's folder."""

    def change(folder):
        path = folder / "tokenizer.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | parts))

    return change


def other(name, make):
    """Return a function that replaces the file `name` in an embedding's folder. make: function that writes the file at
    a path."""

    def change(folder):
        (folder / name).unlink()
        make(folder / name)

    return change


def sparse_file(path):
    with path.open("wb") as file:
        file.truncate(2**40)


BPE = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [["a", "b"]]}  # its merge makes the library panic
HOSTILE = {
    "two tables": (tensors(**{"embeddings": G, "embedding.weight": G}), "must have one table of numbers"),
    "no numbers": (tensors(embeddings=G > 0), "must have one table of numbers"),
    "many names": (tensors(**{f"t\n{k}": G[0] for k in range(999)}), r"Got 't\\n0', .* and 994 more"),
    "mapping of fractions": (tensors(embeddings=G, mapping=np.zeros(N)), "must have a mapping to its 37 vectors"),
    "mapping beyond": (tensors(embeddings=G, mapping=np.full(N, 37)), "must have a mapping to its 37 vectors"),
    "mapping before": (tensors(embeddings=G, mapping=np.full(N, -1)), "must have a mapping to its 37 vectors"),
    "mapping of pairs": (tensors(embeddings=G, mapping=np.zeros((N, 2), int)), "must have a mapping to its"),
    "mapping of flags": (tensors(embeddings=G, mapping=np.ones(3, bool)), "must have a mapping to its 37 vectors"),
    "large mapping": (tensors(embeddings=np.ones((1, 20_000), np.float32), mapping=np.zeros(10**5, np.uint8)),
                      "must have at most 536,870,912 numbers"),
    "few weights": (tensors(embeddings=G, weights=np.ones(3)), "must have a weight for each of the 37 tokens"),
    "wide weights": (tensors(embeddings=G, weights=G), "must have a weight for each of the 37 tokens"),
    "huge weights": (tensors(embeddings=G, weights=np.full(N, 1e300)), "must have finite numbers"),
    "huge numbers": (tensors(embeddings=np.full((N, 8), 1e300)), "must have finite numbers"),
    "a pipe for the table": (other("model.safetensors", os.mkfifo), "model.safetensors is a pipe, not a file"),
    "a pipe for the tokenizer": (other("tokenizer.json", os.mkfifo), "tokenizer.json is a pipe, not a file"),
    "a folder": (other("tokenizer.json", Path.mkdir), "tokenizer.json is a folder, not a file"),
    "a device": (other("tokenizer.json", lambda path: path.symlink_to("/dev/zero")), "is a device, not a file"),
    "a link to itself": (other("tokenizer.json", lambda path: path.symlink_to(path)), "cannot be opened: Too many"),
    "a link to nothing": (other("model.safetensors", lambda path: path.symlink_to("x")), "cannot be opened: No such"),
    "a large table": (other("model.safetensors", sparse_file), "must have at most 2,147,483,648 bytes"),
    "a large tokenizer": (other("tokenizer.json", sparse_file), "must have at most 134,217,728 bytes"),
    "a panic": (tokenizer(model=BPE), "tokenizer.json cannot be read: range end index 2"),
    "a panic over texts": (tokenizer(pre_tokenizer={"type": "FixedLength", "length": 0}), "tokenizer of tiny cannot"),
    "no unknown": (tokenizer(model={"type": "WordLevel", "unk_token": "?", "vocab": {"goal": 0}}), "Missing"),
    "far tokens": (tokenizer(model={"type": "WordLevel", "unk_token": "a", "vocab": {"a": 10**9}}), "1,000,000,001"),
}  # fmt: skip


@pytest.mark.parametrize("change", HOSTILE)
def test_a_hostile_folder_is_refused_in_a_sentence(folder, change):
    """An embedding with damaged, wrong or endless files gives a one-sentence error, and neither a hang nor a crash."""
    damage, message = HOSTILE[change]
    damage(folder)
    with pytest.raises(reading.DataError, match=message) as refused:
        embeddings.read(folder).fit(TEXTS)
    assert re.fullmatch(r"[^\n]{1,300}\.", str(refused.value))


@pytest.fixture
def kept(tmp_path, folder):
    """A data set of the first 40 texts, imported with an embedding whose folder was then deleted."""
    path = tmp_path / "texts.jsonl"
    path.write_text(
        "".join(json.dumps({"text": text, "label": int(k % 3 == 0)}) + "\n" for k, text in enumerate(TEXTS))
    )
    embedding, items = embeddings.read(folder), reading.read(path, COLUMNS)
    first = items.take(np.arange(40))
    store = Store(tmp_path / "studio.db")
    made = datasets.table(first, encoder=embedding)
    dataset = Dataset(store, datasets.add(store, "texts", made, path, COLUMNS))
    assert rows.content(made.transform(["goal"]), 0) == rows.content(dataset.transform(["goal"]), 0)
    shutil.rmtree(folder)
    yield dataset
    store.close()


def test_later_texts_need_no_folder(kept, tmp_path):
    """After the embedding's folder was deleted, `transform` still gives the stored rows, texts can be appended, and
    damage to the stored table is noticed."""
    before = [rows.content(kept.rows, i) for i in range(40)]
    assert before == [rows.content(kept.transform(TEXTS[:40]), i) for i in range(40)]
    assert 20 == sum(lot.appended for lot in feeds.append_file(kept, tmp_path / "texts.jsonl"))
    grown, made = Dataset(Store(kept.store.path), "texts"), kept.transform(TEXTS[40:])
    grown.check()
    assert before + [rows.content(made, i) for i in range(20)] == [rows.content(grown.rows, i) for i in range(60)]
    path = kept.folder / "embeddings.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\x7f")
    with pytest.raises(reading.DataError, match=r"embeddings\.npy is damaged"):
        grown.check()


def test_embeddings_are_for_texts_without_vectors(tmp_path, folder):
    (tmp_path / "a.csv").write_text("x,y,label\n1,2,1\n3,4,-1\n")
    items = reading.read(tmp_path / "a.csv", reading.Columns((), "label", features=("x",)))
    embedding = embeddings.read(folder)
    with pytest.raises(ValueError, match=r"the encoder tiny is for texts\. Got vectors\."):
        datasets.table(items, encoder=embedding)
    (tmp_path / "b.csv").write_text("text,x,label\n" + "".join(f"goal match,{k},1\n" for k in range(9)))
    items = reading.read(tmp_path / "b.csv", reading.Columns(("text",), "label", features=("x",)))
    with pytest.raises(ValueError, match=r"must come from a file or an encoder\. Got both: tiny\."):
        datasets.table(items, encoder=embedding)
