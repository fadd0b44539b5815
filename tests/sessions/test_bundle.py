"""A published session is verified bit for bit in another database with the same data; invalid files do no harm."""

import copy
import io
import json
import re
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oal_engine import datasets
from oal_engine.datasets import demo, reading
from oal_engine.output import jsonlines
from oal_engine.output.jsonlines import JsonLinesError
from oal_engine.sessions.files.bundle import adopt
from oal_engine.sessions.look_back import verify
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store
from tests.harness.mutations import mutated
from tests.harness.sessions import EVENTS, begin, database, erase, labelled, stream_of, text_of


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    return database(tmp_path_factory.mktemp("here") / "studio.db", "sparse")


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """A second database, in which the data set of `here` has another name."""
    return database(tmp_path_factory.mktemp("there") / "studio.db", "known as other")


@pytest.fixture
def empty(there):
    """The database of `there`, after all its sessions were erased."""
    for row in there.sessions():
        erase(there, row["id"])
    return there


@pytest.fixture(scope="module")
def text(here):
    """The text of a published session with wrong answers, skips, an undo, a correction, added labels, a mark, a note
    and a tag."""
    opened, _ = labelled(here, budget=60, parameters={"delta": 1}, positive_name="Is **so**", tags=["odd"])
    opened.correct(next(EVENTS), opened.log[3].id, 0)
    opened.add_labels(next(EVENTS), 3)
    passed = opened.order[np.flatnonzero((opened.decided[1] > 0) & ~opened.decided[2])[-1]]
    opened.feedback(next(EVENTS), int(passed), True, trains=True)
    opened.note(next(EVENTS), 7, "a note")
    opened.tag(next(EVENTS), 7, "odd", True)
    return text_of(here, opened.id)


def demo_session(folder, labels=5):
    """Return the text of a published session over the demo's tweets, with a few answers."""
    store = Store(folder / "first.db")
    session = Session(store, create(store, demo.dataset(store, "tweets"), **demo.DEMOS["tweets"].session))
    for k in range(labels):
        session.answer(f"answer {k}", session.place.asked.id, int(session.y[session.place.asked.item]))
    return text_of(store, session.id)


def test_a_session_over_a_demo_is_adopted_by_a_fresh_database(tmp_path):
    """Adopting a session on a demo imports the demo, and verifies the session. A refused file adds no data set."""
    text = demo_session(tmp_path)
    store = Store(tmp_path / "fresh.db")
    with pytest.raises(JsonLinesError, match=r"same rows but other labels|other rows"):
        adopt(store, io.StringIO(re.sub(r'"rows": "\w+"', f'"rows": "{"0" * 64}"', text, count=1)))
    assert [] == store.datasets()
    assert verify(store, adopt(store, io.StringIO(text), among=())).verified
    assert [demo.DEMOS["tweets"].name] == [row["name"] for row in store.datasets()]


@pytest.mark.parametrize(
    ("data", "algorithm", "more"),
    [
        ("sparse", "PAA-I", {"budget": 60, "theta": 0.05, "parameters": {"C": 0.3}}),
        ("classes", "MPAA-I", {"averaged": True}),
        ("classes", "PAA-I", {"positive_class": "b", "metric": "cost"}),
    ],
)
def test_a_session_verifies_in_another_database(here, empty, data, algorithm, more):
    """An adopted session has the same verification report and history, and is published again as the same file."""
    opened, _ = labelled(here, data, algorithm, **more)
    text = text_of(here, opened.id)
    session = adopt(empty, io.StringIO(text))
    assert verify(here, opened.id).as_dict() | {"session": session} == verify(empty, session).as_dict()
    assert text == text_of(empty, session).replace("known as other", "sparse")
    assert opened.digest() == Session(empty, session).digest()
    assert empty.events(session, "undone")


