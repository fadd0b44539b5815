"""Metrics are estimated without true labels: unbiased, with intervals that cover the truth, or not at all if there are
too few answers."""

import re
from itertools import product

import numpy as np
import pytest

from oal_engine import datasets
from oal_engine.kernel import metrics
from oal_engine.kernel.estimates import BINARY, jeffreys, of_classes, side, whole_items, windows
from oal_engine.sessions.insights.estimates import FORECASTS, curve, forecast, look, of_session
from oal_engine.sessions.look_back import Trace
from oal_engine.sessions.settings import SKIP
from oal_engine.store import Store
from tests.harness.sessions import begin as begin_any
from tests.harness.sessions import label_until_the_end, say, stream_of, take_back, truth

ITEMS = 500
CURIOUS = {"parameters": {"delta": 5}}


def begin(store, data="sparse", **more):
    """Begin a session with an algorithm that asks many questions, unless `more` names another algorithm."""
    return begin_any(store, data, **(({} if "algorithm" in more else CURIOUS) | more))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A database with one stream as two data sets: with two classes, and with four."""
    store = Store(tmp_path_factory.mktemp("estimates") / "studio.db")
    items = stream_of(ITEMS)[1]
    items.y[::5] *= -1  # so that some items that are not pushed are positive
    datasets.add(store, "sparse", datasets.table(items), "made.npz")
    items.classes, items.y = tuple("abcd"), np.where(items.y > 0, 2, 1 + np.arange(ITEMS) % 5 % 4)
    datasets.add(store, "classes", datasets.table(items), "made.npz")
    yield store
    store.close()


def test_weights_are_right_on_average_over_everything_that_can_happen():
    """Inverse-probability weights are unbiased, even if chances depend on earlier questions: averaged over all possible
    draws in a small stream, they give the mean number of unasked items, and of positives among them."""
    y, total = np.array([1, -1, 1, -1, 1, 1]), np.zeros(2)
    for asked in product([False, True], repeat=y.size):
        likely, chances, missed = 1.0, [], np.zeros(2)
        for t, taken in enumerate(asked):
            pi = 0.3 + 0.1 * sum(asked[:t]) if t % 2 else 0.9 - 0.1 * sum(y[:t][list(asked[:t])] > 0)
            likely *= pi if taken else 1 - pi
            chances += [pi] * taken
            missed += (not taken) * np.array([1, y[t] > 0])
        if chances:
            chance, label = np.array(chances), y[list(asked)]
            estimate = side(label, chance, np.ones(label.size, bool), np.array([label.size]), np.array([y.size]))
            weight = (1 / chance - 1).sum()
            total += likely * (np.array([weight, weight * estimate.rate[0]]) - missed)
            assert missed[0] == estimate.unasked[0]
        else:
            total -= likely * missed
    np.testing.assert_allclose(total, 0, atol=1e-12)


def test_intervals_of_a_few_unasked_items_end_at_whole_items():
    """The interval of a share contains the shares of whole items next to its ends, so that none or all of a few unasked
    items are not excluded. Ends that are whole items stay."""
    low, high = whole_items(
        np.array([3.0, 3, 100, 0.4]), np.array([0.1, 1 / 3, 0.255, 0]), np.array([0.8, 2 / 3, 0.5, 0.7])
    )
    np.testing.assert_allclose(low, [0, 1 / 3, 0.25, 0])
    np.testing.assert_allclose(high, [1, 2 / 3, 0.5, 1])


def test_a_budget_is_forecast_in_a_sentence():
    """If a budget is too small for estimates, its forecast names a budget that is usually enough. For larger budgets
    the forecast is the expected half-width of the interval, which never grows with the budget."""
    assert "99 labels are too few to show how good the model is; 200 are usually enough." == forecast(99, False)
    assert "With 150 labels F1 is sometimes known to within ± 0.19." == forecast(150, False)
    assert "With 1,000 labels accuracy is usually known to within ± 0.03." == forecast(1000, True)
    for multiclass, steps in FORECASTS.items():
        widths = [half for _, half in steps.values()]
        assert widths == sorted(widths, reverse=True)
        assert forecast(min(steps) - 1, multiclass).startswith(f"{min(steps) - 1} labels are too few")


def simulated(seed, share=0.15, chance=0.1, n=4000):
    """Estimate the metrics of a random stream. Return intervals, whether they would be shown, and the true counts."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < share, 1, -1)
    pushed = rng.random(n) < np.where(y > 0, 0.7, 0.1)
    pi = np.where(pushed, 2 * chance, chance * (0.5 + rng.random(n)))
    asked = rng.random(n) < pi
    counts = np.zeros((2, 3, 2), np.int64)
    np.add.at(counts, (pushed.astype(int), y + 1, asked.astype(int)), 1)
    size, rounds, pushes = np.array([asked.sum()]), np.array([n]), np.array([pushed.sum()])
    intervals, known, _ = windows(pushed[asked], y[asked], pi[asked], size, rounds, pushes, metrics.Weights())
    return intervals, all(each[0] for each in known.values()), counts


