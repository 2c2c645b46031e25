"""The header of a send, in either version, and the topic to which it goes.

Source: `SendMessageRequestHeaderV2`, `AbstractSendMessageProcessor.msgCheck`, `SendMessageProcessor.handleRetryAndDLQ`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from reput.broker.state.configuration import NOT_FOR_SENDERS, check_topic, queue_count
from reput.broker.state.known_headers import SendHeader, send_key
from reput.broker.wire.refusals import refuse
from reput.formats.log.properties import properties_text, with_further
from reput.formats.log.property_names import DELAY
from reput.formats.log.record import COMPRESSION_MASK, FLAG_COMPRESSED, FLAG_MULTI_TAGS
from reput.formats.topics.permissions import INHERIT, READ, WRITE
from reput.formats.topics.system_topics import DEAD_LETTER_PREFIX, RETRY_PREFIX
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.formats.wire.headers import LONG_NAMES, MOST_TRIES, SHORT_NAMES

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker
    from reput.broker.wire.requests import Request

_KEPT_FLAGS: Final = FLAG_COMPRESSED | FLAG_MULTI_TAGS | COMPRESSION_MASK
"""The bits of sysFlag that a sender sets; the others are the store's."""

_MS_DIGITS = 13
"""Digits of a time in ms, from 2001 to 2286."""


def admit_send(broker: Broker, request: Request) -> SendHeader:
    """Check a send, make its topic as its header asks if that is new, and return the header."""
    code, fields = request.frame.code, request.fields
    if code == RequestCode.SEND_MESSAGE:
        return _admit_anew(broker, request)
    key = send_key(fields, is_batch=code == RequestCode.SEND_BATCH_MESSAGE)
    known, born = broker.known_sends.find(key), fields.get("g", "")
    if known is not None and len(born) == _MS_DIGITS and born.isdecimal() and born.isascii():
        topic, queue_id, sys_flag, _, flag, _, reconsume_times, is_batch = known
        properties = fields.get("i", "")
        return SendHeader(topic, queue_id, sys_flag, int(born), flag, properties, reconsume_times, is_batch)
    header = _admit_anew(broker, request)
    # A retry topic's messages go elsewhere after some tries; without a queue each message gets another one.
    if not header.topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)) and str(header.queue_id) == fields.get("e"):
        broker.known_sends.add(key, header)
    return header


def _admit_anew(broker: Broker, request: Request) -> SendHeader:
    code = request.frame.code
    names = LONG_NAMES if code == RequestCode.SEND_MESSAGE else SHORT_NAMES
    request.text(names["producerGroup"])
    topic = check_topic(request.text(names["topic"]))
    default_topic = request.text(names["defaultTopic"])
    wanted_queues = request.int32(names["defaultTopicQueueNums"])
    queue_id = request.int32(names["queueId"])
    sys_flag = request.int32(names["sysFlag"])
    born = request.int64(names["bornTimestamp"])
    flag = request.int32(names["flag"])
    if topic in NOT_FOR_SENDERS:
        refuse(ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")
    if topic.startswith(RETRY_PREFIX):
        find_or_create_group_topic(broker, topic, 1)
    config = broker.topics.find_or_create(topic, default_topic, wanted_queues)
    queues = max(queue_count(config, "readQueueNums", "writeQueueNums"), 1)
    if queue_id >= queues:
        refuse(
            ResponseCode.INVALID_PARAMETER,
            f"request queueId[{queue_id}] is illegal, {_words_of(topic, config)} Producer: {request.connection.peer}",
        )
    if queue_id < 0:
        queue_id = random.randrange(queues)
    properties = request.fields.get(names["properties"], "")
    header = SendHeader(
        topic,
        queue_id,
        sys_flag & _KEPT_FLAGS,
        born,
        flag,
        properties,
        request.int32(names["reconsumeTimes"], 0),
        request.flag(names["batch"]) or code == RequestCode.SEND_BATCH_MESSAGE,
    )
    if not topic.startswith(RETRY_PREFIX):
        return header
    if header.is_batch:
        refuse(ResponseCode.MESSAGE_ILLEGAL, f"batch request does not support retry group {topic}")
    most_tries = names["maxReconsumeTimes"]
    return _place_retry(broker, header, request.int32(most_tries) if most_tries in request.fields else None)


def _words_of(topic: str, config: Mapping[str, Any]) -> str:
    """Return the configuration of a topic as RocketMQ prints it (`TopicConfig.toString`)."""
    perm = config.get("perm", 0)
    rights = "".join(letter if perm & bit else "-" for letter, bit in (("R", READ), ("W", WRITE), ("X", INHERIT)))
    attributes = ", ".join(f"{name}={value}" for name, value in (config.get("attributes") or {}).items())
    values = {
        "topicName": topic,
        "readQueueNums": config.get("readQueueNums"),
        "writeQueueNums": config.get("writeQueueNums"),
        "perm": rights,
        "topicFilterType": config.get("topicFilterType", "SINGLE_TAG"),
        "topicSysFlag": config.get("topicSysFlag", 0),
        "order": str(config.get("order", False)).lower(),
        "attributes": f"{{{attributes}}}",
    }
    return f"TopicConfig [{', '.join(f'{name}={value}' for name, value in values.items())}]"


def _place_retry(broker: Broker, header: SendHeader, most_tries: int | None) -> SendHeader:
    """Return the header of a message that a client sends to a retry topic.

    It becomes a dead letter after more than `most_tries` (None: the group's own number), and if the group consumes in
    order: its clients have tried often enough by themselves.
    """
    group = header.topic.removeprefix(RETRY_PREFIX)
    config = broker.groups.find_or_create(group)
    most = config.get("retryMaxTimes", MOST_TRIES) if most_tries is None else most_tries
    if header.reconsume_times <= most and not broker.locks.has_locks(group):
        return header
    topic = find_or_create_group_topic(broker, f"{DEAD_LETTER_PREFIX}{group}", 1)
    broker.statistics.became_dead_letter(group, header.topic)
    properties = with_further(header.properties, properties_text({DELAY: "-1"}))
    return header._replace(topic=topic, queue_id=0, properties=properties)


def find_or_create_group_topic(broker: Broker, topic: str, queues: int) -> str:
    """Return a topic of a group, which is made if there is none; refuse if it may not be written."""
    config = broker.topics.find_to_use(topic)
    if config is None:
        broker.topics.create(topic, queues, queues)
    elif not config.get("perm", 0) & WRITE:
        refuse(ResponseCode.NO_PERMISSION, f"the topic[{topic}] sending message is forbidden")
    return topic
