"""A session is labeled, read and exported from Python as in the browser. Wrong arguments are refused with a
one-sentence error."""

import json
import re
import subprocess
import sys

import numpy as np
import pandas
import pyarrow
import pytest
from scipy.sparse import coo_array, csr_array

import oal_engine
from oal_engine import Studio
from oal_engine.sessions import look_back
from oal_engine.sessions.files import export as exports
from oal_engine.sessions.insights import outcome
from oal_engine.sessions.session import Session
from tests.harness import ROOT
from tests.harness.examples import topics
from tests.harness.markup import MARKUP

ITEMS = 90
WORDS = ["about sport" if k % 3 == 0 else "other" for k in range(ITEMS)]


@pytest.fixture
def studio(tmp_path):
    """A studio with a database of its own."""
    with Studio(tmp_path / "studio.db") as studio:
        yield studio


@pytest.fixture
def session(studio, capsys):
    """A session over texts of three topics, without labels."""
    data = studio.add(topics(ITEMS), f"topics {MARKUP}")
    return studio.new_session(data, budget=20, positive_name="about sport", negative_name="other")


def right(question):
    """Return the right answer to a question."""
    return WORDS[int(question.item["id"]) - 1]


def label(session, most=ITEMS):
    """Answer questions correctly, at most `most`. Return the number of answers."""
    for number, question in enumerate(session, 1):
        session.answer(question, right(question))
        if number == most:
            return number
    return number


def test_a_loop_labels_a_session(session, studio):
    """A loop over a session gives each question once, until the budget is spent; the log verifies, bit for bit."""
    assert 20 == label(session)
    assert session.question is None
    assert look_back.verify(studio.store, session.id).verified
    assert "20 of 20 labels" in repr(session)
    session.add_labels(5)
    assert 5 == label(session)


def test_frames_are_the_exports(session, studio, tmp_path):
    """Every frame has the columns and cells of the export with the same name."""
    label(session, 15)
    opened = Session(studio.store, session.id)
    for what in (what for what in exports.TABLES if what != "audit"):
        table = exports.labels(studio.store, 1)[0] if what == "labels" else exports.TABLES[what](opened, True)[0]
        frame = session.frame(what)
        assert [*table.columns] == [*frame.columns]
        assert len(frame) == len([*table.rows])
        session.export(tmp_path / f"{what}.parquet", what)
        written = pandas.read_parquet(tmp_path / f"{what}.parquet")
        assert frame.notna().to_numpy().tolist() == written.notna().to_numpy().tolist()
        for name in frame:
            assert frame[name].dropna().tolist() == written[name].dropna().tolist()
    assert session.labels.equals(session.frame("labels"))
    places = session.labels["position"][:15]
    assert [WORDS[position] for position in places] == session.labels["class"].dropna().tolist()
    for what, name in (("model", "model.json.gz"), ("report", "report.html")):
        session.export(tmp_path / name, what)
        assert (tmp_path / name).stat().st_size
    session.export(tmp_path / "out.csv", "table", format="csv-guarded")
    assert (tmp_path / "out.csv").read_text().startswith("'id,text,")


def test_metrics_are_estimates_or_exact(session, studio, capsys):
    """Metrics are exact for labeled data, and otherwise estimates with intervals or the reason why they are missing."""
    label(session, 3)
    assert len(session.metrics) == 0
    assert session.metrics.attrs["reason"].endswith(".")
    labelled = studio.add(topics(ITEMS), "labelled", labels=WORDS, positive="about sport")
    exact = studio.new_session(labelled, "PAA-I", budget=20, positive_name="about sport", negative_name="other")
    label(exact)
    assert {"sum", "f1"} < {*exact.metrics["metric"]}
    assert exact.metrics["low"].isna().all()
    assert "<svg" in exact.curves


