"""A published session verifies bit for bit in another database with the same data, and no file does harm."""

import copy
import io
import json
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oal_engine import datasets
from oal_engine.output import jsonlines
from oal_engine.output.jsonlines import JsonLinesError
from oal_engine.sessions import bundle
from oal_engine.sessions.bundle import adopt
from oal_engine.sessions.look_back import verify
from oal_engine.sessions.session import Session
from oal_engine.store import Store
from tests.harness.sessions import begin, database, erase, labelled, say, stream_of, text_of, truth


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    return database(tmp_path_factory.mktemp("here") / "studio.db", "sparse")


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """Another database, where the same data set has another name."""
    return database(tmp_path_factory.mktemp("there") / "studio.db", "known as other")


@pytest.fixture
def empty(there):
    """The other database, without any session."""
    for row in there.sessions():
        erase(there, row["id"])
    return there


@pytest.fixture(scope="module")
def text(here):
    """A published session with wrong answers, skips and an undo."""
    return text_of(here, labelled(here, budget=60, positive_name="Is **so**")[0].id)


@pytest.mark.parametrize(
    ("data", "algorithm", "more"),
    [
        ("sparse", "PAA-I", {"budget": 60, "seed": 3, "theta": 0.05, "parameters": {"C": 0.3}}),
        ("sparse", "D-AMD", {"shuffled": True, "metric": "cost"}),
        ("classes", "MPAA-I", {"averaged": True}),
        ("classes", "PAA-I", {"positive_class": "b"}),
        ("sparse", "PAA-I", {"audit": 0.3, "audit_trains": False, "pace": 0.6, "horizon": 290}),
        ("sparse", "PAA-I", {"floor": 0.5}),
    ],
)
def test_a_session_verifies_in_another_database(here, empty, data, algorithm, more):
    """The adopted session has the same report and the same history, and publishing it again gives the same file."""
    opened, _ = labelled(here, data, algorithm, **more)
    text = text_of(here, opened.id)
    session = adopt(empty, io.StringIO(text))
    assert verify(here, opened.id).as_dict() | {"session": session} == verify(empty, session).as_dict()
    assert text == text_of(empty, session).replace("known as other", "sparse")
    assert opened.digest() == Session(empty, session).digest()
    assert any(label["undone_by"] for label in empty.history(session)[1])


def test_an_open_session_goes_on_where_it_was(here, empty):
    """Both databases ask the same next questions."""
    opened = begin(here)
    for _ in range(7):
        say(opened, truth(opened))
    again = Session(empty, adopt(empty, io.BytesIO(text_of(here, opened.id).encode())))
    for _ in range(5):
        asked = [(one.place.asked.item, one.place.asked.margin) for one in (opened, again)]
        assert asked[0] == asked[1]
        say(opened, truth(opened)), say(again, truth(again))
    assert opened.digest() == again.digest()


def test_a_session_of_a_name_that_stood_for_others_says_what_it_ran(here, empty):
    """A CPA session of version 0.2.0 is adopted as `cpa + all`, and verifies to the same bits."""
    opened, _ = labelled(here, "sparse", None, learner="cpa", rule="all")
    text = text_of(here, opened.id).replace('"algorithm": "cpa + all"', '"algorithm": "CPA"')
    session = adopt(empty, io.StringIO(text))
    assert ("CPA" in text, "cpa + all") == (True, empty.session(session)["algorithm"])
    assert verify(empty, session).verified
    assert opened.digest() == Session(empty, session).digest()


def test_a_session_of_before_a_parameter_is_adopted(here, empty):
    """A file without a parameter that its learner has today is adopted with the default, to the same bits."""
    opened, _ = labelled(here, "sparse", "SSOA3")
    text = text_of(here, opened.id)
    assert '"every": 1' in text
    session = adopt(empty, io.StringIO(text.replace(', "every": 1', "")))
    assert opened.digest() == Session(empty, session).digest()
    assert text == text_of(empty, session).replace("known as other", "sparse")


