"""The index by key in RocksDB: keys and values of the default column family of `rocksdbstore`.

    key                                        value
    one for each key, tag and unique key       the record's store time
    lastOffsetPy                               log offset of the last record whose keys are written
    lastStoreTimeStamp                         that record's store time (ms)

Keys sort by the hour of the store time, topic, kind and text, so the entries of a key in an hour are together. A
message without a unique key has none. All texts are joined with `@`, which keys may have too: the entries of the key
`a` and of the key `a@b` begin alike, and only the record shows which of them an entry is for.

A record's entry for its unique key is written last. So a record is complete if its offset is not above lastOffsetPy.

The database has two more families, `timer` and `trans`, for other parts of the broker.

Source: `IndexRocksDBRecord`, `IndexRocksDBStore.buildIndex`, `MessageRocksDBStorage.writeRecordsForIndex`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from reput import times
from reput.formats.database.families import DEFAULT_FAMILY
from reput.formats.java.hashing import java_text
from reput.formats.layout import Field, Layout
from reput.formats.log import properties as props
from reput.formats.log.record import TRANSACTION_MASK, TRANSACTION_ROLLBACK, Record
from reput.formats.pending import timer_database, transaction_database

FAMILY = DEFAULT_FAMILY
FAMILIES = (FAMILY, timer_database.FAMILY, transaction_database.FAMILY)
"""The column families that a broker opens."""

KEY, TAG, UNIQUE = b"K", b"T", b"U"
KINDS = (KEY, TAG, UNIQUE)
SEPARATOR = b"@"
HOUR_MS = times.HOUR_MS
LAST_OFFSET = transaction_database.LAST_OFFSET_KEY
LAST_TIME = b"lastStoreTimeStamp"
MARKS = (LAST_OFFSET, LAST_TIME)

ENTRY_KEY_PARTS: tuple[tuple[str, str, str], ...] = (
    ("8", "hour_ms", "the store time, rounded down to a whole hour (ms)"),
    ("1", "", "`@`"),
    ("n", "topic", "the topic, UTF-8"),
    ("1", "", "`@`"),
    ("1", "kind", "`K` key, `T` tag, `U` unique key"),
    ("1", "", "`@`"),
    ("n", "text", "the key or tag, `@` and the unique key; with `U` the unique key alone"),
    ("1", "", "`@`"),
    ("8", "physical_offset", "where the record starts in the CommitLog"),
)

VALUE = Layout(
    "Value of an index entry",
    "IndexRocksDBRecord.getValueBytes",
    [Field("store_timestamp", "q", "when the record was stored (ms)")],
)
VALUE_SIZE = VALUE.size
assert VALUE_SIZE == 8

MARK = Layout(
    "Value of lastOffsetPy or lastStoreTimeStamp",
    "MessageRocksDBStorage.writeRecordsForIndex",
    [Field("number", "q", "a log offset, or a time (ms)")],
)
assert MARK.size == 8

HOUR, OFFSET = struct.Struct(">q"), struct.Struct(">q")
"""The first and the last part of an entry's key."""
ENTRY_KEY_EXTRA = HOUR.size + 4 * len(SEPARATOR) + len(KEY) + OFFSET.size
"""The bytes of an entry's key without its topic and its text."""
assert ENTRY_KEY_EXTRA == 21


class IndexKey(NamedTuple):
    """The meaning of an entry's key. `text`: the key or tag, `@` and the unique key; with `U` the unique key alone."""

    hour_ms: int
    topic: bytes
    kind: bytes
    text: bytes
    physical_offset: int


class IndexMarks(NamedTuple):
    """The log offset of the last record whose keys are written, and its store time (ms); 0 without one."""

    offset: int
    store_timestamp: int


def hour_of(store_timestamp: int) -> int:
    """Return the hour of a store time (ms). Source: `MixAll.dealTimeToHourStamps`."""
    return store_timestamp // HOUR_MS * HOUR_MS if store_timestamp > 0 else store_timestamp


