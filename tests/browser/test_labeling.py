"""Labeling as people do it: a real server, a real browser, real keys, and then a look into the database."""

import re

import pandas
import pytest
from playwright.sync_api import expect

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.kernel import metrics
from oal_engine.sessions.files import export
from oal_engine.sessions.insights import curves, outcome
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from tests.harness.browser import PHONE, Card, button, history, listeners, tab
from tests.harness.markup import MARKUP, RUN

# Labeling


def test_keys_answer_with_one_of_several_classes(visit, app, store, tmp_path):
    """A data set of classes becomes a session in the form, whose keys are numbers; what they say is in the database."""
    words = ("joy", "anger", "fear", "grief")
    path = tmp_path / "feelings.csv"
    path.write_text("id,text,kind\n" + "\n".join(f"m{k},{words[k % 4]} and {k % 9},{words[k % 4]}" for k in range(80)))
    columns = reading.Columns(text=("text",), label="kind", id="id", multiclass=True)
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


def test_counters_and_figures_change_with_the_answer_and_not_with_the_question(label, store):
    """While an item waits that the model predicts as positive, nothing on the page has counted it."""
    session, card = label(positive_name="Good")
    while True:
        *answered, waiting = store.answers(session)
        if len(answered) > 5 and waiting["predicted"] > 0:
            break
        card.press("a" if store.item(store.session(session)["dataset"], waiting["item"])["y"] > 0 else "x")
        card.saved()
    hits = [(row["predicted"] > 0, row["label"] > 0) for row in answered]
    f1 = 2 * hits.count((True, True)) / sum(map(sum, hits))
    expect(card.page.locator(".oal-result")).to_contain_text(re.compile(f"F1.*?{f1:.3f}"))
    expect(card("tally").locator("div").filter(has_text="pushed").locator("dd")).to_have_text("0")  # all were asked
    tab(card.page, "Pushed")
    expect(card.page.get_by_text("Nothing was pushed yet.")).to_be_visible()


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
        expected = curves.of_session(Session(store, session))
        drawn = card.page.get_by_test_id("stPlotlyChart")
        expect(drawn).to_have_count(3)
        for chart, now in zip(drawn.all(), expected):
            expect(chart).to_have_attribute("aria-label", now.alt)
            ends = [[line.name, float(line.x[-1]), float(line.y[-1])] for line in now.lines]
            card.page.wait_for_function(ENDS, arg=[chart.locator(".js-plotly-plot").element_handle(), ends])
            assert chart.locator("path.js-line").count() == len(ends)


ENDS = """([plot, ends]) => {
  const last = values => [...(values._inputArray ?? values)].at(-1);
  const drawn = plot.data.map(({name, x, y}) => [name, last(x), last(y)]);
  return JSON.stringify(drawn) === JSON.stringify(ends);
}"""


def test_an_axis_of_counts_has_only_whole_numbers(visit, app, store, texts):
    """Before the fifth label was used, no two marks of the axis have the same number."""
    session = create(store, texts, learner="pool", rule="paced", budget=20)
    card = Card(visit(app, f"/Label?session={session}"))
    card.press("x")
    card.saved()
    chart = card.page.get_by_test_id("stPlotlyChart").and_(card.page.locator("[aria-label^='Labels over']"))
    expect(chart.locator(".ytick text")).to_have_text(["0", "2", "4"])


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


def test_two_people_on_one_session_get_items_of_their_own(visit, app, another, store, texts):
    """Each answer is stored once and for the item that its annotator saw; an undo that others have overtaken shows the
    item once more, and the next answer corrects it."""
    session = create(store, texts, learner="pa-i", rule="all")
    cards = {
        "anna": Card(visit(app, f"/Label?session={session}&annotator=anna")),
        "ben": Card(visit(app, f"/Label?session={session}&annotator=ben", viewport=PHONE, context=another)),
    }
    expect(cards["ben"]("text")).to_contain_text("item 1 ")  # some seconds later, as anna was alone until then
    seen = []
    for name, key, label in (("anna", "a", 1), ("ben", "x", -1), ("anna", " ", 0), ("ben", "a", 1), ("anna", "x", -1)):
        seen.append((name, cards[name].item, label))
        cards[name].press(key)
        cards[name].saved()
    rows = [row for row in store.answers(session) if row["label"] is not None]
    ids = store.items(store.session(session)["dataset"], [row["item"] for row in rows])
    assert sorted(seen) == sorted((row["annotator"], ids[row["item"]]["id"], row["label"]) for row in rows)
    assert 5 == len({item for _, item, _ in seen})
    cards["ben"].press("x")
    cards["ben"].saved()
    cards["anna"].press("z")
    assert seen[-1][1] == cards["anna"].item
    cards["anna"].press("a")
    cards["anna"].saved()
    assert (seen[-1][1], 1, True) in history(store, session)


def test_items_that_are_asked_twice_come_among_the_others(label, store):
    """Every key brings the next item, up to the last one that is asked again; an answer given again costs no label, and
    Undo brings its item back."""
    session, card = label(repeat=1, budget=23)
    seen, again = [], []
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
    """What was answered elsewhere is not asked again nor overwritten; an answer that came too late is kept."""
    session, card = label()
    other = Session(store, session)
    other.answer("elsewhere 1", other.place.asked.id, 1, "carla")
    card.press("x")
    card.saved()
    expect(card("text")).not_to_contain_text("item 0 ")
    assert [("late", -1)] == [(row["kind"], row["label"]) for row in store.opinions(session)]
    card.page.reload()
    card.ready()
    card.press(" ")
    card.saved()
    assert [("i0", 1, True), 0] == [history(store, session)[0], history(store, session)[1][1]]


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
    result = ", ".join(f"Weighted sum {each['sum']:.3f} and F1 {each['f1']:.3f} under push" for each in (push, both))
    expect(card("text")).to_contain_text(sentence)
    expect(card("text")).to_contain_text(result)
    f1 = card.page.locator(".oal-result tr").filter(has_text=re.compile("^F1"))
    expect(f1).to_contain_text(f"{push['f1']:.3f}{both['f1']:.3f}")
    card.page.keyboard.type("ax 10")
    card.page.reload()
    card.ready()
    expect(card("text")).to_contain_text(sentence)
    expect(card("text")).to_contain_text(result)
    for line in outcome.of_session(ended).sentences("Relevant"):
        expect(card("text")).to_contain_text(line)
    with card.page.expect_download() as download:
        button(card.page, "Download the list of positives").click()
    listed = pandas.read_csv(download.value.path())
    assert [row[1] for row in export.positives(ended)[0].rows] == listed["id"].tolist()
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


# Beside the card


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
