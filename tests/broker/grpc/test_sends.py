"""Messages that come by gRPC are stored as those of other clients, or refused by a code of the protocol."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from broker.grpc.stubs import endpoints, message, publishing
from broker.remoting import bodies, records
from reput.broker.grpc.protocol import service_pb2 as protocol
from reput.broker.grpc.protocol.definition_pb2 import (
    Code,
    Encoding,
    MessageType,
    Permission,
    Resource,
    TransactionResolution,
    TransactionSource,
)
from reput.formats.log.properties import text_properties
from reput.formats.log.record import FLAG_COMPRESSED
from reput.formats.wire.codes import RequestCode
from support.waiting import wait_until

if TYPE_CHECKING:
    import reput
    from broker.grpc.stubs import GrpcClient
    from broker.remoting import Client
    from reput.formats.log.record import Record

T = MessageType


def stored(remoting: Client, topic: str, queues: int = 4) -> list[Record]:
    """All records of a topic, queue by queue."""
    return [one for queue_id in range(queues) for one in records(remoting.pull(topic, queue_id))]


def wait_for(remoting: Client, topic: str, body: bytes) -> None:
    """Wait until a topic of two queues has a message."""
    wait_until(
        lambda: body in [one for queue_id in range(2) for one in bodies(remoting.pull(topic, queue_id))], most_s=20
    )


def test_a_route_names_the_endpoints_that_the_client_has_dialled(client: GrpcClient) -> None:
    """Each queue has its permission, the type of its topic's messages, and the address by which the client came."""
    dialled = endpoints("10.1.2.3:4711")
    answer = client.call("QueryRoute", protocol.QueryRouteRequest(topic=Resource(name="fifo"), endpoints=dialled))
    assert answer.status.code == Code.OK
    assert [one.id for one in answer.message_queues] == [0, 1, 2, 3]
    assert {one.permission for one in answer.message_queues} == {Permission.READ_WRITE}
    assert {tuple(one.accept_message_types) for one in answer.message_queues} == {(T.FIFO,)}
    assert all(one.broker.endpoints == dialled for one in answer.message_queues)
    mixed = client.call("QueryRoute", protocol.QueryRouteRequest(topic=Resource(name="mixed")))
    assert list(mixed.message_queues[0].accept_message_types) == [T.NORMAL, T.FIFO, T.DELAY, T.TRANSACTION]
    assert mixed.message_queues[0].broker.endpoints == endpoints(client.address)


def test_a_message_keeps_all_that_its_sender_says(client: GrpcClient, remoting: Client) -> None:
    """Tag, keys, group of properties, id, time and host of birth, and the answer's offset."""
    sent = message(body=b"one", tag="paid", keys=["k1", "k2"], born_host="box", trace_context="00-1")
    sent.user_properties["colour"] = "red"
    sent.system_properties.born_timestamp.FromMilliseconds(1_700_000_000_123)
    answer = client.send(sent)
    assert (answer.status.code, [one.status.code for one in answer.entries]) == (Code.OK, [Code.OK])
    assert answer.entries[0].message_id == sent.system_properties.message_id
    (record,) = stored(remoting, "orders")
    assert (record.body, record.born_timestamp, record.queue_offset) == (b"one", 1_700_000_000_123, 0)
    expected = {"colour": "red", "TAGS": "paid", "KEYS": "k1 k2", "UNIQ_KEY": sent.system_properties.message_id}
    expected |= {"PGROUP": "orders", "__BORNHOST": "box", "TRACE_CONTEXT": "00-1", "RECONSUME_TIME": "0"}
    expected |= {"BORN_TIMESTAMP": "1700000000123", "MSG_REGION": "DefaultRegion", "CLUSTER": "DefaultCluster"}
    assert text_properties(record.properties) == expected | {"TRACE_ON": "true"}


