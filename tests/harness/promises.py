"""The promises of every learner and every rule, as functions that check a learner and a rule given by name.

They run over everything that is registered: each learner with the rule `symmetric`, and each rule with one binary and
one multi-class learner that it works with (`fitting`).
"""

import io
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from multiprocessing import get_context
from unittest.mock import patch

import numpy as np
import pytest
from numba import njit
from scipy.sparse import csr_array

from oal_engine.kernel import jit, learners, metrics, query_rules, rows, spending, stacks, stream
from oal_engine.kernel.learners import LEARNERS, is_multiclass
from oal_engine.kernel.parameters import parameters
from oal_engine.kernel.query_rules import QUERY_RULES
from tests.harness import naive

CLASSES, WIDTH = 4, 100_000
SURELY = {"delta": 1e308}  # symmetric asks about every margin up to 1e300
MARGINS = [0.0, 5e-324, 1e-300, 1e-100, 1e-9, 0.01, 0.1, 0.5, 1.0, 3.0, 1e3, 1e9, 1e100, 1e200, 1e300]

# Units of the parameters as powers of the rows' unit, if margins w.x have no unit; then for the adaptive learners.
UNITS = {"C": -2, "bias": 1, "eta": -2, "gamma": 2, "r": 2, "a": 2}
ADAPTIVE_UNITS = {"eta": -1, "delta": 1}

EXCEPTIONS = {
    ("rows_in_order_are_rows_visited_in_that_order", "dual"): "its state holds the numbers of rows",
    ("rows_in_order_are_rows_visited_in_that_order", "pool"): "its state holds the numbers of rows",
    ("rows_in_order_are_rows_visited_in_that_order", "pool-f1"): "its state holds the numbers of rows",
    ("rows_in_order_are_rows_visited_in_that_order", "m-dual"): "its state holds the numbers of rows",
    ("rows_of_one_feature_equal_the_twin", "m-dual"): "they repeat, and a step makes the scores of wrong classes alike",
    ("a_zero_row_changes_no_prediction", "dual"): "a row of zeros has its bias",
    ("a_zero_row_changes_no_prediction", "pool"): "a row of zeros has its bias",
    ("a_zero_row_changes_no_prediction", "pool-f1"): "a row of zeros has its bias",
    ("a_zero_row_changes_no_prediction", "m-dual"): "a row of zeros has its bias",
    ("another_unit_of_the_rows_changes_no_prediction", "pool"): "its variances start at 1 in any unit",
    ("another_unit_of_the_rows_changes_no_prediction", "pool-f1"): "its variances start at 1 in any unit",
    ("another_unit_of_the_rows_changes_no_prediction", "paum"): "its margins rho and 1 have no unit",
    **{
        ("another_unit_of_the_rows_changes_no_prediction", name): "its variances start at 1 in any unit"
        for name in ("cw-variance", "cw-exact")
    },
}


