"""A person labels many items with keys alone in a session that asks several questions, while the questions change."""

import pytest
from playwright.sync_api import expect

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.sessions import look_back
from oal_engine.sessions.session import Session
from oal_engine.store import Store
from tests.harness.browser import button, tab
from tests.harness.sessions import travelled

WORDS = ["good", "other", "words1", "words2", "words3", "words4"]  # each is a question


@pytest.mark.slow
def test_sixty_readings_whose_questions_change(label, app, store, tmp_path):
    """A person labels sixty items by keys while a label is corrected, a sixth question is added after 30 items, a
    question is closed after 40, and the server is killed after 50. Every answer is stored as it was given, and the
    published session passes verification in another database."""
    path, elsewhere = tmp_path / "texts.csv", Store(tmp_path / "elsewhere.db")
    texts = (f"i{k},item {k} has {'good' if k % 5 == 0 else 'other'} words{k % 7}" for k in range(300))
    path.write_text("\n".join(["id,text", *texts]))
    columns = reading.Columns(text=("text",), id="id")
    dataset, _ = (datasets.import_file(each, path, "words", columns)[0] for each in (store, elsewhere))
    chosen = {"learner": None, "rule": None, "algorithm": "auto"}
    session, card = label(dataset, **chosen, questions=WORDS[:5], budget=60)
    page, given = card.page, []

    def answer():
        asked = [k for k in range(len(WORDS)) if card(f"line-{k + 1}").is_visible()]
        words = card("text").inner_text().split()
        page.wait_for_timeout(450)  # the card confirms no answer before
        for k in asked:
            if WORDS[k] in words:
                card.tap(str(k + 1))
        given.append([(1 if WORDS[k] in words else -1) if k in asked else 0 for k in range(5 + (5 in asked))])
        return asked

    def read(count):
        for _ in range(count):
            answer()
            card.press("Enter")
        card.saved()

    def questions():
        tab(page, "Guidelines")
        page.get_by_text("Questions", exact=True).click()

    read(30)
    questions()
    page.get_by_label("One more question").fill(WORDS[5])
    button(page, "Add").click()
    expect(page.get_by_test_id("stMain").get_by_text(WORDS[5], exact=True).first).to_be_visible()
    assert [0, 1, 2, 3, 4] == answer()  # this item was asked before the sixth question was added
    card.press("Enter")
    read(9)
    assert 6 == len(given[-1])
    page.locator(".st-key-close-words1").get_by_role("button").click()
    expect(page.locator(".st-key-close-words1")).to_have_count(0)
    read(10)
    assert 0 == given[-1][2]
    app.kill()
    answer()
    old = card.question
    card.tap("Enter")
    expect(card("status")).to_contain_text("waiting for the server")
    app.start()
    expect(card.root).not_to_have_attribute("data-question", old)
    card.saved()
    tab(page, "History")
    first = page.get_by_test_id("oal-list").locator("li").first
    first.locator(".head").click()
    was = given[-1][0]
    first.get_by_role("button", name="not good" if was == 1 else "good", exact=True).click()
    expect(first).to_contain_text("was")
    given[-1][0] = -was
    read(9)
    assert given == [entry.labels for entry in Session(store, session).log]
    assert look_back.verify(store, session).verified
    travelled(store, session, elsewhere)
    elsewhere.close()
