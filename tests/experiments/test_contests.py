"""Tuned runs equal the kernel's replays, and tuning uses no test row."""

import numpy as np
import pytest

from oal_engine import datasets, experiments
from oal_engine.datasets import prior
from oal_engine.experiments import report, specifications, worker
from oal_engine.experiments.replays import ReplayOptions, replay
from oal_engine.kernel import metrics, rows, spending, stream
from oal_engine.kernel.algorithms import strategy
from oal_engine.kernel.runs import Run, class_ratio, tuning_and_test_items
from oal_engine.store import Store
from tests.harness.comparing import ROUNDS, spec, table

# A line equals the kernel's replays


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "setting", "changes"),
    [
        ("PAA-I", {"C": 0.5, "delta": 0.2}, {}),
        ("OAAL", {"delta_plus": 1, "delta_minus": 0.2}, {"seed": 7, "budgets": [9]}),
        ("CSOAL", {"rho": "laplace"}, {"theta": 0.1, "alpha_p": 0.7}),
        ("CSOAL", {"rho": 2.5}, {"average": True, "budgets": [12]}),
        ("OA3", {"eta": 0.1}, {"metric": "cost", "c_p": 0.8}),
        ("SOAL", {"delta": 0.3}, {}),
        ("acog-i-diag + random", {"q": 0.4, "gamma": 2}, {}),
        ("PAA-I", {"delta": 0.2}, {"floor": 0.6, "budgets": [20]}),
    ],
)
def test_runs_equal_the_kernels_replays(store, algorithm, setting, changes):
    """In each run, the counts at every mark (recorded point of the stream) equal the counts of stream.replay with the
    same item order, seed, rho and budget, bit for bit."""
    wanted = spec(algorithms={algorithm: setting}, **changes)
    (line,) = experiments.compare(wanted, store).lines
    data, chosen = table(0), experiments.chosen(algorithm, setting)
    weights = metrics.Weights(wanted.alpha_p, wanted.c_p)
    rho = {"laplace": 0.0, "auto": weights.ratio("sum") * (data.y < 0).sum() / (data.y > 0).sum()}
    if wanted.metric == "cost":
        rho["auto"] = weights.ratio("cost")
    rho = chosen.rho or rho.get(setting.get("rho", "auto"), setting.get("rho"))
    for k in range(3):
        seed = wanted.seed + k
        replay = stream.replay(
            data.rows, data.y, stream.shuffled(ROUNDS, seed), *chosen.build(4),
            stream.objective(wanted.theta, rho, weights.ratio("sum")), budget=wanted.budgets[0], seed=seed,
            averaged=wanted.average, marks=[18, 36, 54, 72, 90],
            plan=spending.plan(chosen.rule, wanted.budgets[0], ROUNDS, floor=wanted.floor),
        )  # fmt: skip
        assert replay.curve.tolist() == line.counts[k, line.label_marks :].tolist()
        assert replay.queried == line.asked[k]


@pytest.mark.parametrize(
    "changes", [{"points": 2}, {}, {"floor": 0.6}, {"floor": 0.6, "budgets": [ROUNDS], "alpha_p": 0.7}, {"seeded": 2}]
)
def test_runs_equal_those_of_replay(store, changes):
    """Both evaluations, the final list and the guaranteed minima of each run equal those of `replay`, whether the
    budget is spent early or lasts to the end, and with the same prior. Loading the comparison does not change them."""
    data, values = datasets.Dataset(store, "a"), {"budgets": [20]} | changes
    seeds = [str(k) for k in np.flatnonzero(data.y > 0)[: values.pop("seeded", 0)]]
    wanted = spec(**values, seed_items=seeds)
    made = experiments.compare(wanted, store)
    options = ReplayOptions(
        permutations=3, seed=wanted.seed, budget=wanted.budgets[0], floor=wanted.floor, alpha_p=wanted.alpha_p,
        prior=prior.make_prior(data, items=seeds),
    )  # fmt: skip
    expected = replay(experiments.chosen("PAA-I", {}), data, options=options)
    for each in (made, experiments.load(store, made.name)):
        (line,) = each.as_json()["results"]
        for key in (*metrics.EVALUATIONS, metrics.LIST, *["floor"] * bool(wanted.floor)):
            assert [run[key] for run in expected["runs"]] == [run[key] for run in line["runs"]]
        mean = line["mean"]["list"]["f1"]
        assert mean == report.frame(each)["list_f1"].mean() == each.values(each.lines[0], "f1", "list").mean()
        (row,) = report.table(each, "a", wanted.budgets[0], "push")
        assert row.further["F1 of the list"] == pytest.approx(mean)


