"""Comparisons in which several questions are asked about each item: metrics of each question, their mean and the worst
one."""

import json
import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from oal_engine import experiments
from oal_engine.datasets import Dataset
from oal_engine.experiments import replays, report
from oal_engine.experiments.sources import stored_questions
from oal_engine.experiments.specifications import specification
from oal_engine.kernel import metrics
from tests.harness import ROOT
from tests.harness.comparing import days

ALGORITHMS = {"auto": {}, "PAA-I": {"C": [0.1, 1], "delta": 1}}


@pytest.fixture
def data(tmp_path, store):
    """A stored data set of 90 texts with the labels `a` and `b`, as words in one column and as 1 or 0 in the columns
    `x` and `y`."""
    entry = {"file": days(tmp_path, 90).name, "label": "topics", "contains": True, "positive": ["a"]}
    experiments.labeled_data(store, entry, tmp_path)
    return Dataset(store, "days")


def spec(**values):
    """Return a small comparison of two questions, with some values replaced."""
    small = {"data": ["days"], "algorithms": ALGORITHMS, "budgets": [20], "permutations": 2, "points": 4}
    return specification(small | {"questions": ["a", "b"]} | values)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"points": 1, "average": True},
        {"rho": "laplace", "budgets": [None]},
        {"tune": "2:1", "algorithms": {"PAA-I": {"C": [0.1, 1, 10]}}},
        {"tune": "cv", "held_out": True},
    ],
)
def test_one_question_is_a_comparison_of_today(data, store, changes):
    """With one question, settings, counts, lists, tests and ranks equal those of a plain comparison to the bit."""
    today, one = (experiments.compare(spec(questions=names, **changes), store, str(names)) for names in ([], ["a"]))
    for line, same in zip(today.lines, one.lines):
        assert line.counts.tobytes() == same.counts[:, :, 0].tobytes()
        assert (line.setting, line.trials, line.asked.tolist()) == (same.setting, same.trials, same.asked.tolist())
        assert line.listed is None or line.listed.tobytes() == same.listed[:, 0].tobytes()
        for axis in ("rounds", "labels"):
            curves = zip(today.curve(line, "f1", "push", axis), one.curve(same, "f1", "push", axis))
            assert all(own.tobytes() == other.tobytes() for own, other in curves)
    shown = [each.as_json() for each in (today, one)]
    for key in ("tests", "ranks"):
        assert shown[0][key] == shown[1][key]
    for old, new in zip(shown[0]["results"], shown[1]["results"]):
        assert all(run.items() <= same.items() for run, same in zip(old["runs"], new["runs"]))


@pytest.mark.parametrize("names", [("a", "b"), ("x", "y")])
def test_the_figures_are_those_of_a_replay(data, store, names):
    """In every run, each question has the metrics of `replay --questions`. A result line has their mean and the worst
    of them."""
    result = experiments.compare(spec(questions=names), store).as_json()["results"]
    for line in result:
        chosen = experiments.chosen(line["algorithm"], line["settings"], several=True)
        options = replays.ReplayOptions(permutations=2, budget=20)
        expected = replays.replay_questions(chosen, data, stored_questions(data, names), options=options)
        for run, other in zip(line["runs"], expected["runs"]):
            assert run["queried"] == other["readings"]
            assert run["worst"] == other["all"]["worst"]
            for name in (*metrics.EVALUATIONS, metrics.LIST):
                assert all(run["questions"][each][name] == other["questions"][each][name] for each in names)
                assert {key: run[name][key] for key in ("sum", "f1")} == other["all"]["mean"][name]
        assert line["mean"]["worst"] == expected["mean"]["all"]["worst"]


@pytest.mark.slow
def test_any_workers_and_a_stored_result_give_the_same_json(data, store):
    wanted = spec(tune="hindsight")
    with ProcessPoolExecutor(2, get_context("spawn")) as processes:
        first = json.dumps(experiments.compare(wanted, store, "processes", processes).as_json())
    assert first == json.dumps(experiments.compare(wanted, store, "threads").as_json())
    assert first == json.dumps(experiments.load(store, "threads").as_json())


@pytest.mark.slow
def test_the_command_and_its_files(data, store, command):
    """The table has a line with the worst question, and the CSV has a row for each line, run and question."""
    line = ["compare", "days", "--algorithms", "auto", "--budget", 20, "--permutations", 2, "--questions", "b, a"]
    code, out, err = command(*line, "--save", "both", "--db", store.path)
    assert (0, "") == (code, err)
    assert "mean over the questions that each reading answers: b, a" in out
    assert "worst question" in out
    result = json.loads(command("results", "both", "--json", "--db", store.path)[1])
    assert ["b", "a"] == result["specification"]["questions"]
    comparison = experiments.load(store, "both")
    frame = report.frame(comparison)
    assert ["b", "a", "b", "a"] == frame["question"].tolist()
    assert result["results"][0]["mean"]["push"]["f1"] == pytest.approx(frame["push_f1"].mean())
    (row,) = report.table(comparison, "days", 20, "push")
    worst = result["results"][0]["mean"]["worst"]["push"]["f1"]
    assert worst == row.further["F1 of the worst question"] <= row.cells["f1"][0]
    assert b"worst question" in report.page(comparison)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"questions": "a,b"}, "questions of a comparison must be a list of texts. Got a,b."),
        ({"questions": ["a", "a"]}, "questions of a comparison must differ. Got a, a."),
        ({"questions": ["x", "c"]}, "The positive label 'x' does not occur in column 'topics' of days, which holds"),
        ({"questions": ["a", "c"]}, "; columns kept with its items: x, y."),
        ({"data": ["letters"]}, "questions of letters must be columns kept with its items: none. Got a, b."),
        ({"data": ["letters=x"]}, "questions need a whole data set, such as letters. Got letters=x."),
        ({"algorithms": {"auto-classes": {}}}, "questions need algorithms for two classes. Got auto-classes."),
        ({"algorithms": {"auto": {"exponent": 0.5}}}, "exponent of auto is fixed at 0.3. Got 0.5."),
        ({"floor": 0.5}, "a comparison with questions must have no floor. Got 0.5."),
        ({"seed_items": ["1"]}, "a comparison with questions must have no seed_items. Got ('1',)."),
        ({"points": 50_000, "questions": [*map(str, range(30))]}, "a comparison must have at most 5,000,000 marks"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(data, store, changes, message):
    """Names that are not questions of the data, and settings that exist for one question only, are refused before
    anything runs."""
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        experiments.compare(spec(**changes), store)
    assert str(error.value).startswith(message) or str(error.value).endswith(message)
    assert "\n" not in str(error.value)
    assert [] == store.comparisons()


@pytest.mark.slow
def test_the_guide_runs(monkeypatch, tmp_path):
    """The last Python example of the guide gives a data frame with rows of `auto` for both questions."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "many-questions.md").read_text(encoding="utf-8")
    *_, block = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {}
    exec(block, names)
    frame = names["found"].frame
    assert {("auto", "sunny"), ("auto", "windy")} < {*zip(frame["algorithm"], frame["question"])}
