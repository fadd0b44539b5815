"""Roles in a session, with people who log in at a real OpenID Connect provider."""

import subprocess
import sys
import time
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import pytest
from playwright.sync_api import expect

from tests.harness.browser import PATIENCE, Card, button, free_port, running, tab

ANNA, BEN, CARLA, EVE = (f"{name}@example.org" for name in ("anna", "ben", "carla", "eve"))
SECRETS = """
[auth]
redirect_uri = "http://127.0.0.1:{port}/oauth2callback"
cookie_secret = "a-secret-of-the-server-and-of-nobody-else"
client_id = "client"
client_secret = "another secret"
server_metadata_url = "{provider}/.well-known/openid-configuration"

[access]
allowed = ["@example.org"]
"""
NAME = "a private session"


@pytest.fixture(scope="module")
def provider():
    """The address of a provider that asks for nothing but an e-mail address."""
    pytest.importorskip("authlib", reason="needs requirements-test.txt")
    port = free_port()
    command = [sys.executable, "-m", "oidc_provider_mock", "--host", "127.0.0.1", "--port", str(port)]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address, end = f"http://127.0.0.1:{port}", time.monotonic() + PATIENCE
    while True:
        try:
            build_opener(ProxyHandler({})).open(f"{address}/.well-known/openid-configuration", timeout=PATIENCE).close()
            break
        except URLError:
            assert running.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
    yield address
    running.kill()
    running.wait()


@pytest.fixture(scope="module")
def app(browser, provider, tmp_path_factory):
    """The running app with a log-in at the provider."""
    folder = tmp_path_factory.mktemp("roles")
    (folder / ".streamlit").mkdir()
    port = free_port()
    (folder / ".streamlit" / "secrets.toml").write_text(SECRETS.format(port=port, provider=provider))
    with running(folder, work=folder, port=port) as app:
        yield app


@pytest.fixture(scope="module")
def people(browser):
    """The browser of each person, in which they stay logged in."""
    opened = {}
    yield lambda who: opened.setdefault(who, browser.new_context())
    for context in opened.values():
        context.close()


@pytest.fixture
def enter(app, visit, people):
    """A function that opens a page as somebody, who logs in at the provider where the app asks for it."""

    def opened(who, path="/"):
        page = visit(app, path, context=people(who))
        page.route("https://**", lambda route: route.abort())  # the style sheet of the provider
        page.get_by_role("button", name="Log in").or_(page.get_by_role("button", name=who)).wait_for()
        if button(page, "Log in").is_visible():
            button(page, "Log in").click()
            page.get_by_placeholder("sub").fill(who)
            button(page, "Authorize").click()
            page.get_by_role("button", name=who).wait_for()
        return page

    return opened


@pytest.fixture(scope="module")
def store(app):
    """The app's database, seen by a second process."""
    return app.store


@pytest.fixture
def session(store, enter):
    """The private session, which Anna makes at her first visit."""
    if not store.sessions():
        page = enter(ANNA)
        button(page, "Try the demo").click()
        Card(page)
        store.update_session(store.sessions()[0]["id"], {"name": NAME})
    (row,) = store.sessions()
    return row["id"]


def answers(store, session):
    return [row["annotator"] for row in store.answers(session) if row["label"] is not None]


def test_an_owner_invites_and_the_link_opens_the_card(enter, app, store, session):
    """Whoever opens the invitation comes back to it from the log-in, and labels under their own name."""
    page = enter(ANNA, f"/Label?session={session}")
    tab(page, "Guidelines")
    page.get_by_text("People", exact=True).click()
    link = page.get_by_test_id("stCode").inner_text().strip()
    page.get_by_label("E-mail address").fill(BEN)
    button(page, "Add").click()
    expect(page.get_by_text(BEN)).to_be_visible()
    assert app.url(f"/Label?session={session}") == link
    card = Card(enter(BEN, link.removeprefix(app.url(""))))
    expect(card("text")).not_to_contain_text("being prepared")  # for some seconds, as the owner was alone until then
    before = len(answers(store, session))
    card.press("a")
    card.saved()
    assert [BEN] == answers(store, session)[before:]


def test_a_stranger_sees_nothing_of_a_session(enter, app, session):
    """On no page; and a number that is a session's says the same as one that is none."""
    page = enter(EVE)
    for path in ("/", "/Label", "/Replay", "/Compare", "/Data"):
        page.goto(app.url(path))
        page.get_by_role("button", name=EVE).wait_for()
        expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
        assert NAME not in page.inner_text("body")
    for path in ("/Label", "/Replay"):
        sentences = []
        for number in (session, 999):
            page.goto(app.url(f"{path}?session={number}"))
            sentences.append(page.get_by_role("status").inner_text().replace(str(number), "N"))
        assert [f"Session N does not exist, or is not open to {EVE}. Ask its owner."] * 2 == sentences


def test_a_reader_sees_and_cannot_answer(enter, store, session):
    """The page has no card and no list in which answers are corrected."""
    store.put_role(session, CARLA, "reader", ANNA)
    page = enter(CARLA, f"/Label?session={session}")
    expect(page.get_by_text("You may read this session")).to_be_visible()
    assert ["Progress", "Learned", "Guidelines", "Team"] == page.get_by_role("tab").all_inner_texts()
    expect(page.get_by_test_id("oal-card")).to_have_count(0)


def test_a_role_that_is_taken_away_stops_the_next_answer(enter, store, session):
    """The open page says why, and nothing is stored."""
    store.put_role(session, BEN, "annotator", ANNA)
    page = enter(BEN, f"/Label?session={session}")
    card = Card(page)
    expect(card("text")).not_to_contain_text("being prepared")
    card.press("a")
    card.saved()
    before = answers(store, session)
    store.put_role(session, BEN, None, ANNA)
    card.tap("x")
    card.says("Not stored: you have no role in this session any more.")
    expect(page.get_by_text("You have no role in this session any more.").first).to_be_visible()
    assert before == answers(store, session)
    page.reload()
    expect(page.get_by_text(f"Session {session} does not exist, or is not open to {BEN}.")).to_be_visible()
