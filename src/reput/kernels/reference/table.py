"""The kernels of RocksDB's tables in plain Python: the specification that the compiled ones are tested against."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from reput.formats.database.rocksdb_table import (
    BLOCK_FULL_FROM,
    BLOCK_SIZE,
    INTERNAL_END,
    RESTART_INTERVAL,
    encode_restarts,
    shared_bytes,
    varint,
)
from reput.formats.database.xxhash import xxhash64
from reput.formats.queue.consume_queue import Entry
from reput.formats.queue.rocksdb_consume_queue import VALUE_SIZE, encode_value
from reput.kernels.layouts.columns import IN_QUEUE
from reput.kernels.layouts.pack import EntrySources
from reput.kernels.layouts.table import MOST_ENTRY_BYTES, EntryPieces, Prefixes, TableStateAt

Int64s = NDArray[np.int64]


def fill_blocks(
    prefixes: Prefixes,
    pieces: EntryPieces,
    out: NDArray[np.uint8],
    restarts: NDArray[np.uint32],
    blocks: Int64s,
    state: Int64s,
) -> int:
    """Write the entries of pieces into data blocks, one block after the other; return the number of whole blocks.

    Piece n has `count[n]` consecutive entries of queue `row[n]`, from queue offset `first[n]` on, whose values (28
    bytes each) lie at `address[n]`. All keys of queue r begin with `prefixes[prefix_end[r] : prefix_end[r + 1]]`; keys
    ascend, and none is the beginning of another.

    `out` takes the blocks, `blocks` (rows as `TableBlock` has them) gets their places, `restarts` (`MOST_RESTARTS`)
    keeps those of the unfinished block. A call returns when all pieces are written, when `out` has no space for another
    entry, or when `blocks` is full. The caller then takes the blocks away, moves the unfinished one, and calls again.
    """
    row, first, count, address = pieces
    state_of = state.tolist()
    known = restarts[: state_of[TableStateAt.restarts]].tolist()
    whole = 0
    while state_of[TableStateAt.piece] < len(row):
        piece, done = state_of[TableStateAt.piece], state_of[TableStateAt.done]
        if done == count[piece]:
            state_of[TableStateAt.piece], state_of[TableStateAt.done] = piece + 1, 0
            continue
        key = _internal_key(prefixes, int(row[piece]), int(first[piece]) + done)
        if state_of[TableStateAt.at] + MOST_ENTRY_BYTES + len(key) > len(out) or whole == len(blocks):
            break
        begin, at = state_of[TableStateAt.begin], state_of[TableStateAt.at]
        last_row, last_offset = state_of[TableStateAt.last_row], state_of[TableStateAt.last_offset]
        if last_row >= 0 and _is_full(at - begin + 4 * len(known) + 4, len(key), state_of[TableStateAt.since]):
            tail = encode_restarts(known)
            out[at : at + len(tail)] = np.frombuffer(tail, dtype=np.uint8)
            at += len(tail)
            blocks[whole] = begin, at, last_row, last_offset, row[piece], first[piece] + done
            whole += 1
            begin, last_row = at, -1
        shared = 0
        if last_row < 0:
            known, state_of[TableStateAt.since] = [0], 0
        elif state_of[TableStateAt.since] == RESTART_INTERVAL:
            known.append(at - begin)
            state_of[TableStateAt.since] = 0
        else:
            shared = shared_bytes(_internal_key(prefixes, last_row, last_offset), key)
        value = ctypes.string_at(int(address[piece]) + done * VALUE_SIZE, VALUE_SIZE)
        entry = varint(shared) + varint(len(key) - shared) + varint(VALUE_SIZE) + key[shared:] + value
        out[at : at + len(entry)] = np.frombuffer(entry, dtype=np.uint8)
        state_of[TableStateAt.begin], state_of[TableStateAt.at] = begin, at + len(entry)
        state_of[TableStateAt.last_row], state_of[TableStateAt.last_offset] = int(row[piece]), int(first[piece]) + done
        state_of[TableStateAt.done] += 1
        state_of[TableStateAt.since] += 1
        state_of[TableStateAt.entries] += 1
        state_of[TableStateAt.key_bytes] += len(key)
    state_of[TableStateAt.restarts] = len(known)
    restarts[: len(known)] = known
    state[:] = state_of
    return whole


def pack_values(sources: EntrySources, store_timestamp: Int64s, place: Int64s, out: NDArray[np.uint8]) -> None:
    """Put the values of entries (28 bytes each) into `out`, by queue and in log order within a queue.

    One place an entry, in log order, as `reput.kernels.pack.EntrySources` has them; only those with the flag IN_QUEUE
    give one. `place` says for each queue which number in `out` its first value gets, -1 for queues that are left out;
    afterwards it is the number after its last one.
    """
    position, size, queue, _, tags_code, flags = sources
    for n in np.flatnonzero(flags & IN_QUEUE).tolist():
        at = int(place[queue[n]])
        if at >= 0:
            entry = Entry(int(position[n]), int(size[n]), int(tags_code[n]))
            value = encode_value(entry, int(store_timestamp[n]))
            out[at * VALUE_SIZE : (at + 1) * VALUE_SIZE] = np.frombuffer(value, dtype=np.uint8)
            place[queue[n]] += 1


def _internal_key(prefixes: Prefixes, row: int, offset: int) -> bytes:
    return prefixes.key(row, offset) + INTERNAL_END


def _is_full(size: int, key_size: int, since: int) -> bool:
    """Return True if a block of `size` bytes ends before another entry, by RocksDB's rule."""
    after = size + key_size + VALUE_SIZE + 4 + len(varint(key_size)) + len(varint(VALUE_SIZE))
    if since == RESTART_INTERVAL:
        after += 4
    return size >= BLOCK_SIZE or (after > BLOCK_SIZE and size > BLOCK_FULL_FROM)


def hash_bytes(data: bytes) -> int:
    """XXH64 of some bytes, as int64."""
    value = xxhash64(data)
    return value - (1 << 64) if value >> 63 else value
