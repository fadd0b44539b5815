"""The learner pool-f1 weights a positive by the best attainable F1, which it estimates from the answers."""

from math import exp, log

import numpy as np
import pytest

from oal_engine.kernel import jit, learners
from oal_engine.kernel.learners import attainable, dual
from oal_engine.kernel.rows import Row, as_rows
from tests.harness import naive

ONE_ROW = as_rows(np.ones((1, 1)))


@jit.entrance(lambda *_: 0.0)
def _answer(learner, rows, margin, chance, y):
    learners.note_chance(learner, chance)
    place, earlier = dual.keep(learner, Row(rows, 0), y, int(y > 0))
    attainable.rank(learner, place, earlier + 1, margin)
    return attainable.positive_weight(learner, place, earlier + 1)


def _powers(numbers):
    return [(attainable.exponential(x), attainable.logarithm(attainable.exponential(x))) for x in numbers]


def weights(answers, **values):
    """Compute the weight of a positive after each answer (margin, chance, label)."""
    learner = learners.build("pool-f1", 1, values)
    return [_answer(learner, ONE_ROW, float(margin), float(chance), float(y)) for margin, chance, y in answers]


def random_answers(n, seed=0, share=0.4, decimals=1):
    """Return random answers (margin, chance, label) whose margins depend on their labels; many margins are equal."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < share, 1, -1)
    return [*zip((rng.normal(size=n) + 0.7 * y).round(decimals), rng.uniform(0.001, 1, n), y)]


@pytest.mark.slow
@pytest.mark.parametrize("memory", [1, 7, 60, 2000])
def test_the_weight_equals_that_of_its_twin(memory):
    """The weight of a positive after every answer equals the result of the plain implementation (naive.py), with all
    answers or only the latest in memory."""
    answers = random_answers(700)
    expected = [
        max(
            (((n + 1 - positives) + 1) / (positives + 1)) ** (0.5 + 0.3 * 5 / (5 + positives)),
            naive.weight_by_f1(answers[: n + 1], memory),
        )
        for n, positives in enumerate(np.cumsum([y > 0 for _, _, y in answers]))
    ]
    np.testing.assert_allclose(weights(answers, memory=memory), expected, rtol=1e-7)
    assert max(expected[20:]) > 1.5


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_margins_that_tell_nothing_weigh_positives_by_one_over_their_share(share):
    """If margins say nothing, pushing everything is best: F1 is 2 s / (1 + s) for a share s of positives, and a
    positive weighs (2 - F1) / F1 = 1 / s, but not more than 3."""
    labels = np.where(np.arange(2000) % 10 < 10 * share, 1, -1)
    weight = weights([(1.0, 0.2, y) for y in labels])[-1]
    assert min(3, 1 / share) == pytest.approx(weight, rel=0.02)


def test_rare_and_separate_positives_weigh_as_before():
    """If less than a tenth of the items are positive, or no error is expected, only the class ratio sets the weight."""
    rare = [(-1 + 2 * (k % 20 == 0), 1.0, 1 if k % 20 == 0 else -1) for k in range(400)]
    assert (381 / 21) ** 0.5 == pytest.approx(weights(rare, few=0)[-1])
    clear = [(100.0 * y, 1.0, y) for y in (1, -1) * 200]
    assert weights(clear)[-1] == pytest.approx(1, abs=0.02)


def test_the_first_positives_weigh_more():
    """Before the eleventh answer F1 is not estimated: a positive weighs (negatives + 1) / (positives + 1) to the power
    of 0.5 + 0.3 * 5 / (5 + positives)."""
    answers = [(0.1, 1.0, -1)] * 8 + [(0.2, 1.0, 1)]
    assert (9 / 2) ** (0.5 + 0.3 * 5 / 6) == pytest.approx(weights(answers)[-1])
    assert (9 / 2) ** 0.5 == pytest.approx(weights(answers, few=0)[-1])


def test_powers_and_logarithms_are_right_to_ten_digits():
    """The exponential and logarithm that every processor rounds alike agree with those in the C library."""
    numbers = np.linspace(-20, 20, 401)
    for x, (power, logarithm) in zip(numbers, _powers(numbers)):
        assert (exp(x), log(exp(x))) == (
            pytest.approx(power, rel=1e-10),
            pytest.approx(logarithm, rel=1e-10, abs=1e-10),
        )
