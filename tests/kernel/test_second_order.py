"""Second-order learners, beyond test_promises.py: long rows, the covariance before a label, and rare sketch updates."""

from math import log
from time import perf_counter

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import ndtri

from oal_engine.kernel import jit, learners, query_rules, rows, stream
from oal_engine.kernel.learners import sketched
from tests.harness.promises import assert_twins, bits, data_for, run

pytestmark = pytest.mark.slow


def taught(learner, X, y, **values):
    """Train a learner on every label of some rows, and return it."""
    one = learners.build(learner, len(X[0]), values)
    table, asks = rows.as_rows(np.array(X)), query_rules.build("all", learner)
    stream.replay(table, np.array(y), np.arange(len(y)), one, asks, stream.objective(rho=1.0))
    return one


def divergence(w, s, v, t):
    """Compute the Kullback-Leibler divergence KL(N(w, s) || N(v, t)) of diagonal normal distributions."""
    return 0.5 * np.sum(np.log(t / s) + s / t + (v - w) ** 2 / t - 1)


def test_cw_learns_a_long_row_whose_margin_is_between_deviation_and_variance():
    """If phi sqrt(v) <= y p < phi v (margin p, variance v), CW learns until y p = phi v."""
    phi, x = ndtri(0.9), np.array([6.0, 0.0, 0.0])
    X, y = [[1, 1, 0], [1, -1, 0], [1, 0, 1], [1, 0, -1], x], [1] * 5
    before = taught("cw-variance", X[:4], y[:4])
    p, v = before.w @ x, before.s @ x**2
    assert phi * np.sqrt(v) <= p < phi * v
    after = taught("cw-variance", X, y)
    assert after.w @ x == pytest.approx(phi * (after.s @ x**2))
    assert after.w @ x > p


@pytest.mark.parametrize("x", [2.0, 0.3])
def test_the_exact_cw_takes_the_smallest_change(x):
    """On a single feature CW-diag ends at the nearest distribution for which y w.x >= phi sqrt(v)."""
    phi = ndtri(0.9)
    one = taught("cw-exact", [[x]], [-1])
    w, s = one.w[0], one.s[0]
    assert -w * x == pytest.approx(phi * x * np.sqrt(s))
    found = minimize(
        lambda z: divergence(z[0], np.exp(z[1]), np.zeros(1), np.ones(1)),
        [w, np.log(s)],
        constraints={"type": "ineq", "fun": lambda z: -z[0] * x - phi * x * np.exp(z[1] / 2)},
        tol=1e-12,
    )
    assert (w, s) == pytest.approx((found.x[0], np.exp(found.x[1])), rel=1e-4)


@pytest.mark.parametrize("learner", ["acog-i", "acog-ii", "acog-i-diag", "acog-ii-diag"])
@pytest.mark.parametrize("lag", [0.5, 1.0])
def test_the_covariance_before_a_label_can_move_the_weights(learner, lag):
    """With a lag of 1 the weights move along Sigma_t, as in ACOG figure 7, and with a lag below 1 along a mean of
    Sigma_t and Sigma_t+1."""
    assert_twins(*data_for(learner), learner, "variance", {"lag": lag})
    assert [1.0] == taught(learner, [[1.0]], [1], lag=1).w.tolist()  # along Sigma_t; along Sigma_t+1 it would be 1/2


@pytest.mark.parametrize("learner", ["sacog-i", "sacog-ii", "ssacog-i", "ssacog-ii"])
def test_a_sketch_can_learn_some_rows(learner):
    """A sketch that is updated every few rounds gives the results of the plain implementation (naive.py), and keeps its
    directions in the other rounds."""
    assert_twins(*data_for(learner), learner, "variance", {"every": 4})
    X, y = np.eye(6)[:4], [1, -1, 1, 1]
    states = [taught(learner, X[:n], y[:n], every=3, m=2) for n in (1, 2, 3, 4)]
    directions = [(state.U if "ss" in learner else state.V).tolist() for state in states]
    assert directions[0] == directions[1] == directions[2] != directions[3]
    assert [1, 2, 3, 4] == [state.t[0] for state in states]


DIGESTS = {  # by learner and number of directions, from version 0.2.0
    ("sacog-ii", 5): "83a0e2f306fc5028",
    ("ssacog-i", 1): "bb89d4fac337aae0",
    ("ssacog-ii", 5): "525e3741689c5140",
    ("ssacog-ii", 12): "d753ce8fe7d952ba",
}


@pytest.mark.parametrize(("learner", "m"), DIGESTS)
def test_sketches_have_the_bits_of_version_0_2_0(learner, m):
    """The state of a sketch after a run equals the state in version 0.2.0, to the bit, for several numbers of
    directions."""
    X, y, order = data_for(learner, d=20, n=300)
    result = run(csr_array(X), y, order, learner, "variance", {"m": m, "eta": 0.7}, rho=3.0)
    assert DIGESTS[learner, m] == bits(result.log, result.counts, result.learner)[:16]


def seconds(m):
    """Measure how long a Gram-Schmidt orthonormalization of m directions takes, in seconds (the shortest of 20
    runs)."""

    @jit.entrance(lambda *_: 0.0)
    def once(F, K, Kf):
        sketched._orthonormalize_in(F, K, Kf)

    F, K, times = np.eye(m), np.eye(m), []
    for _ in range(20):
        start = perf_counter()
        once(F, K, np.zeros(m))
        times.append(perf_counter() - start)
    return min(times)


def test_a_round_of_a_sparse_sketch_grows_as_the_cube_of_its_directions():
    """The Gram-Schmidt of SSACOG takes O(m^3), as published: four times the directions take up to 4^3 times as long."""
    assert log(seconds(128) / seconds(32), 4) < 3.4