def test_intervals_cover_the_truth():
    """In 400 random streams, the interval of every metric covers the truth in 91 to 99 % of cases, and the estimates
    are right on average."""
    covered, off = {}, {}
    for seed in range(400):
        intervals, enough, counts = simulated(seed)
        assert enough
        for name in metrics.EVALUATIONS:
            real = metrics.evaluate(counts, name)
            for metric in BINARY:
                value, low, high = intervals[name][metric][:, 0]
                assert 0 <= low <= value <= high <= 1
                covered.setdefault((name, metric), []).append(low <= real[metric] <= high)
                off.setdefault((name, metric), []).append(value - real[metric])
    shares = {key: np.mean(values) for key, values in covered.items()}
    assert 0.91 <= min(shares.values()) <= max(shares.values()) <= 0.99
    assert max(abs(np.mean(values)) for values in off.values()) < 0.01


def test_answers_known_for_sure_leave_no_doubt():
    """If every item was asked about, each metric is exact and its interval is a point."""
    y, pushed = np.array([1, -1, 1, -1] * 20), np.array([1, 1, 0, 0] * 20, bool)
    size = np.array([80])
    intervals, known, _ = windows(pushed, y, np.ones(80), size, size, np.array([40]), metrics.Weights())
    assert not any(each[0] for each in known.values())  # there is nothing to estimate
    for name, f1, sum_ in (("push", 0.5, 0.5), ("push_query", 2 / 3, 0.5)):
        assert intervals[name]["f1"][:, 0].tolist() == pytest.approx([f1] * 3)
        assert intervals[name]["sum"][:, 0].tolist() == pytest.approx([sum_] * 3)


def test_a_skip_is_an_item_that_nobody_can_label():
    """If a third of the answers are skips, a third of the unasked items is left out, and the estimated share of
    positives stays the same."""
    label, chance, own = np.array([1, -1, 0] * 20), np.full(60, 0.2), np.ones(60, bool)
    at, passed = np.array([60]), np.array([300])
    with_skips, without_skips = (
        side(label, chance, own, at, passed),
        side(label[label != 0], chance[:40], own[:40], at - 20, passed),
    )
    assert (160, 260) == (with_skips.unasked[0], without_skips.unasked[0])
    assert (0.5, 20, 20) == (with_skips.rate[0], with_skips.positives[0], with_skips.negatives[0])
    assert with_skips.rate[0] == without_skips.rate[0]
    assert with_skips.low[0] == pytest.approx(without_skips.low[0], abs=1 / 160)  # each is a whole number of items


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [{}, {"audit": 0.3}, {"audit": 0.4, "pace": 0.9, "audit_trains": False}, {"algorithm": "Q_D", "audit": 0.5}]
)
def test_a_session_is_estimated_from_its_log_alone(store, more):
    """The estimates of a session are within their intervals, and near the true metrics of the rounds that they cover.
    The session's trace, and the last point of its curve, give the same estimates."""
    opened = begin(store, budget=200, shuffled=True, seed=3, **more)
    label_until_the_end(opened)
    estimate, trace = of_session(opened), Trace(store, opened.id)
    window = [e.round for e in opened.history if e.audit or opened.settings.rule != "margin"][-1]
    assert (None, window) == (estimate.reason, estimate.closed)
    counts = next(counts for rounds, counts in trace.state.trail if rounds == window + 1)
    for name, values in estimate.metrics.items():
        real = opened.evaluate(counts, name)
        assert values.keys() == set(BINARY)
        for metric, guess in values.items():
            assert 0 <= guess.low <= guess.value <= guess.high <= 1
            assert abs(guess.value - real[metric]) < 0.25
    assert estimate == of_session(trace)
    points = curve(opened)
    assert points == curve(trace)
    assert (window + 1, estimate.metrics) == (points[-1][0], points[-1][2])
    assert len(points) <= 60
    assert [labels for _, labels, _ in points] == sorted(labels for _, labels, _ in points)


