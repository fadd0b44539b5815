"""The parts above and below the text of an item: its title, facts and links, and the tags from annotators."""

from tests.harness.browser import unharmed
from tests.harness.markup import MARKUP
from tests.harness.scripted_card import ALL, place, question

TAGS = [{"name": "ask a colleague", "keys": ["2"]}, {"name": MARKUP, "keys": ["3"]}, {"name": "late", "keys": []}]
PARTS = ("tags", "button-1", "button--1", "skip", "undo", "counters")


def tags(script):
    """Return the names of the tags that are set."""
    return script("tags").locator("[aria-pressed=true] span").all_inner_texts()


def changes(script):
    return [(event["item"], event["tag"], event["given"]) for event in script.events if event["action"] == "tag"]


# The card alone


def test_tags_are_given_and_taken_by_key_and_click(script):
    """Setting or removing a tag sends an event about the item; several tags can be set, and the card does not move."""
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
    """A key before the paint of an item, or at the end of a session, sets no tag."""
    script.hand(question(1, item=8), tags=TAGS)
    script.page.keyboard.press("2")
    assert script.posts == []
    script.run(1000)
    script.give(place(None, end="budget"), tags=TAGS)
    script.press("2")
    assert script.posts == []
    assert script("tag-1").get_attribute("aria-disabled") == "true"


def test_without_tags_there_is_no_line_of_them(script):
    """The card has a line of tags only if the session's owner has named some."""
    script.give(1, ALL)
    assert script("tags").is_visible() is False
    script.give(1, ALL, tags=TAGS)
    assert script("tags").is_visible()


def above(script):
    return script("text").locator(".heading"), script("text").locator(".described > .fact")


def test_title_and_facts_stand_above_the_text_as_they_are_written(script):
    """The item's title and a line of facts, some with the name of their column, are shown literally above its text."""
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


def test_only_addresses_of_the_web_become_links(script):
    """An address that is not a web address never becomes a link, even if the server sends it as one."""
    addresses = ["javascript:window.pwned=1", " https://example.org", "data:text/html,x", "//x.org"]
    script.give(question(1, facts=[["", "words", address] for address in addresses]), ALL)
    assert above(script)[1].evaluate_all("nodes => nodes.map(node => node.tagName)") == ["SPAN"] * 4


def test_an_item_of_a_title_alone_is_not_empty(script):
    script.give(question(1, heading=[["A title", 0]], parts=[]), ALL)
    assert script("text").inner_text() == "A title"


def test_a_key_opens_the_first_link(script):
    """The key O opens the item's first link in a tab that cannot access this one, and has no effect without a link."""
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
