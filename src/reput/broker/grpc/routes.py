"""Routes and assignments.

The endpoints of a route are those by which the client says that it reaches the broker, so that it dials them again.

Source: `RouteActivity`, `TopicConfig.getTopicMessageType`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from reput.broker.grpc.checks import group_of, topic_of
from reput.broker.grpc.protocol.definition_pb2 import (
    Address,
    AddressScheme,
    Assignment,
    Code,
    Endpoints,
    MessageQueue,
    MessageType,
    Permission,
    Resource,
)
from reput.broker.grpc.protocol.definition_pb2 import (
    Broker as BrokerMessage,
)
from reput.broker.grpc.protocol.service_pb2 import (
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryRouteRequest,
    QueryRouteResponse,
)
from reput.broker.grpc.statuses import refuse_call, status_of
from reput.broker.state.configuration import queue_count
from reput.formats.topics.lite_groups import lite_group_of
from reput.formats.topics.lite_topics import MESSAGE_TYPE
from reput.formats.topics.permissions import READ, WRITE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.broker.services.broker import Broker

MIXED: Final = "MIXED"
_EVERY_TYPE: Final = [MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION]
_MAX_ADDRESSES = 16
_MAX_HOST = 253


def accepted_types(config: Mapping[str, Any]) -> list[MessageType]:
    """Return the types of messages that a topic takes: normal ones, if its attributes do not say."""
    attributes = config.get("attributes")
    named = attributes.get(MESSAGE_TYPE, "NORMAL") if isinstance(attributes, Mapping) else "NORMAL"
    if named == MIXED:
        return _EVERY_TYPE
    is_known = named in MessageType.keys()  # noqa: SIM118 - not a mapping
    return [MessageType.Value(named) if is_known else MessageType.MESSAGE_TYPE_UNSPECIFIED]


def config_of(broker: Broker, topic: str) -> dict[str, Any]:
    """Return the configuration of a topic; refuse the call if there is none."""
    config = broker.topics.find(topic)
    if config is None:
        words = f"No topic route info in name server for the topic: {topic}. Make it: reput serve --topic NAME:QUEUES"
        refuse_call(Code.TOPIC_NOT_FOUND, words)
    return config


def _permission(bits: int) -> Permission:
    if bits & READ and bits & WRITE:
        return Permission.READ_WRITE
    if bits & READ:
        return Permission.READ
    return Permission.WRITE if bits & WRITE else Permission.NONE


def _queues_of(config: Mapping[str, Any]) -> Iterator[tuple[int, Permission]]:
    """Return the queues of a topic with what may be done to each, in the order of RocketMQ's proxy."""
    bits = config.get("perm", 0)
    read = queue_count(config, "readQueueNums") if bits & READ else 0
    write = queue_count(config, "writeQueueNums") if bits & WRITE else 0
    both = min(read, write)
    kinds = [Permission.READ] * (read - both) + [Permission.WRITE] * (write - both) + [Permission.READ_WRITE] * both
    if not kinds:
        kinds = [Permission.NONE] * max(queue_count(config, "readQueueNums", "writeQueueNums"), 1)
    return enumerate(kinds)


def _broker_of(broker: Broker, dialled: Endpoints, own_address: str) -> BrokerMessage:
    """Return the broker, at the endpoints that the client has dialled, or at the broker's own address."""
    endpoints = Endpoints()
    good = [one for one in dialled.addresses if 0 < len(one.host) <= _MAX_HOST and 0 < one.port < 1 << 16]
    if good and len(dialled.addresses) <= _MAX_ADDRESSES and dialled.scheme != AddressScheme.ADDRESS_SCHEME_UNSPECIFIED:
        endpoints.CopyFrom(dialled)
    else:
        host, _, port = own_address.rpartition(":")
        endpoints.scheme = AddressScheme.IPv4
        endpoints.addresses.append(Address(host=host, port=int(port)))
    return BrokerMessage(name=broker.name, id=0, endpoints=endpoints)


def query_route(broker: Broker, request: QueryRouteRequest, own_address: str) -> QueryRouteResponse:
    """Return the queues of a topic."""
    config = config_of(broker, topic_of(request.topic))
    place, types = _broker_of(broker, request.endpoints, own_address), accepted_types(config)
    queues = [
        MessageQueue(topic=request.topic, id=number, permission=one, broker=place, accept_message_types=types)
        for number, one in _queues_of(config)
    ]
    return QueryRouteResponse(status=status_of(Code.OK), message_queues=queues)


def query_assignment(broker: Broker, request: QueryAssignmentRequest, own_address: str) -> QueryAssignmentResponse:
    """Return the queues from which a consumer receives: one for all, or each if its group consumes in order.

    Consumers of lite topics have one in any case.
    """
    group = group_of(request.group)
    config = config_of(broker, topic_of(request.topic))
    permission = _permission(config.get("perm", 0))
    reads = queue_count(config, "readQueueNums") if config.get("perm", 0) & READ else 0
    if not reads:
        refuse_call(Code.FORBIDDEN, "no readable queue")
    rules = broker.groups.find(group) or {}
    is_by_queue = rules.get("consumeMessageOrderly") and lite_group_of(rules) is None
    numbers = range(reads) if is_by_queue else (-1,)
    place, topic = _broker_of(broker, request.endpoints, own_address), Resource()
    topic.CopyFrom(request.topic)
    queues = [MessageQueue(topic=topic, id=number, permission=permission, broker=place) for number in numbers]
    assignments = [Assignment(message_queue=queue) for queue in queues]
    return QueryAssignmentResponse(status=status_of(Code.OK), assignments=assignments)
