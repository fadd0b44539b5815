"""A session shared by several people: each person's view, and nothing revealed too early."""

import re
from itertools import count

import pytest

from oal_engine.sessions import asking
from oal_engine.sessions.insights import agreement
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from tests.harness.pages import BINARY, listed, run, words
from ui.label import messages
from ui.label.card_server import CardServer
from ui.label.panels import check, history

EVENTS = (f"team {number}" for number in count())
PEOPLE = ("anna", "ben")


@pytest.fixture
def team(work):
    """A function that makes a session in which anna and ben answer questions, ben one of them wrongly, and returns its
    card server."""

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
    """Return an event of the card, by default an answer."""
    values = {"id": next(EVENTS), "action": action, "question": question}
    return messages.read(messages.CardEvent, values | ({"label": label, "seconds": 1.0} if action == "label" else {}))


def test_the_team_panel_says_who_is_here_and_how_far_they_agree(team):
    """The panel counts each person's labels and second answers, and shows their agreement with kappa."""
    server = team()
    shown = words(listed(server.session.id, "team"))
    for each in agreement.people(server.session):
        assert each.name in shown
    assert "100 % of the questions go to two people." in shown
    known = agreement.of_pairs(agreement.answer_pairs(server.session))
    assert f"{known.equal} of {known.pairs} items answered twice got the same answer." in shown
    assert agreement.in_words(known) in shown
    assert f"kappa {known.kappa}" in shown


def test_who_is_alone_sees_no_team(work):
    at = run("pages/1_Label.py", session=str(work(3).session.id), annotator="anna")
    assert "Team" not in [tab.label for tab in at.tabs]


def test_nobody_sees_an_answer_before_giving_their_own(team, monkeypatch):
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


@pytest.fixture
def alone(work, monkeypatch):
    """A function that has anna alone answer a session in which every question is asked again three answers later, and
    returns the card server. Her second and fourth repeated answers differ from her first ones."""
    monkeypatch.setattr("oal_engine.sessions.asking.REPEAT_AFTER", 3)
    monkeypatch.setattr(check, "annotator", lambda: "anna")
    monkeypatch.setattr(history, "annotator", lambda: "anna")

    def make(repeated):
        server, given = work(0, algorithm="PAA-I", repeat=1.0, budget=60), 0
        while given < repeated:
            asked = server.session.held("anna")[0]
            good = server.session.dataset.item(asked.item)["label"] == "good"
            given += asked.blind
            wrong = asked.blind and given in (2, 4)
            server.session.answer(next(EVENTS), asked.id, 1 if good != wrong else -1, "anna", 1.5)
        return server

    return make


def test_what_is_asked_again_looks_like_any_item(alone):
    """While an item is asked again, the card shows neither its first answer nor its note, and the history does not list
    it. It is sent ahead whatever the answer to the item before it, and Undo shows it again."""
    server = alone(1)
    current, asked = server.session.held("anna")
    server.session.note(next(EVENTS), asked.item, "clearly good", "anna")
    payload = server.payload(annotator="anna")
    ahead = payload["branches"][str(current.id)]
    assert {asked.id} == {place["question"]["id"] for place in ahead.values()}
    server.handle(answer(1, current.id), "anna")
    payload = server.payload(annotator="anna")
    shown, following = payload["place"]["question"], server.session.held("anna")[1]
    assert (asked.id, None, "") == (shown["id"], shown["old"], shown["note"])
    assert payload["branches"].keys() == {str(asked.id), str(following.id)}
    assert asked.id not in {row["id"] for row in history.page(server, messages.View())["rows"]}
    server.handle(answer(-1, asked.id), "anna")
    assert asked.id == server.payload(annotator="anna")["previous"]
    server.handle(answer(None, asked.id, "undo"), "anna")
    assert asked.id == server.payload(annotator="anna")["place"]["question"]["id"]


@pytest.mark.parametrize(("repeated", "told"), [(4, "anna 4 "), (6, "anna 6 67 % (30 to 90 %)")])
def test_the_team_panel_says_how_consistent_each_person_is(alone, repeated, told):
    """Even in a session of one person, the Team panel shows how many repeated questions were answered the same way, as
    a share with its interval from five repeats on."""
    server = alone(repeated)
    shown = words(listed(server.session.id, "team"))
    assert "100 % of the questions are repeated to the person who answered them." in shown
    assert told in " ".join(re.sub("<[^>]*>", " ", shown).split()) + " "


