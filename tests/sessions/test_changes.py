"""Corrections, and marks that are used for training, retrain the learner but change no past question. Notes change
neither the learner nor a question."""

import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from secrets import token_hex

import numpy as np
import pytest

from oal_engine import datasets
from oal_engine.datasets import Dataset, feeds, reading
from oal_engine.kernel import rows
from oal_engine.sessions import look_back
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import NEGATIVE, POSITIVE, SKIP, SessionError
from oal_engine.store import Store, StoreError
from tests.harness.sessions import (
    EVENTS,
    begin,
    label_truly,
    label_until_the_end,
    say,
    stream_of,
    take_back,
    truth,
)

RUNS = [
    ("sparse", "PAA-I", {}),
    ("sparse", "SSOA3", {"averaged": True, "shuffled": True}),
    ("classes", "auto-classes", {"shuffled": True}),
    ("sparse", "PAA-I", {"audit": 0.4, "audit_trains": False, "pace": 0.8}),
    ("sparse", "auto", {"parameters": {"early": 5}}),
]
CHANGES = "corrected", "marked", "added"
EACH = pytest.mark.parametrize(("data", "algorithm", "more"), RUNS)


def learned(opened):
    """Return copies of all arrays that depend on labels: in the learner, the rule, the objective and the average."""
    return [array.copy() for array in opened.state.arrays()[:-1]]


def same(first, second):
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first, second, strict=True))


def correct(opened, place, label, **more):
    """Correct the answer at an index of the log. Return the id of the event."""
    event = next(EVENTS)
    opened.correct(event, opened.history[place].id, label, **more)
    return event


def facts(opened):
    """Return the recorded facts of each question so far: id, round, item, margin, chance, draw and prediction."""
    names = "id", "round", "item", "margin", "probability", "draw", "predicted"
    return [tuple(getattr(entry, name) for name in names) for entry in opened.history]


def passed_item(opened, predicted=1):
    """Return the last unasked item that was predicted as the class `predicted`."""
    _, classes, asked = opened.decided
    return int(opened.order[np.flatnonzero((classes == predicted) & ~asked)[-1]])


def growing(store, data):
    """Create a data set with the first 20 items of `data`. Return its name, and a function to append the next 10."""
    source, name, starts = Dataset(store, data), f"growing {next(EVENTS)}", iter(range(20, 300, 10))
    X, names, classes = rows.matrix(source.rows), list("abcdefgh"), tuple(source.record["classes"] or ())

    def items(first, stop):
        ids = [f"i{k}" for k in range(first, stop)]
        return reading.Items(ids, None, X[first:stop], names, ids, source.y[first:stop], {}, classes)

    def grow():
        first = next(starts)
        feeds.append(Dataset(store, name), items(first, first + 10))

    datasets.add(store, name, datasets.table(items(0, 20)), "made.npz")
    return name, grow


def looked_back(opened):
    """Return the trace of a session, after checking it against the session's decisions in each round."""
    margins, predicted, asked = opened.decided
    trace = look_back.Trace(opened.store, opened.id)
    assert trace.report.verified
    assert (trace.reached, [entry.round for entry in trace.log]) == (asked.size, np.flatnonzero(asked).tolist())
    assert [entry.margin for entry in trace.log] == margins[asked].tolist()
    X = rows.matrix(trace.dataset.rows)
    for t in np.flatnonzero(~asked).tolist():
        this_round = trace.round(t)
        assert (margins[t], predicted[t], t + 1) == (this_round.margin, this_round.predicted, this_round.counts.sum())
        assert this_round.probability <= this_round.draw
        if not hasattr(trace.learner, "bias"):  # the bias is not the weight of a feature
            scores = np.sort((X[[this_round.item]] @ this_round.weights).ravel())
            assert this_round.margin == pytest.approx(scores[-1] - (scores[-2] if trace.multiclass else 0), abs=1e-12)
    for number in range(1, trace.steps + 1):
        passed = trace.step(number).passed
        some = slice(passed.first, passed.first + passed.rounds)
        pushed = None if trace.multiclass else (predicted[some] > 0).sum()
        assert (not asked[some].any(), pushed) == (True, passed.pushed)
        assert (passed.low, passed.high) == (min(margins[some], default=None), max(margins[some], default=None))
    if trace.complete:
        assert opened.place.progress == trace.step(trace.steps).place.progress
        assert opened.digest() == trace.state.digest()
    return trace


