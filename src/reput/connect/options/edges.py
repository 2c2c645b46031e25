"""Options for the place where reading begins and ends: earliest, latest, offsets or times for each queue.

| option | form |
|---|---|
| startingOffsets | `earliest`, `latest` (streams), or JSON |
| endingOffsets | `latest`, or JSON |
| startingTimestamp, endingTimestamp | ms |
| startingOffsetsByTimestamp, endingOffsetsByTimestamp | JSON of ms |

JSON is `{"topic": {"0": 23}}`, or `{"topic": {"broker": {"0": 23}}}` as rocketmq-spark writes it. As in Spark's Kafka
source a timestamp wins over times by queue, and those over offsets. A queue that is not named is read from its first
message, or to its last one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from reput.errors import ConfigError
from reput.formats.java.java_numbers import parse_whole
from reput.formats.layout import INT64_MAX

EARLIEST, LATEST = -2, -1

QueueId = tuple[str, int]


class Kind(StrEnum):
    """The form in which an edge is given."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSETS = "offsets"
    TIMESTAMP = "timestamp"
    TIMESTAMPS = "timestamps"


@dataclass(frozen=True)
class Edge:
    """One end of what is read: a kind, and for each queue an offset (or EARLIEST, LATEST) or a time (ms)."""

    kind: Kind
    option: str = ""
    timestamp_ms: int = 0
    queues: Mapping[QueueId, int] = field(default_factory=dict)


def starting_edge(options: Mapping[str, str], broker_name: str | None) -> Edge:
    """Parse where reading begins, by default with the first message.

    Raises:
        ConfigError: a value is not of its form.
    """
    return _edge(options, "starting", Edge(Kind.EARLIEST, "startingOffsets"), broker_name)


def ending_edge(options: Mapping[str, str], broker_name: str | None) -> Edge:
    """Parse where reading ends, by default with the last message.

    Raises:
        ConfigError: a value is not of its form.
    """
    edge = _edge(options, "ending", Edge(Kind.LATEST, "endingOffsets"), broker_name)
    if edge.kind is Kind.EARLIEST:
        raise ConfigError("endingOffsets=earliest: there is nothing before it; give latest or JSON of offsets")
    return edge


def _edge(options: Mapping[str, str], which: str, default: Edge, broker_name: str | None) -> Edge:
    name = f"{which}Timestamp"
    if name in options:
        return Edge(Kind.TIMESTAMP, name, timestamp_ms=_number(options[name], name))
    name = f"{which}OffsetsByTimestamp"
    if name in options:
        return Edge(Kind.TIMESTAMPS, name, queues=queue_numbers(options[name], name, 0, broker_name))
    name = f"{which}Offsets"
    if name not in options:
        return default
    text = options[name].strip()
    if text.lower() in (Kind.EARLIEST, Kind.LATEST):
        return Edge(Kind(text.lower()), name)
    if not text.startswith("{"):
        raise ConfigError(
            f'option {name}={text}: give earliest, latest or JSON as {{"topic": {{"0": 23}}}}; `reput progress` '
            "shows the progress of consumer groups"
        )
    return Edge(Kind.OFFSETS, name, queues=queue_numbers(text, name, EARLIEST, broker_name))


def _number(text: str, name: str) -> int:
    value = parse_whole(text, 64)
    if value is None or value < 0:
        raise ConfigError(f"option {name}={text:.40}: give milliseconds since 1970")
    return value


def queue_numbers(text: str, name: str, least: int, broker_name: str | None) -> dict[QueueId, int]:
    """Parse a number for each queue from JSON.

    Raises:
        ConfigError: it is no such JSON, or names several brokers.
    """
    found: dict[QueueId, int] = {}
    for topic, queues in _json(text, name).items():
        for queue_id, value in _of_one_broker(queues, topic, name, broker_name).items():
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= INT64_MAX:
                raise ConfigError(f"option {name}: {topic}, queue {queue_id}: {value!r} is not a valid number")
            found[topic, _queue_id(queue_id, topic, name)] = value
    return found


def queue_lists(text: str, name: str, broker_name: str | None) -> dict[str, frozenset[int]]:
    """Parse queue ids for each topic from JSON, as `assign` has it.

    Raises:
        ConfigError: it is no such JSON, or names several brokers.
    """
    found = {}
    for topic, value in _json(text, name).items():
        ids = value
        if isinstance(value, dict):
            ids = value[_one_broker(value, topic, name, broker_name)]
        if not isinstance(ids, list) or not ids:
            raise ConfigError(f"option {name}: {topic}: give a list of queue ids")
        found[topic] = frozenset(_queue_id(queue_id, topic, name) for queue_id in ids)
    return found


def _json(text: str, name: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"option {name}: not JSON: {error}") from error
    if not isinstance(value, dict) or not value:
        raise ConfigError(f"option {name}: give an object of topics")
    return value


def _of_one_broker(queues: Any, topic: str, name: str, broker_name: str | None) -> dict[str, Any]:
    if not isinstance(queues, dict) or not queues:
        raise ConfigError(f"option {name}: {topic}: give an object of queue ids")
    if any(isinstance(value, dict) for value in queues.values()):
        queues = queues[_one_broker(queues, topic, name, broker_name)]
        if not isinstance(queues, dict):
            raise ConfigError(f"option {name}: {topic}: give an object of queue ids below the broker")
    return queues


def _one_broker(brokers: dict[str, Any], topic: str, name: str, broker_name: str | None) -> str:
    """Return the broker whose store this is: the one that is named, or the only one."""
    if broker_name in brokers:
        return str(broker_name)
    if len(brokers) > 1 or broker_name is not None:
        raise ConfigError(
            f"option {name}: {topic} names brokers {', '.join(brokers)}; a store belongs to one: say which "
            "with brokerName"
        )
    return next(iter(brokers))


def _queue_id(value: Any, topic: str, name: str) -> int:
    queue_id = None if isinstance(value, bool) else parse_whole(str(value), 32)
    if queue_id is None or queue_id < 0:
        raise ConfigError(f"option {name}: {topic}: {value!r:.40} is not a queue id")
    return queue_id
