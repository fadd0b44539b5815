"""The labeling card on a test page without a server: what it shows, and the effects of keys."""

import pytest

from tests.harness.markup import MARKUP
from tests.harness.scripted_card import ADDRESS, ALL, COUNTERS, FRAME, place, question

# The parts on the screen


@pytest.mark.parametrize(("key", "answer", "following"), [("a", 1, 2), ("x", -1, 3), (" ", 0, 4)])
def test_an_answer_paints_its_own_branch_at_once(script, key, answer, following):
    """After an answer, the next item prepared for this answer is shown before the server has replied."""
    counters = {label: COUNTERS | {"labels": 3 + label} for label in (1, -1, 0)}
    ahead = {label: place(n, counters=counters[label]) for label, n in ((1, 2), (-1, 3), (0, 4))}
    script.give(1, {1: ahead})
    script.press(key)
    assert script.shown == following
    assert script.answers == [(1, answer)]
    assert script("counters").inner_text().startswith(f"{3 + answer} of 9 labels used, {6 - answer} left")


def test_a_key_before_the_paint_labels_nothing(script):
    script.hand(1, ALL)
    script.page.keyboard.type("ax1 ")
    assert script.posts == []
    script.run(FRAME)
    script.page.keyboard.type("ax1 ")
    assert script.answers == [(1, 1)]


def test_an_older_payload_throws_nobody_back(script):
    """A payload that the server made before it received the latest answers changes nothing on the screen."""
    script.give(1, {1: {1: 2, -1: 3, 0: 4}})
    script.press("x")
    script.give(1)
    assert script.shown == 3
    script.press("a")
    assert (script.shown, script.answers) == (3, [(1, -1), (3, 1)])
    first, second = script.ids
    script.give(3, {3: {1: 5, -1: 6, 0: 7}}, acked=[first])
    assert script.shown == 5
    script.give(99, acked=[first])
    assert script.shown == 5
    script.give(99, acked=[first, second])
    assert script.shown == 99


def test_an_old_branch_is_forgotten_with_the_acknowledgement(script):
    """The next item prepared for an answer is dropped once the answer is acknowledged. If the same item is answered
    again, the prepared one is not shown."""
    script.give(1, {1: {1: 2}})
    script.press("a")
    script.give(1, acked=script.ids)
    script.press("a")
    assert script.shown == 1
    assert script.answers == [(1, 1)]


def test_the_same_question_is_never_painted_again(script):
    long, other = (question(n, parts=[["long " * 2000, 0]]) for n in (1, 2))
    script.give(long, {1: {1: place(other)}})
    script.page.evaluate("""() => {
      window.painted = 0;
      const text = document.querySelector("[data-testid=oal-text]");
      text.scrollTop = 77;
      new MutationObserver(() => painted++).observe(text, {childList: true, characterData: true, subtree: true});
    }""")
    script.run(2000)
    for _ in range(3):
        script.give(question(1, parts=[["another text", 0]]), {1: {1: place(other)}}, previous=7)
    assert script.page.evaluate("painted") == 0
    assert script("text").evaluate("text => text.scrollTop") == 77
    script.press("a")
    assert script.page.evaluate("painted") > 0
    assert script("text").evaluate("text => text.scrollTop") == 0
    assert script.events[0]["seconds"] == 2.2


def test_without_a_branch_the_card_waits_on_its_item(script):
    """Until the server sends the next item, the current one stays, is marked as waiting, and cannot be answered
    again."""
    script.give(1, previous=7)
    script.press("a", "x", " ", "z")
    for button in ("button-1", "button--1", "skip", "undo"):
        assert script(button).get_attribute("aria-disabled") == "true"
        script(button).dispatch_event("click")
    script.run(FRAME)
    assert (script.shown, script.answers) == (1, [(1, 1)])
    script.run(300)
    assert script.status == "unsaved 1 · waiting for the server…"
    script.give(2, acked=script.ids, previous=1)
    assert (script.shown, script.status) == (2, "Saved")
    assert script("button-1").get_attribute("aria-disabled") == "false"


def test_unsaved_is_said_only_where_it_lasts(script):
    script.give(1, ALL)
    script.press("a")
    assert (script.status, script("card").get_attribute("data-unsaved")) == ("Saved", "1")
    script.run(300)
    assert script.status == "unsaved 1"
    script.give(2, ALL, acked=script.ids)
    assert (script.status, script("card").get_attribute("data-unsaved")) == ("Saved", "0")


