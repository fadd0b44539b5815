"""The command line reproduces the published numbers of german over the 20 recorded orders."""

import json

import pytest

# learner, parameters, and in percent: mean and sample deviation of sum, mean sensitivity, mean specificity
GERMAN = [
    ("perceptron", {}, 53.760, 1.655, 35.133, 72.386),
    ("pa-i", {"C": 10}, 53.043, 1.902, 34.000, 72.086),
    ("arow", {"r": 0.1}, 59.948, 1.295, 26.367, 93.529),
    ("cog-i", {"eta": 100}, 54.424, 1.474, 36.083, 72.764),
    ("acog-i", {"eta": 100}, 63.150, 1.025, 49.050, 77.250),
    ("acog-i-diag", {"eta": 100}, 61.765, 1.195, 47.517, 76.014),
]


@pytest.mark.slow
@pytest.mark.parametrize(("learner", "values", "sum_", "deviation", "sensitivity", "specificity"), GERMAN)
def test_german_by_the_command_line(shared, command, learner, values, sum_, deviation, sensitivity, specificity):
    """The documented command gives the published means and deviations of table 2 of the ACOG paper, to 1e-5."""
    settings = [part for key, value in values.items() for part in ("--set", f"{key}={value}")]
    data, orders = shared("german.libsvm.xz"), shared("german.ID_ALL.txt.xz")
    line = ["replay", data, "--learner", learner, "--rule", "all", *settings, "--orders", orders, "--json"]
    output = json.loads(command(*line)[1])
    mean, std = output["mean"]["push"], output["std"]["push"]
    expected = pytest.approx([part / 100 for part in (sum_, deviation, sensitivity, specificity)], abs=1e-5)
    assert expected == [mean["sum"], std["sum"], mean["sensitivity"], mean["specificity"]]
    assert 1000 == output["mean"]["queried"]
    assert output["mean"]["push_query"]["sensitivity"] == 1
