"""Measure how long app and command line take to start where nothing was ever compiled: `python benchmarks/start.py`.

Each row has an empty cache of machine code and an empty home. Seconds of processes are processor time, of the browser
clock time; aims are for two quiet cores.
"""

import os
import resource
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated

import numpy as np
import typer
from common import table
from label_latency import STOP_WATCH, abstracts, chromium
from labeling_tools import serving

from oal_engine.kernel.algorithms import ALGORITHMS

ROOT = Path(__file__).parents[1]
TEXT, SAVED = '[data-testid="oal-text"]', '[data-testid="oal-card"][data-unsaved="0"]'
KEYS, PAUSE_MS = 60, 400
ROUNDS = """
from time import process_time
import numpy as np
from oal_engine.kernel import jit, learners, query_rules, rows, stream
for columns, name in ((20, "pa-i"), (2000, "pa-i"), (400, "acog-ii")):
    table = rows.as_rows(np.random.default_rng(0).normal(size=(300, columns)))
    parts = learners.build(name, columns), query_rules.build("all", name), stream.objective()
    with jit.form(jit.PLAIN):
        begun = process_time()
        stream.replay(table, [1, -1] * 150, range(300), *parts)
    print(columns, name, 1000 * (process_time() - begun) / 300, 1000 * learners.plain_seconds(table, parts[0], 1))
"""
ANSWERED = """
from pathlib import Path
from oal_engine.datasets import demo
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store
store = Store(Path("studio.db"))
session = Session(store, create(store, demo.dataset(store, "tweets"), **demo.DEMOS["tweets"].session))
for k in range(12):
    session.answer(f"answer {k}", session.current.id, 1 if k % 3 == 0 else -1)
"""
FIRST_ITEM = """
import sys
from pathlib import Path
from time import process_time
import numpy as np
from oal_engine import datasets
from oal_engine.datasets import demo, reading
from oal_engine.kernel.algorithms import ALGORITHMS
from oal_engine.kernel.learners import is_multiclass
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store

store, labels = Store(Path("studio.db")), [""] * 400
tweets, judged, abstracts = (demo.dataset(store, which) for which in ("tweets", "judged", "abstracts"))
texts = [store.item(tweets, place)["text"] for place in range(400)]
numbers = np.random.default_rng(0).normal(size=(400, 30))
kinds = {"sparse": tweets}
for kind, own in (("mixed", (texts, None, [])), ("dense", (None, numbers, [f"column {k}" for k in range(30)]))):
    items = reading.Items([*map(str, range(400))], *own, labels, np.zeros(400, np.int8), {})
    kinds[kind] = datasets.add(store, kind, datasets.table(items, features="plain" if kind == "dense" else None), kind)
cases = {}
for name, entry in ALGORITHMS.items():
    classes = ["a", "b", "c"] * is_multiclass(entry.learner)
    for kind, dataset in kinds.items():
        cases[f"{name}, {kind}"] = dataset, {"algorithm": name, "budget": 50, "classes": classes}
cases["five questions"], cases["an audit"] = (abstracts, demo.FIVE_QUESTIONS), (judged, demo.DEMOS["judged"].session)
for name, (dataset, settings) in cases.items():
    begun = process_time()
    opened = Session(store, create(store, dataset, **settings))
    assert opened.current
    print(process_time() - begun, name, flush=True)
"""


@contextmanager
def new_machine():
    """Yield a folder in which nothing is stored and nothing was compiled, and its environment."""
    with TemporaryDirectory(prefix="oal-start-") as folder:
        (home := Path(folder) / "home").mkdir()
        places = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "XDG_DATA_HOME": str(home / "data")}
        yield Path(folder), places | {"PYTHONPATH": str(ROOT)}


