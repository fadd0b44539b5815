"""The labeling card on a test page without a server: notes, guidelines, text sizes, custom keys, skipped items."""

import re

import pytest

from tests.harness.scripted_card import ALL, COUNTERS, FRAME, place, question

# The parts around the item

TWO_LINES = "Speak of a product.\n**not** <b>adverts</b>"


def bottoms(script):
    """Return the bounding boxes of the card's buttons and counters, which must not move."""
    return [script(part).bounding_box() for part in ("button-1", "button--1", "skip", "undo", "counters")]


@pytest.mark.parametrize("key", ["Escape", "Control+Enter", "Meta+Enter"])
def test_a_note_is_written_under_the_text_and_kept(script, key):
    """N opens a field in which every key is text. The note is sent as an event about the item, and then shown."""
    script.give(question(1, item=8), ALL)
    places = bottoms(script)
    script.press("n")
    script.page.keyboard.type("ax10 zhgncr-+")
    assert bottoms(script) == places
    assert script.posts == []
    script.press(key)
    written = {"id": script.ids[0], "annotator": "anna", "question": 1, "item": 8, "action": "note"}
    assert script.events == [written | {"text": "ax10 zhgncr-+"}]
    assert (script("written").inner_text(), script("note-field").is_visible()) == ("ax10 zhgncr-+", False)
    assert bottoms(script) == places
    script.press("x")
    assert [event["action"] for event in script.events] == ["note", "label"]
    assert script("written").is_visible() is False


def test_a_key_of_a_note_is_nobody_elses(script):
    """Keys typed in a note do not reach the page around the card, where R would rerun the script."""
    script.page.evaluate("""() => {
      window.heard = [];
      for (const kind of ["keydown", "keypress", "keyup"]) addEventListener(kind, ({key}) => heard.push(key));
    }""")
    script.give(question(1, item=8), ALL)
    script.page.evaluate("heard.length = 0")
    script.press("n", "r", "c", "Escape", "n", "q", "Control+Enter")
    script("more").click()
    script("keys").click()
    script.press("c", "Escape")
    assert not {"r", "c", "q"} & {*script.page.evaluate("heard")}


def test_a_note_is_changed_and_taken_away(script):
    """The field for a note holds the current note. Closing it unchanged sends no event; closing it empty removes the
    note."""
    script.give(question(1, item=8, note="old"), ALL)
    assert script("written").inner_text() == "old"
    script.press("n", "Escape")
    assert script.posts == []
    script("written").click()
    assert script("note-field").input_value() == "old"
    script("note-field").fill("")
    script.press("Escape")
    assert [event["text"] for event in script.events] == [""]
    assert script("written").is_visible() is False
    script.press("n")
    script("note-field").fill(" new\nline ")
    script("card").get_by_role("button", name="Save note").click()
    assert [event["text"] for event in script.events] == ["", "new\nline"]


def test_an_input_method_may_use_escape_in_a_note(script):
    script.give(question(1, item=8), ALL)
    script.press("n")
    script("note-field").evaluate(
        "field => field.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', isComposing: true, bubbles: true}))"
    )
    assert script("note-field").is_visible()


def test_a_note_delays_no_answer_and_outlives_a_reload(script):
    """Unacknowledged notes are sent again in order with the answers, and are shown until the server has stored them."""
    script.give(question(1, item=8), {1: {1: place(question(2, item=9))}})
    script.press("n", "q", "Escape", "a")
    kept = script.ids
    assert script.shown == 2
    script.open()
    script.give(question(1, item=8), {1: {1: place(question(2, item=9))}})
    assert (script.shown, script.ids) == (2, kept)
    script.give(question(1, item=8), {1: {1: place(question(2, item=9))}}, acked=kept[1:])
    assert (script.shown, script("written").inner_text()) == (1, "q")
    script.give(question(1, item=8, note="q"), acked=kept)
    assert (script.status, script("written").inner_text()) == ("Saved", "q")


def test_half_a_letter_in_a_note_is_left_out(script):
    """A surrogate pair that crosses the length limit is dropped as a whole, as is an unpaired surrogate."""
    script.give(question(1, item=8), ALL)
    script.press("n")
    script("note-field").evaluate("field => field.value = '\\ud83d' + 'x'.repeat(1998) + '🙂' + '🙂'")
    script.press("Escape")
    assert [event["text"] for event in script.events] == ["x" * 1998]


