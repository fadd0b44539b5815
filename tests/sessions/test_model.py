"""A model file gives its session's margins, bit for bit, for texts and tables, and no invalid file does harm."""

import base64
import copy
import csv
import gzip
import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from oal_engine import datasets
from oal_engine.datasets import demo
from oal_engine.datasets.features import scaling
from oal_engine.kernel import learners, rows, stream
from oal_engine.sessions import model
from oal_engine.sessions.files import model_file
from oal_engine.sessions.insights import calibration
from oal_engine.sessions.model import ModelError
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store
from tests.harness import ROOT
from tests.harness.examples import add_topics, topics
from tests.harness.sessions import begin, say, truth


def labelled(opened, answers=30):
    while opened.place.asked and len(opened.labels) < answers:
        say(opened, truth(opened))
    return opened


def content(fitted):
    file = io.BytesIO()
    model_file.write(fitted, file)
    return file.getvalue()


def lines_of(content):
    return [json.loads(line) for line in gzip.decompress(content).decode().splitlines()]


def packed(lines):
    return gzip.compress("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines).encode())


def margins(opened, table):
    """Compute the margins of a table with the session's own learner, in the kernel that also chooses its questions."""
    scores = np.empty((rows.length(table), learners.classes(opened.learner) or 1))
    stream.scores(table, opened.learner, opened.settings.theta, scores)
    return scores


@pytest.mark.slow
@pytest.mark.parametrize(("data", "algorithm", "more"), [
    ("sparse", "PAA-I", {"theta": 0.05}),
    ("sparse", "OAAL", {"averaged": True, "budget": 30}), ("dense", "PAA-I", {}), ("sparse", "auto", {}),
    ("dense", "auto-sum", {"averaged": True, "budget": 30}),
    ("classes", "MPAA-I", {"averaged": True, "budget": 30}), ("classes", "auto-classes", {}),
])  # fmt: skip
def test_a_file_gives_the_margins_of_the_session(store, tmp_path, data, algorithm, more):
    """A model file gives its session's margins bit for bit, even with averaged weights and several classes, and is the
    same file when it is read and written again."""
    opened = labelled(begin(store, data, algorithm, **more))
    written = content(model.of_session(opened))
    (tmp_path / "m").write_bytes(written)
    loaded = model_file.read(tmp_path / "m")
    assert written == content(loaded)
    own, vectors = margins(opened, opened.dataset.rows), rows.matrix(opened.dataset.rows)
    assert np.array_equal(own, loaded.scores(opened.dataset.rows))
    assert np.any(own)
    assert opened.names == loaded.classes
    predicted = own.argmax(1) + 1 if opened.multiclass else np.where(own[:, 0] >= opened.settings.theta, 1, -1)
    assert predicted.tolist() == loaded.predictions(own)[1].tolist()
    assert (loaded.text, loaded.rows(vectors).columns) == (False, vectors.shape[1])


def test_a_sketch_has_weights_and_the_second_order_perceptron_has_none(store):
    """The weights of a sketched learner give its margins up to rounding errors. Only the second-order perceptron has no
    weights."""
    opened = labelled(begin(store, "sparse", "SSOA3", averaged=True), 5)
    asked = opened.place.asked
    scores = model.of_session(opened).scores(rows.take(opened.dataset.rows, [asked.item]))
    assert asked.margin == pytest.approx(scores.item(), rel=1e-9)
    assert ["sop", "sop-diag"] == [
        name
        for name in learners.LEARNERS
        if not learners.linear(learners.build(name, 3, classes=3 * learners.is_multiclass(name)))
    ]
    settings = replace(opened.settings, learner="sop")
    with pytest.raises(ModelError, match=r"^sop predicts with a matrix over all pairs of features, .*\.$"):
        model.of_session(SimpleNamespace(settings=settings, dataset=opened.dataset, learner=learners.build("sop", 3)))


@pytest.fixture(scope="module")
def tweets(tmp_path_factory):
    """A session over the demo's texts, with enough answers of each class for probabilities."""
    store = Store(tmp_path_factory.mktemp("tweets") / "studio.db")
    settings = demo.DEMOS["tweets"].session | {"budget": 200}
    opened = labelled(Session(store, create(store, demo.dataset(store, "tweets"), **settings)), 200)
    assert opened.labels.count(1) > calibration.FEWEST
    return opened


@pytest.fixture(scope="module")
def file(tweets, tmp_path_factory):
    file = tmp_path_factory.mktemp("model") / "model.gz"
    file.write_bytes(content(model.of_session(tweets)))
    return file


def texts_of(opened, count):
    return [opened.dataset.item(k)["text"] for k in range(count)]


@pytest.fixture
def predict(file, command):
    """A function that runs the command `predict` and returns (exit code, standard output, standard error)."""

    def predict(*arguments, using=file):
        return command("predict", *arguments, "--model", using)

    return predict


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "txt"])
def test_predict_reads_every_format_and_writes_every_format(tweets, predict, tmp_path, suffix):
    """`predict` gives each item its id, margin, class and probability, the same from every input format and in every
    output format."""
    import pandas

    texts = texts_of(tweets, 50)
    table = pandas.DataFrame({"key_id": [f"k{k}" for k in range(50)], "said": texts, "other": range(50)})
    source = tmp_path / f"new.{suffix}"
    {
        "csv": lambda: table.to_csv(source, index=False),
        "jsonl": lambda: table.to_json(source, orient="records", lines=True),
        "parquet": lambda: table.to_parquet(source),
        "txt": lambda: source.write_text("\n".join(texts), encoding="utf-8"),
    }[suffix]()
    named = () if suffix == "txt" else ("--text", "said")
    code, stdout, stderr = predict(source, "--json", *named, "--texts")
    assert (0, "") == (code, stderr)
    predictions = [json.loads(line) for line in stdout.splitlines()]
    assert texts == [row["text"] for row in predictions]
    assert margins(tweets, tweets.dataset.rows)[:50, 0].tolist() == [row["margin"] for row in predictions]
    assert [str(k + 1) if suffix == "txt" else f"k{k}" for k in range(50)] == [row["id"] for row in predictions]
    assert all(tweets.names[row["predicted"]] == row["predicted_class"] for row in predictions)
    order = np.argsort([row["margin"] for row in predictions])
    chances = np.array([row["positive_probability"] for row in predictions])[order]
    assert (np.diff(chances) >= 0).all()
    assert 0 < chances[0] < 0.5 < chances[-1] < 1
    for out in ("out.csv", "out.jsonl", "out.parquet"):
        assert (0, "", "") == predict(source, "--output", tmp_path / out, *named, "--texts")
    read = {"csv": pandas.read_csv, "parquet": pandas.read_parquet}
    for kind, reader in read.items():
        assert [row["margin"] for row in predictions] == reader(tmp_path / f"out.{kind}")["margin"].tolist()
    assert stdout == (tmp_path / "out.jsonl").read_text(encoding="utf-8")
    others = [None if suffix == "txt" else str(k) for k in range(50)]
    assert others == [row.get("other") for row in predictions]