def test_an_answer_is_changed(session):
    """`undo` asks the question again, `correct` replaces an answer, and the answer None skips a question."""
    question = session.question
    session.answer(question, None)
    session.undo()
    assert question.number == session.question.number
    session.answer(session.question, "other")
    session.correct(1, "about sport")
    assert "about sport" == session.labels["class"][0]
    session.correct(question, None)
    assert "skipped" == session.labels["class"][0]


def test_several_questions_have_one_answer(studio):
    """In a session of several questions, an answer is the list of the questions answered yes. `correct` replaces the
    list, and None skips."""
    session = studio.new_session("demo:tweets", budget=5, questions=["late", "lost"])
    for question, word in zip(session, (["late"], [], None, ["late", "lost"])):
        session.answer(question, word)
    session.correct(2, ["lost"])
    assert [[1, -1], [-1, 1], [None, None], [1, 1]] == [
        [None if label != label else label for label in line]
        for line in session.labels[["label:late", "label:lost"]].astype(float).values.tolist()[:4]
    ]
    with pytest.raises(ValueError, match=r"must be late, lost, or None to skip\. Got late\."):
        session.answer(session.question, "late")
    assert "3 of 5 labels" in session._repr_html_()
    one, other = session.find("train")["id"][-2:]
    assert [] == session.know({one: True, other: False}, question="lost")
    assert [1, -1] == session.labels.query("origin == 'known: Python'")["label:lost"].tolist()
    with pytest.raises(ValueError, match=r"must be True, False, or None if it is not known\. Got lost\."):
        session.know({one: "lost"}, question="lost")


def test_known_labels(session):
    """`know` learns labels at no cost. It returns the ids of items that were already asked about, whose labels it does
    not take. `find` returns the items that contain every word of the query; without quotes, others of nearly the same
    meaning follow."""
    question = session.question
    session.answer(question, right(question))
    asked = question.item["id"]
    assert [asked] == session.know({"80": "about sport", "81": "other", asked: "other"})
    assert ["about sport", "other"] == session.labels.query("origin == 'known: Python'")["class"].tolist()
    assert [] == session.know({"80": None})
    assert [] == session.know({})
    assert 1 == (session.labels["origin"] == "known: Python").sum()
    exact = session.find('"goal"')["id"].tolist()
    assert exact == session.find("goal")["id"].tolist()[: len(exact)]
    assert [] == session.find('"nothinglikeit"')["id"].tolist()


def test_a_browser_labels_too(session, studio):
    """Python and a browser label one session at once, and each question goes to only one of the two."""
    browser, asked = Session(studio.store, session.id), []
    for number, question in enumerate(session):
        asked.append(question.item["id"])
        (shown, *_) = browser.held("Ann") or [None]
        if shown:
            asked.append(str(shown.item + 1))
            browser.answer(f"b{number}", shown.id, 1, "Ann")
        session.answer(question, right(question))
    assert len({*asked}) == len(asked) == 20
    assert {"Ann", "python"} == {*session.labels["annotator"]}
    assert look_back.verify(studio.store, session.id).verified


OTHER = """
import sys
from oal_engine import Studio
session = Studio(sys.argv[1]).session(1, annotator="other")
for question in session:
    session.answer(question, "other")
"""


@pytest.mark.slow
def test_two_processes_label(session, studio):
    """Two processes label one session at once, and their labels add up to the budget."""
    other = subprocess.Popen([sys.executable, "-c", OTHER, studio.store.path], cwd=ROOT, stderr=subprocess.PIPE)
    label(session)
    assert b"" == other.communicate()[1]
    assert 20 == len(session.labels)
    assert look_back.verify(studio.store, session.id).verified


def test_names_are_never_markup(session, studio):
    """A notebook never shows a name or a text as markup."""
    shown = [session._repr_html_(), session.question._repr_html_(), session.curves._repr_html_()]
    shown += [studio.data_sets._repr_html_(), studio.sessions._repr_html_()]
    assert MARKUP.split()[0] in str(session)
    for part in shown:
        assert MARKUP not in part


