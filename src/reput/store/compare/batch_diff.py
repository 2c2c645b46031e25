"""diff: the queues of batches of two stores, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator

from reput.formats.batch_consume_queue import BatchEntry
from reput.formats.consume_queue import QueueKey
from reput.queue.batch_files import BatchFiles, BatchQueueFiles, BatchSpan
from reput.store.compare.queue_diff import QueueDifference, end_differences, name_of


def batch_differences(left: BatchFiles, right: BatchFiles, log_min_offset: int) -> Iterator[QueueDifference]:
    """Yield the differences between two sides, queue by queue; a queue that one side lacks has the range 0 to 0 there.

    Only entries whose records the log still has are compared. The queue offsets of their messages identify entries.
    """
    for key in sorted({queue.key for files in (left, right) for queue in files.queues()}):
        yield from _of_queue(key, left.queue(key), right.queue(key), log_min_offset)


def _of_queue(
    key: QueueKey, left: BatchQueueFiles, right: BatchQueueFiles, log_min_offset: int
) -> Iterator[QueueDifference]:
    one, other = left.span(log_min_offset), right.span(log_min_offset)
    yield from end_differences(key, one.offsets, other.offsets)
    bounds = max(one.min_offset, other.min_offset), min(one.max_offset, other.max_offset)
    for mine, their in _side_by_side(_entries(left, one, *bounds), _entries(right, other, *bounds)):
        if mine != their:
            known = [entry for entry in (mine, their) if entry is not None]
            begin, end = known[0].base_offset, max(entry.next_offset for entry in known)
            yield QueueDifference(name_of(key), key.queue_id, "entries", begin, end, mine, their)


def _side_by_side(
    left: Iterator[BatchEntry], right: Iterator[BatchEntry]
) -> Iterator[tuple[BatchEntry | None, BatchEntry | None]]:
    """Yield entries that begin at the same queue offset in pairs, others alone; each side's offsets ascend."""
    mine, their = next(left, None), next(right, None)
    while mine is not None or their is not None:
        takes_mine = mine is not None and (their is None or mine.base_offset <= their.base_offset)
        takes_their = their is not None and (mine is None or their.base_offset <= mine.base_offset)
        yield mine if takes_mine else None, their if takes_their else None
        mine, their = next(left, None) if takes_mine else mine, next(right, None) if takes_their else their


def _entries(queue: BatchQueueFiles, span: BatchSpan, begin: int, end: int) -> Iterator[BatchEntry]:
    """Yield the entries of batches that begin in [begin, end)."""
    for piece in queue.read(span.first, span.end):
        for row in piece[(piece["base_offset"] >= begin) & (piece["base_offset"] < end)]:
            yield BatchEntry(*row.item())
