"""No page reveals the model's prediction of an item before its answer."""

import re
from dataclasses import replace
from itertools import count
from time import thread_time

import numpy as np
import pytest

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.sessions import look_back
from oal_engine.sessions.files.player import Player
from oal_engine.sessions.settings import SKIP, create
from tests.harness.pages import BINARY, run, words
from ui.label import card_server, messages
from ui.label.card_server import CardServer
from ui.label.panels import history
from ui.page import reason_to_withhold

MOST, MOST_OF_TIMES = 0.55, 0.6  # limits of the AUC; the AUC of times varies by 0.02 from run to run
NEAR = 40  # maximum distance of two compared items, in questions
FIRST = 20  # number of first questions to leave out, in which the model knows next to nothing
EVENTS = (f"event {number}" for number in count())


@pytest.fixture
def server(app_store, tmp_path, monkeypatch):
    """The card server of a session over 2,500 texts of two classes of similar size, imperfectly separable by words."""
    monkeypatch.setattr(card_server, "check_may_answer", lambda *_, **__: None)
    numbers = np.random.default_rng(8)
    weights, chosen = numbers.normal(size=60), numbers.integers(0, 60, (2500, 12))
    labels = weights[chosen].sum(1) + numbers.normal(size=2500) > 0
    path = tmp_path / "texts.csv"
    lines = (f"{' '.join(f'word{k}' for k in row)},{int(label)}\n" for row, label in zip(chosen.tolist(), labels))
    path.write_text("text,label\n" + "".join(lines))
    columns = reading.Columns(("text",), "label", positive=("1",))
    request = datasets.ImportRequest(features="words")
    dataset = datasets.import_file(app_store, path, "texts", columns, request)[0]
    options = {"budget": 600, "audit": 0.2, "overlap": 0.2}
    return CardServer(create(app_store, dataset, **BINARY | {"parameters": {"C": 0.1, "delta": 0.2}} | options))


def answer(server, action="label", label=None, who="anna"):
    """Answer a person's current item as their page would, by default with the true label. Return the question."""
    asked = server.session.held(who)[0]
    label = int(server.session.y[asked.item]) if label is None else label
    values = {"id": next(EVENTS), "action": action, "question": asked.id, "label": label, "was": asked.old}
    server.handle(messages.read(messages.CardEvent, values), who)
    return asked


def fields(shown, path=""):
    """Yield (path, number) for each field of a payload: numbers, lengths of lists and strings, and for marked terms the
    sum, maximum and minimum of their marks."""
    if isinstance(shown, dict):
        for name, value in shown.items():
            yield from fields(value, f"{path}/{name}")
    elif isinstance(shown, (list, tuple)):
        yield f"{path} length", len(shown)
        if path.endswith(("parts", "features", "heading")):
            marks = [float(part[-1]) for part in shown] or [0]
            yield from ((f"{path} {of.__name__}", float(of(marks))) for of in (sum, max, min))
        else:
            for k, value in enumerate(shown):
                yield from fields(value, f"{path}/{k}")
    elif isinstance(shown, str):
        yield f"{path} letters", len(shown)
        yield from ((f"{path}: {shown}", 1.0) for _ in range(path.endswith("why")))
    elif shown is not None:
        yield path, float(shown)


def auc(values, positive):
    """Return the AUC with which a field separates the two classes of items, in either direction, from 0.5 to 1. Only
    items asked at most NEAR questions apart are compared, because counters grow, and so may the share of positives."""
    numbers = np.arange(len(values))
    first, second = np.nonzero(np.outer(positive, ~positive) & (abs(np.subtract.outer(numbers, numbers)) <= NEAR))
    area = 0.5 + np.sign(np.asarray(values)[first] - np.asarray(values)[second]).mean() / 2
    return max(area, 1 - area)


@pytest.mark.slow
@pytest.mark.parametrize("marks", [None, True])
def test_nothing_predicts_the_models_class(server, marks):
    """No field sent before an answer, nor the server's processor time or the number of highlighted terms, predicts the
    model's class."""
    pages, predicted, times = [], [], []
    while asked := server.session.current:
        start = thread_time()
        payload = server.payload(None, "", None, marks)
        times.append(thread_time() - start)
        ahead = payload.pop("branches")[str(asked.id)]
        pages.append(dict(fields(payload | {"ahead": ahead})))
        predicted.append(asked.predicted)
        answer(server, who="")
    positive = np.array(predicted[FIRST:]) > 0
    found = {}
    for name in {name for page in pages for name in page}:
        values = np.array([page.get(name, 0.0) for page in pages[FIRST:]])
        if len({*values}) > 1:
            found[name] = auc(values, positive)
    assert {name: area for name, area in found.items() if area > MOST} == {}
    assert auc(times[FIRST:], positive) < MOST_OF_TIMES
    assert len(found) > 10


