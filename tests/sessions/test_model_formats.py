"""A model predicts the same in Python, in scikit-learn, and by a few lines of numpy from its plain file."""

import gzip
import io
import re
import sys
from dataclasses import asdict

import numpy as np
import pandas
import pytest
from scipy import sparse

import oal_engine
from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.datasets.features import SCALINGS, scaling, vectorizer
from oal_engine.sessions import model
from oal_engine.sessions.files import model_formats
from oal_engine.sessions.insights.calibration import Calibration
from oal_engine.sessions.model import Model, ModelError
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store
from tests.harness.documents import page
from tests.harness.examples import topics
from tests.harness.files import zipped
from tests.harness.sessions import label_until_the_end

skops = pytest.importorskip("skops.io", reason="needs skops: pip install skops")

RNG = np.random.default_rng(3)
VECTORS = np.vstack([RNG.normal(3, 2, (200, 4)) * RNG.integers(0, 2, (200, 4)), np.zeros(4)])
TEXTS = [*topics(150), "Don't #shout @all: state-of-the-art 👍🏽 🇩🇪!", "", "?", "Ärger über café, 東京 goal GOAL match"]
CALIBRATED = Calibration(2.0, -1.0, 60, 30, "positive")
UNKNOWN = Calibration(None, None, 9, 2, "positive", "it takes 20")
RIGHT = Calibration(2.0, -1.0, 60, 30, "right")
HEAD = {
    "oal_model": 1, "engine": "0.3.0", "session": "mine", "dataset": "data", "algorithm": "PAA-I", "learner": "pa-i",
    "labels": 60, "averaged": True, "multiclass": False, "classes": ["spam", "ham"], "theta": 0.3, "scaling": "l2",
    "vectorizer": None, "documents": None, "calibration": asdict(CALIBRATED), "offset": 0.1,
}  # fmt: skip


def of_vectors(scale="l2", names="1234", features="plain", **head):
    """Return a model for vectors that has random weights."""
    fitted = scaling.fit(VECTORS, scale, features)
    numbers = {key: np.array(fitted[key]) for key in ("mean", "deviation") if key in fitted}
    head = HEAD | {"scaling": scale, "features": len(names)} | head
    if features != "plain":
        kind = {"fourier": 3, "leaves": 5}[features]
        head |= {"oal_model": kind} | {key: fitted[key] for key in ("fourier", "leaves") if key in fitted}
    columns = len(names) + scaling.unnamed(fitted)
    weights = np.random.default_rng(4).normal(size=(columns, len(head["classes"]) if head["multiclass"] else 1))
    return Model(head, [*names], numbers, weights)


def of_texts(tokenizer="words", scale="l2", **settings):
    """Return a model for texts that has a random weight for each term."""
    vocabulary = vectorizer.fit(TEXTS, tokenizer=tokenizer, **settings)
    head = HEAD | {"vectorizer": vocabulary.settings, "documents": vocabulary.documents, "scaling": scale}
    weights = np.random.default_rng(4).normal(size=(len(vocabulary.terms), 1))
    numbers = {"document_frequency": vocabulary.document_frequency}
    return Model(head | {"features": len(weights)}, vocabulary.terms, numbers, weights)


CLASSES = {"multiclass": True, "calibration": asdict(RIGHT)}
THREE = CLASSES | {"classes": ["a", "b", "c"], "offset": [0.1, -0.2, 0.0]}
ZERO = {"theta": 0.0, "offset": 0.0}  # so that the margin of a row of zeros is exactly theta
PLAIN = {
    "unit length": of_vectors(),
    "as they are": of_vectors("none"),
    "standardized": of_vectors("standardize+l2"),
    "zeros are positive": of_vectors(**ZERO),
    "zeros are positive, not calibrated": of_vectors(**ZERO, calibration=asdict(UNKNOWN)),
    "not calibrated": of_vectors("standardize+l2", calibration=asdict(UNKNOWN)),
    "three classes": of_vectors("standardize+l2", **THREE),
    "two classes": of_vectors(**CLASSES, **ZERO),
}
WORDS = {
    "words": of_texts(),
    "tweets": of_texts("tweets", ngrams=3, sublinear=False),
    "as they are written": of_texts(scale="none", lowercase=False),
}
OURS = {
    "rich": of_texts("rich", new=16),
    "waves": of_vectors("standardize+l2", features="fourier"),
    "leaves": of_vectors("l2", features="leaves"),
}


