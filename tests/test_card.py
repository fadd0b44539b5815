"""The labeling card alone, in a real browser: payloads and the clock by hand, what it would send in a list."""

import re

import pytest
from browser import MARKUP, listeners

from ui.card import SCRIPTS
from ui.component import text

CLASSES = [{"label": 1, "name": "Yes", "keys": ["a", "1"]}, {"label": -1, "name": "No", "keys": ["x", "0"]}]
COUNTERS = {
    "labels": 2, "budget": 9, "answers": {"1": 1, "-1": 1}, "skipped": 0, "streamed": 5, "stream": 1000, "pushed": 3,
}  # fmt: skip
ADDRESS = "http://card.test/"
FRAME = 50  # ms by the card's clock, more than a paint takes
THEME = ("background", "text", "primary", "orange", "red-text")
HTML = """<style>:root { %s } %s</style>
<input id=field><textarea id=area></textarea><select id=select><option>a<option>x</select>
<div id=editable contenteditable></div><div id=textbox role=textbox tabindex=0></div><div id=shadow></div>
<button id=button onclick="window.clicked = (window.clicked ?? 0) + 1">Other</button><input id=box type=checkbox>
<a id=here href="?session=2" data-testid=stPageLink-NavLink onclick="event.preventDefault()">This page</a>
<a id=there href="Data?session=1" data-testid=stPageLink-NavLink onclick="event.preventDefault()">Another page</a>
<script>
  shadow.attachShadow({mode: "open"}).innerHTML = "<input>";
  const mounts = [];
</script><div id=host></div>"""
MOUNT = """async script => {
  const {default: mount} = await import(URL.createObjectURL(new Blob([script], {type: "text/javascript"})));
  window.sent = [];
  window.cleanUps = [];
  window.reviews = [];
  window.give = data => cleanUps.push(mount({data, parentElement: host, setStateValue: (name, value) =>
    ({events: sent, review: reviews})[name].push(structuredClone(value))}));
}"""


def question(id, **changes):
    about = {"id": id, "number": id, "parts": [[f"item {id}", 0]], "features": None, "title": None, "why": "w"}
    return about | {"old": None} | changes


def place(asked, **changes):
    """A place by its question, the question's id, or None for an end."""
    asked = question(asked) if isinstance(asked, int) else asked
    about = {"question": asked, "end": None, "counters": COUNTERS, "result": None}
    return asked if asked and "counters" in asked else about | changes


class Script:
    """The card on an otherwise empty page whose clock stands still unless it is told to run."""

    def __init__(self, page):
        self.page = page
        self.page.goto(ADDRESS)
        self.page.evaluate("localStorage.clear(); sessionStorage.clear()")
        self.open()

    def open(self):
        """Load the page, once more as after a reload."""
        self.page.goto(ADDRESS)
        self.page.evaluate(MOUNT, text(SCRIPTS))

    def give(self, here, branches=(), **changes):
        """The server's next payload, painted."""
        self.hand(here, branches, **changes)
        self.run(FRAME)

    def hand(self, here, branches=(), **changes):
        """The server's next payload, not painted yet."""
        ahead = {
            str(id): {str(label): place(then) for label, then in outcomes.items()}
            for id, outcomes in dict(branches).items()
        }
        about = {"boot": "b", "session": 1, "acked": [], "error": None, "classes": CLASSES, "previous": None}
        about |= {"place": place(here), "branches": ahead} | changes
        self.page.evaluate("data => { give(data) }", about)

    def run(self, ms):
        """Let the clock run."""
        self.page.clock.run_for(ms)

    def press(self, *keys):
        """Press keys one after another, with a paint after each."""
        for key in keys:
            self.page.keyboard.press(key)
            self.run(FRAME)

    def hold(self, key, times=5):
        """Hold a key so long that it repeats, with a paint after each repetition."""
        for _ in range(times):
            self.page.keyboard.down(key)
            self.run(FRAME)
        self.page.keyboard.up(key)

    def dispatch(self, **event):
        """A key event that Playwright's keyboard cannot make."""
        script = """event => { document.body.dispatchEvent(new KeyboardEvent("keydown",
          {bubbles: true, composed: true, cancelable: true, ...event})) }"""
        self.page.evaluate(script, event)
        self.run(FRAME)

    def __call__(self, name):
        return self.page.get_by_test_id(f"oal-{name}")

    @property
    def posts(self):
        """All that was sent: lists of (question, action, label)."""
        return self.page.evaluate("sent.map(events => events.map(e => [e.question, e.action, e.label]))")

    @property
    def events(self):
        """The events sent last."""
        return self.page.evaluate("sent.at(-1) ?? []")

    @property
    def answers(self):
        """The events sent last as (question, label), a skip as (question, 0)."""
        return [(event["question"], {"skip": 0}.get(event["action"], event["label"])) for event in self.events]

    @property
    def ids(self):
        return [event["id"] for event in self.events]

    @property
    def shown(self):
        """The number of the item on the screen."""
        return int(self("text").inner_text().removeprefix("item "))

    @property
    def status(self):
        return self("status").inner_text()


