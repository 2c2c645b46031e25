"""Requests about offsets: committed ones, the ends of queues, and offsets by time.

Source: `ConsumerManageProcessor`, `AdminBrokerProcessor`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.broker.state.committed import refuse_further_offsets
from reput.broker.state.configuration import check_queue_id
from reput.broker.wire.answers import Answer
from reput.broker.wire.refusals import refuse
from reput.formats.wire.codes import ResponseCode

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker
    from reput.broker.wire.requests import Request


def query_consumer_offset(broker: Broker, request: Request) -> Answer:
    """Answer where a group continues in a queue.

    As in RocketMQ a group without a committed offset begins at 0 in a queue that still has its first message, so
    CONSUME_FROM_LAST_OFFSET reads a young topic from its beginning. RocketMQ asks besides if that message is in memory.
    """
    group, topic, queue_id = request.text("consumerGroup"), request.text("topic"), request.int32("queueId")
    offset = broker.store.query_offset(group, topic, queue_id)
    if offset >= 0:
        return _offset(offset)
    if not request.flag("setZeroIfNotFound", default=True):
        refuse(ResponseCode.QUERY_NOT_FOUND, "Not found, do not set to zero, maybe this group boot first")
    store = broker.store
    if store.min_offset(topic, queue_id) <= 0 < store.max_offset(topic, queue_id):
        return _offset(0)
    return refuse(ResponseCode.QUERY_NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")


def update_consumer_offset(broker: Broker, request: Request) -> Answer:
    """Commit an offset of a group that exists: a heartbeat makes a group, this does not."""
    group, topic, queue_id = request.text("consumerGroup"), request.text("topic"), request.int32("queueId")
    offset = request.int64("commitOffset")
    if broker.groups.find(group) is None:
        refuse(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!")
    if broker.topics.find(topic) is None:
        refuse(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
    check_queue_id(topic, queue_id)
    refuse_further_offsets(broker.store.progress, group, topic, (queue_id,))
    if not broker.store.commit_offset(group, topic, queue_id, offset):
        return Answer(remark="Offset has been previously reset")
    return Answer()


def max_offset(broker: Broker, request: Request) -> Answer:
    """Answer the next offset of a queue."""
    return _offset(broker.store.max_offset(request.text("topic"), request.int32("queueId")))


def min_offset(broker: Broker, request: Request) -> Answer:
    """Answer the first offset of a queue."""
    return _offset(broker.store.min_offset(request.text("topic"), request.int32("queueId")))


def search_offset(broker: Broker, request: Request) -> Answer:
    """Answer the offset of a queue for a time."""
    boundary = request.fields.get("boundaryType", "LOWER").lower()
    topic, queue_id = request.text("topic"), request.int32("queueId")
    return _offset(broker.store.offset_by_time(topic, queue_id, request.int64("timestamp"), boundary))


def _offset(offset: int) -> Answer:
    return Answer(fields={"offset": str(offset)})
