"""Sends and receives with RocketMQ's Python client: `python grpc_program.py HOST:PORT [lasting | tls | taking]`.

The last line is what it saw, as JSON. It runs in a process of its own: the client
and reput have messages of the same names. With `lasting` its clients are there before and after a restart of the
broker: it writes a line when they have a message each, and goes on when it reads one. With `tls` they speak TLS.
With `taking` it takes messages until it is killed (`takers.py`).
"""

from __future__ import annotations

import contextlib
import json
import queue
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from rocketmq import (
    ClientConfiguration,
    Credentials,
    FilterExpression,
    Message,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.v5.consumer import ConsumeResult, MessageListener
from rocketmq.v5.exception import BadRequestException

T = TypeVar("T")
CONFIGURATION = ClientConfiguration(sys.argv[1], Credentials())
LEASE_S = 10
WAIT_S = 5
LIMIT_S = 60.0
DELAY_S = 3


class Commits(TransactionChecker):
    """Commits what the broker asks about."""

    def check(self, message: Message) -> TransactionResolution:  # noqa: ARG002 - the client's interface
        """Answer a question."""
        return TransactionResolution.COMMIT


class Listener(MessageListener):
    """Fails the first time that it gets a message, and takes it the second time."""

    def __init__(self, count: int) -> None:
        self.got: list[tuple[str, int]] = []
        self.done = threading.Event()
        self._left = count

    def consume(self, message: Message) -> ConsumeResult:
        """Take a message."""
        self.got.append((message.body.decode(), message.delivery_attempt))
        if message.delivery_attempt == 1:
            return ConsumeResult.FAILURE
        self._left -= 1
        if self._left == 0:
            self.done.set()
        return ConsumeResult.SUCCESS


class Takes(MessageListener):
    """Takes each message."""

    def __init__(self) -> None:
        self._got: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._seen: list[str] = []

    def consume(self, message: Message) -> ConsumeResult:
        """Take a message."""
        self._got.put(message.body.decode())
        return ConsumeResult.SUCCESS

    def wait(self, body: str) -> list[str]:
        """Wait for a message; return all that came."""
        while body not in self._seen:
            self._seen.append(self._got.get(timeout=LIMIT_S))
        return self._seen


def message(topic: str, body: str, **values: Any) -> Message:
    """A message."""
    made = Message()
    made.topic, made.body = topic, body.encode()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def consumer_of(topic: str, wanted: str = "*") -> SimpleConsumer:
    """A running consumer of a topic, in a group of the topic's name."""
    consumer = SimpleConsumer(CONFIGURATION, f"{topic}-readers", {topic: FilterExpression(wanted)}, WAIT_S)
    consumer.startup()
    return consumer


def at_last(call: Callable[[], T]) -> T:
    """Make a call; its first tries may find the connection that the broker's end has cut.

    RocketMQ's proxy forgets the settings of a consumer that is not in its group yet: this client's first heartbeat
    comes after 10 s, and until then the proxy may answer its calls with an error.
    """
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            return call()
        except Exception:  # the client raises errors of many kinds
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def receive(consumer: SimpleConsumer, count: int, lease_s: int = LEASE_S) -> list[Message]:
    """Receive messages, or none."""
    found: list[Message] = at_last(partial(consumer.receive, count, lease_s))
    return found


def receive_one(consumer: SimpleConsumer, lease_s: int = LEASE_S) -> Message:
    """Wait for a message."""
    deadline = time.monotonic() + LIMIT_S
    while not (found := receive(consumer, 1, lease_s)):
        if time.monotonic() > deadline:
            raise TimeoutError
    return found[0]


def take(consumer: SimpleConsumer, count: int) -> list[Message]:
    """Receive messages until there are this many, and acknowledge them."""
    found: list[Message] = []
    deadline = time.monotonic() + LIMIT_S
    while len(found) < count:
        if time.monotonic() > deadline:
            raise TimeoutError([one.body for one in found])
        received = receive(consumer, 16)
        for one in received:
            consumer.ack(one)
        found += received
    return found


def bodies(messages: list[Message]) -> list[str]:
    """Their bodies."""
    return [one.body.decode() for one in messages]


def normal(producer: Producer) -> dict[str, Any]:
    """Messages with tags, keys and properties, of which a filter takes some."""
    for number in range(8):
        sent = message("normal", f"n{number}", tag="even" if number % 2 == 0 else "odd", keys=f"k{number}")
        sent.add_property("number", str(number))
        producer.send(sent)
    consumer = consumer_of("normal", "even")
    got = sorted(take(consumer, 4), key=lambda one: one.body)
    last = receive(consumer, 16)
    consumer.shutdown()
    return {
        "got": [[one.body.decode(), one.tag, sorted(one.keys), one.properties, one.delivery_attempt] for one in got],
        "then": bodies(last),
    }


def leases(producer: Producer) -> dict[str, Any]:
    """Messages that are not acknowledged, or get another invisible time, come again; their old handles are over."""
    producer.send(message("leases", "left"))
    consumer = consumer_of("leases")
    begin = time.monotonic()
    first = receive_one(consumer)
    (second,) = take(consumer, 1)
    waited_s = time.monotonic() - begin
    try:
        consumer.ack(first)
        refused = ""
    except BadRequestException as error:
        refused = type(error).__name__
    producer.send(message("leases", "changed"))
    third = receive_one(consumer, 600)
    consumer.change_invisible_duration(third, 1)
    (fourth,) = take(consumer, 1)
    last = receive(consumer, 16)
    consumer.shutdown()
    got = [first, second, third, fourth]
    return {
        "got": [[one.body.decode(), one.delivery_attempt] for one in got],
        "came_early": waited_s < LEASE_S - 0.5,
        "refused": refused,
        "then": bodies(last),
    }


def fifo(producer: Producer) -> dict[str, Any]:
    """Messages of a group come in their order, one call after the other."""
    sent = [f"f{number}" for number in range(6)]
    for body in sent:
        producer.send(message("fifo", body, message_group="one"))
    consumer = consumer_of("fifo")
    got: list[Message] = []
    while len(got) < len(sent):
        one = receive_one(consumer)
        consumer.ack(one)
        got.append(one)
    consumer.shutdown()
    return {"got": bodies(got), "groups": sorted({one.message_group for one in got})}


def delay(producer: Producer) -> dict[str, Any]:
    """A message with a time does not come before it."""
    due_s = int(time.time()) + DELAY_S
    producer.send(message("delay", "later", delivery_timestamp=due_s))
    consumer = consumer_of("delay")
    got = take(consumer, 1)
    came_early = time.time() < due_s
    consumer.shutdown()
    return {"got": bodies(got), "came_early": came_early}


def transactions() -> dict[str, Any]:
    """Messages that are committed come, also when the broker has to ask; those that are rolled back do not."""
    producer = Producer(CONFIGURATION, ("ends",), checker=Commits())
    producer.startup()
    for end in ("commit", "rollback", "ask"):
        transaction = producer.begin_transaction()
        producer.send(message("ends", end), transaction)
        if end != "ask":
            getattr(transaction, end)()
    consumer = consumer_of("ends")
    got = take(consumer, 2)
    last = receive(consumer, 16)
    consumer.shutdown()
    producer.shutdown()
    return {"got": sorted(bodies(got)), "then": bodies(last)}


def push(producer: Producer) -> dict[str, Any]:
    """A push consumer gets what it failed with once more."""
    listener = Listener(3)
    consumer = PushConsumer(CONFIGURATION, "push-readers", listener, {"push": FilterExpression()})
    consumer.startup()
    for number in range(3):
        producer.send(message("push", f"p{number}"))
    done = listener.done.wait(LIMIT_S)
    consumer.shutdown()
    return {"got": sorted(listener.got), "done": done}


def lasting() -> dict[str, Any]:
    """A producer, a simple consumer and a push consumer work before and after a restart of the broker."""
    producer = Producer(CONFIGURATION, ("normal", "push"))
    producer.startup()
    simple, taken = consumer_of("normal"), Takes()
    pushed = PushConsumer(CONFIGURATION, "push-readers", taken, {"push": FilterExpression()})
    pushed.startup()
    got: list[str] = []
    for when in ("before", "after"):
        for topic in ("normal", "push"):
            at_last(partial(producer.send, message(topic, when)))
        got += bodies(at_last(partial(take, simple, 1)))
        pushes = taken.wait(when)
        if when == "before":
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            sys.stdin.readline()
    for one in (simple, pushed, producer):
        one.shutdown()
    return {"simple": got, "push": pushes}


def taking() -> None:
    """Take the messages of a topic until the process is killed; a line for each that comes, and each that is acked."""

    def say(what: str, one: Message) -> None:
        line = [time.time_ns() // 1_000_000, what, one.body.decode(), one.delivery_attempt]
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    consumer = consumer_of("taken")
    while True:
        for one in receive(consumer, 8):
            say("got", one)
            # The lease of some ends.
            if one.delivery_attempt == 1 and one.body.endswith(b"7"):
                continue
            # A broker that is killed meanwhile does not answer; then the message comes again.
            with contextlib.suppress(Exception):
                consumer.ack(one)
                say("acked", one)


def tls() -> dict[str, Any]:
    """A message goes and comes by TLS."""
    producer = Producer(CONFIGURATION, ("normal",), tls_enable=True)
    producer.startup()
    producer.send(message("normal", "hidden"))
    wanted = {"normal": FilterExpression()}
    consumer = SimpleConsumer(CONFIGURATION, "normal-readers", wanted, WAIT_S, tls_enable=True)
    consumer.startup()
    got = take(consumer, 1)
    consumer.shutdown()
    producer.shutdown()
    return {"got": bodies(got)}


def main() -> None:
    """Run all, and print what was seen."""
    if sys.argv[2:] == ["taking"]:
        taking()
    if sys.argv[2:]:
        sys.stdout.write(json.dumps({"lasting": lasting, "tls": tls}[sys.argv[2]]()) + "\n")
        return
    producer = Producer(CONFIGURATION, ("normal", "leases", "fifo", "delay", "push"))
    producer.startup()
    scenarios = [normal, leases, fifo, delay, push]
    seen = {one.__name__: one(producer) for one in scenarios} | {"transactions": transactions()}
    producer.shutdown()
    sys.stdout.write(json.dumps(seen) + "\n")


main()
