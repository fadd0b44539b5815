"""The drift alarms keep their false alarm rate on shuffled items, and are raised when items or answers change."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from oal_engine.kernel import drift, rows
from tests.harness.naive import drift_capital, share_steps

ROUNDS = 3_000


def items(count, seed, shift=0.0):
    """Return random scores of items, some of them equal. In the second half, `shift` is added to one score."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(count, drift.SCORES)).round(1)
    values[count // 2 :, 3] += shift
    return values


@pytest.mark.parametrize("shift", [0.0, 2.0])
def test_the_capital_is_that_of_the_formulas(shift):
    """The capital of the test's bets after each item, and the first item at which it reaches a limit, agree with the
    plain implementation (naive.py)."""
    values = items(120, 0, shift)
    course = drift_capital(values, drift.SEED, drift.BETS, drift.JUMPS)
    for stop in (1, 2, 50, 120):
        assert (None, pytest.approx(course[stop - 1])) == drift.alarm(values[:stop], np.inf)
    limit = 0.9 * max(course)
    at = next(t for t, capital in enumerate(course) if capital >= limit)
    assert (at, pytest.approx(course[at])) == drift.alarm(values, limit)


def test_shuffled_streams_have_few_alarms():
    """If items come in random order, at most a share ITEMS_RISK of the streams ever has an alarm."""
    alarms = [drift.alarm(items(400, seed))[0] is not None for seed in range(400)]
    assert np.mean(alarms) <= drift.ITEMS_RISK


def test_a_change_is_noticed_soon():
    """If one of the scores moves by a standard deviation, the alarm comes within 300 items."""
    found = [drift.alarm(items(1000, seed, 1.0))[0] for seed in range(20)]
    assert all(at is not None and 500 <= at < 800 for at in found)


def test_no_items_have_no_alarm():
    assert (None, 1.0) == drift.alarm(np.empty((0, drift.SCORES)))


def test_scores_are_the_same_for_sparse_and_dense_rows_and_the_block_of_mixed_ones():
    table, places = np.random.default_rng(0).normal(size=(9, 20)), np.array([3, 1, 8])
    dense, sparse = (drift.scores(rows.as_rows(form(table)), places) for form in (np.asarray, csr_array))
    assert np.allclose(dense, sparse)
    assert (3, drift.SCORES) == dense.shape
    mixed = rows.mixed_rows(rows.as_rows(csr_array(table)), table.astype(np.float32))
    assert np.array_equal(table.astype(np.float32)[places, : drift.SCORES], drift.scores(mixed, places))


def checked(share, checks, seed, factor=1.0):
    """Return the arguments of `drift.change` for answers to random checks. The share of positives is multiplied by
    `factor` in the second half."""
    rng = np.random.default_rng(seed)
    asked = np.sort(rng.choice(ROUNDS, checks, replace=False))
    positive = rng.random(checks) < np.where(asked < ROUNDS / 2, share, factor * share)
    return (
        positive,
        np.zeros(checks, bool),
        np.full(checks, checks / ROUNDS),
        np.append(0, asked + 1),
        np.zeros(checks + 1),
    )


def labeled(share, labels, seed, factor=1.0):
    """Return the arguments of `drift.change` for a session whose model learns: it asks more about doubtful items and in
    the first third of the stream, and its margins separate the classes better and better."""
    rng, t = np.random.default_rng(seed), np.arange(ROUNDS)
    positive = rng.random(ROUNDS) < np.where(t < ROUNDS / 2, share, factor * share)
    margin = rng.normal(size=ROUNDS) + np.where(positive, 1, -2) * (1 + t / ROUNDS)
    chance = 0.1 + np.exp(-np.abs(margin)) * np.where(t < ROUNDS / 3, 2, 0.5)
    chance = np.minimum(1, chance * labels / chance.sum())
    asked = rng.random(ROUNDS) < chance
    rounds = np.append(0, t[asked] + 1)
    pushes = np.append(0, np.cumsum(margin > 0))[rounds]
    return positive[asked], margin[asked] > 0, chance[asked], rounds, pushes


def share_changes(answers, share, number, factor=1.0, streams=1000):
    """Return a list: the noticed change of the share of positives, or None, in each of several streams. answers:
    `checked` or `labeled`. number: count of answers."""
    return [drift.change(*answers(share, number, seed, factor), ROUNDS, ROUNDS) for seed in range(streams)]


@pytest.mark.slow
@pytest.mark.parametrize("answers", [checked, labeled])
@pytest.mark.parametrize("share", [0.05, 0.25])
def test_answers_to_shuffled_streams_have_few_alarms(answers, share):
    """If the share of positives does not change, at most a share RISK - ITEMS_RISK of the streams ever has an alarm,
    even if the model learns and asks less and less."""
    changes = share_changes(answers, share, 300)
    assert np.mean([each is not None for each in changes]) <= drift.RISK - drift.ITEMS_RISK


@pytest.mark.parametrize(
    ("answers", "share", "power"), [(checked, 0.15, 0.6), (checked, 0.25, 0.9), (labeled, 0.1, 0.6)]
)
def test_a_class_that_becomes_twice_as_common_is_noticed(answers, share, power):
    """If the share of positives doubles, this is noticed in most streams: from 15 to 30 % with 300 random checks, from
    10 to 20 % if the model chooses the questions. The estimates of both shares are about right."""
    changes = [each for each in share_changes(answers, share, 300, factor=2, streams=300) if each]
    assert power < len(changes) / 300
    assert np.mean([each.after > each.before for each in changes]) > 1 - drift.RISK
    shares = np.mean([each.before + each.after for each in changes], axis=0)
    assert (share, 2 * share) == pytest.approx(shares, rel=0.2)


def test_a_class_that_becomes_rarer_is_noticed():
    changes = share_changes(checked, 0.4, 300, factor=0.3, streams=50)
    assert all(each and each.after < each.before for each in changes)


def turned(labels, seed, late):
    """Return the answers of `labeled`. If `late`, random labels, 15 % of them positive, replace the labels of the
    second half."""
    positive, pushed, chance, rounds, pushes = labeled(0.15, labels, seed)
    after = rounds[1:] > ROUNDS / 2
    other = np.random.default_rng(seed).random(positive.size) < 0.15
    return np.where(after & late, other, positive), pushed, chance, rounds, pushes


def test_other_items_that_become_positive_are_noticed():
    """If different items become positive while the share of positives stays the same, most sessions notice that pushed
    items are positive less often and other items more often."""
    changes = [drift.change(*turned(600, seed, True), ROUNDS, ROUNDS) for seed in range(200)]
    noticed = [each for each in changes if each and len(each.before) == 2]
    assert len(noticed) > 0.6 * 200
    for (pushed, others), (new_pushed, new_others) in ((each.before, each.after) for each in noticed):
        assert new_pushed < pushed
        assert new_others > others


def test_the_steps_are_those_of_the_formulas():
    """The shares of positives before and after a split of the stream, and their differences in standard errors, equal
    the results of the plain implementation (naive.py)."""
    positive, pushed, chance, rounds, pushes = turned(400, 0, True)
    parts = positive, pushed, 1 / chance
    steps = np.array([drift._of_items(*parts, rounds, pushes), *drift._of_sides(*parts)])
    for split in (100, 200, 300):
        expected = np.array(share_steps(positive, pushed, chance, rounds, pushes, split))
        assert steps[:, :, split] == pytest.approx(expected)


def test_an_alarm_of_answers_stays():
    answers = checked(0.2, 400, 0, factor=3)
    seen = []
    for streamed in range(0, ROUNDS + 1, 50):
        size = int(np.sum(answers[3][1:] <= streamed))
        now = (part[: size + (part.size > answers[0].size)] for part in answers)
        seen.append(drift.change(*now, ROUNDS, streamed))
    noticed = next(k for k, each in enumerate(seen) if each)
    assert 50 * noticed in (ROUNDS * 3 // 4, ROUNDS)
    assert {seen[-1]} == {*seen[noticed:]}


def test_longer_streams_than_planned_are_looked_at_more_rarely():
    """After the planned rounds, the test is repeated at 3/2, 2, 3, 4, ... times their number, with a rising limit."""
    looks = [(ends[-1], limit) for ends, limit in drift._looks(100, 800)]
    assert [50, 75, 100, 150, 200, 300, 400, 600, 800] == [end for end, _ in looks]
    assert [drift.LIMIT] * 3 == [limit for _, limit in looks[:3]]
    assert np.exp(-(np.array([limit for _, limit in looks[2::2]]) ** 2) / 2) * drift.RARER ** np.arange(
        4
    ) == pytest.approx(np.exp(-(drift.LIMIT**2) / 2))


@pytest.mark.parametrize("label", [False, True])
def test_without_both_kinds_of_answers_there_is_no_alarm(label):
    none = np.zeros(0)
    assert drift.change(none > 0, none > 0, none, np.zeros(1), np.zeros(1), ROUNDS, ROUNDS) is None
    _, pushed, chance, rounds, pushes = checked(0.5, 100, 0)
    assert drift.change(np.full(100, label), pushed, chance, rounds, pushes, ROUNDS, ROUNDS) is None


@pytest.mark.parametrize("silent", range(4))
def test_a_quarter_without_answers_is_no_obstacle(silent):
    positive, pushed, chance, rounds, pushes = checked(0.1, 400, 0, factor=8)
    quarter = (rounds[1:] - 1) // (ROUNDS // 4)
    kept = quarter != silent
    later = np.append(True, kept)
    changed = drift.change(positive[kept], pushed[kept], chance[kept], rounds[later], pushes[later], ROUNDS, ROUNDS)
    assert changed.after > changed.before


def test_one_answer_is_no_change():
    """After many negative answers, a single positive one raises no alarm if it is the only answer in its part of the
    stream."""
    rounds = np.array([*range(101), ROUNDS * 3 // 5])
    positive = np.append(np.zeros(100, bool), True)
    chance = np.full(101, 0.1)
    assert drift.change(positive, ~positive, chance, rounds, rounds, ROUNDS, ROUNDS) is None
    assert drift.change(positive, positive & False, chance, rounds, 0 * rounds, ROUNDS, ROUNDS) is None
