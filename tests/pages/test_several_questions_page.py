"""The pages of sessions that ask several questions: the form, the card's server, the panels, the end and the
downloads."""

import io
import json
from dataclasses import asdict, replace
from zipfile import ZipFile

import pandas
import pytest
import streamlit as st

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.datasets.demo import FIVE_QUESTIONS
from oal_engine.sessions import look_back, model
from oal_engine.sessions.insights import answer_checks, estimates
from oal_engine.sessions.one_question import OneQuestion
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SessionError, create
from tests.harness.pages import BINARY, details, form, listed, press, run, words
from tests.harness.published import held
from tests.harness.sessions import EVENTS
from ui import downloads, replay
from ui.label import messages
from ui.label.card_server import CardServer
from ui.label.panels import check, find, history, pushed

NAMES = ["good", "straight", "odd"]
QUESTIONS = ["good", {"name": "straight", "guidelines": "It names street 0."}, "odd"]


def send(server, action, question, **more):
    """Have the card server handle an event of anna's card about a question."""
    event = {"id": next(EVENTS), "action": action, "question": question.id} | more
    server.handle(messages.read(messages.CardEvent, event), "anna")


def truth(server, question):
    """Return the true label of each question for an item."""
    text = server.session.dataset.item(question.item)["text"]
    return [1 if word in text else -1 for word in ("good", "Straße0", "other1")]


@pytest.fixture
def several(app_store, keep):
    """A function that makes a session that asks three questions, answers some items, and returns its card server."""

    def make(answers=0, **settings):
        server = CardServer(create(app_store, keep(), **BINARY, **{"questions": QUESTIONS, "budget": 200} | settings))
        for _ in range(answers):
            asked = server.session.current
            send(server, "label", asked, item=asked.item, label=1, labels=truth(server, asked), seconds=1.5)
        return server

    return make


def test_the_card_gets_its_lines(several):
    """The payload has the questions in order with their keys, tags with other keys, and the session's guidelines
    followed by those of the questions. Nothing in it reveals a prediction."""
    payload = several(tags=["ask"], guidelines="Read it all.").payload(annotator="anna")
    assert [(name, [key]) for name, key in zip(NAMES, "123")] == [
        (each["name"], each["keys"]) for each in payload["questions"]
    ]
    assert [{"name": "ask", "keys": ["4"]}] == payload["tags"]
    assert [{}] == list(payload["branches"].values())
    assert "Read it all.\n\nstraight: It names street 0." == payload["guidelines"]
    assert not {"margin", "parts", "predicted"} & payload["questions"][0].keys()
    assert "old" in payload["place"]["question"]


def test_a_session_of_one_question_has_no_lines(work):
    server = work(1)
    assert "questions" not in server.payload()
    with pytest.raises(SessionError, match=r"one of the labels\. Got 2"):
        send(server, "label", server.session.current, labels=[1, -1])


def test_an_answer_is_stored_told_and_taken_back_as_a_whole(several):
    """The labels of an answer to several questions are stored together, and the verdict says how many of them the model
    had predicted. Undo shows the item with its labels again."""
    server = several(12)
    session, asked = server.session, server.session.current
    labels = truth(server, asked)
    send(server, "label", asked, item=asked.item, label=1, labels=labels, seconds=2.0, highlighted=True)
    (entry,) = [each for each in session.log if each.id == asked.id]
    assert labels == entry.labels
    margins = [margin for margin, _ in entry.parts]
    agreed = sum(label == predicted for label, (margin, predicted) in zip(labels, entry.parts) if margin)
    payload = server.payload(annotator="anna")
    told = payload["verdict"]
    assert (asked.id, agreed, sum(map(bool, margins))) == (told["question"], told["agreed"], told["of"])
    assert 13 == payload["place"]["counters"]["labels"]
    send(server, "undo", asked)
    payload = server.payload(annotator="anna")
    assert (asked.id, labels, None) == (
        payload["place"]["question"]["id"], payload["place"]["question"]["old"], payload["verdict"],
    )  # fmt: skip
    with pytest.raises(SessionError, match="a label for each of good, straight, odd"):
        send(server, "label", asked, label=1)
    send(server, "skip", asked)
    (skipped,) = server.payload(annotator="anna", review=0)["review"]["questions"]
    assert asked.id == skipped["id"]
    send(server, "correct", asked, label=1, labels=[1, 0, -1], was=0)
    assert [1, 0, -1] == next(each.labels for each in session.log if each.id == asked.id)
    assert look_back.verify(session.store, session.id).verified


