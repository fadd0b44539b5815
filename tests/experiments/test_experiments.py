"""Comparisons: the same numbers wherever they run, kept, told, and asked for on the command line."""

import json
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import fields
from multiprocessing import get_context

import pytest

from oal_engine import datasets, experiments
from oal_engine.cli import main as cli
from oal_engine.experiments import specifications, tuned_runs
from oal_engine.experiments.specifications import Specification, specification
from oal_engine.kernel import metrics
from oal_engine.store import Store
from tests.harness import ROOT
from tests.harness.comparing import ROUNDS, spec, table

pytestmark = pytest.mark.slow

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
    first = json.dumps(experiments.compare(wanted, store, "first").as_json())
    for name, workers in (("one", 1), ("four", 4)):
        with ThreadPoolExecutor(workers) as threads:
            assert first == json.dumps(experiments.compare(wanted, store, name, threads).as_json())
    other = Store(tmp_path / "other.db")
    for name, seed, rounds in (("a", 0, ROUNDS), ("b", 1, 70)):
        datasets.add(other, name, table(seed, rounds), name)
    assert first == json.dumps(experiments.compare(wanted, other).as_json())
    assert first == json.dumps(experiments.load(store, "first").as_json())


def test_processes_give_the_same_json(store):
    """Workers that share nothing but the rows on disk come to the same."""
    wanted = specification(SEVERAL)
    with ProcessPoolExecutor(2, get_context("spawn")) as processes:
        found = experiments.compare(wanted, store, "processes", processes).as_json()
    assert experiments.compare(wanted, store, "threads").as_json() == found


def test_a_comparison_that_is_stopped_goes_on(store, counted):
    """What was finished is kept, nothing of it is run again, and the result is that of one that was never stopped."""
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


def test_what_is_finished_does_not_wait_for_a_long_replay(store, monkeypatch):
    """While a replay is at work, those before it are stored: each begins when it sees that they are."""
    begun, replayed = [], experiments.replayed

    def patient(source, jobs):
        end = time.monotonic() + 30
        while len(store.replays(1)) < len(begun):
            assert time.monotonic() < end
            time.sleep(0.01)
        begun.extend(jobs)
        return replayed(source, jobs)

    monkeypatch.setattr(experiments, "KEEP_EVERY", 0.3)
    monkeypatch.setattr(experiments, "replayed", patient)
    with ThreadPoolExecutor(1) as one:
        experiments.compare(spec(permutations=4), store, executor=one)
    assert len(begun) == len(store.replays(1)) >= 4


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
        ({"algorithms": {"PAA-I": {"C": [1, 2]}}, "tune": "cv", "hit": 0.2}, 2 * 5 * (1 + tuned_runs.STEPS) + 3),
        ({"hit": 0.2}, 3 * (1 + tuned_runs.STEPS)),
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
    assert [0, 1, 2] == [run["seed"] for run in experiments.load(store, "mine").as_json()["results"][0]["runs"]]


def test_the_list_leaves_the_lines_out(store):
    """What is listed tells of a comparison all but its lines, which are many, and whether it has any."""
    experiments.begin(spec(seed=1), store, "begun")
    experiments.compare(spec(), store, "run")
    run, begun = store.comparisons()
    assert (("run", 1), ("begun", 0)) == ((run["name"], run["has_lines"]), (begun["name"], begun["has_lines"]))
    assert run == store.comparison("run", lines=False)
    assert run | {"lines": store.comparison("run")["lines"]} == store.comparison("run")


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
    told = experiments.compare(spec(algorithms={"PAA-I": {}, "OAAL": {}}, permutations=1), store).as_json()
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


def test_unlabelled_data_is_refused(store):
    """Metrics need every label; so does one of K classes against the rest, and a stream is not too short."""
    for name, made in (("some", table(0)), ("few", table(0, 4))):
        if name == "some":
            made.y[3] = 0
        datasets.add(store, name, made, name)
    for name, message in (
        ("some", "every item of some must have a label. Some have none."),
        ("few", "a comparison needs 5 items or more. few has 4."),
    ):
        with pytest.raises(experiments.ExperimentError, match=f"^{message}$"):
            experiments.run(spec(data=[name]), store)


