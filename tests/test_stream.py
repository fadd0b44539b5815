"""The kernel against its dense twin, and the promises of the stream."""

import re
import threading

import naive
import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from oal_engine import draws, learners, query_rules, rows, stream
from oal_engine.learners import LEARNERS, is_multiclass
from oal_engine.query_rules import QUERY_RULES

PAIRS = [(learner, rule) for rule in QUERY_RULES for learner in query_rules.partners(rule)]


def data(seed=0, n=120, d=7, huge=1e3):
    """Rows of very different size: ordinary, tiny, huge, repeated, with one feature, and zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    X /= np.maximum(1e-9, np.linalg.norm(X, axis=1, keepdims=True))
    X[::13] *= 1e-9
    X[5::29] *= huge
    X[7::17] = X[6]
    X[9::31] = np.eye(d)[3]
    X[11::19] = 0
    y = np.where(X @ rng.normal(size=d) + 0.3 * rng.normal(size=n) > 0.5, 1, -1)
    return X, y, rng.permutation(n)


def labels_for(learner, y):
    """The labels for a learner: those given, or for a multi-class one four classes out of them."""
    return np.where(y > 0, 2, 1 + np.arange(y.size) % 5 % 4) if is_multiclass(learner) else y


def run(X, y, order, learner, rule, values=(), rule_values=(), theta=0.0, rho=0.0, ratio=1.0, **options):
    table = rows.as_rows(X)
    return stream.replay(
        table,
        y,
        order,
        learners.build(learner, table.columns, values, 4 * is_multiclass(learner)),
        query_rules.build(rule, learner, rule_values),
        stream.objective(theta, rho, ratio),
        log=True,
        **options,
    )


def assert_twins(X, y, order, learner, rule, values=(), rule_values=(), matrix=np.asarray, **options):
    y, d = labels_for(learner, y), X.shape[1]
    many = is_multiclass(learner)
    twin = naive.MulticlassLearner(learner, d, 4, **dict(values)) if many else naive.Learner(learner, d, **dict(values))
    counts, questions = naive.replay(X, y, order, twin, rule, rule_values, **options)
    ours = run(matrix(X), y, order, learner, rule, values, rule_values, **options)
    assert [t for t, _, _ in questions] == list(ours.log[:, 0])
    assert counts.tolist() == ours.counts.tolist()
    np.testing.assert_allclose(ours.log, np.array(questions).reshape(-1, 3), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(learners.weights(ours.learner).T, twin.w, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("learner", "rule"), PAIRS)
def test_every_pair_equals_its_dense_twin(learner, rule):
    """Every learner with every rule asks the same rounds and learns the same weights as the textbook formulas."""
    X, y, order = data(huge=3 if "sacog" in learner else 1e3)  # Gram-Schmidt magnifies rounding by the largest row
    assert_twins(X, y, order, learner, rule, matrix=csr_array)
    assert_twins(X, y, order, learner, rule, matrix=csr_array, rho=4.0, theta=0.05, budget=40, seed=3, averaged=True)


@pytest.mark.parametrize(
    ("learner", "rule"),
    [
        *((name, "symmetric") for name in LEARNERS),
        *(("perceptron", rule) for rule in query_rules.QUERY_RULES if "perceptron" in query_rules.partners(rule)),
        ("acog-ii", "variance"),
        ("arow", "variance"),
        ("acog-ii-diag", "variance"),
        ("ada-md", "discriminative"),
    ],
)
def test_dense_rows_equal_the_twin(learner, rule):
    """Dense rows give what sparse rows give: the formulas of the twin."""
    X, y, order = data(seed=1, huge=3 if "sacog" in learner else 1e3)
    assert_twins(X, y, order, learner, rule, seed=5, budget=60)


PARAMETERS = [
    ("pa-i", "asymmetric", {"C": 0.01}, {"delta_plus": 2, "delta_minus": 0.01}),
    ("cspaa", "random", {"C": 20}, {"q": 0.5}),
    ("acog-i", "variance", {"eta": 0.3, "gamma": 5}, {"delta_plus": 0.01, "delta_minus": 1}),
    ("acog-ii-diag", "variance", {"eta": 0.1, "gamma": 0.2}, {"delta_plus": 1, "delta_minus": 0.001}),
    ("arow", "variance", {"r": 0.1}, {"delta_plus": 0.5}),
    ("ada-da", "discriminative", {"eta": 0.2, "delta": 0.1}, {"b": 0.01, "a": 1}),
    ("ada-md", "discriminative", {"eta": 3, "delta": 5}, {"a": 0}),
    ("perceptron", "margin", {}, {"tau": 0.7}),
    ("m-pa-i", "symmetric", {"C": 0.03}, {"delta": 0.5}),
    ("m-pa-ii", "margin", {"C": 3}, {"tau": 0.4}),
    ("m-ada-da", "discriminative", {"eta": 0.2, "delta": 0.1}, {"b": 0.01, "a": 1}),
    ("m-ada-md", "discriminative", {"eta": 3, "delta": 5}, {"a": 0}),
]


@pytest.mark.parametrize(("learner", "rule", "values", "rule_values"), PARAMETERS)
def test_parameters_reach_the_formulas(learner, rule, values, rule_values):
    """Parameters away from their defaults agree with the twin under an unknown rho with unequal metric weights."""
    X, y, order = data(seed=2)
    assert_twins(X, y, order, learner, rule, values, rule_values, matrix=csr_array, ratio=0.25, seed=9)


def test_a_zero_row_changes_nothing():
    """A row of zeros predicts positive, or the first class, and leaves the weights alone, whatever its label."""
    for name in LEARNERS:
        many = is_multiclass(name)
        for label in (1, 4) if many else (-1, 1):
            result = run(np.zeros((4, 3)), np.full(4, label), np.arange(4), name, "all")
            assert result.counts[(0, label, 1) if many else (1, label + 1, 1)] == 4
            assert not learners.weights(result.learner).any()


def test_draws_are_pure():
    """The draw of a round depends on the seed and the round alone, and fills [0, 1) evenly."""
    ours = np.array([draws.draw(7, t) for t in range(2000)])
    assert ours.tolist() == [naive.draw(7, t) for t in range(2000)]
    assert abs(ours.mean() - 0.5) < 0.02
    assert ours.min() >= 0
    assert ours.max() < 1
    assert np.histogram(ours, 10, (0, 1))[0].min() > 150


def test_questions_one_by_one_equal_a_replay():
    """Stopping at every question and learning its answer gives the bits of a replay, as a session needs."""
    X, y, order = data(seed=4)
    table, labels = rows.as_rows(csr_array(X)), rows.read_only(y, np.int8)
    order = stream.checked_order(order, table)
    for learner, rule in [("pa-i", "asymmetric"), ("acog-ii", "variance"), ("ada-da", "discriminative")]:
        whole = run(csr_array(X), y, order, learner, rule, seed=11, budget=30, averaged=True)
        one, asks = learners.build(learner, table.columns), query_rules.build(rule, learner)
        goal, mean = stream.objective(), stream.average(one, True)
        counts, spent, t = np.zeros((2, 3, 2), np.int64), 0, 0
        while True:
            q = stream.until_query(table, labels, order, one, asks, goal, 11, t, order.size, spent < 30, counts)
            if q.t == order.size:
                break
            spent += 1
            stream.learn(table, order, one, asks, goal, mean, q, y[order[q.t]], spent == 30)
            t = q.t + 1
        assert spent == whole.queried
        assert counts.tolist() == whole.counts.tolist()
        assert [a.tobytes() for a in one if isinstance(a, np.ndarray)] == [
            a.tobytes() for a in whole.learner if isinstance(a, np.ndarray)
        ]


def test_marks_cut_the_stream_without_changing_it():
    """Counts kept at many rounds end where one run ends, before and after the budget is spent."""
    X, y, order = data(seed=5)
    whole = run(X, y, order, "pa-i", "asymmetric", budget=20)
    parts = run(X, y, order, "pa-i", "asymmetric", budget=20, marks=[1, 10, 50, 110, 120])
    assert whole.counts.tolist() == parts.counts.tolist()
    assert parts.curve.sum((1, 2, 3)).tolist() == [1, 10, 50, 110, 120]
    assert parts.log.tolist() == whole.log.tolist()


def test_threads_give_the_same_bits():
    """Replays side by side in threads equal a replay alone: they share rows and nothing else."""
    X, y, order = data(seed=6)
    table, results = rows.as_rows(X), {}

    def work(k):
        results[k] = run(table, y, order, "acog-ii", "variance", seed=2).learner.w.tobytes()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(results.values()) == {run(table, y, order, "acog-ii", "variance", seed=2).learner.w.tobytes()}


def test_a_budget_is_never_exceeded():
    """No more labels are asked than the budget allows, and none with a budget of zero."""
    X, y, order = data()
    assert [run(X, y, order, "pa-i", "all", budget=b).queried for b in (0, 1, 17, 500)] == [0, 1, 17, 120]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: learners.build("pa-i", 3, {"C": -1}), "C of pa-i must be > 0. Got -1."),
        (lambda: learners.build("pa-i", 3, {"c": 1}), "pa-i has no parameter c. It has C."),
        (
            lambda: query_rules.build("asymmetric", "pa", {"delta_plus": "x"}),
            "delta_plus of asymmetric must be > 0. Got x.",
        ),
        (lambda: query_rules.build("random", "pa", {"q": 1.5}), "q of random must be > 0 and <= 1. Got 1.5."),
        (
            lambda: query_rules.build("variance", "pa"),
            "rule variance works with the learners arow, cw, acog-i, acog-ii, acog-i-diag, acog-ii-diag, "
            "sacog-i, sacog-ii, ssacog-i, ssacog-ii. Got pa.",
        ),
        (
            lambda: query_rules.build("discriminative", "arow"),
            "rule discriminative works with the learners ada-da, ada-md, m-ada-da, m-ada-md. Got arow.",
        ),
        (lambda: stream.objective(rho=-2), "rho must be > 0, or 0 for the Laplace estimate. Got -2."),
        (
            lambda: run(np.eye(3), [1, 0, 1], np.arange(3), "pa", "all"),
            "a replay needs a label -1 or 1 for every row. Got 0.",
        ),
        (
            lambda: run(np.eye(3), [1, 1, 1], [0, 3], "pa", "all"),
            "an order must hold row numbers from 0 to 2. Got 0 to 3.",
        ),
        (
            lambda: run(np.eye(3), [1, 2, 5], np.arange(3), "m-pa", "all"),
            "a replay needs a label 1 to 4 for every row. Got 5.",
        ),
        (
            lambda: learners.build("pa", 3, classes=4),
            "4 classes need one of the learners m-perceptron, m-pa, m-pa-i, m-pa-ii, m-ada-da, m-ada-md. Got pa.",
        ),
        (lambda: learners.build("m-pa", 3, classes=1), "m-pa needs 2 classes or more. Got 1."),
        (
            lambda: query_rules.build("asymmetric", "m-pa"),
            f"rule asymmetric works with the learners {', '.join(k for k in LEARNERS if k[:2] != 'm-')}. Got m-pa.",
        ),
        (lambda: rows.as_rows([[1, float("nan")]]), "rows must be finite numbers. Got NaN or infinity."),
    ],
)
def test_errors_name_what_is_allowed_and_what_came(call, message):
    """A wrong value is refused in one sentence."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()


