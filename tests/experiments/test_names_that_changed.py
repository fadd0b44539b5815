"""Comparisons and sessions of earlier versions keep what they ran, although some names mean something else today."""

import json

import pytest

from oal_engine import experiments
from oal_engine.kernel.algorithms import FORMER
from oal_engine.sessions.settings import create
from oal_engine.store.migrations import m2026_11_24_names_that_changed as migrated
from oal_engine.store.migrations import m2026_11_25_auto_of_before as auto_migrated
from tests.harness.comparing import spec, stored

SYMMETRIC = {"delta_plus": 0.1, "delta_minus": 0.1}
ASYMMETRIC = {"OAAL": SYMMETRIC, "pa + asymmetric": {"delta_plus": 1.0, "delta_minus": 0.1}}
NOW = {
    "acog-ii + variance": {},
    "cpa + all": {"C": [1.0, 10.0]},
    "cpa + all ": {},
    "PAA": {},
    "q_a": {"delta": 2.0},
    **ASYMMETRIC,
}
BEFORE = {
    "soal-cs": {},
    "cpa + all": NOW["cpa + all"],
    "CPA": {},
    "PAA": {},
    "q_a": {"delta": 2.0},
    "OAAL": {},
    "pa + asymmetric": {"delta_plus": 1.0},
}


@pytest.fixture
def old(tmp_path):
    """A store with a comparison as version 0.2.0 stored it: its lines have only the parameters that were set."""
    store = stored(tmp_path)
    experiments.compare(spec(algorithms=NOW, budgets=[20]), store, "old")
    names = dict(zip(NOW, BEFORE))
    kept = store.comparison("old")
    lines = kept["lines"]
    for line in lines:
        for key in SYMMETRIC.keys() & line["setting"].keys() - BEFORE[names[line["algorithm"]]].keys():
            del line["setting"][key]
        line["algorithm"] = names[line["algorithm"]]
    with store.transaction():
        values = [json.dumps(kept["specification"] | {"algorithms": BEFORE}), json.dumps(lines)]
        store.db.execute("UPDATE comparisons SET specification = ?, lines = ?", values)
    return store


@pytest.mark.slow
def test_a_comparison_says_what_it_ran(old):
    """A migration writes out the learner, rule and parameters that a name implied in version 0.2.0. A new run then
    gives the stored result."""
    with old.transaction():
        migrated(old.db)
    comparison = experiments.load(old, "old")
    assert list(NOW.items()) == list(comparison.spec.algorithms.items())
    again = experiments.run(comparison.spec, old)
    assert [(line.algorithm, line.setting, line.jobs) for line in again] == [
        (line.algorithm, line.setting, line.jobs) for line in comparison.lines
    ]


def test_a_tuned_comparison_keeps_its_grid(tmp_path):
    """If parameters were tuned over their default grids, the migration writes no values into the specification."""
    store = stored(tmp_path)
    experiments.begin(spec(algorithms={"OAAL": {}, "CPA": {}}, tune="2:1"), store, "tuned")
    with store.transaction():
        migrated(store.db)
    assert {"OAAL": {}, "cpa + all": {}} == store.comparison("tuned")["specification"]["algorithms"]
    assert store.comparison("tuned")["lines"] is None


def test_a_session_says_what_it_ran(store):
    """If an algorithm's name means another pair of learner and rule today, old sessions with this name are renamed to
    the pair that they use. Other sessions keep their names."""
    parts = [*((name, *parts) for name, parts in FORMER.items()), ("PAA", "pa", "symmetric"), ("CPA", "cpa-pb", "all")]
    for name, learner, rule in parts:
        store.update_session(create(store, "a", learner=learner, rule=rule), {"algorithm": name})
    with store.transaction():
        migrated(store.db)
        auto_migrated(store.db)
    names = [store.session(k)["algorithm"] for k in range(1, len(parts) + 1)]
    assert [*(" + ".join(parts) for parts in FORMER.values()), "PAA", "CPA"] == names


@pytest.mark.slow
@pytest.mark.parametrize("tune", ["none", "2:1"])
def test_a_comparison_with_the_former_auto_says_what_it_ran(tmp_path, tune):
    """A migration replaces `auto` in an old comparison with the untuned learner and rule that it stood for. The result
    equals a comparison of this pair."""
    store = stored(tmp_path)
    was = {"auto": {}, "pool + paced": {"C": 2.0}, "PAA-I": {"C": 1.0} if tune != "none" else {}}
    now = {"pool + paced ": {"temperature": 0.05}, "pool + paced": {"C": 2.0}, "PAA-I": was["PAA-I"]}
    experiments.compare(spec(algorithms=now, budgets=[20], tune=tune), store, "old")
    kept = store.comparison("old")
    before = json.loads(
        json.dumps(kept["lines"]).replace("pool + paced ", "auto").replace('{"temperature": 0.05}', "{}")
    )
    with store.transaction():
        values = [json.dumps(kept["specification"] | {"algorithms": was}), json.dumps(before)]
        store.db.execute("UPDATE comparisons SET specification = ?, lines = ?", values)
        auto_migrated(store.db)
    after = store.comparison("old")
    assert (kept["specification"], kept["lines"]) == (after["specification"], after["lines"])
