"""Every registered learner and rule keeps every promise."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from oal_engine.kernel.learners import LEARNERS
from oal_engine.kernel.query_rules import QUERY_RULES
from tests.harness.promises import (
    EXCEPTIONS,
    LEARNER_PROMISES,
    RULE_PROMISES,
    a_run_stopped_saved_and_loaded_at_every_question_gives_the_same_bits,
    fitting,
    settings_that_share_a_pass_have_the_bits_of_replays_of_each,
)

DAILY = "pa-i", "acog-ii", "m-pa-ii"  # the learners of make test; make nightly checks all


class TestLearners:
    @pytest.mark.parametrize(
        "learner", [pytest.param(each, marks=[pytest.mark.slow] * (each not in DAILY)) for each in LEARNERS]
    )
    @pytest.mark.parametrize("promise", LEARNER_PROMISES, ids=lambda promise: promise.__name__)
    def test_a_learner_keeps_the_promise(self, promise, learner):
        if exception := EXCEPTIONS.get((promise.__name__, learner)):
            pytest.skip(exception)
        promise(learner, "symmetric")


class TestRules:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("learner", "rule"), [(learner, rule) for rule in QUERY_RULES for learner in fitting(rule)]
    )
    @pytest.mark.parametrize("promise", RULE_PROMISES, ids=lambda promise: promise.__name__)
    def test_a_rule_keeps_the_promise(self, promise, learner, rule):
        """Each rule keeps each promise when it runs with a binary and a multi-class learner that it works with."""
        promise(learner, rule)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "rule"),
    [
        ("pa-i", "asymmetric"),
        ("ssacog-ii", "variance"),
        ("m-ada-md", "discriminative"),
        ("pool", "paced"),
        ("pool-f1", "paced"),
        ("m-dual", "paced"),
    ],
)
def test_compiled_steps_give_the_bits_of_a_replay(learner, rule):
    """The compiled steps of a session equal a replay to the bit, for each kind of state; interpreted.py checks every
    learner and every rule in plain Python."""
    a_run_stopped_saved_and_loaded_at_every_question_gives_the_same_bits(learner, rule)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("matrix", "learner", "rule"),
    [
        (csr_array, "pa-i", "asymmetric"),
        (csr_array, "cw-variance", "variance"),
        (csr_array, "acog-ii-diag", "variance"),
        (csr_array, "ada-da", "discriminative"),
        (csr_array, "ada-md", "error-adaptive"),
        (np.asarray, "acog-i-diag", "variance"),
    ],
)
def test_compiled_passes_give_the_bits_of_replays(matrix, learner, rule):
    """Several settings in one compiled pass give the bits of separate replays, for each kind of formula; interpreted.py
    checks every learner and every rule in plain Python."""
    settings_that_share_a_pass_have_the_bits_of_replays_of_each(learner, rule, matrix)
