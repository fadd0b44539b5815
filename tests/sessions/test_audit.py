"""Sessions that audit a column (labels or scores made by something else). Each answer judges two deciders: the column
alone, and the algorithm that begins with the column."""

import re
from io import BytesIO, StringIO

import numpy as np
import pandas
import pytest

from oal_engine import Studio
from oal_engine.datasets import Dataset, demo, feeds
from oal_engine.datasets.given import BOTH, COLUMN, stored_column
from oal_engine.experiments.replays import ReplayOptions, replay_column
from oal_engine.kernel.algorithms import strategy
from oal_engine.sessions import look_back, model
from oal_engine.sessions.files import bundle, export, methods, report
from oal_engine.sessions.insights import certainty, estimates, outcome
from oal_engine.sessions.insights.curves import percent
from oal_engine.sessions.one_question import OneQuestion, OtherColumn
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SessionError, create
from oal_engine.store import Store
from tests.harness.sessions import EVENTS, take_back, text_of, travelled

SETTINGS = demo.DEMOS["judged"].session | {"budget": 100, "positive_name": "Life", "negative_name": "Other"}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("audit") / "studio.db")


@pytest.fixture(scope="module")
def data(store):
    return Dataset(store, demo.dataset(store, "judged"))


@pytest.fixture(scope="module")
def opened(store, data):
    """An audit session whose questions were answered truthfully until its budget was spent."""
    session = Session(store, create(store, data.id, **SETTINGS))
    while session.current:
        session.answer(next(EVENTS), session.current.id, int(data.y[session.current.item]))
    return session


def test_an_audit_asks_and_learns_as_the_replay_of_the_column_does(data, opened):
    """A session that audits a column gets as many answers as `replay --column`. Its estimates and numbers of positives
    are the same, both for the column alone and for the algorithm that begins with the column."""
    column = stored_column(data, "llm", None, None)
    options = ReplayOptions(budget=100, floor=0.5, pace=1.0, rho="laplace")
    run = replay_column(strategy("auto"), data, column, options=options)["runs"][0]
    for name in (COLUMN, BOTH):
        replayed, part = run["deciders"][name]["estimates"], OneQuestion(opened, name)
        now = estimates.of_session(part)
        for metric in ("precision", "f1", "sum"):
            value = now.metrics["push"][metric]
            assert replayed["push"][metric] == (None if value is None else pytest.approx([*value], rel=1e-12))
        number, items = estimates.positives(part)
        assert pytest.approx([*number]) == replayed["positives"]
        assert replayed["rounds"] == items
    assert run["readings"] == len(opened.log)


@pytest.mark.slow
def test_an_audit_is_rebuilt_published_and_verified(store, data, opened, tmp_path):
    """An audit with an undo and a correction is rebuilt from its log bit for bit, here and in another database. The
    correction applies both to the column alone and to the column with the answers."""
    session = Session(store, create(store, data.id, **SETTINGS))
    for number in range(12):
        session.answer(next(EVENTS), session.current.id, int(data.y[session.current.item]) if number % 5 else 0)
    take_back(session)
    session.correct(next(EVENTS), session.log[3].id, -session.log[3].label)
    assert [session.log[3].label] * 2 == session.log[3].labels
    with pytest.raises(SessionError, match="an answer to an audit must be one label"):
        session.answer(next(EVENTS), session.current.id, [1, -1])
    assert session.digest() == Session(store, session.id).digest()
    assert look_back.verify(store, session.id).verified
    there = Store(tmp_path / "there.db")
    demo.dataset(there, "judged")
    assert session.digest() == travelled(store, session.id, there).digest()
    there.close()
    assert look_back.verify(store, opened.id).verified