def test_the_curve_is_over_the_runs(store):
    """A curve has, at each mark (recorded point), the round, the mean number of labels, and the metric's mean and
    standard deviation over runs."""
    comparison = experiments.compare(spec(budgets=[10]), store)
    (line,) = comparison.lines
    items, asked, mean, std = comparison.curve(line, "sum", "push_query")
    values = metrics.evaluate(line.counts[:, line.label_marks :], "push_query")["sum"]
    assert [18, 36, 54, 72, 90] == items.tolist()
    assert 10 == asked[-1]
    assert (values.mean(0).tolist(), values.std(0, ddof=1).tolist()) == (mean.tolist(), std.tolist())
    assert values[:, -1].tolist() == comparison.values(line, "sum", "push_query").tolist()
    assert values[:, -1].mean() == comparison.as_json()["results"][0]["mean"]["push_query"]["sum"]


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["OA3-diag", "PAA-I"])
def test_a_curve_over_labels_has_marks_by_labels(store, algorithm):
    """A curve over labels has its marks where a run had asked for 2, 4, ... labels, and the last at the end of the
    stream."""
    comparison = experiments.compare(spec(algorithms={algorithm: {}}, budgets=[10], points=5), store)
    (line,) = comparison.lines
    items, asked, mean, _ = comparison.curve(line, "sum", "push", "labels")
    assert [2, 4, 6, 8, 10, 10] == asked.tolist()
    assert ROUNDS == items[-1]
    assert (np.diff(items) > 0).all()
    assert comparison.values(line, "sum", "push").mean() == mean[-1]
    again = experiments.load(store, comparison.name)
    assert mean.tolist() == again.curve(again.lines[0], "sum", "push", "labels")[2].tolist()


@pytest.mark.slow
def test_several_classes(store):
    """Data of K classes are compared by macro F1. NAME=CLASS gives the result for labels that make this class the
    positive one."""
    many = spec(data=["letters"], algorithms={"MPAA-I": {}, "MD-AMD": {}}, criterion="macro_f1", tune="2:1", trials=1)
    comparison = experiments.compare(many, store)
    assert [("x", "y", "z")] * 2 == [line.classes for line in comparison.lines]
    assert {"x", "y", "z"} == set(comparison.as_json()["results"][0]["mean"]["push"]["recall"])
    assert (
        comparison.values(comparison.lines[0]).mean() == comparison.as_json()["results"][0]["mean"]["push"]["macro_f1"]
    )
    (line,) = experiments.compare(spec(data=["letters=y"]), store).lines
    letters = table(2, classes=("x", "y", "z"))
    y = np.where(letters.y == 2, 1, -1)
    parts = strategy("PAA-I").build(4)
    replay = stream.replay(letters.rows, y, stream.shuffled(ROUNDS, 0), *parts, stream.objective(rho=2.0))
    (other,) = experiments.compare(spec(data=["letters=x"]), store).lines
    assert not set(line.jobs) & set(other.jobs)
    assert ("letters=y", ()) == (line.data, line.classes)
    assert replay.counts.tolist() == line.counts[0, -1].tolist()


# Tuning


def test_two_thirds_tune_and_one_third_tests(store):
    """No test row is in a tuning stream. Scores, chosen setting and test counts equal runs of the kernel over the two
    parts of the rows."""
    choices = [{"delta_plus": p, "delta_minus": m} for p in (0.1, 1.0) for m in (0.1, 1.0)]
    wanted = spec(
        algorithms={"OAAL": {"delta_plus": [0.1, 1.0], "delta_minus": [0.1, 1.0]}}, budgets=[10], tune="2:1", trials=3
    )
    (line,) = experiments.compare(wanted, store).lines
    data = table(0)
    tuning = [worker.order(ROUNDS, ("tune", k)) for k in range(3)]
    testing = [worker.order(ROUNDS, ("test", k)) for k in range(3)]
    assert not set(np.concatenate(tuning)) & set(np.concatenate(testing))
    assert {30} == {order.size for order in tuning + testing}
    validation, test = tuning_and_test_items(ROUNDS)
    rho = class_ratio(data.y[validation])

    def counts(choice, part):
        orders = [part[stream.shuffled(part.size, k)][:30] for k in range(3)]
        oaal = strategy("OAAL", values=choice)
        return [
            Run(oaal, data.rows, data.y, o, rho=rho, budget=10, seed=k).replay().counts for k, o in enumerate(orders)
        ]

    scores = [metrics.evaluate(np.array(counts(choice, validation)), "push")["f1"].mean() for choice in choices]
    assert scores == [score for _, score in line.trials]
    assert choices[int(np.argmax(scores))] == line.setting
    assert np.array_equal(counts(line.setting, test), line.counts[:, -1])


