"""The labeling card on a test page without a server, in a session that asks several questions: how it lists the
questions, its keys, and the events that it sends."""

import pytest

from tests.harness.browser import DESKTOP, PHONE, bounds
from tests.harness.scripted_card import ALL, COUNTERS, place, question

NAMES = {"classes": [{"label": 1, "name": "some", "keys": ["a"]}, {"label": -1, "name": "none", "keys": ["x"]}]}
KEYS = "123456789qwe"
GLANCE = 400  # ms after a paint before anything is confirmed


def asking(count):
    """Return `count` questions as the server sends them."""
    return [{"name": f"topic {n}", "guidelines": f"What {n} means", "keys": [KEYS[n - 1]]} for n in range(1, count + 1)]


@pytest.fixture
def give(script):
    """A function that shows an item with several questions, and waits until Enter confirms at once."""

    def shown(here, count=3, **changes):
        script.give(here, questions=asking(count), **NAMES, **changes)
        script.run(GLANCE)

    return shown


def states(script, count=3):
    """Return the state of each question on the card: "true" for yes, "mixed" for cannot tell, "false" otherwise."""
    return [script(f"line-{n}").get_attribute("aria-pressed") for n in range(1, count + 1)]


def sent(script):
    """Return the events of the last request, as (question, action, label, labels)."""
    return [(each["question"], each["action"], each["label"], each.get("labels")) for each in script.events]


def test_keys_set_the_lines_and_enter_confirms_them_all(script, give):
    """The key of a question switches its yes on and off; with Shift, it switches "cannot tell". Enter sends a label for
    each question, no if nothing is set."""
    give(1, 4)
    assert ["false"] * 4 == states(script, 4)
    script.press("1", "2", "2", "Shift+3", "Shift+4", "4")
    assert ["true", "false", "mixed", "true"] == states(script, 4)
    assert [] == script.posts
    script.press("Enter")
    assert [(1, "label", 1, [1, -1, 0, 1])] == sent(script)


@pytest.mark.parametrize(
    ("keys", "event"),
    [
        (["Enter"], ("label", -1, [-1, -1, -1])),
        (["Shift+1", "Enter"], ("label", -1, [0, -1, -1])),
        (["Shift+1", "Shift+1", "Enter"], ("label", -1, [-1, -1, -1])),
        (["Shift+1", "Shift+2", "Shift+3", "Enter"], ("skip", None, None)),
        (["1", " "], ("skip", None, None)),
    ],
)
def test_enter_alone_is_none_of_these_and_space_skips(script, give, keys, event):
    """If no question is set to yes, Enter answers no to each except those set to "cannot tell", and skips if all are.
    Space always skips."""
    give(1)
    script.press(*keys)
    assert [(1, *event)] == sent(script)


def test_only_the_questions_that_an_item_was_asked_have_lines(script, give):
    give(question(1, asks=[0, 2]))
    assert [True, False, True] == [script(f"line-{n}").is_visible() for n in (1, 2, 3)]
    script.press("2", "3", "Enter")
    assert [(1, "label", 1, [-1, 0, 1])] == sent(script)


def test_a_question_under_another_one_says_its_yes_too(script, give):
    """An answer to a child question sets its parent to yes. A parent set to no or "cannot tell" passes this on to its
    children."""
    asked = asking(3)
    asked[1]["parent"] = asked[2]["parent"] = "topic 1"
    script.give(1, questions=asked, **NAMES)
    script.run(GLANCE)
    script.press("2")
    assert ["true", "true", "false"] == states(script)
    script.press("1")
    assert ["false", "false", "false"] == states(script)
    script.press("Shift+1")
    assert ["mixed", "mixed", "mixed"] == states(script)
    script.press("Shift+3")
    assert ["true", "false", "mixed"] == states(script)
    script.press("Enter")
    assert [(1, "label", 1, [1, -1, 0])] == sent(script)


def test_letters_are_keys_of_the_later_lines(script, give):
    give(1, 12)
    assert [key.upper() for key in KEYS] == [script(f"line-{n}").locator("kbd").inner_text() for n in range(1, 13)]
    assert "topic 12" in script("line-12").inner_text()
    script.press("q", "Shift+W")
    assert ["true", "mixed", "false"] == states(script, 12)[9:]


def test_nothing_is_confirmed_before_the_item_can_be_read_and_no_enter_is_lost(script, give):
    """Enter or a click on Confirm in the first 0.4 seconds after the paint confirms at their end, with the labels set
    by then. If the item is skipped meanwhile, nothing is confirmed."""
    give(1)
    for n in range(2, 6):
        script.give(n, questions=asking(3), acked=script.ids, **NAMES)
        script.press("Enter", "1")
        script("confirm").click()
        assert ["true", "false", "false"] == states(script)
        assert n - 2 == len(script.posts)
        script.run(GLANCE)
        assert [(n, "label", 1, [1, -1, -1])] == sent(script)
    script.give(6, questions=asking(3), acked=script.ids, **NAMES)
    script.press("Enter", " ")
    script.give(7, questions=asking(3), acked=script.ids, **NAMES)
    script.run(2 * GLANCE)
    assert [(6, "skip", None, None)] == sent(script)


