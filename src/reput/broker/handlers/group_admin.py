"""Requests of administrators about groups: who is online, who reads a topic, and calls through to a consumer.

Source: `AdminBrokerProcessor`, `Broker2Client`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from reput.broker.state.consumers import ClientInfo
from reput.broker.wire.answers import Answer
from reput.broker.wire.refusals import refuse
from reput.broker.wire.requests import MAX_JSON
from reput.formats.java.fastjson import parse_object_keyed, write_fastjson
from reput.formats.log.record import decode_message_id
from reput.formats.wire.bodies import QueueName, queues_of, write_queue_table
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.formats.wire.remoting import LANGUAGES

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker
    from reput.broker.wire.requests import Request
    from reput.formats.wire.remoting import RemotingFrame


def _connections(clients: Iterable[ClientInfo]) -> list[dict[str, Any]]:
    return [
        {
            "clientAddr": str(client.connection.peer),
            "clientId": client.client_id,
            "language": LANGUAGES[client.language],
            "version": client.version,
        }
        for client in clients
    ]


def consumer_connections(broker: Broker, request: Request) -> Answer:
    """Answer the members of a consumer group, how they consume, and what they subscribe to."""
    group = request.text("consumerGroup")
    found = broker.consumers.find(group)
    if found is None:
        refuse(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{group}] not online")
    values = {
        "connectionSet": _connections(found.members.values()),
        "consumeFromWhere": found.kind.consume_from_where,
        "consumeType": found.kind.consume_type,
        "messageModel": found.kind.message_model,
        "subscriptionTable": {topic: one.as_json() for topic, one in found.subscriptions.items()},
    }
    return Answer(pieces=(write_fastjson(values),))


def producer_connections(broker: Broker, request: Request) -> Answer:
    """Answer the clients of a producer group."""
    group = request.text("producerGroup")
    found = broker.producers.find(group)
    if not found:
        refuse(ResponseCode.SYSTEM_ERROR, f"the producer group[{group}] not exist")
    return Answer(pieces=(write_fastjson({"connectionSet": _connections(found.values())}),))


def groups_of_topic(broker: Broker, request: Request) -> Answer:
    """Answer the groups that read a topic: those that are online, and those with committed offsets."""
    topic = request.text("topic")
    groups = {*broker.consumers.groups_of(topic), *broker.store.progress.groups_of(topic)}
    return Answer(pieces=(write_fastjson({"groupList": sorted(groups)}),))


def topics_of_group(broker: Broker, request: Request) -> Answer:
    """Answer the topics in which a group has committed offsets."""
    topics = broker.store.progress.topics_of(request.text("group"))
    return Answer(pieces=(write_fastjson({"brokerAddr": request.connection.own_address, "topicList": topics}),))


def subscription_of_group(broker: Broker, request: Request) -> Answer:
    """Answer what a group that is online wants of a topic."""
    group, topic = request.text("group"), request.text("topic")
    values: dict[str, Any] = {"group": group, "topic": topic}
    found = broker.consumers.subscription(group, topic)
    if found is not None:
        values["subscriptionData"] = found.as_json()
    return Answer(pieces=(write_fastjson(values),))


def consumer_running_info(broker: Broker, request: Request) -> None:
    """Pass the request on to the consumer that it names, and its answer back."""
    _pass_on(broker, request, RequestCode.GET_CONSUMER_RUNNING_INFO, b"")


def consume_directly(broker: Broker, request: Request) -> None:
    """Give one message to a consumer that is online, and answer how it went."""
    found = decode_message_id(request.text("msgId"))
    message = None if found is None else broker.store.message_at(found[1])
    if message is None:
        refuse(ResponseCode.SYSTEM_ERROR, f"there is no message {request.text('msgId')!r:.80}")
    _pass_on(broker, request, RequestCode.CONSUME_MESSAGE_DIRECTLY, bytes(message.raw))


def _pass_on(broker: Broker, request: Request, code: RequestCode, body: bytes) -> None:
    group, client_id = request.text("consumerGroup"), request.text("clientId")
    found = broker.consumers.find(group)
    member = None if found is None else found.members.get(client_id)
    if member is None:
        refuse(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")

    def done(answer: RemotingFrame | None) -> None:
        if answer is None:
            request.answer(Answer(ResponseCode.CONSUME_MSG_TIMEOUT, f"consumer <{group}> <{client_id}> Timeout"))
        else:
            request.answer(Answer(answer.code, answer.remark, answer.fields, (answer.body,)))

    fields = {**request.fields, "brokerName": broker.name}
    if not broker.client_calls.ask(member.connection, code, fields, body, done):
        refuse(ResponseCode.SYSTEM_BUSY, "too many requests wait for consumers")


def consumer_status(broker: Broker, request: Request) -> None:
    """Ask the consumers of a group, or the one of an id, for their offsets in a topic, and answer those that come."""
    topic, group, wanted = request.text("topic"), request.text("group"), request.fields.get("clientAddr")
    found = broker.consumers.find(group)
    members = [] if found is None else [one for one in found.members.values() if wanted in {None, "", one.client_id}]
    if not members:
        refuse(ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{group}]")
    waiting = {member.client_id for member in members}
    tables: dict[str, dict[QueueName, int]] = {}

    def done(client_id: str, answer: RemotingFrame | None) -> None:
        waiting.discard(client_id)
        if answer is not None and answer.code == ResponseCode.SUCCESS:
            tables[client_id] = _offsets_of(answer.body)
        if not waiting:
            request.answer(Answer(pieces=(write_queue_table({"consumerTable": tables, "messageQueueTable": {}}),)))

    code, fields = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": topic, "group": group}
    for member in members:
        ended = lambda answer, client_id=member.client_id: done(client_id, answer)  # noqa: E731
        if not broker.client_calls.ask(member.connection, code, fields, b"", ended):
            done(member.client_id, None)


def _offsets_of(body: bytes) -> dict[QueueName, int]:
    """Return a client's table of offsets by queue; nothing if the body is too long or has another form."""
    values = parse_object_keyed(body) if len(body) <= MAX_JSON else None
    table = values.get("messageQueueTable") if isinstance(values, dict) else None
    found = {}
    for key, offset in table.items() if isinstance(table, dict) else ():
        for queue in queues_of([parse_object_keyed(key.encode("utf-8", "surrogatepass"))]):
            if type(offset) is int:
                found[queue] = offset
    return found