@pytest.fixture(scope="module")
def page(browser):
    """A page with the look of the card and nothing else, whose clock stands still."""
    style = " ".join(f"--st-{name}-color: rgb(9 9 {k});" for k, name in enumerate(THEME))
    body = HTML % (style, text(["card.css"]))
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


ALL = {n: {1: n + 1, -1: n + 1, 0: n + 1} for n in range(1, 12)}  # every answer to n brings n + 1


# What is on the screen


@pytest.mark.parametrize(("key", "answer", "following"), [("a", 1, 2), ("x", -1, 3), (" ", 0, 4)])
def test_an_answer_paints_its_own_branch_at_once(script, key, answer, following):
    """The next item under the answer given is shown before the server has said a word."""
    counters = {label: COUNTERS | {"labels": 3 + label} for label in (1, -1, 0)}
    ahead = {label: place(n, counters=counters[label]) for label, n in ((1, 2), (-1, 3), (0, 4))}
    script.give(1, {1: ahead})
    script.press(key)
    assert script.shown == following
    assert script.answers == [(1, answer)]
    assert script("counters").inner_text().startswith(f"{3 + answer} of 9 labels used, {6 - answer} left")


def test_a_key_before_the_paint_labels_nothing(script):
    """Nobody answers an item that was not on the screen yet."""
    script.hand(1, ALL)
    script.page.keyboard.type("ax1 ")
    assert script.posts == []
    script.run(FRAME)
    script.page.keyboard.type("ax1 ")
    assert script.answers == [(1, 1)]


def test_an_older_payload_throws_nobody_back(script):
    """What the server says of a time before the answers it has not acknowledged changes nothing on the screen."""
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
    """A place prepared before an answer was taken back is not shown after it."""
    script.give(1, {1: {1: 2}})
    script.press("a")
    script.give(1, acked=script.ids)
    script.press("a")
    assert script.shown == 1
    assert script.answers == [(1, 1)]


def test_the_same_question_is_never_painted_again(script):
    """A payload about the item on the screen leaves its text, the scroll and the time of its paint alone."""
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
    """Until the server says what comes next the item stays, marked as waiting, and takes no further answer."""
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
    """The status does not flicker at every label, while data-unsaved changes at once."""
    script.give(1, ALL)
    script.press("a")
    assert (script.status, script("card").get_attribute("data-unsaved")) == ("Saved", "1")
    script.run(300)
    assert script.status == "unsaved 1"
    script.give(2, ALL, acked=script.ids)
    assert (script.status, script("card").get_attribute("data-unsaved")) == ("Saved", "0")


def test_an_error_stays_until_the_next_answer(script):
    """The server's sentence is shown as it is, and an answer makes room for what comes of it."""
    script.give(1, ALL, error="Not stored: somebody was faster.")
    script.run(60_000)
    assert script.status == "Not stored: somebody was faster."
    script.press("a")
    script.run(300)
    assert script.status == "unsaved 1"


@pytest.mark.parametrize(("old", "marked"), [(1, "button-1"), (-1, "button--1"), (0, "skip"), (None, None)])
def test_an_earlier_answer_is_marked_on_its_button(script, old, marked):
    """An item that came back says what was answered, on that button and no other."""
    script.give(question(1, old=old))
    for button in ("button-1", "button--1", "skip", "undo"):
        assert script(button).locator(".mark").is_visible() == (button == marked)


@pytest.mark.parametrize(("end", "sentence"), [
    ("budget", "The budget of 9 labels is spent"), ("stream", "The stream has ended"),
    (None, "There is nothing to label now"),
])  # fmt: skip
def test_at_the_end_only_undo_is_left(script, end, sentence):
    """The end says why and where the result is; no key answers, and the last answer can be taken back."""
    script.give(place(None, end=end, result="Sum 0.9."), previous=4)
    assert script("text").locator("p").all_inner_texts() == [sentence, "Sum 0.9."]
    assert script("card").get_attribute("data-question") == ""
    script.press("a", "x", " ", "1", "0")
    script("button-1").dispatch_event("click")
    assert script.posts == []
    script.press("z")
    assert script.posts == [[[4, "undo", None]]]


def test_untrusted_text_is_shown_as_it_is_written(script):
    """No word of the data becomes an element, wherever the card shows it."""
    words = MARKUP + "<b>b</b><script>window.pwned=1</script>&amp;"
    classes = [{"label": label, "name": f"{words} {label}", "keys": [key]} for label, key in ((1, "a"), (-1, "x"))]
    asked = question(1, parts=[[words, 0], [words, 0.5]], features=[[words, words, -0.5]], title=words, why=words)
    script.give(asked, classes=classes, error=words, previous=7)
    seen = script("card").evaluate("card => card.textContent")
    assert seen.count(words) == 2 + 2 + 1 + 1 + 1 + 2 * 2  # text, feature, title, why, error, classes twice
    script.give(place(None, end="budget", result=words), classes=classes)
    assert words in script("text").inner_text()
    script.run(1000)
    assert script("card").locator("img, script, b, em, a, svg").count() == 0
    assert script.page.evaluate("window.pwned") is None


