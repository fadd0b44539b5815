"""Sessions that ask several yes/no questions about each item: one answer has a label for each question, and all else
works as with one question."""

import json
import re

import numpy as np
import pytest

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.kernel import certainty as kernel_certainty
from oal_engine.kernel import metrics, questions, rows
from oal_engine.kernel.runs import Run
from oal_engine.sessions import another_pass, look_back, model
from oal_engine.sessions.files import export, methods, player, report
from oal_engine.sessions.insights import certainty, estimates
from oal_engine.sessions.one_question import OneQuestion, QuestionTrace, part_of
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SessionError, create
from tests.harness.published import held
from tests.harness.sessions import EVENTS, begin, stream_of, take_back

NAMES = ["half", "fifth", "rare"]
X = stream_of()[0]
SCORES = X @ np.random.default_rng(7).normal(size=(X.shape[1], len(NAMES)))
Y = np.where(SCORES > np.quantile(SCORES, (0.5, 0.8, 0.95), axis=0).diagonal(), 1, -1).T
PLANS = [{}, {"floor": 0.5}, {"audit": 0.3, "audit_trains": False}, {"floor": 0.3, "pace": 0.5, "shuffled": True}]


def of_several(store, data="unlabelled", **more):
    """Begin a session that asks three questions."""
    return begin(store, data, "auto", questions=NAMES, **more)


def give(opened, labels=None, **more):
    """Answer the current item, with the true labels unless others are given. Return the id of its question."""
    asked = opened.current
    opened.answer(next(EVENTS), asked.id, Y[:, asked.item] if labels is None else labels, **more)
    return asked.id


def labelled(store, count=25, **more):
    """Return a session with `count` answers: some skips, some without a label for `fifth`, an undo and corrections."""
    opened = of_several(store, **more)
    for number in range(count):
        labels = Y[:, opened.current.item]
        id = give(opened, 0 if number % 7 == 6 else labels * [1, number % 5 > 0, 1])
        if number == 9:
            take_back(opened)
            give(opened, -labels)
        if number % 10 == 4:
            opened.correct(next(EVENTS), id, int(-labels[1]), name="fifth")
    return opened


def runs_of(opened):
    """Return a `Run` for each question of a session, over the true labels, ready to be replayed."""
    settings = opened.settings
    return [
        Run(
            opened.strategy, opened.dataset.rows, y, opened.order, rho=settings.rho, ratio=opened.weights.ratio("sum"),
            theta=settings.theta, budget=settings.budget, seed=settings.seed, horizon=settings.horizon,
            audit=settings.audit, audit_trains=settings.audit_trains, pace=settings.pace, floor=settings.floor,
        )
        for y in Y
    ]  # fmt: skip


def with_labels(store, kind):
    """Add a data set whose file answers the questions, either in its label cells or in further columns of 1 and -1.
    Return the data set's id."""
    _, items = stream_of()
    if kind == "cells":
        items.y, items.labels = Y[0], ["|".join(np.array(NAMES)[column > 0]) for column in Y.T]
        columns = reading.Columns(label="topics", positive=("half",), contains=True)
    else:
        items.y, items.details = np.zeros_like(items.y), [json.dumps([*map(str, column)]) for column in Y.T.tolist()]
        items.columns = columns = reading.Columns(details=tuple(NAMES))
    return datasets.add(store, f"{kind} of {next(EVENTS)}", datasets.table(items), "made.csv", columns)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cells", "columns"])
def test_where_the_file_has_the_labels_the_curves_are_those_of_a_replay(store, tmp_path, kind):
    """If the file has the labels, the counts of each question are exact along the stream and at each step of its look
    back. The labels do not change the session's state. A question without labels in the file has no exact counts."""
    opened, plain = of_several(store, with_labels(store, kind), floor=0.3), of_several(store, floor=0.3)
    places = {name: [] for name in NAMES}
    while opened.current:
        for name in NAMES:
            places[name].append(OneQuestion(opened, name).place.counts.tolist())
        give(opened)
        give(plain)
    assert plain.digest() == opened.digest()
    trace, rounds = look_back.Trace(store, opened.id), OneQuestion(opened, "half").curve()[0]
    for name, replayed in zip(NAMES, questions.replay(runs_of(opened), marks=rounds)):
        look = QuestionTrace(trace, name)
        for run in (OneQuestion(opened, name), look):
            assert run.labelled
            assert replayed.curve.tolist() == run.curve()[1].tolist()
            assert replayed.counts.tolist() == run.counts.tolist()
        assert [*places[name], replayed.counts.tolist()] == [
            look.step(number).place.counts.tolist() for number in range(1, look.steps + 1)
        ]
        t = next(t for t in range(look.reached) if not look.asked_in(t) and t > 40)
        assert look.round(t)[0].counts.sum() == t + 1
        assert look.round(t)[0].counts[:, 1].sum() == 0
        assert b"Exact: every item" in report.page(OneQuestion(opened, name))
    opened.add_question(next(EVENTS), "more", parent="half")
    assert [True, True, True, False] == [OneQuestion(opened, name).labelled for name in (*NAMES, "more")]
    assert "The metrics of half, fifth, rare are exact: every item" in methods.markdown(opened)
    assert "Of the others: Metrics were estimated" in methods.markdown(opened)


