"""Several people in one session get different items, and replaying the log of their events gives the same bits."""

import csv
from collections import Counter
from itertools import product
from math import comb

import numpy as np
import pytest

from oal_engine.kernel.draws import draws
from oal_engine.sessions import asking, look_back
from oal_engine.sessions.files import export
from oal_engine.sessions.insights import agreement, certainty, estimates
from oal_engine.sessions.open_run import OVERLAP
from oal_engine.sessions.session import OthersAnsweredError, Session
from oal_engine.sessions.settings import SKIP, SessionError
from tests.harness.sessions import EVENTS, PEOPLE, begin, database, label_truly, leave, reply


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """Another database with the same stream as `store`."""
    return database(tmp_path_factory.mktemp("there") / "there.db", "sparse")


def test_everybody_has_items_of_their_own_and_one_ahead(store):
    """A person alone has one item. If others join, each person has two items that nobody else has, and each question is
    stored before it is shown."""
    opened = begin(store)
    alone = opened.held("anna")
    assert [opened.place.asked] == alone
    assert 2 == len(opened.held("ben"))
    held = {who: opened.held(who) for who in PEOPLE}
    assert alone == held["anna"][:1]
    ids = [each.id for own in held.values() for each in own]
    assert 6 == len(set(ids)) == len(ids)
    assert set(ids) <= {entry.id for entry in Session(store, opened.id).log}


def test_answers_are_learned_in_the_order_of_arrival(store):
    opened = begin(store)
    asked = {who: opened.held(who)[0] for who in PEOPLE}
    for who in reversed(PEOPLE):
        reply(opened, who)
    lessons = [lesson.number for lesson in Session(store, opened.id).state.lessons]
    assert [asked[who].number for who in reversed(PEOPLE)] == lessons


def test_who_has_nothing_left_hears_that_others_have_it(store):
    """A person is told if others hold the last questions of the budget. When a lease runs out, its question goes to
    this person, and a late answer of its first holder does not replace the label."""
    opened = begin(store, budget=2)
    opened.held("anna"), opened.held("ben")
    assert [] == opened.held("carla")
    assert "others" == opened.place_at(None).progress.end
    late = opened.held("anna")[0]
    leave(store, "anna")
    assert late == opened.held("carla")[0]
    reply(opened, "carla", 1)
    opened.answer(next(EVENTS), late.id, -1, "anna")
    assert {late.id: 1} == {entry.id: entry.label for entry in opened.log if entry.label}
    assert [(late.id, -1, "anna", "late")] == [
        (row["question"], row["label"], row["annotator"], row["kind"]) for row in store.opinions(opened.id)
    ]


def test_a_lease_runs_out_although_the_clock_was_put_back(store):
    """A lease that began while the clock was years ahead has run out when the clock is right again."""
    opened = begin(store, budget=2)
    asked, _ = opened.held("anna")[0], opened.held("ben")
    with store.transaction():
        store.db.execute("UPDATE leases SET leased_at = '2999-01-01T00:00:00.000+00:00' WHERE annotator = 'anna'")
    assert asked == opened.held("carla")[0]


def test_who_answered_first_is_not_asked_again_after_a_correction(store):
    """A second answer is asked only of people who neither gave nor corrected the first one."""
    opened = begin(store, overlap=1)
    asked = reply(opened, "anna", 1)
    opened.correct(next(EVENTS), asked.id, -1, "ben")
    assert [[], [], [asked.id]] == [store.due_answers(opened.id, who) for who in PEOPLE]


def test_an_answer_is_taken_back_only_where_nobody_went_on(store):
    """A person can undo their last answer until somebody else answers; after that it can only be corrected."""
    opened = begin(store)
    opened.held("anna"), opened.held("ben")
    asked = reply(opened, "anna")
    before = opened.digest()
    opened.held("anna")
    opened.undo(next(EVENTS), asked.id)
    assert asked.id == opened.held("anna")[0].id
    reply(opened, "anna")
    assert before == opened.digest()
    reply(opened, "ben")
    with pytest.raises(OthersAnsweredError):
        opened.undo(next(EVENTS), asked.id)
    assert asked.id == opened.previous_of("anna")
    assert look_back.verify(store, opened.id).verified