def test_the_learner_is_told_the_chances_of_the_log(store):
    """The learner of `auto` gets the logged asking probability of each answer, even after a correction. Known labels
    and marks have the probability 1."""
    opened = begin(store, "sparse", "auto", known_labels=20, budget=30, audit=0.2)
    label_truly(opened, 15)
    expected = [1.0] * 20 + [entry.probability for entry in opened.log if entry.label]
    assert min(expected) < 1
    assert expected == opened.learner.chances[:35].tolist()
    correct(opened, 12, -opened.log[12].label)
    opened.feedback(next(EVENTS), passed_item(opened), True, trains=True)
    assert [*expected, 1.0] == opened.learner.chances[:36].tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "learner", "more"),
    [("sparse", "pa-i", {"averaged": True}), ("sparse", "acog-ii-diag", {}), ("classes", "m-pa", {})],
)
def test_a_corrected_learner_equals_one_with_the_right_labels_from_the_start(store, data, learner, more):
    """Under the random rule, correcting wrong answers later gives the same learner, bit for bit, as right answers from
    the start."""
    wrong, right = (begin(store, data, None, learner=learner, rule="random", budget=25, **more) for _ in range(2))
    label_until_the_end(right)
    corrections = {}
    while wrong.place.asked:
        number, label = wrong.place.asked.number, truth(wrong)
        if number % 6 == 3:
            corrections[number - 1] = label
            label = next(other for other in wrong.names if other != label)
        say(wrong, label)
    assert not same(learned(wrong), learned(right))
    for place, label in corrections.items():
        correct(wrong, place, label)
    assert same(learned(wrong), learned(right))
    assert [entry.label for entry in right.history] == [entry.label for entry in wrong.history]


@pytest.mark.slow
@EACH
def test_what_happened_stays(store, data, algorithm, more):
    """A correction changes the learner, but no question, no decision and no count so far."""
    opened = begin(store, data, algorithm, **more)
    label_truly(opened, 12)
    before = facts(opened), opened.place.asked, opened.place.counts.copy(), [a.copy() for a in opened.decided]
    learner, digest, version = learned(opened), opened.digest(), opened.version
    place, old = next((k, asked.label) for k, asked in enumerate(opened.history) if k >= 4 and not asked.audit)
    correct(opened, place, next(label for label in opened.names if label != old))
    assert before[0] == facts(opened)
    assert before[1] == opened.place.asked
    assert np.array_equal(before[2], opened.place.counts)
    assert same(before[3], opened.decided)
    assert not same(learner, learned(opened))
    assert version != opened.version
    entry = opened.history[place]
    assert (True, old) == (entry.corrected, entry.first)
    correct(opened, place, old)
    assert digest == opened.digest()


def attempts(act, stop):
    """Repeat an action until `stop` is set. Return the acknowledged events and the errors."""
    acknowledged, refused = [], []
    while not stop.is_set():
        event = token_hex(8)
        try:
            acknowledged.append(act(event) or event)
        except (SessionError, StoreError) as error:
            refused.append(error)
    return acknowledged, refused


@pytest.mark.slow
def test_what_is_acknowledged_is_stored(tmp_path):
    """Many threads on two connections answer, correct, undo, append items, and write notes, preferences and guidelines.
    Each acknowledged action is stored once, although some notes fail, and every session passes verification."""
    stores = [Store(tmp_path / "studio.db") for _ in range(2)]
    for name in ("shared", "growing"):
        datasets.add(stores[0], name, datasets.table(stream_of(20_000)[1]), "made.npz")
    shared, single = (begin(stores[0], name, budget=10**6) for name in ("shared", "growing"))
    elsewhere = Session(stores[1], shared.id)

    def answer(opened, event):
        with opened._lock:  # two windows of one process see the same question
            opened.refresh()
            place = len(opened.labels) // 2
            if place % 4 == 3:
                opened.correct(token_hex(8), opened.history[place].id, -opened.history[place].label)
            if place % 5 == 4:
                opened.undo(token_hex(8), opened.previous)
            say(opened, truth(opened), event)

    def append(event):
        items = stream_of(5, seed=int(event[:8], 16), density=1)[1]  # no two rows are equal
        feeds.append(Dataset(stores[1], "growing"), replace(items, ids=[f"{event} {k}" for k in range(5)]))

    def note(opened, event):
        opened.note(event, 3, "half a character \ud800" if event < "8" else "words", "Ann")

    def prefer(event):
        stores[0].put_preferences(event, {"size": 2})
        stores[0].update_session(shared.id, {"guidelines": event})

    acts = [partial(act, opened) for act in (answer, note) for opened in (shared, elsewhere, single)]
    acts += [partial(answer, single), append, prefer]
    stop = threading.Event()
    with ThreadPoolExecutor(len(acts)) as threads:
        done = [threads.submit(attempts, act, stop) for act in acts]
        wait(done, 4, FIRST_EXCEPTION)
        stop.set()
    acknowledged, refused = zip(*(future.result() for future in done))
    log = [row for opened in (shared, single) for row in stores[0].events(opened.id)]
    answered = {*acknowledged[0], *acknowledged[1], *acknowledged[2], *acknowledged[6]}
    assert len(answered) > 20
    assert answered <= {row["id"] for row in log if row["kind"] in ("answered", "late")}  # late: no longer asked
    assert {event for events in acknowledged[3:6] for event in events} == {
        row["id"] for row in log if row["kind"] == "noted"
    }
    assert set(acknowledged[8]) == {row["name"] for row in stores[0].query("SELECT name FROM annotators")}
    assert [] == stores[0].problems()
    assert any(refused[3:6])
    assert 20_000 + 5 * len(acknowledged[7]) == stores[0].dataset("growing")["items"]
    for opened in (shared, single):
        assert look_back.verify(stores[1], opened.id).verified