def test_the_labels_of_the_file_are_read_once(store):
    """An undo of several answers, which replays the log, does not read the labels of all items again."""
    opened = of_several(store, with_labels(store, "columns"))
    give(opened), give(opened)
    before = OneQuestion(opened, "half").y
    take_back(opened), take_back(opened)
    assert before is OneQuestion(opened, "half").y
    assert "_cells" not in vars(OneQuestion(of_several(store), "half"))  # without labels there is nothing to prepare


@pytest.mark.parametrize("more", PLANS)
def test_a_session_reads_and_learns_as_a_replay_does(store, more):
    """The rounds, probabilities, margins, predictions, audits, counts and weights of a session equal those of a replay
    of its questions over the same stream, bit for bit."""
    opened = of_several(store, **more)
    while opened.current:
        give(opened)
    for k, (name, replayed) in enumerate(zip(NAMES, questions.replay(runs_of(opened)))):
        part = OneQuestion(opened, name)
        log = [(entry.round, entry.margin, entry.probability) for entry in part.log]
        assert log == [tuple(line) for line in replayed.log.tolist()]
        assert [[entry.audit, entry.predicted] for entry in part.log] == replayed.decided.tolist()
        assert Y[k, [entry.item for entry in part.log]].tolist() == [entry.label for entry in part.log]
        assert part.counts.sum(1).tolist() == replayed.counts.sum(1).tolist()
        for ours, theirs in zip(part.learner, replayed.learner):
            if isinstance(ours, np.ndarray):
                assert ours.tobytes() == theirs.tobytes()
    assert look_back.verify(store, opened.id).verified


def test_a_correction_is_of_one_question(store):
    """A corrected label retrains the learner of its question; the other learners keep every bit, and the first labels
    stay in the log."""
    opened = of_several(store)
    ids = [give(opened) for _ in range(10)]
    before, labels = opened.state.copy(), opened.log[3].labels
    opened.correct(next(EVENTS), ids[3], -labels[1], name="fifth")
    entry = opened.log[3]
    assert entry.corrected
    assert (labels, [labels[0], -labels[1], labels[2]]) == (entry.firsts, entry.labels)
    same = [
        [array.tobytes() for array in new if isinstance(array, np.ndarray)]
        == [array.tobytes() for array in old if isinstance(array, np.ndarray)]
        for new, old in zip((part.learner for part in opened.state.parts), (part.learner for part in before.parts))
    ]
    assert [True, False, True] == same
    assert before.spent == opened.state.spent


def test_a_whole_answer_is_corrected_at_once(store):
    """A correction with a label for each question is stored as one event; a correction to 0 makes the item a skip."""
    opened = of_several(store)
    ids = [give(opened) for _ in range(6)]
    labels = opened.log[2].labels
    opened.correct(next(EVENTS), ids[2], [-label for label in labels])
    assert [-label for label in labels] == opened.log[2].labels
    assert 1 == len(store.events(opened.id, "corrected"))
    opened.correct(next(EVENTS), ids[2], 0)
    assert (0, [0, 0, 0], 5) == (opened.log[2].label, opened.log[2].labels, opened.place.progress.labels)
    assert opened.digest() == Session(store, opened.id).digest()


def test_one_question_has_a_place_and_a_past(store):
    """The view of one question (`part_of`) has the progress of the session, but counts the answers to this question.
    Its weights after 10 answers equal the weights of a session that has only these answers."""
    opened, fewer = of_several(store), of_several(store)
    for number in range(20):
        give(opened)
        if number < 10:
            give(fewer)
    for k, name in enumerate(NAMES):
        part = part_of(opened, name)
        assert (20, True) == (part.place.progress.labels, part.place.progress.waiting)
        assert part.place.progress.answers[1] == sum(entry.labels[k] == 1 for entry in opened.log if entry.labels)
        before, past = part.earlier(10), OneQuestion(fewer, name).place.weights
        assert before.tobytes() == past.tobytes()
        assert not np.array_equal(before, part.place.weights)
    assert part_of(opened, None) is opened