def test_it_is_kept_once(empty, text):
    """A session that is in the database already is not adopted again."""
    adopt(empty, io.StringIO(text))
    with pytest.raises(
        JsonLinesError, match=r"^this session is here already; where it was removed, its owner can restore it\.$"
    ):
        adopt(empty, io.StringIO(text))
    assert 1 == len(empty.sessions())


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [
        ("else", {"n": 299}, r"sparse \(300 items, 8 features\): it is not here\. Import it"),
        ("sparse", {"seed": 1}, r"the data set sparse here has other rows\. Import it"),
        ("else", {"labels": (0, 1)}, r"the data set else here has the same rows but other labels of its own\. Import"),
    ],
)
def test_missing_or_different_data_is_refused(tmp_path, text, name, changes, sentence):
    """Without a data set of the same rows, terms and labels the error says what differs, and nothing is stored."""
    store = Store(tmp_path / "studio.db")
    datasets.add(store, name, datasets.table(stream_of(**changes)[1]), "made.npz")
    with pytest.raises(JsonLinesError, match=sentence):
        adopt(store, io.StringIO(text))
    assert [] == store.sessions()


def edited(text, line, **changes):
    lines = [json.loads(part) for part in text.splitlines()]
    lines[line] |= changes
    return "".join(json.dumps(part) + "\n" for part in lines)


def head(text, **changes):
    return edited(text, 0, settings=json.loads(text.splitlines()[0])["settings"] | changes)


def label(text):
    return next(k for k, line in enumerate(text.splitlines()) if "event" in line)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: "", "the first line must say that this is a published session of version 2"),
        (lambda text: "hello\n" + text, "line 1 is no JSON object"),
        (lambda text: "[1]\n" + text, "line 1 is no JSON object"),
        (lambda text: "[" * 100_000, "line 1 is no JSON object: it is nested too deeply"),
        (lambda text: edited(text, 0, oal_session=1), "the first line must say that this is a published"),
        (lambda text: text[: len(text) // 2], "is no JSON object|cut short"),
        (lambda text: text.rsplit("\n", 2)[0] + "\n", "the file is cut short or altered"),
        (lambda text: text + text.splitlines()[1], "comes after the end of the session"),
        (lambda text: text.replace('"margin": ', '"margin": NaN, "x": ', 1), "line 2 is no JSON object: NaN is no"),
        (lambda text: edited(text, 1, extra=1), "line 2 must be a question, label, note, mark, addition, hap"),
        (lambda text: edited(text, 1, round=-1), "invalid value for round in line 2. Got -1."),
        (lambda text: edited(text, 1, item=300), "question 1 is about an item that the data set does not have"),
        (lambda text: edited(text, 1, margin="<b>"), 'invalid value for margin in line 2. Got "<b>".'),
        (lambda text: edited(text, 1, draw=10**30), "the file holds a number that is too large for the database."),
        (lambda text: edited(text, 1, asked_at="now"), 'invalid value for asked_at in line 2. Got "now".'),
        (lambda text: edited(text, 2, parent=2), "the questions are not in order at question 2"),
        (lambda text: edited(text, 2, number=9), "the numbers of the questions have gaps"),
        (lambda text: edited(text, 1, predicted=4), "question 1 has a class that the session does not have"),
        (lambda text: edited(text, 1, parent=True), "invalid value for parent in line 2. Got true."),
        (lambda text: edited(text, label(text), label=2), "the label of question 1 is not one of the session"),
        (lambda text: edited(text, label(text), position=1), "the label of question 1 corrects no label that it had"),
        (lambda text: edited(text, label(text), undone_by="x"), "must have both undone_at and undone_by"),
        (lambda text: edited(text, label(text), question=2), "names a question, a number or an event twice|no answer"),
        (lambda text: edited(text, label(text), event="a\0b"), "invalid value for event in line [0-9]+"),
        (lambda text: head(text, learner="pa-ii"), "invalid value for learner in the settings"),
        (lambda text: head(text, algorithm="no", learner="no"), "learner"),
        (lambda text: head(text, budget=0), "invalid value for budget in line 1. Got 0."),
        (lambda text: head(text, parameters={"learner": {"C": -1}, "rule": {}}), "C of pa-i must be > 0"),
        (lambda text: head(text, parameters={"learner": {}, "rule": {"delta": "x"}}), "value for parameters in line 1"),
        (lambda text: head(text, alpha_p=2), "alpha_p of the metric weights"),
        (lambda text: head(text, positive_class="a"), "positive_class must be"),
        (lambda text: head(text, rho=-1), "rho must be"),
        (lambda text: head(text, audit=2), "audit must be >= 0 and < 1"),
        (lambda text: head(text, pace=-1), "pace must be > 0 and <= 1"),
        (lambda text: head(text, items=301), "invalid value for items in the settings"),
        (lambda text: " " * (bundle.LONGEST_LINE + 1), "the file is too large in line 1"),
    ],
)  # fmt: skip
def test_an_invalid_file_is_refused_in_one_sentence(empty, text, change, sentence):
    """Whatever is wrong, the error says where, and nothing is stored."""
    with pytest.raises(ValueError, match=sentence):
        adopt(empty, io.StringIO(change(text)))
    assert [] == empty.sessions()
    assert 0 == empty.one("SELECT count(*) AS n FROM questions")["n"]


