"""Topics, groups and committed offsets in RocksDB, version 1: a name is the key, JSON is the value.

    table     database (a family each)                      key            value
    topics    config/topics (default)                       topic          the topic's configuration
    groups    config/subscriptionGroups (default)           group          the group's configuration
    offsets   config/consumerOffsets (default)              topic@group    {"offsetTable":{"0":250,"1":251}}
    version   the same database (kvDataVersion)             kvDataVersionKey
                                                            {"counter":5,"stateVersion":0,"timestamp":1795320768532}

With `useSingleRocksDBForAllConfigs` one database, config/metadata, has all: the families topic, subscriptionGroup and
consumerOffset, and topicVersion, subscriptionGroupVersion and consumerOffsetVersion. A family is made with its first
value, and the broker gives offsets a version only after 500 commits, so both may be missing.

fastjson 2 writes the values (`BrowserCompatible`): in one line, keys in quotes, numbers over 2^53 - 1 as texts.

Source: `RocksDBTopicConfigManager`, `RocksDBSubscriptionGroupManager`, `RocksDBConsumerOffsetManager`,
`RocksDBConfigManager`, `RocksDBOffsetSerializeWrapper`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from reput.errors import DamagedStoreError
from reput.formats.java.fastjson import JAVASCRIPT_MAX, parse_fastjson, write_fastjson
from reput.formats.java.java_numbers import parse_whole
from reput.formats.queue.queue_kinds import FILE, ROCKSDB, TARGET_SETTINGS, TARGETS

VERSION_KEY = b"kvDataVersionKey"
SINGLE_FOLDER = "metadata"
SINGLE_SETTING = "use_single_rocksdb_for_all_configs"
"""The setting that decides between one database and one for each table, by its name in StoreConfig."""


class TablePlace(NamedTuple):
    """The places of a table: its own database, and its families in the single one."""

    folder: str
    family: str
    version_family: str


TOPICS = TablePlace("topics", "topic", "topicVersion")
GROUPS = TablePlace("subscriptionGroups", "subscriptionGroup", "subscriptionGroupVersion")
OFFSETS = TablePlace("consumerOffsets", "consumerOffset", "consumerOffsetVersion")
OWN_VERSION_FAMILY = "kvDataVersion"
"""The family of the data version in a database of one table."""


QUEUE_KINDS = TARGETS[ROCKSDB]
"""The kinds of queues of a broker that keeps metadata here."""


def is_used_with(queue_kinds: Sequence[str | None]) -> bool:
    """Return True if a broker with these kinds of queues keeps metadata in RocksDB (`isEnableRocksDBStore`).

    With double write the storeType is `default`.
    """
    return tuple(queue_kinds) == QUEUE_KINDS


def store_type_with(in_database: bool) -> str:
    """Return the setting with which a broker keeps metadata in RocksDB, or else in JSON."""
    return TARGET_SETTINGS[ROCKSDB if in_database else FILE]


def encode_offsets(queues: Mapping[int, int]) -> bytes:
    """Return the value of a topic and a group: the committed offset of each queue."""
    numbers = ",".join(f'"{queue}":{_number(offset)}' for queue, offset in sorted(queues.items()))
    return f'{{"offsetTable":{{{numbers}}}}}'.encode()


def _number(value: int) -> str:
    return str(value) if abs(value) <= JAVASCRIPT_MAX else f'"{value}"'


def decode_offsets(data: bytes, where: str) -> dict[int, int]:
    """Return the committed offset of each queue.

    Raises:
        DamagedStoreError: the value is no such JSON, or a number in it has too many bits. `where` names its key.
    """
    value = parse_fastjson(data)
    table = value.get("offsetTable") if isinstance(value, dict) else None
    if not isinstance(table, dict):
        raise DamagedStoreError(f"{where}: its value {data[:40]!r} is not a table of offsets")
    queues = {}
    for queue, offset in table.items():
        number = parse_whole(str(offset), 64) if type(offset) in {int, str} else None
        if number is None:
            raise DamagedStoreError(f"{where}: queue {queue[:20]}: {str(offset)[:40]!r} is not a queue offset")
        queue_id = parse_whole(queue, 32)
        if queue_id is None:
            raise DamagedStoreError(f"{where}: {queue[:20]!r} is not a queue id")
        queues[queue_id] = number
    return queues


def encode_configuration(value: Mapping[str, Any]) -> bytes:
    """Return the value of a topic or a group."""
    return write_fastjson(value)


def decode_configuration(data: bytes, where: str) -> dict[str, Any]:
    """Return the configuration of a topic or a group.

    Raises:
        DamagedStoreError: the value is no JSON object.
    """
    value = parse_fastjson(data)
    if not isinstance(value, dict):
        raise DamagedStoreError(f"{where}: its value {data[:40]!r} is not a JSON object")
    return value
