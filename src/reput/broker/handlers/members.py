"""Requests of clients about themselves: heartbeats, members of groups, and locks of queues.

Source: `ClientManageProcessor`, `ConsumerManageProcessor`, `AdminBrokerProcessor.lockBatchMQ`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from reput.broker.state.consumers import LONGEST_CLIENT_ID, ClientInfo, ConsumerKind, filter_of
from reput.broker.wire.answers import Answer
from reput.broker.wire.refusals import refuse
from reput.errors import ConfigError
from reput.formats.java.fastjson import write_fastjson
from reput.formats.topics.system_topics import RETRY_PREFIX
from reput.formats.topics.topic_names import topic_fault
from reput.formats.wire.bodies import queues_of
from reput.formats.wire.codes import ResponseCode
from reput.formats.wire.subscription import subscription_of

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker
    from reput.broker.wire.requests import Request

MAX_MEMBERS: Final = 100_000
"""The members of all groups, producers and consumers, from which on heartbeats are refused."""
_NOTIFIES = "notifyConsumerIdsChangedEnable"
"""A group's setting: its members hear of each change."""


def heartbeat(broker: Broker, request: Request) -> Answer:
    """Register the producers and consumers of a client; each consumer group gets its retry topic.

    A consumer of a group that cannot have its name is left out, as in RocketMQ: its pulls are refused.
    """
    values = request.json()
    client_id = values.get("clientID")
    if not isinstance(client_id, str) or len(client_id) > LONGEST_CLIENT_ID:
        refuse(ResponseCode.SYSTEM_ERROR, f"the heartbeat has no clientID of at most {LONGEST_CLIENT_ID} characters")
    producers, consumers = _listed(values, "producerDataSet"), _listed(values, "consumerDataSet")
    if len(broker.producers) + len(broker.consumers) >= MAX_MEMBERS:
        refuse(ResponseCode.SYSTEM_BUSY, f"[OVERLOAD]system busy, all groups have {MAX_MEMBERS} members")
    member = ClientInfo(request.connection, client_id, request.frame.language, request.frame.version)
    for data in producers:
        group = data.get("groupName") if isinstance(data, dict) else None
        if isinstance(group, str):
            broker.producers.register(member, group)
    for data in consumers:
        group = data.get("groupName") if isinstance(data, dict) else None
        if not isinstance(group, str):
            refuse(ResponseCode.SYSTEM_ERROR, "the heartbeat has a consumer without a groupName")
        if not broker.groups.may_be(group):
            continue
        wanted = map(subscription_of, _listed(data, "subscriptionDataSet"))
        subscriptions = [one for one in wanted if one is not None]
        config = broker.groups.find_or_create(group)
        retry_topic = f"{RETRY_PREFIX}{group}"
        # A group of an older store may have any name.
        if topic_fault(retry_topic) is None:
            broker.topics.make_own(retry_topic, config.get("retryQueueNums", 1))
        notifies = config.get(_NOTIFIES, True)
        broker.consumers.register(member, group, ConsumerKind.of(data), subscriptions, notifies=notifies)
    return Answer()


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
    group, client_id = values.get("consumerGroup"), values.get("clientId")
    if not isinstance(group, str) or not isinstance(client_id, str):
        refuse(ResponseCode.SYSTEM_ERROR, "the lock request has no consumerGroup or no clientId")
    held = broker.locks.lock(group, client_id, queues_of(values.get("mqSet")))
    locked = [{"brokerName": one.broker_name, "queueId": one.queue_id, "topic": one.topic} for one in held]
    return Answer(pieces=(write_fastjson({"lockOKMQSet": locked}),))


def unlock_queues(broker: Broker, request: Request) -> Answer:
    """Free queues that an orderly consumer has locked."""
    values = request.json()
    broker.locks.unlock(str(values.get("consumerGroup")), str(values.get("clientId")), queues_of(values.get("mqSet")))
    return Answer()
