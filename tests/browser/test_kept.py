"""Events that the browser keeps until the server has stored them: crashed tabs, and a database in trouble."""

import re
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager

import pytest
from playwright.sync_api import Error, expect

from oal_engine.sessions.settings import create
from tests.harness.browser import Card, forget, history, tab

HOLD = """
import sqlite3, sys
sqlite3.connect(sys.argv[1], isolation_level=None).execute("BEGIN EXCLUSIVE")
print("held", flush=True)
input()
"""
UNSAVED = "Object.keys(localStorage).filter(name => name.startsWith('oal-unsaved'))"


@pytest.fixture(autouse=True)
def nothing_kept(context, app):
    """Clear the browser's storage, where an earlier test that closed its page at once may have left an answer."""
    forget(context, [app.url("")])


def crash(page):
    """Crash the process that shows a page, as running out of memory does."""
    page.on("dialog", lambda dialog: dialog.accept())
    with page.expect_event("crash"), pytest.raises(Error, match="ERR_ABORTED"):
        page.goto("chrome://crash")


@contextmanager
def held(database):
    """Lock the database exclusively from another process."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert "held\n" == process.stdout.readline()
        yield
        process.communicate("\n")


@contextmanager
def refusing(database):
    """Make the database refuse every new label while the body runs."""
    with closing(sqlite3.connect(database, timeout=30, isolation_level=None)) as other:
        other.execute("CREATE TRIGGER broken BEFORE INSERT ON labels BEGIN SELECT abs(-9223372036854775808); END")
        try:
            yield
        finally:
            other.execute("DROP TRIGGER broken")


@pytest.mark.slow
def test_a_tab_that_crashed_while_no_server_was_there_loses_nothing(visit, app, fragile, store, texts):
    """The next tab sends the answers and the correction that a crashed tab could not send. They are stored once, under
    the name that was set when they were given, if any."""
    names, sessions = ("", "anna"), [create(store, texts, learner="pa-i", rule="all") for _ in range(2)]
    for name, session in zip(names, sessions):
        page = visit(app, f"/Label?session={session}" + f"&annotator={name}" * bool(name), context=fragile)
        card = Card(page)
        card.press("a")
        card.saved()
    tab(page, "History")
    page.locator(".head").click()
    app.kill()
    page.get_by_role("button", name="Not relevant", exact=True).last.click()
    for page in visit.pages:
        card = Card(page)
        card.press("x")
        card.tap("a")
        expect(card.root).to_have_attribute("data-unsaved", "2")
    crash(page)  # one process shows both tabs
    app.start()
    for name, session, first in zip(names, sessions, ([("i0", 1, True)], [("i0", 1, False), ("i0", -1, True)])):
        fresh = fragile.new_page()
        fresh.goto(app.url(f"/Label?session={session}"))
        card = Card(fresh)
        card.saved()
        if name:
            expect(card("text")).to_contain_text("item 3 ")
            tab(fresh, "History")
            expect(fresh.locator(".head").last.locator(".chip").first).to_have_text("Not relevant")
        rest = [("i1", -1, True), ("i2", 1, True)]
        assert sorted(history(store, session)) == sorted([*first, *rest])
        assert [row["annotator"] for row in store.answers(session)[:3]] == [name] * 3
    assert fresh.evaluate(UNSAVED) == []


def test_two_tabs_send_what_is_unsaved_once(visit, app, store, texts):
    session = create(store, texts, learner="pa-i", rule="all")
    page = visit(app, f"/Label?session={session}")
    cards = [Card(page)]
    with refusing(app.database):
        cards[0].press("a")
        cards[0].tap("x")
        expect(cards[0].root).to_have_attribute("data-unsaved", "2")
        other = page.context.new_page()
        other.goto(app.url(f"/Label?session={session}"))
        cards.append(Card(other))
        expect(cards[1].root).to_have_attribute("data-unsaved", "2")
        assert history(store, session) == []
    for card in cards:
        card.saved()
        expect(card("text")).to_contain_text("item 2 ")
        card.says("Saved")
    assert history(store, session) == [("i0", 1, True), ("i1", -1, True)]
    assert other.evaluate(UNSAVED) == []


def test_a_second_tab_follows_the_first(visit, app, store, texts):
    """An answer in one tab moves another tab of the same person to the next item, which says so in a quiet line. Keys
    there answer the item on the screen, and a key at the moment of the change is refused aloud."""
    session = create(store, texts, learner="pa-i", rule="all")
    page = visit(app, f"/Label?session={session}")
    other = page.context.new_page()
    other.goto(app.url(f"/Label?session={session}"))
    first, second = Card(page), Card(other)
    other.evaluate(PRESS_AT_THE_CHANGE)
    first.press("a")
    expect(second("text")).to_contain_text("item 1 ")
    expect(second("said")).to_have_text("You answered the last item in another tab; this is the next one.")
    second.says("Not stored: the item had just changed.")
    assert history(store, session) == [("i0", 1, True)]
    other.wait_for_timeout(GLANCE)
    second.press("x")
    second.saved()
    expect(first("text")).to_contain_text("item 2 ")
    page.wait_for_timeout(GLANCE)
    other.route("**/card/*", lambda route: route.abort())  # the second tab is behind
    first.tap("x")
    expect(first("text")).to_contain_text("item 3 ")
    first.saved()
    assert second.item == "i2"
    second.tap("a")
    other.unroute("**/card/*")
    second.saved()
    second.says(re.compile("^Not stored: "))
    expect(second("text")).to_contain_text("item 3 ")
    assert history(store, session) == [("i0", 1, True), ("i1", -1, True), ("i2", -1, True)]
    other.close()


def test_nothing_is_said_to_be_saved_that_the_database_has_not(label, app, store):
    """While the database is locked, refuses an answer or is missing, the card says so and keeps the answers. They are
    stored afterwards, once and in order."""
    session, card = label()
    card.press("a")
    card.saved()
    with held(app.database):
        card.press("x")
        expect(card("status")).to_contain_text("unsaved 1")
        card.tap("a")
        expect(card("status")).to_contain_text("unsaved 2")
        assert history(store, session) == [("i0", 1, True)]
    card.saved()
    card.says("Saved")
    with refusing(app.database):
        card.press("x")
        card.says(re.compile(r"^Not saved yet\. .*integer overflow\..* It is kept here and sent again\.$"))
        expect(card.root).to_have_attribute("data-unsaved", "1")
        assert len(history(store, session)) == 3
    card.saved()
    card.says("Saved")
    moved = app.database.with_name("moved.db")
    app.database.rename(moved)
    card.press("a")
    expect(card("status")).to_contain_text("was deleted or replaced")
    expect(card.root).to_have_attribute("data-unsaved", "1")
    moved.rename(app.database)
    card.saved()
    assert history(store, session) == [(f"i{k}", 1 - k % 2 * 2, True) for k in range(5)]


GLANCE = 400  # ms in which a tab takes no key for an item that another tab has brought
# Presses A as soon as the card shows another item.
PRESS_AT_THE_CHANGE = """() => {
  const text = document.querySelector("[data-testid=stBidiComponentIsolated]").shadowRoot
    .querySelector("[data-testid=oal-text]");
  const press = new KeyboardEvent("keydown", {key: "a", code: "KeyA", bubbles: true, composed: true});
  new MutationObserver((_, observer) => {
    observer.disconnect();
    document.body.dispatchEvent(press);
  }).observe(text, {childList: true});
}"""