def test_a_correction_and_an_undo_count_as_they_stand(store):
    """Estimates use a corrected label with the original chance of its question; an undo, or correcting the label back,
    restores them."""
    opened = begin(store, budget=300, audit=0.3)
    while of_session(opened).reason:
        say(opened, truth(opened))
    before, entry = of_session(opened), opened.history[-2]
    say(opened, truth(opened))
    take_back(opened)
    assert before == of_session(opened)
    opened.correct("another look", entry.id, -entry.label)
    after = of_session(opened)
    assert before.positives - entry.label == after.positives
    opened.correct("and back", entry.id, entry.label)
    assert before == of_session(opened)


@pytest.mark.slow
@pytest.mark.parametrize("data", ["sparse", "classes"])
def test_the_last_quarter_is_estimated_from_its_own_answers(store, data):
    many = {"algorithm": "MRPA-I", "parameters": {"q": 0.5}} if data == "classes" else {"parameters": {"delta": 2}}
    opened = begin(store, data, budget=400, shuffled=True, seed=3, **many)
    assert look(opened)[1] is None
    label_until_the_end(opened)
    late, trail = look(opened)[1], dict(opened.state.trail)
    assert late == look(Trace(store, opened.id))[1]
    assert (of_session(opened), late, curve(opened)) == look(opened)
    assert ITEMS * 3 // 4 <= late.start < ITEMS * 3 // 4 + 40
    own = [entry for entry in opened.log if entry.round >= late.start]
    assert late.positives == sum(entry.mistake if opened.multiclass else entry.label > 0 for entry in own)
    real = opened.evaluate(trail[ITEMS] - trail[late.start], "push")
    assert late.available
    for metric in late.available:
        guess = late.metrics["push"][metric]
        assert guess.low <= real[metric] <= guess.high


def test_the_window_is_open_while_there_is_budget(store):
    """The estimates of an open session cover the stream up to its last answer. If the stream ends with labels left,
    they cover the whole stream."""
    opened = begin(store, budget=1000)
    while opened.place.progress.labels < 150:
        say(opened, truth(opened))
    rounds, labels, _ = curve(opened)[-1]
    assert (None, 150) == (of_session(opened).closed, labels)
    assert store.answers(opened.id)[-2]["round"] + 1 == rounds
    label_until_the_end(opened)
    assert (ITEMS, None) == (curve(opened)[-1][0], of_session(opened).closed)


@pytest.mark.parametrize(("more", "labels", "sentence"), [
    ({}, [], "No estimate yet. It needs 5 more positive answers."),
    ({}, [SKIP] * 30, "Every item was asked: there is nothing to estimate."),
    ({"algorithm": "Q_D"}, [1] * 25, "The rule margin gives some items no chance of being asked"),
])  # fmt: skip
def test_without_an_estimate_there_is_a_reason(store, more, labels, sentence):
    opened = begin(store, budget=200, **more)
    for label in labels:
        say(opened, label)
    estimate = of_session(opened)
    assert sentence in estimate.reason
    assert [] == curve(opened)
    assert {"push": dict.fromkeys(BINARY), "push_query": dict.fromkeys(BINARY)} == estimate.metrics


def test_each_side_needs_positives_of_its_own(store):
    """Without positive answers about items that were not pushed, only precision is estimated."""
    opened = begin(store, budget=200)
    while opened.place.progress.answers[1] < 20:
        say(opened, opened.place.asked.predicted)
    estimate = of_session(opened)
    missing = "The others need 1 more positive answer on an item not predicted as positive."
    assert f"Only precision is estimated yet. {missing}" == estimate.reason
    assert ["precision"] == estimate.available


