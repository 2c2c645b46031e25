"""Requests of administrators about groups: members, subscriptions, offsets, resets, and calls through to a consumer."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

import reput
from broker.remoting import Client, pull_fields
from reput.broker.handlers import group_offsets
from reput.broker.services.waiting import WaitingRequests
from reput.formats.java.fastjson import parse_fastjson, parse_object_keyed
from reput.formats.java.hashing import java_string_hash
from reput.formats.wire import remoting as frames
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.formats.wire.remoting import IS_ANSWER, RemotingFrame
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

R, C = RequestCode, ResponseCode


@pytest.fixture
def member(broker: reput.RunningBroker) -> Iterator[Client]:
    """A consumer of the group `team` that wants two tags of `orders`, and a producer of the group `makers`."""
    with Client(broker.address) as connected:
        body = {
            "clientID": "c1",
            "producerDataSet": [{"groupName": "makers"}, {"groupName": 3}, None],
            "consumerDataSet": [
                {
                    "groupName": "team",
                    "consumeType": "CONSUME_PASSIVELY",
                    "messageModel": "CLUSTERING",
                    "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                    "subscriptionDataSet": [
                        {"topic": "orders", "subString": "a || b", "subVersion": 7, "expressionType": "TAG"},
                        {"topic": "%RETRY%team", "subString": "*", "subVersion": 7, "expressionType": "TAG"},
                    ],
                }
            ],
        }
        assert connected.ask(R.HEART_BEAT, json.dumps(body).encode()).code == C.SUCCESS
        yield connected


def body_of(answer: RemotingFrame) -> Any:
    """The JSON of an answer whose keys may be queues."""
    assert answer.code == C.SUCCESS, answer.remark
    return parse_object_keyed(answer.body)


def by_queue(table: dict[str, Any]) -> dict[int, Any]:
    """A table of the queues of `orders` by queue id."""
    found = {}
    for key, value in table.items():
        queue = json.loads(key)
        assert (queue["brokerName"], queue["topic"]) == ("reput", "orders")
        found[queue["queueId"]] = value
    return found


def commit(client: Client, offset: int, queue_id: int = 0, group: str = "team") -> RemotingFrame:
    """Commit an offset of a group; make it first."""
    client.make_group(group)
    asked = {"consumerGroup": group, "topic": "orders", "queueId": queue_id, "commitOffset": offset}
    return client.ask(R.UPDATE_CONSUMER_OFFSET, **asked)


def committed(client: Client, queue_id: int = 0, group: str = "team") -> str | None:
    """The committed offset of a queue."""
    asked = {"consumerGroup": group, "topic": "orders", "queueId": queue_id}
    return client.ask(R.QUERY_CONSUMER_OFFSET, **asked).fields.get("offset")


# --- who is there --------------------------------------------------------------------------------


def test_members_of_a_group_are_told(client: Client, member: Client) -> None:
    """203 has the members, how they consume, and their subscriptions with hashes of tags; 206 if nobody is there."""
    values = body_of(client.ask(R.GET_CONSUMER_CONNECTION_LIST, consumerGroup="team"))
    place = "{}:{}".format(*member.socket.getsockname())
    connection = {"clientAddr": place, "clientId": "c1", "language": "PYTHON", "version": frames.VERSION}
    assert values["connectionSet"] == [connection]
    kind = values["consumeType"], values["messageModel"], values["consumeFromWhere"]
    assert kind == ("CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET")
    assert values["subscriptionTable"]["orders"] == {
        "classFilterMode": False,
        "codeSet": [java_string_hash("a"), java_string_hash("b")],
        "expressionType": "TAG",
        "subString": "a || b",
        "subVersion": 7,
        "tagsSet": ["a", "b"],
        "topic": "orders",
    }
    nobody = client.ask(R.GET_CONSUMER_CONNECTION_LIST, consumerGroup="nobody")
    assert (nobody.code, nobody.remark) == (C.CONSUMER_NOT_ONLINE, "the consumer group[nobody] not online")


def test_producers_of_a_group_are_told(client: Client, member: Client) -> None:
    """204 has the clients of a producer group, until they say goodbye."""
    values = body_of(client.ask(R.GET_PRODUCER_CONNECTION_LIST, producerGroup="makers"))
    assert [one["clientId"] for one in values["connectionSet"]] == ["c1"]
    assert member.ask(R.UNREGISTER_CLIENT, clientID="c1", producerGroup="makers").code == C.SUCCESS
    assert client.ask(R.GET_PRODUCER_CONNECTION_LIST, producerGroup="makers").code == C.SYSTEM_ERROR


def test_producers_go_with_their_connection(broker: reput.RunningBroker, client: Client) -> None:
    """A producer whose connection is lost is gone."""
    body = json.dumps({"clientID": "p", "producerDataSet": [{"groupName": "makers"}]}).encode()
    with Client(broker.address) as other:
        assert other.ask(R.HEART_BEAT, body).code == C.SUCCESS
        assert client.ask(R.GET_PRODUCER_CONNECTION_LIST, producerGroup="makers").code == C.SUCCESS
    wait_until(lambda: client.ask(R.GET_PRODUCER_CONNECTION_LIST, producerGroup="makers").code != C.SUCCESS)


@pytest.mark.usefixtures("member")
def test_groups_of_a_topic_and_topics_of_a_group(client: Client) -> None:
    """300 has groups that are online and groups with offsets; 343 has topics with offsets; 345 one subscription."""
    client.put("orders")
    commit(client, 1, group="away")
    groups = body_of(client.ask(R.QUERY_TOPIC_CONSUME_BY_WHO, topic="orders"))
    assert groups == {"groupList": ["away", "team"]}
    assert body_of(client.ask(R.QUERY_TOPICS_BY_CONSUMER, group="away"))["topicList"] == ["orders"]
    wanted = body_of(client.ask(R.QUERY_SUBSCRIPTION_BY_CONSUMER, group="team", topic="orders"))
    assert (wanted["group"], wanted["subscriptionData"]["subString"]) == ("team", "a || b")
    assert "subscriptionData" not in body_of(client.ask(R.QUERY_SUBSCRIPTION_BY_CONSUMER, group="away", topic="orders"))


@pytest.mark.behaviour("PullMessageProcessorTest.testIfBroadcast")
def test_a_broadcasting_group_is_not_notified(client: Client) -> None:
    """Members of a group that broadcasts share no queues: none hears of another."""
    for client_id in ("a", "b"):
        group = {"groupName": "all", "messageModel": "BROADCASTING", "subscriptionDataSet": []}
        body = {"clientID": client_id, "consumerDataSet": [group]}
        assert client.ask(R.HEART_BEAT, json.dumps(body).encode()).code == C.SUCCESS
    assert client.asked == []


def test_a_groups_settings_for_broadcasting_and_notices_were_without_effect(client: Client, member: Client) -> None:
    """A group may not broadcast if its configuration forbids it, and its members hear of changes unless it says no."""
    client.make_group("all")
    rules = {"groupName": "all", "consumeBroadcastEnable": False, "notifyConsumerIdsChangedEnable": False}
    assert client.ask(R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, json.dumps(rules).encode()).code == C.SUCCESS
    wanted = {"topic": "orders", "subString": "*", "subVersion": 1}
    group = {"groupName": "all", "messageModel": "BROADCASTING", "subscriptionDataSet": [wanted]}
    body = {"clientID": "a", "consumerDataSet": [group]}
    assert client.ask(R.HEART_BEAT, json.dumps(body).encode()).code == C.SUCCESS
    refused = client.pull("orders", sysFlag=0, consumerGroup="all")
    words = "the consumer group[all] can not consume by broadcast way"
    assert (refused.code, refused.remark) == (C.NO_PERMISSION, words)
    assert client.heartbeat("a", "all", 2, orders="*").code == C.SUCCESS
    assert client.pull("orders", sysFlag=0, consumerGroup="all").code == C.PULL_NOT_FOUND
    assert member.heartbeat("b", "all", 3, orders="*").code == C.SUCCESS
    assert member.ask(R.UNREGISTER_CLIENT, clientID="b", consumerGroup="all").code == C.SUCCESS
    client.make_group("all")
    assert client.asked == []
    assert member.heartbeat("b", "all", 4, orders="*").code == C.SUCCESS
    member.close()
    # A client that is gone without a word is noted in any case.
    assert client.next_asked().fields["consumerGroup"] == "all"


# --- how far they are ----------------------------------------------------------------------------


@pytest.mark.usefixtures("member")
def test_the_lag_of_a_group(client: Client) -> None:
    """208 has the end, the committed and the pulled offset of each queue, and the time of the last message read."""
    before_ms = time.time_ns() // 1_000_000
    for _ in range(3):
        client.put("orders", queue_id=1)
    commit(client, 2, 1)
    client.pull("orders", 1, 2, consumerGroup="team")
    asked: list[dict[str, str]] = [{}, {"topic": "orders"}, {"topicList": "orders;nowhere"}]
    for further in asked:
        values = body_of(client.ask(R.GET_CONSUME_STATS, consumerGroup="team", **further))
        table = by_queue(values["offsetTable"])
        times = {queue: row.pop("lastTimestamp") for queue, row in table.items()}
        assert table[1] == {"brokerOffset": 3, "consumerOffset": 2, "pullOffset": 3}
        assert table[0] == {"brokerOffset": 0, "consumerOffset": 0, "pullOffset": 0}
        assert (len(table), times[0], times[1] >= before_ms) == (4, 0, True)
    assert body_of(client.ask(R.GET_CONSUME_STATS, consumerGroup="team", topic="TBW102"))["offsetTable"] == {}
    assert body_of(client.ask(R.GET_CONSUME_STATS, consumerGroup="nobody"))["offsetTable"] == {}


def test_the_lag_in_any_number_of_queues_was_answered(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """208 for topics that have more queues together than an answer holds is refused; each of them is answered."""
    monkeypatch.setattr(group_offsets, "MAX_LISTED_QUEUES", 7)
    client.put("more")
    asked = {"consumerGroup": "team"}
    both = client.ask(R.GET_CONSUME_STATS, **asked, topicList="orders;more;orders")
    assert (both.code, "8 queues, and one answer has at most 7" in str(both.remark)) == (C.INVALID_PARAMETER, True)
    for one in ("orders;orders", "more"):
        assert len(body_of(client.ask(R.GET_CONSUME_STATS, **asked, topicList=one))["offsetTable"]) == 4


def test_the_times_of_queues(client: Client) -> None:
    """303 has the times of the first and last message, and of the last one that was read."""
    client.put("orders")
    time.sleep(0.01)
    client.put("orders")
    commit(client, 1)
    spans = body_of(client.ask(R.QUERY_CONSUME_TIME_SPAN, topic="orders", group="team"))["consumeTimeSpanSet"]
    read, empty = spans[0], spans[1]
    assert read["minTimeStamp"] == read["consumeTimeStamp"] < read["maxTimeStamp"]
    assert 0 <= read["delayTime"] < 60_000
    assert (empty["minTimeStamp"], empty["maxTimeStamp"], empty["delayTime"]) == (-1, -1, 0)
    assert client.ask(R.QUERY_CONSUME_TIME_SPAN, topic="nowhere", group="team").code == C.TOPIC_NOT_EXIST


def test_all_offsets_are_told(client: Client) -> None:
    """43 answers what config/consumerOffset.json has, with bare numbers as keys."""
    client.put("orders")
    commit(client, 1)
    body = client.ask(R.GET_ALL_CONSUMER_OFFSET).body
    assert parse_fastjson(body)["offsetTable"] == {"orders@team": {"0": 1}}


# --- resets and copies ---------------------------------------------------------------------------


def reset(client: Client, timestamp: int, **further: object) -> RemotingFrame:
    """Reset the group `team`."""
    asked = {"group": "team", "topic": "orders", "timestamp": timestamp, "isForce": True, **further}
    return client.ask(R.INVOKE_BROKER_TO_RESET_OFFSET, **asked)


@pytest.mark.usefixtures("member")
def test_a_reset_by_time_moves_the_next_pull(client: Client) -> None:
    """222: commits are dropped until the next pull of the queue, which is sent to the new offset once."""
    for _ in range(3):
        client.put("orders")
    commit(client, 3)
    assert by_queue(body_of(reset(client, 0))["offsetTable"]) == {0: 0, 1: 0, 2: 0, 3: 0}
    assert (commit(client, 3).remark, committed(client)) == ("Offset has been previously reset", "0")
    asked = pull_fields("orders", 0, 3, consumerGroup="team")
    moved = client.ask(R.PULL_MESSAGE, **asked)
    assert (moved.code, moved.remark, moved.fields["nextBeginOffset"]) == (C.PULL_OFFSET_MOVED, "OFFSET_RESET", "0")
    assert client.ask(R.PULL_MESSAGE, **asked).code == C.PULL_NOT_FOUND
    commit(client, 2)
    assert committed(client) == "2"
    assert by_queue(body_of(reset(client, -1))["offsetTable"])[0] == 3


def test_a_reset_answers_pulls_that_are_held(client: Client, member: Client) -> None:
    """A pull that waits for messages learns of a reset at once."""
    client.put("orders")
    held = pull_fields("orders", 0, 1, consumerGroup="team", sysFlag=2 | 4, suspendTimeoutMillis=20_000)
    number = member.send(R.PULL_MESSAGE, **held)
    member.ask(R.GET_MAX_OFFSET, topic="orders", queueId=0)
    begin = time.monotonic()
    assert reset(client, 0).code == C.SUCCESS
    answer = member.answer(number)
    assert (answer.code, answer.fields["nextBeginOffset"]) == (C.PULL_OFFSET_MOVED, "0")
    assert time.monotonic() - begin < 10


def test_a_reset_walked_all_held_pulls_for_each_queue(
    broker: reput.RunningBroker, client: Client, member: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reset answers the pulls of its group in its queues, and looks at no others, which stay held."""
    held = {"sysFlag": 2 | 4, "suspendTimeoutMillis": 20_000}
    asked = [("team", 0), ("team", 1), ("others", 0), ("others", 1)]
    pulls = [pull_fields("orders", queue, consumerGroup=group, **held) for group, queue in asked]
    numbers = member.send_all([(R.PULL_MESSAGE, b"", 0, fields) for fields in pulls])
    wait_until(lambda: len(broker._broker.holds) == 4)
    with monkeypatch.context() as patch:
        patch.setattr(WaitingRequests, "__iter__", None)
        assert reset(client, 0).code == C.SUCCESS
        assert {member.answer(number).code for number in numbers[:2]} == {C.PULL_OFFSET_MOVED}
    assert len(broker._broker.holds) == 2


