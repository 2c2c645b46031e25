"""How many messages of a queue match, counted exactly and without giving them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reput.formats.consume_queue import ENTRY, ENTRY_SIZE, is_blank
from reput.store.read.pulls import filtered
from reput.store.read.sql_filter import SqlFilter
from reput.store.read.tag_filter import TagFilter
from reput.store.read.view import StoreView

_ENTRIES_AT_ONCE = 1 << 16


def estimate(view: StoreView, topic: str, queue_id: int, begin: int, end: int, wanted: TagFilter | SqlFilter) -> int:
    """How many messages of a queue with offsets [begin, end) pulls with this filter give."""
    key = view.key_of(topic, queue_id)
    view.catch_up()
    if topic in view.batches.topics:
        return view.batch_reader.estimate(key, begin, end, wanted)
    count, position = 0, max(begin, view.min_offset(topic, queue_id))
    end = min(end, view.max_offset(topic, queue_id))
    while position < end:
        with view.follower.lock:
            entries = view.queues_table.entries(key, position, min(end, position + _ENTRIES_AT_ONCE))
        read = len(entries) // ENTRY_SIZE
        if not read:
            position = view.queues_table.durable.block_end(position)
            continue
        there = _have_records(view, entries)
        entries, codes = filtered(view, entries, topic, key, wanted, read)
        if len(codes):
            hashes = entries.view(ENTRY.dtype)["tags_code"].astype(np.int64).astype(np.int32)
            # A SqlFilter's marks end where as many match as there are entries: at their end, unless all match.
            there = there[: len(hashes)] & np.isin(hashes, codes)
        count += int(np.count_nonzero(there))
        position += read
    return count


def _have_records(view: StoreView, entries: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which entries (bool) refer to records that the log holds."""
    rows = entries.view(ENTRY.dtype)
    begin, size = rows["physical_offset"].astype(np.int64), rows["size"].astype(np.int64)
    there = (begin >= view.log.min_offset) & (size > 0) & (begin <= view.follower.offset - size)
    there &= ~is_blank(begin, size)
    found: NDArray[np.bool_] = there
    return found