def test_a_full_covariance_over_the_limit_is_refused_with_the_ways_out(monkeypatch):
    """A learner that would not fit into memory says how much it needs and what to do instead."""
    with pytest.raises(
        ValueError, match=r"20,000 x 20,000 numbers: 3.0 GiB, over the limit of 2.0 GiB. Use a diagonal"
    ):
        learners.build("acog-ii", 20_000)
    monkeypatch.setenv("OAL_MEMORY_LIMIT", "1000")
    with pytest.raises(ValueError, match="raise OAL_MEMORY_LIMIT"):
        learners.build("arow", 12)
    assert learners.build("acog-ii-diag", 20_000).s.size == 20_000


@pytest.mark.parametrize(("dense", "sparse"), [("sacog-i", "ssacog-i"), ("sacog-ii", "ssacog-ii")])
def test_the_sparse_sketch_equals_the_sketch(dense, sparse):
    """SSACOG and SACOG ask the same of 2,000 rounds, with margins and weights equal to 1e-8."""
    rng = np.random.default_rng(8)
    X = random_array((2000, 60), density=0.2, rng=rng).toarray()
    X /= np.maximum(1e-9, np.linalg.norm(X, axis=1, keepdims=True))
    y = np.where(X @ rng.normal(size=60) > 0.3, 1, -1)
    one, other = (run(csr_array(X), y, np.arange(2000), name, "variance", {"eta": 0.1}) for name in (dense, sparse))
    assert one.queried > 200
    np.testing.assert_allclose(other.log, one.log, rtol=0, atol=1e-8)
    np.testing.assert_allclose(learners.weights(other.learner), one.learner.w, rtol=0, atol=1e-8)