@pytest.mark.usefixtures("member")
def test_one_queue_is_reset_to_an_offset(client: Client) -> None:
    """222 with a queue and an offset sets that; one outside the queue, or of nobody, is refused."""
    for _ in range(3):
        client.put("orders", queue_id=2)
    assert by_queue(body_of(reset(client, -1, queueId=2, offset=1))["offsetTable"]) == {2: 1}
    assert by_queue(body_of(reset(client, 0, queueId=2))["offsetTable"]) == {2: 0}
    far = reset(client, -1, queueId=2, offset=9)
    assert (far.code, far.remark) == (C.SYSTEM_ERROR, "Target offset 9 not in consume queue range [0-3]")
    assert reset(client, 0, topic="nowhere").code == C.TOPIC_NOT_EXIST
    assert reset(client, 0, group="nobody").code == C.SUBSCRIPTION_GROUP_NOT_EXIST


@pytest.mark.parametrize("topic", ["orders", ""])
def test_offsets_are_cloned(client: Client, topic: str) -> None:
    """314 gives a group the offsets of another in one topic, or in all."""
    client.put("orders")
    commit(client, 1)
    asked = {"srcGroup": "team", "destGroup": "twin", "topic": topic, "offline": False}
    assert client.ask(R.CLONE_GROUP_OFFSET, **asked).code == C.SUCCESS
    assert committed(client, group="twin") == "1"


