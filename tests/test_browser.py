"""The app as people use it: a real server, a real browser, real keys, and then a look into the database."""

import csv
import json
import lzma
import os
import re
import subprocess
import sys

import pytest
from browser import DESKTOP, MARKUP, PHONE, RUN, Card, Server, listeners
from conftest import ROOT
from playwright.sync_api import Error, expect

from oal_engine import datasets
from oal_engine.datasets import formats
from oal_engine.kernel import metrics
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store
from ui import charts

COLUMNS = formats.Columns(text=("text",), label="label", id="id")


@pytest.fixture(scope="module")
def app(browser, tmp_path_factory):
    """The running app with an empty database; its output holds no traceback in the end."""
    server = Server(tmp_path_factory.mktemp("app"))
    yield server
    server.kill()
    assert "Traceback" not in server.log.read_text()


@pytest.fixture(scope="module")
def store(app):
    """The app's database, seen by a second process."""
    found = Store(app.database)
    yield found
    found.close()


@pytest.fixture(scope="module")
def keep(store, tmp_path_factory):
    """A function that imports texts, every fifth of them positive, as a data set; its id."""

    def add(name, texts, ids="i", columns=COLUMNS):
        path = tmp_path_factory.mktemp("texts") / "texts.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow(("id", "text", "label"))
            lines.writerows((f"{ids}{k}", text, int(k % 5 == 0)) for k, text in enumerate(texts))
        return datasets.import_file(store, path, name, columns)[0]

    return add


@pytest.fixture(scope="module")
def texts(keep):
    """A data set of 300 short texts."""
    return keep("texts", (f"item {k} has {'good' if k % 5 == 0 else 'other'} words{k % 7}" for k in range(300)))


@pytest.fixture
def label(visit, app, store, texts):
    """A function that makes a session in which every item is asked, and opens its card; the id and the card."""

    def make(dataset=texts, **settings):
        session = create(store, dataset, learner="pa-i", rule="all", **settings)
        return session, Card(visit(app, f"/Label?session={session}"))

    return make


def history(store, session):
    """Every answer that was ever stored, in order: item, label, and whether it stands."""
    rows = store.query(
        "SELECT items.id, labels.label, undone_at IS NULL AS stands FROM labels"
        " JOIN questions ON questions.id = question JOIN sessions ON sessions.id = session"
        " JOIN items ON items.dataset = sessions.dataset AND items.position = item"
        " WHERE session = ? ORDER BY labels.rowid",
        session,
    )
    return [(row["id"], row["label"], bool(row["stands"])) for row in rows]


def button(page, name):
    return page.get_by_role("button", name=name, exact=True)


# Labeling


def test_keys_answer_with_one_of_several_classes(visit, app, store, tmp_path):
    """A data set of classes becomes a session in the form, whose keys are numbers; what they say is in the database."""
    words = ("joy", "anger", "fear", "grief")
    path = tmp_path / "feelings.csv"
    path.write_text("id,text,kind\n" + "\n".join(f"m{k},{words[k % 4]} and {k % 9},{words[k % 4]}" for k in range(80)))
    columns = formats.Columns(text=("text",), label="kind", id="id", multiclass=True)
    datasets.import_file(store, path, "feelings", columns)
    page = visit(app)
    button(page, "New session").click()
    expect(page.get_by_text("4 classes: anger, fear, grief, joy")).to_be_visible()
    button(page, "Start labeling").click()
    card, pressed, names = Card(page), [], sorted(words)
    for _ in range(8):
        label = 1 + names.index(words[int(card.item[1:]) % 4])
        pressed.append((card.item, label, True))
        card.press(str(label))
    card.saved()
    (session, *_) = store.sessions()
    assert history(store, session["id"]) == pressed
    counted = [sum(label == n for _, label, _ in pressed) for n in range(1, 5)]
    assert card.root.locator(".classes .count").all_inner_texts() == [str(count) for count in counted]
    expect(page.get_by_text("Macro F1").first).to_be_visible()
    card.press("z")
    card.saved()
    assert history(store, session["id"]) == [*pressed[:-1], (*pressed[-1][:2], False)]


