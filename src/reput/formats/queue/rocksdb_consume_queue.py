"""RocksDB ConsumeQueue: entries and queue ends as keys and values of two column families.

    column family   key                                         value
    default         one for each message of each queue          its entry, with the store time
    offset          "max" and "min" of each queue               place in the log, queue offset
    offset          "max" of queue 0 of CHECKPOINT_TOPIC        log offset after the last record that was dispatched

Keys sort by topic length, topic, queue and queue offset, so a queue's entries are together and in order. The value of
"max" is of the queue's last message: its next queue offset is one more. The value of "min" is of its first one. It is
made on demand, and may refer to a record that has expired.

Source: `RocksDBConsumeQueueTable`, `RocksDBConsumeQueueOffsetTable`, `RocksDBConsumeQueueStore`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from reput.formats.database.families import DEFAULT_FAMILY
from reput.formats.layout import Field, Layout
from reput.formats.queue.consume_queue import ENTRY_SIZE, PRE_BLANK, Entry, QueueKey

ENTRY_FAMILY = DEFAULT_FAMILY
OFFSET_FAMILY = "offset"
FOLDER_SIGNS = ("CURRENT", "IDENTITY")
"""Files of every RocksDB: they show that a consumequeue folder is one."""
LOCK_FILE = "LOCK"
"""The file that a program locks while it has a database open to write; it stays."""

_DATABASE_FILE = re.compile(
    r"CURRENT|IDENTITY|LOCK|LOG(\.old[.\d]*)?|(MANIFEST|OPTIONS)-\d+|\d+\.(sst|log|blob|dbtmp)|rocksdict-config\.json"
)

CONTROL_0, CONTROL_1, CONTROL_2 = b"\x00", b"\x01", b"\x02"
MAX, MIN = b"max", b"min"
CHECKPOINT_TOPIC = b"CHECKPOINT_TOPIC"

ENTRY_KEY_PARTS: tuple[tuple[str, str, str], ...] = (
    ("4", "topic_length", "bytes of the topic"),
    ("1", "", "0x01"),
    ("n", "topic", "the topic, UTF-8"),
    ("1", "", "0x01"),
    ("4", "queue_id", "the queue"),
    ("1", "", "0x01; all entries of a queue lie between 0x00 and 0x02 here"),
    ("8", "queue_offset", "number of the message in its queue"),
)
OFFSET_KEY_PARTS: tuple[tuple[str, str, str], ...] = (
    ("4", "topic_length", "bytes of the topic"),
    ("1", "", "0x01"),
    ("n", "topic", "the topic, UTF-8"),
    ("1", "", "0x01"),
    ("3", "kind", "`max` or `min`"),
    ("1", "", "0x01"),
    ("4", "queue_id", "the queue"),
)

VALUE = Layout(
    "Value of an entry",
    "RocksDBConsumeQueueTable.buildCQValueByteBuffer",
    [
        Field("physical_offset", "q", "where the record starts in the CommitLog"),
        Field("size", "i", "the record's length in bytes"),
        Field("tags_code", "q", "as in a ConsumeQueue's entry"),
        Field("store_timestamp", "q", "when the record was stored (ms)"),
    ],
)
VALUE_SIZE = VALUE.size
assert VALUE_SIZE == ENTRY_SIZE + 8 == 28

OFFSET_VALUE = Layout(
    "Value of a queue's max or min",
    "RocksDBConsumeQueueOffsetTable.buildOffsetValue",
    [
        Field("physical_offset", "q", "where that message's record starts in the CommitLog"),
        Field("queue_offset", "q", "number of that message in its queue"),
    ],
)
OFFSET_VALUE_SIZE = OFFSET_VALUE.size
assert OFFSET_VALUE_SIZE == 16

RESTART_VALUE = Layout(
    "Value of CHECKPOINT_TOPIC's max",
    "RocksDBConsumeQueueOffsetTable.putMaxPhyAndCqOffset",
    [Field("log_offset", "q", "every record below it has its entry")],
)
assert RESTART_VALUE.size == 8

_PLACE, _TIME = VALUE.struct_of("physical_offset"), VALUE.struct_of("store_timestamp")
_OFFSET = struct.Struct(">q")
_QUEUE_ID = struct.Struct(">i")
_LENGTH = struct.Struct(">i")
ENTRY_KEY_EXTRA = 4 + 1 + 1 + 4 + 1 + 8
"""The bytes of an entry's key without its topic."""
OFFSET_KEY_EXTRA = 4 + 1 + 1 + 3 + 1 + 4
assert ENTRY_KEY_EXTRA == 19
assert OFFSET_KEY_EXTRA == 14


class OffsetValue(NamedTuple):
    """A queue's last or first message: its record's place in the log, and its queue offset."""

    physical_offset: int
    queue_offset: int


class OffsetKey(NamedTuple):
    """The meaning of a key of the offset family: a queue, and `max` or `min` of it."""

    queue: QueueKey
    kind: bytes


