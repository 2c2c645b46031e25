"""Consumers of a group with `reput serve`: what they get, what they commit, and how they share queues."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

import reput
from broker.clients.relay import Relay
from broker.remoting import Client
from reput.formats.wire.codes import RequestCode, ResponseCode
from support.checked import assert_sound
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

LIMIT_S = 30.0
FIRST = {"start_at": "first"}


def take(consumer: reput.Consumer, count: int, most: int = 32) -> list[reput.ReceivedMessage]:
    """Poll until there are this many messages."""
    found: list[reput.ReceivedMessage] = []
    deadline = time.monotonic() + LIMIT_S
    while len(found) < count:
        assert time.monotonic() < deadline, found
        found += consumer.poll(min(most, count - len(found)))
    return found


def bodies(messages: Iterable[reput.ReceivedMessage]) -> list[bytes]:
    """The bodies of messages."""
    return [one.body for one in messages]


def committed(broker: reput.RunningBroker, group: str, topic: str, queue_id: int = 0) -> int | None:
    """The offset that a group has committed at the broker."""
    fields = {"consumerGroup": group, "topic": topic, "queueId": queue_id, "setZeroIfNotFound": False}
    with Client(broker.address) as client:
        answer = client.ask(RequestCode.QUERY_CONSUMER_OFFSET, **fields)
    return int(answer.fields["offset"]) if answer.code == ResponseCode.SUCCESS else None


def test_a_message_arrives_with_all_its_parts(broker: reput.RunningBroker, producer: reput.Producer) -> None:
    """Body, tags, keys, properties, places, times and ids are those of the sender and of the broker."""
    long = b"x" * 5000
    message = reput.Message("line", long, tags="paid", keys=("a", "b"), properties={"p": "1"}, flag=9)
    sent = producer.send(message)
    with reput.Consumer("readers", broker.address, {"line": "*"}, **FIRST) as consumer:
        (got,) = take(consumer, 1)
    assert (got.topic, got.body, got.tags, got.keys, got.flag) == ("line", long, "paid", ["a", "b"], 9)
    assert got.properties["p"] == "1"
    assert (got.queue_id, got.queue_offset, got.broker_name) == (0, 0, sent.broker_name)
    assert (got.message_id, got.unique_key, got.reconsume_times) == (sent.message_id, sent.unique_key, 0)
    assert 0 < got.born_timestamp <= got.store_timestamp
    assert len(got.record.body) < 100  # as it is stored


def test_what_is_committed_does_not_come_again(broker: reput.RunningBroker, producer: reput.Producer) -> None:
    """The next consumer of the group goes on after the commits; another group begins at the first message."""
    producer.send_batch([reput.Message("line", b"%d" % n) for n in range(10)])
    with reput.Consumer("readers", broker.address, {"line": "*"}, **FIRST) as consumer:
        messages = take(consumer, 6)
        consumer.commit(messages[:4])
    assert committed(broker, "readers", "line") == 4
    with reput.Consumer("readers", broker.address, {"line": "*"}) as consumer:
        assert bodies(take(consumer, 6)) == [b"%d" % n for n in range(4, 10)]
        consumer.commit()
        consumer.persist_offsets()
        assert committed(broker, "readers", "line") == 10
    with reput.Consumer("others", broker.address, {"line": "*"}, **FIRST) as consumer:
        assert len(take(consumer, 10)) == 10


def test_messages_are_done_in_any_order(broker: reput.RunningBroker, producer: reput.Producer) -> None:
    """A message that is not done holds the offset, however many after it are."""
    producer.send_batch([reput.Message("line", b"%d" % n) for n in range(5)])
    with reput.Consumer("readers", broker.address, {"line": "*"}, **FIRST) as consumer:
        messages = take(consumer, 5)
        consumer.commit(messages[1:])
        consumer.persist_offsets()
        assert committed(broker, "readers", "line") in {None, 0}
        consumer.commit(messages[0])
        consumer.persist_offsets()
        assert committed(broker, "readers", "line") == 5


def test_tags_choose_messages(broker: reput.RunningBroker, producer: reput.Producer) -> None:
    """Only messages with one of the tags come, and the others are passed: the offset is after them."""
    tags = ["paid", "sent", "Aa", "BB", "paid", "lost"]
    producer.send_batch([reput.Message("line", tag.encode(), tags=tag) for tag in tags])
    # "Aa" and "BB" have one hash: a broker that compares hashes gives both.
    with reput.Consumer("readers", broker.address, {"line": "paid || Aa"}, **FIRST) as consumer:
        assert bodies(take(consumer, 3)) == [b"paid", b"Aa", b"paid"]
        consumer.commit()
        wait_until(lambda: consumer.persist_offsets() or committed(broker, "readers", "line") == 6)


def test_sql_chooses_messages(broker: reput.RunningBroker, producer: reput.Producer) -> None:
    """A SQL92 filter looks at properties; the broker refuses one that is no filter."""
    messages = [reput.Message("line", b"%d" % n, properties={"amount": str(n)}) for n in range(10)]
    producer.send_batch(messages)
    wanted = {"line": reput.SqlFilter("amount > 6")}
    with reput.Consumer("readers", broker.address, wanted, **FIRST) as consumer:
        assert bodies(take(consumer, 3)) == [b"7", b"8", b"9"]
    wrong = SimpleNamespace(expression="amount >")
    with (
        reput.Consumer("readers", broker.address, {"line": wrong}) as consumer,  # type: ignore[dict-item]
        pytest.raises(reput.BrokerError, match="23 SUBSCRIPTION_PARSE_FAILED"),
    ):
        consumer.start()


def test_a_retry_comes_again_and_then_is_a_dead_letter(broker: reput.RunningBroker, producer: reput.Producer) -> None:
    """A message that is sent back comes again under its own topic with one try more, until the tries are over."""
    producer.send(reput.Message("line", b"bad", tags="paid"))
    with reput.Consumer("readers", broker.address, {"line": "paid"}, most_tries=2, **FIRST) as consumer:
        for tries in range(3):
            (got,) = take(consumer, 1)
            assert (got.topic, got.body, got.tags, got.reconsume_times) == ("line", b"bad", "paid", tries)
            consumer.retry(got, delay_level=1)
            consumer.persist_offsets()
        assert committed(broker, "readers", "line") == 1
        assert committed(broker, "readers", "%RETRY%readers") == 2
    with reput.Consumer("undertaker", broker.address, {"%DLQ%readers": "*"}, **FIRST) as consumer:
        assert bodies(take(consumer, 1)) == [b"bad"]


def test_a_waiting_poll_gets_what_arrives(broker: reput.RunningBroker, producer: reput.Producer) -> None:
    """A poll that waits gets a message when it is sent; one that gets none ends after its time."""
    with reput.Consumer("readers", broker.address, {"line": "*"}) as consumer:
        assert consumer.poll(timeout_s=0.1) == []
        threading.Timer(0.2, producer.send, (reput.Message("line", b"late"),)).start()
        assert bodies(consumer.poll(timeout_s=LIMIT_S)) == [b"late"]


def test_a_group_begins_where_it_is_asked_to(broker: reput.RunningBroker, producer: reput.Producer) -> None:
    """By time, a group without offsets gets the messages that were stored then or later."""
    producer.send(reput.Message("line", b"old"))
    time.sleep(0.05)
    now_ms = int(time.time() * 1000)
    time.sleep(0.05)
    producer.send(reput.Message("line", b"new"))
    # Without its first message a queue is no longer young, so that the broker has no offset for the group.
    with Client(broker.address) as client:
        fields = {"consumerGroup": "readers", "topic": "line", "queueId": 0, "setZeroIfNotFound": True}
        assert client.ask(RequestCode.QUERY_CONSUMER_OFFSET, **fields).fields["offset"] == "0"
        found = client.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, topic="line", queueId=0, timestamp=now_ms)
    assert found.fields["offset"] == "1"
    with reput.Consumer("readers", broker.address, {"line": "*"}, start_at=now_ms) as consumer:
        # As with RocketMQ the young queue is read from its first message all the same.
        assert bodies(take(consumer, 2)) == [b"old", b"new"]


def test_arrow_batches_have_the_columns_of_scan(broker: reput.RunningBroker, producer: reput.Producer) -> None:
    """A batch has the columns and values that `reput.scan` gives of the store."""
    messages = [reput.Message("line", b"%d" % n, tags="t", keys="k", properties={"p": "1"}) for n in range(3)]
    producer.send_batch(messages)
    with reput.Consumer("readers", broker.address, {"line": "*"}, **FIRST) as consumer:
        batch = consumer.poll_batch(timeout_s=LIMIT_S)
        consumer.commit()
    broker.close()
    table = reput.scan(broker.path, topics="line").read_all().drop_columns(["bodyError"])
    got = batch.to_pylist()
    assert [row | {"brokerName": None} for row in got] == table.to_pylist()
    assert batch.schema == table.schema


def test_two_consumers_share_the_queues(broker: reput.RunningBroker, producer: reput.Producer) -> None:
    """Each queue has one of them; when one ends, the other gets its queues, and no message is lost."""

    def own(consumer: reput.Consumer) -> list[int]:
        return [one.queue_id for one in consumer.assigned if one.topic == "orders"]

    with reput.Consumer("readers", broker.address, {"orders": "*"}, **FIRST) as first:
        first.start()
        assert own(first) == [0, 1, 2, 3]
        with reput.Consumer("readers", broker.address, {"orders": "*"}, **FIRST) as second:
            second.start()
            wait_until(lambda: len(own(first)) == len(own(second)) == 2)
            assert sorted(own(first) + own(second)) == [0, 1, 2, 3]
            for queue_id in range(4):
                producer.send(reput.Message("orders", b"%d" % queue_id), queue_id=queue_id)
            got = take(second, 2)
            assert sorted(one.queue_id for one in got) == own(second)
            second.commit(got[0])
        wait_until(lambda: own(first) == [0, 1, 2, 3])
        wanted = {b"0", b"1", b"2", b"3"} - {got[0].body}
        assert set(bodies(take(first, 3))) == wanted


def test_a_consumer_that_never_commits_gets_no_more(broker: reput.RunningBroker, producer: reput.Producer) -> None:
    """Its queue brings no more than the limit and one pull; a commit lets it go on."""
    producer.send_batch([reput.Message("line", b"%d" % n) for n in range(300)])
    with reput.Consumer("readers", broker.address, {"line": "*"}, max_queue_messages=64, **FIRST) as consumer:
        got = take(consumer, 64)
        while more := consumer.poll(timeout_s=0.3):
            got += more
        assert 64 <= len(got) < 64 + 32
        consumer.commit(got)
        while len(got) < 300:
            more = take(consumer, 1)
            consumer.commit(more)
            got += more
        assert bodies(got) == [b"%d" % n for n in range(300)]


def test_a_lost_connection_loses_no_message(broker: reput.RunningBroker, producer: reput.Producer) -> None:
    """A consumer whose connections are cut goes on by itself, and gets each message that it has not committed."""
    with Relay(broker.address) as relay:
        relay.renamed = {broker.address.encode(): relay.address.encode()}
        with reput.Consumer("readers", relay.address, {"line": "*"}, **FIRST) as consumer:
            producer.send(reput.Message("line", b"before"))
            consumer.commit(take(consumer, 1))
            relay.cut()
            producer.send(reput.Message("line", b"meanwhile"))
            relay.mend()
            assert bodies(take(consumer, 1)) == [b"meanwhile"]
            consumer.commit()
    assert committed(broker, "readers", "line") == 2


def test_a_broker_that_starts_again_goes_on(tmp_path: Path) -> None:
    """Its producer and its consumer go on with it, and what was not committed comes to the next consumer."""
    path = tmp_path / "store"
    with contextlib.ExitStack() as clients:
        with reput.serve(path, topics={"line": 1}) as broker:
            address = broker.address
            producer = clients.enter_context(reput.Producer("senders", address))
            consumer = clients.enter_context(reput.Consumer("readers", address, {"line": "*"}, **FIRST))
            producer.send_batch([reput.Message("line", b"%d" % n) for n in range(5)])
            consumer.commit(take(consumer, 5)[:3])
            consumer.persist_offsets()
        with pytest.raises(reput.ClientError):
            producer.send(reput.Message("line", b"lost"))
        broker = clients.enter_context(reput.serve(path, port=int(address.split(":")[1])))
        producer.send(reput.Message("line", b"new"))
        got = take(consumer, 1)
        assert bodies(got) == [b"new"]
        assert [one.topic for one in consumer.assigned] == ["%RETRY%readers", "line"]
        consumer.commit(got)
        consumer.close()
        assert committed(broker, "readers", "line") == 3
        consumer = clients.enter_context(reput.Consumer("readers", address, {"line": "*"}))
        assert bodies(take(consumer, 3)) == [b"3", b"4", b"new"]
        # Clients leave before the broker ends.
        consumer.close()
        producer.close()
    assert_sound(path)


def test_a_reset_of_offsets_is_followed(broker: reput.RunningBroker, producer: reput.Producer) -> None:
    """A group that is sent to another offset goes on there; commits of messages from before do not move it."""
    producer.send_batch([reput.Message("line", b"%d" % n) for n in range(5)])
    with reput.Consumer("readers", broker.address, {"line": "*"}, **FIRST) as consumer:
        before = take(consumer, 5)
        consumer.commit()
        consumer.persist_offsets()
        with Client(broker.address) as client:
            fields = {"group": "readers", "topic": "line", "timestamp": -1, "isForce": True, "queueId": 0, "offset": 2}
            assert client.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **fields).code == ResponseCode.SUCCESS
        producer.send(reput.Message("line", b"5"))
        got = take(consumer, 1)
        while got[0].body == b"5":  # the pull that was held
            got = take(consumer, 1)
        consumer.commit(before)
        got += take(consumer, 3)
        assert bodies(got)[:4] == [b"2", b"3", b"4", b"5"]


KILLED = """
import sys, reput
consumer = reput.Consumer("readers", sys.argv[1], {"orders": "*"}, start_at="first")
while True:
    for message in consumer.poll(7):
        print(message.body.decode(), flush=True)
        consumer.commit(message)
