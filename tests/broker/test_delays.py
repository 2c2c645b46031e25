"""Messages with a delay level wait in SCHEDULE_TOPIC_XXXX, and are delivered when they are due."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import pytest

import reput
from broker.killed import killed_broker
from broker.remoting import Client, bodies, pull_fields, records, send_fields
from reput.formats.log.properties import text_properties
from reput.formats.topics.system_topics import SCHEDULE_TOPIC
from reput.formats.wire.codes import RequestCode, ResponseCode
from support.checked import assert_sound
from support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.wire.remoting import RemotingFrame


def held_pull(client: Client, offset: int = 0) -> RemotingFrame:
    """The answer of a pull that waits for a message."""
    fields = pull_fields("orders", offset=offset, sysFlag=2 | 4, suspendTimeoutMillis=30_000)
    return client.answer(client.send(RequestCode.PULL_MESSAGE, **fields))


def offsets_in(path: Path) -> bytes:
    """The file that says how far each level is."""
    return (path / "config" / "delayOffset.json").read_bytes()


def test_a_delayed_message_comes_when_it_is_due(broker: reput.RunningBroker, client: Client) -> None:
    """It waits in the queue of its level as RocketMQ keeps it, and comes after its delay with all that it had."""
    properties = "TAGS\x01paid\x02KEYS\x01k1\x02UNIQ_KEY\x01u1\x02DELAY\x011\x02"
    sent = client.put("orders", b"later", 3, properties=properties, h=9, j=2)
    assert (sent.code, sent.fields["queueId"], sent.fields["queueOffset"]) == (ResponseCode.SUCCESS, "3", "0")
    with reput.MessageStore.open(broker.path, read_only=True) as store:
        (waiting,) = store.get_message(SCHEDULE_TOPIC, 0, 0)
        assert waiting.properties | {"REAL_TOPIC": "orders", "REAL_QID": "3", "DELAY": "1"} == waiting.properties
    fields = pull_fields("orders", 3, sysFlag=2 | 4, suspendTimeoutMillis=30_000, subscription="paid")
    (record,) = records(client.answer(client.send(RequestCode.PULL_MESSAGE, **fields)))
    # Both times are cut to milliseconds.
    assert 999 <= record.store_timestamp - waiting.store_timestamp < 10_000
    assert (record.body, record.flag, record.reconsume_times) == (b"later", 9, 2)
    assert (record.born_timestamp, record.born_host) == (waiting.born_timestamp, waiting.record.born_host)
    assert text_properties(record.properties) == waiting.properties


def test_messages_of_a_level_keep_their_order(broker: reput.RunningBroker, client: Client) -> None:
    """More messages than are delivered at once come in the order in which they were sent; others are not delayed."""
    count = 100
    later = [(b"%d" % number, send_fields("orders", properties="DELAY\x011")) for number in range(count)]
    sends = [*later, (b"now", send_fields("orders"))]
    # In one write: on a slow disk as many syncs would take longer than the delay.
    for sent in client.send_all([(RequestCode.SEND_MESSAGE_V2, body, 0, fields) for body, fields in sends]):
        assert client.answer(sent).code == ResponseCode.SUCCESS
    assert bodies(held_pull(client)) == [b"now"]
    wait_until(lambda: client.ask(RequestCode.GET_MAX_OFFSET, topic="orders", queueId=0).fields["offset"] == "101")
    with reput.MessageStore.open(broker.path, read_only=True) as store:
        assert [int(one.body) for one in store.get_message("orders", 0, 1, 200)] == list(range(count))


def test_a_level_above_the_highest_is_the_highest(broker: reput.RunningBroker, client: Client) -> None:
    """Level 99 counts as 18; level 0 and those below are no delay."""
    client.put("orders", b"late", properties="DELAY\x0199")
    client.put("orders", b"zero", properties="DELAY\x010")
    client.put("orders", b"less", properties="DELAY\x01-1")
    assert bodies(client.pull("orders")) == [b"zero", b"less"]
    with reput.MessageStore.open(broker.path, read_only=True) as store:
        (waiting,) = store.get_message(SCHEDULE_TOPIC, 17, 0)
        assert (waiting.body, waiting.properties["DELAY"]) == (b"late", "18")
        (timer,) = store.pending.timers()
        assert (timer.topic, timer.unique_key, timer.source) == ("orders", waiting.unique_key, "delay level 18")


def test_a_delay_level_of_ten_digits_was_refused(broker: reput.RunningBroker, client: Client) -> None:
    """A level is any number of 32 bits, as `Integer.parseInt` reads it; a larger one is refused."""
    client.put("orders", b"late", properties="DELAY\x012147483647")
    client.put("orders", b"now", properties="DELAY\x010000000000")
    refused = client.put("orders", b"never", properties="DELAY\x012147483648")
    assert (refused.code, "DELAY" in refused.remark) == (ResponseCode.MESSAGE_ILLEGAL, True)
    assert bodies(client.pull("orders")) == [b"now"]
    with reput.MessageStore.open(broker.path, read_only=True) as store:
        (waiting,) = store.get_message(SCHEDULE_TOPIC, 17, 0)
        assert (waiting.body, waiting.properties["DELAY"]) == (b"late", "18")


def test_what_is_delivered_is_noted(tmp_path: Path) -> None:
    """delayOffset.json says how far each level is, with its .bak, so a restart delivers nothing again."""
    path = tmp_path / "store"
    for number in (1, 2):
        with reput.serve(path, topics=["orders"]) as broker, Client(broker.address) as client:
            client.put("orders", b"%d" % number, properties="DELAY\x011")
            assert bodies(held_pull(client, number - 1)) == [b"%d" % number]
        assert b'"offsetTable":{\n\t\t1:%d\n\t}' % number in offsets_in(path)
    with reput.serve(path) as broker, Client(broker.address) as client:
        time.sleep(0.3)
        assert bodies(client.pull("orders")) == [b"1", b"2"]
    assert (path / "config" / "delayOffset.json.bak").exists()
    assert_sound(path)


def test_a_delay_survives_a_kill(tmp_path: Path) -> None:
    """A message that waits when the broker is killed comes from the next one, on time."""
    store, levels = tmp_path / "store", "1s 3s"
    with killed_broker(store, "--set", f"messageDelayLevel={levels}") as client:
        client.put("orders", b"later", properties="DELAY\x012")
        client.put("orders", b"soon", properties="DELAY\x011")
        assert bodies(held_pull(client)) == [b"soon"]
    config = reput.StoreConfig(message_delay_level=levels)
    with reput.serve(store, config=config) as broker, Client(broker.address) as client:
        # The first message may come once more: the kill came before it was noted.
        wait_until(lambda: b"later" in bodies(client.pull("orders")))
    with reput.MessageStore.open(store, config, read_only=True) as opened:
        *_, came = opened.get_message("orders", 0, 0)
        (waited,) = opened.get_message(SCHEDULE_TOPIC, 1, 0)
        assert came.store_timestamp - waited.store_timestamp >= 2_999
    assert_sound(store, config)


def test_delays_of_another_broker_are_taken_over(tmp_path: Path) -> None:
    """A store has messages of a level above its offset in delayOffset.json: these come, the others do not."""
    path = tmp_path / "store"
    with reput.MessageStore.open(path, create=True) as store:
        for number in range(3):
            named = {"REAL_TOPIC": "orders", "REAL_QID": "0", "DELAY": "1"}
            store.put_message(reput.Message(SCHEDULE_TOPIC, b"%d" % number, properties=named), 0)
        store.put_message(reput.Message(SCHEDULE_TOPIC, b"nowhere", properties={"DELAY": "1"}), 0)
    (path / "config").mkdir(exist_ok=True)
    (path / "config" / "delayOffset.json").write_bytes(b'{"offsetTable":{1:1}}')
    with reput.serve(path, topics={"orders": 1}) as broker, Client(broker.address) as client:
        wait_until(lambda: bodies(client.pull("orders")) == [b"1", b"2"])
    assert b"1:4" in offsets_in(path)
    assert_sound(path)


def test_lost_offsets_of_delays_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A damaged delayOffset.json and backup keep no waiting message back, and the log says so."""
    path = tmp_path / "store"
    with reput.serve(path, topics=["orders"]) as broker, Client(broker.address) as client:
        client.put("orders", b"again", properties="DELAY\x011")
        held_pull(client)
    for name in ("delayOffset.json", "delayOffset.json.bak"):
        (path / "config" / name).write_text("{broken")
    with caplog.at_level(logging.ERROR, "reput.broker"), reput.serve(path) as broker, Client(broker.address) as client:
        wait_until(lambda: bodies(client.pull("orders")) == [b"again", b"again"])
    assert "delayOffset.json.bak: damaged" in caplog.text
    assert "Until then each level goes on from its first message" in caplog.text
    assert_sound(path)
