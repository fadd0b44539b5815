"""The replay command gives the engine's results for the orders and settings on the command line."""

import gzip
import json
import lzma
import statistics

import numpy as np
import pytest

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.kernel import metrics, spending, stream
from oal_engine.kernel.algorithms import strategy
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store
from tests.harness.command_line import ROWS, RUN, TWEETS
from tests.harness.comparing import days

METRICS = ["tp", "fp", "tn", "fn", "sensitivity", "specificity", "precision", "recall", "f1", "sum", "cost", "accuracy"]


def table(path):
    return datasets.table(reading.read(path))


def expected(path, order=None, rho=None, seed=0, name="PAA-I", weights=metrics.Weights(), theta=0.0, **more):
    """Compute one run with the kernel. Return {evaluation: metrics} and, as `queried`, its number of questions."""
    data, chosen = table(path), strategy(name)
    rho = (data.y < 0).sum() / (data.y > 0).sum() if rho is None else rho
    order = np.arange(ROWS) if order is None else order
    parts = chosen.build(data.rows.columns)
    replay = stream.replay(data.rows, data.y, order, *parts, stream.objective(theta, rho), seed=seed, **more)
    return {
        name: {key: value.item() for key, value in metrics.evaluate(replay.counts, name, weights).items()}
        for name in metrics.EVALUATIONS
    } | {"queried": replay.queried}


def figures(run):
    """Return the same values from a run that `replay` printed: {evaluation: metrics} and, as `queried`, its number of
    questions."""
    return {key: run[key] for key in (*metrics.EVALUATIONS, "queried")}


def test_replay_prints_the_promised_object(ok, numbers):
    """The JSON has the documented keys; metrics are fractions, and mean and sample deviation are over the runs."""
    result = ok("replay", numbers, *RUN, "--permutations", 3, "--budget", 20, "--set", "delta=0.3")
    assert ["algorithm", "learner", "rule", "params", "runs", "mean", "std", "classes", "plan"] == list(result)
    assert ("PAA-I", "pa-i", "symmetric", {"C": 1.0, "delta": 0.3}) == tuple(result.values())[:4]
    assert [1, 2, 3] == [run["order"] for run in result["runs"]]
    for run in result["runs"]:
        assert ["order", "queried", "push", "push_query", "list", "floor", "seconds"] == list(run)
        assert METRICS == list(run["push"]) == list(run["push_query"])
        assert 60 == sum(run["push"][key] for key in ("tp", "fp", "tn", "fn"))
        assert all(0 <= run["push_query"][key] <= 1 for key in METRICS[4:] if key != "cost")
        assert 0 < run["queried"] <= 20
        assert run["seconds"] > 0
    for name, statistic in (("mean", statistics.fmean), ("std", statistics.stdev)):
        assert {"push", "push_query", "list", "queried"} == result[name].keys()
        assert statistic(run["queried"] for run in result["runs"]) == pytest.approx(result[name]["queried"])
        for evaluation in metrics.EVALUATIONS:
            assert METRICS == list(result[name][evaluation])
            for key in METRICS:
                assert statistic(run[evaluation][key] for run in result["runs"]) == pytest.approx(
                    result[name][evaluation][key]
                )


@pytest.fixture
def kinds(ok, tmp_path):
    """The name of a data set of three classes, imported from kinds.csv."""
    lines = [
        "x,y,z,kind",
        *(f"{k % 3 if k else 1},{k % 3 == 1:d},{k % 7 / 9},{'red green blue'.split()[k % 3]}" for k in range(90)),
    ]
    (tmp_path / "kinds.csv").write_text("\n".join(lines))
    options = "--label kind --multiclass --features plain --feature x --feature y --feature z --json"
    ok("import", "kinds.csv", "--name", "kinds", *options.split())
    return "kinds"


def test_a_replay_without_a_name_runs_auto(ok, numbers):
    assert "auto" == ok("replay", numbers, "--budget", 9, "--json")["algorithm"]


