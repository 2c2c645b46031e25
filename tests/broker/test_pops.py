"""Pop consumers: each message goes to a group once at a time, and comes again if nobody acks it."""

from __future__ import annotations

import base64
import logging
import re
from typing import TYPE_CHECKING

import pytest

import reput
from broker.killed import killed_broker
from broker.popping import (
    ack,
    batch_ack,
    batch_entry,
    change,
    got_in,
    handle_fields,
    pop,
    pop_fields,
    renewed,
)
from broker.remoting import Client, bodies, records
from reput.broker.services import due, order_blocks
from reput.broker.services.polls import MAX_LINE
from reput.broker.wire.refusals import refuse
from reput.formats.log.properties import MAX_PROPERTIES_SIZE, text_properties
from reput.formats.pending.pop_database import PopRecord, pop_key
from reput.formats.pending.pop_state import (
    PopAck,
    PopCheckpoint,
    PopKey,
    encode_pop_ack,
    encode_pop_checkpoint,
)
from reput.formats.topics.system_topics import REVIVE_GROUP, TIMER_TOPIC
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.formats.wire.receipt_handle import encode_handle
from reput.times import now_ms
from support.checked import assert_sound
from support.encoders import encode_pop_record
from support.pending import write_database
from support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from broker.popping import Got

RETRY = "%RETRY%g_orders"
REVIVE, OTHER = "rmq_sys_REVIVE_LOG_DefaultCluster", "rmq_sys_REVIVE_LOG_other"
OTHER_TOPIC = b'"%s":{"perm":6,"readQueueNums":1,"topicName":"%s","writeQueueNums":1},' % (
    OTHER.encode(),
    OTHER.encode(),
)


def fill(client: Client, count: int, queue_id: int = 0, **further: object) -> list[bytes]:
    """Send messages to a queue; return their bodies."""
    sent = [b"%d" % number for number in range(count)]
    for body in sent:
        assert client.put("orders", body, queue_id, **further).code == ResponseCode.SUCCESS
    return sent


def pop_waiting(client: Client, **further: object) -> list[Got]:
    """Pop, and wait for messages."""
    fields = pop_fields(**{"pollTime": 20_000, **further})
    return got_in(client.answer(client.send(RequestCode.POP_MESSAGE, **fields)))


@pytest.mark.behaviour("PopLongPollingServiceTest.testPollingNotPolling")
def test_each_message_goes_to_a_group_once_at_a_time(client: Client) -> None:
    """Pops of a group share the messages of all queues; another group gets them, too."""
    sent = fill(client, 5) + fill(client, 5, 2)
    first = pop(client, maxMsgNums=7)
    second = pop(client)

    assert sorted(one.body for one in first + second) == sorted(sent)
    assert (len(first), len(second), pop(client)) == (7, 3, [])
    assert len(pop(client, consumerGroup="other")) == 10


@pytest.mark.behaviour("PopLongPollingServiceTest.testNotifyMessageArrivingWithRetryTopic")
def test_what_is_acked_does_not_come_again(broker: reput.RunningBroker, client: Client) -> None:
    """A message without an ack comes again when its time is over, with one try more; an acked one does not."""
    fill(client, 3, properties="TAGS\x01A\x02KEYS\x01k\x02")
    got = pop(client, invisibleTime=1500)
    assert [ack(client, got[number]) for number in (0, 2)] == [ResponseCode.SUCCESS] * 2
    (again,) = pop_waiting(client)

    assert (again.body, again.record.topic, again.record.reconsume_times) == (b"1", b"orders", 1)
    properties = text_properties(again.record.properties)
    assert (properties["TAGS"], properties["KEYS"], properties["ORIGIN_GROUP"]) == ("A", "k", "g")
    assert properties["1ST_POP_TIME"] == str(got[1].handle.pop_time)
    assert again.handle.kind == "1"
    assert ack(client, again) == ResponseCode.SUCCESS
    assert pop(client) == []
    with reput.MessageStore.open(broker.path, read_only=True) as store:
        assert [one.body for one in store.get_message(RETRY, 0, 0)] == [b"1"]
        assert list(store.pending.pop()) == []


