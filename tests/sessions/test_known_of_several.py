"""Labels that are known for one of several questions about an item: they are learned and cost nothing, and the item may
still be asked about the others."""

import io
import json

import numpy as np
import pytest

from oal_engine import datasets
from oal_engine.datasets import feeds, reading
from oal_engine.kernel.algorithms import strategy
from oal_engine.sessions.files import bundle, export
from oal_engine.sessions.insights import certainty, estimates, outcome
from oal_engine.sessions.look_back import Trace, verify
from oal_engine.sessions.one_question import OneQuestion, QuestionTrace
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SKIP, SessionError
from oal_engine.sessions.what_if import what_if
from oal_engine.store import Store
from tests.harness.sessions import EVENTS, begin, database, stream_of, take_back, text_of, travelled

NAMES = ["half", "fifth", "rare"]
X = stream_of()[0]
SCORES = X @ np.random.default_rng(7).normal(size=(X.shape[1], 4))
Y = np.where(SCORES > np.quantile(SCORES, (0.5, 0.8, 0.95, 0.9), axis=0).diagonal(), 1, -1).T


def of_several(store, questions=NAMES, **more):
    """A session of several questions, opened."""
    return begin(store, "unlabelled", "auto", questions=questions, **more)


def give(opened, count=1):
    """Answer the current questions truly, as far as they ask; the id of the last one."""
    for _ in range(count):
        asked = opened.current
        labels = [int(Y[k, asked.item]) if predicted else SKIP for k, (_, predicted) in enumerate(asked.parts)]
        opened.answer(next(EVENTS), asked.id, labels)
    return asked.id


def know(opened, labels, name):
    """Make labels known; the items that were not taken."""
    return opened.know(next(EVENTS), labels, "search", "anna", name)


def later(opened, part, count, sign=0):
    """The next items of the stream, of one class of a question if `sign` is given, and their labels."""
    items = [int(item) for item in opened.order[opened.state.streamed + 5 :] if sign in (0, Y[part, item])]
    return {item: int(Y[part, item]) for item in items[:count]}


def parts_of(opened, item):
    """The places of the questions that an item was asked about, or None if it was not asked."""
    entries = [entry for entry in opened.log if entry.item == item]
    return [k for k in range(len(entries[0].parts)) if entries[0].asks(k)] if entries else None


@pytest.mark.parametrize("more", [{}, {"floor": 0.5}, {"audit": 0.3, "audit_trains": False}])
def test_what_is_known_is_rebuilt_to_the_bit(store, other, more):
    """Known labels, corrected ones, and ones that are unknown again, among answers, an undo across them, an added and a
    closed question give the same state when the session is opened again, verify, and travel."""
    opened = of_several(store, budget=60, **more)
    found = later(opened, 1, 8, 1)
    assert [] == know(opened, found, "fifth")
    give(opened, 10)
    know(opened, later(opened, 2, 3), "rare")
    give(opened, 5)
    first, *_ = found
    know(opened, {first: -1}, "fifth")
    for _ in range(8):
        take_back(opened)
    opened.add_question(next(EVENTS), "late")
    know(opened, later(opened, 3, 4), "late")
    know(opened, {first: SKIP}, "fifth")
    give(opened, 12)
    opened.close_question(next(EVENTS), "half")
    give(opened, 8)
    again = Session(other, opened.id)
    assert opened.digest() == again.digest()
    assert opened.current == again.current
    report = verify(store, opened.id)
    assert report.verified
    assert [] == store.problems()
    for name in ("half", "late"):
        assert (
            OneQuestion(opened, name).counts.tobytes() == QuestionTrace(Trace(store, opened.id), name).counts.tobytes()
        )


def test_a_known_item_is_asked_about_the_other_questions(store):
    """Where one label is known the others are asked, and where all are known nothing. Each is learned by its question
    alone, and costs nothing."""
    opened = of_several(store, budget=300)
    items = list(later(opened, 0, 40))
    before = [OneQuestion(opened, name).place.weights for name in NAMES]
    know(opened, {item: int(Y[1, item]) for item in items[:20]}, "fifth")
    now = [OneQuestion(opened, name).place.weights for name in NAMES]
    assert [True, False, True] == [np.array_equal(*each) for each in zip(before, now)]
    for name, part in zip(NAMES, Y):
        know(opened, {item: int(part[item]) for item in items[20:]}, name)
    assert 0 == opened.place.progress.labels
    while opened.current and opened.state.streamed < 200:
        give(opened)
    asked = [parts_of(opened, item) for item in items]
    assert {(0, 2)} == {tuple(each) for each in asked[:20] if each}
    assert {None} == {*asked[20:]}
    assert 5 < sum(each is not None for each in asked[:20])


def test_figures_of_a_question_leave_its_known_items_out(store):
    """Counts, estimates and floors of the question are about the items that were not known to it, and its list has the
    known positives."""
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
        assert certainty.of_session(run).floors == certainty.curve(run)[-1].floors
    assert "30 labels were known from elsewhere (30 fifth)" in " ".join(outcome.about_known_labels(fifth))
    listed = {*fifth.order[outcome.of_session(fifth).listed].tolist()}
    assert {*found} <= listed
    assert "that were not known" in str(certainty.of_session(fifth))


