"""What the browser keeps until the server has it: a real browser, tabs that crash, and a database in trouble."""

import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager

import pytest
from playwright.sync_api import Error, expect

from oal_engine.sessions.settings import create
from tests.harness.browser import DESKTOP, PHONE, Card, fits, history, tab

HOLD = """
import sqlite3, sys
sqlite3.connect(sys.argv[1], isolation_level=None).execute("BEGIN EXCLUSIVE")
print("held", flush=True)
input()
"""
UNSAVED = "Object.keys(localStorage).filter(name => name.startsWith('oal-unsaved'))"


@pytest.fixture(autouse=True)
def nothing_kept(context, app):
    """What earlier tests have left unsent is forgotten: a page that closes at once keeps its last answer."""
    client = context.new_cdp_session(context.pages[0])
    client.send("Storage.clearDataForOrigin", {"origin": app.url(""), "storageTypes": "local_storage"})
    client.detach()


def crash(page):
    """End the process that shows a page, as a lack of memory does."""
    page.on("dialog", lambda dialog: dialog.accept())
    with page.expect_event("crash"), pytest.raises(Error, match="ERR_ABORTED"):
        page.goto("chrome://crash")


@contextmanager
def held(database):
    """Another process writes to the database, and nobody else can."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert "held\n" == process.stdout.readline()
        yield
        process.communicate("\n")


@contextmanager
def refusing(database):
    """The database takes no label."""
    with closing(sqlite3.connect(database, timeout=30, isolation_level=None)) as other:
        other.execute("CREATE TRIGGER broken BEFORE INSERT ON labels BEGIN SELECT abs(-9223372036854775808); END")
        try:
            yield
        finally:
            other.execute("DROP TRIGGER broken")


@pytest.mark.parametrize("name", ["", "&annotator=anna"])
def test_a_tab_that_crashed_while_no_server_was_there_loses_nothing(visit, app, fragile, store, texts, name):
    """What was pressed in it is sent by the next tab, once, under the name that stood there then."""
    session = create(store, texts, learner="pa-i", rule="all")
    page = visit(app, f"/Label?session={session}{name}", context=fragile)
    card = Card(page)
    app.kill()
    card.press("a")
    card.tap("x")
    expect(card.root).to_have_attribute("data-unsaved", "2")
    crash(page)
    app.start()
    fresh = page.context.new_page()
    fresh.goto(app.url(f"/Label?session={session}"))
    card = Card(fresh)
    card.saved()
    expect(card("text")).to_contain_text("item 2 ")
    card.press(" ")
    card.saved()
    assert history(store, session) == [("i0", 1, True), ("i1", -1, True), ("i2", 0, True)]
    who = name.removeprefix("&annotator=")
    assert [row["annotator"] for row in store.answers(session)[:3]] == [who] * 3
    assert fresh.evaluate(UNSAVED) == []


def test_a_correction_of_a_tab_that_crashed_is_not_lost(visit, app, fragile, store, texts):
    """The lists beside the card keep what they could not send, too."""
    session = create(store, texts, learner="pa-i", rule="all")
    page = visit(app, f"/Label?session={session}", context=fragile)
    card = Card(page)
    card.press("a")
    card.saved()
    tab(page, "History")
    page.locator(".head").click()
    app.kill()
    page.get_by_role("button", name="Not relevant", exact=True).last.click()
    crash(page)
    app.start()
    fresh = page.context.new_page()
    fresh.goto(app.url(f"/Label?session={session}"))
    Card(fresh)
    tab(fresh, "History")
    expect(fresh.locator(".chip").first).to_have_text("Not relevant")
    assert history(store, session) == [("i0", 1, False), ("i0", -1, True)]
    assert fresh.evaluate(UNSAVED) == []


def test_two_tabs_send_what_is_unsaved_once(visit, app, store, texts):
    """A second tab that finds the first one's answers waiting sends them, too; each is stored once, both drop it."""
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