def test_a_session_of_before_a_parameter_is_adopted(here, empty):
    """A published session without a parameter that its learner has today is adopted with the parameter's default, and
    has the same state, bit for bit."""
    opened, _ = labelled(here, "sparse", "SSOA3")
    text = text_of(here, opened.id)
    assert '"every": 1' in text
    session = adopt(empty, io.StringIO(text.replace(', "every": 1', "")))
    assert opened.digest() == Session(empty, session).digest()
    assert text == text_of(empty, session).replace("known as other", "sparse")


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [
        ("else", {"n": 299}, r"sparse \(300 items, 8 features\): it is not here\. Import the same file"),
        ("sparse", {"seed": 1}, r"the data set sparse here has other rows\. Import the same file"),
        ("else", {"labels": (0, 1)}, r"the data set else here has the same rows but other labels of its own\. Import"),
    ],
)
def test_missing_or_different_data_is_refused(tmp_path, text, name, changes, sentence):
    """If no data set has the rows, terms and labels of the published session, the error names the difference, and
    nothing is stored."""
    store = Store(tmp_path / "studio.db")
    datasets.add(store, name, datasets.table(stream_of(**changes)[1]), "made.npz")
    with pytest.raises(JsonLinesError, match=sentence):
        adopt(store, io.StringIO(text))
    assert [] == store.sessions()


@pytest.mark.parametrize("change", [{"id": "other"}, {"text": "Word1, again1!"}, {"journal": "Nature"}])
def test_data_with_another_text_id_or_cell_are_other_data(tmp_path, change):
    """A published session is not adopted over a data set with the same rows, terms and labels if an id, a text or a
    kept cell differs. A file of 0.3.0, which has no digest of these, still is."""
    path, stores = tmp_path / "texts.jsonl", [Store(tmp_path / f"{name}.db") for name in ("here", "there")]
    for store, changed in zip(stores, ({}, change)):
        items = [{"id": f"i{k}", "text": f"word{k % 5} again{k % 3}", "journal": f"j{k}"} for k in range(30)]
        items[1] |= changed
        path.write_text("\n".join(map(json.dumps, items)))
        columns = reading.Columns(("text",), id="id", details=("journal",))
        datasets.import_file(store, path, "texts", columns, tokenizer="words")
    text = text_of(stores[0], begin(stores[0], "texts", budget=5).id)
    with pytest.raises(JsonLinesError, match="has the same rows but other ids, texts or kept columns"):
        adopt(stores[1], io.StringIO(text))
    data = json.loads(text.splitlines()[0])["dataset"]
    del data["texts"]
    with pytest.raises(JsonLinesError, match="head of a session"):
        adopt(stores[1], io.StringIO(edited(text, 0, dataset=data)))
    assert 1 == adopt(stores[1], io.StringIO(edited(text, 0, dataset=data, oal_session=3)))


def edited(text, line, **changes):
    lines = [json.loads(part) for part in text.splitlines()]
    lines[line] |= changes
    return "".join(json.dumps(part) + "\n" for part in lines)


def head(text, **changes):
    return edited(text, 0, settings=json.loads(text.splitlines()[0])["settings"] | changes)


def event(text, kind="answered"):
    """Return the index of the line with the first event of a kind."""
    return next(k for k, line in enumerate(text.splitlines()) if f'"kind": "{kind}"' in line)


def event_edited(text, which="answered", /, **changes):
    return edited(text, event(text, which), **changes)