def test_another_verdict_shows_the_same_item(server):
    """The browser gets identical data about an item whatever the margin, chance and prediction of its question, and
    whether or not the question is a random check."""
    for _ in range(30):
        answer(server)
    place = server.session.place
    shown = server._items.question(place.asked, place, "marks")
    assert any(weight for _, weight in shown["parts"])
    other = {"margin": -place.asked.margin, "predicted": -place.asked.predicted, "probability": 0.9, "audit": 1}
    assert shown == server._items.question(replace(place.asked, **other), place, "marks")
    assert "" == shown["why"]


def test_what_the_model_said_is_told_after_an_answer_and_not_after_a_skip(server):
    """The predicted class, margin and chance arrive only after the answer, and not after a skip or an undo, as the item
    will be asked again. An answer in the pass over the skipped items is told like any other."""
    for _ in range(30):
        asked = answer(server)
    told = server.payload(None, "anna")["verdict"]
    assert (asked.id, asked.predicted) == (told["question"], told["label"])
    assert told["margin"].replace("−", "-") == f"{asked.margin:+.2f}"
    assert re.fullmatch(r"(Random check, chance|Chance) [0-9.]+ %\.", told["asked"])
    assert server.payload(None, "ben")["verdict"] is None
    undo = {"id": next(EVENTS), "action": "undo", "question": asked.id}
    server.handle(messages.read(messages.CardEvent, undo), "anna")
    assert server.payload(None, "anna")["verdict"] is None
    skipped = answer(server, "skip", SKIP)
    payload = server.payload(None, "anna", 0)
    assert payload["verdict"] is None
    assert "" == payload["review"]["questions"][0]["why"]
    rows = history.page(server, messages.View())["rows"]
    assert (skipped.id, f"question {skipped.number}") == (rows[0]["id"], rows[0]["by"].split(" · ")[0])
    assert "chance" not in rows[0]["by"]
    player = Player(look_back.Trace(server.session.store, server.session.id))
    at = skipped.number - 1
    told = [player.log()[name] for name in ("margins", "probabilities", "draws", "predicted")]
    assert [None] * 4 == [values[at] for values in told]  # as for the waiting question
    assert [None] * 4 == [values[-1] for values in told]
    assert None not in [values[at - 1] for values in told]
    assert player.place(f"r{skipped.round + 1}") is None
    place = player.place(f"q{skipped.number}")
    assert "" == place["why"]
    assert {0} == {weight for _, weight in place["item"]["parts"]}
    answer(server)
    values = {"id": "late", "action": "correct", "question": skipped.id, "label": 1, "was": SKIP}
    server.handle(messages.read(messages.CardEvent, values), "anna")
    assert skipped.id == server.payload(None, "anna")["verdict"]["question"]


@pytest.mark.slow
def test_first_answers_are_withheld_from_who_gives_the_second(server, app_store):
    """An annotator who still owes second answers cannot open Replay or its downloads; the first annotator and people
    who do not label can."""
    session = server.session
    while not session.unseen("ben"):
        answer(server)
    assert "" == reason_to_withhold(app_store, session.id, "anna", "owner")
    assert (
        ""
        == reason_to_withhold(app_store, session.id, "ben", "owner")
        == reason_to_withhold(app_store, session.id, "ben", "reader")
    )
    assert reason_to_withhold(app_store, session.id, "ben", "annotator").startswith(
        "You may still be asked for a second answer to 1 "
    )
    while session.unseen("ben"):  # ben may have had another question first
        assert "Publish" in tabs(run("pages/3_Replay.py", session=session.id, annotator="anna"))
        answer(server, who="ben")
        if session.unseen("ben"):
            at = run("pages/3_Replay.py", session=session.id, annotator="ben")
            assert "You may still be asked for a second answer to 1 item." in words(at)
            assert [] == tabs(at) + at.get("download_button")
    assert "Publish" in tabs(run("pages/3_Replay.py", session=session.id, annotator="ben"))


def tabs(at):
    return [tab.label for tab in at.get("tab")]