def test_every_kind_of_data_comes_in(studio, tmp_path, capsys):
    """A studio imports a file, a table of numbers, texts with missing labels, and texts of several classes."""
    (tmp_path / "a.txt").write_text("one day\ntwo day\nthree\n")
    assert 3 == studio.add(str(tmp_path / "a.txt"), "file", paragraphs=False).record["items"]
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(40, 3)), columns=["x", "y", 7])
    frame["label"] = np.where(frame["x"] > 0, "yes", "no")
    numbers = studio.add(frame, "numbers", positive="yes")
    assert ("vectors", 40) == (numbers.record["kind"], numbers.record["items"])
    assert frame[["x", "y", 7]].to_numpy().tolist() == [[*numbers.numbers.cells(k)] for k in range(40)]
    gaps = studio.add(["a b", "a c", "a d"], "gaps", labels=["x", None, "y"], positive="x")
    assert (1, 1, 3) == tuple(gaps.record[key] for key in ("positives", "negatives", "items"))
    session = studio.new_session(numbers, budget=2, positive_name="yes", negative_name="no")
    assert session.question.text.startswith("id = 1, x = ")
    classes = studio.add(topics(30), "classes", labels=["a", "b", "c"] * 10, multiclass=True)
    assert ["a", "b", "c"] == studio.new_session(classes).classes


