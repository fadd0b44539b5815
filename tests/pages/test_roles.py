"""Roles without a browser: the contents of each page by role, and refused messages."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from threading import BoundedSemaphore

import pytest

from oal_engine import experiments
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SessionError, create
from tests.harness.pages import ADMIN, BINARY, beside, listed, press, run, words
from ui import access, downloads, replay
from ui.components import item_list
from ui.gate import Gate
from ui.label import messages
from ui.label.card_server import CardServer
from ui.label.panels import check, history, pushed
from ui.page import PAGES, Removed

ANNA, BEN, EVE = (f"{name}@example.org" for name in ("anna", "ben", "eve"))
NAME, DATA = "a private session", "private texts"
LABEL = {"id": "forged", "action": "label", "label": 1, "seconds": 1.5, "highlighted": False}


@pytest.fixture
def session(app_store, keep):
    """The id of anna's session over her own data."""
    dataset = keep(DATA, items=60)
    app_store.update_dataset(dataset, {"owner": ANNA})
    return create(app_store, dataset, **BINARY, budget=20, name=NAME, owner=ANNA)


def shown(page, **query):
    """Open a page. Return everything that it sends to the browser, as text."""
    at = run(page, **query)
    return " ".join([words(at), *(str(element) for element in at.main)])


@pytest.mark.slow
def test_a_page_shows_a_session_to_who_has_a_role(app_store, session, become):
    """A person without a role sees neither the session nor its data on any page; an owner of the studio sees them."""
    experiments.begin(experiments.specification({"data": [DATA], "algorithms": {"PAA-I": {}}}), app_store, "compared")
    for page in PAGES.values():
        become(EVE)
        for query in ({}, {"session": session}, {"new": 1}, {"comparison": 1}):
            assert "private" not in shown(page, **query)
        become(ADMIN)
        assert "private" in shown(page, session=session)


@pytest.mark.slow
def test_a_number_tells_a_stranger_nothing(app_store, session, become):
    become(EVE)
    for is_removed in (False, True):
        if is_removed:
            app_store.remove_session(session, ANNA)
        for page in ("pages/1_Label.py", "pages/3_Replay.py"):
            one, other = (words(run(page, session=n)).replace(f"Session {n} ", "Session N ") for n in (session, 999))
            assert one == other
            assert "Session N does not exist, or is not open to eve@example.org." in one


def event(server, id="forged"):
    return messages.read(messages.CardEvent, LABEL | {"id": id, "question": server.session.place.asked.id})


def test_the_card_takes_events_of_annotators_only(app_store, session, become):
    for who, role, refused in (
        (EVE, None, "you have no role"), (BEN, "reader", "you may read"), (BEN, "annotator", None), (ADMIN, None, None),
    ):  # fmt: skip
        if role:
            app_store.put_role(session, who, role, ANNA)
        become(who)
        server, before = CardServer(session), len(app_store.events(session, "answered"))
        with pytest.raises(SessionError, match=refused) if refused else nullcontext():
            server.handle(event(server, f"{who} {role}"), who)
        assert (0 if refused else 1) == len(app_store.events(session, "answered")) - before


def test_a_role_that_is_taken_away_ends_an_open_page(app_store, session, become, sent):
    app_store.put_role(session, BEN, "annotator", ANNA)
    become(BEN)
    server, player = CardServer(session), replay.Player(session)
    server.refresh()
    player.refresh()
    app_store.put_role(session, BEN, None, ANNA)
    for act in (server.refresh, player.refresh, lambda: server.handle(event(server), BEN)):
        with pytest.raises(Removed, match=r"^you have no role in this session any more\.$"):
            act()
    assert "You have no role in this session any more." == sent(session)["removed"]


def test_a_reader_gets_no_card_and_no_list_to_correct_in(app_store, session, become, sent):
    opened = Session(app_store, session)
    question = opened.place.asked.id
    opened.answer("given", question, 1, ANNA)
    app_store.put_role(session, BEN, "reader", ANNA)
    become(BEN)
    forged = {"id": "e", "action": -1, "row": question}
    at = listed(session, "history", events=[forged])
    told = sent(session, LABEL | {"question": opened.place.asked.id})
    assert {"acked", "error", "removed"} == told.keys()
    assert ["Progress", "More", "Learned", "Guidelines"] == [tab.label for tab in at.tabs]
    assert "You may read this session" in words(at)
    assert [1, None] == [row["label"] for row in app_store.answers(session)]


