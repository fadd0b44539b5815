"""Labels that are known from elsewhere: they are learned, cost nothing, and their items are not asked about."""

import io
import json
from collections import Counter

import numpy as np
import pytest

from oal_engine import datasets
from oal_engine.datasets import feeds, reading
from oal_engine.kernel import stream
from oal_engine.kernel.runs import Run
from oal_engine.output.jsonlines import JsonLinesError
from oal_engine.sessions import another_pass, look_back
from oal_engine.sessions.files import export
from oal_engine.sessions.files.bundle import adopt
from oal_engine.sessions.files.player import Player
from oal_engine.sessions.insights import certainty, estimates, outcome
from oal_engine.sessions.labels import SKIP, KnownLabel, KnownLabels, SessionError
from oal_engine.sessions.session import Session
from oal_engine.store import Store
from tests.harness.sessions import (
    EVENTS,
    RUNS,
    begin,
    bits,
    database,
    label_truly,
    label_until_the_end,
    say,
    stream_of,
    text_of,
)


def labels_from(labels, origin):
    """Return known labels that all have one origin. labels: {item: label}."""
    return KnownLabels([KnownLabel(*each) for each in labels.items()], origin)


def rebuilt(store, opened):
    """Reopen a session, check that it has the same bits and passes verification, and return it."""
    again = Session(store, opened.id)
    assert bits(again) == bits(opened)
    assert again.place == opened.place
    assert look_back.verify(store, opened.id).verified
    return again


def test_known_labels_are_learned_before_the_first_question(store):
    opened = begin(store, known_labels=60)
    labels = [(row["item"], row["label"]) for row in opened.known_labels.values()]
    plain = begin(store)
    taught = plain.taught(opened.state.lessons, 40)
    assert labels == [(lesson.item, lesson.label) for lesson in opened.state.lessons]
    assert all(np.array_equal(a, b) for a, b in zip(taught.only().learner, opened.learner))


NUMBER = "known_labels of a session must be a whole number >= 1 and <= 299. Got"
OTHER = "known_labels of a session must be on items of its data set"


@pytest.mark.parametrize(("data", "known", "words"), [
    ("sparse", "file", "known_labels of a session must be a number from 1 to 299, as 300 of 300 items of the data set"),
    ("sparse", 300, f"{NUMBER} 300."), ("sparse", "all", f"{NUMBER} all."),
    ("sparse", KnownLabels([KnownLabel(300, 1)], "search"), OTHER),
    ("sparse", KnownLabels([KnownLabel(3, 2)], "search"), OTHER),
    ("unlabelled", "file", "the data set unlabelled has no labels of these classes to begin with."),
])  # fmt: skip
def test_labels_that_a_session_cannot_begin_with(store, data, known, words):
    """Known labels are refused if they leave no item to ask about, or if the data has no such item, class or labels."""
    with pytest.raises(SessionError, match=words):
        begin(store, data, known_labels=known)


def test_items_that_were_asked_cannot_become_known(store):
    opened = begin(store)
    label_truly(opened, 3)
    asked = [entry.item for entry in opened.log]
    free = int(opened.order[-1])
    assert sorted(asked) == opened.know(next(EVENTS), dict.fromkeys([*asked, free], 1), "search")
    assert [free] == [*opened.known_labels]


def test_a_known_label_is_corrected_and_removed(store):
    """Another label replaces a known one, a repeated event changes nothing, and a skip makes the item unknown."""
    opened = begin(store, known_labels=60)
    before, item = bits(opened), [*opened.known_labels][7]
    event, label = next(EVENTS), opened.known_labels[item]["label"]
    opened.know(event, {item: -label}, "correction")
    changed = bits(rebuilt(store, opened))
    opened.know(event, {item: -label}, "correction")
    assert before != bits(opened) == changed
    opened.know(next(EVENTS), {item: label}, "correction")
    assert before == bits(opened)
    opened.know(next(EVENTS), {item: SKIP}, "correction")
    assert item not in opened.known_labels
    assert 59 == opened.place.progress.known_items
    rebuilt(store, opened)


@pytest.mark.parametrize("labels", [{300: 1}, {-1: 1}, {0: 2}])
def test_known_labels_of_the_session_only(store, labels):
    with pytest.raises(SessionError, match="must be"):
        begin(store).know(next(EVENTS), labels, "search")


def test_exports_have_the_origin_of_each_label(store):
    """Every exported table says whether a label is an answer, or known and from where."""
    opened = begin(store, known_labels=30)
    label_truly(opened, 10)
    say(opened, SKIP)
    passed = next(t for t in range(300) if not opened.decided[2][t])
    opened.know(next(EVENTS), {int(opened.order[passed]): 1, int(opened.order[-31]): 1}, "search")

    def origins(table):
        return Counter(row["origin"] for row in rows(table) if row["label"])

    def rows(table):
        return [dict(zip(table[0].columns, row)) for row in table[0].rows]

    every = {"answer": 10, "known: file": 30, "known: search": 2}
    assert every == origins(export.labels(store, opened.id)) == origins(export.predictions(opened))
    assert {"answer": 10, "known: search": 1} == origins(export.decisions(opened))
    known = {row["position"]: row["label"] for row in rows(export.predictions(opened)) if "known" in row["origin"]}
    assert known == {item: row["label"] for item, row in opened.known_labels.items()}