def test_a_message_without_room_for_another_pop_was_lost(
    broker: reput.RunningBroker, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """It becomes a dead letter of its group, and the log says so; a message with room comes again."""
    client.put("orders", b"short", properties="pad\x01x\x02")
    with reput.MessageStore.open(broker.path, read_only=True) as store:
        (first,) = store.get_message("orders", 0, 0)
    room = 1 + MAX_PROPERTIES_SIZE - len(first.record.properties)
    for pad in (room, room - 150, room - 300):
        sent = client.put("orders", b"%d" % pad, properties=f"pad\x01{'x' * pad}\x02")
        assert sent.code == ResponseCode.SUCCESS
    assert len(pop(client, invisibleTime=1500)) == 4
    dead = "%DLQ%g"
    wait_until(lambda: client.pull(dead).code == ResponseCode.SUCCESS and len(bodies(client.pull(dead))) == 2)
    again: list[Got] = []
    while len(again) < 2:
        again += pop_waiting(client)

    assert {*bodies(client.pull(dead))} == {b"%d" % room, b"%d" % (room - 150)}
    assert [ack(client, one) for one in again] == [ResponseCode.SUCCESS] * 2
    assert {one.body for one in again} == {b"short", b"%d" % (room - 300)}
    assert caplog.text.count("a message of a pop becomes a dead letter") == 2
    assert dict(broker._broker.statistics.dead_letters) == {("g", "orders"): 2}


@pytest.mark.behaviour(
    "PopLongPollingServiceTest.testNotifyMessageArriving",
    "PopLongPollingServiceTest.testPollingServicePollingTimeout",
    "PopLongPollingServiceTest.testPollingPollingSuc",
)
def test_a_pop_waits_for_messages(client: Client) -> None:
    """A pop that finds nothing waits, and gets what comes to any queue; without a message it ends with its time."""
    waiting = client.send(RequestCode.POP_MESSAGE, **pop_fields(pollTime=20_000))
    client.put("orders", b"late", 3)
    assert [one.body for one in got_in(client.answer(waiting))] == [b"late"]
    assert client.ask(RequestCode.POP_MESSAGE, **pop_fields(pollTime=50)).code == ResponseCode.POLLING_TIMEOUT


@pytest.mark.behaviour("PopLongPollingServiceTest.testNotifyMessageArrivingValidRequest")
def test_pops_that_wait_are_served_in_their_order(client: Client) -> None:
    """One message wakes one pop: the first of them."""
    waiting = [client.send(RequestCode.POP_MESSAGE, **pop_fields(pollTime=20_000)) for _ in range(3)]
    info = {"consumerGroup": "g", "topic": "orders", "queueId": -1}
    assert client.ask(RequestCode.POLLING_INFO, **info).fields["pollingNum"] == "3"
    for number, opaque in enumerate(waiting):
        client.put("orders", b"%d" % number, number)
        assert [one.body for one in got_in(client.answer(opaque))] == [b"%d" % number]


@pytest.mark.parametrize(("kind", "expression"), [("TAG", "A || B"), ("SQL92", "TAGS = 'A' OR n = 5")])
def test_filters_leave_messages_out(client: Client, kind: str, expression: str) -> None:
    """A filter by tag or by SQL92 counts in queues and in what comes again; what it leaves out is passed."""
    for number in range(40):
        client.put("orders", b"%d" % number, properties=f"TAGS\x01{'A' if number == 33 else 'C'}\x02n\x01{number}\x02")
    wanted = {"expType": kind, "exp": expression, "invisibleTime": 1200}
    got = pop(client, **wanted)
    expected = [b"33"] if kind == "TAG" else [b"5", b"33"]
    assert [one.body for one in got] == expected
    assert sorted(one.body for _ in got for one in pop_waiting(client, maxMsgNums=1, **wanted)) == sorted(expected)


def test_the_time_of_a_message_changes(client: Client) -> None:
    """A message comes again a time after the change, by a new handle; the old one is over."""
    fill(client, 2)
    got = pop(client)
    answer = change(client, got[0], 1000)
    assert answer.code == ResponseCode.SUCCESS
    assert ack(client, got[0]) == ResponseCode.NO_MESSAGE
    longer = change(client, renewed(got[0], answer), 60_000)
    assert change(client, got[1], 0, suspend=True).code == ResponseCode.SUCCESS
    (again,) = pop_waiting(client)
    # A try that was suspended does not count.
    assert (again.body, again.record.reconsume_times) == (b"1", 0)
    assert ack(client, renewed(got[0], longer)) == ResponseCode.SUCCESS


def test_acks_of_several_messages(client: Client) -> None:
    """A batch of acks ends the leases that its bits name, of several pops; one that names none is refused."""
    fill(client, 6)
    first, second = pop(client, maxMsgNums=4), pop(client, maxMsgNums=4)
    assert batch_ack(client, batch_entry([first[0], first[2]]), batch_entry(second)) == ResponseCode.SUCCESS
    assert [ack(client, one) for one in first] == [208, 0, 208, 0]
    assert batch_ack(client, batch_entry(first)) == ResponseCode.NO_MESSAGE
    assert batch_ack(client) == ResponseCode.NO_MESSAGE
    assert batch_ack(client, {"c": "g"}) == ResponseCode.INVALID_PARAMETER


@pytest.mark.behaviour(
    "ConsumerOrderInfoManagerTest.testCommitAndNext",
    "ConsumerOrderInfoManagerTest.testConsumedCount",
    "ConsumerOrderInfoManagerTest.testUpdateNextVisibleTime",
    "ConsumerOrderInfoManagerTest.testReentrant",
    "ConsumerOrderInfoManagerLockFreeNotifyTest.testConsumeMessageThenAck",
)
def test_a_queue_is_given_in_order(client: Client) -> None:
    """An orderly group gets nothing more of a queue until all is acked; what comes again is counted."""
    fill(client, 5)
    ordered = {"order": True, "maxMsgNums": 2}
    got = pop(client, **ordered, attemptId="one")
    assert [one.body for one in got] == [b"0", b"1"]
    assert pop(client, **ordered) == []
    # The same attempt gets the same: its answer was lost.
    assert [one.body for one in pop(client, **ordered, attemptId="one")] == [b"0", b"1"]
    got = pop(client, **ordered, attemptId="one")
    assert ack(client, got[1]) == ResponseCode.SUCCESS
    assert pop(client, **ordered) == []
    waiting = client.send(RequestCode.POP_MESSAGE, **pop_fields(pollTime=20_000, **ordered))
    assert change(client, got[0], 100).code == ResponseCode.SUCCESS
    answer = client.answer(waiting)
    again = got_in(answer)
    assert [one.body for one in again] == [b"0", b"1"]
    assert "0 qo0%0 1" in answer.fields["orderCountInfo"].split(";")
    assert ack(client, got[0]) == ResponseCode.NO_MESSAGE
    waiting = client.send(RequestCode.POP_MESSAGE, **pop_fields(pollTime=20_000, **ordered))
    assert [ack(client, one) for one in again] == [0, 0]
    assert [one.body for one in got_in(client.answer(waiting))] == [b"2", b"3"]


def test_messages_that_are_held_in_order_are_held_from_all_of_the_group(client: Client) -> None:
    """A pop that asks for no order gets nothing of a queue whose messages its group holds in order; others do."""
    fill(client, 3)
    held = pop(client, order=True, maxMsgNums=2)
    assert pop(client) == []
    assert [one.body for one in pop(client, consumerGroup="other")] == [b"0", b"1", b"2"]
    assert [ack(client, one) for one in held] == [0, 0]
    assert [one.body for one in pop(client)] == [b"2"]


def test_a_clock_that_is_set_ahead_frees_nothing_that_is_held_in_order(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queues that nobody asks for are forgotten after a day, but never while their messages are held."""
    fill(client, 2)
    held = pop(client, order=True, maxMsgNums=2)
    monkeypatch.setattr(order_blocks, "now_ms", lambda: now_ms() + 2 * order_blocks.KEPT_MS)
    assert ack(client, held[1]) == ResponseCode.SUCCESS
    broker._broker.order_blocks.persist()
    assert pop(client, order=True) == []
    assert ack(client, held[0]) == ResponseCode.SUCCESS


def test_requests_that_wait_leave_nothing_behind(broker: reput.RunningBroker, client: Client) -> None:
    """The table of those who wait for a group and a topic is empty again when all are answered."""
    client.answer(client.send(RequestCode.POP_MESSAGE, **pop_fields(pollTime=100, order=True)))
    wait_until(lambda: not broker._broker.polls._keys)


def test_peeks_take_nothing(client: Client) -> None:
    """A peek shows what a pop would give, and a notification says that it would; neither takes it."""
    asked = {"consumerGroup": "g", "topic": "orders", "queueId": -1}
    waits = {**asked, "pollTime": 20_000, "bornTime": 0}
    assert client.ask(RequestCode.PEEK_MESSAGE, **asked, maxMsgNums=8).code == ResponseCode.PULL_NOT_FOUND
    assert client.ask(RequestCode.NOTIFICATION, **{**waits, "pollTime": 20}).fields["hasMsg"] == "false"
    waiting = client.send(RequestCode.NOTIFICATION, **waits)
    sent = fill(client, 3, 1)
    assert client.answer(waiting).fields["hasMsg"] == "true"
    assert bodies(client.ask(RequestCode.PEEK_MESSAGE, **asked, maxMsgNums=8)) == sent
    assert [one.body for one in pop(client)] == sent
    assert client.ask(RequestCode.NOTIFICATION, **{**waits, "pollTime": 0}).fields["hasMsg"] == "false"


def test_handles_that_nobody_was_given_are_refused(client: Client) -> None:
    """A handle of another group, queue, time or broker, and any other text, end no lease."""
    fill(client, 2)
    got = pop(client)[0]
    client.make_group("other")
    handle = got.handle
    forged = [
        handle._replace(pop_time=handle.pop_time + 1),
        handle._replace(start_offset=handle.start_offset + 1),
        handle._replace(broker_name="another"),
    ]
    codes = [ack(client, got._replace(extra=encode_handle(one))) for one in forged]
    codes += [ack(client, got, consumerGroup="other"), ack(client, got, topic="TBW102")]
    assert codes == [ResponseCode.NO_MESSAGE] * 5
    elsewhere = encode_handle(handle._replace(queue_id=3))
    for text in ("", "x", "1 2 3", got.extra + " 1 2", got.extra.replace(" ", "-"), elsewhere):
        assert ack(client, got, extraInfo=text) == ResponseCode.INVALID_PARAMETER, text
    assert ack(client, got, queueId=7) == ResponseCode.MESSAGE_ILLEGAL
    assert change(client, got, -1).code == change(client, got, 1 << 60).code == ResponseCode.INVALID_PARAMETER
    assert client.ask(RequestCode.ACK_MESSAGE, **handle_fields(got, topic="none")).code == ResponseCode.TOPIC_NOT_EXIST
    assert ack(client, got) == ResponseCode.SUCCESS
    assert ack(client, got) == ResponseCode.NO_MESSAGE


def test_pops_that_cannot_be_are_refused(client: Client) -> None:
    """Wrong topics, queues, numbers, times and filters have RocketMQ's codes."""
    wrong = {
        ResponseCode.TOPIC_NOT_EXIST: {"topic": "none"},
        ResponseCode.INVALID_PARAMETER: {"queueId": 4},
        ResponseCode.SUBSCRIPTION_PARSE_FAILED: {"exp": "a >", "expType": "SQL92"},
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: {"consumerGroup": "no group"},
    }
    for code, fields in wrong.items():
        assert client.ask(RequestCode.POP_MESSAGE, **pop_fields(**fields)).code == code, fields
    for name, value in (("maxMsgNums", 33), ("invisibleTime", 0), ("invisibleTime", 1 << 60), ("queueId", -2)):
        answer = client.ask(RequestCode.POP_MESSAGE, **pop_fields(**{name: value}))
        assert answer.code == ResponseCode.INVALID_PARAMETER, name


def test_a_reset_sends_a_group_back(client: Client) -> None:
    """After a reset of its offset a group gets messages from there, though they are acked."""
    fill(client, 3)
    for one in pop(client):
        ack(client, one)
    fields = {"group": "g", "topic": "orders", "timestamp": -1, "isForce": True, "queueId": 0, "offset": 1}
    assert client.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **fields).code == ResponseCode.SUCCESS
    assert [one.body for one in pop(client)] == [b"1", b"2"]


def test_leases_outlive_a_kill(tmp_path: Path) -> None:
    """After a kill nothing acked comes again, and what is leased comes again when its time is over."""
    store = tmp_path / "store"
    with killed_broker(store) as client:
        fill(client, 8)
        got = pop(client, maxMsgNums=4, invisibleTime=60_000)
        soon = pop(client, maxMsgNums=2, invisibleTime=1500)
        assert [ack(client, one) for one in got[:3]] == [ResponseCode.SUCCESS] * 3
    with reput.serve(store) as broker, Client(broker.address) as client:
        # Queues and retry topics take turns, and leases end meanwhile.
        came = [pop_waiting(client, maxMsgNums=1) for _ in range(4)]
        assert sorted(one.body for (one,) in came) == [*(one.body for one in soon), b"6", b"7"]
        # A handle of the broker that was killed is good; what it has taken is taken.
        assert [ack(client, one) for one in got] == [*[ResponseCode.NO_MESSAGE] * 3, ResponseCode.SUCCESS]
        assert pop(client) == []
    assert_sound(store)


def test_acks_in_order_outlive_a_kill(tmp_path: Path) -> None:
    """An ack in order is answered when it is on the disk: after a kill, however soon, nothing acked comes again."""
    store = tmp_path / "store"
    with killed_broker(store) as client:
        fill(client, 8)
        for _ in range(3):
            got = pop(client, order=True, maxMsgNums=2, invisibleTime=60_000)
            assert [ack(client, one) for one in got] == [ResponseCode.SUCCESS] * 2
        held = pop(client, order=True, maxMsgNums=2, invisibleTime=60_000)
        assert ack(client, held[0]) == ResponseCode.SUCCESS
    with reput.serve(store) as broker, Client(broker.address) as client:
        assert pop(client, order=True) == []
        assert ack(client, held[1]) == ResponseCode.SUCCESS
        assert pop(client, order=True) == []
    assert_sound(store)


def test_leases_that_are_done_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker's own group passes checkpoints that are done, so that a start does not read them again."""
    monkeypatch.setattr(due, "LONGEST_WAIT_S", 0.02)
    with reput.serve(tmp_path / "store", topics={"orders": 1}) as broker, Client(broker.address) as client:
        fill(client, 2)
        for one in pop(client, invisibleTime=1200):
            ack(client, one)
        queue = {"topic": REVIVE, "queueId": 0}
        wait_until(lambda: client.ask(RequestCode.GET_MAX_OFFSET, **queue).fields["offset"] == "3")
        fields = {"consumerGroup": REVIVE_GROUP, **queue}
        wait_until(lambda: client.ask(RequestCode.QUERY_CONSUMER_OFFSET, **fields).fields.get("offset") == "2")
    assert_sound(tmp_path / "store")


def test_leases_of_another_broker_are_taken_over(tmp_path: Path) -> None:
    """Checkpoints that a broker of RocketMQ has left end as it would end them; its acks count."""
    path = tmp_path / "store"
    with reput.serve(path, topics={"orders": 1}) as broker, Client(broker.address) as client:
        client.make_group("billing")
        fill(client, 6)
    key = PopKey("orders", "billing", 0, 1, now_ms() - 30_000)
    with reput.MessageStore.open(path) as store:
        store.commit_offset("billing", "orders", 0, 5)
        for made, place in (
            (encode_pop_checkpoint(PopCheckpoint(key, 10_000, 4, (0, 1, 2, 3), 0b1000, 0, "broker-a")), (REVIVE, 2)),
            (encode_pop_ack(PopAck(key, (2,), "broker-a")), (REVIVE, 2)),
            # Another cluster's, which are not due yet.
            (
                encode_pop_checkpoint(PopCheckpoint(key._replace(start_offset=0), 33_000, 1, (0,), 0, 0, "b")),
                (OTHER, 0),
            ),
        ):
            store.put_message(reput.Message(place[0], made.body, tags=made.tag, unique_key=made.unique_key), place[1])
    configuration = path / "config" / "topics.json"
    configuration.write_bytes(configuration.read_bytes().replace(b'"orders":{', OTHER_TOPIC + b'"orders":{', 1))
    with reput.serve(path) as broker, Client(broker.address) as client:
        pops = [pop_waiting(client, maxMsgNums=1, consumerGroup="billing") for _ in range(4)]
        came = [(one.body, one.record.reconsume_times) for (one,) in pops]
        # The queue goes on at the group's offset.
        assert sorted(came) == [(b"0", 1), (b"1", 1), (b"3", 1), (b"5", 0)]
    assert_sound(path)


def test_leases_outlive_a_restart(tmp_path: Path) -> None:
    """A consumer goes on with the handles of the broker before, also in order."""
    path = tmp_path / "store"
    with reput.serve(path, topics={"orders": 1}) as broker, Client(broker.address) as client:
        fill(client, 4)
        got = pop(client, maxMsgNums=2)
        ordered = pop(client, maxMsgNums=2, consumerGroup="ordered", order=True)
    with reput.serve(path) as broker, Client(broker.address) as client:
        assert [one.body for one in pop(client)] == [b"2", b"3"]
        assert pop(client, consumerGroup="ordered", order=True) == []
        assert [ack(client, one) for one in got] == [0, 0]
        assert [ack(client, one, consumerGroup="ordered") for one in ordered] == [0, 0]
        assert [one.body for one in pop(client, consumerGroup="ordered", order=True)] == [b"2", b"3"]
    assert_sound(path)


@pytest.mark.parametrize("first_held", [0, 2])
def test_acks_in_order_outlive_a_kill_before_the_offset_is_written(tmp_path: Path, first_held: int) -> None:
    """A start takes the offset from acks that are on the disk, unless the group was sent to an earlier one."""
    path = tmp_path / "store"
    with reput.serve(path, topics={"orders": 1}) as broker, Client(broker.address) as client:
        fill(client, 5)
        for _ in range(first_held):
            assert [ack(client, one) for one in pop(client, order=True, maxMsgNums=1)] == [0]
        assert [ack(client, one) for one in pop(client, order=True, maxMsgNums=2)] == [0, 0]
    with reput.MessageStore.open(path) as store:
        assert store.query_offset("g", "orders", 0) == first_held + 2
        store.commit_offset("g", "orders", 0, 0)
    with reput.serve(path) as broker, Client(broker.address) as client:
        wanted = 0 if first_held else 2
        assert [one.body for one in pop(client, order=True, maxMsgNums=1)] == [b"%d" % wanted]
    assert_sound(path)


@pytest.mark.parametrize("jump_ms", [-3_600_000, 3_600_000])
def test_a_clock_that_jumps_moves_no_lease(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch, jump_ms: int
) -> None:
    """A clock that is set while messages are leased neither ends a lease nor makes it longer."""
    assert broker.path.exists()
    fill(client, 2)
    long, short = pop(client, maxMsgNums=1), pop(client, maxMsgNums=1, invisibleTime=1200)
    for service in ("leases", "pops", "order_blocks"):
        monkeypatch.setattr(f"reput.broker.services.{service}.now_ms", lambda: now_ms() + jump_ms)
    assert [one.body for one in pop_waiting(client)] == [one.body for one in short]
    assert ack(client, long[0]) == ResponseCode.SUCCESS
    assert pop(client) == []


def test_ten_thousand_pops_wait(broker: reput.RunningBroker, client: Client) -> None:
    """Each group has a line of 1,024; a further pop is refused as full, and a message wakes one of each group."""
    groups = [f"g{number}" for number in range(10)]
    requests = [
        (RequestCode.POP_MESSAGE, b"", 0, pop_fields(pollTime=60_000, consumerGroup=group))
        for group in groups
        for _ in range(MAX_LINE)
    ]
    waiting = client.send_all(requests)
    full = client.ask(RequestCode.POP_MESSAGE, **pop_fields(pollTime=60_000, consumerGroup="g0"))
    assert (full.code, full.fields["restNum"]) == (ResponseCode.POLLING_FULL, "0")
    assert len(broker._broker.polls) == len(waiting) == 10_240
    with Client(broker.address) as sender:
        sender.put("orders", b"one")
    for first in waiting[::MAX_LINE]:
        assert [one.body for one in got_in(client.answer(first))] == [b"one"]
    client.close()
    # The loop drops the last poll before its line.
    wait_until(lambda: len(broker._broker.polls) == broker._broker.polls._watched == 0)


def test_pops_of_a_topic_that_is_deleted_end(client: Client) -> None:
    """A pop that waits for a topic is answered when the topic is deleted, and its leases end without a retry topic."""
    assert client.put("gone", b"x").code == ResponseCode.SUCCESS
    assert len(pop(client, "gone", invisibleTime=1000)) == 1
    waiting = client.send(RequestCode.POP_MESSAGE, **pop_fields("gone", pollTime=60_000))
    assert client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="gone").code == ResponseCode.SUCCESS
    assert client.answer(waiting).code == ResponseCode.POLLING_TIMEOUT
    wait_until(lambda: client.ask(RequestCode.POP_MESSAGE, **pop_fields("gone")).code == ResponseCode.TOPIC_NOT_EXIST)