def test_an_answer_without_any_label_is_a_skip(store):
    opened = of_several(store)
    give(opened, [0, 0, 0])
    give(opened, 0)
    assert (0, 2) == (opened.place.progress.labels, opened.place.progress.skipped)
    give(opened, [0, -1, 0])
    assert {1: 0, -1: 1} == opened.place.progress.answers
    id = give(opened, [1, -1, 0])
    assert (2, {1: 1, -1: 1}) == (opened.place.progress.labels, opened.place.progress.answers)
    for name in ("half", "fifth"):
        opened.correct(next(EVENTS), id, 0, name=name)
    assert (1, 3) == (opened.place.progress.labels, opened.place.progress.skipped)


@pytest.mark.parametrize(("more", "sentence"), [
    ({"questions": ["one"]}, "must be 2 to 26, or left out to ask one. Got 1."),
    ({"questions": ["a", "a "]}, "different names. Got a twice."),
    ({"questions": ["a", ""]}, "each question needs a name"),
    ({"questions": [str(k) for k in range(27)]}, "2 to 26"),
    ({"questions": ["a", "b|c"]}, r"no \|. Got b\|c"),
    ({"questions": ["a", {"name": "b", "key": "x"}]}, "guidelines and a parent. Got key"),
    ({"averaged": True}, "cannot have averaged weights"),
    ({"seed_items": ["i1"]}, "cannot have seed words"),
    ({"classes": ["a", "b"]}, "cannot have several classes"),
    ({"algorithm": "auto-classes", "classes": ["a", "b"]}, "cannot have several classes"),
    ({"algorithm": "Q_D"}, "a rule that gives every item a chance"),
])  # fmt: skip
def test_settings_that_several_questions_do_not_have_are_refused(store, more, sentence):
    with pytest.raises(SessionError, match=sentence):
        create(store, "sparse", **{"algorithm": "auto", "budget": 40, "questions": NAMES} | more)


def test_what_is_about_one_question_is_refused(store):
    """In a session of several questions, answers and corrections that do not fit its questions are refused, and so are
    views that need one question. The session stays as it was."""
    opened = of_several(store)
    id = give(opened)
    before = opened.digest()
    for call, sentence in (
        (lambda: give(opened, 1), "a label for each of half, fifth, rare"),
        (lambda: give(opened, [1, 1]), "3 labels. Got 2"),
        (lambda: give(opened, [1, 1, 2]), "a label must be"),
        (lambda: opened.correct("e", id, 1), "a label for each of half, fifth, rare"),
        (lambda: opened.correct("e", id, [1, -1]), "3 labels. Got 2"),
        (lambda: opened.correct("e", id, [1], name="half"), "a label must be"),
        (lambda: opened.correct("e", id, 1, name="other"), "Got other"),
        (lambda: opened.know("e", {250: 1}, "file"), "several questions"),
        (lambda: opened.feedback("e", 0, True), "several questions"),
        (lambda: opened.curve(), "several questions"),
        (lambda: estimates.of_session(opened), "several questions"),
        (lambda: model.of_session(opened), "several questions"),
        (lambda: another_pass.begin(opened), "several questions"),
        (lambda: look_back.Trace(store, opened.id).round(0), "several questions"),
        (lambda: export.export(store, opened.id, "methods", "markdown", question="half"), "not for labels"),
        (lambda: export.export(store, opened.id, "predictions", "csv", question="other"), "one of half, fifth, rare"),
        (lambda: OneQuestion(opened, "other"), "Got other"),
        (lambda: begin(store).correct("e", 1, 1, name="half"), "left out"),
        (lambda: begin(store).answer("e", 1, [1, -1]), "one of the labels. Got 2"),
    ):
        with pytest.raises(ValueError, match=sentence):
            call()
    assert before == opened.digest() == Session(store, opened.id).digest()


def test_estimates_floors_and_models_are_of_one_question(store):
    """Each question has its own estimates, model and guaranteed minimum metrics, as in a session of one question. These
    minimums do not exceed the truth."""
    opened = of_several(store, budget=150, floor=0.5)
    while opened.current:
        give(opened)
    trace = look_back.Trace(store, opened.id)
    for k, name in enumerate(NAMES):
        part = OneQuestion(opened, name)
        _, predicted, asked = part.decided
        hit = (predicted > 0) | asked
        positive = Y[k, opened.order[: hit.size]] > 0
        floors, found = certainty.of_session(part), estimates.of_session(part)
        assert 0 <= floors.recall <= (hit & positive).sum() / positive.sum()
        assert found.positives == (asked & positive).sum()
        later = OneQuestion(trace, name)
        assert (found, floors) == (estimates.of_session(later), certainty.of_session(later))
        fitted = model.of_session(part)
        margins, _ = fitted.decided(fitted.scores(opened.dataset.rows))
        np.testing.assert_allclose(margins[opened.order[-1]], part.decided[0][-1])
        assert [name, f"not {name}"] == fitted.head["classes"]


