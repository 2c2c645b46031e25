"""Queues whose records have all expired: their numbering goes on where it was, never restarts under a committed offset.

What the old ConsumeQueue tells comes first; where it is gone, the highest committed offset in consumerOffset.json
stands in, with a warning, for topics that the broker still has.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from reput.files import fs
from reput.formats import paths
from reput.formats.consume_queue import QueueKey
from reput.formats.record import queue_offset_bound
from reput.queue.files import list_queues, max_offset
from reput.store.layout import StoreLayout

_CONFIG_LIMIT = 256 << 20
_MAX_QUEUE_OFFSET = (1 << 63) - 1


class Retained(NamedTuple):
    """A queue without records: the offset its numbering goes on from, and where that came from."""

    key: QueueKey
    next: int
    source: str


def retained_queues(layout: StoreLayout, present: set[QueueKey], log_end: int) -> list[Retained]:
    """The queues that must keep their numbering though the log (which ends at `log_end`) has no record of them."""
    bound = queue_offset_bound(log_end)
    found: dict[QueueKey, Retained] = {}
    for queue in list_queues(layout.consume_queue):
        topic = queue.topic.encode("utf-8", "surrogateescape")
        key = QueueKey(topic, queue.queue_id)
        if key in present or not paths.is_topic_folder_name(topic):
            continue
        end = max_offset(queue, bound)
        if end:
            found[key] = Retained(key, end, str(queue.path))
    for key, offset in _committed_offsets(layout).items():
        if key not in present and key not in found and 0 < offset <= bound:
            found[key] = Retained(key, offset, "consumerOffset.json")
    return [found[key] for key in sorted(found)]


def unbelievable_queues(layout: StoreLayout, present: set[QueueKey], log_end: int) -> list[Retained]:
    """Old queues without records whose end is further than a log of this size can have brought them.

    Their numbering is not kept: it would be a guess, and a hostile end would become a file position.
    """
    bound = queue_offset_bound(log_end)
    found = []
    for queue in list_queues(layout.consume_queue):
        key = QueueKey(queue.topic.encode("utf-8", "surrogateescape"), queue.queue_id)
        if key not in present:
            end = max_offset(queue, _MAX_QUEUE_OFFSET)
            if end is not None and end > bound:
                found.append(Retained(key, end, str(queue.path)))
    return found


def configured_topics(layout: StoreLayout) -> frozenset[bytes] | None:
    """The topics that the broker has (config/topics.json); None where that file does not say."""
    topics = _config(layout, "topics.json").get("topicConfigTable")
    if not isinstance(topics, dict) or not topics:
        return None
    return frozenset(str(topic).encode("utf-8", "surrogatepass") for topic in topics)


def _committed_offsets(layout: StoreLayout) -> dict[QueueKey, int]:
    """The highest committed offset of each queue over all groups, for topics that topics.json has."""
    table = _config(layout, "consumerOffset.json").get("offsetTable")
    topics = _config(layout, "topics.json").get("topicConfigTable")
    offsets: dict[QueueKey, int] = {}
    if not isinstance(table, dict) or not isinstance(topics, dict):
        return offsets
    for name, queues in table.items():
        parts = name.split("@")
        if len(parts) != 2 or parts[0] not in topics or not isinstance(queues, dict):
            continue
        for queue, offset in queues.items():
            queue_id = paths.parse_queue_name(str(queue))
            topic = parts[0].encode("utf-8", "surrogatepass")
            if queue_id is None or not isinstance(offset, int) or not paths.is_topic_folder_name(topic):
                continue
            key = QueueKey(topic, queue_id)
            offsets[key] = max(offsets.get(key, 0), offset)
    return offsets


def _config(layout: StoreLayout, name: str) -> dict[str, Any]:
    """A config file's value; its .bak where it is missing or bad, as the broker does; empty when both are."""
    for path in (layout.root / paths.CONFIG / name, layout.root / paths.CONFIG / f"{name}.bak"):
        data = fs.read_bytes(path, _CONFIG_LIMIT)
        if data:
            value = parse_fastjson(data.decode("utf-8", "replace"))
            if isinstance(value, dict):
                return value
    return {}


def parse_fastjson(text: str) -> Any:
    """JSON as the broker writes it, whose whole-number keys have no quotes; None where it is not even that."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    # Keys can be told from text inside strings only by going over both: strings first, bare keys second.
    quoted = re.sub(
        r'("(?:[^"\\]|\\.)*")|([{,]\s*)(-?\d+)(\s*:)',
        lambda match: match[1] or f'{match[2]}"{match[3]}"{match[4]}',
        text,
    )
    try:
        return json.loads(quoted)
    except (ValueError, RecursionError):
        return None
