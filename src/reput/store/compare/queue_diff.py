"""diff: every difference between the queues of two kinds, or of two stores, entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.formats.batch_consume_queue import BatchEntry
from reput.formats.consume_queue import ENTRY_SIZE, Entry, OffsetRange, QueueKey, decode_entry
from reput.formats.layout import INT64_MAX
from reput.queue.compare import compare, rows_of, runs
from reput.queue.ext import ExtReader
from reput.queue.kinds import DurableQueues
from reput.store.read.sql_filter import plain_entries

_AT_ONCE = 1 << 16
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
    left: DurableQueues,
    right: DurableQueues,
    left_ext: ExtReader | None = None,
    right_ext: ExtReader | None = None,
    compared: Callable[[QueueKey], bool] = lambda _: True,
) -> Iterator[QueueDifference]:
    """Yield the differences between two sides, by topic and queue; both must be loaded.

    A queue that one side lacks has the range 0 to 0 there; queues that are not `compared` are left out. Only entries
    whose records the log still has are compared, and a missing entry counts as a pre-blank. With ext the tags code of
    a unit is compared, not its address.
    """
    exts = (left_ext, right_ext)
    for key in sorted({key for side in (left, right) for key, _ in side.spans()}):
        if compared(key):
            yield from _of_queue(key, (left, right), exts, left.find(key) or _NONE, right.find(key) or _NONE)


def end_differences(key: QueueKey, one: OffsetRange, other: OffsetRange) -> Iterator[QueueDifference]:
    """Yield the differences of a queue's begin and end, by the offsets of each side."""
    for what, ours, theirs in zip(("min", "max"), one, other, strict=True):
        if ours != theirs:
            yield QueueDifference(name_of(key), key.queue_id, what, ours, theirs)


def name_of(key: QueueKey) -> str:
    """Return the topic as text."""
    return key.topic.decode("utf-8", "surrogateescape")


def _of_queue(
    key: QueueKey,
    sides: tuple[DurableQueues, DurableQueues],
    exts: tuple[ExtReader | None, ExtReader | None],
    one: OffsetRange,
    other: OffsetRange,
) -> Iterator[QueueDifference]:
    yield from end_differences(key, one, other)
    begin, end = max(one[0], other[0]), min(one[1], other[1])
    pending: QueueDifference | None = None
    while begin < end:
        until = min(end, begin + _AT_ONCE, *(side.block_end(key, begin) for side in sides))
        ours, theirs = (_entries(side, key, begin, until, ext) for side, ext in zip(sides, exts, strict=True))
        for first, after in runs(np.sort(np.concatenate(compare(ours, theirs)))):
            if pending is not None and pending.end == begin + first:
                pending = pending._replace(end=begin + after)
                continue
            if pending is not None:
                yield pending
            entries = (decode_entry(rows[first].tobytes()) for rows in (ours, theirs))
            pending = QueueDifference(name_of(key), key.queue_id, "entries", begin + first, begin + after, *entries)
        begin = until
    if pending is not None:
        yield pending


def _entries(side: DurableQueues, key: QueueKey, begin: int, end: int, ext: ExtReader | None) -> NDArray[np.uint8]:
    """Return the entries [begin, end) as rows; zeros for a missing file."""
    found = side.entries(key, begin, end)
    if ext is not None and len(found):
        found = plain_entries(found, key, ext)
    return rows_of(found, ENTRY_SIZE, end - begin)


def whole(queues: DurableQueues, log_min_offset: int) -> DurableQueues:
    """Load the queues without a frontier, and return them."""
    queues.load(INT64_MAX, log_min_offset)
    return queues
