"""Removed and erased sessions, and the roles of people in a session."""

from datetime import timedelta

import pytest

from oal_engine.store import StoreError, digest_of, now, sessions
from tests.harness.sessions import erase
from tests.harness.tables import DATASET, ITEMS, SESSION, answer, ask, replace_everywhere, rows


def test_a_removed_session_is_nowhere_until_it_is_restored(store, session):
    """A removed session is not listed and refuses every action; once restored, it is as before. The removal and the
    restoration are logged."""
    before = store.session(session), store.sessions(), store.datasets()
    store.remove_session(session, "anna")
    assert [] == store.sessions()
    assert [0] == [row["sessions"] for row in store.datasets()]
    assert [(session, "s", "anna")] == [(row["id"], row["name"], row["removed_by"]) for row in store.removed_sessions()]
    for asked in (store.session, store.log_version, store.count_change, store.remove_session):
        with pytest.raises(StoreError, match=rf"^session {session} does not exist\.$"):
            asked(session)
    store.erase_removed()
    store.restore_session(session, "ben")
    assert before == (store.session(session), store.sessions(), store.datasets())
    assert [] == store.removed_sessions()
    store.remove_session(session, "carla")
    logged = [tuple(row.values()) for row in store.query("SELECT removed_by, restored_by FROM removals ORDER BY id")]
    assert [("anna", "ben"), ("carla", None)] == logged


@pytest.fixture
def clock(monkeypatch):
    """A function that sets the clock of the store a given number of days ahead."""
    return lambda days: replace_everywhere(monkeypatch, "now", lambda ago=timedelta(): now(ago - timedelta(days)))


def present_after(store, clock, *starts):
    """Simulate starts of the server, each with the clock a given number of days ahead. Return whether the session still
    exists."""
    for days in starts:
        clock(days)
        store.erase_removed()
    clock(0)
    return rows(store)["sessions"] == 1


def test_a_removed_session_is_erased_by_two_starts(store, session, clock):
    """The first server start more than 30 days after a removal only marks the session for erasure. A start more than a
    week later erases it; its name stays in the log."""
    store.remove_session(session)
    assert present_after(store, clock, 29.9, 30.1, 37)
    assert not present_after(store, clock, 37.2)
    assert ["s"] == [row["name"] for row in store.query("SELECT name FROM removals")]


@pytest.mark.parametrize(
    "starts", [(40,), (40, 0), (40, 41, 46), (40, 0, 48), (40, 0, 48, 1, 60), (4000, 1, 4000), (-4000, 40)]
)
def test_a_clock_that_was_ahead_erases_nothing(store, session, clock, starts):
    """A session that was removed today is not erased by any single start with a wrong clock, nor by two such starts if
    the clock was right at a start in between."""
    store.remove_session(session)
    assert present_after(store, clock, *starts)
    store.restore_session(session)
    assert ["s"] == [row["name"] for row in store.sessions()]


def test_a_session_that_was_removed_again_begins_anew(store, session, clock):
    """If a session is restored and removed again, the wait before it is erased starts over: marks of earlier server
    starts do not count."""
    store.remove_session(session)
    assert present_after(store, clock, 31)
    store.restore_session(session)
    clock(38)
    store.remove_session(session)
    assert present_after(store, clock, 39, 60)


def test_a_session_is_for_the_people_that_its_owner_names(store):
    """The person who begins a session with an e-mail address owns it; others have the role that they were given last,
    or none."""
    session = store.add_session(SESSION | {"dataset": store.add_dataset(DATASET, ITEMS), "owner": "Anna@example.org"})
    people = "ANNA@example.org", "ben@example.org", "eve@example.org", ""
    assert ["owner", None, None, None] == [store.role(session, mail) for mail in people]
    store.put_role(session, " Ben@Example.org", "annotator", "anna@example.org")
    store.put_role(session, "eve@example.org", "annotator")
    store.put_role(session, "eve@example.org", "reader")
    assert ["owner", "annotator", "reader", None] == [store.role(session, mail) for mail in people]
    store.put_role(session, "ben@example.org", None, "anna@example.org")
    assert ["owner", None, "reader", None] == [store.role(session, mail) for mail in people]
    assert [("anna@example.org", None), ("ben@example.org", "anna@example.org")] == [
        (row["mail"], row["ended_by"]) for row in store.roles(session)[:2]
    ]


@pytest.mark.parametrize("way", [None, "reader"])
def test_a_session_keeps_an_owner(store, way):
    """The last owner of a session can neither be removed nor get another role, and the attempt changes nothing."""
    session = store.add_session(SESSION | {"dataset": store.add_dataset(DATASET, ITEMS), "owner": "anna@example.org"})
    with pytest.raises(StoreError, match=r"^a session keeps at least one owner\.$"):
        store.put_role(session, "anna@example.org", way)
    assert "owner" == store.role(session, "anna@example.org")
    store.put_role(session, "ben@example.org", "owner")
    store.put_role(session, "anna@example.org", way)
    assert way == store.role(session, "anna@example.org")


