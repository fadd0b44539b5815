"""Sessions: every question is stored before it is shown, no answer is lost, and no item is asked about twice."""

import re
import sqlite3
from dataclasses import replace
from itertools import count
from math import isfinite

import numpy as np
import pytest

from oal_engine.kernel import metrics, stream
from oal_engine.kernel.learners import weights
from oal_engine.sessions import open_run
from oal_engine.sessions.log import Log
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import NEGATIVE, POSITIVE, SKIP, SessionError, create
from oal_engine.store import Store
from tests.harness.sessions import (
    EVENTS,
    RUNS,
    begin,
    label_truly,
    label_until_the_end,
    say,
    standing,
    take_back,
    truth,
)
from tests.harness.tables import replace_everywhere

# The question


def test_an_answer_takes_as_long_however_much_is_stored(path, store, monkeypatch):
    """No SQL statement for an answer, an undo or a correction scans a table, however much data is stored."""
    statements = set()

    def traced(self, mode, connect=Store._connect):
        connection = connect(self, mode)
        connection.set_trace_callback(statements.add)
        return connection

    session = begin(store).id
    monkeypatch.setattr(Store, "_connect", traced)
    opened = Session(Store(path), session)
    statements.clear()
    for label in (1, -1, SKIP, 1):
        say(opened, label)
    take_back(opened)
    opened.correct(next(EVENTS), opened.log[0].id, -1)
    say(opened, 1)
    assert opened.branches
    assert opened.history
    plans = sqlite3.connect(path)
    asked = [sql for sql in statements if sql.lstrip().startswith(("SELECT", "INSERT", "UPDATE", "DELETE", "WITH"))]
    steps = [(step, sql) for sql in asked for *_, step in plans.execute(f"EXPLAIN QUERY PLAN {sql}")]
    plans.close()
    assert any(step.startswith("SEARCH labels") for step, _ in steps)
    whole = re.compile("SCAN (datasets|items|sessions|questions|labels)")
    assert [] == [(step, sql) for step, sql in steps if whole.match(step)]


def test_a_question_keeps_why_it_was_asked(store):
    """The stored draw is below the stored probability, and both follow from the seed, the round and the margin."""
    opened = begin(store, seed=3, parameters={"delta": 0.2})
    label_until_the_end(opened)
    for entry in store.answers(opened.id):
        assert 0.2 / (0.2 + abs(entry["margin"])) == entry["probability"]
        assert stream.draw(3, entry["round"]) == entry["draw"] < entry["probability"]
        assert (1 if entry["margin"] >= 0 else -1) == entry["predicted"]


def test_a_question_is_asked_after_the_answer_before_it(store, monkeypatch):
    clock = count(100)
    monkeypatch.setattr(open_run, "now", lambda: str(next(clock)))
    replace_everywhere(monkeypatch, "now", lambda: str(next(clock)))
    opened = begin(store)
    label_truly(opened, 5)
    times = [time for entry in store.answers(opened.id)[:5] for time in (entry["asked_at"], entry["answered_at"])]
    assert sorted(times) == times


# The answer


def test_skip_spends_and_teaches_nothing(store):
    """A skip leaves the budget and every number of the learner as they are, and moves on to a later item."""
    opened = begin(store, algorithm="OA3-diag")
    say(opened, POSITIVE)

    def learned():
        state = opened.state
        return [
            array.tobytes() for array in (state.only().learner.w, state.only().learner.s, state.only().objective.seen)
        ]

    before, expected = opened.place, learned()
    say(opened, SKIP)
    after = opened.place
    assert expected == learned()
    assert (before.progress.left, 1, 1) == (after.progress.left, after.progress.labels, after.progress.skipped)
    assert after.asked.round > before.asked.round
    assert after.asked.number == before.asked.number + 1


