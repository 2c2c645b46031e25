"""config/messageRequestMode.json: whether a group pulls or pops a topic, as administrators have set it.

    messageRequestModeMap   topic -> group -> mode (PULL or POP), popShareQueueNum, and both names again

Source: `MessageRequestModeManager`, `SetMessageRequestModeRequestBody`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from reput.errors import DamagedStoreError
from reput.formats.java.fastjson import parse_fastjson, write_fastjson_file

FILE_NAME: Final = "messageRequestMode.json"
SIZE_LIMIT: Final = 128 << 20
"""The maximum bytes of a file to be read."""
_MEMBER = "messageRequestModeMap"


class RequestMode(StrEnum):
    """The way in which a group takes the messages of a topic."""

    PULL = "PULL"
    POP = "POP"


class GroupMode(NamedTuple):
    """The mode of a group in a topic. `share_queues`: members that share its queues; 0: all of them."""

    mode: RequestMode
    share_queues: int


ModeTable = dict[tuple[str, str], GroupMode]
"""By topic and group."""


def group_mode_of(values: Any) -> GroupMode | None:
    """Return the mode that JSON describes; None if it describes none."""
    if not isinstance(values, dict):
        return None
    mode, share = values.get("mode", RequestMode.PULL), values.get("popShareQueueNum", 0)
    if not isinstance(mode, str) or mode not in set(RequestMode) or type(share) is not int or abs(share) >= 1 << 31:
        return None
    return GroupMode(RequestMode(mode), share)


def decode_modes(data: bytes, where: str) -> ModeTable:
    """Return the modes in a file.

    Raises:
        DamagedStoreError: the text is no such JSON.
    """
    value = parse_fastjson(data)
    topics = (value.get(_MEMBER) or {}) if isinstance(value, dict) else None
    if not isinstance(topics, dict) or not all(isinstance(groups, dict) for groups in topics.values()):
        raise DamagedStoreError(f"{where}: damaged: {data[:40]!r} is not JSON with a map of topics")
    table: ModeTable = {}
    for topic, groups in topics.items():
        for group, values in groups.items():
            mode = group_mode_of(values)
            if mode is None:
                raise DamagedStoreError(f"{where}: damaged: {topic[:80]}, {group[:80]}: {str(values)[:80]} is no mode")
            table[topic, group] = mode
    return table


def modes_as_json(table: Mapping[tuple[str, str], GroupMode]) -> dict[str, Any]:
    """Return the JSON object of the file."""
    topics: dict[str, dict[str, Any]] = {}
    for (topic, group), (mode, share) in table.items():
        values = {"consumerGroup": group, "mode": mode.value, "popShareQueueNum": share, "topic": topic}
        topics.setdefault(topic, {})[group] = values
    return {_MEMBER: topics}


def encode_modes(table: Mapping[tuple[str, str], GroupMode]) -> bytes:
    """Return the bytes of the file."""
    return write_fastjson_file(modes_as_json(table))
