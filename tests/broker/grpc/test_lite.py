"""Clients of a lite group get the messages of the lite topics that they subscribe to, each lite topic in its order."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import reput
from broker.grpc.stubs import GrpcClient, message, subscribing
from broker.remoting import Client
from reput.broker.grpc import leased, lite, receive
from reput.broker.grpc.protocol import service_pb2 as protocol
from reput.broker.grpc.protocol.definition_pb2 import (
    ClientType,
    Code,
    FilterType,
    LiteSubscriptionAction,
    MessageType,
    OffsetOption,
    Resource,
)
from reput.broker.services import lite as lite_service
from reput.formats.wire.codes import RequestCode, ResponseCode
from support.checked import assert_sound
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from reput.broker.grpc.protocol.definition_pb2 import Message

TOPIC, GROUP = "chats", "readers"
TOPICS = {TOPIC: (4, "LITE"), "orders": (1, "NORMAL")}
CONFIG = reput.StoreConfig(enable_lmq=True, enable_multi_dispatch=True)
ADD, REMOVE = LiteSubscriptionAction.PARTIAL_ADD, LiteSubscriptionAction.PARTIAL_REMOVE
SET, END = LiteSubscriptionAction.COMPLETE_ADD, LiteSubscriptionAction.COMPLETE_REMOVE
LITE_PUSH = ClientType.LITE_PUSH_CONSUMER


@pytest.fixture(autouse=True)
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a call that gets nothing end soon."""
    monkeypatch.setattr(receive, "SHORTEST_POLL_MS", 200)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[reput.RunningBroker]:
    """A broker with a topic of type LITE; its store is checked in the end."""
    path = tmp_path / "store"
    with reput.serve(path, topics=TOPICS, config=CONFIG, grpc_port=0) as running:
        yield running
    assert_sound(path, CONFIG)


def make_group(broker: reput.RunningBroker, group: str = GROUP, **attributes: str) -> int:
    """Make a lite group, or change it, as mqadmin does; return the code of the answer."""
    given = {"+lite.bind.topic": TOPIC, **{f"+{name.replace('_', '.')}": text for name, text in attributes.items()}}
    with Client(broker.address) as client:
        body = json.dumps({"groupName": group, "retryMaxTimes": 1, "attributes": given}).encode()
        return client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body).code


def sync(client: GrpcClient, action: int, *names: str, group: str = GROUP, topic: str = TOPIC, **further: Any) -> int:
    """Change the lite topics of a client; return the code of the answer."""
    request = protocol.SyncLiteSubscriptionRequest(action=action, lite_topic_set=names, **further)  # type: ignore[arg-type]
    request.topic.name, request.group.name = topic, group
    return int(client.call("SyncLiteSubscription", request).status.code)


def send(client: GrpcClient, lite_topic: str, *bodies: bytes, topic: str = TOPIC) -> list[int]:
    """Send messages to a lite topic; return the codes of the answers."""
    sent = [message(topic, body, MessageType.LITE, lite_topic=lite_topic, tag="t") for body in bodies]
    return [client.send(one).status.code for one in sent]


def ask(batch: int = 32, *, wait_s: float = 0.0, group: str = GROUP, **further: Any) -> protocol.ReceiveMessageRequest:
    """The question of a consumer."""
    request = protocol.ReceiveMessageRequest(group=Resource(name=group), batch_size=batch, **further)
    request.message_queue.topic.name = TOPIC
    request.filter_expression.expression = "*"
    if not request.auto_renew:
        request.invisible_duration.seconds = 10
    request.long_polling_timeout.FromMilliseconds(int(wait_s * 1000))
    return request


def received(client: GrpcClient, request: protocol.ReceiveMessageRequest | None = None) -> list[Message]:
    """The messages of an answer."""
    parts = client.stream("ReceiveMessage", ask() if request is None else request)
    assert parts[0].status.code in {Code.OK, Code.MESSAGE_NOT_FOUND}, parts[0]
    return [one.message for one in parts if one.WhichOneof("content") == "message"]


def bodies(found: Sequence[Message]) -> list[bytes]:
    """Their bodies."""
    return [one.body for one in found]


def ack(client: GrpcClient, found: Sequence[Message], lite_topic: str | None = None) -> list[int]:
    """Acknowledge messages, as those of their lite topics or of another one; return the code of each."""
    request = protocol.AckMessageRequest(group=Resource(name=GROUP), topic=Resource(name=TOPIC))
    for one in found:
        system = one.system_properties
        name = system.lite_topic if lite_topic is None else lite_topic
        request.entries.add(message_id=system.message_id, receipt_handle=system.receipt_handle, lite_topic=name)
    return [one.status.code for one in client.call("AckMessage", request).entries]


