"""The published numbers: german over the 20 recorded orders, through the kernel and through the command line."""

import json

import numpy as np
import pytest

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.datasets.reading import sources
from oal_engine.kernel import metrics, stream
from oal_engine.kernel.algorithms import strategy

# learner, parameters, and in percent: mean and sample deviation of sum, mean sensitivity, mean specificity
GERMAN = [
    ("perceptron", {}, 53.760, 1.655, 35.133, 72.386),
    ("pa-i", {"C": 10}, 53.043, 1.902, 34.000, 72.086),
    ("arow", {"r": 0.1}, 59.948, 1.295, 26.367, 93.529),
    ("cog-i", {"eta": 100}, 54.424, 1.474, 36.083, 72.764),
    ("acog-i", {"eta": 100}, 63.150, 1.025, 49.050, 77.250),
    ("acog-i-diag", {"eta": 100}, 61.765, 1.195, 47.517, 76.014),
]


@pytest.fixture
def files(shared):
    return shared("german.libsvm.xz"), shared("german.ID_ALL.txt.xz")


@pytest.mark.parametrize(("learner", "values", "sum_", "deviation", "sensitivity", "specificity"), GERMAN)
def test_german_as_published(files, learner, values, sum_, deviation, sensitivity, specificity):
    """Table 2 of the ACOG paper is reproduced to the last printed digit, with rho = T_n / T_p and unit rows."""
    table = datasets.table(reading.read(files[0]))
    with sources.COMPRESSIONS[".xz"](files[1], "rt") as lines:
        orders = [np.array(line.split(), int) - 1 for line in lines]
    evaluations = []
    for order in orders:
        parts = strategy(learner=learner, rule="all", values=values).build(table.rows.columns)
        replay = stream.replay(table.rows, table.y, order, *parts, stream.objective(rho=700 / 300))
        evaluations.append(metrics.evaluate(replay.counts, "push"))
    percent = {
        key: 100 * np.array([evaluation[key] for evaluation in evaluations])
        for key in ("sum", "sensitivity", "specificity")
    }
    assert 20 == len(orders)
    assert (sum_, deviation, sensitivity, specificity) == (
        round(percent["sum"].mean(), 3),
        round(percent["sum"].std(ddof=1), 3),
        round(percent["sensitivity"].mean(), 3),
        round(percent["specificity"].mean(), 3),
    )


@pytest.mark.parametrize(("learner", "values", "sum_", "deviation", "sensitivity", "specificity"), GERMAN)
def test_german_by_the_command_line(files, command, learner, values, sum_, deviation, sensitivity, specificity):
    """The documented line gives the same means and sample deviations, as fractions, to 1e-5."""
    settings = [part for key, value in values.items() for part in ("--set", f"{key}={value}")]
    line = ["replay", *files[:1], "--learner", learner, "--rule", "all", *settings, "--orders", files[1], "--json"]
    output = json.loads(command(*line)[1])
    mean, std = output["mean"]["push"], output["std"]["push"]
    expected = pytest.approx([part / 100 for part in (sum_, deviation, sensitivity, specificity)], abs=1e-5)
    assert expected == [mean["sum"], std["sum"], mean["sensitivity"], mean["specificity"]]
    assert 1000 == output["mean"]["queried"]
    assert output["mean"]["push_query"]["sensitivity"] == 1
