"""Sessions are rebuilt from their log bit for bit, while others answer and after crashes."""

import json
import sqlite3
import threading

import numpy as np
import pytest

from oal_engine.sessions.files import export
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SKIP, SessionError
from oal_engine.store import StorageError, Store
from tests.harness.sessions import (
    RUNS,
    begin,
    label_truly,
    label_until_the_end,
    say,
    standing,
    take_back,
    truth,
)


def test_a_place_is_never_half_of_an_answer(store):
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


def test_a_session_opens_while_another_process_writes(path, store):
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
