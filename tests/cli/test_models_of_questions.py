"""The models of a session that asks several questions form one archive, which predicts the same as each model alone."""

import json
from zipfile import ZipFile

import numpy as np
import pandas
import pytest

import oal_engine
from oal_engine import Studio
from oal_engine.datasets import reading
from oal_engine.sessions.files import model_file
from oal_engine.sessions.model import ModelError
from tests.harness.files import zipped

NAMES = ["wind", '../a, "b" & c', "日本 7"]
WORDS = {"wind": "wind", NAMES[1]: "sun", NAMES[2]: "5"}
SUFFIXES = ".json.gz, .gz, .json, .jsonl or .skops"
PREDICTED = ["margin", "predicted", "predicted_class", "positive_probability"]


@pytest.fixture
def asked(db):
    """A function that begins a session that asks several questions, over texts or numbers, and answers until its budget
    is spent."""
    studio = Studio(db)

    def make(kind="texts", names=NAMES, **more):
        rng = np.random.default_rng(2)
        days = [f"{sky} on day {k % 9}" for k in range(70) for sky in ("sun", "rain and wind", "sun and wind")]
        numbers = pandas.DataFrame(rng.normal(size=(len(days), 3)), columns=["a", "b", "c"])
        data = studio.add(days if kind == "texts" else numbers, name=f"{kind}{len(studio.sessions)}", label="")
        session = studio.new_session(data, budget=70, questions=names, seed=3, **more)
        for question in session:
            text = days[question.stored.item]
            session.answer(question, [name for name in names if WORDS[name] in text] if names else None)
        return session

    yield make
    studio.store.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["texts", "numbers"])
def test_an_archive_predicts_what_each_model_does(asked, ok, run, tmp_path, kind):
    """The predictions of an archive for a question equal, to the bit, the predictions of the model exported for this
    question alone, even with --parts. Files in the archive have safe names, whatever a question is called."""
    session = asked(kind)
    new = tmp_path / "new.csv"
    new.write_text(
        "text,a,b,c,more\n=wind on 5,1,2,0,x\nsun,0,-1,3,y\n" if kind == "texts" else "a,b,c\n1,2,0\n0,-1,3\n"
    )
    session.export("models.zip", "model")
    ok("export", session.id, "--what", "model", "--format", "json", "--out", "plain.zip")
    with ZipFile("models.zip") as models, ZipFile("plain.zip") as plain:
        assert ["1-wind.json.gz", "2--a-b-c.json.gz", "3-日本-7.json.gz"] == models.namelist()
        assert "1-wind.json" == plain.namelist()[0]
        alone = dict(zip(NAMES, map(models.read, models.namelist())))
    options = ("--texts", "--format", "jsonl")
    together = [json.loads(line) for line in ok("predict", new, "--model", "models.zip", *options).splitlines()]
    found = oal_engine.load_models("models.zip")
    assert NAMES == [*found]
    for name, content in alone.items():
        ok("export", session.id, "--what", "model", "--question", name, "--out", "one.json.gz")
        assert content == (tmp_path / "one.json.gz").read_bytes()
        one = [json.loads(line) for line in ok("predict", new, "--model", "one.json.gz", *options).splitlines()]
        own = {each: f"{each}:{name}" for each in PREDICTED}
        assert [{column: row[own.get(column, column)] for column in one[0]} for row in together] == one
        assert {row["predicted_class"] for row in one} <= {name, f"not {name}"}
        assert oal_engine.load_model("one.json.gz").weights.tobytes() == found[name].weights.tobytes()
    assert kind == "numbers" or None not in [row["positive_probability:wind"] for row in together]
    assert ok("predict", new, "--model", "plain.zip") == ok("predict", new, "--model", "models.zip")
    (tmp_path / "parts").mkdir()
    new.rename(tmp_path / "parts" / "new.csv")
    run("predict", "parts", "--model", "models.zip", "--parts", "--out", "predicted")
    parts = pandas.read_parquet(tmp_path / "predicted" / "new.parquet")
    assert [row["margin:wind"] for row in together] == parts["margin:wind"].tolist()


