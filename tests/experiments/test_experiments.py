"""Comparisons give the same numbers wherever they run, can be stopped and resumed, and can be run from the command
line."""

import json
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import fields
from multiprocessing import get_context

import numpy as np
import pytest

from oal_engine import datasets, experiments
from oal_engine.cli import main as cli
from oal_engine.experiments import running, specifications, tuned_runs, worker
from oal_engine.experiments.specifications import Hit, Specification, specification
from oal_engine.kernel import metrics, stacks
from oal_engine.kernel.parameters import combinations
from oal_engine.store import Store
from tests.harness import ROOT
from tests.harness.comparing import ROUNDS, spec, table

SEVERAL = {
    "data": ["a", "b"],
    "algorithms": {"OAAL": {"delta_plus": [0.1, 1], "delta_minus": "10^-1..10^0"}, "CSOAL": {"C": [0.1, 1, 10]}},
    "budgets": [8, 20],
    "tune": "2:1",
}
GRIDS = {
    "PAA-I": {"C": "10^-2..10^1", "delta": [0.1, 1, 10]},
    "CSOAL": {"C": [0.1, 1, 10], "rho": [1, 4, "laplace"]},
    "OA3-diag": {"eta": [0.1, 1], "alpha_p": [0.2, 0.8], "theta": [0, 0.05]},
    "auto": {},
}


@pytest.fixture
def counted(monkeypatch):
    """A list to which the key of every replay that runs is appended."""
    keys, replayed = [], running.replayed

    def noted(source, jobs):
        keys.extend(experiments.job_key(source, job) for job in jobs)
        return replayed(source, jobs)

    monkeypatch.setattr(running, "replayed", noted)
    return keys


@pytest.fixture
def passes(monkeypatch):
    """A list that gets the number of settings of each shared pass over the rows. Even short runs share passes here, and
    at most 5 settings share one."""
    sizes, replay_settings = [], stacks.replay_settings

    def noted(rows, y, order, settings, **options):
        sizes.append(len(settings))
        return replay_settings(rows, y, order, settings, **options)

    monkeypatch.setattr(stacks, "replay_settings", noted)
    monkeypatch.setattr(running, "PASS_PAYS_ROUNDS", 0)
    monkeypatch.setattr(running, "PASS_SETTINGS", 5)
    return sizes


# The same numbers


@pytest.mark.slow
@pytest.mark.parametrize("tune", ["none", "2:1", "cv", "hindsight"])
def test_the_same_specification_gives_the_same_json(store, tmp_path, tune):
    """A comparison's JSON is identical with one thread, four or the default, with processes, in another database, and
    after loading."""
    wanted = specification(SEVERAL | {"tune": tune, "permutations": 3})
    first = json.dumps(experiments.compare(wanted, store, "first").as_json())
    for name, workers in (("one", 1), ("four", 4)):
        with ThreadPoolExecutor(workers) as threads:
            assert first == json.dumps(experiments.compare(wanted, store, name, threads).as_json())
    if tune == "2:1":
        with ProcessPoolExecutor(2, get_context("spawn")) as processes:  # share only the rows on disk
            assert first == json.dumps(experiments.compare(wanted, store, "processes", processes).as_json())
    other = Store(tmp_path / "other.db")
    for name, seed, rounds in (("a", 0, ROUNDS), ("b", 1, 70)):
        datasets.add(other, name, table(seed, rounds), name)
    assert first == json.dumps(experiments.compare(wanted, other).as_json())
    assert first == json.dumps(experiments.load(store, "first").as_json())


@pytest.mark.slow
def test_a_comparison_that_is_stopped_goes_on(store, counted):
    """A stopped comparison keeps its finished replays, does not run them again, and ends with the same result."""
    wanted = specification(SEVERAL)
    never = experiments.compare(wanted, store, "never stopped").as_json()
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
    assert never == experiments.compare(wanted, store, "stopped").as_json()
    assert set(every) - kept == set(counted)
    counted.clear()
    assert never == experiments.compare(wanted, store, "stopped").as_json()
    assert [] == counted


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        {"tune": "2:1", "budgets": [20]},
        {"tune": "cv", "held_out": True, "budgets": [None], "average": True},
        {"tune": "hindsight", "budgets": [15], "average": True, "metric": "cost"},
        {"tune": "cv", "hit": 0.3, "algorithms": {"PAA-I": {"C": "10^-2..10^2"}}},
    ],
)
def test_settings_that_share_a_pass_give_the_same_json(store, passes, monkeypatch, values):
    wanted = specification({"data": ["a", "b"], "algorithms": GRIDS, "permutations": 2, "points": 5} | values)
    shared = experiments.compare(wanted, store, "shared").as_json()
    assert {5} <= set(passes) <= {4, 5}
    passes.clear()
    monkeypatch.setattr(running, "PASS_PAYS_ROUNDS", 10**9)
    assert shared == experiments.compare(wanted, store, "one by one").as_json()
    assert [] == passes


