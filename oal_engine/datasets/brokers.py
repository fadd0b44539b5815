"""Read messages from Redis streams, NATS JetStream and Kafka, from a position that the caller stores.

To support another broker, write a generator like `_redis` and add it to `BROKERS`.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

BATCH_MESSAGES = 500  # read and stored at a time
WAIT_SECONDS = 0.5  # for a message, before the caller can check whether to stop
CONNECT_SECONDS = 10
PARTITIONS_SECONDS = 60  # between checks for new partitions
PASSWORD = "OAL_FOLLOW_PASSWORD"  # nosec: the name of the environment variable

Positions: TypeAlias = dict[str, str]  # {partition ("" if a broker has none): last stored position}
Say: TypeAlias = Callable[[str], None]


class BrokerError(ValueError):
    """Raised if a broker cannot be read or a URL is invalid. The message is one sentence."""


class Message(NamedTuple):
    """A message of a broker, with its partition and its position in the partition."""

    partition: str
    position: str
    content: bytes


class Batch(NamedTuple):
    """Messages, in order within each partition. at_end: whether the broker has no more messages at the moment."""

    messages: list[Message]
    at_end: bool


class Address:
    """The URL of a feed, SCHEME://[USER[:PASSWORD]@]HOST[:PORT]/NAME[?OPTION=VALUE]. `str` returns it without user,
    password and options."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.scheme, self.name = parts.scheme, unquote(parts.path.removeprefix("/"))
        if (
            self.scheme not in BROKERS
            or not parts.hostname
            or not re.fullmatch(r"[^@\s]+:\d+|[^@:\s]+", self._host(parts.netloc))
        ):
            raise BrokerError(
                f"URL must be {', '.join(BROKERS)} followed by ://HOST:PORT/NAME. Got {self.scheme or 'none'}."
            )
        if not self.name:
            raise BrokerError(
                f"URL must end in the name of a stream, subject or topic. Got {self.scheme}://{parts.hostname}."
            )
        self.host = self._host(parts.netloc)
        self.user = unquote(parts.username or "") or None
        self.password = unquote(parts.password or "") or os.environ.get(PASSWORD)
        self.query, self.options = parts.query, dict(parse_qsl(parts.query))

    @staticmethod
    def _host(netloc: str) -> str:
        return netloc.rpartition("@")[2]

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}/{self.name}"

    def batches(self, positions: Positions, say: Say) -> Iterator[Batch]:
        """Yield batches of the messages after `positions`. Raise BrokerError if the connection is lost.

        positions: the caller advances them after each batch. say: called with a sentence about messages that the broker
        no longer has.
        """
        return BROKERS[self.scheme](self, positions, say)


@contextmanager
def _failures(address: Address, *errors: Any) -> Iterator[None]:
    """Turn errors of a client library in the body into a BrokerError."""
    try:
        yield
    except (*errors, OSError, TimeoutError) as error:
        raise BrokerError(f"{address} cannot be read: {str(error) or type(error).__name__}.") from None


def _extra(package: str) -> BrokerError:
    return BrokerError(f"follow needs {package}: pip install 'oal-studio[follow]'.")


def _redis(address: Address, positions: Positions, say: Say) -> Iterator[Batch]:
    """Read a Redis stream. The message in an entry is its only field, or a JSON object if it has several fields."""
    try:
        import redis
    except ImportError:
        raise _extra("redis") from None
    with _failures(address, redis.RedisError):
        client = redis.Redis.from_url(
            f"{address.scheme}://{address.host}?{address.query}", username=address.user, password=address.password,
            socket_connect_timeout=CONNECT_SECONDS, socket_timeout=CONNECT_SECONDS,
        )  # fmt: skip
        with client:
            while True:
                last = positions.get("", "0-0")
                together = client.pipeline(transaction=True)  # nothing is trimmed between the two reads
                together.xrange(address.name, last, last)
                together.xread({address.name: last}, BATCH_MESSAGES)
                last_entry, response = together.execute()
                entries = response[0][1] if response else []
                if last != "0-0" and not last_entry and client.exists(address.name):
                    info = client.xinfo_stream(address.name)
                    if _entry(info["last-generated-id"]) < _entry(last):
                        say(f"{address} was made anew and ends before message {last}: it is read from its beginning.")
                        positions[""] = "0-0"
                        continue
                    if entries:
                        first = entries[0][0].decode()
                        say(f"{address} no longer has message {last}, read last: others before {first} may be gone.")
                yield Batch([Message("", id.decode(), _content(fields)) for id, fields in entries], not entries)
                if not entries:
                    client.xread({address.name: last}, 1, int(1000 * WAIT_SECONDS))