@pytest.mark.parametrize("act", ["answer", "correct", "undo"])
def test_a_failure_leaves_nothing(store, monkeypatch, act):
    """If storing an answer, a correction or an undo fails, nothing of it is stored, and the same event can be sent
    again."""
    opened = begin(store)
    for label in (1, -1, 1):
        say(opened, label)
    question = opened.place.asked.id if act == "answer" else opened.previous
    arguments = next(EVENTS), question, *[NEGATIVE] * (act != "undo")

    def seen():
        return opened.place, opened.branches, opened.digest(), opened.version, opened.log, standing(store, opened)

    def full(*_):
        raise OSError("disk full")

    before = seen()
    monkeypatch.setattr(store, "number_question", full)
    with pytest.raises(OSError, match="disk full"):
        getattr(opened, act)(*arguments)
    monkeypatch.undo()
    assert before == seen()
    getattr(opened, act)(*arguments)
    assert {"answer": [1, -1, 1, -1], "correct": [1, -1, -1], "undo": [1, -1]}[act] == standing(store, opened)
    assert Session(store, opened.id).digest() == opened.digest()


# Undo


def test_undo_takes_one_step_back_without_the_rest_of_the_log(store, monkeypatch):
    """An undo restores the saved state before the last answer, and does not read the log."""
    opened = begin(store)
    for label in (1, -1, 0, 1):
        say(opened, label)
    place, digest, log, decided = opened.place, opened.digest(), opened.log, [part.tolist() for part in opened.decided]
    say(opened, -1)
    monkeypatch.setattr(Log, "read", None)
    take_back(opened)
    monkeypatch.undo()
    assert (digest, decided) == (opened.digest(), [part.tolist() for part in opened.decided])
    assert replace(place.asked, old=-1) == opened.place.asked
    assert [entry.id for entry in log] == [entry.id for entry in opened.log]
    assert Session(store, opened.id).digest() == opened.digest()
    take_back(opened)
    assert Session(store, opened.id).digest() == opened.digest()


def test_only_the_last_answer_can_be_taken_back(store):
    opened = begin(store)
    with pytest.raises(SessionError, match=r"^only the last answer can be taken back\.$"):
        opened.undo(next(EVENTS), opened.place.asked.id)
    first = opened.place.asked.id
    say(opened, POSITIVE)
    say(opened, NEGATIVE)
    with pytest.raises(SessionError, match=r"^only the last answer can be taken back\.$"):
        opened.undo(next(EVENTS), first)
    assert [1, -1] == standing(store, opened)


# Branches


def test_a_learner_too_big_to_branch_works_the_same(store, monkeypatch):
    """If a learner is larger than BRANCH_LIMIT, no next question is prepared, but questions, state and undo are the
    same as for a smaller one."""
    opened = begin(store, "dense", "OA3", averaged=True)
    label_until_the_end(opened)
    monkeypatch.setattr(open_run, "BRANCH_LIMIT", 0)
    heavy = begin(store, "dense", "OA3", averaged=True)
    while heavy.place.asked:
        assert {} == heavy.branches
        say(heavy, SKIP if heavy.place.asked.number == 3 else POSITIVE)
        take_back(heavy)
        say(heavy, truth(heavy))
    facts = ("number", "round", "item", "margin", "probability", "draw", "predicted", "label")
    expected, actual = ([[entry[fact] for fact in facts] for entry in store.answers(run.id)] for run in (opened, heavy))
    assert expected == actual
    assert opened.digest() == heavy.digest() == Session(store, heavy.id).digest()


# The budget and the end


def test_the_end_by_budget(store):
    """Once the budget is spent, the rest of the stream runs without questions; an undo asks the last question again."""
    opened = begin(store, budget=5)
    for label in (1, 0, -1, -1, 1):
        say(opened, label)
    waiting = opened.place
    assert waiting.progress.end is None
    say(opened, POSITIVE)
    progress = opened.place.progress
    assert opened.place.asked is None
    assert ("budget", 5, 0, 300) == (progress.end, progress.labels, progress.left, progress.streamed)
    assert 300 == opened.place.counts.sum() == opened.curve()[0][-1]
    with pytest.raises(SessionError, match="current question"):
        opened.answer(next(EVENTS), waiting.asked.id + 100, POSITIVE)
    again = Session(store, opened.id)
    assert (opened.place, opened.digest()) == (again.place, again.digest())
    take_back(again)
    assert waiting.progress == again.place.progress
    assert waiting.asked.id == again.place.asked.id


# Computations


