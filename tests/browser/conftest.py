import csv

import pytest

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.sessions.settings import create
from tests.harness.browser import Card, forget, running, warmed
from tests.harness.scripted_card import ADDRESS, HTML, THEME, Script
from ui.components import text
from ui.components.card import STYLES

COLUMNS = reading.Columns(text=("text",), label="label", id="id")


@pytest.fixture(scope="session")
def server(browser, tmp_path_factory):
    """One running app, shared by the tests that start no app of their own. Its database is empty at first."""
    with running(tmp_path_factory.mktemp("app")) as server:
        yield server


@pytest.fixture(scope="session")
def store(server):
    """The store of the app's database, opened in the test process."""
    return server.store


@pytest.fixture
def app(server, store):
    """The running app, without any stored preferences. At the end the fixture restarts an app that was killed, and
    checks that the test added no traceback to its output."""
    with store.transaction():
        store.db.execute("DELETE FROM annotators")
    before = server.log.stat().st_size
    yield server
    if server.process.poll() is not None:
        server.start()
    assert b"Traceback" not in server.log.read_bytes()[before:]


@pytest.fixture(scope="session")
def second_context(browser):
    with warmed(browser) as context:
        yield context


@pytest.fixture
def another(second_context, app):
    """The browser context of a second person, without data that an earlier test stored in it."""
    forget(second_context, [app.url("")])
    return second_context


@pytest.fixture
def fragile(browser):
    """A browser context for a single test. The test may crash the processes of this context."""
    with browser.new_context() as context:
        yield context


@pytest.fixture(scope="session")
def keep(store, tmp_path_factory):
    """A function that imports texts, every fifth one labeled positive, and returns the id of the data set."""

    def add(name, texts, ids="i", columns=COLUMNS):
        path = tmp_path_factory.mktemp("texts") / "texts.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow(("id", "text", "label"))
            lines.writerows((f"{ids}{k}", text, int(k % 5 == 0)) for k, text in enumerate(texts))
        return datasets.import_file(store, path, name, columns, datasets.ImportRequest(features="rich+latent"))[0]

    return add


@pytest.fixture(scope="session")
def texts(keep):
    """The id of a data set of 300 short texts."""
    return keep("texts", (f"item {k} has {'good' if k % 5 == 0 else 'other'} words{k % 7}" for k in range(300)))


@pytest.fixture
def label(visit, app, store, texts):
    """A function that makes a session that asks about every item, and opens its card. Returns (session id, card)."""

    def make(dataset=texts, **settings):
        session = create(store, dataset, **{"learner": "pa-i", "rule": "all"} | settings)
        return session, Card(visit(app, f"/Label?session={session}"))

    return make


@pytest.fixture(scope="module")
def page(browser):
    """A test page with the styles of the card, some other controls, and a paused clock."""
    style = " ".join(f"--st-{name}-color: rgb(9 9 {k});" for k, name in enumerate(THEME))
    body = HTML % (style, text(["base.css", *STYLES]))
    with browser.new_context() as context:
        made = context.new_page()
        made.route(ADDRESS, lambda route: route.fulfill(body=body, content_type="text/html"))
        made.clock.install(time=0)
        made.goto(ADDRESS)
        made.clock.pause_at(60)
        yield made


@pytest.fixture
def script(page):
    """The scripted card on the test page, without anything that an earlier test stored."""
    return Script(page)