def _entry(id: bytes | str) -> tuple[int, ...]:
    """Parse the id of a Redis stream entry, such as 5-0, into its two numbers."""
    return tuple(map(int, (id.decode() if isinstance(id, bytes) else id).split("-")))


def _content(fields: dict[bytes, bytes]) -> bytes:
    if len(fields) == 1:
        return next(iter(fields.values()))
    pairs = {
        key.decode(errors="surrogateescape"): value.decode(errors="surrogateescape") for key, value in fields.items()
    }
    return json.dumps(pairs, ensure_ascii=False).encode(errors="surrogateescape")


def _nats(address: Address, positions: Positions, say: Say) -> Iterator[Batch]:
    """Read a NATS JetStream stream; if the address names a subject, only the messages with this subject."""
    try:
        import nats
        from anyio.from_thread import start_blocking_portal  # in a thread with a loop: a notebook runs its own loop
        from nats.js import api
        from nats.js.errors import NotFoundError
    except ImportError:
        raise _extra("nats-py") from None

    n_delivered = 0  # by the subscription

    async def silent(error: Exception) -> None:
        """Ignore errors here; the call that fails raises them."""

    async def connect() -> Any:
        login = {"user": address.user, "password": address.password} if address.password else {"token": address.user}
        return await nats.connect(
            f"{address.scheme}://{address.host}", allow_reconnect=False, max_reconnect_attempts=1,
            reconnect_time_wait=0, connect_timeout=CONNECT_SECONDS, error_cb=silent, **login,
        )  # fmt: skip

    async def subscribe() -> Any:
        try:
            stream, subject = await context.find_stream_name_by_subject(address.name), address.name
        except NotFoundError:
            stream, subject = address.name, ">"
        state = (await context.stream_info(stream)).state
        if state.last_seq < int(positions.get("", 0)):
            say(f"{address} was made anew and ends before message {positions['']}: it is read from its beginning.")
            positions[""] = "0"
        config = api.ConsumerConfig(
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=int(positions.get("", 0)) + 1,
            ack_policy=api.AckPolicy.NONE, inactive_threshold=3600,
        )  # fmt: skip
        return stream, await context.pull_subscribe(subject, stream=stream, config=config)

    async def fetch() -> Batch:
        nonlocal n_delivered
        try:
            response = await subscription.fetch(BATCH_MESSAGES, WAIT_SECONDS)
        except TimeoutError:
            return Batch([], not (await subscription.consumer_info()).num_pending)
        n_delivered += len(response)
        if response[-1].metadata.sequence.consumer != n_delivered:
            raise nats.errors.Error("a message was lost on its way")
        next_one, first = int(positions.get("", 0)) + 1, response[0].metadata.sequence.stream
        if 1 < next_one < first and (oldest := (await context.stream_info(stream)).state.first_seq) > next_one:
            last_lost = min(oldest, first) - 1
            say(f"{address} no longer has the messages {next_one} to {last_lost} of its stream: they are lost here.")
        return Batch([Message("", str(each.metadata.sequence.stream), each.data) for each in response], False)

    with _failures(address, nats.errors.Error), start_blocking_portal() as portal:
        connection = portal.call(connect)
        try:
            context = connection.jetstream(timeout=CONNECT_SECONDS)
            stream, subscription = portal.call(subscribe)
            while True:
                yield portal.call(fetch)
        finally:
            with suppress(nats.errors.Error, OSError):
                portal.call(connection.close)


