"""People label with a real server, a real browser and real keys; then the tests check the database."""

import re

import pandas
import pytest
from playwright.sync_api import expect

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.kernel import metrics
from oal_engine.sessions import look_back
from oal_engine.sessions.files import export
from oal_engine.sessions.insights import curves, outcome
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from tests.harness.browser import PHONE, Card, button, choose, history, listeners, tab
from tests.harness.markup import MARKUP, RUN

# Labeling


@pytest.mark.slow
def test_keys_answer_with_one_of_several_classes(label, store, tmp_path):
    """Number keys answer in a session of four classes, and the database, the counts on the buttons and Undo agree with
    the keys that were pressed."""
    words = ("joy", "anger", "fear", "grief")
    path = tmp_path / "feelings.csv"
    path.write_text("id,text,kind\n" + "\n".join(f"m{k},{words[k % 4]} and {k % 9},{words[k % 4]}" for k in range(80)))
    columns = reading.Columns(text=("text",), label="kind", id="id", multiclass=True)
    dataset, *_ = datasets.import_file(store, path, "feelings", columns)
    session, card = label(dataset, learner="m-pa-i", classes=tuple(sorted(words)))
    pressed, names = [], sorted(words)
    for _ in range(10):
        answer = 1 + names.index(words[int(card.item[1:]) % 4])
        pressed.append((card.item, answer, True))
        card.press(str(answer))
    card.saved()
    assert history(store, session) == pressed
    counted = [sum(answer == n for _, answer, _ in pressed) for n in range(1, 5)]
    assert card.root.locator(".classes .count").all_inner_texts() == [str(count) for count in counted]
    card.page.get_by_text("Macro F1").first.wait_for()
    card.press("z")
    card.saved()
    assert history(store, session) == [*pressed[:-1], (*pressed[-1][:2], False)]


@pytest.mark.slow
def test_several_questions_are_answered_by_keys(label, app, store):
    """Enter stores the labels of all questions exactly once, even if the server is killed meanwhile. Undo shows the
    item with its labels again, and a correction in History changes the label of one question only."""
    session, card = label(questions=["good", "even", "hot"], budget=40)
    states = [card(f"line-{n}") for n in (1, 2, 3)]

    def readable():
        card.page.wait_for_timeout(450)  # the card confirms no answer before

    for keys in (["1"], [], ["2", "Shift+3"]):
        readable()
        for key in keys:
            card.tap(key)
        card.press("Enter")
    card.saved()
    readable()
    app.kill()
    card.tap("3")
    card.tap("Enter")
    old = card.question
    expect(card("status")).to_contain_text("waiting for the server")
    expect(states[2]).to_have_attribute("aria-pressed", "true")
    app.start()
    expect(card.root).not_to_have_attribute("data-question", old)
    card.saved()
    expect(states[2]).to_have_attribute("aria-pressed", "false")
    card.press("z")
    expect(states[2]).to_have_attribute("aria-pressed", "true")
    card.tap("1")
    readable()
    card.press("Enter")
    card.saved()
    given = [[1, -1, -1], [-1, -1, -1], [-1, 1, 0], [1, -1, 1]]
    assert given == [row["labels"] for row in store.answers(session) if row["labels"]]
    tab(card.page, "History")
    choose(card.page, "Question", "even")
    row(card.page, "not even").first.wait_for()  # before that, the list shows another question
    row(card.page, "item 0 ").locator(".head").click()
    row(card.page, "questions already asked stay").get_by_role("button", name="even", exact=True).click()
    row(card.page, "was not even").wait_for()
    assert [1, 1, -1] == store.answers(session)[0]["labels"]
    readable()
    card.press("Enter")
    card.saved()
    assert look_back.verify(store, session).verified


@pytest.mark.slow
def test_keys_go_through_what_is_found(label, store, texts):
    """In the Find panel, the keys of the classes label the open item and open the next one, and do not answer the
    card's item."""
    session, card = label(texts, learner="pa-i", rule="all")
    page, asked = card.page, card.item
    tab(page, "Find")
    items = page.get_by_test_id("oal-list")
    items.get_by_role("searchbox").fill("good")
    heads = items.locator("li .head")
    expect(heads.nth(3)).to_contain_text("good")
    found = [head.locator(".id").inner_text() for head in heads.all()]
    heads.nth(1).click()
    for key in "axa":
        opened = items.locator("li.open")
        expect(opened.get_by_role("button", name="Relevant", exact=True)).to_be_visible()
        page.keyboard.press(key)
    expect(items.locator("li.open .id")).to_have_text(found[4])
    expect(items.locator("li .chip")).to_have_text(["Relevant", "Not relevant", "Relevant"])
    known = {store.items(texts, [item])[item]["id"]: row["label"] for item, row in store.known_labels(session).items()}
    assert dict(zip(found[1:4], (1, -1, 1))) == known
    assert ([], asked) == (history(store, session), card.item)


