"""The pulse: an open page polls the server for changes to its session. Pages take turns to be redrawn."""

from contextlib import ExitStack

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from ui import access
from ui.components import pulse


@pytest.fixture
def ask(app_store, monkeypatch):
    """A function that requests a session's pulse, given the fingerprint that a page has seen. Returns the status."""
    monkeypatch.setattr(pulse, "store", lambda: app_store)
    monkeypatch.setattr(pulse, "turns", pulse.Turns(1000.0))
    app = Starlette(routes=[pulse.route()])

    async def with_person(scope, receive, send):
        await app(scope | {"person": dict}, receive, send)

    browser = TestClient(with_person)
    return lambda session, seen: browser.get(f"/pulse/{session}", params={"seen": seen}).status_code


CHANGES = {
    "an answer": lambda server, asked: server.session.answer("event", asked.id, 1),
    "a note": lambda server, asked: server.session.note("event", asked.item, "look again"),
    "a tag": lambda server, asked: server.session.tag("event", asked.item, "odd", True),
    "a role": lambda server, asked: server.session.store.put_role(server.session.id, "ada@example.org", "owner"),
    "guidelines": lambda server, asked: server.session.store.update_session(
        server.session.id, {"guidelines": "Only dogs."}
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_page_is_told_of_every_change_of_its_session(ask, work, change):
    server = work(2, tags=("odd",), algorithm="OAAL")
    seen = server.session.store.fingerprint(server.session.id)
    assert pulse.UNCHANGED == ask(server.session.id, seen)
    change(server, server.session.place.asked)
    assert pulse.CHANGED == ask(server.session.id, seen)


def test_a_card_asks_for_news_with_its_own_request(sent, work):
    """If a card sends the fingerprint of the state that it has seen, the reply says whether the session has changed
    since. Without a fingerprint the reply reports no change."""
    server = work(2)
    seen = server.session.store.fingerprint(server.session.id)
    assert [False, True] == [sent(server.session.id, seen=each)["news"] for each in (seen, "")]
    server.session.note("event", server.session.place.asked.item, "look again")
    assert [True, False] == [sent(server.session.id, seen=each)["news"] for each in (seen, None)]


def test_a_page_of_a_lost_session_is_redrawn_and_learns_nothing(ask, work, app_store, monkeypatch):
    """The pulse of a session that does not exist, or in which a person has no role, always reports a change."""
    server = work(1)
    app_store.put_role(server.session.id, "ada@example.org", "owner")
    assert [pulse.CHANGED] * 2 == [ask(lost, "") for lost in (server.session.id + 1, 10**40)]
    monkeypatch.setattr(access, "standing", lambda person: access.Standing(enters=True, mail="eve@example.org"))
    monkeypatch.setattr(pulse, "turns", pulse.Turns(0.0))  # strangers take no turn from others
    assert pulse.CHANGED == ask(server.session.id, server.session.store.fingerprint(server.session.id))


def test_pages_have_fewer_turns_on_a_busy_server(monkeypatch):
    wall = cpu = 0.0
    monkeypatch.setattr(pulse, "monotonic", lambda: wall)
    monkeypatch.setattr(pulse, "process_time", lambda: cpu)
    turns = pulse.Turns(pulse.REDRAWS_PER_SECOND, pulse.IdleClock())
    assert [True] * 5 + [False] == [turns.take() for _ in range(6)]
    wall = cpu = 2.1
    assert [True, True, False] == [turns.take() for _ in range(3)]
    wall, cpu = 3.1, 5.1  # three cores
    assert [True, False] == [turns.take() for _ in range(2)]
    wall = 4.1
    assert [True] * 5 + [False] == [turns.take() for _ in range(6)]


def test_no_page_has_a_turn_while_many_answers_are_under_way():
    turns = pulse.Turns(100.0)
    with ExitStack() as answers:
        for _ in range(pulse.BUSY - 1):
            answers.enter_context(turns.answering())
        assert turns.take()
        answers.enter_context(turns.answering())
        assert not turns.take()
    assert turns.take()
