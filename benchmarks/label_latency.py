"""Measure the milliseconds from a key press to the next item painted, in this app and in similar tools, in one run:
`python benchmarks/label_latency.py`.

Each tool is started on the same texts and opened in headless Chromium, and gets real keys at the pace of a quick person
who knows the labels. The clock is the same for all tools: from the time stamp of the key that gives the label (the last
one, if it takes two) to the second animation frame after the text of another item is in the page.
"""

import json
import os
import shutil
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated

import numpy as np
import typer
from common import SEED, STREAMS, read_stream, table
from labeling_tools import OTHERS, OURS, PATIENCE, STRATEGIES, Item, Missing, ours
from playwright.sync_api import Error, sync_playwright
from requests import RequestException

from oal_engine.datasets import demo

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync",
         "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"]  # fmt: skip
PAUSE = 0.4  # seconds a person looks at a painted item
WARM_UP = 10  # labels before the clock counts
PERCENTILES = {"p50": 50, "p95": 95}
AIM = 1 / 3  # of the time of the better other tool, at each percentile
BOUNDS = {"p50": 120, "p95": 250}  # milliseconds, independent of the other tools
VENVS = Path(__file__).parent / ".venvs"

EXPLAINED = """\
Real keys in headless Chromium, at a quick person's pace. The tools label the same texts, one tool after the other.

- *Painted*: from the key that gives the label (the last one, if it needs two) to the second animation frame after the
  text of another item is in the page; the same for every tool.
- *Acknowledged*: from the same key to the answer shown as saved, if the next item does not wait for that.
- *First item*: from opening the page until an item is there. Ours includes the session's first opening and its charts.

Ours runs with its learner, its charts and synchronous writes. ASReview LAB refits in the background, and Label Studio
does not learn."""

# Starts the stop watch of one answer. An empty text before the next item does not count as the next item.
STOP_WATCH = """(item, {text, saved}) => { window.answer = new Promise((done, fail) => {
    setTimeout(() => fail(new Error('no other item was painted and acknowledged within 20 seconds')), 20000);
    const root = item.getRootNode(), shown = () => root.querySelector(text)?.textContent.trim() ?? '';
    const before = shown(), times = {};
    let pressed = null, unsaved = false;
    const press = event => { pressed = event.timeStamp; };
    const note = (name, time) => {
        times[name] ??= time - pressed;
        if (!('painted' in times && (!saved || 'acknowledged' in times))) return;
        watcher.disconnect();
        removeEventListener('keydown', press, true);
        done(times);
    };
    const watcher = new MutationObserver(() => {
        if (pressed === null) return;
        if (saved && !root.querySelector(saved)) unsaved = true;
        else if (unsaved) note('acknowledged', performance.now());
        const now = shown();
        if (times.text !== undefined || !now || now === before) return;
        times.text = now;
        requestAnimationFrame(() => requestAnimationFrame(() => note('painted', performance.now())));
    });
    addEventListener('keydown', press, true);
    watcher.observe(root, { subtree: true, childList: true, characterData: true, attributes: true });
}); }"""


# The texts


def abstracts(count):
    """Return `count` abstracts of OHSUMED, or of the demo if that file is missing, and the name of the file. Abstracts
    on cardiovascular diseases are relevant."""
    parsed, source = read_stream("heart"), STREAMS["heart"][0]
    if parsed is None:
        parsed, source = read_stream("abstracts"), demo.DEMOS["abstracts"].file
    items = dict(zip(map(words, parsed.texts), parsed.y > 0))  # without duplicates, which would not be seen as new
    return [Item(text, bool(relevant)) for text, relevant in items.items()][:count], source