def test_an_error_stays_until_the_next_answer(script):
    script.give(1, ALL, error="Not stored: somebody was faster.")
    script.run(60_000)
    assert script.status == "Not stored: somebody was faster."
    script.press("a")
    script.run(300)
    assert script.status == "unsaved 1"


def test_an_earlier_answer_is_marked_on_its_button(script):
    for n, (old, marked) in enumerate([(1, "button-1"), (-1, "button--1"), (0, "skip"), (None, None)], 1):
        script.give(question(n, old=old))
        for button in ("button-1", "button--1", "skip", "undo"):
            assert script(button).locator(".mark").is_visible() == (button == marked)


ENDS = {
    "budget": "The budget of 9 labels is spent",
    "stream": "The stream has ended",
    "others": "Other people have the remaining questions",
    "joining": "Your first item is being prepared",
    None: "There is nothing to label now",
}


def test_at_the_end_only_undo_is_left(script):
    """The card gives the reason for the end and the result; no key answers, and the last answer can be undone."""
    for end, sentence in ENDS.items():
        script.give(place(None, end=end, result="Sum 0.9."), previous=4)
        assert script("text").locator("p").all_inner_texts() == [sentence, "Sum 0.9."]
        assert script("card").get_attribute("data-question") == ""
        script.press("a", "x", " ", "1", "0")
        script("button-1").dispatch_event("click")
        assert script.posts == []
    script.press("z")
    assert script.posts == [[[4, "undo", None]]]


def test_untrusted_text_is_shown_as_it_is_written(script):
    words = MARKUP + "<b>b</b><script>window.pwned=1</script>&amp; {'a':  1} a\x01b\u200bc\u202ed\u202ce\u0301 👩‍👩‍👧"
    classes = [{"label": label, "name": f"{words} {label}", "keys": [key]} for label, key in ((1, "a"), (-1, "x"))]
    asked = question(1, parts=[[words, 0], [words, 0.5]], features=[[words, words, -0.5]], title=words, why=words)
    script.give(asked, classes=classes, error=words, previous=7)
    seen = script("card").evaluate("card => card.textContent")
    assert seen.count(words) == 2 + 2 + 1 + 1 + 1 + 2 * 2  # text, feature, title, why, error, classes twice
    script.give(place(None, end="budget", result=words), classes=classes)
    assert words in script("text").text_content()
    script.run(1000)
    assert script("card").locator("img, script, b, em, a, svg").count() == 0
    assert script.page.evaluate("window.pwned") is None


def test_the_highlight_is_off_at_first_and_remembered(script):
    tinted = question(1, parts=[["good", 0.8], [" and ", 0], ["bad", -0.4]])

    def grounds():
        terms = script("text").locator(".term")
        return terms.evaluate_all("terms => terms.map(term => getComputedStyle(term).backgroundColor)")

    script.give(tinted)
    plain = ["rgba(0, 0, 0, 0)"] * 2
    assert (grounds(), script("highlight").get_attribute("aria-checked")) == (plain, "false")
    script.press("h")
    assert script("highlight").get_attribute("aria-checked") == "true"
    assert len({*grounds(), plain[0]}) == 3
    script.open()
    script.give(tinted)
    assert script("highlight").get_attribute("aria-checked") == "true"
    script("more").click()
    script("highlight").click()
    assert (grounds(), script("highlight").get_attribute("aria-checked")) == (plain, "false")
    assert script.posts == []


# The effects of keys


def test_the_keys_of_two_classes(script):
    """The first of two classes has the keys A and 1, the second X and 0, in upper or lower case. Space skips."""
    script.give(1, ALL)
    for n, key in enumerate(["a", "1", "A", "Shift+A", "x", "0", "X", " "], 1):
        script.press(key)
        script.give(n + 1, ALL, acked=script.ids, previous=n)
    posted = [answer for (answer,) in script.posts]
    labels = [1, 1, 1, 1, -1, -1, -1]
    assert posted == [[n, "label", label] for n, label in enumerate(labels, 1)] + [[8, "skip", None]]


def test_many_classes_are_counted_on_their_buttons(script):
    classes = [{"label": n, "name": f"class {n}", "keys": []} for n in range(1, 12)]
    counters = COUNTERS | {"answers": {str(n): n * 1000 for n in range(1, 12)}, "pushed": None}
    script.give(place(1, counters=counters), classes=classes)
    assert [script(f"button-{n}").locator(".count").inner_text() for n in (1, 11)] == ["1,000", "11,000"]
    assert script("counters").locator("dt").all_inner_texts() == ["skipped", "of 1,000 streamed"]
    colors = [script(f"button-{n}").evaluate("button => getComputedStyle(button).backgroundColor") for n in (1, 2)]
    assert colors[0] == colors[1]


