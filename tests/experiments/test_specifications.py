"""Specifications of comparisons: omitted settings take the usual values, and every error is one sentence."""

import re
import tracemalloc

import pytest

from oal_engine import experiments
from oal_engine.experiments import specifications
from oal_engine.experiments.specifications import specification
from oal_engine.kernel.algorithms import ALGORITHMS
from oal_engine.store import Store
from tests.harness import ROOT
from tests.harness.comparing import spec, stored


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with data sets for comparisons, in which no comparison is run."""
    return stored(tmp_path_factory.mktemp("comparing"))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_stands_beside_tuned_ones(name):
    """The default grid of an algorithm has only allowed values; `auto` and its variants have no grid. A parameter
    without values is tuned over the papers' grid, or has its default if nothing is tuned."""
    tuned = experiments.grid(name, {}, "2:1")
    assert not (tuned and name.startswith("auto"))
    assert {} == experiments.grid(name, {}, "none")
    tens = [10.0**k for k in range(-5, 6)]
    assert {"C": tens, "delta": tens} == experiments.grid("PAA-I", {}, "2:1")
    assert {"C": [2]} == experiments.grid("PAA-I", {"C": 2}, "2:1")
    assert {"C": [0.25, 0.5, 1, 2]} == experiments.grid("PAA-I", {"C": "2^-2..2^1"}, "none")