def test_the_accuracy_of_classes_is_estimated_too(store):
    """A session of K classes gets an estimated accuracy near the truth, or a reason while it has too few answers."""
    opened = begin(store, "classes", algorithm="MRPA-I", budget=200, parameters={"q": 0.5})
    assert (
        "No estimate yet. It needs 20 more answers on wrongly predicted items and 5 more answers on "
        "rightly predicted items." == of_session(opened).reason
    )
    label_until_the_end(opened)
    estimate = of_session(opened)
    assert estimate.reason is None
    for name in metrics.EVALUATIONS:
        guess = estimate.metrics[name]["accuracy"]
        assert guess.low <= guess.value <= guess.high
        assert abs(guess.value - opened.evaluate(opened.place.counts, name)["accuracy"]) < 0.15
    assert estimate.metrics == curve(opened)[-1][2]


def accuracy(right, chance, n):
    """Estimate a multi-class accuracy over `n` items. right: for each answered item, whether its prediction was right.
    Return (value, low, high), and whether the accuracy is shown."""
    intervals, known, _ = of_classes(right, np.ones(right.size), chance, np.array([right.size]), np.array([n]))
    return intervals["push"]["accuracy"][:, 0], bool(known["accuracy"][0])


def test_an_accuracy_from_few_answers_is_as_unsure_as_student_says():
    """With an effective sample size of 24, Student's t widens the large-sample interval by a factor of 2.069 /
    1.960."""
    right, chance, at, n = np.array([True] * 12 + [False] * 13), np.full(25, 0.04), np.array([25]), 1000
    _, low, high = accuracy(right, chance, n)[0]
    of_many = side(np.where(right, -1, 1), chance, np.ones(25, bool), at, np.array([n]))
    ends = jeffreys(of_many.rate, of_many.number)
    width = (ends[1] - ends[0])[0] * of_many.unasked[0] / n
    assert 24 == pytest.approx(of_many.number[0])
    assert 2.069 / 1.960 == pytest.approx((high - low) / width, rel=0.01)


def test_the_interval_of_an_accuracy_covers_the_truth():
    """In 400 streams whose asking chances correlate with right predictions, 93 to 99 % of intervals cover the truth."""
    covered = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        sure = rng.random(1000) < 0.6
        right, chance = rng.random(1000) < np.where(sure, 0.8, 0.3), np.where(sure, 0.05, 0.4)
        asked = rng.random(1000) < chance
        (value, low, high), enough = accuracy(right[asked], chance[asked], 1000)
        assert 0 <= low <= value <= high <= 1
        if enough:
            covered.append(low <= right.mean() <= high)
    assert len(covered) > 300
    assert 0.93 <= np.mean(covered) <= 0.99


@pytest.mark.parametrize("right", [True, False])
def test_the_rarer_predictions_must_be_worth_enough_for_what_was_not_asked(right):
    """No accuracy is shown if all right (or all wrong) predictions were asked about with chances near 1: however many
    they are, they say too little about the items that were not asked about."""
    kind = np.array([right] * 40 + [not right] * 40)
    shown = [accuracy(kind, np.where(kind == right, 0.1, chance), 2000)[1] for chance in (0.97, 0.1)]
    assert [False, True] == shown


def test_an_accuracy_waits_for_right_predictions(store):
    """An accuracy needs at least five answers on rightly predicted items, and enough weight of these answers. Until
    then the reason says how many are missing."""
    opened = begin(store, "classes", algorithm="MRPA-I", budget=200, parameters={"q": 0.5})
    for _ in range(30):
        say(opened, opened.place.asked.predicted % 4 + 1)
    assert "No estimate yet. It needs 5 more answers on rightly predicted items." == of_session(opened).reason
    for _ in range(5):
        say(opened, opened.place.asked.predicted)
    assert re.fullmatch(
        r"No estimate yet. It needs about \d+ more answers on rightly predicted items\.", of_session(opened).reason
    )
    assert [] == curve(opened)
    for _ in range(10):
        say(opened, opened.place.asked.predicted)
    assert of_session(opened).reason is None
