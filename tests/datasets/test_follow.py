"""Each message of a real broker is appended exactly once, even if processes are killed."""

import json
import os
import subprocess
import sys
import threading
import time
from threading import Event

import pytest

from benchmarks import kills
from oal_engine.datasets import brokers, feeds
from oal_engine.datasets.feeds import AppendCounts
from oal_engine.store import ConflictError
from tests.harness import ROOT
from tests.harness.brokers import BROKERS, broker, message

POISON = [b"no object", b"[1]", b'{"id": "x"}', b'{"text": "\xff"}', b"", b'{"text": ' + b'"' + b"x" * 200 + b'"}']


@pytest.fixture(params=BROKERS)
def running(request, tmp_path):
    """A running message broker, each kind in turn."""
    with broker(request.param, tmp_path / "broker") as started:
        yield started


@pytest.fixture
def dataset(store, tmp_path):
    """A data set of two texts, with near-duplicates left out and counted."""
    return kills.dataset(store, tmp_path)


def followed(dataset, running, said=None, **more):
    """Follow a broker until no message is left. Return the total AppendCounts. said: list that collects reports."""
    address = brokers.Address(running.url)
    say = (said if said is not None else []).append
    return sum(feeds.follow(dataset, address, until_empty=True, say=say, **more), AppendCounts())


def later(dataset):
    """Return the ids of the items that came as messages."""
    return kills.ids(dataset)


@pytest.mark.slow
def test_messages_come_once_in_order(running, dataset):
    """All messages are appended in the order of each partition, and a second run appends only the new ones."""
    running.send(map(message, range(30)))
    assert 30 == followed(dataset, running).appended
    running.send(map(message, range(30, 36)))
    counts = followed(dataset, running)
    assert (6, 0) == (counts.appended, counts.duplicates)
    kills.check(dataset, 36, partitions=3 if running.url.startswith("kafka") else 1)


class MadeAnew:
    """The address of a stream that was deleted and created again, so that its positions start over."""

    def __str__(self):
        return "nats://host:1/stream"

    def batches(self, positions, say):
        positions[""] = "0"
        yield brokers.Batch([brokers.Message("", "1", b"[]"), brokers.Message("", "2", message(len(positions)))], True)


def test_a_stream_that_was_made_anew_is_read_from_its_beginning(dataset):
    """A stream that was deleted and created again is read from its beginning, although its positions go back. An
    unreadable message at a position that is already stored is no error."""
    appended = [sum(feeds.follow(dataset, MadeAnew(), until_empty=True), AppendCounts()) for _ in range(2)]
    assert [1, 0] == [each.appended for each in appended]
    assert {"": "2"} == dataset.store.feed_positions(dataset.id, str(MadeAnew()))
    assert ["[]"] == [row["content"].decode() for row in dataset.store.rejected(dataset.id, str(MadeAnew()))]


def test_a_message_that_cannot_be_read_is_kept_aside(running, dataset, store):
    """An unreadable message is stored once with its position and reason, and the feed continues."""
    running.send([message(0), *POISON, message(1)])
    counts = followed(dataset, running, limits=feeds.replace(feeds.LIMITS, line=100))
    assert (2, len(POISON)) == (counts.appended, sum(number for number, _ in counts.skipped.values()))
    followed(dataset, running)
    aside = store.rejected(dataset.id, running.url)
    assert sorted(POISON) == sorted(row["content"] for row in aside)
    assert all(row["reason"] and row["position"] for row in aside)


