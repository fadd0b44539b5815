"""Sessions: stored before it is shown, rebuilt bit for bit, and nothing lost or asked twice."""

import json
import random
import re
import sqlite3
import subprocess
import sys
import threading
from itertools import count
from math import isfinite

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from oal_engine import datasets
from oal_engine import store as store_module
from oal_engine.datasets import formats
from oal_engine.kernel import metrics, stream
from oal_engine.kernel.learners import weights
from oal_engine.kernel.query_rules import paceable
from oal_engine.sessions import export, session
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import NEGATIVE, POSITIVE, SKIP, SessionError, create
from oal_engine.store import StorageError, Store, StoreError

EVENTS = (f"event {number}" for number in count())
RUNS = [  # data, algorithm, more settings: what the tests share, for every pair is compiled once
    ("sparse", "PAA-I", {}),
    ("sparse", "PAA-I", {"shuffled": True, "seed": 5}),
    ("sparse", "OA3-diag", {"parameters": {"eta": 0.3}}),
    ("sparse", "PAA-I", {"audit": 0.25, "pace": 0.5, "horizon": 280, "shuffled": True}),
    ("sparse", "OAAL", {"audit": 0.5, "audit_trains": False, "averaged": True}),
    ("sparse", "D-AMD", {"shuffled": True}),
    ("sparse", "SSOA3", {"averaged": True}),
    ("sparse", "SEL-ada", {"shuffled": True}),
    ("sparse", "OAAL", {"averaged": True}),
    ("classes", "PAA-I", {"positive_class": "b"}),
    ("classes", "MD-AMD", {"shuffled": True}),
    ("classes", "MPAA-I", {"averaged": True}),
    ("dense", "OA3", {"seed": 2, "averaged": True}),
]