def _kafka(address: Address, positions: Positions, say: Say) -> Iterator[Batch]:
    """Read all partitions of a Kafka topic. The options of the URL are settings of librdkafka."""
    try:
        import confluent_kafka as kafka
    except ImportError:
        raise _extra("confluent-kafka") from None
    failures: list[Any] = []
    secure = address.scheme.endswith("+ssl")
    settings: dict[str, Any] = {
        "bootstrap.servers": address.host, "group.id": "oal-follow", "enable.auto.commit": False, "log_level": 0,
        "enable.partition.eof": True, "auto.offset.reset": "error", "isolation.level": "read_committed",
        "security.protocol": f"{'sasl_' * bool(address.user)}{'ssl' if secure else 'plaintext'}",
        "error_cb": failures.append,
    }  # fmt: skip
    if address.user:
        settings |= {
            "sasl.mechanism": "PLAIN", "sasl.username": address.user, "sasl.password": address.password or "",
        }  # fmt: skip
    with _failures(address, kafka.KafkaException, kafka.KafkaError):
        consumer = kafka.Consumer(settings | address.options)

        def partitions() -> set[int]:
            topic = consumer.list_topics(address.name, timeout=CONNECT_SECONDS).topics[address.name]
            if topic.error:
                raise kafka.KafkaException(topic.error)
            return set(topic.partitions)

        def place(partition: int, offset: int) -> Any:
            return kafka.TopicPartition(address.name, partition, offset)

        try:
            assigned, partitions_at_end, look_time = partitions(), set[int](), time.monotonic()
            after = {each: int(positions[str(each)]) + 1 for each in assigned if str(each) in positions}
            consumer.assign([place(each, after.get(each, kafka.OFFSET_BEGINNING)) for each in assigned])
            while True:
                messages = list[Message]()
                for each in consumer.consume(BATCH_MESSAGES, WAIT_SECONDS):
                    partition, error = int(each.partition() or 0), each.error()
                    if error is None:
                        partitions_at_end.discard(partition)
                        messages.append(Message(str(partition), str(each.offset()), each.value() or b""))
                    elif error.code() == kafka.KafkaError._PARTITION_EOF:
                        partitions_at_end.add(partition)
                    elif error.code() == kafka.KafkaError._AUTO_OFFSET_RESET:
                        first, _ = consumer.get_watermark_offsets(place(partition, 0), timeout=CONNECT_SECONDS)
                        say(_gap_sentence(address, partition, int(positions.get(str(partition), -1)) + 1, first))
                        positions[str(partition)] = str(first - 1)
                        consumer.seek(place(partition, first))
                    else:
                        raise kafka.KafkaException(error)
                yield Batch(messages, not messages and partitions_at_end >= assigned)
                if lost := next((each for each in failures if each.code() == kafka.KafkaError._ALL_BROKERS_DOWN), None):
                    raise kafka.KafkaException(lost)
                if time.monotonic() > look_time + PARTITIONS_SECONDS:
                    look_time = time.monotonic()
                    if new := partitions() - assigned:
                        assigned |= new
                        consumer.incremental_assign([place(each, kafka.OFFSET_BEGINNING) for each in new])
        finally:
            consumer.close()


def _gap_sentence(address: Address, partition: int, offset: int, first: int) -> str:
    where = f"partition {partition} of {address}"
    if offset < first:
        return f"{where} no longer has the messages {offset} to {first - 1}: they are lost here."
    return f"{where} was made anew and ends before message {offset}: it is read from its beginning."


BROKERS: dict[str, Callable[[Address, Positions, Say], Iterator[Batch]]] = {
    "redis": _redis, "rediss": _redis, "nats": _nats, "tls": _nats, "kafka": _kafka, "kafka+ssl": _kafka,
}  # fmt: skip