SECTION = page("docs/data.md").partition("\n## Models in other programs\n")[2].partition("\n## ")[0]
SHOWN = re.findall(r"^```python\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE)


def written(fitted, kind):
    file = io.BytesIO()
    model_formats.FORMATS[kind].write(fitted, file)
    return file.getvalue()


def saved(fitted, folder, kind="json"):
    path = folder / f"model.{kind}"
    path.write_bytes(written(fitted, kind))
    return path


def items_of(fitted):
    return TEXTS if fitted.text else VECTORS


# In Python


def test_a_model_is_used_like_a_classifier_of_scikit_learn(tmp_path):
    """predict_proba has a column for each class in the order of classes_, the negative class first; decision_function
    is the margin minus theta, and its sign is the prediction."""
    fitted = of_texts()
    loaded = oal_engine.load_model(saved(fitted, tmp_path))
    assert ["ham", "spam"] == loaded.classes_.tolist()
    margins = fitted.scores(fitted.rows(TEXTS))[:, 0]
    chances, decisions = loaded.predict_proba(TEXTS), loaded.decision_function(TEXTS)
    assert np.array_equal(margins - 0.3, decisions)
    assert np.array_equal(CALIBRATED(margins), chances[:, 1])
    assert np.abs(chances.sum(axis=1) - 1).max() < 1e-15
    assert np.where(decisions >= 0, "spam", "ham").tolist() == loaded.predict(TEXTS).tolist()
    for same in (tuple(TEXTS), np.array(TEXTS), pandas.Series(TEXTS)):
        assert np.array_equal(chances, loaded.predict_proba(same))
    assert (0, 2) == loaded.predict_proba([]).shape


def test_a_table_is_taken_by_the_names_of_its_columns(tmp_path):
    """The columns of a DataFrame are matched by name, in any order and among others; an array or a sparse matrix must
    have exactly the model's columns."""
    loaded = oal_engine.load_model(saved(of_vectors("standardize+l2", names="abcd"), tmp_path, "json.gz"))
    expected = loaded.decision_function(VECTORS)
    table = pandas.DataFrame(VECTORS, columns=[*"abcd"]).assign(more="x")[["d", "more", "b", "a", "c"]]
    assert np.array_equal(expected, loaded.decision_function(table))
    assert np.array_equal(expected, loaded.decision_function(VECTORS.tolist()))
    for matrix in (sparse.csr_array(VECTORS), sparse.coo_matrix(VECTORS)):
        assert expected == pytest.approx(loaded.decision_function(matrix), rel=1e-12)


@pytest.mark.parametrize(("fitted", "items", "message"), [
    (of_texts(), "one text", "needs a list of texts"), (of_texts(), {"a": 1}, "needs a list of texts"),
    (of_texts(), ["a", None], "needs a list of texts"), (of_texts(), VECTORS, "needs a list of texts"),
    (of_texts(), pandas.DataFrame({"text": TEXTS}), "needs a list of texts"),
    (of_vectors(), VECTORS[:, :3], r"needs a table of 4 columns\. Got the shape \(201, 3\)"),
    (of_vectors(), VECTORS[0], r"needs a table of 4 columns\. Got the shape \(4,\)"),
    (of_vectors(), TEXTS, "needs a table of numbers: could not convert"),
    (of_vectors(), np.full((2, 4), np.nan), "rows must be finite numbers"),
    (of_vectors(names="abcd"), pandas.DataFrame(VECTORS, columns=[*"abxd"]), "needs the columns c, which the table"),
])  # fmt: skip
def test_items_that_do_not_fit_are_refused(fitted, items, message):
    """A model of texts refuses anything but a list of texts. A model of vectors refuses anything but a table of finite
    numbers with its columns."""
    for method in (fitted.predict, fitted.predict_proba, fitted.decision_function):
        with pytest.raises(ValueError, match=message + r".*\.$"):
            method(items)
        with pytest.raises(ModelError, match="needs no vectors"):
            method(items, VECTORS)


@pytest.mark.parametrize(("name", "message"), [
    ("not calibrated", "has no probabilities after 9 labels (2 positive): it takes 20. Use decision_function."),
    ("three classes", "not how likely each of its classes is: use decision_function"),
    ("two classes", "not how likely each of its classes is: use decision_function"),
])  # fmt: skip
def test_probabilities_that_are_not_known_are_refused(name, message):
    """After too few answers, or with several classes, predict_proba is refused with the reason."""
    with pytest.raises(ModelError, match=f"^the model of mine .*{re.escape(message)}"):
        PLAIN[name].predict_proba(VECTORS)
    assert len(VECTORS) == len(PLAIN[name].decision_function(VECTORS))


# Plain lines


@pytest.mark.parametrize("name", ["words", "standardized", "three classes"])
def test_a_few_lines_of_numpy_predict_from_the_plain_file(tmp_path, name):
    """The numpy code in docs/data.md needs only the uncompressed model file, and not our package, to compute the scores
    of a model of words or of standardized columns."""
    fitted, names = (PLAIN | WORDS)[name], {}
    assert "oal_engine" not in SHOWN[-1]
    exec(SHOWN[-1], names)
    expected = fitted.scores(fitted.rows(items_of(fitted)))
    assert np.abs(expected - names["scores"](saved(fitted, tmp_path), items_of(fitted))).max() < 1e-12


@pytest.mark.parametrize("fitted", [*(PLAIN | WORDS | OURS).values()], ids=[*(PLAIN | WORDS | OURS)])
def test_plain_and_gzipped_lines_are_the_same_model(tmp_path, fitted):
    """model.json has the lines of model.json.gz, and the format of a file is detected by content, not by name."""
    assert gzip.decompress(written(fitted, "json.gz")) == written(fitted, "json")
    expected = fitted.decision_function(items_of(fitted))
    for kind in ("json", "json.gz"):
        (tmp_path / "any name").write_bytes(written(fitted, kind))
        assert np.array_equal(
            expected, oal_engine.load_model(tmp_path / "any name").decision_function(items_of(fitted))
        )


@pytest.mark.parametrize("packed", [gzip.compress, bytes, lambda lines: zipped({"a.json": lines})])
@pytest.mark.parametrize(
    ("name", "kind"), [("words", "feature"), ("unit length", "feature"), ("waves", "wave"), ("leaves", "wave")]
)
def test_no_line_is_read_that_was_not_announced(tmp_path, packed, name, kind):
    """Reading stops at the first feature or wave more than the header announces, also in an archive."""
    lines = written((PLAIN | WORDS | OURS)[name], "json").splitlines(keepends=True)
    (tmp_path / "long").write_bytes(packed(b"".join([*lines, *lines[-1:] * 1000])))
    with pytest.raises(ModelError, match=f"line {len(lines) + 1} is a {kind} more than the "):
        oal_engine.load_models(tmp_path / "long")


# scikit-learn


def compared(fitted, other, items):
    """Check that a model and the object loaded from its .skops file give the same predictions."""
    assert fitted.classes_.tolist() == other.classes_.tolist()
    assert fitted.predict(items).tolist() == other.predict(items).tolist()
    if fitted.multiclass or fitted.calibration.reason:
        assert np.abs(fitted.decision_function(items) - other.decision_function(items)).max() < 1e-12
    else:
        assert np.abs(fitted.predict_proba(items) - other.predict_proba(items)).max() < 1e-12


def from_skops(fitted):
    """Write a model as .skops and load it. Return the loaded object, and the names of its types that are not
    scikit-learn's."""
    content = written(fitted, "skops")
    others = skops.get_untrusted_types(data=content)
    return skops.loads(content, trusted=others), others


@pytest.mark.parametrize("fitted", [*(PLAIN | WORDS).values()], ids=[*(PLAIN | WORDS)])
def test_scikit_learn_alone_predicts_with_plain_numbers_and_words(fitted):
    """A .skops file of a model of words, or of plain columns, needs no code of ours and predicts like the model."""
    pipeline, others = from_skops(fitted)
    assert [] == others
    compared(fitted, pipeline, items_of(fitted))
    assert hasattr(pipeline, "predict_proba") == (not (fitted.multiclass or fitted.calibration.reason))
    if not fitted.text and fitted.head["scaling"] != "standardize+l2":
        compared(fitted, pipeline, sparse.csr_array(VECTORS))


def test_a_pipeline_refuses_a_table_with_other_columns():
    """The scikit-learn pipeline in a .skops file knows the names of its columns: a DataFrame with the columns in
    another order is refused, not misread."""
    for scale in SCALINGS:
        fitted = of_vectors(scale, names="abcd")
        pipeline, table = from_skops(fitted)[0], pandas.DataFrame(VECTORS, columns=[*"abcd"])
        compared(fitted, pipeline, table)
        with pytest.raises(ValueError, match="feature names"):
            pipeline.predict(table[[*"dcba"]])


@pytest.mark.parametrize("fitted", OURS.values(), ids=OURS)
def test_other_models_are_one_checked_type_in_a_skops_file(fitted):
    """A model that scikit-learn cannot express is stored in .skops as bytes of its model file, which are checked."""
    loaded, others = from_skops(fitted)
    assert ["oal_engine.sessions.files.model_formats.SavedModel"] == others
    compared(fitted, loaded, items_of(fitted))
    assert written(fitted, "json") == written(loaded, "json")
    compared(fitted, from_skops(loaded)[0], items_of(fitted))
    with pytest.raises(ModelError, match=r"^the \.skops file is not a usable model: "):
        model_formats.SavedModel(written(fitted, "json")[:-30])


# Files


def test_the_code_in_the_docs_works(tmp_path, monkeypatch, capsys):
    """Each Python example in docs/data.md reads its file and prints the predictions of the model."""
    monkeypatch.chdir(tmp_path)
    words = WORDS["words"]
    for kind in ("json.gz", "skops"):
        saved(words, tmp_path, kind)
    for code, fitted in zip(SHOWN, (words, words, None), strict=True):
        exec(code, {"texts": TEXTS})
        assert fitted is None or str(fitted.predict(items_of(fitted))) in capsys.readouterr().out


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    """Without skops the error names what to install; only this format needs it."""
    monkeypatch.setitem(sys.modules, "skops", None)
    with pytest.raises(ModelError, match=r"^a \.skops file needs the package skops: pip install skops\.$"):
        written(PLAIN["unit length"], "skops")
    assert written(PLAIN["unit length"], "json")


def labelled(folder, path, columns, algorithm, budget=100, parameters=None, **request):
    """Import a file, and return a session over it that was labeled until its budget was spent."""
    store = Store(folder / "studio.db")
    dataset, _ = datasets.import_file(store, path, "data", columns, datasets.ImportRequest(**request))
    session = Session(store, create(store, dataset, algorithm, budget=budget, parameters=parameters or {}))
    label_until_the_end(session)
    return session


def test_the_suffix_names_the_format(tmp_path, command):
    """`export --what model` writes the format that the file's suffix or --format names, and each file gives the same
    predictions."""
    path = tmp_path / "people.csv"
    lines = [f"{x:.4f},{y:.4f},{'yes' if x > y else 'no'}" for x, y in RNG.normal(5, 2, (120, 2))]
    path.write_text("age,size,tall\n" + "\n".join(lines))
    columns = reading.Columns(label="tall", features=("age", "size"), positive=("yes",))
    often = {"delta": 100}
    session = labelled(tmp_path, path, columns, "PAA-I", parameters=often, scale="standardize+l2", features="plain")
    export = ("export", session.id, "--what", "model", "--db", session.store.path)
    assert (0, written(model.of_session(session), "json").decode(), "") == command(*export, "--format", "json")
    message = "error: the name of the file to write must end in .skops. Got model.json.\n"
    assert (1, "", message) == command(*export, "--format", "skops", "--out", tmp_path / "model.json")
    for suffix in (".json", ".jsonl", ".json.gz", ".gz", ".skops"):
        assert (0, "", "") == command(*export, "--out", tmp_path / f"model{suffix}")
    table = pandas.read_csv(path)[["size", "age"]]
    made = [command("predict", path, "--model", tmp_path / f"model{suffix}")[1] for suffix in (".json", ".json.gz")]
    assert made[0] == made[1]
    ours = pandas.read_csv(io.StringIO(made[0]))
    loaded = oal_engine.load_model(tmp_path / "model.jsonl")
    assert ours["positive_probability"].tolist() == loaded.predict_proba(table)[:, 1].tolist()
    assert ours["predicted_class"].tolist() == loaded.predict(table).tolist()
    theirs = skops.load(tmp_path / "model.skops").predict_proba(table[["age", "size"]])
    assert ours["positive_probability"].to_numpy() == pytest.approx(theirs[:, 1], abs=1e-12)


# Real data