def data(seed=0, n=120, d=7, huge=1e3):
    """Return rows of different kinds (ordinary, tiny, huge, repeated, one feature, zero), their labels and an item
    order."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    X /= np.maximum(1e-9, np.linalg.norm(X, axis=1, keepdims=True))
    X[::13] *= 1e-9
    X[5::29] *= huge
    X[7::17] = X[6]
    X[9::31] = np.eye(d)[min(3, d - 1)]
    X[11::19] = 0
    y = np.where(X @ rng.normal(size=d) + 0.3 * rng.normal(size=n) > 0.5, 1, -1)
    return X, y, rng.permutation(n)


def labels_for(learner, y):
    """Return labels that fit a learner: `y` itself, or four classes made from it for a multi-class learner."""
    return np.where(y > 0, 2, 1 + np.arange(y.size) % 5 % CLASSES) if is_multiclass(learner) else y


def data_for(learner, **options):
    """Return rows, labels and an order that suit a learner. Sketches get smaller rows: the largest one sets how much
    Gram-Schmidt magnifies rounding. m-dual gets no repeated rows: they tie its wrong classes, so that rounding decides.
    cw-exact gets separable labels: with others its variances leave the range of floats."""
    X, y, order = data(**options | ({"huge": 3} if "sacog" in learner else {}))
    if learner == "cw-exact":
        y = np.where(X @ np.arange(1, X.shape[1] + 1) > 0, 1, -1)
    if learner == "m-dual":
        X *= np.random.default_rng(1).uniform(0.9, 1.1, X.shape)
    return X, labels_for(learner, y), order


def built(learner, d, values=()):
    """Build a fresh learner for rows with `d` features."""
    return learners.build(learner, d, values, CLASSES * is_multiclass(learner))


def mixed(X):
    """Convert a table to mixed rows: the first half of its columns is sparse, the second a dense block of float32."""
    first = X.shape[1] // 2
    return rows.mixed_rows(rows.as_rows(csr_array(X[:, :first])), X[:, first:])


def run(X, y, order, learner, rule, values=(), rule_values=(), start=None, theta=0.0, rho=0.0, ratio=1.0, **options):
    """Replay a stream with a fresh learner, or with the learner `start`. The result has the log."""
    table = rows.as_rows(X)
    return stream.replay(
        table,
        y,
        order,
        start or built(learner, table.columns, values),
        query_rules.build(rule, learner, rule_values),
        stream.objective(theta, rho, ratio),
        log=True,
        **options,
    )


def assert_twins(X, y, order, learner, rule, values=(), rule_values=(), matrix=csr_array, plan=None, **options):
    """Check that the engine asks in the same rounds and learns the same weights as the plain implementation (naive.py).
    plan: arguments of a plan, or None."""
    many, d = is_multiclass(learner), X.shape[1]
    values, rule_values = dict(values), dict(rule_values)
    twin = naive.MulticlassLearner(learner, d, CLASSES, **values) if many else naive.Learner(learner, d, **values)
    own = {name: rule_values[name] for name in ("early", "power") if name in rule_values}
    plans = [naive.Plan(rule, **plan, **own), spending.plan(rule, values=rule_values, **plan)] if plan else [None, None]
    counts, questions = naive.replay(X, y, order, twin, rule, rule_values, plan=plans[0], **options)
    ours = run(matrix(X), y, order, learner, rule, values, rule_values, plan=plans[1], **options)
    assert [t for t, _, _ in questions] == list(ours.log[:, 0])
    assert counts.tolist() == ours.counts.tolist()
    np.testing.assert_allclose(ours.log, np.array(questions).reshape(-1, 3), rtol=1e-7, atol=1e-9)
    weights = ours.learner.w if hasattr(ours.learner, "bias") else learners.weights(ours.learner)
    np.testing.assert_allclose(weights.T, twin.w, rtol=1e-7, atol=1e-9)


def arrays(parts):
    """Return the arrays of a named tuple."""
    return [value for value in parts if isinstance(value, np.ndarray)]


def bits(log, counts, learner):
    """Return a digest of every bit of a run: its questions, its counts and the learner's state."""
    return sha256(b"".join(array.tobytes() for array in (log, counts, *arrays(learner)))).hexdigest()


def digest(learner, rule):
    """Return the digest of a replay with a budget and averaged weights."""
    X, y, order = data_for(learner, seed=4)
    result = run(csr_array(X), y, order, learner, rule, seed=11, budget=30, averaged=True)
    return bits(result.log, result.counts, result.learner)


# Promises of a learner and a rule together


def it_equals_its_dense_twin(learner, rule):
    """The engine asks in the same rounds and learns the same weights as the plain implementation (naive.py)."""
    X, y, order = data_for(learner)
    assert_twins(X, y, order, learner, rule)
    assert_twins(X, y, order, learner, rule, rho=4.0, theta=0.05, budget=40, seed=3, averaged=True)


def rows_of_one_feature_equal_the_twin(learner, rule):
    """The engine gives the results of the plain implementation (naive.py) on a table with a single column."""
    assert_twins(*data_for(learner, d=1), learner, rule)