def test_the_highlight_is_off_at_first_and_remembered(script):
    """What the model thinks is shown on demand only, by key or by click, and stays so after a reload."""
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
    script("highlight").click()
    assert (grounds(), script("highlight").get_attribute("aria-checked")) == (plain, "false")
    assert script.posts == []


# What a key means


def test_the_keys_of_two_classes(script):
    """A and 1, X and 0, each in either case, and Space."""
    script.give(1, ALL)
    for n, key in enumerate(["a", "1", "A", "Shift+A", "x", "0", "X", " "], 1):
        script.press(key)
        script.give(n + 1, ALL, acked=script.ids, previous=n)
    posted = [answer for (answer,) in script.posts]
    labels = [1, 1, 1, 1, -1, -1, -1]
    assert posted == [[n, "label", label] for n, label in enumerate(labels, 1)] + [[8, "skip", None]]


def test_many_classes_have_keys_of_their_own(script):
    """Each class has its button and its keys, as the payload says."""
    names = ["joy", "anger", "fear", "sadness", "surprise", "disgust", "neutral"]
    classes = [{"label": n, "name": name, "keys": [str(n), "qwertyu"[n - 1]]} for n, name in enumerate(names, 1)]
    counters = COUNTERS | {"answers": dict.fromkeys("1234567", 0)}
    places = {n: place(n, counters=counters) for n in range(1, 21)}
    script.give(places[1], {n: dict.fromkeys(range(8), places[n + 1]) for n in range(1, 20)}, classes=classes)
    script.press(*"1234567", *"qwertyu")
    assert [event["label"] for event in script.events] == [*range(1, 8), *range(1, 8)]
    assert [script(f"button-{n}").locator(".name").inner_text() for n in range(1, 8)] == names
    script.press("a", "x")
    assert len(script.events) == 14


def test_many_classes_are_counted_on_their_buttons(script):
    """More classes than have a place in the line of counters tell how often each was given; none is the rare one."""
    classes = [{"label": n, "name": f"class {n}", "keys": []} for n in range(1, 12)]
    counters = COUNTERS | {"answers": {str(n): n * 1000 for n in range(1, 12)}, "pushed": None}
    script.give(place(1, counters=counters), classes=classes)
    assert [script(f"button-{n}").locator(".count").inner_text() for n in (1, 11)] == ["1,000", "11,000"]
    assert script("counters").locator("dt").all_inner_texts() == ["skipped", "of 1,000 streamed"]
    colors = [script(f"button-{n}").evaluate("button => getComputedStyle(button).backgroundColor") for n in (1, 2)]
    assert colors[0] == colors[1]


def test_keys_of_a_cyrillic_keyboard(script):
    """Where A and X print other letters, the keys in their places answer."""
    script.give(1, ALL)
    script.dispatch(key="ф", code="KeyA")
    script.dispatch(key="ч", code="KeyX")
    assert script.answers == [(1, 1), (2, -1)]


@pytest.mark.parametrize("field", ["#field", "#area", "#select", "#editable", "#textbox", "#shadow input"])
def test_keys_typed_in_a_field_are_text(script, field):
    """Writing a note is not labeling."""
    script.give(1, ALL, previous=7)
    script.page.locator(field).focus()
    script.press(*"ax10zh ", "Backspace")
    assert script.posts == []
    assert script("highlight").get_attribute("aria-checked") == "false"
    script.page.evaluate("document.activeElement.blur()")
    script.press("a")
    assert script.answers == [(1, 1)]


@pytest.mark.parametrize("dialog", ["<dialog open>", "<p role=dialog>", "<p role=alertdialog>", "<p aria-modal=true>"])
def test_keys_before_a_dialog_are_not_answers(script, dialog):
    """What lies behind a dialog takes no keys until it is gone."""
    script.give(1, ALL, previous=7)
    script.page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", dialog)
    script.press(*"ax z")
    assert script.posts == []
    script.page.evaluate("document.body.lastElementChild.remove()")
    script.press("a")
    assert script.answers == [(1, 1)]


def test_keys_with_modifiers_and_of_an_input_method_are_not_answers(script):
    """Select all, or a letter on its way to become a Chinese one, labels nothing; nor does what a page has taken."""
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
    """However long a key is down, one answer is given or taken back."""
    script.give(1, ALL, previous=7)
    script.hold(key)
    assert len(script.events) == 1


def test_space_and_enter_press_the_focused_button_once(script):
    """A button with the focus is pressed by Space and Enter, held or not, and Space skips nothing beside it."""
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
    """Space skips after a click on a class, too."""
    script.give(1, ALL)
    script("button-1").click()
    script.run(FRAME)
    script.press(" ")
    assert script.answers == [(1, 1), (2, 0)]


