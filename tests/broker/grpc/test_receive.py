"""Consumers of gRPC get each message once at a time, until they acknowledge it."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import reput
from broker.grpc.stubs import GrpcClient, message, subscribing
from broker.remoting import Client, bodies
from broker.test_config_writes import Disk
from reput.broker.grpc import leased, receive, server
from reput.broker.grpc.protocol import service_pb2 as protocol
from reput.broker.grpc.protocol.definition_pb2 import ClientType, Code, FilterType, MessageType, Resource
from reput.broker.wire.refusals import refuse
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.times import HOUR_MS
from support.checked import assert_sound
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reput.broker.grpc.protocol.definition_pb2 import Message

GROUP = "readers"
NOTHING_MS = 200
SHORTEST_POLL_MS = receive.SHORTEST_POLL_MS


@pytest.fixture(autouse=True)
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a call that gets nothing end soon: what may still come is seen in the broker's leases (`is_over`)."""
    monkeypatch.setattr(receive, "SHORTEST_POLL_MS", NOTHING_MS)


@pytest.fixture
def consumer(client: GrpcClient) -> Iterator[GrpcClient]:
    """A simple consumer of `orders` and `fifo`."""
    with client.telemetry() as stream:
        stream.give(subscribing(GROUP, ["orders", "fifo"]))
        yield client


def ask(
    topic: str = "orders", *, batch: int = 32, lease_s: int = 10, wait_s: float = 0, tags: str = "*", **further: Any
) -> protocol.ReceiveMessageRequest:
    """The question of a consumer."""
    request = protocol.ReceiveMessageRequest(group=Resource(name=GROUP), batch_size=batch, **further)
    request.message_queue.topic.name = topic
    request.filter_expression.expression = tags
    request.invisible_duration.seconds = lease_s
    request.long_polling_timeout.FromMilliseconds(int(wait_s * 1000))
    return request


def received(client: GrpcClient, request: protocol.ReceiveMessageRequest) -> tuple[int, list[Message]]:
    """The code of an answer, and its messages; the last part of each answer of messages is its time."""
    parts = client.stream("ReceiveMessage", request)
    kinds = [part.WhichOneof("content") for part in parts]
    messages = [part.message for part in parts if part.WhichOneof("content") == "message"]
    assert kinds[0] == "status"
    if len(parts) > 1:
        assert kinds == ["status", *["message"] * len(messages), "delivery_timestamp"]
    return parts[0].status.code, messages


def is_over(broker: reput.RunningBroker, client: GrpcClient, topic: str = "orders") -> bool:
    """True if nothing comes, and no message is leased that could come again."""
    return received(client, ask(topic))[0] == Code.MESSAGE_NOT_FOUND and not broker._broker.leases._leases


def entry(one: Message) -> protocol.AckMessageEntry:
    """The entry of a message in the call that acknowledges it."""
    system = one.system_properties
    return protocol.AckMessageEntry(message_id=system.message_id, receipt_handle=system.receipt_handle)


def ack(client: GrpcClient, *messages: Message, topic: str = "orders", group: str = GROUP) -> Any:
    """Acknowledge messages."""
    entries = [entry(one) for one in messages]
    request = protocol.AckMessageRequest(group=Resource(name=group), topic=Resource(name=topic), entries=entries)
    return client.call("AckMessage", request)


def change(client: GrpcClient, one: Message, milliseconds: int) -> Any:
    """Let a message come again after a time."""
    request = protocol.ChangeInvisibleDurationRequest(group=Resource(name=GROUP), topic=one.topic)
    request.receipt_handle = one.system_properties.receipt_handle
    request.invisible_duration.FromMilliseconds(milliseconds)
    return client.call("ChangeInvisibleDuration", request)


def make_group(remoting: Client, **rules: Any) -> None:
    """Give the group a configuration."""
    body = json.dumps({"groupName": GROUP, **rules}).encode()
    assert remoting.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body).code == ResponseCode.SUCCESS


