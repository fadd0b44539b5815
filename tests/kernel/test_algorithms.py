"""The published algorithms: each has the learner, the rule and the parameters of its paper."""

from typing import NamedTuple

import numpy as np
import pytest

from oal_engine.kernel import rows, stream
from oal_engine.kernel.algorithms import declared, stored, strategy
from oal_engine.kernel.parameters import Parameter, checked, from_parameters, instantiate
from oal_engine.kernel.query_rules import QUERY_RULES, partners
from tests.harness.promises import replay

PAIRS = [(learner, rule) for rule in QUERY_RULES for learner in partners(rule)]


@pytest.mark.parametrize(("learner", "rule"), PAIRS)
def test_every_pair_has_its_declared_parameters(learner, rule):
    keys, chosen = declared(learner, rule), strategy(learner=learner, rule=rule)
    assert {key: spec.default for key, spec in keys.items()} == chosen.parameters
    for key, spec in keys.items():
        assert isinstance(spec, Parameter)
        assert spec.default == spec.check(spec.default, key, learner)
        assert spec.help.endswith(".")
    others = {key: 3 if spec.whole else 0.75 for key, spec in keys.items()}
    assert others == strategy(learner=learner, rule=rule, values=others).parameters


def test_names_in_any_case():
    """Names of algorithms, learners and rules are accepted in upper or lower case, and returned as published."""
    assert "OA3-diag" == strategy("oa3-DIAG").algorithm
    assert ("acog-ii", "variance") == (strategy("oa3").learner, strategy("oa3").rule)
    assert "PA-I" == strategy("pa-i").algorithm
    assert "pa-i + all" == strategy(learner="PA-I", rule="All").algorithm


@pytest.mark.slow
def test_soal_fixes_rho():
    """SOAL fixes rho at 1, and learns the same weights as SOAL-CS with rho = 1. SOAL-CS and OA3 use the rho of the run,
    and learn different weights."""
    assert (1.0, 1.0, None, None) == tuple(strategy(name).rho for name in ("SOAL", "SOAL-diag", "SOAL-CS", "OA3"))
    soal, sensitive = replay(strategy("SOAL"), rho=5.0), replay(strategy("SOAL-CS"), rho=5.0)
    assert replay(strategy("SOAL-CS"), rho=1.0).learner.w.tolist() == soal.learner.w.tolist()
    assert soal.learner.w.tolist() != sensitive.learner.w.tolist()
    assert sensitive.learner.w.tolist() != replay(strategy("OA3"), rho=5.0).learner.w.tolist()


@pytest.mark.slow
def test_cpa_learns_until_the_hinge_loss_is_zero():
    """CPA learns a correctly predicted label if 1 - y p > 0."""
    X, y = np.array([[1.0], [1.0]]), np.array([1, 1])
    learner, rule = strategy("CPA", values={"C": 1.5}).build(1)
    stream.replay(rows.as_rows(X[:1]), y[:1], [0], learner, rule, stream.objective(rho=9.0))
    assert 1.5 == learner.w[0]  # a margin of 0 predicts +1
    learner, rule = strategy("CPA", values={"C": 10}).build(1)
    stream.replay(rows.as_rows(X), y, [0, 1], learner, rule, stream.objective(rho=9.0))
    assert learner.w.tolist() == [3.0]  # sqrt(rho), where its hinge loss becomes zero


@pytest.mark.slow
def test_oaal_is_asymmetric_by_default():
    """By default OAAL asks more about items predicted negative, and so differs from Q_S."""
    parameters = strategy("OAAL").parameters
    assert parameters["delta_minus"] > parameters["delta_plus"]
    assert replay(strategy("OAAL")).log.tolist() != replay(strategy("Q_S")).log.tolist()


def test_what_was_stored_has_the_defaults_of_later_parameters():
    parts = "OA3", "acog-ii", "variance"
    values = {"learner": {"eta": 0.3, "gamma": 1.0}, "rule": {"delta_plus": 0.1, "delta_minus": 0.1}}
    assert strategy("OA3", values={"eta": 0.3}) == stored(*parts, values)
    with pytest.raises(ValueError, match=r"^acog-ii has no parameter other\. It has eta, gamma, lag\.$"):
        stored(*parts, values | {"learner": {"other": 1.0}})