WRONG = [
    ({"epochs": 3}, "a comparison has no setting epochs. It has algorithms,"),
    ({"data": "demo:tweets"}, "data of a comparison must be a list of at least one. Got demo:tweets."),
    ({"data": [3]}, "a data set of a comparison must be a name or a table. Got 3."),
    ({"data": ["a", "a"]}, "data sets must differ. Got a, a."),
    ({"data": ["nothing"]}, "data set nothing does not exist. There are: letters, b, a."),
    ({"data": ["a=x"]}, "a has no class x. It has two."),
    ({"data": ["letters=w"]}, "letters has no class w. It has x, y, z."),
    ({"data": ["demo:cats"]}, "demo must be one of tweets, abstracts, judged. Got cats."),
    ({"data": ["letters"]}, "PAA-I does not work on letters, which has K classes: name one as letters=CLASS."),
    ({"algorithms": {"MPAA": {}}}, "MPAA does not work on a, which has two classes."),
    ({"data": [{}]}, "a data set of a comparison needs a file. Got nothing."),
    ({"data": [{"file": "missing.csv"}]}, "missing.csv cannot be read: No such file or directory."),
    ({"data": [{"file": 3}]}, "file of a data set of a comparison must be a text. Got 3."),
    ({"data": [{"file": "x.csv", "text": [3]}]}, "text of a data set of a comparison must be a list of texts. Got ["),
    ({"data": [{"file": "x.csv", "contains": 1}]}, "contains of a data set of a comparison must be true or false."),
    ({"data": [{"file": "x.csv", "column": "a"}]}, "a data set of a comparison has no setting column. It has name,"),
    ({"algorithms": {}}, "algorithms of a comparison must be a table of at least one. Got {}."),
    ({"algorithms": {"OAAL": 3}}, "the parameters of OAAL must be a table. Got 3."),
    ({"algorithms": {"OAALX": {}}}, "algorithm must be one of auto,"),
    ({"algorithms": {"PAA-I": {"D": 1}}}, "PAA-I has no parameter D. It has C, delta."),
    ({"algorithms": {"PAA-I": {"C": 0}}}, "C of pa-i must be > 0. Got 0."),
    ({"algorithms": {"PAA-I": {"C": []}}}, "C of PAA-I needs at least one value."),
    ({"algorithms": {"PAA-I": {"C": "10^5..10^999"}}}, "powers are too large for a float. Got 10^5"),
    ({"algorithms": {"PAA-I": {"C": "much"}}}, "C of PAA-I must be numbers or powers such as 10^-5..10^5. Got much."),
    ({"algorithms": {"PAA-I": {"C": True}}}, "C of PAA-I must be numbers or powers such as 10^-5..10^5. Got True."),
    ({"algorithms": {"PAA-I": {"C": float("nan")}}}, "C of pa-i must be > 0. Got nan."),
    ({"algorithms": {"PAA-I": {"rho": "known"}}}, "rho of PAA-I must be auto, laplace or a number. Got known."),
    ({"algorithms": {"PAA-I": {"c_p": [0.5, 1]}}}, "c_p of PAA-I must be > 0 and < 1. Got 1."),
    ({"algorithms": {"SOAL": {"rho": 2}}}, "rho of SOAL is fixed at 1. Got 2."),
    ({"algorithms": {"SSOA3": {"m": 2.5}}}, "m of ssacog-ii must be a whole number >= 1"),
    ({"budgets": 100}, "budgets of a comparison must be a list of at least one. Got 100."),
    ({"budgets": [0]}, "a budget must be a whole number >= 1. Got 0."),
    ({"budgets": [9, 9]}, "budgets of a comparison must differ. Got 9, 9."),
    ({"permutations": 0}, "permutations of a comparison must be a whole number >= 1. Got 0."),
    ({"permutations": True}, "permutations of a comparison must be a whole number >= 1. Got True."),
    ({"seed": -1}, "seed of a comparison must be a whole number >= 0. Got -1."),
    ({"seed": 2**64}, "seed of a comparison must be a whole number >= 0. Got 18446744073709551616."),
    ({"tune": "3:1"}, "tune of a comparison must be one of none, 2:1, cv, hindsight, first. Got 3:1."),
    ({"criterion": "auc"}, "criterion of a comparison must be one of sensitivity,"),
    ({"criterion": "macro_f1"}, "criterion on a must be one of sensitivity, specificity,"),
    ({"data": ["letters"], "algorithms": {"MPAA": {}}}, "criterion on letters must be one of accuracy, macro_f1,"),
    ({"metric": "f1"}, "metric of a comparison must be one of sum, cost. Got f1."),
    ({"held_out": True, "tune": "2:1"}, "held_out of a comparison needs tune none, cv or hindsight. Got 2:1."),
    ({"rho": 0}, "rho of a comparison must be > 0. Got 0."),
    ({"alpha_p": 1.0}, "alpha_p of a comparison must be > 0 and < 1. Got 1.0."),
    ({"theta": float("inf")}, "theta of a comparison must be a finite number. Got inf."),
    ({"floor": 1}, "floor of a comparison must be >= 0 and < 1: a share of the budget. Got 1."),
    ({"floor": 0.5, "budgets": [9, None]}, "a floor needs budgets. Got none."),
    ({"floor": 0.5, "budgets": [9], "algorithms": {"MPAA": {}}}, "a floor is for a positive and a negative class."),
    ({"seed_words": "gym"}, "seed_words of a comparison must be a list of texts. Got gym."),
    ({"seed_words": ["gym"]}, "seed words need texts; these items are vectors. Use seed items."),
    ({"seed_items": ["1"], "data": ["letters"], "algorithms": {"MPAA-I": {}}},
     "seed words and items are for a positive and a negative class. Got MPAA-I."),
    ({"hit": 0}, "hit must be a share of the labels, or their number. Got 0."),
    ({"theta": 10**400}, "theta of a comparison must be a number. Got 1000"),
    ({"algorithms": {"PAA-I": {"C": 10**400}}}, "C of PAA-I must be numbers or powers such as 10^-5..10^5. Got 1000"),
    ({"hit": []}, "hits of a comparison must differ. Got none."),
    ({"hit": [0.1, 0.1]}, "hits of a comparison must differ. Got 0.1, 0.1."),
    ({"hit": [0.1, 0.2], "budgets": [5, 9]}, "several hits need one budget, or none. Got 5, 9."),
    ({"hit": 0.1, "algorithms": {"perceptron + positive": {}}},
     "perceptron + positive has no smoothing that could hit a number of labels."),
    ({"times": "yes"}, "times of a comparison must be one of True, False. Got yes."),
]  # fmt: skip


