"""A trace of a session shows every step as it was, and the first difference from the log."""

import numpy as np
import pytest

from oal_engine.kernel import metrics
from oal_engine.sessions import look_back
from oal_engine.sessions.log import Log
from oal_engine.sessions.look_back import Trace, verify
from oal_engine.sessions.settings import create
from tests.harness.sessions import begin, label_truly, labelled

RUNS = [
    ("sparse", "PAA-I", {}),
    ("sparse", "D-AMD", {"shuffled": True}),
    ("classes", "MPAA-I", {"averaged": True}),
    ("sparse", "PAA-I", {"audit": 0.3, "audit_trains": False, "pace": 0.6, "horizon": 290, "seed": 4}),
]


@pytest.fixture(autouse=True)
def kept_often(monkeypatch):
    """Save a state after every seventh answer, so that even a short session has several saved states."""
    monkeypatch.setattr(look_back, "KEPT_EVERY", 7)


@pytest.mark.parametrize(("data", "algorithm", "more"), RUNS)
def test_every_question_is_as_it_was(store, data, algorithm, more):
    """Each step of a trace, opened in any order, has the session's progress, weights and counts at that time, and the
    weights that its answer changed, the largest changes first."""
    opened, places = labelled(store, data, algorithm, **more)
    trace = Trace(store, opened.id)
    assert (len(places) + 1, True, trace.rounds) == (trace.steps, trace.complete, trace.reached)
    for k in np.random.default_rng(0).permutation(len(places)):
        asked, progress, learned, counts = places[k]
        step = trace.step(int(k) + 1)
        assert (asked.item, asked.margin, progress) == (step.entry.item, step.entry.margin, step.place.progress)
        assert learned.tobytes() == step.place.weights.tobytes()
        assert counts.tobytes() == step.place.counts.tobytes()
        later = trace.step(int(k) + 2).place.weights
        for move in step.moved:
            cell = move.column if move.label is None else (move.column, move.label - 1)
            assert (learned[cell], later[cell]) == (move.old, move.new)
        sizes = np.sort(np.abs(later - learned), axis=None)[::-1]
        assert sizes[sizes > 0][:8].tolist() == [abs(move.new - move.old) for move in step.moved]
    end = trace.step(trace.steps)
    assert (None, None, []) == (end.entry, end.place.asked, end.moved)
    assert opened.place.counts.tobytes() == end.place.counts.tobytes() == trace.counts.tobytes()


def test_a_surprise_is_a_mistake_made_with_confidence(store):
    """Mistakes are wrong predictions of items that were asked about. Surprises are mistakes whose absolute margin is
    above the median of all questions."""
    opened, places = labelled(store)
    trace = Trace(store, opened.id)
    wrong = [e["number"] for e in store.answers(opened.id) if e["label"] and e["label"] != e["predicted"]]
    half = np.median([abs(asked.margin) for asked, *_ in places])
    assert wrong == trace.mistakes
    assert [n for n in wrong if abs(places[n - 1][0].margin) > half] == trace.surprises
    assert 0 < len(trace.surprises) < len(wrong)


def test_an_open_session_ends_at_the_current_question(store):
    """The last step of an open session is its current question; a session that was never opened has no step."""
    opened = begin(store)
    label_truly(opened, 3)
    trace = Trace(store, opened.id)
    assert (4, False, opened.place.asked.round + 1) == (trace.steps, trace.complete, trace.reached)
    assert (None, []) == (trace.step(4).entry.label, trace.step(4).moved)
    fresh = Trace(store, create(store, "sparse", "PAA-I"))
    assert (0, False, 0) == (fresh.steps, fresh.complete, fresh.reached)


# Verify


def test_a_session_verifies_with_its_counts(store):
    """The verification report counts the questions, answers and stored digests that were checked."""
    opened, places = labelled(store, budget=60)
    report = verify(store, opened.id)
    assert report.verified, report
    answers = len(places)
    assert (answers, answers, answers // 50) == (report.questions, report.answers, report.digests)
    assert report.digests > 0
    assert "Verified bit for bit" in str(report)


@pytest.mark.parametrize(
    "change",
    ["margin = margin + 1e-12", "predicted = -predicted", "item = item + 1", "round = round + 1", "draw = draw / 2"],
)
def test_the_first_question_that_differs_is_reported(store, change):
    """An altered question is reported with its round and the engine versions then and now; earlier steps can be
    opened."""
    opened, places = labelled(store)
    with store.transaction():
        store.db.execute(f"UPDATE questions SET {change} WHERE session = ? AND number = 17", [opened.id])
    report, trace = verify(store, opened.id), Trace(store, opened.id)
    assert not report.verified
    assert (17, places[16][0].round + 1, 16) == (report.number, report.round, report.questions)
    assert report.recorded != report.found
    assert "at question 17: it is not the one recorded" in str(report)
    assert (report.engine_then, report.engine_now) == (look_back.__version__,) * 2
    assert (16, False, trace.reached) == (trace.steps, trace.complete, trace.counts.sum())
    assert places[15][2].tobytes() == trace.step(16).place.weights.tobytes()


def test_a_digest_that_differs_is_reported(store):
    """A changed digest is reported at the answer after which it was stored; a changed label is reported at a later
    question."""
    opened, places = labelled(store, budget=60)
    with store.transaction():
        store.db.execute("UPDATE digests SET digest = 'other' WHERE session = ?", [opened.id])
    report = verify(store, opened.id)
    assert (50, places[49][0].round + 1, 50, 0) == (report.number, report.round, report.answers, report.digests)
    assert "at question 50: the state after it is not the one recorded" in str(report)
    opened, _ = labelled(store)
    (number, question) = next(
        (e["number"], e["id"]) for e in store.answers(opened.id) if e["number"] > 9 and e["label"] == 1
    )
    with store.transaction():
        store.db.execute("UPDATE events SET label = -1 WHERE question = ?", [question])
    assert number < verify(store, opened.id).number


def test_a_part_of_a_log_has_nothing_of_later_answers(store):
    """If only the first answers of a log are read, a question whose answer came later has no label, annotator, time or
    seconds."""
    opened, _ = labelled(store)
    log = Log.read(store, opened.id)
    first, waiting = log.until(1, 2)
    assert log.entries[0] == first
    later = (waiting.label, waiting.first, waiting.annotator, waiting.answered_at, waiting.seconds)
    assert (None,) * 5 == later


def test_a_session_that_differs_at_its_first_question_has_no_place(store):
    """If the first question already differs from the log, the session can be traced, but the trace has no step."""
    opened, _ = labelled(store)
    with store.transaction():
        store.db.execute("UPDATE questions SET margin = 5 WHERE session = ? AND number = 1", [opened.id])
    trace = Trace(store, opened.id)
    assert (0, 1) == (trace.steps, trace.report.number)


def test_tables_of_items_by_class(store):
    """One table has the confusion counts of all items; another compares each answer with its item's prediction."""
    opened, _ = labelled(store)
    trace = Trace(store, opened.id)
    tp, fp, tn, fn = metrics.confusion(trace.counts, "push")
    assert [[tp, fn], [fp, tn]] == look_back.confusion(trace, trace.counts, "push")
    table = np.array(look_back.answers_confusion(trace, trace.steps))
    assert (len(trace.labels), len(trace.mistakes)) == (table.sum(), table.sum() - table.trace())