def stream_of(n=300, d=8, seed=0, density=0.6, labels=(-1, 1)):
    """Items of two classes, one in five positive, that a linear learner tells apart."""
    rng = np.random.default_rng(seed)
    X = sparse.random_array((n, d), density=density, rng=rng, data_sampler=rng.normal).tocsr()
    score = X @ rng.normal(size=d)
    y = np.where(score > np.quantile(score, 0.8), labels[1], labels[0]).astype(np.int8)
    return X, formats.Items([f"i{k}" for k in range(n)], None, X, [f"f{j}" for j in range(d)], ["word"] * n, y, {})


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A database with the same stream sparse, dense, in four classes and without labels."""
    path = tmp_path_factory.mktemp("sessions") / "studio.db"
    store = Store(path)
    X, items = stream_of()
    datasets.add(store, "sparse", datasets.table(items), "made.npz")
    items.vectors = X.toarray()
    datasets.add(store, "dense", datasets.table(items), "made.npy")
    items.vectors, items.classes, items.y = X, tuple("abcd"), np.where(items.y > 0, 2, 1 + np.arange(300) % 5 % 4)
    datasets.add(store, "classes", datasets.table(items), "made.npz")
    datasets.add(store, "unlabelled", datasets.table(stream_of(labels=(0, 0))[1]), "made.npz")
    store.close()
    return path


@pytest.fixture(scope="module")
def store(path):
    return Store(path)


@pytest.fixture(scope="module")
def other(path):
    """A second connection to the same file, as another process would have."""
    return Store(path)


def begin(store, data="sparse", algorithm="PAA-I", **more):
    return Session(store, create(store, data, algorithm, **{"budget": 40} | more))


def truth(opened):
    return int(opened.y[opened.place.asked.item])


def say(opened, label, event=None, **more):
    """Answer the question that waits; the event."""
    event = event or next(EVENTS)
    opened.answer(event, opened.place.asked.id, label, **more)
    return event


def take_back(opened, event=None):
    event = event or next(EVENTS)
    opened.undo(event, opened.previous)
    return event


def label_until_the_end(opened):
    while opened.place.asked:
        say(opened, truth(opened))


def standing(store, opened):
    """The labels that stand, in order, straight from the tables."""
    return [
        row["label"]
        for row in store.query(
            "SELECT labels.label FROM labels JOIN questions ON questions.id = question"
            " WHERE session = ? AND undone_at IS NULL ORDER BY number",
            opened.id,
        )
    ]


def twin(store, opened, labels):
    """A new session with the settings of another, given labels and nothing else."""
    about = store.session(opened.id)
    again = Session(
        store,
        store.add_session(
            {key: about[key] for key in about.keys() - {"id", "dataset_name", "created_at", "parameters"}}
            | {"parameters": json.dumps(about["parameters"]), "classes": json.dumps(about["classes"])}
        ),
    )
    for label in labels:
        say(again, label)
    return again


def bits(opened):
    return [array.tobytes() for array in opened.state.arrays()]


# The question


@pytest.mark.parametrize(("data", "algorithm", "more"), RUNS[:3])
def test_a_question_is_stored_before_it_is_returned(path, store, data, algorithm, more):
    """Whatever a page can show, now or under an answer not given yet, another connection finds in the database."""
    opened = begin(store, data, algorithm, **more)
    outside = sqlite3.connect(path)
    for label in (1, -1, 0, -1, 1, -1):
        for place in (opened.place, *opened.branches.values()):
            asked = place.asked
            found = outside.execute(
                "SELECT session, round, item, margin, probability, predicted FROM questions WHERE id = ?", [asked.id]
            ).fetchone()
            expected = (opened.id, asked.round, asked.item, asked.margin, asked.probability, asked.predicted)
            assert expected == found
            assert opened.order[asked.round] == asked.item
        say(opened, label)
    outside.close()


def test_a_question_keeps_why_it_was_asked(store):
    """The draw is below the probability, and both come from the seed, the round and the margin."""
    opened = begin(store, seed=3, parameters={"delta": 0.2})
    label_until_the_end(opened)
    for entry in store.answers(opened.id):
        assert 0.2 / (0.2 + abs(entry["margin"])) == entry["probability"]
        assert stream.draw(3, entry["round"]) == entry["draw"] < entry["probability"]
        assert (1 if entry["margin"] >= 0 else -1) == entry["predicted"]


def test_a_question_is_asked_after_the_answer_before_it(store, monkeypatch):
    """The time of asking is when the question became the one that waits, not when it was prepared."""
    clock = count(100)
    for module in (store_module, session):
        monkeypatch.setattr(module, "now", lambda: str(next(clock)), raising=False)
    opened = begin(store)
    for _ in range(5):
        say(opened, truth(opened))
    times = [time for entry in store.answers(opened.id)[:5] for time in (entry["asked_at"], entry["answered_at"])]
    assert sorted(times) == times


def test_reopening_asks_the_same_and_writes_nothing_new(store, other):
    """A session opened again, whenever, waits with the same question and adds none."""
    opened = begin(store)
    for label in (1, -1, 0, -1):
        say(opened, label)
        before = store.query("SELECT * FROM questions WHERE session = ? AND number IS NOT NULL", opened.id)
        again = Session(other, opened.id)
        assert (opened.place, opened.branches, opened.digest()) == (again.place, again.branches, again.digest())
        assert before == store.query("SELECT * FROM questions WHERE session = ? AND number IS NOT NULL", opened.id)


# The answer


def test_an_event_counts_once(store, other):
    """The same event sent again, also with another label or after reopening, changes nothing."""
    opened = begin(store)
    question = opened.place.asked.id
    event = say(opened, POSITIVE, annotator="ann", seconds=1.5)
    place, digest = opened.place, opened.digest()
    for again in (opened, Session(other, opened.id)):
        again.answer(event, question, POSITIVE)
        again.answer(event, question, NEGATIVE)
        again.answer(event, again.place.asked.id, POSITIVE)
        assert (place, digest) == (again.place, again.digest())
    assert [1] == standing(store, opened)
    label = store.event(event)
    assert ("ann", 1.5) == (label["annotator"], label["seconds"])


def test_an_answer_to_another_question_is_refused(store):
    """Only the question that waits can be answered, with one of three labels."""
    opened = begin(store)
    with pytest.raises(SessionError, match=r"^this item is not the current question\.$"):
        opened.answer(next(EVENTS), opened.place.asked.id + 1, POSITIVE)
    with pytest.raises(SessionError, match=r"^a label must be 1, -1 or 0 \(skip\)\. Got 2\.$"):
        opened.answer(next(EVENTS), opened.place.asked.id, 2)
    assert [] == standing(store, opened)


def test_skip_spends_and_teaches_nothing(store):
    """A skip leaves the budget and every number of the learner as they are, and moves on to a later item."""
    opened = begin(store, algorithm="OA3-diag")
    say(opened, POSITIVE)
    taught = [
        array.tobytes() for array in (opened.state.learner.w, opened.state.learner.s, opened.state.objective.seen)
    ]
    before = opened.place
    say(opened, SKIP)
    after = opened.place
    assert taught == [
        a.tobytes() for a in (opened.state.learner.w, opened.state.learner.s, opened.state.objective.seen)
    ]
    assert (before.progress.left, 1, 1) == (after.progress.left, after.progress.labels, after.progress.skipped)
    assert after.asked.round > before.asked.round
    assert after.asked.number == before.asked.number + 1


def test_a_failure_while_answering_leaves_nothing(store, monkeypatch):
    """If anything fails while an answer is stored, it is not there, and the same event can be sent again."""
    opened = begin(store)
    say(opened, POSITIVE)
    place, branches, digest = opened.place, opened.branches, opened.digest()

    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr(store, "number_question", full)
    with pytest.raises(OSError, match="disk full"):
        say(opened, NEGATIVE, "late")
    monkeypatch.undo()
    assert [1] == standing(store, opened)
    assert (place, branches, digest) == (opened.place, opened.branches, opened.digest())
    say(opened, NEGATIVE, "late")
    assert [1, -1] == standing(store, opened)
    assert Session(store, opened.id).digest() == opened.digest()


# Undo


@pytest.mark.parametrize(("data", "algorithm", "more"), RUNS)
@pytest.mark.parametrize("label", [POSITIVE, NEGATIVE, SKIP])
def test_undo_takes_back_the_last_answer(store, data, algorithm, more, label):
    """The item comes back with its old answer marked, and the state is that of a session that never gave it."""
    opened = begin(store, data, algorithm, **more)
    one, other = list(opened.names)[:2]
    given, label = [one, other, SKIP, other, one], {POSITIVE: one, NEGATIVE: other, SKIP: SKIP}[label]
    for answer in given:
        say(opened, answer)
    before, digest = opened.place, opened.digest()
    say(opened, label)
    take_back(opened)
    assert label == opened.place.asked.old
    assert before.asked.old is None
    assert (before.progress, before.asked.id, before.asked.item) == (
        opened.place.progress,
        opened.place.asked.id,
        opened.place.asked.item,
    )
    assert digest == opened.digest() == twin(store, opened, given).digest()


def test_one_undo_event_undoes_once(store, other):
    """An undo sent twice, also after another answer was given, takes back one answer."""
    opened = begin(store)
    for label in (1, -1, -1):
        say(opened, label)
    question = opened.previous
    event = take_back(opened)
    opened.undo(event, question)
    opened.undo(event, opened.previous)
    assert [1, -1] == standing(store, opened)
    say(opened, POSITIVE)
    opened.undo(event, question)
    Session(other, opened.id).undo(event, question)
    assert [1, -1, 1] == standing(store, opened)


def test_an_answer_taken_back_stays_taken_back(store):
    """An answer event that arrives again after its undo is known, and changes nothing."""
    opened = begin(store)
    question = opened.place.asked.id
    event = say(opened, POSITIVE)
    take_back(opened)
    opened.answer(event, question, POSITIVE)
    assert [] == standing(store, opened)
    assert question == opened.place.asked.id


def test_only_the_last_answer_can_be_taken_back(store):
    """Undo of an earlier question, or before the first answer, is refused."""
    opened = begin(store)
    with pytest.raises(SessionError, match=r"^only the last answer can be taken back\.$"):
        opened.undo(next(EVENTS), opened.place.asked.id)
    first = opened.place.asked.id
    say(opened, POSITIVE)
    say(opened, NEGATIVE)
    with pytest.raises(SessionError, match=r"^only the last answer can be taken back\.$"):
        opened.undo(next(EVENTS), first)
    assert [1, -1] == standing(store, opened)


def test_undo_and_another_answer(store, other):
    """After undo the other answer counts, in the state, the log and after reopening; undone ones stay on record."""
    opened = begin(store)
    say(opened, POSITIVE)
    say(opened, POSITIVE)
    take_back(opened)
    take_back(opened)
    assert POSITIVE == opened.place.asked.old
    say(opened, NEGATIVE)
    say(opened, SKIP)
    assert twin(store, opened, [-1, 0]).digest() == opened.digest() == Session(other, opened.id).digest()
    assert [-1, 0, None] == [entry["label"] for entry in store.answers(opened.id)]
    undone = store.one(
        "SELECT count(*) AS n FROM labels JOIN questions ON questions.id = question"
        " WHERE session = ? AND undone_at IS NOT NULL",
        opened.id,
    )
    assert {"n": 2} == undone


# Branches


@pytest.mark.parametrize(("data", "algorithm", "more"), RUNS)
def test_a_place_equals_the_branch_that_was_prepared_for_it(store, data, algorithm, more):
    """Along a whole session the page that was sent ahead is the page that comes, question for question."""
    opened, answers = begin(store, data, algorithm, **more), random.Random(algorithm)
    while opened.place.asked:
        label = answers.choice([*opened.names, SKIP])
        branches = opened.branches
        assert {*opened.names, SKIP} == branches.keys()
        say(opened, label)
        assert branches[label] == opened.place
        assert branches[label].weights.tobytes() == opened.place.weights.tobytes()
        assert branches[label].counts.tolist() == opened.place.counts.tolist()
        if answers.random() < 0.1:
            branches = opened.branches
            take_back(opened)
            say(opened, label)
            assert branches == opened.branches
    assert {} == opened.branches


def test_a_place_stays_what_it_was(store):
    """A page may keep a place: answers, undo and another's answers change neither its weights nor its counts."""
    opened, kept = begin(store), []
    for label in (1, -1, 0, -1, 1):
        for place in (opened.place, *opened.branches.values()):
            kept.append((place, place.weights.tobytes(), place.counts.tolist()))
        say(opened, label)
    take_back(opened)
    say(opened, NEGATIVE)
    assert [copy for _, *copy in kept] == [[place.weights.tobytes(), place.counts.tolist()] for place, *_ in kept]