def is_database_file(name: str) -> bool:
    """Return True if a file of this name in a database's folder belongs to the database."""
    return _DATABASE_FILE.fullmatch(name) is not None


def queue_prefix(queue: QueueKey) -> bytes:
    """Return the prefix of the keys of all entries of a queue."""
    return _queue(queue) + CONTROL_1


def queue_bounds(queue: QueueKey) -> tuple[bytes, bytes]:
    """Return the range [begin, end) of the keys of all entries of a queue, and of no other."""
    return _queue(queue) + CONTROL_0, _queue(queue) + CONTROL_2


def topic_bounds(topic: bytes) -> tuple[bytes, bytes]:
    """Return the range [begin, end) of all keys of a topic in either family, and of no other."""
    begin = _topic(topic)
    return begin, begin[:-1] + CONTROL_2


def topic_begin(prefix: bytes, length: int) -> bytes:
    """Return the beginning of all keys of topics of `length` bytes that begin with `prefix`, in either family."""
    return _LENGTH.pack(length) + CONTROL_1 + prefix


def _queue(queue: QueueKey) -> bytes:
    return _topic(queue.topic) + _QUEUE_ID.pack(queue.queue_id)


def _topic(topic: bytes) -> bytes:
    return _LENGTH.pack(len(topic)) + CONTROL_1 + topic + CONTROL_1


def entry_key(queue: QueueKey, queue_offset: int) -> bytes:
    """Return the key of an entry."""
    return queue_prefix(queue) + _OFFSET.pack(queue_offset)


def entry_keys(queue: QueueKey, first: int, end: int) -> Iterator[bytes]:
    """Yield the keys of the entries [first, end)."""
    prefix = queue_prefix(queue)
    return (prefix + _OFFSET.pack(offset) for offset in range(first, end))


def decode_entry_key(key: bytes) -> tuple[QueueKey, int] | None:
    """Return queue and queue offset of an entry's key; None for bytes that are no such key."""
    topic = _topic_of(key, ENTRY_KEY_EXTRA)
    if topic is None or key[10 + len(topic) : 11 + len(topic)] != CONTROL_1:
        return None
    (queue_id,) = _QUEUE_ID.unpack_from(key, 6 + len(topic))
    (offset,) = _OFFSET.unpack_from(key, 11 + len(topic))
    return QueueKey(topic, queue_id), offset


def offset_key(queue: QueueKey, kind: bytes) -> bytes:
    """Return the key of a queue's `max` or `min`."""
    return _topic(queue.topic) + kind + CONTROL_1 + _QUEUE_ID.pack(queue.queue_id)


def decode_offset_key(key: bytes) -> OffsetKey | None:
    """Return the meaning of a key of the offset family; None for bytes that are no such key."""
    topic = _topic_of(key, OFFSET_KEY_EXTRA)
    if topic is None:
        return None
    at = 6 + len(topic)
    kind = key[at : at + 3]
    if kind not in (MAX, MIN) or key[at + 3 : at + 4] != CONTROL_1:
        return None
    return OffsetKey(QueueKey(topic, _QUEUE_ID.unpack_from(key, at + 4)[0]), kind)


def _topic_of(key: bytes, extra: int) -> bytes | None:
    length = len(key) - extra
    if length < 0 or _LENGTH.unpack_from(key, 0)[0] != length:
        return None
    topic = key[5 : 5 + length]
    return topic if key[4:5] == CONTROL_1 == key[5 + length : 6 + length] else None


RESTART_KEY = offset_key(QueueKey(CHECKPOINT_TOPIC, 0), MAX)
"""The key whose value says where to continue in the log."""


def encode_value(entry: Entry, store_timestamp: int) -> bytes:
    """Return the value of an entry."""
    return VALUE.struct.pack(*entry, store_timestamp)


def decode_value(value: bytes | memoryview) -> tuple[Entry, int]:
    """Return an entry and its record's store time (ms); raises struct.error for another length."""
    physical_offset, size, tags_code, store_timestamp = VALUE.struct.unpack(value)
    return Entry(physical_offset, size, tags_code), store_timestamp


def blank_value(store_timestamp: int = 0, blank: bytes = PRE_BLANK) -> bytes:
    """Return the value of an entry that only fills a place: a pre-blank, or the `blank` that is given."""
    return blank + _TIME.pack(store_timestamp)


def outer_places(values: bytes | memoryview) -> tuple[int, int]:
    """Return the log offsets of the records of the first and of the last of these values."""
    return _PLACE.unpack_from(values, 0)[0], _PLACE.unpack_from(values, len(values) - VALUE_SIZE)[0]


def encode_offset_value(value: OffsetValue) -> bytes:
    """Return the value of a queue's `max` or `min`."""
    return OFFSET_VALUE.struct.pack(*value)


def decode_offset_value(value: bytes) -> OffsetValue:
    """Return a queue's last or first message; raises struct.error for another length."""
    return OffsetValue(*OFFSET_VALUE.struct.unpack(value))