def test_a_topic_without_a_type_takes_normal_messages(client: GrpcClient) -> None:
    """RocketMQ's proxy does the same; the refusal says how a topic gets its type."""
    assert client.send(message("untyped")).status.code == Code.OK
    refused = client.send(message("untyped", kind=T.FIFO, message_group="g"))
    assert refused.status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    assert "--topic" in refused.status.message


def test_messages_of_a_group_are_in_one_queue_in_order(client: GrpcClient, remoting: Client) -> None:
    """Groups go to queues by Guava's consistent hash of Java's hash of their names."""
    for number in range(24):
        group = f"g{number % 6}"
        assert client.send(message("fifo", b"%s-%d" % (group.encode(), number), T.FIFO, message_group=group)).entries
    by_queue = [[one.body.split(b"-") for one in records(remoting.pull("fifo", queue_id))] for queue_id in range(4)]
    for group in {bytes(name) for queue in by_queue for name, _ in queue}:
        queues = [queue for queue in by_queue if any(name == group for name, _ in queue)]
        assert len(queues) == 1
        numbers = [int(number) for name, number in queues[0] if name == group]
        assert numbers == sorted(numbers)
        assert len(numbers) == 4
    assert sum(map(len, by_queue)) == 24


def test_normal_messages_go_to_all_queues(client: GrpcClient, remoting: Client) -> None:
    """One after the other, so that each queue has its share."""
    for number in range(8):
        client.send(message(body=b"%d" % number))
    assert [len(records(remoting.pull("orders", queue_id))) for queue_id in range(4)] == [2, 2, 2, 2]


def test_several_messages_of_a_call_are_a_batch(client: GrpcClient, remoting: Client) -> None:
    """They are in one queue, one after the other, and each has an entry in the answer."""
    sent = [message(body=b"%d" % number) for number in range(5)]
    answer = client.send(*sent)
    assert [one.message_id for one in answer.entries] == [one.system_properties.message_id for one in sent]
    assert [one.offset for one in answer.entries] == [0, 1, 2, 3, 4]
    assert [one.body for one in stored(remoting, "orders")] == [b"0", b"1", b"2", b"3", b"4"]
    other = client.send(message(), message("mixed"))
    assert other.status.code == Code.MESSAGE_CORRUPTED
    assert client.send().status.code == Code.MESSAGE_CORRUPTED


def test_a_compressed_body_is_stored_as_it_is(client: GrpcClient, remoting: Client) -> None:
    """Its record says so, and consumers decompress it."""
    client.send(message(body=b"zipped", body_encoding=Encoding.GZIP))
    (record,) = stored(remoting, "orders")
    assert (record.body, record.sys_flag & FLAG_COMPRESSED) == (b"zipped", FLAG_COMPRESSED)


def test_a_message_is_delivered_when_it_is_due_unless_it_is_recalled(client: GrpcClient, remoting: Client) -> None:
    """The handle in the answer recalls it; a message without a time has none."""
    kept, gone = message("later", b"kept", T.DELAY), message("later", b"gone", T.DELAY)
    for one in (kept, gone):
        one.system_properties.delivery_timestamp.FromMilliseconds(int(time.time() * 1000) + 2500)
    handles = [client.send(one).entries[0].recall_handle for one in (kept, gone)]
    assert all(handles)
    recall = protocol.RecallMessageRequest(topic=Resource(name="later"), recall_handle=handles[1])
    answer = client.call("RecallMessage", recall)
    assert (answer.status.code, answer.message_id) == (Code.OK, gone.system_properties.message_id)
    assert bodies(remoting.pull("later", 0)) + bodies(remoting.pull("later", 1)) == []
    wait_for(remoting, "later", b"kept")
    assert bodies(remoting.pull("later", 0)) + bodies(remoting.pull("later", 1)) == [b"kept"]
    recall.recall_handle = "forged"
    assert client.call("RecallMessage", recall).status.code == Code.BAD_REQUEST


