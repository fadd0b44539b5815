"""Milliseconds from a key press to the next item painted, and to the answer acknowledged as saved, charts on.

Starts the real app on a database of its own, opens it in headless Chromium, clicks "Try the demo" and answers with
real keys from the demo's own labels, at the pace of a quick person.
"""

import csv
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import typer
from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
PAUSE = 0.4  # seconds a person looks at an item that is painted
PATIENCE = 60  # seconds for the server to start, and for the first question

# Arms the stop watch of one answer: from the key's own time stamp to the first frame after the card says that another
# question was painted, and to the moment at which it says that nothing is unsaved.
STOP_WATCH = """card => { window.answerTimes = new Promise((done, fail) => {
    setTimeout(() => fail(new Error('the answer was not painted and acknowledged within 20 seconds')), 20000);
    const before = card.dataset.question, times = {};
    let pressed = null;
    addEventListener('keydown', event => { pressed = event.timeStamp; }, { capture: true, once: true });
    const note = (name, time) => {
        times[name] ??= time - pressed;
        if ('painted' in times && 'acknowledged' in times) { watcher.disconnect(); done(times); }
    };
    const watcher = new MutationObserver(() => {
        if (card.dataset.question !== before) requestAnimationFrame(() => note('painted', performance.now()));
        if (pressed !== null && card.dataset.unsaved === '0') note('acknowledged', performance.now());
    });
    watcher.observe(card, { attributeFilter: ['data-question', 'data-unsaved'] });
}); }"""


@contextmanager
def serving(port):
    """The app on a database of its own, from its first health to its end."""
    with TemporaryDirectory(prefix="oal-latency-") as folder:
        log = Path(folder) / "server.log"
        command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless", "true", "--server.port"]
        environment = os.environ | {"OAL_DB": str(Path(folder) / "studio.db")}
        with log.open("w") as output:
            server = subprocess.Popen(
                [*command, str(port)], cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            wait_for(f"http://127.0.0.1:{port}/_stcore/health", server)
            yield f"http://127.0.0.1:{port}"
        except BaseException:
            print(log.read_text()[-3000:], file=sys.stderr)
            raise
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def wait_for(address, server):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and server.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=2)
            return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    raise SystemExit(f"the app did not answer at {address} within {PATIENCE} seconds.")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def label(address, labels):
    """Times of each answer, in milliseconds: (painted, acknowledged)."""
    with (ROOT / "data" / "tweets.csv").open(encoding="utf-8", newline="") as file:
        keys = {row["id"]: "a" if row["label"] == "satisfaction" else "x" for row in csv.DictReader(file)}
    times = []
    with sync_playwright() as playwright:
        executable = next(filter(None, map(shutil.which, BROWSERS)), None)  # None: what `playwright install` brought
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        page = browser.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.goto(address)
        page.get_by_role("button", name="Try the demo").click()
        card = page.locator('[data-testid="oal-card"]:not([data-question=""])[data-question]')
        card.wait_for()
        page.locator(".js-plotly-plot").first.wait_for()
        for _ in range(labels):
            page.wait_for_timeout(1000 * PAUSE)
            key = keys[card.locator(".title").text_content()]
            card.evaluate(STOP_WATCH)
            page.keyboard.press(key)
            found = page.evaluate("answerTimes")
            times.append((found["painted"], found["acknowledged"]))
        browser.close()
    return np.array(times)


def main(
    labels: Annotated[int, typer.Option(min=1, max=300, help="Answers to give; the demo's budget is 300.")] = 60,
    port: Annotated[int, typer.Option(help="Port of the app; 0 for any that is free.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Measure the labeling card of the real app in a real browser."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that the server is stopped then too
    with serving(port or free_port()) as address:
        times = label(address, labels)
    spread = {name: dict(zip(("p50", "p95"), np.percentile(values, (50, 95)).round(1).tolist()))
              for name, values in zip(("key_to_paint", "key_to_acknowledged"), times.T)}  # fmt: skip
    if as_json:
        print(json.dumps({"labels": labels, "unit": "ms"} | spread))
        return
    table = Table("ms", "p50", "p95", title=f"{labels} labels, charts on")
    for name, found in spread.items():
        table.add_row(name.replace("_", " "), *(f"{value:.0f}" for value in found.values()))
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
