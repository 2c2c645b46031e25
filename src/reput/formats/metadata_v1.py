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

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from reput.errors import DamagedStoreError
from reput.formats.consumer_offset import MAX_QUEUE_ID, DataVersion
from reput.formats.fastjson import JAVASCRIPT_MAX, parse_fastjson
from reput.formats.layout import INT64_MAX

DEFAULT_FAMILY = "default"
VERSION_KEY = b"kvDataVersionKey"
SINGLE_FOLDER = "metadata"


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

_STORE_TYPE = "defaultRocksDB"
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_QUEUE_ID = re.compile(r"-?[0-9]{1,10}")


def is_used_with(store_type: str) -> bool:
    """Return True if a broker with this storeType keeps metadata in RocksDB (`isEnableRocksDBStore`)."""
    return store_type.lower() == _STORE_TYPE.lower()


def encode_offsets(queues: Mapping[int, int]) -> bytes:
    """Return the value of a topic and a group: the committed offset of each queue."""
    numbers = ",".join(f'"{queue}":{_number(offset)}' for queue, offset in sorted(queues.items()))
    return f'{{"offsetTable":{{{numbers}}}}}'.encode()


def _number(value: int) -> str:
    return str(value) if abs(value) <= JAVASCRIPT_MAX else f'"{value}"'


def decode_offsets(data: bytes, where: str) -> dict[int, int]:
    """Return the committed offset of each queue.

    Raises:
        DamagedStoreError: the value is no such JSON, or a number in it is none of 32 or 64 bits. `where` names its key.
    """
    value = parse_fastjson(data.decode("utf-8", "replace"))
    table = value.get("offsetTable") if isinstance(value, dict) else None
    if not isinstance(table, dict):
        raise DamagedStoreError(f"{where}: its value {data[:40]!r} is no table of offsets")
    queues = {}
    for queue, offset in table.items():
        number = int(offset) if isinstance(offset, str) and _WHOLE.fullmatch(offset) else offset
        if type(number) is not int or not -INT64_MAX - 1 <= number <= INT64_MAX:
            raise DamagedStoreError(f"{where}: queue {queue[:20]}: {str(offset)[:40]!r} is no queue offset")
        if not _QUEUE_ID.fullmatch(queue) or not -MAX_QUEUE_ID - 1 <= int(queue) <= MAX_QUEUE_ID:
            raise DamagedStoreError(f"{where}: {queue[:20]!r} is no queue id")
        queues[int(queue)] = number
    return queues


def encode_version(version: DataVersion) -> bytes:
    """Return the value of a data version."""
    return json.dumps(
        {"counter": version.counter, "stateVersion": version.state_version, "timestamp": version.timestamp},
        separators=(",", ":"),
    ).encode()


def decode_version(data: bytes | None, where: str) -> DataVersion | None:
    """Return a data version; None if there is none.

    Raises:
        DamagedStoreError: the value is no such JSON.
    """
    if not data or not data.strip():
        return None
    value = parse_fastjson(data.decode("utf-8", "replace"))
    numbers = (
        [value.get(name, 0) for name in ("counter", "stateVersion", "timestamp")] if isinstance(value, dict) else []
    )
    if not numbers or not all(type(number) is int for number in numbers):
        raise DamagedStoreError(f"{where}: its data version {data[:60]!r} is no JSON of three numbers")
    return DataVersion(*numbers)


def decode_configuration(data: bytes, where: str) -> dict[str, Any]:
    """Return the configuration of a topic or a group.

    Raises:
        DamagedStoreError: the value is no JSON object.
    """
    value = parse_fastjson(data.decode("utf-8", "replace"))
    if not isinstance(value, dict):
        raise DamagedStoreError(f"{where}: its value {data[:40]!r} is no JSON object")
    return value