def test_a_coin_chooses_what_two_people_answer(store):
    """Only the seed and the round decide which questions get two answers; the second answer is another person's."""
    opened = begin(store, overlap=0.4, seed=3)
    for _ in range(12):
        for who in PEOPLE[:2]:
            for _ in opened.held(who)[:1]:
                reply(opened, who)
    while any(opened.store.due_answers(opened.id, who) and opened.held(who) for who in PEOPLE):
        for who in PEOPLE:
            if opened.held(who):
                reply(opened, who)
    twice = {entry.id: entry for entry in opened.log if entry.round in rounds_of_coin(opened, 0.4) and entry.label}
    seconds = {row["question"]: row["annotator"] for row in store.opinions(opened.id) if row["kind"] == "second"}
    assert twice.keys() == seconds.keys()
    assert all(seconds[id] != entry.annotator for id, entry in twice.items())


def test_people_who_come_one_after_another_answer_the_same_items(store):
    """A person who comes later gives the due second answers first, and always has the next question ready."""
    opened = begin(store, overlap=0.5, quota=12, seed=3)
    while opened.held("anna"):
        reply(opened, "anna")
    leave(store, "anna")
    due = store.due_answers(opened.id, "ben")
    assert 0 < len(due) < 12
    for left in range(len(due), 0, -1):
        assert due[-left] == opened.held("ben")[0].id
        assert len(opened.held("ben")) == 2
        reply(opened, "ben")
    assert [opened.current.id] == [each.id for each in opened.held("ben")]
    assert opened.allowed("ben") == 12 - len(due)


def rounds_of_coin(opened, share):
    return np.flatnonzero(draws(opened.settings.seed ^ OVERLAP, opened.rounds) < share)


def test_nothing_is_said_of_what_came_after_a_question_that_waits(store):
    """Estimates and guaranteed minimums use only answers before the first waiting question, no matter who holds it."""
    opened = begin(store, audit=0.5, budget=60, floor=0.3)
    for _ in range(25):
        reply(opened, "anna")
    opened.held("ben")
    early, sure = estimates.of_session(opened), certainty.of_session(opened)
    waits = opened.held("anna")[0]
    for _ in range(12):
        reply(opened, "ben")
    assert early.metrics == estimates.of_session(opened).metrics
    assert (sure.rounds, sure.floors) == (waits.round, certainty.of_session(opened).floors)
    reply(opened, "anna")
    assert certainty.of_session(opened).rounds > waits.round


def test_who_was_alone_keeps_what_a_page_may_show_already(store, monkeypatch):
    """A second person gets an item once no page shows questions prepared for one person alone; an answer to such a
    question is stored."""
    opened, now = begin(store, "sparse", "PAA-I"), [100.0]
    monkeypatch.setattr(asking, "monotonic", lambda: now[0])
    (first,), painted = opened.held("Ann"), opened.branches
    assert {1, -1, SKIP} == set(painted)
    before = opened.changed
    assert [] == opened.held("Bob")
    assert (opened.someone_joins, opened.branches, before[0] + 1) == (True, {}, opened.changed[0])
    opened.answer(next(EVENTS), first.id, 1, "Ann")
    opened.answer(next(EVENTS), painted[1].asked.id, -1, "Ann")
    now[0] += asking.JOIN_WAIT_SECONDS
    (mine,) = opened.held("Ann")
    (other, _) = opened.held("Bob")
    assert mine.id != other.id
    assert [mine.id] == [each.id for each in opened.held("Ann")][:1]
    assert 2 == len(opened.labels)
    assert look_back.verify(store, opened.id).verified


def test_pages_that_ask_rarely_let_a_second_person_in(store, monkeypatch):
    """If the first person's page polls less often than JOIN_WAIT_SECONDS, as on a busy machine, a second person still
    gets an item."""
    opened, now = begin(store, "sparse", "PAA-I"), [100.0]
    monkeypatch.setattr(asking, "monotonic", lambda: now[0])
    opened.held("Ann")
    assert opened.branches
    assert [] == opened.held("Bob")
    now[0] += asking.JOIN_WAIT_SECONDS + 1
    opened.held("Ann")
    assert {} == opened.branches
    assert opened.held("Bob")


@pytest.mark.parametrize("people", [2, 3])
def test_so_many_people_answer_a_question_each_once(store, people):
    """Of four people, `people` answer each question: the first answer is the label, the others are second answers. No
    item counts twice in the agreement."""
    opened = begin(store, "sparse", "PAA-I", budget=6, overlap=1.0, people=people)
    for who in "anna ben cleo dora".split() * 12:
        if opened.held(who):
            reply(opened, who, 1)
    answered = Counter(row["question"] for row in store.opinions(opened.id))
    assert {entry.id: people - 1 for entry in opened.log} == answered
    for entry in opened.log:
        further = [row["annotator"] for row in store.opinions(opened.id) if row["question"] == entry.id]
        assert len({entry.annotator, *further}) == people
    pairs = agreement.answer_pairs(opened)
    assert (6 * comb(people, 2), 6) == (len(pairs), len(agreement.one_each(pairs)))
    assert all(own.pairs == own.equal for own in agreement.by_people(pairs).values())


