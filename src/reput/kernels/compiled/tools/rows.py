"""Rows found by a hash: the one open-addressing probe, and the table of queues that decoding fills.

A hash table holds row + 1 at each place (int32, 0 for a free place), and its length is a power of two. A probe goes
from the place that the hash names to the next one until it finds the row or a free place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reput.formats.topics.system_topics import SCHEDULE_TOPIC_UTF8
from reput.kernels.compiled.tools.hashing import java_hash_at
from reput.kernels.compiled.tools.jit import kernel
from reput.kernels.compiled.tools.memory import address_of, byte_at, int32_at, load_le64, word, word_address
from reput.kernels.layouts.columns import QueueTableAt, StateAt

_SCHEDULE_TOPIC = np.frombuffer(SCHEDULE_TOPIC_UTF8, dtype=np.uint8)


@kernel
def same_bytes(first, second, size):
    """Return whether `size` bytes at two addresses are equal."""
    n = 0
    if size < 8:
        while n < size:
            if byte_at(first + n) != byte_at(second + n):
                return False
            n += 1
        return True
    while n + 8 < size:
        if load_le64(first + n) != load_le64(second + n):
            return False
        n += 8
    # The last eight, some of them for the second time.
    return load_le64(first + size - 8) == load_le64(second + size - 8)


@kernel
def starts_with(begin, end, name):
    """Return whether [begin, end) begins with the bytes of `name`."""
    if end - begin < len(name):
        return False
    for n in range(len(name)):
        if byte_at(begin + n) != name[n]:
            return False
    return True


@kernel
def probe(hash_table, mask, keys, place, key):
    """Return the next row with this key, from `place` on, and its place; -1 and a free place if there is none.

    `hash_table` is the table's address, `keys` that of each row's key (uint64).
    """
    row = int32_at(hash_table, np.int64(place)) - 1
    while row >= 0 and load_le64(word_address(keys, row)) != key:
        place = place + np.uint64(1) & mask
        row = int32_at(hash_table, np.int64(place)) - 1
    return row, place


@kernel
def free_place(hash_table, mask, place):
    """Return the first free place of a hash table from `place` on."""
    while int32_at(hash_table, np.int64(place)) != 0:
        place = place + np.uint64(1) & mask
    return place


class RowPlaces(NamedTuple):
    """The addresses of a `QueueTable`, and the mask of its hash table: numbers cost nothing to pass."""

    hash_table: int
    mask: int
    hash_key: int
    queue_id: int
    topic_at: int
    topic_size: int
    names: int


@kernel
def row_places(queues):
    """Return the addresses of a `QueueTable`; its owner keeps the arrays."""
    return RowPlaces(
        address_of(queues.hash_table),
        np.uint64(len(queues.hash_table) - 1),
        address_of(queues.hash_key),
        address_of(queues.queue_id),
        address_of(queues.topic_at),
        address_of(queues.topic_size),
        address_of(queues.names),
    )


@kernel
def row_places_at(table):
    """Return the addresses of the table of queues whose record (`QUEUE_TABLE_LAYOUT`) is at an address."""
    return RowPlaces(
        word(table, QueueTableAt.hash_table_at),
        np.uint64(word(table, QueueTableAt.mask)),
        word(table, QueueTableAt.hash_key_at),
        word(table, QueueTableAt.queue_id_at),
        word(table, QueueTableAt.topic_at_at),
        word(table, QueueTableAt.topic_size_at),
        word(table, QueueTableAt.names_at),
    )


@kernel
def queue_key_of(begin, end, queue_id):
    """Mix a topic's bytes and a queue id into the 64 bits that lead to the queue's row."""
    key = np.uint64(queue_id) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(end - begin)
    at = begin
    while at + 8 <= end:
        key = (key ^ load_le64(at)) * np.uint64(0xFF51AFD7ED558CCD)
        key ^= key >> np.uint64(32)
        at += 8
    while at < end:
        key = (key ^ np.uint64(byte_at(at))) * np.uint64(0xFF51AFD7ED558CCD)
        at += 1
    return key ^ key >> np.uint64(29)


@kernel
def find_row(places, rows, begin, end, queue_id, key):
    """Return the row of a queue among the first `rows` rows, and its place; -1 and a free place if it has none.

    [begin, end) is the topic, `key` is what `queue_key_of` gives. A row past the first `rows` may be half written by
    another thread: only its key is looked at.
    """
    row, place = probe(places.hash_table, places.mask, places.hash_key, key & places.mask, key)
    while row >= 0 and not (
        row < rows
        and int32_at(places.queue_id, row) == queue_id
        and int32_at(places.topic_size, row) == end - begin
        and same_bytes(begin, places.names + int32_at(places.topic_at, row), end - begin)
    ):
        row, place = probe(places.hash_table, places.mask, places.hash_key, place + np.uint64(1) & places.mask, key)
    return row, place


@kernel
def add_row(queues, state, place, begin, end, queue_id, key):
    """Add a queue at the free place that `find_row` gave; return its row, -1 if the table or its names are full."""
    row, used, size = state[StateAt.queues], state[StateAt.names], end - begin
    if row >= len(queues.queue_id) or used + size > len(queues.names):
        return np.int64(-1)
    queues.hash_table[place] = row + 1
    queues.hash_key[row] = key
    queues.queue_id[row] = queue_id
    queues.topic_at[row] = used
    queues.topic_size[row] = size
    for n in range(size):
        queues.names[used + n] = byte_at(begin + n)
    queues.topic_hash[row] = np.int32(java_hash_at(begin, end, np.int64(0)) * 31 + 0x23 & 0xFFFFFFFF)
    queues.is_schedule[row] = size == len(_SCHEDULE_TOPIC) and starts_with(begin, end, _SCHEDULE_TOPIC)
    state[StateAt.queues], state[StateAt.names] = row + 1, used + size
    return row
