"""Every page as it is seen: words stay words, nothing is too wide or moves, and a file is uploaded."""

import csv
import lzma
import os
import re

import pytest
from playwright.sync_api import expect

from oal_engine.datasets import reading
from oal_engine.sessions.settings import create
from tests.harness.browser import DESKTOP, PHONE, Card, bounds, button, choose, fits, unharmed, upload
from tests.harness.markup import MARKUP


def test_words_of_the_data_are_never_markup(visit, app, store, keep):
    """Names and texts that try to be HTML, Markdown or mathematics stand on every page as they are written."""
    unlabelled = reading.Columns(text=("text",), id="id")
    dataset = keep(MARKUP, (f"{MARKUP} word{k % 3} {k}" for k in range(40)), columns=unlabelled)
    names = {"name": f"S {MARKUP}", "positive_name": f"P {MARKUP}", "negative_name": f"N {MARKUP}"}
    session = create(store, dataset, learner="pa-i", rule="all", budget=3, **names)
    page = visit(app, f"/Label?session={session}&annotator={MARKUP}")
    card = Card(page)
    expect(card("text")).to_have_text(f"{MARKUP} word0 0")
    expect(card("button-1").locator(".name")).to_have_text(names["positive_name"])
    expect(card("button--1").locator(".name")).to_have_text(names["negative_name"])
    expect(page.get_by_text(names["name"], exact=True)).to_be_visible()
    expect(page.get_by_text(f"on {MARKUP}")).to_be_visible()
    expect(page.get_by_test_id("stPopoverButton")).to_contain_text(MARKUP)
    card("highlight").click()
    card.press("a")
    card.saved()
    answers = page.get_by_role("figure").first
    expect(answers).to_have_attribute("aria-label", re.compile(f"now {re.escape(names['positive_name'])} 1, "))
    expect(page.get_by_text(names["negative_name"], exact=True)).to_have_count(2)
    other = Card(visit(app, f"/Label?session={session}"))
    card.press("x")
    card.saved()
    other.tap("x")
    other.says(f"Not stored: this item was answered already by {MARKUP}.")
    unharmed(other.page)
    unharmed(page)
    page.goto(app.url(f"/Label?session={MARKUP}"))
    expect(page.get_by_text(f"Session {MARKUP} does not exist.", exact=True)).to_be_visible()
    unharmed(page)
    page.goto(app.url("/"))
    expect(page.get_by_text(names["name"], exact=True)).to_be_visible()
    expect(page.get_by_text(MARKUP, exact=True).and_(page.locator("b"))).to_be_visible()
    button(page, "New session").click()
    choose(page, "Data set", MARKUP)
    expect(page.get_by_role("combobox", name="Data set")).to_have_value(MARKUP)
    unharmed(page)
    page.goto(app.url("/Data"))
    expect(page.get_by_text(MARKUP, exact=True).and_(page.locator("b"))).to_be_visible()
    unharmed(page)