def a_run_stopped_saved_and_loaded_at_every_question_gives_the_same_bits(learner, rule):
    """A run that saves and loads all its state (without pickle) before each question gives the bits of a replay."""
    X, y, order = data_for(learner, seed=4)
    table, y = rows.as_rows(csr_array(X)), rows.read_only(y, np.int8)
    order = stream.checked_order(order, table)
    one = built(learner, table.columns)
    parts = one, query_rules.build(rule, learner), stream.objective(), stream.average(one, True)
    counts, log, t = metrics.empty(learners.classes(one)), [], 0
    while t < order.size:
        one, asks, goal, mean = parts = [_loaded(part) for part in parts]
        q = stream.until_query(table, y, order, one, asks, goal, 11, t, order.size, len(log) < 30, counts)
        if q.t < order.size:
            log.append((q.t, q.margin, q.probability))
            stream.learn(table, order, one, asks, goal, mean, q, y[order[q.t]], len(log) == 30)
        t = q.t + 1
    assert digest(learner, rule) == bits(np.array(log).reshape(-1, 3), counts, one)


def _loaded(part):
    file = io.BytesIO()
    np.savez(file, **part._asdict())
    file.seek(0)
    with np.load(file, allow_pickle=False) as saved:
        return type(part)(*(saved[name] if saved[name].ndim else saved[name].item() for name in part._fields))


def threads_give_the_same_bits(learner, rule):
    """Replays that run in threads at the same time have the same bits as a replay that runs alone."""
    with ThreadPoolExecutor(4) as threads:
        digests = set(threads.map(lambda _: digest(learner, rule), range(8)))
    assert {digest(learner, rule)} == digests


def another_process_gives_the_same_bits(learner, rule):
    """The same seed gives the same questions, counts and state in a freshly started process."""
    task = other_process().submit(_digest_of, learner, rule, LEARNERS[learner], QUERY_RULES[rule])
    assert digest(learner, rule) == task.result()


@cache
def other_process():
    """Return an executor with one freshly started process, which all promises share."""
    return ProcessPoolExecutor(1, get_context("spawn"))


def _digest_of(learner, rule, *kinds):
    LEARNERS[learner], QUERY_RULES[rule] = kinds
    with compiled_afresh(*kinds):
        return digest(learner, rule)


@contextmanager
def compiled_afresh(*kinds):
    """Disable the disk cache of machine code for classes outside the engine, because no other process could load it."""
    code = jit.machine_code()
    afresh = cache(lambda function: njit(**code.COMMON)(function))
    is_own = all(kind.__module__.partition(".")[0] == "oal_engine" for kind in kinds)
    with patch.object(code, "dispatcher_of", code.dispatcher_of if is_own else afresh):
        yield


