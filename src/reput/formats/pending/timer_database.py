"""Pending timers in RocksDB: the column family `timer` of `rocksdbstore`.

    key                                 value
    one for each timer message          size and place of its record
    sys_topic_scan_offset_checkpoint    next message of queue 0 of rmq_sys_wheel_timer to take in
    timeline_checkpoint                 messages that are due earlier have been delivered (ms)

Keys sort by the time at which messages are due. Delivered messages stay for half an hour or longer. A database has no
timeline_checkpoint until it has delivered a message. A broker that finds none begins at its clock less 10 seconds.

Source: `TimerRocksDBRecord`, `MessageRocksDBStorage`, `Timeline`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from reput.formats.layout import Field, Layout

FAMILY = "timer"
QUEUE_OFFSET_KEY = b"sys_topic_scan_offset_checkpoint"
TIMELINE_KEY = b"timeline_checkpoint"

TIMER_KEY_PARTS: tuple[tuple[str, str, str], ...] = (
    ("8", "deliver_timestamp", "when the message is due (ms)"),
    ("n", "unique_key", "its unique key, UTF-8"),
)
TIMER_VALUE = Layout(
    "Value of a timer message",
    "TimerRocksDBRecord.getValueBytes",
    [
        Field("size", "i", "length of the record in bytes"),
        Field("physical_offset", "q", "where the record starts in the CommitLog"),
    ],
)
assert TIMER_VALUE.size == 12

_TIME = struct.Struct(">q")
_CHECKPOINTS = (QUEUE_OFFSET_KEY, TIMELINE_KEY)


class TimerEntry(NamedTuple):
    """A timer message in the database; times in ms."""

    deliver_timestamp: int
    unique_key: bytes
    size: int
    physical_offset: int


def timer_key(deliver_timestamp: int, unique_key: bytes = b"") -> bytes:
    """Return the key of a message; without a unique key where the messages of a time begin."""
    return _TIME.pack(deliver_timestamp) + unique_key


def is_timer_checkpoint(key: bytes) -> bool:
    """Return True if a key is one of the two that are no timer message."""
    return key in _CHECKPOINTS


def has_time(key: bytes) -> bool:
    """Return True if a key is long enough for the time of a message."""
    return len(key) >= _TIME.size


def decode_timer_entry(key: bytes, value: bytes) -> TimerEntry | None:
    """Return the message of a key and a value; None for bytes that a broker does not take for one."""
    if not has_time(key) or len(value) != TIMER_VALUE.size:
        return None
    return TimerEntry(_TIME.unpack_from(key)[0], key[_TIME.size :], *TIMER_VALUE.struct.unpack(value))


def decode_checkpoint_value(value: bytes | None) -> int | None:
    """Return the number of a checkpoint; None without one, or for another length."""
    return _TIME.unpack(value)[0] if value is not None and len(value) == _TIME.size else None