@pytest.mark.parametrize("how", ["answer", "news", "leave", "gone"])
def test_a_note_half_written_is_kept_however_its_item_goes(script, how):
    """A note in progress is saved once when its item is answered or replaced, the tab is closed or the page is left."""
    script.give(question(1, item=8), {1: {1: place(question(2, item=9))}})
    script.press("n")
    script.page.keyboard.type("half")
    if how == "answer":
        script("button-1").click()
    elif how == "news":
        script.give(question(3, item=7))
    elif how == "leave":
        assert script.page.evaluate("dispatchEvent(new Event('beforeunload', {cancelable: true}))") is False
    else:
        script.page.evaluate("() => { const old = host; old.replaceWith(old.cloneNode()); cleanUps.at(-1)() }")
        assert script.posts == [[[1, "note", None]]]
        script.give(question(1, item=8), ALL)
    script.run(FRAME)
    notes = [(event["item"], event["text"]) for event in script.events if event["action"] == "note"]
    assert notes == [(8, "half")]


def test_guidelines_are_read_while_labeling(script):
    """G or the button opens the guidelines as plain text. Keys still answer, and Escape closes the guidelines."""
    script.give(1, ALL, guidelines=TWO_LINES)
    places = bottoms(script)
    script.press("g")
    assert script("panel").locator(".rules").inner_text() == TWO_LINES
    assert script("guidelines").get_attribute("aria-expanded") == "true"
    assert bottoms(script) == places
    script.press("a", "x")
    assert (script.answers, script("panel").is_visible()) == ([(1, 1), (2, -1)], True)
    script.press("Escape")
    assert script("panel").is_visible() is False
    script("guidelines").click()
    script("panel").get_by_role("button").click()
    assert script("panel").is_visible() is False


def test_without_guidelines_there_is_no_button(script):
    script.give(1, ALL)
    script.press("g")
    assert [script(part).is_visible() for part in ("guidelines", "panel")] == [False, False]
    script.give(1, ALL, guidelines="some")
    script.press("g")
    script.give(1, ALL, guidelines="")
    assert [script(part).is_visible() for part in ("guidelines", "panel")] == [False, False]


def size(script):
    return script("text").evaluate("text => parseFloat(getComputedStyle(text).fontSize)")


def test_the_text_has_five_sizes(script):
    """A+ and A- set the item's text to one of five sizes, and move no other part. A reload keeps the size."""
    script.give(1, ALL)
    places, sizes = bottoms(script), [size(script)]
    script.press("+")
    script("more").click()
    script("larger").click()
    script.press("+", "+")
    assert script("larger").get_attribute("aria-disabled") == "true"
    for _ in range(6):
        sizes.append(size(script))
        script.press("-")
    assert sizes == [sizes[0], *sorted({*sizes}, reverse=True), sizes[-1]]
    assert len({*sizes}) == 5
    assert script("smaller").get_attribute("aria-disabled") == "true"
    assert bottoms(script) == places
    script.open()
    script.give(1, ALL)
    assert size(script) == min(sizes)


def test_preferences_of_a_name_are_kept_by_the_server(script):
    script.give(1, ALL, preferences={"size": 4})
    largest = size(script)
    script.press("h", "-")
    assert [event["changes"] for event in script.events] == [{"highlight": True}, {"size": 3}]
    assert size(script) < largest
    script.press("a")
    assert (script.shown, script.events[-1]["highlighted"]) == (2, True)
    script.give(2, ALL, preferences={"size": 4, "highlight": True}, acked=[script.ids[0], script.ids[2]])
    assert size(script) < largest
    script.give(2, ALL, preferences={"size": 0, "highlight": False}, acked=script.ids)
    assert script("highlight").get_attribute("aria-checked") == "false"
    assert script("smaller").get_attribute("aria-disabled") == "true"


