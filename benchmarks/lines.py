"""Measure the milliseconds from the first key of an answer to the next item painted, by the number of questions about
each item. Run `python benchmarks/lines.py`.

A script answers each question, which is a line of the card, in headless Chromium, as fast as the browser takes keys.
The time that a person needs to decide on one more line is not included.
"""

import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import typer
from common import SEED, table
from label_latency import PATIENCE, STOP_WATCH, abstracts, chromium
from labeling_tools import NAMES, OURS, imported, ours, serving

from oal_engine.sessions.settings import create

KEYS = "123456789qwe"  # one for each line (question)
PAUSE = 500  # milliseconds before an answer: answers after a shorter pause are not accepted
WARM_UP = 5  # answers before the clock counts
YES = 0.1  # chance of a yes in a line
NEXT_NO = "0"  # says no to the first line without an answer


def typed(browser, address, many, readings, rng):
    """Type answers to `many` questions about each of `readings` items, after a warm-up. Return the milliseconds from
    the first key and from the last key to the next item, shape (readings, 2)."""
    tool, times = ours("auto"), []
    page = browser.new_page(viewport={"width": 1366, "height": 900})
    page.set_default_timeout(1000 * PATIENCE)
    tool.enter(page, address)
    item = page.locator(tool.text).first
    item.wait_for()
    for _ in range(WARM_UP + readings):
        page.wait_for_timeout(PAUSE)
        yes = rng.random(many) < YES
        lines = [KEYS[k] if yes[k] else NEXT_NO for k in range(many)] if many > 1 else []
        begun = page.evaluate("performance.now()")
        for key in lines:
            page.keyboard.press(key)
        item.evaluate(STOP_WATCH, {"text": tool.text, "saved": tool.saved})
        pressed = page.evaluate("performance.now()")
        page.keyboard.press("Enter" if lines else tool.keys[bool(yes[0])][0])
        painted = page.evaluate("answer")["painted"]
        times.append((pressed - begun + painted, painted))
    page.close()
    return np.array(times[WARM_UP:])


def main(
    questions: Annotated[str, typer.Option(help="Numbers of questions, with commas between.")] = "1,3,5,8,12",
    readings: Annotated[int, typer.Option(min=1, max=900, help="Answers that count, after the warm-up.")] = 40,
) -> None:
    """Print the times for each number of questions, and the additional time that one more question takes."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that SIGTERM stops the server, too
    numbers, rng, times = [*map(int, questions.split(","))], np.random.default_rng(SEED), []
    with TemporaryDirectory(prefix="oal-lines-") as temporary, chromium() as browser:
        store, dataset = imported(Path(temporary), abstracts(3000)[0])
        names = {"positive_name": NAMES[True], "negative_name": NAMES[False], "budget": 2 * (WARM_UP + readings)}
        own = {1: names} | {n: names | {"questions": KEYS[:n], "answer_each": True} for n in numbers if n > 1}
        sessions = {n: create(store, dataset, "auto", **own[n]) for n in numbers}
        store.close()
        with serving(store.path, Path(temporary)) as (base, _):
            for n in numbers:
                times.append(typed(browser, f"{base}/Label?session={sessions[n]}", n, readings, rng))
    middle = np.array([np.median(each, axis=0) for each in times])
    rows = [[n, *(f"{ms:,.0f}" for ms in each)] for n, each in zip(numbers, middle)]
    print("\n".join(table(["questions", "from the first key (ms)", "from the last key (ms)"], rows)))
    if len(numbers) > 1:
        slope = np.polyfit(numbers, middle, 1)[0]
        print(f"{OURS}: {slope[0]:.0f} ms more for each line, {slope[1]:.0f} ms of them after the last key.")


if __name__ == "__main__":
    typer.run(main)
