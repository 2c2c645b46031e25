"""The state of the kernel for RocksDB's tables between two calls, and its finished blocks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.formats.database.rocksdb_table import BLOCK_SIZE, INTERNAL_END, RESTART_INTERVAL
from reput.formats.layout import Field, Layout
from reput.formats.queue.rocksdb_consume_queue import VALUE_SIZE

KEY_END = 8 + len(INTERNAL_END)
"""Bytes of an internal key after its queue's prefix."""
MOST_RESTARTS = BLOCK_SIZE // (RESTART_INTERVAL * (VALUE_SIZE + len(INTERNAL_END))) + 2
"""The most restarts of a block: an entry has at least its value and the end of its key."""
MOST_ENTRY_BYTES = 3 * 5 + KEY_END + VALUE_SIZE + 4 * (MOST_RESTARTS + 2)
"""Bytes that an entry and the end of its block take at most, without the queue's prefix."""


TABLE_STATE_LAYOUT = Layout(
    "The state of the kernel that fills blocks; all words are 0 for a table that begins, but `last_row`, which is -1",
    "reput",
    [
        Field("piece", "q", "the piece that comes next"),
        Field("done", "q", "its entries that are in a block already"),
        Field("begin", "q", "the place in the output where the unfinished block begins"),
        Field("at", "q", "the place of that block's next byte"),
        Field("restarts", "q", "restarts of that block"),
        Field("since", "q", "entries of that block from its last restart on"),
        Field("last_row", "q", "the queue of its last entry, -1: it has none"),
        Field("last_offset", "q", "the queue offset of that entry"),
        Field("entries", "q", "entries of the table so far"),
        Field("key_bytes", "q", "bytes of their internal keys"),
    ],
    "=",
)
TABLE_BLOCK_LAYOUT = Layout(
    "A finished block",
    "reput",
    [
        Field("begin", "q", "the place in the output where it begins"),
        Field("end", "q", "the place after it"),
        Field("last_row", "q", "the queue of its last entry"),
        Field("last_offset", "q", "the queue offset of that entry"),
        Field("next_row", "q", "the queue of the entry after the block"),
        Field("next_offset", "q", "the queue offset of that entry"),
    ],
    "=",
)
TableStateAt, TableBlockAt = TABLE_STATE_LAYOUT.words, TABLE_BLOCK_LAYOUT.words


class Prefixes(NamedTuple):
    """The beginnings of queues' keys: that of queue r is `names[end[r] : end[r + 1]]` (uint8; int64, rows + 1)."""

    names: NDArray[np.uint8]
    end: NDArray[np.int64]

    @classmethod
    def of(cls, prefixes: list[bytes]) -> Prefixes:
        """Join the prefixes of some queues."""
        end = np.zeros(len(prefixes) + 1, dtype=np.int64)
        np.cumsum([len(prefix) for prefix in prefixes], out=end[1:])
        return cls(np.frombuffer(b"".join(prefixes), dtype=np.uint8), end)

    def longest(self) -> int:
        """Return the bytes of the longest one."""
        return int(np.diff(self.end).max(initial=0))

    def key(self, row: int, queue_offset: int) -> bytes:
        """Return the key of an entry."""
        return self.names[self.end[row] : self.end[row + 1]].tobytes() + queue_offset.to_bytes(8)


class EntryPieces(NamedTuple):
    """Consecutive entries of queues, in the order of their keys, one place a piece.

    int64 each: `row` the queue, `first` queue offset of the first entry, `entries` how many (at least one), `address`
    of their values in memory (28 bytes each). The maker of the pieces keeps that memory.
    """

    row: NDArray[np.int64]
    first: NDArray[np.int64]
    entries: NDArray[np.int64]
    address: NDArray[np.int64]