def test_keys_of_a_cyrillic_keyboard(script):
    script.give(1, ALL)
    script.dispatch(key="ф", code="KeyA")
    script.dispatch(key="ч", code="KeyX")
    assert script.answers == [(1, 1), (2, -1)]


def test_keys_typed_in_a_field_are_text(script):
    script.give(1, ALL, previous=7)
    for field in ("#field", "#area", "#select", "#editable", "#textbox", "#shadow input"):
        script.page.locator(field).focus()
        script.press(*"ax10zh ", "Backspace")
        assert script.posts == []
        assert script("highlight").get_attribute("aria-checked") == "false"
    script.page.evaluate("document.activeElement.blur()")
    script.press("a")
    assert script.answers == [(1, 1)]


def test_keys_before_a_dialog_are_not_answers(script):
    script.give(1, ALL, previous=7)
    for dialog in ("<dialog open>", "<p role=dialog>", "<p role=alertdialog>", "<p aria-modal=true>"):
        script.page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", dialog)
        script.press(*"ax z")
        assert script.posts == []
        script.page.evaluate("document.body.lastElementChild.remove()")
    script.press("a")
    assert script.answers == [(1, 1)]


def test_keys_with_modifiers_and_of_an_input_method_are_not_answers(script):
    script.give(1, ALL, previous=7)
    script.press("Control+a", "Alt+x", "Meta+z", "Control+Backspace")
    script.dispatch(key="a", code="KeyA", isComposing=True)
    script.page.evaluate("host.addEventListener('keydown', e => e.preventDefault(), {capture: true, once: true})")
    script("button-1").focus()
    script.press("a")
    assert script.posts == []
    script.press("a")
    assert script.answers == [(1, 1)]


@pytest.mark.parametrize("key", ["a", " ", "z"])
def test_a_held_key_acts_once(script, key):
    script.give(1, ALL, previous=7)
    script.hold(key)
    assert len(script.events) == 1


@pytest.mark.parametrize("name", ["button", "box"])
def test_space_after_a_click_elsewhere_is_the_cards(script, name):
    """Space skips after a click on a control outside the card, but presses a control that was reached with Tab."""
    page, control = script.page, script.page.locator(f"#{name}")
    page.evaluate("() => { window.clicked = 0; box.onclick = () => (window.clicked += 1); }")
    script.give(1, ALL)
    control.click()
    script.press(" ")
    assert (page.evaluate("clicked"), script.answers) == (1, [(1, 0)])
    assert page.evaluate("document.activeElement === document.body")
    control.click()
    script.press("Shift+Tab", "Tab", " ")
    assert control.evaluate("control => document.activeElement === control")
    assert (page.evaluate("clicked"), script.answers) == (3, [(1, 0)])


def test_space_and_enter_press_the_focused_button_once(script):
    script.give(1, ALL)
    script("button--1").focus()
    script.press(" ")
    assert script.answers == [(1, -1)]
    script.hold("Enter")
    assert script.answers == [(1, -1), (2, -1)]
    script.page.locator("#button").focus()
    script.press(" ")
    script.page.locator("#box").focus()
    script.press(" ")
    assert script.page.evaluate("[clicked, box.checked]") == [1, True]
    assert len(script.events) == 2
    script.press("a")
    assert script.answers[2:] == [(3, 1)]


def test_the_mouse_leaves_no_focus_for_space_to_press(script):
    script.give(1, ALL)
    script("button-1").click()
    script.run(FRAME)
    script.press(" ")
    assert script.answers == [(1, 1), (2, 0)]


def test_a_double_click_answers_once_and_deliberate_clicks_each(script):
    script.give(1, ALL)
    script("button-1").click()
    mouse = script.page.mouse
    for wait, answers in ((0, 1), (FRAME, 1), (600, 2)):
        script.run(wait)
        mouse.down(click_count=2)
        mouse.up(click_count=2)
        assert len(script.events) == answers


def test_arrow_keys_scroll_a_long_text(script):
    script.give(question(1, parts=[["word " * 3000, 0]]), ALL)
    script.press("ArrowDown", "PageDown", "ArrowUp")
    assert script("text").evaluate("text => text.scrollTop") == 28 * (3 + 12 - 3)


# The verdict of the model