def test_the_logo_needs_neither_a_font_nor_a_network(visit, app):
    """It is a picture in the page, at its top and in the browser's tab."""
    page = visit(app)
    expect(page.locator(".oal-name img")).to_be_visible()
    expect(page.locator("link[rel~=icon]")).to_have_attribute("href", re.compile("^data:image/svg"))


def test_one_click_leads_to_the_demo_where_keys_answer(visit, app, store):
    """Try the demo opens the card; what was pressed, and nothing else, is in the database."""
    page = visit(app)
    button(page, "Try the demo").click()
    card = Card(page)
    expect(page).to_have_url(re.compile(r"/Label\?session=\d+$"))
    pressed = []
    for key, answer in (("a", 1), ("x", -1), (" ", 0), ("1", 1), ("0", -1), ("Shift+A", 1)):
        pressed.append((card.item, answer, True))
        card.press(key)
    card.press("z")
    assert card.item == pressed[-1][0]
    pressed[-1] = (*pressed[-1][:2], False)
    pressed.append((card.item, -1, True))
    card.press("x")
    card.saved()
    card.says("Saved")
    session, *_ = store.sessions()
    assert history(store, session["id"]) == pressed
    expect(card("counters")).to_contain_text("5 of 300 labels used, 295 left")
    expect(card("counters").locator("dd")).to_have_text(["2", "3", "1", re.compile(r"\d+"), re.compile(r"\d+")])


def test_the_charts_beside_the_card_follow_the_answers(label, store):
    """Sum, F1 and rates are drawn, and what they end in is what the log says, after each few answers."""
    session, card = label()
    for keys in ("axa", " xz"):
        for key in keys:
            card.press(key)
        card.saved()
        expected = charts.of_session(Session(store, session))
        drawn = card.page.get_by_test_id("stPlotlyChart")
        expect(drawn).to_have_count(3)
        for chart, now in zip(drawn.all(), expected):
            expect(chart).to_have_attribute("aria-label", now.alt)
            ends = [[trace["name"], float(trace["x"][-1]), float(trace["y"][-1])] for trace in now.figure["data"]]
            card.page.wait_for_function(ENDS, arg=[chart.locator(".js-plotly-plot").element_handle(), ends])
            assert chart.locator("path.js-line").count() == len(ends)


ENDS = """([plot, ends]) => {
  const last = values => [...(values._inputArray ?? values)].at(-1);
  const found = plot.data.map(({name, x, y}) => [name, last(x), last(y)]);
  return JSON.stringify(found) === JSON.stringify(ends);
}"""


def test_skip_costs_no_budget(label, store):
    """A skipped item is passed and stored, and no label is used."""
    session, card = label(budget=2)
    for _ in range(3):
        card.press(" ")
    card.saved()
    expect(card("counters")).to_contain_text("0 of 2 labels used, 2 left")
    assert history(store, session) == [(f"i{k}", 0, True) for k in range(3)]


def test_undo_brings_the_item_back_with_its_answer(label, store):
    """The item taken back says what was answered, and a new answer takes the place of the old one."""
    session, card = label()
    seen = []
    for key in "ax":
        seen.append(card("text").inner_text())
        card.press(key)
    for name, text in (("button--1", seen[1]), ("button-1", seen[0])):
        card.press("z")
        expect(card("text")).to_have_text(text)
        expect(card(name)).to_contain_text("was your answer")
        expect(card.root.locator(".mark:visible")).to_have_count(1)
    expect(card("undo")).to_have_attribute("aria-disabled", "true")
    card.press(" ")
    card.saved()
    assert history(store, session) == [("i0", 1, False), ("i1", -1, False), ("i0", 0, True)]


def test_two_people_on_one_session_overwrite_nothing(visit, app, store, texts):
    """Whoever answers later is told who was faster; each answer is stored once, and both go on."""
    session = create(store, texts, learner="pa-i", rule="all")
    anna = Card(visit(app, f"/Label?session={session}&annotator=anna"))
    ben = Card(visit(app, f"/Label?session={session}&annotator=ben", viewport=PHONE, own=True))
    anna.press("a")
    anna.saved()
    ben.tap("x")
    ben.says("Not stored: this item was answered already by anna.")
    expect(ben.root).to_have_attribute("data-question", anna.question)
    ben.press("x")
    ben.saved()
    ben.says("Saved")
    anna.tap("a")
    anna.says("Not stored: this item was answered already by ben.")
    expect(anna.root).to_have_attribute("data-question", ben.question)
    anna.press(" ")
    anna.saved()
    assert history(store, session) == [("i0", 1, True), ("i1", -1, True), ("i2", 0, True)]
    assert [row["annotator"] for row in store.answers(session)[:3]] == ["anna", "ben", "anna"]


