"""Agreement between annotators: published coefficients, weights by asking probability, and exported second answers."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from oal_engine.sessions.files import export
from oal_engine.sessions.insights import agreement
from oal_engine.sessions.insights.agreement import AnswerPair
from tests.harness.sessions import PEOPLE, begin, reply


@dataclass
class Asked:
    probability: float = 1.0
    corrected: bool = False


def pairs_of(first, second, chances=None):
    return [AnswerPair(Asked(p), "anna", a, "ben", b) for a, b, p in zip(first, second, chances or [1.0] * len(first))]


def test_kappa_is_that_of_cohen():
    """A textbook example has kappa 0.4: two people judge 50 applications, agreeing on 20 positives and 15 negatives."""
    first = [1] * 25 + [-1] * 25
    second = [1] * 20 + [-1] * 5 + [1] * 10 + [-1] * 15
    found = agreement.of_pairs(pairs_of(first, second))
    assert (50, 35, 0.7) == (found.pairs, found.equal, pytest.approx(found.same.value))
    assert 0.4 == pytest.approx(found.kappa.value)
    assert found.kappa.low < 0.4 < found.kappa.high


def test_kappa_is_weighted_by_the_chances_of_being_asked():
    """An item asked about with probability pi has the weight 1 / pi. Kappa equals scikit-learn's with these weights."""
    rng = np.random.default_rng(2)
    first, second, chances = rng.integers(1, 4, 80), rng.integers(1, 4, 80), rng.uniform(0.1, 1, 80)
    second = np.where(rng.random(80) < 0.6, first, second)
    found = agreement.of_pairs(pairs_of(first.tolist(), second.tolist(), chances.tolist()))
    assert pytest.approx(cohen_kappa_score(first, second, sample_weight=1 / chances)) == found.kappa.value


def test_kappa_of_two_people_depends_on_how_often_each_of_them_uses_a_class():
    """Kappa is the same whichever of two people answers an item first: anna says yes to 30 of 40 items and ben to 20 of
    these 30, so kappa is 0.5."""
    pairs = pairs_of([1] * 30 + [-1] * 10, [1] * 20 + [-1] * 20)
    turned = [AnswerPair(pair.entry, "ben", pair.second, "anna", pair.first) for pair in pairs[::2]] + pairs[1::2]
    found = agreement.by_people(turned)
    assert [("anna", "ben")] == list(found)
    assert agreement.of_pairs(pairs).kappa == found["anna", "ben"].kappa
    assert 0.5 == pytest.approx(found["anna", "ben"].kappa.value)


def test_alpha_is_that_of_krippendorff():
    """Krippendorff's alpha of his example with two observers, ten units and nominal data is 0.095 (Computing
    Krippendorff's Alpha-Reliability, A)."""
    first, second = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    found = agreement.of_pairs(pairs_of(first, second))
    assert 0.095 == pytest.approx(found.alpha.value, abs=5e-4)


CHANCES = (
    lambda doubt, positive: np.ones(doubt.size),
    lambda doubt, positive: 0.05 + 0.95 * doubt**2,
    lambda doubt, positive: np.where(positive, 0.3 + 0.7 * doubt, 0.02 + 0.5 * doubt**3),
)


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [20, 30, 40])
def test_intervals_hold_what_is_true(pairs):
    """With 20 to 40 pairs of answers, the 95 % intervals of kappa and alpha cover the values of the whole stream in 93
    to 98 % of samples. The interval of the share of equal answers covers the true share in at least 93 %. The samples
    vary how rare positives are, how careful people are, and how the asking probabilities depend on the items."""
    rng, held = np.random.default_rng(pairs), []
    for share, slips, rule in product((0.1, 0.5), (0.03, 0.15), CHANCES):
        doubt, first = rng.random(100_000), np.where(rng.random(100_000) < share, 1, -1)
        first, second = (np.where(rng.random(100_000) < 2 * slips * doubt, -first, first) for _ in "ab")
        chance = rule(doubt, first > 0)
        table = np.array([[np.mean((first == a) & (second == b)) for b in (-1, 1)] for a in (-1, 1)])[None]
        true = np.trace(table[0]), agreement.kappas(table)[0], agreement.alphas(table, 1e9)[0]
        for _ in range(80):
            drawn = rng.choice(100_000, pairs, p=chance / chance.sum())
            found = agreement.of_pairs(pairs_of(*(part[drawn].tolist() for part in (first, second, chance))))
            if found.kappa:
                known = found.same, found.kappa, found.alpha
                held.append([each.low <= value <= each.high for each, value in zip(known, true)])
    same, *others = np.mean(held, axis=0)
    assert same >= 0.93
    assert all(0.93 <= each <= 0.98 for each in others), others


