"""The Replay page in a real browser: playing, scrubbing, jumping, downloads and opening a published session."""

import io
import re

import pytest
from playwright.sync_api import expect

from oal_engine.sessions import look_back
from oal_engine.sessions.files import bundle
from oal_engine.sessions.session import Session
from tests.harness.browser import listeners, running
from tests.harness.examples import add_texts, answer
from tests.harness.markup import RUN


@pytest.fixture(scope="module")
def session(store, tmp_path_factory):
    """The id of a session with 40 labels."""
    return answer(
        store,
        add_texts(store, tmp_path_factory.mktemp("texts"), "to be replayed"),
        80,
        budget=40,
        parameters={"delta": 1},
    )


class Player:
    """The player on a page, with the actions of a person who uses it."""

    def __init__(self, page):
        self.page = page
        self.root = self("player")

    def __call__(self, name):
        return self.page.get_by_test_id(f"oal-{name}")

    def at(self, name):
        """Wait until a question ("q1") or round ("r1") is on the screen with the server's data. Return the player."""
        self.page.locator(f"[data-testid=oal-player][data-shown={name}]").wait_for()
        return self

    def fact(self, name):
        return self("facts").locator("div", has=self.page.locator("dt", has_text=name)).locator("dt + dd").inner_text()


@pytest.fixture
def open_player(visit, app, session):
    """A function that opens the player at a question."""

    def make(question=1, number=session):
        return Player(visit(app, f"/Replay?session={number}&question={question}")).at(f"q{question}")

    return make


def test_a_link_opens_a_question_as_it_was(open_player, store, session):
    """A link to a question shows its item, margin, chance, draw, prediction, answer and annotator as in the log. Text
    is never markup."""
    player, log, trace = open_player(23), store.answers(session), look_back.Trace(store, session)
    entry = log[22]
    expect(player("text")).to_contain_text(trace.dataset.item(entry["item"])["text"])
    assert 0 == player.page.locator(RUN).count()
    for name, value in (("Margin", "margin"), ("Chance", "probability"), ("Draw", "draw")):
        assert f"{entry[value]:.3f}" == player.fact(name)
    words = {1: "Relevant", -1: "Not relevant", 0: "skipped"}
    assert (words[entry["predicted"]], words[entry["label"]]) == (player.fact("Prediction"), player.fact("Answer"))
    expect(player("facts")).to_contain_text("by Ann")
    expect(player("used")).to_contain_text(f"{sum(bool(e['label']) for e in log[:22])} of 40 labels used before it")
    moved = trace.step(23).moved
    assert len(moved) == player("changes").locator("li").count()
    (tp, fn), (fp, tn) = look_back.confusion(trace, trace.step(23).place.counts, "push")
    cells = player("tables").locator(".confusion td")
    assert [str(n) for n in (tp, fn, fp, tn)] == cells.all_inner_texts()
    player("evaluation-push_query").click()
    rows = look_back.confusion(trace, trace.step(23).place.counts, "push_query")
    assert [str(n) for row in rows for n in row] == cells.all_inner_texts()


@pytest.mark.slow
def test_scrubbing_goes_where_the_pointer_is(open_player, store, session):
    """Dragging over the timeline opens the question under the pointer, keys step, and the address follows. Buttons and
    keys open the next mistake, positive or surprise; Shift with a key opens the previous one. A button at each question
    opens the rounds before it in which nothing was asked."""
    player = open_player()
    steps = look_back.Trace(store, session).steps
    box = player("timeline").bounding_box()
    at = [box["x"] + box["width"] * (share - 0.5) / steps for share in (10, 20, 30)]
    player.page.mouse.move(at[0], box["y"] + 30)
    player.page.mouse.down()
    player.at("q10")
    player.page.mouse.move(at[1], box["y"] + 30, steps=4)
    player.page.mouse.move(at[2], box["y"] + 30, steps=4)
    player.page.mouse.up()
    player.at("q30")
    expect(player("timeline")).to_have_attribute("aria-valuenow", "30")
    for key, place in (("ArrowRight", 31), ("ArrowRight", 32), ("ArrowLeft", 31), ("Home", 1), ("End", steps)):
        player.page.keyboard.press(key)
        player.at(f"q{place}")
    expect(player("text")).to_contain_text("The budget of 40 labels is spent")
    player.page.wait_for_url(f"**question={steps}*")
    trace = look_back.Trace(store, session)
    positives = [entry.number for entry in trace.log if entry.label == 1]
    for kind, key, numbers in (
        ("mistake", "m", trace.mistakes), ("positive", "p", positives), ("surprise", "s", trace.surprises),
    ):  # fmt: skip
        player.page.keyboard.press("Home")
        player.at("q1")
        first, second = [number for number in numbers if number > 1][:2]
        player(f"next-{kind}").click()
        player.at(f"q{first}")
        player.page.keyboard.press(key)
        player.at(f"q{second}")
        player.page.keyboard.press(f"Shift+{key.upper()}")
        player.at(f"q{first}")
    number = next(n for n in range(20, trace.steps) if trace.step(n).passed.rounds > 1)
    go_to(player, number)
    passed = trace.step(number).passed
    expect(player("passed")).to_contain_text(f"{passed.rounds} rounds, {passed.pushed} pushed")
    player("passed").get_by_role("button").click()
    player.at(f"r{passed.first + 1}")
    first = trace.round(passed.first)[0].asked
    assert (f"{first.margin:.3f}", "not asked") == (player.fact("Margin"), player.fact("Answer"))
    expect(player("text")).to_contain_text(trace.dataset.item(first.item)["text"])
    player.page.keyboard.press("Shift+ArrowRight")
    player.at(f"r{passed.first + 2}")
    player.page.keyboard.press("ArrowRight")
    player.at(f"q{number}")
    go_to(player, 12)


