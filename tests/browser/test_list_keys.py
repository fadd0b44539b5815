"""Lists beside the card in a real browser: keys label one row after the other, and none is lost."""

from functools import partial

import pytest
from playwright.sync_api import expect

from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from tests.harness.browser import Card, button
from tests.harness.scripted_card import ADDRESS
from ui.components import text

PRESSES, PAUSE = 60, 150  # ms between two keys: more keys than a page of a list has rows

FOCUSED = """() => {
  let node = document.activeElement;
  while (node.shadowRoot?.activeElement) node = node.shadowRoot.activeElement;
  return node.matches(".head");
}"""


MOUNT = """async ([script, data]) => {
  const {default: mount} = await import(URL.createObjectURL(new Blob([script], {type: "text/javascript"})));
  const told = {};
  let clean;
  window.events = () => told.events.map(({row, action}) => [row, action]);
  window.show = () => {
    const parentElement = host.appendChild(document.createElement("div"));
    clean = mount({data, parentElement, setStateValue: (part, value) => (told[part] = value)});
  };
  window.takeAway = () => (host.replaceChildren(), clean());
}"""
ROW = {"title": "", "heading": [], "facts": [], "snippet": "", "text": "item", "chips": [], "side": "", "when": None}
ROW |= {"by": None, "label": "", "means": "", "actions": [[1, "Yes", False, ["a"]], [-1, "No", False, ["x"]]]}
LIST = {
    "name": "find", "session": "1", "annotator": "", "login": "", "boot": "", "acked": [], "error": None, "walk": "w",
    "view": {"search": "", "show": "all", "page": 0, "open": None, "walk": False}, "page": 0, "shows": [], "empty": "",
    "total": "", "newer": False, "older": False, "rows": [ROW | {"id": k} for k in range(5)],
}  # fmt: skip


def mount(page, **changes):
    """Show a list alone on the test page, without what an earlier test stored in the browser."""
    page.goto(ADDRESS)
    page.evaluate("localStorage.clear()")
    page.evaluate(MOUNT, [text(["dom.js", "outbox.js", "item_list.js"]), LIST | changes])
    page.evaluate("show()")


@pytest.fixture(scope="module")
def goods(keep):
    """The id of a data set of 800 short texts, of which every third one is good."""
    return keep("goods", (f"item {k} has {'good' if k % 3 == 0 else 'other'} words{k % 7}" for k in range(800)))


def ended(store, dataset, budget=30, wrong=0):
    """Return a session whose budget is spent. wrong: every so many-th good item was answered with no (0: none)."""
    rule = {"learner": "pa-i", "rule": "all" if wrong else "symmetric", "budget": budget}
    session = Session(store, create(store, dataset, **rule))
    while asked := session.place.asked:
        is_yes = asked.item % 3 == 0 and not (wrong and asked.item % wrong == 0)
        session.answer(f"e{asked.id}", asked.id, 1 if is_yes else -1)
    return session


def walk(page, name):
    """Open a panel and its first row, with the keyboard alone."""
    for each in (name,) if name == "List" else ("More", name):
        page.get_by_role("tab", name=each).focus()
        page.keyboard.press("Enter")
    page.locator(".rows .head").first.wait_for()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED):
            break
    page.keyboard.press("Enter")


def go_through(page):
    """Press the button below the card, with the keyboard alone."""
    button(page, "Go through the list").focus()
    page.keyboard.press("Enter")


