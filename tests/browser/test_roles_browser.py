"""Roles in a session, with people who log in through a real OpenID Connect provider."""

import subprocess
import sys
import time
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import pytest
from playwright.sync_api import expect

from oal_engine.sessions.settings import create
from tests.harness.browser import PATIENCE, Card, button, free_port, guarded, tab
from tests.harness.examples import add_texts

ANNA, BEN = "anna@example.org", "ben@example.org"
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


@pytest.fixture(scope="module")
def provider():
    """The address of an OpenID Connect provider that asks only for an e-mail address."""
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
    """The running app, with a log-in through the provider."""
    port = free_port()
    with guarded(tmp_path_factory.mktemp("roles"), SECRETS.format(port=port, provider=provider), port=port) as app:
        yield app


@pytest.fixture
def enter(app, visit, context, another):
    """A function that opens a page as a given person, after a log-in through the provider."""

    def opened(who, path):
        page = visit(app, path, context={ANNA: context, BEN: another}[who])
        page.route("https://**", lambda route: route.abort())  # the style sheet of the provider
        button(page, "Log in").click()
        page.get_by_placeholder("sub").fill(who)
        button(page, "Authorize").click()
        page.get_by_role("button", name=who).wait_for()
        return page

    return opened


def answers(store, session):
    return [row["annotator"] for row in store.answers(session) if row["label"] is not None]


@pytest.mark.slow
def test_an_owner_invites_and_the_link_opens_the_card(enter, app, tmp_path):
    """The link of an invitation opens the session after the log-in, and the invited person labels under their own name.
    After the role is removed, the open page says why the next answer is not stored."""
    store = app.store
    session = create(store, add_texts(store, tmp_path), learner="pa-i", rule="all", owner=ANNA)
    page = enter(ANNA, f"/Label?session={session}")
    tab(page, "Guidelines")
    page.get_by_text("People", exact=True).click()
    link = page.get_by_test_id("stCode").inner_text().strip()
    page.get_by_label("E-mail address").fill(BEN)
    button(page, "Add").click()
    page.get_by_text(BEN).wait_for()
    assert app.url(f"/Label?session={session}") == link
    page = enter(BEN, link.removeprefix(app.url("")))
    card = Card(page)
    expect(card("text")).not_to_contain_text("being prepared")  # takes some seconds: the owner was alone until then
    card.press("a")
    card.saved()
    assert [BEN] == answers(store, session)
    store.put_role(session, BEN, None, ANNA)
    card.tap("x")
    card.says("Not stored: you have no role in this session any more.")
    page.get_by_text("You have no role in this session any more.").first.wait_for()
    assert [BEN] == answers(store, session)
    page.reload()
    page.get_by_text(f"Session {session} does not exist, or is not open to {BEN}.").wait_for()