@pytest.mark.parametrize("panel", [history, pushed, check])
def test_a_list_takes_no_event_of_who_has_become_a_reader(app_store, work, become, monkeypatch, panel):
    server, handles = work(answers=3), []
    monkeypatch.setattr(
        item_list, "mount_component", lambda mount, key, kind, handle, *_, **views: handles.append(handle)
    )
    app_store.put_role(server.session.id, ANNA, "owner")
    app_store.put_role(server.session.id, BEN, "annotator")
    become(BEN)
    panel.show(server)
    app_store.put_role(server.session.id, BEN, "reader")
    version = app_store.log_version(server.session.id)
    row = 0 if panel is pushed else app_store.answers(server.session.id)[0]["id"]
    with pytest.raises(SessionError, match="you may read this session"):
        handles[0](messages.read(messages.RowEvent, {"id": "e", "action": -1, "row": row}), BEN)
    assert version == app_store.log_version(server.session.id)


def test_a_download_asks_again_when_it_is_wanted(app_store, session, become):
    app_store.put_role(session, BEN, "reader", ANNA)
    become(BEN)
    wanted = downloads.with_access_check(app_store, session, lambda: b"a file")
    assert b"a file" == wanted()
    app_store.put_role(session, BEN, None, ANNA)
    with pytest.raises(SessionError, match="no role"):
        wanted()
    become(ANNA)
    app_store.remove_session(session, ANNA)
    with pytest.raises(ValueError, match="does not exist"):
        downloads.with_access_check(app_store, session, lambda: b"a file")()


@pytest.mark.slow
def test_few_files_are_made_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "EXPORTS", places := BoundedSemaphore(1))
    monkeypatch.setattr(downloads, "WAIT_SECONDS", 0.01)
    with places, pytest.raises(ValueError, match=r"^the server is writing 2 other files\. Try again in a minute\.$"):
        downloads.output(tmp_path / "studio.db", ["export", "1"])
    with pytest.raises(ValueError, match="error: "):
        downloads.output(tmp_path / "studio.db", ["export", "1"])
    assert places.acquire(timeout=0)  # the refused exports have released the semaphore


def people(session):
    at = run("pages/1_Label.py", session=str(session))
    return beside(at, "Guidelines")


def pressed(at, label, nth=0):
    [button for button in at.button if button.label == label][nth].click().run()
    assert not at.exception


def test_an_owner_names_people_and_takes_it_back(app_store, session, become):
    """An owner adds people with a role, removes all but the last owner, and restores people with their former role."""
    become(ANNA)
    at = people(session)
    assert "session=1" in at.code[0].value
    at.text_input(key="person-mail").set_value(" Ben@example.org ")
    at.selectbox(key="person-role").set_value("reader")
    pressed(at, "Add")
    assert "reader" == app_store.role(session, BEN)
    pressed(at, "Remove", 0)
    assert "a session keeps at least one owner." in words(at)
    pressed(at, "Remove", 1)
    assert app_store.role(session, BEN) is None
    assert "at least one owner" not in words(at)
    assert "reader until" in words(at)
    pressed(at, "Restore")
    assert ("reader", "owner") == tuple(app_store.role(session, mail) for mail in (BEN, ANNA))
    assert {ANNA} == {row["given_by"] for row in app_store.roles(session)}


@pytest.mark.slow
def test_only_owners_name_people_and_remove(app_store, session, become):
    app_store.put_role(session, BEN, "annotator", ANNA)
    for who, owns in ((BEN, False), (ANNA, True)):
        become(who)
        assert owns == any(field.key == "person-mail" for field in people(session).text_input)
        assert owns == any(field.key == "tags" for field in people(session).text_area)
        assert owns == any(button.key == f"remove-{session}" for button in run("home.py").button)