def test_the_card_waits_with_its_answer_and_the_next_item_has_none(script, give):
    """The labels stay as sent and cannot be changed until the server replies; the next item has no labels set."""
    give(1, previous=9)
    script.press("2", "Enter", "1", "Enter", " ", "z")
    assert (1, ["false", "true", "false"], 1) == (script.shown, states(script), len(script.events))
    assert ["true"] * 2 == [script(name).get_attribute("aria-disabled") for name in ("line-1", "unsure-1")]
    script.run(300)
    assert "unsaved 1 · waiting for the server…" == script.status
    give(2, acked=script.ids, previous=1)
    assert (2, ["false"] * 3, "Saved") == (script.shown, states(script), script.status)
    assert "false" == script("line-1").get_attribute("aria-disabled")
    script.press("Enter")
    assert [(2, "label", -1, [-1, -1, -1])] == sent(script)


def test_an_answer_that_was_refused_stays_on_the_lines(script, give):
    give(1)
    script.press("2", "Enter")
    give(1, acked=script.ids, error="Not stored: somebody was faster.")
    assert (["false", "true", "false"], "Not stored: somebody was faster.") == (states(script), script.status)


def test_undo_shows_the_lines_as_they_were(script, give):
    """Z undoes the answers to all questions and shows the item with its labels; a skipped item has no labels and a mark
    on Skip. An item without an answer has no mark on any button."""
    give(2, previous=1)
    assert not any(mark.is_visible() for mark in script.page.locator(".mark").all())
    script.press("z")
    assert [(1, "undo", None, None)] == sent(script)
    give(question(1, old=[1, -1, 0]), acked=script.ids)
    assert ["true", "false", "mixed"] == states(script)
    script.press("Enter")
    assert [(1, "label", 1, [1, -1, 0])] == sent(script)
    give(question(3, old=[0, 0, 0]), acked=script.ids)
    assert ["false"] * 3 == states(script)
    assert script("skip").locator(".mark").is_visible()


@pytest.fixture
def each(script):
    """A function that shows an item in a session in which every question needs an answer. The third question needs one
    only after a yes to the first."""

    def shown(here, **changes):
        asked = asking(3)
        asked[2]["parent"] = "topic 1"
        script.give(here, questions=asked, answer_each=True, **NAMES, **changes)
        script.run(GLANCE)

    return shown


def test_where_every_line_needs_an_answer_enter_names_those_without_one(script, each):
    """Enter confirms only once each question has an answer, and otherwise names the questions without one. The key 0
    says no to the first such question, and pressing the key of a question again clears it."""
    each(1)
    script.press("Enter")
    assert ("No answer yet: topic 1, topic 2", []) == (script("heard").inner_text(), script.posts)
    assert [True, True, False] == ["missing" in n.get_attribute("class") for n in script("lines").locator("> *").all()]
    script.press("1", "Enter")
    assert "No answer yet: topic 2, topic 3" == script("heard").inner_text()
    script.press("0")
    assert "topic 2: no" == script("heard").inner_text()
    script.press("Shift+3", "1", "Enter")
    assert "No answer yet: topic 1" == script("heard").inner_text()
    script.press("1", "0", "Enter")
    assert [(1, "label", 1, [1, -1, -1])] == sent(script)
    each(2, acked=script.ids, previous=1)
    assert ["false"] * 3 == states(script) == [script(f"no-{n}").get_attribute("aria-pressed") for n in (1, 2, 3)]
    assert "" == script("heard").inner_text()
    script.press("0", "0", "Enter")
    assert [(2, "label", -1, [-1, -1, -1])] == sent(script)


def test_a_question_whose_yes_is_known_leaves_the_one_below_it_alone(script, each):
    """If a parent question is not asked because its yes is already known, its child question can be answered alone."""
    each(question(1, asks=[1, 2]))
    script.press("3", "Enter")
    assert "No answer yet: topic 2" == script("heard").inner_text()
    script.press("0", "Enter")
    assert [(1, "label", 1, [0, -1, 1])] == sent(script)


def test_undo_brings_back_lines_that_all_need_an_answer(script, each):
    """If every question needs an answer, Z shows the item with all its answers, so that Enter can confirm them. A
    skipped item returns without answers."""
    each(2, previous=1)
    script.press("z")
    each(question(1, old=[1, 0, -1]), acked=script.ids)
    assert ["true", "mixed", "false"] == states(script)
    assert ["false", "false", "true"] == [script(f"no-{n}").get_attribute("aria-pressed") for n in (1, 2, 3)]
    script.press("Enter")
    assert [(1, "label", 1, [1, 0, -1])] == sent(script)
    each(question(3, old=[0, 0, 0]), acked=script.ids)
    script.press("Enter")
    assert "No answer yet: topic 1, topic 2" == script("heard").inner_text()
    script.press(" ")
    assert [(3, "skip", None, None)] == sent(script)