def test_an_audit_of_another_column_is_not_adopted(tmp_path):
    """A published audit is refused by a database where any cell of the audited column differs, even a cell that the log
    does not need."""
    here, there = Studio(tmp_path / "here.db"), Studio(tmp_path / "there.db")
    rows = [{"text": f"item {k}", "llm": ("yes", "no")[k % 2]} for k in range(30)]
    for studio, last in ((here, "no"), (there, "yes")):
        frame = pandas.DataFrame([*rows, {"text": "last", "llm": last}])
        studio.add(frame, name="posts", text="text", label="", details=["llm"])
    text = text_of(here.store, here.new_session("posts", budget=9, column="llm").id)
    with pytest.raises(ValueError, match="has the same rows but other ids, texts or kept columns"):
        bundle.adopt(there.store, StringIO(text))
    assert [] == there.store.sessions()


@pytest.mark.slow
def test_the_outcome_compares_the_column_with_the_answers(opened):
    """The outcome of an audit has the metrics of the column alone and of the column with the answers. It also has the
    number of positives with an interval, and the benefit of 50 more answers. The report and the text for a methods
    section describe the audit."""
    lines = dict(outcome.table(opened))
    assert {"F1: llm", "F1: llm + answers", "F1: corrected column"} <= lines.keys()
    assert any(name.startswith("Life among ") and "(" in words for name, words in lines.items())
    assert re.match(r"F1 .*± 0\.\d\d, now ± 0\.\d\d", lines["50 more answers"])
    for name, run in outcome.deciders(opened).items():  # a guarantee near 0 is left out, as in the sentence
        floor = certainty.of_session(run)
        assert lines.get(f"Found, at least: {name}") == (percent(floor.recall) if floor.says_something else None)
    assert certainty.sentences(OneQuestion(opened, COLUMN))
    assert "column + answers" in report.page(opened).decode()
    text = methods.markdown(opened)
    assert "whether they are Life or Other, to audit the column llm, which they did not see." in text
    assert "llm + answers: " in text
    assert "questions (" not in text


def test_the_answers_judge_other_columns_too(store, data):
    session = Session(store, create(store, data.id, **SETTINGS | {"budget": 60}, others=["llm"]))
    while session.current:
        session.answer(next(EVENTS), session.current.id, int(data.y[session.current.item]))
    (_, *names), *lines = outcome.audit(session)[0]
    assert ["llm", "llm + answers", "corrected column", "llm"] == names
    assert all(column == other for _, column, _, _, other in lines[:3])
    own, other = OneQuestion(session, COLUMN), OtherColumn(session, "llm")
    assert estimates.of_session(own).metrics == estimates.of_session(other).metrics


def test_the_corrected_table_has_the_likely_errors_first(data, opened):
    """The audit table lists each item with the column's decision, the corrected decision, and the source of the
    correction. The likeliest errors come first."""
    frame = export.audit(opened)[0].frame
    assert len(data.y) == len(frame)
    answered = frame[frame["origin"] == "answer"]
    assert len(opened.labels) == len(answered)
    assert (answered["corrected"] == answered["answer"]).all()
    assert answered["asking_probability"].gt(0).all()
    wrong = frame["wrong"].to_numpy()
    assert (np.diff(wrong) <= 0).all()
    truth = np.where(data.y > 0, "Life", "Other")[frame["position"]]
    says_wrong = (frame["column"] != truth).to_numpy()
    assert says_wrong[:100].mean() > 3 * says_wrong.mean()
    assert (frame["corrected"] != truth).mean() < says_wrong.mean()


def test_the_annotator_does_not_see_what_the_column_says(store, data):
    session = Session(store, create(store, data.id, **SETTINGS, shown=["llm"]))
    assert [] == [*session.shown_columns]