"""


def test_a_killed_consumer_loses_nothing(broker: reput.RunningBroker, producer: reput.Producer) -> None:
    """Messages that a killed process has had and not committed come to the next member: each comes at least once."""
    producer.send_batch([reput.Message("orders", b"%d" % n) for n in range(500)])
    with subprocess.Popen([sys.executable, "-c", KILLED, broker.address], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        seen = [process.stdout.readline().strip() for _ in range(100)]
        process.kill()
        # What it had written already counts as seen.
        seen += [line.strip() for line in process.stdout if line.endswith(b"\n")]
    wanted = {b"%d" % n for n in range(500)}
    with reput.Consumer("readers", broker.address, {"orders": "*"}) as consumer:
        deadline = time.monotonic() + LIMIT_S
        while not wanted <= set(seen):
            assert time.monotonic() < deadline, wanted - set(seen)
            messages = consumer.poll(100)
            seen += bodies(messages)
            consumer.commit(messages)
    assert max(Counter(seen).values()) <= 2


def test_asyncio_consumes(broker: reput.RunningBroker) -> None:
    """Messages come in a loop of the program's own, until the consumer is closed."""

    async def consumed() -> list[bytes]:
        found: list[bytes] = []
        async with (
            reput.AsyncProducer("senders", broker.address) as producer,
            reput.AsyncConsumer("readers", broker.address, {"line": "*"}, **FIRST) as consumer,
        ):
            for number in range(5):
                await producer.send(reput.Message("line", b"%d" % number))
            async for message in consumer:
                found.append(message.body)
                consumer.commit(message)
                if len(found) == 5:
                    await consumer.close()
        return found

    assert asyncio.run(consumed()) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_closed_consumer_refuses(broker: reput.RunningBroker) -> None:
    """A poll after the end is a ClosedError, also for a thread that waits; an iteration ends."""
    consumer = reput.Consumer("readers", broker.address, {"line": "*"})
    consumer.start()
    outcome: list[object] = []
    waiting = threading.Thread(target=lambda: outcome.append(list(consumer)))
    waiting.start()
    consumer.close()
    consumer.close()
    waiting.join(LIMIT_S)
    assert outcome == [[]]
    with pytest.raises(reput.ClosedError):
        consumer.poll()