def test_the_name_in_the_address_stays_with_its_browser(visit, app, store, texts):
    """Whoever came by a link with a name labels under it also after a look at another page."""
    session = create(store, texts, learner="pa-i", rule="all")
    page = visit(app, f"/Label?session={session}&annotator=anna")
    for _ in range(2):
        card = Card(page)
        card.press("a")
        card.saved()
        page.get_by_role("link", name="Home").click()
        expect(card.root).to_have_count(0)
        page.get_by_role("link", name="Label").click()
    assert [row["annotator"] for row in store.answers(session) if row["label"]] == ["anna", "anna"]


def test_the_answers_of_another_process_are_seen(label, store):
    """What was answered elsewhere is not asked again, nor overwritten, whether the page is loaded anew or not."""
    session, card = label()
    other = Session(store, session)
    other.answer("elsewhere 1", other.place.asked.id, 1, "carla")
    card.tap("x")
    card.says("Not stored: this item was answered already by carla.")
    expect(card("text")).to_contain_text("item 1 ")
    other.answer("elsewhere 2", other.place.asked.id, -1, "carla")
    card.page.reload()
    card.ready()
    expect(card("text")).to_contain_text("item 2 ")
    card.press(" ")
    card.saved()
    assert history(store, session) == [("i0", 1, True), ("i1", -1, True), ("i2", 0, True)]


def test_answers_go_to_the_session_on_the_screen(visit, app, store, texts):
    """From one session to another through Home and back, each keeps its own answers."""
    first, second = (create(store, texts, learner="pa-i", rule="all", name=f"the {nth}") for nth in ("first", "second"))
    page, expected = visit(app), {first: [], second: []}
    for session, key, answer in ((first, "a", 1), (second, "x", -1), (first, " ", 0), (second, "a", 1)):
        page.get_by_role("link", name="Home").click()
        button(page, "Try the demo").wait_for()
        page.locator(f".st-key-resume-{session} button").click()
        expect(page.get_by_text("the first" if session == first else "the second", exact=True)).to_be_visible()
        card = Card(page)
        expected[session].append((card.item, answer, True))
        card.press(key)
        card.saved()
    assert {session: history(store, session) for session in expected} == expected


@pytest.mark.parametrize(("items", "budget", "keys", "sentence"), [
    (30, 2, "ax", "The budget of 2 labels is spent"), (3, 30, "a x", "The stream has ended"),
])  # fmt: skip
def test_the_end_says_why_and_what_came_of_it(label, keep, visit, app, store, items, budget, keys, sentence):
    """When there is nothing left to ask, the page says so with the result, and the last answer can be taken back."""
    dataset = keep(f"{items} texts", (f"item {k} word{k % 3}" for k in range(items)))
    session, card = label(dataset, budget=budget, name=sentence)
    for key in keys:
        card.press(key)
    card.saved()
    ended = Session(store, session)
    push, both = (metrics.evaluate(ended.place.counts, name, ended.weights) for name in ("push", "push_query"))
    told = (f"Weighted sum {found['sum']:.3f} and F1 {found['f1']:.3f} under push" for found in (push, both))
    result = ", ".join(told)
    expect(card("text")).to_contain_text(sentence)
    expect(card("text")).to_contain_text(result)
    expect(card.page.locator(".oal-result")).to_contain_text(f"F1{push['f1']:.3f}{both['f1']:.3f}")
    card.page.keyboard.type("ax 10")
    card.page.reload()
    card.ready()
    expect(card("text")).to_contain_text(sentence)
    expect(card("text")).to_contain_text(result)
    assert len(history(store, session)) == len(keys)
    card.press("z")
    expect(card("button--1")).to_contain_text("was your answer")
    card.press("a")
    card.saved()
    expect(card("text")).to_contain_text(sentence)
    assert [answer for _, answer, stands in history(store, session)][-2:] == [-1, 1]
    assert [stands for *_, stands in history(store, session)][-2:] == [False, True]