@pytest.mark.parametrize(("data", "algorithm", "more"), RUNS[-2:])
def test_a_learner_too_big_to_branch_works_the_same(store, monkeypatch, data, algorithm, more):
    """Over the limit nothing is prepared ahead, and questions, state and undo are those of a session that is."""
    opened = begin(store, data, algorithm, **more)
    label_until_the_end(opened)
    monkeypatch.setattr(session, "BRANCH_LIMIT", 0)
    heavy = begin(store, data, algorithm, **more)
    while heavy.place.asked:
        assert {} == heavy.branches
        say(heavy, SKIP if heavy.place.asked.number == 3 else POSITIVE)
        take_back(heavy)
        say(heavy, truth(heavy))
    facts = ("number", "round", "item", "margin", "probability", "draw", "predicted", "label")
    expected, actual = ([[entry[fact] for fact in facts] for entry in store.answers(run.id)] for run in (opened, heavy))
    assert expected == actual
    assert opened.digest() == heavy.digest() == Session(store, heavy.id).digest()


# Rebuilding


STEP = st.sampled_from([POSITIVE, NEGATIVE, NEGATIVE, SKIP, "undo", "undo", "reopen", "foreign answer", "foreign undo"])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(RUNS), st.lists(STEP, max_size=25))
def test_any_history_gives_one_state(store, other, run, steps):
    """After any mixture of answers, skips, undos, reopening and a second person, log, state and question agree."""
    data, algorithm, more = run
    opened, model = begin(store, data, algorithm, **more | {"budget": 8}), []
    for step in steps:
        if step == "reopen":
            digest, place = opened.digest(), opened.place
            opened = Session(store, opened.id)
            assert (digest, place) == (opened.digest(), opened.place)
            continue
        actor = Session(other, opened.id) if str(step).startswith("foreign") else opened
        if "undo" in str(step):
            if model:
                old, question = model.pop(), actor.previous
                take_back(actor)
                assert (question, old) == (actor.place.asked.id, actor.place.asked.old)
        elif actor.place.asked:
            label = POSITIVE if step == "foreign answer" else step
            label = list(opened.names)[1] if label == NEGATIVE else label
            say(actor, label)
            model.append(label)
        opened.refresh()
        assert (actor.digest(), actor.place) == (opened.digest(), opened.place)
    assert model == standing(store, opened)
    assert model == [entry["label"] for entry in store.answers(opened.id) if entry["label"] is not None]
    again, progress = twin(store, opened, model), opened.place.progress
    assert again.digest() == opened.digest() == Session(other, opened.id).digest()
    assert again.place.progress == progress
    assert (len(model) - model.count(0), model.count(0)) == (progress.labels, progress.skipped)
    assert {label: model.count(label) for label in opened.names} == progress.answers


