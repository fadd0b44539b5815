"""Where things happen too fast, or not at all: nothing is labelled unseen, nothing is lost or stored twice."""

import csv
import json
import lzma
import os
import re
import subprocess
import sys
from contextlib import closing

import pytest
from playwright.sync_api import Error, expect

from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from tests.harness import ROOT
from tests.harness.browser import Card, button, choose, history, running
from tests.harness.proxy import Line

WATCH = """() => {
  const text = document.querySelector("[data-testid=stBidiComponentIsolated]").shadowRoot
    .querySelector("[data-testid=oal-text]");
  window.painted = {};
  window.pressed = [];
  const frame = () => {
    const item = text.textContent.match(/item (\\d+)/)?.[1];
    setTimeout(() => painted[item] ??= performance.now());
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  let now;
  addEventListener("keydown", event => now = event.timeStamp, true);
  const known = new Set(), setItem = Storage.prototype.setItem;
  Storage.prototype.setItem = function (name, value) {
    if (name.startsWith("oal-unsaved")) {
      const {id, question} = JSON.parse(value).event;
      known.has(id) || known.add(id) && pressed.push([question, now]);
    }
    return setItem.call(this, name, value);
  };
}"""


@pytest.mark.parametrize("delay", [0, 20])
def test_fast_typing_labels_nothing_that_was_not_painted(label, store, delay):
    """Each label belongs to an item that was on the screen before its key was down; other keys are lost."""
    session, card = label()
    card.page.evaluate(WATCH)
    card.page.wait_for_function("Object.keys(painted).length")
    card.page.keyboard.type("aax0xa1xxa" * 6, delay=delay)
    card.saved()
    painted, pressed = card.page.evaluate("[painted, pressed]")
    items = {row["id"]: str(row["item"]) for row in store.answers(session) if row["label"] is not None}
    tick = 1  # ms, coarser than the browser's clock
    assert pressed
    assert [question for question, _ in pressed] == list(items)
    assert [question for question, at in pressed if painted.get(items[question], at + 99) > at + tick] == []


def test_a_held_key_writes_one_label(label, store):
    """Half a second on a key is one answer."""
    session, card = label()
    old = card.question
    for _ in range(20):
        card.page.keyboard.down("a")
    expect(card.root).not_to_have_attribute("data-question", old)
    for _ in range(20):
        card.page.keyboard.down("a")
    card.page.keyboard.up("a")
    card.saved()
    assert history(store, session) == [("i0", 1, True)]


def test_keys_typed_into_a_field_or_before_a_dialog_label_nothing(label, store):
    """A name typed on the Label page is a name."""
    session, card = label()
    card.page.get_by_test_id("stPopoverButton").click()
    field = card.page.get_by_role("textbox", name="Your name")
    field.fill("")
    field.press_sequentially("Max Zax 01")
    field.press("Enter")
    expect(card.page.get_by_test_id("stPopoverButton")).to_have_text(re.compile("^Max Zax 01"))
    card.tap("Escape")
    expect(field).to_be_hidden()
    card.page.evaluate("document.activeElement.blur()")
    assert history(store, session) == []
    card.press("a")
    card.saved()
    assert [row["annotator"] for row in store.answers(session) if row["label"]] == ["Max Zax 01"]


def test_a_reload_keeps_the_item_and_the_unsaved_answers(label, app, store):
    """Answers that reached no server outlive a reload, which the browser warns of, and are stored once."""
    session, card = label()
    page, dialogs = card.page, []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.type), dialog.accept()))
    card.press("a")
    card.saved()
    app.kill()
    card.press("x")
    card.tap("a")
    card.says("unsaved 2 · kept in this browser, and sent when the server is back")
    with pytest.raises(Error, match="ERR_CONNECTION_REFUSED"):
        page.reload()
    app.start()
    page.goto(app.url(f"/Label?session={session}"))
    card.saved()
    expect(card("text")).to_contain_text("item 3 ")
    assert history(store, session) == [("i0", 1, True), ("i1", -1, True), ("i2", 1, True)]
    page.reload()
    card.ready()
    expect(card("text")).to_contain_text("item 3 ")
    assert dialogs == ["beforeunload"]


@pytest.mark.parametrize("how", ["closed", "silent", "deaf"])
def test_a_connection_that_is_cut_loses_nothing(visit, app, store, texts, how):
    """Answers given while the network is gone, or while only the way back is, are stored once when it returns, whether
    they had reached the server or not; the card says meanwhile that it keeps them."""
    session = create(store, texts, learner="pa-i", rule="all")
    with closing(Line(app.port)) as line:
        card = Card(visit(line, f"/Label?session={session}"))
        card.press("a")
        card.saved()
        with line.cut(how):
            card.press("x")
            card.tap("a")
            card.says("unsaved 2 · kept in this browser, and sent when the server is back")
        card.saved()
        card.says("Saved")
        expect(card.page.get_by_role("dialog")).to_have_count(0)
        expect(card("text")).to_contain_text("item 3 ")
        card.press("x")
        card.saved()
        card.page.close()
    assert [("i0", 1, True), ("i1", -1, True), ("i2", 1, True), ("i3", -1, True)] == history(store, session)