def test_replay_of_classes_reports_each_of_them(run, ok, kinds):
    """A replay with several classes has metrics for each class, equal for a file and for the data set imported from it.
    For a binary algorithm, one class is chosen as the positive one."""
    results = [
        ok("replay", *data, "--algorithm", "MPAA-I", "--permutations", 2, "--json")
        for data in ([kinds], ["kinds.csv", "--label", "kind"])
    ]
    assert all(scores.pop("seconds") > 0 for result in results for scores in result["runs"])
    result = results[0]
    assert result == results[1]
    assert ["blue", "green", "red"] == result["classes"] == list(result["mean"]["push"]["recall"])
    for evaluation in metrics.EVALUATIONS:
        scores = result["runs"][0][evaluation]
        assert {"blue": 30, "green": 30, "red": 30} == scores["items"]
        assert statistics.fmean(scores["recall"].values()) == pytest.approx(scores["accuracy"])
        assert statistics.fmean(scores["f1"].values()) == pytest.approx(scores["macro_f1"])
        assert statistics.fmean(run[evaluation]["recall"]["red"] for run in result["runs"]) == pytest.approx(
            result["mean"][evaluation]["recall"]["red"]
        )
    assert 0.4 < result["mean"]["push"]["accuracy"] < result["mean"]["push_query"]["accuracy"] <= 1
    against = ok("replay", "kinds", "--algorithm", "PAA-I", "--positive", "red", "--json")
    assert (30, None) == (against["mean"]["push"]["tp"] + against["mean"]["push"]["fn"], against["classes"])
    code, _, err = run("replay", "kinds", "--algorithm", "PAA-I")
    assert (1, True) == (code, "--positive must be one of blue, green, red. Got none." in err)


@pytest.mark.parametrize("source", ["demo:tweets", "kinds=red"])
def test_replay_takes_the_data_that_compare_takes(ok, kinds, source):
    """On a demo, and on one class against the rest, the run of a replay equals the run of a comparison."""
    replayed = ok("replay", source, "--algorithm", "PAA-I", "--permutations", 1, "--json")
    compared = ok("compare", source, "--algorithms", "PAA-I", "--permutations", 1, "--json")
    for evaluation in metrics.EVALUATIONS:
        assert compared["results"][0]["runs"][0][evaluation] == replayed["runs"][0][evaluation]


def test_one_class_against_the_rest_is_for_two_classes_and_named_once(run, kinds):
    """NAME=CLASS cannot be combined with --positive or with a multi-class algorithm."""
    for options, given in ((["PAA-I", "--positive", "red"], "PAA-I with --positive"), (["MPAA-I"], "MPAA-I")):
        code, out, err = run("replay", "kinds=red", "--algorithm", *options)
        assert (1, "", f"Got {given}.\n") == (code, out, err[-len(f"Got {given}.\n") :])


COST = 0.9 / (1 - 0.9)
OPTIONS = [  # of the command, and of a run of the kernel
    ("--seed 7", {"seed": 7}),
    ("--budget 0", {"budget": 0}),
    ("--theta 0.4 --budget 10 --average", {"theta": 0.4, "budget": 10, "averaged": True}),
    ("--budget 20 --audit 0.25 --no-audit-trains --pace 0.5", {"plan": {"audit": 0.25, "trains": False, "pace": 0.5}}),
    ("--budget 20 --floor 0.7", {"plan": {"floor": 0.7}}),
    ("--rho laplace", {"rho": 0}),
    ("--rho 7.5", {"rho": 7.5}),
    ("--metric cost", {"rho": COST}),
    ("--metric cost --rho laplace", {"rho": COST}),
    ("--metric cost --rho 2", {"rho": 2}),
    ("--alpha-p 0.8 --c-p 0.6", {"weights": metrics.Weights(0.8, 0.6), "rho": 0.8 / (1 - 0.8) * 45 / 15}),
]


@pytest.mark.parametrize(("options", "values"), [("", {}), ("--rho auto", {}), *OPTIONS])
def test_one_run_is_that_of_the_kernel(ok, numbers, options, values):
    """A single run is in the order of the file, and equals the kernel's run with the same options. By default rho is
    T_n / T_p. The mean is the run itself, and there is no deviation."""
    if "plan" in values:
        audit = (values["plan"].get("audit", 0.0), values["plan"].get("trains", True), values["plan"].get("pace"))
        values = {
            "plan": spending.plan(strategy("PAA-I").rule, 20, ROWS, *audit, floor=values["plan"].get("floor", 0.0))
        }
    result = ok("replay", numbers, *RUN, *options.split())
    (run,) = result["runs"]
    assert expected(numbers, **values) == figures(run)
    assert run["push"] == pytest.approx(result["mean"]["push"])
    assert result["std"] is None