def test_a_double_click_answers_once_and_deliberate_clicks_each(script):
    """The second click of a double click is not meant for the item it falls on; one half a second later is."""
    script.give(1, ALL)
    script("button-1").click()
    mouse = script.page.mouse
    for wait, answers in ((0, 1), (FRAME, 1), (600, 2)):
        script.run(wait)
        mouse.down(click_count=2)
        mouse.up(click_count=2)
        assert len(script.events) == answers


def test_arrow_keys_scroll_a_long_text(script):
    """The keyboard reaches the end of an item."""
    script.give(question(1, parts=[["word " * 3000, 0]]), ALL)
    script.press("ArrowDown", "PageDown", "ArrowUp")
    assert script("text").evaluate("text => text.scrollTop") == 28 * (3 + 12 - 3)


# What the server gets


def test_an_event_says_what_was_answered_and_how_long_it_took(script):
    """A random id, the question, the action, the label, the tenths of a second since the paint, and whether terms were
    highlighted."""
    script.give(1, ALL)
    script.run(1200)
    script.press("a", " ")
    first, second = script.events
    answered = {"id": "", "question": 1, "action": "label", "label": 1}
    assert first | {"id": ""} == answered | {"seconds": 1.2, "highlighted": False}
    assert (second["action"], second["label"], second["seconds"]) == ("skip", None, 0)
    assert all(len(id) == 32 and int(id, 16) for id in script.ids)
    assert first["id"] != second["id"]


def test_what_is_not_acknowledged_is_sent_again_ever_more_slowly(script):
    """After 2, 4, 8, 16 and then every 30 seconds, the same events, until the server acknowledges them."""
    script.give(1, ALL)
    script.press("a")
    (kept,), counts = script.ids, [1]
    for _ in range(125):
        script.run(1000)
        counts.append(len(script.posts))
    again = [second for second in range(1, 126) if counts[second] > counts[second - 1]]
    assert again == [2, 6, 14, 30, 60, 90, 120]
    assert script.ids == [kept]
    script.press("x")
    script.run(2000)
    assert len(script.posts) == counts[-1] + 2
    script.give(3, acked=script.ids)
    script.run(120_000)
    assert len(script.posts) == counts[-1] + 2


def test_a_new_server_gets_what_the_old_one_did_not_acknowledge(script):
    """Another boot is sent all that is pending at once; the same boot is not."""
    script.give(1, ALL)
    script.press("a", "x")
    kept = script.ids
    script.give(1, ALL)
    assert len(script.posts) == 2
    script.give(1, ALL, boot="c")
    assert len(script.posts) == 3
    assert script.ids == kept
    script.give(2, ALL, boot="d", acked=kept[:1])
    assert script.answers == [(2, -1)]


def test_what_is_not_acknowledged_outlives_a_reload(script):
    """The same event goes out again when the page is back, and the item after it is shown."""
    script.give(1, ALL)
    script.press("a")
    kept = script.ids
    script.open()
    script.give(1, ALL)
    assert (script.shown, script.ids, len(script.posts)) == (2, kept, 1)
    script.give(2, ALL, acked=kept)
    script.open()
    script.give(2, ALL)
    assert (script.shown, script.posts) == (2, [])


def test_answers_of_one_session_are_not_sent_to_another(script):
    """Another session in the same place has its own card, and finds its own answers when it comes back."""
    script.give(1, ALL)
    script.press("a")
    kept = script.ids
    script.give(10, ALL, session=2)
    assert (script("card").count(), script.shown, len(script.posts)) == (1, 10, 1)
    script.press("x")
    assert script.answers == [(10, -1)]
    script.give(1, ALL)
    assert (script.shown, script.ids) == (2, kept)


def test_a_browser_that_forbids_storage_still_labels(script):
    """Only a reload would forget then."""
    forbid = "() => { Storage.prototype.setItem = Storage.prototype.getItem = () => { throw Error('forbidden') } }"
    script.page.evaluate(forbid)
    script.give(1, ALL)
    script.press("a", "h", "x")
    assert script.answers == [(1, 1), (2, -1)]


def test_leaving_the_page_warns_while_something_is_unsaved(script):
    """The browser asks before it closes the tab with an unsaved answer, and only then."""
    leave = "dispatchEvent(new Event('beforeunload', {cancelable: true}))"
    script.give(1, ALL)
    assert script.page.evaluate(leave) is True
    script.press("a")
    assert script.page.evaluate(leave) is False
    script.give(2, ALL, acked=script.ids)
    assert script.page.evaluate(leave) is True


def test_a_page_that_is_being_left_sends_nothing(script):
    """Between the click on a link and the other page nothing goes to the server, which would empty that page; a page
    that never comes keeps nothing from being sent."""
    script.give(1, ALL)
    script.page.locator("#here").click()
    script.press("a")
    assert [[[1, "label", 1]]] == script.posts
    script.page.locator("#there").click()
    script.press("a")
    script.run(20_000)
    assert 1 == len(script.posts)
    script.run(30_000)
    assert [[1, "label", 1], [2, "label", 1]] == script.posts[1]