def test_refresh_sees_what_another_process_answered(store, other):
    """A page that refreshes stands where the other left the session: after an answer, an undo, and both."""
    opened, foreign = begin(store), Session(other, store.sessions()[0]["id"])
    assert opened.id == foreign.id
    for step in (
        lambda: say(foreign, POSITIVE),
        lambda: say(foreign, SKIP),
        lambda: take_back(foreign),
        lambda: (take_back(foreign), say(foreign, NEGATIVE)),
    ):
        step()
        assert foreign.digest() != opened.digest()
        opened.refresh()
        assert (foreign.digest(), foreign.place) == (opened.digest(), opened.place)


@pytest.mark.parametrize(("annotator", "name"), [("Ann", "Ann"), ("", "somebody")])
def test_two_who_answer_one_question(store, other, annotator, name):
    """The second to answer is told who was first, and the first answer stands."""
    opened = begin(store)
    foreign = Session(other, opened.id)
    question = foreign.place.asked.id
    say(opened, POSITIVE, annotator=annotator)
    with pytest.raises(SessionError, match=rf"^this item was answered already by {name}\.$"):
        foreign.answer(next(EVENTS), question, NEGATIVE, "Bob")
    assert [1] == standing(store, opened)
    assert (opened.place, opened.digest()) == (foreign.place, foreign.digest())


def meanwhile(act):
    """Let another process act now: to its end, or for as long as it is made to wait; a function that waits for it."""
    caught = []

    def guarded():
        try:
            act()
        except Exception as error:
            caught.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join(0.5)

    def done():
        thread.join()
        return caught

    return done


def test_two_who_answer_at_the_same_moment(store, other, monkeypatch):
    """Where another's answer comes between looking and writing, one of the two stands and the other is told."""
    opened = begin(store)
    foreign = Session(other, opened.id)
    question, refresh, waiting, errors = opened.place.asked.id, opened.refresh, [], []

    def interrupted():
        refresh()
        waiting.append(meanwhile(lambda: foreign.answer("theirs", question, NEGATIVE)))

    monkeypatch.setattr(opened, "refresh", interrupted)
    try:
        opened.answer("ours", question, POSITIVE)
    except Exception as error:
        errors.append(error)
    errors += waiting[0]()
    assert [SessionError] == [type(error) for error in errors]
    assert 1 == len(standing(store, opened))