@pytest.mark.slow
def test_floors_hold_for_all_questions_at_once(store):
    """The guaranteed minimums of recall that hold for all three questions at once have a third of the risk each
    (Bonferroni). Each is lower than the guaranteed minimum of its question alone, and below the truth. A session of one
    question, or without the `floor` option, has none."""
    opened = of_several(store, budget=150, floor=0.6)
    while opened.current:
        give(opened)
    together, third = certainty.all_at_once(opened), kernel_certainty.RISK / 3
    assert NAMES == [*together]
    for name, y in zip(NAMES, Y):
        part = OneQuestion(opened, name)
        log, counts = part.log, part.counts.sum(axis=(1, 2))
        arrays = (np.array(each) for each in zip(*((e.label, e.predicted > 0, e.probability) for e in log)))
        looks = (np.array([each]) for each in (len(log), counts.sum(), counts[1]))
        worst = kernel_certainty.tables(*arrays, *looks, opened.state.plan.promised, risk=third)
        assert kernel_certainty.floors(worst, opened.weights)["push_query"]["recall"][0] == together[name]
        found = np.isin(opened.order, [entry.item for entry in log]) | (part.decided[1] > 0)
        assert 0 < together[name] < certainty.of_session(part).recall <= found[y[opened.order] > 0].mean()
    sentence = certainty.in_words(together)
    assert sentence.startswith(f"All questions at once: at least {together['half']:.0%} of half, ".replace("%", " %"))
    assert sentence in report.page(opened).decode()
    assert {} == certainty.all_at_once(of_several(store)) == certainty.all_at_once(begin(store, floor=0.5))


@pytest.mark.slow
def test_the_report_has_a_line_for_each_question(store):
    """The report has a table with the estimates of each question, their mean, and the worst estimate with the name of
    its question. A section for each question follows, with the number of its corrected labels."""
    opened = labelled(store, 40, budget=100, floor=0.5)
    while opened.current:
        give(opened)
    found = {name: estimates.of_session(OneQuestion(opened, name)) for name in NAMES}
    known = {name: now.metrics["push"]["f1"] for name, now in found.items() if now.metrics["push"]["f1"]}
    assert len(known) > 1
    mean, worst, name = estimates.over(found, "push", "f1")
    assert mean == pytest.approx(np.mean([*known.values()], axis=0))
    assert (known[name], min(each.value for each in known.values())) == (worst, worst.value)
    text = report.page(opened).decode()
    table, *sections = re.split("<h2[^>]*>", text)[1 : 2 + len(NAMES)]
    cells = [re.findall("<t[hd][^>]*>(.*?)</t[hd]>", row) for row in table.split("<tr>")]
    lines = {row[0]: row[1:] for row in cells if row}
    assert ["", *NAMES, "Mean", "Worst"] == [*lines]
    column = lines[""].index("F1 under push")
    for line, value in (*known.items(), ("Mean", mean), ("Worst", worst)):
        assert f"{value.value:.3f} ({value.low:.3f} to {value.high:.3f})" in lines[line][column]
    assert lines["Worst"][column].endswith(f", {name}")
    assert NAMES == [section[: section.index("<")] for section in sections]
    corrected = [[entry.of_part(k).corrected for entry in opened.log].count(True) for k in range(3)]
    assert [0, True, 0] == [corrected[0], corrected[1] > 0, corrected[2]]
    for count, section in zip(corrected, sections):
        assert (f"Corrected labels: {count}." if count else "No label was corrected.") in section
    early = Session(store, of_several(store).id)
    give(early)
    assert "Worst" not in report.page(early).decode()


def test_the_report_of_one_question_is_about_it_alone(store, tmp_path):
    opened = labelled(store, 12)
    export.export(store, opened.id, "report", "html", tmp_path / "fifth.html", question="fifth")
    text = (tmp_path / "fifth.html").read_text("utf-8")
    assert f"{opened.settings.name}: fifth</h1>" in text
    heads = ["Result", "How good it is", "Answers", "Annotators", "Learned terms", "Answers to check", "Corrections"]
    assert [*heads, "Settings and versions"] == re.findall("<h2[^>]*>([^<]*)</h2>", text)
    assert "not fifth" in text
    assert "Corrected labels: 1." in text
    assert not re.search("half|rare", text)


