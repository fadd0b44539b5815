"""Test the real app under the load of many annotators, in sessions of their own or together in one: run
`python benchmarks/load.py`. It measures whether every acknowledged event is stored exactly once, how long it takes from
the key press to the acknowledgement, and the load on the server.

Each annotator is simulated without a browser, so that dozens fit on one machine: the card is simulated here,
Streamlit's frontend in streamlit_page.py. All annotators run in this process, the server in another.
"""

import asyncio
import gc
import json
import os
import signal
import sys
from collections import Counter
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, sleep
from typing import Annotated
from uuid import uuid4

import numpy as np
import psutil
import typer
from common import SEED, table
from httpx import AsyncClient, HTTPError, codes
from label_latency import zipf
from labeling_tools import PATIENCE, STRATEGIES, imported, serving, session
from streamlit_page import LOST, open_page

from oal_engine import experiments
from oal_engine.experiments import jobs
from oal_engine.sessions import look_back
from oal_engine.sessions.settings import create

CARD, PULSE = "oal_card", "oal_pulse"
PULSE_SECONDS = 2.5, 3.5  # between two requests for news; twice as long after a request of the card
PERCENTILES = {"p50": 50, "p95": 95, "p99": 99}
AIM = 300  # milliseconds from a key to its acknowledgement, at p95
VOCABULARY = 20_000
RETRY, SLOWEST_RETRY = 2, 30  # seconds until the card sends unacknowledged events again
SKIPS, NOTES, UNDOS, PREFERENCES = 0.03, 0.05, 0.03, 0.01  # shares of the keys
SIZES = 5  # text sizes to choose from
CUT_SECONDS = 5  # duration of a cut of the connection


