"""Comparisons: the same numbers wherever they run, tuning that sees no test row, and every error in one sentence."""

import json
import re
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import fields
from multiprocessing import get_context

import numpy as np
import pytest
from conftest import ROOT

from oal_engine import cli, datasets, experiments, formats, metrics, protocols, published, rows, stream
from oal_engine.algorithms import strategy
from oal_engine.experiments import Specification, specification
from oal_engine.store import Store

ROUNDS = 90


def table(seed=0, rounds=ROUNDS, classes=()):
    """Random rows whose label is linear in them: a quarter is positive, or classes are equally many."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rounds, 4))
    score = X @ rng.normal(size=4)
    if classes:
        y = 1 + np.digitize(score, np.quantile(score, np.arange(1, len(classes)) / len(classes)))
        labels = [classes[k - 1] for k in y]
    else:
        y = np.where(score > np.quantile(score, 0.75), 1, -1)
        labels = [str(k) for k in y]
    ids = [str(k) for k in range(rounds)]
    items = formats.Items(ids, None, X, list("abcd"), labels, y.astype(np.int8), {}, classes)
    return datasets.table(items)


@pytest.fixture
def store(tmp_path):
    """A store with two data sets of two classes, `a` and `b`, and one of three, `letters`."""
    found = Store(tmp_path / "studio.db")
    datasets.add(found, "a", table(0), "a")
    datasets.add(found, "b", table(1, 70), "b")
    datasets.add(found, "letters", table(2, classes=("x", "y", "z")), "letters")
    return found


def spec(**values):
    """A small specification, changed as said."""
    return specification({"data": ["a"], "algorithms": {"PAA-I": {}}, "permutations": 3, "points": 5} | values)


SEVERAL = {
    "data": ["a", "b"],
    "algorithms": {"OAAL": {"delta_plus": [0.1, 1], "delta_minus": "10^-1..10^0"}, "CSOAL": {"C": [0.1, 1, 10]}},
    "budgets": [8, 20],
    "tune": "2:1",
}


@pytest.fixture
def counted(monkeypatch):
    """A list that grows by the key of every replay that is run."""
    keys, replayed = [], experiments.replayed

    def noted(source, jobs):
        keys.extend(experiments.job_key(source, job) for job in jobs)
        return replayed(source, jobs)

    monkeypatch.setattr(experiments, "replayed", noted)
    return keys


# The same numbers


@pytest.mark.parametrize("tune", ["none", "2:1", "cv", "hindsight"])
def test_the_same_specification_gives_the_same_json(store, tmp_path, tune):
    """Threads by default, one, four, in another database, or read again: not a bit differs."""
    wanted = specification(SEVERAL | {"tune": tune, "permutations": 3})
    first = json.dumps(experiments.compare(wanted, store, "first").told())
    for name, workers in (("one", 1), ("four", 4)):
        with ThreadPoolExecutor(workers) as threads:
            assert first == json.dumps(experiments.compare(wanted, store, name, threads).told())
    other = Store(tmp_path / "other.db")
    for name, seed, rounds in (("a", 0, ROUNDS), ("b", 1, 70)):
        datasets.add(other, name, table(seed, rounds), name)
    assert first == json.dumps(experiments.compare(wanted, other).told())
    assert first == json.dumps(experiments.load(store, "first").told())


def test_processes_give_the_same_json(store):
    """Workers that share nothing but the rows on disk come to the same."""
    wanted = specification(SEVERAL)
    with ProcessPoolExecutor(2, get_context("spawn")) as processes:
        found = experiments.compare(wanted, store, "processes", processes).told()
    assert experiments.compare(wanted, store, "threads").told() == found


def test_a_comparison_that_is_stopped_goes_on(store, counted):
    """What was finished is kept, nothing of it is run again, and the result is that of one that was never stopped."""
    wanted = specification(SEVERAL)
    never = experiments.compare(wanted, store, "never stopped").told()
    every = list(counted)
    assert len(set(every)) == len(every)
    for stop_at in (10, 40):
        counted.clear()
        with pytest.raises(KeyboardInterrupt):
            experiments.compare(wanted, store, "stopped", progress=stopping(stop_at))
        kept = set(store.replays(store.comparison("stopped")["id"]))
        assert stop_at <= len(kept) < len(every)
        assert len(experiments.load(store, "stopped").lines) < len(SEVERAL["budgets"]) * 4
    counted.clear()
    assert never == experiments.compare(wanted, store, "stopped").told()
    assert set(every) - kept == set(counted)
    counted.clear()
    assert never == experiments.compare(wanted, store, "stopped").told()
    assert [] == counted


def stopping(stop_at):
    """A progress that stops when so many replays are finished."""

    def progress(done, total):
        if done >= stop_at:
            raise KeyboardInterrupt

    return progress


def test_progress_comes_to_its_end(store):
    """It counts every replay, and says from the beginning how many there are."""
    for changes, total in (
        ({}, 3),
        ({"algorithms": {"PAA-I": {"C": [1, 2]}}}, 6),
        ({"algorithms": {"PAA-I": {"C": [1, 2]}}, "tune": "2:1", "trials": 2}, 2 * 2 + 3),
        ({"algorithms": {"PAA-I": {"C": [1, 2]}}, "tune": "cv", "hit": 0.2}, 2 * 5 * (1 + experiments.STEPS) + 3),
        ({"hit": 0.2}, 3 * (1 + experiments.STEPS)),
        ({"algorithms": {"PAA-I": {"C": "10^-9..10^9", "delta": "10^-9..10^9"}}, "tune": "2:1"}, 2 * 38 * 3 + 3),
    ):
        told = []
        experiments.run(spec(**changes), store, progress=lambda done, total, told=told: told.append((done, total)))
        assert {total} == {said for _, said in told}
        assert (total, total) == told[-1]


def test_a_name_stands_for_one_specification(store):
    """Another specification under a name that is taken is refused, and the first stays as it is."""
    experiments.compare(spec(), store, "mine")
    with pytest.raises(experiments.ExperimentError, match="a comparison named mine exists with other settings"):
        experiments.compare(spec(seed=1), store, "mine")
    assert [0, 1, 2] == [run["seed"] for run in experiments.load(store, "mine").told()["results"][0]["runs"]]


# A line equals the kernel's replays


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
    ],
)
def test_runs_equal_the_kernels_replays(store, algorithm, setting, changes):
    """The counts at every mark are those of stream.replay over the same order, seed, rho and budget, bit for bit."""
    wanted = spec(algorithms={algorithm: setting}, **changes)
    (line,) = experiments.run(wanted, store)
    data, about = table(0), experiments.chosen(algorithm, setting)
    weights = metrics.Weights(wanted.alpha_p, wanted.c_p)
    rho = {"laplace": 0.0, "auto": weights.ratio("sum") * (data.y < 0).sum() / (data.y > 0).sum()}
    if wanted.metric == "cost":
        rho["auto"] = weights.ratio("cost")
    rho = about.rho or rho.get(setting.get("rho", "auto"), setting.get("rho"))
    for k in range(3):
        seed = wanted.seed + k
        done = stream.replay(
            data.rows, data.y, stream.shuffled(ROUNDS, seed), *about.build(4),
            stream.objective(wanted.theta, rho, weights.ratio("sum")), budget=wanted.budgets[0], seed=seed,
            averaged=wanted.average, marks=[18, 36, 54, 72, 90],
        )  # fmt: skip
        assert done.curve.tolist() == line.counts[k].tolist()
        assert done.queried == line.asked[k]


def test_the_curve_is_over_the_runs(store):
    """Rounds and mean labels at each mark, and mean and sample deviation of the metric."""
    found = experiments.compare(spec(budgets=[10]), store)
    (line,) = found.lines
    items, asked, mean, std = found.curve(line, "sum", "push_query")
    values = metrics.evaluate(line.counts, "push_query")["sum"]
    assert [18, 36, 54, 72, 90] == items.tolist()
    assert 10 == asked[-1]
    assert (values.mean(0).tolist(), values.std(0, ddof=1).tolist()) == (mean.tolist(), std.tolist())
    assert values[:, -1].tolist() == found.values(line, "sum", "push_query").tolist()
    assert values[:, -1].mean() == found.told()["results"][0]["mean"]["push_query"]["sum"]


def test_several_classes(store):
    """K classes are compared by macro F1, and NAME=CLASS is what relabelling that class by hand gives."""
    many = spec(data=["letters"], algorithms={"MPAA-I": {}, "MD-AMD": {}}, criterion="macro_f1", tune="2:1", trials=1)
    found = experiments.compare(many, store)
    assert [("x", "y", "z")] * 2 == [line.classes for line in found.lines]
    assert {"x", "y", "z"} == set(found.told()["results"][0]["mean"]["push"]["recall"])
    assert found.values(found.lines[0]).mean() == found.told()["results"][0]["mean"]["push"]["macro_f1"]
    (line,) = experiments.run(spec(data=["letters=y"]), store)
    made = table(2, classes=("x", "y", "z"))
    y = np.where(made.y == 2, 1, -1)
    parts = strategy("PAA-I").build(4)
    done = stream.replay(made.rows, y, stream.shuffled(ROUNDS, 0), *parts, stream.objective(rho=2.0))
    (other,) = experiments.run(spec(data=["letters=x"]), store)
    assert not set(line.jobs) & set(other.jobs)
    assert ("letters=y", ()) == (line.data, line.classes)
    assert done.counts.tolist() == line.counts[0, -1].tolist()


# Tuning


def test_two_thirds_tune_and_one_third_tests(store):
    """No test row is in a tuning stream, and the streams and results are those of the protocol of reproduce's OAAL."""
    choices = [{"delta_plus": p, "delta_minus": m} for p in (0.1, 1.0) for m in (0.1, 1.0)]
    wanted = spec(
        algorithms={"OAAL": {"delta_plus": [0.1, 1.0], "delta_minus": [0.1, 1.0]}}, budgets=[10], tune="2:1", trials=3
    )
    (line,) = experiments.run(wanted, store)
    data, mixed = table(0), stream.shuffled(ROUNDS, 0)
    tuning = [experiments.order(ROUNDS, ("tune", k)) for k in range(3)]
    testing = [experiments.order(ROUNDS, ("test", k)) for k in range(3)]
    assert not set(np.concatenate(tuning)) & set(np.concatenate(testing))
    assert {30} == {order.size for order in tuning + testing}
    validation, test = mixed[:-30], mixed[-30:]
    rho = protocols.imbalance(data.y[validation])
    tuned, tested = (
        protocols.Stream(data, [part[stream.shuffled(part.size, k)][:30] for k in range(3)], rho, 10)
        for part in (validation, test)
    )
    best = tuned.best(published.F1, "OAAL", choices)
    assert tuned.means(published.F1, "OAAL", choices).tolist() == [score for _, score in line.trials]
    assert best == line.setting
    assert tested.counts("OAAL", [best])[0].tolist() == line.counts[:, -1].tolist()


