"""config/consumerFilter.json: the SQL92 filters that consumer groups have registered, as the broker writes it.

    filterDataByTopic   topic -> groupFilterData: group -> filter, and topic once more
    filter              bloomFilterData (bitNum, bitPos), bornTime, clientVersion, consumerGroup, dead, deadTime,
                        expression, expressionType, topic; times in ms, deadTime 0 while the group is alive

fastjson 2 writes the text: indented by tabs, names in alphabetical order, lists of numbers in one line.

Source: `ConsumerFilterManager`, `ConsumerFilterData`, `BloomFilterData`, `RemotingSerializable.toJson`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from reput.errors import DamagedStoreError
from reput.formats.layout import INT64_MAX

FILE_NAME = "consumerFilter.json"
SIZE_LIMIT = 64 << 20
"""The maximum bytes of a file to be read."""
TAG, SQL92 = "TAG", "SQL92"
"""The kinds of filters (`ExpressionType`)."""
_MOST_BITS = 1 << 18


class FilterData(NamedTuple):
    """One group's filter on one topic; times in ms. `bit_positions` of `bits`: its place in Bloom filters (0: none)."""

    topic: str
    group: str
    expression: str
    expression_type: str = SQL92
    born_ms: int = 0
    dead_ms: int = 0
    bits: int = 0
    bit_positions: tuple[int, ...] = ()
    client_version: int = 0


def decode(data: bytes, where: str) -> list[FilterData]:
    """Return the filters in a file's bytes.

    Raises:
        DamagedStoreError: the bytes are no such file; the error says where and why.
    """
    try:
        value = json.loads(data.rstrip(b"\0"))
    except (ValueError, RecursionError) as error:
        raise DamagedStoreError(f"{where}: not JSON ({error})") from error
    return list(_filters(value, where))


def _filters(value: Any, where: str) -> Iterator[FilterData]:
    topics = _member(value, "filterDataByTopic", dict, {}, where)
    for topic, of_topic in topics.items():
        if of_topic is None:
            continue
        for group, data in _member(of_topic, "groupFilterData", dict, {}, f"{where}, topic {topic!r}").items():
            if data is not None:
                yield _filter_of(topic, group, data, f"{where}, topic {topic!r}, group {group!r}")


def _filter_of(topic: str, group: str, value: Any, where: str) -> FilterData:
    bloom = _member(value, "bloomFilterData", dict, None, where)
    bits, positions = 0, ()
    if bloom is not None:
        bits = _number(bloom, "bitNum", where)
        found = _member(bloom, "bitPos", list, [], where)
        if bits > _MOST_BITS or any(type(one) is not int or not 0 <= one < bits for one in found):
            raise DamagedStoreError(f"{where}: bitPos {found!r:.80}: whole numbers below bitNum {bits} are needed")
        positions = tuple(found)
    return FilterData(
        topic,
        group,
        _member(value, "expression", str, "", where),
        _member(value, "expressionType", str, SQL92, where),
        _number(value, "bornTime", where),
        _number(value, "deadTime", where),
        bits,
        positions,
        _number(value, "clientVersion", where, lowest=-INT64_MAX - 1),
    )


def _number(value: Any, name: str, where: str, lowest: int = 0) -> int:
    found: int = _member(value, name, int, 0, where)
    if not lowest <= found <= INT64_MAX:
        raise DamagedStoreError(f"{where}: {name} {found} is out of range")
    return found


def _member(value: Any, name: str, kind: type, without: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise DamagedStoreError(f"{where}: {value!r:.40} is there, but an object is needed")
    found = value.get(name)
    if found is None:
        return without
    if type(found) is not kind:
        raise DamagedStoreError(f"{where}: {name} is {found!r:.40}, {kind.__name__} is needed")
    return found