@pytest.mark.parametrize("half", ["\\ud83d", "\\uDE00", "\\ud83d\\ud83d"])
def test_half_a_character_is_refused_with_its_file_and_line(empty, text, tmp_path, command, half):
    """An unpaired surrogate anywhere is refused with file and line; a pair is accepted."""
    lines = text.split("\n")
    answered = next(k for k, line in enumerate(lines) if '"event"' in line)
    for at, before in ((0, '"name": "'), (answered, '"event": "'), (answered, '"annotator": "')):
        assert before in lines[at]
        changed = [*lines[:at], lines[at].replace(before, before + half), *lines[at + 1 :]]
        (tmp_path / "session.jsonl").write_text("\n".join(changed))
        code, _, err = command("adopt", tmp_path / "session.jsonl", "--db", empty.path)
        message = f"session.jsonl cannot be adopted: line {at + 1} holds half a character: \\{half[1:6].lower()}"
        assert (1, True, 1) == (code, message in err, err.count("\n"))
    assert [] == empty.sessions()
    whole = text.replace('"annotator": "', '"annotator": "\\ud83d\\ude00', 1)
    assert empty.session(adopt(empty, io.StringIO(whole)))


def test_a_file_is_limited_in_size(empty, text, monkeypatch):
    """The size of the whole file is limited, and bytes that are not UTF-8 are refused."""
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
    """Any value in any field is refused with an error, or gives a session that can be verified."""
    lines = [json.loads(line) for line in text.splitlines()]
    changed = copy.deepcopy(data.draw(st.sampled_from(lines)))
    place = lines.index(changed)
    inside = changed["settings"] if place == 0 and data.draw(st.booleans()) else changed
    inside[data.draw(st.sampled_from(sorted(inside)))] = value
    lines[place] = changed
    for row in there.sessions():
        erase(there, row["id"])
    with suppress(ValueError):
        session = adopt(there, io.StringIO("".join(json.dumps(line) + "\n" for line in lines)))
        assert [session] == [row["id"] for row in there.sessions()]
        assert session == verify(there, session).session
        return
    assert [] == there.sessions()


def test_an_altered_answer_is_kept_but_does_not_verify(empty, text):
    """An answer that was altered to another valid label is adopted and fails verification."""
    lines = [json.loads(line) for line in text.splitlines()]
    place = next(k for k, line in enumerate(lines) if line.get("label") == 1 and line["undone_at"] is None)
    session = adopt(empty, io.StringIO(edited(text, place, label=-1)))
    assert not verify(empty, session).verified


def test_the_command_line_publishes_adopts_and_verifies(here, empty, text, tmp_path, command):
    """`adopt` stores what `publish` writes, and the exit code of `verify` says whether the session is reproduced."""

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
