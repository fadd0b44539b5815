"""The command line: what it prints, what it refuses, and that a file and an imported name give the same numbers."""

import csv
import gzip
import io
import json
import lzma
import statistics
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT

from oal_engine import datasets
from oal_engine.cli import main as cli
from oal_engine.datasets import formats
from oal_engine.kernel import metrics, spending, stream
from oal_engine.kernel.algorithms import ALGORITHMS, strategy
from oal_engine.kernel.learners import LEARNERS
from oal_engine.kernel.query_rules import QUERY_RULES
from oal_engine.sessions.export import LABELS
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store

METRICS = ["tp", "fp", "tn", "fn", "sensitivity", "specificity", "precision", "recall", "f1", "sum", "cost", "accuracy"]
ROWS = 60
RUN = ("--algorithm", "PAA-I", "--json")


@pytest.fixture
def db(tmp_path, monkeypatch):
    """The database of this test, which OAL_DB names."""
    monkeypatch.setenv("OAL_DB", str(tmp_path / "studio.db"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "studio.db"


@pytest.fixture
def run(db, monkeypatch, capsys):
    """A function from arguments to (exit code, standard output, standard error)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["oal_engine", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code or 0, *capsys.readouterr()

    return run


@pytest.fixture
def ok(run):
    """The same for arguments that must work: the JSON that is printed, or the text."""

    def ok(*arguments):
        code, out, err = run(*arguments)
        assert (0, "") == (code, err)
        return json.loads(out) if "--json" in arguments else out

    return ok


@pytest.fixture
def numbers(tmp_path):
    """A libsvm file of 60 rows, a quarter of them positive."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(ROWS, 5)) * (rng.random((ROWS, 5)) < 0.7)
    score = X @ rng.normal(size=5)
    lines = (
        f"{'+1' if s > np.quantile(score, 0.75) else '-1'} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(x) if v)
        for s, x in zip(score, X.tolist())
    )
    path = tmp_path / "numbers.libsvm"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def tweets(tmp_path):
    """A file of short texts with hashtags, mentions and compound words, about mood or not."""
    rng = np.random.default_rng(5)
    words = ["#happy", "happy", "state-of-the-art", "state", "art", "@Ann", "Ann", "day", "😀", "so"]
    path = tmp_path / "tweets.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["title", "body", "topics"])
        for _ in range(ROWS):
            picked = rng.choice(words, 5).tolist()
            writer.writerow(
                [" ".join(picked[:2]), " ".join(picked[2:]), "mood|daily" if "#happy" in picked else "daily"]
            )
    return path


TWEETS = ("--text", "title", "--text", "body", "--label", "topics", "--positive", "mood", "--contains")


def table(path):
    return datasets.table(formats.read(path))


def expected(path, order=None, rho=None, seed=0, name="PAA-I", values=(), weights=metrics.Weights(), **more):
    """Both evaluations of one run, straight from the kernel."""
    made, chosen = table(path), strategy(name, values=values)
    rho = (made.y < 0).sum() / (made.y > 0).sum() if rho is None else rho
    order = np.arange(ROWS) if order is None else order
    parts = chosen.build(made.rows.columns)
    done = stream.replay(made.rows, made.y, order, *parts, stream.objective(rho=rho), seed=seed, **more)
    return {
        name: {key: value.item() for key, value in metrics.evaluate(done.counts, name, weights).items()}
        for name in metrics.EVALUATIONS
    } | {"queried": done.queried}


def told(found):
    """The same of one run in what replay printed."""
    return {key: found[key] for key in (*metrics.EVALUATIONS, "queried")}


# Import and lists


def test_import_and_lists(ok, numbers, tweets):
    """Data sets are listed with their counts, the newest first, and sessions with their progress."""
    found = ok("import", numbers, "--name", "numbers", "--json")
    about = {
        "id": 1,
        "name": "numbers",
        "kind": "vectors",
        "items": 60,
        "features": 5,
        "positives": 15,
        "negatives": 45,
        "classes": None,
    }
    assert about | {"skipped": {}} == found
    assert "tweets: 60 items" in ok("import", tweets, "--name", "tweets", *TWEETS)
    Store("other.db").close()
    assert {"datasets": []} == ok("datasets", "--db", "other.db", "--json")
    listed = ok("datasets", "--json")["datasets"]
    assert ["tweets", "numbers"] == [row["name"] for row in listed]
    assert about.items() <= listed[1].items()
    assert (0, "numbers.libsvm") == (listed[1]["sessions"], listed[1]["source"])
    store = Store()
    opened = Session(store, create(store, "numbers", "PAA-I", budget=9, name="mine"))
    opened.answer("event", opened.place.asked.id, 1)
    (session,) = ok("sessions", "--json")["sessions"]
    assert ("mine", "numbers", "PAA-I", 1, 9, 1, 0) == tuple(
        session[key] for key in ("name", "dataset_name", "algorithm", "labels", "budget", "positives", "skipped")
    )
    assert {"learner": {"C": 1.0}, "rule": {"delta": 0.1}} == session["parameters"]
    assert all(word in ok("datasets") for word in ("numbers", "tweets", "45"))
    assert "mine" in ok("sessions")


def test_import_with_classes(ok, run, tmp_path):
    """Each label word is a class with its count, in order, in the JSON and in the lists."""
    words = ["C10", "C2", "a", "C2", "d", ""]
    (tmp_path / "a.csv").write_text("id,text,kind\n" + "".join(f"{k},a b,{word}\n" for k, word in enumerate(words)))
    arguments = ("import", "a.csv", "--label", "kind", "--multiclass")
    found = ok(*arguments, "--name", "a", "--json")
    counts = {"a": 1, "C2": 2, "C10": 1, "d": 1}
    assert list(counts.items()) == list(found["classes"].items())
    assert (6, 0, 0) == (found["items"], found["positives"], found["negatives"])
    assert [counts] == [row["classes"] for row in ok("datasets", "--json")["datasets"]]
    assert ["1", "a", "text", "6", "2", "0", "0", "4", "0"] == ok("datasets").splitlines()[-2].split()
    assert "again: 6 items (1 unlabelled) in 4 classes: C2 (2), a (1)" in ok(*arguments, "--name", "again")
    message = "With multiclass each label word is a class of its own: give no positive words and no contains."
    assert (1, "", f"error: {message}\n") == run(*arguments, "--name", "b", "--positive", "a")


def test_import_by_a_mesh_tree(ok, run, tmp_path):
    """A record is positive by a heading under the number of the tree; the two options go together, and alone."""
    mesh = ["Heart Arrest/*TH; Human.", "heart diseases.", "Liver; Human.", None]
    (tmp_path / "ohsumed.87").write_text(
        "".join(
            f".I {k}\n.U\n8700{k}\n" + (f".M\n{headings}\n" if headings else "") + ".T\nA title of words.\n"
            for k, headings in enumerate(mesh)
        )
    )
    with lzma.open("tree.bin.xz", "wt") as file:
        file.write("Heart Diseases;C14.280\nHeart Arrest;C14.280.383\nLiver;A03.620\nSpleen;A10.549\n")
    tree, number = ("--mesh-tree", "tree.bin.xz"), ("--mesh-number", "C14.280")
    found = ok("import", "ohsumed.87", "--name", "heart", *tree, *number, "--json")
    assert (4, 2, 2, None) == tuple(found[key] for key in ("items", "positives", "negatives", "classes"))
    stored = datasets.Dataset(Store(), "heart")
    assert ("87000", "A title of words.", mesh[0]) == tuple(stored.item(0)[key] for key in ("id", "text", "label"))
    assert [1, 1, -1, -1] == stored.y.tolist()
    together = "--mesh-tree FILE and --mesh-number NUMBER must be given together."
    alone = "--mesh-tree says which labels are positive: no --positive, --contains or --multiclass then."
    missing = "None of the 1 positive MeSH terms occurs in column 'mesh' of ohsumed.87, which holds "
    for arguments, message in (
        (tree, together),
        (number, together),
        ((*tree, *number, "--positive", "Liver"), alone),
        ((*tree, *number, "--contains"), alone),
        ((*tree, *number, "--multiclass"), alone),
        ((*tree, "--mesh-number", "C14.28"), "tree.bin.xz has no tree number 'C14.28': "),
        ((*tree, "--mesh-number", "A10"), missing),
        (("--mesh-tree", "none.bin", *number), "none.bin cannot be read: No such file or directory."),
    ):
        code, out, err = run("import", "ohsumed.87", "--name", "x", *arguments)
        assert (1, "") == (code, out)
        assert err.startswith(f"error: {message}")


def test_import_tells_what_it_skipped(ok, tmp_path):
    """Every reason has its count and the line where it came first."""
    (tmp_path / "a.csv").write_text('id,text,label\n1,a b,yes\n1,b a,no\n2,,no\n3,a "quoted word,no\n4,b a\n5,a b,no\n')
    found = ok("import", "a.csv", "--name", "a", "--id", "id", "--json")
    assert {"duplicate id", "empty text", "broken line"} == found["skipped"].keys()
    assert {"count": 1, "first_line": 3} == found["skipped"]["duplicate id"]
    assert {"count": 1, "first_line": 4} == found["skipped"]["empty text"]


def test_algorithms_are_listed_with_what_can_be_set(ok):
    """Every published name, learner and rule is there, with the range, default and help of every parameter."""
    found = ok("algorithms", "--json")
    assert list(ALGORITHMS) == [entry["name"] for entry in found["algorithms"]]
    assert list(LEARNERS) == [entry["name"] for entry in found["learners"]]
    assert list(QUERY_RULES) == [entry["name"] for entry in found["rules"]]
    by_name = {entry["name"]: entry for entry in found["algorithms"]}
    assert {"eta", "delta", "b"} == {spec["name"] for spec in by_name["D-ADA"]["parameters"]}
    assert ({"a": -1}, 1.0) == (by_name["D-ADA"]["fixed"], by_name["SOAL"]["rho"])
    covariances = [name for name, kind in LEARNERS.items() if getattr(kind, "provides", None) == "covariance"]
    assert {"arow", "acog-ii", "acog-ii-diag", "ssacog-ii"} < set(covariances)
    assert covariances == next(rule for rule in found["rules"] if rule["name"] == "variance")["learners"]
    for entry in (*found["algorithms"], *found["learners"], *found["rules"]):
        for spec in entry["parameters"]:
            assert ["name", "default", "range", "help"] == list(spec)
    assert all(name in ok("algorithms") for name in ("OA3-diag", "D-AMD-I"))


def test_names_are_shown_as_they_are(ok, numbers):
    """Brackets in a name are characters, not markup, and a long one is whole where a program reads the list."""
    for name in ("[red]bold[/red]", "half [/of] it", "very " * 30 + "long"):
        ok("import", numbers, "--name", name, "--json")
        assert name in ok("datasets")
    create(Store(), "half [/of] it", "PAA-I", name="a [/session]")
    assert "a [/session]" in ok("sessions")


# Replay


def test_replay_prints_the_promised_object(ok, numbers):
    """The keys are those of the documentation, in fractions, and mean and sample deviation are over the runs."""
    found = ok("replay", numbers, *RUN, "--permutations", 3, "--budget", 20, "--set", "delta=0.3")
    assert ["algorithm", "learner", "rule", "params", "runs", "mean", "std", "classes", "plan"] == list(found)
    assert ("PAA-I", "pa-i", "symmetric", {"C": 1.0, "delta": 0.3}) == tuple(found.values())[:4]
    assert [1, 2, 3] == [one["order"] for one in found["runs"]]
    for one in found["runs"]:
        assert ["order", "queried", "push", "push_query", "seconds"] == list(one)
        assert METRICS == list(one["push"]) == list(one["push_query"])
        assert 60 == sum(one["push"][key] for key in ("tp", "fp", "tn", "fn"))
        assert all(0 <= one["push_query"][key] <= 1 for key in METRICS[4:] if key != "cost")
        assert 0 < one["queried"] <= 20
        assert one["seconds"] > 0
    for name, statistic in (("mean", statistics.fmean), ("std", statistics.stdev)):
        assert {"push", "push_query", "queried"} == found[name].keys()
        assert statistic(one["queried"] for one in found["runs"]) == pytest.approx(found[name]["queried"])
        for evaluation in metrics.EVALUATIONS:
            assert METRICS == list(found[name][evaluation])
            for key in METRICS:
                assert statistic(one[evaluation][key] for one in found["runs"]) == pytest.approx(
                    found[name][evaluation][key]
                )


@pytest.fixture
def kinds(ok, tmp_path):
    """The name of a data set of three classes, imported from kinds.csv."""
    lines = [
        "x,y,z,kind",
        *(f"{k % 3},{k % 3 == 1:d},{k % 7 / 9},{'red green blue'.split()[k % 3]}" for k in range(90)),
    ]
    (tmp_path / "kinds.csv").write_text("\n".join(lines))
    ok("import", "kinds.csv", "--name", "kinds", "--label", "kind", "--multiclass", "--json")
    return "kinds"


def test_replay_of_classes_tells_each_of_them(run, ok, kinds):
    """Accuracy, macro F1 and the recall of each class by name, of a file and of a data set; or one against the rest."""
    told = [
        ok("replay", *data, "--algorithm", "MPAA-I", "--permutations", 2, "--json")
        for data in ([kinds], ["kinds.csv", "--label", "kind"])
    ]
    assert all(one.pop("seconds") > 0 for found in told for one in found["runs"])
    found = told[0]
    assert found == told[1]
    assert ["blue", "green", "red"] == found["classes"] == list(found["mean"]["push"]["recall"])
    for evaluation in metrics.EVALUATIONS:
        one = found["runs"][0][evaluation]
        assert {"blue": 30, "green": 30, "red": 30} == one["items"]
        assert statistics.fmean(one["recall"].values()) == pytest.approx(one["accuracy"])
        assert statistics.fmean(one["f1"].values()) == pytest.approx(one["macro_f1"])
        assert statistics.fmean(run[evaluation]["recall"]["red"] for run in found["runs"]) == pytest.approx(
            found["mean"][evaluation]["recall"]["red"]
        )
    assert 0.4 < found["mean"]["push"]["accuracy"] < found["mean"]["push_query"]["accuracy"] <= 1
    against = ok("replay", "kinds", "--algorithm", "PAA-I", "--positive", "red", "--json")
    assert (30, None) == (against["mean"]["push"]["tp"] + against["mean"]["push"]["fn"], against["classes"])
    code, _, err = run("replay", "kinds", "--algorithm", "PAA-I")
    assert (1, True) == (code, "--positive must be one of blue, green, red. Got none." in err)


@pytest.mark.parametrize("source", ["demo:tweets", "kinds=red"])
def test_replay_takes_the_data_that_compare_takes(ok, kinds, source):
    """A demo, and one class against the rest: the run of a replay is that of a comparison."""
    replayed = ok("replay", source, "--algorithm", "PAA-I", "--permutations", 1, "--json")
    compared = ok("compare", source, "--algorithms", "PAA-I", "--permutations", 1, "--json")
    for evaluation in metrics.EVALUATIONS:
        assert compared["results"][0]["runs"][0][evaluation] == replayed["runs"][0][evaluation]


def test_one_class_against_the_rest_is_for_two_classes_and_named_once(run, kinds):
    """NAME=CLASS goes neither with --positive nor with an algorithm of K classes."""
    for options, got in ((["PAA-I", "--positive", "red"], "PAA-I with --positive"), (["MPAA-I"], "MPAA-I")):
        code, out, err = run("replay", "kinds=red", "--algorithm", *options)
        assert (1, "", f"Got {got}.\n") == (code, out, err[-len(f"Got {got}.\n") :])


def test_one_run_has_no_deviation(ok, numbers):
    """One run is in the order of the file, equals the kernel's, and is its own mean."""
    found = ok("replay", numbers, *RUN, "--seed", 7)
    assert expected(numbers, seed=7) == told(found["runs"][0])
    assert 1 == len(found["runs"])
    assert found["runs"][0]["push"] == pytest.approx(found["mean"]["push"])
    assert found["std"] is None


def test_replay_as_a_table(ok, numbers):
    """Without --json a person reads both evaluations, with the deviation where there are several runs."""
    out = ok("replay", numbers, "--algorithm", "PAA-I", "--permutations", 2)
    found = ok("replay", numbers, *RUN, "--permutations", 2)
    assert "PAA-I: pa-i + symmetric, 2 runs" in out
    for evaluation in metrics.EVALUATIONS:
        assert f"{found['mean'][evaluation]['sum']:.5f} ± {found['std'][evaluation]['sum']:.5f}" in out


def test_a_name_and_a_file_give_the_same_numbers(ok, numbers, tweets):
    """Imported or read on the spot, vectors or texts, the same options give the same runs."""
    ok("import", numbers, "--name", "numbers", "--json")
    ok("import", tweets, "--name", "tweets", *TWEETS, "--json")
    for name, path, options in (("numbers", numbers, ()), ("tweets", tweets, TWEETS)):
        imported, read = ok("replay", name, *RUN), ok("replay", path, *RUN, *options)
        assert told(read["runs"][0]) == told(imported["runs"][0])


def test_scale(ok, run, numbers):
    """A file is scaled as asked, l2 by default; an imported one as it was, and another scaling is refused."""
    for scale in ("none", "standardize+l2"):
        ok("import", numbers, "--name", scale, "--scale", scale, "--json")
        read = ok("replay", numbers, *RUN, "--scale", scale)
        assert told(read["runs"][0]) == told(ok("replay", scale, *RUN)["runs"][0])
        assert told(read["runs"][0]) == told(ok("replay", scale, *RUN, "--scale", scale)["runs"][0])
    assert told(ok("replay", numbers, *RUN)["runs"][0]) == told(ok("replay", numbers, *RUN, "--scale", "l2")["runs"][0])
    code, _, err = run("replay", "none", *RUN, "--scale", "l2")
    assert (1, "error: --scale of the data set none was set at its import: none. Got l2.\n") == (code, err)


@pytest.mark.parametrize(("suffix", "opener"), [(".txt", open), (".txt.xz", lzma.open), (".gz", gzip.open)])
def test_recorded_orders(ok, numbers, tmp_path, suffix, opener):
    """Each line is one run over rows counted from 1, also from a compressed file."""
    orders = [np.arange(ROWS)[::-1], np.random.default_rng(1).permutation(ROWS)]
    with opener(tmp_path / f"orders{suffix}", "wt") as file:
        file.writelines(" ".join(map(str, order + 1)) + "\n" for order in orders)
    found = ok("replay", numbers, *RUN, "--orders", tmp_path / f"orders{suffix}", "--seed", 4)
    assert [expected(numbers, order, seed=4 + k) for k, order in enumerate(orders)] == [
        told(one) for one in found["runs"]
    ]


@pytest.mark.parametrize(
    ("change", "came"),
    [
        (lambda order: [*order[:-1], 1], "60"),
        (lambda order: [k - 1 for k in order], "60"),
        (lambda order: order[:-1], "59"),
    ],
)
def test_a_bad_order_is_refused(run, numbers, tmp_path, change, came):
    """A row twice, rows counted from 0 or a row too few name the line, the file and what is allowed."""
    good = list(range(1, ROWS + 1))
    path = tmp_path / "orders.txt"
    path.write_text("\n".join(" ".join(map(str, order)) for order in (good, change(good))))
    code, out, err = run("replay", numbers, *RUN, "--orders", path)
    expected = f"error: order 2 of {path} must visit each of the rows 1 to 60 once. Got {came} numbers.\n"
    assert (1, "", expected) == (code, out, err)


def test_permutations_are_reproducible(ok, numbers):
    """The orders come from the seed: the same again, and the k-th of a seed is the first of seed + k."""
    runs = [told(one) for one in ok("replay", numbers, *RUN, "--permutations", 3)["runs"]]
    assert [expected(numbers, stream.shuffled(ROWS, k), seed=k) for k in range(3)] == runs
    assert runs == [told(one) for one in ok("replay", numbers, *RUN, "--permutations", 3)["runs"]]
    assert runs[2:] == [told(one) for one in ok("replay", numbers, *RUN, "--permutations", 1, "--seed", 2)["runs"]]
    assert runs[0] != runs[1]


COST_SENSITIVE = ("--learner", "cspaa", "--rule", "symmetric", "--json")


def test_rho(ok, numbers):
    """rho is T_n / T_p of the labels by default, the Laplace estimate or a number on demand, and c_p / c_n for cost."""
    values = {"C": 5}
    for options, rho in (
        ((), 45 / 15),
        (("--rho", "auto"), 45 / 15),
        (("--rho", "laplace"), 0),
        (("--rho", "7.5"), 7.5),
        (("--metric", "cost"), 0.9 / (1 - 0.9)),
        (("--metric", "cost", "--rho", "laplace"), 0.9 / (1 - 0.9)),
        (("--metric", "cost", "--rho", "2"), 2),
    ):
        found = ok("replay", numbers, *COST_SENSITIVE, "--set", "C=5", *options)
        assert expected(numbers, rho=rho, name="CSPAA", values=values) == told(found["runs"][0])
    found = ok("replay", numbers, *COST_SENSITIVE, "--set", "C=5", "--alpha-p", 0.8, "--c-p", 0.6)
    weights = metrics.Weights(0.8, 0.6)
    one = expected(numbers, rho=weights.ratio("sum") * 3, name="CSPAA", values=values, weights=weights)
    assert one == told(found["runs"][0])


def test_theta_budget_and_average(ok, numbers):
    """The other options of a replay reach the kernel."""
    made, chosen = table(numbers), strategy("PAA-I")
    done = stream.replay(
        made.rows,
        made.y,
        np.arange(ROWS),
        *chosen.build(5),
        stream.objective(theta=0.4, rho=3),
        budget=10,
        averaged=True,
    )
    found = ok("replay", numbers, *RUN, "--theta", 0.4, "--budget", 10, "--average")["runs"][0]
    assert done.counts[1, 2].sum() == found["push"]["tp"]
    assert done.counts[1, 0].sum() == found["push"]["fp"]
    assert expected(numbers) != told(found)
    assert 0 == ok("replay", numbers, *RUN, "--budget", 0)["runs"][0]["queried"]


def test_a_replay_with_audits_and_a_pace(ok, run, numbers):
    """--audit, --no-audit-trains and --pace reach the kernel, and what cannot be planned is refused in a sentence."""
    found = ok("replay", numbers, *RUN, "--budget", 20, "--audit", 0.25, "--no-audit-trains", "--pace", 0.5)
    assert {"audit": 0.25, "audit_trains": False, "pace": 0.5} == found["plan"]
    plan = spending.plan("symmetric", 20, ROWS, 0.25, False, 0.5)
    assert expected(numbers, plan=plan) == told(found["runs"][0])
    assert ok("replay", numbers, *RUN, "--budget", 20)["plan"] is None
    assert (1, "", "error: audits and a pace need a budget. Got none.\n") == run(
        "replay", numbers, *RUN, "--audit", 0.5
    )


def test_parameters_by_key(ok, run, numbers):
    """A key that learner and rule share needs its side; a rule with two deltas takes one for both."""
    pair = ("--learner", "ada-da", "--rule", "symmetric")
    found = ok(
        "replay", numbers, *pair, "--json", "--set", "learner.delta=2", "--set", "rule.delta=0.5", "--set", "eta=3"
    )
    assert {"eta": 3.0, "learner.delta": 2.0, "rule.delta": 0.5} == found["params"]
    assert "ada-da + symmetric" == found["algorithm"]
    code, _, err = run("replay", numbers, *pair, "--set", "delta=1")
    sentence = "delta is a parameter of ada-da and of symmetric. Say learner.delta or rule.delta."
    assert (1, f"error: {sentence}\n") == (code, err)
    found = ok("replay", numbers, "--algorithm", "oaal", "--json", "--set", "delta=0.5", "--set", "delta_plus=2")
    assert ("OAAL", {"delta_plus": 2.0, "delta_minus": 0.5}) == (found["algorithm"], found["params"])


# Export


@pytest.fixture
def labelled(ok, numbers):
    """A session with an answer, a skip, a label taken back and a question that waits."""
    ok("import", numbers, "--name", "numbers", "--json")
    store = Store()
    opened = Session(store, create(store, "numbers", "PAA-I", positive_name="Yes", negative_name="No"))
    for number, label in enumerate((1, 0, -1)):
        opened.answer(f"event {number}", opened.place.asked.id, label, 'Ann "A", B', 0.5)
    opened.undo("undo", opened.previous)
    return opened


def test_export(ok, labelled, tmp_path):
    """Every question with its label, margin, probability, times and annotator, the same in both formats."""
    for kind in ("csv", "jsonl"):
        assert "" == ok("export", labelled.id, "--format", kind, "--out", tmp_path / f"out.{kind}")
        assert (tmp_path / f"out.{kind}").read_bytes().decode() == ok("export", labelled.id, "--format", kind)
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert list(LABELS) == list(lines[0])
    assert [(1, 1, "Yes"), (2, None, "skipped"), (3, None, None)] == [
        (line["number"], line["label"], line["class"]) for line in lines
    ]
    assert ['Ann "A", B', 'Ann "A", B', None] == [line["annotator"] for line in lines]
    for line, entry in zip(lines, labelled.store.answers(labelled.id)):
        assert (
            entry["round"] + 1,
            entry["item"],
            labelled.dataset.item(entry["item"])["id"],
            entry["margin"],
            entry["probability"],
            entry["draw"],
            entry["asked_at"],
            entry["answered_at"],
            entry["seconds"],
        ) == (
            line["round"],
            line["position"],
            line["id"],
            line["margin"],
            line["probability"],
            line["draw"],
            line["asked_at"],
            line["answered_at"],
            line["seconds"],
        )
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [{key: "" if value is None else str(value) for key, value in line.items()} for line in lines] == table


def test_an_export_that_fails_leaves_the_file_as_it_was(run, labelled, tmp_path):
    """A wrong session or format does not empty the file of an earlier export."""
    out = tmp_path / "labels.csv"
    out.write_text("earlier labels")
    for arguments in ((99, "--format", "csv"), (labelled.id, "--format", "xml")):
        assert 1 == run("export", *arguments, "--out", out)[0]
    assert "earlier labels" == out.read_text()


def test_text_is_exported_as_it_is(ok, tmp_path, db):
    """Line breaks, quotes and emoji of a text come back from both formats."""
    texts = ['two\nlines, a "quote"', "so happy 😀\t!", "two lines"]
    (tmp_path / "texts.jsonl").write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8"
    )
    ok("import", "texts.jsonl", "--name", "texts", "--text", "text", "--json")
    store = Store()
    opened = Session(store, create(store, "texts", learner="pa-i", rule="symmetric", parameters={"delta": 1e9}))
    for number in range(3):
        opened.answer(f"event {number}", opened.place.asked.id, 0)
    assert texts == [json.loads(line)["text"] for line in ok("export", opened.id, "--format", "jsonl").splitlines()]
    assert texts == [row["text"] for row in csv.DictReader(io.StringIO(ok("export", opened.id), newline=""))]


# Errors


def cut(path):
    """A compressed file that breaks off."""
    path.write_bytes(lzma.compress(b"1 2 3\n" * 9999)[:60])
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("replay", "nothing", "--algorithm", "PA"), "data set nothing does not exist. There are: none."),
        (("replay", "DATA", "--algorithm", "PAX"), "algorithm must be one of OAAL,"),
        (
            ("replay", "DATA", "--learner", "pa"),
            "a strategy needs the name of an algorithm, or of a learner and a rule.",
        ),
        (("replay", "DATA", "--learner", "pa", "--rule", "variance"), "rule variance works with the learners arow,"),
        (("replay", "DATA", "--algorithm", "PA-I", "--set", "C"), "--set must be KEY=VALUE. Got C."),
        (("replay", "DATA", "--algorithm", "PA-I", "--set", "C=big"), "C must be a number. Got big."),
        (("replay", "DATA", "--algorithm", "PA-I", "--set", "C=-1"), "C of pa-i must be > 0. Got -1.0."),
        (("replay", "DATA", "--algorithm", "PA-I", "--set", "tau=1"), "PA-I has no parameter tau. It has C."),
        (("replay", "DATA", "--algorithm", "D-ADA", "--set", "a=1"), "a of D-ADA is fixed at -1. Got 1.0."),
        (("replay", "DATA", "--algorithm", "PA", "--metric", "f1"), "--metric must be sum or cost. Got f1."),
        (
            ("replay", "DATA", "--algorithm", "PA", "--rho", "high"),
            "rho must be auto, laplace or a number. Got high.",
        ),
        (("replay", "DATA", "--algorithm", "PA", "--rho", "-1"), "rho must be > 0,"),
        (
            ("replay", "DATA", "--algorithm", "PA", "--alpha-p", "2"),
            "alpha_p of the metric weights must be > 0 and < 1. Got 2.0.",
        ),
        (
            ("replay", "DATA", "--algorithm", "PA", "--scale", "L3"),
            "scaling must be one of l2, none, standardize+l2. Got L3.",
        ),
        (
            ("replay", "DATA", "--algorithm", "PA", "--orders", "missing.txt"),
            "the orders missing.txt cannot be read: No such file or directory.",
        ),
        (("replay", "DATA", "--algorithm", "PA", "--orders", "WORDS"), "words.txt cannot be read: "),
        (("replay", "DATA", "--algorithm", "PA", "--orders", "CUT"), "cut.txt.xz cannot be read: "),
        (("replay", "DATA", "--algorithm", "PA", "--orders", "EMPTY"), "must hold one order a line. Got none."),
        (
            ("replay", "DATA", "--algorithm", "PA", "--orders", "WORDS", "--permutations", "2"),
            "--orders FILE and --permutations NUMBER cannot be given together.",
        ),
        (
            ("replay", "DATA", "--algorithm", "PA", "--learner", "pa"),
            "a strategy is PA, or a learner and a rule, not both. Got pa too.",
        ),
        (("replay", "DATA", "--algorithm", "PA-I", "--set", "=1"), "--set must be KEY=VALUE. Got =1."),
        (("import", "missing.csv", "--name", "x"), "missing.csv cannot be read: No such file or directory."),
        (("import", "DATA", "--name", " "), "a data set needs a name."),
        (("import", "DATA", "--name", "x", "--label", "kind"), "numbers.libsvm has no column 'kind'"),
        (("datasets", "--db", "DATA"), "numbers.libsvm cannot be used: it is no database."),
        (("export", "9", "--format", "csv"), "session 9 does not exist."),
        (("predict", "DATA", "--model", "missing"), "missing cannot be opened: No such file or directory."),
        (("predict", "DATA", "--model", "FOLDER"), "cannot be opened: Is a directory."),
        (("predict", "DATA", "--model", "WORDS"), "words.txt is no model, or a damaged one: Not a gzipped file"),
        (("verify", "9"), "session 9 does not exist."),
        (("publish", "9"), "session 9 does not exist."),
        (("adopt", "missing"), "missing cannot be opened: No such file or directory."),
        (("adopt", "WORDS"), "words.txt cannot be adopted: line 1 is no JSON object: "),
        (("compare", "DATA"), "compare needs --algorithms NAME,NAME or a --spec that has some. Got none."),
        (("compare", "--spec", "missing"), "missing cannot be opened: No such file or directory."),
        (("compare", "--spec", "CUT"), "cut.txt.xz is no specification: "),
        (("results", "--remove"), "--trials and --remove need the name of a comparison. Got none."),
        (
            ("reproduce", "acog-german", "--data-dir", "FOLDER"),
            "acog-german needs the file german.libsvm.xz, which is not in",
        ),
    ],
)
def test_errors_are_one_sentence(run, numbers, tmp_path, arguments, message):
    """What is wrong is one line on standard error, nothing on standard output, and exit code 1."""
    (tmp_path / "words.txt").write_text("one two\n")
    (tmp_path / "empty.txt").write_text("\n")
    Store().close()
    files = {
        "DATA": numbers, "WORDS": tmp_path / "words.txt", "CUT": cut(tmp_path / "cut.txt.xz"),
        "EMPTY": tmp_path / "empty.txt", "FOLDER": tmp_path,
    }  # fmt: skip
    code, out, err = run(*(files.get(argument, argument) for argument in arguments))
    assert (1, "") == (code, out)
    assert err.startswith("error: ")
    assert message in err
    assert 1 == err.count("\n")


