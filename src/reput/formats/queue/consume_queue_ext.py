"""ConsumeQueueExt: per topic and queue, files of units that hold more of a message than a ConsumeQueue entry can.

    file  := unit* end                  end: the two bytes -1, or nothing in the last file
    unit  := size tags_code store_timestamp bitmap_size bitmap

A unit lies within one file, with END_ROOM bytes free after it. A tags code below every int is the address of a unit:
the unit's byte offset in the queue's files, counted from Long.MIN_VALUE.

Source: `ConsumeQueueExt`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from reput.formats.layout import INT64_MIN, Field, Layout

UNIT = Layout(
    "ConsumeQueueExt unit, head",
    "ConsumeQueueExt.CqExtUnit",
    [
        Field("size", "h", "length of the unit, this field included; -1 ends a file, 0 is what was never written"),
        Field("tags_code", "q", "what the entry would hold in its tags code"),
        Field("store_timestamp", "q", "the message's store time (ms)"),
        Field("bitmap_size", "h", "bytes of the bitmap that follows: bits of the SQL92 filters that match"),
    ],
)
UNIT_SIZE = UNIT.size
assert UNIT_SIZE == 20
MAX_UNIT_SIZE = 0x7FFF
MAX_BITMAP_SIZE = MAX_UNIT_SIZE - UNIT_SIZE

DEFAULT_FILE_SIZE = 48 << 20
END_ROOM = 4
FILE_END = struct.pack(">h", -1)

MIN_ADDRESS = INT64_MIN
MAX_ADDRESS = -(1 << 31) - 1
MAX_OFFSET = MAX_ADDRESS - MIN_ADDRESS
assert MAX_OFFSET == 0x7FFFFFFF7FFFFFFF


class Unit(NamedTuple):
    """The values of a unit; the bitmap is empty if none was computed."""

    tags_code: int
    store_timestamp: int
    bitmap: bytes = b""

    @property
    def size(self) -> int:
        """The length of the unit in bytes."""
        return UNIT_SIZE + len(self.bitmap)


def is_address(tags_code: int) -> bool:
    """Return True if a ConsumeQueue entry's tags code is the address of a unit."""
    return tags_code <= MAX_ADDRESS


def address_of(offset: int) -> int:
    """Return the address of the unit at a byte offset of the queue's ext files."""
    if not 0 <= offset <= MAX_OFFSET:
        raise ValueError(f"offset {offset}: a unit's lies between 0 and {MAX_OFFSET}")
    return offset + MIN_ADDRESS


def offset_of(address: int) -> int:
    """Return the byte offset in the queue's ext files of an address."""
    if not is_address(address):
        raise ValueError(f"{address}: no address of a unit, which is at most {MAX_ADDRESS}")
    return address - MIN_ADDRESS


def decode_unit(data: bytes | memoryview, offset: int = 0) -> Unit | None:
    """Return the unit at byte `offset` of a file's bytes; None if there is none, or none that the file holds whole."""
    if not 0 <= offset <= len(data) - UNIT_SIZE:
        return None
    size, tags_code, store_timestamp, bitmap_size = UNIT.struct.unpack_from(data, offset)
    if bitmap_size < 0 or size != UNIT_SIZE + bitmap_size or offset + size > len(data):
        return None
    return Unit(tags_code, store_timestamp, bytes(data[offset + UNIT_SIZE : offset + size]))
