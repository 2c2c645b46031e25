"""Bodies in the JSON of RocketMQ's fastjson: maps whose keys are queues have whole objects as keys, without quotes.

No JSON library writes or reads such a text, and RocketMQ's clients take no other.

Source: `TopicStatsTable`, `ConsumeStats`, `ResetOffsetBody`, `MessageQueue`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from reput.formats.java.fastjson import write_fastjson


class QueueName(NamedTuple):
    """A queue as bodies name it."""

    broker_name: str
    queue_id: int
    topic: str


def queues_of(values: Any) -> list[QueueName]:
    """Return the queues in a client's JSON (`mqSet`); those that are no queues are left out."""
    found = []
    for one in values if isinstance(values, list) else []:
        if not isinstance(one, dict):
            continue
        broker_name, queue_id, topic = one.get("brokerName"), one.get("queueId"), one.get("topic")
        if isinstance(broker_name, str) and type(queue_id) is int and isinstance(topic, str):
            found.append(QueueName(broker_name, queue_id, topic))
    return found


def write_queue_table(value: Any) -> bytes:
    """Return JSON of a value in which keys of maps may be queues."""
    if not isinstance(value, Mapping):
        return write_fastjson(value)
    entries = (
        (_queue(key) if isinstance(key, QueueName) else write_fastjson(str(key))) + b":" + write_queue_table(inner)
        for key, inner in value.items()
    )
    return b"{" + b",".join(entries) + b"}"


def _queue(queue: QueueName) -> bytes:
    return write_fastjson({"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic})
