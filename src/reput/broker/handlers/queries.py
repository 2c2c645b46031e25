"""Requests that look for messages: by key, by their place in the log, and the time of a queue's first one.

Source: `QueryMessageProcessor`, `AdminBrokerProcessor.getEarliestMsgStoretime`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reput.broker.wire.answers import Answer
from reput.broker.wire.refusals import refuse
from reput.formats.layout import INT64_MAX
from reput.formats.log.property_names import INNER_MULTI_DISPATCH, REAL_TOPIC
from reput.formats.topics.system_topics import GIVEN_UP_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from reput.formats.wire.codes import ResponseCode

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker
    from reput.broker.wire.requests import Request
    from reput.store.read.message import StoredMessage

MAX_FOUND: Final = 64
"""The most messages of an answer; RocketMQ's store has the same bound (maxMsgsNumBatch)."""
MAX_FOUND_BYTES: Final = 12 << 20
"""An answer is one frame: the messages after these bytes are left out."""
_UNIQUE_KEY_FOUND = 32
_OF_REAL_TOPICS = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, GIVEN_UP_TOPIC})


def query_message(broker: Broker, request: Request) -> None:
    """Answer the newest messages with a key, a unique key or a tag. A thread looks: the index may not be in memory.

    The records are compared with the key, so hashes that collide give no other message.
    """
    topic, key = request.text("topic"), request.text("key")
    wanted, begin_ms = request.int32("maxNum"), request.int64("beginTimestamp")
    end_ms = request.int64("endTimestamp")
    is_unique = request.flag("_UNIQUE_KEY_QUERY") or request.fields.get("indexType") == "U"
    by_tag = request.fields.get("indexType") == "T"
    most = _UNIQUE_KEY_FOUND if is_unique else min(max(wanted, 1), MAX_FOUND)
    until_ms = None if end_ms >= INT64_MAX else max(end_ms, 0)

    def look() -> Answer:
        store = broker.store
        found = store.query_message(topic, key, most, max(begin_ms, 0) or None, until_ms, by_tag=by_tag)
        pieces: list[memoryview] = []
        size = 0
        for message in found:
            if is_unique and message.unique_key != key:
                continue
            size += len(message.raw)
            if pieces and size > MAX_FOUND_BYTES:
                break
            pieces.append(message.raw)
        fields = {
            "indexLastUpdateTimestamp": str(store.lag().ms),
            "indexLastUpdatePhyoffset": str(store.view.confirmed()),
        }
        if not pieces:
            words = "can not find message, maybe time range not correct"
            return Answer(ResponseCode.QUERY_NOT_FOUND, words, fields)
        return Answer(fields=fields, pieces=pieces)

    broker.in_thread(request, look)


def view_message(broker: Broker, request: Request) -> Answer:
    """Answer the message at a log offset; a client may ask for it under the topic to which it goes in the end."""
    offset, topic = request.int64("offset"), request.fields.get("topic", "").strip()
    message = broker.store.message_at(offset)
    if message is None:
        refuse(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
    if topic and topic not in _topics_of(message):
        refuse(ResponseCode.NO_PERMISSION, "The topic does not match the message")
    return Answer(pieces=(message.raw,))


def _topics_of(message: StoredMessage) -> set[str | None]:
    if message.topic in _OF_REAL_TOPICS:
        return {message.properties.get(REAL_TOPIC)}
    return {message.topic, *message.properties.get(INNER_MULTI_DISPATCH, "").split(",")}


def earliest_time(broker: Broker, request: Request) -> Answer:
    """Answer the store time of a queue's first message; -1 without one."""
    topic, queue_id = request.text("topic"), request.int32("queueId")
    store = broker.store
    return Answer(fields={"timestamp": str(store.store_time(topic, queue_id, store.min_offset(topic, queue_id)))})