@pytest.mark.slow
def test_settings_that_share_a_pass_begin_with_the_seeds(store, passes):
    known = spec(algorithms={"PAA-I": GRIDS["PAA-I"]}, tune="2:1")
    (run,) = experiments.planned_runs(known, experiments.sources(known, store))
    source = run.source._replace(prior=((0, 0.5), (3, -2.0)))
    jobs = [run.job(setting, ("tune", 1)) for setting in combinations(run.grid)]
    together, one_by_one = worker.replayed_together(source, jobs), worker.replayed(source, jobs)
    assert [len(jobs)] == passes
    assert np.array_equal(together, one_by_one)
    assert not np.array_equal(together, worker.replayed(run.source, jobs))


def test_what_is_finished_does_not_wait_for_a_long_replay(store, monkeypatch):
    begun, replayed = [], running.replayed

    def patient(source, jobs):
        end = time.monotonic() + 30
        while len(store.replays(1)) < len(begun):
            assert time.monotonic() < end
            time.sleep(0.01)
        begun.extend(jobs)
        return replayed(source, jobs)

    monkeypatch.setattr(running, "SECONDS_PER_WRITE", 0.3)
    monkeypatch.setattr(running, "replayed", patient)
    with ThreadPoolExecutor(1) as one:
        experiments.compare(spec(permutations=4), store, executor=one)
    assert len(begun) == len(store.replays(1)) >= 4


def stopping(stop_at):
    """Return a progress callback that raises KeyboardInterrupt once `stop_at` replays are finished."""

    def progress(done, total):
        if done >= stop_at:
            raise KeyboardInterrupt

    return progress


def test_progress_comes_to_its_end(store):
    for changes, total in (
        ({}, 3),
        ({"algorithms": {"PAA-I": {"C": [1, 2]}}}, 6),
        ({"algorithms": {"PAA-I": {"C": [1, 2]}}, "tune": "2:1", "trials": 2}, 2 * 2 + 3),
        ({"algorithms": {"PAA-I": {"C": [1, 2]}}, "tune": "cv", "hit": 0.2}, 2 * 5 * (1 + tuned_runs.STEPS) + 3),
        ({"hit": 0.2}, 3 * (1 + tuned_runs.STEPS)),
        ({"algorithms": {"PAA-I": {"C": "10^-9..10^9", "delta": "10^-9..10^9"}}, "tune": "2:1"}, 2 * 38 * 3 + 3),
    ):
        reports = []
        experiments.compare(
            spec(**changes), store, progress=lambda done, total, reports=reports: reports.append((done, total))
        )
        assert {total} == {reported for _, reported in reports}
        assert (total, total) == reports[-1]


def test_a_name_stands_for_one_specification(store):
    """Another specification under an existing name is refused, and the first comparison stays unchanged."""
    experiments.compare(spec(), store, "mine")
    with pytest.raises(experiments.ExperimentError, match="a comparison named mine exists with other settings"):
        experiments.compare(spec(seed=1), store, "mine")
    assert [0, 1, 2] == [run["seed"] for run in experiments.load(store, "mine").as_json()["results"][0]["runs"]]


def test_seeds_are_part_of_a_specification(store):
    """Replays with seed items are others than those without, whose stored specification has no key for seeds."""
    plain, seeded = (experiments.compare(spec(seed_items=ids), store, name) for name, ids in (("x", []), ("y", ["3"])))
    assert "seed_items" not in store.comparison("x")["specification"]
    assert ("3",) == experiments.load(store, "y").spec.seed_items
    assert not set(plain.lines[0].jobs) & set(seeded.lines[0].jobs)