@pytest.mark.slow
@pytest.mark.parametrize(("data", "algorithm", "more"), RUNS)
def test_a_session_equals_a_replay(store, data, algorithm, more):
    """A session answered with the labels of the data has the questions, counts, metrics and weights of a replay."""
    opened = begin(store, data, algorithm, **more)
    label_until_the_end(opened)
    again = stream.replay(
        opened.dataset.rows,
        opened.y,
        stream.shuffled(300, more.get("seed", 0)) if "shuffled" in more else np.arange(300),
        *opened.strategy.build(opened.dataset.rows.columns, 4 * opened.multiclass),
        stream.objective(),
        budget=40,
        seed=more.get("seed", 0),
        averaged="averaged" in more,
        log=True,
        plan=opened.settings.plan(),
    )
    asked = [(entry["round"], entry["margin"], entry["probability"]) for entry in store.answers(opened.id)]
    assert again.log.tolist() == [list(map(float, entry)) for entry in asked]
    assert weights(again.learner).tobytes() == opened.place.weights.tobytes()
    assert again.counts.tolist() == opened.place.counts.tolist()
    for evaluation in metrics.EVALUATIONS:
        assert str(opened.evaluate(again.counts, evaluation)) == str(opened.evaluate(opened.place.counts, evaluation))
    rounds, counts = opened.curve()
    assert (300, opened.place.counts.tolist()) == (rounds[-1], counts[-1].tolist())
    assert counts.sum((1, 2, 3)).tolist() == rounds.tolist()


@pytest.mark.parametrize(("data", "algorithm", "more"), RUNS[3::3])
def test_nothing_tells_of_an_item_before_its_answer(store, data, algorithm, more):
    """Counts, curves and pushed items cover the rounds before the waiting question, and reveal nothing of its item."""
    opened = begin(store, data, algorithm, **more)
    for _ in range(25):
        if not (asked := opened.place.asked):
            break
        place, (rounds, counts) = opened.place, opened.curve()
        _, predicted, was_asked = (part[: asked.round] for part in opened.decided)
        assert asked.round == place.counts.sum() == counts[-1].sum() == rounds[-1]
        classes = opened.y[opened.order[: asked.round]] + (not opened.multiclass)
        assert np.bincount(classes, minlength=place.counts.shape[1]).tolist() == place.counts.sum((0, 2)).tolist()
        if not opened.multiclass:
            assert ((predicted > 0) & ~was_asked).sum() == place.progress.pushed
        say(opened, truth(opened))


def test_audits_are_marked_and_their_number_is_exact(store):
    """Each question says whether it is a random check. Exactly the share `audit` of the budget is spent on random
    checks, because a skip costs nothing and an undo leads to the same check again."""
    opened = begin(store, audit=0.3, pace=0.8, seed=1)
    while asked := opened.place.asked:
        entry = store.answers(opened.id)[-1]
        assert asked.audit == entry["audit"]
        assert entry["draw"] < entry["probability"]
        if asked.number % 7 == 0:
            say(opened, SKIP)
        else:
            say(opened, truth(opened))
        if asked.audit and asked.number % 5 == 0:
            take_back(opened)
            assert (asked.item, 1) == (opened.place.asked.item, opened.place.asked.audit)
            say(opened, truth(opened))
    audits = [entry["audit"] for entry in store.answers(opened.id) if entry["label"]]
    assert (40, 12) == (len(audits), sum(audits))


def test_an_algorithm_with_a_fixed_rho_ignores_the_setting(store):
    """SOAL learns with rho = 1 whatever the setting. Other algorithms use the rho that is given, computed from the
    costs, or estimated."""
    weights = metrics.Weights(c_p=0.8)
    rho = {
        "fixed": create(store, "dense", "SOAL", rho=9),
        "number": create(store, "dense", "OA3", rho=9),
        "estimated": create(store, "dense", "OA3"),
        "cost": create(store, "dense", "OA3", metric="cost", weights=weights),
    }
    stored = {name: store.session(number)["rho"] for name, number in rho.items()}
    assert {"fixed": 1.0, "number": 9.0, "estimated": 0.0, "cost": pytest.approx(4.0)} == stored


def test_a_stream_without_labels_counts_in_the_unknown_class(store):
    opened, known = begin(store, "unlabelled"), begin(store, "sparse")
    while known.place.asked:
        label = truth(known)
        assert known.place.asked.item == opened.place.asked.item
        say(known, label)
        say(opened, label)
    assert known.place.weights.tobytes() == opened.place.weights.tobytes()
    assert known.place.counts.sum(axis=1).tolist() == opened.place.counts[:, 1].tolist()
    assert 0 == opened.place.counts[:, [0, 2]].sum()
    assert (False, True) == (opened.labelled, known.labelled)
    assert all(isfinite(value) for value in metrics.evaluate(opened.place.counts, "push").values())


