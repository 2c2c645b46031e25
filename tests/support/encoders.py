"""Encoders that only tests need: reput reads these bytes and does not write them, or writes them as columns.

Each format is stated here a second time.
"""

from __future__ import annotations

import json
import struct

from reput.formats.java.hashing import utf16_units
from reput.formats.log.record import MAGIC_V1, MAGIC_V2, V2_TOPIC_LENGTH_ABOVE
from reput.formats.pending.pop_database import PopRecord
from reput.formats.pending.timer_database import TIMER_VALUE
from reput.formats.pending.transaction_database import HALF_VALUE, HalfEntry
from reput.formats.queue.consume_queue_ext import MAX_BITMAP_SIZE, UNIT, Unit


def magic_for_topic(topic: bytes) -> int:
    """Return v2 for topics of more than 127 UTF-16 units, otherwise v1 (autoMessageVersionOnTopicLen)."""
    units = sum(1 for _ in utf16_units(topic))
    return MAGIC_V2 if units > V2_TOPIC_LENGTH_ABOVE else MAGIC_V1


def encode_ext_unit(unit: Unit) -> bytes:
    """Return the bytes of a ConsumeQueueExt unit; raises ValueError for a bitmap that no unit has room for."""
    if len(unit.bitmap) > MAX_BITMAP_SIZE:
        raise ValueError(f"a bitmap of {len(unit.bitmap)} bytes: {MAX_BITMAP_SIZE} at most")
    return UNIT.struct.pack(unit.size, unit.tags_code, unit.store_timestamp, len(unit.bitmap)) + unit.bitmap


def encode_timer_value(size: int, physical_offset: int) -> bytes:
    """Return the value of a timer message in RocksDB."""
    return TIMER_VALUE.struct.pack(size, physical_offset)


def encode_timer_mark(number: int) -> bytes:
    """Return the value of a checkpoint of the timers in RocksDB."""
    return struct.pack(">q", number)


def encode_half_entry(entry: HalfEntry) -> tuple[bytes, bytes]:
    """Return key and value of a half message in RocksDB."""
    key = b"@".join((struct.pack(">q", entry.physical_offset), entry.topic, entry.unique_key))
    return key, HALF_VALUE.struct.pack(entry.check_times, entry.size)


def encode_pop_record(record: PopRecord) -> bytes:
    """Return the value of a message that a pop consumer holds, in RocksDB: the JSON that RocketMQ writes."""
    values = {
        "popTime": record.pop_time,
        "groupId": record.group,
        "topicId": record.topic,
        "queueId": record.queue_id,
        "retryFlag": 0,
        "invisibleTime": record.invisible_time,
        "offset": record.offset,
        "attemptTimes": record.attempts,
        "attemptId": "a",
        "suspend": False,
    }
    return json.dumps(values, ensure_ascii=False).encode()
