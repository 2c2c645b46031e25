"""Topics, groups and committed offsets in RocksDB, version 2: config/rdb, one family, binary keys, big-endian.

    key of a data version    table prefix 1 (1 byte), table id (2), record prefix 1 (1), "data_version"
    its value                state version (8), timestamp in ms (8), counter (8)
    key of a topic, a group  table prefix 1, table id, record prefix 2, length (2), name
    its value                type (1; 1 is JSON), the configuration
    key of an offset         table prefix 1, table id, record prefix 2, length (2), group, 1 (1), length (2), topic,
                             1 (1), queue id (4)
    its value                queue offset (8)

Table ids: 1 offsets, 2 pull offsets, 3 topics, 4 groups. Each change of a table raises its version by one. A broker
stores what administrators and clients make; its own topics and groups it makes at each start.

Source: `ConfigStorage`, `ConfigHelper`, `TablePrefix`, `TableId`, `RecordPrefix`, `SerializationType`,
`ConsumerOffsetManagerV2`, `TopicConfigManagerV2`, `SubscriptionGroupManagerV2`.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from reput.errors import DamagedStoreError
from reput.formats.config.data_version import DataVersion
from reput.formats.config.metadata_v1 import decode_configuration, encode_configuration
from reput.formats.database.families import DEFAULT_FAMILY
from reput.formats.layout import Field, Layout

FOLDER = "rdb"
FAMILY = DEFAULT_FAMILY
TABLE_PREFIX = 1
DATA_VERSION_NAME = b"data_version"
JSON_TYPE = 1
_SEPARATOR = b"\x01"
_AFTER_SEPARATOR = b"\x02"
_UNSIGNED_MAX = (1 << 16) - 1


class TableId(enum.IntEnum):
    """The tables."""

    OFFSETS = 1
    PULL_OFFSETS = 2
    TOPICS = 3
    GROUPS = 4


class RecordPrefix(enum.IntEnum):
    """The kinds of keys in a table."""

    DATA_VERSION = 1
    DATA = 2


KEY_START = Layout(
    "config/rdb: start of a key",
    "ConfigHelper",
    (
        Field("tablePrefix", "b", "1"),
        Field("tableId", "h", "1 offsets, 2 pull offsets, 3 topics, 4 groups"),
        Field("recordPrefix", "b", "1 data version, 2 data"),
    ),
)
VERSION_VALUE = Layout(
    "config/rdb: data version",
    "ConfigHelper.stampDataVersion",
    (
        Field("stateVersion", "q", "version of the state machine, 0 without a controller"),
        Field("timestamp", "q", "time of the last change, ms"),
        Field("counter", "q", "number of changes"),
    ),
)
assert (KEY_START.size, VERSION_VALUE.size) == (4, 24)
_LENGTH = struct.Struct(">H")
_QUEUE_ID = struct.Struct(">i")
_OFFSET = struct.Struct(">q")


class CommittedKey(NamedTuple):
    """The key of a committed offset."""

    group: bytes
    topic: bytes
    queue_id: int


def data_range(table: TableId) -> tuple[bytes, bytes]:
    """Return the keys [begin, end) of a table's data."""
    return (
        KEY_START.struct.pack(TABLE_PREFIX, table, RecordPrefix.DATA),
        KEY_START.struct.pack(TABLE_PREFIX, table, RecordPrefix.DATA + 1),
    )


def table_range(table: TableId) -> tuple[bytes, bytes]:
    """Return the keys [begin, end) of a table, its data version among them."""
    return KEY_START.struct.pack(TABLE_PREFIX, table, RecordPrefix.DATA_VERSION), data_range(table)[1]


def unknown_ranges() -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yield the keys [begin, end) of no table; None where the first ones begin, and where the last ones end."""
    begin = None
    for table in TableId:
        yield begin, table_range(table)[0]
        begin = table_range(table)[1]
    yield begin, None


def version_key(table: TableId) -> bytes:
    """Return the key of a table's data version."""
    return KEY_START.struct.pack(TABLE_PREFIX, table, RecordPrefix.DATA_VERSION) + DATA_VERSION_NAME


def encode_version(version: DataVersion) -> bytes:
    """Return the value of a data version."""
    return VERSION_VALUE.struct.pack(version.state_version, version.timestamp, version.counter)


