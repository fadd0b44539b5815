"""Audits of a column (labels or scores made by something else): the same answers judge the column alone, and a model
that learns from the column and the answers."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

from oal_engine.datasets.given import BOTH, COLUMN, decided_column
from oal_engine.datasets.reading import Columns
from oal_engine.datasets.reading.sources import DataError
from oal_engine.experiments.replays import ReplayOptions, replay_column
from oal_engine.kernel import rows
from oal_engine.kernel.algorithms import strategy
from tests.harness.promises import mixed

TEXTS = 400


def read(cells, cut=None, **columns):
    """Read an audited column from its cells."""
    return decided_column(cells, Columns(label="llm", **columns), cut, "posts.csv")


@pytest.fixture(scope="module")
def posts():
    """A data set of random rows, a quarter of them positive, and a column of labels; every eighth label is wrong."""
    rng = np.random.default_rng(3)
    y = np.where(rng.random(TEXTS) < 0.25, 1, -1)
    table = np.column_stack([(y > 0) + 0.3 * rng.standard_normal(TEXTS), rng.standard_normal((TEXTS, 4))])
    said = np.where(np.arange(TEXTS) % 8, y, -y)
    data = SimpleNamespace(rows=mixed(table), y=rows.read_only(y, np.int8), classes=())
    return data, read(["yes" if each > 0 else "no" for each in said])


@pytest.mark.parametrize("kind", [csr_array, np.asarray, mixed])
def test_a_column_is_the_last_of_rows_of_any_kind(kind):
    table = np.array([[1.0, 0, 2], [0, 3, 0]])
    longer = rows.with_column(rows.as_rows(kind(table)), np.array([0.5, -1]))
    whole = rows.matrix(longer)
    assert [[1, 0, 2, 0.5], [0, 3, 0, -1]] == (whole.toarray() if hasattr(whole, "toarray") else whole).tolist()
    assert 4 == longer.columns


@pytest.mark.slow
def test_both_are_judged_by_the_same_answers_and_the_column_never_changes(posts):
    """The audited column predicts its own cells. The column, and the model that learns from it, are judged by equally
    many answers. The final predictions of the model have the higher F1."""
    data, column = posts
    options = ReplayOptions(permutations=2, budget=120, floor=0.5, pace=1)
    result = replay_column(strategy("auto"), data, column, None, options)
    wrong = np.arange(TEXTS) % 8 == 0
    for run in result["runs"]:
        own, both = (run["deciders"][name] for name in (COLUMN, BOTH))
        assert (wrong & (data.y < 0)).sum() == own["push"]["fp"]
        assert (wrong & (data.y > 0)).sum() == own["push"]["fn"]
        assert run["readings"] == own["queried"] == both["queried"] <= 120
        assert both["list"]["f1"] > own["push"]["f1"]
        assert TEXTS == own["estimates"]["rounds"]
        for decider in (own, both):
            value, low, high = decider["estimates"]["push"]["f1"]
            assert 0 <= low <= value <= high <= 1
            assert decider["floor"]["push"]["recall"] <= decider["push"]["recall"]
    assert json.loads(json.dumps(result)) == result


def test_an_audit_without_answers_estimates_nothing(posts):
    result = replay_column(strategy("auto"), *posts, None, ReplayOptions(budget=0, floor=0.5, pace=1))
    (run,) = result["runs"]
    assert {None} == {*run["deciders"][COLUMN]["estimates"]["push"].values()}
    assert run["deciders"][COLUMN]["estimates"]["positives"] is None


def test_labels_are_minus_and_plus_one_and_scores_are_distances_from_the_cut():
    """Labels are read as -1 and 1, and scores in any range as distances from the score that divides them (`cut`)."""
    assert [1, -1] == read(["yes", "no"]).margins.tolist()
    assert [-1, 1, 1] == read(["0", "1", "1"]).margins.tolist()
    assert [1, -1] == read(["spam", "ham"], positive=("spam",)).margins.tolist()
    for cells, cut, said in (
        (["0.5", "0.4", "0.9"], None, [True, False, True]),
        (["-2.5", "0", "1"], None, [False, True, True]),
        (["0.2", "0.8"], None, [False, True]),
        (["10", "70", "90"], 80.0, [False, False, True]),
        (["0", "1", "0"], 1.0, [False, True, False]),
    ):
        column = read(cells, cut)
        assert said == (column.margins >= 0).tolist()
        assert 1 == pytest.approx((column.margins**2).mean())


@pytest.mark.parametrize(
    ("cells", "cut", "problem"),
    [
        (["1", " ", "0"], None, "no cell of column llm in posts.csv may be empty. 1 are, the first in row 2."),
        (["1", "nan", "0"], None, "must be finite. Row 2 has nan."),
        (["10", "70", "90"], None, "cut must say from which score on column llm of posts.csv says positive."),
        (["0.1", "0.2", "0.3"], None, "cut must be a score that divides column llm: > 0.1 and <= 0.3. Got 0.5."),
        (["0.1", "0.2", "0.3"], 0.1, "cut must be a score that divides"),
        (["yes", "no"], 0.5, "cut is for scores. Column llm of posts.csv has labels."),
        (["a", "b", "c"], None, "a pair of words such as yes and no, or the word of the positive class. Got a, b, c."),
        (["0.5", "0.5"], None, "cut must be a score that divides column llm"),
        (["-1e308", "1e308", "0"], None, "scores of column llm in posts.csv are too large or small."),
        (["1e-300", "9e-300", "0"], 5e-300, "scores of column llm in posts.csv are too large or small."),
    ],
)
def test_a_column_that_decides_nothing_is_refused(cells, cut, problem):
    """If a column cannot be audited, the error names the column, the allowed values and the given ones."""
    with pytest.raises((DataError, ValueError)) as error:
        read(cells, cut)
    assert problem in str(error.value)
