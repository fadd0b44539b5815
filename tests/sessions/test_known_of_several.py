"""Labels known from elsewhere for one of several questions: they are learned and cost nothing, and the other questions
may still be asked about the item."""

import io
import json

import numpy as np
import pytest

from oal_engine import datasets
from oal_engine.datasets import feeds, reading
from oal_engine.sessions.files import export
from oal_engine.sessions.insights import certainty, estimates, outcome
from oal_engine.sessions.look_back import verify
from oal_engine.sessions.one_question import OneQuestion
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SKIP, SessionError
from oal_engine.store import Store
from tests.harness.sessions import EVENTS, TRUTHS, begin, give, stream_of, take_back, travelled

NAMES = ["half", "fifth", "rare"]


def of_several(store, questions=NAMES, **more):
    """Begin a session that asks several questions."""
    return begin(store, "unlabelled", "auto", questions=questions, **more)


def know(opened, labels, name):
    """Make labels of a question known. Return the items that were refused."""
    return opened.know(next(EVENTS), labels, "search", "anna", name)


def later(opened, part, count, sign=0):
    """Return {item: label of question `part`} for `count` items that the stream has not reached yet. If `sign` is
    given, only items with this label are returned."""
    items = [int(item) for item in opened.order[opened.state.streamed + 5 :] if sign in (0, TRUTHS[part, item])]
    return {item: int(TRUTHS[part, item]) for item in items[:count]}


def parts_of(opened, item):
    """Return the indices of the questions that were asked about an item, or None if there were none."""
    entries = [entry for entry in opened.log if entry.item == item]
    return [k for k in range(len(entries[0].parts)) if entries[0].asks(k)] if entries else None


def test_a_known_item_is_asked_about_the_other_questions(store):
    """If one label of an item is known, only the other questions are asked about it; if all are known, none is asked. A
    known label trains only the learner of its question, and costs nothing."""
    opened = of_several(store, budget=300)
    items = list(later(opened, 0, 40))
    before = [OneQuestion(opened, name).place.weights for name in NAMES]
    know(opened, {item: int(TRUTHS[1, item]) for item in items[:20]}, "fifth")
    now = [OneQuestion(opened, name).place.weights for name in NAMES]
    assert [True, False, True] == [np.array_equal(*each) for each in zip(before, now)]
    for name, part in zip(NAMES, TRUTHS):
        know(opened, {item: int(part[item]) for item in items[20:]}, name)
    assert 0 == opened.place.progress.labels
    while opened.current and opened.state.streamed < 200:
        give(opened)
    asked = [parts_of(opened, item) for item in items]
    assert {(0, 2)} == {tuple(each) for each in asked[:20] if each}
    assert {None} == {*asked[20:]}
    assert 5 < sum(each is not None for each in asked[:20])


def test_figures_of_a_question_leave_its_known_items_out(store):
    """The counts, estimates and guaranteed minimum metrics of a question leave out the items with a known label for it.
    Its list of positives includes the known positives."""
    opened = of_several(store, budget=120, floor=0.5, audit=0.3)
    found = later(opened, 1, 30, 1)
    know(opened, found, "fifth")
    while opened.current:
        give(opened)
    fifth, half = OneQuestion(opened, "fifth"), OneQuestion(opened, "half")
    for run, known_items in ((fifth, 30), (half, 0)):
        assert known_items == len(run.known_labels) == run.state.known_items.size
        assert 300 - known_items == run.counts.sum()
        assert estimates.Answers(run).passed[-1] == run.counts.sum()
    assert "30 labels were known or given in List (30 fifth)" in " ".join(outcome.about_known_labels(fifth))
    listed = {*fifth.order[outcome.of_session(fifth).listed].tolist()}
    assert {*found} <= listed
    assert "that were not known" in str(certainty.of_session(fifth))


def test_a_known_label_says_what_it_implies(store):
    """A known yes to a child question is also a yes to its parent, and a known no to a parent is also a no to its
    children. If only a yes to the parent is known, the child question is still asked."""
    opened = of_several(store, ["half", {"name": "fifth", "parent": "half"}], budget=300)
    items = [*later(opened, 0, 60)]
    know(opened, dict.fromkeys(items[:20], 1), "fifth")
    know(opened, dict.fromkeys(items[20:40], -1), "half")
    know(opened, dict.fromkeys(items[40:], 1), "half")
    know(opened, {items[0]: SKIP}, "half")
    known = [row["data"]["labels"] for row in map(store.known_labels(opened.id).get, items[1:])]
    assert [[1, 1]] * 19 + [[-1, -1]] * 20 + [[1, 0]] * 20 == known
    while opened.current and opened.state.streamed < 250:
        asked = opened.current
        opened.answer(next(EVENTS), asked.id, [predicted and 1 for _, predicted in asked.parts])
    asked = [parts_of(opened, item) for item in items]
    assert [None] * 39 == asked[1:40]
    assert [[1]] == [each for each in asked[40:] if each][:1]
    entry = next(entry for entry in opened.log if entry.item in items[40:])
    assert [0, 1] == entry.labels
    assert verify(store, opened.id).verified