PANELS = {
    "List": ({}, go_through, "ax", lambda store, id: store.known_labels(id)),
    "Pushed": ({}, partial(walk, name="Pushed"), "x", lambda store, id: store.marks(id)),
    "Check": (
        {"budget": 800, "wrong": 4},
        partial(walk, name="Check"),
        "a",
        lambda store, id: store.events(id, "corrected"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("panel", PANELS)
def test_sixty_keys_store_sixty_labels(visit, app, store, goods, panel):
    """In a list that was opened with the keyboard alone, each key labels the open row and opens the next one, however
    often the page is redrawn meanwhile."""
    settings, begin, keys, stored = PANELS[panel]
    session = ended(store, goods, **settings)
    store.update_session(session.id, {"feedback_trains": 0})
    page = visit(app, f"/Label?session={session.id}")
    Card(page)
    begin(page)
    page.locator(".rows .open").wait_for()
    for k in range(PRESSES):
        page.keyboard.press(keys[k % len(keys)])
        page.wait_for_timeout(PAUSE)
    page.wait_for_function(FOCUSED)
    expect(page.get_by_test_id("oal-list-problem")).to_have_text("")
    for _ in range(PRESSES):
        if len(stored(store, session.id)) == PRESSES:
            break
        page.wait_for_timeout(PAUSE)
    assert PRESSES == len(stored(store, session.id))
    if panel == "List":
        assert [1, -1] * (PRESSES // 2) == [row["label"] for row in stored(store, session.id).values()]


def test_keys_are_heard_while_the_page_draws_the_list_anew(page):
    """If the page takes an open list away and draws it anew, keys pressed meanwhile label its next rows, and the new
    list has the focus and goes on after them."""
    mount(page)
    page.keyboard.press("a")
    page.evaluate("takeAway()")
    page.keyboard.press("x")
    page.evaluate("show()")
    assert page.evaluate(FOCUSED)
    page.keyboard.press("a")
    page.clock.run_for(10_000)  # the old list has ended by now
    page.keyboard.press("x")
    assert [[0, 1], [1, -1], [2, 1], [3, -1]] == page.evaluate("events()")


def test_a_key_that_changes_nothing_says_so(page):
    """The key of the answer that an item has already stores nothing; its row then says that the answer was kept, until
    it gets another one."""
    chosen = [[1, "Yes", True, ["a"]], [-1, "No", False, ["x"]]]
    rows = [row | {"actions": chosen} for row in LIST["rows"]]
    mount(page, rows=rows)
    page.keyboard.press("a")
    page.keyboard.press("x")
    page.clock.run_for(5_000)
    kept = page.locator(".rows li", has_text="kept")
    expect(kept).to_have_count(1)
    assert [[1, -1]] == page.evaluate("events()")
    kept.locator(".head").click()
    page.get_by_role("button", name="No").click()
    expect(kept).to_have_count(0)
    page.clock.run_for(5_000)
    assert {(0, -1), (1, -1)} == {tuple(each) for each in page.evaluate("events()")}


def test_ten_are_labeled_at_once(page):
    """Digits, Space and arrows tick some of ten items; Enter stores a label for each one, and the next ten are shown.
    They cannot be stored before they can be read, and an item that shows only a part of its text is none of them."""
    rows = [ROW | {"id": k, "snippet": f"item {k}", "brief": k != 2} for k in range(14)]
    mount(page, rows=rows, walk="", tick=["Good", "Other"])
    page.get_by_role("button", name="Ten at once").click()
    expect(page.locator(".rows li")).to_have_text([f"{(k + 1) % 10}item {k + (k > 1)}" for k in range(10)])
    page.keyboard.press("3")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("oal-list-problem")).to_have_text("Not stored: the items had just changed.")
    page.clock.run_for(2_000)
    expect(page.get_by_test_id("oal-list-store")).to_have_text("EnterStore 2 Good, 8 Other")
    page.keyboard.press("Enter")
    page.clock.run_for(5_000)
    labels = {k: 1 if k in (1, 3) else -1 for k in range(11) if k != 2}
    assert labels == dict(page.evaluate("events()"))
    expect(page.locator(".rows li")).to_have_text(["1item 11", "2item 12", "3item 13"])
    page.keyboard.press("a")
    expect(page.get_by_test_id("oal-list-problem")).to_have_text("A was not stored. No item is open.")
    page.keyboard.press("Escape")
    expect(page.locator(".tick")).to_have_count(0)


@pytest.mark.slow
def test_a_key_without_an_open_row_is_refused_aloud(visit, app, store, goods):
    """If no row is open, or the open one cannot be labeled, the list says that the key was not stored; the card does
    not get it."""
    session = Session(store, create(store, goods, learner="pa-i", rule="all"))
    for _ in range(8):
        session.answer(f"e{session.place.asked.id}", session.place.asked.id, 1)
    page = visit(app, f"/Label?session={session.id}")
    card = Card(page)
    walk(page, "List")
    page.locator(".rows .open").wait_for()
    page.keyboard.press("Enter")
    expect(page.locator(".rows .open")).to_have_count(0)
    page.keyboard.press("a")
    expect(page.get_by_test_id("oal-list-problem")).to_have_text("A was not stored. No item is open.")
    page.get_by_test_id("oal-list-filter").select_option("list")
    page.locator(".rows .chip").first.click()
    page.keyboard.press("a")
    expect(page.get_by_test_id("oal-list-problem")).to_contain_text(
        "A was not stored. It cannot be labeled here. This item was asked."
    )
    assert ({}, 8) == (store.known_labels(session.id), len([row for row in store.answers(session.id) if row["label"]]))
    assert card.item