def test_preferences_that_make_no_sense_are_passed_over(script):
    """The card uses its default keys if the stored preferences are invalid."""
    wrong = {"positive": "r", "skip": 7, "negative": "PageDown", "x": "y"}
    unknown = {"positive": "constructor", "negative": ""}
    stored = {"size": 99, "keys": wrong}, {"size": "b", "keys": []}, {"keys": unknown, "highlight": 0}
    for first, preferences in zip((1, 4, 7), stored):
        script.give(first, ALL, preferences=preferences, acked=script.ids)
        script.press("a", "x", " ")
        assert script.answers == [(first, 1), (first + 1, -1), (first + 2, 0)]


# Custom keys


def dialog(script):
    """Open the dialog for choosing keys. Return it."""
    script("more").click()
    script("keys").click()
    return script("keys-dialog")


def choose(script, name, key):
    """In the open dialog, choose `key` for the action `name`. Return the dialog's message."""
    box = script("keys-dialog")
    box.get_by_role("button", name=re.compile(f"^{name}: ")).click()
    script.press(key)
    return box.get_by_role("alert").inner_text()


def printed(script, name):
    return script(name).locator("kbd").inner_text()


def test_keys_are_chosen_and_printed_on_their_buttons(script):
    script.give(1, ALL)
    box = dialog(script)
    assert (choose(script, "Yes", "j"), choose(script, "No", "K"), choose(script, "Skip", "Backspace")) == (
        "", "", "Backspace is the key of Undo already.",
    )  # fmt: skip
    script.press("s")
    script("keys-dialog").get_by_role("button", name="Done").click()
    assert [printed(script, name) for name in ("button-1", "button--1", "skip")] == ["J", "K", "S"]
    assert script("button-1").get_attribute("aria-keyshortcuts") == "J"
    script.open()
    script.give(1, ALL)
    script.press("a", "1", "x", " ")
    assert script.posts == []
    script.press("j", "K", "s")
    assert script.answers == [(1, 1), (2, -1), (3, 0)]
    dialog(script)
    box.get_by_role("button", name="Reset to defaults").click()
    script.press("Escape")
    assert [printed(script, name) for name in ("button-1", "button--1", "skip")] == ["A", "X", "Space"]
    script.press("j", "1")
    assert script.answers[3:] == [(4, 1)]


CLOSE = {
    "Done": "named('Done').click()",
    "Escape": "named('Yes').dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', bubbles: true}))",
}


@pytest.mark.parametrize("way", CLOSE)
def test_the_key_after_the_dialog_of_keys_is_not_lost(script, way):
    """A key pressed right after the dialog for keys is closed, even before the browser repaints, answers the item."""
    script.give(1, ALL)
    dialog(script)
    script.page.evaluate("""close => {
      const named = name => [...document.querySelectorAll("dialog button")].find(
        button => (button.ariaLabel ?? button.textContent).startsWith(name));
      named("Yes").focus();
      eval(close);
      document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "a", code: "KeyA", bubbles: true}));
    }""", CLOSE[way])  # fmt: skip
    assert script.answers == [(1, 1)]


REFUSED = {
    "x": "X is the key of No already.",
    "0": "0 is the key of No already.",
    "g": "G is the key of Guidelines already.",
    "c": "C belongs to Streamlit, which would get it too.",
    "R": "R belongs to Streamlit, which would get it too.",
    "Enter": "This key moves or presses things on the page.",
    "F5": "This key moves or presses things on the page.",
    "ArrowDown": "This key moves or presses things on the page.",
    "Control+k": "A key with Ctrl, Alt or Meta belongs to the browser.",
}


def test_a_key_that_cannot_be_is_refused_with_the_reason(script):
    script.give(1, ALL)
    box = dialog(script)
    box.get_by_role("button", name=re.compile("^Yes: ")).click()
    for key, reason in REFUSED.items():
        script.press(key)
        assert (box.get_by_role("alert").inner_text(), printed(script, "button-1")) == (reason, "A")
    script.press("q")
    assert printed(script, "button-1") == "Q"