def test_a_positive_weighs_less_where_a_reading_answers_several_questions():
    """In a session that asks several questions about each item, `auto` weighs positives with a lower `exponent` (0.3)
    and a larger `few` (20), and asks with a smaller power. Published algorithms keep their parameters."""
    one, several = strategy("auto"), strategy("auto", several=True)
    assert one.learner_parameters | {"exponent": 0.3, "few": 20, "visits": 10} == several.learner_parameters
    assert one.rule_parameters | {"power": 2} == several.rule_parameters
    assert strategy("OA3") == strategy("OA3", several=True)


@pytest.mark.parametrize(
    ("name", "a"), [("D-ADA", -1), ("D-AMD", -1), ("D-ADA-I", 1), ("D-AMD-I", 1), ("M-ADA", 0), ("M-AMD", 0)]
)
def test_what_a_paper_fixes_cannot_be_set(name, a):
    assert a == strategy(name).parameters["a"] == strategy(name, values={"a": a}).parameters["a"]
    assert a == strategy(name, values={"rule.a": str(a), "b": 2}).parameters["a"]
    with pytest.raises(ValueError, match=rf"^a of {name} is fixed at {a}\. Got 0\.5\.$"):
        strategy(name, values={"a": 0.5})


def test_one_delta_for_both_signs():
    """`delta` sets both deltas of a rule that has two, and either of them can still be set separately."""
    both = strategy("SOAL", values={"delta": 3}).parameters
    assert (3, 3) == (both["delta_plus"], both["delta_minus"])
    one = strategy("OAAL", values={"delta": 3, "delta_minus": 0.5}).parameters
    assert {"delta_plus": 3, "delta_minus": 0.5} == one
    assert {"eta": 1, "delta": 3, "delta_plus": 0.1, "delta_minus": 0.5} == strategy(
        learner="ada-da", rule="asymmetric", values={"delta": 3}
    ).parameters


def test_a_key_of_both_sides():
    """If a learner and its rule have parameters of the same name, these are set and shown with the prefixes `learner.`
    and `rule.`."""
    chosen = strategy(learner="ada-da", rule="symmetric", values={"learner.delta": 2, "rule.delta": 3})
    assert {"eta": 1, "learner.delta": 2, "rule.delta": 3} == chosen.parameters
    assert ({"eta": 1, "delta": 2}, {"delta": 3}) == (chosen.learner_parameters, chosen.rule_parameters)
    assert 2 == strategy("PA-I", values={"learner.C": 2}).parameters["C"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"algorithm": "XYZ"}, r"^algorithm must be one of auto, .*SSACOG-II\. Got XYZ\.$"),
        ({"learner": "pa"}, r"^a strategy needs the name of an algorithm, or of a learner and a rule\.$"),
        ({"learner": "pa", "rule": "other"}, r"^rule must be one of all, first, .*\. Got other\.$"),
        ({"learner": "other", "rule": "all"}, r"^learner must be one of given, .*\. Got other\.$"),
        ({"learner": "pa", "rule": "variance"}, r"^rule variance works with the learners arow, .*\. Got pa\.$"),
        ({"algorithm": "PA", "values": {"C": 1}}, r"^PA has no parameter C\. It has none\.$"),
        ({"algorithm": "PA-I", "values": {"rule.C": 1}}, r"^PA-I has no parameter rule\.C\. It has C\.$"),
        ({"algorithm": "OAAL", "values": {"delta": -1}}, r"^delta_plus of asymmetric must be > 0\. Got -1\.$"),
        ({"learner": "ada-md", "rule": "symmetric", "values": {"delta": 1}}, r"Say learner\.delta or rule\.delta\.$"),
    ],
)
def test_a_wrong_strategy_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        strategy(**call)


def test_a_state_array_is_made_from_what_it_names():

    class Steps(NamedTuple):
        state: from_parameters(lambda classes, step: np.full(classes, step))
        step: float = Parameter(0.5, "A step.")
        other: float = Parameter(2.0, "Nothing to it.")

    made_one = instantiate(Steps, 7, checked(Steps, "steps", {"step": 0.25}), classes=2)
    assert [0.25, 0.25] == made_one.state.tolist()
