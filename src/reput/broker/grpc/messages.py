"""Messages as gRPC's clients get them.

Source: `GrpcConverter`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from reput.broker.grpc.protocol.definition_pb2 import (
    Digest,
    DigestType,
    Encoding,
    Message,
    MessageType,
    Resource,
    SystemProperties,
)
from reput.formats.java.java_numbers import parse_whole
from reput.formats.log import property_names as names
from reput.formats.log.properties import keys_of, text_properties
from reput.formats.log.record import FLAG_COMPRESSED, body_matches_crc
from reput.formats.topics.lite_topics import LITE_TOPIC
from reput.times import now_ms

if TYPE_CHECKING:
    from reput.formats.log.record import Record

_LITE: Final = LITE_TOPIC.decode()
RESERVED: Final = frozenset(
    {
        *(names.TRACE_ON, names.REGION, names.KEYS, names.TAGS, names.WAIT, names.DELAY, names.RETRY_TOPIC),
        *(names.REAL_TOPIC, names.REAL_QUEUE_ID, names.TRANSACTION_PREPARED, names.PRODUCER_GROUP, "MIN_OFFSET"),
        *("MAX_OFFSET", "BUYER_ID", names.ORIGIN_MESSAGE_ID, "TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG"),
        *(names.RECONSUME_TIME, names.UNIQUE_KEY, "MAX_RECONSUME_TIMES", "CONSUME_START_TIME", "POP_CK"),
        *("POP_CK_OFFSET", names.FIRST_POP_TIME, names.PREPARED_QUEUE_OFFSET, "DUP_INFO", "EXTEND_UNIQ_INFO"),
        *("INSTANCE_ID", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "ARRIVE_TIME", "PUSH_REPLY_TIME"),
        *(names.CLUSTER, "MSG_TYPE", names.INNER_MULTI_QUEUE_OFFSET, names.TIMER_DELAY_MS, names.TIMER_DELAY_SEC),
        *(names.TIMER_DELIVER_MS, names.TIMER_ENQUEUE_MS, names.TIMER_DEQUEUE_MS, names.TIMER_ROLL_TIMES),
        *(names.TIMER_OUT_MS, names.TIMER_DELETE_KEY, "TIMER_DELAY_LEVEL", names.BORN_HOST, names.BORN_TIMESTAMP),
        *(names.DEAD_TOPIC, names.DEAD_MESSAGE_ID, names.CRC32, names.ORIGIN_GROUP),
        *(_LITE, "_SYS_MSG_PRIORITY_"),
    }
)
"""Properties that a sender cannot set, and a consumer does not see (`MessageConst.STRING_HASH_SET`)."""
_DELAYS: Final = (names.DELAY, names.TIMER_DELIVER_MS, names.TIMER_DELAY_SEC)


def type_of(properties: Mapping[str, str]) -> MessageType:
    """Return the type of a message, by its properties."""
    if properties.get(names.TRANSACTION_PREPARED) == "true":
        return MessageType.TRANSACTION
    if any(name in properties for name in _DELAYS):
        return MessageType.DELAY
    if names.SHARDING_KEY in properties:
        return MessageType.FIFO
    return MessageType.LITE if _LITE in properties else MessageType.NORMAL


def message_of(record: Record, topic: str, *, handle: str | None = None, attempt: int | None = None) -> Message:
    """Return the message of a record. Its topic may be another one than the record's, as that of a retry is.

    Args:
        record: the record.
        topic: the topic that its consumer subscribes to.
        handle: the handle by which it is acknowledged.
        attempt: how often it was given, with this time; by default one more than its record says.
    """
    properties = text_properties(record.properties)
    system = SystemProperties(
        keys=keys_of(properties.get(names.KEYS, "")),
        message_id=properties.get(names.UNIQUE_KEY, record.message_id),
        body_digest=_digest_of(record),
        body_encoding=Encoding.GZIP if record.sys_flag & FLAG_COMPRESSED else Encoding.IDENTITY,
        message_type=type_of(properties),
        born_host=properties.get(names.BORN_HOST, str(record.born_host).rpartition(":")[0]),
        store_host=str(record.store_host),
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        delivery_attempt=record.reconsume_times + 1 if attempt is None else attempt,
    )
    system.born_timestamp.FromMilliseconds(record.born_timestamp)
    system.store_timestamp.FromMilliseconds(record.store_timestamp)
    if names.TAGS in properties:
        system.tag = properties[names.TAGS]
    if names.SHARDING_KEY in properties:
        system.message_group = properties[names.SHARDING_KEY]
    if _LITE in properties:
        system.lite_topic = properties[_LITE]
    if names.TRACE_CONTEXT in properties:
        system.trace_context = properties[names.TRACE_CONTEXT]
    if handle is not None:
        system.receipt_handle = handle
    _set_due(system, properties)
    if names.DEAD_TOPIC in properties and names.DEAD_MESSAGE_ID in properties:
        system.dead_letter_queue.topic = properties[names.DEAD_TOPIC]
        system.dead_letter_queue.message_id = properties[names.DEAD_MESSAGE_ID]
    user = {name: value for name, value in properties.items() if name not in RESERVED}
    return Message(topic=Resource(name=topic), user_properties=user, system_properties=system, body=record.body)


def _digest_of(record: Record) -> Digest:
    """Return the digest of a body, as clients compare it (`BinaryUtil.generateMd5`).

    A damaged body gets the CRC of its record, so clients see the damage: RocketMQ's proxy makes a digest that matches.
    """
    if not body_matches_crc(record):
        return Digest(type=DigestType.CRC32, checksum=f"{record.body_crc:X}")
    checksum = hashlib.md5(record.body, usedforsecurity=False).hexdigest().upper()
    return Digest(type=DigestType.MD5, checksum=checksum)


def _set_due(system: SystemProperties, properties: Mapping[str, str]) -> None:
    """Set the time at which a message was due, if it has one."""
    delay_s = parse_whole(properties.get(names.TIMER_DELAY_SEC, ""), 32)
    due_ms = parse_whole(properties.get(names.TIMER_DELIVER_MS, ""), 52)
    if delay_s is not None:
        due_ms = now_ms() + delay_s * 1000
    if due_ms is not None and due_ms >= 0:
        system.delivery_timestamp.FromMilliseconds(due_ms)