def test_a_group_that_was_not_durable_got_messages(
    broker: reput.RunningBroker, client: GrpcClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group that a call makes gets its messages when it is durable."""
    client.send(message(body=b"one"))
    disk = Disk(broker, monkeypatch)
    disk.is_open.clear()
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(received, client, ask(wait_s=5))
        wait_until(lambda: disk.writes == ["subscriptionGroup.json"])
        # The loop has served the call before this one.
        client.send(message("fifo", message_group="a"))
        is_leased = bool(broker._broker.leases._leases)
        disk.is_open.set()
        code, (got,) = asked.result()
    assert (is_leased, code, got.body) == (False, Code.OK, b"one")


def test_a_message_comes_as_it_was_sent(consumer: GrpcClient) -> None:
    """With its properties, its digest, its place, the number of the try, and a handle that acknowledges it."""
    sent = message(body=b"one", tag="paid", keys=["k1", "k2"], born_host="box")
    sent.user_properties["colour"] = "red"
    consumer.send(sent)
    code, (got,) = received(consumer, ask(tags="paid || other"))
    system = got.system_properties
    assert (code, got.body, dict(got.user_properties), got.topic.name) == (Code.OK, b"one", {"colour": "red"}, "orders")
    assert (system.tag, list(system.keys), system.message_id) == (
        "paid",
        ["k1", "k2"],
        sent.system_properties.message_id,
    )
    assert (system.born_host, system.message_type, system.delivery_attempt) == ("box", MessageType.NORMAL, 1)
    assert system.body_digest.checksum == "F97C5D29941BFB1B2FDAB0874906AB82"
    answer = ack(consumer, got)
    assert (answer.status.code, [one.status.code for one in answer.entries]) == (Code.OK, [Code.OK])


def test_each_message_is_given_once_and_those_that_are_not_acknowledged_come_again(
    broker: reput.RunningBroker, consumer: GrpcClient
) -> None:
    """A change of its time lets one come at once, with the next number of the try; its new handle ends it."""
    for number in range(12):
        consumer.send(message(body=b"%d" % number))
    got: list[Message] = []
    while len(got) < 12:
        code, more = received(consumer, ask(batch=5))
        assert code == Code.OK
        got += more
    assert sorted(int(one.body) for one in got) == list(range(12))
    assert ack(consumer, *got[1:]).status.code == Code.OK
    assert change(consumer, got[0], 1000).status.code == Code.OK
    # As with RocketMQ's proxy a call for more than 32 gets 32.
    code, (again,) = received(consumer, ask(batch=99, wait_s=20))
    assert (again.body, again.system_properties.delivery_attempt) == (got[0].body, 2)
    # RocketMQ's proxy hides what the broker notes in a message that comes again.
    assert (again.topic.name, dict(again.user_properties)) == ("orders", {})
    assert not is_over(broker, consumer)
    assert ack(consumer, again).status.code == Code.OK
    assert is_over(broker, consumer)


def test_a_consumer_waits_for_a_message(consumer: GrpcClient) -> None:
    """It gets the message when that is sent; a filter lets others pass."""
    timer = threading.Timer(0.5, lambda: [consumer.send(message(tag="no")), consumer.send(message(body=b"2", tag="a"))])
    timer.start()
    begin = time.monotonic()
    code, got = received(consumer, ask(tags="a", wait_s=20))
    timer.join()
    assert (code, [one.body for one in got]) == (Code.OK, [b"2"])
    assert time.monotonic() - begin < 15


def test_a_change_has_a_new_handle(consumer: GrpcClient) -> None:
    """It acknowledges the message; the old one does not any more."""
    consumer.send(message())
    _, (got,) = received(consumer, ask())
    changed = change(consumer, got, 20_000)
    assert changed.status.code == Code.OK
    assert ack(consumer, got).status.code == Code.INVALID_RECEIPT_HANDLE
    got.system_properties.receipt_handle = changed.receipt_handle
    assert ack(consumer, got).status.code == Code.OK


def test_a_message_becomes_a_dead_letter_on_request(consumer: GrpcClient, remoting: Client) -> None:
    """It does not come again, and the group's dead letters have it."""
    consumer.send(message(body=b"bad"))
    _, (got,) = received(consumer, ask())
    request = protocol.ForwardMessageToDeadLetterQueueRequest(group=Resource(name=GROUP), topic=Resource(name="orders"))
    request.receipt_handle = got.system_properties.receipt_handle
    assert consumer.call("ForwardMessageToDeadLetterQueue", request).status.code == Code.OK
    assert bodies(remoting.pull(f"%DLQ%{GROUP}")) == [b"bad"]
    assert ack(consumer, got).status.code == Code.INVALID_RECEIPT_HANDLE
    assert consumer.call("ForwardMessageToDeadLetterQueue", request).status.code == Code.INVALID_RECEIPT_HANDLE
    consumer.send(message(body=b"good"))
    _, (got,) = received(consumer, ask())
    words = got.system_properties.receipt_handle.split(" ")
    request.receipt_handle = " ".join([*words[:-1], "1"])
    assert consumer.call("ForwardMessageToDeadLetterQueue", request).status.code == Code.INVALID_RECEIPT_HANDLE
    assert bodies(remoting.pull(f"%DLQ%{GROUP}")) == [b"bad"]


@pytest.mark.parametrize("broker", ["ASYNC_FLUSH"], indirect=True)
def test_a_message_that_was_given_too_often_becomes_a_dead_letter(
    broker: reput.RunningBroker, consumer: GrpcClient, remoting: Client
) -> None:
    """It is given `retryMaxTimes` times after the first one."""
    make_group(remoting, retryMaxTimes=1)
    consumer.send(message(body=b"bad"))
    for attempt in (1, 2):
        code, (got,) = received(consumer, ask(wait_s=20))
        assert (code, got.system_properties.delivery_attempt) == (Code.OK, attempt)
        assert change(consumer, got, 0).status.code == Code.OK
    wait_until(lambda: is_over(broker, consumer))
    assert bodies(remoting.pull(f"%DLQ%{GROUP}")) == [b"bad"]


def test_a_group_in_order_gets_a_queue_in_order(
    broker: reput.RunningBroker, consumer: GrpcClient, remoting: Client
) -> None:
    """Nothing more comes from a queue until all is acknowledged; what comes again says how often it was given."""
    make_group(remoting, consumeMessageOrderly=True)
    sent = [b"%d" % number for number in range(6)]
    for body in sent:
        consumer.send(message("fifo", body, MessageType.FIFO, message_group="a"))
    _, first = received(consumer, ask("fifo", batch=2))
    assert [one.body for one in first] == sent[:2]
    assert ack(consumer, first[0], topic="fifo").status.code == Code.OK
    assert received(consumer, ask("fifo"))[0] == Code.MESSAGE_NOT_FOUND
    assert change(consumer, first[1], 0).status.code == Code.OK
    _, again = received(consumer, ask("fifo", wait_s=20))
    assert [one.body for one in again] == sent[1:]
    assert [one.system_properties.delivery_attempt for one in again] == [2, 1, 1, 1, 1]
    assert ack(consumer, *again, topic="fifo").status.code == Code.OK
    assert is_over(broker, consumer, "fifo")


@pytest.mark.parametrize("broker", ["ASYNC_FLUSH"], indirect=True)
def test_a_group_that_may_not_consume_is_refused(consumer: GrpcClient, remoting: Client) -> None:
    """By the code of a missing permission."""
    make_group(remoting, consumeEnable=False)
    assert received(consumer, ask()) == (Code.FORBIDDEN, [])


@pytest.mark.parametrize("broker", ["ASYNC_FLUSH"], indirect=True)
def test_forged_handles_are_refused(consumer: GrpcClient) -> None:
    """Those of other groups and topics are refused, too; what is held stays held."""
    consumer.send(message())
    _, (got,) = received(consumer, ask())
    true = got.system_properties.receipt_handle
    words = true.split(" ")
    forged = ["", "x", true + " 1", true.replace(" ", ""), " ".join(words[:-1]), "-1 " + " ".join(words[1:])]
    # The lease itself knows its invisible time and its revive queue: those of the handle do not count.
    forged += [" ".join([*words[:at], "987654", *words[at + 1 :]]) for at in (0, 1, 4, 5, 6, 7)]
    for handle in forged:
        got.system_properties.receipt_handle = handle
        assert ack(consumer, got).status.code == Code.INVALID_RECEIPT_HANDLE, handle
        assert change(consumer, got, 1000).status.code == Code.INVALID_RECEIPT_HANDLE, handle
    got.system_properties.receipt_handle = true
    assert ack(consumer, got, group="others").status.code == Code.INVALID_RECEIPT_HANDLE
    assert ack(consumer, got, topic="fifo").status.code == Code.INVALID_RECEIPT_HANDLE
    for group, topic in (("others", "orders"), (GROUP, "fifo")):
        named = {"group": Resource(name=group), "topic": Resource(name=topic), "receipt_handle": true}
        moved = protocol.ChangeInvisibleDurationRequest(**named)
        dead = protocol.ForwardMessageToDeadLetterQueueRequest(**named)
        assert consumer.call("ChangeInvisibleDuration", moved).status.code == Code.INVALID_RECEIPT_HANDLE
        assert consumer.call("ForwardMessageToDeadLetterQueue", dead).status.code == Code.INVALID_RECEIPT_HANDLE
    other = protocol.AckMessageEntry(message_id="m", receipt_handle="x")
    request = protocol.AckMessageRequest(group=Resource(name=GROUP), topic=got.topic, entries=[entry(got), other])
    both = consumer.call("AckMessage", request)
    assert both.status.code == Code.MULTIPLE_RESULTS
    assert [one.status.code for one in both.entries] == [Code.OK, Code.INVALID_RECEIPT_HANDLE]


@pytest.mark.parametrize(
    ("request_of", "code"),
    [
        (lambda: ask(lease_s=9), Code.ILLEGAL_INVISIBLE_TIME),
        (lambda: ask(lease_s=43_201), Code.ILLEGAL_INVISIBLE_TIME),
        (lambda: ask("no topic"), Code.ILLEGAL_TOPIC),
        (lambda: ask("unheard"), Code.TOPIC_NOT_FOUND),
        (lambda: ask(batch=0), Code.BAD_REQUEST),
        (lambda: ask(batch=-1), Code.BAD_REQUEST),
    ],
)
@pytest.mark.parametrize("broker", ["ASYNC_FLUSH"], indirect=True)
def test_a_question_that_cannot_be_is_refused(consumer: GrpcClient, request_of: Any, code: Code) -> None:
    """Its answer is one status, with the protocol's code."""
    assert received(consumer, request_of()) == (code, [])


@pytest.mark.parametrize("broker", ["ASYNC_FLUSH"], indirect=True)
def test_a_wrong_filter_and_a_short_deadline_are_refused(consumer: GrpcClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that is no filter of SQL92; a call whose time is over before the shortest poll."""
    request = ask(tags="a = = b")
    request.filter_expression.type = FilterType.SQL
    assert received(consumer, request)[0] == Code.ILLEGAL_FILTER_EXPRESSION
    monkeypatch.setattr(receive, "SHORTEST_POLL_MS", SHORTEST_POLL_MS)
    (part,) = consumer.stream("ReceiveMessage", ask(), timeout_s=2)
    assert part.status.code == Code.ILLEGAL_POLLING_TIME


def test_a_client_that_was_killed_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases that the broker renews go on while their client lives, and its messages come soon after its end."""
    monkeypatch.setattr(leased, "AHEAD_MS", leased.LEASE_MS + 1)
    monkeypatch.setattr(server, "_SWEEP_S", 0.05)
    with reput.serve(topics={"orders": 1}, grpc_port=0) as other:
        assert other.grpc_address is not None
        with GrpcClient(other.grpc_address) as living, GrpcClient(other.grpc_address) as killed:
            living.send(message(body=b"held"))
            with killed.telemetry() as stream, living.telemetry() as living_stream:
                for one in (stream, living_stream):
                    one.give(subscribing(GROUP, kind=ClientType.PUSH_CONSUMER))
                _, (got,) = received(killed, ask(auto_renew=True))
                leases = other._broker.leases._leases
                (given,) = list(leases)
                wait_until(lambda: given not in leases)
                assert ack(living, got).status.code == Code.INVALID_RECEIPT_HANDLE
                ended = protocol.NotifyClientTerminationRequest(group=Resource(name=GROUP))
                assert killed.call("NotifyClientTermination", ended).status.code == Code.OK
                _, (again,) = received(living, ask(wait_s=20))
                assert (again.body, again.system_properties.delivery_attempt) == (b"held", 2)
                assert ack(killed, got).status.code == Code.INVALID_RECEIPT_HANDLE
                assert ack(living, again).status.code == Code.OK


def test_a_call_that_is_refused_for_now_can_be_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker had dropped the present handle of a lease that it had renewed; the client knows only its first one."""
    monkeypatch.setattr(leased, "AHEAD_MS", leased.LEASE_MS + 1)
    monkeypatch.setattr(server, "_SWEEP_S", 0.05)
    with reput.serve(topics={"orders": 1}, grpc_port=0) as other, GrpcClient(str(other.grpc_address)) as client:
        client.send(message(body=b"held"))
        with client.telemetry() as stream:
            stream.give(subscribing(GROUP, kind=ClientType.PUSH_CONSUMER))
            _, (got,) = received(client, ask(auto_renew=True))
            leases = other._broker.leases._leases
            (given,) = list(leases)
            wait_until(lambda: given not in leases)
            request = protocol.ForwardMessageToDeadLetterQueueRequest(group=Resource(name=GROUP), topic=got.topic)
            request.receipt_handle = got.system_properties.receipt_handle
            with monkeypatch.context() as patch:
                for name in ("ack", "change", "holds"):
                    patch.setattr(other._broker.pops, name, lambda *_, **__: refuse(ResponseCode.SYSTEM_BUSY, "busy"))
                assert ack(client, got).status.code == Code.TOO_MANY_REQUESTS
                assert change(client, got, 20_000).status.code == Code.TOO_MANY_REQUESTS
                forwarded = client.call("ForwardMessageToDeadLetterQueue", request)
                assert forwarded.status.code == Code.TOO_MANY_REQUESTS
            assert ack(client, got).status.code == Code.OK
            assert not leases


@pytest.mark.parametrize("broker", ["ASYNC_FLUSH"], indirect=True)
def test_a_call_that_ends_early_gives_all_back(consumer: GrpcClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that were popped for a call that fails come again soon, and not when their lease ends."""
    sent = [b"%d" % number for number in range(3)]
    for body in sent:
        consumer.send(message("fifo", body, MessageType.FIFO, message_group="a"))
    make, made = receive.message_of, []

    def fails_once(*arguments: Any, **named: Any) -> Message:
        made.append(arguments)
        if len(made) == 2:
            raise ValueError("no message")
        return make(*arguments, **named)

    monkeypatch.setattr(receive, "message_of", fails_once)
    assert received(consumer, ask("fifo", lease_s=60))[0] == Code.INTERNAL_SERVER_ERROR
    found: set[bytes] = set()
    while found < set(sent):
        code, got = received(consumer, ask("fifo", wait_s=20, lease_s=60))
        assert code == Code.OK
        found |= {one.body for one in got}


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, 4 * HOUR_MS])
def test_a_clock_that_jumps_ends_no_renewal(monkeypatch: pytest.MonkeyPatch, jump_ms: int) -> None:
    """A push consumer's lease is renewed before it ends, and lasts, if the clock is set meanwhile."""
    clock_ns = time.time_ns
    monkeypatch.setattr(receive, "LEASE_MS", 2000)
    monkeypatch.setattr(leased, "LEASE_MS", 2000)
    monkeypatch.setattr(leased, "AHEAD_MS", 1500)
    monkeypatch.setattr(server, "_SWEEP_S", 0.05)
    with reput.serve(topics={"orders": 1}, grpc_port=0) as other, GrpcClient(str(other.grpc_address)) as client:
        client.send(message(body=b"held"))
        with client.telemetry() as stream:
            stream.give(subscribing(GROUP, kind=ClientType.PUSH_CONSUMER))
            _, (got,) = received(client, ask(auto_renew=True))
            leases = other._broker.leases._leases
            first = set(leases)
            monkeypatch.setattr(time, "time_ns", lambda: clock_ns() + jump_ms * 1_000_000)
            wait_until(lambda: leases and not first & set(leases))
            second = set(leases)
            wait_until(lambda: leases and not second & set(leases))
            assert received(client, ask(auto_renew=True, wait_s=0.1))[0] == Code.MESSAGE_NOT_FOUND
            assert ack(client, got).status.code == Code.OK


