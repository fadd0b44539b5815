"""Small data sets, sessions and comparisons with markup in their names and texts, to test escaping."""

import json

import numpy as np

from oal_engine import datasets, experiments
from oal_engine.datasets import reading
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from tests.harness.markup import MARKUP

NAME = f"made {MARKUP}"


def imported(store, folder, name=NAME, classes=2, items=90, **columns):
    """Import a small data set of vectors with markup in its name. Its labels are 0 and 1, or three letters. Return its
    id."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, items)
    words = [str(k) if classes == 2 else f"{'abc'[k]}{MARKUP}" for k in y]
    path = folder / f"{classes}.jsonl"
    rows = [{"a": x + k, "b": z, "label": word} for (x, z), k, word in zip(rng.normal(size=(items, 2)), y, words)]
    path.write_text("\n".join(map(json.dumps, rows)))
    columns = reading.Columns(label="label", features=("a", "b"), multiclass=classes > 2, **columns)
    return datasets.import_file(store, path, name, columns)[0]


def compared(store, name, **values):
    """Run a comparison of two algorithms, with some values of its specification replaced. Return its id."""
    spec = experiments.specification({"algorithms": {"PAA-I": {}, "OAAL": {}}, "budgets": [5, 20], "permutations": 3}
                                     | values)  # fmt: skip
    experiments.compare(spec, store, name)
    return store.comparison(name)["id"]


def add_texts(store, folder, name="texts", label="label"):
    """Import a data set of 240 short texts that contain markup, every fifth one positive. Return its id."""
    path = folder / f"{name}.csv"
    lines = [f'i{k},{MARKUP.replace(chr(34), "")} {"good" if k % 5 == 0 else "other"} word{k % 7},{int(k % 5 == 0)}'
             for k in range(240)]  # fmt: skip
    path.write_text("id,text,label\n" + "\n".join(lines))
    columns = reading.Columns(text=("text",), label=label, id="id")
    return datasets.import_file(store, path, name, columns, datasets.ImportRequest(features="rich+latent"))[0]


TOPICS = (
    "goal match team coach league score player season stadium keeper referee derby",
    "flour oven butter dough sugar recipe bake crust yeast whisk pastry icing",
    "market bond stock bank profit loan share dividend credit rate trader fund",
)


def topics(count):
    """Return `count` different texts, cycling through three topics. Each has five words of its topic and a word such as
    "day3", which is unrelated to the topic."""
    rng = np.random.default_rng(0)
    return [
        " ".join([*rng.choice(TOPICS[k % 3].split(), 5, replace=False), f"day{rng.integers(9)}", "x" * (k % 7), f"{k}"])
        for k in range(count)
    ]


def add_topics(store, folder, count=200):
    """Import a data set of similarly worded texts on three topics, one of them positive, without their meaning. Return
    its id."""
    path = folder / "topics.jsonl"
    lines = [json.dumps({"text": text, "label": int(k % 3 == 0)}) for k, text in enumerate(topics(count))]
    path.write_text("\n".join(lines))
    request = datasets.ImportRequest(features="rich+latent")
    return datasets.import_file(store, path, "topics", reading.Columns(("text",), "label"), request)[0]


def answer(store, dataset, labels=60, **settings):
    """Create a session and answer its questions: every seventh answer is wrong, every eleventh question is skipped.
    Return its id."""
    session = create(store, dataset, "PAA-I", **{"budget": 60} | settings)
    opened = Session(store, session)
    for k in range(labels):
        if not (asked := opened.place.asked):
            break
        label = 1 if asked.item % 5 == 0 else -1
        opened.answer(f"{session}-{k}", asked.id, 0 if k % 11 == 10 else -label if k % 7 == 6 else label, "Ann", 2.5)
    return session


def write_embedding(folder, seed=0, width=8, **tensors):
    """Write a static embedding of the topics' words to a folder, in the format of model2vec. Return {word: vector}."""
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder.mkdir(parents=True, exist_ok=True)
    words = ["[UNK]", *" ".join(TOPICS).split()]
    tokenizer = Tokenizer(models.WordLevel({word: k for k, word in enumerate(words)}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    table = np.random.default_rng(seed).normal(size=(len(words), width)).astype(np.float16)
    save_file({"embeddings": table} | tensors, folder / "model.safetensors")
    (folder / "config.json").write_text("{}")
    return dict(zip(words, table.astype(float)))
