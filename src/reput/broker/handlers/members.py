"""Requests of clients about themselves: heartbeats, members of groups, and locks of queues.

Source: `ClientManageProcessor`, `ConsumerManageProcessor`, `AdminBrokerProcessor.lockBatchMQ`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from reput.broker.state.consumers import (
    MAX_CLIENT_ID,
    MAX_EXPRESSION,
    MAX_SUBSCRIBED,
    ClientInfo,
    ConsumerKind,
    filter_of,
    refuse_large_filter,
)
from reput.broker.wire.answers import Answer
from reput.broker.wire.refusals import refuse
from reput.errors import ConfigError
from reput.formats.java.fastjson import write_fastjson
from reput.formats.topics.system_topics import RETRY_PREFIX
from reput.formats.topics.topic_names import LONGEST_NAME, topic_fault
from reput.formats.wire.bodies import queues_of
from reput.formats.wire.codes import ResponseCode
from reput.formats.wire.subscription import Subscription, subscription_of

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker
    from reput.broker.wire.requests import Request

MAX_MEMBERS: Final = 100_000
"""The members of all groups, producers and consumers, from which on heartbeats are refused."""
_NOTIFIES = "notifyConsumerIdsChangedEnable"
"""A group's setting: its members hear of each change."""


class _BeatOfConsumer(NamedTuple):
    """A consumer of a heartbeat."""

    group: str
    kind: ConsumerKind
    subscriptions: list[Subscription]


def heartbeat(broker: Broker, request: Request) -> Answer:
    """Register the producers and consumers of a client; each consumer group gets its retry topic.

    A consumer of a group that cannot have its name is left out, as in RocketMQ: its pulls are refused.
    """
    values = request.json()
    client_id = _named(values, "clientID", MAX_CLIENT_ID)
    producers = [_named(one, "groupName") for one in _listed(values, "producerDataSet") if _has_group(one)]
    consumers = [_consumer_of(one) for one in _listed(values, "consumerDataSet")]
    if len(broker.producers) + len(broker.consumers) >= MAX_MEMBERS:
        refuse(ResponseCode.SYSTEM_BUSY, f"[OVERLOAD]system busy, all groups have {MAX_MEMBERS} members")
    if broker.consumers.subscribed + sum(one.size for _, _, wanted in consumers for one in wanted) > MAX_SUBSCRIBED:
        words = f"[OVERLOAD]system busy, the subscriptions of all groups have {MAX_SUBSCRIBED} characters"
        refuse(ResponseCode.SYSTEM_BUSY, words)
    member = ClientInfo(request.connection, client_id, request.frame.language, request.frame.version)
    for producer_group in producers:
        broker.producers.register(member, producer_group)
    for group, kind, subscriptions in consumers:
        if not broker.groups.may_be(group):
            continue
        config = broker.groups.find_or_create(group)
        retry_topic = f"{RETRY_PREFIX}{group}"
        # A group of an older store may have any name.
        if topic_fault(retry_topic) is None:
            broker.topics.make_own(retry_topic, config.get("retryQueueNums", 1))
        notifies = config.get(_NOTIFIES, True)
        broker.consumers.register(member, group, kind, subscriptions, notifies=notifies)
    return Answer()


def _named(values: Any, name: str, most: int = LONGEST_NAME) -> str:
    """Return a name of a JSON object; refuse one that is left out, or longer than `most` characters."""
    found = values.get(name) if isinstance(values, dict) else None
    if not isinstance(found, str) or len(found) > most:
        refuse(ResponseCode.SYSTEM_ERROR, f"the body has no {name} of at most {most} characters")
    return found


def _has_group(values: Any) -> bool:
    """Return False for a producer without a group, which is left out."""
    return isinstance(values, dict) and isinstance(values.get("groupName"), str)


def _consumer_of(values: Any) -> _BeatOfConsumer:
    """Return a consumer of a heartbeat; refuse one whose names or filters are too long."""
    group = _named(values, "groupName")
    wanted = map(subscription_of, _listed(values, "subscriptionDataSet"))
    subscriptions = [one for one in wanted if one is not None]
    for one in subscriptions:
        if max(len(one.topic), len(one.kind)) > LONGEST_NAME or len(one.expression) > MAX_EXPRESSION:
            words = f"a topic of at most {LONGEST_NAME} characters, and a filter of at most {MAX_EXPRESSION}"
            refuse(
                ResponseCode.SYSTEM_ERROR, f"the group {group} subscribes to {one.topic[:LONGEST_NAME]}: give {words}"
            )
        try:
            refuse_large_filter(one)
        except ConfigError as error:
            words = f"the group {group} subscribes to {one.topic}: {error}"
            refuse(ResponseCode.SUBSCRIPTION_PARSE_FAILED, words)
    return _BeatOfConsumer(group, ConsumerKind.of(values), subscriptions)


def _listed(values: dict[str, Any], name: str) -> list[Any]:
    """Return a list of a heartbeat; an empty one if it is left out."""
    found = values.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        refuse(ResponseCode.SYSTEM_ERROR, f"the heartbeat's {name} is not a list")
    return found


def unregister(broker: Broker, request: Request) -> Answer:
    """Remove a client from a producer group, a consumer group, or both."""
    client_id = request.text("clientID")
    consumer_group, producer_group = request.fields.get("consumerGroup"), request.fields.get("producerGroup")
    if consumer_group is not None:
        notifies = (broker.groups.find(consumer_group) or {}).get(_NOTIFIES, True)
        broker.consumers.unregister(client_id, consumer_group, notifies=notifies)
    if producer_group is not None:
        broker.producers.unregister(client_id, producer_group)
    return Answer()


def consumer_list(broker: Broker, request: Request) -> Answer:
    """Answer the client ids of a group's members."""
    group = request.text("consumerGroup")
    found = broker.consumers.find(group)
    if found is None:
        refuse(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group}")
    return Answer(pieces=(write_fastjson({"consumerIdList": sorted(found.members)}),))


def check_client_config(broker: Broker, request: Request) -> Answer:  # noqa: ARG001 - as all handlers
    """Check the subscription of a consumer, before it begins."""
    subscription = subscription_of(request.json().get("subscriptionData"))
    if subscription is not None:
        try:
            filter_of(subscription)
        except ConfigError as error:
            refuse(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error))
    return Answer()


def lock_queues(broker: Broker, request: Request) -> Answer:
    """Lock queues for an orderly consumer; answer those that it has."""
    values = request.json()
    group, client_id = _named(values, "consumerGroup"), _named(values, "clientId", MAX_CLIENT_ID)
    queues = queues_of(values.get("mqSet"))
    if any(max(len(one.broker_name), len(one.topic)) > LONGEST_NAME for one in queues):
        refuse(ResponseCode.SYSTEM_ERROR, f"the body has a queue with a name above {LONGEST_NAME} characters")
    held = broker.locks.lock(group, client_id, queues)
    locked = [{"brokerName": one.broker_name, "queueId": one.queue_id, "topic": one.topic} for one in held]
    return Answer(pieces=(write_fastjson({"lockOKMQSet": locked}),))


def unlock_queues(broker: Broker, request: Request) -> Answer:
    """Free queues that an orderly consumer has locked."""
    values = request.json()
    broker.locks.unlock(str(values.get("consumerGroup")), str(values.get("clientId")), queues_of(values.get("mqSet")))
    return Answer()
