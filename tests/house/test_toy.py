"""Once registered, a toy learner, a toy rule and their pair are offered, run and tested without further code."""

import json
from typing import NamedTuple

import numpy as np
import pytest

from oal_engine import experiments
from oal_engine.kernel.algorithms import ALGORITHMS, Algorithm
from oal_engine.kernel.learners import LEARNERS
from oal_engine.kernel.parameters import Parameter
from oal_engine.kernel.query_rules import QUERY_RULES, SMOOTHING
from oal_engine.kernel.rows import add
from tests.harness import naive
from tests.harness.comparing import ROUNDS, spec, stored
from tests.harness.examples import add_texts
from tests.harness.pages import run
from tests.harness.promises import LEARNER_PROMISES, RULE_PROMISES, compiled_afresh


class Toy(NamedTuple):
    """w += step y x on a mistake."""

    w: np.zeros
    step: float = Parameter(0.5, above=0, help="Length of a step.")

    def update(self, x, y, p, v, rho, theta):
        if (p >= theta) != (y > 0):
            add(self.w, self.step * y, x)


class Root(NamedTuple):
    """pi = sqrt(delta / (delta + |p|))."""

    delta: float = Parameter(0.1, above=0, help="Smoothing.", **SMOOTHING)

    sentence = "Asks near its line, and far from it too."

    def probability(self, learner, x, p, v, rho, theta, t):
        return np.sqrt(self.delta / (self.delta + abs(p)))


class Square(NamedTuple):
    """pi = delta / (delta + p^2), which is 0 where p^2 overflows."""

    delta: float = Parameter(0.1, above=0, help="Smoothing.")

    def probability(self, learner, x, p, v, rho, theta, t):
        return self.delta / (self.delta + p * p)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Register the learner, the rule and the pair for one test, and add their formulas to the naive reference."""
    update, probability = naive.Learner.update, naive.probability

    def toy_update(self, x, y, p, rho, theta, chance=1.0):
        if self.name != "toy":
            update(self, x, y, p, rho, theta, chance)
        elif (p >= theta) != (y > 0):
            self.w = self.w + getattr(self, "step", 0.5) * y * x

    def toy_probability(rule, learner, x, p, *rest):
        return np.sqrt(0.1 / (0.1 + abs(p))) if rule == "root" else probability(rule, learner, x, p, *rest)

    monkeypatch.setitem(LEARNERS, "toy", Toy)
    monkeypatch.setitem(QUERY_RULES, "root", Root)
    monkeypatch.setitem(ALGORITHMS, "TOY", Algorithm("toy", "root", "nobody's"))
    monkeypatch.setattr(naive.Learner, "update", toy_update)
    monkeypatch.setattr(naive, "probability", toy_probability)
    with compiled_afresh(Toy):
        yield


@pytest.mark.slow
@pytest.mark.parametrize("promise", dict.fromkeys([*LEARNER_PROMISES, *RULE_PROMISES]), ids=lambda each: each.__name__)
def test_the_toys_keep_the_promise(promise):
    promise("toy", "root")


def test_the_command_line_lists_them(command):
    """`algorithms --json` lists the learner and the rule with their parameters, and the rule accepts the learner."""
    listed = json.loads(command("algorithms", "--json")[1])
    learner, rule = (
        next(one for one in listed[key] if one["name"] == name)
        for key, name in (("learners", "toy"), ("rules", "root"))
    )
    step = {"name": "step", "default": 0.5, "range": "> 0", "help": "Length of a step."}
    assert (Toy.__doc__, [step]) == (learner["help"], learner["parameters"])
    assert ["delta"] == [parameter["name"] for parameter in rule["parameters"]]
    assert "toy" in rule["learners"]


def test_the_form_offers_them(app_store, tmp_path):
    """The form of a new session offers the learner and the rule, and their parameters with the default values."""
    add_texts(app_store, tmp_path)
    at = run("home.py")
    at.button(key="new").click().run()
    at.selectbox(key="new-algorithm").select("Own choice of learner and rule").run()
    at.selectbox(key="new-rule").select("root").run()
    at.selectbox(key="new-learner-root").select("toy").run()
    boxes = {box.key.rpartition("-")[2]: box for box in at.number_input if box.key.endswith(("-step", "-delta"))}
    assert {"step": 0.5, "delta": 0.1} == {name: box.value for name, box in boxes.items()}


@pytest.mark.slow
def test_a_comparison_tunes_and_scales_the_pair(tmp_path):
    """A comparison tunes the rule's smoothing over its grid, and scales it to the target share of labels."""
    store = stored(tmp_path)
    assert {"delta": [10.0**k for k in range(-5, 6)]} == experiments.grid("TOY", {}, "hindsight")
    (tuned,) = experiments.compare(spec(algorithms={"TOY": {}}, tune="hindsight"), store).lines
    assert 11 == len(tuned.trials)
    (scaled,) = experiments.compare(spec(algorithms={"TOY": {}}, hit=0.3, permutations=10), store).lines
    assert 0.3 == pytest.approx(scaled.asked.mean() / ROUNDS, abs=0.02)


def test_a_broken_promise_fails(monkeypatch):
    """A rule whose probability becomes 0 where the square of the margin overflows fails its promise."""
    monkeypatch.setitem(QUERY_RULES, "square", Square)
    promise = next(check for check in RULE_PROMISES if "stochastic" in check.__name__)
    with pytest.raises(AssertionError):
        promise("perceptron", "square")
