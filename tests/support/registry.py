"""The broker's part of consumers' filters: groups register, go, and the broker writes config/consumerFilter.json.

reput only reads that file. Tests need stores that have one; `tests/peer/test_peer_consumer_filter.py` compares what is
written here with what RocketMQ writes.

Source: `ConsumerFilterManager` (RocketMQ 5.5.1: a wrong expression leaves the old filter alone).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from reput.dispatch.sql import compile as compile_sql
from reput.errors import ConfigError
from reput.files import fs
from reput.files.backed_up import backup_of
from reput.formats.config import consumer_filter
from reput.formats.config.consumer_filter import SQL92, FilterData
from reput.store.progress.consumer_filters import ConsumerFilters
from support.bloom import filter_key

if TYPE_CHECKING:
    from collections.abc import Iterable

KEPT_DEAD_MS = 24 * 3600 * 1000


def is_dead(one: FilterData) -> bool:
    """Return True if the group of a filter has gone (`ConsumerFilterData.isDead`)."""
    return one.dead_ms >= one.born_ms


class FilterRegistry(ConsumerFilters):
    """The registry of a broker; new filters are born at the time of registration."""

    def register(
        self, topic: str, group: str, expression: str, client_version: int, expression_type: str = SQL92
    ) -> bool:
        """Take a group's filter on a topic; return whether it counts now.

        A client version below the known one is an old client, and changes nothing. A filter of tags, an empty one and a
        wrong one are not taken, nor is a text that RocketMQ alone takes for a filter.
        """
        if expression_type != SQL92 or not expression:
            return False
        old = self._filters.get((topic, group))
        if old is not None and client_version <= old.client_version:
            if client_version == old.client_version and is_dead(old):
                self._filters[topic, group] = old._replace(dead_ms=0)
                return True
            return False
        positions = self.bloom.positions(filter_key(group, topic))
        if old is not None and (old.expression, old.bits, old.bit_positions) == (
            expression,
            self.bloom.bits,
            positions,
        ):
            self._filters[topic, group] = old._replace(client_version=client_version, dead_ms=0)
            return True
        try:
            compile_sql(expression)
        except ConfigError:
            return False
        self._filters[topic, group] = FilterData(
            topic, group, expression, SQL92, self._clock_ms(), 0, self.bloom.bits, positions, client_version
        )
        return True

    def unregister(self, group: str) -> None:
        """Let a group go: its filters are dead from now on."""
        for key, one in self._filters.items():
            if one.group == group and not is_dead(one):
                self._filters[key] = one._replace(dead_ms=self._clock_ms())

    def persist(self) -> None:
        """Write the file; filters that have been dead for a day go, and the old file becomes its .bak."""
        now_ms = self._clock_ms()
        self._filters = {
            key: one for key, one in self._filters.items() if not is_dead(one) or now_ms - one.dead_ms < KEPT_DEAD_MS
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / consumer_filter.FILE_NAME
        if path.exists():
            backup_of(path).write_bytes(path.read_bytes())
        fs.write_whole(path, encode(self.all()), fs.owner_of(self._folder))


def encode(filters: Iterable[FilterData]) -> bytes:
    """Return the file's bytes as fastjson 2 writes them; topics and groups in the order of their first filter."""
    by_topic: dict[str, list[FilterData]] = {}
    for one in filters:
        by_topic.setdefault(one.topic, []).append(one)
    topics = [_topic(topic, of_topic) for topic, of_topic in by_topic.items()]
    return _object([("filterDataByTopic", _object(topics, 1))], 0).encode()


def _topic(topic: str, filters: list[FilterData]) -> tuple[str, str]:
    groups = [(one.group, _filter(one)) for one in filters]
    return topic, _object([("groupFilterData", _object(groups, 3)), ("topic", _text(topic))], 2)


def _filter(one: FilterData) -> str:
    members = [
        ("bornTime", str(one.born_ms)),
        ("clientVersion", str(one.client_version)),
        ("consumerGroup", _text(one.group)),
        ("dead", "true" if is_dead(one) else "false"),
        ("deadTime", str(one.dead_ms)),
        ("expression", _text(one.expression)),
        ("expressionType", _text(one.expression_type)),
        ("topic", _text(one.topic)),
    ]
    if one.bits:
        positions = ",".join(map(str, one.bit_positions))
        members.insert(0, ("bloomFilterData", _object([("bitNum", str(one.bits)), ("bitPos", f"[{positions}]")], 5)))
    return _object(members, 4)


def _object(members: Iterable[tuple[str, str]], depth: int) -> str:
    tabs = "\t" * depth
    lines = [f"{tabs}\t{_text(name)}:{value}" for name, value in members]
    return "{\n" + ",\n".join(lines) + f"\n{tabs}}}" if lines else "{}"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