def take(client: GrpcClient) -> list[bytes]:
    """Receive messages, and acknowledge them."""
    found = received(client)
    assert ack(client, found) == [Code.OK] * len(found)
    return bodies(found)


@pytest.fixture
def consumer(broker: reput.RunningBroker, client: GrpcClient) -> Iterator[GrpcClient]:
    """A client of the group, which reads no lite topic yet."""
    assert make_group(broker) == ResponseCode.SUCCESS
    with client.telemetry() as stream:
        settings = stream.give(subscribing(GROUP, [TOPIC], LITE_PUSH))
        assert (settings.subscription.lite_subscription_quota, settings.subscription.max_lite_topic_size) == (2000, 64)
        yield client


@pytest.fixture
def client(broker: reput.RunningBroker) -> Iterator[GrpcClient]:
    """A client of gRPC."""
    with GrpcClient(str(broker.grpc_address)) as connected:
        yield connected


def test_a_client_gets_its_lite_topics_and_no_others(consumer: GrpcClient) -> None:
    """Lite topics come and go while it runs; one that it leaves and takes again goes on where the group was."""
    assert sync(consumer, ADD, "a", "b") == Code.OK
    for name in "abc":
        assert send(consumer, name, b"1" + name.encode()) == [Code.OK]
    found = received(consumer)
    assert sorted(bodies(found)) == [b"1a", b"1b"]
    assert {one.system_properties.lite_topic for one in found} == {"a", "b"}
    assert {one.system_properties.message_type for one in found} == {MessageType.LITE}
    assert ack(consumer, found) == [Code.OK, Code.OK]
    assert sync(consumer, REMOVE, "b") == Code.OK
    for name in "abc":
        send(consumer, name, b"2" + name.encode())
    assert take(consumer) == [b"2a"]
    assert sync(consumer, SET, "b", "c") == Code.OK
    assert sorted(take(consumer)) == [b"1c", b"2b", b"2c"]
    assert sync(consumer, END) == Code.OK
    send(consumer, "a", b"3a")
    assert received(consumer) == []


def test_a_lite_topic_gives_nothing_more_until_all_is_acked(consumer: GrpcClient) -> None:
    """Others do; a message whose time is over comes again before the next one, with its count."""
    sync(consumer, ADD, "a", "b")
    send(consumer, "a", b"a1", b"a2", b"a3")
    (first,) = received(consumer, ask(1))
    assert first.body == b"a1"
    send(consumer, "b", b"b1")
    assert bodies(received(consumer)) == [b"b1"]
    again = changed(consumer, first, 0)
    assert again == Code.OK
    (second,) = received(consumer, ask(1, wait_s=5))
    assert (second.body, second.system_properties.delivery_attempt) == (b"a1", 2)
    assert ack(consumer, [second]) == [Code.OK]
    assert take(consumer) == [b"a2", b"a3"]


def changed(client: GrpcClient, one: Message, invisible_ms: int) -> int:
    """Let a message come again a time from now on; return the code of the answer."""
    system = one.system_properties
    request = protocol.ChangeInvisibleDurationRequest(
        group=Resource(name=GROUP), topic=Resource(name=TOPIC), receipt_handle=system.receipt_handle
    )
    request.message_id, request.lite_topic = system.message_id, system.lite_topic
    request.invisible_duration.FromMilliseconds(invisible_ms)
    return int(client.call("ChangeInvisibleDuration", request).status.code)


def test_a_call_that_waits_gets_what_comes(consumer: GrpcClient, broker: reput.RunningBroker) -> None:
    """A message to a lite topic wakes the clients that read it; several clients of a group share it."""
    sync(consumer, ADD, "a")
    with GrpcClient(str(broker.grpc_address)) as other, other.telemetry() as stream:
        stream.give(subscribing(GROUP, [TOPIC], LITE_PUSH))
        sync(other, ADD, "a")
        stub = [
            client.channel.unary_stream(
                "/apache.rocketmq.v2.MessagingService/ReceiveMessage",
                protocol.ReceiveMessageRequest.SerializeToString,
                protocol.ReceiveMessageResponse.FromString,
            )(ask(wait_s=10), timeout=20, metadata=client.metadata)
            for client in (consumer, other)
        ]
        wait_until(lambda: len(broker._broker.polls) == 2)
        send(other, "a", b"one")
        wait_until(lambda: len(broker._broker.polls) == 1)
        for call in stub:
            call.cancel()


