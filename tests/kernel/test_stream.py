"""The kernel gives the results of the plain implementation (naive.py) and keeps the promises of the stream; for
learners and rules see test_promises.py."""

import re
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from oal_engine.kernel import draws, learners, query_rules, rows, stacks, stream
from oal_engine.kernel.learners import LEARNERS
from oal_engine.kernel.query_rules import QUERY_RULES
from tests.harness import ROOT, naive
from tests.harness.promises import assert_twins, built, data, data_for, mixed, run


def readings(rule):
    """Return one learner name for each way in which a rule can read a learner's state."""
    kinds = {name: LEARNERS[name] for name in query_rules.partners(rule)}
    return {(kind.variance, getattr(kind, "gain", None)): name for name, kind in kinds.items()}.values()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "rule"),
    [(name, rule) for rule, kind in QUERY_RULES.items() if hasattr(kind, "requires") for name in readings(rule)],
)
def test_a_rule_that_reads_the_state_equals_the_twin(learner, rule):
    """A compiled rule that reads the learner's state gives the results of the plain implementation (naive.py), for
    every way to read the state."""
    assert_twins(*data_for(learner, seed=2), learner, rule, ratio=0.25, seed=9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "rule"),
    [
        ("pa-i", "asymmetric"),
        ("acog-ii", "variance"),
        ("acog-ii-diag", "variance"),
        ("ssacog-ii", "variance"),
        ("ada-md", "discriminative"),
        ("m-ada-md", "discriminative"),
    ],
)
def test_dense_rows_equal_the_twin(learner, rule):
    """A compiled run over dense rows gives the results of the plain implementation (naive.py)."""
    assert_twins(*data_for(learner, seed=1), learner, rule, matrix=np.asarray, seed=5, budget=60)


def test_draws_are_pure():
    """The draw of a round depends only on the seed and the round, and draws fill [0, 1) evenly."""
    ours = np.array([draws.draw(7, t) for t in range(2000)])
    assert ours.tolist() == [naive.draw(7, t) for t in range(2000)]
    assert abs(ours.mean() - 0.5) < 0.02
    assert ours.min() >= 0
    assert ours.max() < 1
    assert np.histogram(ours, 10, (0, 1))[0].min() > 150


@pytest.mark.slow
def test_marks_cut_the_stream_without_changing_it():
    X, y, order = data(seed=5)
    whole = run(X, y, order, "pa-i", "asymmetric", budget=20)
    parts = run(X, y, order, "pa-i", "asymmetric", budget=20, marks=[1, 10, 50, 110, 120])
    assert whole.counts.tolist() == parts.counts.tolist()
    assert parts.curve.sum((1, 2, 3)).tolist() == [1, 10, 50, 110, 120]
    assert parts.log.tolist() == whole.log.tolist()


def test_learners_of_sparse_updates_share_a_pass():
    """Settings can share a pass if the learner's margins are w.x and its updates change only the weights of the row's
    features. The rows must be sparse or dense, not mixed, and must have few columns."""
    table = rows.as_rows(np.eye(4))
    sharing = {name for name, kind in LEARNERS.items() if stacks.share_a_pass(kind, table)}
    assert {"perceptron", "pa-i", "cspaa", "cw-variance", "acog-ii-diag", "ada-da"} <= sharing
    assert not sharing & {"romma", "arow", "sop", "acog-ii", "sacog-ii", "ssacog-ii", "dual", "pool", "m-pa"}
    wide = rows.as_rows(csr_array((1, stacks.MOST_COLUMNS + 1)))
    assert not any(stacks.share_a_pass(LEARNERS["pa-i"], others) for others in (mixed(np.eye(4)), wide))


COVARIANCE = ", ".join(name for name, kind in LEARNERS.items() if getattr(kind, "provides", "") == "covariance")
SEVERAL = "m-perceptron, m-pa, m-pa-i, m-pa-ii, m-ada-da, m-ada-md, m-dual"
SIGNED = ", ".join(name for name in LEARNERS if name[:2] != "m-")
ERRORS = [
    (learners.build, ("pa-i", 3, {"C": -1}), "C of pa-i must be > 0. Got -1."),
    (learners.build, ("pa-i", 3, {"c": 1}), "pa-i has no parameter c. It has C. Did you mean C?"),
    (query_rules.build, ("asymmetric", "pa", {"delta_plus": "x"}), "delta_plus of asymmetric must be > 0. Got x."),
    (query_rules.build, ("random", "pa", {"q": 1.5}), "q of random must be > 0 and <= 1. Got 1.5."),
    (query_rules.build, ("variance", "pa"), f"rule variance works with the learners {COVARIANCE}. Got pa."),
    (query_rules.build, ("discriminative", "arow"),
     "rule discriminative works with the learners ada-da, ada-md, m-ada-da, m-ada-md. Got arow."),
    (query_rules.build, ("asymmetric", "m-pa"), f"rule asymmetric works with the learners {SIGNED}. Got m-pa."),
    (stream.objective, (0.0, -2), "rho must be > 0, or 0 for the Laplace estimate. Got -2."),
    (run, (np.eye(3), [1, 0, 1], np.arange(3), "pa", "all"), "a replay needs a label -1 or 1 for every row. Got 0."),
    (run, (np.eye(3), [1, 1], np.arange(3), "pa", "all"),
     "a replay needs a label -1 or 1 for every row. Got 2 labels."),
    (run, (np.eye(3), [1, 1, np.nan], np.arange(3), "pa", "all"),
     "a replay needs a label -1 or 1 for every row. Got nan."),
    (run, (np.eye(3), [1, 2, 5], np.arange(3), "m-pa", "all"), "a replay needs a label 1 to 4 for every row. Got 5."),
    (run, (np.eye(3), [1, 1, 1], [0, 3], "pa", "all"), "an order must hold row numbers from 0 to 2. Got 0 to 3."),
    (learners.build, ("pa", 3, (), 4), f"4 classes need one of the learners {SEVERAL}. Got pa."),
    (learners.build, ("m-pa", 3, (), 1), "m-pa needs 2 classes or more. Got 1."),
    (rows.as_rows, ([[1, float("nan")]],), "rows must be finite numbers. Got NaN or infinity."),
]  # fmt: skip


