"""config/delayOffset.json: how far the broker has delivered each delay level.

    dataVersion     counter, stateVersion, timestamp (ms)
    offsetTable     delay level -> queue offset of the next message of queue level - 1 of SCHEDULE_TOPIC_XXXX

fastjson writes the levels as keys without quotes, so JSON parsers refuse the file.

Source: `ScheduleMessageService.encode`, `DelayOffsetSerializeWrapper`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from reput.errors import DamagedStoreError
from reput.formats.config import data_version
from reput.formats.config.data_version import DataVersion, version_of
from reput.formats.java.fastjson import indented, parse_fastjson
from reput.formats.java.java_numbers import parse_whole

FILE_NAME = "delayOffset.json"
SIZE_LIMIT = 1 << 20
"""The maximum bytes of a file to be read."""


class DelayOffsets(NamedTuple):
    """The content of the file: the queue offset of the next message of each level, and the data version."""

    offset_table: Mapping[int, int]
    data_version: DataVersion | None = None


def decode_delay_offsets(data: bytes, where: str) -> DelayOffsets:
    """Return the content of the file; levels start at 1.

    Raises:
        DamagedStoreError: the text is no such JSON.
    """
    value = parse_fastjson(data)
    table = (value.get("offsetTable") or {}) if isinstance(value, dict) else None
    if not isinstance(table, dict) or any(parse_whole(level, 32) is None for level in table):
        raise DamagedStoreError(f"{where}: damaged: {data[:40]!r} is not JSON with a table of levels")
    offsets = {int(level): offset for level, offset in table.items() if type(offset) is int and offset >= 0}
    return DelayOffsets(offsets, version_of(value.get(data_version.MEMBER)))


def encode_delay_offsets(offsets: DelayOffsets) -> bytes:
    """Return the bytes of the file, as the broker writes it."""
    members = []
    if offsets.data_version is not None:
        fields = (f'"{name}":{number}' for name, number in offsets.data_version.members.items())
        members.append(f'"{data_version.MEMBER}":{indented("{}", fields, 1)}')
    entries = (f"{level}:{offset}" for level, offset in sorted(offsets.offset_table.items()))
    members.append(f'"offsetTable":{indented("{}", entries, 1)}')
    return indented("{}", members, 0).encode()