@pytest.mark.behaviour("PopLongPollingServiceTest.testWakeUpInactiveChannel")
def test_a_consumer_that_goes_leaves_its_messages(broker: reput.RunningBroker, client: Client) -> None:
    """Messages of a consumer whose connection ends come to another one when their time is over; a pop of it is gone."""
    fill(client, 3)
    with Client(broker.address) as gone:
        held = pop(gone, maxMsgNums=2, invisibleTime=1500)
        assert ack(gone, held[0]) == ResponseCode.SUCCESS
        assert len(pop(gone)) == 1
        gone.send(RequestCode.POP_MESSAGE, **pop_fields(pollTime=60_000))
        wait_until(lambda: len(broker._broker.polls) == 1)
    assert [one.body for one in pop_waiting(client)] == [b"1"]


def test_a_message_that_fails_for_ever_becomes_a_dead_letter(client: Client) -> None:
    """Its client counts, as with RocketMQ: it sends the message back with level -1, and acks it."""
    fill(client, 1)
    (got,) = pop(client, invisibleTime=1000)
    (again,) = pop_waiting(client)
    back = {"group": "g", "offset": again.record.physical_offset, "delayLevel": -1, "originTopic": "orders"}
    assert client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, **back).code == ResponseCode.SUCCESS
    assert ack(client, again) == ResponseCode.SUCCESS
    (dead,) = records(client.pull("%DLQ%g"))
    assert (dead.body, dead.reconsume_times) == (got.body, 2)


