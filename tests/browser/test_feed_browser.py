"""Items that arrive while a page is open, in a real browser."""

from playwright.sync_api import expect

from oal_engine import datasets
from oal_engine.datasets import Dataset, feeds
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from tests.harness.browser import Card, history
from tests.harness.sessions import stream_of


def test_an_open_page_gets_the_items_of_a_feed(visit, app, store):
    """A card at the end of its stream asks again after another process appends items."""
    dataset = datasets.add(store, "fed", datasets.table(stream_of(3)[1]), "made.npz")
    session = Session(store, create(store, dataset, learner="pa-i", rule="all", horizon=28))
    for k in range(2):
        session.answer(f"{session.id} answer {k}", session.place.asked.id, -1)
    page = visit(app, f"/Label?session={session.id}")
    card = Card(page)
    card.press("x")
    card.saved()
    assert "" == card.question
    items = stream_of(25, seed=1)[1]
    items.ids = [f"late {k}" for k in range(25)]
    feeds.append(Dataset(store, dataset), items)
    page.locator("[data-testid=oal-card]:not([data-question=''])").wait_for()
    expect(page.get_by_text("25 new items have arrived.")).to_be_visible()
    card.press("a")
    card.saved()
    assert 4 == len(history(store, session.id))