class Annotator:
    """A simulated person at the card, who gives true labels at a pace, with skips, notes, undos and preferences."""

    def __init__(self, session, name, truth, rng, undos=UNDOS, cuts=0.0):
        self.session, self.name, self.truth, self.rng, self.undos = session, name, truth, rng, undos
        self.cuts, self.n_cuts = cuts, 0  # per minute, and so far
        self.payload, self.pending, self.branches = None, [], {}
        self.sent, self.acknowledged, self.problems = {}, {}, []
        self.opened, self.drawn, self.mounted = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.card, self.pulse, self.redraws = {}, {}, 0
        self.seen, self.asked_at, self.pulse_at = None, 0.0, 0.0
        self.asking, self.unasked, self.is_cut = False, False, False

    async def work(self, address, start, until, pause):
        """Open the session's page, wait for `start`, label until the time `until()`, and wait for all
        acknowledgements."""
        query = f"{address}/Label?session={self.session}&annotator={self.name}"
        async with (
            AsyncClient(base_url=address, timeout=PATIENCE) as client,
            open_page(query, self.receive, self.problems.append) as page,
        ):
            tasks = [page.tasks.create_task(each) for each in (self.show(page, client), self.follow(page, client))]
            await asyncio.wait_for(self.opened.wait(), PATIENCE)
            await start.wait()
            cuts = page.tasks.create_task(self.cut(page, until))
            while perf_counter() < until() and not self.ended:
                await asyncio.sleep(pause * self.rng.uniform(0.5, 1.5))
                for event in self.keys():
                    await self.push(page, client, event)
            await cuts
            end = perf_counter() + PATIENCE
            while self.pending and perf_counter() < end:
                await asyncio.sleep(0.1)
            for task in tasks:
                task.cancel()

    async def show(self, page, client):
        """Request the content of the card whenever the page draws it, as card.js does."""
        while True:
            await self.mounted.wait()
            self.mounted.clear()
            page.tasks.create_task(self.ask(page, client))

    async def ask(self, page, client, again=False):
        """Send the unacknowledged events and process the response, one request at a time. again: whether this is a
        retry, which is dropped while a request is under way."""
        self.unasked |= not (self.asking and again)
        if self.asking:
            return
        self.asking = True
        while self.unasked:
            self.unasked, cuts = False, self.n_cuts
            seen = self.seen if perf_counter() > self.asked_at + PULSE_SECONDS[0] else None
            message = {"annotator": self.name, "events": self.pending, "review": None, "marks": False, "seen": seen}
            with suppress(HTTPError):
                answer = None if self.is_cut else await client.post(self.card["url"], json=message)
                if answer and cuts == self.n_cuts:
                    await self.take(page, answer.json())
                    if seen is not None and "news" in answer.json():
                        self.wait(2)
                        await self.hear(page, answer.json()["news"])
        self.asking = False

    async def take(self, page, answer):
        """Process a response of the server, and tell the page when the card has no item, or has one again."""
        if answer["error"]:
            self.problems.append(answer["error"])
        if "place" not in answer:
            return
        for id in answer["acked"]:
            self.acknowledged.setdefault(id, perf_counter() - self.sent[id][0])
        self.pending = [event for event in self.pending if event["id"] not in self.acknowledged]
        self.branches = (self.branches if self.pending else {}) | answer["branches"]
        self.payload = answer
        self.opened.set()
        idle = answer["place"]["question"] is None
        if not self.pending and idle != self.card["idle"]:
            self.card["idle"] = idle
            await page.set_state(CARD, "idle", idle)

    async def follow(self, page, client):
        """Poll for news as pulse.js does, unless the card has just asked, and redraw the panel if there is news."""
        await self.drawn.wait()
        self.wait()
        while True:
            await asyncio.sleep(max(0, self.pulse_at - perf_counter()))
            if perf_counter() < self.pulse_at:
                continue
            self.wait()
            with suppress(HTTPError):
                answer = await client.get(self.pulse["url"], params={"seen": self.seen})
                await self.hear(page, answer.status_code == codes.OK)

    def wait(self, times=1):
        """Schedule the next poll for news, after the usual pause multiplied by `times`."""
        self.asked_at = perf_counter()
        self.pulse_at = self.asked_at + times * self.rng.uniform(*PULSE_SECONDS)

    async def hear(self, page, has_news):
        """Redraw the panel if there is news."""
        if has_news:
            self.seen, self.redraws = self.pulse["seen"], self.redraws + 1
            await page.set_state(PULSE, "redraws", self.redraws)

    async def cut(self, page, until):
        """Cut the connection of a page at random times, `cuts` a minute on average, until the time `until()`."""
        while self.cuts and (left := until() - perf_counter()) > 0:
            pause = self.rng.expovariate(self.cuts / 60)
            await asyncio.sleep(min(pause, left))
            if pause < left:
                self.n_cuts, self.is_cut = self.n_cuts + 1, True
                await page.cut(CUT_SECONDS)
                self.is_cut = False

    async def push(self, page, client, event):
        """Send an event with the other unacknowledged events, and retry until it is acknowledged."""
        event = {"id": uuid4().hex} | event
        self.pending.append(event)
        self.sent[event["id"]] = perf_counter(), event
        page.tasks.create_task(self._post(page, client, event["id"]))
        await asyncio.sleep(0)

    async def _post(self, page, client, event):
        delay, again = RETRY, False
        while self.pending and event == self.pending[-1]["id"]:  # a newer event sends these too
            page.tasks.create_task(self.ask(page, client, again))
            await asyncio.sleep(delay)
            delay, again = min(2 * delay, SLOWEST_RETRY), True

    def receive(self, component, payload):
        """Store the data that the page passes to the card or the pulse."""
        if component == PULSE:
            self.seen = payload["seen"] if payload["seen"] == self.pulse.get("seen") else ""
            self.pulse = payload
            self.drawn.set()
        if component == CARD:
            self.card = payload
            self.mounted.set()

    @property
    def place(self):
        """The question and state to show after the unacknowledged events, or None if it is not known yet."""
        place = self.payload["place"]
        for event in self.pending:
            if event["action"] in ("note", "preferences"):
                continue
            outcomes = self.branches.get(str(event["question"]), {})
            place = outcomes.get(str(event.get("label", 0))) if event["action"] != "undo" else None
            if place is None:
                return None
        return place

    @property
    def ended(self):
        """Whether nothing is left to ask. (False while others hold the last questions: one of these may come back.)"""
        return not self.pending and self.payload["place"]["end"] in ("budget", "stream")

    def keys(self):
        """Yield the events at the current item: an undo, or an answer, perhaps after a note or a preference."""
        place = self.place
        if place is None or place["question"] is None:  # waits, as the card does
            return
        question, item = place["question"]["id"], place["question"]["item"]
        if self.rng.random() < self.undos and (last := self._last()):
            yield {"question": last, "action": "undo", "seconds": 1.0}
            return
        if self.rng.random() < NOTES:
            yield {"question": question, "item": item, "action": "note", "text": f"a note {self.rng.random()}"}
        if self.rng.random() < PREFERENCES:
            yield {"action": "preferences", "changes": {"size": self.rng.randrange(SIZES)}}
        answer = {"question": question, "item": item, "seconds": 1.0, "highlighted": False}
        skips = self.rng.random() < SKIPS
        yield answer | ({"action": "skip"} if skips else {"action": "label", "label": 1 if self.truth[item] else -1})

    def _last(self):
        answers = [event["question"] for event in self.pending if event["action"] in ("label", "skip")]
        return answers[-1] if answers else self.payload["previous"]