@pytest.mark.parametrize("more", [{}, {"pace": 0.9, "horizon": 80}])
def test_a_trace_repeats_the_decisions_of_a_session(store, more):
    """A trace has the session's margin and prediction of every round, even if labels are corrected at the end of a
    growing stream."""
    name, grow = growing(store, "sparse")
    opened = begin(store, name, budget=25, **more)
    for place in range(4):
        label_until_the_end(opened)
        correct(opened, place, -opened.history[place].label)
        grow()
        opened.refresh()
    looked_back(opened)
    log = [(row["kind"], row["data"].get("rounds")) for row in store.events(opened.id, "grown", *CHANGES)]
    assert [("grown", 20), ("corrected", None), ("grown", 30), ("corrected", None), ("grown", 40)] == log[:5]
    assert [("corrected", None), ("grown", 50), ("corrected", None), ("grown", 60)] == log[5:]


def test_a_correction_twice_is_one(store):
    """Sending a correction's event again, or correcting to the current label, changes nothing."""
    opened = begin(store)
    label_truly(opened, 4)
    question, label = opened.history[1].id, opened.history[1].label
    opened.correct("once", question, -label)
    digest = opened.digest()
    opened.correct("once", question, -label)
    opened.correct("again", question, -label)
    assert (digest, -label) == (opened.digest(), opened.history[1].label)


def test_a_prepared_question_is_another_after_a_correction(store):
    """If a label is corrected after a question was prepared, this question does not become the next one. An answer to
    it counts if the next question is about the same item; otherwise it is stored as a late answer."""
    opened = begin(store)
    label_truly(opened, 6)
    waiting, stale = opened.place.asked, opened.branches[POSITIVE].asked
    correct(opened, 2, -opened.history[2].label)
    say(opened, POSITIVE)
    assert opened.history[-2].id == waiting.id
    current, given = opened.place.asked, len(opened.labels)
    assert current.id != stale.id
    opened.answer(next(EVENTS), stale.id, POSITIVE)
    assert (given + (current.item == stale.item)) == len(opened.labels)
    late = [(row["question"], row["kind"]) for row in store.opinions(opened.id)]
    assert late == [(stale.id, "late")] * (current.item != stale.item)


def test_a_question_that_waited_is_another_after_a_correction_and_an_undo(store):
    """If corrections and an undo lead to a question about another item, an answer to the outdated question in another
    window is only stored as a late answer."""
    opened = begin(store)
    label_truly(opened, 8)
    stale, label = opened.place.asked, opened.history[7].label
    for place in range(1, 5):
        correct(opened, place, -opened.history[place].label)
    take_back(opened)
    say(opened, label)
    assert stale.item != opened.place.asked.item
    given = opened.labels
    opened.answer(next(EVENTS), stale.id, POSITIVE)
    assert [(stale.id, "late")] == [(row["question"], row["kind"]) for row in store.opinions(opened.id)]
    assert given == opened.labels