def test_what_cannot_be_stored_is_kept_and_sent_again(label, store):
    """Where the database refuses, the card says so and keeps the answers until they are stored, in order."""
    session, card = label()
    with store.transaction():
        store.db.execute("CREATE TRIGGER broken BEFORE INSERT ON labels BEGIN SELECT abs(-9223372036854775808); END")
    try:
        card.press("x")
        card.says(re.compile(r"^Not saved yet\. .*integer overflow\..* It is kept here and sent again\.$"))
        expect(card.root).to_have_attribute("data-unsaved", "1")
        assert history(store, session) == []
    finally:
        with store.transaction():
            store.db.execute("DROP TRIGGER broken")
    card.press("a")
    card.saved()
    card.says("Saved")
    assert history(store, session) == [("i0", -1, True), ("i1", 1, True)]


def test_answers_that_reach_the_server_twice_are_stored_once(label, app, store):
    """A reload sends again what a slow server has not acknowledged but gets from the old page, too."""
    session, card = label()
    card.page.on("dialog", lambda dialog: dialog.accept())
    with card.page.expect_navigation(), app.frozen():
        card.press("x")
        card.tap("a")
        expect(card.root).to_have_attribute("data-unsaved", "2")
        card.page.evaluate("void setTimeout(() => location.reload())")
    card.saved()
    card.says("Saved")
    expect(card("text")).to_contain_text("item 2 ")
    assert history(store, session) == [("i0", -1, True), ("i1", 1, True)]


def test_forty_labels_of_a_real_stream_survive_a_killed_server(visit, shared, tmp_path):
    """Every answer around two kills, also those pressed while no server is there, is stored exactly once."""
    path = shared("happymoments.csv.xz")
    with lzma.open(path, "rt", encoding="utf-8", newline="") as lines:
        truth = {row["hmid"]: 1 if "exercise" in row["concepts"].split("|") else -1 for row in csv.DictReader(lines)}
    command = "--name happy --text moment --label concepts --positive exercise --contains --json".split()
    with running(tmp_path) as app:
        imported = subprocess.run(
            [sys.executable, "-m", "oal_engine", "import", str(path), *command],
            cwd=ROOT, env=os.environ | {"OAL_DB": str(app.database)}, check=True, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert json.loads(imported.stdout)["items"] == 27775
        page = visit(app)
        button(page, "New session").click()
        page.get_by_label("Budget (labels)").fill("300")
        page.get_by_text("For researchers").click()
        choose(page, "Algorithm", "OA3-diag")
        button(page, "Start labeling").click()
        card, answered = Card(page), []

        def answer(wait=True):
            item = card.item
            answered.append((item, truth[item], True))
            (card.press if wait else card.tap)("a" if truth[item] > 0 else "x")

        for _ in range(15):
            answer()
        answer(wait=False)
        app.kill()
        app.start()
        card.saved()
        for _ in range(14):
            answer()
        card.saved()
        app.kill()
        answer()
        answer(wait=False)
        card.says("unsaved 2 · kept in this browser, and sent when the server is back")
        card.tap("a")
        app.start()
        card.saved()
        card.says("Saved")
        while len(answered) < 40:
            answer()
        card.saved()
        store = app.store
        (row,) = store.sessions()
        assert (row["algorithm"], row["budget"], row["labels"]) == ("OA3-diag", 300, 40)
        assert history(store, row["id"]) == answered
        assert {label for _, label, _ in answered} == {1, -1}
        rebuilt = Session(store, row["id"])
        parameters = rebuilt.strategy.parameters
        again = Session(store, create(store, row["dataset"], "OA3-diag", parameters=parameters, budget=300))
        for n, (_, label, _) in enumerate(answered):
            again.answer(f"again-{n}", again.place.asked.id, label)
        assert rebuilt.digest() == Session(store, row["id"]).digest() == again.digest()


LEAVE = """([page, late]) => {
  document.querySelector(`[data-testid=stPageLink-NavLink][href^=${page}]`).click();
  if (late == "a") document.dispatchEvent(new KeyboardEvent("keydown", {key: late}));
  else document.querySelector(late).click();
}"""


def test_a_page_that_was_left_does_not_take_the_next_one_away(label, store):
    """What is clicked or answered on the old page before the new one has come leaves that one whole, and the answer is
    stored on the way back."""
    session, card = label()
    page = card.page

    def leave(name, late, there):
        page.evaluate(LEAVE, [name, late])
        tab = page.get_by_role("tab", name=there)
        expect(tab).to_be_visible()
        page.wait_for_load_state("networkidle")
        expect(tab).to_be_visible()

    leave("Replay", "a", "Verify")
    leave("Label", "a", "Guidelines")
    Card(page).saved()
    assert [row["label"] for row in store.answers(session) if row["label"]] == [1]
    leave("Replay", "[role=tab]:last-of-type", "Verify")
    leave("Label", "[role=tab]:last-of-type", "Guidelines")
