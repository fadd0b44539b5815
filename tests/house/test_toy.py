"""A registered toy learner, toy rule and their pair are offered, run and tested without further code."""

import json
from typing import NamedTuple

import numpy as np
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from oal_engine import datasets, experiments
from oal_engine.datasets import reading
from oal_engine.kernel.algorithms import ALGORITHMS, Algorithm
from oal_engine.kernel.learners import LEARNERS
from oal_engine.kernel.parameters import Parameter
from oal_engine.kernel.query_rules import QUERY_RULES, SMOOTHING
from oal_engine.kernel.rows import add
from oal_engine.sessions.insights.estimates import of_session
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store
from tests.harness import ROOT, naive
from tests.harness.comparing import ROUNDS, spec, stored
from tests.harness.pages import run
from tests.harness.promises import LEARNER_PROMISES, RULE_PROMISES, compiled_afresh, fitting
from tests.harness.sessions import label_until_the_end, stream_of

pytestmark = pytest.mark.slow


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


class Band(NamedTuple):
    """Ask when |p| <= width, and nothing else."""

    width: float = Parameter(0.05, low=0, help="Largest margin that is asked.")

    sentence = "Asks in a band around its line."
    deterministic = True

    def probability(self, learner, x, p, v, rho, theta, t):
        return 1.0 if abs(p) <= self.width else 0.0


class Square(NamedTuple):
    """pi = delta / (delta + p^2), which is 0 where p^2 overflows."""

    delta: float = Parameter(0.1, above=0, help="Smoothing.")

    def probability(self, learner, x, p, v, rho, theta, t):
        return self.delta / (self.delta + p * p)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Register the learner, the rule and the pair for one test, and add their formulas to the naive twin."""
    update, probability = naive.Learner.update, naive.probability

    def toy_update(self, x, y, p, rho, theta):
        if self.name != "toy":
            update(self, x, y, p, rho, theta)
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


@pytest.mark.parametrize("promise", LEARNER_PROMISES, ids=lambda promise: promise.__name__)
def test_the_toy_learner_keeps_the_promise(promise):
    """Each promise of a learner is checked for one that is not part of the engine."""
    promise("toy", "symmetric")


@pytest.mark.parametrize("promise", RULE_PROMISES, ids=lambda promise: promise.__name__)
def test_the_toy_rule_keeps_the_promise(promise):
    """Each promise of a rule is checked for one that is not part of the engine."""
    for learner in fitting("root"):
        promise(learner, "root")


def test_the_command_line_lists_them(command):
    """`algorithms --json` lists both with their parameters, and the toy learner among the learners of the rule."""
    listed = json.loads(command("algorithms", "--json")[1])
    learner, rule = (
        next(one for one in listed[key] if one["name"] == name)
        for key, name in (("learners", "toy"), ("rules", "root"))
    )
    step = {"name": "step", "default": 0.5, "range": "> 0", "help": "Length of a step."}
    assert (Toy.__doc__, [step]) == (learner["help"], learner["parameters"])
    assert ["delta"] == [parameter["name"] for parameter in rule["parameters"]]
    assert "toy" in rule["learners"]


def test_the_form_offers_them(tmp_path, monkeypatch):
    """The form of a new session offers both, and their parameters with the defaults."""
    monkeypatch.setenv("OAL_DB", str(tmp_path / "studio.db"))
    monkeypatch.chdir(ROOT)
    st.cache_resource.clear()
    store, path = Store(tmp_path / "studio.db"), tmp_path / "texts.csv"
    path.write_text("text,label\n" + "".join(f"item {k} word{k % 7},{int(k % 5 == 0)}\n" for k in range(40)))
    datasets.import_file(store, path, "texts", reading.Columns(text=("text",), label="label"))
    at = AppTest.from_file(str(ROOT / "home.py"), default_timeout=60).run()
    at.button(key="new").click().run()
    at.selectbox(key="new-algorithm").select("Own choice of learner and rule").run()
    at.selectbox(key="new-rule").select("root").run()
    at.selectbox(key="new-learner-root").select("toy").run()
    boxes = {box.key.rpartition("-")[2]: box for box in at.number_input if box.key.endswith(("-step", "-delta"))}
    assert {"step": 0.5, "delta": 0.1} == {name: box.value for name, box in boxes.items()}
    st.cache_resource.clear()


def test_a_comparison_tunes_and_scales_the_pair(tmp_path):
    """A comparison tunes the rule's smoothing over its grid, and scales it to the wanted share of labels."""
    store = stored(tmp_path)
    assert {"delta": [10.0**k for k in range(-5, 6)]} == experiments.grid("TOY", {}, "hindsight")
    (tuned,) = experiments.run(spec(algorithms={"TOY": {}}, tune="hindsight"), store)
    assert 11 == len(tuned.trials)
    (scaled,) = experiments.run(spec(algorithms={"TOY": {}}, hit=0.3, permutations=10), store)
    assert 0.3 == pytest.approx(scaled.asked.mean() / ROUNDS, abs=0.02)


def test_the_pair_races(app_store):
    """The page offers the pair, runs it, and shows the sentence of its rule."""
    at = run("pages/2_Compare.py", view="race")
    at.multiselect(key="strategies").set_value(["TOY"]).run()
    assert not at.exception
    (lane,) = json.loads(at.get("bidi_component")[0].proto.json)["lanes"]
    assert ("TOY", Root.sentence) == (lane["title"], lane["sentence"])
    st.cache_resource.clear()


def test_a_deterministic_rule_is_estimated_by_its_random_checks_alone(tmp_path, monkeypatch):
    """Without random checks the reason names the rule; with them the estimates end at the last check."""
    monkeypatch.setitem(QUERY_RULES, "band", Band)
    store = Store(tmp_path / "studio.db")
    datasets.add(store, "stream", datasets.table(stream_of(400)[1]), "made")
    plain, checked = (
        Session(store, create(store, "stream", learner="toy", rule="band", budget=200, horizon=150, **more))
        for more in ({}, {"audit": 0.1})
    )
    label_until_the_end(plain)
    label_until_the_end(checked)
    assert of_session(plain).reason.startswith("The rule band gives some items no chance")
    checks = [entry["round"] for entry in store.answers(checked.id) if entry["audit"]]
    assert (20, checks[-1]) == (len(checks), of_session(checked).closed)


def test_a_broken_promise_fails(monkeypatch):
    """A rule whose probability becomes 0 where the square of the margin overflows fails its promise."""
    monkeypatch.setitem(QUERY_RULES, "square", Square)
    promise = next(check for check in RULE_PROMISES if "stochastic" in check.__name__)
    with pytest.raises(AssertionError):
        promise("perceptron", "square")