def test_a_lost_broker_is_followed_again(running, dataset):
    """The loss of a broker and its return are reported once each, and no message is lost."""
    if running.url.startswith("kafka"):
        pytest.skip("Tansu keeps its topics in memory: they do not return")
    running.send(map(message, range(5)))
    said, stopped, ended = [], Event(), []

    def act():
        ended.extend(feeds.follow(dataset, brokers.Address(running.url), stopped=stopped, say=said.append))

    thread = threading.Thread(target=act)
    thread.start()
    try:
        until(lambda: 5 == len(later(dataset)))
        running.stop()
        until(lambda: said)
        running.start()
        running.send(map(message, range(5, 9)))
        until(lambda: 9 == len(later(dataset)))
    finally:
        stopped.set()
        thread.join(20)
    assert "It is tried again until it is back." in said[0]
    assert [f"{running.url} is back."] == said[1:]
    kills.check(dataset, 9)


def until(true):
    """Wait until a condition is true; fail after 20 seconds."""
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_messages_that_the_broker_deleted_are_reported(running, dataset):
    """Messages that were deleted before they were read are reported, and the feed continues with the remaining ones."""
    if running.url.startswith("kafka"):
        pytest.skip("Tansu deletes no records")
    running.send(map(message, range(4)))
    followed(dataset, running)
    running.send(map(message, range(4, 10)))
    running.trim(3)
    said = []
    assert 3 == followed(dataset, running, said).appended
    assert 1 == len(said)
    if running.url.startswith("nats"):
        assert said == [f"{running.url} no longer has the messages 5 to 7 of its stream: they are lost here."]
    else:
        assert "no longer has message" in said[0]


def test_a_second_follower_stops(store, dataset):
    """If two processes follow the same feed into one data set, the second gets an error and stores nothing."""
    store.move_feed(dataset.id, "redis://host/a", {}, {"": "5"}, [])
    with pytest.raises(ConflictError, match="another process follows redis://host/a into the same data set"):
        store.move_feed(dataset.id, "redis://host/a", {}, {"": "7"}, [])
    assert {"": "5"} == store.feed_positions(dataset.id, "redis://host/a")


@pytest.mark.parametrize(
    "url",
    [
        "file://a/b",
        "redis:///a",
        "redis://:secret@host",
        "kafka://u:secret@host:port/t",
        "tweets",
        "nats://u:sec/ret@h/t",
    ],
)
def test_an_address_that_is_none_is_refused(url):
    """An invalid broker URL is refused, and the error does not show the password in it."""
    with pytest.raises(brokers.BrokerError, match=r"^URL must .*\. Got .*\.$") as refused:
        brokers.Address(url)
    assert "sec" not in str(refused.value)


@pytest.mark.parametrize("scheme", BROKERS)
def test_a_broker_that_does_not_listen_is_named_without_its_password(scheme, dataset, monkeypatch):
    """If the first connection to a broker fails, the error names its URL without the password."""
    monkeypatch.setattr(brokers, "CONNECT_SECONDS", 1)
    address = brokers.Address(f"{scheme}://user:secret@127.0.0.1:9/stream")
    with pytest.raises(brokers.BrokerError, match=rf"^{scheme}://127.0.0.1:9/stream cannot be read: ") as failed:
        list(feeds.follow(dataset, address))
    assert "secret" not in str(failed.value)


@pytest.mark.slow
def test_the_command_follows_and_shows_what_is_kept_aside(running, dataset, store):
    """`follow --until-empty` ends with a summary, and `--rejected` prints the unreadable messages."""
    running.send([message(0), b"broken"])

    def oal(*options):
        command = [sys.executable, "-m", "oal_engine", "follow", running.url, "messages", *options]
        environment = os.environ | {"OAL_DB": str(store.path)}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)

    done = oal("--until-empty")
    assert "kept 1 message aside, see --rejected" in done.stderr
    assert "messages: appended 1, " in done.stdout
    assert "broken" == json.loads(oal("--rejected").stdout)["content"]


@pytest.mark.slow
def test_no_kill_loses_or_doubles_a_message(running, tmp_path):
    """After twenty kills of the follower at random moments, each message is stored once, in its partition's order."""
    done = kills.run(running, tmp_path / "kills", 20, seed=0)
    assert 20 == done["kills"]
    assert done["messages"]