def test_counters_and_figures_change_with_the_answer_and_not_with_the_question(visit, app, store, texts):
    """While an item that the model predicts as positive waits for its answer, no number on the page includes it."""
    session = Session(store, create(store, texts, learner="pa-i", rule="all", positive_name="Good"))
    while True:
        *answered, waiting = store.answers(session.id)
        if len(answered) > 10 and waiting["predicted"] > 0:
            break
        session.answer(f"counted {len(answered)}", waiting["id"], 1 if waiting["item"] % 5 == 0 else -1)
    card = Card(visit(app, f"/Label?session={session.id}"))
    hits = [(row["predicted"] > 0, row["label"] > 0) for row in answered]
    f1 = 2 * hits.count((True, True)) / sum(map(sum, hits))
    expect(card.page.locator(".oal-result")).to_contain_text(re.compile(f"F1.*?{f1:.3f}"))
    expect(card("tally").locator("div").filter(has_text="pushed").locator("dd")).to_have_text("0")  # all were asked
    tab(card.page, "Pushed")
    card.page.get_by_text("Nothing was pushed yet.").wait_for()


def test_one_click_leads_to_the_demo_where_keys_answer(visit, app, store):
    """Try the demo opens the card, and the database holds exactly the answers that the keys gave: a skip uses no label,
    and Undo shows each item again with its answer marked. The logo needs no network."""
    page = visit(app)
    page.locator(".oal-name img").wait_for()
    expect(page.locator("link[rel~=icon]")).to_have_attribute("href", re.compile("^data:image/svg"))
    button(page, "Try the demo").click()
    card = Card(page)
    expect(page).to_have_url(re.compile(r"/Label\?session=\d+$"))
    pressed = []
    for key, answer in (("a", 1), ("x", -1), (" ", 0), ("1", 1), ("0", -1), ("Shift+A", 1)):
        pressed.append((card.item, answer, True))
        card.press(key)
    for n, name in ((5, "button-1"), (4, "button--1")):
        card.press("z")
        assert card.item == pressed[n][0]
        expect(card(name)).to_contain_text("was your answer")
        expect(card.root.locator(".mark:visible")).to_have_count(1)
        pressed[n] = (*pressed[n][:2], False)
    for key, answer in (("x", -1), ("x", -1)):
        pressed.append((card.item, answer, True))
        card.press(key)
    card.saved()
    card.says("Saved")
    session, *_ = store.sessions()
    assert history(store, session["id"]) == pressed
    expect(card("counters")).to_contain_text("5 of 300 labels used, 295 left")
    expect(card("counters").locator("dd")).to_have_text(["2", "3", "1", re.compile(r"\d+"), re.compile(r"\d+")])


@pytest.mark.slow
def test_the_charts_beside_the_card_follow_the_answers(visit, app, store, texts):
    """Each chart next to the card ends at the values computed from the log, and a short axis repeats no number."""
    session = create(store, texts, learner="pool", rule="paced", budget=20)
    card = Card(visit(app, f"/Label?session={session}"))
    for key in "axaxaxaxaxa xz":
        card.press(key)
    card.saved()
    expected = curves.of_session(Session(store, session))
    drawn = card.page.get_by_test_id("stPlotlyChart")
    expect(drawn).to_have_count(len(expected))
    for place, (chart, now) in enumerate(zip(drawn.all(), expected)):
        expect(chart).to_have_attribute("aria-label", now.alt)
        ends = [[line.name, float(line.x[-1]), float(line.y[-1])] for line in now.lines]
        card.page.wait_for_function(ENDS, arg=[place, ends])
        assert chart.locator("path.js-line").count() == len(ends)
    labels = drawn.and_(card.page.locator("[aria-label^='Labels over']"))
    expect(labels.locator(".ytick text")).to_have_text(["0", "5", "10"])


ENDS = """([place, ends]) => {
  const plot = document.querySelectorAll("[data-testid=stPlotlyChart] .js-plotly-plot")[place];
  if (!plot?.data) return false;
  const last = values => [...(values._inputArray ?? values)].at(-1);
  const drawn = plot.data.map(({name, x, y}) => [name, last(x), last(y)]);
  return JSON.stringify(drawn) === JSON.stringify(ends);
}"""


