"""Items that arrive while a page is open, in a real browser."""

import json
import subprocess
import sys

from oal_engine import datasets
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from tests.harness import ROOT
from tests.harness.browser import Card, history
from tests.harness.sessions import stream_of


def test_an_open_page_gets_the_items_of_a_feed(visit, app, store):
    """A card at the end of its stream asks again within two seconds of an append by another process."""
    datasets.add(store, "fed", datasets.table(stream_of(3)[1]), "made.npz")
    session = create(store, "fed", learner="pa-i", rule="all", horizon=28)
    Session(store, session)  # compiles, which would take its time from the page
    page = visit(app, f"/Label?session={session}")
    card = Card(page)
    for _ in range(3):
        card.press("x")
    card.saved()
    assert "" == card.question
    lines = "".join(json.dumps({f"f{k}": k + n for k in range(8)}) + "\n" for n in range(25))
    command = [sys.executable, "-m", "oal_engine", "append", "fed", "-", "--db", str(app.database)]
    subprocess.run(command, cwd=ROOT, input=lines, text=True, check=True)
    page.locator("[data-testid=oal-card]:not([data-question=''])").wait_for(timeout=4000)
    page.get_by_text("25 new items have arrived.").wait_for()
    card.press("a")
    card.saved()
    assert 4 == len(history(store, session))