def test_a_finger_says_no_where_every_line_needs_an_answer(script, each):
    """If every question needs an answer, each has a No button large enough for a finger. A child question gets it once
    its parent is set to yes. In other sessions no question has this button."""
    script.page.set_viewport_size(PHONE)
    each(1)
    assert [True, True, False] == [script(f"no-{n}").is_visible() for n in (1, 2, 3)]
    script("line-1").click()
    for name in ("topic 2", "topic 3"):
        script.page.get_by_role("button", name=f"No: {name}").click()
    left, top, right, bottom = bounds(script("no-3"))
    assert bottom - top >= 44
    assert right - left >= 44
    script("confirm").click()
    assert [(1, "label", 1, [1, -1, -1])] == sent(script)
    script.give(2, acked=script.ids, questions=asking(3), **NAMES)
    assert not any(script(f"no-{n}").is_visible() for n in (1, 2, 3))
    script.page.set_viewport_size(DESKTOP)


def test_a_skipped_item_gets_a_label_for_each_question(script, give):
    here = place(5, counters=COUNTERS | {"skipped": 1})
    give(here)
    script("offer").click()
    give(here, review={"after": 0, "left": 1, "questions": [question(2)]})
    assert 2 == script.shown
    script.press("3", "Enter")
    assert [(2, "correct", 1, [-1, -1, 1])] == sent(script)


def test_the_verdict_counts_the_lines_on_which_the_model_agreed(script, give):
    give(1)
    script.press("1", "Enter")
    assert "" == script("said").inner_text()
    verdict = {"question": 1, "agreed": 2, "of": 3, "asked": "Chance 18 %."}
    give(2, acked=script.ids, verdict=verdict, previous=1)
    words = script("said").locator("> *").all_inner_texts()
    assert ["item 1", "The model agreed on 2 of 3. Chance 18 %."] == words


def test_lines_are_buttons_for_fingers_and_screen_readers(script, give):
    """Each question is a button whose name includes its state, a second button says cannot tell, and a state set by a
    key is announced."""
    give(1)
    script.page.get_by_role("button", name="Cannot tell: topic 2").click()
    line = script("line-2")
    assert "mixed" == line.get_attribute("aria-pressed")
    assert script.page.get_by_role("button", name="topic 2 cannot tell").count() == 1
    assert "topic 2: cannot tell" == script("heard").inner_text()
    script.press("2")
    assert "topic 2: yes" == script("heard").inner_text()
    line.click()
    assert "topic 2: no" == script("heard").inner_text()
    assert "false" == script("unsure-2").get_attribute("aria-pressed")


def test_enter_after_a_click_elsewhere_is_the_cards(script, give):
    script.page.evaluate("window.clicked = 0")
    give(1)
    script.page.locator("#button").click()
    script.press("Enter")
    assert (1, [(1, "label", -1, [-1, -1, -1])]) == (script.page.evaluate("clicked"), sent(script))


def test_enter_in_a_session_of_one_question_does_nothing(script):
    script.give(1, ALL)
    script.run(GLANCE)
    script.press("Enter", "2")
    assert [] == script.posts
    assert not script("several").is_visible()
    assert 0 == script("confirm").count()


def test_twelve_lines_fit_on_a_screen(script, give):
    script.page.set_viewport_size(DESKTOP)
    give(1, 12)
    left, top, _, _ = bounds(script("line-1"))
    assert top == bounds(script("line-2"))[1]
    assert left < bounds(script("line-2"))[0]
    assert script("lines").evaluate("lines => lines.scrollHeight <= lines.clientHeight + 1")
    assert bounds(script("line-12"))[3] <= bounds(script("confirm"))[1]
    assert bounds(script("confirm"))[3] <= DESKTOP["height"]


def test_a_phone_has_a_line_below_the_other_and_confirms_at_the_bottom(script, give):
    script.page.set_viewport_size(PHONE)
    give(1, 5)
    lines = [bounds(script(f"line-{n}")) for n in range(1, 6)]
    assert 1 == len({left for left, *_ in lines})
    assert sorted({top for _, top, *_ in lines}) == [top for _, top, *_ in lines]
    assert all(bottom - top >= 44 for _, top, _, bottom in lines)
    assert bounds(script("lines"))[2] - bounds(script("unsure-1"))[2] < 2
    assert all(bounds(script(name))[3] <= bounds(script("confirm"))[1] for name in ("lines", "skip"))
    script.page.set_viewport_size(DESKTOP)


def test_at_150_percent_an_item_with_five_questions_has_twelve_lines(script, give):
    """In a window of 911 x 600 pixels, which is 1366 x 900 at 150 %, the card is on the screen down to its bar, with
    twelve lines of a long text."""
    script.page.set_viewport_size({"width": 911, "height": 600})
    script.page.evaluate("host.style.cssText = 'position: absolute; top: 64px; left: 32px; width: 497px'")
    give(question(1, parts=[["word " * 900, 0]]), 5)
    text = script("text")
    lines = text.evaluate("""text => {
      const { lineHeight, paddingTop } = getComputedStyle(text);
      return (text.clientHeight - 2 * parseFloat(paddingTop)) / parseFloat(lineHeight);
    }""")
    assert lines >= 12
    assert bounds(script("bar"))[3] <= 600
    script.page.set_viewport_size(DESKTOP)
