"""The Compare page without a browser: its form, its jobs and its results."""

import os
import re
from functools import partial

import pytest

from oal_engine import experiments
from oal_engine.experiments import jobs, specifications
from oal_engine.kernel.algorithms import ALGORITHMS
from oal_engine.kernel.learners import is_multiclass
from tests.harness import pages
from tests.harness.examples import NAME, compared, imported
from tests.harness.markup import MARKUP

run = partial(pages.run, "pages/2_Compare.py")


@pytest.fixture
def store(app_store, monkeypatch):
    """The store of a fresh app, in which jobs are recorded but not run."""
    monkeypatch.setattr(jobs, "start", lambda store, comparison: store.put_job(comparison, os.getpid(), "never"))
    return app_store


def words(at):
    return " ".join(str(element.proto.body) for element in at.get("html"))


def test_one_click_on_an_empty_database_starts_a_comparison(store):
    """The form's defaults compare tuned algorithms on the demo's tweets."""
    at = run()
    pages.press(at, "compare-send")
    (row,) = store.comparisons()
    assert ["demo:tweets"] == row["specification"]["data"]
    assert "auto" in row["specification"]["algorithms"]
    assert ("2:1", [100, 300]) == (row["specification"]["tune"], row["specification"]["budgets"])
    assert at.query_params["comparison"] in (str(row["id"]), [str(row["id"])])


def test_the_form_becomes_the_specification(store, tmp_path):
    imported(store, tmp_path)
    at = run()
    at.selectbox(key="compare-tune").select("none").run()
    at.multiselect(key="compare-algorithms-False").set_value(["OAAL", "cspaa + asymmetric"]).run()
    at.text_input(key="compare-OAAL-delta_plus").set_value("10^-1..10^1")
    at.text_input(key="compare-OAAL-delta_minus").set_value("0.1, 1")
    at.text_input(key="compare-cspaa + asymmetric-C").set_value("2")
    at.text_input(key="compare-budgets").set_value("5, none")
    at.number_input(key="compare-runs").set_value(3)
    at.selectbox(key="compare-criterion-False").select("cost")
    at.text_input(key="compare-name").set_value("my own").run()
    assert "about 42 replays" in [text.value for text in at.text]
    pages.press(at, "compare-send")
    specification = store.comparison("my own")["specification"]
    assert {
        "OAAL": {"delta_plus": "10^-1..10^1", "delta_minus": [0.1, 1.0]},
        "cspaa + asymmetric": {"C": [2.0]},
    } == specification["algorithms"]
    expected = {"data": [NAME], "budgets": [5, None], "permutations": 3, "criterion": "cost", "tune": "none"}
    assert expected == {key: specification[key] for key in expected}


def test_a_value_that_is_typed_leaves_the_other_parameters_tuned(store, tmp_path):
    imported(store, tmp_path, items=400)
    at = run()
    at.multiselect(key="compare-algorithms-False").set_value(["PAA-I"]).run()
    at.text_input(key="compare-PAA-I-C").set_value("2").run()
    at.button(key="compare-send").click().run()
    (row,) = store.comparisons()
    tens = specifications.powers(specifications.TENS)
    assert {"C": [2.0], "delta": tens} == row["specification"]["algorithms"]["PAA-I"]


def test_data_that_the_budgets_do_not_fit_are_refused(store, tmp_path):
    """The largest labeled data set is chosen at first. A data set with fewer items than a budget or a target has labels
    is refused in one sentence, and the comparison cannot be started."""
    imported(store, tmp_path, "large", items=400)
    imported(store, tmp_path, "small <b>", items=24)
    imported(store, tmp_path, "classes", items=60, classes=3)
    at = run()
    assert ["large"] == at.multiselect(key="compare-data").value
    assert "compare-send" in [button.key for button in at.button]
    cases = [
        (["large", "small <b>"], "100, 300", "", "small &lt;b&gt; has 24 items, too few for 300 labels"),
        (["classes=a" + MARKUP], "none, 61", "", "has 60 items, too few for 61 labels"),
        (["small <b>"], "24", "", ""),
        (["small <b>"], "", "0.5, 25", "small &lt;b&gt; has 24 items, too few for 25 labels"),
    ]
    for data, budgets, target, sentence in cases:
        at.multiselect(key="compare-data").set_value(data)
        at.text_input(key="compare-budgets").set_value(budgets)
        at.text_input(key="compare-hit").set_value(target).run()
        assert sentence in words(at)
        assert bool(sentence) != ("compare-send" in [button.key for button in at.button])


