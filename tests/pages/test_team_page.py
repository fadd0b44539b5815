"""The page of a session that several people share: what each sees, and what nobody sees too early."""

from itertools import count

import pytest

from oal_engine.sessions import agreement, session
from oal_engine.sessions.session import Session
from tests.harness.pages import listed, run, words
from ui import messages
from ui.card_server import CardServer
from ui.panels import check, history

EVENTS = (f"team {number}" for number in count())
PEOPLE = ("anna", "ben")


@pytest.fixture
def team(work):
    """A function that has two people answer in turn a session where every question is for two; its card server."""

    def make(turns=14, **settings):
        server = work(0, **{"algorithm": "PAA-I", "overlap": 1.0, "budget": 60} | settings)
        for turn in range(turns):
            for name in PEOPLE:
                if held := server.session.held(name):
                    good = server.session.dataset.item(held[0].item)["label"] == "good"
                    wrong = name == "ben" and turn == 5
                    server.session.answer(next(EVENTS), held[0].id, 1 if good != wrong else -1, name, 1.5)
        return server

    return make


def answer(label, question, action="label"):
    """An event of the card."""
    values = {"id": next(EVENTS), "action": action, "question": question}
    return messages.read(messages.CardEvent, values | ({"label": label, "seconds": 1.0} if action == "label" else {}))


def test_the_team_panel_says_who_is_here_and_how_far_they_agree(team):
    """Each person's labels and second answers are counted, and the agreement stands below with its kappa."""
    server = team()
    shown = words(listed(server.session.id, "team"))
    for each in agreement.people(server.session):
        assert each.name in shown
    assert "100% of the questions go to two people." in shown
    assert "kappa" in shown


def test_who_is_alone_sees_no_team(work):
    """A session of one person has no panel for others."""
    at = run("pages/1_Label.py", session=str(work(3).session.id), annotator="anna")
    assert "Team" not in [tab.label for tab in at.tabs]


def test_nobody_sees_an_answer_before_giving_their_own(team, monkeypatch):
    """Neither the card nor the history shows the first answer to whoever is to give the second."""
    server = team(0)
    session = server.session
    for label in (1, -1):
        session.answer(next(EVENTS), session.held("anna")[0].id, label, "anna")
    first = {entry.id for entry in session.log if entry.label is not None}
    for name, seen in (("ben", set()), ("anna", first)):
        monkeypatch.setattr(history, "annotator", lambda name=name: name)
        assert seen == {row["id"] for row in history.page(server, messages.View())["rows"]}
    server.handle(answer(1, session.held("ben")[0].id), "ben")
    shown = server.payload(annotator="ben")["place"]["question"]
    assert (True, None) == (shown["id"] in first, shown["old"])


def test_differences_are_decided_in_the_list(team):
    """What two people answered differently is listed with both answers until the owner corrects or confirms it."""
    server = team()
    pairs = agreement.differing(agreement.twice(server.session))
    assert pairs
    view = messages.View(show=check.TWICE)
    rows = check.page(server, view, None)["rows"]
    assert [pair.entry.id for pair in pairs] == [row["id"] for row in rows]
    history.change(server.session, messages.RowEvent(id="decided", row=rows[0]["id"], action=pairs[0].second), "owner")
    assert len(pairs) - 1 == len(check.page(server, view, None)["rows"])


def test_an_undo_that_others_overtook_corrects(team, work):
    """The card shows the item once more, with the answer that stands, and the next answer replaces it."""
    server = team(4, overlap=0.0)
    mine = server.payload(annotator="anna")["previous"]
    server.session.answer(next(EVENTS), server.session.held("ben")[0].id, 1, "ben")
    server.handle(answer(None, mine, "undo"), "anna")
    shown = server.payload(annotator="anna")["place"]["question"]
    before = server.session.answered(mine).old
    assert (mine, before) == (shown["id"], shown["old"])
    server.handle(answer(-before, mine), "anna")
    assert -before == Session(server.session.store, server.session.id).answered(mine).old
    assert mine != server.payload(annotator="anna")["place"]["question"]["id"]


def test_the_item_after_is_sent_ahead(team):
    """Whoever shares a session gets the next item with the present one, whatever the answer will be."""
    server = team(2)
    payload = server.payload(annotator="anna")
    current, following = (each.id for each in server.session.held("anna"))
    places = payload["branches"][str(current)]
    assert {following} == {place["question"]["id"] for place in places.values()}
    used = payload["place"]["counters"]["labels"]
    assert {"1": used + 1, "-1": used + 1, "0": used} == {k: place["counters"]["labels"] for k, place in places.items()}


def test_who_has_nothing_left_reads_why(team, monkeypatch):
    """At the end of the budget the card says that others have the last questions, and for how long."""
    server = team(0, budget=2)
    assert isinstance(server, CardServer)
    server.payload(annotator="anna")
    assert "The first item comes in a few seconds" in server.payload(annotator="ben")["place"]["result"]
    monkeypatch.setattr(session, "HANDOVER", 0)
    server.payload(annotator="ben")
    place = server.payload(annotator="carla")["place"]
    assert ("others", None) == (place["end"], place["question"])
    assert "What stays unanswered for 5 minutes comes to you." in place["result"]
