"""Messages that are sent back come again under the group's retry topic, or become its dead letters."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import reput
from broker.remoting import Client
from broker.test_broker import batch, records
from reput.formats.log.properties import text_properties
from reput.formats.log.record import decode_message_id
from reput.formats.wire.codes import RequestCode, ResponseCode
from support.checked import assert_sound
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reput.formats.log.record import Record
    from reput.formats.wire.remoting import RemotingFrame

R, C = RequestCode, ResponseCode
PLACES = {"REAL_TOPIC", "REAL_QID"}
"""The properties that a message has in addition after it waited for its level."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[reput.RunningBroker]:
    """A broker whose delay levels are all short."""
    config = reput.StoreConfig(message_delay_level="1s 1s 1s 1s")
    with reput.serve(tmp_path / "store", topics={"orders": 2}, config=config) as running:
        yield running
    assert_sound(tmp_path / "store", config)


def offset_of(sent: RemotingFrame) -> int:
    """The log offset in the answer of a send."""
    found = decode_message_id(sent.fields["msgId"])
    assert found is not None
    return found[1]


def back(client: Client, offset: int, level: int = 0, **further: object) -> RemotingFrame:
    """Send the message at a log offset back, as a consumer of the group `team`."""
    return client.ask(R.CONSUMER_SEND_MSG_BACK, **{"offset": offset, "group": "team", "delayLevel": level, **further})


def wait_for(client: Client, topic: str, offset: int = 0) -> Record:
    """The message at a place of queue 0 of a topic, when it comes."""
    asked = {"sysFlag": 2 | 4, "suspendTimeoutMillis": 20_000}
    (record,) = records(client.pull(topic, 0, offset, **asked))[:1]
    return record


def test_a_message_comes_again(client: Client) -> None:
    """36: the same body and sender, one try more, under the retry topic, with the first topic and id."""
    sent = client.put("orders", b"try me", 1, properties="TAGS\x01t1\x02own\x01x\x02", h=9)
    assert back(client, offset_of(sent)).code == C.SUCCESS
    again = wait_for(client, "%RETRY%team")
    properties = text_properties(again.properties)
    assert (again.body, again.flag, again.reconsume_times) == (b"try me", 9, 1)
    assert str(again.born_host) == "{}:{}".format(*client.socket.getsockname())
    assert again.born_timestamp == 1_700_000_000_000
    wanted = {"TAGS": "t1", "own": "x", "RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": sent.fields["msgId"]}
    assert wanted.items() <= properties.items()
    assert (properties["DELAY"], properties["WAIT"], properties.keys() >= PLACES) == ("3", "false", True)


def test_the_next_try_has_the_first_topic_and_id(client: Client) -> None:
    """A message that is sent back twice waits a level longer, and still has its first topic and id."""
    sent = client.put("orders")
    back(client, offset_of(sent))
    first = wait_for(client, "%RETRY%team")
    assert back(client, first.physical_offset).code == C.SUCCESS
    second = wait_for(client, "%RETRY%team", 1)
    properties = text_properties(second.properties)
    assert (second.reconsume_times, properties["DELAY"]) == (2, "4")
    assert (properties["RETRY_TOPIC"], properties["ORIGIN_MESSAGE_ID"]) == ("orders", sent.fields["msgId"])


def test_too_many_tries_end_among_the_dead_letters(broker: reput.RunningBroker, client: Client) -> None:
    """At the number of tries that the header or the group allows, and with a negative level: %DLQ%, at once."""
    offset = offset_of(client.put("orders"))
    assert back(client, offset, maxReconsumeTimes=0).code == C.SUCCESS
    assert back(client, offset, -1).code == C.SUCCESS
    dead = [wait_for(client, "%DLQ%team", number) for number in range(2)]
    assert [one.reconsume_times for one in dead] == [1, 1]
    assert all(text_properties(one.properties)["RETRY_TOPIC"] == "orders" for one in dead)
    assert not any(PLACES & text_properties(one.properties).keys() for one in dead)
    route = json.loads(client.ask(R.GET_ROUTEINFO_BY_TOPIC, topic="%DLQ%team").body)
    assert [(one["perm"], one["writeQueueNums"]) for one in route["queueDatas"]] == [(6, 1)]
    with reput.MessageStore.open(broker.path, read_only=True) as store:
        assert store.max_offset("%RETRY%team", 0) == 0