def test_a_job_that_has_ended_no_replay_says_that_it_compiles(store, tmp_path):
    imported(store, tmp_path)
    spec = experiments.specification({"data": [NAME], "algorithms": {"OAAL": {}}})
    comparison = experiments.begin(spec, store, "new")
    store.put_job(comparison, os.getpid(), jobs.started(os.getpid()))

    def said():
        (progress,) = run(comparison=comparison).get("progress")
        return progress.proto.text

    assert "Starting…" == said()
    store.advance_job(comparison, os.getpid(), 0, 60)
    assert re.fullmatch(r"0 of 60 replays\. No replay .* are compiled first, for \d+ seconds so far\.", said())
    store.advance_job(comparison, os.getpid(), 30, 60)
    assert re.fullmatch(r"30 of 60 replays, about \d+ seconds left", said())


@pytest.mark.slow
def test_several_target_labels_are_drawn_over_the_share_asked(store, tmp_path):
    """Several target shares of labels can be chosen only with a single budget or none. Their result is one chart over
    the share of labels asked for."""
    imported(store, tmp_path)
    at = run()
    at.text_input(key="compare-hit").set_value("0.2, 0.5").run()
    assert "several hits need one budget, or none. Got 100, 300." in words(at)
    at.text_input(key="compare-budgets").set_value("").run()
    assert "auto has no smoothing" not in words(at)
    at.button(key="compare-send").click().run()
    (row,) = store.comparisons()
    assert [0.2, 0.5] == row["specification"]["hit"]
    comparison = compared(store, "hits", data=[NAME], budgets=[None], hit=[0.2, 0.5], times=True)
    at = run(comparison=comparison)
    assert ("share", 1) == (at.selectbox(key="over").value, len(at.get("plotly_chart")))
    for metric in ("query_ratio", "seconds"):
        at.selectbox(key="metric").select(metric).run()
        at.selectbox(key="over").select("rounds").run()
        assert not at.exception
        assert 2 == len(at.get("plotly_chart"))
    at = run(comparison=comparison, block=f"{NAME}, 50 % of labels asked", over="items streamed", metric="Query ratio")
    assert ("rounds", "query_ratio") == (at.selectbox(key="over").value, at.selectbox(key="metric").value)


def test_weights_with_several_values_are_swept_by_every_algorithm(store, tmp_path):
    imported(store, tmp_path, items=400)
    at = run()
    at.selectbox(key="compare-tune").select("none").run()
    at.multiselect(key="compare-algorithms-False").set_value(["PAA-I", "CSOAL"]).run()
    at.text_input(key="compare-c_p").set_value("0.5, 0.9")
    at.text_input(key="compare-rho").set_value("laplace")
    at.text_input(key="compare-alpha_p").set_value("0.7").run()
    pages.press(at, "compare-send")
    (row,) = store.comparisons()
    specification = row["specification"]
    assert {"PAA-I": {"c_p": [0.5, 0.9]}, "CSOAL": {"c_p": [0.5, 0.9]}} == specification["algorithms"]
    assert (0.7, "laplace") == (specification["alpha_p"], specification["rho"])


def test_algorithms_are_those_that_work_on_the_data(store, tmp_path):
    """The form offers multi-class or binary algorithms, as the data require. If the chosen data sets need both kinds,
    it asks to choose one kind."""
    imported(store, tmp_path, classes=3)
    at = run()
    offered = at.multiselect(key="compare-algorithms-True").options
    assert [name for name, each in ALGORITHMS.items() if is_multiclass(each.learner)] == [
        name for name in offered if "+" not in name
    ]
    assert "m-pa-i + symmetric" in offered
    one = f"{NAME}=a{MARKUP}"
    at.multiselect(key="compare-data").set_value([one]).run()
    assert not at.exception
    assert {"OAAL", "cspaa + asymmetric"} <= {*at.multiselect(key="compare-algorithms-False").options}
    at.multiselect(key="compare-data").set_value([NAME, one]).run()
    assert not at.exception
    assert "choose one kind" in words(at)