@pytest.mark.parametrize("window", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_buttons_are_on_the_screen_and_never_move(visit, app, store, keep, window):
    """Between short, long, unbroken and empty-looking items all parts of the card stay where they are."""
    texts = ["short", "long " * 900, "unbroken" * 200, "👩‍👩‍👧‍👦 " * 40, "short\n\n" * 60, "another"]
    dataset = keep(f"lengths {window['width']}", texts)
    session = create(store, dataset, learner="pa-i", rule="all", name="A name of a session that is rather long")
    card = Card(visit(app, f"/Label?session={session}", viewport=window))
    parts = ("text", "button-1", "button--1", "skip", "undo", "counters", "highlight")
    expect(card.page.get_by_test_id("stPlotlyChart")).to_have_count(3)
    places = {part: bounds(card(part)) for part in parts}
    for key in ("x", "a", " ", "x", "z"):
        card.press(key)
        card.saved()
        assert {part: bounds(card(part)) for part in parts} == places
    for part in ("button-1", "button--1", "skip", "undo"):
        left, top, right, bottom = places[part]
        assert 0 <= left < right <= window["width"]
        assert 0 <= top < bottom <= window["height"]
        assert bottom - top >= 44
    fits(card.page)


@pytest.mark.parametrize("window", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_no_page_is_wider_than_its_window(visit, app, store, keep, tmp_path, window):
    """Long names do not push anything out of sight, on any page, with its forms open."""
    name = f"{window['width']}" + "W" * 110
    dataset = keep(name, ["a word", "a word"], ids="W" * 90)
    session = create(store, dataset, learner="pa-i", rule="all", name=name, positive_name="W" * 60)
    page = visit(app, f"/?session={session}", viewport=window)
    expect(page.get_by_text(name).first).to_be_visible()
    fits(page)
    button(page, "New session").click()
    expect(button(page, "Start labeling")).to_be_visible()
    fits(page)
    page.goto(app.url(f"/Label?session={session}"))
    Card(page)
    expect(page.get_by_test_id("stPlotlyChart")).to_have_count(3)
    fits(page)
    page.goto(app.url("/Data"))
    path = tmp_path / f"{'W' * 100}.csv"
    path.write_text(f"id,{'W' * 100},label\n1,{'W' * 1000},1\n2,b,0\n")
    upload(page, path)
    expect(button(page, "Import")).to_be_visible()
    expect(page.get_by_test_id("stMultiSelect").get_by_text("W" * 100)).to_be_visible()
    fits(page)


def test_a_file_is_uploaded_looked_at_and_imported(visit, app, store, tmp_path):
    """From the file dialog over the columns to a data set, with a progress bar on the way, and on to a session."""
    path = tmp_path / "moments.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(("text", "remark", "label", "mood"))
        lines.writerows((f"text {k}", f"remark on {k % 97}", k % 2, "sad" if k % 4 else "glad") for k in range(12_000))
    page = visit(app, "/Data")
    upload(page, path)
    expect(page.get_by_test_id("stDataFrame")).to_be_visible()
    choose(page, "Label", "mood")
    choose(page, "Text (several are joined)", "remark")
    page.keyboard.press("Tab")
    button(page, "Import").click()
    said = page.get_by_role("status")
    expect(said.filter(has_text="glad")).to_contain_text("sad")
    assert [row["name"] for row in store.datasets() if row["name"] == "moments"] == []
    words = page.get_by_role("textbox", name="Positive label words")
    words.fill("glad")
    words.press("Enter")
    page.evaluate(PHASES)
    button(page, "Import").click()
    expect(said.filter(has_text="moments: ")).to_contain_text("12,000")
    expect(page.get_by_text("3,000 positive, 9,000 negative, 1 in 4.0")).to_be_visible()
    assert "Finding the vocabulary…" in page.evaluate("[...phases]")
    (row,) = (row for row in store.datasets() if row["name"] == "moments")
    assert (row["items"], row["positives"], row["negatives"]) == (12_000, 3_000, 9_000)
    assert store.item(row["id"], 5)["text"] == "text 5\nremark on 5"
    page.get_by_role("link", name="Start a session with it").click()
    expect(page.get_by_role("combobox", name="Data set")).to_have_value("moments")


COUNT = """() => {
  window.clicks = 0;
  window.fields = new Set();
  document.addEventListener("click", (event) => (clicks += event.isTrusted), true);
  document.addEventListener("input", ({ target }) => target.type === "file" || fields.add(target), true);
}"""


@pytest.mark.parametrize("way", ["file", "drop", "paste"])
def test_own_items_are_three_clicks_and_two_fields_from_their_first_question(visit, app, store, tmp_path, way):
    """A file that is chosen or dropped, or pasted texts: labels that could mean anything are asked about, the class is
    named, and the first item is on the screen."""
    texts = [f"{'a dog ran' if k % 7 == 0 else 'news of today'} word{k % 13}" for k in range(60)]
    path = tmp_path / f"{way}.csv"
    path.write_text("text,kind\n" + "".join(f"{text},{'dog' if 'dog' in text else 'other'}\n" for text in texts))
    page = visit(app)
    button(page, "Try the demo").wait_for()
    page.evaluate(COUNT)
    if way == "file":
        with page.expect_file_chooser() as chooser:
            button(page, "Upload").click()
        chooser.value.set_files(path)
    elif way == "drop":
        page.get_by_test_id("stFileUploaderDropzone").first.wait_for(state="attached")
        page.evaluate(DROP, [path.name, path.read_text()])
    else:
        button(page, "Paste texts").click()
        page.get_by_role("textbox", name="Texts, one a line").fill("\n".join(texts))
        button(page, "Use these texts").click()
    if way != "paste":
        page.get_by_role("textbox", name="Positive label words").fill("dog")
        button(page, "Import").click()
    expect(page.get_by_text("Look at 10 random items")).to_be_visible()
    page.get_by_role("textbox", name="Name of the rare class").fill("About dogs")
    button(page, "Start labeling").click()
    card = Card(page)
    expect(card("text")).to_have_text(texts[0])
    expect(card("button-1").locator(".name")).to_have_text("About dogs")
    clicks, fields = page.evaluate("[clicks, fields.size]")
    assert ({"file": 3, "drop": 2, "paste": 3}[way], 2) == (clicks, fields)
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

PHASES = """() => {
  window.phases = new Set();
  new MutationObserver(() => {
    for (const bar of document.querySelectorAll("[data-testid=stProgress]")) phases.add(bar.textContent);
  }).observe(document.body, {childList: true, characterData: true, subtree: true});
}"""


@pytest.mark.parametrize(("name", "content", "sentence"), [
    ("cut.csv.xz", lzma.compress(b"text,label\n" + os.urandom(500))[:-200], "cut.csv.xz"),
    ("empty.csv", b"", "empty.csv"),
    ("zeros.npy", bytes(300), "zeros.npy"),
])  # fmt: skip
def test_a_broken_file_is_refused_in_one_sentence(visit, app, store, tmp_path, name, content, sentence):
    """What cannot be read is said where it was chosen, without a traceback, and imports nothing."""
    path = tmp_path / name
    path.write_bytes(content)
    before = store.datasets()
    page = visit(app, "/Data")
    upload(page, path)
    said = page.get_by_role("status").filter(has_text=sentence)
    expect(said).to_be_visible()
    assert re.fullmatch(r"[^\n]{10,200}\.", said.inner_text())
    assert page.get_by_test_id("stException").count() == 0
    assert store.datasets() == before