@pytest.mark.parametrize("broker", ["ASYNC_FLUSH"], indirect=True)
def test_a_call_that_is_cancelled_takes_nothing(broker: reput.RunningBroker, consumer: GrpcClient) -> None:
    """A message that comes after it goes to the next call."""
    name = "ReceiveMessage"
    stub = consumer.channel.unary_stream(f"/{server.SERVICE}/{name}", lambda one: one.SerializeToString())
    call = stub(ask(wait_s=20), metadata=consumer.metadata, timeout=30)
    wait_until(lambda: len(broker._broker.polls) == 1)
    call.cancel()
    wait_until(lambda: len(broker._broker.polls) == 0)
    consumer.send(message(body=b"next"))
    code, got = received(consumer, ask())
    assert (code, [one.body for one in got]) == (Code.OK, [b"next"])


def test_a_consumer_goes_on_after_a_restart_without_new_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's client sends its settings only each 5 minutes: until then the broker had refused each of its calls."""
    store, place = tmp_path / "store", {"topics": ["orders"], "grpc_port": 0}
    with reput.serve(store, **place) as first, GrpcClient(str(first.grpc_address), "lasting") as client:
        stream = client.telemetry()
        stream.give(subscribing(GROUP))
        client.send(message(body=b"before"))
        _, (held,) = received(client, ask())
    with reput.serve(store, **place) as second, GrpcClient(str(second.grpc_address), "lasting") as client:
        assert client.send(message(body=b"after")).status.code == Code.OK
        code, (got,) = received(client, ask())
        assert (code, got.body) == (Code.OK, b"after")
        assert [change(client, got, 20_000).status.code, ack(client, held).status.code] == [Code.OK] * 2
        client.send(message(body=b"third"))
        unsaid = ask()
        unsaid.ClearField("long_polling_timeout")
        assert [one.body for one in received(client, unsaid)[1]] == [b"third"]
        monkeypatch.setattr(receive, "SHORTEST_POLL_MS", SHORTEST_POLL_MS)
        (part,) = client.stream("ReceiveMessage", unsaid, timeout_s=2)
        assert part.status.code == Code.ILLEGAL_POLLING_TIME
        ended = protocol.NotifyClientTerminationRequest(group=Resource(name=GROUP))
        assert client.call("NotifyClientTermination", ended).status.code == Code.OK
    assert_sound(store)


def test_an_ack_of_very_many_messages_kept_all_others_waiting(consumer: GrpcClient) -> None:
    """An empty entry takes two bytes, and a hundred times that in memory: too many are refused before they are read."""
    for count, words in (
        (receive.MAX_ENTRIES + 1, "entries: send 1000 at most"),
        (300_000, "bytes: send 524288 at most"),
    ):
        entries = [protocol.AckMessageEntry()] * count
        request = protocol.AckMessageRequest(group=Resource(name=GROUP), topic=Resource(name="orders"), entries=entries)
        answer = consumer.call("AckMessage", request)
        assert (answer.status.code, len(answer.entries)) == (Code.BAD_REQUEST, 0)
        assert words in answer.status.message