def test_a_message_that_comes_too_often_is_a_dead_letter(consumer: GrpcClient, broker: reput.RunningBroker) -> None:
    """It is given `retryMaxTimes` times and once more; the lite topic goes on, and the dead letter is not in it."""
    sync(consumer, ADD, "a")
    send(consumer, "a", b"bad")
    for attempt in (1, 2):
        (found,) = received(consumer, ask(wait_s=5))
        assert found.system_properties.delivery_attempt == attempt
        assert changed(consumer, found, 0) == Code.OK
    send(consumer, "a", b"good")
    assert bodies(received(consumer, ask(wait_s=5))) == [b"good"]
    with reput.MessageStore.open(broker.path, read_only=True) as store:
        dead = store.get_message(f"%DLQ%{GROUP}", 0, 0, 32)
        assert [one.body for one in dead] == [b"bad"]
        assert store.max_offset(lite_service.light_queue(TOPIC, "a"), 0) == 2


def test_a_client_says_where_it_begins(consumer: GrpcClient) -> None:
    """At the first message, at the end, at an offset, some messages before the group's; a time does nothing."""
    send(consumer, "a", b"0", b"1", b"2", b"3")
    sync(consumer, ADD, "a", offset_option=OffsetOption(offset=2))
    assert take(consumer) == [b"2", b"3"]
    for option, wanted in (
        (OffsetOption(policy=OffsetOption.MIN), [b"0", b"1", b"2", b"3"]),
        (OffsetOption(tail_n=1), [b"3"]),
        (OffsetOption(timestamp=0), []),
        (OffsetOption(policy=OffsetOption.LAST), []),
        (OffsetOption(offset=1000), []),
    ):
        assert sync(consumer, ADD, "a", offset_option=option) == Code.OK
        assert take(consumer) == wanted, option
    send(consumer, "a", b"4")
    sync(consumer, ADD, "a", offset_option=OffsetOption(policy=OffsetOption.MAX))
    assert take(consumer) == []
    assert sync(consumer, ADD, "a", offset_option=OffsetOption(offset=-1)) == Code.ILLEGAL_OFFSET


def test_a_client_of_an_exclusive_group_takes_a_lite_topic_over(broker: reput.RunningBroker) -> None:
    """The one before gets a notice, and another one if it subscribes to all of its lite topics again."""
    assert make_group(broker, lite_sub_model="Exclusive", **{"lite.sub.reset.offset.exclusive": "true"}) == 0
    address = str(broker.grpc_address)
    with GrpcClient(address) as one, GrpcClient(address) as other, one.telemetry() as stream, other.telemetry() as more:
        stream.give(subscribing(GROUP, [TOPIC], LITE_PUSH))
        more.give(subscribing(GROUP, [TOPIC], LITE_PUSH))
        sync(one, ADD, "a", "b")
        send(one, "a", b"first")
        assert take(one) == [b"first"]
        sync(other, ADD, "a")
        assert stream.next().notify_unsubscribe_lite_command.lite_topic == "a"
        assert take(other) == [b"first"]
        sync(one, SET, "a", "b")
        assert stream.next().notify_unsubscribe_lite_command.lite_topic == "a"
        send(one, "a", b"second")
        send(one, "b", b"own")
        assert (take(one), take(other)) == ([b"own"], [b"second"])
        sync(one, ADD, "a")
        assert more.next().notify_unsubscribe_lite_command.lite_topic == "a"


def test_what_a_client_held_comes_again_when_it_is_gone(broker: reput.RunningBroker, consumer: GrpcClient) -> None:
    """Its leases were renewed while it lived; its lite topics are free for another one of the group."""
    with GrpcClient(str(broker.grpc_address)) as gone, gone.telemetry() as stream:
        stream.give(subscribing(GROUP, [TOPIC], LITE_PUSH))
        sync(gone, ADD, "a")
        send(gone, "a", b"held")
        assert bodies(received(gone, ask(auto_renew=True))) == [b"held"]
        sync(consumer, ADD, "a")
        assert received(consumer) == []
        request = protocol.NotifyClientTerminationRequest(group=Resource(name=GROUP))
        assert gone.call("NotifyClientTermination", request).status.code == Code.OK
    (again,) = received(consumer, ask(wait_s=leased.SOON_MS / 1000 + 10))
    assert (again.body, again.system_properties.delivery_attempt) == (b"held", 2)
    assert ack(consumer, [again]) == [Code.OK]
    assert len(broker._broker.lite) == 1


def test_a_restart_gives_again_what_was_not_acked_and_nothing_else(tmp_path: Path) -> None:
    """The offsets of light queues are where the group's are; who held what is forgotten."""
    path = tmp_path / "store"
    for begins in (True, False):
        with (
            reput.serve(path, topics=TOPICS, config=CONFIG, grpc_port=0) as broker,
            GrpcClient(str(broker.grpc_address), "one") as client,
        ):
            if begins:
                make_group(broker)
                send(client, "a", b"acked", b"held")
            sync(client, SET, "a")
            found = received(client, ask(1))
            if begins:
                ack(client, found)
                found = received(client, ask(1))
            assert bodies(found) == [b"held"]
    assert_sound(path, CONFIG)


