"""diff: every difference between the queues of two kinds, or of two stores, entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from reput.formats.queue.batch_consume_queue import BatchEntry
from reput.formats.queue.consume_queue import Entry, OffsetRange, QueueKey
from reput.formats.stored_text import stored_text
from reput.queue.compare import compare, runs, side_by_side
from reput.queue.ext import ExtReader
from reput.queue.kinds import ComparedQueues, EntryRows
from reput.store.read.sql_filter import plain_entries

_NONE = OffsetRange(0, 0)


class QueueDifference(NamedTuple):
    """A difference: of a queue's begin (`min`), of its end (`max`), or of the entries [begin, end) (`entries`).

    For `min` and `max`, `begin` is the value of the left side and `end` that of the right side. `left` and `right` are
    the entries at `begin`.
    """

    topic: str
    queue_id: int
    what: str
    begin: int
    end: int
    left: Entry | BatchEntry | None = None
    right: Entry | BatchEntry | None = None


def queue_differences(
    left: ComparedQueues,
    right: ComparedQueues,
    left_ext: ExtReader | None = None,
    right_ext: ExtReader | None = None,
    compared: Callable[[QueueKey], bool] = lambda _: True,
) -> Iterator[QueueDifference]:
    """Yield the differences between two sides, by topic and queue.

    A queue that one side lacks has the range 0 to 0 there; queues that are not `compared` are left out. Only entries
    whose records the log still has are compared. With ext the tags code of a unit is compared, not its address.
    """
    exts = (left_ext, right_ext)
    for key in sorted({key for side in (left, right) for key, _ in side.spans()}):
        if compared(key):
            yield from _of_queue(key, (left, right), exts, left.find(key) or _NONE, right.find(key) or _NONE)


def _end_differences(key: QueueKey, one: OffsetRange, other: OffsetRange) -> Iterator[QueueDifference]:
    """Yield the differences of a queue's begin and end, by the offsets of each side."""
    for what, ours, theirs in zip(("min", "max"), one, other, strict=True):
        if ours != theirs:
            yield QueueDifference(_name_of(key), key.queue_id, what, ours, theirs)


def _name_of(key: QueueKey) -> str:
    """Return the topic as text."""
    return stored_text(key.topic)


def _of_queue(
    key: QueueKey,
    sides: tuple[ComparedQueues, ComparedQueues],
    exts: tuple[ExtReader | None, ExtReader | None],
    one: OffsetRange,
    other: OffsetRange,
) -> Iterator[QueueDifference]:
    yield from _end_differences(key, one, other)
    begin, end = max(one[0], other[0]), min(one[1], other[1])
    pending: QueueDifference | None = None
    while begin < end:
        until = min(end, *(side.block_end(key, begin) for side in sides))
        found = (_rows(side, key, begin, until, ext) for side, ext in zip(sides, exts, strict=True))
        ours, theirs = side_by_side(*found)
        for first, after in runs(np.sort(np.concatenate(compare(ours.rows, theirs.rows)))):
            low, high = int(ours.first[first]), int(ours.next[after - 1])
            if pending is not None and pending.end == low:
                pending = pending._replace(end=high)
                continue
            if pending is not None:
                yield pending
            pairs = zip(sides, (ours, theirs), strict=True)
            entries = (side.decoded(of.rows[first].tobytes()) for side, of in pairs)
            pending = QueueDifference(_name_of(key), key.queue_id, "entries", low, high, *entries)
        begin = until
    if pending is not None:
        yield pending


def _rows(side: ComparedQueues, key: QueueKey, begin: int, end: int, ext: ExtReader | None) -> EntryRows:
    """Return the entries that begin in [begin, end)."""
    found = side.rows(key, begin, end)
    if ext is None or not len(found.rows):
        return found
    return found._replace(rows=plain_entries(found.rows.reshape(-1), key, ext).reshape(found.rows.shape))