def test_replay_as_a_table(ok, numbers):
    """Without --json a table shows both evaluations, with the deviation when there are several runs."""
    out = ok("replay", numbers, "--algorithm", "PAA-I", "--permutations", 2)
    result = ok("replay", numbers, *RUN, "--permutations", 2)
    assert "PAA-I: pa-i + symmetric, 2 runs" in out
    for evaluation in metrics.EVALUATIONS:
        assert f"{result['mean'][evaluation]['sum']:.5f} ± {result['std'][evaluation]['sum']:.5f}" in out


def test_a_name_and_a_file_give_the_same_numbers(ok, numbers, tweets):
    """A replay of a file equals a replay of the data set imported from it if the features are the same, named or
    automatic. By default a published algorithm gets plain columns or words, as in its paper."""
    for path, named, own in (
        (numbers, ("--features", "plain"), ()),
        (tweets, ("--features", "words", *TWEETS), TWEETS),
    ):
        for options, algorithm in ((named, RUN), (own, ("--algorithm", "auto", "--json"))):
            name = f"{path.stem}-{algorithm[1]}"
            ok("import", path, "--name", name, *options, "--json")
            usual = TWEETS if path == tweets else ()
            imported, read = ok("replay", name, *algorithm), ok("replay", path, *algorithm, *usual)
            assert figures(read["runs"][0]) == figures(imported["runs"][0])


@pytest.mark.slow
def test_a_file_is_scaled_as_the_option_says(ok, run, numbers):
    """A file is scaled as --scale says, l2 by default. A data set keeps its import's scaling, and refuses another."""
    for scale in ("none", "standardize+l2"):
        ok("import", numbers, "--name", scale, "--scale", scale, "--features", "plain", "--json")
        read = ok("replay", numbers, *RUN, "--scale", scale)
        assert figures(read["runs"][0]) == figures(ok("replay", scale, *RUN)["runs"][0])
        assert figures(read["runs"][0]) == figures(ok("replay", scale, *RUN, "--scale", scale)["runs"][0])
    assert figures(ok("replay", numbers, *RUN)["runs"][0]) == figures(
        ok("replay", numbers, *RUN, "--scale", "l2")["runs"][0]
    )
    code, _, err = run("replay", "none", *RUN, "--scale", "l2")
    assert (1, "error: --scale of the data set none was set at its import: none. Got l2.\n") == (code, err)


@pytest.mark.parametrize(("suffix", "opener"), [(".txt", open), (".txt.xz", lzma.open), (".gz", gzip.open)])
def test_each_line_of_a_file_of_orders_is_a_run(ok, numbers, tmp_path, suffix, opener):
    """Each line of a file of orders, plain or compressed, is one run over rows counted from 1."""
    orders = [np.arange(ROWS)[::-1], np.random.default_rng(1).permutation(ROWS)]
    with opener(tmp_path / f"orders{suffix}", "wt") as file:
        file.writelines(" ".join(map(str, order + 1)) + "\n" for order in orders)
    result = ok("replay", numbers, *RUN, "--orders", tmp_path / f"orders{suffix}", "--seed", 4)
    assert [expected(numbers, order, seed=4 + k) for k, order in enumerate(orders)] == [
        figures(run) for run in result["runs"]
    ]


@pytest.mark.parametrize(
    ("change", "count"),
    [
        (lambda order: [*order[:-1], 1], "60"),
        (lambda order: [k - 1 for k in order], "60"),
        (lambda order: order[:-1], "59"),
    ],
)
def test_a_bad_order_is_refused(run, numbers, tmp_path, change, count):
    """A wrong order (a repeated, missing or zero row) is refused with its line, its file and the allowed rows."""
    good = list(range(1, ROWS + 1))
    path = tmp_path / "orders.txt"
    path.write_text("\n".join(" ".join(map(str, order)) for order in (good, change(good))))
    code, out, err = run("replay", numbers, *RUN, "--orders", path)
    expected = f"error: order 2 of {path} must visit each of the rows 1 to 60 once. Got {count} numbers.\n"
    assert (1, "", expected) == (code, out, err)


def test_permutations_are_reproducible(ok, numbers):
    """A seed always gives the same orders, and order k of a seed is the first order of seed + k."""
    runs = [figures(run) for run in ok("replay", numbers, *RUN, "--permutations", 3)["runs"]]
    assert [expected(numbers, stream.shuffled(ROWS, k), seed=k) for k in range(3)] == runs
    assert runs == [figures(run) for run in ok("replay", numbers, *RUN, "--permutations", 3)["runs"]]
    assert runs[2:] == [figures(run) for run in ok("replay", numbers, *RUN, "--permutations", 1, "--seed", 2)["runs"]]
    assert runs[0] != runs[1]