@pytest.mark.parametrize("act", ["answer", "undo"])
def test_an_answer_while_another_process_rebuilds(store, other, monkeypatch, act):
    """Opening or refreshing beside somebody who works takes no question from them, and both go on."""
    opened = begin(store)
    for label in (1, -1, 0):
        say(opened, label)
    foreign, waiting, digests = Session(other, opened.id), [], store.digests
    say(foreign, NEGATIVE)

    def interrupted(number):
        if not waiting:
            waiting.append(meanwhile(lambda: say(foreign, NEGATIVE) if act == "answer" else take_back(foreign)))
        return digests(number)

    monkeypatch.setattr(store, "digests", interrupted)
    opened.refresh()
    assert [] == waiting[0]()
    monkeypatch.undo()
    say(foreign, POSITIVE)
    opened.refresh()
    assert [1, -1, 0, *([-1, -1] if act == "answer" else []), 1] == standing(store, opened)
    assert foreign.digest() == opened.digest() == Session(other, opened.id).digest()
    assert len(standing(store, opened)) + 1 == len(store.answers(opened.id))


def test_a_place_is_never_half_of_an_answer(store):
    """A page in another thread of the server sees a session before an answer or after it."""
    opened, seen, over = begin(store, budget=150), [], threading.Event()

    def look():
        while not over.is_set():
            seen.append(opened.place)

    thread = threading.Thread(target=look)
    thread.start()
    label_until_the_end(opened)
    over.set()
    thread.join()
    told = {
        (
            p.progress.labels,
            sum(p.progress.answers.values()),
            p.asked.number - 1 if p.asked else opened.place.progress.labels,
        )
        for p in seen
    }
    assert {(labels, labels, labels) for labels, *_ in told} == told


# Digests


NUMBERED = "(SELECT id FROM questions WHERE session = :id AND number = {})"


def fifty(store, labels=60):
    opened = begin(store, algorithm="OA3-diag", budget=100)
    for _ in range(labels):
        say(opened, truth(opened))
    return opened


def test_a_digest_is_stored_every_fifty_answers(store):
    """The fingerprint after 50 answers, skips among them, is the one that the session had, also after undo."""
    opened = begin(store, budget=120, parameters={"delta": 10})
    digests = {}
    while len(digests) < 101:
        say(opened, SKIP if opened.place.asked.number % 7 == 0 else truth(opened))
        digests[len(standing(store, opened))] = opened.digest()
    assert {50: digests[50], 100: digests[100]} == store.digests(opened.id)
    while len(standing(store, opened)) > 99:
        take_back(opened)
    assert {50: digests[50]} == store.digests(opened.id)
    say(opened, -truth(opened))
    assert {50: digests[50], 100: opened.digest()} == store.digests(opened.id)
    assert digests[100] != opened.digest()


@pytest.mark.parametrize("run", RUNS[-2:])
def test_a_digest_tells_every_bit(store, run):
    """One bit in any array, or one more label spent, is another fingerprint; a copy has the same."""
    data, algorithm, more = run
    opened = begin(store, data, algorithm, **more)
    for label in list(opened.names)[:2]:
        say(opened, label)
    copies = [opened.state.copy() for _ in opened.state.arrays()]
    assert {opened.digest()} == {state.digest() for state in copies}
    for number, state in enumerate(copies):
        state.arrays()[number].view(np.uint8).flat[0] ^= 1
    spent = opened.state.copy()
    spent.spent += 1
    digests = {opened.digest(), spent.digest(), *(state.digest() for state in copies)}
    assert len(copies) + 2 == len(digests)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "UPDATE digests SET digest = 'other' WHERE session = :id",
            "the state of the session .* after 50 answers is not the one",
        ),
        (
            "UPDATE labels SET label = -label WHERE question = " + NUMBERED.format(30),
            "question [0-9]+ of the session .* cannot be reproduced from its log|after 50 answers is not the one",
        ),
        (
            "UPDATE labels SET label = -label WHERE question = " + NUMBERED.format(60),
            "question 61 of the session .* cannot be reproduced from its log",
        ),
        (
            "UPDATE questions SET margin = margin + 1e-16 WHERE session = :id AND number = 20",
            "question 20 of the session .* cannot be reproduced from its log",
        ),
        (
            "UPDATE sessions SET seed = 1 WHERE id = :id",
            "question [0-9]+ of the session .* cannot be reproduced from its log",
        ),
    ],
)
def test_a_log_that_was_changed_is_refused_and_still_exports(store, tmp_path, sql, message):
    """A digest, label, question or setting that does not fit is told in one sentence, and every label can be had."""
    opened = fifty(store)
    with store.transaction():
        store.db.execute(sql, {"id": opened.id})
    with pytest.raises(SessionError, match=message) as refused:
        Session(store, opened.id)
    assert str(refused.value).endswith("its labels are safe and can be exported.")
    export.export(store, opened.id, "labels", "jsonl", tmp_path / "labels.jsonl")
    exported = [json.loads(line)["label"] for line in (tmp_path / "labels.jsonl").read_text().splitlines()]
    assert [*(label or None for label in standing(store, opened)), None] == exported