def without(text, line):
    """Remove the event at index `line` from the text of a published session, and reduce the event count in its last
    line by one. Return the new text."""
    lines = text.splitlines(keepends=True)
    return edited("".join(lines[:line] + lines[line + 1 :]), -1, events=json.loads(lines[-1])["events"] - 1)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: "", "the first line must say that this is a published session of version 3"),
        (lambda text: "hello\n" + text, "line 1 is not a JSON object"),
        (lambda text: "[1]\n" + text, "line 1 is not a JSON object"),
        (lambda text: "[" * 100_000, "line 1 is not a JSON object: it is nested too deeply"),
        (lambda text: edited(text, 0, oal_session=1), "the first line must say that this is a published"),
        (lambda text: text[: len(text) // 2], "is not a JSON object|cut short"),
        (lambda text: text.rsplit("\n", 2)[0] + "\n", "the file is cut short or altered"),
        (lambda text: text + text.splitlines()[1], "comes after the end of the session"),
        (lambda text: text.replace('"margin": ', '"margin": NaN, "x": ', 1), "line 2 is not a JSON object: NaN is not"),
        (lambda text: edited(text, 1, extra=1), "line 2 must be a question, event, digest, prior or the end of"),
        (lambda text: edited(text, 1, round=-1), "invalid value for round in line 2. Got -1."),
        (lambda text: edited(text, 1, item=300), "question 1 is about an item that the data set does not have"),
        (lambda text: edited(text, 1, margin="<b>"), 'invalid value for margin in line 2. Got "<b>".'),
        (lambda text: edited(text, 1, draw=10**30), "the file holds a number that is too large for the database."),
        (lambda text: edited(text, 1, asked_at="now"), 'invalid value for asked_at in line 2. Got "now".'),
        (lambda text: edited(text, 2, parent=2), "the questions are not in order at question 2"),
        (lambda text: edited(text, 2, number=9), "the numbers of the questions have gaps"),
        (lambda text: edited(text, 1, predicted=4), "question 1 has a class that the session does not have"),
        (lambda text: edited(text, 1, parent=True), "invalid value for parent in line 2. Got true."),
        (lambda text: event_edited(text, label=2), "the label of event 2 is not one of the session"),
        (lambda text: event_edited(text, label=None), "event 2 of the log is not valid: label cannot be None"),
        (lambda text: event_edited(text, label=128), "invalid value for label in line [0-9]+. Got 128."),
        (lambda text: event_edited(text, "corrected", label=2), "the label of event [0-9]+ is not one of the session"),
        (lambda text: event_edited(text, kind="corrected"), "event 2 does not fit its question, 1"),
        (lambda text: event_edited(text, "corrected", kind="answered"), "does not fit its question, 4"),
        (lambda text: event_edited(text, "corrected", kind="undone"), "question 4 has no answer, but later ones have"),
        (lambda text: event_edited(text, kind="undone"), "event 2 of the log takes back an answer that was not given"),
        (lambda text: event_edited(text, "undone", question=60), "takes back an answer that was not given"),
        (lambda text: event_edited(text, question=2), "event 3 does not fit its question, 2"),
        (lambda text: event_edited(text, question=10**6), "event 2 names a question that the session does not have"),
        (lambda text: event_edited(text, question=None), "event 2 of the log is not valid: question cannot be None"),
        (lambda text: event_edited(text, question=2**60), "invalid value for question in line [0-9]+"),
        (lambda text: without(text, event(text)), "question 1 has no answer, but later ones have"),
        (lambda text: edited(text, event(text) - 1, oal=1), "must be a question, event, digest, prior or the end"),
        (lambda text: event_edited(text, kind="learned"), "event 2 of the log is not valid: kind cannot be 'learned'"),
        (lambda text: event_edited(text, id=json.loads(text.splitlines()[event(text) + 1])["id"]),
         "names a question, a number or an event twice"),
        (lambda text: event_edited(text, id="a\0b"), "invalid value for id in line [0-9]+"),
        (lambda text: event_edited(text, at="now"), 'invalid value for at in line [0-9]+. Got "now".'),
        (lambda text: event_edited(text, seconds=1e308), "invalid value for seconds in line [0-9]+. Got 1e[+]308."),
        (lambda text: event_edited(text, at="0001-01-01T00:00:00+00:00"), "invalid value for at in line"),
        (lambda text: event_edited(text, at="9999-12-31T23:59:59+00:00"), "invalid value for at in line"),
        (lambda text: text.replace('"kind": "noted"', '"kind": "grown", "kind": "noted"'), "it has the key kind twice"),
        (lambda text: event_edited(text, data=[1]), "invalid value for data in line [0-9]+"),
        (lambda text: event_edited(text, data={"highlighted": 7}), "highlighted cannot be 7"),
        (lambda text: event_edited(text, data={"rounds": "x"}), "rounds"),
        (lambda text: event_edited(text, "grown", data={"rounds": 301}), "event 1 is about an item that the data set"),
        (lambda text: event_edited(text, "grown", data={"rounds": 2.5}), "invalid value for data in line"),
        (lambda text: event_edited(text, "grown", data=None), "event 1 of the log is not valid: rounds cannot be None"),
        (lambda text: event_edited(text, "marked", item=300), "is about an item that the data set does not have"),
        (lambda text: event_edited(text, "marked", data={"wrong": 1, "trains": 2}), "trains cannot be 2"),
        (lambda text: event_edited(text, "tagged", item=300), "is about an item that the data set does not have"),
        (lambda text: event_edited(text, "tagged", data={"tag": "x" * 61, "given": 1}), "tag cannot be 'xxx"),
        (lambda text: event_edited(text, "tagged", data={"tag": "odd", "given": 2}), "given cannot be 2"),
        (lambda text: event_edited(text, "tagged", data={"given": 1}), "tag cannot be None"),
        (lambda text: event_edited(text, "noted", item=2**53), "is about an item that the data set does not have"),
        (lambda text: event_edited(text, "added", data={"labels": 2**53, "horizon": 300}), "labels cannot be 9007199"),
        (lambda text: event_edited(text, "added", data={"labels": 0, "horizon": 300}), "labels cannot be 0"),
        (lambda text: event_edited(text, "added", data={"labels": 1, "horizon": 0}), "horizon cannot be 0"),
        (lambda text: edited(text, -2, number=10**6), "a digest is of an event that the session does not have"),
        (lambda text: edited(text, -2, number=0), "invalid value for number in line [0-9]+. Got 0."),
        (lambda text: head(text, learner="pa-ii"), "invalid value for learner in the settings"),
        (lambda text: head(text, algorithm="no", learner="no"), "learner"),
        (lambda text: head(text, algorithm="<b>"), "invalid value for algorithm in the settings"),
        (lambda text: head(text, algorithm="auto"), "auto has no parameter|invalid value for"),
        (lambda text: head(text, tags=["odd"] * 100_000), "invalid value for tags in the settings"),
        (lambda text: head(text, tags=[" odd "]), "invalid value for tags in the settings"),
        (lambda text: head(text, budget=0), "invalid value for budget in line 1. Got 0."),
        (lambda text: head(text, parameters={"learner": {"C": -1}, "rule": {}}), "C of pa-i must be > 0"),
        (lambda text: head(text, parameters={"learner": {}, "rule": {"delta": "x"}}), "value for parameters in line 1"),
        (lambda text: head(text, alpha_p=2), "alpha_p of the metric weights"),
        (lambda text: head(text, positive_class="a"), "positive_class must be"),
        (lambda text: head(text, rho=-1), "rho must be"),
        (lambda text: head(text, audit=2), "audit must be >= 0 and < 1"),
        (lambda text: head(text, pace=-1), "pace must be > 0 and <= 1"),
        (lambda text: head(text, items=301), "invalid value for items in the settings"),
        (lambda text: " " * (jsonlines.LONGEST_LINE + 1), "the file is too large in line 1"),
    ],
)  # fmt: skip
def test_an_invalid_file_is_refused_in_one_sentence(empty, text, change, sentence):
    """The error about an invalid file says where it is wrong, and nothing is stored."""
    with pytest.raises(ValueError, match=sentence):
        adopt(empty, io.StringIO(change(text)))
    assert [] == empty.sessions()
    assert 0 == empty.one("SELECT count(*) AS n FROM questions")["n"]