def test_test_labels_change_nothing_that_is_tuned(tmp_path):
    """If all labels of the test third are flipped, the trials and the chosen setting stay the same."""
    turned = table(0)
    turned.y[stream.shuffled(ROUNDS, 0)[-30:]] *= -1
    comparisons = []
    for name, data in (("plain", table(0)), ("turned", turned)):
        other = Store(tmp_path / f"{name}.db")
        datasets.add(other, "a", data, "a")
        wanted = spec(algorithms={"CSOAL": {"C": [0.1, 1, 10], "delta": [0.1, 1]}}, budgets=[10], tune="2:1")
        comparisons.append(experiments.compare(wanted, other))
    plain, turned = comparisons
    assert plain.trials() == turned.trials()
    assert plain.lines[0].setting == turned.lines[0].setting
    assert plain.values(plain.lines[0]).tolist() != turned.values(turned.lines[0]).tolist()


def held_out(data, algorithm, values, seed, budget=None):
    """Compute by hand the counts on one of five folds for a learner that was trained on the other four. seed: decides
    the folds."""
    folds = np.array_split(stream.shuffled(ROUNDS, seed // 5), 5)
    visits = np.concatenate([fold for k, fold in enumerate(folds) if k != seed % 5])
    replay = stream.replay(
        data.rows, data.y, visits, *strategy(algorithm, values=values).build(4),
        stream.objective(rho=class_ratio(data.y[visits])), budget=budget, seed=seed,
    )  # fmt: skip
    counts = metrics.empty()
    for i in folds[seed % 5]:
        margin = rows.matrix(data.rows)[i] @ replay.learner.w
        counts[int(margin >= 0), data.y[i] + 1, 0] += 1
    return counts


def test_cross_validation_trains_on_four_folds_and_scores_on_the_fifth(store):
    """Each trial's criterion is the mean over five held-out folds; the best setting then runs over the whole stream."""
    values = [0.01, 0.3, 10.0]
    wanted = spec(algorithms={"CSOAL": {"C": values}}, budgets=[15], tune="cv")
    (line,) = experiments.compare(wanted, store).lines
    data = table(0)
    scores = [
        np.mean([metrics.evaluate(held_out(data, "CSOAL", {"C": C}, k, 15), "push")["f1"] for k in range(5)])
        for C in values
    ]
    assert [[{"C": C}, pytest.approx(score)] for C, score in zip(values, scores)] == line.trials
    assert {"C": values[np.argmax(scores)]} == line.setting
    assert [90] * 3 == line.counts[:, -1].sum((1, 2, 3)).tolist()


@pytest.mark.slow
def test_held_out_measures_the_final_model(store):
    """With held-out folds, five runs together predict each item once, by a model that was not trained on the item. The
    next five runs use other folds."""
    wanted = spec(algorithms={"PAA-I": {}, "ACOG-I": {"eta": 0.1}}, permutations=10, held_out=True)
    comparison = experiments.compare(wanted, store)
    data = table(0)
    for line in comparison.lines:
        assert (10, 1) == line.counts.shape[:2]
        assert [90, 90] == line.counts.reshape(2, 5, -1).sum((1, 2)).tolist()
        expected = [held_out(data, line.algorithm, line.setting, seed).tolist() for seed in range(10)]
        assert expected == line.counts[:, 0].tolist()
    assert not {"queried", "list"} & comparison.as_json()["results"][0]["runs"][0].keys()
    assert not comparison.has_list
    with pytest.raises(experiments.ExperimentError, match="no list was measured in"):
        comparison.values(comparison.lines[0], "f1", "list")
    firsts = [set(worker.folds(ROUNDS, seed)[1]) for seed in range(10)]
    assert set(range(ROUNDS)) == set.union(*firsts[:5]) == set.union(*firsts[5:])
    assert firsts[0] != firsts[5]


def test_hindsight_tunes_on_the_very_orders(store):
    """Tuning in hindsight uses the item orders of the result, so that the score of the best trial equals the result's
    mean."""
    comparison = experiments.compare(spec(algorithms={"PAA-I": {"C": [0.01, 1, 10]}}, tune="hindsight"), store)
    (line,) = comparison.lines
    assert [comparison.values(line).mean()] == [score for setting, score in line.trials if setting == line.setting]
    assert max(score for _, score in line.trials) == comparison.trials()[0]["score"] == comparison.values(line).mean()


def test_a_cost_is_tuned_to_be_low(store):
    """If the criterion is the cost, the setting with the lowest cost is chosen, and trials are listed from the lowest
    cost upwards."""
    wanted = spec(algorithms={"PAA-I": {"C": [0.001, 0.1, 10]}}, tune="hindsight", criterion="cost", metric="cost")
    comparison = experiments.compare(wanted, store)
    scores = [trial["score"] for trial in comparison.trials()]
    assert scores == sorted(scores)
    assert scores[0] < scores[-1]
    assert comparison.lines[0].setting == comparison.trials()[0]["settings"]


def test_a_large_grid_is_searched_one_parameter_at_a_time(store, monkeypatch):
    """A grid of more than MOST_SETTINGS settings is searched one parameter at a time, twice over, from its middle."""
    monkeypatch.setattr(specifications, "MOST_SETTINGS", 12)
    values = {"C": [0.01, 0.1, 1.0, 10.0, 100.0], "delta": [0.01, 1.0, 1e-5, 10.0]}
    (line,) = experiments.compare(spec(algorithms={"CSOAL": values}, budgets=[10], tune="2:1", trials=1), store).lines
    scores = {tuple(setting.values()): score for setting, score in line.trials}
    best = {"C": 1.0, "delta": 1e-5}
    tried = []
    for key in ("C", "delta", "C", "delta"):
        choices = [best | {key: value} for value in values[key]]
        tried += [tuple(choice.values()) for choice in choices]
        best = max(choices, key=lambda choice: scores[tuple(choice.values())])
    assert list(dict.fromkeys(tried)) == list(scores)
    assert len(scores) > 5 + 4 - 1  # the second search tries other settings
    assert best == line.setting
    monkeypatch.setattr(specifications, "MOST_SETTINGS", 20)
    (line,) = experiments.compare(spec(algorithms={"CSOAL": values}, budgets=[10], tune="2:1", trials=1), store).lines
    assert 20 == len(line.trials)


@pytest.mark.slow
@pytest.mark.parametrize("hit", [0.2, 500])
@pytest.mark.parametrize(
    "algorithm", ["PAA-I", "OAAL", "D-AMD", "RPA-I", "MPAA-I", "SEL-ada", "SEL-2nd", "perceptron + margin"]
)
def test_hit_reaches_the_labels_wanted(tmp_path, algorithm, hit):
    """The mean number of labels is within three percent of the target (`hit`), for every kind of rule."""
    store = Store(tmp_path / "studio.db")
    data = table(3, 2500, ("x", "y", "z") if algorithm == "MPAA-I" else ())
    datasets.add(store, "a", data, "a")
    (line,) = experiments.compare(spec(algorithms={algorithm: {}}, hit=hit, criterion="accuracy"), store).lines
    assert 500 == pytest.approx(line.asked.mean(), rel=0.03)
    chosen = experiments.chosen(algorithm, line.setting)
    assert chosen.learner_parameters == experiments.chosen(algorithm).learner_parameters


def test_hit_keeps_the_proportion_of_two_deltas(store):
    """To reach a target number of labels (`hit`), both deltas of a setting are scaled by the same factor."""
    (line,) = experiments.compare(spec(algorithms={"OAAL": {"delta_plus": 3, "delta_minus": 1}}, hit=0.3), store).lines
    assert line.setting["delta_plus"] / line.setting["delta_minus"] == pytest.approx(3)


@pytest.mark.parametrize("tune", ["2:1", "cv"])
def test_hit_while_tuning(tmp_path, tune):
    """With a target share of labels (`hit`), each tuning trial adjusts its rule to ask for that share. This makes
    settings comparable."""
    store = Store(tmp_path / "studio.db")
    datasets.add(store, "a", table(3, 3000), "a")
    (line,) = experiments.compare(spec(algorithms={"CSOAL": {"C": [0.01, 1.0]}}, hit=0.1, tune=tune), store).lines
    assert [0.01, 1.0] == [setting["C"] for setting, _ in line.trials]
    assert line.trials[0][0]["delta"] != line.trials[1][0]["delta"]
    assert 0.1 == pytest.approx(line.asked.mean() / line.counts[0, -1].sum(), rel=0.25)