def end(client: GrpcClient, sent: Any, transaction_id: str, resolution: TransactionResolution, **further: Any) -> Any:
    """End a transaction."""
    request = protocol.EndTransactionRequest(
        topic=Resource(name="ends"),
        message_id=sent.system_properties.message_id,
        transaction_id=transaction_id,
        resolution=resolution,
        **further,
    )
    return client.call("EndTransaction", request).status


def test_a_transaction_ends_as_its_producer_says(client: GrpcClient, remoting: Client) -> None:
    """A commit delivers the message, a rollback does not; ids that are no half message's are refused."""
    committed, rolled_back = message("ends", b"yes", T.TRANSACTION), message("ends", b"no", T.TRANSACTION)
    ids = [client.send(one).entries[0].transaction_id for one in (committed, rolled_back)]
    assert stored(remoting, "ends", 2) == []
    assert end(client, rolled_back, ids[1], TransactionResolution.ROLLBACK).code == Code.OK
    assert end(client, committed, ids[0], TransactionResolution.COMMIT).code == Code.OK
    assert [one.body for one in stored(remoting, "ends", 2)] == [b"yes"]
    commit = TransactionResolution.COMMIT
    assert end(client, committed, " ", commit).code == Code.INVALID_TRANSACTION_ID
    assert end(client, committed, "forged", commit).code == Code.INVALID_TRANSACTION_ID
    assert end(client, committed, ids[0].replace("-", "-9"), commit).code == Code.INTERNAL_SERVER_ERROR
    assert [one.body for one in stored(remoting, "ends", 2)] == [b"yes"]


def test_a_producer_is_asked_about_a_transaction_on_its_stream(client: GrpcClient, remoting: Client) -> None:
    """The command has the message, and an id by which its answer ends the transaction."""
    with client.telemetry() as stream:
        stream.give(publishing("ends"))
        sent = message("ends", b"unsure", T.TRANSACTION, tag="t")
        client.send(sent)
        asked = stream.next().recover_orphaned_transaction_command
        assert (asked.message.body, asked.message.topic.name) == (b"unsure", "ends")
        assert asked.message.system_properties.message_id == sent.system_properties.message_id
        assert (asked.message.system_properties.tag, asked.message.system_properties.message_type) == ("t", 4)
        source = TransactionSource.SOURCE_SERVER_CHECK
        commit = TransactionResolution.COMMIT
        assert end(client, sent, asked.transaction_id, commit, source=source).code == Code.OK
    wait_for(remoting, "ends", b"unsure")
    assert [one.body for one in stored(remoting, "ends", 2)] == [b"unsure"]


LATE = {"seconds": 4_000_000_000}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "no topic"}, Code.ILLEGAL_TOPIC),
        ({"topic": ""}, Code.ILLEGAL_TOPIC),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, Code.ILLEGAL_TOPIC),
        ({"topic": "unheard"}, Code.TOPIC_NOT_FOUND),
        ({"body": b""}, Code.MESSAGE_BODY_EMPTY),
        ({"body": bytes((4 << 20) + 1)}, Code.MESSAGE_BODY_TOO_LARGE),
        ({"message_id": " "}, Code.ILLEGAL_MESSAGE_ID),
        ({"message_id": "a\x01b"}, Code.ILLEGAL_MESSAGE_ID),
        ({"tag": "a||b"}, Code.ILLEGAL_MESSAGE_TAG),
        ({"tag": "a\x02"}, Code.ILLEGAL_MESSAGE_TAG),
        ({"keys": [" "]}, Code.ILLEGAL_MESSAGE_KEY),
        ({"message_group": "g" * 64}, Code.ILLEGAL_MESSAGE_GROUP),
        ({"message_group": "g"}, Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        ({"topic": "later", "delivery_timestamp": LATE}, Code.ILLEGAL_DELIVERY_TIME),
        ({"topic": "later", "delivery_timestamp": {"seconds": 1 << 60}}, Code.ILLEGAL_DELIVERY_TIME),
        ({"born_timestamp": {"seconds": -(1 << 60)}}, Code.BAD_REQUEST),
        ({"born_host": "a\x01UNIQ_KEY\x02"}, Code.BAD_REQUEST),
        ({"trace_context": "a\x02b"}, Code.BAD_REQUEST),
        ({"tag": "t" * 40_000}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"trace_context": "t" * 40_000}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"user": {"UNIQ_KEY": "1"}}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"user": {"a\x01b": "1"}}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"user": {"a": "\x02"}}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"user": {str(number): "x" for number in range(129)}}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
    ],
)
@pytest.mark.parametrize("broker", ["ASYNC_FLUSH"], indirect=True)
def test_a_message_that_cannot_be_is_refused_by_its_code(
    client: GrpcClient, remoting: Client, change: dict[str, Any], code: Code
) -> None:
    """The answer has one status and no entry, and nothing is stored."""
    change = dict(change)
    user = change.pop("user", {})
    sent = message(**change)
    sent.user_properties.update(user)
    answer = client.send(sent)
    assert (answer.status.code, len(answer.entries)) == (code, 0), answer.status.message
    assert answer.status.message
    assert stored(remoting, "orders") == []