def test_marks_are_those_of_any_question(several):
    parts = several(20).payload(marks=True)["place"]["question"]["parts"]
    assert {0, True} == {weight for _, weight in parts}


def test_two_people_get_their_next_items_at_once(several):
    server = several(3)
    server.payload(annotator="anna")
    server.payload(annotator="ben")
    payload = server.payload(annotator="ben")
    ahead = payload["branches"][str(payload["place"]["question"]["id"])]
    assert {"1", "-1", "0"} == ahead.keys()
    assert 1 == len({each["question"]["id"] for each in ahead.values()})


PANELS = {"progress": "odd", "history": "", "pushed": "", "check": "", "learned": "of the answers were odd"}


@pytest.mark.slow
def test_panels_show_the_question_that_is_chosen(several):
    session = several(30).session.id
    more = ["History", "Pushed", "Check", "Learned", "Guidelines", "For researchers"]
    for name, sentence in PANELS.items():
        at = listed(session, name, run("pages/1_Label.py", session=str(session), annotator="anna"))
        assert ["Progress", "List", "More"] + more * (name != "progress") == [tab.label for tab in at.tabs]
        box = at.selectbox(key=f"question-{session}")
        assert NAMES == box.options
        assert not box.set_value("odd").run().exception
        assert sentence in words(at)
        if name == "progress":
            assert "170 labels left" in words(details(at))


def test_history_corrects_one_question(several):
    server = several(10)
    session = server.session
    entry = session.log[4]
    rows = {row["id"]: row for row in history.page(server, messages.View(), "odd")["rows"]}
    assert {each.id for each in session.log if each.label is not None} == rows.keys()
    assert ("odd" if entry.labels[2] > 0 else "not odd") == rows[entry.id]["chips"][0][0]
    event = messages.RowEvent(id="corrected", row=entry.id, action=-entry.labels[2])
    history.change(session, event, "anna", name="odd")
    assert [*entry.labels[:2], -entry.labels[2]] == session.log[4].labels
    (row,) = history.page(server, messages.View(show="corrected"), "odd")["rows"]
    assert entry.id == row["id"]
    assert [] == history.page(server, messages.View(show="corrected"), "good")["rows"]


def test_check_finds_the_line_that_was_missed(several):
    server = several(60)
    session = server.session
    entry = next(each for each in session.log if each.labels and each.labels[0] > 0)
    session.correct("missed", entry.id, -1, name="good")
    listed_under = {
        name: [row["id"] for row in check.page(server, messages.View(), checks, name)["rows"]]
        for name in NAMES
        for checks in [answer_checks.of_session(OneQuestion(session, name))]
    }
    assert entry.id in listed_under["good"]
    assert entry.id not in listed_under["straight"]


def test_what_is_found_is_labeled_for_one_question(several):
    """A label given in Find is for the chosen question alone. An item that is waiting for an answer has no buttons, and
    the list of positives differs between questions."""
    server = several(30)
    session = server.session
    late = session.dataset.item(int(session.order[-3]))

    def found(name, **view):
        rows = find.page(server, messages.View(**({"search": late["id"]} | view)), name)["rows"]
        return next(row for row in rows if row["title"] == late["id"])

    row = found("odd")
    assert ([], ["odd", "not odd"]) == (row["chips"], [name for _, name, *_ in row["actions"]])
    at = run("pages/1_Label.py", session=str(session.id), annotator="carla")
    at.session_state["panel"], at.session_state[f"question-{session.id}"] = "List", "odd"
    at.run()
    at.session_state[f"find-2-{session.id}"] = {"events": [{"id": "k1", "row": row["id"], "action": 1}]}
    assert not at.run().exception
    session.refresh()
    assert ([("odd", "positive")], "from: search") == tuple(found("odd")[key] for key in ("chips", "by"))
    assert [] == found("good")["chips"]
    assert [0, 0, 1] == session.store.known_labels(session.id)[row["id"]]["data"]["labels"]
    assert [row["id"]] == [each["id"] for each in find.page(server, messages.View(show="known"), "odd")["rows"]]
    assert [] == find.page(server, messages.View(show="known"), "good")["rows"]
    waiting = session.dataset.item(session.current.item)["id"]
    rows = find.page(server, messages.View(search=waiting), "good")["rows"]
    assert [(find.WAITING, [])] == [(each["means"], each["actions"]) for each in rows if each["title"] == waiting]
    listed_items = {
        name: {each["id"] for each in find.page(server, messages.View(show="list"), name)["rows"]} for name in NAMES
    }
    assert listed_items["odd"] != listed_items["good"]


