"""Data blocks of RocksDB's tables, straight from the values of queue entries."""

from __future__ import annotations

import numpy as np

from reput.formats.database import rocksdb_table as fmt
from reput.formats.queue.rocksdb_consume_queue import VALUE
from reput.formats.queue.rocksdb_consume_queue import VALUE_SIZE as _VALUE_SIZE
from reput.kernels.compiled.tools.jit import BYTES, entry_kernel, kernel
from reput.kernels.compiled.tools.memory import (
    address_of,
    byte_at,
    copy_bytes,
    store_8,
    store_32,
    store_64,
    store_be32,
    store_be64,
)
from reput.kernels.compiled.tools.xxhash import xxhash64
from reput.kernels.layouts import table as columns
from reput.kernels.layouts.columns import IN_QUEUE
from reput.kernels.layouts.table import TableBlockAt, TableStateAt

_BLOCK_SIZE, _FULL_FROM = fmt.BLOCK_SIZE, fmt.BLOCK_FULL_FROM
_RESTART_INTERVAL = fmt.RESTART_INTERVAL
_INTERNAL_END = np.int64(int.from_bytes(fmt.INTERNAL_END, "little"))
_SIZE_AT, _TAGS_CODE_AT, _TIME_AT = (VALUE.offsets[name] for name in ("size", "tags_code", "store_timestamp"))
_END_SIZE, _KEY_END, _MOST_ENTRY_BYTES = len(fmt.INTERNAL_END), columns.KEY_END, columns.MOST_ENTRY_BYTES


@kernel
def _put_varint(at, value):
    """Write a varint; return the place after it."""
    while value >= 128:
        store_8(at, np.uint8(value & 127 | 128))
        value >>= 7
        at += 1
    store_8(at, np.uint8(value))
    return at + 1


@kernel
def _shared(one, one_size, other, other_size):
    """Return the number of bytes with which two stretches of memory begin alike."""
    size, at = min(one_size, other_size), 0
    while at < size and byte_at(one + at) == byte_at(other + at):
        at += 1
    return at


@kernel
def _shared_of_numbers(one, other):
    """Return the number of bytes, the highest first, with which two numbers that differ begin alike."""
    differ, shared = one ^ other, 7
    while differ >> 8:
        differ >>= 8
        shared -= 1
    return shared


@kernel
def _is_full(size, key_size, since):
    """Return True if a block of `size` bytes ends before another entry, by RocksDB's rule."""
    after = size + key_size + _VALUE_SIZE + 5
    if since == _RESTART_INTERVAL:
        after += 4
    rest = key_size
    while rest:
        after += 1
        rest >>= 7
    return size >= _BLOCK_SIZE or (after > _BLOCK_SIZE and size > _FULL_FROM)


@kernel
def _end_block(at, restarts, known):
    """Write the restarts at a block's end; return the place after them."""
    for number in range(known):
        store_32(at, np.int32(restarts[number]))
        at += 4
    store_32(at, np.int32(known))
    return at + 4


@kernel
def fill_blocks(prefixes, pieces, out, restarts, blocks, state):
    """Write the entries of pieces into data blocks; see the twin."""
    row, first, count, address = pieces
    prefix_end, start, names = prefixes.end, address_of(out), address_of(prefixes.names)
    piece, done = state[TableStateAt.piece], state[TableStateAt.done]
    begin, at = start + state[TableStateAt.begin], start + state[TableStateAt.at]
    known, since = state[TableStateAt.restarts], state[TableStateAt.since]
    last_row, last_offset = state[TableStateAt.last_row], state[TableStateAt.last_offset]
    whole = 0
    has_space = True
    while has_space and piece < len(row):
        queue = row[piece]
        prefix, prefix_size = names + prefix_end[queue], prefix_end[queue + 1] - prefix_end[queue]
        key_size = prefix_size + _KEY_END
        furthest = start + len(out) - _MOST_ENTRY_BYTES - key_size
        value, from_done = address[piece] + done * _VALUE_SIZE, done
        while done < count[piece]:
            if at > furthest or whole == len(blocks):
                has_space = False
                break
            offset = first[piece] + done
            if last_row >= 0 and _is_full(at - begin + 4 * known + 4, key_size, since):
                at = _end_block(at, restarts, known)
                blocks[whole, TableBlockAt.begin], blocks[whole, TableBlockAt.end] = begin - start, at - start
                blocks[whole, TableBlockAt.last_row], blocks[whole, TableBlockAt.last_offset] = last_row, last_offset
                blocks[whole, TableBlockAt.next_row], blocks[whole, TableBlockAt.next_offset] = queue, offset
                whole += 1
                begin, last_row = at, -1
            shared = 0
            if last_row < 0:
                known, since = 1, 0
                restarts[0] = 0
            elif since == _RESTART_INTERVAL:
                restarts[known] = at - begin
                known += 1
                since = 0
            elif last_row == queue:
                shared = prefix_size + _shared_of_numbers(last_offset, offset)
            else:
                last_size = prefix_end[last_row + 1] - prefix_end[last_row]
                shared = _shared(names + prefix_end[last_row], last_size, prefix, prefix_size)
            at = _put_varint(at, shared)
            at = _put_varint(at, key_size - shared)
            at = _put_varint(at, _VALUE_SIZE)
            if shared >= prefix_size:
                for byte in range(shared - prefix_size, 8):
                    store_8(at, np.uint8(offset >> (56 - 8 * byte) & 255))
                    at += 1
            else:
                copy_bytes(at, prefix + shared, prefix_size - shared)
                at += prefix_size - shared
                store_be64(at, offset)
                at += 8
            store_64(at, _INTERNAL_END)
            copy_bytes(at + _END_SIZE, value, _VALUE_SIZE)
            at += _END_SIZE + _VALUE_SIZE
            value += _VALUE_SIZE
            done += 1
            since += 1
            last_row, last_offset = queue, offset
        state[TableStateAt.entries] += done - from_done
        state[TableStateAt.key_bytes] += (done - from_done) * key_size
        if has_space:
            piece += 1
            done = 0
    state[TableStateAt.piece], state[TableStateAt.done] = piece, done
    state[TableStateAt.begin], state[TableStateAt.at] = begin - start, at - start
    state[TableStateAt.restarts], state[TableStateAt.since] = known, since
    state[TableStateAt.last_row], state[TableStateAt.last_offset] = last_row, last_offset
    return whole


@kernel
def pack_values(sources, store_timestamp, place, out):
    """Put the values of entries into `out`; see the twin."""
    position, size, queue, _, tags_code, flags = sources
    start = address_of(out)
    for n in range(len(flags)):
        if flags[n] & IN_QUEUE:
            number = place[queue[n]]
            if number >= 0:
                place[queue[n]] = number + 1
                at = start + number * _VALUE_SIZE
                store_be64(at, position[n])
                store_be32(at + _SIZE_AT, size[n])
                store_be64(at + _TAGS_CODE_AT, tags_code[n])
                store_be64(at + _TIME_AT, store_timestamp[n])


@entry_kernel(BYTES)
def hash_bytes(data):
    """XXH64 of some bytes, as int64."""
    begin = address_of(data)
    return np.int64(xxhash64(begin, begin + len(data)))
