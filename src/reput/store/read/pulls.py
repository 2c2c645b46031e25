"""Pulls in all cases: from queue files, the tail or both, of single messages or batches, with any filter.

Source: `DefaultMessageStore.getMessage`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.formats.consume_queue import ENTRY_SIZE, OffsetRange, QueueKey
from reput.kernels import kernels
from reput.kernels.columns import Pull
from reput.store.read.lookup import QueueLookup
from reput.store.read.results import GetResult, GetStatus, outside, pull_bytes
from reput.store.read.sql_filter import MATCHING_CODES, SqlFilter, marked_entries, plain_entries, ruled_out_by_bitmap
from reput.store.read.tag_filter import EVERYTHING, NO_CODES, TagFilter
from reput.store.read.view import StoreView


class PullQuestion(NamedTuple):
    """A pull from a queue: see `Reading.get_message`."""

    topic: str
    queue_id: int
    offset: int
    max_messages: int
    wanted: TagFilter | SqlFilter
    max_bytes: int


def pull(view: StoreView, asked: PullQuestion) -> GetResult:
    """The answer to a pull; prepares the next one of this queue."""
    topic, queue_id, offset, max_messages, wanted, max_bytes = asked
    key = view.key_of(topic, queue_id)
    if view.refresh is not None or view.follower.offset < view.confirmed():
        view.catch_up()
    if topic in view.batches.topics:
        limits = view.limits
        return view.batch_reader.pull(key, offset, max_messages, wanted, max_bytes, limits.messages, limits.total_bytes)
    # Without a filter no more is looked at than is given, but for a few gaps.
    count = view.queues_table.durable.pull_entries(max_messages, wanted is not EVERYTHING)
    with view.follower.lock:
        queue, table = view.lookups.queues.get((topic, queue_id)), view.queues_table
        span: OffsetRange | QueueLookup
        if queue is not None and queue.begin <= offset and (
            offset + count <= queue.behind or (queue.is_last and offset < queue.behind)
        ):  # fmt: skip
            # Where the file goes on in the tail, a pull must not end at the frontier.
            at = (offset - queue.begin) * ENTRY_SIZE
            entries, span = queue.entries[at : at + count * ENTRY_SIZE], queue
        else:
            span = OffsetRange(table.min_offset(key), table.max_offset(key))
            if not span.min_offset <= offset < span.max_offset:
                return outside(table.knows(key), offset, span)
            entries = table.entries(key, offset, offset + count)
        if span is not queue or wanted is EVERYTHING:
            view.lookups.add_queue(topic, key, offset, max(1, max_messages), view.known)
    if not len(entries):
        return GetResult.nothing(GetStatus.OFFSET_FOUND_NULL, table.durable.block_end(offset), span)
    codes = NO_CODES
    if wanted is not EVERYTHING:
        entries, codes = filtered(view, entries, topic, key, wanted, max_messages)
    return _choose(view, entries, offset, span, max_messages, codes, max_bytes)


def filtered(
    view: StoreView, entries: NDArray[np.uint8], topic: str, key: QueueKey, wanted: TagFilter | SqlFilter, most: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The entries as they are chosen among, and the tags codes (cut to 32 bits) of those that match (none: all).

    With a SqlFilter only as many from the first on as `most` matching ones take.
    """
    if isinstance(wanted, TagFilter):
        if view.ext is not None and len(wanted.codes):
            entries = plain_entries(entries, key, view.ext)
        return entries, wanted.codes
    bloom = view.bloom_bits(topic, wanted) if view.ext is not None else None
    ruled_out = ruled_out_by_bitmap(entries, key, view.ext, bloom) if view.ext is not None and bloom else None
    marked = marked_entries(entries, wanted.compiled, view.log, view.follower.offset, most, ruled_out)
    return marked, MATCHING_CODES


def _choose(
    view: StoreView,
    entries: NDArray[np.uint8],
    offset: int,
    span: OffsetRange | QueueLookup,
    max_messages: int,
    codes: NDArray[np.int64],
    max_bytes: int,
) -> GetResult:
    """Choose among the entries from `offset` on."""
    limits, log = view.limits, view.log
    stop_bytes = pull_bytes(max_bytes)
    most = max_messages if limits.messages is None else min(max_messages, limits.messages)
    most = max(1, min(most, len(entries) // ENTRY_SIZE))
    places = np.empty(2 * most, dtype=np.int64)
    taken, passed, how, begin, last = kernels().select_entries(
        entries,
        log.min_offset,
        view.follower.offset,
        log.file_size,
        codes,
        most,
        stop_bytes if limits.total_bytes is None else min(stop_bytes, limits.total_bytes),
        stop_bytes,
        places,
    )
    if how != Pull.FOUND:
        status = GetStatus.NO_MATCHED_MESSAGE if how == Pull.NOTHING else GetStatus.MESSAGE_WAS_REMOVING
        return GetResult.nothing(status, offset + passed, span)
    return GetResult.of(GetStatus.FOUND, offset + passed, span, places, taken, _maps_of(view, begin, last))


def _maps_of(view: StoreView, first: int, last: int) -> Sequence[tuple[int, NDArray[np.uint8]]]:
    log = view.log
    begin = first // log.file_size * log.file_size
    if last < begin + log.file_size:
        return ((begin, log.array(begin)),)
    return [(start, log.array(start)) for start in log.starts if begin <= start <= last]
