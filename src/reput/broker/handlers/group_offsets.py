"""Requests of administrators about the offsets of groups: lag, time spans, resets and copies.

A reset works in the broker, as RocketMQ 5 does it by default (`useServerSideResetOffset`): the next pull of a queue is
answered with the new offset, and until then commits of the queue are dropped. So it needs no consumer that is online.

Source: `AdminBrokerProcessor`, `ConsumerOffsetManager`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from reput.broker.state.committed import refuse_further_offsets
from reput.broker.state.configuration import check_queue_id, queue_count
from reput.broker.wire.answers import Answer
from reput.broker.wire.refusals import refuse
from reput.formats.config import consumer_offset
from reput.formats.java.fastjson import write_fastjson
from reput.formats.wire.bodies import QueueName, write_queue_table
from reput.formats.wire.codes import ResponseCode
from reput.times import now_ms

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker
    from reput.broker.wire.requests import Request

MAX_LISTED_QUEUES: Final = 65_536
"""The most queues of all topics of an answer about a group's lag. RocketMQ has no bound. A topic has no more."""


def consume_stats(broker: Broker, request: Request) -> None:
    """Answer how far a group has read each queue: of the topics named, or of all that it reads.

    A thread looks: there may be many.
    """
    group, topic = request.text("consumerGroup"), request.fields.get("topic", "")
    listed = [one for one in request.fields.get("topicList", "").split(";") if one]
    if not listed:
        named = [topic] if topic.strip() else broker.store.progress.topics_of(group)
        listed = [one for one in named if broker.consumers.reads(group, one)]
    queues = {one: broker.topics.queues(one) for one in listed}
    count = sum(queues.values())
    if count > MAX_LISTED_QUEUES:
        words = f"the topics have {count} queues, and one answer has at most {MAX_LISTED_QUEUES}: name fewer topics"
        refuse(ResponseCode.INVALID_PARAMETER, words)
    broker.in_thread(request, partial(_stats, broker, group, queues))


def _stats(broker: Broker, group: str, queues: Mapping[str, int]) -> Answer:
    table = {
        QueueName(broker.name, queue, topic): _offsets(broker, group, topic, queue)
        for topic, count in queues.items()
        for queue in range(count)
    }
    return Answer(pieces=(write_queue_table({"consumeTps": 0.0, "offsetTable": table}),))


def _offsets(broker: Broker, group: str, topic: str, queue_id: int) -> dict[str, int]:
    store = broker.store
    consumed = max(store.query_offset(group, topic, queue_id), 0)
    last = store.store_time(topic, queue_id, consumed - 1) if consumed else 0
    return {
        "brokerOffset": store.max_offset(topic, queue_id),
        "consumerOffset": consumed,
        "lastTimestamp": max(last, 0),
        "pullOffset": max(consumed, broker.statistics.pulled.get((group, topic, queue_id), 0)),
    }


def consume_time_span(broker: Broker, request: Request) -> Answer:
    """Answer the times of each queue's first and last message, of the group's last one, and how late the group is."""
    topic, group = request.text("topic"), request.text("group")
    config = broker.topics.find(topic)
    if config is None:
        refuse(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
    store, at_ms = broker.store, now_ms()
    spans = []
    for queue_id in range(queue_count(config, "writeQueueNums")):
        begin, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        consumed = store.query_offset(group, topic, queue_id)
        first = store.store_time(topic, queue_id, begin)
        next_time = store.store_time(topic, queue_id, max(consumed, 0)) if consumed < end else -1
        span = {
            "consumeTimeStamp": store.store_time(topic, queue_id, consumed - 1) if consumed > 0 else first,
            "delayTime": at_ms - next_time if next_time >= 0 else 0,
            "maxTimeStamp": store.store_time(topic, queue_id, end - 1) if end else -1,
            "messageQueue": {"brokerName": broker.name, "queueId": queue_id, "topic": topic},
            "minTimeStamp": first,
        }
        spans.append(span)
    return Answer(pieces=(write_fastjson({"consumeTimeSpanSet": spans}),))


def all_consumer_offsets(broker: Broker, request: Request) -> Answer:  # noqa: ARG001 - as all handlers
    """Answer the committed offsets of all groups, as config/consumerOffset.json has them."""
    return Answer(pieces=(consumer_offset.encode(broker.store.progress.snapshot()),))


def reset_offset(broker: Broker, request: Request) -> Answer:
    """Send a group to the messages of a time, or one queue of it to an offset; answer the new offsets."""
    group, topic, time_ms = request.text("group"), request.text("topic"), request.int64("timestamp")
    request.text("isForce")
    queue_id, offset = request.int32("queueId", -1), request.int64("offset", -1)
    config = broker.topics.find(topic)
    if config is None:
        refuse(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} does not exist")
    if broker.groups.find(group) is None:
        refuse(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} does not exist")
    if queue_id >= 0:
        check_queue_id(topic, queue_id)
    if queue_id >= 0 and offset != -1:
        begin, end = broker.store.min_offset(topic, queue_id), broker.store.max_offset(topic, queue_id)
        if not begin <= offset <= end + 1:
            words = f"Target offset {offset} not in consume queue range [{begin}-{end}]"
            refuse(ResponseCode.SYSTEM_ERROR, words)
        offsets = {queue_id: offset}
    else:
        queue_ids = [queue_id] if queue_id >= 0 else range(queue_count(config, "readQueueNums"))
        offsets = {one: _offset_at(broker, topic, one, time_ms) for one in queue_ids}
    refuse_further_offsets(broker.store.progress, group, topic, offsets)
    for one, wanted in offsets.items():
        broker.store.reset_offset(group, topic, one, wanted)
        broker.holds.answer_pulls_of_queue(group, topic, one)
    table = {QueueName(broker.name, one, topic): wanted for one, wanted in offsets.items()}
    return Answer(pieces=(write_queue_table({"offsetTable": table}),))


def _offset_at(broker: Broker, topic: str, queue_id: int, time_ms: int) -> int:
    """Return the offset for a time; the queue's end for a negative one."""
    if time_ms < 0:
        return broker.store.max_offset(topic, queue_id)
    return broker.store.offset_by_time(topic, queue_id, time_ms, "lower")


def clone_offsets(broker: Broker, request: Request) -> Answer:
    """Give a group the offsets of another: in one topic, or in all that the other reads.

    RocketMQ's broker, asked for all topics, copies none.
    """
    from_group, to_group, topic = request.text("srcGroup"), request.text("destGroup"), request.fields.get("topic", "")
    is_offline = request.flag("offline")
    broker.groups.check(to_group)
    for one in [topic] if topic.strip() else broker.store.progress.topics_of(from_group):
        if broker.topics.find(one) is not None and (is_offline or broker.consumers.reads(from_group, one)):
            queues = broker.store.progress.query_all(from_group, one)
            refuse_further_offsets(broker.store.progress, to_group, one, queues)
            broker.store.clone_offsets(from_group, to_group, one)
    return Answer()
