"""Fast typing, cut connections and killed servers: no item is labeled unseen, no answer is lost or stored twice."""

from contextlib import closing

import pytest
from playwright.sync_api import Error, expect

from oal_engine.sessions.settings import create
from tests.harness.browser import Card, history, unharmed
from tests.harness.markup import MARKUP
from tests.harness.proxy import Line

WATCH = """() => {
  const text = document.querySelector("[data-testid=stBidiComponentIsolated]").shadowRoot
    .querySelector("[data-testid=oal-text]");
  window.painted = {};
  window.pressed = [];
  const frame = () => {
    const item = text.textContent.match(/item (\\d+)/)?.[1];
    setTimeout(() => painted[item] ??= performance.now());
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  let now;
  addEventListener("keydown", event => now = event.timeStamp, true);
  const known = new Set(), setItem = Storage.prototype.setItem;
  Storage.prototype.setItem = function (name, value) {
    if (name.startsWith("oal-unsaved")) {
      const {id, question} = JSON.parse(value).event;
      known.has(id) || known.add(id) && pressed.push([question, now]);
    }
    return setItem.call(this, name, value);
  };
}"""


@pytest.mark.slow
def test_fast_typing_labels_nothing_that_was_not_painted(label, store):
    session, card = label()
    card.page.evaluate(WATCH)
    card.page.wait_for_function("Object.keys(painted).length")
    for delay in (0, 20):
        card.page.keyboard.type("aax0xa1xxa" * 3, delay=delay)
    card.saved()
    painted, pressed = card.page.evaluate("[painted, pressed]")
    items = {row["id"]: str(row["item"]) for row in store.answers(session) if row["label"] is not None}
    tick = 1  # ms, coarser than the browser's clock
    assert pressed
    assert [question for question, _ in pressed] == list(items)
    assert [question for question, at in pressed if painted.get(items[question], at + 99) > at + tick] == []


@pytest.mark.slow
def test_a_reload_keeps_the_item_and_the_unsaved_answers(visit, app, store, texts):
    """Answers, notes and tags that did not reach the server survive a reload, before which the browser warns. They are
    stored once, in order, under their annotator's name. Undo shows each item with its tags and its note as plain
    text."""
    session = create(store, texts, learner="pa-i", rule="all", tags=["ask a colleague", "late"])
    card = Card(visit(app, f"/Label?session={session}&annotator=anna"))
    page, dialogs, words = card.page, [], f"r, c: rerun? {MARKUP} שלום"
    page.on("dialog", lambda dialog: (dialogs.append(dialog.type), dialog.accept()))

    def write(words):
        card.tap("n")
        page.keyboard.type(words)
        card.tap("Control+Enter")
        expect(card("written")).to_contain_text(words.strip())

    write(words)
    card.tap("2")
    card.press("a")
    card("written").wait_for(state="hidden")
    card.saved()
    app.kill()
    write("one")
    write(" more")
    card.tap("3")
    card("tag-1").click()
    card.press("x")
    card.tap("a")
    card.says("unsaved 6 · kept in this browser, and sent when the server is back")
    with pytest.raises(Error, match="ERR_CONNECTION_REFUSED"):
        page.reload()
    app.start()
    page.goto(app.url(f"/Label?session={session}"))
    card.saved()
    expect(card("text")).to_contain_text("item 3 ")
    assert dialogs == ["beforeunload"]
    assert history(store, session) == [("i0", 1, True), ("i1", -1, True), ("i2", 1, True)]
    notes = [(row["item"], row["data"]["text"], row["annotator"]) for row in store.events(session, "noted")]
    assert notes == [(0, words, "anna"), (1, "one", "anna"), (1, "one more", "anna")]
    tags = [(row["item"], row["data"]["tag"], row["annotator"]) for row in store.events(session, "tagged")]
    assert tags == [(0, "ask a colleague", "anna"), (1, "late", "anna"), (1, "ask a colleague", "anna")]
    for name, pressed in (("", ["false"] * 2), ("one more", ["true"] * 2), (words, ["true", "false"])):
        card.press("z")
        expect(card("written")).to_have_text(name)
        assert [card(f"tag-{n}").get_attribute("aria-pressed") for n in (1, 2)] == pressed
    unharmed(page)


@pytest.mark.slow
def test_a_connection_that_is_cut_loses_nothing(visit, app, store, texts):
    """Answers given while the connection is cut ("closed"), stalls ("silent") or loses the server's replies ("deaf")
    are stored exactly once afterwards. Meanwhile the card says that it keeps them."""
    session, keys = create(store, texts, learner="pa-i", rule="all"), "axaxaxaxa"
    with closing(Line(app.port)) as line:
        card = Card(visit(line, f"/Label?session={session}"))
        for n, how in enumerate(("closed", "silent", "deaf")):
            first, second, third = keys[3 * n : 3 * n + 3]
            card.press(first)
            card.saved()
            with line.cut(how):
                card.press(second)
                card.tap(third)
                card.says("unsaved 2 · kept in this browser, and sent when the server is back")
            card.saved()
            card.says("Saved")
            expect(card.page.get_by_role("dialog")).to_have_count(0)
            expect(card("text")).to_contain_text(f"item {3 * n + 3} ")
        card.page.close()
    assert [(f"i{k}", 1 if key == "a" else -1, True) for k, key in enumerate(keys)] == history(store, session)


@pytest.mark.slow
def test_a_server_that_is_away_opens_no_dialog_over_the_card(label, app):
    """While the server is down, a line at the bottom of the page says so. No dialog of Streamlit opens, as it would
    take the card's keys."""
    card = label()[1]
    with card.page.expect_console_message(lambda message: "server is not responding" in message.text):
        app.kill()
    card.press("a")
    line = "getComputedStyle(document.querySelector('[data-testid=stApp]'), '::after').content"
    assert "cannot be reached" in card.page.evaluate(line)
    app.start()
    card.saved()
    card.page.wait_for_function(f"{line} === 'none'")


def test_an_address_of_no_page_leads_to_the_first_one_which_says_so(visit, app):
    page = visit(app, "/Lables?session=1")
    page.get_by_text("The app has no page Lables.").wait_for()
    page.get_by_role("link", name="Data").click()
    page.get_by_role("heading", name="Import", exact=True).wait_for()
    page.get_by_role("link", name="Home").click()
    page.get_by_role("button", name="Try the demo").wait_for()
    expect(page.get_by_text("The app has no page")).to_have_count(0)


LEAVE = """([page, late]) => {
  document.querySelector(`[data-testid=stPageLink-NavLink][href^=${page}]`).click();
  if (late == "a") document.dispatchEvent(new KeyboardEvent("keydown", {key: late}));
  else document.querySelector(late).click();
}"""


@pytest.mark.slow
def test_a_page_that_was_left_does_not_take_the_next_one_away(label, store):
    """A click or an answer on the Label page while the next page loads does not disturb that page. The answer is stored
    on return to the Label page."""
    session, card = label()
    page = card.page

    def leave(name, late, there):
        page.evaluate(LEAVE, [name, late])
        tab = page.get_by_role("tab", name=there)
        tab.wait_for()
        page.wait_for_load_state("networkidle")
        tab.wait_for()

    leave("Replay", "a", "Verify")
    leave("Label", "a", "More")
    Card(page).saved()
    assert [row["label"] for row in store.answers(session) if row["label"]] == [1]
    leave("Replay", "[role=tab]:last-of-type", "Verify")
    leave("Label", "[role=tab]:last-of-type", "More")