def test_an_open_session_stays_as_it_was_when_its_log_is_refused(store):
    """Of a log that another process has changed, and that cannot be reproduced, nothing is taken over in part."""
    opened = fifty(store)
    place, digest, log = opened.place, opened.digest(), opened.log
    with store.transaction():
        store.db.execute("UPDATE questions SET margin = 9 WHERE session = ? AND number = 20", [opened.id])
        store.count_change(opened.id)
    for _ in range(2):
        with pytest.raises(SessionError, match="question 20 of the session"):
            opened.refresh()
        assert (place, digest, log) == (opened.place, opened.digest(), opened.log)


def test_the_log_follows_corrections_and_undos_of_another_process(store, other):
    """The part of the log that was read before is read again where it was changed elsewhere."""
    opened = fifty(store)
    assert 0 == sum(entry.corrected for entry in opened.log)
    foreign = Session(other, opened.id)
    first = foreign.log[0]
    foreign.correct("corrected", first.id, -first.label)
    take_back(foreign)
    opened.refresh()
    assert foreign.log == opened.log
    assert [1] == [entry.number for entry in opened.log if entry.corrected]


def test_a_session_opens_while_another_process_writes(path, store):
    """What is stored already is not stored again: a locked database opens a session, at a question or at its end."""
    waiting, ended = begin(store), begin(store, budget=2)
    say(waiting, truth(waiting))
    label_until_the_end(ended)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    impatient = Store(path, patience=0.1)
    for opened in (waiting, ended):
        again = Session(impatient, opened.id)
        assert (opened.digest(), opened.place, opened.branches) == (again.digest(), again.place, again.branches)
    with pytest.raises(StorageError, match="another program keeps it locked"):
        say(again := Session(impatient, waiting.id), truth(again))
    other.execute("COMMIT")
    other.close()
    say(again, truth(again))
    assert 2 == len(standing(store, waiting))


def test_a_session_that_is_removed_is_said(store):
    """Whoever still shows it is told, whatever is done there."""
    opened = begin(store)
    store.remove_session(opened.id)
    for act in (opened.refresh, lambda: say(opened, POSITIVE), lambda: opened.note("note", 1, "words")):
        with pytest.raises(StoreError, match=rf"^session {opened.id} does not exist\.$"):
            act()


# The budget and the end


def test_a_session_of_another_engine_goes_on_where_it_comes_out_to_rounding(store):
    """Margins that differ in their last digits, and digests of other bits, stop nobody; another margin does."""
    opened = begin(store, parameters={"delta": 1e9}, budget=60)
    while len(opened.labels) < 52:
        say(opened, truth(opened))
    for sql in (
        "UPDATE sessions SET engine = '0.0.1' WHERE id = ?",
        "UPDATE questions SET margin = margin * (1 + 1e-9) WHERE session = ?",
        "UPDATE digests SET digest = 'other' WHERE session = ?",
    ):
        with store.transaction():
            store.db.execute(sql, [opened.id])
    again = Session(store, opened.id)
    say(again, truth(again))
    assert 53 == len(Session(store, opened.id).labels)
    with store.transaction():
        store.db.execute("UPDATE questions SET margin = margin + 0.001 WHERE session = ? AND number = 9", [opened.id])
    with pytest.raises(SessionError, match=r"question 9 of the session .* made with engine 0\.0\.1, this is"):
        Session(store, opened.id)


def test_the_remaining_budget_is_counted_from_the_labels(store):
    """At every step what is left is the budget minus the labels that stand in the table."""
    opened, answers = begin(store, budget=12), random.Random(4)
    while opened.place.asked:
        if answers.random() < 0.3 and opened.previous:
            take_back(opened)
        else:
            say(opened, answers.choice([POSITIVE, NEGATIVE, SKIP]))
        labels = [label for label in standing(store, opened) if label != SKIP]
        assert 12 - len(labels) == opened.place.progress.left
    assert 0 == opened.place.progress.left


def test_the_end_by_budget(store):
    """With the last label of the budget the rest of the stream runs without a question, and undo reopens it."""
    opened = begin(store, budget=5)
    for label in (1, 0, -1, -1, 1):
        say(opened, label)
    waiting = opened.place
    assert waiting.progress.end is None
    say(opened, POSITIVE)
    progress = opened.place.progress
    assert (None, "budget", 5, 0, 300) == (
        opened.place.asked,
        progress.end,
        progress.labels,
        progress.left,
        progress.streamed,
    )
    assert 300 == opened.place.counts.sum() == opened.curve()[0][-1]
    with pytest.raises(SessionError, match="current question"):
        opened.answer(next(EVENTS), waiting.asked.id + 1, POSITIVE)
    again = Session(store, opened.id)
    assert (opened.place, opened.digest()) == (again.place, again.digest())
    take_back(again)
    assert waiting.progress == again.place.progress
    assert waiting.asked.id == again.place.asked.id


