"""The packing of ConsumeQueue entries in plain Python: the specification of `reput.kernels.compiled.pack`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from reput.formats.queue import consume_queue
from reput.kernels.layouts.columns import IN_QUEUE

if TYPE_CHECKING:
    from reput.kernels.layouts.pack import EntrySources, Packed


def pack_entries(queues: int, sources: EntrySources, packed: Packed) -> int:
    """Fill `packed.entries` with 20 bytes an entry, queue by queue and in log order within a queue.

    Fill the other arrays of `packed` for each of `queues` queues. Returns the number of entries; `packed.entries` must
    have space for that number, which the number of records bounds.
    """
    position, size, queue, queue_offset, tags_code, flags = sources
    entries, start, first, last, steady = packed
    members: list[list[int]] = [[] for _ in range(queues)]
    for n in range(len(flags)):
        if flags[n] & IN_QUEUE:
            members[queue[n]].append(n)
    out, written = entries.data, 0
    for row, numbers in enumerate(members):
        start[row] = written
        offsets = [int(queue_offset[n]) for n in numbers]
        first[row], last[row] = (offsets[0], offsets[-1]) if offsets else (-1, -1)
        steady[row] = all(after == before + 1 for before, after in itertools.pairwise(offsets))
        for n in numbers:
            entry = consume_queue.Entry(int(position[n]), int(size[n]), int(tags_code[n]))
            at = written * consume_queue.ENTRY_SIZE
            out[at : at + consume_queue.ENTRY_SIZE] = consume_queue.encode_entry(entry)
            written += 1
    start[queues] = written
    return written
