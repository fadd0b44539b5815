"""Lower bounds on metrics hold at all points in time at once, under any drift, at the stated risk, and equal the bounds
of the plain implementation (naive.py)."""

from itertools import product

import numpy as np
import pytest

from oal_engine.kernel import certainty, metrics
from oal_engine.kernel.certainty import HIDDEN, OF_HIDDEN, PUSHED, RISK, fewest_pushed, floors, most_hidden, tables
from tests.harness.naive import count_bound

CHANCES = np.array([0.1, 0.5, 0.05, 1.0, 0.2, 0.05])


@pytest.mark.parametrize(("asked", "risk"), [(0, RISK), (1, RISK), (3, RISK), (6, RISK), (6, RISK / 5)])
def test_bounds_are_the_last_counts_that_the_martingales_allow(asked, risk):
    q, s, pi, at = 0.05 * HIDDEN, 0.05 * PUSHED, CHANCES[:asked], np.array([asked])
    hidden = [
        lambda count, q=q, w=w: w * np.prod((1 - q / pi) / (1 - q)) * (1 - q) ** (asked - count)
        for q, w in zip(q, HIDDEN / HIDDEN.mean())
    ]
    pushed = [
        lambda count, s=s: np.prod((1 + s / pi) / (1 + s)) * (1 + s) ** (asked - count) for s in s
    ]  # fmt: skip
    count, counts = np.ones(asked), range(1000)
    expected = count_bound(hidden, risk * OF_HIDDEN, counts)[-1]
    assert expected == np.floor(most_hidden(pi, count, at, 0.05, risk))[0]
    expected = count_bound(pushed, risk * (1 - OF_HIDDEN), counts)[0]
    assert expected == np.ceil(fewest_pushed(pi, count, at, 0.05, risk))[0]


def test_the_products_are_fair_games():
    """Each product behind a bound is a martingale: its mean over all outcomes is 1, even if draw probabilities depend
    on the past."""
    for factor in (lambda pi: ((1 - 0.03 / pi) / 0.97, 1 / 0.97), lambda pi: ((1 + 0.2 / pi) / 1.2, 1 / 1.2)):
        mean = 0.0
        for asked in product([True, False], repeat=6):
            likely, game = 1.0, 1.0
            for k, taken in enumerate(asked):
                pi = 0.04 if sum(asked[:k]) % 2 else 0.7
                likely *= pi if taken else 1 - pi
                game *= factor(pi)[not taken]
            mean += likely * game
        assert mean == pytest.approx(1)


def session(rng, n=1000, promised=0.1):
    """Simulate a session with drift, and a model and probabilities that depend on the answers.

    Return the arguments of `tables` after every answer and at the end, and the true counts there.
    """
    y, pushed, chance = np.empty(n, int), np.empty(n, bool), np.empty(n)
    asked, luck = np.zeros(n, bool), 0
    for t in range(n):
        y[t] = 1 if rng.random() < (0.02 if t < n // 2 else 0.3) else -1
        pushed[t] = rng.random() < ((0.9 if luck % 4 else 0.5) if y[t] > 0 else 0.1)
        chance[t] = min(1, promised * (1 + 9 * (luck % 2))) if not pushed[t] else 0.3 * (luck % 4 > 0)
        asked[t] = rng.random() < chance[t]
        luck += asked[t] * (y[t] > 0)
    ends = np.append(np.flatnonzero(asked) + 1, n)
    counts = np.zeros((n + 1, 2, 3, 2), int)
    counts[np.arange(1, n + 1), pushed.astype(int), y + 1, asked.astype(int)] = 1
    counts = counts.cumsum(0)[ends]
    answers = np.append(np.arange(1, asked.sum() + 1), asked.sum())
    return (y[asked], pushed[asked], chance[asked], answers, ends, pushed.cumsum()[ends - 1], promised), counts


@pytest.mark.slow
def test_floors_hold_at_every_look():
    """In at most 5 % of 200 sessions, a bound of some metric is above its true value after some answer. The bounds on
    recall are not trivial."""
    wrong, last = 0, []
    for seed in range(200):
        arguments, counts = session(np.random.default_rng(seed))
        bounds = floors(tables(*arguments))
        over = 0
        for name in metrics.EVALUATIONS:
            real = metrics.evaluate(counts, name)
            over += sum((bounds[name][metric] > real[metric] + 1e-12).sum() for metric in certainty.BOUNDED)
        wrong += over > 0
        last.append(bounds["push_query"]["recall"][-1])
    assert wrong <= 0.05 * 200
    assert np.mean(last) > 0.1


def test_floors_are_sharper_with_what_a_person_has_read():
    """Once a person has read all pushed items, no bound is lower than before, and the bound on recall is higher."""
    arguments, counts = session(np.random.default_rng(3))
    true_pushes = metrics.confusion(counts, "push")[0]
    bounds, read = floors(tables(*arguments)), floors(tables(*arguments, true_pushes=true_pushes))
    assert all((read[e][m] >= bounds[e][m]).all() for e in metrics.EVALUATIONS for m in certainty.BOUNDED)
    assert read["push"]["recall"][-1] > bounds["push"]["recall"][-1] + 0.05
    assert (read["push"]["precision"] == metrics.evaluate(counts, "push")["precision"]).all()


def test_where_every_item_was_asked_the_floors_are_the_metrics():
    """If every item was asked, the bounds equal the metrics, and a skip counts as not positive."""
    y, pushed = np.array([1, -1, 1, 0] * 10), np.array([1, 1, 0, 0] * 10, bool)
    size = np.array([40])
    known = floors(tables(y, pushed, np.ones(40), size, size, np.array([20]), 0.1))
    assert [0.5, 0.5, 0.5, 0.5] == [known["push"][metric][0] for metric in certainty.BOUNDED]
    assert (1.0, 0.5) == (known["push_query"]["recall"][0], known["push_query"]["precision"][0])


def test_before_any_answer_nothing_is_certain():
    nothing = np.zeros(0)
    known = floors(tables(nothing, nothing.astype(bool), nothing, *(np.zeros(1, int) for _ in range(3)), 0.1))
    assert {0.0} == {float(values[0]) for metric in known.values() for values in metric.values()}