def test_answers_of_ones_own_that_differ_are_listed(alone, monkeypatch):
    server = alone(6)
    view = messages.View(show=check.AGAIN)
    rows = check.page(server, view, None)["rows"]
    assert [["you later: "], ["you later: "]] == [[row["chips"][1][0][:11]] for row in rows]
    pair = agreement.answer_pairs(server.session, "again")[1]
    history.change(server.session, messages.RowEvent(id="decided", row=pair.entry.id, action=pair.second), "anna")
    assert [rows[1]["id"]] == [row["id"] for row in check.page(server, view, None)["rows"]]
    monkeypatch.setattr(check, "annotator", lambda: "ben")
    assert [] == check.page(server, view, None)["rows"]


def test_differences_are_decided_in_the_list(team):
    server = team()
    pairs = agreement.differing(agreement.answer_pairs(server.session))
    assert pairs
    view = messages.View(show=check.TWICE)
    rows = check.page(server, view, None)["rows"]
    assert [pair.entry.id for pair in pairs] == [row["id"] for row in rows]
    history.change(server.session, messages.RowEvent(id="decided", row=rows[0]["id"], action=pairs[0].second), "owner")
    assert len(pairs) - 1 == len(check.page(server, view, None)["rows"])


@pytest.fixture
def readings(work):
    """A function that has people answer items in a session of three questions, and returns the card server. Two of the
    second answers to an item differ from the first one in the last question."""

    def make(turns=26, people=PEOPLE, **settings):
        server, second = work(0, **BINARY, questions=["good", "straight", "odd"], budget=60, **settings), 0
        for name in [*people] * turns:
            if held := server.session.held(name):
                text = server.session.dataset.item(held[0].item)["text"]
                labels = [1 if word in text else -1 for word in ("good", "Straße0", "other1")]
                second += held[0].blind
                labels[2] *= -1 if held[0].blind and second in (4, 6) else 1
                server.session.answer(next(EVENTS), held[0].id, labels, name, 1.5)
        return server

    return make


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "people", "told"), [
    ({"overlap": 1.0}, PEOPLE, "100 % of the readings go to two people. {} readings have two answers."),
    ({"repeat": 1.0}, PEOPLE[:1], "100 % of the readings are repeated to the person who answered them."),
])  # fmt: skip
def test_the_team_panel_has_a_line_for_each_question(readings, monkeypatch, settings, people, told):
    """The Team panel shows for each question the share of equal answers, kappa and the number of items to decide, and
    names the question with the lowest kappa. Check lists these items, until they are decided, only under the question
    about which their answers differ."""
    monkeypatch.setattr("oal_engine.sessions.asking.REPEAT_AFTER", 3)
    monkeypatch.setattr(check, "annotator", lambda: "anna")
    server = readings(people=people, **settings)
    kind, view = ("second", check.TWICE) if "overlap" in settings else ("again", check.AGAIN)
    shown = " ".join(re.sub("<[^>]*>", " ", words(listed(server.session.id, "team"))).split())
    found = {
        name: agreement.of_pairs(agreement.one_each(own))
        for name, own in agreement.by_question(server.session, kind).items()
    }
    assert told.format(found["good"].pairs) in shown
    assert "Two people" not in shown
    for name, own in found.items():
        differ = 2 * (name == "odd")
        share = agreement.in_percent(own.same)
        assert f"{name} {own.equal} of {own.pairs} {share} {own.kappa} {differ}" in shown
    assert f"Kappa is lowest for odd: {found['odd'].kappa}. Check lists the items to decide." in shown
    rows = {name: check.page(server, messages.View(show=view), None, name)["rows"] for name in found}
    assert {"good": 0, "straight": 0, "odd": 2} == {name: len(own) for name, own in rows.items()}
    row = rows["odd"][0]
    label = next(entry.labels[2] for entry in server.session.log if entry.id == row["id"])
    assert {1: "not odd", -1: "odd"}[label] in row["chips"][1][0]
    history.change(server.session, messages.RowEvent(id="decided", row=row["id"], action=-label), "anna", name="odd")
    assert 1 == len(check.page(server, messages.View(show=view), None, "odd")["rows"])