@pytest.mark.slow
def test_two_people_on_one_session_get_items_of_their_own(visit, app, another, store, texts):
    """Each answer is stored once, for the item that its annotator saw. A skipped item that one person answers leaves
    the other person's pass over skipped items. Undo shows a person's own last item, even if others have answered since,
    and the next answer corrects it."""
    session = create(store, texts, learner="pa-i", rule="all")
    anna = Card(visit(app, f"/Label?session={session}&annotator=anna"))
    ben = Card(visit(app, f"/Label?session={session}&annotator=ben", viewport=PHONE, context=another))
    expect(ben("text")).to_contain_text("item 1 ")  # takes some seconds: anna was alone until then
    seen = []
    for who, card, key, answer in (
        ("anna", anna, " ", 0), ("ben", ben, "x", -1), ("anna", anna, "a", 1), ("ben", ben, "a", 1),
    ):  # fmt: skip
        seen.append((who, card.item, answer))
        card.press(key)
        card.saved()
    rows = [row for row in store.answers(session) if row["label"] is not None]
    ids = store.items(texts, [row["item"] for row in rows])
    assert sorted(seen) == sorted((row["annotator"], ids[row["item"]]["id"], row["label"]) for row in rows)
    assert 4 == len({item for _, item, _ in seen})
    waiting = anna.item
    for card in (anna, ben):
        old = card.question
        card("offer").click()
        expect(card.root).not_to_have_attribute("data-question", old)
        expect(card("why")).to_contain_text("You skipped this earlier (1 left).")
        expect(card("text")).to_contain_text("item 0 ")
    ben("button--1").click()
    ben.saved()
    expect(ben("text")).not_to_contain_text("item 0 ")
    anna.tap("Escape")
    expect(anna("text")).to_contain_text(f"item {waiting[1:]} ")
    assert [("i0", 0, False), ("i0", -1, True)] == [row for row in history(store, session) if row[0] == "i0"]
    anna.press("x")
    anna.saved()
    ben.press("x")
    ben.saved()
    anna.press("z")
    assert waiting == anna.item
    anna.press("a")
    anna.saved()
    assert (waiting, 1, True) in history(store, session)


@pytest.mark.slow
def test_items_that_are_asked_twice_come_among_the_others(visit, app, store, texts):
    """In a session that repeats items, the repeated ones appear among the new ones. Answering an item again costs no
    label, and Undo then shows it again."""
    session = create(store, texts, learner="pa-i", rule="all", repeat=1, budget=23)
    opened = Session(store, session)
    for k in range(19):
        opened.answer(f"first {k}", opened.place.asked.id, 1)
    card = Card(visit(app, f"/Label?session={session}"))
    seen, again = [f"i{k}" for k in range(19)], []
    while card.question:
        given = len({*seen})
        expect(card("used")).to_have_text(f"{given} of 23 labels used, {23 - given} left")
        asked_before = card.item in seen
        (again if asked_before else seen).append(card.item)
        card.press("x" if asked_before else "a")
        card.saved()
        if asked_before and card.question:
            card.press("z")
            assert again[-1] == card.item
            card.press("x")
            card.saved()
    assert ["i0", "i1", "i2"] == again
    assert [("again", -1)] * 3 == [(row["kind"], row["label"]) for row in store.opinions(session)]
    assert [(f"i{k}", 1, True) for k in range(23)] == history(store, session)


def test_the_answers_of_another_process_are_seen(label, store):
    """An item that another process answered is not asked again. A late answer to it from an open page is stored as a
    late opinion and does not overwrite the first."""
    session, card = label()
    other = Session(store, session)
    other.answer("elsewhere 1", other.place.asked.id, 1, "carla")
    card.press("x")
    card.saved()
    expect(card("text")).not_to_contain_text("item 0 ")
    assert [("late", -1)] == [(row["kind"], row["label"]) for row in store.opinions(session)]
    card.press(" ")
    card.saved()
    assert [("i0", 1, True), 0] == [history(store, session)[0], history(store, session)[1][1]]


@pytest.mark.slow
def test_answers_go_to_the_session_on_the_screen(visit, app, store, texts):
    """A person who switches between two sessions through Home gives each answer to the session on the screen."""
    first, second = (create(store, texts, learner="pa-i", rule="all", name=f"the {nth}") for nth in ("first", "second"))
    page, expected = visit(app), {first: [], second: []}
    for session, key, answer in ((first, "a", 1), (second, "x", -1), (first, " ", 0)):
        page.locator(f".st-key-resume-{session} button").click()
        page.get_by_text("the first" if session == first else "the second", exact=True).wait_for()
        card = Card(page)
        expected[session].append((card.item, answer, True))
        card.press(key)
        card.saved()
        page.get_by_role("link", name="Home").click()
        button(page, "Try the demo").wait_for()
    assert {session: history(store, session) for session in expected} == expected