def test_the_end_by_stream(store):
    """Where the stream ends before the budget, the page is told so, and the last answer can still be taken back."""
    opened = begin(store, budget=1000)
    while opened.place.asked:
        say(opened, SKIP)
    progress = opened.place.progress
    assert ("stream", 1000, 300) == (progress.end, progress.left, progress.streamed)
    assert progress.skipped == len(store.answers(opened.id))
    last = opened.previous
    take_back(opened)
    assert last == opened.place.asked.id
    assert opened.place.progress.end is None


# What a session computes


@pytest.mark.parametrize(("data", "algorithm", "more"), RUNS)
def test_a_session_equals_a_replay(store, data, algorithm, more):
    """An annotator who answers as the data says gives the questions, counts, metrics and weights of a replay."""
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


def test_audits_are_told_apart_and_their_number_is_exact(store):
    """Each question says whether it was a random check; exactly the share of the budget goes to these, a skip costs
    nothing, and after an undo the same check is asked again."""
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
    given = [entry["audit"] for entry in store.answers(opened.id) if entry["label"]]
    assert (40, 12) == (len(given), sum(given))


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"audit": 1}, "audit must be >= 0 and < 1: the share of the budget for random checks. Got 1."),
        ({"pace": 2}, "pace must be > 0 and <= 1: the share of the horizon to spend the budget in. Got 2."),
        ({"pace": 1, "algorithm": "Q_D"}, f"a pace needs a rule that draws: {', '.join(paceable())}. Got margin."),
        ({"horizon": 0}, "horizon of a session must be a whole number >= 1. Got 0."),
    ],
)
def test_a_plan_that_cannot_be_is_refused(store, more, sentence):
    """Nothing is stored of a session whose audits or pace cannot be."""
    before = len(store.sessions())
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        begin(store, **more)
    assert before == len(store.sessions())


def test_a_published_rho_goes_before_the_one_asked_for(store):
    """SOAL learns with rho = 1 whatever the session says; others estimate it, or take cost weights or a number."""
    weights = metrics.Weights(c_p=0.8)
    rho = {
        "fixed": create(store, "dense", "SOAL", rho=9),
        "number": create(store, "dense", "OA3", rho=9),
        "estimated": create(store, "dense", "OA3"),
        "cost": create(store, "dense", "OA3", metric="cost", weights=weights),
    }
    found = {name: store.session(number)["rho"] for name, number in rho.items()}
    assert {"fixed": 1.0, "number": 9.0, "estimated": 0.0, "cost": pytest.approx(4.0)} == found


def test_a_stream_without_labels_counts_in_the_unknown_class(store):
    """Where the data has no labels the annotator's still teach, and every prediction counts as of unknown class."""
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
    """Classes keep their names in another order, one may stand against the rest, and what is no class is unknown."""
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


def test_an_answer_is_one_of_the_classes(store):
    """A label that is no class of the session is refused, and those that are have their names in the export."""
    opened = begin(store, "classes", "MPAA-I")
    for label in (-1, 5):
        with pytest.raises(SessionError, match=rf"^a label must be 1, 2, 3, 4 or 0 \(skip\)\. Got {label}\.$"):
            say(opened, label)
    for label in (3, SKIP, 1):
        say(opened, label)
    place = list(export.LABELS).index("class")
    assert ["c", "skipped", "a", None] == [row[place] for row in export.labels(store, opened.id).rows]


def test_the_learner_never_sees_the_labels_of_the_data(store):
    """Answers against the data's own labels teach what the annotator says."""
    opened, contrary = begin(store, parameters={"delta": 1e9}), begin(store, parameters={"delta": 1e9})
    for _ in range(10):
        say(opened, truth(opened))
        say(contrary, -truth(contrary))
    assert (-opened.place.weights).tolist() == contrary.place.weights.tolist()


# Trouble


CHILD = """
import itertools, sys
from oal_engine.sessions.session import Session
from oal_engine.store import Store

session = Session(Store(sys.argv[1]), int(sys.argv[2]))
for number in itertools.count():
    event = f"{sys.argv[3]} {number}"
    if number % 7 == 6:
        session.undo(event, session.previous)
    else:
        session.answer(event, session.place.asked.id, (1, -1, 0)[session.place.asked.item % 3])
    print(event, flush=True)
"""


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """A database with a stream of 100,000 sparse rows."""
    store = Store(tmp_path_factory.mktemp("long") / "studio.db")
    datasets.add(store, "long", datasets.table(stream_of(100_000, 2_000, density=0.01)[1]), "made.npz")
    return store


