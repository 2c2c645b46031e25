"""Entries in log order, chained by queue; the twin of `reput.kernels.reference.backlog`."""

from __future__ import annotations

from reput.formats.queue import consume_queue as fmt
from reput.kernels.compiled.tools.jit import BYTES, INT, entry_kernel, kernel
from reput.kernels.compiled.tools.memory import address_of, store_be32, store_be64
from reput.kernels.compiled.tools.rows import find_row as probe_row
from reput.kernels.compiled.tools.rows import queue_key_of, row_places_at
from reput.kernels.layouts.columns import IN_QUEUE

_ENTRY_SIZE = fmt.ENTRY_SIZE
_SIZE_AT, _TAGS_CODE_AT = fmt.ENTRY.offsets["size"], fmt.ENTRY.offsets["tags_code"]


@kernel
def number_rows(queue, flags, marks, rows, numbers):
    """Number the queues that have entries; see the twin."""
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
def chain_entries(sources, used, entries, offset, previous, newest):
    """Append entries, each pointing to the one before in its queue; return how many are in use. See the twin."""
    position, size, queue, queue_offset, tags_code, flags = sources
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
    """Take the entries of some queues off their chains, if `index` has space for all; see the twin."""
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


@entry_kernel(BYTES, INT, INT, INT)
def find_row(topic, queue_id, rows, table):
    """Return the row of a queue among the first `rows` rows of a table of queues, -1 if it has none."""
    begin = address_of(topic)
    end = begin + len(topic)
    row, _ = probe_row(row_places_at(table), rows, begin, end, queue_id, queue_key_of(begin, end, queue_id))
    return row