def test_home_shows_progress_and_offers_the_result(visit, app, store, texts):
    """A session is listed with what was labelled; where its budget is spent it leads to the result."""
    create(store, texts, learner="pa-i", rule="all", budget=2, name="soon over")
    page = visit(app)
    entry = page.get_by_test_id("stHorizontalBlock").filter(has_text="soon over").last
    expect(entry).to_contain_text("0 of 2 labels, 0 positive")
    button(entry, "Resume").click()
    card = Card(page)
    for key in "ax":
        card.press(key)
    card.saved()
    page.get_by_role("link", name="Home").click()
    expect(entry).to_contain_text("2 of 2 labels, 1 positive")
    button(entry, "Result").click()
    expect(Card(page)("text")).to_contain_text("The budget of 2 labels is spent")


def test_the_card_is_gone_with_its_page(visit, app, store, texts):
    """After the Label page nothing listens to keys any more, and no key answers; the links keep the session."""
    session, _ = (create(store, texts, learner="pa-i", rule="all") for _ in range(2))
    page = visit(app, f"/?session={session}")
    home = button(page, "Try the demo")
    home.wait_for()
    before = listeners(page)
    for _ in range(2):
        page.get_by_role("link", name="Label").click()
        card = Card(page)
        card.press("a")
        card.saved()
        page.get_by_role("link", name="Home").click()
        home.wait_for()
        expect(card.root).to_have_count(0)
        page.keyboard.type("ax 10z")
    assert [kind for kind in listeners(page) if kind in ("keydown", "beforeunload")] == [
        kind for kind in before if kind in ("keydown", "beforeunload")
    ]
    assert history(store, session) == [("i0", 1, True), ("i1", 1, True)]


# When things happen too fast, or not at all

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
    card.says("unsaved 2 · waiting for the server…")
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
    app = Server(tmp_path)
    try:
        imported = subprocess.run(
            [sys.executable, "-m", "oal_engine", "import", str(path), *command],
            cwd=ROOT, env=os.environ | {"OAL_DB": str(app.database)}, check=True, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert json.loads(imported.stdout)["items"] == 27775
        page = visit(app)
        button(page, "New session").click()
        page.get_by_label("Budget (labels)").fill("300")
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
        card.says("unsaved 2 · waiting for the server…")
        card.tap("a")
        app.start()
        card.saved()
        card.says("Saved")
        while len(answered) < 40:
            answer()
        card.saved()
    finally:
        app.kill()
    store = Store(app.database)
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
    store.close()


# Every page


def choose(page, label, option):
    """Choose an option of a select box as a person does, once the page has come to rest."""
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
    field = page.get_by_role("combobox", name=label)
    field.evaluate("field => field.scrollIntoView({block: 'center'})")  # a list at the window's edge closes at once
    field.click()
    page.get_by_role("option", name=option, exact=True).click()


def unharmed(page):
    """Nothing on a page came of markup in the data."""
    assert page.locator(RUN).count() == 0
    assert page.evaluate("window.pwned") is None


def test_words_of_the_data_are_never_markup(visit, app, store, keep):
    """Names and texts that try to be HTML, Markdown or mathematics stand on every page as they are written."""
    unlabelled = formats.Columns(text=("text",), id="id")
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
    expect(page.get_by_text(MARKUP, exact=True)).to_be_visible()
    button(page, "New session").click()
    choose(page, "Data set", MARKUP)
    expect(page.get_by_role("combobox", name="Data set")).to_have_value(MARKUP)
    unharmed(page)
    page.goto(app.url("/Data"))
    expect(page.get_by_text(MARKUP, exact=True)).to_be_visible()
    unharmed(page)


def bounds(locator):
    """Where an element is: left, top, right, bottom."""
    box = locator.bounding_box()
    return box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]


def fits(page):
    """Nothing on a page is wider than its window."""
    found = page.evaluate(
        "[...document.querySelectorAll('html, [data-testid=stMain]')].map(e => [e.scrollWidth, e.clientWidth])"
    )
    assert [content for content, window in found if content > window] == []


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