def test_undo_names_the_last_answer(script):
    """The server's last one, or the one that it has not acknowledged yet, skips included; none where there is none."""
    script.give(5, ALL, previous=4)
    script.press("z")
    assert script.posts[-1] == [[4, "undo", None]]
    script.give(4, ALL, acked=script.ids)
    assert script("undo").get_attribute("aria-disabled") == "true"
    script.press("z", "Backspace")
    script("undo").dispatch_event("click")
    assert len(script.posts) == 1
    script.press(" ", "Backspace")
    assert script.posts[-1] == [[4, "skip", None], [4, "undo", None]]


def test_undo_waits_on_the_text_it_was_pressed_at(script):
    """What comes back is the server's to say: until then the item stays, and keys do nothing."""
    script.give(5, ALL, previous=4)
    script.press("z", "z", "a", "x", " ")
    script.run(300)
    assert (script.shown, script.posts) == (5, [[[4, "undo", None]]])
    assert script.status == "unsaved 1 · Taking back…"
    script.give(question(4, old=1), ALL, acked=script.ids)
    assert (script.shown, script.status) == (4, "Saved")


def test_undo_right_after_an_answer_goes_to_the_server_in_order(script):
    """An answer and its undo are both sent, and the item comes back with the acknowledgement of both."""
    script.give(1, ALL)
    script.press("a", "z")
    assert script.posts[-1] == [[1, "label", 1], [1, "undo", None]]
    answer, undo = script.ids
    script.give(2, ALL, acked=[answer], previous=1)
    assert script.shown == 2
    script.give(question(1, old=1), ALL, acked=[answer, undo])
    assert script.shown == 1
    assert script("button-1").locator(".mark").is_visible()


# What lies around the item

TWO_LINES = "Speak of a product.\n**not** <b>adverts</b>"


def bottoms(script):
    """Where the parts of the card end that a hand knows by heart."""
    return [script(part).bounding_box() for part in ("button-1", "button--1", "skip", "undo", "counters")]


@pytest.mark.parametrize("key", ["Escape", "Control+Enter", "Meta+Enter"])
def test_a_note_is_written_under_the_text_and_kept(script, key):
    """N opens a field in which every key is text; the note is an event of its own about the item, then shown."""
    script.give(question(1, item=8), ALL)
    places = bottoms(script)
    script.press("n")
    script.page.keyboard.type("ax10 zhgncr-+")
    assert bottoms(script) == places
    assert script.posts == []
    script.press(key)
    assert script.events == [{"id": script.ids[0], "question": 1, "item": 8, "action": "note", "text": "ax10 zhgncr-+"}]
    assert (script("written").inner_text(), script("note-field").is_visible()) == ("ax10 zhgncr-+", False)
    assert bottoms(script) == places
    script.press("x")
    assert [event["action"] for event in script.events] == ["note", "label"]
    assert script("written").is_visible() is False


def test_a_key_of_a_note_is_nobody_elses(script):
    """The page around the card, which would run again at R, hears nothing of what is typed."""
    script.page.evaluate("""() => {
      window.heard = [];
      for (const kind of ["keydown", "keypress", "keyup"]) addEventListener(kind, ({key}) => heard.push(key));
    }""")
    script.give(question(1, item=8), ALL)
    script.page.evaluate("heard.length = 0")
    script.press("n", "r", "c", "Escape", "n", "q", "Control+Enter")
    script("keys").click()
    script.press("c", "Escape")
    assert not {"r", "c", "q"} & {*script.page.evaluate("heard")}


def test_a_note_is_changed_and_taken_away(script):
    """What is there is in the field; the same again is no event, nothing at all takes the note away."""
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
    """A candidate that is turned down is not the end of the note."""
    script.give(question(1, item=8), ALL)
    script.press("n")
    script("note-field").evaluate(
        "field => field.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', isComposing: true, bubbles: true}))"
    )
    assert script("note-field").is_visible()


def test_a_note_delays_no_answer_and_outlives_a_reload(script):
    """Unacknowledged notes are sent again in their place among the answers, and are shown until then."""
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


@pytest.mark.parametrize("how", ["answer", "news", "leave", "gone"])
def test_a_note_half_written_is_kept_however_its_item_goes(script, how):
    """An answer by mouse, another item from the server, a closed tab and another page save what was typed, once."""
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
        assert script.posts == []
        script.give(question(1, item=8), ALL)
    script.run(FRAME)
    notes = [(event["item"], event["text"]) for event in script.events if event["action"] == "note"]
    assert notes == [(8, "half")]