def test_corrections_keep_their_order_where_an_undo_leaves_no_label(store, other):
    """Given: an item skipped earlier gets an answer, which uses the last label of the budget, and then another skip, of
    the last item, is undone. A correction of that answer comes last in the order of labels, also after reopening."""
    name, _ = growing(store, "sparse")
    opened = begin(store, name, None, learner="pa-i", rule="all", budget=19)
    for number in range(1, 21):
        say(opened, SKIP if number in (5, 20) else truth(opened))
    correct(opened, 4, POSITIVE)
    take_back(opened)
    assert opened.place.asked is None
    correct(opened, 4, -1)
    again = Session(other, opened.id)
    assert (opened.labels, opened.digest()) == (again.labels, again.digest())


def test_a_skipped_item_is_answered_later_while_labels_are_left(store):
    """Answering a skipped item later costs a label, but the last label is kept for the current question. Correcting a
    label to a skip refunds it."""
    opened = begin(store, budget=5)
    say(opened, SKIP)
    say(opened, SKIP)
    first, second = opened.skipped
    assert [SKIP, SKIP] == [first.old, second.old]
    opened.correct(next(EVENTS), first.id, NEGATIVE)
    assert ([second.id], 4) == ([asked.id for asked in opened.skipped], opened.place.progress.left)
    label_truly(opened, 3)
    with pytest.raises(SessionError, match="the last one is kept for the current question"):
        correct(opened, 1, POSITIVE)
    correct(opened, 0, SKIP)
    correct(opened, 1, POSITIVE)
    say(opened, truth(opened))
    assert (None, 0) == (opened.place.asked, opened.place.progress.left)
    with pytest.raises(SessionError, match="and none is left"):
        correct(opened, 0, POSITIVE)


def test_only_answers_are_corrected(store):
    """The current question cannot be corrected, and a corrected label must be one of the session's labels."""
    opened = begin(store)
    say(opened, POSITIVE)
    with pytest.raises(SessionError, match="only an item that was answered"):
        opened.correct(next(EVENTS), opened.place.asked.id, POSITIVE)
    with pytest.raises(SessionError, match="a label must be 1, -1 or 0"):
        correct(opened, 0, 7)


def test_a_wrong_mark_trains_only_on_request(store):
    """Marking a pushed item as wrong changes the learner only on request. The mark then costs a label, is learned as a
    negative, and is final."""
    opened = begin(store)
    label_truly(opened, 10)
    learner, left, item = learned(opened), opened.place.progress.left, passed_item(opened)
    opened.feedback("mark", item, True)
    assert ({item: False}, True, left) == (opened.marks, same(learner, learned(opened)), opened.place.progress.left)
    opened.feedback("away", item, False)
    assert {} == opened.marks
    opened.feedback("learned", item, True, trains=True)
    assert ({item: True}, False) == (opened.marks, same(learner, learned(opened)))
    assert left - 1 == opened.place.progress.left
    with pytest.raises(SessionError, match="has trained the model"):
        opened.feedback("too late", item, False)
    with pytest.raises(SessionError, match="passed without a question"):
        opened.feedback("asked", opened.history[0].item, True)
    with pytest.raises(SessionError, match="passed as positive"):
        opened.feedback("negative", passed_item(opened, NEGATIVE), True, trains=True)


def test_a_fault_while_correcting_changes_nothing(store, monkeypatch):
    """If storing a correction fails, the old label stays in force, in the database and in the session."""
    opened = begin(store)
    label_truly(opened, 5)
    before = opened.digest(), opened.history, opened.version

    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(opened, "_put", fail)
    with pytest.raises(OSError, match="full"):
        correct(opened, 2, -opened.history[2].label)
    monkeypatch.undo()
    assert before == (opened.digest(), opened.history, opened.version)
    assert before == ((again := Session(store, opened.id)).digest(), again.history, again.version)


def test_notes_stand_by_item_and_touch_nothing_else(store):
    """An item has only its newest note, and an empty note removes it. Notes do not change the state of a session."""
    opened = begin(store)
    say(opened, POSITIVE)
    item, digest, version = opened.history[0].item, opened.digest(), opened.version
    for event, text in (("one", "first"), ("two", "<b>second</b>"), ("one", "first")):
        opened.note(event, item, text, "Ann")
    assert ({item: "<b>second</b>"}, "<b>second</b>") == (opened.notes, opened.history[0].note)
    opened.note("three", item, "")
    assert ({}, digest, version) == (opened.notes, opened.digest(), opened.version)
    with pytest.raises(SessionError, match=r"must be on an item of the stream\. Got 300"):
        opened.note("four", 300, "nowhere")
