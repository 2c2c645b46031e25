"""The broker's answers, code by code, to a client of the remoting protocol; bad input among it."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reput
from broker.remoting import Client, bodies, pull_fields, records, send_fields
from reput.broker.wire.listener import listen
from reput.formats.log.record import decode_message_id
from reput.formats.wire import remoting as frames
from reput.formats.wire.codes import RequestCode, ResponseCode
from support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path


R, C = RequestCode, ResponseCode


def batch(*messages: tuple[bytes, str]) -> bytes:
    """The body of a batch as a client makes it: bodies and properties."""
    data = b""
    for body, text in messages:
        properties = text.encode()
        size = 20 + len(body) + 2 + len(properties)
        data += b"".join(number.to_bytes(4, "big") for number in (size, 0, 0, 0, len(body))) + body
        data += len(properties).to_bytes(2, "big") + properties
    return data


# --- name server ---------------------------------------------------------------------------------


def test_a_route_names_the_address_that_the_client_dialled(broker: reput.RunningBroker, client: Client) -> None:
    """105 and 106 answer the broker's address, with quoted keys of maps; 206 lists the topic."""
    route = json.loads(client.ask(R.GET_ROUTEINFO_BY_TOPIC, topic="orders").body)
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": broker.address}
    (queues,) = route["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (4, 4, 6)
    cluster = json.loads(client.ask(R.GET_BROKER_CLUSTER_INFO).body)
    (data,) = cluster["brokerAddrTable"].values()
    assert data["brokerAddrs"] == {"0": broker.address}
    assert cluster["clusterAddrTable"] == {data["cluster"]: [data["brokerName"]]}
    assert "orders" in json.loads(client.ask(R.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).body)["topicList"]


def test_a_route_of_no_topic_is_17(client: Client) -> None:
    """A topic that does not exist has no route; TBW102, from which clients make topics, has one."""
    assert client.ask(R.GET_ROUTEINFO_BY_TOPIC, topic="nowhere").code == C.TOPIC_NOT_EXIST
    route = json.loads(client.ask(R.GET_ROUTEINFO_BY_TOPIC, topic="TBW102").body)
    assert (route["queueDatas"][0]["perm"], route["queueDatas"][0]["writeQueueNums"]) == (7, 8)


def test_topics_are_kept_as_rocketmq_keeps_them(broker: reput.RunningBroker, client: Client) -> None:
    """17 makes a topic and changes it; config/topics.json has it, beside the version before, and a rising counter."""
    fields = {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "order": False}
    for queues in (2, 3):
        answer = client.ask(
            R.UPDATE_AND_CREATE_TOPIC, topic="made", readQueueNums=queues, writeQueueNums=queues, perm=6, **fields
        )
        assert answer.code == C.SUCCESS
    path = broker.path / "config" / "topics.json"
    now, before = (json.loads(one.read_text()) for one in (path, path.with_name("topics.json.bak")))
    tables = [one["topicConfigTable"]["made"] for one in (now, before)]
    assert [table["readQueueNums"] for table in tables] == [3, 2]
    assert tables[0] == {**tables[0], "topicName": "made", "topicFilterType": "SINGLE_TAG", "attributes": {}}
    assert now["dataVersion"]["counter"] == before["dataVersion"]["counter"] + 1
    refused = client.ask(R.UPDATE_AND_CREATE_TOPIC, topic="../up", readQueueNums=1, writeQueueNums=1, perm=6, **fields)
    assert (refused.code, "illegal characters" in str(refused.remark)) == (C.INVALID_PARAMETER, True)


# --- sends ---------------------------------------------------------------------------------------


def test_a_message_comes_back_as_it_was_sent(broker: reput.RunningBroker, client: Client) -> None:
    """310: body, flag, properties, born time and host; the answer's id is the place in the log."""
    properties = "TAGS\x01paid\x02KEYS\x01k1\x02UNIQ_KEY\x01u1\x02own\x01wert ä\x02"
    sent = client.put("orders", b"hello", 1, properties=properties, h=9, f=1)
    assert (sent.code, sent.fields["queueId"], sent.fields["queueOffset"]) == (C.SUCCESS, "1", "0")
    (record,) = records(client.pull("orders", 1))
    with reput.MessageStore.open(broker.path, read_only=True) as store:
        (message,) = store.get_message("orders", 1, 0)
        assert message.properties["own"] == "wert ä"
        assert (message.tags, message.keys, message.unique_key) == ("paid", ["k1"], "u1")
        assert message.properties["MSG_REGION"] == sent.fields["MSG_REGION"]
    assert (record.body, record.flag, record.sys_flag & 1) == (b"hello", 9, 1)
    assert record.born_timestamp == 1_700_000_000_000
    assert str(record.born_host) == "{}:{}".format(*client.socket.getsockname())
    host, offset = decode_message_id(sent.fields["msgId"]) or pytest.fail("no id")
    assert (str(host), offset) == (broker.address, record.physical_offset)


def test_the_first_header_and_the_binary_one(broker: reput.RunningBroker) -> None:
    """10 with the long names in a binary header; the answer has a binary header too."""
    names = dict(zip("abcdefghi", LONG_NAMES, strict=True))
    fields = {names[short]: value for short, value in send_fields("orders").items() if short in names}
    with Client(broker.address, frames.BINARY_HEADER) as client:
        sent = client.ask(R.SEND_MESSAGE, b"old", **fields)
        assert (sent.code, sent.remark, sent.header_type) == (C.SUCCESS, None, frames.BINARY_HEADER)
        assert bodies(client.pull("orders")) == [b"old"]


LONG_NAMES = (
    "producerGroup",
    "topic",
    "defaultTopic",
    "defaultTopicQueueNums",
    "queueId",
    "sysFlag",
    "bornTimestamp",
    "flag",
    "properties",
)


def test_a_batch_is_stored_whole(client: Client) -> None:
    """320: each message with its properties; the answer has an id for each and the first offset."""
    body = batch((b"a", "TAGS\x01x"), (b"b", "UNIQ_KEY\x01u2\x02"))
    sent = client.ask(R.SEND_BATCH_MESSAGE, body, **send_fields("orders", 2, m=True))
    assert (sent.code, sent.fields["queueOffset"], len(sent.fields["msgId"].split(","))) == (C.SUCCESS, "0", 2)
    assert bodies(client.pull("orders", 2)) == [b"a", b"b"]
    assert bodies(client.pull("orders", 2, subscription="x")) == [b"a"]
    broken = client.ask(R.SEND_BATCH_MESSAGE, body[:-3], **send_fields("orders", 2, m=True))
    assert broken.code == C.MESSAGE_ILLEGAL
    assert client.ask(R.GET_MAX_OFFSET, topic="orders", queueId=2).fields["offset"] == "2"


def test_a_batch_is_told_by_its_code_when_its_header_was_served_before(client: Client) -> None:
    """A header that says nothing of a batch serves both kinds of send, in any order."""
    body, codes = batch((b"a", ""), (b"b", "")), (R.SEND_MESSAGE_V2, R.SEND_BATCH_MESSAGE) * 2
    sent = [client.ask(code, body, **send_fields("orders")) for code in codes]
    assert [(one.code, len(one.fields["msgId"].split(","))) for one in sent] == [(C.SUCCESS, 1), (C.SUCCESS, 2)] * 2
    assert bodies(client.pull("orders")) == [body, b"a", b"b"] * 2


def test_a_batch_is_the_same_once_kernels_are_loaded(broker: reput.RunningBroker, client: Client) -> None:
    """Batches are stored, and refused, alike before and after."""
    plain, delayed = batch((b"a", "TAGS\x01x"), (b"b", "")), batch((b"a", ""), (b"b", "DELAY\x013"))
    answers = []
    wait_until(lambda: broker._broker.has_kernels)
    for are_loaded in (False, True):
        broker._broker.has_kernels = are_loaded
        found = [client.ask(R.SEND_BATCH_MESSAGE, body, **send_fields("orders", m=True)) for body in (plain, delayed)]
        answers.append([(one.code, one.remark, sorted(one.fields), len(one.fields.get("msgId", ""))) for one in found])
    assert answers[0] == answers[1]
    assert [one[0] for one in answers[1]] == [C.SUCCESS, C.MESSAGE_ILLEGAL]
    got = records(client.pull("orders"))
    assert [(one.body, one.properties.rstrip(b"\x02")) for one in got] == [(b"a", b"TAGS\x01x"), (b"b", b"")] * 2
    assert got[0].born_host == got[2].born_host


def test_a_header_is_checked_again_when_its_topic_changes(client: Client) -> None:
    """A queue that a topic has no more is refused, though the same header was served before."""
    fields = {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "order": False, "perm": 6}
    for queues, code in ((4, C.SUCCESS), (2, C.INVALID_PARAMETER), (4, C.SUCCESS)):
        sizes = {"readQueueNums": queues, "writeQueueNums": queues}
        assert client.ask(R.UPDATE_AND_CREATE_TOPIC, topic="orders", **sizes, **fields).code == C.SUCCESS
        assert [client.put("orders", b"x", 3).code for _ in range(2)] == [code] * 2
    answers = [client.put("orders", b"x", 3, properties=f"UNIQ_KEY\x01u{n}\x02").fields for n in range(2)]
    assert [one["transactionId"] for one in answers] == ["u0", "u1"]


def test_sends_of_one_read_are_stored_in_their_order(client: Client) -> None:
    """A hundred sends in one write are answered each, one that is refused does not harm the others."""
    requests: list[tuple[int, bytes, int, dict[str, Any]]] = [
        (R.SEND_MESSAGE_V2, str(number).encode(), 0, send_fields("orders", number % 2)) for number in range(100)
    ]
    requests.insert(50, (R.SEND_MESSAGE_V2, b"no", 0, send_fields("orders", properties="INNER_NUM\x015")))
    numbers = client.send_all(requests)
    answers = [client.answer(number) for number in numbers]
    assert answers.pop(50).code == C.MESSAGE_ILLEGAL
    assert [int(answer.fields["queueOffset"]) for answer in answers] == [number // 2 for number in range(100)]
    got = bodies(client.pull("orders", 1, 0))
    assert got == [str(number).encode() for number in range(1, 64, 2)]


def test_a_one_way_send_is_not_answered(client: Client) -> None:
    """Nothing comes back for one-way requests, neither for stored ones nor for refused or unknown ones."""
    client.send(R.SEND_MESSAGE_V2, b"quiet", frame_flag=frames.IS_ONE_WAY, **send_fields("orders"))
    client.send(R.SEND_MESSAGE_V2, b"bad", frame_flag=frames.IS_ONE_WAY, **send_fields("SCHEDULE_TOPIC_XXXX"))
    client.send(999, frame_flag=frames.IS_ONE_WAY)
    wait_for_offset(client, 1)
    assert client._answers == {}  # the answers that nobody has taken
    assert bodies(client.pull("orders")) == [b"quiet"]


def wait_for_offset(client: Client, offset: int) -> None:
    """Wait until queue 0 of `orders` has messages up to an offset."""
    wait_until(lambda: int(client.ask(R.GET_MAX_OFFSET, topic="orders", queueId=0).fields["offset"]) >= offset)


REFUSED_SENDS = {
    "delay": (send_fields("orders", properties="DELAY\x01soon"), C.MESSAGE_ILLEGAL),
    "timer": (send_fields("orders", properties="TIMER_DELAY_SEC\x01300000"), C.MESSAGE_ILLEGAL),
    "no time": (send_fields("orders", properties="TIMER_DELIVER_MS\x01soon"), C.MESSAGE_ILLEGAL),
    "system topic": (send_fields("RMQ_SYS_TRANS_HALF_TOPIC"), C.NO_PERMISSION),
    "blank topic": (send_fields(" "), C.INVALID_PARAMETER),
    "other folder": (send_fields("../../etc"), C.INVALID_PARAMETER),
    "long topic": (send_fields("t" * 128), C.INVALID_PARAMETER),
    "queue": (send_fields("orders", 4), C.INVALID_PARAMETER),
    "no default": (send_fields("unknown", c="orders"), C.TOPIC_NOT_EXIST),
    "number": (send_fields("orders", e="x"), C.SYSTEM_ERROR),
    "large number": (send_fields("orders", e=1 << 31), C.SYSTEM_ERROR),
    "missing": ({"a": "pg"}, C.SYSTEM_ERROR),
    "properties": (send_fields("orders", properties="x\x01" + "y" * 40_000), C.MESSAGE_ILLEGAL),
}


@pytest.mark.parametrize("what", REFUSED_SENDS)
def test_a_send_is_refused_by_its_code(client: Client, what: str) -> None:
    """A send that cannot be served is refused with the peer's code and a text, and nothing is stored."""
    fields, code = REFUSED_SENDS[what]
    answer = client.ask(R.SEND_MESSAGE_V2, b"body", **fields)
    assert (answer.code, bool(answer.remark)) == (code, True)
    assert client.ask(R.GET_MAX_OFFSET, topic="orders", queueId=0).fields["offset"] == "0"


def test_a_body_over_the_limit_is_refused(client: Client) -> None:
    """A body over maxMessageSize (4 MiB) is illegal; the connection goes on."""
    assert client.put("orders", bytes((4 << 20) + 1)).code == C.MESSAGE_ILLEGAL
    assert client.put("orders", bytes(4 << 20)).code == C.SUCCESS


# --- pulls ---------------------------------------------------------------------------------------


@pytest.mark.behaviour(
    "PullRequestHoldServiceTest.suspendPullRequestTest",
    "PullRequestHoldServiceTest.notifyMessageArrivingTest",
)
def test_a_held_pull_is_answered_on_arrival(broker: reput.RunningBroker, client: Client) -> None:
    """A pull at the end of its queue waits, and has the message as soon as one is put; other queues wake nobody."""
    number = client.send(R.PULL_MESSAGE, **pull_fields("orders", sysFlag=2 | 4, suspendTimeoutMillis=30_000))
    with Client(broker.address) as producer:
        producer.put("orders", b"other", 1)
        begun = time.monotonic()
        producer.put("orders", b"news", 0)
        answer = client.answer(number)
    assert (answer.code, bodies(answer), answer.fields["nextBeginOffset"]) == (C.SUCCESS, [b"news"], "1")
    assert time.monotonic() - begun < 10


def test_an_answer_does_not_wait_for_the_one_before() -> None:
    """The system sends an answer at once, though the client has not acknowledged the one before (up to 40 ms)."""
    with contextlib.closing(listen("127.0.0.1", 0, allow_remote=False)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        with client, server:
            assert server.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.behaviour("PullRequestHoldServiceTest.checkHoldRequestTest")
def test_a_hold_ends_with_its_time(client: Client) -> None:
    """A pull that waits in vain is answered 19 after its time; one without the suspend bit at once."""
    begun = time.monotonic()
    answer = client.pull("orders", sysFlag=2 | 4, suspendTimeoutMillis=300)
    assert (answer.code, answer.fields["nextBeginOffset"]) == (C.PULL_NOT_FOUND, "0")
    assert time.monotonic() - begun > 0.25
    assert client.pull("orders", suspendTimeoutMillis=30_000).code == C.PULL_NOT_FOUND


def test_holds_of_a_lost_connection_go(broker: reput.RunningBroker, client: Client) -> None:
    """A client that vanishes leaves no hold, and the arrival of a message finds nobody."""
    with Client(broker.address) as gone:
        gone.send(R.PULL_MESSAGE, **pull_fields("orders", sysFlag=2 | 4, suspendTimeoutMillis=30_000))
        wait_until(lambda: len(broker._broker.holds) == 1)
    wait_until(lambda: len(broker._broker.holds) == 0)
    assert client.put("orders").code == C.SUCCESS


def test_offsets_outside_a_queue_are_moved(client: Client) -> None:
    """A pull beyond the end is 21 with the end; beyond an empty queue 21 too, at 0 it is 19."""
    client.put("orders")
    answer = client.pull("orders", 0, 5)
    assert (answer.code, answer.fields["nextBeginOffset"], answer.fields["maxOffset"]) == (
        C.PULL_OFFSET_MOVED,
        "1",
        "1",
    )
    assert client.pull("orders", 3, 5).code == C.PULL_OFFSET_MOVED
    assert client.pull("orders", 3, 0).code == C.PULL_NOT_FOUND


def test_filters_by_tag_and_sql(client: Client) -> None:
    """Only messages that match come; a pull without a match is 20 and moves on; a wrong SQL92 text is 23."""
    for number in range(4):
        client.put("orders", str(number).encode(), properties=f"TAGS\x01t{number % 2}\x02n\x01{number}\x02")
    assert bodies(client.pull("orders", subscription="t1 || none")) == [b"1", b"3"]
    nothing = client.pull("orders", subscription="none")
    assert (nothing.code, nothing.fields["nextBeginOffset"]) == (C.PULL_RETRY_IMMEDIATELY, "4")
    sql = {"expressionType": "SQL92"}
    assert bodies(client.pull("orders", subscription="n > 1", **sql)) == [b"2", b"3"]
    assert client.pull("orders", subscription="n >", **sql).code == C.SUBSCRIPTION_PARSE_FAILED
    body = json.dumps({"subscriptionData": {"topic": "orders", "subString": "n >", "expressionType": "SQL92"}})
    assert client.ask(R.CHECK_CLIENT_CONFIG, body.encode()).code == C.SUBSCRIPTION_PARSE_FAILED
    assert client.ask(R.CHECK_CLIENT_CONFIG, body.replace("n >", "n > 1").encode()).code == C.SUCCESS


def test_a_filter_of_another_type_is_refused(client: Client) -> None:
    """A type that is neither TAG nor SQL92 is a wrong filter, and not one by tags; without a type it is by tags."""
    for number in range(2):
        client.put("orders", str(number).encode(), properties=f"TAGS\x01t{number}\x02")
    for no_type in ({}, {"expressionType": ""}, {"expressionType": "TAG"}):
        fields = {name: text for name, text in pull_fields("orders").items() if name != "expressionType"}
        answer = client.ask(R.PULL_MESSAGE, **{**fields, **no_type, "subscription": "t1"})
        assert bodies(answer) == [b"1"]
    for unknown in ("tag", "sql92", "XPATH"):
        refused = client.pull("orders", subscription="t1", expressionType=unknown)
        assert refused.code == C.SUBSCRIPTION_PARSE_FAILED
        assert f"no filters of type '{unknown}'" in str(refused.remark)
        one = {"topic": "orders", "subString": "t1", "subVersion": 1, "expressionType": unknown}
        body = json.dumps({"subscriptionData": one})
        assert client.ask(R.CHECK_CLIENT_CONFIG, body.encode()).code == C.SUBSCRIPTION_PARSE_FAILED
        group = f"readers-{unknown}"
        assert client.beat("one", {"groupName": group, "subscriptionDataSet": [one]}).code == C.SUCCESS
        refused = client.pull("orders", consumerGroup=group, sysFlag=0, subVersion=1)
        assert refused.code == C.FILTER_DATA_NOT_EXIST
        listed = json.loads(client.ask(R.GET_CONSUMER_CONNECTION_LIST, consumerGroup=group).body)
        assert listed["subscriptionTable"]["orders"]["expressionType"] == unknown


def test_limits_of_a_pull(client: Client) -> None:
    """An answer has at most the messages asked for, 32, and the bytes asked for; but always one message."""
    client.ask(R.SEND_BATCH_MESSAGE, batch(*[(bytes(10_000), "") for _ in range(40)]), **send_fields("orders", m=True))
    assert len(records(client.pull("orders", maxMsgNums=3))) == 3
    assert len(records(client.pull("orders", maxMsgNums=40, maxMsgBytes=1))) == 1
    most = client.ask(R.LITE_PULL_MESSAGE, **pull_fields("orders", maxMsgNums=1000))
    assert 0 < len(records(most)) <= 32
    assert len(most.body) <= 256 << 10


@pytest.mark.behaviour("PullMessageProcessorTest.testCommitPullOffset")
def test_a_pull_commits(client: Client) -> None:
    """With bit 0 a pull commits its offset."""
    client.put("orders")
    client.pull("orders", 0, 1, sysFlag=1 | 4, commitOffset=1)
    assert client.ask(R.QUERY_CONSUMER_OFFSET, consumerGroup="g", topic="orders", queueId=0).fields["offset"] == "1"


@pytest.mark.behaviour(
    "PullMessageProcessorTest.testProcessRequest_SubNotExist",
    "PullMessageProcessorTest.testProcessRequest_SubNotLatest",
)
def test_a_subscription_must_be_known(client: Client) -> None:
    """Without a text in the pull the heartbeat's subscription counts: 24 if there is none, 25 if it is older."""
    asked = {"sysFlag": 0, "subVersion": 5, "consumerGroup": "watchers"}
    assert client.pull("orders", **asked).code == C.SUBSCRIPTION_NOT_EXIST
    client.heartbeat("c1", "watchers", 4, orders="t1")
    assert client.pull("orders", **asked).code == C.SUBSCRIPTION_NOT_LATEST
    client.heartbeat("c1", "watchers", 5, orders="t1")
    client.put("orders", b"yes", properties="TAGS\x01t1")
    client.put("orders", b"no", properties="TAGS\x01t2")
    assert bodies(client.pull("orders", **asked)) == [b"yes"]
    assert client.pull("payments", **asked).code == C.TOPIC_NOT_EXIST
    assert client.pull("orders", 4, **asked).code == C.INVALID_PARAMETER


def test_a_pull_is_checked_again_when_what_it_rests_on_changes(client: Client) -> None:
    """A pull that was served is refused once its group, its topic or its subscription is another one, and then served.

    Without a check it would be served on.
    """
    asked = {"sysFlag": 0, "subVersion": 5, "consumerGroup": "watchers"}
    fields = {"topic": "orders", "defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "order": False, "perm": 6}

    def group(may_consume: bool) -> None:
        body = json.dumps({"groupName": "watchers", "consumeEnable": may_consume}).encode()
        assert client.ask(R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body).code == C.SUCCESS

    def queues(count: int) -> None:
        sizes = {"readQueueNums": count, "writeQueueNums": count}
        assert client.ask(R.UPDATE_AND_CREATE_TOPIC, **fields, **sizes).code == C.SUCCESS

    def pulled() -> tuple[int, list[bytes]]:
        answers = [client.pull("orders", 3, **asked) for _ in range(2)]
        assert answers[0].code == answers[1].code
        return answers[1].code, bodies(answers[1])

    client.heartbeat("c1", "watchers", 5, orders="t1")
    for tag in (b"t1", b"t2"):
        client.put("orders", tag, 3, properties=f"TAGS\x01{tag.decode()}")
    assert pulled() == (C.SUCCESS, [b"t1"])
    group(may_consume=False)
    assert pulled() == (C.NO_PERMISSION, [])
    group(may_consume=True)
    assert pulled() == (C.SUCCESS, [b"t1"])
    queues(2)
    assert pulled() == (C.INVALID_PARAMETER, [])
    queues(4)
    client.heartbeat("c1", "watchers", 6, orders="t2")
    assert pulled() == (C.SUCCESS, [b"t2"])
    client.heartbeat("c1", "watchers", 7)
    assert pulled() == (C.SUBSCRIPTION_NOT_EXIST, [])


# --- offsets, members, locks ---------------------------------------------------------------------


def test_offsets_of_groups_and_queues(client: Client) -> None:
    """14, 15, 29, 30 and 31: a young queue begins at 0, an empty one has no offset, a group that exists commits."""
    asked = {"consumerGroup": "readers", "topic": "orders", "queueId": 0}
    assert client.ask(R.QUERY_CONSUMER_OFFSET, **asked).code == C.QUERY_NOT_FOUND
    for _ in range(3):
        client.put("orders")
    assert client.ask(R.QUERY_CONSUMER_OFFSET, **asked).fields["offset"] == "0"
    assert client.ask(R.QUERY_CONSUMER_OFFSET, setZeroIfNotFound=False, **asked).code == C.QUERY_NOT_FOUND
    refused = client.ask(R.UPDATE_CONSUMER_OFFSET, commitOffset=2, **asked)
    assert (refused.code, refused.remark) == (C.SUBSCRIPTION_GROUP_NOT_EXIST, "Group readers not exist!")
    client.make_group("readers")
    assert client.ask(R.UPDATE_CONSUMER_OFFSET, commitOffset=2, **asked).code == C.SUCCESS
    assert client.ask(R.QUERY_CONSUMER_OFFSET, **asked).fields["offset"] == "2"
    assert client.ask(R.UPDATE_CONSUMER_OFFSET, commitOffset=-5, **asked).code == C.INVALID_PARAMETER
    unknown = {**asked, "topic": "nowhere"}
    assert client.ask(R.UPDATE_CONSUMER_OFFSET, commitOffset=2, **unknown).code == C.TOPIC_NOT_EXIST
    queue = {"topic": "orders", "queueId": 0}
    ends = [client.ask(code, **queue).fields["offset"] for code in (R.GET_MIN_OFFSET, R.GET_MAX_OFFSET)]
    times = [client.ask(R.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=at, **queue).fields["offset"] for at in (0, 1 << 50)]
    assert (ends, times) == (["0", "3"], ["0", "3"])
    assert client.ask(R.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=0, boundaryType="SIDEWAYS", **queue).code != C.SUCCESS


def test_members_come_and_go(broker: reput.RunningBroker, client: Client) -> None:
    """34, 35 and 38: members are listed, all are notified (40) of each change, a lost connection is one."""
    assert client.ask(R.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="team").code == C.SYSTEM_ERROR
    client.heartbeat("c1", "team", orders="*")
    with Client(broker.address) as other:
        other.heartbeat("c2", "team", orders="*")
        assert members(client) == ["c1", "c2"]
        other.heartbeat("c3", "team", orders="*")
        assert client.ask(R.UNREGISTER_CLIENT, clientID="c3", consumerGroup="team").code == C.SUCCESS
        assert members(client) == ["c1", "c2"]
        client.asked.clear()
    wait_until(lambda: members(client) == ["c1"])
    # A notice so soon after another one comes a moment later.
    wait_until(lambda: members(client) == ["c1"] and bool(client.asked))
    assert {(frame.code, frame.flag, frame.fields["consumerGroup"]) for frame in client.asked} == {
        (R.NOTIFY_CONSUMER_IDS_CHANGED, frames.IS_ONE_WAY, "team")
    }
    assert client.ask(R.GET_ROUTEINFO_BY_TOPIC, topic="%RETRY%team").code == C.SUCCESS
    groups = json.loads((broker.path / "config" / "subscriptionGroup.json").read_text())
    assert groups["subscriptionGroupTable"]["team"]["retryMaxTimes"] == 16


def members(client: Client) -> list[str]:
    """The client ids of the group `team`."""
    found = json.loads(client.ask(R.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="team").body)["consumerIdList"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("illegal", ["", "a b", "订单", "g" * 121])
def test_one_illegal_group_in_a_heartbeat_refused_the_others(client: Client, illegal: str) -> None:
    """A consumer whose group cannot have its name is left out, as in RocketMQ; the other groups have their member."""
    groups = ("g" * 120, illegal, "team")
    consumers = [{"groupName": group, "subscriptionDataSet": []} for group in groups]
    assert client.beat("one", *consumers).code == C.SUCCESS
    listed = [client.ask(R.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=group).code for group in groups]
    assert listed == [C.SUCCESS, C.SYSTEM_ERROR, C.SUCCESS]
    known = json.loads(client.ask(R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body)["subscriptionGroupTable"]
    assert {group: group in known for group in groups} == {groups[0]: True, illegal: False, "team": True}
    assert client.pull("orders", consumerGroup=illegal).code == C.SUBSCRIPTION_GROUP_NOT_EXIST


def test_queues_are_locked_for_one_client(client: Client) -> None:
    """41 and 42: the first client has the queues until it frees them; another gets only the others."""

    def lock(client_id: str, *queue_ids: int, code: int = R.LOCK_BATCH_MQ) -> list[int]:
        queues = [{"brokerName": "reput", "queueId": one, "topic": "orders"} for one in queue_ids]
        body = {"consumerGroup": "ordered", "clientId": client_id, "mqSet": queues}
        answer = client.ask(code, json.dumps(body).encode())
        assert answer.code == C.SUCCESS
        return [one["queueId"] for one in json.loads(answer.body)["lockOKMQSet"]] if answer.body else []

    assert lock("a", 0, 1) == [0, 1]
    assert lock("b", 1, 2) == [2]
    assert lock("a", 0) == [0]
    lock("b", 0, code=R.UNLOCK_BATCH_MQ)
    assert lock("b", 0) == []
    lock("a", 0, code=R.UNLOCK_BATCH_MQ)
    assert lock("b", 0) == [0]


# --- bad input -----------------------------------------------------------------------------------


def test_an_unknown_code_is_refused(client: Client) -> None:
    """Codes without a handler are answered 3 with the peer's words."""
    answer = client.ask(999)
    assert (answer.code, answer.remark) == (C.REQUEST_CODE_NOT_SUPPORTED, " request type 999 not supported")
    assert client.ask(200070).code == C.REQUEST_CODE_NOT_SUPPORTED


VALUES = st.sampled_from(["", "orders", "g", "0", "-1", "4", "x", "99999999999999999999", "\ud800", "%RETRY%g", "true"])
NAMES = st.sampled_from([*send_fields("t"), *pull_fields("t"), "timestamp", "offset", "commitOffset", "clientID"])
BODIES = st.sampled_from(
    [b"", b"{", b"[]", b"{}", b'{"clientID":1}', b'{"clientID":"c","consumerDataSet":[1]}']
) | st.binary(max_size=40)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(code=st.sampled_from([*R, 0, -1, 65535]), fields=st.dictionaries(NAMES, VALUES, max_size=12), body=BODIES)
def test_any_request_is_answered(fuzzed: reput.RunningBroker, code: int, fields: dict[str, str], body: bytes) -> None:
    """Any header and body get an answer, and no answer is an internal error."""
    fields.pop("suspendTimeoutMillis", None)
    with Client(fuzzed.address) as client:
        answer = client.ask(code, body, **fields)
    assert not (answer.remark or "").startswith(("TypeError", "KeyError", "AttributeError", "ValueError", "Unicode"))


@pytest.mark.parametrize(
    "data", [b"\xff" * 64, b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01"]
)
def test_no_frame_ends_the_connection_only(
    fuzzed: reput.RunningBroker, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Bytes that are no frame close their connection with one line in the log; other clients go on."""
    with Client(fuzzed.address) as other, socket.create_connection(_place(fuzzed)) as bad:
        bad.sendall(data)
        bad.settimeout(30)
        assert _ends(bad)
        assert other.ask(R.GET_BROKER_CLUSTER_INFO).code == C.SUCCESS
    assert len([line for line in caplog.messages if "no frame" in line]) == 1


def test_half_a_frame_waits_and_harms_nobody(fuzzed: reput.RunningBroker) -> None:
    """A client that sends half a frame and goes is forgotten."""
    with socket.create_connection(_place(fuzzed)) as half:
        half.sendall(b"\0\0\1\0\0\0\0\x20{")
    with Client(fuzzed.address) as other:
        assert other.ask(R.GET_BROKER_CLUSTER_INFO).code == C.SUCCESS


def _place(broker: reput.RunningBroker) -> tuple[str, int]:
    host, port = broker.address.split(":")
    return host, int(port)


def _ends(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_what_was_sent_is_there_after_a_restart(tmp_path: Path) -> None:
    """A broker that is stopped and started on the same store has messages, topics, groups and offsets."""
    path = tmp_path / "store"
    with reput.serve(path, topics=["orders"]) as broker, Client(broker.address) as client:
        client.put("orders", b"kept", 3)
        client.heartbeat("c1", "readers", orders="*")
        client.ask(R.UPDATE_CONSUMER_OFFSET, consumerGroup="readers", topic="orders", queueId=3, commitOffset=1)
        number = client.send(R.PULL_MESSAGE, **pull_fields("orders", 3, 1, sysFlag=2 | 4, suspendTimeoutMillis=60_000))
        wait_until(lambda: len(broker._broker.holds) == 1)
        broker.close()
        assert client.answer(number).code == C.PULL_NOT_FOUND
    with reput.serve(path) as broker, Client(broker.address) as client:
        assert bodies(client.pull("orders", 3)) == [b"kept"]
        asked = {"consumerGroup": "readers", "topic": "orders", "queueId": 3}
        assert client.ask(R.QUERY_CONSUMER_OFFSET, **asked).fields["offset"] == "1"
        assert client.ask(R.GET_ROUTEINFO_BY_TOPIC, topic="%RETRY%readers").code == C.SUCCESS
