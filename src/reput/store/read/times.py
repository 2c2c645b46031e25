"""Times of a queue's messages: the store time at an offset, and the offset for a time, in all cases.

Source: `DefaultMessageStore.getOffsetInQueueByTime`.
"""

from __future__ import annotations

from collections.abc import Callable

from reput.formats.consume_queue import ENTRY, ENTRY_SIZE, QueueKey, is_blank
from reput.kernels import lookup_kernels
from reput.kernels.lookup_layout import ASK
from reput.queue.by_time import Boundary
from reput.queue.by_time import offset_by_time as search
from reput.store.read.lookup import QueueLookup
from reput.store.read.view import StoreView

_MOST_RETRIES = 256


def seek_with_maps(view: StoreView, key: QueueKey, queue: QueueLookup, timestamp_ms: int, above: bool) -> int:
    """What the kernel `seek_time` answers once each file is mapped that it asks for; ASK where it needs too many."""
    for _ in range(_MOST_RETRIES):
        found = lookup_kernels().seek_time(queue.address, timestamp_ms, above)
        if found >= ASK:
            return found
        with view.follower.lock:
            view.lookups.map_for(found, key, queue)
    return ASK


def offset_by_time(view: StoreView, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary) -> int:
    """The queue offset for a time; see `reput.queue.by_time`. 0 for a queue that is not there.

    Prepares the next question about this queue.
    """
    key = view.key_of(topic, queue_id)
    view.catch_up()
    if topic in view.batches.topics:
        return view.batch_reader.offset_by_time(key, timestamp_ms, boundary)
    with view.follower.lock:
        first, end = view.queues_table.min_offset(key), view.queues_table.max_offset(key)
        if first < end and view.lookups.can_seek and (topic, queue_id) not in view.lookups.queues:
            view.lookups.add_queue(topic, key, first, 1, view.known)
    return search(_times_of(view, key), first, end, timestamp_ms, boundary)


def _times_of(view: StoreView, key: QueueKey) -> Callable[[int], int]:
    """What tells the store time of a queue's offsets; one file's entries are kept for the next question."""
    told = view.queues_table.durable.store_times(key)
    if told is not None:
        return _times_by_kind(view, key, told)
    log_time, place = view.log.store_time, ENTRY.struct.unpack_from
    begin = end = 0
    data: bytes | memoryview = b""

    def time_of(offset: int) -> int:
        nonlocal begin, end, data
        if not begin <= offset < end:
            with view.follower.lock:
                found = view.queues_table.block(key, offset)
            if found is None:
                return _time_by_entry(view, key, offset)
            begin, end, data = found[0], found[0] + len(found[1]) // ENTRY_SIZE, found[1].data
        physical_offset, size, _ = place(data, (offset - begin) * ENTRY_SIZE)
        return -1 if is_blank(physical_offset, size) else log_time(physical_offset)

    return time_of


def _times_by_kind(view: StoreView, key: QueueKey, told: Callable[[int], int]) -> Callable[[int], int]:
    """What tells the store times where the durable entries themselves do, and the log tells those of the tail."""
    with view.follower.lock:
        tail, stored = view.queues_table.find_tail(key), view.queues_table.durable.find(key)
    durable_to = 0 if stored is None or (tail is not None and tail.restarted) else stored.max_offset

    def time_of(offset: int) -> int:
        if offset >= durable_to:
            return _time_by_entry(view, key, offset)
        with view.follower.lock:
            # A gap that it tells ends at the tail at the latest.
            return max(told(offset), offset - durable_to)

    return time_of


def store_time(view: StoreView, topic: str, queue_id: int, offset: int) -> int:
    """Store time (ms) of a queue's message; -1 where there is none."""
    key = view.key_of(topic, queue_id)
    view.catch_up()
    if topic in view.batches.topics:
        return view.batch_reader.store_time(key, offset)
    return _time_by_entry(view, key, offset)


def _time_by_entry(view: StoreView, key: QueueKey, offset: int) -> int:
    with view.follower.lock:
        if not view.queues_table.min_offset(key) <= offset < view.queues_table.max_offset(key):
            return -1
        entry = view.queues_table.entries(key, offset, offset + 1)
    if not len(entry):
        return -1
    physical_offset, size, _ = ENTRY.struct.unpack(entry.data)
    return view.log.store_time(physical_offset) if view.log.record(physical_offset, size) is not None else -1