@pytest.mark.parametrize(
    ("page", "key"),
    [("home.py", "remove-1"), ("pages/4_Data.py", "remove-2"), ("pages/2_Compare.py", "compare-remove-1")],
)
def test_who_is_no_owner_any_more_removes_nothing(app_store, session, keep, become, page, key):
    keep("unused", 20)
    experiments.begin(experiments.specification({"data": [DATA], "algorithms": {"PAA-I": {}}}), app_store, "compared")
    become(ADMIN)
    at = run(page)
    at.button(key=key).click().run()
    become(EVE)
    press(at, "remove-sure")
    assert "You may not remove this any more." == str(at.session_state["remove-problem"])
    assert (1, 2, 1) == tuple(len(each()) for each in (app_store.sessions, app_store.datasets, app_store.comparisons))


def test_a_comparison_is_of_its_data_and_not_of_their_name(app_store, session, keep, become):
    experiments.begin(experiments.specification({"data": [DATA], "algorithms": {"PAA-I": {}}}), app_store, "compared")
    gone = "Comparison 1 does not exist."
    become(ANNA)
    assert gone not in shown("pages/2_Compare.py", comparison=1)
    for each in app_store.sessions():
        app_store.remove_session(each["id"])
    app_store.remove_dataset(1)
    app_store.update_dataset(keep(DATA, items=60), {"owner": EVE})
    become(EVE)
    assert gone in shown("pages/2_Compare.py", comparison=1)


def test_what_was_removed_says_so_after_a_reload(app_store, session, keep, become):
    """The address of a removed session or comparison says that it was removed, to people who could see it. Only the
    session's owner can restore it."""
    app_store.put_role(session, BEN, "reader", ANNA)
    spec = experiments.specification({"data": [DATA], "algorithms": {"PAA-I": {}}})
    compared = experiments.begin(spec, app_store, "compared")
    app_store.remove_session(session, ANNA)
    app_store.remove_comparison(compared)
    gone = "This session was removed. Its owner can restore it for 30 days."
    for who in (ANNA, BEN, ADMIN, EVE):
        become(who)
        for page in ("pages/1_Label.py", "pages/3_Replay.py"):
            assert (gone in shown(page, session=session)) == (who != EVE)
        assert "This comparison was removed." in shown("pages/2_Compare.py", comparison=compared)
        assert "Comparison 2 does not exist." in shown("pages/2_Compare.py", comparison=compared + 1)
        assert ("private" in shown("home.py")) == (who in (ANNA, ADMIN))
    become(ANNA)
    pressed(run("home.py"), "Restore")
    assert [session] == [row["id"] for row in app_store.sessions()]


async def _nothing():
    return {"type": "http.disconnect"}


def answered(path, query=b"", location=None, cookie=b""):
    """Return the headers of a response, {name: value}, that has passed the gate. location: where the app redirects."""
    got = {}

    async def app(scope, receive, send):
        await send(
            {"type": "http.response.start", "status": 302, "headers": [(b"location", location)] * bool(location)}
        )

    async def send(message):
        got.update({name.decode(): value.decode() for name, value in message["headers"]})

    scope = {"type": "http", "method": "GET", "path": path, "query_string": query, "headers": [(b"cookie", cookie)]}
    with ThreadPoolExecutor() as thread:  # this thread may already run the event loop of a browser
        thread.submit(asyncio.run, Gate(app)(scope, _nothing, send)).result()
    return got


def test_the_log_in_leads_back_to_the_invitation_and_nowhere_else(monkeypatch):
    """After a log-in, a person returns to the page that they had opened. If the cookie names any other address, they
    get to the first page."""
    monkeypatch.setattr(access, "standing", lambda person: access.Standing())
    cookie = answered("/Label", b"session=7&x=%0d%0a")["set-cookie"].partition(";")[0]
    assert "oal_wanted=/Label%3Fsession%3D7%26x%3D%250d%250a" == cookie
    assert "/Label?session=7&x=%0d%0a" == answered("/oauth2callback", b"", b"/", cookie.encode())["location"]
    for other in ("//evil.example/Label", "https://evil.example", "/auth/logout", "/Label/../x"):
        assert "/" == answered("/oauth2callback", b"", b"/", f"oal_wanted={other}".encode())["location"]
    assert "set-cookie" not in answered("/Label")
    monkeypatch.setattr(access, "standing", lambda person: access.Standing(enters=True))
    assert "set-cookie" not in answered("/Label", b"session=7")