def test_a_failure_in_a_worker_is_told(store, monkeypatch):
    """What a replay raises comes out as it is, in one sentence."""
    monkeypatch.setenv("OAL_MEMORY_LIMIT", "8")
    with pytest.raises(ValueError, match="acog-ii keeps a full covariance"):
        experiments.run(spec(algorithms={"OA3": {}}), store)


# The command line


@pytest.fixture
def command(store, tmp_path, monkeypatch, command):
    """A function from arguments to (exit code, standard output, standard error), in the folder of the store."""
    monkeypatch.setenv("OAL_DB", str(store.path))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)
    return command


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
    assert json.loads(json.dumps(experiments.compare(wanted, store, "same").as_json())) == told
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
    assert json.loads(json.dumps(found.as_json()["results"][0])) == told["result"]
    text = command(*line)[1]
    best = specifications.outlined(found.lines[0].setting)
    assert text.index(best) < text.index(specifications.outlined(found.trials()[-1]["settings"]))
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
        context.setattr(experiments, "compare", interrupted(experiments.compare))
        assert (
            1,
            "",
            "error: stopped. What is finished is kept; run the same command again to resume.\n",
        ) == command(*line)
    message = "error: mine is not finished. Run the same compare command again to resume it.\n"
    assert (1, "", message) == command("results", "mine")
    assert 0 < len(store.replays(store.comparison("mine")["id"])) < 20
    assert 0 == command(*line)[0]


def interrupted(compare):
    """compare, stopped after its first replays."""
    return lambda *arguments, progress, **options: compare(*arguments, progress=stopping(1), **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "a"), "compare needs --algorithms NAME,NAME or a --spec that names some. Got neither."),
        (("compare", "--algorithms", "OAAL"), "data of a comparison must be a list of at least one. Got ()."),
        (("compare", "a", "--algorithms", "OAAL", "--set", "C=1"), "none of OAAL has a parameter C."),
        (("compare", "a", "--algorithms", "OAAL", "--set", "C"), "--set must be KEY=VALUES, or A:KEY="),
        (("compare", "a", "--algorithms", "OAAL", "--set", "PA:C=1"), "--set must be KEY=VALUES, or A:KEY="),
        (("compare", "a", "--algorithms", "PAA-I", "--set", "C=1,"), "C must be a number, several (1, 10), or powers"),
        (("compare", "a", "--algorithms", "OAAL", "--rho", "x"), "--rho must be auto, laplace or a number. Got x."),
        (("compare", "--spec", "missing.toml"), "missing.toml cannot be opened: No such file or directory."),
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
    monkeypatch.delitem(sys.modules, "oal_engine.experiments.cluster", raising=False)
    monkeypatch.delattr("oal_engine.experiments.cluster", raising=False)
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
    told = specifications.contents(tmp_path / "x.toml")
    assert {each.name for each in fields(Specification)} == set(told)
    chosen = {"data", "algorithms", "budgets", "tune", "hit"}
    defaults = {each.name: each.default for each in fields(Specification) if each.name not in chosen}
    assert defaults == {key: value for key, value in told.items() if key not in chosen}
    assert "OAAL" in specification(told).algorithms


def test_the_guide_names_every_protocol():
    """Each way to tune is a line of its table."""
    assert set(specifications.PROTOCOLS) == set(re.findall(r"^\| `(.+?)`", GUIDE, re.MULTILINE))


def test_the_commands_of_the_guide_are_taken(tmp_path, monkeypatch):
    """Each command is read as it stands, down to what it would run."""
    taken = []
    monkeypatch.setattr(experiments, "compare", lambda spec, *_, **__: taken.append(spec) or sys.exit(0))
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


def test_tune_takes_the_weights_of_the_metrics(command):
    """--alpha-p, --c-p and --average are in the specification of tune, as in that of compare."""
    weights = ("--alpha-p", 0.8, "--c-p", 0.7, "--average")
    out = command("tune", "a", "--algorithm", "PAA-I", "--set", "C=1,2", *weights, "--json")[1]
    told = json.loads(out)["specification"]
    assert (0.8, 0.7, True) == (told["alpha_p"], told["c_p"], told["average"])