def test_the_list_leaves_the_lines_out(store):
    """The list of comparisons has all their fields except the result lines, and says whether a comparison has any
    lines."""
    experiments.begin(spec(seed=1), store, "begun")
    experiments.compare(spec(), store, "run")
    run, begun = store.comparisons()
    assert (("run", 1), ("begun", 0)) == ((run["name"], run["has_lines"]), (begun["name"], begun["has_lines"]))
    assert run == store.comparison("run", lines=False)
    assert run | {"lines": store.comparison("run")["lines"]} == store.comparison("run")


# Sweeps of the papers


@pytest.mark.slow
def test_a_sweep_of_costs_weighs_runs_by_each(store):
    """The c_p of a setting decides both the rho of its runs and the weights of its costs."""
    wanted = spec(algorithms={"COG-I": {"c_p": [0.6, 0.9]}}, metric="cost", criterion="cost")
    comparison = experiments.compare(wanted, store)
    for line, c_p in zip(comparison.lines, (0.6, 0.9)):
        (alone,) = experiments.compare(spec(algorithms={"COG-I": {}}, metric="cost", c_p=c_p), store).lines
        assert alone.counts.tolist() == line.counts.tolist()
        expected = metrics.evaluate(line.counts[:, -1], "push", metrics.Weights(0.5, c_p))["cost"]
        assert expected.tolist() == comparison.values(line).tolist()


@pytest.mark.slow
def test_several_hits_are_an_axis(store):
    """Each target of `hit` has its own result lines, which ask for about that many labels. A supervised algorithm asks
    for all labels. A single target is not an axis."""
    algorithms = {"PAA-I": {"C": [0.1, 1]}, "PA-I": {}}
    comparison = experiments.compare(spec(algorithms=algorithms, hit=[0.2, 0.5, 60]), store, "hits")
    assert [("a", Hit(share)) for share in (0.2, 0.5, 60)] == list(comparison.blocks())
    for (_, hit), lines in comparison.blocks().items():
        assert ["PAA-I C=0.1", "PAA-I C=1", "PA-I"] == [*lines]
        for name, line in lines.items():
            wanted = 90 if name == "PA-I" else hit.labels * 90 if hit.labels <= 1 else hit.labels
            assert abs(line.asked.mean() - wanted) < 4
    again = experiments.load(store, "hits")
    assert again.blocks() == comparison.blocks()
    assert again.as_json() == comparison.as_json()
    assert [0.2, 0.5, 60] == [test["hit"] for test in again.as_json()["tests"]]
    assert 3 == again.ranks()["blocks"]
    one = experiments.compare(spec(hit=0.2), store)  # has no axis of hits
    assert [("a", None)] == list(one.blocks())
    assert "hit" not in one.as_json()["results"][0]


def test_what_several_runs_ask_for_is_run_once(store, counted):
    experiments.compare(spec(algorithms={"PA-I": {}}, hit=[0.1, 0.2, 0.5]), store)
    assert 3 == len(counted)


def test_the_time_along_the_stream_is_kept_and_is_no_part_of_the_json(store):
    """With `times`, processor seconds are stored at points of each run. The results in the JSON stay the same."""
    without = experiments.compare(spec(), store, "without").as_json()
    comparison = experiments.compare(spec(times=True), store, "timed")
    seconds = comparison.seconds(comparison.lines[0])
    assert (3, 10) == seconds.shape
    assert (np.diff(seconds, axis=1) >= 0).all()
    assert (seconds > 0).all()
    assert seconds.tolist() == experiments.load(store, "timed").seconds(comparison.lines[0]).tolist()
    items, _, mean, _ = comparison.curve(comparison.lines[0], "seconds", "push")
    assert (10, 90) == (mean.size, items[-1])
    assert without["results"] == comparison.as_json()["results"]


@pytest.mark.slow
def test_tests_and_ranks_are_over_the_lines(store):
    """Each block (a data set with a budget) has one best name. Ranks are averaged over the blocks; the lowest cost
    ranks first."""
    comparison = experiments.compare(specification(SEVERAL | {"permutations": 4}), store)
    assert [("a", 8), ("a", 20), ("b", 8), ("b", 20)] == list(comparison.tests())
    assert all(1 == sum(result["best"] for result in block.values()) for block in comparison.tests().values())
    assert 4 == comparison.ranks()["blocks"]
    for metric, better in (("cost", min), ("sum", max)):
        means = [
            {name: comparison.values(line, metric).mean() for name, line in block.items()}
            for block in comparison.blocks().values()
        ]
        first = comparison.ranks(metric)["ranks"]["OAAL"]
        wins = sum((1.5 if m["OAAL"] == m["CSOAL"] else 1 if better(m, key=m.get) == "OAAL" else 2) for m in means)
        assert wins / 4 == first