def test_no_key_acts_while_the_keys_are_chosen(script):
    """No key labels an item while the dialog is open; Escape cancels the choice of a key, then closes the dialog."""
    script.give(1, ALL, previous=7)
    box = dialog(script)
    script.press("a", "x", "z", "n", "g")
    box.get_by_role("button", name=re.compile("^Yes: ")).click()
    assert box.get_by_role("button", name="Press the new key of Yes").count() == 1
    script.press("Escape")
    assert (box.is_visible(), box.get_by_text("Press a key…").count()) == (True, 0)
    script.press("Escape")
    assert (box.is_visible(), script.posts) == (False, [])
    script.press("a")
    assert script.answers == [(1, 1)]


def test_keys_of_a_name_travel_as_an_event(script):
    """A named person's change of keys sends all their custom keys in one event. A custom key is taken from the action
    that has it by default."""
    classes = [{"label": n, "name": name, "keys": [str(n)]} for n, name in enumerate(("joy", "fear", "grief"), 1)]
    counters = COUNTERS | {"answers": dict.fromkeys("123", 0)}
    here = {n: place(n, counters=counters) for n in range(1, 6)}
    ahead = {n: dict.fromkeys(range(4), here[n + 1]) for n in range(1, 5)}
    script.give(here[1], ahead, classes=classes, preferences={"keys": {"class 1": "h", "positive": "q"}})
    assert [printed(script, f"button-{n}") for n in (1, 2, 3)] == ["H", "2", "3"]
    assert script("highlight").locator("kbd").is_visible() is False
    dialog(script)
    assert choose(script, "grief", "g") == "G is the key of Guidelines already."
    script.press("l")
    script.press("Escape")
    keys = {"class 1": "h", "positive": "q", "class 3": "l"}
    assert [event["changes"] for event in script.events] == [{"keys": keys}]
    script.press("h", "2", "l")
    assert [event["label"] for event in script.events[1:]] == [1, 2, 3]


# The pass over the skipped items


def skipped(*ids, after=0, left=None):
    """Return the server's list of the skipped questions after question `after`. left: how many are still skipped."""
    questions = [question(id, item=id) for id in ids]
    return {"after": after, "left": len(ids) if left is None else left, "questions": questions}


def revisit(script, here, *ids, left=None, **payload):
    """Begin the pass over the skipped items `ids` from the place `here`."""
    script.give(here, ALL, **payload)
    script("offer").click()
    script.give(here, ALL, review=skipped(*ids, left=left), **payload)


def skips(n, labels=2):
    return COUNTERS | {"skipped": n, "labels": labels}


def test_skipped_items_are_answered_once_more(script):
    """In the pass over skipped items, the usual keys answer at once, as corrections. Skipping again sends no event, and
    after the last skipped item the stream continues."""
    here = place(20, counters=skips(3))
    script.give(here, ALL)
    assert script("offer").inner_text() == "3 skipped: answer them now"
    script("offer").click()
    assert script.page.evaluate("reviews") == [0]
    script.give(here, ALL, review=skipped(4, 5, 6))
    assert script.shown == 4
    assert (
        script("why").inner_text() == "You skipped this earlier (3 left). Answering uses one label; skipping is free."
    )
    assert script("skip").locator(".mark").is_visible()
    script.press("a")
    assert script("counters").inner_text().startswith("3 of 9 labels used, 6 left")
    script.press(" ", "x")
    changes = [[event[name] for name in ("action", "question", "label", "was")] for event in script.events]
    assert changes == [["correct", 4, 1, 0], ["correct", 6, -1, 0]]
    assert script("card").get_attribute("class").split().count("waiting") == 1
    assert script.page.evaluate("reviews") == [0, None]
    script.press("a", "x", " ", "z")
    assert len(script.events) == 2
    script.give(place(20, counters=skips(1, labels=4)), ALL, acked=script.ids)
    assert (script.shown, script("offer").inner_text()) == (20, "1 skipped: answer it now")
    script.press("a")
    assert script.answers == [(20, 1)]


