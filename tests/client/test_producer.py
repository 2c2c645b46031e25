"""A producer with `reput serve`: each way to send, and what becomes of a send that fails."""

from __future__ import annotations

import asyncio
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import reput
from broker.clients.relay import Relay
from broker.remoting import Client, records
from reput.client.refusals import refusal
from reput.formats.wire.codes import ResponseCode
from reput.formats.wire.remoting import RemotingFrame

if TYPE_CHECKING:
    from pathlib import Path


def bodies_of(broker: reput.RunningBroker, topic: str, queues: int) -> list[bytes]:
    """The bodies in all queues of a topic."""
    with Client(broker.address) as client:
        pulls = [client.pull(topic, queue_id, maxMsgNums=1000) for queue_id in range(queues)]
        return [record.body for pull in pulls for record in records(pull)]


def test_a_message_is_where_its_result_says(broker: reput.RunningBroker, producer: reput.Producer) -> None:
    """The result names queue, offset and ids of the stored record; each send goes to the next queue."""
    message = reput.Message("orders", b"one apple", tags="paid", keys="o-1", properties={"region": "eu"}, flag=3)
    results = [producer.send(message) for _ in range(4)]
    assert sorted(one.queue_id for one in results) == [0, 1, 2, 3]
    assert len({one.unique_key for one in results}) == 4
    for one in results:
        assert (one.status, one.topic, one.queue_offset) == (reput.SendStatus.SEND_OK, "orders", 0)
        with Client(broker.address) as client:
            (record,) = records(client.pull("orders", one.queue_id))
        assert (record.body, record.message_id, record.flag) == (b"one apple", one.message_id, 3)
        assert b"UNIQ_KEY\x01" + one.unique_key.encode() in record.properties


def test_a_topic_is_made_by_its_first_message(broker: reput.RunningBroker) -> None:
    """It has the queues that the producer asks for."""
    with reput.Producer("senders", broker.address, topic_queues=2) as producer:
        assert {producer.send(reput.Message("new", b"x")).queue_id for _ in range(4)} == {0, 1}
    assert len(bodies_of(broker, "new", 2)) == 4


def test_a_key_has_one_queue_and_its_order(broker: reput.RunningBroker, producer: reput.Producer) -> None:
    """Messages of a key are in one queue, in order: the queue that Java's hash of the key gives."""
    results = [producer.send(reput.Message("orders", b"%d" % n), order_key="key-7") for n in range(5)]
    java_hash = 101_943_369
    assert {one.queue_id for one in results} == {java_hash % 4}
    assert [one.queue_offset for one in results] == [0, 1, 2, 3, 4]
    assert producer.send(reput.Message("orders", b"x"), queue_id=2).queue_id == 2
    with pytest.raises(reput.ConfigError, match="queue_id 9"):
        producer.send(reput.Message("orders", b"x"), queue_id=9)


def test_a_batch_has_a_result_for_each_message(broker: reput.RunningBroker, producer: reput.Producer) -> None:
    """Messages of several topics are stored in batches; results come in the order of the messages."""
    messages = [reput.Message("orders" if n % 3 else "line", b"%d" % n, tags=str(n)) for n in range(30)]
    results = producer.send_batch(messages)
    assert [one.topic for one in results] == [one.topic for one in messages]
    line = [one.queue_offset for one in results if one.topic == "line"]
    assert line == list(range(10))
    assert sorted(bodies_of(broker, "orders", 4)) == sorted(one.body for one in messages if one.topic == "orders")
    assert bodies_of(broker, "line", 1) == [one.body for one in messages if one.topic == "line"]


def test_a_table_is_sent_in_batches(broker: reput.RunningBroker, producer: reput.Producer) -> None:
    """The rows of an Arrow table arrive with their tags, keys and properties."""
    table = pa.table(
        {
            "topic": ["line"] * 3,
            "body": [b"a", b"b", b"c"],
            "tags": ["x", None, "z"],
            "keys": [["k1", "k2"], None, ["k3"]],
            "properties": pa.array([[("p", "1")], None, None], pa.map_(pa.string(), pa.string())),
        }
    )
    assert [one.queue_offset for one in producer.send_batch(table)] == [0, 1, 2]
    with reput.Consumer("readers", broker.address, {"line": "*"}, start_at="first") as consumer:
        got = take(consumer, 3)
    assert [(one.body, one.tags, one.keys) for one in got] == [
        (b"a", "x", ["k1", "k2"]),
        (b"b", None, []),
        (b"c", "z", ["k3"]),
    ]
    assert got[0].properties["p"] == "1"
    with pytest.raises(reput.ConfigError, match="column queue_id"):
        producer.send_batch(table.append_column("queue_id", pa.array([0, 0, 0])))
    with pytest.raises(reput.PutError, match="body"):
        producer.send_batch(table.drop_columns(["body"]))