def decode_version(data: bytes | None, where: str) -> DataVersion | None:
    """Return a data version; None if there is none.

    Raises:
        DamagedStoreError: the value has another length, which the broker passes over.
    """
    if data is None:
        return None
    if len(data) != VERSION_VALUE.size:
        raise DamagedStoreError(f"{where}: its data version has {len(data)} bytes, {VERSION_VALUE.size} were expected")
    state_version, timestamp, counter = VERSION_VALUE.struct.unpack(data)
    return DataVersion(counter, state_version, timestamp)


def name_key(table: TableId, name: bytes) -> bytes:
    """Return the key of a topic or a group."""
    return data_range(table)[0] + _sized(name)


def decode_name_key(key: bytes, where: str) -> bytes:
    """Return the name in the key of a topic or a group.

    Raises:
        DamagedStoreError: the key has another length than it says.
    """
    name, end = _sized_at(key, KEY_START.size, where)
    if end != len(key):
        raise DamagedStoreError(f"{where}: key {key[:60]!r} has {len(key) - end} bytes after its name")
    return name


def decode_value(data: bytes, where: str) -> dict[str, Any]:
    """Return the configuration of a topic or a group.

    Raises:
        DamagedStoreError: the value is of a type that RocketMQ 5.5.1 does not write, or no JSON object.
    """
    if not data or data[0] != JSON_TYPE:
        found = f"type {data[0]}" if data else "no bytes"
        raise DamagedStoreError(
            f"{where}: its value has {found}; RocketMQ 5.5.1 writes type {JSON_TYPE} (JSON), and leaves out others. A "
            "newer broker may have written it"
        )
    return decode_configuration(data[1:], where)


def encode_value(value: Mapping[str, Any]) -> bytes:
    """Return the value of a topic or a group."""
    return bytes((JSON_TYPE,)) + encode_configuration(value)


def offset_key(table: TableId, key: CommittedKey) -> bytes:
    """Return the key of a committed offset."""
    names = _sized(key.group) + _SEPARATOR + _sized(key.topic) + _SEPARATOR
    return data_range(table)[0] + names + _QUEUE_ID.pack(key.queue_id)


def topic_range(table: TableId, group: bytes, topic: bytes) -> tuple[bytes, bytes]:
    """Return the keys [begin, end) of a group's offsets in a topic."""
    begin = data_range(table)[0] + _sized(group) + _SEPARATOR + _sized(topic)
    return begin + _SEPARATOR, begin + _AFTER_SEPARATOR


def decode_offset_key(key: bytes, where: str) -> CommittedKey:
    """Return group, topic and queue of a committed offset.

    Raises:
        DamagedStoreError: the key has another length than it says, or no separators.
    """
    group, end = _sized_at(key, KEY_START.size, where)
    topic, after = _sized_at(key, end + 1, where)
    if (
        key[end : end + 1] != _SEPARATOR
        or key[after : after + 1] != _SEPARATOR
        or len(key) != after + 1 + _QUEUE_ID.size
    ):
        raise DamagedStoreError(f"{where}: key {key[:60]!r} is not a key of a group, a topic and a queue")
    return CommittedKey(group, topic, _QUEUE_ID.unpack(key[after + 1 :])[0])


def encode_offset(offset: int) -> bytes:
    """Return the value of a committed offset."""
    return _OFFSET.pack(offset)


def decode_offset(data: bytes, where: str) -> int:
    """Return a committed offset.

    Raises:
        DamagedStoreError: the value does not have 8 bytes.
    """
    if len(data) != _OFFSET.size:
        raise DamagedStoreError(f"{where}: its offset has {len(data)} bytes, {_OFFSET.size} were expected")
    offset: int = _OFFSET.unpack(data)[0]
    return offset


def _sized(name: bytes) -> bytes:
    return _LENGTH.pack(len(name)) + name


def _sized_at(key: bytes, place: int, where: str) -> tuple[bytes, int]:
    """Return the name that begins with its length at `place`, and its end."""
    start = place + _LENGTH.size
    length = _LENGTH.unpack_from(key, place)[0] if start <= len(key) else _UNSIGNED_MAX
    if start + length > len(key):
        raise DamagedStoreError(f"{where}: key {key[:60]!r} is shorter than the name in it")
    return key[start : start + length], start + length
