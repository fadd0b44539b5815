"""Whole pages: text is never markup, pages fit the window, the card's parts stay in place, files are imported."""

import csv
import re

import pandas
import pytest
from playwright.sync_api import expect

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from tests.harness.browser import DESKTOP, PHONE, Card, bounds, button, fits, unharmed, upload
from tests.harness.markup import MARKUP

COLUMNS = reading.Columns(("text",), "label", "id")


@pytest.fixture
def papers(app, store, tmp_path):
    """The id of a data set of texts of all kinds and lengths, with titles, years and links."""
    path = tmp_path / "papers.csv"
    texts = ["short", "long " * 900, "unbroken" * 200, "👩‍👩‍👧‍👦 " * 40, "short\n\n" * 60, "another"]
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(("id", "title", "text", "year", "url", "label"))
        for k in range(40):
            title = ["", "short", f"long {MARKUP} " * 9, "W" * 250][k % 4]
            link = app.url(f"/?{'q' * 40 * (k % 3)}")
            lines.writerow((f"i{k}", title, texts[k % len(texts)], 2000 + k, link, int(k % 5 == 0)))
    return datasets.import_file(store, path, f"papers {len(store.datasets())}", COLUMNS)[0]


@pytest.mark.slow
@pytest.mark.parametrize("window", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_buttons_are_on_the_screen_and_never_move(visit, app, store, papers, window):
    """Whatever the title and text of an item, and while a person tags, writes a note or reads the guidelines, all parts
    of the card stay in place, on the screen and large enough for a thumb."""
    asked = f"Look for {MARKUP}\n\n- rooms\n" + "W" * 300 + "\nand on. " * 200
    tags = ["one", f"two {MARKUP[:30]}", "three " * 8, "four"]
    session = create(
        store, papers, learner="pa-i", rule="all", name="A name of a session that is rather long", tags=tags,
        guidelines=asked,
    )  # fmt: skip
    card = Card(visit(app, f"/Label?session={session}", viewport=window))
    card.page.get_by_text("are counted here after").wait_for()
    parts = ("text", "tags", "button-1", "button--1", "skip", "undo", "counters", "more")
    places = {part: bounds(card(part)) for part in parts}
    for key in ("x", "a", " ", "x", "z", "x", "a"):
        card.tap("2")
        card.tap("3")
        card.press(key)
        card.saved()
        assert {part: bounds(card(part)) for part in parts} == places
    for part in ("button-1", "button--1", "skip", "undo"):
        left, top, right, bottom = places[part]
        assert 0 <= left < right <= window["width"]
        assert 0 <= top < bottom <= window["height"]
        assert bottom - top >= 44
    expect(card("text").locator(".described")).to_contain_text("2005")
    fits(card.page)
    card.tap("g")
    expect(card("panel")).to_contain_text(f"Look for {MARKUP}")
    left, top, right, bottom = bounds(card("panel"))
    assert 0 <= left < right <= window["width"]
    assert 0 <= top < bottom <= places["button-1"][1 if window is PHONE else 3] + window["height"]
    assert window is PHONE or left >= bounds(card("text"))[2]
    fits(card.page)
    store.update_session(session, {"guidelines": "Rooms only."})
    card.press("a")
    expect(card("panel").locator(".rules")).to_have_text("Rooms only.")
    card.tap("g")
    card.tap("n")
    card.page.keyboard.type("a note")
    assert {part: bounds(card(part)) for part in parts[1:]} == {part: places[part] for part in parts[1:]}
    noted = int(card.item[1:])
    card("button-1").click()
    card.saved()
    assert {part: bounds(card(part)) for part in parts} == places
    assert [(row["item"], row["data"]["text"]) for row in store.events(session, "noted")] == [(noted, "a note")]
    fits(card.page)
    unharmed(card.page)


def test_the_player_shows_the_same_above_a_text(visit, app, store, papers):
    """Replay shows the title and facts of an item as the card does, close above the text."""
    session = Session(store, create(store, papers, learner="pa-i", rule="all"))
    for k in range(2):
        session.answer(f"{session.id} answer {k}", session.place.asked.id, -1)
    page = visit(app, f"/Replay?session={session.id}&question=2")
    text = page.get_by_test_id("oal-text")
    expect(text.locator(".heading")).to_have_text("short")
    expect(text.locator(".fact").first).to_have_text("2001")
    _, top, _, bottom = bounds(text.locator(".described"))
    assert bottom - top < 60
    assert text.locator(".fact").first.evaluate("node => node.scrollWidth <= node.clientWidth")


@pytest.mark.slow
def test_no_page_is_wider_than_its_window(visit, app, store, keep, tmp_path):
    name = "W" * 110
    dataset = keep(name, ["a word", "a word"], ids="W" * 90)
    session = create(store, dataset, learner="pa-i", rule="all", name=name, positive_name="W" * 60)
    path = tmp_path / f"{'W' * 100}.csv"
    path.write_text(f"id,{'W' * 100},label\n1,{'W' * 1000},1\n2,b,0\n")
    page = visit(app, f"/?session={session}")

    def fits_both():
        for window in (PHONE, DESKTOP):
            page.set_viewport_size(window)
            fits(page)

    page.get_by_text(name).first.wait_for()
    fits_both()
    button(page, "New session").click()
    button(page, "Start labeling").wait_for()
    fits_both()
    page.goto(app.url(f"/Label?session={session}"))
    Card(page)
    page.get_by_text("are counted here after").wait_for()
    fits_both()
    page.goto(app.url("/Data"))
    page.get_by_test_id("stFileUploader").wait_for()
    upload(page, path)
    button(page, "Import").wait_for()
    page.get_by_test_id("stMultiSelect").get_by_text("W" * 100).wait_for()
    fits_both()


COUNT = """() => {
  window.clicks = 0;
  window.fields = new Set();
  document.addEventListener("click", (event) => (clicks += event.isTrusted), true);
  document.addEventListener("input", ({ target }) => target.type === "file" || fields.add(target), true);
}"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["drop", "paste"])
def test_own_items_are_three_clicks_from_their_first_question(visit, app, store, tmp_path, way):
    """Getting from one's own items to the first question takes two clicks for a dropped file and three for pasted
    texts, apart from naming the class."""
    texts = [f"{'a dog ran' if k % 7 == 0 else 'news of today'} word{k % 13}" for k in range(60)]
    path = tmp_path / f"{way}.csv"
    path.write_text("text,kind\n" + "".join(f"{text},{'dog' if 'dog' in text else 'other'}\n" for text in texts))
    page = visit(app)
    button(page, "Try the demo").wait_for()
    page.evaluate(COUNT)
    if way == "drop":
        page.get_by_test_id("stFileUploaderDropzone").first.wait_for(state="attached")
        page.evaluate(DROP, [path.name, path.read_text()])
    else:
        button(page, "Paste texts").click()
        page.get_by_role("textbox", name="Texts, one a line").fill("\n".join(texts))
        button(page, "Use these texts").click()
    if way != "paste":
        expect(button(page, "dog (9)")).to_have_attribute("aria-pressed", "true")
        button(page, "Import").click()
    button(page, "Show 10 other random items").wait_for()
    page.get_by_role("textbox", name="Name of the rare class").fill("About dogs")
    button(page, "Start labeling").click()
    card = Card(page)
    expect(card("text")).to_have_text(texts[0])
    expect(card("button-1").locator(".name")).to_have_text("About dogs")
    clicks, fields = page.evaluate("[clicks, fields.size]")
    assert {"drop": (2, 1), "paste": (3, 2)}[way] == (clicks, fields)
    session = store.sessions()[0]
    assert ("Pasted texts" if way == "paste" else way, 60) == (session["dataset_name"], session["stream"])


DROP = """([name, text]) => {
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([text], name, { type: "text/csv" }));
  const zone = document.querySelector("[data-testid=stFileUploaderDropzone]");
  for (const kind of ["dragenter", "dragover", "drop"]) {
    zone.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer }));
  }
}"""


@pytest.mark.slow
def test_a_newcomer_takes_home_a_list(visit, app, tmp_path):
    """It takes at most 5 clicks and 1 field, apart from 300 answers, to get from a file of 3,000 texts without labels
    to a downloaded list with its probable shares."""
    texts = [f"{'a dog ran' if k % 15 == 0 else 'news of today'} word{k % 13} number {k}" for k in range(3_000)]
    page = visit(app)
    button(page, "Try the demo").wait_for()
    page.evaluate(COUNT)
    page.get_by_test_id("stFileUploaderDropzone").first.wait_for(state="attached")
    page.evaluate(DROP, ["own.csv", "text\n" + "\n".join(texts)])
    button(page, "Import").click()
    page.get_by_role("textbox", name="Name of the rare class").fill("About dogs")
    button(page, "Start labeling").click()
    card = Card(page)
    for _ in range(300):
        card.press("a" if "dog" in card("text").inner_text() else "x")
    card.saved()
    found = page.get_by_text(re.compile(r"are right; .* of all are included"))
    expect(found).to_have_count(1)
    with page.expect_download() as download:
        button(page, re.compile("Download the first")).click()
    listed = pandas.read_csv(download.value.path())
    assert listed["share_right"].between(0, 1).all()
    assert listed["text"].str.contains("dog").mean() > 0.9
    clicks, fields = page.evaluate("[clicks, fields.size]")
    assert clicks <= 5
    assert fields <= 1