def test_guidelines_are_read_while_labeling(script):
    """G and the button open them as plain text; the keys go on answering, and Escape closes them."""
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
    """Neither the button nor the key opens an empty panel; what is taken away while it is open closes it."""
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
    """A+ and A- change the item's text, no further than the largest and the smallest, and nothing else moves."""
    script.give(1, ALL)
    places, sizes = bottoms(script), [size(script)]
    script.press("+")
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
    """Somebody with a name finds them on another machine: a change is an event, and the payload carries them all."""
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


@pytest.mark.parametrize("nonsense", [
    {"size": 99, "keys": {"positive": "r", "skip": 7, "negative": "PageDown", "x": "y"}}, {"size": "b", "keys": []},
    {"keys": {"positive": "constructor", "negative": ""}, "highlight": 0},
])  # fmt: skip
def test_preferences_that_make_no_sense_are_passed_over(script, nonsense):
    """Whatever was stored, the card has its keys."""
    script.give(1, ALL, preferences=nonsense)
    script.press("a", "x", " ")
    assert script.answers == [(1, 1), (2, -1), (3, 0)]


# Keys of one's own


def dialog(script):
    """Open the dialog of the keys."""
    script("keys").click()
    return script("keys-dialog")


def choose(script, name, key):
    """Give an action another key; what the dialog says of it."""
    box = script("keys-dialog")
    box.get_by_role("button", name=re.compile(f"^{name}: ")).click()
    script.press(key)
    return box.get_by_role("alert").inner_text()


def printed(script, name):
    return script(name).locator("kbd").inner_text()


def test_keys_are_chosen_and_printed_on_their_buttons(script):
    """The new key acts, the old ones do nothing, and reset brings them back; kept after a reload."""
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
    """It acts before the browser has painted that the dialog is gone."""
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


@pytest.mark.parametrize(("key", "reason"), [
    ("x", "X is the key of No already."), ("0", "0 is the key of No already."),
    ("g", "G is the key of Guidelines already."),
    ("c", "C belongs to Streamlit, which would get it too."), ("R", "R belongs to Streamlit, which would get it too."),
    ("Enter", "This key moves or presses things on the page."), ("F5", "This key moves or presses things on the page."),
    ("ArrowDown", "This key moves or presses things on the page."),
    ("Control+k", "A key with Ctrl, Alt or Meta belongs to the browser."),
])  # fmt: skip
def test_a_key_that_cannot_be_is_refused_with_the_reason(script, key, reason):
    """A conflict changes nothing, and another key can be pressed right away."""
    script.give(1, ALL)
    dialog(script)
    assert choose(script, "Yes", key) == reason
    assert printed(script, "button-1") == "A"
    script.press("q")
    assert printed(script, "button-1") == "Q"


def test_no_key_acts_while_the_keys_are_chosen(script):
    """Behind the dialog nothing is labelled; Escape turns down a choice first, and closes then."""
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
    """All of its own keys in one change; a chosen key is no longer another action's default."""
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


# The skipped items once more


def skipped(*ids, after=0, left=None):
    """What the server tells of the skipped questions after one."""
    questions = [question(id, item=id, guess={"label": 1, "score": "0.4"}) for id in ids]
    return {"after": after, "left": len(ids) if left is None else left, "questions": questions}


def skips(n, labels=2):
    return COUNTERS | {"skipped": n, "labels": labels}


def test_skipped_items_are_answered_once_more(script):
    """The same keys answer them as corrections, without waiting; skip again is no event; then the stream goes on."""
    here = place(20, counters=skips(3))
    script.give(here, ALL)
    assert script("offer").inner_text() == "3 skipped: answer them now"
    script("offer").click()
    assert script.page.evaluate("reviews") == [0]
    script.give(here, ALL, review=skipped(4, 5, 6))
    assert script.shown == 4
    assert script("why").inner_text() == "Skipped earlier, 3 left. An answer costs one label, skip again costs none."
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
    """An answer taken back is a skip again, for one more event; a skip that stood is just shown again."""
    here = place(20, counters=skips(3))
    script.give(here, ALL, previous=19)
    script("offer").click()
    script.give(here, ALL, previous=19, review=skipped(4, 5, 6))
    assert script("undo").get_attribute("aria-disabled") == "true"
    script.press("a", " ", "z")
    assert (script.shown, len(script.events)) == (5, 1)
    script.press("z")
    assert script.shown == 4
    assert script("why").inner_text().startswith("Skipped earlier, 3 left.")
    changes = [[event[name] for name in ("question", "label", "was")] for event in script.events]
    assert changes == [[4, 1, 0], [4, 0, 1]]
    assert script("counters").inner_text().startswith("2 of 9 labels used, 7 left")
    script.press("z")
    assert len(script.events) == 2