def test_what_is_pushed_is_labeled_for_one_question(several):
    """Pushed lists the unasked items that are predicted as positive for the chosen question. A label given there is for
    this question alone, costs nothing, and removes the item from this question's list."""
    server = several(30)
    session = server.session

    def listed(name):
        return pushed.page(server, messages.View(), name=name)["rows"]

    lists = {name: {row["id"] for row in listed(name)} for name in NAMES}
    asked = {entry.item for entry in session.log}
    assert lists["good"] != lists["odd"]
    assert not asked & {*lists["good"], *lists["odd"]}
    row, left = listed("good")[0], session.place.progress.left
    assert ["good", "not good"] == [name for _, name, *_ in row["actions"]]
    at = run("pages/1_Label.py", session=str(session.id), annotator="carla")
    at.session_state["panel"], at.session_state["more"] = "More", "Pushed"
    at.session_state[f"question-{session.id}"] = "good"
    at.run()
    at.session_state[f"pushed-0-{session.id}"] = {"events": [{"id": "k1", "row": row["id"], "action": -1}]}
    assert not at.run().exception
    session.refresh()
    assert [-1, 0, 0] == session.store.known_labels(session.id)[row["id"]]["data"]["labels"]
    assert left == session.place.progress.left
    assert row["id"] not in {each["id"] for each in listed("good")}


@pytest.mark.slow
def test_the_end_lists_the_yeses_and_leads_to_the_downloads(several, monkeypatch):
    """The card at the end shows how many items were answered, and how many got a yes to each question. The Label and
    Replay pages offer the files of all questions or of a chosen one."""
    server = several(12, budget=12)
    session = server.session
    place = server.payload(annotator="anna")["place"]
    yeses = [sum(entry.labels[k] > 0 for entry in session.log) for k in range(3)]
    lines = [("Readings", "12"), *((name, f"{count} yes of 12") for name, count in zip(NAMES, yeses))]
    assert ("budget", lines) == (place["end"], place["found"])
    for page in ("pages/1_Label.py", "pages/3_Replay.py"):
        at = run(page, session=str(session.id), annotator="anna")
        what = at.selectbox(key="download-what")
        assert [downloads.CHOICES[name] for name in (*downloads.OF_ALL, *downloads.OF_ONE)] == what.options
        assert not what.set_value("model").run().exception
        question = at.selectbox(key=f"download-question-{session.id}-4")
        assert [downloads.OF_EITHER["model"], *NAMES] == question.options
        monkeypatch.setattr(st, "download_button", lambda words, file, name, **more: st.text(name))
        assert f"session-{session.id}-model.zip" in words(at.run())
        assert f"session-{session.id}-model.json.gz" in words(question.set_value("odd").run())
        at.selectbox(key="download-what").set_value("report").run()
        assert ["All questions", *NAMES] == at.selectbox(key=f"download-question-{session.id}-4").options
        monkeypatch.undo()
    models = downloads.export(session.store.path, session.id, "model", ["--format", "json"])
    assert ["1-good.json", "2-straight.json", "3-odd.json"] == ZipFile(io.BytesIO(models)).namelist()
    for what, kind in (("predictions", "csv"), ("positives", "csv"), ("model", "json")):
        assert b"odd" in downloads.export(session.store.path, session.id, what, ["--format", kind, "--question=odd"])


