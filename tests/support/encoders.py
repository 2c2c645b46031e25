"""Encoders that only tests need. reput writes these bytes as columns; here each format is stated a second time."""

from __future__ import annotations

from collections.abc import Sequence

from reput.formats.client_batch import HEAD, HEAD_SIZE, LENGTH_SIZE, InnerMessage
from reput.formats.consume_queue_ext import MAX_BITMAP_SIZE, UNIT, Unit
from reput.formats.hashing import utf16_units
from reput.formats.record import MAGIC_V1, MAGIC_V2, V2_TOPIC_LENGTH_ABOVE


def magic_for_topic(topic: bytes) -> int:
    """Return v2 for topics of more than 127 UTF-16 units, otherwise v1 (autoMessageVersionOnTopicLen)."""
    units = sum(1 for _ in utf16_units(topic))
    return MAGIC_V2 if units > V2_TOPIC_LENGTH_ABOVE else MAGIC_V1


def encode_messages(messages: Sequence[InnerMessage]) -> bytes:
    """Return the body of a batch that a client made."""
    return b"".join(
        HEAD.struct.pack(HEAD_SIZE + len(one.body) + LENGTH_SIZE + len(one.properties), 0, 0, one.flag, len(one.body))
        + one.body
        + len(one.properties).to_bytes(LENGTH_SIZE, signed=True)
        + one.properties
        for one in messages
    )


def encode_unit(unit: Unit) -> bytes:
    """Return the bytes of a ConsumeQueueExt unit; raises ValueError for a bitmap that no unit has room for."""
    if len(unit.bitmap) > MAX_BITMAP_SIZE:
        raise ValueError(f"a bitmap of {len(unit.bitmap)} bytes: {MAX_BITMAP_SIZE} at most")
    return UNIT.struct.pack(unit.size, unit.tags_code, unit.store_timestamp, len(unit.bitmap)) + unit.bitmap