def test_what_was_answered_is_not_known_from_elsewhere(store):
    """A known label is refused if its question was answered for this item (even without a label), or if it contradicts
    a related answer. It is accepted for a question added after the answer, and replaces an earlier known label."""
    opened = of_several(store, ["half", {"name": "fifth", "parent": "half"}, "rare"], budget=300)
    item = opened.current.item
    assert [item] == know(opened, {item: 1}, "rare")
    opened.answer(next(EVENTS), opened.current.id, [-1, -1, 0])
    before = opened.digest()
    assert [[item]] * 3 == [know(opened, {item: 1}, name) for name in ("half", "fifth", "rare")]
    assert before == opened.digest()
    other = opened.current.item
    opened.answer(next(EVENTS), opened.current.id, [1, -1, -1])
    opened.add_question(next(EVENTS), "late", parent="half")
    assert ([item], []) == (know(opened, {item: 1}, "late"), know(opened, {other: 1, item: -1}, "late"))
    assert [[0, 0, 0, -1], [0, 0, 0, 1]] == [store.known_labels(opened.id)[k]["data"]["labels"] for k in (item, other)]
    ahead = next(iter(later(opened, 0, 1)))
    know(opened, {ahead: -1}, "rare")
    while ahead not in [entry.item for entry in opened.log if entry.label]:
        give(opened)
    assert [] == know(opened, {ahead: 1}, "rare")
    while opened.log[-2].item != ahead:
        take_back(opened)
    take_back(opened)
    assert opened.digest() == Session(store, opened.id).digest()
    with pytest.raises(SessionError, match="several questions"):
        opened.know(next(EVENTS), {5: 1}, "search")
    with pytest.raises(SessionError, match="one of half, fifth, rare, late"):
        know(opened, {5: 1}, "other")


def test_tables_have_the_known_labels(store):
    opened = of_several(store)
    items = opened.order[15:300:5].tolist()
    know(opened, dict.fromkeys(items, 1), "fifth")
    while opened.current:
        give(opened)
    labels, decisions = export.labels(store, opened.id)[0].frame, export.decisions(opened)[0].frame
    known = labels[labels["origin"] == "known: search"]
    assert ([*items], {1}) == (known["position"].tolist(), {*known["label:fifth"]})
    assert known[["label:half", "margin:fifth", "number"]].isna().all(axis=None)
    own = decisions[decisions["position"].isin(items)]
    assert {1} == {*own["label:fifth"]}
    assert own["margin:fifth"].isna().all()
    asked = own[own["asked"] == 1]
    assert len(asked)
    assert asked["label:half"].tolist() == TRUTHS[0, asked["position"]].tolist()
    assert ({"answer"}, {"known: search"}) == tuple({*own[own["asked"] == flag]["origin"]} for flag in (1, 0))
    ranked = export.predictions(OneQuestion(opened, "fifth"))[0].frame
    assert {"known: search"} == {*ranked[ranked["position"].isin(items)]["origin"]}


PARTLY = TRUTHS[:3].copy()  # all labels of 60 items, and one label of 40 others
PARTLY[:, 100:] = PARTLY[[0, 2], 60:100] = SKIP


def with_gaps(store, labels, name=None):
    """Add a data set with one column of labels per question: 1, -1, or blank instead of SKIP. Return its name. labels:
    array of shape (questions, items)."""
    _, items = stream_of()
    cells = [["" if label == SKIP else str(label) for label in own] for own in labels.T.tolist()]
    items.y, items.details = np.zeros_like(items.y), [*map(json.dumps, cells)]
    items.columns = columns = reading.Columns(details=tuple(NAMES))
    name = name or f"gaps of {next(EVENTS)}"
    datasets.add(store, name, datasets.table(items), "made.csv", columns)
    return name


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"shuffled": True, "floor": 0.3, "audit": 0.3}])
def test_a_session_of_several_questions_begins_with_the_labels_of_its_file(store, tmp_path, more):
    """The labels of a session's file cost nothing. Only the questions without a known label are asked about an item.
    The session passes verification, and is the same when it is reopened or adopted elsewhere."""
    data = with_gaps(store, PARTLY)
    opened = begin(store, data, "auto", questions=NAMES, known_labels="file", budget=300, **more)
    assert (100, 0, 240) == (len(opened.known_labels), opened.place.progress.labels, opened.state.budget)
    assert all(weights.any() for weights in opened.place.weights)
    while opened.current:
        give(opened)
    asked = {item: parts_of(opened, item) for item in range(300)}
    assert {None} == {str(asked[item]) if asked[item] else None for item in range(60)}
    assert {(0, 2)} == {tuple(asked[item]) for item in range(60, 100) if asked[item]}
    assert {(0, 1, 2)} == {tuple(asked[item]) for item in range(100, 300) if asked[item]}
    assert opened.digest() == Session(store, opened.id).digest()
    assert verify(store, opened.id).verified
    there = Store(tmp_path / "there.db")
    with_gaps(there, PARTLY, data)
    assert travelled(store, opened.id, there).digest() == opened.digest()
    there.close()