@pytest.mark.slow
@pytest.mark.parametrize("more", PLANS)
def test_the_look_back_of_one_question_shows_it_as_it_was(store, more):
    """Each step of the look back has the question's progress, weights and counts at that time, the changes made by its
    answer, and the decisions of the rounds before it. A round's probability is that its item is asked about."""
    opened, places = of_several(store, **more), {name: [] for name in NAMES}
    for number in range(25):
        for name in NAMES:
            places[name].append(OneQuestion(opened, name).place)
        give(opened, 0 if number % 7 == 6 else None)
    trace, (margins, predicted, _) = look_back.Trace(store, opened.id), opened.decided
    X = rows.matrix(trace.dataset.rows)
    for k, name in enumerate(NAMES):
        look = QuestionTrace(trace, name)
        assert [entry.round for entry in trace.log] == [entry.round for entry in look.log]
        for number, place in enumerate(places[name], 1):
            step = look.step(number)
            assert (place.progress, place.asked.item) == (step.place.progress, step.entry.item)
            assert place.weights.tobytes() == step.place.weights.tobytes()
            assert place.counts.tobytes() == step.place.counts.tobytes()
            later = look.step(number + 1).place.weights
            assert [(later[m.column], place.weights[m.column]) for m in step.moved] == [
                (m.new, m.old) for m in step.moved
            ]
            if step.passed.rounds:
                t, entry = step.passed.first, step.entry
                passed = [look.round(t) for t in range(t, entry.round)]
                assert margins[k, t : entry.round].tolist() == [there.asked.margin for there, _ in passed]
                assert predicted[k, t : entry.round].tolist() == [there.asked.predicted for there, _ in passed]
                scores = [(X[[there.asked.item]] @ there.weights).item() for there, _ in passed]
                offsets = [there.asked.margin - score for (there, _), score in zip(passed, scores)]
                assert np.ptp(offsets) < 1e-12  # all are the weight of the bias
                assert all(draw >= there.asked.probability > 0 for there, draw in passed)
                assert passed[-1][0].counts.sum() == entry.round == place.counts.sum()
                decided, *_ = look._inspect(number, t, entry.round + 1)
                assert [entry.margin, entry.probability, entry.draw, entry.predicted] == decided[-1].tolist()


def test_the_page_of_a_player_is_about_one_question(store):
    """The player page of a session of several questions is about one question, which must be named: it has the margins,
    predictions, answers and curves of this question."""
    opened = labelled(store, 40)
    trace = look_back.Trace(store, opened.id)
    with pytest.raises(SessionError, match="this is about one of them: name it"):
        player.page(trace)
    for k, name in enumerate(NAMES):
        page = player.page(QuestionTrace(trace, name))
        log = held(page)["log"]
        assert f"<h1>{opened.settings.name}: {name}</h1>".encode() in page.replace(b' dir="auto"', b"")
        assert [[1, name], [-1, f"not {name}"]] == log["names"]
        assert [entry.labels and entry.labels[k] for entry in opened.log] == log["labels"]
        assert pytest.approx([entry.parts[k][0] for entry in opened.log], rel=1e-5) == log["margins"]
        asked, pushed = log["charts"][-2]["lines"]
        assert ("asked", "pushed") == (asked["name"], pushed["name"])
        counts = OneQuestion(opened, name).place.counts
        assert pushed["y"][-1] == pytest.approx(metrics.pushed(counts) / counts.sum(), abs=1e-5)


def test_tables_have_columns_for_each_question(store):
    """In a session of several questions, the exported labels have the label and margin of each question, and the
    exported decisions have its margin and predicted class."""
    opened = labelled(store, 5)
    labels = export.labels(store, opened.id)[0].frame
    decisions = export.decisions(opened)[0].frame
    for k, name in enumerate(NAMES):
        entries = [entry.of_part(k) for entry in opened.log]
        assert [entry.label or None for entry in entries] == [
            None if np.isnan(label) else label for label in labels[f"label:{name}"].astype(float)
        ]
        assert [entry.margin for entry in entries] == labels[f"margin:{name}"].tolist()
        asked = decisions[decisions["asked"] == 1]
        assert [entry.predicted for entry in entries] == asked[f"predicted:{name}"].tolist()
        assert [entry.margin for entry in entries] == asked[f"margin:{name}"].tolist()
    assert {"some", "none"} == set(labels["class"].dropna())