def test_no_message_is_no_retry(client: Client) -> None:
    """An offset without a record, and a header without a group, are refused; a group's name must be one."""
    offset = offset_of(client.put("orders"))
    nothing = back(client, offset + 1)
    assert (nothing.code, nothing.remark) == (C.SYSTEM_ERROR, f"look message by offset failed, {offset + 1}")
    for wrong in (-1, 1 << 60):
        assert back(client, wrong).code == C.SYSTEM_ERROR
    assert client.ask(R.CONSUMER_SEND_MSG_BACK, offset=offset, delayLevel=0).code == C.SYSTEM_ERROR
    named = client.ask(R.CONSUMER_SEND_MSG_BACK, offset=offset, group="../up", delayLevel=0)
    assert named.code == C.SUBSCRIPTION_GROUP_NOT_EXIST


def test_a_client_may_send_a_retry_itself(client: Client) -> None:
    """310 to a retry topic: delivered by its level; beyond the tries of its header it is a dead letter at once."""
    assert client.put("%RETRY%team", b"own", properties="DELAY\x013\x02", j=1, l=2).code == C.SUCCESS
    again = wait_for(client, "%RETRY%team")
    assert (again.body, again.reconsume_times) == (b"own", 1)
    assert client.put("%RETRY%team", b"dead", properties="DELAY\x013\x02", j=3, l=2).code == C.SUCCESS
    dead = wait_for(client, "%DLQ%team")
    assert (dead.body, text_properties(dead.properties)["DELAY"]) == (b"dead", "-1")


def test_a_group_in_order_sends_dead_letters(client: Client) -> None:
    """A group that holds locks of queues has tried often enough: what it sends to its retry topic is a dead letter."""
    queue = {"brokerName": "reput", "queueId": 0, "topic": "orders"}
    body = {"consumerGroup": "team", "clientId": "c1", "mqSet": [queue]}
    assert client.ask(R.LOCK_BATCH_MQ, json.dumps(body).encode()).code == C.SUCCESS
    assert client.put("%RETRY%team", b"stuck", properties="DELAY\x013\x02").code == C.SUCCESS
    assert wait_for(client, "%DLQ%team").body == b"stuck"


def test_a_batch_is_no_retry(client: Client) -> None:
    """A batch to a retry topic is refused."""
    answer = client.put("%RETRY%team", batch((b"one", ""), (b"two", "")), m=True)
    assert answer.code == C.MESSAGE_ILLEGAL


def test_a_retry_was_lost_in_a_queue_that_no_route_has(client: Client, broker: reput.RunningBroker) -> None:
    """A retry topic has as many queues as its group says when it is made; retries go to those that consumers pull."""
    many = json.dumps({"groupName": "team", "retryQueueNums": 3}).encode()
    assert client.ask(R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, many).code == C.SUCCESS
    assert client.heartbeat("c1", "team", orders="*").code == C.SUCCESS
    assert broker._broker.topics.get("%RETRY%team")["readQueueNums"] == 3
    broker._broker.groups.find_or_create("team")["retryQueueNums"] = 2000
    offset = offset_of(client.put("orders"))
    for _ in range(20):
        assert back(client, offset).code == C.SUCCESS
    queues = [0, 1, 2]
    wait_until(lambda: sum(broker._broker.store.max_offset("%RETRY%team", one) for one in queues) == 20)
    broker._broker.groups.find_or_create("big")["retryQueueNums"] = 2000
    assert back(client, offset, group="big").code == C.SUCCESS


def test_a_group_without_retry_queues_drops_what_it_sends_back(client: Client, broker: reput.RunningBroker) -> None:
    """With retryQueueNums 0 the answer is success, and nothing is stored, as in RocketMQ."""
    broker._broker.groups.find_or_create("team")["retryQueueNums"] = 0
    assert back(client, offset_of(client.put("orders"))).code == C.SUCCESS
    assert client.ask(R.GET_MAX_OFFSET, topic="%RETRY%team", queueId=0).fields["offset"] == "0"