def test_a_replay_tells_its_plan(ok, numbers):
    result = ok("replay", numbers, *RUN, "--budget", 20, "--audit", 0.25, "--no-audit-trains", "--pace", 0.5)
    assert {"audit": 0.25, "audit_trains": False, "pace": 0.5} == result["plan"]
    assert ok("replay", numbers, *RUN, "--budget", 20)["plan"] is None


def test_a_file_is_replayed_and_compared_with_the_goal_find(ok, run, numbers):
    """`--goal find` spends the whole budget, and all items are then decided by the final model. A comparison has the
    lists of both goals."""
    (found,) = ok("replay", numbers, *RUN, "--budget", 20, "--goal", "find")["runs"]
    assert 20 == found["queried"]
    assert 60 == sum(found["push"][key] for key in ("tp", "fp", "tn", "fn"))
    assert [found["push_query"][key] for key in ("tp", "fn")] == [found["list"][key] for key in ("tp", "fn")]
    code, _, errors = run("replay", numbers, *RUN, "--goal", "fnd", "--budget", 20)
    assert (1, True) == (code, "goal must be one of stream, find. Got fnd." in errors)
    compared = ok(
        "compare", numbers, "--algorithms", "PAA-I", "--budget", 20, "--permutations", 2, "--goal", "find", "--json"
    )
    assert "find" == compared["specification"]["goal"]
    assert 20 == compared["results"][0]["mean"]["queried"]


def test_a_replay_with_a_floor_has_the_floors_of_its_metrics(ok, numbers):
    """With --floor each run has guaranteed minima of its metrics, and higher ones for the case that a person reads the
    pushed items. Without --floor it has none."""
    result = ok("replay", numbers, *RUN, "--budget", 40, "--floor", 0.7, "--permutations", 2)
    assert 0.7 == result["plan"]["floor"]
    for each in result["runs"]:
        for name in metrics.EVALUATIONS:
            assert ["recall", "precision", "f1", "sum"] == list(each["floor"][name])
            for metric, least in each["floor"][name].items():
                assert 0 <= least <= each["floor_if_read"][name][metric]
                assert each["queried"] == 40 or each["floor_if_read"][name][metric] <= each[name][metric]
        assert each["floor_if_read"]["push_query"]["recall"] > 0
    assert all(each["floor"] is None for each in ok("replay", numbers, *RUN, "--budget", 20)["runs"])


def test_replay_begins_with_words_items_and_scores(run, ok, tweets, tmp_path):
    """Seed words and items, or scores from a table, change the results of a replay. The output names those used and
    reports unknown words. A table without ids is refused."""
    line = ("replay", tweets, *TWEETS, *RUN, "--budget", 10)
    (tmp_path / "scores.csv").write_text("id,score\n" + "".join(f"{k},{k % 7}\n" for k in range(2, ROWS + 2)))
    plain, scored = ok(*line), ok(*line, "--seed-scores", tmp_path / "scores.csv")
    code, out, err = run(*line, "--seed-words", "#happy, sad", "--seed-items", "2")
    seeded = json.loads(out)
    assert (0, "Not in the data: sad.\n") == (code, err)
    assert {"words": ["#happy"], "items": ["2"], "model": None, "scores": 0, "unknown": ["sad"]} == seeded["prior"]
    assert (ROWS, False) == (scored["prior"]["scores"], "prior" in plain)
    assert 3 == len({json.dumps(figures(result["runs"][0])) for result in (plain, scored, seeded)})
    refused = "error: tweets.csv has no column 'id'; its columns are title, body, topics.\n"
    assert (1, "", refused) == run(*line, "--seed-scores", tweets)


def test_replay_begins_with_the_model_of_a_session(ok, tweets, tmp_path, db):
    """A seed model exported from a session changes the results of a replay, and the output names the session."""
    ok("import", tweets, "--name", "tweets", *TWEETS)
    opened = Session(Store(db), create(Store(db), "tweets", "PAA-I", budget=20, name="first"))
    while asked := opened.place.asked:
        opened.answer(f"event {asked.number}", asked.id, int(opened.y[asked.item]))
    ok("export", opened.id, "--what", "model", "--out", tmp_path / "model.gz")
    plain, begun = (
        ok("replay", "tweets", *RUN, "--budget", 10, *more) for more in ((), ("--seed-model", tmp_path / "model.gz"))
    )
    assert "first" == begun["prior"]["model"]
    assert figures(plain["runs"][0]) != figures(begun["runs"][0])