INVALID = [
    ("compare-budgets", "ten", "Budgets must be whole numbers &gt;= 1 separated by commas, or none. Got ten."),
    ("compare-budgets", ",".join(["1"] * 1001), "Budgets must have at most 1,000 values. Got 1,001."),
    ("compare-OAAL-delta_plus", "x<b>", "Got x&lt;b&gt;."),
    ("compare-hit", "some", "Target number of labels must be a number, several (1, 10), or powers such"),
    ("compare-c_p", "0.5, 0.9", "Several weights make a sweep, which cannot be tuned: take parameters as given."),
    ("compare-rho", "much", "Weight of positives in learning (rho) must be a number"),
]


@pytest.mark.slow
def test_an_invalid_field_is_refused_in_one_sentence(store, tmp_path):
    imported(store, tmp_path)
    for field, value, sentence in INVALID:
        at = run()
        at.text_input(key=field).set_value(value).run()
        assert not at.exception
        assert sentence in words(at)
        assert "compare-send" not in [button.key for button in at.button]


@pytest.mark.slow
def test_a_result_has_its_tables_and_details(store, tmp_path):
    """A result shows each kind of detail on demand, and can be compared with another. Names are never markup."""
    imported(store, tmp_path)
    one = compared(store, f"one {MARKUP}", data=[NAME], tune="2:1", algorithms={"PAA-I": {"C": [1, 10]}, "OAAL": {}})
    compared(store, "two", data=[NAME], seed=5)
    at = run(comparison=one)
    assert MARKUP not in words(at)
    (choice,) = [each for each in at.get("button_group") if each.key == "details"]
    shown = {"p-values": "Wilcoxon", "Compare with …": "Difference", "Average ranks": "Nemenyi", "Settings tried": "",
             "Specification": ""}  # fmt: skip
    for kind, expected in shown.items():
        at.segmented_control(key="details").set_value(kind).run()
        assert not at.exception, kind
        assert expected in words(at)
    assert sorted(choice.options) == sorted(shown)
    at.selectbox(key="metric").select("cost").run()
    at.selectbox(key="over").select("rounds").run()
    at.selectbox(key="evaluation").select("push_query").run()
    assert not at.exception
    assert "push-and-query evaluation" in words(at)


@pytest.mark.slow
def test_a_sweep_and_several_classes_have_their_result(store, tmp_path):
    """A sweep of one parameter is a chart, of two parameters a heat map over the two charts of any result. Every
    parameter can be the axis."""
    imported(store, tmp_path)
    imported(store, tmp_path, "three", classes=3)
    values = {"delta_plus": [0.1, 1], "delta_minus": [0.1, 1]}
    sweep = compared(store, "sweep", data=[NAME], algorithms={"OAAL": values}, budgets=[20])
    line = compared(store, "line", data=[NAME], algorithms={"OAAL": {"delta": [0.1, 1]}}, budgets=[20])
    many = compared(store, "many", data=["three"], algorithms={"MPAA-I": {}}, criterion="accuracy")
    for comparison, charts in ((sweep, 3), (line, 1), (many, 2)):
        at = run(comparison=comparison)
        assert charts == len(at.get("plotly_chart"))
    assert "Balanced accuracy" in words(at)
    at = run(comparison=sweep)
    at.selectbox(key="over").select("delta_plus").run()
    assert not at.exception
    assert 2 == len(at.get("plotly_chart"))


def test_comparisons_are_listed_with_their_state_and_deleted(store, tmp_path):
    """The newest comparison is listed first, and a comparison is deleted after a confirmation. A comparison whose
    process died says so and can be resumed."""
    imported(store, tmp_path)
    spec = experiments.specification({"data": [NAME], "algorithms": {"OAAL": {}}})
    first, second = (experiments.begin(spec, store, name) for name in ("first", "second"))
    store.put_job(second, os.getpid(), "long ago")
    at = run()
    text = words(at)
    assert text.index("lost its process") < text.index("not finished")
    at.button(key=f"compare-remove-{first}").click().run()
    assert 2 == len(store.comparisons())
    at.button(key="remove-sure").click().run()
    assert ["second"] == [row["name"] for row in store.comparisons()]
    at = run(comparison=second)
    assert jobs.LOST in words(at)
    at.button(key="compare-go-on").click().run()
    assert "never" == store.job(second)["started"]