class Stream:
    """A table of a library that offers its columns as Arrow does, such as polars."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, schema=None):
        """Return the columns as a stream of Arrow."""
        return self.table.__arrow_c_stream__(schema)


class Older:
    """A table of a library that converts itself to Arrow, such as older versions of polars."""

    def __init__(self, table):
        self.to_arrow = lambda: table


COLUMNS = {"text": ["one day", "two day", "three day", "four"], "label": ["a", "b", "a", None]}
ARROW = pyarrow.table(COLUMNS)
MATRIX = np.arange(12.0).reshape(4, 3)
IN_MEMORY = {  # {name: (data, labels)}
    "pandas": (pandas.DataFrame(COLUMNS), None),
    "pyarrow": (ARROW, None),
    "a batch": (ARROW.to_batches()[0], None),
    "a reader": (ARROW.to_reader(), None),
    "dictionary encoded": (pyarrow.table({name: ARROW[name].dictionary_encode() for name in COLUMNS}), None),
    "a stream": (Stream(ARROW), None),
    "an older table": (Older(ARROW), None),
    "a mapping": (COLUMNS, None),
    "labels apart": (ARROW.select(["text"]), COLUMNS["label"]),
    "a list": (COLUMNS["text"], COLUMNS["label"]),
    "a series": (pandas.Series(COLUMNS["text"]), COLUMNS["label"]),
    "a column": (ARROW["text"], COLUMNS["label"]),
    "a stream of texts": (Stream(ARROW["text"]), COLUMNS["label"]),
    "an array of words": (np.array(COLUMNS["text"]), np.array(COLUMNS["label"], object)),
    "a structured array": (np.array([*zip(*COLUMNS.values())], [("text", object), ("label", object)]), None),
    "a matrix": (MATRIX, COLUMNS["label"]),
    "whole numbers": (MATRIX.astype(np.int32), COLUMNS["label"]),
    "a sparse matrix": (csr_array(MATRIX), COLUMNS["label"]),
    "sparse columns": (coo_array(MATRIX), COLUMNS["label"]),
}


@pytest.mark.parametrize(("data", "labels"), IN_MEMORY.values(), ids=IN_MEMORY)
def test_data_in_memory_come_in(studio, capsys, data, labels):
    """Tables of any library that speaks Arrow, arrays and sparse matrices come in like a file with the same cells."""
    stored = studio.add(data, "data", labels=labels, positive="a")
    assert [1, -1, 1, 0] == stored.y.tolist()
    if stored.record["kind"] == "text":
        assert COLUMNS["text"] == [stored.item(k)["text"] for k in range(4)]
    else:
        assert MATRIX.tolist() == [[*stored.numbers.cells(k)] for k in range(4)]


def refused(call):
    """Check that a call is refused. Return the error."""
    with pytest.raises(ValueError, match=r".") as error:
        call()
    return str(error.value)


def sentence(call):
    """Check that a call is refused with one sentence. Return the sentence."""
    words = refused(call)
    assert re.fullmatch(r"(?!.*--).*[.?]", words), words
    return words


def test_wrong_arguments_are_refused_in_a_sentence(session, studio, tmp_path):
    """Each wrong argument is named, with the allowed values, and nothing is stored."""
    question = session.question
    assert "about sport, other, or None to skip. Got yes." in sentence(lambda: session.answer(question, "yes"))
    assert "Got 1." in sentence(lambda: session.answer(question, 1))
    assert "Got [1]." in sentence(lambda: session.answer(question, [1]))
    assert "no item nowhere" in sentence(lambda: session.know({"nowhere": "other"}))
    assert "no answer to take back" in sentence(session.undo)
    assert "no question 99" in sentence(lambda: session.correct(99, "other"))
    assert "labels" in sentence(lambda: session.add_labels(0))
    assert "Got pictures." in sentence(lambda: session.frame("pictures"))
    assert "must end in" in sentence(lambda: session.export(tmp_path / "labels.doc"))
    assert "question 1 has no answer yet" in sentence(lambda: [*session])
    assert 1 == len(session.labels)
    session.answer(question, "other")
    assert "answered already by python" in sentence(lambda: session.answer(question, "other"))
    assert "session 99 does not exist" in sentence(lambda: studio.session(99))
    assert "no sessions are called x" in sentence(lambda: studio.session("x"))
    assert "x does not exist" in sentence(lambda: studio.new_session("x"))
    assert "no setting colour" in sentence(lambda: studio.new_session(1, colour=3))
    assert "Got XYZ." in sentence(lambda: studio.new_session(1, "XYZ"))
    assert "no argument columns" in sentence(lambda: studio.add(["a"], "b", columns=3))
    assert 1 == len(studio.sessions)


def test_wrong_data_is_refused_in_a_sentence(studio):
    """Data that cannot be imported gives an error that names the argument to add or correct, and nothing is stored."""
    two = ["a b", "c d"]
    assert "no items" in sentence(lambda: studio.add([], "x"))
    assert "Got int." in sentence(lambda: studio.add([1, 2], "x"))
    assert "Got NoneType." in sentence(lambda: studio.add(["a", None], "x"))
    assert "Got float64." in sentence(lambda: studio.add(np.array([1.5, 2]), "x"))
    assert "Got int." in sentence(lambda: studio.add(7, "x"))
    assert "as many as the rows, 4. Got 1." in sentence(lambda: studio.add(MATRIX, "x", labels=["y"]))
    assert "name of its own" in sentence(lambda: studio.add(ARROW, "x", labels=COLUMNS["label"]))
    assert "label='NAME'" in sentence(lambda: studio.add("a.csv", "x", labels=["y"]))
    assert "as many as the texts, 2. Got 1." in sentence(lambda: studio.add(two, "x", labels=["y"]))
    assert "positive" in sentence(lambda: studio.add(two, "x", labels=["u", "v"]))
    assert "one type" in sentence(lambda: studio.add(pandas.DataFrame({"a": [1, "x", object()]}), "x"))
    twice = pandas.DataFrame([["a b", "c"]], columns=["t", "t"])
    assert "name of its own" in sentence(lambda: studio.add(twice, "x"))
    table = pandas.DataFrame({"text": two, "several": ["a|b", "b|c"]})
    assert "multiclass=True" in sentence(lambda: studio.add(table, "x", label="several"))
    assert [] == studio.data_sets["name"].tolist()
    assert [] == [*studio.store.folder.rglob("*")]


def test_similar_names_are_suggested(session, studio, capsys):
    """An error about an unknown name ends with the known names that are close to it."""
    data = studio.add(topics(30), "labelled", labels=WORDS[:30], positive="about sport")
    path = studio.store.folder / "out"
    for name, call in {
        "PAA-I": lambda: studio.new_session(data, "PAA-J"),
        "csoal": lambda: studio.compare("labelled", ["csoall"]),
        "pa-i": lambda: studio.new_session(data, learner="pai-i", rule="all"),
        "symmetric": lambda: studio.new_session(data, learner="pa-i", rule="symetric"),
        "labelled": lambda: studio.new_session("labeled"),
        "budget": lambda: studio.new_session(data, bugdet=3),
        "mine": lambda: studio.session("min"),
        "f1": lambda: studio.compare("labelled", ["OAAL"], criterion="f11"),
        "budgets": lambda: studio.compare("labelled", ["OAAL"], budget=[3]),
        "positive": lambda: studio.add(["a"], "b", postive="x"),
        "predictions": lambda: session.frame("prediction"),
        "positives": lambda: session.export(path, "positive"),
        "jsonl": lambda: session.export(path, format="json"),
    }.items():
        if name == "mine":
            studio.new_session(data, name=name)
        assert re.search(rf" Did you mean .*\b{name}\b.*\?$", refused(call), re.IGNORECASE), name


def test_the_package_lists_its_exports():
    """`dir` lists what the package exports, before it is imported too."""
    assert {"OnlineActiveClassifier", "Studio", "load_model", "load_models"} <= {*dir(oal_engine)}
    assert all(hasattr(oal_engine, name) for name in dir(oal_engine))


def test_a_comparison(studio, tmp_path, capsys):
    """A comparison gives a frame, a figure, a table for a notebook, and exports in the format of the file suffix."""
    data = studio.add(topics(60), f"data {MARKUP}", labels=WORDS[:60], positive="about sport")
    found = studio.compare(data.name, ["PAA-I", "OAAL"], budgets=[10], permutations=3)
    assert 6 == len(found.frame)
    assert found.figure(metric="sum").startswith("<svg")
    assert MARKUP not in found._repr_html_()
    assert "PAA-I" in found._repr_html_()
    for suffix in ("csv", "svg", "html", "json"):
        found.export(tmp_path / f"found.{suffix}")
    assert json.loads(json.dumps(found.as_json())) == json.loads((tmp_path / "found.json").read_text())
    assert "Got x." in sentence(lambda: found.figure(metric="x"))
    assert "no setting colour" in sentence(lambda: studio.compare(data.name, ["OAAL"], colour=1))


def test_a_column_is_audited_in_one_call(studio, capsys):
    """`audit` imports a table, answers from a column, and returns the session, whose metrics are those of the page."""
    words = ["yes" if word == "about sport" else "no" for word in WORDS]
    table = pandas.DataFrame({"text": topics(ITEMS), "truth": words, "llm": ["no", *words[1:-1], "yes"]})
    session = studio.audit(table, "llm", 60, "posts", "truth", positive="yes", features="words")
    rows = {(name, metric): each for name, metric, *each in session.metrics.itertuples(index=False)}
    judged = outcome.judged(Session(studio.store, session.id))
    assert ["llm", "llm + answers", "corrected column"] == [name for name, _ in judged]
    for name, figures in judged:
        assert all([*value] == rows[name, metric] for metric, value in figures.items() if value)
    assert rows["llm", "specificity"][0] > 0.9
    assert "yes" in {*session.frame("audit")["corrected"]}
    refused = sentence(lambda: studio.audit(table, "other", 60, "more"))
    assert "judge must be one of text, truth, llm. Got other." == refused


def test_a_temporary_studio():
    """A studio in memory leaves nothing on the disk."""
    studio = Studio(":memory:")
    path = studio.store.path
    assert path.exists()
    studio.store.close()
    del studio
    assert not path.parent.exists()