@pytest.mark.parametrize("mail", ["", "anna", "anna@", "a b@c.org", "a@b@c"])
def test_a_role_is_for_an_address(store, session, mail):
    """A role needs an e-mail address: a bare name, or two addresses, are refused."""
    with pytest.raises(StoreError, match="must look like"):
        store.put_role(session, mail, "reader")
    assert [] == store.roles(session)


def test_a_session_without_people_is_open_until_one_is_named(store, session):
    """Everybody is an annotator of a session without roles. The first role closes it to people without one, even after
    this role is taken away again. The person who began the session stays its owner."""
    store.update_session(session, {"owner": "anna@example.org"})
    people = "anna@example.org", "ben@example.org", "eve@example.org"
    assert ["owner", "annotator", "annotator"] == [store.role(session, mail) for mail in people]
    store.put_role(session, "ben@example.org", "reader")
    assert ["owner", "reader", None] == [store.role(session, mail) for mail in people]
    store.put_role(session, "ben@example.org", None)
    assert ["owner", None, None] == [store.role(session, mail) for mail in people]


def test_a_data_set_is_for_its_owner_and_for_the_people_of_its_sessions(store):
    """A data set without an owner is visible to everybody. Any other data set is visible to its owner and to people
    with a role in one of its sessions, unless that session was removed."""
    free, own = (store.add_dataset(DATASET | {"name": name, "owner": name}, ITEMS) for name in ("", "anna@example.org"))
    session = store.add_session(SESSION | {"dataset": own})
    store.put_role(session, "ben@example.org", "reader")
    seen = {mail: store.visible_datasets(f"{mail}@Example.org") for mail in ("anna", "ben", "eve")}
    assert {"anna": {free, own}, "ben": {free, own}, "eve": {free}} == seen
    store.remove_session(session)
    assert {free} == store.visible_datasets("ben@example.org")


def test_a_session_goes_with_its_questions_and_labels(store, session):
    other = store.add_session(SESSION | {"dataset": 1, "name": "other"})
    for number in (session, other):
        answer(store, number, ask(store, number), 1)
        store.put_digest(number, 50, "digest")
    erase(store, session)
    assert {
        "datasets": 1,
        "items": 3,
        "vocabulary": 1,
        "sessions": 1,
        "questions": 1,
        "events": 2,
        "labels": 1,
        "digests": 1,
    } == rows(store)
    assert ["other"] == [row["name"] for row in store.sessions()]


def test_a_token_is_stored_as_its_digest(store, session):
    """Only the digest of a token is stored, not its secret; a token is valid until it expires or its session is
    removed, and is erased with the session."""
    day = timedelta(1)
    (first, secret), (second, other) = (store.add_token(session, role, "", day) for role in ("reader", "owner"))
    assert (1, 2, "token 2") == (first, second, store.tokens()[1]["annotator"])
    assert len(secret) > 40
    assert secret != other
    assert digest_of(secret) == store.tokens()[0]["digest"]
    for path in (store.path, store.path.with_name(f"{store.path.name}-wal")):
        assert secret.encode() not in path.read_bytes()
    store.add_token(session, "reader", "late", timedelta(0))
    assert [1, 1, 0] == [row["valid"] for row in store.tokens()]
    store.remove_token(second)
    for act, sentence in (
        (lambda: store.remove_token(second), "token 2 does not exist."),
        (lambda: store.add_token(session + 1, "owner", "", day), f"session {session + 1} does not exist."),
        (lambda: store.add_token(session, "boss", "", day), "a role must be reader, annotator, owner. Got boss."),
    ):
        with pytest.raises(StoreError, match=f"^{sentence}$"):
            act()
    store.remove_session(session)
    assert [0, 0] == [row["valid"] for row in store.tokens()]
    store.remove_dataset(1)
    assert [] == store.tokens()


def test_a_token_that_has_expired_stays_so(store, session, monkeypatch):
    """A token that was found to have expired is not valid again when the clock goes back, and the number of a removed
    token, with the name that it gives, is never given again."""
    days, time = [0.0], sessions.now
    monkeypatch.setattr(sessions, "now", lambda ago=timedelta(): time(ago - timedelta(days[0])))
    store.add_token(session, "reader", "", timedelta(10))
    store.add_token(session, "reader", "", timedelta(30))
    for days[0], valid in ((9, [1, 1]), (11, [0, 1]), (9, [0, 1]), (-400, [0, 1])):
        assert valid == [row["valid"] for row in store.tokens()]
    for number in (3, 4):
        assert number == store.add_token(session, "reader", "", timedelta(10))[0]
        store.remove_token(number)
    store.remove_token()
    assert 5 == store.add_token(session, "reader", "", timedelta(10))[0]
    assert ["token 5"] == [row["annotator"] for row in store.tokens()]