def test_the_summary_counts_known_labels_by_themselves(store):
    opened = begin(
        store, "unlabelled", "PAA-I", floor=0.5, known_labels=labels_from({5: 1, 3: -1, 8: 1}, "session Old")
    )
    while opened.place.asked:
        say(opened, 1 if opened.place.asked.item % 3 else -1)
    assert outcome.summary(opened)[0] == (
        "3 labels were known or given in List (2 Relevant). The figures are about the other 297 items."
    )
    assert "that were not known" in str(certainty.of_session(opened))
    assert opened.place.progress.streamed == int(opened.state.counts.sum()) <= 297
    assert {5, 8} <= set(opened.order[outcome.of_session(opened).listed].tolist())


def test_estimates_are_those_of_a_stream_without_the_known_items(store):
    """Estimates and guaranteed minimum metrics do not count known items, and so describe the other items alone."""
    opened = begin(
        store, "unlabelled", "PAA-I", audit=0.3, floor=0.3, budget=80, known_labels=labels_from({5: 1}, "file")
    )
    label = dict(zip(range(300), stream_of()[1].y.tolist()))
    while opened.place.asked:
        item = opened.place.asked.item
        say(opened, label[item])
        if len(opened.log) == 30:
            opened.know(next(EVENTS), {int(k): label[int(k)] for k in opened.order[200:299]}, "search")
    answers = estimates.Answers(opened)
    assert answers.passed[-1] == opened.state.counts.sum() < answers.rounds[-1]
    assert estimates.look(opened).now.metrics == estimates.of_session(look_back.Trace(store, opened.id)).metrics


@pytest.mark.parametrize("algorithm", ["PAA-I", "auto"])
def test_a_replay_with_known_items_asks_what_a_session_asks(store, algorithm):
    """A session that begins with N known labels has the questions and counts of a replay that is given these labels and
    runs over the other items."""
    opened = begin(store, algorithm=algorithm, known_labels=50, budget=60, seed=4)
    label_until_the_end(opened)
    known = stream.sample(np.arange(300), 50, 4)
    rest = np.setdiff1d(np.arange(300), known)
    plan = Run(
        opened.strategy, opened.dataset.rows, opened.y, rest, budget=60, seed=4, known_items=known,
        rho=opened.settings.rho, ratio=opened.weights.ratio("sum"),
    )  # fmt: skip
    done = plan.replay(log=True)
    assert rest[done.log[:, 0].astype(int)].tolist() == [entry.item for entry in opened.log]
    assert np.array_equal(done.counts, opened.counts)


@pytest.mark.parametrize(("data", "algorithm", "more"), [*RUNS[:2], ("classes", "MD-AMD", {"shuffled": True})])
def test_another_pass_over_the_items_without_an_answer(store, data, algorithm, more):
    """Another pass has the settings of the first session, begins with all its labels, and asks only about items without
    a label."""
    first = begin(store, data, algorithm, known_labels=20, seed_words=(), **more)
    label_until_the_end(first)
    asked = {entry.item for entry in first.log}
    second = Session(store, another_pass.begin(first, "anna"))
    assert f"{first.settings.name}, pass 2" == second.settings.name
    assert {f"session {first.settings.name}"} == {row["data"]["origin"] for row in second.known_labels.values()}
    assert asked | first.known_labels.keys() == second.known_labels.keys()
    own, former = second.settings, first.settings
    assert (own.parameters, own.shuffled, own.seed, own.names) == (
        former.parameters, former.shuffled, former.seed, former.names,
    )  # fmt: skip
    label_until_the_end(second)
    assert not second.known_labels.keys() & {entry.item for entry in second.log}
    assert own.name.replace("2", "3") == Session(store, another_pass.begin(second)).settings.name
    rebuilt(store, second)


def test_another_pass_has_nothing_to_ask_if_every_item_has_a_label(store):
    first = begin(store, algorithm=None, learner="pa-i", rule="all", budget=400)
    label_until_the_end(first)
    with pytest.raises(SessionError, match="every item has a label: another pass has nothing to ask"):
        another_pass.begin(first)


LABEL = {k: 1 if k % 5 == 0 else -1 for k in range(60)}


def lines_of(items, labelled):
    """Return a text and a cell of labels for each item; the cell is blank unless the item is in `labelled`."""
    return [(f"words n{k} of kind {k % 5}", {1: "yes", -1: "no"}[LABEL[k]] if k in labelled else "") for k in items]


def imported(folder, items, labelled):
    """Import texts as a file in which only the items in `labelled` have a label. Return the store."""
    store, path = Store(folder / "studio.db"), folder / "partly.csv"
    path.write_text("text,label\n" + "".join(f"{text},{cell}\n" for text, cell in lines_of(items, labelled)))
    columns, request = reading.Columns(("text",), "label", positive=("yes",)), datasets.ImportRequest(features="rich")
    datasets.import_file(store, path, "partly", columns, request)
    return store


