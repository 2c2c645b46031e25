"""diff: the queues of two kinds, or of two stores, entry by entry; every difference is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.formats.batch_consume_queue import BatchEntry
from reput.formats.consume_queue import ENTRY_SIZE, Entry, QueueKey, decode_entry
from reput.queue.ext import ExtReader
from reput.queue.kinds import NO_BOUND, DurableQueues
from reput.store.sql_filter import plain_entries

_AT_ONCE = 1 << 16


class QueueDifference(NamedTuple):
    """One difference: of a queue's begin (`min`), of its end (`max`), or of the entries [begin, end) (`entries`).

    For `min` and `max` `begin` is what the left one says and `end` what the right one says. `left` and `right` are the
    entries at `begin`.
    """

    topic: str
    queue_id: int
    what: str
    begin: int
    end: int
    left: Entry | BatchEntry | None = None
    right: Entry | BatchEntry | None = None


def queue_differences(
    left: DurableQueues, right: DurableQueues, left_ext: ExtReader | None = None, right_ext: ExtReader | None = None
) -> Iterator[QueueDifference]:
    """The differences between two sides, queue by queue; both must be loaded.

    A queue that only one side has is there with 0 to 0 on the other. Only entries whose records the log still has
    count, and a missing entry counts as a pre-blank. With ext a unit's tags code counts, not where the unit lies.
    """
    exts = (left_ext, right_ext)
    for key, one in left.spans():
        other = right.find(key)
        told = (other.min_offset, other.end) if other else (0, 0)
        yield from _of_queue(key, (left, right), exts, (one.min_offset, one.end), told)
    for key, other in right.spans():
        if left.find(key) is None:
            yield from _of_queue(key, (left, right), exts, (0, 0), (other.min_offset, other.end))


def _of_queue(
    key: QueueKey,
    sides: tuple[DurableQueues, DurableQueues],
    exts: tuple[ExtReader | None, ExtReader | None],
    one: tuple[int, int],
    other: tuple[int, int],
) -> Iterator[QueueDifference]:
    name = key.topic.decode("utf-8", "surrogateescape")
    for what, ours, theirs in zip(("min", "max"), one, other, strict=True):
        if ours != theirs:
            yield QueueDifference(name, key.queue_id, what, ours, theirs)
    begin, end = max(one[0], other[0]), min(one[1], other[1])
    pending: QueueDifference | None = None
    while begin < end:
        until = min(end, begin + _AT_ONCE, *(side.block_end(begin) for side in sides))
        mine, theirs_here = (_entries(side, key, begin, until, ext) for side, ext in zip(sides, exts, strict=True))
        differ = np.flatnonzero((mine != theirs_here).any(axis=1))
        for first, last in _runs(differ):
            found = QueueDifference(
                name,
                key.queue_id,
                "entries",
                begin + first,
                begin + last + 1,
                decode_entry(mine[first].tobytes()),
                decode_entry(theirs_here[first].tobytes()),
            )
            if pending is not None and pending.end == found.begin:
                pending = pending._replace(end=found.end)
                continue
            if pending is not None:
                yield pending
            pending = found
        begin = until
    if pending is not None:
        yield pending


def _entries(side: DurableQueues, key: QueueKey, begin: int, end: int, ext: ExtReader | None) -> NDArray[np.uint8]:
    """The entries [begin, end) as rows; zeros where a file is missing."""
    rows = np.zeros((end - begin, ENTRY_SIZE), dtype=np.uint8)
    found = side.entries(key, begin, end)
    rows.reshape(-1)[: len(found)] = found if ext is None or not len(found) else plain_entries(found, key, ext)
    return rows


def _runs(places: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """First and last of each run of consecutive places."""
    if not len(places):
        return
    breaks = np.flatnonzero(np.diff(places) != 1)
    firsts = [0, *(breaks + 1).tolist()]
    lasts = [*breaks.tolist(), len(places) - 1]
    for first, last in zip(firsts, lasts, strict=True):
        yield int(places[first]), int(places[last])


def whole(queues: DurableQueues, log_min_offset: int) -> DurableQueues:
    """The same queues, loaded without a frontier."""
    queues.load(NO_BOUND, log_min_offset)
    return queues
