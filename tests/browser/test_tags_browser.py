"""The parts above and below the text of an item: its title, facts and links, and the tags from annotators."""

import struct
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import expect

from oal_engine import datasets
from oal_engine.sessions.settings import create
from tests.harness.browser import Card, running, unharmed
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
    script.hand(question(1, item=8), tags=TAGS)
    script.page.keyboard.press("2")
    assert script.posts == []
    script.run(1000)
    script.give(place(None, end="budget"), tags=TAGS)
    script.press("2")
    assert script.posts == []
    assert script("tag-1").get_attribute("aria-disabled") == "true"


def test_without_tags_there_is_no_line_of_them(script):
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


# Pictures


def chunk(name, content):
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def png(width, height):
    """Return a black PNG."""
    rows = (b"\0" * (1 + width)) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


@pytest.fixture
def hosts():
    """Two hosts that serve a picture, each a pair of its name and the requests that it got."""
    made = []
    for _ in range(2):
        seen = []

        class Host(BaseHTTPRequestHandler):
            def do_GET(self, seen=seen):
                seen.append((self.path, self.headers["Referer"]))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(png(300, 900))

            def log_message(self, *args):
                pass

        host = ThreadingHTTPServer(("127.0.0.1", 0), Host)
        threading.Thread(target=host.serve_forever, daemon=True).start()
        made.append((host, f"127.0.0.1:{host.server_port}", seen))
    yield [(name, seen) for _, name, seen in made]
    for host, *_ in made:
        host.shutdown()
        host.server_close()


@pytest.mark.slow
def test_pictures_are_painted_and_other_hosts_are_never_asked(visit, tmp_path, hosts):
    """The picture of a named host and one of the server's folder are painted above the text, in a fixed box that leaves
    the buttons in view. Another host gets no request; its address is shown with a sentence."""
    (own, asked), (other, unasked) = hosts
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "b.png").write_bytes(png(900, 300))
    cells = f"http://{own}/a.png", "some/b.png", f"http://{other}/c.png"
    (tmp_path / "texts.csv").write_text("text,photo,label\n" + "".join(f"so {cell} a day,{cell},1\n" for cell in cells))
    with running(tmp_path, OAL_PICTURE_HOSTS=own, OAL_PICTURES=str(tmp_path)) as server:
        data = datasets.import_file(server.store, tmp_path / "texts.csv", "pictures", min_df=1)[0]
        session = create(server.store, data, learner="pa-i", rule="all")
        card = Card(visit(server, f"/Label?session={session}"))
        picture, boxes = card.page.locator("img.picture"), []
        for size in ([300, 900], [900, 300]):
            expect(picture).to_have_js_property("complete", True)
            assert size == picture.evaluate("node => [node.naturalWidth, node.naturalHeight]")
            boxes.append((picture.bounding_box(), card("button-1").bounding_box()))
            expect(card("button-1")).to_be_in_viewport(ratio=1)
            card.press("x")
        assert boxes[0] == boxes[1]
        expect(card("text")).to_contain_text("Its picture is shown if the server's setting OAL_PICTURE_HOSTS names its")
        assert (0, f"{other}/c.png") == (picture.count(), card("text").locator("a.fact").inner_text())
        assert ([("/a.png", None)], []) == (asked, unasked)