def test_what_the_model_said_is_shown_when_the_server_tells_it(script):
    """The verdict on an answer appears once the server sends it: the item's first words, the predicted class and
    margin, whether the annotator agreed, and the chance of being asked. Until then the previous verdict stays; a skip
    or an undo clears it."""

    def told(n, **changes):
        return {"question": n, "label": -1, "margin": "-0.42", "asked": "Chance 18 %."} | changes

    script.give(1, ALL, previous=9)
    said = script("said")
    for n, key, verdict in ((1, "a", "you disagreed"), (2, "x", "you agreed")):
        before = said.inner_text()
        script.press(key)
        assert (script.shown, said.inner_text()) == (n + 1, before)
        script.give(n + 1, ALL, acked=script.ids, verdict=told(n), previous=n)
        sentence = f"The model said “No” (-0.42); {verdict}. Chance 18 %."
        assert said.locator("> *").all_inner_texts() == [f"item {n}", sentence]
    script.give(3, ALL, verdict=told(2), previous=2)  # the same verdict in another payload
    assert said.locator("q").inner_text() == "item 2"
    script.press(" ")
    assert said.inner_text() == ""
    script.give(4, ALL, acked=script.ids, verdict=told(3), previous=3)
    assert said.inner_text() == ""
    script.press("a", "z")
    script.give(4, ALL, acked=script.ids, verdict=told(4), previous=3)
    assert said.inner_text() == ""


@pytest.mark.parametrize("way", ["hover", "focus"])
def test_what_pushed_means_is_one_hover_or_tap_away(script, way):
    script.give(1, ALL, pushed="what it means")
    meaning = script("tally").get_by_text("what it means")
    assert not meaning.is_visible()
    getattr(script("tally").get_by_text("pushed"), way)()
    assert meaning.is_visible()
    assert meaning.bounding_box()["width"] <= script("card").bounding_box()["width"]


def test_marks_are_asked_of_the_server_and_all_look_alike(script):
    """If no preferences are stored, the card asks the server for marked terms when highlighting is switched on. The
    marks look alike for all classes and do not reveal the sign of a weight."""
    script.give(question(1, parts=[["item ", 0], ["1", True]]), ALL, preferences=None)
    script("more").click()
    script("highlight").click()
    assert script.page.evaluate("marks") == [True]
    assert script("text").locator(".term").evaluate(
        "term => [term.className, getComputedStyle(term).textDecorationLine]"
    ) == ["term", "none"]
    script("highlight").click()
    assert script.page.evaluate("marks") == [True, False]


def test_a_key_while_the_marks_of_an_item_arrive_answers_it(script):
    """A key answers an item that is about to be repainted with marked terms, because its text has been seen."""
    script.give(1, ALL)
    script.hand(question(1, parts=[["item ", 0], ["1", True]]), ALL)
    script.press("a")
    assert [(1, 1)] == script.answers


# All kinds of text


def test_each_paragraph_has_the_direction_of_its_own_words(script):
    script.give(question(1, parts=[["שלום\nplain\n\tindented", 0]]))
    margins = script("text").evaluate("""text => {
      const range = document.createRange(), node = text.firstChild, box = text.getBoundingClientRect();
      return [[0, 4], [5, 10], [12, 20]].map(([start, end]) => {
        range.setStart(node, start);
        range.setEnd(node, end);
        const {left, right} = range.getBoundingClientRect();
        return [left - box.left, box.right - right];
      });
    }""")
    (far, near), (left, _), (indented, _) = margins
    assert near < 30 < far
    assert left < 30 < indented


def test_an_empty_item_says_so(script):
    text, values = "This item has no text.", "This item has no values."
    for n, (sentence, empty) in enumerate([
        (text, {"parts": []}), (text, {"parts": [[" \n\t", 0]]}), (values, {"parts": [], "features": []}),
    ], 1):  # fmt: skip
        script.give(question(n, title=" ", **empty), ALL)
        assert script("text").inner_text() == sentence
        assert script("card").locator(".title").inner_text() == f"#{n}"
    script.press("a")
    assert script.answers == [(3, 1)]


@pytest.mark.parametrize("parts", [[["word " * 20, 0], ["term", 0.5]] * 1000, [["🙂" * 50_000, 0]]])
def test_a_long_text_is_there_to_its_end_after_its_beginning_was_painted(script, parts):
    whole = "".join(text for text, _ in parts)
    script.hand(question(1, parts=parts))
    beginning = script("text").evaluate("text => text.textContent")
    assert whole.startswith(beginning)
    assert 3_000 < len(beginning) < 9_000  # more than the box shows
    script.run(FRAME)
    assert script("text").evaluate("text => text.textContent") == whole


# Links at the end