# Data


def test_data_sets_are_found_or_imported(store, tmp_path):
    """Data sets are found by name, or imported once from a file in the specification's folder. The specification may
    name the columns of the file."""
    (tmp_path / "texts.csv").write_text("id,words,kind\n" + "".join(f"{k},w{k % 7} x,{k % 3}\n" for k in range(12)))
    (tmp_path / "numbers.libsvm").write_text("+1 1:1\n-1 2:1\n" * 4)
    mine = {"name": "mine", "file": "texts.csv", "text": "words", "label": "kind", "positive": ["2"]}
    wanted = spec(data=["a", "numbers.libsvm", mine])
    sources = experiments.sources(wanted, store, tmp_path)
    assert [("a", 90), ("numbers", 8), ("mine", 12)] == [(source.name, source.rounds) for source in sources]
    assert (4, "texts.csv") == (store.dataset("mine")["positives"], store.dataset("mine")["source"])
    assert sources == experiments.sources(wanted, store, tmp_path)


def test_the_same_rows_in_another_place_are_the_same(store, tmp_path):
    """The keys of replays depend on rows and labels, not on names or folders; one changed label, or other
    answers to a question, change them."""
    other = Store(tmp_path / "other.db")
    datasets.add(other, "renamed", table(0), "a")
    changed = table(0)
    changed.y[0] *= -1
    datasets.add(other, "changed", changed, "a")
    keys = [
        experiments.compare(spec(data=[name]), place).lines[0].jobs
        for place, name in ((store, "a"), (other, "renamed"), (other, "changed"))
    ]
    assert keys[0] == keys[1]
    assert not set(keys[0]) & set(keys[2])
    (source,) = experiments.sources(spec(), store)
    job = experiments.TunedRun(spec(), source, "auto", 20, {}).job({}, ("all", 0))
    answered = [source._replace(questions=(("q", answers),)) for answers in (b"\1", b"\2")]
    assert 3 == len({experiments.job_key(each, job) for each in (source, *answered)})


# Errors


def test_unlabeled_data_is_refused(store):
    """A comparison refuses data with missing labels and streams that are too short."""
    unlabeled = table(0)
    unlabeled.y[3] = 0
    for name, data, message in (
        ("some", unlabeled, "every item of some must have a label. Some have none."),
        ("few", table(0, 4), "a comparison needs 5 items or more. few has 4."),
    ):
        datasets.add(store, name, data, name)
        with pytest.raises(experiments.ExperimentError, match=f"^{message}$"):
            experiments.compare(spec(data=[name]), store)


def test_a_failure_in_a_worker_is_reported(store, monkeypatch):
    monkeypatch.setenv("OAL_MEMORY_LIMIT", "8")
    with pytest.raises(ValueError, match="acog-ii keeps a full covariance"):
        experiments.compare(spec(algorithms={"OA3": {}}), store)


# The command line


@pytest.fixture
def command(store, tmp_path, monkeypatch, command):
    """A function that runs the command line in the folder of the store and returns (exit code, standard output,
    standard error)."""
    monkeypatch.setenv("OAL_DB", str(store.path))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)
    return command


@pytest.mark.slow
def test_compare_and_results(command, store):
    """`compare` prints the JSON of the Python API and stores the comparison by name; `results` shows and deletes it."""
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
    output = json.loads(out)
    assert json.loads(json.dumps(experiments.compare(wanted, store, "same").as_json())) == output
    assert ["specification", "versions", "results", "tests", "ranks"] == list(output)
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


def test_every_key_is_an_option(command, monkeypatch):
    values = {"seed": 3, "permutations": 2, "points": 4, "theta": 0.1, "floor": 0.25, "hit": 0.5, "c_p": 0.6}
    options = [text for key, value in values.items() for text in (f"--{key.replace('_', '-')}", value)]
    specs = []
    monkeypatch.setattr(experiments, "compare", lambda spec, *_, **__: specs.append(spec.values) or sys.exit(0))
    assert (0, "", "") == command("compare", "a", "--algorithms", "PAA-I", "--budget", 9, *options, "--times")
    assert values | {"times": True} == {key: specs[0][key] for key in [*values, "times"]}
    taken = {option for each in cli.command("compare").params for option in each.opts}
    named = {"data": "sources", "budgets": "--budget"}
    assert not {named.get(each.name, f"--{each.name.replace('_', '-')}") for each in fields(Specification)} - taken