def take(consumer: reput.Consumer, count: int) -> list[reput.ReceivedMessage]:
    """Poll until there are this many messages."""
    found: list[reput.ReceivedMessage] = []
    deadline = time.monotonic() + 30
    while len(found) < count:
        assert time.monotonic() < deadline, found
        found += consumer.poll()
    return found


def test_many_threads_share_a_producer(broker: reput.RunningBroker, producer: reput.Producer) -> None:
    """Sends of threads, futures and one-way sends all arrive, once each."""
    with ThreadPoolExecutor(4) as threads:
        sent = [threads.submit(producer.send, reput.Message("orders", b"t%d" % n)) for n in range(40)]
        sent += [producer.submit(reput.Message("orders", b"f%d" % n)) for n in range(40)]
        places = {(one.result().queue_id, one.result().queue_offset) for one in sent}
    assert len(places) == 80
    producer.send_one_way(reput.Message("line", b"gone"))
    # The answer of a later request of the connection comes after it.
    producer.send(reput.Message("line", b"answered"))
    assert bodies_of(broker, "line", 1) == [b"gone", b"answered"]


def test_a_delayed_message_comes_later(broker: reput.RunningBroker, producer: reput.Producer) -> None:
    """A delay level, a time and a delay; a recalled message never comes."""
    at_ms = int(time.time() * 1000) + 1500
    producer.send(reput.Message("line", b"level"), delay_level=1)
    producer.send(reput.Message("line", b"time"), deliver_at_ms=at_ms)
    recalled = producer.send(reput.Message("line", b"recalled"), delay_ms=2500)
    assert bodies_of(broker, "line", 1) == []
    producer.recall(recalled)
    with pytest.raises(reput.ConfigError, match="recall handle"):
        producer.recall(producer.send(reput.Message("orders", b"x")))
    with reput.Consumer("readers", broker.address, {"line": "*"}, start_at="first") as consumer:
        assert {one.body for one in take(consumer, 2)} == {b"level", b"time"}


def test_a_refusal_says_what_to_do(broker: reput.RunningBroker) -> None:
    """The error has address, topic, code and remark, and names the remedy."""
    with (
        reput.Producer("senders", broker.address, max_message_size=8 << 20, compress_from=0) as producer,
        pytest.raises(reput.BrokerError, match=r"13 MESSAGE_ILLEGAL.*Remedy: see maxMessageSize") as caught,
    ):
        producer.send(reput.Message("orders", b"x" * (5 << 20)))
    error = caught.value
    assert (error.address, error.topic, error.code) == (broker.address, "orders", ResponseCode.MESSAGE_ILLEGAL)
    assert error.remark


