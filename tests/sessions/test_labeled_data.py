"""The labels of a session become a data set, on which algorithms are compared."""

import numpy as np

from oal_engine import experiments
from oal_engine.datasets import Dataset
from oal_engine.sessions.labeled_data import labeled_dataset
from oal_engine.sessions.settings import SKIP
from tests.harness.sessions import EVENTS, begin, give, label_truly, say


def test_the_labels_of_a_session_are_a_data_set(store):
    """The data set has the rows, ids and current labels of the items with an answer or a known label, and no others. It
    is made once, and again after a correction. A comparison runs on it."""
    opened = begin(store, "unlabelled", "PAA-I", budget=30)
    for number in range(20):
        say(opened, SKIP if number == 3 else (1, -1)[number % 2])
    opened.correct(next(EVENTS), opened.log[0].id, -1)
    opened.know(next(EVENTS), {int(opened.order[-1]): 1}, "file")
    name = labeled_dataset(store, opened.id)
    data, expected = (
        Dataset(store, name),
        {lesson.item: lesson.label for lesson in opened.state.lessons if lesson.label},
    )
    assert data.y.tolist() == [expected[item] for item in sorted(expected)]
    assert [data.item(k)["id"] for k in range(20)] == [opened.dataset.item(item)["id"] for item in sorted(expected)]
    assert np.array_equal(data.rows.values[:3], opened.dataset.rows.values[:3]) == (sorted(expected)[0] == 0)
    assert labeled_dataset(store, opened.id) == name
    opened.correct(next(EVENTS), opened.log[0].id, 1)
    assert labeled_dataset(store, opened.id) != name
    spec = experiments.specification({"data": [name], "algorithms": {"PAA-I": {}}, "permutations": 2, "budgets": [5]})
    assert len(experiments.compare(spec, store).lines) == 1


def test_one_of_several_questions_has_its_own_labels(store):
    opened = begin(store, "unlabelled", "auto", questions=["half", "fifth", "rare"], budget=30)
    give(opened, 15)
    data = Dataset(store, labeled_dataset(store, opened.id, "fifth"))
    expected = {entry.item: entry.labels[1] for entry in opened.log if entry.labels and entry.labels[1]}
    assert data.y.tolist() == [expected[item] for item in sorted(expected)]


def test_classes_stay_classes(store):
    opened = begin(store, "classes", "MD-AMD", budget=30)
    label_truly(opened, 12)
    data = Dataset(store, labeled_dataset(store, opened.id))
    assert data.classes == tuple("abcd")
    assert sorted(data.y.tolist()) == sorted(opened.labels)