def test_nobody_gets_more_questions_than_their_quota(store):
    """A person who has used up their quota gets no more questions, not even after undoing an answer and giving it
    again. Other people still get questions."""
    opened = begin(store, "sparse", "PAA-I", budget=20, quota=3, overlap=0.5)
    while opened.held("anna"):
        reply(opened, "anna", 1)
    assert 3 == [entry.annotator for entry in opened.log].count("anna")
    assert not opened.has_for("anna")
    opened.undo(next(EVENTS), opened.previous_of("anna"), "anna")
    assert 1 == len(opened.held("anna"))
    reply(opened, "anna", -1)
    assert [] == opened.held("anna")
    assert 1 <= len(opened.held("ben")) <= 2
    with pytest.raises(SessionError, match="people of a session must be a whole number >= 2"):
        begin(store, "sparse", people=1)


def test_what_is_answered_offline_is_kept_when_a_second_person_joins(store, tmp_path, monkeypatch):
    """Anna answers two items offline, and Ben joins meanwhile. Her second answer is a label if its item was asked about
    by then. Otherwise it is a late answer, which is exported without a question number, counts for her, and is no
    second answer."""
    monkeypatch.setattr(asking, "JOIN_WAIT_SECONDS", 0)
    cases = set()
    for seed, given in product(range(6), (1, -1, SKIP)):
        opened = begin(store, shuffled=True, seed=seed)
        for _ in range(seed % 5):
            reply(opened, "anna")
        held, painted = opened.held("anna")[0], opened.branches[given].asked
        opened.held("ben")
        opened.answer(next(EVENTS), held.id, given, "anna")
        was_asked = store.asked_of_item(opened.id, painted.id) is not None
        opened.answer(next(EVENTS), painted.id, -1, "anna")
        labels = {entry.item: (entry.annotator, entry.label) for entry in opened.log if entry.label is not None}
        assert (("anna", given), ("anna", -1) if was_asked else None) == (labels[held.item], labels.get(painted.item))
        if not was_asked:
            export.export(store, opened.id, "opinions", "csv", tmp_path / "late.csv")
            (row,) = csv.DictReader((tmp_path / "late.csv").read_text().splitlines())
            wanted = ("", f"i{painted.item}", "late", "anna", "")
            assert wanted == tuple(row[name] for name in ("number", "id", "kind", "annotator", "stands"))
            assert 1 == next(person.late for person in agreement.people(opened) if person.name == "anna")
            assert [] == agreement.answer_pairs(opened)
        cases.add(was_asked)
    assert {True, False} == cases


def test_an_answer_to_what_nobody_was_shown_is_refused(store, monkeypatch):
    """A late answer is refused if its question does not exist or was prepared for somebody else."""
    monkeypatch.setattr(asking, "JOIN_WAIT_SECONDS", 0)
    opened = begin(store)
    opened.held("anna")
    painted = opened.branches[1].asked
    opened.held("ben")
    for question, who in ((painted.id, "carla"), (painted.id + 1000, "anna")):
        if store.asked_of_item(opened.id, question) is None:
            with pytest.raises(SessionError, match="this item is not the current question"):
                opened.answer(next(EVENTS), question, 1, who)
    assert [] == store.opinions(opened.id)


def test_corrections_keep_few_prepared_questions(store):
    opened = begin(store)
    label_truly(opened, 4)
    count = f"SELECT count(*) FROM questions WHERE session = {opened.id}"
    before = store.number(count)
    for turn in range(10):
        opened.correct(next(EVENTS), opened.log[0].id, 1 if turn % 2 else -1)
    assert store.number(count) - before <= 3 * 10


def test_an_answer_after_the_end_of_the_stream_counts_no_round_twice(store):
    """If the stream ended while somebody had the last question, its answer is learned, and no round runs again."""
    opened, (who, other) = begin(store, budget=299), PEOPLE[:2]
    opened.held(who)
    while opened.held(other):
        reply(opened, who)
        who, other = other, who
    stored = store.question_count(opened.id)
    assert Session(store, opened.id).state.outstanding
    assert stored == store.question_count(opened.id)
    reply(opened, who)
    assert opened.counts.sum() == opened.rounds
