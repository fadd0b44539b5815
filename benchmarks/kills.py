"""Kill a process that stores the messages of a broker, again and again at random moments while messages are sent: run
`python benchmarks/kills.py BROKER`. Every message must be stored exactly once, or the script ends with an error."""

import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).parent.parent))

from oal_engine import datasets
from oal_engine.datasets import Dataset, brokers, feeds, reading
from oal_engine.store import Store
from tests.harness.brokers import BROKERS, PARTITIONS, broker, message

FIRST = [("a", "some first text here"), ("b", "some first text there")]
POISON_EVERY = 10  # messages
SEND_SECONDS = 0.02  # between messages
LONGEST_SECONDS = 0.4  # until a kill
LONGEST_START_SECONDS = 60  # until the first message is sent


def dataset(store, folder):
    """Import a data set of two texts, in which repeated texts are counted."""
    path = folder / "first.jsonl"
    path.write_text("".join(json.dumps({"id": id, "text": text}) + "\n" for id, text in FIRST))
    columns = reading.Columns(("text",), None, "id")
    request = datasets.ImportRequest(near_duplicates="once")
    return Dataset(store, datasets.import_file(store, path, "messages", columns, request)[0])


def ids(data):
    """Return the ids of the items that messages added, in order."""
    rows = data.store.query("SELECT id FROM items WHERE dataset = ? ORDER BY position", data.id)
    return [row["id"] for row in rows][len(FIRST) :]


def check(data, sent, partitions=1, poison=0):
    """Check that each of the `sent` messages was stored once, in order within its partition, and that each of the
    `poison` unreadable messages was set aside once."""
    numbers = [int(each[1:]) for each in ids(data)]
    assert sorted(numbers) == list(range(sent)), "messages are missing or doubled"
    for k in range(partitions):
        assert sorted(own := [each for each in numbers if each % partitions == k]) == own, "messages are in disorder"
    assert not data.store.copies(data.id), "messages came twice"
    aside = data.store.query("SELECT content FROM rejected WHERE dataset = ?", data.id)
    assert len(aside) == len({row["content"] for row in aside}) == poison, "unreadable messages are missing or doubled"
    assert not data.store.problems()


def _follow(path, url):
    """Follow a broker, until this process is killed."""
    list(feeds.follow(Dataset(Store(path), "messages"), brokers.Address(url), say=lambda sentence: None))


def run(running, folder, kills, seed=0):
    """Kill a follower `kills` times, and check the messages that it stored. Return counts and seconds."""
    chance, start, ended = random.Random(seed), perf_counter(), threading.Event()
    begun = threading.Event()
    folder.mkdir()
    store = Store(folder / "studio.db")
    dataset(store, folder)
    store.close()
    sent = []

    def send():
        for number in count():
            if ended.wait(SEND_SECONDS):
                return
            batch = [message(PARTITIONS * number + k) for k in range(PARTITIONS)]
            if number % POISON_EVERY == 0:
                batch += [b"poison %d.%d" % (number, k) for k in range(PARTITIONS)]
            running.send(batch)
            sent.append(len(batch) - PARTITIONS)
            begun.set()

    producer = threading.Thread(target=send)
    producer.start()
    begun.wait(LONGEST_START_SECONDS)  # a follower of a stream that does not exist yet ends with an error
    fork, stored_at_kills = multiprocessing.get_context("fork"), set()
    try:
        for _ in range(kills):
            process = fork.Process(target=_follow, args=(folder / "studio.db", running.url))
            process.start()
            process.join(chance.uniform(0, LONGEST_SECONDS))
            assert process.exitcode is None, "the follower ended by itself"
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            store = Store(folder / "studio.db", read_only=True)
            stored_at_kills.add(store.number("SELECT max(items) FROM datasets"))
            store.close()
    finally:
        ended.set()
        producer.join()
    store = Store(folder / "studio.db")
    data = Dataset(store, "messages")
    list(feeds.follow(data, brokers.Address(running.url), until_empty=True))
    messages = PARTITIONS * len(sent)
    check(data, messages, PARTITIONS if running.url.startswith("kafka") else 1, poison=sum(sent))
    store.close()
    return {
        "kills": kills, "messages": messages, "unreadable": sum(sent), "states at kills": len(stored_at_kills),
        "seconds": round(perf_counter() - start),
    }  # fmt: skip


def main(
    name: Annotated[str, typer.Argument(help=f"The broker: {', '.join(BROKERS)}.")] = "redis",
    kills: Annotated[int, typer.Option(min=1, help="How many kills.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the moments.")] = 0,
):
    """Start a broker, kill its follower again and again, and print the counts."""
    with tempfile.TemporaryDirectory() as folder, broker(name, Path(folder, "broker")) as running:
        print(json.dumps({"broker": name} | run(running, Path(folder, "kills"), kills, seed)))


if __name__ == "__main__":
    typer.run(main)