def append(store, items, labelled):
    """Append texts, some with a label. Return the counts of what was appended."""
    lines = [json.dumps({"text": text, "label": cell}) for text, cell in lines_of(items, labelled)]
    file = io.BytesIO("\n".join(lines).encode())
    return sum(feeds.append_lines(datasets.Dataset(store, "partly"), file), feeds.AppendCounts())


def answer_all(opened):
    """Give true answers until the session asks no more questions."""
    while opened.place.asked:
        say(opened, LABEL[opened.place.asked.item])


def test_labels_that_are_appended_become_known(tmp_path):
    """A session that began with its file's labels also learns labels that are appended later, unless their item was
    asked about, and even while it is open. Other sessions do not. A correction of such a label is kept."""
    store = imported(tmp_path, range(60), range(10))
    plain, opened = begin(store, "partly"), begin(store, "partly", known_labels="file")
    for _ in range(3):
        say(opened, LABEL[opened.place.asked.item])
    asked, waiting = [entry.item for entry in opened.log], opened.place.asked
    elsewhere = Session(Store(store.path), opened.id)
    counts = append(store, range(40), range(40))
    assert (30, 10) == (counts.later_labels, counts.unused_labels)
    opened.refresh()
    elsewhere.refresh()
    assert bits(elsewhere) == bits(opened)
    assert waiting == opened.place.asked
    assert {*range(40)} - {*asked} == {*opened.known_labels}
    assert {"file"} == {row["data"]["origin"] for row in opened.known_labels.values()}
    item = max(opened.known_labels)
    opened.know(next(EVENTS), {item: SKIP}, "correction")
    assert item not in rebuilt(store, opened).known_labels
    plain.refresh()
    assert {} == plain.known_labels
    assert 40 == len(begin(store, "partly", known_labels="file").known_labels)
    answer_all(opened)
    rebuilt(store, opened)


@pytest.mark.parametrize("reopen", [False, True])
@pytest.mark.parametrize("ended", [False, True])
def test_new_items_with_a_label_are_known(tmp_path, reopen, ended):
    """If a session began with its file's labels, appended items with a label are known, and only the other new items
    are asked about. This also holds for a reopened session."""
    third = range(0, 60, 3)
    store = imported(tmp_path, range(30), third)
    opened = begin(store, "partly", known_labels="file", horizon=50, budget=50)
    while opened.place.asked and (ended or len(opened.log) < 5):
        say(opened, LABEL[opened.place.asked.item])
    waiting = opened.place.asked
    append(store, range(30, 60), third)
    if reopen:
        opened = Session(store, opened.id)
    opened.refresh()
    assert {*third} == {*opened.known_labels}
    assert opened.place.asked == waiting or ended
    answer_all(opened)
    asked = {entry.item for entry in opened.log}
    assert not asked & {*third}
    assert max(asked) > 30
    assert opened.place.progress.stream == 40
    rebuilt(store, opened)


def test_the_player_shows_a_known_item(store):
    """A round whose item is known opens in the player, which says why it has no prediction."""
    opened = begin(store, known_labels=60, budget=300)
    label_until_the_end(opened)
    player = Player(look_back.Trace(store, opened.id))
    place = player.place("r300")
    assert "Round 300 was passed without asking: the label of its item is known." == place["why"]
    assert (0, 0.0) == (place["predicted"], place["probability"])
    assert json.dumps(player.log())


@pytest.mark.parametrize("change", [{"item": "asked"}, {"item": 299, "label": 0}, {"label": 7}, {"item": 10**6}])
def test_forged_known_labels_are_refused(store, tmp_path, change):
    opened = begin(store, known_labels=30)
    label_truly(opened, 10)
    there = database(tmp_path / "there.db", "sparse")
    lines = [json.loads(line) for line in text_of(store, opened.id).splitlines()]
    row = next(line for line in lines if line.get("kind") == "known")
    row |= change | ({"item": opened.log[3].item} if change.get("item") == "asked" else {})
    forged = io.StringIO("\n".join(map(json.dumps, lines)) + "\n")
    reasons = r"is not one of the session|an item that the data set does not have|its session cannot be reproduced"
    with pytest.raises(JsonLinesError, match=reasons):
        adopt(there, forged)
    assert [] == there.sessions()


def test_a_damaged_known_label_is_named(store):
    """If a known label has a class that the session does not have, the session cannot be opened, and the label is
    listed by `foreign_answers`."""
    opened = begin(store, known_labels=5)
    with store.transaction():
        store.db.execute("UPDATE events SET label = 3 WHERE session = ? AND kind = 'known' AND number = 2", [opened.id])
    with pytest.raises(SessionError, match="cannot be reproduced from its log"):
        Session(store, opened.id)
    assert [3] == [row["label"] for row in store.foreign_answers(opened.id)]