@pytest.mark.slow
def test_predict_follows_a_pipe_line_by_line(tweets, file):
    """A prediction is printed before the next text is read; lines without a text are skipped and counted at the end."""
    command = [sys.executable, "-m", "oal_engine", "predict", "-", "--model", str(file), "--json"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        own = margins(tweets, tweets.dataset.rows)
        for k, text in enumerate(texts_of(tweets, 3)):
            process.stdin.write(json.dumps({"text": text, "year": k}).encode() + b"\n")
            process.stdin.flush()
            row = json.loads(process.stdout.readline())
            assert (own[k, 0], str(k)) == (row["margin"], row["year"])
        stdout, stderr = process.communicate(b'{"text": ""}\nno json\n')
    assert (0, b"") == (process.returncode, stdout)
    assert b"skipped 1 empty text (line 4), 1 broken line (line 5)\n" == stderr


# Similar wording


@pytest.fixture(scope="module")
def alike(tmp_path_factory):
    """A session over texts with similar-wording (latent) columns, and the path of its model file."""
    folder = tmp_path_factory.mktemp("alike")
    store = Store(folder / "studio.db")
    opened = labelled(Session(store, create(store, add_topics(store, folder), "PAA-I", budget=60)), 60)
    (folder / "m.gz").write_bytes(content(model.of_session(opened)))
    return opened, folder / "m.gz"


@pytest.mark.slow
def test_similar_wording_is_in_the_file(alike):
    """A model file with similar-wording columns gives the session's margins bit for bit, for texts of the stream and
    for new texts. It is the same file when read and written again, and its format version is 2, so that older program
    versions refuse it."""
    opened, file = alike
    loaded, new = model_file.read(file), topics(300)[200:]
    assert file.read_bytes() == content(loaded)
    assert np.array_equal(margins(opened, opened.dataset.rows), loaded.scores(loaded.rows(topics(200))))
    assert np.array_equal(margins(opened, opened.dataset.transform(new)), loaded.scores(loaded.rows(new)))
    assert 2 == loaded.head["oal_model"]
    assert opened.dataset.latent == len(loaded.head["similar_means"]) > 0


BAD_SIMILAR = {
    "no means": lambda lines, _: changed(lines, 0, "similar_means", []),
    "large means": lambda lines, _: changed(lines, 0, "similar_means", [9.0] * len(lines[0]["similar_means"])),
    "too few weights": lambda lines, _: changed(lines, 0, "similar_weights", lines[0]["similar_weights"][1:]),
    "two weights": lambda lines, _: changed(lines, 0, "similar_weights", [[1, 2]] * len(lines[0]["similar_weights"])),
    "no text": lambda lines, _: changed(lines, 3, "similar", 5),
    "no base64": lambda lines, _: changed(lines, 3, "similar", "?" * len(lines[3]["similar"])),
    "cut short": lambda lines, _: changed(lines, 3, "similar", lines[3]["similar"][4:]),
    "not a number": lambda lines, _: changed(
        lines, 3, "similar", base64.b64encode(b"\xff" * 4 * len(lines[0]["similar_means"])).decode()
    ),
    "called an old one": lambda lines, _: changed(lines, 0, "oal_model", 1),
    "too many shared columns": lambda lines, _: changed(
        lines, 0, "vectorizer", lines[0]["vectorizer"] | {"new": 10**6}
    ),
}


# Vectors


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A session over a table of named, standardized columns with their waves and leaves, and its folder."""
    folder = tmp_path_factory.mktemp("table")
    rng = np.random.default_rng(5)
    X = rng.normal(3, 2, size=(120, 4)).round(6)
    y = X[:, 0] - X[:, 2] > 0.5
    lines = [["id", "age, years", "b", "c", "d", "label"]]
    lines += [[f"p{k}", *map(repr, map(float, x)), int(label)] for k, (x, label) in enumerate(zip(X, y))]
    with (folder / "table.csv").open("w", newline="") as out:
        csv.writer(out).writerows(lines)
    store = Store(folder / "studio.db")
    dataset, _ = datasets.import_file(
        store, folder / "table.csv", "table", request=datasets.ImportRequest(scale="standardize+l2")
    )
    opened = labelled(Session(store, create(store, dataset, "PAA-I", budget=60)), 40)
    (folder / "m.gz").write_bytes(content(model.of_session(opened)))
    return opened, folder


def test_columns_are_matched_by_name(table, predict):
    """Columns in another order, with others between them, give the same margins; an error names a missing column."""
    opened, folder = table
    own = margins(opened, opened.dataset.rows)[:, 0].tolist()
    with (folder / "table.csv").open(newline="") as file:
        source_rows = list(csv.DictReader(file))
    for columns, name in ((["d", "new", "b", "id", "age, years", "c"], "turned"), (["id", "b", "c", "d"], "short")):
        with (folder / f"{name}.csv").open("w", newline="") as out:
            writer = csv.DictWriter(out, columns, extrasaction="ignore", restval="7")
            writer.writeheader()
            writer.writerows(source_rows)
    code, stdout, stderr = predict(folder / "turned.csv", using=folder / "m.gz")
    assert (0, "") == (code, stderr)
    rows = list(csv.DictReader(io.StringIO(stdout)))
    assert own == [float(row["margin"]) for row in rows]
    assert [f"p{k}" for k in range(120)] == [row["id"] for row in rows]
    code, stdout, stderr = predict(folder / "short.csv", using=folder / "m.gz")
    assert (1, "") == (code, stdout)
    assert "error: short.csv has no column 'age, years'; its columns are id, b, c, d.\n" == stderr


def test_the_other_columns_of_new_items_stand_beside_their_predictions(table, predict):
    """In the output of `predict`, further columns of new items follow the predictions, and are renamed if their name is
    taken. With --texts, the numbers that the model uses come before them."""
    _, folder = table
    rows = [
        {"id": "a", "age, years": 1, "b": 2.5, "c": -3, "d": 0, "margin": "=1+1", "url": "https://x.org", "year": 2019},
        {"id": "b", "age, years": 1, "b": 2, "c": 3, "d": 0.125, "margin": "", "year": None, "more": "x"},
    ]
    (folder / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, stdout, stderr = predict(folder / "new.jsonl", "--json", "--texts", using=folder / "m.gz")
    assert (0, "") == (code, stderr)
    made = [json.loads(line) for line in stdout.splitlines()]
    own = ["line", "id", "margin", "predicted", "predicted_class", "positive_probability"]
    assert [*own, "age, years", "b", "c", "d", "item_margin", "url", "year", "more"] == list(made[0])
    assert [["=1+1", "https://x.org", "2019", None], [None, None, None, "x"]] == [[*row.values()][-4:] for row in made]
    assert [[1, 2.5, -3, 0], [1, 2, 3, 0.125]] == [[*row.values()][6:10] for row in made]
    code, stdout, _ = predict(folder / "new.jsonl", using=folder / "m.gz")
    assert ["a", "=1+1"] == [next(csv.DictReader(io.StringIO(stdout)))[name] for name in ("id", "item_margin")]


def test_waves_and_leaves_are_kept(table, tmp_path):
    """A model file with waves and leaves names only the table's columns, computes the features of new rows, and is the
    same file when it is read and written."""
    opened, folder = table
    loaded, rows_of_file = (
        model_file.read(folder / "m.gz"),
        np.random.default_rng(5).normal(3, 2, size=(120, 4)).round(6),
    )
    assert (folder / "m.gz").read_bytes() == content(loaded)
    assert ["age, years", "b", "c", "d"] == loaded.names
    assert np.array_equal(margins(opened, opened.dataset.rows), loaded.scores(loaded.rows(rows_of_file)))
    written, weights = lines_of(content(loaded)), learners.weights(opened.learner)
    assert {"wave": 512, "weights": [weights[-1]]} == written[-1]
    assert {"leaf": 6400, "weights": [weights[-513]]} == written[-513]


@pytest.mark.parametrize("suffix", ["npy", "npz", "svmlight"])
def test_numbered_columns_are_matched_by_place(store, tmp_path, predict, suffix):
    """Columns without names are matched by position. If columns are missing, an array is refused; in a sparse file the
    missing columns count as zeros."""
    opened = begin(store, "dense", "PAA-I")
    labelled(opened, 10)
    fitted = model.of_session(opened)
    fitted = replace(fitted, names=[str(k + 1) for k in range(len(fitted.names))])
    (tmp_path / "m.gz").write_bytes(content(fitted))
    X = rows.matrix(opened.dataset.rows)[:20].copy()
    X[:, -1] = 0  # a sparse file does not name the last column then
    wide, short = np.column_stack([X, np.ones(20)]), X[:, :3]

    def written(name, X):
        file = tmp_path / f"{name}.{suffix}"
        if suffix == "npy":
            np.save(file, X)
        elif suffix == "npz":
            sparse.save_npz(file, sparse.csr_array(X))
        else:
            file.write_text(
                "\n".join("0 " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(map(float, x)) if v) for x in X)
            )
        return file

    expected = margins(opened, rows.as_rows(scaling.apply({"name": "l2"}, X)))[:, 0].tolist()
    for name, matrix in (("same", X), ("wide", wide)):
        code, stdout, stderr = predict(written(name, matrix), "--texts", using=tmp_path / "m.gz")
        assert (0, "") == (code, stderr)
        made = [*csv.DictReader(io.StringIO(stdout))]
        assert expected == pytest.approx([float(row["margin"]) for row in made], rel=1e-12)
        if suffix == "npy":
            numbers = [[float(row[column]) for column in fitted.names] for row in made]
        else:
            cells = [[each.split(":") for each in row["features"].split()] for row in made]
            numbers = [[dict(row).get(column, 0) for column in fitted.names] for row in cells]
        assert np.array_equal(X, np.array(numbers, float))
    code, stdout, stderr = predict(written("short", short), using=tmp_path / "m.gz")
    if suffix == "npy":
        assert (1, "", f"error: the model needs {len(fitted.names)} columns. Got 3.\n") == (code, stdout, stderr)
    else:
        assert (0, "") == (code, stderr)


@pytest.mark.parametrize(("name", "words", "message"), [
    ("empty.txt", "", "empty.txt is empty"),
    ("bytes.npy", "nothing", "bytes.npy cannot be read"),
    ("missing.csv", None, "missing.csv cannot be read: No such file or directory."),
    ("vectors.svmlight", "1 1:2\n", "the model needs texts; the file holds vectors."),
])  # fmt: skip
def test_an_unsuitable_file_is_refused_in_one_sentence(predict, tmp_path, name, words, message):
    """If `predict` cannot predict the items of a file, it prints a one-sentence error without a traceback, and writes
    nothing else."""
    if words is not None:
        (tmp_path / name).write_text(words)
    code, stdout, stderr = predict(tmp_path / name, "--output", tmp_path / "out.csv")
    assert (1, "") == (code, stdout)
    assert re.fullmatch(r"error: .*\.\n", stderr)
    assert message in stderr
    assert not (tmp_path / "out.csv").exists()


# Files from elsewhere


def changed(lines, place, key, value):
    lines = copy.deepcopy(lines)
    lines[place][key] = value
    return packed(lines)


BAD = {
    "nothing": lambda lines, whole: b"",
    "no gzip": lambda lines, whole: b"PK\3\4 pickle",
    "cut short": lambda lines, whole: whole[: len(whole) // 2],
    "a bit turned": lambda lines, whole: whole[:-6] + bytes([whole[-6] ^ 1]) + whole[-5:],
    "no JSON": lambda lines, whole: packed([lines[0], "hello\n"]),
    "a list": lambda lines, whole: packed([[1, 2]]),
    "deep": lambda lines, whole: packed(["[" * 200_000]),
    "another version": lambda lines, whole: changed(lines, 0, "oal_model", 4),
    "fewer features": lambda lines, whole: packed(lines[:-1]),
    "a feature twice": lambda lines, whole: packed([*lines, lines[-1]]),
    "not a number": lambda lines, whole: changed(lines, 3, "weights", [float("nan")]),
    "infinite": lambda lines, whole: packed(
        [lines[0], json.dumps(lines[1]).replace('"weights": [', '"weights": [1e999, ')]
    ),
    "a huge number": lambda lines, whole: changed(lines, 3, "weights", [10**400]),
    "two weights": lambda lines, whole: changed(lines, 3, "weights", [1.0, 2.0]),
    "no weight": lambda lines, whole: changed(lines, 3, "weights", None),
    "a strange feature": lambda lines, whole: changed(lines, 3, "feature", ["x"]),
    "a negative count": lambda lines, whole: changed(lines, 3, "document_frequency", -5),
    "a hostile pattern": lambda lines, whole: changed(
        lines, 0, "vectorizer", lines[0]["vectorizer"] | {"pattern": "(a+)+$"}
    ),
    "endless words": lambda lines, whole: changed(lines, 0, "vectorizer", lines[0]["vectorizer"] | {"ngrams": 10**9}),
    "no vectorizer": lambda lines, whole: changed(lines, 0, "vectorizer", None),
    "three classes of two": lambda lines, whole: changed(lines, 0, "classes", ["a", "b", "c"]),
    "one name twice": lambda lines, whole: changed(lines, 0, "classes", ["a", "a"]),
    "half a calibration": lambda lines, whole: changed(
        lines, 0, "calibration", lines[0]["calibration"] | {"slope": None}
    ),
    "more in the head": lambda lines, whole: changed(lines, 0, "__class__", "os.system"),
    "a scaling that is none": lambda lines, whole: changed(lines, 0, "scaling", ["l2"]),
    "an offset for each of two classes": lambda lines, whole: changed(lines, 0, "offset", [0.0, 1.0]),
    "waves of texts": lambda lines, whole: changed(
        [lines[0] | {"oal_model": 3}, *lines[1:]], 0, "fourier", {"seed": 0, "bandwidth": 1.0}
    ),
}
BAD_WAVES = {
    "fewer waves": lambda lines, _: packed(lines[:-1]),
    "a wave more": lambda lines, _: packed([*lines, lines[-1] | {"wave": 513}]),
    "waves in another order": lambda lines, _: changed(lines, -1, "wave", 1),
    "no deviation": lambda lines, _: changed(lines, 1, "deviation", 0),
    "a leaf more": lambda lines, _: packed([*lines[:-512], {"leaf": 6401, "weights": [0.0]}, *lines[-512:]]),
    "a leaf in place of a wave": lambda lines, _: packed([*lines[:-1], {"leaf": 6401, "weights": [0.0]}]),
    "cuts in disorder": lambda lines, _: changed(
        lines, 0, "leaves", {"seed": 0, "cuts": [cuts[::-1] for cuts in lines[0]["leaves"]["cuts"]]}
    ),
    "cuts of fewer columns": lambda lines, _: changed(
        lines, 0, "leaves", {"seed": 0, "cuts": lines[0]["leaves"]["cuts"][1:]}
    ),
    "no leaves": lambda lines, _: changed(lines, 0, "oal_model", 3),
    "no bandwidth": lambda lines, _: changed(lines, 0, "fourier", {"seed": 0, "bandwidth": 0.0}),
}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "damage"), [
    *(pytest.param("texts", damage, id=name) for name, damage in BAD.items()),
    *(pytest.param("similar wording", damage, id=name) for name, damage in BAD_SIMILAR.items()),
    *(pytest.param("waves", damage, id=name) for name, damage in BAD_WAVES.items()),
])  # fmt: skip
def test_a_damaged_or_hostile_file_is_refused_in_one_sentence(predict, file, alike, table, tmp_path, kind, damage):
    """A damaged or hostile model file ends `predict` with exit code 1 and one line, without a traceback."""
    whole = {"texts": file, "similar wording": alike[1], "waves": table[1] / "m.gz"}[kind].read_bytes()
    (tmp_path / "bad.gz").write_bytes(damage(lines_of(whole), whole))
    (tmp_path / "new.txt").write_text("happy\n")
    code, stdout, stderr = predict(tmp_path / "new.txt", using=tmp_path / "bad.gz")
    assert (1, "") == (code, stdout)
    assert re.fullmatch(r"error: \S*bad\.gz is not a (usable )?model\b.*\.\n", stderr)


def test_a_decompression_bomb_is_refused(monkeypatch, tmp_path):
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b" " * 2**24))
    with pytest.raises(ModelError, match="the file is too large in line 1"):
        model_file.read(tmp_path / "bomb.gz")


# Probabilities


def test_probabilities_are_those_that_made_the_answers():
    """Calibration (Platt scaling) finds the best slope and intercept, and so recovers the probabilities with which
    answers were drawn. An answer with the weight 3 counts as 3 answers."""
    rng = np.random.default_rng(1)
    p = rng.normal(size=20_000)
    hits = rng.random(p.size) < 1 / (1 + np.exp(-(2 * p - 1)))
    fitted = calibration.fit(p, hits, np.ones(p.size))
    assert (2, -1) == pytest.approx((fitted.slope, fitted.intercept), abs=0.1)
    assert (20_000, hits.sum(), None) == (fitted.labels, fitted.hits, fitted.reason)
    targets = np.where(hits, (hits.sum() + 1) / (hits.sum() + 2), 1 / ((~hits).sum() + 2))
    assert targets.sum() == pytest.approx(fitted(p).sum(), rel=1e-6)  # at the best intercept
    assert p @ targets == pytest.approx(p @ fitted(p), rel=1e-6)  # and slope
    p, hits, weights = p[:300], hits[:300], 1 + 2 * hits[:300]
    weighted = calibration.fit(p, hits, weights)
    twice = calibration.fit(np.repeat(p, weights), np.repeat(hits, weights), np.ones(weights.sum()))
    assert (twice.slope, twice.intercept) == pytest.approx((weighted.slope, weighted.intercept), abs=0.1)
    assert calibration.fit(p, hits, np.ones(300)).intercept < weighted.intercept - 0.5


def test_there_is_no_probability_without_enough_answers_of_both_kinds():
    """If there are too few answers of a class, or margins do not separate the classes, a reason is given instead of a
    probability."""
    few = calibration.fit(np.arange(100), np.arange(100) >= 81, np.ones(100))
    assert few(np.zeros(1)) is None
    assert "it takes 20 that are positive and 20 that are not" == few.reason
    assert "No probability after 100 labels (19 positive): " in str(few)
    against = calibration.fit(np.arange(100), np.arange(100) < 50, np.ones(100))
    assert "No probability after 100 labels (50 positive): the margins do not tell them apart." == str(against)


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(deadline=None)
def test_every_margin_has_a_probability(margin):
    calibrated = calibration.Calibration(3.0, -1.0, 50, 25, "positive")
    assert 0 <= calibrated(np.array([margin]))[0] <= 1
