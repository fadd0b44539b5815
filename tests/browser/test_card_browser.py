"""Features of the card besides answering, in the running app: notes, guidelines, custom keys and skipped items."""

import re

import pytest
from playwright.sync_api import expect

from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from tests.harness.browser import DESKTOP, PHONE, Card, bounds, fits, history, tab
from ui.label.card_server import CLASS_KEYS

SWIPE = """(text, [along, down]) => {
  const touch = (x, y) => new Touch({ identifier: 1, target: text, clientX: 200 + x, clientY: 300 + y });
  const send = (kind, touches, changedTouches) =>
    text.dispatchEvent(new TouchEvent(kind, { touches, changedTouches, bubbles: true }));
  send("touchstart", [touch(0, 0)], []);
  send("touchmove", [touch(along, down)], []);
  send("touchend", [], [touch(along, down)]);
}"""


def test_a_swipe_answers(visit, app, store, texts):
    """A swipe to the right answers with the first class, to the left with the other one, and Undo takes the answer
    back. A short or a downward movement does not answer."""
    session = create(store, texts, learner="pa-i", rule="all")
    card = Card(visit(app, f"/Label?session={session}", viewport=PHONE))
    for along, down, label in ((120, 10, 1), (-120, 20, -1), (60, 0, None), (120, 100, None)):
        old = card.question
        card("text").evaluate(SWIPE, [along, down])
        if label:
            expect(card.root).not_to_have_attribute("data-question", old)
            card.saved()
        else:
            expect(card.root).to_have_attribute("data-question", old)
    assert [1, -1] == [label for _, label, _ in history(store, session)]
    assert card.root.locator(".sheet").evaluate("sheet => sheet.style.translate") == ""
    card("undo").click()
    card.saved()
    assert [("i0", 1, True), ("i1", -1, False)] == history(store, session)


def test_a_page_on_which_nothing_happens_is_not_drawn_again(label):
    """The browser asks for changes since the state that it has seen, so that an unchanged page is not drawn again."""
    _, card = label()
    card.page.wait_for_event("request", lambda request: re.search(r"pulse/\d+\?seen=\w+$", request.url))


@pytest.mark.slow
def test_a_panel_drawn_anew_leaves_the_focus_where_it_was(label, store):
    session, card = label()
    page, other = card.page, Session(store, session)

    def answer():
        other.refresh()
        other.answer(f"{session}-{len(other.labels)}", other.place.asked.id, 1, "ben")

    for _ in range(10):
        answer()
    tab(page, "For researchers")
    table = page.locator("[tabindex='0']:has(> .oal-result)")
    table.focus()
    old = table.inner_text()
    answer()
    expect(table).not_to_have_text(old, use_inner_text=True)
    expect(table).to_be_focused()
    tab(page, "History")
    page.locator(".head").last.click()
    text = page.get_by_role("region", name="Item", exact=True)
    text.focus()
    answer()
    expect(page.locator(".head")).to_have_count(12)
    expect(text).to_be_focused()
    tab(page, "Guidelines")
    page.locator("summary").filter(has_text="Write").click()
    draft = page.get_by_role("textbox", name="Guidelines")
    draft.fill("a draft")
    store.update_session(session, {"guidelines": "what another wrote"})
    expect(page.get_by_text("The session has no guidelines yet.")).to_have_count(0)
    expect(draft).to_be_focused()
    expect(draft).to_have_value("a draft")


def test_tabs_drawn_anew_leave_the_focus_where_it_was(label):
    page = label()[1].page
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
    last = page.get_by_role("tab", name="More")
    drawn_anew = "list => list.replaceWith(list.cloneNode(true))"
    page.get_by_role("tab", name="List").focus()
    last.focus()
    page.get_by_role("tablist").evaluate(drawn_anew)
    expect(last).to_be_focused()
    page.mouse.click(5, 5)
    page.get_by_role("tablist").evaluate(drawn_anew)
    page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    expect(last).not_to_be_focused()


@pytest.mark.slow
@pytest.mark.parametrize("names", [
    {"positive_name": "Reports an adverse event " * 2 + "of the drug", "negative_name": "W" * 60},
    {"classes": tuple(f"a class with the rather long name {k} of its own" for k in range(7)), "learner": "m-pa-i"},
])  # fmt: skip
def test_long_class_names_wrap(label, names):
    """Class names of sixty letters wrap inside their buttons. The buttons are large enough for a thumb, do not overlap,
    and stay on the screen of a desktop or a phone."""
    _, card = label(**names)
    card.page.get_by_text("are counted here after").wait_for()
    for window in (DESKTOP, PHONE):
        card.page.set_viewport_size(window)
        fits(card.page)
        buttons = [bounds(one) for one in card.root.locator(".buttons button").all()]
        assert len(buttons) == 2 + len(names.get("classes", "12"))
        for left, top, right, bottom in buttons:
            assert 0 <= left < right <= window["width"]
            assert bottom - top >= 44
        for place, (left, top, right, bottom) in enumerate(buttons):
            for other in buttons[place + 1 :]:
                assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
        inner = card.root.locator(".buttons .name").evaluate_all(
            "names => names.map(name => name.getBoundingClientRect().height - name.parentElement.clientHeight)"
        )
        assert max(inner) <= 0


