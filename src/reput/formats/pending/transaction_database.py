"""Half messages in RocksDB: the column family `trans` of `rocksdbstore`.

    key                                value
    one for each open half message     how often it was checked, and its record's size
    lastOffsetPy                       log offset of the last half message that is in the family

The log holds the messages in queue 0 of RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC. A message of
RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC ends one: TRANS_OFFSET is its log offset, and its key is removed. Without
transWriteOriginTransHalfEnable=false a broker writes the half topic of files instead, and the family stays empty.

Source: `TransRocksDBRecord`, `TransMessageRocksDBStore`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from reput.formats.layout import Field, Layout

FAMILY = "trans"
LAST_OFFSET_KEY = b"lastOffsetPy"
"""The key in each family of `rocksdbstore` that follows the log (`MessageRocksDBStorage.LAST_OFFSET_PY`)."""

HALF_KEY_PARTS: tuple[tuple[str, str, str], ...] = (
    ("8", "physical_offset", "where the record starts in the CommitLog"),
    ("1", "", "`@`"),
    ("n", "topic", "the real topic, UTF-8"),
    ("1", "", "`@`"),
    ("n", "unique_key", "the transaction id, UTF-8"),
)
HALF_VALUE = Layout(
    "Value of a half message",
    "TransRocksDBRecord.getValueBytes",
    [
        Field("check_times", "i", "how often the broker has asked the producer"),
        Field("size", "i", "length of the record in bytes"),
    ],
)
assert HALF_VALUE.size == 8

_OFFSET = struct.Struct(">q")
_SEPARATOR = b"@"


class HalfEntry(NamedTuple):
    """A half message in the database."""

    physical_offset: int
    topic: bytes
    unique_key: bytes
    check_times: int
    size: int


def decode_half_entry(key: bytes, value: bytes) -> HalfEntry | None:
    """Return the half message of a key and a value; None for other bytes."""
    names = key[_OFFSET.size :].split(_SEPARATOR, 2)
    if len(value) != HALF_VALUE.size or len(names) != 3 or names[0] or not (names[1] and names[2]):
        return None
    return HalfEntry(_OFFSET.unpack_from(key)[0], names[1], names[2], *HALF_VALUE.struct.unpack(value))


def decode_last_offset(value: bytes | None) -> int:
    """Return the log offset in lastOffsetPy; -1 without it, or for another length."""
    return int(_OFFSET.unpack(value)[0]) if value is not None and len(value) == _OFFSET.size else -1