def processor_seconds(command, folder, environment, code=0):
    """Run a command to its end. Return its processor seconds and its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, env=os.environ | environment, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == code, done.stderr
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, done.stdout


def commands():
    """Yield the rows of the command line: the help, a wrong name, and a look at a CSV of 3,000 texts until its first
    question."""
    engine = [sys.executable, "-m", "oal_engine"]
    with new_machine() as (folder, environment):
        texts = "\n".join(f'{k},"{item.text[:300]}",{int(item.relevant)}' for k, item in enumerate(abstracts(3000)[0]))
        (folder / "texts.csv").write_text("id,text,label\n" + texts.replace('""', '"'))
        (folder / "two.txt").write_text("happy with my life\nrain all day\n")
        environment["OAL_DB"] = str(folder / "studio.db")
        processor_seconds([sys.executable, "-c", ANSWERED], folder, environment)
        processor_seconds([*engine, "export", "1", "--what", "model", "--output", "model.jsonl"], folder, environment)
        for name, arguments, code, aim in (
            ("oal --help", ["--help"], 0, 0.2),
            ("a wrong name", ["replay", "demo", "--algorithm", "nobody"], 1, 0.4),
            ("predict of two lines", ["predict", "two.txt", "--model", "model.jsonl"], 0, 2),
            ("an import of a CSV of 3,000 texts", ["import", "texts.csv", "--name", "texts"], 0, 4),
        ):
            yield name, processor_seconds([*engine, *arguments], folder, environment, code)[0], aim


def first_items():
    """Yield the rows of the first item: the slowest algorithm on each kind of rows, five questions, and an audit."""
    with new_machine() as (folder, environment):
        lines = processor_seconds([sys.executable, "-c", FIRST_ITEM], folder, environment)[1].splitlines()
    times = {name: float(seconds) for seconds, name in (line.split(" ", 1) for line in lines)}
    for kind in ("sparse", "mixed", "dense"):
        slowest = max((name for name in times if name.endswith(kind)), key=times.get)
        yield f"first item, {len(ALGORITHMS)} names on {kind} rows, slowest ({slowest})", times[slowest], 2
    yield from ((f"first item, {name}", times[name], 2) for name in ("five questions", "an audit"))


def in_browser(browser):
    """Yield the rows of a person who tries the demo: the server's start, the first item, and the first keys."""
    with new_machine() as (folder, environment):
        begun = perf_counter()
        with serving(folder / "studio.db", folder, **environment) as (base, _):
            page = browser.new_page(viewport={"width": 1366, "height": 900})
            page.goto(base)
            button = page.get_by_role("button", name="Try the demo")
            button.wait_for()
            yield "make run, until the page", perf_counter() - begun, 3
            page.wait_for_timeout(1000)
            begun = perf_counter()
            button.click()
            item = page.locator(TEXT).first
            item.wait_for()
            yield "click on Try the demo, until the first item", perf_counter() - begun, 1.5
            times = []
            for k in range(KEYS):
                page.wait_for_timeout(PAUSE_MS)
                item.evaluate(STOP_WATCH, {"text": TEXT, "saved": SAVED})
                page.keyboard.press("a" if k % 6 == 0 else "x")
                times.append(page.evaluate("answer")["painted"] / 1000)
            yield f"key, until the next item is painted, median of the first {KEYS}", float(np.median(times)), 0.03
            yield "the same, 95th percentile", float(np.percentile(times, 95)), 0.12


def main(
    rows: Annotated[
        str, typer.Option(help="Which: rounds, commands, items, browser.")
    ] = "rounds,commands,items,browser",
) -> None:
    """Print each row with its aim, and the milliseconds of a round in plain Python beside their estimate."""
    found = []
    if "rounds" in rows:
        with new_machine() as (folder, environment):
            print(processor_seconds([sys.executable, "-c", ROUNDS], folder, environment)[1])
    if "commands" in rows:
        found += commands()
    if "items" in rows:
        found += first_items()
    if "browser" in rows:
        with chromium() as browser:
            found += in_browser(browser)
    cells = [
        [name, f"{seconds:.2f}", f"{aim:g}", "met" if seconds <= aim else "missed"] for name, seconds, aim in found
    ]
    print("\n".join(table(["", "seconds", "aim", ""], cells)))


if __name__ == "__main__":
    typer.run(main)
