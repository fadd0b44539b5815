"""Sessions that audit a column of existing labels or scores: demo, form, card server, panels and downloads."""

import pandas
import pytest

from oal_engine import Studio
from oal_engine.datasets import Dataset, demo
from oal_engine.sessions.files import report
from oal_engine.sessions.items import Items
from oal_engine.sessions.one_question import OneQuestion
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from tests.harness.pages import WAIT, form, press, run, words
from tests.harness.sessions import EVENTS
from ui import downloads
from ui.label import messages
from ui.label.card_server import CardServer
from ui.label.panels import learned


@pytest.fixture
def audit(app_store):
    """A function that makes an audit of the demo data, answers questions correctly, and returns the card server."""

    def make(answers=0, **changes):
        data = demo.dataset(app_store, "judged")
        settings = demo.DEMOS["judged"].session | changes
        server, y = CardServer(create(app_store, data, **settings)), Dataset(app_store, data).y
        for _ in range(answers):
            send(server, "label", label=int(y[server.session.current.item]))
        return server

    return make


def send(server, action, **more):
    """Have the card server handle an event of anna's card about the current question."""
    asked = server.session.current
    event = {"id": next(EVENTS), "action": action, "question": asked.id, "item": asked.item} | more
    server.handle(messages.read(messages.CardEvent, event), "anna")


def test_one_click_starts_an_audit_whose_card_has_two_classes(app_store):
    """The demo button opens an audit whose card looks like the card of a single question and does not mention the
    audited column."""
    at = run("home.py")
    press(at, "demo-judged")
    (row,) = app_store.sessions()
    server = CardServer(row["id"])
    payload = server.payload(annotator="anna")
    assert "questions" not in payload
    assert ["About life satisfaction", "Something else"] == [each["name"] for each in payload["classes"]]
    assert "llm" not in str(payload)
    send(server, "label", label=1, seconds=2.0)
    verdict = server.payload(annotator="anna")["verdict"]
    assert verdict is None or verdict["label"] in (1, -1)
    assert [[1, 1]] == [entry.labels for entry in server.session.log if entry.label]


@pytest.mark.slow
@pytest.mark.parametrize("features", ["plain", "fourier", "leaves", "words"])
def test_the_card_and_the_panels_do_not_show_the_column(app_store, features):
    """The features and terms that an audit shows for an item do not include the audited column. Their shares in the
    margin are relative to the largest one shown."""
    numbers = {"text": "text"} if features == "words" else {"feature": ["a", "b"]}
    rows = [{"text": f"word{k % 7} no{k % 3}", "a": k % 7, "b": k % 3, "llm": k % 2} for k in range(40)]
    Studio(app_store.path).add(
        pandas.DataFrame(rows), name=features, label="", details=["llm"], features=features, **numbers
    )  # fmt: skip
    server = CardServer(create(app_store, app_store.datasets()[0]["id"], algorithm="auto", budget=20, column="llm"))
    for k in range(12):
        send(server, "label", label=1 if k % 3 else -1)
    session = server.session
    question = Items(session).question(session.log[10].question(), session.place, "everything")
    names = [name for name, *_ in question["features"] or ()]
    assert names == ["a", "b", *["combinations of columns"] * (features != "plain")] * (features != "words")
    assert 1 == max(abs(share) for *_, share in question["features"] or question["parts"])
    for name in session.settings.question_names:
        learned._view(OneQuestion(session, name))
    assert b"Audit" in report.page(session)


@pytest.mark.slow
def test_the_progress_compares_the_column_with_the_answers(audit):
    """The Progress panel of an audit compares two sources of labels: the audited column alone, and the column with the
    answers. It says only once that answers are missing. A box chooses the source that the curves show."""
    server = audit(40)
    at = run("pages/1_Label.py", session=server.session.id)
    for _ in range(WAIT):  # the table is computed in the background, and each run waits for it for up to a second
        if "llm + answers" in words(at):
            break
        at.run()
    text = words(at)
    assert "llm + answers" in text
    assert ("50 more answers" in text) != ("Quality" in text)
    assert text.count("estimated yet") + text.count("No estimate yet") == text.count("Quality")
    assert any(box.label == "Decider" for box in at.selectbox)
    assert not at.exception


@pytest.mark.slow
def test_the_form_offers_the_columns_of_the_file(app_store):
    """The form offers the columns stored with the items for an audit, and refuses a cut (score threshold) for a column
    of words. The audit starts with the floor option 0.5 and the pace 1."""
    data = demo.dataset(app_store, "judged")
    at = form()
    at.multiselect(key=f"new-column-{data}").select("llm").run()
    at.number_input(key=f"new-cut-{data}").set_value(0.5).run()
    at.button(key="new-send").click().run()
    assert "cut is for scores. Column llm" in words(at)
    assert [] == app_store.sessions()
    at.number_input(key=f"new-cut-{data}").set_value(None).run()
    at.button(key="new-send").click().run()
    (row,) = app_store.sessions()
    settings = Session(app_store, row["id"]).settings
    assert (["llm"], None) == (settings.audited_columns, settings.audited["cut"])
    assert (0.5, 1.0) == (settings.floor, settings.pace)


def test_the_corrected_column_is_one_click_away(audit):
    server = audit(12)
    at, words = run("pages/1_Label.py", session=server.session.id), "Download the corrected column"
    for _ in range(WAIT):
        if words in (buttons := [each.proto.label for each in at.get("download_button")]):
            break
        at.run()
    assert words in buttons


def test_the_downloads_begin_with_the_audit(audit):
    """In an audit, on the Replay page and at its end on the Label page, the first download is the corrected table. The
    model is not offered: it needs the audited column."""
    server = audit(2, budget=2, floor=0.0, pace=None)
    for page in ("pages/3_Replay.py", "pages/1_Label.py"):
        choices = run(page, session=server.session.id).selectbox(key="download-what").options
        assert downloads.OF_AUDIT["audit"] == choices[0]
        assert downloads.CHOICES["model"] not in choices
