"""The benchmarks run and report plausible numbers, and a replay stays within its memory limit. No speed is tested."""

import json
import subprocess
import sys
from contextlib import nullcontext

import pytest

from tests.harness import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import estimates
import label_latency
import load
import throughput
import world
from labeling_tools import Item, Tool

pytestmark = pytest.mark.rare
TIMED = ("pa-i", "acog-ii")  # each of the others takes seconds to compile


def run(command):
    """Run a benchmark with its options and return the JSON that it prints."""
    script, *options = command.split()
    process = [sys.executable, ROOT / "benchmarks" / script, *options, "--json"]
    done = subprocess.run(process, capture_output=True, text=True)
    assert "" == done.stderr
    return json.loads(done.stdout)


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


def test_world():
    """Everybody who is installed uses all labels, and no threshold is better than the best one. The report begins with
    where `auto` is behind."""
    found = run("world.py --quick")
    lines, names = found["lines"], {line["method"] for line in found["lines"]}
    assert {name for name in world.PEERS if name.split()[0] not in found["left out"]} < names
    assert {30} == {line["labels used"] for line in lines}
    assert all(sum(line["list"]) <= sum(line["list line"]) for line in lines if "list line" in line)
    assert next(world.report(lines)).startswith("## push: where `auto` is more than 1 point behind")


def test_estimates():
    """The result has the number of sessions for each plan, and the coverage and width of the interval of each shown
    estimate."""
    lines = run("estimates.py --quick --orders 1")["By labels and plan"]
    estimated = [line for line in lines if line["shown"]]
    assert (2 * len(estimates.PLANS), {12}) == (len(lines), {line["sessions"] for line in lines})
    assert estimated
    assert all(0 <= line["coverage"] <= 1 and 0 < line["half_width"] < 0.5 for line in estimated)


def test_imports():
    """Of files with the headers of public data sets, about half are imported correctly without a question, and none
    incorrectly."""
    files = run("imports.py --variants 1")
    assert len(files) > 200
    assert [file for file in files if file["outcome"] == "wrong"] == []
    assert sum(file["outcome"] == "right" for file in files) > 0.4 * len(files)


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


def test_labels_are_given_in_the_real_app(browser, hurried):
    """The benchmark imports texts into the real app, gives answers, and times the app's card."""
    result = label_latency.run(browser, labels=2, items=200, alone=True)
    (tool,) = result["tools"]
    assert 0 < tool["painted"]["p50"]
    assert 0 < tool["acknowledged"]["p50"]
    assert f"| {tool['tool']}" in "\n".join(label_latency.sections([result]))


def test_lost_and_doubled_rows_are_counted():
    """An acknowledged row that is not stored is lost; a row that is stored twice, altered or never sent is doubled."""
    one, two, altered = ("note", "1", 5, "words", "ann"), ("undo", "2", 7), ("note", "1", 5, "other words", "ann")
    assert {"lost": 0, "doubled": 0} == load.compared([one, two], [one], [one])
    assert {"lost": 1, "doubled": 0} == load.compared([one, two], [one, two], [one])
    assert {"lost": 0, "doubled": 1} == load.compared([one, two], [one], [one, one])
    assert {"lost": 1, "doubled": 1} == load.compared([one], [one], [altered])