def test_the_downloads_of_a_result_are_specifications(command, store, tmp_path):
    comparison = experiments.compare(spec(), store, "first")
    everything = comparison.as_json()
    for number, content in enumerate((everything, comparison.spec.values | {"versions": comparison.versions})):
        (tmp_path / "a.json").write_text(json.dumps(content))
        code, out, err = command("compare", "--spec", "a.json", "--save", f"again {number}", "--json")
        assert (0, "") == (code, err)
        assert json.loads(json.dumps(everything)) == json.loads(out)


@pytest.mark.slow
def test_results_are_written_as_files(command, store, tmp_path):
    """The suffix of --out decides the format of the file. A figure has options for its data, metric and axis, and
    unknown values are refused."""
    experiments.compare(spec(algorithms={"PAA-I": {}, "PA-I": {}}, hit=[0.2, 0.5], times=True), store, "hits")
    for name in ("a.svg", "a.png", "a.pdf", "a.html", "a.json", "a.csv", "a.tex", "a.parquet"):
        assert (0, "", "") == command("results", "hits", "--out", name)
        assert (tmp_path / name).stat().st_size
    assert "share of labels asked" in (tmp_path / "a.svg").read_text()
    figure = ("results", "hits", "--data", "a", "--metric")
    assert (0, "", "") == command(*figure, "query_ratio", "--over", "rounds", "--hit", 0.5, "--out", "b.svg")
    assert "a, 50 % of labels asked" in (tmp_path / "b.svg").read_text()
    assert (0, "", "") == command(*figure, "seconds", "--over", "rounds", "--out", "c.svg")
    assert "Time (s)" in (tmp_path / "c.svg").read_text()
    for options, message in (
        (("sum", "--over", "budget", "--out", "d.svg"), "--over must be one of share, labels, rounds. Got budget."),
        (("auc", "--out", "d.svg"), "specificity, precision, query_ratio, seconds. Got auc."),
        (("sum", "--hit", 0.3, "--out", "d.svg"), "20 % of labels asked, 50 % of labels asked. Got 30 %"),
        (("sum", "--out", "d.gif"), "the suffix of --out must be one of csv, parquet, tex, png,"),
        (("sum",), "--data, --budget, --hit, --metric, --evaluation and --over are for --out FILE."),
    ):  # fmt: skip
        assert message in command(*figure, *options)[2]
    experiments.compare(spec(algorithms={"PAA-I": {"C": [1, 2, 100]}, "OAAL": {}}), store, "over")
    assert (0, "", "") == command("results", "over", "--over", "C", "--out", "e.svg")
    assert {"OAAL", "PAA-I", "C"} <= {*re.findall(r">([^<>]+)</text>", (tmp_path / "e.svg").read_text())}