def test_a_question_never_has_the_audited_column():
    """In Python, the item of a question lacks the audited column. A column that is a feature cannot be audited, because
    annotators see the features."""
    studio, kept = Studio(":memory:"), {"label": "y", "details": ["llm", "word"]}
    rows = [{"a": k % 7, "llm": k % 2, "word": ("no", "yes")[k % 2], "y": int(k % 7 > 4)} for k in range(60)]
    studio.add(pandas.DataFrame(rows), name="both", **kept)
    for column in ("llm", "word"):
        with pytest.raises(SessionError, match=f"column {column} is one of the features of both, which annotators see"):
            studio.new_session("both", budget=9, column=column)
    studio.add(pandas.DataFrame(rows), name="kept", feature=["a"], **kept)
    for column in ("llm", "word"):
        asked = studio.new_session("kept", budget=9, column=column).question
        assert {"id", "a", "llm", "word"} - {column} == {*asked.item}


def test_an_audit_takes_no_later_items(store, tmp_path):
    own = Store(tmp_path / "grows.db")
    data = Dataset(own, demo.dataset(own, "judged"))
    session = Session(own, create(own, data.id, **SETTINGS))
    line = BytesIO(b'{"id": "new", "text": "one more message about life"}\n')
    assert 1 == sum(feeds.append_lines(data, line, reader="jsonl"), feeds.AppendCounts()).appended
    assert 4001 == own.length(data.id)
    assert not session.grown
    session.answer(next(EVENTS), session.current.id, 1)
    assert session.digest() == Session(own, session.id).digest()
    own.close()


@pytest.mark.parametrize(("settings", "words"), [
    ({"column": "other"}, "column must be kept with the items of Demo: labels of a model"),
    ({"cut": 0.5}, "cut is for scores. Column llm"),
    ({"cut": "0.5"}, "cut must be a number. Got 0.5."),
    ({"cut": True}, "cut must be a number. Got True."),
    ({"column": None, "cut": 0.5}, "are for a column that it audits"),
    ({"others": ["other"]}, "column must be kept with the items"),
    ({"questions": ["a", "b"]}, "audits a column or asks several questions. Got column llm and questions."),
    ({"seed_words": ["life"]}, "a session that audits a column cannot have seed words, items or texts"),
    ({"overlap": 0.2}, "a session that audits a column cannot have an overlap"),
    ({"repeat": 0.2}, "a session that audits a column cannot have a repeat"),
    ({"algorithm": "auto-classes", "classes": ["a", "b"]}, "several classes"),
])  # fmt: skip
def test_an_audit_that_makes_no_sense_is_refused(store, data, settings, words):
    """An audit is refused if its column is missing or cannot be read, or if its settings do not fit an audit."""
    with pytest.raises(ValueError, match=words):
        create(store, data.id, **SETTINGS | settings)


def test_what_needs_a_model_of_texts_alone_is_refused(store, opened):
    """The model of an audit cannot be used or exported, because it needs the audited column as input. Further questions
    cannot be added to an audit."""
    for call, error in (
        (lambda: model.of_each(opened), "needs it"),
        (lambda: export.export(store, opened.id, "model", "json"), "needs it"),
        (lambda: export.export(store, opened.id, "audit", "csv", question=BOTH), "--question is not for"),
        (lambda: opened.add_question("e", "more"), "where a session asks several"),
    ):
        with pytest.raises(ValueError, match=error):
            call()


def test_a_column_may_hold_the_words_of_the_positive_class():
    """If cells of the audited column contain the name of the session's positive class, this name means positive.
    Otherwise the data set's words for positive labels do."""
    studio, words = Studio(":memory:"), ["spam", "ham", "advert"]
    rows = [{"text": f"item {k}", "y": words[k % 2], "llm": words[k % 3]} for k in range(30)]
    studio.add(pandas.DataFrame(rows), name="mail", text="text", label="y", positive=["spam"])
    for names, says in (({}, "spam"), ({"positive_name": "advert"}, "advert")):
        session = studio.new_session("mail", budget=9, column="llm", **names)
        frame = session.frame("audit")
        assert ((frame["column"] == session.classes[0]) == (frame["llm"] == says)).all()