def test_a_share_of_the_items_is_known_before_the_stream(run, ok, numbers):
    """--known trains on a share of the items, drawn by the seed, and asks about and counts only the other items."""
    result = ok("replay", numbers, *RUN, "--known", 0.5, "--seed", 3)
    assert ROWS // 2 == result["known"] == sum(result["runs"][0]["push"][key] for key in ("tp", "fp", "tn", "fn"))
    data, chosen = table(numbers), strategy("PAA-I")
    known = stream.sample(np.arange(ROWS), ROWS // 2, 3)
    parts = *chosen.build(data.rows.columns), stream.objective(rho=(data.y < 0).sum() / (data.y > 0).sum())
    taught = stream.checked_order(known, data.rows), data.y[known], np.full(known.size, -1), np.ones(known.size)
    stream.teach(data.rows, *taught, *parts, stream.average(parts[0], False), False)
    rest = np.setdiff1d(np.arange(ROWS), known)
    assert stream.replay(data.rows, data.y, rest, *parts, seed=3).queried == result["runs"][0]["queried"]
    assert "after 30 known ones" in run("replay", numbers, *RUN[:-1], "--known", 0.5)[1]
    assert "known must be >= 0 and < 1" in run("replay", numbers, *RUN, "--known", 1)[2]


def test_several_questions_from_words_or_columns(ok, run, tmp_path):
    """Several questions about each item may come from label words in one cell, or from columns of 1 and 0, in a file or
    a data set. The metrics are the same: for each question, their mean, and the worst."""
    path = days(tmp_path, 80)

    def replay(data, *options):
        return ok("replay", data, "--algorithm", "auto", "--budget", 30, *options, "--json")

    words = replay(path, "--questions", "a,b", "--label", "topics")
    ok("import", path, "--name", "days", "--label", "topics", "--contains", "--positive", "a")
    assert words["mean"] == replay("days", "--questions", "a,b")["mean"]
    columns = replay("days", "--questions", "x,y")
    assert words["mean"]["all"] == columns["mean"]["all"]
    assert words["mean"]["all"] == replay(path, "--questions", "x,y")["mean"]["all"]
    (first,) = words["runs"]
    f1 = [first["questions"][name]["push"]["f1"] for name in "ab"]
    assert (30, "rare") == (first["readings"], words["reading"])
    assert [np.mean(f1), min(f1)] == pytest.approx([first["all"][key]["push"]["f1"] for key in ("mean", "worst")])
    for options, message in (
        (("--questions", "a,c"), "does not occur in column 'topics'"),
        (("--max",), "--max is for --questions"),
        (("--questions", "a,b", "--positive", "a"), "no --positive"),
        (("--questions", "a,b", "--label", "x"), "--label is for files"),
    ):
        code, _, err = run("replay", "days", "--algorithm", "auto", *options)
        assert 1 == code
        assert message in err


@pytest.mark.slow
def test_a_column_of_a_file_or_a_data_set_is_audited(ok, run, tmp_path):
    """By default an audit of a column (given labels or scores) spends half of the budget on a minimum probability of
    being asked about, over the whole stream. Estimates are printed for the column alone and with the answers."""
    path, days_of = days(tmp_path, 200), ("--label", "topics", "--contains", "--positive", "a")

    def replay(data, *options):
        return ok("replay", data, "--algorithm", "auto", "--budget", 60, "--column", "x", *options, "--json")

    audit = replay(path, *days_of)
    assert {"name": "x", "cut": None} == audit["column"]
    own = audit["runs"][0]["deciders"]["column"]
    assert (1, 200) == (own["push"]["f1"], own["estimates"]["rounds"])
    assert audit["mean"] == replay(path, *days_of, "--floor", 0.5, "--pace", 1)["mean"]
    ok("import", path, "--name", "days", *days_of)
    assert audit["mean"] == replay("days")["mean"]
    words = ok("replay", "days", "--algorithm", "auto", "--budget", 60, "--column", "x")
    assert all(word in words for word in ("column: f1", "column + answers: recall", "by the answers"))
    for options, message in (
        (("--cut", 0.5), "--cut is for --column"),
        (("--column", "x"), "--column needs a --budget"),
        (("--column", "x", "--budget", 9, "--questions", "a,b"), "no --questions"),
        (("--column", "z", "--budget", 9), "column must be kept with the items of days: x, y. Got z."),
    ):
        code, _, err = run("replay", "days", "--algorithm", "auto", *options)
        assert 1 == code
        assert message in err
