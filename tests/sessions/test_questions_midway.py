"""Questions that are added or closed while a session runs, and child questions, which need a yes to their parent
question."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest

from oal_engine import Studio
from oal_engine.datasets import Dataset, feeds
from oal_engine.kernel import spending
from oal_engine.sessions import look_back, model
from oal_engine.sessions.files import bundle, export, player, report
from oal_engine.sessions.insights import certainty, drift, estimates
from oal_engine.sessions.one_question import OneQuestion, QuestionTrace
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SessionError
from tests.harness.sessions import EVENTS, begin, database, give, stream_of, text_of, travelled

NAMES = ["half", "fifth", "rare", "late"]


def changed(store, **more):
    """Return a session with 30 answers that asks three questions about each item. The question `late` is added after 10
    answers, and `fifth` is closed after 20."""
    opened = begin(store, "unlabelled", "auto", questions=NAMES[:3], **more)
    give(opened, 10)
    opened.add_question(next(EVENTS), "late", "Comes later.")
    give(opened, 10)
    opened.close_question(next(EVENTS), "fifth")
    give(opened, 10)
    return opened


def test_the_item_on_the_screen_is_answered_as_it_was_asked(store):
    """A change of the questions applies from the next item on: the waiting item keeps its questions, and labels for
    other questions are refused."""
    opened = begin(store, "unlabelled", "auto", questions=NAMES[:3])
    waiting = opened.current
    opened.add_question(next(EVENTS), "late")
    assert waiting == opened.current
    with pytest.raises(SessionError, match="this item is not asked about late, whose label must be 0"):
        opened.answer(next(EVENTS), waiting.id, [1, 1, 1, 1])
    opened.answer(next(EVENTS), waiting.id, [1, -1, -1, 0])
    assert [4] == [len(opened.current.parts)]
    opened.close_question(next(EVENTS), "half")
    assert opened.current.parts[0][1]
    give(opened)
    assert [[0, 0]] == [opened.current.parts[0]]
    with pytest.raises(SessionError, match="this item is not asked about half"):
        opened.answer(next(EVENTS), opened.current.id, [1, 1, 1, 1])


def test_a_question_after_a_mismatch_is_refused_in_words(store):
    """If the log cannot be reproduced up to the item where a question was added, looking back at this question is
    refused. Looking back at the other questions still works."""
    opened = changed(store)
    with store.transaction():
        store.db.execute("UPDATE questions SET margin = margin + 1 WHERE session = ? AND number = 4", [opened.id])
    trace = look_back.Trace(store, opened.id)
    with store.transaction():
        store.db.execute("UPDATE questions SET margin = margin - 1 WHERE session = ? AND number = 4", [opened.id])
    assert 3 == QuestionTrace(trace, "half").steps
    with pytest.raises(SessionError, match=r"question 4 .* cannot be reproduced .* late was added later"):
        QuestionTrace(trace, "late")


def test_a_question_without_items_says_so(store):
    """If a question was closed before it was asked about any item, its description says so, and names no items."""
    opened = begin(store, "unlabelled", "auto", questions=NAMES[:3])
    opened.add_question(next(EVENTS), "late")
    opened.close_question(next(EVENTS), "late")
    assert "It was closed before any item was asked about it." == OneQuestion(opened, "late").span_in_words


def test_what_was_not_asked_is_not_counted(store):
    """The counts, decisions, answers and estimates of a question cover only the rounds in which it is asked."""
    opened = changed(store, floor=0.5)
    asked = [entry.round for entry in opened.log]
    first, stop = asked[10] + 1, asked[20] + 1
    spans = {"half": (0, opened.state.streamed), "fifth": (0, stop), "late": (first, opened.state.streamed)}
    for name, (begins, ends) in spans.items():
        part = OneQuestion(opened, name)
        assert [t for t in asked if begins <= t < ends] == [entry.round for entry in part.log]
        margins, predicted, _ = part.decided
        assert predicted[begins:ends].all()
        for values in (margins, predicted):
            assert not values[:begins].any()
            assert not values[ends:].any()
        waits = name != "fifth"
        assert ends - begins == part.counts.sum()
        assert ends - begins - waits == part.place.counts.sum()
        answers = estimates.Answers(part)
        assert [0, *(t + 1 - begins for t in asked[:-1] if begins <= t < ends)] == answers.passed.tolist()
        assert certainty.of_session(part).labels == len(answers.label)
        assert drift.answered(part) is None
    assert OneQuestion(opened, "fifth").ended(OneQuestion(opened, "fifth").state)


def test_the_look_back_has_the_rounds_in_which_a_question_was_asked(store):
    """Looking back at one question covers only the rounds in which it was open. The items that it was asked about are
    numbered from 1. If the question was closed, the last step says so."""
    opened = changed(store)
    trace = look_back.Trace(store, opened.id)
    rounds = [entry.round for entry in opened.log]
    for name, asked, ends in (("late", rounds[11:], False), ("fifth", rounds[:21], True), ("half", rounds, False)):
        look = QuestionTrace(trace, name)
        shown, first = player.Player(look), look.span[0]
        log = shown.log()
        assert ([t + 1 for t in asked], len(asked) + ends) == (log["rounds"], log["steps"])
        assert [*range(1, len(asked) + 1)] == [entry.number for entry in look.log]
        assert (asked[-1] + 1, first + 1) == (look.reached, log.get("begins", 1))
        assert None is shown.place(f"r{first}")
        places = {t: shown.place(f"r{t + 1}") for t in range(first, look.reached) if t not in asked}
        margins, predicted, _ = OneQuestion(opened, name).decided
        assert {t: (margins[t], predicted[t]) for t in places} == {
            t: (place["margin"], place["predicted"]) for t, place in places.items()
        }
        assert all(shown.place(f"q{number}")["item"] for number in range(1, len(asked) + 1))
        assert ends == ("The question was closed" == log["end"])
        assert not ends or shown.place(f"q{len(asked) + 1}")["item"] is None
    opened.add_question(next(EVENTS), "never")
    never = QuestionTrace(look_back.Trace(store, opened.id), "never")
    assert (0, 0) == (never.steps, len(never.log))


def test_a_new_question_weighs_as_if_it_had_been_there_untaught(store):
    """When a question is added, its recent asking probabilities are filled in as if an untrained learner had asked it
    all along. When a question is closed, they are cleared."""
    opened = changed(store, budget=60)
    weighing = opened.state.weighing
    assert -1 == weighing.positives[1]
    assert not weighing.recent[1].any()
    before = begin(store, "unlabelled", "auto", questions=NAMES[:3], budget=60)
    give(before, 10)
    t = before.state.streamed
    before.add_question(next(EVENTS), "late")
    own = before.state.weighing.recent[3]
    assert spending.SURE == own[: min(t, own.size)].min()  # a margin of 0 is sure to be asked
    assert 0 == before.state.weighing.positives[3]


@pytest.mark.parametrize("change", ["add", "close"])
def test_changes_after_the_end_count_when_labels_are_added(store, other, change):
    """If a question is added or closed after the budget is spent, the change is recorded at the round where labeling
    continues once labels are added."""
    opened = begin(store, "unlabelled", "auto", questions=NAMES[:3], budget=10)
    give(opened, 10)
    assert opened.current is None
    ended = opened.state.closed[0]
    opened.add_question(next(EVENTS), "late") if change == "add" else opened.close_question(next(EVENTS), "rare")
    opened.add_labels(next(EVENTS), 10)
    name = "late" if change == "add" else "rare"
    assert ended == opened.state.spans[NAMES.index(name)][change == "close"]
    give(opened, 5)
    assert len(opened.log[-2].labels) == 3 + (change == "add")
    again = Session(other, opened.id)
    assert opened.digest() == again.digest()
    assert look_back.verify(store, opened.id).verified


def test_a_changed_session_travels(store, tmp_path):
    """Exports of a session whose questions changed leave cells blank where a question was not asked. The published
    session passes verification in another database."""
    opened = changed(store)
    frame = export.labels(store, opened.id)[0].frame
    assert frame["label:late"].notna().tolist()[:30] == [number >= 11 for number in range(30)]
    assert frame["label:fifth"].notna().tolist()[:30] == [number < 21 for number in range(30)]
    rounds = export.decisions(opened)[0].frame
    blank = rounds["predicted:fifth"].isna()
    assert 0 < blank.sum() < len(blank)
    assert rounds.loc[~blank & rounds["predicted:late"].isna(), ["predicted"]].notna().all().all()
    assert {"half", "fifth", "rare", "late"} == {*model.of_each(opened)}
    assert "Asked about items 1 to" in report.page(opened).decode()
    there = database(tmp_path / "there.db", "unlabelled", labels=(0, 0))
    assert opened.digest() == travelled(store, opened.id, there).digest()
    there.close()


@pytest.mark.parametrize(("old", "new", "words"), [
    (r'"added": 1}', '"added": 1}, {"name": "more", "guidelines": "", "added": 1}', "does not open each question"),
    (r'{"part": 3}', '{"part": 2}', "does not open each question"),
    (r'("name": "half", "guidelines": "")', r'\1, "parent": "late"', "must be the last ones"),
    (r'("labels": \[-?1), 0,', r"\1, -1,", "does not have the labels"),
    (r'"labels": \[0, 0, 0, 0\]', '"labels": [0, 0, 0]', "does not have the labels"),
    (r'"labels": \[0, 0, 0, 0\]', '"labels": [0, 0, 1, 0]', "does not have the labels"),
    (r'"labels": \[0, 0, 0, 0\]', '"labels": [0, 0, 2, 0]', "invalid value for data"),
    (r'"parts": \[\[0.0, 1\], ', '"parts": [', "does not have the parts"),
    ('"name": "rare"', '"name": "half"', "different names"),
])  # fmt: skip
def test_a_file_whose_changes_do_not_fit_is_refused(store, tmp_path, old, new, words):
    """A published session is refused if no event opens an added question, a parent comes later, a closed question is
    answered, a record lacks the label or the part of a question, a label is invalid, or two questions have one name."""
    opened = changed(store)
    opened.answer(next(EVENTS), opened.current.id, 0)
    text = text_of(store, opened.id)
    there = database(tmp_path / "there.db", "unlabelled", labels=(0, 0))
    broken, count = re.subn(old, new, text, count=1)
    assert count == 1
    with pytest.raises(ValueError, match=words):
        bundle.adopt(there, io.StringIO(broken))
    assert [] == there.sessions()
    there.close()


def test_a_yes_that_needs_another_yes(store):
    """If a parent question has no yes, its child questions get its label, and a yes to one of them is refused."""
    asked = ["half", {"name": "fifth", "parent": "half"}, {"name": "rare", "parent": "half"}]
    opened = begin(store, "unlabelled", "auto", questions=asked)

    def labels(*given):
        id = opened.current.id
        opened.answer(next(EVENTS), id, given)
        return opened.log[-2].labels

    assert [1, 0, -1] == labels(1, 0, -1)
    assert [-1, -1, -1] == labels(-1, 0, -1)
    assert [0, 0, 0] == labels(0, -1, 0)
    with pytest.raises(SessionError, match="a yes to rare needs a yes to half"):
        labels(-1, -1, 1)
    assert [1, -1, 1] == labels(1, -1, 1)
    opened.correct(next(EVENTS), opened.log[-2].id, -1, name="half")
    assert [-1, -1, -1] == opened.log[-2].labels
    with pytest.raises(SessionError, match="a yes to rare needs a yes to half"):
        opened.correct(next(EVENTS), opened.log[-2].id, 1, name="rare")


def test_a_closed_child_has_no_label_from_its_parent(store, other):
    """A closed child question gets no label from a no to its parent, not even by a correction; the session reopens."""
    opened = begin(store, "unlabelled", "auto", questions=["half", {"name": "fifth", "parent": "half"}, "rare"])
    opened.close_question(next(EVENTS), "fifth")
    opened.answer(next(EVENTS), opened.current.id, [1, 1, -1])
    for _ in range(2):
        opened.answer(next(EVENTS), opened.current.id, [-1, 0, -1])
    assert [[1, 1, -1], [-1, 0, -1], [-1, 0, -1]] == [entry.labels for entry in opened.log if entry.label]
    for label in (1, -1):
        opened.correct(next(EVENTS), opened.log[1].id, label, name="half")
        assert [label, 0, -1] == opened.log[1].labels
    assert opened.digest() == Session(other, opened.id).digest()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda opened: opened.add_question("e", "half"), "different names. Got half twice."),
        (lambda opened: opened.add_question("e", ""), "each question needs a name"),
        (
            lambda opened: opened.add_question("e", "a", parent="b"),
            "the parent of a question must be one of half, fifth. Got b.",
        ),
        (lambda opened: opened.add_question("e", "a", parent="fifth"), "must not be closed. Got fifth."),
        (lambda opened: opened.close_question("e", "fifth"), "fifth is closed already."),
        (lambda opened: opened.close_question("e", "half"), "the last question cannot be closed"),
        (lambda opened: opened.close_question("e", "b"), "one of half, fifth. Got b."),
    ],
)
def test_a_change_that_is_not_allowed_is_refused_in_a_sentence(store, change, words):
    opened = begin(store, "unlabelled", "auto", questions=NAMES[:2])
    opened.close_question(next(EVENTS), "fifth")
    before = opened.digest(), store.events(opened.id), store.session(opened.id)
    with pytest.raises(SessionError, match=words):
        change(opened)
    assert before == (opened.digest(), store.events(opened.id), store.session(opened.id))


def test_closing_a_question_closes_those_that_need_a_yes_to_it(store):
    """Closing a question also closes its children, because they cannot be answered without a yes to it."""
    opened = begin(store, "unlabelled", "auto", questions=["half", {"name": "rare", "parent": "half"}, "fifth"])
    opened.close_question(next(EVENTS), "half")
    assert [False, False, True] == [opened.is_asked(name) for name in opened.settings.question_names]


def test_items_appended_to_a_file_are_not_asked_about_a_closed_question(tmp_path, monkeypatch):
    """This also holds for a rebuild, which knows the items from the start but takes them into the file in turn."""
    monkeypatch.setattr(spending, "BEGINNING", (4, 0.0))
    store = database(tmp_path / "studio.db", "growing", labels=(0, 0))
    opened = begin(store, "growing", "auto", questions=NAMES[:3], goal="find", budget=200)
    truths = np.where(np.arange(420) % 5, -1, 1) * np.ones((3, 1), int)
    give(opened, 8, truths)
    opened.close_question(next(EVENTS), "half")
    give(opened, 3, truths)
    for seed in (1, 2):
        items = stream_of(60, seed=seed, density=1)[1]
        feeds.append(Dataset(store, "growing"), replace(items, ids=[f"later {seed} {k}" for k in range(60)]))
        opened.refresh()
        give(opened, 30, truths)
    assert {entry.item for entry in opened.log[12:]} & {*range(300, 420)}
    assert all(not entry.parts[0][1] for entry in opened.log[12:])
    assert look_back.verify(store, opened.id).verified


def test_a_session_of_one_question_has_none_to_add(store):
    opened = begin(store, "unlabelled", "auto")
    with pytest.raises(SessionError, match="a question can be added where a session asks several"):
        opened.add_question(next(EVENTS), "late")


def test_questions_change_from_python():
    """In Python, `add_question` and `close_question` change the questions that are asked about the next items."""
    studio = Studio(":memory:")
    session = studio.new_session("demo:tweets", budget=20, questions=["cancelled", "late"])
    session.answer(session.question, ["late"])
    session.add_question("delayed", parent="late")
    session.answer(session.question, [])
    session.answer(session.question, ["delayed"])  # a yes to late, too
    session.close_question("cancelled")
    session.answer(session.question, None)
    session.answer(session.question, ["late"])
    frame = session.labels
    assert [1, 1] == frame["label:late"].tolist()[2:5:2]
    assert [1.0] == frame["label:delayed"].dropna().tolist()[:1]
    assert frame["label:cancelled"].isna().tolist()[4]