def test_what_another_process_locks_is_saved_when_it_lets_go(label, app, store):
    """The card says what is unsaved, keeps it, and labeling goes on afterwards."""
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
    assert history(store, session) == [("i0", 1, True), ("i1", -1, True), ("i2", 1, True)]


def test_nothing_is_said_to_be_saved_where_the_database_is_gone(label, app, store):
    """An answer stays unsaved while the file is not where it was, and is stored when it is back."""
    session, card = label()
    card.press("a")
    card.saved()
    moved = app.database.with_name("moved.db")
    app.database.rename(moved)
    card.press("x")
    expect(card("status")).to_contain_text("was deleted or replaced")
    expect(card.root).to_have_attribute("data-unsaved", "1")
    moved.rename(app.database)
    card.saved()
    assert history(store, session) == [("i0", 1, True), ("i1", -1, True)]


POISON = {
    "note": {"action": "note", "item": 0, "text": "half \ud83d"},
    "preferences": {"action": "preferences", "changes": {"size": "b", "keys": 7}},
    "label": {"action": "label", "question": "x", "label": None},
    "nothing": {},
}


@pytest.mark.parametrize("kind", POISON)
def test_a_poisoned_event_is_said_and_dropped(visit, app, store, texts, kind):
    """What an earlier version, or anything else, left in the browser blocks neither this tab nor the next one."""
    session = create(store, texts, learner="pa-i", rule="all")
    name = store.session(session)["created_at"]
    page = visit(app, "/_stcore/health")  # of the same site, and there at once
    entry = {"at": 1, "event": {"id": "poison", "annotator": ""} | POISON[kind]}
    page.evaluate(
        "([name, entry]) => localStorage.setItem(name, entry)",
        [f"oal-unsaved card {session} of {name} poison", json.dumps(entry)],
    )
    page.goto(app.url(f"/Label?session={session}"))
    card = Card(page)
    card.says(re.compile(r"^Not stored: the browser sent an invalid message \(.*\)\.$"))
    card.saved()
    assert page.evaluate(UNSAVED) == []
    card.press("a")
    card.saved()
    card.says("Saved")
    assert history(store, session) == [("i0", 1, True)]


def test_half_a_letter_in_a_note_is_left_out(label, store):
    """A letter of two halves at the limit is dropped whole, as is a half that something put there."""
    session, card = label()
    card.tap("n")
    card("note-field").evaluate("field => field.value = '\\ud83d' + 'x'.repeat(1998) + '🙂' + '🙂'")
    card.tap("Escape")
    card.press("a")
    card.saved()
    card.says("Saved")
    (row,) = store.events(session, "noted")
    assert row["data"]["text"] == "x" * 1998
    assert history(store, session) == [("i0", 1, True)]


@pytest.mark.parametrize("window", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_session_removed_under_its_card_is_said(visit, app, store, texts, window):
    """The page says so by itself and leads home; an answer that comes too late is refused in a sentence and dropped."""
    session, _ = (create(store, texts, learner="pa-i", rule="all") for _ in range(2))
    page = visit(app, f"/Label?session={session}", viewport=window)
    card = Card(page)
    card.press("a")
    card.saved()
    store.remove_session(session)
    gone = "This session was removed. Its owner can restore it for 30 days."
    expect(page.get_by_text(gone).first).to_be_visible()
    expect(page.get_by_test_id("stPageLink").get_by_text("All sessions").first).to_be_visible()
    card.tap("x")
    expect(card("text")).to_contain_text(gone)
    card.saved()
    card.says("Not stored: this session was removed. Its owner can restore it for 30 days.")
    expect(page.get_by_test_id("stException")).to_have_count(0)
    assert page.evaluate(UNSAVED) == []
    fits(page)
    card("text").get_by_role("link", name="All sessions").click()
    expect(page.get_by_role("button", name="Try the demo")).to_be_visible()