def test_undo_in_the_pass_goes_back_in_it(script):
    """In the pass over skipped items, Undo turns an answer back into a skip, with one event. Undo of a repeated skip
    only shows its item again."""
    here = place(20, counters=skips(3))
    revisit(script, here, 4, 5, 6, previous=19)
    assert script("undo").get_attribute("aria-disabled") == "true"
    script.press("a", " ", "z")
    assert (script.shown, len(script.events)) == (5, 1)
    script.press("z")
    assert script.shown == 4
    assert script("why").inner_text().startswith("You skipped this earlier (3 left).")
    changes = [[event[name] for name in ("question", "label", "was")] for event in script.events]
    assert changes == [[4, 1, 0], [4, 0, 1]]
    assert script("counters").inner_text().startswith("2 of 9 labels used, 7 left")
    script.press("z")
    assert len(script.events) == 2


def test_the_pass_goes_on_while_its_answers_are_acknowledged(script):
    """The pass over skipped items does not wait for acknowledgements. After Undo the previous item is shown at once,
    before the server has received the undo."""
    here = place(20, counters=skips(3))
    revisit(script, here, 4, 5, 6)
    script.press("a", "x")
    answered = script.ids
    script.give(place(20, counters=skips(1, labels=4)), ALL, review=skipped(6), acked=answered)
    assert (script.shown, script("why").inner_text()[:34]) == (6, "You skipped this earlier (1 left).")
    script.press("z")
    assert (script.shown, script("why").inner_text()[:34]) == (5, "You skipped this earlier (2 left).")
    script.give(place(20, counters=skips(1, labels=4)), ALL, review=skipped(6), acked=answered)
    assert (script.shown, script("why").inner_text()[:34]) == (5, "You skipped this earlier (2 left).")
    script.give(place(20, counters=skips(2, labels=3)), ALL, review=skipped(5, 6), acked=[*answered, *script.ids])
    assert (script.shown, script("why").inner_text()[:34]) == (5, "You skipped this earlier (2 left).")
    script.press(" ", "a")
    assert script.events[-1]["question"] == 6
    assert script.page.evaluate("reviews.at(-1)") is None


def test_the_pass_can_be_left_at_any_time(script):
    here = place(20, counters=skips(3))
    for leave in (lambda: script.press("Escape"), lambda: script("offer").click()):
        script.give(here, ALL)
        script("offer").click()
        script.press("a")
        assert script.posts == []
        script.give(here, ALL, review=skipped(4, 5, 6))
        assert (script.shown, script("offer").inner_text()) == (4, "Back to the stream")
        leave()
        script.run(FRAME)
        assert (script.shown, script.page.evaluate("reviews.at(-1)")) == (20, None)
    script.press("a")
    assert script.answers == [(20, 1)]


def test_the_pass_asks_for_more_before_it_runs_out(script):
    here = place(20, counters=skips(9))
    revisit(script, here, 1, 2, 3, 4, left=9)
    script.press(" ", " ")
    assert script.page.evaluate("reviews") == [0, 2]
    script.press(" ", " ")
    assert script("card").get_attribute("class").split().count("waiting") == 1
    script.give(here, ALL, review=skipped(3, 4, 5, 6, after=2, left=7))
    assert script.shown == 5
    assert script("why").inner_text().startswith("You skipped this earlier (5 left).")


def test_the_pass_ends_with_the_budget(script):
    """The pass over skipped items leaves the last label to the waiting item, and is not offered if no label is left."""
    here = place(20, counters=skips(3, labels=7))
    revisit(script, here, 4, 5, 6)
    script.press("a", "a")
    assert [event["question"] for event in script.events] == [4]
    script.give(place(20, counters=skips(2, labels=8)), acked=script.ids)
    assert (script.shown, script("offer").is_visible()) == (20, False)
    script.give(place(None, end="stream", counters=skips(2, labels=8)))
    assert script("offer").is_visible()
    script.give(place(None, end="budget", counters=skips(2, labels=9)))
    assert script("offer").is_visible() is False


def test_an_answer_of_the_pass_outlives_a_reload(script):
    """An unacknowledged answer from the pass over skipped items is sent again after a reload, and no item can be
    answered until the server has stored it."""
    here = place(20, counters=skips(2))
    revisit(script, here, 4, 5)
    script.press("a")
    kept = script.ids
    script.open()
    script.give(here, ALL)
    assert (script.shown, script.ids) == (20, kept)
    script.press("a")
    assert script.ids == kept
    script.give(20, ALL, acked=kept)
    script.press("a")
    assert script.answers == [(20, 1)]