def test_every_two_of_three_people_have_a_line_for_a_question(readings):
    server = readings(people=(*PEOPLE, "carla"), overlap=1.0)
    at = listed(server.session.id, "team")
    assert not at.selectbox(key=f"question-{server.session.id}").set_value("odd").run().exception
    shown = " ".join(re.sub("<[^>]*>", " ", words(at)).split())
    found = agreement.by_people(agreement.by_question(server.session)["odd"])
    assert len(found) > 1
    for names, own in found.items():
        assert f"{' and '.join(names)} {own.equal} of {own.pairs} " in shown


def test_the_verdict_on_a_second_reading_is_on_its_own_labels(readings):
    """If a second person answers an item, the verdict counts how many of this person's labels the model had
    predicted."""
    server = readings(12, ("anna",), overlap=1.0)
    while (asked := server.session.held("ben")[0]) and not any(margin for margin, _ in asked.parts):
        server.session.answer(next(EVENTS), asked.id, [1, 1, 1], "ben")
    labels = [-int(side) for _, side in asked.parts]
    event = {"id": next(EVENTS), "action": "label", "question": asked.id, "label": max(labels), "labels": labels}
    server.handle(messages.read(messages.CardEvent, event | {"seconds": 1.0}), "ben")
    told = server.payload(annotator="ben")["verdict"]
    assert (asked.id, 0, True) == (told["question"], told["agreed"], told["of"] > 0)


def test_differences_are_not_listed_to_who_answers_next(team, monkeypatch):
    server = team(people=3)
    pair = agreement.differing(agreement.answer_pairs(server.session))[0]
    for name, seen in (("anna", True), ("carla", False)):
        monkeypatch.setattr(check, "annotator", lambda name=name: name)
        rows = check.page(server, messages.View(show=check.TWICE), None)["rows"]
        assert seen == (pair.entry.id in [row["id"] for row in rows])


def test_an_undo_that_others_overtook_corrects(team, work):
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


@pytest.mark.parametrize("overlap", [0.0, 1.0])
def test_the_item_after_is_sent_ahead(team, overlap):
    """In a session shared by several people, the next item is sent together with the current one and does not depend on
    its answer. A second answer to an item costs no label."""
    server = team(2, overlap=overlap)
    while (asked := server.session.held("anna")[0]).blind != bool(overlap):  # until a second answer is due
        server.handle(answer(1, asked.id), "anna")
    payload = server.payload(annotator="anna")
    current, following = (each.id for each in server.session.held("anna"))
    places = payload["branches"][str(current)]
    assert {following} == {place["question"]["id"] for place in places.values()}
    used = payload["place"]["counters"]["labels"]
    cost = 0 if overlap else 1
    assert {"1": used + cost, "-1": used + cost, "0": used} == {
        k: place["counters"]["labels"] for k, place in places.items()
    }


def test_who_has_nothing_left_reads_why(team, monkeypatch):
    """A person without a question is told why: their first item is still being prepared, or other people have the last
    questions. In the latter case the card says when one may become free."""
    server = team(0, budget=2)
    assert isinstance(server, CardServer)
    server.payload(annotator="anna")
    assert server.payload(annotator="ben")["place"]["end"] == "joining"
    monkeypatch.setattr(asking, "JOIN_WAIT_SECONDS", 0)
    server.payload(annotator="ben")
    place = server.payload(annotator="carla")["place"]
    assert ("others", None) == (place["end"], place["question"])
    assert "A question that stays unanswered for 5 minutes comes to you." in place["result"]


def test_a_name_that_is_typed_takes_what_this_browser_shows_and_no_more(work, app_store):
    """When a person types a name, the item in this browser becomes theirs. An item in another session, held without a
    name, does not. A late answer without a name to the person's item is stored as late."""
    first = work(0, budget=20, learner="pa-i", rule="all", parameters={})
    second = Session(app_store, create(app_store, first.session.dataset.id, "PAA-I", budget=20))
    at = run("pages/1_Label.py", session=first.session.id)
    mine, theirs = first.session.held("")[0], second.held("")[0]
    at.text_input[0].set_value("anna").run()
    assert not at.exception
    assert ["anna", ""] == [app_store.leases(each.id)[0]["annotator"] for each in (first.session, second)]
    assert (mine.id, theirs.id) == (first.session.held("anna")[0].id, second.held("")[0].id)
    first.session.answer(next(EVENTS), mine.id, 1, "anna")
    first.session.answer(next(EVENTS), mine.id, -1, "")
    assert [("", "late")] == [(row["annotator"], row["kind"]) for row in app_store.opinions(first.session.id)]
