"""Whatever a session acknowledges can be read again, verified, published and adopted; an id stands for one event."""

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from oal_engine import datasets
from oal_engine.sessions.look_back import verify
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SessionError, create
from tests.harness.sessions import EVENTS, TRUTHS, begin, database, erase, give, label_truly, stream_of, travelled

ODD = [*"\0\ud800\udfff\ufeff\u2028\x85\x1b\ufffe\U0010ffff\\\"'|=\t", "\r\n"]
PIECES = st.lists(st.sampled_from(ODD) | st.text(st.characters(exclude_categories=()), max_size=3), max_size=3)
TEXTS = st.builds(lambda parts, times: "".join(parts) * times, PIECES, st.sampled_from((1, 1, 1, 70, 300)))


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Two databases with the same data."""
    return [database(tmp_path_factory.mktemp(name) / "studio.db", "sparse") for name in ("here", "there")]


def tried(act, *arguments, **named):
    """Return what a call returns, or None if it refuses its arguments."""
    try:
        return act(*arguments, **named)
    except ValueError as error:
        sentence = str(error)
    assert sentence.endswith("."), sentence
    return None


def one_of_each(opened, word):
    """Send events of all kinds to a session; `word()` gives every text, and answers may take any time."""
    item = opened.order.tolist()
    for _ in range(3):
        asked = opened.current
        labels = [int(TRUTHS[k, asked.item]) if part[1] else 0 for k, part in enumerate(asked.parts or ())]
        who, seconds = word(), len(word()) * 1e7
        tried(opened.answer, word(), asked.id, labels or 1, who, seconds)
        give(opened) if labels else label_truly(opened, 1)
        tried(opened.note, word(), item[0], word(), word())
        tried(opened.tag, word(), item[1], word(), False, word())
        for tag in opened.settings.tags or ():
            tried(opened.tag, next(EVENTS), item[1], tag, True, word())
    tried(opened.correct, word(), opened.previous, [0] * len(labels) or 0, word(), seconds)
    tried(opened.undo, word(), opened.previous, word())
    question = opened.settings.question_names[0] if labels else None
    tried(opened.know, word(), {item[-1]: 1}, word(), word(), question)
    tried(opened.add_labels, word(), 2, word())
    if labels:
        tried(opened.add_question, word(), word(), word())
        tried(opened.close_question, word(), opened.settings.question_names[-1], word())
    else:
        tried(opened.feedback, word(), item[2], True, word())


@pytest.mark.parametrize("several", [False, True])
def test_what_is_acknowledged_can_be_read_again(stores, several):
    """Any text may be the name of a session, a class, a question, a tag or an annotator, the id of an event, a note,
    guidelines or an origin: it is refused in a sentence, or the session opens again, verifies, and is published and
    adopted."""
    here, there = stores

    @settings(max_examples=15, deadline=None, phases=[Phase.generate])
    @given(st.data())
    def whatever(data):
        def word():
            return data.draw(TEXTS)

        own = {"questions": [word(), {"name": "b", "guidelines": word()}]} if several else {"negative_name": word()}
        own |= {"name": word(), "tags": [word()], "shown": [word()], "guidelines": word(), "owner": word()}
        more = {name: value for name, value in own.items() if data.draw(st.booleans())}
        usual = {"learner": "pa-i", "rule": "all", "budget": 20} | ({"questions": ["a", "b"]} if several else {})
        session = tried(create, here, "sparse", **usual | more) or create(here, "sparse", **usual)
        opened = Session(here, session)
        one_of_each(opened, word)
        again = Session(here, session)
        assert (opened.digest(), opened.notes, opened.tags) == (again.digest(), again.notes, again.tags)
        assert verify(here, session).verified
        assert verify(here, session).unreadable is None
        other = travelled(here, session, there)
        assert (again.digest(), again.notes, again.tags) == (other.digest(), other.notes, other.tags)
        assert here.shown_columns(session) == there.shown_columns(other.id)
        erase(here, session), erase(there, other.id)

    whatever()


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 501])
def test_a_data_set_whose_sessions_could_not_be_published_is_refused(stores, name):
    """The name of a data set has 500 characters at most, all of which every file can hold."""
    with pytest.raises(ValueError, match=r"^the name of a data set must have 500 characters at most: name cannot"):
        datasets.add(stores[0], name, datasets.table(stream_of(n=20)[1]), "made.npz")


def first(opened):
    return opened.log[0].id


ACTS = {  # an event, and others that may not have its id: other content, or another kind
    "answer": [
        lambda opened, id: opened.answer(id, first(opened), 1),
        lambda opened, id: opened.answer(id, first(opened), -1),
        lambda opened, id: opened.answer(id, opened.current.id, 1),
        lambda opened, id: opened.undo(id, first(opened)),
        lambda opened, id: opened.note(id, 0, "a note"),
    ],
    "note": [
        lambda opened, id: opened.note(id, 0, "a note"),
        lambda opened, id: opened.note(id, 0, "another"),
        lambda opened, id: opened.note(id, 1, "a note"),
        lambda opened, id: opened.tag(id, 0, "odd", True),
        lambda opened, id: opened.answer(id, opened.current.id, 1),
    ],
    "tag": [
        lambda opened, id: opened.tag(id, 0, "odd", True),
        lambda opened, id: opened.tag(id, 0, "odd", False),
    ],
    "correction": [
        lambda opened, id: opened.correct(id, first(opened), -1),
        lambda opened, id: opened.correct(id, first(opened), 1),
        lambda opened, id: opened.correct(id, opened.log[1].id, -1),
    ],
    "undo": [
        lambda opened, id: opened.undo(id, opened.log[1].id),
        lambda opened, id: opened.undo(id, first(opened)),
    ],
    "known label": [
        lambda opened, id: opened.know(id, {299: 1}, "file"),
        lambda opened, id: opened.know(id, {299: -1}, "file"),
        lambda opened, id: opened.know(id, {298: 1}, "file"),
    ],
    "labels": [
        lambda opened, id: opened.add_labels(id, 5),
        lambda opened, id: opened.add_labels(id, 6),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", ACTS)
def test_an_id_stands_for_one_event(store, kind):
    """An event that is sent again changes nothing. An event of another content, kind or session with the same id is
    refused."""
    opened, other = (begin(store, tags=["odd"], budget=20) for _ in range(2))
    for session in (opened, other):
        session.answer(f"first of {session.id}", session.current.id, 1)
        session.answer(f"second of {session.id}", session.current.id, 1)
    id = f"first of {opened.id}" if kind == "answer" else f"own {kind}"
    event, *others = ACTS[kind]
    event(opened, id)
    before = [(store.events(each.id), each.digest()) for each in (opened, other)]
    event(opened, id)
    for act, where in [*((act, opened) for act in others), (event, other)]:
        with pytest.raises(
            SessionError, match=r"^another event has this id already: an event needs an id of its own\.$"
        ):
            act(where, id)
    assert before == [(store.events(each.id), each.digest()) for each in (opened, other)]


def test_an_answer_is_the_same_event_whatever_it_was_stored_as(store):
    """An answer of which a label follows from a parent's is acknowledged when it is sent again, even if it was undone
    meanwhile."""
    opened = begin(store, questions=["a", {"name": "b", "parent": "a"}], budget=9)
    asked = opened.current.id
    opened.answer("one", asked, [-1, 0])
    assert [-1, -1] == opened.log[0].labels
    opened.answer("one", asked, [-1, 0])
    opened.undo("two", asked)
    opened.answer("one", asked, [-1, 0])
    assert [] == opened.labels
    with pytest.raises(SessionError, match="another event has this id already"):
        opened.answer("one", asked, [1, 0])
