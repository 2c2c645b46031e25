"""Group a range's ConsumeQueue entries by queue and pack them: a counting sort straight into bytes."""

from __future__ import annotations

from reput.formats.queue import consume_queue as fmt
from reput.kernels.compiled.tools.jit import kernel
from reput.kernels.compiled.tools.memory import address_of, store_be32, store_be64
from reput.kernels.layouts.columns import IN_QUEUE

_ENTRY_SIZE = fmt.ENTRY_SIZE
_SIZE_AT, _TAGS_CODE_AT = fmt.ENTRY.offsets["size"], fmt.ENTRY.offsets["tags_code"]


@kernel
def pack_entries(queues, sources, packed):
    """Fill `entries` (uint8) with 20 bytes an entry, queue by queue and in log order within a queue.

    Per queue: `start` (queues + 1) the entries before it, `first` and `last` the queue offsets of its first
    and last record (-1 without records), `steady` whether each is one more than the one before. Returns the
    number of entries.
    """
    position, size, queue, queue_offset, tags_code, flags = sources
    entries, start, first, last, steady = packed
    out, records = address_of(entries), len(flags)
    for row in range(queues):
        start[row] = 0
        first[row] = -1
        last[row] = -1
        steady[row] = 1
    start[queues] = 0
    for n in range(records):
        if flags[n] & IN_QUEUE:
            row = queue[n]
            start[row + 1] += 1
            if first[row] < 0:
                first[row] = queue_offset[n]
            elif queue_offset[n] != last[row] + 1:
                steady[row] = 0
            last[row] = queue_offset[n]
    for row in range(queues):
        start[row + 1] += start[row]
    place = start[:queues].copy()
    for n in range(records):
        if flags[n] & IN_QUEUE:
            row = queue[n]
            at = out + place[row] * _ENTRY_SIZE
            place[row] += 1
            store_be64(at, position[n])
            store_be32(at + _SIZE_AT, size[n])
            store_be64(at + _TAGS_CODE_AT, tags_code[n])
    return start[queues]