@pytest.mark.slow
def test_the_end_says_why_and_what_came_of_it(visit, app, store, texts):
    """Home lists a session with its number of labels. Once the budget is spent, the card says so, shows the result with
    the file of positives, and ignores keys except Undo. Home leads to the result."""
    session = create(store, texts, learner="pa-i", rule="all", budget=2, name="soon over")
    page = visit(app)
    entry = page.get_by_test_id("stHorizontalBlock").filter(has_text="soon over").last
    expect(entry).to_contain_text("0 of 2 labels, 0 positive")
    button(entry, "Resume").click()
    card = Card(page)
    for key in "ax":
        card.press(key)
    card.saved()
    sentence = "The budget of 2 labels is spent"
    ended = Session(store, session)
    push, both = (metrics.evaluate(ended.place.counts, name, ended.weights) for name in ("push", "push_query"))
    expect(card("text")).to_contain_text(sentence)
    for name, value in outcome.table(ended):
        expect(card("text")).to_contain_text(f"{name}{value}")
    f1 = page.locator(".oal-result tr").filter(has_text=re.compile("^F1"))
    expect(f1).to_contain_text(f"{push['f1']:.3f}{both['f1']:.3f}")
    page.keyboard.type("ax 10")
    page.get_by_role("link", name="Home").click()
    expect(entry).to_contain_text("2 of 2 labels, 1 positive")
    button(entry, "Result").click()
    card.ready()
    expect(card("text")).to_contain_text(sentence)
    expect(card("text")).to_contain_text(f"F1 under push{push['f1']:.3f}")
    with page.expect_download() as download:
        page.get_by_role("button", name=re.compile("Download the first")).click()
    listed = pandas.read_csv(download.value.path())
    assert [row[1] for row in export.positives(ended)[0].rows] == listed["id"].tolist()
    assert len(history(store, session)) == 2
    card.press("z")
    expect(card("button--1")).to_contain_text("was your answer")
    card.press("a")
    card.saved()
    expect(card("text")).to_contain_text(sentence)
    assert [("i0", 1, True), ("i1", -1, False), ("i1", 1, True)] == history(store, session)


@pytest.mark.slow
def test_the_card_is_gone_with_its_page(visit, app, store, texts):
    """No listener for keys remains after the Label page is left, and no key answers. The links keep the session and the
    name from the page's address."""
    session, _ = (create(store, texts, learner="pa-i", rule="all") for _ in range(2))
    page = visit(app, f"/?session={session}&annotator=anna")
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
        card.root.wait_for(state="detached")
        page.keyboard.type("ax 10z")
    assert [kind for kind in listeners(page) if kind in ("keydown", "beforeunload")] == [
        kind for kind in before if kind in ("keydown", "beforeunload")
    ]
    assert history(store, session) == [("i0", 1, True), ("i1", 1, True)]
    assert [row["annotator"] for row in store.answers(session) if row["label"]] == ["anna", "anna"]


# The panels next to the card


def row(page, text):
    """Return the row of a list that shows a text."""
    return page.locator(".rows li", has_text=text)


@pytest.mark.slow
def test_an_answer_is_corrected_in_the_history_beside_the_card(label, store):
    """In History, one click opens an answer and another corrects it; the card's counters follow, and its item and
    layout stay. In the search field, which finds answers by their words, the keys of the card are just letters."""
    session, card = label(budget=50)
    page, first = card.page, card.item
    for key in "axa":
        card.press(key)
    card.saved()
    place, item = card("button-1").bounding_box(), card.item
    tab(page, "History")
    row(page, f"item {first[1:]} ").locator(".head").click()
    row(page, "questions already asked stay").get_by_role("button", name="Not relevant", exact=True).click()
    row(page, "was Relevant").wait_for()
    expect(card("counters").locator("dd").nth(1)).to_have_text("2")
    assert (place, item) == (card("button-1").bounding_box(), card.item)
    assert [-1, -1, 1] == [entry["label"] for entry in store.answers(session)[:3]]
    search = page.get_by_test_id("oal-list-search")
    search.fill("")
    search.press_sequentially("axz good")
    expect(page.get_by_test_id("oal-list-rows")).to_have_text("No answer fits.")
    search.fill("good")
    expect(page.locator(".rows li")).to_have_count(1)
    search.evaluate("field => field.blur()")
    card.press("a")
    card.saved()
    assert [-1, -1, 1, 1, None] == [entry["label"] for entry in store.answers(session)]


@pytest.mark.slow
def test_a_pushed_item_is_marked_wrong_without_moving_the_card(visit, app, store, keep):
    """In the panel Pushed, an item opens with its text shown literally and can be marked wrong. The mark is stored, and
    the card does not move."""
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
