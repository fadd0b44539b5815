"""A team of real browsers on one stream, and a server that is killed under it."""

import io
import re

import pytest
from playwright.sync_api import expect

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.sessions import look_back
from oal_engine.sessions.files.bundle import adopt, publish
from oal_engine.sessions.insights import agreement
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store
from tests.harness.browser import Card, warmed

PEOPLE = ("anna", "ben", "carla")
BUDGET, KILLED = 60, (20, 45)


@pytest.fixture
def contexts(context, second_context, browser):
    with warmed(browser) as third:
        yield context, second_context, third


def test_a_team_labels_to_the_end_while_the_server_is_killed(visit, app, store, contexts, shared, tmp_path):
    """Three people, two fifths of the questions for two of them, two kills: every label is there once, the kappa is
    shown, and the exported session verifies bit for bit in another database."""
    path, copy = shared("sms_spam_collection.tsv.xz"), tmp_path / "again.db"
    columns = reading.Columns(text=("c2",), label="c1", positive=("spam",))
    dataset = datasets.import_file(store, path, "messages", columns)[0]
    session = create(store, dataset, "PAA-I", budget=BUDGET, overlap=0.4, shuffled=True)
    opened = Session(store, session)
    pages = [
        visit(app, f"/Label?session={session}&annotator={name}", context=own) for name, own in zip(PEOPLE, contexts)
    ]
    cards, given, kills = [Card(page) for page in pages], 0, list(KILLED)
    while any(card.question for card in cards):
        for card in cards:
            if card.question:
                item = store.positions(dataset, [card.item])[card.item]
                card.press("a" if store.item(dataset, item)["y"] > 0 else "x")
                given += 1
                if kills and given == kills[0]:
                    kills.pop(0)
                    app.kill()
                    app.start()
                card.saved()
    assert not kills
    opened.refresh()
    rows = [row for row in store.answers(session) if row["label"]]
    assert BUDGET == len(rows) == len({row["item"] for row in rows})
    assert given == BUDGET + len(store.opinions(session))
    assert set(PEOPLE) == {row["annotator"] for row in rows}
    twice = agreement.answer_pairs(opened)
    assert twice
    pages[0].get_by_role("tab", name="Team").click()
    expect(pages[0].get_by_text(re.compile(r"kappa 1\.00"))).to_be_visible()
    file = io.StringIO()
    publish(store, session, file)
    other = Store(copy)
    datasets.import_file(other, path, "messages", columns)
    report = look_back.verify(other, adopt(other, io.StringIO(file.getvalue())))
    assert (True, BUDGET) == (report.verified, report.answers)
    other.close()