def test_no_class_has_a_key_of_streamlit_or_of_the_card():
    assert len(set(CLASS_KEYS)) == len(CLASS_KEYS)
    assert not set(CLASS_KEYS) & set("crghnz")


@pytest.mark.slow
def test_space_skips_wherever_was_clicked(label, store):
    """After a click on a tab, a switch, Save or the annotator's name, Space skips an item and presses no control. After
    arrow keys moved to a tab, Space presses the tab."""
    session, card = label()
    page = card.page

    def skipped(number):
        page.keyboard.press(" ")
        expect(card("tally")).to_contain_text(f"skipped{number}of")
        card.saved()

    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
    page.get_by_role("tab", name="List").click()
    expect(page.get_by_role("tab", name="List")).to_be_focused()
    page.get_by_text("Search all items").wait_for()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="More")).to_be_focused()
    page.keyboard.press(" ")
    page.get_by_role("tab", name="List").click()
    skipped(1)
    tab(page, "Pushed")
    page.get_by_text("The model learns marks").click()
    skipped(2)
    expect(page.get_by_role("switch", name="The model learns marks")).to_be_checked()
    page.get_by_role("button", name="Your name", exact=True).click()
    page.get_by_role("button", name="Your name", exact=True).click()
    skipped(3)
    expect(page.get_by_role("textbox", name="Your name")).to_have_count(0)
    tab(page, "Guidelines")
    page.get_by_text("Write the guidelines").click()
    page.get_by_role("textbox", name="Guidelines").fill("Count every walk.")
    page.get_by_role("textbox", name="Guidelines").blur()
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
    page.get_by_role("button", name="Save").first.click()
    card("guidelines").wait_for()
    skipped(4)
    assert [0] * 4 == [label for _, label, _ in history(store, session)]


def test_only_controls_that_do_something_are_shown_at_the_beginning(label):
    """None of the card's controls is disabled before the first answer, and no panel is empty. After the first answer,
    Undo and History appear."""
    _, card = label()
    page, controls = card.page, card.root.locator("button:visible")
    assert [] == [each for each in controls.all() if each.get_attribute("aria-disabled") == "true"]
    expect(page.get_by_role("tab")).to_have_text(["Progress", "List", "More"])
    card.press("a")
    expect(card("undo")).to_be_visible()
    tab(page, "History")


# The controls (buttons, links, tabs, fields) and the words (with a letter) inside the window. The navigation between
# pages and Streamlit's toolbar do not count, nor the item, icons and names of keys; what the card says at the end does.
SEEN = """() => {
  const not = "[data-testid=oal-card]:not(.ended) [data-testid=oal-text], kbd, [data-testid=stIconMaterial], " +
    ".st-key-top, [data-testid=stHeader], style, script";
  const isSeen = (node) => {
    const { top, bottom, width } = node.getBoundingClientRect();
    return width > 1 && top < innerHeight && bottom > 0 && getComputedStyle(node).visibility === "visible";
  };
  const controls = [], words = [];
  const visit = (node) => {
    if (node.nodeType === Node.TEXT_NODE) {
      if (!node.parentElement || !isSeen(node.parentElement)) return;
      words.push(...node.textContent.split(/\\s+/).filter((word) => /\\p{L}/u.test(word)));
    } else if (!node.matches?.(not)) {
      if (node.matches?.("a[href], button, input, select, textarea, summary, [role=tab], [role=slider]")) {
        if (isSeen(node)) controls.push(node.getAttribute("aria-label") ?? node.textContent);
      }
      for (const child of (node.shadowRoot ?? node).childNodes) visit(child);
    }
  };
  visit(document.body);
  return [controls, words];
}"""


@pytest.mark.slow
@pytest.mark.parametrize(("answers", "sentence"), [
    (0, "10 more answers to go"), (12, "You have found"), (20, "more answers would"),
])  # fmt: skip
def test_little_is_seen_beside_the_item(visit, app, store, texts, answers, sentence):
    """At the beginning, while labels are given and at the end, a person sees at most nine controls and sixty words
    beside the item."""
    session = Session(store, create(store, texts, "auto", goal="find", budget=20))
    for k in range(answers):
        asked = session.place.asked
        session.answer(f"{session.id} {k}", asked.id, 1 if asked.item % 5 == 0 else -1)
    page = visit(app, f"/Label?session={session.id}")
    page.get_by_test_id("oal-card").wait_for()
    page.get_by_text(sentence).wait_for()
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
    controls, words = page.evaluate(SEEN)
    assert (len(controls) <= 9, len(words) <= 60) == (True, True), (controls, " ".join(words))