# Stored rows compared with acknowledged events


def row(event, name):
    """Return the database row that an annotator's event must leave, summarized as a tuple. None for preferences, which
    are overwritten by later ones. name: the annotator's name."""
    match event["action"]:
        case "undo":
            return "undo", event["id"], event["question"]
        case "note":
            return "note", event["id"], event["item"], event["text"], name
        case "label" | "skip":
            return "answer", event["id"], event["item"], event.get("label", 0), name


def stored(store, session):
    """Yield the stored undos, notes and answers (also second, late and repeated answers) as tuples in the form of
    `row`."""
    questions, events, _ = store.history(session)
    items = {row["id"]: row["item"] for row in questions}  # of each question; several may be about one item
    for row in events:
        match row["kind"]:
            case "undone" | "withdrawn" if row["id"]:
                yield "undo", row["id"], row["question"]
            case "answered" | "corrected" | "second" | "late" | "again":
                yield "answer", row["id"], items[row["question"]], row["label"], row["annotator"]
            case "noted":
                yield "note", row["id"], row["item"], row["data"]["text"], row["annotator"]


def compared(sent, acknowledged, saved):
    """Return {"lost": number of acknowledged rows that are not stored as sent, "doubled": number of stored rows that
    were not sent or are duplicates}."""
    sent, acknowledged, saved = Counter(sent), Counter(acknowledged), Counter(saved)
    return {"lost": (acknowledged - saved).total(), "doubled": (saved - sent).total()}


def discrepancies(store, annotators):
    """Return the numbers of lost and of doubled rows of all annotators, and the number of sessions that fail
    verification."""
    sent, acknowledged, wrong = [], [], 0
    for annotator in annotators:
        rows = {id: row(event, annotator.name) for id, (_, event) in annotator.sent.items()}
        sent += filter(None, rows.values())
        acknowledged += filter(None, map(rows.get, annotator.acknowledged))
        preferred = [annotator.sent[id][1]["changes"] for id, kept in rows.items() if kept is None]
        wrong += bool(preferred) and store.preferences(annotator.name) != preferred[-1]
    sessions = {annotator.session for annotator in annotators}
    saved = [each for session in sessions for each in stored(store, session)]
    counts = compared(sent, acknowledged, saved)
    verified = [look_back.verify(store, session).verified for session in sessions]
    return counts | {"lost": counts["lost"] + wrong, "unverified": verified.count(False)}


# The load


