"""What stands above and below the text of an item: title, facts and links, and the tags that annotators give it."""

import csv

import pytest
from playwright.sync_api import expect

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.sessions.settings import create
from tests.harness.browser import DESKTOP, PHONE, Card, bounds, fits, history, tab, unharmed
from tests.harness.markup import MARKUP
from tests.harness.scripted_card import ALL, place, question

TAGS = [{"name": "ask a colleague", "keys": ["2"]}, {"name": MARKUP, "keys": ["3"]}, {"name": "late", "keys": []}]
PARTS = ("tags", "button-1", "button--1", "skip", "undo", "counters")
COLUMNS = reading.Columns(("text",), "label", "id")


def tags(script):
    """The tags that are pressed."""
    return script("tags").locator("[aria-pressed=true] span").all_inner_texts()


def changes(script):
    return [(event["item"], event["tag"], event["given"]) for event in script.events if event["action"] == "tag"]


# The card alone


def test_tags_are_given_and_taken_by_key_and_click(script):
    """Each is an event of its own about the item; several may stand, and no part of the card moves."""
    script.give(question(1, item=8, tags=["late"]), ALL, tags=TAGS)
    places = [script(part).bounding_box() for part in PARTS]
    assert tags(script) == ["late"]
    script.press("2")
    sent = {"id": script.ids[0], "annotator": "anna", "question": 1, "item": 8, "action": "tag"}
    assert script.events == [sent | {"tag": "ask a colleague", "given": True}]
    script.press("3", "2")
    script("tag-3").click()
    assert changes(script)[1:] == [(8, MARKUP, True), (8, "ask a colleague", False), (8, "late", False)]
    assert tags(script) == [MARKUP]
    assert [script(part).bounding_box() for part in PARTS] == places
    script.press("a")
    assert (script.shown, tags(script)) == (2, [])
    assert [event["action"] for event in script.events] == ["tag"] * 4 + ["label"]


def test_no_tag_is_given_before_its_item_is_seen(script):
    """A key that comes before the paint of an item tags nothing, and neither does one at the end."""
    script.hand(question(1, item=8), tags=TAGS)
    script.page.keyboard.press("2")
    assert script.posts == []
    script.run(1000)
    script.give(place(None, end="budget"), tags=TAGS)
    script.press("2")
    assert script.posts == []
    assert script("tag-1").get_attribute("aria-disabled") == "true"


def test_tags_delay_no_answer_and_outlive_a_reload(script):
    """What is not acknowledged is sent again in its place among the answers, and shown until the server has it."""
    branches = {1: {1: place(question(2, item=9))}}
    script.give(question(1, item=8), branches, tags=TAGS)
    script.press("2", "a")
    kept = script.ids
    assert script.shown == 2
    script.open()
    script.give(question(1, item=8), branches, tags=TAGS)
    assert (script.shown, script.ids) == (2, kept)
    script.give(question(1, item=8), branches, tags=TAGS, acked=kept[1:])
    assert (script.shown, tags(script)) == (1, ["ask a colleague"])
    script.give(question(1, item=8, tags=["ask a colleague"]), tags=TAGS, acked=kept)
    assert (script.status, tags(script)) == ("Saved", ["ask a colleague"])


def test_without_tags_there_is_no_line_of_them(script):
    """It is there as soon as the owner names some."""
    script.give(1, ALL)
    assert script("tags").is_visible() is False
    script.give(1, ALL, tags=TAGS)
    assert script("tags").is_visible()


def above(script):
    return script("text").locator(".heading"), script("text").locator(".described > .fact")


def test_title_and_facts_stand_above_the_text_as_they_are_written(script):
    """A title in bold, then one quiet line, in which a column has its name where it needs one; nothing is markup."""
    facts = [
        ["", "2019", None],
        ["grade", MARKUP, None],
        ["", "https://www.example.org/a?b=c", "https://www.example.org/a?b=c"],
    ]
    script.give(question(1, heading=[["A ", 0], [MARKUP, 0.5]], facts=facts), ALL)
    title, line = above(script)
    assert title.inner_text() == f"A {MARKUP}"
    assert title.locator(".term").inner_text() == MARKUP
    assert line.all_inner_texts() == ["2019", f"grade {MARKUP}", "example.org/a?b=c"]
    unharmed(script.page)


@pytest.mark.parametrize(
    "address", ["javascript:window.pwned=1", " https://example.org", "data:text/html,x", "//x.org"]
)
def test_only_addresses_of_the_web_become_links(script, address):
    """Whatever a server would send, no other is one."""
    script.give(question(1, facts=[["", "words", address]]), ALL)
    assert above(script)[1].evaluate("node => node.tagName") == "SPAN"


def test_an_item_of_a_title_alone_is_not_empty(script):
    """Nothing says that it has no text."""
    script.give(question(1, heading=[["A title", 0]], parts=[]), ALL)
    assert script("text").inner_text() == "A title"