def test_a_topic_may_come_later(broker: reput.RunningBroker, producer: reput.Producer) -> None:
    """A consumer of a topic that does not exist waits for it."""
    with reput.Consumer("readers", broker.address, {"later": "*"}, **FIRST) as consumer:
        assert consumer.poll(timeout_s=0.1) == []
        producer.send(reput.Message("later", b"x"))
        assert bodies(take(consumer, 1)) == [b"x"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"subscriptions": {}}, "give a mapping"),
        ({"subscriptions": "orders"}, "give a mapping"),
        ({"subscriptions": {"no spaces": "*"}}, "illegal characters"),
        ({"subscriptions": {"orders": 5}}, "SqlFilter"),
        ({"start_at": "middle"}, "start_at 'middle'"),
        ({"start_at": -1}, "start_at -1"),
        ({"most_tries": 0}, "most_tries 0"),
        ({"max_bytes": 0}, "max_bytes 0"),
        ({"group": ""}, "group ''"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, object], words: str) -> None:
    """Each wrong argument is named, and no thread begins."""
    given = {"group": "g", "name_server": "127.0.0.1:9876", "subscriptions": {"orders": "*"}, **arguments}
    with pytest.raises(reput.ConfigError, match=words):
        reput.Consumer(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("call", [lambda one: one.poll(0), lambda one: one.poll("5")])
def test_a_poll_wants_a_number(broker: reput.RunningBroker, call: Callable[[reput.Consumer], object]) -> None:
    """A poll for no message is refused."""
    with (
        reput.Consumer("readers", broker.address, {"line": "*"}) as consumer,
        pytest.raises(reput.ConfigError, match="max_messages"),
    ):
        call(consumer)