@pytest.mark.parametrize(
    ("code", "remark", "remedy"),
    [
        (ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden", "recallMessageEnable"),
        (ResponseCode.NO_PERMISSION, "Sending message to topic[RMQ_SYS_TRANS_HALF_TOPIC] is forbidden.", "use a topic"),
        (ResponseCode.NO_PERMISSION, "subscription group no permission, g", "consumeEnable"),
        (ResponseCode.NO_PERMISSION, "check signature failed", "access_key"),
        (
            ResponseCode.MESSAGE_ILLEGAL,
            "timer message illegal, the delay time should not be bigger",
            "timerMaxDelaySec",
        ),
        (ResponseCode.MESSAGE_ILLEGAL, "the message is illegal: property DELAY is '-1'", "delay_level"),
        (ResponseCode.MESSAGE_ILLEGAL, "a batch of 9 bytes: at most 8 (maxMessageSize)", "maxMessageSize"),
    ],
)
def test_the_remedy_follows_from_the_remark(code: ResponseCode, remark: str, remedy: str) -> None:
    """One code has several causes, and each its own remedy."""
    answer = RemotingFrame(code, 1, 0, remark)
    assert remedy in str(refusal("send to topic", "127.0.0.1:10911", answer, "orders")).partition("Remedy: ")[2]


def test_a_missing_broker_is_said() -> None:
    """Nobody listens: the error names the address, and comes at once."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = "{}:{}".format(*free.getsockname())
    with (
        reput.Producer("senders", address) as producer,
        pytest.raises(reput.UnreachableError, match=f"{address}: cannot connect"),
    ):
        producer.send(reput.Message("orders", b"x"))


def test_a_silent_broker_is_given_up() -> None:
    """A server that takes connections and never answers is given up after timeout_s."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "{}:{}".format(*silent.getsockname())
        with (
            reput.Producer("senders", address, timeout_s=0.2) as producer,
            pytest.raises(reput.TimedOutError, match="no answer"),
        ):
            producer.send(reput.Message("orders", b"x"))


def test_another_name_server_answers(broker: reput.RunningBroker) -> None:
    """A name server that is gone is passed over."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        gone = "{}:{}".format(*free.getsockname())
    with reput.Producer("senders", f"{gone};{broker.address}") as producer:
        assert producer.send(reput.Message("orders", b"x")).topic == "orders"


def test_a_lost_connection_is_made_again(broker: reput.RunningBroker) -> None:
    """Sends fail while the connection is cut, and go on when it is back, with the same producer."""
    with Relay(broker.address) as relay, reput.Producer("senders", relay.address, timeout_s=1.0) as producer:
        relay.renamed = {broker.address.encode(): relay.address.encode()}
        producer.send(reput.Message("line", b"before"))
        relay.cut()
        with pytest.raises(reput.ClientError):
            producer.send(reput.Message("line", b"lost"))
        relay.mend()
        producer.send(reput.Message("line", b"after"))
    assert bodies_of(broker, "line", 1) == [b"before", b"after"]


def test_access_keys_sign_each_request(tmp_path: Path) -> None:
    """A client with the key is served; one without it, or with another secret, is refused with 16."""
    keys = {"access_key": "rocketmq2", "secret_key": "12345678"}
    with reput.serve(tmp_path / "store", topics=["orders"], access_keys={"rocketmq2": "12345678"}) as broker:
        with reput.Producer("senders", broker.address, **keys) as producer:
            producer.send(reput.Message("orders", b"x"))
            producer.send_batch([reput.Message("orders", b"x")])
        with reput.Consumer("readers", broker.address, {"orders": "*"}, start_at="first", **keys) as consumer:
            assert len(take(consumer, 2)) == 2
        for wrong in ({}, keys | {"secret_key": "87654321"}):
            with (
                reput.Producer("senders", broker.address, **wrong) as producer,
                pytest.raises(reput.BrokerError, match=r"16 NO_PERMISSION.*access_key"),
            ):
                producer.send(reput.Message("orders", b"x"))


def test_asyncio_sends_at_once(broker: reput.RunningBroker) -> None:
    """Sends that run together in one loop are all stored."""

    async def sent() -> list[reput.SendResult]:
        async with reput.AsyncProducer("senders", broker.address) as producer:
            messages = [reput.Message("orders", b"%d" % n) for n in range(200)]
            return await asyncio.gather(*map(producer.send, messages))

    assert len({(one.queue_id, one.queue_offset) for one in asyncio.run(sent())}) == 200


def test_a_closed_producer_refuses(broker: reput.RunningBroker) -> None:
    """A send after the end is a ClosedError, and a second close does nothing."""
    producer = reput.Producer("senders", broker.address)
    producer.send(reput.Message("orders", b"x"))
    producer.close()
    producer.close()
    with pytest.raises(reput.ClosedError):
        producer.send(reput.Message("orders", b"x"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"group": "no spaces"}, "group 'no spaces'"),
        ({"name_server": "host"}, "address 'host'"),
        ({"name_server": ""}, "give host:port"),
        ({"timeout_s": 0}, "timeout_s 0"),
        ({"retries": -1}, "retries -1"),
        ({"topic_queues": 0}, "topic_queues 0"),
        ({"access_key": "key"}, "give both"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, object], words: str) -> None:
    """Each wrong argument is named, and no thread begins."""
    given = {"group": "senders", "name_server": "127.0.0.1:9876", **arguments}
    with pytest.raises(reput.ConfigError, match=words):
        reput.Producer(**given)  # type: ignore[arg-type]
