"""An alarm names the item from which a stream, or its share of positives, has changed; once raised, it stays."""

from dataclasses import replace

import numpy as np
import pytest

from oal_engine import datasets
from oal_engine.datasets import Dataset, feeds, reading
from oal_engine.sessions.insights import drift
from oal_engine.sessions.session import Session
from oal_engine.store import Store
from tests.harness.sessions import begin, label_until_the_end, say, stream_of, truth

ITEMS, CHANGE = 500, 200


@pytest.fixture
def store(tmp_path):
    """A store with the data sets `same` and `changed`. In `changed` the feature values shift at item CHANGE."""
    store = Store(tmp_path / "studio.db")
    for name in ("same", "changed"):
        datasets.add(store, name, datasets.table(made(name == "changed"), "none"), "x.npz")
    yield store
    store.close()


def made(changed, first=0):
    """Return dense items. If `changed`, their feature values shift at item CHANGE."""
    items = stream_of(ITEMS, seed=first)[1]
    table = items.vectors.toarray()
    table[CHANGE:] += 2.0 * changed
    return replace(items, ids=[f"{first} {k}" for k in range(ITEMS)], vectors=table)


def test_a_change_of_the_items_is_said(store):
    """A change of the items is reported only after it happened, and from then on; an open session and the reopened one
    agree."""
    opened, seen = begin(store, "changed", budget=ITEMS), []
    while opened.place.asked:
        say(opened, 1)
        seen.append((opened.state.streamed, drift.noticed(opened)))
    (at,) = {each for _, each in seen if each is not None}
    assert CHANGE <= at < CHANGE + 150
    assert all((each is None) == (streamed <= at) or streamed < at * drift.GROWTH for streamed, each in seen)
    assert drift.noticed(Session(store, opened.id)) == at
    (said,) = drift.sentences(opened)
    assert f"From about item {at + 1:,} the items differ from earlier ones" in said
    assert "Higher since then: " in said
    assert "Lower" not in said


def test_the_alarm_names_the_words_that_came_and_went(tmp_path):
    """If a stream turns from one topic to another, the alarm lists whole words: those of the new topic as more
    frequent, those of the old topic as less frequent."""
    rng, texts = np.random.default_rng(0), []
    for k in range(800):
        topic = ("budget taxes parliament", "goalkeeper match stadium")[k >= 400].split()
        texts.append(" ".join([*rng.choice(topic, 2), *rng.choice(["today", "people", "said", "about", "news"], 3)]))
    items = reading.Items([*map(str, range(800))], texts, None, [], [""] * 800, np.zeros(800, np.int8), {})
    store = Store(tmp_path / "news.db")
    datasets.add(store, "news", datasets.table(items), "news.csv")
    opened = begin(store, "news", budget=800)
    while opened.place.asked:
        say(opened, 1)
    more, less = drift.sentences(opened)[0].split("More often since then: ")[1].split(" Less often since then: ")
    assert {"goalkeeper", "match", "stadium"} == {*more.rstrip(".").split(", ")}
    assert {"budget", "taxes", "parliament"} == {*less.split(". ")[0].split(", ")}


@pytest.mark.parametrize(("data", "more"), [("same", {}), ("changed", {"shuffled": True})])
def test_a_stream_that_does_not_change_has_no_alarm(store, data, more):
    opened = begin(store, data, **more)
    label_until_the_end(opened)
    assert [] == drift.sentences(opened)


def test_no_alarm_where_near_duplicates_are_left_out(store):
    """There is no alarm in a session that leaves out near-duplicates, because leaving them out already makes the first
    items differ from later ones."""
    store.update_dataset(store.dataset("changed")["id"], {"near_duplicates": "once"})
    opened = begin(store, "changed")
    label_until_the_end(opened)
    assert None is drift.noticed(opened)


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("changed", [False, True])
def test_later_items_are_compared_with_each_other(store, shuffled, changed):
    """Appended items are compared with each other only: there is an alarm if they change, but not if they merely differ
    from the imported items."""
    opened = begin(store, "same", shuffled=shuffled)
    later = made(changed, 1)
    later.vectors = np.asarray(later.vectors) + 5.0
    feeds.append(Dataset(store, "same"), later)
    opened.refresh()
    label_until_the_end(opened)
    at = drift.noticed(opened)
    assert (at is not None and ITEMS + CHANGE <= at < ITEMS + CHANGE + 150) if changed else at is None


@pytest.fixture
def rising(tmp_path):
    """A store with the data sets `rising` and `classes`; from the middle on positives are three times as frequent."""
    store, rng = Store(tmp_path / "rising.db"), np.random.default_rng(0)
    items = stream_of(3 * ITEMS)[1]
    order = np.argsort(rng.random(items.y.size) + 1.0 * (items.y > 0) * (rng.random(items.y.size) < 0.5), kind="stable")
    more = replace(items, vectors=items.vectors[order], y=items.y[order])
    datasets.add(store, "rising", datasets.table(more, "none"), "x.npz")
    more.classes, more.y = ("a", "b"), 1 + (more.y > 0)
    datasets.add(store, "classes", datasets.table(more, "none"), "x.npz")
    yield store
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("plan", [{"audit": 0.5}, {"floor": 0.5}])
def test_a_class_that_becomes_more_common_is_said(rising, plan):
    """If positives become more frequent, this is reported after the third quarter of the stream, with the shares before
    and after and the item of the change. The reopened session agrees, and the alarm stays."""
    opened, seen = begin(rising, "rising", "auto", budget=400, **plan), []
    while opened.place.asked:
        say(opened, truth(opened))
        seen.append((opened.state.question.t, drift.answered(opened)))
    at, changed = seen[-1][1]
    assert 0.35 < at / (3 * ITEMS) < 0.65
    (before,), (after,) = changed.before, changed.after
    assert 2 * before < after
    first = next(t for t, each in seen if each)
    assert first >= ITEMS * 3 * 3 // 4
    assert {seen[-1][1]} == {each for t, each in seen if t >= first}
    assert (at, changed) == drift.answered(Session(rising, opened.id))
    said = drift.sentences(opened)[-1]
    assert f"From about item {at + 1:,} more items are Relevant by the answers: about " in said
    assert said.endswith("If you did not expect this, check some recent items.")


@pytest.mark.slow
def test_an_annotator_who_looks_for_something_else_is_told(rising):
    """If other items become positive, but about as many as before, the alarm says that the answers contradict the model
    more often, both on pushed items and on others."""
    opened = begin(rising, "rising", "auto", budget=500, floor=0.5, shuffled=True)
    while asked := opened.place.asked:
        late = opened.state.question.t >= 3 * ITEMS // 2
        say(opened, (1 if asked.item % 5 == 0 else -1) if late else truth(opened))
    at, changed = drift.answered(opened)
    (pushed, others), (new_pushed, new_others) = changed.before, changed.after
    assert 0.4 < at / (3 * ITEMS) < 0.6
    assert new_pushed < pushed
    assert new_others > others
    (said,) = drift.sentences(opened)
    assert f"From about item {at + 1:,} the answers contradict the model more often: about " in said


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "data"), [("auto-classes", "classes"), ("Q_D", "rising")])
def test_no_share_is_told_where_it_is_not_known(rising, algorithm, data):
    """There is no alarm about the share of positives if there are several classes, or if the rule leaves items out."""
    opened = begin(rising, data, algorithm, budget=400)
    label_until_the_end(opened)
    assert None is drift.answered(opened)