def go_to(player, question):
    """Go to a question by typing its number into the player's field."""
    number = player("number")
    number.select_text()
    number.press_sequentially(str(question))
    number.press("ArrowLeft")
    number.press("Enter")
    player.at(f"q{question}")


@pytest.mark.slow
def test_it_plays_and_stops(open_player, app, store, session):
    """The player plays up to the end, and stops at a key or when another page is opened. The other page loads
    completely, because the player does not ask a busy server for more data."""
    steps = look_back.Trace(store, session).steps
    player = open_player(steps - 6)
    player("speed").select_option("20")
    player("play").click()
    player.at(f"q{steps}")
    expect(player.root).to_have_attribute("data-playing", "false")
    player("speed").select_option("5")
    player.page.keyboard.press("Home")
    player.at("q1")
    player.page.locator("h1, b").first.click()
    player.page.keyboard.press(" ")
    expect(player.root).to_have_attribute("data-shown", re.compile(r"q([4-9]|\d\d)"))
    expect(player.root).to_have_attribute("data-playing", "true")
    player.page.keyboard.press("ArrowLeft")
    expect(player.root).to_have_attribute("data-playing", "false")
    player("play").click()
    before = listeners(player.page)
    with app.frozen():
        player.page.get_by_role("link", name="Data", exact=True).click()
        player.page.keyboard.press("End")
        player.page.evaluate("new Promise(done => setTimeout(done, 300))")  # longer than the player takes to ask
    expect(player.root).to_have_count(0)
    player.page.get_by_test_id("stFileUploader").wait_for()
    after = listeners(player.page)
    assert before.count("keydown") - 1 == after.count("keydown")


def test_it_follows_what_is_answered_elsewhere(open_player, store, session):
    """The player has one more question after an answer in another process, as soon as it asks the server again."""
    number = answer(store, store.session(session)["dataset"], 10)
    player = open_player(11, number)
    expect(player("facts")).to_contain_text("waits for its answer")
    opened = Session(store, number)
    opened.answer("one more", opened.place.asked.id, 1, "Bob")
    player.page.keyboard.press("Home")
    player.at("q1")
    player.page.keyboard.press("End")
    player.at("q12")


@pytest.mark.slow
def test_a_session_travels(visit, open_player, store, session, tmp_path):
    """A downloaded session opens and passes verification in another database that has the same data. If the data are
    missing, a sentence says so."""
    player = open_player()
    page = player.page
    page.get_by_role("tab", name="Verify").click()
    page.get_by_role("button", name="Verify", exact=True).click()
    expect(page.get_by_text(str(look_back.verify(store, session)))).to_be_visible()
    page.get_by_role("tab", name="Publish", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the session").click()
    file = tmp_path / "session.jsonl"
    download.value.save_as(file)
    expected = io.StringIO()
    bundle.publish(store, session, expected)
    assert expected.getvalue() == file.read_text()
    (tmp_path / "there").mkdir()
    with running(tmp_path / "there") as there:
        page = visit(there, "/Replay")
        page.locator("input[type=file]").set_input_files(file)
        page.get_by_role("button", name="Open it here").click()
        expect(page.get_by_text("it is not here. Import the same file with the same settings")).to_be_visible()
        add_texts(there.store, tmp_path, "the same texts")
        page.get_by_role("button", name="Open it here").click()
        expect(page.get_by_text("It is session 1 here. Verified bit for bit")).to_be_visible()
        page.get_by_role("link", name="Replay it").click()
        Player(page).at("q1")
        assert look_back.verify(store, session).as_dict() | {"session": 1} == look_back.verify(there.store, 1).as_dict()
        page.goto("about:blank")  # so that no pending request fails when the app ends