@pytest.mark.parametrize("half", ["\\ud83d", "\\uDE00", "\\ud83d\\ud83d"])
def test_half_a_character_is_refused_with_its_file_and_line(empty, text, tmp_path, command, half):
    lines = text.split("\n")
    noted = event(text, "noted")
    for at, before in ((0, '"name": "'), (noted, '"id": "'), (noted, '"annotator": "'), (noted, '"text": "')):
        assert before in lines[at]
        changed = [*lines[:at], lines[at].replace(before, before + half), *lines[at + 1 :]]
        (tmp_path / "session.jsonl").write_text("\n".join(changed))
        code, _, err = command("adopt", tmp_path / "session.jsonl", "--db", empty.path)
        message = (
            f"session.jsonl cannot be adopted: line {at + 1} contains an unpaired surrogate (\\{half[1:6].lower()}"
        )
        assert (1, True, 1) == (code, message in err, err.count("\n"))
    assert [] == empty.sessions()
    whole = text.replace('"annotator": "', '"annotator": "\\ud83d\\ude00', 1)
    assert empty.session(adopt(empty, io.StringIO(whole)))


def test_a_file_is_limited_in_size(empty, text, monkeypatch):
    monkeypatch.setattr(jsonlines, "LONGEST_FILE", 2000)
    with pytest.raises(JsonLinesError, match="the file is too large in line"):
        adopt(empty, io.StringIO(text))
    with pytest.raises(JsonLinesError, match=r"^line 1 is not UTF-8\.$"):
        adopt(empty, io.BytesIO(b"\xff\xfe"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), value=JSON)