# Data


def upload(page, path):
    """Choose a file in the dialog that the browser opens."""
    with page.expect_file_chooser() as chooser:
        button(page.get_by_test_id("stFileUploader"), "Upload").click()
    chooser.value.set_files(path)


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
    assert "Making vectors…" in page.evaluate("[...phases]")
    (row,) = (row for row in store.datasets() if row["name"] == "moments")
    assert (row["items"], row["positives"], row["negatives"]) == (12_000, 3_000, 9_000)
    assert store.item(row["id"], 5)["text"] == "text 5\nremark on 5"
    page.get_by_role("link", name="Start a session with it").click()
    expect(page.get_by_role("combobox", name="Data set")).to_have_value("moments")


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


# Beside the card


def tab(page, name):
    page.get_by_role("tab", name=name).click()
    expect(page.get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")


def row(page, text):
    """The row of a list that shows a text."""
    return page.locator(".rows li", has_text=text)


def test_an_answer_is_corrected_in_the_history_beside_the_card(label, store):
    """A click opens an answer, another one corrects it; the card's counters follow, its item and place stay."""
    session, card = label(budget=50)
    first = card.item
    for key in "axa":
        card.press(key)
    card.saved()
    place, item = card("button-1").bounding_box(), card.item
    tab(card.page, "History")
    row(card.page, f"item {first[1:]} ").locator(".head").click()
    row(card.page, "questions already asked stay").get_by_role("button", name="Not relevant", exact=True).click()
    expect(row(card.page, "was Relevant")).to_be_visible()
    expect(card("counters").locator("dd").nth(1)).to_have_text("2")
    assert (place, item) == (card("button-1").bounding_box(), card.item)
    assert [-1, -1, 1] == [entry["label"] for entry in store.answers(session)[:3]]
    card.press("a")
    card.saved()
    assert 1 == store.answers(session)[3]["label"]


def test_what_is_typed_into_a_search_labels_nothing(label, store):
    """The card's keys are letters in a search field, which finds what they say."""
    session, card = label(budget=50)
    card.press("a")
    card.press("x")
    card.saved()
    tab(card.page, "History")
    card.page.get_by_test_id("oal-list-search").fill("")
    card.page.get_by_test_id("oal-list-search").press_sequentially("axz good")
    expect(card.page.get_by_test_id("oal-list-rows")).to_have_text("No answer fits.")
    card.page.get_by_test_id("oal-list-search").fill("good")
    expect(card.page.locator(".rows li")).to_have_count(1)
    assert [1, -1, None] == [entry["label"] for entry in store.answers(session)]


def test_a_pushed_item_is_marked_wrong_without_moving_the_card(visit, app, store, keep):
    """What was pushed is opened, literally, and marked; the mark is in the database, and the card stays where it is."""
    dataset = keep("pushed", (f"{MARKUP} {'good' if k % 5 == 0 else 'bad'} {k}" for k in range(300)))
    rule = {"learner": "pa-i", "rule": "symmetric", "parameters": {"C": 1, "delta": 0.3}, "budget": 100}
    session = Session(store, create(store, dataset, **rule))
    for k in range(40):
        asked = session.place.asked
        session.answer(f"p{k}", asked.id, 1 if asked.item % 5 == 0 else -1)
    card = Card(visit(app, f"/Label?session={session.id}"))
    place = card("button-1").bounding_box()
    tab(card.page, "Pushed")
    head = card.page.locator(".rows .head").first
    head.click()
    expect(card.page.locator(".rows .open .text")).to_contain_text(MARKUP)
    card.page.locator(".rows .open").get_by_role("button", name="Wrong", exact=True).click()
    expect(card.page.locator(".rows .chip.wrong")).to_have_text("wrong")
    for name in ("Learned", "Guidelines", "Progress"):
        tab(card.page, name)
        assert place == card("button-1").bounding_box()
    assert card.page.locator(RUN).count() == 0
    _, predicted, asked = session.decided
    newest = [t for t in range(len(asked)) if predicted[t] > 0 and not asked[t]][-1]
    assert {int(session.order[newest]): False} == session.marks