def test_the_end_leads_on_without_a_load(script):
    """The link of a session that is not open any more leads home as Streamlit's own links do, without a reload."""
    script.give(place(None, end="removed", result="R."))
    script.page.evaluate("window.same = true; window.addEventListener('popstate', () => (window.came = location.href))")
    link = script("text").get_by_role("link")
    with script.page.context.expect_page():
        link.click(modifiers=["Control"])
    assert script.page.evaluate("window.came") is None
    link.press("Enter")
    assert script.page.evaluate("[same, came]") == [True, ADDRESS]


# More classes than keys


def sixty(script):
    """Show an item in a session of sixty classes, of which only the first has a key."""
    classes = [{"label": n, "name": f"Class {n:02} <b>é", "keys": ["1"] * (n == 1)} for n in range(1, 61)]
    places = {n: place(n, counters=COUNTERS | {"answers": dict.fromkeys(map(str, range(61)), 0)}) for n in (1, 2, 3)}
    script.give(places[1], {n: dict.fromkeys(range(61), places[n + 1]) for n in (1, 2)}, classes=classes)


def test_a_class_without_a_key_is_found_by_its_name(script):
    """Slash, letters of a class name and Enter answer with the first matching class, which the card shows before Enter.
    In the search field the keys of classes are letters, and without a match Enter has no effect."""
    sixty(script)
    script.press("/", *"ss 6")
    assert script("fit").inner_text() == "Enter: Class 60 <b>é"
    script.press("x", "Enter", *["Backspace"] * 2)
    assert script.answers == []
    script.press(*"45", "Enter")
    assert (script.answers, script.shown, script("find").input_value()) == ([(1, 45)], 2, "")
    script.press("/", "1", "Escape", "1")
    assert script.answers == [(1, 45), (2, 1)]


def test_tab_and_enter_reach_every_class(script):
    sixty(script)
    script("text").focus()
    for n in range(1, 61):
        script.page.keyboard.press("Tab")
        button = script(f"button-{n}")
        assert button.evaluate("button => button.getRootNode().activeElement === button")
    assert button.evaluate("""button => {
      const [own, around] = [button, button.parentElement].map((node) => node.getBoundingClientRect());
      return around.top <= own.top && own.bottom <= around.bottom + 1;
    }""")
    script.press("Enter")
    assert script.answers == [(1, 60)]


def test_classes_that_all_have_keys_are_not_searched(script):
    script.give(1, ALL)
    assert not script("find").is_visible()
    script.press("/", "a")
    assert script.answers == [(1, 1)]


# Conversations

LONG = f"{'and a long way round ' * 60}to the end"


def test_long_turns_are_folded_and_unfolded_by_keys(script):
    """A conversation is shown as its turns. A long turn is folded, Tab and Enter unfold it, and nobody answers by that;
    its text is whole, marks stay on their words, and markup in it is text."""
    parts = [["user: open the ", 0], ["kettle", 0.5], [f", please {MARKUP}\nassistant: {LONG}\nuser: thanks", 0]]
    script.give(question(1, parts=parts), ALL)
    turns = script("text").locator(".turn")
    whole = "".join(words for words, _ in parts)
    assert whole == "".join(turns.all_text_contents())
    assert ["DIV", "DETAILS", "DIV"] == turns.evaluate_all("turns => turns.map(({tagName}) => tagName)")
    assert (["user: ", "assistant: ", "user: "], ["kettle"]) == (
        turns.locator("b").all_text_contents(),
        script("text").locator(".term").all_text_contents(),
    )
    assert 0 == script("text").locator("img").count()
    fold = turns.nth(1)
    assert "to the end" not in fold.inner_text()
    script("text").focus()
    script.press("Tab", "Enter")
    assert "to the end" in fold.inner_text()
    assert script.posts == []
    script.press("a")
    assert script.answers == [(1, 1)]


@pytest.mark.parametrize(("text", "turns"), [
    ("Ann: hello\nBob: and you\nAnn: well\nBob: good", 4),
    ("user: one\nNote: not a turn\nassistant: two", 2),
    ("Dear user: hello\nassistant: no", 0),
    ("Note: one\nPrice: two\nSize: three", 0),
    ("a text without turns", 0),
])  # fmt: skip
def test_only_conversations_have_turns(script, text, turns):
    """Turns begin with roles, or with names that several lines begin with. Any other text stays as it is."""
    script.give(question(1, parts=[[text, 0]]), ALL)
    assert (turns, text) == (script("text").locator(".turn").count(), script("text").inner_text().replace("\n\n", "\n"))