def test_a_known_label_says_what_it_implies(store):
    """A known yes to a question that needs another yes says that one, too; without a known yes to that, what needs it
    has the same label. Where the other yes is known, only the rest is asked."""
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
    """An answer to the question, or another one to a question of which the label says something, stands, also that
    nobody could tell. A question that was added since can have a known label, and so can one that was known before."""
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
    """The exported labels and decisions list each known label under its question, with its origin."""
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
    assert asked["label:half"].tolist() == Y[0, asked["position"]].tolist()
    assert ({"answer"}, {"known: search"}) == tuple({*own[own["asked"] == flag]["origin"]} for flag in (1, 0))
    ranked = export.predictions(OneQuestion(opened, "fifth"))[0].frame
    assert {"known: search"} == {*ranked[ranked["position"].isin(items)]["origin"]}


def test_a_published_session_has_its_known_labels(store, tmp_path):
    """They verify elsewhere; labels that do not fit the questions are refused."""
    opened = of_several(store)
    know(opened, later(opened, 1, 2, 1), "fifth")
    give(opened, 5)
    there, text = database(tmp_path / "there.db", "unlabelled", labels=(0, 0)), text_of(store, opened.id)
    for wrong in ("[0, 1]", "[0, 2, 0]", "[1, 1, 1, 1]"):
        with pytest.raises(ValueError, match=r"does not have the labels|invalid value"):
            bundle.adopt(there, io.StringIO(text.replace('"labels": [0, 1, 0]', f'"labels": {wrong}', 1)))
    assert [] == there.sessions()
    assert travelled(store, opened.id, there).digest() == opened.digest()
    there.close()


PARTLY = Y[:3].copy()  # all labels of 60 items, and one of 40 others
PARTLY[:, 100:] = PARTLY[[0, 2], 60:100] = SKIP


def with_gaps(store, labels, name=None):
    """The name of a data set whose file has columns of 1, -1 and blanks, for labels of shape (questions, items)."""
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
    """They cost nothing. Items of which all labels are known are not asked, others about the other questions alone; the
    log gives the same bits, verifies and travels."""
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
    other = what_if(QuestionTrace(Trace(store, opened.id), "rare"), strategy("OA3-diag"))
    assert not {*range(60)} & {entry.item for entry in other.run.log}
    there = Store(tmp_path / "there.db")
    with_gaps(there, PARTLY, data)
    assert travelled(store, opened.id, there).digest() == opened.digest()
    there.close()


def test_a_session_of_several_questions_begins_with_some_labels(store):
    """The seed draws as many items as are asked for, and one at least is left to ask."""
    data = with_gaps(store, Y[:3])
    opened = begin(store, data, "auto", questions=NAMES, known_labels=50)
    labels = {item: row["data"]["labels"] for item, row in opened.known_labels.items()}
    assert 50 == len(labels)
    assert labels == {item: Y[:3, item].tolist() for item in labels}
    for wrong in ("file", 300):
        with pytest.raises(SessionError, match=r"1 to 299, as 300 of 300 items|>= 1 and <= 299. Got 300"):
            begin(store, data, "auto", questions=NAMES, known_labels=wrong)
    with pytest.raises(SessionError, match="has no labels of these questions to begin with"):
        begin(store, "unlabelled", "auto", questions=NAMES, known_labels="file")


def test_the_labels_of_a_file_say_what_they_imply(store):
    """A yes to a question is a yes to the one that it needs, and a no to that is a no to both."""
    labels = np.full((3, 300), SKIP)
    labels[:2, :6] = [[1, 1, -1, -1, 0, 0], [1, 0, 1, 0, 1, -1]]
    questions = ["half", {"name": "fifth", "parent": "half"}]
    opened = begin(store, with_gaps(store, labels), "auto", questions=questions, known_labels="file")
    own = dict(sorted((item, row["data"]["labels"]) for item, row in opened.known_labels.items()))
    assert [[1, 1], [1, 0], [-1, -1], [-1, -1], [1, 1], [0, -1]] == [*own.values()]


def test_a_blank_label_cell_answers_no_question(tmp_path):
    """An item without a label is known to no question, and the figures of a question are not exact then."""
    store, path = Store(tmp_path / "studio.db"), tmp_path / "gaps.csv"
    path.write_text(
        "text,label\n" + "".join(f"words n{k},{['good', 'odd'][k % 2] if k < 10 else ''}\n" for k in range(30))
    )
    datasets.import_file(store, path, "gaps", reading.Columns(("text",), "label", positive=("good",)))
    opened = begin(store, "gaps", "auto", questions=["good", "odd"], known_labels="file")
    assert {*range(10)} == {*opened.known_labels}
    assert {} == opened.truth
    store.close()


def test_labels_of_appended_items_are_known_to_several_questions(tmp_path):
    """The items are asked about the questions of which the file has no label."""
    store, path = Store(tmp_path / "studio.db"), tmp_path / "partly.csv"
    cells = [[1, 0][k % 5 > 0] if k % 3 else "" for k in range(30)]
    path.write_text("text,half,rare\n" + "".join(f"words n{k},{cells[k]},\n" for k in range(30)))
    datasets.import_file(store, path, "partly", reading.Columns(("text",), details=("half", "rare")))
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