def test_other_state_that_a_broker_has_left_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Leases in RocksDB stay there, and the log says so; a damaged checkpoint is named, and the others count."""
    path = tmp_path / "store"
    with reput.MessageStore.open(path, create=True) as store:
        store.put_message(reput.Message(REVIVE, b"no checkpoint", tags="ck"), 0)
    record = PopRecord("g", "orders", 0, 0, 1, 1)
    write_database(path / "kvStore", {"popState": {pop_key(record): encode_pop_record(record)}})
    with caplog.at_level(logging.WARNING, "reput.broker"), reput.serve(path):
        pass
    assert "the body is no checkpoint of pop" in caplog.text
    assert "popConsumerKVServiceEnable" in caplog.text


def test_groups_that_take_turns_read_all_queues(client: Client) -> None:
    """With two groups and two queues each group began with the same queue at each pop, and got nothing of the other."""
    fill(client, 40, 0)
    fill(client, 40, 1)
    queues: dict[str, set[int]] = {"a": set(), "b": set()}
    for _ in range(60):
        for group, seen in queues.items():
            (got,) = pop(client, consumerGroup=group, maxMsgNums=1)
            seen.add(got.record.queue_id)
    assert queues == {"a": {0, 1}, "b": {0, 1}}


def test_a_group_without_a_retry_topic_holds_up_no_other(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its lease stayed the first one that is over, so no message of any group came again."""
    make_own = broker._broker.topics.make_own

    def refused(name: str, queues: int) -> object:
        if "refused" in name:
            refuse(ResponseCode.SYSTEM_ERROR, "too many topics")
        return make_own(name, queues)

    monkeypatch.setattr(broker._broker.topics, "make_own", refused)
    sent = fill(client, 2)
    assert len(pop(client, consumerGroup="refused", invisibleTime=1000)) == 2
    assert len(pop(client, invisibleTime=1200)) == 2
    came = [pop_waiting(client, maxMsgNums=1) for _ in sent]
    assert sorted(one.body for (one,) in came) == sent
    assert caplog.text.count("too many topics") == 1


