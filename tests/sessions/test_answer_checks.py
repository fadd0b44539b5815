"""Answers to check: the leave-one-out prediction for each answer, and the effect of the answer on the model."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from oal_engine.kernel import rows
from oal_engine.sessions.insights import answer_checks
from oal_engine.sessions.insights.answer_checks import EXPONENT, FEWEST, PENALTY, leave_one_out
from tests.harness.sessions import begin, say, truth


def solved(products, targets, penalties):
    """Return the dual coefficients of kernel ridge regression with one penalty per answer."""
    return np.linalg.solve(products + np.diag(penalties), targets)


@pytest.mark.parametrize("classes", [2, 4])
def test_leaving_an_answer_out_is_solving_without_it(classes):
    """The leave-one-out results equal those of models solved from scratch: the margin of each answer, and how many
    predictions change if the answer is left out or replaced."""
    rng = np.random.default_rng(classes)
    X, Z = rng.normal(size=(30, 6)), rng.normal(size=(200, 6))
    answers = rng.integers(classes, size=30) * (rng.random(30) < 0.6)
    found = leave_one_out(X @ X.T, answers, classes, Z @ X.T)
    counts = np.bincount(answers, minlength=classes)
    penalty = PENALTY / ((counts.max() + 1) / (counts + 1)) ** EXPONENT
    targets = np.where(np.eye(classes), 1, -1)
    now = (Z @ X.T @ solved(X @ X.T, targets[answers], penalty[answers])).argmax(1)
    for i in range(30):
        rest = np.arange(30) != i
        factors = solved(X[rest] @ X[rest].T, targets[answers[rest]], penalty[answers[rest]])
        said = X[i] @ X[rest].T @ factors
        other = max((k for k in range(classes) if k != answers[i]), key=lambda k: said[k])
        assert other == found.other[i]
        assert (said[answers[i]] - said[other]) / 2 == pytest.approx(found.margin[i])
        assert ((Z @ X[rest].T @ factors).argmax(1) != now).sum() == found.without[i]
        changed = answers.copy()
        changed[i] = other
        again = Z @ X.T @ solved(X @ X.T, targets[changed], penalty[changed])
        assert (again.argmax(1) != now).sum() == found.corrected[i]


@pytest.mark.parametrize("classes", [2, 3])
def test_slips_are_most_at_odds(classes):
    """In well separated groups of rows, the wrong answers have the lowest margins, and no other margin is below 0."""
    rng = np.random.default_rng(classes)
    truth = np.sort(rng.integers(classes, size=80))
    X = 2 * np.eye(classes, 5)[truth] + 0.4 * rng.normal(size=(80, 5))
    answers, slips = truth.copy(), [3, 41, 70]
    answers[slips] = (truth[slips] + 1) % classes
    found = leave_one_out(X @ X.T, answers, classes, X[:0] @ X.T)
    assert set(slips) == set(np.argsort(found.margin)[:3].tolist()) == set(np.flatnonzero(found.margin < 0).tolist())
    assert truth[slips].tolist() == found.other[slips].tolist()


def test_what_processors_round_differently_breaks_no_tie():
    """Rounding errors, which differ between processors, change no margin and break no tie between classes."""
    X = np.vstack([np.eye(4), np.eye(4)])
    errors = 1e-15 * np.random.default_rng(0).normal(size=(8, 8))
    answers = np.array([0, 1, 2, 3, 1, 1, 2, 0])
    exact, near = (leave_one_out(products, answers, 4, np.zeros((5, 8)) + error) for products, error in
                   ((X @ X.T, 0), (X @ X.T + errors, errors[:5])))  # fmt: skip
    for part, same in zip(exact, near):
        assert part.tolist() == same.tolist()


def labelled(store, data="sparse", algorithm="PAA-I"):
    """Return a session with 60 answers. With four classes all are true; with two classes every ninth is wrong."""
    opened = begin(store, data, algorithm, budget=120, parameters={"delta": 10})
    for number in range(60):
        say(opened, truth(opened) * (-1 if number % 9 == 8 and not opened.multiclass else 1))
    return opened


@pytest.mark.parametrize(("data", "algorithm"), [("sparse", "PAA-I"), ("classes", "MPAA-I")])
def test_the_lists_of_a_session_have_the_most_urgent_first(store, data, algorithm):
    """Answers at odds with the others are listed by rising margin, and decisive answers by falling number of
    predictions that they change. Each entry suggests a class other than the answer's label."""
    checks = answer_checks.of_session(labelled(store, data, algorithm))
    margins, changes = [each.margin for each in checks.at_odds], [-each.without for each in checks.decisive]
    assert (True, True) == (bool(margins), bool(changes))
    assert (sorted(margins), sorted(changes)) == (margins, changes)
    assert all(each.margin < 0 for each in checks.at_odds)
    assert all(each.without > 0 for each in checks.decisive)
    assert all(each.other != each.entry.label for each in checks.at_odds + checks.decisive)
    assert (60, 0, 300) == (checks.answers, checks.earlier, checks.items)


def test_a_corrected_answer_is_at_odds_no_more(store):
    opened = labelled(store)
    first = answer_checks.of_session(opened).at_odds[0]
    opened.correct("mended", first.entry.id, first.other)
    assert first.entry.number not in [check.entry.number for check in answer_checks.of_session(opened).at_odds]


def test_the_waiting_item_has_no_part(store, monkeypatch):
    """Changed predictions are counted over all items of a short stream except the item that waits for its answer."""
    seen = []
    real = rows.take
    monkeypatch.setattr(rows, "take", lambda table, places: seen.append(places) or real(table, places))
    opened = labelled(store)
    answer_checks.of_session(opened)
    assert sorted(set(range(300)) - {opened.place.asked.item}) == sorted(seen[-1].tolist())


def test_what_few_answers_cannot_say_is_not_said(store):
    """If all answers are of one class, there is nothing to check. If a class has fewer than FEWEST answers, they are
    never listed as at odds with the others."""
    opened = begin(store, budget=120, parameters={"delta": 10})
    for _ in range(12):
        say(opened, -1)
    assert ([], []) == (answer_checks.of_session(opened).at_odds, answer_checks.of_session(opened).decisive)
    for _ in range(FEWEST - 1):
        say(opened, 1)
    assert not [check for check in answer_checks.of_session(opened).at_odds if check.entry.label == 1]


def test_only_the_latest_answers_of_many_are_looked_at(store, monkeypatch):
    monkeypatch.setattr(answer_checks, "MOST", 40)
    checks = answer_checks.of_session(labelled(store))
    assert (40, 20) == (checks.answers, checks.earlier)
    assert all(check.entry.number > 20 for check in checks.at_odds + checks.decisive)


def test_inner_products_are_those_of_the_dense_rows():
    rng = np.random.default_rng(0)
    X, Z = (rng.normal(size=(n, 20)) * (rng.random((n, 20)) < 0.3) for n in (5, 7))
    blocks = [table[:, 12:].astype(np.float32).astype(float) for table in (X, Z)]
    X[:, 12:], Z[:, 12:] = blocks
    for make in (
        rows.as_rows,
        lambda table: rows.as_rows(csr_array(table)),
        lambda table: rows.mixed_rows(rows.as_rows(csr_array(table[:, :12])), table[:, 12:]),
    ):
        np.testing.assert_allclose(rows.inner_products(make(X), make(Z)), X @ Z.T, rtol=1e-6, atol=1e-6)
