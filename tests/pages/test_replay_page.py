"""The Replay page without a browser."""

import io
import json

import pytest

from oal_engine import datasets
from oal_engine.datasets import feeds
from oal_engine.sessions import look_back
from oal_engine.sessions.settings import create
from tests.harness.examples import add_texts, answer
from tests.harness.pages import press, run, words
from tests.harness.sessions import labelled, stream_of
from ui import replay
from ui.label import messages

PAGE = "pages/3_Replay.py"


@pytest.fixture
def pages(store, tmp_path):
    """The store of the app, and the id of a data set of texts."""
    return store, add_texts(store, tmp_path)


@pytest.mark.slow
def test_a_place_that_does_not_exist_is_refused(pages):
    store, texts = pages
    session = answer(store, texts, 5)
    for question in ("0", "7", "x", "-1", "9" * 30):
        at = run(PAGE, session=str(session), question=question)
        assert f"Question {question} does not exist. The last one is 6." in words(at)
    assert "No question yet." in words(run(PAGE, session=str(create(store, texts, "PAA-I"))))


@pytest.mark.slow
def test_verify_says_what_was_checked_and_what_differs(pages):
    """The Verify button shows a one-sentence report. If a question differs from its replay, both versions are shown,
    and the player ends before this question."""
    store, texts = pages
    session = answer(store, texts)
    at = run(PAGE, session=str(session))
    at.button(key="verify").click().run()
    assert str(look_back.verify(store, session)) in words(at)
    with store.transaction():
        store.db.execute("UPDATE questions SET margin = 9.5 WHERE session = ? AND number = 12", [session])
    at.button(key="verify").click().run()
    assert f"First difference in round {look_back.verify(store, session).round}, at question 12" in words(at)
    assert '<th dir="auto" class="whole">margin</th><td>9.5</td>' in words(at)
    replay.player.clear()
    at = run(PAGE, session=str(session), question="11")
    assert "Shown up to the first mismatch." in words(at)
    assert "Question 12 does not exist. The last one is 11." in words(run(PAGE, session=str(session), question="12"))


def test_an_open_player_goes_on_where_the_stream_does(pages):
    store, texts = pages
    session = answer(store, texts, 60, budget=300)
    player = replay.Player(session)
    assert (True, 240) == (player.trace.complete, player.trace.reached)
    feed = io.BytesIO(b'{"id": "new", "text": "good word9", "label": 1}')
    assert [1] == [taken.appended for taken in feeds.append_lines(datasets.Dataset(store, texts), feed)]
    player.refresh()
    assert (True, 241) == (player.trace.complete, player.trace.reached)


@pytest.mark.slow
@pytest.mark.parametrize(("data", "algorithm"), [("sparse", "PAA-I"), ("classes", "MPAA-I")])
def test_every_place_can_be_drawn(store, data, algorithm):
    """The player gets valid JSON about every question, the rounds and the end, even for vectors and K classes. It gets
    None for an unknown question or round, and an error for an invalid name."""
    items = stream_of()[1]
    if data == "classes":
        items.classes, items.y = tuple("abcd"), 1 + (items.y > 0)
    datasets.add(store, data, datasets.table(items), "made.npz")
    opened, places = labelled(store, data, algorithm)
    replay.player.clear()
    player = replay.Player(opened.id)
    log = json.loads(json.dumps(player.log(), allow_nan=False))
    assert len(places) == log["questions"] == len(log["margins"]) == log["steps"] - 1
    for number in range(1, log["steps"] + 1):
        place = json.loads(json.dumps(player.place(f"q{number}"), allow_nan=False))
        passed = place["passed"]
        if passed["rounds"]:
            place = json.loads(json.dumps(player.place(f"r{passed['first']}"), allow_nan=False))
            assert (place["moved"], place["passed"]) == ([], None)
            assert place["item"]["features"]
    assert [None] * 4 == [player.place(name) for name in ("q0", f"q{log['steps'] + 1}", "r0", "r301")]
    for name in ("x1", "q", "q-1", "q1.5", 7, None, "q" + "9" * 20):
        with pytest.raises(messages.MessageError):
            messages.read(messages.Wanted, {"want": [name]})


def test_a_comparison_runs_on_the_labels_of_a_session(pages, tmp_path, monkeypatch):
    """*Compare on this session* opens Compare with the session's data set if every item has a label, else with a data
    set of the items that have one."""
    opened = []
    monkeypatch.setattr("streamlit.switch_page", opened.append)
    store, texts = pages
    unlabeled = add_texts(store, tmp_path, "unlabelled", None)
    for data, shown, is_same in (
        (texts, "whose items all have a label", True),
        (unlabeled, "not a random sample", False),
    ):
        at = run(PAGE, session=str(answer(store, data)))
        assert shown in words(at)
        press(at, "compare")
        (name,) = at.session_state["compare-data"]
        assert datasets.Dataset(store, name).labelled
        assert (name == store.dataset(data)["name"]) == is_same
    assert opened == ["pages/2_Compare.py"] * 2