@pytest.mark.slow
def test_the_player_shows_the_question_that_is_chosen(several, monkeypatch):
    """A box above the player, or the address, chooses the question whose answers the player shows. A choice in the box
    restarts the player at the first item. The HTML page to download also shows a chosen question."""
    session, logs = several(12).session, []
    monkeypatch.setattr(replay, "_mount", lambda data, **more: logs.append(data))
    at = run("pages/3_Replay.py", session=str(session.id), question="5")
    box = at.selectbox(key="of")
    assert NAMES == box.options
    at = box.set_value("straight").run()
    assert "straight" == run("pages/3_Replay.py", session=session.id, of="straight").selectbox(key="of").value
    assert "Question in the address must be one of" in words(run("pages/3_Replay.py", session=session.id, of="other"))
    for k, shown, start in ((0, logs[0], 5), (1, logs[1], 1)):
        assert [entry.labels[k] if entry.labels else None for entry in session.log] == shown["log"]["labels"]
        assert {"number": start} == shown["start"]
        assert [f"q{start}"] == [*shown["places"]]
    options = ["publish", str(session.id), "--format=html"]
    assert [entry.labels[2] for entry in session.log if entry.labels] == held(
        downloads.output(session.store.path, [*options, "--question=odd"])
    )["log"]["labels"][:-1]
    for wrong, words_of in ((options, "name it"), ([*options[:2], "--question=odd"], "--question is for pages")):
        with pytest.raises(ValueError, match=words_of):
            downloads.output(session.store.path, wrong)


def test_programs_answer_all_questions_at_once(several, program):
    """A program must send a label for each question, and a correction must repeat the labels that it replaces. No
    prediction is revealed before the answer. The routes for decisions, estimates and predictions cover every
    question."""
    server = several()
    session, client = server.session, program(server.session.id)
    assert NAMES == [each["name"] for each in client.get("session").json()["questions"]]
    for number in range(40):
        asked = client.get("question").json()["question"]
        assert not {"margin", "predicted", "probability"} & asked.keys()
        labels = [1 if word in asked["text"] else -1 for word in ("good", "Straße0", "other1")]
        event = {"id": str(number), "action": "label", "question": asked["id"], "item": asked["item"]}
        if not number:
            for wrong in ({}, {"label": 1}, {"labels": labels[:2]}, {"labels": [*labels, 1]}):
                assert 409 == client.post("events", json=event | wrong).status_code
            for wrong in ({"labels": [1, -1, 2]}, {"labels": [1]}, {"labels": [1, "1", -1]}, {"labels": 1}):
                assert 400 == client.post("events", json=event | wrong).status_code
            session.refresh()
            assert not session.labels
        assert 200 == client.post("events", json=event | {"labels": labels}).status_code
    change = event | {"id": "c", "action": "correct", "labels": [-label for label in labels]}
    other = [labels[0], -labels[1], labels[2]]
    assert [409, 200, 409] == [
        client.post("events", json=change | more).status_code
        for more in ({"was": other}, {"was": labels}, {"id": "d", "was": labels})
    ]
    assert [-label for label in labels] == client.get("labels").json()["labels"][-1]["labels"]
    session.refresh()
    for row in client.get("decisions").json()["decisions"][:20]:
        k = row["round"] - 1
        assert [[*map(list, (row["margin"], row["predicted"]))]] == [
            [each[:, k].tolist() for each in session.decided[:2]]
        ]
    found = {name: asdict(estimates.of_session(OneQuestion(session, name))) for name in NAMES}
    assert json.loads(json.dumps(found)) == client.get("estimates").json()["estimated"]
    (row,) = client.post("predict", json={"texts": ["a good street"]}).json()["predictions"]
    for name in NAMES:
        learned = model.of_session(OneQuestion(session, name))
        assert learned.scores(learned.rows(["a good street"]))[0, 0] == row[f"margin:{name}"]
    assert look_back.verify(session.store, session.id).verified


