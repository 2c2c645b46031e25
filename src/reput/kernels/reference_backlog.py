"""The backlog's kernels in plain Python: the specification of `reput.kernels.compiled.backlog`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reput.formats.consume_queue import ENTRY, ENTRY_SIZE
from reput.kernels.columns import IN_QUEUE

Bytes = NDArray[np.uint8]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]


def number_rows(queue: Int32s, flags: Bytes, marks: Int32s, rows: Int32s, numbers: Int32s) -> int:
    """Number the queues that have entries, from 0 on as they come.

    `queue`, `flags`: of the places that may give an entry. `numbers`: each place's number, 0 where it gives none.
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
    position: Int64s, size: Int32s, queue: Int32s, queue_offset: Int64s, tags_code: Int64s, flags: Bytes, used: int,
    entries: Bytes, offset: Int64s, previous: Int32s, newest: Int32s,
) -> int:  # fmt: skip
    """Append entries, each pointing to the one before in its queue; returns how many are in use then.

    What an entry is made of stands at `EntrySources`. `entries` (20 bytes each), `offset` (queue offsets) and
    `previous` (-1: none) have `used` in use and room for the others; `newest` is the last entry of each row, -1: none.
    """
    for n in np.flatnonzero(flags & IN_QUEUE).tolist():
        begin = used * ENTRY_SIZE
        ENTRY.struct.pack_into(entries.data, begin, int(position[n]), int(size[n]), int(tags_code[n]))
        offset[used], previous[used] = queue_offset[n], newest[queue[n]]
        newest[queue[n]] = used
        used += 1
    return used


def take_chains(rows: Int64s, newest: Int32s, previous: Int32s, start: Int64s, index: Int32s) -> int:
    """Take the entries of some queues off their chains; returns how many they are.

    Those of queue `rows[n]` go to `index[start[n]:start[n + 1]]` in log order, as places of `previous`. Where `index`
    has no room for all, nothing is taken.
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


def find_row(
    topic: Bytes, number: int, rows: int, queue_id: Int32s, topic_at: Int32s, topic_size: Int32s, names: Bytes,
    queue_table: Int32s, queue_key: NDArray[np.uint64],
) -> int:  # fmt: skip
    """The row of a queue (`topic`, queue id `number`) among the first `rows` of a table of queues, -1 for none.

    `queue_table` and `queue_key` are the compiled twin's way to find it.
    """
    for row in range(rows):
        begin = int(topic_at[row])
        name = names[begin : begin + int(topic_size[row])]
        if queue_id[row] == number and name.tobytes() == topic.tobytes():
            return row
    return -1