@pytest.mark.parametrize(("function", "arguments", "message"), ERRORS)
def test_errors_name_what_is_allowed_and_what_came(function, arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        function(*arguments)


def test_a_full_covariance_over_the_limit_is_refused_with_the_ways_out(monkeypatch):
    """A learner over the memory limit is refused with the size that it needs and what to use instead."""
    with pytest.raises(
        ValueError, match=r"20,000 x 20,000 numbers: 3.0 GiB, over the limit of 2.0 GiB. Use a diagonal"
    ):
        learners.build("acog-ii", 20_000)
    monkeypatch.setenv("OAL_MEMORY_LIMIT", "1000")
    with pytest.raises(ValueError, match="raise OAL_MEMORY_LIMIT"):
        learners.build("arow", 12)
    assert learners.build("acog-ii-diag", 20_000).s.size == 20_000


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 10, 100])
@pytest.mark.parametrize(("dense", "sparse"), [("sacog-i", "ssacog-i"), ("sacog-ii", "ssacog-ii")])
def test_the_sparse_sketch_equals_the_sketch(dense, sparse, length):
    """SSACOG and SACOG ask in the same of 2,000 rounds; margins and weights agree within 1e-8 for rows of any
    length."""
    rng = np.random.default_rng(8)
    X = random_array((2000, 60), density=0.2, rng=rng).toarray()
    X *= length / np.maximum(1e-9, np.linalg.norm(X, axis=1, keepdims=True))
    y = np.where(X @ rng.normal(size=60) > 0.3 * length, 1, -1)
    values = {"eta": 0.1 / length**2}
    one, other = (run(csr_array(X), y, np.arange(2000), name, "variance", values) for name in (dense, sparse))
    assert one.queried > 200
    np.testing.assert_allclose(other.log, one.log, rtol=0, atol=1e-8)
    np.testing.assert_allclose(learners.weights(other.learner), one.learner.w, rtol=0, atol=1e-8)


IMPORTS = """
import os, numba, oal_engine
from oal_engine.kernel import stacks, stream
from oal_engine.kernel.machine_code import dispatcher_of
print(dispatcher_of(stream._replay.__wrapped__)._cache.cache_path.startswith(os.environ["NUMBA_CACHE_DIR"]))
"""
TYPES = """
from numba import njit
from numba.core.typing.typeof import typeof_impl
from oal_engine.kernel import machine_code
before = len(typeof_impl.registry)
njit(lambda x: x + 1)(1)
print(len(typeof_impl.registry) - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("script", "printed"), [(IMPORTS, "True\n"), (TYPES, "0\n")], ids=["imports", "types"])
def test_numba_in_a_program_of_its_own(script, printed):
    """A program that imports numba before the engine also uses the cache folder named after the sources. Compiling the
    first function does not change the registry of types, which other threads read at the same time."""
    process = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert (printed, "") == (process.stdout, process.stderr)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["pa-i", "acog-ii-diag", *(n for n, kind in LEARNERS.items() if hasattr(kind, "begin"))]
)
def test_a_learner_begins_with_weights(name):
    X = np.array([[0.6, 0.8, 0.0], [0.0, 0.6, 0.8]])
    table, prior = rows.as_rows(X), {0: 0.5, 1: -0.5}
    learner, rule = learners.build(name, 3), query_rules.build("all", name)
    stream.apply_prior(learner, prior)
    began = learners.weights(learner).copy()
    assert [0.5, -0.5, 0.0] == began.tolist()
    stream.replay(table, [1], [0], learner, rule, stream.objective(rho=1))
    after = learners.weights(learner)
    assert (True, True) == (after[0] > 0.5, after[1] > -0.5)


@pytest.mark.slow
def test_a_pool_names_the_weight_of_each_member():
    """A pool reports a share for each of its members. Its weights are the mean of the members' weights, weighted by
    these shares. It reports no shares before its first answer."""
    X, y, order = data(seed=4, huge=1)
    pool = run(csr_array(X), y, order, "pool", "symmetric", budget=60).learner
    shares = learners.member_weights(pool)
    np.testing.assert_allclose(pool.w, [*shares.values()] @ pool.members, atol=1e-12)
    assert (1.0, {}, {}) == (
        pytest.approx(sum(shares.values())),
        learners.member_weights(built("pool", 3)),
        learners.member_weights(built("pa-i", 3)),
    )


@pytest.mark.parametrize(
    ("learner", "classes", "column", "message"),
    [
        ("pa-i", 0, -1, r"the columns of a prior must be >= 0 and < 3\. Got -1\."),
        ("dual", 0, 3, r"the columns of a prior must be >= 0 and < 3\. Got 3\."),
        ("m-pa", 3, 1, "a prior is for a positive and a negative class"),
    ],
)
def test_a_wrong_prior_is_refused(learner, classes, column, message):
    """A prior is refused if one of its columns is out of range (for learners with or without a bias), or if the learner
    is multi-class."""
    with pytest.raises(ValueError, match=message):
        stream.apply_prior(learners.build(learner, 3, classes=classes), {0: 1.0, column: 1.0})