def test_the_pass_goes_on_while_its_answers_are_acknowledged(script):
    """The server stops counting what was answered; an answer taken back is shown although it has not heard of it."""
    here = place(20, counters=skips(3))
    script.give(here, ALL)
    script("offer").click()
    script.give(here, ALL, review=skipped(4, 5, 6))
    script.press("a", "x")
    answered = script.ids
    script.give(place(20, counters=skips(1, labels=4)), ALL, review=skipped(6), acked=answered)
    assert (script.shown, script("why").inner_text()[:24]) == (6, "Skipped earlier, 1 left.")
    script.press("z")
    assert (script.shown, script("why").inner_text()[:24]) == (5, "Skipped earlier, 2 left.")
    script.give(place(20, counters=skips(1, labels=4)), ALL, review=skipped(6), acked=answered)
    assert (script.shown, script("why").inner_text()[:24]) == (5, "Skipped earlier, 2 left.")
    script.give(place(20, counters=skips(2, labels=3)), ALL, review=skipped(5, 6), acked=[*answered, *script.ids])
    assert (script.shown, script("why").inner_text()[:24]) == (5, "Skipped earlier, 2 left.")
    script.press(" ", "a")
    assert script.events[-1]["question"] == 6
    assert script.page.evaluate("reviews.at(-1)") is None


def test_the_pass_can_be_left_at_any_time(script):
    """Escape and the button go back to the item that waited, whose text was kept from no paint."""
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
    """Where more were skipped than are known, the server is told how far the pass is."""
    here = place(20, counters=skips(9))
    script.give(here, ALL)
    script("offer").click()
    script.give(here, ALL, review=skipped(1, 2, 3, 4, left=9))
    script.press(" ", " ")
    assert script.page.evaluate("reviews") == [0, 2]
    script.press(" ", " ")
    assert script("card").get_attribute("class").split().count("waiting") == 1
    script.give(here, ALL, review=skipped(3, 4, 5, 6, after=2, left=7))
    assert script.shown == 5
    assert script("why").inner_text().startswith("Skipped earlier, 5 left.")


def test_the_pass_ends_with_the_budget(script):
    """The last label is for the item that waits; without another one nothing is offered."""
    here = place(20, counters=skips(3, labels=7))
    script.give(here, ALL)
    script("offer").click()
    script.give(here, ALL, review=skipped(4, 5, 6))
    script.press("a", "a")
    assert [event["question"] for event in script.events] == [4]
    script.give(place(20, counters=skips(2, labels=8)), acked=script.ids)
    assert (script.shown, script("offer").is_visible()) == (20, False)
    script.give(place(None, end="stream", counters=skips(2, labels=8)))
    assert script("offer").is_visible()
    script.give(place(None, end="budget", counters=skips(2, labels=9)))
    assert script("offer").is_visible() is False


def test_an_answer_of_the_pass_outlives_a_reload(script):
    """The correction is sent again, and the stream waits until the server has it."""
    here = place(20, counters=skips(2))
    script.give(here, ALL)
    script("offer").click()
    script.give(here, ALL, review=skipped(4, 5))
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


# What the model thought


def test_the_score_is_told_after_the_answer(script):
    """Nothing of it is on the screen before; afterwards the model's class, its score, and whether it was the same."""
    asked = [question(n, guess={"label": -1, "score": "-0.42"}) for n in range(1, 5)]
    script.give(asked[0], {n: dict.fromkeys((1, -1, 0), place(asked[n])) for n in (1, 2, 3)}, previous=9)
    assert "0.42" not in script("card").evaluate("card => card.outerHTML")
    told = []
    for key in ("a", "x", " "):
        script.press(key)
        told.append(script("said").inner_text())
    model = "The model said No (score -0.42)"
    assert told == [f"{model}, and you disagreed.", f"{model}, and you agreed.", f"{model}."]
    script.press("z")
    assert script("said").inner_text() == ""


def test_a_model_without_an_opinion_is_not_quoted(script):
    """Where the score is nothing, nothing is said."""
    script.give(question(1, guess=None), ALL)
    script.press("a")
    assert script("said").inner_text() == ""


# All kinds of text


def test_each_paragraph_has_the_direction_of_its_own_words(script):
    """Arabic and Hebrew begin at the right, English at the left, also within one item; whitespace stays."""
    script.give(question(1, parts=[["שלום\nplain\n\tindented", 0]]))
    found = script("text").evaluate("""text => {
      const range = document.createRange(), node = text.firstChild, box = text.getBoundingClientRect();
      return [[0, 4], [5, 10], [12, 20]].map(([start, end]) => {
        range.setStart(node, start);
        range.setEnd(node, end);
        const {left, right} = range.getBoundingClientRect();
        return [left - box.left, box.right - right];
      });
    }""")
    (far, near), (left, _), (indented, _) = found
    assert near < 30 < far
    assert left < 30 < indented


@pytest.mark.parametrize(("empty", "sentence"), [
    ({"parts": []}, "This item has no text."), ({"parts": [[" \n\t", 0]]}, "This item has no text."),
    ({"parts": [], "features": []}, "This item has no values."),
])  # fmt: skip
def test_an_empty_item_says_so(script, empty, sentence):
    """Nobody wonders whether the page is broken."""
    script.give(question(1, title=" ", **empty), ALL)
    assert script("text").inner_text() == sentence
    assert script("card").locator(".title").inner_text() == "#1"
    script.press("a")
    assert script.answers == [(1, 1)]


