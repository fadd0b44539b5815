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
    """One running app for all tests that need no other; its database is empty at first."""
    with running(tmp_path_factory.mktemp("app")) as server:
        yield server


@pytest.fixture(scope="session")
def store(server):
    """The app's database, seen by a second process."""
    return server.store


@pytest.fixture
def app(server, store):
    """The running app, in which nobody prefers anything yet; a test adds no traceback to its output, and the next one
    finds it running."""
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
    """The browser of another person, in which nothing is left of an earlier test."""
    forget(second_context, [app.url("")])
    return second_context


@pytest.fixture
def fragile(browser):
    """A browser for one test, whose processes it may crash."""
    with browser.new_context() as context:
        yield context


@pytest.fixture(scope="session")
def keep(store, tmp_path_factory):
    """A function that imports texts, every fifth of them positive, as a data set; its id."""

    def add(name, texts, ids="i", columns=COLUMNS):
        path = tmp_path_factory.mktemp("texts") / "texts.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow(("id", "text", "label"))
            lines.writerows((f"{ids}{k}", text, int(k % 5 == 0)) for k, text in enumerate(texts))
        return datasets.import_file(store, path, name, columns)[0]

    return add


@pytest.fixture(scope="session")
def texts(keep):
    """A data set of 300 short texts."""
    return keep("texts", (f"item {k} has {'good' if k % 5 == 0 else 'other'} words{k % 7}" for k in range(300)))


@pytest.fixture
def label(visit, app, store, texts):
    """A function that makes a session in which every item is asked, and opens its card; the id and the card."""

    def make(dataset=texts, **settings):
        session = create(store, dataset, **{"learner": "pa-i", "rule": "all"} | settings)
        return session, Card(visit(app, f"/Label?session={session}"))

    return make


@pytest.fixture(scope="module")
def page(browser):
    """A page with the look of the card and nothing else, whose clock stands still."""
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
    """The card on that page, which remembers nothing of an earlier test."""
    return Script(page)
