"""Behaviours that RocketMQ's own tests of its broker show, seen from outside: by requests and their answers."""

from __future__ import annotations

import json
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

import reput
from broker.popping import ANY, change, got_in, pop, pop_fields
from broker.remoting import Client, bodies, pull_fields
from reput.broker.services import due, timers
from reput.broker.state.statistics import MessageKind, Statistics
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.log.encode.message import PutResult, PutStatus
from reput.store.metadata.tables import Table
from reput.times import now_ms
from support import golden
from support.metadata import metadata_of
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from broker.popping import Got
    from reput.formats.wire.remoting import RemotingFrame

R, C = RequestCode, ResponseCode
UPDATE = {"defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "order": False}


# --- statistics ----------------------------------------------------------------------------------


@pytest.mark.behaviour(
    "StoreStatsServiceTest.getSinglePutMessageTopicSizeTotal",
    "StoreStatsServiceTest.getSinglePutMessageTopicTimesTotal",
)
def test_counts_of_threads_add_up() -> None:
    """Threads that store at once share the counters of a topic, and no put is lost or counted twice."""
    counts, each = Statistics(lambda _: True), 2000

    def put() -> None:
        for _ in range(each):
            counts.put("orders", MessageKind.NORMAL, 2, 300)

    threads = [threading.Thread(target=put) for _ in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    volume = counts.taken["orders", MessageKind.NORMAL]
    assert (volume.messages, volume.size, volume.sizes.counts[0]) == (4 * each * 2, 4 * each * 300, 4 * each)


@pytest.mark.behaviour(
    "BrokerStatsManagerTest.testIncBrokerGetNumsWithoutSystemTopic",
    "BrokerStatsManagerTest.testIncBrokerPutNumsWithoutSystemTopic",
)
def test_messages_of_system_topics_counted_in_the_day(broker: reput.RunningBroker, client: Client) -> None:
    """28: a message that has waited in a topic of RocketMQ's own counts once in the day's sums; totals have both."""
    client.put("orders", b"now")
    client.put("orders", b"later", properties="DELAY\x011\x02")
    client.put("passing")
    wait_until(lambda: len(bodies(client.pull("orders"))) == 2)
    statistics = broker._broker.statistics
    given = statistics.given_messages_of_users
    assert statistics.given_messages == given + 1
    assert client.ask(R.DELETE_TOPIC_IN_BROKER, topic="passing").code == C.SUCCESS
    table = json.loads(client.ask(R.GET_BROKER_RUNTIME_INFO).body)["table"]
    assert (table["msgPutTotalTodayNow"], table["putMessageTimesTotal"]) == ("3", "4")
    assert table["msgGetTotalTodayNow"] == str(given)


# --- timers --------------------------------------------------------------------------------------


def put_timer(client: Client, topic: str = "orders", body: bytes = b"later", **named: object) -> RemotingFrame:
    """Send a message with properties."""
    return client.put(topic, body, properties="".join(f"{name}\x01{value}\x02" for name, value in named.items()))


def held_pull(client: Client, topic: str) -> list[bytes]:
    """The bodies of the first messages of a queue; waits for one."""
    fields = pull_fields(topic, sysFlag=2 | 4, suspendTimeoutMillis=30_000)
    return bodies(client.answer(client.send(R.PULL_MESSAGE, **fields)))


@pytest.mark.behaviour("TimerMessageStoreTest.testDeleteTimerMessage_ukCollision")
def test_a_mark_that_names_its_topic_spares_the_same_key_elsewhere(client: Client) -> None:
    """Two topics have a message of one unique key in one second: a mark of deletion with a topic takes that one."""
    due_ms = now_ms() // 1000 * 1000 + 2000
    for topic in ("orders", "payments"):
        assert put_timer(client, topic, topic.encode(), TIMER_DELIVER_MS=due_ms, UNIQ_KEY="u").code == C.SUCCESS
    mark = {"TIMER_DELIVER_MS": due_ms, "TIMER_DEL_UNIQKEY": "orders+u", "UNIQ_KEY": "m"}
    assert put_timer(client, "orders", b"mark", **mark).code == C.SUCCESS
    assert put_timer(client, "orders", b"after", TIMER_DELIVER_MS=due_ms + 1, UNIQ_KEY="v").code == C.SUCCESS
    assert held_pull(client, "payments") == [b"payments"]
    assert held_pull(client, "orders") == [b"after"]


@pytest.mark.behaviour("TimerMessageStoreTest.testPutDeleteTimerMessage", "TimerMessageStoreTest.testMaxDelaySec")
@pytest.mark.parametrize(
    ("named", "is_over"),
    [
        ({"TIMER_DEL_UNIQKEY": "u"}, True),
        ({"TIMER_DELAY_SEC": 3 * 24 * 3600 + 1}, False),
        ({"TIMER_DELAY_MS": 3 * 24 * 3600 * 1000 + 60_000}, False),
    ],
    ids=["a deletion after its time", "seconds over the limit", "milliseconds over the limit"],
)
def test_timers_that_cannot_be_are_refused(client: Client, named: dict[str, object], is_over: bool) -> None:
    """A deletion of what is due already, and a time beyond timerMaxDelaySec, are illegal; nothing is stored."""
    over = {"TIMER_DELIVER_MS": now_ms() - 1} if is_over else {}
    refused = put_timer(client, **named, **over)
    assert (refused.code, "timer message illegal" in str(refused.remark)) == (C.MESSAGE_ILLEGAL, True)
    assert client.ask(R.GET_MAX_OFFSET, topic="rmq_sys_wheel_timer", queueId=0).fields.get("offset", "0") == "0"


@pytest.mark.behaviour("TimerMessageStoreTest.testRetryUntilSuccess")
def test_a_delivery_that_fails_is_tried_again(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that refuses a message that is due is asked again until it takes the message, once."""
    refusals = [PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason="the disk is full")] * 3
    deliver = timers.deliver

    def sometimes(*arguments: Any, **named: Any) -> PutResult | None:
        return refusals.pop() if refusals else deliver(*arguments, **named)

    monkeypatch.setattr(due, "LONGEST_WAIT_S", 0.02)
    monkeypatch.setattr(timers, "deliver", sometimes)
    put_timer(client, body=b"first", TIMER_DELAY_MS=900)
    assert held_pull(client, "orders") == [b"first"]
    assert not refusals
    put_timer(client, body=b"second", TIMER_DELAY_MS=900)
    wait_until(lambda: bodies(client.pull("orders")) == [b"first", b"second"])


# --- pop in order --------------------------------------------------------------------------------


ORDERED = {"order": True, "maxMsgNums": 2}


def waiting_pop(client: Client, queue_id: int = ANY) -> int:
    """Pop in order, and wait for messages; return the request's number."""
    return client.send(R.POP_MESSAGE, **pop_fields(queue_id=queue_id, pollTime=20_000, **ORDERED))


def bodies_of(got: list[Got]) -> list[bytes]:
    """The bodies of messages that a pop has given."""
    return [one.body for one in got]


@pytest.mark.behaviour("ConsumerOrderInfoManagerTest.testConsumedCountForMultiQueue")
def test_tries_are_counted_queue_by_queue(client: Client) -> None:
    """Each queue has its own count of tries, and a message that comes for the first time has none."""
    for queue_id in (0, 2):
        client.put("orders", b"%d" % queue_id, queue_id)

    def counts_after(tries: int, queue_id: int) -> str:
        for _ in range(tries):
            (got,) = got_in(client.answer(waiting_pop(client, queue_id)))
            assert change(client, got, 1).code == C.SUCCESS
        answer = client.answer(waiting_pop(client, queue_id))
        assert bodies_of(got_in(answer)) == [b"%d" % queue_id]
        return answer.fields.get("orderCountInfo", "")

    assert "0 qo0%0 2" in counts_after(2, 0).split(";")
    assert "0 qo2%0 1" in counts_after(1, 2).split(";")
    client.put("orders", b"1", 1)
    assert "qo1" not in counts_after(0, 1)


@pytest.mark.behaviour("ConsumerOrderInfoManagerLockFreeNotifyTest.testConsumeMessageThenNoAck")
def test_a_pop_in_order_waits_for_the_end_of_a_lease(client: Client) -> None:
    """Messages that nobody acks come to the pop that waits, when their time is over."""
    for number in range(3):
        client.put("orders", b"%d" % number)
    begun_ms = now_ms()
    assert bodies_of(pop(client, **ORDERED, invisibleTime=400)) == [b"0", b"1"]
    assert bodies_of(got_in(client.answer(waiting_pop(client)))) == [b"0", b"1"]
    assert now_ms() - begun_ms >= 400


@pytest.mark.behaviour(
    "ConsumerOrderInfoManagerLockFreeNotifyTest.testConsumeTheChangeInvisibleLonger",
    "ConsumerOrderInfoManagerLockFreeNotifyTest.testConsumeTheChangeInvisibleShorter",
)
@pytest.mark.parametrize(("first_ms", "then_ms"), [(300, 900), (60_000, 300)], ids=["longer", "shorter"])
def test_a_pop_in_order_waits_for_a_changed_time(client: Client, first_ms: int, then_ms: int) -> None:
    """A time that is changed while a pop waits moves the moment at which it is answered, either way."""
    client.put("orders", b"0")
    (got,) = pop(client, **ORDERED, invisibleTime=first_ms)
    waiting = waiting_pop(client)
    changed_ms = now_ms()
    assert change(client, got, then_ms).code == C.SUCCESS
    assert bodies_of(got_in(client.answer(waiting))) == [b"0"]
    assert then_ms <= now_ms() - changed_ms < 30_000


@pytest.mark.behaviour("ConsumerOrderInfoManagerLockFreeNotifyTest.testRecover")
def test_a_pop_in_order_waits_for_a_lease_of_the_broker_before(tmp_path: Path) -> None:
    """After a restart a pop still waits for what the group holds, and gets it when its time is over."""
    path = tmp_path / "store"
    with reput.serve(path, topics={"orders": 4}) as broker, Client(broker.address) as client:
        client.put("orders", b"0")
        until_ms = now_ms() + 1500
        assert bodies_of(pop(client, **ORDERED, invisibleTime=1500)) == [b"0"]
    with reput.serve(path) as broker, Client(broker.address) as client:
        assert pop(client, **ORDERED) == []
        assert bodies_of(got_in(client.answer(waiting_pop(client)))) == [b"0"]
        assert now_ms() >= until_ms


@pytest.mark.behaviour("ConsumerOrderInfoManagerTest.testAutoCleanAndEncode")
def test_a_deleted_topic_is_held_by_nobody(tmp_path: Path) -> None:
    """Messages of a deleted topic that a group holds are not written any more; those of others are."""
    path = tmp_path / "store"
    with reput.serve(path, topics={"orders": 1, "gone": 1}) as broker, Client(broker.address) as client:
        for topic in ("gone", "orders"):
            client.put(topic)
        assert len(pop(client, "gone", **ORDERED)) == 1
        assert client.ask(R.DELETE_TOPIC_IN_BROKER, topic="gone").code == C.SUCCESS
        assert len(pop(client, **ORDERED)) == 1
    held = json.loads((path / "config" / "consumerOrderInfo.json").read_text().replace("{0:", '{"0":'))["table"]
    assert list(held) == ["orders@g"]


# --- filters of heartbeats -----------------------------------------------------------------------


def subscribe(client: Client, version: int, expression: str, kind: str = "SQL92") -> int:
    """Subscribe the group `watchers` by a filter; return the code of the answer."""
    one = {"topic": "orders", "subString": expression, "subVersion": version, "expressionType": kind}
    group = {"groupName": "watchers", "messageModel": "CLUSTERING", "subscriptionDataSet": [one]}
    return client.beat("c1", group).code


def pull_by_heartbeat(client: Client, version: int, kind: str = "SQL92") -> tuple[int, list[bytes]]:
    """Pull by the filter of the heartbeat; return the code and the bodies."""
    asked = {"sysFlag": 0, "consumerGroup": "watchers", "subVersion": version, "expressionType": kind}
    answer = client.pull("orders", **asked)
    return answer.code, bodies(answer)


@pytest.fixture
def filtered(client: Client) -> Client:
    """A client of a broker whose queue has messages with the property n from 0 to 5, and n as tag."""
    for number in range(6):
        client.put("orders", b"%d" % number, properties=f"n\x01{number}\x02TAGS\x01{number}\x02")
    return client


@pytest.mark.behaviour(
    "ConsumerFilterManagerTest.testRegister",
    "ConsumerFilterManagerTest.testRegister_change",
    "ConsumerFilterManagerTest.testRegister_bySubscriptionData",
    "ConsumerFilterManagerTest.testRegister_reAlive",
    "ConsumerFilterManagerTest.testUnregister",
)
def test_the_filter_of_a_heartbeat_counts_from_version_to_version(filtered: Client) -> None:
    """A filter counts for pulls without one; only a newer version changes it; it ends with the client, and returns."""
    assert pull_by_heartbeat(filtered, 1) == (C.SUBSCRIPTION_NOT_EXIST, [])
    assert subscribe(filtered, 1, "n > 3") == C.SUCCESS
    assert pull_by_heartbeat(filtered, 1) == (C.SUCCESS, [b"4", b"5"])
    assert subscribe(filtered, 1, "n < 2") == C.SUCCESS
    assert pull_by_heartbeat(filtered, 1) == (C.SUCCESS, [b"4", b"5"])
    assert subscribe(filtered, 2, "n < 2") == C.SUCCESS
    assert pull_by_heartbeat(filtered, 2) == (C.SUCCESS, [b"0", b"1"])
    assert filtered.ask(R.UNREGISTER_CLIENT, clientID="c1", consumerGroup="watchers").code == C.SUCCESS
    assert pull_by_heartbeat(filtered, 2) == (C.SUBSCRIPTION_NOT_EXIST, [])
    assert subscribe(filtered, 2, "n < 2") == C.SUCCESS
    assert pull_by_heartbeat(filtered, 2) == (C.SUCCESS, [b"0", b"1"])


@pytest.mark.behaviour("ConsumerFilterManagerTest.testRegister_newExpressionCompileErrorAndRemoveOld")
def test_a_wrong_filter_takes_the_old_one_away(filtered: Client) -> None:
    """A heartbeat whose filter cannot be read leaves the group without one: pulls are refused, and not served all."""
    assert subscribe(filtered, 1, "n > 3") == C.SUCCESS
    subscribe(filtered, 2, "n >")
    assert pull_by_heartbeat(filtered, 2) == (C.FILTER_DATA_NOT_EXIST, [])
    assert subscribe(filtered, 3, "n > 4") == C.SUCCESS
    assert pull_by_heartbeat(filtered, 3) == (C.SUCCESS, [b"5"])


@pytest.mark.behaviour("ConsumerFilterManagerTest.testRegister_tag")
def test_tags_are_no_filter_by_properties(filtered: Client) -> None:
    """A subscription to tags is one by tags, though its text could be a filter."""
    assert subscribe(filtered, 1, "4 || n > 3", "TAG") == C.SUCCESS
    assert pull_by_heartbeat(filtered, 1, "TAG") == (C.SUCCESS, [b"4"])


# --- attributes of topics ------------------------------------------------------------------------


@pytest.fixture(params=["json", "config-v1"])
def admin(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    """A client of a broker that has its topics in JSON, or in RocksDB."""
    store = golden.unpack(request.param, tmp_path)
    with reput.serve(store) as broker, Client(broker.address) as client:
        yield client


def update(client: Client, topic: str, attributes: str, **further: object) -> int:
    """Make or change a topic; return the code of the answer."""
    fields = {**UPDATE, "topic": topic, "topicFilterType": "SINGLE_TAG", "attributes": attributes, **further}
    return client.ask(R.UPDATE_AND_CREATE_TOPIC, **fields).code


def attributes_of(client: Client, topic: str) -> dict[str, str] | None:
    """The attributes of a topic; None if there is no such topic."""
    answer = client.ask(R.GET_TOPIC_CONFIG, topic=topic)
    return None if answer.code == C.TOPIC_NOT_EXIST else json.loads(answer.body)["attributes"]


@pytest.mark.behaviour(
    "RocksdbTopicConfigManagerTest.testAddUnsupportedKeyOnCreating",
    "RocksdbTopicConfigManagerTest.testAddWrongFormatKeyOnCreating",
    "RocksdbTopicConfigManagerTest.testDeleteKeyOnCreating",
    "RocksdbTopicConfigManagerTest.testAddWrongValueOnCreating",
)
@pytest.mark.parametrize(
    "attributes",
    ["+unknown.key=1", "message.type=FIFO", "+message.type", "-message.type", "+message.type=X", "+", "+=FIFO"],
)
def test_a_topic_with_a_wrong_attribute_is_not_made(admin: Client, attributes: str) -> None:
    """An unknown name, a missing sign or value, a removal and a wrong value are refused, and no topic is made."""
    assert update(admin, "made", attributes) == C.SYSTEM_ERROR
    assert attributes_of(admin, "made") is None


@pytest.mark.behaviour(
    "RocksdbTopicConfigManagerTest.testNormalAddKeyOnCreating",
    "RocksdbTopicConfigManagerTest.testNormalQueryKeyOnGetting",
    "RocksdbTopicConfigManagerTest.testAlterTopicWithoutChangingAttributes",
    "RocksdbTopicConfigManagerTest.testAddDuplicatedKeyOnUpdating",
    "RocksdbTopicConfigManagerTest.testDeleteNonexistentKeyOnUpdating",
    "RocksdbTopicConfigManagerTest.testNormalUpdateUnchangeableKeyOnUpdating",
)
def test_attributes_of_a_topic_change_as_asked_or_not_at_all(admin: Client) -> None:
    """Attributes are read back, and stay if something else changes, or if a change is refused."""
    assert update(admin, "made", "+message.type=FIFO") == C.SUCCESS
    assert update(admin, "made", "", readQueueNums=8) == C.SUCCESS
    twice = ["+message.type=NORMAL,+message.type=FIFO", "+message.type=NORMAL,-message.type"]
    for wrong in (*twice, "-queue.type", "+queue.type=BatchCQ", "+cleanup.policy=COMPACTION", "-"):
        assert update(admin, "made", wrong) == C.SYSTEM_ERROR
        assert attributes_of(admin, "made") == {"message.type": "FIFO"}
    assert update(admin, "made", "-message.type") == C.SUCCESS
    assert attributes_of(admin, "made") == {}
    assert update(admin, "made", "-message.type") == C.SYSTEM_ERROR


def test_an_attribute_that_never_changes_was_removed(tmp_path: Path) -> None:
    """A topic of batches stays one: the removal of its queue.type is refused, and other changes keep it."""
    store = golden.unpack("json", tmp_path)
    path = store / "config" / "topics.json"
    document = json.loads(path.read_text())
    document["topicConfigTable"]["quiet"]["attributes"] = {"queue.type": "BatchCQ"}
    path.write_text(json.dumps(document))
    with reput.serve(store) as broker, Client(broker.address) as client:
        assert update(client, "quiet", "-queue.type") == C.SYSTEM_ERROR
        assert update(client, "quiet", "+message.type=NORMAL") == C.SUCCESS
        assert attributes_of(client, "quiet") == {"queue.type": "BatchCQ", "message.type": "NORMAL"}


# --- the first start, and the second -------------------------------------------------------------


@pytest.mark.behaviour(
    "RocksdbTopicConfigTransferTest.theFirstTimeLoadJsonTopicConfigManager",
    "RocksdbTopicConfigTransferTest.theFirstTimeLoadRocksdbTopicConfigManager",
    "RocksdbTopicConfigTransferTest.addTopicLoadJsonTopicConfigManager",
    "RocksdbTopicConfigTransferTest.theSecondTimeLoadJsonTopicConfigManager",
    "RocksdbTopicConfigTransferTest.theSecondTimeLoadRocksdbTopicConfigManager",
    "RocksdbTopicConfigTransferTest.jsonUpgradeToRocksdb",
    "RocksdbGroupConfigTransferTest.theFirstTimeLoadJsonSubscriptionGroupManager",
    "RocksdbGroupConfigTransferTest.theFirstTimeLoadRocksDBSubscriptionGroupManager",
    "RocksdbGroupConfigTransferTest.addGroupLoadJsonSubscriptionGroupManager",
    "RocksdbGroupConfigTransferTest.theSecondTimeLoadJsonSubscriptionGroupManager",
    "RocksdbGroupConfigTransferTest.theSecondTimeLoadRocksdbTopicConfigManager",
    "RocksdbGroupConfigTransferTest.jsonUpgradeToRocksdb",
)
@pytest.mark.parametrize("starts", [[None, None], ["defaultRocksDB", "defaultRocksDB"], ["default", "defaultRocksDB"]])
def test_topics_and_groups_are_there_at_the_second_start(tmp_path: Path, starts: list[str | None]) -> None:
    """A new store keeps topics and groups from start to start, also if the second one is the first with RocksDB."""
    path = tmp_path / "store"
    first, second = (reput.StoreConfig(store_type=one) for one in starts)
    with reput.serve(path, config=first) as broker, Client(broker.address) as client:
        assert update(client, "made", "+message.type=FIFO", readQueueNums=3) == C.SUCCESS
        client.make_group("readers")
    with reput.serve(path, config=second) as broker, Client(broker.address) as client:
        assert attributes_of(client, "made") == {"message.type": "FIFO"}
        assert json.loads(client.ask(R.GET_TOPIC_CONFIG, topic="made").body)["readQueueNums"] == 3
        assert client.ask(R.GET_SUBSCRIPTIONGROUP_CONFIG, group="readers").code == C.SUCCESS
        assert update(client, "later", "") == C.SUCCESS
    topics = metadata_of(path, second).read(Table.TOPICS).values
    assert {"made", "later"} <= topics.keys()


@pytest.mark.behaviour("TopicConfigManagerV2Test.testRemoveTopicConfig")
def test_a_deleted_topic_is_not_in_the_database(tmp_path: Path) -> None:
    """A topic that a client deletes is gone from the database of version 2, with its offsets; others stay."""
    store = golden.unpack("config-v2", tmp_path)
    before = metadata_of(store).read(Table.TOPICS).values
    with reput.serve(store) as broker, Client(broker.address) as client:
        assert client.ask(R.DELETE_TOPIC_IN_BROKER, topic="orders").code == C.SUCCESS
    after = metadata_of(store).read(Table.TOPICS).values
    assert {name for name in before if name not in after} == {"orders"}
    assert not any(key.startswith("orders@") for key in metadata_of(store).read(Table.OFFSETS).values)