@pytest.mark.slow
def test_compare_with_a_file(command, tmp_path):
    """Command-line options override a specification file, and paths in the file are relative to its folder."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "numbers.libsvm").write_text("+1 1:1\n-1 2:1\n" * 6)
    values = {"data": ["numbers.libsvm"], "algorithms": {"OAAL": {"delta_plus": 1}, "PAA": {}}, "permutations": 2}
    (tmp_path / "folder" / "x.json").write_text(json.dumps(values))
    output = json.loads(command("compare", "--spec", "folder/x.json", "--budget", 4, "--json")[1])
    assert ([4], 2) == tuple(output["specification"][key] for key in ("budgets", "permutations"))
    assert 4 == output["results"][0]["runs"][0]["queried"]
    output = json.loads(command("compare", "--spec", "folder/x.json", "--algorithms", "OAAL", "--json")[1])
    assert [{"delta_plus": 1}] == [result["settings"] for result in output["results"]]
    code, out, err = command("compare", "--spec", "folder/x.json", "--held-out", "--tune", "cv")
    assert (0, "", True) == (code, err, "OAAL" in out)


def test_tune(command, store):
    """`tune` takes the weights of the metrics. It prints the five best trials, how many more there are, and the result
    of the best setting."""
    line = (
        "tune", "a", "--algorithm", "PAA-I", "--set", "C=10^-3..10^3", "--set", "delta=1", "--budget", 10,
        "--alpha-p", 0.8, "--c-p", 0.7, "--average",
    )  # fmt: skip
    code, out, err = command(*line, "--json")
    assert (0, "") == (code, err)
    output = json.loads(out)
    assert ["specification", "versions", "trials", "result"] == list(output)
    wanted = Specification(
        ("a",), {"PAA-I": {"C": "10^-3..10^3", "delta": [1.0]}}, (10,), tune="2:1", alpha_p=0.8, c_p=0.7, average=True
    )
    comparison = experiments.compare(wanted, store, "same")
    assert [(row["settings"], row["score"]) for row in comparison.trials()] == [
        (row["settings"], row["score"]) for row in output["trials"]
    ]
    assert output["trials"][0]["settings"] == output["result"]["settings"] == comparison.lines[0].setting
    assert json.loads(json.dumps(comparison.as_json()["results"][0])) == output["result"]
    text = command(*line)[1]
    tried = [specifications.outlined(trial["settings"]) for trial in comparison.trials()]
    places = [text.index(each) for each in tried[:5]]
    assert sorted(places) == places
    assert not any(each in text for each in tried[5:])
    assert "2 more settings were tried" in text
    assert "a, 10 labels" in text


def test_an_interrupted_command_says_that_it_goes_on(command, store, monkeypatch):
    """After Ctrl-C, compare says in one sentence how to resume, and so does `results` for the unfinished comparison."""
    line = ("compare", "a", "--algorithms", "PAA-I,OAAL", "--save", "mine")
    stopped = "error: stopped. Finished replays are kept; run the same command again to resume.\n"
    with monkeypatch.context() as context:
        context.setattr(experiments, "compare", interrupted(experiments.compare))
        assert (1, "", stopped) == command(*line)
    message = "error: mine is not finished. Run the same compare command again to resume it.\n"
    assert (1, "", message) == command("results", "mine")
    assert 0 < len(store.replays(store.comparison("mine")["id"])) < 20
    assert 0 == command(*line)[0]


def interrupted(compare):
    """Wrap `experiments.compare` so that it is stopped after its first replays."""
    return lambda *arguments, progress, **options: compare(*arguments, progress=stopping(1), **options)


def test_a_scheduler_needs_dask(command, monkeypatch):
    """If the package `distributed` is missing, --scheduler says what to install."""
    monkeypatch.delitem(sys.modules, "oal_engine.experiments.cluster", raising=False)
    monkeypatch.delattr("oal_engine.experiments.cluster", raising=False)
    monkeypatch.setitem(sys.modules, "distributed", None)
    message = "error: --scheduler needs Dask: pip install distributed.\n"
    assert (1, "", message) == command("compare", "a", "--algorithms", "PAA", "--scheduler", "tcp://127.0.0.1:1")


# The guide

GUIDE = (ROOT / "docs" / "comparing.md").read_text(encoding="utf-8")


def blocks(language):
    """Return the guide's blocks of code in a language."""
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


def test_the_guide_runs(tmp_path, monkeypatch, capsys):
    """The guide's Python examples run one after the other and print one line for each of three settings."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks("python"):
        exec(block, names)
    assert 3 == capsys.readouterr().out.count("Demo: life satisfaction (synthetic) 100 ")


def test_the_guide_names_every_key(tmp_path):
    """The guide's specification is valid and shows the default of every key that it does not choose."""
    (toml,) = blocks("toml")
    (tmp_path / "x.toml").write_text(toml.replace("# hit", "hit"))
    contents = specifications.contents(tmp_path / "x.toml")
    assert {each.name for each in fields(Specification)} == set(contents)
    chosen = {"data", "algorithms", "budgets", "tune", "hit"}
    defaults = {each.name: each.default for each in fields(Specification) if each.name not in chosen}
    shown = specification(contents)
    assert defaults == {key: getattr(shown, key) for key in defaults}
    assert "OAAL" in shown.algorithms


def test_the_guide_names_every_protocol():
    assert set(specifications.PROTOCOLS) == set(re.findall(r"^\| `(.+?)`", GUIDE, re.MULTILINE))