def test_a_change_of_the_time_is_no_pop_after_a_reset(tmp_path: Path) -> None:
    """A reset, a change of the time of a message that was held before it, and a kill: the group begins at its reset."""
    store = tmp_path / "store"
    with killed_broker(store, "--set", "flushConsumerOffsetInterval=50") as client:
        sent = fill(client, 5)
        held = pop(client)[-1]
        fields = {"group": "g", "topic": "orders", "timestamp": -1, "isForce": True, "queueId": 0, "offset": 1}
        assert client.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **fields).code == ResponseCode.SUCCESS
        assert [one.body for one in pop(client, maxMsgNums=1)] == sent[1:2]
        # The offsets are written, with the note that they have seen both checkpoints.
        written = store / "config" / "consumerOffset.json"
        noted = re.compile(rf'"{TIMER_TOPIC}@{REVIVE_GROUP}":\{{\s*0:2\s')
        wait_until(lambda: written.exists() and noted.search(written.read_text()) is not None)
        assert change(client, held, 60_000).code == ResponseCode.SUCCESS
    with reput.serve(store) as broker, Client(broker.address) as client:
        assert [one.body for one in pop(client)] == sent[2:]
    assert_sound(store)


def test_a_change_that_is_refused_leaves_the_lease(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message is leased once, as before, though the store has taken the new checkpoint."""
    fill(client, 1)
    (got,) = pop(client)
    leases = broker._broker.leases
    with monkeypatch.context() as patch:
        patch.setattr(leases, "_put_ack", lambda *_: refuse(ResponseCode.SYSTEM_BUSY, "busy"))
        assert change(client, got, 50_000).code == ResponseCode.SYSTEM_BUSY
    assert len(leases) == 1
    assert ack(client, got) == ResponseCode.SUCCESS
    assert len(leases) == 0


def test_a_large_set_of_bits(client: Client) -> None:
    """Of a large set of bits only as many count as a pop has messages; bits of no message change nothing."""
    fill(client, 3)
    got = pop(client)
    entry = batch_entry(got)
    entry["b"] = base64.b64encode(b"\x07" + bytes(700_000) + b"\xff" * 1000).decode()
    assert batch_ack(client, entry) == ResponseCode.SUCCESS
    assert [ack(client, one) for one in got] == [ResponseCode.NO_MESSAGE] * 3