# --- calls through to a consumer -----------------------------------------------------------------


def reply(member: Client, code: int, remark: str | None, body: bytes) -> RemotingFrame:
    """Wait for the broker's call to a member, and answer it; return the call."""
    while not [frame for frame in member.asked if not frame.is_one_way]:
        member.receive()
    asked = next(frame for frame in member.asked if not frame.is_one_way)
    member.socket.sendall(frames.encode(RemotingFrame(code, asked.opaque, IS_ANSWER, remark, {}, body)))
    return asked


def test_a_call_goes_through_to_a_consumer(client: Client, member: Client) -> None:
    """307: the consumer gets the fields, and its answer comes back; one that is not online is refused."""
    asked = {"consumerGroup": "team", "clientId": "c1", "jstackEnable": True}
    number = client.send(R.GET_CONSUMER_RUNNING_INFO, **asked)
    call = reply(member, C.SUCCESS, "fine", b'{"properties":{}}')
    assert (call.code, call.fields["jstackEnable"]) == (R.GET_CONSUMER_RUNNING_INFO, "true")
    answer = client.answer(number)
    assert (answer.code, answer.remark, answer.body) == (C.SUCCESS, "fine", b'{"properties":{}}')
    away = client.ask(R.GET_CONSUMER_RUNNING_INFO, consumerGroup="team", clientId="c2")
    assert (away.code, away.remark) == (C.SYSTEM_ERROR, "The Consumer <team> <c2> not online")