def test_the_form_starts_a_session_of_several_questions(app_store, keep):
    """Each line of the form is a question with its guidelines; a single line is refused. Examples are stored with the
    question that they name, and the session has no positive class or examples of its own. The card is told whether each
    question needs an answer."""
    keep("gaps", 40)
    at = form()
    at.text_area(key="new-questions").set_value("good: It is good.\n\n odd \nlate: a: b").run()
    at.toggle(key="new-each").set_value(True).run()
    seeds = "odd: other1, zebra\nodd: A whole text about other0 and the street\n\nold: good"
    at.text_area(key="new-seeds-of-questions").set_value(seeds).run()
    assert "No question: old; not in the data: zebra." in words(at)
    press(at, "new-send")
    settings = Session(app_store, app_store.sessions()[0]["id"]).settings
    expected = [("good", "It is good."), ("odd", ""), ("late", "a: b")]
    assert expected == [(each["name"], each["guidelines"]) for each in settings.questions]
    source = settings.questions[1]["prior"]
    assert [["other1"], ["zebra"], 1] == [source["words"], source["unknown"], len(source["texts"])]
    assert [1] == [*app_store.prior_weights(settings.id)]
    assert "prior" not in CardServer(settings.id).payload()["questions"][1]
    assert (None, None, True) == (settings.positive_class, settings.prior, settings.answer_each)
    assert CardServer(settings.id).payload()["answer_each"] is True
    at = form()
    at.text_area(key="new-questions").set_value("good").run()
    at.button(key="new-send").click().run()
    assert "questions must be 2 to 26, or left out to ask one. Got 1." in words(at)
    assert 1 == len(app_store.sessions())


def test_one_click_starts_the_demo_with_five_questions(app_store):
    """The demo button opens a session that asks five questions about each abstract, with guidelines. Its card takes an
    answer, and Home lists the session."""
    at = run("home.py")
    press(at, "demo-questions")
    (row,) = app_store.sessions()
    assert [str(row["id"])] == [*at.query_params["session"]]
    server = CardServer(row["id"])
    payload = server.payload(annotator="anna")
    assert ["Heart", "Cancer", "Children", "Pregnancy", "Interviews"] == [each["name"] for each in payload["questions"]]
    assert all(f"{each['name']}: {each['guidelines']}" in payload["guidelines"] for each in FIVE_QUESTIONS["questions"])
    asked = server.session.current
    send(server, "label", asked, item=asked.item, label=1, labels=[1, -1, 0, -1, 1], seconds=9.0)
    assert [1, -1, 0, -1, 1] == next(entry.labels for entry in server.session.log if entry.id == asked.id)
    assert FIVE_QUESTIONS["name"] in words(run("home.py"))


LABELS = [["toxic"], ["toxic", "insult"], [], ["insult"], ["threat", "toxic"], []] * 8
TEXTS = [f"some words {k}" for k in range(len(LABELS))]
BARS = ["|".join(each) for each in LABELS]
FLAGS = {name: [int(name in each) for each in LABELS] for name in ("threat", "toxic", "insult")}
SETS = {"label": "label", "contains": True, "positive": ("insult",)}


def records(make):
    """Return JSON Lines: for each of TEXTS with its LABELS, the record that `make(text, labels)` returns."""
    return "\n".join(json.dumps(make(*pair)) for pair in zip(TEXTS, LABELS))


def label_studio(text, labels):
    """Return a task of Label Studio whose choices are the labels."""
    return {"data": {"text": text}, "annotations": [{"result": [{"value": {"choices": labels}}]}]}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "content", "columns"), [
    ("jigsaw.csv", pandas.DataFrame({"text": TEXTS} | FLAGS).to_csv(index=False), {"label": None}),
    ("jigsaw.csv", pandas.DataFrame({"text": TEXTS} | FLAGS).to_csv(index=False), {"label": "toxic"}),
    ("bars.csv", pandas.DataFrame({"text": TEXTS, "label": BARS}).to_csv(index=False), SETS),
    ("bars.csv", pandas.DataFrame({"text": TEXTS, "label": BARS}).to_csv(index=False), {"label": None}),
    ("lists.csv", pandas.DataFrame({"text": TEXTS, "label": LABELS}).to_csv(index=False), SETS),
    ("label-studio.jsonl", records(label_studio), SETS),
    ("doccano.jsonl", records(lambda text, labels: {"text": text, "label": labels, "Comments": []}), SETS),
])  # fmt: skip
def test_the_labels_of_a_file_become_questions_by_one_click(app_store, tmp_path, name, content, columns):
    """A button adds a file's labels to the questions, the most frequent first. Such labels are columns of 1 and 0, or
    words in cells that hold several. Questions typed before stay, and a second click changes nothing."""
    path = tmp_path / name
    path.write_text(content)
    datasets.import_file(app_store, path, "labels", replace(reading.peek(path).guess, **columns), tokenizer="words")
    at = form()
    at.text_area(key="new-questions").set_value("insult: Of a person.\nspam").run()
    for _ in range(2):
        press(at, "new-each-1")
        assert "insult: Of a person.\nspam\ntoxic\nthreat" == at.text_area(key="new-questions").value
    press(at, "new-send")
    settings = Session(app_store, app_store.sessions()[0]["id"]).settings
    assert ["insult", "spam", "toxic", "threat"] == settings.question_names


