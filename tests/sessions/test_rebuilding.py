"""Sessions are rebuilt from their log bit for bit, while others answer and after crashes."""

import json
import random
import sqlite3
import subprocess
import sys
import threading

import numpy as np
import pytest

from oal_engine import datasets
from oal_engine.sessions.files import export
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import NEGATIVE, POSITIVE, SKIP, SessionError, create
from oal_engine.store import StorageError, Store, StoreError
from tests.harness import ROOT
from tests.harness.sessions import (
    EVENTS,
    RUNS,
    begin,
    label_truly,
    label_until_the_end,
    say,
    standing,
    stream_of,
    take_back,
    truth,
    twin,
)


@pytest.mark.parametrize(("annotator", "name"), [("Ann", "Ann"), ("", "somebody")])
def test_two_who_answer_one_question(store, other, annotator, name):
    """If two people answer one question, the second answer is refused, and the error names the first annotator."""
    opened = begin(store)
    foreign = Session(other, opened.id)
    question = foreign.place.asked.id
    say(opened, POSITIVE, annotator=annotator)
    with pytest.raises(SessionError, match=rf"^this item was answered already by {name}\.$"):
        foreign.answer(next(EVENTS), question, NEGATIVE, "Bob")
    assert [1] == standing(store, opened)
    assert (opened.place, opened.digest()) == (foreign.place, foreign.digest())


def meanwhile(act):
    """Run an action in a thread, and wait for it for up to half a second. Return a function that waits until it ends
    and returns its errors."""
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
    """If another answer comes between an answer's refresh and write, one of the two is stored, the other refused."""
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
    """Another process can answer or undo while a session is rebuilt, and both continue with the same log."""
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
    """Another thread sees a session before or after an answer, never in between."""
    opened, places, over = begin(store, budget=150), [], threading.Event()

    def look():
        while not over.is_set():
            places.append(opened.place)

    thread = threading.Thread(target=look)
    thread.start()
    label_until_the_end(opened)
    over.set()
    thread.join()
    counts = {
        (
            p.progress.labels,
            sum(p.progress.answers.values()),
            p.asked.number - 1 if p.asked else opened.place.progress.labels,
        )
        for p in places
    }
    assert {(labels, labels, labels) for labels, *_ in counts} == counts


# Digests


NUMBERED = "(SELECT id FROM questions WHERE session = :id AND number = {})"


def fifty(store, labels=60):
    opened = begin(store, algorithm="OA3-diag", budget=100)
    label_truly(opened, labels)
    return opened


def test_a_digest_is_stored_every_fifty_answers(store):
    """The digest of the state is stored after every 50 answers, counting skips. It is replaced if answers are undone
    and given again."""
    opened = begin(store, budget=120, parameters={"delta": 10})
    digests = {}
    while len(digests) < 101:
        event = say(opened, SKIP if opened.place.asked.number % 7 == 0 else truth(opened))
        digests[len(standing(store, opened))] = store.event(event)["number"], opened.digest()
    assert dict([digests[50], digests[100]]) == store.digests(opened.id)
    while len(standing(store, opened)) > 99:
        take_back(opened)
    assert dict([digests[50]]) == store.digests(opened.id)
    event = say(opened, -truth(opened))
    again = store.event(event)["number"], opened.digest()
    assert dict([digests[50], again]) == store.digests(opened.id)
    assert digests[100][1] != opened.digest()


@pytest.mark.parametrize("run", [RUNS[-3], RUNS[-1]])
def test_a_digest_covers_every_bit(store, run):
    """One changed bit in any array of a state, or one more spent label, changes the digest. A copy of the state has the
    same digest."""
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
        ("UPDATE digests SET digest = 'other' WHERE session = :id", "after 50 answers is not the one"),
        (f"UPDATE events SET label = -label WHERE question = {NUMBERED.format(30)}",
         "question [0-9]+ .* cannot be reproduced from its log|after 50 answers is not the one"),
        (f"UPDATE events SET label = -label WHERE question = {NUMBERED.format(60)}", "question 61 .* reproduced"),
        ("UPDATE questions SET margin = margin + 1e-16 WHERE session = :id AND number = 20",
         "question 20 .* be reproduced"),
        ("UPDATE sessions SET seed = 1 WHERE id = :id", "question [0-9]+ of the session .* cannot be reproduced"),
    ],
)  # fmt: skip
def test_a_log_that_was_changed_is_refused_and_still_exports(store, tmp_path, sql, message):
    """If a digest, label, question or setting was changed in the database, the session is refused with a one-sentence
    error, and all its labels can still be exported."""
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
    """If another process changed the log so that it cannot be reproduced, an open session takes over no part of it."""
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
    """A refreshed session has the corrections and undos that another process made in earlier parts of the log."""
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
    """While another process locks the database, a session can be opened, at a question or at its end; only an answer is
    refused."""
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


def test_an_action_in_a_removed_session_is_refused(store):
    """Every action in a session that was removed meanwhile is refused, because the session does not exist."""
    opened = begin(store)
    store.remove_session(opened.id)
    for act in (opened.refresh, lambda: say(opened, POSITIVE), lambda: opened.note("note", 1, "words")):
        with pytest.raises(StoreError, match=rf"^session {opened.id} does not exist\.$"):
            act()


def test_a_session_of_another_engine_opens_if_it_is_reproduced_to_rounding(store):
    """A session made with another engine version opens even if margins differ by rounding errors and digests differ,
    but not if a margin differs by more."""
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


# Crashes


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


@pytest.mark.slow
def test_kill_9_loses_no_acknowledged_label(long):
    """A kill at any moment leaves acknowledged events stored once, no item asked about twice, and equal digests."""
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
        events = [row["id"] for row in long.events(number) if row["id"]]
        assert len(set(events)) == len(events)
        assert not set(acknowledged) - set(events)
        assert len(events) - len(acknowledged) <= life + 1  # each life may end between storing and acknowledging
        items = [entry["item"] for entry in long.answers(number)]
        assert len(set(items)) == len(items)
        assert [] == long.problems()
        again = twin(long, opened, standing(long, opened))
        assert (again.digest(), again.place.progress) == (opened.digest(), opened.place.progress)


@pytest.mark.slow
def test_a_thousand_labels_on_a_hundred_thousand_rows_rebuild_the_same(long):
    """A long session has the same digest and the same question when it is reopened."""
    opened = begin(long, "long", "PAA-I", budget=1000, shuffled=True, parameters={"delta": 0.002})
    while opened.place.progress.labels < 999:
        say(opened, truth(opened))
    again = Session(long, opened.id)
    assert (opened.digest(), opened.place) == (again.digest(), again.place)
    assert 20_000 < again.place.asked.round
    say(again, truth(again))
    ended = Session(long, opened.id)
    assert (again.digest(), "budget") == (ended.digest(), ended.place.progress.end)