def test_the_classes_of_a_session_give_the_labels_of_the_data_their_meaning(store):
    own = begin(store, "classes", "MPAA-I")
    words = [own.names[label] for label in own.y.tolist()]
    turned = begin(store, "classes", "MPAA-I", classes=("d", "new", "b"))
    assert [{"d": 1, "b": 3}.get(word, 0) for word in words] == turned.y.tolist()
    against = begin(store, "classes", positive_class="b", positive_name="B")
    assert [1 if word == "b" else -1 for word in words] == against.y.tolist()
    assert {1: "B", -1: "Not relevant"} == against.names
    assert (True, False, True) == (own.labelled, turned.labelled, against.labelled)
    for unknown in (begin(store, "classes"), begin(store, "sparse", "MPAA-I", classes=("a", "b"))):
        assert not unknown.y.any()


# Invalid settings


@pytest.mark.parametrize(("call", "message"), [
    ({"horizon": 0}, "horizon of a session must be a whole number >= 1 and < 2^53. Got 0."),
    ({"budget": "many"}, "budget of a session must be a whole number >= 1 and < 2^53. Got many."),
    ({"rho": "auto"}, "rho must be a number > 0, or laplace. Got auto."),
    ({"budget": 0}, "budget of a session must be a whole number >= 1 and < 2^53. Got 0."),
    ({"budget": 2.5}, "budget of a session must be a whole number >= 1 and < 2^53. Got 2.5."),
    ({"seed": -1}, "seed of a session must be a whole number >= 0 and < 2^53. Got -1."),
    ({"positive_name": "Yes", "negative_name": " Yes "}, "a session needs two different class names."),
    ({"positive_name": "  "}, "a session needs two different class names."),
    ({"metric": "f1"}, "metric must be sum or cost. Got f1."),
    ({"theta": float("nan")}, "theta must be a finite number. Got nan."),
    ({"algorithm": "MPAA"}, "the data set sparse has no classes of its own: name the classes to ask for."),
    ({"algorithm": "MPAA", "classes": ("a", " a")}, "a session needs 2 to 127 different class names. Got a, a."),
    ({"classes": ("a", "b", "c")}, "PAA-I asks for a positive and a negative class. Got 3 classes."),
    ({"positive_class": "a"}, "positive_class must be left out here. Got a."),
    ({"repeat": 1.5}, "repeat of a session must be >= 0 and <= 1. Got 1.5."),
    ({"repeat": float("nan")}, "repeat of a session must be >= 0 and <= 1. Got nan."),
    ({"overlap": -0.1}, "overlap of a session must be >= 0 and <= 1. Got -0.1."),
    ({"dataset": "classes", "algorithm": "auto-classes", "floor": 0.5},
     "a floor is for a positive and a negative class. Got several classes."),
    ({"dataset": "classes", "algorithm": "auto-classes", "seed_items": ["i1"]},
     "seed words, items and texts are for a positive and a negative class. Got several classes."),
    ({"dataset": "classes", "positive_class": "e"}, "positive_class must be one of a, b, c, d. Got e."),
])  # fmt: skip
def test_invalid_settings_are_refused(store, call, message):
    """A session with an invalid setting is not stored, and a one-sentence error names the allowed values and the given
    one."""
    before = len(store.sessions())
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        create(store, **{"dataset": "sparse", "algorithm": "PAA-I", "budget": 40} | call)
    with pytest.raises(ValueError, match=r"^algorithm must be one of auto, .*\. Got Nothing\.$"):
        create(store, "sparse", "Nothing")
    assert before == len(store.sessions())


def test_a_covariance_over_the_memory_limit_is_refused_before_the_session_is_made(store, monkeypatch):
    """A full covariance above OAL_MEMORY_LIMIT is refused with its size and a way out; a diagonal one is accepted."""
    monkeypatch.setenv("OAL_MEMORY_LIMIT", "500")
    with pytest.raises(
        ValueError, match=r"^acog-ii keeps a full covariance of 8 x 8 numbers: .* raise OAL_MEMORY_LIMIT"
    ):
        create(store, "sparse", "OA3")
    assert create(store, "sparse", "OA3-diag") > 0