def test_test_labels_change_nothing_that_is_tuned(tmp_path):
    """With all labels of the test third turned around, every trial and the setting chosen stay as they were."""
    turned = table(0)
    turned.y[stream.shuffled(ROUNDS, 0)[-30:]] *= -1
    found = []
    for name, made in (("plain", table(0)), ("turned", turned)):
        other = Store(tmp_path / f"{name}.db")
        datasets.add(other, "a", made, "a")
        wanted = spec(algorithms={"CSOAL": {"C": [0.1, 1, 10], "delta": [0.1, 1]}}, budgets=[10], tune="2:1")
        found.append(experiments.compare(wanted, other))
    plain, turned = found
    assert plain.trials() == turned.trials()
    assert plain.lines[0].setting == turned.lines[0].setting
    assert plain.values(plain.lines[0]).tolist() != turned.values(turned.lines[0]).tolist()


def held_out(data, algorithm, values, seed, budget=None):
    """The counts of a fold by a learner that streamed over the other four, by hand."""
    folds = np.array_split(stream.shuffled(ROUNDS, seed // 5), 5)
    visits = np.concatenate([fold for k, fold in enumerate(folds) if k != seed % 5])
    done = stream.replay(
        data.rows, data.y, visits, *strategy(algorithm, values=values).build(4),
        stream.objective(rho=protocols.imbalance(data.y[visits])), budget=budget, seed=seed,
    )  # fmt: skip
    counts = metrics.empty()
    for i in folds[seed % 5]:
        margin = rows.matrix(data.rows)[i] @ done.learner.w
        counts[int(margin >= 0), data.y[i] + 1, 0] += 1
    return counts


def test_cross_validation_trains_on_four_folds_and_scores_on_the_fifth(store):
    """Each trial's criterion is the mean over five held-out folds; the best setting then runs over the whole stream."""
    values = [0.01, 0.3, 10.0]
    wanted = spec(algorithms={"CSOAL": {"C": values}}, budgets=[15], tune="cv")
    (line,) = experiments.run(wanted, store)
    data = table(0)
    scores = [
        np.mean([metrics.evaluate(held_out(data, "CSOAL", {"C": C}, k, 15), "push")["f1"] for k in range(5)])
        for C in values
    ]
    assert [[{"C": C}, pytest.approx(score)] for C, score in zip(values, scores)] == line.trials
    assert {"C": values[np.argmax(scores)]} == line.setting
    assert [90] * 3 == line.counts[:, -1].sum((1, 2, 3)).tolist()


def test_held_out_measures_the_final_model(store):
    """Five runs predict each item once, by a model that never saw it; the next five cut other folds."""
    wanted = spec(algorithms={"PAA-I": {}, "ACOG-I": {"eta": 0.1}}, permutations=10, held_out=True)
    found = experiments.compare(wanted, store)
    data = table(0)
    for line in found.lines:
        assert (10, 1) == line.counts.shape[:2]
        assert [90, 90] == line.counts.reshape(2, 5, -1).sum((1, 2)).tolist()
        expected = [held_out(data, line.algorithm, line.setting, seed).tolist() for seed in range(10)]
        assert expected == line.counts[:, 0].tolist()
    assert "queried" not in found.told()["results"][0]["runs"][0]
    firsts = [set(experiments.folds(ROUNDS, seed)[1]) for seed in range(10)]
    assert set(range(ROUNDS)) == set.union(*firsts[:5]) == set.union(*firsts[5:])
    assert firsts[0] != firsts[5]


def test_hindsight_tunes_on_the_very_orders(store):
    """The score of the best trial is the result itself."""
    found = experiments.compare(spec(algorithms={"PAA-I": {"C": [0.01, 1, 10]}}, tune="hindsight"), store)
    (line,) = found.lines
    assert [found.values(line).mean()] == [score for setting, score in line.trials if setting == line.setting]
    assert max(score for _, score in line.trials) == found.trials()[0]["score"] == found.values(line).mean()


def test_a_cost_is_tuned_to_be_low(store):
    """Where less is better the lowest is chosen, and trials are told from it upwards."""
    wanted = spec(algorithms={"PAA-I": {"C": [0.001, 0.1, 10]}}, tune="hindsight", criterion="cost", metric="cost")
    found = experiments.compare(wanted, store)
    scores = [trial["score"] for trial in found.trials()]
    assert scores == sorted(scores)
    assert scores[0] < scores[-1]
    assert found.lines[0].setting == found.trials()[0]["settings"]


def test_a_large_grid_is_searched_one_parameter_at_a_time(store, monkeypatch):
    """Beyond MOST_SETTINGS each parameter is turned in turn, all of them twice, from the middle of the grid."""
    monkeypatch.setattr(experiments, "MOST_SETTINGS", 12)
    values = {"C": [0.01, 0.1, 1.0, 10.0, 100.0], "delta": [0.01, 1.0, 1e-5, 10.0]}
    (line,) = experiments.run(spec(algorithms={"CSOAL": values}, budgets=[10], tune="2:1", trials=1), store)
    scores = {tuple(setting.values()): score for setting, score in line.trials}
    best = {"C": 1.0, "delta": 1e-5}
    tried = []
    for key in ("C", "delta", "C", "delta"):
        choices = [best | {key: value} for value in values[key]]
        tried += [tuple(choice.values()) for choice in choices]
        best = max(choices, key=lambda choice: scores[tuple(choice.values())])
    assert list(dict.fromkeys(tried)) == list(scores)
    assert len(scores) > 5 + 4 - 1  # the second time finds others
    assert best == line.setting
    monkeypatch.setattr(experiments, "MOST_SETTINGS", 20)
    (line,) = experiments.run(spec(algorithms={"CSOAL": values}, budgets=[10], tune="2:1", trials=1), store)
    assert 20 == len(line.trials)


def test_what_is_not_said_is_tuned_over_the_usual_grids():
    """Without values the papers' grids are tried when settings are tuned, and the defaults run when not."""
    tens = [10.0**k for k in range(-5, 6)]
    assert {"C": tens, "delta": tens} == experiments.grid("PAA-I", {}, "2:1")
    assert {} == experiments.grid("PAA-I", {}, "none")
    assert {"C": [2]} == experiments.grid("PAA-I", {"C": 2}, "2:1")
    assert {"C": [0.25, 0.5, 1, 2]} == experiments.grid("PAA-I", {"C": "2^-2..2^1"}, "none")


@pytest.mark.parametrize("hit", [0.2, 500])
@pytest.mark.parametrize(
    "algorithm", ["PAA-I", "OAAL", "D-AMD", "RPA-I", "MPAA-I", "SEL-ada", "SEL-2nd", "perceptron + margin"]
)
def test_hit_reaches_the_labels_wanted(tmp_path, algorithm, hit):
    """A share or a number of labels is asked, on average within three percent of it, whatever the learner's numbers."""
    store = Store(tmp_path / "studio.db")
    made = table(3, 2500, ("x", "y", "z") if algorithm == "MPAA-I" else ())
    datasets.add(store, "a", made, "a")
    (line,) = experiments.run(spec(algorithms={algorithm: {}}, hit=hit, criterion="accuracy"), store)
    assert 500 == pytest.approx(line.asked.mean(), rel=0.03)
    about = experiments.chosen(algorithm, line.setting)
    assert about.learner_parameters == experiments.chosen(algorithm).learner_parameters


def test_hit_keeps_the_proportion_of_two_deltas(store):
    """Both are scaled alike, from what the setting says."""
    (line,) = experiments.run(spec(algorithms={"OAAL": {"delta_plus": 3, "delta_minus": 1}}, hit=0.3), store)
    assert line.setting["delta_plus"] / line.setting["delta_minus"] == pytest.approx(3)


@pytest.mark.parametrize("tune", ["2:1", "cv"])
def test_hit_while_tuning(tmp_path, tune):
    """Every setting that is tried asks what is wanted of the streams it is tuned over, so that they compare fairly."""
    store = Store(tmp_path / "studio.db")
    datasets.add(store, "a", table(3, 3000), "a")
    (line,) = experiments.run(spec(algorithms={"CSOAL": {"C": [0.01, 1.0]}}, hit=0.1, tune=tune), store)
    assert [0.01, 1.0] == [setting["C"] for setting, _ in line.trials]
    assert line.trials[0][0]["delta"] != line.trials[1][0]["delta"]
    assert 0.1 == pytest.approx(line.asked.mean() / line.counts[0, -1].sum(), rel=0.25)


# Sweeps of the papers


@pytest.mark.parametrize(
    ("algorithm", "grid"),
    [
        ("OAAL", {"delta_plus": [0.01, 0.1, 1], "delta_minus": [0.01, 0.1, 1]}),
        ("ACOG-I", {"eta": "10^-1..10^1"}),
        ("ACOG-II", {"gamma": [0.1, 1, 10]}),
        ("SACOG-II", {"m": [1, 2, 4]}),
        ("ACOG-II", {"rho": ["auto", "laplace"]}),
        ("COG-II", {"alpha_p": [0.2, 0.5, 0.8]}),
        ("COG-I", {"theta": [-0.1, 0, 0.1]}),
    ],
)
def test_a_sweep_shows_every_setting(store, algorithm, grid):
    """Without tuning each setting of the grid has a line of its own, whose runs differ from its neighbours'."""
    found = experiments.compare(spec(algorithms={algorithm: grid}), store)
    settings = experiments.settings(experiments.grid(algorithm, grid, "none"))
    assert settings == [line.setting for line in found.lines]
    ((block, lines),) = found.blocks().items()
    assert (("a", None), len(settings)) == (block, len(lines))
    assert len({found.values(line, "sum").tobytes() for line in found.lines}) == len(settings)


def test_a_sweep_of_costs_weighs_runs_by_each(store):
    """c_p of a setting is the rho that its runs learn with and the weight that its costs are told with."""
    wanted = spec(algorithms={"COG-I": {"c_p": [0.6, 0.9]}}, metric="cost", criterion="cost")
    found = experiments.compare(wanted, store)
    for line, c_p in zip(found.lines, (0.6, 0.9)):
        (alone,) = experiments.run(spec(algorithms={"COG-I": {}}, metric="cost", c_p=c_p), store)
        assert alone.counts.tolist() == line.counts.tolist()
        expected = metrics.evaluate(line.counts[:, -1], "push", metrics.Weights(0.5, c_p))["cost"]
        assert expected.tolist() == found.values(line).tolist()


def test_a_sweep_of_budgets(store):
    """Each budget is spent where the stream is long enough, in the order of the specification."""
    found = experiments.compare(spec(algorithms={"Q_F": {}}, budgets=[5, 20, None]), store)
    assert [("a", 5), ("a", 20), ("a", None)] == list(found.blocks())
    assert [[5] * 3, [20] * 3, [90] * 3] == [line.asked.tolist() for line in found.lines]


def test_tests_and_ranks_are_over_the_lines(store):
    """Each block has one best name; ranks are over data sets and budgets, and cost is ranked from below."""
    found = experiments.compare(specification(SEVERAL | {"permutations": 4}), store)
    assert [("a", 8), ("a", 20), ("b", 8), ("b", 20)] == list(found.tests())
    assert all(1 == sum(about["best"] for about in block.values()) for block in found.tests().values())
    assert 4 == found.ranks()["blocks"]
    for metric, better in (("cost", min), ("sum", max)):
        means = [
            {name: found.values(line, metric).mean() for name, line in block.items()}
            for block in found.blocks().values()
        ]
        first = found.ranks(metric)["ranks"]["OAAL"]
        wins = sum((1.5 if m["OAAL"] == m["CSOAL"] else 1 if better(m, key=m.get) == "OAAL" else 2) for m in means)
        assert wins / 4 == first


def test_one_run_is_told_without_a_test(store):
    """JSON has no not-a-number: of a single run there is no p-value."""
    told = experiments.compare(spec(algorithms={"PAA-I": {}, "OAAL": {}}, permutations=1), store).told()
    assert json.dumps(told, allow_nan=False)
    assert {None} == {about["t"] for about in told["tests"][0]["algorithms"].values()}


# Data


def test_data_sets_are_found_or_imported(store, tmp_path):
    """By name, from a demo, from a file beside the specification, or from a table that says its columns; once."""
    (tmp_path / "texts.csv").write_text("id,words,kind\n" + "".join(f"{k},w{k % 7} x,{k % 3}\n" for k in range(12)))
    (tmp_path / "numbers.libsvm").write_text("+1 1:1\n-1 2:1\n" * 4)
    wanted = spec(
        data=[
            "a",
            "numbers.libsvm",
            {"name": "mine", "file": "texts.csv", "text": "words", "label": "kind", "positive": ["2"]},
        ]
    )
    found = experiments.sources(wanted, store, tmp_path)
    assert [("a", 90), ("numbers", 8), ("mine", 12)] == [(source.name, source.rounds) for source in found]
    assert (4, "texts.csv") == (store.dataset("mine")["positives"], store.dataset("mine")["source"])
    assert found == experiments.sources(wanted, store, tmp_path)


def test_the_same_rows_in_another_place_are_the_same(store, tmp_path):
    """Keys of replays are those of rows and labels, not of names or folders; another label makes others."""
    other = Store(tmp_path / "other.db")
    datasets.add(other, "renamed", table(0), "a")
    changed = table(0)
    changed.y[0] *= -1
    datasets.add(other, "changed", changed, "a")
    keys = [
        experiments.run(spec(data=[name]), place)[0].jobs
        for place, name in ((store, "a"), (other, "renamed"), (other, "changed"))
    ]
    assert keys[0] == keys[1]
    assert not set(keys[0]) & set(keys[2])


# Errors

WRONG = [
    ({"epochs": 3}, "a comparison has no setting epochs. It has algorithms,"),
    ({"data": "demo:tweets"}, "data of a comparison must be a list of at least one. Got demo:tweets."),
    ({"data": []}, "data of a comparison must be a list of at least one. Got ()."),
    ({"data": [3]}, "a data set of a comparison must be a name or a table. Got 3."),
    ({"data": ["a", "a"]}, "data sets must differ. Got a, a."),
    ({"data": ["nothing"]}, "data set nothing does not exist. There are: letters, b, a."),
    ({"data": ["a=x"]}, "a has no class x. It has two."),
    ({"data": ["letters=w"]}, "letters has no class w. It has x, y, z."),
    ({"data": ["demo:cats"]}, "demo must be one of tweets, abstracts. Got cats."),
    ({"data": ["letters"]}, "PAA-I does not work on letters, which has K classes: name one as letters=CLASS."),
    ({"algorithms": {"MPAA": {}}}, "MPAA does not work on a, which has two classes."),
    ({"data": [{}]}, "a data set of a comparison needs a file. Got nothing."),
    ({"data": [{"name": "c"}]}, "a data set of a comparison needs a file. Got name."),
    ({"data": [{"file": "missing.csv"}]}, "missing.csv cannot be read: No such file or directory."),
    ({"data": [{"file": 3}]}, "file of a data set of a comparison must be a text. Got 3."),
    ({"data": [{"file": "x.csv", "text": 3}]}, "text of a data set of a comparison must be a list of texts. Got 3."),
    ({"data": [{"file": "x.csv", "text": [3]}]}, "text of a data set of a comparison must be a list of texts. Got ["),
    ({"data": [{"file": "x.csv", "contains": 1}]}, "contains of a data set of a comparison must be true or false."),
    ({"data": [{"file": "x.csv", "column": "a"}]}, "a data set of a comparison has no setting column. It has name,"),
    ({"algorithms": {}}, "algorithms of a comparison must be a table of at least one. Got {}."),
    ({"algorithms": ["OAAL"]}, "algorithms of a comparison must be a table of at least one. Got ('OAAL',)."),
    ({"algorithms": {"OAAL": 3}}, "the parameters of OAAL must be a table. Got 3."),
    ({"algorithms": {"OAALX": {}}}, "algorithm must be one of OAAL,"),
    ({"algorithms": {"pa + variance": {}}}, "rule variance works with the learners arow,"),
    ({"algorithms": {"pa +": {}}}, "a strategy needs the name of an algorithm, or of a learner and a rule."),
    ({"algorithms": {"PAA-I": {"D": 1}}}, "PAA-I has no parameter D. It has C, delta."),
    ({"algorithms": {"PAA-I": {"C": 0}}}, "C of pa-i must be > 0. Got 0."),
    ({"algorithms": {"PAA-I": {"C": []}}}, "C of PAA-I needs at least one value."),
    ({"algorithms": {"PAA-I": {"C": "10^5..10^-5"}}}, "C of PAA-I needs at least one value."),
    ({"algorithms": {"PAA-I": {"C": "10^5..10^999"}}}, "powers must be within the numbers of a computer. Got 10^5"),
    ({"algorithms": {"PAA-I": {"C": "much"}}}, "C of PAA-I must be numbers or powers such as 10^-5..10^5. Got much."),
    ({"algorithms": {"PAA-I": {"C": [1, [2]]}}}, "C of PAA-I must be numbers or powers such as 10^-5..10^5. Got [2]."),
    ({"algorithms": {"PAA-I": {"C": True}}}, "C of PAA-I must be numbers or powers such as 10^-5..10^5. Got True."),
    ({"algorithms": {"PAA-I": {"C": {"a": 1}}}}, "C of PAA-I must be numbers or powers such as 10^-5..10^5. Got {'a"),
    ({"algorithms": {"PAA-I": {"C": float("nan")}}}, "C of pa-i must be > 0. Got nan."),
    ({"algorithms": {"PAA-I": {"rho": float("nan")}}}, "rho of PAA-I must be > 0. Got nan."),
    ({"algorithms": {"PAA-I": {"rho": "known"}}}, "rho of PAA-I must be auto, laplace or a number. Got known."),
    ({"algorithms": {"PAA-I": {"c_p": [0.5, 1]}}}, "c_p of PAA-I must be > 0 and < 1. Got 1."),
    ({"algorithms": {"SOAL": {"rho": 2}}}, "rho of SOAL is fixed at 1. Got 2."),
    ({"algorithms": {"SSOA3": {"m": 2.5}}}, "m of ssacog-ii must be a whole number >= 1"),
    ({"budgets": 100}, "budgets of a comparison must be a list of at least one. Got 100."),
    ({"budgets": [0]}, "a budget must be a whole number >= 1. Got 0."),
    ({"budgets": ["100"]}, "a budget must be a whole number >= 1. Got 100."),
    ({"budgets": [100.5]}, "a budget must be a whole number >= 1. Got 100.5."),
    ({"budgets": [9, 9]}, "budgets of a comparison must differ. Got 9, 9."),
    ({"permutations": 0}, "permutations of a comparison must be a whole number >= 1. Got 0."),
    ({"permutations": "ten"}, "permutations of a comparison must be a whole number >= 1. Got ten."),
    ({"permutations": True}, "permutations of a comparison must be a whole number >= 1. Got True."),
    ({"seed": -1}, "seed of a comparison must be a whole number >= 0. Got -1."),
    ({"seed": 2**64}, "seed of a comparison must be a whole number >= 0. Got 18446744073709551616."),
    ({"trials": 1.5}, "trials of a comparison must be a whole number >= 1. Got 1.5."),
    ({"points": 0}, "points of a comparison must be a whole number >= 1. Got 0."),
    ({"tune": "3:1"}, "tune of a comparison must be one of none, 2:1, cv, hindsight. Got 3:1."),
    ({"tune": ["cv"]}, "tune of a comparison must be one of none, 2:1, cv, hindsight. Got ('cv',)."),
    ({"criterion": "auc"}, "criterion of a comparison must be one of sensitivity,"),
    ({"criterion": "macro_f1"}, "criterion on a must be one of sensitivity, specificity,"),
    ({"data": ["letters"], "algorithms": {"MPAA": {}}}, "criterion on letters must be one of accuracy, macro_f1,"),
    ({"evaluation": "pull"}, "evaluation of a comparison must be one of push, push_query. Got pull."),
    ({"metric": "f1"}, "metric of a comparison must be one of sum, cost. Got f1."),
    ({"average": "yes"}, "average of a comparison must be one of True, False. Got yes."),
    ({"held_out": 2}, "held_out of a comparison must be one of True, False. Got 2."),
    ({"held_out": True, "tune": "2:1"}, "held_out of a comparison needs tune none, cv or hindsight. Got 2:1."),
    ({"rho": "known"}, "rho of a comparison must be auto, laplace or a number. Got known."),
    ({"rho": 0}, "rho of a comparison must be > 0. Got 0."),
    ({"alpha_p": "half"}, "alpha_p of a comparison must be a number. Got half."),
    ({"alpha_p": 1.0}, "alpha_p of a comparison must be > 0 and < 1. Got 1.0."),
    ({"c_p": float("nan")}, "c_p of a comparison must be > 0 and < 1. Got nan."),
    ({"theta": float("inf")}, "theta of a comparison must be any finite number. Got inf."),
    ({"hit": 0}, "hit must be a share of the labels, or their number. Got 0."),
    ({"hit": float("nan")}, "hit must be a share of the labels, or their number. Got nan."),
    ({"hit": "half"}, "hit must be a share of the labels, or their number. Got half."),
    ({"hit": 0.1, "algorithms": {"PA-I": {}}}, "PA-I has no smoothing that could hit a number of labels."),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_a_wrong_specification_is_one_sentence(store, tmp_path, changes, message):
    """Whatever a TOML may hold, it is refused before anything runs: what, where, what is allowed and what came."""
    (tmp_path / "x.csv").write_text("id,text,label\n1,a,b\n")
    with pytest.raises(ValueError) as error:  # noqa: PT011
        experiments.compare(spec(**changes), store, folder=tmp_path)
    assert str(error.value).startswith(message) or str(error.value).endswith(message)
    assert "\n" not in str(error.value)
    assert [] == store.comparisons()


def test_unlabelled_data_is_refused(store):
    """Metrics need every label; so does one of K classes against the rest, and a stream is not too short."""
    for name, made in (("some", table(0)), ("few", table(0, 4))):
        if name == "some":
            made.y[3] = 0
        datasets.add(store, name, made, name)
    for name, message in (
        ("some", "a comparison needs a label for every item, and some has some without."),
        ("few", "a comparison needs 5 items or more. few has 4."),
    ):
        with pytest.raises(experiments.ExperimentError, match=f"^{message}$"):
            experiments.run(spec(data=[name]), store)


def test_a_failure_in_a_worker_is_told(store, monkeypatch):
    """What a replay raises comes out as it is, in one sentence."""
    monkeypatch.setenv("OAL_MEMORY_LIMIT", "8")
    with pytest.raises(ValueError, match="acog-ii keeps a full covariance"):
        experiments.run(spec(algorithms={"OA3": {}}), store)


@pytest.mark.parametrize("text", ["{", "data = ", '{"data": [}', "[1]"])
def test_a_file_that_is_no_specification(tmp_path, text):
    """What is neither JSON nor TOML is told with its name."""
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(ValueError, match=r"^x.toml is no specification|a comparison has no setting") as error:
        specification(experiments.contents(tmp_path / "x.toml"))
    assert "\n" not in str(error.value)


def test_the_specification_of_the_project_is_one():
    """data/compare.toml names the six algorithms of the papers, two data sets and two budgets, tuned 2:1."""
    found = specification(experiments.contents(ROOT / "data" / "compare.toml"))
    assert ["OAAL", "CSOAL", "PAA-I", "OA3-diag", "SOA3", "D-AMD-I"] == list(found.algorithms)
    assert (2, (100, 500), 10, "2:1") == (len(found.data), found.budgets, found.permutations, found.tune)


# The command line


@pytest.fixture
def command(store, tmp_path, monkeypatch, capsys):
    """A function from arguments to (exit code, standard output, standard error), in the folder of the store."""
    monkeypatch.setenv("OAL_DB", str(store.path))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["oal_engine", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code or 0, *capsys.readouterr()

    return run


def test_compare_and_results(command, store):
    """compare prints what the API tells, keeps it by its name, and results shows and deletes it."""
    line = (
        "compare", "a", "b", "--algorithms", "OAAL,perceptron + symmetric", "--set", "OAAL:delta_plus=0.1,1",
        "--set", "perceptron + symmetric:delta=1", "--budget", 8, "--budget", 20, "--permutations", 3, "--tune", "2:1",
        "--save", "mine", "--criterion", "sum", "--rho", "2",
    )  # fmt: skip
    code, out, err = command(*line, "--json")
    assert (0, "") == (code, err)
    wanted = Specification(
        ("a", "b"), {"OAAL": {"delta_plus": [0.1, 1.0]}, "perceptron + symmetric": {"delta": [1.0]}}, (8, 20), 3,
        tune="2:1", criterion="sum", rho=2.0,
    )  # fmt: skip
    told = json.loads(out)
    assert json.loads(json.dumps(experiments.compare(wanted, store, "same").told())) == told
    assert ["specification", "versions", "results", "tests", "ranks"] == list(told)
    assert out == command("results", "mine", "--json")[1] == command(*line, "--workers", 1, "--json")[1]
    text = command(*line)[1]
    assert all(
        word in text for word in ("mine: 3 runs", "b, 20 labels", "OAAL", "delta_plus=", "best", "average ranks")
    )
    assert text == command("results", "mine")[1]
    listed = json.loads(command("results", "--json")[1])["comparisons"]
    assert ["same", "mine"] == [row["name"] for row in listed]
    trials = json.loads(command("results", "mine", "--trials", "--json")[1])["trials"]
    assert 4 * 3 == len(trials)
    assert "delta_plus=0.1" in command("results", "mine", "--trials")[1]
    assert (0, "", "") == command("results", "mine", "--remove")
    assert "comparison mine does not exist." in command("results", "mine")[2]


def test_compare_with_a_file(command, tmp_path):
    """A specification in a file, with what the command line says before it; its paths are beside it."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "numbers.libsvm").write_text("+1 1:1\n-1 2:1\n" * 6)
    (tmp_path / "folder" / "x.json").write_text(
        json.dumps(
            {"data": ["numbers.libsvm"], "algorithms": {"OAAL": {"delta_plus": 1}, "PAA": {}}, "permutations": 2}
        )
    )
    told = json.loads(command("compare", "--spec", "folder/x.json", "--budget", 4, "--json")[1])
    assert ([4], 2) == tuple(told["specification"][key] for key in ("budgets", "permutations"))
    assert 4 == told["results"][0]["runs"][0]["queried"]
    told = json.loads(command("compare", "--spec", "folder/x.json", "--algorithms", "OAAL", "--json")[1])
    assert [{"delta_plus": 1}] == [result["settings"] for result in told["results"]]


def test_tune(command, store):
    """tune prints what was tried, the best first, and the best's result in the test."""
    line = ("tune", "a", "--algorithm", "PAA-I", "--set", "C=10^-2..10^1", "--set", "delta=1", "--budget", 10)
    code, out, err = command(*line, "--json")
    assert (0, "") == (code, err)
    told = json.loads(out)
    assert ["specification", "versions", "trials", "result"] == list(told)
    wanted = Specification(("a",), {"PAA-I": {"C": "10^-2..10^1", "delta": [1.0]}}, (10,), tune="2:1")
    found = experiments.compare(wanted, store, "same")
    assert [(row["settings"], row["score"]) for row in found.trials()] == [
        (row["settings"], row["score"]) for row in told["trials"]
    ]
    assert told["trials"][0]["settings"] == told["result"]["settings"] == found.lines[0].setting
    assert json.loads(json.dumps(found.told()["results"][0])) == told["result"]
    text = command(*line)[1]
    best = experiments.outlined(found.lines[0].setting)
    assert text.index(best) < text.index(experiments.outlined(found.trials()[-1]["settings"]))
    assert "a, 10 labels" in text


def test_held_out_on_the_command_line(command):
    """--held-out prints metrics of held-out folds, and no labels."""
    line = ("compare", "a", "--algorithms", "PA-I", "--held-out", "--permutations", 5)
    told = json.loads(command(*line, "--json")[1])
    assert [18] * 5 == [sum(run["push"][key] for key in ("tp", "fp", "tn", "fn")) for run in told["results"][0]["runs"]]
    assert "PA-I" in command(*line)[1]


def test_an_interrupted_command_says_that_it_goes_on(command, store, monkeypatch):
    """Ctrl-C is one sentence, and the result that is not there yet another."""
    line = ("compare", "a", "--algorithms", "PAA-I,OAAL", "--save", "mine")
    with monkeypatch.context() as context:
        context.setattr(cli.experiments, "compare", interrupted(experiments.compare))
        assert (
            1,
            "",
            "error: stopped; what is finished is kept, and the same command goes on from there.\n",
        ) == command(*line)
    message = "error: mine is not finished. Run its compare again: it goes on from what is kept.\n"
    assert (1, "", message) == command("results", "mine")
    assert 0 < len(store.replays(store.comparison("mine")["id"])) < 20
    assert 0 == command(*line)[0]


def interrupted(compare):
    """compare, stopped after its first replays."""
    return lambda *arguments, progress, **options: compare(*arguments, progress=stopping(1), **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "a"), "algorithms of a comparison must be a table of at least one. Got {}."),
        (("compare", "--algorithms", "OAAL"), "data of a comparison must be a list of at least one. Got ()."),
        (("compare", "a", "--algorithms", "OAAL", "--set", "C=1"), "none of OAAL has a parameter C."),
        (("compare", "a", "--algorithms", "OAAL", "--set", "C"), "--set must be KEY=VALUES, or A:KEY="),
        (("compare", "a", "--algorithms", "OAAL", "--set", "PA:C=1"), "--set must be KEY=VALUES, or A:KEY="),
        (("compare", "a", "--algorithms", "PAA-I", "--set", "C=1,"), "C must be a number, several (1, 10), or powers"),
        (("compare", "a", "--algorithms", "OAAL", "--rho", "x"), "--rho must be auto, laplace or a number. Got x."),
        (("compare", "--spec", "missing.toml"), "[Errno 2] No such file or directory: 'missing.toml'"),
        (("tune", "a", "--algorithm", "OAAL", "--tune", "none"), "--tune must be 2:1, cv or hindsight. Got none."),
        (("results", "nothing"), "comparison nothing does not exist. There are: none."),
    ],
)  # fmt: skip
def test_errors_of_the_commands_are_one_sentence(command, arguments, message):
    """What is wrong is one line on standard error, nothing on standard output, and exit code 1."""
    code, out, err = command(*arguments)
    assert (1, "", 1) == (code, out, err.count("\n"))
    assert err.startswith(f"error: {message}")


def test_a_scheduler_needs_dask(command, monkeypatch):
    """Without `distributed` the option says what to install."""
    monkeypatch.delitem(sys.modules, "oal_engine.cluster", raising=False)
    monkeypatch.delattr("oal_engine.cluster", raising=False)
    monkeypatch.setitem(sys.modules, "distributed", None)
    message = "error: --scheduler needs Dask: pip install -r requirements-dask.txt.\n"
    assert (1, "", message) == command("compare", "a", "--algorithms", "PAA", "--scheduler", "tcp://127.0.0.1:1")


# The guide

GUIDE = (ROOT / "docs" / "comparing.md").read_text(encoding="utf-8")


def blocks(language):
    """The blocks of the guide in a language."""
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


def test_the_guide_runs(tmp_path, monkeypatch, capsys):
    """Its examples in Python run one after the other, and print a line for each of three settings."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks("python"):
        exec(block, names)
    assert 3 == capsys.readouterr().out.count("Demo: life satisfaction (synthetic) 100 ")


def test_the_guide_names_every_key(tmp_path):
    """Its specification is one, with the default of every key that it does not choose itself."""
    (toml,) = blocks("toml")
    (tmp_path / "x.toml").write_text(toml.replace("# hit", "hit"))
    told = experiments.contents(tmp_path / "x.toml")
    assert {each.name for each in fields(Specification)} == set(told)
    chosen = {"data", "algorithms", "budgets", "tune", "hit"}
    defaults = {each.name: each.default for each in fields(Specification) if each.name not in chosen}
    assert defaults == {key: value for key, value in told.items() if key not in chosen}
    assert "OAAL" in specification(told).algorithms


def test_the_guide_names_every_protocol():
    """Each way to tune is a line of its table."""
    assert set(experiments.PROTOCOLS) == set(re.findall(r"^\| `(.+?)`", GUIDE, re.MULTILINE))


def test_the_commands_of_the_guide_are_taken(tmp_path, monkeypatch):
    """Each command is read as it stands, down to what it would run."""
    taken = []
    monkeypatch.setattr(cli.experiments, "compare", lambda spec, *_, **__: taken.append(spec) or sys.exit(0))
    monkeypatch.setenv("OAL_DB", str(tmp_path / "studio.db"))
    monkeypatch.chdir(ROOT)
    commands = [line.split()[1:] for block in blocks("sh") for line in block.splitlines() if " results " not in line]
    for command in commands:
        monkeypatch.setattr(sys, "argv", command[1:])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert not end.value.code
    assert ["2:1", "none", "2:1", "2:1"] == [spec.tune for spec in taken]
    assert [{"C": "10^-2..10^2"}, (300,)] == [taken[2].algorithms["PAA-I"], taken[2].budgets]
