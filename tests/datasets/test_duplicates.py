"""Near-duplicates are found exactly, counted with the first text of their group, and left out if the owner wants."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oal_engine import datasets
from oal_engine.datasets import Dataset, feeds, reading
from oal_engine.datasets.features import duplicates, vectorizer
from oal_engine.sessions.items import Items
from tests.harness.sessions import begin

LONG = "please call the office about your order of twelve blue chairs"
TEXTS = [LONG, "ok", LONG.replace("blue", "red"), "OK!", LONG.replace("twelve blue", "two red"), LONG]


def items(texts, first=0):
    ids = [f"t{first + k}" for k in range(len(texts))]
    return reading.Items(ids, texts, None, [], [""] * len(texts), np.zeros(len(texts), np.int8), {})


def kept(store, texts, **settings):
    """Store texts as a data set, and return it."""
    made = datasets.table(items(texts), min_df=1, **settings)
    return Dataset(store, datasets.add(store, "texts", made, "x.csv"))


def groups(store, dataset):
    return [(row["copies"], row["text"]) for row in store.most_copied(dataset.id, 10)]


def naive(texts):
    """Compare all texts word by word. Return {index of the first text of a group: number of its near-duplicates}."""
    firsts = {}
    for k, text in enumerate(texts):
        words = set(text.split())
        alike = (j for j in firsts if 5 * len(words & set(texts[j].split())) >= 4 * len(words | set(texts[j].split())))
        first = next(alike, k) if words else k
        firsts[first] = firsts.get(first, -1) + 1
    return firsts


@settings(deadline=None, max_examples=100)
@given(st.lists(st.lists(st.sampled_from([f"w{k}" for k in range(12)]), max_size=12).map(" ".join), min_size=1))
def test_near_duplicates_are_those_of_a_full_comparison(texts):
    known = vectorizer.fit([*texts, "w0 w1 w2 w3", "w0 w1 w2 w4 w4"], min_df=1)
    positions, counts = duplicates.counted(known.read(texts)[1])
    assert [sum(naive(texts).values()), len(naive(texts))] == [counts.sum(), positions.size]


def test_near_duplicates_stay_and_are_counted(store):
    """Texts that differ in one word of eleven, in case or in punctuation are near-duplicates. All stay by default."""
    dataset = kept(store, TEXTS)
    assert (6, [(2, LONG), (1, "ok")]) == (dataset.record["items"], groups(store, dataset))
    assert "3 items are nearly the same as an earlier one." == duplicates.sentence(store.copies(dataset.id), "keep")


@pytest.mark.parametrize("kind", duplicates.KINDS)
def test_later_texts_are_compared_with_all_before_them(store, tmp_path, kind):
    """Appended texts have the near-duplicates that they would have had in an import of all texts. If near-duplicates
    are left out, exact duplicates are counted with them."""
    dataset = kept(store, TEXTS[:2], near_duplicates=kind)
    taken = feeds.append(dataset, items(TEXTS[2:], 2))
    once = kind == duplicates.ONCE
    assert feeds.AppendCounts(1 if once else 3, 1, near_duplicates=2) == taken
    assert [(1 + once, LONG), (1, "ok")] == groups(store, dataset)
    assert (3 if once else 5) == dataset.record["items"] == dataset.y.size
    more = items([LONG.replace("twelve", "10")], 9)
    assert feeds.AppendCounts(1 - once, near_duplicates=1) == feeds.append(dataset, more)
    left_out, kept_all = (
        "Left out 2 near-duplicates, counted with the first.",
        "2 items are nearly the same as an earlier",
    )
    assert (left_out if once else kept_all) in feeds.report(dataset, taken)


def test_texts_without_spaces_are_compared_by_letters_and_pairs(store):
    """In a text without spaces, one other character makes a near-duplicate; the same characters in reverse do not."""
    text = "今天早上我和朋友一起去公园散步然后喝了一杯热茶聊得很开心"
    dataset = kept(store, [text, text.replace("杯", "壶"), text[::-1]])
    assert [(1, text)] == groups(store, dataset)


def test_very_many_texts_are_compared_only_where_some_are_left_out(store, monkeypatch):
    """In a data set of more than MAX_TEXTS texts, near-duplicates are searched for only if they are to be left out."""
    monkeypatch.setattr(duplicates, "MAX_TEXTS", 5)
    dataset = kept(store, TEXTS)
    assert [] == groups(store, dataset)
    assert feeds.AppendCounts(1) == feeds.append(dataset, items([LONG + " soon"], 9))
    datasets.remove(store, dataset.id)
    assert [(2, LONG), (1, "ok")] == groups(store, kept(store, TEXTS, near_duplicates="once"))


def test_near_duplicates_are_left_out_at_the_import(store):
    """If near-duplicates are left out, only the first text of each group becomes an item, and its row is the transform
    of its text."""
    dataset = kept(store, TEXTS, near_duplicates="once")
    assert ["t0", "t1", "t4"] == [dataset.item(k)["id"] for k in range(3)]
    assert [(2, LONG), (1, "ok")] == groups(store, dataset)
    assert np.array_equal(dataset.rows.values, dataset.transform([TEXTS[k] for k in (0, 1, 4)]).values)
    assert ["once", 3] == [dataset.record[key] for key in ("near_duplicates", "items")]


def test_vectors_beside_texts_are_left_out_with_them(store):
    given = items(TEXTS)
    given.vectors = np.random.default_rng(0).normal(size=(6, 3))
    made = datasets.table(given, min_df=1, near_duplicates="once")
    assert np.array_equal(given.vectors[[0, 1, 4]], made.items.vectors)
    assert 3 == made.y.size == Dataset(store, datasets.add(store, "x", made, "x.csv")).y.size


def test_the_card_says_how_often_a_text_was_seen(store):
    kept(store, TEXTS, near_duplicates="once", features="rich+latent")
    session = begin(store, "texts", "PAA-I", budget=3)
    shown = []
    for k in range(3):
        asked = session.place.asked
        shown.append(Items(session).question(asked, session.place)["why"].rpartition(". ")[2])
        session.answer(f"e{k}", asked.id, 1, "Ann")
    assert ["Seen 3 times.", "Seen 2 times."] == shown[:2]
    assert "Seen" not in shown[2]


@pytest.mark.parametrize(("texts", "kind", "sentence"), [
    (TEXTS, "twice", r"^near-duplicates must be one of keep, once\. Got twice\.$"),
    (None, "once", r"^near-duplicates are texts: once is not for vectors\.$"),
])  # fmt: skip
def test_what_cannot_become_of_near_duplicates_is_refused(texts, kind, sentence):
    """An unknown way to treat near-duplicates is refused, and so is leaving them out of data without texts."""
    given = items(TEXTS)
    given.texts, given.vectors = texts, None if texts else np.eye(6)
    with pytest.raises(ValueError, match=sentence):
        datasets.table(given, near_duplicates=kind)
