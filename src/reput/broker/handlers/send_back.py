"""Messages that a consumer could not handle: they come again later, or become dead letters.

The message is stored again, under the group's retry topic or its dead letters, with one try more. RETRY_TOPIC has the
topic that it was first sent to, ORIGIN_MESSAGE_ID the id that it had there. A client whose request fails sends such a
message itself; so do consumers in order, whose messages become dead letters at once.

Source: `AbstractSendMessageProcessor.consumerSendMsgBack`, `SendMessageProcessor.handleRetryAndDLQ`.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from reput.broker.handlers.put_answers import refusal
from reput.broker.handlers.send_header import find_or_create_group_topic
from reput.broker.services.delivery import copy_of
from reput.broker.state.configuration import MAX_QUEUES, queue_count
from reput.broker.wire.answers import Answer
from reput.broker.wire.refusals import refuse
from reput.formats.log.property_names import (
    CRC32,
    DELAY,
    INNER_MULTI_DISPATCH,
    INNER_MULTI_QUEUE_OFFSET,
    ORIGIN_MESSAGE_ID,
    RETRY_TOPIC,
    WAIT,
)
from reput.formats.topics.lite_topics import LITE_TOPIC
from reput.formats.topics.system_topics import DEAD_LETTER_PREFIX, RETRY_PREFIX
from reput.formats.wire.codes import ResponseCode
from reput.formats.wire.headers import MOST_TRIES

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker
    from reput.broker.wire.requests import Request

FIRST_RETRY_LEVEL: Final = 3
"""The delay level of the first retry; each further one waits a level longer."""


def send_back(broker: Broker, request: Request) -> Answer:
    """Store a message again for its group: to be delivered later, or as a dead letter after too many tries."""
    group, offset, level = request.text("group"), request.int64("offset"), request.int32("delayLevel")
    broker.refuse_full_tail()
    config = broker.groups.find_or_create(group)
    retry_queues = config.get("retryQueueNums", 1)
    if retry_queues <= 0:
        return Answer()
    topic = find_or_create_group_topic(broker, f"{RETRY_PREFIX}{group}", min(retry_queues, MAX_QUEUES))
    # Consumers pull from the queues of the route; RocketMQ would take any of the group's number, also one without them.
    queue_id = random.randrange(max(queue_count(broker.topics.get(topic), "readQueueNums"), 1))
    found = broker.store.message_at(offset)
    if found is None:
        refuse(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {offset}")
    tries = found.record.reconsume_times
    if tries >= request.int32("maxReconsumeTimes", config.get("retryMaxTimes", MOST_TRIES)) or level < 0:
        topic, queue_id, level = find_or_create_group_topic(broker, f"{DEAD_LETTER_PREFIX}{group}", 1), 0, 0
        broker.statistics.became_dead_letter(group, found.topic)
    elif level == 0:
        level = FIRST_RETRY_LEVEL + tries
    first = {RETRY_TOPIC: found.topic, ORIGIN_MESSAGE_ID: found.message_id}
    properties = first | found.properties | {WAIT: "false", DELAY: str(level)}
    # This property belongs to a record, not to its message.
    properties.pop(CRC32, None)
    if LITE_TOPIC.decode() in properties:
        # With these RocketMQ puts a dead letter into its lite topic again, where its group gets it for ever.
        properties.pop(INNER_MULTI_DISPATCH, None)
        properties.pop(INNER_MULTI_QUEUE_OFFSET, None)
    message = replace(copy_of(found, topic), properties=properties, reconsume_times=tries + 1)
    result = broker.store.put_message(*broker.place(message, queue_id))
    if not result.status.is_stored:
        # RocketMQ answers 1 with the status; its client sends the message itself after either.
        return refusal(broker, result.status, result.reason)
    return Answer()