@pytest.mark.parametrize("parts", [[["word " * 20, 0], ["term", 0.5]] * 1000, [["🙂" * 50_000, 0]]])
def test_a_long_text_is_there_to_its_end_after_its_beginning_was_painted(script, parts):
    """The part that nobody sees yet does not delay the paint, and nothing of it is lost or changed."""
    whole = "".join(text for text, _ in parts)
    script.hand(question(1, parts=parts))
    beginning = script("text").evaluate("text => text.textContent")
    assert whole.startswith(beginning)
    assert 3_000 < len(beginning) < 9_000  # more than the box shows
    script.run(FRAME)
    assert script("text").evaluate("text => text.textContent") == whole


def test_a_very_long_text_scrolls_and_the_next_begins_at_its_top(script):
    """100,000 characters with a thousand highlighted terms are answered like any other text."""
    long = [["word " * 20, 0], ["term", 0.5]] * 1000
    script.give(question(1, parts=long), {1: {1: place(question(2, parts=long))}})
    script.press("PageDown")
    script.press("a")
    assert script("text").evaluate("text => text.scrollTop") == 0
    assert script("text").evaluate("text => text.scrollHeight > 10 * text.clientHeight")
    assert script.answers == [(1, 1)]


# How the component comes and goes


def test_the_clean_up_of_an_overtaken_call_changes_nothing(script):
    """Streamlit cleans up a call that a newer one overtakes, before or after the newer one: the card stays as it is."""
    script.give(1, ALL)
    script.page.evaluate("window.painted = document.querySelector('[data-testid=oal-text]').firstChild")
    script.page.evaluate("cleanUps[0]()")
    script.give(1, ALL)
    script.page.evaluate("cleanUps[0]()")
    assert script("text").evaluate("text => text.firstChild === painted")
    script.press("a")
    assert script.posts == [[[1, "label", 1]]]


def test_nothing_is_left_of_a_card_that_is_gone(script):
    """Neither a listener nor a timer outlives the page, however often the card comes and goes."""
    before = listeners(script.page)
    for n in range(1, 6):
        script.give(n, ALL, previous=7)
        script.give(n, ALL, previous=8)
        assert listeners(script.page) == sorted([*before, "keydown", "beforeunload", "click", "popstate"])
        script.press("a")
        posts = len(script.posts)
        script.page.evaluate("() => { const old = host; old.replaceWith(old.cloneNode()); cleanUps.at(-1)() }")
        script.press("a")
        script.run(60_000)
        assert len(script.posts) == posts
        assert listeners(script.page) == before


def test_a_card_that_is_gone_comes_back_with_its_answers(script):
    """Another page and back again: what was unsaved is sent, and the next item is there."""
    script.give(1, ALL)
    script.press("a")
    kept = script.ids
    script.page.evaluate("() => { const old = host; old.replaceWith(old.cloneNode()); cleanUps.at(-1)() }")
    script.give(1, ALL)
    assert (script("card").count(), script.shown, script.ids) == (1, 2, kept)
    assert len(script.posts) == 2


# What comes next


def test_the_end_leads_on_without_a_load(script):
    """A click or Enter on a link of the end goes on as the browser's Back does; with Ctrl the browser opens a tab."""
    script.give(place(None, end="budget", result="R."), links={"Replay": "Replay?session=1", "New": "./?new=2"})
    script.page.evaluate("window.same = true; window.addEventListener('popstate', () => (window.came = location.href))")
    first, second = script("text").get_by_role("link").all()
    with script.page.context.expect_page():
        first.click(modifiers=["Control"])
    assert script.page.evaluate("window.came") is None
    first.click()
    assert script.page.evaluate("[same, came]") == [True, ADDRESS + "Replay?session=1"]
    second.press("Enter")
    assert script.page.evaluate("[same, came]") == [True, ADDRESS + "?new=2"]


# More classes than keys


def sixty(script):
    """Sixty classes, of which the first has a key, and their items."""
    classes = [{"label": n, "name": f"Class {n:02} <b>é", "keys": ["1"] * (n == 1)} for n in range(1, 61)]
    places = {n: place(n, counters=COUNTERS | {"answers": dict.fromkeys(map(str, range(61)), 0)}) for n in (1, 2, 3)}
    script.give(places[1], {n: dict.fromkeys(range(61), places[n + 1]) for n in (1, 2)}, classes=classes)


def test_a_class_without_a_key_is_found_by_its_name(script):
    """Slash, letters of the name and Enter answer with the first class that fits, which is told before; letters there
    are no keys, and where none fits nothing happens."""
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
    """Each of sixty classes has its turn in the order of the screen, in sight, and Enter answers with it."""
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
    """The field is there only where a class has no key, and else its key does nothing."""
    script.give(1, ALL)
    assert not script("find").is_visible()
    script.press("/", "a")
    assert script.answers == [(1, 1)]