TENS_OF_TENS = {"PAA-I": {"C": "1.01^-499..1.01^500", "delta": "1.01^-499..1.01^500"}}
BOMBS = [
    ({"algorithms": {"PAA-I": {"C": "1.0001^-999..1.0001^999"}}},
     "C of PAA-I must have at most 1,000 values. Got 1,999."),
    ({"hit": "1.0001^-999..1.0001^0"}, None),
    ({"hit": "1.0001^-999..1.0001^1"}, "hit must have at most 1,000 values. Got 1,001."),
    ({"algorithms": TENS_OF_TENS}, "must have at most 10,000 lines (data sets x budgets x hits x settings). Got 1,0"),
    ({"algorithms": TENS_OF_TENS, "tune": "cv"}, None),
    ({"algorithms": {"OAAL": {}}, "tune": "cv", "budgets": [*range(1, 10_002)]}, "must have at most 10,000 lines"),
    ({"permutations": 2**63 - 1}, "a comparison must have at most 10,000,000 replays (lines x permutations"),
    ({"tune": "2:1", "trials": 2**63 - 1}, "a comparison must have at most 10,000,000 replays (lines x permutations"),
    ({"points": 2**63 - 1}, "a comparison must have at most 5,000,000 marks (lines x permutations x points). Got 27"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("changes", "message"), BOMBS)
def test_a_specification_is_counted_before_it_is_enumerated(changes, message):
    """A specification that is too large is refused with the limit and the count, in little memory."""
    tracemalloc.start()
    try:
        if message is None:
            assert spec(**changes).replays
        else:
            with pytest.raises(experiments.ExperimentError, match=re.escape(message)):
                spec(**changes)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_the_count_of_replays_is_that_of_the_runs(store):
    """The estimated number of replays equals the sum over the planned runs, whether they are tuned or swept."""
    for changes in ({"algorithms": {"PAA-I": {"C": [1, 2]}, "OAAL": {}}}, {"tune": "2:1"}, {"hit": [0.1, 0.2]}):
        wanted = spec(data=["a", "b"], **changes)
        runs = experiments.planned_runs(wanted, experiments.sources(wanted, store))
        assert wanted.replays == sum(wanted.work(run.grid) for run in runs)


def test_what_is_too_large_to_run_can_still_be_read():
    """A stored result over today's limits can be opened, but not run."""
    large = specifications.stored({"data": ["a"], "algorithms": {"PAA-I": {}}, "permutations": 10**9})
    with pytest.raises(experiments.ExperimentError, match="at most 10,000,000 replays"):
        experiments.compare(large, None)


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_a_wrong_specification_is_one_sentence(store, tmp_path, changes, message):
    (tmp_path / "x.csv").write_text("id,text,label\n1,a,b\n")
    with pytest.raises(ValueError) as error:  # noqa: PT011
        experiments.compare(spec(**changes), store, folder=tmp_path)
    assert str(error.value).startswith(message) or str(error.value).endswith(message)
    assert "\n" not in str(error.value)
    assert [] == store.comparisons()


@pytest.mark.parametrize("text", ["{", "data = ", '{"data": [}', "[1]", '{"a":' * 10**5, "a = " + "[" * 10**5])
def test_a_file_that_is_no_specification(tmp_path, text):
    """A file without a valid specification, such as broken or very deeply nested JSON, is refused with a one-line
    error."""
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(ValueError, match=r"^x.toml is not a specification|a comparison has no setting") as error:
        specification(specifications.contents(tmp_path / "x.toml"))
    assert "\n" not in str(error.value)


def test_the_specification_that_comes_along_needs_nothing_else(tmp_path):
    """data/compare.toml runs on a fresh clone: six algorithms of the papers, two budgets and 2:1 tuning, over data that
    are all in the project."""
    spec = specification(specifications.contents(ROOT / "data" / "compare.toml"))
    assert ["OAAL", "CSOAL", "PAA-I", "OA3-diag", "SOA3", "D-AMD-I"] == list(spec.algorithms)
    assert ((100, 500), 10, "2:1") == (spec.budgets, spec.permutations, spec.tune)
    sources = experiments.sources(spec, Store(tmp_path / "studio.db"), ROOT / "data")
    assert [4000, 1500] == [source.rounds for source in sources]
    assert len(spec.algorithms) * len(spec.budgets) * 2 == len(experiments.planned_runs(spec, sources))


def test_what_hit_decides_is_not_tuned():
    """The usual grid of an algorithm leaves out the parameters that are scaled to `hit`, and has the settings of a run
    that its paper tunes."""
    values = {"data": ["a"], "algorithms": {"PAA-I": {}, "CSPAA": {}, "OAAL": {}}, "tune": "cv"}
    grids = {hit: specification(values | {"hit": hit} if hit else values).grids for hit in (None, 0.1)}
    assert {name: [*grid] for name, grid in grids[None].items()} == {
        "PAA-I": ["C", "delta"], "CSPAA": ["C", "delta", "rho"], "OAAL": ["delta_plus", "delta_minus", "theta"]
    }  # fmt: skip
    assert {name: [*grid] for name, grid in grids[0.1].items()} == {
        "PAA-I": ["C"], "CSPAA": ["C", "rho"], "OAAL": ["theta"]
    }  # fmt: skip