@pytest.mark.parametrize("measures", [False, True])
def test_a_session_of_several_questions_begins_with_the_labels_of_its_file(app_store, tmp_path, measures):
    """If a file answers some questions about some items, the form offers to begin with these labels. This is the
    default unless the file answers a question about every item, as such labels measure the model."""
    path = tmp_path / "partly.csv"
    flags = {"toxic": FLAGS["toxic"], "threat": [flag if k % 2 else "" for k, flag in enumerate(FLAGS["threat"])]}
    if not measures:
        flags["toxic"] = ["", "", *flags["toxic"][2:]]
    pandas.DataFrame({"text": TEXTS} | flags).to_csv(path, index=False)
    datasets.import_file(
        app_store, path, "partly", reading.Columns(("text",), details=("toxic", "threat")), tokenizer="words"
    )
    at = form()
    assert not [each for each in at.toggle if each.key.startswith("new-known")]
    at.text_area(key="new-questions").set_value("toxic\nthreat").run()
    (question,) = [each for each in at.toggle if each.key.startswith("new-known")]
    labels = len(TEXTS) - (not measures)
    assert f"The file has labels for {labels} of {len(TEXTS)} items. Begin with them?" == question.label
    assert measures != question.value
    question.set_value(True).run()
    press(at, "new-send")
    opened = Session(app_store, app_store.sessions()[0]["id"])
    known_labels = [row["data"]["labels"] for row in opened.known_labels.values()]
    assert (labels, len(TEXTS) // 2 - (not measures)) == (len(known_labels), sum(map(all, known_labels)))


@pytest.mark.slow
@pytest.mark.parametrize("further", [
    {"label": ["spam", "ham"] * 24}, {"label": [1, 2, 3, 4] * 12}, {"sent": [0, 1] * 24}, {"title": TEXTS},
    {"label": [f"word {k}" for k in range(48)]}, {"label": ["a: b", "a:c", "x" * 61] * 16},
])  # fmt: skip
def test_other_files_have_no_such_button(app_store, tmp_path, further):
    """The form offers no questions from a file whose labels are two exclusive words, ratings, a single column of 1 and
    0, words that occur once, or names that no question can have."""
    path = tmp_path / "other.csv"
    pandas.DataFrame({"text": TEXTS} | further).to_csv(path, index=False)
    columns = reading.Columns(("text",), "label" if "label" in further else None, multiclass="label" in further)
    datasets.import_file(app_store, path, "other", columns, tokenizer="words")
    at = form()
    at.segmented_control(key="new-kind-1").set_value("One rare class").run()
    assert at.text_area(key="new-questions")
    assert not [button for button in at.button if button.key.startswith("new-each")]


def test_no_more_questions_are_offered_than_a_session_can_have(app_store, tmp_path):
    """Of many columns of 1 and 0, the form offers the 26 with the most ones. The button names the first eight."""
    flags = {f"flag{n}": [int(k < 47 - n) for k in range(48)] for n in range(29)}
    path = tmp_path / "many.csv"
    pandas.DataFrame({"text": TEXTS} | flags).to_csv(path, index=False)
    datasets.import_file(app_store, path, "many", reading.Columns(("text",)), tokenizer="words")
    at = form()
    label = at.button(key="new-each-1").label
    assert ("flag7 and 18 more", False) == (label[-len("flag7 and 18 more") :], "flag8" in label)
    press(at, "new-each-1")
    assert [*flags][:26] == at.text_area(key="new-questions").value.splitlines()