@pytest.mark.parametrize("broker", ["ASYNC_FLUSH"], indirect=True)
def test_a_batch_holds_normal_messages_alone(broker: reput.RunningBroker, client: GrpcClient, remoting: Client) -> None:
    """One with a transaction or a time is refused as a whole, as that of other clients."""
    assert broker.grpc_address == client.address
    refused = client.send(message("mixed"), message("mixed", kind=T.TRANSACTION))
    assert (refused.status.code, len(refused.entries)) == (Code.BAD_REQUEST, 0)
    assert stored(remoting, "mixed") == []


def test_a_batch_with_bodies_of_two_encodings_is_refused(client: GrpcClient, remoting: Client) -> None:
    """Its one flag would have consumers decompress a body that is not compressed."""
    refused = client.send(message(body=b"zipped", body_encoding=Encoding.GZIP), message(body=b"plain"))
    assert (refused.status.code, len(refused.entries)) == (Code.MESSAGE_CORRUPTED, 0)
    assert stored(remoting, "orders") == []
    client.send(*[message(body=b"zipped", body_encoding=Encoding.GZIP) for _ in range(2)])
    assert [record.sys_flag & FLAG_COMPRESSED for record in stored(remoting, "orders")] == [FLAG_COMPRESSED] * 2


def test_a_batch_goes_to_the_queue_of_its_group(client: GrpcClient, remoting: Client) -> None:
    """It keeps the order with single messages of the group; one of two groups could not, and is refused."""
    for number in range(3):
        client.send(message("fifo", b"%d" % (3 * number), T.FIFO, message_group="g"))
        client.send(*[message("fifo", b"%d" % (3 * number + n), T.FIFO, message_group="g") for n in (1, 2)])
    queues = [[one.body for one in records(remoting.pull("fifo", queue_id))] for queue_id in range(4)]
    assert [queue for queue in queues if queue] == [[b"%d" % number for number in range(9)]]
    refused = client.send(*[message("fifo", b"other", T.FIFO, message_group=group) for group in "gh"])
    assert (refused.status.code, len(refused.entries)) == (Code.ILLEGAL_MESSAGE_GROUP, 0)


def test_sends_of_both_protocols_share_queues(client: GrpcClient, remoting: Client) -> None:
    """Their offsets follow one another."""
    offset = client.send(message("fifo", b"1", T.FIFO, message_group="g")).entries[0].offset
    queue_id = next(one for one in range(4) if records(remoting.pull("fifo", one)))
    answer = remoting.put("fifo", b"2", queue_id)
    assert (offset, int(answer.fields["queueOffset"])) == (0, 1)
    assert remoting.ask(RequestCode.GET_MAX_OFFSET, topic="fifo", queueId=queue_id).fields["offset"] == "2"
