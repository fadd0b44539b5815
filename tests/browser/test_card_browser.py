"""What annotators do on the card besides answering, in the running app: notes, guidelines, own keys, skipped items."""

import pytest
from playwright.sync_api import expect

from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from tests.harness.browser import DESKTOP, PHONE, Card, bounds, button, fits, history, unharmed
from tests.harness.markup import MARKUP
from ui.label.card_server import CLASS_KEYS


def notes(store, session):
    """Every note that was ever stored: the item's position, the words, and whose they are."""
    return [(row["item"], row["data"]["text"], row["annotator"]) for row in store.events(session, "noted")]


def write(card, words):
    """Write on in the note on the item on the screen."""
    card.tap("n")
    card.page.keyboard.type(words)
    card.tap("Control+Enter")
    expect(card("written")).to_contain_text(words.strip())


def revisit(card):
    """Go to the first skipped item, or back to the stream, and wait until it is painted."""
    old = card.question
    card("offer").click()
    expect(card.root).not_to_have_attribute("data-question", old)


def test_a_note_stays_with_its_item(visit, app, store, texts):
    """It is stored beside the answers, in every letter, and shown when the item comes back by Undo or a reload."""
    session = create(store, texts, learner="pa-i", rule="all")
    card = Card(visit(app, f"/Label?session={session}&annotator=anna"))
    card.page.evaluate("window.same = true")
    words = f"r, c: rerun? {MARKUP} שלום"
    write(card, words)
    card.press("a")
    expect(card("written")).to_be_hidden()
    card.press("z")
    expect(card("written")).to_have_text(words)
    card.saved()
    assert card.page.evaluate("window.same")
    card.page.reload()
    card.ready()
    expect(card("written")).to_have_text(words)
    card.press("x")
    card.saved()
    assert notes(store, session) == [(0, words, "anna")]
    assert history(store, session) == [("i0", 1, False), ("i0", -1, True)]
    unharmed(card.page)


def test_notes_survive_a_dead_server(label, app, store):
    """What is written while no server answers is sent again in its place among the answers, and stored once."""
    session, card = label()
    card.page.on("dialog", lambda dialog: dialog.accept())
    write(card, "before")
    card.saved()
    app.kill()
    write(card, " and after")
    card.press("a")
    expect(card.root).to_have_attribute("data-unsaved", "2")
    app.start()
    card.saved()
    with card.page.expect_navigation():
        card.page.evaluate("void location.reload()")
    card.ready()
    assert [note[:2] for note in notes(store, session)] == [(0, "before"), (0, "before and after")]
    assert history(store, session) == [("i0", 1, True)]


