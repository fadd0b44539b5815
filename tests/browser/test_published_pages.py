"""Published pages in a real browser: without a server, with the keyboard, on a phone, in light and dark."""

import re
from itertools import product

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from oal_engine.experiments import race
from oal_engine.sessions import look_back
from oal_engine.sessions.files import player
from oal_engine.store import Store
from tests.harness.browser import DESKTOP, PHONE, WIDE
from tests.harness.examples import add_texts, answer
from tests.harness.markup import RUN

SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The trace of a session, and the addresses of three page files: the session with and without texts, and a race."""
    folder = tmp_path_factory.mktemp("pages")
    store = Store(folder / "studio.db")
    trace = look_back.Trace(store, answer(store, add_texts(store, folder), 80, budget=40, parameters={"delta": 1}))
    made = {
        "session": player.page(trace, texts=True),
        "without texts": player.page(trace),
        "race": race.page(None, [*race.TUNED.items()], race.BUDGET, race.SEED),
    }
    for name, page in made.items():
        (folder / f"{name}.html").write_bytes(page)
    return trace, {name: (folder / f"{name}.html").as_uri() for name in made}


@pytest.fixture
def alone(browser, pages):
    """A function that opens a page from its file. Afterwards the fixture checks that the page fetched nothing else and
    logged no error."""
    contexts, fetched, problems = [], [], []

    def open_page(name, query="", viewport=DESKTOP, **media):
        context = browser.new_context(viewport=viewport, **media)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: fetched.append(request.url))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: message.type == "error" and problems.append(message.text))
        page.goto(pages[1][name] + query)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert ([], True) == (problems, {url.split("?")[0] for url in fetched} <= {*pages[1].values()})


def at(page, name):
    page.locator(f"[data-testid=oal-player][data-shown={name}]").wait_for()


@pytest.mark.slow
def test_a_session_is_looked_at_without_a_server(alone, pages):
    """On the page of a published session, keys step and Space plays, the address names the question, and texts are
    never markup."""
    trace, page = pages[0], alone("session")
    at(page, "q1")
    page.keyboard.press("ArrowRight")
    at(page, "q2")
    page.keyboard.press("End")
    at(page, f"q{trace.steps}")
    expect(page.get_by_test_id("oal-text")).to_contain_text(player.Player(trace).log()["end"])
    page.wait_for_url(f"**?question={trace.steps}")
    page.keyboard.press("Home")
    page.keyboard.press("Shift+ArrowRight")
    at(page, "q1")  # the rounds between questions are not in the page
    page.keyboard.press(" ")
    expect(page.get_by_test_id("oal-player")).to_have_attribute("data-playing", "true")
    expect(page.get_by_test_id("oal-player")).to_have_attribute("data-shown", re.compile("^q([3-9]|[1-9][0-9])"))
    page.keyboard.press(" ")
    expect(page.get_by_test_id("oal-player")).to_have_attribute("data-playing", "false")
    assert 0 == page.locator(RUN).count()
    assert page.evaluate("window.pwned") is None


def test_a_question_in_the_address_is_opened(alone, pages):
    """The page opens at the question number in its address. An invalid number opens the first question, and a number
    beyond the last question opens the end."""
    trace, page = pages[0], alone("session")
    for query, place in (("?question=x", "q1"), ("?question=-2", "q1"), ("?question=9999", f"q{trace.steps}"),
                         ("?question=23", "q23")):  # fmt: skip
        page.goto(pages[1]["session"] + query)
        at(page, place)
    expect(page.get_by_test_id("oal-text")).to_contain_text(trace.dataset.item(trace.log[22].item)["text"])
    assert f"{trace.log[22].margin:.3f}" in page.get_by_test_id("oal-facts").inner_text()


def test_texts_that_were_left_out_are_said_to_be(alone):
    """A session published without texts shows a sentence in place of each item, and still has the curves."""
    page = alone("without texts", "?question=7")
    at(page, "q7")
    expect(page.get_by_test_id("oal-text")).to_have_text(player.WITHOUT)
    expect(page.get_by_test_id("oal-charts").locator("figure")).to_have_count(3)


def test_a_race_is_watched_without_a_server(alone):
    """The race plays by itself, Space pauses it, and End jumps to its end."""
    page = alone("race")
    shown = page.get_by_test_id("oal-race")
    expect(shown).to_have_attribute("data-playing", "true")
    page.keyboard.press(" ")
    expect(shown).to_have_attribute("data-playing", "false")
    page.get_by_test_id("oal-scrub").focus()
    page.keyboard.press("End")
    expect(page.get_by_test_id("oal-clock")).to_have_text("1,500 / 1,500")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["session", "without texts", "race"])
def test_everybody_can_read_it(alone, name):
    """On published pages axe-core finds no serious problem in light or dark, on a desktop or a phone, and nothing is
    wider than the window."""
    page = alone(name, reduced_motion="reduce")
    page.locator("[data-testid=oal-player][data-shown=q1], [data-testid=oal-race]").wait_for()
    for theme, viewport in product(("light", "dark"), (DESKTOP, PHONE)):
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size(viewport)
        page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
        found = Axe().run(page).response["violations"]
        assert [] == [(rule["id"], rule["nodes"][0]["target"]) for rule in found if rule["impact"] in SERIOUS]
        assert [] == page.evaluate(WIDE)
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (theme == "dark") == bool(re.match(r"rgb\((\d|[1-4]\d),", dark))