def replay(chosen, rho=2.0):
    """Replay the strategy `chosen` over 80 small rows with a budget of 30 labels. Return the result with its log."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(80, 4)) * (rng.random((80, 4)) < 0.8)
    classes = 3 * chosen.multiclass
    y = 1 + np.arange(80) % classes if classes else np.where(X[:, 0] > 0.8, 1, -1)
    table, goal = rows.as_rows(csr_array(X)), stream.objective(rho=chosen.rho or rho)
    return stream.replay(table, y, np.arange(80), *chosen.build(4, classes), goal, budget=30, log=True)


def settings_that_share_a_pass_have_the_bits_of_replays_of_each(learner, rule, matrix=csr_array):
    """If several settings can share a pass over the rows, each counts, asks and learns as in a separate replay."""
    X, y, order = data_for(learner, seed=4)
    table = rows.as_rows(matrix(X))
    if not stacks.share_a_pass(LEARNERS[learner], table):
        return
    for options in ({"budget": 30, "averaged": True}, {}):
        done = stacks.replay_settings(
            table, y, order, [_setting(learner, rule, table.columns, k) for k in range(9)], seed=11, **options
        )
        for k in range(9):
            parts = _setting(learner, rule, table.columns, k)
            alone = stream.replay(table, y, order, *parts, seed=11, **options)
            assert alone.counts.tolist() == done.counts[k].tolist()
            assert alone.queried == done.queried[k]
            for part, stacked in zip(parts, done.parts):
                for array, several in zip(part, stacked):
                    assert np.asarray(array).tobytes() == several[..., k].tobytes()


def _setting(learner, rule, features, k):
    """Return the learner, rule and objective of setting k. Parameters, threshold and class weights depend on k."""

    def values(kind):
        numbers = ((name, spec, spec.default * 0.95**k) for name, spec in parameters(kind).items())
        return {name: max(spec.low, int(value)) if spec.whole else value for name, spec, value in numbers}

    return (
        built(learner, features, values(LEARNERS[learner])),
        query_rules.build(rule, learner, values(QUERY_RULES[rule])),
        stream.objective(theta=0.05 * (k % 2), rho=float(k % 3), ratio=1 + 0.1 * k),
    )


PROMISES = [
    it_equals_its_dense_twin,
    rows_of_one_feature_equal_the_twin,
    threads_give_the_same_bits,
    another_process_gives_the_same_bits,
]


# Promises of a learner


def rows_in_order_are_rows_visited_in_that_order(learner, rule):
    """Sorting the rows by the item order and visiting them from first to last gives the same bits."""
    X, y, order = data_for(learner)
    visited = run(csr_array(X), y, order, learner, rule)
    sorted_ = run(csr_array(X[order]), y[order], np.arange(order.size), learner, rule)
    assert bits(visited.log, visited.counts, visited.learner) == bits(sorted_.log, sorted_.counts, sorted_.learner)


def permuted_columns_permute_the_weights(learner, rule):
    """Permuting the columns of the rows and of the fresh state permutes the weights and changes no question, up to
    rounding."""
    X, y, order = data_for(learner)
    columns = np.random.default_rng(1).permutation(X.shape[1])
    start = _each_array(built(learner, X.shape[1]), lambda array: _along_features(array, columns))
    one, other = (
        run(csr_array(X), y, order, learner, rule),
        run(csr_array(X[:, columns]), y, order, learner, rule, start=start),
    )
    np.testing.assert_allclose(other.log, one.log, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        learners.weights(other.learner), learners.weights(one.learner)[columns], rtol=1e-7, atol=1e-9
    )


def _each_array(parts, change):
    return parts._make(change(value) if isinstance(value, np.ndarray) else value for value in parts)


def _along_features(array, columns):
    for axis, size in enumerate(array.shape):
        if size == columns.size:
            array = array.take(columns, axis)
    return array


def a_column_of_zeros_changes_nothing(learner, rule):
    """A feature that is 0 in every row changes no question and no other weight, and its own weight stays 0. (The
    initial directions of a sketch are set to 0 for this feature.)"""
    X, y, order = data_for(learner)
    narrow, wide = built(learner, X.shape[1]), built(learner, X.shape[1] + 1)
    for small, large in zip(arrays(narrow), arrays(wide)):
        if small.shape[:-1] == large.shape[:-1] and small.ndim == 2:
            large[:, -1] = 0
        large[tuple(map(slice, small.shape))] = small
    with_zeros = csr_array(np.hstack([X, np.ones((len(X), 1))]))
    with_zeros.data[with_zeros.indptr[1:] - 1] = 0  # stored zeros, as in some files
    one, other = run(csr_array(X), y, order, learner, rule), run(with_zeros, y, order, learner, rule, start=wide)
    np.testing.assert_allclose(other.log, one.log, rtol=1e-7, atol=1e-9)
    weights = learners.weights(other.learner)
    np.testing.assert_allclose(weights[:-1], learners.weights(one.learner), rtol=1e-7, atol=1e-9)
    assert not weights[-1].any()


def another_unit_of_the_rows_changes_no_prediction(learner, rule):
    """Scaling the rows by a power of two, and the parameters to match, changes no prediction. The margins keep their
    bits, or are multiplied by the square of the scale (perceptrons, which have no parameter)."""
    X, y, order = data_for(learner)
    unit, kind = 1024.0, LEARNERS[learner]
    units = ADAPTIVE_UNITS if getattr(kind, "provides", None) == "adaptive" else UNITS
    values = {name: spec.default * unit ** units.get(name, 0) for name, spec in parameters(kind).items()}
    one = run(csr_array(X), y, order, learner, rule, rule_values=SURELY)
    other = run(csr_array(X * unit), y, order, learner, rule, values, SURELY)
    assert one.queried == y.size
    assert one.counts.tolist() == other.counts.tolist()
    assert other.log[:, 1].tolist() in (one.log[:, 1].tolist(), (one.log[:, 1] * unit**2).tolist())


def a_zero_row_changes_no_prediction(learner, rule):
    """A row of zeros is predicted positive, or as the first class of a multi-class learner. Learning its label does not
    change the weights, whatever the label is, at the start or later."""
    X, y, order = data_for(learner)
    n, many = len(order), is_multiclass(learner)
    table = csr_array(np.vstack([X, np.zeros(X.shape[1])]))
    before = run(table, np.append(y, 1), order, learner, rule)
    for label in (1, CLASSES) if many else (-1, 1):
        after = run(table, np.append(y, label), np.append(order, n), learner, rule)
        assert [n, 0.0, 1.0] == after.log[-1].tolist()
        assert learners.weights(before.learner).tolist() == learners.weights(after.learner).tolist()
        fresh = run(table, np.append(y, label), [n, n], learner, rule)
        assert fresh.counts[(0, label, 1) if many else (1, label + 1, 1)] == 2
        assert not learners.weights(fresh.learner).any()


def margins_up_to_1e300_give_numbers(learner, rule):
    """Rows as small or as large as floats can be, at the start or later, leave margins, chances and weights finite."""
    X, y, order = data_for(learner, huge=1)
    for size in (5e-324, 1e-300, 1e-150, 1e-9, 1e9, 1e75, 1e150):
        for place in (order[:1], order[60:61], order[::7], order):
            extreme = X.copy()
            extreme[place] *= size
            _assert_numbers(run(csr_array(extreme), y, order, learner, rule, rule_values=SURELY))
    for place in (0, 60):  # one row only: with two, a margin would be 1e600
        extreme = X.copy()
        extreme[order[place]] = 1e300 * np.eye(X.shape[1])[3]
        _assert_numbers(run(csr_array(extreme), y, order, learner, rule, rule_values=SURELY))


def one_class_or_one_row_gives_numbers(learner, rule):
    """Labels that are all of one class, and equal rows whose labels contradict each other, leave margins, chances and
    weights finite."""
    X, y, order = data_for(learner, huge=1)
    for label in {*y.tolist()}:
        _assert_numbers(run(csr_array(X), np.full_like(y, label), order, learner, rule, rule_values=SURELY))
    for equal in (np.ones((len(X), 1)), np.tile(X[3], (len(X), 1))):
        _assert_numbers(run(csr_array(equal), y, order, learner, rule, rule_values=SURELY))


def columns_that_no_row_uses_change_nothing(learner, rule):
    """Rows whose features are spread over 100,000 columns have the margins and weights of narrow rows, up to rounding,
    unless the learner has a full covariance, which is refused, or random directions."""
    X, y, order = data_for(learner)
    columns = np.sort(np.random.default_rng(2).choice(WIDTH, X.shape[1], replace=False))
    narrow = csr_array(X)
    wide = csr_array((narrow.data, columns[narrow.indices], narrow.indptr), (len(X), WIDTH))
    if "Sigma" in LEARNERS[learner]._fields:
        with pytest.raises(ValueError, match="a full covariance of 100,000 x 100,000 numbers"):
            built(learner, WIDTH)
        return
    one, other = (run(table, y, order, learner, rule) for table in (narrow, wide))
    assert np.isfinite(other.log).all()
    if "seed" not in parameters(LEARNERS[learner]):
        np.testing.assert_allclose(other.log, one.log, rtol=1e-7, atol=1e-9)
        weights = learners.weights(other.learner)
        np.testing.assert_allclose(weights[columns], learners.weights(one.learner), rtol=1e-7, atol=1e-9)
        assert not np.delete(weights, columns, 0).any()


def _assert_numbers(result):
    assert result.queried > 100
    assert np.isfinite(result.log).all()
    assert np.isfinite(learners.weights(result.learner)).all()


LEARNER_PROMISES = [
    *PROMISES,
    rows_in_order_are_rows_visited_in_that_order,
    permuted_columns_permute_the_weights,
    a_column_of_zeros_changes_nothing,
    another_unit_of_the_rows_changes_no_prediction,
    a_zero_row_changes_no_prediction,
    margins_up_to_1e300_give_numbers,
    one_class_or_one_row_gives_numbers,
    columns_that_no_row_uses_change_nothing,
]


# Promises of a rule


def fitting(rule):
    """Return the names of one binary and one multi-class learner that a rule works with, if there are such learners."""
    return list({is_multiclass(name): name for name in reversed(query_rules.partners(rule))}.values())


@jit.entrance(lambda *_: 0.0)
def _probabilities(rule, learner, table, i, margins, v, rho, theta, t, out):
    for k in range(margins.size):
        out[k] = query_rules.probability(rule, learner, rows.Row(table, i), margins[k], v, rho, theta, t)


def chances(learner, rule):
    """Return the chances of asking in many situations, for margins of increasing size on each side of 0. Shape:
    (situations, sides, margins)."""
    table, one, probabilities = rows.as_rows(csr_array(np.diag([1.0, 1e-9, 1e154, 0.0]))), built(learner, 4), []
    signs = [1.0] if is_multiclass(learner) else [1.0, -1.0]
    for size in (None, 1e-9, 0.75, 1e9):
        values = {name: size for name, spec in parameters(QUERY_RULES[rule]).items() if size and _allowed(spec, size)}
        asks = query_rules.build(rule, learner, values)
        for i, v in ((0, 1.0), (0, 1e3), (1, 1e-18), (2, 1e308), (2, np.inf), (2, np.nan), (3, 0.0)):
            for rho, theta, t in ((1.0, 0.0, 1), (50.0, 0.05, 10**6)):
                for sign in signs:
                    probabilities.append(np.empty(len(MARGINS)))
                    _probabilities(asks, one, table, i, sign * np.array(MARGINS), v, rho, theta, t, probabilities[-1])
    return np.array(probabilities).reshape(-1, len(signs), len(MARGINS))


def _allowed(spec, value):
    try:
        return not spec.whole and spec.check(value, "", "") == value
    except ValueError:
        return False


def every_chance_is_a_probability(learner, rule):
    """The probability is in 0..1 for every variance, class ratio, threshold and round, and every margin up to 1e300."""
    probabilities = chances(learner, rule)
    assert ((probabilities >= 0) & (probabilities <= 1)).all()


def where_it_is_stochastic_any_item_may_be_asked_and_sure_ones_less(learner, rule):
    """A rule that draws asks every item with a probability > 0, which never increases with the size of the margin. The
    probabilities of other rules are 0 or 1."""
    probabilities = chances(learner, rule)
    if rule in query_rules.paceable():
        assert (probabilities > 0).all()
        assert (np.diff(probabilities) <= 0).all()
    else:
        assert {0.0, 1.0} >= set(probabilities.ravel())


def another_seed_asks_other_items_if_it_draws(learner, rule):
    """The same seed gives the same questions. Another one gives others, unless every question had to be asked."""
    X, y, order = data_for(learner)
    first, again, other = (run(csr_array(X), y, order, learner, rule, seed=seed).log for seed in (1, 1, 2))
    assert first.tolist() == again.tolist()
    assert (first[:, 0].tolist() != other[:, 0].tolist()) == (first[:, 2] < 1).any()


def a_budget_stops_the_questions_and_changes_none(learner, rule):
    """With a budget, a run asks its first questions, as many as the budget says, and no others."""
    X, y, order = data_for(learner)
    whole = run(csr_array(X), y, order, learner, rule).log.tolist()
    for budget in (0, 1, 17, len(X)):
        assert run(csr_array(X), y, order, learner, rule, budget=budget).log.tolist() == whole[:budget]


RULE_PROMISES = [
    *PROMISES,
    every_chance_is_a_probability,
    where_it_is_stochastic_any_item_may_be_asked_and_sure_ones_less,
    another_seed_asks_other_items_if_it_draws,
    a_budget_stops_the_questions_and_changes_none,
]