def test_a_key_opens_the_first_link(script):
    """In a tab that knows nothing of this one; without a link the key does nothing."""
    script.give(question(1, facts=[["", "2019", None], ["", "x", "http://card.test/one"]]), ALL)
    link = script("text").locator("a.fact")
    assert (link.get_attribute("rel"), link.get_attribute("target")) == ("noopener noreferrer", "_blank")
    script.page.context.route("http://card.test/one", lambda route: route.fulfill(body=""))
    with script.page.context.expect_page() as opened:
        script.press("o")
    opened.value.wait_for_load_state()
    assert (opened.value.url, opened.value.evaluate("opener")) == ("http://card.test/one", None)
    opened.value.close()
    script.give(question(2), ALL)
    script.press("o")
    assert (script.posts, len(script.page.context.pages)) == ([], 1)


# In the running app


@pytest.fixture
def papers(app, store, tmp_path):
    """A data set of texts with titles, years and links of all lengths."""
    path = tmp_path / "papers.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(("id", "title", "text", "year", "url", "label"))
        for k in range(40):
            title = ["", "short", f"long {MARKUP} " * 9, "W" * 250][k % 4]
            words = f"item {k} " * [1, 300, 2][k % 3]
            lines.writerow((f"i{k}", title, words, 2000 + k, app.url(f"/?{'q' * 40 * (k % 3)}"), int(k % 5 == 0)))
    name = f"papers {len(store.datasets())}"
    return datasets.import_file(store, path, name, COLUMNS)[0]


@pytest.mark.parametrize("window", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_titles_and_tags_move_no_button(visit, app, store, papers, window):
    """Whatever stands above the text, and whatever is tagged, all parts stay where they are and on the screen."""
    session = create(
        store, papers, learner="pa-i", rule="all", tags=["one", f"two {MARKUP[:30]}", "three " * 8, "four"]
    )
    card = Card(visit(app, f"/Label?session={session}", viewport=window))
    expect(card.page.get_by_test_id("stPlotlyChart")).to_have_count(3)
    places = {part: bounds(card(part)) for part in PARTS}
    for key in ("x", "a", " ", "x"):
        card.tap("2")
        card.tap("3")
        card.press(key)
        card.saved()
        assert {part: bounds(card(part)) for part in PARTS} == places
    for part in ("button-1", "button--1", "skip", "undo"):
        _, top, right, bottom = places[part]
        assert 0 <= top < bottom <= window["height"]
        assert right <= window["width"]
    expect(card("text").locator(".described")).to_contain_text("2004")
    fits(card.page)
    unharmed(card.page)


def test_the_player_shows_the_same_above_a_text(visit, app, store, papers):
    """Title and facts stand in the replay as on the card, close above the text."""
    session = create(store, papers, learner="pa-i", rule="all")
    card = Card(visit(app, f"/Label?session={session}"))
    card.press("x")
    card.press("x")
    card.saved()
    page = visit(app, f"/Replay?session={session}&question=2")
    text = page.get_by_test_id("oal-text")
    expect(text.locator(".heading")).to_have_text("short")
    expect(text.locator(".fact").first).to_have_text("2001")
    _, top, _, bottom = bounds(text.locator(".described"))
    assert bottom - top < 60
    assert text.locator(".fact").first.evaluate("node => node.scrollWidth <= node.clientWidth")


def test_tags_survive_a_dead_server_and_filter_the_history(visit, app, store, papers):
    """They are kept until the server is back, stored once with who gave them, and found and changed in the history."""
    session = create(store, papers, learner="pa-i", rule="all", tags=["ask a colleague", "late"])
    card = Card(visit(app, f"/Label?session={session}&annotator=anna"))
    card.page.on("dialog", lambda dialog: dialog.accept())
    card.tap("2")
    card.press("x")
    card.saved()
    app.kill()
    card.tap("3")
    card("tag-1").click()
    card.press("a")
    expect(card.root).to_have_attribute("data-unsaved", "3")
    app.start()
    card.saved()
    card.page.reload()
    card.ready()
    card.press("z")
    expect(card("tag-1")).to_have_attribute("aria-pressed", "true")
    expect(card("tag-2")).to_have_attribute("aria-pressed", "true")
    card.press("a")
    card.saved()
    rows = store.events(session, "tagged")
    expected = [(0, "ask a colleague", "anna"), (1, "late", "anna"), (1, "ask a colleague", "anna")]
    assert [(row["item"], row["data"]["tag"], row["annotator"]) for row in rows] == expected
    assert history(store, session)[-1] == ("i1", 1, True)
    page = card.page
    tab(page, "History")
    lines = page.get_by_test_id("oal-list-rows").locator("li")
    expect(lines).to_have_count(2)
    card("list-filter").select_option(label="Tag: late")
    expect(lines).to_have_count(1)
    expect(lines.locator(".tagged .chip")).to_have_text(["ask a colleague", "late"])
    lines.locator(".head").click()
    expect(lines.locator(".heading")).to_have_text("short")
    late = lines.get_by_role("button", name="late", exact=True)
    expect(late).to_have_attribute("aria-pressed", "true")
    late.click()
    expect(page.get_by_text("No answer fits.")).to_be_visible()
    assert store.tags(session) == {0: ["ask a colleague"], 1: ["ask a colleague"]}
