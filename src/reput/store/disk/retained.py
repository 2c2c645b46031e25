"""Queues without records keep their numbering, so that it never restarts below a committed offset.

The end of the old ConsumeQueue counts first, or what reput has given beyond it (`given_offsets`). Without both the
highest committed offset is used, with a warning, for topics that the broker still has.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from reput.errors import DamagedStoreError
from reput.formats import paths
from reput.formats.layout import INT64_MAX
from reput.formats.log.record import queue_offset_bound
from reput.formats.own import files as own
from reput.formats.queue.consume_queue import QueueKey
from reput.queue.kinds import QueueOnDisk
from reput.store.disk.facts import StoreFacts
from reput.store.metadata.tables import Table


class Retained(NamedTuple):
    """A queue without records: its next queue offset, and the source of that. `is_committed`: committed offsets."""

    key: QueueKey
    next: int
    source: str
    is_committed: bool = False


def retained_queues(
    store: StoreFacts, present: set[QueueKey], log_end: int, given: Mapping[QueueKey, int]
) -> list[Retained]:
    """List the queues that must keep their numbering, although the log (up to `log_end`) has no record of them.

    `given`: the next offsets that reput has kept.
    """
    bound = queue_offset_bound(log_end)
    found: dict[QueueKey, Retained] = {}
    for queue in _old_queues(store):
        key = queue.key
        if key in present or not paths.is_topic_folder_name(key.topic):
            continue
        end = queue.end(bound)
        if end and (key not in found or end > found[key].next):
            found[key] = Retained(key, end, queue.place)
    for key, offset in given.items():
        if key not in present and (key not in found or offset > found[key].next):
            found[key] = Retained(key, offset, own.GIVEN_OFFSETS_PART)
    place = store.metadata.place(Table.OFFSETS)
    for key, offset in _committed_offsets(store).items():
        if key not in present and key not in found and 0 < offset <= bound:
            found[key] = Retained(key, offset, f"{paths.CONFIG}/{place.name}", is_committed=True)
    return [found[key] for key in sorted(found)]


def _old_queues(store: StoreFacts) -> Iterator[QueueOnDisk]:
    for kind in store.present:
        # Queues that cannot be read are left out; `StoreOnDisk.unreadable` names them.
        with contextlib.suppress(DamagedStoreError):
            yield from kind.queues()


def unbelievable_queues(store: StoreFacts, present: set[QueueKey], log_end: int) -> list[Retained]:
    """List old queues without records whose end is higher than a log of this size allows.

    Their numbering is not kept: it would be a guess, and a hostile end would become a file position.
    """
    highest = queue_offset_bound(log_end)
    found = []
    for queue in _old_queues(store):
        key = queue.key
        # No file is read if even full files would not reach it.
        if key not in present and queue.bound > highest:
            end = queue.end(INT64_MAX)
            if end is not None and end > highest:
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
    store: StoreFacts,
    ends: Mapping[QueueKey, int],
    lost_ranges: Sequence[tuple[int, int]],
    log_end: int,
    given: Mapping[QueueKey, int],
) -> list[Shortened]:
    """List the queues that end, at the offsets `ends`, before their old end or before a committed offset.

    `lost_ranges` are the ranges [begin, end) of the log that may have held records and do not now. Without any, a later
    old end is no reason: a crash leaves entries past the log's end. `given`: the next offsets that reput has kept.
    """
    found: dict[QueueKey, Shortened] = {}
    for queue in _old_queues(store) if lost_ranges else ():
        key = queue.key
        old_end = (queue.end(queue_offset_bound(log_end)) or 0) if key in ends else 0
        if key in ends and old_end > ends[key]:
            found[key] = Shortened(key, ends[key], old_end, 0, _all_in(queue, ends[key], old_end, lost_ranges))
    for key, offset in given.items():
        if offset > ends.get(key, offset) and not (key in found and found[key].lost and found[key].old_end >= offset):
            found[key] = Shortened(key, ends[key], offset, 0, True)
    for key, committed in _committed_offsets(store).items():
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


def _committed_offsets(store: StoreFacts) -> dict[QueueKey, int]:
    """Return the highest committed offset of each queue over all groups, for topics that the broker still has."""
    topics = store.topics
    offsets: dict[QueueKey, int] = {}
    for name, queues in store.metadata.readable(Table.OFFSETS).values.items():
        parts = name.split("@")
        if len(parts) != 2 or (topics.is_whole and parts[0] not in topics.topics):
            continue
        topic = parts[0].encode("utf-8", "surrogatepass")
        for queue_id, offset in queues.items():
            if queue_id < 0 or not paths.is_topic_folder_name(topic):
                continue
            key = QueueKey(topic, queue_id)
            offsets[key] = max(offsets.get(key, 0), offset)
    return offsets