def zipf(count, vocabulary, length=40, relevant=0.02):
    """Generate texts of about `length` words by Zipf's law; in relevant ones every seventh word is from a topic. Return
    them with a description."""
    rng = np.random.default_rng(SEED)
    chances = np.cumsum(1 / np.arange(1, vocabulary + 1))
    topic = rng.choice(vocabulary, max(1, vocabulary // 500), replace=False)
    items = []
    for _ in range(count):
        drawn = rng.integers(length // 2, 3 * length // 2)
        ranks, sign = np.searchsorted(chances, chances[-1] * rng.random(drawn)), rng.random() < relevant
        on_topic = rng.random(drawn) < sign / 7
        ranks[on_topic] = rng.choice(topic, on_topic.sum())
        items.append(Item(" ".join(f"w{rank}" for rank in ranks), bool(sign)))
    return items, f"synthetic, {vocabulary:,} terms by Zipf's law"


def words(text):
    """Collapse the white space of a text to single spaces, however a browser has wrapped it."""
    return " ".join(text.split())


# Measuring


@contextmanager
def chromium():
    """Open a headless browser that can reach only this machine."""
    with sync_playwright() as playwright:
        executable = next(filter(None, map(shutil.which, BROWSERS)), None)  # None: what `playwright install` brought
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield browser
        browser.close()


def measure(browser, tools, items, labels, venvs=VENVS, folder=None):
    """Measure each tool. Return a list with a dict for each tool: its results, or the reason why it was left out.
    folder: where our database is kept (None: in a temporary folder)."""
    results, truth = [], {words(item.text): item.relevant for item in items}
    with TemporaryDirectory(prefix="oal-latency-") as temporary:
        for tool in tools:
            own = Path(temporary) / tool.name if folder is None or tool.name != OURS else folder
            own.mkdir(parents=True, exist_ok=True)
            description = {"tool": tool.name, "version": tool.version, "keys": len(tool.keys[True])}
            try:
                with tool.serve(venvs, own, items) as address:
                    results.append(description | label(browser, tool, address, truth, labels))
            except (Missing, Error, RequestException) as error:
                if tool.name == OURS:
                    raise
                results.append(description | {"left_out": str(error).splitlines()[0]})
    return results


def label(browser, tool, address, truth, labels):
    """Label items in a browser. Return percentiles of the times after the warm-up, and the time to the first item, in
    milliseconds. truth: {text: whether it is relevant}."""
    page = browser.new_page(viewport={"width": 1366, "height": 900})
    page.set_default_timeout(1000 * PATIENCE)
    start = perf_counter()
    tool.enter(page, address)
    item = page.locator(tool.text).first
    item.wait_for()
    opened, times = 1000 * (perf_counter() - start), []
    shown = words(item.text_content())
    for _ in range(WARM_UP + labels):
        page.wait_for_timeout(1000 * PAUSE)
        *first, last = tool.keys[truth[shown]]
        for key in first:
            page.keyboard.press(key)
        item.evaluate(STOP_WATCH, {"text": tool.text, "saved": tool.saved})
        page.keyboard.press(last)
        times.append(page.evaluate("answer"))
        shown = words(times[-1].pop("text"))
    page.close()
    kinds = {kind: [time[kind] for time in times[WARM_UP:]] for kind in times[0]}
    load = round(os.getloadavg()[0], 1)
    return {"opened": round(opened), "load": load} | {kind: spread(values) for kind, values in kinds.items()}


def spread(values):
    return {name: round(float(np.percentile(values, at)), 1) for name, at in PERCENTILES.items()}


def ratios(tools):
    """Divide our slowest time by the others' best at each percentile. Return {} if no other tool was measured."""
    times = [(tool["tool"] == OURS, tool["painted"]) for tool in tools if "painted" in tool]
    if len({own for own, _ in times}) < 2:
        return {}
    slowest, best = ({at: pick(t[at] for own, t in times if own == mine) for at in PERCENTILES}
                     for mine, pick in ((True, max), (False, min)))  # fmt: skip
    return {at: round(slowest[at] / best[at], 2) for at in PERCENTILES}


def run(browser, labels=60, items=3000, vocabulary=0, strategies=("OA3-diag",), alone=False, **places):
    """Measure all tools on real texts, or on synthetic ones if a vocabulary is given. Return settings and results."""
    texts, source = zipf(items, vocabulary) if vocabulary else abstracts(items)
    tools = measure(browser, [*map(ours, strategies), *([] if alone else OTHERS)], texts, labels, **places)
    settings = {"unit": "ms", "labels": labels, "items": len(texts), "source": source}
    return settings | {"tools": tools, "ratios": ratios(tools)}


# Reporting


def sections(runs):
    """Yield the lines of the section on labeling in docs/benchmarks.md, from the results of several runs."""
    yield "## From a key press to the next item, in milliseconds"
    yield ""
    yield from EXPLAINED.splitlines()
    for result in runs:
        yield ""
        yield from lines(result)
    yield ""


def lines(result):
    """Yield the result of one run as lines of Markdown: a table, and a verdict on each aim."""
    kinds = "painted", "acknowledged"
    heads = [
        "tool",
        "version",
        *(f"{kind}, {at}" for kind in kinds for at in PERCENTILES),
        "keys",
        "first item",
        "load",
    ]
    cells = []
    for tool in result["tools"]:
        times = [round(tool[kind][at]) if kind in tool else None for kind in kinds for at in PERCENTILES]
        rest = tool["keys"], tool.get("opened"), tool.get("load")
        cells.append([tool["tool"], tool["version"], *times, *rest])
    yield f"{result['labels']} labels after {WARM_UP} to warm up, {result['items']:,} texts ({result['source']}):"
    yield ""
    yield from table(heads, cells)
    yield from (f"{tool['tool']} was left out: {tool['left_out']}" for tool in result["tools"] if "left_out" in tool)
    if result["ratios"]:
        percentiles = " and ".join(f"{ratio:.2f} at {at}" for at, ratio in result["ratios"].items())
        met = _met(result["ratios"], AIM)
        yield f"Our slowest divided by the better of the others: {percentiles} (aim: at most a third; {met})."
    ours = [tool["painted"] for tool in result["tools"] if tool["tool"] == OURS]
    slowest = {at: max(times[at] for times in ours) / bound for at, bound in BOUNDS.items()}
    bounds = " and ".join(f"{bound} ms at {at}" for at, bound in BOUNDS.items())
    yield f"Aim for ours: painted within {bounds}; {_met(slowest, 1)}."


def _met(values, bound):
    return "met" if max(values.values()) <= bound else "missed"


def main(
    labels: Annotated[int, typer.Option(min=1, max=900, help="Labels that count, after the warm-up.")] = 60,
    items: Annotated[int, typer.Option(min=100, help="Texts to label.")] = 3000,
    vocabulary: Annotated[int, typer.Option(help="Synthetic texts of so many terms; 0 takes real abstracts.")] = 0,
    strategy: Annotated[list[str], typer.Option(help=f"What asks here: {', '.join(STRATEGIES)}.")] = ("OA3-diag",),
    alone: Annotated[bool, typer.Option("--alone", help="Measure this app and no other tool.")] = False,
    venvs: Annotated[Path, typer.Option(help="Where the environments of the other tools are kept.")] = VENVS,
    folder: Annotated[Path | None, typer.Option(help="Keep the database here, and use the one that is here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Measure the labeling in this app and in similar tools, in a real browser."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that SIGTERM stops the servers, too
    with chromium() as browser:
        result = run(browser, labels, items, vocabulary, strategy, alone, venvs=venvs, folder=folder)
    print(json.dumps(result) if as_json else "\n".join(lines(result)))


if __name__ == "__main__":
    typer.run(main)
