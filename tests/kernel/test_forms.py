"""Plain Python and machine code give the same bits."""

import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from scipy.sparse import csr_array

from oal_engine.kernel import drift, jit, query_rules, questions, rows, spending, stream, truncated_svd
from oal_engine.kernel.algorithms import strategy
from oal_engine.kernel.learners import LEARNERS
from oal_engine.kernel.query_rules import QUERY_RULES
from oal_engine.kernel.runs import Run
from tests.harness import ROOT
from tests.harness.promises import arrays, bits, built, data_for, fitting, mixed, run

QUICK = ("pa-i", "asymmetric"), ("pool-f1", "paced"), ("m-ada-md", "discriminative")
RULES = [(learner, rule) for rule in QUERY_RULES for learner in fitting(rule)]
EVERY = [*dict.fromkeys([*QUICK, *RULES, *((learner, "symmetric") for learner in LEARNERS)])]
KINDS = {"sparse": csr_array, "dense": np.asarray, "mixed": mixed}


def nightly(cases, quick):
    return [pytest.param(*each, marks=[pytest.mark.slow] * (each not in quick)) for each in cases]


def digest_of(form, kind, learner, rule, planned):
    """Return the digest of a replay in one form: with averaged weights, or with audits, a floor and a pace."""
    X, y, order = data_for(learner, seed=4, d=40)
    pace = 0.6 if rule in query_rules.paceable() else None
    plan = spending.plan(rule, 40, 110, audit=0.2, pace=pace, floor=0.1) if planned else None
    options = {"budget": 40, "averaged": not planned, "seed": 11, "plan": plan, "theta": 0.01}
    with jit.form(form):
        done = run(KINDS[kind](X), y, order, learner, rule, **options)
    return bits(done.log, done.counts, done.learner)


@pytest.mark.parametrize(
    ("learner", "rule", "kind"),
    nightly(
        [(*pair, kind) for pair in EVERY for kind in KINDS],
        [(*QUICK[0], "sparse"), (*QUICK[1], "mixed"), (*QUICK[2], "sparse")],
    ),
)
def test_a_replay_has_the_same_bits_in_both_forms(learner, rule, kind):
    """Every learner with a rule, and every rule with a learner, on every kind of rows."""
    for planned in (False, True):
        assert len({digest_of(form, kind, learner, rule, planned) for form in (jit.PLAIN, jit.MACHINE)}) == 1


@pytest.mark.parametrize(("learner", "rule"), nightly(EVERY, QUICK[:2]))
def test_the_form_may_change_in_the_middle(learner, rule):
    """A stream that is run to each next question, in one form and then the other by turns, has the bits of a replay."""
    X, y, order = data_for(learner, seed=4)
    table, y = mixed(X), rows.read_only(y, np.int8)
    whole = run(table, y, order, learner, rule, budget=30, seed=11)
    order = stream.checked_order(order, table)
    one = built(learner, table.columns)
    parts = one, query_rules.build(rule, learner), stream.objective()
    counts, log, t = np.zeros_like(whole.counts), [], 0
    while t < order.size:
        with jit.form((jit.PLAIN, jit.MACHINE)[len(log) % 2]):
            asked = stream.until_query(table, y, order, *parts, 11, t, order.size, len(log) < 30, counts)
            if asked.t < order.size:
                log.append((asked.t, asked.margin, asked.probability))
                mean = stream.average(one, False)
                stream.learn(table, order, *parts, mean, asked, y[order[asked.t]], len(log) == 30)
        t = asked.t + 1
    assert bits(whole.log, whole.counts, whole.learner) == bits(np.array(log).reshape(-1, 3), counts, one)


def test_several_questions_drift_and_directions_have_the_same_bits_in_both_forms():
    """Readings of two questions, the capital of the drift detector, and the directions of a truncated SVD."""
    X, y, order = data_for("pa-i", seed=4)
    runs = [Run(strategy("auto"), mixed(X), labels, order, budget=30, seed=3) for labels in (y, -y)]
    values = np.random.default_rng(0).normal(size=(60, 3)).round(1)
    found = []
    for form in (jit.PLAIN, jit.MACHINE):
        with jit.form(form):
            done = questions.replay(runs)
            parts = [array for each in done for array in (each.log, each.curve, *arrays(each.learner))]
            parts += [np.array(drift.alarm(values)[1]), truncated_svd.strongest(rows.as_rows(csr_array(X)), 3)]
            found.append([part.tobytes() for part in parts])
    assert found[0] == found[1]


BEGINS = """
import sys
from oal_engine.kernel import learners, query_rules, rows, stream
table = rows.as_rows([[1, 0], [0, 1]])
parts = learners.build("pool-f1", 2), query_rules.build("paced", "pool-f1"), stream.objective()
stream.replay(table, [1, -1], [0, 1], *parts)
print(sorted({"numba", "llvmlite", "scipy", "pandas", "sklearn"} & {*sys.modules}))
"""


def test_plain_python_needs_no_numba(tmp_path):
    """Where nothing was ever compiled, a small replay imports neither numba nor scipy."""
    environment = {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", BEGINS], env=environment, capture_output=True, text=True)
    assert ("[]\n", "") == (done.stdout, done.stderr)


class FakeMachineCode:
    """Stands in for numba: it holds what is loaded and what is on disk, and says "machine" where it runs."""

    def __init__(self):
        self.loaded, self.on_disk = set(), set()

    def let_call(self, function, resolve):
        pass

    def compiled(self, function):
        return lambda *arguments: self.loaded.add(arguments) or "machine"

    def is_loaded(self, function, arguments):
        return arguments in self.loaded

    def types_of(self, arguments):
        return arguments

    def is_on_disk(self, function, types):
        return types in self.on_disk


def test_each_call_chooses_its_form(monkeypatch):
    """Large work is compiled; small work runs in plain Python until its machine code is in memory or on disk."""
    fake = FakeMachineCode()
    monkeypatch.setattr(jit, "_imported", cache(lambda: fake))
    monkeypatch.setattr(jit, "any_on_disk", lambda: False)

    @jit.entrance(lambda seconds: seconds)
    def work(seconds):
        return "plain"

    with jit.form(None):
        assert ("plain", "plain") == (work(0.01), work(jit.LONG_SECONDS))
        assert ("machine", "plain") == (work(1 + jit.LONG_SECONDS), work(0.01))
        fake.on_disk.add((0.5,))
        assert "machine" == work(0.5)
        fake.on_disk.add((0.01,))
        assert "plain" == work(0.01)  # it was not there when this process looked
        jit.look_again()
        assert "machine" == work(0.01)