def test_no_value_does_harm(there, text, data, value):
    """Any JSON value in any field is refused with an error, or gives a session that `verify` can check."""
    lines = [json.loads(line) for line in text.splitlines()]
    changed = copy.deepcopy(data.draw(st.sampled_from(lines)))
    place = lines.index(changed)
    inside = data.draw(st.sampled_from([changed, *(part for part in changed.values() if part and type(part) is dict)]))
    inside[data.draw(st.sampled_from(sorted(inside)))] = value
    lines[place] = changed
    for row in there.sessions():
        erase(there, row["id"])
    assert_refused_or_sound(there, "".join(json.dumps(line) + "\n" for line in lines).encode())


def assert_refused_or_sound(store, file):
    """Assert that a file is refused and nothing is stored, or that its session can be opened, verified and published
    again."""
    try:
        session = adopt(store, io.BytesIO(file))
    except ValueError:
        assert [] == store.sessions()
        return
    assert verify(store, session).verified
    assert session == Session(store, session).id
    again = text_of(store, session)
    erase(store, session)
    session = adopt(store, io.StringIO(again))
    assert again == text_of(store, session)
    erase(store, session)


@pytest.mark.parametrize("seed", range(6))
def test_a_damaged_file_is_refused_or_sound(empty, text, seed):
    """Of a file with random damage, only a session that can be opened, verified and published again is stored."""
    random, own = Random(seed), text.encode()
    for _ in range(40):
        assert_refused_or_sound(empty, mutated(own, [own], random))


def test_an_altered_answer_is_refused(empty, text):
    """A file in which an answer was altered to another valid label is refused: nobody could open its session."""
    lines = [json.loads(line) for line in text.splitlines()]
    undone = {line["question"] for line in lines if line.get("kind") in ("undone", "corrected")}
    stands = [line.get("label") == 1 and line["question"] not in undone for line in lines]
    place = stands.index(True)
    with pytest.raises(JsonLinesError, match=r"^its session cannot be reproduced. First difference in round \d+"):
        adopt(empty, io.StringIO(edited(text, place, label=-1)))
    assert [] == empty.sessions()


def test_the_command_line_publishes_adopts_and_verifies(here, empty, text, tmp_path, command):
    """`adopt` stores a session that `publish` wrote. `verify` exits with 0 if the session is reproduced, else 1."""

    file = tmp_path / "session.jsonl"
    session = labelled(here)[0].id
    assert (0, "", "") == command("publish", session, "--out", file, "--db", here.path)
    assert (0, file.read_text(), "") == command("publish", session, "--db", here.path)
    code, out, err = command("adopt", file, "--db", empty.path, "--json")
    assert (0, "", True) == (code, err, json.loads(out)["verified"])
    adopted = json.loads(out)["session"]
    code, out, _ = command("verify", adopted, "--db", empty.path)
    assert (0, True) == (code, "Verified bit for bit" in out)
    with empty.transaction():
        empty.db.execute("UPDATE questions SET margin = 9 WHERE session = ? AND number = 4", [adopted])
    code, out, _ = command("verify", adopted, "--db", empty.path)
    assert (1, True) == (code, "First difference in round" in out)
    code, out, err = command("adopt", file, "--db", empty.path)
    assert (1, "") == (code, out)
    assert err.startswith(f"error: {file} cannot be adopted: this session is here already")
