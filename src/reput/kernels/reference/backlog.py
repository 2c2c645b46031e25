"""The backlog's kernels in plain Python: the specification of `reput.kernels.compiled.backlog`."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from reput.formats.queue.consume_queue import ENTRY, ENTRY_SIZE
from reput.kernels.layouts.columns import IN_QUEUE, QueueTableAt
from reput.kernels.layouts.pack import EntrySources

Bytes = NDArray[np.uint8]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]


def number_rows(queue: Int32s, flags: Bytes, marks: Int32s, rows: Int32s, numbers: Int32s) -> int:
    """Number the queues that have entries, from 0 on in the order of their first entries.

    `queue`, `flags`: of the places that may give an entry. `numbers`: each place's number, 0 if it gives none.
    `rows`: the row of each number. `marks`: zeros, one for each row, and zeros again in the end. Returns how many there
    are.
    """
    assert not marks.any(), "marks left over"
    found: dict[int, int] = {}
    for n, row in enumerate(queue.tolist()):
        numbers[n] = found.setdefault(row, len(found)) if flags[n] & IN_QUEUE else 0
    rows[: len(found)] = list(found)
    return len(found)


def chain_entries(
    sources: EntrySources, used: int, entries: Bytes, offset: Int64s, previous: Int32s, newest: Int32s
) -> int:
    """Append entries, each pointing to the one before in its queue; return how many are in use then.

    `entries` (20 bytes each), `offset` (queue offsets) and `previous` (-1: none) have `used` in use and space for the
    others; `newest` is the last entry of each row, -1: none.
    """
    position, size, queue, queue_offset, tags_code, flags = sources
    for n in np.flatnonzero(flags & IN_QUEUE).tolist():
        begin = used * ENTRY_SIZE
        ENTRY.struct.pack_into(entries.data, begin, int(position[n]), int(size[n]), int(tags_code[n]))
        offset[used], previous[used] = queue_offset[n], newest[queue[n]]
        newest[queue[n]] = used
        used += 1
    return used


def take_chains(rows: Int64s, newest: Int32s, previous: Int32s, start: Int64s, index: Int32s) -> int:
    """Take the entries of some queues off their chains; return their number.

    Those of queue `rows[n]` go to `index[start[n]:start[n + 1]]` in log order, as places of `previous`. If `index`
    has no space for all, nothing is taken.
    """
    chains = []
    start[0] = 0
    for n, row in enumerate(rows.tolist()):
        chain, entry = [], int(newest[row])
        while entry >= 0:
            chain.append(entry)
            entry = int(previous[entry])
        chains += chain[::-1]
        start[n + 1] = len(chains)
    if len(chains) <= len(index):
        index[: len(chains)] = chains
        newest[rows] = -1
    return len(chains)


def find_row(topic: bytes, queue_id: int, rows: int, table: int) -> int:
    """Return the row of a queue among the first `rows` rows of a table of queues, -1 if it has none.

    `table` is the address of a record of `QUEUE_TABLE_LAYOUT`. Its hash table leads the compiled twin to the row.
    """
    fields = (ctypes.c_int64 * len(QueueTableAt)).from_address(table)
    ids, begins, sizes = (
        (ctypes.c_int32 * rows).from_address(fields[place])
        for place in (QueueTableAt.queue_id_at, QueueTableAt.topic_at_at, QueueTableAt.topic_size_at)
    )
    for row in range(rows):
        name = ctypes.string_at(fields[QueueTableAt.names_at] + begins[row], sizes[row])
        if ids[row] == queue_id and name == topic:
            return row
    return -1
