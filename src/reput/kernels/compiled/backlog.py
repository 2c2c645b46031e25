"""Entries in log order, chained by queue; the twin of `reput.kernels.reference_backlog`."""

from __future__ import annotations

import numpy as np

from reput.formats import consume_queue as fmt
from reput.kernels.columns import IN_QUEUE
from reput.kernels.compiled.decode import queue_key_of, same_bytes
from reput.kernels.compiled.jit import kernel
from reput.kernels.compiled.memory import address_of, store_be32, store_be64

_ENTRY_SIZE = fmt.ENTRY_SIZE
_SIZE_AT, _TAGS_CODE_AT = fmt.ENTRY.offsets["size"], fmt.ENTRY.offsets["tags_code"]


@kernel
def number_rows(queue, flags, marks, rows, numbers):
    """Number the queues that have entries, from 0 on as they come; see the twin."""
    count = 0
    for n in range(len(queue)):
        if flags[n] & IN_QUEUE:
            row = queue[n]
            if marks[row] == 0:
                rows[count] = row
                count += 1
                marks[row] = count
            numbers[n] = marks[row] - 1
        else:
            numbers[n] = 0
    for n in range(count):
        marks[rows[n]] = 0
    return count


@kernel
def chain_entries(
    position, size, queue, queue_offset, tags_code, flags, used, entries, offset, previous, newest
):  # fmt: skip
    """Append entries, each pointing to the one before in its queue; returns how many are in use. See the twin."""
    out = address_of(entries)
    for n in range(len(flags)):
        if flags[n] & IN_QUEUE:
            at = out + used * _ENTRY_SIZE
            store_be64(at, position[n])
            store_be32(at + _SIZE_AT, size[n])
            store_be64(at + _TAGS_CODE_AT, tags_code[n])
            row = queue[n]
            offset[used] = queue_offset[n]
            previous[used] = newest[row]
            newest[row] = used
            used += 1
    return used


@kernel
def take_chains(rows, newest, previous, start, index):
    """Take the entries of some queues off their chains, where `index` has room for all; see the twin."""
    total = 0
    for n in range(len(rows)):
        start[n] = total
        entry = newest[rows[n]]
        while entry >= 0:
            total += 1
            entry = previous[entry]
    start[len(rows)] = total
    if total > len(index):
        return total
    for n in range(len(rows)):
        place = start[n + 1]
        entry = newest[rows[n]]
        while entry >= 0:
            place -= 1
            index[place] = entry
            entry = previous[entry]
        newest[rows[n]] = -1
    return total


@kernel
def find_row(topic, number, rows, queue_id, topic_at, topic_size, names, queue_table, queue_key):
    """The row of a queue among the first `rows` of a table of queues, -1 where it has none; see the twin."""
    begin, names_at = address_of(topic), address_of(names)
    key = queue_key_of(begin, begin + len(topic), number)
    mask = np.uint64(len(queue_table) - 1)
    place = key & mask
    row = np.int64(queue_table[place]) - 1
    while row >= 0:
        if (
            row < rows
            and queue_key[row] == key
            and queue_id[row] == number
            and topic_size[row] == len(topic)
            and same_bytes(begin, names_at + topic_at[row], len(topic))
        ):
            return row
        place = place + np.uint64(1) & mask
        row = np.int64(queue_table[place]) - 1
    return np.int64(-1)
