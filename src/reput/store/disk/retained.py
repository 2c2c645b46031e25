"""Queues without records keep their numbering, so that it never restarts below a committed offset.

The end of the old ConsumeQueue counts first. Without it the highest committed offset in consumerOffset.json is used,
with a warning, for topics that the broker still has.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reput.errors import DamagedStoreError
from reput.files import fs
from reput.formats import paths
from reput.formats.consume_queue import QueueKey
from reput.formats.layout import INT64_MAX
from reput.formats.record import queue_offset_bound
from reput.queue.kinds import QueueOnDisk
from reput.store.disk.kinds import present_kinds
from reput.store.disk.layout import StoreLayout

_CONFIG_LIMIT = 256 << 20


class Retained(NamedTuple):
    """A queue without records: its next queue offset, and the source of that."""

    key: QueueKey
    next: int
    source: str


def retained_queues(layout: StoreLayout, present: set[QueueKey], log_end: int) -> list[Retained]:
    """List the queues that must keep their numbering, although the log (up to `log_end`) has no record of them."""
    bound = queue_offset_bound(log_end)
    found: dict[QueueKey, Retained] = {}
    for queue in _old_queues(layout):
        key = queue.key
        if key in present or not paths.is_topic_folder_name(key.topic):
            continue
        end = queue.end(bound)
        if end and (key not in found or end > found[key].next):
            found[key] = Retained(key, end, queue.place)
    for key, offset in _committed_offsets(layout).items():
        if key not in present and key not in found and 0 < offset <= bound:
            found[key] = Retained(key, offset, "consumerOffset.json")
    return [found[key] for key in sorted(found)]


def _old_queues(layout: StoreLayout) -> Iterator[QueueOnDisk]:
    for kind in present_kinds(layout):
        # Queues that cannot be read are left out; `unreadable_kinds` reports them.
        with contextlib.suppress(DamagedStoreError):
            yield from kind.queues()


def unreadable_kinds(layout: StoreLayout) -> list[str]:
    """List why old queues cannot be read, a line for each kind; their numbering is then unknown."""
    errors = []
    for kind in present_kinds(layout):
        try:
            kind.complete_to()
        except DamagedStoreError as error:
            errors.append(str(error))
    return errors


def unbelievable_queues(layout: StoreLayout, present: set[QueueKey], log_end: int) -> list[Retained]:
    """List old queues without records whose end is higher than a log of this size allows.

    Their numbering is not kept: it would be a guess, and a hostile end would become a file position.
    """
    bound = queue_offset_bound(log_end)
    found = []
    for queue in _old_queues(layout):
        key = queue.key
        # No file is read if even full files would not reach the bound.
        if key not in present and queue.room > bound:
            end = queue.end(INT64_MAX)
            if end is not None and end > bound:
                found.append(Retained(key, end, queue.place))
    return found


class Shortened(NamedTuple):
    """A queue whose records end at `next`, before its old end `old_end` (0: unknown) or a `committed` offset (0: none).

    `lost`: the log may have held all messages in between, in ranges that are not records now.
    """

    key: QueueKey
    next: int
    old_end: int
    committed: int
    lost: bool


def shortened_queues(
    layout: StoreLayout, ends: Mapping[QueueKey, int], lost_ranges: Sequence[tuple[int, int]], log_end: int
) -> list[Shortened]:
    """List the queues that end, at the offsets `ends`, before their old end or before a committed offset.

    `lost_ranges` are the ranges [begin, end) of the log that may have held records and do not now. Without any, a later
    old end is no reason: a crash leaves entries past the log's end.
    """
    found: dict[QueueKey, Shortened] = {}
    for queue in _old_queues(layout) if lost_ranges else ():
        key = queue.key
        old_end = (queue.end(queue_offset_bound(log_end)) or 0) if key in ends else 0
        if key in ends and old_end > ends[key]:
            found[key] = Shortened(key, ends[key], old_end, 0, _all_in(queue, ends[key], old_end, lost_ranges))
    for key, committed in _committed_offsets(layout).items():
        if key in ends and committed > ends[key]:
            short = found.get(key) or Shortened(key, ends[key], 0, 0, False)
            found[key] = short._replace(committed=committed)
    return [found[key] for key in sorted(found)]


def _all_in(queue: QueueOnDisk, begin: int, end: int, ranges: Sequence[tuple[int, int]]) -> bool:
    """Return True if all entries [begin, end) of a queue point into these ranges of the log, or are blank."""
    try:
        return all(
            entry.is_pre_blank or any(first <= entry.physical_offset < after for first, after in ranges)
            for _, entry in queue.read(begin, end)
        )
    except DamagedStoreError:
        return False


def _queue_count(values: Any) -> int:
    counts = [values.get(name) for name in ("readQueueNums", "writeQueueNums")] if isinstance(values, dict) else []
    return max((count for count in counts if isinstance(count, int)), default=0)


def _committed_offsets(layout: StoreLayout) -> dict[QueueKey, int]:
    """Return the highest committed offset of each queue over all groups, for topics in topics.json."""
    table = read_config(layout, "consumerOffset.json").get("offsetTable")
    topics = read_topics(layout).topics
    offsets: dict[QueueKey, int] = {}
    if not isinstance(table, dict):
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


def read_config(layout: StoreLayout, name: str) -> dict[str, Any]:
    """Read a config file, or its .bak if it is missing or bad, as the broker does; empty if both are."""
    return next((value for _, value in _config_values(layout, name) if isinstance(value, dict)), {})


class TopicsFile(NamedTuple):
    """The topics of config/topics.json, by name, and a note if the file cannot be read."""

    topics: Mapping[str, Any]
    notes: list[str]

    @property
    def names(self) -> frozenset[bytes]:
        """The names of the topics; empty if the file does not say them."""
        return frozenset(name.encode("utf-8", "surrogatepass") for name in self.topics)

    @property
    def queue_counts(self) -> dict[bytes, int]:
        """The number of queues of each topic; 0 if the file does not say the number."""
        return {name.encode("utf-8", "surrogatepass"): _queue_count(values) for name, values in self.topics.items()}


def read_topics(layout: StoreLayout) -> TopicsFile:
    """Read topics.json, or its .bak if it is missing or bad. The file may be large: a caller reads it once."""
    place = None
    for path, value in _config_values(layout, "topics.json"):
        place = place or path
        if isinstance(value, dict):
            topics = value.get("topicConfigTable")
            return TopicsFile(topics if isinstance(topics, dict) else {}, [])
    if place is None:
        return TopicsFile({}, [])
    note = f"{place}: cannot be read, so topics and their queue.type come from folders and records alone"
    return TopicsFile({}, [note])


def _config_values(layout: StoreLayout, name: str) -> Iterator[tuple[Path, Any]]:
    """Yield the values of a config file and of its .bak, unless missing or empty; None for a file that is not JSON.

    The .bak is read only if the caller asks for a second value.
    """
    for path in (layout.root / paths.CONFIG / name, layout.root / paths.CONFIG / f"{name}.bak"):
        data = fs.read_bytes(path, _CONFIG_LIMIT)
        if data:
            yield path, parse_fastjson(data.decode("utf-8", "replace"))


def parse_fastjson(text: str) -> Any:
    """Parse JSON as the broker writes it, with unquoted whole-number keys; None if it is not that either."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    # A key looks like text inside a string, so the pattern matches both: strings first, bare keys second.
    quoted = re.sub(
        r'("(?:[^"\\]|\\.)*")|([{,]\s*)(-?\d+)(\s*:)',
        lambda match: match[1] or f'{match[2]}"{match[3]}"{match[4]}',
        text,
    )
    try:
        return json.loads(quoted)
    except (ValueError, RecursionError):
        return None