def family(server):
    """Yield the processes of the server that run now."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(server.pid)
        yield from (process, *process.children(recursive=True))


def of_family(server, measure):
    """Return the sum of what `measure` says of each process of the server, without those that end meanwhile."""
    total = 0
    for process in family(server):
        with suppress(psutil.NoSuchProcess):
            total += measure(process)
    return total


def seconds_used(process):
    return sum(process.cpu_times()[:4])  # its own, and those of its children that have ended


def megabytes(process):
    return round(process.memory_info().rss / 2**20)


async def killing(server, address, kills, end):
    """Kill the server `kills` times a minute, until the time `end`; a shell starts it again. A server is killed a
    random time after it has answered. Return the number of kills."""
    rng, killed = Random(SEED), 0
    async with AsyncClient() as client:
        while perf_counter() < end:
            await asyncio.sleep(0.05)
            with suppress(HTTPError):
                await client.get(f"{address}/_stcore/health")
                await asyncio.sleep(rng.expovariate(kills / 60))
                for process in [*family(server)][1:]:  # all but the shell
                    with suppress(psutil.NoSuchProcess):
                        process.kill()
                killed += 1
    return killed


async def labeling(address, server, annotators, seconds, pause, kills):
    """Let all annotators work for `seconds`. Return the processor time of the server and of this process, the memory of
    the server, and the number of its kills."""
    start, begun = asyncio.Event(), []
    used = partial(of_family, server, seconds_used)
    async with asyncio.TaskGroup() as tasks:
        for annotator in annotators:
            tasks.create_task(annotator.work(address, start, lambda: begun[0] + seconds, pause))
        for annotator in annotators:
            await annotator.opened.wait()
        gc.freeze()  # a full collection of this process would hold back all annotators at once
        begun.append(perf_counter())
        before, own, memory = used(), process_time(), [of_family(server, megabytes)]
        start.set()
        end = begun[0] + seconds
        killer = tasks.create_task(killing(server, address, kills, end)) if kills else None
        while (left := end - perf_counter()) > 0:
            await asyncio.sleep(min(60, left))
            memory.append(of_family(server, megabytes))
        after = used()
        killed = await killer if killer else 0
        shares = {"server_cores": (after - before) / seconds, "client_cores": (process_time() - own) / seconds}
        costs = {"server_cpu_seconds": after - before} | shares
    return {name: round(cost, 2) for name, cost in costs.items()} | {"memory_mb": memory, "kills": killed}


@contextmanager
def comparing(store, dataset):
    """Run a comparison in the background, as the app runs one, until the end of the block. Yield a function that
    returns the number of its replays so far."""
    spec = experiments.specification(
        {
            "data": [store.dataset(dataset)["name"]],
            "algorithms": {"PAA-I": {}, "OAAL": {}},
            "permutations": 50_000,
            "points": 10,
        }
    )
    comparison = experiments.begin(spec, store)
    jobs.start(store, comparison)

    def replays():
        return jobs.status(store, comparison)["done"]

    try:
        end = perf_counter() + PATIENCE
        while not replays() and perf_counter() < end:
            sleep(0.1)
        yield replays
    finally:
        jobs.cancel(store, comparison)


def spread(seconds):
    return {name: round(1000 * float(np.percentile(seconds, at)), 1) for name, at in PERCENTILES.items()}


def run(
    annotators=20, minutes=10.0, items=5000, pause=1.0, strategies=tuple(STRATEGIES), together=False, comparison=False,
    cuts=0.0, kills=0.0,
):  # fmt: skip
    """Start the app on a database of its own, let the annotators label, and return the counts, times and costs.

    together: whether all share one session that asks about every item; there, they never undo, as an undo shows the
    item again and stores nothing. comparison: whether the server also runs a comparison. cuts: how often per minute the
    connection of each annotator is cut. kills: how often per minute the server is killed, if that many starts fit in.
    """
    texts, source = zipf(items, VOCABULARY)
    truth = [item.relevant for item in texts]
    with TemporaryDirectory(prefix="oal-load-") as temporary:
        folder = Path(temporary)
        store, dataset = imported(folder, texts)
        if together:
            own = [create(store, dataset, learner="pa-i", rule="all", budget=items)] * annotators
        else:
            own = [session(store, dataset, strategies[k % len(strategies)]) for k in range(annotators)]
        people = [
            Annotator(each, f"annotator-{k}", truth, Random(SEED + k), 0 if together else UNDOS, cuts)
            for k, each in enumerate(own, 1)
        ]
        load = round(os.getloadavg()[0], 1)
        beside = comparing(store, dataset) if comparison else nullcontext(int)
        with serving(store.path, folder, again=kills > 0) as (address, server), beside as replays:
            costs = asyncio.run(labeling(address, server, people, 60 * minutes, pause, kills))
            costs["replays"] = replays()
        log = (folder / "server.log").read_text(errors="replace")
        counts = discrepancies(store, people)
        store.close()
    expected = (LOST,) if kills else ()
    problems = Counter(each for annotator in people for each in annotator.problems if each not in expected)
    problems.update({"a traceback in the server's log": log.count("Traceback (most recent call last)")})
    times = [time for annotator in people for time in annotator.acknowledged.values()]
    kinds = Counter(annotator.sent[id][1]["action"] for annotator in people for id in annotator.acknowledged)
    return {
        "annotators": annotators,
        "minutes": minutes,
        "items": items,
        "source": source,
        "events": dict(kinds),
        "cuts": sum(annotator.n_cuts for annotator in people),
        "ended": sum(annotator.ended for annotator in people),
        "unacknowledged": sum(len(annotator.pending) for annotator in people),
        **counts,
        "errors": problems.total(),
        "problems": dict(+problems),
        "acknowledged_ms": spread(times),
        "load": load,
        **costs,
    }


def lines(result):
    """Yield the result of a run as lines of text."""
    events = ", ".join(f"{count:,} {name}" for name, count in result["events"].items())
    yield f"{result['annotators']} annotators for {result['minutes']:g} minutes, {result['items']:,} texts: {events}."
    yield ""
    counts = "lost", "doubled", "unacknowledged", "unverified", "errors", "ended"
    costs = "server_cores", "client_cores", "server_cpu_seconds", "load", "replays"
    times = result["acknowledged_ms"]
    yield from table([*counts], [[result[name] for name in counts]])
    yield from table(
        [*(f"acknowledged, {at} (ms)" for at in times), *(name.replace("_", " ") for name in costs)],
        [[*map(round, times.values()), *(result[name] for name in costs)]],
    )
    yield f"Memory of the server at the start and every minute: {', '.join(map(str, result['memory_mb']))} MB."
    if result["kills"]:
        yield f"The server was killed {result['kills']} times; acknowledgements waited."
    elif result["cuts"]:
        yield f"Lines were cut for {CUT_SECONDS} seconds {result['cuts']} times; acknowledgements waited."
    else:
        yield f"Aim: acknowledged within {AIM} ms at p95; {'met' if times['p95'] <= AIM else 'missed'}."
    yield from (f"{count:,} times: {problem}" for problem, count in result["problems"].items())


def main(
    annotators: Annotated[int, typer.Option(min=1, help="People who label.")] = 20,
    minutes: Annotated[float, typer.Option(min=0.01, help="How long they do.")] = 10.0,
    items: Annotated[int, typer.Option(min=100, help="Synthetic texts to label.")] = 5000,
    pause: Annotated[float, typer.Option(min=0.05, help="Seconds from a label to the next, on average.")] = 1.0,
    strategy: Annotated[list[str], typer.Option(help="What asks, in turns.")] = tuple(STRATEGIES),
    together: Annotated[bool, typer.Option("--together", help="All label in one session.")] = False,
    comparison: Annotated[bool, typer.Option("--comparison", help="A comparison runs meanwhile.")] = False,
    cuts: Annotated[float, typer.Option(min=0, help="Cuts of each line a minute, of 5 seconds.")] = 0.0,
    kills: Annotated[float, typer.Option(min=0, help="Kills of the server a minute.")] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Let many annotators label at the same time, and check that each acknowledged event is stored exactly once."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that SIGTERM stops the server, too
    result = run(annotators, minutes, items, pause, strategy, together, comparison, cuts, kills)
    print(json.dumps(result) if as_json else "\n".join(lines(result)))


if __name__ == "__main__":
    typer.run(main)