@pytest.mark.parametrize(("pairs", "shares", "kappa", "drawn"), [
    (20, (0.1, 0.9), 0.4, 3000),
    (40, (0.1, 0.9), 0.9, 3000),
    (20, (0.05, 0.05, 0.05, 0.85), 0.6, 400),
])  # fmt: skip
def test_the_interval_of_kappa_holds_kappa(pairs, shares, kappa, drawn):
    """Even with rare classes and few pairs of answers, the interval of kappa (if there is one) covers the true kappa in
    93 to 98 % of random tables of answers."""
    true = kappa * np.diag(shares) + (1 - kappa) * np.outer(shares, shares)
    tables = np.random.default_rng(1).multinomial(pairs, true.ravel(), drawn).reshape(-1, *true.shape)
    found, times = np.unique(tables, axis=0, return_counts=True)
    used = [table.sum(0) + table.sum(1) > 0 for table in found]
    known = [agreement.of_table(table[own][:, own] / pairs, pairs)[0] for table, own in zip(found, used)]
    held = [(each.low <= kappa <= each.high, n) for each, n in zip(known, times) if each]
    holds, weights = zip(*held)
    assert 0.93 <= np.average(holds, weights=weights) <= 0.98


@pytest.mark.parametrize(("second", "told"), [
    ([1] * 4 + [2] * 5, "8 of 9 items answered twice got the same answer. The share in the whole stream is shown from"),
    ([1] * 5 + [2] * 5, "10 of 10 items answered twice got the same answer. In the whole stream it is 100 % (72 to"),
    ([1] * 5 + [2] * 5, "kappa 1.00 ("),
    ([1] * 10, "All answers are of one class: not enough to tell agreement from chance."),
])  # fmt: skip
def test_agreement_is_told_in_words(second, told):
    """The sentence about agreement states the number of equal answers. If there are enough answers, it also states
    their share in the whole stream, and kappa."""
    first = [1] * 5 + [2] * (len(second) - 5) if 2 in second else second
    assert told in agreement.in_words(agreement.of_pairs(pairs_of(first, second)))


def test_a_session_knows_its_people_and_where_they_differ(store):
    """The labels and second answers of each person are counted. A disagreement between two people is listed until the
    answer is corrected, and still counts in their agreement after that."""
    opened = begin(store, overlap=1.0, budget=16)
    for k in range(16):
        for who in PEOPLE[:2]:
            if opened.held(who):
                reply(opened, who, (1 if who == "ben" else -1) if k == 3 else None)
    counts = {each.name: (each.labels, each.seconds) for each in agreement.people(opened)}
    assert {"anna", "ben"} == counts.keys()
    assert sum(each[1] for each in counts.values()) == len(agreement.answer_pairs(opened)) > 5
    open_ones = agreement.differing(agreement.answer_pairs(opened))
    assert open_ones
    before = agreement.by_people(agreement.answer_pairs(opened))
    opened.correct("decided", open_ones[0].entry.id, open_ones[0].second, "owner")
    assert open_ones[1:] == agreement.differing(agreement.answer_pairs(opened))
    assert before == agreement.by_people(agreement.answer_pairs(opened))
    assert [("anna", "ben")] == list(before)


def test_consistency_is_the_share_of_equal_answers():
    """A person who repeats eight of ten answers unchanged has a consistency of 80 % (49 to 94 %, Wilson 1927); four
    repeated answers are too few for a consistency."""
    found = agreement.consistency(pairs_of([1] * 8 + [-1] * 2, [1] * 10))
    assert (0.8, 0.490, 0.943) == (found.value, pytest.approx(found.low, abs=5e-4), pytest.approx(found.high, abs=5e-4))
    assert agreement.consistency(pairs_of([1] * 4, [1] * 4)) is None


def test_second_answers_are_exported_beside_the_first(store):
    """Each exported second answer has both labels as class names, both annotators, and the asking probability."""
    opened = begin(store, overlap=1.0, budget=8)
    for who in PEOPLE[:2] * 8:
        if opened.held(who):
            reply(opened, who)
    table = export.opinions(opened)[0]
    rows = [dict(zip(table.columns, row)) for row in table.rows]
    assert table.total == len(rows) == len(agreement.answer_pairs(opened)) > 0
    for row, pair in zip(rows, agreement.answer_pairs(opened)):
        words = opened.settings.answers
        assert (words[pair.first], words[pair.second]) == (row["first"], row["class"])
        assert (pair.one, pair.other) == (row["first_annotator"], row["annotator"])
        assert pair.entry.probability == row["asking_probability"]
