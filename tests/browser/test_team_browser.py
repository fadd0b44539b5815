"""Three people in real browsers label one stream while the server is killed."""

import io
import re

import pytest

from oal_engine.sessions import look_back
from oal_engine.sessions.files.bundle import adopt, publish
from oal_engine.sessions.insights import agreement
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store
from tests.harness.browser import Card, tab, warmed
from tests.harness.examples import add_texts

PEOPLE = ("anna", "ben", "carla")
BUDGET, KILLED_AT = 20, 8  # labels of the session; number of answers after which the server is killed


@pytest.fixture
def contexts(context, second_context, browser):
    with warmed(browser) as third:
        yield context, second_context, third


@pytest.mark.slow
def test_a_team_labels_to_the_end_while_the_server_is_killed(visit, app, store, contexts, tmp_path):
    """Three people label one stream, with two people for four fifths of the items. Every label around a kill of the
    server is stored once, kappa is shown, and the exported session passes verification in another database."""
    dataset, copy = add_texts(store, tmp_path, "messages"), tmp_path / "again.db"
    session = create(store, dataset, "PAA-I", budget=BUDGET, overlap=0.8, shuffled=True)
    opened = Session(store, session)
    pages = [
        visit(app, f"/Label?session={session}&annotator={name}", context=own) for name, own in zip(PEOPLE, contexts)
    ]
    cards, given = [Card(page) for page in pages], 0
    for page in pages:  # takes some seconds: the first person was alone until then
        page.locator("[data-testid=oal-card]:not([data-question=''])").wait_for()
    while any(card.question for card in cards):
        for card in cards:
            if card.question:
                item = store.positions(dataset, [card.item])[card.item]
                card.press("ax"[item % 2])
                given += 1
                if given == KILLED_AT:
                    app.kill()
                    app.start()
                card.saved()
    assert given > KILLED_AT
    opened.refresh()
    rows = [row for row in store.answers(session) if row["label"]]
    assert BUDGET == len(rows) == len({row["item"] for row in rows})
    assert given == BUDGET + len(store.opinions(session))
    assert set(PEOPLE) == {row["annotator"] for row in rows}
    assert agreement.answer_pairs(opened)
    tab(pages[0], "Team")
    pages[0].get_by_text(re.compile(r"kappa 1\.00")).wait_for()
    file = io.StringIO()
    publish(store, session, file)
    other = Store(copy)
    add_texts(other, tmp_path, "messages")
    report = look_back.verify(other, adopt(other, io.StringIO(file.getvalue())))
    assert (True, BUDGET) == (report.verified, report.answers)
    other.close()