@pytest.mark.parametrize("window", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_guidelines_and_notes_move_no_button(visit, app, store, texts, window):
    """What the owner asks for is read beside the item or over it, literally, while the buttons stay and answer."""
    asked = f"Look for {MARKUP}\n\n- rooms\n" + "W" * 300 + "\nand on. " * 200
    session = create(store, texts, learner="pa-i", rule="all", guidelines=asked)
    card = Card(visit(app, f"/Label?session={session}", viewport=window))
    expect(card.page.get_by_test_id("stPlotlyChart")).to_have_count(3)
    parts = ("button-1", "button--1", "skip", "undo", "counters")
    places = {part: bounds(card(part)) for part in parts}
    card.tap("g")
    expect(card("panel")).to_contain_text(f"Look for {MARKUP}")
    left, top, right, bottom = bounds(card("panel"))
    assert 0 <= left < right <= window["width"]
    assert 0 <= top < bottom <= places["button-1"][1 if window is PHONE else 3] + window["height"]
    assert window is PHONE or left >= bounds(card("text"))[2]
    fits(card.page)
    card.press("a")
    expect(card("panel")).to_be_visible()
    store.update_session(session, {"guidelines": "Rooms only."})
    card.press("x")
    expect(card("panel").locator(".rules")).to_have_text("Rooms only.")
    card.tap("g")
    card.tap("n")
    assert {part: bounds(card(part)) for part in parts} == places
    card.page.keyboard.type("a note")
    card("button-1").click()
    card.saved()
    assert {part: bounds(card(part)) for part in parts} == places
    assert len(history(store, session)) == 3
    assert [note[:2] for note in notes(store, session)] == [(2, "a note")]
    fits(card.page)
    unharmed(card.page)


def test_keys_and_sizes_follow_their_annotator(visit, app, another, store, texts):
    """What anna chose she finds in another browser, ben does not; and each label says whether terms were marked."""
    session = create(store, texts, learner="pa-i", rule="all")
    anna = Card(visit(app, f"/Label?session={session}&annotator=anna"))
    anna.press("a")
    anna("keys").click()
    dialog = anna("keys-dialog")
    dialog.get_by_role("button", name="Relevant: A or 1. Change it").click()
    for key, said in (
        ("r", "R belongs to Streamlit, which would get it too."),
        ("x", "X is the key of Not relevant already."),
    ):
        anna.tap(key)
        expect(dialog.get_by_role("alert")).to_have_text(said)
    anna.tap("j")
    button(dialog, "Done").click()
    expect(dialog).to_be_hidden()
    for key in "+h":
        anna.tap(key)
        anna.saved()
    anna.press("j")
    anna.saved()
    assert store.preferences("anna") == {"keys": {"positive": "j"}, "size": 3, "highlight": True}
    other = Card(visit(app, f"/Label?session={session}&annotator=anna", viewport=PHONE, context=another))
    expect(other("highlight")).to_have_attribute("aria-checked", "true")
    other.tap("a")
    other.press("j")
    other.saved()
    ben = Card(visit(app, f"/Label?session={session}&annotator=ben"))
    expect(ben("button-1").locator("kbd")).to_have_text("A")
    expect(ben("highlight")).to_have_attribute("aria-checked", "false")
    sizes = [
        float(card("text").evaluate("text => getComputedStyle(text).fontSize.slice(0, -2)")) for card in (anna, ben)
    ]
    assert sizes[0] > sizes[1]
    assert [0, 1, 1] == [row["data"]["highlighted"] for row in store.events(session, "answered")]


def test_skipped_items_are_answered_at_the_end(label, keep, store):
    """They come once more with the same keys; skip again leaves them, Undo goes back, and the learner has them all."""
    dataset = keep("a few", (f"item {k} word{k % 3}" for k in range(6)))
    session, card = label(dataset, budget=9, horizon=9)
    for key in "   a x":
        card.press(key)
    expect(card("text")).to_contain_text("The stream has ended")
    expect(card("offer")).to_have_text("4 skipped: answer them now")
    revisit(card)
    card.tap("h")
    expect(card("why")).to_have_text("You skipped this earlier (4 left). Answering uses one label; skipping is free.")
    expect(card("text")).to_contain_text("item 0 ")
    card.press("a")
    card.press("x")
    card.press("z")
    expect(card("text")).to_contain_text("item 1 ")
    card.press(" ")
    card.press("a")
    card.press("x")
    card.saved()
    expect(card("text")).to_contain_text("The stream has ended")
    expect(card("counters")).to_contain_text("5 of 9 labels used, 4 left")
    expect(card("offer")).to_have_text("1 skipped: answer it now")
    standing = {item: answer for item, answer, stands in history(store, session) if stands}
    assert standing == {"i0": 1, "i1": 0, "i2": 1, "i3": 1, "i4": -1, "i5": -1}
    events = store.events(session, "answered", "corrected")
    highlighted = {row["question"]: row["data"]["highlighted"] for row in events}
    assert [1, 1, 1, 0, 1, 0] == [highlighted[entry["id"]] for entry in store.answers(session)]
    revisit(card)
    card.tap("h")
    expect(card("text")).to_contain_text("item 1 ")
    card.tap("Escape")
    expect(card("text")).to_contain_text("The stream has ended")


def test_skipped_items_of_two_people_are_answered_once(visit, app, another, store, texts):
    """What one has answered meanwhile the other leaves alone, and both go on in the stream."""
    session = create(store, texts, learner="pa-i", rule="all")
    dora = Card(visit(app, f"/Label?session={session}&annotator=dora"))
    dora.press(" ")
    dora.press("a")
    dora.saved()
    ben = Card(visit(app, f"/Label?session={session}&annotator=ben", viewport=PHONE, context=another))
    expect(ben("text")).to_contain_text("item 3 ")
    for card in (dora, ben):
        revisit(card)
        expect(card("why")).to_contain_text("You skipped this earlier (1 left).")
        expect(card("text")).to_contain_text("item 0 ")
    ben("button--1").click()
    ben.saved()
    expect(ben("text")).to_contain_text("item 3 ")
    dora.tap("Escape")
    expect(dora("text")).to_contain_text("item 2 ")
    dora.press("x")
    dora.saved()
    assert history(store, session) == [("i0", 0, False), ("i1", 1, True), ("i0", -1, True), ("i2", -1, True)]


def test_a_refused_correction_says_why(label, store):
    """The last label belongs to the item that is asked, and the way to the skipped ones is closed then."""
    session, card = label(budget=2)
    card.press(" ")
    card.saved()
    expect(card("offer")).to_be_visible()
    card.press("a")
    card.saved()
    expect(card("offer")).to_be_hidden()
    assert [answer for _, answer, _ in history(store, session)] == [0, 1]


def test_a_panel_drawn_anew_leaves_the_focus_where_it_was(label, store):
    """While others answer and write, the table, an open row's text and a draft of guidelines keep the focus."""
    session, card = label()
    page, other = card.page, Session(store, session)

    def answer():
        other.refresh()
        other.answer(f"{session}-{len(other.labels)}", other.place.asked.id, 1, "ben")

    answer()
    table = page.locator("[tabindex='0']:has(> .oal-result)")
    table.focus()
    old = table.inner_text()
    answer()
    expect(table).not_to_have_text(old, use_inner_text=True)
    expect(table).to_be_focused()
    page.get_by_role("tab", name="History").click()
    page.locator(".head").last.click()
    text = page.get_by_role("region", name="Item", exact=True)
    text.focus()
    answer()
    expect(page.locator(".head")).to_have_count(3)
    expect(text).to_be_focused()
    page.get_by_role("tab", name="Guidelines").click()
    page.locator("summary").filter(has_text="Write").click()
    draft = page.get_by_role("textbox", name="Guidelines")
    draft.fill("a draft")
    store.update_session(session, {"guidelines": "what another wrote"})
    expect(page.get_by_text("The session has no guidelines yet.")).to_have_count(0)
    expect(draft).to_be_focused()
    expect(draft).to_have_value("a draft")


def test_the_end_leads_to_the_files_and_to_another_session(visit, app, store, keep):
    """Its links are reached by keys and keep who labels: one to the replay and the files, one to a new session on the
    same data; Back leads to the end again."""
    one, *_ = (keep(name, ("some words", "other words")) for name in ("one", "another"))
    session = create(store, one, learner="pa-i", rule="all", budget=1)
    card = Card(visit(app, f"/Label?session={session}&annotator=emma"))
    page = card.page
    card.press("a")
    expect(card("text")).to_contain_text("The budget of 1 label is spent")
    card.saved()
    card("text").focus()
    card.tap("Tab")
    card.tap("Enter")
    expect(page).to_have_url(app.url(f"/Replay?session={session}"))
    expect(button(page, "Download")).to_be_visible()
    expect(page.locator(".st-key-top").get_by_role("button", name="emma")).to_be_visible()
    page.go_back()
    card.ready()
    card("text").get_by_role("link", name="New session on this data").click()
    form = page.get_by_role("combobox", name="Data set")
    expect(form).to_have_value("one")
    expect(page).to_have_url(app.url("/"))
    expect(page.locator(".st-key-top").get_by_role("button", name="emma")).to_be_visible()


@pytest.mark.parametrize("window", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("names", [
    {"positive_name": "Reports an adverse event " * 2 + "of the drug", "negative_name": "W" * 60},
    {"classes": tuple(f"a class with the rather long name {k} of its own" for k in range(7)), "learner": "m-pa-i"},
])  # fmt: skip
def test_long_class_names_wrap(visit, app, store, texts, window, names):
    """Names of sixty letters are wrapped within buttons that a thumb hits, on the screen and beside each other."""
    session = create(store, texts, **{"learner": "pa-i", "rule": "all"} | names)
    card = Card(visit(app, f"/Label?session={session}", viewport=window))
    expect(
        card.page.get_by_text("Answers of each class").or_(card.page.get_by_test_id("stPlotlyChart")).first
    ).to_be_visible()
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
    fits(card.page)


def test_no_class_has_a_key_of_streamlit_or_of_the_card():
    """Each key of K classes is one, and C, R, G, H, N and Z mean something else."""
    assert len(set(CLASS_KEYS)) == len(CLASS_KEYS)
    assert not set(CLASS_KEYS) & set("crghnz")


def test_what_the_model_said_is_shown_after_the_answer(label, store):
    """The stored class and margin of the item just answered, whether the answer was the same, and the chance that it
    was asked with; a skip tells nothing, and leaves nothing."""
    session, card = label()
    card.press("a")
    expect(card("said")).to_have_text("")
    for key in "xa":
        card.press(key)
        card.saved()
        *_, last, _ = store.answers(session)
        name = {1: "Relevant", -1: "Not relevant"}[last["predicted"]]
        score = f"{last['margin']:+.2f}".replace("-", "−")
        agreed = "agreed" if last["predicted"] == last["label"] else "disagreed"
        words = store.item(store.session(session)["dataset"], last["item"])["text"]
        sentence = f"The model said “{name}” ({score}); you {agreed}. Chance 100 %."
        expect(card("said")).to_have_text(f"{words}{sentence}")
    card.press(" ")
    card.saved()
    expect(card("said")).to_have_text("")


def test_space_skips_wherever_was_clicked(label, store):
    """After a click on a tab, a switch, Save or the name Space skips an item and presses nothing; whoever moved to a
    tab with the keyboard means the tab."""
    session, card = label()
    page = card.page

    def skipped(number):
        page.keyboard.press(" ")
        expect(card("tally")).to_contain_text(f"skipped{number}of")
        card.saved()

    page.get_by_role("tab", name="History").click()
    skipped(1)
    page.get_by_role("tab", name="Pushed").click()
    page.get_by_text("Wrong marks train the model").click()
    skipped(2)
    expect(page.get_by_role("switch", name="Wrong marks train the model")).to_be_checked()
    page.get_by_role("button", name="Your name", exact=True).click()
    page.get_by_role("button", name="Your name", exact=True).click()
    skipped(3)
    expect(page.get_by_role("textbox", name="Your name")).to_have_count(0)
    page.get_by_role("tab", name="Guidelines").click()
    page.get_by_text("Write the guidelines").click()
    page.get_by_role("textbox", name="Guidelines").fill("Count every walk.")
    page.get_by_role("button", name="Save").first.click()
    expect(card("guidelines")).to_be_visible()
    skipped(4)
    page.get_by_role("tab", name="Learned").click()
    page.keyboard.press("ArrowRight")
    page.keyboard.press(" ")
    card.saved()
    assert [0] * 4 == [label for _, label, _ in history(store, session)]


ODD = (
    "def f(x):\n\treturn {'a':  [1, 2]}  # " + "y" * 500, "<script>window.pwned=1</script> $x$ :red[x] ![](http://x/y)",
    "a\x01b\u200bc\u202ed\u202c e\u0301 👩‍👩‍👧‍👦", "word " * 21_000, "مرحبا بالعالم\nplain\nשלום",
)  # fmt: skip


def test_every_letter_of_an_item_is_shown_as_it_is(label, keep, store):
    """Code, markup, control characters, emoji, 100,000 characters and right-to-left words, highlighted or not."""
    dataset = keep("odd", [*ODD, *ODD])
    session, card = label(dataset)
    kept = [row["text"] for row in store.query("SELECT text FROM items WHERE dataset = ? ORDER BY position", dataset)]
    card.tap("h")
    for text in kept:
        card.page.wait_for_function(
            "([text, length]) => text.textContent.length === length",
            arg=[card("text").element_handle(), js_length(text)],
        )
        assert card("text").evaluate("text => text.textContent") == text
        assert card("text").evaluate("text => [text.scrollTop, text.scrollWidth <= text.clientWidth]") == [0, True]
        card.tap("PageDown")
        card.press("a" if "e" in text else "x")
    card.saved()
    unharmed(card.page)
    assert len(history(store, session)) == len(kept)


def js_length(text):
    """How many UTF-16 units a browser counts."""
    return len(text.encode("utf-16-le")) // 2