def test_kill_9_loses_no_acknowledged_label(long):
    """Killed at any moment, every acknowledged event is there once, no item is asked twice and the digest agrees."""
    chance, acknowledged = random.Random(), []
    number = create(long, "long", "PAA-I", budget=100_000)
    for life in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, long.path, str(number), f"life {life}"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        with child:
            acknowledged += [child.stdout.readline().strip() for _ in range(chance.randrange(1, 120))]
            threading.Event().wait(chance.random() / 200)  # any moment of an answer, not only its end
            child.kill()
            acknowledged += child.stdout.read().split("\n")[:-1]
        assert -9 == child.returncode
        opened = Session(long, number)
        labels = long.query(
            "SELECT labels.*, item FROM labels JOIN questions ON questions.id = question WHERE session = ?", number
        )
        events = [event for row in labels for event in (row["event"], row["undone_by"]) if event]
        assert len(set(events)) == len(events)
        assert not set(acknowledged) - set(events)
        assert len(events) - len(acknowledged) <= life + 1  # what was stored the moment before it was acknowledged
        items = [entry["item"] for entry in long.answers(number)]
        assert len(set(items)) == len(items)
        assert {row["item"]: row["label"] for row in labels if not row["undone_at"]} == {
            entry["item"]: entry["label"] for entry in long.answers(number) if entry["event"]
        }
        again = twin(long, opened, standing(long, opened))
        assert (again.digest(), again.place.progress) == (opened.digest(), opened.place.progress)


def test_a_thousand_labels_on_a_hundred_thousand_rows_rebuild_the_same(long):
    """A long session opened again has the same digest and the same question."""
    opened = begin(long, "long", "PAA-I", budget=1000, shuffled=True, parameters={"delta": 0.002})
    while opened.place.progress.labels < 999:
        say(opened, truth(opened))
    again = Session(long, opened.id)
    assert (opened.digest(), opened.place) == (again.digest(), again.place)
    assert 20_000 < again.place.asked.round
    say(again, truth(again))
    ended = Session(long, opened.id)
    assert (again.digest(), "budget") == (ended.digest(), ended.place.progress.end)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"budget": 0}, "budget of a session must be a whole number >= 1. Got 0."),
        ({"budget": 2.5}, "budget of a session must be a whole number >= 1. Got 2.5."),
        ({"seed": -1}, "seed of a session must be a whole number >= 0. Got -1."),
        ({"positive_name": "Yes", "negative_name": " Yes "}, "a session needs two different class names."),
        ({"positive_name": "  "}, "a session needs two different class names."),
        ({"metric": "f1"}, "metric must be sum or cost. Got f1."),
        ({"theta": float("nan")}, "theta must be a finite number. Got nan."),
        ({"rho": -1}, "rho must be > 0, or 0 for the Laplace estimate. Got -1.0."),
        ({"parameters": {"C": 0}}, "C of pa-i must be > 0. Got 0."),
        ({"parameters": {"tau": 1}}, "PAA-I has no parameter tau. It has C, delta."),
        ({"dataset": "nothing"}, "data set nothing does not exist. There are: unlabelled, classes, dense, sparse."),
        ({"algorithm": "MPAA"}, "the data set sparse has no classes of its own: name those to ask for."),
        (
            {"algorithm": "MPAA", "classes": ("a", " a")},
            "a session needs 2 to 127 different class names. Got a, a.",
        ),
        ({"classes": ("a", "b", "c")}, "PAA-I asks for a positive and a negative class. Got 3 classes."),
        ({"positive_class": "a"}, "positive_class must be left out here. Got a."),
        ({"dataset": "classes", "positive_class": "e"}, "positive_class must be one of a, b, c, d. Got e."),
    ],
)
def test_settings_that_cannot_be_are_refused(store, call, message):
    """A session with a wrong setting is not made, and one sentence says what is allowed and what came."""
    before = len(store.sessions())
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        create(store, **{"dataset": "sparse", "algorithm": "PAA-I"} | call)
    assert before == len(store.sessions())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"algorithm": "Nothing"}, r"^algorithm must be one of OAAL, .*\. Got Nothing\.$"),
        ({"budget": float("nan")}, r"^budget of a session must be a whole number >= 1\. Got nan\.$"),
        ({"budget": "many"}, r"^budget of a session must be a whole number >= 1\. Got many\.$"),
        ({"rho": "auto"}, r"^rho must be .*laplace.*\. Got auto\.$"),
    ],
)
def test_settings_that_are_no_numbers_or_names_are_refused(store, call, message):
    """A word where a number belongs, or a name that is not known, is told with what is allowed."""
    with pytest.raises(ValueError, match=message):
        create(store, **{"dataset": "sparse", "algorithm": "PAA-I"} | call)


def test_a_covariance_over_the_memory_limit_is_refused_before_the_session_is_made(store, monkeypatch):
    """A learner that does not fit says how much it needs and what to do instead."""
    monkeypatch.setenv("OAL_MEMORY_LIMIT", "500")
    with pytest.raises(
        ValueError, match=r"^acog-ii keeps a full covariance of 8 x 8 numbers: .* raise OAL_MEMORY_LIMIT"
    ):
        create(store, "sparse", "OA3")
    assert create(store, "sparse", "OA3-diag") > 0
