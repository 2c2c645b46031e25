"""Requests of administrators: topics and groups, statistics, and look-ups of messages."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

import reput
from broker.remoting import Client, bodies, pull_fields, records
from reput.formats.log.record import decode_message_id
from reput.formats.wire.bodies import QueueName, write_queue_table
from reput.formats.wire.codes import RequestCode, ResponseCode
from support.waiting import wait_until

if TYPE_CHECKING:
    from reput.formats.wire.remoting import RemotingFrame

R, C = RequestCode, ResponseCode
TOPIC_FIELDS = {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "order": False}


def update(client: Client, topic: str, queues: int = 2, **further: object) -> RemotingFrame:
    """Make or change a topic."""
    fields = {"topic": topic, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6, **TOPIC_FIELDS}
    return client.ask(R.UPDATE_AND_CREATE_TOPIC, **{**fields, **further})


def table_of(answer: RemotingFrame) -> dict[tuple[str, int, str], Any]:
    """The table of an answer whose keys are queues, read as fastjson does."""
    text = answer.body.decode()
    found = re.findall(r'\{"brokerName":"([^"]+)","queueId":(\d+),"topic":"([^"]+)"\}:(\{[^}]*\})', text)
    return {(name, int(queue_id), topic): json.loads(values) for name, queue_id, topic, values in found}


def test_queues_as_keys_have_no_quotes() -> None:
    """A map by queue is written as fastjson reads it: the object itself is the key."""
    body = write_queue_table({"offsetTable": {QueueName("b", 0, "t"): 5, QueueName("b", 1, "t"): 6}, "tps": 0.5})
    assert body == (
        b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:5,{"brokerName":"b","queueId":1,"topic":"t"}:6},'
        b'"tps":0.5}'
    )


def test_statistics_of_a_topic_are_those_of_its_queues(broker: reput.RunningBroker, client: Client) -> None:
    """202: offsets and the time of the last message of each queue, also of those that have none."""
    for _ in range(3):
        client.put("orders", queue_id=1)
    table = table_of(client.ask(R.GET_TOPIC_STATS_INFO, topic="orders"))
    with reput.MessageStore.open(broker.path, read_only=True) as store:
        stored_ms = store.store_time("orders", 1, 2)
    assert {key[1] for key in table} == {0, 1, 2, 3}
    name = next(iter(table))[0]
    assert table[name, 1, "orders"] == {"lastUpdateTimestamp": stored_ms, "maxOffset": 3, "minOffset": 0}
    assert table[name, 0, "orders"] == {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0}
    assert client.ask(R.GET_TOPIC_STATS_INFO, topic="nowhere").code == C.TOPIC_NOT_EXIST


def test_a_topic_is_changed_with_its_attributes(client: Client) -> None:
    """17 sets queues, permission, order and the message type; 351 and 21 answer them; other attributes are refused."""
    assert update(client, "made", attributes="+message.type=FIFO", order=True).code == C.SUCCESS
    config = json.loads(client.ask(R.GET_TOPIC_CONFIG, topic="made").body)
    assert (config["attributes"], config["order"], config["perm"]) == ({"message.type": "FIFO"}, True, 6)
    assert json.loads(client.ask(R.GET_ALL_TOPIC_CONFIG).body)["topicConfigTable"]["made"] == config
    assert update(client, "made", attributes="-message.type").code == C.SUCCESS
    assert json.loads(client.ask(R.GET_TOPIC_CONFIG, topic="made").body)["attributes"] == {}
    wrong = [update(client, "made", attributes=text) for text in ("+queue.type=BatchCQ", "+message.type=X", "made")]
    assert {one.code for one in wrong} == {C.SYSTEM_ERROR}
    assert update(client, "SCHEDULE_TOPIC_XXXX").code == C.INVALID_PARAMETER
    assert update(client, "made", topicFilterType="X").code == C.SYSTEM_ERROR
    system = json.loads(client.ask(R.GET_SYSTEM_TOPIC_LIST_FROM_NS).body)["topicList"]
    assert ("SCHEDULE_TOPIC_XXXX" in system, "made" in system) == (True, False)
    assert "made" in json.loads(client.ask(R.GET_TOPICS_BY_CLUSTER, cluster="DefaultCluster").body)["topicList"]
    assert client.ask(R.GET_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="made").code == C.QUERY_NOT_FOUND


def test_a_deleted_topic_is_gone(broker: reput.RunningBroker, client: Client) -> None:
    """215: route, queues, offsets and held pulls end; other topics stay. Without such a topic it succeeds, too."""
    client.put("orders", b"old")
    update(client, "other")
    client.put("other", b"kept")
    client.make_group("g")
    client.ask(R.UPDATE_CONSUMER_OFFSET, consumerGroup="g", topic="orders", queueId=0, commitOffset=1)
    held = client.send(R.PULL_MESSAGE, **pull_fields("orders", 1, sysFlag=2 | 4, suspendTimeoutMillis=30_000))
    wait_until(lambda: len(broker._broker.holds) == 1)
    assert client.ask(R.DELETE_TOPIC_IN_BROKER, topic="orders").code == C.SUCCESS
    assert client.answer(held).code == C.PULL_NOT_FOUND
    assert client.ask(R.DELETE_TOPIC_IN_NAMESRV, topic="orders").code == C.SUCCESS
    assert client.ask(R.GET_ROUTEINFO_BY_TOPIC, topic="orders").code == C.TOPIC_NOT_EXIST
    assert client.ask(R.DELETE_TOPIC_IN_BROKER, topic="orders").code == C.SUCCESS
    assert client.ask(R.DELETE_TOPIC_IN_BROKER, topic="TBW102").code == C.INVALID_PARAMETER
    assert client.pull("orders").code == C.TOPIC_NOT_EXIST
    assert broker._broker.store.max_offset("orders", 0) == 0
    assert broker._broker.store.query_offset("g", "orders", 0) == -1
    assert bodies(client.pull("other")) == [b"kept"]


def test_groups_are_kept_as_rocketmq_keeps_them(broker: reput.RunningBroker, client: Client) -> None:
    """200 makes and changes a group; 201 and 352 answer it, and config/subscriptionGroup.json has it."""
    body = json.dumps({"groupName": "readers", "retryMaxTimes": 3, "consumeEnable": False}).encode()
    assert client.ask(R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body).code == C.SUCCESS
    config = json.loads(client.ask(R.GET_SUBSCRIPTIONGROUP_CONFIG, group="readers").body)
    assert (config["retryMaxTimes"], config["consumeEnable"], config["retryQueueNums"]) == (3, False, 1)
    table = json.loads(client.ask(R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body)["subscriptionGroupTable"]
    on_disk = json.loads((broker.path / "config" / "subscriptionGroup.json").read_text())["subscriptionGroupTable"]
    assert table["readers"] == on_disk["readers"] == config
    assert client.pull("orders", consumerGroup="readers").code == C.NO_PERMISSION
    for wrong in (b"{}", b'{"groupName":"../up"}', b'{"groupName":""}'):
        assert client.ask(R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, wrong).code == C.INVALID_PARAMETER
    assert client.ask(R.GET_SUBSCRIPTIONGROUP_CONFIG, group="nobody").code == C.SUBSCRIPTION_GROUP_NOT_EXIST


def query(client: Client, key: str, topic: str = "orders", **further: object) -> RemotingFrame:
    """Look for messages by key."""
    fields = {"topic": topic, "key": key, "maxNum": 32, "beginTimestamp": 0, "endTimestamp": (1 << 63) - 1}
    return client.ask(R.QUERY_MESSAGE, **fields, **further)


def test_messages_are_found_by_key(client: Client) -> None:
    """12: by key, by unique key and by tag; what is not there is 22."""
    for number in range(3):
        named = f"KEYS\x01all k{number}\x02UNIQ_KEY\x01u{number}\x02TAGS\x01t{number}\x02"
        client.put("orders", b"%d" % number, properties=named)
    assert bodies(query(client, "all")) == [b"0", b"1", b"2"]
    assert bodies(query(client, "k1")) == [b"1"]
    assert bodies(query(client, "u2", _UNIQUE_KEY_QUERY=True)) == [b"2"]
    absent = [query(client, "k1", _UNIQUE_KEY_QUERY=True), query(client, "k9"), query(client, "k1", "TBW102")]
    assert {one.code for one in absent} == {C.QUERY_NOT_FOUND}
    assert int(query(client, "all").fields["indexLastUpdatePhyoffset"]) > 0


def test_a_message_is_viewed_by_its_place(client: Client) -> None:
    """33: the record at the offset in a message id; of another topic it is 16; one that waits has its real topic."""
    sent, waiting = client.put("orders", b"seen"), client.put("orders", b"later", properties="DELAY\x0118")
    for answer, body in ((sent, b"seen"), (waiting, b"later")):
        _, offset = decode_message_id(answer.fields["msgId"]) or pytest.fail("no id")
        assert bodies(client.ask(R.VIEW_MESSAGE_BY_ID, offset=offset, topic="orders")) == [body]
        assert bodies(client.ask(R.VIEW_MESSAGE_BY_ID, offset=offset)) == [body]
        assert client.ask(R.VIEW_MESSAGE_BY_ID, offset=offset, topic="other").code == C.NO_PERMISSION
    for wrong in (offset + 1, -1, 1 << 60):
        assert client.ask(R.VIEW_MESSAGE_BY_ID, offset=wrong).code == C.SYSTEM_ERROR


def test_the_time_of_the_first_message(client: Client) -> None:
    """32: its store time; -1 for a queue without messages."""
    client.put("orders", b"first")
    (record,) = records(client.pull("orders"))
    fields = {"topic": "orders", "queueId": 0}
    assert client.ask(R.GET_EARLIEST_MSG_STORETIME, **fields).fields["timestamp"] == str(record.store_timestamp)
    assert client.ask(R.GET_EARLIEST_MSG_STORETIME, topic="orders", queueId=1).fields["timestamp"] == "-1"


@pytest.mark.behaviour("BrokerStatsManagerTest.testIncBrokerPutNums")
def test_the_state_of_the_broker(client: Client) -> None:
    """28: what clusterList reads, as texts: version, rates, counts and disk."""
    client.put("orders", b"one")
    client.pull("orders")
    table = json.loads(client.ask(R.GET_BROKER_RUNTIME_INFO).body)["table"]
    assert all(isinstance(value, str) for value in table.values())
    assert (table["brokerActive"], table["brokerVersionDesc"]) == ("true", "V5_5_0")
    assert (table["msgPutTotalTodayNow"], table["msgGetTotalTodayNow"]) == ("1", "1")
    assert [float(rate) >= 0 for rate in table["putTps"].split(" ")] == [True] * 3
    assert 0 <= float(table["commitLogDiskRatio"]) <= 1
    assert int(table["earliestMessageTimeStamp"]) > 0
    assert int(table["commitLogMaxOffset"]) > int(table["commitLogMinOffset"])