def test_a_session_of_several_questions_begins_with_some_labels(store):
    """If `known_labels` is a number, this many of the labeled items are drawn at random. At least one item must be left
    to ask about, and a file without labels is refused."""
    data = with_gaps(store, TRUTHS[:3])
    opened = begin(store, data, "auto", questions=NAMES, known_labels=50)
    labels = {item: row["data"]["labels"] for item, row in opened.known_labels.items()}
    assert 50 == len(labels)
    assert labels == {item: TRUTHS[:3, item].tolist() for item in labels}
    for wrong in ("file", 300):
        with pytest.raises(SessionError, match=r"1 to 299, as 300 of 300 items|>= 1 and <= 299. Got 300"):
            begin(store, data, "auto", questions=NAMES, known_labels=wrong)
    with pytest.raises(SessionError, match="has no labels of these questions to begin with"):
        begin(store, "unlabelled", "auto", questions=NAMES, known_labels="file")


def test_the_labels_of_a_file_say_what_they_imply(store):
    """In a file, a yes to a child question is also a yes to its parent, and a no to the parent makes the child a no."""
    labels = np.full((3, 300), SKIP)
    labels[:2, :6] = [[1, 1, -1, -1, 0, 0], [1, 0, 1, 0, 1, -1]]
    questions = ["half", {"name": "fifth", "parent": "half"}]
    opened = begin(store, with_gaps(store, labels), "auto", questions=questions, known_labels="file")
    own = dict(sorted((item, row["data"]["labels"]) for item, row in opened.known_labels.items()))
    assert [[1, 1], [1, 0], [-1, -1], [-1, -1], [1, 1], [0, -1]] == [*own.values()]


def test_a_blank_label_cell_answers_no_question(tmp_path):
    """Items with a blank label cell have no known labels, and a session over a file with such cells has no exact
    metrics."""
    store, path = Store(tmp_path / "studio.db"), tmp_path / "gaps.csv"
    path.write_text(
        "text,label\n" + "".join(f"words n{k},{['good', 'odd'][k % 2] if k < 10 else ''}\n" for k in range(30))
    )
    datasets.import_file(
        store, path, "gaps", reading.Columns(("text",), "label", positive=("good",)), tokenizer="words"
    )
    opened = begin(store, "gaps", "auto", questions=["good", "odd"], known_labels="file")
    assert {*range(10)} == {*opened.known_labels}
    assert {} == opened.truth
    store.close()


def test_labels_of_appended_items_are_known_to_several_questions(tmp_path):
    """Appended items bring known labels for the questions that their cells answer; blank cells bring none."""
    store, path = Store(tmp_path / "studio.db"), tmp_path / "partly.csv"
    cells = [[1, 0][k % 5 > 0] if k % 3 else "" for k in range(30)]
    path.write_text("text,half,rare\n" + "".join(f"words n{k},{cells[k]},\n" for k in range(30)))
    datasets.import_file(store, path, "partly", reading.Columns(("text",), details=("half", "rare")), tokenizer="words")
    opened = begin(store, "partly", "auto", questions=["half", "rare"], known_labels="file")
    opened.answer(
        next(EVENTS), opened.current.id, [SKIP if not predicted else 1 for _, predicted in opened.current.parts]
    )
    lines = [json.dumps({"text": f"new {k}", "half": own, "rare": ""}) for k, own in enumerate(["1", "", "0"])]
    list(feeds.append_lines(datasets.Dataset(store, "partly"), io.BytesIO("\n".join(lines).encode())))
    opened.refresh()
    assert [1, 0] == opened.known_labels[30]["data"]["labels"]
    assert [-1, 0] == opened.known_labels[32]["data"]["labels"]
    assert 31 not in opened.known_labels
    assert opened.digest() == Session(store, opened.id).digest()
    store.close()