def test_a_frame_has_the_metrics_of_each_question(asked):
    """The metrics frame has a row for each question, for their mean and for the worst. It names missing estimates."""
    frame = asked(floor=0.5).metrics
    f1 = frame[(frame["metric"] == "f1") & (frame["evaluation"] == "push")].set_index("question")["value"]
    *own, mean, worst = f1.index
    assert {*own} <= {*NAMES}
    assert ("mean", f"worst: {f1[own].idxmin()}") == (mean, worst)
    assert (f1[own].mean(), f1[own].min()) == pytest.approx((f1[mean], f1[worst]))
    assert [name for name in NAMES if name not in own] == [
        name for name in NAMES if f"{name}: " in (frame.attrs["reason"] or "")
    ]


def test_texts_of_predictions_come_back(asked, ok, tmp_path):
    """A text that a spreadsheet would take for a formula is unchanged when a file of predictions is imported."""
    asked().export("models.zip", "model")
    (tmp_path / "new.txt").write_text("=wind\nsun\n")
    ok("predict", "new.txt", "--model", "models.zip", "--texts", "--out", "predicted.csv")
    items = reading.read(tmp_path / "predicted.csv", reading.Columns(("text",), id="id"))
    assert ["=wind", "sun"] == items.texts


def test_the_name_of_a_file_tells_how_many_models_it_has(asked, run):
    several, one = asked().id, asked(names=None).id
    for session, name, allowed, *more in (
        (several, "model.json.gz", ".zip"),
        (several, "model.skops", ".zip", "--format", "skops"),
        (several, "model.zip", SUFFIXES, "--question", "wind"),
        (one, "model.zip", SUFFIXES),
    ):
        message = f"error: the name of the file to write must end in {allowed}. Got {name}.\n"
        assert (1, "", message) == run("export", session, "--what", "model", "--out", name, *more)


@pytest.mark.slow
def test_a_bad_archive_is_refused_in_one_sentence(asked, run, tmp_path, monkeypatch):
    """An archive that does not hold models of different questions of one session, or that would unpack to a huge size,
    is refused before anything is predicted."""
    asked().export("models.zip", "model")
    asked(names=NAMES[:2]).export("others.zip", "model")
    asked("numbers").export("numbers.zip", "model")
    whole = (tmp_path / "models.zip").read_bytes()
    first, other, numbers = (ZipFile(f"{name}.zip").read("1-wind.json.gz") for name in ("models", "others", "numbers"))
    encrypted = bytearray(zipped({"1.json": b"{}"}))
    encrypted[encrypted.index(b"PK\1\2") + 8] |= 1
    (tmp_path / "new.txt").write_text("sun\n")
    cases = {
        "no models": (zipped({}), "not a model"),
        "27 files": (zipped({str(k): first for k in range(27)}), "must hold 1 to 26 models. Got 27 files."),
        "not a model": (zipped({"a.json": b"hello"}), "bad.zip is not a model: it must be JSON lines"),
        "one question twice": (zipped({"1.gz": first, "2.gz": first}), "of different yes/no questions of one session"),
        "another session": (zipped({"1.gz": first, "2.gz": other}), "2.gz is not."),
        "other features": (zipped({"1.gz": first, "2.gz": numbers}), "2.gz is not."),
        "an archive in it": (zipped({"1.zip": whole}), "bad.zip is not a model: it must be JSON lines"),
        "a bomb": (zipped({"1.json": b" " * 2**22}), "more than 200 times its size"),
        "encrypted": (bytes(encrypted), "is encrypted"),
        "cut short": (whole[: len(whole) // 2], "is not a model, or is damaged"),
        "a bit turned": (whole[:200] + bytes([whole[200] ^ 1]) + whole[201:], "not a"),
    }
    for content, message in cases.values():
        (tmp_path / "bad.zip").write_bytes(content)
        code, out, error = run("predict", "new.txt", "--model", "bad.zip")
        assert (1, "", 1, True) == (code, out, error.count("\n"), message in error), (message, error)
    with pytest.raises(ModelError, match="load_models read archives"):
        oal_engine.load_model("models.zip")
    monkeypatch.setattr(model_file, "MOST_QUESTIONS", 2)
    with pytest.raises(ModelError, match=r"1 to 2 models\. Got 3"):
        oal_engine.load_models("models.zip")