@pytest.mark.parametrize("option", ["--text", "--label", "--positive", "--id", "--feature", "--reader"])
def test_what_an_import_has_settled_is_not_settled_again(run, ok, numbers, option):
    """An option that says how to read a file is refused where a data set is replayed, not passed over."""
    ok("import", numbers, "--name", "numbers", "--json")
    message = f"error: {option} is for a file: of the data set numbers it was set at its import.\n"
    assert (1, "", message) == run("replay", "numbers", "--algorithm", "PA", option, "word")


def test_what_cannot_be_written_is_not_blamed_on_what_is_read(run, ok, labelled, numbers, tmp_path):
    """Where predictions cannot be written, the message names the file or format asked for, and not the input."""
    ok("export", labelled.id, "--what", "model", "--out", "model.json.gz")
    for out, message in (
        (("--out", tmp_path), f"{tmp_path} cannot be opened: Is a directory."),
        (
            ("--out", tmp_path / "none/at.csv"),
            f"{tmp_path / 'none/at.csv'} cannot be opened: No such file or directory.",
        ),
        (("--format", "xml"), "--format must be one of csv, jsonl, parquet. Got xml."),
    ):
        assert (1, "", f"error: {message}\n") == run("predict", numbers, "--model", "model.json.gz", *out)


def test_an_unlabelled_stream_cannot_be_replayed(run, ok, tmp_path):
    """Without labels, or with some, a replay says what it needs."""
    (tmp_path / "some.csv").write_text("text,label\na b,yes\nb a,no\na b c,\n")
    (tmp_path / "none.csv").write_text("text\na b\nb a\n")
    for name in ("some", "none"):
        ok("import", f"{name}.csv", "--name", name, "--json")
        message = f"error: every item of {name} must have a label. Some have none.\n"
        assert (1, "", message) == run("replay", name, "--algorithm", "PAA-I")


def test_the_module_runs_as_a_program(db, numbers):
    """`python -m oal_engine` works in a process of its own, with exit codes and no traceback."""

    def program(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "oal_engine", *map(str, arguments)], cwd=ROOT, capture_output=True, text=True
        )

    done = program("import", numbers, "--name", "numbers", "--db", db, "--json")
    assert (0, "") == (done.returncode, done.stderr)
    assert 60 == json.loads(done.stdout)["items"]
    failed = program("export", 3, "--db", db)
    assert (1, "", "error: session 3 does not exist.\n") == (failed.returncode, failed.stdout, failed.stderr)
    shown = program("--help")
    assert all(
        command in shown.stdout for command in ("import", "datasets", "sessions", "algorithms", "replay", "export")
    )


# The issue's own lines


def test_happy_moments_as_in_the_issue(ok, shared):
    """The line that imports the moments about exercise keeps 27,775 items, of which 1,393 are positive."""
    found = ok(
        "import",
        shared("happymoments.csv.xz"),
        "--name",
        "happy",
        "--text",
        "moment",
        "--label",
        "concepts",
        "--positive",
        "exercise",
        "--contains",
        "--json",
    )
    assert (27_775, 1_393, 26_382) == (found["items"], found["positives"], found["negatives"])