def test_a_call_ends_when_the_consumer_goes(client: Client, member: Client) -> None:
    """A consumer that goes before it answers: 207."""
    number = client.send(R.GET_CONSUMER_RUNNING_INFO, consumerGroup="team", clientId="c1")
    while not [frame for frame in member.asked if not frame.is_one_way]:
        member.receive()
    member.close()
    assert client.answer(number).code == C.CONSUME_MSG_TIMEOUT


def test_a_call_ends_in_time(client: Client, member: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that does not answer: 207, when its time is over."""
    monkeypatch.setattr("reput.broker.wire.client_calls.ANSWER_LIMIT_S", 0.05)
    assert member.asked is not None
    answer = client.ask(R.GET_CONSUMER_RUNNING_INFO, consumerGroup="team", clientId="c1")
    assert answer.code == C.CONSUME_MSG_TIMEOUT


def test_calls_that_wait_are_bounded(client: Client, member: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound a call is refused."""
    monkeypatch.setattr("reput.broker.wire.client_calls.MAX_WAITING", 0)
    assert member.asked is not None
    answer = client.ask(R.GET_CONSUMER_RUNNING_INFO, consumerGroup="team", clientId="c1")
    assert answer.code == C.SYSTEM_BUSY


def test_a_message_is_given_to_one_consumer(client: Client, member: Client) -> None:
    """309: the consumer gets the record of the id; there must be one."""
    sent = client.put("orders", b"again")
    asked = {"consumerGroup": "team", "clientId": "c1", "msgId": sent.fields["msgId"], "brokerName": "reput"}
    number = client.send(R.CONSUME_MESSAGE_DIRECTLY, **asked)
    call = reply(member, C.SUCCESS, None, b'{"consumeResult":"CR_SUCCESS"}')
    assert (call.code, b"again" in call.body) == (R.CONSUME_MESSAGE_DIRECTLY, True)
    assert client.answer(number).body == b'{"consumeResult":"CR_SUCCESS"}'
    for wrong in ("nothing", sent.fields["msgId"][:-4] + "FFFF"):
        assert client.ask(R.CONSUME_MESSAGE_DIRECTLY, **{**asked, "msgId": wrong}).code == C.SYSTEM_ERROR


def test_consumers_are_asked_for_their_offsets(client: Client, member: Client) -> None:
    """223 asks each member (221), and answers what they say by client id."""
    number = client.send(R.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, topic="orders", group="team")
    queue = '{"brokerName":"reput","queueId":1,"topic":"orders"}'
    call = reply(member, C.SUCCESS, None, f'{{"messageQueueTable":{{{queue}:5}}}}'.encode())
    assert (call.code, call.fields) == (R.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": "orders", "group": "team"})
    assert by_queue(body_of(client.answer(number))["consumerTable"]["c1"]) == {1: 5}
    nobody = client.ask(R.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, topic="orders", group="team", clientAddr="c2")
    assert nobody.code == C.SYSTEM_ERROR


def test_an_answer_that_nobody_awaits_is_dropped(client: Client) -> None:
    """An answer of a client to nothing harms nobody."""
    client.socket.sendall(frames.encode(RemotingFrame(0, 99, IS_ANSWER)))
    assert client.ask(R.GET_BROKER_CLUSTER_INFO).code == C.SUCCESS


def test_a_heartbeat_made_a_retry_topic_that_was_being_deleted(broker: reput.RunningBroker, client: Client) -> None:
    """While a group's retry topic is deleted its heartbeats are refused, and afterwards they make the topic again."""
    topics = broker._broker.topics
    assert client.heartbeat("c1", "team", orders="*").code == C.SUCCESS
    topics.begin_to_delete("%RETRY%team")
    assert client.heartbeat("c1", "team", orders="*").code == C.SYSTEM_BUSY
    assert topics.find("%RETRY%team") is None
    topics.end_deletion("%RETRY%team", is_deleted=True)
    assert client.heartbeat("c1", "team", orders="*").code == C.SUCCESS
    assert topics.find("%RETRY%team") is not None
