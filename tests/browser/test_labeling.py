"""People label with a real server, a real browser and real keys; then the tests check the database."""

import re

import pytest
from playwright.sync_api import expect

from oal_engine.sessions.insights import curves
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from tests.harness.browser import Card, button, history, listeners, tab
from tests.harness.markup import MARKUP, RUN

# Labeling


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
    tab(card.page, "For researchers")
    expected = curves.of_session(Session(store, session))
    drawn = card.page.get_by_test_id("stPlotlyChart")
    expect(drawn).to_have_count(len(expected))
    for place, (chart, now) in enumerate(zip(drawn.all(), expected)):
        expect(chart).to_have_attribute("aria-label", now.alt)
        ends = [[line.name, float(line.x[-1]), float(line.y[-1])] for line in now.lines]
        card.page.wait_for_function(ENDS, arg=[place, ends])
        assert chart.locator("path.js-line").count() == len(ends)
    labels = drawn.and_(card.page.locator("[aria-label^='Labels over']"))
    expect(labels.locator(".ytick text")).to_have_text(["0", "5", "10", "15"])


ENDS = """([place, ends]) => {
  const plot = document.querySelectorAll("[data-testid=stPlotlyChart] .js-plotly-plot")[place];
  if (!plot?.data) return false;
  const last = values => [...(values._inputArray ?? values)].at(-1);
  const drawn = plot.data.map(({name, x, y}) => [name, last(x), last(y)]);
  return JSON.stringify(drawn) === JSON.stringify(ends);
}"""


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