def test_lite_calls_that_cannot_be_are_refused(broker: reput.RunningBroker, consumer: GrpcClient) -> None:
    """Wrong names, groups, topics, actions and handles each have their code, and change nothing."""
    wrong = ["", " ", "a b", "a$b", "x" * 65, "é", "\x01"]
    assert {sync(consumer, ADD, name) for name in wrong} == {Code.ILLEGAL_LITE_TOPIC}
    assert {send(consumer, name, b"x")[0] for name in wrong[1:]} == {Code.ILLEGAL_LITE_TOPIC}
    assert sync(consumer, ADD, "a", group="nobody") == Code.ILLEGAL_CONSUMER_GROUP
    assert sync(consumer, ADD, "a", topic="orders") == Code.ILLEGAL_TOPIC
    assert sync(consumer, 9, "a") == Code.BAD_REQUEST
    assert sync(consumer, ADD, *(f"n{one}" for one in range(2301))) == Code.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
    assert consumer.send(message(TOPIC, b"x")).status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    assert send(consumer, "a", b"x", topic="orders") == [Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE]
    assert len(broker._broker.lite) == 0
    sync(consumer, ADD, "a")
    send(consumer, "a", b"held")
    found = received(consumer)
    assert ack(consumer, found, "b") == [Code.INVALID_RECEIPT_HANDLE]
    assert ack(consumer, found, "") == [Code.INVALID_RECEIPT_HANDLE]
    assert ack(consumer, found) == [Code.OK]
    assert make_group(broker, lite_sub_model="Both") == ResponseCode.SYSTEM_ERROR
    assert make_group(broker, "wild", **{"lite.sub.wildcard": "true"}) == ResponseCode.SUCCESS
    assert sync(consumer, SET, "a", group="wild") == Code.UNSUPPORTED


@pytest.mark.parametrize(("group", "kind"), [(GROUP, ClientType.PUSH_CONSUMER), ("plain", LITE_PUSH)])
def test_lite_groups_have_lite_consumers_alone(
    broker: reput.RunningBroker, client: GrpcClient, group: str, kind: ClientType
) -> None:
    """A lite consumer of another group, and another consumer of a lite group, are refused with their settings."""
    make_group(broker)
    with client.telemetry() as stream, pytest.raises(Exception, match="ILLEGAL_CONSUMER_GROUP"):
        stream.give(subscribing(group, [TOPIC], kind))


def test_too_many_subscriptions_are_refused(
    consumer: GrpcClient, broker: reput.RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of lite topics of all clients has a bound, and so has what a client holds when it asks for more."""
    monkeypatch.setattr(lite, "MAX_SUBSCRIPTIONS", 2)
    assert sync(consumer, ADD, "a", "b", "c") == Code.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
    assert sync(consumer, ADD, "a", "b") == Code.OK
    assert lite_service.MAX_SUBSCRIPTIONS == 100_000
    monkeypatch.setattr(receive, "MAX_LITE_HELD", 0)
    send(consumer, "a", b"held")
    assert bodies(received(consumer, ask(auto_renew=True))) == [b"held"]
    (refused,) = consumer.stream("ReceiveMessage", ask(auto_renew=True))
    assert refused.status.code == Code.FORBIDDEN
    assert len(broker._broker.lite) == 2


def test_a_store_without_light_queues_refuses_lite_messages(tmp_path: Path) -> None:
    """Their messages would reach nobody: the text names the settings."""
    with reput.serve(topics=TOPICS, grpc_port=0) as broker, GrpcClient(str(broker.grpc_address)) as client:
        make_group(broker)
        answer = client.send(message(TOPIC, b"x", MessageType.LITE, lite_topic="a"))
        assert (answer.status.code, "enableLmq=true" in answer.status.message) == (Code.UNSUPPORTED, True)
        assert sync(client, ADD, "a") == Code.UNSUPPORTED


def test_lite_topics_after_a_dear_filter_are_read(
    broker: reput.RunningBroker, client: GrpcClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pop that ends early, since its SQL92 filter has taken many steps, leaves the other lite topics for the next."""
    assert make_group(broker) == ResponseCode.SUCCESS
    with client.telemetry() as stream:
        stream.give(subscribing(GROUP, [TOPIC], LITE_PUSH))
        assert sync(client, SET, "a", "b", "c") == Code.OK
        assert [send(client, name, name.encode()) for name in "abc"] == [[Code.OK]] * 3
        monkeypatch.setattr("reput.broker.services.pops.MAX_STEPS", 1)
        request = ask()
        request.filter_expression.type, request.filter_expression.expression = FilterType.SQL, "TAGS = 't'"
        found = [body for _ in "abc" for body in bodies(received(client, request))]
        assert sorted(found) == [b"a", b"b", b"c"]