def hour_bytes(hour_ms: int) -> bytes:
    """Return the first bytes of the keys of an hour."""
    return HOUR.pack(hour_ms)


def prefix(topic: bytes, kind: bytes, text: bytes) -> bytes:
    """Return the bytes after the hour of all entries of a key (and of keys that begin with it and `@`)."""
    return b"@%b@%b@%b@" % (topic, kind, text)


def prefix_bounds(hour_ms: int, after_hour: bytes) -> tuple[bytes, bytes]:
    """Return the range [begin, end) of the keys of an hour that continue with `prefix(...)`."""
    begin = HOUR.pack(hour_ms) + after_hour
    # The last byte is `@`.
    return begin, begin[:-1] + b"A"


def entry_key(key: IndexKey) -> bytes:
    """Return the key of an entry."""
    return HOUR.pack(key.hour_ms) + prefix(key.topic, key.kind, key.text) + OFFSET.pack(key.physical_offset)


def entry_keys(record: Record) -> tuple[bytes, ...]:
    """Return the keys of a record's entries: one for each key, for the tag, and last for the unique key.

    Each has the store time as its value. A key that a record repeats comes twice, and is one entry in the database. As
    in IndexFiles, all messages but rolled-back ones are indexed. A message without a unique key is not, and neither is
    one from before the second hour of 1970.

    Source: `IndexRocksDBStore.buildIndex`, `IndexRocksDBRecord.getKeyBytes`.
    """
    if record.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
        return ()
    named = props.decode_properties(record.properties)
    unique, hour_ms = named.get(props.UNIQUE_KEY), hour_of(record.store_timestamp)
    if not unique or not record.topic or hour_ms <= 0:
        return ()
    texts = [(KEY, key + SEPARATOR + unique) for key in props.keys_of(named.get(props.KEYS, b""))]
    if tags := named.get(props.TAGS):
        texts.append((TAG, tags + SEPARATOR + unique))
    texts.append((UNIQUE, unique))
    topic = java_text(record.topic)
    return tuple(
        entry_key(IndexKey(hour_ms, topic, kind, java_text(text), record.physical_offset)) for kind, text in texts
    )


def decode_entry_key(data: bytes) -> IndexKey | None:
    """Return the meaning of a key; None for bytes that are no entry's key. No topic has an `@`."""
    if len(data) < ENTRY_KEY_EXTRA or data[8:9] != SEPARATOR or data[-9:-8] != SEPARATOR:
        return None
    (hour_ms,), (physical_offset,) = HOUR.unpack_from(data, 0), OFFSET.unpack_from(data, len(data) - OFFSET.size)
    topic, _, rest = data[9:-9].partition(SEPARATOR)
    kind = rest[:1]
    if not topic or kind not in KINDS or rest[1:2] != SEPARATOR or len(rest) < 3:
        return None
    if hour_ms <= 0 or hour_ms % HOUR_MS or physical_offset < 0:
        return None
    return IndexKey(hour_ms, topic, kind, rest[2:], physical_offset)


def offset_of(data: bytes) -> int:
    """Return the physical offset at the end of an entry's key of at least 8 bytes."""
    return int(OFFSET.unpack_from(data, len(data) - OFFSET.size)[0])


def encode_value(store_timestamp: int) -> bytes:
    """Return the value of an entry."""
    return VALUE.struct.pack(store_timestamp)


def decode_value(data: bytes) -> int:
    """Return the store time (ms) of an entry; raises struct.error for another length."""
    return int(VALUE.struct.unpack(data)[0])


def encode_mark(number: int) -> bytes:
    """Return the value of lastOffsetPy or lastStoreTimeStamp."""
    return MARK.struct.pack(number)


def decode_mark(data: bytes) -> int:
    """Return the number of lastOffsetPy or lastStoreTimeStamp; raises struct.error for another length."""
    return int(MARK.struct.unpack(data)[0])
