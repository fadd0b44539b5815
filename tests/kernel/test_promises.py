"""Every registered learner and rule keeps every promise."""

import pytest

from oal_engine.kernel.learners import LEARNERS
from oal_engine.kernel.query_rules import QUERY_RULES
from tests.harness.promises import (
    EXCEPTIONS,
    LEARNER_PROMISES,
    RULE_PROMISES,
    a_run_stopped_saved_and_loaded_at_every_question_gives_the_same_bits,
    fitting,
)

pytestmark = pytest.mark.slow


class TestLearners:
    @pytest.mark.parametrize("learner", LEARNERS)
    @pytest.mark.parametrize("promise", LEARNER_PROMISES, ids=lambda promise: promise.__name__)
    def test_a_learner_keeps_the_promise(self, promise, learner):
        """Each learner keeps each promise with the rule symmetric."""
        if exception := EXCEPTIONS.get((promise.__name__, learner)):
            pytest.skip(exception)
        promise(learner, "symmetric")


class TestRules:
    @pytest.mark.parametrize(
        ("learner", "rule"), [(learner, rule) for rule in QUERY_RULES for learner in fitting(rule)]
    )
    @pytest.mark.parametrize("promise", RULE_PROMISES, ids=lambda promise: promise.__name__)
    def test_a_rule_keeps_the_promise(self, promise, learner, rule):
        """Each rule keeps each promise with a binary and a multi-class learner that it works with."""
        promise(learner, rule)


@pytest.mark.parametrize(
    ("learner", "rule"),
    [
        ("pa-i", "asymmetric"),
        ("ssacog-ii", "variance"),
        ("m-ada-md", "discriminative"),
        ("pool", "paced"),
        ("m-dual", "paced"),
    ],
)
def test_compiled_steps_give_the_bits_of_a_replay(learner, rule):
    """The steps of a session, compiled, equal a replay for each kind of state; in plain Python for every learner and
    every rule (interpreted.py)."""
    a_run_stopped_saved_and_loaded_at_every_question_gives_the_same_bits(learner, rule)
